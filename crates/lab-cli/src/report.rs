//! A run as text: what it was, what it cost, and which properties held.

use std::fmt::Write;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use conclave_lab::report::{Claim, Judged, Measured, Report, claim, describe, in_units, number};
use conclave_lab::theory::fit::{About, Fit};
use conclave_lab::{find, reach};
use conclave_protocol::{Property, Time};
use conclave_sim::{End, RunSpec, Tracing, Verdict};

use crate::Terminal;
use crate::terminal::{BOLD, DIM, ERROR, GOOD, WARN, paint};

/// One line: what was run.
pub fn headline(report: &Report<'_>) -> String {
    format!("{} {}", paint(BOLD, report.info.title), describe(report.info, report.spec))
}

/// The same of a specification; that of an algorithm which this program does not know is named only.
pub(crate) fn headline_of(spec: &RunSpec) -> String {
    match find(&spec.algorithm) {
        Ok(info) => format!("{} {}", paint(BOLD, info.title), describe(info, spec)),
        Err(_) => paint(BOLD, &spec.algorithm),
    }
}

/// So many recorded states are shown.
const SHOWN: usize = 24;

/// The cost table, beside the theory's figures where there are some.
pub fn cost_table(report: &Report<'_>, terminal: &Terminal) -> String {
    let mut table = table(terminal);
    let mut figures = report.figures();
    figures.extend(memory(report));
    let beside: Vec<String> =
        figures.iter().map(|measured| beside(report, measured, terminal)).collect();
    let theory = report.theory.as_ref().filter(|_| beside.iter().any(|text| !text.is_empty()));
    let mut header = vec!["cost", "measured"];
    header.extend(theory.map(|_| "theory"));
    table.set_header(header);
    for (measured, beside) in figures.into_iter().zip(beside) {
        let mut row = vec![measured.name.to_owned(), measured.text];
        row.extend(theory.map(|_| beside));
        table.add_row(row);
    }
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = format!("{}\n", table.trim_fmt());
    if !report.costs.by_label.is_empty() {
        let labels = report.costs.by_label.iter().map(|(name, count)| format!("{name} {count}"));
        let _ = writeln!(text, "messages by name: {}", labels.collect::<Vec<_>>().join(", "));
    }
    if let Some(Fit { row, about, .. }) = theory {
        let load = match about {
            About::Each if row.scenario != "saturated" => "; the same under any load",
            About::AtMost if row.scenario == "contended-bound" => "",
            About::AtMost => "; under load no more",
            _ => "",
        };
        let _ = writeln!(text, "theory: {row} ({}{load})", row.given);
    }
    text
}

/// What theory says about a figure: the formula, its value, and whether it came out.
fn beside(report: &Report<'_>, measured: &Measured, terminal: &Terminal) -> String {
    let Some(expected) = report.expected(measured.key) else { return String::new() };
    let agrees = measured.value.is_some_and(|value| expected.agrees(value));
    let (formula, bound) = (expected.formula, expected.bound);
    let figure = number(expected.value);
    let figure = if formula == figure { figure } else { format!("{formula} = {figure}") };
    let most = match (bound, terminal.ascii) {
        (false, _) => "",
        (true, true) => "<= ",
        (true, false) => "≤ ",
    };
    let sign = match (agrees, terminal.ascii) {
        (false, _) => "",
        (true, true) => " ok",
        (true, false) => " ✓",
    };
    format!("{most}{figure}{}", paint(GOOD, sign))
}

/// The verdict on each property, in words.
pub fn verdicts(report: &Report<'_>, terminal: &Terminal) -> String {
    let mut text = String::new();
    for judged in &report.judged {
        let Judged { property, verdict, claim } = judged;
        let said = (property.name(), property.meaning());
        text.push_str(&verdict_line(report, said, verdict, claim, terminal));
    }
    if let Some(verdict) = &report.reach {
        let claim = claim(report.info, Property::Cut);
        let said = (reach::NAME, reach::MEANING);
        text.push_str(&verdict_line(report, said, verdict, &claim, terminal));
    }
    if let Some((found, wanted)) = report.superpeers() {
        let (tick, cross) = if terminal.ascii { ("+", "x") } else { ("✓", "✗") };
        let _ = writeln!(text, "{}", paint(BOLD, "superpeers"));
        for (well, line) in found.judged(wanted) {
            let mark = if well { paint(GOOD, tick) } else { paint(ERROR, cross) };
            let _ = writeln!(text, "{mark} {line}");
        }
    }
    let shown = report.shown();
    if !shown.is_empty() {
        let _ = writeln!(text, "{}", paint(BOLD, "recorded"));
    }
    for (_, _, words) in shown.iter().take(SHOWN) {
        let words = if terminal.ascii { words.replace('→', "->") } else { words.clone() };
        let _ = writeln!(text, "  {words}");
    }
    if let Some(more) = shown.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        let _ = writeln!(text, "{}", paint(DIM, format!("  and {more} more; --json has all")));
    }
    if let Some(mutant) = report.info.mutant {
        let _ =
            writeln!(text, "{}", paint(DIM, format!("A spoilt {}: {}.", mutant.of, mutant.defect)));
    }
    let end = match report.outcome.trace.end {
        End::Quiet | End::Served => return text,
        End::TimeLimit => "The run was cut off: the time was up; --until gives it more.",
        End::EventLimit => {
            "The run was cut off: the number of events was reached; --events allows more."
        }
        End::Decisions => "The run ends with its last decision; more could have followed.",
    };
    let _ = writeln!(text, "{}", paint(DIM, end));
    text
}

/// What is said of a property, which has a name and a meaning.
fn verdict_line(
    report: &Report<'_>,
    (name, meaning): (&str, &str),
    verdict: &Verdict,
    claim: &Claim,
    terminal: &Terminal,
) -> String {
    let (tick, cross) = if terminal.ascii { ("+", "x") } else { ("✓", "✗") };
    let unit = report.spec.setup.delay;
    let (mark, word, said) = match verdict {
        Verdict::Held => (paint(GOOD, tick), paint(GOOD, "held    "), meaning.to_owned()),
        Verdict::Violated { record, why } => {
            let at = report.outcome.trace.records.get(*record).map_or(String::new(), |event| {
                format!(" (event {record}, at {} T)", in_units(event.at - Time::ZERO, unit))
            });
            (paint(ERROR, cross), paint(ERROR, "VIOLATED"), format!("{why}{at}"))
        }
        Verdict::Vacuous { why } => (paint(DIM, "-"), paint(DIM, "vacuous "), why.clone()),
        Verdict::Open { why } => (paint(WARN, "?"), paint(WARN, "open    "), why.clone()),
    };
    let note = match (verdict.is_violated(), claim) {
        (true, Claim::Promised | Claim::Spoilt) if !report.beyond.is_empty() => {
            " (outside its model)".to_owned()
        }
        (true, Claim::Spoilt) => " (as the sound algorithm never does)".to_owned(),
        (true, Claim::Fails(why)) => format!(" (known: {why})"),
        (true, Claim::None) => " (not promised)".to_owned(),
        (false, Claim::Fails(_) | Claim::None) => " (this time; not promised)".to_owned(),
        (false, Claim::Spoilt) => " (this time; it is spoilt)".to_owned(),
        (_, Claim::Promised) => String::new(),
    };
    format!("{mark} {name:<8} {word} {said}{}\n", paint(DIM, note))
}

/// How much memory a run took that was not recorded, where the system tells.
fn memory(report: &Report<'_>) -> Option<Measured> {
    let bytes = memory_peak().filter(|_| report.outcome.trace.tracing < Tracing::Events)?;
    let text = format!("{} MiB", bytes >> 20);
    Some(Measured { key: "", name: "memory of the program at most", text, value: None })
}

/// A table without lines between its rows.
pub fn table(terminal: &Terminal) -> Table {
    let mut table = Table::new();
    table
        .load_preset(if terminal.ascii { ASCII_TABLE } else { presets::UTF8_HORIZONTAL_ONLY })
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(terminal.width).unwrap_or(u16::MAX));
    if !terminal.ascii {
        // A line under the heading is enough.
        for part in [
            comfy_table::TableComponent::HorizontalLines,
            comfy_table::TableComponent::MiddleIntersections,
            comfy_table::TableComponent::TopBorder,
            comfy_table::TableComponent::TopBorderIntersections,
            comfy_table::TableComponent::BottomBorder,
            comfy_table::TableComponent::BottomBorderIntersections,
        ] {
            table.remove_style(part);
        }
    }
    table
}

/// The most memory that the program has had, where the system tells.
fn memory_peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// A line of dashes under the heading, and nothing else.
const ASCII_TABLE: &str = "     --            ";
