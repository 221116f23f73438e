//! Why the laboratory does not do what it was asked for.

use conclave_check::{CheckError, NextError};
use conclave_protocol::Unfit;
use conclave_sim::SpecError;
use thiserror::Error;

/// Why something was not done: one line.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// No algorithm has this id.
    #[error("no algorithm is called {id:?}{}", suggest(.nearest))]
    UnknownId {
        /// What was asked for.
        id: String,
        /// What may have been meant.
        nearest: Vec<&'static str>,
    },
    /// What was asked for contradicts itself, or is not about such a thing.
    #[error("{0}")]
    Usage(String),
    /// There can be no such run.
    #[error("{0}")]
    Impossible(String),
    /// The run breaks an assumption of the algorithm.
    #[error("{id} makes no promise about such a run: {}", .beyond.join("; "))]
    BeyondModel {
        /// The algorithm.
        id: &'static str,
        /// What is beyond its model.
        beyond: Vec<String>,
    },
}

fn suggest(nearest: &[&str]) -> String {
    match nearest {
        [] => format!("; `{} list --mutants` shows all", crate::catalogue::program()),
        some => format!("; did you mean {}?", some.join(" or ")),
    }
}

impl From<SpecError> for Refusal {
    fn from(error: SpecError) -> Self {
        Self::Impossible(error.to_string())
    }
}

impl From<Unfit> for Refusal {
    fn from(unfit: Unfit) -> Self {
        Self::Impossible(unfit.to_string())
    }
}

impl From<NextError> for Refusal {
    fn from(error: NextError) -> Self {
        match error {
            NextError::Check(error) => error.into(),
            error @ NextError::Senseless { .. } => Self::Impossible(error.to_string()),
        }
    }
}

impl From<CheckError> for Refusal {
    fn from(error: CheckError) -> Self {
        match error {
            CheckError::Contradiction(text) => Self::Usage(text),
            other => Self::Impossible(other.to_string()),
        }
    }
}
