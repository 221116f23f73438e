//! Several coordinators, each with one grant to give. A client asks some of them and enters when a
//! majority of m out of n has granted; if it gets fewer, it gives back what it got, waits a while,
//! and tries again. Coordinators are the nodes 0 to n − 1, clients the others.
//!
//! Two clients inside would hold m grants each, and m > n/2, so some coordinator would have
//! granted twice. For the same reason an entrant always meets a coordinator that the previous
//! holder released to; each release leaves the fencing token behind, each grant reports the
//! highest, and the entrant takes one more.
//!
//! # Rules
//!
//! 1. Acquire, or back-off over: take the next attempt number, choose m coordinators (`ask-m`) or
//!    all (`ask-all`), and send them `Req`.
//! 2. `Req`, at a coordinator: if its grant is free, or with an older attempt of the same client,
//!    it goes to this attempt: reply `Grant`. Otherwise reply `Deny`.
//! 3. A reply to the current attempt: count it. With m grants, enter. If all have replied and there
//!    are fewer, send `Rel` to the granters and back off: a constant time, or a random one up to a
//!    limit that doubles with every failure. Replies that are missing when `timeout` is over count
//!    as denials; those coordinators get `Rel` too.
//! 4. `Grant` for an attempt that is over: send `Rel` back at once.
//! 5. Release: send `Rel`, with the token, to all granters.
//! 6. `Rel`, at a coordinator: note its token; if it is of the attempt that has the grant, the grant
//!    is free.
//! 7. With a `lease`: a coordinator takes its grant back after that time. The client measures from
//!    its request, which is earlier, and stops in time; a grant is only as good as what is left of
//!    it. As it might not live to release, it leaves the token behind on entering (`Entered`, m
//!    more messages). A lease relies on clocks of equal speed and on no more than that.
//!
//! The persistent variant (`mutex/replicated-coordinator-persistent`) writes down what it grants
//! before it replies.
//!
//! 8. Booting again: a coordinator repeats its grant, which rule 4 returns if it is over; a client
//!    releases everything it might have had.
//!
//! # Cost
//!
//! Asking m, if attempt k succeeds and the failed ones had collected g grants: exactly 2mk + m + g
//! messages, and 2k hops plus the back-offs. Asking all n, alone: exactly 3n. With a lease, m more.
//!
//! # Known failures
//!
//! A coordinator that resets forgets its grant. Two can be inside as soon as 2m − n of the holder's
//! own granters have: one suffices for three coordinators and a majority of two. More than half
//! need not fail together.
//!
//! With a constant back-off two clients can split the coordinators between them for ever. With a
//! random one they do not, but nothing bounds how often a client loses. Coordinators keep no
//! queue, so that a request may lose to a later one. Without a lease the grants of a client that
//! crashed are gone, as is one whose release is lost until the same client asks again.

mod attempts;
mod config;

use std::time::Duration;

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{Case, REPLICAS};
use conclave_protocol::{
    Channels, Charge, Crashes, Ctx, Entry, Model, NodeId, NodeSet, Property, Protocol, Time,
};
use serde::{Deserialize, Serialize};

use self::attempts::{ASKING_A_MAJORITY, ATTEMPTS, PARTIAL_ATTEMPTS, attempts};
pub use self::config::Config;
use self::config::{Backoff, OPTIONS, Targets, config};
pub(super) use self::config::{COORDINATORS, MAJORITY, group};
use super::{Notice, Request, SAFE};

/// The state of a node: a client's part and a coordinator's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReplicatedCoordinator {
    /// The number of our latest attempt.
    attempt: u64,
    phase: Phase,
    /// The client that has this coordinator's grant.
    granted: Option<Grantee>,
    /// The highest fencing token this node has seen.
    highest: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Phase {
    Outside,
    Asking { began: Time, failures: u32, missing: NodeSet, granters: NodeSet },
    BackingOff { failures: u32 },
    Inside { granters: NodeSet },
}

/// The client and attempt that have a coordinator's grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Grantee {
    client: NodeId,
    attempt: u64,
}

/// What nodes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// May I?
    Req {
        /// The client's attempt.
        attempt: u64,
    },
    /// You may, as far as I am concerned.
    Grant {
        /// The attempt that asked.
        attempt: u64,
        /// The highest fencing token the coordinator has seen.
        highest: u64,
    },
    /// Another has my grant.
    Deny {
        /// The attempt that asked.
        attempt: u64,
    },
    /// I do not need your grant any more.
    Rel {
        /// The attempt it was given to.
        attempt: u64,
        /// The highest fencing token the client has seen, its own included.
        token: u64,
    },
    /// I have entered; only where there are leases.
    Entered {
        /// The fencing token.
        token: u64,
    },
}

/// The timers of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer {
    /// A client has waited long enough for replies.
    Timeout,
    /// A client has backed off long enough.
    Retry,
    /// A client's grants end.
    Expiry,
    /// A coordinator's grant ends.
    Lease,
}

/// What the persistent variant writes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stable {
    attempt: u64,
    highest: u64,
    granted: Option<Grantee>,
}

/// So often the limit of a random back-off doubles.
const MOST_DOUBLINGS: u32 = 6;

impl Protocol for ReplicatedCoordinator {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Timer;
    type Stable = Stable;

    fn start(saved: Option<Stable>, ctx: &mut Ctx<Self>) -> Self {
        let saved = saved.unwrap_or(Stable { attempt: 0, highest: 0, granted: None });
        let Stable { attempt, highest, granted } = saved;
        // Rule 8.
        if attempt > 0 {
            ctx.rule(8);
            // Whatever the attempt had come to, it is over.
            let all = (0..ctx.config.coordinators).map(NodeId);
            ctx.multicast(all, Msg::Rel { attempt, token: highest });
        }
        if let Some(Grantee { client, attempt }) = granted {
            ctx.rule(8);
            ctx.send(client, Msg::Grant { attempt, highest });
            if let Some(lease) = ctx.config.lease {
                ctx.set_timer(Timer::Lease, lease);
            }
        }
        Self { attempt, phase: Phase::Outside, granted, highest }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            Request::Acquire => self.ask(0, ctx),
            // Rule 5.
            Request::Release => {
                ctx.rule(5);
                self.leave(ctx);
            }
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            Msg::Req { attempt } => self.on_asked(from, attempt, ctx),
            // Rule 6.
            Msg::Rel { attempt, token } => {
                ctx.rule(6);
                self.highest = self.highest.max(token);
                if self.granted == Some(Grantee { client: from, attempt }) {
                    self.free(ctx);
                }
                self.save(ctx);
            }
            // Rule 7.
            Msg::Entered { token } => {
                ctx.rule(7);
                self.highest = self.highest.max(token);
                self.save(ctx);
            }
            Msg::Grant { attempt, highest } => self.on_grant(from, attempt, highest, ctx),
            // Rule 3.
            Msg::Deny { attempt } => {
                if let Phase::Asking { missing, .. } = &mut self.phase
                    && attempt == self.attempt
                    && missing.remove(from)
                {
                    ctx.rule(3);
                    self.decide(ctx);
                }
            }
        }
    }

    fn on_timer(&mut self, timer: Timer, ctx: &mut Ctx<Self>) {
        match (timer, &self.phase) {
            // Rule 3.
            (Timer::Timeout, Phase::Asking { .. }) => {
                ctx.rule(3);
                self.give_up(ctx);
            }
            (Timer::Retry, &Phase::BackingOff { failures }) => self.ask(failures, ctx),
            // Rule 7.
            (Timer::Expiry, Phase::Inside { .. }) => {
                ctx.rule(7);
                self.leave(ctx);
                ctx.notify(Notice::Revoked);
            }
            // Rule 7.
            (Timer::Lease, _) => {
                ctx.rule(7);
                self.free(ctx);
                self.save(ctx);
            }
            _ => {}
        }
    }

    fn charge(msg: &Msg, _: NodeId, _: NodeId) -> Charge {
        match msg {
            Msg::Req { .. } | Msg::Rel { .. } | Msg::Entered { .. } => Charge::Sender,
            Msg::Grant { .. } | Msg::Deny { .. } => Charge::Receiver,
        }
    }
}

/// The client's rules.
impl ReplicatedCoordinator {
    /// Rule 1.
    fn ask(&mut self, failures: u32, ctx: &mut Ctx<Self>) {
        ctx.rule(1);
        self.attempt = ctx.config.wrap.after(self.attempt);
        self.save(ctx);
        let targets = self.targets(ctx);
        ctx.multicast(targets.iter(), Msg::Req { attempt: self.attempt });
        if let Some(timeout) = ctx.config.timeout {
            ctx.set_timer(Timer::Timeout, timeout);
        }
        self.phase = Phase::Asking {
            began: ctx.now(),
            failures,
            missing: targets,
            granters: NodeSet::new(),
        };
    }

    fn targets(&self, ctx: &mut Ctx<Self>) -> NodeSet {
        let (n, m) = (ctx.config.coordinators, ctx.config.majority);
        let from = |start: u32| (0..m).map(|i| NodeId((start + i) % n)).collect();
        match ctx.config.targets {
            Targets::All => (0..n).map(NodeId).collect(),
            Targets::Fixed { first } => from(first % n),
            Targets::Rotate { first } => {
                let steps = u64::from(first) + u64::from(ctx.me.0.saturating_sub(n)) + self.attempt;
                from(((steps - 1) % u64::from(n)) as u32)
            }
            Targets::Random => {
                let mut left: Vec<NodeId> = (0..n).map(NodeId).collect();
                (0..m).map(|_| left.swap_remove(ctx.choose(left.len() as u32) as usize)).collect()
            }
        }
    }

    /// Rules 3 and 4.
    fn on_grant(&mut self, from: NodeId, attempt: u64, highest: u64, ctx: &mut Ctx<Self>) {
        self.highest = self.highest.max(highest);
        match &mut self.phase {
            Phase::Asking { missing, granters, .. } if attempt == self.attempt => {
                if missing.remove(from) {
                    ctx.rule(3);
                    granters.insert(from);
                    self.decide(ctx);
                }
            }
            Phase::Inside { granters } if attempt == self.attempt => {
                ctx.rule(3);
                granters.insert(from);
            }
            _ => {
                ctx.rule(4);
                ctx.send(from, Msg::Rel { attempt, token: self.highest });
            }
        }
    }

    /// Enters or gives up, once the replies allow no other outcome.
    fn decide(&mut self, ctx: &mut Ctx<Self>) {
        let Phase::Asking { began, missing, granters, .. } = &mut self.phase else { return };
        if granters.len() < ctx.config.majority as usize {
            if missing.is_empty() {
                self.give_up(ctx);
            }
            return;
        }
        let left = ctx.config.lease.map(|lease| lease.saturating_sub(ctx.now() - *began));
        if left == Some(Duration::ZERO) {
            return self.give_up(ctx);
        }
        let granters = granters.take();
        self.highest = ctx.config.wrap.after(self.highest);
        let token = self.highest;
        ctx.cancel_timer(Timer::Timeout);
        if let Some(left) = left {
            ctx.rule(7);
            ctx.set_timer(Timer::Expiry, left);
            ctx.multicast(granters.iter(), Msg::Entered { token });
        }
        self.phase = Phase::Inside { granters };
        self.save(ctx);
        ctx.notify(Notice::Acquired { token });
    }

    fn give_up(&mut self, ctx: &mut Ctx<Self>) {
        let Phase::Asking { failures, missing, granters, .. } = &mut self.phase else { return };
        let Config { backoff, base, unit, .. } = *ctx.config;
        // More make no difference to how long it waits.
        let most = if backoff == Backoff::Random { MOST_DOUBLINGS } else { 0 };
        let (failures, mut back) = ((*failures + 1).min(most), granters.take());
        back.extend(missing.iter());
        ctx.cancel_timer(Timer::Timeout);
        ctx.multicast(back.iter(), Msg::Rel { attempt: self.attempt, token: self.highest });
        let pause = match backoff {
            Backoff::Constant => base,
            Backoff::Random => 1 + ctx.choose(base << failures),
        };
        ctx.set_timer(Timer::Retry, unit * pause);
        self.phase = Phase::BackingOff { failures };
    }

    fn leave(&mut self, ctx: &mut Ctx<Self>) {
        if let Phase::Inside { granters } = &mut self.phase {
            let (granters, token) = (granters.take(), self.highest);
            self.phase = Phase::Outside;
            if ctx.config.lease.is_some() {
                ctx.cancel_timer(Timer::Expiry);
            }
            ctx.multicast(granters.iter(), Msg::Rel { attempt: self.attempt, token });
        }
    }
}

/// The coordinator's rules.
impl ReplicatedCoordinator {
    /// Rule 2.
    fn on_asked(&mut self, client: NodeId, attempt: u64, ctx: &mut Ctx<Self>) {
        ctx.rule(2);
        let free = match self.granted {
            None => true,
            Some(held) => held.client == client && ctx.config.wrap.is_later(attempt, held.attempt),
        };
        if !free {
            return ctx.send(client, Msg::Deny { attempt });
        }
        self.granted = Some(Grantee { client, attempt });
        self.save(ctx);
        if let Some(lease) = ctx.config.lease {
            ctx.set_timer(Timer::Lease, lease);
        }
        ctx.send(client, Msg::Grant { attempt, highest: self.highest });
    }

    fn free(&mut self, ctx: &mut Ctx<Self>) {
        self.granted = None;
        if ctx.config.lease.is_some() {
            ctx.cancel_timer(Timer::Lease);
        }
    }

    fn save(&self, ctx: &mut Ctx<Self>) {
        if ctx.config.persist {
            let Self { attempt, highest, granted, .. } = *self;
            ctx.save(Stable { attempt, highest, granted });
        }
    }
}

/// Clients that meet again and again. They wait for all replies to an attempt before the next, so
/// that on FIFO links no more than two attempts are under way, which three numbers tell apart.
const MEETING: &[(&str, &str)] = &[("wrap", "3"), ("timeout", "0"), ("backoff", "constant")];
/// The same with the numbers of the catalogue's story.
const MEETING_FOUR: &[(&str, &str)] = &[
    ("wrap", "3"),
    ("timeout", "0"),
    ("backoff", "constant"),
    ("coordinators", "4"),
    ("mode", "ask-all"),
];
/// Clients that draw by lot how long to wait.
const DRAWING: &[(&str, &str)] = &[("wrap", "3"), ("timeout", "0"), ("base", "1")];

/// Coordinators that forget on a crash.
pub static PLAIN: Entry<ReplicatedCoordinator> =
    Entry::new("mutex/replicated-coordinator", "Replicated coordinators", |setup| {
        config(setup, false)
    })
    .summary("ask several coordinators; enter with a majority of grants, else back off")
    .source(
        "After Gifford. Weighted voting for replicated data. SOSP, 1979; retry scheme as in Lin, \
         Lian, Chen, Zhang. IPTPS, 2004",
    )
    .text(include_str!("replicated_coordinator.rs"))
    .model(Model::RELIABLE)
    .holds(SAFE)
    .fails(&[
        (
            Property::NoDeadlock,
            "n=4, m=3, constant back-off: two clients get two grants each, give them back, and \
             meet again for ever; a random back-off makes this unlikely, not impossible",
        ),
        (
            Property::NoStarvation,
            "a retrying node has no claim over a newcomer, and may lose every time",
        ),
        (
            Property::FcfsHappenedBefore,
            "a client that was denied backs off, and one that asks later finds the grants free",
        ),
    ])
    .options(OPTIONS)
    .clients(|config: &Config, n| config.coordinators..n)
    .claims(&[
        Check::new(3, SAFE).timers(4),
        Check::new(5, SAFE).set(&[("coordinators", "3")]).timers(1),
        Check::new(4, &[Property::NoDeadlock]).channels(Channels::Fifo).set(MEETING).loops(37, 2),
        Check::new(4, &[Property::NoDeadlock]).channels(Channels::Fifo).set(DRAWING).loops(99, 64),
        // Here one of the clients always enters, but not all of them do.
        Check::new(3, &[Property::NoStarvation])
            .channels(Channels::Fifo)
            .endless()
            .set(MEETING)
            .loops(40, 16),
        Check::new(3, &[Property::NoStarvation])
            .channels(Channels::Fifo)
            .endless()
            .set(DRAWING)
            .loops(59, 35),
        Check::new(3, &[Property::FcfsHappenedBefore]).requests(2).fails(10),
    ])
    .deep(&[
        Check::new(4, SAFE).timers(2),
        Check::new(6, &[Property::NoDeadlock])
            .channels(Channels::Fifo)
            .set(MEETING_FOUR)
            .loops(66, 2),
    ])
    .cases(&[
        Case::new("idle-ask-m", REPLICAS, |given| {
            let setup = given.replicas(1).with("majority", given.n("m")).with("mode", "ask-m");
            given.lone(setup, given.n("n"))
        })
        .fits(&[ASKING_A_MAJORITY]),
        Case::new("k-attempts-no-partial", ATTEMPTS, attempts),
        Case::new("k-attempts-g-partial", PARTIAL_ATTEMPTS, attempts),
    ]);

/// Coordinators that write down what they grant.
pub static PERSISTENT: Entry<ReplicatedCoordinator> = PLAIN
    .variant(
        "mutex/replicated-coordinator-persistent",
        "Replicated coordinators with stable storage",
    )
    .summary("as replicated coordinators, but grants are written down and survive a crash")
    .model(Model { crashes: Crashes::Recover, ..Model::RELIABLE })
    .config(|setup| config(setup, true))
    .claims(&[
        Check::new(3, SAFE).crashes(1).recoveries(1).timers(3),
        Check::new(5, SAFE).set(&[("coordinators", "3")]).crashes(1).recoveries(1).timers(0),
        Check::new(4, &[Property::NoDeadlock]).channels(Channels::Fifo).set(MEETING).loops(38, 4),
        Check::new(4, &[Property::NoDeadlock]).channels(Channels::Fifo).set(DRAWING).loops(99, 64),
        // Here one of the clients always enters, but not all of them do.
        Check::new(3, &[Property::NoStarvation])
            .channels(Channels::Fifo)
            .endless()
            .set(MEETING)
            .loops(40, 16),
        Check::new(3, &[Property::NoStarvation])
            .channels(Channels::Fifo)
            .endless()
            .set(DRAWING)
            .loops(59, 35),
        Check::new(3, &[Property::FcfsHappenedBefore]).requests(2).fails(10),
    ]);

#[cfg(test)]
mod tests {
    use conclave_protocol::Bench;

    use super::*;

    #[test]
    fn an_old_request_that_comes_late_does_not_take_the_grant_of_a_newer() {
        let mut bench = Bench::complete(&PLAIN, 4);
        let newer = Some(Grantee { client: NodeId(2), attempt: 2 });
        bench.at(0).message(2, Msg::Req { attempt: 2 });
        assert_eq!(bench.at(0).state().granted, newer);
        // The first attempt had been given up; had it the grant, its return would free the second.
        bench.at(0).message(2, Msg::Req { attempt: 1 });
        bench.at(0).message(2, Msg::Rel { attempt: 1, token: 0 });
        assert_eq!(bench.at(0).state().granted, newer);
    }
}
