//! Ricart–Agrawala that survives crashes: a node that the failure detector suspects counts as
//! having said yes to everybody, now and until it is trusted again.
//!
//! It is as safe as Ricart–Agrawala while the detector is perfect: a suspected node has crashed and
//! is not inside, and will not be. A node that crashed inside is thereby passed over; what it left
//! half done is for the application to repair, and its late writes are for the fencing token to
//! keep out.
//!
//! # Rules
//!
//! 1. Acquire: tick the clock, take its time as the request's timestamp, send `Request` to all that
//!    are not suspected.
//! 2. `Request` from j: merge its time into the clock. Inside, or waiting with an older request:
//!    defer j. Otherwise send `Reply` to j.
//! 3. `Reply`: merge its time into the clock; enter when nobody's is missing.
//! 4. Release: send `Reply` to all deferred nodes.
//! 5. Suspect j: its reply is not missing any more, nor is ours to it.
//! 6. Trust j: it is asked again from the next request on.
//!
//! # Cost
//!
//! With L nodes alive and the others known to be dead: exactly 2(L − 1) messages an entry, two
//! hops. A request to a node that is dead and not yet suspected is one message more.
//!
//! # Known failures
//!
//! One wrong suspicion puts two inside: p0 is inside, p1 suspects it, asks, and enters. A crashed
//! node that comes back knows nothing of the requests it has answered; it has to join anew
//! (`mutex/ricart-agrawala-membership`).

use conclave_protocol::{
    Charge, Crashes, Ctx, Detector, Entry, Info, Lamport, Model, Never, NodeId, NodeSet, Property,
    Protocol, Stamp,
};
use serde::{Deserialize, Serialize};

use super::{Notice, Request};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RicartAgrawalaFd {
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
    Inside,
}

/// What nodes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// May I? I asked at this time.
    Request(Stamp),
    /// You may, as far as I am concerned. My clock is at this time.
    Reply(Stamp),
}

/// The algorithm with a perfect failure detector.
pub static PLAIN: Entry<RicartAgrawalaFd> = Entry {
    info: Info {
        id: "mutex/ricart-agrawala-fd",
        title: "Ricart–Agrawala with a failure detector",
        summary: "a crashed node grants everything",
        source: "Ricart, Agrawala. An optimal algorithm for mutual exclusion in computer \
                 networks. CACM 24(1), 1981, section on node failures",
        text: include_str!("ricart_agrawala_fd.rs"),
        model: Model { crashes: Crashes::Stop, detector: Detector::Perfect, ..Model::RELIABLE },
        holds: &[
            Property::Exclusion,
            Property::NoDeadlock,
            Property::NoStarvation,
            Property::FcfsHappenedBefore,
            Property::FcfsTimestamp,
            Property::FenceOrder,
        ],
        fails: &[],
        options: &[],
        mutant: None,
    },
    config: |_| Ok(()),
    clients: Entry::<RicartAgrawalaFd>::everyone,
};

impl Protocol for RicartAgrawalaFd {
    type Config = ();
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
            Request::Acquire => {
                let asked = self.clock.tick(ctx.me);
                let missing: NodeSet =
                    ctx.peers().filter(|&peer| !self.suspected.contains(peer)).collect();
                ctx.multicast(missing.iter(), Msg::Request(asked));
                self.phase = Phase::Waiting { asked, missing };
                self.enter_if_all_replied(ctx);
            }
            Request::Release => {
                self.phase = Phase::Outside;
                let deferred = self.deferred.take();
                ctx.multicast(deferred.iter(), Msg::Reply(self.clock.now(ctx.me)));
            }
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            Msg::Request(theirs) => {
                self.clock.observe(theirs);
                let defer = match self.phase {
                    Phase::Outside => false,
                    Phase::Waiting { asked, .. } => asked < theirs,
                    Phase::Inside => true,
                };
                if defer {
                    self.deferred.insert(from);
                } else {
                    ctx.send(from, Msg::Reply(self.clock.now(ctx.me)));
                }
            }
            Msg::Reply(theirs) => {
                self.clock.observe(theirs);
                self.on_consent(from, ctx);
            }
        }
    }

    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        self.suspected.insert(peer);
        self.deferred.remove(peer);
        self.on_consent(peer, ctx);
    }

    fn on_restore(&mut self, peer: NodeId, _: &mut Ctx<Self>) {
        self.suspected.remove(peer);
    }

    fn charge(msg: &Msg, _: NodeId, _: NodeId) -> Charge {
        match msg {
            Msg::Request(_) => Charge::Sender,
            Msg::Reply(_) => Charge::Receiver,
        }
    }
}

impl RicartAgrawalaFd {
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
            let token = asked.token();
            self.phase = Phase::Inside;
            ctx.notify(Notice::Acquired { token });
        }
    }
}
