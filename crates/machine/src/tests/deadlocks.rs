//! Deadlocks, and what only looks like one.

use std::time::Duration;

use super::world::{World, exclusive, members, shared, waits};
use crate::*;

fn both(first: &str, second: &str) -> Acquire {
    let want = |lock: &str| Want { lock: lock.into(), mode: Mode::Exclusive };
    Acquire::all([want(first), want(second)])
}

#[test]
fn who_closes_a_cycle_is_told_who_is_in_it() {
    let mut world = World::new(Policy::default());
    let [one, two] = world.open_several();
    world.token(one, exclusive("a"));
    world.token(two, exclusive("b"));
    assert_eq!(world.acquire(one, exclusive("b")), waits());
    let Err(Error::Deadlock { cycle }) = world.acquire(two, exclusive("a")) else {
        panic!("the youngest is the victim")
    };
    let agent = |session| Agent { session, owner: Owner(0) };
    let expected = [
        Link { waiter: agent(two), lock: "a".into(), election: false },
        Link { waiter: agent(one), lock: "b".into(), election: false },
    ];
    assert_eq!(cycle, expected);
    assert_eq!(world.waiters("b"), [one], "the other waits on, and gets it when two gives up");
}

#[test]
fn the_youngest_of_a_cycle_gives_way_even_if_another_closes_it() {
    let mut world = World::new(Policy::default());
    let [one, two, three] = world.open_several();
    for (session, lock) in [(one, "a"), (two, "b"), (three, "c")] {
        world.token(session, exclusive(lock));
    }
    assert_eq!(world.acquire(three, exclusive("a")), waits());
    assert_eq!(world.acquire(one, exclusive("b")), waits());
    assert_eq!(world.acquire(two, exclusive("c")), waits());
    assert_eq!(world.cycle_told(three), Some(vec![two, three, one]));
}

#[test]
fn the_victim_may_be_who_holds_least_or_matters_least() {
    for (choice, victim) in [(Victim::FewestLocks, 0), (Victim::LowestPriority, 1)] {
        let mut world = World::new(Policy::Detect(choice));
        let sessions = [world.open_with(5), world.open_with(1), world.open_with(5)];
        let [one, two, three] = sessions;
        for (session, lock) in [(one, "a"), (two, "b"), (three, "c"), (two, "d"), (three, "e")] {
            world.token(session, exclusive(lock));
        }
        assert_eq!(world.acquire(one, exclusive("b")), waits());
        assert_eq!(world.acquire(two, exclusive("c")), waits());
        assert_eq!(world.acquire(three, exclusive("a")), waits());
        assert_eq!(world.cycle_told(sessions[victim]), Some(vec![three, one, two]));
    }
}

#[test]
fn two_who_share_and_both_want_it_alone_are_in_a_deadlock() {
    let mut world = World::new(Policy::default());
    let [one, two] = world.open_several();
    world.token(one, shared("a"));
    world.token(two, shared("a"));
    assert_eq!(world.upgrade(one, "a"), waits());
    let Err(Error::Deadlock { cycle }) = world.upgrade(two, "a") else { panic!("a deadlock") };
    assert_eq!(members(&cycle), [two, one]);
}

#[test]
fn one_reader_among_many_is_enough_for_a_deadlock() {
    let mut world = World::new(Policy::default());
    let [one, two, three] = world.open_several();
    world.token(one, shared("a"));
    world.token(two, shared("a"));
    world.token(three, exclusive("b"));
    assert_eq!(world.acquire(two, exclusive("b")), waits());
    let Err(Error::Deadlock { cycle }) = world.acquire(three, exclusive("a")) else {
        panic!("a deadlock")
    };
    assert_eq!(members(&cycle), [three, two]);
}

#[test]
fn a_request_ahead_in_a_queue_can_close_a_cycle() {
    let mut world = World::new(Policy::default());
    let [one, two, three] = world.open_several();
    world.token(one, shared("a"));
    world.token(three, exclusive("b"));
    assert_eq!(world.acquire(two, both("a", "b")), waits());
    // It could share with who holds the lock, but not pass who waits for it and for b.
    let Err(Error::Deadlock { cycle }) = world.acquire(three, shared("a")) else {
        panic!("a deadlock")
    };
    assert_eq!(members(&cycle), [three, two]);
}

#[test]
fn ways_that_meet_are_no_cycle() {
    let mut world = World::new(Policy::default());
    let [one, two, three, four] = world.open_several();
    world.token(two, shared("a"));
    world.token(three, shared("a"));
    world.token(four, exclusive("b"));
    world.token(one, exclusive("c"));
    assert_eq!(world.acquire(two, exclusive("b")), waits());
    assert_eq!(world.acquire(three, exclusive("b")), waits());
    assert_eq!(world.acquire(one, exclusive("a")), waits());
}

#[test]
fn who_does_not_wait_any_more_is_in_no_cycle() {
    // In each case the first waited for what the second holds, and waits no more: a deadlock that is told now is none.
    for case in 0..4 {
        let mut world = World::new(Policy::default());
        let [one, two] = world.open_several();
        world.token(one, exclusive("a"));
        let held = world.token(two, exclusive("b"));
        let wait = match case {
            0 => Acquire { patience: Patience::For(Duration::from_secs(1)), ..exclusive("b") },
            _ => exclusive("b"),
        };
        assert_eq!(world.acquire(one, wait), waits());
        match case {
            0 => {
                world.pass(1_000);
                assert!(world.was_told(one, &Error::TimedOut));
            }
            1 => {
                let request = world.last_request();
                world.call(one, Call::Cancel { request }).expect("it waits");
            }
            2 => {
                world.release(two, "b", held);
                assert_eq!(world.holders("b"), [one]);
            }
            _ => {
                world.pass(5_000);
                world.keep_alive(two);
                world.pass(5_000);
                assert_eq!(world.holders("a"), [], "the session of the first has expired");
            }
        }
        let asked = world.acquire(two, exclusive("a"));
        match case {
            3 => assert!(asked.is_ok_and(|reply| matches!(reply, Reply::Granted { .. }))),
            _ => assert_eq!(asked, waits(), "case {case}"),
        }
    }
}

#[test]
fn where_any_permit_would_do_a_cycle_is_a_deadlock_only_if_no_holder_is_outside_it() {
    let mut world = World::new(Policy::default());
    let [one, two, three] = world.open_several();
    let permit = || Acquire::permit("p", 2);
    world.token(one, permit());
    world.token(two, permit());
    world.token(three, exclusive("a"));
    assert_eq!(world.acquire(one, exclusive("a")), waits());
    assert_eq!(world.acquire(three, permit()), waits(), "two may give its permit back");
    let Err(Error::Deadlock { cycle }) = world.acquire(two, permit()) else {
        assert_eq!(world.cycle_told(three), Some(vec![two, three]));
        return;
    };
    panic!("three is the youngest, and not {cycle:?}")
}

#[test]
fn a_deadlock_with_oneself_is_one() {
    for policy in [Policy::default(), Policy::WaitDie, Policy::WoundWait] {
        let mut world = World::new(policy);
        let one = world.open();
        world.token(one, Acquire::permit("p", 1));
        let Err(Error::Deadlock { cycle }) = world.acquire(one, Acquire::permit("p", 1)) else {
            panic!("no other has the permit")
        };
        assert_eq!(members(&cycle), [one]);
    }
}

#[test]
fn an_owner_that_does_not_wait_is_not_held_up_by_one_that_does() {
    let mut world = World::new(Policy::default());
    let [one, two] = world.open_several();
    world.token(one, exclusive("a").by(Owner(1)));
    world.token(two, exclusive("b"));
    assert_eq!(world.acquire(one, exclusive("b").by(Owner(2))), waits());
    assert_eq!(world.acquire(two, exclusive("a")), waits(), "owner 1 may release it any time");
}

#[test]
fn without_a_policy_a_deadlock_stays_and_can_be_seen() {
    let mut world = World::new(Policy::None);
    let [one, two] = world.open_several();
    world.token(one, exclusive("a"));
    world.token(two, exclusive("b"));
    assert_eq!(world.acquire(one, exclusive("b")), waits());
    assert_eq!(world.machine.why("b").and_then(|why| why.cycle), None);
    assert_eq!(world.acquire(two, exclusive("a")), waits());
    let why = world.machine.why("b").expect("it is held");
    assert_eq!(members(&why.cycle.expect("a cycle")), [one, two]);
    assert_eq!(why.waits.len(), 2);
    assert_eq!(world.machine.deadlocked().len(), 2);
}

#[test]
fn under_wait_die_the_older_waits_and_the_younger_dies() {
    let mut world = World::new(Policy::WaitDie);
    let [old, young] = world.open_several();
    let died = |lock: &str| Error::Died {
        lock: lock.into(),
        elder: Agent { session: old, owner: Owner(0) },
    };
    world.token(young, exclusive("a"));
    world.token(old, exclusive("b"));
    assert_eq!(world.acquire(old, exclusive("a")), waits());
    assert_eq!(world.acquire(young, exclusive("b")), Err(died("b")));
    assert_eq!(world.holders("a"), [young], "what it holds is for it to release");
}

#[test]
fn under_wait_die_no_waiter_is_left_behind_an_older_one_by_a_hand_over() {
    let mut world = World::new(Policy::WaitDie);
    let [oldest, older, holder] = world.open_several();
    let token = world.token(holder, exclusive("r"));
    assert_eq!(world.acquire(older, exclusive("r")), waits());
    assert_eq!(world.acquire(oldest, exclusive("r")), waits());
    let hand = Call::Release { lock: "r".into(), token, to: Some(oldest) };
    assert_eq!(world.call(holder, hand), Ok(Reply::Released { left: 0 }));
    let elder = Agent { session: oldest, owner: Owner(0) };
    assert!(world.was_told(older, &Error::Died { lock: "r".into(), elder }));
}

#[test]
fn under_wound_wait_the_younger_waits_and_is_wounded_by_the_older() {
    let mut world = World::new(Policy::WoundWait);
    let [old, young] = world.open_several();
    let by = Agent { session: old, owner: Owner(0) };
    let kept = world.token(young, exclusive("a"));
    world.token(old, exclusive("b"));
    assert_eq!(world.acquire(young, exclusive("b")), waits());
    assert_eq!(world.acquire(old, exclusive("a")), waits());
    assert!(world.was_told(young, &Error::Wounded { by }), "its wait is over");
    assert_eq!(world.holders("a"), [young], "what it holds is not taken from it");
    assert_eq!(world.acquire(young, exclusive("b")), Err(Error::Wounded { by }));
    world.token(young, exclusive("c"));
    world.release(young, "a", kept);
    assert_eq!(world.holders("a"), [old]);
    assert_eq!(world.acquire(young, exclusive("b")), Err(Error::Wounded { by }), "it holds c");
    let rest = world.machine.lock("c").expect("it is held").holders[0].token;
    world.release(young, "c", rest);
    assert_eq!(world.acquire(young, exclusive("b")), waits());
}

#[test]
fn who_waits_behind_a_deadlock_is_shown_the_deadlock() {
    let mut world = World::new(Policy::None);
    let [one, two, three, four] = world.open_several();
    world.token(one, exclusive("a"));
    world.token(two, exclusive("b"));
    world.token(three, exclusive("c"));
    assert_eq!(world.acquire(one, exclusive("b")), waits());
    assert_eq!(world.acquire(two, exclusive("a")), waits());
    assert_eq!(world.acquire(three, exclusive("a")), waits());
    assert_eq!(world.acquire(four, exclusive("c")), waits());
    let why = world.machine.why("c").expect("it is held");
    assert_eq!(members(&why.cycle.expect("three waits for a deadlock")), [one, two]);
    let pairs: Vec<(u64, u64)> =
        why.waits.iter().map(|edge| (edge.waiter.session.0, edge.on.session.0)).collect();
    // Three waits behind two, which waits for one; that three waits for one goes without saying.
    assert_eq!(pairs, [(1, 2), (2, 1), (3, 2), (4, 3)]);
}

/// How much is looked at by what is asked of a machine.
fn steps<T>(machine: &Machine, asked: impl FnOnce(&Machine) -> T) -> u64 {
    machine.steps.set(0);
    asked(machine);
    machine.steps.get()
}

/// A leader, and so many candidates that do nothing else, each better than those before it. Without the
/// audit of a [`World`], which would take longer than all else.
fn ever_better_candidates(count: i64, preempt: bool) -> Machine {
    let mut machine = Machine::new(Config::default());
    let mut apply = |command| machine.apply(Time::ZERO, command, &mut Vec::new());
    for rank in 0..=count {
        let ttl = std::time::Duration::from_secs(10);
        let opened = apply(Command::Open(Open { ttl, ..Open::default() }));
        let Ok(Reply::Opened { session, .. }) = opened else { panic!("{opened:?}") };
        let call = Call::Campaign(Campaign {
            election: "e".into(),
            rank,
            // Of the last, if at all: for it the leader is to yield.
            preempt: preempt && rank == count,
            grace: std::time::Duration::from_secs(5),
            value: Vec::new(),
            patience: Patience::Forever,
            owner: Some(Owner(0)),
        });
        let (request, received, via) = (RequestId(1), RequestId(0), Via::Stream);
        apply(Command::Request { session, request, received, via, call }).expect("it may stand");
    }
    machine
}

#[test]
fn what_a_search_costs_grows_no_faster_than_what_there_is_to_search() {
    let count = 1000;
    let machine = ever_better_candidates(count, false);
    let most = 10 * count.unsigned_abs();
    for (what, looked_at) in [
        ("deadlocked", steps(&machine, Machine::deadlocked)),
        ("graph", steps(&machine, Machine::graph)),
        ("why", steps(&machine, |machine| machine.why("e"))),
    ] {
        assert!(looked_at < most, "{what} looks at {looked_at} for {count} candidates");
    }
    assert_eq!(machine.deadlocked(), []);
}

#[test]
fn a_leader_that_stays_after_all_costs_one_search_for_all_candidates() {
    let count = 1000;
    let mut machine = ever_better_candidates(count, true);
    let best = *machine.sessions.keys().next_back().expect("there are sessions");
    machine.steps.set(0);
    let close = Command::Close { session: best };
    machine.apply(Time::ZERO, close, &mut Vec::new()).expect("it lives");
    let looked_at = machine.steps.get();
    assert!(looked_at < 20 * count.unsigned_abs(), "{looked_at} for {count} candidates");
}

#[test]
fn writers_behind_many_readers_are_searched_once_each() {
    let mut machine = Machine::new(Config { deadlocks: Policy::None, ..Config::default() });
    let mut apply = |command| machine.apply(Time::ZERO, command, &mut Vec::new());
    let count = 300;
    // Each reader of one lock waits for another lock, and as many writers wait for the readers.
    for n in 0..2 * count {
        let ttl = std::time::Duration::from_secs(10);
        let opened = apply(Command::Open(Open { ttl, ..Open::default() }));
        let Ok(Reply::Opened { session, .. }) = opened else { panic!("{opened:?}") };
        let calls = match n < count {
            true => vec![shared("a"), exclusive("b")],
            false => vec![exclusive("a")],
        };
        for (request, call) in (1..).zip(calls) {
            let (request, received, via) = (RequestId(request), RequestId(0), Via::Stream);
            let call = Call::Acquire(call);
            apply(Command::Request { session, request, received, via, call }).expect("it waits");
        }
    }
    let looked_at = steps(&machine, Machine::deadlocked);
    assert!(looked_at < 20 * count, "{looked_at} for {count} readers and as many writers");
}
