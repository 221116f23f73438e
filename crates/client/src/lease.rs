//! How long a session is certain to live.
//!
//! The server keeps a session for its time-to-live after it *wrote* the last renewal to its log. The client
//! cannot know when that was, but it was not before the renewal was *sent*. So the client counts from there,
//! and by the time its lease is over, the server's is not, whatever the network did.
//!
//! That holds as long as the two clocks run at the same rate. They do not quite, and so the client gives up
//! one part in [`DRIFT`] of every lease: it is safe while the rates differ by less than that, which is
//! hundreds of times more than a quartz crystal may be off.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::time::Moment;

/// One part in so many of a lease is left to the difference between the rates of two clocks.
pub const DRIFT: u32 = 64;

/// The time for which a session is certain to live. Once over, it stays over.
#[derive(Debug)]
pub(crate) struct Lease {
    ttl: Duration,
    /// When it ends, in the terms of [`Moment`]; [`OVER`] once a reader has seen that.
    end: AtomicU64,
}

/// No lease ends at the start of the machine.
const OVER: u64 = 0;

impl Lease {
    /// The lease of a session that was asked for at `sent`.
    pub(crate) fn new(ttl: Duration, sent: Moment) -> Self {
        Self { ttl, end: AtomicU64::new(sent.plus(certain(ttl)).0) }
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Whether it lasts at `now`. The first reader that finds that it does not ends it for good, so that no later
    /// renewal brings back what a reader has already seen to be over.
    pub(crate) fn lasts(&self, now: Moment) -> bool {
        let mut end = self.end.load(Ordering::SeqCst);
        loop {
            if end == OVER || now.0 < end {
                return end != OVER;
            }
            match self.end.compare_exchange(end, OVER, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return false,
                Err(renewed) => end = renewed,
            }
        }
    }

    /// The server has confirmed, by `now`, a renewal that was sent at `sent`. Says whether it came in time.
    pub(crate) fn renew(&self, sent: Moment, now: Moment) -> bool {
        let renewed = sent.plus(certain(self.ttl)).0;
        let mut end = self.end.load(Ordering::SeqCst);
        while self.lasts(now) {
            let later = end.max(renewed);
            match self.end.compare_exchange(end, later, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return true,
                Err(changed) => end = changed,
            }
        }
        false
    }

    /// Ends it.
    pub(crate) fn end(&self) {
        self.end.store(OVER, Ordering::SeqCst);
    }

    /// When it ends.
    pub(crate) fn ends(&self) -> Moment {
        Moment(self.end.load(Ordering::SeqCst))
    }

    /// What is left of it.
    pub(crate) fn remaining(&self, now: Moment) -> Duration {
        if self.lasts(now) { self.ends().since(now) } else { Duration::ZERO }
    }
}

/// How much of a time-to-live can be relied upon.
fn certain(ttl: Duration) -> Duration {
    ttl - ttl / DRIFT
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_millis(6400);

    fn at(millis: u64) -> Moment {
        Moment(1).plus(Duration::from_millis(millis))
    }

    #[test]
    fn a_lease_counts_from_when_it_was_asked_for_and_leaves_room_for_drift() {
        let lease = Lease::new(TTL, at(1000));
        assert!(lease.lasts(at(7299)));
        assert_eq!(lease.remaining(at(7000)), Duration::from_millis(300));
        assert!(!lease.lasts(at(7300)));
        assert_eq!(lease.remaining(at(7000)), Duration::ZERO);
    }

    #[test]
    fn a_renewal_counts_from_when_it_was_sent_however_late_its_answer() {
        let lease = Lease::new(TTL, at(0));
        assert!(lease.renew(at(2000), at(6299)));
        assert!(lease.lasts(at(8299)));
        assert!(!lease.lasts(at(8300)));
    }

    #[test]
    fn answers_out_of_order_do_not_shorten_it() {
        let lease = Lease::new(TTL, at(0));
        assert!(lease.renew(at(4000), at(4100)));
        assert!(lease.renew(at(2000), at(4200)));
        assert!(lease.lasts(at(10_299)));
    }

    #[test]
    fn what_is_over_stays_over() {
        let lease = Lease::new(TTL, at(0));
        assert!(!lease.renew(at(6000), at(6300)), "the answer came too late");
        assert!(!lease.lasts(at(6301)) && !lease.lasts(at(100)));
        let lease = Lease::new(TTL, at(0));
        assert!(!lease.lasts(at(6300)));
        assert!(!lease.renew(at(6200), at(6299)), "a reader has already seen that it is over");
        let lease = Lease::new(TTL, at(0));
        lease.end();
        assert!(!lease.lasts(at(1)) && !lease.renew(at(1), at(1)));
    }

    #[test]
    fn a_reader_that_has_seen_it_over_never_sees_it_last_again() {
        // Readers and renewals race for the same moment; whichever wins, no reader sees false and then true.
        for round in 0..2000 {
            let lease = Lease::new(TTL, at(0));
            std::thread::scope(|threads| {
                let renewal = threads.spawn(|| lease.renew(at(5000), at(6299)));
                let seen: Vec<bool> = (0..3).map(|_| lease.lasts(at(6300))).collect();
                let renewed = renewal.join().expect("it does not panic");
                let order = seen.windows(2).all(|pair| pair[0] || !pair[1]);
                assert!(order && renewed == lease.lasts(at(6300)), "{round}: {seen:?}, {renewed}");
            });
        }
    }
}
