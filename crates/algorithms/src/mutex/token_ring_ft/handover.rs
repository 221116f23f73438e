//! The token and its hand-over: rules 2 to 5.

use conclave_protocol::{Ctx, NodeId};

use super::{FaultTolerant, Handover, Membership, Msg, Phase, Verdict, View};
use crate::mutex::Notice;
use crate::mutex::token_ring::Serial;

impl FaultTolerant {
    /// Rule 3.
    pub(super) fn on_token(
        &mut self,
        from: NodeId,
        serial: Serial,
        view: View,
        ctx: &mut Ctx<Self>,
    ) {
        ctx.rule(3);
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

    pub(super) fn use_or_hand_over(&mut self, serial: Serial, ctx: &mut Ctx<Self>) {
        (self.held, self.last) = (Some(serial), serial);
        if self.phase == Phase::Waiting {
            self.phase = Phase::Inside;
            ctx.notify(Notice::Acquired { token: serial.token() });
        } else {
            self.hand_over(ctx);
        }
    }

    /// Rule 2, if the token is here and not in use.
    pub(super) fn hand_over(&mut self, ctx: &mut Ctx<Self>) {
        let Some(serial) = self.held.filter(|_| self.phase != Phase::Inside) else { return };
        ctx.rule(2);
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

    /// Rule 4.
    pub(super) fn on_token_ack(
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
        ctx.rule(4);
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

    /// Rule 5: the node that the copy was meant for is no member any more.
    pub(super) fn hand_to_another(&mut self, ctx: &mut Ctx<Self>) {
        let Some(handover) = self.handover.take() else { return };
        ctx.rule(5);
        let next = self.view.next_after(handover.to, &self.suspects);
        self.view.strike(|member| member == handover.to);
        let serial = handover.copy.next();
        match next.filter(|&next| next != ctx.me && next != handover.to) {
            Some(next) => self.send_token(next, serial, ctx),
            None => {
                // No other member is left.
                if !self.view.members.contains(&ctx.me) {
                    self.view.insert_after(ctx.me, ctx.me);
                }
                self.membership = Membership::Member;
                self.use_or_hand_over(serial, ctx);
            }
        }
    }

    pub(super) fn send_again_if_lifted(&mut self, ctx: &mut Ctx<Self>) {
        if let Some(Handover { to, sent, copy, returned: true }) = self.handover
            && copy.epoch > sent.epoch
        {
            self.send_token(to, copy.next(), ctx);
        }
    }
}
