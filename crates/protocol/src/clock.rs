use std::fmt;

use serde::{Deserialize, Serialize};

use crate::NodeId;

/// Lamport's logical clock: the highest time this node has used or seen (`base/lamport-clock`).
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Lamport(u64);

impl Lamport {
    /// The time of a new local event or sending.
    pub fn tick(&mut self, me: NodeId) -> Stamp {
        self.0 += 1;
        Stamp { time: self.0, node: me }
    }

    /// Makes the next local event later than `stamp`.
    ///
    /// This is all that algorithms need whose requests always tick first; a clock that counts
    /// every event uses [`receive`](Self::receive).
    pub fn observe(&mut self, stamp: Stamp) {
        self.0 = self.0.max(stamp.time);
    }

    /// The time of receiving a message stamped `stamp`: Lamport's rule `max(c, t) + 1`.
    pub fn receive(&mut self, stamp: Stamp, me: NodeId) -> Stamp {
        self.observe(stamp);
        self.tick(me)
    }

    /// The present time, for a message that is no event of its own to put in order.
    pub fn now(self, me: NodeId) -> Stamp {
        Stamp { time: self.0, node: me }
    }

    /// The highest time used or seen.
    pub fn time(self) -> u64 {
        self.0
    }
}

/// A logical time made unique, and so totally ordered, by its node. The smaller is the older.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stamp {
    /// The logical time.
    pub time: u64,
    /// Whose clock gave it.
    pub node: NodeId,
}

impl Stamp {
    /// The stamp as one number in the same order: a fencing token for the request it stamps.
    ///
    /// Room for 2²⁰ nodes and 2⁴⁴ requests.
    pub fn token(self) -> u64 {
        debug_assert!(self.node.0 < 1 << 20, "a token has room for 2^20 nodes");
        self.time << 20 | u64::from(self.node.0)
    }

    /// The stamp that gave a [`token`](Self::token).
    pub fn of_token(token: u64) -> Self {
        Self { time: token >> 20, node: NodeId(token as u32 & ((1 << 20) - 1)) }
    }
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{:?}", self.time, self.node)
    }
}

/// How two events stand to each other (`base/happened-before`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Causality {
    /// They are the same event.
    Same,
    /// The first happened before the second.
    Before,
    /// The second happened before the first.
    After,
    /// Neither happened before the other.
    Concurrent,
}

/// A vector clock: how many events of each node are in an event's past, itself included
/// (`base/vector-clock`). Drivers tag events with it; algorithms that only compare requests need
/// no more than [`Lamport`].
#[derive(Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct VectorClock(Vec<u64>);

impl VectorClock {
    /// The clock of a node that has done nothing, among `n` nodes.
    pub fn new(n: usize) -> Self {
        Self(vec![0; n])
    }

    /// A local event or a sending at `me`.
    pub fn tick(&mut self, me: NodeId) {
        self.0[me.index()] += 1;
    }

    /// Receives a message stamped `other` at `me`: the componentwise maximum, then a tick.
    pub fn receive(&mut self, other: &Self, me: NodeId) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*theirs);
        }
        self.tick(me);
    }

    /// How the event stamped `self` stands to the one stamped `other`.
    pub fn compare(&self, other: &Self) -> Causality {
        let le = self.0.iter().zip(&other.0).all(|(a, b)| a <= b);
        let ge = self.0.iter().zip(&other.0).all(|(a, b)| a >= b);
        match (le, ge) {
            (true, true) => Causality::Same,
            (true, false) => Causality::Before,
            (false, true) => Causality::After,
            (false, false) => Causality::Concurrent,
        }
    }

    /// Whether the event stamped `self` happened before the one stamped `other`.
    pub fn before(&self, other: &Self) -> bool {
        self.compare(other) == Causality::Before
    }

    /// The components, one per node.
    pub fn as_slice(&self) -> &[u64] {
        &self.0
    }
}

impl fmt::Debug for VectorClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogues_replay_of_the_scalar_clock() {
        let (mut p0, mut p1) = (Lamport::default(), Lamport::default());
        let a = p0.tick(NodeId(0));
        let send = p0.tick(NodeId(0));
        let receive = p1.receive(send, NodeId(1));
        assert_eq!((a.time, send.time, receive.time), (1, 2, 3));
    }

    #[test]
    fn stamps_of_different_nodes_are_never_equal_and_tokens_keep_their_order() {
        let (a, b) = (Stamp { time: 1, node: NodeId(0) }, Stamp { time: 1, node: NodeId(2) });
        let c = Stamp { time: 2, node: NodeId(0) };
        assert!(a < b && b < c);
        assert!(a.token() < b.token() && b.token() < c.token());
    }

    #[test]
    fn vector_clocks_tell_order_from_concurrency() {
        let (mut p, mut q) = (VectorClock::new(2), VectorClock::new(2));
        p.tick(NodeId(0));
        let sent = p.clone();
        q.tick(NodeId(1));
        assert_eq!(sent.compare(&q), Causality::Concurrent);
        q.receive(&sent, NodeId(1));
        assert!(sent.before(&q));
        assert_eq!(q.compare(&sent), Causality::After);
        assert_eq!(q.as_slice(), [1, 2]);
    }
}
