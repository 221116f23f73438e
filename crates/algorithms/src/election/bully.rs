//! A node that misses the leader asks every node with a higher id whether it is alive. If none answers
//! in time, the node has the highest live id: it leads, and tells every node below. If one answers,
//! that one takes over and asks the nodes above it in turn; the first only waits for the outcome.
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
//!    to those not suspected — and wait a time-out of `2T + Tproc`. With no node to ask: rule 4.
//! 2. `Election` from a lower id: the leader in office sends it `Coordinator`, which doubles as an
//!    answer. Every other node sends `Answer` and runs rule 1.
//! 3. `Answer`: a higher node takes over; wait `3T` more than the time-out for the outcome.
//! 4. The time-out passes without an answer: lead, in the term after the highest counter seen, and
//!    send `Coordinator` to all lower ids.
//! 5. The wait for the outcome is over: run rule 1 again.
//! 6. `Coordinator`: follow its sender, unless the term is older than that of another leader this
//!    node follows; then say so with an `Answer`, and a leader that is refused from below, by a
//!    counter that is not below its own, runs rule 4 again. A refused sender with a higher id is
//!    alive: rule 3, if this node waits for an answer. If the sender's id is the lower one: run
//!    rule 1.
//! 7. Mode `known-dead`: a node above the present leader is trusted again: run rule 1, for it was
//!    not asked.
//!
//! `election/bully-immediate` is mode `known-dead` under its own name: a node that knows that no node
//! above it lives, because they are suspected or because there is none, leads at once.
//!
//! `election/bully-recovery` is about nodes that come back. In mode `reclaim` they run rule 1, so
//! that leadership moves although nothing was wrong. In mode `defer` they first ask who leads:
//!
//! 8. Boot after a crash: send `Inquiry` to all, and wait a time-out. Without an answer, or if an
//!    election reaches the node before: rule 1.
//! 9. `Inquiry`: the leader in office sends `InquiryRep` with its term; the node that asked follows it.
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
//! A leader that crashes and comes back every now and then takes all nodes along each time. Mode
//! `defer` prevents that, and so the best node need not lead.

use std::time::Duration;

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{About, Case, Experiment, Fits, Further, Given, Seen, Values};
use conclave_protocol::{
    Crashes, Ctx, Detector, Entry, Model, NodeId, NodeSet, Opt, Property, Protocol, Rank, Ranks,
    Setup, Stamp, Time, Timing, Unfit,
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
    /// One has answered, and will lead or find a higher node that does.
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
    /// Is any node above me alive?
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
            // Rule 2.
            Msg::Election { epoch } => {
                self.observe(epoch, ctx);
                if Self::is_above(from, ctx) {
                    return;
                }
                ctx.rule(2);
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
                    // Rule 3.
                    Phase::Electing | Phase::Awaiting => {
                        self.await_outcome(ctx);
                    }
                    // Rule 6, at a leader that is refused.
                    Phase::Idle | Phase::Inquiring => {
                        let term = self.in_office(ctx.me);
                        if term.is_some_and(|term| term.time <= epoch) && !Self::is_above(from, ctx)
                        {
                            ctx.rule(6);
                            self.win(ctx);
                        }
                    }
                }
            }
            // Rule 6.
            Msg::Coordinator { epoch } => {
                ctx.rule(6);
                self.observe(epoch.time, ctx);
                match self.leader {
                    Some(term) if Self::order(epoch, ctx) < Self::order(term, ctx) => {
                        // What the leader itself said earlier is no news to it.
                        if term.node != from {
                            ctx.send(from, Msg::Answer { epoch: self.counter });
                        }
                        // A word from above all the same: a higher node is alive.
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
            // Rule 9.
            Msg::Inquiry { epoch } => {
                self.observe(epoch, ctx);
                if let Some(epoch) = self.in_office(ctx.me) {
                    ctx.rule(9);
                    ctx.send(from, Msg::InquiryRep { epoch });
                }
            }
            // Rule 9, at the node that asked.
            Msg::InquiryRep { epoch } => {
                self.observe(epoch.time, ctx);
                if self.phase == Phase::Inquiring && !self.suspected.contains(from) {
                    ctx.rule(9);
                    self.follow(epoch, ctx);
                }
            }
        }
    }

    fn on_timer(&mut self, timer: Timer, ctx: &mut Ctx<Self>) {
        match timer {
            // Rule 8, without an answer.
            Timer::Answer if self.phase == Phase::Inquiring => {
                ctx.rule(8);
                self.campaign(ctx);
            }
            // Rule 4.
            Timer::Answer => self.win(ctx),
            // Rule 5.
            Timer::Outcome => {
                ctx.rule(5);
                self.phase = Phase::Idle;
                self.campaign(ctx);
            }
        }
    }

    /// Rule 1, if it is the leader.
    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        self.suspected.insert(peer);
        if self.leader.is_some_and(|term| term.node == peer) {
            self.campaign(ctx);
        }
    }

    /// Rule 7.
    fn on_restore(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        self.suspected.remove(peer);
        if ctx.config.known_dead
            && self
                .leader
                .is_some_and(|term| ctx.config.ranks.of(term.node) < ctx.config.ranks.of(peer))
        {
            ctx.rule(7);
            self.campaign(ctx);
        }
    }
}

impl Bully {
    /// Rule 8.
    fn inquire(&mut self, ctx: &mut Ctx<Self>) {
        ctx.rule(8);
        self.phase = Phase::Inquiring;
        ctx.broadcast(Msg::Inquiry { epoch: self.counter });
        ctx.set_timer(Timer::Answer, ctx.config.answer);
    }

    /// Rule 1, unless an election is under way here.
    fn campaign(&mut self, ctx: &mut Ctx<Self>) {
        if !matches!(self.phase, Phase::Idle | Phase::Inquiring) {
            return;
        }
        ctx.rule(1);
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

    /// Rule 3: a higher node takes over.
    fn await_outcome(&mut self, ctx: &mut Ctx<Self>) {
        ctx.rule(3);
        self.phase = Phase::Awaiting;
        ctx.cancel_timer(Timer::Answer);
        ctx.set_timer(Timer::Outcome, ctx.config.outcome);
    }

    /// Rule 4.
    fn win(&mut self, ctx: &mut Ctx<Self>) {
        ctx.rule(4);
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

/// What no variant promises.
const PARTITIONED: (Property, &str) = (
    Property::OneLeaderPerEpoch,
    "with a partition, each part elects a leader of its own, in the same term",
);

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
pub static PLAIN: Entry<Bully> = Entry::new("election/bully", "Bully", |setup| {
    Ok(Config { known_dead: is_mode(setup, ["probing", "known-dead"])?, ..timing(setup)? })
})
.summary("ask everybody above; the highest who meets only silence leads")
.source(
    "Garcia-Molina. Elections in a distributed computing system. IEEE Transactions on Computers \
     C-31(1), 1982",
)
.text(include_str!("bully.rs"))
.model(Model {
    timing: Timing::Synchronous,
    crashes: Crashes::Recover,
    detector: Detector::Perfect,
    ..Model::RELIABLE
})
.holds(LEADER)
.fails(&[PARTITIONED])
.options(&[
    Opt {
        name: "mode",
        default: "probing",
        help: "probing asks every higher id; known-dead leaves out the suspected",
    },
    TIMEOUT,
])
.claims(&[
    Check::new(3, LEADER).crashes(1),
    Check::new(3, LEADER).set(&[("mode", "known-dead")]).crashes(1),
    Check::new(2, LEADER).crashes(1).recoveries(1),
    Check::new(3, LEADER).crashes(1).recoveries(1).bounded(11),
    Check::new(3, &[Property::OneLeaderPerEpoch]).partitions(1).fails(4),
])
.deep(&[Check::new(3, LEADER).crashes(1).recoveries(1).bounded(20)])
.cases(&[
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
]);

/// A node that knows that none above it lives announces itself at once.
pub static IMMEDIATE: Entry<Bully> = PLAIN
    .variant("election/bully-immediate", "Bully with immediate announcement")
    .summary("a node that knows that it is the highest live one leads at once")
    .options(&[TIMEOUT])
    .config(|setup| Ok(Config { known_dead: true, ..timing(setup)? }))
    .claims(&[
        Check::new(3, LEADER).crashes(1),
        Check::new(2, LEADER).crashes(1).recoveries(1),
        Check::new(3, LEADER).crashes(1).recoveries(1).bounded(11),
        Check::new(3, &[Property::OneLeaderPerEpoch]).partitions(1).fails(4),
    ])
    .deep(&[Check::new(3, LEADER).crashes(1).recoveries(1).bounded(20)]);

/// What nodes do that come back.
pub static RECOVERY: Entry<Bully> = PLAIN
    .variant("election/bully-recovery", "Bully with recovery")
    .summary("who comes back takes over, or finds out who leads and leaves it at that")
    .holds(&[Property::OneLeader, Property::LeaderKnown])
    .fails(&[
        PARTITIONED,
        (Property::BestLeads, "in mode defer, the best node comes back and leaves it at that"),
    ])
    .options(&[
        Opt {
            name: "mode",
            default: "reclaim",
            help: "reclaim: who comes back holds an election; defer: it asks who leads first",
        },
        TIMEOUT,
    ])
    .config(|setup| Ok(Config { defer: is_mode(setup, ["reclaim", "defer"])?, ..timing(setup)? }))
    .claims(&[
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
    ])
    .deep(&[Check::new(3, LEADER).set(&[("mode", "defer")]).crashes(1).recoveries(1).bounded(20)]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect};

    use super::*;

    #[test]
    fn a_node_that_meets_only_silence_above_leads_and_tells_those_below() {
        let mut bench = Bench::complete(&PLAIN, 3);
        let asked = bench.at(1).request(Request::Campaign);
        assert_eq!(asked[0], Effect::Send { to: NodeId(2), msg: Msg::Election { epoch: 0 } });
        let won = bench.at(1).timer(Timer::Answer);
        assert_eq!(bench.at(1).rules(), [4]);
        let epoch = Stamp { time: 1, node: NodeId(1) };
        let msg = Msg::Coordinator { epoch };
        assert_eq!(won.last(), Some(&Effect::Send { to: NodeId(0), msg }));
    }

    #[test]
    fn a_node_that_is_asked_from_below_answers_and_asks_those_above() {
        let mut bench = Bench::complete(&PLAIN, 3);
        let asked = bench.at(1).message(0, Msg::Election { epoch: 0 });
        assert_eq!(asked[0], Effect::Send { to: NodeId(0), msg: Msg::Answer { epoch: 0 } });
        assert_eq!(asked[1], Effect::Send { to: NodeId(2), msg: Msg::Election { epoch: 0 } });
        assert_eq!(bench.at(1).rules(), [1, 2]);
        bench.at(1).message(2, Msg::Answer { epoch: 0 });
        assert_eq!(bench.at(1).rules(), [3]);
    }
}
