//! The state of a client: its sessions, what they hold, and the requests without an answer.
//!
//! Every event is one short critical section under one lock: the program makes a request (which is queued for sending
//! before the lock is released, so requests leave in the order of their numbers), an answer comes, time passes. The
//! effect of an answer is applied when it comes, not when the caller looks at it; so a caller that has stopped waiting
//! changes nothing.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use conclave_api::v1::ask::What as Operation;
use conclave_api::v1::{self, Ask};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::connection::ConnectionStatus;
use crate::handles::{Hold, Liveness, Term};
use crate::lease::Lease;
use crate::time::{Moment, TimeSource};
use crate::{Credentials, Error, Loss, Options};

/// What handles of a client and its background task share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    state: Mutex<State>,
    /// Wakes the renewals before the moment that they planned.
    pub(crate) wake_keepalive: Notify,
    /// Ends the connection.
    pub(crate) disconnect: Notify,
    pub(crate) connection: watch::Sender<ConnectionStatus>,
}

/// A function of the program's, called after the lock is released: it may use the client, even while it is dropped.
pub(crate) type Callback = Box<dyn FnOnce() + Send>;
/// A function that is called when a session is lost.
pub(crate) type OnLoss = Box<dyn FnOnce(Loss) + Send>;

#[derive(Default)]
pub(crate) struct State {
    /// Where requests go, while there is a connection.
    pub(crate) outbox: Option<mpsc::UnboundedSender<Ask>>,
    pub(crate) sessions: BTreeMap<u64, SessionState>,
    pub(crate) opening: BTreeMap<u64, Opening>,
    /// Renewals that are not confirmed: when they were sent, and whose.
    pub(crate) renewals: BTreeMap<u64, (Moment, Vec<u64>)>,
    pub(crate) callbacks: Vec<Callback>,
    /// Whether the server has sent anything since the last tick.
    pub(crate) received: bool,
    /// Since when it has not.
    pub(crate) quiet: Option<Moment>,
    /// If nothing is received by then, the server is given up.
    pub(crate) suspect: Option<Moment>,
    /// When the next tick is due.
    pub(crate) next_check: Option<Moment>,
    /// The program has dropped all handles: no request comes any more.
    pub(crate) last_handle_gone: bool,
    /// What leases are counted by.
    pub(crate) time: TimeSource,
    last_id: u64,
}

/// A session that was asked for.
pub(crate) struct Opening {
    pub(crate) open: v1::Open,
    pub(crate) sent: Moment,
    pub(crate) reply: oneshot::Sender<Result<Opened, Error>>,
}

/// A session that was given.
pub(crate) struct Opened {
    pub(crate) id: u64,
    pub(crate) liveness: Arc<Liveness>,
}

/// A session of the client.
pub(crate) struct SessionState {
    pub(crate) key: u64,
    pub(crate) liveness: Arc<Liveness>,
    /// The number of the last request.
    pub(crate) last: u64,
    /// Requests that are not answered.
    pub(crate) requests: BTreeMap<u64, Request>,
    /// The server keeps the answers to so many requests, in case they are made again.
    pub(crate) window: usize,
    /// How many unanswered requests take up room there; see [`Request::in_window`].
    pub(crate) open: usize,
    /// Requests for which there is no room yet, in the order of their numbers.
    pub(crate) held_back: VecDeque<u64>,
    /// What is held, by token.
    pub(crate) holds: BTreeMap<u64, Held>,
    /// What is led, by term.
    pub(crate) terms: BTreeMap<u64, Led>,
    pub(crate) on_loss: Vec<OnLoss>,
    pub(crate) renew_at: Moment,
    /// The server could not take its requests; they are sent again then.
    pub(crate) paused: Option<Moment>,
    /// It is over for the client; until then the server is asked to end it, too.
    pub(crate) closing: Option<Closing>,
}

pub(crate) struct Closing {
    pub(crate) until: Moment,
    pub(crate) reply: Option<oneshot::Sender<Result<Outcome, Error>>>,
}

/// A lock that is held, and the request whose repetition tells whether it still is.
pub(crate) struct Held {
    pub(crate) hold: Arc<Hold>,
    pub(crate) levels: u32,
    pub(crate) request: u64,
    pub(crate) operation: Operation,
    /// A request that changes how it is held is on its way, and tells as well.
    pub(crate) changing: bool,
}

/// A leadership, and the request that it came by.
pub(crate) struct Led {
    pub(crate) term: Arc<Term>,
    pub(crate) request: u64,
    pub(crate) operation: Operation,
    /// It was deposed, and is kept until the program confirms that by giving it up.
    pub(crate) over: bool,
}

/// A request that is not answered.
pub(crate) struct Request {
    pub(crate) operation: Operation,
    pub(crate) reply: Option<oneshot::Sender<Result<Outcome, Error>>>,
    /// Where to say that it has to wait.
    pub(crate) waits: Option<oneshot::Sender<()>>,
    /// It may have reached the server.
    pub(crate) sent: bool,
    /// Its answer, which may be lost on the way, takes up room on the server. That of a request which waits does not: if
    /// it is dropped there, what the session holds still tells what came of it.
    pub(crate) in_window: bool,
    /// No caller waits for the answer any more; another request undoes it.
    pub(crate) abandoned: bool,
}

impl SessionState {
    fn new(key: u64, liveness: Arc<Liveness>, renew_at: Moment) -> Self {
        Self {
            key,
            liveness,
            last: 0,
            requests: BTreeMap::new(),
            window: usize::MAX,
            open: 0,
            held_back: VecDeque::new(),
            holds: BTreeMap::new(),
            terms: BTreeMap::new(),
            on_loss: Vec::new(),
            renew_at,
            paused: None,
            closing: None,
        }
    }
}

/// What came of a request.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Done,
    Held(Arc<Hold>),
    Leads(Arc<Term>),
}

impl Shared {
    pub(crate) fn new(options: Options) -> Self {
        let state = State { time: options.time.clone(), ..State::default() };
        Self {
            options,
            state: Mutex::new(state),
            wake_keepalive: Notify::new(),
            disconnect: Notify::new(),
            connection: watch::Sender::new(ConnectionStatus::default()),
        }
    }

    /// Locks the state for a function, and calls the callbacks that are due after the lock is released.
    pub(crate) fn with_state<R>(&self, access: impl FnOnce(&mut State) -> R) -> R {
        let (result, callbacks) = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let before = state.next_check;
            let result = access(&mut state);
            if state.next_check.is_some_and(|wake| before.is_none_or(|before| wake < before)) {
                self.wake_keepalive.notify_one();
            }
            (result, std::mem::take(&mut state.callbacks))
        };
        for callback in callbacks {
            // A panic in a function of the program's must not stop renewals.
            let _ = catch_unwind(AssertUnwindSafe(callback));
        }
        result
    }
}

impl State {
    pub(crate) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(crate) fn send(&self, ask: Ask) {
        if let Some(outbox) = &self.outbox {
            // If the connection has just broken, the request is repeated over the next.
            let _ = outbox.send(ask);
        }
    }

    /// The next tick is due by then.
    pub(crate) fn check_by(&mut self, moment: Moment) {
        self.next_check = Some(self.next_check.map_or(moment, |wake| wake.min(moment)));
    }

    /// Whether nothing is left to be done, now or later.
    pub(crate) fn is_finished(&self) -> bool {
        self.last_handle_gone && self.sessions.is_empty()
    }

    /// Asks for a session.
    pub(crate) fn open(&mut self, open: v1::Open) -> oneshot::Receiver<Result<Opened, Error>> {
        let (reply, opened) = oneshot::channel();
        let id = self.next_id();
        self.opening.insert(id, Opening { open, sent: self.time.now(), reply });
        self.send_open(id);
        opened
    }

    pub(crate) fn send_open(&mut self, id: u64) {
        let now = self.time.now();
        let Some(opening) = self.opening.get_mut(&id) else { return };
        opening.sent = now;
        let what = Some(Operation::Open(opening.open.clone()));
        self.send(Ask { id, what, ..Ask::default() });
    }

    /// A session was given.
    pub(crate) fn opened(&mut self, id: u64, given: &v1::Opened) {
        let ttl = Duration::from_millis(given.ttl_ms);
        let opening = self.opening.remove(&id);
        let sent = opening.as_ref().map_or_else(|| self.time.now(), |opening| opening.sent);
        let lease = Lease::new(ttl, sent);
        let liveness = Arc::new(Liveness::new(lease, self.time.clone()));
        let mut session_state =
            SessionState::new(given.key, liveness.clone(), sent.plus(ttl / RENEWALS));
        // An older server does not say.
        if given.window > 0 {
            session_state.window = given.window as usize;
        }
        self.check_by(session_state.renew_at);
        self.sessions.insert(given.session, session_state);
        let opened = Opened { id: given.session, liveness };
        let taken = opening.is_some_and(|opening| opening.reply.send(Ok(opened)).is_ok());
        if !taken {
            // The caller has stopped waiting, or has asked again.
            self.close(given.session, Loss::Closed, None);
        }
    }

    /// Ends a session, here at once and on the server as soon as that can be.
    pub(crate) fn close(
        &mut self,
        session: u64,
        loss: Loss,
        reply: Option<oneshot::Sender<Result<Outcome, Error>>>,
    ) {
        let Some(session_state) = self.sessions.get_mut(&session) else {
            reply.map(|reply| reply.send(Err(Error::SessionLost(Loss::Gone))));
            return;
        };
        if let Some(closing) = &mut session_state.closing {
            closing.reply = reply.or_else(|| closing.reply.take());
            return;
        }
        let until = self.time.now().plus(session_state.liveness.lease.ttl());
        session_state.closing = Some(Closing { until, reply });
        self.report_loss(session, loss);
        self.send_close(session);
        self.check_by(until);
    }

    /// Ends a session that another client has opened.
    pub(crate) fn end(
        &mut self,
        credentials: &Credentials,
        reply: oneshot::Sender<Result<Outcome, Error>>,
    ) {
        let &Credentials { session, key, ttl, .. } = credentials;
        let now = self.time.now();
        let lease = Lease::new(ttl, now);
        lease.end();
        let session_state = SessionState::new(
            key,
            Arc::new(Liveness::new(lease, self.time.clone())),
            Moment::NEVER,
        );
        let until = now.plus(ttl);
        let closing = Some(Closing { until, reply: Some(reply) });
        self.sessions.insert(session, SessionState { closing, ..session_state });
        self.repeat(session);
        self.check_by(until);
    }

    pub(crate) fn send_close(&self, session: u64) {
        let what = Some(Operation::Close(v1::Close {}));
        self.send(Ask { session, id: CLOSE, what, ..Ask::default() });
    }

    /// The server says that a session is over.
    pub(crate) fn ended(&mut self, session: u64, loss: Loss) {
        self.report_loss(session, loss);
        let Some(session_state) = self.sessions.remove(&session) else { return };
        if self.last_handle_gone {
            self.check_by(self.time.now());
        }
        if let Some(reply) = session_state.closing.and_then(|closing| closing.reply) {
            let closed = match loss {
                Loss::Closed | Loss::Gone => Ok(Outcome::Done),
                loss => Err(Error::SessionLost(loss)),
            };
            let _ = reply.send(closed);
        }
    }

    /// A session is over: fails its requests, ends its grants, calls its callbacks; only the first time.
    fn report_loss(&mut self, session: u64, loss: Loss) {
        let Some(session_state) = self.sessions.get_mut(&session) else { return };
        session_state.liveness.lease.end();
        if session_state.liveness.loss.borrow().is_some() {
            return;
        }
        session_state.liveness.loss.send_replace(Some(loss));
        for held in std::mem::take(&mut session_state.holds).into_values() {
            held.hold.loss.set(loss);
        }
        for led in std::mem::take(&mut session_state.terms).into_values() {
            led.term.loss.set(loss);
        }
        for request in std::mem::take(&mut session_state.requests).into_values() {
            request.reply.map(|reply| reply.send(Err(Error::SessionLost(loss))));
        }
        for on_loss in std::mem::take(&mut session_state.on_loss) {
            self.callbacks.push(Box::new(move || on_loss(loss)));
        }
    }

    /// The client has ended: all its sessions are over.
    pub(crate) fn abandon_all(&mut self) {
        let sessions: Vec<u64> = self.sessions.keys().copied().collect();
        for session in sessions {
            self.ended(session, Loss::Closed);
        }
        for opening in std::mem::take(&mut self.opening).into_values() {
            let _ = opening.reply.send(Err(Error::SessionLost(Loss::Closed)));
        }
    }

    /// Has this called when a session is lost; now, if it is.
    pub(crate) fn on_loss(&mut self, session: u64, liveness: &Liveness, on_loss: OnLoss) {
        let loss = *liveness.loss.borrow();
        match (loss, self.sessions.get_mut(&session)) {
            (None, Some(session_state)) => session_state.on_loss.push(on_loss),
            (loss, _) => {
                let loss = loss.unwrap_or(Loss::Gone);
                self.callbacks.push(Box::new(move || on_loss(loss)));
            }
        }
    }
}

/// A lease is renewed so many times within its length.
pub(crate) const RENEWALS: u32 = 3;

/// The numbers of messages of a session that are no requests; numbers of requests never get so far.
pub(crate) const ATTACH: u64 = 1 << 63;
pub(crate) const CLOSE: u64 = ATTACH + 1;
