//! `conclave graph`.

use std::collections::BTreeMap;
use std::io::Write;

use conclave_client::view::{WaitGraph, Who};
use serde_json::json;

use crate::service::{ServiceArgs, label, plural, text, who};
use crate::terminal::{ERROR, GOOD, paint};
use crate::{Done, Failure};

/// What to know, for `--help`.
pub const HELP: &str = "\
Examples:
  conclave graph                              who waits for whom
  conclave graph --dot | dot -Tsvg > waits.svg
  conclave graph --json | jq '.stuck'         who can never go on by itself";

/// Flags of `conclave graph`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Print it for Graphviz
    #[arg(long, env = "CONCLAVE_DOT", conflicts_with = "json")]
    pub dot: bool,
    /// How a node is reached.
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// Shows who waits for whom.
pub fn perform(args: &Args, out: &mut dyn Write) -> Result<Done, Failure> {
    let graph = args.service.ask(async |client| client.graph().await)?;
    if args.service.json {
        writeln!(out, "{:#}", json!(graph))?;
    } else if args.dot {
        dot(&graph, out)?;
    } else {
        print(&graph, out)?;
    }
    Ok(Done::Well)
}

fn print(graph: &WaitGraph, out: &mut dyn Write) -> Result<(), Failure> {
    if graph.waits.is_empty() {
        writeln!(out, "no session waits")?;
        return Ok(());
    }
    for edge in &graph.waits {
        writeln!(out, "{}", label(edge))?;
    }
    if graph.stuck.is_empty() {
        let waits = plural(graph.waits.len() as u64, "wait");
        writeln!(out, "{} {waits}", paint(GOOD, "no deadlock in"))?;
        return Ok(());
    }
    writeln!(out, "{}", paint(ERROR, "deadlock: these can never go on"))?;
    for one in &graph.stuck {
        writeln!(out, "  {}", who(Some(one)))?;
    }
    writeln!(out, "  end one of them: conclave expel SESSION --reason TEXT")?;
    Ok(())
}

/// By which a thread of control is known in a drawing.
fn id(who: &Who) -> (u64, u32) {
    (who.session, who.owner)
}

fn dot(graph: &WaitGraph, out: &mut dyn Write) -> Result<(), Failure> {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let edges = graph
        .waits
        .iter()
        .filter_map(|edge| Some((edge.waiter.as_ref()?, edge.on.as_ref()?, edge)));
    let edges: Vec<_> = edges.collect();
    let nodes = edges.iter().flat_map(|(waiter, on, _)| [*waiter, *on]).chain(&graph.stuck);
    let nodes: BTreeMap<_, _> = nodes.map(|one| (id(one), one)).collect();
    let stuck: Vec<_> = graph.stuck.iter().map(id).collect();
    writeln!(out, "digraph waits {{\n  rankdir=LR;\n  node [shape=box];")?;
    for ((session, owner), one) in &nodes {
        let color =
            if stuck.contains(&(*session, *owner)) { ", color=red, penwidth=2" } else { "" };
        writeln!(out, "  s{session}_{owner} [label={}{color}];", quoted(&who(Some(one))))?;
    }
    for (waiter, on, edge) in edges {
        let ((from, thread), (to, other)) = (id(waiter), id(on));
        let style = if edge.holds { "" } else { ", style=dashed" };
        let name = quoted(&text(&edge.lock));
        writeln!(out, "  s{from}_{thread} -> s{to}_{other} [label={name}{style}];")?;
    }
    writeln!(out, "}}")?;
    Ok(())
}
