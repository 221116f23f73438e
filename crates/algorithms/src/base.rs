//! Foundations that run: putting events into an order.

pub mod physical_clock;

use std::time::Duration;

use conclave_protocol::{HeardBy, Observable, Observation, Protocol};
use serde::{Deserialize, Serialize};

/// What an application asks of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Request {
    /// To stamp the event that happens right now. Asked at any time.
    Stamp,
}

/// What a node tells its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Notice {
    /// When an event happened, as nearly as is known. Ties are broken by the node.
    Stamped {
        /// Nanoseconds by the common clock; a bad estimate may lie before its beginning.
        nanos: i64,
        /// How far off that may be, either way.
        uncertainty: Duration,
    },
    /// An event could not be stamped yet; it is being tried again.
    Unordered,
}

impl Observable for Request {
    fn observation(&self) -> Observation {
        Observation::Other
    }
}

impl HeardBy for Notice {
    type Client = Client;
}

impl Observable for Notice {
    fn observation(&self) -> Observation {
        Observation::Other
    }
}

/// An algorithm that stamps events: any protocol with this family's requests and notices.
pub trait Algorithm: Protocol<Request = Request, Notice = Notice> {}

impl<P: Protocol<Request = Request, Notice = Notice>> Algorithm for P {}

/// An application that has events stamped and collects the stamps.
#[derive(Clone, Default, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Client {
    /// Nanoseconds and uncertainty of each stamp.
    pub stamps: Vec<(i64, Duration)>,
    /// How often a stamp was late.
    pub late: u32,
}

impl<P: Algorithm> conclave_protocol::Client<P> for Client {
    fn requests(&self) -> impl IntoIterator<Item = Request> {
        Some(Request::Stamp)
    }

    fn on_request(&mut self, _: &Request) {}

    fn on_notice(&mut self, notice: &Notice) {
        match *notice {
            Notice::Stamped { nanos, uncertainty } => self.stamps.push((nanos, uncertainty)),
            Notice::Unordered => self.late += 1,
        }
    }
}
