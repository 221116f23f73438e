//! What the whole catalogue claims, over all runs of small systems.

use crate::catalogue;
use conclave_check::{CheckSpec, Limits, Report, Requests, Stop, Timers, Verdict};
use conclave_protocol::{Channels, Family, Info, Property};
use serde::Serialize;

use super::words::faults;
use super::{Ending, Searcher, VerdictData};
use crate::Refusal;
use crate::claims::{Check, Expected, Size, spec};

/// The families that can be checked, because properties are stated for them.
pub fn families() -> impl Iterator<Item = &'static str> {
    Family::all().filter(|family| !family.promises.is_empty()).map(|family| family.name)
}

/// One search.
#[derive(Debug)]
pub struct Row {
    /// The algorithm.
    pub info: &'static Info,
    /// What is claimed.
    pub check: &'static Check,
    /// The system that was searched.
    pub spec: CheckSpec,
    /// What was found.
    pub report: Report,
    /// How long it took.
    pub seconds: f64,
}

/// A claim that cannot be checked, and why.
#[derive(Debug)]
pub struct Unchecked {
    /// The algorithm.
    pub info: &'static Info,
    /// What is claimed.
    pub properties: &'static [Property],
    /// Why it cannot be checked.
    pub why: String,
}

/// What the whole has shown.
#[derive(Debug, Default)]
pub struct Overview {
    /// One search after the other.
    pub rows: Vec<Row>,
    /// What cannot be checked.
    pub unchecked: Vec<Unchecked>,
    /// Whether it was stopped before it was done.
    pub interrupted: bool,
}

/// The whole for programs: what `check --all --json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct OverviewData<'a> {
    /// One search after the other.
    pub checks: Vec<RowData<'a>>,
    /// What cannot be checked.
    pub unchecked: Vec<UncheckedData<'a>>,
    /// What is not as claimed.
    pub problems: Vec<String>,
    /// The mutants that no run was found for.
    pub unrefuted: Vec<&'static str>,
    /// Whether it was stopped before it was done.
    pub interrupted: bool,
}

/// One search.
#[derive(Clone, Debug, Serialize)]
pub struct RowData<'a> {
    /// The algorithm's id.
    pub algorithm: &'static str,
    /// How many nodes there are.
    pub nodes: u32,
    /// How often each client asks.
    pub requests: &'a Requests,
    /// What is special about the system, in words.
    pub with: String,
    /// Of a mutant: what it breaks.
    pub mutant: Option<Property>,
    /// `holds` or `violated`.
    pub expected: &'static str,
    /// Whether only runs up to a length are searched.
    pub bounded: bool,
    /// Different states visited.
    pub states: u64,
    /// Transitions followed.
    pub transitions: u64,
    /// Steps to the state furthest from the beginning.
    pub depth: u32,
    /// Why the search ended before it was done, if it did.
    pub stop: Option<Stop>,
    /// How long it took.
    pub seconds: f64,
    /// What holds.
    pub properties: Vec<VerdictData>,
}

/// A claim that cannot be checked.
#[derive(Clone, Debug, Serialize)]
pub struct UncheckedData<'a> {
    /// The algorithm's id.
    pub algorithm: &'static str,
    /// What is claimed.
    pub properties: &'a [Property],
    /// Why it cannot be checked.
    pub why: &'a str,
}

/// Checks everything, in systems of up to `nodes` nodes; larger ones, too, if `deep`.
pub fn overview(
    nodes: u32,
    deep: bool,
    limits: Limits,
    reduction: bool,
    searcher: &dyn Searcher,
) -> Result<Overview, Refusal> {
    let mut overview = Overview::default();
    let checks = chosen(nodes, deep);
    for (place, (info, check)) in checks.iter().enumerate() {
        let what = format!("[{}/{}] {}", place + 1, checks.len(), info.id);
        overview.check(limits, reduction, info, check, searcher, &what)?;
        if overview.interrupted || searcher.is_stopped() {
            overview.interrupted = true;
            break;
        }
    }
    Ok(overview)
}

/// The checks of the catalogue, family by family. Of what holds, only systems of the size asked
/// for and smaller ones; what fails, may need more nodes to do so.
fn chosen(nodes: u32, deep: bool) -> Vec<(&'static Info, &'static Check)> {
    let mut chosen = Vec::new();
    for family in families() {
        for info in catalogue::infos().filter(|info| info.family() == family) {
            let larger = if deep { info.deep } else { &[] };
            let checks = info.claims.iter().chain(larger);
            let least = info.claims.iter().map(|check| check.nodes).min().unwrap_or(0);
            let most = if deep { u32::MAX } else { nodes.max(least) };
            let fits = |check: &&Check| check.expected != Expected::Holds || check.nodes <= most;
            chosen.extend(checks.filter(fits).map(|check| (info, check)));
        }
    }
    chosen
}

impl Overview {
    fn check(
        &mut self,
        limits: Limits,
        reduction: bool,
        info: &'static Info,
        check: &'static Check,
        searcher: &dyn Searcher,
        what: &str,
    ) -> Result<(), Refusal> {
        let properties = check.properties;
        let mut unchecked =
            |why: &str| self.unchecked.push(Unchecked { info, properties, why: why.to_owned() });
        let spec = match (check.expected, spec(check, info)) {
            (Expected::Unchecked(why), _) => {
                unchecked(why);
                return Ok(());
            }
            _ if check.talk => {
                unchecked("its applications would have to talk beside the algorithm");
                return Ok(());
            }
            (_, None) => return Ok(()),
            (_, Some(spec)) => spec,
        };
        let mut spec = spec?;
        let depth = limits.depth.or(spec.limits.depth);
        spec.limits = Limits { depth, ..limits };
        spec.reduction = reduction;
        let searched = searcher.search(&spec, &format!("{what}, {} nodes", check.nodes))?;
        let seconds = searched.seconds();
        let report = searched.report;
        self.interrupted = report.coverage.stop == Some(Stop::Asked);
        if !self.interrupted {
            self.rows.push(Row { info, check, spec, report, seconds });
        }
        Ok(())
    }

    /// What is not as claimed.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for row in &self.rows {
            for &property in row.check.properties {
                problems.extend(row.problem(property));
            }
        }
        problems
    }

    /// The mutants that no run was found for, though nothing was expected of the checks either.
    pub fn unrefuted(&self) -> Vec<&'static str> {
        let refuted = |info: &Info| {
            let breaks = info.mutant.map(|mutant| mutant.breaks);
            let violated = |row: &Row| {
                let verdict = breaks.and_then(|property| row.report.verdict(property));
                matches!(verdict, Some(Verdict::Violated(_)))
            };
            self.rows.iter().any(|row| row.info.id == info.id && violated(row))
        };
        let mut mutants: Vec<&'static str> = Vec::new();
        for row in self.rows.iter().filter(|row| row.info.mutant.is_some()) {
            if !refuted(row.info) && !mutants.contains(&row.info.id) {
                mutants.push(row.info.id);
            }
        }
        mutants
    }

    /// Whether anything is not as claimed, or the whole not finished.
    pub fn ending(&self) -> Ending {
        Ending::of_table(!self.problems().is_empty(), self.interrupted)
    }

    /// Everything, for programs.
    pub fn data(&self) -> OverviewData<'_> {
        OverviewData {
            checks: self.rows.iter().map(Row::data).collect(),
            unchecked: self.unchecked.iter().map(Unchecked::data).collect(),
            problems: self.problems(),
            unrefuted: self.unrefuted(),
            interrupted: self.interrupted,
        }
    }
}

impl Row {
    /// What is special about the system.
    pub fn with(&self) -> String {
        let mut with: Vec<String> = Vec::new();
        let faults = faults(&self.spec.budgets);
        with.extend(faults.map(|text| text.trim_start_matches("at most ").to_owned()));
        if self.check.channels == Some(Channels::Reliable) {
            with.push("messages overtaking".to_owned());
        }
        with.extend(self.check.timers.map(|timers| match timers {
            Timers::Anytime => "time-outs at any moment".to_owned(),
            Timers::Quiet => "time-outs after messages".to_owned(),
        }));
        with.extend(self.check.shape.map(str::to_owned));
        with.extend(self.check.options.iter().map(|(name, value)| format!("{name}={value}")));
        with.join(", ")
    }

    /// What is not as claimed about a property.
    pub fn problem(&self, property: Property) -> Option<String> {
        let verdict = self.report.verdict(property)?;
        let (id, n) = (self.info.id, self.check.nodes);
        match (self.check.expected, verdict) {
            (Expected::Holds, Verdict::Violated(violation)) => {
                let why = &violation.why;
                Some(format!("{id}, {n} nodes: {property} violated: {why}"))
            }
            (Expected::Fails(_) | Expected::Loops(..), Verdict::Violated(_)) => None,
            (Expected::Fails(_) | Expected::Loops(..), _) => {
                Some(format!("{id}, {n} nodes: no run was found that violates {property}"))
            }
            (Expected::Holds | Expected::Unchecked(_), _) => None,
        }
    }

    fn data(&self) -> RowData<'_> {
        let coverage = &self.report.coverage;
        RowData {
            algorithm: self.info.id,
            nodes: self.spec.setup.n(),
            requests: &self.spec.requests,
            with: self.with(),
            mutant: self.info.mutant.map(|mutant| mutant.breaks),
            expected: match self.check.expected {
                Expected::Holds => "holds",
                _ => "violated",
            },
            bounded: matches!(self.check.size, Size::Bounded(_)),
            states: coverage.states,
            transitions: coverage.transitions,
            depth: coverage.depth,
            stop: coverage.stop,
            seconds: self.seconds,
            properties: self.report.verdicts.iter().map(VerdictData::of).collect(),
        }
    }
}

impl Unchecked {
    /// The claims.
    pub fn name(&self) -> String {
        let names: Vec<&str> = self.properties.iter().map(|property| property.name()).collect();
        format!("{} of {}", names.join(", "), self.info.id)
    }

    fn data(&self) -> UncheckedData<'_> {
        UncheckedData { algorithm: self.info.id, properties: self.properties, why: &self.why }
    }
}
