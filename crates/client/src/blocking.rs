//! The same for programs that do not use async functions.
//!
//! The client runs on a thread of its own, so leases are renewed while the program is busy. Nothing here may be called from within an async function.
//!
//! ```no_run
//! use conclave_client::blocking::Client;
//! use conclave_client::{Options, SessionOptions};
//!
//! let client = Client::connect(Options::new("127.0.0.1:7411"))?;
//! let session = client.open(SessionOptions::default())?;
//! let guard = session.lock("backup")?;
//! println!("held with token {}", guard.token());
//! # Ok::<(), conclave_client::Error>(())
//! ```

mod runtime;

use std::sync::Arc;
use std::time::Duration;

use runtime::Runtime;

use crate::{Acquire, Candidacy, Deposition, Error, Loss, Options, SessionOptions, Want, view};

/// A client. Clones are the same client.
#[derive(Clone, Debug)]
pub struct Client {
    inner: crate::Client,
    runtime: Arc<Runtime>,
}

impl Client {
    /// Connects to one of the servers.
    pub fn connect(options: Options) -> Result<Self, Error> {
        let mut runtime = Runtime::start()?;
        let (inner, task) = runtime.run(crate::Client::connect_task(options))?;
        runtime.finish_with(task);
        Ok(Self { inner, runtime: Arc::new(runtime) })
    }

    /// Opens a session.
    pub fn open(&self, options: SessionOptions) -> Result<Session, Error> {
        let inner = self.runtime.run(self.inner.open(options))?;
        Ok(Session { inner, runtime: self.runtime.clone() })
    }

    /// Who leads an election: now, and whenever that changes.
    pub fn observe(&self, election: impl Into<String>) -> Observation {
        let inner = self.inner.observe(election);
        Observation { inner, runtime: self.runtime.clone() }
    }

    /// The locks that are held or waited for, with this prefix, by name.
    pub fn locks(&self, prefix: &str) -> Result<Vec<view::Lock>, Error> {
        self.runtime.run(self.inner.locks(prefix))
    }

    /// The sessions, the oldest first.
    pub fn sessions(&self) -> Result<Vec<view::Session>, Error> {
        self.runtime.run(self.inner.sessions())
    }

    /// The elections with a candidate, with this prefix, by name.
    pub fn elections(&self, prefix: &str) -> Result<Vec<view::Election>, Error> {
        self.runtime.run(self.inner.elections(prefix))
    }

    /// Who holds a lock, who waits for it, what these wait for, and the deadlock if there is one.
    pub fn why(&self, lock: &str) -> Result<view::Reasons, Error> {
        self.runtime.run(self.inner.why(lock))
    }

    /// The wait-for graph.
    pub fn graph(&self) -> Result<view::WaitGraph, Error> {
        self.runtime.run(self.inner.graph())
    }

    /// The version of the server, its counts, and whether it grants.
    pub fn status(&self) -> Result<view::NodeStatus, Error> {
        self.runtime.run(self.inner.status())
    }

    /// Takes a lock from its holders; with a token, only from the holder with that.
    pub fn force_release(&self, lock: &str, token: Option<u64>, reason: &str) -> Result<(), Error> {
        self.runtime.run(self.inner.force_release(lock, token, reason))
    }

    /// Ends a session.
    pub fn expel(&self, session: u64, reason: &str) -> Result<(), Error> {
        self.runtime.run(self.inner.expel(session, reason))
    }

    /// Ends all sessions of one origin, and says how many those were.
    pub fn expel_all(&self, origin: crate::Origin, reason: &str) -> Result<u64, Error> {
        self.runtime.run(self.inner.expel_all(origin, reason))
    }

    /// Ends a leadership.
    pub fn depose(&self, election: &str, reason: &str) -> Result<(), Error> {
        self.runtime.run(self.inner.depose(election, reason))
    }

    /// The same, in another way.
    pub fn depose_with(&self, election: &str, reason: &str, how: Deposition) -> Result<(), Error> {
        self.runtime.run(self.inner.depose_with(election, reason, how))
    }
}

/// A session. A clone is another thread of control of the same one; see [`crate::Session`].
#[derive(Clone, Debug)]
pub struct Session {
    inner: crate::Session,
    runtime: Arc<Runtime>,
}

impl Session {
    /// Another thread of control of the same session, as a clone is.
    #[must_use]
    pub fn thread(&self) -> Self {
        Self { inner: self.inner.thread(), runtime: self.runtime.clone() }
    }

    /// The session's number.
    pub fn id(&self) -> u64 {
        self.inner.id()
    }

    /// Whether it is certain to live, by the clock.
    pub fn is_alive(&self) -> bool {
        self.inner.is_alive()
    }

    /// For how much longer it is certain to live, even if it is not renewed any more.
    pub fn remaining(&self) -> Duration {
        self.inner.remaining()
    }

    /// Waits until it is over, and says why.
    pub fn lost(&self) -> Loss {
        self.runtime.run(self.inner.lost())
    }

    /// Has something done when it is lost; it should not take long.
    pub fn on_loss(&self, then: impl FnOnce(Loss) + Send + 'static) {
        self.inner.on_loss(then);
    }

    /// Ends it, and with it all that it holds.
    pub fn close(self) -> Result<(), Error> {
        let Self { inner, runtime } = self;
        runtime.run(inner.close())
    }

    /// Waits for a lock that no other may hold at the same time.
    pub fn lock(&self, name: impl Into<String>) -> Result<Guard, Error> {
        self.acquire(Acquire::exclusive(name))
    }

    /// Takes a lock if it is free; does not wait.
    pub fn try_lock(&self, name: impl Into<String>) -> Result<Option<Guard>, Error> {
        self.try_acquire(Acquire::exclusive(name))
    }

    /// Waits for a lock for at most this long.
    pub fn lock_timeout(&self, name: impl Into<String>, timeout: Duration) -> Result<Guard, Error> {
        self.acquire(Acquire::exclusive(name).timeout(timeout))
    }

    /// Waits for a lock that others may share.
    pub fn read(&self, name: impl Into<String>) -> Result<Guard, Error> {
        self.acquire(Acquire::shared(name))
    }

    /// Waits for some permits of those that there are.
    pub fn permits(&self, name: impl Into<String>, take: u32, of: u32) -> Result<Guard, Error> {
        self.acquire(Acquire::permits(name, take, of))
    }

    /// Waits for several locks, and has all of them at once or none.
    pub fn lock_all(&self, wants: impl IntoIterator<Item = Want>) -> Result<Guard, Error> {
        self.acquire(Acquire::all(wants))
    }

    /// Asks for locks.
    pub fn acquire(&self, acquire: Acquire) -> Result<Guard, Error> {
        let inner = self.runtime.run(self.inner.acquire(acquire))?;
        Ok(Guard { inner, runtime: self.runtime.clone() })
    }

    /// Takes the locks if they are free; does not wait.
    pub fn try_acquire(&self, acquire: Acquire) -> Result<Option<Guard>, Error> {
        let inner = self.runtime.run(self.inner.try_acquire(acquire))?;
        Ok(inner.map(|inner| Guard { inner, runtime: self.runtime.clone() }))
    }

    /// Waits until this session leads.
    pub fn campaign(&self, candidacy: Candidacy) -> Result<Leadership, Error> {
        let inner = self.runtime.run(self.inner.campaign(candidacy))?;
        Ok(Leadership { inner, runtime: self.runtime.clone() })
    }
}

/// Locks that are held. They are released when it is dropped; see [`crate::Guard`].
#[derive(Debug)]
#[must_use = "a lock whose guard is dropped is released"]
pub struct Guard {
    inner: crate::Guard,
    runtime: Arc<Runtime>,
}

impl Guard {
    /// The fencing token.
    pub fn token(&self) -> u64 {
        self.inner.token()
    }

    /// The epoch.
    pub fn epoch(&self) -> u64 {
        self.inner.epoch()
    }

    /// The locks, in the order in which they were asked for.
    pub fn locks(&self) -> &[String] {
        self.inner.locks()
    }

    /// Whether all of them are held, by the clock.
    pub fn is_held(&self) -> bool {
        self.inner.is_held()
    }

    /// Waits until one of them is not held any more, and says why.
    pub fn lost(&self) -> Loss {
        self.runtime.run(self.inner.lost())
    }

    /// Releases them, and waits until the server has done that.
    pub fn release(self) -> Result<(), Error> {
        let Self { inner, runtime } = self;
        runtime.run(inner.release())
    }

    /// Waits until no other shares the lock, and holds it alone, with a new token.
    pub fn upgrade(&mut self) -> Result<(), Error> {
        self.runtime.run(self.inner.upgrade())
    }

    /// The same, for at most this long.
    pub fn upgrade_timeout(&mut self, timeout: Duration) -> Result<(), Error> {
        self.runtime.run(self.inner.upgrade_timeout(timeout))
    }

    /// Lets others share the lock, with a new token.
    pub fn downgrade(&mut self) -> Result<(), Error> {
        self.runtime.run(self.inner.downgrade())
    }

    /// Gives the lock to a session that waits for it.
    pub fn hand_over(&mut self, session: u64) -> Result<(), Error> {
        self.runtime.run(self.inner.hand_over(session))
    }
}

/// A leadership. When it is dropped, the session resigns; see [`crate::Leadership`].
#[derive(Debug)]
#[must_use = "a leader that is dropped resigns"]
pub struct Leadership {
    inner: crate::Leadership,
    runtime: Arc<Runtime>,
}

impl Leadership {
    /// The fencing token of the leadership.
    pub fn term(&self) -> u64 {
        self.inner.term()
    }

    /// Whether it leads, by the clock.
    pub fn is_leader(&self) -> bool {
        self.inner.is_leader()
    }

    /// Waits until it is over, and says why.
    pub fn lost(&self) -> Loss {
        self.runtime.run(self.inner.lost())
    }

    /// Waits until a better candidate wants to take over, and says how much time is left.
    pub fn yielding(&self) -> Duration {
        self.runtime.run(self.inner.yielding())
    }

    /// Publishes another value to observers.
    pub fn proclaim(&self, value: impl Into<Vec<u8>>) -> Result<(), Error> {
        self.runtime.run(self.inner.proclaim(value))
    }

    /// Leads no more, and waits until the server knows.
    pub fn resign(self) -> Result<(), Error> {
        let Self { inner, runtime } = self;
        runtime.run(inner.resign())
    }
}

/// Who leads an election: now, and whenever that changes.
#[derive(Debug)]
pub struct Observation {
    inner: crate::Observation,
    runtime: Arc<Runtime>,
}

impl Iterator for Observation {
    type Item = Result<view::Leader, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.runtime.run(self.inner.next())
    }
}
