//! What nodes say of themselves when they crash and come back, for judges to compare.

use std::hash::{Hash, Hasher};

use conclave_protocol::family::snapshot::{
    BACK, INITIAL, PRINT, RESTORED, RESUMES, SAVES, USES, USES_AGAIN,
};
use conclave_protocol::{NodeId, Note, Observable, Observation};
use serde::{Deserialize, Serialize};

use super::Sid;

/// What a node says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Recovery {
    /// So many inputs have been used, and this is a fingerprint of the state after the last.
    Used(u32, u64),
    /// The node is back after a crash.
    Back,
    /// The same as [`Used`](Self::Used), of a state that it goes through while it is restored.
    UsedAgain(u32, u64),
    /// It goes on.
    Restored,
    /// Its part of a snapshot, or its initial state, is saved, with this fingerprint.
    Saved(Option<Sid>, u64),
    /// It goes back to that: the fingerprint of what it takes up, how many rollbacks there have been,
    /// and which node began this one.
    Resumed(Option<Sid>, u64, u32, NodeId),
}

impl Observable for Recovery {
    fn observation(&self) -> Observation {
        let note = |kind, used, value| Note { kind, number: used as u16, value, ..Note::default() };
        Observation::Note(match *self {
            Self::Used(used, state) => note(USES, used, state),
            Self::Back => note(BACK, 0, 0),
            Self::UsedAgain(used, state) => note(USES_AGAIN, used, state),
            Self::Restored => note(RESTORED, 0, 0),
            Self::Saved(sid, state) => Note { number: part(sid), ..note(SAVES, 0, print(state)) },
            Self::Resumed(sid, state, rollbacks, who) => {
                let value = u64::from(rollbacks) << PRINT | print(state);
                Note { number: part(sid), who, ..note(RESUMES, 0, value) }
            }
        })
    }
}

/// The number of a part, as a note has it.
fn part(sid: Option<Sid>) -> u16 {
    sid.map_or(INITIAL, |Sid(number)| number)
}

/// As much of a fingerprint as a note about a part has room for.
fn print(state: u64) -> u64 {
    state & ((1 << PRINT) - 1)
}

/// A number that tells values apart, the same on any machine.
pub fn fingerprint(value: &impl Hash) -> u64 {
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    value.hash(&mut hasher);
    // The lowest bit of a product is that of its factors: mixed with the others, it counts, too.
    hasher.0 ^ hasher.0 >> 29
}

/// Fowler, Noll and Vo's hash, of 64 bits.
struct Fnv(u64);

macro_rules! write {
    ($($method:ident($type:ty) as $wide:ty;)+) => {
        $(fn $method(&mut self, value: $type) {
            self.write(&(value as $wide).to_le_bytes());
        })+
    };
}

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    // By default in the machine's order of bytes, and lengths in its width.
    write! {
        write_u16(u16) as u16;
        write_u32(u32) as u32;
        write_u64(u64) as u64;
        write_u128(u128) as u128;
        write_usize(usize) as u64;
        write_i16(i16) as i16;
        write_i32(i32) as i32;
        write_i64(i64) as i64;
        write_i128(i128) as i128;
        write_isize(isize) as i64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_a_matter_of_the_value_alone() {
        assert_eq!(fingerprint(&(1_u32, 2_u64)), fingerprint(&(1_u32, 2_u64)));
        assert_ne!(fingerprint(&(1_u32, 2_u64)), fingerprint(&(2_u32, 1_u64)));
        assert_ne!(fingerprint(&vec![Some(1_u8)]), fingerprint(&vec![None::<u8>, None]));
        // Written down once, so that a trace of today is understood on any machine.
        assert_eq!(fingerprint(&7_usize), fingerprint(&7_u64));
    }
}
