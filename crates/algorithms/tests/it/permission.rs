//! Mutual exclusion by permission of all: exact costs, replays, and every known failure.

use std::time::Duration;

use crate::support::{
    T, at, burst, complete, costs, held, lose, order, planned, random_spec, simulate, slow, verdict,
};
use conclave_algorithms::mutex::{
    self, lamport, physical_clock_order as clock, ricart_agrawala as ra,
    ricart_agrawala_queued as queued, ricart_agrawala_token as token, roucairol_carvalho as rc,
};
use conclave_protocol::{Channels, Entry, NodeId, Property, Setup, Time};
use conclave_sim::{Arrivals, Delay, End, Fault, Outcome, RunSpec, Spread, Workload};

/// The messages of the only entry of a run, in all, before leaving and after, and its hops.
fn sole_entry(outcome: &Outcome) -> (u64, u64, u64, u32) {
    let costs = costs(outcome);
    let [entry] = &costs.entries[..] else { panic!("{} entries", costs.entries.len()) };
    let hops = costs.entry_hops(&outcome.trace, entry).expect("it entered");
    (costs.messages, entry.messages_entry, entry.messages_exit, hops)
}

/// What it costs `node` alone to enter.
fn alone<P: mutex::Algorithm>(entry: &Entry<P>, setup: Setup, node: u32) -> (u64, u64, u64, u32) {
    sole_entry(&simulate(entry, &burst(entry, setup, [node], 3)))
}

/// All ask at once: the messages, and when the first enters. Every hand-over takes one hop.
fn all_at_once<P: mutex::Algorithm>(entry: &Entry<P>, n: u32) -> (u64, Time) {
    let outcome = simulate(entry, &burst(entry, complete(n), 0..n, 10));
    let costs = costs(&outcome);
    assert_eq!(costs.handovers.len() as u32, n - 1);
    for handover in &costs.handovers {
        assert_eq!(handover.delay, T);
        assert_eq!(costs.handover_hops(&outcome.trace, handover), Some(1));
    }
    let first = costs.entered().filter_map(|entry| entry.entered).min();
    (costs.messages, first.expect("a node entered"))
}

const SIZES: [u32; 3] = [3, 5, 7];

#[test]
fn lamport_always_costs_three_messages_for_each_other_node() {
    for n in SIZES {
        let others = u64::from(n - 1);
        for entry in [&lamport::PLAIN, &lamport::ACK_SUPPRESSION] {
            assert_eq!(alone(entry, complete(n), 1), (3 * others, 2 * others, others, 2));
        }
        assert_eq!(all_at_once(&lamport::PLAIN, n), (3 * u64::from(n) * others, at(2)));
    }
}

#[test]
fn suppression_saves_one_acknowledgement_of_each_pair_and_one_hop() {
    for n in SIZES {
        let pairs = u64::from(n * (n - 1) / 2);
        assert_eq!(all_at_once(&lamport::ACK_SUPPRESSION, n), (5 * pairs, at(1)));
    }
    for seed in 0..40 {
        let n = 2 + (seed % 8) as u32;
        let spec = random_spec(&lamport::ACK_SUPPRESSION, complete(n), seed);
        let costs = costs(&simulate(&lamport::ACK_SUPPRESSION, &spec));
        let (each, others) = (costs.messages, u64::from(n - 1) * costs.entries.len() as u64);
        assert!((2 * others..=3 * others).contains(&each), "{each} of {others}");
    }
}

#[test]
fn ricart_agrawala_always_costs_two_messages_for_each_other_node() {
    for n in SIZES {
        let others = u64::from(n - 1);
        for entry in [&ra::PLAIN, &ra::MULTICAST] {
            assert_eq!(alone(entry, complete(n), 1), (2 * others, 2 * others, 0, 2));
            assert_eq!(all_at_once(entry, n), (2 * u64::from(n) * others, at(2)));
        }
        let outcome = simulate(&ra::PLAIN, &random_spec(&ra::PLAIN, complete(n), 7));
        let costs = costs(&outcome);
        assert!(costs.entries.iter().all(|entry| entry.messages_entry == 2 * others));
    }
}

#[test]
fn on_a_medium_that_multicasts_an_entry_is_n_transmissions() {
    for n in SIZES {
        let outcome = simulate(&ra::MULTICAST, &burst(&ra::MULTICAST, complete(n), [0], 3));
        assert_eq!(costs(&outcome).transmissions, u64::from(n));
    }
}

#[test]
fn on_a_serial_medium_every_message_takes_its_time() {
    for n in SIZES {
        let mut spec = burst(&ra::PLAIN, complete(n), [0], 3);
        spec.delays = Delay::Serial(T).into();
        let outcome = simulate(&ra::PLAIN, &spec);
        assert_eq!(costs(&outcome).entries[0].entered, Some(at(2 * u64::from(n - 1))));
    }
}

#[test]
fn each_deferral_announced_costs_one_message_more() {
    for n in SIZES {
        let (all, others) = (u64::from(n), u64::from(n - 1));
        assert_eq!(alone(&queued::PLAIN, complete(n), 1), (2 * others, 2 * others, 0, 2));
        let total = 2 * all * others + all * others / 2;
        assert_eq!(all_at_once(&queued::PLAIN, n), (total, at(2)));
        let outcome = simulate(&queued::PLAIN, &random_spec(&queued::PLAIN, complete(n), 5));
        let costs = costs(&outcome);
        assert!(costs.entries.iter().all(|entry| entry.messages_entry <= 3 * others));
    }
}

#[test]
fn a_ticket_costs_one_round_trip_more() {
    for n in SIZES {
        let total = 2 * u64::from(n - 1) + 2;
        assert_eq!(alone(&clock::PLAIN, complete(n), 1), (total, total, 0, 4));
        assert_eq!(alone(&clock::PLAIN, complete(n), 0).0, total - 2, "the server's own is free");
    }
}

#[test]
fn roucairol_carvalho_asks_only_for_permissions_that_are_elsewhere() {
    for id in 0..5 {
        let messages = 2 * u64::from(id);
        let hops = if id > 0 { 2 } else { 0 };
        assert_eq!(alone(&rc::PLAIN, complete(5), id), (messages, messages, 0, hops));
        let none = complete(5).with("initial", "none");
        assert_eq!(alone(&rc::PLAIN, none, id), (8, 8, 0, 2), "they lie with no node");
    }
    // Once; again; then p4 and p2 in turns.
    let plan = [(4, 0, 10), (4, 100, 10), (2, 200, 10), (4, 300, 10), (2, 400, 10), (4, 500, 10)];
    let outcome = simulate(&rc::PLAIN, &planned(&rc::PLAIN, complete(5), plan));
    let each: Vec<u64> = costs(&outcome).entries.iter().map(|e| e.messages_entry).collect();
    assert_eq!(each, [8, 0, 6, 2, 2, 2], "p2 has asked p0, p1 and p4 first");
    for n in SIZES {
        assert_eq!(all_at_once(&rc::PLAIN, n), (u64::from(n * (n - 1)), at(0)));
    }
    for seed in 0..40 {
        let n = 2 + (seed % 8) as u32;
        let outcome = simulate(&rc::PLAIN, &random_spec(&rc::PLAIN, complete(n), seed));
        let worst = costs(&outcome).entries.iter().map(|e| e.messages_entry).max();
        assert!(worst <= Some(2 * u64::from(n - 1)));
    }
}

#[test]
fn roucairol_carvalho_is_safe_wherever_the_permissions_lie_at_first() {
    for seed in 0..240 {
        let n = 2 + (seed % 8) as u32;
        let setup = complete(n).with("initial", "none");
        let mut spec = random_spec(&rc::PLAIN, setup, seed);
        if seed % 2 == 0 {
            spec.channels = Channels::Reliable;
        }
        let outcome = simulate(&rc::PLAIN, &spec);
        for &property in rc::PLAIN.info.holds {
            assert!(held(property, &outcome), "{property} n={n} seed={seed}");
        }
    }
}

#[test]
fn with_the_token_an_entry_costs_n_messages_or_none() {
    for n in SIZES {
        assert_eq!(alone(&token::PLAIN, complete(n), 1), (u64::from(n), u64::from(n), 0, 2));
        assert_eq!(alone(&token::PLAIN, complete(n), 0), (0, 0, 0, 0));
        assert_eq!(alone(&token::PLAIN, complete(n).with("holder", 1), 1), (0, 0, 0, 0));
        assert_eq!(all_at_once(&token::PLAIN, n), (u64::from(n * (n - 1)), at(0)));
    }
}

#[test]
fn the_replay_of_lamport_takes_twelve_messages() {
    let outcome = simulate(&lamport::PLAIN, &burst(&lamport::PLAIN, complete(3), [0, 2], 5));
    assert_eq!(order(&outcome), [0, 2]);
    let costs = costs(&outcome);
    assert_eq!(costs.messages, 12);
    let by_label: Vec<_> = costs.by_label.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    assert_eq!(by_label, [("Ack", 4), ("Rel", 4), ("Req", 4)]);
}

#[test]
fn the_replay_of_ricart_agrawala_takes_eight_messages() {
    // p1 has entered seven times, so that everybody's clock is at 7; then p0 and p2 ask at once.
    let warm_up = (0..7).map(|round| (1, round * 100, 10));
    let plan = warm_up.chain([(0, 1000, 50), (2, 1000, 50)]);
    let outcome = simulate(&ra::PLAIN, &planned(&ra::PLAIN, complete(3), plan));
    assert_eq!(order(&outcome)[7..], [0, 2]);
    let costs = costs(&outcome);
    let replay = &costs.entries[7..];
    assert_eq!(replay.iter().map(|entry| entry.messages_entry).sum::<u64>(), 8);
    assert_eq!(replay[0].token, Some(8 << 20), "p0's stamp is (8, 0)");
    let fresh = simulate(&ra::PLAIN, &burst(&ra::PLAIN, complete(3), [0, 2], 5));
    assert_eq!((order(&fresh), crate::support::costs(&fresh).messages), (vec![0, 2], 8));
}

#[test]
fn without_fifo_lamport_lets_an_acknowledgement_overtake_an_older_request() {
    // p0's request to p1 is slow; its acknowledgement of p1's younger request is not.
    for entry in [&lamport::PLAIN, &lamport::ACK_SUPPRESSION] {
        let mut spec = planned(entry, complete(2), [(0, 0, 300), (1, 5, 300)]);
        spec.delays.links = vec![slow(0, 1, 0..1, 100)];
        spec.channels = Channels::Reliable;
        let outcome = simulate(entry, &spec);
        assert!(!held(Property::Exclusion, &outcome), "both are inside");
        spec.channels = Channels::Fifo;
        assert_eq!(order(&simulate(entry, &spec)), [0, 1]);
    }
}

#[test]
fn without_fifo_nearly_every_random_run_of_lamport_puts_two_inside() {
    for entry in [&lamport::PLAIN, &lamport::ACK_SUPPRESSION] {
        let broken = (0..50).filter(|&seed| {
            let mut spec = random_spec(entry, complete(7), seed);
            spec.channels = Channels::Reliable;
            // All ask at about the same time, and stay inside for longer than a message takes.
            spec.workload = Workload {
                arrivals: Arrivals::Closed {
                    clients: 0..7,
                    rounds: Some(3),
                    first: Spread::between(Duration::ZERO, T),
                    think: Spread::between(Duration::ZERO, T),
                },
                hold: Spread::between(T, T * 5),
            };
            !held(Property::Exclusion, &simulate(entry, &spec))
        });
        let broken = broken.count();
        assert!(broken >= 40, "{broken} of 50");
    }
}

/// None of `asking` enters when `fault` happens at the very beginning, and nothing moves.
fn stuck<P: mutex::Algorithm>(entry: &Entry<P>, n: u32, asking: u32, fault: Fault) -> bool {
    let mut spec = planned(entry, complete(n), [(asking, 10, 10)]);
    spec.faults = spec.faults.with(at(0), fault);
    let outcome = simulate(entry, &spec);
    let stuck = order(&outcome).is_empty();
    if stuck {
        assert_eq!(outcome.trace.end, End::Quiet);
        assert!(verdict(Property::NoDeadlock, &outcome, 1).is_violated());
    }
    stuck
}

#[test]
fn any_crash_stops_everybody_who_needs_the_permission_of_all() {
    for crashed in (0..4).map(NodeId) {
        for asking in (0..4).filter(|&node| node != crashed.0) {
            let crash = || Fault::Crash(crashed);
            assert!(stuck(&lamport::PLAIN, 4, asking, crash()));
            assert!(stuck(&lamport::ACK_SUPPRESSION, 4, asking, crash()));
            assert!(stuck(&ra::PLAIN, 4, asking, crash()));
            assert!(stuck(&ra::MULTICAST, 4, asking, crash()));
            assert!(stuck(&clock::PLAIN, 4, asking, crash()));
            // Permissions lie with the lower ids at first.
            assert_eq!(stuck(&rc::PLAIN, 4, asking, crash()), crashed.0 < asking);
            // The token is at p0.
            assert_eq!(stuck(&token::PLAIN, 4, asking, crash()), crashed.0 == 0);
        }
    }
}

/// p0 enters and crashes inside; p1 and p2 wait for ever.
fn crash_inside_blocks<P: mutex::Algorithm>(entry: &Entry<P>) {
    let mut spec = planned(entry, complete(3), [(0, 0, 1000), (1, 100, 10), (2, 110, 10)]);
    spec.faults = spec.faults.with(at(50), Fault::Crash(NodeId(0)));
    let outcome = simulate(entry, &spec);
    assert_eq!((order(&outcome), outcome.trace.end), (vec![0], End::Quiet), "{}", entry.info.id);
    assert!(verdict(Property::NoStarvation, &outcome, 1).is_violated());
}

#[test]
fn a_crash_inside_stops_everybody() {
    crash_inside_blocks(&lamport::PLAIN);
    crash_inside_blocks(&lamport::ACK_SUPPRESSION);
    crash_inside_blocks(&ra::PLAIN);
    crash_inside_blocks(&rc::PLAIN);
    crash_inside_blocks(&token::PLAIN);
    crash_inside_blocks(&clock::PLAIN);
}

#[test]
fn the_loss_of_one_message_stops_who_waits_for_it() {
    for label in ["Req", "Ack"] {
        assert!(stuck(&lamport::PLAIN, 3, 1, lose(label)));
    }
    for label in ["Request", "Reply"] {
        assert!(stuck(&ra::PLAIN, 3, 1, lose(label)));
        assert!(stuck(&rc::PLAIN, 3, 1, lose(label)));
    }
    assert!(stuck(&token::PLAIN, 3, 1, lose("Token")));
    // Its first request is the one to p0, which has the token.
    assert!(stuck(&token::PLAIN, 3, 1, lose("Request")));
    assert!(!stuck(&token::PLAIN, 3, 0, lose("Request")));
    // The loss of a release stops everybody else.
    let mut spec = planned(&lamport::PLAIN, complete(3), [(0, 0, 10), (1, 100, 10), (2, 100, 10)]);
    spec.faults = spec.faults.with(at(0), lose("Rel"));
    let outcome = simulate(&lamport::PLAIN, &spec);
    assert_eq!((order(&outcome), outcome.trace.end), (vec![0], End::Quiet));
}

#[test]
fn a_lost_token_stops_everybody() {
    let plan = (0..4).map(|node| (node, 10 * node, 50));
    let mut spec = planned(&token::PLAIN, complete(4), plan);
    spec.faults = spec.faults.with(at(0), lose("Token"));
    let outcome = simulate(&token::PLAIN, &spec);
    assert_eq!((order(&outcome), outcome.trace.end), (vec![0], End::Quiet));
}

#[test]
fn replying_to_one_is_enough_for_two_nodes_and_too_little_for_three() {
    for seed in 0..60 {
        let outcome = simulate(&ra::NOTIFY_ONE, &random_spec(&ra::NOTIFY_ONE, complete(2), seed));
        assert!(held(Property::NoStarvation, &outcome), "seed={seed}");
    }
    for n in 3..=9 {
        // p1 gets p0's only reply; p2, which gets p1's, lacks p0's.
        let outcome = simulate(&ra::NOTIFY_ONE, &burst(&ra::NOTIFY_ONE, complete(n), 0..n, 5));
        assert_eq!((order(&outcome), outcome.trace.end), (vec![0, 1], End::Quiet));
        assert!(verdict(Property::NoDeadlock, &outcome, 1).is_violated());
    }
}

/// p2 enters first. Then p1 asks, its word to p0 being slow; p0 enters with p2's reply, sent after
/// p2 has heard of p1, and asks once more.
fn word_by_way_of_p2<P: mutex::Algorithm>(entry: &Entry<P>) -> Outcome {
    let plan = [(2, 0, 10), (1, 100, 10), (0, 110, 10), (0, 150, 10)];
    let mut spec = planned(entry, complete(3), plan);
    spec.delays.links = vec![slow(1, 0, 100..101, 200)];
    simulate(entry, &spec)
}

#[test]
fn who_has_all_permissions_enters_ahead_of_a_request_it_could_know_of() {
    let outcome = word_by_way_of_p2(&rc::PLAIN);
    assert_eq!(order(&outcome), [2, 0, 0, 1]);
    assert!(verdict(Property::FcfsHappenedBefore, &outcome, 1).is_violated());
    for entry in [&ra::PLAIN, &ra::MULTICAST] {
        let outcome = word_by_way_of_p2(entry);
        assert_eq!(order(&outcome), [2, 0, 1, 0]);
        assert!(held(Property::FcfsHappenedBefore, &outcome));
    }
    for entry in [&lamport::PLAIN, &lamport::ACK_SUPPRESSION] {
        let outcome = word_by_way_of_p2(entry);
        assert_eq!(order(&outcome), [2, 0, 1, 0]);
        assert!(held(Property::FcfsHappenedBefore, &outcome));
    }
}

/// p1 asks, its word to p0 being slow; p2 hears of it and asks too.
fn slow_to_p0<P: mutex::Algorithm>(entry: &Entry<P>) -> Outcome {
    let mut spec = planned(entry, complete(3), [(1, 0, 10), (2, 20, 10)]);
    spec.delays.links = vec![slow(1, 0, 0..1, 200)];
    simulate(entry, &spec)
}

#[test]
fn the_token_goes_to_whose_request_arrives_first() {
    let outcome = slow_to_p0(&token::PLAIN);
    assert_eq!(order(&outcome), [2, 1]);
    assert!(verdict(Property::FcfsHappenedBefore, &outcome, 1).is_violated());
    assert_eq!(order(&slow_to_p0(&ra::PLAIN)), [1, 2]);
    assert_eq!(order(&slow_to_p0(&lamport::PLAIN)), [1, 2]);
    assert_eq!(order(&slow_to_p0(&lamport::ACK_SUPPRESSION)), [1, 2]);
}

#[test]
fn a_younger_request_may_be_granted_before_an_older_one_where_permissions_are_kept() {
    // p1's request, stamped 1, is under way while p0 enters three times, asking no node.
    let plan = [(1, 0, 10), (0, 10, 10), (0, 30, 10), (0, 50, 10)];
    let mut spec = planned(&rc::PLAIN, complete(2), plan);
    spec.delays.links = vec![slow(1, 0, 0..1, 200)];
    let outcome = simulate(&rc::PLAIN, &spec);
    assert_eq!(order(&outcome), [0, 0, 0, 1]);
    assert!(held(Property::FenceOrder, &outcome), "the token comes with the permission");
}

/// p0's first request reaches p1 late: after p1 has heard of p2's. p1's reply is the first that p0
/// hears after p2 has asked; p0 then asks again.
fn told_by_a_reply<P: mutex::Algorithm>(entry: &Entry<P>, channels: Channels) -> RunSpec {
    let mut spec = planned(entry, complete(3), [(0, 0, 10), (2, 15, 10), (0, 80, 10)]);
    spec.delays.links = vec![slow(0, 1, 0..1, 50), slow(2, 0, 12..18, 200)];
    spec.channels = channels;
    spec
}

#[test]
fn a_reply_carries_the_clock_so_that_what_it_tells_of_comes_first() {
    for channels in [Channels::Fifo, Channels::Reliable] {
        let outcome = simulate(&ra::PLAIN, &told_by_a_reply(&ra::PLAIN, channels));
        assert_eq!(order(&outcome), [0, 2, 0]);
        assert!(held(Property::FcfsHappenedBefore, &outcome));
        let outcome = simulate(&queued::PLAIN, &told_by_a_reply(&queued::PLAIN, channels));
        assert_eq!(order(&outcome), [0, 2, 0]);
        assert!(held(Property::FcfsHappenedBefore, &outcome));
    }
}

/// p1 is handed the first ticket, which is slow, and p2 the second; p0's reply to p2 is slow too.
fn slow_ticket(entry: &Entry<clock::PhysicalClockOrder>) -> Outcome {
    let mut spec = planned(entry, complete(3), [(1, 0, 300), (2, 5, 300)]);
    spec.delays.links = vec![slow(0, 1, 10..11, 100), slow(0, 2, 30..40, 200)];
    simulate(entry, &spec)
}

#[test]
fn who_waits_for_a_ticket_must_not_reply_yet() {
    let outcome = slow_ticket(&clock::LITERAL);
    assert!(verdict(Property::Exclusion, &outcome, 1).is_violated());
    let outcome = slow_ticket(&clock::PLAIN);
    assert_eq!(order(&outcome), [1, 2]);
    assert!(held(Property::Exclusion, &outcome));
}

#[test]
fn tickets_are_in_the_order_in_which_the_server_answers() {
    // p1 asks first, but its question is slow.
    let mut spec = planned(&clock::PLAIN, complete(3), [(1, 0, 50), (2, 5, 50)]);
    spec.delays.links = vec![slow(1, 0, 0..1, 30)];
    let outcome = simulate(&clock::PLAIN, &spec);
    assert_eq!(order(&outcome), [2, 1]);
    assert!(held(Property::FcfsTimestamp, &outcome));
}
