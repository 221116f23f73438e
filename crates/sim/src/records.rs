use std::cell::RefCell;
use std::ops::Index;

use crate::Record;

/// The events of a trace, in order: a list that grows without ever being copied.
///
/// It is kept in chunks, and the chunks of a trace that is dropped serve the next one of the same
/// thread: fresh memory costs more than writing to it, and most traces are one of many seeds.
#[derive(Debug, Default)]
pub struct Records {
    /// All full but the last.
    chunks: Vec<Vec<Record>>,
}

/// Records in a chunk: one mebibyte.
const CHUNK: usize = 1 << 15;

/// Chunks kept for later traces: at most 64 MiB a thread.
const SPARE: usize = 64;

thread_local! {
    static CHUNKS: RefCell<Vec<Vec<Record>>> = const { RefCell::new(Vec::new()) };
}

impl Records {
    /// How many there are.
    pub fn len(&self) -> usize {
        let full = self.chunks.len().saturating_sub(1) * CHUNK;
        full + self.chunks.last().map_or(0, Vec::len)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Adds one at the end.
    #[inline(always)]
    pub fn push(&mut self, record: Record) {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.grow();
        }
        // Nothing but this takes the record, so that it is written from registers.
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.push(record);
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let spare = CHUNKS.with_borrow_mut(Vec::pop);
        // The first chunk of a short trace need not be whole.
        let fresh = || if self.chunks.is_empty() { Vec::new() } else { Vec::with_capacity(CHUNK) };
        self.chunks.push(spare.unwrap_or_else(fresh));
    }

    /// Replaces the one with this index, if there is one.
    pub(crate) fn change(&mut self, index: usize, with: impl FnOnce(Record) -> Record) {
        let chunk = self.chunks.get_mut(index / CHUNK);
        if let Some(record) = chunk.and_then(|chunk| chunk.get_mut(index % CHUNK)) {
            *record = with(*record);
        }
    }

    /// The one with this index.
    pub fn get(&self, index: usize) -> Option<&Record> {
        self.chunks.get(index / CHUNK)?.get(index % CHUNK)
    }

    /// The first one.
    pub fn first(&self) -> Option<&Record> {
        self.get(0)
    }

    /// The last one.
    pub fn last(&self) -> Option<&Record> {
        self.chunks.last()?.last()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Record> + Clone {
        self.chunks.iter().flatten()
    }

    /// Those from index `start` on.
    pub fn iter_from(&self, start: usize) -> impl Iterator<Item = &Record> {
        let chunks = self.chunks.get(start / CHUNK..).unwrap_or_default();
        chunks.iter().flatten().skip(start % CHUNK)
    }

    /// The memory they take, in bytes.
    pub fn memory(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.capacity() * size_of::<Record>()).sum()
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        // At the end of a thread there may be no list any more.
        let _ = CHUNKS.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            for mut chunk in self.chunks.drain(..) {
                if chunk.capacity() >= CHUNK && spare.len() < SPARE {
                    chunk.clear();
                    spare.push(chunk);
                }
            }
        });
    }
}

impl Index<usize> for Records {
    type Output = Record;

    fn index(&self, index: usize) -> &Record {
        &self.chunks[index / CHUNK][index % CHUNK]
    }
}

impl Clone for Records {
    fn clone(&self) -> Self {
        self.iter().copied().collect()
    }
}

impl PartialEq for Records {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Records {}

impl FromIterator<Record> for Records {
    fn from_iter<I: IntoIterator<Item = Record>>(records: I) -> Self {
        let mut all = Self::default();
        records.into_iter().for_each(|record| all.push(record));
        all
    }
}

impl<'a> IntoIterator for &'a Records {
    type Item = &'a Record;
    type IntoIter = std::iter::Flatten<std::slice::Iter<'a, Vec<Record>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.chunks.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use conclave_protocol::{NodeId, Time};

    use super::*;
    use crate::Event;

    fn record(i: usize) -> Record {
        Record::new(Time::from_nanos(i as u64), NodeId(0), i as u32, Event::Crash)
    }

    #[test]
    fn records_are_found_where_they_were_put_and_memory_is_used_again() {
        for _ in 0..2 {
            let many: Records = (0..3 * CHUNK + 5).map(record).collect();
            assert_eq!(many.len(), 3 * CHUNK + 5);
            for i in [0, 1, CHUNK - 1, CHUNK, 2 * CHUNK + 7, 3 * CHUNK + 4] {
                assert_eq!(many[i], record(i));
                assert_eq!(many.iter_from(i).next(), Some(&record(i)));
            }
            assert_eq!(many.get(3 * CHUNK + 5), None);
            assert_eq!(many.last(), Some(&record(3 * CHUNK + 4)));
            assert_eq!(many.iter().count(), many.len());
            assert_eq!(many, many.clone());
            assert!(many.memory() <= 48 * many.len(), "a trace costs at most 48 bytes an event");
        }
        assert!(CHUNKS.with_borrow(Vec::len) > 0);
    }
}
