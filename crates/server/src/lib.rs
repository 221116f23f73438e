//! A node of the service: the lock manager behind a durable, replicated log.
//!
//! [`Node`] is the way in. A command is given the time, written to the log, and carried out when it is
//! on disk on a majority of the members; the answer is given only then. One member is a cluster of one:
//! the same code, with nobody to wait for.
//!
//! [`Server`] lets clients in.
//!
//! * `directory` opens what is on disk, `format` says what that looks like; `migrate` brings directories of version 0.1 up to date,
//!   `backup` makes new ones from copies.
//! * `log` keeps the log in files, by way of the crate `conclave-journal`.
//! * `proposer` gathers commands into entries of the log.
//! * `state` carries out what is committed; `snapshots` knows when the whole is written down; `hub` tells those concerned,
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
mod backup;
mod calendar;
mod clock;
mod directory;
mod exposition;
mod format;
mod grpc;
mod heart;
mod http;
mod hub;
mod idle;
mod keys;
mod listen;
mod log;
mod metrics;
mod migrate;
mod network;
mod node;
mod operator_log;
mod outbound;
mod plain;
mod process_metrics;
mod proposer;
mod serve;
mod service;
mod snapshots;
mod state;
mod talk;
mod tls;
mod tokens;
mod translate;

use conclave_machine::{Command, Time};
use serde::{Deserialize, Serialize};

pub use admission::raise_descriptor_limit;
pub use awake::{is_rationed, keep_awake};
pub use backup::{Backup, Restored, read_backup, restore};
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
        Node = Member,
);

/// Commands that were written together, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Batch {
    at: Time,
    /// The time of day, by which only people go; zero in entries of before there was this.
    day: calendar::TimeOfDay,
    parts: Vec<Part>,
}

/// Those of them that came in at one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// Which node: it tells those who asked what came of it.
    origin: u64,
    /// By which that node knows it again.
    number: u64,
    commands: Vec<Command>,
    /// Which of the commands are orders of operators, and by what name these are known.
    operators: Vec<(u32, String)>,
}

/// A member of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    /// What people call it.
    name: String,
    /// Where other members reach it.
    peer: String,
    /// Where clients reach it.
    clients: String,
    /// The highest level that it knows.
    level: u32,
}

impl std::fmt::Display for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let commands: usize = self.parts.iter().map(|part| part.commands.len()).sum();
        write!(f, "{commands} commands at {:?}", self.at)
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
