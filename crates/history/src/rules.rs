//! What is judged, by what it needs to know.

pub(crate) mod holders;
pub(crate) mod leases;
pub(crate) mod processes;
pub(crate) mod queue;
pub(crate) mod state;
pub(crate) mod tokens;
