//! For each rule a history that breaks it by one event, and one that just does not.

use conclave_history::{Ending, Event, Held, LockView, Rule, Taken, Time, Waiter, Want, judge};

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const S: u64 = 1_000 * MS;

pub(crate) fn opened(session: u64, ttl: u64, sent: Time) -> Event {
    Event::Opened { session, name: format!("s{session}"), ttl, sent, answered: sent + MS }
}

fn renewed(session: u64, sent: Time, answered: Time) -> Event {
    Event::Renewed { session, sent, answered }
}

pub(crate) fn asked(session: u64, request: u64, want: Want, at: Time) -> Event {
    Event::Asked { session, request, wants: vec![want], at }
}

pub(crate) fn granted(session: u64, request: u64, token: u64, at: Time) -> Event {
    Event::Granted { session, request, token, at }
}

pub(crate) fn releasing(session: u64, token: u64, at: Time) -> Event {
    Event::Releasing { session, token, at }
}

pub(crate) fn released(session: u64, token: u64, at: Time) -> Event {
    Event::Released { session, token, at }
}

pub(crate) fn a() -> Want {
    Want::exclusive("a")
}

/// Which rules are broken, each once.
pub(crate) fn broken(events: &[Event]) -> Vec<Rule> {
    let verdict = judge(events);
    for violation in &verdict.violations {
        assert!(!violation.shown_by.is_empty(), "{violation:?}");
    }
    let mut rules: Vec<Rule> = verdict.violations.iter().map(|v| v.rule).collect();
    rules.dedup();
    rules
}

/// Session 1 holds `a` from 10 ms to 50 ms with token 1; session 2 asks at 20 ms.
fn first_holder() -> Vec<Event> {
    vec![
        opened(1, 4 * S, 1),
        opened(2, 4 * S, 1),
        asked(1, 1, a(), 9 * MS),
        granted(1, 1, 1, 10 * MS),
        asked(2, 1, a(), 20 * MS),
        releasing(1, 1, 50 * MS),
        released(1, 1, 52 * MS),
    ]
}

fn with(more: impl IntoIterator<Item = Event>) -> Vec<Event> {
    first_holder().into_iter().chain(more).collect()
}

#[test]
fn two_who_believe_in_a_lock_at_once_are_found_and_one_after_the_other_is_fine() {
    assert_eq!(broken(&with([granted(2, 1, 2, 50 * MS)])), []);
    assert_eq!(broken(&with([granted(2, 1, 2, 50 * MS - 1)])), [Rule::Holders]);
}

#[test]
fn a_lease_that_is_over_is_believed_in_no_more_and_one_that_was_renewed_in_time_is() {
    let certain = 4 * S - 4 * S / 64;
    let history = |renewal: Option<(Time, Time)>, second: Time| {
        let mut events = vec![opened(1, 4 * S, 1), asked(1, 1, a(), 2), granted(1, 1, 1, 10 * MS)];
        events.extend(renewal.map(|(sent, answered)| renewed(1, sent, answered)));
        events.extend([opened(2, 4 * S, 3 * S), asked(2, 1, a(), 3 * S)]);
        events.push(granted(2, 1, 2, second));
        broken(&events)
    };
    assert_eq!(history(None, 1 + certain), []);
    assert_eq!(history(None, certain), [Rule::Holders]);
    assert_eq!(history(Some((S, S + MS)), S + certain), []);
    assert_eq!(history(Some((S, S + MS)), 1 + certain), [Rule::Holders]);
    // The confirmation came when the lease was over already.
    assert_eq!(history(Some((S, 1 + certain)), 1 + certain), []);
}

#[test]
fn shared_holders_may_be_many_and_permits_as_many_as_there_are() {
    let history = |wants: [Want; 3]| {
        let mut events = Vec::new();
        for (session, want) in (1..).zip(wants) {
            events.push(opened(session, 4 * S, 1));
            events.push(asked(session, 1, want, 2));
            events.push(granted(session, 1, session, 10 * MS));
        }
        broken(&events)
    };
    let (shared, permits) = (|| Want::shared("a"), |take| Want::permits("a", take, 3));
    assert_eq!(history([shared(), shared(), shared()]), []);
    assert_eq!(history([shared(), shared(), a()]), [Rule::Holders]);
    assert_eq!(history([permits(1), permits(1), permits(1)]), []);
    assert_eq!(history([permits(1), permits(1), permits(2)]), [Rule::Holders]);
    let elections = || Want::election("e");
    assert_eq!(history([elections(), Want::election("f"), Want::exclusive("e")]), []);
    assert_eq!(history([elections(), Want::election("f"), elections()]), [Rule::Holders]);
}

fn ran(name: &str, session: u64, token: u64, (begin, last): (Time, Time)) -> Event {
    Event::Ran {
        name: name.into(),
        session,
        token,
        wants: vec![a()],
        started: 1,
        begin,
        last,
        code: None,
    }
}

#[test]
fn two_commands_that_run_beside_each_other_are_found() {
    let history = |begin| [ran("x", 1, 1, (10, 20)), ran("y", 2, 2, (begin, 30))];
    assert_eq!(broken(&history(20)), []);
    assert_eq!(broken(&history(19)), [Rule::Beside]);
}

#[test]
fn a_command_beside_a_client_that_believes_is_found() {
    let history = |at| {
        let client =
            [opened(1, 4 * S, 1), asked(1, 1, a(), 2), granted(1, 1, 1, 3), releasing(1, 1, at)];
        client.into_iter().chain([ran("y", 2, 2, (10 * MS, 20 * MS))]).collect::<Vec<_>>()
    };
    assert_eq!(broken(&history(10 * MS)), []);
    assert_eq!(broken(&history(10 * MS + 1)), [Rule::Holders]);
}

#[test]
fn what_an_operator_took_may_be_granted_again() {
    let events = with([granted(2, 1, 2, 30 * MS)]);
    assert_eq!(broken(&events), [Rule::Holders]);
    let taken = |token| [&events[..], &forced(29 * MS, &[(1, token)])].concat();
    assert_eq!(broken(&taken(1)), []);
    assert_eq!(broken(&taken(7)), [Rule::Holders], "it was another grant");
}

/// An operator takes `a` from these sessions with these tokens.
pub(crate) fn forced(sent: Time, taken: &[(u64, u64)]) -> [Event; 2] {
    let lock = "a".to_owned();
    let taken = taken.iter().map(|&(session, token)| Taken { session, token }).collect();
    let forcing = Event::Forcing { lock: lock.clone(), at: sent };
    [forcing, Event::Forced { lock, taken, sent, answered: sent + MS }]
}

/// Why something was not judged, by rule.
pub(crate) fn left_out(events: &[Event]) -> Vec<(Rule, &'static str, u64)> {
    let tallies = judge(events).tallies.into_iter();
    let reasons = tallies.flat_map(|(rule, tally)| {
        tally.not_judged.into_iter().map(move |(why, count)| (rule, why, count))
    });
    reasons.collect()
}

#[test]
fn a_force_while_clients_wait_takes_nothing_from_them() {
    let waited = [
        opened(1, 4 * S, 1),
        opened(2, 4 * S, 1),
        asked(1, 1, a(), 9 * MS),
        asked(2, 1, a(), 9 * MS),
        granted(1, 1, 5, 20 * MS),
        releasing(1, 5, 50 * MS),
    ];
    let history =
        |second, force: &[Event]| [&waited[..], &[granted(2, 1, 6, second)], force].concat();
    let force = forced(10 * MS, &[(9, 4)]);
    assert_eq!(broken(&history(50 * MS, &force)), []);
    assert_eq!(broken(&history(49 * MS, &force)), [Rule::Holders]);
    assert_eq!(left_out(&history(49 * MS, &force)), []);
    // Session 1 had it already when it was forced, but did not know yet.
    let force = forced(19 * MS, &[(1, 5)]);
    assert_eq!(broken(&history(49 * MS, &force)), []);
    let why = "an operator took it before its client knew";
    let out = [(Rule::Holders, why, 1), (Rule::Order, why, 1)];
    assert_eq!(left_out(&history(49 * MS, &force)), out);
    // Whether it was taken is not known.
    let force = [Event::Forcing { lock: "a".into(), at: 19 * MS }];
    assert_eq!(broken(&history(49 * MS, &force)), []);
    let why = "an operator's force had no answer";
    let out = [(Rule::Holders, why, 2), (Rule::Order, why, 2)];
    assert_eq!(left_out(&history(49 * MS, &force)), out);
}

#[test]
fn commands_that_waited_during_a_force_are_found_beside_each_other() {
    let history = |taken: &[(u64, u64)]| {
        let commands = [ran("x", 1, 5, (60 * MS, 90 * MS)), ran("y", 2, 6, (61 * MS, 91 * MS))];
        [&commands[..], &forced(5 * MS, taken)].concat()
    };
    assert_eq!(broken(&history(&[])), [Rule::Beside]);
    assert_eq!(broken(&history(&[(9, 4)])), [Rule::Beside]);
    assert_eq!(broken(&history(&[(1, 4)])), [Rule::Beside], "its earlier term was taken");
    assert_eq!(broken(&history(&[(1, 5)])), []);
}

#[test]
fn what_was_asked_for_after_the_answer_to_a_force_was_not_taken_by_it() {
    let events = with([granted(2, 1, 2, 30 * MS)]);
    let early = |sent| [&events[..], &forced(sent, &[(1, 1)])].concat();
    assert_eq!(broken(&early(8 * MS)), []);
    assert_eq!(broken(&early(8 * MS - 1)), [Rule::Holders]);
}

#[test]
fn a_force_takes_one_lock_of_a_grant_of_several() {
    let both = vec![a(), Want::exclusive("b")];
    let history = |lock: &str| {
        let mut events = with([granted(2, 1, 2, 30 * MS)]);
        events[2] = Event::Asked { session: 1, request: 1, wants: both.clone(), at: 9 * MS };
        events[4] = asked(2, 1, Want::exclusive(lock), 20 * MS);
        events.extend(forced(29 * MS, &[(1, 1)]));
        broken(&events)
    };
    assert_eq!(history("a"), []);
    assert_eq!(history("b"), [Rule::Holders]);
}

#[test]
fn a_grant_before_the_end_of_an_earlier_one_is_found_though_the_earlier_holder_did_not_know_yet() {
    // The answer to session 1 came late: after session 2, with a greater token, was done.
    let history = |end| {
        [
            opened(1, 4 * S, 1),
            opened(2, 4 * S, 1),
            asked(1, 1, a(), 9 * MS),
            asked(2, 1, a(), 10 * MS),
            granted(2, 1, 2, 20 * MS),
            releasing(2, 2, 30 * MS),
            granted(1, 1, 1, 40 * MS),
            end,
        ]
    };
    assert_eq!(broken(&history(releasing(1, 1, 50 * MS))), [Rule::Order]);
    assert_eq!(broken(&history(Event::Closing { session: 1, at: 15 * MS })), []);
}

#[test]
fn a_token_that_does_not_rise_is_found_and_so_is_one_that_comes_twice() {
    let other = |token, at| {
        with([
            asked(2, 2, Want::exclusive("b"), at),
            granted(2, 2, token, 60 * MS),
            Event::Refused { session: 2, request: 1, code: "timed-out".into(), at: 70 * MS },
        ])
    };
    assert_eq!(broken(&other(2, 11 * MS)), []);
    assert_eq!(broken(&other(1, 11 * MS)), [Rule::Tokens]);
    // Two requests at the same time may be served in any order, but not with one token.
    let mut early = other(7, 9 * MS);
    early[3] = granted(1, 1, 8, 10 * MS);
    early[5] = releasing(1, 8, 50 * MS);
    early[6] = released(1, 8, 52 * MS);
    assert_eq!(broken(&early), []);
    early[7] = asked(2, 2, Want::exclusive("b"), 10 * MS + 1);
    assert_eq!(broken(&early), [Rule::Tokens]);
    assert_eq!(broken(&other(1, 9 * MS)), [Rule::Tokens]);
}

pub(crate) fn looked(sent: Time, holders: &[(u64, u64)], waiters: &[u64]) -> Event {
    let holders = holders
        .iter()
        .map(|&(session, token)| Held { session, name: format!("s{session}"), token })
        .collect();
    let waiters =
        waiters.iter().map(|&session| Waiter { session, name: format!("s{session}") }).collect();
    let locks = vec![LockView { lock: "a".into(), holders, waiters }];
    Event::Looked { sent, answered: sent + MS, locks }
}

#[test]
fn to_be_served_before_one_that_waited_already_is_found() {
    let history = |third_asks, extra: Option<Event>| {
        let rest = [
            looked(24 * MS, &[(1, 1)], &[2]),
            opened(3, 4 * S, 1),
            asked(3, 1, a(), third_asks),
            granted(3, 1, 2, 60 * MS),
            releasing(3, 2, 70 * MS),
            released(3, 2, 71 * MS),
            granted(2, 1, 3, 72 * MS),
        ];
        with(rest.into_iter().chain(extra))
    };
    assert_eq!(broken(&history(25 * MS, None)), [], "the list came no earlier");
    assert_eq!(broken(&history(25 * MS + 1, None)), [Rule::Fifo]);
    let dropped = Event::Dropped { session: 2, request: 1, at: 30 * MS };
    assert_eq!(broken(&history(25 * MS + 1, Some(dropped))), [], "it may have left the queue");
}

#[test]
fn a_wait_that_its_client_gave_up_is_not_taken_for_the_next_request_of_its_session() {
    let list = |sent, waiters: &[u64]| looked(sent, &[(1, 5)], waiters);
    let history = |lists: Vec<Event>| {
        let given_up =
            Event::Refused { session: 2, request: 1, code: "timed-out".into(), at: 20 * MS };
        let rest = [
            opened(1, 4 * S, 1),
            opened(2, 4 * S, 1),
            opened(3, 4 * S, 1),
            asked(1, 1, a(), 2),
            granted(1, 1, 5, 3),
            asked(2, 1, a(), 4),
            given_up,
            asked(2, 2, a(), 21 * MS),
            asked(3, 1, a(), 30 * MS),
            releasing(1, 5, 40 * MS),
            released(1, 5, 41 * MS),
            granted(3, 1, 6, 42 * MS),
            releasing(3, 6, 50 * MS),
            released(3, 6, 51 * MS),
            granted(2, 2, 7, 52 * MS),
        ];
        let mut all: Vec<Event> = rest.into_iter().chain(lists).collect();
        all.sort_by_key(Event::at);
        all
    };
    let seen = vec![list(22 * MS, &[2])];
    assert_eq!(
        broken(&history(seen)),
        [],
        "the server may not have heard that the first was given up"
    );
    let seen = vec![list(22 * MS, &[]), list(24 * MS, &[2])];
    assert_eq!(broken(&history(seen)), [Rule::Fifo], "the first was gone, so it was the second");
}

#[test]
fn a_repeated_request_with_two_tokens_is_found_and_so_is_one_refused_for_being_repeated() {
    let history = |second: Event| {
        [
            opened(1, 4 * S, 1),
            asked(1, 1, a(), 2),
            Event::Dropped { session: 1, request: 1, at: 3 },
            asked(1, 1, a(), 4),
            granted(1, 1, 5, 5),
            second,
        ]
    };
    let refused = |code: &str| Event::Refused { session: 1, request: 1, code: code.into(), at: 6 };
    assert_eq!(broken(&history(granted(1, 1, 5, 6))), []);
    assert_eq!(broken(&history(granted(1, 1, 6, 6))), [Rule::Once]);
    assert_eq!(broken(&history(refused("timed-out"))), []);
    for code in ["busy", "already-held", "forgotten"] {
        assert_eq!(broken(&history(refused(code))), [Rule::Once], "{code}");
    }
}

#[test]
fn a_session_that_ends_while_its_lease_lasts_is_found() {
    let certain = 4 * S - 4 * S / 64;
    let unknown = |answered| Event::Unknown {
        session: 1,
        code: "unknown-session".into(),
        sent: answered - MS,
        answered,
    };
    assert_eq!(broken(&[opened(1, 4 * S, 1), unknown(1 + certain)]), []);
    assert_eq!(broken(&[opened(1, 4 * S, 1), unknown(certain)]), [Rule::Early]);
    let closing = Event::Closing { session: 1, at: S };
    assert_eq!(broken(&[opened(1, 4 * S, 1), closing, unknown(certain)]), []);
    let renewal = renewed(1, S, S + MS);
    assert_eq!(broken(&[opened(1, 4 * S, 1), renewal, unknown(S + certain - 1)]), [Rule::Early]);
}

#[test]
fn a_lock_that_is_gone_while_its_lease_lasts_is_found() {
    let refused = |at| Event::ReleaseRefused { session: 1, token: 1, code: "not-held".into(), at };
    let held = || [opened(1, 4 * S, 1), asked(1, 1, a(), 2), granted(1, 1, 1, 3)];
    let history = |more: Vec<Event>| broken(&held().into_iter().chain(more).collect::<Vec<_>>());
    assert_eq!(history(vec![releasing(1, 1, S), refused(S + MS)]), [Rule::Early]);
    assert_eq!(history(vec![releasing(1, 1, S), refused(4 * S)]), [], "its lease is over");
    let twice = vec![releasing(1, 1, S), releasing(1, 1, S + 1), refused(S + MS)];
    assert_eq!(history(twice), [], "the first attempt may have done it");
    let after = |force: &[Event]| {
        let rest = [releasing(1, 1, S), refused(S + MS)];
        [&held()[..], force, &rest].concat()
    };
    assert_eq!(broken(&after(&forced(S / 2, &[(1, 1)]))), []);
    assert_eq!(broken(&after(&forced(S / 2, &[(2, 9)]))), [Rule::Early]);
    let unknown = after(&forced(S / 2, &[])[..1]);
    assert_eq!(broken(&unknown), []);
    assert!(left_out(&unknown).contains(&(Rule::Early, "an operator's force had no answer", 1)));
}

#[test]
fn a_client_that_counts_its_lease_itself_and_is_told_of_a_loss_before_its_end_is_found() {
    let history = |why: &str, at| {
        broken(&[
            asked(1, 1, a(), 2),
            granted(1, 1, 1, 3),
            Event::Believed { session: 1, token: 1, at: S, until: 2 * S },
            Event::Lost { session: 1, token: 1, why: why.into(), at },
        ])
    };
    assert_eq!(history("gone", 2 * S - 1), [Rule::Early]);
    assert_eq!(history("gone", 2 * S), []);
    assert_eq!(history("closed", 2 * S - 1), []);
}

#[test]
fn what_is_missing_from_a_list_is_found_and_what_was_released_is_not_missed() {
    assert_eq!(broken(&with([looked(20 * MS, &[(1, 1)], &[])])), []);
    assert_eq!(broken(&with([looked(20 * MS, &[], &[])])), [Rule::Durable]);
    assert_eq!(broken(&with([looked(20 * MS, &[(1, 2)], &[])])), [Rule::Durable]);
    assert_eq!(broken(&with([looked(9 * MS, &[], &[])])), [], "it was not granted yet");
    assert_eq!(broken(&with([looked(49 * MS, &[], &[])])), [], "it was released meanwhile");
}

#[test]
fn what_was_released_or_closed_and_is_still_listed_is_found() {
    assert_eq!(broken(&with([looked(52 * MS, &[(1, 1)], &[])])), [], "the answer may be older");
    assert_eq!(broken(&with([looked(52 * MS + 1, &[(1, 1)], &[])])), [Rule::Ghost]);
    let mut events = with([looked(60 * MS, &[(1, 1)], &[])]);
    events[6] = Event::Closed { session: 1, at: 55 * MS };
    assert_eq!(broken(&events), [Rule::Ghost]);
}

#[test]
fn what_a_dead_client_holds_for_too_long_without_faults_is_found() {
    let silent = Event::Silent { name: "s7".into(), ttl: S, at: S };
    let history = |at, faults: &[(Time, Time)]| {
        let mut events = vec![silent.clone(), looked(at, &[(7, 1)], &[])];
        for (from, to) in faults {
            events.push(Event::FaultBegan { kind: "kill".into(), at: *from });
            events.push(Event::FaultEnded { kind: "kill".into(), at: *to });
        }
        broken(&events)
    };
    assert_eq!(history(13 * S, &[]), []);
    assert_eq!(history(13 * S + 1, &[]), [Rule::Late]);
    assert_eq!(history(13 * S + 1, &[(2 * S, 2 * S + 1)]), []);
    assert_eq!(history(20 * S, &[(2 * S, 5 * S), (7 * S, 11 * S)]), []);
    assert_eq!(history(20 * S + 1, &[(2 * S, 5 * S), (7 * S, 11 * S)]), [Rule::Late]);
}

#[test]
fn a_wait_that_outlives_its_connection_is_found() {
    let history = |at, again: bool| {
        let mut events = vec![
            opened(7, 60 * S, 1),
            asked(7, 1, a(), MS),
            Event::Dropped { session: 7, request: 1, at: S },
            looked(at, &[], &[7]),
        ];
        if again {
            events.push(asked(7, 2, a(), 2 * S));
        }
        broken(&events)
    };
    assert_eq!(history(11 * S, false), []);
    assert_eq!(history(11 * S + 1, false), [Rule::Late]);
    assert_eq!(history(11 * S + 1, true), [], "it is the other request that waits");
}

#[test]
fn a_node_that_ends_otherwise_than_it_was_told_is_found() {
    let exited = |ending, expected| {
        broken(&[Event::NodeExited { ending, expected, said: String::new(), at: 1 }])
    };
    use Ending::{Code, Signal};
    assert_eq!(exited(Signal(9), Some(Signal(9))), []);
    assert_eq!(exited(Code(0), Some(Code(0))), []);
    assert_eq!(exited(Code(24), Some(Code(0))), [Rule::Node]);
    assert_eq!(exited(Code(24), None), [Rule::Node]);
}

#[test]
fn what_never_ends_is_found() {
    let hung = Event::Hung { what: "p".into(), since: 1, at: 2 };
    assert_eq!(broken(&[hung]), [Rule::Progress]);
}

#[test]
fn what_was_judged_is_counted_and_what_was_not_is_named() {
    let verdict = judge(&with([granted(2, 1, 2, 51 * MS), looked(20 * MS, &[(1, 1)], &[])]));
    assert!(verdict.holds());
    assert_eq!(verdict.tallies[&Rule::Holders].judged, 2);
    assert_eq!(verdict.tallies[&Rule::Durable].judged, 1);
    assert_eq!(verdict.tallies.len(), Rule::ALL.len());
    let asked = [asked(1, 1, a(), 1), asked(1, 1, a(), 2)];
    let verdict = judge(&asked);
    assert_eq!(verdict.tallies[&Rule::Once].not_judged["no attempt was answered"], 1);
}
