//! `conclave replay`.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use conclave_lab::replay::replay;
use conclave_sim::{FileEvent, Replay, TraceFile};
use serde_json::json;

use super::run::{DiagramArgs, print};
use crate::terminal::{ERROR, GOOD, WARN, paint};
use crate::{Done, Failure, Terminal, print_json};

/// Flags of `conclave replay`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// A trace that `conclave run --trace` wrote, or a counter-example
    pub file: PathBuf,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// How the diagram looks.
    #[command(flatten)]
    pub diagram: DiagramArgs,
}

/// Runs a trace's specification again and compares what happens, event by event.
pub fn perform(args: &Args, terminal: &Terminal, out: &mut dyn Write) -> Result<Done, Failure> {
    let path = args.file.clone();
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => return Err(Failure::File { path, error }),
    };
    let file = match TraceFile::parse(&text) {
        Ok(file) => file,
        Err(error) => return Err(Failure::Trace { path, error }),
    };
    let replayed = replay(&file)?;
    let report = replayed.report();
    let done = if replayed.is_identical() { Done::Well } else { Done::Violated };
    if args.json {
        print_json(&replayed.data(&report), out)?;
        return Ok(done);
    }
    print(&report, &args.diagram, terminal, out)?;
    if let Some(verdict) = &file.verdict {
        writeln!(out, "\n{} {verdict}", paint(WARN, "shows:"))?;
    }
    match &replayed.same {
        Replay::Identical { events } => {
            let word = paint(GOOD, "identical:");
            writeln!(out, "\n{word} all {events} events are as recorded")?;
        }
        Replay::Differs { event, recorded, replayed } => {
            let word = paint(ERROR, format!("different from event {event} on:"));
            writeln!(out, "\n{word} the file was changed, or written by another version")?;
            writeln!(out, "  recorded {}", said(recorded.as_deref()))?;
            writeln!(out, "  replayed {}", said(replayed.as_deref()))?;
        }
    }
    Ok(done)
}

fn said(event: Option<&FileEvent>) -> String {
    event.map_or_else(|| "nothing more".to_owned(), |event| json!(event).to_string())
}
