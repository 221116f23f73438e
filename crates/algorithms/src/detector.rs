//! Failure detection: every node forms an opinion on which of the others have crashed.
//!
//! A detector is a wrapper around the protocol that wants to know: it sends its own messages beside
//! those of the protocol inside, and reports by calling the rules for suspicion and trust.
//! [`Watch`](watch::Watch) is a protocol that only passes the opinion on, which makes a detector
//! of the catalogue.

pub mod heartbeat;
pub mod timeout_sync;
pub mod watch;

use conclave_protocol::{Mark, Marked, Never, NodeId, NodeSet, Protocol};
use serde::{Deserialize, Serialize};

/// What a node tells its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Notice {
    /// This peer is taken for dead from now on.
    Suspects(NodeId),
    /// This peer is no longer taken for dead.
    Trusts(NodeId),
}

impl Marked for Notice {
    fn mark(&self) -> Mark {
        match *self {
            Self::Suspects(peer) => Mark::Suspects(peer),
            Self::Trusts(peer) => Mark::Trusts(peer),
        }
    }
}

/// A detector that can be run by itself: it is asked nothing and tells what it thinks.
pub trait Algorithm: Protocol<Request = Never, Notice = Notice> {}

impl<P: Protocol<Request = Never, Notice = Notice>> Algorithm for P {}

/// An application that keeps the list of the suspected.
#[derive(Clone, Default, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Client {
    /// Whom its node suspects.
    pub suspects: NodeSet,
}

impl<P: Algorithm> conclave_protocol::Client<P> for Client {
    fn requests(&self) -> impl IntoIterator<Item = Never> {
        None
    }

    fn on_request(&mut self, request: &Never) {
        match *request {}
    }

    fn on_notice(&mut self, notice: &Notice) {
        match *notice {
            Notice::Suspects(peer) => self.suspects.insert(peer),
            Notice::Trusts(peer) => self.suspects.remove(peer),
        };
    }
}
