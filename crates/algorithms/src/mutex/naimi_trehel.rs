//! Every node points to the node that, as far as it knows, was the last to ask; following the
//! pointers leads to the one who really was. A request goes along them, and every node it passes
//! then points to the one who asked. The last to ask keeps the token until the next one's request
//! comes, and hands it on directly.
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
//! 0 to N messages an entry, on average of the order of log N; the one that has the token enters
//! for nothing. From the initial star the first request of another takes two. One hop from one to
//! the next that waits; leaving costs nothing else.
//!
//! # Known failures
//!
//! A lost token, or the crash of its holder, stops everything. A crashed node swallows every
//! request that comes along pointers through it. Order is that in which requests meet, not that in
//! which they were made: of two, the one with the quicker way goes first.

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{Case, Fits, Given, SIZES};
use conclave_protocol::{Charge, Ctx, Entry, Info, Model, Never, NodeId, Property, Protocol};
use serde::{Deserialize, Serialize};

use super::{LOCK, Notice, Request};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NaimiTrehel {
    /// Probably the last to ask; `None` if it is this node.
    last: Option<NodeId>,
    /// Who gets the token when this node leaves.
    next: Option<NodeId>,
    /// Waiting or inside.
    requesting: bool,
    /// The token, if it is here: how many entries it has given.
    token: Option<u64>,
}

/// Who starts with the token.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    holder: NodeId,
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

/// The algorithm as published.
pub static PLAIN: Entry<NaimiTrehel> = Entry {
    info: Info {
        id: "mutex/naimi-trehel",
        title: "Naimi–Tréhel",
        summary: "ask along pointers to the last who asked; each path turns towards the asker",
        source: "Naimi, Trehel, Arnold. A log(N) distributed mutual exclusion algorithm based on \
                 path reversal. JPDC 34(1), 1996",
        text: include_str!("naimi_trehel.rs"),
        model: Model::RELIABLE,
        holds: &[
            Property::Exclusion,
            Property::NoDeadlock,
            Property::NoStarvation,
            Property::FenceOrder,
        ],
        fails: &[(
            Property::FcfsHappenedBefore,
            "p0, inside, passes p1's request on to the last who asked, and on leaving the token to \
             p3; p3 enters, leaves and asks again, and its request gets there first",
        )],
        options: &[super::HOLDER],
        mutant: None,
        claims: &[
            Check::new(3, LOCK).requests(2),
            Check::new(4, LOCK).requests(2),
            Check::new(3, &[Property::FcfsHappenedBefore]).requests(2).fails(9),
        ],
        deep: &[Check::new(5, LOCK)],
        cases: &[Case::new("first", SIZES, Given::lone_non_holder).fits(&[Fits::ELSEWHERE])],
        ..Info::EMPTY
    },
    config: |setup| Ok(Config { holder: super::holder(setup)? }),
    clients: Entry::<NaimiTrehel>::everyone,
};

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
            Request::Acquire => {
                self.requesting = true;
                match self.last.take() {
                    Some(last) => ctx.send(last, Msg::Request(ctx.me)),
                    None => self.enter(ctx),
                }
            }
            Request::Release => {
                self.requesting = false;
                if let Some(next) = self.next.take() {
                    self.hand_over(next, ctx);
                }
            }
        }
    }

    fn on_message(&mut self, _: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            Msg::Request(who) => {
                if who == ctx.me || who.0 >= ctx.n() {
                    return;
                }
                match self.last.replace(who) {
                    Some(last) => ctx.send(last, Msg::Request(who)),
                    None if self.requesting => self.next = Some(who),
                    None => self.hand_over(who, ctx),
                }
            }
            Msg::Token { entries } => {
                if self.requesting && self.token.is_none() {
                    self.token = Some(entries);
                    self.enter(ctx);
                }
            }
        }
    }

    fn charge(msg: &Msg, _: NodeId, _: NodeId) -> Charge {
        match *msg {
            Msg::Request(who) => Charge::Node(who),
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
