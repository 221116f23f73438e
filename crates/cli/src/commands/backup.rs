//! `conclave backup` and `conclave restore`.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use conclave_server::{NodeError, Restored, read_backup, restore as restore_into};
use serde_json::json;

use crate::service::{ServiceArgs, ServiceError, one_thread, plural, span};
use crate::{Done, Failure};

/// What to know about `conclave backup`, for `--help`.
pub const BACKUP_HELP: &str = "\
Examples:
  conclave backup /var/backups/conclave             while the node is up
  conclave restore /var/backups/conclave --data new-data

The file has the whole state as of one moment, with a checksum; it replaces an older one only when it is complete.
It needs the right of an operator, and only its owner may read it.";

/// Flags of `conclave backup`.
#[derive(Clone, Debug, clap::Args)]
pub struct Backup {
    /// Where the backup goes
    pub file: PathBuf,
    /// How a node is reached.
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// Writes down what a node knows.
pub fn backup(args: &Backup, out: &mut dyn Write) -> Result<Done, Failure> {
    let Backup { file, service } = args;
    let bytes = service.ask(async |client| client.backup().await)?;
    let read = read_backup(&bytes).map_err(|error| {
        ServiceError::Corrupt(format!("what the node sent is no backup: {error}"))
    })?;
    write(file, &bytes).map_err(|error| {
        ServiceError::Directory(format!("cannot write {}: {error}", file.display()))
    })?;
    let (size, token) = (bytes.len(), read.last_token.0);
    let counts = read.counts;
    if service.json {
        let value = json!({
            "file": file.to_string_lossy(), "bytes": size, "last_token": token,
            "sessions": counts.sessions, "locks": counts.locks, "elections": counts.elections,
        });
        writeln!(out, "{value}")?;
    } else {
        let sessions = plural(counts.sessions as u64, "session");
        let locks = plural(counts.locks as u64, "lock");
        writeln!(
            out,
            "{}: {size} bytes, {sessions}, {locks}, tokens up to {token}",
            file.display()
        )?;
    }
    Ok(Done::Well)
}

/// Replaces the file when the new one is complete.
fn write(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let fresh = file.with_file_name(name);
    let mut options = File::options();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    let mut new = options.open(&fresh)?;
    new.write_all(bytes)?;
    new.sync_all()?;
    fs::rename(&fresh, file)
}

/// What to know about `conclave restore`, for `--help`.
pub const RESTORE_HELP: &str = "\
Examples:
  conclave restore /var/backups/conclave --data new-data     from a backup
  conclave restore old-data/snapshot --data new-data         when the log in old-data is damaged
  conclave up --data new-data

Settings and the records of what operators did are kept. All sessions end and nothing is held: a client
that held a lock when the backup was made may have lost it since. Tokens go on at a number made from the time of
day, so they are greater than all that were ever granted: after the backup, and by what was restored from it
before, too. The clock of this machine has to be right. The directory has to be empty.

Stop the old node first. Clients of it may believe in their leases for a while, so the new node grants nothing at first: for
the longest time-to-live in the backup, and a minute at least. If there were longer ones since, say so with --wait; if no
client of the old node lives, --wait 0s.";

/// Flags of `conclave restore`.
#[derive(Clone, Debug, clap::Args)]
pub struct Restore {
    /// The backup, or the file `snapshot` of a directory
    pub file: PathBuf,
    /// The directory to make
    #[arg(long, value_name = "FOLDER", env = "CONCLAVE_DATA")]
    pub data: PathBuf,
    /// For how long after its first start the node grants nothing (by default the longest --ttl in the backup, a
    /// minute at least)
    #[arg(long, value_name = "TIME", env = "CONCLAVE_WAIT", value_parser = span)]
    pub wait: Option<Duration>,
    /// Print what was done as JSON
    #[arg(long, env = "CONCLAVE_JSON", help_heading = "Output")]
    pub json: bool,
}

/// Makes a directory from a backup.
pub fn restore(args: &Restore, out: &mut dyn Write) -> Result<Done, Failure> {
    let Restore { file, data, wait, json } = args;
    let bytes = fs::read(file).map_err(|error| {
        ServiceError::Directory(format!("cannot read {}: {error}", file.display()))
    })?;
    let restored = one_thread()?.block_on(restore_into(&bytes, data, *wait)).map_err(|error| {
        let text = error.to_string();
        match error {
            NodeError::InUse(_) => ServiceError::InUse(text),
            NodeError::Backup(_) => ServiceError::Corrupt(format!("{}: {text}", file.display())),
            _ => ServiceError::Directory(text),
        }
    })?;
    let Restored { tokens_after: token, wait } = restored;
    if *json {
        let value = json!({
            "data": data.to_string_lossy(), "tokens_after": token.0,
            "wait_ms": u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
        });
        writeln!(out, "{value}")?;
    } else {
        writeln!(out, "{} is ready: no sessions, tokens after {token}", data.display())?;
        if !wait.is_zero() {
            let seconds = wait.as_secs_f64();
            writeln!(
                out,
                "its node grants nothing for {seconds} s after its first start, because leases of before may last \
                 (--wait)"
            )?;
        }
        writeln!(out, "conclave up --data {}", data.display())?;
    }
    Ok(Done::Well)
}
