//! The model checker.

mod check;
mod count;
mod graph;
mod hunt;
mod liveness;
mod local;
mod nodes;
mod report;
mod search;
mod space;
mod spec;
mod table;
mod witness;
mod worker;

pub use check::check;
pub use hunt::hunt;
pub use report::{Coverage, Judgement, Messages, Report, Stop, Verdict, Violation};
pub use search::Progress;
pub use spec::{Budgets, CheckError, CheckSpec, Limits, MOST_NODES, Timers};
