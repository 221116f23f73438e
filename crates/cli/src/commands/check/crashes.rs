//! `--crash-table`: which single crash each election survives, and the shortest run that breaks it.

use std::io::Write;

use conclave_algorithms::catalogue;
use conclave_check::{CheckSpec, Report, Stop, Verdict};
use conclave_protocol::{Crashes, Info, Property, Setup, Topology};
use serde_json::{Value, json};

use super::args::default_spec;
use super::grid::{Cell, grid};
use super::search::Search;
use super::table::brief;
use super::text::{counted, grouped};
use super::{Args, is_promised};
use crate::terminal::{DIM, ERROR, GOOD, WARN, paint};
use crate::{Done, Failure, Terminal, find};

/// How many states each search visits, if nothing else is said.
const STATES: u64 = 200_000;

/// What makes a system one in which somebody crashes.
type Change = fn(&mut CheckSpec);

/// Who crashes, once: what the column is called, and what it takes. The node with the highest id is
/// the best.
const POINTS: [(&str, Change); 6] = [
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

/// A row of the table: what a search found for each crash point.
struct Row {
    info: &'static Info,
    reports: Vec<Report>,
}

/// Checks each election that `id` names, be it one or the family.
pub(super) fn perform(
    id: &str,
    args: &Args,
    search: &Search,
    terminal: &Terminal,
    out: &mut dyn Write,
) -> Result<Done, Failure> {
    let nodes = args.system.nodes;
    if nodes < 3 {
        return Err(Failure::Usage("--crash-table takes at least three nodes".to_owned()));
    }
    let chosen: Vec<&'static Info> = if id == "election" {
        let all = catalogue::ALL.iter().copied().filter(|info| info.family() == "election");
        all.filter(|info| info.mutant.is_none() && !info.elects_several()).collect()
    } else {
        let info = find(id)?;
        if info.family() != "election" || info.elects_several() {
            let text = format!("--crash-table is about elections of one leader, not about {id}");
            return Err(Failure::Usage(text));
        }
        vec![info]
    };
    let mut rows = Vec::new();
    let mut interrupted = false;
    'rows: for info in chosen {
        let mut row = Row { info, reports: Vec::new() };
        let mut about = vec![Property::OneLeader, Property::LeaderKnown, Property::BestLeads];
        for (name, change) in POINTS {
            let spec = spec(info, &about, args, change)?;
            let searched = search.run(&spec, &format!("{}, {name}", info.id))?;
            interrupted |= searched.report.coverage.stop == Some(Stop::Asked);
            if interrupted {
                break 'rows;
            }
            if row.reports.is_empty() {
                // What it does not do even without a crash is not for a crash to break.
                let broken = |it: &Property| searched.report.violations().any(|(by, _)| by == *it);
                about.retain(|property| !broken(property));
            }
            row.reports.push(searched.report);
        }
        rows.push(row);
    }
    search.clear();
    if args.json {
        let rows: Vec<Value> = rows.iter().map(|row| row.json(nodes)).collect();
        writeln!(out, "{:#}", json!({ "nodes": nodes, "rows": rows }))?;
    } else if args.markdown {
        write!(out, "{}", markdown(&rows))?;
    } else {
        write!(out, "{}", text(&rows, args, terminal))?;
    }
    Ok(if rows.iter().any(Row::is_broken) {
        Done::Violated
    } else if interrupted {
        Done::Interrupted
    } else {
        Done::Well
    })
}

/// Elections that anybody may call for, everybody being up.
fn spec(
    info: &'static Info,
    about: &[Property],
    args: &Args,
    change: Change,
) -> Result<CheckSpec, Failure> {
    let mut setup = Setup::new(Topology::of(info.model.links, args.system.nodes));
    if info.options.iter().any(|option| option.name == "spread") {
        // Delays at random make no difference where nothing is known about time but its order.
        setup = setup.with("spread", 1);
    }
    let mut spec = default_spec(info, setup)?;
    spec.properties = about.to_vec();
    spec.limits = args.search.limits();
    spec.limits.states = spec.limits.states.or(Some(STATES));
    change(&mut spec);
    Ok(spec)
}

impl Row {
    /// Whether the model allows for what happens in column `point`.
    fn is_within(&self, point: usize) -> bool {
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

    fn json(&self, nodes: u32) -> Value {
        let points = self.reports.iter().enumerate().map(|(point, report)| {
            json!({
                "crash": POINTS[point].0,
                "within_model": self.is_within(point),
                "states": report.coverage.states,
                "depth": report.coverage.depth,
                "stop": report.coverage.stop,
                "properties": report.verdicts.iter().map(brief).collect::<Vec<_>>(),
            })
        });
        let points: Vec<Value> = points.collect();
        json!({ "algorithm": self.info.id, "nodes": nodes, "points": points })
    }
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
                "{} nodes, each of which may call once; the highest is the best. ✓: whoever is left agrees on the best of \
                 them, in all runs. ✗ L2 9: the shortest run after which that is not so has 9 steps (L1: \
                 two leaders; L2: somebody knows no live leader; L3: not the best leads). What is broken \
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
