//! The laboratory as a library. The crate itself has no unit tests, so that every algorithm is compiled once.

mod diagram;
mod families;
mod flags;
mod formula;
mod lattice;
mod lectures;
mod names;
mod theory;
mod traces;
mod verdicts;
mod words;
