//! `conclave list`.

use std::io::Write;

use comfy_table::{ColumnConstraint, Table};
use conclave_lab::entries::{Listed, list, mutants};

use crate::report::table;
use crate::{Done, Failure, Terminal, print_json};

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
    let only = args.family.as_deref();
    let listed = list(only, args.mutants)?;
    if args.json {
        print_json(&listed, out)?;
        return Ok(Done::Well);
    }
    let row = |listed: &Listed| match listed {
        Listed::Algorithm(entry) => {
            let title = match entry.mutant_of {
                Some(_) => format!("{} (mutant)", entry.title),
                None => entry.title.to_owned(),
            };
            [entry.id.into(), title, entry.summary.into(), entry.in_short.clone()]
        }
        Listed::Topic(topic) => {
            let note = "(explained only)".to_owned();
            [topic.id.into(), topic.title.into(), topic.summary.into(), note]
        }
    };
    let is_run = |listed: &&Listed| matches!(listed, Listed::Algorithm(_));
    let count = listed.iter().filter(is_run).count();
    let rows = listed.iter().map(row).collect();
    writeln!(out, "{}", to_table(rows, terminal).trim_fmt())?;
    let hidden = if args.mutants { 0 } else { mutants(only) };
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
