//! Tokens by broadcast and on trees: what they cost, in which order they serve, what stops them.

use std::time::Duration;

use crate::support::{
    T, asking, at, burst, complete, costs, lose, nodes, order, random_spec, saturated, simulate,
    topology, verdict,
};
use conclave_algorithms::mutex::{
    self, naimi_trehel, raymond_tree, suzuki_kasami, tree_token_fair,
};
use conclave_protocol::{Channels, Entry, NodeId, Observation, Property, Setup, Time, Topology};
use conclave_sim::{
    Arrivals, Delay, End, Event, Fault, Faults, JudgeLimits, Outcome, Owner, Rng, RunSpec,
    SlowLink, Spread, judge,
};

fn trees(n: u32) -> [Topology; 3] {
    [Topology::line(n), Topology::star(n), Topology::binary(n)]
}

fn slow(spec: &mut RunSpec, from: u32, to: u32, delay: u64) {
    let (from, to) = (NodeId(from), NodeId(to));
    let link = SlowLink { from, to, delay: T * delay as u32, since: Time::ZERO, until: Time::MAX };
    spec.delays.links.push(link);
}

/// Asserts what a single request costs: so many messages, all to get in, and so many hops.
fn assert_lone<P: mutex::Algorithm>(
    entry: &Entry<P>,
    setup: Setup,
    node: u32,
    messages: u64,
    hops: u32,
) {
    let outcome = simulate(entry, &burst(entry, setup.clone(), [node], 1));
    let costs = costs(&outcome);
    let [lone] = &costs.entries[..] else { panic!("one request was made") };
    let what = format!("{} in a {} asked by p{node}", entry.info.id, setup.topology);
    assert_eq!(costs.messages, messages, "{what}");
    assert_eq!((lone.messages_entry, lone.messages_exit), (messages, 0), "{what}");
    assert_eq!(costs.entry_hops(&outcome.trace, lone), Some(hops), "{what}");
}

/// Asserts that these wait for ever, that nothing is left to happen, and that the others got in.
fn assert_stuck(outcome: &Outcome, waiting: &[u32]) {
    assert_eq!(outcome.trace.end, End::Quiet);
    let costs = costs(outcome);
    let mut stuck: Vec<u32> =
        costs.entries.iter().filter(|e| e.entered.is_none()).map(|e| e.node.0).collect();
    stuck.sort_unstable();
    assert_eq!(stuck, waiting);
    assert!(verdict(Property::NoStarvation, outcome, 1).is_violated());
}

/// How many of 400 runs, with delays that differ a lot, break first come, first served.
fn overtakings<P: mutex::Algorithm>(entry: &Entry<P>, channels: Channels) -> usize {
    let overtakes = |&seed: &u64| {
        let n = 3 + seed as u32 % 6;
        let mut spec = random_spec(entry, Setup::new(topology(entry, n, seed)), seed);
        spec.delays = Delay::Uniform(T / 100, T * 8).into();
        spec.channels = channels;
        let outcome = simulate(entry, &spec);
        assert_eq!(order(&outcome).len(), 3 * n as usize);
        verdict(Property::FcfsHappenedBefore, &outcome, 1).is_violated()
    };
    (0..400).filter(overtakes).count()
}

#[test]
fn suzuki_kasami_costs_the_holder_nothing_and_anybody_else_n_messages_and_two_hops() {
    for n in 2..=9 {
        assert_lone(&suzuki_kasami::PLAIN, complete(n), 0, 0, 0);
        let mut sum = 0;
        for node in 1..n {
            assert_lone(&suzuki_kasami::PLAIN, complete(n), node, n.into(), 2);
            sum += n;
        }
        assert_eq!(sum / n, n - 1, "the mean over all requesters");
        assert_lone(&suzuki_kasami::PLAIN, complete(n).with("holder", n - 1), 0, n.into(), 2);
    }
}

#[test]
fn suzuki_kasami_serves_a_burst_for_n_times_n_minus_1_messages_one_hop_apart() {
    for n in 2..=9 {
        let entry = &suzuki_kasami::PLAIN;
        let outcome = simulate(entry, &burst(entry, complete(n), 0..n, 2));
        let costs = costs(&outcome);
        assert_eq!(costs.messages, u64::from(n * (n - 1)));
        assert_eq!(costs.entry_hops(&outcome.trace, &costs.entries[0]), Some(0));
        for handover in &costs.handovers {
            assert_eq!(costs.handover_hops(&outcome.trace, handover), Some(1));
        }
        assert_eq!(costs.handovers.len(), n as usize - 1);
    }
}

#[test]
fn suzuki_kasami_fills_its_queue_by_place_and_not_by_time() {
    let entry = &suzuki_kasami::PLAIN;
    let plan = [(0, 0, 10), (2, 1, 1), (1, 2, 1)];
    let outcome = simulate(entry, &asking(entry, complete(3), &plan));
    assert_eq!(order(&outcome), [0, 1, 2]);
}

#[test]
fn suzuki_kasami_lets_a_request_that_heard_of_another_overtake_it() {
    let entry = &suzuki_kasami::PLAIN;
    let mut spec = asking(entry, complete(3), &[(1, 0, 1), (2, 2, 1)]);
    slow(&mut spec, 1, 0, 10);
    let outcome = simulate(entry, &spec);
    assert_eq!(order(&outcome), [2, 1]);
    assert!(verdict(Property::FcfsHappenedBefore, &outcome, 1).is_violated());
}

#[test]
fn suzuki_kasami_overtakes_nobody_more_than_n_minus_1_times_at_saturation() {
    for n in 2..=9 {
        let entry = &suzuki_kasami::PLAIN;
        let outcome = simulate(entry, &saturated(entry, complete(n), 20));
        assert!(costs(&outcome).overtaking() < u64::from(n), "n={n}");
    }
}

fn assert_a_lost_token_stops_everything<P: mutex::Algorithm>(entry: &Entry<P>, setup: Setup) {
    let mut spec = asking(entry, setup, &[(1, 0, 1), (2, 5, 1), (0, 6, 1)]);
    spec.faults = Faults::none().with(at(0), lose("Token"));
    let outcome = simulate(entry, &spec);
    assert_stuck(&outcome, &[0, 1, 2]);
    assert!(verdict(Property::NoDeadlock, &outcome, 1).is_violated());
}

fn assert_a_crash_of_the_holder_loses_the_token<P: mutex::Algorithm>(
    entry: &Entry<P>,
    setup: Setup,
) {
    let mut spec = asking(entry, setup, &[(0, 0, 100), (1, 2, 1), (2, 3, 1)]);
    spec.faults = Faults::none().with(at(20), Fault::Crash(NodeId(0)));
    let outcome = simulate(entry, &spec);
    assert_eq!(order(&outcome), [0]);
    assert_stuck(&outcome, &[1, 2]);
}

#[test]
fn a_lost_token_stops_everything() {
    assert_a_lost_token_stops_everything(&suzuki_kasami::PLAIN, complete(4));
    assert_a_lost_token_stops_everything(&naimi_trehel::PLAIN, complete(4));
    for tree in trees(4) {
        assert_a_lost_token_stops_everything(&raymond_tree::PLAIN, Setup::new(tree.clone()));
        assert_a_lost_token_stops_everything(&tree_token_fair::PLAIN, Setup::new(tree));
    }
}

#[test]
fn a_crash_of_the_holder_loses_the_token() {
    assert_a_crash_of_the_holder_loses_the_token(&suzuki_kasami::PLAIN, complete(4));
    assert_a_crash_of_the_holder_loses_the_token(&naimi_trehel::PLAIN, complete(4));
    for tree in trees(4) {
        let setup = Setup::new(tree);
        assert_a_crash_of_the_holder_loses_the_token(&raymond_tree::PLAIN, setup.clone());
        assert_a_crash_of_the_holder_loses_the_token(&tree_token_fair::PLAIN, setup);
    }
}

#[test]
fn a_lost_request_blocks_the_one_who_asked() {
    fn check<P: mutex::Algorithm>(entry: &Entry<P>, setup: Setup) {
        let mut spec = asking(entry, setup, &[(1, 0, 1), (0, 5, 1)]);
        spec.faults = Faults::none().with(at(0), lose("Request"));
        let outcome = simulate(entry, &spec);
        assert_stuck(&outcome, &[1]);
        assert_eq!(order(&outcome), [0]);
    }
    check(&suzuki_kasami::PLAIN, complete(3));
    check(&naimi_trehel::PLAIN, complete(3));
    for tree in trees(3) {
        check(&raymond_tree::PLAIN, Setup::new(tree.clone()));
        check(&tree_token_fair::PLAIN, Setup::new(tree));
    }
}

#[test]
fn suzuki_kasami_serves_a_request_lost_on_its_way_once_the_token_is_with_one_who_heard_it() {
    let entry = &suzuki_kasami::PLAIN;
    let mut spec = asking(entry, complete(3), &[(1, 0, 1), (2, 5, 1)]);
    spec.faults = Faults::none().with(at(0), lose("Request"));
    assert_eq!(order(&simulate(entry, &spec)), [2, 1]);
}

#[test]
fn suzuki_kasami_does_not_mind_the_crash_of_one_who_neither_holds_nor_waits() {
    let entry = &suzuki_kasami::PLAIN;
    for seed in 0..200 {
        let mut spec = random_spec(entry, complete(5), seed);
        spec.workload.arrivals = Arrivals::Closed {
            clients: 0..4,
            rounds: Some(3),
            first: Spread::between(Duration::ZERO, T * 8),
            think: Spread::between(Duration::ZERO, T * 8),
        };
        spec.faults = Faults::none().with(at(seed % 30), Fault::Crash(NodeId(4)));
        let outcome = simulate(entry, &spec);
        assert_eq!(order(&outcome).len(), 12, "seed {seed}");
        for property in [Property::Exclusion, Property::NoStarvation, Property::FenceOrder] {
            assert!(verdict(property, &outcome, 1).held(), "{property} seed {seed}");
        }
    }
    // One who waits takes the token with it.
    let mut spec = asking(entry, complete(3), &[(0, 0, 10), (1, 1, 1), (2, 2, 1)]);
    spec.faults = Faults::none().with(at(5), Fault::Crash(NodeId(1)));
    let outcome = simulate(entry, &spec);
    assert_eq!(order(&outcome), [0]);
}

#[test]
fn a_token_on_a_tree_costs_twice_the_distance() {
    for n in 2..=9 {
        for tree in trees(n) {
            for holder in 0..n {
                let distances = tree.distances(NodeId(holder));
                for node in 0..n {
                    let d = distances[node as usize];
                    let setup = Setup::new(tree.clone()).with("holder", holder);
                    let messages = u64::from(2 * d);
                    assert_lone(&raymond_tree::PLAIN, setup.clone(), node, messages, 2 * d);
                    assert_lone(&raymond_tree::RESTART, setup.clone(), node, messages, 2 * d);
                    assert_lone(&tree_token_fair::PLAIN, setup, node, messages, 2 * d);
                }
            }
        }
    }
}

#[test]
fn raymond_costs_at_most_2_n_minus_1_on_a_line_and_4_on_a_star() {
    for n in 3..=9 {
        let line = Setup::new(Topology::line(n));
        let messages = u64::from(2 * (n - 1));
        assert_lone(&raymond_tree::PLAIN, line, n - 1, messages, 2 * (n - 1));
        let star = Setup::new(Topology::star(n)).with("holder", 1);
        assert_lone(&raymond_tree::PLAIN, star, 2, 4, 4);
    }
}

#[test]
fn raymond_costs_two_thirds_of_n_on_a_line_on_average() {
    for n in 2..=7_u64 {
        let mut sum = 0;
        for (holder, node) in (0..n as u32).flat_map(|i| (0..n as u32).map(move |j| (i, j))) {
            let setup = Setup::new(Topology::line(n as u32)).with("holder", holder);
            let spec = burst(&raymond_tree::PLAIN, setup, [node], 1);
            sum += costs(&simulate(&raymond_tree::PLAIN, &spec)).messages;
        }
        // 2(N² − 1) / 3N, times the N² pairs.
        assert_eq!(3 * sum, 2 * (n * n - 1) * n);
    }
}

#[test]
fn raymond_serves_a_burst_on_a_line_for_2_n_minus_1_and_on_a_star_for_4_n_minus_1_less_2() {
    for n in 2..=9 {
        let entry = &raymond_tree::PLAIN;
        let outcome = simulate(entry, &burst(entry, Setup::new(Topology::line(n)), 0..n, 2));
        let line = costs(&outcome);
        assert_eq!(line.messages, u64::from(2 * (n - 1)));
        assert_eq!(line.entry_hops(&outcome.trace, &line.entries[0]), Some(0));
        assert_eq!(line.handovers.len(), n as usize - 1);
        for handover in &line.handovers {
            assert_eq!(line.handover_hops(&outcome.trace, handover), Some(1));
        }

        let outcome = simulate(entry, &burst(entry, Setup::new(Topology::star(n)), 0..n, 2));
        let star = costs(&outcome);
        assert_eq!(star.messages, u64::from(4 * (n - 1) - 2));
        let hops = star.handovers.iter().map(|h| star.handover_hops(&outcome.trace, h));
        let expected = (0..n as usize - 1).map(|i| Some(if i == 0 { 1 } else { 2 }));
        assert!(hops.eq(expected), "one hop from the hub, two from leaf to leaf");
    }
}

#[test]
fn raymond_tends_to_four_messages_an_entry_at_saturation() {
    for tree in trees(31) {
        let entry = &raymond_tree::PLAIN;
        let spec = saturated(entry, Setup::new(tree), 20);
        let per_entry = costs(&simulate(entry, &spec)).messages_per_entry().expect("entries");
        assert!((3.7..4.0).contains(&per_entry), "{per_entry} on a {}", spec.setup.topology);
    }
}

/// The example tree: P1 to P5 are nodes 0 to 4.
fn five() -> Topology {
    Topology::tree(nodes([0, 0, 2, 2]).to_vec()).expect("parents come first")
}

#[test]
fn raymond_replays_the_example_and_moves_the_root() {
    let entry = &raymond_tree::PLAIN;
    let outcome = simulate(entry, &burst(entry, Setup::new(five()), [4], 1));
    let sends: Vec<_> = outcome
        .trace
        .records
        .iter()
        .filter_map(|record| match record.event() {
            Event::Send { to, label, .. } => Some((record.node.0, to.0, outcome.trace.name(label))),
            _ => None,
        })
        .collect();
    let expected = [(4, 2, "Request"), (2, 0, "Request"), (0, 2, "Token"), (2, 4, "Token")];
    assert_eq!(sends, expected);

    // Now P5 is the root: it enters for nothing, and its neighbour P3 for two messages.
    let outcome =
        simulate(entry, &asking(entry, Setup::new(five()), &[(4, 0, 1), (4, 10, 1), (2, 20, 1)]));
    let per_entry: Vec<u64> = costs(&outcome).entries.iter().map(|e| e.messages_entry).collect();
    assert_eq!(per_entry, [4, 0, 2]);
}

#[test]
fn raymond_stays_split_when_an_inner_node_crashes() {
    let entry = &raymond_tree::PLAIN;
    let mut spec = asking(entry, Setup::new(Topology::line(5)), &[(4, 5, 1), (3, 6, 1), (1, 9, 1)]);
    spec.faults = Faults::none().with(at(1), Fault::Crash(NodeId(2)));
    let outcome = simulate(entry, &spec);
    assert_eq!(order(&outcome), [1], "the token's half goes on");
    assert_stuck(&outcome, &[3, 4]);
}

#[test]
fn a_request_that_heard_of_another_can_overtake_it() {
    for channels in [Channels::Fifo, Channels::Reliable] {
        assert!(overtakings(&raymond_tree::PLAIN, channels) > 0);
        assert!(overtakings(&naimi_trehel::PLAIN, channels) > 0);
    }
}

#[test]
fn the_fair_token_needs_fifo_channels_to_keep_the_order_of_requests_that_heard_of_each_other() {
    assert!(overtakings(&tree_token_fair::PLAIN, Channels::Reliable) > 0);
    assert_eq!(overtakings(&tree_token_fair::PLAIN, Channels::Fifo), 0);
}

/// Two leaves under p1 ask all the time; p2, in the other half of the tree, asks once.
fn two_leaves_against_one(rounds: usize) -> Vec<(u32, u64, u64)> {
    let mut plan = vec![(2, 20, 1)];
    plan.extend([(3, 0, 2), (4, 0, 2)].repeat(rounds));
    plan
}

fn entered_before<P: mutex::Algorithm>(entry: &Entry<P>, rounds: usize) -> usize {
    let setup = Setup::new(Topology::binary(7));
    let outcome = simulate(entry, &asking(entry, setup, &two_leaves_against_one(rounds)));
    let order = order(&outcome);
    assert_eq!(order.len(), 2 * rounds + 1);
    order.iter().position(|&node| node == 2).expect("it enters in the end")
}

#[test]
fn a_greedy_node_starves_the_other_sub_tree_and_a_list_or_timestamps_do_not() {
    for rounds in [10, 100, 500] {
        assert_eq!(entered_before(&raymond_tree::GREEDY, rounds), 2 * rounds, "the very last");
        assert!(entered_before(&raymond_tree::PLAIN, rounds) < 10);
        assert!(entered_before(&tree_token_fair::PLAIN, rounds) < 10);
    }
}

#[test]
fn the_fair_token_serves_by_timestamp_and_raymond_by_arrival() {
    let star = || Setup::new(Topology::star(4));
    let plan = [(0, 0, 10), (3, 1, 1), (1, 2, 1), (2, 3, 1)];
    let fair = simulate(&tree_token_fair::PLAIN, &asking(&tree_token_fair::PLAIN, star(), &plan));
    assert_eq!(order(&fair), [0, 1, 2, 3], "all three have time 1; ids break the tie");
    let raymond = simulate(&raymond_tree::PLAIN, &asking(&raymond_tree::PLAIN, star(), &plan));
    assert_eq!(order(&raymond), [0, 3, 1, 2]);
}

#[test]
fn the_fair_token_does_not_let_a_slow_clock_overtake_again_and_again() {
    // p2's clock runs ahead with the many requests of p3 that pass it; p0's stays behind.
    let entry = &tree_token_fair::PLAIN;
    let mut plan: Vec<_> = (0..20).map(|i| (3, 10 * i, 1)).collect();
    plan.push((1, 200, 10));
    plan.push((2, 202, 1));
    plan.extend((0..20).map(|_| (0, 203, 1)));
    let setup = Setup::new(Topology::line(4)).with("holder", 1);
    let order = order(&simulate(entry, &asking(entry, setup, &plan)));
    let since: Vec<u32> = order[20..].to_vec();
    let mine = since.iter().position(|&node| node == 2).expect("p2 enters");
    assert!(mine <= 2, "p2 waits for p1 and at most one entry of p0: {since:?}");
}

#[test]
fn the_fair_token_announces_a_request_in_at_most_the_diameter() {
    for seed in 0..240 {
        let n = 2 + seed as u32 % 8;
        let entry = &tree_token_fair::PLAIN;
        let setup = Setup::new(topology(entry, n, seed));
        let tree = setup.topology.clone();
        let diameter = tree.nodes().flat_map(|node| tree.distances(node)).max().expect("nodes");
        let outcome = simulate(entry, &random_spec(entry, setup, seed));
        let mut announced = vec![0; n as usize];
        for record in &outcome.trace.records {
            match record.event() {
                Event::Request(Observation::Asked) => announced[record.node.index()] = 0,
                Event::Send { label, owner: Owner::Node(origin), .. }
                    if outcome.trace.name(label) == "Request" =>
                {
                    announced[origin.index()] += 1;
                    assert!(announced[origin.index()] <= diameter, "seed {seed}");
                }
                _ => {}
            }
        }
    }
}

#[test]
fn naimi_trehel_costs_the_first_two_messages_and_the_root_nothing() {
    for n in 2..=9 {
        assert_lone(&naimi_trehel::PLAIN, complete(n), 0, 0, 0);
        for node in 1..n {
            assert_lone(&naimi_trehel::PLAIN, complete(n), node, 2, 2);
        }
    }
}

#[test]
fn naimi_trehel_never_costs_more_than_n_and_hands_over_in_one_hop() {
    for seed in 0..240 {
        let n = 2 + seed as u32 % 8;
        let entry = &naimi_trehel::PLAIN;
        let outcome = simulate(entry, &random_spec(entry, complete(n), seed));
        let costs = costs(&outcome);
        let dearest = costs.entries.iter().map(|e| e.messages_entry + e.messages_exit).max();
        assert!(dearest <= Some(n.into()), "seed {seed}");

        let outcome = simulate(entry, &burst(entry, complete(n), 0..n, 2 * u64::from(n)));
        let costs = crate::support::costs(&outcome);
        assert_eq!(costs.handovers.len(), n as usize - 1);
        for handover in &costs.handovers {
            assert_eq!(costs.handover_hops(&outcome.trace, handover), Some(1));
        }
    }
}

#[test]
fn naimi_trehel_costs_about_log_n_on_average() {
    let entry = &naimi_trehel::PLAIN;
    for n in [16, 64, 256_u32] {
        let mut rng = Rng::new(u64::from(n));
        let plan: Vec<_> =
            (0..1_000).map(|i| (rng.below(n.into()) as u32, i * u64::from(n) * 2, 1)).collect();
        let outcome =
            simulate(entry, &RunSpec { until: Time::MAX, ..asking(entry, complete(n), &plan) });
        let mean = costs(&outcome).messages_per_entry().expect("entries");
        let log = f64::from(n.ilog2());
        assert!((0.5 * log..1.5 * log).contains(&mean), "{mean} for {n}");
    }
}

#[test]
fn naimi_trehel_loses_requests_whose_pointers_lead_through_a_crashed_node() {
    let entry = &naimi_trehel::PLAIN;
    // The token has moved to p1 when p0 crashes; p2 still points to p0.
    let mut spec = asking(entry, complete(4), &[(1, 0, 1), (2, 15, 1), (1, 20, 1)]);
    spec.faults = Faults::none().with(at(10), Fault::Crash(NodeId(0)));
    let outcome = simulate(entry, &spec);
    assert_eq!(order(&outcome), [1, 1]);
    assert_stuck(&outcome, &[2]);
}

#[test]
fn raymonds_tree_survives_restarts_one_at_a_time() {
    let entry = &raymond_tree::RESTART;
    for seed in 0..400 {
        let n = 2 + seed as u32 % 8;
        let mut spec = random_spec(entry, Setup::new(topology(entry, n, seed)), seed);
        let mut rng = Rng::new(seed ^ 0xc0ffee);
        let mut now = at(0);
        for _ in 0..1 + rng.below(6) {
            let node = NodeId(rng.below(n.into()) as u32);
            let up = now + Duration::from_micros(rng.below(12_000));
            // Its neighbours' reports are in after two messages.
            let down = up + Duration::from_micros(rng.below(4_000));
            spec.faults = spec.faults.with(up, Fault::Crash(node)).with(down, Fault::Recover(node));
            now = down + T * 2;
        }
        // The model cannot say "one at a time", so it says none at all.
        assert_ne!(spec.beyond(&entry.info), []);
        let outcome = simulate(entry, &spec);
        for &property in entry.info.holds {
            // Short runs: who waits for a node to come back easily waits for half of one.
            let limits = JudgeLimits { places: 1, patience: T * 200 };
            let verdict = judge(property, &outcome.trace, limits);
            assert!(verdict.held(), "{property} n={n} seed={seed}: {verdict:?}");
        }
        assert!(outcome.stats.entered > 0, "seed {seed}");
    }
}

#[test]
fn a_restarted_holder_makes_a_new_token_that_goes_on_counting() {
    let entry = &raymond_tree::RESTART;
    let plan = [(2, 0, 1), (2, 10, 100), (0, 12, 1), (4, 13, 1)];
    let mut spec = asking(entry, Setup::new(Topology::line(5)), &plan);
    spec.faults = Faults::none()
        .with(at(20), Fault::Crash(NodeId(2)))
        .with(at(30), Fault::Recover(NodeId(2)));
    let outcome = simulate(entry, &spec);
    let costs = costs(&outcome);
    let tokens: Vec<_> = costs.entered().map(|e| (e.node.0, e.token.expect("inside"))).collect();
    assert_eq!(tokens, [(2, 1), (2, 2), (0, 3), (4, 4)]);
}

#[test]
fn two_neighbours_down_at_once_wait_for_each_other() {
    let entry = &raymond_tree::RESTART;
    let mut spec = asking(entry, Setup::new(Topology::line(3)), &[(0, 20, 1)]);
    for node in nodes([0, 1]) {
        spec.faults = spec.faults.with(at(5), Fault::Crash(node));
        spec.faults = spec.faults.with(at(8 + u64::from(node.0)), Fault::Recover(node));
    }
    assert_stuck(&simulate(entry, &spec), &[0]);
}

#[test]
fn reordering_breaks_a_restart() {
    // Without FIFO a token sent before the crash can arrive after the question.
    let entry = &raymond_tree::RESTART;
    let broken = (0..2_000).any(|seed| {
        let mut spec = random_spec(entry, Setup::new(Topology::line(3)), seed);
        spec.channels = Channels::Reliable;
        spec.delays = Delay::Uniform(T / 20, T * 4).into();
        for i in 0..10 {
            let (down, node) = (at(3 + 9 * i), NodeId(i as u32 % 3));
            spec.faults = spec
                .faults
                .with(down, Fault::Crash(node))
                .with(down + T / 100, Fault::Recover(node));
        }
        let outcome = simulate(entry, &spec);
        verdict(Property::Exclusion, &outcome, 1).is_violated()
    });
    assert!(broken);
}
