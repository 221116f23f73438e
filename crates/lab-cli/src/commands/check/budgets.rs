//! `--budget-table`: which faults an algorithm bears, and where it stops being right.

use std::io::Write;

use anstyle::Style;
use conclave_check::{CheckSpec, Report, Verdict};
use conclave_lab::check::budgets::{Row, STATES, table};
use conclave_lab::check::{counted, describe, grouped, is_promised};
use conclave_protocol::{Info, Property};

use super::Args;
use super::grid::{Cell, grid};
use super::search::Search;
use crate::terminal::{BOLD, DIM, ERROR, GOOD, WARN, paint};
use crate::{Done, Failure, Terminal, print_json};

/// Checks one system after the other, and prints what holds in each.
pub(super) fn perform(
    args: &Args,
    info: &'static Info,
    base: &CheckSpec,
    search: &Search,
    terminal: &Terminal,
    out: &mut dyn Write,
) -> Result<Done, Failure> {
    let table = table(info, base, search)?;
    search.clear();
    if args.json {
        print_json(&table.data(), out)?;
    } else {
        writeln!(out, "{} {}\n", paint(BOLD, info.title), describe(info, &table.base))?;
        write!(out, "{}", text(info, &table.base, &table.rows, terminal))?;
    }
    Ok(table.ending().into())
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
