//! Each node has a set of voters, and any two sets share one. A node that wants the critical
//! section asks its own set, itself included, and enters when all have voted for it. A voter
//! votes for one node at a time, and for the next when that one has left.
//!
//! Two nodes cannot both be inside: the voter they share has one vote, and gets it back only when
//! the node voted for leaves. The vote is the only lock. A node that votes for itself has given its
//! vote away like any other, which is why a node asks itself too.
//!
//! Requests are numbered by a logical clock. The number tells a vote for this request from a vote
//! for the last; which is older plays no part. A voter passes on the highest fencing token that it
//! has heard of with its vote; the entrant takes one more, and leaves that with its voters.
//!
//! # Rules
//!
//! 1. Acquire: send `Request` to every voter, oneself included.
//! 2. Voter, on `Request`: if the vote is free, give it, with `Reply`; else put the request at the
//!    end of the queue.
//! 3. `Reply`: enter when every voter has replied.
//! 4. Release: send `Release` to every voter, oneself included.
//! 5. Voter, on `Release` from the node voted for: vote for the first in the queue, if any.
//!
//! # Cost
//!
//! With sets of K voters, itself included, a lone entry takes exactly 3(K − 1) messages: 2(K − 1)
//! to enter, in two hops, and K − 1 to leave. From one to the next it is two hops if the voter they
//! share is a third node, and one if it is one of the two. K is about √N, so this is fewer than the
//! 2(N − 1) of asking every other node from five nodes on.
//!
//! # Known failures
//!
//! It deadlocks: three nodes that ask at once can each have one vote and wait for another's.
//! Voting in the order of timestamps does not help, since a vote once given is not taken back
//! (`mutex/maekawa-ts-queue`); `mutex/maekawa-sanders` takes it back. A crashed voter blocks the
//! nodes whose sets contain it, and no others. A crash inside the critical section, or the loss of
//! one message, blocks every node that needs the votes concerned. A node that does not ask itself
//! lets others in beside it (`mutex/maekawa-literal-003`).

use std::collections::VecDeque;

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{Case, Experiment, Fits, Further, Given};
use conclave_protocol::{
    Charge, Ctx, Entry, Lamport, Model, Never, NodeId, NodeSet, Property, Protocol, Setup, Stamp,
    Topology, Unfit,
};
use serde::{Deserialize, Serialize};

use super::{NO_STAMPS, Notice, Request, SAFE};
use crate::quorum::{self, Quorums};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Maekawa {
    clock: Lamport,
    phase: Phase,
    /// As a voter: the request that has our vote.
    voted_for: Option<Stamp>,
    /// As a voter: requests that wait for it.
    queue: VecDeque<Stamp>,
    /// As a voter: the highest fencing token heard of.
    highest: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Phase {
    Outside,
    Waiting { asked: Stamp, missing: NodeSet, highest: u64 },
    Inside { asked: Stamp, token: u64 },
}

/// What nodes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// Will you vote for me?
    Request {
        /// The request.
        asked: Stamp,
    },
    /// I vote for you.
    Reply {
        /// The request voted for.
        asked: Stamp,
        /// The highest fencing token the voter knows.
        highest: u64,
    },
    /// I have left.
    Release {
        /// The request that is over.
        asked: Stamp,
        /// The fencing token it got.
        token: u64,
    },
}

/// Which nodes vote for which, and what is wrong with the rules in a mutant.
#[derive(Clone, Debug)]
pub struct Config {
    quorums: Quorums,
    mutation: Option<Mutation>,
}

/// What is wrong in a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutation {
    /// Rule 1 does not ask the node itself; instead, rule 2 does not vote while inside.
    OwnVoteFree,
    /// Rule 2 keeps the queue in the order of timestamps.
    OldestFirst,
}

impl Config {
    fn is(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }
}

impl Protocol for Maekawa {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Never;
    type Stable = Never;

    fn start(_: Option<Never>, _: &mut Ctx<Self>) -> Self {
        Self {
            clock: Lamport::default(),
            phase: Phase::Outside,
            voted_for: None,
            queue: VecDeque::new(),
            highest: 0,
        }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match (request, &self.phase) {
            // Rule 1.
            (Request::Acquire, _) => {
                ctx.rule(1);
                let asked = self.clock.tick(ctx.me);
                let voters = voters(ctx);
                ctx.multicast(voters.iter(), Msg::Request { asked });
                self.phase = Phase::Waiting { asked, missing: voters, highest: 0 };
                self.enter_if_all_voted(ctx);
            }
            // Rule 4.
            (Request::Release, &Phase::Inside { asked, token }) => {
                ctx.rule(4);
                self.phase = Phase::Outside;
                ctx.multicast(voters(ctx).iter(), Msg::Release { asked, token });
            }
            (Request::Release, Phase::Outside | Phase::Waiting { .. }) => {}
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            // Rule 2.
            Msg::Request { asked } => {
                ctx.rule(2);
                self.clock.observe(asked);
                let inside = matches!(self.phase, Phase::Inside { .. });
                if self.voted_for.is_none() && !(ctx.config.is(Mutation::OwnVoteFree) && inside) {
                    self.vote(asked, ctx);
                } else {
                    self.queue.push_back(asked);
                    if ctx.config.is(Mutation::OldestFirst) {
                        self.queue.make_contiguous().sort_unstable();
                    }
                }
            }
            // Rule 3.
            Msg::Reply { asked, highest } => {
                if let Phase::Waiting { asked: mine, missing, highest: known } = &mut self.phase
                    && *mine == asked
                {
                    ctx.rule(3);
                    missing.remove(from);
                    *known = highest.max(*known);
                    self.enter_if_all_voted(ctx);
                }
            }
            // Rule 5.
            Msg::Release { asked, token } => {
                if self.voted_for == Some(asked) {
                    ctx.rule(5);
                    self.highest = token.max(self.highest);
                    self.voted_for = None;
                    if let Some(next) = self.queue.pop_front() {
                        self.vote(next, ctx);
                    }
                }
            }
        }
    }

    fn waits_for(&self, me: NodeId, _: &Config) -> NodeSet {
        let Phase::Waiting { asked, missing, .. } = &self.phase else { return NodeSet::new() };
        let mut waits = missing.clone();
        if waits.remove(me) {
            // Our own vote comes when those have left who get it before us.
            let first = self.queue.iter().take_while(|request| *request != asked);
            waits.extend(self.voted_for.iter().chain(first).map(|request| request.node));
        }
        waits
    }

    fn charge(msg: &Msg, _: NodeId, _: NodeId) -> Charge {
        match msg {
            Msg::Request { .. } | Msg::Release { .. } => Charge::Sender,
            Msg::Reply { .. } => Charge::Receiver,
        }
    }
}

impl Maekawa {
    fn vote(&mut self, asked: Stamp, ctx: &mut Ctx<Self>) {
        self.voted_for = Some(asked);
        ctx.send(asked.node, Msg::Reply { asked, highest: self.highest });
    }

    fn enter_if_all_voted(&mut self, ctx: &mut Ctx<Self>) {
        if let Phase::Waiting { asked, missing, highest } = &self.phase
            && missing.is_empty()
        {
            let (asked, token) = (*asked, highest + 1);
            self.phase = Phase::Inside { asked, token };
            ctx.notify(Notice::Acquired { token });
        }
    }
}

/// The nodes that this one asks.
fn voters(ctx: &Ctx<Maekawa>) -> NodeSet {
    let mut voters = ctx.config.quorums.of(ctx.me);
    if ctx.config.is(Mutation::OwnVoteFree) {
        voters.remove(ctx.me);
    }
    voters
}

const PLANES: Further = &[
    &[("N", 21), ("K", 5)],
    &[("N", 31), ("K", 6)],
    &[("N", 57), ("K", 8)],
    &[("N", 73), ("K", 9)],
];
const SQUARES: Further = &[&[("N", 25), ("s", 5)], &[("N", 36), ("s", 6)], &[("N", 81), ("s", 9)]];

/// Point 1 of the Fano plane is inside, and the given node waits.
fn handover_of_voters(given: &Given, waiter: u32) -> Vec<Experiment> {
    let fano = Setup::new(Topology::complete(7)).with("quorum", "projective-plane");
    vec![given.together(fano, &[(0, 0), (waiter, 10)])]
}

/// The basic algorithm.
pub static PLAIN: Entry<Maekawa> = Entry::new("mutex/maekawa", "Maekawa's voting", config)
    .summary("ask a set of about √N voters that meets every other's; can deadlock")
    .source(
        "Maekawa. A √N algorithm for mutual exclusion in decentralized systems. ACM TOCS 3(2), \
         1985",
    )
    .text(include_str!("maekawa.rs"))
    .model(Model::FIFO)
    .holds(SAFE)
    .fails(&[
        (
            Property::NoDeadlock,
            "three nodes ask at once; each votes for itself and waits for the next",
        ),
        (
            Property::NoStarvation,
            "three nodes ask at once; each votes for itself and waits for the next",
        ),
        (
            Property::FcfsHappenedBefore,
            "a request that is slow to reach the shared voter comes second there",
        ),
        (
            Property::FcfsTimestamp,
            "a request that is slow to reach the shared voter comes second there",
        ),
    ])
    .options(&[quorum::QUORUM])
    .claims(&[
        Check::new(3, SAFE).requests(2),
        Check::new(4, SAFE),
        Check::new(3, &[Property::NoDeadlock]).fails(6),
        Check::new(3, &[Property::NoStarvation]).fails(6),
        Check::new(4, &[Property::FcfsHappenedBefore]).fails(21),
        Check::unchecked(&[Property::FcfsTimestamp], NO_STAMPS),
    ])
    .cases(&[
        Case::new("idle-projective", PLANES, |given| {
            given.lone_each(given.complete().with("quorum", "projective-plane"), 0..given.n("N"))
        })
        .fits(&[Fits::LONE]),
        Case::new("idle-grid", SQUARES, |given| {
            given.lone_each(given.complete().with("quorum", "grid"), 0..given.n("N"))
        }),
        // The Fano plane of the theory counts its points from one.
        Case::new("handover-third-party-voter", &[], |given| handover_of_voters(given, 4)),
        Case::new("handover-own-voter", &[], |given| handover_of_voters(given, 3)),
    ]);

fn config(setup: &Setup) -> Result<Config, Unfit> {
    Ok(Config { quorums: quorum::chosen(setup)?, mutation: None })
}

fn spoilt(setup: &Setup, mutation: Mutation) -> Result<Config, Unfit> {
    Ok(Config { mutation: Some(mutation), ..config(setup)? })
}

/// A node does not ask itself.
pub static LITERAL_003: Entry<Maekawa> = PLAIN
    .variant("mutex/maekawa-literal-003", "Maekawa's voting, own vote not taken")
    .summary("nodes ask only others; a node that merely waits still votes for another")
    .mutant(
        "mutex/maekawa",
        "a node asks all voters but itself, so a set that it shares only in itself protects \
         nothing; and what it queues while inside is never served",
        Property::Exclusion,
    )
    .config(|setup| spoilt(setup, Mutation::OwnVoteFree))
    .claims(&[
        Check::new(2, &[Property::Exclusion]).fails(6),
        Check::new(3, &[Property::NoDeadlock]).fails(7),
        Check::new(3, &[Property::NoStarvation]).fails(7),
        Check::new(3, &[Property::FcfsHappenedBefore]).fails(5),
        Check::unchecked(&[Property::FcfsTimestamp], NO_STAMPS),
    ]);

/// Voters keep their queues in the order of timestamps.
pub static TS_QUEUE: Entry<Maekawa> = PLAIN
    .variant("mutex/maekawa-ts-queue", "Maekawa's voting, oldest first")
    .summary("voters serve the oldest waiting request first; that does not stop deadlock")
    .mutant(
        "mutex/maekawa-sanders",
        "queues are ordered by timestamp, but a vote given to a younger request is not taken back",
        Property::NoDeadlock,
    )
    .holds(SAFE)
    .config(|setup| spoilt(setup, Mutation::OldestFirst))
    .claims(&[
        Check::new(3, SAFE).requests(2),
        Check::new(4, SAFE),
        Check::new(3, &[Property::NoDeadlock]).fails(6),
        Check::new(3, &[Property::NoStarvation]).fails(6),
        Check::new(4, &[Property::FcfsHappenedBefore]).fails(15),
        Check::unchecked(&[Property::FcfsTimestamp], NO_STAMPS),
    ]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect};

    use super::*;

    #[test]
    fn a_voter_has_one_vote_and_passes_it_on_when_it_comes_back() {
        let mut bench = Bench::complete(&PLAIN, 7);
        let [first, second] = [1, 3].map(|node| Stamp { time: 1, node: NodeId(node) });
        let reply = |asked: Stamp, highest| {
            [Effect::Send { to: asked.node, msg: Msg::Reply { asked, highest } }]
        };
        let voted = bench.at(0).message(1, Msg::Request { asked: first });
        assert_eq!(voted, reply(first, 0));
        assert_eq!(bench.at(0).message(3, Msg::Request { asked: second }), []);
        // Rule 5: the next entrant learns the token that the first entrant got.
        let passed_on = bench.at(0).message(1, Msg::Release { asked: first, token: 4 });
        assert_eq!(passed_on, reply(second, 4));
        assert_eq!(bench.at(0).rules(), [5]);
    }
}
