use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use conclave_machine::Time;
use rustix::time::{ClockId, clock_gettime};

use crate::calendar::TimeOfDay;

/// The time that is written to the log.
///
/// It goes on from what the log says, by a clock that is never set. It is read often, so that a long while
/// between two readings means that the process was stopped, or its machine; then no lease could be
/// renewed, and next to nothing of it counts. A server that was stalled thus ends no lease for that.
pub(crate) struct Clock {
    source: TimeSource,
    last: Mutex<Reading>,
    /// The time of day when it was made, and the reading of the clock that is never set.
    begun: (TimeOfDay, Duration),
}

/// A moment, by the log and by the time of day.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now: Time,
    pub(crate) day: TimeOfDay,
}

/// Where a node takes the time from.
#[derive(Clone, Debug, Default)]
pub enum TimeSource {
    /// The clock of the machine, one that is never set.
    #[default]
    Machine,
    /// Time passes when a test says so. All of it counts: there are no stalls.
    Manual(ManualTime),
}

impl TimeSource {
    fn read(&self) -> Instant {
        match self {
            Self::Machine => real(),
            Self::Manual(time) => time.read(),
        }
    }

    /// The time of day.
    fn day(&self) -> TimeOfDay {
        match self {
            Self::Machine => time_of_day(),
            Self::Manual(time) => SOME_DAY + time.passed().as_millis() as u64,
        }
    }

    /// All the time that passes, that in which the machine sleeps included.
    fn passed(&self) -> Duration {
        match self {
            Self::Machine => since_boot(),
            Self::Manual(time) => time.passed(),
        }
    }

    /// Whether a long while between two readings means that the process was stopped.
    fn stalls(&self) -> bool {
        matches!(self, Self::Machine)
    }
}

/// Time that passes when a test says so.
#[derive(Clone, Debug)]
pub struct ManualTime {
    begun: Instant,
    passed: Arc<AtomicU64>,
}

impl ManualTime {
    /// Time that stands still.
    #[expect(clippy::new_without_default, reason = "each one begins at a moment of its own")]
    pub fn new() -> Self {
        Self { begun: real(), passed: Arc::default() }
    }

    /// Lets time pass for all nodes that go by it.
    pub fn advance(&self, span: Duration) {
        let nanos = span.as_nanos().try_into().expect("a test does not last for centuries");
        self.passed.fetch_add(nanos, Ordering::SeqCst);
    }

    fn read(&self) -> Instant {
        self.begun + self.passed()
    }

    fn passed(&self) -> Duration {
        Duration::from_nanos(self.passed.load(Ordering::SeqCst))
    }
}

struct Reading {
    real: Instant,
    time: Time,
}

/// A longer while between two readings is a stall.
const STALL: Duration = Duration::from_millis(250);
/// What counts of a stall.
const OF_STALL: Duration = Duration::from_millis(20);

impl Clock {
    /// A clock that goes on from this time.
    pub(crate) fn from(time: Time, source: TimeSource) -> Self {
        let last = Mutex::new(Reading { real: source.read(), time });
        let begun = (source.day(), source.passed());
        Self { source, last, begun }
    }

    /// The time, and the time of day. That goes on from when the node was started: if it is set meanwhile, no time has
    /// passed by that.
    pub(crate) fn moment(&self) -> Moment {
        let (day, passed) = self.begun;
        let passed = self.source.passed().saturating_sub(passed);
        Moment { now: self.now(), day: day.saturating_add(passed.as_millis() as u64) }
    }

    pub(crate) fn now(&self) -> Time {
        self.read_at(self.source.read())
    }

    fn read_at(&self, real: Instant) -> Time {
        let mut last = self.last.lock().expect("no code panics while it holds the lock");
        let mut passed = real.saturating_duration_since(last.real);
        if passed > STALL && self.source.stalls() {
            passed = OF_STALL;
        }
        *last = Reading { real: real.max(last.real), time: last.time + passed };
        last.time
    }
}

/// When the time of tests begins, in milliseconds since 1970.
const SOME_DAY: TimeOfDay = 1_800_000_000_000;

#[expect(clippy::disallowed_methods, reason = "people ask for how long something has been so")]
fn time_of_day() -> TimeOfDay {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as TimeOfDay)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a machine that sleeps does not stop the time of day"
)]
fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[expect(clippy::disallowed_methods, reason = "it is the source of log time")]
fn real() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_hardly_counts_and_time_never_goes_back() {
        let clock = Clock::from(Time::from_millis(5_000), TimeSource::Machine);
        let begun = real();
        let read = |after| clock.read_at(begun + Duration::from_millis(after));
        let first = read(100);
        assert_eq!(read(300).since(first), Duration::from_millis(200));
        assert_eq!(read(60_300).since(first), Duration::from_millis(220));
        assert_eq!(read(50), read(60_300), "an earlier reading changes nothing");
        assert_eq!(read(60_400).since(first), Duration::from_millis(320));
    }

    #[test]
    fn time_that_a_test_lets_pass_counts_to_the_last_moment() {
        let time = ManualTime::new();
        let clock = Clock::from(Time::from_millis(5_000), TimeSource::Manual(time.clone()));
        assert_eq!(clock.now(), Time::from_millis(5_000), "it stands still");
        time.advance(Duration::from_secs(3_600));
        assert_eq!(clock.now(), Time::from_millis(3_605_000));
    }
}
