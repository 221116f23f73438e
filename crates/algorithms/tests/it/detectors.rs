//! Failure detectors: whom they suspect, how often they are wrong, and what they cost.

use std::time::Duration;

use crate::support::{
    T, at, costs, nodes, random_crashes, random_spec, random_watch, simulate, verdict,
};
use conclave_algorithms::detector::support::with::{self, With};
use conclave_algorithms::detector::{
    self, busy_or_dead, heartbeat, heartbeat_ring, phi_accrual, timeout_sync,
};
use conclave_algorithms::mutex::ricart_agrawala;
use conclave_protocol::{
    Detector, Entry, Info, Model, NodeId, Observation, Property, Setup, Time, Timing, Topology,
};
use conclave_sim::{Delay, DetectorMetrics, Event, Fault, Outcome, Rng, RunSpec, SlowLink};

fn setup(n: u32) -> Setup {
    Setup::new(Topology::complete(n))
}

/// Unit delays, and nothing goes wrong, until `t`.
fn calm<P: detector::Algorithm>(entry: &Entry<P>, setup: Setup, t: u64) -> RunSpec {
    let mut spec = RunSpec::new(&entry.info, setup);
    spec.linger = None;
    spec.until = at(t);
    spec
}

/// Every suspicion: when, whose, of whom.
fn suspicions(outcome: &Outcome) -> Vec<(Time, NodeId, NodeId)> {
    let suspects = |record: &conclave_sim::Record| match record.event() {
        Event::Notice(Observation::Suspects(peer)) => Some((record.at, record.node, peer)),
        _ => None,
    };
    outcome.trace.records.iter().filter_map(suspects).collect()
}

/// Who suspects whom at the end, in pairs.
fn suspected_at_end(outcome: &Outcome) -> Vec<(u32, u32)> {
    let mut suspected = std::collections::BTreeSet::new();
    for record in &outcome.trace.records {
        match record.event() {
            Event::Notice(Observation::Suspects(peer)) => suspected.insert((record.node.0, peer.0)),
            Event::Notice(Observation::Trusts(peer)) => suspected.remove(&(record.node.0, peer.0)),
            Event::Crash => {
                suspected.retain(|(node, _)| *node != record.node.0);
                continue;
            }
            _ => continue,
        };
    }
    suspected.into_iter().collect()
}

fn finds_every_crash_although_messages_are_lost<P: detector::Algorithm>(entry: &Entry<P>) {
    for seed in 0..240 {
        let n = 2 + (seed % 8) as u32;
        let mut spec = random_watch(entry, setup(n), seed);
        spec.faults.loss = 200_000;
        spec.faults.duplication = 200_000;
        assert_eq!(spec.beyond(&entry.info), []);
        let outcome = simulate(entry, &spec);
        let verdict = verdict(Property::Completeness, &outcome, 1);
        assert!(verdict.held(), "n={n} seed={seed}: {verdict:?}");
    }
}

#[test]
fn heartbeats_find_every_crash_although_messages_are_lost() {
    finds_every_crash_although_messages_are_lost(&heartbeat::PLAIN);
}

#[test]
fn phi_accrual_finds_every_crash_although_messages_are_lost() {
    finds_every_crash_although_messages_are_lost(&phi_accrual::PLAIN);
}

#[test]
fn heartbeats_find_a_crash_within_a_delay_and_the_time_out() {
    for seed in 0..200 {
        let mut spec = calm(&heartbeat::PLAIN, setup(4), 60);
        spec.seed = seed;
        spec.delays = Delay::Uniform(T / 20, T).into();
        let crash = at(20) + T * (seed as u32 % 40) / 10;
        spec.faults = spec.faults.with(crash, Fault::Crash(NodeId(3)));
        let found = suspicions(&simulate(&heartbeat::PLAIN, &spec));
        assert_eq!(found.len(), 3, "no mistakes while delays keep the promise: {found:?}");
        // The interval is 2T and the time-out 3T.
        assert!(found.iter().all(|(when, ..)| *when - crash <= T * (2 + 3)), "{found:?}");
    }
}

#[test]
fn heartbeats_cost_one_message_per_pair_and_interval() {
    for n in 2..=9 {
        let outcome = simulate(&heartbeat::PLAIN, &calm(&heartbeat::PLAIN, setup(n), 19));
        let costs = costs(&outcome);
        // Beats at 0, 2, …, 18.
        assert_eq!(costs.messages, u64::from(n * (n - 1)) * 10);
        assert_eq!(costs.overhead, costs.messages, "they belong to no entry");
    }
}

/// For each of the first 100 units, every link has its own delay of up to 40; later the delays
/// are at most 5.
fn settling<P: detector::Algorithm>(
    entry: &Entry<P>,
    seed: u64,
    interval: u32,
    timeout: u32,
    step: u32,
) -> RunSpec {
    let options = setup(3).with("interval", interval).with("timeout", timeout).with("step", step);
    let mut spec = calm(entry, options, 2_000);
    spec.seed = seed;
    spec.delays = Delay::Uniform(T / 20, T * 5).into();
    let mut rng = Rng::new(seed);
    for from in (0..3).map(NodeId) {
        for to in (0..3).map(NodeId).filter(|&to| to != from) {
            for t in 0..100 {
                let delay = T * rng.below(40) as u32 + T / 2;
                let (since, until) = (at(t), at(t + 1));
                spec.delays.links.push(SlowLink { from, to, delay, since, until });
            }
        }
    }
    spec
}

#[test]
fn the_mistakes_of_heartbeats_come_to_an_end_once_delays_are_bounded() {
    let (mut early, mut late) = (0, 0);
    for seed in 0..240 {
        let (interval, timeout, step) = [(2, 2, 1), (1, 1, 1), (3, 2, 2)][seed as usize % 3];
        let entry = &heartbeat::PLAIN;
        let outcome = simulate(entry, &settling(entry, seed, interval, timeout, step));
        let bound = (5 + interval - timeout).div_ceil(step) + 1;
        let found = suspicions(&outcome);
        early += found.iter().filter(|(when, ..)| *when < at(100)).count();
        for node in (0..3).map(NodeId) {
            for peer in (0..3).map(NodeId) {
                let mistakes = found
                    .iter()
                    .filter(|&&(when, by, of)| when >= at(100) && (by, of) == (node, peer))
                    .count();
                late += mistakes;
                assert!(mistakes <= bound as usize, "seed={seed}: {mistakes} > {bound}");
            }
        }
        assert!(!verdict(Property::Accuracy, &outcome, 1).held());
    }
    assert!(early > 1_000 && late > 0, "there was something to learn from: {early} {late}");
}

#[test]
fn a_peer_that_comes_back_is_trusted_and_given_more_time() {
    let mut spec = calm(&heartbeat::PLAIN, setup(2), 60);
    let (from, to) = (NodeId(1), NodeId(0));
    let slow = SlowLink { from, to, delay: T * 6, since: at(9), until: at(11) };
    spec.delays.links.push(slow.clone());
    // The second time, the same lateness is no news.
    let outcome = simulate(&heartbeat::PLAIN, &spec);
    assert_eq!(suspicions(&outcome), [(at(12), to, from)]);
    let late = SlowLink { delay: T * 2, since: at(29), until: at(31), ..slow };
    spec.delays.links.push(late);
    assert_eq!(suspicions(&simulate(&heartbeat::PLAIN, &spec)).len(), 1);
    let trusts = |record: &conclave_sim::Record| {
        record.event() == Event::Notice(Observation::Trusts(from)) && record.node == to
    };
    assert!(outcome.trace.records.iter().any(trusts));
}

fn is_complete_and_never_wrong<P: detector::Algorithm>(
    entry: &Entry<P>,
    setup: impl Fn(u64) -> Setup,
) {
    for seed in 0..240 {
        let spec = random_watch(entry, setup(seed), seed);
        assert_eq!(spec.beyond(&entry.info), []);
        let outcome = simulate(entry, &spec);
        for property in [Property::Completeness, Property::Accuracy] {
            let verdict = verdict(property, &outcome, 1);
            assert!(verdict.held(), "seed={seed} {property}: {verdict:?}");
        }
    }
}

#[test]
fn the_synchronous_detector_is_complete_and_never_wrong() {
    is_complete_and_never_wrong(&timeout_sync::PLAIN, |seed| setup(2 + (seed % 8) as u32));
}

#[test]
fn an_answer_that_arrives_at_the_last_moment_is_in_time() {
    let outcome = simulate(&timeout_sync::PLAIN, &calm(&timeout_sync::PLAIN, setup(5), 50));
    assert_eq!(suspicions(&outcome), []);
}

fn one_slow_message_makes_a_live_node_a_suspect<P: detector::Algorithm>(entry: &Entry<P>) {
    let mut spec = calm(entry, setup(2), 50);
    let (from, to) = (NodeId(1), NodeId(0));
    let delay = T + Duration::from_nanos(1);
    // The answer to the check at 10.
    spec.delays.links.push(SlowLink { from, to, delay, since: at(11), until: at(12) });
    assert!(!spec.beyond(&entry.info).is_empty());
    let outcome = simulate(entry, &spec);
    assert_eq!(suspicions(&outcome), [(at(12), to, from)]);
    assert!(verdict(Property::Accuracy, &outcome, 1).is_violated());
    let trusts = |record: &conclave_sim::Record| {
        matches!(record.event(), Event::Notice(Observation::Trusts(_)))
    };
    assert!(!outcome.trace.records.iter().any(trusts));
}

#[test]
fn one_slow_message_makes_a_live_node_a_suspect_for_good() {
    one_slow_message_makes_a_live_node_a_suspect(&timeout_sync::PLAIN);
    one_slow_message_makes_a_live_node_a_suspect(&busy_or_dead::PLAIN);
}

#[test]
fn the_synchronous_detector_costs_two_messages_per_peer_and_check() {
    for n in 2..=9 {
        let outcome = simulate(&timeout_sync::PLAIN, &calm(&timeout_sync::PLAIN, setup(n), 19));
        let costs = costs(&outcome);
        // Checks at 0, 5, 10 and 15, by everybody of everybody else.
        let pairs = u64::from(n * (n - 1));
        assert_eq!(costs.by_label["Ping"], pairs * 4);
        assert_eq!(costs.by_label["Pong"], pairs * 4);
        assert_eq!(costs.overhead, pairs * 8, "they belong to no entry");
    }
}

#[test]
fn phi_accrual_costs_as_much_as_heartbeats() {
    for n in 2..=9 {
        let outcome = simulate(&phi_accrual::PLAIN, &calm(&phi_accrual::PLAIN, setup(n), 19));
        let costs = costs(&outcome);
        assert_eq!(costs.messages, u64::from(n * (n - 1)) * 10);
        assert_eq!(costs.overhead, costs.messages, "they belong to no entry");
    }
}

#[test]
fn after_regular_beats_phi_passes_the_line_at_the_mean_and_so_many_times_the_floor() {
    let mut spec = calm(&phi_accrual::PLAIN, setup(3), 400);
    spec.faults = spec.faults.with(at(300) + T / 2, Fault::Crash(NodeId(2)));
    // The last beat arrives at 301; an interval is 2T, a tenth of it the floor, and φ = 8 is 5.612
    // deviations beyond the mean.
    let when = at(301) + T * 2 + Duration::from_nanos(200_000 * 5_612_002 / 1_000_000);
    let found = suspicions(&simulate(&phi_accrual::PLAIN, &spec));
    assert_eq!(found, [(when, NodeId(0), NodeId(2)), (when, NodeId(1), NodeId(2))]);
}

#[test]
fn a_beat_that_is_late_now_and_then_is_a_mistake_of_phi_accrual_each_time_and_of_heartbeats_once() {
    let late = |mut spec: RunSpec| {
        // More regular beats in between than the window holds.
        for t in (1..=20).map(|k| 300 * k) {
            let (from, to) = (NodeId(1), NodeId(0));
            let (since, until) = (at(t - 1), at(t + 1));
            spec.delays.links.push(SlowLink { from, to, delay: T * 6, since, until });
        }
        spec
    };
    let spec = late(calm(&phi_accrual::PLAIN, setup(2), 6_100));
    assert_eq!(suspicions(&simulate(&phi_accrual::PLAIN, &spec)).len(), 20);
    let spec = late(calm(&heartbeat::PLAIN, setup(2), 6_100));
    assert_eq!(suspicions(&simulate(&heartbeat::PLAIN, &spec)).len(), 1);
}

/// The quality of a detector over exponential delays, in 40 runs with a crash each.
fn in_exponential_delays<P: detector::Algorithm>(
    entry: &Entry<P>,
    setup: &Setup,
) -> DetectorMetrics {
    let runs = (0..40).map(|seed| {
        let mut spec = calm(entry, setup.clone(), 600);
        spec.seed = seed;
        spec.delays = Delay::Exponential(T).into();
        let crash = at(500) + T * (seed as u32 % 20) / 10;
        spec.faults = spec.faults.with(crash, Fault::Crash(NodeId(3)));
        DetectorMetrics::of(&simulate(entry, &spec).trace)
    });
    runs.reduce(DetectorMetrics::and).expect("there are runs")
}

#[test]
fn a_higher_line_takes_longer_and_is_wrong_less_often() {
    let mut before: Option<DetectorMetrics> = None;
    for line in [1, 2, 4, 8] {
        let quality = in_exponential_delays(&phi_accrual::PLAIN, &setup(4).with("phi", line));
        assert_eq!(quality.missed(), 0);
        if let Some(before) = before {
            assert!(quality.mistakes.len() * 2 < before.mistakes.len(), "line {line}");
            assert!(quality.detection().mean > before.detection().mean, "line {line}");
        }
        before = Some(quality);
    }
    // Pauses are far from normal, so that mistakes are more frequent than one in 10⁸.
    let mistakes = before.expect("there were lines").mistakes.len();
    assert!(mistakes >= 3, "{mistakes} among fewer than 10⁶ pauses");
}

#[test]
fn heartbeats_on_a_ring_find_every_crash() {
    for seed in 0..480 {
        let n = 2 + (seed % 12) as u32;
        let spec = random_watch(&heartbeat_ring::PLAIN, setup(n), seed);
        assert_eq!(spec.beyond(&heartbeat_ring::PLAIN.info), []);
        let outcome = simulate(&heartbeat_ring::PLAIN, &spec);
        let verdict = verdict(Property::Completeness, &outcome, 1);
        assert!(verdict.held(), "n={n} seed={seed}: {verdict:?}");
        // And no other node is suspected in the end.
        let down = |node: u32| spec.faults.is_down(NodeId(node), outcome.trace.ended);
        let wrong: Vec<_> =
            suspected_at_end(&outcome).into_iter().filter(|&(_, peer)| !down(peer)).collect();
        assert_eq!(wrong, [], "n={n} seed={seed}");
    }
}

#[test]
fn heartbeats_on_a_ring_cost_one_message_per_node_and_interval() {
    for n in 2..=9 {
        let spec = calm(&heartbeat_ring::PLAIN, setup(n), 19);
        let costs = costs(&simulate(&heartbeat_ring::PLAIN, &spec));
        assert_eq!(costs.by_label["Beat"], u64::from(n) * 10);
        assert_eq!(costs.by_label["Hello"], u64::from(n * (n - 1)), "once, on booting");
        assert_eq!(costs.messages, u64::from(n) * 10 + u64::from(n * (n - 1)));
    }
}

#[test]
fn heartbeats_on_a_ring_find_a_crash_within_two_delays_and_the_time_out() {
    for seed in 0..200 {
        let n = 3 + (seed % 7) as u32;
        let mut spec = calm(&heartbeat_ring::PLAIN, setup(n), 60);
        spec.seed = seed;
        spec.delays = Delay::Uniform(T / 20, T).into();
        let crash = at(20) + T * (seed as u32 % 40) / 10;
        spec.faults = spec.faults.with(crash, Fault::Crash(NodeId(1)));
        let outcome = simulate(&heartbeat_ring::PLAIN, &spec);
        let found = suspicions(&outcome);
        assert_eq!(found.len(), n as usize - 1, "no mistakes: {found:?}");
        assert!(found.iter().all(|(when, ..)| *when - crash <= T * (1 + 3 + 1)), "{found:?}");
        assert_eq!(costs(&outcome).by_label["Words"], u64::from((n - 1) * (n - 1)));
    }
}

#[test]
fn neighbours_on_a_ring_that_crash_together_are_found_one_after_the_other() {
    let mut spec = calm(&heartbeat_ring::PLAIN, setup(6), 60);
    for node in nodes([2, 3, 4]) {
        spec.faults = spec.faults.with(at(20) + T / 2, Fault::Crash(node));
    }
    let found = suspicions(&simulate(&heartbeat_ring::PLAIN, &spec));
    let by_successor = found.iter().filter(|(_, node, _)| *node == NodeId(5));
    let by_successor: Vec<_> = by_successor.map(|&(when, _, peer)| (when, peer.0)).collect();
    assert_eq!(by_successor, [(at(24), 4), (at(27), 3), (at(30), 2)]);
    assert_eq!(found.iter().map(|(when, ..)| *when).max(), Some(at(31)), "the last to be told");
}

#[test]
fn the_mistakes_of_heartbeats_on_a_ring_come_to_an_end_once_delays_are_bounded() {
    let mut early = 0;
    for seed in 0..240 {
        let (interval, timeout, step) = [(2, 2, 1), (1, 1, 1), (3, 2, 2)][seed as usize % 3];
        let entry = &heartbeat_ring::PLAIN;
        let outcome = simulate(entry, &settling(entry, seed, interval, timeout, step));
        let found = suspicions(&outcome);
        early += found.iter().filter(|(when, ..)| *when < at(100)).count();
        // A new predecessor has to be told, and its beat takes as long again.
        let bound = (5 + 5 - timeout).div_ceil(step) + 1;
        for (node, peer) in (0..3).flat_map(|node| (0..3).map(move |peer| (node, peer))) {
            let mistakes = found
                .iter()
                .filter(|(when, by, of)| *when >= at(100) && (by.0, of.0) == (node, peer))
                .count();
            assert!(mistakes <= bound as usize, "seed={seed}: {mistakes} > {bound}");
        }
        assert_eq!(suspected_at_end(&outcome), [], "seed={seed}");
        assert!(verdict(Property::Accuracy, &outcome, 1).is_violated());
    }
    assert!(early > 1_000, "there was something to learn from: {early}");
}

#[test]
fn who_comes_back_to_the_ring_with_nothing_is_trusted_and_told_who_is_dead() {
    let mut spec = calm(&heartbeat_ring::PLAIN, setup(5), 100);
    spec.faults = spec
        .faults
        .with(at(20), Fault::Crash(NodeId(1)))
        .with(at(22), Fault::Crash(NodeId(2)))
        .with(at(60), Fault::RecoverEmpty(NodeId(1)));
    let outcome = simulate(&heartbeat_ring::PLAIN, &spec);
    assert_eq!(suspected_at_end(&outcome), [(0, 2), (1, 2), (3, 2), (4, 2)]);
    let told = suspicions(&outcome).into_iter().find(|(_, node, _)| *node == NodeId(1));
    assert_eq!(told, Some((at(62), NodeId(1), NodeId(2))), "a question and an answer later");
}

#[test]
fn the_parts_of_a_ring_that_a_partition_broke_never_find_each_other_again() {
    let parted = |mut spec: RunSpec| {
        let parts = vec![nodes([0, 1]).to_vec(), nodes([2, 3]).to_vec()];
        spec.faults = spec.faults.with(at(20), Fault::Partition(parts)).with(at(60), Fault::Heal);
        spec
    };
    let outcome =
        simulate(&heartbeat_ring::PLAIN, &parted(calm(&heartbeat_ring::PLAIN, setup(4), 1_000)));
    assert_eq!(suspected_at_end(&outcome).len(), 8);
    let outcome = simulate(&heartbeat::PLAIN, &parted(calm(&heartbeat::PLAIN, setup(4), 1_000)));
    assert_eq!(suspected_at_end(&outcome), [], "as heartbeats to all do");
}

#[test]
fn who_says_that_it_is_busy_is_never_taken_for_dead() {
    is_complete_and_never_wrong(&busy_or_dead::PLAIN, |seed| {
        setup(2 + (seed % 8) as u32).with("work", [0, 1, 4, 30][seed as usize / 8 % 4])
    });
}

#[test]
fn a_job_may_take_longer_than_any_time_out() {
    let long = setup(5).with("work", 50);
    let spec = calm(&busy_or_dead::PLAIN, long.clone(), 1_000);
    let outcome = simulate(&busy_or_dead::PLAIN, &spec);
    assert_eq!(suspicions(&outcome), []);
    let costs = costs(&outcome);
    assert!(costs.by_label["Queued"] > 1_000 && costs.by_label["Done"] > 80, "{costs:?}");

    let spec = calm(&busy_or_dead::SILENT, long, 1_000);
    let outcome = simulate(&busy_or_dead::SILENT, &spec);
    assert_eq!(suspicions(&outcome).len(), 20, "in silence, all take each other for dead");
    assert!(suspicions(&outcome).iter().all(|(when, ..)| *when == at(2)));
}

#[test]
fn who_crashes_over_a_job_is_found_by_the_next_question() {
    let mut spec = calm(&busy_or_dead::PLAIN, setup(2).with("work", 50), 100);
    spec.faults = spec.faults.with(at(12), Fault::Crash(NodeId(1)));
    // It answers the question of 10 at 11, and that of 15 never.
    let outcome = simulate(&busy_or_dead::PLAIN, &spec);
    assert_eq!(suspicions(&outcome), [(at(17), NodeId(0), NodeId(1))]);
}

#[test]
fn a_job_that_has_to_wait_costs_a_third_message() {
    for n in 2..=9 {
        // Checks at 0, 5, 10 and 15, by everybody of everybody else.
        let pairs = u64::from(n * (n - 1)) * 4;
        let spec = calm(&busy_or_dead::PLAIN, setup(n).with("work", 0), 19);
        let at_once = costs(&simulate(&busy_or_dead::PLAIN, &spec));
        assert_eq!((at_once.by_label["Ask"], at_once.by_label["Done"]), (pairs, pairs));
        assert_eq!(at_once.messages, 2 * pairs);
    }
    let spec = calm(&busy_or_dead::PLAIN, setup(2).with("work", 2), 19);
    let waiting = costs(&simulate(&busy_or_dead::PLAIN, &spec));
    for label in ["Ask", "Queued", "Done"] {
        assert_eq!(waiting.by_label[label], 8);
    }
    assert_eq!(waiting.messages, 3 * 8);
    assert_eq!(waiting.overhead, waiting.messages, "they belong to no entry");
}

#[test]
fn a_lock_with_a_detector_of_its_own_survives_crashes() {
    type Locks = With<timeout_sync::TimeoutSync, ricart_agrawala::RicartAgrawala>;
    let info = Info {
        model: Model {
            detector: Detector::None,
            timing: Timing::Synchronous,
            ..ricart_agrawala::FD.info.model
        },
        options: timeout_sync::PLAIN.info.options,
        ..ricart_agrawala::FD.info
    };
    let entry = Entry::<Locks> {
        info,
        config: |setup| {
            let detector = timeout_sync::Config::of(setup)?;
            Ok(with::Config { detector, app: (ricart_agrawala::FD.config)(setup)? })
        },
        clients: Entry::<Locks>::everyone,
    };
    let mut crashed = 0;
    for seed in 0..200 {
        let n = 2 + (seed % 6) as u32;
        let mut spec = random_spec(&entry, setup(n), seed);
        let mut rng = Rng::new(seed);
        spec.faults = random_crashes(&entry, n, NodeId(0), 40, &mut rng);
        crashed += spec.faults.plan.len();
        assert_eq!(spec.beyond(&entry.info), []);
        let outcome = conclave_sim::run(&entry, &spec).expect("it makes sense");
        let promises = [Property::Exclusion, Property::NoStarvation, Property::FenceOrder];
        for property in promises {
            let verdict = verdict(property, &outcome, 1);
            assert!(verdict.held(), "n={n} seed={seed} {property}: {verdict:?}");
        }
    }
    assert!(crashed > 100, "{crashed}");
}
