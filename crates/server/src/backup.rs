//! Backups. What must survive is the counters, not the holders: a session that held a lock when the backup was made may
//! have lost it since. So a restored directory has no sessions, and its tokens are greater than all that were granted
//! before and after the backup, and by whatever was restored from it before. It grants nothing until leases of before have
//! ended.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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

/// What was made from a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The tokens of the directory are greater.
    pub tokens_after: Token,
    /// For so long after its first start the node grants nothing.
    pub wait: Duration,
}

/// A node that was restored waits at least so long, because sessions that were opened after the backup are not in it.
const SHORTEST_WAIT: Duration = Duration::from_mins(1);

/// Where the counters of a directory begin that is restored now: each millisecond has 1,024 numbers, so that a node
/// that grants fewer than a million locks a second never gets as far as one that is restored later. Numbers stay
/// below 2^53, which every reader of JSON reads exactly, until the year 2248.
fn first_number(now: SystemTime) -> io::Result<u64> {
    let since = now.duration_since(UNIX_EPOCH).ok();
    let millis = since.and_then(|since| u64::try_from(since.as_millis()).ok());
    let number = millis.and_then(|millis| millis.checked_mul(1024));
    number.ok_or_else(|| io::Error::other("the clock of this machine is wrong: set it"))
}

#[expect(clippy::disallowed_methods, reason = "each restore is told from others by its moment")]
fn time_of_day() -> SystemTime {
    SystemTime::now()
}

/// Makes a directory from a backup. A directory that has anything in it is refused. Unless said otherwise, its node
/// grants nothing for as long as the longest time-to-live in the backup, and a minute at least.
pub async fn restore(
    bytes: &[u8],
    directory: &Path,
    wait: Option<Duration>,
) -> Result<Restored, NodeError> {
    let bad = |error| NodeError::Directory { path: directory.to_owned(), error };
    let read = || -> io::Result<_> {
        let saved = Saved::from_file(bytes)?;
        Ok((saved.machine()?, saved.calendar))
    };
    let (machine, calendar) = read().map_err(NodeError::Backup)?;
    let there = match fs::read_dir(directory) {
        Ok(mut files) => files.any(|file| file.is_ok_and(|file| file.file_name() != "lock")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(bad(error)),
    };
    if there {
        return Err(NodeError::NotEmpty(directory.to_owned()));
    }
    let _lock = claim(directory).await?;
    let snapshot = machine.snapshot();
    let longest = snapshot.longest_ttl().unwrap_or_default().max(SHORTEST_WAIT);
    let wait = wait.unwrap_or(longest);
    let renewed = snapshot.renewed(first_number(time_of_day()).map_err(bad)?);
    let machine =
        Machine::restore(renewed.clone()).map_err(|error| bad(io::Error::other(error)))?;
    let grants_from = (!wait.is_zero()).then(|| machine.now() + wait);
    let settings = Settings { grants_from, ..Settings::new() };
    let machine_record = conclave_record::encode(&renewed);
    let saved = Saved { settings, applied: None, members: None, machine: machine_record, calendar };
    // The snapshot comes last: where there is one, there is a log.
    begin_log(&directory.join(JOURNAL), Change::default()).map_err(bad)?;
    snapshot::write(&directory.join(SNAPSHOT), &saved.to_file()).map_err(bad)?;
    Ok(Restored { tokens_after: machine.last_token(), wait })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_restore_begins_above_what_an_earlier_one_can_have_granted_and_below_what_json_reads() {
        let year = Duration::from_secs(365 * 86_400);
        let at = |years: u32| UNIX_EPOCH + years * year;
        let number = |now| first_number(now).expect("the clock is right");
        assert!(number(at(56) + Duration::from_millis(1)) > number(at(56)));
        assert!(number(at(57)) - number(at(56)) > 1_000_000 * year.as_secs());
        assert!(number(at(270)) < 1 << 53);
        assert!(first_number(UNIX_EPOCH - year).is_err());
    }
}
