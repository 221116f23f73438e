//! What the nodes of the fault-tolerant ring send each other, and the list of members in it.

use conclave_protocol::{NodeId, NodeSet};
use serde::{Deserialize, Serialize};

use crate::mutex::token_ring::Serial;

/// What nodes send each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// The right to enter, and the list of members.
    Token {
        /// Its number.
        serial: Serial,
        /// The members.
        view: View,
    },
    /// What became of a token.
    TokenAck {
        /// The number it came under.
        serial: Serial,
        /// Whether it was accepted.
        verdict: Verdict,
    },
    /// Are you answerable for a token? Accept none of an earlier epoch.
    Inquiry {
        /// The new epoch.
        epoch: u64,
    },
    /// The answer, or a greeting to one that comes back.
    InquiryRep {
        /// The epoch asked about; none for a greeting.
        asked: Option<u64>,
        /// The highest epoch promised.
        epoch: u64,
        /// Whether the node is answerable for a token.
        alive: bool,
        /// Whether it is a member.
        member: bool,
        /// The latest list it has.
        view: View,
    },
    /// The sender has been down and is no member any more.
    Recovered,
    /// A node wants in.
    Join {
        /// Which.
        node: NodeId,
    },
    /// You are in.
    Welcome {
        /// Tokens up to this number are worthless.
        serial: Serial,
        /// The members.
        view: View,
    },
}

/// What becomes of a token that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Verdict {
    /// It is accepted.
    Taken,
    /// The node is no member.
    Outsider,
    /// The node has seen, or promised, this number.
    Stale(Serial),
}

/// The members in the order of the ring.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct View {
    /// Greater for each change.
    pub(super) version: u64,
    /// Each with the next as its successor.
    pub(super) members: Vec<NodeId>,
}

impl View {
    /// Takes off the members for which `gone` is true.
    pub(super) fn strike(&mut self, mut gone: impl FnMut(NodeId) -> bool) {
        let before = self.members.len();
        self.members.retain(|&member| !gone(member));
        self.version += (before - self.members.len()) as u64;
    }

    /// Makes `newcomer` the successor of `node`.
    pub(super) fn insert_after(&mut self, node: NodeId, newcomer: NodeId) {
        let place = self.members.iter().position(|&member| member == node).map_or(0, |i| i + 1);
        self.members.insert(place, newcomer);
        self.version += 1;
    }

    /// The first live member after `node` on the ring, which may be `node` itself.
    pub(super) fn next_after(&self, node: NodeId, suspects: &NodeSet) -> Option<NodeId> {
        let place = self.members.iter().position(|&member| member == node).map_or(0, |i| i + 1);
        let (head, tail) = self.members.split_at(place);
        tail.iter().chain(head).copied().find(|&member| !suspects.contains(member))
    }
}
