//! Exit codes: for each a history that has no reason for it, and one that just has.

use conclave_history::{Ending, Event, Kind, Rule, Time};

use crate::planted::{
    S, a, asked, broken, forced, granted, left_out, looked, opened, released, releasing,
};

#[test]
fn exit_codes_that_do_not_say_what_happened_are_found() {
    // Another process waits for the same, and there is a fault meanwhile.
    let history_of = |kind, timeout, try_once, ran: Option<Option<i32>>, ending, struck| {
        let (name, wants) = ("p".to_owned(), vec![a()]);
        let started = Event::Started {
            name: name.clone(),
            kind,
            wants: wants.clone(),
            try_once,
            timeout,
            ttl: S,
            code: 3,
            at: 1,
        };
        let mut events = vec![
            started,
            Event::Exited { name: name.clone(), ending, said: String::new(), at: 40 },
        ];
        events.extend(ran.map(|code| Event::Ran {
            name: name.clone(),
            session: 1,
            token: 1,
            wants,
            started: 1,
            begin: 10,
            last: 30,
            code,
        }));
        if struck {
            events.push(Event::Struck { name, how: "kill-wrapper".into(), at: 5 });
        }
        events.extend([started_at("q", Kind::Lock, 2), fault(5, "full-disk"), fault_ends(9)]);
        broken(&events)
    };
    let history =
        |try_once, ran, ending, struck| history_of(Kind::Lock, None, try_once, ran, ending, struck);
    use Ending::{Code, Signal};
    let late = |kind| history_of(kind, Some(S), false, Some(None), Code(11), false);
    assert_eq!(late(Kind::Elect), [], "it gave way, and stood again in vain");
    assert_eq!(late(Kind::Lock), [Rule::Exit]);
    let ended = |kind| history_of(kind, Some(S), false, Some(Some(3)), Code(11), false);
    assert_eq!(ended(Kind::Elect), [], "it gave way when its command ended by itself");
    assert_eq!(ended(Kind::Lock), [Rule::Exit]);
    assert_eq!(history(false, Some(Some(3)), Code(3), false), []);
    assert_eq!(history(false, Some(Some(3)), Code(12), false), []);
    assert_eq!(history(false, Some(Some(3)), Code(0), false), [Rule::Exit]);
    assert_eq!(history(false, Some(None), Code(3), false), [Rule::Exit]);
    assert_eq!(history(false, Some(None), Code(12), false), []);
    assert_eq!(history(true, None, Code(10), false), []);
    assert_eq!(history(false, None, Code(10), false), [Rule::Exit]);
    assert_eq!(history(false, None, Code(11), false), [Rule::Exit]);
    assert_eq!(history(false, None, Code(13), false), []);
    assert_eq!(history(false, Some(None), Code(13), false), [Rule::Exit]);
    assert_eq!(history(false, None, Code(0), false), [Rule::Exit]);
    assert_eq!(history(false, None, Code(101), false), [Rule::Exit]);
    assert_eq!(history(false, None, Signal(9), false), [Rule::Exit]);
    assert_eq!(history(false, None, Signal(9), true), []);
    assert_eq!(history(false, None, Code(126), true), [Rule::Exit], "its command can be run");
}

/// A process that wants `a`, at once or within a second.
fn started_at(name: &str, kind: Kind, at: Time) -> Event {
    Event::Started {
        name: name.into(),
        kind,
        wants: vec![a()],
        try_once: true,
        timeout: Some(S),
        ttl: S,
        code: 3,
        at,
    }
}

fn exits(name: &str, code: i32, at: Time) -> Event {
    Event::Exited { name: name.into(), ending: Ending::Code(code), said: "".into(), at }
}

fn fault(at: Time, kind: &str) -> Event {
    Event::FaultBegan { kind: kind.into(), at }
}

fn fault_ends(at: Time) -> Event {
    Event::FaultEnded { kind: "full-disk".into(), at }
}

/// A process that lived from 10 s to 40 s and ended with this code, and more.
fn ended(kind: Kind, code: i32, more: &[Event]) -> Vec<Rule> {
    let process = [started_at("p", kind, 10 * S), exits("p", code, 40 * S)];
    broken(&[&process[..], more].concat())
}

#[test]
fn that_a_node_cannot_or_is_gone_and_that_a_lock_is_lost_are_exit_codes_only_during_faults() {
    for code in [12, 13, 17] {
        let history = |from| ended(Kind::Lock, code, &[fault(from, "stop"), fault_ends(from + 5)]);
        assert_eq!(ended(Kind::Lock, code, &[]), [Rule::Exit], "{code}");
        assert_eq!(history(10 * S - 4), [], "{code}");
        assert_eq!(history(10 * S - 5), [Rule::Exit], "{code}");
        assert_eq!(history(40 * S - 1), [], "{code}");
        assert_eq!(history(40 * S), [Rule::Exit], "{code}");
    }
}

#[test]
fn a_lock_is_lost_by_force_only_if_it_was_taken_from_that_session() {
    let held = |session, code| Event::Ran {
        name: "p".into(),
        session,
        token: 8,
        wants: vec![a()],
        started: 10 * S,
        begin: 11 * S,
        last: 30 * S,
        code,
    };
    for code in [None, Some(3)] {
        let history = |session, force: &[Event]| {
            ended(Kind::Lock, 12, &[&[held(session, code)], force].concat())
        };
        assert_eq!(history(1, &forced(20 * S, &[(1, 8)])), []);
        assert_eq!(history(2, &forced(20 * S, &[(1, 8)])), [Rule::Exit]);
        assert_eq!(history(1, &forced(9 * S, &[(1, 8)])), [Rule::Exit], "that was before");
        assert_eq!(history(1, &forced(20 * S, &[(1, 8)])[..1]), [], "whether it was, is unknown");
        assert_eq!(history(1, &[]), [Rule::Exit]);
    }
}

#[test]
fn a_leader_gives_way_to_another_candidate_and_a_holder_does_not() {
    let other = [started_at("q", Kind::Elect, 20 * S)];
    assert_eq!(ended(Kind::Elect, 12, &other), []);
    assert_eq!(ended(Kind::Elect, 12, &[]), [Rule::Exit]);
    assert_eq!(ended(Kind::Lock, 12, &other), [Rule::Exit]);
}

#[test]
fn a_lock_is_taken_or_waited_for_in_vain_only_if_another_session_wants_it() {
    for code in [10, 11] {
        let history = |more: &[Event]| ended(Kind::Lock, code, more);
        assert_eq!(history(&[]), [Rule::Exit], "{code}");
        let list = |holders: &[(u64, u64)], waiters: &[u64]| looked(20 * S, holders, waiters);
        assert_eq!(history(&[list(&[], &[])]), [Rule::Exit], "{code}");
        assert_eq!(history(&[list(&[(1, 1)], &[])]), [], "{code}");
        assert_eq!(history(&[list(&[], &[1])]), [], "{code}");
        let lists = [list(&[], &[]), looked(9 * S, &[], &[]), looked(8 * S, &[(1, 1)], &[])];
        assert_eq!(history(&lists), [Rule::Exit], "{code}: that was before");
        // A client has it, and gave it back before or meanwhile.
        let client = |at| {
            let opens = [opened(1, 60 * S, 1), asked(1, 1, a(), 2), granted(1, 1, 1, 3)];
            [&opens[..], &[releasing(1, 1, at - 1), released(1, 1, at)]].concat()
        };
        assert_eq!(history(&client(10 * S)), [], "{code}");
        assert_eq!(history(&client(10 * S - 1)), [Rule::Exit], "{code}");
        let other = |at| {
            [
                started_at("q", Kind::Lock, 1),
                exits("q", 10, at),
                started_at("r", Kind::Lock, 1),
                exits("r", 10, at),
            ]
        };
        assert_eq!(history(&other(8 * S)), [], "{code}: its session may last");
        assert_eq!(history(&other(8 * S - 1)), [Rule::Exit], "{code}");
    }
}

#[test]
fn a_lease_that_ends_while_lists_stall_is_not_judged() {
    let lists = |gap| [looked(20 * S, &[], &[]), looked(20 * S + gap, &[], &[])];
    let process = [started_at("p", Kind::Lock, 10 * S), exits("p", 12, 40 * S)];
    assert_eq!(broken(&[&process[..], &lists(S / 3)].concat()), [Rule::Exit]);
    let stalled = [&process[..], &lists(S / 3 + 1)].concat();
    assert_eq!(broken(&stalled), []);
    let why = "lists stalled, and so may have the renewal";
    assert_eq!(left_out(&stalled), [(Rule::Exit, why, 1)]);
}
