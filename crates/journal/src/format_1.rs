//! Files of format 1, which version 0.1 wrote: they are read, and left as they are.
//!
//! ```text
//! file    "conclog1", its number (8 bytes), its salt (4), crc32 of these (4), frames, zeros
//! frame   length of the content (4 bytes), crc32 of the salt and of all else (4), number (8), content,
//!         zeros up to a multiple of 8
//! ```

use std::fs;
use std::io;
use std::path::Path;

use crate::frame::{damaged, eight, four};
use crate::tail::{end_of_sector, is_zero, sectors};
use crate::{CutOff, name, numbers};

const MAGIC: &[u8; 8] = b"conclog1";
const HEADER: usize = 24;
const HEAD: usize = 16;

/// Shows what is in each frame of the files in a directory, and says what at the end was not written completely.
///
/// Contents of format 1 may have sectors of zeros, so what is told from damage here is told with less certainty than in
/// the present format.
pub fn read_format_1(
    directory: &Path,
    mut show: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<Option<CutOff>> {
    let (mut before, mut next, mut cut) = (None::<u64>, None, None);
    for number in numbers(directory, false)? {
        let missing = || damaged(format!("something before {} is missing", name(number)));
        if before.is_some_and(|before| before + 1 != number) {
            return Err(missing());
        }
        before = Some(number);
        let bytes = fs::read(directory.join(name(number)))?;
        let salt = salt_of(&bytes, number)?;
        let mut end = HEADER;
        while let Some((sequence, content)) = frame(&bytes, end, salt) {
            if cut.is_some() || next.is_some_and(|next| next != sequence) {
                return Err(missing());
            }
            show(content)?;
            (end, next) = (end + room_for(content.len()), Some(sequence + 1));
        }
        if !is_zero(&bytes[end..]) {
            if !is_torn(&bytes, end, salt, next) {
                return Err(damaged(format!("{} is damaged at byte {end}", name(number))));
            }
            cut = Some(CutOff::new(number, end, &bytes));
        } else if end == bytes.len() {
            return Err(damaged(format!("{} is cut off at byte {end}", name(number))));
        }
    }
    Ok(cut)
}

fn is_torn(bytes: &[u8], end: usize, salt: [u8; 4], next: Option<u64>) -> bool {
    let later = |at: usize| {
        let number = eight(bytes, at + 8)?;
        let after = number.checked_sub(next.unwrap_or_default())?;
        (after < 1 << 32).then(|| frame(bytes, at, salt))?
    };
    if (end..bytes.len()).step_by(8).any(|at| later(at).is_some()) {
        return false;
    }
    if is_zero(&bytes[end..end_of_sector(end).min(bytes.len())]) {
        return true;
    }
    // If it is whole but for its length, that has changed.
    let used = bytes.iter().rposition(|&byte| byte != 0).map_or(end, |last| last + 1);
    let least = (used - end).next_multiple_of(8).max(HEAD + 8);
    for room in (least..least + 64).step_by(8).filter(|room| end + room <= bytes.len()) {
        for length in room - HEAD - 7..=room - HEAD {
            let frame = &bytes[end..end + room];
            if frame[4..8] == sum(salt, &(length as u32).to_be_bytes(), &frame[8..]) {
                return false;
            }
        }
    }
    let extent = end + room_for(four(bytes, end).unwrap_or_default() as usize);
    extent <= bytes.len()
        && is_zero(&bytes[extent..])
        && sectors(end, extent).any(|(from, to)| is_zero(&bytes[from..to]))
}

/// The salt of a file, if it begins as it should.
fn salt_of(bytes: &[u8], number: u64) -> io::Result<[u8; 4]> {
    let whole = bytes.starts_with(MAGIC)
        && eight(bytes, 8) == Some(number)
        && four(bytes, 20) == bytes.get(..20).map(crc32fast::hash);
    let salt = bytes.get(16..20).and_then(|salt| salt.try_into().ok());
    let salt = salt.filter(|_| whole);
    salt.ok_or_else(|| damaged(format!("{} does not begin as it should", name(number))))
}

/// The number and the content of the frame that begins there, if there is one and it is whole.
fn frame(bytes: &[u8], at: usize, salt: [u8; 4]) -> Option<(u64, &[u8])> {
    let length = four(bytes, at)? as usize;
    let frame = bytes.get(at..)?.get(..room_for(length))?;
    let whole = length > 0 && frame[4..8] == sum(salt, &frame[..4], &frame[8..]);
    whole.then(|| Some((eight(frame, 8)?, &frame[HEAD..HEAD + length])))?
}

fn sum(salt: [u8; 4], length: &[u8], rest: &[u8]) -> [u8; 4] {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&salt);
    sum.update(length);
    sum.update(rest);
    sum.finalize().to_be_bytes()
}

fn room_for(length: usize) -> usize {
    (HEAD + length).next_multiple_of(8)
}
