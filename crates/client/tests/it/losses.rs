//! When sessions and locks are lost, and who knows it first.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::proxy::{Mood, Proxy};
use crate::support::{LONG, World, open, until, until_waiting};
use conclave_client::{Client, Error, Loss, Options, SessionOptions, blocking};
use rustix::process::{Pid, Signal, kill_process};

const SHORT: Duration = Duration::from_secs(1);

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
    one.on_loss(|_| panic!("a callback that panics harms nobody"));
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
    operator.force_release("a", Some(a.token()), "somebody needs it").await.expect("it is held");
    assert_eq!(a.lost().await, Loss::Forced);
    assert!(!a.is_held() && b.is_held() && one.is_alive());
    assert!(matches!(a.release().await, Err(Error::Lost(Loss::Forced))));
    b.release().await.expect("it was held all the time");
    let error = operator.force_release("a", None, "again").await.expect_err("nobody has it");
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
    c.upgrade().await.expect("nobody shares it");
    proxy.set(Mood::Broken);
    operator.force_release("a", None, "somebody needs it").await.expect("it is held");
    proxy.set(Mood::Fine);
    assert_eq!(a.lost().await, Loss::Gone);
    // The others were asked for again, too, and are still there.
    b.release().await.expect("it was held all the time");
    assert!(c.is_held());
    c.release().await.expect("it was held all the time");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_cut_off_stops_before_another_has_the_lock() {
    let world = World::new().await;
    let proxy = Proxy::to(world.address()).await;
    let client = Client::connect(Options::new(proxy.address.to_string())).await.expect("it is up");
    let (one, two) = (open(&client, "one", SHORT).await, world.session("two", LONG).await);
    let guard = one.lock("disk").await.expect("free");
    let theirs = two.lock("theirs").await.expect("free");
    // It lives for longer than its time-to-live, because it is renewed.
    tokio::time::sleep(SHORT * 2).await;
    assert!(guard.is_held());
    let waits = tokio::spawn({
        let one = one.clone();
        async move { one.lock("theirs").await }
    });
    let next = tokio::spawn({
        let two = two.clone();
        async move { two.lock("disk").await }
    });
    proxy.set(Mood::Silent);
    let next = next.await.expect("no panic").expect("the first expires");
    assert!(!guard.is_held() && !one.is_alive());
    let error = waits.await.expect("no panic").expect_err("the session is over");
    assert!(matches!(error, Error::SessionLost(Loss::Expired)), "{error}");
    assert_eq!(guard.lost().await, Loss::Expired);
    assert!(next.token() > guard.token());
    drop(theirs);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_comes_too_late_is_no_grant_and_is_given_back() {
    let world = World::new().await;
    let proxy = Proxy::to(world.address()).await;
    let operator = world.client().await;
    let client = Client::connect(Options::new(proxy.address.to_string())).await.expect("it is up");
    let (one, two) = (open(&client, "one", SHORT).await, world.session("two", LONG).await);
    let held = two.lock("disk").await.expect("free");
    let waits = tokio::spawn({
        let one = one.clone();
        async move { one.lock("disk").await }
    });
    until_waiting(&operator, "disk", 1).await;
    // The server hears renewals and keeps the session; the client hears nothing and does not.
    proxy.set(Mood::Deaf);
    tokio::time::sleep(SHORT / 2).await;
    drop(held);
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
        let program = std::env::current_exe().expect("this one");
        let holder = Command::new(program)
            .args(["--exact", "losses::the_other_process", "--nocapture"])
            .env("CONCLAVE_TEST_SERVER", address)
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
        let lines_said = said.lines().map_while(Result::ok);
        // Before and after, the test harness has its say.
        for line in lines_said
            .filter_map(|line| line.split_once("holder: ").map(|(_, said)| said.to_owned()))
        {
            if lines.send(line).is_err() {
                return;
            }
        }
    });
    assert_eq!(heard.recv().await.as_deref(), Some("begin"));
    let two = world.session("two", LONG).await;
    tokio::time::sleep(SHORT * 2).await;
    assert!(two.try_lock("disk").await.expect("no error").is_none(), "it is renewed");
    holder.ask();
    assert_eq!(heard.recv().await.as_deref(), Some("true"));
    holder.signal(Signal::STOP);
    let mine = two.lock("disk").await.expect("the other expires");
    holder.ask();
    holder.signal(Signal::CONT);
    assert_eq!(heard.recv().await.as_deref(), Some("false"));
    mine.release().await.expect("nobody interferes");
}

/// Not a test, but the process that is stopped in one.
#[test]
fn the_other_process() {
    let Ok(server) = std::env::var("CONCLAVE_TEST_SERVER") else { return };
    let client = blocking::Client::connect(Options::new(server)).expect("it is up");
    let session = client.open(SessionOptions::ttl(SHORT)).expect("there is room");
    let guard = session.lock("disk").expect("free");
    println!("\nholder: begin");
    for _ in std::io::stdin().lines() {
        println!("\nholder: {}", guard.is_held());
    }
}
