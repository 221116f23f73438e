//! Ricart–Agrawala by the conventions of the reference model, as a
//! [`Protocol`]: what [`actors`](crate::actors) and
//! [`packed`](crate::packed) describe, for whatever drives protocols.

use conclave_algorithms::mutex::{Notice, Request};
use conclave_protocol::{
    Ctx, Entry, Info, Model, Mutant, Never, NodeId, NodeSet, Property, Protocol, Stamp,
};
use serde::{Deserialize, Serialize};

/// The state of a node. The number of requests it still has to make is its application's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reference {
    /// The highest time used or seen.
    high: u64,
    phase: Phase,
    deferred: NodeSet,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Phase {
    Idle,
    Waiting { asked: Stamp, missing: NodeSet },
    Inside { asked: Stamp },
}

/// What nodes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// May I? I asked at this time.
    Request(u64),
    /// You may.
    Reply,
}

/// Which rule is spoilt.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Of two requests with the same time, the one of the lower id is the older. Otherwise each
    /// yields to the other.
    tie_break: bool,
}

/// The algorithm.
pub static REFERENCE: Entry<Reference> = Entry {
    info: Info {
        id: "oracle/ricart-agrawala",
        title: "Ricart–Agrawala, the reference model",
        summary: "replies carry no time",
        source: "Ricart, Agrawala. An optimal algorithm for mutual exclusion in computer \
                 networks. CACM 24(1), 1981",
        text: include_str!("reference.rs"),
        model: Model::FIFO,
        holds: &[Property::Exclusion, Property::NoDeadlock, Property::NoStarvation],
        fails: &[],
        options: &[],
        mutant: None,
        ..Info::EMPTY
    },
    config: |_| Ok(Config { tie_break: true }),
    clients: Entry::<Reference>::everyone,
};

/// Requests with the same time are granted to each other.
pub static NO_TIE_BREAK: Entry<Reference> = Entry {
    info: Info {
        id: "oracle/ra-no-tie-break",
        title: "Ricart–Agrawala without tie-break, the reference model",
        summary: "of two requests with the same time, each yields to the other",
        holds: &[],
        mutant: Some(Mutant {
            of: "oracle/ricart-agrawala",
            defect: "times are compared without ids",
            breaks: Property::Exclusion,
        }),
        ..REFERENCE.info
    },
    config: |_| Ok(Config { tie_break: false }),
    ..REFERENCE
};

impl Protocol for Reference {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Never;
    type Stable = Never;

    fn start(_: Option<Never>, _: &mut Ctx<Self>) -> Self {
        Self { high: 0, phase: Phase::Idle, deferred: NodeSet::new() }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            Request::Acquire => {
                self.high += 1;
                let asked = Stamp { time: self.high, node: ctx.me };
                self.phase = Phase::Waiting { asked, missing: ctx.peer_set() };
                ctx.broadcast(Msg::Request(asked.time));
            }
            Request::Release => {
                self.phase = Phase::Idle;
                ctx.multicast(self.deferred.take().iter(), Msg::Reply);
            }
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            Msg::Request(time) => {
                self.high = self.high.max(time);
                let defer = match self.phase {
                    Phase::Idle => false,
                    Phase::Waiting { asked, .. } if !ctx.config.tie_break => asked.time < time,
                    Phase::Waiting { asked, .. } => asked < Stamp { time, node: from },
                    Phase::Inside { .. } => true,
                };
                if defer {
                    self.deferred.insert(from);
                } else {
                    ctx.send(from, Msg::Reply);
                }
            }
            Msg::Reply => {
                if let Phase::Waiting { asked, missing } = &mut self.phase {
                    let asked = *asked;
                    missing.remove(from);
                    if missing.is_empty() {
                        self.phase = Phase::Inside { asked };
                        ctx.notify(Notice::Acquired { token: asked.token() });
                    }
                }
            }
        }
    }
}
