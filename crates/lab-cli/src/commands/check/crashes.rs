//! `--crash-table`: which single crash each election survives, and the shortest run that breaks it.

use std::io::Write;

use conclave_check::{Report, Verdict};
use conclave_lab::check::crashes::{POINTS, Row, STATES, table};
use conclave_lab::check::{counted, grouped};

use super::Args;
use super::grid::{Cell, grid};
use super::search::Search;
use crate::terminal::{DIM, ERROR, GOOD, WARN, paint};
use crate::{Done, Failure, Terminal, print_json};

/// Checks each election that `id` names, be it one or the family.
pub(super) fn perform(
    id: &str,
    args: &Args,
    search: &Search,
    terminal: &Terminal,
    out: &mut dyn Write,
) -> Result<Done, Failure> {
    let table = table(id, args.system.nodes, args.flags()?.limits(), search)?;
    search.clear();
    if args.json {
        print_json(&table.data(), out)?;
    } else if args.markdown {
        write!(out, "{}", markdown(&table.rows))?;
    } else {
        write!(out, "{}", text(&table.rows, args, terminal))?;
    }
    Ok(table.ending().into())
}

/// What a search found, in a few characters: the shortest run that breaks anything, if there is one.
fn found(report: &Report) -> String {
    let worst = report.violations().min_by_key(|(_, violation)| violation.decisions.len());
    if let Some((property, violation)) = worst {
        let endless = if violation.loop_from.is_some() { "∞" } else { "" };
        return format!("✗ {property} {}{endless}", violation.decisions.len());
    }
    match report.verdicts.iter().any(|it| it.verdict == Verdict::Open) {
        true => format!("~ {}", report.coverage.depth),
        false => "✓".to_owned(),
    }
}

fn text(rows: &[Row], args: &Args, terminal: &Terminal) -> String {
    let header: Vec<&str> =
        std::iter::once("crashes:").chain(POINTS.map(|(name, _)| name)).collect();
    let cells = |row: &Row| {
        let cell = |(point, report): (usize, &Report)| {
            let text = found(report);
            let style = match text.chars().next() {
                Some('✓') => GOOD,
                Some('✗') if row.is_within(point) => ERROR,
                _ => WARN,
            };
            let text = if row.is_within(point) { text } else { format!("({text})") };
            let plain = text.replace('✓', "+").replace('✗', "x").replace('∞', " endless");
            Cell::text(if terminal.ascii { plain } else { text }).styled(style)
        };
        let name = std::iter::once(Cell::text(row.info.name()));
        name.chain(row.reports.iter().enumerate().map(cell)).collect::<Vec<_>>()
    };
    let cells: Vec<Vec<Cell>> = rows.iter().map(cells).collect();
    let states = counted(args.search.states.unwrap_or(STATES), "state");
    format!(
        "{}\n{}\n",
        grid(&header, &cells, terminal),
        paint(
            DIM,
            format!(
                "{} nodes, each of which may call once; the highest is the best. ✓: the live nodes agree on the best of \
                 them, in all runs. ✗ L2 9: the shortest run after which that is not so has 9 steps (L1: \
                 two leaders; L2: a node knows no live leader; L3: not the best leads). What is broken \
                 without a crash is not looked for in the other columns. ~ 9: so far, in \
                 runs of up to 9 steps, the search having been stopped after {states}. In brackets: the \
                 algorithm's model has no such crash.",
                args.system.nodes
            )
        )
    )
}

fn markdown(rows: &[Row]) -> String {
    let mut text = String::from("| algorithm |");
    for (name, _) in POINTS {
        text += &format!(" {name} |");
    }
    text += " states |\n|---|";
    text += &"---|".repeat(POINTS.len());
    text += "---:|\n";
    for row in rows {
        text += &format!("| `{}` |", row.info.name());
        for (point, report) in row.reports.iter().enumerate() {
            let found = found(report);
            text +=
                &if row.is_within(point) { format!(" {found} |") } else { format!(" ({found}) |") };
        }
        let states: u64 = row.reports.iter().map(|report| report.coverage.states).sum();
        text += &format!(" {} |\n", grouped(states));
    }
    text
}
