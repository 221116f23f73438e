//! Backups. What must survive is the counters, not the holders: a session that held a lock when the backup was made may
//! have lost it since. So a restored directory has no sessions, and its tokens are greater than all that were granted
//! before and after the backup.

use std::fs;
use std::io;
use std::path::Path;

use conclave_machine::{Counts, Machine, Token};

use crate::directory::claim;
use crate::format::log::Change;
use crate::format::snapshot::{self, Saved, Settings};
use crate::migrate::{JOURNAL, SNAPSHOT, begin_log};
use crate::node::NodeError;

/// What is in a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// How much there was of everything.
    pub counts: Counts,
    /// The greatest token that had been granted.
    pub last_token: Token,
}

/// Looks at a backup, which is a snapshot of format 2, and says what is in it.
pub fn read_backup(bytes: &[u8]) -> io::Result<Backup> {
    let machine = Saved::from_file(bytes)?.machine()?;
    Ok(Backup { counts: machine.counts(), last_token: machine.last_token() })
}

/// Makes a directory from a backup, and returns the token after which its own begin. A directory that has anything in it
/// is refused.
pub async fn restore(bytes: &[u8], directory: &Path) -> Result<Token, NodeError> {
    let bad = |error| NodeError::Directory { path: directory.to_owned(), error };
    let saved = Saved::from_file(bytes).and_then(|saved| saved.machine());
    let machine = saved.map_err(NodeError::Backup)?;
    let there = match fs::read_dir(directory) {
        Ok(mut files) => files.any(|file| file.is_ok_and(|file| file.file_name() != "lock")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(bad(error)),
    };
    if there {
        return Err(NodeError::NotEmpty(directory.to_owned()));
    }
    let _lock = claim(directory).await?;
    let renewed = machine.snapshot().renewed();
    let machine =
        Machine::restore(renewed.clone()).map_err(|error| bad(io::Error::other(error)))?;
    let settings = Settings::new();
    let machine_record = conclave_record::encode(&renewed);
    let saved = Saved { settings, applied: None, members: None, machine: machine_record };
    // The snapshot comes last: where there is one, there is a log.
    begin_log(&directory.join(JOURNAL), Change::default()).map_err(bad)?;
    snapshot::write(&directory.join(SNAPSHOT), &saved.to_file()).map_err(bad)?;
    Ok(machine.last_token())
}
