//! `conclave cut`: whether a cut of a recorded run is consistent, and what it is like.

use std::io::Write;
use std::path::PathBuf;

use conclave_lab::check::counted;
use conclave_lab::lattice::{
    ChannelData, CutReport, EventData, MessageData, NodeData, Scope, brief, cut, cut_in_words,
    events,
};

use super::lattice::{Recorded, read};
use crate::report::headline_of;
use crate::terminal::{BOLD, DIM, ERROR, GOOD, paint};
use crate::{Done, Failure, Terminal, print_json};

/// Flags of `conclave cut`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// A trace that `conclave run --trace` wrote, or a counter-example
    pub file: PathBuf,
    /// The cut: how many events of each node, or the number of a snapshot, #0. Without it, the
    /// events are listed
    #[arg(long, value_name = "p0:EVENTS,…|#SNAPSHOT")]
    pub at: Option<String>,
    /// Count control messages, such as markers, and the steps that they cause, too
    #[arg(long)]
    pub control: bool,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// Says whether a cut is consistent.
pub fn perform(args: &Args, terminal: &Terminal, out: &mut dyn Write) -> Result<Done, Failure> {
    let Recorded { trace, file } = read(&args.file)?;
    let scope = if args.control { Scope::Everything } else { Scope::Application };
    let Some(at) = &args.at else {
        let listed = events(&trace, scope);
        if args.json {
            print_json(&listed, out)?;
        } else {
            writeln!(out, "{}\n", headline_of(&file.spec))?;
            list(&listed.nodes, out)?;
        }
        return Ok(Done::Well);
    };
    let report = cut(&trace, Some(&file), scope, at)?;
    if args.json {
        print_json(&report, out)?;
    } else {
        writeln!(out, "{}\n", headline_of(&file.spec))?;
        print(&report, terminal, out)?;
    }
    Ok(Done::Well)
}

fn list(nodes: &[Vec<EventData>], out: &mut dyn Write) -> Result<(), Failure> {
    for (node, events) in nodes.iter().enumerate() {
        let count = counted(events.len() as u64, "event");
        writeln!(out, "{} {count}", paint(BOLD, format!("p{node}:")))?;
        for event in events {
            writeln!(out, "{:>6}  {}", event.number, event.what)?;
        }
    }
    Ok(())
}

fn print(report: &CutReport, terminal: &Terminal, out: &mut dyn Write) -> Result<(), Failure> {
    let at = paint(BOLD, cut_in_words(&report.cut));
    if report.consistent {
        writeln!(out, "{at} is {}", paint(GOOD, "a consistent cut"))?;
    } else {
        writeln!(out, "{at} is {}", paint(ERROR, "not consistent"))?;
        for torn in &report.broken_by {
            let said = torn.data.as_ref().map_or_else(|| torn.label.clone(), brief);
            writeln!(
                out,
                "  {} received {said} by its event {}, which {} sent by its event {}, outside",
                torn.to, torn.received, torn.from, torn.sent
            )?;
        }
        let (within, around) = (cut_in_words(&report.within), cut_in_words(&report.around));
        writeln!(out, "  consistent are {within} within it and {around} around it")?;
    }
    writeln!(out)?;
    for (node, &of) in report.state.nodes.iter().zip(&report.events) {
        let words = node.words();
        let name = paint(BOLD, format!("p{}", node.node));
        let after = paint(DIM, format!("after {} of {}", node.events, counted(of.into(), "event")));
        let colon = if words.is_empty() { "" } else { ": " };
        writeln!(out, "{name} {after}{colon}{words}")?;
    }
    for channel in &report.state.channels {
        writeln!(out, "{}", channel_words(channel, terminal.ascii))?;
    }
    if report.state.channels.is_empty() {
        writeln!(out, "all channels are empty")?;
    }
    Ok(())
}

/// What a node is at, unless there is nothing to say.
pub(super) fn node_words(node: &NodeData) -> Option<String> {
    let words = node.words();
    (!words.is_empty()).then(|| format!("p{}: {words}", node.node))
}

/// What is on its way from one node to another.
pub(super) fn channel_words(channel: &ChannelData, ascii: bool) -> String {
    let arrow = if ascii { "->" } else { "→" };
    let said: Vec<String> = channel.messages.iter().map(MessageData::words).collect();
    format!("channel {}{arrow}{}: {}", channel.from, channel.to, said.join(", "))
}
