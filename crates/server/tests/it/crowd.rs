//! Ten thousand clients, each with a connection of its own, and all of them gone at once.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::{get, open, options, post, until};
use conclave_api::v1;
use conclave_server::{Bounds, ServeOptions, Server};
use conclave_testing::until_async;
use prost::Message;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use v1::ask::What as Ask;
use v1::tell::What as Told;

/// As many as there are to be.
const CROWD: usize = 10_000;
/// Files that are used for other things than clients.
const OTHERS: u64 = 500;
/// How long the clients' sessions live on.
const TTL: Duration = Duration::from_secs(10);

/// Lets this process have as many files as it may, and says how many clients that makes.
fn room_for_clients() -> usize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    raised.expect("the limit may be raised so far");
    maximum.map_or(CROWD, |files| CROWD.min(files.saturating_sub(OTHERS) as usize))
}

/// The least that can talk to a server.
struct Client {
    tcp: TcpStream,
    /// What has come and was not looked at: frames of HTTP/2, and what they carried.
    read: Vec<u8>,
    carried: Vec<u8>,
}

/// A frame of HTTP/2.
fn http2(kind: u8, flags: u8, stream: u8, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).expect("it is short").to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], content].concat()
}

/// A header that is not to be remembered.
fn header(name: &str, value: &str) -> Vec<u8> {
    let length = |text: &str| u8::try_from(text.len()).expect("it is short");
    let (name_length, value_length) = ([0, length(name)], [length(value)]);
    [&name_length, name.as_bytes(), &value_length, value.as_bytes()].concat()
}

impl Client {
    /// Connects, and begins a stream.
    fn connect(address: &str) -> Self {
        let mut tcp = TcpStream::connect(address).expect("it listens");
        let headers = [
            header(":method", "POST"),
            header(":scheme", "http"),
            header(":path", "/conclave.v1.Conclave/Talk"),
            header(":authority", "localhost"),
            header("content-type", "application/grpc"),
            header("te", "trailers"),
        ];
        let (settings, headers) = (http2(4, 0, 0, &[]), http2(1, 4, 1, &headers.concat()));
        let hello = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &settings, &headers];
        tcp.write_all(&hello.concat()).expect("it listens");
        Self { tcp, read: Vec::new(), carried: Vec::new() }
    }

    fn ask(&mut self, session: u64, what: Ask) {
        let ask = v1::Ask { session, id: 1, what: Some(what), ..v1::Ask::default() };
        let length = u32::try_from(ask.encoded_len()).expect("it is short");
        let message = [&[0], length.to_be_bytes().as_slice(), &ask.encode_to_vec()].concat();
        self.tcp.write_all(&http2(0, 0, 1, &message)).expect("it listens");
    }

    /// What it is told next.
    fn told(&mut self) -> Told {
        loop {
            if let Some((&[compressed, a, b, c, d], rest)) = self.carried.split_first_chunk()
                && let Some(message) = rest.get(..u32::from_be_bytes([a, b, c, d]) as usize)
            {
                assert_eq!(compressed, 0);
                let tell = v1::Tell::decode(message).expect("a message");
                self.carried.drain(..5 + message.len());
                return tell.what.expect("it says something");
            }
            self.take_frame();
        }
    }

    fn take_frame(&mut self) {
        loop {
            if let Some((&[a, b, c, kind, ..], rest)) = self.read.split_first_chunk::<9>()
                && let Some(content) = rest.get(..u32::from_be_bytes([0, a, b, c]) as usize)
            {
                if kind == 0 {
                    self.carried.extend(content);
                }
                self.read.drain(..9 + content.len());
                return;
            }
            let mut more = [0; 1024];
            let length = self.tcp.read(&mut more).expect("it answers");
            assert_ne!(length, 0, "the connection is ended");
            self.read.extend(&more[..length]);
        }
    }
}

/// Set in the process that has the clients: where the server is, and how many they are.
const CLIENTS: &str = "CONCLAVE_TEST_CLIENTS";

/// Not a test, but what the next one starts: all the clients. It says how far it is, and waits to be killed.
#[test]
fn clients() {
    let Ok(task) = std::env::var(CLIENTS) else { return };
    let (address, count) = task.split_once(' ').expect("two words");
    let count = room_for_clients().min(count.parse().expect("a number"));
    let mut clients: Vec<Client> = (0..count).map(|_| Client::connect(address)).collect();
    // Past libtest, which would keep it until the end.
    let say = |what: &str| std::io::stderr().write_all(what.as_bytes()).expect("somebody listens");
    let mut orders = std::io::stdin().lines();
    say("connected\n");
    orders.next();
    let ttl_ms = TTL.as_millis() as u64;
    for client in &mut clients {
        let open = v1::Open { name: "one of many".into(), ttl_ms, ..v1::Open::default() };
        client.ask(0, Ask::Open(open));
    }
    // Each waits for what the first of them holds.
    for client in &mut clients {
        let told = client.told();
        let Told::Opened(v1::Opened { session, .. }) = told else { panic!("{told:?}") };
        let wants = vec![v1::Want { lock: "disk".into(), ..v1::Want::default() }];
        client.ask(session, Ask::Acquire(v1::Acquire { wants, ..v1::Acquire::default() }));
    }
    say("asked\n");
    orders.next();
}

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
    // Nobody here answers when asked whether it is there.
    let bounds = Bounds { silence: Duration::from_secs(600), ..Bounds::default() };
    let server = Server::start(ServeOptions { bounds, ..options(directory.path()) }).await;
    let server = Arc::new(server.expect("it starts"));
    let rounds = Arc::new(AtomicU64::new(0));
    let other = tokio::spawn(go_on(server.clone(), rounds.clone()));
    // It goes on from wherever it is.
    let served = async || {
        let before = rounds.load(Ordering::Relaxed);
        until(|| rounds.load(Ordering::Relaxed) > before + 2).await;
    };
    let counts = || server.node().look(|machine| (machine.counts(), machine.now()));
    served().await;

    let mut child = Command::new(std::env::current_exe().expect("Linux tells"))
        .args(["--exact", "crowd::clients", "--nocapture", "--test-threads=1"])
        .env(CLIENTS, format!("{} {count}", server.address()))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut orders = child.stdin.take().expect("it is piped");
    let mut reports = BufReader::new(child.stderr.take().expect("it is piped"));
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

    // They ask for everything when all are there, so that no lease ends before that.
    let (_, begun) = counts();
    orders.write_all(b"open\n").expect("it reads");
    assert_eq!(report(), "asked\n", "{crowd}");
    until(|| counts().0.waits == count - 1).await;
    let (before, _) = counts();
    assert_eq!((before.sessions, before.waits), (count + 1, count - 1), "{crowd}");

    child.kill().expect("it was alive");
    child.wait().expect("it is dead");
    // This test's own, and perhaps the other's.
    few_connections(&server, 2, &crowd).await;
    // They may come again; until their leases end, they have what they had.
    let (after, now) = counts();
    // A machine that is busy with other things may have taken longer than the leases last.
    if now < begun + TTL {
        assert_eq!((after.sessions, after.waits), (count + 1, count - 1), "{crowd}");
    }
    served().await;
    until(|| {
        let (now, at) = counts();
        assert!(at >= begun + TTL || now.sessions == count + 1, "a lease of {crowd} ended early");
        now.sessions == 1
    })
    .await;
    assert_eq!(counts().0.waits, 0, "{crowd}");
    // What they had is there for others.
    let session = open(&server).await;
    let body = json!({ "session": session, "lock": "disk" }).to_string();
    assert_eq!(post(&server, "/v1/acquire", &body).await.status, 200);
    served().await;
    assert!(!other.is_finished(), "the other was not served");
    other.abort();
    few_connections(&server, 1, &crowd).await;
}
