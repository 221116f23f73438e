use thiserror::Error;

/// Why a command of the lock service could not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub enum ServiceError {
    /// Another session holds or leads it.
    Conflict(String),
    /// It could not be had in time.
    TimedOut(String),
    /// It was had, and is over.
    Lost(String),
    /// No node answers.
    Unreachable(String),
    /// The node does not do that.
    Refused(String),
    /// The node's certificate is not accepted here, or this client's there.
    Certificate(String),
    /// The node does not do that, with its own code for it.
    #[error("{message} ({code})")]
    RefusedWith {
        /// What programs go by.
        code: String,
        /// What people read.
        message: String,
    },
    /// A node answers, but cannot do that now.
    Unavailable(String),
    /// To wait would have been, or was, a deadlock.
    Deadlock(String),
    /// The node cannot listen.
    Listen(String),
    /// Another node uses the directory.
    InUse(String),
    /// The directory cannot be used.
    Directory(String),
    /// What is in the directory cannot be read.
    Corrupt(String),
    /// The node cannot start, for another reason.
    Stopped(String),
    /// A certificate, a key or the tokens cannot be used.
    Security(String),
    /// The command cannot be run.
    NotExecutable(String),
    /// There is no such command.
    NotFound(String),
}

impl ServiceError {
    /// What a command was run for is given up, because its guard was killed.
    pub(crate) fn unguarded(subject: &str) -> Self {
        Self::Lost(format!(
            "{subject} was given up: the process that guards the command ({}) was killed, and the command \
             with it",
            super::guard::NAME,
        ))
    }

    /// There is no command to run without a guard.
    pub(crate) fn never_guarded() -> Self {
        Self::Lost(format!(
            "given up: the process that guards the command ({}) was killed before the command began",
            super::guard::NAME,
        ))
    }

    /// The exit code of the program.
    pub fn code(&self) -> u8 {
        match self {
            Self::Conflict(_) => 10,
            Self::TimedOut(_) => 11,
            Self::Lost(_) => 12,
            Self::Unreachable(_) => 13,
            Self::Refused(_) | Self::RefusedWith { .. } => 14,
            Self::Deadlock(_) => 15,
            Self::Certificate(_) => 16,
            Self::Unavailable(_) => 17,
            Self::Listen(_) => 20,
            Self::InUse(_) => 21,
            Self::Directory(_) => 22,
            Self::Corrupt(_) => 23,
            Self::Stopped(_) => 24,
            Self::Security(_) => 25,
            Self::NotExecutable(_) => 126,
            Self::NotFound(_) => 127,
        }
    }

    /// What programs go by: it does not change with the wording.
    pub fn slug(&self) -> &str {
        match self {
            Self::Conflict(_) => "conflict",
            Self::TimedOut(_) => "timed-out",
            Self::Lost(_) => "lost",
            Self::Unreachable(_) => "unreachable",
            Self::Refused(_) => "refused",
            Self::RefusedWith { code, .. } => code,
            Self::Deadlock(_) => "deadlock",
            Self::Unavailable(_) => "unavailable",
            Self::Certificate(_) => "bad-certificate",
            Self::Listen(_) => "cannot-listen",
            Self::InUse(_) => "directory-in-use",
            Self::Directory(_) => "bad-directory",
            Self::Corrupt(_) => "damaged",
            Self::Stopped(_) => "stopped",
            Self::Security(_) => "bad-security",
            Self::NotExecutable(_) => "not-executable",
            Self::NotFound(_) => "command-not-found",
        }
    }
}
