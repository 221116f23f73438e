//! The clock that leases are counted by: it cannot be set, it runs on while the machine sleeps, and all processes of
//! the machine read the same.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// What it says.
#[expect(clippy::disallowed_methods, reason = "a guard has to know when a lease ends")]
pub(crate) fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// When a lease ends of which so much remains. The clock is read first: however long this process is stopped
/// between the two readings, the end is not put off.
pub(crate) fn end_of(remaining: impl FnOnce() -> Duration) -> Duration {
    let before = now();
    before + remaining()
}
