//! Frames in files, one after the other, each on disk before the next is written. So a frame that is
//! damaged although a later one is whole was whole once, and that is an error; one that is damaged and the
//! last was being written when the power failed, was never acknowledged, and is cut off.
//!
//! ```text
//! file    "conclog1", its number (8 bytes), its salt (4), crc32 of these (4), frames, zeros
//! frame   length of the content (4 bytes), crc32 of the salt and of all else (4), number (8), content,
//!         zeros up to a multiple of 8
//! ```
//!
//! Numbers are big-endian; frames are counted through all files. A file is filled with zeros before it is
//! used: to flush what was overwritten is faster than to flush what made a file longer, when its length
//! has to be written, too. The salt differs from file to file, so that nothing a client sends can look like a frame.

mod pen;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use crate::pen::{BLOCK, Pen};

/// How a file begins.
const MAGIC: &[u8; 8] = b"conclog1";
/// How long what a file begins with is.
const HEADER: usize = 24;
/// How long what a frame begins with is.
pub const HEAD: usize = 16;

/// The frames in a directory.
pub struct Journal {
    directory: PathBuf,
    /// How long a file is meant to be; only a frame longer than that makes one longer.
    full: usize,
    /// The oldest first; the last is being written.
    files: VecDeque<Numbered>,
    /// Writes the last file, and is where in it the next frame goes.
    pen: Pen,
    /// The next frame's number.
    next: u64,
    /// The file after the last, while it is being made.
    coming: Option<JoinHandle<io::Result<Numbered>>>,
    /// Something could not be written, and nobody knows how much of it is on disk.
    failed: bool,
}

/// One of the files.
struct Numbered {
    number: u64,
    salt: [u8; 4],
    file: File,
}

/// Where a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of its file.
    pub file: u64,
    /// Where its content begins, and how long that is.
    at: u32,
    length: u32,
}

impl Place {
    /// How long the frame's content is.
    pub fn length(self) -> usize {
        self.length as usize
    }

    fn new(file: u64, frame: usize, length: usize) -> io::Result<Self> {
        let short = |number| u32::try_from(number).map_err(io::Error::other);
        Ok(Self { file, at: short(frame + HEAD)?, length: short(length)? })
    }
}

impl Journal {
    /// Opens the files in a directory, each of which is to be so long, and shows what is in each frame.
    pub fn open(
        directory: &Path,
        full: usize,
        mut show: impl FnMut(Place, &[u8]) -> io::Result<()>,
    ) -> io::Result<Self> {
        let (mut files, mut end, mut next) = (VecDeque::<Numbered>::new(), HEADER, None);
        let (mut torn, mut last) = (false, None);
        for number in numbers(directory)? {
            let missing = || damaged(format!("something before {} is missing", name(number)));
            if files.back().is_some_and(|before| before.number + 1 != number) {
                return Err(missing());
            }
            let path = directory.join(name(number));
            let bytes = fs::read(&path)?;
            let file = File::options().write(true).read(true).open(&path)?;
            let file = Numbered { number, salt: salt_of(&bytes, number)?, file };
            end = HEADER;
            while let Some((sequence, content)) = frame(&bytes, end, file.salt) {
                if torn || next.is_some_and(|next| next != sequence) {
                    return Err(missing());
                }
                let length = content.len();
                show(Place::new(number, end, length)?, content)?;
                last = Some((files.len(), end, room_for(length)));
                (end, next) = (end + room_for(length), Some(sequence + 1));
            }
            if bytes[end..].iter().any(|&byte| byte != 0) {
                // To look at the number first saves time: few things look like the next frames' numbers.
                let whole = |at| {
                    let number = bytes.get(at + 8..).and_then(|rest| rest.first_chunk());
                    let after = number.map(|&number| u64::from_be_bytes(number))?;
                    let after = after.checked_sub(next.unwrap_or_default())?;
                    (after < 1 << 32).then(|| frame(&bytes, at, file.salt))?
                };
                if (end..bytes.len()).step_by(8).any(|at| whole(at).is_some()) {
                    return Err(damaged(format!("{} is damaged at byte {end}", name(number))));
                }
                file.file.write_all_at(&vec![0; bytes.len() - end], end as u64)?;
                file.file.sync_data()?;
                torn = true;
            }
            files.push_back(file);
        }
        // Whoever wrote the last frame may have been killed before it was on disk, or have been told that it
        // is not; and the next may go to another file, and be flushed without it.
        if let Some((nth, at, length)) = last {
            let file = &files[nth].file;
            let mut frame = vec![0; length];
            file.read_exact_at(&mut frame, at as u64)?;
            file.write_all_at(&frame, at as u64)?;
            file.sync_data()?;
        }
        if files.is_empty() {
            files.push_back(make(directory, 1, full)?);
        } else {
            sync_names(directory)?;
        }
        let written = files.back().expect("there is one").number;
        let pen = Pen::new(&directory.join(name(written)), end)?;
        let directory = directory.to_owned();
        let next = next.unwrap_or_default();
        Ok(Self { directory, full, files, pen, next, coming: None, failed: false })
    }

    /// Makes room for a frame, and says whether it will be the first of a file.
    pub fn make_room(&mut self, length: usize) -> io::Result<bool> {
        let end = self.pen.at();
        if end > HEADER && end + room_for(length) > self.full {
            let coming = self.coming.take().map(|coming| coming.join().expect("it returns errors"));
            let file = match coming {
                Some(Ok(file)) => file,
                // There may be room again by now.
                _ => make(&self.directory, self.last().number + 1, self.full)?,
            };
            let path = self.directory.join(name(file.number));
            self.pen = self.pen.turn_to(&path, HEADER)?;
            self.files.push_back(file);
        }
        Ok(self.pen.at() == HEADER)
    }

    /// Writes a frame, and returns when it is on disk. What it begins with is put into the first
    /// [`HEAD`] bytes; the rest is its content.
    pub fn append(&mut self, frame: &mut Vec<u8>) -> io::Result<Place> {
        if self.failed {
            return Err(io::Error::other("the log could not be written before"));
        }
        // If it fails, half of it may be on disk.
        self.failed = true;
        let length = frame.len() - HEAD;
        let file = self.last();
        let place = Place::new(file.number, self.pen.at(), length)?;
        frame[..4].copy_from_slice(&place.length.to_be_bytes());
        frame[8..HEAD].copy_from_slice(&self.next.to_be_bytes());
        frame.resize(room_for(length), 0);
        let sum = sum(file.salt, &frame[..4], &frame[8..]);
        frame[4..8].copy_from_slice(&sum);
        self.pen.write(frame)?;
        self.failed = false;
        self.next += 1;
        if self.pen.at() > self.full / 2 && self.coming.is_none() {
            let (directory, number, full) = (self.directory.clone(), place.file + 1, self.full);
            self.coming = Some(thread::spawn(move || make(&directory, number, full)));
        }
        Ok(place)
    }

    /// What is in a frame.
    pub fn read(&self, place: Place) -> io::Result<Vec<u8>> {
        let first = self.files[0].number;
        let file = &self.files[(place.file - first) as usize];
        let mut content = vec![0; place.length()];
        file.file.read_exact_at(&mut content, place.at.into())?;
        Ok(content)
    }

    /// Removes the files before this one.
    pub fn remove_before(&mut self, number: u64) -> io::Result<()> {
        while self.files.len() > 1 && self.files[0].number < number {
            // The oldest first: what is left has no gap, whenever this is interrupted.
            fs::remove_file(self.directory.join(name(self.files[0].number)))?;
            self.files.pop_front();
            sync_names(&self.directory)?;
        }
        Ok(())
    }

    fn last(&self) -> &Numbered {
        self.files.back().expect("there is always one")
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // Whoever opens the directory next finds it at rest.
        drop(self.coming.take().map(JoinHandle::join));
    }
}

fn name(number: u64) -> String {
    format!("{number:016}.log")
}

/// The numbers of the files in a directory, in order.
fn numbers(directory: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let number = stem.and_then(|stem| stem.parse::<u64>().ok());
        let extension = path.extension().and_then(|extension| extension.to_str());
        match (number, extension) {
            (Some(number), Some("log")) => numbers.push(number),
            // It was being made.
            (Some(_), Some("new")) => fs::remove_file(path)?,
            _ => return Err(damaged(format!("{} is none of its files", path.display()))),
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Makes a file that is full of zeros, as far as there is room.
fn make(directory: &Path, number: u64, full: usize) -> io::Result<Numbered> {
    let path = directory.join(name(number));
    let fresh = path.with_extension("new");
    let mut file =
        File::options().read(true).write(true).create(true).truncate(true).open(&fresh)?;
    let salt = getrandom::u32().map_err(io::Error::other)?.to_be_bytes();
    let mut header = [MAGIC.as_slice(), &number.to_be_bytes(), &salt].concat();
    header.extend(crc32fast::hash(&header).to_be_bytes());
    file.write_all(&header)?;
    let zeros = full.next_multiple_of(BLOCK).saturating_sub(HEADER) as u64;
    match io::copy(&mut io::repeat(0).take(zeros), &mut file) {
        // It gets longer as it is written, if there is room then.
        Err(error) if error.kind() != io::ErrorKind::StorageFull => return Err(error),
        _ => {}
    }
    file.sync_all()?;
    fs::rename(&fresh, &path)?;
    sync_names(directory)?;
    Ok(Numbered { number, salt, file })
}

/// Which files there are is on disk when this returns.
fn sync_names(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// The salt of a file, if it begins as it should.
fn salt_of(bytes: &[u8], number: u64) -> io::Result<[u8; 4]> {
    let header = bytes.get(..HEADER).and_then(|header| {
        let (header, sum) = header.split_last_chunk()?;
        let whole = header.starts_with(MAGIC) && crc32fast::hash(header).to_be_bytes() == *sum;
        whole.then_some(header)
    });
    let numbered = header.and_then(|header| header[8..].split_first_chunk());
    match numbered {
        Some((found, salt)) if u64::from_be_bytes(*found) == number => {
            Ok(salt.try_into().expect("four bytes"))
        }
        _ => Err(damaged(format!("{} does not begin as it should", name(number)))),
    }
}

/// The number and the content of the frame that begins there, if there is one and it is whole.
fn frame(bytes: &[u8], at: usize, salt: [u8; 4]) -> Option<(u64, &[u8])> {
    let rest = bytes.get(at..)?;
    let length = u32::from_be_bytes(*rest.first_chunk()?) as usize;
    let frame = rest.get(..room_for(length))?;
    let (number, content) = frame[8..].split_first_chunk()?;
    let whole = length > 0 && frame[4..8] == sum(salt, &frame[..4], &frame[8..]);
    whole.then_some((u64::from_be_bytes(*number), &content[..length]))
}

fn sum(salt: [u8; 4], length: &[u8], rest: &[u8]) -> [u8; 4] {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&salt);
    sum.update(length);
    sum.update(rest);
    sum.finalize().to_be_bytes()
}

/// How many bytes a frame takes.
fn room_for(length: usize) -> usize {
    (HEAD + length).next_multiple_of(8)
}

fn damaged(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
