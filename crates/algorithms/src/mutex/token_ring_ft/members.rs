//! Members come and go: rules 9 to 12.

use conclave_protocol::{Ctx, NodeId, NodeSet};

use super::{FaultTolerant, Membership, Msg, Phase, Timer, View};
use crate::mutex::Notice;
use crate::mutex::token_ring::Serial;

impl FaultTolerant {
    /// Rule 10 at a newcomer, rule 12 at a node that takes itself for a member.
    pub(super) fn on_welcome(&mut self, serial: Serial, view: View, ctx: &mut Ctx<Self>) {
        let rule = match self.membership {
            Membership::Joining { .. } => 10,
            Membership::Member => 12,
            Membership::Leaving | Membership::Outsider => return,
        };
        if serial < self.last {
            return;
        }
        ctx.rule(rule);
        ctx.cancel_timer(Timer::Retry);
        self.membership = Membership::Member;
        (self.view, self.last, self.handover) = (view, serial, None);
        if self.held.take().is_some() && self.phase == Phase::Inside {
            self.phase = Phase::Outside;
            ctx.notify(Notice::Revoked);
        }
    }

    pub(super) fn ask_to_join(&mut self, sponsor: NodeId, ctx: &mut Ctx<Self>) {
        self.membership = Membership::Joining { sponsor: Some(sponsor) };
        ctx.set_timer(Timer::Retry, ctx.config.retry);
        if sponsor != ctx.me {
            ctx.send(sponsor, Msg::Join { node: ctx.me });
        }
    }

    /// The node that rule 2 lets in, if there is one.
    pub(super) fn next_newcomer(&mut self) -> Option<NodeId> {
        let members = &self.view.members;
        let absent: NodeSet =
            self.returning.take().iter().filter(|node| !members.contains(node)).collect();
        self.returning = absent;
        let newcomer = self.newcomers.first().or_else(|| self.returning.first())?;
        self.newcomers.remove(newcomer);
        self.returning.remove(newcomer);
        Some(newcomer)
    }
}
