//! What the nodes of a ring with lists send each other.

use conclave_protocol::{NodeId, Rank, Stamp};
use serde::{Deserialize, Serialize};

use super::View;

/// What nodes send each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// Who is there?
    Election {
        /// Whose election it is.
        origin: NodeId,
        /// The highest counter on the way so far.
        epoch: u64,
        /// The best of the list.
        best: Rank,
        /// Those who were there, in the order of the ring.
        ids: Vec<NodeId>,
    },
    /// This node leads.
    Coordinator {
        /// Who announces it.
        origin: NodeId,
        /// The term: its counter and the leader.
        epoch: Stamp,
        /// Who has heard of it, in the order of the ring.
        ids: Vec<NodeId>,
    },
    /// Who leads?
    Inquiry {
        /// Who wants to know.
        origin: NodeId,
        /// The highest counter on the way so far.
        epoch: u64,
        /// Those who were there, and whom they follow.
        answers: Vec<(NodeId, Option<Stamp>)>,
        /// Who belongs to the ring.
        view: View,
    },
    /// I want to be on the ring.
    Join(NodeId),
    /// Who belongs to the ring.
    View(View),
    /// It has arrived.
    Ack(Tag),
}

/// What an acknowledgement is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Tag {
    /// This node's election.
    Election(NodeId),
    /// This node's announcement.
    Coordinator(NodeId),
    /// This node's question.
    Inquiry(NodeId),
    /// A view of the ring.
    View,
}

impl Msg {
    /// What its acknowledgement names; joining and acknowledgements have none.
    pub(super) fn tag(&self) -> Option<Tag> {
        match *self {
            Self::Election { origin, .. } => Some(Tag::Election(origin)),
            Self::Coordinator { origin, .. } => Some(Tag::Coordinator(origin)),
            Self::Inquiry { origin, .. } => Some(Tag::Inquiry(origin)),
            Self::View(_) => Some(Tag::View),
            Self::Join(_) | Self::Ack(_) => None,
        }
    }
}
