use std::sync::Arc;
use std::time::Duration;

use conclave_api::v1;
use conclave_api::v1::ask::What as Operation;

use crate::acquire::millis;
use crate::handles::{Term, wait_for_some};
use crate::session::{SessionCore, out_of_turn};
use crate::state::Outcome;
use crate::time::Moment;
use crate::{Error, Loss, Session};

/// A candidacy in an election.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Candidacy {
    /// Which election.
    pub election: String,
    /// The candidate with the highest rank leads; of equals, the first.
    pub rank: i64,
    /// Whether a leader of lower rank is to yield.
    pub preempt: bool,
    /// How long it may lead on, as leader, when it is asked to yield.
    pub grace: Duration,
    /// What others see when it leads.
    pub value: Vec<u8>,
    /// For how long it may take: no time means at once or not at all, nothing means as long as it takes.
    pub timeout: Option<Duration>,
    /// The thread of control that stands and then leads, if it is not that of the handle.
    pub owner: Option<u32>,
}

impl Candidacy {
    /// Stands in an election, with rank 0.
    pub fn new(election: impl Into<String>) -> Self {
        Self { election: election.into(), ..Self::default() }
    }

    /// The same with another rank.
    pub fn rank(mut self, rank: i64) -> Self {
        self.rank = rank;
        self
    }

    /// The same, and a leader of lower rank is to yield.
    pub fn preempt(mut self) -> Self {
        self.preempt = true;
        self
    }

    /// The same, with so much time to stop when it is asked to yield. It should be well above what it
    /// takes a message to get here.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// The same, with a value that observers see while it leads.
    pub fn value(mut self, value: impl Into<Vec<u8>>) -> Self {
        self.value = value.into();
        self
    }

    /// The same, with a timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The same on account of another thread of control than that of the handle, as
    /// [`Acquire::owner`](crate::Acquire::owner) has it for locks.
    pub fn owner(mut self, owner: u32) -> Self {
        self.owner = Some(owner);
        self
    }
}

impl Session {
    /// Waits until this session leads.
    ///
    /// The handle's thread of control does nothing else until then, as far as the server knows, and then it
    /// leads: if it holds a lock that the leader waits for, the leader is told that this is a deadlock. A program
    /// that stands by while it does other work campaigns through a clone.
    ///
    /// If the future is dropped before it is done, the session does not stand any more, and does not lead.
    pub async fn campaign(&self, candidacy: Candidacy) -> Result<Leadership, Error> {
        let Candidacy { election, rank, preempt, grace, value, timeout, owner } = candidacy;
        let (grace_ms, timeout_ms) = (millis(grace), timeout.map(millis));
        let (thread, waiting) = self.begin_waiting_for(owner);
        let owner = Some(thread.owner());
        let campaign = v1::Campaign { election, rank, preempt, grace_ms, value, timeout_ms, owner };
        let limit = timeout.filter(|timeout| !timeout.is_zero());
        let answer = self.core().request_within(Operation::Campaign(campaign), None, limit).await;
        drop(waiting);
        match answer? {
            Outcome::Leads(term) => {
                Ok(Leadership { core: self.core().clone(), term, spent: false })
            }
            Outcome::Done | Outcome::Held(_) => Err(out_of_turn()),
        }
    }
}

/// A leadership. When it is dropped, the session resigns.
///
/// One that was deposed is over at once for this program ([`is_leader`](Self::is_leader),
/// [`lost`](Self::lost)), but not yet for others: the next candidate leads when this is dropped or
/// [resigned](Self::resign), which confirms that the program has stopped to lead, or when its lease has
/// ended. So it is to be dropped as soon as the program has stopped, and not before.
#[derive(Debug)]
#[must_use = "a leader that is dropped resigns"]
pub struct Leadership {
    core: Arc<SessionCore>,
    term: Arc<Term>,
    spent: bool,
}

impl Leadership {
    /// The fencing token of the leadership, greater than those of all before.
    pub fn term(&self) -> u64 {
        self.term.number
    }

    /// Which election.
    pub fn election(&self) -> &str {
        &self.term.election
    }

    /// The number of the session that leads.
    pub fn session(&self) -> u64 {
        self.core.id()
    }

    fn now(&self) -> Moment {
        self.core.shared().options.time.now()
    }

    /// Whether it leads. This reads the clock, as [`Session::is_alive`] does; and if the leader was asked
    /// to yield, it does not lead any more once its grace period is over.
    pub fn is_leader(&self) -> bool {
        let graced = self.term.yield_by().is_none_or(|by| self.now() < by);
        graced && self.term.loss.get().is_none() && self.core.is_alive()
    }

    /// For how much longer it is certain to lead, even if nothing is heard any more.
    pub fn remaining(&self) -> Duration {
        // In this order: a renewal that does not prolong the leadership comes after the word that it is over.
        let remaining = self.core.remaining();
        if self.term.loss.get().is_some() { Duration::ZERO } else { remaining }
    }

    /// Waits until it is over, and says why.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + 'static {
        self.term.loss.wait()
    }

    /// Waits until a better candidate wants to take over, and says how much time is left to stop and
    /// [`resign`](Self::resign).
    pub fn yielding(&self) -> impl Future<Output = Duration> + Send + 'static {
        let (asked, time) = (self.term.asked_to_yield(), self.core.shared().options.time.clone());
        async move {
            let by = wait_for_some(asked, Moment::NEVER).await;
            if by == Moment::NEVER {
                // It is over, and is not asked to yield any more.
                return std::future::pending().await;
            }
            by.since(time.now())
        }
    }

    /// Publishes another value to observers.
    pub async fn proclaim(&self, value: impl Into<Vec<u8>>) -> Result<(), Error> {
        let (election, term) = (self.term.election.clone(), self.term.number);
        let proclaim = v1::Proclaim { election, term, value: value.into() };
        self.core.request(Operation::Proclaim(proclaim)).await.map(drop)
    }

    /// Leads no more, and waits until the server knows. If it was over before, that is confirmed, and it says
    /// so.
    pub async fn resign(mut self) -> Result<(), Error> {
        self.spent = true;
        let (core, term) = (&self.core, &self.term);
        let operation = core.shared().with_state(|state| state.resignation_of(core.id(), term));
        match (operation, term.loss.get()) {
            (Some(operation), None) => core.request(operation).await.map(drop),
            (Some(operation), Some(loss)) => {
                // Another may lead already, and then there was nothing to confirm.
                let _ = core.request(operation).await;
                Err(Error::Lost(loss))
            }
            (None, Some(loss)) if core.is_alive() => Err(Error::Lost(loss)),
            (None, loss) => Err(Error::SessionLost(loss.unwrap_or(Loss::Gone))),
        }
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        if !self.spent {
            let Self { core, term, .. } = self;
            core.shared().with_state(|state| state.resign(core.id(), term));
        }
    }
}
