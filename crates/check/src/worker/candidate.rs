//! Ways out of a state, and how states and events are known for short.

use crate::space::LocalEvent;

/// A way out of a state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    /// The fingerprint of the state it leads to.
    pub(crate) print: u64,
    /// What happens at a node, if it is an event there.
    pub(crate) local_event: Option<LocalEvent>,
    pub(crate) mv: Move,
    /// The step of the node that moves, if one does.
    pub(crate) step: u32,
    /// The first of the slots that change, among all changes.
    pub(crate) first_change: u32,
    /// The state it leads from, as the caller numbers them.
    pub(crate) source: u32,
    /// The number of the event.
    pub(crate) event: u16,
    pub(crate) changes: u8,
    pub(crate) node: u8,
    /// After so many messages the node crashes.
    pub(crate) cut: u8,
    pub(crate) flags: u8,
}

/// It has to happen, if it may for ever.
pub(crate) const FAIR: u8 = 1;
/// It is not compared with other events.
pub(crate) const ALONE: u8 = 2;
/// It changes what is at no node.
pub(crate) const TOUCHES: u8 = 4;
/// It may change whether a property of states holds.
pub(crate) const TELLS: u8 = 8;
/// The step is carried out in full.
pub(crate) const WHOLE: u8 = u8::MAX;
/// No step.
pub(crate) const NO_STEP: u32 = u32::MAX;

/// What happens next. Nodes and links by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// Something at a node that is no message: the application asks, a timer runs out, the node
    /// boots or is told something.
    Own {
        node: u8,
    },
    /// A message arrives.
    Deliver {
        link: u8,
        envelope: u32,
    },
    /// A message comes to a node that is down, or to a gap in the network.
    Vanish {
        link: u8,
        envelope: u32,
    },
    Lose {
        link: u8,
        envelope: u32,
    },
    Repeat {
        link: u8,
        envelope: u32,
    },
    Crash {
        node: u8,
    },
    Partition {
        apart: u32,
    },
    Heal,
}

/// So many events are compared with each other; the rest never are.
pub(crate) const COMPARED: usize = 63;

/// Stands for all events that are not compared.
pub(crate) const REST: u64 = 1 << COMPARED;

/// The bit of an event among those that are compared.
#[inline]
pub(crate) fn bit(event: u16) -> u64 {
    if usize::from(event) < COMPARED { 1 << event } else { 0 }
}

/// How much a part contributes to the fingerprint: an even spread of all bits.
#[inline(always)]
pub(crate) fn spread(slot: usize, id: u32) -> u64 {
    let mut x = (slot as u64) << 32 | u64::from(id);
    x = (x ^ 0x6a09_e667_f3bc_c908).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 32;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ x >> 29
}

/// The fingerprint of a state.
pub(crate) fn fingerprint(state: &[u32]) -> u64 {
    state.iter().enumerate().fold(0, |print, (slot, &id)| print ^ spread(slot, id))
}
