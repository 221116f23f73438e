//! Every node points to the node that, as far as it knows, was the last to ask; following the
//! pointers leads to the node that really was. A request goes along them, and every node it passes
//! then points to the requester. The last to ask keeps the token until the next request comes, and
//! hands it on directly.
//!
//! There is one token, so there is one inside. Each request ends at the last one before it, so
//! requests form a chain, in which the token passes from each to the next. Pointers only ever turn
//! towards a later request, so they have no cycle and every request finds its end.
//!
//! # Rules
//!
//! 1. Acquire: having been the last to ask, enter: the token is here. Otherwise send `Request`
//!    along the pointer and become the last to ask.
//! 2. `Request` of k: if this node is the last to ask, k comes after it: waiting or inside, remember
//!    k as the next; otherwise send `Token` to k. If it is not, pass the request on along the
//!    pointer. Either way point to k.
//! 3. `Token`: enter.
//! 4. Release: if there is a next, send it `Token`.
//!
//! # Cost
//!
//! 0 to N messages an entry, on average of the order of log N; the node that has the token enters
//! for nothing. From the initial star the first request of another takes two. One hop from one to
//! the next that waits; leaving costs nothing else.
//!
//! # Known failures
//!
//! A lost token, or the crash of its holder, stops every node. A crashed node swallows the requests
//! that come along pointers through it. Order is that in which requests meet, not that in which they
//! were made: of two, the one with the quicker way goes first.

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{Case, Fits, Given, SIZES};
use conclave_protocol::{
    Charge, Ctx, Entry, Model, Never, NodeId, Property, Protocol, Setup, Unfit,
};
use serde::{Deserialize, Serialize};

use super::{HOLDER, LOCK, Notice, Request};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NaimiTrehel {
    /// Probably the last to ask; `None` if it is this node.
    last: Option<NodeId>,
    /// The node that gets the token when this one leaves.
    next: Option<NodeId>,
    /// Waiting or inside.
    requesting: bool,
    /// The token, if it is here: how many entries it has given.
    token: Option<u64>,
}

/// What nodes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// This node wants the token.
    Request(NodeId),
    /// The right to enter, with the number of entries it has given.
    Token {
        /// Entries so far: the fencing token of the latest.
        entries: u64,
    },
}

/// Which node starts with the token.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    holder: NodeId,
}

impl Protocol for NaimiTrehel {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Never;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        let holder = ctx.config.holder;
        let here = ctx.me == holder;
        Self {
            last: (!here).then_some(holder),
            next: None,
            requesting: false,
            token: here.then_some(0),
        }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            // Rule 1.
            Request::Acquire => {
                ctx.rule(1);
                self.requesting = true;
                match self.last.take() {
                    Some(last) => ctx.send(last, Msg::Request(ctx.me)),
                    None => self.enter(ctx),
                }
            }
            // Rule 4.
            Request::Release => {
                ctx.rule(4);
                self.requesting = false;
                if let Some(next) = self.next.take() {
                    self.hand_over(next, ctx);
                }
            }
        }
    }

    fn on_message(&mut self, _: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            // Rule 2.
            Msg::Request(k) => {
                if k == ctx.me || k.0 >= ctx.n() {
                    return;
                }
                ctx.rule(2);
                match self.last.replace(k) {
                    Some(last) => ctx.send(last, Msg::Request(k)),
                    None if self.requesting => self.next = Some(k),
                    None => self.hand_over(k, ctx),
                }
            }
            // Rule 3.
            Msg::Token { entries } => {
                if self.requesting && self.token.is_none() {
                    ctx.rule(3);
                    self.token = Some(entries);
                    self.enter(ctx);
                }
            }
        }
    }

    fn charge(msg: &Msg, _: NodeId, _: NodeId) -> Charge {
        match *msg {
            Msg::Request(k) => Charge::Node(k),
            Msg::Token { .. } => Charge::Receiver,
        }
    }
}

impl NaimiTrehel {
    fn enter(&mut self, ctx: &mut Ctx<Self>) {
        if let Some(entries) = &mut self.token {
            *entries += 1;
            ctx.notify(Notice::Acquired { token: *entries });
        }
    }

    fn hand_over(&mut self, to: NodeId, ctx: &mut Ctx<Self>) {
        if let Some(entries) = self.token.take() {
            ctx.send(to, Msg::Token { entries });
        }
    }
}

/// The algorithm as published.
pub static PLAIN: Entry<NaimiTrehel> = Entry::new("mutex/naimi-trehel", "Naimi–Tréhel", config)
    .summary("ask along pointers to the last who asked; each path turns towards the asker")
    .source(
        "Naimi, Trehel, Arnold. A log(N) distributed mutual exclusion algorithm based on path \
         reversal. JPDC 34(1), 1996",
    )
    .text(include_str!("naimi_trehel.rs"))
    .model(Model::RELIABLE)
    .holds(LOCK)
    .fails(&[(
        Property::FcfsHappenedBefore,
        "p0, inside, passes p1's request on to the last who asked, and on leaving the token to p3; \
         p3 enters, leaves and asks again, and its request gets there first",
    )])
    .options(&[HOLDER])
    .claims(&[
        Check::new(3, LOCK).requests(2),
        Check::new(4, LOCK).requests(2),
        Check::new(3, &[Property::FcfsHappenedBefore]).requests(2).fails(9),
    ])
    .deep(&[Check::new(5, LOCK)])
    .cases(&[Case::new("first", SIZES, Given::lone_non_holder).fits(&[Fits::ELSEWHERE])]);

fn config(setup: &Setup) -> Result<Config, Unfit> {
    Ok(Config { holder: super::holder(setup)? })
}

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect};

    use super::*;

    #[test]
    fn the_holder_remembers_one_request_and_passes_the_others_on_to_the_latest() {
        let mut bench = Bench::complete(&PLAIN, 4);
        let entered = bench.at(0).request(Request::Acquire);
        assert_eq!(entered, [Effect::Notify(Notice::Acquired { token: 1 })]);
        assert_eq!(bench.at(0).message(1, Msg::Request(NodeId(1))), []);
        let passed_on = bench.at(0).message(2, Msg::Request(NodeId(3)));
        assert_eq!(passed_on, [Effect::Send { to: NodeId(1), msg: Msg::Request(NodeId(3)) }]);
        let left = bench.at(0).request(Request::Release);
        assert_eq!(left, [Effect::Send { to: NodeId(1), msg: Msg::Token { entries: 1 } }]);
    }
}
