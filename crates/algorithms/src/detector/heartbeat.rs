//! Every node tells all others at regular intervals that it is alive, and suspects whoever has not
//! been heard of for longer than a time-out. A suspicion that proves wrong is taken back, and that
//! peer is given more time from then on.
//!
//! A crashed node falls silent, so every time-out for it runs out in the end and is never taken
//! back. A live node is suspected wrongly only while its time-out is too short; each mistake
//! lengthens it, so if delays are bounded at all, by whatever unknown bound and from whatever time
//! on, the mistakes come to an end.
//!
//! # Rules
//!
//! 1. Every interval: send `Beat` to all.
//! 2. `Beat` from a peer: start its time-out again. If it is suspected: trust it, and lengthen its
//!    time-out.
//! 3. A peer's time-out passes: suspect it.
//!
//! # Cost
//!
//! N(N − 1) messages an interval, for ever. A crash is noticed at the latest when the last beat has
//! arrived and the time-out has passed since.
//!
//! # Known failures
//!
//! Suspicions can be wrong at any time, and nothing tells a wrong one from a right one when it
//! matters. If delays grow without bound, the mistakes never end.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocol::{
    Channels, Charge, Crashes, Ctx, Effect, Entry, Info, Model, NodeId, Opt, Property, Protocol,
    Setup, Unfit,
};
use serde::{Deserialize, Serialize};

use super::watch::Watch;

/// The state of a node: its opinion of every peer, and the protocol that wants to know.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Heartbeat<P: Protocol> {
    watched: BTreeMap<NodeId, Watched>,
    /// The protocol inside.
    pub app: P,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Watched {
    timeout: Duration,
    suspected: bool,
}

/// The constants.
#[derive(Clone, Debug)]
pub struct Config<C> {
    /// η, how often a node sends a beat.
    pub interval: Duration,
    /// Δ0, how long a peer may be silent at first.
    pub timeout: Duration,
    /// δ, how much longer it may after each mistake.
    pub step: Duration,
    /// The constants of the protocol inside.
    pub app: C,
}

/// The messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg<M> {
    /// I am alive.
    Beat,
    /// A message of the protocol inside.
    App(M),
}

/// The timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer<T> {
    /// Time to say that we are alive.
    Beat,
    /// This peer has been silent for too long.
    Overdue(NodeId),
    /// A timer of the protocol inside.
    App(T),
}

/// Heartbeats by themselves.
pub static PLAIN: Entry<Heartbeat<Watch>> = Entry {
    info: Info {
        id: "fd/heartbeat",
        title: "Heartbeats",
        summary: "silence means death; whoever proves it wrong gets more time",
        source: "Chandra, Toueg. Unreliable failure detectors for reliable distributed systems. \
                 Journal of the ACM 43(2), 1996",
        text: include_str!("heartbeat.rs"),
        model: Model { channels: Channels::Lossy, crashes: Crashes::Amnesia, ..Model::FIFO },
        holds: &[Property::Completeness],
        fails: &[(
            Property::Accuracy,
            "a beat that takes longer than the time-out makes its live sender a suspect",
        )],
        options: OPTIONS,
        mutant: None,
    },
    config: |setup| config(setup, ()),
    clients: Entry::<Heartbeat<Watch>>::everyone,
};

/// What can be set about heartbeats.
pub const OPTIONS: &[Opt] = &[
    Opt { name: "interval", default: "2", help: "a beat is sent every so many T" },
    Opt { name: "timeout", default: "3", help: "a peer may be silent for so many T at first" },
    Opt { name: "step", default: "1", help: "and for so many T longer after each mistake" },
];

/// The constants of heartbeats around a protocol with the constants `app`.
pub fn config<C>(setup: &Setup, app: C) -> Result<Config<C>, Unfit> {
    let units = |name, default| -> Result<Duration, Unfit> {
        match setup.option::<u32>(name, default)? {
            0 => Err(Unfit::new(format!("{name}=0, but it has to be at least 1"))),
            units => Ok(setup.delay * units),
        }
    };
    Ok(Config {
        interval: units("interval", 2)?,
        timeout: units("timeout", 3)?,
        step: units("step", 1)?,
        app,
    })
}

impl<P: Protocol> Protocol for Heartbeat<P> {
    type Config = Config<P::Config>;
    type Request = P::Request;
    type Notice = P::Notice;
    type Msg = Msg<P::Msg>;
    type Timer = Timer<P::Timer>;
    type Stable = P::Stable;

    fn start(saved: Option<P::Stable>, ctx: &mut Ctx<Self>) -> Self {
        let fresh = Watched { timeout: ctx.config.timeout, suspected: false };
        let watched: BTreeMap<_, _> = ctx.peers().map(|peer| (peer, fresh)).collect();
        ctx.set_timer(Timer::Beat, Duration::ZERO);
        for &peer in watched.keys() {
            ctx.set_timer(Timer::Overdue(peer), fresh.timeout);
        }
        Self { watched, app: inside(ctx, |ctx| P::start(saved, ctx)) }
    }

    fn on_request(&mut self, request: P::Request, ctx: &mut Ctx<Self>) {
        inside(ctx, |ctx| self.app.on_request(request, ctx));
    }

    fn on_message(&mut self, from: NodeId, msg: Self::Msg, ctx: &mut Ctx<Self>) {
        match msg {
            Msg::Beat => self.on_beat(from, ctx),
            Msg::App(msg) => inside(ctx, |ctx| self.app.on_message(from, msg, ctx)),
        }
    }

    fn on_timer(&mut self, timer: Self::Timer, ctx: &mut Ctx<Self>) {
        match timer {
            Timer::Beat => {
                ctx.broadcast(Msg::Beat);
                ctx.set_timer(Timer::Beat, ctx.config.interval);
            }
            Timer::Overdue(peer) => {
                if let Some(watched) = self.watched.get_mut(&peer) {
                    watched.suspected = true;
                    inside(ctx, |ctx| self.app.on_suspect(peer, ctx));
                }
            }
            Timer::App(timer) => inside(ctx, |ctx| self.app.on_timer(timer, ctx)),
        }
    }

    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        inside(ctx, |ctx| self.app.on_suspect(peer, ctx));
    }

    fn on_restore(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        inside(ctx, |ctx| self.app.on_restore(peer, ctx));
    }

    fn on_join(&mut self, sponsor: NodeId, ctx: &mut Ctx<Self>) {
        inside(ctx, |ctx| self.app.on_join(sponsor, ctx));
    }

    fn on_leave(&mut self, ctx: &mut Ctx<Self>) {
        inside(ctx, |ctx| self.app.on_leave(ctx));
    }

    fn charge(msg: &Self::Msg, from: NodeId, to: NodeId) -> Charge {
        match msg {
            Msg::Beat => Charge::Nobody,
            Msg::App(msg) => P::charge(msg, from, to),
        }
    }
}

impl<P: Protocol> Heartbeat<P> {
    fn on_beat(&mut self, from: NodeId, ctx: &mut Ctx<Self>) {
        let Some(watched) = self.watched.get_mut(&from) else { return };
        let mistaken = std::mem::take(&mut watched.suspected);
        if mistaken {
            watched.timeout += ctx.config.step;
        }
        ctx.set_timer(Timer::Overdue(from), watched.timeout);
        if mistaken {
            inside(ctx, |ctx| self.app.on_restore(from, ctx));
        }
    }
}

/// Runs a rule of the protocol inside.
fn inside<P: Protocol, T>(ctx: &mut Ctx<Heartbeat<P>>, rule: impl FnOnce(&mut Ctx<P>) -> T) -> T {
    let config = ctx.config;
    let lift = |effect: Effect<P>, ctx: &mut Ctx<Heartbeat<P>>| {
        ctx.emit(effect.map(Msg::App, |notice| notice, Timer::App, |stable| stable));
    };
    ctx.nest(&config.app, lift, rule)
}
