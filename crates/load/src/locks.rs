//! Clients that acquire and release locks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_client::{Client, Options, Session, SessionOptions};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::{Arrangement, LoadError, median};

/// What came of clients with a lock each.
pub(crate) struct Uncontended {
    /// Locks taken and given back, per second, by all together.
    pub(crate) rate: f64,
    /// How long it takes to have one, in microseconds.
    pub(crate) acquire: f64,
}

/// What came of clients that all want the same lock.
pub(crate) struct Contended {
    /// From one holder to the next, in microseconds.
    pub(crate) each: f64,
    /// Of all clients, the fewest and the most grants.
    pub(crate) least: f64,
    pub(crate) most: f64,
}

pub(crate) async fn connect(address: SocketAddr, name: &str) -> Result<Session, LoadError> {
    let client = Client::connect(Options::new(address.to_string()).name(name)).await?;
    open(&client).await
}

async fn open(client: &Client) -> Result<Session, LoadError> {
    Ok(client.open(SessionOptions::ttl(Duration::from_secs(60))).await?)
}

/// What one client did.
struct Done {
    acquired: Vec<Duration>,
    within: Duration,
}

/// How a lock is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// By dropping the guard, as most programs do. It goes out at once, and ahead of whatever is asked next,
    /// so it is on disk before the next lock is granted.
    Dropped,
    /// With a wait until it is confirmed.
    Confirmed,
}

/// Each on a lock of its own.
pub(crate) async fn uncontended(
    address: SocketAddr,
    arrangement: Arrangement,
    release: Release,
    span: Duration,
) -> Result<Uncontended, LoadError> {
    let lock = |client| format!("lock-{client}");
    let done = all(address, arrangement, release, span, lock).await?;
    let rate = done.iter().map(|done| done.acquired.len() as f64 / done.within.as_secs_f64()).sum();
    let acquire = median(done.into_iter().flat_map(|done| done.acquired).collect());
    Ok(Uncontended { rate, acquire })
}

/// All on the same.
pub(crate) async fn contended(
    address: SocketAddr,
    arrangement: Arrangement,
    span: Duration,
) -> Result<Contended, LoadError> {
    let lock = |_| "wanted by all".to_owned();
    let done = all(address, arrangement, Release::Confirmed, span, lock).await?;
    let rate: f64 =
        done.iter().map(|done| done.acquired.len() as f64 / done.within.as_secs_f64()).sum();
    let grants = || done.iter().map(|done| done.acquired.len() as f64);
    let least = grants().fold(f64::INFINITY, f64::min);
    Ok(Contended { each: 1e6 / rate, least, most: grants().fold(0.0, f64::max) })
}

async fn all(
    address: SocketAddr,
    arrangement: Arrangement,
    release: Release,
    span: Duration,
    lock: impl Fn(usize) -> String,
) -> Result<Vec<Done>, LoadError> {
    let Arrangement { clients, connections } = arrangement;
    let mut connected = Vec::new();
    for number in 0..connections {
        let name = format!("client-{number}");
        connected.push(Client::connect(Options::new(address.to_string()).name(name)).await?);
    }
    let start = Arc::new(Barrier::new(clients));
    let mut tasks = JoinSet::new();
    for client in 0..clients {
        let (lock, start) = (lock(client), start.clone());
        let session = open(&connected[client % connections]).await?;
        tasks.spawn(async move {
            start.wait().await;
            work(&session, &lock, release, span).await
        });
    }
    let mut all = Vec::new();
    while let Some(done) = tasks.join_next().await {
        all.push(done.expect("it does not panic")?);
    }
    Ok(all)
}

#[expect(clippy::disallowed_methods, reason = "it measures")]
async fn work(
    session: &Session,
    lock: &str,
    release: Release,
    span: Duration,
) -> Result<Done, LoadError> {
    let begun = Instant::now();
    let mut acquired = Vec::new();
    loop {
        let asked = Instant::now();
        let guard = session.lock(lock).await?;
        acquired.push(asked.elapsed());
        let last = begun.elapsed() >= span;
        // The last is confirmed in any case, and with it all before.
        if last || release == Release::Confirmed {
            guard.release().await?;
        }
        if last {
            break;
        }
    }
    Ok(Done { acquired, within: begun.elapsed() })
}
