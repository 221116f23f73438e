//! Superpeers: how many there are, how they lie, and what becomes of them when nodes crash.

use crate::support::{at, simulate, verdict};
use conclave_algorithms::election::{superpeer_dht, superpeer_tokens};
use conclave_protocol::{NodeId, Property, Setup, Topology};
use conclave_sim::{Fault, Gap, Outcome, RunSpec, Superpeers, shape};

fn served(outcome: &Outcome, topology: &Topology) -> Superpeers {
    let found = Superpeers::of(&outcome.trace.leaders(), topology);
    assert_eq!(found.unserved, 0, "everybody is served");
    found
}

#[test]
fn the_owners_of_the_groups_keys_serve_the_example() {
    let ids = [0x05, 0x2A, 0x3F, 0x61, 0x9C, 0xE0];
    let topology = Topology::dht(8, ids.to_vec()).unwrap();
    let spec = RunSpec::new(&superpeer_dht::PLAIN.info, Setup::new(topology).with("prefix", 3));
    let outcome = simulate(&superpeer_dht::PLAIN, &spec);
    let superpeers: Vec<u64> =
        outcome.trace.leaders().leaders().map(|it| ids[it.index()]).collect();
    assert_eq!(superpeers, [0x05, 0x2A, 0x61, 0x9C, 0xE0]);
    assert_eq!(
        outcome.trace.leaders().leader_of(NodeId(2)).unwrap().0,
        NodeId(1),
        "0x3F is 0x2A's"
    );
}

#[test]
fn there_are_as_many_as_chance_has_it() {
    // Expected are 2^k (1 − (1 − 2^−k)^N). The variance of one run is less than that of as many
    // independent groups, so the mean of the runs is within four deviations of it.
    for (n, prefix, runs) in [(1_000, 5, 40), (100, 3, 100), (1_000, 10, 60), (50, 6, 100)] {
        let groups = f64::from(1 << prefix);
        let filled = 1.0 - (1.0 - 1.0 / groups).powi(n);
        let expected = groups * filled;
        let mut sum = 0;
        for seed in 0..runs {
            let setup = Setup::new(shape("dht", n as u32, seed).unwrap()).with("prefix", prefix);
            let topology = setup.topology.clone();
            let spec = RunSpec::new(&superpeer_dht::PLAIN.info, setup);
            let outcome = simulate(&superpeer_dht::PLAIN, &spec);
            sum += served(&outcome, &topology).count;
        }
        let mean = sum as f64 / runs as f64;
        let deviation = (groups * filled * (1.0 - filled) / runs as f64).sqrt();
        assert!(
            (mean - expected).abs() <= 4.0 * deviation + 1e-6,
            "{n} {prefix}: {mean} {expected}"
        );
    }
}

#[test]
fn a_lookup_halves_the_way_with_every_hop() {
    for n in [64, 512, 4_096] {
        let setup = Setup::new(shape("dht", n, 5).unwrap()).with("prefix", 3);
        let spec = RunSpec::new(&superpeer_dht::PLAIN.info, setup);
        let outcome = simulate(&superpeer_dht::PLAIN, &spec);
        let hops = outcome.stats.sent as f64 / f64::from(n);
        let bound = f64::from(n).log2();
        assert!(hops > bound / 3.0 && hops < bound + 2.0, "{n}: {hops} messages a node");
    }
}

#[test]
fn a_key_moves_to_the_next_node_and_back() {
    let topology = Topology::dht(8, vec![0x20, 0x25, 0x3F, 0x61]).unwrap();
    let mut spec = RunSpec::new(&superpeer_dht::PLAIN.info, Setup::new(topology));
    spec.linger = Some(crate::support::T * 100);
    spec.faults = spec.faults.with(at(100), Fault::Crash(NodeId(0)));
    let leader =
        |spec: &RunSpec| simulate(&superpeer_dht::PLAIN, spec).trace.leaders().leader_of(NodeId(2));
    assert_eq!(leader(&spec).unwrap().0, NodeId(1));
    spec.faults = spec.faults.with(at(200), Fault::Recover(NodeId(0)));
    let (superpeer, epoch) = leader(&spec).unwrap();
    assert_eq!((superpeer, epoch), (NodeId(0), 2), "it serves in a new term");
}

#[test]
fn four_tokens_in_a_corner_end_in_the_four_quadrants() {
    let grid = Topology::grid(100);
    let setup = Setup::new(grid.clone()).with("tokens", 4).with("start", "corner");
    for seed in 0..20 {
        let mut spec = RunSpec::new(&superpeer_tokens::PLAIN.info, setup.clone());
        spec.seed = seed;
        let outcome = simulate(&superpeer_tokens::PLAIN, &spec);
        let found = served(&outcome, &grid);
        assert_eq!(found.count, 4, "no token is lost or copied");
        let mut quadrants: Vec<(bool, bool)> = outcome
            .trace
            .leaders()
            .leaders()
            .map(|node| (node.0 % 10 >= 5, node.0 / 10 >= 5))
            .collect();
        quadrants.sort_unstable();
        quadrants.dedup();
        assert_eq!(quadrants.len(), 4, "seed {seed}: {quadrants:?}");
    }
}

/// Runs 20 tokens among a thousand nodes; all that is asked of superpeers has to be so.
fn twenty_tokens(shape_name: &str, seed: u64, options: &[(&str, &str)]) -> Superpeers {
    let topology = shape(shape_name, 1_000, seed).unwrap();
    let mut setup = Setup::new(topology.clone()).with("tokens", 20);
    for (name, value) in options {
        setup = setup.with(name, value);
    }
    let mut spec = RunSpec::new(&superpeer_tokens::PLAIN.info, setup);
    spec.seed = seed;
    let found = served(&simulate(&superpeer_tokens::PLAIN, &spec), &topology);
    assert_eq!(found.count, 20, "{shape_name} {seed}: every token has come to rest");
    for (well, text) in found.judged(20.0) {
        assert!(well, "{shape_name} {seed}: {text}");
    }
    found
}

#[test]
fn scattered_tokens_come_to_rest_and_serve_well_in_the_time_they_have_by_default() {
    for shape_name in ["geometric", "geometric3"] {
        for seed in 1..=4 {
            twenty_tokens(shape_name, seed, &[]);
        }
    }
}

#[test]
fn tokens_end_further_apart_than_they_began() {
    // From one corner to all of it takes its time.
    let options = [("start", "corner"), ("periods", "900")];
    for shape_name in ["geometric", "geometric3"] {
        for seed in 1..=4 {
            let found = twenty_tokens(shape_name, seed, &options);
            let Gap { least, mean } = found.space.as_ref().unwrap().gap;
            assert!(least > 1.0 && mean > 1.5, "{shape_name} {seed}: {least} {mean}");
        }
    }
}

#[test]
fn a_token_lost_with_its_holder_is_made_anew() {
    let grid = Topology::grid(100);
    let setup = Setup::new(grid.clone()).with("tokens", 4).with("periods", 500);
    let spec = RunSpec::new(&superpeer_tokens::PLAIN.info, setup);
    let before: Vec<NodeId> =
        simulate(&superpeer_tokens::PLAIN, &spec).trace.leaders().leaders().collect();
    for holder in before {
        let mut spec = spec.clone();
        spec.faults = spec.faults.with(at(250), Fault::Crash(holder));
        let outcome = simulate(&superpeer_tokens::PLAIN, &spec);
        let found = served(&outcome, &grid);
        assert_eq!(found.count, 4, "after the crash of {holder}");
        assert!(verdict(Property::LeaderKnown, &outcome, 1).held());
    }
}
