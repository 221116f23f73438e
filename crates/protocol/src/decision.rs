use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{NodeId, Time};

/// What the surroundings of the nodes decide next: the part of a run that algorithms leave open.
///
/// The rules being pure, a list of decisions determines a run. The model checker writes such lists,
/// the simulator writes down any run as one, and follows them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Decision {
    /// What happens.
    pub what: Action,
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
    /// Which of the messages that the step sends the network loses at once: their numbers, counted
    /// from 0, each copy of a broadcast being one. A message that is lost later is a
    /// [`Action::Lose`] of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<u32>,
    /// When it happens, in virtual time; one `T` after the decision before it if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// Of a request: when it came to the application, if that was earlier because another one had
    /// to be finished first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Time>,
}

/// What can happen. Several messages of one link are told apart by their place: how many of those
/// on their way were sent before.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// How a node boots at the beginning of the run, as all nodes do: needed where a rule chooses or
    /// a message is lost then. Such decisions come before all others and take no time.
    Boot(NodeId),
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
    /// A node stops working for a while: nothing happens at it until it goes on or crashes.
    Pause(NodeId),
    /// A paused node goes on.
    Resume(NodeId),
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

impl Action {
    /// The node whose step it is; `None` if it is the network's doing, a pause, a crash or the first
    /// boot.
    pub fn actor(&self) -> Option<NodeId> {
        match self {
            Self::Ask { node, .. }
            | Self::Deliver { to: node, .. }
            | Self::Timer { node, .. }
            | Self::Recover(node)
            | Self::RecoverEmpty(node)
            | Self::Suspect { node, .. }
            | Self::Trust { node, .. }
            | Self::Join { node, .. }
            | Self::Leave(node) => Some(*node),
            Self::Lose { .. }
            | Self::Repeat { .. }
            | Self::Boot(_)
            | Self::Crash(_)
            | Self::Pause(_)
            | Self::Resume(_)
            | Self::Partition(_)
            | Self::Heal => None,
        }
    }

    /// Every node it names.
    pub fn nodes(&self) -> Vec<NodeId> {
        match self {
            Self::Ask { node, .. }
            | Self::Timer { node, .. }
            | Self::Boot(node)
            | Self::Crash(node)
            | Self::Recover(node)
            | Self::RecoverEmpty(node)
            | Self::Pause(node)
            | Self::Resume(node)
            | Self::Leave(node) => vec![*node],
            Self::Deliver { from, to, .. }
            | Self::Lose { from, to, .. }
            | Self::Repeat { from, to, .. } => vec![*from, *to],
            Self::Suspect { node, peer } | Self::Trust { node, peer } => vec![*node, *peer],
            Self::Join { node, sponsor } => vec![*node, *sponsor],
            Self::Partition(groups) => groups.concat(),
            Self::Heal => Vec::new(),
        }
    }
}

impl From<Action> for Decision {
    fn from(what: Action) -> Self {
        Self {
            what,
            choices: Vec::new(),
            clock: Time::ZERO,
            crash_after: None,
            lost: Vec::new(),
            at: None,
            due: None,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ask { node, request } => write!(f, "{node} makes request {request}"),
            Self::Deliver { from, to, place } => write!(f, "{to} gets message {place} from {from}"),
            Self::Lose { from, to, place } => {
                write!(f, "message {place} from {from} to {to} is lost")
            }
            Self::Repeat { from, to, place } => {
                write!(f, "message {place} from {from} to {to} is repeated")
            }
            Self::Timer { node, timer } => write!(f, "timer {timer} of {node} runs out"),
            Self::Boot(node) => write!(f, "{node} boots"),
            Self::Crash(node) => write!(f, "{node} crashes"),
            Self::Recover(node) => write!(f, "{node} recovers"),
            Self::RecoverEmpty(node) => write!(f, "{node} recovers having forgotten everything"),
            Self::Pause(node) => write!(f, "{node} pauses"),
            Self::Resume(node) => write!(f, "{node} goes on"),
            Self::Suspect { node, peer } => write!(f, "{node} suspects {peer}"),
            Self::Trust { node, peer } => write!(f, "{node} trusts {peer}"),
            Self::Partition(_) => f.write_str("the network falls apart"),
            Self::Heal => f.write_str("the network is whole again"),
            Self::Join { node, sponsor } => write!(f, "{node} joins through {sponsor}"),
            Self::Leave(node) => write!(f, "{node} leaves the group"),
        }
    }
}

fn is_zero(time: &Time) -> bool {
    *time == Time::ZERO
}
