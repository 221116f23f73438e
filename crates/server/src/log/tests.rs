//! The log does what those who use it expect: openraft's own tests of logs, and all kinds of changes with
//! the log closed and opened in between.

use std::collections::BTreeMap;

use openraft::testing::log::{StoreBuilder, Suite};
use openraft::type_config::TypeConfigExt;
use openraft::vote::RaftLeaderId;
use openraft::{EntryPayload, RaftTypeConfig, Vote};
use tempfile::TempDir;

use super::*;
use crate::metrics::Metrics;
use crate::state::{State, first_snapshot};
use crate::{Batch, Part};

/// So many bytes a file, which is a few entries.
const SHORT: usize = 512;

fn open(directory: &TempDir) -> Log {
    let flushed = Metrics::new().flushed;
    Log::open_with(&directory.path().join("log"), SHORT, flushed).expect("a log")
}

fn directory() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(directory.path().join("log")).expect("it can be made");
    directory
}

struct Stores;

impl StoreBuilder<Types, Log, State, TempDir> for Stores {
    async fn build(&self) -> Result<(TempDir, Log, State), openraft::StorageError<Types>> {
        let directory = directory();
        let first = first_snapshot(conclave_machine::Config::default());
        let state = State::open(&directory.path().join("snapshot"), &first);
        let log = open(&directory);
        Ok((directory, log, state.expect("a state")))
    }
}

#[tokio::test]
async fn it_is_a_log_as_openraft_wants_it() {
    Suite::test_all(Stores).await.expect("all holds");
}

fn entry(term: u64, index: u64, number: u64) -> EntryOf<Types> {
    let leader = <Types as RaftTypeConfig>::LeaderId::new(term, 1);
    let part = Part { origin: 1, number, commands: Vec::new(), operators: Vec::new() };
    let batch = Batch { at: conclave_machine::Time::default(), day: 0, parts: vec![part] };
    let log_id = LogIdOf::<Types>::new(leader.to_committed(), index);
    EntryOf::<Types> { log_id, payload: EntryPayload::Normal(batch) }
}

/// What a log is to say.
#[derive(Default)]
struct Model {
    vote: Option<VoteOf<Types>>,
    purged: Option<LogIdOf<Types>>,
    entries: BTreeMap<u64, EntryOf<Types>>,
}

#[tokio::test]
async fn it_says_the_same_after_it_was_opened_again() {
    for seed in 0..12 {
        let mut chance = fastrand::Rng::with_seed(seed);
        let directory = directory();
        let (mut log, mut model) = (open(&directory), Model::default());
        for step in 0..200 {
            let last = model.entries.last_key_value().map(|(&index, _)| index);
            let first = model.purged.map_or(0, |purged| purged.index + 1);
            let next = last.map_or(first, |last| last + 1);
            match chance.u32(..10) {
                0 => {
                    let vote = Vote::new_committed(step, 1);
                    log.save_vote(&vote).await.expect("it can be written");
                    model.vote = Some(vote);
                }
                1 if next > first => {
                    let from = chance.u64(first..next);
                    let after = model.entries.get(&from.wrapping_sub(1)).map(|entry| entry.log_id);
                    let after = after.or_else(|| model.purged.filter(|_| from == first));
                    log.truncate_after(after).await.expect("it can be written");
                    model.entries.split_off(&from);
                }
                2 if next > first => {
                    let upto = model.entries[&chance.u64(first..next)].log_id;
                    log.purge(upto).await.expect("it can be written");
                    model.entries = model.entries.split_off(&(upto.index + 1));
                    model.purged = Some(upto);
                }
                3 => {
                    assert!(log.close().is_ok(), "no other task uses it");
                    log = open(&directory);
                }
                // As if the disk were slow.
                4 => log.content().last = QUICK,
                _ => {
                    let entries: Vec<_> = (next..next + chance.u64(1..4))
                        .map(|index| entry(step, index, chance.u64(..)))
                        .collect();
                    let (told, done) = Types::oneshot();
                    let flushed = IOFlushed::signal(told);
                    log.append(entries.clone(), flushed).await.expect("it can be written");
                    done.await.expect("it is told").expect("it is written");
                    model
                        .entries
                        .extend(entries.into_iter().map(|entry| (entry.log_id.index, entry)));
                }
            }
            let there = log.try_get_log_entries(..).await.expect("it can be read");
            let expected: Vec<_> = model.entries.values().cloned().collect();
            assert_eq!(there, expected, "seed {seed}, step {step}");
            assert_eq!(log.read_vote().await.expect("it can be read"), model.vote);
            let state = log.get_log_state().await.expect("it can be read");
            assert_eq!(state.last_purged_log_id, model.purged);
            let last = expected.last().map(|entry| entry.log_id).or(model.purged);
            assert_eq!(state.last_log_id, last);
        }
    }
}

#[tokio::test]
async fn what_is_not_in_memory_any_more_is_read_from_the_files() {
    let directory = directory();
    let mut log = open(&directory);
    for index in 0..50 {
        let append = log.append([entry(1, index, index)], IOFlushed::noop());
        append.await.expect("it can be written");
    }
    (0..45).for_each(|_| log.content().forget_oldest());
    let there = log.try_get_log_entries(10..48).await.expect("it can be read");
    let expected: Vec<_> = (10..48).map(|index| entry(1, index, index)).collect();
    assert_eq!(there, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_disk_takes_its_time_the_log_can_be_looked_at_and_its_newest_entries_read() {
    let directory = directory();
    let mut log = open(&directory);
    let append = log.append([entry(1, 0, 7)], IOFlushed::noop());
    append.await.expect("it can be written");
    let live = log.live_bytes();
    assert!(live > 0);
    // Something is being flushed until this is told to end.
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let (begin, begun) = std::sync::mpsc::channel();
    let slow = log.clone();
    let flushing = std::thread::spawn(move || {
        let writer = slow.writer();
        begin.send(()).expect("it is waited for");
        drop((ended.recv(), writer));
    });
    begun.recv().expect("it begins");
    let looking = tokio::task::spawn(async move {
        let seen = log.live_bytes();
        (seen, log.get_log_state().await, log.try_get_log_entries(..).await)
    });
    let (seen, state, there) =
        conclave_testing::in_time("a look at the log", looking).await.expect("no panic");
    assert_eq!(seen, live);
    assert_eq!(state.expect("it can be read").last_log_id, Some(entry(1, 0, 7).log_id));
    assert_eq!(there.expect("it can be read"), [entry(1, 0, 7)]);
    end.send(()).expect("it waits");
    flushing.join().expect("no panic");
}

#[tokio::test]
async fn files_that_are_not_needed_any_more_go() {
    let directory = directory();
    let mut log = open(&directory);
    log.save_vote(&Vote::new_committed(3, 1)).await.expect("it can be written");
    for index in 0..100 {
        let append = log.append([entry(1, index, index)], IOFlushed::noop());
        append.await.expect("it can be written");
    }
    let files = || std::fs::read_dir(directory.path().join("log")).expect("it is there").count();
    assert!(files() > 5);
    log.purge(entry(1, 99, 0).log_id).await.expect("it can be written");
    assert!(files() <= 2, "that which is written, and the next");
    assert!(log.close().is_ok());
    let mut log = open(&directory);
    assert_eq!(log.read_vote().await.expect("it can be read"), Some(Vote::new_committed(3, 1)));
    let state = log.get_log_state().await.expect("it can be read");
    assert_eq!(state.last_log_id, Some(entry(1, 99, 0).log_id));
}

#[tokio::test]
async fn entries_that_are_missing_are_missed_and_those_that_are_not_needed_are_not() {
    let directory = directory();
    let mut log = open(&directory);
    for index in 0..100 {
        let append = log.append([entry(1, index, index)], IOFlushed::noop());
        append.await.expect("it can be written");
    }
    assert!(log.close().is_ok());
    let path = directory.path().join("log");
    let oldest = path.join(format!("{:016}.log", 1));
    let bytes = std::fs::read(&oldest).expect("it is there");
    std::fs::remove_file(&oldest).expect("it is there");
    let again = || Log::open_with(&path, SHORT, Metrics::new().flushed);
    let error = again().err().expect("something is missing");
    assert_eq!(error.to_string(), "entry 0 is missing");
    // The process that was to remove it could as well have been killed just before that.
    std::fs::write(&oldest, &bytes).expect("it can be written");
    let mut log = again().unwrap_or_else(|error| panic!("{error}"));
    log.purge(entry(1, 60, 0).log_id).await.expect("it can be written");
    assert!(!oldest.exists() && log.close().is_ok());
    let mut log = open(&directory);
    let there = log.try_get_log_entries(50..70).await.expect("it can be read");
    let expected: Vec<_> = (61..70).map(|index| entry(1, index, index)).collect();
    assert_eq!(there, expected, "what is purged is not there, and nothing else is missing");
    assert!(log.try_get_log_entries(10..20).await.expect("it can be read").is_empty());
}
