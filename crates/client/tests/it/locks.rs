//! Locks, as a program has them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{LONG, World, open, until, until_waiting};
use conclave_client::{Acquire, Error, Loss, Want};

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_held_by_one_at_a_time_in_the_order_of_asking() {
    let world = World::new().await;
    let client = world.client().await;
    let first = world.session("first", LONG).await.lock("disk").await.expect("it is free");
    assert!(first.is_held() && first.locks() == ["disk"] && first.epoch() == first.token());
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for n in 0..5 {
        let session = world.session("next", LONG).await;
        let order = order.clone();
        tasks.push(tokio::spawn(async move {
            let guard = session.lock("disk").await.expect("its turn comes");
            order.lock().expect("no task panics").push((n, guard.token()));
            guard.release().await.expect("it holds it");
        }));
        until_waiting(&client, "disk", n + 1).await;
    }
    let token = first.token();
    drop(first);
    for task in tasks {
        task.await.expect("no task panics");
    }
    let order = order.lock().expect("no task panics");
    assert!(order.iter().map(|&(n, _)| n).eq(0..5), "{order:?}");
    let tokens: Vec<u64> = [token].into_iter().chain(order.iter().map(|&(_, t)| t)).collect();
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_had_at_once_or_in_time_is_said_to_be_so() {
    let world = World::new().await;
    let (one, two) = (world.session("one", LONG).await, world.session("two", LONG).await);
    let held = one.try_lock("disk").await.expect("no error").expect("it is free");
    assert!(two.try_lock("disk").await.expect("no error").is_none());
    let error = two.acquire(Acquire::exclusive("disk").at_once()).await.expect_err("it is held");
    assert_eq!(error.code(), "conflict");
    let error = two.lock_timeout("disk", Duration::from_millis(50)).await.expect_err("it is held");
    assert!(matches!(error, Error::TimedOut), "{error}");
    held.release().await.expect("it is held");
    assert!(two.try_lock("disk").await.expect("no error").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_share_and_permits_are_counted() {
    let world = World::new().await;
    let (one, two) = (world.session("one", LONG).await, world.session("two", LONG).await);
    let (a, b) = (one.read("book").await.expect("free"), two.read("book").await.expect("shared"));
    assert!(a.epoch() == b.epoch() && a.token() < b.token());
    assert!(two.thread().try_lock("book").await.expect("no error").is_none());
    let p = one.permits("slots", 2, 3).await.expect("free");
    assert!(two.try_acquire(Acquire::permits("slots", 2, 3)).await.expect("no error").is_none());
    let q = two.permits("slots", 1, 3).await.expect("there is one");
    drop((p, q));
    two.permits("slots", 3, 3).await.expect("all come back").release().await.expect("held");
    let error = two.permits("slots", 4, 3).await.expect_err("there are not so many");
    assert_eq!(error.code(), "bad-permits");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_lock_becomes_exclusive_and_back_with_new_tokens() {
    let world = World::new().await;
    let (one, two) = (world.session("one", LONG).await, world.session("two", LONG).await);
    let mut a = one.read("book").await.expect("free");
    let b = two.read("book").await.expect("shared");
    let error = a.upgrade_timeout(Duration::from_millis(20)).await.expect_err("it is shared");
    assert!(matches!(error, Error::TimedOut) && a.is_held(), "{error}");
    let before = a.token();
    drop(b);
    a.upgrade().await.expect("no other shares it");
    assert!(a.token() > before && a.is_held());
    assert!(two.try_acquire(Acquire::shared("book")).await.expect("no error").is_none());
    let before = a.token();
    a.downgrade().await.expect("it is held");
    assert!(a.token() > before);
    two.read("book").await.expect("it is shared again").release().await.expect("held");
    a.release().await.expect("with the token it has now");
    two.lock("book").await.expect("free").release().await.expect("held");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_is_given_up_releases_the_lock_and_blocks_no_other() {
    let world = World::new().await;
    let client = world.client().await;
    let (one, two) = (world.session("one", LONG).await, world.session("two", LONG).await);
    let mut a = one.read("book").await.expect("free");
    let b = two.read("book").await.expect("shared");
    let given_up = tokio::time::timeout(Duration::from_millis(50), a.upgrade()).await;
    assert!(given_up.is_err() && !a.is_held());
    assert_eq!(a.lost().await, Loss::Abandoned);
    until_waiting(&client, "book", 0).await;
    two.thread().read("book").await.expect("no upgrade is in the way").release().await.expect("ok");
    assert!(matches!(a.release().await, Err(Error::Lost(Loss::Abandoned))));
    b.release().await.expect("it is held");
    // An upgrade that is granted just as it is given up.
    for pause in 0..20 {
        let mut a = one.read("book").await.expect("free");
        let pause = Duration::from_micros(pause * 100);
        let done = tokio::time::timeout(pause, a.upgrade()).await.is_ok();
        assert!(a.is_held() || !done);
        drop(a);
        two.lock("book").await.expect("nothing is left").release().await.expect("held");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_locks_come_all_at_once_or_not_at_all() {
    let world = World::new().await;
    let (one, two) = (world.session("one", LONG).await, world.session("two", LONG).await);
    let wants = || [Want::exclusive("a"), Want::shared("b"), Want::permits("c", 1, 2)];
    let all = one.lock_all(wants()).await.expect("free");
    assert!(all.locks() == ["a", "b", "c"] && all.epochs().len() == 3);
    let reader = two.read("b").await.expect("shared");
    assert!(two.thread().try_acquire(Acquire::all(wants())).await.expect("no error").is_none());
    all.release().await.expect("held");
    two.thread().lock_all(wants()).await.expect("all of them").release().await.expect("held");
    drop(reader);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_taken_again_by_the_same_thread_of_control_if_it_asks_to() {
    let world = World::new().await;
    let (one, two) = (world.session("one", LONG).await, world.session("two", LONG).await);
    let outer = one.lock("disk").await.expect("free");
    assert_eq!(one.lock("disk").await.expect_err("it has it").code(), "already-held");
    let inner = one.acquire(Acquire::exclusive("disk").reentrant()).await.expect("once more");
    assert_eq!(inner.token(), outer.token());
    drop(outer);
    assert!(inner.is_held());
    assert!(two.try_lock("disk").await.expect("no error").is_none());
    inner.release().await.expect("held");
    assert!(two.try_lock("disk").await.expect("no error").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_handed_to_whom_its_holder_names() {
    let world = World::new().await;
    let client = world.client().await;
    let (one, two) = (world.session("one", LONG).await, world.session("two", LONG).await);
    let three = world.session("three", LONG).await;
    let mut held = one.lock("disk").await.expect("free");
    assert_eq!(
        held.hand_over(three.id()).await.expect_err("no session waits").code(),
        "not-waiting"
    );
    assert_eq!(held.hand_over(999_999).await.expect_err("no such").code(), "unknown-receiver");
    assert!(held.is_held() && one.is_alive());
    let second = tokio::spawn(async move { two.lock("disk").await });
    until_waiting(&client, "disk", 1).await;
    let to = three.id();
    let third = tokio::spawn(async move { three.lock("disk").await });
    until_waiting(&client, "disk", 2).await;
    held.hand_over(to).await.expect("it waits");
    assert!(!held.is_held());
    let third = third.await.expect("no panic").expect("it was handed over");
    drop(third);
    drop(second.await.expect("no panic").expect("then it is its turn"));
    drop(held);
    assert!(one.is_alive());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_to_wait_is_told_so_if_it_wants_to_know() {
    let world = World::new().await;
    let (one, two) = (world.session("one", LONG).await, world.session("two", LONG).await);
    let told = Arc::new(Mutex::new(0));
    let tell = || {
        let told = told.clone();
        move || *told.lock().expect("no panic") += 1
    };
    let held = one.acquire(Acquire::exclusive("disk").on_waiting(tell())).await.expect("free");
    assert_eq!(*told.lock().expect("no panic"), 0);
    let wants = Acquire::exclusive("disk").on_waiting(tell());
    let waits = tokio::spawn(async move { two.acquire(wants).await });
    until("it is told", async || *told.lock().expect("no panic") == 1).await;
    drop(held);
    waits.await.expect("no panic").expect("its turn comes").release().await.expect("held");
    assert_eq!(*told.lock().expect("no panic"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_locks_at_once_in_any_order_never_deadlock() {
    const CLIENTS: usize = 12;
    let world = World::new().await;
    let names = ["a", "b", "c", "d"];
    let inside = Arc::new(Mutex::new(std::collections::BTreeSet::new()));
    let mut tasks = Vec::new();
    for client in 0..CLIENTS {
        let (session, inside) = (world.session("one of many", LONG).await, inside.clone());
        tasks.push(tokio::spawn(async move {
            for turn in 0..25 {
                // Two to four of them, from another one on each time, in one direction or the other.
                let count = 2 + (client + turn) % 3;
                let name = |step: usize| match client % 2 {
                    0 => names[(client + turn + step) % 4],
                    _ => names[(client + turn + 4 - step) % 4],
                };
                let wanted: Vec<&str> = (0..count).map(name).collect();
                let wants = wanted.iter().map(|&lock| Want::exclusive(lock));
                let guard = session.lock_all(wants).await.expect("no deadlock, and its turn comes");
                {
                    let mut inside = inside.lock().expect("no task panics");
                    assert!(wanted.iter().all(|&lock| inside.insert(lock)), "it is alone");
                }
                tokio::task::yield_now().await;
                inside.lock().expect("no task panics").retain(|lock| !wanted.contains(lock));
                guard.release().await.expect("it was held until now");
            }
        }));
    }
    for task in tasks {
        conclave_testing::in_time("the end of a client", task).await.expect("no task panics");
    }
    let counts = world.client().await.status().await.expect("it answers");
    assert_eq!((counts.holds, counts.waits), (0, 0), "nothing is left behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadlock_is_an_error_that_names_all_who_are_in_it() {
    let world = World::new().await;
    let client = world.client().await;
    let (one, two) = (world.session("ann", LONG).await, world.session("bob", LONG).await);
    let (a, b) = (one.lock("a").await.expect("free"), two.lock("b").await.expect("free"));
    let ids = [one.id(), two.id()];
    let waits = tokio::spawn(async move { one.lock("b").await });
    until_waiting(&client, "b", 1).await;
    let error = two.lock("a").await.expect_err("it is the youngest in the cycle");
    let Error::Deadlock { cycle, .. } = &error else { panic!("{error}") };
    let named = |link: &conclave_client::view::Link| {
        let who = link.waiter.clone().expect("a waiter");
        (who.session, who.name, link.lock.clone())
    };
    let mut named: Vec<_> = cycle.iter().map(named).collect();
    named.sort();
    let expected =
        [(ids[0], "ann".to_owned(), "b".to_owned()), (ids[1], "bob".to_owned(), "a".to_owned())];
    assert_eq!(named, expected);
    assert!(error.to_string().contains("deadlock"), "{error}");
    drop(b);
    drop(waits.await.expect("no panic").expect("the other gave way"));
    drop(a);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_in_the_way_of_an_older_one_is_told_where_that_is_the_rule() {
    let world = World::with(conclave_machine::Policy::WoundWait).await;
    let (old, young) = (world.session("old", LONG).await, world.session("young", LONG).await);
    let held = young.lock("disk").await.expect("free");
    let other = young.thread();
    let waits = tokio::spawn({
        let old = old.clone();
        async move { old.lock("disk").await }
    });
    assert_eq!(young.wounded().await, old.id());
    let theirs = other.lock("else").await.expect("another thread of control is not concerned");
    let error = young.lock("else").await.expect_err("it may not wait now");
    assert_eq!(error.code(), "wounded");
    drop(held);
    waits.await.expect("no panic").expect("it was let by").release().await.expect("held");
    drop(theirs);
    young.lock("else").await.expect("it may again").release().await.expect("held");
}

#[tokio::test(flavor = "multi_thread")]
async fn clones_are_threads_of_control_of_their_own() {
    let world = World::new().await;
    let client = world.client().await;
    let one = world.session("one", LONG).await;
    let two = one.clone();
    assert!(one.id() == two.id() && one.owner() != two.owner());
    let a = one.lock("a").await.expect("free");
    let b = two.lock("b").await.expect("free");
    // Of the same session, and yet each waits for the other: that is a deadlock.
    let waits = tokio::spawn(async move { (one.lock("b").await, one) });
    until_waiting(&client, "b", 1).await;
    let error = two.lock("a").await.expect_err("each waits for the other");
    assert_eq!(error.code(), "deadlock");
    drop(b);
    let (b, one) = waits.await.expect("no panic");
    drop((a, b.expect("the other gave way")));
    // One handle may wait for two things at once all the same.
    let held = two.lock("held").await.expect("free");
    let other = two.lock("other").await.expect("free");
    let both = async { tokio::join!(one.lock("held"), one.lock("other")) };
    let release = async {
        until_waiting(&client, "held", 1).await;
        until_waiting(&client, "other", 1).await;
        drop((held, other));
    };
    let ((x, y), ()) = tokio::join!(both, release);
    drop((x.expect("no spurious error"), y.expect("no spurious error")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_future_that_is_dropped_leaves_nothing_behind() {
    let world = World::new().await;
    let client = world.client().await;
    let (one, two) = (world.session("one", LONG).await, world.session("two", LONG).await);
    // It waits.
    let held = one.lock("disk").await.expect("free");
    let waits = tokio::time::timeout(Duration::from_millis(100), two.lock("disk")).await;
    assert!(waits.is_err());
    until_waiting(&client, "disk", 0).await;
    drop(held);
    // It was granted before the caller looked.
    for pause in 0..40 {
        let pause = Duration::from_micros(pause * 50);
        drop(tokio::time::timeout(pause, two.lock("disk")).await);
        let held = one.lock_timeout("disk", LONG).await.expect("nothing is left");
        held.release().await.expect("held");
    }
    // The handle is as good as new.
    two.lock("disk").await.expect("free").release().await.expect("held");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_futures_that_are_dropped_at_once_leave_nothing_behind() {
    let world = World::new().await;
    let client = world.client().await;
    let (one, two) = (world.session("one", LONG).await, world.session("two", LONG).await);
    let held = one.lock("disk").await.expect("free");
    let waits = || {
        let two = two.clone();
        Box::pin(async move { two.lock("disk").await })
    };
    let mut all: Vec<_> = (0..1000).map(|_| waits()).collect();
    for wait in &mut all {
        assert!(futures_util::poll!(wait).is_pending());
    }
    until_waiting(&client, "disk", 1000).await;
    drop(held);
    drop(all);
    let held = one.lock("disk").await.expect("nothing is left");
    until_waiting(&client, "disk", 0).await;
    let session = client.sessions().await.expect("it answers").into_iter();
    let holds: Vec<_> =
        session.filter(|one| one.session == two.id()).flat_map(|s| s.holds).collect();
    assert!(holds.is_empty(), "{holds:?}");
    held.release().await.expect("held");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_closed_with_its_last_handle_or_guard() {
    let world = World::new().await;
    let client = world.client().await;
    let sessions = async || client.sessions().await.expect("it answers").len();
    let session = open(&client, "one", LONG).await;
    let guard = session.lock("disk").await.expect("free");
    drop(session.clone());
    drop(session);
    assert_eq!(sessions().await, 1);
    assert!(guard.is_held());
    drop(guard);
    until("it is closed", async || sessions().await == 0).await;
    let session = open(&client, "two", LONG).await;
    let guard = session.lock("disk").await.expect("free");
    let lost = (session.lost(), guard.lost());
    session.close().await.expect("it was open");
    assert_eq!(sessions().await, 0);
    assert!(!guard.is_held());
    assert_eq!((lost.0.await, lost.1.await), (Loss::Closed, Loss::Closed));
    assert!(matches!(guard.release().await, Err(Error::SessionLost(Loss::Closed))));
    // A client that is dropped with everything says goodbye.
    let other = world.client().await;
    let session = open(&other, "three", LONG).await;
    drop((session.lock("disk").await.expect("free"), session, other));
    until("it is closed", async || sessions().await == 0).await;
}
