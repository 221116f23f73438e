//! On a ring that leads one way, a node that calls an election sends its id to the next node. Every
//! node passes on the higher of the id that comes by and its own, and swallows what is lower once its
//! own or something higher is on its way. The id that comes back to its owner has met no higher one:
//! its owner leads, and says so in a second round.
//!
//! The highest node lets no other id pass, so only its own goes all the way round. No node swallows
//! it, so it does; and links keep their order, so every lower id is dead by the time it is back.
//! Nodes compare attribute and id, in this order, and know only their own: equal attributes are no
//! reason for two to win. Every message carries a counter; the winner leads in a term beyond all it
//! has seen.
//!
//! # Rules
//!
//! 1. The application calls: unless a participant, become one and send `Election` with one's own
//!    rank to the successor.
//! 2. `Election` with a higher rank than one's own: become a participant and pass it on. With a lower
//!    one: unless a participant, become one and send `Election` with one's own rank; a participant
//!    swallows it. With one's own: lead, no participant any more, and send `Elected`.
//! 3. `Elected`: be no participant any more, follow the winner unless its term is an old one, and
//!    pass it on; the winner itself swallows it.
//! 4. Repaired ring (`election/chang-roberts-repaired`): the successor is the next node that is not
//!    suspected. If the leader is suspected, run rule 1.
//!
//! # Cost
//!
//! One caller, d hops before the best node: exactly d + 2N messages and hops, d + N `Election` and N
//! `Elected`; at best 2N, at worst 3N − 1, and 2N + (N − 1)/2 on average. If all N call at once:
//! N(N + 1)/2 + N if ranks fall in the direction of the ring, 3N − 1 if they rise; in random order
//! N · H(N) `Election` on average. Each message holds one rank.
//!
//! # Known failures
//!
//! It survives no crash. If the best node dies while its id is on its way, that id is lost with it,
//! and all others wait for ever. If the ring is repaired, it is worse: the id goes round for ever,
//! for the node that would recognise it as its own is dead.
//!
//! Bare attributes (`election/by-attribute-bare`) make the rule "my own is back, so I have won" wrong:
//! of two nodes with the same attribute, each takes the other's for its own, and both lead.

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{
    About, Case, Experiment, Fits, Further, Given, SIZES, Seen, Values,
};
use conclave_protocol::{
    Crashes, Ctx, Detector, Entry, Links, Model, Never, NodeId, NodeSet, Property, Protocol, Rank,
    Ranks, Setup, Stamp, Unfit,
};
use serde::{Deserialize, Serialize};

use super::{LEADER, LEADERS, Notice, Request};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ChangRoberts {
    /// Its own rank, or a higher one that it has passed on, is on its way.
    participant: bool,
    /// Whom this node follows, and the term in which that node leads.
    leader: Option<Stamp>,
    /// The highest counter used or seen.
    counter: u64,
    /// On a repaired ring, whom the failure detector suspects.
    suspected: NodeSet,
}

/// What nodes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// The best on the way so far.
    Election {
        /// Its rank.
        best: Rank,
        /// The highest counter on the way so far.
        epoch: u64,
    },
    /// This node has won.
    Elected {
        /// The winner's rank.
        best: Rank,
        /// The counter of its term.
        epoch: u64,
    },
}

/// How good a leader each node is, and the variant.
#[derive(Clone, Debug)]
pub struct Config {
    ranks: Ranks,
    /// Rule 4.
    repaired: bool,
    mutation: Option<Mutation>,
}

/// What is wrong in a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutation {
    /// Rules 2 and 3 take equal attributes for one's own rank.
    NoIds,
}

impl Config {
    fn new(setup: &Setup) -> Result<Self, Unfit> {
        Ok(Self { ranks: setup.ranks()?, repaired: false, mutation: None })
    }

    fn is(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }
}

impl Protocol for ChangRoberts {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Never;
    type Stable = Never;

    fn start(_: Option<Never>, _: &mut Ctx<Self>) -> Self {
        Self { participant: false, leader: None, counter: 0, suspected: NodeSet::new() }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            // Rule 1.
            Request::Campaign => {
                ctx.rule(1);
                self.take_part(ctx);
            }
        }
    }

    fn on_message(&mut self, _: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            // Rule 2.
            Msg::Election { best, epoch } => {
                ctx.rule(2);
                self.counter = self.counter.max(epoch);
                if Self::is_own(best, ctx) {
                    self.participant = false;
                    self.counter += 1;
                    self.follow(Stamp { time: self.counter, node: ctx.me }, ctx);
                    self.pass_on(Msg::Elected { best, epoch: self.counter }, ctx);
                } else if best > ctx.config.ranks.of(ctx.me) {
                    self.participant = true;
                    self.pass_on(Msg::Election { best, epoch: self.counter }, ctx);
                } else {
                    self.take_part(ctx);
                }
            }
            // Rule 3.
            Msg::Elected { best, epoch } => {
                ctx.rule(3);
                if Self::is_own(best, ctx) {
                    return;
                }
                self.counter = self.counter.max(epoch);
                self.participant = false;
                self.follow(Stamp { time: epoch, node: best.node }, ctx);
                self.pass_on(msg, ctx);
            }
        }
    }

    /// Rule 4.
    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        if !ctx.config.repaired {
            return;
        }
        ctx.rule(4);
        self.suspected.insert(peer);
        if self.leader.is_some_and(|term| term.node == peer) {
            ctx.rule(1);
            self.take_part(ctx);
        }
    }
}

impl ChangRoberts {
    /// Becomes a participant, unless it is one.
    fn take_part(&mut self, ctx: &mut Ctx<Self>) {
        if self.participant {
            return;
        }
        self.participant = true;
        let best = ctx.config.ranks.of(ctx.me);
        self.pass_on(Msg::Election { best, epoch: self.counter }, ctx);
    }

    fn pass_on(&self, msg: Msg, ctx: &mut Ctx<Self>) {
        let mut next = ctx.successor();
        while next != ctx.me && self.suspected.contains(next) {
            ctx.rule(4);
            next = ctx.topology.successor(next);
        }
        let (Msg::Election { best, .. } | Msg::Elected { best, .. }) = msg;
        // To the last one alive, what a dead node has sent would come back within the same step,
        // again and again.
        if next != ctx.me || Self::is_own(best, ctx) {
            ctx.send(next, msg);
        }
    }

    fn follow(&mut self, epoch: Stamp, ctx: &mut Ctx<Self>) {
        if self.leader.is_none_or(|term| term < epoch) {
            self.leader = Some(epoch);
            ctx.notify(Notice::Elected { leader: epoch.node, epoch: epoch.token() });
        }
    }

    fn is_own(best: Rank, ctx: &Ctx<Self>) -> bool {
        let own = ctx.config.ranks.of(ctx.me);
        if ctx.config.is(Mutation::NoIds) { best.attribute == own.attribute } else { best == own }
    }
}

const RING_CALLERS: Further = &[
    &[("N", 2), ("d", 0)],
    &[("N", 3), ("d", 1)],
    &[("N", 20), ("d", 7)],
    &[("N", 40), ("d", 39)],
];
const FEW: Further = &[&[("N", 2)], &[("N", 3)], &[("N", 5)]];
/// One node calls, so far from the best.
const FROM_ONE: Fits = Fits {
    about: About::Election,
    when: |seen| {
        let (first, setup) = (seen.only_call()?, &seen.run.setup);
        let best = Ranks::new(&setup.attributes).best(setup.topology.nodes())?;
        Some(vec![("d", u64::from((best.0 + seen.n() - first.0) % seen.n()))])
    },
};
const RISING: Fits = Fits { about: About::Election, when: |seen| all_call(seen, |a, b| a < b) };
const FALLING: Fits = Fits {
    about: About::Election,
    // Without attributes ids count, and they rise.
    when: |seen| all_call(seen, |a, b| a > b).filter(|_| !seen.run.setup.attributes.is_empty()),
};

/// Whether all nodes call, and attributes go round the ring so.
fn all_call(seen: &Seen<'_>, so: fn(u64, u64) -> bool) -> Option<Values> {
    let calls = seen.calls().filter(|calls| !calls.top_is_dead)?;
    let attributes = &seen.run.setup.attributes;
    let ordered = attributes.windows(2).all(|pair| so(pair[0], pair[1]));
    (calls.count > 1 && calls.count == u64::from(seen.n()) && ordered).then(Vec::new)
}

/// A run for every order that attributes can have on the ring.
fn all_call_in_every_order(given: &Given) -> Vec<Experiment> {
    let mut orders = vec![Vec::new()];
    for next in 0..u64::from(given.n("N")) {
        let longer = orders.iter().flat_map(|order: &Vec<u64>| {
            (0..=order.len()).map(move |place| {
                let (before, after) = order.split_at(place);
                [before, &[next], after].concat()
            })
        });
        orders = longer.collect();
    }
    let of = |order: Vec<u64>| given.all_call(given.ring().with_attributes(order));
    let each = orders.into_iter().flat_map(of);
    let all = each.reduce(|mut all, each| {
        all.runs.extend(each.runs);
        all
    });
    all.into_iter().collect()
}

/// The algorithm as published.
pub static PLAIN: Entry<ChangRoberts> =
    Entry::new("election/chang-roberts", "Chang–Roberts", Config::new)
        .summary("the highest id on the ring swallows all others, and comes back to its owner")
        .source(
            "Chang, Roberts. An improved algorithm for decentralized extrema-finding in circular \
             configurations of processes. CACM 22(5), 1979",
        )
        .text(include_str!("chang_roberts.rs"))
        .model(Model { links: Links::Ring, ..Model::FIFO })
        .holds(LEADERS)
        .claims(&[
            Check::new(3, LEADERS),
            Check::new(4, LEADERS),
            // Beyond its model: the best node dies, and its id with it.
            Check::new(3, &[Property::LeaderKnown]).crashes(1).fails(4),
        ])
        .deep(&[Check::new(3, LEADERS).requests(2), Check::new(5, LEADERS)])
        .cases(&[
            Case::new("single-initiator", RING_CALLERS, |given| {
                vec![given.planned(given.ring(), &[(given.n("N") - 1 - given.n("d"), 10)]).whole()]
            })
            .counts(&[("election_messages", "Election"), ("elected_messages", "Elected")])
            .fits(&[FROM_ONE]),
            Case::new("all-start-descending", SIZES, |given| {
                let falling: Vec<u64> = (0..u64::from(given.n("N"))).rev().collect();
                given.all_call(given.ring().with_attributes(falling))
            })
            .fits(&[FALLING]),
            Case::new("all-start-ascending", SIZES, |given| given.all_call(given.ring()))
                .fits(&[RISING]),
            Case::new("average-all-start", FEW, all_call_in_every_order)
                .counts(&[("election_messages_mean", "Election")]),
        ]);

/// The same on a ring that closes again around crashed nodes.
pub static REPAIRED: Entry<ChangRoberts> = PLAIN
    .variant("election/chang-roberts-repaired", "Chang–Roberts on a repaired ring")
    .summary("dead successors are skipped, and the id of a dead node goes round for ever")
    .model(Model {
        crashes: Crashes::Stop,
        detector: Detector::Perfect,
        links: Links::Complete,
        ..Model::FIFO
    })
    .holds(&[Property::OneLeader, Property::OneLeaderPerEpoch])
    .fails(&[
        (
            Property::LeaderKnown,
            "the best node dies after its id has passed the first hop: no node knows it for its \
             own, and it goes round for ever",
        ),
        (
            Property::BestLeads,
            "the winner dies while it is announced: who has heard of its death before follows it",
        ),
    ])
    .config(|setup| Ok(Config { repaired: true, ..Config::new(setup)? }))
    .claims(&[
        Check::new(3, &[Property::OneLeader, Property::OneLeaderPerEpoch]).crashes(1),
        Check::new(3, LEADER),
        Check::new(3, &[Property::LeaderKnown]).crashes(1).fails(6),
        Check::new(3, &[Property::BestLeads]).crashes(1).fails(11),
    ])
    .deep(&[Check::new(4, &[Property::OneLeader, Property::OneLeaderPerEpoch]).crashes(1)]);

/// The best attribute leads; ids decide between equals.
pub static BY_ATTRIBUTE: Entry<ChangRoberts> = PLAIN
    .variant("election/by-attribute", "Election by attribute")
    .summary("attribute first and then id, wherever an id was compared")
    .claims(&[Check::new(3, LEADERS), Check::new(4, LEADERS)])
    .cases(&[Case::of("election/chang-roberts", "single-initiator").fits(&[FROM_ONE])]);

/// Attributes without ids.
pub static BARE: Entry<ChangRoberts> = PLAIN
    .variant("election/by-attribute-bare", "Election by attribute alone")
    .summary("who sees its own attribute takes itself for the winner")
    .mutant(
        "election/by-attribute",
        "rules 2 and 3 compare attributes and no ids",
        Property::OneLeader,
    )
    .config(|setup| Ok(Config { mutation: Some(Mutation::NoIds), ..Config::new(setup)? }))
    .claims(&[
        Check::new(2, &[Property::OneLeader]).fails(6),
        Check::new(3, &[Property::OneLeader]).fails(9),
    ]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect, Topology};

    use super::*;

    #[test]
    fn a_participant_swallows_a_lower_id_and_passes_on_a_higher_one() {
        let mut bench = Bench::new(&PLAIN, &Setup::new(Topology::ring(3)));
        let election = |node| {
            let best = Rank { attribute: 0, node: NodeId(node) };
            Msg::Election { best, epoch: 0 }
        };
        let to_next = |msg| [Effect::Send { to: NodeId(2), msg }];
        assert_eq!(bench.at(1).request(Request::Campaign), to_next(election(1)));
        assert_eq!(bench.at(1).message(0, election(0)), []);
        assert_eq!(bench.at(1).message(0, election(2)), to_next(election(2)));
        assert_eq!(bench.at(1).rules(), [2]);
    }

    #[test]
    fn a_node_whose_own_id_is_back_leads_in_a_new_term() {
        let mut bench = Bench::new(&PLAIN, &Setup::new(Topology::ring(3)));
        let best = Rank { attribute: 0, node: NodeId(2) };
        let won = bench.at(2).message(1, Msg::Election { best, epoch: 3 });
        let epoch = Stamp { time: 4, node: NodeId(2) }.token();
        let elected = Effect::Send { to: NodeId(0), msg: Msg::Elected { best, epoch: 4 } };
        let leads = Effect::Notify(Notice::Elected { leader: NodeId(2), epoch });
        assert_eq!(won, [leads, elected]);
    }
}
