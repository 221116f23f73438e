//! Voting sets: the nodes that each node asks for permission, so that no two can have it at once.
//!
//! A family gives every node a set of voters. A node that has all the votes of its set may enter.
//! As any two sets share a voter, and a voter votes for one node at a time, only one node can.
//! The sets should be small, for they are what an entry costs, and equally large and equally
//! used, for then no node does more work than the others.

mod plane;

use std::fmt;
use std::str::FromStr;

use conclave_protocol::{NodeId, NodeSet, Opt, Setup, Unfit};

/// One set of voters for each node.
///
/// Whatever its construction, a family has been checked: any two sets intersect, all have the
/// same size, every node votes in equally many, and every node votes in its own.
///
/// Sets are computed when asked for, so that families of many nodes take no room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quorums {
    n: u32,
    /// How many voters a set has: K.
    size: usize,
    rule: Rule,
}

/// How a node's set is computed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    /// By looking it up.
    Listed(Vec<NodeSet>),
    /// By adding its id to each of these.
    Shifted(Vec<u32>),
    /// By its row and column in a square of this side.
    Grid(u32),
    /// It is all nodes.
    All,
}

/// How a family of voting sets is made.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub enum Construction {
    /// A projective plane where there is one for this number of nodes, else a cyclic cover.
    #[default]
    Best,
    /// The lines of a projective plane: any two share exactly one voter.
    ProjectivePlane,
    /// One set, shifted round the ring of ids, whose differences reach every node.
    CyclicCover,
    /// A row and a column of a square.
    Grid,
    /// More than half of the nodes, in a row on the ring of ids.
    Majority,
}

/// The option by which the user picks a family.
pub(crate) const QUORUM: Opt = Opt {
    name: "quorum",
    default: "best",
    help: "the voting sets: projective-plane, cyclic-cover, grid, majority, or best: \
           a projective plane where there is one, else a cyclic cover",
};

/// The family that the option `quorum` asks for.
pub(crate) fn chosen(setup: &Setup) -> Result<Quorums, Unfit> {
    Quorums::new(setup.option(QUORUM.name, Construction::Best)?, setup.n())
}

impl Quorums {
    /// The family of this construction for `n` nodes, or which numbers of nodes have one.
    pub fn new(construction: Construction, n: u32) -> Result<Self, Unfit> {
        match construction {
            Construction::Best => Self::projective_plane(n).or_else(|_| Self::cyclic_cover(n)),
            Construction::ProjectivePlane => Self::projective_plane(n),
            Construction::CyclicCover => Self::cyclic_cover(n),
            Construction::Grid => Self::grid(n),
            Construction::Majority => Ok(Self::majority(n)),
        }
    }

    /// The voters that `node` has to ask.
    pub fn of(&self, node: NodeId) -> NodeSet {
        let (n, id) = (self.n, node.0);
        match &self.rule {
            Rule::Listed(sets) => sets[node.index()].clone(),
            Rule::Shifted(cover) => cover.iter().map(|d| NodeId((id + d) % n)).collect(),
            &Rule::Grid(side) => {
                let row = (0..side).map(|k| id / side * side + k);
                let column = (0..side).map(|k| id % side + k * side);
                row.chain(column).map(NodeId).collect()
            }
            Rule::All => (0..n).map(NodeId).collect(),
        }
    }

    /// How many voters each node has to ask: K.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Every set, by node.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, NodeSet)> + '_ {
        (0..self.n).map(|id| (NodeId(id), self.of(NodeId(id))))
    }

    /// Every set is all nodes. Larger than voting needs, but the family of algorithms that are
    /// content with any majority of the answers.
    pub(crate) fn all(n: u32) -> Self {
        Self { n, size: n as usize, rule: Rule::All }
    }

    fn projective_plane(n: u32) -> Result<Self, Unfit> {
        match n {
            // The Fano plane as textbooks draw it, rather than as a cyclic set.
            7 => {
                let lines =
                    [[0, 1, 2], [1, 3, 5], [2, 4, 5], [0, 3, 4], [1, 4, 6], [0, 5, 6], [2, 3, 6]];
                let sets = lines.map(|line| line.map(NodeId).into_iter().collect());
                Ok(Self::checked(n, Rule::Listed(sets.into())))
            }
            _ => match plane::order_of(n) {
                Some(order) => Ok(Self::cyclic(n, &plane::difference_set(order))),
                None => Err(no_plane(n)),
            },
        }
    }

    fn cyclic_cover(n: u32) -> Result<Self, Unfit> {
        Ok(match COVERS.get(n as usize) {
            Some(cover) => Self::cyclic(n, cover),
            // Every distance is some number of blocks less some part of one.
            None => {
                let block = (1..).find(|b| b * b >= n).expect("every number has a root");
                let marks = (1..=n.div_ceil(block)).map(|k| k * block % n);
                Self::cyclic(n, &(0..block).chain(marks).collect::<Vec<_>>())
            }
        })
    }

    fn grid(n: u32) -> Result<Self, Unfit> {
        let side = n.isqrt();
        if side * side != n {
            let (below, above) = (side * side, (side + 1) * (side + 1));
            return Err(Unfit::new(format!(
                "{n} nodes do not fill a square grid; {below} and {above} do; \
                 cyclic-cover works for any number"
            )));
        }
        Ok(Self::checked(n, Rule::Grid(side)))
    }

    fn majority(n: u32) -> Self {
        Self::cyclic(n, &(0..=n / 2).collect::<Vec<_>>())
    }

    /// Each node's set is `cover`, shifted by its id.
    fn cyclic(n: u32, cover: &[u32]) -> Self {
        // Whatever holds of one set holds of all, for they are shifts of each other. It remains
        // that p0 votes for itself, and that the differences come to every distance.
        let mut met = vec![false; n as usize];
        for a in cover {
            cover.iter().for_each(|b| met[((a + n - b) % n) as usize] = true);
        }
        assert!(cover.contains(&0), "every node is in its own voting set");
        assert!(met.iter().all(|&met| met), "{cover:?} leaves out distances of {n} nodes");
        let mut cover: Vec<u32> = cover.to_vec();
        cover.sort_unstable();
        cover.dedup();
        Self { n, size: cover.len(), rule: Rule::Shifted(cover) }
    }

    /// The family, once it is known to satisfy the conditions.
    fn checked(n: u32, rule: Rule) -> Self {
        let mut family = Self { n, size: 0, rule };
        family.size = family.of(NodeId(0)).len();
        match family.check() {
            Ok(()) => family,
            Err(violation) => panic!("voting sets keep their conditions, but {violation}"),
        }
    }

    /// Whether any two sets intersect, and everything else there is to demand of a family. The
    /// error says what is wrong. Takes time in the square of the number of nodes.
    pub fn check(&self) -> Result<(), String> {
        let mut served = vec![Vec::new(); self.n as usize];
        for (node, set) in self.iter() {
            if !set.contains(node) {
                return Err(format!("{node} does not vote for itself"));
            }
            if set.len() != self.size {
                return Err(format!("the set of {node} is not as large as that of p0"));
            }
            set.iter().for_each(|voter| served[voter.index()].push(node));
        }
        if let Some(uneven) = served.iter().position(|nodes| nodes.len() != self.size) {
            return Err(format!("p{uneven} votes more or less often than others"));
        }
        for (node, set) in self.iter() {
            let mut met = vec![false; self.n as usize];
            for voter in set.iter() {
                served[voter.index()].iter().for_each(|node| met[node.index()] = true);
            }
            if let Some(missed) = met.iter().position(|met| !met) {
                return Err(format!("the sets of {node} and p{missed} have no common voter"));
            }
        }
        Ok(())
    }
}

/// The smallest number of voters that `n` nodes can do with, by counting: each of the K voters of
/// a set serves K − 1 other sets, and these have to be all there are.
pub fn least_size(n: u32) -> u32 {
    (1..).find(|k| k * (k - 1) + 1 >= n).expect("squares grow")
}

fn no_plane(n: u32) -> Unfit {
    let below = (3..n).rev().find(|&m| plane::order_of(m).is_some());
    let above = (n + 1..).find(|&m| plane::order_of(m).is_some()).expect("primes do not end");
    let near = match below {
        Some(below) => format!("{below} and {above} have one"),
        None => format!("{above} nodes have one"),
    };
    let nodes = if n == 1 { "node" } else { "nodes" };
    Unfit::new(format!(
        "there is no projective plane for {n} {nodes}; {near}; cyclic-cover works for any number"
    ))
}

/// For each number of nodes, the least set whose differences reach every node; found by trying
/// all.
const COVERS: [&[u32]; 32] = [
    &[],
    &[0],
    &[0, 1],
    &[0, 1],
    &[0, 1, 2],
    &[0, 1, 2],
    &[0, 1, 3],
    &[0, 1, 3],
    &[0, 1, 2, 4],
    &[0, 1, 2, 4],
    &[0, 1, 2, 5],
    &[0, 1, 2, 5],
    &[0, 1, 3, 7],
    &[0, 1, 3, 9],
    &[0, 1, 2, 3, 7],
    &[0, 1, 2, 3, 7],
    &[0, 1, 2, 5, 8],
    &[0, 1, 2, 4, 12],
    &[0, 1, 2, 5, 11],
    &[0, 1, 2, 6, 9],
    &[0, 1, 2, 3, 6, 10],
    &[0, 1, 4, 14, 16],
    &[0, 1, 2, 3, 7, 11],
    &[0, 1, 2, 3, 7, 11],
    &[0, 1, 2, 3, 7, 15],
    &[0, 1, 2, 3, 8, 12],
    &[0, 1, 2, 5, 9, 15],
    &[0, 1, 2, 5, 13, 22],
    &[0, 1, 4, 15, 20, 22],
    &[0, 1, 2, 3, 4, 9, 14],
    &[0, 1, 2, 3, 4, 9, 19],
    &[0, 1, 3, 8, 12, 18],
];

impl Construction {
    /// Every construction, under the name users type.
    pub const ALL: [(&'static str, Self); 5] = [
        ("best", Self::Best),
        ("projective-plane", Self::ProjectivePlane),
        ("cyclic-cover", Self::CyclicCover),
        ("grid", Self::Grid),
        ("majority", Self::Majority),
    ];
}

impl fmt::Display for Construction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Self::ALL.iter().find(|(_, construction)| construction == self);
        f.pad(named.expect("every construction has a name").0)
    }
}

impl FromStr for Construction {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|(known, _)| *known == name);
        known.map(|&(_, construction)| construction).ok_or_else(|| {
            let names = Self::ALL.map(|(name, _)| name);
            format!("there are {}", names.join(", "))
        })
    }
}
