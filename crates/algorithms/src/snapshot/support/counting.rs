//! A snapshot that is complete when as many messages have been reported as were on their way.
//!
//! Each node counts the messages of its application: those it has sent less those it has received. When
//! it records it reports its state and the count. A message that was sent before its sender recorded
//! and arrives when its receiver has recorded was on its way, and its receiver reports a copy of it.
//! Added up, the counts of all nodes say how many such copies there are to be.

use std::collections::BTreeMap;

use conclave_protocol::{Ctx, NodeId, Protocol};
use serde::{Deserialize, Serialize};

use crate::snapshot::{GlobalState, Share, Sid};

/// Something for the node that started a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Report<P: Protocol> {
    /// The snapshot.
    pub sid: Sid,
    /// The node that reports.
    pub of: NodeId,
    /// What.
    pub what: What<P>,
}

/// What is reported.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum What<P: Protocol> {
    /// The node has recorded this, having sent so many messages more than it had received.
    Part(Share<P>, i64),
    /// This message, from another node, was on its way.
    Late(NodeId, P::Msg),
    /// The node has heard that there will be a snapshot.
    Heard,
}

/// When a snapshot is taken to be complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Complete {
    /// When all nodes have reported, and as many messages as were on their way.
    Counted,
    /// When all nodes have reported. Wrong.
    Unawaited,
    /// When as many messages have been reported as were on their way of those nodes that have
    /// reported. Wrong.
    Hasty,
}

/// What has been reported of the snapshots that a node has started.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Gathered<P: Protocol>(BTreeMap<Sid, Gathering<P>>);

/// What has been reported of one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
struct Gathering<P: Protocol> {
    shares: BTreeMap<NodeId, Share<P>>,
    /// By receiver and sender.
    late: BTreeMap<NodeId, BTreeMap<NodeId, Vec<P::Msg>>>,
    /// How many messages were on their way, less those that have been reported.
    missing: i64,
}

impl<P: Protocol> Default for Gathered<P> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<P: Protocol> Gathered<P> {
    /// The node starts a snapshot.
    pub fn expect(&mut self, sid: Sid) {
        let nothing = Gathering { shares: BTreeMap::new(), late: BTreeMap::new(), missing: 0 };
        self.0.insert(sid, nothing);
    }

    /// A part or a message is reported. Returns the whole if it is complete by that.
    pub fn add(&mut self, report: Report<P>, n: u32, complete: Complete) -> Option<GlobalState<P>> {
        let Report { sid, of, what } = report;
        let it = self.0.get_mut(&sid)?;
        match what {
            What::Part(share, count) => {
                if it.shares.insert(of, share).is_none() {
                    it.missing += count;
                }
            }
            What::Late(from, msg) => {
                it.late.entry(of).or_default().entry(from).or_default().push(msg);
                it.missing -= 1;
            }
            What::Heard => return None,
        }
        let all = it.shares.len() == n as usize;
        let is_complete = match complete {
            Complete::Counted => all && it.missing == 0,
            Complete::Unawaited => all,
            Complete::Hasty => it.missing == 0,
        };
        if !is_complete {
            return None;
        }
        let Gathering { mut shares, late, .. } = self.0.remove(&sid)?;
        for (to, channels) in late {
            if let Some(share) = shares.get_mut(&to) {
                share.channels = channels;
            }
        }
        Some(GlobalState { sid, shares })
    }
}

/// The next node on a shortest way to another: that one itself if there is a link.
pub fn toward<W: Protocol>(to: NodeId, ctx: &Ctx<W>) -> Option<NodeId> {
    if ctx.topology.linked(ctx.me, to) {
        return Some(to);
    }
    let far = |next: &NodeId| ctx.topology.distances(*next)[to.index()];
    ctx.neighbors().min_by_key(far)
}
