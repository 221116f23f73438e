use std::sync::Mutex;
use std::time::{Duration, Instant};

use conclave_machine::Time;

/// The time that is written to the log.
///
/// It goes on from what the log says, by a clock that is never set. It is read often, so that a long while
/// between two readings means that the process was stopped, or its machine; then nobody could have renewed
/// anything, and next to nothing of it counts. A server that was stalled thus ends no lease for that.
pub(crate) struct Clock(Mutex<Reading>);

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
    pub(crate) fn from(time: Time) -> Self {
        Self(Mutex::new(Reading { real: real(), time }))
    }

    pub(crate) fn now(&self) -> Time {
        self.read_at(real())
    }

    fn read_at(&self, real: Instant) -> Time {
        let mut last = self.0.lock().expect("nobody panics while reading the clock");
        let mut passed = real.saturating_duration_since(last.real);
        if passed > STALL {
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
        let clock = Clock::from(Time::from_millis(5_000));
        let begun = real();
        let read = |after| clock.read_at(begun + Duration::from_millis(after));
        let first = read(100);
        assert_eq!(read(300).since(first), Duration::from_millis(200));
        assert_eq!(read(60_300).since(first), Duration::from_millis(220));
        assert_eq!(read(50), read(60_300), "an earlier reading changes nothing");
        assert_eq!(read(60_400).since(first), Duration::from_millis(320));
    }
}
