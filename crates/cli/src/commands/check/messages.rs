//! How many messages an entry takes, over all runs, beside what theory says.

use std::io::Write;

use conclave_check::{CheckSpec, Messages, Report};
use conclave_protocol::{Info, NodeId, Time};
use conclave_sim::{Arrivals, Ask, RunSpec, Spread, Workload};
use serde_json::{Value, json};

use super::Checked;
use super::grid::{Cell, grid};
use crate::report::number;
use crate::terminal::{DIM, paint};
use crate::theory::fit::{About, Fit, alone, fit};
use crate::{Failure, Terminal};

/// A figure of the theory, and what it is about.
struct Figure {
    fit: Fit,
    formula: &'static str,
    value: f64,
}

impl Figure {
    fn of(fit: Fit) -> Option<Self> {
        let (_, formula) = fit.row.formulas().find(|(name, _)| *name == "messages_total")?;
        let value = fit.figure("messages_total")?.to_f64();
        Some(Self { fit, formula, value })
    }

    /// Whether it goes with what was counted.
    fn agrees(&self, fewest: u32, most: Option<u32>) -> bool {
        let (fewest, most) = (f64::from(fewest), most.map_or(f64::INFINITY, f64::from));
        match self.fit.about {
            About::Each => fewest == self.value && most == self.value,
            About::AtMost => most <= self.value,
            // It is one run among all.
            _ => (fewest..=most).contains(&self.value),
        }
    }

    fn text(&self, fewest: u32, most: Option<u32>, terminal: &Terminal) -> String {
        let value = number(self.value);
        let bound = match (self.fit.about, terminal.ascii) {
            (About::AtMost, true) => "<= ",
            (About::AtMost, false) => "≤ ",
            _ => "",
        };
        let figure = match self.formula == value {
            true => value,
            false => format!("{} = {value}", self.formula),
        };
        let sign = match (self.agrees(fewest, most), terminal.ascii) {
            (true, true) => " ok",
            (true, false) => " ✓",
            (false, _) => "",
        };
        format!("{bound}{figure}{sign}")
    }

    fn json(&self, fewest: u32, most: Option<u32>) -> Value {
        json!({
            "row": self.fit.row.to_string(), "given": self.fit.row.given, "formula": self.formula,
            "value": self.value, "agrees": self.agrees(fewest, most),
        })
    }
}

/// What theory says of an entry for which nobody else competes.
fn undisturbed(info: &Info, spec: &CheckSpec, node: NodeId) -> Option<Figure> {
    alone(info, &spec.setup, node, None, false).and_then(Figure::of)
}

/// What theory says of entries under any load, if it is the same for all.
fn under_load(info: &Info, spec: &CheckSpec) -> Option<Figure> {
    let mut run = RunSpec::new(info, spec.setup.clone());
    let pause = Spread::between(spec.setup.delay, spec.setup.delay * 9);
    let (clients, rounds) = (spec.clients.clone(), Some(1));
    let arrivals = Arrivals::Closed { clients, rounds, first: pause, think: pause };
    run.workload = Workload { arrivals, ..Workload::idle() };
    fit(info, &run).and_then(Figure::of)
}

/// What theory says of the run in which all ask at once.
fn at_once(info: &Info, spec: &CheckSpec) -> Option<Figure> {
    let mut run = RunSpec::new(info, spec.setup.clone());
    let ask = |node| Ask { node, at: Time::ZERO, hold: None };
    let asks = spec.clients.clone().map(NodeId).map(ask);
    let arrivals = Arrivals::Plan(asks.collect());
    run.workload = Workload { arrivals, ..Workload::idle() };
    let fit = fit(info, &run).filter(|fit| fit.about == About::Burst);
    fit.and_then(Figure::of)
}

/// Prints what was counted, if it was.
pub(super) fn print(
    checked: &Checked<'_>,
    terminal: &Terminal,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let (info, spec) = (checked.info, checked.spec);
    let Some(Messages { of_node, whole }) = &checked.report().messages else { return Ok(()) };
    let most_text = |most: &Option<u32>| most.map_or("no end".to_owned(), |most| most.to_string());
    let load = under_load(info, spec);
    let mut rows = Vec::new();
    let mut notes: Vec<String> = Vec::new();
    let mut note = |figure: &Figure| {
        let text = format!("{} ({})", figure.fit.row, figure.fit.row.given);
        if !notes.contains(&text) {
            notes.push(text);
        }
    };
    for (node, fewest, most) in of_node {
        let node = NodeId(*node);
        let (fewest, most) = (*fewest, *most);
        let lone = undisturbed(info, spec, node);
        let text = |figure: &Option<Figure>| {
            figure.as_ref().map_or(String::new(), |it| it.text(fewest, most, terminal))
        };
        lone.iter().chain(&load).for_each(&mut note);
        rows.push([
            format!("an entry of {node}"),
            fewest.to_string(),
            most_text(&most),
            text(&lone),
            text(&load),
        ]);
    }
    let burst = at_once(info, spec);
    burst.iter().for_each(note);
    let (fewest, most) = *whole;
    let together = burst.map_or(String::new(), |it| it.text(fewest, most, terminal));
    rows.push([
        "a whole run".into(),
        fewest.to_string(),
        most_text(&most),
        String::new(),
        together,
    ]);
    let names = ["messages", "fewest", "most", "theory, alone", "theory, under load"];
    let told = |column: usize| rows.iter().any(|row| !row[column].is_empty());
    let kept: Vec<usize> = (0..names.len()).filter(|&column| told(column)).collect();
    let header: Vec<&str> = kept.iter().map(|&column| names[column]).collect();
    let cell = |row: &[String; 5], column: usize| match column {
        1 | 2 => Cell::figure(row[column].as_str()),
        _ => Cell::text(row[column].as_str()),
    };
    let cells = |row| kept.iter().map(|&column| cell(row, column)).collect();
    let rows: Vec<Vec<Cell>> = rows.iter().map(cells).collect();
    write!(out, "\n{}", grid(&header, &rows, terminal))?;
    for note in notes {
        writeln!(out, "{}", paint(DIM, format!("theory: {note}")))?;
    }
    Ok(())
}

/// The theory's figures, for programs.
pub(super) fn theory_json(info: &Info, spec: &CheckSpec, report: &Report) -> Value {
    let Some(Messages { of_node, whole }) = &report.messages else { return Value::Null };
    let load = under_load(info, spec);
    let of_node = of_node.iter().map(|&(node, fewest, most)| {
        let lone = undisturbed(info, spec, NodeId(node));
        json!({
            "node": node,
            "alone": lone.map(|figure| figure.json(fewest, most)),
            "under_load": load.as_ref().map(|figure| figure.json(fewest, most)),
        })
    });
    let of_node: Vec<Value> = of_node.collect();
    let burst = at_once(info, spec).map(|figure| figure.json(whole.0, whole.1));
    json!({ "of_node": of_node, "at_once": burst })
}
