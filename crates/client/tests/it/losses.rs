//! When sessions and locks are lost, and who knows it first.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::proxy::{Mood, Proxy};
use crate::support::{LONG, World, open, until, until_waiting};
use conclave_client::{
    Client, DRIFT, Error, Loss, ManualTime, Options, SessionOptions, TimeSource,
};
use conclave_testing::in_time;
use rustix::process::{Pid, Signal, kill_process};

/// Short enough to wait for its end, and long enough for a busy machine to renew it.
const SHORT: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_ends_a_session_and_all_who_have_to_do_with_it_are_told() {
    let world = World::new().await;
    let operator = world.client().await;
    let (one, two) = (world.session("one", LONG).await, world.session("two", LONG).await);
    let guard = one.lock("mine").await.expect("free");
    let theirs = two.lock("theirs").await.expect("free");
    let told = Arc::new(AtomicBool::new(false));
    let tell = told.clone();
    one.on_loss(move |loss| tell.store(loss == Loss::Expelled, Ordering::SeqCst));
    one.on_loss(|_| panic!("a callback that panics does no harm"));
    let waits = tokio::spawn({
        let one = one.clone();
        async move { one.lock("theirs").await }
    });
    until_waiting(&operator, "theirs", 1).await;
    operator.expel(one.id(), "it misbehaves").await.expect("it is there");
    assert_eq!(one.lost().await, Loss::Expelled);
    assert_eq!(guard.lost().await, Loss::Expelled);
    let error = waits.await.expect("no panic").expect_err("the session is over");
    assert!(matches!(error, Error::SessionLost(Loss::Expelled)), "{error}");
    assert!(!one.is_alive() && !guard.is_held() && one.remaining().is_zero());
    until("the callback is called", async || told.load(Ordering::SeqCst)).await;
    let error = one.lock("other").await.expect_err("the session is over");
    assert!(matches!(error, Error::SessionLost(Loss::Expelled)), "{error}");
    let now = Arc::new(AtomicBool::new(false));
    let tell = now.clone();
    one.on_loss(move |_| tell.store(true, Ordering::SeqCst));
    assert!(now.load(Ordering::SeqCst), "what comes too late is called at once");
    drop(theirs);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_taken_by_force_is_lost_and_nothing_else_is() {
    let world = World::new().await;
    let operator = world.client().await;
    let one = world.session("one", LONG).await;
    let (a, b) = (one.lock("a").await.expect("free"), one.lock("b").await.expect("free"));
    operator.force_release("a", Some(a.token()), "another needs it").await.expect("it is held");
    assert_eq!(a.lost().await, Loss::Forced);
    assert!(!a.is_held() && b.is_held() && one.is_alive());
    assert!(matches!(a.release().await, Err(Error::Lost(Loss::Forced))));
    b.release().await.expect("it was held all the time");
    let error = operator.force_release("a", None, "again").await.expect_err("it is free");
    assert_eq!(error.code(), "free");
    let error = operator.force_release("a", None, " ").await.expect_err("no reason");
    assert_eq!(error.code(), "bad-request");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_taken_while_the_server_was_out_of_reach_is_known_on_return() {
    let world = World::new().await;
    let proxy = Proxy::to(world.address()).await;
    let operator = world.client().await;
    let client = Client::connect(Options::new(proxy.address.to_string())).await.expect("it is up");
    let one = open(&client, "one", LONG).await;
    let (a, b) = (one.lock("a").await.expect("free"), one.lock("b").await.expect("free"));
    let mut c = one.read("c").await.expect("free");
    c.upgrade().await.expect("no other shares it");
    proxy.set(Mood::Broken);
    operator.force_release("a", None, "another needs it").await.expect("it is held");
    proxy.set(Mood::Fine);
    assert_eq!(a.lost().await, Loss::Gone);
    // The others were asked for again, too, and are still there.
    b.release().await.expect("it was held all the time");
    assert!(c.is_held());
    c.release().await.expect("it was held all the time");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_taken_without_a_word_about_leases_is_renewed_until_it_is_given_back() {
    let (servers, clients) = (conclave_server::ManualTime::new(), ManualTime::new());
    let world = World::by(servers.clone()).await;
    let options = world.options().time(TimeSource::Manual(clients.clone()));
    let client = Client::connect(options).await.expect("it is up");
    let session = client.open(SessionOptions::default()).await.expect("there is room");
    let guard = session.lock("disk").await.expect("free");
    // Far beyond the minute after which other services would have given it to another.
    let certain = session.ttl() - session.ttl() / DRIFT;
    for _ in 0..20 {
        servers.advance(session.ttl() / 2);
        clients.advance(session.ttl() / 2);
        until("it is renewed", async || session.remaining() == certain).await;
        assert!(guard.is_held());
    }
    assert_eq!(world.holder("disk").await, Some(guard.token()));
    guard.release().await.expect("it was held all the time");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_cut_off_stops_before_another_has_the_lock() {
    let (servers, clients) = (conclave_server::ManualTime::new(), ManualTime::new());
    let world = World::by(servers.clone()).await;
    let proxy = Proxy::to(world.address()).await;
    let options = Options::new(proxy.address.to_string());
    let options = options.time(TimeSource::Manual(clients.clone()));
    let client = Client::connect(options).await.expect("it is up");
    let (one, two) = (open(&client, "one", LONG).await, world.session("two", LONG * 100).await);
    let operator = world.client().await;
    let certain = LONG - LONG / DRIFT;
    let guard = one.lock("disk").await.expect("free");
    let theirs = two.lock("theirs").await.expect("free");
    assert_eq!(one.remaining(), certain, "no time has passed");
    // It lives for longer than its time-to-live, because it is renewed.
    for _ in 0..3 {
        servers.advance(LONG / 2);
        clients.advance(LONG / 2);
        until("it is renewed", async || one.remaining() == certain).await;
    }
    assert!(guard.is_held());
    let waits = tokio::spawn({
        let one = one.clone();
        async move { one.lock("theirs").await }
    });
    let next = tokio::spawn({
        let two = two.clone();
        async move { two.lock("disk").await }
    });
    until_waiting(&operator, "theirs", 1).await;
    until_waiting(&operator, "disk", 1).await;
    proxy.set(Mood::Silent);
    // To the last moment of which it is certain, and no longer.
    clients.advance(certain - Duration::from_nanos(1));
    assert!(guard.is_held() && one.is_alive());
    clients.advance(Duration::from_nanos(1));
    assert!(!guard.is_held() && !one.is_alive());
    let error = waits.await.expect("no panic").expect_err("the session is over");
    assert!(matches!(error, Error::SessionLost(Loss::Expired)), "{error}");
    assert_eq!(guard.lost().await, Loss::Expired);
    // As much time has passed on the server, whose lease is not over yet; then it is.
    servers.advance(certain);
    two.lock("probe").await.expect("free").release().await.expect("it is held");
    until_waiting(&operator, "disk", 1).await;
    servers.advance(LONG / DRIFT);
    let next = next.await.expect("no panic").expect("the first expires");
    assert!(next.token() > guard.token());
    drop(theirs);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_comes_too_late_is_no_grant_and_is_given_back() {
    let world = World::new().await;
    let proxy = Proxy::to(world.address()).await;
    let operator = world.client().await;
    let clients = ManualTime::new();
    let options = Options::new(proxy.address.to_string());
    let options = options.time(TimeSource::Manual(clients.clone()));
    let client = Client::connect(options).await.expect("it is up");
    let (one, two) = (open(&client, "one", LONG).await, world.session("two", LONG).await);
    let held = two.lock("disk").await.expect("free");
    let waits = tokio::spawn({
        let one = one.clone();
        async move { one.lock("disk").await }
    });
    until_waiting(&operator, "disk", 1).await;
    // The server keeps the session and grants it the lock; the client hears nothing until its lease is over.
    proxy.set(Mood::Deaf);
    drop(held);
    until("it is granted", async || {
        let lock = operator.why("disk").await.expect("the server answers").lock;
        lock.is_some_and(|lock| {
            lock.holders
                .iter()
                .any(|held| held.who.as_ref().is_some_and(|who| who.session == one.id()))
        })
    })
    .await;
    clients.advance(LONG);
    let error = waits.await.expect("no panic").expect_err("it does not hear of it");
    assert!(matches!(error, Error::SessionLost(Loss::Expired)), "{error}");
    proxy.cut();
    two.lock("disk").await.expect("it is given back").release().await.expect("held");
    until("the session is closed", async || operator.sessions().await.expect("ok").len() == 1)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_knows_nothing_of_a_session_has_lost_it() {
    let mut world = World::new().await;
    let one = world.session("one", LONG).await;
    let guard = one.lock("disk").await.expect("free");
    world.stop().await;
    world.forget();
    world.start().await;
    assert_eq!(guard.lost().await, Loss::Gone);
    assert!(!one.is_alive());
}

/// A process that holds a lock, and says whether it does whenever it is asked.
struct Holder(Child);

impl Holder {
    fn start(address: &str) -> Self {
        let holder = Command::new(env!("CARGO_BIN_EXE_conclave-test-holder"))
            .args([address, "disk", &SHORT.as_secs().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        Self(holder.expect("it starts"))
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("it is there");
    }

    fn ask(&mut self) {
        let stdin = self.0.stdin.as_mut().expect("it listens");
        stdin.write_all(b"?\n").expect("it listens");
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_was_stopped_knows_that_it_holds_nothing_when_it_wakes() {
    let world = World::new().await;
    let mut holder = Holder::start(&world.address().to_string());
    let said = BufReader::new(holder.0.stdout.take().expect("it speaks"));
    let (lines, mut heard) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in said.lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                return;
            }
        }
    });
    let mut hear = async || in_time("a line of the holder", heard.recv()).await;
    assert_eq!(hear().await.as_deref(), Some("held"));
    let two = world.session("two", LONG).await;
    assert_eq!(hear().await.as_deref(), Some("renewed"));
    assert!(two.try_lock("disk").await.expect("no error").is_none(), "it is renewed");
    holder.ask();
    assert_eq!(hear().await.as_deref(), Some("true"));
    holder.signal(Signal::STOP);
    let mine = two.lock("disk").await.expect("the other expires");
    holder.ask();
    holder.signal(Signal::CONT);
    assert_eq!(hear().await.as_deref(), Some("false"));
    mine.release().await.expect("nothing interferes");
}
