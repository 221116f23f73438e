//! The lock is kept by n replicas, each with one owner and a queue. A client asks all of them and
//! enters when m of them, more than half, name it as their owner. Replicas answer at once and
//! queue every later request, so that no client has to come back. If the answers show that no client
//! can win, clients yield: they give back what they own, and each replica chooses again, now among
//! all it has heard of, the oldest request first. Replicas are the nodes 0 to n − 1, clients the
//! others.
//!
//! A replica changes its owner only when the owner yields or releases, so two clients with m
//! replicas each would have one in common with two owners. An answer that crossed a yield on its
//! way must not count: answers say how many yields of this request the replica has seen. A release
//! leaves the fencing token with all replicas, answers report the highest, and the entrant takes
//! one more.
//!
//! # Rules
//!
//! 1. Acquire: tick the clock; its time is the request's timestamp. Send `Req` to all replicas.
//! 2. `Req`, at a replica: if there is no owner, this request is; otherwise it joins the queue. Send
//!    `Resp` with the owner and the request's place. A newer request of a client replaces its older.
//! 3. `Resp`, while waiting: note the owner, merge its time into the clock. If m replicas are ours,
//!    enter. If neither this client nor another can still get m, send `Yield` to all replicas that
//!    are ours and forget their answers.
//! 4. `Yield`, at a replica: note how often the request has yielded. If it was the owner, the oldest
//!    of the queue and the yielder is. Send `Resp` to it, and to the yielder if it is another.
//! 5. Release: send `Rel` to all replicas. There, the request is forgotten; if it was the owner, the
//!    oldest of the queue is next and gets `Resp`.
//! 6. Informed back-off: a client at place P that has heard nothing for `section` · (P + ½) sends
//!    its `Req` again, which rebuilds the queue of a replica that was reset. Replicas that have not
//!    answered by then count as dead, and if that leaves no winner, rule 3 yields.
//! 7. Lease: a replica drops an owner that was silent for `lease`. Clients repeat `Req` at least
//!    every quarter of it, inside and outside, so that only the dead are dropped. The dropped owner
//!    may have entered and taken a token with it, so the replica counts one and tells the other
//!    replicas (`Expired`).
//!
//! # Cost
//!
//! A lone entry with n replicas takes exactly 3n messages: 2n to enter, in two hops, and n to
//! leave. Yields and repeated requests come on top.
//!
//! # Known failures
//!
//! It promises nothing about crashes in general, but survives some. A client that crashes is dropped
//! when its lease is over; without a lease, the replicas that it owned are blocked for good. Of n
//! replicas, n − m may crash; one more, and no client gets a majority.
//!
//! A replica that resets forgets its owner. Two can be inside as soon as 2m − n of the replicas that
//! the holder owns have been reset during its stay.
//!
//! The lease relies on messages that take no longer than a known time, and on clients that do not
//! pause; a holder that pauses for longer is dropped and does not know. Without FIFO channels a
//! request may arrive after its own release, and its ghost owns a replica until the lease ends.
//! A later request may collect m replicas while an earlier one is on its way.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{Case, Fits, REPLICAS};
use conclave_protocol::{
    Charge, Ctx, Entry, Lamport, Model, Never, NodeId, Opt, Property, Protocol, Setup, Stamp, Time,
    Timing, Unfit,
};
use serde::{Deserialize, Serialize};

use super::replicated_coordinator::{COORDINATORS, MAJORITY, group};
use super::{LOCK, Notice, Request};

/// The state of a node: a client's part and a replica's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LinSigma {
    clock: Lamport,
    phase: Phase,
    /// The highest fencing token this node has seen.
    highest: u64,
    replica: Replica,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Phase {
    Outside,
    Waiting {
        asked: Asked,
        /// Whom each replica has named as its owner.
        owners: BTreeMap<NodeId, Stamp>,
    },
    Inside {
        asked: Asked,
    },
}

/// A request of ours.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Asked {
    stamp: Stamp,
    /// When it was last sent.
    sent: Time,
    /// How often it has yielded each replica.
    yields: BTreeMap<NodeId, u32>,
}

/// What a replica knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Replica {
    /// Every request, the owner's included, the oldest first. All but the owner's are the queue.
    claims: Vec<Claim>,
    owner: Option<Stamp>,
}

/// A request at a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Claim {
    asked: Stamp,
    /// How many of its yields were seen.
    yields: u32,
}

/// What nodes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// May I?
    Req {
        /// The request.
        asked: Stamp,
        /// How often it has yielded this replica.
        yields: u32,
    },
    /// How things stand at this replica.
    Resp {
        /// The request that asked.
        asked: Stamp,
        /// How many of its yields the replica has seen.
        yields: u32,
        /// Whom the replica belongs to.
        owner: Stamp,
        /// The place of the request that asked; 0 is the owner's.
        place: u32,
        /// The highest fencing token the replica has seen.
        highest: u64,
    },
    /// Choose again.
    Yield {
        /// The owner that gives up.
        asked: Stamp,
        /// How often it has yielded this replica, now included.
        yields: u32,
    },
    /// I have left.
    Rel {
        /// The request that is done.
        asked: Stamp,
        /// The highest fencing token the client has seen, its own included.
        token: u64,
    },
    /// An owner was dropped, whose fencing token may have been this.
    Expired {
        /// The highest token it can have had.
        highest: u64,
    },
}

/// The timers of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer {
    /// It is time for a client to repeat its request.
    Resend,
    /// A replica's owner has been silent for too long.
    Lease,
}

/// How many there are, and how long things take.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    replicas: u32,
    majority: u32,
    /// How long a stay inside is expected to be.
    section: Duration,
    lease: Option<Duration>,
}

impl Config {
    fn new(setup: &Setup) -> Result<Self, Unfit> {
        let (replicas, majority) = group(setup)?;
        let section: u32 = setup.option("section", 50)?;
        if section < 4 {
            let why = "before that there is no answer to wait for";
            return Err(Unfit::new(format!(
                "section={section}, but it has to be 4 or more: {why}"
            )));
        }
        let lease: u32 = setup.option("lease", 400)?;
        if (1..8).contains(&lease) {
            let why = "the live would be dropped between two repetitions";
            return Err(Unfit::new(format!(
                "lease={lease}, but it has to be 8 or more, or 0 for ever: {why}"
            )));
        }
        Ok(Self {
            replicas,
            majority,
            section: setup.delay * section,
            lease: (lease > 0).then(|| setup.delay * lease),
        })
    }
}

impl Protocol for LinSigma {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Timer;
    type Stable = Never;

    fn start(_: Option<Never>, _: &mut Ctx<Self>) -> Self {
        Self {
            clock: Lamport::default(),
            phase: Phase::Outside,
            highest: 0,
            replica: Replica::default(),
        }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            // Rule 1.
            Request::Acquire => {
                ctx.rule(1);
                let stamp = self.clock.tick(ctx.me);
                let asked = Asked { stamp, sent: ctx.now(), yields: BTreeMap::new() };
                self.phase = Phase::Waiting { asked, owners: BTreeMap::new() };
                self.send_request(ctx);
                self.wait_at(0, ctx);
            }
            // Rule 5.
            Request::Release => {
                if let Phase::Inside { asked } = &self.phase {
                    ctx.rule(5);
                    let release = Msg::Rel { asked: asked.stamp, token: self.highest };
                    self.phase = Phase::Outside;
                    ctx.cancel_timer(Timer::Resend);
                    ctx.multicast(replicas(ctx), release);
                }
            }
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            Msg::Req { asked, yields } => self.on_asked(asked, yields, ctx),
            Msg::Yield { asked, yields } => self.on_yield(asked, yields, ctx),
            // Rule 5.
            Msg::Rel { asked, token } => {
                ctx.rule(5);
                self.highest = self.highest.max(token);
                self.forget(asked, ctx);
            }
            // Rule 7.
            Msg::Expired { highest } => {
                ctx.rule(7);
                self.highest = self.highest.max(highest);
            }
            // Rule 3.
            Msg::Resp { asked: mine, yields, owner, place, highest } => {
                self.clock.observe(owner);
                self.highest = self.highest.max(highest);
                if let Phase::Waiting { asked, owners } = &mut self.phase
                    && asked.stamp == mine
                    && asked.yields_of(from) == yields
                {
                    ctx.rule(3);
                    owners.insert(from, owner);
                    self.wait_at(place, ctx);
                    self.enter_or_yield(true, ctx);
                }
            }
        }
    }

    fn on_timer(&mut self, timer: Timer, ctx: &mut Ctx<Self>) {
        match timer {
            Timer::Resend => {
                match self.phase {
                    Phase::Outside => {}
                    // Rule 6.
                    Phase::Waiting { .. } => ctx.rule(6),
                    // Rule 7.
                    Phase::Inside { .. } => ctx.rule(7),
                }
                // Before the request goes out again, which says how often it has yielded.
                self.enter_or_yield(false, ctx);
                self.send_request(ctx);
                self.wait_at(0, ctx);
            }
            // Rule 7.
            Timer::Lease => {
                if let Some(owner) = self.replica.owner {
                    ctx.rule(7);
                    self.highest += 1;
                    ctx.multicast(replicas(ctx), Msg::Expired { highest: self.highest });
                    self.forget(owner, ctx);
                }
            }
        }
    }

    fn charge(msg: &Msg, _: NodeId, _: NodeId) -> Charge {
        match msg {
            Msg::Req { .. } | Msg::Yield { .. } | Msg::Rel { .. } => Charge::Sender,
            Msg::Resp { .. } => Charge::Receiver,
            Msg::Expired { .. } => Charge::Nobody,
        }
    }
}

fn replicas(ctx: &Ctx<LinSigma>) -> impl Iterator<Item = NodeId> + use<> {
    (0..ctx.config.replicas).map(NodeId)
}

impl Asked {
    fn yields_of(&self, replica: NodeId) -> u32 {
        self.yields.get(&replica).copied().unwrap_or(0)
    }
}

/// The client's rules.
impl LinSigma {
    fn send_request(&mut self, ctx: &mut Ctx<Self>) {
        if let Phase::Waiting { asked, .. } | Phase::Inside { asked } = &mut self.phase {
            asked.sent = ctx.now();
            for replica in replicas(ctx) {
                let yields = asked.yields_of(replica);
                ctx.send(replica, Msg::Req { asked: asked.stamp, yields });
            }
        }
    }

    /// Sets the time after which we repeat the request, unless we hear something.
    fn wait_at(&self, place: u32, ctx: &mut Ctx<Self>) {
        let quarter = ctx.config.lease.map(|lease| lease / 4);
        let informed = ctx.config.section * (2 * place + 1) / 2;
        let (asked, patience) = match &self.phase {
            Phase::Outside => return,
            Phase::Waiting { asked, .. } => (asked, Some(informed)),
            // Nothing to ask for; but replicas must not take us for dead.
            Phase::Inside { asked } => (asked, None),
        };
        let due = quarter.map(|quarter| quarter.saturating_sub(ctx.now() - asked.sent));
        match patience.into_iter().chain(due).min() {
            Some(after) => ctx.set_timer(Timer::Resend, after),
            None => ctx.cancel_timer(Timer::Resend),
        }
    }

    /// Rule 3. Replicas that have not answered may still name any client, if there is `hope` for
    /// them.
    fn enter_or_yield(&mut self, hope: bool, ctx: &mut Ctx<Self>) {
        let Phase::Waiting { asked, owners } = &mut self.phase else { return };
        let (n, m) = (ctx.config.replicas as usize, ctx.config.majority as usize);
        let mine = asked.stamp;
        if owners.values().filter(|&&owner| owner == mine).count() >= m {
            ctx.rule(3);
            self.phase = Phase::Inside { asked: asked.clone() };
            self.highest += 1;
            self.wait_at(0, ctx);
            return ctx.notify(Notice::Acquired { token: self.highest });
        }
        let mut replicas_of: BTreeMap<Stamp, usize> = BTreeMap::new();
        for &owner in owners.values() {
            *replicas_of.entry(owner).or_default() += 1;
        }
        let best = replicas_of.values().max().copied().unwrap_or(0);
        let left = if hope { n - owners.len() } else { 0 };
        if best + left < m {
            ctx.rule(3);
            let ours = owners.extract_if(.., |_, owner| *owner == mine);
            for (replica, _) in ours {
                let yields = asked.yields.entry(replica).or_default();
                *yields += 1;
                ctx.send(replica, Msg::Yield { asked: mine, yields: *yields });
            }
        }
    }
}

/// The replica's rules.
impl LinSigma {
    /// Rule 2.
    fn on_asked(&mut self, asked: Stamp, yields: u32, ctx: &mut Ctx<Self>) {
        let claims = &mut self.replica.claims;
        let earlier = claims.iter().map(|claim| claim.asked).find(|a| a.node == asked.node);
        if earlier.is_some_and(|earlier| earlier > asked) {
            return;
        }
        ctx.rule(2);
        match claims.binary_search_by_key(&asked, |claim| claim.asked) {
            Ok(at) => claims[at].yields = claims[at].yields.max(yields),
            Err(at) => claims.insert(at, Claim { asked, yields }),
        }
        if let Some(earlier) = earlier.filter(|&earlier| earlier < asked) {
            self.forget(earlier, ctx);
        }
        let owner = *self.replica.owner.get_or_insert(asked);
        if owner == asked {
            Self::restart_lease(ctx);
        }
        self.respond(asked, ctx);
    }

    /// Rule 4.
    fn on_yield(&mut self, asked: Stamp, yields: u32, ctx: &mut Ctx<Self>) {
        if let Some(claim) = self.replica.claims.iter_mut().find(|claim| claim.asked == asked) {
            ctx.rule(4);
            claim.yields = claim.yields.max(yields);
        }
        if self.replica.owner == Some(asked) {
            self.choose_owner(ctx);
            if self.replica.owner != Some(asked) {
                self.respond(asked, ctx);
            }
        }
    }

    /// The request is over.
    fn forget(&mut self, asked: Stamp, ctx: &mut Ctx<Self>) {
        self.replica.claims.retain(|claim| claim.asked != asked);
        if self.replica.owner == Some(asked) {
            self.choose_owner(ctx);
        }
    }

    /// The oldest request is the owner, and is told.
    fn choose_owner(&mut self, ctx: &mut Ctx<Self>) {
        self.replica.owner = self.replica.claims.first().map(|oldest| oldest.asked);
        match self.replica.owner {
            Some(owner) => {
                Self::restart_lease(ctx);
                self.respond(owner, ctx);
            }
            None => ctx.cancel_timer(Timer::Lease),
        }
    }

    fn respond(&self, asked: Stamp, ctx: &mut Ctx<Self>) {
        let Replica { claims, owner } = &self.replica;
        let claim = claims.iter().find(|claim| claim.asked == asked);
        let (Some(owner), Some(&Claim { yields, .. })) = (*owner, claim) else { return };
        let place = if owner == asked {
            0
        } else {
            let ahead = claims.iter().filter(|claim| claim.asked < asked && claim.asked != owner);
            1 + ahead.count() as u32
        };
        let highest = self.highest;
        ctx.send(asked.node, Msg::Resp { asked, yields, owner, place, highest });
    }

    fn restart_lease(ctx: &mut Ctx<Self>) {
        if let Some(lease) = ctx.config.lease {
            ctx.set_timer(Timer::Lease, lease);
        }
    }
}

/// The algorithm as published, with fencing.
pub static PLAIN: Entry<LinSigma> = Entry::new("mutex/lin-sigma", "Sigma", Config::new)
    .summary("replicas queue and answer who owns them; enter with a majority, yield if split")
    .source(
        "Lin, Lian, Chen, Zhang. A practical distributed mutual exclusion protocol in dynamic \
         peer-to-peer systems. IPTPS, 2004",
    )
    .text(include_str!("lin_sigma.rs"))
    // Only the lease relies on time.
    .model(Model { timing: Timing::Synchronous, ..Model::FIFO })
    .holds(LOCK)
    .fails(&[(
        Property::FcfsHappenedBefore,
        "the later request reaches a majority of free replicas before the earlier one does",
    )])
    .options(&[
        COORDINATORS,
        MAJORITY,
        Opt {
            name: "section",
            default: "50",
            help: "how long a stay inside takes, in T, at least 4",
        },
        Opt {
            name: "lease",
            default: "400",
            help: "how long a silent owner is kept, in T, at least 8; 0 for ever",
        },
    ])
    .clients(|config: &Config, n| config.replicas..n)
    .claims(&[
        // Clocks are read, so that there is no end to the states.
        Check::new(3, LOCK).bounded(60),
        Check::new(4, LOCK).set(&[("coordinators", "2")]).bounded(40),
        Check::new(5, &[Property::FcfsHappenedBefore])
            .set(&[("coordinators", "3"), ("lease", "0")])
            .requests(2)
            .fails(17),
    ])
    .deep(&[Check::new(5, LOCK).set(&[("coordinators", "3")]).bounded(30)])
    .cases(&[Case::new("idle", REPLICAS, |given| given.lone(given.replicas(1), given.n("n")))
        .fits(&[Fits::CLIENT])]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect, Topology};

    use super::*;

    #[test]
    fn an_answer_from_before_a_yield_does_not_count() {
        let setup = Setup::new(Topology::complete(4)).with("coordinators", 2);
        let mut bench = Bench::new(&PLAIN, &setup);
        bench.at(2).request(Request::Acquire);
        let stamp = |node| Stamp { time: 1, node: NodeId(node) };
        let resp = |owner, yields| {
            let (asked, owner) = (stamp(2), stamp(owner));
            Msg::Resp { asked, yields, owner, place: 0, highest: 0 }
        };
        // Each client has one of the two replicas: yield.
        bench.at(2).message(0, resp(2, 0));
        let yielded = Msg::Yield { asked: stamp(2), yields: 1 };
        let yielded = Effect::Send { to: NodeId(0), msg: yielded };
        assert!(bench.at(2).message(1, resp(3, 0)).contains(&yielded));
        // The other yields too. An answer of replica 0 to a repeated request was still under way.
        bench.at(2).message(1, resp(2, 0));
        bench.at(2).message(0, resp(2, 0));
        assert!(matches!(bench.at(2).state().phase, Phase::Waiting { .. }));
        let entered = Effect::Notify(Notice::Acquired { token: 1 });
        assert!(bench.at(2).message(0, resp(2, 1)).contains(&entered));
    }

    #[test]
    fn of_requests_at_a_replica_the_oldest_is_next() {
        let mut bench = Bench::complete(&PLAIN, 6);
        let stamp = |time, node| Stamp { time, node: NodeId(node) };
        let (first, younger, older) = (stamp(3, 3), stamp(2, 4), stamp(1, 5));
        for asked in [first, younger, older] {
            bench.at(0).message(asked.node.0, Msg::Req { asked, yields: 0 });
        }
        let (yields, highest) = (0, 7);
        let told = Msg::Resp { asked: older, yields, owner: older, place: 0, highest };
        let left = bench.at(0).message(3, Msg::Rel { asked: first, token: 7 });
        assert!(left.contains(&Effect::Send { to: NodeId(5), msg: told }));
        assert_eq!(bench.at(0).rules(), [5]);
    }
}
