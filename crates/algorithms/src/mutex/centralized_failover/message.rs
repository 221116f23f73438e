//! What nodes send each other, and the timers.

use serde::{Deserialize, Serialize};

/// What nodes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg<M> {
    /// I want to enter.
    Request {
        /// The epoch of the coordinator it is meant for.
        epoch: u64,
        /// The number of the request.
        request: u64,
    },
    /// Enter.
    Grant {
        /// The number of the request.
        request: u64,
        /// The fencing token.
        token: u64,
    },
    /// I have left what was granted with this token.
    Release(u64),
    /// I am still inside, with this token.
    Renew(u64),
    /// You may stay, with this token.
    Renewed(u64),
    /// Are you there? I still want to enter.
    Probe {
        /// The epoch of the coordinator it is meant for.
        epoch: u64,
        /// The number of the request.
        request: u64,
    },
    /// I am, and have heard.
    Alive,
    /// I coordinate now, in this epoch.
    NewCoord(u64),
    /// This is how things stand here.
    Status {
        /// The epoch of the coordinator it is meant for.
        epoch: u64,
        /// The number of the latest request.
        request: u64,
        /// Whether it is waiting.
        wants: bool,
        /// The fencing token, if it is inside.
        held: Option<u64>,
    },
    /// A message of the election.
    App(M),
}

/// The timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer<T> {
    /// Waiting: time to ask whether the coordinator lives.
    Probe,
    /// The coordinator should have answered by now.
    Silence,
    /// Inside: time to renew the lease.
    Renew,
    /// Inside: the lease is over.
    Expire,
    /// Coordinator: the holder's lease is over.
    Lease,
    /// Coordinator: every live node has said how things stand.
    Answers,
    /// Coordinator: every lease of an earlier epoch is over.
    Lapse,
    /// A timer of the election.
    App(T),
}
