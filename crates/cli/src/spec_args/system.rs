//! Who there is: the topology, and what tells nodes apart.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

use conclave_lab::Refusal;
use conclave_protocol::{Info, NodeId, Point, Topology, TopologyError};
use conclave_sim::{DRAWN, Rng, shape};

use super::read;
use crate::Failure;

/// The topology called `name`, drawn by `seed` if it is left to chance, or read from that file; by
/// default what the algorithm needs.
pub(crate) fn topology(
    info: &Info,
    name: Option<&str>,
    n: u32,
    seed: u64,
) -> Result<Topology, Failure> {
    let Some(name) = name else {
        return Ok(Topology::of(info.model.links, n));
    };
    if Path::new(name).is_file() {
        return read_topology(Path::new(name), n);
    }
    let unknown = |error| match error {
        TopologyError::UnknownShape(_) => {
            let names = Topology::SHAPES.into_iter().chain(DRAWN).map(|(name, _)| name);
            let names = names.collect::<Vec<_>>().join(", ");
            Refusal::Impossible(format!(
                "no topology is called {name:?}, nor is there such a file; there are {names}"
            ))
        }
        error => Refusal::Impossible(error.to_string()),
    };
    Ok(shape(name, n, seed).map_err(unknown)?)
}

/// A link per line, each in both directions, and perhaps a place for each node. If every node but 0 has exactly one link to a
/// smaller id, that is a tree rooted at 0.
fn read_topology(path: &Path, n: u32) -> Result<Topology, Failure> {
    let bad = |line: usize| {
        let path = path.display();
        Refusal::Impossible(format!(
            "{path}, line {line}: a link is two nodes, as in 0 1, and a place is at 0 2.5 1"
        ))
    };
    let mut links = Vec::new();
    let mut places: BTreeMap<u32, Point> = BTreeMap::new();
    for (line, text) in (1..).zip(read(path)?.lines()) {
        let text = text.split('#').next().unwrap_or_default();
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            [] => {}
            [a, b] => {
                let node = |word: &str| word.parse().map(NodeId).map_err(|_| bad(line));
                links.push((node(a)?, node(b)?));
            }
            ["at", node, ref coordinates @ ..] if (1..=3).contains(&coordinates.len()) => {
                let node: u32 = node.parse().map_err(|_| bad(line))?;
                let mut point = Point::default();
                for (place, word) in point.0.iter_mut().zip(coordinates) {
                    let units: f64 = word.parse().map_err(|_| bad(line))?;
                    *place = (units * f64::from(Point::UNIT)).round() as i32;
                }
                places.insert(node, point);
            }
            _ => return Err(bad(line).into()),
        }
    }
    let graph = Topology::graph(n, &links);
    let wrong = |error| Refusal::Impossible(format!("{}: {error}", path.display()));
    let graph = graph.map_err(wrong)?;
    if !places.is_empty() {
        let placed = (0..n).filter_map(|node| places.get(&node).copied()).collect();
        return Ok(graph.placed(placed).map_err(wrong)?);
    }
    let up = |node| {
        let mut smaller = graph.neighbors(node).filter(|&other| other < node);
        smaller.next().filter(|_| smaller.next().is_none())
    };
    let parents: Option<Vec<NodeId>> = (1..n).map(NodeId).map(up).collect();
    let tree = parents.and_then(|parents| Topology::tree(parents).ok());
    Ok(tree.unwrap_or(graph))
}

/// What makes each node a good leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attributes {
    /// These numbers.
    Given(Vec<u64>),
    /// The numbers from 1 up, shuffled.
    Random,
}

impl Attributes {
    /// One for each of `n` nodes; as many as were given, if they were.
    pub fn of(&self, n: u32, seed: u64) -> Vec<u64> {
        match self {
            Self::Given(numbers) => numbers.clone(),
            Self::Random => {
                let mut numbers: Vec<u64> = (1..=u64::from(n)).collect();
                Rng::new(seed).fork(6).shuffle(&mut numbers);
                numbers
            }
        }
    }
}

impl FromStr for Attributes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "random" {
            return Ok(Self::Random);
        }
        let number = |word: &str| {
            word.trim().parse().map_err(|_| {
                format!("{word:?} is not a number; write one for each node, as in 5,5,9, or random")
            })
        };
        text.split(',').map(number).collect::<Result<_, _>>().map(Self::Given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_given_or_drawn() {
        assert_eq!("5, 5,9".parse(), Ok(Attributes::Given(vec![5, 5, 9])));
        let drawn = Attributes::Random.of(100, 3);
        assert_eq!(drawn, Attributes::Random.of(100, 3));
        assert_ne!(drawn, Attributes::Random.of(100, 4));
        let mut sorted = drawn;
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(1..=100));
        let refused = "5,x".parse::<Attributes>().unwrap_err();
        assert!(refused.contains("\"x\" is not a number"), "{refused}");
    }

    #[test]
    fn a_file_has_links_and_perhaps_places() {
        let path = std::env::temp_dir().join(format!("conclave-places-{}", std::process::id()));
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read_topology(&path, 3).map_err(|failure| failure.to_string())
        };
        let placed = read("0 1\n1 2 # a line\nat 0 0 0\nat 1 1.5 0\nat 2 3 0 -1\n").unwrap();
        assert_eq!(placed.point(NodeId(2)), Some(Point([3000, 0, -1000])));
        assert_eq!(read("0 1\n1 2\n").unwrap().point(NodeId(0)), None);
        let refused = |text| read(text).unwrap_err();
        assert!(refused("0 1\n1 2\nat 0 1\n").contains("not one for each"));
        assert!(refused("0 1\nat x 1 1\n").contains("line 2"));
        let _ = std::fs::remove_file(&path);
    }
}
