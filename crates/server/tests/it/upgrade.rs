//! The stream that begins as HTTP and goes on without.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::stream::{Stream, Way, upgrade, upgrade_at, upgraded};
use crate::support::{cut_cable, get, open, options, post, request, send, server};
use conclave_api::{Delimited, v1};
use conclave_server::{Bounds, ServeOptions, Server, TokenRights, new_token};
use conclave_testing::{in_time, until_async};
use futures_util::{SinkExt, StreamExt};
use prost::Message;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::codec::Framed;
use v1::ask::What as Ask;
use v1::tell::What as Told;

/// A question that is answered with itself, as it is sent.
fn echo(id: u64, length: usize) -> Vec<u8> {
    let what = Some(Ask::Echo(v1::Echo { body: vec![7; length] }));
    v1::Ask { id, what, ..v1::Ask::default() }.encode_length_delimited_to_vec()
}

const LONG: Duration = Duration::from_secs(600);

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_ask_for_it_is_told_how_to() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let headers = [
        "",
        "connection: upgrade\r\nupgrade: websocket\r\n",
        // A proxy in between has not understood.
        "upgrade: conclave.v1\r\n",
    ];
    for headers in headers {
        let refused = send(&server, request("GET", "/v1/talk", headers, "").as_bytes()).await;
        assert_eq!(refused.refused(), (426, "bad-request".to_owned()), "{headers:?}");
        assert!(refused.body.contains("Upgrade: conclave.v1"), "{refused:?}");
        let told = refused.headers.to_lowercase();
        assert!(told.contains("\r\nupgrade: conclave.v1"), "{refused:?}");
    }
    assert_eq!(post(&server, "/v1/talk", "").await.status, 405);
    // Neither older nor newer versions can, nor is anything else to come with it.
    let asked = "connection: upgrade\r\nupgrade: conclave.v1\r\n";
    let asked = request("GET", "/v1/talk", asked, "").replacen("connection: close\r\n", "", 1);
    let old = asked.replacen("HTTP/1.1", "HTTP/1.0", 1);
    assert_eq!(send(&server, old.as_bytes()).await.status, 426);
    let head = asked.replacen("GET", "HEAD", 1);
    assert_eq!(send(&server, head.as_bytes()).await.status, 426);
    let body = asked.replacen("content-length: 0\r\n\r\n", "content-length: 3\r\n\r\nabc", 1);
    assert_eq!(send(&server, body.as_bytes()).await.status, 426);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_over_the_other_kind_of_stream() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    for (first, second) in [(Way::Plain, Way::Grpc), (Way::Grpc, Way::Plain)] {
        let mut one = Stream::to(&server, first).await;
        let (session, key) = one.open(LONG).await;
        drop(one);
        let mut two = Stream::to(&server, second).await;
        two.send(session, 7, key, Ask::Attach(v1::Attach {})).await;
        assert!(matches!(two.next().await, (_, 7, Told::Done(_))));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_messages_end_that_stream_and_nothing_else() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let mut other = Stream::to(&server, Way::Plain).await;
    other.open(LONG).await;
    let nonsense: [&[u8]; 5] = [
        // A megabyte and one, a number without end, a field without end, a wrong kind of field, and HTTP.
        &[0x81, 0x80, 0x40],
        &[0xff; 20],
        &[2, 0x2a, 9],
        &[2, 0x0d, 1],
        b"GET /v1/status HTTP/1.1\r\nhost: localhost\r\naccept: application/json\r\nuser-agent: test\r\n\r\n",
    ];
    for bytes in nonsense {
        let mut io = upgrade(&server, &[]).await;
        io.write_all(bytes).await.expect("it listens");
        let mut told = Vec::new();
        drop(in_time("the end of the connection", io.read_to_end(&mut told)).await);
        assert_eq!(told, b"", "{bytes:?}");
    }
    other.send(0, 9, 0, Ask::Echo(v1::Echo::default())).await;
    assert!(matches!(other.next().await, (_, 9, Told::Echo(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_along_with_the_first_word_is_heard() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let (one, two) = (echo(7, 5), echo(8, 5));
    let (begun, rest) = two.split_at(3);
    let head = request("GET", "/v1/talk", "upgrade: conclave.v1\r\n", "");
    let head = head.replacen("connection: close", "connection: upgrade", 1);
    let mut io = tokio::net::TcpStream::connect(server.address()).await.expect("it listens");
    io.write_all(&[head.as_bytes(), &one, begun].concat()).await.expect("it listens");
    upgraded(&mut io).await;
    let mut io = Framed::new(io, Delimited::<v1::Ask, v1::Tell>::up_to(1000));
    let told = io.next().await.expect("it goes on").expect("a message");
    assert!(told.id == 7 && matches!(told.what, Some(Told::Echo(_))), "{told:?}");
    io.get_mut().write_all(rest).await.expect("it listens");
    assert_eq!(io.next().await.expect("it goes on").expect("a message").id, 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_lets_in_and_lets_go() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("tokens.toml");
    let rights = TokenRights { lock: vec!["ci/".into()], ..TokenRights::default() };
    let (secret, entry) = new_token("ci", rights);
    std::fs::write(&path, entry).expect("written");
    let options = ServeOptions { tokens: Some(path.clone()), ..options(directory.path()) };
    let server = Server::start(options).await.expect("it starts");
    let unasked = "upgrade: conclave.v1\r\n";
    let refused = send(&server, request("GET", "/v1/talk", unasked, "").as_bytes()).await;
    assert_eq!(refused.refused(), (401, "unauthenticated".to_owned()));
    let bearer = format!("Bearer {secret}");
    let io = upgrade(&server, &[("authorization", &bearer)]).await;
    let mut io = Framed::new(io, Delimited::<v1::Ask, v1::Tell>::up_to(1 << 20));
    let open = Ask::Open(v1::Open { ttl_ms: 600_000, ..v1::Open::default() });
    io.send(v1::Ask { id: 1, what: Some(open), ..v1::Ask::default() }).await.expect("it listens");
    let told = io.next().await.expect("it goes on").expect("a message").what;
    let Some(Told::Opened(v1::Opened { session, .. })) = told else { panic!("{told:?}") };
    for (id, lock, may) in [(1, "db/a", false), (2, "ci/a", true)] {
        let wants = vec![v1::Want { lock: lock.into(), ..v1::Want::default() }];
        let what = Some(Ask::Acquire(v1::Acquire { wants, ..v1::Acquire::default() }));
        io.send(v1::Ask { session, id, what, ..v1::Ask::default() }).await.expect("it listens");
        let told = io.next().await.expect("it goes on").expect("a message").what;
        match told {
            Some(Told::Granted(_)) => assert!(may, "it has no right to {lock}"),
            Some(Told::Failed(failed)) => assert!(!may && failed.code == "forbidden", "{failed:?}"),
            other => panic!("{other:?}"),
        }
    }
    // The token is known no more.
    let (_, another) = new_token("another", TokenRights::default());
    std::fs::write(&path, another).expect("written");
    server.read_tokens_again().expect("it reads them");
    assert!(in_time("the end of the stream", io.next()).await.is_none());
}

/// Asks for many echoes without end, and reads none.
async fn flood(server: &Server) -> tokio::net::TcpStream {
    let io = upgrade(server, &[]).await;
    let all = echo(1, 4096).repeat(100);
    // More than any two sockets hold. If the server read on, all of it could be written; if it does not, at some time
    // nothing can, and that is where this ends: after a while without room for a single byte.
    let mut written = 0;
    while written < 1 << 30 {
        // It goes on where it was cut short: a server that is sent half a message ends the stream.
        match io.try_write(&all[written % all.len()..]) {
            Ok(length) => written += length,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                let room = tokio::time::timeout(Duration::from_secs(1), io.writable()).await;
                if room.is_err() {
                    return io;
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("there is no end to what it is asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_does_not_wait_for_a_client_that_does_not_read() {
    let directory = tempfile::tempdir().expect("a directory");
    // Longer than a flood takes on a busy machine: the system ends a connection whose client does not read for that long.
    let bounds = Bounds { silence: Duration::from_mins(10), ..Bounds::default() };
    let options = ServeOptions { bounds, ..options(directory.path()) };
    let first = Server::start(options).await.expect("it starts");
    let mut io = flood(&first).await;
    in_time("the stop", first.stop()).await.expect("it stops");
    // The directory is free again, so all has been let go of.
    let again = server(directory.path()).await;
    assert_eq!(get(&again, "/healthz").await.status, 200);
    let mut left = Vec::new();
    drop(in_time("the end of the connection", io.read_to_end(&mut left)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_asks_without_end_and_reads_delays_no_other() {
    let directory = tempfile::tempdir().expect("a directory");
    // One thread for all, so that it would show.
    let (address, addresses) = std::sync::mpsc::channel();
    let path = directory.path().to_owned();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let server = server(&path).await;
            address.send(server.address()).expect("the test waits");
            std::future::pending::<()>().await;
        });
    });
    let address = addresses.recv().expect("it starts");
    let (mut read, mut write) = upgrade_at(address, &[]).await.into_split();
    let echo = echo(7, 0);
    let many = echo.repeat(10_000);
    let asking = tokio::spawn(async move { while write.write_all(&many).await.is_ok() {} });
    let heard = Arc::new(AtomicUsize::new(0));
    let count = heard.clone();
    let reading = tokio::spawn(async move {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(length @ 1..) = read.read(&mut bytes).await {
            count.fetch_add(length, Ordering::SeqCst);
        }
    });
    let mut other = upgrade_at(address, &[]).await;
    until_async("answers to the first", async || heard.load(Ordering::SeqCst) > 1 << 20).await;
    // The machine may keep the other waiting, too, but not each time. Without a bound it would be each time the whole
    // of what the system lets a task do at once: over 15,000.
    until_async("a turn after less than 5,000 answers to the first", async || {
        let before = heard.load(Ordering::SeqCst);
        other.write_all(&echo).await.expect("it listens");
        let mut told = vec![0; echo.len()];
        in_time("its turn", other.read_exact(&mut told)).await.expect("it answers");
        (1..5_000).contains(&((heard.load(Ordering::SeqCst) - before) / echo.len()))
    })
    .await;
    asking.abort();
    reading.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_whose_cable_is_cut_is_noticed() {
    let directory = tempfile::tempdir().expect("a directory");
    let bounds = Bounds { silence: Duration::from_secs(1), ..Bounds::default() };
    let options = ServeOptions { bounds, ..options(directory.path()) };
    let server = Server::start(options).await.expect("it starts");
    let (quiet, told) = (upgrade(&server, &[]).await, upgrade(&server, &[]).await);
    // One of them has just been told something.
    let mut told = Framed::new(told, Delimited::<v1::Ask, v1::Tell>::up_to(1 << 20));
    let what = Some(Ask::Observe(v1::ObserveElection { election: "web".to_owned() }));
    told.send(v1::Ask { id: 1, what, ..v1::Ask::default() }).await.expect("it listens");
    told.next().await.expect("it goes on").expect("a message");
    let connections = async || {
        let text = get(&server, "/metrics").await.body;
        let line = text.lines().find_map(|line| line.strip_prefix("conclave_connections "));
        line.and_then(|count| count.parse::<u64>().ok()).expect("they are counted") - 1
    };
    assert_eq!(connections().await, 2);
    cut_cable(&quiet);
    cut_cable(told.get_ref());
    let session = open(&server).await;
    let campaign = json!({ "session": session, "election": "web" }).to_string();
    assert_eq!(post(&server, "/v1/campaign", &campaign).await.status, 200);
    until_async("all connections have gone", async || connections().await == 0).await;
}
