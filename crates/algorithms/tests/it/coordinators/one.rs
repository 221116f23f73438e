//! One coordinator.

use super::*;

static CENTRALIZED: [&Entry<centralized::Centralized>; 4] =
    [&centralized::PLAIN, &centralized::DENY, &centralized::TOKEN, &centralized::TIMESTAMPED];

#[test]
fn an_idle_entry_costs_two_messages_and_two_hops_and_leaving_one() {
    for entry in CENTRALIZED {
        let outcome = simulate(entry, &burst(entry, system(4), [2], 5));
        let costs = costs(&outcome);
        let one = &costs.entries[0];
        assert_eq!((one.messages_entry, one.messages_exit, costs.messages), (2, 1, 3));
        assert_eq!(costs.entry_hops(&outcome.trace, one), Some(2));
        assert_eq!(costs.turnaround().max, T * (2 + 5));
    }
}

#[test]
fn m_who_ask_at_once_cost_3m_with_two_hops_between_them() {
    for entry in [&centralized::PLAIN, &centralized::TOKEN, &centralized::TIMESTAMPED] {
        for (m, hold) in [(3, 50), (5, 50), (7, 1)] {
            let outcome = simulate(entry, &burst(entry, system(m + 1), 1..=m, hold));
            let costs = costs(&outcome);
            let (m, last) = (u64::from(m), costs.entries.iter().map(|e| e.entered).max());
            assert_eq!(costs.messages, 3 * m);
            assert!(costs.entries.iter().all(|e| e.messages_entry + e.messages_exit == 3));
            assert_eq!(last, Some(Some(at(2 + (m - 1) * (hold + 2)))));
            assert_eq!(costs.handovers.len() as u64, m - 1);
            let hops = |h| costs.handover_hops(&outcome.trace, h);
            assert!(costs.handovers.iter().all(|h| hops(h) == Some(2) && h.delay == T * 2));
        }
    }
}

#[test]
fn telling_the_queued_costs_one_message_for_each_but_the_first() {
    let entry = &centralized::DENY;
    for (m, hold) in [(3, 50), (5, 50), (7, 1)] {
        let outcome = simulate(entry, &burst(entry, system(m + 1), 1..=m, hold));
        let (costs, m) = (costs(&outcome), u64::from(m));
        assert_eq!((costs.messages, costs.by_label["Denied"]), (4 * m - 1, m - 1));
        let last = costs.entries.iter().map(|e| e.entered).max();
        assert_eq!(last, Some(Some(at(2 + (m - 1) * (hold + 2)))));
    }
}

#[test]
fn the_coordinator_itself_enters_for_nothing() {
    for entry in CENTRALIZED {
        let outcome = simulate(entry, &burst(entry, system(3), [0], 5));
        let costs = costs(&outcome);
        assert_eq!((costs.messages, costs.entries[0].entered), (0, Some(at(0))));
        assert_eq!(costs.entry_hops(&outcome.trace, &costs.entries[0]), Some(0));
    }
}

#[test]
fn if_all_load_it_equally_the_mean_is_three_times_n_minus_one_over_n() {
    let entry = &centralized::PLAIN;
    let outcome = simulate(entry, &burst(entry, system(4), 0..4, 1));
    assert_eq!(costs(&outcome).messages_per_entry(), Some(3.0 * 3.0 / 4.0));
    assert_eq!(holds(&outcome, LIVE), Ok(()));
}

#[test]
fn the_replay_of_two_clients_takes_six_messages() {
    let entry = &centralized::PLAIN;
    let outcome = simulate(entry, &plan(entry, system(3), [ask(1, 0, 10), ask(2, 3, 10)]));
    let expected = ["Request", "Grant", "Request", "Release", "Grant", "Release"];
    assert_eq!(labels(&outcome), expected);
    assert_eq!(order(&outcome), [1, 2]);
}

/// p1's request is slow; p2 asks after p1 has told it.
fn tells_and_is_overtaken(p3_holds: bool) -> Vec<Ask> {
    let mut asks = vec![ask(1, 0, 5), ask(2, 2, 5)];
    if p3_holds {
        asks.push(ask(3, 0, 50));
    }
    asks
}

#[test]
fn a_request_may_be_overtaken_by_one_that_it_caused() {
    for entry in CENTRALIZED {
        let mut spec = plan(entry, system(4), tells_and_is_overtaken(false));
        spec.delays.links.push(slow_at_first(1, 0, 20));
        let outcome = talkative(entry, &spec);
        assert_eq!(order(&outcome), [2, 1]);
        let verdict = verdict(Property::FcfsHappenedBefore, &outcome, 1);
        assert!(verdict.is_violated(), "{}: {verdict:?}", entry.info.id);
        assert_eq!(holds(&outcome, LIVE), Ok(()));
    }
}

#[test]
fn timestamps_help_only_among_those_who_queue() {
    // Both requests wait behind p3, and only the stamped queue knows which is the older.
    let order_of = |entry: &Entry<centralized::Centralized>| {
        let mut spec = plan(entry, system(4), tells_and_is_overtaken(true));
        spec.delays.links.push(slow_at_first(1, 0, 20));
        order(&talkative(entry, &spec))
    };
    assert_eq!(order_of(&centralized::PLAIN), [3, 2, 1]);
    assert_eq!(order_of(&centralized::TIMESTAMPED), [3, 1, 2]);

    // The older arrives while the younger already holds.
    let entry = &centralized::TIMESTAMPED;
    let mut spec = plan(entry, system(4), [ask(1, 0, 5), ask(2, 0, 50)]);
    spec.delays.links.push(slow_at_first(1, 0, 20));
    assert_eq!(order(&simulate(entry, &spec)), [2, 1], "stamped (1, p1) and (1, p2)");
}

#[test]
fn a_stamped_request_is_overtaken_at_most_once_by_each_who_has_not_heard_of_it() {
    let entry = &centralized::TIMESTAMPED;
    // p2's clock is ahead when p1 and p3, who have asked for nothing yet, take turns.
    let mut asks: Vec<Ask> = (0..10).map(|i| ask(2, 10 * i, 1)).collect();
    asks.push(ask(2, 103, 1));
    asks.extend((0..10).flat_map(|_| [ask(1, 100, 5), ask(3, 100, 5)]));
    let outcome = simulate(entry, &plan(entry, system(4), asks));
    assert_eq!(order(&outcome)[10..14], [1, 3, 1, 2]);
    assert_eq!(outcome.stats.entered, 31);
}

#[test]
fn among_its_own_messages_order_follows_causality_unless_a_probe_overtakes() {
    // Every causal path leads through the coordinator, behind the request.
    for seed in 0..200 {
        let entry = &centralized::PLAIN;
        let outcome = simulate(entry, &random_spec(entry, system(5), seed));
        assert_eq!(holds(&outcome, &[Property::FcfsHappenedBefore]), Ok(()), "seed {seed}");
    }
    // A probe overtakes the request it asks about, and p2 enters twice before that arrives.
    let entry = &centralized::DENY;
    let setup = system(3).with("probe", 5);
    let asks = [ask(1, 0, 1), ask(2, 10, 1), ask(2, 20, 1)];
    let mut spec = plan(entry, setup, asks);
    spec.delays.links.push(slow_at_first(1, 0, 40));
    let outcome = simulate(entry, &spec);
    assert_eq!(order(&outcome), [2, 2, 1]);
    assert!(verdict(Property::FcfsHappenedBefore, &outcome, 1).is_violated());
}

#[test]
fn a_crash_of_the_coordinator_or_of_the_holder_stops_everybody() {
    for entry in CENTRALIZED {
        for (node, entered) in [(0, 1), (1, 1)] {
            let mut spec = burst(entry, system(4), 1..4, 5);
            spec.faults = Faults::none().with(at(4), Fault::Crash(NodeId(node)));
            spec.until = at(5_000);
            let outcome = simulate(entry, &spec);
            assert_eq!(outcome.stats.entered, entered);
            assert!(verdict(Property::NoDeadlock, &outcome, 1).is_violated());
            let probes = entry.info.id == centralized::DENY.info.id;
            assert_eq!(outcome.trace.end, if probes { End::TimeLimit } else { End::Quiet });
        }
    }
}

#[test]
fn the_crash_of_somebody_idle_is_harmless() {
    for entry in CENTRALIZED {
        for seed in 0..50 {
            let mut spec = random_spec(entry, system(6), seed);
            if let Arrivals::Closed { clients, .. } = &mut spec.workload.arrivals {
                *clients = 1..5;
            }
            spec.faults = Faults::none().with(at(seed), Fault::Crash(NodeId(5)));
            let outcome = simulate(entry, &spec);
            assert_eq!(outcome.stats.entered, 12);
            assert_eq!(holds(&outcome, LIVE), Ok(()), "seed {seed}");
        }
    }
}

#[test]
fn the_loss_of_any_message_stops_somebody_for_ever() {
    for entry in CENTRALIZED {
        for (label, entered) in [("Request", 1), ("Grant", 0), ("Release", 1)] {
            let setup = system(3);
            let mut spec = burst(entry, setup, [1, 2], 5);
            let lose = Fault::Lose { label: label.to_owned() };
            spec.faults = Faults::none().with(at(0), lose);
            spec.until = at(5_000);
            let outcome = simulate(entry, &spec);
            assert_eq!(outcome.stats.entered, entered, "{label}");
            assert!(verdict(Property::NoStarvation, &outcome, 1).is_violated(), "{label}");
        }
    }
}

#[test]
fn a_probe_tells_a_busy_coordinator_from_a_dead_one() {
    let entry = &centralized::DENY;
    let misses = |faults: Faults, until: u64| {
        let setup = system(3).with("probe", 10);
        let mut spec = plan(entry, setup, [ask(1, 0, 200), ask(2, 1, 5)]);
        spec.faults = faults;
        let config = (entry.config)(&spec.setup).expect("fits");
        let host = Hosted::<centralized::Centralized, mutex::Client>::new(config, 3);
        let mut world = World::new(Box::new(host), &spec);
        while world.now() < at(until) && world.step().is_none() {}
        let p2 = world.state::<centralized::Centralized>(NodeId(2)).expect("p2 is up");
        p2.misses_the_coordinator()
    };
    let crash = Faults::none().with(at(50), Fault::Crash(NodeId(0)));
    assert!(!misses(Faults::none(), 150), "busy");
    assert!(!misses(crash.clone(), 49), "not yet");
    assert!(misses(crash, 100), "dead");
}

#[test]
fn a_probe_and_its_answer_are_all_that_probing_costs() {
    let entry = &centralized::DENY;
    let setup = system(3).with("probe", 10);
    let outcome = simulate(entry, &plan(entry, setup, [ask(1, 0, 50), ask(2, 0, 5)]));
    let costs = costs(&outcome);
    // p2 waits from 0 to 54 and asks at 10, 20, 30, 40 and 50.
    assert_eq!((costs.by_label["StillThere"], costs.by_label["Denied"]), (5, 1 + 5));
    assert_eq!(costs.messages, 4 * 2 - 1 + 2 * 5);
}
