use conclave_protocol::{NodeId, Ranks};

/// Who takes whom for the leader when a run is over.
///
/// Kept in every run, traced or not: a run of a million nodes is judged by it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beliefs {
    ranks: Ranks,
    /// By node; empty as long as nobody has followed anybody.
    follows: Vec<Option<(NodeId, u64)>>,
    /// By node, whether it is up.
    live: Vec<bool>,
    /// By node, the part of the network it is in, while that is apart.
    groups: Option<Vec<u32>>,
}

impl Beliefs {
    pub(crate) fn new(ranks: Ranks) -> Self {
        Self { ranks, ..Self::default() }
    }

    pub(crate) fn follow(&mut self, node: NodeId, nodes: usize, leader: NodeId, epoch: u64) {
        self.follows.resize(nodes, None);
        self.follows[node.index()] = Some((leader, epoch));
    }

    /// A node that crashes, or has been told so, follows nobody any more.
    pub(crate) fn forget(&mut self, node: NodeId) {
        if let Some(follows) = self.follows.get_mut(node.index()) {
            *follows = None;
        }
    }

    pub(crate) fn at_end(mut self, live: Vec<bool>, groups: Option<Vec<u32>>) -> Self {
        self.follows.resize(live.len(), None);
        (self.live, self.groups) = (live, groups);
        self
    }

    /// The nodes that are up, ascending.
    pub fn live(&self) -> impl Iterator<Item = NodeId> + '_ {
        (0..).map(NodeId).zip(&self.live).filter(|(_, up)| **up).map(|(node, _)| node)
    }

    /// Whether `node` is up.
    pub fn is_live(&self, node: NodeId) -> bool {
        self.live.get(node.index()).is_some_and(|up| *up)
    }

    /// The best leader there could be.
    pub fn best(&self) -> Option<NodeId> {
        self.ranks.best(self.live())
    }

    /// Whom `node` follows, and in which term.
    pub fn leader_of(&self, node: NodeId) -> Option<(NodeId, u64)> {
        self.follows.get(node.index()).copied().flatten()
    }

    /// Every node that follows somebody, ascending, with whom and in which term.
    pub fn followers(&self) -> impl Iterator<Item = (NodeId, NodeId, u64)> + '_ {
        let each = (0..).map(NodeId).zip(&self.follows);
        each.filter_map(|(node, follows)| follows.map(|(leader, epoch)| (node, leader, epoch)))
    }

    /// The nodes that take themselves for a leader, ascending.
    pub fn leaders(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.followers().filter(|(node, leader, _)| node == leader).map(|(node, ..)| node)
    }

    /// The part of the network that `node` is in: 0 for all of them unless it is apart.
    pub fn group(&self, node: NodeId) -> u32 {
        self.groups.as_ref().map_or(0, |groups| groups[node.index()])
    }
}
