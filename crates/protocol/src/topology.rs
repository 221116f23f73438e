mod space;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use self::space::{KeySpace, Point};
use crate::{Links, NodeId};

/// Who exists, and who has a link to whom.
///
/// The regular shapes are computed, not stored, so that a ring of a million nodes costs nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct Topology {
    n: u32,
    shape: Shape,
    /// Where each node of a graph is; empty if that does not matter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    points: Vec<Point>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Shape {
    Complete,
    Ring,
    Line,
    Star,
    Binary,
    /// A rectangle of rows so many nodes wide; the last may be shorter.
    Grid(u32),
    Tree(Tree),
    /// The neighbours of each node, ascending.
    Graph(Vec<Vec<NodeId>>),
    /// The nodes that each node can send to, ascending; a link back is a link of its own.
    Digraph(Vec<Vec<NodeId>>),
    Dht(KeySpace),
}

/// Who is whose parent. Node 0 is the root, and a parent has a smaller id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "Vec<NodeId>", into = "Vec<NodeId>")]
struct Tree {
    /// Of each node but 0.
    parents: Vec<NodeId>,
    /// Of each node, ascending.
    children: Vec<Vec<NodeId>>,
}

impl From<Vec<NodeId>> for Tree {
    fn from(parents: Vec<NodeId>) -> Self {
        let mut children = vec![Vec::new(); parents.len() + 1];
        for (child, parent) in (1..).map(NodeId).zip(&parents) {
            // A parent that does not exist is refused by the validation that follows.
            if let Some(siblings) = children.get_mut(parent.index()) {
                siblings.push(child);
            }
        }
        Self { parents, children }
    }
}

impl From<Tree> for Vec<NodeId> {
    fn from(tree: Tree) -> Self {
        tree.parents
    }
}

/// A deserialized topology, not yet validated.
#[derive(Deserialize)]
struct Written {
    n: u32,
    shape: Shape,
    #[serde(default)]
    points: Vec<Point>,
}

impl TryFrom<Written> for Topology {
    type Error = TopologyError;

    fn try_from(Written { n, shape, points }: Written) -> Result<Self, TopologyError> {
        let read = match &shape {
            Shape::Tree(tree) => Self::tree(tree.parents.clone())?,
            Shape::Graph(neighbors) => {
                let graph = Self::graph(n, &listed(neighbors))?;
                if points.is_empty() { graph } else { graph.placed(points.clone())? }
            }
            Shape::Digraph(successors) => Self::digraph(n, &listed(successors))?,
            Shape::Dht(space) => Self::dht(space.bits(), space.keys().to_vec())?,
            Shape::Grid(_) if n > 0 => Self::grid(n),
            _ => Self::shaped(n, shape.clone()),
        };
        match read.n {
            0 => Err(TopologyError::Empty),
            n if n > Self::MOST_NODES => Err(TopologyError::TooLarge(n)),
            _ if read != (Self { n, shape, points }) => Err(TopologyError::Contradictory),
            _ => Ok(read),
        }
    }
}

/// The links of lists of neighbours.
fn listed(neighbors: &[Vec<NodeId>]) -> Vec<(NodeId, NodeId)> {
    let lists = (0..).map(NodeId).zip(neighbors);
    lists.flat_map(|(a, to)| to.iter().map(move |&b| (a, b))).collect()
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
    /// Every node needs a place, or none.
    BadPlaces(usize),
    /// Keys must be ascending, all different, and fit into the bits there are.
    BadKeys,
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
            Self::BadPlaces(many) => write!(f, "there are {many} places, and not one for each"),
            Self::BadKeys => f.write_str("keys have to ascend, and to fit into their bits"),
        }
    }
}

impl std::error::Error for TopologyError {}

impl Topology {
    /// A system has at most so many nodes: what [`Stamp::token`](crate::Stamp::token) has room for.
    pub const MOST_NODES: u32 = 1 << 20;

    /// The shapes that [`named`](Self::named) knows, with a word on each.
    pub const SHAPES: [(&str, &str); 7] = [
        ("complete", "every node linked with every other"),
        ("ring", "every node sends to the next"),
        ("chain", "every node but the last sends to the next, and nothing comes back"),
        ("line", "a straight line, the worst tree"),
        ("star", "node 0 in the middle"),
        ("binary", "a balanced binary tree rooted at node 0"),
        ("grid", "a square of rows and columns"),
    ];

    /// The shape called `name`, of `n` nodes.
    pub fn named(name: &str, n: u32) -> Result<Self, TopologyError> {
        let shape = match name {
            "complete" => Shape::Complete,
            "ring" => Shape::Ring,
            "line" => Shape::Line,
            "star" => Shape::Star,
            "binary" => Shape::Binary,
            "chain" => return Self::sized(n).map(Self::chain),
            "grid" => return Self::sized(n).map(Self::grid),
            _ => return Err(TopologyError::UnknownShape(name.to_owned())),
        };
        Ok(Self::shaped(Self::sized(n)?, shape))
    }

    fn shaped(n: u32, shape: Shape) -> Self {
        Self { n, shape, points: Vec::new() }
    }

    fn sized(n: u32) -> Result<u32, TopologyError> {
        match n {
            0 => Err(TopologyError::Empty),
            1..=Self::MOST_NODES => Ok(n),
            _ => Err(TopologyError::TooLarge(n)),
        }
    }

    /// The default topology of an algorithm that needs such links.
    pub fn of(links: Links, n: u32) -> Self {
        match links {
            Links::Complete | Links::Directed => Self::complete(n),
            Links::Ring => Self::ring(n),
            Links::Tree => Self::binary(n),
            Links::Graph | Links::Space => Self::grid(n),
            Links::Keys => Self::shaped(n, Shape::Dht(KeySpace::scattered(n))),
        }
    }

    /// Whether an algorithm that needs such links can run on it; if not, what it needs.
    pub fn suits(&self, links: Links) -> Result<(), &'static str> {
        let (fits, needs) = match links {
            Links::Complete => (self.is_complete(), "a complete topology"),
            Links::Ring => {
                (self.is_complete() || self.shape() == "ring", "a ring or a complete topology")
            }
            Links::Tree => (self.is_tree(), "a tree: line, star, binary or tree"),
            Links::Graph => {
                (!self.is_directed(), "links that lead both ways, as in a grid or a tree")
            }
            // Whether every node reaches every other is a matter of the model.
            Links::Directed => (true, ""),
            Links::Space => {
                (self.point(NodeId(0)).is_some(), "nodes with places: grid or geometric")
            }
            Links::Keys => (self.key_space().is_some(), "keys: dht"),
        };
        if fits { Ok(()) } else { Err(needs) }
    }

    /// Every node linked with every other.
    pub fn complete(n: u32) -> Self {
        Self::shaped(n, Shape::Complete)
    }

    /// A ring on which each node sends to the next.
    pub fn ring(n: u32) -> Self {
        Self::shaped(n, Shape::Ring)
    }

    /// Each node sends to the next, and none to the first: not every node reaches every other.
    pub fn chain(n: u32) -> Self {
        let links: Vec<_> = (1..n).map(|node| (NodeId(node - 1), NodeId(node))).collect();
        Self::digraph(n, &links).expect("it hangs together")
    }

    /// Node 0 at one end, node `n` − 1 at the other.
    pub fn line(n: u32) -> Self {
        Self::shaped(n, Shape::Line)
    }

    /// Node 0 in the middle of all others.
    pub fn star(n: u32) -> Self {
        Self::shaped(n, Shape::Star)
    }

    /// A balanced binary tree rooted at node 0.
    pub fn binary(n: u32) -> Self {
        Self::shaped(n, Shape::Binary)
    }

    /// Rows and columns, nearly as many of the ones as of the others.
    pub fn grid(n: u32) -> Self {
        let width = (1..).find(|width| width * width >= n).unwrap_or(1);
        Self::shaped(n, Shape::Grid(width))
    }

    /// Nodes that own keys of `bits` bits, ascending: node 0 has the first.
    pub fn dht(bits: u32, keys: Vec<u64>) -> Result<Self, TopologyError> {
        let n = Self::sized(u32::try_from(keys.len()).unwrap_or(u32::MAX))?;
        Ok(Self::shaped(n, Shape::Dht(KeySpace::new(bits, keys)?)))
    }

    /// A tree rooted at node 0; `parents[i]` is the parent of node `i + 1`.
    pub fn tree(parents: Vec<NodeId>) -> Result<Self, TopologyError> {
        for (child, &parent) in (1..).map(NodeId).zip(&parents) {
            if parent >= child {
                return Err(TopologyError::BadParent(child));
            }
        }
        Ok(Self::shaped(parents.len() as u32 + 1, Shape::Tree(parents.into())))
    }

    /// A connected graph of `n` nodes with the given links, each in both directions.
    pub fn graph(n: u32, links: &[(NodeId, NodeId)]) -> Result<Self, TopologyError> {
        let back = links.iter().map(|&(a, b)| (b, a));
        let both: Vec<_> = links.iter().copied().chain(back).collect();
        let graph = Self::shaped(n, Shape::Graph(Self::successors(n, &both)?));
        match graph.unreached() {
            Some(lost) => Err(TopologyError::Disconnected(lost)),
            None => Ok(graph),
        }
    }

    /// A graph of `n` nodes whose links lead in the given directions only. It has to hang
    /// together, but [not every node](Self::is_strongly_connected) need reach every other.
    pub fn digraph(n: u32, links: &[(NodeId, NodeId)]) -> Result<Self, TopologyError> {
        let successors = Self::successors(n, links)?;
        Self::graph(n, links)?;
        Ok(Self::shaped(n, Shape::Digraph(successors)))
    }

    /// The nodes that each of `n` nodes can send to by these links, ascending.
    fn successors(n: u32, links: &[(NodeId, NodeId)]) -> Result<Vec<Vec<NodeId>>, TopologyError> {
        let n = Self::sized(n)?;
        let mut successors = vec![Vec::new(); n as usize];
        for &(a, b) in links {
            if a == b || a.0 >= n || b.0 >= n {
                return Err(TopologyError::BadLink(a, b));
            }
            successors[a.index()].push(b);
        }
        for list in &mut successors {
            list.sort_unstable();
            list.dedup();
        }
        Ok(successors)
    }

    /// A node that node 0 cannot reach.
    fn unreached(&self) -> Option<NodeId> {
        let distances = self.distances(NodeId(0));
        distances.iter().position(|&d| d == u32::MAX).map(|lost| NodeId(lost as u32))
    }

    /// The same graph with a place for each node. Other shapes have no places, or their own.
    pub fn placed(mut self, places: Vec<Point>) -> Result<Self, TopologyError> {
        match self.shape {
            Shape::Graph(_) if places.len() == self.n as usize => {
                self.points = places;
                Ok(self)
            }
            _ => Err(TopologyError::BadPlaces(places.len())),
        }
    }

    /// Where `node` is, if nodes are somewhere.
    pub fn point(&self, node: NodeId) -> Option<Point> {
        match &self.shape {
            Shape::Grid(width) => Some(Point::of_cell(node.0 % width, node.0 / width)),
            _ => self.points.get(node.index()).copied(),
        }
    }

    /// How far apart `count` nodes would be that lie evenly where all are, in units of length: each
    /// has a square to itself, or a cube if places differ in the third coordinate, too.
    pub fn even_spacing(&self, count: u32) -> f64 {
        let deep = self.nodes().any(|node| self.point(node).is_some_and(|it| it.0[2] != 0));
        // There is a node to each unit of space.
        let share = f64::from(self.n) / f64::from(count.max(1));
        if deep { share.cbrt() } else { share.sqrt() }
    }

    /// Who owns which keys, if there are keys.
    pub fn key_space(&self) -> Option<&KeySpace> {
        match &self.shape {
            Shape::Dht(space) => Some(space),
            _ => None,
        }
    }

    /// How many links there are, each counted once.
    pub fn links(&self) -> u64 {
        let ways: u64 = self.nodes().map(|node| self.neighbors(node).count() as u64).sum();
        if self.is_directed() { ways } else { ways / 2 }
    }

    /// How many links there are, each direction counted: those of a node to itself aside.
    pub fn channels(&self) -> u64 {
        let n = u64::from(self.n);
        match &self.shape {
            Shape::Complete | Shape::Dht(_) => n * n.saturating_sub(1),
            Shape::Ring if n > 1 => n,
            Shape::Ring => 0,
            Shape::Line | Shape::Star | Shape::Binary | Shape::Tree(_) => 2 * n.saturating_sub(1),
            Shape::Grid(_) | Shape::Graph(_) | Shape::Digraph(_) => {
                self.nodes().map(|node| self.neighbors(node).count() as u64).sum()
            }
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
            Shape::Grid(_) => "grid",
            Shape::Graph(_) => "graph",
            Shape::Digraph(_) => "digraph",
            Shape::Dht(_) => "dht",
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
        // In a hash table a node can reach every node whose key it knows.
        matches!(self.shape, Shape::Complete | Shape::Dht(_)) || self.n <= 1
    }

    /// Whether links lead in one direction: a link back is a link of its own.
    pub fn is_directed(&self) -> bool {
        matches!(self.shape, Shape::Ring | Shape::Digraph(_))
    }

    /// Whether every node can reach every other along the links.
    pub fn is_strongly_connected(&self) -> bool {
        let Shape::Digraph(successors) = &self.shape else {
            // The other shapes are connected, and their links lead both ways or round.
            return true;
        };
        // Node 0 reaches all, and all reach node 0: there it reaches all by the links turned round.
        let back: Vec<_> = listed(successors).into_iter().map(|(a, b)| (b, a)).collect();
        let turned = Self::successors(self.n, &back).expect("the same links were accepted");
        let turned = Self::shaped(self.n, Shape::Digraph(turned));
        self.unreached().is_none() && turned.unreached().is_none()
    }

    /// Whether the links form a tree.
    pub fn is_tree(&self) -> bool {
        match &self.shape {
            Shape::Line | Shape::Star | Shape::Binary | Shape::Tree(_) => true,
            Shape::Graph(neighbors) => {
                let ways: usize = neighbors.iter().map(Vec::len).sum();
                ways == 2 * (neighbors.len() - 1)
            }
            Shape::Complete | Shape::Ring | Shape::Grid(_) | Shape::Digraph(_) | Shape::Dht(_) => {
                self.n <= 1
            }
        }
    }

    /// The nodes that `node` can send to, ascending.
    pub fn neighbors(&self, node: NodeId) -> impl Iterator<Item = NodeId> + use<'_> {
        let (NodeId(me), n) = (node, self.n);
        let none: &[NodeId] = &[];
        let (few, range, listed) = match &self.shape {
            Shape::Complete | Shape::Dht(_) => ([None; 4], 0..n, none),
            Shape::Ring => {
                let next = (me + 1) % n;
                ([None; 4], next..next + 1, none)
            }
            Shape::Line => ([None; 4], me.saturating_sub(1)..(me + 2).min(n), none),
            Shape::Star if me == 0 => ([None; 4], 1..n, none),
            Shape::Star => ([None; 4], 0..1, none),
            Shape::Binary => {
                let up = [self.parent(node), None, None, None];
                (up, (2 * me + 1).min(n)..(2 * me + 3).min(n), none)
            }
            &Shape::Grid(width) => (space::beside(node, width, n), 0..0, none),
            Shape::Tree(tree) => {
                ([self.parent(node), None, None, None], 0..0, &tree.children[node.index()][..])
            }
            Shape::Graph(listed) | Shape::Digraph(listed) => {
                ([None; 4], 0..0, &listed[node.index()][..])
            }
        };
        let range = range.map(NodeId).filter(move |&other| other != node);
        few.into_iter().flatten().chain(range).chain(listed.iter().copied())
    }

    /// The nodes that can send to `node`, ascending.
    pub fn sources(&self, node: NodeId) -> impl Iterator<Item = NodeId> + use<'_> {
        let ring = matches!(self.shape, Shape::Ring);
        let before = NodeId((node.0 + self.n - 1) % self.n);
        let before = Some(before).filter(|before| ring && *before != node);
        let listed = if matches!(self.shape, Shape::Digraph(_)) { 0..self.n } else { 0..0 };
        let one_way = listed.map(NodeId).filter(move |from| self.linked(*from, node));
        let both_ways = self.neighbors(node).filter(|_| !self.is_directed());
        before.into_iter().chain(one_way).chain(both_ways)
    }

    /// Whether `from` can send to `to`.
    pub fn linked(&self, from: NodeId, to: NodeId) -> bool {
        match &self.shape {
            Shape::Complete | Shape::Dht(_) => from != to,
            Shape::Ring => self.successor(from) == to,
            &Shape::Grid(width) => space::beside(from, width, self.n).contains(&Some(to)),
            Shape::Graph(listed) | Shape::Digraph(listed) => {
                listed[from.index()].binary_search(&to).is_ok()
            }
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
            Shape::Tree(tree) => Some(tree.parents[node.index() - 1]),
            _ => None,
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
