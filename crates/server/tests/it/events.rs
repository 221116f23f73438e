//! What happens to a session, for clients that listen over HTTP.

use std::time::Duration;

use crate::support::{get, open, options, post, request, server, until};
use conclave_server::{ManualTime, Server, TimeSource};
use conclave_testing::in_time;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// Server-sent events, as they come.
struct Events(BufReader<TcpStream>);

impl Events {
    async fn of(server: &Server, session: &str) -> Self {
        let mut io = TcpStream::connect(server.address()).await.expect("it listens");
        let body = json!({ "session": session }).to_string();
        let asked = request("POST", "/v1/events", "", &body);
        io.write_all(asked.as_bytes()).await.expect("it listens");
        Self(BufReader::new(io))
    }

    /// The next event and what it says; nothing when there is no more.
    async fn next(&mut self) -> Option<(String, Value)> {
        let mut event = String::new();
        loop {
            let mut line = String::new();
            let read = in_time("an event", self.0.read_line(&mut line)).await;
            if read.expect("text") == 0 {
                return None;
            }
            if let Some(name) = line.strip_prefix("event: ") {
                event = name.trim().to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((event, serde_json::from_str(data).expect("JSON")));
            }
        }
    }

    async fn expect(&mut self, event: &str) -> Value {
        let (name, data) = self.next().await.expect("it goes on");
        assert_eq!(name, event, "{data}");
        data
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_listens_learns_what_a_session_has_and_what_it_loses() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let session = open(&server).await;
    let number: u64 = session.split('.').next().expect("a number").parse().expect("a number");
    let acquire = json!({ "session": session, "lock": "disk" }).to_string();
    let token = post(&server, "/v1/acquire", &acquire).await.json()["token"].clone();
    let campaign = json!({ "session": session, "election": "web", "grace_ms": 600_000 });
    let campaign = campaign.to_string();
    let term = post(&server, "/v1/campaign", &campaign).await.json()["term"].clone();

    let mut events = Events::of(&server, &session).await;
    let has = events.expect("session").await;
    assert_eq!(has["session"], number);
    assert_eq!(has["holds"], json!([{ "lock": "disk", "token": token }]));
    assert_eq!(has["leads"], json!(["web"]));

    let take = json!({ "lock": "disk", "reason": "it hangs" }).to_string();
    assert_eq!(post(&server, "/v1/admin/release", &take).await.status, 200);
    let lost = events.expect("lost").await;
    assert_eq!(lost, json!({ "lock": "disk", "token": token, "cause": "forced" }));
    // A better candidate is there.
    let other = open(&server).await;
    let rank = json!({
        "session": other, "election": "web", "rank": 5, "preempt": true, "grace_ms": 600_000,
    });
    let waiting = request("POST", "/v1/campaign", "", &rank.to_string());
    let mut candidate = TcpStream::connect(server.address()).await.expect("it listens");
    candidate.write_all(waiting.as_bytes()).await.expect("it listens");
    let asked = events.expect("yield").await;
    assert_eq!((&asked["election"], &asked["term"]), (&json!("web"), &term));
    // Another that listens later is told again.
    let mut later = Events::of(&server, &session).await;
    later.expect("session").await;
    later.expect("yield").await;

    let expel = json!({ "session": number, "reason": "enough" }).to_string();
    assert_eq!(post(&server, "/v1/admin/expel", &expel).await.status, 200);
    for mut events in [events, later] {
        // Whether its leadership is told to end first is not promised.
        let mut last = events.next().await.expect("it goes on");
        while last.0 != "ended" {
            last = events.next().await.expect("it goes on");
        }
        assert_eq!(last.1, json!({ "cause": "expelled" }));
        assert_eq!(events.next().await, None, "nothing can happen to it any more");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_taken_without_a_word_about_leases_does_not_end_silently() {
    let directory = tempfile::tempdir().expect("a directory");
    let time = ManualTime::new();
    let mut options = options(directory.path());
    options.node.time = TimeSource::Manual(time.clone());
    let server = Server::start(options).await.expect("it starts");
    // The answer says how long it lives, and so does the list of what it has.
    let opened = post(&server, "/v1/sessions", "{}").await.json();
    let session = opened["session"].as_str().expect("a session").to_owned();
    let ttl = Duration::from_millis(opened["ttl_ms"].as_u64().expect("it is told"));
    let acquire = json!({ "session": session, "lock": "disk" }).to_string();
    let token = post(&server, "/v1/acquire", &acquire).await.json()["token"].clone();
    let mut events = Events::of(&server, &session).await;
    assert_eq!(events.expect("session").await["ttl_ms"], opened["ttl_ms"]);

    // While it is renewed, it lives on, far beyond that.
    let keep = json!({ "session": session }).to_string();
    for _ in 0..5 {
        time.advance(ttl - Duration::from_millis(1));
        let kept = post(&server, "/v1/keepalive", &keep).await;
        assert_eq!((kept.status, &kept.json()["gone"]), (200, &json!([])), "{kept:?}");
    }
    // Otherwise who listens is told, and so is who uses what it no longer has.
    time.advance(ttl);
    assert_eq!(events.expect("ended").await, json!({ "cause": "expired" }));
    assert_eq!(events.next().await, None, "nothing can happen to it any more");
    let release = json!({ "session": session, "lock": "disk", "token": token }).to_string();
    for (path, body) in [("release", &release), ("acquire", &acquire)] {
        let refused = post(&server, &format!("/v1/{path}"), body).await;
        assert_eq!(refused.refused(), (404, "unknown-session".to_owned()), "{path}");
    }
    let kept = post(&server, "/v1/keepalive", &keep).await;
    assert!(kept.status == 404 || kept.json()["gone"] != json!([]), "{kept:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_has_the_key_may_listen_and_only_so_many() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let session = open(&server).await;
    let number = session.split('.').next().expect("a number");
    let strange = json!({ "session": format!("{number}.{:016x}", 7) }).to_string();
    let refused = post(&server, "/v1/events", &strange).await;
    assert_eq!(refused.refused(), (404, "unknown-session".to_owned()));
    let mut all = Vec::new();
    for _ in 0..16 {
        let mut events = Events::of(&server, &session).await;
        events.expect("session").await;
        all.push(events);
    }
    let body = json!({ "session": session }).to_string();
    let refused = post(&server, "/v1/events", &body).await;
    assert_eq!(refused.refused(), (429, "too-many".to_owned()));
    // Who has gone does not count.
    all.pop();
    let mut events = loop {
        let mut events = Events::of(&server, &session).await;
        if let Some(("session", _)) =
            events.next().await.as_ref().map(|(name, data)| (&**name, data))
        {
            break events;
        }
    };
    // A listener does not keep a session alive, nor does it end it.
    drop(all);
    assert_eq!(post(&server, "/v1/keepalive", &body).await.status, 200);
    assert_eq!(post(&server, "/v1/close", &body).await.status, 200);
    assert_eq!(events.expect("ended").await, json!({ "cause": "closed" }));
    until(|| server.node().look(|machine| machine.counts().sessions) == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_lives_says_so_and_one_that_grants_is_ready() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    for path in ["/health", "/ready", "/healthz"] {
        let answer = get(&server, path).await;
        assert_eq!((answer.status, answer.json()), (200, json!({ "status": "ok" })), "{path}");
    }
}
