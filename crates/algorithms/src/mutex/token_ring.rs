//! A token goes round a ring of nodes for ever. The node that has it may enter; a node that does
//! not want to passes it on to its successor.
//!
//! There is one token, so at most one node is inside; and the token comes to every node once a
//! round, so no request starves.
//!
//! # Rules
//!
//! 1. Acquire: wait for the token.
//! 2. `Token`: enter if waiting, else send it to the successor.
//! 3. Release: send `Token` to the successor.
//!
//! # Cost
//!
//! The token takes a message per step, N a round, wanted or not. If all nodes always want in:
//! exactly one message and one hop an entry. Alone, a request waits for 1 to N steps, N/2 on
//! average. From one entry to the next it is as many hops as the two nodes are apart.
//!
//! # Known failures
//!
//! The loss of the token, or the crash of any node, stops everything. Order is by place, not by
//! time: a node just ahead of the token enters before one that asked earlier. An idle ring is
//! never quiet.
//!
//! The ring has to have a direction. If nodes may hand the token to either neighbour, two of them
//! can pass it to and fro for ever, and all other nodes starve.

use std::time::Duration;

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{
    Asks, Case, Experiment, Fits, Further, RING_DISTANCES, Run, SIZES, Scope, at,
};
use conclave_protocol::{
    Charge, Ctx, Entry, Links, Model, Never, NodeId, Property, Protocol, Setup, Unfit,
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

/// The only message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// The right to enter, with the number of entries it has given.
    Token {
        /// Entries so far: the fencing token of the latest.
        entries: u64,
    },
}

/// Which node starts with the token, and what is wrong with the rules in a mutant.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    holder: NodeId,
    mutation: Option<Mutation>,
}

/// What is wrong in a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutation {
    /// At nodes with odd ids, rules 2 and 3 send the token to the predecessor.
    EitherWay,
}

impl Config {
    fn new(setup: &Setup, mutation: Option<Mutation>) -> Result<Self, Unfit> {
        at_least_two(setup)?;
        Ok(Self { holder: super::holder(setup)?, mutation })
    }

    fn is(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }
}

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
            // Rule 1.
            (Request::Acquire, _) => {
                ctx.rule(1);
                self.phase = Phase::Waiting;
            }
            // Rule 3.
            (Request::Release, Phase::Inside { token }) => {
                ctx.rule(3);
                self.phase = Phase::Outside;
                pass_on(token, ctx);
            }
            (Request::Release, Phase::Outside | Phase::Waiting) => {}
        }
    }

    /// Rule 2.
    fn on_message(&mut self, _: NodeId, Msg::Token { entries }: Msg, ctx: &mut Ctx<Self>) {
        ctx.rule(2);
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
    let back = ctx.config.is(Mutation::EitherWay) && ctx.me.0 % 2 == 1;
    let to = if back { NodeId(ctx.me.0 - 1) } else { ctx.successor() };
    ctx.send(to, Msg::Token { entries });
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

const REVOLUTIONS: Further =
    &[&[("N", 2), ("R", 1)], &[("N", 7), ("R", 10)], &[("N", 30), ("R", 4)]];

/// The perpetual token.
pub static PLAIN: Entry<TokenRing> =
    Entry::new("mutex/token-ring", "Token ring", |setup| Config::new(setup, None))
        .summary("a token circles for ever; who has it may enter")
        .source("Le Lann. Distributed systems: towards a formal approach. IFIP Congress, 1977")
        .text(include_str!("token_ring.rs"))
        .model(Model { links: Links::Ring, ..Model::RELIABLE })
        .holds(LOCK)
        .fails(&[(
            Property::FcfsHappenedBefore,
            "p3 asks and tells p1, which asks too; the token, at p0, reaches p1 first",
        )])
        .options(&[super::HOLDER])
        .claims(&[
            Check::new(3, LOCK).requests(2),
            Check::new(4, LOCK).requests(2),
            Check::new(4, &[Property::FcfsHappenedBefore]).talking().fails(4),
        ])
        .deep(&[Check::new(5, LOCK).requests(2)])
        .cases(&[
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
        ]);

/// Each node has a favourite neighbour, and not always the next one. A node needs its link to the
/// predecessor, too.
pub static BIDIRECTIONAL: Entry<TokenRing> = PLAIN
    .variant("mutex/token-ring-bidirectional", "Token ring without direction")
    .summary("odd nodes hand the token back, even ones onwards: two neighbours keep it")
    .model(Model::RELIABLE)
    .mutant(
        "mutex/token-ring",
        "rules 2 and 3 send the token to either neighbour",
        Property::NoStarvation,
    )
    .holds(SAFE)
    .fails(&[(Property::NoStarvation, "p0 and p1 pass the token to and fro; p2 never sees it")])
    .config(|setup| Config::new(setup, Some(Mutation::EitherWay)))
    .claims(&[
        Check::new(3, SAFE).requests(2),
        Check::new(4, SAFE).requests(2),
        Check::new(3, &[Property::NoStarvation]).loops(3, 1),
    ]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect};

    use super::*;

    #[test]
    fn the_token_passes_a_node_that_does_not_wait_and_rests_at_one_that_does_until_it_leaves() {
        let mut bench = Bench::complete(&PLAIN, 3);
        let token = |entries| Msg::Token { entries };
        assert_eq!(bench.at(0).booted(), [Effect::Send { to: NodeId(1), msg: token(0) }]);
        let passed_on = bench.at(1).message(0, token(0));
        assert_eq!(passed_on, [Effect::Send { to: NodeId(2), msg: token(0) }]);
        assert_eq!(bench.at(2).request(Request::Acquire), []);
        let entered = bench.at(2).message(1, token(0));
        assert_eq!(entered, [Effect::Notify(Notice::Acquired { token: 1 })]);
        let left = bench.at(2).request(Request::Release);
        assert_eq!(left, [Effect::Send { to: NodeId(0), msg: token(1) }]);
    }

    #[test]
    fn without_direction_an_odd_node_hands_the_token_back() {
        let mut bench = Bench::complete(&BIDIRECTIONAL, 3);
        let token = Msg::Token { entries: 0 };
        assert_eq!(bench.at(1).message(0, token), [Effect::Send { to: NodeId(0), msg: token }]);
    }
}
