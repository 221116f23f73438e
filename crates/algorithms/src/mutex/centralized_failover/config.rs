//! How long things take.

use std::time::Duration;

use conclave_protocol::{Opt, Setup, Unfit};

/// The constants, those of the election inside included.
#[derive(Clone, Debug)]
pub struct Config<C> {
    /// Λ, unless there are no leases.
    pub(super) lease: Option<Duration>,
    pub(super) delay: Duration,
    /// How long an answer can take.
    pub(super) answer: Duration,
    pub(super) probe: Duration,
    /// How long a coordinator may take itself for one when another has been elected; `None` if the
    /// node that is elected is the only one.
    pub(super) grace: Option<Duration>,
    pub(super) election: C,
}

impl<C> Config<C> {
    /// The same for an election that may leave the last leader in office for so long.
    #[must_use]
    pub fn with_grace(self, grace: Duration) -> Self {
        Self { grace: Some(grace), ..self }
    }

    /// The same with grants that last until they are given back.
    #[must_use]
    pub fn without_leases(self) -> Self {
        Self { lease: None, ..self }
    }
}

pub(super) const LEASE: Opt = Opt {
    name: "lease",
    default: "20",
    help: "how long a grant lasts unless renewed, in T, at least 8",
};

/// The constants around an election with the constants `election`.
pub fn config<C>(setup: &Setup, election: C) -> Result<Config<C>, Unfit> {
    let lease: u32 = setup.option("lease", 20)?;
    if lease < 8 {
        let why = "a shorter one cannot be renewed in time";
        return Err(Unfit::new(format!("lease={lease}, but it has to be 8 or more: {why}")));
    }
    let answer = setup.delay * 2 + setup.processing;
    Ok(Config {
        lease: Some(setup.delay * lease),
        delay: setup.delay,
        answer,
        probe: answer + setup.delay * 4,
        grace: None,
        election,
    })
}
