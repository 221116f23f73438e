use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use conclave_api::v1::ask::What as Operation;
use tokio::sync::oneshot;

use crate::acquire::{Acquire, Want};
use crate::client::Handle;
use crate::handles::{Liveness, wait_for_some};
use crate::requests::Answer;
use crate::state::{Callback, Outcome, Shared, State};
use crate::{Error, Guard, Loss, Secret};

/// The properties of a new session.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    /// How long it lives when it is not renewed: 15 seconds unless told otherwise.
    pub ttl: Option<Duration>,
    /// Its name, for people; by default the name of the client.
    pub name: Option<String>,
    /// In a deadlock the lowest loses, if the server's policy goes by priority.
    pub priority: i32,
}

impl SessionOptions {
    /// The time-to-live unless told otherwise.
    pub const DEFAULT_TTL: Duration = Duration::from_secs(15);

    /// A session that lives for so long when it is not renewed.
    pub fn ttl(ttl: Duration) -> Self {
        Self { ttl: Some(ttl), ..Self::default() }
    }

    /// The same under another name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The same with another priority.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }
}

/// What another process needs in order to end a session ([`Client::end`](crate::Client::end)): its number, its key, and
/// the token that its client was let in by. As text it may go through a pipe; it does not show in `Debug`, and does not
/// belong on a command line.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub(crate) session: u64,
    pub(crate) key: u64,
    pub(crate) ttl: Duration,
    pub(crate) token: Option<Secret>,
}

impl Credentials {
    /// A line that [`parse`](Self::parse) reads.
    pub fn reveal(&self) -> String {
        let numbers = format!("{} {} {}", self.session, self.key, self.ttl.as_millis());
        match &self.token {
            // No token has more than one line: it goes in a header.
            Some(token) => format!("{numbers} {}", token.0),
            None => numbers,
        }
    }

    /// Reads what [`reveal`](Self::reveal) has written.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.trim().splitn(4, ' ');
        let mut next = || words.next()?.parse().ok();
        let (session, key, ttl) = (next()?, next()?, Duration::from_millis(next()?));
        let token = words.next().map(Secret::from);
        Some(Self { session, key, ttl, token })
    }

    /// What the client of the session was let in by.
    pub fn token(&self) -> Option<&Secret> {
        self.token.as_ref()
    }

    /// How long the session lives when it is not renewed.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("session", &self.session).finish_non_exhaustive()
    }
}

/// A session: what holds locks, and lives as long as it is renewed.
///
/// It is renewed in the background until the last handle and the last guard are dropped, and is then closed.
///
/// # Threads of control
///
/// The server finds deadlocks by who waits for what while holding what, so it has to know which locks and
/// which waits belong together. That is what a handle stands for: **what is done through one handle is
/// one thread of control, and a clone (or [`thread`](Self::thread)) is another one of the same session.** So a task that takes one lock
/// after the other through its handle is seen as what it is, and so are two tasks with a clone each.
///
/// Tasks that share one handle by reference are taken for one. A lock that one of them holds is refused to
/// the other, and a deadlock may be seen where one of them would still have let go; so give each a clone.
/// If one handle waits for two things at once all the same (in a `join!`, say), the second wait
/// is on account of a fresh thread of control: nothing fails, but a deadlock by way of it is not found. To
/// take several locks at once, [`lock_all`](Self::lock_all) is better.
#[derive(Debug)]
pub struct Session {
    core: Arc<SessionCore>,
    thread: Arc<Thread>,
}

/// A thread of control.
#[derive(Debug)]
pub(crate) struct Thread {
    owner: u32,
    /// It waits for something.
    waits: AtomicBool,
}

/// What the handles and guards of a session share; when the last is dropped, the session is closed.
#[derive(Debug)]
pub(crate) struct SessionCore {
    handle: Arc<Handle>,
    id: u64,
    liveness: Arc<Liveness>,
    last_owner: AtomicU32,
}

impl Clone for Session {
    /// The same session, as another thread of control.
    fn clone(&self) -> Self {
        self.thread()
    }
}

impl Session {
    pub(crate) fn new(handle: Arc<Handle>, id: u64, liveness: Arc<Liveness>) -> Self {
        let core = SessionCore { handle, id, liveness, last_owner: AtomicU32::new(0) };
        Self { core: Arc::new(core), thread: Arc::new(Thread::new(0)) }
    }

    pub(crate) fn core(&self) -> &Arc<SessionCore> {
        &self.core
    }

    /// Another thread of control of the same session, as a clone is.
    #[must_use]
    pub fn thread(&self) -> Self {
        let thread = Arc::new(self.core.fresh_thread());
        Self { core: self.core.clone(), thread }
    }

    /// The session's number.
    pub fn id(&self) -> u64 {
        self.core.id
    }

    /// What another process needs in order to end it; nothing once it is over.
    pub fn credentials(&self) -> Option<Credentials> {
        let SessionCore { id, .. } = *self.core;
        let key =
            self.core.shared().with_state(|state| state.sessions.get(&id).map(|one| one.key))?;
        let token = self.core.shared().options.token.clone();
        Some(Credentials { session: id, key, ttl: self.ttl(), token })
    }

    /// Which thread of control of the session this handle is.
    pub fn owner(&self) -> u32 {
        self.thread.owner
    }

    /// How long it lives when it is not renewed.
    pub fn ttl(&self) -> Duration {
        self.core.liveness.lease.ttl()
    }

    /// Whether it is certain to live. This reads the clock: it is true at no time at which the server may
    /// have ended the session for want of renewal, even if this program was stopped for hours just before.
    pub fn is_alive(&self) -> bool {
        self.core.is_alive()
    }

    /// For how much longer it is certain to live, even if it is not renewed any more.
    pub fn remaining(&self) -> Duration {
        self.core.remaining()
    }

    /// Waits until it is over, and says why.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + 'static {
        wait_for_some(self.core.liveness.loss.subscribe(), Loss::Closed)
    }

    /// Has something done when it is lost, right then and on the thread that finds out; so it should not
    /// take long. If it is lost already, that is now.
    pub fn on_loss(&self, then: impl FnOnce(Loss) + Send + 'static) {
        let SessionCore { id, liveness, .. } = &*self.core;
        self.core.shared().with_state(|state| state.on_loss(*id, liveness, Box::new(then)));
    }

    /// Waits until this thread of control is in the way of an older session, and says of which. Only a
    /// server with the policy wound-wait says so; the thread should then release all it holds.
    pub async fn wounded(&self) -> u64 {
        self.core.liveness.wounded(self.thread.owner).await
    }

    /// Ends it, and with it all that it holds.
    pub async fn close(self) -> Result<(), Error> {
        let loss = *self.core.liveness.loss.borrow();
        if let Some(loss) = loss {
            return Err(Error::SessionLost(loss));
        }
        let (reply, closed) = oneshot::channel();
        self.core.shared().with_state(|state| state.close(self.core.id, Loss::Closed, Some(reply)));
        match closed.await {
            Ok(closed) => closed.map(drop),
            Err(_) => Err(Error::SessionLost(Loss::Closed)),
        }
    }

    /// Waits for a lock that no other may hold at the same time.
    pub async fn lock(&self, name: impl Into<String>) -> Result<Guard, Error> {
        self.acquire(Acquire::exclusive(name)).await
    }

    /// Takes a lock if it is free; does not wait.
    pub async fn try_lock(&self, name: impl Into<String>) -> Result<Option<Guard>, Error> {
        self.try_acquire(Acquire::exclusive(name)).await
    }

    /// Waits for a lock for at most this long.
    pub async fn lock_timeout(
        &self,
        name: impl Into<String>,
        timeout: Duration,
    ) -> Result<Guard, Error> {
        self.acquire(Acquire::exclusive(name).timeout(timeout)).await
    }

    /// Waits for a lock that others may share.
    pub async fn read(&self, name: impl Into<String>) -> Result<Guard, Error> {
        self.acquire(Acquire::shared(name)).await
    }

    /// Waits for some permits of those that there are.
    pub async fn permits(
        &self,
        name: impl Into<String>,
        take: u32,
        of: u32,
    ) -> Result<Guard, Error> {
        self.acquire(Acquire::permits(name, take, of)).await
    }

    /// Waits for several locks, and has all of them at once or none.
    pub async fn lock_all(&self, wants: impl IntoIterator<Item = Want>) -> Result<Guard, Error> {
        self.acquire(Acquire::all(wants)).await
    }

    /// Takes the locks if they are free; does not wait.
    pub async fn try_acquire(&self, acquire: Acquire) -> Result<Option<Guard>, Error> {
        match self.acquire(acquire.at_once()).await {
            Ok(guard) => Ok(Some(guard)),
            Err(Error::Conflict(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Asks for locks.
    ///
    /// If the future is dropped before it is done, nothing comes of it: the request leaves the queue, or
    /// what it was granted is given back.
    pub async fn acquire(&self, acquire: Acquire) -> Result<Guard, Error> {
        let (thread, waiting) = self.begin_waiting_for(acquire.owner);
        let limit = acquire.timeout.filter(|timeout| !timeout.is_zero());
        let (operation, on_waiting) = acquire.into_operation(thread.owner);
        let answer = self.core.request_within(operation, on_waiting, limit).await;
        drop(waiting);
        match answer? {
            Outcome::Held(hold) => Ok(Guard::new(self.core.clone(), hold, thread)),
            Outcome::Done | Outcome::Leads(_) => Err(out_of_turn()),
        }
    }
}

impl Session {
    /// A thread of control that may wait now: that of this handle, unless it waits already.
    pub(crate) fn begin_waiting(&self) -> (Arc<Thread>, Option<Waiting>) {
        self.core.begin_waiting(self.thread.clone())
    }

    /// The same for a caller that may have numbered its threads of control itself.
    pub(crate) fn begin_waiting_for(&self, owner: Option<u32>) -> (Arc<Thread>, Option<Waiting>) {
        match owner {
            Some(owner) => self.core.begin_waiting(Arc::new(Thread::new(owner))),
            None => self.begin_waiting(),
        }
    }
}

/// The server times a wait; the client gives up so much later, should no answer come.
const GRACE: Duration = Duration::from_millis(500);

impl SessionCore {
    /// A thread of control waits for one thing at a time.
    fn begin_waiting(&self, thread: Arc<Thread>) -> (Arc<Thread>, Option<Waiting>) {
        if let Some(waiting) = Waiting::begin(&thread) {
            return (thread, Some(waiting));
        }
        let thread = Arc::new(self.fresh_thread());
        let waiting = Waiting::begin(&thread);
        (thread, waiting)
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.liveness.remaining()
    }

    pub(crate) fn shared(&self) -> &Shared {
        self.handle.shared()
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn is_alive(&self) -> bool {
        let alive = self.liveness.is_alive();
        if !alive && self.liveness.loss.borrow().is_none() {
            // The renewals have not noticed yet.
            self.shared().wake_keepalive.notify_one();
        }
        alive
    }

    fn fresh_thread(&self) -> Thread {
        let owner = self.last_owner.fetch_add(1, Ordering::SeqCst).wrapping_add(1);
        Thread::new(owner)
    }

    /// Makes a request, and waits for the answer for as long as the session lives.
    pub(crate) async fn request(&self, operation: Operation) -> Answer {
        self.request_within(operation, None, None).await
    }

    /// The same, for at most this long.
    pub(crate) async fn request_within(
        &self,
        operation: Operation,
        on_waiting: Option<Callback>,
        limit: Option<Duration>,
    ) -> Answer {
        let (reply, answer) = oneshot::channel();
        let (waits, waiting) = on_waiting.as_ref().map(|_| oneshot::channel()).unzip();
        let ask = |state: &mut State| state.request(self.id, operation, Some(reply), waits);
        let Some(number) = self.shared().with_state(ask) else {
            return Err(Error::SessionLost(self.liveness.loss()));
        };
        let mut pending = PendingRequest { core: self, number, answer, answered: false };
        let answer = async {
            if let Some((waiting, on_waiting)) = waiting.zip(on_waiting) {
                tokio::select! {
                    biased;
                    answer = pending.answer() => return answer,
                    Ok(()) = waiting => on_waiting(),
                }
            }
            pending.answer().await
        };
        let answer = match limit {
            None => answer.await,
            Some(limit) => match tokio::time::timeout(limit.saturating_add(GRACE), answer).await {
                Ok(answer) => answer,
                Err(_) => Err(Error::TimedOut),
            },
        };
        // The lease may have run out since the answer came.
        if answer.is_ok() && !self.is_alive() {
            return Err(Error::SessionLost(self.liveness.loss()));
        }
        answer
    }
}

impl Drop for SessionCore {
    fn drop(&mut self) {
        self.shared().with_state(|state| state.close(self.id, Loss::Closed, None));
    }
}

/// A caller waits for the answer to a request. Dropped before the answer, it undoes the request.
struct PendingRequest<'a> {
    core: &'a SessionCore,
    number: u64,
    answer: oneshot::Receiver<Answer>,
    answered: bool,
}

impl PendingRequest<'_> {
    async fn answer(&mut self) -> Answer {
        let answer = (&mut self.answer).await;
        self.answered = true;
        answer.unwrap_or(Err(Error::SessionLost(Loss::Closed)))
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        if !self.answered {
            let Self { core, number, answer, .. } = self;
            core.shared().with_state(|state| state.abandon(core.id, *number, answer));
        }
    }
}

impl Thread {
    pub(crate) fn owner(&self) -> u32 {
        self.owner
    }

    fn new(owner: u32) -> Self {
        Self { owner, waits: AtomicBool::new(false) }
    }
}

/// A thread of control waits until this is dropped.
pub(crate) struct Waiting(Arc<Thread>);

impl Waiting {
    /// Nothing, if it waits for something else.
    pub(crate) fn begin(thread: &Arc<Thread>) -> Option<Self> {
        let waits = thread.waits.swap(true, Ordering::SeqCst);
        (!waits).then(|| Self(thread.clone()))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waits.store(false, Ordering::SeqCst);
    }
}

/// The server answered something else than was asked.
pub(crate) fn out_of_turn() -> Error {
    let message = "the server answered something else than was asked".to_owned();
    Error::Refused { code: "out-of-turn".to_owned(), message }
}
