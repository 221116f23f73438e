//! `--all`: what the whole catalogue claims, over all runs of small systems.

use std::io::Write;

use conclave_lab::check::grouped;
use conclave_lab::check::overview::{Overview, Row, Unchecked, families, overview};
use conclave_protocol::{Info, Property};

use super::Args;
use super::budgets::{cell, legend};
use super::grid::{Cell, grid};
use super::search::Search;
use crate::terminal::{BOLD, ERROR, GOOD, WARN, paint};
use crate::{Done, Failure, Terminal, print_json};

/// Checks everything, and prints a table.
pub(super) fn perform(
    args: &Args,
    search: &Search,
    terminal: &Terminal,
    out: &mut dyn Write,
) -> Result<Done, Failure> {
    let (nodes, limits) = (args.system.nodes, args.flags()?.limits());
    let overview = overview(nodes, args.deep, limits, !args.search.no_reduction, search)?;
    search.clear();
    if args.json {
        print_json(&overview.data(), out)?;
    } else {
        print(&overview, terminal, out)?;
    }
    Ok(overview.ending().into())
}

/// Prints the tables, and what is to be said below them.
fn print(overview: &Overview, terminal: &Terminal, out: &mut dyn Write) -> Result<(), Failure> {
    let problems = overview.problems();
    for family in families() {
        let rows: Vec<&Row> =
            overview.rows.iter().filter(|row| row.info.family() == family).collect();
        if !rows.is_empty() {
            writeln!(out, "{}\n{}", paint(BOLD, family), family_table(&rows, terminal))?;
        }
    }
    write!(out, "{}", legend(terminal))?;
    let mut reasons: Vec<&str> = overview.unchecked.iter().map(|it| it.why.as_str()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    for reason in reasons {
        let alike = overview.unchecked.iter().filter(|it| it.why == reason);
        let claims: Vec<String> = alike.map(Unchecked::name).collect();
        let claims = claims.join("; ");
        writeln!(out, "{} {claims}: {reason}", paint(WARN, "not checked:"))?;
    }
    let mut entries: Vec<&'static Info> = overview.rows.iter().map(|row| row.info).collect();
    entries.dedup_by_key(|info| info.id);
    let all = entries.len();
    entries.retain(|info| info.mutant.is_some());
    let (mutants, unrefuted) = (entries.len(), overview.unrefuted());
    let checks = overview.rows.len();
    let states: u64 = overview.rows.iter().map(|row| row.report.coverage.states).sum();
    let transitions: u64 = overview.rows.iter().map(|row| row.report.coverage.transitions).sum();
    let seconds: f64 = overview.rows.iter().map(|row| row.seconds).sum();
    let (states, transitions) = (grouped(states), grouped(transitions));
    writeln!(
        out,
        "{all} entries, {mutants} of them mutants, {checks} checks: {states} states, \
         {transitions} transitions, {seconds:.1} s"
    )?;
    if overview.interrupted {
        writeln!(out, "{}", paint(WARN, "stopped before it was done: Ctrl-C was pressed"))?;
    }
    for problem in &problems {
        writeln!(out, "{} {problem}", paint(ERROR, "wrong:"))?;
    }
    if problems.is_empty() && !overview.interrupted {
        let open = overview.rows.iter().filter(|row| row.report.coverage.stop.is_some()).count();
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
