//! A token ring that survives crashes. The token carries the list of members, and each hand-over is
//! acknowledged: a node that hands the token to a member that turns out to be dead takes its copy
//! and hands it to the next. If the token has died with its holder, the live node with the highest id
//! asks all live nodes for it, and if none has it, makes a new one in a higher epoch. Nodes join,
//! leave, and come back after a crash.
//!
//! A token is numbered by its epoch and by a count that grows with each hand-over; a node accepts
//! only a higher number than it has seen. A node is *answerable* for the token while it holds it, and
//! after handing it on until the acknowledgement comes; so some node is at any time. To answer an
//! inquiry is to promise that no token of an earlier epoch will be accepted, except that an
//! answerable node lifts its own token into the new epoch. So if all nodes answer and none was
//! answerable, no token of an earlier epoch can get any further. A token remembered from before a
//! crash is worthless.
//!
//! The detector has to be perfect, and slow enough: when it reports a crash, all that the dead node
//! sent has arrived. Then a hand-over to it without acknowledgement was never accepted.
//!
//! # Rules
//!
//! 1. Acquire: wait for the token. A node that keeps the token, being alone on the list, enters.
//! 2. Release, or any other event that finds the token here and not in use: hand it over. Strike dead
//!    members off the list, let in a newcomer (`Welcome`), count up, send `Token` to the next member,
//!    and keep a copy. Alone on the list, keep the token.
//! 3. `Token`: a member accepts a higher number than any it has seen, and says so in its `TokenAck`;
//!    it enters if waiting, else rule 2. Otherwise the `TokenAck` says why not.
//! 4. `TokenAck`: accepted, drop the copy. The node is no member: rule 5. It has promised a later
//!    epoch: send the copy again as soon as it is lifted into that. It has seen a later number of the
//!    same epoch: drop the copy, which is superfluous.
//! 5. The node being handed to has crashed or is no member: strike it off and hand the copy to the
//!    next, counted up. Alone on the list, use or keep it.
//! 6. Suspect of any node, at the live node with the highest id: if it is not itself answerable, send
//!    `Inquiry` in a new epoch to all that live. If it has a copy that was refused for a later epoch,
//!    lift the copy into the new epoch and send it again.
//! 7. `Inquiry` in a later epoch than any seen: promise it, and lift a token one is answerable for.
//!    In any epoch: reply `InquiryRep` with the latest.
//! 8. `InquiryRep` with a later epoch: rule 6 in one above that. When all that live have replied: if
//!    none is answerable, make a token, with those who say that they are members.
//! 9. Boot after a crash: be no member, and tell all (`Recovered`), who take it for a crash if they
//!    did not know of it, and reply. Ask the first member that replies to be let in.
//! 10. Join: send `Join` to the sponsor, which sends `Welcome` when it next hands over, and hands
//!     over to the newcomer. If that takes too long, or the sponsor crashes, ask another node.
//! 11. Leave: wait for the token, strike oneself off, hand over.
//! 12. Restore of a node: rule 6 again, this time asking it, too. If it is not on the list, let it in
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

mod handover;
mod members;
mod message;
mod recovery;

use std::time::Duration;

use conclave_protocol::claims::Check;
use conclave_protocol::{
    Channels, Charge, Crashes, Ctx, Detector, Entry, Model, NodeId, NodeSet, Opt, Property,
    Protocol, Setup, Timing, Unfit,
};
use serde::{Deserialize, Serialize};

pub use self::message::{Msg, Verdict, View};
use super::token_ring::Serial;
use super::{LOCK, Notice, Request, SAFE};

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
    /// Nodes that have asked this one to be let in.
    newcomers: NodeSet,
    /// Nodes that were struck off and turned out to live.
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
    /// An outsider that wants in and has asked this node, or none yet.
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
    /// A node is answerable for the token.
    alive: bool,
    members: NodeSet,
    view: View,
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

/// What differs between systems.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    holder: NodeId,
    /// Nodes below this are members at first.
    members: u32,
    /// Only a majority of the latest list may make a token.
    majority: bool,
    /// How long to wait to be let in before asking another node.
    retry: Duration,
}

impl Config {
    fn new(setup: &Setup) -> Result<Self, Unfit> {
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
        Ok(Self { holder, members, majority, retry })
    }
}

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
        // Rule 9.
        if let Some(Stable { epoch }) = saved {
            ctx.rule(9);
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
            // Rule 1.
            Request::Acquire => {
                ctx.rule(1);
                self.phase = Phase::Waiting;
                if let Some(serial) = self.held {
                    self.use_or_hand_over(serial.next(), ctx);
                }
            }
            // Rule 2.
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
                let view = member.then_some(view);
                self.on_inquiry_rep(from, asked, epoch, alive, view, ctx);
            }
            // Rule 9.
            Msg::InquiryRep { asked: None, member: true, view, .. } => {
                if let Membership::Joining { sponsor } = self.membership
                    && view.version >= self.view.version
                {
                    ctx.rule(9);
                    self.view = view;
                    if sponsor.is_none() {
                        self.ask_to_join(from, ctx);
                    }
                }
            }
            Msg::InquiryRep { .. } => {}
            // Rule 9.
            Msg::Recovered => {
                ctx.rule(9);
                self.suspects.remove(from);
                ctx.send(from, self.reply(None));
                self.on_crash(from, ctx);
            }
            // Rule 10.
            Msg::Join { node } => {
                ctx.rule(10);
                // A node that waits to be let in itself lets others in later.
                self.newcomers.insert(node);
                self.hand_over(ctx);
            }
            Msg::Welcome { serial, view } => self.on_welcome(serial, view, ctx),
        }
    }

    /// Rule 10.
    fn on_timer(&mut self, Timer::Retry: Timer, ctx: &mut Ctx<Self>) {
        if let Membership::Joining { sponsor } = self.membership {
            ctx.rule(10);
            let asked = sponsor.unwrap_or(ctx.me);
            let mut others = self.suspects.clone();
            others.insert(ctx.me);
            // A member, as far as is known; failing that, any node.
            let next = self.view.next_after(asked, &others).unwrap_or_else(|| {
                let all = View { version: 0, members: ctx.topology.nodes().collect() };
                all.next_after(asked, &others).unwrap_or(ctx.me)
            });
            self.ask_to_join(next, ctx);
        }
    }

    /// Rules 5 and 6.
    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        self.suspects.insert(peer);
        self.newcomers.remove(peer);
        self.returning.remove(peer);
        self.on_crash(peer, ctx);
    }

    /// Rule 12.
    fn on_restore(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        ctx.rule(12);
        self.suspects.remove(peer);
        if self.is_member() && !self.view.members.contains(&peer) {
            self.returning.insert(peer);
            self.hand_over(ctx);
        }
        // If it was up all along, it may have the token and not have been asked.
        self.inquire_if_leading(Some(peer), 0, ctx);
    }

    /// Rule 10.
    fn on_join(&mut self, sponsor: NodeId, ctx: &mut Ctx<Self>) {
        if self.membership == Membership::Outsider {
            ctx.rule(10);
            self.ask_to_join(sponsor, ctx);
        }
    }

    /// Rule 11.
    fn on_leave(&mut self, ctx: &mut Ctx<Self>) {
        match self.membership {
            Membership::Member => {
                ctx.rule(11);
                self.membership = Membership::Leaving;
                self.hand_over(ctx);
            }
            Membership::Joining { .. } => {
                ctx.rule(11);
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

impl FaultTolerant {
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

/// The fault-tolerant ring.
pub static PLAIN: Entry<FaultTolerant> =
    Entry::new("mutex/token-ring-ft", "Fault-tolerant token ring", Config::new)
        .summary("acknowledged hand-over; a token that died with its holder is made anew")
        .source("Le Lann. Distributed systems: towards a formal approach. IFIP Congress, 1977")
        .text(include_str!("token_ring_ft.rs"))
        .model(Model {
            channels: Channels::Fifo,
            timing: Timing::Synchronous,
            crashes: Crashes::Recover,
            detector: Detector::Perfect,
            ..Model::FIFO
        })
        .holds(LOCK)
        .fails(&[(
            Property::FcfsHappenedBefore,
            "p3 asks and tells p1, which asks too; the token, at p0, reaches p1 first",
        )])
        .options(&[
            super::HOLDER,
            Opt { name: "members", default: "N", help: "how many nodes are members at first" },
            Opt {
                name: "majority",
                default: "false",
                help: "whether a new token needs a majority of the members",
            },
        ])
        .claims(&[
            // The token counts its hand-overs, so that there is no end to the states.
            Check::new(3, LOCK).bounded(20),
            Check::new(3, LOCK).crashes(1).bounded(16),
            Check::new(2, LOCK).crashes(1).recoveries(1).bounded(30),
            Check::new(4, &[Property::FcfsHappenedBefore]).talking().fails(4),
        ])
        .deep(&[Check::new(3, SAFE).crashes(1).recoveries(1).bounded(14)]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect};

    use super::*;

    #[test]
    fn the_copy_of_a_token_handed_to_a_node_that_crashed_goes_to_the_next_member() {
        let mut bench = Bench::complete(&PLAIN, 3);
        let token = |seq, version, members: &[u32]| Msg::Token {
            serial: Serial { epoch: 0, seq },
            view: View { version, members: members.iter().map(|&node| NodeId(node)).collect() },
        };
        let handed_over = Effect::Send { to: NodeId(1), msg: token(1, 0, &[0, 1, 2]) };
        assert_eq!(bench.at(0).booted(), [Effect::Save(Stable { epoch: 0 }), handed_over]);
        let again = Effect::Send { to: NodeId(2), msg: token(2, 1, &[0, 2]) };
        assert_eq!(bench.at(0).suspect(1), [again]);
        assert_eq!(bench.at(0).rules(), [5]);
    }

    #[test]
    fn a_token_that_died_is_made_anew_when_no_live_node_turns_out_to_be_answerable() {
        let mut bench = Bench::complete(&PLAIN, 3);
        let inquiry = Msg::Inquiry { epoch: 5 };
        let asked = Effect::Send { to: NodeId(1), msg: inquiry.clone() };
        assert_eq!(bench.at(2).suspect(0), [asked, Effect::Save(Stable { epoch: 5 })]);
        assert_eq!(bench.at(2).rules(), [6]);
        let replied = bench.at(1).message(2, inquiry);
        let [Effect::Save(_), Effect::Send { to: NodeId(2), msg: reply }] = &replied[..] else {
            panic!("{replied:?}");
        };
        let made = bench.at(2).message(1, reply.clone());
        let [Effect::Send { to: NodeId(1), msg: Msg::Token { serial, .. } }] = made[..] else {
            panic!("{made:?}");
        };
        assert_eq!(serial, Serial { epoch: 5, seq: 2 });
        assert_eq!(bench.at(2).rules(), [2, 8]);
    }
}
