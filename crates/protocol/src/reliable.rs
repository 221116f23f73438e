use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::sorted::Sorted;
use crate::{Charge, Ctx, Effect, NodeId, Protocol};

/// Reliable FIFO links over a network that loses, repeats and reorders.
///
/// Every message to a peer carries a number; the peer hands them to the protocol inside in that
/// order, each once, and acknowledges what it has got; what is not acknowledged in time is sent
/// again. An algorithm that assumes FIFO channels thus runs on a lossy network, unchanged.
///
/// A node that crashes and boots again starts its numbers afresh under a new incarnation, which
/// is all it keeps on stable storage. Numbers belong to a pair of incarnations: peers do not take
/// its new messages for old ones, and number what they still owe it from the beginning.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Reliable<P: Protocol> {
    incarnation: u32,
    out: Sorted<NodeId, Outgoing<P>>,
    into: Sorted<NodeId, Incoming<P>>,
    stable: Option<P::Stable>,
    /// The protocol inside.
    pub app: P,
}

/// One direction of a link, at its sender.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
struct Outgoing<P: Protocol> {
    /// The incarnation of the peer that the numbers are meant for.
    peer: u32,
    next: u64,
    unacknowledged: Sorted<u64, P::Msg>,
}

/// One direction of a link, at its receiver.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
struct Incoming<P: Protocol> {
    incarnation: u32,
    next: u64,
    /// Arrived ahead of their turn.
    early: Sorted<u64, P::Msg>,
}

/// The constants of [`Reliable`].
#[derive(Clone, Debug)]
pub struct ReliableConfig<C> {
    /// How long to wait for an acknowledgement; more than a round trip.
    pub resend: Duration,
    /// The constants of the protocol inside.
    pub app: C,
}

/// The messages of [`Reliable`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ReliableMsg<M> {
    /// A message of the protocol inside; seen through by [`label`](crate::label).
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
    /// Whether it has been sent before: then it is the links' doing, and nobody's entry.
    again: bool,
}

/// The timers of [`Reliable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ReliableTimer<T> {
    /// A peer owes an acknowledgement.
    Resend(NodeId),
    /// A timer of the protocol inside.
    App(T),
}

impl<P: Protocol> Protocol for Reliable<P> {
    type Config = ReliableConfig<P::Config>;
    type Request = P::Request;
    type Notice = P::Notice;
    type Msg = ReliableMsg<P::Msg>;
    type Timer = ReliableTimer<P::Timer>;
    type Stable = (u32, Option<P::Stable>);

    fn start(saved: Option<Self::Stable>, ctx: &mut Ctx<Self>) -> Self {
        let (incarnation, stable) = saved.map_or((0, None), |(last, stable)| (last + 1, stable));
        ctx.save((incarnation, stable.clone()));
        let mut links = Links { incarnation, out: Sorted::default(), stable: stable.clone() };
        let app = links.inside(ctx, |ctx| P::start(stable, ctx));
        let Links { out, stable, .. } = links;
        Self { incarnation, out, into: Sorted::default(), stable, app }
    }

    fn on_request(&mut self, request: P::Request, ctx: &mut Ctx<Self>) {
        self.inside(ctx, |app, ctx| app.on_request(request, ctx));
    }

    fn on_message(&mut self, from: NodeId, msg: Self::Msg, ctx: &mut Ctx<Self>) {
        match msg {
            ReliableMsg::App(_, msg) if from == ctx.me => {
                self.inside(ctx, |app, ctx| app.on_message(from, msg, ctx));
            }
            ReliableMsg::App(place, msg) => self.on_numbered(from, place, msg, ctx),
            ReliableMsg::Ack { incarnation, by, next } => {
                if incarnation != self.incarnation {
                    return;
                }
                let Some(out) = self.out.get_mut(from) else { return };
                if by > out.peer {
                    out.renumber(by);
                    self.resend(from, ctx);
                } else if by == out.peer {
                    out.unacknowledged.drop_below(next);
                    if out.unacknowledged.entries().is_empty() {
                        ctx.cancel_timer(ReliableTimer::Resend(from));
                    }
                }
            }
        }
    }

    fn on_timer(&mut self, timer: Self::Timer, ctx: &mut Ctx<Self>) {
        match timer {
            ReliableTimer::Resend(peer) => self.resend(peer, ctx),
            ReliableTimer::App(timer) => self.inside(ctx, |app, ctx| app.on_timer(timer, ctx)),
        }
    }

    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        self.inside(ctx, |app, ctx| app.on_suspect(peer, ctx));
    }

    fn on_restore(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        self.inside(ctx, |app, ctx| app.on_restore(peer, ctx));
    }

    fn on_join(&mut self, sponsor: NodeId, ctx: &mut Ctx<Self>) {
        self.inside(ctx, |app, ctx| app.on_join(sponsor, ctx));
    }

    fn on_leave(&mut self, ctx: &mut Ctx<Self>) {
        self.inside(ctx, |app, ctx| app.on_leave(ctx));
    }

    fn charge(msg: &Self::Msg, from: NodeId, to: NodeId) -> Charge {
        match msg {
            ReliableMsg::App(Place { again: true, .. }, _) => Charge::Nobody,
            ReliableMsg::App(_, msg) => P::charge(msg, from, to),
            ReliableMsg::Ack { .. } => Charge::Nobody,
        }
    }
}

impl<P: Protocol> Outgoing<P> {
    /// The peer has booted again and knows none of the old numbers.
    fn renumber(&mut self, peer: u32) {
        self.next = 0;
        for (number, _) in self.unacknowledged.entries_mut() {
            *number = self.next;
            self.next += 1;
        }
        self.peer = peer;
    }
}

impl<P: Protocol> Reliable<P> {
    fn resend(&self, peer: NodeId, ctx: &mut Ctx<Self>) {
        let Some(out) = self.out.get(peer) else { return };
        for &(number, ref msg) in out.unacknowledged.entries() {
            let place = Place { incarnation: self.incarnation, to: out.peer, number, again: true };
            ctx.send(peer, ReliableMsg::App(place, msg.clone()));
        }
        if !out.unacknowledged.entries().is_empty() {
            ctx.set_timer(ReliableTimer::Resend(peer), ctx.config.resend);
        }
    }

    fn on_numbered(
        &mut self,
        from: NodeId,
        Place { incarnation, to, number, .. }: Place,
        msg: P::Msg,
        ctx: &mut Ctx<Self>,
    ) {
        let fresh = || Incoming { incarnation, next: 0, early: Sorted::default() };
        let into = self.into.get_or_insert(from, fresh());
        if incarnation < into.incarnation {
            return;
        }
        if incarnation > into.incarnation {
            *into = fresh();
        }
        if to == self.incarnation && number >= into.next {
            into.early.insert(number, msg);
        }
        let mut due = Vec::new();
        while let Some(msg) = into.early.take_first(into.next) {
            into.next += 1;
            due.push(msg);
        }
        ctx.send(from, ReliableMsg::Ack { incarnation, by: self.incarnation, next: into.next });
        for msg in due {
            self.inside(ctx, |app, ctx| app.on_message(from, msg, ctx));
        }
    }

    /// Runs a rule of the protocol inside.
    fn inside(&mut self, ctx: &mut Ctx<Self>, rule: impl FnOnce(&mut P, &mut Ctx<P>)) {
        let mut links = Links {
            incarnation: self.incarnation,
            out: std::mem::take(&mut self.out),
            stable: self.stable.take(),
        };
        links.inside(ctx, |ctx| rule(&mut self.app, ctx));
        Links { out: self.out, stable: self.stable, .. } = links;
    }
}

/// The part of the state that the effects of the protocol inside change.
struct Links<P: Protocol> {
    incarnation: u32,
    out: Sorted<NodeId, Outgoing<P>>,
    stable: Option<P::Stable>,
}

impl<P: Protocol> Links<P> {
    fn inside<T>(&mut self, ctx: &mut Ctx<Reliable<P>>, rule: impl FnOnce(&mut Ctx<P>) -> T) -> T {
        let config = ctx.config;
        let lift = |effect: Effect<P>, ctx: &mut Ctx<Reliable<P>>| match effect {
            Effect::Send { to, msg } => self.send(to, msg, ctx),
            Effect::Broadcast(msg) => {
                for peer in ctx.peers() {
                    self.send(peer, msg.clone(), ctx);
                }
            }
            Effect::Save(stable) => {
                self.stable = Some(stable.clone());
                ctx.save((self.incarnation, Some(stable)));
            }
            Effect::Notify(notice) => ctx.notify(notice),
            Effect::SetTimer { timer, after } => {
                ctx.set_timer(ReliableTimer::App(timer), after);
            }
            Effect::CancelTimer(timer) => ctx.cancel_timer(ReliableTimer::App(timer)),
        };
        ctx.nest(&config.app, lift, rule)
    }

    fn send(&mut self, to: NodeId, msg: P::Msg, ctx: &mut Ctx<Reliable<P>>) {
        let fresh = Outgoing { peer: 0, next: 0, unacknowledged: Sorted::default() };
        let mut place = Place { incarnation: self.incarnation, to: 0, number: 0, again: false };
        if to != ctx.me {
            let out = self.out.get_or_insert(to, fresh);
            (place.to, place.number) = (out.peer, out.next);
            out.next += 1;
            if out.unacknowledged.entries().is_empty() {
                ctx.set_timer(ReliableTimer::Resend(to), ctx.config.resend);
            }
            out.unacknowledged.insert(place.number, msg.clone());
        }
        ctx.send(to, ReliableMsg::App(place, msg));
    }
}
