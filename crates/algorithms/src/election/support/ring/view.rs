//! Who belongs to a ring that nodes join and leave.

use std::collections::BTreeMap;

use conclave_protocol::NodeId;
use serde::{Deserialize, Serialize};

/// How often each node has joined or left.
///
/// Two views are merged by taking the later word on each node, so that those of two sponsors that let
/// a node in at the same time become one, whichever comes first.
#[derive(Clone, Default, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct View {
    /// Those who never have are not listed.
    changes: BTreeMap<NodeId, u64>,
}

impl View {
    /// `node` joins or leaves.
    pub fn change(&mut self, node: NodeId) {
        *self.changes.entry(node).or_default() += 1;
    }

    /// Whether `node` is where it was not at first.
    pub fn has_changed(&self, node: NodeId) -> bool {
        self.changes.get(&node).is_some_and(|times| times % 2 == 1)
    }

    /// The number of the view: it grows with every change.
    pub fn version(&self) -> u64 {
        self.changes.values().sum()
    }

    /// Takes over what `other` knows and this view does not; says whether that was anything.
    pub fn merge(&mut self, other: &Self) -> bool {
        let before = self.version();
        for (node, times) in &other.changes {
            let own = self.changes.entry(*node).or_default();
            *own = (*own).max(*times);
        }
        self.version() > before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_merge_in_any_order() {
        let [mut a, mut b] = [View::default(), View::default()];
        a.change(NodeId(3));
        b.change(NodeId(4));
        b.change(NodeId(4));
        let (mut ab, mut ba) = (a.clone(), b.clone());
        assert!(ab.merge(&b) && ba.merge(&a));
        assert_eq!(ab, ba);
        assert!(!ab.merge(&a), "nothing new");
        assert_eq!(ab.version(), 3);
        assert!(ab.has_changed(NodeId(3)) && !ab.has_changed(NodeId(4)));
    }
}
