use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{CallId, KeyDigest, Name, NodeId, Origin, Owner, RequestId, SessionId, Token, Via};

/// What the log says. Its order and its times are the machine's only input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Time has passed. Written when something is due and no other command comes.
    Tick,
    /// A node has begun a new life, and no connection of its last one is left: the single calls that
    /// waited there ([`Via::Call`]) wait no more. Nothing is remembered of them, so one that is made
    /// again under its number begins anew.
    NodeStarted {
        /// Which.
        node: NodeId,
    },
    /// A client wants a session.
    Open(Open),
    /// These sessions live on.
    KeepAlive {
        /// Which.
        sessions: Vec<SessionId>,
    },
    /// A client is done: its session ends and all that it holds is free.
    Close {
        /// Which session.
        session: SessionId,
    },
    /// An operator ends a session.
    Expel {
        /// Which.
        session: SessionId,
        /// Why.
        reason: Name,
    },
    /// An operator ends all sessions of one origin.
    ExpelAll {
        /// Whose.
        origin: Origin,
        /// Why.
        reason: Name,
    },
    /// The connection over which a single call awaited the answer to a request is no more, and no
    /// other has taken the call over. If the request waits, it waits no more, and nothing is
    /// remembered of it. What it was granted is undone only if the client gave it no number: a
    /// numbered one can be made again, and is answered with the grant then.
    HangUp {
        /// Whose request.
        session: SessionId,
        /// Which.
        request: RequestId,
        /// The call that is over. A wait that another call has taken over goes on.
        call: CallId,
    },
    /// A session asks for something.
    Request {
        /// Who asks.
        session: SessionId,
        /// The number of the request. If it is 0, the machine allots one
        /// ([`Machine::next_allotted`](crate::Machine::next_allotted)).
        request: RequestId,
        /// The client has all answers up to this request's; they need not be kept any more.
        received: RequestId,
        /// How the answer gets to the client.
        via: Via,
        /// What is asked.
        call: Call,
    },
    /// An operator takes a lock from who holds it.
    ForceRelease {
        /// Which lock.
        lock: Name,
        /// From the holder with this token; from all if there is none.
        token: Option<Token>,
        /// Why.
        reason: Name,
    },
    /// An operator ends a leadership: the leader is told, and the next candidate leads when it has
    /// confirmed or its lease has ended.
    Depose {
        /// Of which election.
        election: Name,
        /// Why.
        reason: Name,
        /// For how long the deposed session may not stand again in this election.
        barred: Duration,
        /// The next candidate leads at once, although the deposed leader may not have heard of it.
        at_once: bool,
    },
}

/// A client wants a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// What the client is called, for people.
    pub name: Name,
    /// Where it runs, for people.
    pub host: Name,
    /// How long it lives unless it is kept alive.
    pub ttl: Duration,
    /// How bad it is if its waits end because of a deadlock: the lowest loses, where the policy
    /// says so.
    pub priority: i32,
    /// The digest of the secret that a client has to know to act for the session. The machine does not
    /// ask for it. A live session with the same digest is the one that was asked for: an opening that
    /// is repeated returns it and opens no second one.
    pub key: KeyDigest,
    /// The name of the token that the client showed; empty if it showed none. A client with
    /// another token may not act for the session.
    pub opened_by: Name,
    /// The network address that it came from; empty if that is not known.
    pub address: Name,
    /// How many sessions the token may have, if fewer than the limit for all tokens.
    pub quota: Option<u32>,
}

/// What a session asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Call {
    /// To hold locks.
    Acquire(Acquire),
    /// To hold one no more, or one level less of it.
    Release {
        /// Which.
        lock: Name,
        /// The token it is held with.
        token: Token,
        /// The lock goes to the first request of this session that waits for it, before all others
        /// that wait, and with all its levels.
        to: Option<SessionId>,
    },
    /// To hold none of the locks that were granted with this token any more, at any level.
    ReleaseAll {
        /// The token.
        token: Token,
    },
    /// To hold a shared lock exclusively.
    Upgrade {
        /// Which.
        lock: Name,
        /// The token it is held with.
        token: Token,
        /// For how long it may take.
        patience: Patience,
    },
    /// To share a lock that is held exclusively.
    Downgrade {
        /// Which.
        lock: Name,
        /// The token it is held with.
        token: Token,
    },
    /// To undo another request. If it waits, it waits no more; if it was granted, that is
    /// released: so a client that gives up waiting need not know whether it was granted meanwhile.
    Cancel {
        /// Which request.
        request: RequestId,
    },
    /// To lead.
    Campaign(Campaign),
    /// To be known for something else, as the leader.
    Proclaim {
        /// Of which election.
        election: Name,
        /// The token of the leadership.
        term: Token,
        /// What others see.
        value: Vec<u8>,
    },
    /// To lead no more.
    Resign {
        /// Which election.
        election: Name,
        /// The token of the leadership.
        term: Token,
    },
}

/// A request for locks: all of them at once, or none.
///
/// Several such requests cannot block each other. But one that waits for two locks blocks a holder of
/// one of them that asks for the other, since no request overtakes another: that is a
/// deadlock like any other, though this one holds nothing. It is best to ask for all at once, always.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acquire {
    /// Which, and how. No lock twice.
    pub wants: Vec<Want>,
    /// The thread of control that is going to hold them. It may wait for one thing at a time.
    pub owner: Owner,
    /// For how long it may take.
    pub patience: Patience,
    /// If the owner holds the lock already, it holds it once more: as often as it was taken, it has
    /// to be released. For one lock at a time.
    pub reentrant: bool,
}

impl Acquire {
    /// A request for several locks, as patient as can be.
    pub fn all(wants: impl IntoIterator<Item = Want>) -> Self {
        Self {
            wants: wants.into_iter().collect(),
            owner: Owner(0),
            patience: Patience::Forever,
            reentrant: false,
        }
    }

    /// A request for a lock that no other holds at the same time.
    pub fn exclusive(lock: impl Into<Name>) -> Self {
        Self::all([Want { lock: lock.into(), mode: Mode::Exclusive }])
    }

    /// A request for a lock that others may share.
    pub fn shared(lock: impl Into<Name>) -> Self {
        Self::all([Want { lock: lock.into(), mode: Mode::Shared }])
    }

    /// A request for one of a number of permits.
    pub fn permit(lock: impl Into<Name>, of: u32) -> Self {
        Self::all([Want { lock: lock.into(), mode: Mode::Permits { take: 1, of } }])
    }

    /// The same with other patience.
    #[must_use]
    pub fn with(self, patience: Patience) -> Self {
        Self { patience, ..self }
    }

    /// The same for another thread of control.
    #[must_use]
    pub fn by(self, owner: Owner) -> Self {
        Self { owner, ..self }
    }

    /// The same, also if the lock is held already.
    #[must_use]
    pub fn again(self) -> Self {
        Self { reentrant: true, ..self }
    }
}

/// A lock, and how it is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Want {
    /// The lock.
    pub lock: Name,
    /// How.
    pub mode: Mode,
}

/// How a lock is held. A lock is either read and written, or it has permits; which it is, and how
/// many permits, is settled by the first request, until the lock is no longer held or wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// Exclusively.
    Exclusive,
    /// By others who share it, too.
    Shared,
    /// As some of a number of permits.
    Permits {
        /// How many.
        take: u32,
        /// Of how many there are.
        of: u32,
    },
}

/// For how long a request may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Patience {
    /// At once or not at all.
    Try,
    /// For so long.
    For(Duration),
    /// For as long as the session lives.
    Forever,
}

/// A request to lead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Campaign {
    /// Which election.
    pub election: Name,
    /// The candidate with the highest rank leads; of equals, the first.
    pub rank: i64,
    /// Whether a leader of lower rank is to yield.
    pub preempt: bool,
    /// How long it may lead on, as leader, when it is asked to yield.
    pub grace: Duration,
    /// What others see when it leads.
    pub value: Vec<u8>,
    /// For how long it may take.
    pub patience: Patience,
    /// The thread of control that does nothing else until it leads, and then leads. Without one the
    /// candidate is a stand-by, which holds up nothing, and is in no deadlock.
    pub owner: Option<Owner>,
}
