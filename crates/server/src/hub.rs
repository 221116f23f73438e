//! Who is told what: answers go to whoever asked, events to the stream that a session is attached to
//! and to those who observe an election.
//!
//! All of it happens while a command is carried out, in the order of the log. So nobody hears of a
//! thing before what came earlier, and an observer that has been shown who leads misses no change.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use conclave_api::Code;
use conclave_api::v1::{self, tell::What as Told};
use conclave_machine::{
    Cause, Deposed, Error, Event, Machine, Name, Reply, RequestId, SessionId, Time, Token,
};
use tokio::sync::oneshot;

use crate::outbound::{Open, Outbound};
use crate::translate::{self, Eye};

/// Who is to be told what comes of a command.
pub(crate) enum Target {
    /// Nobody.
    Nobody,
    /// A task of this process.
    Task(oneshot::Sender<Result<Result<Reply, Error>, String>>),
    /// A client that asked this alone.
    Caller(oneshot::Sender<Told>),
    /// A client that made a request as a single call, when that has been answered for good.
    Call(SingleCall),
    /// An operator of this name, as soon as it is done.
    Operator(String, oneshot::Sender<Told>),
    /// A client's stream.
    Stream(Asker),
    /// All who want sessions to live on.
    Alive(Vec<Renewal>),
}

/// Sessions that somebody wants to live on.
pub(crate) struct Renewal {
    pub(crate) sessions: Vec<SessionId>,
    /// Those that are not that one's, or not any more.
    pub(crate) strange: Vec<SessionId>,
    pub(crate) target: Target,
}

/// A request that was made as a single call.
pub(crate) struct SingleCall {
    pub(crate) told: oneshot::Sender<Told>,
    /// Where the number goes that the request has in the log.
    pub(crate) number: oneshot::Sender<RequestId>,
}

/// Whoever asked something over a stream, and waits for the answer.
pub(crate) struct Asker {
    pub(crate) open: Open,
    pub(crate) session: u64,
    pub(crate) id: u64,
    /// Whether it wants to know that it waits.
    pub(crate) tell_waiting: bool,
    /// The key of the session that it asked for.
    pub(crate) key: u64,
}

impl Asker {
    fn tell(&self, what: Told) {
        self.open.way().tell(self.session, self.id, what);
    }
}

/// Who listens to what.
#[derive(Default)]
pub(crate) struct Hub {
    /// Who waits for the outcome of which batch of commands, and when each was received.
    proposed: BTreeMap<u64, Vec<(Target, Instant)>>,
    /// Where a session's client is.
    sessions: BTreeMap<SessionId, Outbound>,
    /// Who else is told what happens to a session.
    listeners: BTreeMap<SessionId, Vec<Outbound>>,
    /// Who waits for the answer to a single request.
    callers: BTreeMap<(SessionId, RequestId), oneshot::Sender<Told>>,
    observers: BTreeMap<Name, Vec<Outbound>>,
    /// What each connection has to do with.
    connections: BTreeMap<u64, Interests>,
}

/// What a connection is told about.
#[derive(Default)]
struct Interests {
    sessions: BTreeSet<SessionId>,
    listens: BTreeSet<SessionId>,
    elections: BTreeSet<Name>,
}

impl Hub {
    /// These are to be told what comes of a batch, command by command.
    pub(crate) fn expect(&mut self, batch: u64, targets: Vec<(Target, Instant)>) {
        self.proposed.insert(batch, targets);
    }

    /// Those who wait for a batch that is being carried out.
    pub(crate) fn expected(
        &mut self,
        batch: u64,
    ) -> Option<impl Iterator<Item = (Target, Instant)> + use<>> {
        self.proposed.remove(&batch).map(Vec::into_iter)
    }

    /// A batch has not been written, or nobody knows whether it has.
    pub(crate) fn give_up(&mut self, batch: u64, why: &str) {
        for (target, _) in self.expected(batch).into_iter().flatten() {
            refuse(target, why);
        }
    }

    /// From now on, what happens to a session goes there, and nowhere else.
    pub(crate) fn attach(&mut self, session: SessionId, to: &Outbound) {
        // It may be forgotten already, and would not be again.
        if to.is_over() {
            return;
        }
        self.detach(session);
        self.sessions.insert(session, to.clone());
        self.connections.entry(to.connection()).or_default().sessions.insert(session);
    }

    /// Tells a session what it leads and was asked to yield, and where it was deposed, for it may not have
    /// heard that.
    pub(crate) fn remind(&self, session: SessionId, machine: &Machine, now: Time) {
        for (election, term, by) in machine.asked_to_yield(session) {
            self.push(session, 0, || ask_to_yield(election, term, by.since(now)));
        }
        for deposed in machine.deposed(session) {
            self.push(session, 0, || tell_deposed(&deposed, now));
        }
    }

    fn detach(&mut self, session: SessionId) {
        if let Some(to) = self.sessions.remove(&session)
            && let Some(interests) = self.connections.get_mut(&to.connection())
        {
            interests.sessions.remove(&session);
        }
    }

    /// Whether what happens to a session goes there.
    pub(crate) fn is_attached(&self, session: SessionId, to: &Outbound) -> bool {
        self.sessions.get(&session).is_some_and(|other| other.connection() == to.connection())
    }

    /// How many sessions are attached to a connection.
    pub(crate) fn attached(&self, to: &Outbound) -> usize {
        self.connections.get(&to.connection()).map_or(0, |interests| interests.sessions.len())
    }

    /// From now on, what happens to a session goes there, too. Says to how many that makes.
    pub(crate) fn listen(&mut self, session: SessionId, to: &Outbound) -> usize {
        if to.is_over() {
            return 0;
        }
        let interests = self.connections.entry(to.connection()).or_default();
        let listeners = self.listeners.entry(session).or_default();
        if interests.listens.insert(session) {
            listeners.push(to.clone());
        }
        listeners.len()
    }

    /// From now on, changes of an election go there, too. Says how many elections that makes.
    pub(crate) fn observe(&mut self, election: &Name, to: &Outbound) -> usize {
        if to.is_over() {
            return 0;
        }
        let interests = self.connections.entry(to.connection()).or_default();
        if interests.elections.insert(election.clone()) {
            self.observers.entry(election.clone()).or_default().push(to.clone());
        }
        interests.elections.len()
    }

    /// Changes of an election go there no more.
    pub(crate) fn unobserve(&mut self, election: &str, connection: u64) {
        if let Some(interests) = self.connections.get_mut(&connection) {
            interests.elections.remove(election);
        }
        if let Some(observers) = self.observers.get_mut(election) {
            observers.retain(|to| to.connection() != connection);
            if observers.is_empty() {
                self.observers.remove(election);
            }
        }
    }

    /// A connection is over. Its sessions live on for as long as they have.
    pub(crate) fn forget(&mut self, connection: u64) {
        let Some(interests) = self.connections.remove(&connection) else { return };
        for session in interests.sessions {
            self.sessions.remove(&session);
        }
        for session in interests.listens {
            if let Some(listeners) = self.listeners.get_mut(&session) {
                listeners.retain(|to| to.connection() != connection);
                if listeners.is_empty() {
                    self.listeners.remove(&session);
                }
            }
        }
        for election in interests.elections {
            self.unobserve(&election, connection);
        }
    }

    /// Tells whoever gave a command what has come of it.
    pub(crate) fn answer(
        &mut self,
        target: Target,
        asked: Option<(SessionId, RequestId)>,
        answer: Result<Reply, Error>,
        machine: &Machine,
    ) {
        match target {
            Target::Nobody => {}
            // Whoever has stopped waiting need not be told.
            Target::Task(task) => drop(task.send(Ok(answer))),
            Target::Caller(caller) | Target::Operator(_, caller) => {
                drop(caller.send(translate::answer(answer, machine)));
            }
            Target::Call(SingleCall { told, number }) => {
                if let Some((_, request)) = asked {
                    let _ = number.send(request);
                }
                match (asked, &answer) {
                    (Some(asked), Ok(Reply::Waiting)) => self.await_answer(asked, Some(told)),
                    _ => drop(told.send(translate::answer(answer, machine))),
                }
            }
            Target::Stream(asker) => {
                // Who asks again for its session, or to lead, may have missed that it is to yield.
                let reminded = match answer {
                    Ok(Reply::Opened { session, .. }) => Some(session),
                    Ok(Reply::Elected { .. }) => Some(SessionId(asker.session)),
                    _ => None,
                };
                if let Ok(Reply::Opened { session, .. }) = answer {
                    self.attach(session, asker.open.way());
                }
                if let (Some(asked), Ok(Reply::Waiting)) = (asked, &answer) {
                    self.await_answer(asked, None);
                }
                if answer != Ok(Reply::Waiting) || asker.tell_waiting {
                    let mut told = translate::answer(answer, machine);
                    if let Told::Opened(opened) = &mut told {
                        opened.key = asker.key;
                    }
                    asker.tell(told);
                    if let Some(session) = reminded {
                        self.remind(session, machine, machine.now());
                    }
                }
            }
            Target::Alive(all) => {
                let (gone, deposed) = match &answer {
                    Ok(Reply::Alive { gone, deposed }) => (gone.as_slice(), deposed.as_slice()),
                    _ => (&[][..], &[][..]),
                };
                for Renewal { mut sessions, strange, target } in all {
                    let deposed = deposed.iter().filter(|one| sessions.contains(&one.session));
                    let deposed = deposed.cloned().collect();
                    sessions.retain(|session| gone.binary_search(session).is_ok());
                    sessions.extend(strange);
                    let alive = Reply::Alive { gone: sessions, deposed };
                    self.answer(target, None, Ok(alive), machine);
                }
            }
        }
    }

    /// A request waits, and this call awaits its answer; without one, the session's stream does. Whoever did so
    /// before is told that it does no more.
    fn await_answer(&mut self, asked: (SessionId, RequestId), call: Option<oneshot::Sender<Told>>) {
        let before = match call {
            Some(call) => self.callers.insert(asked, call),
            None => self.callers.remove(&asked),
        };
        if let Some(before) = before {
            let message = "the same request was made again over another connection, which awaits the answer now";
            drop(before.send(Told::Failed(translate::failed(Code::Superseded, message))));
        }
    }

    /// Tells those whose wait is over, and leaves other events.
    pub(crate) fn announce_answers(&mut self, events: &mut Vec<Event>, eye: Eye<'_>) {
        for event in events.extract_if(.., |event| matches!(event, Event::Answered { .. })) {
            self.tell(event, eye);
        }
    }

    /// Tells those concerned what has happened.
    pub(crate) fn announce(&mut self, events: Vec<Event>, eye: Eye<'_>) {
        for event in events {
            self.tell(event, eye);
        }
    }

    fn tell(&mut self, event: Event, eye: Eye<'_>) {
        let machine = eye.machine;
        match event {
            Event::Answered { session, request, answer } => {
                if let Some(caller) = self.callers.remove(&(session, request)) {
                    drop(caller.send(translate::answer(answer, machine)));
                } else if !request.is_allotted() {
                    self.push(session, request.0, || translate::answer(answer, machine));
                }
            }
            Event::Ended { session, cause } => {
                self.push(session, 0, || ended(cause));
                self.detach(session);
                // Nothing can happen to it any more.
                for to in self.listeners.remove(&session).unwrap_or_default() {
                    to.end();
                }
            }
            // Whatever else ends a hold is known to its holder, or ends its session.
            Event::Released { lock, agent, token, cause: cause @ Cause::Forced } => {
                let (lock, cause) = (lock.to_string(), translate::cause(cause));
                let lost = v1::Lost { lock, token: token.0, cause };
                self.push(agent.session, 0, || Told::Lost(lost));
            }
            Event::Wounded { agent, by } => {
                let wounded = v1::Wounded { owner: agent.owner.0, by: by.session.0 };
                self.push(agent.session, 0, || Told::Wounded(wounded));
            }
            Event::Leader { election, .. } => self.tell_observers(&election, eye),
            Event::Yield { election, session, term, by } => {
                let within = by.since(machine.now());
                self.push(session, 0, || ask_to_yield(&election, term, within));
            }
            Event::Deposed(deposed) => {
                self.push(deposed.session, 0, || tell_deposed(&deposed, machine.now()));
            }
            // Of deadlocks, operators are told; who was refused has been answered.
            Event::Granted { .. } | Event::Released { .. } | Event::Deadlock { .. } => {}
        }
    }

    fn push(&self, session: SessionId, id: u64, what: impl FnOnce() -> Told) {
        let listeners = self.listeners.get(&session).filter(|_| id == 0);
        match (self.sessions.get(&session), listeners) {
            (None, None) => {}
            (Some(to), None) => to.tell(session.0, id, what()),
            (to, Some(listeners)) => {
                let what = what();
                for to in to.into_iter().chain(listeners) {
                    to.tell(session.0, id, what.clone());
                }
            }
        }
    }

    fn tell_observers(&self, election: &Name, eye: Eye<'_>) {
        if let Some(observers) = self.observers.get(election) {
            let leader = eye.leader(election);
            for to in observers {
                to.tell(0, 0, Told::Leader(leader.clone()));
            }
        }
    }
}

fn ask_to_yield(election: &Name, term: Token, within: Duration) -> Told {
    let (election, within_ms) = (election.to_string(), translate::millis(within));
    Told::Yield(v1::Yield { election, term: term.0, within_ms })
}

fn tell_deposed(deposed: &Deposed, now: Time) -> Told {
    let left_ms = deposed.until.map(|until| translate::millis(until.since(now)));
    let (election, cause) = (deposed.election.to_string(), translate::cause(deposed.cause));
    Told::Deposed(v1::Deposed { election, term: deposed.term.0, cause, left_ms })
}

fn ended(cause: Cause) -> Told {
    Told::Ended(v1::Ended { cause: translate::cause(cause) })
}

/// Tells whoever asked that nothing is known to have come of it.
pub(crate) fn refuse(target: Target, why: &str) {
    let failed = || Told::Failed(translate::failed(Code::Unavailable, why));
    match target {
        Target::Nobody => {}
        Target::Task(task) => drop(task.send(Err(why.to_owned()))),
        Target::Caller(caller)
        | Target::Operator(_, caller)
        | Target::Call(SingleCall { told: caller, .. }) => drop(caller.send(failed())),
        Target::Stream(asker) => asker.tell(failed()),
        Target::Alive(all) => all.into_iter().for_each(|renewal| refuse(renewal.target, why)),
    }
}
