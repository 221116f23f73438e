//! One run, step by step: what has been decided, and what can happen next.
//!
//! The ways on are those that the search follows, found by the same function.

use std::collections::BTreeSet;
use std::sync::Mutex;

use conclave_protocol::{
    Action, Algorithm, Channels, Crashes, Decision, Detector, Info, NodeId, Promise, Property,
    Timing, names,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::check::begin;
use crate::local::Watch;
use crate::space::Space;
use crate::witness::{Retraced, Start, decision, explain};
use crate::worker::{
    Candidate, FAIR, Move, NO_STEP, SystemShape, WHOLE, Worker, fingerprint, is_due,
};
use crate::{Budgets, CheckError, CheckSpec, Timers};

#[cfg(test)]
mod tests;

/// Something that can happen next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Next {
    /// The decision that has it happen, as the simulator follows it.
    pub decision: Decision,
    /// What happens, in words: "p1 gets Request from p0".
    pub words: String,
    /// Whether the algorithm's model allows for it.
    pub within_model: bool,
    /// The properties that hold before it and not after it.
    pub breaks: Vec<Breach>,
}

/// A property that a step breaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breach {
    /// Which.
    pub property: Property,
    /// What is wrong then, in words.
    pub why: String,
}

/// Why it cannot be said what can happen next.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NextError {
    /// There can be no such check.
    #[error("{0}")]
    Check(#[from] CheckError),
    /// A decision that cannot be carried out, or not as a step of the checker.
    #[error("decision {number} cannot be taken again: {what}, but {why}")]
    Senseless {
        /// Which, counted from 1.
        number: usize,
        /// What it says.
        what: String,
        /// Why that cannot be.
        why: String,
    },
}

/// What can happen in the system that `spec` describes when these decisions have been carried out:
/// everything that the checker would explore from there.
///
/// The budgets of `spec` are for the whole run. Where the decisions have used up more, so many more
/// were allowed, and none is left.
pub fn next(
    algorithm: &dyn Algorithm,
    spec: &CheckSpec,
    decisions: &[Decision],
) -> Result<Vec<Next>, NextError> {
    let mut explorer = Explorer::new(algorithm, spec, decisions, false)?;
    loop {
        let state = explorer.replay(decisions);
        let listed = match &state {
            Ok(walk) => explorer.list(algorithm.info(), walk),
            Err(_) => Vec::new(),
        };
        let wants_clock = explorer.space.lock().expect("no thread has failed").nodes.wants_clock();
        if !wants_clock || explorer.shape.watch.clock {
            return state.map(|_| listed);
        }
        // A rule looks at the clock: then the time is part of every state.
        explorer = Explorer::new(algorithm, spec, decisions, true)?;
    }
}

/// A system whose runs are taken step by step.
struct Explorer {
    space: Mutex<Space>,
    shape: SystemShape,
    start: Start,
    timers: Timers,
}

/// How far a run has come.
#[derive(Clone, Debug)]
struct Walk {
    state: Vec<u32>,
    /// The messages on their way, by link, in the order in which they were sent.
    links: Vec<Vec<u32>>,
}

/// A way on.
struct Way {
    candidate: Candidate,
    decision: Decision,
    walk: Walk,
}

impl Explorer {
    fn new(
        algorithm: &dyn Algorithm,
        spec: &CheckSpec,
        decisions: &[Decision],
        clock: bool,
    ) -> Result<Self, CheckError> {
        let spec = CheckSpec { budgets: enough(spec.budgets, decisions), ..spec.clone() };
        spec.validate()?;
        let mut watch = Watch::of(&spec);
        let told = decisions.iter().any(|it| it.clock != conclave_protocol::Time::ZERO);
        watch.clock = clock || told;
        let mut shape = SystemShape::new(&spec, watch);
        // Every way on is listed, also where orders cannot be told apart.
        shape.compare = false;
        let (space, start) = begin(algorithm, &spec, watch)?;
        Ok(Self { space: Mutex::new(space), shape, start, timers: spec.timers })
    }

    fn begin(&self) -> Walk {
        let mut links = vec![Vec::new(); self.shape.links.len()];
        for &(link, envelope) in &self.start.sent {
            links[link].push(envelope);
        }
        Walk { state: self.start.state.clone(), links }
    }

    /// The run that these decisions make.
    fn replay(&self, decisions: &[Decision]) -> Result<Walk, NextError> {
        let mut walk = self.begin();
        for (number, decision) in (1..).zip(decisions) {
            walk = self.take(&walk, decision).map_err(|why| NextError::Senseless {
                number,
                what: decision.what.to_string(),
                why,
            })?;
        }
        Ok(walk)
    }

    /// The run with one more step, or why there is no such step.
    fn take(&self, walk: &Walk, decision: &Decision) -> Result<Walk, String> {
        let Some(wanted) = self.as_listed(walk, decision)? else { return Ok(walk.clone()) };
        let mut walk = walk.clone();
        if self.timers == Timers::Anytime
            && let Some(node) = wanted.what.actor()
        {
            let mut space = self.space.lock().expect("no thread has failed");
            let local = &mut walk.state[node.index()];
            *local = space.nodes.at_clock(*local, decision.clock);
        }
        let mut worker = Worker::new(&self.space, &self.shape);
        let mut ways = self.ways(&mut worker, &walk).into_iter();
        let same = |way: &Way| {
            let it = &way.decision;
            let clock = self.timers == Timers::Anytime || it.clock == wanted.clock;
            (&it.what, &it.choices, it.crash_after)
                == (&wanted.what, &wanted.choices, wanted.crash_after)
                && clock
        };
        let Some(mut way) = ways.find(same) else {
            return Err("that is not among what can happen there".to_owned());
        };
        self.lose(&mut way, &decision.lost)?;
        Ok(way.walk)
    }

    /// The decision as it would be listed; none if it is no step here.
    fn as_listed(&self, walk: &Walk, decision: &Decision) -> Result<Option<Decision>, String> {
        let mut wanted = Decision { lost: Vec::new(), at: None, due: None, ..decision.clone() };
        let last = NodeId(self.shape.n as u32 - 1);
        if wanted.what.nodes().into_iter().any(|node| node > last) {
            return Err(format!("there are only nodes p0 to {last}"));
        }
        match &mut wanted.what {
            Action::Boot(_) if decision.choices.is_empty() && decision.lost.is_empty() => {
                return Ok(None);
            }
            Action::Boot(_) => {
                return Err("the checker boots nodes without choices and losses".to_owned());
            }
            // What a paused node does, it does later: that is all there is to a pause.
            Action::Pause(_) | Action::Resume(_) => return Ok(None),
            Action::Deliver { from, to, place }
            | Action::Lose { from, to, place }
            | Action::Repeat { from, to, place } => {
                if from == to {
                    return Err("there is no such link".to_owned());
                }
                let link = &walk.links[self.shape.link(from.index(), to.index())];
                let Some(envelope) = link.get(*place as usize) else {
                    return Err("there is no such message on its way".to_owned());
                };
                // Equal messages are one to the checker: the one that was sent first.
                let first = link.iter().position(|it| it == envelope).expect("it is there");
                *place = first as u32;
            }
            Action::Partition(groups) => {
                let n = self.shape.n as u32;
                let Some((here, _)) = halves(groups, n) else {
                    return Err("the checker knows only partitions into two groups".to_owned());
                };
                *groups = sides(here, n);
            }
            _ => {}
        }
        while wanted.choices.last() == Some(&0) {
            wanted.choices.pop();
        }
        Ok(Some(wanted))
    }

    /// The network loses some of what the step has sent.
    fn lose(&self, way: &mut Way, lost: &[u32]) -> Result<(), String> {
        let mut space = self.space.lock().expect("no thread has failed");
        let shape = &self.shape;
        for &number in lost {
            let step = Some(way.candidate.step).filter(|step| *step != NO_STEP);
            let sent = step.and_then(|step| space.step(step).sends.get(number as usize).copied());
            let Some((to, envelope)) = sent else {
                return Err(format!("the step sends no message number {number}"));
            };
            let slot = shape.slot(usize::from(way.candidate.node), to.index());
            let link = &mut way.walk.links[slot - shape.n];
            if let Some(place) = link.iter().rposition(|it| *it == envelope) {
                link.remove(place);
                let mut content = link.clone();
                if !space.ordered {
                    content.sort_unstable();
                }
                way.walk.state[slot] = space.add_link(content);
            }
            let global = &mut way.walk.state[shape.global_slot()];
            let mut paid = space.global(*global).clone();
            paid.budgets.losses = paid.budgets.losses.saturating_sub(1);
            *global = space.add_global(paid);
        }
        Ok(())
    }

    /// Every way on.
    fn ways(&self, worker: &mut Worker<'_>, walk: &Walk) -> Vec<Way> {
        worker.candidates.clear();
        worker.changes.clear();
        worker.expand(&walk.state, fingerprint(&walk.state), 0, 0);
        let candidates = worker.candidates.clone();
        let ways = candidates.into_iter().enumerate().map(|(at, candidate)| {
            let state = worker.led_to(at, &walk.state);
            let mut links = walk.links.clone();
            let space = self.space.lock().expect("no thread has failed");
            let decision = decision(&space, &candidate, &walk.state, &state, &mut links, worker);
            Way { candidate, decision, walk: Walk { state, links } }
        });
        ways.collect()
    }

    /// Every state that one step leads to, with the decision that does.
    #[cfg(test)]
    fn reached(&self, walk: &Walk) -> Vec<(Decision, Walk)> {
        let mut worker = Worker::new(&self.space, &self.shape);
        let ways = self.ways(&mut worker, walk).into_iter();
        ways.map(|way| (way.decision, way.walk)).collect()
    }

    fn list(&self, info: &Info, walk: &Walk) -> Vec<Next> {
        let mut worker = Worker::new(&self.space, &self.shape);
        let before = self.broken(&mut worker, &walk.state);
        let ways = self.ways(&mut worker, walk).into_iter();
        let listed = ways.map(|way| {
            let after = self.broken(&mut worker, &way.walk.state);
            let broken = after.into_iter().filter(|property| !before.contains(property));
            let run = self.last_step(&way);
            let breaks = broken.map(|property| {
                let why = explain(&mut worker, property, &run);
                Breach { property, why }
            });
            let breaks = breaks.collect();
            let (words, within_model) = (self.words(walk, &way), self.is_within(info, walk, &way));
            Next { decision: way.decision, words, within_model, breaks }
        });
        listed.collect()
    }

    /// The properties that a state violates; of those about the end of a run, if it is one.
    fn broken(&self, worker: &mut Worker<'_>, state: &[u32]) -> Vec<Property> {
        let mask = worker.broken(state);
        let safety = self.shape.safety.iter().enumerate();
        let violated = safety.filter(|(place, _)| mask >> place & 1 == 1);
        let mut broken: Vec<Property> = violated.map(|(_, promise)| promise.property).collect();
        let end = worker.moves(state) == 0;
        if !worker.candidates.iter().any(|candidate| candidate.flags & FAIR != 0) {
            let due: Vec<&&Promise> =
                self.shape.liveness.iter().filter(|promise| is_due(promise, end)).collect();
            broken.extend(
                due.into_iter()
                    .filter(|promise| !worker.at_rest(promise, state))
                    .map(|promise| promise.property),
            );
        }
        broken
    }

    fn last_step(&self, way: &Way) -> Retraced {
        let space = self.space.lock().expect("no thread has failed");
        let marks = match way.candidate.step {
            NO_STEP => Vec::new(),
            step => space.step(step).marks.to_vec(),
        };
        let node = NodeId(u32::from(way.candidate.node));
        Retraced { decisions: Vec::new(), state: way.walk.state.clone(), marks, node }
    }

    fn words(&self, walk: &Walk, way: &Way) -> String {
        let mut space = self.space.lock().expect("no thread has failed");
        let ends = |link: u8| {
            let (from, to) = self.shape.links[usize::from(link)];
            (NodeId(u32::from(from)), NodeId(u32::from(to)))
        };
        let mut words = match way.candidate.mv {
            Move::Own { node } => {
                let event = way.candidate.local_event.expect("it is an event at the node");
                space.nodes.deed(walk.state[usize::from(node)], event)
            }
            Move::Deliver { link, envelope } => {
                let (from, to) = ends(link);
                format!("{to} gets {} from {from}", space.nodes.message(envelope))
            }
            Move::Vanish { link, envelope } => {
                let (from, to) = ends(link);
                let up = space.nodes.view(walk.state[to.index()]).up;
                let why = if up { "they are apart".to_owned() } else { format!("{to} is down") };
                format!("{} from {from} to {to} is lost: {why}", space.nodes.message(envelope))
            }
            Move::Lose { link, envelope } => {
                let (from, to) = ends(link);
                format!("the network loses {} from {from} to {to}", space.nodes.message(envelope))
            }
            Move::Repeat { link, envelope } => {
                let (from, to) = ends(link);
                format!("the network repeats {} from {from} to {to}", space.nodes.message(envelope))
            }
            Move::Partition { apart } => {
                let groups = sides(apart, self.shape.n as u32);
                let groups: Vec<String> = groups.into_iter().map(names).collect();
                format!("the network falls apart: {}", groups.join(" | "))
            }
            Move::Crash { .. } | Move::Heal => way.decision.what.to_string(),
        };
        if !way.decision.choices.is_empty() {
            let choices: Vec<String> = way.decision.choices.iter().map(u32::to_string).collect();
            words += &format!(", choosing {}", choices.join(", "));
        }
        if way.candidate.cut != WHOLE {
            words += &format!(", and crashes when {} of its messages left", way.candidate.cut);
        }
        words
    }

    /// Whether the algorithm's model allows for a step.
    fn is_within(&self, info: &Info, walk: &Walk, way: &Way) -> bool {
        let model = &info.model;
        let up = |node: NodeId| {
            let space = self.space.lock().expect("no thread has failed");
            space.nodes.view(walk.state[node.index()]).up
        };
        let crashes = way.decision.crash_after.is_some() && model.crashes == Crashes::None;
        let what = match &way.decision.what {
            Action::Deliver { place, .. } => *place == 0 || model.channels != Channels::Fifo,
            Action::Lose { .. } | Action::Repeat { .. } => model.channels == Channels::Lossy,
            // Where the model has time, messages are faster than time-outs.
            Action::Timer { .. } => {
                let quiet = walk.links.iter().all(Vec::is_empty);
                model.timing == Timing::Asynchronous || self.timers == Timers::Quiet || quiet
            }
            Action::Crash(_) => model.crashes != Crashes::None,
            Action::Recover(_) => model.crashes >= Crashes::Recover,
            Action::RecoverEmpty(_) => model.crashes >= Crashes::Amnesia,
            Action::Suspect { peer, .. } => !up(*peer) || model.detector == Detector::Eventual,
            Action::Trust { peer, .. } => up(*peer) || model.detector == Detector::None,
            Action::Partition(_) => model.partitions,
            Action::Boot(_)
            | Action::Ask { .. }
            | Action::Pause(_)
            | Action::Resume(_)
            | Action::Heal
            | Action::Join { .. }
            | Action::Leave(_) => true,
        };
        what && !crashes
    }
}

/// The two sides of a partition, as the checker writes them down: the one without the last node
/// first.
pub(crate) fn sides(apart: u32, n: u32) -> Vec<Vec<NodeId>> {
    let side = |is: u32| (0..n).filter(|node| apart >> node & 1 == is).map(NodeId).collect();
    vec![side(1), side(0)]
}

/// The nodes on either side of a partition into two groups, one bit each; first the side without
/// the last node. A node that is in no group is alone.
fn halves(groups: &[Vec<NodeId>], n: u32) -> Option<(u32, u32)> {
    let mask = |group: &Vec<NodeId>| group.iter().fold(0, |mask, node| mask | 1_u32 << node.0);
    let mut masks: Vec<u32> = groups.iter().map(mask).filter(|mask| *mask != 0).collect();
    let all = (1_u32 << n) - 1;
    let named = masks.iter().fold(0, |all, mask| all | mask);
    masks.extend((0..n).map(|node| 1 << node).filter(|bit| named & bit == 0));
    match masks[..] {
        [one, other] if one & other == 0 && one | other == all => {
            let last = 1 << (n - 1);
            Some(if one & last == 0 { (one, other) } else { (other, one) })
        }
        _ => None,
    }
}

/// The budgets, or what the decisions have used up if that is more.
fn enough(budgets: Budgets, decisions: &[Decision]) -> Budgets {
    let mut used = Budgets::default();
    let mut timers = 0_u8;
    let mut down = BTreeSet::new();
    for Decision { what, crash_after, lost, .. } in decisions {
        let more = |count: &mut u8| *count = count.saturating_add(1);
        match what {
            Action::Crash(node) => {
                more(&mut used.crashes);
                down.insert(*node);
            }
            Action::Recover(node) | Action::RecoverEmpty(node) => {
                let remembers = matches!(what, Action::Recover(_));
                more(if remembers { &mut used.recoveries } else { &mut used.amnesias });
                down.remove(node);
            }
            Action::Lose { .. } => more(&mut used.losses),
            Action::Repeat { .. } => more(&mut used.repeats),
            Action::Partition(_) => more(&mut used.partitions),
            // To suspect a node that is down costs nothing.
            Action::Suspect { peer, .. } if !down.contains(peer) => more(&mut used.suspicions),
            Action::Join { .. } => more(&mut used.joins),
            Action::Leave(_) => more(&mut used.leaves),
            Action::Timer { .. } => more(&mut timers),
            _ => {}
        }
        if crash_after.is_some() {
            more(&mut used.crashes);
            used.mid_step = true;
            down.extend(what.actor());
        }
        lost.iter().for_each(|_| more(&mut used.losses));
    }
    Budgets {
        crashes: budgets.crashes.max(used.crashes),
        recoveries: budgets.recoveries.max(used.recoveries),
        amnesias: budgets.amnesias.max(used.amnesias),
        losses: budgets.losses.max(used.losses),
        repeats: budgets.repeats.max(used.repeats),
        partitions: budgets.partitions.max(used.partitions),
        suspicions: budgets.suspicions.max(used.suspicions),
        joins: budgets.joins.max(used.joins),
        leaves: budgets.leaves.max(used.leaves),
        timers: budgets.timers.map(|most| most.max(timers)),
        mid_step: budgets.mid_step || used.mid_step,
    }
}
