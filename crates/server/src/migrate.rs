//! A directory of format 1 becomes one of format 2: what is there is read, a new snapshot and an empty log are written
//! beside it, and one rename makes them count. Until then the old files count, and are as they were; afterwards they are
//! kept in `before-2` until the node was stopped once.

#[cfg(test)]
mod tests;

use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind::{DirectoryNotEmpty, NotADirectory, NotFound};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use crate::format::format_1::{self, Unread};
use crate::format::log::Change;
use crate::format::snapshot::{self, Saved, Settings};
use crate::keys::digest;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::node::NodeError;

/// Where the log is.
pub(crate) const JOURNAL: &str = "journal";
/// Where the whole state is.
pub(crate) const SNAPSHOT: &str = "snapshot";
/// Where the files of format 1 are kept.
pub(crate) const BEFORE: &str = "before-2";

/// What kind of directory it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It has no snapshot, with which format 2 begins, and nothing of format 1; other files are none of the node's.
    Nothing,
    /// Version 0.1 wrote it.
    Format1,
    /// It has a snapshot of format 2, or something that is none of ours.
    Format2,
}

/// Looks at what is in a directory.
pub(crate) fn look(directory: &Path) -> io::Result<Found> {
    match begin(&directory.join(SNAPSHOT)) {
        Ok(bytes) if bytes == STATE_1 => Ok(Found::Format1),
        Ok(_) => Ok(Found::Format2),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        // One file is enough: if the others cannot be read, that has to be said.
        Err(_) if is_state(directory, "config") || files_of_log(directory)?.contains(&true) => {
            Ok(Found::Format1)
        }
        Err(_) => Ok(Found::Nothing),
    }
}

/// How the files of format 1 begin that have a state or the settings in them, and those of its log.
const STATE_1: &[u8] = b"conclav1";
const LOG_1: &[u8] = b"conclog1";

/// How a file begins.
fn begin(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(8).read_to_end(&mut bytes).map(|_| bytes)
}

/// Whether a file is one of format 1, and no other that is called the same.
fn is_state(directory: &Path, name: &str) -> bool {
    begin(&directory.join(name)).is_ok_and(|bytes| bytes == STATE_1)
}

/// What is in a directory called `log`, if there is one: whether each is a file of format 1.
fn files_of_log(directory: &Path) -> io::Result<Vec<bool>> {
    let log = directory.join("log");
    if !log.is_dir() {
        return Ok(Vec::new());
    }
    let is_ours = |path: &Path| {
        // One that was being made when the node was killed has nothing in it yet.
        path.extension().is_some_and(|extension| extension == "new") && !path.is_dir()
            || begin(path).is_ok_and(|bytes| bytes == LOG_1)
    };
    fs::read_dir(log)?.map(|file| Ok(is_ours(&file?.path()))).collect()
}

/// Whether what has this name is of format 1, and nothing else is in it.
fn is_old(directory: &Path, name: &str) -> io::Result<bool> {
    if name == "log" {
        let files = files_of_log(directory)?;
        return Ok(!files.is_empty() && !files.contains(&false));
    }
    Ok(is_state(directory, name))
}

/// A step of the migration, after which it may be interrupted.
pub(crate) type Step<'a> = &'a mut dyn FnMut(&'static str) -> io::Result<()>;

/// Makes a directory of format 1 one of format 2, and says what it did.
pub(crate) fn migrate(directory: &Path, step: Step<'_>) -> Result<Vec<String>, NodeError> {
    let read = format_1::read(directory).map_err(|unread| {
        let path = directory.to_owned();
        match unread {
            Unread::Config(error) => NodeError::Settings { path: path.join("config"), error },
            Unread::Snapshot(error) => NodeError::Snapshot { path, error },
            Unread::Log(error) => NodeError::Log { path: path.join("log"), error },
        }
    })?;
    let mut said: Vec<String> = read.cut_off.iter().map(ToString::to_string).collect();
    let machine = read.machine.snapshot().to_records(|key| digest(key).0);
    let (vote, purged) = (read.vote.map(Into::into), read.applied.map(Into::into));
    let first = Change { vote, purged, ..Change::default() };
    let (settings, applied, members) = (Settings::new(), read.applied, read.members);
    let saved = Saved { settings, applied, members, machine, calendar: None };
    let bad = |error| NodeError::Directory { path: directory.to_owned(), error };
    let restored = saved.machine().map_err(bad)?;
    let counts = restored.counts();
    switch(directory, first, &saved, step).map_err(bad)?;
    said.push(format!(
        "migrated {} from format 1 to format 2: {} sessions, {} holds, {} waits; its old files stay in {BEFORE} until the \
         next clean stop",
        directory.display(),
        counts.sessions,
        counts.holds,
        counts.waits,
    ));
    Ok(said)
}

/// Writes all that is new, has one rename make it count, and puts the old aside.
fn switch(directory: &Path, first: Change, saved: &Saved, step: Step<'_>) -> io::Result<()> {
    let (journal, before) = (directory.join(JOURNAL), directory.join(BEFORE));
    // What an interrupted migration left behind; the files of format 1 still have their own names, too.
    remove_all(&journal)?;
    forget_before(directory)?;
    step("nothing is left of an earlier attempt")?;
    begin_log(&journal, first)?;
    step("there is a log")?;
    make_directory(&before)?;
    for name in [SNAPSHOT, "config"] {
        let file = directory.join(name);
        // Where there are no links, a copy will do.
        if file.try_exists()? && fs::hard_link(&file, before.join(name)).is_err() {
            fs::copy(&file, before.join(name))?;
        }
    }
    File::open(&before)?.sync_all()?;
    step("what is going to be replaced has another name")?;
    let file = directory.join(SNAPSHOT);
    let fresh = snapshot::prepare(&file, &saved.to_file())?;
    File::open(directory)?.sync_all()?;
    step("there is a snapshot beside the old one")?;
    fs::rename(fresh, &file)?;
    File::open(directory)?.sync_all()?;
    step("the new format counts")?;
    put_aside(directory, step)
}

/// Begins a log that goes on after a snapshot.
pub(crate) fn begin_log(journal: &Path, first: Change) -> io::Result<()> {
    make_directory(journal)?;
    let log = Log::open(journal, Metrics::new().flushed)?;
    if first != Change::default() {
        log.write(first)?;
    }
    drop(log);
    Ok(())
}

/// Puts aside what is left of format 1 in a directory that has become one of format 2. A file of the user that is called
/// the same stays where it is.
pub(crate) fn put_aside(directory: &Path, step: Step<'_>) -> io::Result<()> {
    let before = directory.join(BEFORE);
    for name in ["log", "config"] {
        let old = directory.join(name);
        if is_old(directory, name)? {
            make_directory(&before)?;
            let kept = before.join(name);
            // To rename one of two links to a file to the other does nothing.
            if old.is_file() && kept.try_exists()? {
                fs::remove_file(&old)?;
            } else {
                fs::rename(&old, kept)?;
            }
            step("some of the old is aside")?;
        }
    }
    File::open(directory)?.sync_all()
}

/// After a clean stop the old files are not needed any more. Nothing else goes with them.
pub(crate) fn forget_before(directory: &Path) -> io::Result<()> {
    let before = directory.join(BEFORE);
    for name in [SNAPSHOT, "config", "log"] {
        if is_old(&before, name)? {
            let old = before.join(name);
            if old.is_dir() { fs::remove_dir_all(old)? } else { fs::remove_file(old)? }
        }
    }
    match fs::remove_dir(before) {
        Err(error) if matches!(error.kind(), NotFound | DirectoryNotEmpty | NotADirectory) => {
            Ok(())
        }
        removed => removed,
    }
}

fn remove_all(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes a directory that only its owner may look into.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    if let Some(above) = path.parent().and_then(|above| File::open(above).ok()) {
        above.sync_all()?;
    }
    Ok(())
}
