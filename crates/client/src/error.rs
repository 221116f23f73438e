use std::fmt;
use std::time::Duration;

use conclave_api::{Code, v1};
use thiserror::Error;
use tonic::{Code as Grpc, Status};

/// Why something was not done.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The options make no sense.
    #[error("{0}")]
    BadOptions(String),
    /// No server could be reached, or none answered in time.
    #[error("no server can be reached: {0}")]
    Unreachable(String),
    /// A server answers, but cannot do that now: its disk is full, say. It may be asked again.
    #[error("the server cannot do that now: {0}")]
    Unavailable(String),
    /// The server's certificate is not trusted, or the server does not trust the client's.
    #[error("no trust: {0}")]
    Untrusted(String),
    /// The server does not know this token or certificate.
    #[error("not let in: {0}")]
    Unauthenticated(String),
    /// The client has no right to that.
    #[error("not allowed: {0}")]
    Forbidden(String),
    /// The session is over, and with it all that it held.
    #[error("the session is lost: {0}")]
    SessionLost(Loss),
    /// The lock or the leadership is over, though the session lives.
    #[error("it is not held any more: {0}")]
    Lost(Loss),
    /// It cannot be had at once.
    #[error("{0}")]
    Conflict(String),
    /// It could not be had in time.
    #[error("it could not be had in time")]
    TimedOut,
    /// The wait was in a deadlock, and it was chosen to end.
    #[error("{message}")]
    Deadlock {
        /// Who waits for whom, beginning with who closed the cycle.
        cycle: Vec<v1::Link>,
        /// The same in words.
        message: String,
    },
    /// An operator has deposed the session, and it may not stand again yet.
    #[error("{message}")]
    Barred {
        /// For how much longer.
        left: Duration,
        /// What people read.
        message: String,
    },
    /// An older one is in the way, or has to be let by, where that is how deadlocks are kept away. Release
    /// what is held, and try again.
    #[error("{message}")]
    GiveWay {
        /// What programs go by.
        code: &'static str,
        /// What people read.
        message: String,
    },
    /// Something else is not as it should be.
    #[error("{message} ({code})")]
    Refused {
        /// What programs go by: it does not change with the wording.
        code: String,
        /// What people read.
        message: String,
    },
    /// The server gives a reason that this version does not know.
    #[error("{message} ({code}, which this version of the client does not know)")]
    Unknown {
        /// What newer programs go by.
        code: String,
        /// What people read.
        message: String,
    },
}

/// Why something is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// The session could not be renewed in time.
    Expired,
    /// An operator ended the session.
    Expelled,
    /// An operator took it.
    Forced,
    /// A better candidate took over.
    Preempted,
    /// The holder released it, or handed it over.
    Released,
    /// A change of how it is held was given up halfway.
    Abandoned,
    /// The session was closed, or the client is no more.
    Closed,
    /// It was over when the client came back to the server.
    Gone,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "it was not renewed in time",
            Self::Expelled => "an operator ended the session",
            Self::Forced => "an operator took it",
            Self::Preempted => "a better candidate took over",
            Self::Released => "it was released",
            Self::Abandoned => "an upgrade was given up halfway",
            Self::Closed => "the session was closed",
            Self::Gone => "it ended while the server was out of reach",
        })
    }
}

impl From<v1::Cause> for Loss {
    fn from(cause: v1::Cause) -> Self {
        match cause {
            v1::Cause::Released | v1::Cause::HandedOver | v1::Cause::Cancelled => Self::Released,
            v1::Cause::Closed => Self::Closed,
            v1::Cause::Expired => Self::Expired,
            v1::Cause::Expelled => Self::Expelled,
            v1::Cause::Forced => Self::Forced,
            v1::Cause::Preempted => Self::Preempted,
        }
    }
}

impl Error {
    /// What programs go by: it does not change with the wording.
    pub fn code(&self) -> &str {
        match self {
            Self::BadOptions(_) => "bad-options",
            Self::Unreachable(_) => "unreachable",
            Self::Unavailable(_) => Code::Unavailable.as_str(),
            Self::Untrusted(_) => "untrusted",
            Self::Unauthenticated(_) => Code::Unauthenticated.as_str(),
            Self::Forbidden(_) => Code::Forbidden.as_str(),
            Self::SessionLost(_) => "session-lost",
            Self::Lost(_) => Code::Lost.as_str(),
            Self::Conflict(_) => Code::Conflict.as_str(),
            Self::TimedOut => Code::TimedOut.as_str(),
            Self::Deadlock { .. } => Code::Deadlock.as_str(),
            Self::Barred { .. } => Code::Barred.as_str(),
            Self::GiveWay { code, .. } => code,
            Self::Refused { code, .. } | Self::Unknown { code, .. } => code,
        }
    }

    /// Whether another try, or another server, may do better.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Unavailable(_) | Self::Untrusted(_))
    }
}

impl From<v1::Failed> for Error {
    fn from(failed: v1::Failed) -> Self {
        let v1::Failed { code, message, cycle, retry_ms } = failed;
        match Code::parse(&code) {
            Some(Code::Unavailable) => Self::Unavailable(message),
            Some(Code::Unauthenticated) => Self::Unauthenticated(message),
            Some(Code::Forbidden) => Self::Forbidden(message),
            Some(Code::UnknownSession) => Self::SessionLost(Loss::Gone),
            Some(Code::Lost) => Self::Lost(Loss::Gone),
            Some(Code::Conflict) => Self::Conflict(message),
            Some(Code::TimedOut) => Self::TimedOut,
            Some(Code::Deadlock) => Self::Deadlock { cycle, message },
            Some(Code::Barred) => {
                let left = Duration::from_millis(retry_ms.unwrap_or_default());
                Self::Barred { left, message }
            }
            Some(found @ (Code::Died | Code::Wounded)) => {
                Self::GiveWay { code: found.as_str(), message }
            }
            Some(_) => Self::Refused { code, message },
            None => Self::Unknown { code, message },
        }
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        let message = status.message().to_owned();
        match (status.code(), status.metadata().get("conclave-code")) {
            (Grpc::Unauthenticated, _) => Self::Unauthenticated(message),
            (Grpc::PermissionDenied, _) => Self::Forbidden(message),
            (Grpc::Unavailable, Some(_)) => Self::Unavailable(message),
            (Grpc::Unavailable, None) => Self::Unreachable(message),
            (_, Some(code)) => {
                let code = String::from_utf8_lossy(code.as_bytes()).into_owned();
                match Code::parse(&code) {
                    Some(_) => Self::Refused { code, message },
                    None => Self::Unknown { code, message },
                }
            }
            // Only the network says these.
            (Grpc::DeadlineExceeded | Grpc::Cancelled | Grpc::Unknown, None) => {
                Self::Unreachable(message)
            }
            (code, None) => Self::Refused { code: format!("{code:?}"), message },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_of_a_newer_server_is_told_with_its_text_and_taken_for_nothing_else() {
        let failed = |code: &str| v1::Failed {
            code: code.to_owned(),
            message: "because".to_owned(),
            cycle: Vec::new(),
            retry_ms: None,
        };
        let error = Error::from(failed("from-next-year"));
        assert!(matches!(error, Error::Unknown { .. }) && error.code() == "from-next-year");
        assert!(error.to_string().starts_with("because (from-next-year, which"), "{error}");
        let mut status = Status::new(Grpc::InvalidArgument, "because");
        status.metadata_mut().insert("conclave-code", "from-next-year".parse().expect("ASCII"));
        assert!(matches!(Error::from(status), Error::Unknown { .. }));
        for code in Code::ALL {
            let error = Error::from(failed(code.as_str()));
            assert!(!matches!(error, Error::Unknown { .. }), "{code}");
        }
    }
}
