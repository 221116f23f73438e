//! The catalogue: every algorithm, one file each.
//!
//! A family has a file with what its algorithms have in common — `Request`, `Notice`, `Client` —
//! and a folder with one file for each. Nothing here does I/O, reads a clock, draws a random
//! number or iterates a hash map: that is the drivers' business, and `cargo xtask test` checks it.
//!
//! Start with [`mutex::ricart_agrawala`]; [`catalogue`] finds algorithms by id.

pub mod base;
pub mod catalogue;
pub mod detector;
pub mod election;
pub mod mutex;
pub mod quorum;
pub mod snapshot;
pub mod stable;
pub mod termination;
