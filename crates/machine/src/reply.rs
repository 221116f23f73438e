use serde::{Deserialize, Serialize};

use crate::{Agent, Error, Link, Mode, Name, RequestId, SessionId, Time, Token};

/// What comes of a command at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// It is done.
    Done,
    /// There is a session.
    Opened {
        /// Its number.
        session: SessionId,
        /// If it was there already: its leaderships that were deposed. The session was renewed, but
        /// these are not prolonged.
        deposed: Vec<Deposed>,
    },
    /// The sessions live on, but for these.
    Alive {
        /// Those that are no more.
        gone: Vec<SessionId>,
        /// Leaderships of the others that this renewal does not prolong, since they were deposed.
        deposed: Vec<Deposed>,
    },
    /// So many sessions have ended.
    Expelled {
        /// How many.
        sessions: u64,
    },
    /// All locks of the request are held.
    Granted {
        /// The fencing token of the grant, the same for all its locks.
        token: Token,
        /// The epoch of each lock, in the order of the request.
        epochs: Box<[Token]>,
        /// How often the lock is held now.
        depth: u32,
    },
    /// It waits; an [`Event::Answered`] will tell.
    Waiting,
    /// It is held no more, or at this many levels still.
    Released {
        /// How many.
        left: u32,
    },
    /// It leads.
    Elected {
        /// The token of its leadership.
        term: Token,
    },
}

/// What a command means for others than the client that gave it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A request that waited is answered.
    Answered {
        /// Whose it was.
        session: SessionId,
        /// Which.
        request: RequestId,
        /// What came of it.
        answer: Result<Reply, Error>,
    },
    /// A lock is held.
    Granted {
        /// Which.
        lock: Name,
        /// By whom.
        agent: Agent,
        /// How.
        mode: Mode,
        /// With which token.
        token: Token,
        /// In which epoch.
        epoch: Token,
    },
    /// A lock is not held any more.
    Released {
        /// Which.
        lock: Name,
        /// By whom it was.
        agent: Agent,
        /// With which token.
        token: Token,
        /// Why it is not.
        cause: Cause,
    },
    /// A session is no more.
    Ended {
        /// Which.
        session: SessionId,
        /// Why.
        cause: Cause,
    },
    /// A deadlock was found, and one wait of it ended.
    Deadlock {
        /// Whose.
        victim: Agent,
        /// Who waited for whom.
        cycle: Vec<Link>,
    },
    /// An agent blocks an older one, and should release what it holds.
    Wounded {
        /// Who.
        agent: Agent,
        /// Whom it is in the way of.
        by: Agent,
    },
    /// Who leads has changed, or what it is known for.
    Leader {
        /// Of which election.
        election: Name,
        /// Who leads now.
        leader: Option<Leadership>,
    },
    /// A leader is to resign, since a better candidate is there.
    Yield {
        /// Of which election.
        election: Name,
        /// Who.
        session: SessionId,
        /// The token of its leadership.
        term: Token,
        /// When it is going to be deposed.
        by: Time,
    },
    /// A leader leads no more, and did not ask for that.
    Deposed(Deposed),
}

/// A leadership that is over, or is as soon as the leader has confirmed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deposed {
    /// Of which election.
    pub election: Name,
    /// Whose.
    pub session: SessionId,
    /// Its token.
    pub term: Token,
    /// Why.
    pub cause: Cause,
    /// When another leads even if this one does not confirm: the end of its lease. Nothing if its
    /// leadership is over already.
    pub until: Option<Time>,
}

/// A leadership, as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leadership {
    /// Who leads.
    pub session: SessionId,
    /// The fencing token of the leadership.
    pub term: Token,
    /// What it is known for.
    pub value: Vec<u8>,
}

/// Why something ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// Its holder released it.
    Released,
    /// Its holder handed it over.
    HandedOver,
    /// The request that it was granted to was cancelled.
    Cancelled,
    /// The client closed the session.
    Closed,
    /// The session was not kept alive.
    Expired,
    /// An operator ended the session.
    Expelled,
    /// An operator took it.
    Forced,
    /// A better candidate took over.
    Preempted,
}
