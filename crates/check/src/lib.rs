//! The model checker.

mod check;
mod graph;
mod local;
mod search;
mod space;
mod spec;
mod table;
mod worker;

pub use check::count;
pub use search::Progress;
pub use spec::{Budgets, CheckError, CheckSpec, Limits, MOST_NODES, Timers};

use serde::{Deserialize, Serialize};

/// Why a search ended before it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// The runs were to have no more steps.
    Depth,
    /// No more states were to be visited.
    States,
    /// It would have taken more memory than it may.
    Memory,
    /// It was told to stop.
    Asked,
}
