//! Rings that lose their token, or a node: what is noticed, what is made anew, and what is not.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::support::{
    T, at, burst, complete, costs, lose, order, random_spec, ring, simulate, verdict,
};
use conclave_algorithms::mutex::token_ring::Serial;
use conclave_algorithms::mutex::{
    Algorithm, token_ring_ft as ft, token_ring_loss_probe as probe, token_ring_misra as misra,
};
use conclave_protocol::{Channels, Entry, NodeId, Observation, Property, Setup, Time};
use conclave_sim::{
    Arrivals, Ask, Delay, End, Event, Fault, Faults, JudgeLimits, Outcome, PlannedFault, Rng,
    RunSpec, Spread, Workload, judge,
};

/// These nodes ask at these moments, in `T`, and stay inside for so many `T`.
fn planned<P: Algorithm>(entry: &Entry<P>, setup: Setup, asks: &[(u32, u64, u32)]) -> RunSpec {
    let mut spec = RunSpec::new(&entry.info, setup);
    let ask = |&(node, moment, hold): &(u32, u64, u32)| Ask {
        node: NodeId(node),
        at: at(moment),
        hold: Some(T * hold),
    };
    spec.workload = Workload {
        arrivals: Arrivals::Plan(asks.iter().map(ask).collect()),
        hold: Spread::exactly(T),
    };
    spec.until = at(5_000);
    spec
}

/// How long a node may have to wait until a fault is noticed and mended.
const PATIENCE: Duration = Duration::from_millis(400);

/// Everything that the entry promises is true of the run.
#[track_caller]
fn assert_promises<P: Algorithm>(entry: &Entry<P>, outcome: &Outcome, what: &str) {
    for &property in entry.info.holds {
        let verdict =
            judge(property, &outcome.trace, JudgeLimits { places: 1, patience: PATIENCE });
        assert!(verdict.held(), "{what}: {property}: {verdict:?}");
    }
}

fn sent(outcome: &Outcome, label: &str) -> u64 {
    costs(outcome).by_label.get(label).copied().unwrap_or(0)
}

/// When each grant was given, with which fencing token.
fn grants(outcome: &Outcome) -> Vec<(Time, u32, u64)> {
    let grant = |record: &conclave_sim::Record| match record.event() {
        Event::Notice(Observation::Entered { token }) => Some((record.at, record.node.0, token)),
        _ => None,
    };
    outcome.trace.records.iter().filter_map(grant).collect()
}

/// At no time had more tokens been made anew than had been lost, and after the last loss a node
/// still entered. Returns how many were lost.
fn assert_exact(outcome: &Outcome, what: &str) -> u64 {
    let mut lost = 0;
    for record in &outcome.trace.records {
        match record.event() {
            Event::Lose { label, .. } if outcome.trace.name(label) == "Token" => lost += 1,
            Event::Notice(Observation::Entered { token }) => {
                assert!(Serial::epoch_of(token) <= lost, "{what}: false alarm at {:?}", record.at);
            }
            _ => {}
        }
    }
    lost
}

#[test]
fn probes_never_raise_a_false_alarm_however_long_the_token_is_used() {
    let mut probes = 0;
    for seed in 0..2_000 {
        let n = 2 + (seed % 8) as u32;
        let mut spec = random_spec(&probe::PLAIN, ring(n).with("patience", seed % 5), seed);
        spec.workload.hold = Spread::between(Duration::ZERO, T * 30);
        let outcome = simulate(&probe::PLAIN, &spec);
        assert_promises(&probe::PLAIN, &outcome, &format!("seed {seed}"));
        assert_eq!(assert_exact(&outcome, &format!("seed {seed}")), 0);
        let epochs = grants(&outcome).into_iter().map(|(_, _, token)| Serial::epoch_of(token));
        assert_eq!(epochs.max(), Some(0), "seed {seed}");
        probes += sent(&outcome, "Probe");
    }
    assert!(probes > 100_000, "only {probes} probe messages");
}

#[test]
fn probes_miss_no_loss_and_make_one_token_for_each() {
    let mut losses = 0;
    for seed in 0..2_000 {
        let n = 2 + (seed % 8) as u32;
        let mut spec = random_spec(&probe::PLAIN, ring(n).with("patience", seed % 17), seed);
        let mut rng = Rng::new(seed);
        for _ in 0..1 + rng.below(3) {
            let moment = Time::ZERO + Duration::from_micros(rng.below(40_000));
            spec.faults = spec.faults.with(moment, lose("Token"));
        }
        let outcome = simulate(&probe::PLAIN, &spec);
        assert_promises(&probe::PLAIN, &outcome, &format!("seed {seed}"));
        losses += assert_exact(&outcome, &format!("seed {seed}"));
    }
    assert!(losses > 2_000, "only {losses} losses");
}

#[test]
fn a_probe_costs_n_messages() {
    for n in 2..9 {
        let mut spec = planned(&probe::PLAIN, ring(n), &[(1, 10 * u64::from(n), 1)]);
        spec.faults = Faults::none().with(at(1), lose("Token"));
        let outcome = simulate(&probe::PLAIN, &spec);
        assert_eq!(sent(&outcome, "Probe"), u64::from(n));
        // It waits for 2N, and the probe takes N.
        assert_eq!(costs(&outcome).entries[0].entered, Some(at(13 * u64::from(n))));
    }
}

#[test]
fn without_fifo_links_a_probe_overtakes_the_token_and_makes_a_second() {
    let violated = (0..400).filter(|&seed| {
        let setup = ring(3 + (seed % 6) as u32).with("patience", 0);
        let mut spec = random_spec(&probe::PLAIN, setup, seed);
        spec.channels = Channels::Reliable;
        spec.delays = Delay::Exponential(T).into();
        verdict(Property::Exclusion, &simulate(&probe::PLAIN, &spec), 1).is_violated()
    });
    assert!(violated.count() > 0);
}

#[test]
fn each_of_two_tokens_makes_up_for_the_loss_of_the_other() {
    for seed in 0..1_000 {
        let n = 2 + (seed % 8) as u32;
        let mut spec = random_spec(&misra::PLAIN, ring(n), seed);
        spec.workload.hold = Spread::between(Duration::ZERO, T * 10);
        let mut rng = Rng::new(seed);
        // Two losses, far enough from each other for the first to be noticed.
        let second = 12 * u64::from(n) + 60;
        for after in [0, second] {
            let label = ["Ping", "Pong"][rng.below(2) as usize];
            let moment = at(after) + Duration::from_micros(rng.below(10_000));
            spec.faults = spec.faults.with(moment, lose(label));
        }
        let outcome = simulate(&misra::PLAIN, &spec);
        assert_promises(&misra::PLAIN, &outcome, &format!("seed {seed}"));
    }
}

/// How many of each token were made anew: those under way or held at the end, and those lost, less
/// the one at the beginning.
fn made_anew(outcome: &Outcome, label: &str) -> i64 {
    let (mut arrived, mut gone) = (0, 0);
    for record in &outcome.trace.records {
        match record.event() {
            Event::Deliver { label: name, .. } if outcome.trace.name(name) == label => arrived += 1,
            Event::Send { label: name, .. } if outcome.trace.name(name) == label => gone += 1,
            _ => {}
        }
    }
    // Each arrival is passed on once; what is sent beyond that and the first has been made.
    gone - arrived - 1
}

#[test]
fn two_tokens_raise_no_false_alarm_whatever_their_speeds() {
    for seed in 0..1_000 {
        let mut spec = random_spec(&misra::PLAIN, ring(2 + (seed % 8) as u32), seed);
        spec.workload.hold = Spread::between(Duration::ZERO, T * 30);
        let outcome = simulate(&misra::PLAIN, &spec);
        // Held `Ping`s make the number smaller, never greater.
        assert!(made_anew(&outcome, "Ping") <= 0, "seed {seed}");
        assert_eq!(made_anew(&outcome, "Pong"), 0, "seed {seed}");
        assert_promises(&misra::PLAIN, &outcome, &format!("seed {seed}"));
    }
}

#[test]
fn a_lost_ping_is_noticed_within_two_revolutions() {
    for n in 2..9 {
        for moment in 3..20 {
            let mut spec = planned(&misra::PLAIN, ring(n), &[(1, 30, 1)]);
            spec.faults = Faults::none().with(at(moment), lose("Ping"));
            let outcome = simulate(&misra::PLAIN, &spec);
            assert_eq!(made_anew(&outcome, "Ping"), 1, "n={n}, lost at {moment}");
            let asked = 30.max(moment + 2 * u64::from(n));
            let entered = costs(&outcome).entries[0].entered.expect("a node noticed");
            assert!(entered <= at(asked + u64::from(n) + 1), "n={n}, lost at {moment}");
        }
    }
}

#[test]
fn if_both_tokens_are_lost_nobody_notices() {
    let mut spec = planned(&misra::PLAIN, ring(5), &[(2, 20, 1)]);
    spec.faults = Faults::none().with(at(7), lose("Ping")).with(at(7), lose("Pong"));
    let outcome = simulate(&misra::PLAIN, &spec);
    assert_eq!(outcome.trace.end, End::Quiet);
    assert!(verdict(Property::NoDeadlock, &outcome, 1).is_violated());
}

#[test]
fn a_second_token_doubles_the_traffic_of_the_ring() {
    let mut spec = burst(&misra::PLAIN, ring(5), [], 0);
    (spec.linger, spec.until) = (None, at(5 * 3 - 1));
    assert_eq!(simulate(&misra::PLAIN, &spec).stats.sent, 2 * 5 * 3);
}

/// A run of the fault-tolerant ring with chance in it, long enough to judge it with patience.
fn ft_spec(seed: u64) -> (RunSpec, Rng) {
    let mut rng = Rng::new(seed);
    let n = 2 + rng.below(7) as u32;
    let mut spec = random_spec(&ft::PLAIN, complete(n), seed);
    if seed.is_multiple_of(2) {
        // No node joins; all are members.
        spec.setup = complete(n);
        spec.faults = Faults::none();
    }
    (spec.until, spec.linger) = (at(4_000), Some(T * 60));
    (spec, rng.fork(7))
}

fn moment(rng: &mut Rng, below: u64) -> Time {
    Time::ZERO + Duration::from_micros(rng.below(below * 1_000))
}

#[test]
fn the_ring_survives_nodes_that_stop_for_good() {
    let mut regenerated = 0;
    for seed in 0..600 {
        let (mut spec, mut rng) = ft_spec(seed);
        let n = spec.setup.n();
        let survivor = rng.below(n.into()) as u32;
        for node in (0..n).filter(|&node| node != survivor) {
            if rng.below(3) > 0 {
                let when = moment(&mut rng, 60);
                spec.faults = spec.faults.with(when, Fault::Crash(NodeId(node)));
            }
        }
        assert_eq!(spec.beyond(&ft::PLAIN.info), []);
        let outcome = simulate(&ft::PLAIN, &spec);
        assert_promises(&ft::PLAIN, &outcome, &format!("n={n} seed {seed}"));
        let anew = |&(_, _, token): &(Time, u32, u64)| Serial::epoch_of(token) > 0;
        regenerated += usize::from(grants(&outcome).iter().any(anew));
    }
    assert!(regenerated > 100, "only {regenerated} runs with another epoch");
}

#[test]
fn the_ring_survives_nodes_that_stop_and_come_back() {
    for seed in 0..600 {
        let (mut spec, mut rng) = ft_spec(seed);
        let n = spec.setup.n();
        let steady = rng.below(n.into()) as u32;
        for node in (0..n).filter(|&node| node != steady) {
            let mut from = Time::ZERO;
            for _ in 0..rng.below(3) {
                let down = from + Duration::from_micros(rng.below(40_000));
                // Sometimes it is back before anybody has noticed.
                let up = down + Duration::from_micros(1 + rng.below(8_000));
                spec.faults = spec.faults.with(down, Fault::Crash(NodeId(node)));
                spec.faults = spec.faults.with(up, Fault::Recover(NodeId(node)));
                from = up;
            }
        }
        assert_eq!(spec.beyond(&ft::PLAIN.info), []);
        let outcome = simulate(&ft::PLAIN, &spec);
        assert_promises(&ft::PLAIN, &outcome, &format!("n={n} seed {seed}"));
    }
}

#[test]
fn members_come_and_go_while_others_crash() {
    for seed in 0..400 {
        let (mut spec, mut rng) = ft_spec(seed);
        let n = spec.setup.n() + 3;
        spec.setup = complete(n).with("members", n - 2);
        // Who leaves asks for nothing; those who join do.
        let (leaver, crashing) = (n - 3, n - 4);
        let asks = (0..n).filter(|&node| node != leaver).flat_map(|node| {
            [1, 60].map(|from| (node, from + rng.below(60), 1 + rng.below(3) as u32))
        });
        let asks: Vec<_> = asks.collect();
        spec.workload = planned(&ft::PLAIN, complete(n), &asks).workload;
        for newcomer in [n - 2, n - 1] {
            let (node, sponsor) = (NodeId(newcomer), NodeId(rng.below(u64::from(n) - 3) as u32));
            let when = moment(&mut rng, 40);
            spec.faults = spec.faults.with(when, Fault::Join { node, sponsor });
        }
        let (left, crashed) = (moment(&mut rng, 60), moment(&mut rng, 60));
        spec.faults = spec.faults.with(left, Fault::Leave(NodeId(leaver)));
        if crashing > 0 {
            spec.faults = spec.faults.with(crashed, Fault::Crash(NodeId(crashing)));
        }
        let outcome = simulate(&ft::PLAIN, &spec);
        assert_promises(&ft::PLAIN, &outcome, &format!("n={n} seed {seed}"));
    }
}

#[test]
fn a_hand_over_takes_two_messages_and_one_hop() {
    let zero = Spread::exactly(Duration::ZERO);
    let mut spec = RunSpec::new(&ft::PLAIN.info, complete(5));
    spec.workload = Workload {
        arrivals: Arrivals::Closed { clients: 0..5, rounds: Some(10), first: zero, think: zero },
        hold: Spread::exactly(T),
    };
    let costs = costs(&simulate(&ft::PLAIN, &spec));
    assert_eq!(costs.entered().count(), 50);
    assert!(costs.entered().all(|entry| entry.messages_entry == 2));
    assert!(costs.handovers.iter().all(|handover| handover.delay == T));
}

#[test]
fn the_token_that_died_with_its_holder_is_made_anew_for_2_messages_per_other_live_node() {
    for n in 3..9 {
        // p1 is inside when it dies.
        let mut spec = planned(&ft::PLAIN, complete(n), &[(1, 0, 20), (0, 8, 1)]);
        spec.faults = Faults::none().with(at(5), Fault::Crash(NodeId(1)));
        let outcome = simulate(&ft::PLAIN, &spec);
        assert_promises(&ft::PLAIN, &outcome, "the holder dies");
        let live = u64::from(n) - 1;
        assert_eq!(sent(&outcome, "Inquiry") + sent(&outcome, "InquiryRep"), 2 * (live - 1));
        let tokens: Vec<_> =
            grants(&outcome).iter().map(|grant| Serial::epoch_of(grant.2)).collect();
        assert!(tokens[0] == 0 && tokens[1] > 0, "{tokens:?}");
    }
}

#[test]
fn a_dead_successor_is_skipped_and_no_token_is_made() {
    let mut spec = planned(&ft::PLAIN, complete(5), &[(0, 20, 1), (1, 20, 1), (3, 20, 1)]);
    // The token is on its way to p2, which dies before it comes.
    spec.faults = Faults::none().with(at(1) + T / 2, Fault::Crash(NodeId(2)));
    let outcome = simulate(&ft::PLAIN, &spec);
    assert_promises(&ft::PLAIN, &outcome, "a successor dies");
    assert_eq!(outcome.stats.entered, 3);
    let delivered_first = grants(&outcome)[0].2 & ((1 << 40) - 1);
    assert!(delivered_first > 1, "the count goes on: it is the same token");
}

#[test]
fn a_holder_that_comes_back_finds_its_token_void() {
    for back in [5, 6, 20] {
        let mut spec =
            planned(&ft::PLAIN, complete(4), &[(1, 0, 50), (2, 1, 4), (3, 1, 4), (1, 30, 2)]);
        spec.faults = Faults::none()
            .with(at(4), Fault::Crash(NodeId(1)))
            .with(at(back), Fault::Recover(NodeId(1)));
        let outcome = simulate(&ft::PLAIN, &spec);
        assert_promises(&ft::PLAIN, &outcome, "the holder comes back");
        let order = order(&outcome);
        assert_eq!((order[0], order.len()), (1, 4), "{order:?}");
        assert_eq!(order[3], 1, "it has to be let in, and asks again");
    }
}

#[test]
fn joining_takes_two_messages_and_the_newcomer_is_next() {
    let mut spec = planned(&ft::PLAIN, complete(5).with("members", 4), &[(4, 0, 1), (2, 0, 3)]);
    let join = Fault::Join { node: NodeId(4), sponsor: NodeId(2) };
    spec.faults = Faults::none().with(at(3), join);
    let outcome = simulate(&ft::PLAIN, &spec);
    assert_promises(&ft::PLAIN, &outcome, "joining");
    assert_eq!((sent(&outcome, "Join"), sent(&outcome, "Welcome")), (1, 1));
    // p2 leaves at 5 and hands the token to the newcomer, not to p3.
    assert_eq!(order(&outcome), [2, 4]);
    assert_eq!(grants(&outcome)[1].0, at(6));
}

#[test]
fn who_leaves_gets_no_token_any_more_and_the_others_go_on() {
    let asks = [(0, 30, 1), (1, 30, 1), (3, 30, 1)];
    let mut spec = planned(&ft::PLAIN, complete(4), &asks);
    spec.faults = Faults::none().with(at(5), Fault::Leave(NodeId(2)));
    let outcome = simulate(&ft::PLAIN, &spec);
    assert_eq!(outcome.stats.entered, 3);
    assert_promises(&ft::PLAIN, &outcome, "leaving");
    let to_leaver = outcome.trace.records.iter().filter(|record| {
        record.at > at(12) && matches!(record.event(), Event::Send { to, .. } if to == NodeId(2))
    });
    assert_eq!(to_leaver.count(), 0);
}

/// Writes of a run to a resource that refuses a lower fencing token than it has seen, each node
/// writing on entering and on leaving: the tokens of those accepted and of those refused.
fn fenced_writes(outcome: &Outcome) -> (Vec<u64>, Vec<u64>) {
    let (mut accepted, mut refused): (Vec<u64>, Vec<u64>) = (Vec::new(), Vec::new());
    let mut inside = std::collections::BTreeMap::new();
    for record in &outcome.trace.records {
        let token = match record.event() {
            Event::Notice(Observation::Entered { token }) => {
                inside.insert(record.node, token);
                token
            }
            Event::Request(Observation::Left) => inside[&record.node],
            _ => continue,
        };
        let stale = accepted.last().is_some_and(|&highest| token < highest);
        if stale { refused.push(token) } else { accepted.push(token) }
    }
    (accepted, refused)
}

#[test]
fn a_wrong_suspicion_lets_two_in_and_fencing_keeps_the_resource_sound() {
    let mut spec =
        planned(&ft::PLAIN, complete(4), &[(1, 0, 20), (2, 0, 4), (3, 0, 4), (1, 60, 1)]);
    // p1 has the token at 1; its acknowledgement would be at p0 at 2.
    let (node, peer) = (NodeId(0), NodeId(1));
    spec.faults = Faults::none()
        .with(at(1) + T / 2, Fault::Suspect { node, peer })
        .with(at(40), Fault::Trust { node, peer });
    assert_ne!(spec.beyond(&ft::PLAIN.info), []);
    let outcome = simulate(&ft::PLAIN, &spec);
    assert!(verdict(Property::Exclusion, &outcome, 1).is_violated());
    assert!(verdict(Property::FenceOrder, &outcome, 1).held());
    let (accepted, refused) = fenced_writes(&outcome);
    assert!(accepted.is_sorted());
    assert_eq!(refused.len(), 1, "what p1 wrote last");
    assert_eq!(refused[0], accepted[0]);
    // The superfluous token is destroyed, and p1 is let in again.
    assert!(verdict(Property::NoStarvation, &outcome, 1).held());
    assert_eq!(order(&outcome), [1, 2, 3, 1]);
}

#[test]
fn after_any_wrong_suspicions_no_two_grants_have_the_same_number() {
    let mut broken = 0;
    for seed in 0..600 {
        let (mut spec, mut rng) = ft_spec(seed);
        let n = spec.setup.n();
        spec.workload.hold = Spread::between(Duration::ZERO, T * 8);
        for _ in 0..4 {
            let (a, b) = (rng.below(n.into()) as u32, rng.below(n.into()) as u32);
            let (node, peer) = (NodeId(a), NodeId(b));
            if a != b {
                let when = moment(&mut rng, 40);
                spec.faults = spec
                    .faults
                    .with(when, Fault::Suspect { node, peer })
                    .with(when + T * (1 + rng.below(20) as u32), Fault::Trust { node, peer });
            }
        }
        let outcome = simulate(&ft::PLAIN, &spec);
        let tokens: Vec<_> = grants(&outcome).iter().map(|grant| grant.2).collect();
        let distinct: BTreeSet<_> = tokens.iter().collect();
        assert_eq!(distinct.len(), tokens.len(), "seed {seed}: one grant per number");
        broken += u32::from(verdict(Property::Exclusion, &outcome, 1).is_violated());
    }
    assert!(broken > 20, "only {broken} runs had two inside");
}

/// The network splits in two and three, the token with the three; everybody suspects the other
/// side. Returns who entered afterwards.
fn split(majority: bool) -> BTreeSet<u32> {
    let asks: Vec<_> = (0..5).map(|node| (node, 30, 2)).collect();
    let mut spec = planned(&ft::PLAIN, complete(5).with("majority", majority), &asks);
    let (small, large) = ([0, 1].map(NodeId), [2, 3, 4].map(NodeId));
    let groups = vec![small.to_vec(), large.to_vec()];
    spec.faults = Faults::none().with(at(3) + T / 2, Fault::Partition(groups));
    for (node, peer) in small.iter().flat_map(|&a| large.map(|b| (a, b))) {
        spec.faults.plan.extend(
            [(node, peer), (peer, node)].map(|(node, peer)| PlannedFault {
                at: at(6),
                action: Fault::Suspect { node, peer },
            }),
        );
    }
    let outcome = simulate(&ft::PLAIN, &spec);
    assert_ne!(spec.beyond(&ft::PLAIN.info), []);
    assert_eq!(verdict(Property::Exclusion, &outcome, 1).held(), majority);
    order(&outcome).into_iter().collect()
}

#[test]
fn in_a_split_network_each_part_makes_a_token_unless_only_a_majority_may() {
    assert_eq!(split(false), BTreeSet::from([0, 1, 2, 3, 4]));
    assert_eq!(split(true), BTreeSet::from([2, 3, 4]));
}

#[test]
fn a_holder_that_is_no_member_and_more_members_than_nodes_are_refused() {
    let refusal = |setup: &Setup| (ft::PLAIN.config)(setup).expect_err("unfit").to_string();
    let setup = complete(4).with("members", 3).with("holder", 3);
    assert_eq!(refusal(&setup), "holder=3, but only 0 to 2 are members");
    for members in [0, 5] {
        let refused = refusal(&complete(4).with("members", members));
        assert_eq!(refused, format!("members={members}, but it can only be 1 to 4"));
    }
}
