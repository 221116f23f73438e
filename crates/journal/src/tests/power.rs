//! The power fails. Of what was being written, any sectors may be on disk, in any order; of what was
//! flushed, all are.

use std::collections::BTreeMap;

use super::*;

/// What a disk writes or does not.
const SECTOR: usize = tail::SECTOR;
/// So many bytes a file: some frames, of one or many sectors.
const FILE: usize = 16 * SECTOR;

fn open(directory: &Path) -> io::Result<(Journal, Vec<Vec<u8>>)> {
    let mut seen = Vec::new();
    let journal = Journal::open(directory, FILE, |_, _, content| {
        seen.push(content.to_vec());
        Ok(())
    })?;
    Ok((journal, seen))
}

/// What is in a directory.
type Image = BTreeMap<PathBuf, Vec<u8>>;

fn image(directory: &Path) -> Image {
    let files = fs::read_dir(directory).expect("it is there");
    let paths = files.map(|file| file.expect("a file").path());
    paths.map(|path| (path.clone(), fs::read(path).expect("it is there"))).collect()
}

/// Chance, with a seed.
struct Chance(fastrand::Rng);

impl Chance {
    fn content(&mut self) -> Vec<u8> {
        let length = match self.0.u32(..12) {
            0 => self.0.usize(FILE..2 * FILE),
            1..4 => self.0.usize(SECTOR..8 * SECTOR),
            _ => self.0.usize(1..SECTOR),
        };
        // Zeros are what was there before, and parts of frames are what could be taken for frames.
        let zeros = self.0.bool();
        (0..length).map(|_| if zeros && self.0.u8(..8) > 0 { 0 } else { self.0.u8(..) }).collect()
    }

    /// Some sectors of what is in `after`, and what was there before of all others.
    fn torn(&mut self, before: &[u8], after: &[u8]) -> Vec<u8> {
        let written = self.0.f64();
        let mut torn = after.to_vec();
        for (nth, sector) in torn.chunks_mut(SECTOR).enumerate() {
            if self.0.f64() >= written {
                sector.fill(0);
                let old = before.get(nth * SECTOR..).unwrap_or_default();
                let length = old.len().min(sector.len());
                sector[..length].copy_from_slice(&old[..length]);
            }
        }
        // A file that got longer may not have.
        if self.0.bool() {
            torn.truncate(self.0.usize(before.len()..=after.len()));
        }
        torn
    }

    /// What may be on disk if the power fails while a frame is written to a file, or just after that.
    fn crash(&mut self, before: &Image, after: &Image, written: &Path) {
        for (path, new) in after {
            let empty = || [&new[..HEADER], &vec![0; new.len() - HEADER]].concat();
            if path == written {
                // A new file has its name before anything is written to it, and may replace one that was too short.
                let old = before.get(path).filter(|old| old[..HEADER] == new[..HEADER]);
                let old = old.cloned().unwrap_or_else(empty);
                fs::write(path, self.torn(&old, new)).expect("it can be written");
            } else if !before.contains_key(path) {
                // Another is being made meanwhile.
                match self.0.u32(..3) {
                    0 => {}
                    1 => fs::remove_file(path).expect("it is there"),
                    _ => {
                        fs::remove_file(path).expect("it is there");
                        let part = self.torn(&[], new);
                        fs::write(path.with_extension("new"), part).expect("it can be written");
                    }
                }
            }
        }
    }
}

#[test]
fn all_but_the_last_frame_are_there_and_the_last_is_whole_or_not_there_at_all() {
    let (mut lost, mut kept) = (0, 0);
    for seed in 0..60 {
        let mut chance = Chance(fastrand::Rng::with_seed(seed));
        let directory = tempfile::tempdir().expect("a directory");
        let directory = directory.path();
        let mut expected: Vec<Vec<u8>> = Vec::new();
        // Whether the last of them was being written.
        let mut in_doubt = false;
        for crash in 0..25 {
            let found = image(directory);
            let (mut journal, seen) =
                open(directory).unwrap_or_else(|error| panic!("{error}: {seed}, crash {crash}"));
            if in_doubt && seen.len() < expected.len() {
                expected.pop();
                lost += 1;
            } else {
                kept += 1;
            }
            assert!(seen == expected, "seed {seed}, crash {crash}");
            if crash % 2 == 0 {
                let path = directory.join(name(journal.last().number));
                journal.writer = FileWriter::without_direct_io(&path, journal.writer.at());
            }
            // Also while that is put in order.
            in_doubt = chance.0.u32(..4) > 0;
            if !in_doubt {
                drop(journal);
                for (path, new) in image(directory) {
                    let old = found.get(&path).unwrap_or(&new);
                    fs::write(&path, chance.torn(old, &new)).expect("it can be written");
                }
                continue;
            }
            for _ in 0..chance.0.u32(..3) {
                let content = chance.content();
                append(&mut journal, &content);
                expected.push(content);
            }
            // The file that is being made is there, so that it is not taken for what happens next.
            while journal.coming.as_ref().is_some_and(|coming| !coming.is_finished()) {
                thread::yield_now();
            }
            let before = image(directory);
            let content = chance.content();
            let location = append(&mut journal, &content);
            expected.push(content);
            drop(journal);
            let after = image(directory);
            chance.crash(&before, &after, &directory.join(name(location.file)));
        }
    }
    assert!(lost > 100 && kept > 100, "{lost} frames were lost, and {kept} not");
}

#[test]
fn files_go_one_after_the_other_and_the_rest_is_whole_at_any_time() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let (mut journal, _) = open(directory).expect("a log");
    let mut expected = Vec::new();
    for i in 0..60_u8 {
        let content = vec![i; 400];
        expected.push((append(&mut journal, &content).file, content));
    }
    drop(journal);
    let all = image(directory);
    let last = expected[59].0;
    assert!(last > 3);
    for first in 1..=last {
        let (_, seen) = open(directory).expect("a log");
        let left = expected.iter().filter(|(file, _)| *file >= first);
        assert!(seen.iter().eq(left.map(|(_, content)| content)), "from {first} on");
        fs::remove_file(directory.join(name(first))).expect("it is there");
    }
    for (path, bytes) in &all {
        fs::write(path, bytes).expect("it can be written");
    }
    // One that is gone although one before it is there was removed by another program; an empty one, too.
    for gone in 2..=last {
        fs::remove_file(directory.join(name(gone))).expect("it is there");
        let error = open(directory).err();
        if gone < last || all.contains_key(&directory.join(name(last + 1))) {
            assert!(error.is_some_and(|error| error.to_string().contains("is missing")));
        }
        fs::write(directory.join(name(gone)), &all[&directory.join(name(gone))]).expect("it can");
    }
}

#[test]
fn what_was_not_flushed_is_flushed_before_anything_is_written_after_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut journal, _) = open(directory.path()).expect("a log");
    // More than half of a file, so that there is another.
    append(&mut journal, &[7; FILE * 3 / 4]);
    drop(journal);
    let [first, second] = [1, 2].map(|number| directory.path().join(name(number)));
    assert!(second.exists());
    // Its writer was killed before it was flushed: it can be read, and is on no disk.
    let long_ago = std::time::SystemTime::UNIX_EPOCH;
    let file = File::options().write(true).open(&first).expect("it is there");
    file.set_modified(long_ago).expect("it is ours");
    open(directory.path()).expect("a log");
    let modified = fs::metadata(&first).and_then(|data| data.modified()).expect("it is there");
    assert_ne!(modified, long_ago, "it is written once more");
}

#[test]
fn after_a_failure_nothing_is_written_until_it_was_opened_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut journal, _) = open(directory.path()).expect("a log");
    append(&mut journal, b"one");
    let mut two = [&[0; HEAD], b"two".as_slice()].concat();
    journal.writer.break_off();
    assert!(journal.append(&mut two.clone(), STAMP).is_err(), "it gets nowhere");
    journal.writer =
        FileWriter::without_direct_io(&directory.path().join(name(1)), journal.writer.at());
    let error = journal.append(&mut two, STAMP).expect_err("what is on disk is unknown");
    assert!(error.to_string().contains("could not be written before"), "{error}");
    drop(journal);
    let (mut journal, seen) = open(directory.path()).expect("a log");
    assert_eq!(seen, [b"one"]);
    append(&mut journal, b"two");
    drop(journal);
    assert_eq!(open(directory.path()).expect("a log").1, [b"one", b"two"]);
}

#[test]
fn a_file_that_is_shorter_than_what_it_begins_with_was_not_left_by_a_failure_of_power() {
    let directory = tempfile::tempdir().expect("a directory");
    for length in 0..HEADER {
        fs::write(directory.path().join(name(1)), &frame::MAGIC.repeat(5)[..length])
            .expect("written");
        let error = open(directory.path()).err().expect("it is damaged");
        assert!(error.to_string().contains("does not begin as it should"), "{error}");
    }
}

#[test]
fn if_the_next_file_cannot_be_made_it_is_tried_again_when_it_is_needed() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut journal, _) = open(directory.path()).expect("a log");
    // Something is in its way.
    let way = directory.path().join(name(2)).with_extension("new");
    fs::create_dir(&way).expect("it can be made");
    append(&mut journal, &[1; FILE * 3 / 4]);
    assert!(journal.make_room(FILE / 2).is_err(), "it is still in its way");
    fs::remove_dir(&way).expect("it is empty");
    append(&mut journal, &[2; FILE / 2]);
    drop(journal);
    let (_, seen) = open(directory.path()).expect("a log");
    assert_eq!(seen, [vec![1; FILE * 3 / 4], vec![2; FILE / 2]]);
}
