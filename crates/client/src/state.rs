//! What a client remembers: its sessions, what they hold, and what it has asked and not been told yet.
//!
//! Everything that happens is one short visit to the book, under one lock: somebody asks (and the question
//! is on its way before the visit is over, in the order of the numbers), an answer comes, time passes. What
//! an answer means is written down when it comes, and not when somebody looks at it; so it does not matter
//! whether whoever asked is still there.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use conclave_api::v1::ask::What;
use conclave_api::v1::{self, Ask};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::lease::Lease;
use crate::line::Line;
use crate::things::{Hold, Term, Vital};
use crate::time::{Moment, TimeSource};
use crate::{Credentials, Error, Loss, Options};

/// What handles of a client and its background task share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    book: Mutex<Book>,
    /// The heart is to look at the book before it planned to.
    pub(crate) poke: Notify,
    /// The connection is not worth keeping.
    pub(crate) hang_up: Notify,
    pub(crate) line: watch::Sender<Line>,
}

/// Something to be done when the book is closed again: whatever is not the client's own may look into the book
/// itself, even while it is dropped.
pub(crate) type Chore = Box<dyn FnOnce() + Send>;
/// Something to be done when a session is lost.
pub(crate) type OnLoss = Box<dyn FnOnce(Loss) + Send>;

#[derive(Default)]
pub(crate) struct Book {
    /// Where questions go, while there is a connection.
    pub(crate) outbox: Option<mpsc::UnboundedSender<Ask>>,
    pub(crate) sessions: BTreeMap<u64, Tracked>,
    pub(crate) opening: BTreeMap<u64, Opening>,
    /// Renewals that are not confirmed: when they were sent, and whose.
    pub(crate) renewals: BTreeMap<u64, (Moment, Vec<u64>)>,
    pub(crate) chores: Vec<Chore>,
    /// Whether anything was heard since the heart looked last.
    pub(crate) heard: bool,
    /// Since when not.
    pub(crate) quiet: Option<Moment>,
    /// If nothing is heard by then, the server is not there any more.
    pub(crate) suspect: Option<Moment>,
    /// When the heart wants to look next.
    pub(crate) wake: Option<Moment>,
    /// Nobody is going to ask for anything any more.
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
    pub(crate) vital: Arc<Vital>,
}

/// A session, as the book knows it.
pub(crate) struct Tracked {
    pub(crate) key: u64,
    pub(crate) vital: Arc<Vital>,
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
    pub(crate) what: What,
    /// A request that changes how it is held is on its way, and tells as well.
    pub(crate) changing: bool,
}

/// A leadership, and the request that it came by.
pub(crate) struct Led {
    pub(crate) term: Arc<Term>,
    pub(crate) request: u64,
    pub(crate) what: What,
    /// It was deposed, and is kept until the program confirms that by giving it up.
    pub(crate) over: bool,
}

/// A request that is not answered.
pub(crate) struct Request {
    pub(crate) what: What,
    pub(crate) reply: Option<oneshot::Sender<Result<Outcome, Error>>>,
    /// Where to say that it has to wait.
    pub(crate) waits: Option<oneshot::Sender<()>>,
    /// It may have reached the server.
    pub(crate) sent: bool,
    /// Its answer, which may be lost on the way, takes up room on the server. That of a request which waits does not: if
    /// it is dropped there, what the session holds still tells what came of it.
    pub(crate) in_window: bool,
    /// Nobody waits for the answer any more; another request sees to it that nothing comes of it.
    pub(crate) abandoned: bool,
}

impl Tracked {
    fn new(key: u64, vital: Arc<Vital>, renew_at: Moment) -> Self {
        Self {
            key,
            vital,
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
        let book = Book { time: options.time.clone(), ..Book::default() };
        Self {
            options,
            book: Mutex::new(book),
            poke: Notify::new(),
            hang_up: Notify::new(),
            line: watch::Sender::new(Line::default()),
        }
    }

    /// Visits the book, and afterwards does what is to be done without it.
    pub(crate) fn visit<R>(&self, visit: impl FnOnce(&mut Book) -> R) -> R {
        let (result, chores) = {
            let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
            let before = book.wake;
            let result = visit(&mut book);
            if book.wake.is_some_and(|wake| before.is_none_or(|before| wake < before)) {
                self.poke.notify_one();
            }
            (result, std::mem::take(&mut book.chores))
        };
        for chore in chores {
            // What somebody else's function does is not to stop renewals.
            let _ = catch_unwind(AssertUnwindSafe(chore));
        }
        result
    }
}

impl Book {
    pub(crate) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(crate) fn send(&self, ask: Ask) {
        if let Some(outbox) = &self.outbox {
            // If the connection has just broken, the question is repeated over the next.
            let _ = outbox.send(ask);
        }
    }

    /// The heart is to look by then.
    pub(crate) fn wake_by(&mut self, moment: Moment) {
        self.wake = Some(self.wake.map_or(moment, |wake| wake.min(moment)));
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
        let what = Some(What::Open(opening.open.clone()));
        self.send(Ask { id, what, ..Ask::default() });
    }

    /// A session was given.
    pub(crate) fn opened(&mut self, id: u64, given: &v1::Opened) {
        let ttl = Duration::from_millis(given.ttl_ms);
        let opening = self.opening.remove(&id);
        let sent = opening.as_ref().map_or_else(|| self.time.now(), |opening| opening.sent);
        let lease = Lease::new(ttl, sent);
        let vital = Arc::new(Vital::new(lease, self.time.clone()));
        let mut tracked = Tracked::new(given.key, vital.clone(), sent.plus(ttl / RENEWALS));
        // An older server does not say.
        if given.window > 0 {
            tracked.window = given.window as usize;
        }
        self.wake_by(tracked.renew_at);
        self.sessions.insert(given.session, tracked);
        let opened = Opened { id: given.session, vital };
        let taken = opening.is_some_and(|opening| opening.reply.send(Ok(opened)).is_ok());
        if !taken {
            // Whoever asked has gone, or has asked again.
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
        let Some(tracked) = self.sessions.get_mut(&session) else {
            reply.map(|reply| reply.send(Err(Error::SessionLost(Loss::Gone))));
            return;
        };
        if let Some(closing) = &mut tracked.closing {
            closing.reply = reply.or_else(|| closing.reply.take());
            return;
        }
        let until = self.time.now().plus(tracked.vital.lease.ttl());
        tracked.closing = Some(Closing { until, reply });
        self.mourn(session, loss);
        self.send_close(session);
        self.wake_by(until);
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
        let tracked =
            Tracked::new(key, Arc::new(Vital::new(lease, self.time.clone())), Moment::NEVER);
        let until = now.plus(ttl);
        let closing = Some(Closing { until, reply: Some(reply) });
        self.sessions.insert(session, Tracked { closing, ..tracked });
        self.repeat(session);
        self.wake_by(until);
    }

    pub(crate) fn send_close(&self, session: u64) {
        let what = Some(What::Close(v1::Close {}));
        self.send(Ask { session, id: CLOSE, what, ..Ask::default() });
    }

    /// The server says that a session is over.
    pub(crate) fn ended(&mut self, session: u64, loss: Loss) {
        self.mourn(session, loss);
        let Some(tracked) = self.sessions.remove(&session) else { return };
        if self.last_handle_gone {
            self.wake_by(self.time.now());
        }
        if let Some(reply) = tracked.closing.and_then(|closing| closing.reply) {
            let closed = match loss {
                Loss::Closed | Loss::Gone => Ok(Outcome::Done),
                loss => Err(Error::SessionLost(loss)),
            };
            let _ = reply.send(closed);
        }
    }

    /// A session is over: tells all who have to do with it. What was told before is not told again.
    fn mourn(&mut self, session: u64, loss: Loss) {
        let Some(tracked) = self.sessions.get_mut(&session) else { return };
        tracked.vital.lease.end();
        if tracked.vital.loss.borrow().is_some() {
            return;
        }
        tracked.vital.loss.send_replace(Some(loss));
        for held in std::mem::take(&mut tracked.holds).into_values() {
            held.hold.lose(loss);
        }
        for led in std::mem::take(&mut tracked.terms).into_values() {
            led.term.lose(loss);
        }
        for request in std::mem::take(&mut tracked.requests).into_values() {
            request.reply.map(|reply| reply.send(Err(Error::SessionLost(loss))));
        }
        for on_loss in std::mem::take(&mut tracked.on_loss) {
            self.chores.push(Box::new(move || on_loss(loss)));
        }
    }

    /// The client is no more.
    pub(crate) fn abandon_all(&mut self) {
        let sessions: Vec<u64> = self.sessions.keys().copied().collect();
        for session in sessions {
            self.ended(session, Loss::Closed);
        }
        for opening in std::mem::take(&mut self.opening).into_values() {
            let _ = opening.reply.send(Err(Error::SessionLost(Loss::Closed)));
        }
    }

    /// Has this done when a session is lost: now, if it is.
    pub(crate) fn on_loss(&mut self, session: u64, vital: &Vital, on_loss: OnLoss) {
        let loss = *vital.loss.borrow();
        match (loss, self.sessions.get_mut(&session)) {
            (None, Some(tracked)) => tracked.on_loss.push(on_loss),
            (loss, _) => {
                let loss = loss.unwrap_or(Loss::Gone);
                self.chores.push(Box::new(move || on_loss(loss)));
            }
        }
    }
}

/// A lease is renewed so many times within its length.
pub(crate) const RENEWALS: u32 = 3;

/// The numbers of what a session asks besides its requests, whose numbers never get so far.
pub(crate) const ATTACH: u64 = 1 << 63;
pub(crate) const CLOSE: u64 = ATTACH + 1;
