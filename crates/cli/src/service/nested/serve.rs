//! The server side of nesting: the outer process has the session.

use std::collections::BTreeMap;
use std::future::pending;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener as StdListener, UnixStream as StdStream};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use conclave_client::{Acquire, Candidacy, Credentials, Error, Guard, Leadership, Session};
use nix::sys::signal::Signal;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, spawn};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::super::guard::Order;
use super::super::{Log, Signals, boottime};
use super::{Candidate, KILLED, Message, OUTER_LOST, PLACE, Request, line, nanos, own_user};

/// The nested commands of a process.
pub(crate) struct Nest {
    name: String,
    inner: Arc<Inner>,
    listens: AbortHandle,
    /// By which the wait for the end of the nested commands was ended.
    abandoned: OnceLock<Signal>,
}

struct Inner {
    /// Whose lease counts; its own thread of control asks for nothing.
    session: Session,
    /// By which nested processes know whether they would use the same node in the same way.
    node: u64,
    branches: Mutex<Branches>,
    /// A branch has ended.
    ended: Notify,
    /// Everything has to end at once. By then, by the clock of the machine, the lease that nested processes were told of
    /// has ended.
    kill: watch::Sender<Option<Duration>>,
    /// The way to the guard of the outer command.
    guard: OnceLock<StdStream>,
    /// What that guard ends the session by, when nothing is nested.
    credentials: Option<Credentials>,
}

#[derive(Default)]
struct Branches {
    all: BTreeMap<u64, Branch>,
    last: u64,
}

/// A nested process and its guard.
struct Branch {
    parent: u64,
    /// The thread of control on whose account it asks.
    owner: u32,
    connections: u32,
    holds: Option<Held>,
}

/// What a branch was granted.
enum Held {
    Locks(Guard),
    Leads(Leadership),
}

/// What becomes of a request.
type Work = Pin<Box<dyn Future<Output = Result<Held, Error>> + Send>>;

/// How long it may take to notice that a nested command has ended.
const NOTICE: Duration = Duration::from_millis(500);
/// How long a node may take to confirm what a nested command has given back; it is repeated in any case.
const CONFIRM: Duration = Duration::from_secs(1);

impl Nest {
    /// Listens for nested processes that would use such a node.
    pub(crate) fn open(session: &Session, node: u64) -> io::Result<Self> {
        let random = RandomState::new().hash_one(std::process::id());
        let name = format!("conclave-{}-{random:016x}", std::process::id());
        let listener = StdListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        let inner = Arc::new(Inner {
            session: session.thread(),
            node,
            branches: Mutex::default(),
            ended: Notify::new(),
            kill: watch::Sender::new(None),
            guard: OnceLock::new(),
            credentials: session.credentials(),
        });
        let serves = inner.clone();
        let listens = spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                // Others of the machine have no business here.
                if connection.peer_cred().is_ok_and(|peer| peer.uid() == own_user()) {
                    spawn(serve(serves.clone(), connection));
                }
            }
        });
        let listens = listens.abort_handle();
        Ok(Self { name, inner, listens, abandoned: OnceLock::new() })
    }

    /// What the command has to know.
    pub(crate) fn environment(&self) -> (&'static str, String) {
        (PLACE, format!("{} 0", self.name))
    }

    /// The guard of the outer command is told when there are nested ones: it cannot know when they have ended.
    pub(crate) fn tell(&self, guard: StdStream) {
        let _ = self.inner.guard.set(guard);
    }

    /// How many nested commands there are.
    pub(crate) fn count(&self) -> usize {
        self.inner.branches().all.len()
    }

    /// Ends all nested commands at once, and waits until none of them runs: until each nested process or its guard has
    /// said so, or the lease has ended that they were told of, by which they are dead. What they held is given back.
    /// A signal that says to stop ends the wait: see [`abandoned`](Self::abandoned).
    pub(crate) async fn kill(&self, signals: &mut Signals) {
        self.inner.kill.send_if_modified(|kill| {
            // The first end is the last that any of them was told.
            let first = kill.is_none();
            kill.get_or_insert_with(|| boottime::end_of(|| self.inner.session.remaining()));
            first
        });
        tokio::select! {
            () = self.inner.dead() => {}
            signal = signals.stop() => drop(self.abandoned.set(signal)),
        }
    }

    /// The signal because of which nested commands were not waited for after a kill. Some may still run, so what they
    /// hold is not to be given back before the lease has ended.
    pub(crate) fn abandoned(&self) -> Option<Signal> {
        self.abandoned.get().copied()
    }

    /// Waits until all nested commands have ended; or the lease has, by which they are dead.
    pub(crate) async fn ended(&self) {
        loop {
            let ended = self.inner.ended.notified();
            if self.count() == 0 {
                return;
            }
            let remaining = self.inner.session.remaining();
            if timeout(remaining, ended).await.is_err() && self.inner.session.remaining().is_zero()
            {
                return;
            }
        }
    }

    /// The outer command has ended by itself: waits for those that it has left in the background.
    pub(crate) async fn wait_for_nested(&self, log: &Log) {
        // Those that have ended just before it need a moment to be noticed.
        if timeout(NOTICE, self.ended()).await.is_ok() {
            return;
        }
        let text = format!(
            "its command has ended and its lock is released, but {} under its session: waits for the end",
            match self.count() {
                1 => "a nested command goes on".to_owned(),
                count => format!("{count} nested commands go on"),
            },
        );
        log.info("nested", &text);
        self.ended().await;
    }
}

impl Drop for Nest {
    fn drop(&mut self) {
        self.listens.abort();
    }
}

impl Inner {
    fn branches(&self) -> MutexGuard<'_, Branches> {
        self.branches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn until(&self) -> u64 {
        nanos(boottime::end_of(|| self.session.remaining()))
    }

    /// Waits until no nested command runs after a kill.
    async fn dead(&self) {
        loop {
            let ended = self.ended.notified();
            let end = (*self.kill.borrow()).unwrap_or(Duration::MAX);
            let left = end.saturating_sub(boottime::now());
            if left.is_zero() {
                let late: Vec<_> =
                    self.branches().all.values_mut().map(|branch| branch.holds.take()).collect();
                return drop(late);
            }
            if self.branches().all.values().all(|branch| branch.holds.is_none()) {
                return;
            }
            // Timers stand still while the machine sleeps.
            let _ = timeout(left.min(Duration::from_secs(1)), ended).await;
        }
    }

    /// Tells the guard of the outer command. It is gone when that command has ended, and there is nothing to tell then.
    fn tell_guard(&self, order: &Order) {
        if let Some(mut guard) = self.guard.get() {
            let _ = guard.write_all(order.line().as_bytes());
        }
    }

    /// A nested process is there.
    fn begin(&self, parent: u64) -> Option<u64> {
        let mut branches = self.branches();
        let owner = match parent {
            0 => 0,
            parent => branches.all.get(&parent)?.owner,
        };
        // Of several at the same time, one goes on for the outer command; the others are beside it.
        let taken = |branch: &Branch| branch.parent == parent && branch.owner == owner;
        let owner = if branches.all.values().any(taken) {
            // The session counts its threads of control; by a count of its own, two would be taken for one.
            self.session.thread().owner()
        } else {
            owner
        };
        // In this order with what is said when the last one is gone.
        self.tell_guard(&Order::Nested);
        branches.last += 1;
        let branch = branches.last;
        branches.all.insert(branch, Branch { parent, owner, connections: 1, holds: None });
        Some(branch)
    }

    /// The guard of a branch is there.
    fn join(&self, branch: u64) -> bool {
        let mut branches = self.branches();
        let Some(branch) = branches.all.get_mut(&branch) else { return false };
        branch.connections += 1;
        true
    }

    /// A connection is closed.
    fn leave(&self, branch: u64) {
        let mut branches = self.branches();
        if let Some(one) = branches.all.get_mut(&branch) {
            one.connections -= 1;
            if one.connections == 0 {
                let gone = branches.all.remove(&branch);
                if branches.all.is_empty()
                    && let Some(credentials) = &self.credentials
                {
                    self.tell_guard(&Order::Release(credentials.clone()));
                }
                drop(branches);
                // What it held is given back.
                drop(gone);
                self.ended.notify_waiters();
            }
        }
    }

    fn hold(&self, branch: u64, held: Option<Held>) -> Option<Held> {
        let mut branches = self.branches();
        let branch = branches.all.get_mut(&branch)?;
        let held = std::mem::replace(&mut branch.holds, held);
        drop(branches);
        self.ended.notify_waiters();
        held
    }

    /// Gives back what a branch holds.
    async fn release(&self, branch: u64) {
        match self.hold(branch, None) {
            Some(Held::Locks(guard)) => drop(timeout(CONFIRM, guard.release()).await),
            Some(Held::Leads(term)) => drop(timeout(CONFIRM, term.resign()).await),
            None => {}
        }
    }

    fn owner(&self, branch: u64) -> u32 {
        self.branches().all.get(&branch).map_or(0, |branch| branch.owner)
    }
}

/// Serves a connection.
async fn serve(inner: Arc<Inner>, connection: UnixStream) {
    let (from, mut to) = connection.into_split();
    let mut lines = BufReader::new(from).lines();
    match next(&mut lines).await {
        Some(Request::Hello { node, .. }) if node != inner.node => {
            let _ = to.write_all(line(&Message::Stranger).as_bytes()).await;
        }
        Some(Request::Hello { parent, .. }) => {
            if let Some(branch) = inner.begin(parent) {
                let _ = serve_branch(&inner, branch, &mut lines, &mut to).await;
                inner.leave(branch);
            }
        }
        Some(Request::Guard { branch }) if inner.join(branch) => {
            let _ = serve_guard(&inner, branch, &mut lines, &mut to).await;
            inner.leave(branch);
        }
        _ => {}
    }
}

async fn next(lines: &mut Lines<BufReader<OwnedReadHalf>>) -> Option<Request> {
    let line = lines.next_line().await.ok()??;
    serde_json::from_str(&line).ok()
}

/// Waits until everything has to end.
async fn killed(kill: &mut watch::Receiver<Option<Duration>>) {
    if kill.wait_for(Option::is_some).await.is_err() {
        pending::<()>().await;
    }
}

/// Serves the guard of a nested command: it is there until it closes the connection.
async fn serve_guard(
    inner: &Inner,
    branch: u64,
    lines: &mut Lines<BufReader<OwnedReadHalf>>,
    to: &mut OwnedWriteHalf,
) -> io::Result<()> {
    let mut kill = inner.kill.subscribe();
    to.write_all(line(&Message::Until(inner.until())).as_bytes()).await?;
    loop {
        tokio::select! {
            said = lines.next_line() => if said?.is_none() { return Ok(()) },
            () = killed(&mut kill) => {
                // It may be gone already.
                let _ = to.write_all(line(&Message::Kill).as_bytes()).await;
                while let Some(said) = lines.next_line().await? {
                    if matches!(serde_json::from_str(&said), Ok(Request::Dead)) {
                        inner.release(branch).await;
                    }
                }
                return Ok(());
            }
        }
    }
}

/// Serves a nested process after a kill: it may only give back what it holds.
async fn serve_killed(
    inner: &Inner,
    branch: u64,
    lines: &mut Lines<BufReader<OwnedReadHalf>>,
    to: &mut OwnedWriteHalf,
    asked: bool,
) -> io::Result<()> {
    let refusal =
        Message::Failed { code: OUTER_LOST.to_owned(), message: KILLED.to_owned(), retry_ms: None };
    to.write_all(line(&Message::Kill).as_bytes()).await?;
    if asked {
        to.write_all(line(&refusal).as_bytes()).await?;
    }
    while let Some(asked) = next(lines).await {
        let tell = match asked {
            Request::Release => {
                inner.release(branch).await;
                &Message::Released
            }
            Request::Acquire { .. } | Request::Campaign(_) => &refusal,
            Request::Hello { .. } | Request::Guard { .. } | Request::Dead => return Ok(()),
        };
        to.write_all(line(tell).as_bytes()).await?;
    }
    Ok(())
}

/// Serves a nested process until it closes the connection.
async fn serve_branch(
    inner: &Inner,
    branch: u64,
    lines: &mut Lines<BufReader<OwnedReadHalf>>,
    to: &mut OwnedWriteHalf,
) -> io::Result<()> {
    let session = &inner.session;
    let (ttl, mut until) = (session.ttl(), inner.until());
    let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
    let welcome = Message::Welcome { branch, session: session.id(), ttl_ms, until };
    to.write_all(line(&welcome).as_bytes()).await?;
    let mut look = interval((ttl / 64).max(Duration::from_millis(5)));
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut kill = inner.kill.subscribe();
    let waits = Arc::new(Notify::new());
    let mut work: Work = Box::pin(pending());
    // It waits for an answer to that.
    let mut asks = false;
    let mut lost: Pin<Box<dyn Future<Output = String> + Send>> = Box::pin(pending());
    let mut yields: Pin<Box<dyn Future<Output = Duration> + Send>> = Box::pin(pending());
    loop {
        let tell = tokio::select! {
            biased;
            () = killed(&mut kill) => {
                drop(work);
                return serve_killed(inner, branch, lines, to, asks).await;
            }
            why = &mut lost => {
                lost = Box::pin(pending());
                Message::Lost(why)
            }
            within = &mut yields => {
                yields = Box::pin(pending());
                Message::Yield(u64::try_from(within.as_millis()).unwrap_or(u64::MAX))
            }
            done = &mut work => {
                (work, asks) = (Box::pin(pending()), false);
                match done {
                    Ok(Held::Locks(guard)) => {
                        let loss = guard.lost();
                        lost = Box::pin(async { loss.await.to_string() });
                        let (token, epochs) = (guard.token(), guard.epochs());
                        inner.hold(branch, Some(Held::Locks(guard)));
                        Message::Granted { token, epochs }
                    }
                    Ok(Held::Leads(leadership)) => {
                        let loss = leadership.lost();
                        lost = Box::pin(async { loss.await.to_string() });
                        yields = Box::pin(leadership.yielding());
                        let term = leadership.term();
                        inner.hold(branch, Some(Held::Leads(leadership)));
                        Message::Elected { term }
                    }
                    Err(error) => failed(error),
                }
            }
            () = waits.notified() => Message::Waiting,
            _ = look.tick() => {
                let now = inner.until();
                // What has changed by less is how long it took to say.
                if now <= until + 10_000_000 {
                    continue;
                }
                until = now;
                Message::Until(now)
            }
            asked = next(lines) => match asked {
                None => return Ok(()),
                Some(Request::Acquire { wants, timeout_ms, reentrant }) => {
                    let told = waits.clone();
                    let mut acquire = Acquire::all(wants.into_iter().map(Into::into))
                        .owner(inner.owner(branch))
                        .on_waiting(move || told.notify_one());
                    if let Some(timeout) = timeout_ms {
                        acquire = acquire.timeout(Duration::from_millis(timeout));
                    }
                    if reentrant {
                        acquire = acquire.reentrant();
                    }
                    let session = session.thread();
                    work = Box::pin(async move { session.acquire(acquire).await.map(Held::Locks) });
                    asks = true;
                    continue;
                }
                Some(Request::Campaign(stands)) => {
                    // Who leads on account of the outer command is in the way of those who wait for what that holds.
                    let candidacy = Candidacy::from(stands).owner(inner.owner(branch));
                    let session = session.thread();
                    work =
                        Box::pin(async move { session.campaign(candidacy).await.map(Held::Leads) });
                    asks = true;
                    continue;
                }
                Some(Request::Release) => {
                    (lost, yields) = (Box::pin(pending()), Box::pin(pending()));
                    inner.release(branch).await;
                    Message::Released
                }
                Some(Request::Hello { .. } | Request::Guard { .. } | Request::Dead) => return Ok(()),
            },
        };
        to.write_all(line(&tell).as_bytes()).await?;
    }
}

/// What the nested process makes the same error of.
fn failed(error: Error) -> Message {
    let code = error.code().to_owned();
    let retry_ms = match &error {
        Error::Barred { left, .. } => Some(u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
        _ => None,
    };
    let message = match error {
        Error::Refused { message, .. }
        | Error::Unreachable(message)
        | Error::Unavailable(message)
        | Error::Unauthenticated(message)
        | Error::Forbidden(message) => message,
        Error::SessionLost(loss) => loss.to_string(),
        error => error.to_string(),
    };
    Message::Failed { code, message, retry_ms }
}

impl From<Candidate> for Candidacy {
    fn from(stands: Candidate) -> Self {
        let Candidate { election, rank, preempt, grace_ms, value, timeout_ms } = stands;
        let mut candidacy = Self::new(election).rank(rank).value(value.into_bytes());
        candidacy = candidacy.grace(Duration::from_millis(grace_ms));
        if preempt {
            candidacy = candidacy.preempt();
        }
        match timeout_ms {
            Some(timeout) => candidacy.timeout(Duration::from_millis(timeout)),
            None => candidacy,
        }
    }
}
