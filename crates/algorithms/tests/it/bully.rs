//! The bully algorithm and its variants: what they cost, the examples of the literature, and how they
//! fail.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::support::{T, at, costs, nodes, random_election, verdict};
use conclave_algorithms::election::bully::{Bully, IMMEDIATE, PLAIN, RECOVERY};
use conclave_protocol::{Entry, NodeId, Observation, Property, Setup, Time, Topology};
use conclave_sim::{Arrivals, Ask, Event, Fault, Faults, Outcome, Rng, RunSpec, Workload};

const PROMISES: [Property; 3] = [Property::OneLeader, Property::LeaderKnown, Property::BestLeads];

fn simulate(spec: &RunSpec) -> Outcome {
    crate::support::simulate(&PLAIN, spec)
}

/// When elections are called: late enough for everybody to have heard of the dead.
const CALL: u64 = 10;

/// `dead` have crashed before anything happens, and `caller` calls an election; unit delays.
fn call(n: u32, dead: &[u32], caller: u32, mode: &str) -> RunSpec {
    let setup = Setup::new(Topology::complete(n)).with("mode", mode);
    let mut spec = RunSpec::new(&PLAIN.info, setup);
    for &node in dead {
        spec.faults = spec.faults.with(Time::ZERO, Fault::Crash(NodeId(node)));
    }
    let calls = vec![Ask { node: NodeId(caller), at: at(CALL), hold: None }];
    spec.workload = Workload { arrivals: Arrivals::Plan(calls), ..Workload::idle() };
    spec
}

/// Messages by name: `Election`, `Answer`, `Coordinator`.
fn messages(outcome: &Outcome) -> [u64; 3] {
    let by_label = costs(outcome).by_label;
    ["Election", "Answer", "Coordinator"].map(|label| by_label.get(label).copied().unwrap_or(0))
}

/// Who follows whom from when on, in the order of the notices.
fn followings(outcome: &Outcome) -> Vec<(Time, u32, u32)> {
    let follows = |record: &conclave_sim::Record| match record.event() {
        Event::Notice(Observation::Follows { leader, .. }) => {
            Some((record.at, record.node.0, leader.0))
        }
        _ => None,
    };
    outcome.trace.records.iter().filter_map(follows).collect()
}

/// Everybody who ever took itself for the leader.
fn announced(outcome: &Outcome) -> BTreeSet<u32> {
    followings(outcome)
        .into_iter()
        .filter(|(_, node, leader)| node == leader)
        .map(|f| f.1)
        .collect()
}

/// From the call until the last node knows the leader.
fn turnaround(outcome: &Outcome) -> Duration {
    followings(outcome).last().expect("a node was elected").0 - at(CALL)
}

fn assert_promises(outcome: &Outcome) {
    for property in PROMISES {
        let verdict = verdict(property, outcome, 1);
        assert!(verdict.held(), "{property}: {verdict:?}");
    }
}

#[test]
fn probing_costs_what_the_theory_says() {
    for n in 2..=9_u32 {
        for a in 1..n {
            let outcome = simulate(&call(n, &[n - 1], n - 1 - a, "probing"));
            let (n, a) = (u64::from(n), u64::from(a));
            assert_eq!(messages(&outcome), [a * (a + 1) / 2, a * (a - 1) / 2, n - 2], "{n} {a}");
            assert_eq!(outcome.stats.sent, a * a + n - 2);
            let hops = if a > 1 {
                4
            } else if n > 2 {
                3
            } else {
                2
            };
            assert_eq!(turnaround(&outcome), T * hops, "N={n} a={a}");
            assert_promises(&outcome);
        }
    }
}

#[test]
fn knowing_the_dead_costs_what_the_theory_says() {
    for n in 2..=9_u32 {
        for b in 0..n - 1 {
            let outcome = simulate(&call(n, &[n - 1], n - 2 - b, "known-dead"));
            let (n, b) = (u64::from(n), u64::from(b));
            assert_eq!(outcome.stats.sent, b * (b + 1) + n - 2, "N={n} b={b}");
            if b == 0 && n > 2 {
                assert_eq!(turnaround(&outcome), T, "the best case takes one message time");
            }
            assert_promises(&outcome);
        }
    }
}

#[test]
fn the_instances_of_the_theory_table() {
    let probing = [
        (8, 1, 7, 3, [1, 0, 6]),
        (8, 3, 15, 4, [6, 3, 6]),
        (8, 7, 55, 4, [28, 21, 6]),
        (6, 3, 13, 4, [6, 3, 4]),
        (5, 3, 12, 4, [6, 3, 3]),
    ];
    for (n, a, total, hops, by_label) in probing {
        let outcome = simulate(&call(n, &[n - 1], n - 1 - a, "probing"));
        assert_eq!((outcome.stats.sent, messages(&outcome)), (total, by_label));
        assert_eq!(turnaround(&outcome), T * hops);
    }
    for (n, b, total) in [(8, 0, 6), (8, 2, 12), (8, 6, 48)] {
        let outcome = simulate(&call(n, &[n - 1], n - 2 - b, "known-dead"));
        assert_eq!(outcome.stats.sent, total);
    }
}

#[test]
fn processing_time_lengthens_the_time_out() {
    let mut spec = call(8, &[7], 4, "probing");
    spec.setup.processing = T / 2;
    assert_eq!(turnaround(&simulate(&spec)), T * 4 + T / 2);
}

#[test]
fn of_eight_with_the_top_dead_four_calls_and_six_leads() {
    let outcome = simulate(&call(8, &[7], 4, "probing"));
    assert_eq!(messages(&outcome), [6, 3, 6]);
    assert_eq!(turnaround(&outcome), T * 4);
    assert_eq!(announced(&outcome), BTreeSet::from([6]));
    let known = simulate(&call(8, &[7], 4, "known-dead"));
    assert_eq!(known.stats.sent, 12);
    assert_eq!(announced(&known), BTreeSet::from([6]));
}

#[test]
fn of_one_to_five_with_five_dead_two_calls_and_four_leads() {
    // The example numbers its nodes from one.
    let outcome = simulate(&call(5, &[4], 1, "probing"));
    assert_eq!(outcome.stats.sent, 12);
    assert_eq!(announced(&outcome), BTreeSet::from([3]));
}

#[test]
fn of_six_with_the_top_dead_two_calls_and_four_leads() {
    let outcome = simulate(&call(6, &[5], 2, "probing"));
    assert_eq!(outcome.stats.sent, 13);
    assert_eq!(announced(&outcome), BTreeSet::from([4]));
}

#[test]
fn a_time_out_below_a_round_trip_makes_three_leaders() {
    let mut spec = call(8, &[7], 4, "probing");
    spec.setup = spec.setup.with("timeout", 150);
    let outcome = simulate(&spec);
    assert_eq!(announced(&outcome), BTreeSet::from([4, 5, 6]));
    // A full round trip is enough, although the answer arrives at the very moment it ends.
    spec.setup = spec.setup.with("timeout", 200);
    assert_eq!(announced(&simulate(&spec)), BTreeSet::from([6]));
}

#[test]
fn each_side_of_a_partition_elects_its_own() {
    // The nodes of the example are 1 to 5.
    let mut spec = call(6, &[0], 1, "probing");
    let groups = vec![nodes([1, 2, 3]).to_vec(), nodes([4, 5]).to_vec()];
    spec.faults = spec.faults.with(at(1), Fault::Partition(groups));
    let Arrivals::Plan(calls) = &mut spec.workload.arrivals else { unreachable!("a plan") };
    calls.push(Ask { node: NodeId(4), at: at(CALL), hold: None });
    let outcome = simulate(&spec);
    assert_eq!(announced(&outcome), BTreeSet::from([3, 5]));
    // One to each side, but in the same term.
    assert!(verdict(Property::OneLeader, &outcome, 1).held());
    assert!(verdict(Property::OneLeaderPerEpoch, &outcome, 1).is_violated());
}

#[test]
fn after_a_partition_a_call_reunites_everybody_under_the_top() {
    let mut spec = call(6, &[0], 1, "probing");
    let groups = vec![nodes([1, 2, 3]).to_vec(), nodes([4, 5]).to_vec()];
    spec.faults = spec.faults.with(at(1), Fault::Partition(groups)).with(at(60), Fault::Heal);
    let Arrivals::Plan(calls) = &mut spec.workload.arrivals else { unreachable!("a plan") };
    // The lower side elects more often, and its counter is ahead.
    for t in [10, 20, 30] {
        calls.push(Ask { node: NodeId(3), at: at(t), hold: None });
    }
    calls.push(Ask { node: NodeId(4), at: at(CALL), hold: None });
    calls.push(Ask { node: NodeId(1), at: at(80), hold: None });
    assert_promises(&simulate(&spec));
}

#[test]
fn a_lost_answer_makes_a_second_leader() {
    let mut spec = call(3, &[2], 0, "probing");
    spec.faults = spec.faults.with(at(1), Fault::Lose { label: "Answer".to_owned() });
    assert_eq!(announced(&simulate(&spec)), BTreeSet::from([0, 1]));
    // If the announcement is lost as well, both stay.
    spec.faults = spec.faults.with(at(1), Fault::Lose { label: "Coordinator".to_owned() });
    assert!(verdict(Property::OneLeader, &simulate(&spec), 1).is_violated());
}

#[test]
fn who_answers_and_crashes_is_replaced_after_a_second_election() {
    let mut spec = call(3, &[2], 0, "probing");
    spec.faults = spec.faults.with(at(CALL) + T * 3 / 2, Fault::Crash(NodeId(1)));
    let outcome = simulate(&spec);
    assert_promises(&outcome);
    // The answer comes after 2T, the outcome is overdue 5T later, and no node answers for 2T more.
    assert_eq!(followings(&outcome), [(at(CALL + 9), 0, 0)]);
}

#[test]
fn a_recovered_top_takes_over_and_a_recovered_other_learns_who_leads() {
    let mut spec = call(5, &[4, 2], 0, "probing");
    spec.faults =
        spec.faults.with(at(40), Fault::Recover(NodeId(2))).with(at(60), Fault::Recover(NodeId(4)));
    let outcome = simulate(&spec);
    assert_promises(&outcome);
    let follows = followings(&outcome);
    let first = |node| follows.iter().find(|f| f.1 == node && f.0 >= at(40)).map(|f| (f.0, f.2));
    assert_eq!(first(2), Some((at(42), 3)));
    assert_eq!(first(4), Some((at(60), 4)));
    assert_eq!(followings(&outcome).last().map(|f| f.2), Some(4));
}

#[test]
fn terms_grow_although_the_recovered_top_has_missed_some() {
    let mut spec = call(4, &[3], 0, "probing");
    let Arrivals::Plan(calls) = &mut spec.workload.arrivals else { unreachable!("a plan") };
    for t in [20, 30, 40] {
        calls.push(Ask { node: NodeId(2), at: at(t), hold: None });
    }
    spec.faults = spec.faults.with(at(60), Fault::Recover(NodeId(3)));
    let outcome = simulate(&spec);
    assert_promises(&outcome);
    for node in 0..3 {
        let epochs: Vec<u64> = outcome
            .trace
            .records
            .iter()
            .filter(|record| record.node == NodeId(node))
            .filter_map(|record| match record.event() {
                Event::Notice(Observation::Follows { epoch, .. }) => Some(epoch),
                _ => None,
            })
            .collect();
        assert!(epochs.is_sorted_by(|a, b| a < b), "p{node}: {epochs:?}");
    }
}

#[test]
fn crashes_and_recoveries_during_elections_are_survived_in_both_modes() {
    for mode in ["probing", "known-dead"] {
        for seed in 0..400 {
            let n = 2 + (seed % 8) as u32;
            let setup = Setup::new(Topology::complete(n)).with("mode", mode);
            let spec = random_election(&PLAIN, setup, seed);
            assert_eq!(spec.beyond(&PLAIN.info), []);
            let outcome = simulate(&spec);
            for property in PROMISES {
                let verdict = verdict(property, &outcome, 1);
                assert!(verdict.held(), "{mode} n={n} seed={seed} {property}: {verdict:?}");
            }
        }
    }
}

#[test]
fn the_outcome_does_not_depend_on_who_calls() {
    for callers in 1..64_u32 {
        let mut spec = call(6, &[5], 0, "probing");
        let called = (0..5).filter(|caller| callers >> caller & 1 == 1);
        let calls: Vec<Ask> =
            called.map(|c| Ask { node: NodeId(c), at: at(CALL), hold: None }).collect();
        if calls.is_empty() {
            continue;
        }
        spec.workload = Workload { arrivals: Arrivals::Plan(calls), ..Workload::idle() };
        spec.faults = Faults::none().with(Time::ZERO, Fault::Crash(NodeId(5)));
        assert_eq!(announced(&simulate(&spec)), BTreeSet::from([4]));
    }
}

/// A run of one of the variants in which these nodes call.
fn variant(entry: &Entry<Bully>, setup: Setup, calls: &[(u32, u64)]) -> RunSpec {
    let mut spec = RunSpec::new(&entry.info, setup);
    let asks = calls.iter().map(|&(node, t)| Ask { node: NodeId(node), at: at(t), hold: None });
    spec.workload = Workload { arrivals: Arrivals::Plan(asks.collect()), ..Workload::idle() };
    spec
}

#[test]
fn whoever_knows_to_be_the_highest_announces_itself_at_once() {
    for n in 3..=9_u32 {
        let setup = || Setup::new(Topology::complete(n));
        // The leader has died, and the next one calls.
        let mut spec = variant(&IMMEDIATE, setup(), &[(n - 2, CALL)]);
        spec.faults = Faults::none().with(Time::ZERO, Fault::Crash(NodeId(n - 1)));
        let outcome = crate::support::simulate(&IMMEDIATE, &spec);
        assert_eq!(messages(&outcome), [0, 0, u64::from(n) - 2]);
        assert_eq!(turnaround(&outcome), T);
        assert_promises(&outcome);
        // The highest of all restarts.
        let mut spec = variant(&IMMEDIATE, setup(), &[]);
        spec.faults = Faults::none()
            .with(at(1), Fault::Crash(NodeId(n - 1)))
            .with(at(CALL), Fault::Recover(NodeId(n - 1)));
        let outcome = crate::support::simulate(&IMMEDIATE, &spec);
        assert_eq!(messages(&outcome), [0, 0, u64::from(n) - 1]);
        assert_eq!(turnaround(&outcome), T);
        assert_promises(&outcome);
    }
}

#[test]
fn a_wrong_suspicion_makes_an_immediate_leader_beside_the_live_one() {
    let mut spec = variant(&IMMEDIATE, Setup::new(Topology::complete(3)), &[(2, 0)]);
    let [top, second] = [NodeId(2), NodeId(1)];
    spec.faults = Faults::none().with(at(5), Fault::Suspect { node: second, peer: top });
    let outcome = crate::support::simulate(&IMMEDIATE, &spec);
    assert!(verdict(Property::OneLeader, &outcome, 1).is_violated());
    assert_eq!(outcome.trace.leaders().leaders().collect::<Vec<_>>(), [second, top]);
    // Once the mistake is seen, the election is repeated.
    spec.faults = spec.faults.with(at(20), Fault::Trust { node: second, peer: top });
    assert_promises(&crate::support::simulate(&IMMEDIATE, &spec));
    // Who asks those it suspects is not misled.
    let mut spec = variant(&PLAIN, Setup::new(Topology::complete(3)), &[(2, 0)]);
    spec.faults = Faults::none().with(at(5), Fault::Suspect { node: second, peer: top });
    assert_promises(&simulate(&spec));
}

/// Who leads in whose eyes changes so often, seen from node 0.
fn changes(outcome: &Outcome) -> Vec<u32> {
    followings(outcome).into_iter().filter(|f| f.1 == 0).map(|f| f.2).collect()
}

#[test]
fn a_leader_that_flaps_moves_leadership_each_time_unless_it_defers() {
    const CYCLES: u64 = 6;
    let flapping = |mode: &str| {
        let setup = Setup::new(Topology::complete(5)).with("mode", mode);
        let mut spec = variant(&RECOVERY, setup, &[(0, 0)]);
        for cycle in 0..CYCLES {
            let (down, up) = (at(20 + 20 * cycle), at(30 + 20 * cycle));
            spec.faults =
                spec.faults.with(down, Fault::Crash(NodeId(4))).with(up, Fault::Recover(NodeId(4)));
        }
        assert_eq!(spec.beyond(&RECOVERY.info), []);
        crate::support::simulate(&RECOVERY, &spec)
    };
    let reclaiming = flapping("reclaim");
    assert_eq!(changes(&reclaiming), [&[4][..], &[3, 4].repeat(CYCLES as usize)].concat());
    assert_promises(&reclaiming);
    let deferring = flapping("defer");
    assert_eq!(changes(&deferring), [4, 3]);
    for property in [Property::OneLeader, Property::LeaderKnown] {
        assert!(verdict(property, &deferring, 1).held());
    }
    assert!(verdict(Property::BestLeads, &deferring, 1).is_violated());
}

#[test]
fn to_ask_who_leads_takes_a_message_to_each_and_one_answer() {
    let setup = Setup::new(Topology::complete(6)).with("mode", "defer");
    let mut spec = variant(&RECOVERY, setup, &[]);
    spec.faults =
        Faults::none().with(at(0), Fault::Crash(NodeId(5))).with(at(30), Fault::Recover(NodeId(5)));
    let Arrivals::Plan(calls) = &mut spec.workload.arrivals else { unreachable!("a plan") };
    calls.push(Ask { node: NodeId(4), at: at(10), hold: None });
    let outcome = crate::support::simulate(&RECOVERY, &spec);
    let by_label = costs(&outcome).by_label;
    assert_eq!((by_label["Inquiry"], by_label["InquiryRep"]), (5, 1));
    assert_eq!(followings(&outcome).last(), Some(&(at(32), 5, 4)));
}

#[test]
fn who_comes_back_regains_control_or_learns_who_has_it() {
    for mode in ["reclaim", "defer"] {
        for seed in 0..400 {
            let n = 2 + (seed % 8) as u32;
            let mut rng = Rng::new(seed);
            let setup = Setup::new(Topology::complete(n)).with("mode", mode);
            let attributes = (0..n).map(|_| rng.below(3)).collect::<Vec<_>>();
            let spec = random_election(&RECOVERY, setup.with_attributes(attributes), seed);
            assert_eq!(spec.beyond(&RECOVERY.info), []);
            let outcome = crate::support::simulate(&RECOVERY, &spec);
            let promised = if mode == "defer" { &PROMISES[..2] } else { &PROMISES };
            for &property in promised {
                let verdict = verdict(property, &outcome, 1);
                assert!(verdict.held(), "{mode} n={n} seed={seed} {property}: {verdict:?}");
            }
        }
    }
}

#[test]
fn who_comes_back_with_an_old_counter_and_a_low_id_leads_all_the_same() {
    // The best of them has the lowest id; of two terms with the same counter, the better leader's is
    // the later one, whatever its id.
    let setup = Setup::new(Topology::complete(3)).with_attributes([9, 1, 2]);
    let mut spec = variant(&PLAIN, setup, &[(0, 0)]);
    spec.faults = Faults::none()
        .with(at(10), Fault::Crash(NodeId(0)))
        .with(at(40), Fault::Recover(NodeId(0)));
    let outcome = simulate(&spec);
    assert_promises(&outcome);
    assert_eq!(outcome.trace.leaders().leader_of(NodeId(2)), Some((NodeId(0), 2)));
}

/// A refusal of old news must not be taken for silence: found among nodes that come and go.
#[test]
fn an_old_announcement_from_above_is_a_sign_of_life() {
    let entry = &conclave_algorithms::election::bully::IMMEDIATE;
    let setup = crate::support::complete(3).with_attributes([1, 2, 1]);
    let mut spec = RunSpec::new(&entry.info, setup);
    spec.seed = 655;
    spec.delays = conclave_sim::Delay::Uniform(T / 20, T).into();
    let moment = |nanos: u64| conclave_protocol::Time::from_nanos(nanos);
    let [p1, p2] = [NodeId(1), NodeId(2)];
    spec.faults = Faults::none()
        .with(moment(7_142_857), Fault::Crash(p2))
        .with(moment(482_142_857), Fault::Recover(p2))
        .with(moment(487_285_714), Fault::Crash(p1))
        .with(moment(967_285_714), Fault::Recover(p1));
    let call = |t| Ask { node: NodeId(0), at: at(t), hold: None };
    let arrivals = Arrivals::Plan([1, 489, 968].map(call).to_vec());
    spec.workload = Workload { arrivals, ..Workload::idle() };
    spec.linger = Some(T * 400);
    let outcome = crate::support::simulate(entry, &spec);
    assert!(verdict(Property::OneLeader, &outcome, 1).held());
    assert!(verdict(Property::BestLeads, &outcome, 1).held());
}
