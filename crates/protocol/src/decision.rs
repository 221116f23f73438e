use serde::{Deserialize, Serialize};

use crate::{NodeId, Time};

/// What the surroundings of the nodes decide next: the part of a run that algorithms leave open.
///
/// The rules being pure, a list of decisions determines a run. The model checker writes such lists
/// and the simulator follows them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Decision {
    /// What happens.
    pub what: What,
    /// What [`Ctx::choose`](crate::Ctx::choose) answers in the step, in order; 0 from there on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<u32>,
    /// What the clock of the node shows.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub clock: Time,
    /// The node crashes in the middle of the step: so many of its messages have left, and nothing
    /// that it asks for after the last of these happens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crash_after: Option<u32>,
}

/// What can happen. Several messages of one link are told apart by their place: how many of those
/// on their way were sent before.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// The application makes one of the requests that it may make, by its place among these.
    Ask {
        /// Where.
        node: NodeId,
        /// Which.
        request: u32,
    },
    /// A message arrives; if the receiver is down or the network apart, it is lost.
    Deliver {
        /// The sender.
        from: NodeId,
        /// The receiver.
        to: NodeId,
        /// Which of those on their way.
        place: u32,
    },
    /// The network loses a message.
    Lose {
        /// The sender.
        from: NodeId,
        /// The receiver.
        to: NodeId,
        /// Which of those on their way.
        place: u32,
    },
    /// The network repeats a message: right behind it there is another like it.
    Repeat {
        /// The sender.
        from: NodeId,
        /// The receiver.
        to: NodeId,
        /// Which of those on their way.
        place: u32,
    },
    /// A timer runs out.
    Timer {
        /// Where.
        node: NodeId,
        /// Which, as its type prints it for debugging.
        timer: String,
    },
    /// A node stops.
    Crash(NodeId),
    /// A stopped node boots with what it had saved.
    Recover(NodeId),
    /// A stopped node boots having forgotten everything.
    RecoverEmpty(NodeId),
    /// A node's failure detector suspects a peer, rightly or not.
    Suspect {
        /// Who suspects.
        node: NodeId,
        /// Whom.
        peer: NodeId,
    },
    /// A node's failure detector trusts a peer again.
    Trust {
        /// Who trusts.
        node: NodeId,
        /// Whom.
        peer: NodeId,
    },
    /// The network falls apart into groups.
    Partition(Vec<Vec<NodeId>>),
    /// The network is whole again.
    Heal,
    /// A node asks to become a member.
    Join {
        /// The newcomer.
        node: NodeId,
        /// The member it asks.
        sponsor: NodeId,
    },
    /// A node asks to leave the group.
    Leave(NodeId),
}

impl From<What> for Decision {
    fn from(what: What) -> Self {
        Self { what, choices: Vec::new(), clock: Time::ZERO, crash_after: None }
    }
}

fn is_zero(time: &Time) -> bool {
    *time == Time::ZERO
}
