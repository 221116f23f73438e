//! A node of the service: the lock manager behind a durable, replicated log.
//!
//! [`Node`] is the way in. A command is given the time, written to the log, and carried out when it is
//! on disk on a majority of the members; the answer is given only then. One member is a cluster of one:
//! the same code, with nobody to wait for.
//!
//! [`Server`] lets clients in.
//!
//! * `log` keeps the log in files, by way of the crate `conclave-journal`.
//! * `proposer` gathers commands into entries of the log.
//! * `state` carries out what is committed, and writes snapshots; `hub` tells those concerned,
//!   and `operator_log` operators.
//! * `clock` tells the time that commands get; `heart` lets it pass.
//! * `node` starts all that.
//! * `service` answers whatever clients may ask, `access` and `tokens` know who may, `keys` hides what lets a client
//!   act for a session, `translate` stands between their
//!   language and the machine's.
//! * `talk` is one client's stream, over `grpc`, which has the methods, or `plain`; `http` is the same for curl; `serve`
//!   puts them together, behind the socket of `listen`, with `tls` if told so; `admission` bounds how many
//!   there are, and `idle` closes those on which nothing is asked; `metrics` and `process_metrics` are what is counted,
//!   and `exposition` how it is written.

mod access;
mod admission;
mod awake;
mod clock;
mod exposition;
mod grpc;
mod heart;
mod http;
mod hub;
mod idle;
mod keys;
mod listen;
mod log;
mod metrics;
mod network;
mod node;
mod operator_log;
mod outbound;
mod plain;
mod process_metrics;
mod proposer;
mod serve;
mod service;
mod state;
mod talk;
mod tls;
mod tokens;
mod translate;

use conclave_machine::{Command, Time};
use serde::{Deserialize, Serialize};

pub use admission::raise_descriptor_limit;
pub use awake::keep_awake;
pub use clock::{ManualTime, TimeSource};
pub use node::{Node, NodeError, Options};
pub use process_metrics::DROPPED_LOG_LINES;
pub use serve::{ServeError, ServeOptions, Server};
pub use service::Bounds;
pub use tls::Tls;
pub use tokens::{TokenRights, new_token};

openraft::declare_raft_types!(
    /// What the log is made of.
    pub(crate) Types:
        D = Batch,
        R = Carried,
);

/// Commands that were written together, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Batch {
    /// By which whoever wrote it knows it again.
    number: u64,
    at: Time,
    commands: Vec<Command>,
}

impl std::fmt::Display for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} commands at {:?}", self.commands.len(), self.at)
    }
}

/// An entry was carried out. What came of it was told while that was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Carried;

impl std::fmt::Display for Carried {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("carried out")
    }
}

/// A number that nobody can guess.
pub(crate) fn chance() -> u64 {
    getrandom::u64().expect("the system has random numbers")
}
