//! Foundations that run: putting events into an order. Nothing is promised of them that a judge
//! could watch.

use super::{Asking, Family, PLAIN};

/// Foundations.
pub(super) static FAMILY: Family = Family { name: "base", asking: Asking::One, ..PLAIN };
