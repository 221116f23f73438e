//! What a coordinator keeps, and loses with its office.

use std::collections::VecDeque;

use conclave_protocol::{NodeId, NodeSet};
use serde::{Deserialize, Serialize};

/// What a coordinator knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Office {
    pub(super) stage: Stage,
    pub(super) holder: Option<Holder>,
    pub(super) queue: VecDeque<(NodeId, u64)>,
    /// How many grants it has given.
    pub(super) grants: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Stage {
    Rebuilding {
        /// The nodes that have yet to say what they hold.
        missing: NodeSet,
        /// No lease of an earlier epoch can be running.
        lapsed: bool,
    },
    Serving,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Holder {
    pub(super) node: NodeId,
    pub(super) request: u64,
    pub(super) token: u64,
}

impl Office {
    /// A coordinator that knows nothing yet of these nodes.
    pub(super) fn rebuilding(missing: NodeSet, lapsed: bool) -> Self {
        let stage = Stage::Rebuilding { missing, lapsed };
        Self { stage, holder: None, queue: VecDeque::new(), grants: 0 }
    }

    /// Makes the next in the queue the holder, if there is none and one may be made.
    pub(super) fn next_holder(&mut self, epoch: u64) -> Option<Holder> {
        if self.stage != Stage::Serving || self.holder.is_some() {
            return None;
        }
        let (node, request) = self.queue.pop_front()?;
        self.grants += 1;
        self.holder = Some(Holder { node, request, token: token_of(epoch, self.grants) });
        self.holder
    }

    /// A node waits, or is known to.
    pub(super) fn enqueue(&mut self, node: NodeId, request: u64) {
        match self.holder {
            Some(holder) if holder.node == node && holder.request == request => return,
            Some(holder) if holder.node == node && holder.request < request => self.holder = None,
            _ => {}
        }
        // An older request of the same node is one that it has forgotten in a crash.
        self.queue.retain(|&(waiting, known)| waiting != node || known == request);
        if !self.queue.contains(&(node, request)) {
            self.queue.push_back((node, request));
        }
    }
}

/// Bits of a fencing token for the grants of one epoch: sixteen million.
const GRANTS: u32 = 24;

fn token_of(epoch: u64, grant: u64) -> u64 {
    debug_assert!(grant >> GRANTS == 0 && epoch >> (64 - GRANTS) == 0, "a token has no more room");
    epoch << GRANTS | grant
}

/// The epoch in which a token was given.
pub(super) fn epoch_of(token: u64) -> u64 {
    token >> GRANTS
}
