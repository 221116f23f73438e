//! From what a user types to a run or a check.
//!
//! [`RunFlags`] and [`CheckFlags`] have a field for each flag of `conclave run` and `conclave
//! check`, with what it means if it is left out. A value is text that its type parses; if it cannot,
//! the error says what to type. In JSON the same values stand under the same names, so that a form
//! of a page says what a command line says: `{"nodes": 5, "delay": "exp:1ms", "crash": ["2@4"]}`.

mod check;
mod run;
mod system;
mod text;
mod times;
mod values;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

pub use check::CheckFlags;
pub use run::RunFlags;
pub use system::Attributes;
pub use times::{MeanRate, Span, Spans, Window};
pub use values::{
    AskAt, DelayModel, DetectorModel, GroupsWhile, LabelAt, Limit, NodeAt, NodeWhile, Nodes, Order,
    PairAt, Rounds, Setting, Share, Size, Slow,
};

/// The contents of the files that flags name, by the names they are given there.
pub type Files = BTreeMap<String, String>;

/// A flag and its value; those that say yes by being there have none.
pub type Flag = (String, Option<String>);

/// The flags that differ from what holds without any.
fn differing<T: Default + Serialize>(flags: &T) -> Vec<Flag> {
    let fields = |flags: &T| match serde_json::to_value(flags) {
        Ok(Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let usual = fields(&T::default());
    let mut found = Vec::new();
    for (name, value) in fields(flags) {
        if usual.get(&name) == Some(&value) {
            continue;
        }
        match value {
            Value::Array(values) => {
                found.extend(values.iter().map(|value| (name.clone(), Some(plain(value)))));
            }
            Value::Bool(_) => found.push((name, None)),
            value => found.push((name, Some(plain(&value)))),
        }
    }
    found
}

/// A value without the quotes of JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A command line of words, flags after them.
pub fn command<'a>(
    words: impl IntoIterator<Item = &'a str>,
    flags: impl IntoIterator<Item = Flag>,
) -> String {
    let mut line: Vec<String> = words.into_iter().map(quoted).collect();
    for (flag, value) in flags {
        line.push(format!("--{flag}"));
        line.extend(value.map(|value| quoted(&value)));
    }
    line.join(" ")
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
