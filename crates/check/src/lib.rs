//! The model checker.

mod check;
mod graph;
mod liveness;
mod local;
mod report;
mod search;
mod space;
mod spec;
mod table;
mod witness;
mod worker;

pub use check::check;
pub use report::{Coverage, Judgement, Messages, Report, Stop, Verdict, Violation};
pub use search::Progress;
pub use spec::{Budgets, CheckError, CheckSpec, Limits, MOST_NODES, Timers};
