use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{Agent, Name, RequestId, Scarce, SessionId, Token};

/// Why something was not done. Who asked is where it was before.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum Error {
    /// There is no such session, or no more.
    #[error("there is no session {0}; it may have expired")]
    UnknownSession(SessionId),
    /// The answer to a request that is made again is not kept any more.
    #[error("the answer to request {} is not kept any more", .0.0)]
    Forgotten(RequestId),
    /// The request was granted, and what it was granted has been lost or given back since.
    #[error("the request had been granted, and that is over")]
    Lost,
    /// The session ended while the request waited.
    #[error("the session ended while the request waited")]
    SessionEnded,
    /// There is more of something than there may be.
    #[error("there may be at most {most} {what}")]
    Limit {
        /// Of what.
        what: Scarce,
        /// How much there may be.
        most: u64,
    },
    /// A name is empty.
    #[error("a lock or an election needs a name")]
    NoName,
    /// A request for locks names none.
    #[error("a request for locks has to name one")]
    NoLocks,
    /// A request for locks names one twice.
    #[error("the request names {0} twice")]
    Twice(Name),
    /// Several locks at once cannot be taken again.
    #[error("only a request for one lock can take it again")]
    ReentrantOnlyAlone,
    /// A span of time is out of bounds.
    #[error("a {what} has to be from {} to {}", Millis(.least), Millis(.most))]
    BadSpan {
        /// Which.
        what: Span,
        /// The shortest there may be.
        least: Duration,
        /// The longest there may be.
        most: Duration,
    },
    /// A number of permits makes no sense.
    #[error("{take} of {of} permits cannot be taken")]
    BadPermits {
        /// How many were asked for.
        take: u32,
        /// Of how many.
        of: u32,
    },
    /// The lock is read and written, and was asked for permits; or the other way round; or it has
    /// another number of permits.
    #[error("{0} is in use as another kind of lock, or with another number of permits")]
    OtherKind(Name),
    /// The owner waits already.
    #[error("this owner waits already; another thread of control needs a number of its own")]
    Busy,
    /// It cannot be had at once.
    #[error("{0} cannot be had at once")]
    Conflict(Name),
    /// It could not be had in time.
    #[error("it could not be had in time")]
    TimedOut,
    /// The request was cancelled.
    #[error("the request was cancelled")]
    Cancelled,
    /// The owner holds the lock already.
    #[error("{0} is held already by the same owner")]
    AlreadyHeld(Name),
    /// The owner holds the lock already, but shares it, or has fewer permits than it wants now.
    #[error("{0} is held already by the same owner, but not as much of it; ask for an upgrade")]
    NeedsUpgrade(Name),
    /// Only what is shared can be upgraded.
    #[error("{0} is not shared")]
    NotShared(Name),
    /// Only what is held exclusively can be downgraded.
    #[error("{0} is not held exclusively")]
    NotExclusive(Name),
    /// The session does not hold the lock.
    #[error("{0} is not held by this session")]
    NotHeld(Name),
    /// The session holds the lock, but by another grant.
    #[error("{lock} is not held with the token {token}")]
    StaleToken {
        /// Which lock.
        lock: Name,
        /// The token that is over.
        token: Token,
    },
    /// There is no session of that number to hand the lock to.
    #[error("there is no session {0} to hand it to; it may have expired")]
    UnknownReceiver(SessionId),
    /// The session that the lock is to be handed to does not wait for it.
    #[error("session {0} does not wait for it")]
    NotWaiting(SessionId),
    /// The session that the lock is to be handed to would still have to wait.
    #[error("session {0} would still have to wait for others")]
    CannotTake(SessionId),
    /// The wait was in a deadlock, and it was chosen to end.
    #[error("deadlock: {}", Chain(.cycle))]
    Deadlock {
        /// Who waits for whom, beginning with who closed the cycle.
        cycle: Vec<Link>,
    },
    /// Under wait-die: it would have to wait for an older one.
    #[error("refused to wait for {lock}: {elder} is older and in the way")]
    Died {
        /// The lock.
        lock: Name,
        /// The older one.
        elder: Agent,
    },
    /// Under wound-wait: it is in the way of an older one, and has to release what it holds before
    /// it may wait.
    #[error("refused to wait: {by} is older and waits for what this owner holds or waits for")]
    Wounded {
        /// The older one.
        by: Agent,
    },
    /// The session stands in this election already.
    #[error("the session is a candidate of {0} already")]
    AlreadyCandidate(Name),
    /// An operator has deposed the session, and it may not stand again yet.
    #[error(
        "an operator deposed the session in {election}; it may stand again in {} ms",
        left.as_millis()
    )]
    Barred {
        /// In which election.
        election: Name,
        /// For how much longer.
        left: Duration,
    },
    /// The session does not lead, or not with this term.
    #[error("the session does not lead {0} with this term")]
    NotLeader(Name),
    /// A session with this key was opened with another token.
    #[error("a session with this key was opened with another token; choose another key")]
    KeyTaken,
    /// There is no such lock or election to do something to.
    #[error("no session holds or leads {0}")]
    Free(Name),
}

/// A span of time that has bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Span {
    /// The time-to-live of a session.
    TimeToLive,
    /// The time that a leader may take to yield.
    Grace,
    /// The time for which a deposed session may not stand again.
    Barred,
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TimeToLive => "time-to-live",
            Self::Grace => "grace period",
            Self::Barred => "time for which a deposed session may not stand again",
        })
    }
}

/// A span as clients write it.
struct Millis<'a>(&'a Duration);

impl fmt::Display for Millis<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0.as_millis())
    }
}

/// Part of a cycle: one waits for a lock or a leadership that the next in the cycle has, or gets first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Who waits.
    pub waiter: Agent,
    /// For which lock, or to lead which election.
    pub lock: Name,
    /// Whether that is an election.
    pub election: bool,
}

/// A cycle in words.
struct Chain<'a>(&'a [Link]);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let next = self.0.iter().cycle().skip(1);
        for (i, (Link { waiter, lock, election }, next)) in self.0.iter().zip(next).enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            let what = if *election { "to lead" } else { "for" };
            write!(f, "{comma}{waiter} waits {what} {lock} because of {}", next.waiter)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Owner;

    #[test]
    fn a_deadlock_is_told_link_by_link() {
        let agent = |n| Agent { session: SessionId(n), owner: Owner(0) };
        let link = |n, lock: &str| Link { waiter: agent(n), lock: lock.into(), election: false };
        let error = Error::Deadlock { cycle: vec![link(2, "a"), link(1, "b")] };
        assert_eq!(
            error.to_string(),
            "deadlock: session 2 waits for a because of session 1, session 1 waits for b because of \
             session 2"
        );
    }

    #[test]
    fn a_span_out_of_bounds_is_told_with_the_bounds() {
        let (least, most) = (Duration::from_millis(100), Duration::from_hours(24));
        let error = Error::BadSpan { what: Span::TimeToLive, least, most };
        assert_eq!(error.to_string(), "a time-to-live has to be from 100 ms to 86400000 ms");
    }
}
