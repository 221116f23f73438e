//! Every node tells all others at regular intervals that it is alive, and suspects a peer that it has
//! not heard of for longer than a time-out. A suspicion that proves wrong is taken back, and that
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
//! arrived and the time-out has passed since: within an interval and the time-out, if a beat takes no
//! longer than an interval. `fd/heartbeat-ring` sends N messages an interval.
//!
//! # Known failures
//!
//! Suspicions can be wrong at any time, and nothing tells a wrong one from a right one when it
//! matters. If delays grow without bound, the mistakes never end.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocol::claims::Check;
use conclave_protocol::{
    Channels, Charge, Crashes, Ctx, Detecting, Entry, Knob, Model, Never, NodeId, Opt, Property,
    Protocol, Setup, Unfit,
};
use serde::{Deserialize, Serialize};

use super::{COMPLETE, Notice, units};

/// The state of a node: its opinion of every peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Heartbeat {
    watched: BTreeMap<NodeId, Watched>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Watched {
    timeout: Duration,
    suspected: bool,
}

/// The message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// I am alive.
    Beat,
}

/// The timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer {
    /// Time to say that we are alive.
    Beat,
    /// This peer has been silent for too long.
    Overdue(NodeId),
}

/// The constants.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// η, how often a node sends a beat.
    pub interval: Duration,
    /// Δ0, how long a peer may be silent at first.
    pub timeout: Duration,
    /// δ, how much longer it may after each mistake.
    pub step: Duration,
}

impl Config {
    /// As the options say.
    pub fn of(setup: &Setup) -> Result<Self, Unfit> {
        Ok(Self {
            interval: units(setup, "interval", 2)?,
            timeout: units(setup, "timeout", 3)?,
            step: units(setup, "step", 1)?,
        })
    }
}

impl Protocol for Heartbeat {
    type Config = Config;
    type Request = Never;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Timer;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        let fresh = Watched { timeout: ctx.config.timeout, suspected: false };
        let watched: BTreeMap<_, _> = ctx.peers().map(|peer| (peer, fresh)).collect();
        ctx.set_timer(Timer::Beat, Duration::ZERO);
        for &peer in watched.keys() {
            ctx.set_timer(Timer::Overdue(peer), fresh.timeout);
        }
        Self { watched }
    }

    fn on_request(&mut self, request: Never, _: &mut Ctx<Self>) {
        match request {}
    }

    /// Rule 2.
    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        let Msg::Beat = msg;
        let Some(watched) = self.watched.get_mut(&from) else { return };
        ctx.rule(2);
        let mistaken = std::mem::take(&mut watched.suspected);
        if mistaken {
            watched.timeout += ctx.config.step;
        }
        ctx.set_timer(Timer::Overdue(from), watched.timeout);
        if mistaken {
            ctx.notify(Notice::Trusts(from));
        }
    }

    fn on_timer(&mut self, timer: Timer, ctx: &mut Ctx<Self>) {
        match timer {
            // Rule 1.
            Timer::Beat => {
                ctx.rule(1);
                ctx.broadcast(Msg::Beat);
                ctx.set_timer(Timer::Beat, ctx.config.interval);
            }
            // Rule 3.
            Timer::Overdue(peer) => {
                if let Some(watched) = self.watched.get_mut(&peer) {
                    ctx.rule(3);
                    watched.suspected = true;
                    ctx.notify(Notice::Suspects(peer));
                }
            }
        }
    }

    fn charge(_: &Msg, _: NodeId, _: NodeId) -> Charge {
        Charge::Nobody
    }
}

/// The detector as published.
pub static PLAIN: Entry<Heartbeat> = Entry::new("fd/heartbeat", "Heartbeats", Config::of)
    .summary("silence means death; a node that proves it wrong gets more time")
    .source(
        "Chandra, Toueg. Unreliable failure detectors for reliable distributed systems. \
         Journal of the ACM 43(2), 1996",
    )
    .text(include_str!("heartbeat.rs"))
    .model(Model { channels: Channels::Lossy, crashes: Crashes::Amnesia, ..Model::FIFO })
    .holds(COMPLETE)
    .fails(&[(
        Property::Accuracy,
        "a beat that takes longer than the time-out makes its live sender a suspect",
    )])
    .options(&[
        Opt { name: "interval", default: "2", help: "a beat is sent every so many T" },
        Opt { name: "timeout", default: "3", help: "a peer may be silent for so many T at first" },
        Opt { name: "step", default: "1", help: "and for so many T longer after each mistake" },
    ])
    .claims(&[
        // Beats that no node waits for pile up without end.
        Check::new(2, COMPLETE).crashes(1).amnesias(1).losses(1).repeats(1).bounded(16),
        Check::new(3, COMPLETE).timely().crashes(1).amnesias(1).losses(1).repeats(1),
        Check::new(2, &[Property::Accuracy]).fails(1),
    ])
    .detecting(Detecting {
        at_most: Some(|info| {
            Some(info.default_number("interval")? + info.default_number("timeout")?)
        }),
        messages: Some(|info, _| Some(1.0 / info.default_number("interval")?)),
        knobs: &[
            Knob::option("timeout", &[2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0]),
            // Too short a time-out, so that there is something to learn.
            Knob::option("step", &[1.0, 2.0, 4.0, 8.0]).beside(&[("timeout", "2")]),
        ],
    });

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect, Topology};

    use super::*;

    #[test]
    fn a_beat_takes_a_suspicion_back_and_gives_its_sender_more_time() {
        let mut bench = Bench::complete(&PLAIN, 2);
        let (peer, timer) = (NodeId(1), Timer::Overdue(NodeId(1)));
        assert_eq!(bench.at(0).timer(timer), [Effect::Notify(Notice::Suspects(peer))]);
        let Config { timeout, step, .. } =
            Config::of(&Setup::new(Topology::complete(2))).expect("it fits");
        let again = Effect::SetTimer { timer, after: timeout + step };
        let heard = bench.at(0).message(1, Msg::Beat);
        assert_eq!(heard, [again.clone(), Effect::Notify(Notice::Trusts(peer))]);
        // No mistake this time.
        assert_eq!(bench.at(0).message(1, Msg::Beat), [again]);
    }
}
