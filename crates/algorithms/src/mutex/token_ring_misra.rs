//! Two tokens go round a ring: `Ping`, which is the right to enter, and `Pong`, which only watches.
//! Each finds out when the other is lost, and makes it anew.
//!
//! Every node remembers which token it saw last, and in which state. Tokens change state whenever
//! they meet. So a token that comes to a node and finds its own present state there has gone all
//! the way round without meeting the other, which has not been at this node meanwhile either. On
//! FIFO links tokens cannot pass each other without meeting at a node, so the other is lost. A
//! node that keeps `Ping` for long does no harm: `Pong` comes by and meets it.
//!
//! `Pong` carries the number of entries it has heard of. When it finds `Ping` lost, it has been at
//! every node after `Ping` was there last, so the new `Ping` goes on counting where the old stopped.
//!
//! # Rules
//!
//! 1. Acquire: wait for `Ping`.
//! 2. `Ping` in state v: if the node remembers v, `Pong` is lost: make it, as if they had met here.
//!    Otherwise remember v. Then enter if waiting, else send `Ping` on.
//! 3. `Pong` in state w: if the node remembers w, `Ping` is lost: make it, as if they had met here,
//!    and treat it as in rule 2. Otherwise remember w; if inside, the two meet. Send `Pong` on.
//! 4. When they meet, v grows by one and w = −v. The node's memory stays as it is.
//! 5. Release: send `Ping` on.
//!
//! # Cost
//!
//! Twice that of the token ring: two tokens, N messages a round each. If all nodes always want in,
//! `Ping` takes one message and one hop an entry.
//!
//! # Known failures
//!
//! If both are lost before either has found out, nothing is left that could notice. Without FIFO links they
//! may pass each other on the way and raise a false alarm. A crash of any node stops both.

use conclave_protocol::claims::Check;
use conclave_protocol::{
    Charge, Ctx, Entry, Links, Model, Never, NodeId, Property, Protocol, Setup, Unfit,
};
use serde::{Deserialize, Serialize};

use super::token_ring::at_least_two;
use super::{LOCK, Notice, Request, SAFE};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Misra {
    /// The state of the token seen last: positive for `Ping`, negative for `Pong`.
    memory: i64,
    /// Entries that `Ping` had given when it was last here.
    entries: u64,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Phase {
    Outside,
    Waiting,
    /// Inside, with `Ping` in this state.
    Inside {
        ping: i64,
    },
}

/// What nodes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// The right to enter.
    Ping {
        /// Its state: a positive number.
        v: i64,
        /// Entries so far: the fencing token of the latest.
        entries: u64,
    },
    /// The token that watches over it.
    Pong {
        /// Its state: a negative number.
        w: i64,
        /// Entries it has heard of.
        entries: u64,
    },
}

/// Which node starts with both tokens.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    holder: NodeId,
}

impl Config {
    fn new(setup: &Setup) -> Result<Self, Unfit> {
        at_least_two(setup)?;
        Ok(Self { holder: super::holder(setup)? })
    }
}

impl Protocol for Misra {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Never;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        if ctx.me == ctx.config.holder {
            ctx.send(ctx.successor(), Msg::Ping { v: 1, entries: 0 });
            ctx.send(ctx.successor(), Msg::Pong { w: -1, entries: 0 });
        }
        Self { memory: 0, entries: 0, phase: Phase::Outside }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match (request, self.phase) {
            // Rule 1.
            (Request::Acquire, _) => {
                ctx.rule(1);
                self.phase = Phase::Waiting;
            }
            // Rule 5.
            (Request::Release, Phase::Inside { ping }) => {
                ctx.rule(5);
                self.phase = Phase::Outside;
                ctx.send(ctx.successor(), Msg::Ping { v: ping, entries: self.entries });
            }
            (Request::Release, Phase::Outside | Phase::Waiting) => {}
        }
    }

    fn on_message(&mut self, _: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            // Rule 2, and 4 if `Pong` is lost.
            Msg::Ping { mut v, entries } => {
                ctx.rule(2);
                self.entries = entries.max(self.entries);
                if self.memory == v {
                    ctx.rule(4);
                    v += 1;
                    ctx.send(ctx.successor(), Msg::Pong { w: -v, entries: self.entries });
                } else {
                    self.memory = v;
                }
                self.use_or_pass_on(v, ctx);
            }
            // Rule 3, and 4 if `Ping` is lost or here.
            Msg::Pong { mut w, entries } => {
                ctx.rule(3);
                let entries = entries.max(self.entries);
                let ping_lost = self.memory == w;
                if ping_lost {
                    ctx.rule(4);
                    w -= 1;
                } else {
                    self.memory = w;
                }
                if let Phase::Inside { ping } = &mut self.phase {
                    ctx.rule(4);
                    *ping += 1;
                    w = -*ping;
                }
                ctx.send(ctx.successor(), Msg::Pong { w, entries });
                if ping_lost && !matches!(self.phase, Phase::Inside { .. }) {
                    self.entries = entries;
                    self.use_or_pass_on(-w, ctx);
                }
            }
        }
    }

    fn charge(msg: &Msg, _: NodeId, _: NodeId) -> Charge {
        match msg {
            Msg::Ping { .. } => Charge::NextEntry,
            Msg::Pong { .. } => Charge::Nobody,
        }
    }
}

impl Misra {
    /// `Ping` is here in state `v`.
    fn use_or_pass_on(&mut self, v: i64, ctx: &mut Ctx<Self>) {
        if self.phase == Phase::Waiting {
            self.entries += 1;
            self.phase = Phase::Inside { ping: v };
            ctx.notify(Notice::Acquired { token: self.entries });
        } else {
            ctx.send(ctx.successor(), Msg::Ping { v, entries: self.entries });
        }
    }
}

/// The two tokens.
pub static PLAIN: Entry<Misra> =
    Entry::new("mutex/token-ring-misra", "Token ring with two tokens", Config::new)
        .summary("two tokens circle; each notices when the other is lost and makes it anew")
        .source(
            "Misra. Detecting termination of distributed computations using markers. PODC, 1983",
        )
        .text(include_str!("token_ring_misra.rs"))
        .model(Model { links: Links::Ring, ..Model::FIFO })
        .holds(LOCK)
        .fails(&[(
            Property::FcfsHappenedBefore,
            "p3 asks and tells p1, which asks too; the token, at p0, reaches p1 first",
        )])
        .options(&[super::HOLDER])
        .claims(&[
            // The tokens count their meetings, so that there is no end to the states.
            Check::new(3, LOCK).bounded(100),
            Check::new(3, LOCK).requests(2).bounded(50),
            Check::new(3, SAFE).losses(1).beyond().bounded(40),
            Check::new(4, &[Property::FcfsHappenedBefore]).talking().fails(4),
        ])
        .deep(&[Check::new(4, LOCK).bounded(60)]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect};

    use super::*;

    fn to_p2(msg: Msg) -> Effect<Misra> {
        Effect::Send { to: NodeId(2), msg }
    }

    #[test]
    fn a_token_that_finds_its_own_state_makes_the_other_anew() {
        let mut bench = Bench::complete(&PLAIN, 3);
        let ping = |v| Msg::Ping { v, entries: 0 };
        let pong = |w| Msg::Pong { w, entries: 0 };
        assert_eq!(bench.at(1).message(0, ping(1)), [to_p2(ping(1))]);
        // It has come round, and `Pong` has not been here.
        assert_eq!(bench.at(1).message(0, ping(1)), [to_p2(pong(-2)), to_p2(ping(2))]);
        assert_eq!(bench.at(1).rules(), [2, 4]);
        assert_eq!(bench.at(1).message(0, pong(-2)), [to_p2(pong(-2))]);
        assert_eq!(bench.at(1).message(0, pong(-2)), [to_p2(pong(-3)), to_p2(ping(3))]);
        assert_eq!(bench.at(1).rules(), [3, 4]);
    }

    #[test]
    fn pong_meets_ping_where_it_is_held() {
        let mut bench = Bench::complete(&PLAIN, 3);
        bench.at(1).request(Request::Acquire);
        bench.at(1).message(0, Msg::Ping { v: 1, entries: 0 });
        let met = bench.at(1).message(0, Msg::Pong { w: -1, entries: 0 });
        assert_eq!(met, [to_p2(Msg::Pong { w: -2, entries: 1 })]);
        let left = bench.at(1).request(Request::Release);
        assert_eq!(left, [to_p2(Msg::Ping { v: 2, entries: 1 })]);
    }
}
