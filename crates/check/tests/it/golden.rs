//! The counts on which several checkers agree, and what makes them smaller.

use conclave_algorithms::mutex::ricart_agrawala::{
    BARE_REPLY, NO_TIE_BREAK, PLAIN, RicartAgrawala,
};
use conclave_algorithms::mutex::suzuki_kasami;
use conclave_check::{CheckSpec, Progress, Report, Stop, Verdict, hunt};
use conclave_protocol::{Channels, Entry, Property, Setup, Topology};

fn spec<P: conclave_protocol::Protocol>(entry: &Entry<P>, nodes: u32, requests: u32) -> CheckSpec {
    let setup = Setup::new(Topology::complete(nodes));
    CheckSpec {
        requests: requests.into(),
        channels: Channels::Fifo,
        properties: vec![Property::Exclusion],
        reduction: false,
        ..CheckSpec::new(&entry.info, setup, 0..nodes)
    }
}

fn check(entry: &Entry<RicartAgrawala>, spec: &CheckSpec) -> Report {
    let report = conclave_check::check(entry, spec, &Progress::default());
    report.expect("it can be checked")
}

/// States and transitions of the full graph of Ricart–Agrawala with bare replies, with links in
/// order and one step for each event. Others count the initial state as a transition, too.
#[test]
fn ricart_agrawala_has_as_many_states_as_other_checkers_find() {
    let counts = [(3, 1, 2_049, 5_488), (3, 2, 25_674, 71_372), (4, 1, 1_402_298, 7_398_198)];
    for (nodes, requests, states, transitions) in counts {
        for threads in [1, 2] {
            let mut spec = spec(&BARE_REPLY, nodes, requests);
            spec.limits.threads = threads;
            let report = check(&BARE_REPLY, &spec);
            assert_eq!(report.verdict(Property::Exclusion), Some(&Verdict::Holds));
            let coverage = &report.coverage;
            assert_eq!((coverage.states, coverage.transitions), (states, transitions));
            assert!(coverage.stop.is_none() && !coverage.reduced);
        }
    }
}

#[test]
fn reduction_visits_the_same_states_by_less_than_half_the_transitions() {
    let full = check(&BARE_REPLY, &spec(&BARE_REPLY, 3, 2)).coverage;
    let mut reduced = spec(&BARE_REPLY, 3, 2);
    reduced.reduction = true;
    for threads in [1, 2] {
        reduced.limits.threads = threads;
        let reduced = check(&BARE_REPLY, &reduced).coverage;
        assert!(reduced.reduced);
        assert_eq!(reduced.states, full.states);
        assert_eq!((reduced.depth, reduced.terminal), (full.depth, full.terminal));
        assert!(reduced.transitions * 2 < full.transitions, "{}", reduced.transitions);
    }
}

#[test]
fn the_missing_tie_break_is_shown_in_fourteen_steps() {
    for reduction in [false, true] {
        let mut spec = spec(&NO_TIE_BREAK, 4, 2);
        spec.reduction = reduction;
        let report = check(&NO_TIE_BREAK, &spec);
        let (property, violation) = report.violations().next().expect("it is found");
        assert_eq!((property, violation.decisions.len()), (Property::Exclusion, 14));
        assert_eq!(violation.why, "p0 and p1 are inside together");
    }
}

#[test]
fn a_quick_look_finds_it_at_once() {
    let (spec, progress) = (spec(&NO_TIE_BREAK, 3, 2), Progress::default());
    let prey = hunt(&NO_TIE_BREAK, &spec, 1, &progress);
    let (property, violation) = prey.expect("it can be checked").expect("it is easily found");
    assert_eq!(property, Property::Exclusion);
    assert!(violation.decisions.len() >= 10, "the shortest has ten steps");
}

#[test]
fn a_search_stops_where_it_is_told_and_says_what_it_has_covered() {
    let mut spec = spec(&BARE_REPLY, 4, 1);
    spec.limits.memory = 4 << 20;
    let coverage = check(&BARE_REPLY, &spec).coverage;
    assert_eq!(coverage.stop, Some(Stop::Memory));
    assert!(coverage.bytes <= (4 << 20) + 100_000 && coverage.states > 10_000, "{coverage:?}");
    spec.limits.depth = Some(7);
    let report = check(&BARE_REPLY, &spec);
    assert_eq!(report.coverage.stop, Some(Stop::Depth));
    assert_eq!(report.coverage.depth, 7);
    assert_eq!(report.verdict(Property::Exclusion), Some(&Verdict::Open));
    spec.limits.depth = None;
    spec.limits.states = Some(1_000);
    let coverage = check(&BARE_REPLY, &spec).coverage;
    assert_eq!(coverage.stop, Some(Stop::States));
    assert!((1_000..10_000).contains(&coverage.states));
}

#[test]
fn messages_of_an_entry_are_counted_over_all_runs() {
    let counted = |mut spec: CheckSpec| {
        spec.count = true;
        spec
    };
    let report = check(&PLAIN, &counted(spec(&PLAIN, 3, 1)));
    let messages = report.messages.expect("they were counted");
    assert_eq!(messages.of_node, [(0, 4, Some(4)), (1, 4, Some(4)), (2, 4, Some(4))]);
    assert_eq!(messages.whole, (12, Some(12)));
    // The holder of the token enters for nothing; another takes a request to all and the token.
    let entry = &suzuki_kasami::PLAIN;
    let spec = counted(spec(entry, 3, 1));
    let report = conclave_check::check(entry, &spec, &Progress::default());
    let messages = report.expect("it can be checked").messages.expect("they were counted");
    assert_eq!(messages.of_node, [(0, 0, Some(3)), (1, 3, Some(3)), (2, 3, Some(3))]);
}
