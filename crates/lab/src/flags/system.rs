//! Who there is: the topology, and what tells nodes apart.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use conclave_protocol::{Info, NodeId, Point, Topology, TopologyError};
use conclave_sim::{DRAWN, Rng, shape};

use super::Files;
use super::text::as_text;
use crate::Refusal;

as_text!(Attributes);

/// The topology called `name`, drawn by `seed` if it is left to chance, or as the file of that name
/// has it; by default what the algorithm needs.
pub(super) fn topology(
    info: &Info,
    name: Option<&str>,
    n: u32,
    seed: u64,
    files: &Files,
) -> Result<Topology, Refusal> {
    let Some(name) = name else {
        return Ok(Topology::of(info.model.links, n));
    };
    if let Some(text) = files.get(name) {
        return links(name, text, n);
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
    shape(name, n, seed).map_err(unknown)
}

/// A link per line, `0 1` in both directions or `0 -> 1` in this one only, and perhaps a place for each
/// node. If every node but 0 has exactly one link to a smaller id, that is a tree rooted at 0.
fn links(name: &str, text: &str, n: u32) -> Result<Topology, Refusal> {
    let bad = |line: usize| {
        Refusal::Impossible(format!(
            "{name}, line {line}: a link is two nodes, as in 0 1, or 0 -> 1 if it leads one way; a \
             place is at 0 2.5 1"
        ))
    };
    let (mut links, mut one_way) = (Vec::new(), Vec::new());
    let mut places: BTreeMap<u32, Point> = BTreeMap::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.split('#').next().unwrap_or_default();
        let words: Vec<&str> = text.split_whitespace().collect();
        let node = |word: &str| word.parse().map(NodeId).map_err(|_| bad(line));
        match words[..] {
            [] => {}
            [a, b] => links.push((node(a)?, node(b)?)),
            [a, "->", b] => one_way.push((node(a)?, node(b)?)),
            ["at", node, ref coordinates @ ..] if (1..=3).contains(&coordinates.len()) => {
                let node: u32 = node.parse().map_err(|_| bad(line))?;
                let mut point = Point::default();
                for (place, word) in point.0.iter_mut().zip(coordinates) {
                    let units: f64 = word.parse().map_err(|_| bad(line))?;
                    *place = (units * f64::from(Point::UNIT)).round() as i32;
                }
                places.insert(node, point);
            }
            _ => return Err(bad(line)),
        }
    }
    let wrong = |error| Refusal::Impossible(format!("{name}: {error}"));
    if !one_way.is_empty() {
        if !places.is_empty() {
            return Err(wrong("nodes have places where links lead both ways only".to_owned()));
        }
        one_way.extend(links.iter().flat_map(|&(a, b)| [(a, b), (b, a)]));
        return Topology::digraph(n, &one_way).map_err(|error| wrong(error.to_string()));
    }
    let wrong = |error: TopologyError| wrong(error.to_string());
    let graph = Topology::graph(n, &links).map_err(wrong)?;
    if !places.is_empty() {
        let placed = (0..n).filter_map(|node| places.get(&node).copied()).collect();
        return graph.placed(placed).map_err(wrong);
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

impl fmt::Display for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
                f.write_str(&numbers.join(","))
            }
            Self::Random => f.write_str("random"),
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
