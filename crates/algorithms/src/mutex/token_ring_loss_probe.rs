//! A token ring that finds out whether its token is lost or only used for very long, and makes a
//! new one if it is lost. A node that has waited for a while sends a probe once round the ring. The
//! holder of the token excuses the probe in passing; if the probe comes home without an excuse, and
//! the token has not come by in the meantime, there is no token.
//!
//! The answer is exact, because links are FIFO: a token that was not at the prober when the probe
//! left is ahead of the probe and cannot be overtaken. A token that was held when the probe came by
//! has excused it; one that kept ahead has come through the prober first, which then waits no
//! longer. No time-out decides anything; the timer only says when to probe. Two probers that would
//! both find the token lost cannot both make one: of two probes under way at once, that of the lower
//! id is excused by the other prober, and of two that are not, the first makes a token that the
//! second meets.
//!
//! # Rules
//!
//! 1. Acquire: wait for the token, and start the timer.
//! 2. `Token`: enter if waiting, which ends a probe under way; else send it to the successor.
//! 3. Release: send `Token` to the successor.
//! 4. Timer, still waiting: send `Probe` to the successor.
//! 5. `Probe` of o elsewhere: excuse it if inside, or if probing with a higher id than o's. Note
//!    in it the highest number the token has had here. Forward it.
//! 6. `Probe` at home, still waiting: excused, start the timer again. Otherwise the token is lost:
//!    make one, in a higher epoch than any the probe has seen, and enter.
//!
//! # Cost
//!
//! That of the token ring, and N messages per probe.
//!
//! # Known failures
//!
//! Without FIFO links a probe may overtake the token and raise a false alarm: two tokens. A crash
//! of any node stops the ring and the probes.

use std::time::Duration;

use conclave_protocol::claims::Check;
use conclave_protocol::{
    Charge, Ctx, Entry, Links, Model, Never, NodeId, Opt, Property, Protocol, Setup, Unfit,
};
use serde::{Deserialize, Serialize};

use super::token_ring::{Serial, at_least_two};
use super::{LOCK, Notice, Request, SAFE};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LossProbe {
    phase: Phase,
    /// The number of the token when it was last here.
    seen: Serial,
    /// Probes sent so far.
    probes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Phase {
    Outside,
    Waiting { probing: bool },
    Inside,
}

/// What nodes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// The right to enter.
    Token(Serial),
    /// Is there a token?
    Probe {
        /// The node that asks.
        origin: NodeId,
        /// Which of its probes this is.
        number: u64,
        /// Whether a node on the way has the token, or probes with more right.
        excused: bool,
        /// The highest number the token has had at the nodes passed.
        seen: Serial,
    },
}

/// The only timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer {
    /// The token has not come for long.
    Patience,
}

/// Which node starts with the token, and how long a node waits before it probes.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    holder: NodeId,
    patience: Duration,
}

impl Config {
    fn new(setup: &Setup) -> Result<Self, Unfit> {
        at_least_two(setup)?;
        let patience = setup.delay * setup.option("patience", 2 * setup.n())?;
        Ok(Self { holder: super::holder(setup)?, patience })
    }
}

impl Protocol for LossProbe {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Timer;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        let seen = Serial::default();
        if ctx.me == ctx.config.holder {
            ctx.send(ctx.successor(), Msg::Token(seen));
        }
        Self { phase: Phase::Outside, seen, probes: 0 }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            // Rule 1.
            Request::Acquire => {
                ctx.rule(1);
                self.wait(ctx);
            }
            // Rule 3.
            Request::Release => {
                ctx.rule(3);
                self.phase = Phase::Outside;
                ctx.send(ctx.successor(), Msg::Token(self.seen));
            }
        }
    }

    fn on_message(&mut self, _: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            // Rule 2.
            Msg::Token(serial) => {
                ctx.rule(2);
                if let Phase::Waiting { .. } = self.phase {
                    ctx.cancel_timer(Timer::Patience);
                    self.enter(serial.next(), ctx);
                } else {
                    self.seen = serial;
                    ctx.send(ctx.successor(), Msg::Token(serial));
                }
            }
            // Rule 6.
            Msg::Probe { origin, number, excused, seen } if origin == ctx.me => {
                let awaited = self.phase == Phase::Waiting { probing: true };
                if !awaited || number != self.probes {
                    return;
                }
                ctx.rule(6);
                if excused {
                    self.wait(ctx);
                } else {
                    let epoch = seen.max(self.seen).epoch + 1;
                    self.enter(Serial { epoch, seq: 0 }, ctx);
                }
            }
            // Rule 5.
            Msg::Probe { origin, number, excused, seen } => {
                ctx.rule(5);
                let excused = excused
                    || match self.phase {
                        Phase::Inside => true,
                        Phase::Waiting { probing } => probing && origin < ctx.me,
                        Phase::Outside => false,
                    };
                let seen = seen.max(self.seen);
                ctx.send(ctx.successor(), Msg::Probe { origin, number, excused, seen });
            }
        }
    }

    /// Rule 4.
    fn on_timer(&mut self, Timer::Patience: Timer, ctx: &mut Ctx<Self>) {
        if self.phase == (Phase::Waiting { probing: false }) {
            ctx.rule(4);
            self.phase = Phase::Waiting { probing: true };
            self.probes += 1;
            let (origin, number, seen) = (ctx.me, self.probes, self.seen);
            ctx.send(ctx.successor(), Msg::Probe { origin, number, excused: false, seen });
        }
    }

    fn charge(msg: &Msg, _: NodeId, _: NodeId) -> Charge {
        match msg {
            Msg::Token(_) => Charge::NextEntry,
            Msg::Probe { .. } => Charge::Nobody,
        }
    }
}

impl LossProbe {
    fn wait(&mut self, ctx: &mut Ctx<Self>) {
        self.phase = Phase::Waiting { probing: false };
        ctx.set_timer(Timer::Patience, ctx.config.patience);
    }

    fn enter(&mut self, serial: Serial, ctx: &mut Ctx<Self>) {
        self.phase = Phase::Inside;
        self.seen = serial;
        ctx.notify(Notice::Acquired { token: serial.token() });
    }
}

/// The ring with probes.
pub static PLAIN: Entry<LossProbe> =
    Entry::new("mutex/token-ring-loss-probe", "Token ring with loss probe", Config::new)
        .summary("who waits long sends a probe round; if it meets no token, the token is lost")
        .source("Le Lann's ring (1977); a probe as in marker algorithms on FIFO channels")
        .text(include_str!("token_ring_loss_probe.rs"))
        .model(Model { links: Links::Ring, ..Model::FIFO })
        .holds(LOCK)
        .fails(&[(
            Property::FcfsHappenedBefore,
            "p3 asks and tells p1, which asks too; the token, at p0, reaches p1 first",
        )])
        .options(&[
            super::HOLDER,
            Opt { name: "patience", default: "2N", help: "after how many T of waiting to probe" },
        ])
        .claims(&[
            Check::new(3, LOCK).timers(3),
            Check::new(2, LOCK).requests(2).timers(3),
            Check::new(3, SAFE).timers(3).losses(1).beyond(),
            Check::new(4, &[Property::FcfsHappenedBefore]).timers(0).talking().fails(4),
        ])
        .deep(&[Check::new(4, LOCK).timers(4)]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect};

    use super::*;

    /// p1 waits, and its probe is on its way.
    fn probing() -> (Bench<LossProbe>, impl Fn(bool) -> Msg) {
        let mut bench = Bench::complete(&PLAIN, 3);
        let seen = Serial::default();
        let probe = move |excused| Msg::Probe { origin: NodeId(1), number: 1, excused, seen };
        bench.at(1).request(Request::Acquire);
        let sent = bench.at(1).timer(Timer::Patience);
        assert_eq!(sent, [Effect::Send { to: NodeId(2), msg: probe(false) }]);
        (bench, probe)
    }

    #[test]
    fn a_probe_that_comes_home_without_excuse_makes_a_token_in_a_new_epoch() {
        let (mut bench, probe) = probing();
        let token = Serial { epoch: 1, seq: 0 }.token();
        let entered = bench.at(1).message(0, probe(false));
        assert_eq!(entered, [Effect::Notify(Notice::Acquired { token })]);
    }

    #[test]
    fn the_node_inside_excuses_a_probe_and_the_prober_waits_on() {
        let (mut bench, probe) = probing();
        bench.at(2).request(Request::Acquire);
        bench.at(2).message(1, Msg::Token(Serial::default()));
        let forwarded = bench.at(2).message(1, probe(false));
        let [Effect::Send { to: NodeId(0), msg: Msg::Probe { excused: true, .. } }] = forwarded[..]
        else {
            panic!("{forwarded:?}");
        };
        let after = bench.at(1).message(0, probe(true));
        assert!(
            matches!(after[..], [Effect::SetTimer { timer: Timer::Patience, .. }]),
            "{after:?}"
        );
    }
}
