//! Every property an algorithm promises holds over many seeds and sizes; every mutant is refuted.
//!
//! One test per entry of the catalogue: `cargo test -p conclave-algorithms --test catalogue holds`.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::support::{
    add_random_faults, at, comes_back, random_election, random_spec, random_watch, simulate,
    topology, verdict,
};
use conclave_algorithms::catalogue;
use conclave_protocol::{Algorithm, Asking, Channels, Family, Property, Setup};
use conclave_sim::{Arrivals, RunSpec, Spread, Tracing};
use libtest_mimic::{Failed, Trial};

/// How many runs each entry has, spread over the sizes …
const RUNS: u64 = 240;
/// … of which the first so many are recorded in full.
const FULL: u64 = 8;
/// What crashes leave undefined.
const ORDER: [Property; 2] = [Property::FcfsHappenedBefore, Property::FcfsTimestamp];
const SIZES: RangeInclusive<u32> = 2..=9;

pub(crate) fn trials() -> Vec<Trial> {
    let trials = catalogue::ALL
        .iter()
        .map(|&entry| Trial::test(format!("holds {}", entry.info().id), move || check(entry)));
    let parents = Trial::test("holds the parents of starving mutants", parents_starve_nobody);
    trials.chain([parents]).collect()
}

/// Everybody asks again as soon as it has left.
fn endless(spec: &mut RunSpec) {
    let Arrivals::Closed { rounds, first, think, .. } = &mut spec.workload.arrivals else { return };
    *rounds = None;
    *first = Spread::exactly(Duration::ZERO);
    *think = Spread::exactly(Duration::ZERO);
    spec.until = at(3_000);
}

/// The sound algorithm that a mutant spoils starves no node in the runs that starve the mutant's.
#[expect(clippy::unnecessary_wraps, reason = "that is what a trial returns")]
fn parents_starve_nobody() -> Result<(), Failed> {
    for info in catalogue::infos() {
        let Some(mutant) = info.mutant.filter(|it| it.breaks == Property::NoStarvation) else {
            continue;
        };
        for seed in (1..RUNS).step_by(16) {
            let parent = catalogue::algorithm(mutant.of).expect("the parent is in the catalogue");
            starves_nobody(parent, seed);
        }
    }
    Ok(())
}

fn starves_nobody(entry: &dyn Algorithm, seed: u64) {
    let setup = Setup::new(topology(entry, 5, seed));
    let mut spec = random_spec(entry, setup, seed);
    endless(&mut spec);
    let outcome = simulate(entry, &spec);
    let verdict = verdict(Property::NoStarvation, &outcome, 1);
    assert!(!verdict.is_violated(), "{} seed={seed}: {verdict:?}", entry.info().id);
}

fn check(entry: &dyn Algorithm) -> Result<(), Failed> {
    let info = entry.info();
    let (mut runs, mut events, mut refuted) = (0_u64, 0_u64, 0_u64);
    // Some algorithms need a certain number of nodes, so that some seeds are no run.
    for seed in 0..2 * RUNS {
        if runs == RUNS {
            break;
        }
        let span = u64::from(SIZES.end() - SIZES.start() + 1);
        let n = SIZES.start() + (seed % span) as u32;
        let setup = Setup::new(topology(entry, n, seed));
        if entry.clients(&setup).is_err() {
            continue;
        }
        let places = info.places(&setup);
        let family = Family::of(info);
        let mut spec = match entry.info().asking() {
            _ if family.elects => random_election(entry, setup, seed),
            Asking::None => random_watch(entry, setup, seed),
            Asking::All | Asking::One => random_spec(entry, setup, seed),
        };
        // An algorithm that allows reordering gets it every other time.
        if spec.channels == Channels::Reliable && seed % 2 == 0 {
            spec.channels = Channels::Fifo;
        }
        // Starvation shows where there is no end to the others' requests.
        let starves = info.mutant.is_some_and(|it| it.breaks == Property::NoStarvation);
        let cut_off = starves && seed % 2 == 1;
        if cut_off {
            endless(&mut spec);
        }
        let crashes = family.inside || comes_back(entry);
        let crashes = crashes && add_random_faults(entry, &mut spec);
        assert_eq!(spec.beyond(info), [], "the run keeps the model");
        // What a state holds has to be writable, too.
        if seed < FULL {
            spec.tracing = Tracing::Full;
        }
        let outcome = simulate(entry, &spec);
        runs += 1;
        events += outcome.stats.events;
        for &property in info.holds {
            // Who crashes withdraws its request, and leaves gaps in any order.
            if crashes && ORDER.contains(&property) {
                continue;
            }
            let verdict = verdict(property, &outcome, places);
            if verdict.is_violated() || !verdict.held() && !cut_off {
                let id = info.id;
                return Err(format!("{id}: {property} n={n} seed={seed}: {verdict:?}").into());
            }
        }
        if let Some(mutant) = info.mutant {
            refuted += u64::from(verdict(mutant.breaks, &outcome, places).is_violated());
        }
    }
    println!("{}: {runs} runs, {events} events, {refuted} refutations", info.id);
    if runs < RUNS {
        return Err(format!("only {runs} runs").into());
    }
    match info.mutant {
        Some(mutant) if refuted == 0 => {
            Err(format!("{} never breaks {}", info.id, mutant.breaks).into())
        }
        _ => Ok(()),
    }
}
