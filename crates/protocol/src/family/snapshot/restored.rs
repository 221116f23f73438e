//! Whether a node that comes back after a crash is restored.
//!
//! After each input that it uses, a node notes how many it has used and a fingerprint of its state.
//! What it noted last before a crash is remembered here, as the node itself cannot say it any more.
//! A node that is restored notes the same of each state that it goes through: the one in which it
//! crashed has to be among them.

use super::{BACK, RESTORED, USES, USES_AGAIN};
use crate::{Fault, NodeId, Note, Now};

/// The mark of the word that says how many inputs a node has used, and how it stands.
const STANDS: u64 = 1 << 62;
/// That of the word with the fingerprint of its state.
const STATE: u64 = 1 << 62 | 1 << 61;
/// Of a fingerprint, so many bits are kept.
const KEPT: u64 = (1 << 61) - 1;

/// What is remembered of a node.
#[derive(Clone, Copy)]
struct Memory {
    standing: u64,
    /// How many inputs it has used, but for multiples of 65,536.
    used: u64,
    state: u64,
}

/// It goes on.
const GOES_ON: u64 = 0;
/// It has come back, and is not in the state that it crashed in …
const IS_BACK: u64 = 1;
/// … or has been in it.
const HAS_BEEN: u64 = 2;
/// It has used as many inputs again, and is in another state.
const DIFFERS: u64 = 3;
/// It goes on, and has not used as many inputs again.
const FALLS_SHORT: u64 = 4;

impl Memory {
    fn of(words: &[u64]) -> Option<Self> {
        let stands = words.iter().find(|word| *word & STATE == STANDS && **word >> 63 == 0)?;
        let state = words.iter().find(|word| *word >> 61 == STATE >> 61)? & KEPT;
        Some(Self { standing: stands >> 16 & 0xff, used: stands & 0xffff, state })
    }

    /// Words are in ascending order, and there is one with each mark.
    fn put(self, words: &mut Vec<u64>) {
        words.retain(|word| word & STANDS == 0);
        let new = [STANDS | self.standing << 16 | self.used, STATE | self.state];
        words.extend(new);
        words.sort_unstable();
    }
}

/// A node has noted something.
pub(super) fn see(words: &mut Vec<u64>, note: &Note) {
    let (used, state) = (u64::from(note.number), note.value & KEPT);
    let known = Memory::of(words);
    let next = match (note.kind, known) {
        (_, Some(Memory { standing: DIFFERS | FALLS_SHORT, .. })) => return,
        (USES, _) => Memory { standing: GOES_ON, used, state },
        (BACK, Some(known)) => Memory { standing: IS_BACK, ..known },
        (USES_AGAIN, Some(known)) => match known.standing {
            IS_BACK if used == known.used => {
                let same = state == known.state;
                Memory { standing: if same { HAS_BEEN } else { DIFFERS }, ..known }
            }
            // What was recorded and had not been used.
            HAS_BEEN => Memory { used, state, ..known },
            _ => return,
        },
        (RESTORED, Some(known)) => {
            let fails = known.standing == IS_BACK;
            Memory { standing: if fails { FALLS_SHORT } else { GOES_ON }, ..known }
        }
        _ => return,
    };
    next.put(words);
}

fn standing(now: &dyn Now, node: NodeId) -> u64 {
    Memory::of(now.noted(node)).map_or(GOES_ON, |memory| memory.standing)
}

/// A node has come back in another state than it crashed in.
pub(super) fn changed(now: &dyn Now) -> Option<Fault> {
    (0..now.nodes()).map(NodeId).find_map(|node| {
        let memory = Memory::of(now.noted(node))?;
        let broken = matches!(memory.standing, DIFFERS | FALLS_SHORT);
        broken.then_some(Fault { nodes: [node; 2], numbers: [memory.used, memory.standing] })
    })
}

pub(super) fn changed_in_words(_: &dyn Now, fault: Fault) -> String {
    let ([node, _], [used, standing]) = (fault.nodes, fault.numbers);
    match standing {
        DIFFERS => format!(
            "{node} crashed when it had used {used} inputs, and has used as many again and is in \
             another state"
        ),
        _ => format!(
            "{node} crashed when it had used {used} inputs, and goes on in a state in which it \
             has used fewer"
        ),
    }
}

/// A node that has come back is not restored yet.
pub(super) fn waiting(now: &dyn Now) -> Option<Fault> {
    let node = now.up().find(|node| standing(now, node) == IS_BACK)?;
    Some(Fault { nodes: [node; 2], ..Fault::default() })
}

pub(super) fn waiting_in_words(_: &dyn Now, fault: Fault) -> String {
    format!("{} has come back after a crash and is never restored", fault.nodes[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(notes: &[(u8, u16, u64)]) -> u64 {
        let mut words = vec![3, 1 << 63];
        for &(kind, number, value) in notes {
            see(&mut words, &Note { kind, number, value, ..Note::default() });
            assert!(words.is_sorted() && words.len() <= 4, "{words:?}");
        }
        Memory::of(&words).map_or(GOES_ON, |memory| memory.standing)
    }

    #[test]
    fn a_node_is_restored_if_it_goes_through_the_state_it_crashed_in() {
        let before = [(USES, 0, 70), (USES, 1, 71), (USES, 2, 72), (BACK, 0, 0)];
        let with = |more: &[(u8, u16, u64)]| after(&[&before[..], more].concat());
        assert_eq!(with(&[]), IS_BACK);
        assert_eq!(with(&[(USES_AGAIN, 1, 71), (USES_AGAIN, 2, 72)]), HAS_BEEN);
        let all = [(USES_AGAIN, 1, 71), (USES_AGAIN, 2, 72), (USES_AGAIN, 3, 73), (RESTORED, 0, 0)];
        assert_eq!(with(&all), GOES_ON);
        assert_eq!(with(&[(USES_AGAIN, 1, 71), (RESTORED, 0, 0)]), FALLS_SHORT);
        assert_eq!(with(&[(USES_AGAIN, 1, 79), (USES_AGAIN, 2, 79)]), DIFFERS);
        let again = [(BACK, 0, 0), (USES_AGAIN, 2, 72), (RESTORED, 0, 0)];
        assert_eq!(with(&[&all[..], &again].concat()), FALLS_SHORT, "the third input is lost");
    }
}
