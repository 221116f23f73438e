//! What a node does by itself, fifty times a second: it lets log time pass, commits renewals of leases, and has the
//! disk checked.

use std::mem;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use conclave_machine::{Command, Machine, SessionId};
use tokio::task::AbortHandle;

use crate::clock::Clock;
use crate::disk_watch::DiskWatch;
use crate::dispatch::{Renewal, Target, refuse};
use crate::proposer::{Haste, Proposer};
use crate::snapshots::Snapshots;
use crate::state::State;

/// How often.
const PERIOD: Duration = Duration::from_millis(20);
/// Every so many ticks the disk is checked.
const CHECK_EVERY: u64 = 5;

/// The task of the ticker; it ends with the node.
pub(crate) struct TickerTask(pub(crate) AbortHandle);

impl TickerTask {
    /// From now on, log time passes only with commands of clients.
    pub(crate) fn stop(&self) {
        self.0.abort();
    }
}

impl Drop for TickerTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// All that the ticker needs.
pub(crate) struct Ticker {
    pub(crate) state: State,
    pub(crate) clock: Arc<Clock>,
    pub(crate) proposer: Proposer,
    pub(crate) renewals: Arc<Renewals>,
    pub(crate) disk: Arc<DiskWatch>,
    pub(crate) snapshots: Snapshots,
}

impl Ticker {
    pub(crate) async fn run(self) {
        for tick in 0_u64.. {
            if tick.is_multiple_of(CHECK_EVERY) {
                self.disk.check();
                self.snapshots.look(tick, self.disk.trouble().is_some());
            }
            tokio::time::sleep(PERIOD).await;
            // Renewals come first: after a stall they may have waited as long as the stall.
            if let Some((command, target)) = self.renewals.take() {
                self.proposer.submit(command, target, Haste::Urgent);
            }
            let now = self.clock.now();
            if self.state.look(Machine::next_due).is_some_and(|due| due <= now) {
                self.proposer.submit(Command::Tick, Target::Discard, Haste::Urgent);
            }
        }
    }
}

/// Sessions that clients renew. Of ten thousand, thousands are renewed each second; so renewals are
/// gathered and written together. A client counts its lease from when it asked, which is before that.
#[derive(Default)]
pub(crate) struct Renewals(Mutex<Vec<Renewal>>);

impl Renewals {
    pub(crate) fn add(&self, renewal: Renewal) {
        self.0.lock().expect("no code panics while it holds the lock").push(renewal);
    }

    /// Fails all renewals that were gathered.
    pub(crate) fn refuse_all(&self, why: &str) {
        if let Some((_, target)) = self.take() {
            refuse(target, why);
        }
    }

    fn take(&self) -> Option<(Command, Target)> {
        let all = mem::take(&mut *self.0.lock().expect("no code panics while it holds the lock"));
        if all.is_empty() {
            return None;
        }
        let mut sessions: Vec<SessionId> =
            all.iter().flat_map(|renewal| renewal.sessions.iter().copied()).collect();
        sessions.sort_unstable();
        sessions.dedup();
        Some((Command::KeepAlive { sessions }, Target::Renewals(all)))
    }
}
