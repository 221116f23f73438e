//! The file of a snapshot: the settings of the cluster, and the whole state as of one entry of the log.
//!
//! ```text
//! file   "conclav2", version (2 bytes), level (2), crc32 of these and of the record (4), record
//! ```

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use conclave_journal::Stamp;
use conclave_machine::{Machine, Snapshot, Time};
use conclave_record::record;
use openraft::alias::{SnapshotMetaOf, StoredMembershipOf};

use super::log::{Id, Members};
use super::{STAMP, check, damaged};
use crate::Types;
use crate::calendar::Calendar;

/// What a snapshot file contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Saved {
    pub(crate) settings: Settings,
    /// The last entry that is part of it.
    pub(crate) applied: Option<Id>,
    pub(crate) members: Option<StoredMembers>,
    /// The machine's state, as a record.
    pub(crate) machine: Vec<u8>,
    /// The time that is not in the log; none in snapshots of before that was kept.
    pub(crate) calendar: Option<Calendar>,
}

/// What all members of a cluster have to agree on, from when it is begun. What the machine is made with is part of its
/// state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Tells this cluster from all others.
    pub(crate) cluster: [u8; 16],
    /// Before this nothing is granted: the directory was restored, and leases that an earlier node granted may last.
    pub(crate) grants_from: Option<Time>,
}

/// Who belongs to the cluster, and which entry says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredMembers {
    pub(crate) said_by: Option<Id>,
    pub(crate) members: Members,
}

record!(Saved { 1 settings, 2 applied, 3 members, 4 machine, 5 calendar });
record!(Settings { 1 cluster, 2 grants_from });
record!(StoredMembers { 1 said_by, 2 members });

/// How a file begins.
const MAGIC: &[u8; 8] = b"conclav2";
const HEAD: usize = 16;

impl Settings {
    /// Those of a new cluster.
    pub(crate) fn new() -> Self {
        let mut cluster = [0; 16];
        getrandom::fill(&mut cluster).expect("the system has random numbers");
        Self { cluster, grants_from: None }
    }
}

impl Saved {
    /// What is to be written down.
    pub(crate) fn new(
        settings: Settings,
        meta: &SnapshotMetaOf<Types>,
        machine: &Snapshot,
        calendar: Calendar,
    ) -> Self {
        let membership = &meta.last_membership;
        let members = (membership.log_id().is_some()).then(|| StoredMembers {
            said_by: membership.log_id().map(Id::from),
            members: Members::from(membership.membership()),
        });
        let machine = conclave_record::encode(machine);
        Self {
            settings,
            applied: meta.last_log_id.map(Id::from),
            members,
            machine,
            calendar: Some(calendar),
        }
    }

    pub(crate) fn meta(&self) -> io::Result<SnapshotMetaOf<Types>> {
        let last_membership = match &self.members {
            None => StoredMembershipOf::<Types>::default(),
            Some(StoredMembers { said_by, members }) => {
                let members = members.clone().try_into().map_err(damaged)?;
                StoredMembershipOf::<Types>::new(said_by.map(Into::into), members)
            }
        };
        Ok(SnapshotMetaOf::<Types> { last_log_id: self.applied.map(Into::into), last_membership })
    }

    pub(crate) fn machine(&self) -> io::Result<Machine> {
        let snapshot: Snapshot = conclave_record::decode(&self.machine).map_err(damaged)?;
        Machine::restore(snapshot).map_err(damaged)
    }

    /// The whole file.
    pub(crate) fn to_file(&self) -> Vec<u8> {
        let body = conclave_record::encode(self);
        let mut file = Vec::with_capacity(HEAD + body.len());
        file.extend(MAGIC);
        file.extend(STAMP.version.to_be_bytes());
        file.extend(STAMP.level.to_be_bytes());
        file.extend(sum(STAMP, &body).to_be_bytes());
        file.extend(body);
        file
    }

    pub(crate) fn from_file(bytes: &[u8]) -> io::Result<Self> {
        let Some(rest) = bytes.strip_prefix(MAGIC) else {
            let newer = bytes.starts_with(b"conclav") && bytes.get(7).is_some_and(|&n| n > b'2');
            return Err(damaged(if newer {
                "it was written by a newer version of conclave, and needs that"
            } else {
                "it is none of ours"
            }));
        };
        let two = |at| rest.get(at..).and_then(|rest| rest.first_chunk()).copied();
        let (Some(version), Some(level)) = (two(0), two(2)) else {
            return Err(damaged("it is cut off"));
        };
        let (version, level) = (u16::from_be_bytes(version), u16::from_be_bytes(level));
        let stamp = Stamp { version, level };
        check(stamp)?;
        let (said, body) = rest[4..].split_first_chunk().ok_or_else(|| damaged("it is cut off"))?;
        if sum(stamp, body) != u32::from_be_bytes(*said) {
            return Err(damaged("its checksum is wrong"));
        }
        conclave_record::decode(body).map_err(damaged)
    }
}

fn sum(stamp: Stamp, body: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&stamp.version.to_be_bytes());
    sum.update(&stamp.level.to_be_bytes());
    sum.update(body);
    sum.finalize()
}

/// Reads a snapshot, if there is one.
pub(crate) fn read(file: &Path) -> io::Result<Option<Saved>> {
    match fs::read(file) {
        Ok(bytes) => Saved::from_file(&bytes).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces the file by one that is complete, or leaves it as it is.
pub(crate) fn write(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let fresh = prepare(file, bytes)?;
    fs::rename(&fresh, file)?;
    let directory = file.parent().expect("the file is in a directory");
    File::open(directory)?.sync_all()
}

/// Writes what is going to replace the file, and says where.
pub(crate) fn prepare(file: &Path, bytes: &[u8]) -> io::Result<std::path::PathBuf> {
    let fresh = file.with_extension("new");
    let written = (|| {
        let mut options = File::options();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        let mut out = options.open(&fresh)?;
        out.write_all(bytes)?;
        out.sync_all()
    })();
    if let Err(error) = written {
        // On a full disk, the room it took is needed for the log.
        let _ = fs::remove_file(&fresh);
        return Err(error);
    }
    Ok(fresh)
}
