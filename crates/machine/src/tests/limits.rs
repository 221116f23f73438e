//! Each limit, and that nothing is kept of what goes beyond it.

use std::time::Duration;

use super::world::{World, exclusive, waits};
use crate::*;

fn limited(change: impl FnOnce(&mut Limits)) -> World {
    let mut config = Config::default();
    change(&mut config.limits);
    World::with(config)
}

fn limit(what: Scarce, most: u64) -> Result<Reply, Error> {
    Err(Error::Limit { what, most })
}

#[test]
fn names_are_neither_empty_nor_too_long() {
    let mut world = World::new(Policy::default());
    let one = world.open();
    assert_eq!(world.acquire(one, exclusive("")), Err(Error::NoName));
    assert!(world.acquire(one, exclusive(&"x".repeat(2048))).is_ok());
    let long = world.acquire(one, exclusive(&"x".repeat(2049)));
    assert_eq!(long, limit(Scarce::NameBytes, 2048));
    assert_eq!(world.machine.counts().locks, 1);
}

#[test]
fn there_are_only_so_many_sessions() {
    let mut world = limited(|limits| limits.sessions = 2);
    let [one, _] = world.open_several();
    let ttl = Duration::from_secs(10);
    assert_eq!(world.try_open(ttl, 0), limit(Scarce::Sessions, 2));
    world.apply(Command::Close { session: one }).expect("it lives");
    assert!(world.try_open(ttl, 0).is_ok());
}

#[test]
fn a_time_to_live_is_within_bounds() {
    let mut world = World::new(Policy::default());
    let (least, most) = (Duration::from_millis(100), Duration::from_hours(24));
    let bad = Error::BadSpan { what: Span::TimeToLive, least, most };
    assert_eq!(world.try_open(Duration::from_millis(99), 0), Err(bad.clone()));
    assert_eq!(world.try_open(Duration::from_hours(25), 0), Err(bad));
}

#[test]
fn there_are_only_so_many_names_and_locks_of_a_session() {
    let mut world = limited(|limits| {
        limits.names = 3;
        limits.locks_per_session = 2;
    });
    let [one, two] = world.open_several();
    world.token(one, exclusive("a"));
    world.token(one, exclusive("b"));
    assert_eq!(world.acquire(one, exclusive("c")), limit(Scarce::LocksPerSession, 2));
    world.token(two, exclusive("c"));
    assert_eq!(world.acquire(two, exclusive("d")), limit(Scarce::Names, 3));
    assert_eq!(world.acquire(two, exclusive("a")), waits(), "no new name is needed");
}

#[test]
fn only_so_many_wait() {
    let mut world = limited(|limits| {
        limits.waiters_per_lock = 1;
        limits.waits_per_session = 1;
    });
    let [one, two, three] = world.open_several();
    world.token(one, exclusive("a"));
    world.token(one, exclusive("b"));
    assert_eq!(world.acquire(two, exclusive("a")), waits());
    assert_eq!(world.acquire(three, exclusive("a")), limit(Scarce::WaitersPerLock, 1));
    let other = exclusive("b").by(Owner(1));
    assert_eq!(world.acquire(two, other), limit(Scarce::WaitsPerSession, 1));
}

#[test]
fn a_request_names_so_many_locks_and_each_once() {
    let mut world = limited(|limits| limits.locks_per_request = 2);
    let one = world.open();
    let all = |locks: &[&str]| {
        let want = |lock: &&str| Want { lock: (*lock).into(), mode: Mode::Exclusive };
        Acquire::all(locks.iter().map(want))
    };
    assert_eq!(world.acquire(one, all(&[])), Err(Error::NoLocks));
    assert_eq!(world.acquire(one, all(&["a", "a"])), Err(Error::Twice("a".into())));
    let many = world.acquire(one, all(&["a", "b", "c"]));
    assert_eq!(many, limit(Scarce::LocksPerRequest, 2));
    let again = world.acquire(one, all(&["a", "b"]).again());
    assert_eq!(again, Err(Error::ReentrantOnlyAlone));
    assert_eq!(world.machine.counts().locks, 0);
}

#[test]
fn permits_make_sense() {
    let mut world = World::new(Policy::default());
    let one = world.open();
    let some =
        |take, of| Acquire::all([Want { lock: "p".into(), mode: Mode::Permits { take, of } }]);
    assert_eq!(world.acquire(one, some(0, 3)), Err(Error::BadPermits { take: 0, of: 3 }));
    assert_eq!(world.acquire(one, some(4, 3)), Err(Error::BadPermits { take: 4, of: 3 }));
    let many = world.acquire(one, some(1, 1_000_001));
    assert_eq!(many, limit(Scarce::Permits, 1_000_000));
}

#[test]
fn a_lock_is_held_only_so_often() {
    let mut world = limited(|limits| limits.depth = 2);
    let one = world.open();
    world.token(one, exclusive("a").again());
    world.token(one, exclusive("a").again());
    assert_eq!(world.acquire(one, exclusive("a").again()), limit(Scarce::Depth, 2));
}

#[test]
fn labels_and_values_are_not_too_long() {
    let mut world = limited(|limits| limits.label_bytes = 6);
    let one = world.open();
    let reason = Name::from("because");
    let expel = world.apply(Command::Expel { session: one, reason });
    assert_eq!(expel, limit(Scarce::LabelBytes, 6));
    let campaign = Campaign {
        election: "e".into(),
        rank: 0,
        preempt: false,
        grace: Duration::ZERO,
        value: vec![0; 16_385],
        patience: Patience::Forever,
        owner: None,
    };
    let reply = world.call(one, Call::Campaign(campaign));
    assert_eq!(reply, limit(Scarce::ValueBytes, 16_384));
}

#[test]
fn one_token_and_one_address_have_only_so_many_sessions() {
    let mut world = limited(|limits| {
        limits.sessions_per_token = 2;
        limits.sessions_per_address = 3;
    });
    let mut open = |opened_by: &str, address: &str, quota: Option<u32>| {
        let (opened_by, address) = (opened_by.into(), address.into());
        let ttl = Duration::from_secs(10);
        world.apply(Command::Open(Open { opened_by, address, quota, ttl, ..Open::default() }))
    };
    assert_eq!(open("ci", "a", Some(0)), limit(Scarce::SessionsPerToken, 0));
    assert!(open("ci", "a", None).is_ok() && open("ci", "b", Some(7)).is_ok());
    assert_eq!(open("ci", "a", None), limit(Scarce::SessionsPerToken, 2));
    assert!(open("prod", "a", None).is_ok() && open("", "a", None).is_ok());
    assert_eq!(open("", "a", None), limit(Scarce::SessionsPerAddress, 3));
    assert!(open("", "", None).is_ok());
    world.apply(Command::Close { session: SessionId(1) }).expect("it lives");
    let open = Open { opened_by: "ci".into(), ttl: Duration::from_secs(10), ..Open::default() };
    assert!(world.apply(Command::Open(open)).is_ok(), "there is room again");
}
