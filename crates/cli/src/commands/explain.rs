//! `conclave explain`.

use std::io::Write;

use conclave_algorithms::catalogue;
use conclave_protocol::Info;
use serde_json::{Value, json};

use super::list;
use crate::markdown::render;
use crate::simulate::nearest;
use crate::terminal::{BOLD, DIM, NAME, WARN, paint};
use crate::theory::{Row, Verdict, rows_of};
use crate::{Done, Failure, Terminal, find};

/// Flags of `conclave explain`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The algorithm, such as mutex/ricart-agrawala; `conclave list` shows all
    pub id: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Prints what is known about an algorithm.
pub fn perform(args: &Args, terminal: &Terminal, out: &mut dyn Write) -> Result<Done, Failure> {
    if let Some(topic) = catalogue::topic(&args.id) {
        if args.json {
            let mut value = list::brief_topic(topic);
            value["explanation"] = json!(topic.text);
            writeln!(out, "{value:#}")?;
        } else {
            writeln!(out, "{} {}", paint(BOLD, topic.title), paint(NAME, topic.id))?;
            writeln!(out, "{}\n", topic.summary)?;
            write!(out, "{}", render(topic.text, terminal.width))?;
        }
        return Ok(Done::Well);
    }
    let info = match find(&args.id) {
        Err(Failure::UnknownId { id, .. }) => {
            let algorithms = catalogue::ALL.iter().map(|info| info.id);
            let ids = algorithms.chain(catalogue::TOPICS.iter().map(|topic| topic.id));
            let nearest = nearest(&id, ids);
            return Err(Failure::UnknownId { id, nearest });
        }
        found => found?,
    };
    if args.json {
        writeln!(out, "{:#}", to_json(info))?;
    } else {
        write!(out, "{}", to_text(info, terminal.width))?;
    }
    Ok(Done::Well)
}

fn to_text(info: &Info, width: usize) -> String {
    let mut text = format!("{} {}\n", paint(BOLD, info.title), paint(NAME, info.id));
    let mut add = |part: &str| text.push_str(part);
    add(&format!("{}\n", info.summary));
    add(&render(&format!("Source: {}", info.source), width));
    if let Some(mutant) = info.mutant {
        let warning =
            format!("A spoilt {}: {}. It breaks {}.", mutant.of, mutant.defect, mutant.breaks);
        add(&format!("\n{}\n", paint(WARN, warning)));
    }
    add(&format!("\n{}", render(&info.explanation(), width)));
    add(&heading("Model"));
    let model: Vec<String> = list::in_words(&info.model).iter().map(|s| format!("- {s}")).collect();
    add(&render(&model.join("\n"), width));
    if !info.holds.is_empty() {
        add(&heading("Promises, in every run that keeps the model"));
        for property in info.holds {
            add(&format!("{} {}\n", paint(NAME, format!("{property:<8}")), property.meaning()));
        }
    }
    if !info.fails.is_empty() {
        add(&heading("Does not promise"));
        for (property, why) in info.fails {
            add(&render(&format!("- {property} ({}): {why}", property.meaning()), width));
        }
    }
    if !info.options.is_empty() {
        add(&heading("Options"));
        for option in info.options {
            let name = format!("--set {}={}", option.name, option.default);
            add(&format!("{}  {}\n", paint(NAME, name), option.help));
        }
    }
    let rows = theory_rows(info);
    if !rows.is_empty() {
        add(&heading("Cost, case by case"));
        for row in &rows {
            add(&theory_text(row, width));
        }
    }
    text
}

fn heading(title: &str) -> String {
    format!("\n{}\n\n", paint(BOLD, title))
}

/// The rows of the theory about this algorithm; about the sound one, for a mutant.
fn theory_rows(info: &Info) -> Vec<&'static Row> {
    rows_of(info.mutant.map_or(info.id, |mutant| mutant.of)).collect()
}

fn theory_text(row: &Row, width: usize) -> String {
    let mut text = format!("{}: {}\n", paint(NAME, &row.scenario), row.given);
    for (quantity, formula) in row.formulas() {
        text.push_str(&format!("  {:<22} {formula}\n", quantity.replace('_', " ")));
    }
    let mut add = |paragraph: &str| {
        let lines = render(paragraph, width.saturating_sub(2));
        text.extend(lines.lines().map(|line| format!("  {}\n", paint(DIM, line))));
    };
    for claim in row.claims.iter().filter(|claim| claim.says_something()) {
        let worth = match (claim.verdict(), claim.remark()) {
            (Verdict::Remark | Verdict::Conditional, Some(remark)) => remark.to_owned(),
            (verdict, Some(remark)) => format!("{}: {remark}", verdict.meaning()),
            (verdict, None) => verdict.meaning().to_owned(),
        };
        let (document, sign) = (claim.document(), claim.verdict().sign());
        let (quantity, formula) = (&claim.quantity, &claim.formula);
        add(&format!("- lecture {document} says {quantity} = {formula}: {sign} {worth}"));
    }
    for note in [&row.notes, &row.problems] {
        if !note.is_empty() {
            add(note);
        }
    }
    text
}

fn to_json(info: &Info) -> Value {
    let mut value = list::brief(info);
    value["source"] = json!(info.source);
    value["explanation"] = json!(info.explanation());
    value["promises"] = info
        .holds
        .iter()
        .map(|property| json!({ "property": property, "meaning": property.meaning() }))
        .collect();
    value["fails"] = info
        .fails
        .iter()
        .map(|(property, why)| json!({ "property": property, "why": why }))
        .collect();
    value["options"] = info
        .options
        .iter()
        .map(
            |option| json!({ "name": option.name, "default": option.default, "help": option.help }),
        )
        .collect();
    value["defect"] = json!(info.mutant.map(|mutant| mutant.defect));
    value["theory"] = json!(theory_rows(info));
    value
}
