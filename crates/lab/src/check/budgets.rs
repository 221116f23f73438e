//! Which faults an algorithm bears, and where it stops being right.

use conclave_check::{Budgets, CheckSpec, Report, Stop, Timers};
use conclave_protocol::{Channels, Detector, Info, Timing};
use serde::Serialize;

use super::{Ending, Searcher, VerdictData, is_promised};
use crate::Refusal;

/// How many states each search visits, if nothing else is said.
pub const STATES: u64 = 300_000;
/// In systems of up to so many nodes, two faults of a kind are tried as well.
const SMALL: u32 = 3;

/// What holds in one system after the other.
#[derive(Debug)]
pub struct Table {
    /// The algorithm.
    pub info: &'static Info,
    /// The system without further faults.
    pub base: CheckSpec,
    /// What was found.
    pub rows: Vec<Row>,
    /// Whether it was stopped before it was done.
    pub interrupted: bool,
}

/// A row of the table.
#[derive(Debug)]
pub struct Row {
    /// What may go wrong.
    pub name: String,
    /// Whether the algorithm's model allows for it.
    pub within: bool,
    /// What a search found.
    pub report: Report,
}

/// The table for programs: what `check --budget-table --json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct TableData<'a> {
    /// The algorithm's id.
    pub algorithm: &'static str,
    /// The system without further faults.
    pub spec: &'a CheckSpec,
    /// A system each.
    pub rows: Vec<RowData<'a>>,
}

/// A system, and what holds in it.
#[derive(Clone, Debug, Serialize)]
pub struct RowData<'a> {
    /// What may go wrong.
    pub faults: &'a str,
    /// Whether the algorithm's model allows for it.
    pub within_model: bool,
    /// Different states visited.
    pub states: u64,
    /// Steps to the state furthest from the beginning.
    pub depth: u32,
    /// Why the search ended before it was done, if it did.
    pub stop: Option<Stop>,
    /// What holds.
    pub properties: Vec<VerdictData>,
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
        kinds.push(("a crash no node is told of", "two such crashes", |spec, most| {
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

/// Checks one system after the other.
pub fn table(
    info: &'static Info,
    base: &CheckSpec,
    searcher: &dyn Searcher,
) -> Result<Table, Refusal> {
    let mut base = base.clone();
    base.limits.states = base.limits.states.or(Some(STATES));
    let (mut rows, mut interrupted) = (Vec::new(), false);
    for (name, spec) in systems(info, &base) {
        let searched = searcher.search(&spec, &name)?;
        interrupted |= searched.report.coverage.stop == Some(Stop::Asked);
        if interrupted {
            break;
        }
        let within = spec.beyond(info).is_empty();
        rows.push(Row { name, within, report: searched.report });
    }
    Ok(Table { info, base, rows, interrupted })
}

impl Table {
    /// Whether a promise was broken, or the table not finished.
    pub fn ending(&self) -> Ending {
        let broken = |row: &Row| {
            let mut violations = row.report.violations();
            row.within && violations.any(|(property, _)| is_promised(self.info, property))
        };
        Ending::of_table(self.rows.iter().any(broken), self.interrupted)
    }

    /// Everything, for programs.
    pub fn data(&self) -> TableData<'_> {
        let rows = self.rows.iter().map(|row| RowData {
            faults: &row.name,
            within_model: row.within,
            states: row.report.coverage.states,
            depth: row.report.coverage.depth,
            stop: row.report.coverage.stop,
            properties: row.report.verdicts.iter().map(VerdictData::of).collect(),
        });
        TableData { algorithm: self.info.id, spec: &self.base, rows: rows.collect() }
    }
}
