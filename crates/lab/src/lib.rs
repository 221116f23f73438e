//! The laboratory: algorithms by id, and what can be said about them as plain data.
//!
//! Everything that can be said about an algorithm is data here, and prints as JSON by itself: what
//! the catalogue says ([`entries`]), what a user types ([`flags`]), a run and what it cost
//! ([`report`]), its picture ([`diagram`]), the states it could have been in ([`lattice`](mod@lattice)), many runs ([`sweep`]), a recorded run again
//! ([`replay`]), a check ([`check`](mod@check)), what the checks claim ([`claims`]), the theory
//! ([`theory`]), a comparison ([`compare`]). How it looks is for others to say. Nothing here reads a
//! clock, a file or the network.

mod by_id;
pub mod catalogue;
pub mod check;
pub mod claims;
pub mod compare;
pub mod diagram;
pub mod entries;
pub mod flags;
pub mod lattice;
mod printed;
pub mod reach;
mod refusal;
pub mod replay;
pub mod report;
pub mod sweep;
pub mod theory;

use std::ops::Range;

use conclave_check::{CheckError, CheckSpec, Progress, Report, Violation};
use conclave_protocol::{Property, Setup, Unfit};
use conclave_sim::{Outcome, RunSpec, SpecError};

pub use by_id::{askers, find, nearest, next, record, search, simulate, walk};
pub use printed::{FORMAT, ListData, Printed};
pub use refusal::Refusal;

/// Runs the algorithm that `spec` names; `None` if the catalogue has none of that name.
pub fn run(spec: &RunSpec) -> Option<Result<Outcome, SpecError>> {
    Some(conclave_sim::run(catalogue::algorithm(&spec.algorithm)?, spec))
}

/// Checks the algorithm that `spec` names; `None` if the catalogue has none of that name.
pub fn check(spec: &CheckSpec, progress: &Progress) -> Option<Result<Report, CheckError>> {
    Some(conclave_check::check(catalogue::algorithm(&spec.algorithm)?, spec, progress))
}

/// What a quick look finds: a property and a run that violates it.
pub type Prey = Option<(Property, Violation)>;

/// Looks quickly for a violation of the properties of `spec`; see [`conclave_check::hunt`].
pub fn hunt(spec: &CheckSpec, seed: u64, progress: &Progress) -> Option<Result<Prey, CheckError>> {
    Some(conclave_check::hunt(catalogue::algorithm(&spec.algorithm)?, spec, seed, progress))
}

/// The nodes whose applications ask by default, in a system of the given make-up; `None` if there
/// is no algorithm called `id`.
pub fn clients(id: &str, setup: &Setup) -> Option<Result<Range<u32>, Unfit>> {
    Some(catalogue::algorithm(id)?.clients(setup))
}
