//! What the rings cost, in what order they serve, and what stops them.

use std::time::Duration;

use crate::support::{
    T, at, burst, costs, lose, order, random_spec, ring, saturated, simulate, topology, verdict,
};
use conclave_algorithms::mutex::{
    Algorithm, Client, dijkstra_self_stabilizing_ring as dijkstra, token_ring, token_ring_handler,
    token_ring_on_demand,
};
use conclave_protocol::{Entry, Hosted, NodeId, Observation, Property, Setup, Time, Topology};
use conclave_sim::{
    Arrivals, Ask, End, Event, Fault, Faults, Outcome, Rng, RunSpec, Spread, Workload, World,
};

/// These nodes ask at these moments, in microseconds.
fn planned<P: Algorithm>(entry: &Entry<P>, setup: Setup, asks: &[(u32, u64)]) -> RunSpec {
    let mut spec = RunSpec::new(&entry.info, setup);
    let ask = |&(node, at): &(u32, u64)| Ask {
        node: NodeId(node),
        at: Time::ZERO + Duration::from_micros(at),
        hold: None,
    };
    spec.workload = Workload {
        arrivals: Arrivals::Plan(asks.iter().map(ask).collect()),
        hold: Spread::exactly(T),
    };
    spec.until = at(10_000);
    spec
}

/// How many messages were sent between each request and its grant.
fn sent_while_waiting(outcome: &Outcome, node: u32) -> Vec<u64> {
    let (mut counts, mut waiting) = (Vec::new(), None);
    for record in &outcome.trace.records {
        match record.event() {
            Event::Request(Observation::Asked) if record.node.0 == node => waiting = Some(0),
            Event::Notice(Observation::Entered { .. }) if record.node.0 == node => {
                counts.extend(waiting.take());
            }
            Event::Send { .. } => waiting = waiting.map(|count| count + 1),
            _ => {}
        }
    }
    counts
}

/// Nothing happens any more although a node waits.
fn assert_standstill(outcome: &Outcome) {
    assert_eq!(outcome.trace.end, End::Quiet);
    assert!(verdict(Property::NoDeadlock, outcome, 1).is_violated());
    assert!(verdict(Property::Exclusion, outcome, 1).held());
}

#[test]
fn a_request_at_distance_d_costs_d_messages_and_takes_d_hops() {
    for d in 1..5 {
        let outcome = simulate(&token_ring::PLAIN, &burst(&token_ring::PLAIN, ring(5), [d], 2));
        let costs = costs(&outcome);
        let entry = &costs.entries[0];
        assert_eq!((entry.messages_entry, entry.messages_exit), (u64::from(d), 0));
        assert_eq!(entry.entered, Some(at(d.into())));
        assert_eq!(entry.left, Some(at(u64::from(d) + 2)), "d·T + E");
    }
}

#[test]
fn the_lectures_ring_of_five_lets_p3_in_after_three_messages() {
    let spec = burst(&token_ring::PLAIN, ring(5).with("holder", 0), [3], 1);
    let costs = costs(&simulate(&token_ring::PLAIN, &spec));
    assert_eq!((costs.entries[0].messages_entry, costs.entries[0].entered), (3, Some(at(3))));
}

#[test]
fn who_has_just_missed_the_token_waits_n_hops_for_n_minus_1_messages() {
    for n in 2..9 {
        let outcome = simulate(&token_ring::PLAIN, &burst(&token_ring::PLAIN, ring(n), [0], 1));
        assert_eq!(sent_while_waiting(&outcome, 0), [u64::from(n) - 1]);
        assert_eq!(costs(&outcome).entries[0].entered, Some(at(n.into())));
    }
}

#[test]
fn a_saturated_ring_takes_one_message_and_one_hop_per_entry() {
    let outcome = simulate(&token_ring::PLAIN, &saturated(&token_ring::PLAIN, ring(5), 20));
    let costs = costs(&outcome);
    assert_eq!(costs.entered().count(), 100);
    for entry in costs.entered() {
        assert_eq!((entry.messages_entry, entry.messages_exit), (1, 0));
    }
    assert_eq!(costs.handovers.len(), 99);
    for handover in &costs.handovers {
        assert_eq!(handover.delay, T);
        assert_eq!(costs.handover_hops(&outcome.trace, handover), Some(1));
    }
}

#[test]
fn an_idle_ring_sends_n_messages_per_revolution_and_is_never_quiet() {
    for (n, revolutions) in [(5, 3), (2, 7), (9, 4)] {
        let mut spec = burst(&token_ring::PLAIN, ring(n), [], 0);
        spec.linger = None;
        spec.until = at(u64::from(n) * revolutions - 1);
        let outcome = simulate(&token_ring::PLAIN, &spec);
        assert_eq!(outcome.stats.sent, u64::from(n) * revolutions);
        assert_eq!(outcome.trace.end, End::TimeLimit);
    }
}

#[test]
fn at_random_instants_the_token_is_half_a_ring_away() {
    let (n, asks) = (8, 3_000);
    let mut rng = Rng::new(1);
    let instants: Vec<_> =
        (0..asks).map(|i| (0, i * 40_000 + rng.below(u64::from(n) * 1_000))).collect();
    let mut spec = planned(&token_ring::PLAIN, ring(n), &instants);
    spec.until = at(40 * asks + 100);
    let outcome = simulate(&token_ring::PLAIN, &spec);
    let waited = costs(&outcome).waiting().mean.as_secs_f64() / T.as_secs_f64();
    assert!((waited - f64::from(n) / 2.0).abs() < 0.15, "{waited} hops on average");
    let sent = sent_while_waiting(&outcome, 0);
    let mean = sent.iter().sum::<u64>() as f64 / sent.len() as f64;
    assert!((mean - f64::from(n - 1) / 2.0).abs() < 0.15, "{mean} messages on average");
}

#[test]
fn the_token_takes_a_hop_for_each_place_to_the_next_who_waits() {
    for distance in 1..6 {
        let spec = burst(&token_ring::PLAIN, ring(7), [1, 1 + distance], 9);
        let outcome = simulate(&token_ring::PLAIN, &spec);
        let costs = costs(&outcome);
        assert_eq!(costs.handovers[0].delay, T * distance);
        assert_eq!(costs.handover_hops(&outcome.trace, &costs.handovers[0]), Some(distance));
    }
}

#[test]
fn turnaround_is_worst_when_all_others_enter_first() {
    let (n, hold) = (6, 3);
    let spec = burst(&token_ring::PLAIN, ring(n), 0..n, hold);
    let costs = costs(&simulate(&token_ring::PLAIN, &spec));
    let worst = (u64::from(n) - 1) * (hold + 1) + 1 + hold;
    assert_eq!(costs.turnaround().max, T * worst as u32);
    assert_eq!(costs.entries[0].left, Some(at(worst)), "p0, which had just passed the token on");
}

#[test]
fn the_ring_serves_by_place_and_not_by_time() {
    // p3 asks and tells p1 of it, by a message of half a hop that the ring does not see; no
    // message of the ring itself can leave p3 before it has had its turn.
    let spec = planned(&token_ring::PLAIN, ring(5), &[(3, 0), (1, 500)]);
    assert_eq!(order(&simulate(&token_ring::PLAIN, &spec)), [1, 3]);
}

#[test]
fn losing_the_token_stops_the_ring() {
    for hop in 0..8 {
        let mut spec = planned(&token_ring::PLAIN, ring(5), &[(2, 20_500)]);
        spec.faults = Faults::none().with(at(hop), lose("Token"));
        assert_standstill(&simulate(&token_ring::PLAIN, &spec));
    }
}

#[test]
fn the_crash_of_any_node_stops_the_ring_whether_it_has_the_token_or_not() {
    for crashed in 0..5 {
        let asker = (crashed + 2) % 5;
        let mut spec = planned(&token_ring::PLAIN, ring(5), &[(crashed, 0), (asker, 12_500)]);
        // Idle by then, or inside.
        for moment in [at(10), at(u64::from(if crashed == 0 { 5 } else { crashed })) + T / 2] {
            spec.faults = Faults::none().with(moment, Fault::Crash(NodeId(crashed)));
            assert_standstill(&simulate(&token_ring::PLAIN, &spec));
        }
    }
}

#[test]
fn without_direction_two_neighbours_keep_the_token_for_ever() {
    let mutant = &token_ring::BIDIRECTIONAL;
    let setup = Setup::new(Topology::complete(4));
    let outcome = simulate(mutant, &planned(mutant, setup, &[(0, 0), (1, 0), (2, 0)]));
    assert!(verdict(Property::NoStarvation, &outcome, 1).is_violated());
    assert!(verdict(Property::Exclusion, &outcome, 1).held());
    assert_eq!(order(&outcome), [1, 0], "p0 and p1 have theirs");
    assert!(outcome.stats.sent > 9_000, "and pass it to and fro");
}

#[test]
fn fetching_a_parked_token_takes_n_messages_and_n_hops_wherever_it_is() {
    let entry = &token_ring_on_demand::PLAIN;
    for n in 2..9 {
        for holder in 0..n {
            let setup = ring(n).with("holder", holder);
            let mut total = 0;
            for asker in 0..n {
                let outcome = simulate(entry, &burst(entry, setup.clone(), [asker], 2));
                let costs = costs(&outcome);
                let hops = if asker == holder { 0 } else { n };
                let cost = &costs.entries[0];
                assert_eq!((cost.messages_entry, cost.messages_exit), (hops.into(), 0));
                assert_eq!(costs.messages, u64::from(hops), "nothing before, nothing after");
                assert_eq!(cost.entered, Some(at(hops.into())));
                assert_eq!(costs.entry_hops(&outcome.trace, cost), Some(hops));
                total += costs.messages;
            }
            assert_eq!(total, u64::from(n * (n - 1)), "N−1 on average over all who may ask");
        }
    }
}

#[test]
fn an_idle_parked_token_sends_nothing() {
    let entry = &token_ring_on_demand::PLAIN;
    let outcome = simulate(entry, &burst(entry, ring(6), [], 0));
    assert_eq!((outcome.stats.sent, outcome.trace.end), (0, End::Quiet));
}

#[test]
fn on_demand_the_ring_comes_to_rest_and_keeps_the_order_that_its_own_messages_make() {
    let entry = &token_ring_on_demand::PLAIN;
    for seed in 0..240 {
        let setup = Setup::new(topology(entry, 2 + (seed % 8) as u32, seed));
        let mut spec = random_spec(entry, setup, seed);
        spec.linger = None;
        let outcome = simulate(entry, &spec);
        assert_eq!(outcome.trace.end, End::Quiet);
        assert!(verdict(Property::FcfsHappenedBefore, &outcome, 1).held(), "seed {seed}");
    }
}

#[test]
fn on_demand_a_request_told_of_by_other_means_is_overtaken() {
    let entry = &token_ring_on_demand::PLAIN;
    // p3's request has reached p0, and the token is on its way; p1, told of it meanwhile, asks.
    let spec = planned(entry, ring(5), &[(3, 0), (1, 2_500)]);
    assert_eq!(order(&simulate(entry, &spec)), [1, 3]);
}

#[test]
fn on_demand_a_lost_request_stops_its_sender_and_a_lost_token_everybody() {
    let entry = &token_ring_on_demand::PLAIN;
    let lost = |label| Faults::none().with(at(0), lose(label));
    let mut spec = planned(entry, ring(5), &[(3, 100), (1, 20_000), (0, 40_000)]);
    spec.faults = lost("Token");
    assert_standstill(&simulate(entry, &spec));
    let mut spec = planned(entry, ring(5), &[(3, 100), (0, 20_000)]);
    spec.faults = lost("Want");
    let outcome = simulate(entry, &spec);
    assert_eq!(order(&outcome), [0], "the holder still can");
    assert!(verdict(Property::NoStarvation, &outcome, 1).is_violated());
    // A crash of one that holds nothing: the next request that has to pass it is lost with it.
    let mut spec = planned(entry, ring(5), &[(3, 1_000)]);
    spec.faults = Faults::none().with(at(0), Fault::Crash(NodeId(4)));
    assert_standstill(&simulate(entry, &spec));
}

/// The longest wait of the others while p2 computes.
fn longest_wait(entry: &Entry<token_ring_handler::TokenHandler>, units: u64) -> u64 {
    let setup = ring(4).with("busy", format!("2:{units}"));
    let asks = [0, 1, 3].map(|node| [0, 5_000, 10_000].map(|at| (node, at))).concat();
    let outcome = simulate(entry, &planned(entry, setup, &asks));
    assert!(verdict(Property::Exclusion, &outcome, 1).held());
    let costs = costs(&outcome);
    assert_eq!(costs.entered().count(), 9, "all get in sooner or later");
    (costs.waiting().max.as_nanos() / T.as_nanos()) as u64
}

#[test]
fn with_a_handler_nobody_waits_for_a_node_that_computes() {
    let short = longest_wait(&token_ring_handler::HANDLER, 10);
    assert_eq!(longest_wait(&token_ring_handler::HANDLER, 1_000), short);
    assert!(short < 10, "{short} T");
}

#[test]
fn without_a_handler_everybody_waits_as_long_as_the_busy_node_computes() {
    for units in [100, 1_000, 3_000] {
        let waited = longest_wait(&token_ring_handler::POLLED, units);
        assert!(waited + 20 > units, "{waited} T of {units}");
    }
}

type Register = dijkstra::SelfStabilizing;

/// Nodes that are privileged.
fn privileged(world: &World, n: u32) -> usize {
    let nodes = (0..n).map(NodeId);
    let is = |id| world.state::<Register>(id).is_some_and(|node| node.is_privileged(id));
    nodes.filter(|&id| is(id)).count()
}

/// Places on the ring of registers and copies where a privilege is or is on its way.
fn privileges(world: &World, n: u32) -> usize {
    let state = |i: u32| world.state::<Register>(NodeId(i % n)).expect("no node crashes");
    let on_the_way = (0..n).filter(|&i| Some(state(i).register()) != state(i + 1).before());
    privileged(world, n) + on_the_way.count()
}

/// Runs a ring from the given registers. Before long it must have one privilege in every state for
/// ever. Returns the most privileges there were at once, after everybody had heard of its
/// predecessor.
fn settle(setup: Setup, seed: u64) -> usize {
    let n = setup.n();
    let config = (dijkstra::PLAIN.config)(&setup).expect("it fits");
    let mut spec = random_spec(&dijkstra::PLAIN, setup, seed);
    (spec.until, spec.linger) = (at(100 * u64::from(n)), None);
    let mut world = World::new(Box::new(Hosted::<Register, Client>::new(config, n)), &spec);
    let (mut most, mut unsettled) = (0, Time::ZERO);
    while world.step().is_none() {
        let count = privileges(&world, n);
        assert!(count > 0, "there is always a privilege");
        let informed = |id| world.state::<Register>(id).is_some_and(|node| node.before().is_some());
        if (0..n).map(NodeId).all(informed) {
            most = most.max(count);
        }
        // A single one may hide others that are under way; what counts is that it stays so.
        if count > 1 {
            unsettled = world.now();
        }
    }
    assert!(unsettled < at(20 * u64::from(n)), "n={n} seed {seed}: settled at {unsettled:?}");
    most
}

#[test]
fn registers_3_1_4_1_have_several_privileges_at_first_and_then_one_for_ever() {
    for seed in 0..50 {
        assert!(settle(ring(4).with("k", 5).with("x", "3,1,4,1"), seed) > 1);
    }
}

#[test]
fn from_random_registers_and_copies_the_ring_settles() {
    let list = |rng: &mut Rng, n: u32, k: u32| {
        let values: Vec<_> = (0..n).map(|_| rng.below(k.into()).to_string()).collect();
        values.join(",")
    };
    let mut several = 0;
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let n = 2 + rng.below(8) as u32;
        let corrupt = seed % 2 == 1;
        let k = 1 + if corrupt { 2 * n } else { n } + rng.below(3) as u32;
        let mut setup = ring(n).with("k", k).with("x", list(&mut rng, n, k));
        if corrupt {
            setup = setup.with("copies", list(&mut rng, n, k));
        }
        several += usize::from(settle(setup, seed) > 1);
    }
    assert!(several > 150, "only {several} runs had anything to settle");
}

#[test]
fn while_the_ring_settles_two_may_be_inside_and_afterwards_never() {
    let entry = &dijkstra::PLAIN;
    let mut spec = saturated(entry, ring(4).with("k", 5).with("x", "3,1,4,1"), 10);
    let outcome = simulate(entry, &spec);
    assert!(verdict(Property::Exclusion, &outcome, 1).is_violated());
    assert!(verdict(Property::FenceOrder, &outcome, 1).is_violated());
    assert!(verdict(Property::NoStarvation, &outcome, 1).held());
    spec.setup = ring(4);
    let outcome = simulate(entry, &spec);
    assert!(verdict(Property::Exclusion, &outcome, 1).held());
    assert!(verdict(Property::FenceOrder, &outcome, 1).is_violated(), "registers wrap round");
}

#[test]
fn a_ring_of_registers_forgives_a_node_that_forgets_and_lost_messages() {
    let entry = &dijkstra::PLAIN;
    for seed in 0..200 {
        let mut spec = random_spec(entry, ring(2 + (seed % 8) as u32), seed);
        let node = NodeId((seed % u64::from(spec.setup.n())) as u32);
        spec.faults = Faults::none()
            .with(at(4), Fault::Reset(node))
            .with(at(7), lose("Register"))
            .with(at(9), lose("Register"));
        let outcome = simulate(entry, &spec);
        assert!(verdict(Property::NoStarvation, &outcome, 1).held(), "seed {seed}");
    }
}
