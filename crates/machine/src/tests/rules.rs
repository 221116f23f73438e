//! One rule at a time, told as a story.

use std::time::Duration;

use super::world::{World, exclusive, granted, shared, waits};
use crate::*;

#[test]
fn a_session_lives_as_long_as_it_is_kept_alive() {
    let mut world = World::new(Policy::default());
    let one = world.open();
    world.pass(9_999);
    assert_eq!(world.keep_alive(one), []);
    world.pass(9_999);
    assert_eq!(world.keep_alive(one), []);
    world.pass(10_000);
    assert_eq!(world.keep_alive(one), [one]);
    assert_eq!(world.acquire(one, exclusive("a")), Err(Error::UnknownSession(one)));
}

#[test]
fn the_clock_never_goes_back() {
    let mut world = World::new(Policy::default());
    world.pass(5_000);
    let one = world.open();
    let earlier = Time::from_millis(10);
    let mut events = Vec::new();
    let sessions = vec![one];
    let reply = world.machine.apply(earlier, Command::KeepAlive { sessions }, &mut events);
    assert_eq!(reply, Ok(Reply::Alive { gone: vec![], deposed: vec![] }));
    assert_eq!(world.machine.now(), Time::from_millis(5_000));
}

#[test]
fn a_command_under_a_retired_tag_is_refused_and_not_taken_for_a_newer_versions() {
    for tag in [2_u8, 3] {
        // A record of one field under this tag, with nothing in it.
        let bytes = [2, tag << 3 | 2, 0];
        let refused = conclave_record::decode::<Command>(&bytes).expect_err("it is reserved");
        let said = refused.to_string();
        assert!(said.contains(&format!("Command of kind {tag}, which is reserved")), "{said}");
    }
    assert_eq!(conclave_record::decode::<Command>(&[2, 1 << 3 | 2, 0]), Ok(Command::Tick));
    let newer = conclave_record::decode::<Command>(&[2, 15 << 3 | 2, 0]).expect_err("no such tag");
    assert!(newer.to_string().contains("a newer version"), "{newer}");
}

#[test]
fn locks_of_a_session_that_expires_go_on_to_who_waits() {
    let mut world = World::new(Policy::default());
    let [one, two] = world.open_several();
    let first = world.token(one, exclusive("a"));
    assert_eq!(world.acquire(two, exclusive("a")), waits());
    world.pass(5_000);
    world.keep_alive(two);
    world.pass(5_000);
    assert_eq!(world.holders("a"), [two]);
    assert!(world.machine.lock("a").is_some_and(|lock| lock.holders[0].token > first));
    let lost = Event::Released {
        lock: "a".into(),
        agent: Agent { session: one, owner: Owner(0) },
        token: first,
        cause: Cause::Expired,
    };
    assert!(world.events.contains(&lost), "the holder is told");
}

#[test]
fn of_sessions_that_expire_together_none_is_granted_what_another_held() {
    let mut world = World::new(Policy::default());
    let [one, two, three] = world.open_several();
    world.token(one, exclusive("a"));
    assert_eq!(world.acquire(two, exclusive("a")), waits());
    assert_eq!(world.acquire(three, exclusive("a")), waits());
    world.pass(5_000);
    world.keep_alive(three);
    world.events.clear();
    world.pass(5_000);
    assert_eq!(world.holders("a"), [three]);
    let grants = world.events.iter().filter(|event| matches!(event, Event::Granted { .. }));
    assert_eq!(grants.count(), 1);
}

#[test]
fn a_reader_behind_a_writer_that_waits_does_not_pass_it() {
    let mut world = World::new(Policy::default());
    let [one, two, three, four] = world.open_several();
    let read = world.token(one, shared("a"));
    assert_eq!(world.acquire(two, exclusive("a")), waits());
    assert_eq!(world.acquire(three, shared("a")), waits());
    assert_eq!(world.acquire(four, shared("a")), waits());
    world.release(one, "a", read);
    assert_eq!(world.holders("a"), [two]);
    let write = world.machine.lock("a").expect("it is held").holders[0].token;
    world.release(two, "a", write);
    assert_eq!(world.holders("a"), [three, four]);
}

#[test]
fn permits_are_had_in_the_order_of_asking_even_if_fewer_would_do() {
    let mut world = World::new(Policy::default());
    let [one, two, three] = world.open_several();
    let some =
        |take| Acquire::all([Want { lock: "p".into(), mode: Mode::Permits { take, of: 3 } }]);
    let first = world.token(one, some(2));
    assert_eq!(world.acquire(two, some(2)), waits());
    assert_eq!(world.acquire(three, some(1)), waits(), "one is left, and a waiter wants two");
    world.release(one, "p", first);
    assert_eq!(world.holders("p"), [two, three]);
    let other = Acquire::permit("p", 5);
    assert_eq!(world.acquire(one, other), Err(Error::OtherKind("p".into())));
    assert_eq!(world.acquire(one, exclusive("p")), Err(Error::OtherKind("p".into())));
}

#[test]
fn who_only_tries_and_who_is_out_of_patience_get_nothing() {
    let mut world = World::new(Policy::default());
    let [one, two, three] = world.open_several();
    let token = world.token(one, exclusive("a"));
    let tries = exclusive("a").with(Patience::Try);
    assert_eq!(world.acquire(two, tries), Err(Error::Conflict("a".into())));
    let limited = exclusive("a").with(Patience::For(Duration::from_millis(500)));
    assert_eq!(world.acquire(two, limited), waits());
    assert_eq!(world.acquire(three, exclusive("a")), waits());
    world.pass(499);
    assert_eq!(world.waiters("a"), [two, three]);
    world.pass(1);
    assert_eq!(world.waiters("a"), [three]);
    assert!(world.was_told(two, &Error::TimedOut));
    world.release(one, "a", token);
    assert_eq!(world.holders("a"), [three]);
}

#[test]
fn who_cancels_in_the_middle_of_a_queue_wakes_those_behind() {
    let mut world = World::new(Policy::default());
    let [one, two, three] = world.open_several();
    world.token(one, shared("a"));
    assert_eq!(world.acquire(two, exclusive("a")), waits());
    let request = world.last_request();
    assert_eq!(world.acquire(three, shared("a")), waits());
    assert_eq!(world.call(two, Call::Cancel { request }), Ok(Reply::Done));
    assert_eq!(world.holders("a"), [one, three]);
    assert!(world.was_told(two, &Error::Cancelled));
}

#[test]
fn a_cancellation_that_comes_too_late_gives_back_what_was_granted() {
    let mut world = World::new(Policy::default());
    let [one, two] = world.open_several();
    world.token(one, exclusive("a"));
    let request = world.last_request();
    assert_eq!(world.acquire(two, exclusive("a")), waits());
    assert_eq!(world.call(one, Call::Cancel { request }), Ok(Reply::Done));
    assert_eq!(world.holders("a"), [two]);
    let again = world.repeat(one, request, Call::Acquire(exclusive("a")));
    assert_eq!(again, Err(Error::Cancelled));
}

#[test]
fn a_cancellation_that_overtakes_its_request_keeps_it_from_being_carried_out() {
    let mut world = World::new(Policy::default());
    let one = world.open();
    let late = RequestId(world.last_request().0 + 100);
    assert_eq!(world.call(one, Call::Cancel { request: late }), Ok(Reply::Done));
    let reply = world.repeat(one, late, Call::Acquire(exclusive("a")));
    assert_eq!(reply, Err(Error::Cancelled));
    assert_eq!(world.machine.lock("a"), None);
}

#[test]
fn several_locks_are_had_all_at_once_or_not_at_all() {
    let mut world = World::new(Policy::default());
    let [one, two, three] = world.open_several();
    let held = world.token(one, exclusive("b"));
    let both = |first: &str, second: &str| {
        let want = |lock: &str| Want { lock: lock.into(), mode: Mode::Exclusive };
        Acquire::all([want(first), want(second)])
    };
    assert_eq!(world.acquire(two, both("a", "b")), waits());
    assert_eq!(world.acquire(three, both("b", "a")), waits());
    assert_eq!(world.holders("a"), [], "nothing is held while something is missing");
    world.release(one, "b", held);
    assert_eq!((world.holders("a"), world.holders("b")), (vec![two], vec![two]));
    let token = world.machine.lock("a").expect("it is held").holders[0].token;
    assert_eq!(world.call(two, Call::ReleaseAll { token }), Ok(Reply::Released { left: 0 }));
    assert_eq!((world.holders("a"), world.holders("b")), (vec![three], vec![three]));
}

#[test]
fn a_lock_is_taken_again_only_if_asked_for_and_released_as_often() {
    let mut world = World::new(Policy::default());
    let one = world.open();
    let token = world.token(one, exclusive("a"));
    assert_eq!(world.acquire(one, exclusive("a")), Err(Error::AlreadyHeld("a".into())));
    let again = world.acquire(one, exclusive("a").again());
    assert_eq!(again, Ok(Reply::Granted { token, epochs: [token].into(), depth: 2 }));
    assert!(world.acquire(one, shared("a").again()).is_ok(), "to read what one writes");
    let release = Call::Release { lock: "a".into(), token, to: None };
    for left in [2, 1, 0] {
        assert_eq!(world.call(one, release.clone()), Ok(Reply::Released { left }));
    }
    assert_eq!(world.call(one, release), Err(Error::NotHeld("a".into())));
    world.token(one, shared("a"));
    let more = world.acquire(one, exclusive("a").again());
    assert_eq!(more, Err(Error::NeedsUpgrade("a".into())));
}

#[test]
fn another_thread_of_the_same_session_waits_like_anybody() {
    let mut world = World::new(Policy::default());
    let one = world.open();
    let token = world.token(one, exclusive("a"));
    assert_eq!(world.acquire(one, exclusive("a").by(Owner(1))), waits());
    assert_eq!(world.acquire(one, exclusive("b").by(Owner(1))), Err(Error::Busy));
    world.release(one, "a", token);
    let owners = world.machine.lock("a").expect("it is held").holders;
    assert_eq!(owners[0].who.agent, Agent { session: one, owner: Owner(1) });
}

#[test]
fn an_upgrade_waits_for_the_other_readers_and_comes_before_writers() {
    let mut world = World::new(Policy::default());
    let [one, two, three] = world.open_several();
    let mine = world.token(one, shared("a"));
    let theirs = world.token(two, shared("a"));
    assert_eq!(world.acquire(three, exclusive("a")), waits());
    let upgrade = |token| Call::Upgrade { lock: "a".into(), token, patience: Patience::Forever };
    assert_eq!(world.call(one, upgrade(mine)), waits());
    world.release(two, "a", theirs);
    let lock = world.machine.lock("a").expect("it is held");
    assert_eq!((lock.holders[0].mode, world.holders("a")), (Mode::Exclusive, vec![one]));
    let token = lock.holders[0].token;
    assert!(token > theirs && lock.epoch == token, "it is a new grant");
    assert_eq!(world.call(one, upgrade(token)), Err(Error::NotShared("a".into())));
    let downgrade = Call::Downgrade { lock: "a".into(), token };
    assert!(granted(&world.call(one, downgrade)) > token);
    assert_eq!(world.waiters("a"), [three]);
}

#[test]
fn a_lock_is_handed_to_a_waiter_by_name() {
    let mut world = World::new(Policy::default());
    let [one, two, three, four] = world.open_several();
    let token = world.token(one, exclusive("a"));
    assert_eq!(world.acquire(two, exclusive("a")), waits());
    assert_eq!(world.acquire(three, exclusive("a")), waits());
    let hand = |to| Call::Release { lock: "a".into(), token, to: Some(to) };
    assert_eq!(world.call(one, hand(four)), Err(Error::NotWaiting(four)));
    assert_eq!(world.call(one, hand(SessionId(99))), Err(Error::UnknownReceiver(SessionId(99))));
    assert_eq!(world.call(one, hand(three)), Ok(Reply::Released { left: 0 }));
    assert_eq!((world.holders("a"), world.waiters("a")), (vec![three], vec![two]));
}

#[test]
fn a_lock_is_not_handed_to_who_would_have_to_wait() {
    let mut world = World::new(Policy::default());
    let [one, two, three] = world.open_several();
    let token = world.token(one, shared("a"));
    world.token(two, shared("a"));
    assert_eq!(world.acquire(three, exclusive("a")), waits());
    let hand = Call::Release { lock: "a".into(), token, to: Some(three) };
    assert_eq!(world.call(one, hand), Err(Error::CannotTake(three)));
    assert_eq!(world.holders("a"), [one, two], "nothing has changed");
}

#[test]
fn tokens_rise_even_after_the_lock_was_forgotten() {
    let mut world = World::new(Policy::default());
    let one = world.open();
    let first = world.token(one, exclusive("a"));
    world.release(one, "a", first);
    assert_eq!(world.machine.counts().locks, 0);
    assert!(world.token(one, exclusive("a")) > first);
}

#[test]
fn readers_together_share_an_epoch_and_the_next_period_has_a_later_one() {
    let mut world = World::new(Policy::default());
    let [one, two, three] = world.open_several();
    let first = world.token(one, shared("a"));
    let second = world.token(two, shared("a"));
    assert_eq!(world.machine.lock("a").map(|lock| lock.epoch), Some(first));
    world.release(one, "a", first);
    let third = world.token(three, shared("a"));
    assert_eq!(world.machine.lock("a").map(|lock| lock.epoch), Some(first));
    world.release(two, "a", second);
    world.release(three, "a", third);
    let fourth = world.token(one, shared("a"));
    assert_eq!(world.machine.lock("a").map(|lock| lock.epoch), Some(fourth));
}

#[test]
fn only_who_holds_a_lock_releases_it_and_only_with_its_token() {
    let mut world = World::new(Policy::default());
    let [one, two] = world.open_several();
    let token = world.token(one, exclusive("a"));
    let release = |token| Call::Release { lock: "a".into(), token, to: None };
    assert_eq!(world.call(two, release(token)), Err(Error::NotHeld("a".into())));
    let stale = Token(token.0 + 7);
    let error = Error::StaleToken { lock: "a".into(), token: stale };
    assert_eq!(world.call(one, release(stale)), Err(error));
    assert_eq!(world.holders("a"), [one]);
}

#[test]
fn what_is_taken_by_force_is_told_and_remembered_with_the_reason() {
    let mut world = World::new(Policy::default());
    let [one, two] = world.open_several();
    let token = world.token(one, exclusive("a"));
    assert_eq!(world.acquire(two, exclusive("a")), waits());
    let force = |lock: &str| Command::ForceRelease {
        lock: lock.into(),
        token: None,
        reason: "the host burnt down".into(),
    };
    assert_eq!(world.apply(force("b")), Err(Error::Free("b".into())));
    assert_eq!(world.apply(force("a")), Ok(Reply::Done));
    assert_eq!(world.holders("a"), [two]);
    let why = world.machine.why("a").expect("it is held");
    assert_eq!((&*why.forced[0].reason, why.forced[0].token), ("the host burnt down", token));
    let agent = Agent { session: one, owner: Owner(0) };
    let lost = Event::Released { lock: "a".into(), agent, token, cause: Cause::Forced };
    assert!(world.events.contains(&lost));
}

#[test]
fn a_request_that_is_made_again_is_answered_again_and_not_carried_out_twice() {
    let mut world = World::new(Policy::default());
    let [one, two] = world.open_several();
    let token = world.token(one, exclusive("a"));
    let request = world.last_request();
    let again = world.repeat(one, request, Call::Acquire(exclusive("a")));
    assert_eq!(again, Ok(Reply::Granted { token, epochs: [token].into(), depth: 1 }));

    assert_eq!(world.acquire(two, exclusive("a")), waits());
    let request = world.last_request();
    let waiting = world.repeat(two, request, Call::Acquire(exclusive("a")));
    assert_eq!(waiting, waits());
    assert_eq!(world.waiters("a"), [two], "it waits once");

    let release = Call::Release { lock: "a".into(), token, to: None };
    assert_eq!(world.call(one, release.clone()), Ok(Reply::Released { left: 0 }));
    let request = world.last_request();
    assert_eq!(world.repeat(one, request, release), Ok(Reply::Released { left: 0 }));
    assert_eq!(world.holders("a"), [two]);
}

#[test]
fn who_asks_again_for_what_it_has_lost_is_told_so() {
    let mut world = World::new(Policy::default());
    let one = world.open();
    let token = world.token(one, exclusive("a"));
    let request = world.last_request();
    world.release(one, "a", token);
    let again = world.repeat(one, request, Call::Acquire(exclusive("a")));
    assert_eq!(again, Err(Error::Lost));
    for _ in 0..world.machine.config().limits.replies {
        let tries = Acquire::exclusive("b").again();
        assert!(world.acquire(one, tries).is_ok());
    }
    let again = world.repeat(one, request, Call::Acquire(exclusive("a")));
    assert_eq!(again, Err(Error::Forgotten(request)));
}

#[test]
fn what_there_is_of_a_lock_can_be_seen() {
    let mut world = World::new(Policy::default());
    let [one, two] = world.open_several();
    world.token(one, exclusive("jobs/a"));
    world.token(one, exclusive("jobs/b"));
    world.token(two, exclusive("other"));
    world.pass(1_500);
    assert_eq!(world.acquire(two, shared("jobs/a")), waits());
    let names = |after| {
        let locks = world.machine.locks("jobs/", after);
        locks.map(|lock| lock.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(None), ["jobs/a", "jobs/b"]);
    assert_eq!(names(Some("jobs/a")), ["jobs/b"]);
    let why = world.machine.why("jobs/a").expect("it is held");
    let lock = why.lock.as_ref().expect("it is held");
    let [holder, waiter] = [&lock.holders[0].who, &lock.waiters[0].who];
    assert_eq!((&*holder.name, &*holder.host, &*waiter.name), ("one", "here", "two"));
    assert_eq!(lock.waiters[0].since, Time::from_millis(1_500));
    let agent = |session| Agent { session, owner: Owner(0) };
    let (waiter, on) = (agent(two), agent(one));
    let edge = Edge { waiter, lock: "jobs/a".into(), election: false, on, holds: true };
    assert_eq!((&why.waits, &why.cycle), (&vec![edge.clone()], &None));
    assert_eq!(world.machine.graph(), [edge]);
    assert_eq!(world.machine.sessions(Some(one)).count(), 1);
    let view = world.machine.session(two).expect("it lives");
    assert_eq!((view.holds.len(), view.waits), (1, vec!["jobs/a".into()]));
}

#[test]
fn what_is_held_because_of_a_request_is_known_even_if_its_answer_made_room_for_others() {
    let mut world = World::new(Policy::default());
    let [one, two] = world.open_several();
    let token = world.token(one, exclusive("a"));
    assert_eq!(world.acquire(two, exclusive("a")), waits());
    let waited = world.last_request();
    world.release(one, "a", token);
    for _ in 0..2 * world.machine.config().limits.replies {
        let tries = exclusive("a").by(Owner(1)).with(Patience::Try);
        assert_eq!(world.acquire(two, tries), Err(Error::Conflict("a".into())));
    }
    let again = world.repeat(two, waited, Call::Acquire(exclusive("a")));
    assert!(granted(&again) > token);
    assert_eq!(world.call(two, Call::Cancel { request: waited }), Ok(Reply::Done));
    assert_eq!(world.machine.lock("a"), None, "no ghost is left behind");
    let again = world.repeat(two, waited, Call::Acquire(exclusive("a")));
    assert_eq!(again, Err(Error::Forgotten(waited)));
}

/// A call that node 1 takes.
const CALL: CallId = CallId { node: NodeId(1), call: 1 };
/// Another.
const LATER: CallId = CallId { node: NodeId(1), call: 2 };

/// A request over a call of its own.
fn by_call(session: SessionId, number: u64, call: Call) -> Command {
    let (request, received) = (RequestId(number), RequestId(0));
    Command::Request { session, request, received, via: Via::Call(CALL), call }
}

#[test]
fn a_session_may_mix_requests_with_a_number_and_without() {
    let mut world = World::new(Policy::default());
    let one = world.open();
    for number in 1..200 {
        let lock: Name = format!("lock {number}").into();
        let acquire = || Call::Acquire(exclusive(&lock));
        let first = world.apply(by_call(one, number, acquire()));
        let token = granted(&first);
        assert_eq!(world.apply(by_call(one, number, acquire())), first, "made again");
        let release = Call::Release { lock: lock.clone(), token, to: None };
        assert_eq!(world.apply(by_call(one, 0, release)), Ok(Reply::Released { left: 0 }));
    }
}

#[test]
fn a_hang_up_ends_a_wait_and_never_the_grant_of_a_numbered_request() {
    let mut world = World::new(Policy::default());
    let [one, two] = world.open_several();
    let token = world.token(one, exclusive("a"));
    let acquire = || Call::Acquire(exclusive("a"));
    let hang_up = |session, request| Command::HangUp { session, request, call: CALL };
    assert_eq!(world.apply(by_call(two, 1, acquire())), waits());
    world.apply(hang_up(two, RequestId(1))).expect("it lives");
    assert_eq!(world.waiters("a"), [], "it waits no more");
    assert_eq!(world.apply(by_call(two, 1, acquire())), waits(), "made again, it begins anew");
    world.release(one, "a", token);
    world.apply(hang_up(two, RequestId(1))).expect("it lives");
    assert_eq!(world.holders("a"), [two], "a repetition is told");
    let again = world.apply(by_call(two, 1, acquire()));
    world.release(two, "a", granted(&again));
    // A request without a number cannot be repeated.
    let number = world.machine.next_allotted(two).expect("it lives");
    granted(&world.apply(by_call(two, 0, acquire())));
    world.apply(hang_up(two, number)).expect("it lives");
    assert_eq!(world.holders("a"), []);
}

#[test]
fn a_wait_that_another_connection_has_taken_over_is_not_ended_by_the_first() {
    let mut world = World::new(Policy::default());
    let [one, two] = world.open_several();
    world.token(one, exclusive("a"));
    let acquire = || Call::Acquire(exclusive("a"));
    assert_eq!(world.apply(by_call(two, 1, acquire())), waits());
    let hang_up = |call| Command::HangUp { session: two, request: RequestId(1), call };
    let (request, received, via) = (RequestId(1), RequestId(0), Via::Call(LATER));
    let again = Command::Request { session: two, request, received, via, call: acquire() };
    assert_eq!(world.apply(again), waits(), "over another call");
    world.apply(hang_up(CALL)).expect("it lives");
    assert_eq!(world.waiters("a"), [two]);
    assert_eq!(world.repeat(two, RequestId(1), acquire()), waits(), "over a stream");
    world.apply(hang_up(LATER)).expect("it lives");
    world.apply(Command::NodeStarted { node: NodeId(1) }).expect("it starts");
    assert_eq!(world.waiters("a"), [two]);
}

#[test]
fn calls_that_waited_at_a_node_do_not_outlive_it() {
    let mut world = World::new(Policy::default());
    let [one, two, three] = world.open_several();
    let token = world.token(one, exclusive("a"));
    let acquire = || Call::Acquire(exclusive("a"));
    assert_eq!(world.apply(by_call(two, 1, acquire())), waits());
    assert_eq!(world.acquire(three, exclusive("a")), waits());
    world.apply(Command::NodeStarted { node: NodeId(2) }).expect("it starts");
    assert_eq!(world.waiters("a"), [two, three], "that was another node");
    world.apply(Command::NodeStarted { node: NodeId(1) }).expect("it starts");
    assert_eq!(world.waiters("a"), [three]);
    // What the client asks next is neither busy nor answered for a ghost.
    assert_eq!(world.apply(by_call(two, 1, acquire())), waits());
    world.release(one, "a", token);
    assert_eq!((world.holders("a"), world.waiters("a")), (vec![three], vec![two]));
}

#[test]
fn an_opening_that_is_repeated_returns_the_session_and_renews_it() {
    let mut world = World::new(Policy::default());
    let open = Open {
        ttl: Duration::from_secs(10),
        key: KeyDigest([7; 32]),
        opened_by: "ci".into(),
        ..Open::default()
    };
    let opened = world.apply(Command::Open(open.clone()));
    let Ok(Reply::Opened { session, .. }) = opened else { panic!("{opened:?}") };
    world.pass(9_000);
    assert_eq!(world.apply(Command::Open(open.clone())), opened);
    assert_eq!(world.machine.counts().sessions, 1);
    world.pass(9_000);
    assert!(world.machine.session(session).is_some(), "it was renewed");
    let other = Open { opened_by: "prod".into(), ..open.clone() };
    assert_eq!(world.apply(Command::Open(other)), Err(Error::KeyTaken));
    world.apply(Command::Close { session }).expect("it lives");
    assert_ne!(world.apply(Command::Open(open)), opened, "that session is over");
}

#[test]
fn all_sessions_of_one_origin_are_expelled_and_no_others() {
    let mut world = World::new(Policy::default());
    let mut open = |opened_by: &str, host: &str, address: &str| {
        let (opened_by, host, address) = (opened_by.into(), host.into(), address.into());
        let ttl = Duration::from_secs(10);
        let open = Open { opened_by, host, address, ttl, ..Open::default() };
        world.apply(Command::Open(open)).expect("there is room");
    };
    open("ci", "one", "10.0.0.1");
    open("ci", "two", "10.0.0.2");
    open("prod", "one", "10.0.0.3");
    open("", "three", "10.0.0.3");
    let mut expel = |origin: Origin| {
        let reply = world.apply(Command::ExpelAll { origin, reason: "too many".into() });
        (reply, world.machine.counts().sessions)
    };
    let expelled = |sessions| Ok(Reply::Expelled { sessions });
    assert_eq!(expel(Origin::Token("unknown".into())), (expelled(0), 4));
    assert_eq!(expel(Origin::Token("ci".into())), (expelled(2), 2));
    assert_eq!(expel(Origin::Host("one".into())), (expelled(1), 1));
    assert_eq!(expel(Origin::Address("10.0.0.3".into())), (expelled(1), 0));
}
