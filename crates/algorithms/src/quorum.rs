//! Voting sets: whom each node asks for permission, so that no two can have it at once.
//!
//! A family gives every node a set of voters. Whoever has all the votes of its set may enter.
//! As any two sets share a voter, and a voter votes for one at a time, only one node can.
//! The sets should be small, for they are what an entry costs, and equally large and equally
//! used, for then nobody does more work than the others.

mod plane;

use std::fmt;
use std::str::FromStr;

use conclave_protocol::{NodeId, NodeSet, Opt, Setup, Unfit};

/// One set of voters for each node.
///
/// Whatever its construction, a family has been checked: any two sets intersect, all have the
/// same size, every node votes in equally many, and every node votes in its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quorums {
    sets: Vec<NodeSet>,
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
    pub fn of(&self, node: NodeId) -> &NodeSet {
        &self.sets[node.index()]
    }

    /// How many voters each node has to ask: K.
    pub fn size(&self) -> usize {
        self.sets[0].len()
    }

    /// Every set, by node.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &NodeSet)> {
        (0..).map(NodeId).zip(&self.sets)
    }

    /// Asks everybody. No family that anyone would choose, but the one of algorithms that are
    /// content with any majority of the answers.
    pub(crate) fn everybody(n: u32) -> Self {
        let all: NodeSet = (0..n).map(NodeId).collect();
        Self { sets: vec![all; n as usize] }
    }

    fn projective_plane(n: u32) -> Result<Self, Unfit> {
        match n {
            // The Fano plane as textbooks draw it, rather than as a cyclic set.
            7 => {
                let lines =
                    [[0, 1, 2], [1, 3, 5], [2, 4, 5], [0, 3, 4], [1, 4, 6], [0, 5, 6], [2, 3, 6]];
                let sets = lines.map(|line| line.map(NodeId).into_iter().collect());
                Ok(Self { sets: sets.into() }.checked(0..n))
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
        let row = |i: u32| (0..side).map(move |k| i / side * side + k);
        let column = |i: u32| (0..side).map(move |k| i % side + k * side);
        let sets = (0..n).map(|i| row(i).chain(column(i)).map(NodeId).collect()).collect();
        Ok(Self { sets }.checked(0..n))
    }

    fn majority(n: u32) -> Self {
        Self::cyclic(n, &(0..=n / 2).collect::<Vec<_>>())
    }

    /// Each node's set is `cover`, shifted by its id.
    fn cyclic(n: u32, cover: &[u32]) -> Self {
        let shifted = |i: u32| cover.iter().map(move |d| NodeId((i + d) % n)).collect();
        // What holds of one set holds of all: they are shifts of each other.
        Self { sets: (0..n).map(shifted).collect() }.checked(0..1)
    }

    /// The family, once the sets of `probes` are known to satisfy the conditions.
    fn checked(self, probes: std::ops::Range<u32>) -> Self {
        if let Err(violation) = self.check(probes) {
            panic!("a construction keeps the conditions of voting sets, but {violation}");
        }
        self
    }

    /// Whether the sets of `probes` intersect all others, and everything else there is to
    /// demand of a family.
    pub fn check(&self, probes: std::ops::Range<u32>) -> Result<(), String> {
        let n = self.sets.len();
        let mut served = vec![Vec::new(); n];
        for (node, set) in self.iter() {
            if !set.contains(node) {
                return Err(format!("{node} does not vote for itself"));
            }
            if set.len() != self.size() {
                return Err(format!("the set of {node} is not as large as that of p0"));
            }
            set.iter().for_each(|voter| served[voter.index()].push(node));
        }
        if let Some(uneven) = served.iter().position(|nodes| nodes.len() != self.size()) {
            return Err(format!("p{uneven} votes more or less often than others"));
        }
        for probe in probes.map(NodeId) {
            let mut met = vec![false; n];
            for voter in self.of(probe).iter() {
                served[voter.index()].iter().for_each(|node| met[node.index()] = true);
            }
            if let Some(missed) = met.iter().position(|met| !met) {
                return Err(format!("the sets of {probe} and p{missed} have no common voter"));
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
