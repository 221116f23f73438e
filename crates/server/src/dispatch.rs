//! Delivers answers and events: an answer goes to the client that asked, an event to the stream that a session is
//! attached to, to those who listen to the session, and to those who observe an election.
//!
//! All of it happens while a command is applied, in the order of the log. So no client hears of an event before
//! earlier ones, and an observer that has been shown the leader misses no change.
//!
//! Nothing here is in the words of a wire format: replies, errors and events are the machine's, and the front end that
//! reads a client's queue encodes them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use conclave_api::Code;
use conclave_machine::{Cause, Error, Event, Machine, Name, Reply, RequestId, SessionId, Time};
use tokio::sync::oneshot;

use crate::answer::{Answer, Failure, answer};
use crate::client_queue::{ClientQueue, Delivery, OpenQuestion, Question};
use crate::state::MachineAt;

/// Where the answer to a command goes.
pub(crate) enum Target {
    /// Nowhere.
    Discard,
    /// To a task of this process.
    Task(oneshot::Sender<Result<Result<Reply, Error>, String>>),
    /// To a client that awaits nothing but this answer.
    Caller(oneshot::Sender<Answer>),
    /// To a client that made a request as a single call, when the request waits no longer.
    Call(SingleCall),
    /// To the operator of this name.
    Operator(String, oneshot::Sender<Answer>),
    /// To a client's stream.
    Stream(Asker),
    /// To all clients whose sessions are renewed together.
    Renewals(Vec<Renewal>),
}

/// Sessions that a client renews.
pub(crate) struct Renewal {
    pub(crate) sessions: Vec<SessionId>,
    /// Sessions that it named and that are not attached to its connection.
    pub(crate) strange: Vec<SessionId>,
    pub(crate) target: Target,
}

/// A request that was made as a single call.
pub(crate) struct SingleCall {
    pub(crate) answer: oneshot::Sender<Answer>,
    /// Where the number goes that the request has in the log.
    pub(crate) number: oneshot::Sender<RequestId>,
}

/// A client that asked over a stream.
pub(crate) struct Asker {
    pub(crate) open: OpenQuestion,
    pub(crate) question: Question,
    /// Whether the client wants to know that its request waits.
    pub(crate) tell_waiting: bool,
}

impl Asker {
    fn tell(&self, answer: Answer) {
        self.open.queue().push(Delivery::Answer(self.question, answer));
    }
}

/// Which client gets which answers and events.
#[derive(Default)]
pub(crate) struct Dispatch {
    /// Where the answers to each batch of commands go, and when each command was received.
    proposed: BTreeMap<u64, Vec<(Target, Instant)>>,
    /// The stream that each session is attached to.
    sessions: BTreeMap<SessionId, ClientQueue>,
    /// Clients that get a session's events besides.
    listeners: BTreeMap<SessionId, Vec<ClientQueue>>,
    /// Single calls whose requests wait.
    callers: BTreeMap<(SessionId, RequestId), oneshot::Sender<Answer>>,
    observers: BTreeMap<Name, Vec<ClientQueue>>,
    /// What each connection is registered for.
    connections: BTreeMap<u64, Registrations>,
}

/// The sessions and elections that a connection is registered for.
#[derive(Default)]
struct Registrations {
    sessions: BTreeSet<SessionId>,
    listens: BTreeSet<SessionId>,
    elections: BTreeSet<Name>,
}

impl Dispatch {
    /// The answers to a batch go to these targets, command by command.
    pub(crate) fn expect(&mut self, batch: u64, targets: Vec<(Target, Instant)>) {
        self.proposed.insert(batch, targets);
    }

    /// The targets of a batch that is being applied.
    pub(crate) fn expected(
        &mut self,
        batch: u64,
    ) -> Option<impl Iterator<Item = (Target, Instant)> + use<>> {
        self.proposed.remove(&batch).map(Vec::into_iter)
    }

    /// Fails all commands of a batch with an unknown outcome: it may or may not have been committed.
    pub(crate) fn give_up(&mut self, batch: u64, why: &str) {
        for (target, _) in self.expected(batch).into_iter().flatten() {
            refuse(target, why);
        }
    }

    /// Attaches a session to a stream, which gets its events from now on; the one before gets them no longer.
    pub(crate) fn attach(&mut self, session: SessionId, queue: &ClientQueue) {
        // A stream that is over has been forgotten already, and would not be again.
        if queue.is_over() {
            return;
        }
        self.detach(session);
        self.sessions.insert(session, queue.clone());
        self.connections.entry(queue.connection()).or_default().sessions.insert(session);
    }

    /// Sends a session again that it was asked to yield, and where it was deposed, for its client may not have
    /// received that.
    pub(crate) fn remind(&self, session: SessionId, machine: &Machine, now: Time) {
        for (election, term, by) in machine.asked_to_yield(session) {
            let election = election.clone();
            self.notify(session, Event::Yield { election, session, term, by }, now);
        }
        for deposed in machine.deposed(session) {
            self.notify(session, Event::Deposed(deposed), now);
        }
    }

    fn detach(&mut self, session: SessionId) {
        if let Some(queue) = self.sessions.remove(&session)
            && let Some(registrations) = self.connections.get_mut(&queue.connection())
        {
            registrations.sessions.remove(&session);
        }
    }

    /// Whether a session is attached to a stream.
    pub(crate) fn is_attached(&self, session: SessionId, queue: &ClientQueue) -> bool {
        self.sessions.get(&session).is_some_and(|other| other.connection() == queue.connection())
    }

    /// How many sessions are attached to a connection.
    pub(crate) fn attached(&self, queue: &ClientQueue) -> usize {
        self.connections
            .get(&queue.connection())
            .map_or(0, |registrations| registrations.sessions.len())
    }

    /// Sends a session's events to this client, too, from now on. Says how many listeners the session has then.
    pub(crate) fn listen(&mut self, session: SessionId, queue: &ClientQueue) -> usize {
        if queue.is_over() {
            return 0;
        }
        let registrations = self.connections.entry(queue.connection()).or_default();
        let listeners = self.listeners.entry(session).or_default();
        if registrations.listens.insert(session) {
            listeners.push(queue.clone());
        }
        listeners.len()
    }

    /// Sends changes of an election to this client, too, from now on. Says how many elections it observes then.
    pub(crate) fn observe(&mut self, election: &Name, queue: &ClientQueue) -> usize {
        if queue.is_over() {
            return 0;
        }
        let registrations = self.connections.entry(queue.connection()).or_default();
        if registrations.elections.insert(election.clone()) {
            self.observers.entry(election.clone()).or_default().push(queue.clone());
        }
        registrations.elections.len()
    }

    /// Ends the observation of an election by a connection.
    pub(crate) fn unobserve(&mut self, election: &str, connection: u64) {
        if let Some(registrations) = self.connections.get_mut(&connection) {
            registrations.elections.remove(election);
        }
        if let Some(observers) = self.observers.get_mut(election) {
            observers.retain(|queue| queue.connection() != connection);
            if observers.is_empty() {
                self.observers.remove(election);
            }
        }
    }

    /// Removes a connection that is over. Its sessions live on until their leases end.
    pub(crate) fn forget(&mut self, connection: u64) {
        let Some(registrations) = self.connections.remove(&connection) else { return };
        for session in registrations.sessions {
            self.sessions.remove(&session);
        }
        for session in registrations.listens {
            if let Some(listeners) = self.listeners.get_mut(&session) {
                listeners.retain(|queue| queue.connection() != connection);
                if listeners.is_empty() {
                    self.listeners.remove(&session);
                }
            }
        }
        for election in registrations.elections {
            self.unobserve(&election, connection);
        }
    }

    /// Sends the answer to a command.
    pub(crate) fn answer(
        &mut self,
        target: Target,
        asked: Option<(SessionId, RequestId)>,
        result: Result<Reply, Error>,
        machine: &Machine,
    ) {
        match target {
            Target::Discard => {}
            // A receiver that has stopped waiting needs no answer.
            Target::Task(task) => drop(task.send(Ok(result))),
            Target::Caller(caller) | Target::Operator(_, caller) => {
                drop(caller.send(answer(result, machine)));
            }
            Target::Call(SingleCall { answer: caller, number }) => {
                if let Some((_, request)) = asked {
                    let _ = number.send(request);
                }
                match (asked, &result) {
                    (Some(asked), Ok(Reply::Waiting)) => self.await_answer(asked, Some(caller)),
                    _ => drop(caller.send(answer(result, machine))),
                }
            }
            Target::Stream(asker) => {
                // A client that opens its session again, or campaigns again, may have missed that it is to yield.
                let reminded = match result {
                    Ok(Reply::Opened { session, .. }) => Some(session),
                    Ok(Reply::Elected { .. }) => Some(asker.question.session),
                    _ => None,
                };
                if let Ok(Reply::Opened { session, .. }) = result {
                    self.attach(session, asker.open.queue());
                }
                if let (Some(asked), Ok(Reply::Waiting)) = (asked, &result) {
                    self.await_answer(asked, None);
                }
                if result != Ok(Reply::Waiting) || asker.tell_waiting {
                    asker.tell(answer(result, machine));
                    if let Some(session) = reminded {
                        self.remind(session, machine, machine.now());
                    }
                }
            }
            Target::Renewals(all) => {
                let (gone, deposed) = match &result {
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

    /// A request waits, and this call awaits its answer; without one, the session's stream does. The call that awaited
    /// it before fails as superseded.
    fn await_answer(
        &mut self,
        asked: (SessionId, RequestId),
        call: Option<oneshot::Sender<Answer>>,
    ) {
        let before = match call {
            Some(call) => self.callers.insert(asked, call),
            None => self.callers.remove(&asked),
        };
        if let Some(before) = before {
            let message = "the same request was made again over another connection, which awaits the answer now";
            drop(before.send(Err(Failure::new(Code::Superseded, message))));
        }
    }

    /// Sends the answers to requests that waited, and leaves other events.
    pub(crate) fn announce_answers(&mut self, events: &mut Vec<Event>, at: MachineAt<'_>) {
        for event in events.extract_if(.., |event| matches!(event, Event::Answered { .. })) {
            self.deliver(event, at);
        }
    }

    /// Sends events to the clients that they concern.
    pub(crate) fn announce(&mut self, events: Vec<Event>, at: MachineAt<'_>) {
        for event in events {
            self.deliver(event, at);
        }
    }

    fn deliver(&mut self, event: Event, at: MachineAt<'_>) {
        let machine = at.machine;
        match event {
            Event::Answered { session, request, answer: result } => {
                if let Some(caller) = self.callers.remove(&(session, request)) {
                    drop(caller.send(answer(result, machine)));
                } else if !request.is_allotted()
                    && let Some(queue) = self.sessions.get(&session)
                {
                    let question = Question { session, id: request.0, key: 0 };
                    queue.push(Delivery::Answer(question, answer(result, machine)));
                }
            }
            Event::Ended { session, .. } => {
                self.notify(session, event, machine.now());
                self.detach(session);
                // A session that has ended has no more events.
                for queue in self.listeners.remove(&session).unwrap_or_default() {
                    queue.end();
                }
            }
            // Whatever else ends a hold is known to its holder, or ends its session.
            Event::Released { agent, cause: Cause::Forced, .. } | Event::Wounded { agent, .. } => {
                self.notify(agent.session, event, machine.now());
            }
            Event::Leader { election, .. } => self.tell_observers(&election, at),
            Event::Yield { session, .. } => self.notify(session, event, machine.now()),
            Event::Deposed(ref deposed) => {
                let session = deposed.session;
                self.notify(session, event, machine.now());
            }
            // Deadlocks go to the operators' log; the client that was refused has its answer.
            Event::Granted { .. } | Event::Released { .. } | Event::Deadlock { .. } => {}
        }
    }

    /// Sends an event of a session to the stream that it is attached to, and to its listeners.
    fn notify(&self, session: SessionId, event: Event, now: Time) {
        let queue = self.sessions.get(&session);
        match self.listeners.get(&session) {
            None => {
                if let Some(queue) = queue {
                    queue.push(Delivery::Event { session, event, now });
                }
            }
            Some(listeners) => {
                for queue in queue.into_iter().chain(listeners) {
                    queue.push(Delivery::Event { session, event: event.clone(), now });
                }
            }
        }
    }

    fn tell_observers(&self, election: &Name, at: MachineAt<'_>) {
        if let Some(observers) = self.observers.get(election) {
            let leader = Arc::new(at.leader(election));
            for queue in observers {
                queue.push(Delivery::Leader { id: 0, leader: leader.clone() });
            }
        }
    }
}

/// Fails a command as unavailable: it was not committed, or it is not known whether it was.
pub(crate) fn refuse(target: Target, why: &str) {
    let failure = || Err(Failure::new(Code::Unavailable, why));
    match target {
        Target::Discard => {}
        Target::Task(task) => drop(task.send(Err(why.to_owned()))),
        Target::Caller(caller)
        | Target::Operator(_, caller)
        | Target::Call(SingleCall { answer: caller, .. }) => drop(caller.send(failure())),
        Target::Stream(asker) => asker.tell(failure()),
        Target::Renewals(all) => all.into_iter().for_each(|renewal| refuse(renewal.target, why)),
    }
}
