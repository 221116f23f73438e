use std::fmt;

use conclave_protocol::{NodeId, Time};
use serde::{Deserialize, Serialize};

/// What goes wrong, or is done to the system from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Faults {
    /// At given moments.
    pub plan: Vec<Happening>,
    /// Of a million messages, so many are lost.
    pub loss: u32,
    /// Of a million messages, so many arrive twice.
    pub duplication: u32,
    /// Each node's clock runs fast or slow by up to so many parts in a million.
    pub skew: u32,
}

impl Faults {
    /// Nothing goes wrong.
    pub fn none() -> Self {
        Self::default()
    }

    /// The same with `action` at `at`.
    #[must_use]
    pub fn with(mut self, at: Time, action: Action) -> Self {
        self.plan.push(Happening { at, action });
        self
    }

    /// Whether, by the plan, `node` has crashed and not recovered at the moment `at`.
    pub fn is_down(&self, node: NodeId, at: Time) -> bool {
        let mut latest: Option<(Time, bool)> = None;
        for happening in self.plan.iter().filter(|happening| happening.at <= at) {
            let down = match happening.action {
                Action::Crash(crashed) if crashed == node => true,
                Action::Recover(back) | Action::RecoverEmpty(back) if back == node => false,
                _ => continue,
            };
            if latest.is_none_or(|(when, _)| when <= happening.at) {
                latest = Some((happening.at, down));
            }
        }
        latest.is_some_and(|(_, down)| down)
    }

    /// Whether, by the plan, a pause of `node` that begins at `at` comes to an end.
    pub fn ends_pause(&self, node: NodeId, at: Time) -> bool {
        self.plan.iter().any(|happening| {
            happening.at >= at
                && matches!(happening.action,
                    Action::Resume(it) | Action::Crash(it) | Action::Reset(it) if it == node)
        })
    }
}

/// One thing that happens at a given moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Happening {
    /// When.
    pub at: Time,
    /// What.
    pub action: Action,
}

/// What can be done to a system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// A node stops.
    Crash(NodeId),
    /// A stopped node boots with what it had saved.
    Recover(NodeId),
    /// A stopped node boots having forgotten everything.
    RecoverEmpty(NodeId),
    /// A running node forgets everything and goes on: a crash and an empty recovery at once.
    Reset(NodeId),
    /// A node does nothing for a while; what is meant for it waits.
    Pause(NodeId),
    /// A paused node goes on.
    Resume(NodeId),
    /// The network falls apart: nodes of different groups do not hear each other. A node that is
    /// in no group is alone.
    Partition(Vec<Vec<NodeId>>),
    /// The network is whole again.
    Heal,
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
    /// The next message with this label, from whomever, is lost.
    Lose {
        /// The name of the message, such as `Token`.
        label: String,
    },
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
    /// The node whose event it is, for what a node is told and not done to it.
    pub(crate) fn told(&self) -> Option<NodeId> {
        match self {
            Self::Suspect { node, .. } | Self::Trust { node, .. } | Self::Join { node, .. } => {
                Some(*node)
            }
            Self::Leave(node) => Some(*node),
            _ => None,
        }
    }

    /// Every node the action names.
    pub fn nodes(&self) -> Vec<NodeId> {
        match self {
            Self::Crash(node)
            | Self::Recover(node)
            | Self::RecoverEmpty(node)
            | Self::Reset(node)
            | Self::Pause(node)
            | Self::Resume(node)
            | Self::Leave(node) => vec![*node],
            Self::Partition(groups) => groups.concat(),
            Self::Suspect { node, peer } | Self::Trust { node, peer } => vec![*node, *peer],
            Self::Join { node, sponsor } => vec![*node, *sponsor],
            Self::Heal | Self::Lose { .. } => Vec::new(),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crash(node) => write!(f, "{node} crashes"),
            Self::Recover(node) => write!(f, "{node} recovers"),
            Self::RecoverEmpty(node) => write!(f, "{node} recovers having forgotten everything"),
            Self::Reset(node) => write!(f, "{node} forgets everything"),
            Self::Pause(node) => write!(f, "{node} pauses"),
            Self::Resume(node) => write!(f, "{node} goes on"),
            Self::Partition(_) => f.write_str("the network falls apart"),
            Self::Heal => f.write_str("the network is whole again"),
            Self::Suspect { node, peer } => write!(f, "{node} suspects {peer}"),
            Self::Trust { node, peer } => write!(f, "{node} trusts {peer}"),
            Self::Lose { label } => write!(f, "a {label} is lost"),
            Self::Join { node, sponsor } => write!(f, "{node} joins through {sponsor}"),
            Self::Leave(node) => write!(f, "{node} leaves the group"),
        }
    }
}
