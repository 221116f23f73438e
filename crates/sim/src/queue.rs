use std::cmp::Ordering;
use std::collections::BinaryHeap;

use conclave_protocol::{NodeId, Time};

/// When something happens, and before what else of the same instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The instant.
    pub at: Time,
    /// Among events of that instant: by class, then by sender, then as they were scheduled.
    /// Different for every event.
    order: u64,
}

/// What kind of event goes before what other of the same instant: faults, then messages, then
/// applications, then timers, so that a time-out never beats an answer that is just in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Something is done to the system.
    Fault,
    /// A message arrives.
    Message,
    /// An application asks.
    Application,
    /// A timer runs out.
    Timer,
}

/// Bits for the sender and for the number in [`Key::order`]; the class has the two above.
const SENDER_BITS: u32 = 20;
const NUMBER_BITS: u32 = 42;

impl Key {
    /// The key of the `number`th event scheduled, caused by `sender`.
    #[inline]
    pub fn new(at: Time, class: Class, sender: NodeId, number: u64) -> Self {
        debug_assert!(sender.0 < 1 << SENDER_BITS, "there is room for 2^20 nodes");
        debug_assert!(number < 1 << NUMBER_BITS, "there is room for 2^42 events");
        let class = (class as u64) << (SENDER_BITS + NUMBER_BITS);
        Self { at, order: class | u64::from(sender.0) << NUMBER_BITS | number }
    }

    /// The same event, later.
    #[must_use]
    pub fn postponed(self, at: Time) -> Self {
        Self { at, ..self }
    }

    /// Who caused it.
    #[inline]
    pub fn sender(self) -> NodeId {
        NodeId((self.order >> NUMBER_BITS) as u32 & ((1 << SENDER_BITS) - 1))
    }

    /// The number it was scheduled under.
    #[inline]
    pub fn number(self) -> u64 {
        self.order & ((1 << NUMBER_BITS) - 1)
    }
}

/// What is to happen, earliest first.
///
/// A timing wheel: the near future lies in slots of equal width, found by a bitmap; only what is
/// further away than a revolution goes through a heap. Within a slot, events are put in order
/// when their turn comes. The width follows the density of events, so that a turn has a few.
/// Measured against a plain `BinaryHeap` in `benches/`.
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
    /// Turns and events since the width was last looked at.
    turns: u32,
    taken: u32,
}

struct Item<T> {
    key: Key,
    what: T,
}

/// The width is looked at after so many turns, and kept while a turn has 2 to 12 events.
const TURNS: u32 = 512;

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
            turns: 0,
            taken: 0,
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
    #[inline(always)]
    pub fn push(&mut self, key: Key, what: T) {
        self.len += 1;
        let slot = key.at.as_nanos() >> self.shift;
        // Nearly always true. Kept apart so that the event is written once, where it belongs.
        if slot.wrapping_sub(self.turn + 1) < SLOTS as u64 - 1 {
            let index = slot as usize % SLOTS;
            self.occupied[index / 64] |= 1 << (index % 64);
            self.slots[index].push(Item { key, what });
        } else {
            self.push_aside(Item { key, what });
        }
    }

    /// Schedules what happens in the current turn or beyond the horizon.
    #[cold]
    #[inline(never)]
    fn push_aside(&mut self, item: Item<T>) {
        if item.key.at.as_nanos() >> self.shift > self.turn {
            self.far.push(item);
        } else {
            // The batch is sorted latest first; ties are impossible, keys being unique.
            let place = self.current.partition_point(|other| other.key > item.key);
            self.current.insert(place, item);
        }
    }

    /// Takes the earliest event.
    #[inline(always)]
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

    /// Moves on to the next slot with an event in it.
    fn advance(&mut self) {
        self.turns += 1;
        if self.turns == TURNS {
            self.adapt();
            if !self.current.is_empty() {
                return;
            }
        }
        match self.next_occupied() {
            Some(near) if self.far.is_empty() => self.turn = near,
            near => self.fetch_far(near),
        }
        let index = self.turn as usize % SLOTS;
        self.occupied[index / 64] &= !(1 << (index % 64));
        std::mem::swap(&mut self.current, &mut self.slots[index]);
        match self.current.as_mut_slice() {
            [_] => {}
            [first, second] => {
                if first.key < second.key {
                    std::mem::swap(first, second);
                }
            }
            several => several.sort_unstable_by_key(|item| std::cmp::Reverse(item.key)),
        }
        self.taken += self.current.len() as u32;
    }

    /// Moves on to `near` or, if that is earlier, to the first of the events beyond the horizon,
    /// and brings those in that are within it now.
    #[cold]
    fn fetch_far(&mut self, near: Option<u64>) {
        let slot_of = |item: &Item<T>| item.key.at.as_nanos() >> self.shift;
        let far = self.far.peek().map(slot_of);
        self.turn = near.into_iter().chain(far).min().expect("there is an event somewhere");
        while let Some(slot) = self.far.peek().map(slot_of)
            && slot - self.turn < SLOTS as u64
        {
            let item = self.far.pop().expect("there is one");
            let index = slot as usize % SLOTS;
            self.slots[index].push(item);
            self.occupied[index / 64] |= 1 << (index % 64);
        }
    }

    /// Doubles or halves the width of the slots if turns have too few or too many events. Only
    /// between turns, when the current slot is empty.
    #[cold]
    fn adapt(&mut self) {
        let events = std::mem::take(&mut self.taken) / std::mem::take(&mut self.turns);
        let shift = match events {
            ..2 => (self.shift + 1).min(40),
            2..=12 => return,
            _ => self.shift.saturating_sub(1),
        };
        let start = self.turn << self.shift;
        let pending: Vec<Item<T>> =
            self.slots.iter_mut().flat_map(std::mem::take).chain(self.far.drain()).collect();
        self.occupied = [0; SLOTS / 64];
        (self.shift, self.turn) = (shift, start >> shift);
        for Item { key, what } in pending {
            self.len -= 1;
            self.push(key, what);
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
        for seed in 0..100 {
            let mut rng = Rng::new(seed);
            // Widths from "everything in one slot" to "most beyond the horizon".
            let typical = 1 << rng.below(24);
            let mut calendar = Calendar::new(Duration::from_nanos(typical));
            let mut heap = BinaryHeap::new();
            let (mut now, mut seq) = (0, 0);
            for _ in 0..10_000 {
                if rng.below(100) < 52 {
                    let reach = [1, typical, typical * 50][rng.below(3) as usize];
                    let at = Time::from_nanos(now + rng.below(reach));
                    let class = [Class::Message, Class::Timer][rng.below(2) as usize];
                    let key = Key::new(at, class, NodeId(rng.below(3) as u32), seq);
                    calendar.push(key, seq);
                    heap.push(Reverse(key));
                    seq += 1;
                } else {
                    let expected = heap.pop().map(|Reverse(key)| (key, key.number()));
                    assert_eq!(calendar.next_at(), expected.map(|(key, _)| key.at));
                    assert_eq!(calendar.pop(), expected);
                    now = expected.map_or(now, |(key, _)| key.at.as_nanos());
                }
                assert_eq!(calendar.len(), heap.len());
            }
        }
    }
}
