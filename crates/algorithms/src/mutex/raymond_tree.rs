//! The nodes form a tree. Each knows only in which direction the token is, and keeps a list of the
//! directions, itself among them, from which the token is wanted. Requests climb towards the token
//! and the token comes back along the same edges, turning every edge it passes round.
//!
//! There is one token, so there is one inside. Following the directions always leads to the token,
//! so every request gets there. A list is served in its order and has each direction at most once,
//! so that every neighbour is served once before any is served twice: no request starves.
//!
//! # Rules
//!
//! 1. Acquire: append this node to the list; rule 5.
//! 2. `Request` from x: append x; rule 5.
//! 3. `Token`: it is here now; rule 5.
//! 4. Release: rule 5.
//! 5. (a) If the token is here, this node is not inside and the list is not empty, take its head:
//!    enter if it is this node, otherwise send it `Token`, which is now in that direction. (b) If
//!    the token is elsewhere, the list is not empty and nothing has been asked since the token left,
//!    send `Request` towards it. So a request follows the token when it leaves a node where others
//!    wait: it does not come back by itself, but stays with its last user.
//!
//! `mutex/raymond-tree-restart` adds what a node does that comes back after a crash. It has kept
//! only the number of entries it knew of. It promises nothing about crashes in general, since a node
//! that stays away stops all others; but it survives restarts one at a time, each over, reports
//! included, before the next crash.
//!
//! 6. Restart: send `Restarted` to every neighbour and, until all have reported, only collect: lists
//!    are appended to, a token is kept.
//! 7. `Restarted` from x: send `Report`: whether the token is in the direction of x, whether x has
//!    been asked for it, whether x is on the list, and the number of entries known.
//! 8. `Report` from y: if the token is not in our direction, it is in that of y, and asked for if we
//!    are on the list of y. If it is and y has asked, append y. When the last has reported and none
//!    has the token in its direction, it was lost with us: make a new one, which goes on counting
//!    from the highest number reported or kept. Rule 5.
//!
//! # Cost
//!
//! A lone request at distance d from the token takes exactly 2d messages and 2d hops; leaving costs
//! nothing. So an entry takes at most twice the diameter: 2(N − 1) on a line, 4 on a star. All at
//! once: 2(N − 1) for all N on a line with the token at its end, 4(N − 1) − 2 on a star with the
//! token in the middle. If every node requests again as soon as it has left, about 4 an entry. From
//! one to the next it is as many hops as lie between them.
//!
//! A restart takes two messages per neighbour.
//!
//! # Known failures
//!
//! A lost token, or the crash of its holder, stops all nodes; the crash of an inner node splits the
//! tree. Order is by place and not by time: the holder enters again while the request that follows
//! the token is under way. A restart needs FIFO channels, for the reports to come after the messages
//! sent before the crash, and stable storage for the number of entries; two neighbours down at once
//! wait for each other's report for ever.
//!
//! `mutex/tree-greedy` serves its own sub-tree before its parent: two nodes of one sub-tree that
//! keep asking starve all nodes outside it.

use std::collections::VecDeque;

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{Case, DISTANCES, Fits, Further, SIZES};
use conclave_protocol::{
    BoundedCounter, Channels, Charge, Ctx, Entry, Links, Model, Never, NodeId, NodeSet, Property,
    Protocol, Setup, Topology, Unfit,
};
use serde::{Deserialize, Serialize};

use super::{ALIKE, FREE, HOLDER, LIVE, LOCK, Notice, Request};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RaymondTree {
    /// The neighbour in whose direction the token is, or this node if it is here.
    holder: NodeId,
    /// The directions from which the token is wanted: neighbours and this node, each at most once.
    wanted_by: VecDeque<NodeId>,
    /// Whether `holder` has been asked for the token.
    asked: bool,
    inside: bool,
    /// How many entries the token has given, as far as this node knows.
    entries: u64,
    /// After a restart: the neighbours that have not reported.
    missing: NodeSet,
}

/// What neighbours send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// The token is wanted here.
    Request,
    /// The right to enter, with the number of entries it has given.
    Token {
        /// Entries so far: the fencing token of the latest.
        entries: u64,
    },
    /// I have restarted and know nothing: where is the token, and what have we asked?
    Restarted,
    /// Where it is, and what we have asked.
    Report {
        /// I take the token to be in your direction.
        towards_you: bool,
        /// I have asked you for it.
        asked: bool,
        /// You have asked me for it.
        listed: bool,
        /// The number of entries I know of.
        entries: u64,
    },
}

/// What a node keeps over a crash: the number of entries it knew of when it last entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Kept {
    entries: u64,
}

/// Which node starts with the token, and which rules are in force.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    holder: NodeId,
    /// Rules 6 to 8 apply.
    restart: bool,
    /// How entries are counted.
    wrap: BoundedCounter,
    mutation: Option<Mutation>,
}

/// What is wrong in a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutation {
    /// Rule 5 serves this node and its children before its parent.
    Greedy,
}

impl Config {
    fn is(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }
}

impl Protocol for RaymondTree {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Never;
    type Stable = Kept;

    fn start(saved: Option<Kept>, ctx: &mut Ctx<Self>) -> Self {
        let here = Self {
            holder: ctx.me,
            wanted_by: VecDeque::new(),
            asked: false,
            inside: false,
            entries: 0,
            missing: NodeSet::new(),
        };
        match saved {
            // Rule 6.
            Some(Kept { entries }) => {
                ctx.rule(6);
                let missing: NodeSet = ctx.neighbors().collect();
                ctx.multicast(missing.iter(), Msg::Restarted);
                Self { entries, missing, ..here }
            }
            None => {
                if ctx.config.restart {
                    ctx.save(Kept { entries: 0 });
                }
                let direction = ctx.topology.next_hop(ctx.me, ctx.config.holder);
                Self { holder: direction.unwrap_or(ctx.me), ..here }
            }
        }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            // Rule 1.
            Request::Acquire => {
                ctx.rule(1);
                self.append(ctx.me);
            }
            // Rule 4.
            Request::Release => {
                ctx.rule(4);
                self.inside = false;
            }
        }
        self.pass_or_ask(ctx);
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        if !ctx.topology.linked(ctx.me, from) {
            return;
        }
        match msg {
            // Rule 2.
            Msg::Request => {
                ctx.rule(2);
                self.append(from);
            }
            // Rule 3.
            Msg::Token { entries } => {
                if self.holder == ctx.me && self.missing.is_empty() {
                    return;
                }
                ctx.rule(3);
                self.entries = self.entries.max(entries);
                self.holder = ctx.me;
                self.asked = false;
            }
            // Rule 7.
            Msg::Restarted => {
                ctx.rule(7);
                let towards_you = self.holder == from;
                ctx.send(
                    from,
                    Msg::Report {
                        towards_you,
                        asked: towards_you && self.asked,
                        listed: self.wanted_by.contains(&from),
                        entries: self.entries,
                    },
                );
            }
            // Rule 8.
            Msg::Report { towards_you, asked, listed, entries } => {
                if !self.missing.remove(from) {
                    return;
                }
                ctx.rule(8);
                self.entries = self.entries.max(entries);
                if !towards_you {
                    self.holder = from;
                    self.asked = listed;
                } else if asked {
                    self.append(from);
                }
            }
        }
        self.pass_or_ask(ctx);
    }

    fn charge(msg: &Msg, _: NodeId, _: NodeId) -> Charge {
        match msg {
            // Neither says for whom it is.
            Msg::Request | Msg::Token { .. } => Charge::NextEntry,
            Msg::Restarted | Msg::Report { .. } => Charge::Nobody,
        }
    }
}

impl RaymondTree {
    fn append(&mut self, direction: NodeId) {
        if !self.wanted_by.contains(&direction) {
            self.wanted_by.push_back(direction);
        }
    }

    /// Rule 5.
    fn pass_or_ask(&mut self, ctx: &mut Ctx<Self>) {
        if !self.missing.is_empty() {
            return;
        }
        if self.holder == ctx.me
            && !self.inside
            && let Some(next) = self.take_next(ctx)
        {
            ctx.rule(5);
            if next == ctx.me {
                self.enter(ctx);
            } else {
                self.holder = next;
                self.asked = false;
                ctx.send(next, Msg::Token { entries: self.entries });
            }
        }
        if self.holder != ctx.me && !self.wanted_by.is_empty() && !self.asked {
            ctx.rule(5);
            self.asked = true;
            ctx.send(self.holder, Msg::Request);
        }
    }

    fn take_next(&mut self, ctx: &Ctx<Self>) -> Option<NodeId> {
        let parent = ctx.topology.parent(ctx.me).filter(|_| ctx.config.is(Mutation::Greedy));
        let below = self.wanted_by.iter().position(|&direction| Some(direction) != parent);
        self.wanted_by.remove(below.unwrap_or(0))
    }

    fn enter(&mut self, ctx: &mut Ctx<Self>) {
        self.inside = true;
        self.entries = ctx.config.wrap.after(self.entries);
        if ctx.config.restart {
            ctx.save(Kept { entries: self.entries });
        }
        ctx.notify(Notice::Acquired { token: self.entries });
    }
}

const STARS: Further = &[&[("N", 3)], &[("N", 4)], &[("N", 20)]];

/// The algorithm as published, without its treatment of crashes.
pub static PLAIN: Entry<RaymondTree> = Entry::new("mutex/raymond-tree", "Raymond's tree", config)
    .summary("ask in the direction of the token; it comes back along the tree")
    .source("Raymond. A tree-based algorithm for distributed mutual exclusion. ACM TOCS 7(1), 1989")
    .text(include_str!("raymond_tree.rs"))
    .model(Model { links: Links::Tree, ..Model::RELIABLE })
    .holds(LOCK)
    .fails(&[(
        Property::FcfsHappenedBefore,
        "p1 waits and passes the token on to p2, and p2 leaves and enters again before p1's \
         request, following the token, arrives",
    )])
    .options(&[HOLDER, BoundedCounter::OPTION])
    .claims(&[
        Check::new(3, LOCK).requests(2),
        Check::new(4, LOCK),
        Check::new(4, LOCK).shape("line"),
        Check::new(4, LIVE).shape("line").endless().set(ALIKE),
        Check::new(3, &[Property::FcfsHappenedBefore]).requests(2).fails(9),
    ])
    .deep(&[Check::new(4, LOCK).requests(2)])
    .cases(&[
        Case::new("distance-d", DISTANCES, |given| given.lone_at_distance(given.n("d")))
            .fits(&[Fits::LONE]),
        Case::new("chain-ends", SIZES, |given| given.lone_at_distance(given.n("N") - 1)),
        Case::new("star-leaf-to-leaf", STARS, |given| {
            given.lone_each(given.shaped(Topology::star).with("holder", 1), 2..given.n("N"))
        }),
        Case::new("burst-chain", SIZES, |given| given.burst(given.shaped(Topology::line)))
            .fits(&[Fits::BURST_ON_LINE]),
        Case::new("burst-star", SIZES, |given| given.burst(given.shaped(Topology::star)))
            .fits(&[Fits::BURST_ON_STAR]),
    ]);

fn config(setup: &Setup) -> Result<Config, Unfit> {
    let (holder, wrap) = (super::holder(setup)?, BoundedCounter::of(setup)?);
    Ok(Config { holder, restart: false, wrap, mutation: None })
}

/// With nodes that come back after a crash.
pub static RESTART: Entry<RaymondTree> = PLAIN
    .variant("mutex/raymond-tree-restart", "Raymond's tree with restart")
    .summary("a node that comes back asks its neighbours where the token is and who waits")
    .model(Model { links: Links::Tree, ..Model::FIFO })
    .config(|setup| Ok(Config { restart: true, ..config(setup)? }))
    .claims(&[
        Check::new(3, LOCK).requests(2),
        Check::new(4, LOCK),
        Check::new(4, LOCK).shape("line"),
        Check::new(4, LIVE).shape("line").endless().set(ALIKE),
        Check::new(3, &[Property::FcfsHappenedBefore]).requests(2).fails(9),
    ])
    .deep(&[Check::new(4, LOCK).requests(2)]);

/// Each node serves its own sub-tree until no node in it wants the token.
pub static GREEDY: Entry<RaymondTree> = PLAIN
    .variant("mutex/tree-greedy", "Greedy tree token")
    .summary("a node keeps the token in its own sub-tree as long as anybody there wants it")
    .mutant(
        "mutex/raymond-tree",
        "rule 5 takes the parent off the list only when no other node is on it",
        Property::NoStarvation,
    )
    .holds(FREE)
    .fails(&[(
        Property::NoStarvation,
        "two nodes of one sub-tree that keep asking starve everybody outside it",
    )])
    .config(|setup| Ok(Config { mutation: Some(Mutation::Greedy), ..config(setup)? }))
    .claims(&[
        Check::new(3, FREE).requests(2),
        Check::new(4, FREE),
        Check::new(4, &[Property::NoDeadlock]).shape("line").endless().set(ALIKE),
        Check::new(3, &[Property::NoStarvation])
            .shape("line")
            .channels(Channels::Fifo)
            .endless()
            .set(ALIKE)
            .loops(17, 9),
        // A single one that asks again is enough if its request overtakes the token.
        Check::new(3, &[Property::NoStarvation]).shape("line").endless().set(ALIKE).loops(15, 9),
    ])
    .deep(&[Check::new(4, FREE).requests(2)]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect, Setup};

    use super::*;

    /// The middle of a line of three; the token is at p0.
    fn middle_of_line(entry: &Entry<RaymondTree>) -> Bench<RaymondTree> {
        Bench::new(entry, &Setup::new(Topology::line(3)))
    }

    #[test]
    fn a_node_asks_once_for_all_and_its_request_follows_the_token() {
        let mut bench = middle_of_line(&PLAIN);
        let to = |to, msg| Effect::Send { to: NodeId(to), msg };
        assert_eq!(bench.at(1).message(2, Msg::Request), [to(0, Msg::Request)]);
        assert_eq!(bench.at(1).request(Request::Acquire), []);
        // p2 asked first; p1 asks it for the token at once.
        let passed_on = bench.at(1).message(0, Msg::Token { entries: 5 });
        assert_eq!(passed_on, [to(2, Msg::Token { entries: 5 }), to(2, Msg::Request)]);
        assert_eq!(bench.at(1).rules(), [3, 5]);
    }

    #[test]
    fn a_node_whose_neighbours_all_look_to_it_for_the_token_makes_a_new_one() {
        let mut bench = middle_of_line(&RESTART);
        bench.at(1).boot(Some(Kept { entries: 3 }));
        assert_eq!(bench.at(1).rules(), [6]);
        let report =
            |asked, entries| Msg::Report { towards_you: true, asked, listed: false, entries };
        assert_eq!(bench.at(1).message(0, report(false, 4)), []);
        let last = bench.at(1).message(2, report(true, 2));
        assert_eq!(last, [Effect::Send { to: NodeId(2), msg: Msg::Token { entries: 4 } }]);
        assert_eq!(bench.at(1).rules(), [5, 8]);
    }
}
