//! The server is killed again and again while clients take locks, give them back and hold on to some. No
//! lock that was acknowledged is lost, no lock has two holders, and tokens rise.
//!
//! `CONCLAVE_KILLS` says how often, if not two hundred times.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use conclave_client::{Client, Options, Session, SessionOptions};
use conclave_testing::{LIMIT, eventually_async, until_async};

fn start(address: SocketAddr, directory: &Path) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_conclave-test-process"))
        .args(["serve", &address.to_string()])
        .arg(directory)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut said = String::new();
    let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
    out.read_line(&mut said).expect("text");
    assert!(said.starts_with("up at"), "the server did not come up: {said:?}");
    child
}

/// What happened, as the clients saw it. One lock around it all: what is written here first, was first.
#[derive(Default)]
struct History {
    /// Who holds each lock, as far as it has been told and has not begun to give it back.
    held: Mutex<BTreeMap<String, u64>>,
    /// The highest token that each lock was held with.
    highest: Mutex<BTreeMap<String, u64>>,
    grants: AtomicU64,
}

impl History {
    fn taken(&self, lock: &str, token: u64) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let other = held.insert(lock.to_owned(), token);
        assert_eq!(other, None, "{lock} is held with {token}, and still with another token");
        let mut highest = self.highest.lock().unwrap_or_else(PoisonError::into_inner);
        let before = highest.insert(lock.to_owned(), token).unwrap_or(0);
        assert!(token > before, "{lock} was held with {before} and is held with {token} later");
        self.grants.fetch_add(1, Ordering::Relaxed);
    }

    fn given_back(&self, lock: &str, token: u64) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(held.remove(lock), Some(token), "{lock} was held with {token}");
    }
}

/// Longer than all the kills together take, so that whatever is lost was lost by the server.
const TTL: Duration = Duration::from_secs(3600);

async fn session(address: SocketAddr, name: &str) -> Session {
    let options = Options::new(address.to_string()).name(name);
    let options = options.connect_timeout(LIMIT);
    let client = Client::connect(options).await.expect("it is up");
    client.open(SessionOptions::ttl(TTL)).await.expect("there is room")
}

/// Takes locks and gives them back until told to stop. Every lock it was given is there to be given back.
async fn work(address: SocketAddr, number: u64, history: Arc<History>, stop: Arc<AtomicBool>) {
    let session = session(address, &format!("worker-{number}")).await;
    for turn in number.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let lock = format!("wanted-{}", turn % 3);
        let guard = session.lock(lock.as_str()).await.expect("it is granted some time");
        history.taken(&lock, guard.token());
        tokio::task::yield_now().await;
        assert!(guard.is_held());
        history.given_back(&lock, guard.token());
        guard.release().await.expect("it was held until now");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_two_hundred_times_it_loses_no_lock_and_grants_none_twice() {
    let kills =
        std::env::var("CONCLAVE_KILLS").map_or(200, |kills| kills.parse().expect("a number"));
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = address.expect("a port is free");
    let mut server = start(address, &data);

    let (history, stop) = (Arc::new(History::default()), Arc::new(AtomicBool::new(false)));
    let workers: Vec<_> = (0..8)
        .map(|number| tokio::spawn(work(address, number, history.clone(), stop.clone())))
        .collect();
    let keeper = session(address, "keeper").await;
    let client = Client::connect(Options::new(address.to_string())).await.expect("it is up");
    let mut kept = Vec::new();
    for kill in 0..kills {
        // One more lock each time, held until the end.
        if kept.len() < 50 {
            kept.push(keeper.lock(format!("kept-{kill}")).await.expect("no other wants it"));
        }
        // After some work, at some moment of it.
        let before = history.grants.load(Ordering::Relaxed);
        until_async("some more grants", async || {
            assert!(workers.iter().all(|worker| !worker.is_finished()), "a worker has failed");
            history.grants.load(Ordering::Relaxed) >= before + 5 + kill % 17
        })
        .await;
        server.kill().expect("it was alive");
        server.wait().expect("it is dead");
        server = start(address, &data);
        let guard = &kept[(kill as usize * 7) % kept.len()];
        assert!(guard.is_held(), "{:?} was lost", guard.locks());
        // A first call may fail over the connection that was cut.
        let lock = guard.locks()[0].as_str();
        let reasons = eventually_async("an answer", async || client.why(lock).await.ok()).await;
        let lock = reasons.lock.expect("it is held");
        assert_eq!(lock.holders.len(), 1, "{lock:?}");
        assert_eq!(lock.holders[0].token, guard.token(), "{lock:?}");
    }
    stop.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.await.expect("all was well");
    }
    for guard in kept {
        guard.release().await.expect("it was held until now");
    }
    server.kill().expect("it was alive");
    server.wait().expect("it is dead");
    println!("{kills} kills, {} grants", history.grants.load(Ordering::Relaxed));
}
