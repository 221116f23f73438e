//! A coordinator grants the critical section to one client at a time. When it crashes, an election
//! finds the next one, which asks every node what it holds and wants before it goes on. A grant is
//! a lease: the holder renews it, and if the holder is silent for too long, it is over.
//!
//! Every coordinator serves in the epoch it was elected in, and clients listen only to the latest
//! they know of. A new coordinator grants nothing before every live client has turned to it and
//! said whether it is inside; so grants of the past are either reported or refused on arrival. A
//! holder that does not answer is waited for until its lease must be over: it counts its lease
//! from before the coordinator does, and stops first. Fencing tokens lead with the epoch.
//!
//! The election is a protocol of its own, inside this one; any will do that works where every node
//! has a link with every other, and the lock survives what the election survives.
//! `mutex/centralized-failover` elects with the bully algorithm, and
//! `mutex/centralized-failover-quorum` with a majority, so that a partition makes no second
//! coordinator for long.
//!
//! # Rules
//!
//! 1. Acquire: send `Request` to the coordinator; if none is known, call an election. Now and then
//!    while waiting: `Probe`, which the coordinator answers with `Alive`. If it does not within
//!    `2T + Tproc`: call an election. (The election hears of suspicions itself.)
//! 2. Elected: start rebuilding. Send `NewCoord` to all.
//! 3. `NewCoord` of a later epoch: this is the coordinator from now on. Send it `Status`: what I
//!    want, and what I hold.
//! 4. `Status`, rebuilding: queue what is wanted, and note the holder. Rebuilding is over when every
//!    node not suspected has answered (silence for `2T + Tproc` makes a suspect), and either the
//!    holder is known, or every node without exception has answered, or `Λ + 2T` have passed, so that
//!    no unknown lease can be running. Sort the queue by id.
//! 5. `Request`, serving: grant if there is no holder, else queue. A holder that asks again has
//!    crashed meanwhile, and holds nothing.
//! 6. `Grant` of the present epoch, waiting for it: enter, with a lease of `Λ − T`. Not waiting for
//!    it: send `Release`.
//! 7. Release: send `Release` to the coordinator, which grants to the next.
//! 8. Inside, every `Λ/2`: send `Renew`. The coordinator counts the lease afresh and sends
//!    `Renewed`; then the lease lasts until `Λ` after the `Renew` was sent. No answer within
//!    `2T + Tproc`: call an election.
//! 9. The lease is over: the holder is out, and its application is told. The coordinator frees the
//!    critical section `Λ + ε` after the grant or the last `Renew`.
//! 10. Without leases (`mutex/centralized-failover-no-lease`): no renewals, and a holder that is
//!     suspected counts as gone.
//! 11. Where the network may fall apart (`mutex/centralized-failover-quorum`), silence proves
//!     nothing, and the last coordinator may be busy elsewhere for a while: the grace that the
//!     election gives it. Rebuilding is over when every node has answered, or when `Λ + 2T` and the
//!     grace have passed; then no node is inside. Nothing is renewed before.
//! 12. Deposed: grant nothing any more.
//!
//! # Cost
//!
//! Three messages an entry and two hops, as with a coordinator that stays; renewals come on top if
//! a stay is longer than half a lease. To replace the coordinator: the election, N − 1 `NewCoord`,
//! and a `Status` from each that lives. If the holder crashes, the next one waits for the rest of
//! the lease; by rule 11, if any node has crashed, for all of it and the grace, 36T by default.
//!
//! # Known failures
//!
//! Without leases, a holder that is only slow and is taken for dead is joined by another; only the
//! fencing token tells them apart. And a node must not come back: if it has crashed inside and does
//! so before any other has noticed, its grant is not taken from it, and every other node waits. A
//! partition makes two coordinators, each with clients of its own, unless a majority elects them;
//! then clients without a majority wait, and without leases all clients would, for the nodes that
//! cannot be reached. Order is that of arrival at the coordinator, and by id after a failover.

mod config;
mod coordinator;
mod message;
mod office;

use conclave_protocol::claims::Check;
use conclave_protocol::{
    Charge, Crashes, Ctx, Detector, Effect, Entry, Model, NodeId, NodeSet, Property, Protocol,
    Time, Timing,
};
use serde::{Deserialize, Serialize};

use self::config::LEASE;
pub use self::config::{Config, config};
pub use self::message::{Msg, Timer};
use self::office::{Office, Stage, epoch_of};
use super::{LOCK, Notice, Request, SAFE};
use crate::election::{self, bully, quorum_epoch};

/// The state of a node: client, perhaps coordinator, and voter.
///
/// The election `E` must give every term an epoch of its own, higher than those before it; then the
/// lock is safe. It is live as far as a live node is elected in the end. So it serves over `ring-list`
/// or `chang-roberts` as long as no node crashes, and the order of the ring needs no ring; but where
/// a crash makes these lose an election or announce the dead, every client waits. A node that
/// recovers must remember its epochs, or fencing tokens begin again: these elections save nothing, so
/// over them it must not.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Coordinator<E: election::Algorithm> {
    phase: Phase,
    /// The latest epoch known, and the node that coordinates in it.
    epoch: u64,
    coordinator: Option<NodeId>,
    /// Set at the coordinator.
    office: Option<Office>,
    suspected: NodeSet,
    saved: Saved<E>,
    election: E,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Phase {
    Outside,
    Waiting,
    Inside {
        token: u64,
        /// When the `Renew` was sent that has not been answered.
        renewing: Option<Time>,
    },
}

/// What survives a crash.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Saved<E: election::Algorithm> {
    /// How many requests this node has made; the number of the latest.
    requests: u64,
    election: Option<E::Stable>,
}

impl<E: election::Algorithm> Protocol for Coordinator<E> {
    type Config = Config<E::Config>;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg<E::Msg>;
    type Timer = Timer<E::Timer>;
    type Stable = Saved<E>;

    fn start(saved: Option<Saved<E>>, ctx: &mut Ctx<Self>) -> Self {
        let mut saved = saved.unwrap_or(Saved { requests: 0, election: None });
        let stable = saved.election.clone();
        let mut elected = Vec::new();
        let election = inside(&mut saved, &mut elected, ctx, |ctx| E::start(stable, ctx));
        let mut state = Self {
            phase: Phase::Outside,
            epoch: 0,
            coordinator: None,
            office: None,
            suspected: NodeSet::new(),
            saved,
            election,
        };
        state.on_elected(elected, ctx);
        state
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            // Rule 1.
            Request::Acquire => {
                ctx.rule(1);
                self.saved.requests += 1;
                ctx.save(self.saved.clone());
                self.phase = Phase::Waiting;
                ctx.set_timer(Timer::Probe, ctx.config.probe);
                let request = self.saved.requests;
                match self.coordinator {
                    Some(node) => ctx.send(node, Msg::Request { epoch: self.epoch, request }),
                    None => self.call_election(ctx),
                }
            }
            // Rule 7.
            Request::Release => {
                ctx.rule(7);
                self.leave(ctx);
            }
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Self::Msg, ctx: &mut Ctx<Self>) {
        match msg {
            Msg::NewCoord(epoch) => self.on_new_coordinator(from, epoch, ctx),
            Msg::Grant { request, token } => self.on_grant(from, request, token, ctx),
            Msg::Renewed(token) => self.on_renewed(token, ctx),
            // Rule 1.
            Msg::Alive => {
                ctx.rule(1);
                ctx.cancel_timer(Timer::Silence);
            }
            Msg::Request { epoch, request } | Msg::Probe { epoch, request } => {
                if let Some(office) = self.office(epoch) {
                    // Rule 5.
                    ctx.rule(5);
                    office.enqueue(from, request);
                    if matches!(msg, Msg::Probe { .. }) {
                        // Rule 1.
                        ctx.rule(1);
                        ctx.send(from, Msg::Alive);
                    }
                    self.grant_next(ctx);
                }
            }
            // Rule 7.
            Msg::Release(token) => {
                if self.holder().is_some_and(|holder| holder.token == token) {
                    ctx.rule(7);
                    self.free(ctx);
                }
            }
            // Rule 8.
            Msg::Renew(token) => {
                if self.holder().is_some_and(|holder| holder.token == token) {
                    ctx.rule(8);
                    self.renew_holder(ctx);
                }
            }
            Msg::Status { epoch, request, wants, held } => {
                self.on_status(from, epoch, (request, wants, held), ctx);
            }
            Msg::App(msg) => {
                self.elect(ctx, |election, ctx| election.on_message(from, msg, ctx));
            }
        }
    }

    fn on_timer(&mut self, timer: Self::Timer, ctx: &mut Ctx<Self>) {
        match timer {
            // Rule 1.
            Timer::Probe => {
                ctx.rule(1);
                ctx.set_timer(Timer::Probe, ctx.config.probe);
                let (epoch, request) = (self.epoch, self.saved.requests);
                match self.coordinator {
                    Some(node) => {
                        ctx.set_timer(Timer::Silence, ctx.config.answer);
                        ctx.send(node, Msg::Probe { epoch, request });
                    }
                    None => self.call_election(ctx),
                }
            }
            // Rules 1 and 8.
            Timer::Silence => {
                ctx.rule(if self.phase == Phase::Waiting { 1 } else { 8 });
                self.call_election(ctx);
            }
            Timer::Renew => self.renew(ctx),
            // Rule 9.
            Timer::Expire => {
                ctx.rule(9);
                self.leave(ctx);
                ctx.notify(Notice::Revoked);
            }
            // Rule 9.
            Timer::Lease => {
                ctx.rule(9);
                self.free(ctx);
            }
            // Rule 4.
            Timer::Answers => {
                if let Some((missing, _)) = self.rebuilding() {
                    ctx.rule(4);
                    let silent = missing.take();
                    self.suspected.extend(silent.iter());
                    self.finish_rebuilding(ctx);
                }
            }
            Timer::Lapse => self.on_lapse(ctx),
            Timer::App(timer) => self.elect(ctx, |election, ctx| election.on_timer(timer, ctx)),
        }
    }

    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        self.suspected.insert(peer);
        self.elect(ctx, |election, ctx| election.on_suspect(peer, ctx));
        let Some(office) = &mut self.office else { return };
        office.queue.retain(|&(node, _)| node != peer);
        if let Stage::Rebuilding { missing, .. } = &mut office.stage
            && ctx.config.grace.is_none()
        {
            missing.remove(peer);
        }
        let gone = office.holder.is_some_and(|holder| holder.node == peer);
        // Rule 10.
        if gone && ctx.config.lease.is_none() {
            ctx.rule(10);
            self.free(ctx);
        }
        self.finish_rebuilding(ctx);
    }

    fn on_restore(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        self.suspected.remove(peer);
        self.elect(ctx, |election, ctx| election.on_restore(peer, ctx));
    }

    fn charge(msg: &Self::Msg, _: NodeId, _: NodeId) -> Charge {
        match msg {
            Msg::Request { .. } | Msg::Release(_) => Charge::Sender,
            Msg::Grant { .. } => Charge::Receiver,
            _ => Charge::Nobody,
        }
    }
}

/// The client.
impl<E: election::Algorithm> Coordinator<E> {
    /// Rule 3.
    fn on_new_coordinator(&mut self, from: NodeId, epoch: u64, ctx: &mut Ctx<Self>) {
        if epoch < self.epoch {
            return;
        }
        ctx.rule(3);
        self.adopt(from, epoch, ctx);
        let held = match self.phase {
            Phase::Inside { token, ref mut renewing } => {
                *renewing = Some(ctx.now());
                Some(token)
            }
            _ => None,
        };
        let (request, wants) = (self.saved.requests, self.phase == Phase::Waiting);
        ctx.send(from, Msg::Status { epoch, request, wants, held });
    }

    fn adopt(&mut self, coordinator: NodeId, epoch: u64, ctx: &mut Ctx<Self>) {
        if epoch <= self.epoch {
            return;
        }
        (self.coordinator, self.epoch) = (Some(coordinator), epoch);
        ctx.cancel_timer(Timer::Silence);
        self.leave_office(ctx);
    }

    fn leave_office(&mut self, ctx: &mut Ctx<Self>) {
        self.office = None;
        for timer in [Timer::Lease, Timer::Answers, Timer::Lapse] {
            ctx.cancel_timer(timer);
        }
    }

    /// Rule 6.
    fn on_grant(&mut self, from: NodeId, request: u64, token: u64, ctx: &mut Ctx<Self>) {
        if self.coordinator != Some(from) || epoch_of(token) != self.epoch {
            return;
        }
        ctx.rule(6);
        if self.phase != Phase::Waiting || request != self.saved.requests {
            ctx.send(from, Msg::Release(token));
            return;
        }
        self.phase = Phase::Inside { token, renewing: None };
        ctx.cancel_timer(Timer::Probe);
        ctx.cancel_timer(Timer::Silence);
        if let Some(lease) = ctx.config.lease {
            ctx.set_timer(Timer::Expire, lease - ctx.config.delay);
            ctx.set_timer(Timer::Renew, lease / 2);
        }
        ctx.notify(Notice::Acquired { token });
    }

    /// Rule 8.
    fn renew(&mut self, ctx: &mut Ctx<Self>) {
        let Phase::Inside { token, renewing } = &mut self.phase else { return };
        let (Some(lease), Some(node)) = (ctx.config.lease, self.coordinator) else { return };
        ctx.rule(8);
        *renewing = Some(ctx.now());
        ctx.set_timer(Timer::Renew, lease / 2);
        ctx.set_timer(Timer::Silence, ctx.config.answer);
        ctx.send(node, Msg::Renew(*token));
    }

    /// Rule 8.
    fn on_renewed(&mut self, renewed: u64, ctx: &mut Ctx<Self>) {
        if let Phase::Inside { token, renewing } = &mut self.phase
            && *token == renewed
            && let (Some(sent), Some(lease)) = (renewing.take(), ctx.config.lease)
        {
            ctx.rule(8);
            ctx.cancel_timer(Timer::Silence);
            ctx.set_timer(Timer::Expire, lease.saturating_sub(ctx.now() - sent));
        }
    }

    fn leave(&mut self, ctx: &mut Ctx<Self>) {
        if let (Phase::Inside { token, .. }, Some(node)) = (self.phase, self.coordinator) {
            ctx.send(node, Msg::Release(token));
        }
        self.phase = Phase::Outside;
        for timer in [Timer::Renew, Timer::Expire, Timer::Silence] {
            ctx.cancel_timer(timer);
        }
    }
}

/// The voter.
impl<E: election::Algorithm> Coordinator<E> {
    fn call_election(&mut self, ctx: &mut Ctx<Self>) {
        self.elect(ctx, |election, ctx| election.on_request(election::Request::Campaign, ctx));
    }

    /// Runs a rule of the election, and draws the consequences.
    fn elect(&mut self, ctx: &mut Ctx<Self>, rule: impl FnOnce(&mut E, &mut Ctx<E>)) {
        let mut elected = Vec::new();
        inside(&mut self.saved, &mut elected, ctx, |ctx| rule(&mut self.election, ctx));
        self.on_elected(elected, ctx);
    }

    fn on_elected(&mut self, elected: Vec<election::Notice>, ctx: &mut Ctx<Self>) {
        for notice in elected {
            match notice {
                election::Notice::Elected { leader, epoch } if epoch > self.epoch => {
                    self.adopt(leader, epoch, ctx);
                    if leader == ctx.me {
                        self.take_office(ctx);
                    }
                }
                election::Notice::Elected { .. } => {}
                // Rule 12.
                election::Notice::Deposed => {
                    ctx.rule(12);
                    self.leave_office(ctx);
                }
            }
        }
    }
}

/// Runs a rule of the election inside, and keeps what it says for later.
fn inside<E: election::Algorithm, T>(
    saved: &mut Saved<E>,
    elected: &mut Vec<election::Notice>,
    ctx: &mut Ctx<Coordinator<E>>,
    rule: impl FnOnce(&mut Ctx<E>) -> T,
) -> T {
    let config = ctx.config;
    let lift = |effect: Effect<E>, ctx: &mut Ctx<Coordinator<E>>| match effect {
        Effect::Send { to, msg } => ctx.send(to, Msg::App(msg)),
        Effect::Broadcast(msg) => ctx.broadcast(Msg::App(msg)),
        Effect::Notify(notice) => elected.push(notice),
        Effect::SetTimer { timer, after } => ctx.set_timer(Timer::App(timer), after),
        Effect::CancelTimer(timer) => ctx.cancel_timer(Timer::App(timer)),
        Effect::Save(stable) => {
            saved.election = Some(stable);
            ctx.save(saved.clone());
        }
    };
    ctx.nest(&config.election, lift, rule)
}

/// No random delays: where timers run out at any moment, they make no difference.
const NO_SPREAD: &[(&str, &str)] = &[("spread", "1")];

const SOURCE: &str = "Gray, Cheriton. Leases: an efficient fault-tolerant mechanism for distributed \
                      file cache consistency. SOSP, 1989";
const TEXT: &str = include_str!("centralized_failover.rs");
const MODEL: Model = Model {
    timing: Timing::Synchronous,
    crashes: Crashes::Recover,
    detector: Detector::Perfect,
    ..Model::FIFO
};
/// What no election can help.
const BY_ID: (Property, &str) = (
    Property::FcfsHappenedBefore,
    "p2 asks; the coordinator crashes; p1, which has heard of it all, asks the next one, which \
     queues what was wanted by id",
);

/// With the bully algorithm.
pub static PLAIN: Entry<Coordinator<bully::Bully>> =
    Entry::new("mutex/centralized-failover", "Central coordinator with failover", |setup| {
        config(setup, (bully::PLAIN.config)(setup)?)
    })
    .summary("elect a new coordinator when the old one crashes; grants are leases")
    .source(SOURCE)
    .text(TEXT)
    .model(MODEL)
    .holds(LOCK)
    .fails(&[BY_ID])
    .options(&[LEASE])
    .claims(&[
        // Clocks are read, so that there is no end to the states.
        Check::new(2, LOCK).crashes(1).recoveries(1).bounded(36),
        Check::new(3, LOCK).crashes(1).bounded(16),
        Check::new(3, &[Property::FcfsHappenedBefore]).crashes(1).fails(10),
    ])
    .deep(&[Check::new(3, LOCK).crashes(1).recoveries(1).bounded(16)]);

/// A grant lasts until it is given back, or its holder is suspected.
pub static NO_LEASE: Entry<Coordinator<bully::Bully>> = PLAIN
    .variant(
        "mutex/centralized-failover-no-lease",
        "Central coordinator with failover, without leases",
    )
    .summary("elect a new coordinator when the old one crashes; trust the failure detector")
    .model(Model { crashes: Crashes::Stop, ..MODEL })
    .options(&[])
    .config(|setup| Ok((PLAIN.config)(setup)?.without_leases()))
    .claims(&[
        Check::new(2, LOCK).crashes(1).bounded(60),
        Check::new(3, LOCK).crashes(1).bounded(20),
        Check::new(3, &[Property::FcfsHappenedBefore]).crashes(1).fails(9),
    ])
    .deep(&[Check::new(3, LOCK).crashes(1).bounded(40)]);

/// With an election by majority.
pub static QUORUM: Entry<Coordinator<quorum_epoch::QuorumEpoch>> = Entry::new(
    "mutex/centralized-failover-quorum",
    "Central coordinator with failover by majority",
    |setup| {
        let election = (quorum_epoch::PLAIN.config)(setup)?;
        let grace = election.grace();
        Ok(config(setup, election)?.with_grace(grace))
    },
)
.summary("a majority elects the coordinator, and partitions do no harm; grants are leases")
.source(SOURCE)
.text(TEXT)
.model(Model { partitions: true, detector: Detector::None, ..MODEL })
.holds(SAFE)
.fails(&[
    (Property::NoDeadlock, "two of three crash, and the third waits for a majority"),
    (Property::NoStarvation, "likewise, and so does a node without a majority on its side"),
    BY_ID,
])
.options(&[LEASE, quorum_epoch::SPREAD])
.claims(&[
    Check::new(2, SAFE).set(NO_SPREAD).crashes(1).recoveries(1).bounded(22),
    Check::new(3, SAFE).set(NO_SPREAD).clients(0, 1).partitions(1).bounded(18),
    Check::new(3, &[Property::NoDeadlock]).set(NO_SPREAD).crashes(2).timers(0).fails(3),
    Check::new(3, &[Property::NoStarvation]).set(NO_SPREAD).crashes(2).timers(0).fails(3),
    Check::new(3, &[Property::FcfsHappenedBefore]).set(NO_SPREAD).fails(13),
])
.deep(&[Check::new(3, SAFE).set(NO_SPREAD).partitions(1).bounded(12)]);

#[cfg(test)]
mod tests {
    use conclave_protocol::Bench;

    use super::*;

    #[test]
    fn a_grant_of_an_earlier_epoch_is_ignored_and_one_not_waited_for_is_returned() {
        let mut bench = Bench::complete(&PLAIN, 3);
        bench.at(0).message(2, Msg::NewCoord(7));
        assert_eq!(bench.at(0).rules(), [3]);
        let token = |epoch: u64| epoch << 24 | 1;
        let grant = |epoch| Msg::Grant { request: 1, token: token(epoch) };
        assert_eq!(bench.at(0).message(2, grant(6)), []);
        let returned = Effect::Send { to: NodeId(2), msg: Msg::Release(token(7)) };
        assert_eq!(bench.at(0).message(2, grant(7)), [returned]);
        bench.at(0).request(Request::Acquire);
        let entered = Effect::Notify(Notice::Acquired { token: token(7) });
        assert!(bench.at(0).message(2, grant(7)).contains(&entered));
        assert_eq!(bench.at(0).rules(), [6]);
    }
}
