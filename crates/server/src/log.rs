//! The log in files. What is appended is on disk when that returns.
//!
//! The thread that appends also flushes: to hand that to another thread takes two context switches, which on many a
//! machine take as long as a flush; and requests that come in the meantime are then read, carried out and answered
//! together. Only if the disk is slow another thread flushes. The content of the log is kept apart from the files, so
//! that a task that only reads it does not wait for a flush.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, Range, RangeBounds};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use conclave_journal::{CutOff, HEAD, Journal, Location};
use openraft::alias::{EntryOf, LogIdOf, VoteOf};
use openraft::storage::{IOFlushed, LogState, RaftLogStorage};
use openraft::{OptionalSend, RaftLogReader};
use prometheus_client::metrics::histogram::Histogram;

use crate::format::log::{Change, decode, encode};
use crate::format::{STAMP, check};
use crate::process_metrics::FLUSH_ERRORS;
use crate::{Types, metrics};

/// The log of a node. Clones are the same log.
#[derive(Clone)]
pub(crate) struct Log(Arc<Inner>);

struct Inner {
    /// Locked while something is written, however long the disk takes; before `content`, if both are.
    writer: Mutex<Writer>,
    /// Locked for a moment only.
    content: Mutex<Content>,
}

struct Writer {
    journal: Journal,
    /// What is written next; kept for its memory.
    buffer: Vec<u8>,
    /// How long flushing takes.
    flushed: Histogram,
}

/// What the log says, as far as it is not read from the files each time.
#[derive(Default)]
struct Content {
    vote: Option<VoteOf<Types>>,
    /// The last entry that is not needed any more.
    purged: Option<LogIdOf<Types>>,
    /// Where the entries after that are.
    entries: VecDeque<Written>,
    /// The newest of them, which are going to be carried out, and how many bytes each was written as.
    recent: VecDeque<(EntryOf<Types>, usize)>,
    /// How many bytes that is in all.
    weight: usize,
    /// How many bytes the frames have in which there are entries after `purged`.
    live: u64,
    /// How long flushing took the last time.
    last: Duration,
}

/// Where an entry is.
#[derive(Clone, Copy)]
struct Written {
    id: LogIdOf<Types>,
    place: Location,
    /// How many entries are before it in the same frame.
    nth: u32,
}

/// How long a file is.
const FILE: usize = 8 << 20;

/// How many bytes of entries are kept in memory; the last entry is in any case.
const RECENT: usize = 64 << 10;

/// How long a disk may take that is not slow.
const QUICK: Duration = Duration::from_millis(1);

impl Log {
    /// Opens the log in a directory, or begins one.
    pub(crate) fn open(directory: &Path, flushed: Histogram) -> io::Result<Self> {
        Self::open_with(directory, FILE, flushed)
    }

    /// The same, with files that are so long.
    fn open_with(directory: &Path, file: usize, flushed: Histogram) -> io::Result<Self> {
        let mut content = Content::default();
        let journal = Journal::open(directory, file, |place, stamp, bytes| {
            check(stamp)?;
            content.apply(place, decode(bytes)?);
            Ok(())
        })?;
        content.check()?;
        let writer = Mutex::new(Writer { journal, buffer: Vec::new(), flushed });
        Ok(Self(Arc::new(Inner { writer, content: Mutex::new(content) })))
    }

    /// Closes the files; returns the log if other tasks still use it.
    pub(crate) fn close(self) -> Result<(), Self> {
        Arc::try_unwrap(self.0).map(drop).map_err(Self)
    }

    /// Whether anything was ever written, and the last entry that is not there any more.
    pub(crate) fn begun(&self) -> (bool, Option<LogIdOf<Types>>) {
        let content = self.content();
        (content.vote.is_some(), content.purged)
    }

    /// What was cut off when it was opened.
    pub(crate) fn cut_off(&self) -> Option<CutOff> {
        self.writer().journal.cut_off().cloned()
    }

    /// How many bytes of entries there are that no snapshot has made needless.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.content().live
    }

    /// Writes a change down, and makes it.
    pub(crate) fn write(&self, change: Change) -> io::Result<()> {
        self.change(&mut self.writer(), change)
    }

    fn change(&self, writer: &mut Writer, mut change: Change) -> io::Result<()> {
        let begun = metrics::now();
        writer.encode(&change);
        if writer.journal.make_room(writer.buffer.len() - HEAD)? {
            let content = self.content();
            change.vote = change.vote.or(content.vote);
            change.purged = change.purged.or(content.purged);
            drop(content);
            writer.encode(&change);
            // It has become longer.
            writer.journal.make_room(writer.buffer.len() - HEAD)?;
        }
        let place = writer.journal.append(&mut writer.buffer, STAMP);
        if place.is_err() {
            FLUSH_ERRORS.fetch_add(1, Ordering::Relaxed);
        }
        let place = place?;
        let last = begun.elapsed();
        writer.flushed.observe(last.as_secs_f64());
        let mut content = self.content();
        content.apply(place, change);
        content.last = last;
        Ok(())
    }

    /// The entries from one up to another that there are.
    fn read(&self, from: u64, to: u64) -> io::Result<Vec<EntryOf<Types>>> {
        if let Some(recent) = self.content().recent(from, to) {
            return Ok(recent);
        }
        // No file goes while they are read.
        let writer = self.writer();
        let old = self.content().written(from, to);
        let read = |Written { place, nth, .. }| {
            let change = decode(&writer.journal.read(place)?)?;
            let entry = change.entries.into_iter().nth(nth as usize);
            entry.ok_or_else(|| io::Error::other("an entry has gone"))
        };
        old.into_iter().map(read).collect()
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.0.writer.lock().expect("no code panics while it holds the lock")
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.0.content.lock().expect("no code panics while it holds the lock")
    }
}

impl Writer {
    fn encode(&mut self, change: &Change) {
        self.buffer.clear();
        self.buffer.resize(HEAD, 0);
        encode(change, &mut self.buffer);
    }
}

impl Content {
    /// No entry is missing: the oldest file may have been taken away, and no other would miss it.
    fn check(&self) -> io::Result<()> {
        let first = self.purged.map_or(0, |purged| purged.index + 1);
        match (first..).zip(&self.entries).find(|(index, there)| there.id.index != *index) {
            Some((index, _)) => {
                let missing = format!("entry {index} is missing");
                Err(io::Error::new(io::ErrorKind::InvalidData, missing))
            }
            None => Ok(()),
        }
    }

    /// Which of the entries that there are these are.
    fn range(&self, from: u64, to: u64) -> Range<usize> {
        let Some(first) = self.entries.front().map(|first| first.id.index) else { return 0..0 };
        let place = |index: u64| (index.saturating_sub(first) as usize).min(self.entries.len());
        place(from)..place(to).max(place(from))
    }

    /// The entries from one up to another, if all of them are in memory.
    fn recent(&self, from: u64, to: u64) -> Option<Vec<EntryOf<Types>>> {
        let Range { start, end } = self.range(from, to);
        if start == end {
            return Some(Vec::new());
        }
        let old = self.entries.len() - self.recent.len();
        let (start, end) = (start.checked_sub(old)?, end - old);
        Some(self.recent.range(start..end).map(|(entry, _)| entry.clone()).collect())
    }

    /// Where the entries from one up to another are.
    fn written(&self, from: u64, to: u64) -> Vec<Written> {
        self.entries.range(self.range(from, to)).copied().collect()
    }

    fn apply(&mut self, place: Location, change: Change) {
        let Change { vote, purged, void_from, entries } = change;
        self.vote = vote.or(self.vote);
        if let Some(purged) = purged {
            self.purge(purged);
        }
        if let Some(from) = void_from {
            while self.entries.back().is_some_and(|last| last.id.index >= from) {
                self.entries.pop_back();
                if let Some((_, weight)) = self.recent.pop_back() {
                    self.weight -= weight;
                }
            }
        }
        if !entries.is_empty() {
            self.live += place.length() as u64;
        }
        let weight = place.length() / entries.len().max(1);
        for (nth, entry) in (0..).zip(entries) {
            self.entries.push_back(Written { id: entry.log_id, place, nth });
            self.weight += weight;
            self.recent.push_back((entry, weight));
        }
        while self.weight > RECENT && self.recent.len() > 1 {
            self.forget_oldest();
        }
    }

    fn purge(&mut self, upto: LogIdOf<Types>) {
        self.purged = self.purged.max(Some(upto));
        while self.entries.front().is_some_and(|first| first.id.index <= upto.index) {
            if self.recent.len() == self.entries.len() {
                self.forget_oldest();
            }
            self.entries.pop_front();
        }
        let mut last = None;
        let mut length = |place: Location| {
            let new = last.replace(place) != Some(place);
            if new { place.length() as u64 } else { 0 }
        };
        self.live = self.entries.iter().map(|entry| length(entry.place)).sum();
    }

    fn forget_oldest(&mut self) {
        if let Some((_, weight)) = self.recent.pop_front() {
            self.weight -= weight;
        }
    }
}

impl RaftLogReader<Types> for Log {
    async fn try_get_log_entries<B: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: B,
    ) -> io::Result<Vec<EntryOf<Types>>> {
        let from = match range.start_bound() {
            Bound::Included(&from) => from,
            Bound::Excluded(&before) => before + 1,
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(&last) => last + 1,
            Bound::Excluded(&to) => to,
            Bound::Unbounded => u64::MAX,
        };
        self.read(from, to)
    }

    async fn read_vote(&mut self) -> io::Result<Option<VoteOf<Types>>> {
        Ok(self.content().vote)
    }
}

impl RaftLogStorage<Types> for Log {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types>> {
        let content = self.content();
        let Content { purged, entries, .. } = &*content;
        let last = entries.back().map(|last| last.id);
        Ok(LogState { last_log_id: last.or(*purged), last_purged_log_id: *purged })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &VoteOf<Types>) -> io::Result<()> {
        self.write(Change { vote: Some(*vote), ..Change::default() })
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> io::Result<()>
    where
        I: IntoIterator<Item = EntryOf<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries = entries.into_iter().collect();
        let change = Change { entries, ..Change::default() };
        let is_quick = self.content().last < QUICK;
        if is_quick {
            self.write(change)?;
        } else {
            let log = self.clone();
            let changed = tokio::task::spawn_blocking(move || log.write(change));
            changed.await.map_err(io::Error::other)??;
        }
        callback.io_completed(Ok(()));
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogIdOf<Types>>) -> io::Result<()> {
        let void_from = Some(last.map_or(0, |last| last.index + 1));
        self.write(Change { void_from, ..Change::default() })
    }

    async fn purge(&mut self, upto: LogIdOf<Types>) -> io::Result<()> {
        let mut writer = self.writer();
        self.change(&mut writer, Change { purged: Some(upto), ..Change::default() })?;
        // All files that have nothing but what is void, purged, or said again by the next.
        let first = self.content().entries.front().map_or(u64::MAX, |first| first.place.file);
        writer.journal.remove_before(first)
    }
}
