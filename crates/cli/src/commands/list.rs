//! `conclave list`.

use std::collections::BTreeSet;
use std::io::Write;

use conclave_algorithms::catalogue;
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
    let of_family =
        |info: &&Info| args.family.as_deref().is_none_or(|family| info.family() == family);
    let listed = catalogue::ALL.iter().copied().filter(of_family);
    let listed = listed.filter(|info| args.mutants || info.mutant.is_none());
    if args.json {
        let all: Vec<_> = listed.map(brief).collect();
        writeln!(out, "{:#}", json!(all))?;
        return Ok(Done::Well);
    }
    let mut table = table(terminal);
    table.set_header(["id", "title", "summary", "model"]);
    let mut count = 0;
    for info in listed {
        let title = match info.mutant {
            Some(_) => format!("{} (mutant)", info.title),
            None => info.title.to_owned(),
        };
        table.add_row([info.id, &title, info.summary, &in_short(&info.model)]);
        count += 1;
    }
    writeln!(out, "{}", table.trim_fmt())?;
    let hidden = catalogue::ALL.iter().filter(|info| of_family(info) && info.mutant.is_some());
    let hidden = if args.mutants { 0 } else { hidden.count() };
    write!(out, "{count} algorithms")?;
    if hidden > 0 {
        write!(out, "; {hidden} more with --mutants, which exist to be refuted")?;
    }
    writeln!(out, ". `conclave explain ID` tells more, `conclave run ID` shows one at work.")?;
    Ok(Done::Well)
}

fn known_family(family: &str) -> Result<(), Failure> {
    let families: BTreeSet<&str> = catalogue::ALL.iter().map(|info| info.family()).collect();
    if families.contains(family) {
        return Ok(());
    }
    let all = families.iter().copied().collect::<Vec<_>>().join(", ");
    let meant = match nearest(family, families.into_iter()).first() {
        Some(near) => format!("; did you mean {near}?"),
        None => String::new(),
    };
    Err(Failure::Usage(format!("no family is called {family:?}; there are {all}{meant}")))
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
    });
    words
}
