//! A whole check: the search, what it found, in words and as runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use conclave_protocol::{Algorithm, Promise, Property};

use crate::count;
use crate::graph::Graph;
use crate::liveness::Liveness;
use crate::local::{Rules, Watch};
use crate::nodes::Nodes;
use crate::report::{Coverage, Judgement, Report, Verdict, Violation};
use crate::search::{Plan, Progress, search};
use crate::space::{Global, LocalEvent, Space};
use crate::symmetry::{Canon, Group, Renamings};
use crate::witness::{Pick, Start, explain, retrace};
use crate::worker::SystemShape;
use crate::worker::Worker;
use crate::{CheckError, CheckSpec, Requests};

/// The space of a check, and the state in which all nodes have booted.
pub(crate) fn begin(
    algorithm: &dyn Algorithm,
    spec: &CheckSpec,
    watch: Watch,
) -> Result<(Space, Start), CheckError> {
    let mut numbered = algorithm.numbered(&spec.setup)?;
    let client = numbered.client();
    let topology = spec.setup.topology.clone();
    let (timers, requests) = (spec.timers, spec.requests);
    let shape = SystemShape::new(spec, watch);
    let mid_step = spec.budgets.mid_step;
    let rules = Rules { topology: topology.clone(), client, timers, requests, mid_step, watch };
    let mut space = Space::new(Nodes::new(numbered, rules), watch, spec);
    let (mut start, mut sent) = (vec![0; shape.slots()], Vec::new());
    let mut global = Global {
        budgets: spec.budgets,
        apart: 0,
        high: None,
        unfenced: false,
        leaders: Vec::new(),
        split: false,
        pending: 0,
        history: Vec::new(),
        channels: BTreeMap::new(),
    };
    for node in topology.nodes() {
        let asks = if spec.clients.contains(&node.0) { requests } else { Requests::AtMost(0) };
        let off = space.nodes.off(node, asks);
        let (step, ways) = space.take(off, LocalEvent::Boot { remembers: true });
        if ways > 1 {
            let id = &spec.algorithm;
            let why = format!("{id} makes a choice while it boots, which cannot be checked");
            return Err(CheckError::Contradiction(why));
        }
        let step = space.step(step).clone();
        start[node.index()] = step.local;
        global.remember(watch, &step);
        for &(to, envelope) in &step.sends {
            let slot = shape.slot(node.index(), to.index());
            start[slot] = space.append(start[slot], envelope);
            sent.push((slot - shape.n, envelope));
        }
    }
    start[shape.slots() - 1] = space.add_global(global);
    Ok((space, Start { state: start, sent }))
}

/// Checks an algorithm: explores every run within the budgets, and says of each property that it
/// holds, or shows a run that violates it.
pub fn check(
    algorithm: &dyn Algorithm,
    spec: &CheckSpec,
    progress: &Progress,
) -> Result<Report, CheckError> {
    spec.validate()?;
    let mut watch = Watch::of(spec);
    let mut group = if spec.symmetry { Some(Arc::new(Group::of(spec)?)) } else { None };
    let mut first_why = None;
    loop {
        let (space, start) = begin(algorithm, spec, watch)?;
        match attempt(space, &start, spec, watch, group.as_ref(), progress)? {
            Attempt::Done(report) => return Ok(report),
            // A rule looks at the clock: then the time is part of every state.
            Attempt::NoClock => watch.clock = true,
            Attempt::Names(smaller, why) => {
                let why = first_why.get_or_insert(why).clone();
                if smaller.order() == 1 {
                    let algorithm = spec.algorithm.clone();
                    return Err(CheckError::NotSymmetric { algorithm, why });
                }
                group = Some(Arc::new(smaller));
            }
        }
        progress.restart();
    }
}

/// How a search went.
enum Attempt {
    Done(Report),
    /// It was in vain because it kept no clock.
    NoClock,
    /// It was in vain because it renamed nodes that the rules tell apart: the renamings that may
    /// be used, and what is wrong with the others.
    Names(Group, String),
}

/// One search.
fn attempt(
    mut space: Space,
    start: &Start,
    spec: &CheckSpec,
    watch: Watch,
    group: Option<&Arc<Group>>,
    progress: &Progress,
) -> Result<Attempt, CheckError> {
    let mut shape = SystemShape::new(spec, watch);
    let graph = !shape.liveness.is_empty() || spec.count;
    shape.compare &= !graph && group.is_none();
    if let Some(group) = group {
        space.rename_by(Renamings::new(Arc::clone(group), spec));
    }
    let space = Mutex::new(space);
    let exhaustive = spec.count;
    let mut canon = group.map(|group| Canon::new(group, &shape));
    let mut first = start.state.clone();
    if let Some(canon) = &mut canon {
        canon.settle(&space, &mut first);
    }
    let group = group.map(|group| &**group);
    let plan = Plan { shape: &shape, limits: spec.limits, graph, group, exhaustive };
    let mut found = search(&space, &first, &plan, progress);
    let told_apart = space.lock().expect("no thread has failed").told_apart();
    if let Some((group, why)) = told_apart {
        return Ok(Attempt::Names(group, why));
    }
    if space.lock().expect("no thread has failed").nodes.wants_clock() {
        return Ok(Attempt::NoClock);
    }
    let mut worker = Worker::new(&space, &shape);
    let mut verdicts = Vec::new();
    let log = std::mem::take(&mut found.log);
    let edges = std::mem::take(&mut found.edges);
    let mut liveness = None;
    for &property in &spec.properties {
        let at = found.violations.iter().find(|(violated, _)| *violated == property);
        let verdict = if let Some(&(_, state)) = at {
            let path: Vec<Pick> = log.path(state).into_iter().map(Pick::Print).collect();
            let run = retrace(&mut worker, start, &path, canon.as_mut());
            let why = explain(&mut worker, property, &run);
            Verdict::Violated(Violation { why, decisions: run.decisions, loop_from: None })
        } else if found.stop.is_some() {
            Verdict::Open
        } else {
            if group.is_some() && shape.liveness.iter().any(|it| it.property == property) {
                let liveness = liveness.get_or_insert_with(|| Liveness::new(&edges, &log, &shape));
                liveness.expect_ends(property)?;
            }
            let lasso =
                shape.liveness.iter().position(|it| it.property == property).and_then(|place| {
                    let liveness =
                        liveness.get_or_insert_with(|| Liveness::new(&edges, &log, &shape));
                    liveness.lasso(property, place)
                });
            match lasso {
                Some(lasso) => {
                    let run = retrace(&mut worker, start, &lasso.path, None);
                    let why = lasso.why;
                    let loop_from = Some(lasso.loop_from);
                    Verdict::Violated(Violation { why, decisions: run.decisions, loop_from })
                }
                None => match vacuous(&space.lock().expect("no thread has failed"), property) {
                    Some(why) => Verdict::Vacuous { why: why.to_owned() },
                    None => Verdict::Holds,
                },
            }
        };
        verdicts.push(Judgement { property, verdict });
    }
    let space = space.into_inner().expect("no thread has failed");
    let coverage = Coverage {
        states: found.states,
        transitions: found.transitions,
        depth: found.depth,
        terminal: found.terminal,
        stop: found.stop,
        collision: collision(found.states),
        bytes: found.bytes as u64,
        parts: space.sizes(),
        reduced: shape.compare,
        symmetric: group.is_some(),
        unexercised: space.unexercised(),
    };
    let messages = (spec.count && coverage.stop.is_none())
        .then(|| count::messages(&Graph::new(&edges, &log), &space, spec.clients.clone()));
    Ok(Attempt::Done(Report { verdicts, coverage, messages }))
}

/// How likely it is that two of so many states have one fingerprint of 64 bits.
fn collision(states: u64) -> f64 {
    let pairs = states as f64 * states.saturating_sub(1) as f64 / 2.0;
    -(-pairs / 2_f64.powi(64)).exp_m1()
}

/// Why a property holds for want of anything that it speaks of, if that is so.
fn vacuous(space: &Space, property: Property) -> Option<&'static str> {
    let promise = Promise::of(property);
    if promise.facts && !space.nodes.has_facts() {
        return Some("nothing is known of the whole system");
    }
    let (which, why) = promise.about?;
    (!space.marks().any(which)).then_some(why)
}

#[cfg(test)]
mod tests {
    use conclave_algorithms::mutex::{raymond_tree, ricart_agrawala};
    use conclave_protocol::{Channels, Setup, Topology};

    use super::*;
    use crate::worker::fingerprint;

    /// Retraces the path to every state that a reduced search has visited.
    fn retrace_all(entry: &dyn Algorithm, topology: Topology, channels: Channels) {
        let nodes = topology.len();
        let mut spec = CheckSpec::new(entry.info(), Setup::new(topology), 0..nodes);
        spec.properties = vec![Property::Exclusion];
        (spec.channels, spec.requests) = (channels, Requests::AtMost(2));
        let watch = Watch::of(&spec);
        let shape = SystemShape::new(&spec, watch);
        let (space, start) = begin(entry, &spec, watch).expect("it can be checked");
        let space = Mutex::new(space);
        let plan = Plan {
            shape: &shape,
            limits: spec.limits,
            graph: false,
            exhaustive: true,
            group: None,
        };
        let found = search(&space, &start.state, &plan, &Progress::default());
        assert!(found.stop.is_none() && found.states > 1_000, "{}", found.states);
        let mut worker = Worker::new(&space, &shape);
        for state in (0..found.log.end() as u32).step_by(7) {
            let path = found.log.path(state);
            let picks: Vec<Pick> = path.iter().copied().map(Pick::Print).collect();
            let run = retrace(&mut worker, &start, &picks, None);
            let print = fingerprint(&run.state) as u32;
            assert!(path.last().is_none_or(|last| *last == print));
        }
    }

    #[test]
    fn every_path_of_a_reduced_search_can_be_taken_again() {
        let complete = Topology::complete(3);
        retrace_all(&ricart_agrawala::PLAIN, complete.clone(), Channels::Fifo);
        retrace_all(&ricart_agrawala::PLAIN, complete, Channels::Reliable);
        retrace_all(&raymond_tree::PLAIN, Topology::line(4), Channels::Fifo);
    }
}
