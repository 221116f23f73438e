//! What is so at a moment of a recorded run, folded over its events.

use std::collections::{BTreeMap, BTreeSet};

use conclave_protocol::{
    NodeId, Now, Observation, Passage, Those, Time, Traffic, VectorClock, Watch,
};

use crate::{Event, Record, Trace};

/// What properties speak of.
pub(super) struct Scene<'a> {
    trace: &'a Trace,
    places: u32,
    up: Vec<bool>,
    waiting: BTreeMap<NodeId, Time>,
    inside: BTreeMap<NodeId, Time>,
    pub(super) paused: BTreeSet<NodeId>,
    high: Option<u64>,
    stale: Option<(NodeId, u64, u64)>,
    order: Option<Order>,
    follows: Vec<Option<NodeId>>,
    of_epoch: BTreeMap<u64, NodeId>,
    rivals: Option<(NodeId, NodeId, u64)>,
    groups: Option<&'a [u32]>,
    suspects: BTreeMap<NodeId, BTreeMap<NodeId, Time>>,
    facts: Option<u64>,
    memory: Option<Memory<'a>>,
}

/// What the family remembers of each channel.
type Channels = BTreeMap<(NodeId, NodeId), Vec<u64>>;

/// What the family remembers of the run.
struct Memory<'a> {
    watch: &'static Watch,
    nodes: Vec<Vec<u64>>,
    system: Vec<u64>,
    /// What goes with each message of the application.
    carried: BTreeMap<u32, Vec<u64>>,
    /// Of each channel, if a property is about what passes there.
    channels: Option<(&'static Traffic, Channels)>,
    /// By the numbers of messages.
    fingerprints: &'a [u32],
    /// Whether there was a message without one.
    unknown: bool,
    /// Who is in the step that such a message caused, who sent that, and its number.
    using: Option<(NodeId, NodeId, u32)>,
}

/// Which request happened before which.
struct Order {
    clocks: Vec<VectorClock>,
    sent: BTreeMap<u32, VectorClock>,
    /// The clock of each node's latest request.
    asked: BTreeMap<NodeId, VectorClock>,
}

impl<'a> Scene<'a> {
    /// The beginning of a run; whether the order of requests is watched takes time.
    pub(super) fn new(
        trace: &'a Trace,
        places: u32,
        ordered: bool,
        watch: Option<&'static Watch>,
        traffic: bool,
    ) -> Self {
        let nodes = trace.nodes as usize;
        let memory = |watch: &'static Watch| Memory {
            watch,
            nodes: vec![Vec::new(); nodes],
            system: Vec::new(),
            carried: BTreeMap::new(),
            channels: watch.traffic.as_ref().filter(|_| traffic).map(|it| (it, BTreeMap::new())),
            fingerprints: &trace.fingerprints,
            unknown: false,
            using: None,
        };
        let order = || Order {
            clocks: vec![VectorClock::new(nodes); nodes],
            sent: BTreeMap::new(),
            asked: BTreeMap::new(),
        };
        Self {
            trace,
            places,
            up: vec![true; nodes],
            waiting: BTreeMap::new(),
            inside: BTreeMap::new(),
            paused: BTreeSet::new(),
            high: None,
            stale: None,
            order: ordered.then(order),
            follows: vec![None; nodes],
            of_epoch: BTreeMap::new(),
            rivals: None,
            groups: None,
            suspects: BTreeMap::new(),
            facts: None,
            memory: watch.map(memory),
        }
    }

    /// The next event. Returns whether something has changed that a property speaks of.
    pub(super) fn see(&mut self, record: &Record, event: Event) -> bool {
        let (node, at) = (record.node, record.at);
        if let Some(order) = &mut self.order {
            order.see(node, event);
        }
        let noted = self.memory.as_mut().is_some_and(|memory| memory.see(node, event));
        match event {
            Event::Request(Observation::Asked) | Event::Notice(Observation::Asked) => {
                self.waiting.insert(node, at);
            }
            Event::Notice(Observation::Entered { token }) => {
                self.waiting.remove(&node);
                self.inside.insert(node, at);
                let high = self.high.filter(|high| token <= *high);
                self.stale = high.map(|high| (node, token, high));
                self.high = self.high.max(Some(token));
            }
            Event::Request(Observation::Left) | Event::Notice(Observation::Left) => {
                self.inside.remove(&node);
            }
            Event::Notice(Observation::Lost) => {
                self.inside.remove(&node);
                self.waiting.remove(&node);
            }
            Event::Notice(Observation::Follows { leader, epoch }) => {
                self.follows[node.index()] = Some(leader);
                let first = *self.of_epoch.entry(epoch).or_insert(leader);
                if first != leader {
                    self.rivals = Some((first, leader, epoch));
                }
            }
            Event::Notice(Observation::Unled) => self.follows[node.index()] = None,
            Event::Notice(Observation::Suspects(peer)) => {
                self.suspects.entry(node).or_default().insert(peer, at);
            }
            Event::Notice(Observation::Trusts(peer)) => {
                self.suspects.entry(node).or_default().remove(&peer);
            }
            Event::Crash => {
                self.up[node.index()] = false;
                self.follows[node.index()] = None;
                self.inside.remove(&node);
                self.waiting.remove(&node);
                self.paused.remove(&node);
                self.suspects.remove(&node);
            }
            Event::Recover | Event::RecoverEmpty => self.up[node.index()] = true,
            Event::Partition(number) => {
                self.groups = self.trace.partitions.get(number as usize).map(Vec::as_slice);
            }
            Event::Heal => self.groups = None,
            Event::Pause => {
                self.paused.insert(node);
            }
            Event::Resume => {
                self.paused.remove(&node);
            }
            Event::Facts(facts) => self.facts = Some(facts),
            _ => return noted,
        }
        true
    }

    /// The step is over. Returns whether something has changed by that.
    pub(super) fn end_step(&mut self) -> bool {
        self.memory.as_mut().is_some_and(Memory::end_step)
    }

    /// Whether it is known of every message of the application what it says.
    pub(super) fn knows_messages(&self) -> bool {
        self.memory.as_ref().is_none_or(|memory| !memory.unknown)
    }

    /// Whether facts were recorded.
    pub(super) fn has_facts(&self) -> bool {
        self.facts.is_some()
    }
}

impl Memory<'_> {
    fn see(&mut self, node: NodeId, event: Event) -> bool {
        let words = &mut self.nodes[node.index()];
        match event {
            Event::Send { to, serial, control: false, .. } => {
                let carried = (self.watch.carries)(words);
                let fingerprint = self.fingerprint(serial);
                self.unknown |= fingerprint == 0;
                if let Some((traffic, channels)) = &mut self.channels {
                    let channel = (node, to);
                    let passage =
                        Passage { channel, fingerprint, carried: &carried, receiver: &[] };
                    let words = channels.entry(channel).or_default();
                    (traffic.sent)(words, &mut self.system, &passage);
                }
                self.carried.insert(serial, carried);
                self.channels.is_some()
            }
            Event::Deliver { from, serial, .. } => {
                self.using = self.carried.contains_key(&serial).then_some((node, from, serial));
                false
            }
            Event::Notice(mark) => {
                (self.watch.see)(words, node, &mark);
                (self.watch.see_all)(&mut self.system, node, &mark);
                if let Some((traffic, channels)) = &mut self.channels
                    && let Some(channel) = (traffic.about)(node, &mark)
                {
                    let words = channels.entry(channel).or_default();
                    (traffic.told)(words, &mut self.system, channel, &mark);
                }
                true
            }
            Event::Crash if self.watch.forgets => {
                words.clear();
                true
            }
            _ => false,
        }
    }

    fn end_step(&mut self) -> bool {
        let Some((node, from, serial)) = self.using.take() else { return false };
        let (carried, fingerprint) = (&self.carried[&serial], self.fingerprint(serial));
        (self.watch.arrives)(&mut self.nodes[node.index()], from, carried);
        if let Some((traffic, channels)) = &mut self.channels {
            let (channel, receiver) = ((from, node), &self.nodes[node.index()]);
            let passage = Passage { channel, fingerprint, carried, receiver };
            (traffic.received)(channels.entry(channel).or_default(), &mut self.system, &passage);
        }
        true
    }

    fn fingerprint(&self, serial: u32) -> u32 {
        self.fingerprints.get(serial as usize).copied().unwrap_or(0)
    }
}

impl Order {
    fn see(&mut self, node: NodeId, event: Event) {
        let clock = &mut self.clocks[node.index()];
        match event {
            Event::Send { serial, .. } => {
                clock.tick(node);
                self.sent.insert(serial, clock.clone());
            }
            Event::Deliver { serial, .. } => match self.sent.get(&serial) {
                Some(sender) => clock.receive(sender, node),
                None => clock.tick(node),
            },
            // Not an event of the sender: the network's doing, noted where it began.
            Event::Lose { .. } => {}
            // No event of any node.
            Event::Facts(_) => {}
            _ => clock.tick(node),
        }
        if matches!(event, Event::Request(Observation::Asked) | Event::Notice(Observation::Asked)) {
            self.asked.insert(node, clock.clone());
        }
    }
}

impl Now for Scene<'_> {
    fn nodes(&self) -> u32 {
        self.trace.nodes
    }

    fn places(&self) -> u32 {
        self.places
    }

    fn up(&self) -> Those<'_> {
        Those::Flags(&self.up)
    }

    fn waiting(&self) -> Those<'_> {
        Those::Since(&self.waiting)
    }

    fn inside(&self) -> Those<'_> {
        Those::Since(&self.inside)
    }

    fn precedes(&self, first: NodeId, second: NodeId) -> bool {
        let Some(Order { asked, .. }) = &self.order else { return false };
        let clocks = asked.get(&first).zip(asked.get(&second));
        clocks.is_some_and(|(first, second)| first.before(second))
    }

    fn stale_grant(&self) -> Option<(NodeId, u64, u64)> {
        self.stale
    }

    fn leader_of(&self, node: NodeId) -> Option<NodeId> {
        self.follows[node.index()]
    }

    fn rivals(&self) -> Option<(NodeId, NodeId, u64)> {
        self.rivals
    }

    fn best(&self) -> Option<NodeId> {
        self.trace.ranks.best(self.up().all())
    }

    fn together(&self, a: NodeId, b: NodeId) -> bool {
        self.groups.is_none_or(|groups| groups[a.index()] == groups[b.index()])
    }

    fn suspected_by(&self, node: NodeId) -> Those<'_> {
        self.suspects.get(&node).map_or(Those::NOBODY, Those::Since)
    }

    fn noted(&self, node: NodeId) -> &[u64] {
        self.memory.as_ref().map_or(&[], |memory| &memory.nodes[node.index()])
    }

    fn history(&self) -> &[u64] {
        self.memory.as_ref().map_or(&[], |memory| &memory.system)
    }

    fn channels(&self) -> u64 {
        self.trace.channels
    }

    fn facts(&self) -> Option<u64> {
        self.facts
    }
}
