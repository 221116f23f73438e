//! An append-only log of frames in files; each frame is on disk before the next is written. A damaged frame in front of
//! a whole one was whole once, and is an error. A frame that was being written when the power failed was never
//! acknowledged: it is the last, and some sector of it was not written; it is cut off and reported
//! ([`Journal::cut_off`]). Any other damage keeps the journal from being opened. Before the journal continues in
//! the next file, the last frame of a file says so; if the file that it names is missing, acknowledged frames are lost,
//! and the journal is not opened, either.
//!
//! `frame` is what files look like, `tail` tells what was not written from what was damaged, `direct_io` writes, and
//! `format_1` reads what version 0.1 wrote.

mod direct_io;
mod format_1;
mod frame;
mod tail;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use crate::direct_io::{BLOCK, FileWriter};
use crate::frame::{CONTINUED, HEADER, Head, Header, Salt, damaged, frame, room_for, whiten};
use crate::tail::{Tail, tail};

pub use format_1::read_format_1;
pub use frame::{HEAD, Stamp};

/// The frames in a directory.
pub struct Journal {
    directory: PathBuf,
    /// How long a file is meant to be; only for a frame longer than that one is made longer.
    full: usize,
    /// The oldest first; the last is being written.
    files: VecDeque<Numbered>,
    /// Appends to the last file.
    writer: FileWriter,
    /// The next frame's number.
    next: u64,
    /// The file after the last, while it is being made.
    coming: Option<JoinHandle<io::Result<Numbered>>>,
    /// A write failed, and how much of it is on disk is unknown.
    failed: bool,
    cut_off: Option<CutOff>,
}

/// One of the files.
struct Numbered {
    number: u64,
    salt: Salt,
    /// How long it was made; frames beyond that go to the next.
    length: usize,
    file: File,
    /// Its last frame says that the journal continues in the next file.
    continued: bool,
}

/// How many bytes the frame takes that says that the journal continues in the next file.
const LINK: usize = HEAD + size_of::<u64>();

/// What was at the end of the journal, was not written completely, and was never acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutOff {
    /// The name of the file.
    pub file: String,
    /// From which byte on.
    pub at: usize,
    /// How many bytes there were.
    pub bytes: usize,
}

impl CutOff {
    fn new(file: u64, at: usize, bytes: &[u8]) -> Self {
        let end = bytes.iter().rposition(|&byte| byte != 0).map_or(at, |last| last + 1);
        Self { file: name(file), at, bytes: end.saturating_sub(at) }
    }
}

impl fmt::Display for CutOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, at, bytes } = self;
        write!(
            f,
            "cut off {bytes} bytes at byte {at} of {file}: a record that was being written when the power failed or \
             the process was killed, and that was never acknowledged"
        )
    }
}

/// Where a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The number of its file.
    pub file: u64,
    /// Where its content begins, and how long that is.
    at: u32,
    length: u32,
}

impl Location {
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
        mut show: impl FnMut(Location, Stamp, &[u8]) -> io::Result<()>,
    ) -> io::Result<Self> {
        let (mut files, mut next) = (VecDeque::<Numbered>::new(), None);
        let (mut end, mut end_before) = (HEADER, HEADER);
        let (mut cut_off, mut last) = (None, None);
        for number in numbers(directory, true)? {
            let missing = || damaged(format!("something before {} is missing", name(number)));
            if files.back().is_some_and(|before| before.number + 1 != number) {
                return Err(missing());
            }
            let path = directory.join(name(number));
            let bytes = fs::read(&path)?;
            let file = File::options().write(true).read(true).open(&path)?;
            let mut file = Numbered::new(file, &bytes, number)?;
            (end_before, end) = (end, HEADER);
            while let Some((head, content)) = frame(&bytes, end, file.salt) {
                if cut_off.is_some() || next.is_some_and(|next| next != head.number) {
                    return Err(missing());
                }
                if head.stamp == CONTINUED {
                    file.continued = true;
                } else {
                    let location = Location::new(number, end, head.length)?;
                    let mut content = content.to_vec();
                    whiten(&mut content, end + HEAD, file.salt);
                    show(location, head.stamp, &content[..head.length])?;
                }
                last = Some((files.len(), end, room_for(head.length)));
                (end, next) = (end + room_for(head.length), Some(head.number + 1));
            }
            match tail(&bytes, end, file.salt, next) {
                Tail::Empty => {}
                Tail::Torn => {
                    file.file.write_all_at(&vec![0; bytes.len() - end], end as u64)?;
                    file.file.sync_data()?;
                    cut_off = Some(CutOff::new(number, end, &bytes));
                }
                Tail::Damaged(why) => return Err(lost(number, end, &bytes, why)),
            }
            files.push_back(file);
        }
        if let Some(last) = files.back().filter(|last| last.continued) {
            let (next, last) = (name(last.number + 1), name(last.number));
            let text = format!("{next} is missing, and {last} says that the log goes on there");
            return Err(damaged(text));
        }
        // What was made in advance is still to come, unless the file before it says that the journal goes on there.
        let mut coming = None;
        let begun = files.len().checked_sub(2).is_none_or(|before| files[before].continued);
        if !begun && end == HEADER {
            let made = files.pop_back().expect("there are two");
            coming = Some(thread::spawn(move || Ok(made)));
            end = end_before;
        }
        // The writer of the last frame may have been killed before it was on disk, or have been told that it
        // is not; and the next may go to another file, and be flushed without it.
        if let Some((nth, at, length)) = last {
            let file = &files[nth].file;
            let mut frame = vec![0; length];
            file.read_exact_at(&mut frame, at as u64)?;
            file.write_all_at(&frame, at as u64)?;
            file.sync_data()?;
        }
        if files.is_empty() {
            files.push_back(make(directory, 1, full, 0)?);
        } else {
            sync_names(directory)?;
        }
        let written = files.back().expect("there is one").number;
        let writer = FileWriter::new(&directory.join(name(written)), end)?;
        let directory = directory.to_owned();
        let next = next.unwrap_or_default();
        Ok(Self { directory, full, files, writer, next, coming, failed: false, cut_off })
    }

    /// What was cut off when it was opened.
    pub fn cut_off(&self) -> Option<&CutOff> {
        self.cut_off.as_ref()
    }

    /// Makes room for a frame, and says whether it will be the first of a file.
    pub fn make_room(&mut self, length: usize) -> io::Result<bool> {
        let needed = room_for(length) + LINK;
        let (at, room) = (self.writer.at(), self.last().length);
        // An empty file may be longer than others, for a long frame.
        let room = if at == HEADER { room } else { room.min(self.full) };
        if at + needed > room {
            let coming = self.coming.take().map(|coming| coming.join().expect("it returns errors"));
            let file = match coming {
                Some(Ok(file)) if HEADER + needed <= file.length => file,
                // There may be room again by now, or it has to be longer than others.
                _ => make(&self.directory, self.last().number + 1, self.full, needed)?,
            };
            let path = self.directory.join(name(file.number));
            let writer = self.writer.reopen_for(&path, HEADER)?;
            self.write_continuation()?;
            self.writer = writer;
            self.files.push_back(file);
        }
        Ok(self.writer.at() == HEADER)
    }

    /// Writes a frame, and returns when it is on disk. There has to be room for it. What it begins with is put into
    /// the first [`HEAD`] bytes; the rest is its content, of which nothing is left.
    pub fn append(&mut self, frame: &mut Vec<u8>, stamp: Stamp) -> io::Result<Location> {
        let location = self.write(frame, stamp)?;
        if self.writer.at() > self.full / 2 && self.coming.is_none() {
            let (directory, number, full) = (self.directory.clone(), location.file + 1, self.full);
            self.coming = Some(thread::spawn(move || make(&directory, number, full, 0)));
        }
        Ok(location)
    }

    /// Writes the last frame of a file, so that it is noticed if the next is lost.
    fn write_continuation(&mut self) -> io::Result<()> {
        let file = self.last();
        // An earlier version left no room for it.
        if self.writer.at() + LINK > file.length {
            return Ok(());
        }
        let mut frame = vec![0; HEAD];
        frame.extend((file.number + 1).to_be_bytes());
        self.write(&mut frame, CONTINUED)?;
        Ok(())
    }

    fn write(&mut self, frame: &mut Vec<u8>, stamp: Stamp) -> io::Result<Location> {
        if self.failed {
            return Err(io::Error::other("the log could not be written before"));
        }
        // If it fails, half of it may be on disk.
        self.failed = true;
        let length = frame.len() - HEAD;
        let at = self.writer.at();
        let file = self.last();
        let location = Location::new(file.number, at, length)?;
        frame.resize(room_for(length), 0);
        whiten(&mut frame[HEAD..], at + HEAD, file.salt);
        let sum = crc32fast::hash(&frame[HEAD..]);
        let head = Head { length, number: self.next, sum, stamp };
        frame[..HEAD].copy_from_slice(&head.to_bytes(file.salt));
        self.writer.write(frame)?;
        self.failed = false;
        self.next += 1;
        Ok(location)
    }

    /// What is in a frame.
    pub fn read(&self, location: Location) -> io::Result<Vec<u8>> {
        let first = self.files[0].number;
        let file = &self.files[(location.file - first) as usize];
        let mut content = vec![0; location.length()];
        file.file.read_exact_at(&mut content, location.at.into())?;
        whiten(&mut content, location.at as usize, file.salt);
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
        // The next to open the directory finds no file half made.
        drop(self.coming.take().map(JoinHandle::join));
    }
}

fn name(number: u64) -> String {
    format!("{number:016}.log")
}

/// The numbers of the files in a directory, in order. What was being made is removed, if wanted.
fn numbers(directory: &Path, tidy: bool) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let number = stem.and_then(|stem| stem.parse::<u64>().ok());
        let extension = path.extension().and_then(|extension| extension.to_str());
        match (number, extension) {
            (Some(number), Some("log")) => numbers.push(number),
            // It was being made.
            (Some(_), Some("new")) if tidy => fs::remove_file(path)?,
            (Some(_), Some("new")) => {}
            _ => return Err(damaged(format!("{} is none of its files", path.display()))),
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

impl Numbered {
    /// A file that begins as it should, and is as long as it was made.
    fn new(file: File, bytes: &[u8], number: u64) -> io::Result<Self> {
        let header = Header::read(bytes, number);
        let header = header.ok_or_else(|| match bytes.get(..8) {
            Some(b"conclog1") => damaged(format!("{} is of format 1", name(number))),
            Some(magic) if magic.starts_with(b"conclog") && magic != frame::MAGIC => damaged(
                format!("{} was written by a newer version of conclave; use that", name(number)),
            ),
            _ => damaged(format!("{} does not begin as it should", name(number))),
        })?;
        let length = usize::try_from(header.length).map_err(io::Error::other)?;
        if bytes.len() < length {
            let there = bytes.len();
            let text = format!("{} is cut off: {there} of {length} bytes are there", name(number));
            return Err(damaged(text));
        }
        Ok(Self { number, salt: header.salt, length, file, continued: false })
    }
}

/// Why a journal is not opened whose last record is damaged.
fn lost(number: u64, end: usize, bytes: &[u8], why: &str) -> io::Error {
    let CutOff { bytes, .. } = CutOff::new(number, end, bytes);
    let file = name(number);
    damaged(format!(
        "{file} is damaged at byte {end} ({why}); {bytes} bytes from there on cannot be read, and may have been \
         acknowledged"
    ))
}

/// What a file leaves free on the disk, if it can be shorter: before the journal can be cut, a snapshot has to be written.
const SPARE: u64 = 4 << 20;

/// Makes a file that is full of zeros, as far as there is room, but with room for a frame of so many bytes.
fn make(directory: &Path, number: u64, full: usize, needed: usize) -> io::Result<Numbered> {
    let path = directory.join(name(number));
    let fresh = path.with_extension("new");
    let made = fill(&fresh, number, full.max(HEADER + needed), HEADER + needed);
    if made.is_err() {
        // The room it took is needed.
        let _ = fs::remove_file(&fresh);
    }
    let made = made?;
    fs::rename(&fresh, &path)?;
    sync_names(directory)?;
    Ok(made)
}

fn fill(path: &Path, number: u64, wanted: usize, least: usize) -> io::Result<Numbered> {
    let mut options = File::options();
    let options = options.read(true).write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(path)?;
    let salt = Salt(getrandom::u64().map_err(io::Error::other)?);
    let mut length = 0;
    let zeros = vec![0; (1 << 20).min(wanted.next_multiple_of(BLOCK))];
    while length < wanted.next_multiple_of(BLOCK) {
        if length >= least.max(BLOCK) && free(&file)? < SPARE + zeros.len() as u64 {
            break;
        }
        let more = zeros.len().min(wanted.next_multiple_of(BLOCK) - length);
        match file.write(&zeros[..more]) {
            Ok(written) => length += written,
            // It is used as far as it goes.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    length = length / BLOCK * BLOCK;
    if length < least.max(BLOCK) {
        return Err(io::ErrorKind::StorageFull.into());
    }
    file.set_len(length as u64)?;
    let header = Header { number, length: length as u64, salt };
    file.write_all_at(&header.to_bytes(), 0)?;
    file.sync_all()?;
    Ok(Numbered { number, salt, length, file, continued: false })
}

/// How many bytes are free where a file is.
fn free(file: &File) -> io::Result<u64> {
    let disk = rustix::fs::fstatvfs(file)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Which files there are is on disk when this returns.
fn sync_names(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
