//! Looking at a whole system until something is so for good, step by step.

use crate::support::{T, at, simulate};
use conclave_algorithms::catalogue;
use conclave_algorithms::stable::{classifier, garbage, token_loss};
use conclave_protocol::family::reports::REPORTS;
use conclave_protocol::family::stable::{OUTCOMES, RECORDS, SEES};
use conclave_protocol::{Algorithm, NodeId, Note, Observation, Property, Setup, Topology};
use conclave_sim::{
    Arrivals, Ask, Delay, Event, JudgeLimits, Outcome, RunSpec, SlowLink, Verdict, judge,
};

/// p0 looks from this moment on, in tenths of `T`.
fn look(entry: &dyn Algorithm, n: u32, set: &[(&str, &str)], tenths: u32) -> RunSpec {
    looks(entry, n, set, (0, tenths))
}

/// The same of any node.
fn looks(
    entry: &dyn Algorithm,
    n: u32,
    set: &[(&str, &str)],
    (who, tenths): (u32, u32),
) -> RunSpec {
    let setup = Setup::new(Topology::complete(n));
    let setup = set.iter().fold(setup, |setup, (name, value)| setup.with(name, value));
    let mut spec = RunSpec::new(entry.info(), setup);
    let ask = Ask { node: NodeId(who), at: at(0) + T * tenths / 10, hold: None };
    spec.workload.arrivals = Arrivals::Plan(vec![ask]);
    spec.linger = None;
    spec
}

fn verdict(entry: &dyn Algorithm, spec: &RunSpec, outcome: &Outcome, it: Property) -> Verdict {
    judge(it, &outcome.trace, JudgeLimits::of(entry.info(), spec, &outcome.trace))
}

fn notes(outcome: &Outcome, wanted: u8) -> Vec<Note> {
    let note = |event| match event {
        Event::Notice(Observation::Note(note)) if note.kind == wanted => Some(note),
        _ => None,
    };
    outcome.trace.records.iter().filter_map(|record| note(record.event())).collect()
}

/// What the snapshots show, one after the other.
fn seen(outcome: &Outcome) -> Vec<&'static str> {
    notes(outcome, SEES).iter().map(|note| OUTCOMES[note.value as usize]).collect()
}

#[test]
fn each_way_in_which_all_can_be_passive_is_told_from_the_others() {
    let entry = &classifier::PLAIN;
    for (n, script, outcomes) in [
        (2, "0-,1-", &["terminated"][..]),
        (2, "0?1,1?0", &["deadlocked"]),
        // p0 waits for p1, which is done: no process is active, nothing is on its way, and no two wait
        // for each other.
        (2, "0?1,1-", &["stranded"]),
        // A word wakes p0, or releases it.
        (2, "0-,1>0", &["temporarily blocked", "terminated"]),
        (2, "0?1,1>0", &["temporarily blocked", "terminated"]),
        // A word to p1 releases it, and it releases p0.
        (3, "0?1,1?2,1>0,2>1", &["still running", "terminated"]),
        (3, "0?1,1?2,2?0|1", &["deadlocked"]),
        (3, "0?1,1?0+2,2-", &["deadlocked"]),
    ] {
        let spec = look(entry, n, &[("talk", script)], 12);
        let outcome = simulate(entry, &spec);
        assert_eq!(seen(&outcome), outcomes, "{script}");
        for property in [Property::Sound, Property::Reported] {
            assert_eq!(verdict(entry, &spec, &outcome, property), Verdict::Held, "{script}");
        }
    }
}

#[test]
fn who_looks_while_somebody_is_active_looks_again() {
    let spec = look(&classifier::PLAIN, 2, &[("talk", "0?1,1>0,1?0")], 2);
    let outcome = simulate(&classifier::PLAIN, &spec);
    assert_eq!(seen(&outcome), ["still running", "stranded"]);
}

/// A word, a token or a reference that is sent in this unit takes long.
fn slow(mut spec: RunSpec, from: u32, to: u32, sent: u64) -> RunSpec {
    let (from, to, since, until) = (NodeId(from), NodeId(to), at(sent), at(sent + 1));
    spec.delays.links = vec![SlowLink { from, to, delay: T * 7, since, until }];
    spec
}

#[test]
fn a_naive_snapshot_misses_the_word_that_wakes_or_releases() {
    for (script, wrong) in [("0-,1>0", "terminated"), ("0?1,1>0,1-", "stranded")] {
        let mut seen_by = Vec::new();
        for entry in [&classifier::PLAIN, &classifier::NAIVE] {
            let spec = slow(look(entry, 2, &[("talk", script)], 12), 1, 0, 0);
            let outcome = simulate(entry, &spec);
            let sound = verdict(entry, &spec, &outcome, Property::Sound);
            assert_eq!(sound.is_violated(), entry.info.mutant.is_some(), "{script}: {sound:?}");
            seen_by.push(seen(&outcome)[0]);
        }
        assert_eq!(seen_by, ["temporarily blocked", wrong], "{script}");
    }
}

#[test]
fn a_token_on_its_way_is_not_lost() {
    for entry in [&token_loss::PLAIN, &token_loss::NAIVE] {
        let spec = slow(look(entry, 3, &[("loses", "none")], 25), 1, 2, 2);
        let outcome = simulate(entry, &spec);
        let reports = notes(&outcome, REPORTS).len();
        assert_eq!(reports > 0, entry.info.mutant.is_some());
        let sound = verdict(entry, &spec, &outcome, Property::Sound);
        assert_eq!(sound.is_violated(), entry.info.mutant.is_some(), "{sound:?}");
    }
    let lost = simulate(&token_loss::PLAIN, &look(&token_loss::PLAIN, 3, &[], 12));
    assert_eq!(notes(&lost, REPORTS).len(), 1, "p1 loses it");
}

#[test]
fn an_object_whose_last_reference_is_on_its_way_is_no_garbage() {
    let (mut sound, mut naive) = (0, 0);
    for seed in 0..200 {
        let mut specs = [&garbage::PLAIN, &garbage::NAIVE].map(|entry| {
            // p1 records before the reference arrives, and p0 after it was sent.
            let set = [("objects", "1"), ("rounds", "1")];
            let mut spec = looks(entry, 2, &set, (1, 6 + seed as u32 % 9));
            spec.seed = seed;
            (entry, slow(spec, 0, 1, 0))
        });
        for (entry, spec) in &mut specs {
            let outcome = simulate(*entry, spec);
            let wrong = verdict(*entry, spec, &outcome, Property::Sound).is_violated();
            *(if entry.info.mutant.is_some() { &mut naive } else { &mut sound }) +=
                u32::from(wrong);
        }
    }
    assert!(sound == 0 && naive > 0, "{sound} {naive}");
}

#[test]
fn when_it_is_so_one_more_snapshot_at_most_is_started_before_it_is_reported() {
    let entries = catalogue::ALL.iter().copied().filter(|entry| {
        entry.info().family() == classifier::PLAIN.info.family() && entry.info().mutant.is_none()
    });
    let mut found = 0;
    for entry in entries {
        for seed in 0..60 {
            let mut spec = look(entry, 3, &[], seed as u32 % 40);
            (spec.seed, spec.delays) = (seed, Delay::Uniform(T / 20, T).into());
            let outcome = simulate(entry, &spec);
            let (mut facts, mut reported, mut started) = (0, 0, [0; 64]);
            for record in &outcome.trace.records {
                match record.event() {
                    Event::Facts(now) => facts = now,
                    Event::Notice(Observation::Note(Note { kind: RECORDS, .. }))
                        if record.node == NodeId(0) =>
                    {
                        let owed = facts & !reported;
                        let bits = (0..64).filter(|bit| owed >> bit & 1 == 1);
                        bits.for_each(|bit| started[bit] += 1);
                    }
                    Event::Notice(Observation::Note(Note { kind: REPORTS, value, .. })) => {
                        reported |= value;
                        found += 1;
                    }
                    _ => {}
                }
            }
            assert!(started.iter().all(|it| *it <= 1), "{} seed={seed}", entry.info().id);
            assert_eq!(facts, reported, "{} seed={seed}", entry.info().id);
        }
    }
    assert!(found > 100, "only {found}");
}
