//! What clients do that they should not: nonsense on the wire, too much of everything, and silence.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::stream::{Stream, Way, both_ways};
use crate::support::{
    Answer, cut_cable, exchange, framed, get, grpc, open, options, post, request, send, server,
    until,
};
use conclave_api::v1;
use conclave_server::{Bounds, ServeOptions, Server};
use conclave_testing::{in_time, until_async};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use v1::ask::What as Ask;
use v1::tell::What as Told;

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_make_no_sense_are_refused_and_it_says_where() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let session = open(&server).await;
    let refused = async |body: &str| {
        let answer = post(&server, "/v1/acquire", body).await;
        let (status, code) = answer.refused();
        let message = answer.json()["message"].as_str().expect("a message").to_owned();
        (status, code, message)
    };
    let bad = |said: (u16, String, String), part: &str| {
        assert_eq!((said.0, said.1.as_str()), (400, "bad-request"), "{said:?}");
        assert!(said.2.contains(part), "{said:?}");
    };
    bad(refused("{\"lock\": \n nonsense}").await, "at line 2 column 3");
    bad(refused("[1,2]").await, "JSON object");
    bad(refused("").await, "`session` is missing");
    bad(refused("{\"lock\":\"\u{0}\"}").await, "control character");
    bad(refused(&"[".repeat(100_000)).await, "recursion limit");
    let with = |rest: serde_json::Value| {
        let mut body = rest;
        body["session"] = json!(session);
        body.to_string()
    };
    bad(refused(&with(json!({ "lok": "a" }))).await, "unknown field `lok`");
    bad(refused(&with(json!({ "lock": 7 }))).await, "`lock`: invalid type");
    bad(refused(&with(json!({ "lock": "a", "mode": "alone" }))).await, "`mode`: unknown variant");
    bad(refused(&with(json!({ "lock": "a", "timeout_ms": -1 }))).await, "`timeout_ms`: invalid");
    bad(refused(&with(json!({ "lock": "a", "request": 0 }))).await, "`request` has to be");
    let not_utf8 =
        [request("POST", "/v1/acquire", "", "{\"lock\":\"x\"}").as_bytes(), b""].concat();
    let mut not_utf8 = not_utf8;
    let at = not_utf8.len() - 3;
    not_utf8[at] = 0xff;
    assert_eq!(send(&server, &not_utf8).await.refused(), (400, "bad-request".to_owned()));
    let not_utf8 = get(&server, "/v1/why?name=%ff").await;
    assert_eq!(not_utf8.refused(), (400, "bad-request".to_owned()));
    let unknown = get(&server, "/v1/locks?prefx=a").await;
    assert_eq!(unknown.refused(), (400, "bad-request".to_owned()));
    assert_eq!(get(&server, "/v1/locks?limit=many").await.status, 400);
    assert_eq!(get(&server, "/v1/why").await.refused(), (400, "no-name".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_sessions_that_cannot_be_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let session = open(&server).await;
    let acquire = async |session: &str, lock: &str| {
        let body = json!({ "session": session, "lock": lock, "timeout_ms": 0 }).to_string();
        post(&server, "/v1/acquire", &body).await
    };
    assert_eq!(acquire(&session, "").await.refused(), (400, "no-name".to_owned()));
    let long = "x".repeat(513);
    assert_eq!(acquire(&session, &long).await.refused(), (400, "too-large".to_owned()));
    assert_eq!(acquire(&session, &long[..512]).await.status, 200);
    // It is characters that count, of however many bytes.
    assert_eq!(acquire(&session, &"\u{1f512}".repeat(512)).await.status, 200);
    let long = acquire(&session, &"\u{1f512}".repeat(513)).await;
    assert_eq!(long.refused(), (400, "too-large".to_owned()));
    assert_eq!(acquire(&session, "né\u{1f512}/ \"\\\u{7f}").await.status, 200);
    let wrong = |key: &str| format!("{}.{key}", session.split('.').next().expect("a number"));
    for key in ["0000000000000000", "ffffffffffffffff"] {
        let refused = acquire(&wrong(key), "a").await.refused();
        assert_eq!(refused, (404, "unknown-session".to_owned()));
    }
    for written in ["", "1", "1.2", "99999999999999999999.0000000000000000", "a.b", "1.x"] {
        assert_eq!(acquire(written, "a").await.refused(), (400, "bad-request".to_owned()));
    }
    let ttl = post(&server, "/v1/sessions", r#"{"ttl_ms":1}"#).await;
    assert_eq!(ttl.refused(), (400, "bad-span".to_owned()));
    // What a session has not is no longer, either: the answer is kept, with the name in it.
    let long = "x".repeat(513);
    for (path, field, other) in [
        ("/v1/release", "lock", "token"),
        ("/v1/upgrade", "lock", "token"),
        ("/v1/downgrade", "lock", "token"),
        ("/v1/proclaim", "election", "term"),
        ("/v1/resign", "election", "term"),
    ] {
        let body = json!({ "session": session, field: long, other: 1 }).to_string();
        let refused = post(&server, path, &body).await.refused();
        assert_eq!(refused, (400, "too-large".to_owned()), "{path}");
    }
    let observed = get(&server, &format!("/v1/observe?election={long}")).await;
    assert_eq!(observed.refused(), (400, "too-large".to_owned()));
    let many: Vec<_> = (0..65).map(|n| json!({ "lock": n.to_string() })).collect();
    let body = json!({ "session": session, "wants": many }).to_string();
    assert_eq!(post(&server, "/v1/acquire", &body).await.refused(), (400, "too-large".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn too_much_at_once_is_refused_before_memory_is_taken() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let huge = format!("{{\"session\":\"{}\"}}", "x".repeat(1 << 20));
    let refused = post(&server, "/v1/acquire", &huge).await;
    assert_eq!(refused.refused(), (413, "too-large".to_owned()));
    // It is refused for what it says it is going to send, before it does.
    let says =
        "POST /v1/acquire HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999\r\n\r\n{";
    let io = TcpStream::connect(server.address()).await.expect("it listens");
    let refused = in_time("a refusal", exchange(io, says.as_bytes())).await;
    assert_eq!(refused.status, 413);
    // Over gRPC.
    let mut client = grpc(&server).await;
    let named = v1::Named { name: "x".repeat((1 << 20) + 1) };
    let refused = client.why(named).await.expect_err("it is too long");
    assert_eq!(refused.code(), tonic::Code::OutOfRange, "{refused:?}");
    assert_eq!(get(&server, "/v1/status").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_instead_of_http_ends_the_connection_and_nothing_else() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice();
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0].as_slice();
    let nonsense: [&[u8]; 8] = [
        b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/acquire HTTP/1.1\r\nhost: x\r\ncontent-length: many\r\n\r\n",
        b"POST /v1/acquire HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03hello\r\n\r\n",
        // HTTP/2: a frame of a stream that was never begun, and one that is longer than frames may be.
        &[preface, settings, &[0, 0, 1, 0, 0, 0, 0, 0, 5, 7]].concat(),
        &[preface, settings, &[255, 255, 255, 1, 4, 0, 0, 0, 1]].concat(),
    ];
    for bytes in nonsense {
        let io = TcpStream::connect(server.address()).await.expect("it listens");
        let Answer { status, .. } = in_time("the end of the connection", exchange(io, bytes)).await;
        assert!(status == 0 || (400..600).contains(&status), "{status} for {bytes:?}");
    }
    assert_eq!(get(&server, "/healthz").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_that_are_no_messages_are_refused_one_by_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let call = async |frame: Vec<u8>| {
        let answer = crate::support::call(&server, "Why", "", &frame).await;
        let whole = format!("{}\n{}", answer.headers, answer.body);
        let status = whole
            .split("grpc-status: ")
            .nth(1)
            .map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
        // HTTP/1 has no room for the status after an answer; one that is there is a failure's.
        assert!(status.is_some() || answer.body.starts_with("\0\0\0\0"), "no answer: {answer:?}");
        status.unwrap_or_else(|| "0".to_owned())
    };
    let fine = framed(0, 3, &[0x0a, 1, b'x']);
    assert_eq!(call(fine).await, "0");
    // A name that is not UTF-8.
    assert_ne!(call(framed(0, 3, &[0x0a, 1, 0xff])).await, "0");
    // A field that goes beyond the end, a wrong kind of field, a frame that is cut off, one that is
    // compressed though neither side agreed to that, and one that says it has four gigabytes.
    assert_ne!(call(framed(0, 3, &[0x0a, 9, b'x'])).await, "0");
    assert_ne!(call(framed(0, 2, &[0x08, 1])).await, "0");
    assert_ne!(call(framed(0, 30, &[0x0a, 1, b'x'])).await, "0");
    assert_ne!(call(framed(1, 3, &[0x0a, 1, b'x'])).await, "0");
    assert_ne!(call(framed(0, u32::MAX, &[0x0a, 1, b'x'])).await, "0");
    assert_eq!(get(&server, "/healthz").await.status, 200);
}

both_ways! {
    a_stream_survives_questions_that_make_no_sense
    a_client_that_never_reads_its_answers_is_not_read_from_and_delays_no_other
    a_client_that_never_reads_events_is_cut_off_and_delays_no_other
}

const LONG: Duration = Duration::from_secs(600);

async fn a_stream_survives_questions_that_make_no_sense(way: Way) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let mut stream = Stream::to(&server, way).await;
    let (session, _) = stream.open(LONG).await;
    let Stream { asks, mut tells } = stream;
    let acquire = |lock: &str, mode: i32| {
        let want = v1::Want { lock: lock.into(), mode, ..v1::Want::default() };
        Ask::Acquire(v1::Acquire { wants: vec![want], ..v1::Acquire::default() })
    };
    let questions = [
        (session, 1, None, "bad-request"),
        (session, 0, Some(acquire("a", 0)), "bad-request"),
        (session, 2, Some(acquire("a", 77)), "bad-request"),
        (session, 3, Some(acquire("", 0)), "no-name"),
        (session, 4, Some(acquire(&"x".repeat(2000), 0)), "too-large"),
        (session + 1, 5, Some(acquire("a", 0)), "unknown-session"),
        (
            session,
            6,
            Some(Ask::Release(v1::Release { lock: "a".into(), ..v1::Release::default() })),
            "not-held",
        ),
        (session, 7, Some(Ask::Attach(v1::Attach {})), "unknown-session"),
    ];
    for (session, id, what, code) in questions {
        asks.send(v1::Ask { session, id, what, ..v1::Ask::default() }).await.expect("it listens");
        let told = tells.next().await.expect("it goes on");
        let Some(Told::Failed(failed)) = told.what else { panic!("{told:?}") };
        assert_eq!((told.id, failed.code.as_str()), (id, code), "{}", failed.message);
    }
    let text = get(&server, "/metrics").await.body;
    assert!(text.contains("conclave_refusals_total{code=\"unknown-session\"} 2"), "{text}");
}

/// Takes a lock and gives it back.
async fn take_turn(server: &Server, session: &str) {
    let body = json!({ "session": session, "lock": "disk" }).to_string();
    let held = post(server, "/v1/acquire", &body).await.json()["token"].clone();
    let body = json!({ "session": session, "lock": "disk", "token": held }).to_string();
    assert_eq!(post(server, "/v1/release", &body).await.status, 200);
}

async fn a_client_that_never_reads_its_answers_is_not_read_from_and_delays_no_other(way: Way) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let Stream { asks, mut tells } = Stream::to(&server, way).await;
    let sent = Arc::new(AtomicU64::new(0));
    let count = sent.clone();
    let asking = tokio::spawn(async move {
        for id in 1..=FLOOD {
            let what = Some(Ask::Echo(v1::Echo { body: vec![7; 4096] }));
            asks.send(v1::Ask { id, what, ..v1::Ask::default() }).await.expect("it listens");
            count.store(id, Ordering::SeqCst);
        }
        asks
    });
    // Meanwhile, others have their answers; and it comes to a standstill.
    let session = open(&server).await;
    // The socket takes nothing more when the server has not read for so long that all buffers are full; and the
    // server does not read on while the answers of the first questions are not read.
    until_async("the flood comes to a standstill", async || {
        take_turn(&server, &session).await;
        let before = sent.load(Ordering::SeqCst);
        assert!(before < FLOOD, "there is no end to what it is asked");
        // Many turns of another, each of which would have let it go on.
        for _ in 0..100 {
            take_turn(&server, &session).await;
        }
        sent.load(Ordering::SeqCst) == before
    })
    .await;
    // When it reads at last, nothing is lost.
    for id in 1..=FLOOD {
        let tell = tells.next().await.expect("an answer");
        assert_eq!(tell.id, id);
    }
    asking.await.expect("all was taken");
}

/// So many questions are more than there is room for on the way.
const FLOOD: u64 = 5000;

/// Observes an election and reads nothing, while another leads it and has something to say all the time, until the
/// server has cut off the first for this reason.
async fn is_cut_off(way: Way, bounds: Bounds, reason: &str) {
    let directory = tempfile::tempdir().expect("a directory");
    let options = ServeOptions { bounds, ..options(directory.path()) };
    let server = Server::start(options).await.expect("it starts");
    let Stream { asks, tells: mut unread } = Stream::to(&server, way).await;
    let what = Some(Ask::Observe(v1::ObserveElection { election: "web".to_owned() }));
    asks.send(v1::Ask { id: 2, what, ..v1::Ask::default() }).await.expect("it listens");
    let mut stream = Stream::to(&server, way).await;
    let (session, _) = stream.open(LONG).await;
    let Stream { asks: leads, mut tells } = stream;
    let election = || "web".to_owned();
    let what = Some(Ask::Campaign(v1::Campaign { election: election(), ..Default::default() }));
    leads.send(v1::Ask { session, id: 1, what, ..v1::Ask::default() }).await.expect("it listens");
    let told = tells.next().await.expect("it goes on").what;
    let Some(Told::Elected(v1::Elected { term })) = told else { panic!("{told:?}") };
    let saying = tokio::spawn(async move {
        for id in 2.. {
            let proclaim = v1::Proclaim { election: election(), term, value: vec![7; 4096] };
            let what = Some(Ask::Proclaim(proclaim));
            let ask = v1::Ask { session, id, what, received: id - 1, ..v1::Ask::default() };
            if leads.send(ask).await.is_err() || tells.next().await.is_none() {
                return;
            }
        }
    });
    let session = open(&server).await;
    let figure = format!("conclave_clients_cut_off_total{{reason=\"{reason}\"}} 1\n");
    until_async("the client is cut off", async || {
        take_turn(&server, &session).await;
        get(&server, "/metrics").await.body.contains(&figure)
    })
    .await;
    saying.abort();
    // It is not only told nothing any more: the connection is over.
    in_time("the end of the stream", async { while unread.next().await.is_some() {} }).await;
}

async fn a_client_that_never_reads_events_is_cut_off_and_delays_no_other(way: Way) {
    // The system would give it up by itself, but not so soon.
    let bounds = Bounds { queued: 64, silence: LONG, ..Bounds::default() };
    is_cut_off(way, bounds, "behind").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_nothing_more_is_given_up_by_the_system_and_counted() {
    // So much may wait that it never does; but after two seconds of silence the system has given it up.
    let silence = Duration::from_secs(1);
    let bounds = Bounds { queued: usize::MAX, silence, ..Bounds::default() };
    is_cut_off(Way::Plain, bounds, "unresponsive").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_and_half_open_connections_delay_no_client() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let mut idle = Vec::new();
    for n in 0..200 {
        let mut io = TcpStream::connect(server.address()).await.expect("it listens");
        let half = [
            "",
            "POST /v1/acq",
            "POST /v1/acquire HTTP/1.1\r\nhost: localhost\r\n",
            "POST /v1/acquire HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{\"a\":",
        ];
        io.write_all(half[n % 4].as_bytes()).await.expect("it listens");
        idle.push(io);
    }
    let session = open(&server).await;
    let body = json!({ "session": session, "lock": "disk" }).to_string();
    assert_eq!(post(&server, "/v1/acquire", &body).await.status, 200);
    drop(idle);
    only_one_connection(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_gone_without_a_word_is_noticed() {
    let directory = tempfile::tempdir().expect("a directory");
    let silence = Duration::from_millis(200);
    let bounds = Bounds { silence, ..Bounds::default() };
    let options = ServeOptions { bounds, ..options(directory.path()) };
    let server = Server::start(options).await.expect("it starts");
    let mut gone = TcpStream::connect(server.address()).await.expect("it listens");
    let hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    gone.write_all(hello).await.expect("it listens");
    // It never answers when it is asked whether it is there.
    let mut told = Vec::new();
    drop(in_time("the end of the connection", gone.read_to_end(&mut told)).await);
    only_one_connection(&server).await;
}

/// Waits until all have gone but the one that asks.
async fn only_one_connection(server: &Server) {
    until_async("all other connections have gone", async || {
        get(server, "/metrics").await.body.contains("conclave_connections 1\n")
    })
    .await;
}

/// Sends a request over HTTP/1.
async fn begin(server: &Server, request: String) -> TcpStream {
    let mut io = TcpStream::connect(server.address()).await.expect("it listens");
    io.write_all(request.as_bytes()).await.expect("it listens");
    io
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_whose_cable_is_cut_is_noticed_whether_it_waits_or_is_told_something() {
    let directory = tempfile::tempdir().expect("a directory");
    let bounds = Bounds { silence: Duration::from_secs(1), ..Bounds::default() };
    let options = ServeOptions { bounds, ..options(directory.path()) };
    let server = Server::start(options).await.expect("it starts");
    let (holder, other) = (open(&server).await, open(&server).await);
    let body = |session: &str| json!({ "session": session, "lock": "disk" }).to_string();
    assert_eq!(post(&server, "/v1/acquire", &body(&holder)).await.status, 200);
    let waiter = begin(&server, request("POST", "/v1/acquire", "", &body(&other))).await;
    until(|| server.node().look(|machine| machine.counts().waits) == 1).await;
    let mut observer = begin(&server, request("GET", "/v1/observe?election=web", "", "")).await;
    let mut begun = [0; 16];
    observer.read_exact(&mut begun).await.expect("it answers");

    cut_cable(&waiter);
    cut_cable(&observer);
    // What is sent to one of them is never confirmed.
    let campaign = json!({ "session": holder, "election": "web" }).to_string();
    assert_eq!(post(&server, "/v1/campaign", &campaign).await.status, 200);
    until(|| server.node().look(|machine| machine.counts().waits) == 0).await;
    only_one_connection(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_vanishes_half_way_through_an_answer_is_forgotten() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let mut observer = TcpStream::connect(server.address()).await.expect("it listens");
    let asked = request("GET", "/v1/observe?election=web", "", "");
    observer.write_all(asked.as_bytes()).await.expect("it listens");
    let mut begun = [0; 16];
    observer.read_exact(&mut begun).await.expect("it answers");
    drop(observer);
    only_one_connection(&server).await;
}
