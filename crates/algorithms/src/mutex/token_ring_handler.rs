//! A token ring in which each node is split in two: an application, and a handler that takes the
//! token and hands it on whatever the application is doing.
//!
//! The handler owns the token; the application only tells it that it wants in or has left. So
//! nothing that an application does outside the critical section keeps the token from other nodes,
//! which is what *progress* asks for. Where the application itself receives the token, one that
//! computes for long leaves it unread: there is still only one token and one node inside, but the
//! others wait for as long as a node that wants nothing is busy.
//!
//! # Rules
//!
//! 1. Acquire: the handler notes that the application waits.
//! 2. `Token`, at the handler: enter if the application waits, else send it to the successor.
//! 3. Release: send `Token` to the successor.
//!
//! Without the handler, rule 2 happens when the application looks: at once if it waits or has
//! nothing to do, and otherwise when its computation is over.
//!
//! # Cost
//!
//! That of the token ring: N messages a round; one message and one hop an entry if all nodes always
//! want in.
//!
//! # Known failures
//!
//! Those of the token ring. The hand-over is not acknowledged, so a dead successor still swallows
//! the token; `mutex/token-ring-ft` adds that.

use std::time::Duration;

use conclave_protocol::claims::Check;
use conclave_protocol::{
    Charge, Ctx, Entry, Links, Model, Never, NodeId, Opt, Property, Protocol, Setup, Unfit,
};
use serde::{Deserialize, Serialize};

use super::token_ring::at_least_two;
use super::{LOCK, Notice, Request, SAFE};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TokenHandler {
    application: Application,
    /// A token that has arrived and that the application has not looked at.
    unread: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Application {
    /// It has time to look for the token.
    Idle,
    /// It computes something that has nothing to do with the critical section.
    Computing,
    Waiting,
    Inside {
        token: u64,
    },
}

/// The only message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// The right to enter, with the number of entries it has given.
    Token {
        /// Entries so far: the fencing token of the latest.
        entries: u64,
    },
}

/// The only timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer {
    /// A computation is over, and the application looks round before the next.
    Computed,
}

/// Which node starts with the token, and which one's application is busy with other things.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    holder: NodeId,
    /// A node whose application computes, for so long at a time, or until it wants in.
    busy: Option<(NodeId, Option<Duration>)>,
    mutation: Option<Mutation>,
}

/// What is wrong in a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutation {
    /// There is no handler: the application receives the token itself.
    Polled,
}

impl Config {
    fn new(setup: &Setup, mutation: Option<Mutation>) -> Result<Self, Unfit> {
        at_least_two(setup)?;
        let busy: String = setup.option("busy", "1".to_owned())?;
        let busy = match busy.as_str() {
            "none" => None,
            busy => {
                let parsed = match busy.split_once(':') {
                    Some((node, units)) => node.parse().ok().zip(units.parse().ok().map(Some)),
                    None => busy.parse().ok().map(|node| (node, None)),
                };
                let Some((node, units)) =
                    parsed.filter(|&(node, units)| node < setup.n() && units != Some(0))
                else {
                    let what = "a node, a node and a number of T, such as 1:1000, or none";
                    return Err(Unfit::new(format!("busy={busy} is not {what}")));
                };
                Some((NodeId(node), units.map(|units: u32| setup.delay * units)))
            }
        };
        Ok(Self { holder: super::holder(setup)?, busy, mutation })
    }

    fn is(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }
}

impl Protocol for TokenHandler {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Timer;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        if ctx.me == ctx.config.holder {
            ctx.send(ctx.successor(), Msg::Token { entries: 0 });
        }
        let mut node = Self { application: Application::Idle, unread: None };
        node.turn_to_other_things(ctx);
        node
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match (request, self.application) {
            // Rule 1.
            (Request::Acquire, _) => {
                ctx.rule(1);
                ctx.cancel_timer(Timer::Computed);
                self.application = Application::Waiting;
                self.look(ctx);
            }
            // Rule 3.
            (Request::Release, Application::Inside { token }) => {
                ctx.rule(3);
                ctx.send(ctx.successor(), Msg::Token { entries: token });
                self.turn_to_other_things(ctx);
            }
            (Request::Release, _) => {}
        }
    }

    fn on_message(&mut self, _: NodeId, Msg::Token { entries }: Msg, ctx: &mut Ctx<Self>) {
        self.unread = Some(entries);
        let polled = ctx.config.is(Mutation::Polled);
        if !polled || self.application != Application::Computing {
            self.look(ctx);
        }
    }

    fn on_timer(&mut self, Timer::Computed: Timer, ctx: &mut Ctx<Self>) {
        self.look(ctx);
        self.turn_to_other_things(ctx);
    }

    fn charge(_: &Msg, _: NodeId, _: NodeId) -> Charge {
        Charge::NextEntry
    }
}

impl TokenHandler {
    /// Rule 2, if the token is here.
    fn look(&mut self, ctx: &mut Ctx<Self>) {
        let Some(entries) = self.unread.take() else { return };
        ctx.rule(2);
        if self.application == Application::Waiting {
            let token = entries + 1;
            self.application = Application::Inside { token };
            ctx.notify(Notice::Acquired { token });
        } else {
            ctx.send(ctx.successor(), Msg::Token { entries });
        }
    }

    fn turn_to_other_things(&mut self, ctx: &mut Ctx<Self>) {
        self.application = match ctx.config.busy {
            Some((node, span)) if node == ctx.me => {
                if let Some(span) = span {
                    ctx.set_timer(Timer::Computed, span);
                }
                Application::Computing
            }
            _ => Application::Idle,
        };
    }
}

/// With a handler.
pub static HANDLER: Entry<TokenHandler> =
    Entry::new("mutex/token-ring-handler", "Token ring with handlers", |setup| {
        Config::new(setup, None)
    })
    .summary("a handler at each node takes the token whatever its application does")
    .source("Le Lann. Distributed systems: towards a formal approach. IFIP Congress, 1977")
    .text(include_str!("token_ring_handler.rs"))
    .model(Model { links: Links::Ring, ..Model::RELIABLE })
    .holds(LOCK)
    .fails(&[(
        Property::FcfsHappenedBefore,
        "p3 asks and tells p1, which asks too; the token, at p0, reaches p1 first",
    )])
    .options(&[
        super::HOLDER,
        Opt {
            name: "busy",
            default: "1",
            help: "a node whose application computes, or a node and for how many T at a time, \
                   such as 1:1000, or none",
        },
    ])
    .claims(&[
        Check::new(3, LOCK).requests(2),
        Check::new(4, LOCK).requests(2),
        Check::new(4, &[Property::FcfsHappenedBefore]).talking().fails(4),
    ])
    .deep(&[Check::new(5, LOCK).requests(2)]);

/// Without: the token waits until the application looks.
pub static POLLED: Entry<TokenHandler> = HANDLER
    .variant("mutex/token-ring-polled", "Token ring without handlers")
    .summary("the token lies unread until the application has time for it")
    .mutant(
        "mutex/token-ring-handler",
        "rule 2 happens only when the application looks for the token",
        Property::NoDeadlock,
    )
    .holds(SAFE)
    .fails(&[(
        Property::NoDeadlock,
        "p1 computes and wants nothing; the token lies at its door, and no node enters",
    )])
    .config(|setup| Config::new(setup, Some(Mutation::Polled)))
    .claims(&[
        Check::new(3, SAFE).requests(2),
        Check::new(2, &[Property::NoDeadlock]).fails(2),
        Check::new(3, &[Property::NoDeadlock]).fails(2),
    ]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect};

    use super::*;

    const TOKEN: Msg = Msg::Token { entries: 0 };

    #[test]
    fn a_handler_passes_the_token_on_while_its_application_computes() {
        let mut bench = Bench::complete(&HANDLER, 3);
        let passed_on = bench.at(1).message(0, TOKEN);
        assert_eq!(passed_on, [Effect::Send { to: NodeId(2), msg: TOKEN }]);
    }

    #[test]
    fn without_one_the_token_lies_unread_until_the_application_wants_in() {
        let mut bench = Bench::complete(&POLLED, 3);
        assert_eq!(bench.at(1).message(0, TOKEN), []);
        let [_, entered] = bench.at(1).request(Request::Acquire).try_into().expect("two effects");
        assert_eq!(entered, Effect::Notify(Notice::Acquired { token: 1 }));
    }
}
