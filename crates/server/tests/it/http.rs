//! HTTP, as curl uses it.

use std::time::Duration;

use crate::support::{get, grpc, open, options, post, request, send, server, until};
use conclave_api::v1;
use conclave_server::{ManualTime, Server, TimeSource};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_had_seen_and_given_back_with_curl_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let session = open(&server).await;
    let body = json!({ "session": session, "lock": "backup/db", "mode": "shared" }).to_string();
    let granted = post(&server, "/v1/acquire", &body).await;
    assert_eq!((granted.status, granted.json()["depth"].as_u64()), (200, Some(1)));
    let token = granted.json()["token"].as_u64().expect("a token");
    let why = get(&server, "/v1/why?name=backup%2Fdb").await.json();
    assert_eq!(why["lock"]["holders"][0]["token"], token);
    assert_eq!(why["lock"]["holders"][0]["mode"], "shared");
    assert_eq!(why["lock"]["holders"][0]["who"]["name"], "test");
    let locks = get(&server, "/v1/locks?prefix=backup/&limit=5").await.json();
    assert_eq!((&locks["locks"][0]["name"], &locks["more"]), (&json!("backup/db"), &json!(false)));
    let holds = get(&server, "/v1/sessions").await.json()["sessions"][0]["holds"].clone();
    assert_eq!(holds, json!([{ "lock": "backup/db", "token": token }]));
    let body = json!({ "session": session, "lock": "backup/db", "token": token });
    let exclusive = post(&server, "/v1/upgrade", &body.to_string()).await;
    assert_eq!(exclusive.status, 200, "{exclusive:?}");
    let token = exclusive.json()["token"].as_u64().expect("a token");
    let body = json!({ "session": session, "lock": "backup/db", "token": token }).to_string();
    assert_eq!(post(&server, "/v1/downgrade", &body).await.status, 200);
    let token = get(&server, "/v1/why?name=backup/db").await.json();
    let token = token["lock"]["holders"][0]["token"].as_u64().expect("a token");
    let body = json!({ "session": session, "lock": "backup/db", "token": token }).to_string();
    assert_eq!(post(&server, "/v1/release", &body).await.json(), json!({ "left": 0 }));
    let again = post(&server, "/v1/release", &body).await;
    assert_eq!(again.refused(), (409, "not-held".to_owned()));
    let body = json!({ "session": session }).to_string();
    let alive = post(&server, "/v1/keepalive", &body).await.json();
    assert_eq!(alive, json!({ "gone": [], "deposed": [] }));
    assert_eq!(post(&server, "/v1/close", &body).await.status, 200);
    let gone = post(&server, "/v1/keepalive", &body).await;
    assert_eq!(gone.refused(), (404, "unknown-session".to_owned()));
    assert_eq!(get(&server, "/v1/status").await.json()["sessions"], 0);
    assert_eq!(get(&server, "/v1/graph").await.json(), json!({ "waits": [], "stuck": [] }));
}

#[tokio::test(flavor = "multi_thread")]
async fn several_locks_are_had_at_once_and_a_request_made_again_is_answered_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let session = open(&server).await;
    let wants = json!([{ "lock": "a" }, { "lock": "b", "mode": "permits", "permits": 2, "of": 3 }]);
    let body = json!({ "session": session, "request": 1, "wants": wants }).to_string();
    let first = post(&server, "/v1/acquire", &body).await.json();
    assert_eq!(first["epochs"].as_array().map(Vec::len), Some(2));
    assert_eq!(post(&server, "/v1/acquire", &body).await.json(), first);
    let body = json!({ "session": session, "token": first["token"] }).to_string();
    assert_eq!(post(&server, "/v1/release-all", &body).await.status, 200);
    assert_eq!(get(&server, "/v1/locks").await.json()["locks"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_hangs_up_waits_no_more() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let (one, two) = (open(&server).await, open(&server).await);
    let acquire = |session: &str| json!({ "session": session, "lock": "disk" }).to_string();
    assert_eq!(post(&server, "/v1/acquire", &acquire(&one)).await.status, 200);
    let mut waiting = TcpStream::connect(server.address()).await.expect("it listens");
    let asked = request("POST", "/v1/acquire", "", &acquire(&two));
    waiting.write_all(asked.as_bytes()).await.expect("it listens");
    let waits = || server.node().look(|machine| machine.counts().waits);
    until(|| waits() == 1).await;
    drop(waiting);
    until(|| waits() == 0).await;
    // One that has a number can also be cancelled.
    let asked = json!({ "session": two, "request": 7, "lock": "disk" }).to_string();
    let cancel = json!({ "session": two, "request": 7 }).to_string();
    let (waited, cancelled) = tokio::join!(post(&server, "/v1/acquire", &asked), async {
        until(|| waits() == 1).await;
        post(&server, "/v1/cancel", &cancel).await
    });
    assert_eq!(cancelled.status, 200, "{cancelled:?}");
    assert_eq!(waited.refused(), (409, "cancelled".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_had_is_refused_with_a_code_and_a_status_that_say_why() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let (one, two) = (open(&server).await, open(&server).await);
    let ask = async |path: &str, session: &str, mut body: Value| {
        body["session"] = json!(session);
        post(&server, path, &body.to_string()).await
    };
    let held = ask("/v1/acquire", &one, json!({ "lock": "a" })).await.json()["token"].clone();
    let held_too = ask("/v1/acquire", &two, json!({ "lock": "b" })).await.json()["token"].clone();
    let refused = ask("/v1/acquire", &two, json!({ "lock": "a", "timeout_ms": 0 })).await;
    assert_eq!(refused.refused(), (409, "conflict".to_owned()));
    let refused = ask("/v1/acquire", &two, json!({ "lock": "a", "timeout_ms": 20 })).await;
    assert_eq!(refused.refused(), (409, "timed-out".to_owned()));
    let refused = ask("/v1/release", &two, json!({ "lock": "a", "token": held })).await;
    assert_eq!(refused.refused(), (409, "not-held".to_owned()));
    let refused = ask("/v1/release", &one, json!({ "lock": "a", "token": 999 })).await;
    assert_eq!(refused.refused(), (409, "stale-token".to_owned()));
    // One waits for the other, and the other for the one.
    let (waits, dies) = tokio::join!(ask("/v1/acquire", &one, json!({ "lock": "b" })), async {
        until(|| server.node().look(|machine| machine.counts().waits) == 1).await;
        let dies = ask("/v1/acquire", &two, json!({ "lock": "a" })).await;
        let release = ask("/v1/release", &two, json!({ "lock": "b", "token": held_too })).await;
        assert_eq!(release.status, 200, "{release:?}");
        dies
    });
    assert_eq!(waits.status, 200, "{waits:?}");
    assert_eq!(dies.refused(), (409, "deadlock".to_owned()));
    assert_eq!(dies.json()["cycle"].as_array().map(Vec::len), Some(2), "{dies:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_is_elected_proclaims_is_observed_and_deposed() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let session = open(&server).await;
    let mut observer = TcpStream::connect(server.address()).await.expect("it listens");
    let asked = request("GET", "/v1/observe?election=web", "", "");
    observer.write_all(asked.as_bytes()).await.expect("it listens");
    let mut lines = BufReader::new(observer).lines();
    let mut next = async || loop {
        let line = lines.next_line().await.expect("it goes on").expect("it goes on");
        if let Some(data) = line.strip_prefix("data: ") {
            return serde_json::from_str::<Value>(data).expect("it is JSON")["leader"].clone();
        }
    };
    assert_eq!(next().await, Value::Null);
    let body = json!({ "session": session, "election": "web", "value": "at home" }).to_string();
    let elected = post(&server, "/v1/campaign", &body).await.json();
    assert_eq!(next().await["value"], "at home");
    let body =
        json!({ "session": session, "election": "web", "term": elected["term"], "value": "out" });
    assert_eq!(post(&server, "/v1/proclaim", &body.to_string()).await.status, 200);
    assert_eq!(next().await["value"], "out");
    let elections = get(&server, "/v1/elections?prefix=w").await.json();
    assert_eq!(elections["elections"][0]["leader"]["term"], elected["term"]);
    // Not at once, another could lead only after its lease: it cannot be told over plain HTTP.
    let body = r#"{"election":"web","reason":"it is late","at_once":true}"#;
    assert_eq!(post(&server, "/v1/admin/depose", body).await.status, 200);
    assert_eq!(next().await, Value::Null);
    let body =
        json!({ "session": session, "election": "web", "term": elected["term"] }).to_string();
    let late = post(&server, "/v1/resign", &body).await;
    assert_eq!(late.refused(), (409, "not-leader".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn to_ask_again_for_a_session_says_which_leaderships_that_does_not_prolong() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let open =
        async || post(&server, "/v1/sessions", r#"{"nonce":12345,"ttl_ms":3600000}"#).await.json();
    let opened = open().await;
    assert_eq!(opened.get("deposed"), None, "{opened}");
    let session = &opened["session"];
    let body = json!({ "session": session, "election": "web" }).to_string();
    let term = post(&server, "/v1/campaign", &body).await.json()["term"].clone();
    let depose = r#"{"election":"web","reason":"late"}"#;
    assert_eq!(post(&server, "/v1/admin/depose", depose).await.status, 200);
    let again = open().await;
    assert_eq!(again["session"], *session);
    let deposed = again["deposed"].as_array().expect("it is told").as_slice();
    let [deposed] = deposed else { panic!("{again}") };
    assert_eq!((&deposed["term"], &deposed["cause"]), (&term, &json!("forced")), "{again}");
    assert_eq!(deposed["election"], "web");
    let body = json!({ "session": session, "election": "web", "term": term }).to_string();
    assert_eq!(post(&server, "/v1/resign", &body).await.status, 200);
    assert_eq!(open().await.get("deposed"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_takes_locks_and_ends_sessions_and_has_to_say_why() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let session = open(&server).await;
    let body = json!({ "session": session, "lock": "disk" }).to_string();
    assert_eq!(post(&server, "/v1/acquire", &body).await.status, 200);
    let silent = post(&server, "/v1/admin/release", r#"{"lock":"disk"}"#).await;
    assert_eq!(silent.refused(), (400, "bad-request".to_owned()));
    let body = r#"{"lock":"disk","reason":"stuck"}"#;
    assert_eq!(post(&server, "/v1/admin/release", body).await.status, 200);
    let again = post(&server, "/v1/admin/release", body).await;
    assert_eq!(again.refused(), (404, "free".to_owned()));
    let number: u64 = session.split('.').next().expect("a number").parse().expect("a number");
    let body = json!({ "session": number, "reason": "gone" }).to_string();
    assert_eq!(post(&server, "/v1/admin/expel", &body).await.status, 200);
    assert_eq!(get(&server, "/v1/status").await.json()["sessions"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_refused_with_a_hint() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let lost = get(&server, "/v2/locks").await;
    assert_eq!(lost.refused(), (404, "not-found".to_owned()));
    assert!(lost.body.contains("there is /v1/locks"), "{lost:?}");
    let wrong = get(&server, "/v1/acquire").await;
    assert_eq!(wrong.status, 405);
    assert!(wrong.headers.to_lowercase().contains("allow: post"), "{wrong:?}");
    assert!(wrong.body.contains("/v1/acquire takes POST, not GET"), "{wrong:?}");
    let welcome = get(&server, "/").await;
    assert!(welcome.body.contains("curl localhost/v1/status"), "{welcome:?}");
    assert_eq!(get(&server, "/healthz").await.json(), json!({ "status": "ok" }));
    // The answer to gRPC is one of gRPC.
    let headers = "content-type: application/grpc\r\n";
    let grpc = send(&server, request("POST", "/no.Such/Thing", headers, "").as_bytes()).await;
    assert!(grpc.status == 200 && grpc.headers.contains("grpc-status: 12"), "{grpc:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_description_lists_every_route_and_every_route_is_served() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let all = get(&server, "/openapi.json").await.json();
    let paths = all["paths"].as_object().expect("paths").clone();
    assert!(paths.len() >= 24, "{} paths", paths.len());
    for (path, methods) in paths {
        for method in methods.as_object().expect("methods").keys() {
            let path = if path == "/v1/observe" { "/v1/observe?election=" } else { &path };
            let answer =
                send(&server, request(&method.to_uppercase(), path, "", "").as_bytes()).await;
            assert!(![404, 405, 0].contains(&answer.status), "{method} {path}: {answer:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_and_http_share_a_port_and_sessions() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let session = open(&server).await;
    let body = json!({ "session": session, "lock": "disk" }).to_string();
    assert_eq!(post(&server, "/v1/acquire", &body).await.status, 200);
    let mut client = grpc(&server).await;
    let locks = client.locks(conclave_api::v1::ListLocks::default()).await.expect("it answers");
    assert_eq!(locks.into_inner().locks[0].name, "disk");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_sites_are_kept_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let body = r#"{"lock":"disk","reason":"fun"}"#;
    let from = "origin: https://example.org\r\n";
    let page = send(&server, request("POST", "/v1/admin/release", from, body).as_bytes()).await;
    assert_eq!(page.refused(), (403, "forbidden".to_owned()));
    let own = "origin: http://localhost\r\n";
    let own = send(&server, request("POST", "/v1/admin/release", own, body).as_bytes()).await;
    assert_eq!(own.refused(), (404, "free".to_owned()));
    let rebound = "GET /v1/locks HTTP/1.1\r\nhost: example.org\r\nconnection: close\r\n\r\n";
    assert_eq!(send(&server, rebound.as_bytes()).await.refused(), (403, "forbidden".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_disk_cannot_be_used_every_request_is_told_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let session = open(&server).await;
    let channel = Channel::from_shared(format!("http://{}", server.address())).expect("an address");
    let mut health = HealthClient::new(channel.connect().await.expect("it listens"));
    let mut serving = async || {
        let asked = HealthCheckRequest { service: "conclave.v1.Conclave".into() };
        let answer = health.check(asked).await.expect("it answers").into_inner();
        answer.status() == ServingStatus::Serving
    };
    assert!(serving().await);
    let (data, away) = (directory.path().join("data"), directory.path().join("away"));
    std::fs::rename(&data, &away).expect("it is moved");
    until(|| server.node().trouble().is_some()).await;
    let ill = get(&server, "/healthz").await;
    assert_eq!(ill.refused(), (503, "unavailable".to_owned()));
    assert!(ill.body.contains("cannot look at"), "{ill:?}");
    let body = json!({ "session": session, "lock": "disk" }).to_string();
    let refused = post(&server, "/v1/acquire", &body).await;
    assert_eq!(refused.refused(), (503, "unavailable".to_owned()));
    assert!(refused.headers.to_lowercase().contains("retry-after: 1"), "{refused:?}");
    while serving().await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    std::fs::rename(&away, &data).expect("it is moved back");
    while !serving().await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(get(&server, "/healthz").await.status, 200);
    assert_eq!(post(&server, "/v1/acquire", &body).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_tell_what_has_happened() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let (one, two) = (open(&server).await, open(&server).await);
    let ask = |session: &str| json!({ "session": session, "lock": "disk" }).to_string();
    let held = post(&server, "/v1/acquire", &ask(&one)).await.json()["token"].clone();
    let release = json!({ "session": one, "lock": "disk", "token": held }).to_string();
    let asked = ask(&two);
    let (next, _) = tokio::join!(post(&server, "/v1/acquire", &asked), async {
        until(|| server.node().look(|machine| machine.counts().waits) == 1).await;
        let text = get(&server, "/metrics").await.body;
        assert!(text.lines().any(|line| line == "conclave_waits 1"), "{text}");
        post(&server, "/v1/release", &release).await
    });
    assert_eq!(next.status, 200);
    post(&server, "/v1/release", &release).await;
    let text = get(&server, "/metrics").await.body;
    for line in [
        "conclave_sessions 2",
        "conclave_holds 1",
        "conclave_waits 0",
        "conclave_grants_total 2",
        "conclave_releases_total{cause=\"released\"} 1",
        "conclave_handoff_delay_seconds_count 1",
        "conclave_grant_wait_seconds_count 2",
        "conclave_refusals_total{code=\"not-held\"} 1",
        "conclave_connections 1",
    ] {
        assert!(text.lines().any(|other| other == line), "{line} is not in {text}");
    }
    assert!(text.contains("conclave_log_flush_seconds_bucket"), "{text}");
    assert!(text.contains("# TYPE conclave_grants_total counter\n"), "{text}");
    let asked = "accept: application/openmetrics-text; version=1.0.0\r\n";
    let open = send(&server, request("GET", "/metrics", asked, "").as_bytes()).await;
    assert!(open.headers.contains("application/openmetrics-text; version=1.0.0"), "{open:?}");
    assert!(open.body.contains("# TYPE conclave_grants counter\n"), "{open:?}");
    assert!(open.body.ends_with("# EOF\n"), "{open:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_says_when_it_makes_sense_to_ask_again_where_that_is_known() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let session = open(&server).await;
    let campaign = json!({ "session": session, "election": "e" }).to_string();
    assert_eq!(post(&server, "/v1/campaign", &campaign).await.status, 200);
    let depose = r#"{"election":"e","reason":"r","at_once":true,"barred_ms":600000}"#;
    assert_eq!(post(&server, "/v1/admin/depose", depose).await.status, 200);
    let barred = post(&server, "/v1/campaign", &campaign).await.json();
    let retry_ms = barred["retry_ms"].as_u64().unwrap_or_else(|| panic!("{barred}"));
    assert!((1..=600_001).contains(&retry_ms), "{retry_ms}");
    let described = get(&server, "/openapi.json").await.json();
    let fields = &described["components"]["schemas"]["Failed"]["properties"];
    assert!(fields["retry_ms"].is_object(), "{fields}");
    // Over gRPC it is in the metadata.
    let (number, key) = session.split_once('.').expect("a number and a key");
    let stand = v1::Campaign { election: "e".to_owned(), ..v1::Campaign::default() };
    let ask = v1::Ask {
        session: number.parse().expect("a number"),
        key: u64::from_str_radix(key, 16).expect("a key"),
        what: Some(v1::ask::What::Campaign(stand)),
        ..v1::Ask::default()
    };
    let status = grpc(&server).await.call(ask).await.expect_err("it is barred");
    let again = status.metadata().get("conclave-retry-ms").expect("it says when");
    assert!(again.to_str().is_ok_and(|again| again.parse::<u64>().is_ok_and(|again| again > 0)));
    // Where it is not known, nothing is said.
    let release = json!({ "session": session, "lock": "x", "token": 1 }).to_string();
    let refused = post(&server, "/v1/release", &release).await;
    assert!(refused.json().get("retry_ms").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn for_how_long_a_lock_is_held_counts_the_time_in_which_the_node_was_down() {
    let directory = tempfile::tempdir().expect("a directory");
    let time = ManualTime::new();
    let mut options = options(directory.path());
    options.node.time = TimeSource::Manual(time.clone());
    let start = || Server::start(options.clone());
    let first = start().await.expect("it starts");
    let session = open(&first).await;
    let acquire = json!({ "session": session, "lock": "disk" }).to_string();
    assert_eq!(post(&first, "/v1/acquire", &acquire).await.status, 200);
    let minute = Duration::from_secs(60);
    time.advance(minute);
    let held = async |server: &Server| {
        let locks = get(server, "/v1/locks").await.json();
        locks["locks"][0]["holders"][0]["for_ms"].as_u64().unwrap_or_else(|| panic!("{locks}"))
    };
    assert_eq!(held(&first).await, 60_000);

    // Twice, since a second restart finds the first in the log, and a third time with nothing but the snapshot.
    let mut server = first;
    for downs in 1..=3 {
        server.stop().await.expect("it stops");
        time.advance(100 * minute);
        server = start().await.expect("it starts again");
        assert_eq!(held(&server).await, 60_000 + downs * 6_000_000, "after {downs}");
        // The lease did not go on meanwhile, and what is written next keeps what was shown.
        let renew = json!({ "session": session }).to_string();
        assert_eq!(post(&server, "/v1/keepalive", &renew).await.json()["gone"], json!([]));
        assert_eq!(held(&server).await, 60_000 + downs * 6_000_000, "after {downs} and a renewal");
    }
    server.stop().await.expect("it stops");
}
