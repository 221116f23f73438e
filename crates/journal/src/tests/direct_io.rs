//! Both modes write the same bytes.

use super::*;

/// Pieces that end within blocks, at their ends and far beyond.
fn pieces(seed: u64) -> Vec<Vec<u8>> {
    let mut chance = fastrand::Rng::with_seed(seed);
    let length = |chance: &mut fastrand::Rng| match chance.u32(..4) {
        0 => BLOCK * chance.usize(1..3),
        1 => chance.usize(BLOCK..9 * BLOCK),
        _ => chance.usize(1..300) * 8,
    };
    let piece = |_| (0..length(&mut chance)).map(|_| chance.u8(1..)).collect();
    (0..30).map(piece).collect()
}

#[test]
fn what_was_written_is_followed_by_nothing_but_zeros() {
    for seed in 0..20 {
        let directory = tempfile::tempdir().expect("a directory");
        let header = vec![5; HEADER];
        let paths = ["direct", "flushed"].map(|name| directory.path().join(name));
        for path in &paths {
            fs::write(path, &header).expect("it can be written");
        }
        let mut writers = [
            FileWriter::new(&paths[0], HEADER).expect("it can be opened"),
            FileWriter::without_direct_io(&paths[1], HEADER),
        ];
        let mut expected = header;
        for (nth, piece) in pieces(seed).iter().enumerate() {
            if nth % 7 == 6 {
                // Opened again, it goes on where the file ends.
                writers[0] = FileWriter::new(&paths[0], expected.len()).expect("it can be opened");
            }
            expected.extend(piece);
            for (writer, path) in writers.iter_mut().zip(&paths) {
                writer.write(piece).expect("it can be written");
                let found = fs::read(path).expect("it is there");
                let (written, rest) = found.split_at(expected.len());
                assert!(written == expected, "seed {seed}, piece {nth}, {}", path.display());
                assert!(rest.iter().all(|&byte| byte == 0) && rest.len() < BLOCK);
            }
        }
    }
}

#[test]
fn a_writer_that_begins_at_a_block_finds_out_at_once_whether_direct_io_works() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("file");
    fs::write(&path, vec![5; BLOCK]).expect("it can be written");
    let mut writer = FileWriter::new(&path, BLOCK).expect("it can be opened");
    writer.write(b"more").expect("it can be written");
    let found = fs::read(&path).expect("it is there");
    let (written, rest) = found.split_at(BLOCK + 4);
    assert!(written[..BLOCK].iter().all(|&byte| byte == 5) && &written[BLOCK..] == b"more");
    assert!(rest.iter().all(|&byte| byte == 0));
}

#[test]
fn without_direct_io_each_write_is_flushed() {
    // A device that takes whatever is written, but knows nothing of blocks or of flushing.
    let null = Path::new("/dev/null");
    let mut writer = FileWriter::new(null, BLOCK).expect("it falls back to flushing");
    assert!(writer.write(b"something").is_err(), "it cannot be flushed");
}
