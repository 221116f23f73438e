use std::cmp::Reverse;
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
///
/// An event is written once, to a place it keeps until it is popped; slots are lists linked
/// through these places. Measured against a plain `BinaryHeap` in `benches/`.
pub struct Calendar<T> {
    places: Vec<Place<T>>,
    /// The first of the vacant places.
    vacant: u32,
    /// The first place of each slot.
    slots: [u32; SLOTS],
    /// A bit for each slot that has one.
    occupied: [u64; WORDS],
    /// A bit for each word of these that has one.
    summary: u32,
    /// The slot being emptied, latest event first.
    current: Vec<Ticket>,
    /// Its absolute number.
    turn: u64,
    /// A slot is `2^shift` nanoseconds wide.
    shift: u32,
    narrowest: u32,
    /// Beyond the wheel's horizon.
    far: BinaryHeap<Reverse<Ticket>>,
    len: usize,
    /// Turns and events since the width was last looked at.
    turns: u32,
    taken: u32,
}

struct Place<T> {
    key: Key,
    what: Option<T>,
    node: NodeId,
    /// The next place of the same slot, or the next vacant one.
    next: u32,
}

/// An event's key, and where it is kept. Ordered by the key: no two are the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Ticket {
    key: Key,
    place: u32,
}

const SLOTS: usize = 1024;
const WORDS: usize = SLOTS / 64;

/// No place: the end of a list.
const END: u32 = u32::MAX;

/// The width is looked at after so many turns, and kept while a turn has 1 to 8 events.
const TURNS: u32 = 512;

impl<T> Calendar<T> {
    /// A calendar for events that mostly lie at most `typical` ahead.
    pub fn new(typical: std::time::Duration) -> Self {
        let nanos = u64::try_from(typical.as_nanos()).unwrap_or(u64::MAX).max(1);
        // The typical distance should span most of a revolution, and never more than one.
        let shift = (nanos / (SLOTS as u64 - 1)).checked_ilog2().map_or(0, |log| log + 1);
        Self {
            places: Vec::new(),
            vacant: END,
            slots: [END; SLOTS],
            occupied: [0; WORDS],
            summary: 0,
            current: Vec::new(),
            turn: 0,
            shift,
            narrowest: shift,
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

    /// The most events that were pending at any time: a place is made only when all are taken.
    pub fn most(&self) -> usize {
        self.places.len()
    }

    /// Everything that is pending, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, NodeId, &T)> {
        self.places.iter().filter_map(|it| it.what.as_ref().map(|what| (it.key, it.node, what)))
    }

    /// Schedules `what` at `node`. Nothing may be scheduled before what was popped last.
    #[inline(always)]
    pub fn push(&mut self, key: Key, node: NodeId, what: T) {
        self.len += 1;
        let place = self.vacant;
        if let Some(vacant) = self.places.get_mut(place as usize) {
            vacant.what = Some(what);
            (vacant.key, vacant.node) = (key, node);
            self.vacant = vacant.next;
            self.file(key, place);
        } else {
            self.places.push(Place { key, what: Some(what), node, next: END });
            self.file(key, self.places.len() as u32 - 1);
        }
    }

    /// Takes the earliest event.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<(Key, NodeId, T)> {
        loop {
            if let Some(Ticket { key, place }) = self.current.pop() {
                self.len -= 1;
                let taken = &mut self.places[place as usize];
                taken.next = self.vacant;
                self.vacant = place;
                let what = taken.what.take().expect("a filed place is taken");
                return Some((key, taken.node, what));
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
        self.current.last().map(|ticket| ticket.key.at)
    }

    /// Has the event at `place` found when its time comes.
    #[inline(always)]
    fn file(&mut self, key: Key, place: u32) {
        let slot = key.at.as_nanos() >> self.shift;
        if slot.wrapping_sub(self.turn + 1) < SLOTS as u64 - 1 {
            self.put(slot, place);
        } else {
            self.file_aside(Ticket { key, place });
        }
    }

    #[inline(always)]
    fn put(&mut self, slot: u64, place: u32) {
        let index = slot as usize % SLOTS;
        self.occupied[index / 64] |= 1 << (index % 64);
        self.summary |= 1 << (index / 64);
        self.places[place as usize].next = std::mem::replace(&mut self.slots[index], place);
    }

    /// Files what happens in the current turn or beyond the horizon.
    #[cold]
    #[inline(never)]
    fn file_aside(&mut self, ticket: Ticket) {
        if ticket.key.at.as_nanos() >> self.shift > self.turn {
            self.far.push(Reverse(ticket));
        } else {
            let later = self.current.partition_point(|other| *other > ticket);
            self.current.insert(later, ticket);
        }
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
        self.summary &= !(u32::from(self.occupied[index / 64] == 0) << (index / 64));
        let mut place = std::mem::replace(&mut self.slots[index], END);
        while let Some(kept) = self.places.get(place as usize) {
            self.current.push(Ticket { key: kept.key, place });
            place = kept.next;
        }
        self.taken += self.current.len() as u32;
        match self.current.as_mut_slice() {
            [_] => {}
            [first, second] => {
                if first < second {
                    std::mem::swap(first, second);
                }
            }
            several => several.sort_unstable_by_key(|ticket| Reverse(*ticket)),
        }
    }

    /// Moves on to `near` or, if that is earlier, to the first of the events beyond the horizon,
    /// and brings those in that are within it now.
    #[cold]
    fn fetch_far(&mut self, near: Option<u64>) {
        let shift = self.shift;
        let slot_of = |Reverse(ticket): &Reverse<Ticket>| ticket.key.at.as_nanos() >> shift;
        let far = self.far.peek().map(slot_of);
        self.turn = near.into_iter().chain(far).min().expect("there is an event somewhere");
        while let Some(slot) = self.far.peek().map(slot_of)
            && slot - self.turn < SLOTS as u64
        {
            let Reverse(ticket) = self.far.pop().expect("there is one");
            self.put(slot, ticket.place);
        }
    }

    /// Doubles or halves the width of the slots if turns have too few or too many events. Only
    /// between turns, when the current slot is empty.
    #[cold]
    fn adapt(&mut self) {
        let (taken, turns) = (std::mem::take(&mut self.taken), std::mem::take(&mut self.turns));
        let shift = match taken / turns {
            0 => (self.shift + 1).min(40),
            1..=8 => return,
            // Any narrower, and the usual event would lie beyond the horizon.
            _ if self.shift == self.narrowest => return,
            _ => self.shift - 1,
        };
        let start = self.turn << self.shift;
        (self.shift, self.turn) = (shift, start >> shift);
        (self.occupied, self.summary) = ([0; WORDS], 0);
        for mut place in std::mem::replace(&mut self.slots, [END; SLOTS]) {
            while let Some(kept) = self.places.get(place as usize) {
                let (key, next) = (kept.key, kept.next);
                self.file(key, place);
                place = next;
            }
        }
        for Reverse(ticket) in std::mem::take(&mut self.far) {
            self.file(ticket.key, ticket.place);
        }
    }

    /// The absolute number of the first slot after the current one that has an event.
    fn next_occupied(&self) -> Option<u64> {
        let start = (self.turn as usize + 1) % SLOTS;
        let here = self.occupied[start / 64] & (!0 << (start % 64));
        let index = if here != 0 {
            start / 64 * 64 + here.trailing_zeros() as usize
        } else {
            // The next word that has a bit, or the first one if there is none: the wheel turns.
            let ahead = self.summary & (!1 << (start / 64));
            let words = if ahead != 0 { ahead } else { self.summary };
            let word = words.trailing_zeros() as usize;
            word * 64 + self.occupied.get(word)?.trailing_zeros() as usize
        };
        Some(self.turn + 1 + ((index + SLOTS - start) % SLOTS) as u64)
    }
}

impl<T> std::fmt::Debug for Calendar<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Calendar").field("pending", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
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
                    calendar.push(key, NodeId(0), seq);
                    heap.push(Reverse(key));
                    seq += 1;
                } else {
                    let expected = heap.pop().map(|Reverse(key)| (key, NodeId(0), key.number()));
                    assert_eq!(calendar.next_at(), expected.map(|(key, ..)| key.at));
                    assert_eq!(calendar.pop(), expected);
                    now = expected.map_or(now, |(key, ..)| key.at.as_nanos());
                }
                assert_eq!(calendar.len(), heap.len());
            }
        }
    }
}
