//! Two tokens go round a ring: `Ping`, which is the right to enter, and `Pong`, which only watches.
//! Each finds out when the other is lost, and makes it anew.
//!
//! Every node remembers which token it saw last, and in which state. Tokens change state whenever
//! they meet. So a token that comes to a node and finds its own present state there has gone all
//! the way round without meeting the other, which has not been at this node meanwhile either. On
//! FIFO links tokens cannot pass each other without meeting at a node, so the other is nowhere. A
//! holder that keeps `Ping` for long does no harm: `Pong` comes by and meets it.
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
//! Twice that of the token ring: two tokens, N messages a round each. If everybody always wants in,
//! `Ping` takes one message and one hop an entry.
//!
//! # Known failures
//!
//! If both are lost before either has found out, nobody is left to notice. Without FIFO links they
//! may pass each other on the way and raise a false alarm. A crash of any node stops both.

use conclave_protocol::claims::Check;
use conclave_protocol::{
    Charge, Ctx, Entry, Info, Links, Model, Never, NodeId, Property, Protocol,
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

/// Who starts with both tokens.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    holder: NodeId,
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
    /// What watches over it.
    Pong {
        /// Its state: a negative number.
        w: i64,
        /// Entries it has heard of.
        entries: u64,
    },
}

/// The two tokens.
pub static PLAIN: Entry<Misra> = Entry {
    info: Info {
        id: "mutex/token-ring-misra",
        title: "Token ring with two tokens",
        summary: "two tokens circle; each notices when the other is lost and makes it anew",
        source: "Misra. Detecting termination of distributed computations using markers. PODC, \
                 1983",
        text: include_str!("token_ring_misra.rs"),
        model: Model { links: Links::Ring, ..Model::FIFO },
        holds: &[
            Property::Exclusion,
            Property::NoDeadlock,
            Property::NoStarvation,
            Property::FenceOrder,
        ],
        fails: &[(
            Property::FcfsHappenedBefore,
            "p3 asks and tells p1, which asks too; the token, at p0, reaches p1 first",
        )],
        options: &[super::HOLDER],
        mutant: None,
        claims: &[
            // The tokens count their meetings, so that there is no end to the states.
            Check::new(3, LOCK).bounded(100),
            Check::new(3, LOCK).requests(2).bounded(50),
            Check::new(3, SAFE).losses(1).beyond().bounded(40),
            Check::new(4, &[Property::FcfsHappenedBefore]).talking().fails(4),
        ],
        deep: &[Check::new(4, LOCK).bounded(60)],
        ..Info::EMPTY
    },
    config: |setup| {
        at_least_two(setup)?;
        Ok(Config { holder: super::holder(setup)? })
    },
    clients: Entry::<Misra>::everyone,
};

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
            (Request::Acquire, _) => self.phase = Phase::Waiting,
            (Request::Release, Phase::Inside { ping }) => {
                self.phase = Phase::Outside;
                ctx.send(ctx.successor(), Msg::Ping { v: ping, entries: self.entries });
            }
            (Request::Release, Phase::Outside | Phase::Waiting) => {}
        }
    }

    fn on_message(&mut self, _: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            Msg::Ping { mut v, entries } => {
                self.entries = entries.max(self.entries);
                if self.memory == v {
                    v += 1;
                    ctx.send(ctx.successor(), Msg::Pong { w: -v, entries: self.entries });
                } else {
                    self.memory = v;
                }
                self.use_or_pass_on(v, ctx);
            }
            Msg::Pong { mut w, entries } => {
                let entries = entries.max(self.entries);
                let ping_lost = self.memory == w;
                if ping_lost {
                    w -= 1;
                } else {
                    self.memory = w;
                }
                if let Phase::Inside { ping } = &mut self.phase {
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
