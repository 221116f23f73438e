//! `conclave explain`.

use std::io::Write;

use conclave_lab::entries::{Explained, ExplainedTopic, Explanation, explain};
use conclave_lab::theory::{Row, Verdict};

use crate::markdown::render;
use crate::terminal::{BOLD, DIM, NAME, WARN, paint};
use crate::{Done, Failure, Terminal, print_json};

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
    let explanation = explain(&args.id)?;
    if args.json {
        print_json(&explanation, out)?;
        return Ok(Done::Well);
    }
    match &explanation {
        Explanation::Topic(ExplainedTopic { brief, explanation }) => {
            writeln!(out, "{} {}", paint(BOLD, brief.title), paint(NAME, brief.id))?;
            writeln!(out, "{}\n", brief.summary)?;
            write!(out, "{}", render(explanation, terminal.width))?;
        }
        Explanation::Algorithm(explained) => {
            write!(out, "{}", to_text(explained, terminal.width))?;
        }
    }
    Ok(Done::Well)
}

fn to_text(explained: &Explained, width: usize) -> String {
    let brief = &explained.brief;
    let mut text = format!("{} {}\n", paint(BOLD, brief.title), paint(NAME, brief.id));
    let mut add = |part: &str| text.push_str(part);
    add(&format!("{}\n", brief.summary));
    add(&render(&format!("Source: {}", explained.source), width));
    if let (Some(of), Some(breaks), Some(defect)) =
        (brief.mutant_of, brief.breaks, explained.defect)
    {
        let warning = format!("A spoilt {of}: {defect}. It breaks {breaks}.");
        add(&format!("\n{}\n", paint(WARN, warning)));
    }
    add(&format!("\n{}", render(&explained.explanation, width)));
    add(&heading("Model"));
    let model: Vec<String> = brief.model.iter().map(|s| format!("- {s}")).collect();
    add(&render(&model.join("\n"), width));
    if !explained.promises.is_empty() {
        add(&heading("Promises, in every run that keeps the model"));
        for promise in &explained.promises {
            let name = format!("{:<8}", promise.property);
            add(&format!("{} {}\n", paint(NAME, name), promise.meaning));
        }
    }
    if !explained.fails.is_empty() {
        add(&heading("Does not promise"));
        for failing in &explained.fails {
            let (property, why) = (failing.property, failing.why);
            add(&render(&format!("- {property} ({}): {why}", property.meaning()), width));
        }
    }
    if !explained.options.is_empty() {
        add(&heading("Options"));
        for option in &explained.options {
            let name = format!("--set {}={}", option.name, option.default);
            add(&format!("{}  {}\n", paint(NAME, name), option.help));
        }
    }
    if !explained.theory.is_empty() {
        add(&heading("Cost, case by case"));
        for row in &explained.theory {
            add(&theory_text(row, width));
        }
    }
    text
}

fn heading(title: &str) -> String {
    format!("\n{}\n\n", paint(BOLD, title))
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
