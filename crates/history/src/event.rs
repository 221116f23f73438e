//! The events of a history.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Nanoseconds of `CLOCK_BOOTTIME`.
pub type Time = u64;

/// How a lock is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// By one holder.
    Exclusive,
    /// Together with other shared holders.
    Shared,
    /// Some of a number of permits.
    Permits {
        /// How many.
        take: u32,
        /// Of how many.
        of: u32,
    },
}

/// A lock, and how it is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Want {
    /// The lock's name; elections begin with [`Want::ELECTION`].
    pub lock: String,
    /// How.
    pub mode: Mode,
}

impl Want {
    /// An election is recorded as an exclusive lock with this before its name. Its candidates are ranked, so
    /// their order of arrival is not judged.
    pub const ELECTION: &str = "election:";

    /// A lock that one session holds at a time.
    pub fn exclusive(lock: impl Into<String>) -> Self {
        Self { lock: lock.into(), mode: Mode::Exclusive }
    }

    /// A lock that is shared.
    pub fn shared(lock: impl Into<String>) -> Self {
        Self { lock: lock.into(), mode: Mode::Shared }
    }

    /// Some permits of a number of them.
    pub fn permits(lock: impl Into<String>, take: u32, of: u32) -> Self {
        Self { lock: lock.into(), mode: Mode::Permits { take, of } }
    }

    /// The leadership of an election.
    pub fn election(name: &str) -> Self {
        Self::exclusive(format!("{}{name}", Self::ELECTION))
    }
}

/// Which program asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// `conclave lock`.
    Lock,
    /// `conclave elect`.
    Elect,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// A holder of a lock, or the leader of an election, as a list showed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The session's number.
    pub session: u64,
    /// The session's name.
    pub name: String,
    /// The token or the term.
    pub token: u64,
}

/// A grant that an operator took by force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// The session's number.
    pub session: u64,
    /// The token or the term.
    pub token: u64,
}

/// A session in a queue, as a list showed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiter {
    /// The session's number.
    pub session: u64,
    /// The session's name.
    pub name: String,
}

/// A lock or an election, as a list showed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockView {
    /// The name, as in [`Want::lock`].
    pub lock: String,
    /// Who holds it.
    pub holders: Vec<Held>,
    /// Who waits for it.
    pub waiters: Vec<Waiter>,
}

/// What happened. `at` is when it was recorded; `sent` comes before the first byte, `answered` after the last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The recording began.
    Begin {
        /// When.
        at: Time,
        /// What the faults are drawn from.
        seed: u64,
        /// The command that repeats it.
        command: String,
    },
    /// A session was opened.
    Opened {
        /// Its number.
        session: u64,
        /// Its name, which no other session has.
        name: String,
        /// Its time-to-live, in nanoseconds.
        ttl: u64,
        /// When it was asked for.
        sent: Time,
        /// When the answer came.
        answered: Time,
    },
    /// A renewal was confirmed.
    Renewed {
        /// Of this session.
        session: u64,
        /// When it was sent.
        sent: Time,
        /// When it was confirmed.
        answered: Time,
    },
    /// The server said of a session that there is none.
    Unknown {
        /// Of this session.
        session: u64,
        /// The error code.
        code: String,
        /// When that was asked.
        sent: Time,
        /// When the answer came.
        answered: Time,
    },
    /// A client is about to close its session.
    Closing {
        /// This one.
        session: u64,
        /// When.
        at: Time,
    },
    /// The server confirmed that a session is closed.
    Closed {
        /// This one.
        session: u64,
        /// When.
        at: Time,
    },
    /// From now on nothing is sent for a session any more; its client is dead, or has forgotten it.
    Silent {
        /// The session's name.
        name: String,
        /// Its time-to-live, in nanoseconds.
        ttl: u64,
        /// When.
        at: Time,
    },
    /// A client is about to ask for locks. The same session and request again is a repetition.
    Asked {
        /// For this session.
        session: u64,
        /// What the client calls the request.
        request: u64,
        /// What it asks for.
        wants: Vec<Want>,
        /// When.
        at: Time,
    },
    /// A request was granted.
    Granted {
        /// To this session.
        session: u64,
        /// Which request.
        request: u64,
        /// The fencing token.
        token: u64,
        /// When the answer came.
        at: Time,
    },
    /// A request was refused.
    Refused {
        /// To this session.
        session: u64,
        /// Which request.
        request: u64,
        /// The error code.
        code: String,
        /// When the answer came.
        at: Time,
    },
    /// An attempt to ask ended without an answer: the connection broke, or the client hung up.
    Dropped {
        /// Of this session.
        session: u64,
        /// Which request.
        request: u64,
        /// When.
        at: Time,
    },
    /// The client found itself certain to hold something, by its own count.
    Believed {
        /// This session.
        session: u64,
        /// What was granted with this token.
        token: u64,
        /// When it began to look.
        at: Time,
        /// The end of its lease, as it was then.
        until: Time,
    },
    /// The client was told, or found out, that it holds something no longer.
    Lost {
        /// This session.
        session: u64,
        /// What was granted with this token.
        token: u64,
        /// Why, in the words of the client: `expired`, `gone`, `forced`, …
        why: String,
        /// When.
        at: Time,
    },
    /// A client is about to release what it was granted, or to resign.
    Releasing {
        /// This session.
        session: u64,
        /// What was granted with this token.
        token: u64,
        /// When.
        at: Time,
    },
    /// The server confirmed a release.
    Released {
        /// Of this session.
        session: u64,
        /// Of what was granted with this token.
        token: u64,
        /// When.
        at: Time,
    },
    /// The server refused a release.
    ReleaseRefused {
        /// Of this session.
        session: u64,
        /// Of what was granted with this token.
        token: u64,
        /// The error code.
        code: String,
        /// When.
        at: Time,
    },
    /// An operator is about to take a lock, or to end a leadership, by force.
    Forcing {
        /// The lock's name, as in [`Want::lock`].
        lock: String,
        /// When.
        at: Time,
    },
    /// What came of [`Event::Forcing`]: the server answered, and then told which grants the operator had taken. Without
    /// it that is unknown.
    Forced {
        /// The lock's name, as in [`Want::lock`].
        lock: String,
        /// From which sessions, and under which tokens or terms.
        taken: Vec<Taken>,
        /// The time of the [`Event::Forcing`] that it belongs to.
        sent: Time,
        /// When the server answered.
        answered: Time,
    },
    /// A process of `conclave lock` or `conclave elect` was started.
    Started {
        /// The name of its session.
        name: String,
        /// Which command.
        kind: Kind,
        /// What it wants.
        wants: Vec<Want>,
        /// It wants that at once or not at all.
        try_once: bool,
        /// It waits only for so long, in nanoseconds.
        timeout: Option<u64>,
        /// Its time-to-live, in nanoseconds.
        ttl: u64,
        /// The exit code that its command ends with.
        code: i32,
        /// When.
        at: Time,
    },
    /// A command ran under a lock: its own account of it.
    Ran {
        /// The name of the process that started it.
        name: String,
        /// The session that it was told of.
        session: u64,
        /// The token that it was told of.
        token: u64,
        /// What it ran under.
        wants: Vec<Want>,
        /// When the process that started it was started.
        started: Time,
        /// Its first reading of the clock.
        begin: Time,
        /// Its last reading of the clock.
        last: Time,
        /// How it ended, unless it was killed.
        code: Option<i32>,
    },
    /// Something was done to a process, so that less can be said of how it ends.
    Struck {
        /// The process.
        name: String,
        /// What was done: `kill-wrapper`, `stop-watcher`, …
        how: String,
        /// When.
        at: Time,
    },
    /// A process of `conclave lock` or `conclave elect` ended.
    Exited {
        /// The name of its session.
        name: String,
        /// How.
        ending: Ending,
        /// The last line that it wrote to standard error.
        said: String,
        /// When.
        at: Time,
    },
    /// All locks and elections, as the server listed them.
    Looked {
        /// When that was asked.
        sent: Time,
        /// When the answer came.
        answered: Time,
        /// All that are held or waited for.
        locks: Vec<LockView>,
    },
    /// A fault began; until it ends, the server cannot be relied upon to answer.
    FaultBegan {
        /// Which kind.
        kind: String,
        /// When.
        at: Time,
    },
    /// A fault has ended, and the server answers again.
    FaultEnded {
        /// Which kind.
        kind: String,
        /// When.
        at: Time,
    },
    /// The server's process ended.
    NodeExited {
        /// How.
        ending: Ending,
        /// Which ending the fault asks for; nothing if it was to go on.
        expected: Option<Ending>,
        /// The last line that it wrote to standard error.
        said: String,
        /// When.
        at: Time,
    },
    /// Something did not end within a generous bound, without faults.
    Hung {
        /// What.
        what: String,
        /// Since when.
        since: Time,
        /// When that was given up.
        at: Time,
    },
}

impl Event {
    /// When it was recorded.
    pub fn at(&self) -> Time {
        match self {
            Self::Opened { answered, .. }
            | Self::Renewed { answered, .. }
            | Self::Unknown { answered, .. }
            | Self::Forced { answered, .. }
            | Self::Looked { answered, .. } => *answered,
            Self::Ran { last, .. } => *last,
            Self::Begin { at, .. }
            | Self::Closing { at, .. }
            | Self::Closed { at, .. }
            | Self::Silent { at, .. }
            | Self::Asked { at, .. }
            | Self::Granted { at, .. }
            | Self::Refused { at, .. }
            | Self::Dropped { at, .. }
            | Self::Believed { at, .. }
            | Self::Lost { at, .. }
            | Self::Releasing { at, .. }
            | Self::Released { at, .. }
            | Self::ReleaseRefused { at, .. }
            | Self::Forcing { at, .. }
            | Self::Started { at, .. }
            | Self::Struck { at, .. }
            | Self::Exited { at, .. }
            | Self::FaultBegan { at, .. }
            | Self::FaultEnded { at, .. }
            | Self::NodeExited { at, .. }
            | Self::Hung { at, .. } => *at,
        }
    }
}
