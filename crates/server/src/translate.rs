//! Between the language of clients and that of the lock manager.

use std::time::Duration;

use conclave_api::{Code, v1};
use conclave_machine::{
    Acquire, Agent, Call, Campaign, Cause, Deposed, Edge, ElectionView, Error, Forced, HolderView,
    Kind, Leadership, Link, LockView, Machine, Mode, Owner, Patience, Reply, RequestId, SessionId,
    SessionView, Tenure, Time, Token, WaiterView, Want, Wants, Who, Why,
};
use v1::ask::What as Asked;
use v1::tell::What as Told;

use crate::calendar::{Calendar, TimeOfDay};
use crate::clock::Moment;

/// What was not done, and why.
pub(crate) fn failed(code: Code, message: impl Into<String>) -> v1::Failed {
    let (code, message) = (code.as_str().to_owned(), message.into());
    v1::Failed { code, message, cycle: Vec::new(), retry_ms: None }
}

/// How many characters the name of a lock or an election may have. The machine counts bytes, and allows for the longest
/// characters: so the bound is one that a description can state.
pub(crate) const NAME: usize = 512;
/// How many the name of a session, its host, and a reason may have.
pub(crate) const LABEL: usize = 256;
/// How many what a leader proclaims may have, if it is text; otherwise how many bytes.
pub(crate) const VALUE: usize = 4096;

/// Whether a text has no more than so many characters.
pub(crate) fn fits(text: &str, most: usize, what: &str) -> Result<(), v1::Failed> {
    // No text has more characters than bytes.
    if text.len() <= most || text.chars().count() <= most {
        return Ok(());
    }
    Err(failed(Code::TooLarge, format!("{what} may have at most {most} characters")))
}

/// Whether a name may be that of a lock. What a session asks is kept with its answer, so no call takes a longer one.
pub(crate) fn lock_fits(name: &str) -> Result<(), v1::Failed> {
    fits(name, NAME, "the name of a lock")
}

/// The same for an election.
pub(crate) fn election_fits(name: &str) -> Result<(), v1::Failed> {
    fits(name, NAME, "the name of an election")
}

fn value_fits(value: &[u8]) -> Result<(), v1::Failed> {
    let length = match std::str::from_utf8(value) {
        Ok(text) => text.chars().count(),
        Err(_) => value.len(),
    };
    if length <= VALUE {
        return Ok(());
    }
    let message = format!("a value may have at most {VALUE} characters, or bytes if it is no text");
    Err(failed(Code::TooLarge, message))
}

/// What a session asks of the lock manager.
pub(crate) fn call(asked: Asked) -> Result<Call, v1::Failed> {
    Ok(match asked {
        Asked::Acquire(v1::Acquire { wants, owner, timeout_ms, reentrant, .. }) => {
            let wants = wants.into_iter().map(want).collect::<Result<_, _>>()?;
            let (owner, patience) = (Owner(owner), patience(timeout_ms));
            Call::Acquire(Acquire { wants, owner, patience, reentrant })
        }
        Asked::Release(v1::Release { lock, token, to }) => {
            lock_fits(&lock)?;
            Call::Release { lock: lock.into(), token: Token(token), to: to.map(SessionId) }
        }
        Asked::ReleaseAll(v1::ReleaseAll { token }) => Call::ReleaseAll { token: Token(token) },
        Asked::Upgrade(v1::Upgrade { lock, token, timeout_ms }) => {
            lock_fits(&lock)?;
            Call::Upgrade { lock: lock.into(), token: Token(token), patience: patience(timeout_ms) }
        }
        Asked::Downgrade(v1::Downgrade { lock, token }) => {
            lock_fits(&lock)?;
            Call::Downgrade { lock: lock.into(), token: Token(token) }
        }
        Asked::Cancel(v1::Cancel { request }) => Call::Cancel { request: RequestId(request) },
        Asked::Campaign(campaign) => {
            let v1::Campaign { election, rank, preempt, grace_ms, value, timeout_ms, owner } =
                campaign;
            election_fits(&election)?;
            value_fits(&value)?;
            Call::Campaign(Campaign {
                election: election.into(),
                rank,
                preempt,
                grace: Duration::from_millis(grace_ms),
                value,
                patience: patience(timeout_ms),
                owner: owner.map(Owner),
            })
        }
        Asked::Proclaim(v1::Proclaim { election, term, value }) => {
            election_fits(&election)?;
            value_fits(&value)?;
            Call::Proclaim { election: election.into(), term: Token(term), value }
        }
        Asked::Resign(v1::Resign { election, term }) => {
            election_fits(&election)?;
            Call::Resign { election: election.into(), term: Token(term) }
        }
        Asked::Open(_)
        | Asked::Attach(_)
        | Asked::KeepAlive(_)
        | Asked::Close(_)
        | Asked::Observe(_)
        | Asked::Unobserve(_)
        | Asked::Echo(_) => {
            return Err(failed(Code::BadRequest, "a session cannot ask for this"));
        }
    })
}

fn want(want: v1::Want) -> Result<Want, v1::Failed> {
    let mode = match want.mode() {
        v1::Mode::Exclusive => Mode::Exclusive,
        v1::Mode::Shared => Mode::Shared,
        v1::Mode::Permits => Mode::Permits { take: want.permits.max(1), of: want.of },
    };
    lock_fits(&want.lock)?;
    if v1::Mode::try_from(want.mode).is_err() {
        return Err(failed(Code::BadRequest, format!("there is no mode {}", want.mode)));
    }
    Ok(Want { lock: want.lock.into(), mode })
}

fn patience(timeout_ms: Option<u64>) -> Patience {
    match timeout_ms {
        None => Patience::Forever,
        Some(0) => Patience::Try,
        Some(millis) => Patience::For(Duration::from_millis(millis)),
    }
}

/// What came of a command.
pub(crate) fn answer(answer: Result<Reply, Error>, machine: &Machine) -> Told {
    let reply = match answer {
        Ok(reply) => reply,
        Err(error) => return Told::Failed(failure(&error, machine)),
    };
    match reply {
        Reply::Done => Told::Done(v1::Done {}),
        Reply::Opened { session, deposed } => {
            let ttl = machine.session(session).map_or(Duration::ZERO, |session| session.ttl);
            let window = u32::try_from(machine.config().limits.replies).unwrap_or(u32::MAX);
            // Only who asked knows the key.
            let (session, key, ttl_ms) = (session.0, 0, millis(ttl));
            let deposed = deposed_leaders(deposed, machine);
            Told::Opened(v1::Opened { session, key, ttl_ms, window, deposed })
        }
        Reply::Expelled { sessions } => Told::Expelled(v1::Expelled { sessions }),
        Reply::Alive { gone, deposed } => {
            let gone = gone.into_iter().map(|session| session.0).collect();
            Told::Alive(v1::Alive { gone, deposed: deposed_leaders(deposed, machine) })
        }
        Reply::Granted { token, epochs, depth } => {
            let epochs = epochs.iter().map(|epoch| epoch.0).collect();
            Told::Granted(v1::Granted { token: token.0, epochs, depth })
        }
        Reply::Waiting => Told::Waiting(v1::Waiting {}),
        Reply::Released { left } => Told::Released(v1::Released { left }),
        Reply::Elected { term } => Told::Elected(v1::Elected { term: term.0 }),
    }
}

/// Leaderships that a renewal does not prolong.
fn deposed_leaders(deposed: Vec<Deposed>, machine: &Machine) -> Vec<v1::DeposedLeader> {
    let deposed = deposed.into_iter().map(|one| v1::DeposedLeader {
        session: one.session.0,
        election: one.election.to_string(),
        term: one.term.0,
        cause: cause(one.cause),
        left_ms: one.until.map_or(0, |until| millis(until.since(machine.now()))),
    });
    deposed.collect()
}

/// Why something was not done.
pub(crate) fn failure(error: &Error, machine: &Machine) -> v1::Failed {
    let cycle = match error {
        Error::Deadlock { cycle } => links(cycle, machine),
        _ => Vec::new(),
    };
    let retry_ms = match error {
        // A moment more, so that it is over then.
        Error::Barred { left, .. } => Some(millis(*left) + 1),
        _ => None,
    };
    let (code, message) = (code(error).as_str().to_owned(), error.to_string());
    v1::Failed { code, message, cycle, retry_ms }
}

/// What programs know an error by.
fn code(error: &Error) -> Code {
    match error {
        Error::UnknownSession(_) => Code::UnknownSession,
        Error::Forgotten(_) => Code::Forgotten,
        Error::Lost => Code::Lost,
        Error::SessionEnded => Code::SessionEnded,
        // It makes no sense to ask again later.
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

pub(crate) fn cause(cause: Cause) -> i32 {
    let cause = match cause {
        Cause::Released => v1::Cause::Released,
        Cause::HandedOver => v1::Cause::HandedOver,
        Cause::Cancelled => v1::Cause::Cancelled,
        Cause::Closed => v1::Cause::Closed,
        Cause::Expired => v1::Cause::Expired,
        Cause::Expelled => v1::Cause::Expelled,
        Cause::Forced => v1::Cause::Forced,
        Cause::Preempted => v1::Cause::Preempted,
    };
    cause.into()
}

pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// The machine as clients see it at a moment, which may be later than its last command.
#[derive(Clone, Copy)]
pub(crate) struct Eye<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) now: Time,
    calendar: &'a Calendar,
    day: TimeOfDay,
}

/// How many holders and waiters of one lock are listed among others.
const LISTED: usize = 100;

impl<'a> Eye<'a> {
    pub(crate) fn new(machine: &'a Machine, calendar: &'a Calendar, moment: Moment) -> Self {
        Self { machine, now: moment.now.max(machine.now()), calendar, day: moment.day }
    }

    /// How much real time has passed since, also while the node was down.
    fn ago(self, since: Time) -> u64 {
        millis(self.calendar.passed(since, self.now, self.day))
    }

    /// What is left of a span that was measured at the last command.
    fn left(self, span: Duration) -> u64 {
        millis(span.saturating_sub(self.now.since(self.machine.now())))
    }

    pub(crate) fn lock(self, lock: LockView, all: bool) -> v1::Lock {
        let LockView { name, kind, epoch, holders, waiters } = lock;
        let (holding, waiting) = (holders.len() as u64, waiters.len() as u64);
        let most = if all { usize::MAX } else { LISTED };
        let (kind, of) = match kind {
            // Whoever holds it says how.
            Kind::ReadWrite => match holders.first().map(|holder| holder.mode) {
                Some(Mode::Shared) => (v1::Mode::Shared, 0),
                _ => (v1::Mode::Exclusive, 0),
            },
            Kind::Permits(of) => (v1::Mode::Permits, of),
        };
        v1::Lock {
            name: name.to_string(),
            kind: kind.into(),
            of,
            epoch: epoch.0,
            holders: holders.into_iter().take(most).map(|holder| self.holder(&holder)).collect(),
            waiters: waiters.into_iter().take(most).map(|waiter| self.waiter(waiter)).collect(),
            holding,
            waiting,
        }
    }

    fn holder(self, holder: &HolderView) -> v1::Holder {
        let (mode, permits) = self::mode(holder.mode);
        v1::Holder {
            who: Some(who(&holder.who)),
            mode,
            permits,
            depth: holder.depth,
            token: holder.token.0,
            for_ms: self.ago(holder.since),
        }
    }

    fn waiter(self, waiter: WaiterView) -> v1::Waiter {
        let ((mode, permits), upgrade, rank) = match waiter.wants {
            Wants::Hold(mode) => (self::mode(mode), false, 0),
            Wants::Upgrade => (self::mode(Mode::Exclusive), true, 0),
            Wants::Lead { rank } => (self::mode(Mode::Exclusive), false, rank),
        };
        v1::Waiter {
            who: Some(who(&waiter.who)),
            // One that was allotted is nobody's to cancel.
            request: if waiter.request.is_allotted() { 0 } else { waiter.request.0 },
            mode,
            permits,
            upgrade,
            rank,
            for_ms: self.ago(waiter.since),
            left_ms: waiter.left.map(|left| self.left(left)),
            locks: waiter.locks.iter().map(ToString::to_string).collect(),
            hidden: 0,
        }
    }

    pub(crate) fn session(self, session: SessionView) -> v1::Session {
        let held = |(lock, token): (conclave_machine::Name, Token)| v1::Held {
            lock: lock.to_string(),
            token: token.0,
        };
        v1::Session {
            session: session.session.0,
            name: session.name.to_string(),
            host: session.host.to_string(),
            ttl_ms: millis(session.ttl),
            left_ms: self.left(session.left),
            for_ms: self.ago(session.opened),
            priority: session.priority,
            opened_by: session.opened_by.to_string(),
            address: session.address.to_string(),
            holds: session.holds.into_iter().map(held).collect(),
            waits: session.waits.iter().map(ToString::to_string).collect(),
            leads: session.leads.iter().map(ToString::to_string).collect(),
        }
    }

    pub(crate) fn election(self, election: ElectionView) -> v1::Election {
        let ElectionView { name, leader, who, tenure, candidates } = election;
        let (yields_ms, deposed_ms) = match tenure {
            Tenure::Unquestioned => (None, None),
            Tenure::Yields { left } => (Some(self.left(left)), None),
            Tenure::Deposed { left, .. } => (None, Some(self.left(left))),
        };
        let leader = leader.zip(who).map(|(leader, (who, since))| {
            let Leadership { term, value, .. } = leader;
            let for_ms = self.ago(since);
            let (who, term) = (Some(self::who(&who)), term.0);
            v1::Leadership { who, term, value, for_ms, yields_ms, deposed_ms }
        });
        let candidates = candidates.into_iter().map(|candidate| self.waiter(candidate)).collect();
        v1::Election { name: name.to_string(), leader, candidates }
    }

    /// Who leads an election.
    pub(crate) fn leader(self, election: &str) -> v1::Leader {
        let view = self.machine.election(election).map(|view| self.election(view));
        v1::Leader { election: election.to_owned(), leader: view.and_then(|view| view.leader) }
    }

    /// Why a lock cannot be had. What operators took is told also when it is free.
    pub(crate) fn why(self, name: &str) -> v1::Reasons {
        let forced = self.machine.forced().filter(|forced| &*forced.name == name);
        let forced = forced.map(|forced| self.forced(forced)).collect();
        let Some(Why { lock, election, waits, cycle, .. }) = self.machine.why(name) else {
            return v1::Reasons { forced, ..v1::Reasons::default() };
        };
        v1::Reasons {
            lock: lock.map(|lock| self.lock(lock, true)),
            waits: waits.into_iter().map(|edge| self.edge(&edge)).collect(),
            cycle: links(&cycle.unwrap_or_default(), self.machine),
            forced,
            hidden: 0,
            election: election.map(|election| self.election(election)),
        }
    }

    pub(crate) fn graph(self) -> v1::WaitGraph {
        let waits = self.machine.graph();
        let stuck = self.machine.deadlocked();
        v1::WaitGraph {
            waits: waits.iter().map(|edge| self.edge(edge)).collect(),
            stuck: stuck.into_iter().map(|agent| somebody(agent, self.machine)).collect(),
        }
    }

    fn edge(self, edge: &Edge) -> v1::Edge {
        v1::Edge {
            waiter: Some(somebody(edge.waiter, self.machine)),
            lock: edge.lock.to_string(),
            on: Some(somebody(edge.on, self.machine)),
            holds: edge.holds,
            election: edge.election,
        }
    }

    fn forced(self, forced: &Forced) -> v1::Forced {
        v1::Forced {
            ago_ms: self.ago(forced.at),
            name: forced.name.to_string(),
            session: forced.agent.session.0,
            token: forced.token.0,
            reason: forced.reason.to_string(),
        }
    }
}

fn mode(mode: Mode) -> (i32, u32) {
    match mode {
        Mode::Exclusive => (v1::Mode::Exclusive.into(), 0),
        Mode::Shared => (v1::Mode::Shared.into(), 0),
        Mode::Permits { take, .. } => (v1::Mode::Permits.into(), take),
    }
}

fn links(cycle: &[Link], machine: &Machine) -> Vec<v1::Link> {
    let link = |link: &Link| v1::Link {
        waiter: Some(somebody(link.waiter, machine)),
        lock: link.lock.to_string(),
        election: link.election,
    };
    cycle.iter().map(link).collect()
}

fn somebody(agent: Agent, machine: &Machine) -> v1::Who {
    match machine.who(agent) {
        Some(known) => who(&known),
        None => v1::Who { session: agent.session.0, owner: agent.owner.0, ..v1::Who::default() },
    }
}

fn who(who: &Who) -> v1::Who {
    v1::Who {
        session: who.agent.session.0,
        owner: who.agent.owner.0,
        name: who.name.to_string(),
        host: who.host.to_string(),
    }
}
