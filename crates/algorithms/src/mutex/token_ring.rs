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
//! # Cost
//!
//! The token takes a message per step, N a round, wanted or not. If everybody always wants in:
//! exactly one message and one hop an entry. Alone, a request waits for 1 to N steps, N/2 on
//! average. From one to the next it is as many hops as they are apart.
//!
//! # Known failures
//!
//! The loss of the token, or the crash of any node, stops everything. Order is by place, not by
//! time: a node just ahead of the token enters before one that asked earlier. An idle ring is
//! never quiet.
//!
//! The ring has to have a direction. If nodes may hand the token to either neighbour, two of them
//! can pass it to and fro for ever, and everybody else starves.

use std::time::Duration;

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{
    Asks, Case, Experiment, Fits, Further, RING_DISTANCES, Run, SIZES, Scope, at,
};
use conclave_protocol::{
    Charge, Ctx, Entry, Info, Links, Model, Mutant, Never, NodeId, Property, Protocol, Setup, Unfit,
};
use serde::{Deserialize, Serialize};

use super::{LOCK, Notice, Request, SAFE};

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

/// Who starts with the token, and whether the ring has a direction.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    holder: NodeId,
    /// Nodes with odd ids send the token to their predecessor.
    either_way: bool,
}

impl Config {
    fn new(setup: &Setup, either_way: bool) -> Result<Self, Unfit> {
        at_least_two(setup)?;
        Ok(Self { holder: super::holder(setup)?, either_way })
    }
}

/// A token that never rests needs somewhere to go.
pub(crate) fn at_least_two(setup: &Setup) -> Result<(), Unfit> {
    if setup.n() < 2 {
        return Err(Unfit::new("a token that circles needs two nodes or more"));
    }
    Ok(())
}

/// Numbers a token that may have to be made anew: by how many were made before it, and by what has
/// become of it since.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Serial {
    /// Greater for each new token.
    pub epoch: u64,
    /// Grows while the token lives.
    pub seq: u64,
}

impl Serial {
    /// The number after this one, of the same token.
    #[must_use]
    pub fn next(self) -> Self {
        Self { seq: self.seq + 1, ..self }
    }

    /// Both as one number in the same order: a fencing token.
    ///
    /// Room for 2²⁴ epochs of 2⁴⁰ numbers each.
    pub fn token(self) -> u64 {
        self.epoch << 40 | self.seq
    }

    /// The epoch of a fencing token.
    pub fn epoch_of(token: u64) -> u64 {
        token >> 40
    }
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

const REVOLUTIONS: Further =
    &[&[("N", 2), ("R", 1)], &[("N", 7), ("R", 10)], &[("N", 30), ("R", 4)]];

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
        claims: &[
            Check::new(3, LOCK).requests(2),
            Check::new(4, LOCK).requests(2),
            Check::new(4, &[Property::FcfsHappenedBefore]).talking().fails(4),
        ],
        deep: &[Check::new(5, LOCK).requests(2)],
        cases: &[
            Case::new("saturated", SIZES, |given| {
                vec![given.closed_loop(given.ring(), 6, Duration::ZERO).about(Scope::EachEntry)]
            })
            .fits(&[Fits::SATURATED]),
            Case::new("idle-revolutions", REVOLUTIONS, |given| {
                let mut run = Run::new(given.ring(), Asks::Planned(Vec::new()), None);
                run.served = false;
                // The token goes on at every multiple of T.
                run.until = Some(at(given.n("N") * given.n("R") - 1));
                vec![Experiment::of(run)]
            }),
            Case::new("distance-d", RING_DISTANCES, |given| {
                vec![given.together(given.ring(), &[(given.n("d"), 0)]).about(Scope::Entry(0))]
            })
            .fits(&[Fits::ELSEWHERE]),
            Case::new("just-missed", SIZES, |given| {
                vec![given.together(given.ring(), &[(0, 0)]).about(Scope::WhileWaiting)]
            }),
        ],
        ..Info::EMPTY
    },
    config: |setup| Config::new(setup, false),
    clients: Entry::<TokenRing>::everyone,
};

/// Each node has a favourite neighbour, and not always the next one.
pub static BIDIRECTIONAL: Entry<TokenRing> = Entry {
    info: Info {
        id: "mutex/token-ring-bidirectional",
        title: "Token ring without direction",
        summary: "odd nodes hand the token back, even ones onwards: two neighbours keep it",
        // A node needs its link to the predecessor, too.
        model: Model::RELIABLE,
        holds: &[Property::Exclusion, Property::FenceOrder],
        fails: &[(Property::NoStarvation, "p0 and p1 pass the token to and fro; p2 never sees it")],
        mutant: Some(Mutant {
            of: "mutex/token-ring",
            defect: "rules 2 and 3 send the token to either neighbour",
            breaks: Property::NoStarvation,
        }),
        claims: &[
            Check::new(3, SAFE).requests(2),
            Check::new(4, SAFE).requests(2),
            Check::new(3, &[Property::NoStarvation]).loops(3, 1),
        ],
        deep: &[],
        cases: &[],
        ..PLAIN.info
    },
    config: |setup| Config::new(setup, true),
    ..PLAIN
};

impl Protocol for TokenRing {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Never;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        if ctx.me == ctx.config.holder {
            pass_on(0, ctx);
        }
        Self { phase: Phase::Outside }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match (request, self.phase) {
            (Request::Acquire, _) => self.phase = Phase::Waiting,
            (Request::Release, Phase::Inside { token }) => {
                self.phase = Phase::Outside;
                pass_on(token, ctx);
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
            pass_on(entries, ctx);
        }
    }

    fn charge(_: &Msg, _: NodeId, _: NodeId) -> Charge {
        Charge::NextEntry
    }
}

fn pass_on(entries: u64, ctx: &mut Ctx<TokenRing>) {
    let back = ctx.config.either_way && ctx.me.0 % 2 == 1;
    let to = if back { NodeId(ctx.me.0 - 1) } else { ctx.successor() };
    ctx.send(to, Msg::Token { entries });
}
