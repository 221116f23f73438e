//! Any run can be written down as decisions: followed, they give the same trace, event by event, and
//! a run that follows the first of them and goes on by its calendar is the same run.
//!
//! One test per entry: `cargo test -p conclave-algorithms --test catalogue recorded`.

use std::time::Duration;

use crate::support::{
    T, add_random_faults, at, random_election, random_spec, random_watch, topology,
};
use conclave_algorithms::catalogue;
use conclave_protocol::{Algorithm, Asking, Channels, Family, NodeId, Setup};
use conclave_sim::{Arrivals, Fault, Outcome, Rate, Rng, RunSpec, Then, Trace, Tracing};
use libtest_mimic::{Failed, Trial};

/// Rings on which a single node left may send itself one message after the other, all in one step,
/// when more goes wrong than their model allows for.
const TAME: [&str; 2] = ["election/ring-list-initiator", "election/ring-modified"];

/// How many runs each entry has.
const RUNS: u64 = 18;
/// In how many places each of them is cut, to go on from there.
const CUTS: u64 = 4;

pub(crate) fn trials() -> Vec<Trial> {
    catalogue::ALL
        .iter()
        .map(|&entry| Trial::test(format!("recorded {}", entry.info().id), move || check(entry)))
        .collect()
}

fn check(entry: &dyn Algorithm) -> Result<(), Failed> {
    let (mut runs, mut decided) = (0, 0);
    for seed in 0..4 * RUNS {
        let setup = Setup::new(topology(entry, 2 + (seed % 5) as u32, seed));
        if runs == RUNS || entry.clients(&setup).is_err() {
            continue;
        }
        runs += 1;
        let family = Family::of(entry.info());
        let mut spec = match entry.info().asking() {
            _ if family.elects => random_election(entry, setup, seed),
            Asking::None => random_watch(entry, setup, seed),
            Asking::All | Asking::One => random_spec(entry, setup, seed),
        };
        spec.events = 1_500;
        match seed % 3 {
            0 if family.inside => drop(add_random_faults(entry, &mut spec)),
            0 => {}
            1 if !TAME.contains(&entry.info().id) => go_wild(&mut spec),
            _ => within(entry, &mut spec),
        }
        let within = spec.beyond(entry.info()).is_empty();
        assert!(within || seed % 3 == 1, "{:?}", spec.beyond(entry.info()));
        spec.tracing = if seed % 2 == 0 { Tracing::Full } else { Tracing::Events };
        decided += compare(entry, &spec, within).map_err(|why| {
            format!("{} seed={seed} n={}: {why}", entry.info().id, spec.setup.n())
        })?;
    }
    println!("{}: {runs} runs, {decided} decisions", entry.info().id);
    if runs < RUNS || decided == 0 { Err("there is nothing to compare".into()) } else { Ok(()) }
}

/// What the model leaves open about channels and clocks.
fn within(entry: &dyn Algorithm, spec: &mut RunSpec) {
    let model = entry.info().model;
    let lossy = model.channels == Channels::Lossy;
    spec.reliable = !lossy && spec.seed.is_multiple_of(2);
    if lossy || spec.reliable {
        (spec.faults.loss, spec.faults.duplication) = (100_000, 100_000);
    }
    spec.faults.skew = 50_000;
    if !spec.beyond(entry.info()).is_empty() {
        (spec.reliable, spec.faults.skew) = (false, 0);
        (spec.faults.loss, spec.faults.duplication) = (0, 0);
    }
    if model.partitions {
        let groups = vec![vec![NodeId(0)], (1..spec.setup.n()).map(NodeId).collect()];
        spec.faults = std::mem::take(&mut spec.faults)
            .with(at(5), Fault::Partition(groups))
            .with(at(20), Fault::Heal);
    }
}

/// Everything at once, whatever the model says.
fn go_wild(spec: &mut RunSpec) {
    let mut rng = Rng::new(spec.seed).fork(79);
    let n = u64::from(spec.setup.n());
    let mut node = || NodeId(rng.below(n) as u32);
    let plan = [
        (at(2), Fault::Reset(node())),
        (at(3), Fault::Partition(vec![vec![node()]])),
        (at(4), Fault::Pause(node())),
        (at(6), Fault::Heal),
        (at(6), Fault::Crash(node())),
        (at(9), Fault::RecoverEmpty(node())),
        (at(9), Fault::Leave(node())),
        (at(12), Fault::Resume(node())),
        (at(30), Fault::Suspect { node: NodeId(0), peer: NodeId(1) }),
        (at(30), Fault::Trust { node: NodeId(1), peer: NodeId(0) }),
    ];
    for ((when, action), nano) in plan.into_iter().zip(0..) {
        // No two at one moment.
        let when = when + Duration::from_nanos(nano);
        spec.faults = std::mem::take(&mut spec.faults).with(when, action);
    }
    let rate = |every: u32| Some(Rate { every: T * every, lasting: Some(T * 7) });
    (spec.faults.pauses, spec.faults.crashes) = (rate(30), rate(60));
    spec.faults.suspicions = rate(40);
    (spec.faults.loss, spec.faults.duplication, spec.faults.skew) = (30_000, 60_000, 9_000);
    spec.channels = if spec.seed.is_multiple_of(2) { Channels::Fifo } else { Channels::Lossy };
    if let Arrivals::Closed { clients, rounds, .. } = spec.workload.arrivals.clone() {
        let every = T * 8;
        spec.workload.arrivals = Arrivals::Open { clients, rounds, every };
    }
    spec.linger = Some(Duration::from_millis(40));
}

fn compare(entry: &dyn Algorithm, spec: &RunSpec, within: bool) -> Result<usize, String> {
    let original = run(entry, spec)?;
    let recorded = conclave_sim::record(entry, spec).map_err(|error| error.to_string())?;
    let (again, decisions) = recorded;
    same("the recorded run", &original.trace, &again.trace)?;
    let follow = |many: usize, then: Then| {
        let decisions = Some(decisions[..many].to_vec());
        RunSpec { decisions, then, ..spec.clone() }
    };
    let stopped = follow(decisions.len(), Then::Stop);
    let followed = run(entry, &stopped)?;
    let counted = |outcome: &Outcome| conclave_sim::Stats { pending: 0, ..outcome.stats };
    let stats = counted(&followed);
    let Trace { end, ended, .. } = original.trace;
    same("the followed run", &original.trace, &Trace { end, ended, ..followed.trace })?;
    if counted(&original) != stats {
        return Err(format!("{:?} became {stats:?}", original.stats));
    }
    if within && !stopped.beyond(entry.info()).is_empty() {
        return Err(format!("followed, it goes beyond: {:?}", stopped.beyond(entry.info())));
    }
    let mut rng = Rng::new(spec.seed).fork(80);
    let cuts = (0..CUTS).map(|_| rng.below(decisions.len() as u64 + 1) as usize);
    for cut in cuts.chain([0, decisions.len()]) {
        let (went_on, written) = conclave_sim::record(entry, &follow(cut, Then::Continue))
            .map_err(|error| format!("cut at {cut}: {error}"))?;
        let what = format!("the run that goes on after decision {cut} of {}", decisions.len());
        same(&what, &original.trace, &went_on.trace)?;
        let plain = run(entry, &follow(cut, Then::Continue))?;
        same(&what, &original.trace, &plain.trace)?;
        if written != decisions {
            let at = written.iter().zip(&decisions).position(|(a, b)| a != b);
            return Err(format!("{what} is written down differently from decision {at:?} on"));
        }
    }
    Ok(decisions.len())
}

fn run(entry: &dyn Algorithm, spec: &RunSpec) -> Result<Outcome, String> {
    conclave_sim::run(entry, spec).map_err(|error| error.to_string())
}

fn same(what: &str, expected: &Trace, found: &Trace) -> Result<(), String> {
    let differ = expected.records.iter().zip(&found.records).position(|(a, b)| a != b);
    let shorter = expected.records.len().min(found.records.len());
    let unequal = expected.records.len() != found.records.len();
    if let Some(place) = differ.or_else(|| unequal.then_some(shorter)) {
        let event = |trace: &Trace| {
            let record = trace.records.get(place);
            record.map(|record| (record.at, record.node, record.lamport, record.event()))
        };
        let (expected, found) = (event(expected), event(found));
        return Err(format!("{what}: event {place} is {found:?}, not {expected:?}"));
    }
    if expected != found {
        let end = |trace: &Trace| (trace.end, trace.ended);
        return Err(format!("{what}: ended {:?}, not {:?}", end(found), end(expected)));
    }
    Ok(())
}
