//! Where messages take at most a known time, silence is proof. Every node asks all others from
//! time to time whether they are alive, and a peer that has not answered by the time an answer would
//! have had to arrive has crashed.
//!
//! A question takes at most `T`, the reply as long again, and answering at most `Tproc`. So a live
//! node is never suspected, and a crashed one fails to answer the next question at the latest.
//!
//! # Rules
//!
//! 1. Every interval: send `Ping` with a fresh number to all that are not suspected, and wait
//!    `2T + Tproc`.
//! 2. `Ping` with a number: send `Pong` with the same.
//! 3. The wait is over: suspect, for good, every peer whose `Pong` with this number is missing.
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
    Charge, Crashes, Ctx, Detecting, Entry, Knob, Model, Never, NodeId, NodeSet, Opt, Protocol,
    Setup, Timing, Unfit,
};
use serde::{Deserialize, Serialize};

use super::{Notice, PERFECT, ROOM, rounds};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TimeoutSync {
    /// The number of the latest check.
    check: u64,
    /// Peers that have not answered it.
    missing: NodeSet,
    suspected: NodeSet,
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
            // Rule 2.
            Msg::Ping { n } => {
                ctx.rule(2);
                ctx.send(from, Msg::Pong { n });
            }
            Msg::Pong { n } => {
                if n == self.check {
                    self.missing.remove(from);
                }
            }
        }
    }

    fn on_timer(&mut self, timer: Timer, ctx: &mut Ctx<Self>) {
        match timer {
            // Rule 1.
            Timer::Check => {
                // The wait may be over at this very moment.
                if !self.missing.is_empty() {
                    self.suspect_the_missing(ctx);
                }
                ctx.rule(1);
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
    /// Rule 3.
    fn suspect_the_missing(&mut self, ctx: &mut Ctx<Self>) {
        ctx.rule(3);
        for peer in self.missing.take().iter() {
            self.suspected.insert(peer);
            ctx.notify(Notice::Suspects(peer));
        }
    }
}

/// The detector as published.
pub static PLAIN: Entry<TimeoutSync> =
    Entry::new("fd/timeout-sync", "Time-out in a synchronous system", Config::of)
        .summary("who has not answered within 2T + Tproc has crashed")
        .source("Cristian. Understanding fault-tolerant distributed systems. CACM 34(2), 1991")
        .text(include_str!("timeout_sync.rs"))
        .model(Model { timing: Timing::Synchronous, crashes: Crashes::Stop, ..Model::RELIABLE })
        .holds(PERFECT)
        .options(&[Opt {
            name: "interval",
            default: "5",
            help: "peers are checked every so many T",
        }])
        .claims(&[
            // Questions are numbered, so that there is no end to the states.
            Check::new(3, PERFECT).crashes(1).bounded(100),
        ])
        .deep(&[Check::new(4, PERFECT).crashes(1).bounded(100)])
        .detecting(Detecting {
            at_most: Some(|info| Some(info.default_number("interval")? + 2.0)),
            messages: Some(|info, _| Some(2.0 / info.default_number("interval")?)),
            knobs: &[Knob::processing(&[0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0]).beside(ROOM)],
        });

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect};

    use super::*;

    #[test]
    fn a_peer_that_has_not_answered_when_the_wait_is_over_is_suspected_and_asked_no_more() {
        let mut bench = Bench::complete(&PLAIN, 3);
        let ping = |to, n| Effect::Send { to: NodeId(to), msg: Msg::Ping { n } };
        assert_eq!(bench.at(0).timer(Timer::Check)[..2], [ping(1, 1), ping(2, 1)]);
        assert_eq!(bench.at(0).message(1, Msg::Pong { n: 1 }), []);
        let suspects = Effect::Notify(Notice::Suspects(NodeId(2)));
        assert_eq!(bench.at(0).timer(Timer::Overdue), [suspects]);
        let asked = bench.at(0).timer(Timer::Check);
        assert_eq!(asked[0], ping(1, 2));
        assert_eq!(asked.len(), 3, "one question and two timers");
        assert_eq!(bench.at(0).rules(), [1]);
    }
}
