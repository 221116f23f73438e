//! The program as tests start it.

#![allow(dead_code, reason = "each test uses its part")]

pub(crate) mod node;

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

/// Runs the program to its end.
pub(crate) fn conclave(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conclave"));
    // What happens to be set where the tests run is none of their business.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CONCLAVE_")) {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C.UTF-8").args(args).output().expect("the program starts")
}

/// What it printed.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("the program prints UTF-8")
}

/// What it complained about.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("the program prints UTF-8")
}

/// Runs the program, which has to end with `code`, and returns what it prints.
pub(crate) fn ends_with(code: i32, args: &[&str]) -> String {
    let output = conclave(args);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(code), "{args:?}\n{text}\n{}", stderr(&output));
    text
}

/// The program has to refuse with `code` and one line that contains `text`.
pub(crate) fn refuses(code: i32, args: &[&str], text: &str) {
    let output = conclave(args);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{args:?}\n{said}");
    assert!(said.contains(text), "{args:?} should say {text:?}, and says {said:?}");
    assert_eq!(stdout(&output), "", "{args:?} prints nothing before it refuses");
    if code != 2 {
        assert_eq!(said.trim_end().lines().count(), 1, "one line: {said:?}");
    }
}

/// What it prints, as JSON.
pub(crate) fn json(args: &[&str]) -> Value {
    serde_json::from_str(&stdout(&conclave(args))).expect("the output is JSON")
}

/// A file to write to.
pub(crate) fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}
