//! Sessions outlive connections, and nothing is done twice.

use std::time::Duration;

use crate::support::proxy::{Mood, Proxy};
use crate::support::{LONG, World, open, until, until_waiting};
use conclave_client::{
    Acquire, Client, DRIFT, Error, ManualTime, Options, Session, TimeSource, view,
};
use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// How long a client tries to reach a server that is not there: long enough to have tried, on a busy machine, too.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who holds a lock, as the server sees it.
async fn holders(client: &Client, lock: &str) -> Vec<view::Holder> {
    let reasons = client.why(lock).await.expect("it answers");
    reasons.lock.map(|lock| lock.holders).unwrap_or_default()
}

async fn through(proxy: &Proxy, ttl: Duration) -> Session {
    let client = Client::connect(Options::new(proxy.address.to_string())).await;
    open(&client.expect("it is up"), "one", ttl).await
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_and_waits_live_on_when_the_server_is_restarted() {
    let mut world = World::new().await;
    let (one, two) = (world.session("one", LONG).await, world.session("two", LONG).await);
    let guard = one.lock("disk").await.expect("free");
    let waits = tokio::spawn(async move { two.lock("disk").await });
    let client = world.client().await;
    until_waiting(&client, "disk", 1).await;
    for _ in 0..3 {
        world.stop().await;
        assert!(guard.is_held());
        world.start().await;
    }
    let token = guard.token();
    assert_eq!(holders(&client, "disk").await[0].token, token);
    guard.release().await.expect("it was held all the time");
    let next = waits.await.expect("no panic").expect("it never left the queue");
    assert!(next.token() > token);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_while_there_is_no_server_is_done_when_there_is_one() {
    let mut world = World::new().await;
    let one = world.session("one", LONG).await;
    world.stop().await;
    let waits = tokio::spawn({
        let one = one.clone();
        async move { one.lock("disk").await }
    });
    // One that is given up before it could be asked.
    let given_up = tokio::time::timeout(Duration::from_millis(50), one.lock("other")).await;
    assert!(given_up.is_err());
    let error = one.lock_timeout("other", Duration::from_millis(10)).await.expect_err("no server");
    assert!(matches!(error, Error::TimedOut), "{error}");
    world.start().await;
    waits.await.expect("no panic").expect("it is free").release().await.expect("held");
    let client = world.client().await;
    assert!(holders(&client, "other").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_lost_are_given_again_and_nothing_is_done_twice() {
    let world = World::new().await;
    let proxy = Proxy::to(world.address()).await;
    let client = world.client().await;
    let one = through(&proxy, LONG).await;
    for round in 0..5 {
        // The answer to a request for a lock is lost.
        proxy.set(Mood::Deaf);
        let asks = tokio::spawn({
            let one = one.clone();
            async move { (one.lock("disk").await, one) }
        });
        until("it is held", async || holders(&client, "disk").await.len() == 1).await;
        proxy.cut();
        let (guard, one) = asks.await.expect("no panic");
        let guard = guard.expect("it was granted");
        assert_eq!(holders(&client, "disk").await[0].token, guard.token(), "round {round}");
        // The same when it is taken once more, and when one level of it is released.
        proxy.set(Mood::Deaf);
        let asks = tokio::spawn(async move {
            (one.acquire(Acquire::exclusive("disk").reentrant()).await, one)
        });
        until("it is held twice", async || holders(&client, "disk").await[0].depth == 2).await;
        proxy.cut();
        let (again, one) = asks.await.expect("no panic");
        let again = again.expect("it was granted");
        assert_eq!(holders(&client, "disk").await[0].depth, 2);
        proxy.set(Mood::Deaf);
        let asks = tokio::spawn(again.release());
        until("it is held once", async || holders(&client, "disk").await[0].depth == 1).await;
        proxy.cut();
        asks.await.expect("no panic").expect("it was released");
        assert_eq!(holders(&client, "disk").await[0].depth, 1);
        assert!(guard.is_held());
        guard.release().await.expect("held");
        assert!(holders(&client, "disk").await.is_empty());
        drop(one);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_comes_between_two_connections_is_not_missed() {
    let world = World::new().await;
    let proxy = Proxy::to(world.address()).await;
    let client = world.client().await;
    let (one, two) = (through(&proxy, LONG).await, world.session("two", LONG).await);
    let held = two.lock("disk").await.expect("free");
    let waits = tokio::spawn(async move { one.lock("disk").await });
    until_waiting(&client, "disk", 1).await;
    proxy.set(Mood::Broken);
    held.release().await.expect("held");
    until("it is granted", async || holders(&client, "disk").await.len() == 1).await;
    proxy.set(Mood::Fine);
    let guard = waits.await.expect("no panic").expect("it was granted");
    assert_eq!(holders(&client, "disk").await[0].token, guard.token());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_dropped_while_the_server_is_out_of_reach_is_given_back_on_return() {
    let world = World::new().await;
    let proxy = Proxy::to(world.address()).await;
    let client = world.client().await;
    let (one, two) = (through(&proxy, LONG).await, world.session("two", LONG).await);
    // One that waits, one that is granted without its knowing, one that is held.
    let theirs = two.lock("theirs").await.expect("free");
    let held = one.lock("held").await.expect("free");
    let mut waits = Box::pin({
        let one = one.clone();
        async move { one.lock("theirs").await }
    });
    assert!(futures_util::poll!(&mut waits).is_pending());
    until_waiting(&client, "theirs", 1).await;
    proxy.set(Mood::Deaf);
    let mut granted = Box::pin(one.lock("granted"));
    assert!(futures_util::poll!(&mut granted).is_pending());
    until("it is granted", async || holders(&client, "granted").await.len() == 1).await;
    proxy.set(Mood::Broken);
    drop((waits, granted, held));
    assert_eq!(holders(&client, "held").await.len(), 1, "the server could not be told");
    proxy.set(Mood::Fine);
    until_waiting(&client, "theirs", 0).await;
    for lock in ["granted", "held"] {
        until("it is given back", async || holders(&client, lock).await.is_empty()).await;
    }
    drop(theirs);
    one.lock("theirs").await.expect("free").release().await.expect("held");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_break_all_the_time_neither_lose_nor_double_anything() {
    let world = World::new().await;
    let proxy = Proxy::to(world.address()).await;
    let client = world.client().await;
    let one = through(&proxy, LONG).await;
    let worker = tokio::spawn({
        let one = one.clone();
        async move {
            let mut last = 0;
            for n in 0..200 {
                let guard = one.lock(format!("lock {}", n % 3)).await.expect("free");
                assert!(guard.token() > last, "tokens grow");
                last = guard.token();
                if n % 2 == 0 {
                    guard.release().await.expect("held");
                }
            }
        }
    });
    let mut breaks = 0;
    while !worker.is_finished() {
        proxy.set(if breaks % 2 == 0 { Mood::Deaf } else { Mood::Fine });
        tokio::time::sleep(Duration::from_millis(5)).await;
        proxy.set(Mood::Broken);
        tokio::time::sleep(Duration::from_millis(1)).await;
        proxy.set(Mood::Fine);
        tokio::time::sleep(Duration::from_millis(40)).await;
        breaks += 1;
    }
    worker.await.expect("all went well");
    until("nothing is held", async || client.locks("").await.expect("ok").is_empty()).await;
    assert!(one.is_alive() && breaks > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_server_is_found_when_one_is_dead_or_falls_silent() {
    let world = World::new().await;
    let proxy = Proxy::to(world.address()).await;
    // No server listens at the first.
    let dead =
        std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("ok");
    for _ in 0..4 {
        let options = Options::new(format!("{dead},{}", world.address()));
        let client = Client::connect(options).await.expect("one of them is up");
        open(&client, "one", LONG)
            .await
            .lock("disk")
            .await
            .expect("free")
            .release()
            .await
            .expect("held");
    }
    let options = Options::new(format!("{},{}", proxy.address, world.address()));
    let mut sessions = Vec::new();
    for _ in 0..6 {
        let time = ManualTime::new();
        let options = options.clone().time(TimeSource::Manual(time.clone()));
        let client = Client::connect(options).await.expect("both are up");
        sessions.push((open(&client, "one", LONG).await, time));
    }
    // These want nothing of it, and find out all the same.
    let mut idle = Vec::new();
    for _ in 0..6 {
        idle.push(Client::connect(options.clone()).await.expect("both are up"));
    }
    proxy.set(Mood::Silent);
    for (session, time) in &sessions {
        // It renews its lease, wonders why that is not confirmed, and gives the server up: all before its lease is over.
        for span in [LONG / 3, LONG / 3, LONG / 8] {
            time.pass(span).await;
        }
        // If it talks to the one that is not silent, that has confirmed its last renewal before.
        let renewed = LONG - LONG / DRIFT - LONG / 8;
        until("it is renewed by another", async || session.remaining() >= renewed).await;
    }
    for client in idle {
        until("it is told by another", async || client.status().await.is_ok()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_reached_is_an_error_that_says_so() {
    let dead =
        std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("ok");
    let options = Options::new(dead.to_string()).connect_timeout(PATIENCE);
    let error = Client::connect(options).await.expect_err("no server listens");
    assert!(matches!(error, Error::Unreachable(_)), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
    let mut world = World::new().await;
    let options = world.options().connect_timeout(PATIENCE);
    let client = Client::connect(options).await.expect("it is up");
    world.stop().await;
    let error = client.open(Default::default()).await.expect_err("it is not up any more");
    assert!(matches!(error, Error::Unreachable(_)), "{error}");
    let error = client.status().await.expect_err("it is not up any more");
    assert!(matches!(error, Error::Unreachable(_)), "{error}");
    world.start().await;
    until("it is reached again", async || client.status().await.is_ok()).await;
    open(&client, "one", LONG).await.close().await.expect("it is up again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_listens_there_and_is_no_server_is_reported() {
    let says = [
        ("HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\n\r\n<html", "404"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", "200"),
        ("SSH-2.0-OpenSSH_9.2\r\n", "does not answer as a node does"),
        ("", "does not answer"),
    ];
    let tried = says.map(|(says, part)| async move {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it listens");
        let strange = tokio::spawn(async move {
            loop {
                let (mut tcp, _) = listener.accept().await.expect("a client");
                tokio::spawn(async move {
                    tcp.read_u8().await.expect("it asks");
                    tcp.write_all(says.as_bytes()).await.expect("it listens");
                    let _ = tcp.read_to_end(&mut Vec::new()).await;
                });
            }
        });
        let options = Options::new(address.to_string()).connect_timeout(PATIENCE);
        let error = Client::connect(options).await.expect_err("it is something else");
        assert!(matches!(error, Error::Unreachable(_)), "{error}");
        assert!(error.to_string().contains(part), "{error}");
        strange.abort();
    });
    join_all(tried).await;
}
