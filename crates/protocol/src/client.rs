use serde::{Deserialize, Serialize};

use crate::{NodeId, Protocol, Value};

/// The application at one node, reduced to what drivers need: what it may ask next, and what it
/// makes of what it is told.
///
/// Each family of algorithms has one. It drives runs and model checking alike, and the family's
/// properties are stated about it, so that no property looks inside an algorithm.
pub trait Client<P: Protocol>: Value + Default {
    /// What it may ask now. A run picks the first; the checker tries each.
    fn requests(&self) -> impl IntoIterator<Item = P::Request>;

    /// It has asked.
    fn on_request(&mut self, request: &P::Request);

    /// It has been told.
    fn on_notice(&mut self, notice: &P::Notice);
}

/// What a request or a notice means to the properties of its family.
///
/// Drivers know algorithms only through this: they record marks in traces, and costs and
/// properties are computed from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Observation {
    /// The application wants the critical section.
    Asked,
    /// It is inside, with this fencing token.
    Entered {
        /// Greater than the token of every earlier grant of the same lock.
        token: u64,
    },
    /// It has left.
    Left,
    /// It was inside and no longer is, without having asked to leave.
    Lost,
    /// The application calls for an election.
    Called,
    /// The node takes `leader` for the leader.
    Follows {
        /// Who leads.
        leader: NodeId,
        /// The counter of the term it leads in, without the winner's id: two may win the same.
        epoch: u64,
    },
    /// The node no longer takes anybody for the leader.
    Unled,
    /// The node has begun to suspect a peer.
    Suspects(NodeId),
    /// The node has stopped suspecting a peer.
    Trusts(NodeId),
    /// Something that only the family's own properties speak of.
    Note(Note),
    /// None of these.
    Other,
}

impl Observation {
    /// Whether the application asks for something new by it, rather than giving something back.
    pub fn is_ask(self) -> bool {
        matches!(self, Self::Asked | Self::Called | Self::Note(_) | Self::Other)
    }
}

/// What a family itself observes. [`Family::notes`](crate::Family::notes) has the words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Note {
    /// What kind of thing, as an index into the family's list.
    pub kind: u8,
    /// Which of several things it is about.
    pub number: u16,
    /// Which node it is about.
    pub who: NodeId,
    /// How much or which.
    pub value: u64,
}

/// A request or notice that says what it means.
pub trait Observable {
    /// What it means to the properties of its family.
    fn observation(&self) -> Observation;
}

impl Observable for crate::Never {
    fn observation(&self) -> Observation {
        match *self {}
    }
}
