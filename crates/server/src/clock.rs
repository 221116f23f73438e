use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use conclave_machine::Time;

/// The time that is written to the log.
///
/// It goes on from what the log says, by a clock that is never set. It is read often, so that a long while
/// between two readings means that the process was stopped, or its machine; then nobody could have renewed
/// anything, and next to nothing of it counts. A server that was stalled thus ends no lease for that.
pub(crate) struct Clock {
    source: TimeSource,
    last: Mutex<Reading>,
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
        self.begun + Duration::from_nanos(self.passed.load(Ordering::SeqCst))
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
        Self { source, last }
    }

    pub(crate) fn now(&self) -> Time {
        self.read_at(self.source.read())
    }

    fn read_at(&self, real: Instant) -> Time {
        let mut last = self.last.lock().expect("nobody panics while reading the clock");
        let mut passed = real.saturating_duration_since(last.real);
        if passed > STALL && self.source.stalls() {
            passed = OF_STALL;
        }
        *last = Reading { real: real.max(last.real), time: last.time + passed };
        last.time
    }
}

#[expect(clippy::disallowed_methods, reason = "somebody has to tell the time")]
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
