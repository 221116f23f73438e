//! Elections measured: who calls, what it costs, and which single crash they survive.

use conclave_protocol::{Crashes, Info, NodeId, Observation, Property, Setup, Time};
use conclave_sim::{
    Arrivals, Ask, Costs, Event, Fault, JudgeLimits, Outcome, RunSpec, Spacing, Superpeers,
    Tracing, Workload, judge,
};
use serde::Serialize;

use super::mutex::{Beside, in_units, topology};
use super::{Comparison, Graph, How, Kind, Line, Sheet, figure, or_dash};
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
        sheet,
        further: superpeers,
        graphs,
    },
};

/// The columns after the name, and how much each matters: the last go first where a line is short.
const COLUMNS: [(&str, u8); 9] = [
    ("messages, least", 0),
    ("messages, most", 0),
    ("messages, all call", 0),
    ("time, least", 3),
    ("time, most", 1),
    ("bytes, most", 2),
    ("upkeep", 4),
    ("survives", 0),
    ("leader", 2),
];

/// The table for one number of nodes.
fn sheet(comparison: &Comparison, _: usize, nodes: u32) -> Sheet {
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    notes.push(
        "One node calls for an election, the one with which it costs least or most, or all call at \
         once. Where the model has crashes (†), the best node has crashed before. Messages without \
         acknowledgements and the like, which stand under upkeep. T is the time a message takes. \
         survives: the lowest node calls, and each node in turn crashes at each moment of the \
         election; in how many of these runs all who are left agree on the best of them. ✓: exactly \
         as theory has it; (n): theory says n; neither: theory has no formula for it"
            .to_owned(),
    );
    for algorithm in &comparison.algorithms {
        let of_size = algorithm.elections.iter().filter(|election| election.nodes == nodes);
        for election in of_size.filter(|election| election.superpeers.is_none()) {
            let name = algorithm.name();
            if let Some(why) = &election.unfit {
                notes.push(format!("{name}: – because {why}"));
                rows.push([vec![name.to_owned()], vec!["–".into(); COLUMNS.len()]].concat());
                continue;
            }
            let dagger = if election.best_is_dead { "†" } else { "" };
            rows.push([vec![format!("{name}{dagger}")], called(election)].concat());
            if let Some((node, when, why)) =
                election.crashes.iter().find_map(|it| it.first.as_ref())
            {
                notes.push(format!(
                    "{name}: if p{node} crashes {} T after the call: {why}",
                    figure(*when)
                ));
            }
        }
    }
    let head = std::iter::once("algorithm").chain(COLUMNS.map(|(head, _)| head));
    let matters = std::iter::once(0).chain(COLUMNS.map(|(_, matters)| matters)).collect();
    let head = head.map(str::to_owned).collect();
    Sheet { title: format!("N = {nodes}"), head, rows, notes, words: 1, matters }
}

/// The cells after the name.
fn called(election: &Election) -> Vec<String> {
    let alone = || election.calls.iter().filter(|call| call.initiators.len() == 1);
    let by_cost = |call: &&Call| call.messages.measured.map(|it| it as u64);
    let (least, most) = (alone().min_by_key(by_cost), alone().max_by_key(by_cost));
    let all = election.calls.iter().find(|call| call.initiators.len() > 1);
    let messages = |call: Option<&Call>| {
        call.map_or_else(|| "–".to_owned(), |call| call.messages.show(figure))
    };
    let time = |call: Option<&Call>| {
        call.map_or_else(|| "–".to_owned(), |call| call.turnaround.show(figure))
    };
    let number = |call: Option<&Call>, read: fn(&Call) -> u64| {
        call.map_or_else(|| "–".to_owned(), |call| read(call).to_string())
    };
    let survives = election
        .crashes
        .as_ref()
        .map_or_else(|| "–".to_owned(), |crashed| format!("{}/{}", crashed.survived, crashed.runs));
    let leader = most.and_then(|call| call.leader);
    vec![
        messages(least),
        messages(most),
        messages(all),
        time(least),
        time(most),
        number(most, |call| call.bytes),
        number(most, |call| call.upkeep),
        survives,
        leader.map_or_else(|| "–".to_owned(), |leader| format!("p{leader}")),
    ]
}

/// Where several are elected on purpose.
fn superpeers(comparison: &Comparison) -> Option<Sheet> {
    let mut rows = Vec::new();
    for algorithm in &comparison.algorithms {
        for Election { nodes, calls, superpeers, .. } in &algorithm.elections {
            let Some(found) = superpeers else { continue };
            let space = |read: fn(&Spacing) -> f64| or_dash(found.space.as_ref().map(read));
            rows.push(vec![
                algorithm.name().to_owned(),
                nodes.to_string(),
                found.count.to_string(),
                figure(found.load_mean),
                found.load_most.to_string(),
                space(|it| it.reach_mean),
                space(|it| it.reach_most),
                space(|it| it.gap.least),
                space(|it| it.random.least),
                space(|it| it.gap.mean),
                space(|it| it.random.mean),
                space(|it| it.grid),
                calls.first().map_or_else(
                    || "–".to_owned(),
                    |call| figure(call.messages.measured.unwrap_or(0.0) / f64::from(*nodes)),
                ),
            ]);
        }
    }
    let head = [
        "algorithm",
        "nodes",
        "super- peers",
        "load, mean",
        "load, most",
        "away, mean",
        "away, most",
        "gap, least",
        "at random",
        "gap, mean",
        "at random",
        "on a grid",
        "messages per node",
    ];
    let notes = vec![
        "Several are elected on purpose, to serve the rest. away: from a node to its superpeer; gap: \
         from a superpeer to the nearest other; one node to a unit of space"
            .to_owned(),
    ];
    let title = "Superpeers".to_owned();
    let matters = vec![0, 0, 0, 1, 1, 2, 2, 1, 1, 3, 3, 1, 1];
    let head = head.map(str::to_owned).to_vec();
    (!rows.is_empty()).then_some(Sheet { title, head, rows, notes, words: 1, matters })
}

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
                Some(Superpeers::of(&outcome.trace.leaders(), &spec.setup.topology));
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
        spec.faults = spec.faults.with(Time::ZERO, Fault::Crash(NodeId(nodes - 1)));
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
    // Where no message belongs to a request, every message counts.
    if costs.overhead == costs.messages { costs.messages } else { costs.messages - costs.overhead }
}

/// When the last node learnt who leads, and who that is.
fn last_learnt(outcome: &Outcome) -> Option<(Time, u32)> {
    outcome.trace.records.iter().rev().find_map(|record| match record.event() {
        Event::Notice(Observation::Follows { leader, .. }) => Some((record.at, leader.0)),
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
        spec.faults = spec.faults.with(when, Fault::Crash(NodeId(node)));
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
