use std::fmt;
use std::ops::Add;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A moment by the clock of the log: nanoseconds since the machine was made.
///
/// Only the writer of the log says what time it is. The machine never reads a
/// clock, so that every copy of it that reads the same log comes to the same state.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Time(u64);

impl Time {
    /// When the machine was made.
    pub const ZERO: Self = Self(0);

    /// The moment `nanos` nanoseconds later.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The moment `millis` milliseconds later.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the machine was made.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How much later this is than `earlier`; nothing if it is not later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(nanos(span)))
    }
}

/// A span in nanoseconds; five centuries stand for all that is longer.
fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Duration::from_nanos(self.0).fmt(f)
    }
}
