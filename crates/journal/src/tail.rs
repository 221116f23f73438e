//! What follows the last frame that is whole: nothing, a frame that was being written when the power failed, or damage.
//!
//! A disk writes sectors as a whole, in any order. So of a frame that was being written each sector is as it was to be
//! or as it was before: all zeros from where the frame begins. If none is as it was before, the frame had been written
//! and may have been acknowledged, and something has happened to it since.

use crate::frame::{HEAD, Head, Salt, frame, room_for};

/// What a disk writes as a whole, or not at all.
pub(crate) const SECTOR: usize = 512;

/// What follows the last frame that is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Zeros.
    Empty,
    /// A frame that was not written to its end.
    Torn,
    /// Something that was written and has changed since.
    Damaged(&'static str),
}

/// What is in a file from `end` on, where the frame `next` would begin.
pub(crate) fn tail(bytes: &[u8], end: usize, salt: Salt, next: Option<u64>) -> Tail {
    if is_zero(&bytes[end..]) {
        return Tail::Empty;
    }
    let whole = |at: &usize| {
        let head = Head::read(bytes, *at, salt);
        let later = head.is_some_and(|head| next.is_none_or(|next| head.number >= next));
        later && frame(bytes, *at, salt).is_some()
    };
    if (end..bytes.len()).step_by(8).any(|at| whole(&at)) {
        return Tail::Damaged("records after it are whole");
    }
    if is_zero(&bytes[end..end_of_sector(end).min(bytes.len())]) {
        return Tail::Torn;
    }
    let Some(head) = Head::read(bytes, end, salt) else {
        // It may begin in one sector and go on in the next, which was not written.
        let second = end_of_sector(end);
        let unwritten = bytes.get(second..second + SECTOR).is_some_and(is_zero);
        return if second < end + HEAD && unwritten {
            Tail::Torn
        } else {
            Tail::Damaged("how it begins makes no sense")
        };
    };
    let extent = end + room_for(head.length);
    if next.is_some_and(|next| head.number != next) || extent > bytes.len() {
        return Tail::Damaged("it belongs somewhere else");
    }
    if !is_zero(&bytes[extent..]) {
        return Tail::Damaged("something that is no record follows it");
    }
    if sectors(end, extent).any(|(from, to)| is_zero(&bytes[from..to])) {
        Tail::Torn
    } else {
        Tail::Damaged("all of it was written, and has changed since")
    }
}

/// The parts of sectors between two places.
pub(crate) fn sectors(from: usize, to: usize) -> impl Iterator<Item = (usize, usize)> {
    let first = from / SECTOR * SECTOR;
    (first..to).step_by(SECTOR).map(move |sector| (sector.max(from), (sector + SECTOR).min(to)))
}

pub(crate) fn end_of_sector(at: usize) -> usize {
    at / SECTOR * SECTOR + SECTOR
}

pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}
