//! Elections on a ring: what they cost, the examples of the literature, and how they fail.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::support::{T, at, complete, costs, held, lose, ring, simulate, tenths, verdict};
use conclave_algorithms::election::chang_roberts::{self, ChangRoberts};
use conclave_algorithms::election::support::ring::Ring;
use conclave_algorithms::election::{
    frederickson_lynch, le_lann, ring_inquiry, ring_list, ring_modified, ring_reconfiguration,
    ring_watchdog,
};
use conclave_protocol::{Algorithm, Entry, NodeId, Observation, Property, Setup, Time, Topology};
use conclave_sim::{
    Arrivals, Ask, Delay, End, Event, Fault, Outcome, Rng, RunSpec, Tracing, Workload,
};

const PROMISES: [Property; 3] = [Property::OneLeader, Property::LeaderKnown, Property::BestLeads];

/// These call an election at the given times, in tenths of a unit; unit delays.
fn calling(entry: &dyn Algorithm, setup: Setup, calls: &[(u32, u32)]) -> RunSpec {
    let mut spec = RunSpec::new(entry.info(), setup);
    plan(&mut spec, calls);
    spec.linger = Some(T * 2_000);
    spec.until = at(20_000);
    spec
}

fn plan(spec: &mut RunSpec, calls: &[(u32, u32)]) {
    let ask = |&(node, t): &(u32, u32)| Ask { node: NodeId(node), at: tenths(t), hold: None };
    let arrivals = Arrivals::Plan(calls.iter().map(ask).collect());
    spec.workload = Workload { arrivals, ..Workload::idle() };
}

/// The same with crashes, likewise.
fn crashing(mut spec: RunSpec, crashes: &[(u32, u32)]) -> RunSpec {
    for &(node, t) in crashes {
        spec.faults = spec.faults.with(tenths(t), Fault::Crash(NodeId(node)));
    }
    spec
}

fn count(outcome: &Outcome, label: &str) -> u64 {
    costs(outcome).by_label.get(label).copied().unwrap_or(0)
}

/// Messages that arrived, but for acknowledgements.
fn delivered(outcome: &Outcome) -> u64 {
    let label = |event| match event {
        Event::Deliver { label, .. } => Some(outcome.trace.name(label)),
        _ => None,
    };
    let records = outcome.trace.records.iter();
    records.filter_map(|record| label(record.event())).filter(|label| *label != "Ack").count()
        as u64
}

/// When the last message arrived that is no acknowledgement.
fn over(outcome: &Outcome) -> Duration {
    let arrival = |event| match event {
        Event::Deliver { label, .. } => outcome.trace.name(label) != "Ack",
        _ => false,
    };
    let mut records = outcome.trace.records.iter().rev();
    records.find(|record| arrival(record.event())).map_or(Duration::ZERO, |it| it.at - Time::ZERO)
}

/// Whom the live nodes follow.
fn leaders(outcome: &Outcome) -> BTreeSet<u32> {
    let leaders = &outcome.trace.leaders();
    leaders.followers().filter(|it| leaders.is_live(it.0)).map(|(_, leader, _)| leader.0).collect()
}

/// Everybody who ever took itself for the leader.
fn announced(outcome: &Outcome) -> BTreeSet<u32> {
    let leads = |record: &conclave_sim::Record| match record.event() {
        Event::Notice(Observation::Follows { leader, .. }) if leader == record.node => {
            Some(leader.0)
        }
        _ => None,
    };
    outcome.trace.records.iter().filter_map(leads).collect()
}

fn assert_promises(outcome: &Outcome, what: &str) {
    for property in PROMISES {
        let verdict = verdict(property, outcome, 1);
        assert!(verdict.held(), "{what}: {property}: {verdict:?}");
    }
}

/// Every order of the numbers from 1 to n.
fn orders(n: u64) -> Vec<Vec<u64>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let shorter = orders(n - 1).into_iter();
    let grow = |order: Vec<u64>| {
        (0..n as usize).map(move |place| {
            let mut longer = order.clone();
            longer.insert(place, n);
            longer
        })
    };
    shorter.flat_map(grow).collect()
}

mod chang_and_roberts {
    use super::*;

    const PLAIN: &Entry<ChangRoberts> = &chang_roberts::PLAIN;

    #[test]
    fn one_caller_costs_d_plus_two_rounds() {
        for n in 1..=9 {
            for caller in 0..n {
                let outcome = simulate(PLAIN, &calling(PLAIN, ring(n), &[(caller, 0)]));
                let (d, n) = (u64::from(n - 1 - caller), u64::from(n));
                let hops = if n == 1 { 0 } else { d + 2 * n };
                assert_eq!(outcome.stats.sent, hops, "N={n} d={d}");
                assert_eq!(over(&outcome), T * hops as u32);
                assert_promises(&outcome, "one caller");
            }
        }
    }

    #[test]
    fn the_mean_over_all_callers_is_n_and_half_the_others() {
        for n in 2..=12 {
            let sent = |caller| {
                let outcome = simulate(PLAIN, &calling(PLAIN, ring(n), &[(caller, 0)]));
                count(&outcome, "Election")
            };
            let total: u64 = (0..n).map(sent).sum();
            // N·(N + (N − 1)/2), without fractions.
            assert_eq!(2 * total, u64::from(n * (2 * n + n - 1)), "N={n}");
        }
    }

    #[test]
    fn all_call_in_falling_and_in_rising_order() {
        for n in 2..=10_u32 {
            let all: Vec<(u32, u32)> = (0..n).map(|node| (node, 0)).collect();
            let rising = simulate(PLAIN, &calling(PLAIN, ring(n), &all));
            let falling: Vec<u64> = (0..u64::from(n)).rev().collect();
            let falling = ring(n).with_attributes(falling);
            let falling = simulate(PLAIN, &calling(PLAIN, falling, &all));
            let wide = u64::from(n);
            assert_eq!(rising.stats.sent, 3 * wide - 1, "N={n}");
            assert_eq!(falling.stats.sent, wide * (wide + 1) / 2 + wide, "N={n}");
            assert_eq!([over(&rising), over(&falling)], [T * 2 * n; 2]);
            assert_eq!(leaders(&falling), BTreeSet::from([0]));
        }
    }

    #[test]
    fn all_call_in_any_order_takes_n_harmonic_on_average() {
        for n in 1..=6_u64 {
            let all: Vec<(u32, u32)> = (0..n as u32).map(|node| (node, 0)).collect();
            let orders = orders(n);
            let mut total = 0;
            for order in &orders {
                let setup = ring(n as u32).with_attributes(order.clone());
                total += count(&simulate(PLAIN, &calling(PLAIN, setup, &all)), "Election");
            }
            if n == 1 {
                // Messages to oneself are free.
                assert_eq!(total, 0);
                continue;
            }
            // N·H(N)·N!, in whole numbers: N·(N!/1 + N!/2 + …).
            let many = orders.len() as u64;
            assert_eq!(total, n * (1..=n).map(|i| many / i).sum::<u64>(), "N={n}");
        }
    }

    #[test]
    fn the_examples_of_eight_with_attributes_as_ids() {
        let examples: [([u64; 8], u64, u32, &[u64]); 2] = [
            ([17, 4, 24, 9, 1, 15, 28, 33], 23, 7, &[17, 17, 24, 24, 24, 24, 28]),
            ([19, 4, 24, 9, 1, 15, 28, 3], 22, 6, &[19, 19, 24, 24, 24, 24, 28]),
        ];
        for (ids, messages, leader, carried) in examples {
            let mut spec = calling(PLAIN, ring(8).with_attributes(ids), &[(0, 0)]);
            spec.tracing = Tracing::Full;
            let outcome = simulate(PLAIN, &spec);
            assert_eq!(outcome.stats.sent, messages);
            assert_eq!(leaders(&outcome), BTreeSet::from([leader]));
            let best = |msg: &str| {
                let text = msg.split("\"attribute\":").nth(1)?;
                text.split([',', '}']).next()?.parse::<u64>().ok()
            };
            let messages = outcome.trace.messages.iter();
            let first: Vec<u64> = messages.filter_map(|msg| best(msg)).take(7).collect();
            assert_eq!(first, carried);
        }
    }

    #[test]
    fn without_the_best_node_its_id_is_lost_and_nobody_leads() {
        let spec = crashing(calling(PLAIN, ring(5), &[(4, 0)]), &[(4, 15)]);
        let outcome = simulate(PLAIN, &spec);
        assert_eq!(outcome.trace.end, End::Quiet, "everybody waits");
        assert!(leaders(&outcome).is_empty());
        assert!(verdict(Property::LeaderKnown, &outcome, 1).is_violated());
        // No node can call another, for all take part in this one.
        let again = crashing(calling(PLAIN, ring(5), &[(4, 0), (1, 300)]), &[(4, 15)]);
        assert!(leaders(&simulate(PLAIN, &again)).is_empty());
    }

    #[test]
    fn on_a_repaired_ring_the_id_of_a_dead_node_goes_round_for_ever() {
        let entry = &chang_roberts::REPAIRED;
        // It has passed the first hop, and everybody knows of the death before it is back.
        let mut spec = crashing(calling(entry, complete(5), &[(4, 0)]), &[(4, 11)]);
        spec.linger = None;
        spec.until = at(5_000);
        let outcome = simulate(entry, &spec);
        assert_eq!(outcome.trace.end, End::TimeLimit, "it never rests");
        assert!(count(&outcome, "Election") > 4_900, "one hop after the other");
        assert!(verdict(Property::LeaderKnown, &outcome, 1).is_violated());
    }

    #[test]
    fn the_last_one_alive_does_not_pass_on_to_itself_what_the_dead_have_sent() {
        let entry = &chang_roberts::REPAIRED;
        for moment in 0..60 {
            let spec = crashing(calling(entry, complete(2), &[(0, 0), (1, 0)]), &[(1, moment)]);
            let outcome = simulate(entry, &spec);
            assert_eq!(outcome.trace.end, End::Quiet, "p1 crashes at {moment}");
        }
    }

    #[test]
    fn on_a_repaired_ring_a_dead_winner_is_followed() {
        let entry = &chang_roberts::REPAIRED;
        // Everybody knows of its death before it hears of its election.
        let mut spec = crashing(calling(entry, complete(5), &[(4, 0)]), &[(4, 51)]);
        spec.detector = Some(T / 10);
        let outcome = simulate(entry, &spec);
        assert_eq!(leaders(&outcome), BTreeSet::from([4]));
        assert!(verdict(Property::BestLeads, &outcome, 1).is_violated());
    }

    #[test]
    fn on_a_repaired_ring_the_death_of_the_leader_is_noticed() {
        let entry = &chang_roberts::REPAIRED;
        let spec = crashing(calling(entry, complete(5), &[(1, 0)]), &[(4, 300)]);
        assert_promises(&simulate(entry, &spec), "after the election");
    }

    #[test]
    fn two_with_the_same_attribute_both_win_if_ids_do_not_count() {
        let setup = || ring(2).with_attributes([5, 5]);
        let calls = [(0, 0), (1, 0)];
        let bare = &chang_roberts::BARE;
        let outcome = simulate(bare, &calling(bare, setup(), &calls));
        assert_eq!(outcome.trace.leaders().leaders().count(), 2);
        assert!(verdict(Property::OneLeader, &outcome, 1).is_violated());
        let sound = &chang_roberts::BY_ATTRIBUTE;
        let outcome = simulate(sound, &calling(sound, setup(), &calls));
        assert_eq!(leaders(&outcome), BTreeSet::from([1]));
        assert_promises(&outcome, "by attribute");
    }

    #[test]
    fn a_hundred_thousand_nodes_elect_in_the_worst_case() {
        let n = 100_000;
        let mut spec = calling(PLAIN, ring(n), &[(0, 0)]);
        (spec.tracing, spec.linger, spec.until) = (Tracing::Off, None, Time::MAX);
        let outcome = simulate(PLAIN, &spec);
        assert_eq!(outcome.stats.sent, 3 * u64::from(n) - 1);
        assert!(outcome.stats.pending < 10, "one message at a time");
        assert_promises(&outcome, "a hundred thousand");
    }
}

#[test]
fn le_lann_takes_the_square_whoever_calls() {
    let entry = &le_lann::PLAIN;
    for n in 2..=7_u32 {
        for callers in 1..1_u32 << n {
            let calls: Vec<(u32, u32)> =
                (0..n).filter(|node| callers >> node & 1 == 1).map(|node| (node, 0)).collect();
            let outcome = simulate(entry, &calling(entry, ring(n), &calls));
            assert_eq!(outcome.stats.sent, u64::from(n * n));
            assert_eq!(leaders(&outcome), BTreeSet::from([n - 1]));
        }
    }
}

mod frederickson_and_lynch {
    use super::*;

    const PLAIN: &Entry<frederickson_lynch::FredericksonLynch> = &frederickson_lynch::PLAIN;

    fn all(ids: Vec<u64>) -> RunSpec {
        let n = ids.len() as u32;
        let calls: Vec<(u32, u32)> = (0..n).map(|node| (node, 0)).collect();
        calling(PLAIN, ring(n).with_attributes(ids), &calls)
    }

    /// When the winner knew.
    fn rounds(outcome: &Outcome) -> Duration {
        let follows = |event| matches!(event, Event::Notice(Observation::Follows { .. }));
        let mut records = outcome.trace.records.iter();
        records.find(|record| follows(record.event())).expect("a node leads").at - Time::ZERO
    }

    #[test]
    fn of_five_the_lowest_wins_after_ten_rounds_and_seven_messages_at_most() {
        let mut found = BTreeSet::new();
        for order in orders(5) {
            let outcome = simulate(PLAIN, &all(order.clone()));
            let lowest = order.iter().position(|&id| id == 1).expect("one of them is 1") as u32;
            assert_eq!(leaders(&outcome), BTreeSet::from([lowest]));
            assert_eq!(rounds(&outcome), T * 10);
            found.insert(count(&outcome, "Token"));
            assert_eq!([count(&outcome, "Elected"), count(&outcome, "Wake")], [5, 5]);
        }
        assert_eq!(found, BTreeSet::from([5, 6, 7]));
    }

    #[test]
    fn less_than_two_tokens_a_node_and_n_times_two_to_the_lowest_rounds() {
        let mut rng = Rng::new(4);
        for n in 2..=60_u64 {
            for lowest in 1..=4 {
                let mut ids: Vec<u64> = (lowest..lowest + n).collect();
                for i in (1..ids.len()).rev() {
                    ids.swap(i, rng.below(i as u64 + 1) as usize);
                }
                let outcome = simulate(PLAIN, &all(ids));
                assert!(count(&outcome, "Token") < 2 * n, "N={n}");
                assert_eq!(rounds(&outcome), T * (n as u32) * (1 << lowest));
            }
        }
    }

    #[test]
    fn one_caller_wakes_everybody() {
        for caller in 0..6 {
            let outcome = simulate(PLAIN, &calling(PLAIN, ring(6), &[(caller, 0)]));
            assert_eq!(leaders(&outcome), BTreeSet::from([0]));
            assert_eq!(count(&outcome, "Wake"), 6);
            for property in PLAIN.info.holds {
                assert!(held(*property, &outcome));
            }
            assert!(verdict(Property::BestLeads, &outcome, 1).is_violated(), "the lowest leads");
        }
    }

    #[test]
    fn the_lowest_of_equal_attributes_is_the_first_of_them() {
        let outcome = simulate(PLAIN, &all(vec![3, 2, 4, 2]));
        assert_eq!(leaders(&outcome), BTreeSet::from([1]));
    }

    #[test]
    fn if_speeds_are_not_what_they_should_be_it_costs_more_than_promised() {
        // Next to such delays the waits of the tokens make no difference: none is overtaken.
        let n = 8;
        let mut spec = all((1..=n).collect());
        spec.delays = Delay::Constant(T * 10_000).into();
        (spec.linger, spec.until) = (None, Time::MAX);
        let outcome = simulate(PLAIN, &spec);
        assert_eq!(leaders(&outcome), BTreeSet::from([0]), "slower, but no less right");
        assert_eq!(count(&outcome, "Token"), n * (n + 1) / 2, "far more than 2N");
    }

    #[test]
    fn ids_it_cannot_wait_for_are_refused() {
        let refused = |ids: &[u64]| {
            let setup = ring(ids.len() as u32).with_attributes(ids);
            (PLAIN.config)(&setup).expect_err("it does not fit").to_string()
        };
        assert!(refused(&[3, 0]).contains("positive"));
        assert!(refused(&[21, 30]).contains("2^21 rounds"));
        assert!(refused(&[u64::MAX, u64::MAX]).contains("20 at most"));
        // The others may be as high as they like.
        let outcome = simulate(PLAIN, &all(vec![u64::MAX, 2, 1 << 40]));
        assert_eq!(leaders(&outcome), BTreeSet::from([1]));
    }
}

mod lists {
    use super::*;

    const PLAIN: &Entry<Ring> = &ring_list::PLAIN;
    const ALL: [&Entry<Ring>; 6] = [
        &ring_list::PLAIN,
        &ring_list::INITIATOR,
        &ring_inquiry::PLAIN,
        &ring_modified::PLAIN,
        &ring_watchdog::PLAIN,
        &ring_reconfiguration::PLAIN,
    ];

    #[test]
    fn every_initiator_costs_two_rounds() {
        for entry in ALL {
            for n in 2..=8_u32 {
                for initiators in 1..=n {
                    let calls: Vec<(u32, u32)> = (0..initiators).map(|node| (node, 0)).collect();
                    let outcome = simulate(entry, &calling(entry, complete(n), &calls));
                    assert_eq!(delivered(&outcome), u64::from(2 * n * initiators));
                    assert_eq!(count(&outcome, "Ack"), delivered(&outcome));
                    assert_eq!(over(&outcome), T * 2 * n);
                    assert_promises(&outcome, entry.info.id);
                }
            }
        }
    }

    #[test]
    fn of_eight_with_the_top_dead_three_and_six_call_and_seven_leads() {
        // The example numbers its nodes from one.
        let spec = crashing(calling(PLAIN, complete(8), &[(2, 10), (5, 10)]), &[(7, 0)]);
        let outcome = simulate(PLAIN, &spec);
        assert_eq!(delivered(&outcome), 28);
        assert_eq!(leaders(&outcome), BTreeSet::from([6]));
        // Each of the four rounds tries the dead node once.
        assert_eq!([outcome.stats.lost, count(&outcome, "Election")], [4, 16]);
    }

    #[test]
    fn suppression_drops_the_elections_of_lesser_initiators() {
        let calls: Vec<(u32, u32)> = (0..8).map(|node| (node, 0)).collect();
        let run = |setup| simulate(PLAIN, &calling(PLAIN, setup, &calls));
        let plain = run(complete(8));
        let suppressed = run(complete(8).with("suppression", true));
        assert_eq!(delivered(&plain), 128);
        // Each list but the best is dropped by its next neighbour, or the neighbour of that.
        assert!(delivered(&suppressed) < 32, "{}", delivered(&suppressed));
        assert_promises(&suppressed, "suppression");
        for seed in 0..240 {
            let setup = complete(2 + (seed % 8) as u32).with("suppression", true);
            let mut spec = crate::support::random_election(PLAIN, setup, seed);
            spec.faults.plan.clear();
            assert_promises(&simulate(PLAIN, &spec), &format!("suppression, seed {seed}"));
        }
    }

    #[test]
    fn who_calls_again_meanwhile_adds_nothing() {
        for entry in ALL {
            let calls = [(1, 0), (1, 5), (1, 20)];
            let outcome = simulate(entry, &calling(entry, complete(6), &calls));
            assert_eq!(delivered(&outcome), 12, "{}", entry.info.id);
        }
    }

    #[test]
    fn the_best_node_crashes_after_it_has_put_itself_into_the_list() {
        // The list is complete at 5, and the death of p4 known at 4.5.
        let spec = crashing(calling(PLAIN, complete(5), &[(0, 0)]), &[(4, 42)]);
        let mut early = spec;
        early.detector = Some(T / 2);
        let outcome = simulate(PLAIN, &early);
        assert_eq!(leaders(&outcome), BTreeSet::from([4]));
        for property in [Property::LeaderKnown, Property::BestLeads] {
            assert!(verdict(property, &outcome, 1).is_violated());
        }
        // With confirmation the initiator asks again.
        let entry = &ring_modified::PLAIN;
        let mut spec = crashing(calling(entry, complete(5), &[(0, 0)]), &[(4, 42)]);
        spec.detector = Some(T / 2);
        assert_promises(&simulate(entry, &spec), "confirmation");
    }

    #[test]
    fn the_list_of_a_dead_initiator_is_completed_by_the_next_or_goes_round_for_ever() {
        let spec = |entry| crashing(calling(entry, complete(5), &[(1, 0)]), &[(1, 15)]);
        assert_promises(&simulate(PLAIN, &spec(PLAIN)), "anybody completes it");
        for entry in [&ring_list::INITIATOR, &ring_modified::PLAIN] {
            let mut spec = spec(entry);
            spec.linger = None;
            spec.until = at(5_000);
            let outcome = simulate(entry, &spec);
            assert_eq!(outcome.trace.end, End::TimeLimit, "it never rests");
            assert!(count(&outcome, "Election") > 2_000, "one hop after the other");
            assert!(leaders(&outcome).is_empty());
            assert!(verdict(Property::LeaderKnown, &outcome, 1).is_violated());
        }
    }

    #[test]
    fn a_list_is_lost_with_whoever_waits_for_a_dead_successor() {
        // p2 waits for p3, and crashes.
        let crashes = [(3, 0), (2, 25)];
        let outcome = simulate(PLAIN, &crashing(calling(PLAIN, complete(5), &[(1, 0)]), &crashes));
        assert!(verdict(Property::LeaderKnown, &outcome, 1).is_violated());
        let entry = &ring_watchdog::PLAIN;
        let outcome = simulate(entry, &crashing(calling(entry, complete(5), &[(1, 0)]), &crashes));
        assert_promises(&outcome, "with watchdogs it is sent again");
    }

    #[test]
    fn two_elections_at_once_make_two_leaders_of_one_term() {
        for entry in ALL {
            // The list of p1 has p2 in it when that crashes; the one of p0 comes too late.
            let spec = crashing(calling(entry, complete(3), &[(0, 0), (1, 0)]), &[(2, 15)]);
            let outcome = simulate(entry, &spec);
            let broken = verdict(Property::OneLeaderPerEpoch, &outcome, 1).is_violated();
            assert!(broken, "{}", entry.info.id);
        }
    }

    #[test]
    fn an_announcement_whose_origin_is_dead_ends_at_its_second_visit() {
        // The outcome is announced at 5, and its origin dies.
        let spec = crashing(calling(PLAIN, complete(5), &[(1, 0)]), &[(1, 51)]);
        let outcome = simulate(PLAIN, &spec);
        assert_promises(&outcome, "the others have heard it");
        assert_eq!(outcome.trace.end, End::Quiet);
        assert_eq!(count(&outcome, "Coordinator"), 6, "past the dead origin to p2, and no further");
    }

    #[test]
    fn without_crashes_meanwhile_everybody_keeps_the_promises() {
        for entry in ALL {
            for seed in 0..240 {
                let n = 2 + (seed % 8) as u32;
                let mut spec = crate::support::random_election(entry, complete(n), seed);
                // All crashes come before the first call.
                for happening in &mut spec.faults.plan {
                    happening.at = Time::ZERO;
                }
                spec.faults.plan.retain(|it| matches!(it.action, Fault::Crash(_)));
                let Arrivals::Plan(calls) = &mut spec.workload.arrivals else { unreachable!() };
                for call in calls {
                    call.at = call.at + T * 5;
                }
                let outcome = simulate(entry, &spec);
                assert_promises(&outcome, &format!("{} seed {seed}", entry.info.id));
            }
        }
    }

    #[test]
    fn one_crash_at_any_moment_is_survived_where_that_is_promised() {
        let entries = [&ring_watchdog::PLAIN, &ring_reconfiguration::PLAIN];
        for entry in entries {
            for node in 0..5 {
                for moment in 0..260 {
                    // p0 stays up and calls, so that there is an election whichever node dies.
                    let calls = [(0, 10), (2, 10)];
                    let crashes = [(node, moment)];
                    let after = if node == 0 { [(1, 400)] } else { [(0, 400)] };
                    let calls = [&calls[..], &after[..]].concat();
                    let spec = crashing(calling(entry, complete(5), &calls), &crashes);
                    let what = format!("{} p{node} at {moment}", entry.info.id);
                    assert_promises(&simulate(entry, &spec), &what);
                }
            }
        }
    }

    #[test]
    fn twenty_thousand_nodes_elect() {
        let n = 20_000;
        let mut spec = calling(PLAIN, complete(n), &[(7, 0)]);
        (spec.tracing, spec.linger, spec.until) = (Tracing::Off, None, Time::MAX);
        let outcome = simulate(PLAIN, &spec);
        // As many acknowledgements as messages.
        assert_eq!(outcome.stats.sent, 4 * u64::from(n));
        assert!(outcome.stats.pending < 20, "{}", outcome.stats.pending);
        assert_promises(&outcome, "twenty thousand");
    }
}

mod inquiry {
    use super::*;

    const PLAIN: &Entry<Ring> = &ring_inquiry::PLAIN;

    fn back(node: u32, others_call: &[(u32, u32)]) -> Outcome {
        let mut spec = crashing(calling(PLAIN, complete(5), others_call), &[(node, 500)]);
        spec.faults = spec.faults.with(at(100), Fault::Recover(NodeId(node)));
        simulate(PLAIN, &spec)
    }

    #[test]
    fn a_lower_node_that_comes_back_asks_and_causes_no_election() {
        let outcome = back(1, &[(0, 0)]);
        assert_eq!([count(&outcome, "Election"), count(&outcome, "Inquiry")], [5, 5]);
        assert_eq!(outcome.trace.leaders().leader_of(NodeId(1)).map(|it| it.0), Some(NodeId(4)));
        assert_promises(&outcome, "a lower node is back");
    }

    #[test]
    fn the_former_leader_that_comes_back_causes_exactly_one() {
        let outcome = back(4, &[(0, 0)]);
        // The first, those of the four who notice its death, and its own.
        let rounds = 5 + 4 * (4 + 1) + 5;
        assert_eq!([count(&outcome, "Election"), count(&outcome, "Inquiry")], [rounds, 5]);
        assert_eq!(leaders(&outcome), BTreeSet::from([4]));
        assert_promises(&outcome, "the leader is back");
    }

    #[test]
    fn a_leader_that_is_back_before_anybody_misses_it_leads_in_a_new_term() {
        let mut spec = crashing(calling(PLAIN, complete(5), &[(0, 0)]), &[(4, 500)]);
        spec.faults = spec.faults.with(tenths(505), Fault::Recover(NodeId(4)));
        let outcome = simulate(PLAIN, &spec);
        assert_promises(&outcome, "back at once");
        assert_eq!(outcome.trace.leaders().leader_of(NodeId(0)).map(|it| it.0), Some(NodeId(4)));
    }

    #[test]
    fn terms_go_on_after_a_restart() {
        let mut spec =
            crashing(calling(PLAIN, complete(4), &[(0, 0), (1, 400), (2, 600)]), &[(3, 200)]);
        spec.faults = spec.faults.with(at(90), Fault::Recover(NodeId(3)));
        let outcome = simulate(PLAIN, &spec);
        assert_promises(&outcome, "back after several terms");
        for node in 0..3 {
            let epoch = |record: &conclave_sim::Record| match record.event() {
                Event::Notice(Observation::Follows { epoch, .. }) => Some(epoch),
                _ => None,
            };
            let own = outcome.trace.records.iter().filter(|it| it.node == NodeId(node));
            let epochs: Vec<u64> = own.filter_map(epoch).collect();
            assert!(epochs.is_sorted_by(|a, b| a < b), "p{node}: {epochs:?}");
        }
    }
}

mod confirmation {
    use super::*;

    #[test]
    fn of_six_with_the_top_dead_the_next_dies_before_it_is_announced() {
        let entry = &ring_modified::PLAIN;
        let mut spec = crashing(calling(entry, complete(6), &[(2, 10)]), &[(5, 0), (4, 75)]);
        // Only missing acknowledgements tell of crashes.
        spec.detector = None;
        let outcome = simulate(entry, &spec);
        assert_eq!(delivered(&outcome), 17);
        assert_eq!(outcome.stats.lost, 7, "each round tries the dead again");
        assert_eq!(leaders(&outcome), BTreeSet::from([3]));
        assert_promises(&outcome, "confirmed at the second attempt");
    }

    #[test]
    fn a_leader_that_dies_after_it_has_signed_is_followed() {
        let entry = &ring_modified::PLAIN;
        // p1 signs at 6; all but the initiator hear of its death before they hear of its election.
        let setup = complete(5).with_attributes([1, 2, 1, 1, 1]);
        let mut spec = crashing(calling(entry, setup, &[(0, 0)]), &[(1, 61)]);
        spec.detector = Some(T / 10);
        let outcome = simulate(entry, &spec);
        for property in [Property::LeaderKnown, Property::BestLeads] {
            assert!(verdict(property, &outcome, 1).is_violated(), "{property}");
        }
    }
}

mod watchdogs {
    use super::*;

    #[test]
    fn the_successor_of_a_dead_initiator_takes_over() {
        let entry = &ring_watchdog::PLAIN;
        let spec = crashing(calling(entry, complete(5), &[(1, 0)]), &[(1, 1)]);
        let outcome = simulate(entry, &spec);
        assert_promises(&outcome, "the next takes over");
        // The first election of p2, and of no other node.
        let mut first = outcome.trace.records.iter().filter(|record| match record.event() {
            Event::Timer { label } => outcome.trace.name(label) == "Watchdog",
            _ => false,
        });
        assert_eq!(first.next().map(|record| record.node), Some(NodeId(2)));
        assert_eq!(first.next().map(|record| record.node), None);
    }

    #[test]
    fn a_dead_leader_is_not_followed_for_good() {
        let entry = &ring_watchdog::PLAIN;
        let setup = complete(5).with_attributes([1, 2, 1, 1, 1]);
        let mut spec = crashing(calling(entry, setup, &[(0, 0)]), &[(1, 61)]);
        spec.detector = Some(T / 10);
        assert_promises(&simulate(entry, &spec), "its death is remembered");
    }

    #[test]
    fn a_lost_acknowledgement_takes_a_live_node_for_dead() {
        let entry = &ring_watchdog::PLAIN;
        let mut spec = calling(entry, complete(3), &[(0, 0)]);
        // The election reaches p1, and p0 does not know: it goes to p2 as well.
        spec.faults = spec.faults.with(Time::ZERO, lose("Ack"));
        let outcome = simulate(entry, &spec);
        assert!(delivered(&outcome) > 6);
        assert_promises(&outcome, "a second copy does no harm");
    }

    #[test]
    fn each_side_of_a_partition_elects_its_own() {
        for entry in [&ring_watchdog::PLAIN, &ring_reconfiguration::PLAIN] {
            let mut spec = calling(entry, complete(5), &[(1, 10), (4, 10)]);
            let groups = [&[0, 1, 2][..], &[3, 4]].map(|ids| ids.iter().copied().map(NodeId));
            let groups = groups.map(Iterator::collect).to_vec();
            spec.faults = spec.faults.with(Time::ZERO, Fault::Partition(groups));
            let outcome = simulate(entry, &spec);
            assert_eq!(announced(&outcome), BTreeSet::from([2, 4]));
            assert!(verdict(Property::OneLeaderPerEpoch, &outcome, 1).is_violated());
        }
    }
}

mod reconfiguration {
    use super::*;

    const PLAIN: &Entry<Ring> = &ring_reconfiguration::PLAIN;

    /// Three of five are on the ring, and p0 calls an election.
    fn three_of_five() -> RunSpec {
        calling(PLAIN, complete(5).with("members", 3), &[(0, 0)])
    }

    fn joins(mut spec: RunSpec, joins: &[(u32, u32, u64)]) -> RunSpec {
        for &(node, sponsor, t) in joins {
            let (node, sponsor) = (NodeId(node), NodeId(sponsor));
            spec.faults = spec.faults.with(at(t), Fault::Join { node, sponsor });
        }
        spec
    }

    #[test]
    fn newcomers_join_through_any_member_and_the_best_leads() {
        for sponsors in 0..9 {
            for apart in [0, 1, 3, 50] {
                let when = [(3, sponsors % 3, 30), (4, sponsors / 3, 30 + apart)];
                let outcome = simulate(PLAIN, &joins(three_of_five(), &when));
                assert_promises(&outcome, &format!("sponsors {sponsors}, {apart} apart"));
                assert_eq!(leaders(&outcome), BTreeSet::from([4]));
            }
        }
    }

    #[test]
    fn a_newcomer_that_is_no_better_causes_no_election() {
        let setup = complete(4).with("members", 3).with_attributes([9, 9, 9, 1]);
        let spec = joins(calling(PLAIN, setup, &[(0, 0)]), &[(3, 1, 30)]);
        let outcome = simulate(PLAIN, &spec);
        assert_promises(&outcome, "one more");
        let counts = ["Election", "Join", "View", "Inquiry"].map(|label| count(&outcome, label));
        assert_eq!(counts, [3, 1, 4, 4]);
    }

    #[test]
    fn who_joins_while_an_election_is_under_way_takes_part_in_the_outcome() {
        for t in 0..12 {
            let spec = joins(three_of_five(), &[(3, 2, t), (4, 1, t / 2)]);
            assert_promises(&simulate(PLAIN, &spec), &format!("at {t}"));
        }
    }

    #[test]
    fn who_leaves_is_not_elected_any_more() {
        let mut spec = calling(PLAIN, complete(5), &[(0, 0)]);
        spec.faults = spec.faults.with(at(30), Fault::Leave(NodeId(4)));
        let outcome = simulate(PLAIN, &spec);
        assert_eq!(leaders(&outcome), BTreeSet::from([3]), "the former leader knows it, too");
        // And comes back.
        spec.faults = spec.faults.with(at(90), Fault::Join { node: NodeId(4), sponsor: NodeId(1) });
        let outcome = simulate(PLAIN, &spec);
        assert_eq!(leaders(&outcome), BTreeSet::from([4]));
        assert_promises(&outcome, "back on the ring");
    }

    #[test]
    fn r_successors_get_past_all_but_r_dead_ones_in_a_row() {
        for r in 1..=4 {
            for dead in 0..=4 {
                let setup = complete(7).with("successors", r);
                // Those after p0 are dead before it calls.
                let crashes: Vec<(u32, u32)> = (1..=dead).map(|node| (node, 0)).collect();
                let spec = crashing(calling(PLAIN, setup, &[(0, 50)]), &crashes);
                let mut spec = spec;
                spec.linger = Some(T * 500);
                let known = verdict(Property::LeaderKnown, &simulate(PLAIN, &spec), 1).held();
                assert_eq!(known, dead < r, "{r} successors, {dead} dead");
            }
        }
    }
}

/// The same leader for every set of initiators, and a process runs at most one election at a time.
#[test]
fn the_outcome_does_not_depend_on_who_calls() {
    fn check(entry: &dyn Algorithm, topology: fn(u32) -> Topology, best: u32) {
        let id = entry.info().id;
        for callers in 1..32_u32 {
            let called = (0..5).filter(|caller| callers >> caller & 1 == 1);
            let calls: Vec<(u32, u32)> = called.map(|caller| (caller, 10)).collect();
            let mut spec = calling(entry, Setup::new(topology(5)), &calls);
            assert_eq!(leaders(&simulate(entry, &spec)), BTreeSet::from([best]), "{id}");
            // Attributes decide, and delays do not.
            spec.setup.attributes = vec![2, 7, 5, 7, 3];
            spec.delays = Delay::Uniform(T / 10, T).into();
            spec.seed = u64::from(callers);
            let best = if best == 0 { 0 } else { 3 };
            assert_eq!(leaders(&simulate(entry, &spec)), BTreeSet::from([best]), "{id}");
        }
    }
    check(&le_lann::PLAIN, Topology::ring, 4);
    check(&chang_roberts::PLAIN, Topology::ring, 4);
    check(&chang_roberts::REPAIRED, Topology::complete, 4);
    check(&chang_roberts::BY_ATTRIBUTE, Topology::ring, 4);
    check(&frederickson_lynch::PLAIN, Topology::ring, 0);
    check(&ring_list::PLAIN, Topology::complete, 4);
    check(&ring_list::INITIATOR, Topology::complete, 4);
    check(&ring_inquiry::PLAIN, Topology::complete, 4);
    check(&ring_modified::PLAIN, Topology::complete, 4);
    check(&ring_watchdog::PLAIN, Topology::complete, 4);
    check(&ring_reconfiguration::PLAIN, Topology::complete, 4);
}
