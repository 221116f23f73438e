use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a machine is made with. It stays the same for the life of a log, so that reading the log
/// again comes to the same state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// What is done about deadlocks.
    pub deadlocks: Policy,
    /// How much there may be of everything.
    pub limits: Limits,
}

/// What is done about deadlocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Policy {
    /// Nothing: who waits in a cycle waits until a time-out or an operator helps.
    None,
    /// Every wait that cannot be granted at once is searched for a cycle, and one wait of a cycle
    /// ends with an error.
    Detect(Victim),
    /// Only the older may wait for the younger; who would have to wait for an older one is refused.
    WaitDie,
    /// Only the younger may wait for the older. An older one that has to wait *wounds* the younger
    /// ones in its way: their waits end, and until they have released all they hold they are
    /// refused whatever cannot be granted at once. What is held is not taken away.
    WoundWait,
}

impl Policy {
    /// All there are.
    pub const ALL: [Self; 6] = [
        Self::Detect(Victim::Youngest),
        Self::Detect(Victim::FewestLocks),
        Self::Detect(Victim::LowestPriority),
        Self::WaitDie,
        Self::WoundWait,
        Self::None,
    ];
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Detect(Victim::Youngest) => "detect",
            Self::Detect(Victim::FewestLocks) => "detect-fewest-locks",
            Self::Detect(Victim::LowestPriority) => "detect-lowest-priority",
            Self::WaitDie => "wait-die",
            Self::WoundWait => "wound-wait",
        })
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = Self::ALL.into_iter();
        all.find(|policy| policy.to_string() == text).ok_or_else(|| {
            let all: Vec<String> = Self::ALL.iter().map(ToString::to_string).collect();
            format!("there is no policy {text:?}; there are {}", all.join(", "))
        })
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::Detect(Victim::Youngest)
    }
}

/// Whose wait ends when a cycle is found. Equals are told apart by age: the youngest it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Victim {
    /// The youngest session's.
    #[default]
    Youngest,
    /// That of the agent with the fewest locks.
    FewestLocks,
    /// That of the session with the lowest priority.
    LowestPriority,
}

/// How much there may be of everything. What goes beyond is refused before memory is taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes in the name of a lock or an election.
    pub name_bytes: usize,
    /// Bytes in a session's name, in its host, and in a reason.
    pub label_bytes: usize,
    /// Bytes in what a leader proclaims.
    pub value_bytes: usize,
    /// Sessions.
    pub sessions: usize,
    /// Sessions that were opened with one token.
    pub sessions_per_token: usize,
    /// Sessions that were opened from one network address.
    pub sessions_per_address: usize,
    /// Locks and elections that are held or waited for.
    pub names: usize,
    /// Locks that one session holds and waits for.
    pub locks_per_session: usize,
    /// Requests of one session that wait.
    pub waits_per_session: usize,
    /// Requests that wait for one lock or election.
    pub waiters_per_lock: usize,
    /// Locks in one request.
    pub locks_per_request: usize,
    /// Permits that a lock may have.
    pub permits: u32,
    /// How often a lock may be taken again by who holds it.
    pub depth: u32,
    /// Answers that are kept for a session, for requests that are made again.
    pub replies: usize,
    /// Forced releases that are remembered.
    pub records: usize,
    /// The shortest time-to-live.
    pub shortest_ttl: Duration,
    /// The longest time-to-live.
    pub longest_ttl: Duration,
    /// The longest that a leader may take to yield.
    pub longest_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // Clients are held to a quarter of these, in characters, of which none has more than four bytes.
            name_bytes: 2048,
            label_bytes: 1024,
            value_bytes: 16_384,
            sessions: 100_000,
            sessions_per_token: 25_000,
            sessions_per_address: 25_000,
            names: 1_000_000,
            locks_per_session: 100_000,
            waits_per_session: 1024,
            waiters_per_lock: 100_000,
            locks_per_request: 64,
            permits: 1_000_000,
            depth: 1000,
            replies: 32,
            records: 100,
            shortest_ttl: Duration::from_millis(100),
            longest_ttl: Duration::from_hours(24),
            longest_grace: Duration::from_mins(10),
        }
    }
}

/// Something there may be only so much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scarce {
    /// Bytes of a name.
    NameBytes,
    /// Bytes of a session's name, of its host, of a reason.
    LabelBytes,
    /// Bytes of what a leader proclaims.
    ValueBytes,
    /// Sessions.
    Sessions,
    /// Sessions of one token.
    SessionsPerToken,
    /// Sessions from one network address.
    SessionsPerAddress,
    /// Locks and elections.
    Names,
    /// Locks of a session.
    LocksPerSession,
    /// Waiting requests of a session.
    WaitsPerSession,
    /// Requests waiting for one lock.
    WaitersPerLock,
    /// Locks in one request.
    LocksPerRequest,
    /// Permits.
    Permits,
    /// Levels of one hold.
    Depth,
}

impl Scarce {
    /// Whether one request goes beyond it by itself, whatever others there are.
    pub const fn is_of_one_request(self) -> bool {
        use Scarce::{LabelBytes, LocksPerRequest, NameBytes, Permits, ValueBytes};
        matches!(self, NameBytes | LabelBytes | ValueBytes | LocksPerRequest | Permits)
    }
}

impl fmt::Display for Scarce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NameBytes => "bytes in a name",
            Self::LabelBytes => "bytes in a label",
            Self::ValueBytes => "bytes in a value",
            Self::Sessions => "sessions",
            Self::SessionsPerToken => "sessions opened with one token",
            Self::SessionsPerAddress => "sessions opened from one address",
            Self::Names => "locks and elections",
            Self::LocksPerSession => "locks of one session",
            Self::WaitsPerSession => "waiting requests of one session",
            Self::WaitersPerLock => "requests waiting for one lock",
            Self::LocksPerRequest => "locks in one request",
            Self::Permits => "permits",
            Self::Depth => "levels of one hold",
        })
    }
}
