//! Where generic algorithms become plain data.
//!
//! The simulator is compiled anew for each algorithm, which takes its time. Here that happens once,
//! so that everything that runs algorithms by id — the command line, its tests, the console — is
//! compiled without them.
//!
//! Everything that can be said about an algorithm is data here, and prints as JSON by itself: what
//! the catalogue says ([`entries`]), what a user types ([`flags`]), a run and what it cost ([`report`]), many runs ([`sweep`]), a
//! recorded run again ([`replay`]), a check ([`check`](mod@check)), what the checks claim
//! ([`claims`]), the theory ([`theory`]), a comparison ([`compare`]). How it looks is for others to
//! say. Nothing here reads a clock, a file or the network.

mod by_id;
pub mod check;
pub mod claims;
pub mod compare;
pub mod entries;
pub mod flags;
mod printed;
mod refusal;
pub mod replay;
pub mod report;
pub mod sweep;
pub mod theory;

use std::ops::Range;

use conclave_algorithms::catalogue::{self, Visitor};
use conclave_check::{CheckError, CheckSpec, Progress, Report, Violation};
use conclave_protocol::{Client, Entry, Property, Protocol, Reliable, Setup, Unfit};
use conclave_sim::{Outcome, RunSpec, SpecError};

pub use by_id::{askers, find, nearest, places, search, simulate, walk};
pub use printed::{FORMAT, ListData, Printed};
pub use refusal::Refusal;

/// Runs the algorithm that `spec` names; `None` if the catalogue has none of that name.
pub fn run(spec: &RunSpec) -> Option<Result<Outcome, SpecError>> {
    catalogue::visit(&spec.algorithm, Run(spec))
}

/// Checks the algorithm that `spec` names; `None` if the catalogue has none of that name.
pub fn check(spec: &CheckSpec, progress: &Progress) -> Option<Result<Report, CheckError>> {
    catalogue::visit(&spec.algorithm, Check(spec, progress))
}

/// What a quick look finds: a property and a run that violates it.
pub type Prey = Option<(Property, Violation)>;

/// Looks quickly for a violation of the properties of `spec`; see [`conclave_check::hunt`].
pub fn hunt(spec: &CheckSpec, seed: u64, progress: &Progress) -> Option<Result<Prey, CheckError>> {
    catalogue::visit(&spec.algorithm, Hunt(spec, seed, progress))
}

/// The nodes whose applications ask by default, in a system of the given make-up; `None` if there
/// is no algorithm called `id`.
pub fn clients(id: &str, setup: &Setup) -> Option<Result<Range<u32>, Unfit>> {
    catalogue::visit(id, Clients(setup))
}

struct Run<'a>(&'a RunSpec);

impl Visitor for Run<'_> {
    type Output = Result<Outcome, SpecError>;

    fn visit<P, C>(self, entry: &'static Entry<P>) -> Self::Output
    where
        P: Protocol,
        C: Client<P> + Client<Reliable<P>>,
    {
        conclave_sim::run::<P, C>(entry, self.0)
    }
}

struct Clients<'a>(&'a Setup);

impl Visitor for Clients<'_> {
    type Output = Result<Range<u32>, Unfit>;

    fn visit<P, C>(self, entry: &'static Entry<P>) -> Self::Output
    where
        P: Protocol,
        C: Client<P> + Client<Reliable<P>>,
    {
        let config = (entry.config)(self.0)?;
        Ok((entry.clients)(&config, self.0.n()))
    }
}

struct Check<'a>(&'a CheckSpec, &'a Progress);

impl Visitor for Check<'_> {
    type Output = Result<Report, CheckError>;

    fn visit<P, C>(self, entry: &'static Entry<P>) -> Self::Output
    where
        P: Protocol,
        C: Client<P> + Client<Reliable<P>>,
    {
        conclave_check::check::<P, C>(entry, self.0, self.1)
    }
}

struct Hunt<'a>(&'a CheckSpec, u64, &'a Progress);

impl Visitor for Hunt<'_> {
    type Output = Result<Prey, CheckError>;

    fn visit<P, C>(self, entry: &'static Entry<P>) -> Self::Output
    where
        P: Protocol,
        C: Client<P> + Client<Reliable<P>>,
    {
        conclave_check::hunt::<P, C>(entry, self.0, self.1, self.2)
    }
}
