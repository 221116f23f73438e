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

use conclave_protocol::claims::Check;
use conclave_protocol::{
    Charge, Crashes, Ctx, Detecting, Entry, Info, Knob, Model, Never, NodeId, NodeSet, Opt,
    Property, Protocol, Setup, Timing, Unfit,
};
use serde::{Deserialize, Serialize};

use super::{Notice, ROOM, rounds};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TimeoutSync {
    /// The number of the latest check.
    check: u64,
    /// Who has not answered it.
    missing: NodeSet,
    suspected: NodeSet,
}

/// The constants.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// From one check to the next; no shorter than the time-out.
    pub interval: Duration,
    /// How long an answer can take.
    pub timeout: Duration,
}

impl Config {
    /// As the options say.
    pub fn of(setup: &Setup) -> Result<Self, Unfit> {
        let (interval, timeout) = rounds(setup)?;
        Ok(Self { interval, timeout })
    }
}

/// The messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
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
}

/// The timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer {
    /// Time for the next check.
    Check,
    /// All answers to the present check must have arrived.
    Overdue,
}

/// The detector as published.
pub static PLAIN: Entry<TimeoutSync> = Entry {
    info: Info {
        id: "fd/timeout-sync",
        title: "Time-out in a synchronous system",
        summary: "who has not answered within 2T + Tproc has crashed",
        source: "Cristian. Understanding fault-tolerant distributed systems. CACM 34(2), 1991",
        text: include_str!("timeout_sync.rs"),
        model: Model { timing: Timing::Synchronous, crashes: Crashes::Stop, ..Model::RELIABLE },
        holds: &[Property::Completeness, Property::Accuracy],
        fails: &[],
        options: &[Opt {
            name: "interval",
            default: "5",
            help: "peers are checked every so many T",
        }],
        mutant: None,
        claims: &[
            // Questions are numbered, so that there is no end to the states.
            Check::new(3, &[Property::Completeness, Property::Accuracy]).crashes(1).bounded(100),
        ],
        deep: &[Check::new(4, &[Property::Completeness, Property::Accuracy])
            .crashes(1)
            .bounded(100)],
        detecting: Some(Detecting {
            at_most: Some(|info| Some(info.default_number("interval")? + 2.0)),
            messages: Some(|info, _| Some(2.0 / info.default_number("interval")?)),
            knobs: &[Knob::processing(&[0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0]).beside(ROOM)],
        }),
        ..Info::EMPTY
    },
    config: Config::of,
    clients: Entry::<TimeoutSync>::everyone,
};

impl Protocol for TimeoutSync {
    type Config = Config;
    type Request = Never;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Timer;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        ctx.set_timer(Timer::Check, Duration::ZERO);
        Self { check: 0, missing: NodeSet::new(), suspected: NodeSet::new() }
    }

    fn on_request(&mut self, request: Never, _: &mut Ctx<Self>) {
        match request {}
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            Msg::Ping { n } => ctx.send(from, Msg::Pong { n }),
            Msg::Pong { n } => {
                if n == self.check {
                    self.missing.remove(from);
                }
            }
        }
    }

    fn on_timer(&mut self, timer: Timer, ctx: &mut Ctx<Self>) {
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
        }
    }

    fn charge(_: &Msg, _: NodeId, _: NodeId) -> Charge {
        Charge::Nobody
    }
}

impl TimeoutSync {
    fn suspect_the_missing(&mut self, ctx: &mut Ctx<Self>) {
        for peer in self.missing.take().iter() {
            self.suspected.insert(peer);
            ctx.notify(Notice::Suspects(peer));
        }
    }
}
