//! There is one token, and who has it may enter. A node without it asks everybody for it; whoever
//! has it and does not need it sends it to the next node on the circle of ids that has asked and
//! not been served since. The token itself says which request of each node was the last served.
//!
//! There is one token, so there is one inside. The holder looks for the next one upwards from its
//! own id, so the token goes round among those who wait, and comes by everybody.
//!
//! # Rules
//!
//! 1. Acquire: with the token, enter. Otherwise tick the clock and send `Request` with its time to
//!    all.
//! 2. `Request` from j: remember the highest time heard from j and merge it into the clock. With
//!    the token and outside, pass it on (rule 4).
//! 3. `Token`: enter.
//! 4. Release: note in the token that our request is served. The first node from here upwards, and
//!    round to here, that has asked for more than the token says it got, is sent the token.
//!
//! # Cost
//!
//! With the token, nothing. Otherwise exactly N messages, N − 1 requests and the token, in two
//! hops. All N at once: N(N − 1), since the holder asks nobody. One hop from one to the next.
//!
//! # Known failures
//!
//! The loss of the token, or the crash of the node that has it, stops everybody. A node whose
//! request is lost on the way to the holder may wait for ever. Order is by place on the circle, not
//! by time.

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{Case, Fits, Given, SIZES};
use conclave_protocol::{
    Charge, Ctx, Entry, Info, Lamport, Model, Never, NodeId, Property, Protocol, Stamp,
};
use serde::{Deserialize, Serialize};

use super::{LOCK, Notice, Request};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RicartAgrawalaToken {
    clock: Lamport,
    phase: Phase,
    /// The time of the latest request heard from each node.
    heard: Vec<u64>,
    /// The token, if it is here.
    token: Option<Token>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Phase {
    Outside,
    Waiting,
    Inside,
}

/// The right to enter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Token {
    /// Up to what time the requests of each node have been served.
    served: Vec<u64>,
    /// Entries so far: the fencing token of the latest.
    entries: u64,
}

/// Who starts with the token.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    holder: NodeId,
}

/// What nodes send each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// I want the token, since this time.
    Request(Stamp),
    /// Here it is.
    Token(Token),
}

/// The algorithm as published.
pub static PLAIN: Entry<RicartAgrawalaToken> = Entry {
    info: Info {
        id: "mutex/ricart-agrawala-token",
        title: "Ricart–Agrawala with a token",
        summary: "ask everybody for the token; it goes to the next who asked, by id",
        source: "Ricart, Agrawala. Author's response to \"On mutual exclusion in computer \
                 networks\". CACM 26(2), 1983",
        text: include_str!("ricart_agrawala_token.rs"),
        model: Model::RELIABLE,
        holds: &[
            Property::Exclusion,
            Property::NoDeadlock,
            Property::NoStarvation,
            Property::FenceOrder,
        ],
        fails: &[(
            Property::FcfsHappenedBefore,
            "p1 asks; p2 hears of it and asks too; its request reaches the holder first",
        )],
        options: &[super::HOLDER],
        mutant: None,
        claims: &[
            Check::new(3, LOCK),
            Check::new(2, LOCK).requests(2),
            Check::new(3, &[Property::FcfsHappenedBefore]).fails(5),
        ],
        deep: &[Check::new(3, LOCK).requests(2)],
        cases: &[
            Case::new("non-holder", SIZES, Given::lone_non_holder)
                .fits(&[Fits::ELSEWHERE, Fits::AT_MOST]),
            Case::new("holder", SIZES, |given| given.lone(given.complete(), 0))
                .fits(&[Fits::AT_HOLDER]),
        ],
        ..Info::EMPTY
    },
    config: |setup| Ok(Config { holder: super::holder(setup)? }),
    clients: Entry::<RicartAgrawalaToken>::everyone,
};

impl Protocol for RicartAgrawalaToken {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Never;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        let nobody = vec![0; ctx.n() as usize];
        let here = ctx.me == ctx.config.holder;
        Self {
            clock: Lamport::default(),
            phase: Phase::Outside,
            token: here.then(|| Token { served: nobody.clone(), entries: 0 }),
            heard: nobody,
        }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            Request::Acquire if self.token.is_some() => self.enter(ctx),
            Request::Acquire => {
                self.phase = Phase::Waiting;
                let asked = self.clock.tick(ctx.me);
                ctx.broadcast(Msg::Request(asked));
            }
            Request::Release => {
                self.phase = Phase::Outside;
                if let Some(token) = &mut self.token {
                    token.served[ctx.me.index()] = self.clock.time();
                }
                self.pass_on(ctx);
            }
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            Msg::Request(asked) => {
                self.clock.observe(asked);
                let heard = &mut self.heard[from.index()];
                *heard = asked.time.max(*heard);
                if self.phase == Phase::Outside {
                    self.pass_on(ctx);
                }
            }
            Msg::Token(token) => {
                self.token = Some(token);
                self.enter(ctx);
            }
        }
    }

    fn charge(msg: &Msg, _: NodeId, _: NodeId) -> Charge {
        match msg {
            Msg::Request(_) => Charge::Sender,
            Msg::Token(_) => Charge::Receiver,
        }
    }
}

impl RicartAgrawalaToken {
    fn enter(&mut self, ctx: &mut Ctx<Self>) {
        let token = self.token.as_mut().expect("only who has the token enters");
        self.phase = Phase::Inside;
        token.entries += 1;
        ctx.notify(Notice::Acquired { token: token.entries });
    }

    /// Sends the token, if it is here, to the next node that waits for it, if one does.
    fn pass_on(&mut self, ctx: &mut Ctx<Self>) {
        let Some(token) = &self.token else { return };
        let waits = |node: &NodeId| self.heard[node.index()] > token.served[node.index()];
        let mut upwards = (1..ctx.n()).map(|step| NodeId((ctx.me.0 + step) % ctx.n()));
        if let Some(next) = upwards.find(waits)
            && let Some(token) = self.token.take()
        {
            ctx.send(next, Msg::Token(token));
        }
    }
}
