//! A token goes round a ring for ever. Who has it may enter; who does not want to passes it on.
//!
//! There is one token, so there is one inside; and it comes by everybody, so nobody starves.
//!
//! # Rules
//!
//! 1. Acquire: wait for the token.
//! 2. `Token`: enter if waiting, else send it to the successor.
//! 3. Release: send `Token` to the successor.
//!
//! # Known failures
//!
//! The loss of the token, or the crash of any node, stops everything. Order is by place, not by
//! time: a node just ahead of the token enters before one that asked earlier. An idle ring is
//! never quiet.

use conclave_protocol::{
    Charge, Ctx, Entry, Info, Links, Model, Never, NodeId, Property, Protocol,
};
use serde::{Deserialize, Serialize};

use super::{Notice, Request};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TokenRing {
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Phase {
    Outside,
    Waiting,
    Inside { token: u64 },
}

/// Who starts with the token.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    holder: NodeId,
}

/// The only message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// The right to enter, with the number of entries it has given.
    Token {
        /// Entries so far: the fencing token of the latest.
        entries: u64,
    },
}

/// The perpetual token.
pub static PLAIN: Entry<TokenRing> = Entry {
    info: Info {
        id: "mutex/token-ring",
        title: "Token ring",
        summary: "a token circles for ever; who has it may enter",
        source: "Le Lann. Distributed systems: towards a formal approach. IFIP Congress, 1977",
        text: include_str!("token_ring.rs"),
        model: Model { links: Links::Ring, ..Model::RELIABLE },
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
    },
    config: |setup| Ok(Config { holder: super::holder(setup)? }),
    clients: Entry::<TokenRing>::everyone,
};

impl Protocol for TokenRing {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Never;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        if ctx.me == ctx.config.holder && ctx.n() > 1 {
            ctx.send(ctx.successor(), Msg::Token { entries: 0 });
        }
        Self { phase: Phase::Outside }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match (request, self.phase) {
            (Request::Acquire, _) => self.phase = Phase::Waiting,
            (Request::Release, Phase::Inside { token }) => {
                self.phase = Phase::Outside;
                ctx.send(ctx.successor(), Msg::Token { entries: token });
            }
            (Request::Release, Phase::Outside | Phase::Waiting) => {}
        }
    }

    fn on_message(&mut self, _: NodeId, Msg::Token { entries }: Msg, ctx: &mut Ctx<Self>) {
        if self.phase == Phase::Waiting {
            let token = entries + 1;
            self.phase = Phase::Inside { token };
            ctx.notify(Notice::Acquired { token });
        } else {
            ctx.send(ctx.successor(), Msg::Token { entries });
        }
    }

    fn charge(_: &Msg, _: NodeId, _: NodeId) -> Charge {
        Charge::NextEntry
    }
}
