//! States that differ in names only, explored once: where that is right, and where it is refused.

use conclave_algorithms::election::bully;
use conclave_algorithms::mutex::{centralized, lamport, naimi_trehel, ricart_agrawala};
use conclave_algorithms::mutex::{suzuki_kasami, token_ring};
use conclave_check::{Budgets, CheckError, CheckSpec, Progress, Report, Verdict, check};
use conclave_protocol::{Algorithm, Property, Setup, Topology};
use conclave_sim::{End, RunSpec, Tracing};

fn spec(entry: &dyn Algorithm, topology: Topology) -> CheckSpec {
    let setup = Setup::new(topology);
    let clients = entry.clients(&setup).expect("it runs in such a system");
    CheckSpec::new(entry.info(), setup, clients)
}

fn explore(entry: &dyn Algorithm, spec: &CheckSpec) -> Report {
    check(entry, spec, &Progress::default()).expect("it can be checked")
}

fn refusal(entry: &dyn Algorithm, spec: &CheckSpec) -> CheckError {
    let spec = CheckSpec { symmetry: true, ..spec.clone() };
    check(entry, &spec, &Progress::default()).expect_err("it is refused")
}

/// What was said, with the lengths of the runs that show violations.
fn said(report: &Report) -> Vec<(Property, Option<usize>)> {
    let length = |verdict: &Verdict| match verdict {
        Verdict::Violated(violation) => Some(violation.decisions.len()),
        Verdict::Open => panic!("the search has come to its end"),
        _ => None,
    };
    report.verdicts.iter().map(|it| (it.property, length(&it.verdict))).collect()
}

/// Checks with renaming and without; returns how many states there are each way.
fn both_ways(entry: &dyn Algorithm, spec: &CheckSpec) -> [u64; 2] {
    let plain = CheckSpec { symmetry: false, reduction: false, ..spec.clone() };
    let renaming = CheckSpec { symmetry: true, ..spec.clone() };
    let [plain, renaming] = [plain, renaming].map(|spec| explore(entry, &spec));
    assert_eq!(said(&plain), said(&renaming), "{}", entry.info().id);
    // The first state need not look the same under all names, so some are nearer under others.
    assert!(renaming.coverage.depth <= plain.coverage.depth, "{}", entry.info().id);
    assert!(renaming.coverage.symmetric && !plain.coverage.symmetric);
    [plain, renaming].map(|report| report.coverage.states)
}

const SAFETY: [Property; 2] = [Property::Exclusion, Property::FenceOrder];

#[test]
fn clients_of_a_coordinator_are_alike() {
    let mut spec = spec(&centralized::PLAIN, Topology::complete(4));
    assert_eq!(both_ways(&centralized::PLAIN, &spec), [180, 40]);
    spec.requests = 2.into();
    let [plain, renaming] = both_ways(&centralized::PLAIN, &spec);
    assert!(renaming * 5 < plain, "{plain} and {renaming}: three clients have six orders");
}

#[test]
fn clients_stay_alike_when_things_go_wrong() {
    let entry = &centralized::PLAIN;
    let mut spec = spec(entry, Topology::complete(4));
    spec.properties = SAFETY.to_vec();
    let crash = Budgets { crashes: 1, recoveries: 1, ..Budgets::default() };
    let links = Budgets { losses: 1, repeats: 1, ..Budgets::default() };
    let apart = Budgets { partitions: 1, ..Budgets::default() };
    for budgets in [crash, links, apart] {
        spec.budgets = budgets;
        let [plain, renaming] = both_ways(entry, &spec);
        assert!(renaming * 4 < plain, "{budgets:?}: {plain} and {renaming}");
    }
}

#[test]
fn a_ring_looks_the_same_from_everywhere() {
    let mut spec = spec(&token_ring::PLAIN, Topology::ring(4));
    spec.properties = SAFETY.to_vec();
    assert_eq!(both_ways(&token_ring::PLAIN, &spec), [432, 108]);
}

#[test]
fn of_endless_runs_nothing_is_said() {
    let mut spec = spec(&token_ring::PLAIN, Topology::ring(3));
    spec.properties = vec![Property::NoStarvation];
    let refusal = refusal(&token_ring::PLAIN, &spec);
    let CheckError::Contradiction(why) = refusal else { panic!("{refusal}") };
    assert!(why.starts_with("there are endless runs"), "{why}");
}

#[test]
fn who_forgets_names_sends_the_token_anywhere() {
    let entry = &naimi_trehel::PLAIN;
    let spec = spec(entry, Topology::complete(4));
    assert_eq!(both_ways(entry, &spec), [1476, 247]);
}

#[test]
fn what_is_left_of_a_group_is_used() {
    // The token is offered round the ring of ids, so that only turning the ring does not matter.
    let entry = &suzuki_kasami::PLAIN;
    let spec = spec(entry, Topology::complete(3));
    assert_eq!(both_ways(entry, &spec), [725, 589]);
}

#[test]
fn a_counter_example_is_as_short_and_a_real_run() {
    let entry = &ricart_agrawala::NO_TIE_BREAK;
    for (nodes, requests, orders) in [(2, 1, 2), (2, 2, 2), (3, 1, 6)] {
        let mut spec = spec(entry, Topology::complete(nodes));
        spec.properties = vec![Property::Exclusion];
        spec.requests = requests.into();
        let [plain, renaming] = both_ways(entry, &spec);
        assert!(renaming * orders * 3 < plain * 4, "{nodes}: {plain} and {renaming}");
        spec.symmetry = true;
        let report = explore(entry, &spec);
        let (_, violation) = report.violations().next().expect("it breaks");
        let mut run = RunSpec::new(&entry.info, spec.setup.clone());
        run.tracing = Tracing::Full;
        run.decisions = Some(violation.decisions.clone());
        let outcome = conclave_sim::run(entry, &run).expect("it runs");
        assert_eq!(outcome.trace.end, End::Decisions);
        let verdict = conclave_sim::judge(Property::Exclusion, &outcome.trace, Default::default());
        let conclave_sim::Verdict::Violated { .. } = verdict else { panic!("{verdict:?}") };
    }
}

#[test]
fn several_threads_find_the_same() {
    let entry = &naimi_trehel::PLAIN;
    let mut spec = spec(entry, Topology::complete(4));
    spec.limits.threads = 2;
    assert_eq!(both_ways(entry, &spec), [1476, 247]);
}

/// Why an algorithm is not symmetric.
fn reason(entry: &dyn Algorithm, property: Property) -> String {
    let mut spec = spec(entry, Topology::complete(3));
    spec.properties = vec![property];
    match refusal(entry, &spec) {
        CheckError::NotSymmetric { algorithm, why } => {
            assert_eq!(algorithm, entry.info().id);
            why
        }
        other => panic!("{other}"),
    }
}

#[test]
fn where_ids_break_ties_it_is_refused_with_the_step_that_does() {
    assert_eq!(
        reason(&ricart_agrawala::PLAIN, Property::Exclusion),
        "p2, waiting, upon Request from p1 sends Reply to p1; with p1 and p2 exchanged, \
         p1, waiting, upon Request from p2 sends nothing"
    );
    assert_eq!(
        reason(&lamport::PLAIN, Property::Exclusion),
        "p2, waiting, upon Ack from p1 sends nothing; with p1 and p2 exchanged, \
         p1, waiting, upon Ack from p2 enters"
    );
    assert_eq!(
        reason(&bully::PLAIN, Property::OneLeaderPerEpoch),
        "p0 asked for Campaign sends Election to p1 and p2; with p0 and p1 exchanged, \
         p1 asked for Campaign sends Election to p2"
    );
}

#[test]
fn tokens_made_of_ids_tell_nodes_apart_only_if_they_are_watched() {
    let entry = &ricart_agrawala::NO_TIE_BREAK;
    let why = reason(entry, Property::FenceOrder);
    assert!(why.contains("enters with token"), "{why}");
    let mut spec = spec(entry, Topology::complete(3));
    spec.properties = vec![Property::Exclusion];
    assert!(both_ways(entry, &spec).is_sorted_by(|a, b| a > b));
}

#[test]
fn what_is_said_about_names_or_counted_by_them_is_refused() {
    let mut spec = spec(&bully::PLAIN, Topology::complete(3));
    spec.properties = vec![Property::BestLeads];
    let refused = refusal(&bully::PLAIN, &spec);
    assert!(matches!(refused, CheckError::Contradiction(_)), "{refused}");
    (spec.properties, spec.count) = (vec![Property::OneLeaderPerEpoch], true);
    let refused = refusal(&bully::PLAIN, &spec);
    assert!(matches!(refused, CheckError::Contradiction(_)), "{refused}");
}

#[test]
fn two_nodes_of_which_one_asks_cannot_change_places() {
    let entry = &centralized::PLAIN;
    let spec = spec(entry, Topology::complete(2));
    let refused = refusal(entry, &spec);
    let CheckError::NotSymmetric { why, .. } = refused else { panic!("{refused}") };
    assert_eq!(why, "its links and who asks tell all nodes apart (complete of 2)");
}
