//! What is on disk: the log and snapshots, in records of their own.
//!
//! No type of another crate is written as that crate would: each record has a table of tags (`conclave-record`), a
//! version, a level and a checksum. The version says how it is encoded; the level, what its commands may contain and
//! what they do. A record of a higher level is never skipped or guessed at: the node does not start, and says so.
//!
//! ```text
//! DIR/lock             held by the process that uses the directory
//! DIR/snapshot         "conclav2", a head, the settings and the whole state; there from the beginning
//! DIR/journal/*.log    what came after it (conclave-journal)
//! DIR/before-2/        what the directory was before it was migrated, until the next clean stop
//! ```
//!
//! `log` is what a frame of the journal contains, `snapshot` the file of that name, `format_1` what version 0.1 wrote.

pub(crate) mod format_1;
pub(crate) mod log;
pub(crate) mod snapshot;

#[cfg(test)]
mod tests;

use std::io;

use conclave_journal::Stamp;
use conclave_machine::LEVEL;

use crate::{Batch, Member, Part};

/// How records are encoded.
pub(crate) const VERSION: u16 = 2;

/// What records are written with.
pub(crate) const STAMP: Stamp = Stamp { version: VERSION, level: LEVEL };

/// Refuses what a newer version has written.
pub(crate) fn check(stamp: Stamp) -> io::Result<()> {
    let Stamp { version, level } = stamp;
    if version == VERSION && level <= LEVEL {
        return Ok(());
    }
    Err(damaged(format!(
        "it has a record of format {version}, level {level}, and needs a version of conclave that knows these; this one, \
         {}, knows format {VERSION} up to level {LEVEL}",
        env!("CARGO_PKG_VERSION")
    )))
}

pub(crate) fn damaged(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

conclave_record::record!(Batch { 1 at, 2 parts, 3 day });
conclave_record::record!(Part { 1 origin, 2 number, 3 commands, 4 operators });
conclave_record::record!(Member { 1 name, 2 peer, 3 clients, 4 level });
