//! Properties, as functions of a trace.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use conclave_protocol::{Mark, NodeId, Property, Time, VectorClock};
use serde::Serialize;

use crate::{End, Event, Outcome, Trace};

/// What can be said of a property after a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum Verdict {
    /// The run satisfies it.
    Held,
    /// The run violates it.
    Violated {
        /// The event that did, as an index into the trace; the last one if it is an absence.
        record: usize,
        /// In words.
        why: String,
    },
    /// The run does not tell.
    Open {
        /// Why not.
        why: String,
    },
}

impl Verdict {
    /// Whether the run violates the property.
    pub fn is_violated(&self) -> bool {
        matches!(self, Self::Violated { .. })
    }

    /// Whether the run satisfies the property.
    pub fn held(&self) -> bool {
        matches!(self, Self::Held)
    }
}

/// What a judge has to know beside the trace.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many may be inside at once.
    pub places: u32,
    /// How long somebody may wait before that counts as starving, in a run that was cut off.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { places: 1, patience: Duration::from_secs(10) }
    }
}

/// Judges a property of a run.
pub fn judge(property: Property, outcome: &Outcome, limits: Limits) -> Verdict {
    let trace = &outcome.trace;
    match property {
        Property::Exclusion => exclusion(trace, limits.places),
        Property::NoDeadlock => no_deadlock(outcome, limits),
        Property::NoStarvation => no_starvation(outcome, limits),
        Property::FcfsHappenedBefore => fcfs_happened_before(trace),
        // The token of an algorithm that promises this is the request's timestamp.
        Property::FcfsTimestamp | Property::FenceOrder => fence_order(trace),
        Property::OneLeader => one_leader(outcome),
        Property::OneLeaderPerEpoch => one_leader_per_epoch(trace),
        Property::LeaderKnown => leader_known(outcome),
        Property::BestLeads => best_leads(outcome),
        Property::Completeness => completeness(outcome),
        Property::Accuracy => accuracy(trace),
    }
}

fn violated(record: usize, why: impl Into<String>) -> Verdict {
    Verdict::Violated { record, why: why.into() }
}

fn names(nodes: impl IntoIterator<Item = NodeId>) -> String {
    let names: Vec<String> = nodes.into_iter().map(|node| node.to_string()).collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => "nobody".to_owned(),
    }
}

/// Who is inside, and who waits since when.
#[derive(Default)]
struct Section {
    inside: BTreeSet<NodeId>,
    waiting: BTreeMap<NodeId, Time>,
    down: BTreeSet<NodeId>,
}

impl Section {
    fn apply(&mut self, node: NodeId, at: Time, event: Event) {
        match event {
            Event::Request(Mark::Asked) => {
                self.waiting.insert(node, at);
            }
            Event::Notice(Mark::Entered { .. }) => {
                self.waiting.remove(&node);
                self.inside.insert(node);
            }
            Event::Request(Mark::Left) | Event::Notice(Mark::Lost) => {
                self.inside.remove(&node);
            }
            // Who has crashed does nothing inside any more; fencing keeps its late writes out.
            Event::Crash => {
                self.inside.remove(&node);
                self.waiting.remove(&node);
                self.down.insert(node);
            }
            Event::Recover | Event::RecoverEmpty => {
                self.down.remove(&node);
            }
            _ => {}
        }
    }
}

fn exclusion(trace: &Trace, places: u32) -> Verdict {
    let mut section = Section::default();
    for (i, record) in trace.records.iter().enumerate() {
        section.apply(record.node, record.at, record.event());
        if section.inside.len() > places as usize {
            let who = names(section.inside.iter().copied());
            return violated(i, format!("{who} are inside together"));
        }
    }
    Verdict::Held
}

fn no_deadlock(outcome: &Outcome, limits: Limits) -> Verdict {
    let trace = &outcome.trace;
    let mut section = Section::default();
    // Since when somebody has waited while nobody was inside.
    let mut stuck_since: Option<Time> = None;
    for (i, record) in trace.records.iter().enumerate() {
        if let Some(since) = stuck_since
            && record.at - since > limits.patience
        {
            let (who, span) = (names(section.waiting.keys().copied()), record.at - since);
            return violated(i, format!("{who} waited for {span:?} with nobody inside"));
        }
        section.apply(record.node, record.at, record.event());
        let stuck = section.inside.is_empty() && !section.waiting.is_empty();
        stuck_since = if stuck { stuck_since.or(Some(record.at)) } else { None };
    }
    let last = trace.records.len().saturating_sub(1);
    match stuck_since {
        None => Verdict::Held,
        Some(_) if outcome.end == End::Quiet => violated(
            last,
            format!(
                "{} wait for ever: nobody is inside and nothing is left to happen",
                names(section.waiting.keys().copied())
            ),
        ),
        Some(since) if outcome.at - since > limits.patience => violated(
            last,
            format!(
                "{} have waited for {:?} with nobody inside",
                names(section.waiting.keys().copied()),
                outcome.at - since
            ),
        ),
        Some(_) => Verdict::Open { why: "the run ended while somebody was about to enter".into() },
    }
}

fn no_starvation(outcome: &Outcome, limits: Limits) -> Verdict {
    let trace = &outcome.trace;
    let mut section = Section::default();
    for (i, record) in trace.records.iter().enumerate() {
        if let Some((node, since)) = section.waiting.get_key_value(&record.node)
            && matches!(record.event(), Event::Notice(Mark::Entered { .. }))
            && record.at - *since > limits.patience
        {
            return violated(i, format!("{node} had to wait for {:?}", record.at - *since));
        }
        section.apply(record.node, record.at, record.event());
    }
    let last = trace.records.len().saturating_sub(1);
    let starving =
        |since: &Time| outcome.end == End::Quiet || outcome.at - *since > limits.patience;
    let starved: Vec<NodeId> = section
        .waiting
        .iter()
        .filter(|(_, since)| starving(since))
        .map(|(&node, _)| node)
        .collect();
    if !starved.is_empty() {
        violated(last, format!("{} asked and never entered", names(starved)))
    } else if section.waiting.is_empty() {
        Verdict::Held
    } else {
        let who = names(section.waiting.into_keys());
        Verdict::Open { why: format!("the run ended while {who} still waited") }
    }
}

fn fence_order(trace: &Trace) -> Verdict {
    let mut last: Option<(NodeId, u64)> = None;
    for (i, record) in trace.records.iter().enumerate() {
        let Event::Notice(Mark::Entered { token }) = record.event() else { continue };
        if let Some((before, high)) = last
            && token <= high
        {
            let node = record.node;
            let why = format!("{node} entered with token {token}, after {before} with {high}");
            return violated(i, why);
        }
        last = Some((record.node, token));
    }
    Verdict::Held
}

/// Beyond so many requests, only the first are compared.
const COMPARED: usize = 2_000;

fn fcfs_happened_before(trace: &Trace) -> Verdict {
    struct Asked {
        node: NodeId,
        clock: VectorClock,
        entered: Option<usize>,
    }
    let mut asked: Vec<Asked> = Vec::new();
    let mut latest: BTreeMap<NodeId, usize> = BTreeMap::new();
    let clocks = trace.vector_clocks();
    for (i, record) in trace.records.iter().enumerate() {
        match record.event() {
            Event::Request(Mark::Asked) if asked.len() < COMPARED => {
                latest.insert(record.node, asked.len());
                asked.push(Asked { node: record.node, clock: clocks[i].clone(), entered: None });
            }
            Event::Notice(Mark::Entered { .. }) => {
                if let Some(&request) = latest.get(&record.node)
                    && asked[request].entered.is_none()
                {
                    asked[request].entered = Some(i);
                }
            }
            // A crash withdraws the request.
            Event::Crash => {
                latest.remove(&record.node);
            }
            _ => {}
        }
    }
    for (second, later) in asked.iter().enumerate() {
        let Some(entered) = later.entered else { continue };
        for earlier in &asked[..second] {
            let overtaken = earlier.entered.is_some_and(|first| first > entered);
            if overtaken && earlier.clock.before(&later.clock) {
                let (a, b) = (earlier.node, later.node);
                let why = format!("{a}'s request happened before {b}'s, and {b} entered first");
                return violated(entered, why);
            }
        }
    }
    Verdict::Held
}

/// What live nodes believe at the end of a run.
struct Beliefs {
    leader: BTreeMap<NodeId, (NodeId, u64)>,
    live: BTreeSet<NodeId>,
}

impl Beliefs {
    fn of(trace: &Trace) -> Self {
        let mut leader = BTreeMap::new();
        let mut live: BTreeSet<NodeId> = (0..trace.nodes).map(NodeId).collect();
        for record in &trace.records {
            match record.event() {
                Event::Notice(Mark::Follows { leader: who, epoch }) => {
                    leader.insert(record.node, (who, epoch));
                }
                Event::Crash => {
                    live.remove(&record.node);
                    leader.remove(&record.node);
                }
                Event::Recover | Event::RecoverEmpty => {
                    live.insert(record.node);
                }
                _ => {}
            }
        }
        Self { leader, live }
    }
}

fn at_rest(outcome: &Outcome) -> Option<Verdict> {
    let why = "the run was cut off, and this is said of a system at rest".to_owned();
    (outcome.end == End::EventLimit).then_some(Verdict::Open { why })
}

fn one_leader(outcome: &Outcome) -> Verdict {
    if let Some(open) = at_rest(outcome) {
        return open;
    }
    let beliefs = Beliefs::of(&outcome.trace);
    let own = beliefs.leader.iter().filter(|(node, (leader, _))| *node == leader);
    let leaders: Vec<NodeId> = own.map(|(&node, _)| node).collect();
    if leaders.len() > 1 {
        let last = outcome.trace.records.len() - 1;
        return violated(last, format!("{} each take themselves for the leader", names(leaders)));
    }
    Verdict::Held
}

fn one_leader_per_epoch(trace: &Trace) -> Verdict {
    let mut of_epoch: BTreeMap<u64, NodeId> = BTreeMap::new();
    for (i, record) in trace.records.iter().enumerate() {
        if let Event::Notice(Mark::Follows { leader, epoch }) = record.event() {
            let first = *of_epoch.entry(epoch).or_insert(leader);
            if first != leader {
                let why = format!("{first} and {leader} both lead in epoch {epoch}");
                return violated(i, why);
            }
        }
    }
    Verdict::Held
}

fn leader_known(outcome: &Outcome) -> Verdict {
    if let Some(open) = at_rest(outcome) {
        return open;
    }
    let beliefs = Beliefs::of(&outcome.trace);
    let knows = |node: &NodeId| {
        beliefs.leader.get(node).is_some_and(|(leader, _)| beliefs.live.contains(leader))
    };
    let lost: Vec<NodeId> = beliefs.live.iter().copied().filter(|node| !knows(node)).collect();
    if lost.is_empty() {
        return Verdict::Held;
    }
    let last = outcome.trace.records.len().saturating_sub(1);
    violated(last, format!("no live leader is known to {}", names(lost)))
}

fn best_leads(outcome: &Outcome) -> Verdict {
    if let Some(open) = at_rest(outcome) {
        return open;
    }
    let beliefs = Beliefs::of(&outcome.trace);
    let Some(&best) = beliefs.live.last() else { return Verdict::Held };
    let wrong = |(leader, _): &&(NodeId, u64)| *leader != best;
    match beliefs.leader.values().find(wrong) {
        None => Verdict::Held,
        Some((leader, _)) => violated(
            outcome.trace.records.len() - 1,
            format!("{leader} is taken for the leader, and {best} is the best live node"),
        ),
    }
}

/// Who suspects whom.
fn suspicions(trace: &Trace) -> (BTreeSet<(NodeId, NodeId)>, BTreeSet<NodeId>) {
    let mut suspects = BTreeSet::new();
    let mut down = BTreeSet::new();
    for record in &trace.records {
        match record.event() {
            Event::Notice(Mark::Suspects(peer)) => {
                suspects.insert((record.node, peer));
            }
            Event::Notice(Mark::Trusts(peer)) => {
                suspects.remove(&(record.node, peer));
            }
            Event::Crash => {
                down.insert(record.node);
                suspects.retain(|(node, _)| *node != record.node);
            }
            Event::Recover | Event::RecoverEmpty => {
                down.remove(&record.node);
            }
            _ => {}
        }
    }
    (suspects, down)
}

fn completeness(outcome: &Outcome) -> Verdict {
    let (suspects, down) = suspicions(&outcome.trace);
    let live = (0..outcome.trace.nodes).map(NodeId).filter(|node| !down.contains(node));
    for node in live {
        if let Some(&missed) = down.iter().find(|&&peer| !suspects.contains(&(node, peer))) {
            let last = outcome.trace.records.len().saturating_sub(1);
            return violated(last, format!("{missed} is down and {node} does not suspect it"));
        }
    }
    Verdict::Held
}

fn accuracy(trace: &Trace) -> Verdict {
    let mut down = BTreeSet::new();
    for (i, record) in trace.records.iter().enumerate() {
        match record.event() {
            Event::Crash => {
                down.insert(record.node);
            }
            Event::Recover | Event::RecoverEmpty => {
                down.remove(&record.node);
            }
            Event::Notice(Mark::Suspects(peer)) if !down.contains(&peer) => {
                return violated(i, format!("{} suspects {peer}, which is up", record.node));
            }
            _ => {}
        }
    }
    Verdict::Held
}
