//! One token gives the right to enter. A node that requests and does not have it tells every other
//! node, with the number of its request. The token carries the number of the last request served for
//! each node, so that its holder can tell which requests are still open; on leaving, the holder puts
//! them into the token's queue and sends it to the head.
//!
//! There is one token, so there is one inside. A request that all nodes have heard of is in the
//! queue after the next exit at the latest, and the queue is served in order: each of the others
//! gets in at most once before it. Numbers make a request that arrives late, or after its
//! successor, harmless.
//!
//! # Rules
//!
//! 1. Acquire: with the token here, enter. Otherwise number the request and send `Request` to all.
//! 2. `Request` number n of j: remember the highest. If the token is idle here and this is the
//!    request after the last one served for j, send `Token` to j.
//! 3. `Token`: enter.
//! 4. Release: note the own request as served; append to the queue every node with an open request
//!    that is not in it, going round from the next id; if the queue is not empty, send `Token` to
//!    its head.
//!
//! # Cost
//!
//! With the token, nothing. Otherwise exactly N messages, N − 1 requests and the token, in two
//! hops. All N at once: N(N − 1), since the holder asks no node. One hop from one to the next.
//!
//! # Known failures
//!
//! A lost token, or the crash of its holder, stops all nodes; a lost request stops the node that
//! made it; the crash of any other node matters only once the token is sent to it. Order is by place
//! and not by time: the queue is filled by going round, and the holder enters without asking.

use std::collections::{BTreeMap, VecDeque};

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{Case, Fits, Given, SIZES};
use conclave_protocol::{
    Charge, Ctx, Entry, Model, Never, NodeId, Property, Protocol, Setup, Unfit,
};
use serde::{Deserialize, Serialize};

use super::{HOLDER, LOCK, Notice, Request};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SuzukiKasami {
    /// The number of the latest request heard of, by node; 0 if not listed.
    requested: BTreeMap<NodeId, u64>,
    token: Option<Token>,
    inside: bool,
}

/// The right to enter, and the nodes that are to have it next.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Token {
    /// The number of the latest request served, by node; 0 if not listed.
    served: BTreeMap<NodeId, u64>,
    queue: VecDeque<NodeId>,
    /// Entries so far: the fencing token of the latest.
    entries: u64,
}

/// What nodes send each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// I want the token, for the time with this number.
    Request(u64),
    /// Here it is.
    Token(Token),
}

/// Which node starts with the token.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    holder: NodeId,
}

impl Protocol for SuzukiKasami {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Never;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        let token = (ctx.me == ctx.config.holder).then(|| Token {
            served: BTreeMap::new(),
            queue: VecDeque::new(),
            entries: 0,
        });
        Self { requested: BTreeMap::new(), token, inside: false }
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
                let number = self.requested.entry(ctx.me).or_default();
                *number += 1;
                ctx.broadcast(Msg::Request(*number));
            }
            // Rule 4.
            Request::Release => {
                ctx.rule(4);
                self.leave(ctx);
            }
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            // Rule 2.
            Msg::Request(n) => {
                ctx.rule(2);
                let latest = n.max(number(&self.requested, from));
                self.requested.insert(from, latest);
                let open = |token: &mut Token| latest == number(&token.served, from) + 1;
                if !self.inside
                    && let Some(token) = self.token.take_if(open)
                {
                    ctx.send(from, Msg::Token(token));
                }
            }
            // Rule 3.
            Msg::Token(token) => {
                if self.token.is_none() && token.queue.iter().all(|node| node.0 < ctx.n()) {
                    ctx.rule(3);
                    self.token = Some(token);
                    self.enter(ctx);
                }
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

impl SuzukiKasami {
    fn enter(&mut self, ctx: &mut Ctx<Self>) {
        if let Some(token) = &mut self.token {
            self.inside = true;
            token.entries += 1;
            ctx.notify(Notice::Acquired { token: token.entries });
        }
    }

    fn leave(&mut self, ctx: &mut Ctx<Self>) {
        self.inside = false;
        let Some(mut token) = self.token.take() else { return };
        token.served.insert(ctx.me, number(&self.requested, ctx.me));
        for node in (ctx.me.0 + 1..ctx.n()).chain(0..ctx.me.0).map(NodeId) {
            let open = number(&self.requested, node) == number(&token.served, node) + 1;
            if open && !token.queue.contains(&node) {
                token.queue.push_back(node);
            }
        }
        match token.queue.pop_front() {
            Some(next) => ctx.send(next, Msg::Token(token)),
            None => self.token = Some(token),
        }
    }
}

fn number(of: &BTreeMap<NodeId, u64>, node: NodeId) -> u64 {
    of.get(&node).copied().unwrap_or(0)
}

/// The algorithm as published.
pub static PLAIN: Entry<SuzukiKasami> = Entry::new("mutex/suzuki-kasami", "Suzuki–Kasami", config)
    .summary("tell everybody; the token knows who has been served and who waits")
    .source("Suzuki, Kasami. A distributed mutual exclusion algorithm. ACM TOCS 3(4), 1985")
    .text(include_str!("suzuki_kasami.rs"))
    .model(Model::RELIABLE)
    .holds(LOCK)
    .fails(&[(
        Property::FcfsHappenedBefore,
        "p1 asks and p2, having heard of it, asks too; p1's request is slow on its way to p0, \
         which has the token and sends it to p2",
    )])
    .options(&[HOLDER])
    .claims(&[
        Check::new(3, LOCK).requests(2),
        Check::new(3, &[Property::FcfsHappenedBefore]).fails(5),
    ])
    .deep(&[Check::new(4, LOCK)])
    .cases(&[
        Case::new("non-holder", SIZES, Given::lone_non_holder)
            .fits(&[Fits::ELSEWHERE, Fits::AT_MOST]),
        Case::new("holder", SIZES, |given| given.lone(given.complete(), 0))
            .fits(&[Fits::AT_HOLDER]),
        Case::new("burst", SIZES, Given::all_at_once).fits(&[Fits::BURST]),
    ]);

fn config(setup: &Setup) -> Result<Config, Unfit> {
    Ok(Config { holder: super::holder(setup)? })
}

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect, Topology};

    use super::*;

    #[test]
    fn the_token_leaves_with_the_queue_of_all_open_requests_from_the_next_id_on() {
        let mut bench = Bench::new(&PLAIN, &Setup::new(Topology::complete(4)).with("holder", 1));
        bench.at(1).request(Request::Acquire);
        for node in [3, 0] {
            assert_eq!(bench.at(1).message(node, Msg::Request(1)), []);
        }
        let left = bench.at(1).request(Request::Release);
        let served = BTreeMap::from([(NodeId(1), 0)]);
        let token = Token { served, queue: [NodeId(0)].into(), entries: 1 };
        assert_eq!(left, [Effect::Send { to: NodeId(3), msg: Msg::Token(token) }]);
    }

    #[test]
    fn an_old_request_that_arrives_late_does_not_move_the_token() {
        let mut bench = Bench::complete(&PLAIN, 2);
        assert_eq!(bench.at(0).message(1, Msg::Request(2)), []);
        assert_eq!(bench.at(0).message(1, Msg::Request(1)), []);
        assert_eq!(bench.at(0).rules(), [2]);
    }
}
