//! What a file of the journal looks like, byte by byte.
//!
//! ```text
//! file    "conclog2", its number (8 bytes), its length (8), its salt (8), crc32 of these (4), zeros (4), frames, zeros
//! frame   crc32 of the salt and the rest of these 24 bytes (4), length of the content (4), number (8),
//!         crc32 of the content as it is written (4), version (2), level (2), content, filled up to a multiple of 8
//! ```
//!
//! Numbers are big-endian; frames are counted through all files. The last frame of a file that is not the last has version
//! and level 65535, and the number of the next file as its content (8). A file has its length from the beginning, full of
//! zeros: to flush what was overwritten is faster than to flush what made a file longer, and a file that was cut off
//! later is told by its length.
//!
//! The content is written as its exclusive or with a stream of numbers that the salt and the offset give, so that no
//! sector of a frame is nothing but zeros, whatever a client sends. A sector of zeros was therefore never written.

use std::io;

/// How a file begins.
pub(crate) const MAGIC: &[u8; 8] = b"conclog2";
/// How long what a file begins with is.
pub(crate) const HEADER: usize = 40;
/// How long what a frame begins with is.
pub const HEAD: usize = 24;

/// What a file begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) number: u64,
    /// How long the file was made.
    pub(crate) length: u64,
    pub(crate) salt: Salt,
}

/// A number that differs from file to file, and that no client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Salt(pub(crate) u64);

/// In which version and at which level the content of a frame was written: how it is encoded, and what its reader has
/// to know in order to carry it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// How it is encoded; the highest number is the journal's own.
    pub version: u16,
    /// What it may contain.
    pub level: u16,
}

/// What the last frame of a file has, if the journal continues in the next; its content is the number of that file.
/// Files of earlier versions end without it.
pub(crate) const CONTINUED: Stamp = Stamp { version: u16::MAX, level: u16::MAX };

/// What a frame begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) length: usize,
    pub(crate) number: u64,
    pub(crate) sum: u32,
    pub(crate) stamp: Stamp,
}

impl Header {
    pub(crate) fn to_bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&self.number.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.length.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.salt.0.to_be_bytes());
        let sum = crc32fast::hash(&bytes[..32]);
        bytes[32..36].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    /// What the file of this number begins with, if it does as it should.
    pub(crate) fn read(bytes: &[u8], number: u64) -> Option<Self> {
        let bytes: &[u8; HEADER] = bytes.first_chunk()?;
        let (length, salt) = (eight(bytes, 16)?, Salt(eight(bytes, 24)?));
        let header = Self { number, length, salt };
        (*bytes == header.to_bytes()).then_some(header)
    }
}

impl Head {
    /// What the frame that begins there begins with, if that is whole.
    pub(crate) fn read(bytes: &[u8], at: usize, salt: Salt) -> Option<Self> {
        let head: &[u8; HEAD] = bytes.get(at..)?.first_chunk()?;
        let length = four(head, 4)? as usize;
        let stamp =
            Stamp { version: (four(head, 20)? >> 16) as u16, level: four(head, 20)? as u16 };
        let found = Self { length, number: eight(head, 8)?, sum: four(head, 16)?, stamp };
        (length > 0 && found.to_bytes(salt) == *head).then_some(found)
    }

    pub(crate) fn to_bytes(self, salt: Salt) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[4..8].copy_from_slice(&(self.length as u32).to_be_bytes());
        bytes[8..16].copy_from_slice(&self.number.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.sum.to_be_bytes());
        bytes[20..22].copy_from_slice(&self.stamp.version.to_be_bytes());
        bytes[22..24].copy_from_slice(&self.stamp.level.to_be_bytes());
        let mut sum = crc32fast::Hasher::new();
        sum.update(&salt.0.to_be_bytes());
        sum.update(&bytes[4..]);
        bytes[..4].copy_from_slice(&sum.finalize().to_be_bytes());
        bytes
    }
}

/// The frame that begins there, if it is whole: what it begins with, and its content as it is written, filled up.
pub(crate) fn frame(bytes: &[u8], at: usize, salt: Salt) -> Option<(Head, &[u8])> {
    let head = Head::read(bytes, at, salt)?;
    let content = bytes.get(at + HEAD..at + room_for(head.length))?;
    (crc32fast::hash(content) == head.sum).then_some((head, content))
}

/// Whitens content that stands at this offset of a file, or undoes that.
pub(crate) fn whiten(content: &mut [u8], offset: usize, salt: Salt) {
    for (word, at) in content.chunks_mut(8).zip((offset as u64..).step_by(8)) {
        // The finalizer of SplitMix64: any bit of the offset changes half of the bits.
        let mut mixed = salt.0.wrapping_add(at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        for (byte, mask) in word.iter_mut().zip(mixed.to_be_bytes()) {
            *byte ^= mask;
        }
    }
}

/// How many bytes a frame takes.
pub(crate) fn room_for(length: usize) -> usize {
    (HEAD + length).next_multiple_of(8)
}

pub(crate) fn damaged(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

pub(crate) fn four(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|four| u32::from_be_bytes(*four))
}

pub(crate) fn eight(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|eight| u64::from_be_bytes(*eight))
}
