//! Stable properties: what, once it is so of a whole system, stays so. A snapshot that shows it is
//! proof that it is so now, since the state that was recorded leads to the one that there is.

pub mod classifier;
pub mod deadlock;
pub mod detector;
pub mod garbage;
pub mod looks;
pub mod termination;
pub mod token_loss;

use conclave_protocol::family::reports::{DEADLOCKED, REPORTS, STRANDED, TERMINATED};
use conclave_protocol::family::stable::{LOOKS, RECORDS, RESTS, SEES};
use conclave_protocol::{HeardBy, Note, Observable, Observation, Property, Protocol};
use serde::{Deserialize, Serialize};

use crate::snapshot::Sid;

/// What an application asks of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Request<R> {
    /// To look until something is so. Asked at any time.
    Look,
    /// What the application inside asks of its own node.
    App(R),
}

/// What a node tells its application.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Notice<N> {
    /// The node has recorded its state.
    Recorded(Sid),
    /// What a snapshot shows.
    Sees(Sid, Outcome),
    /// This is so, a bit for each thing.
    Reports(u64),
    /// It looks no more.
    Rests,
    /// What the application inside is told.
    App(N),
}

/// What a snapshot shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// Some node goes on by itself.
    Running,
    /// All are passive, and some will go on when a message arrives, or when others have gone on.
    Blocked,
    /// All are passive, none waits, and nothing is on its way.
    Terminated,
    /// Some wait for each other, and nothing will release them.
    Deadlocked,
    /// Some wait for one that is done, and nothing will release them.
    Stranded,
}

impl Outcome {
    /// What it is, as far as it lasts, and whether any node goes on by itself.
    pub const fn of(lasting: u64, active: bool) -> Self {
        match lasting {
            it if it & DEADLOCKED != 0 => Self::Deadlocked,
            it if it & STRANDED != 0 => Self::Stranded,
            it if it & TERMINATED != 0 => Self::Terminated,
            _ if active => Self::Running,
            _ => Self::Blocked,
        }
    }
}

impl<R: Observable> Observable for Request<R> {
    fn observation(&self) -> Observation {
        match self {
            Self::Look => Observation::Note(Note { kind: LOOKS, ..Note::default() }),
            Self::App(request) => request.observation(),
        }
    }
}

impl<N: Observable> Observable for Notice<N> {
    fn observation(&self) -> Observation {
        let note = |kind, number, value| Note { kind, number, value, ..Note::default() };
        Observation::Note(match self {
            Self::Recorded(Sid(number)) => note(RECORDS, *number, 0),
            Self::Sees(Sid(number), outcome) => note(SEES, *number, *outcome as u64),
            Self::Reports(bits) => note(REPORTS, 0, *bits),
            Self::Rests => note(RESTS, 0, 0),
            Self::App(notice) => return notice.observation(),
        })
    }
}

impl<N> HeardBy for Notice<N> {
    type Client = Client;
}

/// An application that asks to look; what goes on inside needs no requests.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Client;

impl<R, P: Protocol<Request = Request<R>>> conclave_protocol::Client<P> for Client {
    fn requests(&self) -> impl IntoIterator<Item = Request<R>> {
        Some(Request::Look)
    }

    fn on_request(&mut self, _: &Request<R>) {}

    fn on_notice(&mut self, _: &P::Notice) {}
}

/// What is promised of every algorithm here.
const PROMISED: &[Property] = &[Property::Sound, Property::Reported];
const SOUND: &[Property] = &[Property::Sound];
