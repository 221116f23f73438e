//! How a file is written: directly, in whole blocks, past the memory in which the system keeps files.
//! That is one way to the disk instead of two, and takes about half of the processor's time. Where the
//! file system has no such way, what was written is flushed.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::{Errno, ReadWriteFlags, pwritev2};

/// The disk takes multiples of this, from multiples of this, to multiples of this.
pub(crate) const BLOCK: usize = 4096;

/// Writes a file from somewhere on to its end, piece by piece.
pub(crate) struct Pen {
    file: File,
    way: Way,
    at: usize,
}

enum Way {
    Direct(Blocks),
    Flushed,
}

/// The block that is partly written, and what is to be written after it.
struct Blocks {
    memory: Vec<u8>,
    /// Where in memory the first block begins.
    first: usize,
}

impl Pen {
    /// Writes on at this place.
    pub(crate) fn new(path: &Path, at: usize) -> io::Result<Self> {
        match Self::direct(path, at) {
            Err(error) if has_no_direct_way(&error) => Self::flushed(path, at),
            pen => pen,
        }
    }

    /// The same for another file, in the same way.
    pub(crate) fn turn_to(&self, path: &Path, at: usize) -> io::Result<Self> {
        match self.way {
            Way::Direct(_) => Self::new(path, at),
            Way::Flushed => Self::flushed(path, at),
        }
    }

    fn direct(path: &Path, at: usize) -> io::Result<Self> {
        // What is before it in the same block is written again with what comes next.
        let block = at / BLOCK * BLOCK;
        let mut before = vec![0; at - block];
        File::open(path)?.read_exact_at(&mut before, block as u64)?;
        let flags = OFlags::DIRECT.bits().cast_signed();
        let file = File::options().write(true).custom_flags(flags).open(path)?;
        let mut pen = Self { file, way: Way::Direct(Blocks::new()), at: block };
        // There are systems that know this way and cannot go it. Where nothing is before, zeros are there.
        if before.is_empty() {
            pen.write(&[0; BLOCK])?;
            pen.at = at;
        } else {
            pen.write(&before)?;
        }
        Ok(pen)
    }

    fn flushed(path: &Path, at: usize) -> io::Result<Self> {
        let file = File::options().write(true).open(path)?;
        Ok(Self { file, way: Way::Flushed, at })
    }

    /// Where the next piece goes.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Writes a piece, and returns when it is on disk.
    pub(crate) fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        match &mut self.way {
            Way::Direct(blocks) => {
                let begun = self.at % BLOCK;
                let whole = blocks.put(begun, piece);
                write_through(&self.file, whole, (self.at - begun) as u64)?;
                blocks.keep_last(begun + piece.len());
            }
            Way::Flushed => {
                self.file.write_all_at(piece, self.at as u64)?;
                self.file.sync_data()?;
            }
        }
        self.at += piece.len();
        Ok(())
    }
}

/// Whether an error means that there is no direct way, and nothing worse.
fn has_no_direct_way(error: &io::Error) -> bool {
    let unknown = [Errno::INVAL, Errno::OPNOTSUPP, Errno::NOSYS].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|code| unknown.contains(&code))
}

/// Writes all of this, and returns when it is on disk.
fn write_through(file: &File, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match pwritev2(file, &[IoSlice::new(bytes)], at, ReadWriteFlags::DSYNC) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => (bytes, at) = (&bytes[written..], at + written as u64),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
impl Pen {
    /// The same file, as it is written where there is no direct way.
    pub(crate) fn without_direct_way(path: &Path, at: usize) -> Self {
        Self::flushed(path, at).expect("it is there")
    }

    /// Nothing that is written from now on gets anywhere.
    pub(crate) fn break_off(&mut self) {
        self.file = File::options().write(true).open("/dev/full").expect("it is always there");
    }
}

impl Blocks {
    fn new() -> Self {
        let mut blocks = Self { memory: Vec::new(), first: 0 };
        blocks.make_room(BLOCK, 0);
        blocks
    }

    /// Puts a piece where it goes, and gives all blocks that it touches.
    fn put(&mut self, begun: usize, piece: &[u8]) -> &[u8] {
        let end = begun + piece.len();
        let whole = end.next_multiple_of(BLOCK);
        if self.first + whole > self.memory.len() {
            self.make_room(2 * whole, begun);
        }
        let blocks = &mut self.memory[self.first..][..whole];
        blocks[begun..end].copy_from_slice(piece);
        blocks[end..].fill(0);
        blocks
    }

    /// What was begun with so many bytes is written, except for its last block, which goes on.
    fn keep_last(&mut self, end: usize) {
        let (from, to) = (self.first + end / BLOCK * BLOCK, self.first + end);
        self.memory.copy_within(from..to, self.first);
    }

    /// Takes more memory, to which what was begun moves.
    fn make_room(&mut self, length: usize, begun: usize) {
        let mut memory = vec![0; length + BLOCK];
        let first = memory.as_ptr().align_offset(BLOCK);
        memory[first..][..begun].copy_from_slice(&self.memory[self.first..][..begun]);
        *self = Self { memory, first };
    }
}
