//! What a node does by itself, a few times a second: it lets time pass, renews leases, and looks at
//! the disk.

use std::mem;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use conclave_machine::{Command, Machine, SessionId};
use tokio::task::AbortHandle;

use crate::clock::Clock;
use crate::hub::{Renewal, Target, refuse};
use crate::proposer::{Haste, Proposer};
use crate::snapshots::Snapshots;
use crate::state::State;

/// How often.
const BEAT: Duration = Duration::from_millis(20);
/// Every so many beats the disk is looked at.
const LOOK: u64 = 5;

/// The task that beats; it ends with the node.
pub(crate) struct Beat(pub(crate) AbortHandle);

impl Beat {
    /// From now on, no time passes by itself.
    pub(crate) fn stop(&self) {
        self.0.abort();
    }
}

impl Drop for Beat {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// All that beating needs.
pub(crate) struct Heart {
    pub(crate) state: State,
    pub(crate) clock: Arc<Clock>,
    pub(crate) proposer: Proposer,
    pub(crate) renewals: Arc<Renewals>,
    pub(crate) health: Arc<Health>,
    pub(crate) snapshots: Snapshots,
}

impl Heart {
    pub(crate) async fn beat(self) {
        for beat in 0_u64.. {
            if beat.is_multiple_of(LOOK) {
                self.health.look();
                self.snapshots.look(beat, self.health.trouble().is_some());
            }
            tokio::time::sleep(BEAT).await;
            // First, what lets sessions live on: after a stall it may have waited for as long.
            if let Some((command, target)) = self.renewals.take() {
                self.proposer.submit(command, target, Haste::Urgent);
            }
            let now = self.clock.now();
            if self.state.look(Machine::next_due).is_some_and(|due| due <= now) {
                self.proposer.submit(Command::Tick, Target::Nobody, Haste::Urgent);
            }
        }
    }
}

/// Sessions that are to live on. Of ten thousand, thousands are renewed each second; so renewals are
/// gathered and written together. A client counts its lease from when it asked, which is before that.
#[derive(Default)]
pub(crate) struct Renewals(Mutex<Vec<Renewal>>);

impl Renewals {
    pub(crate) fn add(&self, renewal: Renewal) {
        self.0.lock().expect("nobody panics with it").push(renewal);
    }

    /// None of those that were gathered lives on by this.
    pub(crate) fn refuse_all(&self, why: &str) {
        if let Some((_, target)) = self.take() {
            refuse(target, why);
        }
    }

    fn take(&self) -> Option<(Command, Target)> {
        let all = mem::take(&mut *self.0.lock().expect("nobody panics with it"));
        if all.is_empty() {
            return None;
        }
        let mut sessions: Vec<SessionId> =
            all.iter().flat_map(|renewal| renewal.sessions.iter().copied()).collect();
        sessions.sort_unstable();
        sessions.dedup();
        Some((Command::KeepAlive { sessions }, Target::Alive(all)))
    }
}

/// Whether there is room on the disk.
pub(crate) struct Health {
    directory: PathBuf,
    trouble: Mutex<Option<String>>,
}

/// What is kept free, so that locks can be given back and leases renewed when nothing else fits.
const RESERVE: u64 = 16 << 20;

impl Health {
    pub(crate) fn new(directory: PathBuf) -> Self {
        let health = Self { directory, trouble: Mutex::new(None) };
        health.look();
        health
    }

    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.lock().expect("nobody panics with it").clone()
    }

    /// How many bytes are free, and how many of them are kept.
    pub(crate) fn disk(&self) -> (u64, u64) {
        let free = rustix::fs::statvfs(&self.directory);
        (free.map_or(0, |disk| disk.f_bavail.saturating_mul(disk.f_frsize)), RESERVE)
    }

    fn look(&self) {
        let trouble = match rustix::fs::statvfs(&self.directory) {
            Ok(disk) if disk.f_bavail.saturating_mul(disk.f_frsize) >= RESERVE => None,
            Ok(disk) => Some(format!(
                "the disk is full: {} KiB are free in {}, and {} KiB are needed to grant anything; \
                 make room, and it goes on by itself",
                disk.f_bavail.saturating_mul(disk.f_frsize) >> 10,
                self.directory.display(),
                RESERVE >> 10,
            )),
            Err(error) => Some(format!("cannot look at {}: {error}", self.directory.display())),
        };
        *self.trouble.lock().expect("nobody panics with it") = trouble;
    }
}
