//! How the parts of a snapshot get to the node that started it.
//!
//! Where links lead one way only, that node need not be a neighbour, and the way on which a marker
//! came cannot be gone back. So a report goes
//!
//! 1. straight to it, if there is a link;
//! 2. else to the node that the first marker came from, if there is a link to that one: it is nearer,
//!    and does the same;
//! 3. else to all nodes: each node that gets such a report for the first time passes it on by each
//!    of its links, or by the one to the node that started the snapshot, if it has that.
//!
//! On a complete graph that is one message for each report; where links lead both ways, as many as
//! the markers' tree is deep at most; in any other graph at most one on each channel.

use std::collections::{BTreeMap, BTreeSet};

use conclave_protocol::{Ctx, NodeId, Protocol, Value};
use serde::{Deserialize, Serialize};

use crate::snapshot::Sid;

/// A report on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Report<R> {
    /// The snapshot.
    pub sid: Sid,
    /// The node that reports.
    pub of: NodeId,
    /// Whether all nodes pass it on.
    pub spread: bool,
    /// What it reports.
    pub content: R,
}

/// What a node remembers of reports: those that it collects, and how to pass on those of others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Reports<R: Value> {
    /// Of the snapshots that this node started and that are not complete: what has been reported.
    collected: BTreeMap<Sid, BTreeMap<NodeId, R>>,
    /// Whom the first marker came from, where reports go back that way.
    up: BTreeMap<Sid, NodeId>,
    /// The reports that were passed on to all nodes.
    spread: BTreeSet<(Sid, NodeId)>,
}

impl<R: Value> Default for Reports<R> {
    fn default() -> Self {
        Self { collected: BTreeMap::new(), up: BTreeMap::new(), spread: BTreeSet::new() }
    }
}

impl<R: Value> Reports<R> {
    /// The node starts a snapshot, and will collect the reports of it.
    pub fn expect(&mut self, sid: Sid) {
        self.collected.entry(sid).or_default();
    }

    /// The node hears of a snapshot from another.
    pub fn heard<W: Protocol>(&mut self, sid: Sid, from: NodeId, ctx: &Ctx<W>) {
        let straight = ctx.topology.linked(ctx.me, sid.initiator(ctx.n()));
        if !straight && ctx.topology.linked(ctx.me, from) {
            self.up.insert(sid, from);
        }
    }

    /// The node reports to the one that started the snapshot. If that is itself, and has the reports
    /// of all now, they are returned.
    pub fn report<W: Protocol>(
        &mut self,
        sid: Sid,
        content: R,
        ctx: &mut Ctx<W>,
        wrap: impl Fn(Report<R>) -> W::Msg,
    ) -> Option<BTreeMap<NodeId, R>> {
        let report = Report { sid, of: ctx.me, spread: false, content };
        self.on_report(ctx.me, report, ctx, wrap)
    }

    /// A report arrives, from a node that need not be the one that reports. If all that this node
    /// waits for are there now, they are returned.
    pub fn on_report<W: Protocol>(
        &mut self,
        from: NodeId,
        mut report: Report<R>,
        ctx: &mut Ctx<W>,
        wrap: impl Fn(Report<R>) -> W::Msg,
    ) -> Option<BTreeMap<NodeId, R>> {
        let (sid, of, n) = (report.sid, report.of, ctx.n());
        if report.spread && !self.spread.insert((sid, of)) {
            return None;
        }
        let collector = sid.initiator(n);
        if collector == ctx.me {
            let collected = self.collected.get_mut(&sid)?;
            collected.entry(of).or_insert(report.content);
            let whole = collected.len() == n as usize;
            return if whole { self.collected.remove(&sid) } else { None };
        }
        if ctx.topology.linked(ctx.me, collector) {
            ctx.send(collector, wrap(report));
        } else if let Some(up) = self.up.get(&sid).filter(|_| !report.spread) {
            ctx.send(*up, wrap(report));
        } else {
            // One that has sent it back the marker's way has not passed it on to all nodes yet.
            let spreads_it = std::mem::replace(&mut report.spread, true);
            self.spread.insert((sid, of));
            let others = ctx.neighbors().filter(|to| !(spreads_it && *to == from));
            ctx.multicast(others, wrap(report));
        }
        None
    }
}
