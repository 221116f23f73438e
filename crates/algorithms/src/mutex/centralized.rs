//! One node, the coordinator, keeps the lock. A client that wants to enter asks it and waits for the
//! grant; a client that leaves tells it, and the next in its queue is granted. Node 0 is the
//! coordinator; its own application may ask too and pays no messages.
//!
//! It is safe because the coordinator grants only when it knows of no holder, and forgets a holder
//! only on that holder's own release. Requests are numbered, so a release that is late, repeated or
//! overtaken by the same node's next request is recognised. The queue is first come, first served
//! and stays in the critical section are finite, so no request starves. The coordinator counts its
//! grants, and the count is the fencing token.
//!
//! # Rules
//!
//! 1. Acquire: take the next request number and send `Request` to the coordinator.
//! 2. `Request`, at the coordinator: if there is no holder, this request holds the lock, and gets
//!    `Grant` with one more than the last token. Otherwise it joins the end of the queue.
//! 3. `Grant` of the request we wait for: enter. Any other: ignore.
//! 4. Release: send `Release` to the coordinator.
//! 5. `Release`, at the coordinator: ignore it unless it is the holder's. The head of the queue, if
//!    there is one, holds the lock next and gets `Grant`.
//!
//! With *deny* (`mutex/centralized-deny`), a request that has to queue in rule 2 is told so with
//! `Denied`, which means "queued", not "ask again". A coordinator that is merely busy answers
//! probes, a dead one does not. Probes start late enough (`probe`, 1000 T unless set; 0 is never) not
//! to show in the cost of ordinary waits.
//!
//! 6. Waiting, every `probe`: send `StillThere`.
//! 7. `StillThere`, at the coordinator: if the request is in the queue, send `Denied` again.
//! 8. `Denied` of the request we wait for: the coordinator is alive.
//!
//! Variants without rules of their own:
//!
//! - *token*: the grant is a thing that is handed out and comes back. Rule 5 goes by the number of
//!   the token that is returned and not by the node that returns it.
//! - *timestamped*: a request's number is a Lamport time, the queue is in the order of (time, id),
//!   and every grant brings the coordinator's clock along. Having been granted once, a node asks
//!   with a later time than everything that was queued then, so it overtakes each of those at most
//!   once, and no request starves.
//!
//! # Cost
//!
//! A lone entry takes exactly three messages: two to enter, in two hops, and one to leave. M nodes
//! that ask at once: 3M messages, two hops from each to the next, and the last enters after 2T + (M
//! − 1)(E + 2T), when a stay takes E. The coordinator enters for nothing. *Deny* tells each that
//! queues: 4M − 1 for M at once. *Token* and *timestamped* cost the same as the plain one.
//!
//! # Known failures
//!
//! If the coordinator crashes, every client waits; if the holder crashes, or any message is lost,
//! every request behind it waits. A node that neither holds nor waits may crash freely.
//!
//! Order is that of arrival at the coordinator: p1 asks and tells p2, p2 asks, and p2's request
//! arrives first. The message from p1 to p2 is not one of this protocol: between the protocol's own
//! messages every path leads through the coordinator, behind p1's request. Only the probes of the
//! deny variant can overtake the request they ask about. Timestamps repair this among requests that
//! queue at the same time, but not when the later request finds the lock free.

use std::collections::VecDeque;
use std::time::Duration;

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{About, CROWDS, Case, Fits, Given, SIZES};
use conclave_protocol::{
    Charge, Ctx, Entry, Lamport, Model, Never, NodeId, NodeSet, Opt, Property, Protocol, Stamp,
};
use serde::{Deserialize, Serialize};

use super::{LOCK, NO_STAMPS, Notice, Request};

/// The node that keeps the lock.
const COORDINATOR: NodeId = NodeId(0);

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Centralized {
    /// Numbers our requests. Only timestamped clients merge the numbers of others into it.
    clock: Lamport,
    phase: Phase,
    /// The coordinator's part; nothing happens to it elsewhere.
    lock: Lock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Phase {
    Outside,
    Waiting {
        asked: Stamp,
        /// Probes sent since the coordinator was last heard from.
        unanswered: u32,
    },
    Inside {
        asked: Stamp,
        token: u64,
    },
}

/// What the coordinator knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Lock {
    /// The number of grants so far: the token of the latest.
    grants: u64,
    holder: Option<Stamp>,
    queue: VecDeque<Stamp>,
    /// The highest time of any request; only the timestamped variant hands it out.
    clock: Lamport,
}

/// What nodes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// May I?
    Request(Stamp),
    /// You may.
    Grant {
        /// The request that is granted.
        asked: Stamp,
        /// Its fencing token.
        token: u64,
        /// The coordinator's clock, in the timestamped variant.
        clock: Option<Stamp>,
    },
    /// I have left.
    Release {
        /// The request that had been granted.
        asked: Stamp,
        /// The token that came with the grant.
        token: u64,
    },
    /// You are in the queue.
    Denied(Stamp),
    /// Am I still in the queue, and you alive?
    StillThere(Stamp),
}

/// The timer of a client that has been told to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer {
    /// It is time to ask whether the coordinator is still there.
    Probe,
}

/// Which variant of the rules is in force.
#[derive(Clone, Copy, Debug, Default)]
pub struct Config {
    /// Rule 2 tells a request that it has to queue; rules 6 to 8.
    deny: bool,
    /// The time between two probes of a waiting client, if it probes.
    probe: Option<Duration>,
    /// Rule 5 goes by the token.
    returns_token: bool,
    /// The queue is in the order of timestamps.
    timestamped: bool,
}

impl Protocol for Centralized {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Timer;
    type Stable = Never;

    fn start(_: Option<Never>, _: &mut Ctx<Self>) -> Self {
        Self { clock: Lamport::default(), phase: Phase::Outside, lock: Lock::default() }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match (request, self.phase) {
            // Rule 1.
            (Request::Acquire, _) => {
                ctx.rule(1);
                let asked = self.clock.tick(ctx.me);
                self.phase = Phase::Waiting { asked, unanswered: 0 };
                ctx.send(COORDINATOR, Msg::Request(asked));
                self.set_probe(ctx);
            }
            // Rule 4.
            (Request::Release, Phase::Inside { asked, token }) => {
                ctx.rule(4);
                self.phase = Phase::Outside;
                ctx.send(COORDINATOR, Msg::Release { asked, token });
            }
            (Request::Release, Phase::Outside | Phase::Waiting { .. }) => {}
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            Msg::Request(asked) if ctx.me == COORDINATOR => self.on_asked(asked, ctx),
            // Rule 5.
            Msg::Release { asked, token } if ctx.me == COORDINATOR => {
                let holds = if ctx.config.returns_token {
                    self.lock.holder.is_some() && token == self.lock.grants
                } else {
                    self.lock.holder == Some(asked)
                };
                if holds {
                    ctx.rule(5);
                    self.lock.holder = None;
                    self.grant_next(ctx);
                }
            }
            // Rule 7.
            Msg::StillThere(asked) if ctx.me == COORDINATOR => {
                if self.lock.queue.contains(&asked) {
                    ctx.rule(7);
                    ctx.send(from, Msg::Denied(asked));
                }
            }
            // Rule 3.
            Msg::Grant { asked, token, clock } => {
                if let Some(clock) = clock {
                    self.clock.observe(clock);
                }
                if matches!(self.phase, Phase::Waiting { asked: mine, .. } if mine == asked) {
                    ctx.rule(3);
                    self.phase = Phase::Inside { asked, token };
                    if ctx.config.probe.is_some() {
                        ctx.cancel_timer(Timer::Probe);
                    }
                    ctx.notify(Notice::Acquired { token });
                }
            }
            // Rule 8.
            Msg::Denied(denied) => {
                if let Phase::Waiting { asked, unanswered } = &mut self.phase
                    && *asked == denied
                {
                    ctx.rule(8);
                    *unanswered = 0;
                }
            }
            Msg::Request(_) | Msg::Release { .. } | Msg::StillThere(_) => {}
        }
    }

    /// Rule 6.
    fn on_timer(&mut self, Timer::Probe: Timer, ctx: &mut Ctx<Self>) {
        if let Phase::Waiting { asked, unanswered } = &mut self.phase {
            ctx.rule(6);
            *unanswered += 1;
            ctx.send(COORDINATOR, Msg::StillThere(*asked));
            self.set_probe(ctx);
        }
    }

    fn waits_for(&self, me: NodeId, _: &Config) -> NodeSet {
        let Phase::Waiting { asked, .. } = self.phase else { return NodeSet::new() };
        if me != COORDINATOR {
            return [COORDINATOR].into_iter().collect();
        }
        let first = self.lock.queue.iter().take_while(|request| **request != asked);
        self.lock.holder.iter().chain(first).map(|request| request.node).collect()
    }

    fn charge(msg: &Msg, _: NodeId, _: NodeId) -> Charge {
        match msg {
            Msg::Request(_) | Msg::Release { .. } | Msg::StillThere(_) => Charge::Sender,
            Msg::Grant { .. } | Msg::Denied(_) => Charge::Receiver,
        }
    }
}

impl Centralized {
    /// Whether a probe has gone unanswered for a whole interval: the coordinator is dead, or its
    /// grant is under way.
    pub fn misses_the_coordinator(&self) -> bool {
        matches!(self.phase, Phase::Waiting { unanswered: 2.., .. })
    }

    /// Rule 2.
    fn on_asked(&mut self, asked: Stamp, ctx: &mut Ctx<Self>) {
        ctx.rule(2);
        let lock = &mut self.lock;
        lock.clock.observe(asked);
        let place = if ctx.config.timestamped {
            lock.queue.partition_point(|other| *other < asked)
        } else {
            lock.queue.len()
        };
        lock.queue.insert(place, asked);
        if lock.holder.is_none() {
            self.grant_next(ctx);
        } else if ctx.config.deny {
            ctx.send(asked.node, Msg::Denied(asked));
        }
    }

    fn grant_next(&mut self, ctx: &mut Ctx<Self>) {
        let Some(asked) = self.lock.queue.pop_front() else { return };
        self.lock.grants += 1;
        self.lock.holder = Some(asked);
        let clock = Stamp { time: self.lock.clock.time(), node: ctx.me };
        let clock = ctx.config.timestamped.then_some(clock);
        ctx.send(asked.node, Msg::Grant { asked, token: self.lock.grants, clock });
    }

    fn set_probe(&self, ctx: &mut Ctx<Self>) {
        if let Some(every) = ctx.config.probe {
            ctx.set_timer(Timer::Probe, every);
        }
    }
}

/// Every entry costs the same under any load, but for those of the coordinator itself, which cost
/// nothing.
const EACH_OF_OTHERS: Fits = Fits {
    about: About::Each,
    when: |seen| (seen.is_load() && !seen.asks(NodeId(0))).then(Vec::new),
};

/// All nodes but the coordinator ask, unless there is no other.
fn dedicated(_: &Config, n: u32) -> std::ops::Range<u32> {
    if n == 1 { 0..1 } else { 1..n }
}

/// The lock manager.
pub static PLAIN: Entry<Centralized> =
    Entry::new("mutex/centralized", "Central coordinator", |_| Ok(Config::default()))
        .summary("one node keeps the lock and a queue")
        .source(
            "Lock managers of the 1960s and 70s; as a distributed algorithm, e.g. Tanenbaum, van \
             Steen. Distributed Systems, 2002",
        )
        .text(include_str!("centralized.rs"))
        .model(Model::RELIABLE)
        .holds(LOCK)
        .fails(&[(
            Property::FcfsHappenedBefore,
            "p1 asks and tells p2, which asks too; p2's request reaches the coordinator first",
        )])
        .clients(dedicated)
        .claims(&[
            Check::new(3, LOCK).requests(2),
            Check::new(4, LOCK).requests(2),
            Check::new(3, &[Property::FcfsHappenedBefore]).talking().fails(5),
        ])
        .deep(&[Check::new(5, LOCK).requests(2)])
        .cases(&[
            Case::new("idle", SIZES, Given::lone_non_holder)
                .fits(&[Fits::ELSEWHERE, EACH_OF_OTHERS]),
            Case::new("burst", CROWDS, Given::crowd_at_one_server).fits(&[Fits::BURST]),
            Case::new("coordinator-is-requester", SIZES, |given| given.lone(given.complete(), 0))
                .fits(&[Fits::AT_HOLDER]),
        ]);

/// A request that has to queue is told so.
pub static DENY: Entry<Centralized> = PLAIN
    .variant("mutex/centralized-deny", "Central coordinator that says \"queued\"")
    .summary("a node that has to wait is told, and can tell a busy coordinator from a dead one")
    .options(&[Opt {
        name: "probe",
        default: "1000",
        help: "time between two probes of a waiting client, in T; 0 for never",
    }])
    .config(|setup| {
        let every: u32 = setup.option("probe", 1000)?;
        let probe = (every > 0).then(|| setup.delay * every);
        Ok(Config { deny: true, probe, ..Config::default() })
    })
    .claims(&[
        Check::new(3, LOCK).requests(2).timers(3),
        Check::new(4, LOCK).timers(2),
        Check::new(3, &[Property::FcfsHappenedBefore]).requests(2).fails(11),
    ])
    .deep(&[Check::new(4, LOCK).timers(4)])
    .cases(&[
        Case::new("idle", SIZES, Given::lone_non_holder).fits(&[Fits::ELSEWHERE]),
        Case::new("burst", CROWDS, Given::crowd_at_one_server).fits(&[Fits::BURST]),
    ]);

/// The grant is a token that is returned.
pub static TOKEN: Entry<Centralized> = PLAIN
    .variant("mutex/centralized-token", "Central coordinator with a grant token")
    .summary("the coordinator hands out a numbered token and takes only that one back")
    .config(|_| Ok(Config { returns_token: true, ..Config::default() }))
    .claims(&[
        Check::new(3, LOCK).requests(2),
        Check::new(4, LOCK).requests(2),
        Check::new(3, &[Property::FcfsHappenedBefore]).talking().fails(5),
    ])
    .deep(&[Check::new(5, LOCK).requests(2)]);

/// The queue is in the order of timestamps.
pub static TIMESTAMPED: Entry<Centralized> = PLAIN
    .variant("mutex/centralized-timestamped", "Central coordinator with timestamps")
    .summary("the coordinator's queue is in the order of Lamport times")
    .fails(&[
        (
            Property::FcfsHappenedBefore,
            "p1 asks and tells p2, which asks too; p2's request finds the lock free while p1's is \
             still under way",
        ),
        (
            Property::FcfsTimestamp,
            "the older request arrives when the younger already holds the lock",
        ),
    ])
    .config(|_| Ok(Config { timestamped: true, ..Config::default() }))
    .claims(&[
        Check::new(3, LOCK).requests(2),
        Check::new(4, LOCK).requests(2),
        Check::new(3, &[Property::FcfsHappenedBefore]).talking().fails(5),
        Check::unchecked(&[Property::FcfsTimestamp], NO_STAMPS),
    ])
    .deep(&[Check::new(5, LOCK).requests(2)]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect};

    use super::*;

    /// What the coordinator sends when p1 sends it all this.
    fn coordinator(entry: &Entry<Centralized>, inbox: &[Msg]) -> Vec<Effect<Centralized>> {
        let mut bench = Bench::complete(entry, 3);
        inbox.iter().flat_map(|&msg| bench.at(0).message(1, msg)).collect()
    }

    fn ask(time: u64, node: u32) -> Stamp {
        Stamp { time, node: NodeId(node) }
    }

    fn grant(asked: Stamp, token: u64) -> Effect<Centralized> {
        Effect::Send { to: asked.node, msg: Msg::Grant { asked, token, clock: None } }
    }

    #[test]
    fn a_release_overtaken_by_the_next_request_of_the_same_node_still_counts() {
        let (first, second) = (ask(1, 1), ask(2, 1));
        let inbox = [
            Msg::Request(first),
            Msg::Request(second),
            Msg::Release { asked: first, token: 1 },
            Msg::Release { asked: first, token: 1 },
            Msg::Request(ask(1, 2)),
        ];
        for entry in [&PLAIN, &TOKEN] {
            // The repeated release does not free the lock a second time.
            assert_eq!(coordinator(entry, &inbox), [grant(first, 1), grant(second, 2)]);
        }
    }

    #[test]
    fn a_token_comes_back_from_any_node_and_a_wrong_one_is_discarded() {
        let (first, second) = (ask(1, 1), ask(1, 2));
        let after =
            |release| coordinator(&TOKEN, &[Msg::Request(first), Msg::Request(second), release]);
        let wrong = Msg::Release { asked: first, token: 7 };
        assert_eq!(after(wrong), [grant(first, 1)]);
        let right = Msg::Release { asked: ask(9, 1), token: 1 };
        assert_eq!(after(right), [grant(first, 1), grant(second, 2)]);
    }

    #[test]
    fn a_waiting_client_misses_a_coordinator_that_answers_no_probe() {
        let mut bench = Bench::complete(&DENY, 3);
        bench.at(1).request(Request::Acquire);
        bench.at(1).timer(Timer::Probe);
        bench.at(1).message(0, Msg::Denied(ask(1, 1)));
        assert_eq!(bench.at(1).rules(), [8]);
        bench.at(1).timer(Timer::Probe);
        assert!(!bench.at(1).state().misses_the_coordinator());
        bench.at(1).timer(Timer::Probe);
        assert!(bench.at(1).state().misses_the_coordinator());
    }
}
