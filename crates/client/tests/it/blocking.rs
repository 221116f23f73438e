//! The same without async functions.

use std::time::Duration;

use crate::support::World;
use conclave_client::blocking::Client;
use conclave_client::{Acquire, Candidacy, Loss, SessionOptions, Want};
use conclave_testing::until;

#[test]
fn a_program_without_async_functions_does_all_of_it() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let world = runtime.block_on(World::new());
    let connect = || Client::connect(world.options()).expect("it is up");
    let client = connect();
    let session = client.open(SessionOptions::ttl(Duration::from_secs(10))).expect("there is room");
    let guard = session.lock("disk").expect("free");
    let waits = std::thread::spawn({
        let other = connect().open(SessionOptions::default()).expect("there is room");
        move || {
            assert!(other.try_lock("disk").expect("no error").is_none());
            let guard = other.lock("disk").expect("its turn comes");
            (guard.token(), guard.release())
        }
    });
    until("the other waits", || {
        client.why("disk").expect("it answers").lock.is_some_and(|lock| lock.waiting > 0)
    });
    // A thread that is busy does not keep its session from being renewed.
    let mut left = session.remaining();
    loop {
        let now = session.remaining();
        if now > left {
            break;
        }
        assert!(!now.is_zero(), "it is renewed before its lease ends");
        left = now;
        std::hint::spin_loop();
    }
    assert!(guard.is_held());
    let token = guard.token();
    guard.release().expect("held");
    let (next, released) = waits.join().expect("no panic");
    assert!(next > token && released.is_ok());

    let mut reader = session.read("book").expect("free");
    reader.upgrade().expect("no other shares it");
    reader.downgrade().expect("held");
    drop(reader);
    let all = session.lock_all([Want::exclusive("a"), Want::permits("b", 1, 2)]).expect("free");
    assert_eq!(all.locks(), ["a", "b"]);
    assert!(session.thread().try_acquire(Acquire::exclusive("a")).expect("no error").is_none());
    drop(all);

    let mut seen = client.observe("web");
    assert!(seen.next().expect("it goes on").expect("it may be seen").leader.is_none());
    let leader = session.campaign(Candidacy::new("web")).expect("there is no leader");
    let shown = seen.next().expect("it goes on").expect("it may be seen").leader;
    assert_eq!(shown.expect("there is a leader").term, leader.term());
    leader.proclaim("hello").expect("it leads");
    leader.resign().expect("it leads");

    let guard = session.lock("disk").expect("free");
    client.force_release("disk", None, "it is needed").expect("it is held");
    assert_eq!(guard.lost(), Loss::Forced);
    client.expel(session.id(), "enough").expect("it is there");
    assert_eq!(session.lost(), Loss::Expelled);
    assert_eq!(client.status().expect("it answers").holds, 0);
}

#[test]
fn a_client_that_is_dropped_has_closed_its_sessions() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let world = runtime.block_on(World::new());
    let client = Client::connect(world.options()).expect("it is up");
    let session = client.open(SessionOptions::default()).expect("there is room");
    let guard = session.lock("disk").expect("free");
    drop((client, session, guard));
    let client = Client::connect(world.options()).expect("it is up");
    assert!(client.sessions().expect("it answers").is_empty());
    assert!(client.locks("").expect("it answers").is_empty());
}
