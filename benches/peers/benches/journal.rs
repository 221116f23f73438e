//! What it takes until something is on disk, beside one flush of the same disk and beside the crate
//! `raft-log`, in turns: one writer that waits for each of its records, and many that share a flush.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use conclave_journal::{HEAD, Journal, Stamp};
use raft_log::RaftLog;
use raft_log::api::raft_log_writer::RaftLogWriter;

/// How long a record is.
const BYTES: usize = 128;
/// How often each takes its turn, and how much it writes then.
const ROUNDS: usize = 7;
const RECORDS: usize = 300;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Records;

impl raft_log::Types for Records {
    type LogId = (u64, u64);
    type LogPayload = String;
    type Vote = (u64, u64);
    type UserData = String;
    type Callback = SyncSender<io::Result<()>>;

    fn log_index(id: &Self::LogId) -> u64 {
        id.1
    }

    fn payload_size(payload: &Self::LogPayload) -> u64 {
        payload.len() as u64
    }
}

struct Other {
    log: RaftLog<Records>,
    next: u64,
}

impl Other {
    fn open(directory: &Path) -> io::Result<Self> {
        let mut config = raft_log::Config::new(directory.to_str().expect("it is text"));
        // It waits a millisecond for others by default.
        config.wal.flush_batch_wait = Some(Duration::ZERO);
        Ok(Self { log: RaftLog::open(Arc::new(config))?, next: 0 })
    }

    fn append(&mut self, together: usize) -> io::Result<()> {
        let from = self.next;
        self.next += together as u64;
        let record = |index| ((1, index), "7".repeat(BYTES));
        self.log.append((from..self.next).map(record))?;
        let (told, done) = sync_channel(1);
        self.log.flush(true, Some(told))?;
        done.recv().map_err(io::Error::other)?
    }
}

fn ours(journal: &mut Journal, together: usize) -> io::Result<()> {
    let mut frame = vec![7; HEAD + together * BYTES];
    journal.make_room(frame.len() - HEAD)?;
    journal.append(&mut frame, Stamp { version: 2, level: 2 }).map(drop)
}

fn flush(file: &mut File, together: usize) -> io::Result<()> {
    file.write_all(&vec![7; together * BYTES])?;
    file.sync_data()
}

/// Does it often, and notes how long it takes.
#[expect(clippy::disallowed_methods, reason = "it measures")]
fn repeat(mut work: impl FnMut() -> io::Result<()>, times: &mut Vec<Duration>) -> io::Result<()> {
    for _ in 0..RECORDS {
        let begun = Instant::now();
        work()?;
        times.push(begun.elapsed());
    }
    Ok(())
}

/// The time in the middle, in microseconds.
fn middle(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}

fn main() -> io::Result<()> {
    let directory = tempfile::tempdir_in(".")?;
    let inside = |name: &str| -> io::Result<std::path::PathBuf> {
        let path = directory.path().join(name);
        std::fs::create_dir(&path)?;
        Ok(path)
    };
    let mut journal = Journal::open(&inside("ours")?, 8 << 20, |_, _, _| Ok(()))?;
    let mut other = Other::open(&inside("other")?)?;
    let mut file = File::create(directory.path().join("file"))?;
    for together in [1, 64] {
        let (mut own, mut others, mut flushes) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            repeat(|| flush(&mut file, together), &mut flushes)?;
            repeat(|| ours(&mut journal, together), &mut own)?;
            repeat(|| other.append(together), &mut others)?;
        }
        let (own, others, flush) = (middle(own), middle(others), middle(flushes));
        println!(
            "{together:>3} records of {BYTES} bytes: append and fdatasync {flush:.0} µs, journal {own:.0} µs \
             ({:.2} times that), raft-log {others:.0} µs ({:.2} times the journal)",
            own / flush,
            others / own
        );
    }
    Ok(())
}
