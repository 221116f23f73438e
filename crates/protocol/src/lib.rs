//! The one trait every algorithm implements, and the few types it speaks in.
//!
//! Read [`Protocol`] first, then [`Ctx`]. Nothing in this crate, and nothing in a crate that
//! implements a protocol, touches a socket, a clock, a thread or a random number generator: a
//! rule is a pure function of a node's state and one input. That is what lets the same code run
//! in the simulator, in the model checker and on a network.
//!
//! What the catalogue says about an algorithm — its assumptions, its promises — is in [`Info`].

mod algorithm;
mod bench;
mod bounded_counter;
pub mod claims;
mod client;
mod clock;
mod ctx;
mod decision;
mod detecting;
pub mod family;
mod fingerprint;
mod host;
mod info;
mod input;
mod label;
mod labels;
mod node;
mod numbered;
mod permute;
mod protocol;
mod reliable;
mod setup;
pub mod theory;
mod time;
mod topology;

pub use algorithm::{Algorithm, HeardBy};
pub use bench::{At, Bench};
pub use bounded_counter::BoundedCounter;
pub use client::{Client, Note, Observable, Observation};
pub use clock::{Causality, Lamport, Stamp, VectorClock};
pub use ctx::{Ctx, Effect, Effects};
pub use decision::{Action, Decision};
pub use detecting::{Detecting, Knob};
pub use family::{
    About, Asking, Family, Fault, Lasting, Law, NoteKind, Now, Owed, Passage, Promise, Says, Tempo,
    Those, Traffic, Watch,
};
pub use fingerprint::fingerprint;
pub use host::{Handle, Host, Hosted, Message, Outside, Ran, Shown, TimerKey, Turn};
pub use info::{
    Bare, Channels, Crashes, Detector, Info, Links, Model, Mutant, Opt, Part, Property, Recorded,
    Shows, Timing, Writable, Written, read, writable,
};
pub use input::{HostInput, Input, InputOf, NumberedInput};
pub use label::label;
pub use labels::labels;
pub use node::{NodeId, NodeSet, names};
pub use numbered::{Kind, Numbered, NumberedEffect, Reaction};
pub use permute::renamed;
pub use protocol::{Charge, Entry, Never, Protocol, Value, Whole};
pub use reliable::{Place, Reliable, ReliableMsg, ReliableTimer};
pub use setup::{Rank, Ranks, Setup, Unfit};
pub use time::Time;
pub use topology::{KeySpace, Point, Topology, TopologyError};
