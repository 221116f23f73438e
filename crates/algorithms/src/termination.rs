//! Termination: finding out that a work which spreads from node to node is done, so that all nodes
//! are passive and no message is on its way that would wake one.

pub mod dijkstra_scholten;
pub mod safra;

use conclave_protocol::claims::Check;
use conclave_protocol::family::reports::{REPORTS, TERMINATED};
use conclave_protocol::{HeardBy, Note, Observable, Observation, Property, Protocol};
use serde::{Deserialize, Serialize};

/// What is done by all nodes together, and has an end.
pub trait Work: Protocol {
    /// Whether the node does nothing before a message arrives.
    fn is_passive(&self) -> bool;
}

/// What a node tells its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Notice<N> {
    /// The work is done everywhere.
    Terminated,
    /// What the work itself tells.
    App(N),
}

impl<N: Observable> Observable for Notice<N> {
    fn observation(&self) -> Observation {
        match self {
            Self::Terminated => {
                Observation::Note(Note { kind: REPORTS, value: TERMINATED, ..Note::default() })
            }
            Self::App(notice) => notice.observation(),
        }
    }
}

impl<N> HeardBy for Notice<N> {
    type Client = Client;
}

/// An application that asks for nothing.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Client;

impl<P: Protocol> conclave_protocol::Client<P> for Client {
    fn requests(&self) -> impl IntoIterator<Item = P::Request> {
        None
    }

    fn on_request(&mut self, _: &P::Request) {}

    fn on_notice(&mut self, _: &P::Notice) {}
}

/// What is true of the work, however its end is found: whether it is done. A node that is down does
/// nothing.
pub fn facts<'a, W: Work>(
    mut nodes: impl Iterator<Item = &'a W>,
    mut messages: impl Iterator<Item = &'a W::Msg>,
) -> u64 {
    match nodes.all(W::is_passive) && messages.next().is_none() {
        true => TERMINATED,
        false => 0,
    }
}

/// What is promised of every algorithm here.
const PROMISED: &[Property] = &[Property::Sound, Property::Reported];
const SOUND: &[Property] = &[Property::Sound];

/// A system of so many nodes, with this work in it.
const fn check(nodes: u32, set: &'static [(&'static str, &'static str)]) -> Check {
    Check::new(nodes, PROMISED).set(set)
}
