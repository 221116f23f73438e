//! Failure detection: every node forms an opinion on which of the others have crashed.
//!
//! A detector is a protocol that is asked nothing and tells its application which peers it suspects.
//! A protocol [`With`](support::with::With) a detector beside it is told instead of an application,
//! through its rules for suspicion and trust.

pub mod busy_or_dead;
pub mod heartbeat;
pub mod heartbeat_ring;
pub mod phi_accrual;
pub mod support;
pub mod timeout_sync;

use std::time::Duration;

use conclave_protocol::Property::{self, Accuracy, Completeness};
use conclave_protocol::{
    HeardBy, Never, NodeId, NodeSet, Observable, Observation, Protocol, Setup, Unfit,
};
use serde::{Deserialize, Serialize};

/// What every detector promises.
pub const COMPLETE: &[Property] = &[Completeness];
/// And those that are never wrong.
pub const PERFECT: &[Property] = &[Completeness, Accuracy];

/// Room between two questions for every time-out.
const ROOM: &[(&str, &str)] = &[("interval", "10")];

/// What a node tells its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Notice {
    /// This peer is taken for dead from now on.
    Suspects(NodeId),
    /// This peer is no longer taken for dead.
    Trusts(NodeId),
}

impl HeardBy for Notice {
    type Client = Client;
}

impl Observable for Notice {
    fn observation(&self) -> Observation {
        match *self {
            Self::Suspects(peer) => Observation::Suspects(peer),
            Self::Trusts(peer) => Observation::Trusts(peer),
        }
    }
}

/// A detector that can be run by itself: it is asked nothing and tells what it thinks.
pub trait Algorithm: Protocol<Request = Never, Notice = Notice> {}

impl<P: Protocol<Request = Never, Notice = Notice>> Algorithm for P {}

/// An application that keeps the list of the suspected.
#[derive(Clone, Default, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Client {
    /// The peers that its node suspects.
    pub suspects: NodeSet,
}

impl<P: Algorithm> conclave_protocol::Client<P> for Client {
    fn requests(&self) -> impl IntoIterator<Item = Never> {
        None
    }

    fn on_request(&mut self, request: &Never) {
        match *request {}
    }

    fn on_notice(&mut self, notice: &Notice) {
        match *notice {
            Notice::Suspects(peer) => self.suspects.insert(peer),
            Notice::Trusts(peer) => self.suspects.remove(peer),
        };
    }
}

/// How often to ask, as the option `interval` says, and how long an answer can take, which is no
/// longer.
fn rounds(setup: &Setup) -> Result<(Duration, Duration), Unfit> {
    let (interval, timeout) = (units(setup, "interval", 5)?, setup.delay * 2 + setup.processing);
    match interval < timeout {
        true => Err(Unfit::new("interval is shorter than the time-out of 2T + Tproc")),
        false => Ok((interval, timeout)),
    }
}

/// The option `name`, a number of units `T` of which there has to be at least one.
fn units(setup: &Setup, name: &str, default: u32) -> Result<Duration, Unfit> {
    match setup.option::<u32>(name, default)? {
        0 => Err(Unfit::new(format!("{name}=0, but it has to be at least 1"))),
        units => Ok(setup.delay * units),
    }
}
