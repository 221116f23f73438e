//! How to tell a partner that is busy from one that is dead: it says so. Every node asks all others
//! for a job that may take long. A node that cannot do it at once answers `Queued` at once, and
//! `Done` when it is done. So silence means something again, however long the jobs take.
//!
//! A question takes at most `T`, an answer as long again, and answering at most `Tproc`. A live node
//! answers at once, with `Done` or with `Queued`, and is never suspected. `Queued` says that its
//! sender was alive then, and no more; so a node that waits asks again from time to time, and a peer
//! that crashed over a job fails to answer the next time at the latest.
//!
//! # Rules
//!
//! 1. Every interval: send a question with a fresh number to every peer that is not suspected:
//!    `Probe` where a job is awaited, `Ask` to the others, from which a job is awaited from now on.
//!    Wait `2T + Tproc`.
//! 2. `Ask`: a job that takes no time is done at once; send `Done`. Otherwise put it at the end of the
//!    queue, and send `Queued`.
//! 3. `Probe`: send `Queued` if the job is in the queue; it is done if it is not: send `Done`.
//! 4. The first job in the queue is done: send `Done`, and begin the next.
//! 5. `Queued`, `Done`: the question with this number is answered. After `Done`, do not wait for the
//!    job any more.
//! 6. The wait is over: suspect, for good, every peer whose answer with this number is missing.
//!
//! # Cost
//!
//! Two messages per peer and check, and `Done` as a third if the job had to wait. A crash is noticed
//! within one interval and `2T + Tproc`.
//!
//! # Known failures
//!
//! One message slower than `T` makes its sender a suspect although it is alive, and the verdict is
//! final. Without `Queued` (`fd/busy-or-dead-silent`), so does a job that takes longer than `Tproc`.
//! A node that has got `Queued` may wait in vain until its next question.

use std::collections::VecDeque;
use std::time::Duration;

use conclave_protocol::claims::Check;
use conclave_protocol::{
    Charge, Crashes, Ctx, Detecting, Entry, Knob, Model, Never, NodeId, NodeSet, Opt, Property,
    Protocol, Setup, Timing, Unfit,
};
use serde::{Deserialize, Serialize};

use super::{COMPLETE, Notice, PERFECT, ROOM, rounds};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BusyOrDead {
    /// The number of the latest check.
    check: u64,
    /// Peers that have not answered it.
    missing: NodeSet,
    /// Peers that have a job of ours that is not done.
    pending: NodeSet,
    suspected: NodeSet,
    /// The jobs of others; the first is being done.
    queue: VecDeque<Job>,
}

/// A job for a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Job {
    asker: NodeId,
    /// The number of the latest question about it.
    n: u64,
}

/// The messages, each with the number of the check that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// Do this for me.
    Ask {
        /// The number.
        n: u64,
    },
    /// Are you still at it?
    Probe {
        /// The number.
        n: u64,
    },
    /// You have to wait.
    Queued {
        /// The number.
        n: u64,
    },
    /// It is done.
    Done {
        /// The number.
        n: u64,
    },
}

/// The timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer {
    /// Time for the next check.
    Check,
    /// All answers to the present check must have arrived.
    Overdue,
    /// The first job in the queue is done.
    Work,
}

/// The constants.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// From one check to the next; no shorter than the time-out.
    pub interval: Duration,
    /// How long an answer can take.
    pub timeout: Duration,
    /// How long a job takes.
    pub work: Duration,
    mutation: Option<Mutation>,
}

/// What is wrong in a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutation {
    /// Rules 2 and 3 send no `Queued`: a busy node keeps silent.
    Silent,
}

impl Config {
    /// As the options say.
    pub fn of(setup: &Setup) -> Result<Self, Unfit> {
        let (interval, timeout) = rounds(setup)?;
        let work = setup.delay * setup.option::<u32>("work", 4)?;
        Ok(Self { interval, timeout, work, mutation: None })
    }

    fn is(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }
}

impl Protocol for BusyOrDead {
    type Config = Config;
    type Request = Never;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Timer;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        ctx.set_timer(Timer::Check, Duration::ZERO);
        Self {
            check: 0,
            missing: NodeSet::new(),
            pending: NodeSet::new(),
            suspected: NodeSet::new(),
            queue: VecDeque::new(),
        }
    }

    fn on_request(&mut self, request: Never, _: &mut Ctx<Self>) {
        match request {}
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            // Rule 2.
            Msg::Ask { n } if ctx.config.work.is_zero() => {
                ctx.rule(2);
                ctx.send(from, Msg::Done { n });
            }
            Msg::Ask { n } => {
                ctx.rule(2);
                self.queue.push_back(Job { asker: from, n });
                if self.queue.len() == 1 {
                    ctx.set_timer(Timer::Work, ctx.config.work);
                }
                self.say_queued(from, n, ctx);
            }
            // Rule 3.
            Msg::Probe { n } => {
                ctx.rule(3);
                match self.queue.iter_mut().find(|job| job.asker == from) {
                    Some(job) => {
                        job.n = n;
                        self.say_queued(from, n, ctx);
                    }
                    None => ctx.send(from, Msg::Done { n }),
                }
            }
            // Rule 5.
            Msg::Queued { n } => {
                ctx.rule(5);
                self.on_answer(from, n);
            }
            Msg::Done { n } => {
                ctx.rule(5);
                self.pending.remove(from);
                self.on_answer(from, n);
            }
        }
    }

    fn on_timer(&mut self, timer: Timer, ctx: &mut Ctx<Self>) {
        match timer {
            Timer::Check => self.check(ctx),
            Timer::Overdue => self.suspect_the_missing(ctx),
            // Rule 4.
            Timer::Work => {
                ctx.rule(4);
                if let Some(Job { asker, n }) = self.queue.pop_front() {
                    ctx.send(asker, Msg::Done { n });
                }
                if !self.queue.is_empty() {
                    ctx.set_timer(Timer::Work, ctx.config.work);
                }
            }
        }
    }

    fn charge(_: &Msg, _: NodeId, _: NodeId) -> Charge {
        Charge::Nobody
    }
}

impl BusyOrDead {
    /// Rule 1.
    fn check(&mut self, ctx: &mut Ctx<Self>) {
        // The wait may be over at this very moment.
        if !self.missing.is_empty() {
            self.suspect_the_missing(ctx);
        }
        ctx.rule(1);
        self.check += 1;
        let n = self.check;
        let trusted = ctx.peers().filter(|&peer| !self.suspected.contains(peer));
        self.missing = trusted.collect();
        for peer in self.missing.iter() {
            let first = self.pending.insert(peer);
            ctx.send(peer, if first { Msg::Ask { n } } else { Msg::Probe { n } });
        }
        ctx.set_timer(Timer::Overdue, ctx.config.timeout);
        ctx.set_timer(Timer::Check, ctx.config.interval);
    }

    fn say_queued(&self, to: NodeId, n: u64, ctx: &mut Ctx<Self>) {
        if !ctx.config.is(Mutation::Silent) {
            ctx.send(to, Msg::Queued { n });
        }
    }

    fn on_answer(&mut self, from: NodeId, n: u64) {
        if n == self.check {
            self.missing.remove(from);
        }
    }

    /// Rule 6.
    fn suspect_the_missing(&mut self, ctx: &mut Ctx<Self>) {
        ctx.rule(6);
        for peer in self.missing.take().iter() {
            self.suspected.insert(peer);
            self.pending.remove(peer);
            ctx.notify(Notice::Suspects(peer));
        }
    }
}

/// A busy node says so.
pub static PLAIN: Entry<BusyOrDead> = Entry::new("fd/busy-or-dead", "Busy or dead", Config::of)
    .summary("who is busy says so, and who says nothing within 2T + Tproc has crashed")
    .source("Negative answers, as the Queued of Ricart–Agrawala and the Denied of a coordinator")
    .text(include_str!("busy_or_dead.rs"))
    .model(Model { timing: Timing::Synchronous, crashes: Crashes::Stop, ..Model::RELIABLE })
    .holds(PERFECT)
    .options(&[
        Opt { name: "interval", default: "5", help: "peers are asked every so many T" },
        Opt { name: "work", default: "4", help: "a job takes so many T" },
    ])
    .claims(&[Check::new(3, PERFECT).crashes(1).bounded(60)])
    .deep(&[Check::new(4, PERFECT).crashes(1).bounded(60)])
    .detecting(Detecting {
        at_most: Some(|info| Some(info.default_number("interval")? + 2.0)),
        messages: None,
        knobs: &[Knob::processing(&[0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0]).beside(ROOM)],
    });

/// A busy node keeps silent.
pub static SILENT: Entry<BusyOrDead> = PLAIN
    .variant("fd/busy-or-dead-silent", "Busy or dead, in silence")
    .summary("who is busy says nothing, and is taken for dead")
    .mutant("fd/busy-or-dead", "rules 2 and 3 send no Queued", Property::Accuracy)
    .holds(COMPLETE)
    .config(|setup| Ok(Config { mutation: Some(Mutation::Silent), ..Config::of(setup)? }))
    .claims(&[
        Check::new(3, COMPLETE).crashes(1).bounded(60),
        Check::new(2, &[Property::Accuracy]).fails(5),
    ]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect};

    use super::*;

    const ASK: Msg = Msg::Ask { n: 1 };
    const QUEUED: Msg = Msg::Queued { n: 1 };

    #[test]
    fn a_busy_node_says_so_at_once_and_is_not_suspected() {
        let mut bench = Bench::complete(&PLAIN, 2);
        bench.at(0).timer(Timer::Check);
        let answered = bench.at(1).message(0, ASK);
        assert_eq!(answered.last(), Some(&Effect::Send { to: NodeId(0), msg: QUEUED }));
        assert_eq!(bench.at(0).message(1, QUEUED), []);
        assert_eq!(bench.at(0).timer(Timer::Overdue), []);
        // The job is still awaited.
        let probe = Effect::Send { to: NodeId(1), msg: Msg::Probe { n: 2 } };
        assert_eq!(bench.at(0).timer(Timer::Check)[0], probe);
    }

    #[test]
    fn one_that_keeps_silent_over_a_job_is_suspected() {
        let mut bench = Bench::complete(&SILENT, 2);
        bench.at(0).timer(Timer::Check);
        let answered = bench.at(1).message(0, ASK);
        assert!(matches!(answered[..], [Effect::SetTimer { timer: Timer::Work, .. }]));
        let suspects = Effect::Notify(Notice::Suspects(NodeId(1)));
        assert_eq!(bench.at(0).timer(Timer::Overdue), [suspects]);
    }
}
