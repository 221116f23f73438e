//! Ten thousand clients, each with a connection of its own, and all of them gone at once.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::crowd::{CROWD, TTL, room_for_clients};
use crate::support::{get, open, options, post, until};
use conclave_server::{Bounds, ManualTime, ServeOptions, Server, TimeSource};
use conclave_testing::until_async;
use serde_json::json;

/// Another client, which takes a lock and gives it back for as long as the server is there.
async fn go_on(server: Arc<Server>, rounds: Arc<AtomicU64>) {
    let session = open(&server).await;
    loop {
        let body = json!({ "session": session, "lock": "other" }).to_string();
        let held = post(&server, "/v1/acquire", &body).await.json()["token"].clone();
        assert!(held.is_u64() || held.is_string(), "it is granted");
        let body = json!({ "session": session, "lock": "other", "token": held }).to_string();
        assert_eq!(post(&server, "/v1/release", &body).await.status, 200);
        rounds.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn connections(server: &Server) -> usize {
    let text = get(server, "/metrics").await.body;
    let count = text.lines().find_map(|line| line.strip_prefix("conclave_connections "));
    count.and_then(|count| count.parse().ok()).expect("they are counted")
}

/// Waits until no more are left.
async fn few_connections(server: &Server, most: usize, crowd: &str) {
    let what = format!("the connections of {crowd} are gone");
    until_async(&what, async || connections(server).await <= most).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_clients_that_drop_at_once_leave_their_sessions_and_no_connection() {
    let count = room_for_clients();
    let crowd = match count {
        CROWD => format!("{count} clients"),
        _ => format!("{count} clients, for more files may not be open here"),
    };
    let directory = tempfile::tempdir().expect("a directory");
    // No client here answers a probe.
    let bounds = Bounds { silence: Duration::from_secs(600), ..Bounds::default() };
    let time = ManualTime::new();
    let mut options = ServeOptions { bounds, ..options(directory.path()) };
    options.node.time = TimeSource::Manual(time.clone());
    let server = Server::start(options).await;
    let server = Arc::new(server.expect("it starts"));
    let rounds = Arc::new(AtomicU64::new(0));
    let other = tokio::spawn(go_on(server.clone(), rounds.clone()));
    // It goes on from wherever it is.
    let served = async || {
        let before = rounds.load(Ordering::Relaxed);
        until(|| rounds.load(Ordering::Relaxed) > before + 2).await;
    };
    let counts = || server.node().look(|machine| machine.counts());
    served().await;

    let mut child = Command::new(env!("CARGO_BIN_EXE_conclave-test-process"))
        .args(["clients", &server.address().to_string(), &count.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut orders = child.stdin.take().expect("it is piped");
    let mut reports = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut report = move || {
        tokio::task::block_in_place(|| {
            let mut line = String::new();
            reports.read_line(&mut line).expect("text");
            line
        })
    };
    assert_eq!(report(), "connected\n", "{crowd}");
    assert!(connections(&server).await >= count, "{crowd}");
    served().await;

    orders.write_all(b"open\n").expect("it reads");
    assert_eq!(report(), "asked\n", "{crowd}");
    until(|| counts().waits == count - 1).await;
    assert_eq!(counts().sessions, count + 1, "{crowd}");

    child.kill().expect("it was alive");
    child.wait().expect("it is dead");
    // This test's own, and perhaps the other's.
    few_connections(&server, 2, &crowd).await;
    // They may come again; until their leases end, they have what they had.
    time.advance(TTL - Duration::from_millis(1));
    served().await;
    let after = counts();
    assert_eq!((after.sessions, after.waits), (count + 1, count - 1), "{crowd}");
    time.advance(Duration::from_millis(1));
    until(|| counts().sessions == 1).await;
    assert_eq!(counts().waits, 0, "{crowd}");
    // What they had is there for others.
    let session = open(&server).await;
    let body = json!({ "session": session, "lock": "disk" }).to_string();
    assert_eq!(post(&server, "/v1/acquire", &body).await.status, 200);
    served().await;
    assert!(!other.is_finished(), "the other was not served");
    other.abort();
    few_connections(&server, 1, &crowd).await;
}
