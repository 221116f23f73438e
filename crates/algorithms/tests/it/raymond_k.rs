//! K units shared by permission: what it costs, what it tolerates, and how naive counting fails.

use crate::support::{at, burst, costs, order, planned, random_spec, simulate, slow, verdict};
use conclave_algorithms::mutex::{
    raymond_k::{NAIVE, PLAIN, RaymondK},
    ricart_agrawala as ra,
};
use conclave_protocol::{Channels, Entry, NodeId, Property, Setup, Topology};
use conclave_sim::{End, Fault, Outcome};

fn setup(n: u32, units: u32) -> Setup {
    Setup::new(Topology::complete(n)).with("units", units)
}

#[test]
fn alone_it_costs_as_much_as_ricart_agrawala() {
    for (n, units) in [(5, 2), (7, 3), (3, 1), (4, 3)] {
        let outcome = simulate(&PLAIN, &burst(&PLAIN, setup(n, units), [1], 3));
        let costs = costs(&outcome);
        let entry = &costs.entries[0];
        assert_eq!((costs.messages, entry.messages_exit), (2 * u64::from(n - 1), 0));
        assert_eq!(costs.entry_hops(&outcome.trace, entry), Some(2));
    }
}

#[test]
fn late_replies_are_merged() {
    for (n, units, rounds) in [(5, 2, 3), (5, 2, 1), (7, 3, 4), (6, 5, 2), (4, 1, 3)] {
        // The last K - 1 nodes go inside and stay; then p0 enters again and again.
        let holders = (n - units + 1..n).map(|node| (node, 0, 10_000));
        let entries = (0..rounds).map(|round| (0, 100 + 100 * round, 10));
        let spec = planned(&PLAIN, setup(n, units), holders.chain(entries));
        let outcome = simulate(&PLAIN, &spec);
        let costs = costs(&outcome);
        let of_p0 = costs.entries.iter().filter(|entry| entry.node == NodeId(0));
        let messages: u64 = of_p0.map(|entry| entry.messages_entry + entry.messages_exit).sum();
        let expected = rounds * (2 * n - units - 1) + (units - 1);
        assert_eq!(messages, u64::from(expected), "n={n} units={units} rounds={rounds}");
        assert_eq!(order(&outcome).len() as u32, units - 1 + rounds);
    }
}

#[test]
fn one_unit_is_ricart_agrawala() {
    for seed in 0..20 {
        let outcome = simulate(&PLAIN, &random_spec(&PLAIN, setup(5, 1), seed));
        let plain = Setup::new(Topology::complete(5));
        let original = simulate(&ra::PLAIN, &random_spec(&ra::PLAIN, plain, seed));
        assert_eq!(order(&outcome), order(&original), "seed={seed}");
        assert!(verdict(Property::FenceOrder, &outcome, 1).held());
    }
}

#[test]
fn every_number_of_units_is_used_and_none_is_exceeded() {
    for seed in 0..240 {
        let n = 3 + (seed % 6) as u32;
        let units = 1 + (seed / 6) as u32 % (n - 1);
        let setup = setup(n, units);
        assert_eq!(PLAIN.info.places(&setup), units);
        let outcome = simulate(&PLAIN, &random_spec(&PLAIN, setup, seed));
        for &property in PLAIN.info.holds {
            assert!(verdict(property, &outcome, units).held(), "{property} seed={seed}");
        }
    }
    let outcome = simulate(&PLAIN, &burst(&PLAIN, setup(6, 4), 0..6, 50));
    assert!(verdict(Property::Exclusion, &outcome, 4).held());
    assert!(verdict(Property::Exclusion, &outcome, 3).is_violated(), "four are inside");
}

#[test]
fn there_are_fewer_units_than_nodes() {
    for (n, units, fits) in
        [(2, 1, true), (2, 2, false), (5, 4, true), (5, 5, false), (5, 0, false)]
    {
        assert_eq!((PLAIN.config)(&setup(n, units)).is_ok(), fits, "n={n} units={units}");
    }
}

/// All who are left ask after these have crashed.
fn after_crashes(n: u32, units: u32, crashed: u32) -> Outcome {
    let mut spec = planned(&PLAIN, setup(n, units), (crashed..n).map(|node| (node, 10, 20)));
    for node in (0..crashed).map(NodeId) {
        spec.faults = spec.faults.with(at(0), Fault::Crash(node));
    }
    simulate(&PLAIN, &spec)
}

#[test]
fn each_silent_node_takes_up_a_unit_and_the_last_unit_stops_everybody() {
    for (n, units) in [(3, 2), (5, 2), (5, 3), (7, 4)] {
        let outcome = after_crashes(n, units, units - 1);
        assert_eq!(order(&outcome).len() as u32, n - units + 1, "n={n} units={units}");
        assert!(verdict(Property::Exclusion, &outcome, 1).held(), "one unit is left");
        let outcome = after_crashes(n, units, units);
        assert_eq!((order(&outcome), outcome.trace.end), (vec![], End::Quiet));
        assert!(verdict(Property::NoDeadlock, &outcome, units).is_violated());
    }
    // So does one that crashes inside.
    let mut spec = planned(&PLAIN, setup(3, 2), [(0, 0, 1000), (1, 100, 50), (2, 100, 50)]);
    spec.faults = spec.faults.with(at(5), Fault::Crash(NodeId(0)));
    let outcome = simulate(&PLAIN, &spec);
    assert_eq!(order(&outcome), [0, 1, 2]);
    assert!(verdict(Property::Exclusion, &outcome, 1).held());
}

#[test]
fn a_lost_message_stops_who_has_no_unit_to_spare() {
    for (units, enters) in [(1, 0), (2, 1)] {
        let mut spec = burst(&PLAIN, setup(3, units), [1], 3);
        spec.faults = spec.faults.with(at(0), Fault::Lose { label: "Reply".to_owned() });
        assert_eq!(order(&simulate(&PLAIN, &spec)).len(), enters);
    }
}

#[test]
fn with_two_units_a_younger_request_may_go_first() {
    // p1's word to p0, and p2's reply to p1, are slow; p2 has heard of p1's request and asks too.
    let mut spec = planned(&PLAIN, setup(3, 2), [(1, 0, 10), (2, 20, 10)]);
    spec.delays.links = vec![slow(1, 0, 0..1, 200), slow(2, 1, 0..20, 200)];
    let outcome = simulate(&PLAIN, &spec);
    assert_eq!(order(&outcome), [2, 1]);
    assert!(verdict(Property::FcfsHappenedBefore, &outcome, 2).is_violated());
    assert!(verdict(Property::FenceOrder, &outcome, 2).is_violated());
}

/// Three nodes, two units. p0's reply to p1's first request is slow, and arrives while p1 waits for
/// the second time and p0 and p2 are inside.
fn slow_old_reply(entry: &Entry<RaymondK>) -> Outcome {
    let plan = [(0, 0, 40), (1, 30, 5), (0, 70, 500), (2, 100, 500), (1, 150, 10)];
    let mut spec = planned(entry, setup(3, 2), plan);
    spec.channels = Channels::Fifo;
    spec.delays.links = vec![slow(0, 1, 60..61, 200)];
    simulate(entry, &spec)
}

#[test]
fn a_late_reply_counted_for_the_next_request_puts_three_inside() {
    let outcome = slow_old_reply(&NAIVE);
    assert_eq!(order(&outcome), [0, 1, 0, 2, 1]);
    assert!(verdict(Property::Exclusion, &outcome, 2).is_violated());
    assert_eq!(costs(&outcome).entries[4].entered, Some(at(26)), "with the slow reply");
    let outcome = slow_old_reply(&PLAIN);
    assert_eq!(order(&outcome), [0, 1, 0, 2, 1]);
    assert!(verdict(Property::Exclusion, &outcome, 2).held());
}
