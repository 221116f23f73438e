//! Every node keeps the queue of all requests, in the order of their timestamps. A node that wants
//! the critical section announces its request to every other node, and enters when it is the first
//! in its own queue and has heard from each of them something later than the request: then nothing
//! older can still be under way. On leaving it tells every other node to strike the request out.
//!
//! Two nodes cannot both be inside: messages of a link keep their order, so a node that has heard
//! something later than its own request from j has also heard j's request, if that is older, and
//! would find it in front of its own.
//!
//! # Rules
//!
//! 1. Acquire: tick the clock; put the request, stamped with its time, into the queue; send `Req` to
//!    all.
//! 2. `Req` from j: advance the clock past it, put it into the queue, send `Ack` with the new time.
//! 3. `Ack` from j: merge its time into the clock. If it is later than our request, j has nothing
//!    older under way: its word is not missing any more.
//! 4. Enter when our request is the first of the queue and no word is missing.
//! 5. Release: strike out our request, tick, send `Rel` to all.
//! 6. `Rel` from j: merge its time into the clock, strike out j's request.
//!
//! With acknowledgements suppressed, every message later than our request counts as one (rule 3),
//! and none is sent to a node that has been sent something later already (rule 2): of two requests
//! that cross, the younger acknowledges the older.
//!
//! # Cost
//!
//! Always exactly 3(N − 1) messages an entry: 2(N − 1) to enter, in two hops, and N − 1 to leave.
//! One hop from one to the next. All N at once: 3N(N − 1), the first inside after two hops.
//!
//! With acknowledgements suppressed: 2(N − 1) to 3(N − 1) an entry, alone 3(N − 1). All N at once:
//! exactly 5N(N − 1)/2, as every pair saves one, the first inside after one hop.
//!
//! # Known failures
//!
//! Where messages overtake each other, an acknowledgement can arrive ahead of an older request
//! sent before it, and two nodes enter. A crashed node acknowledges nothing: every other node
//! waits, as it does when one message is lost.

use std::collections::{BTreeMap, BTreeSet};

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{Case, Fits, Given, SIZES};
use conclave_protocol::{
    Charge, Ctx, Entry, Lamport as Clock, Model, Never, NodeId, NodeSet, Protocol, Stamp,
};
use serde::{Deserialize, Serialize};

use super::{Notice, ORDERED, Request, SAFE};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lamport {
    clock: Clock,
    /// Every request we know of, oldest first; at most one of each node.
    queue: BTreeSet<Stamp>,
    phase: Phase,
    /// What we last told each node, kept where that can save an acknowledgement.
    told: BTreeMap<NodeId, Stamp>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Phase {
    Outside,
    /// Something later than `asked` is missing from these nodes.
    Waiting {
        asked: Stamp,
        missing: NodeSet,
    },
    Inside {
        asked: Stamp,
    },
}

/// What nodes send each other, each with the time of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// I want in, since this time.
    Req(Stamp),
    /// I know of your request, and of none of mine that is older.
    Ack(Stamp),
    /// I have left.
    Rel(Stamp),
}

/// Which messages count as acknowledgements.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// All later ones do, so that some `Ack`s need not be sent.
    suppress: bool,
}

impl Protocol for Lamport {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Never;
    type Stable = Never;

    fn start(_: Option<Never>, _: &mut Ctx<Self>) -> Self {
        Self {
            clock: Clock::default(),
            queue: BTreeSet::new(),
            phase: Phase::Outside,
            told: BTreeMap::new(),
        }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match (request, &self.phase) {
            // Rule 1.
            (Request::Acquire, _) => {
                ctx.rule(1);
                let asked = self.clock.tick(ctx.me);
                self.queue.insert(asked);
                self.phase = Phase::Waiting { asked, missing: ctx.peer_set() };
                self.tell_all(Msg::Req(asked), asked, ctx);
                self.enter_if_first(ctx);
            }
            // Rule 5.
            (Request::Release, Phase::Inside { asked }) => {
                ctx.rule(5);
                self.queue.remove(asked);
                self.phase = Phase::Outside;
                let left = self.clock.tick(ctx.me);
                self.tell_all(Msg::Rel(left), left, ctx);
            }
            (Request::Release, Phase::Outside | Phase::Waiting { .. }) => {}
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            // Rule 2.
            Msg::Req(theirs) => {
                ctx.rule(2);
                let received = self.clock.receive(theirs, ctx.me);
                self.queue.insert(theirs);
                if self.told.get(&from).is_none_or(|&told| told < theirs) {
                    ctx.send(from, Msg::Ack(received));
                    self.note_told(from, received, ctx);
                }
                if ctx.config.suppress {
                    self.note_heard(from, theirs, ctx);
                }
            }
            // Rule 3.
            Msg::Ack(sent) => {
                self.clock.observe(sent);
                self.note_heard(from, sent, ctx);
            }
            // Rule 6.
            Msg::Rel(sent) => {
                ctx.rule(6);
                self.clock.observe(sent);
                self.queue.retain(|request| request.node != from);
                if ctx.config.suppress {
                    self.note_heard(from, sent, ctx);
                }
            }
        }
        self.enter_if_first(ctx);
    }

    fn waits_for(&self, _: NodeId, _: &Config) -> NodeSet {
        let Phase::Waiting { asked, missing } = &self.phase else { return NodeSet::new() };
        let older = self.queue.range(..asked).map(|request| request.node);
        missing.iter().chain(older).collect()
    }

    fn charge(msg: &Msg, _: NodeId, _: NodeId) -> Charge {
        match msg {
            Msg::Req(_) | Msg::Rel(_) => Charge::Sender,
            Msg::Ack(_) => Charge::Receiver,
        }
    }
}

impl Lamport {
    fn tell_all(&mut self, msg: Msg, sent: Stamp, ctx: &mut Ctx<Self>) {
        ctx.broadcast(msg);
        for peer in ctx.peers() {
            self.note_told(peer, sent, ctx);
        }
    }

    fn note_told(&mut self, peer: NodeId, sent: Stamp, ctx: &mut Ctx<Self>) {
        if ctx.config.suppress {
            self.told.insert(peer, sent);
        }
    }

    /// Rule 3.
    fn note_heard(&mut self, peer: NodeId, sent: Stamp, ctx: &mut Ctx<Self>) {
        ctx.rule(3);
        if let Phase::Waiting { asked, missing } = &mut self.phase
            && sent > *asked
        {
            missing.remove(peer);
        }
    }

    /// Rule 4.
    fn enter_if_first(&mut self, ctx: &mut Ctx<Self>) {
        if let &Phase::Waiting { asked, ref missing } = &self.phase
            && missing.is_empty()
            && self.queue.first() == Some(&asked)
        {
            ctx.rule(4);
            self.phase = Phase::Inside { asked };
            ctx.notify(Notice::Acquired { token: asked.token() });
        }
    }
}

/// The algorithm as published.
pub static PLAIN: Entry<Lamport> =
    Entry::new("mutex/lamport", "Lamport's queue", |_| Ok(Config { suppress: false }))
        .summary("everybody keeps the queue of all requests; enter when first in it")
        .source(
            "Lamport. Time, clocks, and the ordering of events in a distributed system. CACM \
             21(7), 1978",
        )
        .text(include_str!("lamport.rs"))
        .model(Model::FIFO)
        .holds(ORDERED)
        .claims(&[Check::new(3, ORDERED), Check::new(2, ORDERED).requests(2)])
        .deep(&[Check::new(3, SAFE).requests(2).bounded(26)])
        .cases(&[
            Case::new("idle", SIZES, Given::lone_among_equals).fits(&[Fits::LONE, Fits::EACH]),
            Case::new("burst", SIZES, Given::all_at_once).fits(&[Fits::BURST]),
        ]);

/// Any later message acknowledges.
pub static ACK_SUPPRESSION: Entry<Lamport> = PLAIN
    .variant("mutex/lamport-ack-suppression", "Lamport's queue with fewer acknowledgements")
    .summary("any message later than a request acknowledges it")
    .config(|_| Ok(Config { suppress: true }))
    .claims(&[Check::new(3, ORDERED), Check::new(2, ORDERED).requests(2)])
    .deep(&[Check::new(3, SAFE).requests(2).bounded(26)])
    .cases(&[
        Case::new("idle", SIZES, Given::lone_among_equals).fits(&[Fits::LONE, Fits::AT_MOST]),
        Case::new("burst", SIZES, Given::all_at_once).fits(&[Fits::BURST]),
    ]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect};

    use super::*;

    /// What p1 sends when p0's request of this time reaches it, having asked itself or not.
    fn answer(entry: &Entry<Lamport>, asks: bool, theirs: u64) -> Vec<Effect<Lamport>> {
        let mut bench = Bench::complete(entry, 2);
        if asks {
            bench.at(1).request(Request::Acquire);
        }
        bench.at(1).message(0, Msg::Req(Stamp { time: theirs, node: NodeId(0) }))
    }

    fn ack(time: u64) -> [Effect<Lamport>; 1] {
        [Effect::Send { to: NodeId(0), msg: Msg::Ack(Stamp { time, node: NodeId(1) }) }]
    }

    #[test]
    fn a_request_is_acknowledged_at_a_later_time() {
        assert_eq!(answer(&PLAIN, false, 4), ack(5));
        assert_eq!(answer(&PLAIN, true, 1), ack(2));
    }

    #[test]
    fn a_younger_request_of_our_own_is_acknowledgement_enough() {
        assert_eq!(answer(&ACK_SUPPRESSION, true, 1), []);
        // Ours is the older, and theirs acknowledges it.
        let token = Stamp { time: 1, node: NodeId(1) }.token();
        let [acknowledged] = ack(3);
        let entered = Effect::Notify(Notice::Acquired { token });
        assert_eq!(answer(&ACK_SUPPRESSION, true, 2), [acknowledged, entered]);
        assert_eq!(answer(&ACK_SUPPRESSION, false, 1), ack(2), "we have sent nothing");
    }
}
