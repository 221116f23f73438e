//! Connections: how many there may be, which are closed, and what becomes of them when the server stops.

use std::sync::Arc;
use std::time::Duration;

use crate::support::stream::{upgrade, upgrade_at};
use crate::support::{Answer, exchange, get, grpc, open, options, post, request, server, until};
use conclave_api::v1;
use conclave_server::{Bounds, Node, Options, ServeError, ServeOptions, Server};
use conclave_testing::{in_time, until_async};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn with_bounds(directory: &std::path::Path, bounds: Bounds) -> Server {
    Server::start(ServeOptions { bounds, ..options(directory) }).await.expect("it starts")
}

/// Reads until the other side ends the connection.
async fn ended(mut io: TcpStream) -> Vec<u8> {
    let mut told = Vec::new();
    drop(in_time("the end of the connection", io.read_to_end(&mut told)).await);
    told
}

/// Reads one answer of a connection that goes on.
async fn answer(io: &mut TcpStream) -> String {
    let mut told = Vec::new();
    while !told.ends_with(b"\r\n\r\n") {
        told.push(io.read_u8().await.expect("it answers"));
    }
    let head = String::from_utf8(told).expect("text");
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>().ok())?
    });
    let mut body = vec![0; length.expect("it is of a known length")];
    io.read_exact(&mut body).await.expect("it answers");
    head + &String::from_utf8(body).expect("text")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_on_which_nothing_is_asked_is_closed_and_one_that_waits_is_not() {
    let directory = tempfile::tempdir().expect("a directory");
    let bounds = Bounds {
        // Long enough for a question to follow its connection on a busy machine.
        patience: Duration::from_secs(3),
        // No client is probed.
        silence: Duration::from_secs(600),
        ..Bounds::default()
    };
    let server = with_bounds(directory.path(), bounds).await;
    let (holder, other) = (open(&server).await, open(&server).await);
    let acquire = |session: &str| json!({ "session": session, "lock": "disk" }).to_string();
    let token = post(&server, "/v1/acquire", &acquire(&holder)).await.json()["token"].clone();
    // These wait for something, and are left alone.
    let mut waiter = TcpStream::connect(server.address()).await.expect("it listens");
    let asked = request("POST", "/v1/acquire", "", &acquire(&other));
    waiter.write_all(asked.as_bytes()).await.expect("it listens");
    let mut observer = TcpStream::connect(server.address()).await.expect("it listens");
    let asked = request("GET", "/v1/observe?election=web", "", "");
    observer.write_all(asked.as_bytes()).await.expect("it listens");
    let stream = upgrade(&server, &[]).await;

    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".as_slice();
    let beginnings: [&[u8]; 7] = [
        b"",
        b"P",
        b"PRI * HTTP/2.0\r\n",
        b"POST /v1/acquire HTTP/1.1\r\nhost: localhost\r\n",
        b"POST /v1/acquire HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{\"a\":",
        b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n",
        preface,
    ];
    let mut idle = Vec::new();
    for bytes in beginnings {
        let mut io = TcpStream::connect(server.address()).await.expect("it listens");
        io.write_all(bytes).await.expect("it listens");
        idle.push((bytes, io));
    }
    for (bytes, io) in idle {
        let told = ended(io).await;
        let told = String::from_utf8_lossy(&told);
        match bytes {
            [b'G', ..] => assert!(told.starts_with("HTTP/1.1 200 "), "{told}"),
            [.., b':'] => assert!(told.starts_with("HTTP/1.1 408 "), "{told}"),
            _ => {}
        }
    }
    let text = get(&server, "/metrics").await.body;
    assert!(!text.contains("conclave_clients_cut_off_total{reason=\"idle\"} 0"), "{text}");
    // The waiter has its turn, however long it has waited.
    let body = json!({ "session": holder, "lock": "disk", "token": token }).to_string();
    assert_eq!(post(&server, "/v1/release", &body).await.status, 200);
    assert!(answer(&mut waiter).await.starts_with("HTTP/1.1 200 "));
    let campaign = json!({ "session": holder, "election": "web" }).to_string();
    assert_eq!(post(&server, "/v1/campaign", &campaign).await.status, 200);
    let mut told = String::new();
    while !told.contains("\"term\"") {
        let mut bytes = [0; 1024];
        let length = observer.read(&mut bytes).await.expect("it goes on");
        assert_ne!(length, 0, "the observer was sent away: {told}");
        told.push_str(&String::from_utf8_lossy(&bytes[..length]));
    }
    drop(stream);
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_the_bound_a_client_is_told_why_it_is_not_let_in() {
    let directory = tempfile::tempdir().expect("a directory");
    let bounds = Bounds { connections: Some(3), ..Bounds::default() };
    let server = with_bounds(directory.path(), bounds).await;
    let metrics = async |io: &mut TcpStream| {
        let ask = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n";
        io.write_all(ask).await.expect("it listens");
        answer(io).await
    };
    let mut first = TcpStream::connect(server.address()).await.expect("it listens");
    let text = metrics(&mut first).await;
    assert!(text.contains("conclave_connections_limit 3\n"), "{text}");
    let (one, two) = (upgrade(&server, &[]).await, upgrade(&server, &[]).await);
    let text = metrics(&mut first).await;
    assert!(text.contains("conclave_connections 3\n"), "{text}");
    for path in ["/v1/status", "/v1/talk"] {
        let refused = get(&server, path).await;
        assert_eq!(refused.refused(), (503, "unavailable".to_owned()), "{refused:?}");
        assert!(refused.body.contains("3 connections"), "{refused:?}");
        assert!(refused.headers.contains("retry-after"), "{refused:?}");
    }
    // HTTP/2 says why, too; a client may know it only when it asks for something.
    let channel = tonic::transport::Channel::from_shared(format!("http://{}", server.address()));
    if let Ok(channel) = channel.expect("an address").connect().await {
        let mut client = v1::conclave_client::ConclaveClient::new(channel);
        client.status(v1::ShowStatus {}).await.expect_err("it is not let in");
    }
    let mut raw = TcpStream::connect(server.address()).await.expect("it listens");
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    raw.write_all(preface).await.expect("it listens");
    raw.shutdown().await.expect("it listens");
    let told = ended(raw).await;
    assert!(String::from_utf8_lossy(&told).contains("3 connections"), "{told:?}");
    // One that says nothing does not keep the next from being told.
    let silent = TcpStream::connect(server.address()).await.expect("it listens");
    assert_eq!(get(&server, "/v1/status").await.status, 503);
    drop(silent);
    let text = metrics(&mut first).await;
    assert!(
        text.contains("conclave_connections 3\n"),
        "those who are refused do not count: {text}"
    );
    assert!(!text.contains("conclave_connections_refused_total 0"), "{text}");
    // When one has gone, another is let in.
    drop((one, two));
    until_async("there is room", async || get(&server, "/v1/status").await.status == 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_connections_than_there_can_be_are_refused_at_the_start() {
    let directory = tempfile::tempdir().expect("a directory");
    let bounds = Bounds { connections: Some(usize::MAX), ..Bounds::default() };
    let options = ServeOptions { bounds, ..options(directory.path()) };
    match Server::start(options).await.err().expect("there is no room for them") {
        error @ ServeError::Room { .. } => {
            assert!(error.to_string().contains("ulimit -n"), "{error}");
        }
        error => panic!("{error}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_when_the_server_stops_is_told_so_and_granted_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let (holder, other) = (open(&server).await, open(&server).await);
    let body = |session: &str| json!({ "session": session, "lock": "disk" }).to_string();
    assert_eq!(post(&server, "/v1/acquire", &body(&holder)).await.status, 200);
    let address = server.address();
    let asked = request("POST", "/v1/acquire", "", &body(&other));
    let waiter = TcpStream::connect(address).await.expect("it listens");
    let waiter = tokio::spawn(async move { exchange(waiter, asked.as_bytes()).await });
    let mut called = grpc(&server).await;
    let (session, key) = other.split_once('.').expect("a number and a key");
    let (session, key) = (session.parse().expect("a number"), u64::from_str_radix(key, 16));
    let want = v1::Want { lock: "disk".into(), ..v1::Want::default() };
    let acquire = v1::Acquire { wants: vec![want], owner: 7, ..v1::Acquire::default() };
    let what = Some(v1::ask::What::Acquire(acquire));
    let ask = v1::Ask { session, key: key.expect("a key"), what, ..v1::Ask::default() };
    let called = tokio::spawn(async move { called.call(ask).await });
    // Neither half a question nor a stream that says nothing is waited for.
    let mut half = TcpStream::connect(address).await.expect("it listens");
    let bytes = b"POST /v1/acquire HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{";
    half.write_all(bytes).await.expect("it listens");
    let stream = upgrade_at(address, &[]).await;
    until(|| server.node().look(|machine| machine.counts().waits) == 2).await;
    in_time("the stop", server.stop()).await.expect("it stops");
    let told = waiter.await.expect("it has ended");
    assert_eq!(told.refused(), (503, "unavailable".to_owned()), "{told:?}");
    assert!(told.body.contains("stopping"), "{told:?}");
    let told = called.await.expect("it has ended").expect_err("nothing is granted");
    assert_eq!(told.code(), tonic::Code::Unavailable, "{told:?}");
    // It may not even have been read so far.
    let told = ended(half).await;
    assert!(told.is_empty() || told.starts_with(b"HTTP/1.1 503 "), "{told:?}");
    ended(stream).await;
}

/// Acquires and releases a lock until the server stops, and says with which token it holds the lock at last.
async fn take_turns(address: std::net::SocketAddr, session: String) -> Option<Value> {
    let ask = async |path: &str, body: Value| {
        let io = TcpStream::connect(address).await.ok()?;
        Some(exchange(io, request("POST", path, "", &body.to_string()).as_bytes()).await)
    };
    let stopped = |answer: &Option<Answer>| answer.as_ref().is_none_or(|told| told.status != 200);
    for number in (1..).step_by(2) {
        let acquire = json!({ "session": session, "lock": "disk", "request": number });
        let granted = ask("/v1/acquire", acquire).await;
        if stopped(&granted) {
            return None;
        }
        let token = granted?.json()["token"].clone();
        let release = json!({ "session": session, "lock": "disk", "token": token });
        if stopped(&ask("/v1/release", release).await) {
            return Some(token);
        }
    }
    unreachable!("the numbers do not end")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_grants_before_it_stops_is_told_and_nothing_else_is_granted() {
    for _ in 0..10 {
        let directory = tempfile::tempdir().expect("a directory");
        let server = server(directory.path()).await;
        let mut clients = Vec::new();
        for _ in 0..8 {
            let session = open(&server).await;
            clients.push(tokio::spawn(take_turns(server.address(), session)));
        }
        let served = || server.node().look(|machine| machine.counts().waits) > 2;
        until(served).await;
        in_time("the stop", server.stop()).await.expect("it stops");
        let mut believed = Vec::new();
        for client in clients {
            believed.extend(client.await.expect("it has ended"));
        }
        let node = Node::open(Options::new(directory.path().join("data"))).await.expect("a node");
        let holders = node.look(|machine| machine.lock("disk")).map_or(Vec::new(), |lock| {
            lock.holders.iter().map(|holder| json!(holder.token.0)).collect()
        });
        assert_eq!(holders, believed, "each holder knows it");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_over_http_is_not_lost_for_want_of_renewals() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Arc::new(server(directory.path()).await);
    let holder = open(&server).await;
    let body = json!({ "session": holder, "lock": "disk" }).to_string();
    let token = post(&server, "/v1/acquire", &body).await.json()["token"].clone();
    // So long that a busy machine asks, and renews, in time.
    let ttl = Duration::from_secs(4);
    let opened = post(&server, "/v1/sessions", &json!({ "ttl_ms": 4000 }).to_string()).await;
    let short = opened.json()["session"].as_str().expect("a session").to_owned();
    let body = json!({ "session": short, "lock": "disk" }).to_string();
    let waiter = {
        let server = server.clone();
        tokio::spawn(async move { post(&server, "/v1/acquire", &body).await })
    };
    let waits = || server.node().look(|machine| machine.counts().waits);
    until(|| waits() == 1).await;
    // By the clock of the log the session would have ended twice.
    let begun = server.node().look(conclave_machine::Machine::now);
    until(|| {
        assert_eq!(waits(), 1, "it is in the queue for as long as it waits");
        server.node().look(conclave_machine::Machine::now) > begun + ttl * 2
    })
    .await;
    let body = json!({ "session": holder, "lock": "disk", "token": token }).to_string();
    assert_eq!(post(&server, "/v1/release", &body).await.status, 200);
    assert_eq!(waiter.await.expect("it has ended").status, 200);
}

/// Set in the process that is the server and may have few open files: its directory.
const FEW_FILES: &str = "CONCLAVE_TEST_FEW_FILES";
/// How many it may have at first, and when it has raised its limit.
const AT_FIRST: usize = 64;
const AT_MOST: usize = 256;

/// A server with few open files; it says where it listens, and what comes of a snapshot whenever it is told to write one.
async fn serve_with_few_files(directory: &str) {
    use std::io::Write;
    let files = conclave_server::raise_descriptor_limit().expect("it may be raised");
    assert_eq!(files, AT_MOST);
    let server = server(directory.as_ref()).await;
    // Past libtest, which would keep it until the end.
    let say =
        |what: &str| std::io::stderr().write_all(what.as_bytes()).expect("standard error is open");
    say(&format!("{}\n", server.address()));
    for line in std::io::stdin().lines() {
        line.expect("text");
        server.node().snapshot().await.expect("the node goes on");
        say("written\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_files_for_more_clients_has_some_for_itself() {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};
    if let Ok(directory) = std::env::var(FEW_FILES) {
        serve_with_few_files(&directory).await;
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let script = format!("ulimit -Sn {AT_FIRST} && ulimit -Hn {AT_MOST} && exec \"$0\" \"$@\"");
    let test = "connections::a_node_without_files_for_more_clients_has_some_for_itself";
    let mut node = Command::new("sh")
        .args(["-c", &script])
        .arg(std::env::current_exe().expect("Linux tells"))
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(FEW_FILES, directory.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut orders = node.stdin.take().expect("it is piped");
    let mut reports = BufReader::new(node.stderr.take().expect("it is piped")).lines();
    let mut report =
        || tokio::task::block_in_place(|| reports.next().expect("it goes on").expect("text"));
    let address: std::net::SocketAddr = report().parse().expect("an address");
    let ask = async |io: &mut TcpStream, method: &str, path: &str, body: &str| {
        let asked = request(method, path, "", body).replace("connection: close\r\n", "");
        io.write_all(asked.as_bytes()).await.expect("it listens");
        answer(io).await
    };
    let mut first = TcpStream::connect(address).await.expect("it listens");
    assert!(ask(&mut first, "GET", "/ready", "").await.starts_with("HTTP/1.1 200 "));
    // As many as it takes, and then some more.
    let (mut let_in, mut refused) = (Vec::new(), 0);
    let hello =
        "GET /v1/talk HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: conclave.v1\r\n\r\n";
    while refused < 40 {
        let mut io = TcpStream::connect(address).await.expect("it listens");
        io.write_all(hello.as_bytes()).await.expect("it listens");
        let mut told = [0; 12];
        in_time("an answer", io.read_exact(&mut told)).await.expect("it answers");
        match &told {
            b"HTTP/1.1 101" => let_in.push(io),
            b"HTTP/1.1 503" => refused += 1,
            told => panic!("{}", String::from_utf8_lossy(told)),
        }
        assert!(let_in.len() < AT_MOST, "there is no bound");
    }
    assert!(let_in.len() > AT_FIRST, "the limit was not raised: {}", let_in.len());
    // The node still has files of its own: for snapshots and the log.
    for _ in 0..3 {
        orders.write_all(b"write\n").expect("it reads");
        assert_eq!(report(), "written");
        let opened = ask(&mut first, "POST", "/v1/sessions", "{}").await;
        assert!(opened.starts_with("HTTP/1.1 200 "), "{opened}");
    }
    assert!(ask(&mut first, "GET", "/ready", "").await.starts_with("HTTP/1.1 200 "));
    let figures = ask(&mut first, "GET", "/metrics", "").await;
    assert!(figures.contains("conclave_accept_errors_total 0\n"), "{figures}");
    // When they have gone, others are let in.
    drop(let_in);
    until_async("there is room", async || {
        let io = TcpStream::connect(address).await.expect("it listens");
        exchange(io, request("GET", "/v1/status", "", "").as_bytes()).await.status == 200
    })
    .await;
    drop(orders);
    assert!(node.wait().expect("it ends").success());
}
