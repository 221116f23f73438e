//! What the handles of a program share with the client's state: whether a session lives, a lock is held, a leader leads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::Loss;
use crate::lease::Lease;
use crate::time::{Moment, TimeSource};

/// Whether a session lives.
#[derive(Debug)]
pub(crate) struct Liveness {
    pub(crate) lease: Lease,
    time: TimeSource,
    pub(crate) loss: watch::Sender<Option<Loss>>,
    /// Wounded threads of control, each with the older session that it blocks.
    wounds: watch::Sender<BTreeMap<u32, u64>>,
}

impl Liveness {
    pub(crate) fn new(lease: Lease, time: TimeSource) -> Self {
        let (loss, wounds) = (watch::Sender::new(None), watch::Sender::default());
        Self { lease, time, loss, wounds }
    }

    pub(crate) fn wound(&self, owner: u32, by: u64) {
        self.wounds.send_modify(|wounds| {
            wounds.insert(owner, by);
        });
    }

    /// Waits until a thread of control is wounded, and returns the session that it blocks.
    pub(crate) async fn wounded(&self, owner: u32) -> u64 {
        let mut wounds = self.wounds.subscribe();
        loop {
            let mut by = None;
            self.wounds.send_if_modified(|wounds| {
                by = wounds.remove(&owner);
                false
            });
            if let Some(by) = by {
                return by;
            }
            let again = wounds.wait_for(|wounds| wounds.contains_key(&owner)).await.is_ok();
            assert!(again, "the sender is in the same struct");
        }
    }

    /// Whether it lives now, by the clock.
    pub(crate) fn is_alive(&self) -> bool {
        self.lease.lasts(self.time.now())
    }

    /// For how much longer it is certain to live.
    pub(crate) fn remaining(&self) -> Duration {
        self.lease.remaining(self.time.now())
    }

    /// Why it is over. If no reason was recorded yet, its lease ran out without a renewal.
    pub(crate) fn loss(&self) -> Loss {
        self.loss.borrow().unwrap_or(Loss::Expired)
    }
}

/// Locks that were granted together.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) locks: Vec<String>,
    token: AtomicU64,
    epochs: Mutex<Vec<u64>>,
    /// Why it is not held, or led, any more.
    pub(crate) loss: LossCell,
}

impl Hold {
    pub(crate) fn new(locks: Vec<String>, token: u64, epochs: Vec<u64>) -> Self {
        let (token, epochs) = (AtomicU64::new(token), Mutex::new(epochs));
        Self { locks, token, epochs, loss: LossCell::default() }
    }

    pub(crate) fn token(&self) -> u64 {
        self.token.load(Ordering::SeqCst)
    }

    pub(crate) fn epochs(&self) -> Vec<u64> {
        self.epochs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// It is held by another grant from now on.
    pub(crate) fn regrant(&self, token: u64, epochs: Vec<u64>) {
        self.token.store(token, Ordering::SeqCst);
        *self.epochs.lock().unwrap_or_else(PoisonError::into_inner) = epochs;
    }
}

/// A leadership.
#[derive(Debug)]
pub(crate) struct Term {
    pub(crate) election: String,
    pub(crate) number: u64,
    /// Why it is not held, or led, any more.
    pub(crate) loss: LossCell,
    /// When it has to be over, once it is asked to yield.
    yield_by: watch::Sender<Option<Moment>>,
}

impl Term {
    pub(crate) fn new(election: String, number: u64) -> Self {
        let (loss, yield_by) = (LossCell::default(), watch::Sender::new(None));
        Self { election, number, loss, yield_by }
    }

    pub(crate) fn ask_to_yield(&self, by: Moment) {
        self.yield_by.send_replace(Some(by));
    }

    pub(crate) fn yield_by(&self) -> Option<Moment> {
        *self.yield_by.borrow()
    }

    pub(crate) fn asked_to_yield(&self) -> watch::Receiver<Option<Moment>> {
        self.yield_by.subscribe()
    }
}

/// Why a grant came to an end; the first reason stands. There is one for every grant and hardly ever a task that waits
/// for it, so it is smaller than a channel.
#[derive(Debug, Default)]
pub(crate) struct LossCell(Arc<LossSlot>);

#[derive(Debug, Default)]
struct LossSlot {
    loss: OnceLock<Loss>,
    /// The cell was dropped: no reason comes any more.
    closed: AtomicBool,
    changed: Notify,
}

impl LossCell {
    pub(crate) fn set(&self, loss: Loss) {
        if self.0.loss.set(loss).is_ok() {
            self.0.changed.notify_waiters();
        }
    }

    pub(crate) fn get(&self) -> Option<Loss> {
        self.0.loss.get().copied()
    }

    /// Waits for the reason; if the cell is dropped without one, it was released.
    pub(crate) fn wait(&self) -> impl Future<Output = Loss> + Send + 'static {
        let slot = self.0.clone();
        async move {
            loop {
                // Subscribed before the look, so that no later change is missed.
                let changed = slot.changed.notified();
                match slot.loss.get() {
                    Some(&loss) => return loss,
                    None if slot.closed.load(Ordering::SeqCst) => return Loss::Released,
                    None => changed.await,
                }
            }
        }
    }
}

impl Drop for LossCell {
    fn drop(&mut self) {
        self.0.closed.store(true, Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }
}

/// Waits for a value; if the sender is dropped without one, it is `otherwise`.
pub(crate) async fn wait_for_some<T: Clone + Send + Sync>(
    mut value: watch::Receiver<Option<T>>,
    otherwise: T,
) -> T {
    match value.wait_for(Option::is_some).await {
        Ok(value) => value.clone().unwrap_or(otherwise),
        Err(_) => otherwise,
    }
}
