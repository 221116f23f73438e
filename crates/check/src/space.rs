//! The parts that global states are made of, each given a small number when it first appears, and
//! the steps between them, each computed once.
//!
//! A step is a pure function of what stands at a node and of what happens there; there are few of
//! both, and many combinations. So the search handles vectors of numbers, and the rules of the
//! algorithm run only when a pair of numbers meets for the first time.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocol::{Channels, Input, NodeId, NumberedInput, Observation, Passage};
use rustc_hash::FxHashMap;

use crate::local::Watch;
use crate::nodes::{Interned, Nodes, number};
use crate::symmetry::Renamings;
use crate::{Budgets, CheckSpec};

/// All parts and steps known so far.
pub(crate) struct Space {
    pub(crate) nodes: Nodes,
    pub(crate) ordered: bool,
    pub(crate) watch: Watch,
    /// What is on its way along one link; the first is nothing. Sorted where order is free.
    links: Interned<Box<[u32]>>,
    globals: Interned<Global>,
    steps: Vec<Step>,
    taken: FxHashMap<(u32, LocalEvent), (u32, u32)>,
    /// Events that are told apart when orders are compared and fairness is judged; none stands for
    /// the end of a partition.
    events: Interned<Option<(NodeId, LocalEvent)>>,
    /// How many links there are: their events have the first numbers, in their order.
    channels: usize,
    /// How nodes may be renamed, if states that differ in names only are the same.
    pub(crate) renamings: Option<Box<Renamings>>,
}

/// What is at no node and on no link.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Global {
    /// What may still go wrong.
    pub(crate) budgets: Budgets,
    /// The nodes that are apart from the rest, one bit each; none while the network is whole.
    pub(crate) apart: u32,
    /// The highest token so far.
    pub(crate) high: Option<u64>,
    /// Whether a grant came with a token no higher than an earlier one.
    pub(crate) unfenced: bool,
    /// Who led in which epoch.
    pub(crate) leaders: Vec<(u64, NodeId)>,
    /// Whether two led in one.
    pub(crate) split: bool,
    /// Messages so far that are counted for the next entry.
    pub(crate) pending: u32,
    /// What the family remembers of the whole system.
    pub(crate) history: Vec<u64>,
    /// What it remembers of each channel.
    pub(crate) channels: BTreeMap<(NodeId, NodeId), Vec<u64>>,
}

impl Global {
    /// What the family remembers is as it is after this step.
    pub(crate) fn remember(&mut self, watch: Watch, step: &Step) {
        let Some(words) = watch.words else { return };
        let (history, node) = (&mut self.history, step.node);
        step.marks.iter().for_each(|mark| (words.see_all)(history, node, mark));
        let Some(traffic) = watch.traffic else { return };
        for it in &step.traffic {
            let Crossing { channel, fingerprint, carried, receiver } = it;
            let (channel, fingerprint) = (*channel, *fingerprint);
            let crosses = if receiver.is_some() { traffic.received } else { traffic.sent };
            let receiver = receiver.as_deref().unwrap_or_default();
            let passage = Passage { channel, fingerprint, carried, receiver };
            crosses(self.channels.entry(channel).or_default(), history, &passage);
        }
        for mark in &step.marks {
            if let Some(channel) = (traffic.about)(node, mark) {
                let words = self.channels.entry(channel).or_default();
                (traffic.told)(words, history, channel, mark);
            }
        }
    }
}

/// Something that may happen at a node; of a message, the number of its envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum LocalEvent {
    /// The node boots, with or without what it had saved.
    Boot {
        remembers: bool,
    },
    Input(NumberedInput),
}

impl LocalEvent {
    /// A message arrives.
    #[inline]
    pub(crate) fn arrival(from: u8, envelope: u32) -> Self {
        Self::Input(Input::Message { from: NodeId(u32::from(from)), msg: envelope })
    }

    /// The event as a number, of which a map is faster. There are fewer than 2^24 nodes.
    #[inline]
    pub(crate) fn code(self) -> u64 {
        let (tag, node, number) = match self {
            Self::Boot { remembers } => (0, 0, u32::from(remembers)),
            Self::Input(Input::Request(request)) => (1, 0, request),
            Self::Input(Input::Message { from, msg }) => (2, from.0, msg),
            Self::Input(Input::Timer(timer)) => (3, 0, timer),
            Self::Input(Input::Suspect(NodeId(peer))) => (4, 0, peer),
            Self::Input(Input::Restore(NodeId(peer))) => (5, 0, peer),
            Self::Input(Input::Join(NodeId(sponsor))) => (6, 0, sponsor),
            Self::Input(Input::Leave) => (7, 0, 0),
        };
        tag << 56 | u64::from(node) << 32 | u64::from(number)
    }
}

/// One step of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) local: u32,
    pub(crate) node: NodeId,
    pub(crate) sends: Box<[(NodeId, u32)]>,
    /// The node if it crashes when each of these has left, where it may and may come back.
    pub(crate) cuts: Box<[u32]>,
    pub(crate) marks: Box<[Observation]>,
    pub(crate) choices: Box<[u32]>,
    /// How many messages it sends that each node pays for, if they are counted.
    pub(crate) costs: Box<[u32]>,
    /// How many of them are counted for the next entry.
    pub(crate) pending: u32,
    /// The messages of the application that it sends or gets, if that is watched.
    pub(crate) traffic: Box<[Crossing]>,
}

/// A message of the application that a step sends or gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Crossing {
    pub(crate) channel: (NodeId, NodeId),
    pub(crate) fingerprint: u32,
    pub(crate) carried: Vec<u64>,
    /// If it arrives: what the family remembers of its receiver then.
    pub(crate) receiver: Option<Vec<u64>>,
}

impl Step {
    /// Whether anything is kept about the past that it changes.
    pub(crate) fn is_seen(&self) -> bool {
        !self.marks.is_empty() || !self.traffic.is_empty()
    }
}

/// Something that a node may do by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spontaneous {
    pub(crate) event: LocalEvent,
    pub(crate) kind: Kind,
    /// How long until it happens, for timers where that matters.
    pub(crate) after: Duration,
}

/// What kind of thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The application asks for something, as it may or may not.
    Ask,
    /// The application gives something back, as it will.
    Release,
    Timer,
}

impl Space {
    pub(crate) fn new(nodes: Nodes, watch: Watch, spec: &CheckSpec) -> Self {
        let mut links = Interned::default();
        links.insert(Box::default());
        let n = spec.setup.n() as usize;
        Self {
            nodes,
            ordered: spec.channels == Channels::Fifo,
            watch,
            links,
            globals: Interned::default(),
            steps: Vec::new(),
            taken: FxHashMap::default(),
            events: Interned::default(),
            channels: n * (n - 1),
            renamings: None,
        }
    }

    pub(crate) fn global(&self, id: u32) -> &Global {
        &self.globals[id as usize]
    }

    pub(crate) fn step(&self, id: u32) -> &Step {
        &self.steps[id as usize]
    }

    /// How many steps there are.
    pub(crate) fn steps(&self) -> usize {
        self.steps.len()
    }

    /// How many different nodes, messages, links and steps there are.
    pub(crate) fn sizes(&self) -> [usize; 4] {
        let [locals, envelopes] = self.nodes.sizes();
        [locals, envelopes, self.links.len(), self.steps.len()]
    }

    /// Everything that applications were told.
    pub(crate) fn marks(&self) -> impl Iterator<Item = &Observation> {
        self.steps.iter().flat_map(|step| &step.marks)
    }

    /// What kinds of messages, requests and timers there are that no step was caused by.
    pub(crate) fn unexercised(&self) -> Vec<String> {
        self.nodes.unexercised(self.taken.keys().map(|(_, event)| *event))
    }

    /// What is on its way along a link.
    pub(crate) fn link(&self, id: u32) -> &[u32] {
        &self.links[id as usize]
    }

    pub(crate) fn add_link(&mut self, content: Vec<u32>) -> u32 {
        number(self.links.insert_full(content.into()).0)
    }

    /// Computes every step again when it is next asked for.
    pub(crate) fn forget_steps(&mut self) {
        self.taken.clear();
    }

    pub(crate) fn add_global(&mut self, global: Global) -> u32 {
        number(self.globals.insert_full(global).0)
    }

    /// The number of an event at a node, by which fairness and independence know it.
    pub(crate) fn add_event(&mut self, node: NodeId, event: LocalEvent) -> u16 {
        self.number_event(Some((node, event)))
    }

    /// The number of the end of a partition.
    pub(crate) fn add_heal(&mut self) -> u16 {
        self.number_event(None)
    }

    fn number_event(&mut self, event: Option<(NodeId, LocalEvent)>) -> u16 {
        let number = self.channels + self.events.insert_full(event).0;
        u16::try_from(number).unwrap_or(u16::MAX)
    }

    /// The link with one message more: behind the others, or wherever it belongs.
    pub(crate) fn append(&mut self, link: u32, envelope: u32) -> u32 {
        let mut content = self.links[link as usize].to_vec();
        let place = if self.ordered {
            content.len()
        } else {
            content.partition_point(|&it| it <= envelope)
        };
        content.insert(place, envelope);
        number(self.links.insert_full(content.into()).0)
    }

    /// The link with its first message twice, or with this one twice where order is free.
    pub(crate) fn repeat(&mut self, link: u32, envelope: u32) -> u32 {
        let mut content = self.links[link as usize].to_vec();
        let place = content.iter().position(|&it| it == envelope).expect("it is on its way");
        content.insert(place, envelope);
        number(self.links.insert_full(content.into()).0)
    }

    /// The messages of a link that may arrive next, each with what is left then.
    pub(crate) fn heads(&mut self, link: u32) -> Vec<(u32, u32)> {
        let content = self.links[link as usize].to_vec();
        let mut heads = Vec::new();
        for (place, &envelope) in content.iter().enumerate() {
            if place > 0 && (self.ordered || content[place - 1] == envelope) {
                continue;
            }
            let mut rest = content.clone();
            rest.remove(place);
            heads.push((envelope, number(self.links.insert_full(rest.into()).0)));
        }
        heads
    }

    /// What is true of the whole system in a state, if the algorithm has facts to tell. What is on
    /// their way comes after the nodes.
    pub(crate) fn facts(&self, state: &[u32], links: &[(u8, u8)], nodes: usize) -> Option<u64> {
        if !self.nodes.has_facts() {
            return None;
        }
        let name = |node: u8| NodeId(u32::from(node));
        let messages = links.iter().zip(&state[nodes..]).flat_map(|(&(from, to), &content)| {
            self.link(content).iter().map(move |&envelope| (name(from), name(to), envelope))
        });
        Some(self.nodes.facts(&state[..nodes], messages))
    }

    /// The steps that `event` may cause at the node: their numbers are consecutive.
    pub(crate) fn take(&mut self, local: u32, event: LocalEvent) -> (u32, u32) {
        if let Some(&steps) = self.taken.get(&(local, event)) {
            return steps;
        }
        if self.renamings.is_some() {
            self.test_step(local, event);
        }
        let first = number(self.steps.len());
        self.steps.extend(self.nodes.react(local, event));
        let steps = (first, number(self.steps.len()) - first);
        self.taken.insert((local, event), steps);
        steps
    }

    /// What `step` at a node does to what is at no node: tokens, epochs, messages to be paid for.
    pub(crate) fn note(&mut self, global: u32, step: u32) -> u32 {
        let mut after = self.global(global).clone();
        let step = &self.steps[step as usize];
        let watch = self.watch;
        after.remember(watch, step);
        for mark in &step.marks {
            match *mark {
                Observation::Entered { token } => {
                    after.pending = 0;
                    if watch.tokens {
                        after.unfenced |= after.high.is_some_and(|high| token <= high);
                        after.high = after.high.max(Some(token));
                    }
                }
                Observation::Follows { leader, epoch } if watch.epochs => {
                    let known = after.leaders.iter().find(|(it, _)| *it == epoch);
                    match known {
                        Some((_, first)) => after.split |= *first != leader,
                        None => {
                            let place = after.leaders.partition_point(|(it, _)| *it < epoch);
                            after.leaders.insert(place, (epoch, leader));
                        }
                    }
                }
                _ => {}
            }
        }
        after.pending += step.pending;
        self.add_global(after)
    }

    /// Whether one after the other comes to the same either way: the same node in the end, and on
    /// every link the same messages.
    pub(crate) fn commute(&mut self, local: u32, a: LocalEvent, b: LocalEvent) -> bool {
        let Some((first_a, after_a)) = self.only(local, a) else { return false };
        let Some((first_b, after_b)) = self.only(local, b) else { return false };
        if !self.may(after_a, b) || !self.may(after_b, a) {
            return false;
        }
        let Some((then_b, end_ab)) = self.only(after_a, b) else { return false };
        let Some((then_a, end_ba)) = self.only(after_b, a) else { return false };
        if end_ab != end_ba {
            return false;
        }
        let steps = [first_a, then_b, first_b, then_a];
        let [a, then_b, b, then_a] = steps.map(|step| &self.steps[step as usize]);
        // What is kept about the past sees who was first.
        if [a, b].iter().all(|step| step.is_seen()) {
            return false;
        }
        let sent = |first: &Step, second: &Step| {
            let mut sends = [&first.sends[..], &second.sends[..]].concat();
            if self.ordered {
                sends.sort_by_key(|(to, _)| *to);
            } else {
                sends.sort_unstable();
            }
            sends
        };
        a.marks == then_a.marks
            && b.marks == then_b.marks
            && a.costs == then_a.costs
            && b.costs == then_b.costs
            && sent(a, then_b) == sent(b, then_a)
    }

    /// The step that `event` causes, if there is but one, and what it leaves.
    fn only(&mut self, local: u32, event: LocalEvent) -> Option<(u32, u32)> {
        match self.take(local, event) {
            (step, 1) => Some((step, self.steps[step as usize].local)),
            _ => None,
        }
    }

    /// Whether `event` may happen at the node.
    fn may(&mut self, local: u32, event: LocalEvent) -> bool {
        match event {
            LocalEvent::Input(Input::Message { .. }) => self.nodes.view(local).up,
            _ => self.nodes.spontaneous(local).iter().any(|can| can.event == event),
        }
    }
}
