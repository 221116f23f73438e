//! The content of a frame of the log.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use conclave_record::{
    Unreadable, Value, Wire, put_key, put_nested, read_as, read_key, read_nested, record, skip,
};
use openraft::alias::{EntryOf, LogIdOf, VoteOf};
use openraft::vote::RaftLeaderId;
use openraft::{EntryPayload, Membership, RaftTypeConfig};

use super::damaged;
use crate::{Batch, Member, Types};

/// Changes of the log, in this order. The first of a file says everything that files before it said, except for
/// entries.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Change {
    pub(crate) vote: Option<VoteOf<Types>>,
    pub(crate) purged: Option<LogIdOf<Types>>,
    /// This entry and those after it are void.
    pub(crate) void_from: Option<u64>,
    pub(crate) entries: Vec<EntryOf<Types>>,
}

/// For whom a member has voted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vote {
    pub(crate) term: u64,
    pub(crate) node: u64,
    pub(crate) committed: bool,
}

/// Which entry, and who wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Id {
    pub(crate) term: u64,
    pub(crate) node: u64,
    pub(crate) index: u64,
}

/// Who belongs to the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Members {
    /// Whose majorities count: one set, or two while that changes.
    pub(crate) voters: Vec<Vec<u64>>,
    pub(crate) all: Vec<(u64, Member)>,
}

record!(Vote { 1 term, 2 node, 3 committed });
record!(Id { 1 term, 2 node, 3 index });
record!(Members { 1 voters, 2 all });

type LeaderId = <Types as RaftTypeConfig>::LeaderId;
type Membered = Membership<u64, Member>;

impl From<VoteOf<Types>> for Vote {
    fn from(vote: VoteOf<Types>) -> Self {
        let LeaderId { term, node_id } = vote.leader_id;
        Self { term, node: node_id, committed: vote.committed }
    }
}

impl From<Vote> for VoteOf<Types> {
    fn from(vote: Vote) -> Self {
        Self { leader_id: LeaderId::new(vote.term, vote.node), committed: vote.committed }
    }
}

impl From<LogIdOf<Types>> for Id {
    fn from(id: LogIdOf<Types>) -> Self {
        Self { term: id.leader_id.term, node: id.leader_id.node_id, index: id.index }
    }
}

impl From<Id> for LogIdOf<Types> {
    fn from(id: Id) -> Self {
        Self::new(LeaderId::new(id.term, id.node).to_committed(), id.index)
    }
}

impl From<&Membered> for Members {
    fn from(members: &Membered) -> Self {
        let voters = members.get_joint_config().iter().map(|set| set.iter().copied().collect());
        let all = members.nodes().map(|(&id, member)| (id, member.clone()));
        Self { voters: voters.collect(), all: all.collect() }
    }
}

impl TryFrom<Members> for Membered {
    type Error = Unreadable;

    fn try_from(members: Members) -> Result<Self, Unreadable> {
        let voters: Vec<BTreeSet<u64>> =
            members.voters.into_iter().map(|set| set.into_iter().collect()).collect();
        let all: BTreeMap<u64, Member> = members.all.into_iter().collect();
        Self::new(voters, all).map_err(|_| Unreadable::Bad("set of members"))
    }
}

/// Appends what a change is written as.
pub(crate) fn encode(change: &Change, out: &mut Vec<u8>) {
    let Change { vote, purged, void_from, entries } = change;
    vote.map(Vote::from).put(1, out);
    purged.map(Id::from).put(2, out);
    void_from.put(3, out);
    for entry in entries {
        put_key(4, Wire::Bytes, out);
        put_nested(out, |out| {
            Id::from(entry.log_id).put(1, out);
            match &entry.payload {
                EntryPayload::Blank => {
                    put_key(2, Wire::Bytes, out);
                    out.push(0);
                }
                EntryPayload::Normal(batch) => batch.put(3, out),
                EntryPayload::Membership(members) => Members::from(members).put(4, out),
            }
        });
    }
}

/// Reads a change.
pub(crate) fn decode(bytes: &[u8]) -> io::Result<Change> {
    read(bytes).map_err(damaged)
}

fn read(mut bytes: &[u8]) -> Result<Change, Unreadable> {
    let mut change = Change::default();
    while let Some((tag, wire)) = read_key(&mut bytes)? {
        match tag {
            1 => change.vote = Some(read_as::<Vote>(wire, &mut bytes)?.into()),
            2 => change.purged = Some(read_as::<Id>(wire, &mut bytes)?.into()),
            3 => change.void_from = Some(read_as(wire, &mut bytes)?),
            4 if wire == Wire::Bytes => change.entries.push(read_entry(read_nested(&mut bytes)?)?),
            // What changes the log cannot be passed over.
            tag => return Err(Unreadable::Unknown { of: "change of the log", tag }),
        }
    }
    Ok(change)
}

fn read_entry(mut bytes: &[u8]) -> Result<EntryOf<Types>, Unreadable> {
    let (mut id, mut payload) = (None, None);
    while let Some((tag, wire)) = read_key(&mut bytes)? {
        match tag {
            1 => id = Some(read_as::<Id>(wire, &mut bytes)?),
            2 => {
                skip(wire, &mut bytes)?;
                payload = Some(EntryPayload::Blank);
            }
            3 => payload = Some(EntryPayload::Normal(read_as::<Batch>(wire, &mut bytes)?)),
            4 => {
                let members = read_as::<Members>(wire, &mut bytes)?.try_into()?;
                payload = Some(EntryPayload::Membership(members));
            }
            tag => return Err(Unreadable::Unknown { of: "entry of the log", tag }),
        }
    }
    let log_id = id.ok_or(Unreadable::Missing("entry's number"))?.into();
    let payload = payload.ok_or(Unreadable::Unknown { of: "entry of the log", tag: 0 })?;
    Ok(EntryOf::<Types> { log_id, payload })
}
