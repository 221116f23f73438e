//! `--budget-table`: which faults an algorithm bears, and where it stops being right.

use std::io::Write;

use anstyle::Style;
use conclave_check::{Budgets, CheckSpec, Judgement, Report, Stop, Timers, Verdict};
use conclave_protocol::{Channels, Detector, Info, Property, Timing};
use serde_json::{Value, json};

use super::grid::{Cell, grid};
use super::search::Search;
use super::text::{counted, describe, grouped};
use super::{Args, is_promised};
use crate::terminal::{BOLD, DIM, ERROR, GOOD, WARN, paint};
use crate::{Done, Failure, Terminal};

/// How many states each search visits, if nothing else is said.
const STATES: u64 = 300_000;
/// In systems of up to so many nodes, two faults of a kind are tried as well.
const SMALL: u32 = 3;

/// A row of the table.
struct Row {
    name: String,
    /// Whether the algorithm's model allows for it.
    within: bool,
    /// What a search found, if it came to that.
    report: Report,
}

/// A kind of fault: how it is called when there is one, and two, and how it is allowed.
type Kind = (&'static str, &'static str, fn(&mut CheckSpec, u8));

/// The kinds of faults that make a difference to such a system.
fn kinds(info: &Info, spec: &CheckSpec) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = vec![
        ("a crash", "two crashes", |spec, most| spec.budgets.crashes += most),
        ("a crash in the middle of a step", "two such crashes", |spec, most| {
            spec.budgets.crashes += most;
            spec.budgets.mid_step = true;
        }),
        ("a crash and recovery", "two crashes and recoveries", |spec, most| {
            spec.budgets.crashes += most;
            spec.budgets.recoveries += most;
        }),
        ("a crash with amnesia", "two crashes with amnesia", |spec, most| {
            spec.budgets.crashes += most;
            spec.budgets.amnesias += most;
        }),
        ("a lost message", "two lost messages", |spec, most| spec.budgets.losses += most),
        ("a repeated message", "two repeated messages", |spec, most| {
            spec.budgets.repeats += most;
        }),
    ];
    if spec.setup.n() > 1 {
        kinds.push(("a partition", "two partitions", |spec, most| {
            spec.budgets.partitions += most;
        }));
    }
    if info.model.detector != Detector::None {
        kinds.push(("a wrong suspicion", "two wrong suspicions", |spec, most| {
            spec.budgets.suspicions += most;
        }));
        kinds.push(("a crash nobody is told of", "two such crashes", |spec, most| {
            spec.budgets.crashes += most;
            spec.detector = false;
        }));
    }
    kinds
}

/// The systems that are checked, with what is special about each.
fn systems(info: &Info, base: &CheckSpec) -> Vec<(String, CheckSpec)> {
    let with = |name: &str, change: &dyn Fn(&mut CheckSpec)| {
        let mut spec = base.clone();
        change(&mut spec);
        (name.to_owned(), spec)
    };
    let first = if base.budgets == Budgets::default() { "nothing" } else { "nothing more" };
    let mut systems = vec![with(first, &|_| {})];
    if base.channels == Channels::Fifo {
        let reorder = |spec: &mut CheckSpec| spec.channels = Channels::Reliable;
        systems.push(with("messages overtake each other", &reorder));
    }
    if base.timers == Timers::Quiet && info.model.timing == Timing::Synchronous {
        let anytime = |spec: &mut CheckSpec| spec.timers = Timers::Anytime;
        systems.push(with("time-outs at any moment", &anytime));
    }
    let most = if base.setup.n() <= SMALL { 2 } else { 1 };
    for (one, two, change) in kinds(info, base) {
        for times in 1..=most {
            let name = if times == 1 { one } else { two };
            systems.push(with(name, &|spec| change(spec, times)));
        }
    }
    systems
}

/// Checks one system after the other, and prints what holds in each.
pub(super) fn perform(
    args: &Args,
    info: &'static Info,
    base: &CheckSpec,
    search: &Search,
    terminal: &Terminal,
    out: &mut dyn Write,
) -> Result<Done, Failure> {
    let mut base = base.clone();
    base.limits.states = base.limits.states.or(Some(STATES));
    let mut rows: Vec<Row> = Vec::new();
    let mut interrupted = false;
    for (name, spec) in systems(info, &base) {
        let searched = search.run(&spec, &name)?;
        interrupted |= searched.report.coverage.stop == Some(Stop::Asked);
        if interrupted {
            break;
        }
        let within = spec.beyond(info).is_empty();
        rows.push(Row { name, within, report: searched.report });
    }
    search.clear();
    if args.json {
        let rows: Vec<Value> = rows.iter().map(Row::json).collect();
        let value = json!({ "algorithm": info.id, "spec": base, "rows": rows });
        writeln!(out, "{value:#}")?;
    } else {
        writeln!(out, "{} {}\n", paint(BOLD, info.title), describe(info, &base))?;
        write!(out, "{}", text(info, &base, &rows, terminal))?;
    }
    let broken = |row: &Row| {
        let mut violations = row.report.violations();
        row.within && violations.any(|(property, _)| is_promised(info, property))
    };
    Ok(if rows.iter().any(broken) {
        Done::Violated
    } else if interrupted {
        Done::Interrupted
    } else {
        Done::Well
    })
}

impl Row {
    fn json(&self) -> Value {
        json!({
            "faults": self.name,
            "within_model": self.within,
            "states": self.report.coverage.states,
            "depth": self.report.coverage.depth,
            "stop": self.report.coverage.stop,
            "properties": self.report.verdicts.iter().map(brief).collect::<Vec<_>>(),
        })
    }
}

fn text(info: &Info, base: &CheckSpec, rows: &[Row], terminal: &Terminal) -> String {
    let mut header = vec!["at most", "model"];
    header.extend(base.properties.iter().map(|property| property.name()));
    header.push("states");
    let cells = |row: &Row| {
        let model = if row.within { "within" } else { "beyond" };
        let mut cells = vec![Cell::text(row.name.as_str()), Cell::text(model)];
        cells.extend(base.properties.iter().map(|&property| {
            let broken = row.within && is_promised(info, property);
            cell(&row.report, property, if broken { ERROR } else { WARN }, terminal)
        }));
        cells.push(Cell::figure(grouped(row.report.coverage.states)));
        cells
    };
    let rows: Vec<Vec<Cell>> = rows.iter().map(cells).collect();
    let table = grid(&header, &rows, terminal);
    let states = counted(base.limits.states.unwrap_or(STATES), "state");
    let limit = paint(DIM, format!("Each row: at most {states}."));
    format!("{table}\n{}{limit}\n", legend(terminal))
}

/// A verdict in a few characters; `bad` is how a violation looks.
pub(super) fn cell(report: &Report, property: Property, bad: Style, terminal: &Terminal) -> Cell {
    let [holds, violated, endless, open, vacuous] = signs(terminal);
    match report.verdict(property) {
        None => Cell::text(""),
        Some(Verdict::Holds) => Cell::text(holds).styled(GOOD),
        Some(Verdict::Vacuous { .. }) => Cell::text(vacuous).styled(WARN),
        Some(Verdict::Open) => Cell::text(format!("{open} {}", report.coverage.depth)).styled(WARN),
        Some(Verdict::Violated(violation)) => {
            let sign = if violation.loop_from.is_some() { endless } else { violated };
            Cell::text(format!("{sign} {}", violation.decisions.len())).styled(bad)
        }
    }
}

/// A verdict for programs, without the run that shows it.
pub(super) fn brief(judgement: &Judgement) -> Value {
    let mut value = json!({ "property": judgement.property });
    match &judgement.verdict {
        Verdict::Holds => value["verdict"] = json!("holds"),
        Verdict::Vacuous { .. } => value["verdict"] = json!("vacuous"),
        Verdict::Open => value["verdict"] = json!("open"),
        Verdict::Violated(violation) => {
            value["verdict"] = json!("violated");
            value["steps"] = json!(violation.decisions.len());
            value["why"] = json!(violation.why);
            value["endless"] = json!(violation.loop_from.is_some());
        }
    }
    value
}

/// What the signs mean.
pub(super) fn legend(terminal: &Terminal) -> String {
    let [holds, violated, endless, open, vacuous] = signs(terminal);
    let lines = [
        format!("{holds} holds in all runs"),
        format!("{violated} 9 violated after 9 steps, {endless} 9 by an endless run"),
        format!("{open} 9 holds in runs of up to 9 steps; the search was stopped"),
        format!("{vacuous} holds because nothing it speaks of happens"),
    ];
    lines.map(|line| format!("{}\n", paint(DIM, line))).concat()
}

/// Signs for: holds, violated, violated in an endless run, open, vacuous.
fn signs(terminal: &Terminal) -> [&'static str; 5] {
    match terminal.ascii {
        true => ["+", "x", "xx", "~", "-"],
        false => ["✓", "✗", "✗∞", "~", "–"],
    }
}
