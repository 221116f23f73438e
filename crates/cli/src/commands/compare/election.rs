//! Elections measured: the top node is dead, and one of the others calls for an election.

use conclave_protocol::{Info, Mark, NodeId, Setup, Time};
use conclave_sim::{Action, Arrivals, Ask, Costs, Event, RunSpec, Workload};
use serde::Serialize;

use super::mutex::{Beside, in_units, topology};
use crate::simulate;
use crate::theory::formula::{Params, whole};
use crate::theory::row;
use crate::theory::setups::at;

/// An election called by one node.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Election {
    pub(super) nodes: u32,
    /// Who calls.
    pub(super) initiator: u32,
    /// What it costs, unless the algorithm does not fit.
    pub(super) messages: Beside,
    /// From the call until the last has learnt the outcome, in units of `T`.
    pub(super) turnaround: Beside,
    pub(super) leader: Option<u32>,
    /// Why there is nothing to measure.
    pub(super) unfit: Option<String>,
}

/// Who calls: everybody in a small system; the lowest, the middle and the highest in a large one.
pub(super) fn initiators(nodes: u32) -> Vec<u32> {
    let live = nodes.saturating_sub(1);
    if live <= 7 { (0..live).collect() } else { vec![0, live / 2, live - 1] }
}

/// Measures the election that `initiator` calls for.
pub(super) fn measure(info: &'static Info, nodes: u32, initiator: u32) -> Election {
    let top = NodeId(nodes - 1);
    let mut spec = RunSpec::new(info, Setup::new(topology(info, nodes)));
    let call = Ask { node: NodeId(initiator), at: at(10), hold: None };
    spec.workload = Workload { arrivals: Arrivals::Plan(vec![call]), ..Workload::idle() };
    spec.faults = spec.faults.with(Time::ZERO, Action::Crash(top));
    spec.until = at(1000 + 100 * nodes);
    let mut election = Election {
        nodes,
        initiator,
        messages: Beside::default(),
        turnaround: Beside::default(),
        leader: None,
        unfit: None,
    };
    let outcome = match simulate(&spec) {
        Ok(outcome) => outcome,
        Err(failure) => return Election { unfit: Some(failure.to_string()), ..election },
    };
    let costs = Costs::of(&outcome.trace);
    let last = outcome.trace.records.iter().rev().find_map(|record| match record.event() {
        Event::Notice(Mark::Follows { leader, .. }) => Some((record.at, leader.0)),
        _ => None,
    });
    let params: Params = [("N", nodes), ("a", top.0 - initiator), ("T", 1)]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), whole(value)))
        .collect();
    let theory = |quantity| {
        let figure = row(info.id, "probing")?.figure(quantity, &params)?;
        figure.ok().map(|number| number.to_f64())
    };
    let measured = Some(costs.messages as f64);
    election.messages = Beside { measured, theory: theory("messages_total") };
    let measured = last.map(|(learnt, _)| in_units(learnt - at(10)));
    // With nobody to tell, the last hop is missing.
    let told = nodes > 2;
    let theory = theory("turnaround_hops").filter(|_| told);
    election.turnaround = Beside { measured, theory };
    election.leader = last.map(|(_, leader)| leader);
    election
}
