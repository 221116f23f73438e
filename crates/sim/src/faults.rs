use std::fmt;
use std::time::Duration;

use conclave_protocol::{Action, NodeId, Time};
use serde::{Deserialize, Serialize};

use crate::Rng;

/// What goes wrong, or is done to the system from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Faults {
    /// At given moments.
    pub plan: Vec<PlannedFault>,
    /// Of a million messages, so many are lost.
    pub loss: u32,
    /// Of a million messages, so many arrive twice.
    pub duplication: u32,
    /// Each node's clock runs fast or slow by up to so many parts in a million.
    pub skew: u32,
    /// Each node crashes at random, and recovers with what it saved unless it is for good.
    pub crashes: Option<Rate>,
    /// Each node pauses at random; for good if no length is given.
    pub pauses: Option<Rate>,
    /// Each node wrongly suspects another at random, and takes it back unless it is for good.
    pub suspicions: Option<Rate>,
}

/// How often something happens to each node, and for how long; both exponentially distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// The mean time until it happens, from the beginning or from when it last ended.
    pub every: Duration,
    /// How long it lasts on average; for good if not set.
    pub lasting: Option<Duration>,
}

impl Faults {
    /// Nothing goes wrong.
    pub fn none() -> Self {
        Self::default()
    }

    /// What happens at random in a run of `n` nodes until `end`, drawn from `rng`.
    pub(crate) fn draw(&self, n: u32, end: Time, rng: &mut Rng) -> Vec<PlannedFault> {
        let mut drawn = Vec::new();
        for node in (0..n).map(NodeId) {
            let crash = (Fault::Crash(node), Fault::Recover(node));
            let pause = (Fault::Pause(node), Fault::Resume(node));
            let peer = NodeId((node.0 + 1 + rng.below(u64::from(n.max(2)) - 1) as u32) % n);
            let suspicion = (Fault::Suspect { node, peer }, Fault::Trust { node, peer });
            let rates = [(self.crashes, crash), (self.pauses, pause), (self.suspicions, suspicion)];
            for (rate, (begins, ends)) in rates {
                let Some(rate) = rate.filter(|_| n > 1) else { continue };
                let mut span = |mean: Duration| {
                    Duration::from_nanos(rng.exponential(mean.as_nanos() as u64).max(1))
                };
                let mut at = Time::ZERO + span(rate.every);
                while at < end {
                    drawn.push(PlannedFault { at, action: begins.clone() });
                    let Some(lasting) = rate.lasting else { break };
                    at = at + span(lasting);
                    drawn.push(PlannedFault { at, action: ends.clone() });
                    at = at + span(rate.every);
                }
            }
        }
        drawn
    }

    /// The same with `action` at `at`.
    #[must_use]
    pub fn with(mut self, at: Time, action: Fault) -> Self {
        self.plan.push(PlannedFault { at, action });
        self
    }

    /// Whether, by the plan, `node` has crashed and not recovered at the moment `at`.
    pub fn is_down(&self, node: NodeId, at: Time) -> bool {
        let mut latest: Option<(Time, bool)> = None;
        for happening in self.plan.iter().filter(|happening| happening.at <= at) {
            let down = match happening.action {
                Fault::Crash(crashed) if crashed == node => true,
                Fault::Recover(back) | Fault::RecoverEmpty(back) if back == node => false,
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
                    Fault::Resume(it) | Fault::Crash(it) | Fault::Reset(it) if it == node)
        })
    }
}

/// One thing that happens at a given moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedFault {
    /// When.
    pub at: Time,
    /// What.
    pub action: Fault,
}

/// What can be done to a system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
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
    /// The next message with this label is lost, whichever node sends it.
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

impl Fault {
    /// What a decision does to the system; `None` if it is about the first boot, a request, a message
    /// or a timer.
    pub(crate) fn of(what: &Action) -> Option<Self> {
        Some(match *what {
            Action::Crash(node) => Self::Crash(node),
            Action::Recover(node) => Self::Recover(node),
            Action::RecoverEmpty(node) => Self::RecoverEmpty(node),
            Action::Pause(node) => Self::Pause(node),
            Action::Resume(node) => Self::Resume(node),
            Action::Suspect { node, peer } => Self::Suspect { node, peer },
            Action::Trust { node, peer } => Self::Trust { node, peer },
            Action::Partition(ref groups) => Self::Partition(groups.clone()),
            Action::Heal => Self::Heal,
            Action::Join { node, sponsor } => Self::Join { node, sponsor },
            Action::Leave(node) => Self::Leave(node),
            Action::Boot(_)
            | Action::Ask { .. }
            | Action::Deliver { .. }
            | Action::Lose { .. }
            | Action::Repeat { .. }
            | Action::Timer { .. } => return None,
        })
    }

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

impl fmt::Display for Fault {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_at_random_come_as_often_as_said_and_take_turns() {
        let rate = Rate { every: Duration::from_secs(1), lasting: Some(Duration::from_secs(3)) };
        let faults = Faults { crashes: Some(rate), ..Faults::none() };
        let end = Time::ZERO + Duration::from_secs(4_000);
        let drawn = faults.draw(2, end, &mut Rng::new(5));
        assert_eq!(drawn, faults.draw(2, end, &mut Rng::new(5)), "the seed decides");
        for node in [NodeId(0), NodeId(1)] {
            let own: Vec<_> = drawn.iter().filter(|it| it.action.nodes() == [node]).collect();
            // A crash and a recovery every four seconds.
            assert!((1_800..2_200).contains(&own.len()), "{}", own.len());
            for (i, happening) in own.iter().enumerate() {
                let down = matches!(happening.action, Fault::Crash(_));
                assert_eq!(down, i % 2 == 0);
                assert!(i == 0 || own[i - 1].at < happening.at);
            }
        }
        let once = Rate { lasting: None, ..rate };
        let faults = Faults { pauses: Some(once), ..Faults::none() };
        assert_eq!(faults.draw(3, end, &mut Rng::new(5)).len(), 3, "for good means once");
    }
}
