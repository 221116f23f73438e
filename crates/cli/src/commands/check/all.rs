//! `--all`: what the whole catalogue claims, over all runs of small systems.

use std::io::Write;

use conclave_algorithms::catalogue;
use conclave_check::{CheckSpec, Report, Stop, Timers, Verdict};
use conclave_lab::claims::{Check, Claims, Expected, Size};
use conclave_protocol::{Channels, Info, Property};
use serde_json::{Value, json};

use super::Args;
use super::grid::{Cell, grid};
use super::search::Search;
use super::table::{brief, cell, legend};
use super::text::{faults, grouped};
use crate::terminal::{BOLD, ERROR, GOOD, WARN, paint};
use crate::{Done, Failure, Terminal};

/// The families that can be checked.
const FAMILIES: [&str; 3] = ["mutex", "election", "fd"];

/// One search.
struct Row {
    info: &'static Info,
    check: &'static Check,
    spec: CheckSpec,
    report: Report,
    seconds: f64,
}

/// A claim that cannot be checked, and why.
struct Unchecked {
    info: &'static Info,
    properties: &'static [Property],
    why: String,
}

/// What the whole has shown.
#[derive(Default)]
struct Overview {
    rows: Vec<Row>,
    unchecked: Vec<Unchecked>,
    interrupted: bool,
}

/// Checks everything, and prints a table.
pub(super) fn perform(
    args: &Args,
    search: &Search,
    terminal: &Terminal,
    out: &mut dyn Write,
) -> Result<Done, Failure> {
    let mut overview = Overview::default();
    let checks = chosen(args);
    for (place, (info, check)) in checks.iter().enumerate() {
        let what = format!("[{}/{}] {}", place + 1, checks.len(), info.id);
        overview.check(args, info, check, search, &what)?;
        if overview.interrupted || search.is_stopped() {
            overview.interrupted = true;
            break;
        }
    }
    search.clear();
    let problems = overview.problems();
    if args.json {
        let value = json!({
            "checks": overview.rows.iter().map(Row::json).collect::<Vec<_>>(),
            "unchecked": overview.unchecked.iter().map(Unchecked::json).collect::<Vec<_>>(),
            "problems": problems,
            "unrefuted": overview.unrefuted(),
            "interrupted": overview.interrupted,
        });
        writeln!(out, "{value:#}")?;
    } else {
        overview.print(&problems, terminal, out)?;
    }
    Ok(if !problems.is_empty() {
        Done::Violated
    } else if overview.interrupted {
        Done::Interrupted
    } else {
        Done::Well
    })
}

/// The checks of the catalogue, family by family. Of what holds, only systems of the size asked
/// for and smaller ones; what fails, may need more nodes to do so.
fn chosen(args: &Args) -> Vec<(&'static Info, &'static Check)> {
    let mut chosen = Vec::new();
    for family in FAMILIES {
        for info in catalogue::ALL.iter().filter(|info| info.family() == family) {
            let Some(claims) = Claims::of(info.id) else { continue };
            let deep = if args.deep { claims.deep } else { &[] };
            let checks = claims.checks.iter().chain(deep);
            let least = claims.checks.iter().map(|check| check.nodes).min().unwrap_or(0);
            let most = if args.deep { u32::MAX } else { args.system.nodes.max(least) };
            let fits = |check: &&Check| check.expected != Expected::Holds || check.nodes <= most;
            chosen.extend(checks.filter(fits).map(|check| (*info, check)));
        }
    }
    chosen
}

impl Overview {
    fn check(
        &mut self,
        args: &Args,
        info: &'static Info,
        check: &'static Check,
        search: &Search,
        what: &str,
    ) -> Result<(), Failure> {
        let properties = check.properties;
        let mut unchecked =
            |why: &str| self.unchecked.push(Unchecked { info, properties, why: why.to_owned() });
        let spec = match (check.expected, check.spec(info)) {
            (Expected::Unchecked(why), _) => {
                unchecked(why);
                return Ok(());
            }
            _ if check.talk => {
                unchecked("its applications would have to talk beside the algorithm");
                return Ok(());
            }
            (_, None) => return Ok(()),
            (_, Some(spec)) => spec.map_err(|unfit| Failure::Impossible(unfit.to_string())),
        };
        let mut spec = spec?;
        let limits = args.search.limits();
        let depth = limits.depth.or(spec.limits.depth);
        spec.limits = conclave_check::Limits { depth, ..limits };
        spec.reduction = !args.search.no_reduction;
        let searched = search.run(&spec, &format!("{what}, {} nodes", check.nodes))?;
        let seconds = searched.seconds();
        let report = searched.report;
        self.interrupted = report.coverage.stop == Some(Stop::Asked);
        if !self.interrupted {
            self.rows.push(Row { info, check, spec, report, seconds });
        }
        Ok(())
    }

    /// What is not as claimed.
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for row in &self.rows {
            for &property in row.check.properties {
                problems.extend(row.problem(property));
            }
        }
        problems
    }

    /// The mutants that no run was found for, though nothing was expected of the checks either.
    fn unrefuted(&self) -> Vec<&'static str> {
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

    fn print(
        &self,
        problems: &[String],
        terminal: &Terminal,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        for family in FAMILIES {
            let rows: Vec<&Row> =
                self.rows.iter().filter(|row| row.info.family() == family).collect();
            if !rows.is_empty() {
                writeln!(out, "{}\n{}", paint(BOLD, family), family_table(&rows, terminal))?;
            }
        }
        write!(out, "{}", legend(terminal))?;
        let mut reasons: Vec<&str> = self.unchecked.iter().map(|it| it.why.as_str()).collect();
        reasons.sort_unstable();
        reasons.dedup();
        for reason in reasons {
            let alike = self.unchecked.iter().filter(|it| it.why == reason);
            let claims: Vec<String> = alike.map(Unchecked::name).collect();
            let claims = claims.join("; ");
            writeln!(out, "{} {claims}: {reason}", paint(WARN, "not checked:"))?;
        }
        let mut entries: Vec<&'static Info> = self.rows.iter().map(|row| row.info).collect();
        entries.dedup_by_key(|info| info.id);
        let all = entries.len();
        entries.retain(|info| info.mutant.is_some());
        let (mutants, unrefuted) = (entries.len(), self.unrefuted());
        let checks = self.rows.len();
        let states: u64 = self.rows.iter().map(|row| row.report.coverage.states).sum();
        let transitions: u64 = self.rows.iter().map(|row| row.report.coverage.transitions).sum();
        let seconds: f64 = self.rows.iter().map(|row| row.seconds).sum();
        let (states, transitions) = (grouped(states), grouped(transitions));
        writeln!(
            out,
            "{all} entries, {mutants} of them mutants, {checks} checks: {states} states, \
             {transitions} transitions, {seconds:.1} s"
        )?;
        if self.interrupted {
            writeln!(out, "{}", paint(WARN, "stopped before it was done: Ctrl-C was pressed"))?;
        }
        for problem in problems {
            writeln!(out, "{} {problem}", paint(ERROR, "wrong:"))?;
        }
        if problems.is_empty() && !self.interrupted {
            let open = self.rows.iter().filter(|row| row.report.coverage.stop.is_some()).count();
            let far = match open {
                0 => String::new(),
                open => format!(", as far as {open} of the searches came"),
            };
            let refuted = match &unrefuted[..] {
                [] => "every mutant is refuted".to_owned(),
                left => format!(
                    "{} of {mutants} mutants are refuted; left is {}",
                    mutants - left.len(),
                    left.join(", ")
                ),
            };
            writeln!(out, "{}", paint(GOOD, format!("no promise is broken{far}; {refuted}")))?;
        }
        Ok(())
    }
}

/// The searches of one family.
fn family_table(rows: &[&Row], terminal: &Terminal) -> String {
    let checked =
        |property: &Property| rows.iter().any(|row| row.spec.properties.contains(property));
    let properties: Vec<Property> = Property::ALL.into_iter().filter(checked).collect();
    let mut header = vec!["entry", "N×R"];
    header.extend(properties.iter().map(|property| property.name()));
    header.extend(["states", "transitions", "depth", "s", "with"]);
    let mut last = "";
    let mut lines = Vec::new();
    for row in rows {
        let name = if row.info.id == last { "" } else { row.info.name() };
        last = row.info.id;
        let each = row.spec.requests.count().map_or_else(|| "∞".to_owned(), |it| it.to_string());
        let size = format!("{}×{each}", row.spec.setup.n());
        let mut cells = vec![Cell::text(name), Cell::text(size)];
        cells.extend(properties.iter().map(|&property| {
            let wrong = row.problem(property).is_some();
            cell(&row.report, property, if wrong { ERROR } else { WARN }, terminal)
        }));
        let coverage = &row.report.coverage;
        cells.extend([
            Cell::figure(grouped(coverage.states)),
            Cell::figure(grouped(coverage.transitions)),
            Cell::figure(coverage.depth.to_string()),
            Cell::figure(format!("{:.1}", row.seconds)),
            Cell::text(row.with()),
        ]);
        lines.push(cells);
    }
    grid(&header, &lines, terminal)
}

impl Row {
    /// What is special about the system.
    fn with(&self) -> String {
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
    fn problem(&self, property: Property) -> Option<String> {
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

    fn json(&self) -> Value {
        let coverage = &self.report.coverage;
        let expected = match self.check.expected {
            Expected::Holds => "holds",
            _ => "violated",
        };
        json!({
            "algorithm": self.info.id,
            "nodes": self.spec.setup.n(),
            "requests": self.spec.requests,
            "with": self.with(),
            "mutant": self.info.mutant.map(|mutant| mutant.breaks),
            "expected": expected,
            "bounded": matches!(self.check.size, Size::Bounded(_)),
            "states": coverage.states,
            "transitions": coverage.transitions,
            "depth": coverage.depth,
            "stop": coverage.stop,
            "seconds": self.seconds,
            "properties": self.report.verdicts.iter().map(brief).collect::<Vec<_>>(),
        })
    }
}

impl Unchecked {
    /// The claims.
    fn name(&self) -> String {
        let names: Vec<&str> = self.properties.iter().map(|property| property.name()).collect();
        format!("{} of {}", names.join(", "), self.info.id)
    }

    fn json(&self) -> Value {
        json!({ "algorithm": self.info.id, "properties": self.properties, "why": self.why })
    }
}
