//! There are K identical units, so K nodes may be inside at once. A node asks every other node, as
//! in Ricart–Agrawala, but enters as soon as all but K − 1 have replied: those K − 1 may be inside.
//! A late reply may come while the node is inside, after it has left, or while it waits again. So
//! it counts, for each peer, how many replies that peer still owes, and takes a peer's consent for
//! given only if it owes none.
//!
//! No more than K nodes can be inside: of K + 1 that were, the one that asked last would lack the
//! replies of the other K, which were inside or had older requests, and K − 1 is all it may lack.
//!
//! # Rules
//!
//! 1. Acquire: tick the clock, take its time as the request's timestamp, send `Request` to all:
//!    each now owes one reply more.
//! 2. `Request` from j: merge its time into the clock. Inside, or waiting with an older request: we
//!    owe j one reply more. Otherwise send `Reply(1)`.
//! 3. `Reply(k)` from j: j owes k less. Enter when fewer than K peers owe anything.
//! 4. Release: send to each peer we owe all its replies in one `Reply`.
//!
//! # Cost
//!
//! Alone: exactly 2(N − 1) messages and two hops. Late replies are merged, so that an entry takes
//! 2N − K − 1 to 2(N − 1); R entries of one node while K − 1 others stay inside take exactly R(2N −
//! K − 1) + (K − 1). One hop from one to the next. With K = 1 it is Ricart–Agrawala.
//!
//! # Known failures
//!
//! A crashed node never replies: it takes up one of the K places for good, and the Kth crash stops
//! all nodes. With several places a younger request may enter while an older one still waits for a
//! slow reply. A node that forgets at each request what is still owed from the last one takes a
//! late reply for consent to the new request, and K + 1 are inside (`mutex/raymond-k-naive`).

use std::collections::BTreeMap;

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{Asks, Case, Experiment, Fits, Further, Given, Scope, T};
use conclave_protocol::{
    Charge, Ctx, Entry, Lamport, Model, Never, NodeId, Opt, Property, Protocol, Setup, Stamp, Unfit,
};
use serde::{Deserialize, Serialize};

use super::{Notice, Request};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RaymondK {
    clock: Lamport,
    phase: Phase,
    /// How many replies each peer owes us; peers that owe none are left out.
    due: BTreeMap<NodeId, u32>,
    /// How many replies we owe each peer, to be paid when we leave.
    deferred: BTreeMap<NodeId, u32>,
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
    /// So many of your requests have my consent.
    Reply(u32),
}

/// How many may be inside, and what is wrong with the rules in a mutant.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    units: u32,
    mutation: Option<Mutation>,
}

/// What is wrong in a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutation {
    /// Rule 1 forgets what is still owed from earlier requests.
    ForgetDue,
}

impl Config {
    fn is(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }
}

impl Protocol for RaymondK {
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
            due: BTreeMap::new(),
            deferred: BTreeMap::new(),
        }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            // Rule 1.
            Request::Acquire => {
                ctx.rule(1);
                let asked = self.clock.tick(ctx.me);
                self.phase = Phase::Waiting { asked };
                if ctx.config.is(Mutation::ForgetDue) {
                    self.due.clear();
                }
                for peer in ctx.peers() {
                    *self.due.entry(peer).or_default() += 1;
                }
                ctx.broadcast(Msg::Request(asked));
            }
            // Rule 4.
            Request::Release => {
                ctx.rule(4);
                self.phase = Phase::Outside;
                for (peer, owed) in std::mem::take(&mut self.deferred) {
                    ctx.send(peer, Msg::Reply(owed));
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
                let defer = match self.phase {
                    Phase::Outside => false,
                    Phase::Waiting { asked } => asked < theirs,
                    Phase::Inside => true,
                };
                if defer {
                    *self.deferred.entry(from).or_default() += 1;
                } else {
                    ctx.send(from, Msg::Reply(1));
                }
            }
            // Rule 3.
            Msg::Reply(paid) => {
                ctx.rule(3);
                if let Some(due) = self.due.get_mut(&from) {
                    *due = due.saturating_sub(paid);
                    if *due == 0 {
                        self.due.remove(&from);
                    }
                }
                self.enter_if_few_owe(ctx);
            }
        }
    }

    fn charge(msg: &Msg, _: NodeId, _: NodeId) -> Charge {
        match msg {
            Msg::Request(_) => Charge::Sender,
            Msg::Reply(_) => Charge::Receiver,
        }
    }
}

impl RaymondK {
    fn enter_if_few_owe(&mut self, ctx: &mut Ctx<Self>) {
        if let Phase::Waiting { asked } = self.phase
            && self.due.len() < ctx.config.units as usize
        {
            self.phase = Phase::Inside;
            ctx.notify(Notice::Acquired { token: asked.token() });
        }
    }
}

const UNITS: Further =
    &[&[("N", 2), ("K", 1)], &[("N", 5), ("K", 4)], &[("N", 9), ("K", 4)], &[("N", 20), ("K", 7)]];
const REPEATED: Further = &[
    &[("N", 5), ("K", 3), ("R", 1)],
    &[("N", 7), ("K", 4), ("R", 5)],
    &[("N", 12), ("K", 5), ("R", 9)],
];

/// `K` units for `N` nodes.
fn with_units(given: &Given) -> Setup {
    given.complete().with("units", given.n("K"))
}

/// `K-1` nodes stay inside while another comes and goes.
fn beside_holders(given: &Given) -> Vec<Experiment> {
    let (others, rounds) = (given.n("K") - 1, given.n("R"));
    let last = given.n("N") - 1;
    let asks: Vec<_> = (0..others)
        .map(|node| (node, 0))
        .chain((0..rounds).map(|round| (last, 10 + 100 * round)))
        .collect();
    let mut beside = given.planned(with_units(given), &asks);
    if let Asks::Planned(asks) = &mut beside.runs[0].asks {
        for ask in &mut asks[..others as usize] {
            ask.hold = Some(T * 100 * (rounds + 1));
        }
    }
    vec![beside.about(Scope::Node(NodeId(last)))]
}

/// The algorithm as published.
pub static PLAIN: Entry<RaymondK> = Entry::new("mutex/raymond-k", "Raymond's K units", config)
    .summary("ask everybody; enter when all but K − 1 have replied to everything")
    .source(
        "Raymond. A distributed algorithm for multiple entries to a critical section. IPL 30(4), \
         1989",
    )
    .text(include_str!("raymond_k.rs"))
    .model(Model::RELIABLE)
    .holds(&[Property::Exclusion, Property::NoDeadlock, Property::NoStarvation])
    .fails(&[
        (
            Property::FenceOrder,
            "several are inside, and a younger request can enter while an older one waits for a \
             slow reply; so no token is greater than all before it",
        ),
        (
            Property::FcfsHappenedBefore,
            "p1 asks; p2 hears of it, asks too, and takes the second place while p2's reply to p1 \
             is under way",
        ),
    ])
    .options(&[Opt { name: "units", default: "2", help: "how many may be inside at once" }])
    .claims(&[
        Check::new(3, &[Property::Exclusion, Property::NoDeadlock, Property::NoStarvation]),
        Check::new(2, &[Property::Exclusion, Property::NoDeadlock, Property::NoStarvation])
            .set(&[("units", "1")])
            .requests(2),
        Check::new(3, &[Property::FenceOrder]).fails(6),
        Check::new(3, &[Property::FcfsHappenedBefore]).fails(5),
    ])
    .deep(&[Check::new(3, &[Property::Exclusion]).requests(2)])
    .cases(&[
        Case::new("idle", UNITS, |given| given.lone_each(with_units(given), 0..given.n("N")))
            .fits(&[Fits::LONE]),
        Case::new("repeated-beside-K-1-holders", REPEATED, beside_holders),
    ]);

fn config(setup: &Setup) -> Result<Config, Unfit> {
    let (units, n) = (setup.option("units", 2)?, setup.n());
    if (1..n).contains(&units) {
        return Ok(Config { units, mutation: None });
    }
    Err(Unfit::new(match n {
        1 => "one node has none to share units with; two or more have".to_owned(),
        2 => format!("units={units}, but two nodes can share only one: --set units=1"),
        _ => format!("units={units}, but {n} nodes can share 1 to {} units", n - 1),
    }))
}

/// Rule 1 forgets what is still owed.
pub static NAIVE: Entry<RaymondK> = PLAIN
    .variant("mutex/raymond-k-naive", "Raymond's K units, counting naively")
    .summary("a late reply to an earlier request counts for the present one")
    .mutant(
        "mutex/raymond-k",
        "rule 1 forgets the replies still owed to earlier requests",
        Property::Exclusion,
    )
    .config(|setup| Ok(Config { mutation: Some(Mutation::ForgetDue), ..config(setup)? }))
    .claims(&[
        Check::new(3, &[Property::Exclusion]).requests(2).fails(13),
        Check::new(3, &[Property::FenceOrder]).fails(6),
        Check::new(3, &[Property::FcfsHappenedBefore]).fails(5),
    ]);

#[cfg(test)]
mod tests {
    use conclave_protocol::Bench;

    use super::*;

    #[test]
    fn a_late_reply_to_an_earlier_request_is_no_consent_to_the_next() {
        let mut bench = Bench::complete(&PLAIN, 3);
        bench.at(0).request(Request::Acquire);
        // Two places: one reply is enough, and p2 owes the other.
        assert_eq!(bench.at(0).message(1, Msg::Reply(1)).len(), 1);
        bench.at(0).request(Request::Release);
        bench.at(0).request(Request::Acquire);
        assert_eq!(bench.at(0).message(2, Msg::Reply(1)), []);
        assert_eq!(bench.at(0).message(2, Msg::Reply(1)).len(), 1);
    }
}
