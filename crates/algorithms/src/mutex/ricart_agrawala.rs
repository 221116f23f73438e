//! A node that wants the critical section asks every other node and enters when all have replied.
//! A node asked replies at once, unless it is inside, or wants in itself and asked earlier; then
//! it replies when it leaves. Lamport timestamps say who asked earlier; ids break ties.
//!
//! Two nodes cannot both be inside: the one that asked later would need a reply that the other
//! sends only on leaving. Every request made after hearing of another is later than it, so an
//! unknown request can never turn out older than one already answered. Replies carry the clock too:
//! so a request is later than all that happened before it, not only than those that were heard.
//!
//! # Rules
//!
//! 1. Acquire: tick the clock, take its time as the request's timestamp, send `Request` to all.
//! 2. `Request` from j: merge its time into the clock. Inside, or waiting with an older request:
//!    defer j. Otherwise send `Reply` to j.
//! 3. `Reply`: merge its time into the clock; enter when no node's is missing.
//! 4. Release: send `Reply` to **all** deferred nodes. Each needs this node's own reply, which
//!    no other node can give; replying to one only leaves the others waiting for ever.
//!
//! `mutex/ricart-agrawala-fd` survives crashes: a node that the failure detector suspects counts as
//! having said yes to everybody. While the detector is perfect that is as safe: a suspected node has
//! crashed and is not inside, and will not be. A node that crashed inside is thereby passed over;
//! what it left half done is for the application to repair, and its late writes are for the fencing
//! token to keep out.
//!
//! 5. Suspect j: its reply is not missing any more, nor is ours to it, and it is asked no more.
//! 6. Trust j: it is asked again from the next request on.
//!
//! # Cost
//!
//! Always exactly 2(N − 1) messages an entry, contended or not: alone two hops, and nothing on
//! leaving. All N at once: 2N(N − 1); the replies sent on leaving belong to the entries they allow.
//! One hop from one to the next.
//!
//! Where a message to all is one transmission (`mutex/ricart-agrawala-multicast`), an entry takes N
//! of them.
//!
//! With a failure detector and L nodes alive, the others known to be dead: exactly 2(L − 1) messages
//! an entry, two hops. A request to a node that is dead and not yet suspected is one message more.
//!
//! # Known failures
//!
//! A crashed node is silent, and silence reads as a refusal: everybody waits. So does the loss of
//! one message. Two nodes with the same id can both be the older one.
//!
//! With a failure detector, one wrong suspicion puts two inside: p0 is inside, p1 suspects it, asks,
//! and enters. A crashed node that comes back knows nothing of the requests it has answered; it has
//! to join anew (`mutex/ricart-agrawala-membership`).

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{Case, Experiment, Fits, Given, SIZES, Scope};
use conclave_protocol::{
    Charge, Crashes, Ctx, Detector, Entry, Lamport, Model, Never, NodeId, NodeSet, Property,
    Protocol, Stamp,
};
use serde::{Deserialize, Serialize};

use super::{Notice, ORDERED, Request, SAFE, STAMPED};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RicartAgrawala {
    clock: Lamport,
    phase: Phase,
    /// Nodes that get their reply when we leave.
    deferred: NodeSet,
    /// Nodes that grant everything, being taken for dead.
    suspected: NodeSet,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Phase {
    Outside,
    Waiting { asked: Stamp, missing: NodeSet },
    Inside { asked: Stamp },
}

/// What nodes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// May I? I asked at this time.
    Request(Stamp),
    /// You may, as far as I am concerned. My clock is at this time; 0 says nothing.
    Reply(Stamp),
}

/// Which rules there are beside the first four, and what is wrong with these in a mutant.
#[derive(Clone, Copy, Debug, Default)]
pub struct Config {
    /// Rules 5 and 6.
    detector: bool,
    /// Replies carry no time.
    bare_reply: bool,
    mutation: Option<Mutation>,
}

/// What is wrong in a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutation {
    /// Rule 4 replies only to the first deferred node.
    NotifyOne,
    /// Rule 2 takes requests with equal times for each other's juniors.
    NoTieBreak,
}

impl Config {
    const DETECTOR: Self = Self { detector: true, ..Self::PLAIN };
    const BARE_REPLY: Self = Self { bare_reply: true, ..Self::PLAIN };
    const PLAIN: Self = Self { detector: false, bare_reply: false, mutation: None };

    const fn with(mutation: Mutation) -> Self {
        Self { mutation: Some(mutation), ..Self::PLAIN }
    }

    fn is(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }
}

impl Protocol for RicartAgrawala {
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
            deferred: NodeSet::new(),
            suspected: NodeSet::new(),
        }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            // Rule 1.
            Request::Acquire => {
                ctx.rule(1);
                let asked = self.clock.tick(ctx.me);
                let mut missing = ctx.peer_set();
                if self.suspected.is_empty() {
                    ctx.broadcast(Msg::Request(asked));
                } else {
                    missing = missing.iter().filter(|&j| !self.suspected.contains(j)).collect();
                    ctx.multicast(missing.iter(), Msg::Request(asked));
                }
                self.phase = Phase::Waiting { asked, missing };
                self.enter_if_all_replied(ctx);
            }
            // Rule 4.
            Request::Release => {
                ctx.rule(4);
                self.phase = Phase::Outside;
                let mut deferred = self.deferred.take();
                if ctx.config.is(Mutation::NotifyOne) {
                    deferred = deferred.first().into_iter().collect();
                }
                let reply = self.reply(ctx);
                ctx.multicast(deferred.iter(), reply);
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
                    Phase::Waiting { asked, .. } if ctx.config.is(Mutation::NoTieBreak) => {
                        asked.time < theirs.time
                    }
                    Phase::Waiting { asked, .. } => asked < theirs,
                    Phase::Inside { asked: _ } => true,
                };
                if defer {
                    self.deferred.insert(from);
                } else {
                    let reply = self.reply(ctx);
                    ctx.send(from, reply);
                }
            }
            // Rule 3.
            Msg::Reply(theirs) => {
                ctx.rule(3);
                self.clock.observe(theirs);
                self.on_consent(from, ctx);
            }
        }
    }

    /// Rule 5.
    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        if ctx.config.detector {
            ctx.rule(5);
            self.suspected.insert(peer);
            self.deferred.remove(peer);
            self.on_consent(peer, ctx);
        }
    }

    /// Rule 6.
    fn on_restore(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        if ctx.config.detector {
            ctx.rule(6);
            self.suspected.remove(peer);
        }
    }

    fn waits_for(&self, _: NodeId, _: &Config) -> NodeSet {
        match &self.phase {
            Phase::Waiting { missing, .. } => missing.clone(),
            Phase::Outside | Phase::Inside { .. } => NodeSet::new(),
        }
    }

    fn charge(msg: &Msg, _: NodeId, _: NodeId) -> Charge {
        match msg {
            Msg::Request(_) => Charge::Sender,
            Msg::Reply(_) => Charge::Receiver,
        }
    }
}

impl RicartAgrawala {
    fn reply(&self, ctx: &Ctx<Self>) -> Msg {
        let now = self.clock.now(ctx.me);
        Msg::Reply(if ctx.config.bare_reply { Stamp { time: 0, ..now } } else { now })
    }

    /// `peer` has said yes, or has crashed.
    fn on_consent(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        if let Phase::Waiting { missing, .. } = &mut self.phase {
            missing.remove(peer);
            self.enter_if_all_replied(ctx);
        }
    }

    fn enter_if_all_replied(&mut self, ctx: &mut Ctx<Self>) {
        if let Phase::Waiting { asked, missing } = &self.phase
            && missing.is_empty()
        {
            let asked = *asked;
            self.phase = Phase::Inside { asked };
            ctx.notify(Notice::Acquired { token: asked.token() });
        }
    }
}

/// The algorithm as published, but that replies carry the clock.
pub static PLAIN: Entry<RicartAgrawala> =
    Entry::new("mutex/ricart-agrawala", "Ricart–Agrawala", |_| Ok(Config::PLAIN))
        .summary("ask everybody; reply at once, or on leaving if older")
        .source(
            "Ricart, Agrawala. An optimal algorithm for mutual exclusion in computer networks. \
             CACM 24(1), 1981",
        )
        .text(include_str!("ricart_agrawala.rs"))
        .model(Model::RELIABLE)
        .holds(ORDERED)
        .claims(&[Check::new(3, ORDERED).requests(2)])
        .deep(&[Check::new(4, SAFE)])
        .cases(&[
            Case::new("idle", SIZES, Given::lone_among_equals).fits(&[Fits::LONE, Fits::EACH]),
            Case::new("idle-serial-medium", SIZES, |given| {
                given.lone_among_equals().into_iter().map(Experiment::serial).collect()
            })
            .fits(&[Fits::SERIAL]),
            Case::new("idle-hardware-multicast", SIZES, |given| {
                let lone = given.lone_among_equals().into_iter();
                lone.map(|experiment| experiment.about(Scope::Transmissions)).collect()
            }),
            Case::new("burst", SIZES, Given::all_at_once).fits(&[Fits::BURST]),
        ]);

/// The same, for a medium on which a message to all is one transmission: an entry takes N of them.
pub static MULTICAST: Entry<RicartAgrawala> = PLAIN
    .variant("mutex/ricart-agrawala-multicast", "Ricart–Agrawala by multicast")
    .summary("one multicast asks everybody; N transmissions an entry")
    .claims(&[Check::new(3, ORDERED)])
    .deep(&[Check::new(3, ORDERED).requests(2)])
    .cases(
        &[Case::of("mutex/ricart-agrawala", "idle-hardware-multicast").fits(&[Fits::MULTICAST])],
    );

/// With a perfect failure detector, a crashed node grants everything.
pub static FD: Entry<RicartAgrawala> = PLAIN
    .variant("mutex/ricart-agrawala-fd", "Ricart–Agrawala with a failure detector")
    .summary("a crashed node grants everything")
    .source(
        "Ricart, Agrawala. An optimal algorithm for mutual exclusion in computer networks. CACM \
         24(1), 1981, section on node failures",
    )
    .model(Model { crashes: Crashes::Stop, detector: Detector::Perfect, ..Model::RELIABLE })
    .config(|_| Ok(Config::DETECTOR))
    .claims(&[Check::new(3, ORDERED).crashes(1)])
    .deep(&[Check::new(3, ORDERED).crashes(2)]);

/// Replies carry no time, as they were first published.
pub static BARE_REPLY: Entry<RicartAgrawala> = PLAIN
    .variant("mutex/ricart-agrawala-bare-reply", "Ricart–Agrawala with bare replies")
    .summary("as first published: a reply says yes and nothing else")
    .holds(STAMPED)
    .fails(&[(
        Property::FcfsHappenedBefore,
        "p0 asks, and hears of no other node's request; p1 learns of p0's by a reply that names no \
         time, asks with an equal or lower time than p0, and goes first",
    )])
    .config(|_| Ok(Config::BARE_REPLY))
    .claims(&[
        Check::new(3, STAMPED).requests(2),
        Check::new(3, &[Property::FcfsHappenedBefore]).requests(2).fails(13),
    ])
    .deep(&[Check::new(4, SAFE)]);

/// Rule 4 replies to one deferred node only.
pub static NOTIFY_ONE: Entry<RicartAgrawala> = PLAIN
    .variant("mutex/ra-notify-one", "Ricart–Agrawala, replying to one")
    .summary("on leaving, only the first of the deferred gets its reply")
    .mutant(
        "mutex/ricart-agrawala",
        "rule 4 replies only to the first deferred node",
        Property::NoDeadlock,
    )
    .holds(&[Property::Exclusion])
    .config(|_| Ok(Config::with(Mutation::NotifyOne)))
    .claims(&[
        Check::new(3, &[Property::Exclusion]).requests(2),
        Check::new(3, &[Property::NoDeadlock]).fails(14),
    ]);

/// Rule 2 does not break ties by id.
pub static NO_TIE_BREAK: Entry<RicartAgrawala> = PLAIN
    .variant("mutex/ra-no-tie-break", "Ricart–Agrawala without tie-break")
    .summary("of two requests with the same time, each yields to the other")
    .mutant(
        "mutex/ricart-agrawala",
        "rule 2 compares times only, so that equal ones both get their replies",
        Property::Exclusion,
    )
    .config(|_| Ok(Config::with(Mutation::NoTieBreak)))
    .claims(&[
        Check::new(2, &[Property::Exclusion]).fails(6),
        Check::new(3, &[Property::Exclusion]).fails(10),
    ])
    .deep(&[Check::new(4, &[Property::Exclusion]).requests(2).fails(14)]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect};

    use super::*;

    #[test]
    fn of_two_who_ask_at_once_the_lower_id_goes_first() {
        let mut bench = Bench::complete(&PLAIN, 3);
        let stamp = |node| Stamp { time: 1, node: NodeId(node) };
        let asked = bench.at(0).request(Request::Acquire);
        assert_eq!(asked, [Effect::Broadcast(Msg::Request(stamp(0)))]);
        // Rule 2: p2 asked at the same time and has the higher id.
        assert_eq!(bench.at(0).message(2, Msg::Request(stamp(2))), []);
        assert_eq!(bench.at(0).message(1, Msg::Reply(stamp(1))), []);
        let entered = bench.at(0).message(2, Msg::Reply(stamp(2)));
        assert_eq!(entered, [Effect::Notify(Notice::Acquired { token: stamp(0).token() })]);
        let left = bench.at(0).request(Request::Release);
        assert_eq!(left, [Effect::Send { to: NodeId(2), msg: Msg::Reply(stamp(0)) }]);
    }
}
