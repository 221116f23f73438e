//! Step by step, everything is reached that the search visits.

use std::collections::{BTreeSet, VecDeque};

use conclave_algorithms::mutex::{raymond_tree, ricart_agrawala};
use conclave_protocol::{Channels, Setup, Topology};

use super::*;
use crate::{Progress, Requests};

/// States and transitions as the search counts them, and step by step.
fn counts(entry: &dyn Algorithm, spec: &CheckSpec) -> [(usize, usize); 2] {
    let report = crate::check(entry, spec, &Progress::default()).expect("it can be checked");
    assert!(!report.coverage.reduced, "every transition counts");
    let searched = (report.coverage.states as usize, report.coverage.transitions as usize);
    let explorer = Explorer::new(entry, spec, &[], false).expect("it can be checked");
    let first = explorer.begin();
    let (mut seen, mut steps) = (BTreeSet::from([first.state.clone()]), 0);
    let mut queue = VecDeque::from([first]);
    while let Some(walk) = queue.pop_front() {
        for (decision, after) in explorer.reached(&walk) {
            steps += 1;
            if seen.insert(after.state.clone()) {
                // What is listed can be taken, and leads there.
                let taken = explorer.take(&walk, &decision).expect("it is listed");
                assert_eq!(taken.state, after.state, "{decision:?}");
                queue.push_back(after);
            }
        }
    }
    [searched, (seen.len(), steps)]
}

fn spec(entry: &dyn Algorithm, topology: Topology) -> CheckSpec {
    let nodes = topology.len();
    let mut spec = CheckSpec::new(entry.info(), Setup::new(topology), 0..nodes);
    (spec.reduction, spec.properties) = (false, vec![Property::Exclusion]);
    spec
}

#[test]
fn what_can_happen_next_leads_to_every_state_of_the_search_by_every_transition() {
    let entry = &ricart_agrawala::BARE_REPLY;
    let mut plain = spec(entry, Topology::complete(3));
    plain.channels = Channels::Fifo;
    let [searched, stepped] = counts(entry, &plain);
    assert_eq!((searched, stepped), ((2_049, 5_488), (2_049, 5_488)));
    let entry = &ricart_agrawala::PLAIN;
    let mut faulty = spec(entry, Topology::complete(2));
    // Nothing that the faults break, lest the search stops there.
    faulty.properties = vec![Property::Accuracy];
    faulty.budgets = Budgets {
        crashes: 1,
        recoveries: 1,
        losses: 1,
        repeats: 1,
        partitions: 1,
        mid_step: true,
        ..Budgets::default()
    };
    let [searched, stepped] = counts(entry, &faulty);
    assert!(searched == stepped && searched.0 > 1_000, "{searched:?} {stepped:?}");
    let entry = &raymond_tree::PLAIN;
    let mut twice = spec(entry, Topology::line(3));
    (twice.requests, twice.channels) = (Requests::AtMost(2), Channels::Reliable);
    let [searched, stepped] = counts(entry, &twice);
    assert!(searched == stepped && searched.0 > 100, "{searched:?} {stepped:?}");
}
