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
