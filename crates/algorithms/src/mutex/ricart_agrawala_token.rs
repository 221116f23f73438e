//! There is one token, and the node that has it may enter. A node without it asks every other node
//! for it; the holder, when outside, sends it to the next node on the circle of ids that has asked
//! and not been served since. The token itself says which request of each node was the last served.
//!
//! There is one token, so there is one inside. The holder looks for the next one upwards from its
//! own id, so the token goes round among the waiting nodes and passes none over.
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
//! hops. All N at once: N(N − 1), since the holder asks no node. One hop from one to the next.
//!
//! # Known failures
//!
//! The loss of the token, or the crash of the node that has it, stops all nodes. A node whose
//! request is lost on the way to the holder may wait for ever. Order is by place on the circle, not
//! by time.

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{Case, Fits, Given, SIZES};
use conclave_protocol::{
    Charge, Ctx, Entry, Lamport, Model, Never, NodeId, Property, Protocol, Setup, Stamp, Unfit,
};
use serde::{Deserialize, Serialize};

use super::{HOLDER, LOCK, Notice, Request};

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

/// What nodes send each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// I want the token, since this time.
    Request(Stamp),
    /// Here it is.
    Token(Token),
}

/// Which node starts with the token.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    holder: NodeId,
}

impl Protocol for RicartAgrawalaToken {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Never;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        let none = vec![0; ctx.n() as usize];
        let here = ctx.me == ctx.config.holder;
        Self {
            clock: Lamport::default(),
            phase: Phase::Outside,
            token: here.then(|| Token { served: none.clone(), entries: 0 }),
            heard: none,
        }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            // Rule 1.
            Request::Acquire if self.token.is_some() => {
                ctx.rule(1);
                self.enter(ctx);
            }
            Request::Acquire => {
                ctx.rule(1);
                self.phase = Phase::Waiting;
                let asked = self.clock.tick(ctx.me);
                ctx.broadcast(Msg::Request(asked));
            }
            // Rule 4.
            Request::Release => {
                ctx.rule(4);
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
            // Rule 2.
            Msg::Request(asked) => {
                ctx.rule(2);
                self.clock.observe(asked);
                let heard = &mut self.heard[from.index()];
                *heard = asked.time.max(*heard);
                if self.phase == Phase::Outside {
                    self.pass_on(ctx);
                }
            }
            // Rule 3.
            Msg::Token(token) => {
                ctx.rule(3);
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
        let token = self.token.as_mut().expect("only the node that has the token enters");
        self.phase = Phase::Inside;
        token.entries += 1;
        ctx.notify(Notice::Acquired { token: token.entries });
    }

    /// Rule 4: sends the token, if it is here, to the next node that waits for it, if one does.
    fn pass_on(&mut self, ctx: &mut Ctx<Self>) {
        let Some(token) = &self.token else { return };
        let waits = |node: &NodeId| self.heard[node.index()] > token.served[node.index()];
        let mut upwards = (1..ctx.n()).map(|step| NodeId((ctx.me.0 + step) % ctx.n()));
        if let Some(next) = upwards.find(waits)
            && let Some(token) = self.token.take()
        {
            ctx.rule(4);
            ctx.send(next, Msg::Token(token));
        }
    }
}

/// The algorithm as published.
pub static PLAIN: Entry<RicartAgrawalaToken> =
    Entry::new("mutex/ricart-agrawala-token", "Ricart–Agrawala with a token", config)
        .summary("ask everybody for the token; it goes to the next who asked, by id")
        .source(
            "Ricart, Agrawala. Author's response to \"On mutual exclusion in computer networks\". \
             CACM 26(2), 1983",
        )
        .text(include_str!("ricart_agrawala_token.rs"))
        .model(Model::RELIABLE)
        .holds(LOCK)
        .fails(&[(
            Property::FcfsHappenedBefore,
            "p1 asks; p2 hears of it and asks too; its request reaches the holder first",
        )])
        .options(&[HOLDER])
        .claims(&[
            Check::new(3, LOCK),
            Check::new(2, LOCK).requests(2),
            Check::new(3, &[Property::FcfsHappenedBefore]).fails(5),
        ])
        .deep(&[Check::new(3, LOCK).requests(2)])
        .cases(&[
            Case::new("non-holder", SIZES, Given::lone_non_holder)
                .fits(&[Fits::ELSEWHERE, Fits::AT_MOST]),
            Case::new("holder", SIZES, |given| given.lone(given.complete(), 0))
                .fits(&[Fits::AT_HOLDER]),
        ]);

fn config(setup: &Setup) -> Result<Config, Unfit> {
    Ok(Config { holder: super::holder(setup)? })
}

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect, Topology};

    use super::*;

    #[test]
    fn on_leaving_the_token_goes_to_the_next_waiting_node_upwards_on_the_circle() {
        let mut bench = Bench::new(&PLAIN, &Setup::new(Topology::complete(4)).with("holder", 1));
        let stamp = |time, node| Stamp { time, node: NodeId(node) };
        bench.at(1).request(Request::Acquire);
        assert_eq!(bench.at(1).message(0, Msg::Request(stamp(1, 0))), []);
        assert_eq!(bench.at(1).message(3, Msg::Request(stamp(2, 3))), []);
        let left = bench.at(1).request(Request::Release);
        let token = Token { served: vec![0, 2, 0, 0], entries: 1 };
        assert_eq!(left, [Effect::Send { to: NodeId(3), msg: Msg::Token(token) }]);
    }
}
