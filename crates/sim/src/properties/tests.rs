//! Hand-made traces, and what has to be said of them.

use std::time::Duration;

use conclave_protocol::{Links, Model, Mutant, NodeId, Observation, Setup, Time, Topology};

use super::*;
use crate::{End, Event, Owner, Record, RunSpec, Trace};

const ASK: Event = Event::Request(Observation::Asked);
const LEAVE: Event = Event::Request(Observation::Left);
const T: Duration = Duration::from_millis(1);

fn enter(token: u64) -> Event {
    Event::Notice(Observation::Entered { token })
}

fn follow(leader: u32, epoch: u64) -> Event {
    Event::Notice(Observation::Follows { leader: NodeId(leader), epoch })
}

fn send(to: u32, serial: u32) -> Event {
    let (label, owner, bytes, copy) = (0, Owner::Nobody, 0, false);
    Event::Send { to: NodeId(to), serial, label, owner, bytes, copy, control: false }
}

fn deliver(from: u32, serial: u32) -> Event {
    Event::Deliver { from: NodeId(from), serial, label: 0 }
}

fn at(t: u32) -> Time {
    Time::ZERO + T * t
}

/// A run of three nodes: `(when, where, what)`.
fn run(end: End, until: u32, events: &[(u32, u32, Event)]) -> Trace {
    let records = events.iter().map(|&(t, node, event)| Record::new(at(t), NodeId(node), 0, event));
    Trace { nodes: 3, records: records.collect(), end, ended: at(until), ..Trace::default() }
}

/// With patience for ten units.
fn verdict(property: Property, trace: &Trace) -> Verdict {
    judge(property, trace, Limits { places: 1, patience: T * 10 })
}

#[track_caller]
fn held(property: Property, trace: &Trace) {
    let verdict = verdict(property, trace);
    assert!(verdict.held(), "{property}: {verdict:?}");
}

#[track_caller]
fn broken(property: Property, trace: &Trace, words: &str) {
    match verdict(property, trace) {
        Verdict::Violated { why, .. } if why.contains(words) => {}
        other => panic!("{property}: {other:?}"),
    }
}

#[track_caller]
fn undecided(property: Property, trace: &Trace) {
    let verdict = verdict(property, trace);
    assert!(matches!(verdict, Verdict::Open { .. }), "{property}: {verdict:?}");
}

const LIVENESS: [Property; 2] = [Property::NoDeadlock, Property::NoStarvation];

#[test]
fn two_inside_together_break_exclusion_unless_there_are_two_places() {
    let together = run(End::Quiet, 5, &[(0, 0, enter(1)), (1, 1, enter(2)), (2, 0, LEAVE)]);
    broken(Property::Exclusion, &together, "p0 and p1 are inside together");
    let two = Limits { places: 2, patience: T };
    assert!(judge(Property::Exclusion, &together, two).held());
    let gone = [(0, 0, enter(1)), (1, 0, Event::Crash), (2, 1, enter(2)), (3, 1, LEAVE)];
    held(Property::Exclusion, &run(End::Quiet, 5, &gone));
    let lost = [(0, 0, enter(1)), (1, 0, Event::Notice(Observation::Lost)), (1, 1, enter(2))];
    held(Property::Exclusion, &run(End::Quiet, 5, &lost));
}

#[test]
fn who_is_served_in_the_end_has_not_starved_however_long_it_took() {
    let events = [(0, 0, ASK), (5_000, 0, enter(1)), (5_001, 0, LEAVE)];
    for end in [End::Quiet, End::Served, End::TimeLimit, End::EventLimit, End::Decisions] {
        for property in LIVENESS {
            held(property, &run(end, 5_002, &events));
        }
    }
}

#[test]
fn who_waits_when_nothing_is_left_to_happen_waits_for_ever() {
    let one = run(End::Quiet, 1, &[(0, 0, ASK)]);
    broken(Property::NoDeadlock, &one, "p0 waits for ever");
    broken(Property::NoStarvation, &one, "p0 asked and never entered");
    let two = run(End::Quiet, 1, &[(0, 0, ASK), (1, 2, ASK)]);
    broken(Property::NoDeadlock, &two, "p0 and p2 wait for ever");
    let crashed = run(End::Quiet, 2, &[(0, 0, ASK), (1, 0, Event::Crash)]);
    held(Property::NoDeadlock, &crashed);
    held(Property::NoStarvation, &crashed);
}

#[test]
fn a_run_that_was_cut_off_shows_what_exceeds_all_patience() {
    for property in LIVENESS {
        undecided(property, &run(End::TimeLimit, 10, &[(0, 0, ASK)]));
        broken(property, &run(End::TimeLimit, 11, &[(0, 0, ASK)]), "for 11ms");
        broken(property, &run(End::EventLimit, 11, &[(0, 0, ASK)]), "for 11ms");
        // Time means nothing where it only counts decisions.
        undecided(property, &run(End::Decisions, 1_000, &[(0, 0, ASK)]));
    }
    // One starves while another enters again and again.
    let mut events = vec![(0, 0, ASK)];
    for t in 1..20 {
        events.extend([(t, 1, ASK), (t, 1, enter(u64::from(t))), (t, 1, LEAVE)]);
    }
    let unfair = run(End::TimeLimit, 20, &events);
    broken(Property::NoStarvation, &unfair, "p0 asked and did not enter");
    undecided(Property::NoDeadlock, &unfair);
}

#[test]
fn pauses_and_faults_stop_the_clock() {
    let paused = [(0, 0, ASK), (1, 1, Event::Pause)];
    let resumed = [paused[0], paused[1], (90, 1, Event::Resume)];
    for property in LIVENESS {
        undecided(property, &run(End::TimeLimit, 100, &paused));
        undecided(property, &run(End::Quiet, 100, &paused));
        undecided(property, &run(End::TimeLimit, 100, &resumed));
        broken(property, &run(End::TimeLimit, 101, &resumed), "for 11ms");
        broken(property, &run(End::Quiet, 100, &resumed), "p0");
        let crash = [(0, 0, ASK), (50, 1, Event::Crash)];
        undecided(property, &run(End::TimeLimit, 60, &crash));
        let gone = [paused[0], paused[1], (2, 1, Event::Crash)];
        broken(property, &run(End::Quiet, 100, &gone), "p0");
    }
}

#[test]
fn tokens_have_to_grow() {
    let events = |second| [(0, 0, enter(4)), (1, 0, LEAVE), (2, 1, enter(second))];
    held(Property::FenceOrder, &run(End::Quiet, 3, &events(5)));
    broken(Property::FenceOrder, &run(End::Quiet, 3, &events(4)), "p1 entered with token 4");
}

#[test]
fn an_earlier_request_has_to_be_served_first_or_withdrawn() {
    // p0 asks, then tells p1, which asks and enters.
    let overtaken = [(0, 0, ASK), (0, 0, send(1, 7)), (1, 1, deliver(0, 7)), (2, 1, ASK)];
    let with = |more: &[(u32, u32, Event)]| run(End::Quiet, 9, &[&overtaken, more].concat());
    let property = Property::FcfsHappenedBefore;
    held(property, &with(&[]));
    held(property, &with(&[(3, 0, enter(1)), (4, 0, LEAVE), (5, 1, enter(2))]));
    let why = "p0's request happened before p1's, and p1 entered first";
    broken(property, &with(&[(3, 1, enter(1)), (4, 1, LEAVE), (5, 0, enter(2))]), why);
    broken(property, &with(&[(3, 1, enter(1)), (4, 1, LEAVE)]), why);
    held(property, &with(&[(3, 0, Event::Crash), (4, 1, enter(1))]));
    // Without the message, the two requests are concurrent.
    held(property, &run(End::Quiet, 9, &[(0, 0, ASK), (2, 1, ASK), (3, 1, enter(1))]));
}

#[test]
fn the_order_of_many_requests_is_judged_to_the_last() {
    let round = |t| [(t, 0, ASK), (t, 0, enter(u64::from(t))), (t, 0, LEAVE)];
    let mut events: Vec<_> = (0..3_000).flat_map(round).collect();
    held(Property::FcfsHappenedBefore, &run(End::Quiet, 4_000, &events));
    let overtaken = [(3_001, 0, ASK), (3_001, 0, send(1, 7)), (3_002, 1, deliver(0, 7))];
    events.extend(overtaken);
    events.extend([(3_003, 1, ASK), (3_004, 1, enter(4_000))]);
    let why = "p0's request happened before p1's, and p1 entered first";
    broken(Property::FcfsHappenedBefore, &run(End::Quiet, 4_000, &events), why);
}

#[test]
fn leaders_are_counted_by_group() {
    let both = [(0, 0, follow(0, 1)), (0, 2, follow(2, 2)), (0, 1, follow(2, 2))];
    let mut whole = run(End::Quiet, 9, &both);
    broken(Property::OneLeader, &whole, "p0 and p2 each take themselves for the leader");
    let apart = [&both[..], &[(1, 0, Event::Partition(0))]].concat();
    let mut split = run(End::Quiet, 9, &apart);
    split.partitions = vec![vec![0, 1, 1]];
    held(Property::OneLeader, &split);
    split.partitions = vec![vec![0, 1, 0]];
    broken(Property::OneLeader, &split, "p0 and p2");
    let mut healed = run(End::Quiet, 9, &[&apart[..], &[(2, 0, Event::Heal)]].concat());
    healed.partitions = vec![vec![0, 1, 1]];
    broken(Property::OneLeader, &healed, "p0 and p2");
    whole.end = End::TimeLimit;
    undecided(Property::OneLeader, &whole);
    whole.ended = at(11);
    broken(Property::OneLeader, &whole, "p0 and p2");
}

#[test]
fn a_term_has_one_leader() {
    let terms = |second| run(End::Quiet, 9, &[(0, 0, follow(0, 1)), (1, 1, follow(1, second))]);
    held(Property::OneLeaderPerEpoch, &terms(2));
    broken(Property::OneLeaderPerEpoch, &terms(1), "p0 and p1 both lead in epoch 1");
}

#[test]
fn everybody_has_to_know_a_live_leader_and_the_best() {
    let known = [(0, 0, follow(2, 1)), (0, 1, follow(2, 1)), (0, 2, follow(2, 1))];
    for property in [Property::LeaderKnown, Property::BestLeads] {
        held(property, &run(End::Quiet, 9, &known));
        undecided(property, &run(End::TimeLimit, 9, &known));
        undecided(property, &run(End::Decisions, 1_000, &known));
    }
    broken(Property::LeaderKnown, &run(End::Quiet, 9, &known[1..]), "known to p0");
    let dead = [known[0], known[1], known[2], (5, 2, Event::Crash)];
    broken(Property::LeaderKnown, &run(End::Served, 9, &dead), "known to p0 and p1");
    broken(Property::BestLeads, &run(End::Served, 9, &dead), "p1 is the best live node");
    let late = [(0, 1, Event::Request(Observation::Called)), known[0], known[1], known[2], dead[3]];
    undecided(Property::LeaderKnown, &run(End::TimeLimit, 15, &late));
    broken(Property::LeaderKnown, &run(End::TimeLimit, 16, &late), "known to p0 and p1");
}

#[test]
fn detectors_have_time_to_find_out_and_no_right_to_guess() {
    let suspects = |who| Event::Notice(Observation::Suspects(NodeId(who)));
    let found = [(0, 2, Event::Crash), (1, 0, suspects(2)), (1, 1, suspects(2))];
    held(Property::Completeness, &run(End::TimeLimit, 5, &found));
    undecided(Property::Completeness, &run(End::TimeLimit, 5, &found[..2]));
    broken(Property::Completeness, &run(End::TimeLimit, 11, &found[..2]), "p1 does not suspect");
    broken(Property::Completeness, &run(End::Served, 5, &found[..2]), "p1 does not suspect");
    held(Property::Accuracy, &run(End::TimeLimit, 5, &found));
    broken(Property::Accuracy, &run(End::TimeLimit, 5, &found[1..]), "p0 suspects p2, which is up");
}

const INFO: Info = Info {
    id: "mutex/made-up",
    title: "",
    summary: "",
    source: "",
    text: "",
    model: Model { links: Links::Complete, ..Model::FIFO },
    holds: &[Property::Exclusion],
    fails: &[(Property::FcfsTimestamp, "its tokens are no timestamps")],
    options: &[],
    mutant: None,
    ..Info::EMPTY
};

#[test]
fn timestamps_are_judged_only_where_tokens_are_timestamps() {
    assert!(!judgeable(&INFO).contains(&Property::FcfsTimestamp));
    assert!(judgeable(&INFO).contains(&Property::FcfsHappenedBefore));
    let holds = &[Property::FcfsTimestamp];
    assert!(judgeable(&Info { holds, ..INFO }).contains(&Property::FcfsTimestamp));
    let mutant = Some(Mutant { of: "", defect: "", breaks: Property::FcfsTimestamp });
    assert!(judgeable(&Info { mutant, ..INFO }).contains(&Property::FcfsTimestamp));
}

#[test]
fn patience_grows_with_what_took_long_in_the_run() {
    let spec = RunSpec::new(&INFO, Setup::new(Topology::complete(3)));
    let patience =
        |events: &[_]| Limits::of(&INFO, &spec, &run(End::TimeLimit, 1_000, events)).patience;
    let usual = patience(&[(0, 0, ASK)]);
    assert!(usual >= T * 6 * 40, "{usual:?}");
    // A node has been inside since the beginning; a message has been under way as long.
    assert_eq!(patience(&[(0, 0, enter(1))]), usual + T * 6 * 1_000);
    assert!(patience(&[(0, 0, send(1, 0))]) > T * 100_000);
    assert_eq!(patience(&[(0, 0, send(1, 0)), (1, 1, deliver(0, 0))]), usual);
}

#[test]
fn what_is_reported_in_the_step_that_makes_it_so_is_judged_by_what_is_so_then() {
    let report = |value| {
        let note = conclave_protocol::Note { value, ..Default::default() };
        Event::Notice(Observation::Note(note))
    };
    let (so, not) = (Event::Facts(1), Event::Facts(0));
    let timer = Event::Timer { label: 0 };
    let at_once = [(0, 0, not), (1, 0, timer), (1, 0, report(1)), (1, 0, send(1, 1)), (1, 0, so)];
    for property in [Property::Sound, Property::Reported] {
        held(property, &run(End::Quiet, 5, &at_once));
    }
    let early = [(0, 0, not), (1, 0, timer), (1, 0, report(1)), (1, 0, timer), (1, 0, so)];
    broken(Property::Sound, &run(End::Quiet, 5, &early), "not so: terminated");
    let never = run(End::Quiet, 5, &[(0, 0, not), (1, 0, so)]);
    broken(Property::Reported, &never, "never reported: terminated");
    let nothing = run(End::Quiet, 5, &[(0, 0, not)]);
    let verdict = verdict(Property::Reported, &nothing);
    assert!(matches!(verdict, Verdict::Vacuous { .. }), "{verdict:?}");
}
