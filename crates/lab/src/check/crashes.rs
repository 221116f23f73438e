//! Which single crash each election survives, and the shortest run that breaks it.

use crate::catalogue;
use conclave_check::{CheckSpec, Limits, Report, Stop};
use conclave_protocol::{Crashes, Family, Info, Property, Setup, Topology};
use serde::Serialize;

use super::{Ending, Searcher, VerdictData, default_spec, is_promised};
use crate::{Refusal, find};

/// How many states each search visits, if nothing else is said.
pub const STATES: u64 = 200_000;

/// What makes a system one in which a node crashes.
pub type Change = fn(&mut CheckSpec);

/// Who crashes, once: what the column is called, and what it takes. The node with the highest id is
/// the best.
pub const POINTS: [(&str, Change); 6] = [
    ("nobody", |_| {}),
    ("the lowest", |spec| mortal(spec, 0..1)),
    ("one between", |spec| {
        let n = spec.setup.n();
        mortal(spec, 1..n - 1);
    }),
    ("the best", |spec| {
        let n = spec.setup.n();
        mortal(spec, n - 1..n);
    }),
    ("any, in a step", |spec| {
        let n = spec.setup.n();
        mortal(spec, 0..n);
        spec.budgets.mid_step = true;
    }),
    ("any, and returns", |spec| {
        let n = spec.setup.n();
        mortal(spec, 0..n);
        spec.budgets.recoveries = 1;
    }),
];

fn mortal(spec: &mut CheckSpec, nodes: std::ops::Range<u32>) {
    spec.mortal = nodes;
    spec.budgets.crashes = 1;
}

/// Elections, row by row.
#[derive(Debug)]
pub struct Table {
    /// How many nodes there are.
    pub nodes: u32,
    /// What was found.
    pub rows: Vec<Row>,
    /// Whether it was stopped before it was done.
    pub interrupted: bool,
}

/// A row of the table: what a search found for each crash point.
#[derive(Debug)]
pub struct Row {
    /// The algorithm.
    pub info: &'static Info,
    /// What was found, in the order of [`POINTS`].
    pub reports: Vec<Report>,
}

/// The table for programs: what `check --crash-table --json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct TableData {
    /// How many nodes there are.
    pub nodes: u32,
    /// An election each.
    pub rows: Vec<RowData>,
}

/// An election.
#[derive(Clone, Debug, Serialize)]
pub struct RowData {
    /// The algorithm's id.
    pub algorithm: &'static str,
    /// How many nodes there are.
    pub nodes: u32,
    /// What was found for each crash.
    pub points: Vec<PointData>,
}

/// What was found for one crash.
#[derive(Clone, Debug, Serialize)]
pub struct PointData {
    /// Who crashes.
    pub crash: &'static str,
    /// Whether the algorithm's model allows for that.
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

/// Checks each election that `id` names, be it one or the family, among so many nodes.
pub fn table(
    id: &str,
    nodes: u32,
    limits: Limits,
    searcher: &dyn Searcher,
) -> Result<Table, Refusal> {
    if nodes < 3 {
        return Err(Refusal::Usage("--crash-table takes at least three nodes".to_owned()));
    }
    let one_leader = |info: &Info| Family::of(info).elects && !info.elects_several();
    let family = Family::named(id).filter(|family| family.elects);
    let chosen: Vec<&'static Info> = if let Some(family) = family {
        let all = catalogue::infos().filter(|info| info.family() == family.name);
        all.filter(|info| info.mutant.is_none() && one_leader(info)).collect()
    } else {
        let info = find(id)?;
        if !one_leader(info) {
            let text = format!("--crash-table is about elections of one leader, not about {id}");
            return Err(Refusal::Usage(text));
        }
        vec![info]
    };
    let mut table = Table { nodes, rows: Vec::new(), interrupted: false };
    'rows: for info in chosen {
        let mut row = Row { info, reports: Vec::new() };
        let mut about = vec![Property::OneLeader, Property::LeaderKnown, Property::BestLeads];
        for (name, change) in POINTS {
            let spec = spec(info, nodes, &about, limits, change)?;
            let searched = searcher.search(&spec, &format!("{}, {name}", info.id))?;
            table.interrupted |= searched.report.coverage.stop == Some(Stop::Asked);
            if table.interrupted {
                break 'rows;
            }
            if row.reports.is_empty() {
                // What it does not do even without a crash is not for a crash to break.
                let broken = |it: &Property| searched.report.violations().any(|(by, _)| by == *it);
                about.retain(|property| !broken(property));
            }
            row.reports.push(searched.report);
        }
        table.rows.push(row);
    }
    Ok(table)
}

/// Elections that anybody may call for, everybody being up.
fn spec(
    info: &'static Info,
    nodes: u32,
    about: &[Property],
    limits: Limits,
    change: Change,
) -> Result<CheckSpec, Refusal> {
    let mut setup = Setup::new(Topology::of(info.model.links, nodes));
    if info.options.iter().any(|option| option.name == "spread") {
        // Delays at random make no difference where nothing is known about time but its order.
        setup = setup.with("spread", 1);
    }
    let mut spec = default_spec(info, setup)?;
    spec.properties = about.to_vec();
    spec.limits = limits;
    spec.limits.states = spec.limits.states.or(Some(STATES));
    change(&mut spec);
    Ok(spec)
}

impl Table {
    /// Whether a promise was broken, or the table not finished.
    pub fn ending(&self) -> Ending {
        Ending::of_table(self.rows.iter().any(Row::is_broken), self.interrupted)
    }

    /// Everything, for programs.
    pub fn data(&self) -> TableData {
        let rows = self.rows.iter().map(|row| row.data(self.nodes)).collect();
        TableData { nodes: self.nodes, rows }
    }
}

impl Row {
    /// Whether the model allows for what happens in column `point`.
    pub fn is_within(&self, point: usize) -> bool {
        match point {
            0 => true,
            5 => self.info.model.crashes >= Crashes::Recover,
            _ => self.info.model.crashes > Crashes::None,
        }
    }

    fn is_broken(&self) -> bool {
        self.reports.iter().enumerate().any(|(point, report)| {
            let mut violations = report.violations();
            self.is_within(point) && violations.any(|(it, _)| is_promised(self.info, it))
        })
    }

    fn data(&self, nodes: u32) -> RowData {
        let points = self.reports.iter().enumerate().map(|(point, report)| PointData {
            crash: POINTS[point].0,
            within_model: self.is_within(point),
            states: report.coverage.states,
            depth: report.coverage.depth,
            stop: report.coverage.stop,
            properties: report.verdicts.iter().map(VerdictData::of).collect(),
        });
        RowData { algorithm: self.info.id, nodes, points: points.collect() }
    }
}
