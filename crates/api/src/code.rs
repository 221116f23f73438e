//! Error codes that programs go by: one table, with the HTTP status and the gRPC code of each.

use std::fmt;

use tonic::Code as Grpc;

/// Makes the enumeration and its tables from one list.
macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal, $http:literal, $grpc:ident;)+) => {
        /// Why something was not done. The text of a code never changes; new ones may come.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Code {
            /// All there are.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// What stands in messages.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// The status of HTTP. 400 is for what the description of the interface excludes; what contradicts itself or
            /// what the session has is a conflict. A wait that took too long is a conflict, for a client that says how long it wants
            /// to wait does not want programs on the way to ask again, which they do after a time-out.
            pub const fn http_status(self) -> u16 {
                match self { $(Self::$name => $http,)+ }
            }

            /// The status of gRPC.
            pub const fn grpc_status(self) -> Grpc {
                match self { $(Self::$name => Grpc::$grpc,)+ }
            }

            /// The code of this text; none if this version does not know it.
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$name),)+ _ => None }
            }
        }
    };
}

codes! {
    /// The node cannot do anything now; it may later. Asking again is safe.
    Unavailable = "unavailable", 503, Unavailable;
    /// The question makes no sense.
    BadRequest = "bad-request", 400, InvalidArgument;
    /// No token was shown, or one that is not known.
    Unauthenticated = "unauthenticated", 401, Unauthenticated;
    /// The token has no right to that.
    Forbidden = "forbidden", 403, PermissionDenied;
    /// There is nothing of that name to ask for.
    NotFound = "not-found", 404, NotFound;
    /// Too much is asked at once.
    TooMany = "too-many", 429, ResourceExhausted;
    /// There are too many sessions, locks or waiters at present.
    Limit = "limit", 429, ResourceExhausted;
    /// What is asked has too many bytes, locks or permits, and will have whenever it is asked.
    TooLarge = "too-large", 400, InvalidArgument;
    /// The same request was made again over another connection, which awaits the answer now.
    Superseded = "superseded", 409, Aborted;
    /// There is no such session, or its key or its token is another.
    UnknownSession = "unknown-session", 404, NotFound;
    /// A session with this key was opened with another token.
    KeyTaken = "key-taken", 409, AlreadyExists;
    /// The answer to a request that is made again is not kept any more.
    Forgotten = "forgotten", 409, FailedPrecondition;
    /// The request had been granted, and that is over.
    Lost = "lost", 409, FailedPrecondition;
    /// The session ended while the request waited.
    SessionEnded = "session-ended", 409, FailedPrecondition;
    /// A lock or an election needs a name.
    NoName = "no-name", 400, InvalidArgument;
    /// A request for locks has to name one.
    NoLocks = "no-locks", 400, InvalidArgument;
    /// A request for locks names one twice.
    Twice = "twice", 409, InvalidArgument;
    /// Only a request for one lock can take it again.
    ReentrantOnlyAlone = "reentrant-only-alone", 409, InvalidArgument;
    /// A time-to-live or a grace period is out of bounds.
    BadSpan = "bad-span", 400, InvalidArgument;
    /// So many of so many permits cannot be taken.
    BadPermits = "bad-permits", 409, InvalidArgument;
    /// The lock is in use as another kind of lock, or with another number of permits.
    OtherKind = "other-kind", 409, AlreadyExists;
    /// The owner waits already.
    Busy = "busy", 409, AlreadyExists;
    /// It cannot be had at once.
    Conflict = "conflict", 409, AlreadyExists;
    /// It could not be had in time.
    TimedOut = "timed-out", 409, DeadlineExceeded;
    /// The request was cancelled.
    Cancelled = "cancelled", 409, Cancelled;
    /// The owner holds the lock already.
    AlreadyHeld = "already-held", 409, AlreadyExists;
    /// The owner holds the lock already, but not as much of it.
    NeedsUpgrade = "needs-upgrade", 409, FailedPrecondition;
    /// Only what is shared can be upgraded.
    NotShared = "not-shared", 409, FailedPrecondition;
    /// Only what is held exclusively can be downgraded.
    NotExclusive = "not-exclusive", 409, FailedPrecondition;
    /// The session does not hold the lock.
    NotHeld = "not-held", 409, FailedPrecondition;
    /// The session holds the lock, but by another grant.
    StaleToken = "stale-token", 409, FailedPrecondition;
    /// There is no session of that number to hand the lock to.
    UnknownReceiver = "unknown-receiver", 409, FailedPrecondition;
    /// The session that the lock is to be handed to does not wait for it.
    NotWaiting = "not-waiting", 409, FailedPrecondition;
    /// The session that the lock is to be handed to would still have to wait.
    CannotTake = "cannot-take", 409, FailedPrecondition;
    /// The wait was in a deadlock, and it was chosen to end.
    Deadlock = "deadlock", 409, Aborted;
    /// Under wait-die: it would have to wait for an older one.
    Died = "died", 409, Aborted;
    /// Under wound-wait: it is in the way of an older one.
    Wounded = "wounded", 409, Aborted;
    /// The session stands in this election already.
    AlreadyCandidate = "already-candidate", 409, AlreadyExists;
    /// An operator has deposed the session, and it may not stand again in this election yet.
    Barred = "barred", 409, FailedPrecondition;
    /// The session does not lead, or not with this term.
    NotLeader = "not-leader", 409, FailedPrecondition;
    /// No session holds or leads it.
    Free = "free", 404, NotFound;
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_read_as_it_is_written_and_no_other_is() {
        for &code in Code::ALL {
            assert_eq!(Code::parse(code.as_str()), Some(code));
            assert!((400..=599).contains(&code.http_status()), "{code}");
            assert_ne!(code.grpc_status(), Grpc::Ok, "{code}");
        }
        assert_eq!(Code::parse("from-next-year"), None);
    }
}
