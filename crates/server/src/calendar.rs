//! The time of day. Leases stand still while a node is down or stalled, so log time does not say how long a lock has
//! really been held; people who look at it want the real time.

use std::time::Duration;

use conclave_machine::Time;

/// How much real time was left out of the log, and where. Every entry of the log has the time of day, so each copy of
/// the state comes to the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Calendar {
    /// By how many milliseconds the time of day was ahead of the time of the log; zero if that is not known.
    pub(crate) ahead: u64,
    pub(crate) gaps: Vec<Gap>,
}

/// After this moment time was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) after: Time,
    /// How many milliseconds were left out, here and before.
    pub(crate) total: u64,
}

conclave_record::record!(Calendar { 1 ahead, 2 gaps });
conclave_record::record!(Gap { 1 after, 2 total });

/// The time of day, in milliseconds since 1970; zero if it is not known.
pub(crate) type TimeOfDay = u64;

/// A shorter gap, in milliseconds, is not worth remembering yet.
const WORTH: u64 = 100;
/// How many gaps are remembered.
const MOST: usize = 1000;

impl Calendar {
    /// An entry was written at this time, after one that was written before.
    pub(crate) fn note(&mut self, before: Time, at: Time, day: TimeOfDay) {
        let Some(ahead) = ahead(at, day) else { return };
        let gap = self.gap(ahead);
        if gap > 0 {
            self.gaps.push(Gap { after: before, total: self.total() + gap });
        }
        // Of a clock that was set back while the node was down only that can be known.
        if gap > 0 || ahead < self.ahead || self.ahead == 0 {
            self.ahead = ahead;
        }
        if self.gaps.len() > MOST {
            // Rather too little is said of what is that old than too much.
            let second = self.gaps.remove(1);
            self.gaps[0].total = second.total;
        }
    }

    /// How much real time has passed since a moment of the log, as far as that is known.
    pub(crate) fn passed(&self, since: Time, now: Time, day: TimeOfDay) -> Duration {
        let earlier = self.gaps.partition_point(|gap| gap.after < since);
        let before = earlier.checked_sub(1).map_or(0, |last| self.gaps[last].total);
        // A gap after the last entry is yet to be written down.
        let last = ahead(now, day).map_or(0, |ahead| self.gap(ahead));
        now.since(since) + Duration::from_millis(self.total() - before + last)
    }

    fn total(&self) -> u64 {
        self.gaps.last().map_or(0, |last| last.total)
    }

    fn gap(&self, ahead: u64) -> u64 {
        let gap = if self.ahead == 0 { 0 } else { ahead.saturating_sub(self.ahead) };
        if gap < WORTH { 0 } else { gap }
    }
}

fn ahead(at: Time, day: TimeOfDay) -> Option<u64> {
    day.checked_sub(at.as_nanos() / 1_000_000).filter(|_| day > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 1_800_000_000_000;

    fn at(seconds: u64) -> Time {
        Time::from_millis(seconds * 1000)
    }

    fn day(seconds: u64) -> TimeOfDay {
        DAY + seconds * 1000
    }

    fn passed(calendar: &Calendar, since: u64, now: u64, then: u64) -> u64 {
        calendar.passed(at(since), at(now), day(then)).as_secs()
    }

    #[test]
    fn what_was_left_out_counts_for_all_that_was_there_before_and_for_nothing_after() {
        let mut calendar = Calendar::default();
        calendar.note(at(0), at(10), day(10));
        calendar.note(at(10), at(20), day(20));
        assert_eq!(calendar, Calendar { ahead: DAY, gaps: Vec::new() });
        // An hour is left out, then a minute.
        calendar.note(at(20), at(21), day(3_621));
        calendar.note(at(21), at(31), day(3_631));
        calendar.note(at(31), at(32), day(3_692));
        assert_eq!(calendar.gaps.len(), 2);
        assert_eq!(passed(&calendar, 10, 40, 3_700), 3_690);
        assert_eq!(passed(&calendar, 20, 40, 3_700), 3_680);
        assert_eq!(passed(&calendar, 21, 40, 3_700), 79);
        assert_eq!(passed(&calendar, 32, 40, 3_700), 8);
        // And a stall since the last entry.
        assert_eq!(passed(&calendar, 32, 40, 3_800), 108);
    }

    #[test]
    fn a_clock_that_was_set_back_takes_nothing_away_and_later_gaps_count() {
        let mut calendar = Calendar::default();
        calendar.note(at(0), at(10), day(1_010));
        calendar.note(at(10), at(11), day(11));
        assert_eq!(passed(&calendar, 10, 15, 15), 5);
        calendar.note(at(15), at(16), day(66));
        assert_eq!(passed(&calendar, 10, 16, 66), 56);
    }

    #[test]
    fn without_the_time_of_day_there_is_the_time_of_the_log() {
        let mut calendar = Calendar::default();
        calendar.note(at(0), at(10), 0);
        assert_eq!(calendar, Calendar::default());
        assert_eq!(calendar.passed(at(10), at(15), 0), Duration::from_secs(5));
        assert_eq!(passed(&calendar, 10, 15, 99), 5);
    }

    #[test]
    fn no_more_gaps_are_remembered_than_there_is_room_for() {
        let mut calendar = Calendar::default();
        for life in 1..=2 * MOST as u64 {
            calendar.note(at(life - 1), at(life), day(2 * life));
        }
        assert_eq!(calendar.gaps.len(), MOST);
        let last = 2 * MOST as u64;
        assert_eq!(passed(&calendar, last - 10, last, 2 * last), 20);
        assert_eq!(passed(&calendar, 0, last, 2 * last), 2 * last - 1, "all that is left out");
    }
}
