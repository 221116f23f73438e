//! Mutual exclusion: at most one node is in the critical section, and every request is granted.

pub mod bakery;
pub mod bakery_message_passing;
pub mod centralized;
pub mod centralized_failover;
pub mod dijkstra_1965;
pub mod dijkstra_self_stabilizing_ring;
pub mod lamport;
pub mod lin_sigma;
pub mod maekawa;
pub mod maekawa_sanders;
pub mod majority_permission;
pub mod naimi_trehel;
pub mod physical_clock_order;
pub mod raymond_k;
pub mod raymond_tree;
pub mod replicated_coordinator;
pub mod ricart_agrawala;
pub mod ricart_agrawala_membership;
pub mod ricart_agrawala_queued;
pub mod ricart_agrawala_token;
pub mod roucairol_carvalho;
pub mod support;
pub mod suzuki_kasami;
pub mod token_ring;
pub mod token_ring_ft;
pub mod token_ring_handler;
pub mod token_ring_loss_probe;
pub mod token_ring_misra;
pub mod token_ring_on_demand;
pub mod tree_token_fair;

use conclave_protocol::Property::{
    self, Exclusion, FcfsHappenedBefore, FcfsTimestamp, FenceOrder, NoDeadlock, NoStarvation,
};
use conclave_protocol::{HeardBy, NodeId, Observable, Observation, Opt, Protocol, Setup, Unfit};
use serde::{Deserialize, Serialize};

pub use self::centralized_failover::Coordinator;

/// What most algorithms promise.
pub const LOCK: &[Property] = &[Exclusion, NoDeadlock, NoStarvation, FenceOrder];
/// And those that grant in the order of timestamps.
pub const STAMPED: &[Property] = &[Exclusion, NoDeadlock, NoStarvation, FcfsTimestamp, FenceOrder];
/// And those that keep the order of cause and effect, too.
pub const ORDERED: &[Property] =
    &[Exclusion, NoDeadlock, NoStarvation, FcfsHappenedBefore, FcfsTimestamp, FenceOrder];
/// Order of cause and effect without timestamps as tokens.
pub const CAUSAL: &[Property] =
    &[Exclusion, NoDeadlock, NoStarvation, FcfsHappenedBefore, FenceOrder];
/// What is left where a request may starve.
pub const FREE: &[Property] = &[Exclusion, NoDeadlock, FenceOrder];
/// What is left where nothing may ever be granted.
pub const SAFE: &[Property] = &[Exclusion, FenceOrder];

/// What an application asks of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Request {
    /// To enter the critical section. Asked only outside it, and not twice.
    Acquire,
    /// To leave it. Asked only inside it.
    Release,
}

/// What a node tells its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Notice {
    /// The critical section is this node's until it releases it.
    Acquired {
        /// The fencing token: greater than that of every earlier grant.
        token: u64,
    },
    /// The critical section is this node's no longer: the application must stop at once.
    Revoked,
    /// This node has not answered in time. For information: nothing depends on it.
    Suspects(NodeId),
    /// A suspected node has answered after all.
    Trusts(NodeId),
}

impl Observable for Request {
    fn observation(&self) -> Observation {
        match self {
            Self::Acquire => Observation::Asked,
            Self::Release => Observation::Left,
        }
    }
}

impl HeardBy for Notice {
    type Client = Client;
}

impl Observable for Notice {
    fn observation(&self) -> Observation {
        match *self {
            Self::Acquired { token } => Observation::Entered { token },
            Self::Revoked => Observation::Lost,
            Self::Suspects(peer) => Observation::Suspects(peer),
            Self::Trusts(peer) => Observation::Trusts(peer),
        }
    }
}

/// A mutual exclusion algorithm: any protocol with this family's requests and notices.
pub trait Algorithm: Protocol<Request = Request, Notice = Notice> {}

impl<P: Protocol<Request = Request, Notice = Notice>> Algorithm for P {}

/// An application that enters and leaves the critical section for ever.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Client {
    /// It is outside the critical section and does not wait for it.
    #[default]
    Outside,
    /// It has requested the critical section and is not inside yet.
    Waiting,
    /// It is in the critical section.
    Inside,
}

impl<P: Algorithm> conclave_protocol::Client<P> for Client {
    fn requests(&self) -> impl IntoIterator<Item = Request> {
        match self {
            Self::Outside => Some(Request::Acquire),
            Self::Waiting => None,
            Self::Inside => Some(Request::Release),
        }
    }

    fn on_request(&mut self, request: &Request) {
        *self = match request {
            Request::Acquire => Self::Waiting,
            Request::Release => Self::Outside,
        };
    }

    fn on_notice(&mut self, notice: &Notice) {
        *self = match notice {
            Notice::Acquired { .. } => Self::Inside,
            Notice::Revoked => Self::Outside,
            Notice::Suspects(_) | Notice::Trusts(_) => *self,
        };
    }
}

/// Safety: no more than `places` nodes are in the critical section.
pub fn exclusive(clients: &[Client], places: usize) -> bool {
    clients.iter().filter(|&&client| client == Client::Inside).count() <= places
}

/// Claims about what happens in the end, whatever may go wrong.
pub(crate) const LIVE: &[Property] = &[NoDeadlock, NoStarvation];
/// Claims: fencing tokens all alike, so that a run may come back to where it was.
pub(crate) const ALIKE: &[(&str, &str)] = &[("wrap", "1")];
/// Claims: why the order of timestamps is not checked where tokens are something else.
pub(crate) const NO_STAMPS: &str =
    "its tokens are no timestamps, and a checker sees nothing else of a request";

/// Token algorithms: the node that has the token at first.
pub(crate) const HOLDER: Opt =
    Opt { name: "holder", default: "0", help: "the node that has the token at first" };

pub(crate) fn holder(setup: &Setup) -> Result<NodeId, Unfit> {
    node_option(setup, "holder", 0)
}

/// An option that names a node.
pub(crate) fn node_option(setup: &Setup, name: &str, default: u32) -> Result<NodeId, Unfit> {
    let node: u32 = setup.option(name, default)?;
    if node < setup.n() {
        return Ok(NodeId(node));
    }
    let last = setup.n() - 1;
    Err(Unfit::new(format!("{name}={node}, but there are only nodes 0 to {last}")))
}
