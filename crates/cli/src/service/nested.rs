//! Commands under a lock that run `conclave lock` or `conclave elect` themselves.
//!
//! The outer process has the session. Nested ones ask it over a socket, so that what they wait for and what the outer
//! one holds belong to one thread of control, and the node finds a deadlock by way of both. The key of the session
//! never leaves the outer process.
//!
//! A nested process opens two connections. The first is its own: what it asks, what it is told, and until when the
//! lease lasts. The second is its guard's. What was granted is given back when it is asked to be, or when both
//! connections are closed: so it is held for as long as anything of the nested command may run, whichever of the two
//! processes is killed.
//!
//! When the outer command has to end, the nested ones have to, for good. What a nested one holds is then given back as
//! soon as the nested process or its guard says that its command is dead, or the lease that it was told of has ended.

mod join;
mod serve;

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use conclave_client::Want;
use serde::{Deserialize, Serialize};

pub(crate) use join::Nested;
pub(crate) use serve::Nest;

/// Where a nested command finds the outer process, and which command it is nested in.
const PLACE: &str = "CONCLAVE_NEST";

/// What a nested process says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Request {
    /// It is there, within this branch, and would use such a node.
    Hello {
        parent: u64,
        node: u64,
    },
    /// This is the guard of that branch.
    Guard {
        branch: u64,
    },
    Acquire {
        wants: Vec<WantedLock>,
        timeout_ms: Option<u64>,
        reentrant: bool,
    },
    Campaign(Candidate),
    /// Gives back what it was granted: its command has ended.
    Release,
    /// The guard says after [`Message::Kill`]: nothing of its command runs any more.
    Dead,
}

/// A lock, and how it is wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WantedLock {
    pub(crate) lock: String,
    pub(crate) shared: bool,
    pub(crate) permits: Option<(u32, u32)>,
}

/// What a candidate offers and wants.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Candidate {
    pub(crate) election: String,
    pub(crate) rank: i64,
    pub(crate) preempt: bool,
    pub(crate) grace_ms: u64,
    pub(crate) value: String,
    pub(crate) timeout_ms: Option<u64>,
}

/// What the outer process says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Message {
    /// It is one of this session, which lasts until then by the clock of the machine.
    Welcome {
        branch: u64,
        session: u64,
        ttl_ms: u64,
        until: u64,
    },
    /// The session is another node's.
    Stranger,
    Until(u64),
    Waiting,
    Granted {
        token: u64,
        epochs: Vec<u64>,
    },
    Elected {
        term: u64,
    },
    Failed {
        code: String,
        message: String,
        /// After how many milliseconds it may be tried again, if that is known.
        retry_ms: Option<u64>,
    },
    Released,
    /// What was granted is lost.
    Lost(String),
    /// It is to be given back within so many milliseconds.
    Yield(u64),
    /// All is over for good: what runs has to end at once, and nothing is granted any more. Only
    /// [`Request::Release`] is still heard.
    Kill,
}

impl From<WantedLock> for Want {
    fn from(wanted: WantedLock) -> Self {
        let WantedLock { lock, shared, permits } = wanted;
        match permits {
            Some((take, of)) => Self::permits(lock, take, of),
            None if shared => Self::shared(lock),
            None => Self::exclusive(lock),
        }
    }
}

/// What a guard says on its connection when its command was killed and nothing of it runs any more.
pub(super) fn dead() -> String {
    line(&Request::Dead)
}

/// By which a nested process knows that what it asked for cannot be had any more, for the outer one has to end.
pub(crate) const OUTER_LOST: &str = "outer-lost";

/// Why what is nested has to end.
const KILLED: &str = "the command that it is nested in has lost its own lock, or was told to end";

fn line(message: &impl Serialize) -> String {
    let mut line = serde_json::to_string(message).expect("it has text for keys");
    line.push('\n');
    line
}

/// Connects to a process of the same user that listens under this name.
fn connect(name: &str) -> std::io::Result<UnixStream> {
    UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
