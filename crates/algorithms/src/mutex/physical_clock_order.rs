//! Ricart–Agrawala whose requests are ordered by a central clock: before asking, a node fetches a
//! time from node 0, which never gives the same or a smaller one twice. It is a server of tickets;
//! what the time of day is does not matter.
//!
//! While its ticket is under way a node does not know yet how old its own request will turn out, so
//! it lets the requests of others wait, and answers them when the ticket is here. Then two nodes
//! cannot both be inside: the one with the later ticket would need a reply that the other sends only
//! on leaving. And no node waits for its ticket for long: the server answers every request at once.
//!
//! # Rules
//!
//! 1. Acquire: send `TimeReq` to node 0, which answers `TimeRep` with the next number.
//! 2. `TimeRep`: that is the request's timestamp; send `Request` with it to all. Now deal with the
//!    requests that arrived in the meantime, by rule 3.
//! 3. `Request` from j: while our ticket is under way, keep it. Inside, or waiting with an older
//!    request: defer j. Otherwise send `Reply` to j.
//! 4. `Reply`: enter when none is missing.
//! 5. Release: send `Reply` to all deferred nodes.
//!
//! # Cost
//!
//! Alone: exactly 2(N − 1) + 2 messages and four hops, of which the ticket takes two each; node 0
//! has its ticket for nothing. Leaving costs nothing.
//!
//! # Known failures
//!
//! When node 0 crashes no node gets a ticket, and when any other crashes no node gets all replies.
//! Order is the order in which the server answered: applications that talk to each other beside the
//! algorithm may have seen another.
//!
//! To reply at once while the own ticket is under way (`mutex/physical-clock-order-literal`) is not
//! enough: p is handed 5, which is slow, and q is handed 6; q's request reaches p, which replies;
//! then p's ticket comes, its request, older, reaches q, which replies too; both enter.

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{Case, Fits, Given, SIZES};
use conclave_protocol::{
    Charge, Ctx, Entry, Model, Never, NodeId, NodeSet, Property, Protocol, Stamp,
};
use serde::{Deserialize, Serialize};

use super::{Notice, Request, SAFE, STAMPED};

/// The server of tickets.
const SERVER: NodeId = NodeId(0);

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PhysicalClockOrder {
    phase: Phase,
    /// Nodes that get their reply when we leave.
    deferred: NodeSet,
    /// At node 0: the number given last.
    given: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Phase {
    Outside,
    /// The ticket is under way; these requests wait for it.
    Fetching {
        kept: Vec<Stamp>,
    },
    Waiting {
        asked: Stamp,
        missing: NodeSet,
    },
    Inside,
}

/// What nodes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// What time is it?
    TimeReq,
    /// This, and never again.
    TimeRep(u64),
    /// May I? I asked at this time.
    Request(Stamp),
    /// You may, as far as I am concerned.
    Reply,
}

/// Nothing, but in a mutant.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    mutation: Option<Mutation>,
}

/// What is wrong in a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutation {
    /// Rule 3 replies at once while our ticket is under way.
    ReplyTooSoon,
}

impl Config {
    fn is(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }
}

impl Protocol for PhysicalClockOrder {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Never;
    type Stable = Never;

    fn start(_: Option<Never>, _: &mut Ctx<Self>) -> Self {
        Self { phase: Phase::Outside, deferred: NodeSet::new(), given: 0 }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            // Rule 1.
            Request::Acquire => {
                ctx.rule(1);
                self.phase = Phase::Fetching { kept: Vec::new() };
                ctx.send(SERVER, Msg::TimeReq);
            }
            // Rule 5.
            Request::Release => {
                ctx.rule(5);
                self.phase = Phase::Outside;
                let deferred = self.deferred.take();
                ctx.multicast(deferred.iter(), Msg::Reply);
            }
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            // Rule 1.
            Msg::TimeReq => {
                ctx.rule(1);
                self.given += 1;
                ctx.send(from, Msg::TimeRep(self.given));
            }
            // Rule 2.
            Msg::TimeRep(time) => {
                let Phase::Fetching { kept } = &mut self.phase else { return };
                ctx.rule(2);
                let kept = std::mem::take(kept);
                let asked = Stamp { time, node: ctx.me };
                self.phase = Phase::Waiting { asked, missing: ctx.peer_set() };
                ctx.broadcast(Msg::Request(asked));
                for theirs in kept {
                    self.answer(theirs, ctx);
                }
                self.enter_if_all_replied(ctx);
            }
            Msg::Request(theirs) => self.answer(theirs, ctx),
            // Rule 4.
            Msg::Reply => {
                if let Phase::Waiting { missing, .. } = &mut self.phase {
                    ctx.rule(4);
                    missing.remove(from);
                    self.enter_if_all_replied(ctx);
                }
            }
        }
    }

    fn charge(msg: &Msg, _: NodeId, _: NodeId) -> Charge {
        match msg {
            Msg::TimeReq | Msg::Request(_) => Charge::Sender,
            Msg::TimeRep(_) | Msg::Reply => Charge::Receiver,
        }
    }
}

impl PhysicalClockOrder {
    /// Rule 3.
    fn answer(&mut self, theirs: Stamp, ctx: &mut Ctx<Self>) {
        ctx.rule(3);
        let defer = match &mut self.phase {
            Phase::Outside => false,
            Phase::Fetching { .. } if ctx.config.is(Mutation::ReplyTooSoon) => false,
            Phase::Fetching { kept } => return kept.push(theirs),
            Phase::Waiting { asked, .. } => *asked < theirs,
            Phase::Inside => true,
        };
        if defer {
            self.deferred.insert(theirs.node);
        } else {
            ctx.send(theirs.node, Msg::Reply);
        }
    }

    fn enter_if_all_replied(&mut self, ctx: &mut Ctx<Self>) {
        if let Phase::Waiting { asked, missing } = &self.phase
            && missing.is_empty()
        {
            let token = asked.token();
            self.phase = Phase::Inside;
            ctx.notify(Notice::Acquired { token });
        }
    }
}

/// The sound algorithm.
pub static PLAIN: Entry<PhysicalClockOrder> =
    Entry::new("mutex/physical-clock-order", "Ricart–Agrawala by a central clock", |_| {
        Ok(Config { mutation: None })
    })
    .summary("fetch a ticket from node 0, then ask everybody")
    .source("Ricart–Agrawala with the timestamps of a central time server")
    .text(include_str!("physical_clock_order.rs"))
    .model(Model::RELIABLE)
    .holds(STAMPED)
    .fails(&[(
        Property::FcfsHappenedBefore,
        "p1 asks and tells p2, which asks too; p2's request for a ticket reaches p0 first",
    )])
    .claims(&[
        Check::new(3, STAMPED).requests(2),
        Check::new(3, &[Property::FcfsHappenedBefore]).talking().fails(9),
    ])
    .deep(&[Check::new(4, SAFE)])
    .cases(&[Case::new("idle", SIZES, Given::lone_non_holder).fits(&[Fits::ELSEWHERE])]);

/// A node replies at once while its ticket is under way.
pub static LITERAL: Entry<PhysicalClockOrder> = PLAIN
    .variant(
        "mutex/physical-clock-order-literal",
        "Ricart–Agrawala by a central clock, replying too soon",
    )
    .summary("who waits for a ticket replies at once")
    .mutant(
        "mutex/physical-clock-order",
        "rule 3 replies while the own ticket, perhaps an older one, is under way",
        Property::Exclusion,
    )
    .config(|_| Ok(Config { mutation: Some(Mutation::ReplyTooSoon) }))
    .claims(&[
        Check::new(2, &[Property::Exclusion]).fails(8),
        Check::new(3, &[Property::FcfsHappenedBefore]).talking().fails(7),
    ]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect};

    use super::*;

    #[test]
    fn a_request_waits_while_a_ticket_that_may_be_older_is_under_way() {
        let mut bench = Bench::complete(&PLAIN, 3);
        bench.at(1).request(Request::Acquire);
        let later = Stamp { time: 2, node: NodeId(2) };
        assert_eq!(bench.at(1).message(2, Msg::Request(later)), []);
        let mine = Stamp { time: 1, node: NodeId(1) };
        let asked = bench.at(1).message(0, Msg::TimeRep(1));
        assert_eq!(asked, [Effect::Broadcast(Msg::Request(mine))], "ours is older: no reply");
        let mut bench = Bench::complete(&PLAIN, 3);
        bench.at(1).request(Request::Acquire);
        let earlier = Stamp { time: 1, node: NodeId(2) };
        bench.at(1).message(2, Msg::Request(earlier));
        let replied = bench.at(1).message(0, Msg::TimeRep(2));
        assert_eq!(replied.last(), Some(&Effect::Send { to: NodeId(2), msg: Msg::Reply }));
        assert_eq!(bench.at(1).rules(), [2, 3]);
    }
}
