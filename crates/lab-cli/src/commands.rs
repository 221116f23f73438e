//! One file for each command: its flags, and what it does.

pub mod check;
pub mod compare;
pub mod cut;
pub mod explain;
pub mod lattice;
pub mod list;
pub mod replay;
pub mod run;
