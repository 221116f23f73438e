//! A token ring that survives crashes. The token carries the list of members, and each hand-over is
//! acknowledged: who hands the token to a node that turns out to be dead takes its copy and hands it
//! to the next. If the token has died with its holder, the live node with the highest id asks
//! everybody for it, and if nobody has it, makes a new one in a higher epoch. Nodes join, leave, and
//! come back after a crash.
//!
//! A token is numbered by its epoch and by a count that grows with each hand-over; a node accepts
//! only a higher number than it has seen. Somebody is answerable for the token at any time: who
//! holds it, or who has handed it on and not had the acknowledgement. To answer an inquiry is to
//! promise that no token of an earlier epoch will be accepted, except that who is answerable lifts
//! its own token into the new epoch. So if everybody answers and nobody was answerable, no token of
//! an earlier epoch can get any further. A token remembered from before a crash is worthless.
//!
//! The detector has to be perfect, and slow enough: when it reports a crash, whatever the dead node
//! sent has arrived. Then a hand-over to it without acknowledgement was never accepted.
//!
//! # Rules
//!
//! 1. To hand over: strike dead members off the list, let in a newcomer, count up, send `Token` to
//!    the next member, and keep a copy. Alone on the list, keep the token.
//! 2. `Token`: a member accepts a higher number than any it has seen, and says so in its `TokenAck`;
//!    it enters if waiting, else hands over. Otherwise the `TokenAck` says why not.
//! 3. `TokenAck`: accepted, drop the copy. The node is no member: as if it had died. It has promised
//!    a later epoch: send the copy again as soon as it is lifted into that. It has seen a later
//!    number of the same epoch: drop the copy, which is superfluous.
//! 4. Suspect of the node being handed to: strike it off and hand the copy to the next, counted up.
//! 5. Suspect of anybody, at the live node with the highest id, if it is not itself answerable: send
//!    `Inquiry` in a new epoch to all that live.
//! 6. `Inquiry` in a later epoch than any seen: promise it, lift a token one is answerable for, and
//!    reply `InquiryRep`. In an earlier one: reply with the later. When all have replied and nobody is
//!    answerable: make a token, with those who say that they are members.
//! 7. Boot after a crash: be no member, and tell all (`Recovered`), who take it for a crash if they
//!    did not know of it. Ask the first member that replies to be let in.
//! 8. Join: send `Join` to the sponsor, which sends `Welcome` when it next hands over, and hands over
//!    to the newcomer. Ask somebody else if it takes too long.
//! 9. Leave: wait for the token, strike oneself off, hand over.
//! 10. Restore of a node: rule 5 again, this time asking it, too. If it is not on the list, let it in
//!     as a newcomer; if it takes itself for a member still, `Welcome` tells it that what token it
//!     has is worthless.
//!
//! With the option `majority`, a new token is made only if more than half of the latest list live.
//!
//! # Cost
//!
//! Two messages per hand-over, the token and its acknowledgement, and one hop. To make a new token:
//! 2(L − 1) messages for the inquiry, with L alive. To join: two. An idle ring is never quiet.
//!
//! # Known failures
//!
//! If a live node is suspected, its token is made again, and two are inside for a moment. Their
//! fencing tokens differ, and a resource that refuses a lower one than it has seen keeps its state
//! sound. Several wrong suspicions at once may leave a live node off the list until it joins again.
//! If all crash, the first to come back knows no later epoch than the one it saved. In
//! a split network each part makes a token, or, with `majority`, only the larger one.

mod message;

use std::time::Duration;

use conclave_protocol::claims::Check;
use conclave_protocol::{
    Channels, Charge, Crashes, Ctx, Detector, Entry, Info, Model, NodeId, NodeSet, Opt, Property,
    Protocol, Timing, Unfit,
};
use serde::{Deserialize, Serialize};

use super::{LOCK, SAFE};

pub use self::message::{Msg, Verdict, View};
use super::token_ring::Serial;
use super::{Notice, Request};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FaultTolerant {
    phase: Phase,
    membership: Membership,
    /// The latest list of members heard of.
    view: View,
    /// The highest number of a token accepted, sent or promised.
    last: Serial,
    /// The number of the token, while it is here.
    held: Option<Serial>,
    /// A token handed on and not acknowledged.
    handover: Option<Handover>,
    suspects: NodeSet,
    /// Who has asked this node to be let in.
    newcomers: NodeSet,
    /// Who was struck off and turned out to live.
    returning: NodeSet,
    inquiry: Option<Inquiry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Phase {
    Outside,
    Waiting,
    Inside,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Membership {
    Member,
    /// A member that goes as soon as it has the token.
    Leaving,
    Outsider,
    /// An outsider that wants in and has asked this node, or nobody yet.
    Joining {
        sponsor: Option<NodeId>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Handover {
    to: NodeId,
    /// The number it was sent under.
    sent: Serial,
    /// The number of the copy.
    copy: Serial,
    /// It was refused, for an epoch that this node has not been asked about yet.
    returned: bool,
}

/// The search for the token.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Inquiry {
    epoch: u64,
    missing: NodeSet,
    /// Somebody is answerable for the token.
    alive: bool,
    members: NodeSet,
    view: View,
}

/// What differs between systems.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    holder: NodeId,
    /// Nodes below this are members at first.
    members: u32,
    /// Only a majority of the latest list may make a token.
    majority: bool,
    /// How long to wait to be let in before asking somebody else.
    retry: Duration,
}

/// The only timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer {
    /// The sponsor has not answered.
    Retry,
}

/// What survives a crash: that there was one, and the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stable {
    epoch: u64,
}

/// The fault-tolerant ring.
pub static PLAIN: Entry<FaultTolerant> = Entry {
    info: Info {
        id: "mutex/token-ring-ft",
        title: "Fault-tolerant token ring",
        summary: "acknowledged hand-over; a token that died with its holder is made anew",
        source: "Le Lann. Distributed systems: towards a formal approach. IFIP Congress, 1977",
        text: include_str!("token_ring_ft.rs"),
        model: Model {
            channels: Channels::Fifo,
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
            "p3 asks and tells p1, which asks too; the token, at p0, reaches p1 first",
        )],
        options: &[
            super::HOLDER,
            Opt { name: "members", default: "N", help: "how many nodes are members at first" },
            Opt {
                name: "majority",
                default: "false",
                help: "whether a new token needs a majority of the members",
            },
        ],
        mutant: None,
        claims: &[
            // The token counts its hand-overs, so that there is no end to the states.
            Check::new(3, LOCK).bounded(20),
            Check::new(3, LOCK).crashes(1).bounded(16),
            Check::new(2, LOCK).crashes(1).recoveries(1).bounded(30),
            Check::new(4, &[Property::FcfsHappenedBefore]).talking().fails(4),
        ],
        deep: &[Check::new(3, SAFE).crashes(1).recoveries(1).bounded(14)],
        ..Info::EMPTY
    },
    config: |setup| {
        let n = setup.n();
        let members = setup.option("members", n)?;
        if !(1..=n).contains(&members) {
            return Err(Unfit::new(format!("members={members}, but it can only be 1 to {n}")));
        }
        let majority = setup.option("majority", false)?;
        let retry = (setup.delay + setup.processing) * (8 * n);
        let holder = super::holder(setup)?;
        if holder.0 >= members {
            let last = members - 1;
            return Err(Unfit::new(format!(
                "holder={}, but only 0 to {last} are members",
                holder.0
            )));
        }
        Ok(Config { holder, members, majority, retry })
    },
    clients: Entry::<FaultTolerant>::everyone,
};

impl Protocol for FaultTolerant {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Timer;
    type Stable = Stable;

    fn start(saved: Option<Stable>, ctx: &mut Ctx<Self>) -> Self {
        let me = ctx.me;
        let members: Vec<NodeId> = (0..ctx.config.members).map(NodeId).collect();
        let member = members.contains(&me);
        let mut node = Self {
            phase: Phase::Outside,
            membership: if member { Membership::Member } else { Membership::Outsider },
            view: View { version: 0, members },
            last: Serial::default(),
            held: None,
            handover: None,
            suspects: NodeSet::new(),
            newcomers: NodeSet::new(),
            returning: NodeSet::new(),
            inquiry: None,
        };
        if let Some(Stable { epoch }) = saved {
            node.last.epoch = epoch;
            node.view = View::default();
            node.membership = Membership::Joining { sponsor: None };
            ctx.set_timer(Timer::Retry, ctx.config.retry);
            ctx.broadcast(Msg::Recovered);
            return node;
        }
        ctx.save(Stable { epoch: 0 });
        if me == ctx.config.holder {
            node.held = Some(node.last);
            node.hand_over(ctx);
        }
        node
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            Request::Acquire => {
                self.phase = Phase::Waiting;
                if let Some(serial) = self.held {
                    self.use_or_hand_over(serial.next(), ctx);
                }
            }
            Request::Release => {
                self.phase = Phase::Outside;
                self.hand_over(ctx);
            }
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            Msg::Token { serial, view } => self.on_token(from, serial, view, ctx),
            Msg::TokenAck { serial, verdict } => self.on_token_ack(from, serial, verdict, ctx),
            Msg::Inquiry { epoch } => self.on_inquiry(from, epoch, ctx),
            Msg::InquiryRep { asked: Some(asked), epoch, alive, member, view } => {
                let Some(inquiry) = self.inquiry.as_mut().filter(|i| i.epoch == asked) else {
                    return;
                };
                if epoch > asked {
                    self.inquiry = None;
                    self.inquire_if_leading(None, epoch, ctx);
                    return;
                }
                inquiry.missing.remove(from);
                inquiry.alive |= alive;
                if member {
                    inquiry.members.insert(from);
                    if view.version > inquiry.view.version {
                        inquiry.view = view;
                    }
                }
                self.regenerate_if_all_replied(ctx);
            }
            Msg::InquiryRep { asked: None, member: true, view, .. } => {
                if let Membership::Joining { sponsor } = self.membership
                    && view.version >= self.view.version
                {
                    self.view = view;
                    if sponsor.is_none() {
                        self.ask_to_join(from, ctx);
                    }
                }
            }
            Msg::InquiryRep { .. } => {}
            Msg::Recovered => {
                self.suspects.remove(from);
                ctx.send(from, self.reply(None));
                self.on_crash(from, ctx);
            }
            Msg::Join { node } => {
                // Who waits to be let in itself lets others in later.
                self.newcomers.insert(node);
                self.hand_over(ctx);
            }
            Msg::Welcome { serial, view } => self.on_welcome(serial, view, ctx),
        }
    }

    fn on_timer(&mut self, Timer::Retry: Timer, ctx: &mut Ctx<Self>) {
        if let Membership::Joining { sponsor } = self.membership {
            let asked = sponsor.unwrap_or(ctx.me);
            let mut others = self.suspects.clone();
            others.insert(ctx.me);
            // A member, as far as is known; failing that, anybody.
            let next = self.view.next_after(asked, &others).unwrap_or_else(|| {
                let everybody = View { version: 0, members: ctx.topology.nodes().collect() };
                everybody.next_after(asked, &others).unwrap_or(ctx.me)
            });
            self.ask_to_join(next, ctx);
        }
    }

    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        self.suspects.insert(peer);
        self.newcomers.remove(peer);
        self.returning.remove(peer);
        self.on_crash(peer, ctx);
    }

    fn on_restore(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        self.suspects.remove(peer);
        if self.is_member() && !self.view.members.contains(&peer) {
            self.returning.insert(peer);
            self.hand_over(ctx);
        }
        // If it was up all along, it may have the token and not have been asked.
        self.inquire_if_leading(Some(peer), 0, ctx);
    }

    fn on_join(&mut self, sponsor: NodeId, ctx: &mut Ctx<Self>) {
        if self.membership == Membership::Outsider {
            self.ask_to_join(sponsor, ctx);
        }
    }

    fn on_leave(&mut self, ctx: &mut Ctx<Self>) {
        match self.membership {
            Membership::Member => {
                self.membership = Membership::Leaving;
                self.hand_over(ctx);
            }
            Membership::Joining { .. } => {
                ctx.cancel_timer(Timer::Retry);
                self.membership = Membership::Outsider;
            }
            Membership::Leaving | Membership::Outsider => {}
        }
    }

    fn charge(msg: &Msg, _: NodeId, _: NodeId) -> Charge {
        match msg {
            Msg::Token { .. } | Msg::TokenAck { .. } => Charge::NextEntry,
            _ => Charge::Nobody,
        }
    }
}

/// The token and its hand-over.
impl FaultTolerant {
    fn on_token(&mut self, from: NodeId, serial: Serial, view: View, ctx: &mut Ctx<Self>) {
        let verdict = if !self.is_member() {
            Verdict::Outsider
        } else if serial <= self.last {
            Verdict::Stale(self.last)
        } else {
            Verdict::Taken
        };
        ctx.send(from, Msg::TokenAck { serial, verdict });
        if verdict == Verdict::Taken {
            // An earlier list can only come with one token too many, after a wrong suspicion.
            if view.version >= self.view.version {
                self.view = view;
            }
            // It has come round, whatever has become of the acknowledgement.
            self.handover = None;
            self.use_or_hand_over(serial, ctx);
        }
    }

    fn use_or_hand_over(&mut self, serial: Serial, ctx: &mut Ctx<Self>) {
        (self.held, self.last) = (Some(serial), serial);
        if self.phase == Phase::Waiting {
            self.phase = Phase::Inside;
            ctx.notify(Notice::Acquired { token: serial.token() });
        } else {
            self.hand_over(ctx);
        }
    }

    /// Hands the token to the next member, if it is here and not in use.
    fn hand_over(&mut self, ctx: &mut Ctx<Self>) {
        let Some(serial) = self.held.filter(|_| self.phase != Phase::Inside) else { return };
        let me = ctx.me;
        self.view.strike(|member| member != me && self.suspects.contains(member));
        if self.membership != Membership::Leaving
            && let Some(newcomer) = self.next_newcomer()
        {
            self.view.strike(|member| member == newcomer);
            self.view.insert_after(me, newcomer);
            ctx.send(newcomer, Msg::Welcome { serial, view: self.view.clone() });
        }
        let Some(to) = self.view.next_after(me, &self.suspects).filter(|&to| to != me) else {
            return;
        };
        if self.membership == Membership::Leaving {
            self.membership = Membership::Outsider;
            self.view.strike(|member| member == me);
            for node in self.newcomers.take().iter() {
                ctx.send(to, Msg::Join { node });
            }
        }
        self.held = None;
        self.send_token(to, serial.next(), ctx);
    }

    fn send_token(&mut self, to: NodeId, serial: Serial, ctx: &mut Ctx<Self>) {
        self.last = serial;
        self.handover = Some(Handover { to, sent: serial, copy: serial, returned: false });
        ctx.send(to, Msg::Token { serial, view: self.view.clone() });
    }

    fn on_token_ack(
        &mut self,
        from: NodeId,
        serial: Serial,
        verdict: Verdict,
        ctx: &mut Ctx<Self>,
    ) {
        let Some(handover) = &mut self.handover else { return };
        if handover.to != from || handover.sent != serial {
            return;
        }
        match verdict {
            Verdict::Taken => self.handover = None,
            Verdict::Outsider => self.hand_to_another(ctx),
            Verdict::Stale(seen) if seen.epoch > serial.epoch => {
                handover.returned = true;
                self.send_again_if_lifted(ctx);
            }
            Verdict::Stale(_) => self.handover = None,
        }
    }

    /// Hands the copy on, because the node it was meant for is no member any more.
    fn hand_to_another(&mut self, ctx: &mut Ctx<Self>) {
        let Some(handover) = self.handover.take() else { return };
        let next = self.view.next_after(handover.to, &self.suspects);
        self.view.strike(|member| member == handover.to);
        let serial = handover.copy.next();
        match next.filter(|&next| next != ctx.me && next != handover.to) {
            Some(next) => self.send_token(next, serial, ctx),
            None => {
                // Nobody else is left.
                if !self.view.members.contains(&ctx.me) {
                    self.view.insert_after(ctx.me, ctx.me);
                }
                self.membership = Membership::Member;
                self.use_or_hand_over(serial, ctx);
            }
        }
    }

    fn send_again_if_lifted(&mut self, ctx: &mut Ctx<Self>) {
        if let Some(Handover { to, sent, copy, returned: true }) = self.handover
            && copy.epoch > sent.epoch
        {
            self.send_token(to, copy.next(), ctx);
        }
    }
}

/// Crashes and new tokens.
impl FaultTolerant {
    fn on_crash(&mut self, node: NodeId, ctx: &mut Ctx<Self>) {
        if self.handover.is_some_and(|handover| handover.to == node) {
            self.hand_to_another(ctx);
        }
        if self.membership == (Membership::Joining { sponsor: Some(node) }) {
            self.on_timer(Timer::Retry, ctx);
        }
        if let Some(inquiry) = &mut self.inquiry {
            inquiry.missing.remove(node);
            inquiry.members.remove(node);
        }
        self.inquire_if_leading(Some(node), 0, ctx);
        self.regenerate_if_all_replied(ctx);
    }

    /// Asks everybody for the token, in an epoch above `above`, if this is the node to ask.
    fn inquire_if_leading(&mut self, dead: Option<NodeId>, above: u64, ctx: &mut Ctx<Self>) {
        let (me, n) = (ctx.me, u64::from(ctx.n()));
        let lives = |peer: NodeId| Some(peer) != dead && !self.suspects.contains(peer);
        let leads = ctx.peers().all(|peer| peer < me || !lives(peer));
        if !leads {
            return;
        }
        // Epochs are unique: each node counts in steps of n.
        let above = above.max(self.last.epoch);
        let epoch = (above / n + 1) * n + u64::from(me.0);
        if self.is_answerable() {
            // Refused for the sake of an inquiry whose author has died without an answer from here.
            if self.handover.is_some_and(|handover| handover.returned) {
                self.promise(epoch, ctx);
                self.send_again_if_lifted(ctx);
            }
            return;
        }
        let missing: NodeSet = ctx.peers().filter(|&peer| !self.suspects.contains(peer)).collect();
        ctx.multicast(missing.iter(), Msg::Inquiry { epoch });
        let members = self.is_member().then_some(me).into_iter().collect();
        let view = self.view.clone();
        self.inquiry = Some(Inquiry { epoch, missing, alive: false, members, view });
        self.promise(epoch, ctx);
        self.regenerate_if_all_replied(ctx);
    }

    fn on_inquiry(&mut self, from: NodeId, epoch: u64, ctx: &mut Ctx<Self>) {
        if epoch > self.last.epoch {
            self.inquiry = None;
            self.promise(epoch, ctx);
        }
        ctx.send(from, self.reply(Some(epoch)));
        self.send_again_if_lifted(ctx);
    }

    /// Accepts no token of an earlier epoch any more, and lifts the one it is answerable for.
    fn promise(&mut self, epoch: u64, ctx: &mut Ctx<Self>) {
        self.last = Serial { epoch, seq: 0 };
        if let Some(handover) = &mut self.handover {
            handover.copy.epoch = epoch;
            self.last = handover.copy;
        }
        if let Some(serial) = &mut self.held {
            serial.epoch = epoch;
            self.last = *serial;
        }
        ctx.save(Stable { epoch });
    }

    fn regenerate_if_all_replied(&mut self, ctx: &mut Ctx<Self>) {
        let Some(inquiry) = self.inquiry.take_if(|inquiry| inquiry.missing.is_empty()) else {
            return;
        };
        let Inquiry { epoch, alive, members, mut view, .. } = inquiry;
        let before = view.members.len();
        view.strike(|member| !members.contains(member));
        let live = view.members.len();
        if alive || (ctx.config.majority && live * 2 <= before) {
            return;
        }
        for member in members.iter() {
            if !view.members.contains(&member) {
                view.members.push(member);
            }
        }
        if view.members.is_empty() {
            view.members.push(ctx.me);
            ctx.cancel_timer(Timer::Retry);
            self.membership = Membership::Member;
        }
        view.version += 1;
        self.view = view;
        let serial = Serial { epoch, seq: 1 };
        if self.is_member() {
            self.use_or_hand_over(serial, ctx);
        } else {
            (self.held, self.last) = (Some(serial), serial);
            self.hand_over(ctx);
        }
    }
}

/// Members come and go.
impl FaultTolerant {
    fn on_welcome(&mut self, serial: Serial, view: View, ctx: &mut Ctx<Self>) {
        let wanted = matches!(self.membership, Membership::Joining { .. } | Membership::Member);
        if !wanted || serial < self.last {
            return;
        }
        ctx.cancel_timer(Timer::Retry);
        self.membership = Membership::Member;
        (self.view, self.last, self.handover) = (view, serial, None);
        if self.held.take().is_some() && self.phase == Phase::Inside {
            self.phase = Phase::Outside;
            ctx.notify(Notice::Revoked);
        }
    }

    fn ask_to_join(&mut self, sponsor: NodeId, ctx: &mut Ctx<Self>) {
        self.membership = Membership::Joining { sponsor: Some(sponsor) };
        ctx.set_timer(Timer::Retry, ctx.config.retry);
        if sponsor != ctx.me {
            ctx.send(sponsor, Msg::Join { node: ctx.me });
        }
    }

    fn next_newcomer(&mut self) -> Option<NodeId> {
        let members = &self.view.members;
        let absent: NodeSet =
            self.returning.take().iter().filter(|node| !members.contains(node)).collect();
        self.returning = absent;
        let newcomer = self.newcomers.first().or_else(|| self.returning.first())?;
        self.newcomers.remove(newcomer);
        self.returning.remove(newcomer);
        Some(newcomer)
    }

    fn is_member(&self) -> bool {
        matches!(self.membership, Membership::Member | Membership::Leaving)
    }

    /// Whether the token is here, or may come back here.
    fn is_answerable(&self) -> bool {
        self.held.is_some() || self.handover.is_some()
    }

    fn reply(&self, asked: Option<u64>) -> Msg {
        Msg::InquiryRep {
            asked,
            epoch: self.last.epoch,
            alive: self.is_answerable(),
            member: self.is_member(),
            view: self.view.clone(),
        }
    }
}
