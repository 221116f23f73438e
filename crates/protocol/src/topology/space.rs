use serde::{Deserialize, Serialize};

use super::TopologyError;
use crate::NodeId;

/// Where a node is, in thousandths of the unit of length. Shapes are made such that there is about
/// one node to a unit square, or cube.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Point(pub [i32; 3]);

impl Point {
    /// The unit of length.
    pub const UNIT: i32 = 1000;

    pub(super) fn of_cell(column: u32, row: u32) -> Self {
        Self([column as i32 * Self::UNIT, row as i32 * Self::UNIT, 0])
    }

    /// From `other` to here.
    pub fn from(self, other: Self) -> [i64; 3] {
        std::array::from_fn(|i| i64::from(self.0[i]) - i64::from(other.0[i]))
    }

    /// The square of the distance to `other`, exactly.
    pub fn distance_squared(self, other: Self) -> u64 {
        self.from(other).iter().map(|d| d.unsigned_abs().pow(2)).sum()
    }

    /// The distance to `other`, in units.
    pub fn distance(self, other: Self) -> f64 {
        (self.distance_squared(other) as f64).sqrt() / f64::from(Self::UNIT)
    }
}

/// The neighbours above, left, right and below of a node in a grid.
pub(super) fn beside(node: NodeId, width: u32, n: u32) -> [Option<NodeId>; 4] {
    let NodeId(me) = node;
    let column = me % width;
    [
        me.checked_sub(width),
        (column > 0).then(|| me - 1),
        (column + 1 < width && me + 1 < n).then(|| me + 1),
        (me + width < n).then_some(me + width),
    ]
    .map(|other| other.map(NodeId))
}

/// A ring of keys, each owned by the first node whose own key is not before it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeySpace {
    /// A key has so many.
    bits: u32,
    /// The key of each node, ascending.
    keys: Vec<u64>,
}

impl KeySpace {
    pub(super) fn new(bits: u32, keys: Vec<u64>) -> Result<Self, TopologyError> {
        let fits = |key: &u64| bits >= 64 || key >> bits == 0;
        let sound = (1..=64).contains(&bits)
            && keys.iter().all(fits)
            && keys.windows(2).all(|pair| pair[0] < pair[1]);
        if sound { Ok(Self { bits, keys }) } else { Err(TopologyError::BadKeys) }
    }

    /// Keys of 64 bits, spread as evenly as those of a hash.
    pub(super) fn scattered(n: u32) -> Self {
        // An odd multiplier makes them all different.
        let key = |i: u64| (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut keys: Vec<u64> = (0..u64::from(n)).map(key).collect();
        keys.sort_unstable();
        Self { bits: 64, keys }
    }

    /// How many bits a key has.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// The key of each node, ascending.
    pub fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// The key of `node`.
    pub fn key(&self, node: NodeId) -> u64 {
        self.keys[node.index()]
    }

    /// Who owns `key`: the first node whose own is not before it, on a ring.
    pub fn owner(&self, key: u64) -> NodeId {
        let at = self.keys.partition_point(|&own| own < key);
        NodeId(if at == self.keys.len() { 0 } else { at as u32 })
    }
}
