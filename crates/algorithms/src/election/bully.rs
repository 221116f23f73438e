//! Whoever misses the leader asks every node with a higher id whether it is alive. If none answers
//! in time, it is the highest itself and tells everybody below. If one answers, that one takes
//! over and asks the nodes above it in turn; the first only waits for the outcome.
//!
//! Delays are bounded, so silence for a round trip proves that no higher node lives, and the
//! highest live node is the only one that meets such silence. A node that answered and then
//! crashed leaves the others waiting, but not for ever: they ask again. Every message carries a
//! counter; a winner leads in a term beyond every counter it has seen, so that an announcement of
//! the past is recognised as such.
//!
//! # Rules
//!
//! 1. The leader is suspected, the application calls, or the node boots after a crash: unless an
//!    election is under way here, send `Election` to all higher ids — in mode `known-dead` only
//!    to those not suspected — and wait a time-out of `2T + Tproc`. With nobody to ask: rule 4.
//! 2. `Election` from a lower id: the leader in office sends it `Coordinator`, which doubles as an
//!    answer. Anybody else sends `Answer` and runs rule 1.
//! 3. `Answer`: somebody higher takes over; wait `3T` more than the time-out for the outcome.
//! 4. The time-out passes without an answer: lead, in the term after the highest counter seen, and
//!    send `Coordinator` to all lower ids.
//! 5. The wait for the outcome is over: run rule 1 again.
//! 6. `Coordinator`: follow its sender, unless the term is older than that of another leader this
//!    node follows; then say so with an `Answer`, and a leader that is refused from below, by a counter that is not below its
//!    own, runs rule 4 again. If the sender's id is the lower one: run rule 1.
//! 7. Mode `known-dead`: a node above the present leader is trusted again: run rule 1, for it was
//!    not asked.
//!
//! `election/bully-immediate` is mode `known-dead` under its own name: whoever knows that nobody
//! above it lives, because they are suspected or because there is nobody above it, leads at once.
//!
//! `election/bully-recovery` is about nodes that come back. In mode `reclaim` they run rule 1, so
//! that leadership moves although nothing was wrong. In mode `defer` they first ask who leads:
//!
//! 8. Boot after a crash: send `Inquiry` to all, and wait a time-out. Without an answer, or if an
//!    election reaches the node before: rule 1.
//! 9. `Inquiry`: the leader in office sends `InquiryRep` with its term; whoever asked follows it.
//!
//! # Cost
//!
//! Let the old leader, the highest of N ids, be dead, and let a ids lie above the one that notices.
//! Asking them all takes exactly a² + N − 2 messages: a(a + 1)/2 `Election`, a(a − 1)/2 `Answer`, N
//! − 2 `Coordinator`; N − 1 at best and N² − N − 1 at worst. It is over after 3T + Tproc at best
//! and 4T + Tproc at worst.
//!
//! In mode `known-dead`, with b live ids above: exactly b(b + 1) + N − 2; at best N − 2, in one
//! hop, and at worst N² − 2N. The highest of all, restarted, tells N − 1. To ask who leads takes N −
//! 1 `Inquiry` and one `InquiryRep`, in two hops.
//!
//! # Known failures
//!
//! Everything rests on the time-out. If it is shorter than a round trip, or a message takes longer
//! than promised, or an answer is lost, or the network is partitioned, a live node is taken for
//! dead and there are several leaders. In mode `known-dead` a wrong suspicion is enough.
//!
//! A leader that crashes and comes back every now and then takes everybody along each time. Mode
//! `defer` prevents that, and so the best node need not lead.

use std::time::Duration;

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{About, Case, Experiment, Fits, Further, Given, Seen, Values};
use conclave_protocol::{
    Crashes, Ctx, Detector, Entry, Info, Model, NodeId, NodeSet, Opt, Property, Protocol, Rank,
    Ranks, Setup, Stamp, Time, Timing, Unfit,
};
use serde::{Deserialize, Serialize};

use super::{LEADER, Notice, Request};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Bully {
    phase: Phase,
    /// Whom this node follows, and the term in which that node leads.
    leader: Option<Stamp>,
    /// The highest counter used or seen.
    counter: u64,
    /// Whom the failure detector suspects.
    suspected: NodeSet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Phase {
    Idle,
    /// Asked the higher ids; none has answered.
    Electing,
    /// One has answered, and will lead or find somebody who does.
    Awaiting,
    /// Back from a crash, and asked who leads.
    Inquiring,
}

/// The time-outs, and who is asked.
#[derive(Clone, Debug)]
pub struct Config {
    ranks: Ranks,
    answer: Duration,
    outcome: Duration,
    /// Rule 1 spares itself the nodes that are suspected.
    known_dead: bool,
    /// Rules 8 and 9 apply.
    defer: bool,
}

/// What nodes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// Is anybody above me alive?
    Election {
        /// The highest counter the sender has seen.
        epoch: u64,
    },
    /// I am; leave it to me.
    Answer {
        /// The highest counter the sender has seen.
        epoch: u64,
    },
    /// I lead.
    Coordinator {
        /// The term: its counter and the sender.
        epoch: Stamp,
    },
    /// I am back. Who leads?
    Inquiry {
        /// The highest counter the sender has seen.
        epoch: u64,
    },
    /// I do.
    InquiryRep {
        /// The term: its counter and the sender.
        epoch: Stamp,
    },
}

/// What a node waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer {
    /// An answer from a higher id.
    Answer,
    /// The end of an election that a higher id has taken over.
    Outcome,
}

// With two nodes, one of them dead, there is no node to tell and the last hop is missing.
const ABOVE: Further =
    &[&[("N", 3), ("a", 1)], &[("N", 5), ("a", 2)], &[("N", 9), ("a", 8)], &[("N", 20), ("a", 11)]];
const LIVE_ABOVE: Further =
    &[&[("N", 2), ("b", 0)], &[("N", 5), ("b", 1)], &[("N", 9), ("b", 7)], &[("N", 20), ("b", 11)]];
const PROBING: Fits = Fits {
    about: About::Election,
    when: |seen| {
        below_dead_top(seen).filter(|_| seen.option("mode").is_none_or(|it| it == "probing"))
    },
};
const KNOWN_DEAD: Fits = Fits {
    about: About::Election,
    when: |seen| {
        below_dead_top(seen).filter(|_| seen.option("mode").is_some_and(|it| it != "probing"))
    },
};

/// How many nodes are above the only caller, the highest having crashed before, and how many of
/// them are up.
fn below_dead_top(seen: &Seen<'_>) -> Option<Values> {
    let calls = seen.calls().filter(|calls| calls.top_is_dead && calls.count == 1)?;
    let above = u64::from(seen.n() - 1 - calls.first.0);
    (seen.n() >= 3).then(|| vec![("a", above), ("b", above - 1)])
}

/// The top node is dead, and a node with `above` ids above it calls for an election.
fn beside_dead_top(given: &Given, mode: &str, above: u32) -> Vec<Experiment> {
    let top = given.n("N") - 1;
    let setup = given.complete().with("mode", mode);
    let mut election = given.planned(setup, &[(top - above, 10)]);
    election.runs[0].crashes.push((NodeId(top), Time::ZERO));
    vec![election]
}

/// The algorithm as published.
pub static PLAIN: Entry<Bully> = Entry {
    info: Info {
        id: "election/bully",
        title: "Bully",
        summary: "ask everybody above; the highest who meets only silence leads",
        source: "Garcia-Molina. Elections in a distributed computing system. IEEE Transactions \
                 on Computers C-31(1), 1982",
        text: include_str!("bully.rs"),
        model: Model {
            timing: Timing::Synchronous,
            crashes: Crashes::Recover,
            detector: Detector::Perfect,
            ..Model::RELIABLE
        },
        holds: &[Property::OneLeader, Property::LeaderKnown, Property::BestLeads],
        fails: &[(
            Property::OneLeaderPerEpoch,
            "with a partition, each part elects a leader of its own, in the same term",
        )],
        options: &[
            Opt {
                name: "mode",
                default: "probing",
                help: "probing asks every higher id; known-dead leaves out the suspected",
            },
            TIMEOUT,
        ],
        mutant: None,
        claims: &[
            Check::new(3, LEADER).crashes(1),
            Check::new(3, LEADER).set(&[("mode", "known-dead")]).crashes(1),
            Check::new(2, LEADER).crashes(1).recoveries(1),
            Check::new(3, LEADER).crashes(1).recoveries(1).bounded(11),
            Check::new(3, &[Property::OneLeaderPerEpoch]).partitions(1).fails(4),
        ],
        deep: &[Check::new(3, LEADER).crashes(1).recoveries(1).bounded(20)],
        cases: &[
            Case::new("probing", ABOVE, |given| beside_dead_top(given, "probing", given.n("a")))
                .counts(&[
                    ("election_messages", "Election"),
                    ("answer_messages", "Answer"),
                    ("coordinator_messages", "Coordinator"),
                ])
                .fits(&[PROBING]),
            Case::new("known-dead", LIVE_ABOVE, |given| {
                beside_dead_top(given, "known-dead", given.n("b") + 1)
            })
            .fits(&[KNOWN_DEAD]),
        ],
        ..Info::EMPTY
    },
    config: |setup| {
        Ok(Config { known_dead: is_mode(setup, ["probing", "known-dead"])?, ..timing(setup)? })
    },
    clients: Entry::<Bully>::everyone,
};

/// Who knows that nobody above it lives announces itself at once.
pub static IMMEDIATE: Entry<Bully> = Entry {
    info: Info {
        id: "election/bully-immediate",
        title: "Bully with immediate announcement",
        summary: "whoever knows that it is the highest live node leads at once",
        options: &[TIMEOUT],
        claims: &[
            Check::new(3, LEADER).crashes(1),
            Check::new(2, LEADER).crashes(1).recoveries(1),
            Check::new(3, LEADER).crashes(1).recoveries(1).bounded(11),
            Check::new(3, &[Property::OneLeaderPerEpoch]).partitions(1).fails(4),
        ],
        deep: &[Check::new(3, LEADER).crashes(1).recoveries(1).bounded(20)],
        cases: &[],
        ..PLAIN.info
    },
    config: |setup| Ok(Config { known_dead: true, ..timing(setup)? }),
    ..PLAIN
};

/// What nodes do that come back.
pub static RECOVERY: Entry<Bully> = Entry {
    info: Info {
        id: "election/bully-recovery",
        title: "Bully with recovery",
        summary: "who comes back takes over, or finds out who leads and leaves it at that",
        holds: &[Property::OneLeader, Property::LeaderKnown],
        fails: &[
            PLAIN.info.fails[0],
            (Property::BestLeads, "in mode defer, the best node comes back and leaves it at that"),
        ],
        options: &[
            Opt {
                name: "mode",
                default: "reclaim",
                help: "reclaim: who comes back holds an election; defer: it asks who leads first",
            },
            TIMEOUT,
        ],
        claims: &[
            Check::new(3, LEADER).crashes(1),
            Check::new(2, LEADER).crashes(1).recoveries(1),
            Check::new(3, LEADER).crashes(1).recoveries(1).bounded(11),
            Check::new(2, &[Property::OneLeader, Property::LeaderKnown])
                .set(&[("mode", "defer")])
                .crashes(1)
                .recoveries(1),
            Check::new(3, LEADER).set(&[("mode", "defer")]).crashes(1).recoveries(1).bounded(11),
            Check::new(2, &[Property::BestLeads])
                .set(&[("mode", "defer")])
                .crashes(1)
                .recoveries(1)
                .fails(11),
            Check::new(3, &[Property::OneLeaderPerEpoch]).partitions(1).fails(4),
        ],
        deep: &[Check::new(3, LEADER)
            .set(&[("mode", "defer")])
            .crashes(1)
            .recoveries(1)
            .bounded(20)],
        cases: &[],
        ..PLAIN.info
    },
    config: |setup| Ok(Config { defer: is_mode(setup, ["reclaim", "defer"])?, ..timing(setup)? }),
    ..PLAIN
};

const TIMEOUT: Opt = Opt {
    name: "timeout",
    default: "2T + Tproc",
    help: "how long to wait for an answer, in hundredths of T; below 200 is too short",
};

/// Whether the option `mode` is set to the second of two; the first is the default.
fn is_mode(setup: &Setup, [first, second]: [&str; 2]) -> Result<bool, Unfit> {
    let mode: String = setup.option("mode", first.to_owned())?;
    if mode != first && mode != second {
        return Err(Unfit::new(format!("mode={mode}, but it is {first} or {second}")));
    }
    Ok(mode == second)
}

/// The time-outs, and every rule as published.
fn timing(setup: &Setup) -> Result<Config, Unfit> {
    let answer = match setup.optional::<u32>("timeout")? {
        Some(percent) => setup.delay * percent / 100,
        None => setup.delay * 2 + setup.processing,
    };
    let (ranks, outcome) = (setup.ranks()?, answer + setup.delay * 3);
    Ok(Config { ranks, answer, outcome, known_dead: false, defer: false })
}

impl Protocol for Bully {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Timer;
    /// The highest counter used or seen.
    type Stable = u64;

    fn start(saved: Option<u64>, ctx: &mut Ctx<Self>) -> Self {
        let counter = saved.unwrap_or(0);
        let mut state =
            Self { phase: Phase::Idle, leader: None, counter, suspected: NodeSet::new() };
        match saved {
            Some(_) if ctx.config.defer && ctx.n() > 1 => state.inquire(ctx),
            Some(_) => state.campaign(ctx),
            None => ctx.save(counter),
        }
        state
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            Request::Campaign => self.campaign(ctx),
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            Msg::Election { epoch } => {
                self.observe(epoch, ctx);
                if Self::is_above(from, ctx) {
                    return;
                }
                match self.in_office(ctx.me) {
                    Some(term) if term.time >= epoch => {
                        ctx.send(from, Msg::Coordinator { epoch: term });
                    }
                    _ => {
                        ctx.send(from, Msg::Answer { epoch: self.counter });
                        self.campaign(ctx);
                    }
                }
            }
            Msg::Answer { epoch } => {
                self.observe(epoch, ctx);
                match self.phase {
                    Phase::Electing | Phase::Awaiting => {
                        self.await_outcome(ctx);
                    }
                    Phase::Idle | Phase::Inquiring => {
                        let term = self.in_office(ctx.me);
                        if term.is_some_and(|term| term.time <= epoch) && !Self::is_above(from, ctx)
                        {
                            self.win(ctx);
                        }
                    }
                }
            }
            Msg::Coordinator { epoch } => {
                self.observe(epoch.time, ctx);
                match self.leader {
                    Some(term) if Self::order(epoch, ctx) < Self::order(term, ctx) => {
                        // What the leader itself said earlier is no news to it.
                        if term.node != from {
                            ctx.send(from, Msg::Answer { epoch: self.counter });
                        }
                        // A word from above all the same: somebody higher is alive.
                        if self.phase == Phase::Electing && Self::is_above(from, ctx) {
                            self.await_outcome(ctx);
                        }
                    }
                    _ => self.follow(epoch, ctx),
                }
                if !Self::is_above(from, ctx) {
                    self.campaign(ctx);
                }
            }
            Msg::Inquiry { epoch } => {
                self.observe(epoch, ctx);
                if let Some(epoch) = self.in_office(ctx.me) {
                    ctx.send(from, Msg::InquiryRep { epoch });
                }
            }
            Msg::InquiryRep { epoch } => {
                self.observe(epoch.time, ctx);
                if self.phase == Phase::Inquiring && !self.suspected.contains(from) {
                    self.follow(epoch, ctx);
                }
            }
        }
    }

    fn on_timer(&mut self, timer: Timer, ctx: &mut Ctx<Self>) {
        match timer {
            Timer::Answer if self.phase == Phase::Inquiring => self.campaign(ctx),
            Timer::Answer => self.win(ctx),
            Timer::Outcome => {
                self.phase = Phase::Idle;
                self.campaign(ctx);
            }
        }
    }

    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        self.suspected.insert(peer);
        if self.leader.is_some_and(|term| term.node == peer) {
            self.campaign(ctx);
        }
    }

    fn on_restore(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        self.suspected.remove(peer);
        if ctx.config.known_dead
            && self
                .leader
                .is_some_and(|term| ctx.config.ranks.of(term.node) < ctx.config.ranks.of(peer))
        {
            self.campaign(ctx);
        }
    }
}

impl Bully {
    fn inquire(&mut self, ctx: &mut Ctx<Self>) {
        self.phase = Phase::Inquiring;
        ctx.broadcast(Msg::Inquiry { epoch: self.counter });
        ctx.set_timer(Timer::Answer, ctx.config.answer);
    }

    fn campaign(&mut self, ctx: &mut Ctx<Self>) {
        if !matches!(self.phase, Phase::Idle | Phase::Inquiring) {
            return;
        }
        let spared = |peer: &NodeId| ctx.config.known_dead && self.suspected.contains(*peer);
        let above = ctx.peers().filter(|&peer| Self::is_above(peer, ctx));
        let asked: Vec<NodeId> = above.filter(|peer| !spared(peer)).collect();
        if asked.is_empty() {
            self.win(ctx);
            return;
        }
        self.phase = Phase::Electing;
        ctx.multicast(asked, Msg::Election { epoch: self.counter });
        ctx.set_timer(Timer::Answer, ctx.config.answer);
    }

    /// Somebody higher takes over.
    fn await_outcome(&mut self, ctx: &mut Ctx<Self>) {
        self.phase = Phase::Awaiting;
        ctx.cancel_timer(Timer::Answer);
        ctx.set_timer(Timer::Outcome, ctx.config.outcome);
    }

    fn win(&mut self, ctx: &mut Ctx<Self>) {
        self.observe(self.counter + 1, ctx);
        let epoch = Stamp { time: self.counter, node: ctx.me };
        self.follow(epoch, ctx);
        let below: Vec<NodeId> = ctx.peers().filter(|&peer| !Self::is_above(peer, ctx)).collect();
        ctx.multicast(below, Msg::Coordinator { epoch });
    }

    fn follow(&mut self, epoch: Stamp, ctx: &mut Ctx<Self>) {
        self.phase = Phase::Idle;
        ctx.cancel_timer(Timer::Answer);
        ctx.cancel_timer(Timer::Outcome);
        if self.leader != Some(epoch) {
            self.leader = Some(epoch);
            ctx.notify(Notice::Elected { leader: epoch.node, epoch: epoch.token() });
        }
    }

    /// What makes a term later than another: its counter, and then the better leader.
    fn order(term: Stamp, ctx: &Ctx<Self>) -> (u64, Rank) {
        (term.time, ctx.config.ranks.of(term.node))
    }

    /// Whether `peer` is the better leader.
    fn is_above(peer: NodeId, ctx: &Ctx<Self>) -> bool {
        ctx.config.ranks.of(peer) > ctx.config.ranks.of(ctx.me)
    }

    /// The term in which this node leads, if it does and is not in an election.
    fn in_office(&self, me: NodeId) -> Option<Stamp> {
        self.leader.filter(|term| term.node == me && self.phase == Phase::Idle)
    }

    fn observe(&mut self, counter: u64, ctx: &mut Ctx<Self>) {
        if counter > self.counter {
            self.counter = counter;
            ctx.save(counter);
        }
    }
}
