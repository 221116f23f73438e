//! Election by majority: what it costs, one leader per epoch whatever goes wrong, and what becomes
//! of leaders without a majority.

use crate::support::{T, at, complete, costs, nodes, slow, tenths, verdict};
use conclave_algorithms::election::quorum_epoch::PLAIN;
use conclave_protocol::{Channels, NodeId, Observation, Property, Time};
use conclave_sim::{
    Arrivals, Ask, Delay, Event, Fault, Faults, Outcome, Rate, Rng, RunSpec, Workload,
};

fn simulate(spec: &RunSpec) -> Outcome {
    crate::support::simulate(&PLAIN, spec)
}

/// Calls at given times, in units, until the end.
fn calls(n: u32, calls: &[(u32, u64)], until: u64) -> RunSpec {
    let mut spec = RunSpec::new(&PLAIN.info, complete(n));
    let asks = calls.iter().map(|&(node, t)| Ask { node: NodeId(node), at: at(t), hold: None });
    spec.workload = Workload { arrivals: Arrivals::Plan(asks.collect()), ..Workload::idle() };
    spec.linger = None;
    spec.until = at(until);
    spec
}

/// Whom a node takes for the leader from when on; `None` if it knows no leader.
fn history(outcome: &Outcome, node: u32) -> Vec<(Time, Option<u32>)> {
    let of_node = outcome.trace.records.iter().filter(|record| record.node == NodeId(node));
    let news = of_node.filter_map(|record| match record.event() {
        Event::Notice(Observation::Follows { leader, .. }) => Some((record.at, Some(leader.0))),
        Event::Notice(Observation::Unled) => Some((record.at, None)),
        _ => None,
    });
    news.collect()
}

fn leader_of(outcome: &Outcome, node: u32) -> Option<u32> {
    outcome.trace.leaders().leader_of(NodeId(node)).map(|(leader, _)| leader.0)
}

fn assert_held(outcome: &Outcome, properties: &[Property], context: &str) {
    for &property in properties {
        let verdict = verdict(property, outcome, 1);
        assert!(verdict.held(), "{context} {property}: {verdict:?}");
    }
}

#[test]
fn an_uncontested_round_takes_three_messages_for_each_other_node_and_three_hops() {
    for n in 2..=9_u32 {
        let outcome = simulate(&calls(n, &[(n - 1, 0)], 4));
        let others = u64::from(n) - 1;
        let by_label = costs(&outcome).by_label;
        assert_eq!(by_label["VoteReq"], others);
        assert_eq!(by_label["Vote"], others);
        assert_eq!(by_label["Coordinator"], others);
        for node in 0..n - 1 {
            assert_eq!(history(&outcome, node), [(at(3), Some(n - 1))]);
        }
    }
}

#[test]
fn a_leader_stays_in_office_by_a_heartbeat_every_four_units() {
    let outcome = simulate(&calls(5, &[(4, 0)], 402));
    let by_label = costs(&outcome).by_label;
    // It is elected after two units.
    assert_eq!((by_label["Heartbeat"], by_label["Alive"]), (4 * 100, 4 * 99));
    assert_eq!(by_label["VoteReq"] + by_label["Vote"] + by_label["Coordinator"], 3 * 4);
    assert_eq!(history(&outcome, 4), [(at(2), Some(4))]);
}

#[test]
fn whoever_calls_the_best_of_those_who_hear_of_each_other_comes_to_lead() {
    let mut best = 0;
    for seed in 0..200 {
        let mut spec = calls(5, &[(0, 0)], 2_000);
        spec.seed = seed;
        let outcome = simulate(&spec);
        assert_held(&outcome, &[Property::OneLeader, Property::LeaderKnown], "no faults");
        best += u32::from(verdict(Property::BestLeads, &outcome, 1).held());
    }
    assert!(best > 100, "{best} of 200");
}

#[test]
fn a_majority_elects_whom_it_knows_although_a_better_one_lives() {
    // The news of p1's candidacy reaches p0 and not p2 before p1 has won.
    let mut spec = calls(3, &[(1, 0)], 4_000);
    spec.delays.links.push(slow(1, 2, 0..10, 30));
    let outcome = simulate(&spec);
    assert_eq!(leader_of(&outcome, 0), Some(1));
    assert!(verdict(Property::BestLeads, &outcome, 1).is_violated());
    assert_held(&outcome, &[Property::OneLeader, Property::LeaderKnown], "a worse leader");
}

/// The nodes 1, 2, 3 and 4, 5 of the example, numbered from 0.
fn apart() -> Fault {
    Fault::Partition(vec![nodes([0, 1, 2]).to_vec(), nodes([3, 4]).to_vec()])
}

#[test]
fn of_two_parts_only_the_one_with_a_majority_elects() {
    for seed in 0..200 {
        let mut spec = calls(5, &[(0, 10), (3, 10)], 2_000);
        spec.seed = seed;
        spec.faults = Faults::none().with(at(1), apart());
        let outcome = simulate(&spec);
        for node in 0..3 {
            assert_eq!(leader_of(&outcome, node), Some(2), "seed {seed}");
        }
        assert_eq!((history(&outcome, 3), history(&outcome, 4)), (vec![], vec![]));
        // After healing there is one leader for all.
        spec.faults = spec.faults.with(at(1_000), Fault::Heal);
        spec.until = at(6_000);
        let outcome = simulate(&spec);
        let promised = [Property::OneLeader, Property::OneLeaderPerEpoch, Property::LeaderKnown];
        assert_held(&outcome, &promised, &format!("healed, seed {seed}"));
    }
}

#[test]
fn a_leader_that_is_cut_off_from_the_majority_steps_down() {
    let mut spec = calls(5, &[(4, 0)], 2_000);
    spec.faults = Faults::none().with(at(100), apart());
    let outcome = simulate(&spec);
    assert_eq!([0, 1, 2].map(|node| leader_of(&outcome, node)), [Some(2); 3]);
    assert_eq!([3, 4].map(|node| leader_of(&outcome, node)), [None; 2]);
    let stepped_down = history(&outcome, 4)[1];
    assert_eq!(stepped_down.1, None);
    // Two votes' time and three heartbeats after the last heartbeat that a majority answered.
    assert!(stepped_down.0 <= at(100 + 2 + 12), "{stepped_down:?}");
    assert_held(&outcome, &[Property::OneLeader, Property::OneLeaderPerEpoch], "cut off");
}

#[test]
fn a_crashed_leader_is_replaced_and_follows_when_it_comes_back() {
    let mut replaced = 0;
    for seed in 0..200 {
        let mut spec = calls(5, &[(4, 0)], 3_000);
        spec.seed = seed;
        spec.faults = Faults::none()
            .with(at(50), Fault::Crash(NodeId(4)))
            .with(at(800), Fault::Recover(NodeId(4)));
        let outcome = simulate(&spec);
        let promised = [Property::OneLeader, Property::OneLeaderPerEpoch, Property::LeaderKnown];
        assert_held(&outcome, &promised, &format!("seed {seed}"));
        let leaders: Vec<_> = history(&outcome, 4).into_iter().map(|(_, leader)| leader).collect();
        assert_eq!(leaders.first(), Some(&Some(4)));
        replaced += u32::from(matches!(leaders[..], [_, Some(2 | 3)]));
    }
    assert_eq!(replaced, 200, "it comes back, hears of the leader, and follows it");
}

#[test]
fn without_a_majority_nobody_leads() {
    let mut spec = calls(3, &[(2, 0)], 2_000);
    spec.faults =
        Faults::none().with(at(50), Fault::Crash(NodeId(0))).with(at(50), Fault::Crash(NodeId(1)));
    let outcome = simulate(&spec);
    assert!(verdict(Property::LeaderKnown, &outcome, 1).is_violated());
    assert_eq!(leader_of(&outcome, 2), None);
    assert_held(&outcome, &[Property::OneLeader], "no majority");
}

#[test]
fn a_node_that_forgets_its_vote_votes_twice() {
    // p1 and p2 stand at once, and p0 votes for each in epoch 1.
    let mut spec = calls(3, &[(1, 0), (2, 0)], 100);
    spec.delays.links.extend([slow(1, 0, 0..10, 3), slow(2, 0, 0..10, 9)]);
    spec.faults = Faults::none().with(tenths(6), Fault::Reset(NodeId(0)));
    let outcome = simulate(&spec);
    assert!(verdict(Property::OneLeaderPerEpoch, &outcome, 1).is_violated());
    spec.faults = Faults::none()
        .with(tenths(6), Fault::Crash(NodeId(0)))
        .with(tenths(6), Fault::Recover(NodeId(0)));
    assert_held(&simulate(&spec), &[Property::OneLeaderPerEpoch], "with its memory");
}

/// Everything goes wrong that the model allows: lost, repeated, reordered and late messages,
/// partitions, crashes, recoveries, pauses and clocks that run fast or slow.
fn havoc(seed: u64) -> RunSpec {
    let mut rng = Rng::new(seed);
    let n = 2 + (seed % 6) as u32;
    let mut spec = calls(n, &[], 1_200);
    let asks = (0..12).map(|_| Ask {
        node: NodeId(rng.below(u64::from(n)) as u32),
        at: at(rng.below(900)),
        hold: None,
    });
    spec.workload = Workload { arrivals: Arrivals::Plan(asks.collect()), ..Workload::idle() };
    spec.seed = seed;
    spec.setup = spec.setup.with("spread", 1 + rng.below(12));
    spec.channels = Channels::Reliable;
    spec.delays = match rng.below(3) {
        0 => Delay::Uniform(T / 20, T),
        1 => Delay::Uniform(T / 20, T * 12),
        _ => Delay::Exponential(T * 2),
    }
    .into();
    let rate = |rng: &mut Rng, every: u64, lasting: u64| {
        let rate = Rate { every: T * every as u32, lasting: Some(T * lasting as u32) };
        (rng.below(2) == 0).then_some(rate)
    };
    spec.faults.crashes = rate(&mut rng, 150, 15);
    spec.faults.pauses = rate(&mut rng, 150, 15);
    spec.faults.loss = [0, 50_000, 300_000][rng.below(3) as usize];
    spec.faults.duplication = [0, 200_000][rng.below(2) as usize];
    spec.faults.skew = [0, 100_000][rng.below(2) as usize];
    let mut now = rng.below(200);
    while now < 900 {
        let sides = rng.below(1 << n);
        let side = |want: u64| (0..n).filter(|i| sides >> i & 1 == want).map(NodeId).collect();
        let groups = vec![side(0), side(1)];
        spec.faults = spec.faults.with(at(now), Fault::Partition(groups));
        now += 1 + rng.below(80);
        spec.faults = spec.faults.with(at(now), Fault::Heal);
        now += 1 + rng.below(200);
    }
    spec
}

#[test]
fn an_epoch_never_has_two_leaders_whatever_goes_wrong() {
    let mut epochs = 0;
    for seed in 0..1_500 {
        let spec = havoc(seed);
        assert_eq!(spec.beyond(&PLAIN.info), []);
        let outcome = simulate(&spec);
        assert_held(&outcome, &[Property::OneLeaderPerEpoch], &format!("seed {seed}"));
        let elected = outcome.trace.records.iter().filter(|record| {
            matches!(record.event(),
                Event::Notice(Observation::Follows { leader, .. }) if leader == record.node)
        });
        epochs += elected.count();
    }
    assert!(epochs > 10_000, "only {epochs} leaders were elected");
}

#[test]
fn once_faults_are_over_and_a_majority_is_up_all_follow_one_leader() {
    for seed in 0..1_000 {
        let mut spec = havoc(seed);
        let mut rng = Rng::new(seed).fork(1);
        let n = spec.setup.n();
        // What happens by chance never ends; crashes by plan do.
        (spec.faults.crashes, spec.faults.pauses) = (None, None);
        (spec.faults.loss, spec.faults.duplication) = (0, 0);
        spec.delays = Delay::Uniform(T / 20, T).into();
        spec.setup.options.clear();
        let minority = (n - 1) / 2;
        for node in 0..n {
            let down = at(rng.below(900));
            spec.faults = spec.faults.with(down, Fault::Crash(NodeId(node)));
            if node >= minority {
                let up = down + T * (1 + rng.below(100)) as u32;
                spec.faults = spec.faults.with(up, Fault::Recover(NodeId(node)));
            }
        }
        let Arrivals::Plan(asks) = &mut spec.workload.arrivals else { unreachable!("a plan") };
        asks.push(Ask { node: NodeId(n - 1), at: at(1_050), hold: None });
        spec.until = at(4_000);
        assert_eq!(spec.beyond(&PLAIN.info), []);
        let outcome = simulate(&spec);
        let promised = [Property::OneLeader, Property::OneLeaderPerEpoch, Property::LeaderKnown];
        assert_held(&outcome, &promised, &format!("seed {seed}"));
    }
}
