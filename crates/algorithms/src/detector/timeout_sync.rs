//! Where messages take at most a known time, silence is proof. Every node asks all others from
//! time to time whether they are alive, and whoever has not answered when an answer would have had
//! to arrive has crashed.
//!
//! A question takes at most `T`, the reply as long again, and answering at most `Tproc`. So a live
//! node is never suspected, and a crashed one fails to answer the next question at the latest.
//!
//! # Rules
//!
//! 1. Every interval: send `Ping` with a fresh number to all that are not suspected, and wait
//!    `2T + Tproc`.
//! 2. `Ping` with a number: send `Pong` with the same.
//! 3. The wait is over: suspect, for good, everybody whose `Pong` with this number is missing.
//!
//! # Cost
//!
//! Two messages per peer and check. A crash is noticed within one interval and `2T + Tproc`.
//!
//! # Known failures
//!
//! One message slower than `T` makes its sender a suspect although it is alive, and the verdict is
//! final. A node that crashes and boots again stays a suspect.

use std::time::Duration;

use conclave_protocol::{
    Charge, Crashes, Ctx, Effect, Entry, Info, Model, NodeId, NodeSet, Opt, Property, Protocol,
    Setup, Timing, Unfit,
};
use serde::{Deserialize, Serialize};

use super::watch::Watch;

/// The state of a node: whom it suspects, and the protocol that wants to know.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct TimeoutSync<P: Protocol> {
    /// The number of the latest check.
    check: u64,
    /// Who has not answered it.
    missing: NodeSet,
    suspected: NodeSet,
    /// The protocol inside.
    pub app: P,
}

/// The constants.
#[derive(Clone, Debug)]
pub struct Config<C> {
    /// From one check to the next; no shorter than the time-out.
    pub interval: Duration,
    /// How long an answer can take.
    pub timeout: Duration,
    /// The constants of the protocol inside.
    pub app: C,
}

/// The messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg<M> {
    /// Are you alive?
    Ping {
        /// The number of the check.
        n: u64,
    },
    /// I am.
    Pong {
        /// The number of the check.
        n: u64,
    },
    /// A message of the protocol inside.
    App(M),
}

/// The timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer<T> {
    /// Time for the next check.
    Check,
    /// All answers to the present check must have arrived.
    Overdue,
    /// A timer of the protocol inside.
    App(T),
}

/// The synchronous detector by itself.
pub static PLAIN: Entry<TimeoutSync<Watch>> = Entry {
    info: Info {
        id: "fd/timeout-sync",
        title: "Time-out in a synchronous system",
        summary: "who has not answered within 2T + Tproc has crashed",
        source: "Cristian. Understanding fault-tolerant distributed systems. CACM 34(2), 1991",
        text: include_str!("timeout_sync.rs"),
        model: Model { timing: Timing::Synchronous, crashes: Crashes::Stop, ..Model::RELIABLE },
        holds: &[Property::Completeness, Property::Accuracy],
        fails: &[],
        options: OPTIONS,
        mutant: None,
    },
    config: |setup| config(setup, ()),
    clients: Entry::<TimeoutSync<Watch>>::everyone,
};

/// What can be set about the synchronous detector.
pub const OPTIONS: &[Opt] =
    &[Opt { name: "interval", default: "5", help: "peers are checked every so many T" }];

/// The constants of the synchronous detector around a protocol with the constants `app`.
pub fn config<C>(setup: &Setup, app: C) -> Result<Config<C>, Unfit> {
    let interval = setup.delay * setup.option::<u32>("interval", 5)?;
    let timeout = setup.delay * 2 + setup.processing;
    if interval < timeout {
        return Err(Unfit::new("interval is shorter than the time-out of 2T + Tproc"));
    }
    Ok(Config { interval, timeout, app })
}

impl<P: Protocol> Protocol for TimeoutSync<P> {
    type Config = Config<P::Config>;
    type Request = P::Request;
    type Notice = P::Notice;
    type Msg = Msg<P::Msg>;
    type Timer = Timer<P::Timer>;
    type Stable = P::Stable;

    fn start(saved: Option<P::Stable>, ctx: &mut Ctx<Self>) -> Self {
        ctx.set_timer(Timer::Check, Duration::ZERO);
        let app = inside(ctx, |ctx| P::start(saved, ctx));
        Self { check: 0, missing: NodeSet::new(), suspected: NodeSet::new(), app }
    }

    fn on_request(&mut self, request: P::Request, ctx: &mut Ctx<Self>) {
        inside(ctx, |ctx| self.app.on_request(request, ctx));
    }

    fn on_message(&mut self, from: NodeId, msg: Self::Msg, ctx: &mut Ctx<Self>) {
        match msg {
            Msg::Ping { n } => ctx.send(from, Msg::Pong { n }),
            Msg::Pong { n } => {
                if n == self.check {
                    self.missing.remove(from);
                }
            }
            Msg::App(msg) => inside(ctx, |ctx| self.app.on_message(from, msg, ctx)),
        }
    }

    fn on_timer(&mut self, timer: Self::Timer, ctx: &mut Ctx<Self>) {
        match timer {
            Timer::Check => {
                self.suspect_the_missing(ctx);
                self.check += 1;
                let trusted = ctx.peers().filter(|&peer| !self.suspected.contains(peer));
                self.missing = trusted.collect();
                ctx.multicast(self.missing.iter(), Msg::Ping { n: self.check });
                ctx.set_timer(Timer::Overdue, ctx.config.timeout);
                ctx.set_timer(Timer::Check, ctx.config.interval);
            }
            Timer::Overdue => self.suspect_the_missing(ctx),
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
            Msg::Ping { .. } | Msg::Pong { .. } => Charge::Nobody,
            Msg::App(msg) => P::charge(msg, from, to),
        }
    }
}

impl<P: Protocol> TimeoutSync<P> {
    fn suspect_the_missing(&mut self, ctx: &mut Ctx<Self>) {
        for peer in self.missing.take().iter() {
            self.suspected.insert(peer);
            inside(ctx, |ctx| self.app.on_suspect(peer, ctx));
        }
    }
}

/// Runs a rule of the protocol inside.
fn inside<P: Protocol, T>(ctx: &mut Ctx<TimeoutSync<P>>, rule: impl FnOnce(&mut Ctx<P>) -> T) -> T {
    let config = ctx.config;
    let lift = |effect: Effect<P>, ctx: &mut Ctx<TimeoutSync<P>>| {
        ctx.emit(effect.map(Msg::App, |notice| notice, Timer::App, |stable| stable));
    };
    ctx.nest(&config.app, lift, rule)
}
