//! Algorithms by id, with refusals that say what there is instead.

use std::ops::Range;

use crate::catalogue;
use conclave_check::{CheckSpec, Next, Progress, Report};
use conclave_protocol::{Decision, Info, Setup};
use conclave_sim::{Outcome, RunSpec};

use crate::{Prey, Refusal};

/// What is said about the algorithm called `id`, or the nearest ids there are.
pub fn find(id: &str) -> Result<&'static Info, Refusal> {
    catalogue::find(id).ok_or_else(|| {
        if let Some(topic) = catalogue::topic(id) {
            let (id, program) = (topic.id, catalogue::program());
            let why = format!("{id} is a notion and does not run; try `{program} explain {id}`");
            return Refusal::Usage(why);
        }
        let ids = catalogue::infos().map(|info| info.id);
        let nearest = nearest(id, ids);
        Refusal::UnknownId { id: id.to_owned(), nearest }
    })
}

/// Up to three of `known` that are most like `text`, the best first.
pub fn nearest<'a>(text: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let text = text.to_lowercase();
    let likeness = |candidate: &str| {
        let name = candidate.rsplit('/').next().unwrap_or(candidate);
        let whole = strsim::jaro_winkler(&text, candidate);
        // The family may be missing or mistaken.
        let typed = text.rsplit('/').next().unwrap_or(&text);
        let named = strsim::normalized_damerau_levenshtein(typed, name);
        let part = if typed.len() >= 3 && name.contains(typed) { 0.9 } else { 0.0 };
        named.max(part) + whole * 0.1
    };
    let mut ranked: Vec<(f64, &str)> = known.map(|known| (likeness(known), known)).collect();
    ranked.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let best = ranked.first().map_or(0.0, |(score, _)| *score);
    let near = ranked.into_iter().take_while(|(score, _)| *score > 0.55 && *score > best - 0.15);
    near.map(|(_, known)| known).take(3).collect()
}

/// Runs the algorithm that `spec` names.
pub fn simulate(spec: &RunSpec) -> Result<Outcome, Refusal> {
    Ok(crate::run(spec).ok_or_else(|| unknown(&spec.algorithm))??)
}

/// Runs the algorithm that `spec` names, and writes the run down as decisions.
pub fn record(spec: &RunSpec) -> Result<(Outcome, Vec<Decision>), Refusal> {
    let algorithm =
        catalogue::algorithm(&spec.algorithm).ok_or_else(|| unknown(&spec.algorithm))?;
    Ok(conclave_sim::record(algorithm, spec)?)
}

/// What can happen next in the system that `spec` describes, when these decisions have been carried
/// out; see [`conclave_check::next`].
pub fn next(spec: &CheckSpec, decisions: &[Decision]) -> Result<Vec<Next>, Refusal> {
    let algorithm =
        catalogue::algorithm(&spec.algorithm).ok_or_else(|| unknown(&spec.algorithm))?;
    Ok(conclave_check::next(algorithm, spec, decisions)?)
}

/// Searches every run of the system that `spec` describes.
pub fn search(spec: &CheckSpec, progress: &Progress) -> Result<Report, Refusal> {
    Ok(crate::check(spec, progress).ok_or_else(|| unknown(&spec.algorithm))??)
}

/// Walks at random through the runs of the system that `spec` describes.
pub fn walk(spec: &CheckSpec, seed: u64, progress: &Progress) -> Result<Prey, Refusal> {
    Ok(crate::hunt(spec, seed, progress).ok_or_else(|| unknown(&spec.algorithm))??)
}

/// The nodes whose applications ask by default, in a system of the given make-up.
pub fn askers(id: &str, setup: &Setup) -> Result<Range<u32>, Refusal> {
    Ok(crate::clients(id, setup).ok_or_else(|| unknown(id))??)
}

fn unknown(id: &str) -> Refusal {
    find(id).err().unwrap_or_else(|| unreachable!("what the catalogue finds can be run"))
}
