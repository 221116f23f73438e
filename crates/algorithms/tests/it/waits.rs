//! Whom a node says that it waits for: no node unless it waits, and each of them has to send it
//! something before it enters.

use std::collections::BTreeMap;

use crate::support::{random_spec, simulate, topology};
use conclave_algorithms::catalogue;
use conclave_protocol::{NodeId, NodeSet, Observation, Setup};
use conclave_sim::{Event, Trace, Tracing};

/// The algorithms that say whom their nodes wait for.
const SAY: [&str; 9] = [
    "mutex/ricart-agrawala",
    "mutex/ricart-agrawala-multicast",
    "mutex/lamport",
    "mutex/lamport-ack-suppression",
    "mutex/maekawa",
    "mutex/maekawa-ts-queue",
    "mutex/centralized",
    "mutex/centralized-token",
    "mutex/centralized-timestamped",
];

#[test]
fn whom_a_node_waits_for_has_to_send_it_something_before_it_enters() {
    for id in SAY {
        let entry = catalogue::algorithm(id).expect("it is in the catalogue");
        let mut waits = 0;
        for seed in 0..40 {
            let setup = Setup::new(topology(entry, 2 + (seed % 5) as u32, seed));
            let mut spec = random_spec(entry, setup, seed);
            spec.tracing = Tracing::Full;
            waits += follow(&simulate(entry, &spec).trace, &format!("{id} seed={seed}"));
        }
        assert!(waits > 100, "{id}: {waits} waits");
    }
}

/// Checks every wait of a run; returns how many there are.
fn follow(trace: &Trace, run: &str) -> usize {
    let mut waits = 0;
    // Of each node that waits: whom it has said it waits for and has not heard from since, by step.
    let mut waiting: BTreeMap<NodeId, Vec<NodeSet>> = BTreeMap::new();
    let steps: Vec<usize> = trace.states.keys().copied().collect();
    for (place, &begun) in steps.iter().enumerate() {
        let node = trace.records[begun].node;
        let what = format!("{run}, event {begun} at {node}");
        let event = trace.records[begun].event();
        if let Event::Request(Observation::Asked) = event {
            waiting.insert(node, Vec::new());
        }
        if let (Event::Deliver { from, .. }, Some(said)) = (event, waiting.get_mut(&node)) {
            for whom in said {
                whom.remove(from);
            }
        }
        let end = steps.get(place + 1).copied().unwrap_or(trace.records.len());
        let entered = |record: usize| {
            let event = trace.records[record].event();
            trace.records[record].node == node
                && matches!(event, Event::Notice(Observation::Entered { .. }))
        };
        let says = trace.steps.get(&begun).map(|step| step.waits.clone()).unwrap_or_default();
        if (begun..end).any(entered) {
            let said = waiting.remove(&node).expect("it has asked");
            let silent = said.iter().find(|whom| !whom.is_empty());
            assert_eq!(silent, None, "{what}: it entered without having heard from these");
            assert!(says.is_empty(), "{what}: inside, it waits for {says:?}");
            waits += 1;
        } else if let Some(said) = waiting.get_mut(&node) {
            assert!(!says.is_empty() && !says.contains(node), "{what}: it waits for {says:?}");
            said.push(says);
        } else {
            assert!(says.is_empty(), "{what}: it has not asked, and waits for {says:?}");
        }
    }
    waits
}
