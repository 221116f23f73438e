//! Scale: many waiters, locks and sessions at once.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use conclave_client::{Client, Options as ClientOptions, Session, SessionOptions};
use tokio::task::JoinSet;

use crate::process::Server;
use crate::{Bound, Figure, LoadError, Options, locks, median};

const FEW: usize = 10;
const WAITERS: usize = 10_000;
/// How many hand-overs are timed.
const TIMED: usize = 300;

/// Whether a grant costs more when many wait.
pub(crate) async fn waiters(
    options: &Options,
    report: &mut dyn FnMut(Figure),
) -> Result<(), LoadError> {
    let server = Server::start(options, "waiters").await?;
    // In turns, so that what else the machine does is the same for both.
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..3 {
        for (waiting, times) in [FEW, WAITERS].into_iter().zip(&mut times) {
            times.extend(hand_overs(server.address(), waiting).await?);
        }
    }
    let [few, many] = times.map(median);
    report(Figure::plain(format!("hand-over, {FEW} wait"), few, "µs"));
    let figure = Figure::plain(format!("hand-over, {WAITERS} wait"), many, "µs");
    report(figure.beside(format!("{FEW} wait"), many / few, Bound::AtMost(2.0)));
    server.stop().await
}

/// From a release to the next grant, again and again, while so many wait.
#[expect(clippy::disallowed_methods, reason = "it measures")]
async fn hand_overs(address: SocketAddr, waiting: usize) -> Result<Vec<Duration>, LoadError> {
    let lock = "queue";
    let (one, two) = (locks::connect(address, "one").await?, locks::connect(address, "two").await?);
    let mut guard = one.lock(lock).await?;
    let mut times = Vec::new();
    // Two hand the lock to each other by name, past all the others, who go on waiting.
    let crowd = Crowd::behind(address, lock, waiting).await?;
    for turn in 0..TIMED / 2 {
        let to = if turn % 2 == 0 { &two } else { &one };
        let (waits, told) = tokio::sync::oneshot::channel();
        let acquire = conclave_client::Acquire::exclusive(lock).on_waiting(|| {
            let _ = waits.send(());
        });
        let session = to.clone();
        let next = tokio::spawn(async move { session.acquire(acquire).await });
        // It is in the queue before it is handed the lock.
        let _ = told.await;
        let begun = Instant::now();
        guard.hand_over(to.id()).await?;
        guard = next.await.expect("it does not panic")?;
        times.push(begun.elapsed());
    }
    drop(crowd);
    guard.release().await?;
    Ok(times)
}

/// Many who wait for a lock.
struct Crowd {
    _tasks: JoinSet<()>,
}

impl Crowd {
    async fn behind(address: SocketAddr, lock: &str, count: usize) -> Result<Self, LoadError> {
        let mut tasks = JoinSet::new();
        let (waits, mut told) = tokio::sync::mpsc::unbounded_channel();
        for session in sessions(address, count.div_ceil(1000), count).await? {
            let acquire = conclave_client::Acquire::exclusive(lock);
            let waits = waits.clone();
            let acquire = acquire.on_waiting(move || {
                let _ = waits.send(());
            });
            tasks.spawn(async move {
                // Until it is dropped, which cancels it.
                let _ = session.acquire(acquire).await;
            });
        }
        for _ in 0..count {
            told.recv().await;
        }
        Ok(Self { _tasks: tasks })
    }
}

/// So many sessions over so many connections.
async fn sessions(
    address: SocketAddr,
    connections: usize,
    count: usize,
) -> Result<Vec<Session>, LoadError> {
    let mut clients = Vec::new();
    for _ in 0..connections {
        clients.push(Client::connect(ClientOptions::new(address.to_string())).await?);
    }
    let mut opening = JoinSet::new();
    for number in 0..count {
        let client = clients[number % connections].clone();
        let ttl = SessionOptions::ttl(Duration::from_secs(10));
        opening.spawn(async move { client.open(ttl).await });
    }
    let mut sessions = Vec::new();
    while let Some(session) = opening.join_next().await {
        sessions.push(session.expect("it does not panic")?);
    }
    Ok(sessions)
}

const LOCKS: usize = 100_000;
const SESSIONS: usize = 10_000;
/// For how long keepalives are watched.
const WATCHED: Duration = Duration::from_secs(20);

/// What locks and sessions take of a server's memory, and keepalives of its time. Each server is a new one: what was
/// given back is used again, and would not be seen.
pub(crate) async fn memory(
    options: &Options,
    report: &mut dyn FnMut(Figure),
) -> Result<(), LoadError> {
    locks_held(options, report).await?;
    sessions_idle(options, report).await
}

async fn locks_held(options: &Options, report: &mut dyn FnMut(Figure)) -> Result<(), LoadError> {
    let server = Server::start(options, "locks").await?;
    // What is taken once and for all is taken first.
    let session = locks::connect(server.address(), "holder").await?;
    session.lock("first").await?.release().await?;
    let before = server.memory()?;
    let mut guards = Vec::new();
    let names: Vec<String> = (0..LOCKS).map(|lock| format!("lock-{lock:06}")).collect();
    for names in names.chunks(64) {
        let wants = names.iter().map(conclave_client::Want::exclusive);
        guards.push(session.lock_all(wants).await?);
    }
    let each = (server.memory()? - before) / LOCKS as f64;
    report(at_most(format!("memory per lock, {LOCKS} held"), each, "bytes", 300.0));
    drop(guards);
    server.stop().await
}

async fn sessions_idle(options: &Options, report: &mut dyn FnMut(Figure)) -> Result<(), LoadError> {
    let server = Server::start(options, "sessions").await?;
    let first = locks::connect(server.address(), "first").await?;
    let before = server.memory()?;
    let sessions = sessions(server.address(), 10, SESSIONS).await?;
    let each = (server.memory()? - before) / SESSIONS as f64;
    report(at_most(format!("memory per session, {SESSIONS} idle"), each, "bytes", 2048.0));
    let before = server.work()?;
    tokio::time::sleep(WATCHED).await;
    let share = (server.work()? - before).as_secs_f64() / WATCHED.as_secs_f64() * 100.0;
    let what = format!("{SESSIONS} sessions kept alive, time-to-live 10 s");
    report(at_most(what, share, "% of a core", 10.0));
    drop((first, sessions));
    server.stop().await
}

fn at_most(what: String, value: f64, unit: &'static str, most: f64) -> Figure {
    Figure::plain(what, value, unit).beside("the bound", value / most, Bound::AtMost(1.0))
}
