//! A node of the service: the lock manager behind a durable, replicated log.
//!
//! [`Node`] is the way in. A command is given the time, written to the log, and carried out when it is
//! on disk on a majority of the members; the answer is given only then. One member is a cluster of one:
//! the same code, with nobody to wait for.
//!
//! * `log` keeps the log in files, by way of the crate `raft-log`.
//! * `state` carries out what is committed, and writes snapshots.
//! * `clock` tells the time that commands get.
//! * `node` starts it all.

mod clock;
mod log;
mod network;
mod node;
mod state;

use conclave_machine::{Command, Error, Reply, Time};
use serde::{Deserialize, Serialize};

pub use node::{Node, NodeError, Options};

openraft::declare_raft_types!(
    /// What the log is made of.
    pub(crate) Types:
        D = Stamped,
        R = Answer,
);

/// A command, and the time at which it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamped {
    at: Time,
    command: Command,
}

impl std::fmt::Display for Stamped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} at {:?}", self.command, self.at)
    }
}

/// What the machine answered; nothing to entries that are no commands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answer(Option<Result<Reply, Error>>);

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0)
    }
}
