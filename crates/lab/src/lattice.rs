//! The lattice of a run: every global state that its processes could have been in, given which
//! messages they exchanged, and what can be asked about these.
//!
//! A [`Computation`] is a run as events of processes and messages between them. A cut takes the first
//! so many events of each process; it is consistent if no message is received inside and sent
//! outside. A consistent cut could have happened: some order of the same events passes through it.
//! [`walk`] finds all of them, level by level, with no more than two levels in memory.

mod asked;
mod draw;
mod events;
mod fact;
mod level;
mod state;
mod walk;

pub use self::asked::{
    AvoidedData, CutData, CutReport, EventData, EventsData, Known, KnownData, LatticeData, Request,
    SnapshotData, StoppedData, TornData, cut, cut_in_words, events, lattice, parse_cut,
};
pub use self::draw::{dot, svg};
pub use self::events::{Computation, Happening, Recorded, Scope, Sent};
pub use self::fact::{Fact, Flag, Number, POSSIBLE, Sign};
pub use self::state::{ChannelData, MessageData, NodeData, StateData, Status, brief};
pub use self::walk::{Definitely, MEMORY, Questions, Stop, Visitor, Walked, walk};
