//! Crashes and new tokens: rules 6 to 8.

use conclave_protocol::{Ctx, NodeId, NodeSet, Protocol};

use super::{FaultTolerant, Inquiry, Membership, Msg, Stable, Timer, View};
use crate::mutex::token_ring::Serial;

impl FaultTolerant {
    /// Rules 5, 6 and 8, and 10 at a node whose sponsor it was.
    pub(super) fn on_crash(&mut self, node: NodeId, ctx: &mut Ctx<Self>) {
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

    /// Rule 6, in an epoch above `above`, if this is the live node with the highest id.
    pub(super) fn inquire_if_leading(
        &mut self,
        dead: Option<NodeId>,
        above: u64,
        ctx: &mut Ctx<Self>,
    ) {
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
                ctx.rule(6);
                self.promise(epoch, ctx);
                self.send_again_if_lifted(ctx);
            }
            return;
        }
        ctx.rule(6);
        let missing: NodeSet = ctx.peers().filter(|&peer| !self.suspects.contains(peer)).collect();
        ctx.multicast(missing.iter(), Msg::Inquiry { epoch });
        let members = self.is_member().then_some(me).into_iter().collect();
        let view = self.view.clone();
        self.inquiry = Some(Inquiry { epoch, missing, alive: false, members, view });
        self.promise(epoch, ctx);
        self.regenerate_if_all_replied(ctx);
    }

    /// Rule 7.
    pub(super) fn on_inquiry(&mut self, from: NodeId, epoch: u64, ctx: &mut Ctx<Self>) {
        ctx.rule(7);
        if epoch > self.last.epoch {
            self.inquiry = None;
            self.promise(epoch, ctx);
        }
        ctx.send(from, self.reply(Some(epoch)));
        self.send_again_if_lifted(ctx);
    }

    /// Rule 8: the answer to the inquiry in the epoch `asked`, with its list if the node is a member.
    pub(super) fn on_inquiry_rep(
        &mut self,
        from: NodeId,
        asked: u64,
        epoch: u64,
        alive: bool,
        view: Option<View>,
        ctx: &mut Ctx<Self>,
    ) {
        let Some(inquiry) = self.inquiry.as_mut().filter(|i| i.epoch == asked) else { return };
        ctx.rule(8);
        if epoch > asked {
            self.inquiry = None;
            self.inquire_if_leading(None, epoch, ctx);
            return;
        }
        inquiry.missing.remove(from);
        inquiry.alive |= alive;
        if let Some(view) = view {
            inquiry.members.insert(from);
            if view.version > inquiry.view.version {
                inquiry.view = view;
            }
        }
        self.regenerate_if_all_replied(ctx);
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

    /// Rule 8.
    fn regenerate_if_all_replied(&mut self, ctx: &mut Ctx<Self>) {
        let Some(inquiry) = self.inquiry.take_if(|inquiry| inquiry.missing.is_empty()) else {
            return;
        };
        ctx.rule(8);
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
