//! `conclave list`.

use std::io::Write;

use comfy_table::{ColumnConstraint, Table};
use conclave_lab::entries::{Listed, list, mutants};
use conclave_lab::{ListData, catalogue};

use crate::report::table;
use crate::terminal::{BOLD, DIM, NAME, paint};
use crate::{Done, Failure, Terminal, print_json};

/// A title that would have fewer characters than these is worth more than the model.
const TITLE: usize = 16;

/// Flags of `conclave list`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Only these families, such as mutex
    pub families: Vec<String>,
    /// Also the spoilt algorithms, which exist to be refuted
    #[arg(long, env = "CONCLAVE_MUTANTS")]
    pub mutants: bool,
    /// Say of each in a sentence what it does
    #[arg(long, short)]
    pub long: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// An entry as it is printed.
struct Line {
    family: &'static str,
    id: &'static str,
    title: String,
    summary: &'static str,
    model: String,
}

impl Line {
    fn of(listed: &Listed) -> Self {
        match listed {
            Listed::Algorithm(entry) => Self {
                family: entry.family,
                id: entry.id,
                title: match entry.mutant_of {
                    Some(_) => format!("{} (mutant)", entry.title),
                    None => entry.title.to_owned(),
                },
                summary: entry.summary,
                model: entry.in_short.clone(),
            },
            Listed::Topic(topic) => Self {
                family: topic.family,
                id: topic.id,
                title: topic.title.to_owned(),
                summary: topic.summary,
                model: "(explained only)".to_owned(),
            },
        }
    }
}

/// Prints the catalogue.
pub fn perform(args: &Args, terminal: &Terminal, out: &mut dyn Write) -> Result<Done, Failure> {
    let only = args.families.as_slice();
    let listed = list(only, args.mutants)?;
    if args.json {
        print_json(&ListData { entries: &listed }, out)?;
        return Ok(Done::Well);
    }
    let lines: Vec<Line> = listed.iter().map(Line::of).collect();
    if args.long {
        writeln!(out, "{}", to_table(lines, terminal).trim_fmt())?;
    } else {
        write!(out, "{}", by_family(&lines, terminal.width))?;
    }
    let count = listed.iter().filter(|listed| matches!(listed, Listed::Algorithm(_))).count();
    let hidden = if args.mutants { 0 } else { mutants(only) };
    write!(out, "{count} algorithms")?;
    if hidden > 0 {
        write!(out, "; {hidden} more with --mutants, which exist to be refuted")?;
    }
    writeln!(out, ".")?;
    let program = catalogue::program();
    writeln!(out, "`{program} explain ID` tells more, `{program} run ID` shows one at work.")?;
    Ok(Done::Well)
}

/// One line an entry, under the name of its family. What does not fit is cut off the title, then the
/// model is left out; an id is there to be copied, and is whole even where it is wider than the terminal.
fn by_family(lines: &[Line], width: usize) -> String {
    let widest = |of: fn(&Line) -> &str| {
        lines.iter().map(|line| of(line).chars().count()).max().unwrap_or_default()
    };
    let (id, title, model) =
        (widest(|line| line.id), widest(|line| &line.title), widest(|line| &line.model));
    let mut families: Vec<&str> = Vec::new();
    for line in lines {
        if !families.contains(&line.family) {
            families.push(line.family);
        }
    }
    // Two characters in front, two between columns.
    let left = width.saturating_sub(2 + id + 2);
    let with_model = left >= TITLE + 2 + model;
    let title = title.min(if with_model { left - 2 - model } else { left });
    let mut text = String::new();
    for family in families {
        text.push_str(&format!("{}\n", paint(BOLD, family)));
        for line in lines.iter().filter(|line| line.family == family) {
            let name = format!("{:<id$}", line.id);
            let shown = cut(&line.title, title);
            if with_model {
                let model = paint(DIM, &line.model);
                text.push_str(&format!("  {}  {shown:<title$}  {model}\n", paint(NAME, name)));
            } else if shown.is_empty() {
                text.push_str(&format!("  {}\n", paint(NAME, line.id)));
            } else {
                text.push_str(&format!("  {}  {shown}\n", paint(NAME, name)));
            }
        }
        text.push('\n');
    }
    text
}

/// `text`, or as much of it as fits, with a mark that there is more.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    cut.truncate(cut.trim_end().len());
    if width > 0 {
        cut.push('…');
    }
    cut
}

/// With summaries: four columns where there is room for them, else three.
fn to_table(lines: Vec<Line>, terminal: &Terminal) -> Table {
    let mut table = table(terminal);
    let wide = terminal.width >= 140;
    if wide {
        table.set_header(["id", "title", "summary", "model"]);
    } else {
        table.set_header(["id", "title and summary", "model"]);
    }
    for Line { id, title, summary, model, .. } in lines {
        if wide {
            table.add_row([id, &title, summary, &model]);
        } else {
            table.add_row([id, &format!("{title}: {summary}"), &model]);
        }
    }
    // An id is there to be copied.
    if let Some(ids) = table.column_mut(0) {
        ids.set_constraint(ColumnConstraint::ContentWidth);
    }
    table
}
