//! When the whole state is written down, so that the log can be cut: after so many commands or so many bytes of log,
//! whichever comes first. A restart then takes as long as reading the state and that much of the log, whatever
//! happened before.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use openraft::Raft;

use crate::Types;
use crate::log::Log;
use crate::state::State;

/// After so many bytes of log a snapshot is due, however few commands these are.
const BYTES: u64 = 16 << 20;
/// And after so many while the disk is nearly full: before the log has used up what is kept free, it is cut.
const BYTES_WHEN_FULL: u64 = 2 << 20;
/// So many ticks after a failure it is tried again.
const PAUSE: u64 = 50;

/// Writes snapshots when they are due. Clones are the same.
#[derive(Clone)]
pub(crate) struct Snapshots(Arc<Inner>);

struct Inner {
    raft: Raft<Types, State>,
    state: State,
    log: Log,
    /// After so many commands one is due.
    every: u64,
    writing: AtomicBool,
    failure: Mutex<Option<Failure>>,
}

/// The last snapshot could not be written.
struct Failure {
    why: String,
    /// The tick at which it is tried again.
    again: u64,
}

impl Snapshots {
    pub(crate) fn new(raft: Raft<Types, State>, state: State, log: Log, every: u64) -> Self {
        let (writing, failure) = (AtomicBool::new(false), Mutex::new(None));
        Self(Arc::new(Inner { raft, state, log, every, writing, failure }))
    }

    /// What keeps the log from being cut. Nothing is granted meanwhile: what is granted makes the log longer, and what is
    /// left of the disk is for giving back and keeping.
    pub(crate) fn trouble(&self) -> Option<String> {
        let failure = self.0.failure.lock().expect("no code panics while it holds the lock");
        failure.as_ref().map(|failure| failure.why.clone())
    }

    /// Begins to write one if it is due, which it is sooner if the disk is nearly full.
    pub(crate) fn look(&self, tick: u64, is_full: bool) {
        let Inner { state, log, every, writing, failure, .. } = &*self.0;
        let again = failure
            .lock()
            .expect("no code panics while it holds the lock")
            .as_ref()
            .map(|last| last.again);
        let bytes = if is_full { BYTES_WHEN_FULL } else { BYTES };
        let is_due = match again {
            Some(again) => tick >= again,
            None => state.since_snapshot() >= *every || log.live_bytes() >= bytes,
        };
        if is_due && !writing.swap(true, Ordering::AcqRel) {
            let this = self.clone();
            tokio::spawn(async move {
                let written = this.write().await;
                let mut failure =
                    this.0.failure.lock().expect("no code panics while it holds the lock");
                *failure = written.err().map(|why| Failure { why, again: tick + PAUSE });
                this.0.writing.store(false, Ordering::Release);
            });
        }
    }

    /// Writes one, and has the log cut.
    pub(crate) async fn write(&self) -> Result<(), String> {
        let Inner { state, raft, .. } = &*self.0;
        state.write_snapshot().await.map_err(|error| {
            format!(
                "a snapshot cannot be written: {error}; nothing is granted until it can, and it is tried again every second"
            )
        })?;
        raft.trigger().snapshot().await.map_err(|error| format!("the node has stopped: {error}"))
    }
}
