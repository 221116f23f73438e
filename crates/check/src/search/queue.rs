//! The states of a level while they wait to be expanded, and how threads come by them.

use std::sync::atomic::{AtomicUsize, Ordering};

/// States are handed to threads in portions of so many.
pub(super) const PORTION: usize = 32;
/// How many states a portion may lead to, at the least that is made room for.
pub(super) const ROOM: usize = PORTION * 128;

/// A state that waits to be expanded. Before its parts stand its number, its fingerprint, and if
/// orders are compared, the events that sleep in it and those that alone are to be explored.
pub(super) struct Queued<'q> {
    entry: &'q [u32],
    header: usize,
}

/// How long the header is with sleep sets and without.
pub(super) fn header(compare: bool) -> usize {
    if compare { 7 } else { 3 }
}

impl<'q> Queued<'q> {
    pub(super) fn new(entry: &'q [u32], compare: bool) -> Self {
        Self { entry, header: header(compare) }
    }

    pub(super) fn state(&self) -> &[u32] {
        &self.entry[self.header..]
    }

    pub(super) fn number(&self) -> u32 {
        self.entry[0]
    }

    fn wide(&self, at: usize) -> u64 {
        match self.entry[..self.header].get(at..at + 2) {
            Some(words) => u64::from(words[0]) | u64::from(words[1]) << 32,
            None => 0,
        }
    }

    pub(super) fn print(&self) -> u64 {
        self.wide(1)
    }

    pub(super) fn asleep(&self) -> u64 {
        self.wide(3)
    }

    pub(super) fn only(&self) -> u64 {
        self.wide(5)
    }
}

/// What one thread has found in the level before, handed out in portions.
pub(super) struct Share<'a> {
    list: &'a [u32],
    portion: usize,
    taken: AtomicUsize,
}

impl<'a> Share<'a> {
    pub(super) fn new(list: &'a [u32], stride: usize) -> Self {
        Self { list, portion: stride * PORTION, taken: AtomicUsize::new(0) }
    }

    pub(super) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed) >= self.list.len()
    }

    pub(super) fn take(&self) -> Option<&'a [u32]> {
        if self.is_taken() {
            return None;
        }
        let from = self.taken.fetch_add(self.portion, Ordering::Relaxed);
        let rest = self.list.get(from..).filter(|rest| !rest.is_empty())?;
        Some(&rest[..rest.len().min(self.portion)])
    }
}
