//! A quick look for a violation, before the search that finds the shortest.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use conclave_protocol::{Algorithm, Property};

use crate::check::begin;
use crate::local::Watch;
use crate::search::Progress;
use crate::witness::{Pick, Start, explain, retrace};
use crate::worker::{FAIR, SystemShape, TELLS, Worker, fingerprint, is_due};
use crate::{CheckError, CheckSpec, Violation};

/// A walk has at most so many steps …
const LONGEST: usize = 2_000;
/// … and all of them together so many.
const STEPS: u64 = 5_000_000;

/// Walks at random through the states until one violates a property, and returns the walk. To find
/// nothing means nothing; what is found is real, and seldom the shortest.
pub fn hunt(
    algorithm: &dyn Algorithm,
    spec: &CheckSpec,
    seed: u64,
    progress: &Progress,
) -> Result<Option<(Property, Violation)>, CheckError> {
    spec.validate()?;
    let mut watch = Watch::of(spec);
    loop {
        let mut shape = SystemShape::new(spec, watch);
        shape.compare = false;
        let (space, start) = begin(algorithm, spec, watch)?;
        let space = Mutex::new(space);
        let mut worker = Worker::new(&space, &shape);
        let prey = chase(&mut worker, &start, seed, spec.limits.depth, progress);
        if !space.lock().expect("no thread has failed").nodes.wants_clock() {
            return Ok(prey.map(|(property, path)| {
                let run = retrace(&mut worker, &start, &path, None);
                let why = explain(&mut worker, property, &run);
                (property, Violation { why, decisions: run.decisions, loop_from: None })
            }));
        }
        watch.clock = true;
    }
}

fn chase(
    worker: &mut Worker<'_>,
    start: &Start,
    seed: u64,
    depth: Option<u32>,
    progress: &Progress,
) -> Option<(Property, Vec<Pick>)> {
    let longest = depth.map_or(LONGEST, |depth| LONGEST.min(depth as usize));
    let mut random = seed;
    let mut steps = 0;
    while steps < STEPS && !progress.stop.load(Ordering::Relaxed) {
        let (mut state, mut path) = (start.state.clone(), Vec::new());
        loop {
            worker.candidates.clear();
            worker.changes.clear();
            let going_on = worker.expand(&state, fingerprint(&state), 0, 0);
            if !worker.candidates.iter().any(|candidate| candidate.flags & FAIR != 0) {
                let mut liveness = worker.shape.liveness.iter().copied();
                let violated =
                    liveness.find(|it| is_due(it, going_on == 0) && !worker.at_rest(it, &state));
                if let Some(promise) = violated {
                    return Some((promise.property, path));
                }
            }
            if worker.candidates.is_empty() || path.len() >= longest {
                break;
            }
            steps += 1;
            progress.transitions.fetch_add(1, Ordering::Relaxed);
            let choice = next(&mut random) as usize % worker.candidates.len();
            let candidate = worker.candidates[choice];
            state = worker.led_to(choice, &state);
            path.push(Pick::Place(choice));
            if candidate.flags & TELLS != 0 {
                let broken = worker.broken(&state);
                if broken != 0 {
                    let place = broken.trailing_zeros() as usize;
                    return Some((worker.shape.safety[place].property, path));
                }
            }
        }
        steps += 1;
    }
    None
}

/// The next number of a sequence that looks random (SplitMix64).
fn next(state: &mut u64) -> u32 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut x = *state;
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ x >> 31) as u32
}
