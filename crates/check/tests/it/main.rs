//! The model checker on whole systems, in one test program.

mod endless;
mod golden;
mod liveness;
mod next;
mod symmetry;
