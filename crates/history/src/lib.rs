//! Recorded histories of the lock service, and a judge of them.
//!
//! A history is a list of [`Event`]s: what clients sent and were answered, which commands ran under a lock and when,
//! what a list of all locks showed, which faults were made, how processes ended. All times are of one clock that
//! is never set (`CLOCK_BOOTTIME`) on one machine. A file of it has one event in JSON on each line.
//!
//! [`judge`] looks for broken promises. It knows nothing of the server but what is documented: a client believes in a
//! lock from the moment at which it is told of the grant until it sends the release, or until its lease ends as
//! the client counts it. [`Rule`] lists what is judged. The [`Verdict`] counts how often each rule was applied and
//! names what could not be judged, so that "no violation" cannot mean "nothing was looked at".
//!
//! Each rule takes time linear in the length of the history, apart from sorting.

mod event;
mod faults;
mod file;
mod force;
mod index;
mod judge;
mod reasons;
mod rules;
mod verdict;

pub use event::{Ending, Event, Held, Kind, LockView, Mode, Taken, Time, Waiter, Want};
pub use file::{ReadError, read, write_line};
pub use judge::judge;
pub use verdict::{Rule, Tally, Verdict, Violation};

/// One part in so many of a lease is not relied upon: what clients leave to the difference between two clocks.
pub const DRIFT: u64 = 64;
