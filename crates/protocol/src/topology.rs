use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::NodeId;

/// Who exists, and who has a link to whom.
///
/// The regular shapes are computed, not stored, so that a ring of a million nodes costs nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct Topology {
    n: u32,
    shape: Shape,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Shape {
    Complete,
    Ring,
    Line,
    Star,
    Binary,
    /// The parent of each node but 0, which is the root. A parent has a smaller id.
    Tree(Vec<NodeId>),
    /// The neighbours of each node, ascending.
    Graph(Vec<Vec<NodeId>>),
}

/// A topology as it is read, by nobody knows whom written.
#[derive(Deserialize)]
struct Written {
    n: u32,
    shape: Shape,
}

impl TryFrom<Written> for Topology {
    type Error = TopologyError;

    fn try_from(Written { n, shape }: Written) -> Result<Self, TopologyError> {
        let read = match &shape {
            Shape::Tree(parents) => Self::tree(parents.clone())?,
            Shape::Graph(neighbors) => {
                let links = (0..).map(NodeId).zip(neighbors);
                let links: Vec<_> =
                    links.flat_map(|(a, to)| to.iter().map(move |&b| (a, b))).collect();
                Self::graph(n, &links)?
            }
            _ => Self { n, shape: shape.clone() },
        };
        match read.n {
            0 => Err(TopologyError::Empty),
            n if n > Self::MOST_NODES => Err(TopologyError::TooLarge(n)),
            _ if read != (Self { n, shape }) => Err(TopologyError::Contradictory),
            _ => Ok(read),
        }
    }
}

/// Why there is no such topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopologyError {
    /// There has to be at least one node.
    Empty,
    /// There is room for [`Topology::MOST_NODES`].
    TooLarge(u32),
    /// The number of nodes is not that of the links, or a link is missing in one direction.
    Contradictory,
    /// No shape has this name.
    UnknownShape(String),
    /// A tree's parent must have a smaller id than its child.
    BadParent(NodeId),
    /// A link leads to a node that does not exist, or to its own start.
    BadLink(NodeId, NodeId),
    /// Some node cannot be reached.
    Disconnected(NodeId),
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a system needs at least one node"),
            Self::TooLarge(n) => {
                write!(f, "{n} nodes are too many; there can be {}", Topology::MOST_NODES)
            }
            Self::Contradictory => f.write_str("the topology contradicts itself"),
            Self::UnknownShape(name) => write!(
                f,
                "no topology is called {name:?}; there are {}",
                Topology::SHAPES.map(|(name, _)| name).join(", ")
            ),
            Self::BadParent(node) => {
                write!(f, "{node} needs a parent with a smaller id than its own")
            }
            Self::BadLink(a, b) => write!(f, "there can be no link from {a} to {b}"),
            Self::Disconnected(node) => write!(f, "{node} cannot be reached from p0"),
        }
    }
}

impl std::error::Error for TopologyError {}

impl Topology {
    /// A system has at most so many nodes: what [`Stamp::token`](crate::Stamp::token) has room for.
    pub const MOST_NODES: u32 = 1 << 20;

    /// The shapes that [`named`](Self::named) knows, with a word on each.
    pub const SHAPES: [(&str, &str); 5] = [
        ("complete", "every node linked with every other"),
        ("ring", "every node sends to the next"),
        ("line", "a straight line, the worst tree"),
        ("star", "node 0 in the middle"),
        ("binary", "a balanced binary tree rooted at node 0"),
    ];

    /// The shape called `name`, of `n` nodes.
    pub fn named(name: &str, n: u32) -> Result<Self, TopologyError> {
        let shape = match name {
            "complete" => Shape::Complete,
            "ring" => Shape::Ring,
            "line" => Shape::Line,
            "star" => Shape::Star,
            "binary" => Shape::Binary,
            _ => return Err(TopologyError::UnknownShape(name.to_owned())),
        };
        match n {
            0 => Err(TopologyError::Empty),
            1..=Self::MOST_NODES => Ok(Self { n, shape }),
            _ => Err(TopologyError::TooLarge(n)),
        }
    }

    /// Every node linked with every other.
    pub fn complete(n: u32) -> Self {
        Self { n, shape: Shape::Complete }
    }

    /// A ring on which each node sends to the next.
    pub fn ring(n: u32) -> Self {
        Self { n, shape: Shape::Ring }
    }

    /// Node 0 at one end, node `n` − 1 at the other.
    pub fn line(n: u32) -> Self {
        Self { n, shape: Shape::Line }
    }

    /// Node 0 in the middle of all others.
    pub fn star(n: u32) -> Self {
        Self { n, shape: Shape::Star }
    }

    /// A balanced binary tree rooted at node 0.
    pub fn binary(n: u32) -> Self {
        Self { n, shape: Shape::Binary }
    }

    /// A tree rooted at node 0; `parents[i]` is the parent of node `i + 1`.
    pub fn tree(parents: Vec<NodeId>) -> Result<Self, TopologyError> {
        for (child, &parent) in (1..).map(NodeId).zip(&parents) {
            if parent >= child {
                return Err(TopologyError::BadParent(child));
            }
        }
        Ok(Self { n: parents.len() as u32 + 1, shape: Shape::Tree(parents) })
    }

    /// A connected graph of `n` nodes with the given links, each in both directions.
    pub fn graph(n: u32, links: &[(NodeId, NodeId)]) -> Result<Self, TopologyError> {
        if n == 0 {
            return Err(TopologyError::Empty);
        }
        if n > Self::MOST_NODES {
            return Err(TopologyError::TooLarge(n));
        }
        let mut neighbors = vec![BTreeSet::new(); n as usize];
        for &(a, b) in links {
            if a == b || a.0 >= n || b.0 >= n {
                return Err(TopologyError::BadLink(a, b));
            }
            neighbors[a.index()].insert(b);
            neighbors[b.index()].insert(a);
        }
        let neighbors = neighbors.into_iter().map(|set| set.into_iter().collect()).collect();
        let graph = Self { n, shape: Shape::Graph(neighbors) };
        match graph.distances(NodeId(0)).iter().position(|&d| d == u32::MAX) {
            Some(lost) => Err(TopologyError::Disconnected(NodeId(lost as u32))),
            None => Ok(graph),
        }
    }

    /// The name of the shape.
    pub fn shape(&self) -> &'static str {
        match self.shape {
            Shape::Complete => "complete",
            Shape::Ring => "ring",
            Shape::Line => "line",
            Shape::Star => "star",
            Shape::Binary => "binary",
            Shape::Tree(_) => "tree",
            Shape::Graph(_) => "graph",
        }
    }

    /// How many nodes there are.
    pub fn len(&self) -> u32 {
        self.n
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Every node, ascending.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.n).map(NodeId)
    }

    /// Whether every node has a link with every other.
    pub fn is_complete(&self) -> bool {
        matches!(self.shape, Shape::Complete) || self.n <= 1
    }

    /// Whether the links form a tree.
    pub fn is_tree(&self) -> bool {
        match &self.shape {
            Shape::Line | Shape::Star | Shape::Binary | Shape::Tree(_) => true,
            Shape::Complete | Shape::Ring | Shape::Graph(_) => self.n <= 1,
        }
    }

    /// The nodes that `node` can send to, ascending.
    pub fn neighbors(&self, node: NodeId) -> impl Iterator<Item = NodeId> + use<'_> {
        let (NodeId(me), n) = (node, self.n);
        let (range, listed): (_, &[NodeId]) = match &self.shape {
            Shape::Complete => (0..n, &[]),
            Shape::Ring => {
                let next = (me + 1) % n;
                (next..next + 1, &[])
            }
            Shape::Line => (me.saturating_sub(1)..(me + 2).min(n), &[]),
            Shape::Star if me == 0 => (1..n, &[]),
            Shape::Star => (0..1, &[]),
            Shape::Binary => ((2 * me + 1).min(n)..(2 * me + 3).min(n), &[]),
            Shape::Tree(_) => (me + 1..n, &[]),
            Shape::Graph(neighbors) => (0..0, &neighbors[node.index()]),
        };
        let up = match self.shape {
            Shape::Binary | Shape::Tree(_) => self.parent(node),
            _ => None,
        };
        let own_child = move |&other: &NodeId| match &self.shape {
            Shape::Tree(parents) => parents[other.index() - 1] == node,
            _ => other != node,
        };
        up.into_iter().chain(range.map(NodeId).filter(own_child)).chain(listed.iter().copied())
    }

    /// Whether `from` can send to `to`.
    pub fn linked(&self, from: NodeId, to: NodeId) -> bool {
        match &self.shape {
            Shape::Complete => from != to,
            Shape::Ring => self.successor(from) == to,
            Shape::Graph(neighbors) => neighbors[from.index()].binary_search(&to).is_ok(),
            _ => self.parent(from) == Some(to) || self.parent(to) == Some(from),
        }
    }

    /// The next node on the ring of ids.
    pub fn successor(&self, node: NodeId) -> NodeId {
        NodeId(if node.0 + 1 == self.n { 0 } else { node.0 + 1 })
    }

    /// The parent of `node` in a tree rooted at node 0.
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        if node.0 == 0 {
            return None;
        }
        match &self.shape {
            Shape::Line => Some(NodeId(node.0 - 1)),
            Shape::Star => Some(NodeId(0)),
            Shape::Binary => Some(NodeId((node.0 - 1) / 2)),
            Shape::Tree(parents) => Some(parents[node.index() - 1]),
            Shape::Complete | Shape::Ring | Shape::Graph(_) => None,
        }
    }

    /// In a tree, the neighbour of `from` on the way to `to`; `None` if they are the same.
    pub fn next_hop(&self, from: NodeId, to: NodeId) -> Option<NodeId> {
        debug_assert!(self.is_tree(), "only a tree has one way from node to node");
        if from == to {
            return None;
        }
        // Ids grow downwards, so climbing from `to` meets `from` or passes it by.
        let mut below = to;
        while below > from {
            match self.parent(below) {
                Some(up) if up == from => return Some(below),
                Some(up) => below = up,
                None => break,
            }
        }
        self.parent(from)
    }

    /// How many links lie between `from` and every other node; `u32::MAX` if there is no way.
    pub fn distances(&self, from: NodeId) -> Vec<u32> {
        let mut distances = vec![u32::MAX; self.n as usize];
        distances[from.index()] = 0;
        let mut reached = vec![from];
        let mut next = 0;
        while let Some(&node) = reached.get(next) {
            next += 1;
            for neighbor in self.neighbors(node) {
                if distances[neighbor.index()] == u32::MAX {
                    distances[neighbor.index()] = distances[node.index()] + 1;
                    reached.push(neighbor);
                }
            }
        }
        distances
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.shape(), self.n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn neighbors(topology: &Topology, node: u32) -> Vec<u32> {
        topology.neighbors(NodeId(node)).map(|node| node.0).collect()
    }

    #[test]
    fn shapes_have_the_neighbours_one_expects() {
        assert_eq!(neighbors(&Topology::complete(4), 1), [0, 2, 3]);
        assert_eq!(neighbors(&Topology::ring(4), 3), [0]);
        assert_eq!(neighbors(&Topology::line(4), 0), [1]);
        assert_eq!(neighbors(&Topology::line(4), 2), [1, 3]);
        assert_eq!(neighbors(&Topology::star(4), 0), [1, 2, 3]);
        assert_eq!(neighbors(&Topology::star(4), 3), [0]);
        assert_eq!(neighbors(&Topology::binary(6), 2), [0, 5]);
        let tree = Topology::tree([0, 0, 2, 2].map(NodeId).to_vec()).unwrap();
        assert_eq!(neighbors(&tree, 2), [0, 3, 4]);
        let graph = Topology::graph(3, &[(NodeId(0), NodeId(2)), (NodeId(2), NodeId(1))]).unwrap();
        assert_eq!(neighbors(&graph, 2), [0, 1]);
    }

    #[test]
    fn links_are_those_between_neighbours() {
        let tree = Topology::tree([0, 0, 2, 2].map(NodeId).to_vec()).unwrap();
        let graph = Topology::graph(3, &[(NodeId(0), NodeId(2)), (NodeId(2), NodeId(1))]).unwrap();
        let shapes = [Topology::complete(5), Topology::ring(5), Topology::binary(7), tree, graph];
        for shape in shapes.iter().chain(&[Topology::line(5), Topology::star(5)]) {
            for a in shape.nodes() {
                let linked = shape.nodes().filter(|&b| a != b && shape.linked(a, b));
                assert!(linked.eq(shape.neighbors(a)), "{shape} at {a}");
            }
        }
    }

    #[test]
    fn next_hops_lead_along_the_tree() {
        for tree in [Topology::line(9), Topology::star(9), Topology::binary(9)] {
            for from in tree.nodes() {
                let distances = tree.distances(from);
                for to in tree.nodes() {
                    let (mut at, mut hops) = (from, 0);
                    while let Some(next) = tree.next_hop(at, to) {
                        assert!(tree.linked(at, next));
                        (at, hops) = (next, hops + 1);
                    }
                    assert_eq!((at, hops), (to, distances[to.index()]));
                }
            }
        }
    }

    #[test]
    fn impossible_topologies_are_refused() {
        assert_eq!(Topology::named("ring", 0), Err(TopologyError::Empty));
        let many = Topology::MOST_NODES + 1;
        assert_eq!(Topology::named("ring", many), Err(TopologyError::TooLarge(many)));
        assert!(Topology::named("torus", 3).unwrap_err().to_string().contains("complete, ring"));
        assert_eq!(Topology::tree(vec![NodeId(1)]), Err(TopologyError::BadParent(NodeId(1))));
        let lonely = Topology::graph(3, &[(NodeId(0), NodeId(1))]);
        assert_eq!(lonely, Err(TopologyError::Disconnected(NodeId(2))));
        let loose = Topology::graph(2, &[(NodeId(0), NodeId(7))]);
        assert_eq!(loose, Err(TopologyError::BadLink(NodeId(0), NodeId(7))));
    }

    #[test]
    fn what_is_read_is_checked() {
        let read = |n, shape| Topology::try_from(Written { n, shape });
        let parents = |ids: &[u32]| Shape::Tree(ids.iter().copied().map(NodeId).collect());
        assert_eq!(read(3, parents(&[0, 1])), Topology::tree(vec![NodeId(0), NodeId(1)]));
        assert_eq!(read(3, parents(&[5, 9])), Err(TopologyError::BadParent(NodeId(1))));
        assert_eq!(read(4, parents(&[0, 1])), Err(TopologyError::Contradictory));
        assert_eq!(read(0, Shape::Ring), Err(TopologyError::Empty));
        assert_eq!(read(u32::MAX, Shape::Line), Err(TopologyError::TooLarge(u32::MAX)));
        let pair = Shape::Graph(vec![vec![NodeId(1)], vec![NodeId(0)]]);
        assert_eq!(read(2, pair), Topology::graph(2, &[(NodeId(0), NodeId(1))]));
        let one_way = Shape::Graph(vec![vec![NodeId(1)], vec![]]);
        assert_eq!(read(2, one_way), Err(TopologyError::Contradictory));
        let loose = Shape::Graph(vec![vec![NodeId(7)], vec![]]);
        assert_eq!(read(2, loose), Err(TopologyError::BadLink(NodeId(0), NodeId(7))));
    }
}
