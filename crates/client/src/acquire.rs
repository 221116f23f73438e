use std::fmt;
use std::time::Duration;

use conclave_api::v1;
use conclave_api::v1::ask::What as Operation;

use crate::state::Callback;

/// A lock, and how it is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    lock: String,
    mode: v1::Mode,
    permits: u32,
    of: u32,
}

impl Want {
    /// Exclusively.
    pub fn exclusive(lock: impl Into<String>) -> Self {
        Self { lock: lock.into(), mode: v1::Mode::Exclusive, permits: 0, of: 0 }
    }

    /// By others who share it, too.
    pub fn shared(lock: impl Into<String>) -> Self {
        Self { mode: v1::Mode::Shared, ..Self::exclusive(lock) }
    }

    /// As some of a number of permits.
    pub fn permits(lock: impl Into<String>, take: u32, of: u32) -> Self {
        Self { mode: v1::Mode::Permits, permits: take, of, ..Self::exclusive(lock) }
    }
}

/// A request for locks: all of them at once, or none.
#[must_use]
pub struct Acquire {
    pub(crate) wants: Vec<Want>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) owner: Option<u32>,
    pub(crate) reentrant: bool,
    pub(crate) on_waiting: Option<Callback>,
}

impl Acquire {
    /// All of these.
    pub fn all(wants: impl IntoIterator<Item = Want>) -> Self {
        let wants = wants.into_iter().collect();
        Self { wants, timeout: None, owner: None, reentrant: false, on_waiting: None }
    }

    /// A lock that no other may hold at the same time.
    pub fn exclusive(lock: impl Into<String>) -> Self {
        Self::all([Want::exclusive(lock)])
    }

    /// A lock that others may share.
    pub fn shared(lock: impl Into<String>) -> Self {
        Self::all([Want::shared(lock)])
    }

    /// Some of a number of permits.
    pub fn permits(lock: impl Into<String>, take: u32, of: u32) -> Self {
        Self::all([Want::permits(lock, take, of)])
    }

    /// The same, with a timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The same, but at once or not at all.
    pub fn at_once(self) -> Self {
        self.timeout(Duration::ZERO)
    }

    /// The same, and if this thread of control holds the lock already, it holds it once more. For one lock
    /// at a time.
    pub fn reentrant(mut self) -> Self {
        self.reentrant = true;
        self
    }

    /// The same on account of another thread of control than that of the handle. A caller that
    /// numbers its threads of control numbers all of them, and has each wait for one thing at a time.
    pub fn owner(mut self, owner: u32) -> Self {
        self.owner = Some(owner);
        self
    }

    /// The same, and if it has to wait, this is called when it begins to; it should not take long.
    pub fn on_waiting(mut self, then: impl FnOnce() + Send + 'static) -> Self {
        self.on_waiting = Some(Box::new(then));
        self
    }

    pub(crate) fn into_operation(self, owner: u32) -> (Operation, Option<Callback>) {
        let Self { wants, timeout, reentrant, on_waiting, .. } = self;
        let want = |want: Want| {
            let Want { lock, mode, permits, of } = want;
            v1::Want { lock, mode: mode.into(), permits, of }
        };
        let acquire = v1::Acquire {
            wants: wants.into_iter().map(want).collect(),
            owner,
            timeout_ms: timeout.map(millis),
            reentrant,
            tell_waiting: on_waiting.is_some(),
        };
        (Operation::Acquire(acquire), on_waiting)
    }
}

impl fmt::Debug for Acquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wants, timeout, owner, reentrant, .. } = self;
        let mut shown = f.debug_struct("Acquire");
        shown.field("wants", wants).field("timeout", timeout);
        shown.field("owner", owner).field("reentrant", reentrant).finish_non_exhaustive()
    }
}

/// A span in milliseconds, rounded up: only zero becomes zero.
pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_no_time_at_all_means_at_once() {
        let spans = [Duration::ZERO, Duration::from_nanos(1), Duration::from_micros(2500)];
        assert_eq!(spans.map(millis), [0, 1, 3]);
        assert_eq!(millis(Duration::MAX), u64::MAX);
    }
}
