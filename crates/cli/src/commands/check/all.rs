//! `--all`: the whole catalogue, each entry within its model.

use std::io::Write;

use conclave_algorithms::catalogue;
use conclave_check::{Budgets, CheckSpec, Report, Stop, Timers, Verdict};
use conclave_protocol::{Crashes, Detector, Info, Property, Setup};
use conclave_sim::RunSpec;
use serde_json::{Value, json};

use super::Args;
use super::args::default_spec;
use super::grid::{Cell, grid};
use super::search::Search;
use super::table::{brief, cell, legend};
use super::text::{faults, grouped};
use crate::report::{Claim, claim};
use crate::spec_args::topology;
use crate::terminal::{BOLD, ERROR, GOOD, WARN, paint};
use crate::{Done, Failure, Terminal};

/// How many states each search visits, if nothing else is said.
const STATES: u64 = 200_000;
/// How often timers that may run out at any moment do so, lest there be no end to it.
const TIMEOUTS: u8 = 4;
/// How many nodes more an entry may need than were asked for.
const MORE: u32 = 4;
/// The families that can be checked.
const FAMILIES: [&str; 3] = ["mutex", "election", "fd"];

/// One search.
struct Row {
    info: &'static Info,
    spec: CheckSpec,
    report: Report,
    seconds: f64,
}

/// An entry that cannot be checked at all, and why.
struct Unfit {
    info: &'static Info,
    why: String,
}

/// What the whole has shown.
#[derive(Default)]
struct Overview {
    rows: Vec<Row>,
    unfit: Vec<Unfit>,
    interrupted: bool,
}

/// Checks everything, and prints a table.
pub(super) fn perform(
    args: &Args,
    search: &Search,
    terminal: &Terminal,
    out: &mut dyn Write,
) -> Result<Done, Failure> {
    let entries: Vec<&'static Info> = FAMILIES
        .iter()
        .flat_map(|family| catalogue::ALL.iter().filter(move |info| info.family() == *family))
        .copied()
        .collect();
    let mut overview = Overview::default();
    for (place, info) in entries.iter().enumerate() {
        if search.is_stopped() {
            overview.interrupted = true;
            break;
        }
        let what = format!("[{}/{}] {}", place + 1, entries.len(), info.id);
        overview.check(args, info, search, &what)?;
    }
    search.clear();
    let problems = overview.problems();
    if args.json {
        let value = json!({
            "checks": overview.rows.iter().map(Row::json).collect::<Vec<_>>(),
            "unfit": overview.unfit.iter().map(|unfit| {
                json!({ "algorithm": unfit.info.id, "why": unfit.why })
            }).collect::<Vec<_>>(),
            "problems": problems,
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

impl Overview {
    /// Checks one entry: in a system of the size asked for, in a smaller one if that is too large,
    /// or in a larger one if it needs to be.
    fn check(
        &mut self,
        args: &Args,
        info: &'static Info,
        search: &Search,
        what: &str,
    ) -> Result<(), Failure> {
        let wanted = args.system.nodes;
        let mut sizes: Vec<u32> = (2..wanted).collect();
        sizes.extend((wanted..=wanted + MORE).rev());
        let mut reason = String::new();
        let mut first = true;
        while let Some(n) = sizes.pop() {
            let spec = match spec(args, info, n) {
                Ok(spec) => spec,
                Err(Failure::Impossible(why)) => {
                    reason = why;
                    continue;
                }
                Err(other) => return Err(other),
            };
            // A larger one is for those that do not fit into the size asked for.
            sizes.retain(|&size| size < n);
            let searched = match search.run(&spec, &format!("{what}, {n} nodes")) {
                Ok(searched) => searched,
                Err(Failure::Impossible(why) | Failure::Usage(why)) => {
                    reason = why;
                    break;
                }
                Err(other) => return Err(other),
            };
            let seconds = searched.seconds();
            let report = searched.report;
            let stop = report.coverage.stop;
            self.interrupted |= stop == Some(Stop::Asked);
            let decided = report.verdicts.iter().all(|it| it.verdict != Verdict::Open);
            self.rows.push(Row { info, spec, report, seconds });
            first = false;
            if decided || self.interrupted {
                break;
            }
        }
        if first {
            self.unfit.push(Unfit { info, why: reason });
        }
        Ok(())
    }

    /// Broken promises, and mutants that were not refuted.
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for Row { info, spec, report, .. } in &self.rows {
            for (property, violation) in report.violations() {
                if claim(info, property) == Claim::Promised {
                    let (n, why) = (spec.setup.n(), &violation.why);
                    problems.push(format!("{}, {n} nodes: {property} violated: {why}", info.id));
                }
            }
        }
        for info in catalogue::ALL {
            let Some(mutant) = info.mutant else { continue };
            let mut rows = self.rows.iter().filter(|row| row.info.id == info.id).peekable();
            if rows.peek().is_none() || self.interrupted {
                continue;
            }
            let found =
                |row: &Row| matches!(row.report.verdict(mutant.breaks), Some(Verdict::Violated(_)));
            if !rows.any(found) {
                problems
                    .push(format!("{}: no run was found that breaks {}", info.id, mutant.breaks));
            }
        }
        problems
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
        for Unfit { info, why } in &self.unfit {
            writeln!(out, "{} {}: {why}", paint(WARN, "not checked:"), info.id)?;
        }
        let mut ids: Vec<&str> = self.rows.iter().map(|row| row.info.id).collect();
        ids.dedup();
        let mutants = self.rows.iter().filter(|row| row.info.mutant.is_some());
        let mut mutants: Vec<&str> = mutants.map(|row| row.info.id).collect();
        mutants.dedup();
        let states: u64 = self.rows.iter().map(|row| row.report.coverage.states).sum();
        let transitions: u64 = self.rows.iter().map(|row| row.report.coverage.transitions).sum();
        let seconds: f64 = self.rows.iter().map(|row| row.seconds).sum();
        let (all, mutants) = (ids.len(), mutants.len());
        let (states, transitions) = (grouped(states), grouped(transitions));
        writeln!(
            out,
            "{all} entries, {mutants} of them mutants: {states} states, {transitions} \
             transitions, {seconds:.1} s"
        )?;
        if self.interrupted {
            writeln!(out, "{}", paint(WARN, "stopped before it was done: Ctrl-C was pressed"))?;
        }
        for problem in problems {
            writeln!(out, "{} {problem}", paint(ERROR, "wrong:"))?;
        }
        if problems.is_empty() && !self.interrupted {
            let text = "no promise was broken, and every mutant was refuted";
            writeln!(out, "{}", paint(GOOD, text))?;
        }
        Ok(())
    }
}

/// How an entry is checked in a system of `n` nodes.
fn spec(args: &Args, info: &Info, n: u32) -> Result<CheckSpec, Failure> {
    let setup = Setup::new(topology(info, None, n)?);
    RunSpec::new(info, setup.clone()).validate(info)?;
    let mut spec = default_spec(info, setup)?;
    spec.budgets = budgets(info, &spec);
    if let Some(timers) = args.system.timer_budget {
        spec.budgets.timers = Some(timers);
    }
    spec.reduction = !args.search.no_reduction;
    spec.limits = args.search.limits();
    if !args.deep {
        spec.limits.states = spec.limits.states.or(Some(STATES));
    }
    Ok(spec)
}

/// One of each fault that an entry's model allows for.
fn budgets(info: &Info, spec: &CheckSpec) -> Budgets {
    let crashes = u8::from(info.model.crashes > Crashes::None);
    Budgets {
        crashes,
        recoveries: u8::from(info.model.crashes >= Crashes::Recover),
        suspicions: u8::from(info.model.detector == Detector::Eventual),
        timers: (spec.timers == Timers::Anytime).then_some(TIMEOUTS),
        ..Budgets::default()
    }
}

/// The searches of one family.
fn family_table(rows: &[&Row], terminal: &Terminal) -> String {
    let checked =
        |property: &Property| rows.iter().any(|row| row.spec.properties.contains(property));
    let properties: Vec<Property> = Property::ALL.into_iter().filter(checked).collect();
    let mut header = vec!["entry", "N×R"];
    header.extend(properties.iter().map(|property| property.name()));
    header.extend(["states", "transitions", "depth", "s"]);
    let mut last = "";
    let mut lines = Vec::new();
    for row in rows {
        // What was tried in a smaller system follows below.
        let name = if row.info.id == last { "" } else { row.info.name() };
        last = row.info.id;
        let size = format!("{}×{}", row.spec.setup.n(), row.spec.requests);
        let mut cells = vec![Cell::text(name), Cell::text(size)];
        cells.extend(properties.iter().map(|property| row.cell(*property, terminal)));
        let coverage = &row.report.coverage;
        cells.extend([
            Cell::figure(grouped(coverage.states)),
            Cell::figure(grouped(coverage.transitions)),
            Cell::figure(coverage.depth.to_string()),
            Cell::figure(format!("{:.1}", row.seconds)),
        ]);
        lines.push(cells);
    }
    grid(&header, &lines, terminal)
}

impl Row {
    /// The verdict on a property; what was to be expected looks less alarming.
    fn cell(&self, property: Property, terminal: &Terminal) -> Cell {
        let expected = claim(self.info, property) != Claim::Promised;
        cell(&self.report, property, if expected { WARN } else { ERROR }, terminal)
    }

    fn json(&self) -> Value {
        let coverage = &self.report.coverage;
        json!({
            "algorithm": self.info.id,
            "nodes": self.spec.setup.n(),
            "requests": self.spec.requests,
            "faults": faults(&self.spec.budgets),
            "mutant": self.info.mutant.map(|mutant| mutant.breaks),
            "states": coverage.states,
            "transitions": coverage.transitions,
            "depth": coverage.depth,
            "stop": coverage.stop,
            "seconds": self.seconds,
            "properties": self.report.verdicts.iter().map(brief).collect::<Vec<_>>(),
        })
    }
}
