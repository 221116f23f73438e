//! A coordinator grants the critical section to one client at a time. When it crashes, an election
//! finds the next one, which asks everybody what they hold and want before it goes on. A grant is
//! a lease: the holder renews it, and if the holder is silent for too long, it is over.
//!
//! Every coordinator serves in the epoch it was elected in, and clients listen only to the latest
//! they know of. A new coordinator grants nothing before every live client has turned to it and
//! said whether it is inside; so grants of the past are either reported or refused on arrival. A
//! holder that does not answer is waited for until its lease must be over: it counts its lease
//! from before the coordinator does, and stops first. Fencing tokens lead with the epoch.
//!
//! The election is a protocol of its own, inside this one; any will do that works where everybody
//! is linked with everybody, and the lock survives what the election survives.
//! `mutex/centralized-failover` elects with the bully algorithm, and
//! `mutex/centralized-failover-quorum` with a majority, so that a partition makes no second
//! coordinator for long.
//!
//! # Rules
//!
//! 1. Acquire: send `Request` to the coordinator; if none is known, call an election. Now and then
//!    while waiting: `Probe`, which the coordinator answers with `Alive`. If it does not within
//!    `2T + Tproc`, or if the failure detector suspects it: call an election.
//! 2. Elected: start rebuilding. Send `NewCoord` to all.
//! 3. `NewCoord` of a later epoch: this is the coordinator from now on. Send it `Status`: what I
//!    want, and what I hold.
//! 4. Rebuilding is over when everybody not suspected has answered (silence for `2T + Tproc` makes
//!    a suspect), and either the holder is known, or everybody without exception has answered, or
//!    `Λ + 2T` have passed, so that no unknown lease can be running. Queue what is wanted, by id.
//! 5. `Request`, serving: grant if nobody holds, else queue. A holder that asks again has crashed
//!    meanwhile, and holds nothing.
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
//!     election gives it. Rebuilding is over when everybody has answered, or when `Λ + 2T` and the
//!     grace have passed; then nobody is inside. Nothing is renewed before. Who is deposed grants
//!     nothing any more.
//!
//! # Cost
//!
//! Three messages an entry and two hops, as with a coordinator that stays; renewals come on top if
//! a stay is longer than half a lease. To replace the coordinator: the election, N − 1 `NewCoord`,
//! and a `Status` from each that lives. If the holder crashes, the next one waits for the rest of
//! the lease; by rule 11, if anybody has crashed, for all of it and the grace, 36T by default.
//!
//! # Known failures
//!
//! Without leases, a holder that is only slow and is taken for dead is joined by another; only the
//! fencing token tells them apart. And a node must not come back: if it has crashed inside and does
//! so before anybody has noticed, nobody takes its grant from it, and everybody waits. A partition
//! makes two coordinators, each with clients of its own, unless a majority elects them; then clients
//! without a majority wait, and without leases everybody would, for those who cannot be reached. Order is that of arrival at the coordinator,
//! and by id after a failover.

mod message;
mod office;

use std::time::Duration;

use conclave_protocol::claims::Check;
use conclave_protocol::{
    Charge, Crashes, Ctx, Detector, Effect, Entry, Info, Model, NodeId, NodeSet, Opt, Property,
    Protocol, Setup, Time, Timing, Unfit,
};
use serde::{Deserialize, Serialize};

use super::{LOCK, SAFE};

pub use self::message::{Msg, Timer};
use self::office::{Holder, Office, Stage, epoch_of};
use super::{Notice, Request};
use crate::election::{self, bully, quorum_epoch};

/// The state of a node: client, perhaps coordinator, and voter.
///
/// The election `E` must give every term an epoch of its own, higher than those before it; then the
/// lock is safe. It is live as far as somebody who lives is elected in the end. So it serves over
/// `ring-list` or `chang-roberts` as long as nobody crashes, and the order of the ring needs no ring;
/// but where a crash makes these lose an election or announce the dead, everybody waits. A node that
/// recovers must remember its epochs, or fencing tokens begin again: these elections save nothing, so
/// over them it must not.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Coordinator<E: election::Algorithm> {
    phase: Phase,
    /// The latest epoch known, and who coordinates in it.
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

/// The constants, those of the election inside included.
#[derive(Clone, Debug)]
pub struct Config<C> {
    /// Λ, unless there are no leases.
    lease: Option<Duration>,
    delay: Duration,
    /// How long an answer can take.
    answer: Duration,
    probe: Duration,
    /// How long a coordinator may take itself for one when another has been elected; `None` if
    /// whoever is elected is the only one.
    grace: Option<Duration>,
    election: C,
}

impl<C> Config<C> {
    /// The same for an election that may leave the last leader in office for so long.
    #[must_use]
    pub fn with_grace(self, grace: Duration) -> Self {
        Self { grace: Some(grace), ..self }
    }

    /// The same with grants that last until they are given back.
    #[must_use]
    pub fn without_leases(self) -> Self {
        Self { lease: None, ..self }
    }
}

/// No random delays: where timers run out at any moment, they make no difference.
const NO_SPREAD: &[(&str, &str)] = &[("spread", "1")];

/// With the bully algorithm.
pub static PLAIN: Entry<Coordinator<bully::Bully>> = Entry {
    info: Info {
        id: "mutex/centralized-failover",
        title: "Central coordinator with failover",
        summary: "elect a new coordinator when the old one crashes; grants are leases",
        source: "Gray, Cheriton. Leases: an efficient fault-tolerant mechanism for distributed \
                 file cache consistency. SOSP, 1989",
        text: include_str!("centralized_failover.rs"),
        model: Model {
            timing: Timing::Synchronous,
            crashes: Crashes::Recover,
            detector: Detector::Perfect,
            ..Model::FIFO
        },
        holds: &[
            Property::Exclusion,
            Property::NoDeadlock,
            Property::NoStarvation,
            Property::FenceOrder,
        ],
        fails: &[(
            Property::FcfsHappenedBefore,
            "p2 asks; the coordinator crashes; p1, which has heard of it all, asks the next one, \
             which queues what was wanted by id",
        )],
        options: &[LEASE],
        mutant: None,
        claims: &[
            // Clocks are read, so that there is no end to the states.
            Check::new(2, LOCK).crashes(1).recoveries(1).bounded(36),
            Check::new(3, LOCK).crashes(1).bounded(16),
            Check::new(3, &[Property::FcfsHappenedBefore]).crashes(1).fails(10),
        ],
        deep: &[Check::new(3, LOCK).crashes(1).recoveries(1).bounded(16)],
        ..Info::EMPTY
    },
    config: |setup| config(setup, (bully::PLAIN.config)(setup)?),
    clients: Entry::<Coordinator<bully::Bully>>::everyone,
};

/// A grant lasts until it is given back, or its holder is suspected.
pub static NO_LEASE: Entry<Coordinator<bully::Bully>> = Entry {
    info: Info {
        id: "mutex/centralized-failover-no-lease",
        title: "Central coordinator with failover, without leases",
        summary: "elect a new coordinator when the old one crashes; trust the failure detector",
        model: Model { crashes: Crashes::Stop, ..PLAIN.info.model },
        options: &[],
        claims: &[
            Check::new(2, LOCK).crashes(1).bounded(60),
            Check::new(3, LOCK).crashes(1).bounded(20),
            Check::new(3, &[Property::FcfsHappenedBefore]).crashes(1).fails(9),
        ],
        deep: &[Check::new(3, LOCK).crashes(1).bounded(40)],
        cases: &[],
        ..PLAIN.info
    },
    config: |setup| Ok((PLAIN.config)(setup)?.without_leases()),
    ..PLAIN
};

/// With an election by majority.
pub static QUORUM: Entry<Coordinator<quorum_epoch::QuorumEpoch>> = Entry {
    info: Info {
        id: "mutex/centralized-failover-quorum",
        title: "Central coordinator with failover by majority",
        summary: "a majority elects the coordinator, and partitions do no harm; grants are leases",
        model: Model { partitions: true, detector: Detector::None, ..PLAIN.info.model },
        holds: &[Property::Exclusion, Property::FenceOrder],
        fails: &[
            (Property::NoDeadlock, "two of three crash, and the third waits for a majority"),
            (Property::NoStarvation, "likewise, and so does whoever has no majority on its side"),
            PLAIN.info.fails[0],
        ],
        options: &[LEASE, quorum_epoch::SPREAD],
        claims: &[
            Check::new(2, SAFE).set(NO_SPREAD).crashes(1).recoveries(1).bounded(22),
            Check::new(3, SAFE).set(NO_SPREAD).clients(0, 1).partitions(1).bounded(18),
            Check::new(3, &[Property::NoDeadlock]).set(NO_SPREAD).crashes(2).timers(0).fails(3),
            Check::new(3, &[Property::NoStarvation]).set(NO_SPREAD).crashes(2).timers(0).fails(3),
            Check::new(3, &[Property::FcfsHappenedBefore]).set(NO_SPREAD).fails(13),
        ],
        deep: &[Check::new(3, SAFE).set(NO_SPREAD).partitions(1).bounded(12)],
        cases: &[],
        ..PLAIN.info
    },
    config: |setup| {
        let election = (quorum_epoch::PLAIN.config)(setup)?;
        let grace = election.grace();
        Ok(config(setup, election)?.with_grace(grace))
    },
    clients: Entry::<Coordinator<quorum_epoch::QuorumEpoch>>::everyone,
};

const LEASE: Opt = Opt {
    name: "lease",
    default: "20",
    help: "how long a grant lasts unless renewed, in T, at least 8",
};

/// The constants around an election with the constants `election`.
pub fn config<C>(setup: &Setup, election: C) -> Result<Config<C>, Unfit> {
    let lease: u32 = setup.option("lease", 20)?;
    if lease < 8 {
        let why = "a shorter one cannot be renewed in time";
        return Err(Unfit::new(format!("lease={lease}, but it has to be 8 or more: {why}")));
    }
    let answer = setup.delay * 2 + setup.processing;
    Ok(Config {
        lease: Some(setup.delay * lease),
        delay: setup.delay,
        answer,
        probe: answer + setup.delay * 4,
        grace: None,
        election,
    })
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
            Request::Acquire => {
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
            Request::Release => self.leave(ctx),
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Self::Msg, ctx: &mut Ctx<Self>) {
        match msg {
            Msg::NewCoord(epoch) => self.on_new_coordinator(from, epoch, ctx),
            Msg::Grant { request, token } => self.on_grant(from, request, token, ctx),
            Msg::Renewed(token) => self.on_renewed(token, ctx),
            Msg::Alive => ctx.cancel_timer(Timer::Silence),
            Msg::Request { epoch, request } | Msg::Probe { epoch, request } => {
                if let Some(office) = self.office(epoch) {
                    office.enqueue(from, request);
                    if matches!(msg, Msg::Probe { .. }) {
                        ctx.send(from, Msg::Alive);
                    }
                    self.grant_next(ctx);
                }
            }
            Msg::Release(token) => {
                if self.holder().is_some_and(|holder| holder.token == token) {
                    self.free(ctx);
                }
            }
            Msg::Renew(token) => {
                if self.holder().is_some_and(|holder| holder.token == token) {
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
            Timer::Probe => {
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
            Timer::Silence => self.call_election(ctx),
            Timer::Renew => self.renew(ctx),
            Timer::Expire => {
                self.leave(ctx);
                ctx.notify(Notice::Revoked);
            }
            Timer::Lease => self.free(ctx),
            Timer::Answers => {
                if let Some((missing, _)) = self.rebuilding() {
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
        if gone && ctx.config.lease.is_none() {
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
    fn on_new_coordinator(&mut self, from: NodeId, epoch: u64, ctx: &mut Ctx<Self>) {
        if epoch < self.epoch {
            return;
        }
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

    fn on_grant(&mut self, from: NodeId, request: u64, token: u64, ctx: &mut Ctx<Self>) {
        if self.coordinator != Some(from) || epoch_of(token) != self.epoch {
            return;
        }
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

    fn renew(&mut self, ctx: &mut Ctx<Self>) {
        let Phase::Inside { token, renewing } = &mut self.phase else { return };
        let (Some(lease), Some(node)) = (ctx.config.lease, self.coordinator) else { return };
        *renewing = Some(ctx.now());
        ctx.set_timer(Timer::Renew, lease / 2);
        ctx.set_timer(Timer::Silence, ctx.config.answer);
        ctx.send(node, Msg::Renew(*token));
    }

    fn on_renewed(&mut self, renewed: u64, ctx: &mut Ctx<Self>) {
        if let Phase::Inside { token, renewing } = &mut self.phase
            && *token == renewed
            && let (Some(sent), Some(lease)) = (renewing.take(), ctx.config.lease)
        {
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

/// The coordinator.
impl<E: election::Algorithm> Coordinator<E> {
    fn take_office(&mut self, ctx: &mut Ctx<Self>) {
        let all: NodeSet = ctx.topology.nodes().collect();
        let Config { lease, delay, answer, grace, .. } = *ctx.config;
        if grace.is_some() {
            self.office = Some(Office::rebuilding(all.clone(), false));
        } else {
            let missing = all.iter().filter(|&node| !self.suspected.contains(node)).collect();
            self.office = Some(Office::rebuilding(missing, lease.is_none()));
            ctx.set_timer(Timer::Answers, answer);
        }
        if let Some(lease) = lease {
            ctx.set_timer(Timer::Lapse, lease + delay * 2 + grace.unwrap_or_default());
        }
        ctx.multicast(all.iter(), Msg::NewCoord(self.epoch));
    }

    fn on_status(
        &mut self,
        from: NodeId,
        epoch: u64,
        (request, wants, held): (u64, bool, Option<u64>),
        ctx: &mut Ctx<Self>,
    ) {
        let Some(office) = self.office(epoch) else { return };
        if wants {
            office.enqueue(from, request);
        }
        if let Stage::Rebuilding { missing, .. } = &mut office.stage {
            missing.remove(from);
            let latest = office.holder.map(|holder| holder.token);
            if let Some(token) = held
                && held > latest
            {
                office.holder = Some(Holder { node: from, request, token });
                self.renew_holder(ctx);
            }
            self.suspected.remove(from);
            self.finish_rebuilding(ctx);
        }
        self.grant_next(ctx);
    }

    fn finish_rebuilding(&mut self, ctx: &mut Ctx<Self>) {
        let Some(office) = &mut self.office else { return };
        let Stage::Rebuilding { missing, lapsed } = &office.stage else { return };
        let over = if ctx.config.grace.is_some() {
            missing.is_empty() || *lapsed
        } else {
            let nobody_inside = *lapsed || self.suspected.is_empty();
            missing.is_empty() && (office.holder.is_some() || nobody_inside)
        };
        if over {
            office.stage = Stage::Serving;
            office.queue.retain(|&(node, _)| !self.suspected.contains(node));
            office.queue.make_contiguous().sort_unstable();
            ctx.cancel_timer(Timer::Answers);
            ctx.cancel_timer(Timer::Lapse);
            if ctx.config.grace.is_some() {
                self.renew_holder(ctx);
            }
            self.grant_next(ctx);
        }
    }

    /// Every lease of an earlier epoch is over.
    fn on_lapse(&mut self, ctx: &mut Ctx<Self>) {
        if let Some((_, lapsed)) = self.rebuilding() {
            *lapsed = true;
            if let Some(office) = self.office.as_mut().filter(|_| ctx.config.grace.is_some()) {
                office.holder = None;
            }
            self.finish_rebuilding(ctx);
        }
    }

    /// Lets the holder stay, unless somebody else may have been granted what it holds.
    fn renew_holder(&mut self, ctx: &mut Ctx<Self>) {
        let Some(Holder { node, token, .. }) = self.holder() else { return };
        if ctx.config.grace.is_some() && self.rebuilding().is_some() {
            ctx.send(node, Msg::Alive);
        } else {
            self.count_lease(ctx);
            ctx.send(node, Msg::Renewed(token));
        }
    }

    fn grant_next(&mut self, ctx: &mut Ctx<Self>) {
        let epoch = self.epoch;
        let next = self.office.as_mut().and_then(|office| office.next_holder(epoch));
        if let Some(Holder { node, request, token }) = next {
            self.count_lease(ctx);
            ctx.send(node, Msg::Grant { request, token });
        }
    }

    fn count_lease(&self, ctx: &mut Ctx<Self>) {
        if let Some(lease) = ctx.config.lease {
            // The delay stands for ε, what clocks may differ by.
            ctx.set_timer(Timer::Lease, lease + ctx.config.delay);
        }
    }

    fn free(&mut self, ctx: &mut Ctx<Self>) {
        if let Some(office) = &mut self.office {
            office.holder = None;
            ctx.cancel_timer(Timer::Lease);
            self.grant_next(ctx);
        }
    }

    /// What this node coordinates, if it does so in this epoch.
    fn office(&mut self, epoch: u64) -> Option<&mut Office> {
        self.office.as_mut().filter(|_| epoch == self.epoch)
    }

    /// Who has yet to answer, and whether old leases have lapsed, while this matters.
    fn rebuilding(&mut self) -> Option<(&mut NodeSet, &mut bool)> {
        match &mut self.office.as_mut()?.stage {
            Stage::Rebuilding { missing, lapsed } => Some((missing, lapsed)),
            Stage::Serving => None,
        }
    }

    fn holder(&self) -> Option<Holder> {
        self.office.as_ref().and_then(|office| office.holder)
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
                election::Notice::Deposed => self.leave_office(ctx),
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
