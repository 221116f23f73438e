//! The model checker: every interleaving and every fault within a budget, of the very code that
//! the simulator and the network run; either the property holds in all of them, or here is a
//! shortest run in which it does not.
//!
//! [`check()`] is the way in; [`CheckSpec`] says what to explore, [`Report`] what was found. What
//! makes it fast: steps are pure functions, so each is computed once and looked up ever after.
//!
//! * `nodes` and `local` know the algorithm: what stands at a node, what a step makes of it. Each
//!   local state and each message has a number.
//! * `space` keeps the numbers of everything else — contents of links, budgets — and the steps.
//! * `worker` knows the ways out of a global state, which is a vector of numbers; what it learns
//!   from the space it keeps, so that threads seldom meet.
//! * `search` visits states level by level, remembering fingerprints in a `table`.
//! * `graph`, `liveness` and `count` look at the whole graph: endless runs, cheapest and dearest.
//! * `explore` takes one run step by step, and lists what can happen next.
//! * `witness` turns what was found into decisions that the simulator can follow.

mod check;
mod count;
mod explore;
mod graph;
mod hunt;
mod liveness;
mod local;
mod nodes;
mod report;
mod search;
mod shape;
mod space;
mod spec;
mod symmetry;
mod table;
mod witness;
mod worker;

pub use check::check;
pub use conclave_protocol::claims::{Budgets, Requests, Timers};
pub use explore::{Breach, Next, NextError, next};
pub use hunt::hunt;
pub use report::{Coverage, Judgement, Messages, Report, Stop, Verdict, Violation};
pub use search::Progress;
pub use spec::{CheckError, CheckSpec, Limits, MOST_NODES};
