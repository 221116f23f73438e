//! What version 0.1 wrote: openraft's types and the machine's as postcard has them, written down here as they were then.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use conclave_machine_v1 as old;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::damaged;
use super::log::{Id, Members, Vote};
use super::snapshot::StoredMembers;
use crate::Member;

/// The state that a directory of format 1 comes to.
pub(crate) struct Read {
    pub(crate) machine: old::Machine,
    pub(crate) vote: Option<Vote>,
    pub(crate) applied: Option<Id>,
    pub(crate) members: Option<StoredMembers>,
    /// What was cut off the end of the log.
    pub(crate) cut_off: Option<conclave_journal::CutOff>,
}

/// Which part of a directory cannot be read, and why.
#[derive(Debug)]
pub(crate) enum Unread {
    Config(io::Error),
    Snapshot(io::Error),
    Log(io::Error),
}

#[derive(Deserialize)]
struct OldVote {
    leader: OldLeader,
    committed: bool,
}

#[derive(Deserialize)]
struct OldLeader {
    term: u64,
    node: u64,
}

#[derive(Deserialize)]
struct OldId {
    leader: OldLeader,
    index: u64,
}

#[derive(Deserialize)]
struct Change {
    vote: Option<OldVote>,
    purged: Option<OldId>,
    void_from: Option<u64>,
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    id: OldId,
    payload: Payload,
}

#[derive(Deserialize)]
enum Payload {
    Blank,
    Normal(Batch),
    Membership(Membership),
}

#[derive(Deserialize)]
struct Batch {
    #[expect(dead_code, reason = "by which its writer knew it again")]
    number: u64,
    at: old::Time,
    commands: Vec<old::Command>,
}

#[derive(Deserialize)]
struct Membership {
    voters: Vec<BTreeSet<u64>>,
    all: BTreeMap<u64, OldMember>,
}

#[derive(Deserialize)]
struct OldMember {
    address: String,
}

#[derive(Deserialize)]
struct Saved {
    applied: Option<OldId>,
    members_said_by: Option<OldId>,
    members: Membership,
    #[expect(dead_code, reason = "it was always empty")]
    name: String,
    machine: Vec<u8>,
}

impl From<OldId> for Id {
    fn from(OldId { leader, index }: OldId) -> Self {
        Self { term: leader.term, node: leader.node, index }
    }
}

impl From<OldVote> for Vote {
    fn from(OldVote { leader, committed }: OldVote) -> Self {
        Self { term: leader.term, node: leader.node, committed }
    }
}

impl From<Membership> for Members {
    fn from(Membership { voters, all }: Membership) -> Self {
        let voters = voters.into_iter().map(|set| set.into_iter().collect()).collect();
        let member =
            |(id, OldMember { address })| (id, Member { clients: address, ..Member::default() });
        Self { voters, all: all.into_iter().map(member).collect() }
    }
}

/// Reads a directory of format 1 and carries out what is in its log, as version 0.1 would have done.
pub(crate) fn read(directory: &Path) -> Result<Read, Unread> {
    let saved = read_file::<Saved>(&directory.join("snapshot")).map_err(Unread::Snapshot)?;
    let mut read = match saved {
        Some(saved) => {
            let state: old::Snapshot = postcard::from_bytes(&saved.machine)
                .map_err(|error| Unread::Snapshot(damaged(error)))?;
            let machine = old::Machine::restore(state);
            Read {
                machine: machine.map_err(|error| Unread::Snapshot(damaged(error)))?,
                vote: None,
                applied: saved.applied.map(Id::from),
                members: Some(StoredMembers {
                    said_by: saved.members_said_by.map(Id::from),
                    members: saved.members.into(),
                }),
                cut_off: None,
            }
        }
        None => {
            let config = read_file(&directory.join("config")).map_err(Unread::Config)?;
            let config = config.ok_or_else(|| Unread::Config(damaged("it is missing")))?;
            let machine = old::Machine::new(config);
            Read { machine, vote: None, applied: None, members: None, cut_off: None }
        }
    };
    let log = directory.join("log");
    read_log(&log, &mut read).map_err(Unread::Log)?;
    Ok(read)
}

fn read_log(log: &Path, read: &mut Read) -> io::Result<()> {
    let (mut entries, mut purged) = (BTreeMap::<u64, Entry>::new(), None::<Id>);
    let mut show = |content: &[u8]| {
        let change: Change = postcard::from_bytes(content).map_err(damaged)?;
        read.vote = change.vote.map(Vote::from).or(read.vote);
        if let Some(upto) = change.purged {
            entries = entries.split_off(&(upto.index + 1));
            purged = Some(upto.into());
        }
        if let Some(from) = change.void_from {
            entries.split_off(&from);
        }
        entries.extend(change.entries.into_iter().map(|entry| (entry.id.index, entry)));
        Ok(())
    };
    read.cut_off = conclave_journal::read_format_1(log, &mut show)?;
    if read.applied.is_some() && read.vote.is_none() {
        return Err(damaged("what came after the snapshot is missing"));
    }
    let next = |id: Option<Id>| id.map_or(0, |id| id.index + 1);
    if next(purged) > next(read.applied) {
        return Err(damaged("the snapshot that came before the log is missing"));
    }
    for (expected, (index, entry)) in (next(purged)..).zip(entries) {
        if index != expected {
            return Err(damaged(format!("entry {expected} is missing")));
        }
        if index < next(read.applied) {
            continue;
        }
        let id = entry.id.into();
        match entry.payload {
            Payload::Blank => {}
            Payload::Normal(batch) => {
                for command in batch.commands {
                    // What came of it was told when it was written.
                    let _ = read.machine.apply(batch.at, command, &mut Vec::new());
                }
            }
            Payload::Membership(members) => {
                read.members = Some(StoredMembers { said_by: Some(id), members: members.into() });
            }
        }
        read.applied = Some(id);
    }
    Ok(())
}

fn read_file<T: DeserializeOwned>(file: &Path) -> io::Result<Option<T>> {
    let bytes = match fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let body = bytes.strip_prefix(b"conclav1").ok_or_else(|| damaged("it is none of ours"))?;
    let (sum, body) = body.split_first_chunk().ok_or_else(|| damaged("it is cut off"))?;
    if crc32fast::hash(body) != u32::from_be_bytes(*sum) {
        return Err(damaged("its checksum is wrong"));
    }
    postcard::from_bytes(body).map(Some).map_err(damaged)
}
