//! Whether nodes that go back to a snapshot take up their parts as they were recorded.
//!
//! A node notes a fingerprint of each part that it saves, and one of what it takes up when it goes
//! back. Those of all parts and of the initial state are remembered here.
//!
//! With a rollback a new incarnation begins. What is said in one, others hear in that one only; so of
//! snapshots only those matter that have been recorded for in it.

use super::{RESUMES, SAVES};
use crate::{Fault, NodeId, Note, Now};

/// The number that stands for the initial state.
pub const INITIAL: u16 = u16::MAX;
/// So many bits of a note's value are the fingerprint; the rest says how many rollbacks there were.
pub const PRINT: u32 = 44;

/// The mark of the words of this file, in the highest three bits.
const MARK: u64 = 1 << 61;
/// That of the word about the incarnation, among these.
const INCARNATION: u64 = MARK | 1 << 60;
/// In this word: a part was taken up otherwise than it was saved.
const BROKEN: u64 = 1 << 59;

fn has_mark(word: u64) -> bool {
    word >> 61 == MARK >> 61
}

fn is_incarnation(word: u64) -> bool {
    word >> 60 == INCARNATION >> 60
}

/// The incarnation that a node is in; 0 if there has been no rollback.
pub(super) fn incarnation(words: &[u64]) -> u64 {
    words.iter().find(|word| is_incarnation(**word)).map_or(0, |word| word & !BROKEN)
}

/// A node has noted something.
pub(super) fn see(words: &mut Vec<u64>, note: &Note) {
    let part = MARK | u64::from(note.number) << PRINT | note.value & ((1 << PRINT) - 1);
    let of_part = |word: u64| (word >> PRINT & 0xffff) as u16;
    let is_part = |word: u64| has_mark(word) && !is_incarnation(word);
    match note.kind {
        SAVES => {
            words.retain(|word| !is_part(*word) || of_part(*word) != note.number);
            words.push(part);
            words.sort_unstable();
        }
        RESUMES => {
            let was = words.iter().find(|word| is_incarnation(**word)).copied().unwrap_or(0);
            let broken = if words.contains(&part) { was & BROKEN } else { BROKEN };
            let rollbacks = note.value >> PRINT & 0xffff;
            let now = INCARNATION | broken | rollbacks << 32 | u64::from(note.who.0);
            words.retain(|word| *word > u64::from(u16::MAX) && !is_incarnation(*word));
            words.push(now);
            words.sort_unstable();
        }
        _ => {}
    }
}

/// A node has gone back to something else than it had saved.
pub(super) fn otherwise(now: &dyn Now) -> Option<Fault> {
    let broken = |word: &u64| is_incarnation(*word) && word & BROKEN != 0;
    let node = (0..now.nodes()).map(NodeId).find(|node| now.noted(*node).iter().any(broken))?;
    Some(Fault { nodes: [node; 2], ..Fault::default() })
}

pub(super) fn otherwise_in_words(_: &dyn Now, fault: Fault) -> String {
    format!("{} went back to another state than its part of the snapshot says", fault.nodes[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(kind: u8, number: u16, value: u64) -> Note {
        Note { kind, number, who: NodeId(1), value }
    }

    fn after(notes: &[Note]) -> Vec<u64> {
        let mut words = vec![0, 3, 6, 1 << 62];
        notes.iter().for_each(|note| see(&mut words, note));
        assert!(words.is_sorted());
        words
    }

    #[test]
    fn a_node_goes_back_to_what_it_saved() {
        let saved = [note(SAVES, INITIAL, 70), note(SAVES, 3, 71), note(SAVES, 6, 72)];
        let resumed = |number, print| {
            let words =
                after(&[&saved[..], &[note(RESUMES, number, 1_u64 << PRINT | print)]].concat());
            assert_eq!(incarnation(&words), INCARNATION | 1 << 32 | 1);
            words.iter().any(|word| is_incarnation(*word) && word & BROKEN != 0)
        };
        assert!(!resumed(3, 71) && !resumed(INITIAL, 70));
        assert!(resumed(3, 72) && resumed(9, 71));
    }

    #[test]
    fn with_an_incarnation_a_node_has_recorded_for_no_snapshot_yet() {
        assert!(after(&[note(SAVES, 9, 7)]).starts_with(&[0, 3, 6]));
        let back = after(&[note(SAVES, 9, 7), note(RESUMES, 9, 7)]);
        assert!(back.iter().all(|word| *word > u64::from(u16::MAX)));
    }
}
