//! `conclave list`.

use std::collections::BTreeSet;
use std::io::Write;

use comfy_table::{ColumnConstraint, Table};
use conclave_algorithms::catalogue::{self, Topic};
use conclave_protocol::{Channels, Crashes, Detector, Info, Links, Model, Timing};
use serde_json::json;

use crate::report::table;
use crate::simulate::nearest;
use crate::{Done, Failure, Terminal};

/// Flags of `conclave list`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Only this family, such as mutex
    pub family: Option<String>,
    /// Also the spoilt algorithms, which exist to be refuted
    #[arg(long, env = "CONCLAVE_MUTANTS")]
    pub mutants: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Prints the catalogue.
pub fn perform(args: &Args, terminal: &Terminal, out: &mut dyn Write) -> Result<Done, Failure> {
    if let Some(family) = &args.family {
        known_family(family)?;
    }
    let wanted = |family: &str| args.family.as_deref().is_none_or(|only| only == family);
    let of_family = |info: &&Info| wanted(info.family());
    let listed = catalogue::ALL.iter().copied().filter(of_family);
    let topics = || catalogue::TOPICS.iter().filter(|topic| wanted(family(topic.id)));
    let listed = listed.filter(|info| args.mutants || info.mutant.is_none());
    if args.json {
        let all: Vec<_> = listed.map(brief).chain(topics().map(brief_topic)).collect();
        writeln!(out, "{:#}", json!(all))?;
        return Ok(Done::Well);
    }
    let mut rows: Vec<[String; 4]> = Vec::new();
    for info in listed {
        let title = match info.mutant {
            Some(_) => format!("{} (mutant)", info.title),
            None => info.title.to_owned(),
        };
        rows.push([info.id.into(), title, info.summary.into(), in_short(&info.model)]);
    }
    let count = rows.len();
    rows.extend(topics().map(|topic| {
        [topic.id.into(), topic.title.into(), topic.summary.into(), "(explained only)".into()]
    }));
    writeln!(out, "{}", to_table(rows, terminal).trim_fmt())?;
    let hidden = catalogue::ALL.iter().filter(|info| of_family(info) && info.mutant.is_some());
    let hidden = if args.mutants { 0 } else { hidden.count() };
    write!(out, "{count} algorithms")?;
    if hidden > 0 {
        write!(out, "; {hidden} more with --mutants, which exist to be refuted")?;
    }
    writeln!(out, ". `conclave explain ID` tells more, `conclave run ID` shows one at work.")?;
    Ok(Done::Well)
}

/// Four columns where there is room for them, else three.
fn to_table(rows: Vec<[String; 4]>, terminal: &Terminal) -> Table {
    let mut table = table(terminal);
    let wide = terminal.width >= 140;
    if wide {
        table.set_header(["id", "title", "summary", "model"]);
    } else {
        table.set_header(["id", "title and summary", "model"]);
    }
    for [id, title, summary, model] in rows {
        if wide {
            table.add_row([id, title, summary, model]);
        } else {
            table.add_row([id, format!("{title}: {summary}"), model]);
        }
    }
    // An id is there to be copied.
    if let Some(ids) = table.column_mut(0) {
        ids.set_constraint(ColumnConstraint::ContentWidth);
    }
    table
}

/// The part of an id before the slash.
fn family(id: &str) -> &str {
    id.split('/').next().unwrap_or(id)
}

/// A topic, for programs.
pub(crate) fn brief_topic(topic: &Topic) -> serde_json::Value {
    json!({
        "id": topic.id,
        "family": family(topic.id),
        "title": topic.title,
        "summary": topic.summary,
        "topic": true,
    })
}

fn known_family(name: &str) -> Result<(), Failure> {
    let algorithms = catalogue::ALL.iter().map(|info| info.family());
    let topics = catalogue::TOPICS.iter().map(|topic| family(topic.id));
    let families: BTreeSet<&str> = algorithms.chain(topics).collect();
    if families.contains(name) {
        return Ok(());
    }
    let all = families.iter().copied().collect::<Vec<_>>().join(", ");
    let meant = match nearest(name, families.into_iter()).first() {
        Some(near) => format!("; did you mean {near}?"),
        None => String::new(),
    };
    Err(Failure::Usage(format!("no family is called {name:?}; there are {all}{meant}")))
}

/// An entry of the catalogue, for programs.
pub(crate) fn brief(info: &Info) -> serde_json::Value {
    json!({
        "id": info.id,
        "family": info.family(),
        "title": info.title,
        "summary": info.summary,
        "model": in_words(&info.model),
        "holds": info.holds,
        "mutant_of": info.mutant.map(|mutant| mutant.of),
        "breaks": info.mutant.map(|mutant| mutant.breaks),
    })
}

/// The model in a few words, what is usual left out.
pub(crate) fn in_short(model: &Model) -> String {
    let mut words = vec![match model.channels {
        Channels::Lossy => "lossy",
        Channels::Reliable => "reliable",
        Channels::Fifo => "fifo",
    }];
    words.extend(match model.links {
        Links::Complete => None,
        Links::Ring => Some("ring"),
        Links::Tree => Some("tree"),
        Links::Graph => Some("graph"),
        Links::Space => Some("space"),
        Links::Keys => Some("keys"),
    });
    words.extend(match model.timing {
        Timing::Asynchronous => None,
        Timing::Synchronous => Some("synchronous"),
    });
    words.extend(match model.crashes {
        Crashes::None => None,
        Crashes::Stop => Some("crashes"),
        Crashes::Recover => Some("recovery"),
        Crashes::Amnesia => Some("amnesia"),
    });
    words.extend(model.partitions.then_some("partitions"));
    words.extend(match model.detector {
        Detector::None => None,
        Detector::Perfect => Some("perfect detector"),
        Detector::Eventual => Some("eventual detector"),
    });
    words.join(", ")
}

/// The model as sentences.
pub(crate) fn in_words(model: &Model) -> Vec<&'static str> {
    let mut words = vec![match model.channels {
        Channels::Lossy => "Messages may be lost, repeated and reordered.",
        Channels::Reliable => "Every message arrives once; messages may overtake each other.",
        Channels::Fifo => "Every message arrives once, in the order sent on its link (FIFO).",
    }];
    words.push(match model.timing {
        Timing::Asynchronous => "Messages may take any time; safety depends on no timer.",
        Timing::Synchronous => "Messages take at most T, a known time, and timers rely on it.",
    });
    words.push(match model.crashes {
        Crashes::None => "Nodes do not crash.",
        Crashes::Stop => "A node may stop for good.",
        Crashes::Recover => "A node may stop and boot again with what it saved.",
        Crashes::Amnesia => "A node may stop and boot again having forgotten everything.",
    });
    words.push(if model.partitions {
        "Safety survives a partition of the network."
    } else {
        "The network does not fall apart."
    });
    words.extend(match model.detector {
        Detector::None => None,
        Detector::Perfect => {
            Some("A failure detector suspects a node after it has crashed, surely, and never else.")
        }
        Detector::Eventual => Some(
            "A failure detector suspects every crashed node in the end, and is wrong only for a while.",
        ),
    });
    words.push(match model.links {
        Links::Complete => "Every node has a link with every other.",
        Links::Ring => "Nodes send along a ring, each to the next.",
        Links::Tree => "Nodes send along the edges of a tree.",
        Links::Graph => "Nodes send along the edges of a connected graph.",
        Links::Space => "Nodes have places, and send along the edges of a connected graph.",
        Links::Keys => "Nodes own keys of a ring, and find their way to the owner of any key.",
    });
    words
}
