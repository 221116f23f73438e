//! The log in files. Entries are appended and flushed together with whatever else waits to be, and
//! whoever appended is told when that is done.

use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::ops::{Bound, RangeBounds};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use openraft::alias::{EntryOf, LogIdOf, VoteOf};
use openraft::entry::RaftEntry;
use openraft::storage::{IOFlushed, LogState, RaftLogStorage};
use openraft::{OptionalSend, RaftLogReader};
use prometheus_client::metrics::histogram::Histogram;
use raft_log::RaftLog;
use raft_log::api::raft_log_writer::RaftLogWriter;
use raft_log::codeq::{Decode, Encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use crate::{Types, metrics};

/// The log of a node. Clones are the same log.
#[derive(Clone)]
pub(crate) struct Log {
    files: Arc<Mutex<RaftLog<Format>>>,
    /// How long flushing takes.
    flushed: Histogram,
}

impl Log {
    /// Opens the log in a directory, or begins one. What a crash has left half written at its end was
    /// never acknowledged, and is cut off.
    #[expect(clippy::disallowed_methods, reason = "waits for files to be closed")]
    pub(crate) fn open(directory: &Path, flushed: Histogram) -> io::Result<Self> {
        let directory = directory.to_str().ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "the directory's name is not UTF-8")
        })?;
        let mut config = raft_log::Config::new(directory);
        config.wal.truncate_incomplete_record = Some(true);
        // What can share a flush is in one entry already; to wait for more would only take longer.
        config.wal.flush_batch_wait = Some(Duration::ZERO);
        let config = Arc::new(config);
        let begun = Instant::now();
        loop {
            match RaftLog::open(config.clone()) {
                Ok(log) => return Ok(Self { files: Arc::new(Mutex::new(log)), flushed }),
                // The directory is this process's, so it is a node that has stopped a moment ago.
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock
                        && begun.elapsed() < Duration::from_secs(10) =>
                {
                    thread::sleep(Duration::from_millis(5));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Closes the files, when nobody else uses them any more and all is written; until then, the log
    /// is given back.
    pub(crate) fn close(self) -> Result<io::Result<()>, Self> {
        let Self { files, flushed } = self;
        let log = Arc::try_unwrap(files).map_err(|files| Self { files, flushed })?;
        let log = log.into_inner().expect("nobody panics while using the log");
        Ok(log.wait_worker_idle())
    }

    fn with<T>(&self, work: impl FnOnce(&mut RaftLog<Format>) -> io::Result<T>) -> io::Result<T> {
        work(&mut self.files.lock().expect("nobody panics while using the log"))
    }

    /// Does something, and waits until it is on disk.
    async fn durably(
        &self,
        work: impl FnOnce(&mut RaftLog<Format>) -> io::Result<()>,
    ) -> io::Result<()> {
        let (tell, told) = oneshot::channel();
        self.with(|log| {
            work(log)?;
            log.flush(true, Some(Flushed::Wait(tell)))
        })?;
        told.await.map_err(|_| io::Error::other("the log's writer has gone"))?
    }
}

/// What the files contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Format;

impl raft_log::Types for Format {
    type LogId = Coded<LogIdOf<Types>>;
    type LogPayload = Coded<EntryOf<Types>>;
    type Vote = Coded<VoteOf<Types>>;
    type Callback = Flushed;
    type UserData = Coded<()>;

    fn log_index(id: &Self::LogId) -> u64 {
        id.0.index
    }

    fn payload_size(_: &Self::LogPayload) -> u64 {
        // An estimate for the cache.
        256
    }
}

/// Something as it is written: its length, the length's complement, the bytes of postcard. The log adds
/// checksums.
///
/// The log takes a record that goes beyond the end of the file for one that was being written when the
/// power failed, and cuts it off. A length that is damaged must not look like that, hence the complement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Coded<T>(T);

impl<T: Serialize> Encode for Coded<T> {
    fn encode<W: Write>(&self, mut writer: W) -> io::Result<usize> {
        let bytes = postcard::to_allocvec(&self.0).map_err(io::Error::other)?;
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        writer.write_all(&length.to_be_bytes())?;
        writer.write_all(&(!length).to_be_bytes())?;
        writer.write_all(&bytes)?;
        Ok(8 + bytes.len())
    }
}

impl<T: DeserializeOwned> Decode for Coded<T> {
    fn decode<R: Read>(mut reader: R) -> io::Result<Self> {
        let mut word = [0; 4];
        reader.read_exact(&mut word)?;
        let length = u32::from_be_bytes(word);
        reader.read_exact(&mut word)?;
        if u32::from_be_bytes(word) != !length {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a length is damaged"));
        }
        // Grows as bytes come, so that a damaged length takes no memory.
        let mut bytes = Vec::new();
        let read = reader.take(u64::from(length)).read_to_end(&mut bytes)?;
        if read < length as usize {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let damaged = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        postcard::from_bytes(&bytes).map(Self).map_err(damaged)
    }
}

/// Whom to tell that something is on disk.
enum Flushed {
    /// The log's owner; since when, and where the time that it took is noted.
    Raft(IOFlushed<Types>, Instant, Histogram),
    Wait(oneshot::Sender<io::Result<()>>),
}

impl raft_log::chunked_wal::Callback for Flushed {
    fn send(self, done: io::Result<()>) {
        match self {
            Self::Raft(callback, since, flushed) => {
                callback.io_completed(done);
                flushed.observe(since.elapsed().as_secs_f64());
            }
            // Who has stopped waiting need not be told.
            Self::Wait(waits) => drop(waits.send(done)),
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
        self.with(|log| log.read(from, to).map(|entry| Ok(entry?.1.0)).collect())
    }

    async fn read_vote(&mut self) -> io::Result<Option<VoteOf<Types>>> {
        self.with(|log| Ok(log.log_state().vote().map(|vote| vote.0)))
    }
}

impl RaftLogStorage<Types> for Log {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types>> {
        self.with(|log| {
            let state = log.log_state();
            let purged = state.purged().map(|id| id.0);
            let last = state.last().map(|id| id.0);
            Ok(LogState { last_log_id: last.max(purged), last_purged_log_id: purged })
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &VoteOf<Types>) -> io::Result<()> {
        let vote = Coded(*vote);
        self.durably(|log| log.save_vote(vote).map(drop)).await
    }

    async fn save_committed(&mut self, committed: Option<LogIdOf<Types>>) -> io::Result<()> {
        let Some(committed) = committed else { return Ok(()) };
        self.with(|log| {
            log.commit(Coded(committed))?;
            // It is known anew after a restart; it only has to be found sooner.
            log.flush(false, None)
        })
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogIdOf<Types>>> {
        self.with(|log| Ok(log.log_state().committed().map(|id| id.0)))
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> io::Result<()>
    where
        I: IntoIterator<Item = EntryOf<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries = entries.into_iter().map(|entry| (Coded(entry.log_id()), Coded(entry)));
        let flushed = Flushed::Raft(callback, metrics::now(), self.flushed.clone());
        self.with(|log| {
            log.append(entries)?;
            log.flush(true, Some(flushed))
        })
    }

    async fn truncate_after(&mut self, last: Option<LogIdOf<Types>>) -> io::Result<()> {
        let from = last.map_or(0, |last| last.index + 1);
        self.durably(|log| log.truncate(from).map(drop)).await
    }

    async fn purge(&mut self, upto: LogIdOf<Types>) -> io::Result<()> {
        self.durably(|log| log.purge(Coded(upto)).map(drop)).await
    }
}
