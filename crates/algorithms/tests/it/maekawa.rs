//! Voting: what it costs, how plain voting and its mutants fail, and what cures them.

use std::time::Duration;

use crate::support::{T, at, burst, costs, order, random_spec, simulate};
use conclave_algorithms::mutex::maekawa::{self, Maekawa};
use conclave_algorithms::mutex::maekawa_sanders::{self as sanders, MaekawaSanders};
use conclave_algorithms::mutex::{self, majority_permission};
use conclave_algorithms::quorum::{Construction, Quorums};
use conclave_protocol::{Channels, Entry, NodeId, Property, Setup, Time, Topology};
use conclave_sim::{
    Arrivals, Ask, End, Fault, Faults, JudgeLimits, Outcome, Rng, RunSpec, SlowLink, Spread,
    Verdict, Workload, judge,
};

const SEEDS: u64 = 200;

fn setup(n: u32, quorum: &str) -> Setup {
    Setup::new(Topology::complete(n)).with("quorum", quorum)
}

fn plane(n: u32) -> Setup {
    setup(n, "projective-plane")
}

fn plain(n: u32) -> Setup {
    Setup::new(Topology::complete(n))
}

/// Nodes ask at given times, in unit delays, and stay inside for `hold` units.
fn planned<P: mutex::Algorithm>(
    entry: &Entry<P>,
    setup: Setup,
    asks: &[(u32, u64)],
    hold: u64,
) -> RunSpec {
    let mut spec = burst(entry, setup, [], hold);
    let ask = |&(node, t): &(u32, u64)| Ask { node: NodeId(node), at: at(t), hold: None };
    spec.workload.arrivals = Arrivals::Plan(asks.iter().map(ask).collect());
    spec
}

fn random<P: mutex::Algorithm>(entry: &Entry<P>, setup: &Setup, seed: u64) -> Outcome {
    simulate(entry, &random_spec(entry, setup.clone(), seed))
}

/// Judges a property with more patience than any of these runs needs.
fn verdict(property: Property, outcome: &Outcome, places: u32) -> Verdict {
    judge(property, &outcome.trace, JudgeLimits { places, patience: T * 1_000 })
}

/// In how many crowded runs the property is violated.
fn violations<P: mutex::Algorithm>(entry: &Entry<P>, setup: &Setup, property: Property) -> u64 {
    let violated = |&seed: &u64| {
        let outcome = simulate(entry, &crowded(entry, setup.clone(), seed));
        verdict(property, &outcome, 1).is_violated()
    };
    (0..SEEDS).filter(violated).count() as u64
}

/// Everybody wants in nearly all the time.
fn crowded<P: mutex::Algorithm>(entry: &Entry<P>, setup: Setup, seed: u64) -> RunSpec {
    let clients = 0..setup.n();
    let mut spec = random_spec(entry, setup, seed);
    let soon = Spread::between(Duration::ZERO, T);
    spec.workload = Workload {
        arrivals: Arrivals::Closed { clients, rounds: Some(4), first: soon, think: soon },
        hold: soon,
    };
    spec
}

fn assert_holds(properties: &[Property], outcome: &Outcome, what: &str) {
    for &property in properties {
        let verdict = verdict(property, outcome, 1);
        assert!(verdict.held(), "{what}: {property}: {verdict:?}");
    }
}

/// Nothing is left to happen, and these still wait.
fn assert_waiting_for_ever(outcome: &Outcome, who: &[u32]) {
    assert_eq!(outcome.trace.end, End::Quiet);
    let costs = costs(outcome);
    let mut waiting: Vec<u32> =
        costs.entries.iter().filter(|e| e.entered.is_none()).map(|e| e.node.0).collect();
    waiting.sort_unstable();
    assert_eq!(waiting, who);
}

fn handovers(outcome: &Outcome) -> Vec<(u32, u32, Option<u32>)> {
    let costs = costs(outcome);
    let hops = |h| costs.handover_hops(&outcome.trace, h);
    costs.handovers.iter().map(|h| (h.from.0, h.to.0, hops(h))).collect()
}

// What an entry costs.

fn assert_idle<P: mutex::Algorithm>(entry: &Entry<P>, setup: &Setup, voters: u64) {
    let n = setup.n();
    for node in [0, n / 2, n - 1] {
        let outcome = simulate(entry, &burst(entry, setup.clone(), [node], 1));
        let costs = costs(&outcome);
        let cost = &costs.entries[0];
        let figures = (cost.messages_entry, cost.messages_exit, costs.messages);
        let id = entry.info.id;
        assert_eq!(figures, (2 * (voters - 1), voters - 1, 3 * (voters - 1)), "{id} {n}");
        assert_eq!(costs.entry_hops(&outcome.trace, cost), Some(2), "{id} {n}");
        assert_eq!(cost.left.map(|left| left - cost.asked), Some(T * 3), "{id} {n}");
    }
}

#[test]
fn an_idle_entry_costs_three_messages_for_each_other_voter_and_two_hops() {
    for (n, voters) in [(3, 2), (7, 3), (13, 4), (21, 5), (31, 6)] {
        assert_idle(&maekawa::PLAIN, &plane(n), voters);
        assert_idle(&sanders::PLAIN, &plane(n), voters);
        assert_idle(&sanders::NUMBERED_VOTES, &plane(n), voters);
    }
    for side in [2, 3, 4] {
        let n = side * side;
        assert_idle(&maekawa::PLAIN, &setup(n, "grid"), u64::from(2 * side - 1));
        assert_idle(&sanders::PLAIN, &setup(n, "grid"), u64::from(2 * side - 1));
    }
    for n in [3, 5, 7, 8] {
        assert_idle(&majority_permission::FIXED, &plain(n), u64::from(n / 2 + 1));
    }
}

#[test]
fn an_idle_entry_by_any_majority_asks_everybody() {
    for n in [3, 4, 5, 7] {
        assert_idle(&majority_permission::ANY, &plain(n), u64::from(n));
    }
}

#[test]
fn a_handover_takes_two_hops_by_way_of_a_third_node_and_one_otherwise() {
    // p0 shares voter p1 with p4, and p2 with p6; with the others it shares one of the two.
    for (waiting, hops) in [(4, 2), (6, 2), (1, 1), (2, 1), (3, 1), (5, 1)] {
        let asks = [(0, 0), (waiting, 3)];
        let outcome = simulate(&maekawa::PLAIN, &planned(&maekawa::PLAIN, plane(7), &asks, 10));
        assert_eq!(handovers(&outcome), [(0, waiting, Some(hops))]);
        assert_eq!(costs(&outcome).messages, 12);
        let outcome = simulate(&sanders::PLAIN, &planned(&sanders::PLAIN, plane(7), &asks, 10));
        assert_eq!(handovers(&outcome), [(0, waiting, Some(hops))]);
    }
}

#[test]
fn the_one_who_waits_is_told_so_unless_it_is_its_own_voter() {
    let messages = |waiting| {
        let spec = planned(&sanders::PLAIN, plane(7), &[(0, 0), (waiting, 3)], 10);
        let costs = costs(&simulate(&sanders::PLAIN, &spec));
        (costs.messages, costs.by_label.get("Fail").copied())
    };
    assert_eq!(messages(4), (13, Some(1)));
    assert_eq!(messages(1), (12, None));
}

#[test]
fn under_any_load_the_mean_stays_below_six_messages_for_each_other_voter() {
    let families = [plane(3), plane(7), plane(13), setup(9, "grid"), setup(5, "majority")];
    for setup in families {
        let quorums = Quorums::new(setup.option("quorum", Construction::Best).unwrap(), setup.n());
        let bound = 6 * (quorums.expect("it exists").size() - 1);
        for seed in 0..SEEDS {
            let entry = &sanders::PLAIN;
            let specs =
                [random_spec(entry, setup.clone(), seed), crowded(entry, setup.clone(), seed)];
            for spec in specs {
                let mean = costs(&simulate(&sanders::PLAIN, &spec)).messages_per_entry();
                let mean = mean.expect("a node entered");
                assert!(mean <= bound as f64, "{setup:?} seed {seed}: {mean} > {bound}");
            }
        }
    }
}

#[test]
fn at_saturation_an_entry_costs_about_four_messages_for_each_other_voter() {
    for (n, voters) in [(7, 3.0), (13, 4.0)] {
        for seed in 0..10 {
            let spec = crowded(&sanders::PLAIN, plane(n), seed);
            let mean = costs(&simulate(&sanders::PLAIN, &spec)).messages_per_entry();
            let each = mean.expect("a node entered") / (voters - 1.0);
            assert!((3.5..4.5).contains(&each), "{n} seed {seed}: {each} per voter");
        }
    }
    for n in [3, 4, 5, 7] {
        for seed in 0..10 {
            let spec = crowded(&majority_permission::ANY, plain(n), seed);
            let mean = costs(&simulate(&majority_permission::ANY, &spec)).messages_per_entry();
            let each = mean.expect("a node entered") / f64::from(n - 1);
            assert!((3.5..4.5).contains(&each), "any of {n} seed {seed}: {each} per voter");
        }
    }
}

// Plain voting deadlocks.

#[test]
fn when_all_ask_at_once_plain_voting_falls_silent() {
    let silent = |setup: Setup, requests: u64| {
        let n = setup.n();
        let outcome = simulate(&maekawa::PLAIN, &burst(&maekawa::PLAIN, setup, 0..n, 1));
        assert_waiting_for_ever(&outcome, &(0..n).collect::<Vec<_>>());
        let costs = costs(&outcome);
        assert_eq!((costs.messages, costs.by_label.get("Request")), (requests, Some(&requests)));
        assert!(verdict(Property::NoDeadlock, &outcome, 1).is_violated());
        assert!(verdict(Property::NoStarvation, &outcome, 1).is_violated());
    };
    silent(plane(3), 3);
    silent(plane(7), 14);
    silent(setup(4, "grid"), 8);
    silent(setup(9, "grid"), 36);
    silent(setup(3, "majority"), 3);
    silent(setup(5, "majority"), 10);
}

#[test]
fn whoever_hears_early_of_a_slow_request_can_overtake_it() {
    // p0 asks while p2 is inside, and its request is slow to reach p1. p2 knows of it when it
    // leaves, and so does p4 when it hears that p2 has left; p4 asks then, and gets p1's vote.
    fn overtaken<P: mutex::Algorithm>(entry: &Entry<P>) {
        let mut spec = planned(entry, plane(7), &[(2, 0), (0, 3), (4, 9)], 4);
        spec.delays.links.push(SlowLink {
            from: NodeId(0),
            to: NodeId(1),
            delay: T * 10,
            since: Time::ZERO,
            until: at(5),
        });
        let outcome = simulate(entry, &spec);
        assert_eq!(order(&outcome), [2, 4, 0], "{}", entry.info.id);
        assert!(verdict(Property::FcfsHappenedBefore, &outcome, 1).is_violated());
    }
    overtaken(&maekawa::PLAIN);
    overtaken(&sanders::PLAIN);
}

#[test]
fn as_requests_are_numbered_plain_voting_stays_safe_when_messages_overtake_each_other() {
    for setup in [plane(3), plane(7), setup(5, "majority")] {
        for seed in 0..SEEDS {
            let mut spec = crowded(&maekawa::PLAIN, setup.clone(), seed);
            spec.channels = Channels::Reliable;
            let outcome = simulate(&maekawa::PLAIN, &spec);
            assert_holds(&[Property::Exclusion, Property::FenceOrder], &outcome, "reordered");

            // With no node to deadlock with, a request that overtakes the last release waits for it.
            if let Arrivals::Closed { clients, think, .. } = &mut spec.workload.arrivals {
                (*clients, *think) = (0..1, Spread::exactly(Duration::ZERO));
            }
            assert_holds(&PROMISES, &simulate(&maekawa::PLAIN, &spec), "alone");
        }
    }
}

// The mutants of plain voting.

#[test]
fn if_nobody_asks_itself_three_are_inside_after_two_hops() {
    let spec = burst(&maekawa::LITERAL_003, plane(3), 0..3, 5);
    let outcome = simulate(&maekawa::LITERAL_003, &spec);
    let entered: Vec<_> = costs(&outcome).entries.iter().map(|entry| entry.entered).collect();
    assert_eq!(entered, [Some(at(2)); 3]);
    assert!(verdict(Property::Exclusion, &outcome, 3).held());
    assert!(verdict(Property::Exclusion, &outcome, 2).is_violated());
    let broken = violations(&maekawa::LITERAL_003, &plane(7), Property::Exclusion);
    assert!(broken > SEEDS / 2, "{broken} of {SEEDS}");
}

#[test]
fn if_nobody_asks_itself_those_queued_while_inside_are_forgotten() {
    let spec = planned(&maekawa::LITERAL_003, plane(3), &[(1, 0), (0, 3)], 5);
    let outcome = simulate(&maekawa::LITERAL_003, &spec);
    assert_eq!(order(&outcome), [1]);
    assert_waiting_for_ever(&outcome, &[0]);
    // Plain voting serves both.
    let outcome =
        simulate(&maekawa::PLAIN, &planned(&maekawa::PLAIN, plane(3), &[(1, 0), (0, 3)], 5));
    assert_eq!(order(&outcome), [1, 0]);
}

#[test]
fn queues_in_the_order_of_time_do_not_stop_deadlock() {
    let outcome = simulate(&maekawa::TS_QUEUE, &burst(&maekawa::TS_QUEUE, plane(3), 0..3, 1));
    assert_waiting_for_ever(&outcome, &[0, 1, 2]);
    assert_eq!(costs(&outcome).messages, 3);
    for n in [3, 7] {
        let stuck = violations(&maekawa::TS_QUEUE, &plane(n), Property::NoDeadlock);
        assert!(stuck > SEEDS / 4, "{stuck} of {SEEDS} for {n}");
    }
}

// Voting without deadlock.

const PROMISES: [Property; 4] =
    [Property::Exclusion, Property::NoDeadlock, Property::NoStarvation, Property::FenceOrder];

#[test]
fn votes_that_can_be_taken_back_serve_everybody() {
    for setup in [plane(3), plane(7), setup(9, "grid"), setup(7, "majority")] {
        let n = setup.n();
        let outcome = simulate(&sanders::PLAIN, &burst(&sanders::PLAIN, setup, 0..n, 1));
        assert_holds(&PROMISES, &outcome, "all at once");
    }
}

#[test]
fn of_seven_who_ask_at_once_the_second_enters_first() {
    let outcome = simulate(&sanders::PLAIN, &burst(&sanders::PLAIN, plane(7), 0..7, 1));
    assert_eq!(order(&outcome)[0], 1);
}

#[test]
fn every_family_of_voting_sets_keeps_the_promises() {
    let families =
        [plane(3), plane(7), plane(13), setup(4, "grid"), setup(9, "grid"), setup(16, "grid")];
    let majorities = [4, 5, 7].map(|n| setup(n, "majority"));
    for setup in families.iter().chain(&majorities) {
        for seed in 0..SEEDS {
            let what = format!("{setup:?} seed {seed}");
            assert_holds(&PROMISES, &random(&sanders::PLAIN, setup, seed), &what);
            let plain = random(&maekawa::PLAIN, setup, seed);
            assert_holds(&[Property::Exclusion, Property::FenceOrder], &plain, &what);
        }
    }
}

#[test]
fn without_the_second_fail_some_runs_get_stuck() {
    for setup in [plane(7), setup(5, "majority")] {
        let stuck = violations(&sanders::ONE_FAIL, &setup, Property::NoDeadlock);
        assert!(stuck > 0 && stuck < SEEDS, "{stuck} of {SEEDS}");
        assert_eq!(violations(&sanders::ONE_FAIL, &setup, Property::Exclusion), 0);
        assert_eq!(violations(&sanders::PLAIN, &setup, Property::NoDeadlock), 0);
    }
}

#[test]
fn messages_that_overtake_each_other_need_numbered_votes() {
    let reordered = |setup: &Setup, seed| {
        let mut spec = random_spec(&sanders::PLAIN, setup.clone(), seed);
        spec.channels = Channels::Reliable;
        spec
    };
    for setup in [plane(3), plane(7), setup(5, "majority"), setup(9, "grid")] {
        let mut stuck = 0;
        for seed in 0..SEEDS {
            let outcome = simulate(&sanders::PLAIN, &reordered(&setup, seed));
            stuck += u64::from(verdict(Property::NoDeadlock, &outcome, 1).is_violated());
            assert!(!verdict(Property::Exclusion, &outcome, 1).is_violated());

            let numbered = setup.clone().with("numbered", true);
            let outcome = simulate(&sanders::PLAIN, &reordered(&numbered, seed));
            assert_holds(&PROMISES, &outcome, &format!("{setup:?} seed {seed}"));
            let spec = random_spec(&sanders::NUMBERED_VOTES, setup.clone(), seed);
            assert_eq!(spec.channels, Channels::Reliable);
            assert_holds(&PROMISES, &simulate(&sanders::NUMBERED_VOTES, &spec), "numbered");
        }
        assert!(stuck > 0, "{setup:?}");
    }
}

// Crashes and losses.

#[test]
fn a_crashed_voter_blocks_exactly_the_sets_that_contain_it() {
    fn blocked<P: mutex::Algorithm>(entry: &Entry<P>, setup: &Setup, quorums: &Quorums) {
        for voter in (0..setup.n()).map(NodeId) {
            for node in (0..setup.n()).map(NodeId).filter(|&node| node != voter) {
                let mut spec = planned(entry, setup.clone(), &[(node.0, 1)], 1);
                spec.faults = Faults::none().with(Time::ZERO, Fault::Crash(voter));
                let outcome = simulate(entry, &spec);
                if quorums.of(node).contains(voter) {
                    assert_waiting_for_ever(&outcome, &[node.0]);
                } else {
                    assert_eq!(order(&outcome), [node.0]);
                }
            }
        }
    }
    let fano = Quorums::new(Construction::ProjectivePlane, 7).expect("it exists");
    blocked(&maekawa::PLAIN, &plane(7), &fano);
    blocked(&sanders::PLAIN, &plane(7), &fano);
    let majority = Quorums::new(Construction::Majority, 5).expect("it exists");
    blocked(&majority_permission::FIXED, &plain(5), &majority);
}

#[test]
fn a_crash_inside_blocks_whoever_waits() {
    fn blocks<P: mutex::Algorithm>(entry: &Entry<P>, setup: Setup) {
        let mut spec = planned(entry, setup, &[(0, 0), (4, 3)], 10);
        spec.faults = Faults::none().with(at(5), Fault::Crash(NodeId(0)));
        let outcome = simulate(entry, &spec);
        assert_eq!(order(&outcome), [0]);
        assert_waiting_for_ever(&outcome, &[4]);
    }
    blocks(&maekawa::PLAIN, plane(7));
    blocks(&sanders::PLAIN, plane(7));
    blocks(&majority_permission::FIXED, plain(5));
    blocks(&majority_permission::ANY, plain(5));
}

#[test]
fn a_lost_message_blocks() {
    fn blocks<P: mutex::Algorithm>(entry: &Entry<P>, label: &str, waiting: &[u32]) {
        let mut spec = planned(entry, plane(7), &[(0, 0), (4, 20)], 1);
        spec.faults = Faults::none().with(Time::ZERO, Fault::Lose { label: label.to_owned() });
        assert_waiting_for_ever(&simulate(entry, &spec), waiting);
    }
    // p0's first message goes to p1, the voter that p4 needs too.
    for label in ["Request", "Reply"] {
        let waiting: &[u32] = if label == "Request" { &[0] } else { &[0, 4] };
        blocks::<Maekawa>(&maekawa::PLAIN, label, waiting);
    }
    blocks::<Maekawa>(&maekawa::PLAIN, "Release", &[4]);
    blocks::<MaekawaSanders>(&sanders::PLAIN, "Request", &[0]);
    blocks::<MaekawaSanders>(&sanders::PLAIN, "Grant", &[0, 4]);
    blocks::<MaekawaSanders>(&sanders::PLAIN, "Release", &[4]);
}

// Any majority.

#[test]
fn any_majority_keeps_the_promises() {
    for n in [3_u32, 4, 5, 7] {
        for refusals in [1, n.div_ceil(2)] {
            let setup = plain(n).with("refusals", refusals);
            for seed in 0..SEEDS {
                let outcome = random(&majority_permission::ANY, &setup, seed);
                assert_holds(&PROMISES, &outcome, &format!("{n} refusals {refusals} seed {seed}"));
            }
        }
    }
    let unfit = (majority_permission::ANY.config)(&plain(5).with("refusals", 4));
    assert!(unfit.expect_err("there are too few to refuse").to_string().contains("at most 3"));
}

/// A run in which N − q nodes, which never ask, crash one after the other.
fn with_crashed_bystanders(n: u32, refusals: u32, seed: u64) -> Outcome {
    let entry = &majority_permission::ANY;
    let mut spec = random_spec(entry, plain(n).with("refusals", refusals), seed);
    let bystanders = n - (n / 2 + 1);
    if let Arrivals::Closed { clients, .. } = &mut spec.workload.arrivals {
        *clients = 0..n - bystanders;
    }
    let mut rng = Rng::new(seed);
    for node in n - bystanders..n {
        let when = Time::ZERO + T * rng.below(20) as u32;
        spec.faults = spec.faults.with(when, Fault::Crash(NodeId(node)));
    }
    simulate(entry, &spec)
}

#[test]
fn any_majority_survives_the_crash_of_all_others_who_do_not_ask() {
    for n in [3, 4, 5, 7, 9] {
        for seed in 0..SEEDS {
            let outcome = with_crashed_bystanders(n, 1, seed);
            assert_holds(&PROMISES, &outcome, &format!("{n} seed {seed}"));
        }
    }
}

#[test]
fn holding_out_for_more_refusals_hangs_if_voters_have_crashed() {
    for n in [3, 5, 7] {
        let stuck = |&seed: &u64| {
            let outcome = with_crashed_bystanders(n, n.div_ceil(2), seed);
            assert_holds(&[Property::Exclusion, Property::FenceOrder], &outcome, "safe");
            verdict(Property::NoDeadlock, &outcome, 1).is_violated()
        };
        assert!((0..SEEDS).filter(stuck).count() > 0, "{n}");
    }
}

#[test]
fn one_crash_too_many_blocks_any_majority() {
    let mut spec = planned(&majority_permission::ANY, plain(5), &[(0, 1)], 1);
    for node in [2, 3, 4] {
        spec.faults = spec.faults.with(Time::ZERO, Fault::Crash(NodeId(node)));
    }
    assert_waiting_for_ever(&simulate(&majority_permission::ANY, &spec), &[0]);
}

#[test]
fn a_crash_while_waiting_blocks_any_majority() {
    // p1 has asked everybody when it crashes; once p0 has left, it has all votes.
    let mut spec = planned(&majority_permission::ANY, plain(3), &[(0, 0), (1, 3), (2, 20)], 5);
    spec.faults = Faults::none().with(at(4), Fault::Crash(NodeId(1)));
    let outcome = simulate(&majority_permission::ANY, &spec);
    assert_eq!(order(&outcome), [0]);
    assert_waiting_for_ever(&outcome, &[1, 2]);
}

#[test]
fn a_voter_that_forgets_its_vote_lets_two_in() {
    // p0 has the votes of p0 and p1; p1 forgets, and asks itself and p2.
    let mut spec = planned(&majority_permission::FIXED, plain(3), &[(0, 0), (1, 6)], 20);
    spec.faults = Faults::none().with(at(5), Fault::Reset(NodeId(1)));
    let outcome = simulate(&majority_permission::FIXED, &spec);
    assert_eq!(order(&outcome), [0, 1]);
    assert!(verdict(Property::Exclusion, &outcome, 1).is_violated());
}
