//! How a rollback begins, and what a node does in it.

use std::collections::BTreeMap;

use conclave_protocol::{Ctx, Input, NodeId, Protocol};

use super::{CheckpointRestart, Incarnation, Msg, Saved, nested, no_channels};
use crate::snapshot::chandy_lamport::{self, ChandyLamport};
use crate::snapshot::recovery::{Recovery, fingerprint};
use crate::snapshot::support::inside::Inside;
use crate::snapshot::{Notice, Share, Sid};

impl<P: Protocol> CheckpointRestart<P> {
    /// Begins an incarnation, and has all others go back, too.
    pub(super) fn begin(&mut self, back: bool, ctx: &mut Ctx<Self>) {
        self.saved.incarnation = Incarnation(self.saved.incarnation.0 + 1, ctx.me);
        ctx.save(self.saved.clone());
        ctx.broadcast(self.rollback());
        self.go_back(self.saved.incarnation, self.line(), back, ctx);
    }

    /// What begins the present incarnation.
    fn rollback(&self) -> Msg<P> {
        let Saved { incarnation, returns, .. } = &self.saved;
        Msg::Rollback(*incarnation, self.line(), returns.clone())
    }

    /// Rule 6.
    pub(super) fn on_rollback(
        &mut self,
        from: NodeId,
        incarnation: Incarnation,
        line: Option<Sid>,
        returns: BTreeMap<NodeId, u32>,
        ctx: &mut Ctx<Self>,
    ) {
        let now = self.saved.incarnation;
        if incarnation < now {
            ctx.rule(6);
            ctx.send(from, self.rollback());
        } else if incarnation > now {
            ctx.rule(6);
            let missed = returns.get(&ctx.me) < self.saved.returns.get(&ctx.me);
            for (node, count) in returns {
                let known = self.saved.returns.entry(node).or_default();
                *known = count.max(*known);
            }
            if missed || line < self.line() {
                self.saved.incarnation = incarnation;
                self.begin(false, ctx);
            } else {
                self.go_back(incarnation, line, false, ctx);
            }
        }
    }

    /// Rule 7. Whether the node has come back by that, or been up.
    fn go_back(
        &mut self,
        incarnation: Incarnation,
        line: Option<Sid>,
        back: bool,
        ctx: &mut Ctx<Self>,
    ) {
        ctx.rule(7);
        if let Some(sid) = line {
            self.commit(sid, ctx);
        }
        self.saved.incarnation = incarnation;
        ctx.save(self.saved.clone());
        (self.under_way, self.recorded) = (false, None);
        for (timer, _) in &self.inside.app.timers {
            ctx.cancel_timer(*timer);
        }
        let (mut channels, mut effects) = (no_channels::<P>(), Vec::new());
        match &self.saved.committed {
            Some(part) => {
                let Share { state, timers, .. } = &part.share;
                self.used = part.used;
                channels.clone_from(&part.share.channels);
                self.inside.resume(Inside { state: state.clone(), timers: timers.clone() });
                for (timer, after) in timers {
                    ctx.set_timer(*timer, *after);
                }
            }
            None => {
                self.used = 0;
                let (fresh, first) = nested(ctx, |ctx| ChandyLamport::start(None, ctx));
                self.inside.resume(fresh.app);
                effects = first;
            }
        }
        let Inside { state, timers } = &self.inside.app;
        let print = fingerprint(&(state, timers, &channels));
        let Incarnation(rollbacks, by) = incarnation;
        ctx.notify(Notice::Recovery(Recovery::Resumed(self.line(), print, rollbacks, by)));
        let (used, state) = (self.used, self.state());
        if back {
            ctx.notify(Notice::Recovery(Recovery::UsedAgain(used, state)));
            ctx.notify(Notice::Recovery(Recovery::Restored));
        } else {
            ctx.notify(Notice::Recovery(Recovery::Used(used, state)));
        }
        self.carry_out(effects, ctx);
        for (from, messages) in channels {
            for msg in messages {
                let msg = chandy_lamport::Msg::App(msg);
                self.happens(Input::Message { from, msg }, ctx);
            }
        }
        for (from, msg) in std::mem::take(&mut self.early) {
            self.on_message(from, msg, ctx);
        }
    }
}
