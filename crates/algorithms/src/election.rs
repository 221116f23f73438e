//! Leader election: every live node comes to follow the same live node.

pub mod bully;
pub mod chang_roberts;
pub mod frederickson_lynch;
pub mod le_lann;
pub mod quorum_epoch;
pub mod ring_inquiry;
pub mod ring_list;
pub mod ring_modified;
pub mod ring_reconfiguration;
pub mod ring_watchdog;
pub mod superpeer_dht;
pub mod superpeer_tokens;
pub mod support;
pub mod tree_mattern;
pub mod wireless_tree;

use conclave_protocol::{HeardBy, NodeId, Observable, Observation, Property, Protocol, Stamp};
use serde::{Deserialize, Serialize};

/// What an application asks of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Request {
    /// To call an election. Asked at any time, a call during an election adds nothing.
    Campaign,
}

/// What a node tells its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Notice {
    /// From now on this node takes `leader` for the leader.
    Elected {
        /// Who leads; perhaps the node itself.
        leader: NodeId,
        /// The term: a counter and the winner's id, as the [token](Stamp::token) of that stamp.
        epoch: u64,
    },
    /// From now on this node takes no node for the leader.
    Deposed,
}

impl Observable for Request {
    fn observation(&self) -> Observation {
        match self {
            Self::Campaign => Observation::Called,
        }
    }
}

impl HeardBy for Notice {
    type Client = Client;
}

impl Observable for Notice {
    fn observation(&self) -> Observation {
        match *self {
            Self::Elected { leader, epoch } => {
                Observation::Follows { leader, epoch: Stamp::of_token(epoch).time }
            }
            Self::Deposed => Observation::Unled,
        }
    }
}

/// A single leader, known and the best.
pub const LEADER: &[Property] = &[Property::OneLeader, Property::LeaderKnown, Property::BestLeads];
/// And never two leaders in an epoch.
pub const LEADERS: &[Property] =
    &[Property::OneLeader, Property::OneLeaderPerEpoch, Property::LeaderKnown, Property::BestLeads];

/// What superpeers do not promise.
const SEVERAL: &[(Property, &str)] = &[
    (Property::OneLeader, "several serve at once, on purpose"),
    (Property::OneLeaderPerEpoch, "several serve at once, each in a term of its own"),
    (Property::BestLeads, "who serves depends on where it is, not on how good it is"),
];

/// An election algorithm: any protocol with this family's requests and notices.
pub trait Algorithm: Protocol<Request = Request, Notice = Notice> {}

impl<P: Protocol<Request = Request, Notice = Notice>> Algorithm for P {}

/// An application that knows whom it follows, and may call an election at any time.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Client {
    /// Whom it follows, and in which term.
    pub follows: Option<(NodeId, u64)>,
}

impl<P: Algorithm> conclave_protocol::Client<P> for Client {
    fn requests(&self) -> impl IntoIterator<Item = Request> {
        Some(Request::Campaign)
    }

    fn on_request(&mut self, _: &Request) {}

    fn on_notice(&mut self, notice: &Notice) {
        self.follows = match *notice {
            Notice::Elected { leader, epoch } => Some((leader, epoch)),
            Notice::Deposed => None,
        };
    }
}

/// Safety at rest: no two nodes follow different leaders.
pub fn agreed(clients: &[Client]) -> bool {
    let mut leaders = clients.iter().filter_map(|client| client.follows).map(|(leader, _)| leader);
    let first = leaders.next();
    leaders.all(|leader| Some(leader) == first)
}
