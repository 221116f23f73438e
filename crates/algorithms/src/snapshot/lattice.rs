//! The consistent cuts of a computation, ordered by what is in them, are a lattice: any two have a
//! greatest that is in both, and a least that has both. The lowest is before everything, the highest
//! after, and one level lies above the next by one event.
//!
//! A way through it from the bottom to the top, an event at a time, is an order of all events in which
//! each comes after what happened before it: a run that could have been. What really happened is one of
//! them, and no process knows which. A state is reached from another if what happened before the one is
//! all in the other. So of a property there are two questions: is there a state in which it holds,
//! *possibly*; and does each way pass through such a state, *definitely*.
//!
//! The more messages processes send each other, the fewer cuts are consistent. Three processes of two
//! events each that send none have 27 cuts, all of them consistent, and 90 orders; two events, three and
//! two with three messages between them may have no more than 13 consistent cuts of 36, and 6 orders.
//!
//! # Rules
//!
//! Those of the processes of a script, as of `snapshot/consistent-cut`.
//!
//! 1. An event that concerns no other process.
//! 2. An event that sends a message.
//! 3. An event that receives a message. One that comes before its turn waits until what comes first has
//!    happened.
//!
//! # Cost
//!
//! None beyond the application's own messages. The lattice grows as the number of events to the power of
//! the number of processes, if these have little to do with each other.

use conclave_protocol::claims::Check;
use conclave_protocol::{Entry, Property};

use super::app::App;
use super::consistent_cut;

/// Three messages among three processes.
const MESSAGES: &[(&str, &str)] = &[("script", "p1>q1,q2>r1,r2>q3,p2")];

/// Processes with a script, by themselves.
pub static PLAIN: Entry<App> = consistent_cut::PLAIN
    .variant("snapshot/lattice", "Lattice of consistent cuts")
    .summary("all states that could have been, and the runs that pass through them")
    .source("Babaoglu, Marzullo. Consistent global states of distributed systems. 1993")
    .text(include_str!("lattice.rs"))
    .claims(&[
        Check::new(2, &[Property::Conserved]),
        Check::new(3, &[Property::Conserved]).set(MESSAGES),
    ]);
