use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

use crate::host::Slab;
use crate::{
    Charge, Handle, Host, HostInput, Input, Message, Never, NodeId, NodeSet, Observation, Outside,
    Ran, Shown, TimerKey, Topology, Turn,
};

/// Reliable FIFO links over a network that loses, repeats and reorders.
///
/// Every message to a peer carries a number; the peer hands them to the algorithm inside in that
/// order, each once, and acknowledges what it has got; what is not acknowledged in time is sent
/// again. An algorithm that assumes FIFO channels thus runs on a lossy network, unchanged.
///
/// A node that crashes and boots again starts its numbers afresh under a new incarnation, which
/// is all it keeps on stable storage. Numbers belong to a pair of incarnations: peers do not take
/// its new messages for old ones, and number what they still owe it from the beginning.
///
/// It hosts nodes like any [`Host`], around one that hosts the algorithm, and knows the messages
/// inside by their handles only.
pub struct Reliable {
    inside: Box<dyn Host>,
    links: Vec<Links>,
    messages: Slab<ReliableMsg<Handle>>,
    /// How long to wait for an acknowledgement; more than a round trip.
    resend: Duration,
}

/// The links of one node.
#[derive(Default)]
struct Links {
    incarnation: u32,
    out: BTreeMap<NodeId, Outgoing<Handle>>,
    into: BTreeMap<NodeId, Incoming<Handle>>,
    /// The incarnation that is on stable storage.
    saved: Option<u32>,
}

/// One direction of a link, at its sender.
#[derive(Serialize)]
struct Outgoing<M> {
    /// The incarnation of the peer that the numbers are meant for.
    peer: u32,
    next: u64,
    unacknowledged: BTreeMap<u64, M>,
}

/// One direction of a link, at its receiver.
#[derive(Serialize)]
struct Incoming<M> {
    incarnation: u32,
    next: u64,
    /// Arrived ahead of their turn.
    early: BTreeMap<u64, M>,
}

/// The messages of [`Reliable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ReliableMsg<M> {
    /// A message of the algorithm inside; seen through by [`label`](crate::label).
    App(Place, M),
    /// Everything below this number has arrived.
    Ack {
        /// The incarnation of the acknowledged node that the number belongs to.
        incarnation: u32,
        /// The incarnation of the node that acknowledges.
        by: u32,
        /// The number of the message expected next.
        next: u64,
    },
}

/// A message's place in the stream of its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    incarnation: u32,
    /// The incarnation of the receiver it is meant for.
    to: u32,
    number: u64,
    /// Whether it is a retransmission, which is counted for no entry.
    again: bool,
}

/// The timers of [`Reliable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ReliableTimer<T> {
    /// A peer owes an acknowledgement.
    Resend(NodeId),
    /// A timer of the algorithm inside.
    App(T),
}

impl ReliableTimer<TimerKey> {
    /// Both kinds have keys of their own: even and odd ones.
    fn key(self) -> TimerKey {
        match self {
            Self::Resend(peer) => TimerKey(peer.0 * 2),
            Self::App(timer) => TimerKey(timer.0 * 2 + 1),
        }
    }

    fn of(TimerKey(key): TimerKey) -> Self {
        if key % 2 == 0 { Self::Resend(NodeId(key / 2)) } else { Self::App(TimerKey(key / 2)) }
    }
}

impl Reliable {
    /// Puts such links between the nodes that `inside` hosts. To be sent again, a message has to
    /// go without an acknowledgement for as long as `resend`: more than a round trip.
    pub fn new(inside: Box<dyn Host>, nodes: u32, resend: Duration) -> Self {
        let links = (0..nodes).map(|_| Links::default()).collect();
        Self { inside, links, messages: Slab::default(), resend }
    }

    /// Sends a message of the links.
    fn send(&mut self, to: NodeId, msg: ReliableMsg<Handle>, outside: &mut dyn Outside) {
        let handle = self.messages.put(msg);
        let copies = outside.send(to, handle, &told(&*self.inside, msg));
        self.messages.count(handle, copies);
        if copies == 0 {
            self.release(msg);
        }
    }

    /// Nothing has this message any more.
    fn release(&mut self, msg: ReliableMsg<Handle>) {
        if let ReliableMsg::App(_, message) = msg {
            self.inside.lose(message);
        }
    }

    fn resend(&mut self, at: NodeId, peer: NodeId, outside: &mut dyn Outside) {
        let links = &self.links[at.index()];
        let Some(out) = links.out.get(&peer) else { return };
        let (incarnation, to) = (links.incarnation, out.peer);
        let unacknowledged = out.unacknowledged.clone();
        for (&number, &message) in &unacknowledged {
            let place = Place { incarnation, to, number, again: true };
            self.inside.repeat(message);
            self.send(peer, ReliableMsg::App(place, message), outside);
        }
        if !unacknowledged.is_empty() {
            let (key, name) = owed_by(peer);
            outside.set_timer(key, &name, self.resend);
        }
    }

    fn on_numbered(
        &mut self,
        turn: Turn<'_>,
        from: NodeId,
        Place { incarnation, to, number, .. }: Place,
        message: Handle,
        outside: &mut dyn Outside,
    ) -> Ran {
        let links = &mut self.links[turn.node.index()];
        let fresh = || Incoming { incarnation, next: 0, early: BTreeMap::new() };
        let into = links.into.entry(from).or_insert_with(fresh);
        if incarnation < into.incarnation {
            self.inside.lose(message);
            return Ran::default();
        }
        if incarnation > into.incarnation {
            let old = std::mem::replace(into, fresh());
            for message in old.early.into_values() {
                self.inside.lose(message);
            }
        }
        if to == links.incarnation && number >= into.next {
            if let Some(same) = into.early.insert(number, message) {
                self.inside.lose(same);
            }
        } else {
            self.inside.lose(message);
        }
        let mut due = Vec::new();
        while let Some(message) = into.early.remove(&into.next) {
            into.next += 1;
            due.push(message);
        }
        let ack = ReliableMsg::Ack { incarnation, by: links.incarnation, next: into.next };
        self.send(from, ack, outside);
        due.into_iter().fold(Ran::default(), |ran, message| {
            ran.and(self.act_inside(turn, Input::Message { from, msg: message }, outside))
        })
    }

    fn on_ack(
        &mut self,
        at: NodeId,
        from: NodeId,
        (incarnation, by, next): (u32, u32, u64),
        outside: &mut dyn Outside,
    ) {
        let links = &mut self.links[at.index()];
        if incarnation != links.incarnation {
            return;
        }
        let Some(out) = links.out.get_mut(&from) else { return };
        if by > out.peer {
            out.renumber(by);
            self.resend(at, from, outside);
        } else if by == out.peer {
            let left = out.unacknowledged.split_off(&next);
            let acknowledged = std::mem::replace(&mut out.unacknowledged, left);
            if out.unacknowledged.is_empty() {
                let (key, name) = owed_by(from);
                outside.cancel_timer(key, &name);
            }
            for message in acknowledged.into_values() {
                self.inside.lose(message);
            }
        }
    }

    /// Runs a rule of the algorithm inside. What it sends its own node waits until all is done.
    fn act_inside(&mut self, turn: Turn<'_>, input: HostInput, outside: &mut dyn Outside) -> Ran {
        let (inside, mut between) = self.between(turn, outside);
        inside.act(Turn { settles: false, ..turn }, input, &mut between)
    }

    fn between<'a>(
        &'a mut self,
        turn: Turn<'a>,
        outside: &'a mut dyn Outside,
    ) -> (&'a mut dyn Host, Between<'a>) {
        let Self { inside, links, messages, resend } = self;
        let Turn { node: me, topology, .. } = turn;
        let (links, resend) = (&mut links[me.index()], *resend);
        let between = Between { me, topology, links, messages, resend, outside };
        (&mut **inside, between)
    }
}

impl<M> Outgoing<M> {
    /// The peer has booted again and knows none of the old numbers.
    fn renumber(&mut self, peer: u32) {
        let owed = std::mem::take(&mut self.unacknowledged);
        self.next = owed.len() as u64;
        self.unacknowledged = (0..).zip(owed.into_values()).collect();
        self.peer = peer;
    }
}

impl Host for Reliable {
    fn boot(&mut self, turn: Turn<'_>, remembers: bool, outside: &mut dyn Outside) -> Ran {
        let links = &mut self.links[turn.node.index()];
        let saved = links.saved.filter(|_| remembers);
        let incarnation = saved.map_or(0, |last| last + 1);
        *links = Links { incarnation, saved, ..Links::default() };
        if outside.save() {
            links.saved = Some(incarnation);
        }
        let (inside, mut between) = self.between(turn, outside);
        let ran = inside.boot(Turn { settles: false, ..turn }, saved.is_some(), &mut between);
        ran.and(self.settle(turn, outside))
    }

    fn act(&mut self, turn: Turn<'_>, input: HostInput, outside: &mut dyn Outside) -> Ran {
        let mut ran = Ran::default();
        match input {
            Input::Message { from, msg } => {
                let shared = self.messages.is_shared(msg);
                match self.messages.take(msg) {
                    ReliableMsg::App(place, message) => {
                        if shared {
                            self.inside.repeat(message);
                        }
                        ran = self.on_numbered(turn, from, place, message, outside);
                    }
                    ReliableMsg::Ack { incarnation, by, next } => {
                        self.on_ack(turn.node, from, (incarnation, by, next), outside);
                    }
                }
            }
            Input::Timer(timer) => match ReliableTimer::of(timer) {
                ReliableTimer::Resend(peer) => self.resend(turn.node, peer, outside),
                ReliableTimer::App(timer) => {
                    ran = self.act_inside(turn, Input::Timer(timer), outside);
                }
            },
            input => ran = self.act_inside(turn, input, outside),
        }
        if turn.settles { ran.and(self.settle(turn, outside)) } else { ran }
    }

    fn settle(&mut self, turn: Turn<'_>, outside: &mut dyn Outside) -> Ran {
        let (inside, mut between) = self.between(turn, outside);
        inside.settle(turn, &mut between)
    }

    fn crash(&mut self, node: NodeId) {
        self.inside.crash(node);
        let links = &mut self.links[node.index()];
        let Links { out, into, .. } =
            std::mem::replace(links, Links { saved: links.saved, ..Links::default() });
        let owed = out.into_values().flat_map(|out| out.unacknowledged.into_values());
        let early = into.into_values().flat_map(|into| into.early.into_values());
        for message in owed.chain(early) {
            self.inside.lose(message);
        }
    }

    fn repeat(&mut self, message: Handle) {
        self.messages.add(message);
    }

    fn lose(&mut self, message: Handle) {
        if let Some(msg) = self.messages.drop_one(message) {
            self.release(msg);
        }
    }

    fn request(&self, node: NodeId, place: usize) -> Option<Observation> {
        self.inside.request(node, place)
    }

    fn requested(&self, node: NodeId, place: usize) -> Option<Box<dyn Shown>> {
        self.inside.requested(node, place)
    }

    fn message(&self, message: Handle) -> Box<dyn Message + '_> {
        Box::new(told(&*self.inside, *self.messages.get(message)))
    }

    fn timer(&self, node: NodeId, timer: TimerKey) -> Box<dyn Shown + '_> {
        Box::new(match ReliableTimer::of(timer) {
            ReliableTimer::Resend(peer) => ReliableTimer::Resend(peer),
            ReliableTimer::App(timer) => ReliableTimer::App(Name(self.inside.timer(node, timer))),
        })
    }

    fn state(&self, node: NodeId) -> Option<Box<dyn erased_serde::Serialize + '_>> {
        let app = self.inside.state(node)?;
        let (inside, links) = (&*self.inside, &self.links[node.index()]);
        let all = |handles: &BTreeMap<u64, Handle>| {
            handles
                .iter()
                .map(|(&number, &handle)| (number, Told(inside.message(handle))))
                .collect()
        };
        let out = links.out.iter().map(|(&peer, out)| {
            let unacknowledged = all(&out.unacknowledged);
            (peer, Outgoing { peer: out.peer, next: out.next, unacknowledged })
        });
        let into = links.into.iter().map(|(&peer, into)| {
            let Incoming { incarnation, next, ref early } = *into;
            (peer, Incoming { incarnation, next, early: all(early) })
        });
        Some(Box::new(State {
            incarnation: links.incarnation,
            out: out.collect(),
            into: into.collect(),
            stable: inside.saved(node).map(Plain),
            app: Plain(app),
        }))
    }

    /// What is on its way inside cannot be told from what is sent again.
    fn facts(&self, _: &mut dyn Iterator<Item = (NodeId, NodeId, Handle)>) -> Option<u64> {
        None
    }

    fn waits_for(&self, node: NodeId) -> NodeSet {
        self.inside.waits_for(node)
    }

    fn saved(&self, node: NodeId) -> Option<&dyn erased_serde::Serialize> {
        self.inside.saved(node)
    }

    fn inside(&self, node: NodeId) -> Option<&dyn Any> {
        self.inside.inside(node)
    }

    fn client(&self, node: NodeId) -> &dyn Any {
        self.inside.client(node)
    }
}

impl fmt::Debug for Reliable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reliable").field("resend", &self.resend).finish_non_exhaustive()
    }
}

/// Where the effects of the algorithm inside go.
struct Between<'a> {
    me: NodeId,
    topology: &'a Topology,
    links: &'a mut Links,
    messages: &'a mut Slab<ReliableMsg<Handle>>,
    resend: Duration,
    outside: &'a mut dyn Outside,
}

impl Outside for Between<'_> {
    fn send(&mut self, to: NodeId, message: Handle, app: &dyn Message) -> u32 {
        let incarnation = self.links.incarnation;
        let fresh = || Outgoing { peer: 0, next: 0, unacknowledged: BTreeMap::new() };
        let out = self.links.out.entry(to).or_insert_with(fresh);
        let place = Place { incarnation, to: out.peer, number: out.next, again: false };
        out.next += 1;
        if out.unacknowledged.is_empty() {
            let (key, name) = owed_by(to);
            self.outside.set_timer(key, &name, self.resend);
        }
        out.unacknowledged.insert(place.number, message);
        let handle = self.messages.put(ReliableMsg::App(place, message));
        let copies = self.outside.send(to, handle, &ReliableMsg::App(place, Told(&app)));
        self.messages.count(handle, copies);
        // One waits for its acknowledgement, and one is in the message of the links.
        1 + u32::from(copies > 0)
    }

    fn broadcast(&mut self, message: Handle, app: &dyn Message) -> u32 {
        let me = self.me;
        let peers = self.topology.nodes().filter(|&peer| peer != me);
        peers.map(|peer| self.send(peer, message, app)).sum()
    }

    fn notify(&mut self, mark: Observation, notice: &dyn erased_serde::Serialize) -> bool {
        self.outside.notify(mark, notice)
    }

    fn set_timer(&mut self, timer: TimerKey, name: &dyn Shown, after: Duration) {
        let key = ReliableTimer::App(timer).key();
        self.outside.set_timer(key, &ReliableTimer::App(Name(name)), after);
    }

    fn cancel_timer(&mut self, timer: TimerKey, name: &dyn Shown) {
        let key = ReliableTimer::App(timer).key();
        self.outside.cancel_timer(key, &ReliableTimer::App(Name(name)));
    }

    fn save(&mut self) -> bool {
        self.outside.save()
    }

    fn choose(&mut self, n: u32) -> u32 {
        self.outside.choose(n)
    }
}

/// A message of the links, with what the one inside says instead of its handle.
fn told(inside: &dyn Host, msg: ReliableMsg<Handle>) -> ReliableMsg<Told<Box<dyn Message + '_>>> {
    match msg {
        ReliableMsg::App(place, message) => ReliableMsg::App(place, Told(inside.message(message))),
        ReliableMsg::Ack { incarnation, by, next } => ReliableMsg::Ack { incarnation, by, next },
    }
}

impl<M: Message> Message for ReliableMsg<Told<M>> {
    fn label(&self) -> &'static str {
        match self {
            Self::App(_, Told(app)) => app.label(),
            Self::Ack { .. } => "Ack",
        }
    }

    fn charge(&self, from: NodeId, to: NodeId) -> Charge {
        match self {
            Self::App(Place { again: true, .. }, _) | Self::Ack { .. } => Charge::Nobody,
            Self::App(_, Told(app)) => app.charge(from, to),
        }
    }

    fn is_app(&self) -> bool {
        match self {
            Self::App(_, Told(app)) => app.is_app(),
            Self::Ack { .. } => false,
        }
    }

    fn fingerprint(&self) -> u32 {
        match self {
            Self::App(_, Told(app)) => app.fingerprint(),
            Self::Ack { .. } => 0,
        }
    }

    fn contents(&self) -> &dyn erased_serde::Serialize {
        self
    }
}

/// The timer of an acknowledgement that a peer owes, and its name.
fn owed_by(peer: NodeId) -> (TimerKey, ReliableTimer<Never>) {
    (ReliableTimer::Resend(peer).key(), ReliableTimer::Resend(peer))
}

/// A message inside, which is written down as what it says.
struct Told<M>(M);

impl<M: Message> Serialize for Told<M> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        erased_serde::serialize(self.0.contents(), serializer)
    }
}

/// A timer inside, under its name.
struct Name<T>(T);

impl<T: fmt::Debug> fmt::Debug for Name<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: std::ops::Deref<Target: erased_serde::Serialize>> Serialize for Name<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        erased_serde::serialize(&*self.0, serializer)
    }
}

/// What can be written down.
struct Plain<T>(T);

impl<T: std::ops::Deref<Target: erased_serde::Serialize>> Serialize for Plain<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        erased_serde::serialize(&*self.0, serializer)
    }
}

/// The state of a node as it is written down.
#[derive(Serialize)]
#[serde(bound = "")]
struct State<'a> {
    incarnation: u32,
    out: BTreeMap<NodeId, Outgoing<Told<Box<dyn Message + 'a>>>>,
    into: BTreeMap<NodeId, Incoming<Told<Box<dyn Message + 'a>>>>,
    stable: Option<Plain<&'a dyn erased_serde::Serialize>>,
    app: Plain<Box<dyn erased_serde::Serialize + 'a>>,
}
