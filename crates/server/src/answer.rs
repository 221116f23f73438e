//! Answers in the machine's words: a reply or a failure. Each front end encodes them in its own wire format.

use std::time::Duration;

use conclave_api::Code;
use conclave_machine::{Agent, Error, Link, Machine, Name, Reply, Time, Who};

/// The answer to a request.
pub(crate) type Answer = Result<Answered, Failure>;

/// A reply of the machine, with what only the machine knew at that moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) reply: Reply,
    /// The log time of the reply: deadlines in it are counted from here.
    pub(crate) at: Time,
    /// The session that the reply opened, unless it has ended by now.
    pub(crate) opened: Option<Opened>,
}

/// A session that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    pub(crate) ttl: Duration,
    /// How many answers the machine keeps for it.
    pub(crate) window: usize,
}

impl Answered {
    /// A reply that says no more than that it is done.
    pub(crate) fn done() -> Self {
        Self { reply: Reply::Done, at: Time::ZERO, opened: None }
    }
}

/// The answer of the machine, as it is when the command was applied.
pub(crate) fn answer(result: Result<Reply, Error>, machine: &Machine) -> Answer {
    let reply = result.map_err(|error| Failure::of(&error, machine))?;
    let opened = match reply {
        Reply::Opened { session, .. } => {
            let ttl = machine.session(session).map_or(Duration::ZERO, |session| session.ttl);
            Some(Opened { ttl, window: machine.config().limits.replies })
        }
        _ => None,
    };
    Ok(Answered { reply, at: machine.now(), opened })
}

/// Why a request was not carried out: by the machine's decision, or by the node's before the log was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) message: String,
    /// The deadlock, if there is one.
    pub(crate) cycle: Vec<CycleWait>,
    /// After how long the same request may succeed, if that is known.
    pub(crate) retry: Option<Duration>,
}

/// One wait of a deadlock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CycleWait {
    pub(crate) waiter: Who,
    /// The lock or the election; empty if the caller may not see it.
    pub(crate) lock: Name,
    pub(crate) election: bool,
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), cycle: Vec::new(), retry: None }
    }

    /// An error of the machine, with the names of those who are in a deadlock.
    pub(crate) fn of(error: &Error, machine: &Machine) -> Self {
        let cycle = match error {
            Error::Deadlock { cycle } => cycle_waits(cycle, machine),
            _ => Vec::new(),
        };
        let retry = match error {
            Error::Barred { left, .. } => Some(*left),
            _ => None,
        };
        Self { code: code(error), message: error.to_string(), cycle, retry }
    }
}

/// A deadlock, with the names of those who are in it.
pub(crate) fn cycle_waits(cycle: &[Link], machine: &Machine) -> Vec<CycleWait> {
    let wait = |link: &Link| CycleWait {
        waiter: who(link.waiter, machine),
        lock: link.lock.clone(),
        election: link.election,
    };
    cycle.iter().map(wait).collect()
}

/// An agent with the names of its session; without them if the session has ended.
pub(crate) fn who(agent: Agent, machine: &Machine) -> Who {
    let unnamed = || Who { agent, name: Name::default(), host: Name::default() };
    machine.who(agent).unwrap_or_else(unnamed)
}

/// The code that programs know an error by.
fn code(error: &Error) -> Code {
    match error {
        Error::UnknownSession(_) => Code::UnknownSession,
        Error::Forgotten(_) => Code::Forgotten,
        Error::Lost => Code::Lost,
        Error::SessionEnded => Code::SessionEnded,
        // To send the same request later is of no use.
        Error::Limit { what, .. } if what.is_of_one_request() => Code::TooLarge,
        Error::Limit { .. } => Code::Limit,
        Error::NoName => Code::NoName,
        Error::NoLocks => Code::NoLocks,
        Error::Twice(_) => Code::Twice,
        Error::ReentrantOnlyAlone => Code::ReentrantOnlyAlone,
        Error::BadSpan { .. } => Code::BadSpan,
        Error::BadPermits { .. } => Code::BadPermits,
        Error::OtherKind(_) => Code::OtherKind,
        Error::Busy => Code::Busy,
        Error::Conflict(_) => Code::Conflict,
        Error::TimedOut => Code::TimedOut,
        Error::Cancelled => Code::Cancelled,
        Error::AlreadyHeld(_) => Code::AlreadyHeld,
        Error::NeedsUpgrade(_) => Code::NeedsUpgrade,
        Error::NotShared(_) => Code::NotShared,
        Error::NotExclusive(_) => Code::NotExclusive,
        Error::NotHeld(_) => Code::NotHeld,
        Error::StaleToken { .. } => Code::StaleToken,
        Error::UnknownReceiver(_) => Code::UnknownReceiver,
        Error::NotWaiting(_) => Code::NotWaiting,
        Error::CannotTake(_) => Code::CannotTake,
        Error::Deadlock { .. } => Code::Deadlock,
        Error::Died { .. } => Code::Died,
        Error::Wounded { .. } => Code::Wounded,
        Error::AlreadyCandidate(_) => Code::AlreadyCandidate,
        Error::Barred { .. } => Code::Barred,
        Error::NotLeader(_) => Code::NotLeader,
        Error::KeyTaken => Code::KeyTaken,
        Error::Free(_) => Code::Free,
    }
}
