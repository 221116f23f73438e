//! The lock manager of version 0.1, exactly as it was. **Nothing here is to be changed.**
//!
//! A log of format 1 has commands in it, and what came of them depends on the machine that carried them out: who was
//! granted what, with which token, was told to clients. Another machine could come to another state, and so this one is
//! kept for as long as format 1 is read. [`Snapshot::to_records`] says the state in records of format 2.
//!
//! It is a copy of `conclave-machine` without its tests, which said what it does. Look there for what is in use.

#![allow(dead_code, unreachable_pub, missing_docs)]

mod command;
mod deadlock;
mod election;
mod error;
mod grants;
mod ids;
mod limits;
mod lock;
mod machine;
mod mutation;
mod record;
mod reply;
mod session;
mod slab;
mod snapshot;
mod time;
mod view;
mod waits;

pub use command::{Acquire, Call, Campaign, Command, Mode, Open, Patience, Want};
pub use error::{Error, Link};
pub use ids::{Agent, Name, Owner, RequestId, SessionId, Token};
pub use limits::{Config, Limits, Policy, Scarce, Victim};
pub use lock::Kind;
pub use machine::Machine;
pub use reply::{Cause, Event, Leadership, Reply};
pub use snapshot::{BadSnapshot, Snapshot};
pub use time::Time;
pub use view::{
    Counts, Edge, ElectionView, Forced, HolderView, LockView, SessionView, WaiterView, Wants, Who,
    Why,
};
