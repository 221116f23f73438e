//! The codec of the front ends that speak `conclave.v1`, be it over gRPC, on an upgraded connection or as JSON: requests
//! become the machine's words, and answers, events and views become messages.

use std::time::Duration;

use conclave_api::{Code, v1};
use conclave_machine::{
    Acquire, Call, Campaign, Cause, Deposed, Edge, ElectionView, Event, Forced, HolderView, Kind,
    Mode, Owner, Patience, Reply, RequestId, SessionId, SessionView, Tenure, Time, Token,
    WaiterView, Want, Wants, Who,
};
use v1::ask::What as ClientMessage;
use v1::tell::What as ServerMessage;

use crate::answer::{Answer, Answered, CycleWait, Failure, cycle_waits, who};
use crate::auth::{Caller, VisibleLock, VisibleWhy};
use crate::client_queue::{Delivery, Question};
use crate::service::{Ask, NewSession, NodeState, Page, Range, Service};
use crate::state::{Leader, LeadershipAt, MachineAt};

/// Decodes what a client asks on behalf of a session.
pub(crate) fn ask(asked: ClientMessage, id: u64, received: u64) -> Result<Ask, Failure> {
    Ok(match asked {
        ClientMessage::KeepAlive(_) => Ask::KeepAlive,
        ClientMessage::Close(_) => Ask::Close,
        asked => Ask::Call { id, received: RequestId(received), call: call(asked)? },
    })
}

/// A message without a question.
pub(crate) fn nothing() -> Failure {
    Failure::new(Code::BadRequest, "nothing is asked")
}

/// Decodes the opening of a session.
pub(crate) fn new_session(open: v1::Open) -> NewSession {
    let v1::Open { name, host, ttl_ms, priority, nonce } = open;
    NewSession { name, host, ttl: Duration::from_millis(ttl_ms), priority, nonce }
}

/// Decodes a call of a session to the machine.
fn call(asked: ClientMessage) -> Result<Call, Failure> {
    Ok(match asked {
        ClientMessage::Acquire(v1::Acquire { wants, owner, timeout_ms, reentrant, .. }) => {
            let wants = wants.into_iter().map(want).collect::<Result<_, _>>()?;
            let (owner, patience) = (Owner(owner), patience(timeout_ms));
            Call::Acquire(Acquire { wants, owner, patience, reentrant })
        }
        ClientMessage::Release(v1::Release { lock, token, to }) => {
            Call::Release { lock: lock.into(), token: Token(token), to: to.map(SessionId) }
        }
        ClientMessage::ReleaseAll(v1::ReleaseAll { token }) => {
            Call::ReleaseAll { token: Token(token) }
        }
        ClientMessage::Upgrade(v1::Upgrade { lock, token, timeout_ms }) => {
            Call::Upgrade { lock: lock.into(), token: Token(token), patience: patience(timeout_ms) }
        }
        ClientMessage::Downgrade(v1::Downgrade { lock, token }) => {
            Call::Downgrade { lock: lock.into(), token: Token(token) }
        }
        ClientMessage::Cancel(v1::Cancel { request }) => {
            Call::Cancel { request: RequestId(request) }
        }
        ClientMessage::Campaign(campaign) => {
            let v1::Campaign { election, rank, preempt, grace_ms, value, timeout_ms, owner } =
                campaign;
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
        ClientMessage::Proclaim(v1::Proclaim { election, term, value }) => {
            Call::Proclaim { election: election.into(), term: Token(term), value }
        }
        ClientMessage::Resign(v1::Resign { election, term }) => {
            Call::Resign { election: election.into(), term: Token(term) }
        }
        ClientMessage::Open(_)
        | ClientMessage::Attach(_)
        | ClientMessage::KeepAlive(_)
        | ClientMessage::Close(_)
        | ClientMessage::Observe(_)
        | ClientMessage::Unobserve(_)
        | ClientMessage::Echo(_) => {
            return Err(Failure::new(Code::BadRequest, "a session cannot ask for this"));
        }
    })
}

fn want(want: v1::Want) -> Result<Want, Failure> {
    let mode = match want.mode() {
        v1::Mode::Exclusive => Mode::Exclusive,
        v1::Mode::Shared => Mode::Shared,
        v1::Mode::Permits => Mode::Permits { take: want.permits.max(1), of: want.of },
    };
    if v1::Mode::try_from(want.mode).is_err() {
        return Err(Failure::new(Code::BadRequest, format!("there is no mode {}", want.mode)));
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

/// Encodes a delivery as the message of a stream.
pub(crate) fn tell(delivery: Delivery) -> v1::Tell {
    match delivery {
        Delivery::Answer(question, answer) => {
            let (session, id) = (question.session.0, question.id);
            v1::Tell { session, id, what: Some(told(question, answer)) }
        }
        Delivery::Event { session, event, now } => {
            v1::Tell { session: session.0, id: 0, what: self::event(event, now) }
        }
        Delivery::Leader { id, leader } => v1::Tell {
            session: 0,
            id,
            what: Some(ServerMessage::Leader(Box::new(self::leader(&leader)))),
        },
    }
}

/// Encodes an answer.
pub(crate) fn told(question: Question, answer: Answer) -> ServerMessage {
    match answer {
        Ok(answered) => reply(question, answered),
        Err(failure) => ServerMessage::Failed(Box::new(failed(failure))),
    }
}

/// Encodes a reply.
pub(crate) fn reply(question: Question, answered: Answered) -> ServerMessage {
    let Answered { reply, at, opened } = answered;
    match reply {
        Reply::Done => ServerMessage::Done(v1::Done {}),
        Reply::Opened { session, deposed } => {
            let ttl_ms = opened.map_or(0, |opened| millis(opened.ttl));
            let window = opened.map_or(0, |opened| opened.window);
            let window = u32::try_from(window).unwrap_or(u32::MAX);
            let (session, key, deposed) = (session.0, question.key, deposed_leaders(deposed, at));
            ServerMessage::Opened(v1::Opened { session, key, ttl_ms, window, deposed })
        }
        Reply::Expelled { sessions } => ServerMessage::Expelled(v1::Expelled { sessions }),
        Reply::Alive { gone, deposed } => {
            let gone = gone.into_iter().map(|session| session.0).collect();
            ServerMessage::Alive(v1::Alive { gone, deposed: deposed_leaders(deposed, at) })
        }
        Reply::Granted { token, epochs, depth } => {
            let epochs = epochs.iter().map(|epoch| epoch.0).collect();
            ServerMessage::Granted(v1::Granted { token: token.0, epochs, depth })
        }
        Reply::Waiting => ServerMessage::Waiting(v1::Waiting {}),
        Reply::Released { left } => ServerMessage::Released(v1::Released { left }),
        Reply::Elected { term } => ServerMessage::Elected(v1::Elected { term: term.0 }),
    }
}

/// Leaderships that a renewal does not prolong.
fn deposed_leaders(deposed: Vec<Deposed>, at: Time) -> Vec<v1::DeposedLeader> {
    let deposed = deposed.into_iter().map(|one| v1::DeposedLeader {
        session: one.session.0,
        election: one.election.to_string(),
        term: one.term.0,
        cause: cause(one.cause),
        left_ms: one.until.map_or(0, |until| millis(until.since(at))),
    });
    deposed.collect()
}

/// Encodes a failure.
pub(crate) fn failed(failure: Failure) -> v1::Failed {
    let Failure { code, message, cycle, retry } = failure;
    // One more, so that the span is over by then.
    let retry_ms = retry.map(|span| millis(span) + 1);
    v1::Failed { code: code.as_str().to_owned(), message, cycle: links(&cycle), retry_ms }
}

/// Encodes what has happened to a session; nothing if it is no event of sessions.
pub(crate) fn event(event: Event, now: Time) -> Option<ServerMessage> {
    Some(match event {
        Event::Ended { cause, .. } => ServerMessage::Ended(v1::Ended { cause: self::cause(cause) }),
        Event::Released { lock, token, cause, .. } => {
            let (lock, cause) = (lock.to_string(), self::cause(cause));
            ServerMessage::Lost(v1::Lost { lock, token: token.0, cause })
        }
        Event::Wounded { agent, by } => {
            ServerMessage::Wounded(v1::Wounded { owner: agent.owner.0, by: by.session.0 })
        }
        Event::Yield { election, term, by, .. } => {
            let (election, within_ms) = (election.to_string(), millis(by.since(now)));
            ServerMessage::Yield(v1::Yield { election, term: term.0, within_ms })
        }
        Event::Deposed(deposed) => {
            let left_ms = deposed.until.map(|until| millis(until.since(now)));
            let (election, cause) = (deposed.election.to_string(), self::cause(deposed.cause));
            ServerMessage::Deposed(v1::Deposed { election, term: deposed.term.0, cause, left_ms })
        }
        Event::Answered { .. }
        | Event::Granted { .. }
        | Event::Deadlock { .. }
        | Event::Leader { .. } => return None,
    })
}

/// Encodes the leader of an election.
pub(crate) fn leader(leader: &Leader) -> v1::Leader {
    let Leader { election, leadership: held } = leader;
    v1::Leader { election: election.to_string(), leader: held.as_ref().map(leadership) }
}

fn leadership(leadership: &LeadershipAt) -> v1::Leadership {
    let LeadershipAt { who, term, value, lasts, tenure } = leadership;
    let (yields_ms, deposed_ms) = match tenure {
        Tenure::Unquestioned => (None, None),
        Tenure::Yields { left } => (Some(millis(*left)), None),
        Tenure::Deposed { left, .. } => (None, Some(millis(*left))),
    };
    v1::Leadership {
        who: Some(person(who)),
        term: term.0,
        value: value.clone(),
        for_ms: millis(*lasts),
        yields_ms,
        deposed_ms,
    }
}

/// Encodes the state of a node.
pub(crate) fn status(state: NodeState) -> v1::NodeStatus {
    let NodeState { up, deadlocks, counts, trouble, warnings } = state;
    v1::NodeStatus {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        up_ms: millis(up),
        deadlocks,
        sessions: counts.sessions as u64,
        locks: counts.locks as u64,
        holds: counts.holds as u64,
        waits: counts.waits as u64,
        elections: counts.elections as u64,
        trouble: trouble.unwrap_or_default(),
        warnings,
    }
}

fn cause(cause: Cause) -> i32 {
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

/// Answers a request for locks.
pub(crate) fn locks(service: &Service, caller: &Caller, list: &v1::ListLocks) -> v1::LockList {
    let v1::ListLocks { prefix, after, limit } = list;
    let range = Range { prefix, after, limit: *limit };
    let Page { items, more } = service.locks(caller, &range, |at, lock| at.listed_lock(lock));
    v1::LockList { locks: items, more }
}

/// Answers a request for sessions.
pub(crate) fn sessions(
    service: &Service,
    caller: &Caller,
    list: &v1::ListSessions,
) -> Result<v1::SessionList, Failure> {
    let after = SessionId(list.after);
    let page = service.sessions(caller, after, list.limit, |at, session| at.session(session))?;
    Ok(v1::SessionList { sessions: page.items, more: page.more })
}

/// Answers a request for elections.
pub(crate) fn elections(
    service: &Service,
    caller: &Caller,
    list: &v1::ListElections,
) -> v1::ElectionList {
    let v1::ListElections { prefix, after, limit } = list;
    let range = Range { prefix, after, limit: *limit };
    let Page { items, more } =
        service.elections(caller, &range, |at, election| at.election(election));
    v1::ElectionList { elections: items, more }
}

/// Takes a lock from its holders.
pub(crate) async fn force_release(
    service: &Service,
    caller: &Caller,
    take: v1::TakeLock,
) -> Result<v1::Done, Failure> {
    let v1::TakeLock { lock, token, reason } = take;
    service.force_release(caller, lock, token, reason).await.map(|()| v1::Done {})
}

/// Ends a session.
pub(crate) async fn expel(
    service: &Service,
    caller: &Caller,
    end: v1::EndSession,
) -> Result<v1::Done, Failure> {
    let v1::EndSession { session, reason } = end;
    service.expel(caller, SessionId(session), reason).await.map(|()| v1::Done {})
}

/// Ends all sessions of one origin.
pub(crate) async fn expel_all(
    service: &Service,
    caller: &Caller,
    end: v1::EndSessions,
) -> Result<v1::Expelled, Failure> {
    let v1::EndSessions { opened_by, host, address, reason } = end;
    let sessions = service.expel_all(caller, (&opened_by, &host, &address), reason).await?;
    Ok(v1::Expelled { sessions })
}

/// Ends a leadership.
pub(crate) async fn depose(
    service: &Service,
    caller: &Caller,
    end: v1::EndLeadership,
) -> Result<v1::Done, Failure> {
    let v1::EndLeadership { election, reason, barred_ms, at_once } = end;
    let barred = barred_ms.map(Duration::from_millis);
    service.depose(caller, election, barred, at_once, reason).await.map(|()| v1::Done {})
}

/// How many holders and waiters of one lock are listed among others.
const LISTED: usize = 100;

impl MachineAt<'_> {
    /// Encodes a lock as one of several.
    pub(crate) fn listed_lock(self, lock: VisibleLock) -> v1::Lock {
        self.lock(lock, LISTED)
    }

    fn lock(self, lock: VisibleLock, most: usize) -> v1::Lock {
        let VisibleLock { lock, hidden } = lock;
        let (holding, waiting) = (lock.holders.len() as u64, lock.waiters.len() as u64);
        let (kind, of) = match lock.kind {
            // A lock without holders is encoded as an exclusive one.
            Kind::ReadWrite => match lock.holders.first().map(|holder| holder.mode) {
                Some(Mode::Shared) => (v1::Mode::Shared, 0),
                _ => (v1::Mode::Exclusive, 0),
            },
            Kind::Permits(of) => (v1::Mode::Permits, of),
        };
        let waiters = lock.waiters.into_iter().zip(hidden).take(most);
        v1::Lock {
            name: lock.name.to_string(),
            kind: kind.into(),
            of,
            epoch: lock.epoch.0,
            holders: lock.holders.iter().take(most).map(|holder| self.holder(holder)).collect(),
            waiters: waiters.map(|(waiter, hidden)| self.waiter(waiter, hidden)).collect(),
            holding,
            waiting,
        }
    }

    fn holder(self, holder: &HolderView) -> v1::Holder {
        let (mode, permits) = self::mode(holder.mode);
        v1::Holder {
            who: Some(person(&holder.who)),
            mode,
            permits,
            depth: holder.depth,
            token: holder.token.0,
            for_ms: millis(self.ago(holder.since)),
        }
    }

    fn waiter(self, waiter: WaiterView, hidden: u32) -> v1::Waiter {
        let ((mode, permits), upgrade, rank) = match waiter.wants {
            Wants::Hold(mode) => (self::mode(mode), false, 0),
            Wants::Upgrade => (self::mode(Mode::Exclusive), true, 0),
            Wants::Lead { rank } => (self::mode(Mode::Exclusive), false, rank),
        };
        v1::Waiter {
            who: Some(person(&waiter.who)),
            // A number that the machine allotted cannot be cancelled by.
            request: if waiter.request.is_allotted() { 0 } else { waiter.request.0 },
            mode,
            permits,
            upgrade,
            rank,
            for_ms: millis(self.ago(waiter.since)),
            left_ms: waiter.left.map(|left| millis(self.left(left))),
            locks: waiter.locks.iter().map(ToString::to_string).collect(),
            hidden,
        }
    }

    /// Encodes a session.
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
            left_ms: millis(self.left(session.left)),
            for_ms: millis(self.ago(session.opened)),
            priority: session.priority,
            opened_by: session.opened_by.to_string(),
            address: session.address.to_string(),
            holds: session.holds.into_iter().map(held).collect(),
            waits: session.waits.iter().map(ToString::to_string).collect(),
            leads: session.leads.iter().map(ToString::to_string).collect(),
        }
    }

    /// Encodes an election.
    pub(crate) fn election(self, mut election: ElectionView) -> v1::Election {
        let leader = self.leadership(&mut election);
        let candidates = election.candidates.into_iter();
        v1::Election {
            name: election.name.to_string(),
            leader: leader.as_ref().map(leadership),
            candidates: candidates.map(|candidate| self.waiter(candidate, 0)).collect(),
        }
    }

    /// Encodes why a lock cannot be had.
    pub(crate) fn reasons(self, why: VisibleWhy) -> v1::Reasons {
        let VisibleWhy { lock, election, waits, hidden, cycle, forced } = why;
        v1::Reasons {
            lock: lock.map(|lock| self.lock(lock, usize::MAX)),
            waits: waits.iter().map(|edge| self.edge(edge)).collect(),
            cycle: links(&cycle_waits(&cycle, self.machine)),
            forced: forced.iter().map(|forced| self.forced(forced)).collect(),
            hidden,
            election: election.map(|election| self.election(election)),
        }
    }

    /// Encodes the wait-for graph.
    pub(crate) fn graph(self) -> v1::WaitGraph {
        let waits = self.machine.graph();
        let stuck = self.machine.deadlocked();
        v1::WaitGraph {
            waits: waits.iter().map(|edge| self.edge(edge)).collect(),
            stuck: stuck.into_iter().map(|agent| person(&who(agent, self.machine))).collect(),
        }
    }

    fn edge(self, edge: &Edge) -> v1::Edge {
        v1::Edge {
            waiter: Some(person(&who(edge.waiter, self.machine))),
            lock: edge.lock.to_string(),
            on: Some(person(&who(edge.on, self.machine))),
            holds: edge.holds,
            election: edge.election,
        }
    }

    fn forced(self, forced: &Forced) -> v1::Forced {
        v1::Forced {
            ago_ms: millis(self.ago(forced.at)),
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

/// Encodes a deadlock.
pub(crate) fn links(cycle: &[CycleWait]) -> Vec<v1::Link> {
    let link = |wait: &CycleWait| v1::Link {
        waiter: Some(person(&wait.waiter)),
        lock: wait.lock.to_string(),
        election: wait.election,
    };
    cycle.iter().map(link).collect()
}

fn person(who: &Who) -> v1::Who {
    v1::Who {
        session: who.agent.session.0,
        owner: who.agent.owner.0,
        name: who.name.to_string(),
        host: who.host.to_string(),
    }
}
