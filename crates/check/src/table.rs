//! The set of visited states: their fingerprints, shared by all threads.

use std::sync::atomic::{AtomicU64, Ordering};

/// Fingerprints in open addressing, and beside each, if wanted, one word about its state.
///
/// Threads look up and insert without locks. One thread alone grows the table, a shard at a time,
/// so that at no time much of it exists twice.
pub(crate) struct Table {
    shards: Vec<Shard>,
    /// Whether there is a word beside each fingerprint.
    wide: bool,
}

struct Shard {
    prints: Vec<AtomicU64>,
    words: Vec<AtomicU64>,
}

const SHARDS: usize = 64;
const SHARD_BITS: u32 = SHARDS.ilog2();
/// The slots of a new shard.
const SMALL: usize = 1024;
/// Up to so many slots, the table grows to four times its size.
const FOURFOLD: usize = 1 << 20;
/// From so many slots on, the table takes smaller steps.
const LARGE: usize = 1 << 22;
/// A word that its state's thread has yet to write.
const UNWRITTEN: u64 = u64::MAX;

/// Where a fingerprint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    shard: u32,
    slot: u32,
}

impl Table {
    pub(crate) fn new(wide: bool) -> Self {
        let shards = (0..SHARDS).map(|_| Shard::new(SMALL, wide)).collect();
        Self { shards, wide }
    }

    /// How many states fit before it has to grow.
    pub(crate) fn room(&self) -> usize {
        self.slots() / 4 * 3
    }

    fn slots(&self) -> usize {
        self.shards.len() * self.shards[0].prints.len()
    }

    /// The bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.slots() * if self.wide { 16 } else { 8 }
    }

    /// The bytes it takes once it has grown.
    pub(crate) fn bytes_grown(&self) -> usize {
        self.bytes() / self.slots() * self.slots_grown()
    }

    fn slots_grown(&self) -> usize {
        // A large table takes smaller steps, so that less of it is empty.
        match self.slots() {
            small @ ..FOURFOLD => small * 4,
            medium @ ..LARGE => medium * 2,
            large => large / 2 * 3,
        }
    }

    /// Makes room for more, with the help of so many threads.
    pub(crate) fn grow(&mut self, threads: usize) {
        let (slots, wide) = (self.slots_grown() / SHARDS, self.wide);
        let grow = |shards: &mut [Shard]| shards.iter_mut().for_each(|it| it.grow(slots, wide));
        let (first, others) = self.shards.split_at_mut(SHARDS.div_ceil(threads));
        if others.is_empty() {
            return grow(first);
        }
        #[expect(clippy::disallowed_methods, reason = "more than one thread was asked for")]
        std::thread::scope(|scope| {
            for part in others.chunks_mut(first.len()) {
                scope.spawn(move || grow(part));
            }
            grow(first);
        });
    }

    /// Reads the slot where the fingerprint would be, so that it is at hand when it is inserted.
    /// Several of these in a row wait for memory at the same time.
    #[inline]
    pub(crate) fn touch(&self, print: u64) -> u64 {
        let shard = &self.shards[shard_of(print)];
        shard.prints[shard.slot_of(print)].load(Ordering::Relaxed)
    }

    /// Adds a fingerprint. Returns whether it is new, and its place.
    #[inline]
    pub(crate) fn insert(&self, print: u64) -> (bool, Place) {
        let shard = shard_of(print);
        let (new, slot) = self.shards[shard].insert(print);
        (new, Place { shard: shard as u32, slot: slot as u32 })
    }

    /// Writes the word beside a new fingerprint.
    pub(crate) fn write(&self, place: Place, word: u64) {
        debug_assert_ne!(word, UNWRITTEN);
        self.word(place).store(word, Ordering::Release);
    }

    /// The word beside a fingerprint; waits until the thread that inserted it has written it.
    pub(crate) fn read(&self, place: Place) -> u64 {
        loop {
            match self.word(place).load(Ordering::Acquire) {
                UNWRITTEN => std::hint::spin_loop(),
                word => return word,
            }
        }
    }

    /// Keeps those bits of the word that `mask` has, and returns the word before.
    pub(crate) fn keep(&self, place: Place, mask: u64) -> u64 {
        self.read(place);
        self.word(place).fetch_and(mask, Ordering::AcqRel)
    }

    fn word(&self, place: Place) -> &AtomicU64 {
        &self.shards[place.shard as usize].words[place.slot as usize]
    }
}

/// Fingerprints are evenly spread: the highest bits choose the shard, the rest the slot.
#[inline]
fn shard_of(print: u64) -> usize {
    (print >> (64 - SHARD_BITS)) as usize
}

impl Shard {
    fn new(slots: usize, wide: bool) -> Self {
        let prints = (0..slots).map(|_| AtomicU64::new(0)).collect();
        let words = (0..if wide { slots } else { 0 }).map(|_| AtomicU64::new(UNWRITTEN)).collect();
        Self { prints, words }
    }

    fn grow(&mut self, slots: usize, wide: bool) {
        let grown = Self::new(slots, wide);
        for (slot, print) in self.prints.iter_mut().enumerate() {
            let print = *print.get_mut();
            if print != 0 {
                let (new, place) = grown.insert(print);
                debug_assert!(new, "no fingerprint is there twice");
                if wide {
                    grown.words[place].store(*self.words[slot].get_mut(), Ordering::Relaxed);
                }
            }
        }
        *self = grown;
    }

    #[inline]
    fn slot_of(&self, print: u64) -> usize {
        let wide = u128::from(print << SHARD_BITS) * self.prints.len() as u128;
        (wide >> 64) as usize
    }

    #[inline]
    fn insert(&self, print: u64) -> (bool, usize) {
        debug_assert_ne!(print, 0);
        let mut slot = self.slot_of(print);
        loop {
            let there = &self.prints[slot];
            let mut found = there.load(Ordering::Relaxed);
            if found == 0 {
                match there.compare_exchange(0, print, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => return (true, slot),
                    Err(other) => found = other,
                }
            }
            if found == print {
                return (false, slot);
            }
            slot += 1;
            if slot == self.prints.len() {
                slot = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evenly spread numbers, none of them 0.
    fn prints(n: u64) -> impl Iterator<Item = u64> {
        (1..=n).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    #[test]
    fn what_was_inserted_is_found_after_growing_with_its_word() {
        let mut table = Table::new(true);
        for (i, print) in prints(100_000).enumerate() {
            if i >= table.room() {
                table.grow(1);
            }
            let (new, place) = table.insert(print);
            assert!(new);
            table.write(place, i as u64);
        }
        for (i, print) in prints(100_000).enumerate() {
            let (new, place) = table.insert(print);
            assert!(!new);
            assert_eq!(table.read(place), i as u64);
        }
    }

    #[test]
    fn of_two_threads_that_insert_the_same_one_is_told_that_it_is_new() {
        let mut table = Table::new(false);
        while table.room() < 50_000 {
            table.grow(2);
        }
        let table = &table;
        #[expect(clippy::disallowed_methods, reason = "the test is about threads")]
        let new: usize = std::thread::scope(|scope| {
            let count = || prints(50_000).filter(|&print| table.insert(print).0).count();
            let threads: Vec<_> = (0..2).map(|_| scope.spawn(count)).collect();
            threads.into_iter().map(|it| it.join().expect("it does not panic")).sum()
        });
        assert_eq!(new, 50_000);
    }
}
