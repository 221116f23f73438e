use std::sync::Arc;
use std::time::Duration;

use conclave_api::v1;
use conclave_api::v1::ask::What as Operation;

use crate::acquire::millis;
use crate::handles::Hold;
use crate::session::{SessionCore, Thread, Waiting};
use crate::{Error, Loss};

/// Locks that are held. They are released when it is dropped.
///
/// A lock can be lost while it is held, because the session was not renewed in time, or because an operator
/// took it; the guard says so. But no client can know what happens between its last look and what it does
/// then, so whatever the lock protects should itself refuse a [`token`](Self::token) that is less than one
/// it has seen.
#[derive(Debug)]
#[must_use = "a lock whose guard is dropped is released"]
pub struct Guard {
    core: Arc<SessionCore>,
    hold: Arc<Hold>,
    thread: Arc<Thread>,
    spent: bool,
}

impl Guard {
    pub(crate) fn new(core: Arc<SessionCore>, hold: Arc<Hold>, thread: Arc<Thread>) -> Self {
        Self { core, hold, thread, spent: false }
    }

    /// The fencing token of the grant, greater than those of all grants before, of any lock.
    pub fn token(&self) -> u64 {
        self.hold.token()
    }

    /// The epoch: the token of the grant that began the present period of holding. All who hold a lock
    /// together share it, and holders of earlier periods have lesser ones. Of several
    /// locks, it is that of the first.
    pub fn epoch(&self) -> u64 {
        self.epochs().first().copied().unwrap_or_default()
    }

    /// The epoch of each lock, in the order in which they were asked for.
    pub fn epochs(&self) -> Vec<u64> {
        self.hold.epochs()
    }

    /// The locks, in the order in which they were asked for.
    pub fn locks(&self) -> &[String] {
        &self.hold.locks
    }

    /// The number of the session that holds them.
    pub fn session(&self) -> u64 {
        self.core.id()
    }

    /// Whether all of them are held. This reads the clock, as
    /// [`Session::is_alive`](crate::Session::is_alive) does.
    pub fn is_held(&self) -> bool {
        !self.spent && self.hold.loss.get().is_none() && self.core.is_alive()
    }

    /// Waits until one of them is not held any more, and says why.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + 'static {
        self.hold.loss.wait()
    }

    /// Releases them, and waits until the server has done that. If they were lost before, it says so.
    pub async fn release(mut self) -> Result<(), Error> {
        self.spent = true;
        let (core, hold) = (&self.core, &self.hold);
        let operation = core.shared().with_state(|state| state.release_of(core.id(), hold, None));
        let loss = hold.loss.get();
        if let Some(operation) = operation {
            core.request(operation).await?;
        }
        match loss {
            Some(loss) if core.is_alive() => Err(Error::Lost(loss)),
            Some(loss) => Err(Error::SessionLost(loss)),
            None => Ok(()),
        }
    }

    /// Waits until no other shares the lock, and holds it alone. The token is a new one then. If
    /// that fails, the lock is still shared; if the future is dropped before it is done, the lock is released.
    pub async fn upgrade(&mut self) -> Result<(), Error> {
        self.upgrade_within(None).await
    }

    /// The same, for at most this long.
    pub async fn upgrade_timeout(&mut self, timeout: Duration) -> Result<(), Error> {
        self.upgrade_within(Some(timeout)).await
    }

    async fn upgrade_within(&mut self, timeout: Option<Duration>) -> Result<(), Error> {
        let (lock, token) = (self.only_lock()?, self.token());
        let operation =
            Operation::Upgrade(v1::Upgrade { lock, token, timeout_ms: timeout.map(millis) });
        let waiting = Waiting::begin(&self.thread);
        let answer = self.core.request(operation).await;
        drop(waiting);
        answer.map(drop)
    }

    /// Lets others share the lock. The token is a new one then.
    pub async fn downgrade(&mut self) -> Result<(), Error> {
        let (lock, token) = (self.only_lock()?, self.token());
        self.core.request(Operation::Downgrade(v1::Downgrade { lock, token })).await.map(drop)
    }

    /// Gives the lock to a session that waits for it, before all others that do. If that fails, it is held
    /// as before.
    pub async fn hand_over(&mut self, session: u64) -> Result<(), Error> {
        self.only_lock()?;
        let (core, hold) = (&self.core, &self.hold);
        let operation =
            core.shared().with_state(|state| state.release_of(core.id(), hold, Some(session)));
        let operation =
            operation.ok_or_else(|| Error::Lost(hold.loss.get().unwrap_or(Loss::Gone)))?;
        core.request(operation).await?;
        self.spent = true;
        Ok(())
    }

    fn only_lock(&self) -> Result<String, Error> {
        if let Some(loss) = self.hold.loss.get() {
            return Err(Error::Lost(loss));
        }
        match self.hold.locks.as_slice() {
            [lock] => Ok(lock.clone()),
            _ => Err(Error::BadOptions("this can be done with one lock at a time".to_owned())),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.spent {
            let Self { core, hold, .. } = self;
            core.shared().with_state(|state| state.release(core.id(), hold));
        }
    }
}
