//! Whether the state that a snapshot found can be reached, shown by reaching it.
//!
//! From the state S before a snapshot began to the state T when it was complete, a run took the steps that it
//! took, in their order. Those of them that are inside the cut can be taken first. So that is done, by the
//! application alone, without what is wrapped around it: after the steps inside it has to be in the state that
//! the snapshot recorded, every node, timer and channel, and after the rest in T.

use std::collections::BTreeMap;

use conclave_protocol::{
    Action, Algorithm, Bare, Channels, Decision, NodeId, Part, Recorded, Written,
};
use conclave_sim::{Event, RunSpec, Then, Trace, Tracing, Verdict, Workload, record, run};

/// What it is called.
pub const NAME: &str = "REACH";
/// What it says.
pub const MEANING: &str =
    "a snapshot's state is reached from that before it, and that after it from there";

/// Runs with more steps than this, times the snapshots that they take, are not judged.
const MOST: usize = 200_000;

/// What the run that `spec` describes says of its snapshots: that the state of each can be reached from
/// that before it, and that after it from there. `None` if the algorithm takes none of an application
/// that runs by itself, too.
pub fn reach(algorithm: &dyn Algorithm, spec: &RunSpec, trace: &Trace) -> Option<Verdict> {
    let bare = algorithm.info().bare?;
    Some(match judge(algorithm, bare, spec, trace) {
        Ok(verdict) | Err(verdict) => verdict,
    })
}

fn judge(
    algorithm: &dyn Algorithm,
    bare: Bare,
    spec: &RunSpec,
    trace: &Trace,
) -> Result<Verdict, Verdict> {
    if trace.tracing < Tracing::Full {
        return Err(open("the run was not recorded in full"));
    }
    if spec.reliable {
        return Err(open("the links have messages of their own"));
    }
    let again = RunSpec { tracing: Tracing::Full, ..spec.clone() };
    let (outcome, decisions) = record(algorithm, &again).map_err(|why| open(why.to_string()))?;
    let taken = Taken::new(&outcome.trace, decisions, bare)?;
    let snapshots = taken.snapshots();
    if snapshots.is_empty() {
        return Ok(Verdict::Vacuous { why: "no snapshot is taken".to_owned() });
    }
    if snapshots.len().saturating_mul(taken.steps.len()) > MOST {
        return Err(open("the run is too long to be taken apart for each of its snapshots"));
    }
    let mut unfinished = None;
    for (number, parts) in &snapshots {
        if parts.len() < spec.setup.n() as usize {
            unfinished = unfinished.or(Some(*number));
            continue;
        }
        if let Err(why) = taken.reaches(bare, spec, *number, parts) {
            let record = taken.last(*number).map_or(0, |step| taken.steps[step].record);
            let why = format!("snapshot #{number}: {why}");
            return Err(Verdict::Violated { record, why });
        }
    }
    match unfinished {
        Some(number) => Err(open(format!("snapshot #{number} was not finished"))),
        None => Ok(Verdict::Held),
    }
}

fn open(why: impl Into<String>) -> Verdict {
    Verdict::Open { why: why.into() }
}

/// The steps that a run took.
struct Taken {
    /// How nodes booted, where there is something to say about it.
    boots: Vec<Decision>,
    /// The messages of the application that nodes sent when they booted.
    booted: Vec<Sent>,
    steps: Vec<Step>,
}

/// A step, as far as the application and snapshots are concerned.
struct Step {
    /// Where it begins in the trace.
    record: usize,
    node: NodeId,
    /// What happens to the application; none if that is nothing.
    what: Option<What>,
    choices: Vec<u32>,
    /// The messages of the application that it sent.
    sent: Vec<Sent>,
    /// The snapshots that the node recorded for.
    recorded: Vec<u16>,
    /// The parts that are finished.
    parts: Vec<Part>,
}

enum What {
    /// This message from a node arrives.
    Deliver(NodeId, u32),
    /// This timer runs out.
    Timer(String),
}

/// A message, and its channel.
#[derive(Clone, Copy)]
struct Sent {
    serial: u32,
    channel: (NodeId, NodeId),
}

impl Taken {
    /// Those of a run that was written down as these decisions.
    fn new(trace: &Trace, decisions: Vec<Decision>, bare: Bare) -> Result<Self, Verdict> {
        let (boots, rest): (Vec<_>, Vec<_>) =
            decisions.into_iter().partition(|it| matches!(it.what, Action::Boot(_)));
        let faults =
            || open("there were faults, which the application by itself would not survive");
        let lossless = |it: &Decision| it.lost.is_empty() && it.crash_after.is_none();
        if !boots.iter().chain(&rest).all(lossless) {
            return Err(faults());
        }
        let mut taken = Self { boots, booted: Vec::new(), steps: Vec::new() };
        let mut rest = rest.into_iter();
        let mut controls = std::collections::BTreeSet::new();
        for (place, record) in trace.records.iter().enumerate() {
            let node = record.node;
            let delivered = match record.event() {
                Event::Deliver { from, serial, .. } => Some((from, serial)),
                Event::Request(_) | Event::Timer { .. } => None,
                Event::Send { to, serial, control, .. } => {
                    if control {
                        controls.insert(serial);
                    } else {
                        let sent = Sent { serial, channel: (node, to) };
                        taken
                            .steps
                            .last_mut()
                            .map_or(&mut taken.booted, |it| &mut it.sent)
                            .push(sent);
                    }
                    continue;
                }
                Event::Notice(_) => {
                    if let (Some(text), Some(step)) =
                        (trace.notes.get(&place), taken.steps.last_mut())
                    {
                        step.hear(node, text, bare);
                    }
                    continue;
                }
                Event::Facts(_) => continue,
                _ => return Err(faults()),
            };
            let Some(decision) = rest.next() else { return Err(faults()) };
            let what = match (decision.what, delivered) {
                (Action::Deliver { .. }, Some((_, serial))) if controls.contains(&serial) => None,
                (Action::Deliver { .. }, Some((from, serial))) => Some(What::Deliver(from, serial)),
                (Action::Timer { timer, .. }, None) => Some(What::Timer(timer)),
                (Action::Ask { .. }, None) => None,
                _ => return Err(faults()),
            };
            taken.steps.push(Step {
                record: place,
                node,
                what,
                choices: decision.choices,
                sent: Vec::new(),
                recorded: Vec::new(),
                parts: Vec::new(),
            });
        }
        Ok(taken)
    }

    /// The snapshots that were begun, each with the parts that were finished.
    fn snapshots(&self) -> BTreeMap<u16, BTreeMap<NodeId, &Part>> {
        let mut all: BTreeMap<u16, BTreeMap<NodeId, &Part>> = BTreeMap::new();
        for step in &self.steps {
            for number in &step.recorded {
                all.entry(*number).or_default();
            }
            for part in &step.parts {
                all.entry(part.number).or_default().insert(part.node, part);
            }
        }
        all
    }

    /// The step by which a snapshot was complete.
    fn last(&self, number: u16) -> Option<usize> {
        self.steps.iter().rposition(|step| step.parts.iter().any(|part| part.number == number))
    }

    /// Takes the steps inside the cut first, and says what is not as it was recorded.
    fn reaches(
        &self,
        bare: Bare,
        spec: &RunSpec,
        number: u16,
        parts: &BTreeMap<NodeId, &Part>,
    ) -> Result<(), String> {
        let last = self.last(number).expect("its parts are finished");
        let mut outside = std::collections::BTreeSet::new();
        let (mut first, mut then) = (Vec::new(), Vec::new());
        for (place, step) in self.steps[..=last].iter().enumerate() {
            if step.recorded.contains(&number) {
                outside.insert(step.node);
            }
            if step.what.is_some() {
                if outside.contains(&step.node) { &mut then } else { &mut first }.push(place);
            }
        }
        let inside = first.len();
        let mut in_order = [&first[..], &then[..]].concat();
        let cut_first = self.follow(bare, spec, &in_order)?;
        let ordered = spec.channels == Channels::Fifo;
        let found = cut_first.after(inside).in_order(ordered);
        found.compare(&Whole::recorded(parts, spec.setup.n()).in_order(ordered), "recorded")?;
        in_order.sort_unstable();
        let as_it_was = self.follow(bare, spec, &in_order)?;
        let all = in_order.len();
        let end = as_it_was.after(all).in_order(ordered);
        cut_first.after(all).in_order(ordered).compare(&end, "so in the end")
    }

    /// Has the application by itself take these steps in this order.
    fn follow(&self, bare: Bare, spec: &RunSpec, steps: &[usize]) -> Result<Followed, String> {
        let mut links: BTreeMap<(NodeId, NodeId), Vec<u32>> = BTreeMap::new();
        let send = |links: &mut BTreeMap<_, Vec<u32>>, all: &[Sent]| {
            all.iter().for_each(|it| links.entry(it.channel).or_default().push(it.serial));
        };
        send(&mut links, &self.booted);
        let mut decisions = self.boots.clone();
        for &place in steps {
            let Step { node, what, choices, sent, .. } = &self.steps[place];
            let what = match what.as_ref().expect("something happens to the application") {
                What::Timer(timer) => Action::Timer { node: *node, timer: timer.clone() },
                What::Deliver(from, serial) => {
                    let link = links.entry((*from, *node)).or_default();
                    let Some(place) = link.iter().position(|it| it == serial) else {
                        return Err(format!(
                            "{node} received a message inside the cut that {from} sent outside"
                        ));
                    };
                    link.remove(place);
                    Action::Deliver { from: *from, to: *node, place: place as u32 }
                }
            };
            decisions.push(Decision { choices: choices.clone(), ..what.into() });
            send(&mut links, sent);
        }
        let algorithm = (bare.algorithm)();
        let mut setup = spec.setup.clone();
        setup.options.retain(|name, _| algorithm.info().default_of(name).is_some());
        let timers = decisions.iter().filter_map(|it| match &it.what {
            Action::Boot(_) => None,
            Action::Timer { timer, .. } => Some(Some(timer.clone())),
            _ => Some(None),
        });
        let timers = timers.collect();
        let alone = RunSpec {
            tracing: Tracing::Full,
            workload: Workload::idle(),
            channels: Channels::Reliable,
            decisions: Some(decisions),
            then: Then::Stop,
            ..RunSpec::new(algorithm.info(), setup)
        };
        let outcome = run(algorithm, &alone);
        let outcome = outcome.map_err(|why| format!("without what is wrapped around it {why}"))?;
        Ok(Followed { trace: outcome.trace, timers })
    }
}

impl Step {
    /// The node says something.
    fn hear(&mut self, node: NodeId, text: &str, bare: Bare) {
        let mut json = serde_json::Deserializer::from_str(text);
        let mut written: Box<Written<'_>> =
            Box::new(<dyn erased_serde::Deserializer<'_>>::erase(&mut json));
        match (bare.recorded)(node, &mut *written) {
            Some(Recorded::State(number)) => self.recorded.push(number),
            Some(Recorded::Part(part)) => self.parts.push(part),
            None => {}
        }
    }
}

/// A run of the application by itself.
struct Followed {
    trace: Trace,
    /// For each step the timer that ran out, if it was one.
    timers: Vec<Option<String>>,
}

/// A whole system, as it is written down.
#[derive(Clone, Debug, Default)]
struct Whole {
    states: BTreeMap<NodeId, String>,
    /// Running timers, each with how long it was set for.
    timers: BTreeMap<NodeId, BTreeMap<String, u64>>,
    /// What is on its way, on channels that have something.
    channels: BTreeMap<(NodeId, NodeId), Vec<String>>,
}

impl Followed {
    /// How things are after so many steps.
    fn after(&self, steps: usize) -> Whole {
        let mut whole = Whole::default();
        let mut underway: BTreeMap<u32, (NodeId, NodeId)> = BTreeMap::new();
        for (node, (state, step)) in (0..).map(NodeId).zip(&self.trace.booted) {
            whole.states.insert(node, state.to_string());
            whole.set(node, &step.alarms);
        }
        let mut taken = 0;
        for (place, record) in self.trace.records.iter().enumerate() {
            let node = record.node;
            match record.event() {
                Event::Send { to, serial, .. } => {
                    underway.insert(serial, (node, to));
                    continue;
                }
                Event::Deliver { .. } | Event::Timer { .. } if taken == steps => break,
                Event::Deliver { serial, .. } => {
                    underway.remove(&serial);
                }
                Event::Timer { .. } => {
                    let name = self.timers.get(taken).and_then(Option::as_ref);
                    if let (Some(name), Some(running)) = (name, whole.timers.get_mut(&node)) {
                        running.remove(name);
                    }
                }
                _ => continue,
            }
            taken += 1;
            if let Some(state) = self.trace.states.get(&place) {
                whole.states.insert(node, state.to_string());
            }
            if let Some(step) = self.trace.steps.get(&place) {
                whole.set(node, &step.alarms);
            }
        }
        // In the order in which they were sent, as their numbers are.
        for (serial, channel) in underway {
            let text = self.trace.messages.get(serial as usize).map(ToString::to_string);
            whole.channels.entry(channel).or_default().extend(text);
        }
        whole
    }
}

impl Whole {
    fn set(&mut self, node: NodeId, alarms: &[conclave_sim::Alarm]) {
        let running = self.timers.entry(node).or_default();
        for alarm in alarms {
            match alarm {
                conclave_sim::Alarm::Set { set, after } => {
                    running.insert(set.clone(), *after);
                }
                conclave_sim::Alarm::Cancelled { cancelled } => {
                    running.remove(cancelled);
                }
            }
        }
    }

    /// What a snapshot has recorded.
    fn recorded(parts: &BTreeMap<NodeId, &Part>, nodes: u32) -> Self {
        let json = |it: &dyn erased_serde::Serialize| {
            serde_json::to_string(it).expect("what can be written down can be again")
        };
        let mut whole = Self::default();
        for node in (0..nodes).map(NodeId) {
            let Some(part) = parts.get(&node) else { continue };
            whole.states.insert(node, json(&*part.state));
            let timers = part.timers.iter();
            let timers = timers.map(|(name, after)| (name.clone(), after.as_nanos() as u64));
            whole.timers.insert(node, timers.collect());
            for (from, messages) in &part.channels {
                if !messages.is_empty() {
                    let messages = messages.iter().map(|it| json(&**it)).collect();
                    whole.channels.insert((*from, node), messages);
                }
            }
        }
        whole
    }

    /// The same; where channels keep no order, messages in one that does not depend on it.
    fn in_order(mut self, ordered: bool) -> Self {
        if !ordered {
            self.channels.values_mut().for_each(|messages| messages.sort_unstable());
        }
        self
    }

    /// What is not as in `other`, which is `how`.
    fn compare(&self, other: &Self, how: &str) -> Result<(), String> {
        for (node, state) in &self.states {
            let there = other.states.get(node).map_or("nothing", String::as_str);
            if there != state {
                return Err(format!("{node} comes to be {state}, and {there} is {how}"));
            }
            if self.timers.get(node) != other.timers.get(node) {
                return Err(format!("{node} comes to have other timers than are {how}"));
            }
        }
        let channels = self.channels.keys().chain(other.channels.keys());
        for channel in channels {
            let (here, there) = (self.channels.get(channel), other.channels.get(channel));
            if here != there {
                let (from, to) = channel;
                let list = |it: Option<&Vec<String>>| match it {
                    Some(messages) => messages.join(", "),
                    None => "nothing".to_owned(),
                };
                let (here, there) = (list(here), list(there));
                return Err(format!(
                    "the channel from {from} to {to} comes to hold {here}, and {there} is {how}"
                ));
            }
        }
        Ok(())
    }
}
