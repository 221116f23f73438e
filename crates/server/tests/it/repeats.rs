//! Requests that are made again over another connection, and those whose connection has ended.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc;

use crate::support::{exchange, get, open, options, post, request, server, until};
use conclave_machine::{Config, Limits};
use conclave_server::{Options, Server};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle};

fn acquire(session: &str, number: u64, lock: &str) -> String {
    json!({ "session": session, "request": number, "lock": lock }).to_string()
}

fn waits(server: &Server) -> usize {
    server.node().look(|machine| machine.counts().waits)
}

/// Asks, and does not wait for the answer.
async fn begin(address: SocketAddr, body: &str) -> TcpStream {
    let mut io = TcpStream::connect(address).await.expect("it listens");
    let asked = request("POST", "/v1/acquire", "", body);
    io.write_all(asked.as_bytes()).await.expect("it listens");
    io
}

async fn end(io: TcpStream) -> crate::support::Answer {
    conclave_testing::in_time("an answer", exchange(io, b"")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repetition_takes_a_wait_over_and_the_first_call_is_told_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let (one, two) = (open(&server).await, open(&server).await);
    let held = post(&server, "/v1/acquire", &acquire(&one, 1, "a")).await.json()["token"].clone();
    let first = begin(server.address(), &acquire(&two, 1, "a")).await;
    until(|| waits(&server) == 1).await;
    let second = begin(server.address(), &acquire(&two, 1, "a")).await;
    let first = end(first).await;
    assert_eq!(first.refused(), (409, "superseded".to_owned()));
    assert_eq!(waits(&server), 1, "the second waits on");
    let release = json!({ "session": one, "lock": "a", "token": held }).to_string();
    assert_eq!(post(&server, "/v1/release", &release).await.status, 200);
    let granted = end(second).await;
    assert_eq!(granted.status, 200, "{granted:?}");
    // And again, which is answered as before.
    let again = post(&server, "/v1/acquire", &acquire(&two, 1, "a")).await;
    assert_eq!(again.json(), granted.json());
}

#[tokio::test(flavor = "multi_thread")]
async fn whichever_attempt_arrives_last_a_client_that_repeats_when_superseded_gets_the_grant() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let (one, two) = (open(&server).await, open(&server).await);
    let held = post(&server, "/v1/acquire", &acquire(&one, 1, "a")).await.json()["token"].clone();
    // The network delivers the repetition, which is still listened to, before the attempt that was given up.
    let repetition = begin(server.address(), &acquire(&two, 1, "a")).await;
    until(|| waits(&server) == 1).await;
    let given_up = begin(server.address(), &acquire(&two, 1, "a")).await;
    assert_eq!(end(repetition).await.refused(), (409, "superseded".to_owned()));
    drop(given_up);
    let release = json!({ "session": one, "lock": "a", "token": held }).to_string();
    assert_eq!(post(&server, "/v1/release", &release).await.status, 200);
    let granted = post(&server, "/v1/acquire", &acquire(&two, 1, "a")).await;
    assert_eq!(granted.status, 200, "{granted:?}");
    let again = post(&server, "/v1/acquire", &acquire(&two, 1, "a")).await;
    assert_eq!(again.json(), granted.json());
}

/// A server whose only thread can be stopped, as a signal would stop the process.
struct Stoppable {
    address: SocketAddr,
    handle: Handle,
    over: tokio::sync::oneshot::Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

impl Stoppable {
    fn start(directory: &Path) -> Self {
        let (started, starts) = mpsc::channel();
        let (over, ends) = tokio::sync::oneshot::channel();
        let options = options(directory);
        let thread = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            let handle = runtime.handle().clone();
            runtime.block_on(async move {
                let server = Server::start(options).await.expect("it starts");
                started.send((server.address(), handle)).expect("the test waits for it");
                let _ = ends.await;
                server.stop().await.expect("it stops");
            });
        });
        let (address, handle) = starts.recv().expect("it starts");
        Self { address, handle, over, thread }
    }

    /// Nothing happens in the server until what is returned is dropped.
    fn stop(&self) -> mpsc::Sender<()> {
        let (go_on, stopped) = mpsc::channel::<()>();
        let (begins, begun) = mpsc::channel();
        self.handle.spawn(async move {
            begins.send(()).expect("the test waits for it");
            let _ = stopped.recv();
        });
        begun.recv().expect("it stops");
        go_on
    }

    async fn post(&self, path: &str, body: &str) -> crate::support::Answer {
        let io = TcpStream::connect(self.address).await.expect("it listens");
        let asked = request("POST", path, "", body);
        conclave_testing::in_time("an answer", exchange(io, asked.as_bytes())).await
    }

    async fn open(&self) -> String {
        let opened = self.post("/v1/sessions", r#"{"ttl_ms":600000}"#).await.json();
        opened["session"].as_str().expect("a session").to_owned()
    }

    async fn why(&self, lock: &str) -> Value {
        let io = TcpStream::connect(self.address).await.expect("it listens");
        let asked = request("GET", &format!("/v1/why?name={lock}"), "", "");
        exchange(io, asked.as_bytes()).await.json()
    }

    /// The token that a lock is held with.
    async fn holder(&self, lock: &str) -> Value {
        self.why(lock).await["lock"]["holders"][0]["token"].clone()
    }

    async fn until_waited_for(&self, lock: &str) {
        conclave_testing::until_async("a waiter", async || {
            self.why(lock).await["lock"]["waiting"].as_u64() > Some(0)
        })
        .await;
    }

    fn end(self) {
        let Self { over, thread, .. } = self;
        over.send(()).expect("it is up");
        thread.join().expect("it stops");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_a_repetition_was_told_is_not_undone_though_the_server_was_stopped_between() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Stoppable::start(directory.path());
    let (one, two, three) = (server.open().await, server.open().await, server.open().await);
    for round in 1..=20 {
        let held = server.post("/v1/acquire", &acquire(&one, round, "a")).await.json();
        let first = begin(server.address, &acquire(&two, round, "a")).await;
        // It may wait already, or not have been read.
        if round % 2 == 0 {
            server.until_waited_for("a").await;
        }
        let go_on = server.stop();
        drop(first);
        let second = begin(server.address, &acquire(&two, round, "a")).await;
        let release = json!({ "session": one, "lock": "a", "token": held["token"] }).to_string();
        let release = request("POST", "/v1/release", "", &release);
        let mut releasing = TcpStream::connect(server.address).await.expect("it listens");
        releasing.write_all(release.as_bytes()).await.expect("it listens");
        drop(go_on);
        let (granted, released) = tokio::join!(end(second), end(releasing));
        assert_eq!((granted.status, released.status), (200, 200), "{granted:?}");
        // Another session would be granted what was undone.
        let other = json!({ "session": three, "lock": "a", "timeout_ms": 30 }).to_string();
        let other = server.post("/v1/acquire", &other).await;
        assert_eq!(other.refused(), (409, "timed-out".to_owned()), "round {round}");
        let token = &granted.json()["token"];
        assert_eq!(server.holder("a").await, *token, "round {round}");
        let release = json!({ "session": two, "lock": "a", "token": token }).to_string();
        assert_eq!(server.post("/v1/release", &release).await.status, 200, "round {round}");
    }
    server.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn however_often_a_client_hangs_up_and_asks_again_it_is_never_told_what_another_holds() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let (one, two) = (open(&server).await, open(&server).await);
    for round in 1..=100 {
        let mine = [&one, &two].map(|session| acquire(session, round, "a"));
        // Both ask, give up at once, and ask again.
        for body in &mine {
            drop(begin(server.address(), body).await);
        }
        let tries = mine.each_ref().map(|body| begin(server.address(), body));
        let [first, second] = tries;
        let (first, second) = tokio::join!(first, second);
        let hand_on = async |io: TcpStream, session: &str| {
            let granted = end(io).await;
            assert_eq!(granted.status, 200, "round {round}: {granted:?}");
            let token = granted.json()["token"].clone();
            let release = json!({ "session": session, "lock": "a", "token": token }).to_string();
            let released = post(&server, "/v1/release", &release).await;
            assert_eq!(released.status, 200, "round {round}: {released:?}");
        };
        tokio::join!(hand_on(first, &one), hand_on(second, &two));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_came_without_a_number_is_undone_when_its_client_has_hung_up() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Stoppable::start(directory.path());
    let (one, two, three) = (server.open().await, server.open().await, server.open().await);
    let wants = |session: &str| json!({ "session": session, "lock": "a" }).to_string();
    for round in 0..10 {
        let held = server.post("/v1/acquire", &wants(&one)).await.json()["token"].clone();
        let waiting = begin(server.address, &wants(&two)).await;
        server.until_waited_for("a").await;
        // The lock becomes free and the client hangs up at the same time.
        let go_on = server.stop();
        drop(waiting);
        let release = json!({ "session": one, "lock": "a", "token": held }).to_string();
        let release = request("POST", "/v1/release", "", &release);
        let mut io = TcpStream::connect(server.address).await.expect("it listens");
        io.write_all(release.as_bytes()).await.expect("it listens");
        drop(go_on);
        assert_eq!(end(io).await.status, 200, "round {round}");
        let granted = server.post("/v1/acquire", &wants(&three)).await;
        assert_eq!(granted.status, 200, "round {round}: {granted:?}");
        let token = granted.json()["token"].clone();
        let release = json!({ "session": three, "lock": "a", "token": token }).to_string();
        assert_eq!(server.post("/v1/release", &release).await.status, 200);
    }
    server.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_may_number_some_requests_and_not_others() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let session = open(&server).await;
    for number in 1..=80 {
        let granted = post(&server, "/v1/acquire", &acquire(&session, number, "a")).await;
        assert_eq!(granted.status, 200, "request {number}: {granted:?}");
        let token = granted.json()["token"].clone();
        let release = json!({ "session": session, "lock": "a", "token": token }).to_string();
        assert_eq!(post(&server, "/v1/release", &release).await.status, 200);
    }
    let huge = acquire(&session, 1 << 63, "a");
    assert_eq!(post(&server, "/v1/acquire", &huge).await.refused(), (400, "bad-request".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_waited_when_the_node_stopped_are_no_ghosts_when_it_is_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = server(directory.path()).await;
    let (one, two, three) = (open(&first).await, open(&first).await, open(&first).await);
    let held = post(&first, "/v1/acquire", &acquire(&one, 1, "a")).await.json()["token"].clone();
    let numbered = begin(first.address(), &acquire(&two, 7, "a")).await;
    until(|| waits(&first) == 1).await;
    let without = json!({ "session": three, "lock": "a" }).to_string();
    let unnumbered = begin(first.address(), &without).await;
    until(|| waits(&first) == 2).await;
    first.stop().await.expect("it stops");
    drop((numbered, unnumbered));
    let second = server(directory.path()).await;
    assert_eq!(waits(&second), 0, "no request waits there");
    // Both ask again, and neither is busy or granted what it was not told.
    let two = begin(second.address(), &acquire(&two, 7, "a")).await;
    until(|| waits(&second) == 1).await;
    let three_waits = begin(second.address(), &without).await;
    until(|| waits(&second) == 2).await;
    let release = json!({ "session": one, "lock": "a", "token": held }).to_string();
    assert_eq!(post(&second, "/v1/release", &release).await.status, 200);
    let granted = end(two).await;
    assert_eq!(granted.status, 200, "{granted:?}");
    drop(three_waits);
    until(|| waits(&second) == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_opening_with_a_key_of_the_clients_own_can_be_repeated() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let body = r#"{"name":"test","nonce":77}"#;
    let first = post(&server, "/v1/sessions", body).await.json();
    assert_eq!(first["session"], "1.000000000000004d");
    assert_eq!(post(&server, "/v1/sessions", body).await.json(), first);
    assert_eq!(get(&server, "/v1/status").await.json()["sessions"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_tells_that_a_table_is_nearly_full() {
    let directory = tempfile::tempdir().expect("a directory");
    let limits = Limits { sessions: 10, ..Limits::default() };
    let node = Options {
        config: Config { limits, ..Config::default() },
        ..Options::new(directory.path().join("data"))
    };
    let options = conclave_server::ServeOptions { node, ..options(directory.path()) };
    let server = Server::start(options).await.expect("it starts");
    for _ in 0..8 {
        open(&server).await;
    }
    assert_eq!(get(&server, "/v1/status").await.json()["warnings"], json!([]));
    open(&server).await;
    let warned = get(&server, "/v1/status").await.json();
    assert_eq!(warned["warnings"], json!(["there are 9 of at most 10 sessions"]));
}
