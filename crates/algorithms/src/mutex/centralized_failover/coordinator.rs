//! The rules of a coordinator.

use conclave_protocol::{Ctx, NodeId, NodeSet};

use super::office::{Holder, Office, Stage};
use super::{Config, Coordinator, Msg, Timer};
use crate::election;

impl<E: election::Algorithm> Coordinator<E> {
    /// Rule 2.
    pub(super) fn take_office(&mut self, ctx: &mut Ctx<Self>) {
        ctx.rule(2);
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

    /// Rule 4, and rule 5 for those that come late.
    pub(super) fn on_status(
        &mut self,
        from: NodeId,
        epoch: u64,
        (request, wants, held): (u64, bool, Option<u64>),
        ctx: &mut Ctx<Self>,
    ) {
        let Some(office) = self.office(epoch) else { return };
        ctx.rule(if office.stage == Stage::Serving { 5 } else { 4 });
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

    /// Rules 4 and 11.
    pub(super) fn finish_rebuilding(&mut self, ctx: &mut Ctx<Self>) {
        let Some(office) = &mut self.office else { return };
        let Stage::Rebuilding { missing, lapsed } = &office.stage else { return };
        let over = if ctx.config.grace.is_some() {
            missing.is_empty() || *lapsed
        } else {
            let none_unknown = *lapsed || self.suspected.is_empty();
            missing.is_empty() && (office.holder.is_some() || none_unknown)
        };
        if over {
            ctx.rule(if ctx.config.grace.is_some() { 11 } else { 4 });
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

    /// Rules 4 and 11: every lease of an earlier epoch is over.
    pub(super) fn on_lapse(&mut self, ctx: &mut Ctx<Self>) {
        let grace = ctx.config.grace.is_some();
        if let Some((_, lapsed)) = self.rebuilding() {
            ctx.rule(if grace { 11 } else { 4 });
            *lapsed = true;
            if let Some(office) = self.office.as_mut().filter(|_| grace) {
                office.holder = None;
            }
            self.finish_rebuilding(ctx);
        }
    }

    /// Rules 8 and 11: lets the holder stay, unless another may have been granted what it holds.
    pub(super) fn renew_holder(&mut self, ctx: &mut Ctx<Self>) {
        let Some(Holder { node, token, .. }) = self.holder() else { return };
        if ctx.config.grace.is_some() && self.rebuilding().is_some() {
            ctx.rule(11);
            ctx.send(node, Msg::Alive);
        } else {
            self.count_lease(ctx);
            ctx.send(node, Msg::Renewed(token));
        }
    }

    /// Rules 5 and 7.
    pub(super) fn grant_next(&mut self, ctx: &mut Ctx<Self>) {
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

    pub(super) fn free(&mut self, ctx: &mut Ctx<Self>) {
        if let Some(office) = &mut self.office {
            office.holder = None;
            ctx.cancel_timer(Timer::Lease);
            self.grant_next(ctx);
        }
    }

    /// What this node coordinates, if it does so in this epoch.
    pub(super) fn office(&mut self, epoch: u64) -> Option<&mut Office> {
        self.office.as_mut().filter(|_| epoch == self.epoch)
    }

    /// The nodes that have yet to answer, and whether old leases have lapsed, while this matters.
    pub(super) fn rebuilding(&mut self) -> Option<(&mut NodeSet, &mut bool)> {
        match &mut self.office.as_mut()?.stage {
            Stage::Rebuilding { missing, lapsed } => Some((missing, lapsed)),
            Stage::Serving => None,
        }
    }

    pub(super) fn holder(&self) -> Option<Holder> {
        self.office.as_ref().and_then(|office| office.holder)
    }
}
