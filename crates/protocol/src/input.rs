use serde::{Deserialize, Serialize};

use crate::{Handle, NodeId, Protocol, TimerKey};

/// An event at a node, as data: what a driver feeds to [`Protocol::step`] and a replay feeds back.
///
/// Requests, messages and timers are of whatever type stands for them: the algorithm's own types
/// at its rules ([`InputOf`]), places and handles at a driver ([`HostInput`]), numbers at one that
/// compares many states ([`NumberedInput`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Input<R, M, T> {
    /// The application asks.
    Request(R),
    /// A message arrives.
    Message {
        /// Its sender.
        from: NodeId,
        /// What it says.
        msg: M,
    },
    /// A timer runs out.
    Timer(T),
    /// The failure detector suspects a node.
    Suspect(NodeId),
    /// The failure detector trusts a node again.
    Restore(NodeId),
    /// The operator wants this node in, through a sponsor.
    Join(NodeId),
    /// The operator wants this node out.
    Leave,
}

/// What the rules of `P` get.
pub type InputOf<P> = Input<<P as Protocol>::Request, <P as Protocol>::Msg, <P as Protocol>::Timer>;

/// Input without the algorithm's types, as a [`Host`](crate::Host) gets it: a request is known by
/// its place among those that the application may make.
pub type HostInput = Input<usize, Handle, TimerKey>;

/// Input with numbers for values, as [`Numbered`](crate::Numbered) gets it.
pub type NumberedInput = Input<u32, u32, u32>;

impl<R, M, T> Input<R, M, T> {
    /// The same event with other types for requests, messages and timers.
    #[inline(always)]
    pub fn map<R2, M2, T2>(
        self,
        request: impl FnOnce(R) -> R2,
        msg: impl FnOnce(M) -> M2,
        timer: impl FnOnce(T) -> T2,
    ) -> Input<R2, M2, T2> {
        match self {
            Self::Request(it) => Input::Request(request(it)),
            Self::Message { from, msg: it } => Input::Message { from, msg: msg(it) },
            Self::Timer(it) => Input::Timer(timer(it)),
            Self::Suspect(peer) => Input::Suspect(peer),
            Self::Restore(peer) => Input::Restore(peer),
            Self::Join(sponsor) => Input::Join(sponsor),
            Self::Leave => Input::Leave,
        }
    }
}
