//! What was written is there, whatever happened, and damage is found.

mod direct_io;
mod power;

use super::*;

/// What all frames have.
const STAMP: Stamp = Stamp { version: 3, level: 258 };

/// So many bytes a file, which is a few frames.
const SHORT: usize = 256;

fn open(directory: &Path) -> io::Result<(Journal, Vec<Vec<u8>>)> {
    let mut seen = Vec::new();
    let journal = Journal::open(directory, SHORT, |_, stamp, content| {
        assert_eq!(stamp, STAMP);
        seen.push(content.to_vec());
        Ok(())
    })?;
    Ok((journal, seen))
}

fn append(journal: &mut Journal, content: &[u8]) -> Location {
    journal.make_room(content.len()).expect("there is room");
    let mut frame = [&[0; HEAD], content].concat();
    journal.append(&mut frame, STAMP).expect("it can be written")
}

/// So many frames, none like the other.
fn written(directory: &Path, count: u8) -> Vec<Vec<u8>> {
    let (mut journal, _) = open(directory).expect("a log");
    let contents = (1..=count).map(|i| vec![i; usize::from(i) * 7 % 60 + 1]).collect::<Vec<_>>();
    for content in &contents {
        append(&mut journal, content);
    }
    contents
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let numbers = numbers(directory, true).expect("it can be read");
    numbers.into_iter().map(|number| directory.join(name(number))).collect()
}

/// Where the frames of a file begin, and where they end.
fn bounds(bytes: &[u8]) -> Vec<usize> {
    let number = frame::eight(bytes, 8).expect("eight bytes");
    let salt = Header::read(bytes, number).expect("a file").salt;
    let mut bounds = vec![HEADER];
    let mut at = HEADER;
    while let Some((head, _)) = frame(bytes, at, salt) {
        at += room_for(head.length);
        bounds.push(at);
    }
    bounds
}

#[test]
fn what_was_written_is_there() {
    let directory = tempfile::tempdir().expect("a directory");
    let expected = written(directory.path(), 40);
    assert!(files(directory.path()).len() > 5, "there are several files");
    let (mut journal, seen) = open(directory.path()).expect("a log");
    assert_eq!(seen, expected);
    let long = vec![9; 3 * SHORT];
    let location = append(&mut journal, &long);
    assert_eq!(journal.read(location).expect("it is there"), long);
    append(&mut journal, b"after");
    drop(journal);
    let (journal, seen) = open(directory.path()).expect("a log");
    assert_eq!(seen[40..], [long, b"after".to_vec()]);
    let links = journal.last().number - 1;
    assert_eq!(journal.next, 42 + links, "each file but the last says that it goes on");
}

/// A directory whose last frame begins within a sector and touches seven; the file, and where that frame is.
fn with_long_last() -> (tempfile::TempDir, PathBuf, Vec<u8>, usize, usize) {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut journal, _) = open_long(directory.path()).expect("a log");
    append(&mut journal, &[1; 700]);
    // A client may send zeros.
    append(&mut journal, &[0; 3000]);
    drop(journal);
    let file = directory.path().join(name(1));
    let good = fs::read(&file).expect("it is there");
    let bounds = bounds(&good);
    let (begin, end) = (bounds[1], bounds[2]);
    assert_eq!(tail::sectors(begin, end).count(), 7);
    (directory, file, good, begin, end)
}

fn open_long(directory: &Path) -> io::Result<(Journal, usize)> {
    let mut seen = 0;
    let journal = Journal::open(directory, 4 * BLOCK, |_, _, _| {
        seen += 1;
        Ok(())
    })?;
    Ok((journal, seen))
}

#[test]
fn what_was_half_written_is_cut_off_whichever_sectors_are_missing() {
    let (directory, file, good, begin, end) = with_long_last();
    let sectors: Vec<(usize, usize)> = tail::sectors(begin, end).collect();
    for missing in 1_u32..1 << sectors.len() {
        let mut torn = good.clone();
        for (nth, &(from, to)) in sectors.iter().enumerate() {
            if missing & 1 << nth != 0 {
                torn[from..to].fill(0);
            }
        }
        fs::write(&file, &torn).expect("it can be written");
        let (mut journal, seen) = open_long(directory.path()).expect("a log");
        assert_eq!(seen, 1, "without {missing:07b}");
        let everything = missing + 1 == 1 << sectors.len();
        match journal.cut_off() {
            Some(cut) => assert_eq!((cut.at, cut.file.as_str()), (begin, "0000000000000001.log")),
            None => assert!(everything, "it is said what was cut off: {missing:07b}"),
        }
        append(&mut journal, b"another");
        drop(journal);
        let (journal, seen) = open_long(directory.path()).expect("a log");
        assert_eq!((seen, journal.cut_off()), (2, None));
    }
}

#[test]
fn a_flipped_bit_in_the_last_frame_is_damage() {
    let (directory, file, good, begin, end) = with_long_last();
    for at in begin..end {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        fs::write(&file, bad).expect("it can be written");
        let error = open_long(directory.path()).err().expect("it was acknowledged");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().contains("may have been acknowledged"), "{at}: {error}");
    }
    // Refused, it is left as it is.
    fs::write(&file, &good).expect("it can be written");
    assert_eq!(open_long(directory.path()).expect("all is well again").1, 2);
}

#[test]
fn a_file_that_was_cut_off_is_damage_wherever_that_was() {
    let (directory, file, good, begin, end) = with_long_last();
    for length in [0, 30, HEADER, begin, begin + 100, end, good.len() / 2, good.len() - 1] {
        fs::write(&file, &good[..length]).expect("it can be written");
        let error = open_long(directory.path()).err().expect("it was longer");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{length}: {error}");
    }
}

#[test]
fn damage_of_any_byte_is_not_passed_over() {
    let directory = tempfile::tempdir().expect("a directory");
    written(directory.path(), 20);
    let all = files(directory.path());
    let used: Vec<&PathBuf> =
        all.iter().filter(|file| bounds(&fs::read(file).expect("there")).len() > 1).collect();
    for file in &used {
        let good = fs::read(file).expect("it is there");
        let bounds = bounds(&good);
        let end = bounds[bounds.len() - 1];
        for at in 0..end {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            fs::write(file, bad).expect("it can be written");
            assert!(open(directory.path()).is_err(), "byte {at} of {}", file.display());
        }
        fs::write(file, good).expect("it can be written");
    }
    open(directory.path()).expect("all is well again");
}

#[test]
fn a_missing_file_is_missed_and_a_strange_one_is_strange() {
    let directory = tempfile::tempdir().expect("a directory");
    written(directory.path(), 20);
    let all = files(directory.path());
    let second = fs::read(&all[1]).expect("it is there");
    fs::remove_file(&all[1]).expect("it is there");
    assert!(open(directory.path()).is_err());
    fs::write(&all[1], &second).expect("it can be written");
    open(directory.path()).expect("all is well again");
    // It says which it is.
    fs::write(&all[2], &second).expect("it can be written");
    assert!(open(directory.path()).is_err());
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("notes"), b"?").expect("it can be written");
    assert!(open(directory.path()).is_err());
}

#[test]
fn the_newest_file_is_missed_if_it_is_gone() {
    for count in 5..40 {
        let directory = tempfile::tempdir().expect("a directory");
        let expected = written(directory.path(), count);
        let (journal, _) = open(directory.path()).expect("a log");
        let newest = journal.last().number;
        drop(journal);
        let all = files(directory.path());
        let gone: Vec<_> =
            all[newest as usize - 1..].iter().map(|path| (path, fs::read(path))).collect();
        for (path, _) in &gone {
            fs::remove_file(path).expect("it is there");
        }
        if newest > 1 {
            let error = open(directory.path()).err().expect("something was acknowledged there");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            let text = format!("{} is missing", name(newest));
            assert!(error.to_string().contains(&text), "{error}");
        }
        for (path, bytes) in gone {
            fs::write(path, bytes.expect("it was there")).expect("it can be written");
        }
        assert_eq!(open(directory.path()).expect("all is there again").1, expected);
    }
}

#[test]
fn files_of_earlier_versions_which_do_not_say_that_they_go_on_are_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut journal, _) = open(directory.path()).expect("a log");
    for i in 1..5_u8 {
        append(&mut journal, &[i; 40]);
        let (number, path) = (u64::from(i) + 1, directory.path().join(name(u64::from(i) + 1)));
        journal.files.push_back(make(directory.path(), number, SHORT, 0).expect("a file"));
        journal.writer = journal.writer.reopen_for(&path, HEADER).expect("it can be opened");
    }
    append(&mut journal, &[5; 40]);
    drop(journal);
    let (mut journal, seen) = open(directory.path()).expect("a log");
    assert_eq!(seen, (1..6).map(|i| vec![i; 40]).collect::<Vec<_>>());
    append(&mut journal, b"more");
    drop(journal);
    assert_eq!(open(directory.path()).expect("a log").1.len(), 6);
}

#[test]
fn a_file_that_was_made_in_advance_is_used_when_the_one_before_it_is_full() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut journal, _) = open(directory.path()).expect("a log");
    append(&mut journal, &[1; SHORT / 2]);
    drop(journal);
    assert_eq!(files(directory.path()).len(), 2);
    let (mut journal, _) = open(directory.path()).expect("a log");
    assert_eq!(append(&mut journal, b"two").file, 1);
    assert_eq!(append(&mut journal, &[3; SHORT / 2]).file, 2);
    drop(journal);
    assert_eq!(open(directory.path()).expect("a log").1.len(), 3);
}

#[test]
fn a_file_that_was_being_made_is_made_anew() {
    let directory = tempfile::tempdir().expect("a directory");
    let expected = written(directory.path(), 3);
    let half = directory.path().join(name(7)).with_extension("new");
    fs::write(&half, b"conc").expect("it can be written");
    let (_, seen) = open(directory.path()).expect("a log");
    assert_eq!(seen, expected);
    assert!(!half.exists());
}

#[test]
fn old_files_are_removed_and_the_rest_is_whole() {
    let directory = tempfile::tempdir().expect("a directory");
    let expected = written(directory.path(), 30);
    let (mut journal, _) = open(directory.path()).expect("a log");
    let last = append(&mut journal, b"last");
    journal.remove_before(4).expect("they can be removed");
    assert_eq!(numbers(directory.path(), true).expect("a log")[0], 4);
    drop(journal);
    let (mut journal, seen) = open(directory.path()).expect("a log");
    let (end, before) = seen.split_last().expect("there are some");
    assert_eq!(end, b"last");
    assert!(!before.is_empty() && expected.ends_with(before));
    assert_eq!(journal.read(last).expect("it is there"), b"last");
    journal.remove_before(u64::MAX).expect("they can be removed");
    assert_eq!(journal.files.len(), 1, "the one that is written stays");
}
