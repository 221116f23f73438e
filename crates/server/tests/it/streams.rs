//! The stream, as a client sees it.

use std::time::Duration;

use crate::support::stream::{Stream, Way, both_ways};
use crate::support::{call, framed, grpc, open, options, post, server, until};
use conclave_api::v1;
use conclave_machine::SessionId;
use conclave_server::{ManualTime, Server, TimeSource};
use prost::Message;
use tonic::Streaming;
use v1::ask::What as Ask;
use v1::tell::What as Told;

both_ways! {
    a_lock_goes_from_one_to_the_next_and_both_are_told
    a_session_outlives_its_stream_and_goes_on_over_another_if_that_has_the_key
    a_session_that_is_kept_alive_lives_and_one_that_is_not_ends
    observers_see_who_leads_and_every_change
    a_leader_that_was_away_is_asked_to_yield_when_it_is_back
    a_call_that_is_given_up_leaves_no_waiter_in_the_queue
    a_client_finds_its_session_again_after_a_restart
}

fn acquire(lock: &str) -> Ask {
    let wants = vec![v1::Want { lock: lock.into(), ..v1::Want::default() }];
    Ask::Acquire(v1::Acquire { wants, ..v1::Acquire::default() })
}

const LONG: Duration = Duration::from_secs(600);

async fn a_lock_goes_from_one_to_the_next_and_both_are_told(way: Way) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let (mut one, mut two) = (Stream::to(&server, way).await, Stream::to(&server, way).await);
    let (first, second) = (one.open(LONG).await.0, two.open(LONG).await.0);
    one.send(first, 1, 0, acquire("disk")).await;
    let (_, 1, Told::Granted(held)) = one.next().await else { panic!("it is free") };
    two.send(second, 1, 0, acquire("disk")).await;
    two.send(second, 2, 0, acquire("other")).await;
    // The first request waits and says nothing; its owner can ask for nothing else meanwhile.
    let (_, 2, Told::Failed(failed)) = two.next().await else { panic!("it waits already") };
    assert_eq!(failed.code, "busy");
    let release = v1::Release { lock: "disk".into(), token: held.token, to: None };
    one.send(first, 2, 0, Ask::Release(release)).await;
    assert!(matches!(one.next().await, (_, 2, Told::Released(_))));
    let (session, 1, Told::Granted(next)) = two.next().await else { panic!("it is its turn") };
    assert!(session == second && next.token > held.token);
}

async fn a_session_outlives_its_stream_and_goes_on_over_another_if_that_has_the_key(way: Way) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let mut one = Stream::to(&server, way).await;
    let (session, key) = one.open(LONG).await;
    one.send(session, 1, 0, acquire("disk")).await;
    let (_, _, Told::Granted(held)) = one.next().await else { panic!("it is free") };
    drop(one);
    let mut two = Stream::to(&server, way).await;
    two.send(session, 1, 0, acquire("disk")).await;
    let (_, 1, Told::Failed(failed)) = two.next().await else { panic!("it is not its own") };
    assert_eq!(failed.code, "unknown-session");
    two.send(session, 7, key ^ 1, Ask::Attach(v1::Attach {})).await;
    let (_, 7, Told::Failed(failed)) = two.next().await else { panic!("the key is wrong") };
    assert_eq!(failed.code, "unknown-session");
    two.send(session, 7, key, Ask::Attach(v1::Attach {})).await;
    assert!(matches!(two.next().await, (_, 7, Told::Done(_))));
    // Asked again, the request is answered as before.
    two.send(session, 1, 0, acquire("disk")).await;
    let (_, 1, Told::Granted(again)) = two.next().await else { panic!("it holds the lock") };
    assert_eq!(again.token, held.token);
}

async fn a_session_that_is_kept_alive_lives_and_one_that_is_not_ends(way: Way) {
    let directory = tempfile::tempdir().expect("a directory");
    let time = ManualTime::new();
    let mut options = options(directory.path());
    options.node.time = TimeSource::Manual(time.clone());
    let server = Server::start(options).await.expect("it starts");
    let (mut one, mut two) = (Stream::to(&server, way).await, Stream::to(&server, way).await);
    let ttl = Duration::from_secs(10);
    let (kept, _) = one.open(ttl).await;
    let (left, _) = two.open(ttl).await;
    // Twice before the end of a lease, so that it is also renewed after the other's end.
    for id in [10, 11] {
        time.advance(ttl / 2 - Duration::from_millis(1));
        let keep = v1::KeepAlive { sessions: vec![kept, left] };
        one.send(0, id, 0, Ask::KeepAlive(keep)).await;
        let (0, told, Told::Alive(alive)) = one.next().await else { panic!("it was asked") };
        // The other's session is not this one's to keep alive.
        assert_eq!((told, alive.gone), (id, vec![left]));
        assert_eq!(server.node().look(|machine| machine.counts().sessions), 2);
    }
    time.advance(Duration::from_millis(2));
    let (session, 0, Told::Ended(ended)) = two.next().await else { panic!("its lease is over") };
    assert_eq!((session, ended.cause()), (left, v1::Cause::Expired));
    assert_eq!(server.node().look(|machine| machine.counts().sessions), 1);
}

async fn observers_see_who_leads_and_every_change(way: Way) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let mut client = grpc(&server).await;
    let observe = v1::ObserveElection { election: "web".into() };
    let mut leaders = client.observe(observe).await.expect("it answers").into_inner();
    let next = async |leaders: &mut Streaming<v1::Leader>| {
        leaders.message().await.expect("it answers").expect("it goes on").leader
    };
    assert_eq!(next(&mut leaders).await, None);
    let mut one = Stream::to(&server, way).await;
    let (session, _) = one.open(LONG).await;
    let campaign =
        v1::Campaign { election: "web".into(), value: b"here".into(), ..v1::Campaign::default() };
    one.send(session, 1, 0, Ask::Campaign(campaign)).await;
    let (_, 1, Told::Elected(elected)) = one.next().await else {
        panic!("there is no other candidate")
    };
    let leader = next(&mut leaders).await.expect("it leads");
    assert_eq!((leader.term, leader.value.as_slice()), (elected.term, b"here".as_slice()));
    assert_eq!(leader.who.expect("a leader").session, session);
    let resign = v1::Resign { election: "web".into(), term: elected.term };
    one.send(session, 2, 0, Ask::Resign(resign)).await;
    assert_eq!(next(&mut leaders).await, None);
}

async fn a_leader_that_was_away_is_asked_to_yield_when_it_is_back(way: Way) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let campaign = |rank, preempt, grace: Duration| {
        let (election, grace_ms) = ("web".to_owned(), grace.as_millis() as u64);
        let campaign = v1::Campaign { election, rank, preempt, grace_ms, ..Default::default() };
        Ask::Campaign(campaign)
    };
    let (mut one, mut two) = (Stream::to(&server, way).await, Stream::to(&server, way).await);
    let ((first, first_key), (second, second_key)) = (one.open(LONG).await, two.open(LONG).await);
    one.send(first, 1, 0, campaign(1, false, LONG)).await;
    let (_, 1, Told::Elected(led)) = one.next().await else {
        panic!("there is no other candidate")
    };
    // It is asked while it is not there.
    drop(one);
    two.send(second, 1, 0, campaign(2, true, LONG)).await;
    let asked = |session: u64| {
        let session = SessionId(session);
        server.node().look(|machine| machine.asked_to_yield(session).count() > 0)
    };
    until(|| asked(first)).await;
    let mut one = Stream::to(&server, way).await;
    one.send(first, 7, first_key, Ask::Attach(v1::Attach {})).await;
    assert!(matches!(one.next().await, (_, 7, Told::Done(_))));
    let (session, 0, Told::Yield(please)) = one.next().await else { panic!("it is asked again") };
    assert_eq!((session, please.election.as_str(), please.term), (first, "web", led.term));
    let most = LONG.as_millis() as u64;
    assert!(0 < please.within_ms && please.within_ms <= most, "{please:?}");
    // The other is elected and asked to yield while it is not there: it hears of both when it asks again.
    drop(two);
    let (third, _) = one.open(LONG).await;
    let resign = v1::Resign { election: "web".into(), term: led.term };
    one.send(first, 2, 0, Ask::Resign(resign)).await;
    assert!(matches!(one.next().await, (_, 2, Told::Done(_))));
    one.send(third, 1, 0, campaign(3, true, LONG)).await;
    until(|| asked(second)).await;
    let mut two = Stream::to(&server, way).await;
    two.send(second, 7, second_key, Ask::Attach(v1::Attach {})).await;
    assert!(matches!(two.next().await, (_, 7, Told::Done(_))));
    assert!(matches!(two.next().await, (_, 0, Told::Yield(_))));
    two.send(second, 1, 0, campaign(2, true, LONG)).await;
    let (_, 1, Told::Elected(led)) = two.next().await else { panic!("it was elected") };
    let (_, 0, Told::Yield(please)) = two.next().await else { panic!("it is asked again") };
    assert_eq!(please.term, led.term);
    // Who is not asked for anything is told nothing else.
    one.send(third, 7, 0, Ask::Echo(v1::Echo::default())).await;
    assert!(matches!(one.next().await, (_, 7, Told::Echo(_))));
}

async fn a_call_that_is_given_up_leaves_no_waiter_in_the_queue(way: Way) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let mut one = Stream::to(&server, way).await;
    let (holder, _) = one.open(LONG).await;
    one.send(holder, 1, 0, acquire("disk")).await;
    one.next().await;
    let (waiter, key) = one.open(LONG).await;
    let mut client = grpc(&server).await;
    let ask = v1::Ask { session: waiter, key, what: Some(acquire("disk")), ..v1::Ask::default() };
    let call = tokio::spawn(async move { client.call(ask).await });
    let waits = || server.node().look(|machine| machine.counts().waits);
    until(|| waits() == 1).await;
    call.abort();
    until(|| waits() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_ends_at_its_deadline_and_leaves_no_waiter() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let (holder, waiter) = (open(&server).await, open(&server).await);
    let body = format!(r#"{{"session":"{holder}","lock":"disk"}}"#);
    assert_eq!(post(&server, "/v1/acquire", &body).await.status, 200);
    let (session, key) = waiter.split_once('.').expect("a number and a key");
    let session = session.parse().expect("a number");
    let key = u64::from_str_radix(key, 16).expect("a key");
    let ask = v1::Ask { session, key, what: Some(acquire("disk")), ..v1::Ask::default() };
    // Over HTTP/1, for a client of tonic would give up by itself.
    let body = ask.encode_to_vec();
    let frame = framed(0, body.len() as u32, &body);
    let refused = call(&server, "Call", "grpc-timeout: 300m\r\n", &frame).await;
    // The number of what gRPC calls DEADLINE_EXCEEDED.
    assert!(refused.headers.contains("grpc-status: 4"), "{refused:?}");
    until(|| server.node().look(|machine| machine.counts().waits) == 0).await;
}

async fn a_client_finds_its_session_again_after_a_restart(way: Way) {
    let directory = tempfile::tempdir().expect("a directory");
    let first = server(directory.path()).await;
    let mut one = Stream::to(&first, way).await;
    let (session, key) = one.open(LONG).await;
    one.send(session, 1, 0, acquire("disk")).await;
    let (_, _, Told::Granted(held)) = one.next().await else { panic!("it is free") };
    first.stop().await.expect("it stops");
    assert_eq!(one.tells.next().await, None, "the stream ends");
    let second = server(directory.path()).await;
    let mut two = Stream::to(&second, way).await;
    two.send(session, 9, key, Ask::Attach(v1::Attach {})).await;
    assert!(matches!(two.next().await, (_, 9, Told::Done(_))));
    let release = v1::Release { lock: "disk".into(), token: held.token, to: None };
    two.send(session, 2, 0, Ask::Release(release)).await;
    assert!(matches!(two.next().await, (_, 2, Told::Released(_))));
}
