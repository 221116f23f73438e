//! A token on a ring that moves only when a node wants it. A node that wants in sends a request
//! round the ring after the token; the node that has the token when the request comes sends it on
//! round, and each waiting node on its way uses it. When no request is left unserved, the token
//! rests where it is.
//!
//! There is one token, so at most one node is inside. A request is not lost on a token that moves:
//! links are FIFO, so a request that comes back to its origin has chased a token which has come
//! through the origin before it, and was used there.
//!
//! # Rules
//!
//! 1. Acquire: with the token here, enter. Otherwise number the request and send `Want` to the
//!    successor.
//! 2. `Want` of o: remember its number. Back at o: drop it. Where the token is: note it in the
//!    token, and rule 4 if the token is not in use. Elsewhere: forward it.
//! 3. `Token`: tell it the requests known here and learn those it knows. Enter if waiting, else
//!    rule 4.
//! 4. A free token goes to the successor if it knows a request that has not been served; else it
//!    stays.
//! 5. Release: the own request is served; rule 4.
//!
//! # Cost
//!
//! With the token here, nothing. Alone elsewhere: exactly N messages and N hops, d for the request
//! to the holder and N − d for the token to come on round. Nothing when no node wants in.
//!
//! # Known failures
//!
//! As for the perpetual token: its loss, or the crash of any node on its way, stops everything, and
//! so does the loss of a `Want` for its sender. Order is by place: a node told of a request by
//! other means than the ring may enter before it. Without FIFO links a `Want` can overtake the
//! token.

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{Case, Fits, SIZES};
use conclave_protocol::{Charge, Ctx, Entry, Links, Model, Never, NodeId, Property, Protocol};
use serde::{Deserialize, Serialize};

use super::{LOCK, Notice, Request};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OnDemand {
    /// The latest request of each node heard of here.
    requested: Vec<u64>,
    /// The token, while it is here.
    token: Option<Token>,
    phase: Phase,
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
    /// Entries so far: the fencing token of the latest.
    entries: u64,
    /// The latest request of each node that the token knows of.
    requested: Vec<u64>,
    /// The latest request of each node that was served.
    served: Vec<u64>,
}

/// What nodes send each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// A node wants in.
    Want {
        /// Which.
        origin: NodeId,
        /// The number of its request.
        number: u64,
    },
    /// The token.
    Token(Token),
}

/// Which node has the token at first.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    holder: NodeId,
}

impl Protocol for OnDemand {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Never;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        let none = vec![0; ctx.n() as usize];
        let token = (ctx.me == ctx.config.holder).then(|| Token {
            entries: 0,
            requested: none.clone(),
            served: none.clone(),
        });
        Self { requested: none, token, phase: Phase::Outside }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        let me = ctx.me.index();
        match request {
            // Rule 1.
            Request::Acquire if self.token.is_some() => {
                ctx.rule(1);
                self.enter(ctx);
            }
            Request::Acquire => {
                ctx.rule(1);
                self.phase = Phase::Waiting;
                self.requested[me] += 1;
                let number = self.requested[me];
                ctx.send(ctx.successor(), Msg::Want { origin: ctx.me, number });
            }
            // Rule 5.
            Request::Release => {
                ctx.rule(5);
                self.phase = Phase::Outside;
                if let Some(token) = &mut self.token {
                    token.served[me] = self.requested[me];
                }
                self.pass_on_if_wanted(ctx);
            }
        }
    }

    fn on_message(&mut self, _: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            // Rule 2.
            Msg::Want { origin, number } => {
                let Some(known) = self.requested.get_mut(origin.index()) else { return };
                ctx.rule(2);
                *known = number.max(*known);
                if origin == ctx.me {
                    return;
                }
                match &mut self.token {
                    Some(token) => {
                        let known = &mut token.requested[origin.index()];
                        *known = number.max(*known);
                        if self.phase == Phase::Outside {
                            self.pass_on_if_wanted(ctx);
                        }
                    }
                    None => ctx.send(ctx.successor(), Msg::Want { origin, number }),
                }
            }
            // Rule 3.
            Msg::Token(mut token) => {
                ctx.rule(3);
                for (here, there) in self.requested.iter_mut().zip(&mut token.requested) {
                    *here = *there.max(here);
                    *there = *here;
                }
                self.token = Some(token);
                match self.phase {
                    Phase::Waiting => self.enter(ctx),
                    Phase::Outside | Phase::Inside => self.pass_on_if_wanted(ctx),
                }
            }
        }
    }

    fn charge(msg: &Msg, _: NodeId, _: NodeId) -> Charge {
        match msg {
            Msg::Want { origin, .. } => Charge::Node(*origin),
            Msg::Token(_) => Charge::NextEntry,
        }
    }
}

impl OnDemand {
    fn enter(&mut self, ctx: &mut Ctx<Self>) {
        if let Some(token) = &mut self.token {
            token.entries += 1;
            self.phase = Phase::Inside;
            ctx.notify(Notice::Acquired { token: token.entries });
        }
    }

    /// Rule 4.
    fn pass_on_if_wanted(&mut self, ctx: &mut Ctx<Self>) {
        ctx.rule(4);
        let wanted =
            |token: &mut Token| token.requested.iter().zip(&token.served).any(|(r, s)| r > s);
        if let Some(token) = self.token.take_if(wanted) {
            ctx.send(ctx.successor(), Msg::Token(token));
        }
    }
}

/// The parked token.
pub static PLAIN: Entry<OnDemand> =
    Entry::new("mutex/token-ring-on-demand", "Token ring on demand", |setup| {
        Ok(Config { holder: super::holder(setup)? })
    })
    .summary("the token rests until a request comes round the ring to fetch it")
    .source("Le Lann's ring (1977) with the request numbers of Suzuki and Kasami (1985)")
    .text(include_str!("token_ring_on_demand.rs"))
    .model(Model { links: Links::Ring, ..Model::FIFO })
    .holds(LOCK)
    .fails(&[(
        Property::FcfsHappenedBefore,
        "p3 asks and tells p1 by other means than the ring; the token, on its way from p0, \
         reaches p1 first",
    )])
    .options(&[super::HOLDER])
    .claims(&[
        Check::new(3, LOCK).requests(2),
        Check::new(4, LOCK),
        Check::new(4, &[Property::FcfsHappenedBefore]).talking().fails(3),
    ])
    .deep(&[Check::new(4, LOCK).requests(2)])
    .cases(&[Case::new("non-holder", SIZES, |given| {
        given.lone_each(given.ring(), 1..given.n("N"))
    })
    .fits(&[Fits::ELSEWHERE])]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect};

    use super::*;

    #[test]
    fn the_token_rests_until_a_request_comes_and_then_rests_at_the_node_it_served() {
        let mut bench = Bench::complete(&PLAIN, 3);
        let want = Msg::Want { origin: NodeId(2), number: 1 };
        let asked = bench.at(2).request(Request::Acquire);
        assert_eq!(asked, [Effect::Send { to: NodeId(0), msg: want.clone() }]);
        let sent = bench.at(0).message(2, want);
        let [Effect::Send { to: NodeId(1), msg: token @ Msg::Token(_) }] = &sent[..] else {
            panic!("{sent:?}");
        };
        let entered = bench.at(2).message(1, token.clone());
        assert_eq!(entered, [Effect::Notify(Notice::Acquired { token: 1 })]);
        assert_eq!(bench.at(2).request(Request::Release), []);
        assert_eq!(bench.at(2).rules(), [4, 5]);
        let again = bench.at(2).request(Request::Acquire);
        assert_eq!(again, [Effect::Notify(Notice::Acquired { token: 2 })]);
    }
}
