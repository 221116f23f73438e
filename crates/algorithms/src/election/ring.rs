//! What the elections on a ring with lists have in common. `election/ring-list` and those that build
//! on it are this state machine with different [rules](Config) in force; each has a file that
//! explains it.
//!
//! Messages go from node to node in the direction of the ring. Each hop is acknowledged; a
//! successor that does not acknowledge within `2T + Tproc` is dead, and what was meant for it goes to
//! the one after it, in the order it was sent.

pub mod view;

use std::time::Duration;

use conclave_protocol::{Charge, Ctx, NodeId, NodeSet, Protocol, Rank, Ranks, Setup, Stamp, Unfit};
use serde::{Deserialize, Serialize};

use self::view::View;
use super::{Notice, Request};

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

/// Which rules are in force.
#[derive(Clone, Debug)]
pub struct Config {
    /// How good a leader each node is.
    pub ranks: Ranks,
    /// How long to wait for an acknowledgement.
    pub acknowledgement: Duration,
    /// Longer than two rounds take, whoever is dead.
    pub two_rounds: Duration,
    /// Who turns a list that is complete into an outcome.
    pub converts: Converts,
    /// An election is dropped where one of a better initiator has passed.
    pub suppression: bool,
    /// The outcome counts only if the leader was there when it came by.
    pub confirmation: bool,
    /// Whoever has let an election pass and hears of no outcome calls one.
    pub watchdog: bool,
    /// Suspicions that come before the outcome are remembered.
    pub memory: bool,
    /// After a restart, ask all others before calling an election.
    pub inquiry: bool,
    /// How many successors a node knows.
    pub successors: u32,
    /// So many nodes are on the ring at first; the others have to join.
    pub members: u32,
}

/// Who turns a complete list into an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Converts {
    /// Whoever finds itself in the list.
    Anybody,
    /// The initiator, and at anybody else the list goes on for ever.
    Initiator,
    /// The initiator, and at anybody else a complete list ends.
    InitiatorOrNobody,
}

impl Config {
    /// The bare ring with lists.
    pub fn new(setup: &Setup, converts: Converts) -> Result<Self, Unfit> {
        let hop = setup.delay * 3 + setup.processing;
        Ok(Self {
            ranks: setup.ranks()?,
            acknowledgement: setup.delay * 2 + setup.processing,
            two_rounds: hop * 2 * (setup.n() + 1),
            converts,
            suppression: false,
            confirmation: false,
            watchdog: false,
            memory: false,
            inquiry: false,
            successors: setup.n(),
            members: setup.n(),
        })
    }
}

/// What nodes send each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// Who is there?
    Election {
        /// Whose election it is.
        origin: NodeId,
        /// The highest counter on the way so far.
        epoch: u64,
        /// The best of the list.
        best: Rank,
        /// Those who were there, in the order of the ring.
        ids: Vec<NodeId>,
    },
    /// Somebody leads.
    Coordinator {
        /// Who announces it.
        origin: NodeId,
        /// The term: its counter and the leader.
        epoch: Stamp,
        /// Who has heard of it, in the order of the ring.
        ids: Vec<NodeId>,
    },
    /// Who leads?
    Inquiry {
        /// Who wants to know.
        origin: NodeId,
        /// The highest counter on the way so far.
        epoch: u64,
        /// Those who were there, and whom they follow.
        answers: Vec<(NodeId, Option<Stamp>)>,
        /// Who belongs to the ring.
        view: View,
    },
    /// I want to be on the ring.
    Join(NodeId),
    /// Who belongs to the ring.
    View(View),
    /// It has arrived.
    Ack(Tag),
}

/// What an acknowledgement is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Tag {
    /// This node's election.
    Election(NodeId),
    /// This node's announcement.
    Coordinator(NodeId),
    /// This node's question.
    Inquiry(NodeId),
    /// A view of the ring.
    View,
}

impl Msg {
    fn tag(&self) -> Option<Tag> {
        match *self {
            Self::Election { origin, .. } => Some(Tag::Election(origin)),
            Self::Coordinator { origin, .. } => Some(Tag::Coordinator(origin)),
            Self::Inquiry { origin, .. } => Some(Tag::Inquiry(origin)),
            Self::View(_) => Some(Tag::View),
            Self::Join(_) | Self::Ack(_) => None,
        }
    }
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
            Request::Campaign => self.campaign(ctx),
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        // Whoever talks is alive, even if the failure detector has not noticed its return yet.
        self.suspected.remove(from);
        if let Some(tag) = msg.tag()
            && from != ctx.me
        {
            ctx.send(from, Msg::Ack(tag));
        }
        match msg {
            Msg::Election { origin, epoch, best, ids } => {
                self.on_election(origin, epoch, best, ids, ctx);
            }
            Msg::Coordinator { origin, epoch, ids } => self.on_coordinator(origin, epoch, ids, ctx),
            Msg::Inquiry { origin, epoch, answers, view } => {
                self.on_inquiry(origin, epoch, answers, view, ctx);
            }
            Msg::Join(newcomer) => {
                if self.is_member(ctx.me, ctx) && !self.is_member(newcomer, ctx) {
                    self.view.change(newcomer);
                    self.tell_view(ctx);
                }
            }
            Msg::View(view) => self.on_view(&view, ctx),
            Msg::Ack(tag) => self.on_ack(from, tag, ctx),
        }
    }

    fn on_timer(&mut self, timer: Timer, ctx: &mut Ctx<Self>) {
        match timer {
            Timer::Ack(dead) => {
                let next = self.next_after(dead, ctx);
                let (lost, rest) = std::mem::take(&mut self.unacknowledged)
                    .into_iter()
                    .partition(|it| it.0 == dead);
                self.unacknowledged = rest;
                let lost: Vec<(NodeId, Msg)> = lost;
                if let Some(next) = next {
                    for (_, msg) in lost {
                        self.hand_to(next, msg, ctx);
                    }
                }
            }
            Timer::Watchdog => {
                self.campaign = None;
                self.observe(self.counter + 1, ctx);
                self.campaign(ctx);
            }
            Timer::Inquiry => self.campaign(ctx),
        }
    }

    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        if ctx.config.memory {
            self.suspected.insert(peer);
        }
        if self.leader.is_some_and(|term| term.node == peer) {
            self.campaign(ctx);
        }
    }

    fn on_restore(&mut self, peer: NodeId, _: &mut Ctx<Self>) {
        self.suspected.remove(peer);
    }

    fn on_join(&mut self, sponsor: NodeId, ctx: &mut Ctx<Self>) {
        self.leaving = false;
        if !self.is_member(ctx.me, ctx) {
            ctx.send(sponsor, Msg::Join(ctx.me));
        }
    }

    fn on_leave(&mut self, ctx: &mut Ctx<Self>) {
        self.leaving = !self.is_member(ctx.me, ctx);
        if self.is_member(ctx.me, ctx) && self.next_after(ctx.me, ctx) != Some(ctx.me) {
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
    /// Calls an election, unless one of its own is on its way.
    fn campaign(&mut self, ctx: &mut Ctx<Self>) {
        if self.campaign.is_some() || !self.is_member(ctx.me, ctx) {
            return;
        }
        self.campaign = Some(self.counter);
        self.watch(0, ctx);
        let (origin, epoch, best) = (ctx.me, self.counter, ctx.config.ranks.of(ctx.me));
        self.pass_on(Msg::Election { origin, epoch, best, ids: vec![ctx.me] }, ctx);
    }

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
            if self.is_suppressed(origin, ctx) {
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
            Converts::InitiatorOrNobody if origin != ctx.me => {}
            _ => self.convert(best.node, ctx),
        }
    }

    /// The list is complete: its best node leads.
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
            ctx.send(former, Msg::Coordinator { origin: ctx.me, epoch, ids: vec![ctx.me] });
        }
        self.follow(epoch, ctx);
        self.pass_on(Msg::Coordinator { origin: ctx.me, epoch, ids: vec![ctx.me] }, ctx);
        self.reconsider(ctx);
    }

    fn on_coordinator(
        &mut self,
        origin: NodeId,
        epoch: Stamp,
        mut ids: Vec<NodeId>,
        ctx: &mut Ctx<Self>,
    ) {
        self.observe(epoch.time, ctx);
        self.carried = None;
        if origin == ctx.me {
            if ctx.config.confirmation {
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

    /// Calls an election if the leader cannot be right: it is suspected, has left, or is worse than
    /// this node itself.
    fn reconsider(&mut self, ctx: &mut Ctx<Self>) {
        let Some(Stamp { node: leader, .. }) = self.leader else { return };
        let ranks = &ctx.config.ranks;
        if self.suspected.contains(leader)
            || !self.is_member(leader, ctx)
            || ranks.of(leader) < ranks.of(ctx.me)
        {
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

    /// An election passes, so many hops from its origin: its outcome is due.
    fn watch(&mut self, distance: usize, ctx: &mut Ctx<Self>) {
        if ctx.config.watchdog {
            self.due = Some(self.counter);
            let after = ctx.config.two_rounds + ctx.config.acknowledgement * 2 * distance as u32;
            ctx.set_timer(Timer::Watchdog, after);
        }
    }

    /// There is an outcome. One's own election is over only when that has come back.
    fn settled(&mut self, counter: u64, ctx: &mut Ctx<Self>) {
        if self.campaign.is_none() && self.due.is_some_and(|due| due < counter) {
            self.due = None;
            ctx.cancel_timer(Timer::Watchdog);
        }
    }

    fn inquire(&mut self, ctx: &mut Ctx<Self>) {
        if !self.is_member(ctx.me, ctx) {
            return;
        }
        ctx.set_timer(Timer::Inquiry, ctx.config.two_rounds);
        let (origin, epoch, view) = (ctx.me, self.counter, self.view.clone());
        self.pass_on(Msg::Inquiry { origin, epoch, answers: Vec::new(), view }, ctx);
    }

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
            // On its second visit its origin must be dead.
            if answers.iter().all(|(node, _)| *node != ctx.me) {
                answers.push((ctx.me, self.leader));
                view.merge(&self.view);
                self.pass_on(Msg::Inquiry { origin, epoch: self.counter, answers, view }, ctx);
            }
            return;
        }
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

    fn hand_to(&mut self, next: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        if next != ctx.me {
            if self.unacknowledged.iter().all(|(to, _)| *to != next) {
                ctx.set_timer(Timer::Ack(next), ctx.config.acknowledgement);
            }
            self.unacknowledged.push((next, msg.clone()));
        }
        ctx.send(next, msg);
    }

    fn on_ack(&mut self, from: NodeId, tag: Tag, ctx: &mut Ctx<Self>) {
        let arrived = |(to, msg): &(NodeId, Msg)| *to == from && msg.tag() == Some(tag);
        let Some(place) = self.unacknowledged.iter().position(arrived) else { return };
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

    fn on_view(&mut self, view: &View, ctx: &mut Ctx<Self>) {
        let outside = !self.is_member(ctx.me, ctx);
        if self.view.merge(view) {
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

    /// Whoever has a new view tells its successor.
    fn tell_view(&mut self, ctx: &mut Ctx<Self>) {
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
