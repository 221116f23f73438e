//! The coordinator that is replaced: crashes of every kind, leases, and what a failover costs.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::{T, at, costs, nodes, order, random_crashes, random_spec, simulate, verdict};
use conclave_algorithms::election::bully;
use conclave_algorithms::mutex::centralized_failover::{Coordinator, NO_LEASE, PLAIN};
use conclave_protocol::{Algorithm, Entry, NodeId, Observation, Property, Setup, Time, Topology};
use conclave_sim::{
    Arrivals, Ask, Event, Fault, JudgeLimits, Outcome, Rng, RunSpec, Workload, judge,
};

/// Λ, by default.
const LEASE: u32 = 20;

fn setup(n: u32) -> Setup {
    Setup::new(Topology::complete(n))
}

/// Unit delays; each of these asks at its moment and stays for its time.
fn plan(entry: &dyn Algorithm, setup: Setup, asks: &[(u32, u64, u64)]) -> RunSpec {
    let mut spec = RunSpec::new(entry.info(), setup);
    let ask = |&(node, t, hold): &(u32, u64, u64)| Ask {
        node: NodeId(node),
        at: at(t),
        hold: Some(T * hold as u32),
    };
    let asks = asks.iter().map(ask).collect();
    spec.workload = Workload { arrivals: Arrivals::Plan(asks), ..Workload::idle() };
    spec.until = at(10_000);
    spec
}

fn has(outcome: &Outcome, node: u32, event: Event) -> Option<Time> {
    let mut records = outcome.trace.records.iter();
    let found = records.find(|record| record.node == NodeId(node) && record.event() == event);
    found.map(|record| record.at)
}

/// When a node entered the first time.
fn entered(outcome: &Outcome, node: u32) -> Time {
    let costs = costs(outcome);
    let entry = costs.entered().find(|entry| entry.node == NodeId(node));
    entry.and_then(|entry| entry.entered).expect("it entered")
}

/// Messages by name that were sent from `since` on.
fn sent_since(outcome: &Outcome, since: Time) -> BTreeMap<String, u64> {
    let mut sent = BTreeMap::new();
    for record in outcome.trace.records.iter().filter(|record| record.at >= since) {
        if let Event::Send { label, .. } = record.event() {
            *sent.entry(outcome.trace.labels[usize::from(label)].to_string()).or_default() += 1;
        }
    }
    sent
}

fn assert_all(outcome: &Outcome, what: &str) {
    let patience = Duration::from_secs(5);
    let promises =
        [Property::Exclusion, Property::FenceOrder, Property::NoDeadlock, Property::NoStarvation];
    for property in promises {
        let verdict = judge(property, &outcome.trace, JudgeLimits { places: 1, patience });
        assert!(verdict.held(), "{what} {property}: {verdict:?}");
    }
}

#[test]
fn crashes_and_recoveries_cost_no_exclusion_and_no_live_request() {
    let mut recoveries = 0;
    for seed in 0..400 {
        let n = 2 + (seed % 8) as u32;
        let mut spec = random_spec(&PLAIN, setup(n), seed);
        let mut rng = Rng::new(seed).fork(9);
        let spared = NodeId(rng.below(u64::from(n)) as u32);
        spec.faults = random_crashes(&PLAIN, n, spared, 60, &mut rng);
        // Every other time there are only probes to tell who lives.
        if seed % 2 == 1 {
            spec.detector = None;
        }
        let model = spec.beyond(&PLAIN.info);
        assert!(model.is_empty() || spec.detector.is_none(), "{model:?}");
        let outcome = simulate(&PLAIN, &spec);
        assert_all(&outcome, &format!("n={n} seed={seed}"));
        let recovered = |record: &&conclave_sim::Record| record.event() == Event::Recover;
        recoveries += outcome.trace.records.iter().filter(recovered).count();
    }
    assert!(recoveries > 100, "{recoveries}");
}

#[test]
fn a_perfect_detector_makes_up_for_leases() {
    for seed in 0..240 {
        let n = 2 + (seed % 8) as u32;
        let mut spec = random_spec(&NO_LEASE, setup(n), seed);
        let mut rng = Rng::new(seed).fork(9);
        let spared = NodeId(rng.below(u64::from(n)) as u32);
        spec.faults = random_crashes(&NO_LEASE, n, spared, 60, &mut rng);
        assert_eq!(spec.beyond(&NO_LEASE.info), []);
        assert_all(&simulate(&NO_LEASE, &spec), &format!("n={n} seed={seed}"));
    }
}

#[test]
fn when_the_coordinator_crashes_the_holder_stays_inside_and_the_waiting_follow() {
    // Coordinator p3 is in office after the first entry.
    let mut spec = plan(&PLAIN, setup(4), &[(2, 0, 1), (0, 30, 60), (1, 40, 1)]);
    spec.faults = spec.faults.with(at(50), Fault::Crash(NodeId(3)));
    let outcome = simulate(&PLAIN, &spec);
    assert_all(&outcome, "coordinator");
    assert_eq!(order(&outcome), [2, 0, 1]);
    assert_eq!(has(&outcome, 0, Event::Notice(Observation::Lost)), None, "its lease went on");
    let left = has(&outcome, 0, Event::Request(Observation::Left)).expect("it left");
    assert_eq!(left, entered(&outcome, 0) + T * 60);
    assert_eq!(entered(&outcome, 1), left + T * 2);
}

#[test]
fn when_the_holder_crashes_its_lease_runs_out() {
    let mut spec = plan(&PLAIN, setup(4), &[(2, 0, 1), (0, 30, 500), (1, 40, 1)]);
    let crash = at(75);
    spec.faults = spec.faults.with(crash, Fault::Crash(NodeId(0)));
    let outcome = simulate(&PLAIN, &spec);
    assert_all(&outcome, "holder");
    // The lease, ε, and the way of the grant.
    let wait = entered(&outcome, 1) - crash;
    assert!(wait <= T * (LEASE + 2), "{wait:?}");
    assert!(wait >= T * LEASE / 2, "it was renewed not long before: {wait:?}");
}

#[test]
fn when_both_crash_the_new_coordinator_waits_for_a_lease_it_knows_nothing_of() {
    let mut spec = plan(&PLAIN, setup(4), &[(2, 0, 1), (0, 30, 500), (1, 40, 1)]);
    let crash = at(75);
    spec.faults =
        spec.faults.with(crash, Fault::Crash(NodeId(0))).with(crash, Fault::Crash(NodeId(3)));
    let outcome = simulate(&PLAIN, &spec);
    assert_all(&outcome, "both");
    let wait = entered(&outcome, 1) - crash;
    assert!(wait > T * (LEASE + 2), "{wait:?}");
    assert!(wait < T * (LEASE + 2 + 12), "{wait:?}");
}

#[test]
fn a_holder_that_cannot_renew_is_told_to_stop_before_the_next_enters() {
    let mut spec = plan(&PLAIN, setup(3), &[(1, 0, 1), (0, 30, 500), (1, 40, 1)]);
    spec.faults = spec.faults.with(at(31), Fault::Lose { label: "Renewed".to_owned() });
    let outcome = simulate(&PLAIN, &spec);
    assert!(verdict(Property::Exclusion, &outcome, 1).held());
    let lost = has(&outcome, 0, Event::Notice(Observation::Lost)).expect("it was revoked");
    assert_eq!(lost, entered(&outcome, 0) + T * (LEASE - 1));
    assert_eq!(order(&outcome), [1, 0, 1]);
}

/// A resource that takes writes only in the order of their fencing tokens.
#[derive(Default)]
struct Fenced {
    highest: u64,
}

impl Fenced {
    fn write(&mut self, token: u64) -> bool {
        let accepted = token >= self.highest;
        self.highest = self.highest.max(token);
        accepted
    }
}

/// p0 is inside and pauses for ten steps; p2, the coordinator, takes it for dead; p1 waits.
fn paused_holder(entry: &Entry<Coordinator<bully::Bully>>) -> Outcome {
    let asks = [(1, 0, 1), (0, 30, 25), (1, 35, 10)];
    let mut spec = plan(entry, setup(3), &asks);
    spec.faults = spec
        .faults
        .with(at(40), Fault::Pause(NodeId(0)))
        .with(at(43), Fault::Suspect { node: NodeId(2), peer: NodeId(0) })
        .with(at(50), Fault::Resume(NodeId(0)));
    simulate(entry, &spec)
}

#[test]
fn without_leases_a_paused_holder_is_joined_by_another_and_only_fencing_helps() {
    let outcome = paused_holder(&NO_LEASE);
    assert!(verdict(Property::Exclusion, &outcome, 1).is_violated());
    assert!(verdict(Property::FenceOrder, &outcome, 1).held(), "tokens still grow");

    let costs = costs(&outcome);
    let tokens: Vec<u64> = costs.entered().filter_map(|entry| entry.token).collect();
    let [_, paused, other] = tokens[..] else { panic!("three entries: {tokens:?}") };
    // The other writes on entering, the paused one when it wakes up.
    let mut resource = Fenced::default();
    assert!(resource.write(other));
    assert!(!resource.write(paused), "the late write is refused");
}

#[test]
fn with_leases_a_paused_holder_is_waited_for() {
    assert_all(&paused_holder(&PLAIN), "paused");
}

/// p0 is inside and pauses for ten steps; meanwhile the coordinator crashes; p1 waits.
fn paused_holder_in_a_failover(entry: &Entry<Coordinator<bully::Bully>>) -> Outcome {
    let asks = [(1, 0, 1), (0, 30, 25), (1, 35, 10)];
    let mut spec = plan(entry, setup(4), &asks);
    spec.faults = spec
        .faults
        .with(at(33), Fault::Pause(NodeId(0)))
        .with(at(34), Fault::Crash(NodeId(3)))
        .with(at(47), Fault::Resume(NodeId(0)));
    simulate(entry, &spec)
}

#[test]
fn a_new_coordinator_does_not_take_a_silent_holder_for_gone_before_its_lease_is_over() {
    assert_all(&paused_holder_in_a_failover(&PLAIN), "paused");
    let without = paused_holder_in_a_failover(&NO_LEASE);
    assert!(verdict(Property::Exclusion, &without, 1).is_violated());
}

#[test]
fn a_partition_makes_two_coordinators() {
    let mut spec = plan(&PLAIN, setup(4), &[(2, 0, 1), (0, 30, 300), (1, 40, 1)]);
    let groups = vec![nodes([0]).to_vec(), nodes([1, 2, 3]).to_vec()];
    spec.faults = spec.faults.with(at(60), Fault::Partition(groups));
    let outcome = simulate(&PLAIN, &spec);
    assert!(verdict(Property::Exclusion, &outcome, 1).is_violated());
}

#[test]
fn an_entry_costs_three_messages_and_one_of_the_coordinator_none() {
    let spec = plan(&PLAIN, setup(5), &[(0, 0, 1), (1, 40, 1), (4, 60, 1)]);
    let outcome = simulate(&PLAIN, &spec);
    let costs = costs(&outcome);
    assert_eq!(order(&outcome), [0, 1, 4]);
    let cost = |i: usize| (costs.entries[i].messages_entry, costs.entries[i].messages_exit);
    assert_eq!(cost(1), (2, 1));
    assert_eq!(costs.entries[1].entered, Some(at(42)), "two hops");
    assert_eq!(cost(2), (0, 0));
}

#[test]
fn taking_office_costs_a_question_and_an_answer_per_node() {
    for n in 2..=9 {
        let outcome = simulate(&PLAIN, &plan(&PLAIN, setup(n), &[(0, 0, 1)]));
        let others = u64::from(n - 1);
        let sent = sent_since(&outcome, Time::ZERO);
        assert_eq!((sent["NewCoord"], sent["Status"]), (others, others));
    }
}

#[test]
fn a_failover_costs_the_election_and_a_question_and_an_answer_per_node() {
    for n in 3..=9_u32 {
        let mut spec = plan(&PLAIN, setup(n), &[(1, 0, 1), (0, 100, 1)]);
        // Only p0, which gets no answer, notices.
        spec.detector = None;
        spec.faults = spec.faults.with(at(90), Fault::Crash(NodeId(n - 1)));
        let outcome = simulate(&PLAIN, &spec);
        assert_eq!(order(&outcome), [1, 0]);
        let sent = sent_since(&outcome, at(90));
        let (n, a) = (u64::from(n), u64::from(n) - 1);
        let count = |label: &str| sent.get(label).copied().unwrap_or(0);
        assert_eq!(count("Election"), a * (a + 1) / 2);
        assert_eq!(count("Answer"), a * (a - 1) / 2);
        assert_eq!(count("Coordinator"), n - 2);
        // The dead one is told and does not answer.
        assert_eq!((count("NewCoord"), count("Status")), (n - 1, n - 2));
    }
}
