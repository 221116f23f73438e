use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{NodeId, NodeSet, Protocol, Time, Topology};

/// What a rule can see and do.
pub struct Ctx<'a, P: Protocol> {
    /// The node the rule runs at.
    pub me: NodeId,
    /// Who exists, and who has a link to whom.
    pub topology: &'a Topology,
    /// What never changes during a run.
    pub config: &'a P::Config,
    now: Time,
    /// Whether a rule has looked at the clock.
    looked: Cell<bool>,
    /// The numbered rules that have run, one bit each.
    rules: u32,
    effects: &'a mut (dyn Effects<P> + 'a),
    /// Messages to oneself: handled within the same step, at no cost. Boxed because hardly any
    /// step has one, and each makes a context.
    #[expect(clippy::box_collection, reason = "a null pointer is cheaper to make and drop")]
    to_self: Option<Box<VecDeque<P::Msg>>>,
}

impl<'a, P: Protocol> Ctx<'a, P> {
    /// For drivers: the context of one step.
    pub fn new(
        me: NodeId,
        topology: &'a Topology,
        config: &'a P::Config,
        now: Time,
        effects: &'a mut (dyn Effects<P> + 'a),
    ) -> Self {
        Self {
            me,
            topology,
            config,
            now,
            looked: Cell::new(false),
            rules: 0,
            effects,
            to_self: None,
        }
    }

    /// This node's clock. Only algorithms about time look at it.
    #[inline]
    pub fn now(&self) -> Time {
        self.looked.set(true);
        self.now
    }

    /// For drivers: whether a rule has looked at the clock. What the others do is the same at any
    /// time.
    pub fn looked_at_clock(&self) -> bool {
        self.looked.get()
    }

    /// For wrappers that make a context for what is inside by themselves: what the clock shows.
    /// No rule has looked at it by that, unless what is inside does.
    pub fn clock_inside(&self) -> Time {
        self.now
    }

    /// Notes that this rule of the algorithm's numbered description runs.
    ///
    /// Traces say which rules a step has run. Nothing else depends on it.
    #[inline]
    pub fn rule(&mut self, number: u32) {
        debug_assert!((1..u32::BITS).contains(&number), "rules count from 1 to 31");
        self.rules |= 1 << number;
    }

    /// For drivers: the numbered rules that have run, bit n standing for rule n.
    pub fn rules(&self) -> u32 {
        self.rules
    }

    /// Sends `msg`. A message to oneself is handled as soon as the current rule is done.
    #[inline]
    pub fn send(&mut self, to: NodeId, msg: P::Msg) {
        self.emit(Effect::Send { to, msg });
    }

    /// Sends `msg` to every other node.
    pub fn broadcast(&mut self, msg: P::Msg) {
        self.emit(Effect::Broadcast(msg));
    }

    /// Sends `msg` to each node of `to`, oneself included if it is a member.
    #[inline]
    pub fn multicast(&mut self, to: impl IntoIterator<Item = NodeId>, msg: P::Msg) {
        for peer in to {
            self.send(peer, msg.clone());
        }
    }

    /// Tells the local application.
    pub fn notify(&mut self, notice: P::Notice) {
        self.emit(Effect::Notify(notice));
    }

    /// Starts `timer`, or restarts it if it is running.
    pub fn set_timer(&mut self, timer: P::Timer, after: Duration) {
        self.emit(Effect::SetTimer { timer, after });
    }

    /// Stops `timer`, if it is running.
    pub fn cancel_timer(&mut self, timer: P::Timer) {
        self.emit(Effect::CancelTimer(timer));
    }

    /// Writes `stable` to stable storage; it is there before any later effect is carried out.
    pub fn save(&mut self, stable: P::Stable) {
        self.emit(Effect::Save(stable));
    }

    /// Picks a number below `n`: at random in a run, every one of them in the model checker.
    pub fn choose(&mut self, n: u32) -> u32 {
        debug_assert!(n > 0, "a choice needs something to choose from");
        self.effects.choose(n)
    }

    /// How many nodes there are.
    pub fn n(&self) -> u32 {
        self.topology.len()
    }

    /// Everyone but this node.
    pub fn peers(&self) -> impl Iterator<Item = NodeId> + use<'a, P> {
        let me = self.me;
        self.topology.nodes().filter(move |&node| node != me)
    }

    /// Everyone but this node, as a set.
    pub fn peer_set(&self) -> NodeSet {
        let mut all: NodeSet = self.topology.nodes().collect();
        all.remove(self.me);
        all
    }

    /// The nodes this one has a link to.
    pub fn neighbors(&self) -> impl Iterator<Item = NodeId> + use<'a, P> {
        self.topology.neighbors(self.me)
    }

    /// The next node on the ring of ids.
    pub fn successor(&self) -> NodeId {
        self.topology.successor(self.me)
    }

    /// Asks for an effect.
    #[inline]
    pub fn emit(&mut self, effect: Effect<P>) {
        match effect {
            Effect::Send { to, msg } if to == self.me => {
                self.to_self.get_or_insert_default().push_back(msg);
            }
            effect => self.effects.emit(effect),
        }
    }

    /// The next message this node sent itself. [`Protocol::step`] handles them.
    #[inline]
    pub fn next_to_self(&mut self) -> Option<P::Msg> {
        self.to_self.as_mut()?.pop_front()
    }

    /// Runs a rule of a protocol inside this one, handing each of its effects to `lift`.
    ///
    /// A message the inner protocol sends to itself reaches `lift` like any other; mapped to the
    /// outer message type and sent on, it comes back through the outer protocol's `on_message`.
    pub fn nest<Q: Protocol, T>(
        &mut self,
        config: &Q::Config,
        lift: impl FnMut(Effect<Q>, &mut Ctx<P>),
        rule: impl FnOnce(&mut Ctx<Q>) -> T,
    ) -> T {
        self.run_inside(config, lift, rule).0
    }

    /// The same for a protocol that has no rules beside those inside: their numbers are its own.
    pub fn stand_for<Q: Protocol, T>(
        &mut self,
        config: &Q::Config,
        lift: impl FnMut(Effect<Q>, &mut Ctx<P>),
        rule: impl FnOnce(&mut Ctx<Q>) -> T,
    ) -> T {
        let (result, rules) = self.run_inside(config, lift, rule);
        self.rules |= rules;
        result
    }

    fn run_inside<Q: Protocol, T>(
        &mut self,
        config: &Q::Config,
        lift: impl FnMut(Effect<Q>, &mut Ctx<P>),
        rule: impl FnOnce(&mut Ctx<Q>) -> T,
    ) -> (T, u32) {
        let (me, topology, now) = (self.me, self.topology, self.now);
        let mut lift = Lift { outer: self, lift };
        let effects = &mut lift;
        let mut ctx = Ctx::new(me, topology, config, now, effects);
        let result = rule(&mut ctx);
        let (to_self, looked, rules) = (ctx.to_self.take(), ctx.looked.get(), ctx.rules);
        lift.outer.looked.set(lift.outer.looked.get() || looked);
        for msg in to_self.into_iter().flat_map(|messages| *messages) {
            lift.emit(Effect::Send { to: me, msg });
        }
        (result, rules)
    }
}

/// Something a rule asks for. Drivers carry out a rule's effects in the order it asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum Effect<P: Protocol> {
    /// Send a message to another node.
    Send {
        /// The receiver.
        to: NodeId,
        /// What it gets.
        msg: P::Msg,
    },
    /// Send a message to every other node: one transmission where the medium can do that.
    Broadcast(P::Msg),
    /// Tell the local application.
    Notify(P::Notice),
    /// Start or restart a timer.
    SetTimer {
        /// Which.
        timer: P::Timer,
        /// How long from now.
        after: Duration,
    },
    /// Stop a timer.
    CancelTimer(P::Timer),
    /// Write to stable storage, before any later effect.
    Save(P::Stable),
}

impl<P: Protocol> Effect<P> {
    /// The same effect of a protocol that wraps this one.
    pub fn map<Q: Protocol>(
        self,
        msg: impl FnOnce(P::Msg) -> Q::Msg,
        notice: impl FnOnce(P::Notice) -> Q::Notice,
        timer: impl FnOnce(P::Timer) -> Q::Timer,
        stable: impl FnOnce(P::Stable) -> Q::Stable,
    ) -> Effect<Q> {
        match self {
            Self::Send { to, msg: m } => Effect::Send { to, msg: msg(m) },
            Self::Broadcast(m) => Effect::Broadcast(msg(m)),
            Self::Notify(n) => Effect::Notify(notice(n)),
            Self::SetTimer { timer: t, after } => Effect::SetTimer { timer: timer(t), after },
            Self::CancelTimer(t) => Effect::CancelTimer(timer(t)),
            Self::Save(s) => Effect::Save(stable(s)),
        }
    }
}

/// Where effects go: a simulator's queue, a checker's list, a runtime's outbox.
pub trait Effects<P: Protocol> {
    /// Carries out, or notes, one effect. Never a message to the node itself.
    fn emit(&mut self, effect: Effect<P>);

    /// Picks a number below `n`.
    fn choose(&mut self, n: u32) -> u32;
}

/// Records effects, for tests of a single rule. Chooses 0.
impl<P: Protocol> Effects<P> for Vec<Effect<P>> {
    fn emit(&mut self, effect: Effect<P>) {
        self.push(effect);
    }

    fn choose(&mut self, _: u32) -> u32 {
        0
    }
}

struct Lift<'c, 'a, P: Protocol, F> {
    outer: &'c mut Ctx<'a, P>,
    lift: F,
}

impl<P: Protocol, Q: Protocol, F: FnMut(Effect<Q>, &mut Ctx<P>)> Effects<Q> for Lift<'_, '_, P, F> {
    fn emit(&mut self, effect: Effect<Q>) {
        (self.lift)(effect, self.outer);
    }

    fn choose(&mut self, n: u32) -> u32 {
        self.outer.choose(n)
    }
}

impl<P: Protocol> fmt::Debug for Ctx<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx").field("me", &self.me).field("now", &self.now).finish_non_exhaustive()
    }
}
