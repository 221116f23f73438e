//! What handles and the book both look at: whether a session lives, a lock is held, a leader leads.

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
pub(crate) struct Vital {
    pub(crate) lease: Lease,
    time: TimeSource,
    pub(crate) loss: watch::Sender<Option<Loss>>,
    /// Threads of control that are in the way of older sessions, and of which.
    wounds: watch::Sender<BTreeMap<u32, u64>>,
}

impl Vital {
    pub(crate) fn new(lease: Lease, time: TimeSource) -> Self {
        let (loss, wounds) = (watch::Sender::new(None), watch::Sender::default());
        Self { lease, time, loss, wounds }
    }

    pub(crate) fn wound(&self, owner: u32, by: u64) {
        self.wounds.send_modify(|wounds| {
            wounds.insert(owner, by);
        });
    }

    /// Waits until a thread of control is wounded, and says by whom.
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
            assert!(again, "what sends is in the same place");
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

    /// Why it is over; that nobody has said so yet means that nobody renewed it.
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
    loss: Fate,
}

impl Hold {
    pub(crate) fn new(locks: Vec<String>, token: u64, epochs: Vec<u64>) -> Self {
        let (token, epochs) = (AtomicU64::new(token), Mutex::new(epochs));
        Self { locks, token, epochs, loss: Fate::default() }
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

    pub(crate) fn lose(&self, loss: Loss) {
        self.loss.tell(loss);
    }

    pub(crate) fn loss(&self) -> Option<Loss> {
        self.loss.told()
    }

    pub(crate) fn lost(&self) -> impl Future<Output = Loss> + Send + 'static {
        self.loss.come(Loss::Released)
    }
}

/// A leadership.
#[derive(Debug)]
pub(crate) struct Term {
    pub(crate) election: String,
    pub(crate) number: u64,
    loss: Fate,
    /// When it has to be over, once it is asked to yield.
    yield_by: watch::Sender<Option<Moment>>,
}

impl Term {
    pub(crate) fn new(election: String, number: u64) -> Self {
        let (loss, yield_by) = (Fate::default(), watch::Sender::new(None));
        Self { election, number, loss, yield_by }
    }

    pub(crate) fn lose(&self, loss: Loss) {
        self.loss.tell(loss);
    }

    pub(crate) fn loss(&self) -> Option<Loss> {
        self.loss.told()
    }

    pub(crate) fn lost(&self) -> impl Future<Output = Loss> + Send + 'static {
        self.loss.come(Loss::Released)
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

/// Why something came to an end. What is told first stands. There is one of these for every grant, and hardly ever
/// does anybody wait for it: so it is less than a channel.
#[derive(Debug, Default)]
struct Fate(Arc<Told>);

#[derive(Debug, Default)]
struct Told {
    loss: OnceLock<Loss>,
    /// Nobody is left who could tell.
    untold: AtomicBool,
    heard: Notify,
}

impl Fate {
    fn tell(&self, loss: Loss) {
        if self.0.loss.set(loss).is_ok() {
            self.0.heard.notify_waiters();
        }
    }

    fn told(&self) -> Option<Loss> {
        self.0.loss.get().copied()
    }

    /// Waits until it is told; if nobody is left who could, it is `otherwise`.
    fn come(&self, otherwise: Loss) -> impl Future<Output = Loss> + Send + 'static {
        let told = self.0.clone();
        async move {
            loop {
                // Before it looks, so that nothing is missed that comes afterwards.
                let heard = told.heard.notified();
                match told.loss.get() {
                    Some(&loss) => return loss,
                    None if told.untold.load(Ordering::SeqCst) => return otherwise,
                    None => heard.await,
                }
            }
        }
    }
}

impl Drop for Fate {
    fn drop(&mut self) {
        self.0.untold.store(true, Ordering::SeqCst);
        self.0.heard.notify_waiters();
    }
}

/// Waits until something is said; if nobody is left who could, it is `otherwise`.
pub(crate) async fn come_true<T: Clone + Send + Sync>(
    mut said: watch::Receiver<Option<T>>,
    otherwise: T,
) -> T {
    match said.wait_for(Option::is_some).await {
        Ok(said) => said.clone().unwrap_or(otherwise),
        Err(_) => otherwise,
    }
}
