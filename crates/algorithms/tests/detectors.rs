//! Failure detectors: whom they suspect, how often they are wrong, and what they cost.

mod support;

use std::time::Duration;

use conclave_algorithms::detector::{self, heartbeat, timeout_sync};
use conclave_protocol::{Entry, Mark, NodeId, Property, Setup, Time, Topology};
use conclave_sim::{Action, Delay, Event, Outcome, Rng, RunSpec, SlowLink};
use support::{T, at, costs, random_watch, simulate, verdict};

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
        Event::Notice(Mark::Suspects(peer)) => Some((record.at, record.node, peer)),
        _ => None,
    };
    outcome.trace.records.iter().filter_map(suspects).collect()
}

#[test]
fn heartbeats_find_every_crash_although_messages_are_lost() {
    for seed in 0..240 {
        let n = 2 + (seed % 8) as u32;
        let mut spec = random_watch(&heartbeat::PLAIN, setup(n), seed);
        spec.faults.loss = 200_000;
        spec.faults.duplication = 200_000;
        assert_eq!(spec.beyond(&heartbeat::PLAIN.info), []);
        let outcome = simulate(&heartbeat::PLAIN, &spec);
        let verdict = verdict(Property::Completeness, &outcome, 1);
        assert!(verdict.held(), "n={n} seed={seed}: {verdict:?}");
    }
}

#[test]
fn heartbeats_find_a_crash_within_a_delay_and_the_time_out() {
    for seed in 0..200 {
        let mut spec = calm(&heartbeat::PLAIN, setup(4), 60);
        spec.seed = seed;
        spec.delays = Delay::Uniform(T / 20, T).into();
        let crash = at(20) + T * (seed as u32 % 40) / 10;
        spec.faults = spec.faults.with(crash, Action::Crash(NodeId(3)));
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
fn settling(seed: u64, interval: u32, timeout: u32, step: u32) -> RunSpec {
    let options = setup(3).with("interval", interval).with("timeout", timeout).with("step", step);
    let mut spec = calm(&heartbeat::PLAIN, options, 2_000);
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
        let outcome = simulate(&heartbeat::PLAIN, &settling(seed, interval, timeout, step));
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
        record.event() == Event::Notice(Mark::Trusts(from)) && record.node == to
    };
    assert!(outcome.trace.records.iter().any(trusts));
}

#[test]
fn the_synchronous_detector_is_complete_and_never_wrong() {
    for seed in 0..240 {
        let n = 2 + (seed % 8) as u32;
        let spec = random_watch(&timeout_sync::PLAIN, setup(n), seed);
        assert_eq!(spec.beyond(&timeout_sync::PLAIN.info), []);
        let outcome = simulate(&timeout_sync::PLAIN, &spec);
        for property in [Property::Completeness, Property::Accuracy] {
            let verdict = verdict(property, &outcome, 1);
            assert!(verdict.held(), "n={n} seed={seed} {property}: {verdict:?}");
        }
    }
}

#[test]
fn an_answer_that_arrives_at_the_last_moment_is_in_time() {
    let outcome = simulate(&timeout_sync::PLAIN, &calm(&timeout_sync::PLAIN, setup(5), 50));
    assert_eq!(suspicions(&outcome), []);
}

#[test]
fn one_slow_message_makes_a_live_node_a_suspect_for_good() {
    let mut spec = calm(&timeout_sync::PLAIN, setup(2), 50);
    let (from, to) = (NodeId(1), NodeId(0));
    let delay = T + Duration::from_nanos(1);
    // The answer to the check at 10.
    spec.delays.links.push(SlowLink { from, to, delay, since: at(11), until: at(12) });
    let outcome = simulate(&timeout_sync::PLAIN, &spec);
    assert_eq!(suspicions(&outcome), [(at(12), to, from)]);
    assert!(verdict(Property::Accuracy, &outcome, 1).is_violated());
    let trusts =
        |record: &conclave_sim::Record| matches!(record.event(), Event::Notice(Mark::Trusts(_)));
    assert!(!outcome.trace.records.iter().any(trusts));
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
