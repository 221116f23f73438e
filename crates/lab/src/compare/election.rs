//! Elections measured: who calls, what it costs, and which single crash they survive.

use conclave_protocol::{Crashes, Info, Mark, NodeId, Property, Setup, Time};
use conclave_sim::{
    Action, Arrivals, Ask, Costs, Event, JudgeLimits, Outcome, RunSpec, Superpeers, Tracing,
    Workload, judge,
};
use serde::Serialize;

use super::mutex::{Beside, in_units, topology};
use super::{Comparison, Graph, How, Kind, Line, sheets};
use crate::simulate;
use crate::theory::fit::fit;
use crate::theory::setups::at;

/// How elections are compared.
pub(super) static KIND: Kind = Kind {
    family: "election",
    nodes: &[3, 7, 13, 31, 57],
    seeds: 3,
    how: How::Costs {
        measure: |info, nodes, _, algorithm| algorithm.elections.push(measure(info, nodes)),
        sheet: sheets::election,
        graphs,
    },
};

/// The worst initiator is the lowest.
fn graphs(comparison: &Comparison) -> Vec<Graph> {
    let lines = comparison.algorithms.iter().enumerate().map(|(place, algorithm)| {
        let calls = || {
            let first = |it: &Election| Some((f64::from(it.nodes), it.calls.first()?.messages));
            algorithm.elections.iter().filter_map(first)
        };
        Line {
            name: algorithm.name(),
            place,
            measured: calls().filter_map(|(n, messages)| Some((n, messages.measured?))).collect(),
            theory: calls().filter_map(|(n, messages)| Some((n, messages.theory?))).collect(),
        }
    });
    let title = "Messages of an election that the lowest node calls";
    vec![Graph { title, unit: "messages", log: true, lines: lines.collect() }]
}

/// An algorithm among so many nodes.
#[derive(Clone, Debug, Serialize)]
pub struct Election {
    /// How many nodes there are.
    pub nodes: u32,
    /// Whether the best node has crashed before anybody calls: where the model has crashes.
    pub best_is_dead: bool,
    /// What each call costs.
    pub calls: Vec<Call>,
    /// How it takes crashes.
    pub crashes: Option<Crashed>,
    /// Where several are elected on purpose: how good they are.
    pub superpeers: Option<Superpeers>,
    /// Why there is nothing to measure.
    pub unfit: Option<String>,
}

/// An election.
#[derive(Clone, Debug, Serialize)]
pub struct Call {
    /// Who calls for it, at the same moment.
    pub initiators: Vec<u32>,
    /// Acknowledgements and the like left out.
    pub messages: Beside,
    /// From the call until the last has learnt the outcome, in units of `T`.
    pub turnaround: Beside,
    /// Bytes sent.
    pub bytes: u64,
    /// Acknowledgements and the like.
    pub upkeep: u64,
    /// Who is elected.
    pub leader: Option<u32>,
}

/// What becomes of an election if one node crashes in the course of it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Crashed {
    /// Runs, each with a crash of another node or at another moment …
    pub runs: u32,
    /// … of which in so many everybody who is left agrees on the best of them.
    pub survived: u32,
    /// The first in which they do not: who crashes, when after the call in units of `T`, and what
    /// is wrong then.
    pub first: Option<(u32, f64, String)>,
}

/// When the calls are made: after everything has been detected.
const CALLED: u32 = 10;
/// At most so many crashes are tried.
const TRIED: u32 = 600;

/// Who calls: everybody in a small system; the lowest, the middle and the highest in a large one.
fn initiators(live: u32) -> Vec<Vec<u32>> {
    let mut alone: Vec<u32> =
        if live <= 12 { (0..live).collect() } else { vec![0, live / 2, live - 1] };
    alone.dedup();
    let mut calls: Vec<Vec<u32>> = alone.into_iter().map(|node| vec![node]).collect();
    if live > 1 {
        calls.push((0..live).collect());
    }
    calls
}

/// Measures an algorithm among `nodes` nodes.
pub fn measure(info: &'static Info, nodes: u32) -> Election {
    let several = info.elects_several();
    let best_is_dead = info.model.crashes > Crashes::None && nodes > 1 && !several;
    let mut election = Election {
        nodes,
        best_is_dead,
        calls: Vec::new(),
        crashes: None,
        superpeers: None,
        unfit: None,
    };
    let live = nodes - u32::from(best_is_dead);
    let calls = if several { vec![Vec::new()] } else { initiators(live) };
    for callers in calls {
        let mut spec = call(info, nodes, &callers, best_is_dead);
        spec.tracing = Tracing::Sizes;
        let outcome = match simulate(&spec) {
            Ok(outcome) => outcome,
            Err(failure) => return Election { unfit: Some(failure.to_string()), ..election },
        };
        election.calls.push(Call::of(info, &spec, &outcome, callers));
        if several {
            election.superpeers =
                Some(Superpeers::of(&outcome.trace.beliefs(), &spec.setup.topology));
        }
    }
    if !several {
        election.crashes = crash(info, nodes, live, best_is_dead);
    }
    election
}

/// The run in which these nodes call.
fn call(info: &'static Info, nodes: u32, callers: &[u32], best_is_dead: bool) -> RunSpec {
    let mut spec = RunSpec::new(info, Setup::new(topology(info, nodes)));
    let ask = |node: &u32| Ask { node: NodeId(*node), at: at(CALLED), hold: None };
    let arrivals = Arrivals::Plan(callers.iter().map(ask).collect());
    spec.workload = Workload { arrivals, ..Workload::idle() };
    if best_is_dead {
        spec.faults = spec.faults.with(Time::ZERO, Action::Crash(NodeId(nodes - 1)));
    }
    spec.until = at(1000 + 100 * nodes);
    spec
}

impl Call {
    fn of(info: &'static Info, spec: &RunSpec, outcome: &Outcome, initiators: Vec<u32>) -> Self {
        let costs = Costs::of(&outcome.trace);
        let learnt = last_learnt(outcome);
        let theory = fit(info, spec);
        let theory = |quantity| theory.as_ref()?.figure(quantity).map(|number| number.to_f64());
        let measured = Some(counted(&costs) as f64);
        let turnaround = learnt.map(|(learnt, _)| in_units(learnt - at(CALLED).min(learnt)));
        Self {
            initiators,
            messages: Beside { measured, theory: theory("messages_total") },
            turnaround: Beside { measured: turnaround, theory: theory("turnaround_hops") },
            bytes: costs.bytes,
            upkeep: costs.messages - counted(&costs),
            leader: learnt.map(|(_, leader)| leader),
        }
    }
}

/// The messages that make up an election: all but those that belong to no request.
fn counted(costs: &Costs) -> u64 {
    // Where nobody asks, everything counts.
    if costs.overhead == costs.messages { costs.messages } else { costs.messages - costs.overhead }
}

/// When the last node learnt who leads, and who that is.
fn last_learnt(outcome: &Outcome) -> Option<(Time, u32)> {
    outcome.trace.records.iter().rev().find_map(|record| match record.event() {
        Event::Notice(Mark::Follows { leader, .. }) => Some((record.at, leader.0)),
        _ => None,
    })
}

/// Has the lowest node call, and every node crash at every moment in turn.
fn crash(info: &'static Info, nodes: u32, live: u32, best_is_dead: bool) -> Option<Crashed> {
    let spec = call(info, nodes, &[0], best_is_dead);
    let (end, _) = last_learnt(&simulate(&spec).ok()?)?;
    let moments = (in_units(end - at(CALLED).min(end)).ceil() as u32).max(1);
    let points = u64::from(live) * u64::from(moments);
    let step = points.div_ceil(u64::from(TRIED)).max(1);
    let mut crashed = Crashed::default();
    for point in (0..points).step_by(step as usize) {
        let (node, moment) = ((point % u64::from(live)) as u32, (point / u64::from(live)) as u32);
        let mut spec = spec.clone();
        let when = at(CALLED) + spec.setup.delay * moment + spec.setup.delay / 2;
        spec.faults = spec.faults.with(when, Action::Crash(NodeId(node)));
        let outcome = simulate(&spec).ok()?;
        crashed.runs += 1;
        match broken(info, &spec, &outcome) {
            None => crashed.survived += 1,
            Some(why) if crashed.first.is_none() => {
                crashed.first = Some((node, f64::from(moment) + 0.5, why));
            }
            Some(_) => {}
        }
    }
    Some(crashed)
}

/// What is wrong when all is over, of what the algorithm is there for.
fn broken(info: &'static Info, spec: &RunSpec, outcome: &Outcome) -> Option<String> {
    let limits = JudgeLimits::of(info, spec, &outcome.trace);
    let wanted = [Property::LeaderKnown, Property::OneLeader, Property::BestLeads];
    let promised = wanted.into_iter().filter(|property| info.holds.contains(property));
    promised.into_iter().find_map(|property| match judge(property, &outcome.trace, limits) {
        verdict if verdict.held() => None,
        conclave_sim::Verdict::Violated { why, .. } => Some(format!("{property}: {why}")),
        _ => Some(format!("{property}: it never comes to rest")),
    })
}
