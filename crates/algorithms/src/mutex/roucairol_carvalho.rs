//! For every pair of nodes there is one permission, which lies with one of the two. A node with the
//! permissions of all its pairs may enter, and keeps them when it leaves, until the other node of a
//! pair asks. So it asks only the nodes that have one it lacks, and a node that enters again and
//! again asks none.
//!
//! Two nodes cannot both be inside: both would need the permission of their pair, and it moves only
//! by the `Reply` with which one of them gives it up. A node gives it up unless it is inside, or
//! waits with an older request, so the oldest request gets them all.
//!
//! # Rules
//!
//! 1. Acquire: tick the clock, take its time as the request's timestamp, send `Request` to the nodes
//!    that have a permission of ours. If there are none, enter at once.
//! 2. `Request` from j: merge its time into the clock. Inside, or waiting with an older request:
//!    defer j. Otherwise send `Reply` to j, and with it the permission; and if we had it and still
//!    need it, send our own `Request` after it.
//! 3. `Reply`: the permission is here. Enter when none is missing.
//! 4. Release: send `Reply` to all deferred nodes, and with it their permissions.
//!
//! At first a permission lies with the lower of its two ids, or with neither (`initial=none`). It
//! carries the highest fencing token its giver knows, so that the next entrant can exceed it.
//!
//! # Cost
//!
//! Two messages per missing permission: never more than 2(N − 1), in two hops, and nothing for a
//! node that enters again undisturbed. At first node i, alone, takes exactly 2i. Two that alternate:
//! two each. All N at once at first: N(N − 1). One hop from one to the next.
//!
//! # Known failures
//!
//! A node that has all permissions enters without a message, ahead of a request it could have heard
//! of. A crashed node keeps the permissions it had: the nodes that need one wait for ever, and so
//! does a node that needs a permission lost with a message.

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{Case, Fits, Further, Given, SIZES, Scope};
use conclave_protocol::{
    Charge, Ctx, Entry, Lamport, Model, Never, NodeId, NodeSet, Opt, Property, Protocol, Setup,
    Stamp, Unfit,
};
use serde::{Deserialize, Serialize};

use super::{LOCK, NO_STAMPS, Notice, Request, SAFE};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RoucairolCarvalho {
    clock: Lamport,
    phase: Phase,
    /// The peers whose pair's permission is not here.
    missing: NodeSet,
    /// Nodes that get their reply when we leave.
    deferred: NodeSet,
    /// The highest fencing token we know of.
    highest: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Phase {
    Outside,
    Waiting { asked: Stamp },
    Inside,
}

/// What nodes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// May I? I asked at this time.
    Request(Stamp),
    /// The permission of our pair is yours until I ask for it.
    Reply {
        /// The highest fencing token the giver knows of.
        highest: u64,
    },
}

/// Where the permissions lie at first.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// With the lower id of each pair; otherwise with neither.
    lower: bool,
}

impl Protocol for RoucairolCarvalho {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Never;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        let elsewhere = |peer: &NodeId| !ctx.config.lower || *peer < ctx.me;
        Self {
            clock: Lamport::default(),
            phase: Phase::Outside,
            missing: ctx.peers().filter(elsewhere).collect(),
            deferred: NodeSet::new(),
            highest: 0,
        }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            // Rule 1.
            Request::Acquire => {
                ctx.rule(1);
                let asked = self.clock.tick(ctx.me);
                self.phase = Phase::Waiting { asked };
                ctx.multicast(self.missing.iter(), Msg::Request(asked));
                self.enter_if_permitted(ctx);
            }
            // Rule 4.
            Request::Release => {
                ctx.rule(4);
                self.phase = Phase::Outside;
                for peer in self.deferred.take().iter() {
                    self.give(peer, ctx);
                }
            }
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            // Rule 2.
            Msg::Request(theirs) => {
                ctx.rule(2);
                self.clock.observe(theirs);
                match self.phase {
                    Phase::Waiting { asked } if theirs < asked => {
                        let had = self.give(from, ctx);
                        if had {
                            ctx.send(from, Msg::Request(asked));
                        }
                    }
                    Phase::Outside => {
                        self.give(from, ctx);
                    }
                    Phase::Waiting { .. } | Phase::Inside => {
                        self.deferred.insert(from);
                    }
                }
            }
            // Rule 3.
            Msg::Reply { highest } => {
                ctx.rule(3);
                self.highest = self.highest.max(highest);
                self.missing.remove(from);
                self.enter_if_permitted(ctx);
            }
        }
    }

    fn charge(msg: &Msg, _: NodeId, _: NodeId) -> Charge {
        match msg {
            Msg::Request(_) => Charge::Sender,
            Msg::Reply { .. } => Charge::Receiver,
        }
    }
}

impl RoucairolCarvalho {
    /// Replies to `peer` with the permission. Returns whether it was here: where it lay with
    /// neither at first, a reply brings it into the world.
    fn give(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) -> bool {
        ctx.send(peer, Msg::Reply { highest: self.highest });
        self.missing.insert(peer)
    }

    fn enter_if_permitted(&mut self, ctx: &mut Ctx<Self>) {
        if self.missing.is_empty() && matches!(self.phase, Phase::Waiting { .. }) {
            self.phase = Phase::Inside;
            self.highest += 1;
            ctx.notify(Notice::Acquired { token: self.highest });
        }
    }
}

const FIRST_ENTRIES: Further =
    &[&[("N", 2), ("i", 1)], &[("N", 5), ("i", 3)], &[("N", 20), ("i", 13)]];

/// The algorithm as published.
pub static PLAIN: Entry<RoucairolCarvalho> =
    Entry::new("mutex/roucairol-carvalho", "Roucairol–Carvalho", config)
        .summary("keep a permission until asked for it; ask only for those not here")
        .source("Carvalho, Roucairol. On mutual exclusion in computer networks. CACM 26(2), 1983")
        .text(include_str!("roucairol_carvalho.rs"))
        .model(Model::FIFO)
        .holds(LOCK)
        .fails(&[
            (
                Property::FcfsHappenedBefore,
                "p1 asks; p0 hears of it through p2 before p1's own request arrives, asks, and \
                 having all permissions enters at once",
            ),
            (
                Property::FcfsTimestamp,
                "p0, which holds all permissions, enters with a younger request than that of p1, \
                 which is still under way",
            ),
        ])
        .options(&[Opt {
            name: "initial",
            default: "lower",
            help: "where a pair's permission lies at first: with the lower id, or with none",
        }])
        .claims(&[
            Check::new(3, LOCK).requests(2),
            Check::new(4, LOCK),
            Check::new(3, &[Property::FcfsHappenedBefore]).requests(2).fails(7),
            Check::unchecked(&[Property::FcfsTimestamp], NO_STAMPS),
        ])
        .deep(&[Check::new(4, SAFE).requests(2)])
        .cases(&[
            Case::new("first-entry-of-id-i", FIRST_ENTRIES, |given| {
                given.lone(given.complete(), given.n("i"))
            })
            .fits(&[Fits::LONE]),
            Case::new("repeat", SIZES, |given| {
                let last = given.n("N") - 1;
                let twice = given.planned(given.complete(), &[(last, 0), (last, 200)]);
                vec![twice.about(Scope::Entry(1))]
            }),
            Case::new("alternate", SIZES, |given| {
                let last = given.n("N") - 1;
                let plan = [(0, 0), (last, 200), (0, 400), (last, 600)];
                let turns = given.planned(given.complete(), &plan);
                vec![turns.clone().about(Scope::Entry(2)), turns.about(Scope::Entry(3))]
            }),
            Case::new("burst", SIZES, Given::all_at_once).fits(&[Fits::BURST]),
        ]);

fn config(setup: &Setup) -> Result<Config, Unfit> {
    match setup.option("initial", "lower".to_owned())?.as_str() {
        "lower" => Ok(Config { lower: true }),
        "none" => Ok(Config { lower: false }),
        other => Err(Unfit::new(format!("initial={other}, but it can only be lower or none"))),
    }
}

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect};

    use super::*;

    #[test]
    fn a_waiting_node_gives_a_permission_to_an_older_request_and_asks_for_it_back() {
        let mut bench = Bench::complete(&PLAIN, 3);
        let stamp = |time, node| Stamp { time, node: NodeId(node) };
        let to = |to, msg| Effect::Send { to: NodeId(to), msg };
        // p1 has the permission of its pair with p2, and lacks the one of its pair with p0.
        bench.at(1).message(2, Msg::Request(stamp(1, 2)));
        bench.at(1).message(2, Msg::Reply { highest: 0 });
        let asked = Msg::Request(stamp(2, 1));
        assert_eq!(bench.at(1).request(Request::Acquire), [to(0, asked)]);
        let older = bench.at(1).message(2, Msg::Request(stamp(1, 2)));
        assert_eq!(older, [to(2, Msg::Reply { highest: 0 }), to(2, asked)]);
        assert_eq!(bench.at(1).message(2, Msg::Request(stamp(3, 2))), []);
    }
}
