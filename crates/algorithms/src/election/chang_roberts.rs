//! On a ring that leads one way, whoever calls an election sends its id to the next node. Everybody
//! passes on the higher of the id that comes by and its own, and swallows what is lower once its own
//! or something higher is on its way. The id that comes back to its owner has met nobody higher: its
//! owner leads, and says so in a second round.
//!
//! The highest node lets no other id pass, so only its own goes all the way round. Nobody swallows
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
//! for there is nobody left to recognise it as its own.
//!
//! Bare attributes (`election/by-attribute-bare`) make the rule "my own is back, so I have won" wrong:
//! of two nodes with the same attribute, each takes the other's for its own, and both lead.

use conclave_protocol::{
    Crashes, Ctx, Detector, Entry, Info, Links, Model, Mutant, Never, NodeId, NodeSet, Property,
    Protocol, Rank, Ranks, Setup, Stamp, Unfit,
};
use serde::{Deserialize, Serialize};

use super::{Notice, Request};

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

/// How good a leader each node is, and the variant.
#[derive(Clone, Debug)]
pub struct Config {
    ranks: Ranks,
    /// Rule 4.
    repaired: bool,
    /// Equal attributes are taken for one's own.
    bare: bool,
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
    /// Somebody has won.
    Elected {
        /// The winner's rank.
        best: Rank,
        /// The counter of its term.
        epoch: u64,
    },
}

/// The algorithm as published.
pub static PLAIN: Entry<ChangRoberts> = Entry {
    info: Info {
        id: "election/chang-roberts",
        title: "Chang–Roberts",
        summary: "the highest id on the ring swallows all others, and comes back to its owner",
        source: "Chang, Roberts. An improved algorithm for decentralized extrema-finding in \
                 circular configurations of processes. CACM 22(5), 1979",
        text: include_str!("chang_roberts.rs"),
        model: Model { links: Links::Ring, ..Model::FIFO },
        holds: &[
            Property::OneLeader,
            Property::OneLeaderPerEpoch,
            Property::LeaderKnown,
            Property::BestLeads,
        ],
        fails: &[],
        options: &[],
        mutant: None,
    },
    config: |setup| config(setup, false, false),
    clients: Entry::<ChangRoberts>::everyone,
};

/// The same on a ring that closes again around crashed nodes.
pub static REPAIRED: Entry<ChangRoberts> = Entry {
    info: Info {
        id: "election/chang-roberts-repaired",
        title: "Chang–Roberts on a repaired ring",
        summary: "dead successors are skipped, and the id of a dead node goes round for ever",
        model: Model {
            crashes: Crashes::Stop,
            detector: Detector::Perfect,
            links: Links::Complete,
            ..Model::FIFO
        },
        holds: &[Property::OneLeader, Property::OneLeaderPerEpoch],
        fails: &[
            (
                Property::LeaderKnown,
                "the best node dies after its id has passed the first hop: nobody knows it for its \
                 own, and it goes round for ever",
            ),
            (
                Property::BestLeads,
                "the winner dies while it is announced: who has heard of its death before follows it",
            ),
        ],
        ..PLAIN.info
    },
    config: |setup| config(setup, true, false),
    ..PLAIN
};

/// The best attribute leads; ids decide between equals.
pub static BY_ATTRIBUTE: Entry<ChangRoberts> = Entry {
    info: Info {
        id: "election/by-attribute",
        title: "Election by attribute",
        summary: "attribute first and then id, wherever an id was compared",
        ..PLAIN.info
    },
    ..PLAIN
};

/// Attributes without ids.
pub static BARE: Entry<ChangRoberts> = Entry {
    info: Info {
        id: "election/by-attribute-bare",
        title: "Election by attribute alone",
        summary: "who sees its own attribute takes itself for the winner",
        holds: &[],
        fails: &[],
        mutant: Some(Mutant {
            of: "election/by-attribute",
            defect: "rules 2 and 3 compare attributes and no ids",
            breaks: Property::OneLeader,
        }),
        ..PLAIN.info
    },
    config: |setup| config(setup, false, true),
    ..PLAIN
};

fn config(setup: &Setup, repaired: bool, bare: bool) -> Result<Config, Unfit> {
    Ok(Config { ranks: setup.ranks()?, repaired, bare })
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
            Request::Campaign => self.take_part(ctx),
        }
    }

    fn on_message(&mut self, _: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            Msg::Election { best, epoch } => {
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
            Msg::Elected { best, epoch } => {
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

    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        if !ctx.config.repaired {
            return;
        }
        self.suspected.insert(peer);
        if self.leader.is_some_and(|term| term.node == peer) {
            self.take_part(ctx);
        }
    }
}

impl ChangRoberts {
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
        if ctx.config.bare { best.attribute == own.attribute } else { best == own }
    }
}
