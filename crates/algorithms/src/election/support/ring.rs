//! What the elections on a ring with lists have in common. `election/ring-list` and those that build
//! on it are this state machine with different [rules](Config) in force; each has a file that
//! explains it, and has those rules in its list that are in force there.
//!
//! Messages go from node to node in the direction of the ring. Each hop is acknowledged; a
//! successor that does not acknowledge within `2T + Tproc` is dead, and what was meant for it goes to
//! the one after it, in the order it was sent.
//!
//! # Rules
//!
//! A rule has the same number in the files of all these elections:
//!
//! | rules | what they are about | in force in |
//! | --- | --- | --- |
//! | 1 to 4 | the call, the list, the announcement, a hop | all |
//! | 5 | suppression | `election/ring-list`, as an option |
//! | 6 | confirmation | `election/ring-modified`, `election/ring-watchdog` |
//! | 7 to 9 | watchdogs, memory of suspicions | `election/ring-watchdog`, `election/ring-reconfiguration` |
//! | 10 to 13 | the inquiry after a restart | `election/ring-inquiry`, `election/ring-reconfiguration` |
//! | 14 to 18 | a ring that nodes join and leave | `election/ring-reconfiguration` |

mod config;
mod message;
mod view;

use conclave_protocol::{Charge, Ctx, NodeId, NodeSet, Protocol, Rank, Stamp};
use serde::{Deserialize, Serialize};

pub use self::config::{Config, Converts};
pub use self::message::{Msg, Tag};
pub use self::view::View;
use crate::election::{Notice, Request};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ring {
    /// Whom this node follows, and the term in which that node leads.
    leader: Option<Stamp>,
    /// The highest counter used or seen.
    counter: u64,
    /// While an election of its own is on its way: the counter it began with.
    campaign: Option<u64>,
    /// With suppression: the best of those whose elections it has let pass since the last outcome.
    carried: Option<NodeId>,
    /// With a watchdog: an outcome with a higher counter than this is due.
    due: Option<u64>,
    /// What was handed on and is not acknowledged yet, the oldest first.
    unacknowledged: Vec<(NodeId, Msg)>,
    /// Where suspicions are remembered: whom the failure detector suspects.
    suspected: NodeSet,
    /// Who has joined and left.
    view: View,
    /// Asked to leave before it was let in: it leaves as soon as it is.
    leaving: bool,
}

/// What a node waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer {
    /// An acknowledgement from this node.
    Ack(NodeId),
    /// The outcome of an election.
    Watchdog,
    /// One's own question to come back.
    Inquiry,
}

/// What survives a crash.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Saved {
    /// The highest counter used or seen.
    counter: u64,
    /// Who has joined and left.
    view: View,
}

impl Protocol for Ring {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Timer;
    type Stable = Saved;

    fn start(saved: Option<Saved>, ctx: &mut Ctx<Self>) -> Self {
        let restarted = saved.is_some();
        let Saved { counter, view } =
            saved.unwrap_or_else(|| Saved { counter: 0, view: View::default() });
        let mut state = Self {
            leader: None,
            counter,
            campaign: None,
            carried: None,
            due: None,
            unacknowledged: Vec::new(),
            suspected: NodeSet::new(),
            view,
            leaving: false,
        };
        if ctx.config.inquiry && restarted {
            state.inquire(ctx);
        } else {
            state.save(ctx);
        }
        state
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            // Rule 1.
            Request::Campaign => self.campaign(ctx),
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        // A node that talks is alive, even if the failure detector has not noticed its return yet.
        self.suspected.remove(from);
        if let Some(tag) = msg.tag()
            && from != ctx.me
        {
            ctx.rule(4);
            ctx.send(from, Msg::Ack(tag));
        }
        match msg {
            // Rule 2.
            Msg::Election { origin, epoch, best, ids } => {
                ctx.rule(2);
                self.on_election(origin, epoch, best, ids, ctx);
            }
            // Rules 3 and 6.
            Msg::Coordinator { origin, epoch, ids } => self.on_coordinator(origin, epoch, ids, ctx),
            // Rules 11 and 12.
            Msg::Inquiry { origin, epoch, answers, view } => {
                self.on_inquiry(origin, epoch, answers, view, ctx);
            }
            // Rule 14.
            Msg::Join(newcomer) => {
                if self.is_member(ctx.me, ctx) && !self.is_member(newcomer, ctx) {
                    ctx.rule(14);
                    self.view.change(newcomer);
                    self.tell_view(ctx);
                }
            }
            // Rule 16.
            Msg::View(view) => {
                ctx.rule(16);
                self.on_view(&view, ctx);
            }
            // Rule 4.
            Msg::Ack(tag) => self.on_ack(from, tag, ctx),
        }
    }

    fn on_timer(&mut self, timer: Timer, ctx: &mut Ctx<Self>) {
        match timer {
            // Rule 4, when a successor is dead.
            Timer::Ack(dead) => {
                ctx.rule(4);
                let next = self.next_after(dead, ctx);
                let (lost, rest) = std::mem::take(&mut self.unacknowledged)
                    .into_iter()
                    .partition(|it| it.0 == dead);
                self.unacknowledged = rest;
                let lost: Vec<(NodeId, Msg)> = lost;
                match next {
                    Some(next) => {
                        for (_, msg) in lost {
                            self.hand_to(next, msg, ctx);
                        }
                    }
                    // Rule 18.
                    None => ctx.rule(18),
                }
            }
            // Rule 8.
            Timer::Watchdog => {
                ctx.rule(8);
                self.campaign = None;
                self.observe(self.counter + 1, ctx);
                self.campaign(ctx);
            }
            // Rule 12, when the question does not come back.
            Timer::Inquiry => {
                ctx.rule(12);
                self.campaign(ctx);
            }
        }
    }

    /// Rule 9, and rule 1 if it is the leader.
    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        if ctx.config.memory {
            ctx.rule(9);
            self.suspected.insert(peer);
        }
        if self.leader.is_some_and(|term| term.node == peer) {
            self.campaign(ctx);
        }
    }

    /// Rule 9.
    fn on_restore(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        if ctx.config.memory {
            ctx.rule(9);
        }
        self.suspected.remove(peer);
    }

    /// Rule 14.
    fn on_join(&mut self, sponsor: NodeId, ctx: &mut Ctx<Self>) {
        self.leaving = false;
        if !self.is_member(ctx.me, ctx) {
            ctx.rule(14);
            ctx.send(sponsor, Msg::Join(ctx.me));
        }
    }

    /// Rule 17.
    fn on_leave(&mut self, ctx: &mut Ctx<Self>) {
        self.leaving = !self.is_member(ctx.me, ctx);
        if self.is_member(ctx.me, ctx) && self.next_after(ctx.me, ctx) != Some(ctx.me) {
            ctx.rule(17);
            self.view.change(ctx.me);
            self.tell_view(ctx);
        }
    }

    fn charge(msg: &Msg, _: NodeId, _: NodeId) -> Charge {
        match msg {
            Msg::Ack(_) => Charge::Nobody,
            _ => Charge::Cause,
        }
    }
}

impl Ring {
    /// Rule 1: calls an election, unless one of its own is on its way.
    fn campaign(&mut self, ctx: &mut Ctx<Self>) {
        if self.campaign.is_some() || !self.is_member(ctx.me, ctx) {
            return;
        }
        ctx.rule(1);
        self.campaign = Some(self.counter);
        self.watch(0, ctx);
        let (origin, epoch, best) = (ctx.me, self.counter, ctx.config.ranks.of(ctx.me));
        self.pass_on(Msg::Election { origin, epoch, best, ids: vec![ctx.me] }, ctx);
    }

    /// Rule 2.
    fn on_election(
        &mut self,
        origin: NodeId,
        epoch: u64,
        best: Rank,
        mut ids: Vec<NodeId>,
        ctx: &mut Ctx<Self>,
    ) {
        self.observe(epoch, ctx);
        let epoch = self.counter;
        if !self.is_member(ctx.me, ctx) {
            self.pass_on(Msg::Election { origin, epoch, best, ids }, ctx);
            return;
        }
        if !ids.contains(&ctx.me) {
            // Rule 5.
            if self.is_suppressed(origin, ctx) {
                ctx.rule(5);
                return;
            }
            let best = best.max(ctx.config.ranks.of(ctx.me));
            self.watch(ids.len(), ctx);
            ids.push(ctx.me);
            self.pass_on(Msg::Election { origin, epoch, best, ids }, ctx);
            return;
        }
        match ctx.config.converts {
            Converts::Initiator if origin != ctx.me => {
                self.pass_on(Msg::Election { origin, epoch, best, ids }, ctx);
            }
            Converts::InitiatorOrEnds if origin != ctx.me => {}
            _ => self.convert(best.node, ctx),
        }
    }

    /// Rule 2, when the list is complete: its best node leads.
    fn convert(&mut self, best: NodeId, ctx: &mut Ctx<Self>) {
        self.observe(self.counter + 1, ctx);
        let epoch = Stamp { time: self.counter, node: best };
        if !ctx.config.confirmation {
            self.campaign = None;
        }
        // A leader that has left is not on the ring any more, and has to be told all the same.
        if let Some(Stamp { node: former, .. }) = self.leader
            && !self.is_member(former, ctx)
        {
            ctx.rule(17);
            ctx.send(former, Msg::Coordinator { origin: ctx.me, epoch, ids: vec![ctx.me] });
        }
        self.follow(epoch, ctx);
        self.pass_on(Msg::Coordinator { origin: ctx.me, epoch, ids: vec![ctx.me] }, ctx);
        self.reconsider(ctx);
    }

    /// Rule 3, and rule 6 for one's own.
    fn on_coordinator(
        &mut self,
        origin: NodeId,
        epoch: Stamp,
        mut ids: Vec<NodeId>,
        ctx: &mut Ctx<Self>,
    ) {
        ctx.rule(3);
        self.observe(epoch.time, ctx);
        self.carried = None;
        if origin == ctx.me {
            if ctx.config.confirmation {
                ctx.rule(6);
                self.campaign = None;
                if self.leader == Some(epoch) && !ids.contains(&epoch.node) {
                    self.campaign(ctx);
                }
            }
            self.settled(epoch.time, ctx);
            self.reconsider(ctx);
            return;
        }
        self.follow(epoch, ctx);
        if self.campaign.is_some_and(|began| ctx.config.suppression || began + 1 < epoch.time) {
            self.campaign = None;
        }
        self.settled(epoch.time, ctx);
        // On its second visit its origin must be dead.
        if !ids.contains(&ctx.me) {
            ids.push(ctx.me);
            self.pass_on(Msg::Coordinator { origin, epoch, ids }, ctx);
        }
        self.reconsider(ctx);
    }

    /// Follows the leader of a term, unless it is an old one.
    fn follow(&mut self, epoch: Stamp, ctx: &mut Ctx<Self>) {
        let order = |term: Stamp| (term.time, ctx.config.ranks.of(term.node));
        if self.leader.is_none_or(|term| order(term) < order(epoch)) {
            self.leader = Some(epoch);
            ctx.notify(Notice::Elected { leader: epoch.node, epoch: epoch.token() });
        }
    }

    /// Calls an election if the leader cannot be right: it is suspected (rule 9), has left (rule 16),
    /// or is worse than this node itself (rule 13).
    fn reconsider(&mut self, ctx: &mut Ctx<Self>) {
        let Some(Stamp { node: leader, .. }) = self.leader else { return };
        let ranks = &ctx.config.ranks;
        let suspected = self.suspected.contains(leader);
        let gone = !self.is_member(leader, ctx);
        let worse = ranks.of(leader) < ranks.of(ctx.me);
        if suspected {
            ctx.rule(9);
        }
        if gone {
            ctx.rule(16);
        }
        if worse && ctx.config.inquiry {
            ctx.rule(13);
        }
        if suspected || gone || worse {
            self.campaign(ctx);
        }
    }

    fn is_suppressed(&mut self, origin: NodeId, ctx: &Ctx<Self>) -> bool {
        if !ctx.config.suppression {
            return false;
        }
        let own = self.campaign.map(|_| ctx.me);
        let best = ctx.config.ranks.best(self.carried.into_iter().chain(own).chain([origin]));
        if best == Some(origin) {
            self.carried = best;
        }
        best != Some(origin)
    }

    /// Rule 7: an election passes, so many hops from its origin, and its outcome is due.
    fn watch(&mut self, distance: usize, ctx: &mut Ctx<Self>) {
        if ctx.config.watchdog {
            ctx.rule(7);
            self.due = Some(self.counter);
            let after = ctx.config.two_rounds + ctx.config.acknowledgement * 2 * distance as u32;
            ctx.set_timer(Timer::Watchdog, after);
        }
    }

    /// Rule 7: there is an outcome. One's own election is over only when that has come back.
    fn settled(&mut self, counter: u64, ctx: &mut Ctx<Self>) {
        if self.campaign.is_none() && self.due.is_some_and(|due| due < counter) {
            ctx.rule(7);
            self.due = None;
            ctx.cancel_timer(Timer::Watchdog);
        }
    }

    /// Rule 10.
    fn inquire(&mut self, ctx: &mut Ctx<Self>) {
        if !self.is_member(ctx.me, ctx) {
            return;
        }
        ctx.rule(10);
        ctx.set_timer(Timer::Inquiry, ctx.config.two_rounds);
        let (origin, epoch, view) = (ctx.me, self.counter, self.view.clone());
        self.pass_on(Msg::Inquiry { origin, epoch, answers: Vec::new(), view }, ctx);
    }

    /// Rule 11, and rule 12 for one's own.
    fn on_inquiry(
        &mut self,
        origin: NodeId,
        epoch: u64,
        mut answers: Vec<(NodeId, Option<Stamp>)>,
        mut view: View,
        ctx: &mut Ctx<Self>,
    ) {
        self.observe(epoch, ctx);
        self.on_view(&view, ctx);
        if origin != ctx.me {
            ctx.rule(11);
            // On its second visit its origin must be dead.
            if answers.iter().all(|(node, _)| *node != ctx.me) {
                answers.push((ctx.me, self.leader));
                view.merge(&self.view);
                self.pass_on(Msg::Inquiry { origin, epoch: self.counter, answers, view }, ctx);
            }
            return;
        }
        ctx.rule(12);
        ctx.cancel_timer(Timer::Inquiry);
        let named = answers.first().and_then(|(_, leader)| *leader);
        let there = |leader: Stamp| answers.iter().any(|(node, _)| *node == leader.node);
        match named {
            Some(leader)
                if there(leader) && answers.iter().all(|(_, named)| *named == Some(leader)) =>
            {
                self.follow(leader, ctx);
                self.reconsider(ctx);
            }
            _ => self.campaign(ctx),
        }
    }

    fn pass_on(&mut self, msg: Msg, ctx: &mut Ctx<Self>) {
        if let Some(next) = self.next_after(ctx.me, ctx) {
            self.hand_to(next, msg, ctx);
        }
    }

    /// Sends to the next node, and again to the one after it if there is no acknowledgement.
    fn hand_to(&mut self, next: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        if next != ctx.me {
            if self.unacknowledged.iter().all(|(to, _)| *to != next) {
                ctx.set_timer(Timer::Ack(next), ctx.config.acknowledgement);
            }
            self.unacknowledged.push((next, msg.clone()));
        }
        ctx.send(next, msg);
    }

    /// Rule 4.
    fn on_ack(&mut self, from: NodeId, tag: Tag, ctx: &mut Ctx<Self>) {
        let arrived = |(to, msg): &(NodeId, Msg)| *to == from && msg.tag() == Some(tag);
        let Some(place) = self.unacknowledged.iter().position(arrived) else { return };
        ctx.rule(4);
        self.unacknowledged.remove(place);
        if self.unacknowledged.iter().any(|(to, _)| *to == from) {
            ctx.set_timer(Timer::Ack(from), ctx.config.acknowledgement);
        } else {
            ctx.cancel_timer(Timer::Ack(from));
        }
    }

    /// The member after `node`, if this node knows so many successors.
    fn next_after(&self, node: NodeId, ctx: &Ctx<Self>) -> Option<NodeId> {
        let (mut next, mut known) = (ctx.me, 0);
        let mut passed = node == ctx.me;
        loop {
            next = ctx.topology.successor(next);
            if next == ctx.me {
                return Some(next);
            }
            if self.is_member(next, ctx) {
                known += 1;
                if passed {
                    return (known <= ctx.config.successors).then_some(next);
                }
            }
            passed |= next == node;
        }
    }

    fn is_member(&self, node: NodeId, ctx: &Ctx<Self>) -> bool {
        (node.0 < ctx.config.members) != self.view.has_changed(node)
    }

    /// Rule 16: takes over what is new in a view.
    fn on_view(&mut self, view: &View, ctx: &mut Ctx<Self>) {
        let outside = !self.is_member(ctx.me, ctx);
        if self.view.merge(view) {
            ctx.rule(16);
            self.tell_view(ctx);
            if self.leaving && self.is_member(ctx.me, ctx) {
                self.on_leave(ctx);
                return;
            }
            if outside {
                self.inquire(ctx);
            }
            self.reconsider(ctx);
        }
    }

    /// Rule 15: the view has changed.
    fn tell_view(&mut self, ctx: &mut Ctx<Self>) {
        ctx.rule(15);
        self.save(ctx);
        self.pass_on(Msg::View(self.view.clone()), ctx);
    }

    fn observe(&mut self, counter: u64, ctx: &mut Ctx<Self>) {
        if counter > self.counter {
            self.counter = counter;
            self.save(ctx);
        }
    }

    fn save(&self, ctx: &mut Ctx<Self>) {
        ctx.save(Saved { counter: self.counter, view: self.view.clone() });
    }
}
