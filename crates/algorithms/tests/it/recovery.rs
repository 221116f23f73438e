//! Nodes that come back after a crash: what they are restored to, and what that costs.

use conclave_algorithms::snapshot::{checkpoint_restart, publishing};
use conclave_protocol::{Algorithm, NodeId, Property, Setup, Time, Topology};
use conclave_sim::{
    Arrivals, Ask, Costs, Event, Fault, Outcome, RunSpec, Tracing, Verdict, Workload,
};

use crate::support::{T, at, random_spec, simulate, tenths, verdict};

/// A run of the bank in which `asks` has snapshots taken at these times, and nodes crash and come back.
fn bank(
    entry: &dyn Algorithm,
    n: u32,
    ask: Option<(u32, u64)>,
    crashes: &[(u32, u32, u32)],
) -> RunSpec {
    let mut spec = RunSpec::new(entry.info(), Setup::new(Topology::complete(n)));
    let asks = ask.map(|(node, when)| Ask { node: NodeId(node), at: at(when), hold: None });
    let arrivals = Arrivals::Plan(asks.into_iter().collect());
    spec.workload = Workload { arrivals, ..Workload::idle() };
    for &(node, down, up) in crashes {
        let (node, faults) = (NodeId(node), std::mem::take(&mut spec.faults));
        let faults = faults.with(tenths(down), Fault::Crash(node));
        spec.faults = faults.with(tenths(up), Fault::Recover(node));
    }
    (spec.tracing, spec.until) = (Tracing::Full, at(2_000));
    assert_eq!(spec.beyond(entry.info()), []);
    spec
}

fn count(outcome: &Outcome, label: &str) -> u64 {
    Costs::of(&outcome.trace).by_label.get(label).copied().unwrap_or(0)
}

#[test]
fn publishing_costs_two_messages_more_for_each_of_the_application() {
    let entry = &publishing::PLAIN;
    for n in 3..7 {
        let mut spec = bank(entry, n, None, &[]);
        spec.setup = spec.setup.with("checkpoint", 0);
        let outcome = simulate(entry, &spec);
        let timers = outcome.trace.records.iter();
        let timers = timers.filter(|it| matches!(it.event(), Event::Timer { .. })).count() as u64;
        let transfers = count(&outcome, "Transfer");
        assert!(transfers > 0 && timers > 0);
        assert_eq!(count(&outcome, "Publish"), transfers + timers);
        assert_eq!(count(&outcome, "Recorded"), transfers + timers);
        assert_eq!(Costs::of(&outcome.trace).messages, 3 * transfers + 2 * timers);
    }
}

#[test]
fn published_processes_come_back_as_they_were_as_long_as_the_recorder_is_up() {
    let entry = &publishing::PLAIN;
    for seed in 0..60 {
        let n = 3 + (seed % 4) as u32;
        let mut spec = random_spec(entry, Setup::new(Topology::complete(n)), seed);
        for node in 0..n - 1 {
            let down = Time::ZERO + T * ((seed as u32 * 7 + node * 3) % 60) / 10;
            spec.faults = std::mem::take(&mut spec.faults)
                .with(down, Fault::Crash(NodeId(node)))
                .with(down + T * (1 + node), Fault::Recover(NodeId(node)));
        }
        let outcome = simulate(entry, &spec);
        for property in [Property::Restored, Property::Recovers, Property::Conserved] {
            assert_eq!(verdict(property, &outcome, 1), Verdict::Held, "seed={seed} {property}");
        }
    }
}

#[test]
fn a_snapshot_restores_what_it_recorded_and_publishing_what_there_was() {
    let restart = &checkpoint_restart::PLAIN;
    let outcome = simulate(restart, &bank(restart, 3, Some((0, 1)), &[(1, 75, 90)]));
    let says = |property| verdict(property, &outcome, 1);
    assert_eq!(says(Property::Resumed), Verdict::Held);
    assert_eq!(says(Property::Conserved), Verdict::Held);
    assert_eq!(says(Property::Sum), Verdict::Held);
    assert!(says(Property::Restored).is_violated(), "the work since then is lost");

    let published = &publishing::PLAIN;
    let outcome = simulate(published, &bank(published, 3, Some((2, 3)), &[(1, 75, 90)]));
    assert_eq!(verdict(Property::Restored, &outcome, 1), Verdict::Held);
    assert_eq!(verdict(Property::Sum, &outcome, 1), Verdict::Held);
}

#[test]
fn without_a_snapshot_a_restart_begins_at_the_beginning() {
    let entry = &checkpoint_restart::PLAIN;
    let outcome = simulate(entry, &bank(entry, 3, None, &[(2, 25, 40)]));
    for property in [Property::Resumed, Property::Conserved] {
        assert_eq!(verdict(property, &outcome, 1), Verdict::Held, "{property}");
    }
    assert!(matches!(verdict(Property::Sum, &outcome, 1), Verdict::Vacuous { .. }));
}
