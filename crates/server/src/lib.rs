//! A node of the service: the lock manager behind a durable, replicated log.
//!
//! [`Node`] is the way in. A command is given the time, written to the log, and carried out when it is
//! on disk on a majority of the members; the answer is given only then. One member is a cluster of one:
//! the same code, with no other to wait for.
//!
//! [`Server`] lets clients in.
//!
//! * `directory` opens the data directory, and `format` is the format of its files; `migrate` converts directories of version
//!   0.1, `backup` makes new ones from backups.
//! * `log` keeps the log in files, by way of the crate `conclave-journal`.
//! * `proposer` gathers commands into entries of the log.
//! * `state` applies what is committed; `snapshots` decides when the state is written down; `dispatch` sends answers and
//!   events to the queue of each client (`client_queue`), and `operator_log` writes what concerns operators.
//! * `clock` is the source of log time; `ticker` lets it pass, `disk_watch` watches the free space.
//! * `node` starts all that; `idle_spinner` keeps its processor from halting, if told so.
//! * `service` is what clients may ask, in the machine's words (`answer`); `sizes` bounds their texts, `auth` and `tokens`
//!   know their rights, `keys` digests the keys of sessions.
//! * Front ends encode those words at the edge: `stream` is a client's stream of `conclave.v1`, over `grpc` or on an
//!   `upgrade`d connection, `http` is HTTP with JSON; they share `codec`. `serve` puts them together, behind the socket of
//!   `listen`, with `tls` if told so; `admission` bounds the connections, `idle` closes those without requests;
//!   `metrics` and `process_metrics` count, and `exposition` writes the figures.

mod admission;
mod answer;
mod auth;
mod backup;
mod calendar;
mod client_queue;
mod clock;
mod codec;
mod directory;
mod disk_watch;
mod dispatch;
mod exposition;
mod format;
mod grpc;
mod http;
mod idle;
mod idle_spinner;
mod keys;
mod listen;
mod log;
mod metrics;
mod migrate;
mod network;
mod node;
mod operator_log;
mod process_metrics;
mod proposer;
mod serve;
mod service;
mod sizes;
mod snapshots;
mod state;
mod stream;
mod ticker;
mod tls;
mod tokens;
mod upgrade;

use conclave_machine::{Command, Time};
use serde::{Deserialize, Serialize};

pub use admission::raise_descriptor_limit;
pub use backup::{Backup, Restored, read_backup, restore};
pub use clock::{ManualTime, TimeSource};
pub use idle_spinner::{is_rationed, run_idle_spinner};
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
    /// Which node: it answers the clients that sent them.
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

/// A random number that cannot be guessed.
pub(crate) fn random() -> u64 {
    getrandom::u64().expect("the system has random numbers")
}
