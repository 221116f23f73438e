//! An algorithm behind an object, so that a driver is compiled once and not once for each algorithm.
//!
//! [`Hosted`] is the only part that knows the types of an algorithm. What these types hold, others
//! know by numbers: a message by its [`Handle`], a timer by its [`TimerKey`], a request by its
//! place among those that the application may make. A driver says what happens at a node
//! ([`Host::act`]) and is told, effect by effect, what the rule asks for ([`Outside`]).
//!
//! A driver that writes messages down or sends them over a network gets at what they say by
//! [`Host::message`].

use std::any::Any;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::ops::Deref;
use std::time::Duration;

use erased_serde::Serialize;

use crate::{
    Charge, Client, Ctx, Effect, Effects, HostInput, Input, NodeId, NodeSet, Observable,
    Observation, Protocol, Time, Topology, Whole, label,
};

/// A message that is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(pub u32);

/// One of the timers of a node; another timer may have the number when this one no longer runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerKey(pub u32);

/// Where and when something happens.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// The node.
    pub node: NodeId,
    /// What its clock shows.
    pub now: Time,
    /// Who exists, and who has a link to whom.
    pub topology: &'a Topology,
    /// Whether the node handles what it sends itself at once; if not, [`Host::settle`] is for that.
    pub settles: bool,
}

/// What ran in a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Whether a rule looked at the clock.
    pub looked: bool,
    /// The [numbered rules](Ctx::rule), bit n standing for rule n.
    pub rules: u32,
}

impl Ran {
    /// What ran in two turns together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { looked: self.looked | other.looked, rules: self.rules | other.rules }
    }
}

/// The nodes of a system that all run one algorithm, and their applications.
pub trait Host: Send {
    /// A node boots, with what it had saved or without.
    fn boot(&mut self, turn: Turn<'_>, remembers: bool, outside: &mut dyn Outside) -> Ran;

    /// Something happens at a node that is up.
    fn act(&mut self, turn: Turn<'_>, input: HostInput, outside: &mut dyn Outside) -> Ran;

    /// A message arrives at a node that is up. The same as to [`act`](Self::act) on it, for drivers
    /// to whom it matters that most events are messages.
    fn deliver(
        &mut self,
        turn: Turn<'_>,
        from: NodeId,
        message: Handle,
        outside: &mut dyn Outside,
    ) -> Ran {
        self.act(turn, Input::Message { from, msg: message }, outside)
    }

    /// The node handles what it has sent itself in turns that left it at that.
    fn settle(&mut self, turn: Turn<'_>, outside: &mut dyn Outside) -> Ran;

    /// A node crashes: what it saved is all that is left.
    fn crash(&mut self, node: NodeId);

    /// There is one more of a message: it was duplicated.
    fn repeat(&mut self, message: Handle);

    /// There is one fewer of a message: it was lost.
    fn lose(&mut self, message: Handle);

    /// What the request at this place means; `None` if the application may not make so many.
    fn request(&self, node: NodeId, place: usize) -> Option<Observation>;

    /// What it says.
    fn requested(&self, node: NodeId, place: usize) -> Option<Box<dyn Shown>>;

    /// What a message says.
    fn message(&self, message: Handle) -> Box<dyn Message + '_>;

    /// What a running timer is called.
    fn timer(&self, node: NodeId, timer: TimerKey) -> Box<dyn Shown + '_>;

    /// The state of a node that is up, to be written down.
    fn state(&self, node: NodeId) -> Option<Box<dyn Serialize + '_>>;

    /// What is true of the whole system, these messages being on their way, each from the first
    /// node to the second; `None` if the algorithm has no [facts](Protocol::facts).
    fn facts(&self, messages: &mut dyn Iterator<Item = (NodeId, NodeId, Handle)>) -> Option<u64>;

    /// Whom a node that is up [waits for](Protocol::waits_for).
    fn waits_for(&self, node: NodeId) -> NodeSet;

    /// What a node has saved.
    fn saved(&self, node: NodeId) -> Option<&dyn Serialize>;

    /// The algorithm's own state at a node that is up, for those who know its type.
    fn inside(&self, node: NodeId) -> Option<&dyn Any>;

    /// The application at a node, for those who know its type.
    fn client(&self, node: NodeId) -> &dyn Any;
}

/// Where effects go. They are carried out as a rule asks for them.
pub trait Outside {
    /// Sends a message to another node. Returns how many are on their way: none if it is lost.
    fn send(&mut self, to: NodeId, handle: Handle, message: &dyn Message) -> u32;

    /// Sends a message to every other node. Returns how many are on their way.
    fn broadcast(&mut self, handle: Handle, message: &dyn Message) -> u32;

    /// Tells the application. Returns whether it hears it.
    fn notify(&mut self, mark: Observation, notice: &dyn Serialize) -> bool;

    /// Starts or restarts a timer, which is called so.
    fn set_timer(&mut self, timer: TimerKey, name: &dyn Shown, after: Duration);

    /// Stops a timer that was running.
    fn cancel_timer(&mut self, timer: TimerKey, name: &dyn Shown);

    /// Writes to stable storage. Returns whether that is done.
    fn save(&mut self) -> bool;

    /// Picks a number below `n`.
    fn choose(&mut self, n: u32) -> u32;
}

/// A message, for those who do not know its type.
pub trait Message {
    /// What it is called.
    fn label(&self) -> &'static str;

    /// Whose entry it is counted for.
    fn charge(&self, from: NodeId, to: NodeId) -> Charge;

    /// Whether it is one of the application's, and no control message.
    fn is_app(&self) -> bool;

    /// The [fingerprint](Protocol::fingerprint) of what the application says by it.
    fn fingerprint(&self) -> u32;

    /// What it says.
    fn contents(&self) -> &dyn Serialize;
}

impl<T: Deref<Target: Message>> Message for T {
    fn label(&self) -> &'static str {
        (**self).label()
    }

    fn charge(&self, from: NodeId, to: NodeId) -> Charge {
        (**self).charge(from, to)
    }

    fn is_app(&self) -> bool {
        (**self).is_app()
    }

    fn fingerprint(&self) -> u32 {
        (**self).fingerprint()
    }

    fn contents(&self) -> &dyn Serialize {
        (**self).contents()
    }
}

/// A request or a timer, for those who do not know its type.
pub trait Shown: Serialize + Debug {
    /// What it is called.
    fn label(&self) -> &'static str;
}

impl<T: serde::Serialize + Debug> Shown for T {
    fn label(&self) -> &'static str {
        label(self)
    }
}

/// The nodes of a system that run `P`, with applications `C`.
pub struct Hosted<P: Protocol, C> {
    config: P::Config,
    nodes: Vec<Node<P, C>>,
    messages: Slab<Said<P>>,
    /// What the application of the acting node is told; reused from turn to turn.
    notices: Vec<P::Notice>,
    /// What a node has sent itself in a turn that left it at that.
    to_self: VecDeque<P::Msg>,
}

struct Node<P: Protocol, C> {
    /// `None` while the node is down.
    state: Option<P>,
    client: C,
    /// Running timers, each at the place that is its key.
    timers: Vec<Option<P::Timer>>,
    stable: Option<P::Stable>,
}

impl<P: Protocol, C: Client<P>> Hosted<P, C> {
    /// So many nodes, all of them down.
    pub fn new(config: P::Config, nodes: u32) -> Self {
        let node = |_| Node { state: None, client: C::default(), timers: Vec::new(), stable: None };
        Self {
            config,
            nodes: (0..nodes).map(node).collect(),
            messages: Slab::default(),
            notices: Vec::new(),
            to_self: VecDeque::new(),
        }
    }

    /// Runs a rule at a node.
    #[inline(always)]
    fn run(
        &mut self,
        turn: Turn<'_>,
        outside: &mut dyn Outside,
        rule: impl FnOnce(&mut Option<P>, &mut Ctx<P>),
    ) -> Ran {
        let Node { state, client, timers, stable } = &mut self.nodes[turn.node.index()];
        let (messages, notices) = (&mut self.messages, &mut self.notices);
        let mut emitter = Emitter { messages, timers, stable, notices, outside };
        let Turn { node, now, topology, settles } = turn;
        let mut ctx = Ctx::new(node, topology, &self.config, now, &mut emitter);
        rule(state, &mut ctx);
        if settles {
            state.as_mut().expect("the node is up").settle(&mut ctx);
        } else {
            while let Some(msg) = ctx.next_to_self() {
                self.to_self.push_back(msg);
            }
        }
        let ran = Ran { looked: ctx.looked_at_clock(), rules: ctx.rules() };
        if !notices.is_empty() {
            for notice in notices.drain(..) {
                client.on_notice(&notice);
            }
        }
        ran
    }

    fn asked(&self, node: NodeId, place: usize) -> Option<P::Request> {
        self.nodes[node.index()].client.requests().into_iter().nth(place)
    }
}

impl<P: Protocol, C: Client<P>> Host for Hosted<P, C> {
    fn boot(&mut self, turn: Turn<'_>, remembers: bool, outside: &mut dyn Outside) -> Ran {
        let stable = &mut self.nodes[turn.node.index()].stable;
        if !remembers {
            *stable = None;
        }
        let saved = stable.clone();
        self.run(turn, outside, |state, ctx| *state = Some(P::start(saved, ctx)))
    }

    fn act(&mut self, turn: Turn<'_>, input: HostInput, outside: &mut dyn Outside) -> Ran {
        let Node { client, timers, .. } = &mut self.nodes[turn.node.index()];
        let input = input.map(
            |place| {
                let request = client.requests().into_iter().nth(place);
                let request = request.expect("the application may ask that");
                client.on_request(&request);
                request
            },
            |message| self.messages.take(message).0,
            |TimerKey(key)| timers[key as usize].take().expect("the timer runs"),
        );
        self.run(turn, outside, |state, ctx| {
            state.as_mut().expect("the node is up").on_input(input, ctx);
        })
    }

    fn deliver(
        &mut self,
        turn: Turn<'_>,
        from: NodeId,
        message: Handle,
        outside: &mut dyn Outside,
    ) -> Ran {
        let Said(msg) = self.messages.take(message);
        self.run(turn, outside, |state, ctx| {
            state.as_mut().expect("the node is up").on_message(from, msg, ctx);
        })
    }

    fn settle(&mut self, turn: Turn<'_>, outside: &mut dyn Outside) -> Ran {
        let mut ran = Ran::default();
        while let Some(msg) = self.to_self.pop_front() {
            ran = ran.and(self.run(turn, outside, |state, ctx| {
                state.as_mut().expect("the node is up").on_message(ctx.me, msg, ctx);
            }));
        }
        ran
    }

    fn crash(&mut self, node: NodeId) {
        let node = &mut self.nodes[node.index()];
        node.state = None;
        node.client = C::default();
        node.timers.clear();
    }

    fn repeat(&mut self, message: Handle) {
        self.messages.add(message);
    }

    fn lose(&mut self, message: Handle) {
        self.messages.drop_one(message);
    }

    fn request(&self, node: NodeId, place: usize) -> Option<Observation> {
        self.asked(node, place).map(|request| request.observation())
    }

    fn requested(&self, node: NodeId, place: usize) -> Option<Box<dyn Shown>> {
        self.asked(node, place).map(|request| Box::new(request) as _)
    }

    fn message(&self, message: Handle) -> Box<dyn Message + '_> {
        Box::new(self.messages.get(message))
    }

    fn timer(&self, node: NodeId, TimerKey(key): TimerKey) -> Box<dyn Shown + '_> {
        Box::new(self.nodes[node.index()].timers[key as usize].expect("the timer runs"))
    }

    fn state(&self, node: NodeId) -> Option<Box<dyn Serialize + '_>> {
        self.nodes[node.index()].state.as_ref().map(|state| Box::new(state) as _)
    }

    fn facts(&self, messages: &mut dyn Iterator<Item = (NodeId, NodeId, Handle)>) -> Option<u64> {
        if !P::FACTS {
            return None;
        }
        let said = |(from, to, handle)| (from, to, &self.messages.get(handle).0);
        let messages = messages.map(said).collect();
        let nodes = self.nodes.iter().map(|node| node.state.as_ref()).collect();
        Some(P::facts(&Whole { config: &self.config, nodes, messages }))
    }

    fn waits_for(&self, node: NodeId) -> NodeSet {
        let state = self.nodes[node.index()].state.as_ref();
        state.map(|state| state.waits_for(node, &self.config)).unwrap_or_default()
    }

    fn saved(&self, node: NodeId) -> Option<&dyn Serialize> {
        self.nodes[node.index()].stable.as_ref().map(|stable| stable as _)
    }

    fn inside(&self, node: NodeId) -> Option<&dyn Any> {
        self.nodes[node.index()].state.as_ref().map(|state| state as _)
    }

    fn client(&self, node: NodeId) -> &dyn Any {
        &self.nodes[node.index()].client
    }
}

impl<P: Protocol, C> Debug for Hosted<P, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hosted").field("nodes", &self.nodes.len()).finish_non_exhaustive()
    }
}

/// Puts the effects of a rule behind numbers, and hands them on.
struct Emitter<'a, P: Protocol> {
    messages: &'a mut Slab<Said<P>>,
    timers: &'a mut Vec<Option<P::Timer>>,
    stable: &'a mut Option<P::Stable>,
    notices: &'a mut Vec<P::Notice>,
    outside: &'a mut dyn Outside,
}

impl<P: Protocol> Effects<P> for Emitter<'_, P> {
    fn emit(&mut self, effect: Effect<P>) {
        match effect {
            Effect::Send { to, msg } => {
                let (handle, said) = self.messages.put_one(Said(msg));
                let copies = self.outside.send(to, handle, said);
                if copies != 1 {
                    self.messages.count(handle, copies);
                }
            }
            Effect::Broadcast(msg) => {
                let handle = self.messages.put(Said(msg));
                let copies = self.outside.broadcast(handle, self.messages.get(handle));
                self.messages.count(handle, copies);
            }
            Effect::Notify(notice) => {
                if self.outside.notify(notice.observation(), &notice) {
                    self.notices.push(notice);
                }
            }
            Effect::SetTimer { timer, after } => {
                let places = self.timers.iter();
                let key = places.clone().position(|running| *running == Some(timer));
                let key = key.or_else(|| places.clone().position(Option::is_none));
                let key = key.unwrap_or_else(|| {
                    self.timers.push(None);
                    self.timers.len() - 1
                });
                self.timers[key] = Some(timer);
                self.outside.set_timer(TimerKey(key as u32), &timer, after);
            }
            Effect::CancelTimer(timer) => {
                if let Some(key) = self.timers.iter().position(|running| *running == Some(timer)) {
                    self.timers[key] = None;
                    self.outside.cancel_timer(TimerKey(key as u32), &timer);
                }
            }
            Effect::Save(stable) => {
                if self.outside.save() {
                    *self.stable = Some(stable);
                }
            }
        }
    }

    fn choose(&mut self, n: u32) -> u32 {
        self.outside.choose(n)
    }
}

/// A message of `P`.
struct Said<P: Protocol>(P::Msg);

impl<P: Protocol> Clone for Said<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<P: Protocol> Message for Said<P> {
    fn label(&self) -> &'static str {
        label(&self.0)
    }

    fn charge(&self, from: NodeId, to: NodeId) -> Charge {
        P::charge(&self.0, from, to)
    }

    fn is_app(&self) -> bool {
        P::is_app(&self.0)
    }

    fn fingerprint(&self) -> u32 {
        P::fingerprint(&self.0)
    }

    fn contents(&self) -> &dyn Serialize {
        &self.0
    }
}

/// Values under numbers that are given out anew when nothing has them any more. What was said to
/// many is kept once, and counted.
pub(crate) struct Slab<T> {
    places: Vec<(Option<T>, u32)>,
    /// The first vacant place; a vacant place has the next one in place of its count.
    vacant: u32,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { places: Vec::new(), vacant: u32::MAX }
    }
}

impl<T: Clone> Slab<T> {
    /// Gives a value a number. Until it is [counted](Self::count), one has it.
    #[inline]
    pub(crate) fn put(&mut self, value: T) -> Handle {
        self.put_one(value).0
    }

    /// The same; also returns the value at its place.
    #[inline]
    pub(crate) fn put_one(&mut self, value: T) -> (Handle, &T) {
        if self.vacant as usize >= self.places.len() {
            self.vacant = self.places.len() as u32;
            self.places.push((None, u32::MAX));
        }
        let handle = Handle(self.vacant);
        let (place, count) = &mut self.places[handle.0 as usize];
        self.vacant = std::mem::replace(count, 1);
        (handle, place.insert(value))
    }

    #[inline]
    pub(crate) fn get(&self, handle: Handle) -> &T {
        self.places[handle.0 as usize].0.as_ref().expect("the number is given out")
    }

    /// Sets how many references to the value there are. With none, returns it and frees the number.
    #[inline]
    pub(crate) fn count(&mut self, handle: Handle, count: u32) -> Option<T> {
        let place = &mut self.places[handle.0 as usize];
        if count > 0 {
            place.1 = count;
            return None;
        }
        place.1 = std::mem::replace(&mut self.vacant, handle.0);
        place.0.take()
    }

    pub(crate) fn add(&mut self, handle: Handle) {
        self.places[handle.0 as usize].1 += 1;
    }

    /// One of those who have the value drops it. Returns it if that was the last.
    pub(crate) fn drop_one(&mut self, handle: Handle) -> Option<T> {
        self.count(handle, self.places[handle.0 as usize].1 - 1)
    }

    /// Whether more than one has the value.
    pub(crate) fn is_shared(&self, handle: Handle) -> bool {
        self.places[handle.0 as usize].1 > 1
    }

    /// One of those who have the value takes it.
    #[inline]
    pub(crate) fn take(&mut self, handle: Handle) -> T {
        let place = &mut self.places[handle.0 as usize];
        if place.1 > 1 {
            place.1 -= 1;
            return place.0.clone().expect("the number is given out");
        }
        place.1 = std::mem::replace(&mut self.vacant, handle.0);
        place.0.take().expect("the number is given out")
    }
}
