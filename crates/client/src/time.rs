//! The clock by which leases are counted.

use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::watch;

/// A moment of `CLOCK_BOOTTIME`: it cannot be set, and runs on while the machine sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) u64);

impl Moment {
    /// A time that does not come.
    pub(crate) const NEVER: Self = Self(u64::MAX);

    #[expect(clippy::disallowed_methods, reason = "it is the clock that leases are counted by")]
    fn of_machine() -> Self {
        let time = clock_gettime(ClockId::Boottime);
        let whole = u64::try_from(time.tv_sec).expect("the machine started before now");
        let nanos = u64::try_from(time.tv_nsec).expect("a part of a second is not negative");
        Self(whole * 1_000_000_000 + nanos)
    }

    pub(crate) fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long it is from `earlier` to this; nothing if that is not earlier.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Where a client takes the time from.
#[derive(Clone, Debug, Default)]
pub enum TimeSource {
    /// `CLOCK_BOOTTIME` of the machine: it cannot be set, and runs on while the machine sleeps.
    #[default]
    Machine,
    /// Leases run out when a test says so.
    Manual(ManualTime),
}

impl TimeSource {
    pub(crate) fn now(&self) -> Moment {
        match self {
            Self::Machine => Moment::of_machine(),
            Self::Manual(time) => time.now(),
        }
    }

    /// Waits until a while has passed since `begun`, or a moment that a test has chosen has come.
    pub(crate) async fn sleep(&self, begun: Moment, span: Duration) {
        match self {
            Self::Machine => tokio::time::sleep(span).await,
            Self::Manual(time) => {
                time.slept.send_replace(begun.0);
                let mut passed = time.now.subscribe();
                let over = passed.wait_for(|&now| Moment(now) > begun).await;
                over.expect("the sender is in the same struct");
            }
        }
    }
}

/// Time that passes when a test says so, for all clients that go by it. What has to do with connections goes by the
/// clock of the machine all the same.
#[derive(Clone, Debug)]
pub struct ManualTime {
    now: Arc<watch::Sender<u64>>,
    /// When a client found nothing more to do.
    slept: Arc<watch::Sender<u64>>,
}

impl ManualTime {
    /// Time that stands still.
    #[expect(clippy::new_without_default, reason = "each one begins at a moment of its own")]
    pub fn new() -> Self {
        let now = Arc::new(watch::Sender::new(Moment::of_machine().0));
        Self { now, slept: Arc::default() }
    }

    /// Lets time pass.
    pub fn advance(&self, span: Duration) {
        self.now.send_modify(|now| *now = Moment(*now).plus(span).0);
    }

    /// Lets time pass, and waits until the client that goes by it, if it is one, has done what was due by then.
    pub async fn pass(&self, span: Duration) {
        self.advance(span);
        let now = self.now();
        let mut slept = self.slept.subscribe();
        let done = slept.wait_for(|&slept| Moment(slept) >= now).await;
        done.expect("the sender is in the same struct");
    }

    fn now(&self) -> Moment {
        Moment(*self.now.borrow())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_the_machine_runs_on() {
        let first = TimeSource::Machine.now();
        assert!(TimeSource::Machine.now() >= first && first > Moment(0));
        assert_eq!(Moment::NEVER.plus(Duration::from_secs(1)), Moment::NEVER);
    }

    #[tokio::test]
    async fn a_task_that_sleeps_by_a_manual_clock_wakes_when_it_is_advanced() {
        let time = ManualTime::new();
        let source = TimeSource::Manual(time.clone());
        let begun = source.now();
        assert_eq!(source.now(), begun, "it stands still");
        let sleeps = tokio::spawn({
            let source = source.clone();
            async move { source.sleep(begun, Duration::from_secs(3_600)).await }
        });
        time.pass(Duration::ZERO).await;
        time.advance(Duration::from_secs(1));
        sleeps.await.expect("it wakes");
        assert_eq!(source.now(), begun.plus(Duration::from_secs(1)));
    }
}
