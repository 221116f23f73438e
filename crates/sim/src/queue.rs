use std::cmp::Ordering;
use std::collections::BinaryHeap;

use conclave_protocol::Time;

/// When something happens, and before what else of the same instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The instant.
    pub at: Time,
    /// Its class, then its sender: faults, messages by sender, applications, timers.
    pub rank: u32,
    /// The order in which it was scheduled.
    pub seq: u64,
}

/// What is to happen, earliest first.
///
/// A timing wheel: the near future lies in slots of equal width, found by a bitmap; only what is
/// further away than a revolution goes through a heap. Within a slot, events are put in order
/// when their turn comes. Measured against a plain `BinaryHeap` in `benches/`.
pub struct Calendar<T> {
    slots: Vec<Vec<Item<T>>>,
    occupied: [u64; SLOTS / 64],
    /// The slot being emptied, latest event first.
    current: Vec<Item<T>>,
    /// Its absolute number.
    turn: u64,
    /// A slot is `2^shift` nanoseconds wide.
    shift: u32,
    /// Beyond the wheel's horizon.
    far: BinaryHeap<Item<T>>,
    len: usize,
}

struct Item<T> {
    key: Key,
    what: T,
}

const SLOTS: usize = 1024;

impl<T> Calendar<T> {
    /// A calendar for events that mostly lie at most `typical` ahead.
    pub fn new(typical: std::time::Duration) -> Self {
        let nanos = u64::try_from(typical.as_nanos()).unwrap_or(u64::MAX).max(1);
        // The typical distance should span most of a revolution, and never more than one.
        let shift = (nanos / (SLOTS as u64 - 1)).checked_ilog2().map_or(0, |log| log + 1);
        Self {
            slots: (0..SLOTS).map(|_| Vec::new()).collect(),
            occupied: [0; SLOTS / 64],
            current: Vec::new(),
            turn: 0,
            shift,
            far: BinaryHeap::new(),
            len: 0,
        }
    }

    /// How many events are pending.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Schedules `what`. Nothing may be scheduled before what was popped last.
    pub fn push(&mut self, key: Key, what: T) {
        self.len += 1;
        let item = Item { key, what };
        let slot = key.at.as_nanos() >> self.shift;
        if slot <= self.turn {
            // The batch is sorted latest first; ties are impossible, `seq` being unique.
            let place = self.current.partition_point(|other| other.key > key);
            self.current.insert(place, item);
        } else if slot - self.turn < SLOTS as u64 {
            self.put(slot, item);
        } else {
            self.far.push(item);
        }
    }

    /// Takes the earliest event.
    pub fn pop(&mut self) -> Option<(Key, T)> {
        loop {
            if let Some(item) = self.current.pop() {
                self.len -= 1;
                return Some((item.key, item.what));
            }
            if self.len == 0 {
                return None;
            }
            self.advance();
        }
    }

    /// When the earliest event happens.
    pub fn next_at(&mut self) -> Option<Time> {
        while self.current.is_empty() && self.len > 0 {
            self.advance();
        }
        self.current.last().map(|item| item.key.at)
    }

    fn put(&mut self, slot: u64, item: Item<T>) {
        let index = slot as usize % SLOTS;
        self.slots[index].push(item);
        self.occupied[index / 64] |= 1 << (index % 64);
    }

    /// Moves on to the next slot with an event in it.
    fn advance(&mut self) {
        let near = self.next_occupied();
        let far = self.far.peek().map(|item| item.key.at.as_nanos() >> self.shift);
        self.turn = match (near, far) {
            (Some(near), Some(far)) => near.min(far),
            (Some(slot), None) | (None, Some(slot)) => slot,
            (None, None) => return,
        };
        while let Some(item) = self.far.peek() {
            let slot = item.key.at.as_nanos() >> self.shift;
            if slot - self.turn >= SLOTS as u64 {
                break;
            }
            let item = self.far.pop().expect("peeked");
            self.put(slot, item);
        }
        let index = self.turn as usize % SLOTS;
        self.occupied[index / 64] &= !(1 << (index % 64));
        std::mem::swap(&mut self.current, &mut self.slots[index]);
        if self.current.len() > 1 {
            self.current.sort_unstable_by_key(|item| std::cmp::Reverse(item.key));
        }
    }

    /// The absolute number of the first slot after the current one that has an event.
    fn next_occupied(&self) -> Option<u64> {
        let start = (self.turn as usize + 1) % SLOTS;
        let mut word = start / 64;
        let mut bits = self.occupied[word] & (!0 << (start % 64));
        for _ in 0..=SLOTS / 64 {
            if bits != 0 {
                let index = word * 64 + bits.trailing_zeros() as usize;
                return Some(self.turn + 1 + ((index + SLOTS - start) % SLOTS) as u64);
            }
            word = (word + 1) % (SLOTS / 64);
            bits = self.occupied[word];
        }
        None
    }
}

// Reversed: `BinaryHeap` pops the greatest.
impl<T> Ord for Item<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key)
    }
}

impl<T> PartialOrd for Item<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Item<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<T> Eq for Item<T> {}

impl<T> std::fmt::Debug for Calendar<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Calendar").field("pending", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::time::Duration;

    use super::*;
    use crate::Rng;

    #[test]
    fn a_calendar_pops_exactly_what_a_heap_pops() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            // Widths from "everything in one slot" to "most beyond the horizon".
            let typical = 1 << rng.below(24);
            let mut calendar = Calendar::new(Duration::from_nanos(typical));
            let mut heap = BinaryHeap::new();
            let (mut now, mut seq) = (0, 0);
            for _ in 0..5_000 {
                if rng.below(100) < 52 {
                    let reach = [1, typical, typical * 50][rng.below(3) as usize];
                    let at = Time::from_nanos(now + rng.below(reach));
                    let key = Key { at, rank: rng.below(3) as u32, seq };
                    calendar.push(key, seq);
                    heap.push(Reverse(key));
                    seq += 1;
                } else {
                    let expected = heap.pop().map(|Reverse(key)| (key, key.seq));
                    assert_eq!(calendar.next_at(), expected.map(|(key, _)| key.at));
                    assert_eq!(calendar.pop(), expected);
                    now = expected.map_or(now, |(key, _)| key.at.as_nanos());
                }
                assert_eq!(calendar.len(), heap.len());
            }
        }
    }
}
