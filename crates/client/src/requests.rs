//! Requests of sessions, and their repetition.
//!
//! A request has a number. After a reconnect, all requests without an answer are repeated under their numbers, in their
//! order; the server carries none out twice. When a caller stops waiting for an answer, the request is cancelled, or
//! what it was granted is released.

use conclave_api::v1::ask::What as Operation;
use conclave_api::v1::{self, Ask};
use tokio::sync::oneshot;

use crate::handles::{Hold, Term};
use crate::state::{ATTACH, Outcome, Request, SessionState, State};
use crate::{Error, Loss};

pub(crate) type Answer = Result<Outcome, Error>;

impl SessionState {
    /// All answers up to this number are there.
    fn received(&self) -> u64 {
        self.requests.first_key_value().map_or(self.last, |(&number, _)| number - 1)
    }

    pub(crate) fn add(&mut self, mut request: Request) -> u64 {
        if let Operation::Acquire(acquire) = &mut request.operation {
            // Until it is told that it waits, it takes up room in the window.
            acquire.tell_waiting |= acquire.reentrant;
        }
        self.last += 1;
        self.requests.insert(self.last, request);
        self.last
    }

    /// A request is answered, or its answer is not awaited any more.
    pub(crate) fn remove(&mut self, number: u64) -> Option<Request> {
        self.leave_window(number);
        self.requests.remove(&number)
    }

    /// The answer to a request takes up no room any more.
    pub(crate) fn leave_window(&mut self, number: u64) {
        if let Some(request) = self.requests.get_mut(&number)
            && std::mem::take(&mut request.in_window)
        {
            self.open -= 1;
        }
    }

    /// Whether there is room for the answer to a request, and whether all requests before it are on their way.
    fn admits(&self, number: u64) -> bool {
        let counts = self.requests.get(&number).is_some_and(Request::is_answered_at_once);
        self.held_back.is_empty() && (!counts || self.open < self.window)
    }

    /// A request is sent.
    fn enter_window(&mut self, number: u64) {
        if let Some(request) = self.requests.get_mut(&number) {
            request.sent = true;
            if request.is_answered_at_once() && !request.in_window {
                request.in_window = true;
                self.open += 1;
            }
        }
    }
}

impl Request {
    pub(crate) fn new(operation: Operation, reply: Option<oneshot::Sender<Answer>>) -> Self {
        Self { operation, reply, waits: None, sent: false, in_window: false, abandoned: false }
    }

    /// Whether it is to be granted at once or not at all.
    pub(crate) fn is_impatient(&self) -> bool {
        match &self.operation {
            Operation::Acquire(acquire) => acquire.timeout_ms == Some(0),
            Operation::Campaign(campaign) => campaign.timeout_ms == Some(0),
            _ => false,
        }
    }

    /// Whether its answer is the only thing that tells what came of it: it does not wait, or holds once more what
    /// is held.
    fn is_answered_at_once(&self) -> bool {
        match &self.operation {
            Operation::Acquire(acquire) => acquire.reentrant || acquire.timeout_ms == Some(0),
            Operation::Campaign(campaign) => campaign.timeout_ms == Some(0),
            Operation::Upgrade(upgrade) => upgrade.timeout_ms == Some(0),
            _ => true,
        }
    }

    /// Whether it is repeated over a new connection. Of what was given up, its cancellation is.
    fn is_repeated(&self) -> bool {
        !self.abandoned || matches!(self.operation, Operation::Upgrade(_))
    }
}

impl State {
    /// Makes a request of a session, and returns its number.
    pub(crate) fn request(
        &mut self,
        session: u64,
        operation: Operation,
        reply: Option<oneshot::Sender<Answer>>,
        waits: Option<oneshot::Sender<()>>,
    ) -> Option<u64> {
        let session_state = self
            .sessions
            .get_mut(&session)
            .filter(|session_state| session_state.closing.is_none())?;
        if let Operation::Upgrade(v1::Upgrade { token, .. })
        | Operation::Downgrade(v1::Downgrade { token, .. }) = &operation
            && let Some(held) = session_state.holds.get_mut(token)
        {
            held.changing = true;
        }
        let number = session_state.add(Request { waits, ..Request::new(operation, reply) });
        self.send_request(session, number);
        Some(number)
    }

    pub(crate) fn send_request(&mut self, session: u64, number: u64) {
        let Some(session_state) = self.sessions.get_mut(&session) else { return };
        if session_state.paused.is_some() || self.outbox.is_none() {
            return;
        }
        if !session_state.admits(number) {
            session_state.held_back.push_back(number);
            return;
        }
        session_state.enter_window(number);
        let received = session_state.received();
        let Some(request) = session_state.requests.get(&number) else { return };
        let what = Some(request.operation.clone());
        self.send(Ask { session, id: number, received, what, key: 0 });
    }

    /// Sends what was held back, as far as there is room for the answers.
    pub(crate) fn send_held_back(&mut self, session: u64) {
        let Some(session_state) = self.sessions.get_mut(&session) else { return };
        let mut waiting = std::mem::take(&mut session_state.held_back);
        while let Some(number) = waiting.pop_front() {
            let Some(session_state) = self.sessions.get_mut(&session) else { return };
            if !session_state.admits(number) {
                waiting.push_front(number);
                session_state.held_back = waiting;
                return;
            }
            self.send_request(session, number);
        }
    }

    /// Gives up waiting for the answer to a request. If that came just now, what came of it is given back.
    pub(crate) fn abandon(
        &mut self,
        session: u64,
        number: u64,
        answer: &mut oneshot::Receiver<Answer>,
    ) {
        answer.close();
        match answer.try_recv() {
            Ok(Ok(Outcome::Held(hold))) => return self.release(session, &hold),
            Ok(Ok(Outcome::Leads(term))) => return self.resign(session, &term),
            Ok(_) => return,
            Err(_) => {}
        }
        let Some(session_state) = self.sessions.get(&session) else { return };
        if session_state.requests.contains_key(&number) {
            return self.give_up(session, number);
        }
        // It was asked again under another number.
        let closed =
            |request: &Request| request.reply.as_ref().is_some_and(oneshot::Sender::is_closed);
        let again = session_state.requests.iter().find(|(_, request)| closed(request));
        if let Some((&number, _)) = again {
            self.give_up(session, number);
        }
    }

    /// Cancels a request.
    pub(crate) fn give_up(&mut self, session: u64, number: u64) {
        let Some(session_state) = self.sessions.get_mut(&session) else { return };
        let Some(request) = session_state.requests.get_mut(&number) else { return };
        (request.reply, request.waits) = (None, None);
        match request.operation.clone() {
            Operation::Acquire(_) | Operation::Campaign(_) if !request.sent => {
                session_state.remove(number);
            }
            Operation::Acquire(_) | Operation::Campaign(_) => {
                request.abandoned = true;
                let cancel = Operation::Cancel(v1::Cancel { request: number });
                self.request(session, cancel, None, None);
            }
            Operation::Upgrade(v1::Upgrade { token, .. }) => {
                // Which token it has by now is unknown, so it is released with either.
                request.abandoned = true;
                if let Some(held) = session_state.holds.remove(&token) {
                    held.hold.loss.set(Loss::Abandoned);
                }
                self.request(session, Operation::ReleaseAll(v1::ReleaseAll { token }), None, None);
            }
            // The others are carried out or not, without a caller.
            _ => {}
        }
    }

    /// Gives back one level of a hold.
    pub(crate) fn release(&mut self, session: u64, hold: &Hold) {
        if let Some(operation) = self.release_of(session, hold, None) {
            self.request(session, operation, None, None);
        }
    }

    /// The request that releases one level of a hold, if one is needed.
    pub(crate) fn release_of(
        &mut self,
        session: u64,
        hold: &Hold,
        to: Option<u64>,
    ) -> Option<Operation> {
        let token = hold.token();
        let session_state = self.sessions.get_mut(&session)?;
        if let Some(held) = session_state.holds.get_mut(&token)
            && to.is_none()
        {
            held.levels -= 1;
            if held.levels == 0 {
                session_state.holds.remove(&token);
            }
        }
        match (hold.locks.as_slice(), hold.loss.get()) {
            ([_], Some(_)) => None,
            ([lock], None) => {
                Some(Operation::Release(v1::Release { lock: lock.clone(), token, to }))
            }
            // If one of several was lost, the others were not.
            _ => Some(Operation::ReleaseAll(v1::ReleaseAll { token })),
        }
    }

    /// Leads no more.
    pub(crate) fn resign(&mut self, session: u64, term: &Term) {
        if let Some(operation) = self.resignation_of(session, term) {
            self.request(session, operation, None, None);
        }
    }

    /// The request that ends a leadership, or confirms that it is over.
    pub(crate) fn resignation_of(&mut self, session: u64, term: &Term) -> Option<Operation> {
        let led = self.sessions.get_mut(&session)?.terms.remove(&term.number);
        led.map(|_| {
            let (election, term) = (term.election.clone(), term.number);
            Operation::Resign(v1::Resign { election, term })
        })
    }

    /// Asks whether a lock is still held by repeating the request that it was granted to: the answer says it.
    pub(crate) fn confirm(&self, session: u64, token: u64) {
        let Some(session_state) = self.sessions.get(&session) else { return };
        if let Some(held) = session_state.holds.get(&token) {
            let (id, received) = (held.request, session_state.received());
            self.send(Ask { session, id, received, key: 0, what: Some(held.operation.clone()) });
        }
    }

    /// Sends everything of a session again that the server may not have received, over a new connection.
    pub(crate) fn repeat(&mut self, session: u64) {
        let Some(session_state) = self.sessions.get_mut(&session) else { return };
        session_state.paused = None;
        let (key, received) = (session_state.key, session_state.received());
        let attach = Some(Operation::Attach(v1::Attach {}));
        let mut messages = vec![Ask { session, id: ATTACH, key, what: attach, received: 0 }];
        if session_state.closing.is_none() {
            // The server could not send what was lost meanwhile: the answers to these repetitions say it.
            let held = session_state.holds.values().filter(|held| !held.changing);
            let held = held.map(|held| (held.request, &held.operation));
            let led = session_state.terms.values().filter(|led| !led.over);
            let led = led.map(|led| (led.request, &led.operation));
            for (id, operation) in held.chain(led) {
                messages.push(Ask { session, id, received, key: 0, what: Some(operation.clone()) });
            }
            session_state.open = 0;
            session_state.held_back.clear();
            session_state.requests.values_mut().for_each(|request| request.in_window = false);
            let again = session_state.requests.iter().filter(|(_, request)| request.is_repeated());
            for id in again.map(|(&id, _)| id).collect::<Vec<_>>() {
                if !session_state.admits(id) {
                    session_state.held_back.push_back(id);
                    continue;
                }
                session_state.enter_window(id);
                let what = Some(session_state.requests[&id].operation.clone());
                messages.push(Ask { session, id, received, key: 0, what });
            }
        }
        let closing = session_state.closing.is_some();
        messages.into_iter().for_each(|ask| self.send(ask));
        if closing {
            self.send_close(session);
        }
    }
}
