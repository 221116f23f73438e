//! One file for each command: its flags, and what it does.

pub mod backup;
pub mod bench;
pub mod cert;
pub mod elect;
pub mod elections;
pub mod graph;
pub mod lock;
pub mod locks;
pub mod manual;
pub(crate) mod names;
pub mod observe;
pub mod operate;
pub mod sessions;
pub mod token;
pub mod up;
pub mod why;
