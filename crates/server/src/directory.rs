//! The data directory of a node: its lock, its files, and their permissions.

use std::fs::{self, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use conclave_machine::Config;

use crate::format::damaged;
use crate::format::log::Change;
use crate::format::snapshot;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::migrate::{self, Found, JOURNAL, SNAPSHOT};
use crate::node::NodeError;
use crate::state::{State, first_snapshot};

/// What a node begins with.
pub(crate) struct Opened {
    pub(crate) state: State,
    pub(crate) log: Log,
    /// What there is to say of it.
    pub(crate) said: Vec<String>,
}

/// Opens what is in a directory, and makes it if there is nothing.
pub(crate) fn open(
    directory: &Path,
    config: Config,
    metrics: &Metrics,
) -> Result<Opened, NodeError> {
    let bad = |error| NodeError::Directory { path: directory.to_owned(), error };
    let bad_snapshot = |error| NodeError::Snapshot { path: directory.to_owned(), error };
    let journal = directory.join(JOURNAL);
    let bad_log = |error| NodeError::Log { path: journal.clone(), error };
    let (file, mut said) = (directory.join(SNAPSHOT), Vec::new());
    match migrate::look(directory).map_err(bad)? {
        Found::Nothing => {
            // The snapshot comes last: where there is one, there is a log.
            migrate::begin_log(&journal, Change::default()).map_err(bad_log)?;
            let log = Log::open(&journal, metrics.flushed.clone()).map_err(bad_log)?;
            if log.begun().0 {
                return Err(bad_snapshot(missing("what came before the log")));
            }
            drop(log);
            snapshot::write(&file, &first_snapshot(config).to_file()).map_err(bad)?;
        }
        Found::Format1 => said = migrate::migrate(directory, &mut |_| Ok(()))?,
        Found::Format2 => {}
    }
    let saved = snapshot::read(&file).and_then(|saved| saved.ok_or_else(|| missing("it")));
    let state = State::open(&file, &saved.map_err(bad_snapshot)?).map_err(bad_snapshot)?;
    migrate::put_aside(directory, &mut |_| Ok(())).map_err(bad)?;
    if let Err(error) = close_all_to_others(directory) {
        said.push(format!("cannot keep others from reading {}: {error}", directory.display()));
    }
    said.extend(open_to_others(directory));
    sync_names(directory).map_err(bad)?;
    let files = fs::read_dir(&journal).is_ok_and(|mut files| files.next().is_some());
    if !files {
        return Err(bad_log(missing("what came after the snapshot")));
    }
    let log = Log::open(&journal, metrics.flushed.clone()).map_err(bad_log)?;
    said.extend(log.cut_off().iter().map(ToString::to_string));
    let (applied, (begun, purged)) = (state.applied(), log.begun());
    if applied.is_some() && !begun {
        return Err(bad_log(missing("what came after the snapshot")));
    }
    if purged > applied {
        return Err(bad_snapshot(missing("what came before the log")));
    }
    Ok(Opened { state, log, said })
}

/// A directory that the node did not make may be there for others, too: its mode is left alone, and that is said.
fn open_to_others(directory: &Path) -> Option<String> {
    let mode = fs::metadata(directory).ok()?.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then(|| {
        let path = directory.display();
        format!(
            "others can look into {path} (mode {mode:03o}), though not into the node's own files; if that is not \
             meant, chmod 700 {path}"
        )
    })
}

/// Takes from others the right to read the node's files, which an earlier version gave them. The directory itself and
/// files that are none of the node's are left alone.
fn close_all_to_others(directory: &Path) -> io::Result<()> {
    for name in ["lock", SNAPSHOT, JOURNAL, migrate::BEFORE] {
        let path = directory.join(name);
        if path.try_exists()? {
            close_to_others(&path)?;
        }
        if path.is_dir() {
            for file in fs::read_dir(path)? {
                close_to_others(&file?.path())?;
            }
        }
    }
    Ok(())
}

fn close_to_others(path: &Path) -> io::Result<()> {
    let data = fs::symlink_metadata(path)?;
    let mode = match data.file_type() {
        kind if kind.is_dir() => 0o700,
        kind if kind.is_file() => 0o600,
        _ => return Ok(()),
    };
    if data.permissions().mode() & 0o777 == mode {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(mode))
}

/// The names of the directory and its files are on disk when this returns. The process that made one of them,
/// or replaced the snapshot, may have been killed before they were.
fn sync_names(directory: &Path) -> io::Result<()> {
    // The one above may be none that this process may read.
    if let Ok(above) = File::open(directory.join("..")) {
        above.sync_all()?;
    }
    File::open(directory)?.sync_all()
}

fn missing(what: &str) -> io::Error {
    // Not `NotFound`: it was there once.
    damaged(format!("{what} is missing"))
}

/// How often, and how long after each time, a directory in use is tried again: the process that has it
/// may be about to end.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// Makes the directory this process's own.
pub(crate) async fn claim(directory: &Path) -> Result<File, NodeError> {
    let bad = |error| NodeError::Directory { path: directory.to_owned(), error };
    migrate::make_directory(directory).map_err(bad)?;
    let lock = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(directory.join("lock"));
    let lock = lock.map_err(bad)?;
    for _ in 0..TRIES {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(PAUSE).await,
            Err(TryLockError::Error(error)) => return Err(bad(error)),
        }
    }
    Err(NodeError::InUse(directory.to_owned()))
}
