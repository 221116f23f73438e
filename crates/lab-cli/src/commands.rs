//! One file for each command: its flags, and what it does.

pub mod check;
pub mod compare;
pub mod explain;
pub mod list;
pub mod replay;
pub mod run;
