//! The one clock of a history.

use std::time::Duration;

use conclave_history::Time;
use rustix::time::{ClockId, clock_gettime};

/// The time by the clock that leases are counted by.
#[expect(clippy::disallowed_methods, reason = "a history is of what happened when")]
pub(crate) fn now() -> Time {
    let time = clock_gettime(ClockId::Boottime);
    let whole = u64::try_from(time.tv_sec).expect("the machine started before now");
    let nanos = u64::try_from(time.tv_nsec).expect("a part of a second is not negative");
    whole * 1_000_000_000 + nanos
}

/// In the units of a history.
pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Waits in a process or a thread of its own.
#[expect(clippy::disallowed_methods, reason = "the moment of a fault is a matter of time")]
pub(crate) fn pause(span: Duration) {
    std::thread::sleep(span);
}
