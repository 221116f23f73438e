//! What was written is there, whatever happened, and damage is found.

mod pen;
mod power;

use super::*;

/// So many bytes a file, which is a few frames.
const SHORT: usize = 256;

fn open(directory: &Path) -> io::Result<(Journal, Vec<Vec<u8>>)> {
    let mut seen = Vec::new();
    let journal = Journal::open(directory, SHORT, |_, content| {
        seen.push(content.to_vec());
        Ok(())
    })?;
    Ok((journal, seen))
}

fn append(journal: &mut Journal, content: &[u8]) -> Place {
    journal.make_room(content.len()).expect("there is room");
    let mut frame = [&[0; HEAD], content].concat();
    journal.append(&mut frame).expect("it can be written")
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
    let numbers = numbers(directory).expect("it can be read");
    numbers.into_iter().map(|number| directory.join(name(number))).collect()
}

/// Where the frames of a file begin, and where they end.
fn bounds(bytes: &[u8]) -> Vec<usize> {
    let salt = bytes[16..20].try_into().expect("four bytes");
    let mut bounds = vec![HEADER];
    let mut at = HEADER;
    while let Some((_, content)) = frame(bytes, at, salt) {
        at += room_for(content.len());
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
    let place = append(&mut journal, &long);
    assert_eq!(journal.read(place).expect("it is there"), long);
    append(&mut journal, b"after");
    drop(journal);
    let (journal, seen) = open(directory.path()).expect("a log");
    assert_eq!(seen[40..], [long, b"after".to_vec()]);
    assert_eq!(journal.next, 42);
}

#[test]
fn what_was_half_written_is_cut_off_wherever_it_ends() {
    let directory = tempfile::tempdir().expect("a directory");
    let expected = written(directory.path(), 9);
    let all = files(directory.path());
    let is_used = |file: &&PathBuf| bounds(&fs::read(file).expect("it is there")).len() > 1;
    let file = all.iter().rfind(is_used).expect("there are frames");
    let good = fs::read(file).expect("it is there");
    let bounds = bounds(&good);
    let (begin, end) = (bounds[bounds.len() - 2], bounds[bounds.len() - 1]);
    // The last byte that is not padding.
    let end = begin + good[begin..end].iter().rposition(|&byte| byte != 0).expect("a frame");
    for kept in begin..end {
        let mut torn = good.clone();
        torn[kept..=end].fill(0);
        fs::write(file, &torn).expect("it can be written");
        let (mut journal, seen) = open(directory.path()).expect("a log");
        assert_eq!(seen, expected[..8], "after {} bytes", kept - begin);
        append(&mut journal, b"another");
        drop(journal);
        let (_, seen) = open(directory.path()).expect("a log");
        assert_eq!(seen.last().expect("there are some"), b"another");
        // What was written after that may be in the next file.
        files(directory.path()).iter().rev().take_while(|&other| other != file).for_each(|after| {
            let mut empty = fs::read(after).expect("it is there");
            empty[HEADER..].fill(0);
            fs::write(after, empty).expect("it can be written");
        });
    }
}

#[test]
fn damage_before_the_last_frame_is_not_passed_over() {
    let directory = tempfile::tempdir().expect("a directory");
    written(directory.path(), 20);
    let all = files(directory.path());
    let used: Vec<&PathBuf> =
        all.iter().filter(|file| bounds(&fs::read(file).expect("there")).len() > 1).collect();
    for file in &used {
        let good = fs::read(file).expect("it is there");
        let bounds = bounds(&good);
        let last = used.last() == Some(file);
        let end = bounds[bounds.len() - if last { 2 } else { 1 }];
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
    assert_eq!(numbers(directory.path()).expect("a log")[0], 4);
    drop(journal);
    let (mut journal, seen) = open(directory.path()).expect("a log");
    let (end, before) = seen.split_last().expect("there are some");
    assert_eq!(end, b"last");
    assert!(!before.is_empty() && expected.ends_with(before));
    assert_eq!(journal.read(last).expect("it is there"), b"last");
    journal.remove_before(u64::MAX).expect("they can be removed");
    assert_eq!(journal.files.len(), 1, "the one that is written stays");
}
