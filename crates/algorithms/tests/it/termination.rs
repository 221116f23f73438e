//! Finding the end of a work, step by step.

use crate::support::{T, at, simulate};
use conclave_algorithms::catalogue;
use conclave_algorithms::termination::{dijkstra_scholten, safra};
use conclave_protocol::{Algorithm, NodeId, Property, Setup, Topology};
use conclave_sim::{
    Costs, Delay, Event, Fault, JudgeLimits, Outcome, RunSpec, TraceFile, Tracing, Verdict, judge,
};

const BOTH: [Property; 2] = [Property::Sound, Property::Reported];

fn work(entry: &dyn Algorithm, n: u32, set: &[(&str, u32)], seed: u64) -> RunSpec {
    let setup = Setup::new(Topology::complete(n));
    let setup = set.iter().fold(setup, |setup, (name, value)| setup.with(name, value));
    let mut spec = RunSpec::new(entry.info(), setup);
    (spec.seed, spec.linger, spec.tracing) = (seed, None, Tracing::Full);
    spec.delays = Delay::Uniform(T / 20, T).into();
    spec
}

fn verdict(entry: &dyn Algorithm, spec: &RunSpec, outcome: &Outcome, it: Property) -> Verdict {
    judge(it, &outcome.trace, JudgeLimits::of(entry.info(), spec, &outcome.trace))
}

/// How many messages of a name are sent after the last fact has become true.
fn afterwards(outcome: &Outcome, name: &str) -> u32 {
    let mut sent = 0;
    for record in &outcome.trace.records {
        match record.event() {
            Event::Facts(_) => sent = 0,
            Event::Send { label, .. } if outcome.trace.name(label) == name => sent += 1,
            _ => {}
        }
    }
    sent
}

#[test]
fn the_token_makes_three_rounds_less_two_hops_at_most_when_the_work_is_done_and_sometimes_as_many()
{
    for n in 2..=6 {
        let mut most = 0;
        for seed in 0..600 {
            let set = [("busy", 1 + seed as u32 % n), ("work", 1 + seed as u32 % 5)];
            let spec = work(&safra::PLAIN, n, &set, seed);
            let outcome = simulate(&safra::PLAIN, &spec);
            most = most.max(afterwards(&outcome, "Token"));
        }
        assert_eq!(most, 3 * n - 2, "{n} nodes");
    }
}

#[test]
fn each_message_of_the_work_is_signalled_for_once_however_it_spreads() {
    for seed in 0..60 {
        let messages = seed as u32 % 13;
        let spec = work(&dijkstra_scholten::PLAIN, 4, &[("work", messages)], seed);
        let costs = Costs::of(&simulate(&dijkstra_scholten::PLAIN, &spec).trace);
        let count = |name| costs.by_label.get(name).copied().unwrap_or(0);
        assert_eq!((count("Work"), count("Signal")), (messages.into(), messages.into()));
    }
}

#[test]
fn a_lost_message_is_never_taken_for_one_that_has_arrived() {
    for (entry, control) in
        [(&dijkstra_scholten::PLAIN as &dyn Algorithm, "Signal"), (&safra::PLAIN, "Token")]
    {
        for label in ["Work", control] {
            let mut spec = work(entry, 3, &[("work", 3)], 1);
            spec.faults = spec.faults.with(at(0), Fault::Lose { label: label.to_owned() });
            assert!(!spec.beyond(entry.info()).is_empty(), "no message is lost in its model");
            // The token goes round for ever.
            spec.until = at(400);
            let outcome = simulate(entry, &spec);
            assert_eq!(Costs::of(&outcome.trace).lost, 1);
            let sound = verdict(entry, &spec, &outcome, Property::Sound);
            assert!(matches!(sound, Verdict::Vacuous { .. }), "{label}: {sound:?}");
            let Verdict::Violated { why, .. } = verdict(entry, &spec, &outcome, Property::Reported)
            else {
                panic!("{label}: it is over, and was not reported")
            };
            assert_eq!(why, "so, and never reported: terminated");
        }
    }
}

#[test]
fn a_work_that_begins_in_several_places_has_no_tree() {
    let setup = Setup::new(Topology::complete(3)).with("busy", 2);
    let unfit = (dijkstra_scholten::PLAIN.config)(&setup).expect_err("there are two roots");
    assert!(unfit.to_string().contains("begin at one node"));
    assert!((safra::PLAIN.config)(&setup).is_ok());
    let unfit = (safra::PLAIN.config)(&setup.with("busy", 4)).expect_err("there are three nodes");
    assert!(unfit.to_string().contains("1 to 3"));
}

#[test]
fn a_trace_file_alone_is_enough_to_judge_what_was_reported() {
    let ids = catalogue::infos().filter(|info| info.family() == safra::PLAIN.info.family());
    let mut refuted = 0;
    for info in ids {
        let entry = catalogue::algorithm(info.id).expect("it is in the catalogue");
        let mut wrong = 0;
        for seed in 0..40 {
            let spec = work(entry, 4, &[("work", 6)], seed);
            let outcome = simulate(entry, &spec);
            let text = TraceFile::new(&spec, &outcome).to_text();
            assert!(text.contains(r#""note":{"what":"reports""#) && text.contains("facts"));
            let read = TraceFile::parse(&text).expect("it was just written");
            let read = read.trace().expect("it makes sense");
            for property in BOTH {
                let found = verdict(entry, &spec, &outcome, property);
                let limits = JudgeLimits::of(info, &spec, &outcome.trace);
                assert_eq!(judge(property, &read, limits), found);
                wrong += u32::from(found.is_violated());
            }
        }
        assert!(wrong == 0 || info.mutant.is_some(), "{}", info.id);
        refuted += wrong;
    }
    assert!(refuted > 0);
}

#[test]
fn the_first_node_is_alone_and_finds_the_end_by_itself() {
    for entry in [&dijkstra_scholten::PLAIN as &dyn Algorithm, &safra::PLAIN] {
        let spec = work(entry, 1, &[("work", 3)], 0);
        let outcome = simulate(entry, &spec);
        for property in BOTH {
            assert_eq!(verdict(entry, &spec, &outcome, property), Verdict::Held);
        }
        let reports = outcome.trace.records.iter().filter(|record| record.node == NodeId(0));
        assert!(reports.count() > 1);
    }
}
