//! What can happen next: each of it can be carried out, and says what it is and what it breaks.

use conclave_algorithms::{catalogue, mutex::ricart_agrawala};
use conclave_check::{Budgets, CheckSpec, NextError, Requests, next};
use conclave_protocol::{Action, Algorithm, Channels, Decision, NodeId, Property, Setup, Topology};
use conclave_sim::{Event, Rng, RunSpec, Then, record, run};

/// A system in which everything may go wrong once.
fn spec(entry: &dyn Algorithm, topology: Topology) -> CheckSpec {
    let setup = Setup::new(topology);
    let clients = entry.clients(&setup).expect("it runs there");
    let mut spec = CheckSpec::new(entry.info(), setup, clients);
    spec.requests = Requests::AtMost(2);
    spec.budgets = Budgets {
        crashes: 1,
        recoveries: 1,
        amnesias: 1,
        losses: 1,
        repeats: 1,
        partitions: 1,
        suspicions: 1,
        ..Budgets::default()
    };
    spec
}

/// A run of the simulator that follows the decisions.
fn following(entry: &dyn Algorithm, spec: &CheckSpec, decisions: Vec<Decision>) -> RunSpec {
    let mut run = RunSpec::new(entry.info(), spec.setup.clone());
    (run.channels, run.decisions) = (spec.channels, Some(decisions));
    run
}

#[test]
fn whatever_can_happen_next_can_be_carried_out_by_the_simulator() {
    let entries = [
        ("mutex/ricart-agrawala", Topology::complete(3)),
        ("mutex/ricart-agrawala-fd", Topology::complete(3)),
        ("mutex/maekawa", Topology::complete(3)),
        ("mutex/raymond-tree", Topology::line(3)),
        ("mutex/token-ring-misra", Topology::ring(3)),
        ("mutex/centralized-failover", Topology::complete(3)),
        ("election/bully-recovery", Topology::complete(3)),
        ("election/chang-roberts", Topology::ring(3)),
        ("fd/heartbeat", Topology::complete(2)),
    ];
    let mut beyond = 0;
    for (id, topology) in entries {
        let entry = catalogue::algorithm(id).expect("it is in the catalogue");
        let spec = spec(entry, topology);
        for seed in 0..4 {
            let (mut rng, mut decisions) = (Rng::new(seed), Vec::new());
            for _ in 0..20 {
                let listed = next(entry, &spec, &decisions).expect("it can be taken again");
                for it in &listed {
                    let all = [&decisions[..], std::slice::from_ref(&it.decision)].concat();
                    let followed = run(entry, &following(entry, &spec, all));
                    assert!(followed.is_ok(), "{id} seed={seed}: {}: {followed:?}", it.words);
                    assert!(!it.words.is_empty());
                    beyond += usize::from(!it.within_model);
                }
                let Some(last) = listed.len().checked_sub(1) else { break };
                let choice = rng.below(last as u64 + 1) as usize;
                decisions.push(listed[choice].decision.clone());
            }
        }
    }
    assert!(beyond > 100, "{beyond} steps go beyond a model");
}

#[test]
fn a_step_says_what_it_is_whether_it_may_be_and_what_it_breaks() {
    let entry = &ricart_agrawala::NO_TIE_BREAK;
    let mut spec = spec(entry, Topology::complete(2));
    (spec.channels, spec.properties) = (Channels::Fifo, vec![Property::Exclusion]);
    spec.budgets.suspicions = 0;
    let mut decisions: Vec<Decision> = Vec::new();
    let words = |decisions: &[Decision]| {
        let listed = next(entry, &spec, decisions).expect("it can be taken again");
        let words = |it: &conclave_check::Next| {
            let breaks: Vec<_> = it.breaks.iter().map(|it| it.property).collect();
            (it.words.clone(), it.within_model, breaks)
        };
        listed.iter().map(words).collect::<Vec<_>>()
    };
    let first = words(&decisions);
    assert!(first.contains(&("p0 asks".to_owned(), true, vec![])), "{first:?}");
    assert!(first.contains(&("p1 crashes".to_owned(), false, vec![])), "{first:?}");
    assert!(first.contains(&("the network falls apart: p0 | p1".to_owned(), false, vec![])));
    let (p0, p1) = (NodeId(0), NodeId(1));
    let deliver = |from, to| Decision::from(Action::Deliver { from, to, place: 0 });
    for node in [p0, p1] {
        decisions.push(Action::Ask { node, request: 0 }.into());
    }
    decisions.extend([deliver(p0, p1), deliver(p1, p0), deliver(p1, p0)]);
    let last = words(&decisions);
    let both = ("p1 gets Reply from p0".to_owned(), true, vec![Property::Exclusion]);
    assert!(last.contains(&both), "{last:?}");
    let lost = ("the network loses Reply from p0 to p1".to_owned(), false, vec![]);
    assert!(last.contains(&lost), "{last:?}");
    let why = next(entry, &spec, &decisions).expect("it can be taken again");
    let why = why.iter().find_map(|it| it.breaks.first()).map(|it| it.why.clone());
    assert_eq!(why.as_deref(), Some("p0 and p1 are inside together"));
    decisions.push(deliver(p1, p0));
    let error = next(entry, &spec, &decisions).expect_err("there is no such message");
    assert!(matches!(error, NextError::Senseless { number: 6, .. }), "{error}");
}

#[test]
fn a_recorded_run_can_be_looked_at_anywhere_and_branched_off() {
    let entry = &ricart_agrawala::PLAIN;
    let mut drawn = RunSpec::new(&entry.info, Setup::new(Topology::complete(3)));
    drawn.workload = conclave_sim::Workload::burst((0..3).map(NodeId), drawn.setup.delay);
    drawn.delays = conclave_sim::Delay::Uniform(drawn.setup.delay / 10, drawn.setup.delay).into();
    let (outcome, decisions) = record(entry, &drawn).expect("it runs");
    let spec = spec(entry, Topology::complete(3));
    for place in 0..decisions.len() {
        let listed = next(entry, &spec, &decisions[..place]).expect("it can be taken again");
        let what = &decisions[place].what;
        assert!(listed.iter().any(|it| it.decision.what == *what), "{place}: {what}");
    }
    // The last message that arrives is lost instead, and the run goes on by itself.
    let deliver = |it: &Decision| matches!(it.what, Action::Deliver { .. });
    let last = decisions.iter().rposition(deliver).expect("messages arrive");
    let mut branch = decisions[..=last].to_vec();
    let Action::Deliver { from, to, place } = branch[last].what else { unreachable!() };
    branch[last].what = Action::Lose { from, to, place };
    let spec = RunSpec { decisions: Some(branch), then: Then::Continue, ..drawn };
    let branched = run(entry, &spec).expect("it runs");
    assert_eq!(branched.trace, run(entry, &spec).expect("it runs").trace);
    assert_eq!(branched.stats.entered + 1, outcome.stats.entered, "it waits for ever");
    let lost = |event: Event| matches!(event, Event::Lose { .. });
    assert_eq!(branched.trace.records.iter().filter(|it| lost(it.event())).count(), 1);
}
