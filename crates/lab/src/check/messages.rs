//! How many messages an entry takes, over all runs, beside what theory says.

use conclave_check::{CheckSpec, Messages, Report};
use conclave_protocol::{Info, NodeId, Time};
use conclave_sim::{Arrivals, Ask, RunSpec, Spread, Workload};
use serde::Serialize;

use crate::theory::fit::{About, Fit, alone, fit};

/// A figure of the theory, and what it is about.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The case.
    pub fit: Fit,
    /// As a formula.
    pub formula: &'static str,
    /// What the formula comes to.
    pub value: f64,
}

impl Figure {
    fn of(fit: Fit) -> Option<Self> {
        let (_, formula) = fit.row.formulas().find(|(name, _)| *name == "messages_total")?;
        let value = fit.figure("messages_total")?.to_f64();
        Some(Self { fit, formula, value })
    }

    /// Whether it goes with what was counted.
    pub fn agrees(&self, fewest: u32, most: Option<u32>) -> bool {
        let (fewest, most) = (f64::from(fewest), most.map_or(f64::INFINITY, f64::from));
        match self.fit.about {
            About::Each => fewest == self.value && most == self.value,
            About::AtMost => most <= self.value,
            // It is one run among all.
            _ => (fewest..=most).contains(&self.value),
        }
    }

    fn data(&self, fewest: u32, most: Option<u32>) -> FigureData {
        FigureData {
            row: self.fit.row.to_string(),
            given: &self.fit.row.given,
            formula: self.formula,
            value: self.value,
            agrees: self.agrees(fewest, most),
        }
    }
}

/// What theory says about the messages that a check counted.
#[derive(Clone, Debug, Serialize)]
pub struct CountedData {
    /// Of the entries of each node.
    pub of_node: Vec<NodeData>,
    /// Of the run in which all ask at once.
    pub at_once: Option<FigureData>,
}

/// What theory says about the entries of a node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeData {
    /// The node.
    pub node: u32,
    /// While no other node competes.
    pub alone: Option<FigureData>,
    /// Under any load, if it is the same for all.
    pub under_load: Option<FigureData>,
}

/// A figure of the theory beside what was counted.
#[derive(Clone, Debug, Serialize)]
pub struct FigureData {
    /// The row, by algorithm and case.
    pub row: String,
    /// The case in words.
    pub given: &'static str,
    /// As a formula.
    pub formula: &'static str,
    /// What the formula comes to.
    pub value: f64,
    /// Whether it goes with what was counted.
    pub agrees: bool,
}

/// What theory says of an entry for which no other node competes.
pub fn undisturbed(info: &Info, spec: &CheckSpec, node: NodeId) -> Option<Figure> {
    alone(info, &spec.setup, node, None).and_then(Figure::of)
}

/// What theory says of entries under any load, if it is the same for all.
pub fn under_load(info: &Info, spec: &CheckSpec) -> Option<Figure> {
    let mut run = RunSpec::new(info, spec.setup.clone());
    let pause = Spread::between(spec.setup.delay, spec.setup.delay * 9);
    let (clients, rounds) = (spec.clients.clone(), Some(1));
    let arrivals = Arrivals::Closed { clients, rounds, first: pause, think: pause };
    run.workload = Workload { arrivals, ..Workload::idle() };
    fit(info, &run).and_then(Figure::of)
}

/// What theory says of the run in which all ask at once.
pub fn at_once(info: &Info, spec: &CheckSpec) -> Option<Figure> {
    let mut run = RunSpec::new(info, spec.setup.clone());
    let ask = |node| Ask { node, at: Time::ZERO, hold: None };
    let asks = spec.clients.clone().map(NodeId).map(ask);
    let arrivals = Arrivals::Plan(asks.collect());
    run.workload = Workload { arrivals, ..Workload::idle() };
    let fit = fit(info, &run).filter(|fit| fit.about == About::Burst);
    fit.and_then(Figure::of)
}

/// The theory's figures, if messages were counted.
pub fn data(info: &Info, spec: &CheckSpec, report: &Report) -> Option<CountedData> {
    let Messages { of_node, whole } = report.messages.as_ref()?;
    let load = under_load(info, spec);
    let of_node = of_node.iter().map(|&(node, fewest, most)| {
        let lone = undisturbed(info, spec, NodeId(node));
        NodeData {
            node,
            alone: lone.map(|figure| figure.data(fewest, most)),
            under_load: load.as_ref().map(|figure| figure.data(fewest, most)),
        }
    });
    let of_node = of_node.collect();
    let at_once = at_once(info, spec).map(|figure| figure.data(whole.0, whole.1));
    Some(CountedData { of_node, at_once })
}
