//! Snapshots: what all nodes and all channels hold at once, recorded while an application goes on.

#[macro_use]
mod applications;
#[macro_use]
pub mod support;
pub mod app;
pub mod bank;
pub mod chandy_lamport;
pub mod checkpoint_restart;
pub mod consistent_cut;
pub mod diffusing;
pub mod lai_yang;
pub mod lattice;
pub mod mattern;
pub mod mattern_vector;
pub mod objects;
pub mod producer_consumer;
pub mod publishing;
pub mod recovery;
pub mod ring;
pub mod script;
pub mod section;
pub mod talk;

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::hash::Hash;
use std::time::Duration;

use conclave_protocol::family::snapshot::{
    CLOSES, COLLECTS, HOLDS, KNOWS, OWNS, RECORDS, STARTS, in_any_order, in_order,
};
use conclave_protocol::{
    HeardBy, NodeId, Note, Observable, Observation, Protocol, Written, fingerprint,
};
use serde::{Deserialize, Serialize};

use self::app::App;

/// The number of a snapshot. Each node numbers the snapshots that it starts itself, so that no two
/// get the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Sid(pub u16);

impl Sid {
    /// That of the snapshot which `initiator` starts after so many others, of so many nodes; `None`
    /// if the numbers are used up.
    pub fn new(initiator: NodeId, before: u32, nodes: u32) -> Option<Self> {
        let number = before.checked_mul(nodes)?.checked_add(initiator.0)?;
        u16::try_from(number).ok().map(Self)
    }

    /// The node that started it, of so many.
    pub fn initiator(self, nodes: u32) -> NodeId {
        NodeId(u32::from(self.0) % nodes)
    }
}

/// What an application asks of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Request<R> {
    /// To start a snapshot. Asked at any time.
    Snapshot,
    /// What the application inside asks of its own node.
    App(R),
}

/// What a node tells its application.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum Notice<P: Protocol> {
    /// At boot: what the node owns, where that adds up.
    Owns(u64),
    /// The node has recorded its state.
    Recorded(Sid),
    /// The marker from this node has come, and with it is known [what](in_this_order) was on its way
    /// from there; 0 if that is not.
    Closed(Sid, NodeId, u64),
    /// [What](in_whatever_order) was on its way from the first node to the second is known otherwise.
    Known(Sid, [NodeId; 2], u32),
    /// The node's part of the snapshot is finished, and what it holds, where that adds up.
    Finished(Box<Share<P>>, u64),
    /// The part of another node, or of this one, is finished where the snapshot was started, likewise.
    Gathered(NodeId, Box<Share<P>>, u64),
    /// All parts of a snapshot are here, where it was started, and what they hold.
    Collected(Box<GlobalState<P>>, u64),
    /// What has become of the node in a crash.
    Recovery(recovery::Recovery),
    /// What the application inside is told.
    App(P::Notice),
}

/// A node's part of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Share<P: Protocol> {
    /// The number of the snapshot.
    pub sid: Sid,
    /// The state of the application.
    pub state: P,
    /// Its timers that were running, each with how long it had been set for.
    pub timers: Vec<(P::Timer, Duration)>,
    /// What was on its way from each node, in the order in which it arrived.
    pub channels: BTreeMap<NodeId, Vec<P::Msg>>,
}

/// What a snapshot found: the state of every node, and what was on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct GlobalState<P: Protocol> {
    /// The number of the snapshot.
    pub sid: Sid,
    /// The parts.
    pub shares: BTreeMap<NodeId, Share<P>>,
}

/// As in `p0: 90, p1: 80, channel p1→p0: 20`. Channels with nothing on its way are left out.
impl<P: Protocol<Msg: Display> + Display> Display for GlobalState<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for (node, share) in &self.shares {
            write!(f, "{between}{node}: {}", share.state)?;
            between = ", ";
        }
        for (to, share) in &self.shares {
            for (from, messages) in share.channels.iter().filter(|(_, it)| !it.is_empty()) {
                let messages: Vec<String> = messages.iter().map(P::Msg::to_string).collect();
                write!(f, "{between}channel {from}→{to}: {}", messages.join(" then "))?;
            }
        }
        Ok(())
    }
}

/// What a notice shows of an application's states: a part of a snapshot, or all of them.
pub fn shown(node: NodeId, notice: &mut Written<'_>) -> Option<String> {
    match conclave_protocol::read::<Notice<App>>(notice)? {
        Notice::Gathered(node, share, _) => {
            let sid = share.sid;
            let part = GlobalState { sid, shares: BTreeMap::from([(node, *share)]) };
            Some(format!("part of #{}: {part}", sid.0))
        }
        Notice::Finished(share, _) => {
            let sid = share.sid;
            let part = GlobalState { sid, shares: BTreeMap::from([(node, *share)]) };
            Some(format!("part of #{}: {part}", sid.0))
        }
        Notice::Collected(whole, _) => Some(format!("snapshot #{}: {whole}", whole.sid.0)),
        _ => None,
    }
}

/// Messages in this order, as a judge compares them with those that were on their way.
pub fn in_this_order<M: Hash>(messages: &[M]) -> u64 {
    in_order(messages.iter().map(fingerprint))
}

/// Messages in whatever order, likewise.
pub fn in_whatever_order<M: Hash>(messages: &[M]) -> u32 {
    in_any_order(messages.iter().map(fingerprint))
}

impl<R: Observable> Observable for Request<R> {
    fn observation(&self) -> Observation {
        match self {
            Self::Snapshot => Observation::Note(Note { kind: STARTS, ..Note::default() }),
            Self::App(request) => request.observation(),
        }
    }
}

impl<P: Protocol> Observable for Notice<P> {
    fn observation(&self) -> Observation {
        let note = |kind, Sid(number)| Note { kind, number, ..Note::default() };
        Observation::Note(match self {
            Self::Owns(value) => Note { value: *value, ..note(OWNS, Sid(0)) },
            Self::Recorded(sid) => note(RECORDS, *sid),
            Self::Closed(sid, who, content) => {
                Note { who: *who, value: *content, ..note(CLOSES, *sid) }
            }
            Self::Known(sid, [from, to], content) => {
                let value = u64::from(to.0) << 32 | u64::from(*content);
                Note { who: *from, value, ..note(KNOWS, *sid) }
            }
            Self::Finished(share, value) => Note { value: *value, ..note(HOLDS, share.sid) },
            Self::Gathered(who, share, value) => {
                Note { who: *who, value: *value, ..note(HOLDS, share.sid) }
            }
            Self::Collected(whole, value) => Note { value: *value, ..note(COLLECTS, whole.sid) },
            Self::Recovery(recovery) => return recovery.observation(),
            Self::App(notice) => return notice.observation(),
        })
    }
}

impl<P: Protocol> HeardBy for Notice<P> {
    type Client = Client;
}

/// An application that asks for snapshots; what goes on inside needs no requests.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Client;

impl<R, P: Protocol<Request = Request<R>>> conclave_protocol::Client<P> for Client {
    fn requests(&self) -> impl IntoIterator<Item = Request<R>> {
        Some(Request::Snapshot)
    }

    fn on_request(&mut self, _: &Request<R>) {}

    fn on_notice(&mut self, _: &P::Notice) {}
}
