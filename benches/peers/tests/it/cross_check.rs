//! Our model checker against Stateright: the same states, transitions, depths and verdicts.

use conclave_algorithms::catalogue;
use conclave_check::{CheckError, CheckSpec, Progress, Report, Timers, Verdict};
use conclave_peers::reference::{NO_TIE_BREAK, REFERENCE, Reference};
use conclave_peers::{Counts, count};
use conclave_protocol::{Channels, Entry, Info, Property, Setup, Topology};

/// Sizes: nodes and requests of each.
type Sizes = &'static [(u32, u32)];

/// What is compared, and with which sizes, on FIFO links and on bags.
const COMPARED: &[(&str, Sizes, Sizes)] = &[
    ("oracle/ricart-agrawala", &[(2, 1), (3, 1), (3, 2)], &[(2, 1), (3, 1)]),
    ("oracle/ra-no-tie-break", &[(2, 1), (3, 1), (3, 2)], &[(2, 1), (3, 1)]),
    ("mutex/centralized", &[(2, 2), (3, 2)], &[(2, 2), (3, 2)]),
    ("mutex/centralized-token", &[(2, 2), (3, 2)], &[(2, 2), (3, 2)]),
    ("mutex/centralized-timestamped", &[(2, 2), (3, 2)], &[(2, 2), (3, 2)]),
    ("mutex/lamport", &[(2, 1), (2, 2), (3, 1)], &[(2, 1), (2, 2)]),
    ("mutex/lamport-ack-suppression", &[(2, 1), (2, 2), (3, 1)], &[(2, 1), (2, 2)]),
    ("mutex/ricart-agrawala", &[(2, 2), (3, 1), (3, 2)], &[(2, 2), (3, 1)]),
    ("mutex/ricart-agrawala-bare-reply", &[(2, 2), (3, 1), (3, 2)], &[(2, 2), (3, 1)]),
    ("mutex/ra-notify-one", &[(2, 2), (3, 1)], &[(2, 2), (3, 1)]),
    ("mutex/ra-no-tie-break", &[(2, 1), (3, 1), (3, 2)], &[(2, 1), (3, 1)]),
    ("mutex/roucairol-carvalho", &[(2, 2), (3, 2)], &[(2, 2), (3, 2)]),
    ("mutex/ricart-agrawala-token", &[(2, 2), (3, 1)], &[(2, 2), (3, 1)]),
    ("mutex/maekawa", &[(2, 2), (3, 2)], &[(2, 2), (3, 2)]),
    ("mutex/maekawa-literal-003", &[(2, 1), (3, 1)], &[(2, 1), (3, 1)]),
    ("mutex/maekawa-sanders", &[(2, 2), (3, 2)], &[(2, 2), (3, 1)]),
    ("mutex/raymond-k", &[(3, 1)], &[(3, 1)]),
    ("mutex/token-ring", &[(2, 2), (3, 2)], &[(2, 2), (3, 2)]),
    ("mutex/token-ring-on-demand", &[(2, 2), (3, 2)], &[(2, 2), (3, 1)]),
    ("mutex/suzuki-kasami", &[(2, 2), (3, 2)], &[(2, 2), (3, 1)]),
    ("mutex/raymond-tree", &[(2, 2), (3, 2)], &[(2, 2), (3, 2)]),
    ("mutex/naimi-trehel", &[(2, 2), (3, 2)], &[(2, 2), (3, 2)]),
    ("election/bully", &[(2, 1)], &[(2, 1)]),
];

#[test]
fn on_fifo_links_both_checkers_see_the_same() {
    for &(id, sizes, _) in COMPARED {
        for &(nodes, requests) in sizes {
            compare(id, nodes, requests, false);
        }
    }
}

#[test]
fn on_links_that_reorder_both_checkers_see_the_same() {
    for &(id, _, sizes) in COMPARED {
        for &(nodes, requests) in sizes {
            compare(id, nodes, requests, true);
        }
    }
}

fn compare(id: &str, nodes: u32, requests: u32, bag: bool) {
    let theirs = count(id, nodes, requests, bag, 1);
    let what = format!("{id}, {nodes} nodes, {requests} requests, bag {bag}");

    // With nothing to violate, a search goes on to the end.
    let mut spec = spec(id, nodes, requests, bag);
    for threads in [1, 2] {
        spec.limits.threads = threads;
        let whole = run(&spec);
        assert_eq!(ours(&whole, theirs.violated), theirs, "{what}, {threads} threads");
    }

    for reduction in [false, true] {
        (spec.reduction, spec.properties) = (reduction, vec![Property::Exclusion]);
        let judged = run(&spec);
        let verdict = judged.verdict(Property::Exclusion).expect("it was to be checked");
        let violated = matches!(verdict, Verdict::Violated(_));
        assert_eq!(violated, theirs.violated, "{what}, reduction {reduction}: {verdict:?}");
        if !violated {
            let (states, transitions) = (judged.coverage.states, judged.coverage.transitions);
            assert_eq!(states, theirs.distinct as u64, "{what}, reduction {reduction}");
            assert!(transitions < theirs.generated as u64, "{what}, reduction {reduction}");
        }
    }
}

/// What we have counted, as Stateright counts: with the state in which a run begins.
fn ours(report: &Report, violated: bool) -> Counts {
    assert_eq!(report.coverage.stop, None);
    Counts {
        distinct: report.coverage.states as usize,
        generated: report.coverage.transitions as usize + 1,
        depth: report.coverage.depth as usize + 1,
        violated,
    }
}

/// The whole graph, without faults, as the adapter explores it.
fn spec(id: &str, nodes: u32, requests: u32, bag: bool) -> CheckSpec {
    let info: &Info = match reference(id) {
        Some(entry) => &entry.info,
        None => catalogue::find(id).expect("it is in the catalogue"),
    };
    let setup = Setup::new(Topology::of(info.model.links, nodes));
    let clients = match conclave_lab::clients(id, &setup) {
        Some(clients) => clients.expect("it fits"),
        None => 0..nodes,
    };
    CheckSpec {
        requests: requests.into(),
        channels: if bag { Channels::Reliable } else { Channels::Fifo },
        timers: Timers::Anytime,
        detector: false,
        properties: Vec::new(),
        reduction: false,
        ..CheckSpec::new(info, setup, clients)
    }
}

fn run(spec: &CheckSpec) -> Report {
    let progress = Progress::default();
    let report: Result<Report, CheckError> = match reference(&spec.algorithm) {
        Some(entry) => conclave_check::check(entry, spec, &progress),
        None => conclave_lab::check(spec, &progress).expect("it is in the catalogue"),
    };
    report.unwrap_or_else(|error| panic!("{}: {error}", spec.algorithm))
}

/// The entry of the reference model called `id`, if it is one.
fn reference(id: &str) -> Option<&'static Entry<Reference>> {
    [&REFERENCE, &NO_TIE_BREAK].into_iter().find(|entry| entry.info.id == id)
}
