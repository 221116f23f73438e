//! One node has a clock that counts for all. A node that wants to know when an event happened asks
//! it for the time, and allows for the way there and back: the reply tells the time in the middle of
//! the round trip, if both ways took equally long.
//!
//! The true time lies within half the round trip of the estimate, less the least time a message
//! takes. Stamps are totally ordered, ties broken by id; that order is the true one wherever the
//! uncertainties do not overlap.
//!
//! # Rules
//!
//! 1. An event is to be stamped: remember the local time, send `TimeReq` with a fresh number to
//!    the server.
//! 2. `TimeReq` at the server: reply `TimeRep` with the time there.
//! 3. `TimeRep` with time t, after a round trip R: the event happened at `t − R/2`, give or take
//!    `R/2 − Tmin`.
//! 4. No reply in time: the event is not ordered yet. Ask again under a fresh number, and allow for
//!    the time lost.
//!
//! # Known failures
//!
//! Stamping requests as they arrive puts a near node's event before an earlier one of a far node.
//! The correction for the round trip cures that only if both ways take equally long; if not, the
//! order may still be wrong, and the uncertainty says so. Without the server there are no stamps.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocol::{
    Channels, Ctx, Entry, Model, Never, NodeId, Opt, Protocol, Setup, Time, Timing, Unfit,
};
use serde::{Deserialize, Serialize};

use super::{Notice, Request};

/// The state of a client; the server needs none but its clock.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PhysicalClock {
    /// The number of the latest question.
    asked: u64,
    pending: BTreeMap<u64, Pending>,
}

/// A question that has not been answered, by the local clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Pending {
    /// When the event happened.
    event: Time,
    /// When the question was sent.
    sent: Time,
}

/// What nodes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// What time is it?
    TimeReq {
        /// The number of the question.
        n: u64,
    },
    /// It is this late.
    TimeRep {
        /// The number of the question.
        n: u64,
        /// By the server's clock.
        t: Time,
    },
}

/// A question that should have been answered by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Overdue(u64);

/// Which node has the clock, and what is known about delays.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    server: NodeId,
    timeout: Duration,
    /// The least time a message takes.
    least: Duration,
}

impl Config {
    fn new(setup: &Setup) -> Result<Self, Unfit> {
        Ok(Self {
            server: NodeId(0),
            timeout: setup.delay * 2 + setup.processing,
            least: setup.delay * setup.option::<u32>("least", 0)? / 100,
        })
    }
}

impl Protocol for PhysicalClock {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Overdue;
    type Stable = Never;

    fn start(_: Option<Never>, _: &mut Ctx<Self>) -> Self {
        Self { asked: 0, pending: BTreeMap::new() }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            // Rule 1.
            Request::Stamp => {
                ctx.rule(1);
                self.ask(ctx.now(), ctx);
            }
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            // Rule 2.
            Msg::TimeReq { n } => {
                ctx.rule(2);
                ctx.send(from, Msg::TimeRep { n, t: ctx.now() });
            }
            // Rule 3.
            Msg::TimeRep { n, t } => {
                let Some(Pending { event, sent }) = self.pending.remove(&n) else { return };
                ctx.rule(3);
                ctx.cancel_timer(Overdue(n));
                let half = (ctx.now() - sent) / 2;
                let since = half + (sent - event);
                let nanos = t.as_nanos() as i64 - since.as_nanos() as i64;
                let uncertainty = half.saturating_sub(ctx.config.least);
                ctx.notify(Notice::Stamped { nanos, uncertainty });
            }
        }
    }

    /// Rule 4.
    fn on_timer(&mut self, Overdue(n): Overdue, ctx: &mut Ctx<Self>) {
        if let Some(Pending { event, .. }) = self.pending.remove(&n) {
            ctx.rule(4);
            ctx.notify(Notice::Unordered);
            self.ask(event, ctx);
        }
    }
}

impl PhysicalClock {
    fn ask(&mut self, event: Time, ctx: &mut Ctx<Self>) {
        self.asked += 1;
        let n = self.asked;
        self.pending.insert(n, Pending { event, sent: ctx.now() });
        ctx.set_timer(Overdue(n), ctx.config.timeout);
        ctx.send(ctx.config.server, Msg::TimeReq { n });
    }
}

/// The clock at node 0.
pub static PLAIN: Entry<PhysicalClock> =
    Entry::new("base/physical-clock-central", "Central clock", Config::new)
        .summary("ask one clock for the time, and allow for the way")
        .source("Cristian. Probabilistic clock synchronization. Distributed Computing 3(3), 1989")
        .text(include_str!("physical_clock.rs"))
        .model(Model { channels: Channels::Reliable, timing: Timing::Synchronous, ..Model::FIFO })
        .options(&[Opt {
            name: "least",
            default: "0",
            help: "the least time a message takes, in hundredths of T",
        }])
        .clients(|_, n| 1.min(n - 1)..n);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect};

    use super::*;

    #[test]
    fn an_event_is_stamped_with_the_server_time_less_half_the_round_trip() {
        let at = |millis| Time::ZERO + Duration::from_millis(millis);
        let mut bench = Bench::complete(&PLAIN, 2);
        bench.clock(at(100));
        bench.at(1).request(Request::Stamp);
        assert_eq!(bench.at(1).rules(), [1]);
        bench.clock(at(104));
        // The server's clock is ahead by a second.
        let stamped = bench.at(1).message(0, Msg::TimeRep { n: 1, t: at(1_102) });
        let (half, nanos) = (Duration::from_millis(2), 1_100_000_000);
        let notice = Notice::Stamped { nanos, uncertainty: half };
        assert_eq!(stamped, [Effect::CancelTimer(Overdue(1)), Effect::Notify(notice)]);
    }
}
