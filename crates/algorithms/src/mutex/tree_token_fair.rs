//! A token moves along the edges of a tree, as in `mutex/raymond-tree`, but requests keep their
//! origin and their timestamp, and are collected in the token. So its holder sees all open requests
//! that have reached it, whichever sub-tree they come from, and serves the oldest.
//!
//! There is one token, so there is one inside. A request is stored at every node it passes and
//! goes towards the token; if they cross on an edge, the token finds it at the node it comes to.
//! Once in the token, it is overtaken only by older ones, of which there are finitely many.
//!
//! # Rules
//!
//! 1. Acquire: tick the clock, number the request and store it. With the token here, do rule 4;
//!    otherwise send `Request` towards the token.
//! 2. `Request` of o, from x: merge its time into the clock. Drop it if a later or the same one of o
//!    is stored; store it. With the token here, do rule 4. Otherwise pass it on towards the token,
//!    unless that is where it came from: then the token crossed it, and x knows the request.
//! 3. `Token`: merge the times of its requests into the clock; do rule 4. (Otherwise a node that
//!    requests do not pass falls behind, and its next ones would count as older than those that
//!    wait already.)
//! 4. Unless inside: put into the token every stored request with a number beyond the last served
//!    for its origin. Take the oldest. If it is this node's, note it **as served at once** and
//!    enter; otherwise send `Token` one step towards its origin. (Were it noted only on leaving, a
//!    request that arrives in the meantime would put the own one, already served, back in.)
//! 5. Release: do rule 4.
//!
//! # Cost
//!
//! A lone request at distance d from the token takes exactly 2d messages and 2d hops; leaving costs
//! nothing. Announcing a request never takes more than the diameter, nor does bringing the token.
//!
//! # Known failures
//!
//! A lost token or request, or the crash of a node on the way, blocks as in every token tree. With
//! FIFO channels, a request made after hearing of another is granted after it, since all that a node
//! hears comes along a way that the request, or a token that has it, took before. Where messages
//! overtake each other it may be granted first.

use std::collections::BTreeMap;

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{Case, DISTANCES, Fits};
use conclave_protocol::{
    Charge, Ctx, Entry, Lamport, Links, Model, Never, NodeId, Property, Protocol, Setup, Stamp,
    Unfit,
};
use serde::{Deserialize, Serialize};

use super::{HOLDER, LOCK, Notice, Request};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TreeTokenFair {
    clock: Lamport,
    /// The latest request heard of, by origin.
    known: BTreeMap<NodeId, Known>,
    token: Place,
    inside: bool,
}

/// A request, known by its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Known {
    /// Its origin counts its requests from one.
    number: u64,
    asked: Stamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Place {
    Here(Token),
    /// In the direction of this neighbour.
    Towards(NodeId),
}

/// The right to enter, and the requests for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Token {
    /// The number of the latest request served, by origin; 0 if not listed.
    served: BTreeMap<NodeId, u64>,
    /// Open requests, by origin.
    open: BTreeMap<NodeId, Known>,
    /// Entries so far: the fencing token of the latest.
    entries: u64,
}

/// What neighbours send each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// `origin` wants the token.
    Request {
        /// The node that requests.
        origin: NodeId,
        /// Its request.
        known: Known,
    },
    /// Here it is.
    Token(Token),
}

/// Which node starts with the token.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    holder: NodeId,
}

impl Protocol for TreeTokenFair {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Never;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        let token = match ctx.topology.next_hop(ctx.me, ctx.config.holder) {
            Some(neighbor) => Place::Towards(neighbor),
            None => Place::Here(Token::default()),
        };
        Self { clock: Lamport::default(), known: BTreeMap::new(), token, inside: false }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            // Rule 1.
            Request::Acquire => {
                ctx.rule(1);
                let asked = self.clock.tick(ctx.me);
                let number = self.known.get(&ctx.me).map_or(1, |known| known.number + 1);
                let known = Known { number, asked };
                self.known.insert(ctx.me, known);
                match self.token {
                    Place::Here(_) => self.serve_the_oldest(ctx),
                    Place::Towards(holder) => {
                        ctx.send(holder, Msg::Request { origin: ctx.me, known });
                    }
                }
            }
            // Rule 5.
            Request::Release => {
                ctx.rule(5);
                self.inside = false;
                self.serve_the_oldest(ctx);
            }
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            // Rule 2.
            Msg::Request { origin, known } => {
                ctx.rule(2);
                self.clock.observe(known.asked);
                let stored = self.known.get(&origin).map_or(0, |stored| stored.number);
                if known.number <= stored || origin.0 >= ctx.n() {
                    return;
                }
                self.known.insert(origin, known);
                match self.token {
                    Place::Here(_) => self.serve_the_oldest(ctx),
                    Place::Towards(holder) if holder != from => {
                        ctx.send(holder, Msg::Request { origin, known });
                    }
                    Place::Towards(_) => {}
                }
            }
            // Rule 3.
            Msg::Token(token) => {
                let makes_sense = token.open.keys().all(|origin| origin.0 < ctx.n());
                if makes_sense && matches!(self.token, Place::Towards(_)) {
                    ctx.rule(3);
                    token.open.values().for_each(|known| self.clock.observe(known.asked));
                    self.token = Place::Here(token);
                    self.serve_the_oldest(ctx);
                }
            }
        }
    }

    fn charge(msg: &Msg, _: NodeId, _: NodeId) -> Charge {
        match *msg {
            Msg::Request { origin, .. } => Charge::Node(origin),
            Msg::Token(_) => Charge::NextEntry,
        }
    }
}

impl TreeTokenFair {
    /// Rule 4.
    fn serve_the_oldest(&mut self, ctx: &mut Ctx<Self>) {
        let Place::Here(token) = &mut self.token else { return };
        if self.inside {
            return;
        }
        ctx.rule(4);
        for (&origin, &known) in &self.known {
            if known.number > token.served.get(&origin).copied().unwrap_or(0) {
                token.open.insert(origin, known);
            }
        }
        let Some((&origin, oldest)) = token.open.iter().min_by_key(|(_, known)| known.asked) else {
            return;
        };
        match ctx.topology.next_hop(ctx.me, origin) {
            None => {
                token.served.insert(ctx.me, oldest.number);
                token.open.remove(&ctx.me);
                token.entries += 1;
                self.inside = true;
                ctx.notify(Notice::Acquired { token: token.entries });
            }
            Some(neighbor) => {
                let token = std::mem::take(token);
                self.token = Place::Towards(neighbor);
                ctx.send(neighbor, Msg::Token(token));
            }
        }
    }
}

/// The tree token that serves the oldest request.
pub static PLAIN: Entry<TreeTokenFair> =
    Entry::new("mutex/tree-token-fair", "Fair tree token", config)
        .summary("a token on a tree collects the requests and serves the oldest")
        .source("the request queue of Suzuki and Kasami's token on Raymond's tree")
        .text(include_str!("tree_token_fair.rs"))
        .model(Model { links: Links::Tree, ..Model::RELIABLE })
        .holds(LOCK)
        .fails(&[(
            Property::FcfsHappenedBefore,
            "without FIFO channels: a request of p1 and then one of p2, passed on by p1, are on \
             their way to p0; p2's is faster, and p0, having heard of it, asks and enters before \
             p1",
        )])
        .options(&[HOLDER])
        .claims(&[
            Check::new(3, LOCK).requests(2),
            Check::new(4, LOCK),
            Check::new(4, LOCK).shape("line"),
            Check::new(4, &[Property::FcfsHappenedBefore]).shape("line").fails(15),
        ])
        .deep(&[Check::new(4, LOCK).requests(2).bounded(25)])
        .cases(&[Case::new("distance-d", DISTANCES, |given| given.lone_at_distance(given.n("d")))
            .fits(&[Fits::LONE])]);

fn config(setup: &Setup) -> Result<Config, Unfit> {
    Ok(Config { holder: super::holder(setup)? })
}

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect, Topology};

    use super::*;

    #[test]
    fn the_token_goes_towards_the_oldest_request_and_takes_the_others_along() {
        let mut bench = Bench::new(&PLAIN, &Setup::new(Topology::line(3)).with("holder", 1));
        let known = |time, node| Known { number: 1, asked: Stamp { time, node: NodeId(node) } };
        let request = |known: Known| Msg::Request { origin: known.asked.node, known };
        bench.at(1).request(Request::Acquire);
        assert_eq!(bench.at(1).message(0, request(known(3, 0))), []);
        assert_eq!(bench.at(1).message(2, request(known(2, 2))), []);
        let left = bench.at(1).request(Request::Release);
        let open = BTreeMap::from([(NodeId(0), known(3, 0)), (NodeId(2), known(2, 2))]);
        let token = Token { served: BTreeMap::from([(NodeId(1), 1)]), open, entries: 1 };
        assert_eq!(left, [Effect::Send { to: NodeId(2), msg: Msg::Token(token) }]);
        assert_eq!(bench.at(1).rules(), [4, 5]);
    }
}
