use std::fmt;
use std::mem;

use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A node, numbered from 0.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The node's place in an array of all nodes.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

/// Nodes in a sentence: "p0, p1 and p2"; of many only the first: "p0, p1, p2 and 40 others".
pub fn names(nodes: impl IntoIterator<Item = NodeId>) -> String {
    const MOST: usize = 12;
    let mut names: Vec<String> = nodes.into_iter().map(|node| node.to_string()).collect();
    if names.len() > MOST {
        let others = names.len() - (MOST - 1);
        names.truncate(MOST - 1);
        names.push(format!("{others} others"));
    }
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => "no node".to_owned(),
    }
}

/// A set of nodes.
///
/// The first 64 cost no allocation; of the rest only blocks of 64 that have a member are stored,
/// so a set of a few neighbours is small even among a million nodes.
///
/// In formats that people read it is a list of names, `["p1","p2"]`.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeSet {
    low: u64,
    /// Blocks 1 and up, ascending, none empty, so that equal sets are equal values.
    high: Vec<(u32, u64)>,
}

impl NodeSet {
    /// The empty set.
    pub const fn new() -> Self {
        Self { low: 0, high: Vec::new() }
    }

    /// Returns whether `node` is new to the set.
    #[inline]
    pub fn insert(&mut self, node: NodeId) -> bool {
        let (block, bit) = (node.0 / 64, 1_u64 << (node.0 % 64));
        let word = if block == 0 {
            &mut self.low
        } else {
            let at = match self.find(block) {
                Ok(at) => at,
                Err(at) => {
                    self.high.insert(at, (block, 0));
                    at
                }
            };
            &mut self.high[at].1
        };
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// Returns whether `node` was in the set.
    #[inline]
    pub fn remove(&mut self, node: NodeId) -> bool {
        let (block, bit) = (node.0 / 64, 1_u64 << (node.0 % 64));
        if block == 0 {
            let was = self.low & bit != 0;
            self.low &= !bit;
            return was;
        }
        let Ok(at) = self.find(block) else { return false };
        let word = &mut self.high[at].1;
        let was = *word & bit != 0;
        *word &= !bit;
        if *word == 0 {
            self.high.remove(at);
        }
        was
    }

    /// Empties the set and returns what was in it.
    #[inline]
    pub fn take(&mut self) -> Self {
        mem::take(self)
    }

    /// Removes every member.
    pub fn clear(&mut self) {
        self.low = 0;
        self.high.clear();
    }

    /// Whether `node` is a member.
    #[inline]
    pub fn contains(&self, node: NodeId) -> bool {
        let (block, shift) = (node.0 / 64, node.0 % 64);
        let word = match block {
            0 => self.low,
            _ => self.find(block).map_or(0, |at| self.high[at].1),
        };
        word >> shift & 1 == 1
    }

    /// Whether the set has no members.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.low == 0 && self.high.is_empty()
    }

    /// How many members the set has.
    pub fn len(&self) -> usize {
        let high: u32 = self.high.iter().map(|(_, word)| word.count_ones()).sum();
        (self.low.count_ones() + high) as usize
    }

    /// The member with the least id.
    pub fn first(&self) -> Option<NodeId> {
        self.iter().next()
    }

    /// The nodes in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        let words = std::iter::once((0, self.low)).chain(self.high.iter().copied());
        words.flat_map(|(block, mut word)| {
            std::iter::from_fn(move || {
                let bit = word.trailing_zeros();
                word &= word.checked_sub(1)?;
                Some(NodeId(block * 64 + bit))
            })
        })
    }

    /// Whether every member of `self` is one of `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.low & !other.low == 0
            && self.high.iter().all(|&(block, word)| {
                other.find(block).is_ok_and(|at| word & !other.high[at].1 == 0)
            })
    }

    /// The members of both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        self.iter().filter(|&node| other.contains(node)).collect()
    }

    fn find(&self, block: u32) -> Result<usize, usize> {
        self.high.binary_search_by_key(&block, |&(block, _)| block)
    }
}

impl FromIterator<NodeId> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> Self {
        let mut set = Self::default();
        set.extend(nodes);
        set
    }
}

impl Extend<NodeId> for NodeSet {
    fn extend<I: IntoIterator<Item = NodeId>>(&mut self, nodes: I) {
        for node in nodes {
            self.insert(node);
        }
    }
}

impl Serialize for NodeSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return serializer.collect_seq(self.iter().map(|node| node.to_string()));
        }
        let mut set = serializer.serialize_struct("NodeSet", 2)?;
        set.serialize_field("low", &self.low)?;
        set.serialize_field("high", &self.high)?;
        set.end()
    }
}

impl<'de> Deserialize<'de> for NodeSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return deserializer.deserialize_any(Members);
        }
        let Words { low, high } = Words::deserialize(deserializer)?;
        Ok(Self { low, high })
    }
}

/// A set as programs keep it; people read it so in traces of earlier versions.
#[derive(Deserialize)]
#[serde(rename = "NodeSet")]
struct Words {
    low: u64,
    high: Vec<(u32, u64)>,
}

/// Reads a list of names, or what earlier versions wrote.
struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = NodeSet;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of nodes, such as [\"p1\",\"p2\"]")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<NodeSet, A::Error> {
        let mut set = NodeSet::new();
        while let Some(name) = seq.next_element::<String>()? {
            let number = name.strip_prefix('p').and_then(|number| number.parse().ok());
            let number = number.ok_or_else(|| {
                de::Error::invalid_value(de::Unexpected::Str(&name), &"a node, such as p1")
            })?;
            set.insert(NodeId(number));
        }
        Ok(set)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<NodeSet, A::Error> {
        let Words { low, high } = Words::deserialize(de::value::MapAccessDeserializer::new(map))?;
        Ok(NodeSet { low, high })
    }
}

impl fmt::Debug for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_named_as_in_a_sentence() {
        let named = |n: u32| names((0..n).map(NodeId));
        assert_eq!([0, 1, 2, 3].map(named), ["no node", "p0", "p0 and p1", "p0, p1 and p2"]);
        assert!(named(12).ends_with("p9, p10 and p11"));
        assert!(named(50).ends_with("p9, p10 and 39 others"));
    }

    #[test]
    fn sets_with_the_same_members_are_equal_whatever_their_history() {
        let mut set: NodeSet = [3, 64, 200].map(NodeId).into_iter().collect();
        assert!(set.remove(NodeId(200)));
        assert!(!set.remove(NodeId(200)));
        assert!(set.remove(NodeId(64)));
        assert_eq!(set, [NodeId(3)].into_iter().collect());
        assert_eq!(format!("{set:?}"), "{p3}");
    }

    #[test]
    fn people_read_a_set_as_a_list_of_names_and_programs_as_it_was() {
        let set: NodeSet = [1, 2, 70].map(NodeId).into_iter().collect();
        let text = serde_json::to_string(&set).unwrap();
        assert_eq!(text, r#"["p1","p2","p70"]"#);
        assert_eq!(serde_json::from_str::<NodeSet>(&text).unwrap(), set);
        let old = r#"{"low":6,"high":[[1,64]]}"#;
        assert_eq!(serde_json::from_str::<NodeSet>(old).unwrap(), set);
        assert!(serde_json::from_str::<NodeSet>(r#"["q1"]"#).is_err());
        let bytes = postcard::to_stdvec(&set).unwrap();
        assert_eq!(bytes, postcard::to_stdvec(&(6_u64, vec![(1_u32, 64_u64)])).unwrap());
        assert_eq!(postcard::from_bytes::<NodeSet>(&bytes).unwrap(), set);
    }

    #[test]
    fn iterates_in_order_across_blocks() {
        let nodes = [0, 1, 63, 64, 127, 128, 999_999].map(NodeId);
        let set: NodeSet = nodes.into_iter().rev().collect();
        assert!(set.iter().eq(nodes));
        assert_eq!(set.len(), nodes.len());
        assert_eq!(set.first(), Some(NodeId(0)));
    }

    #[test]
    fn subsets_and_intersections_span_blocks() {
        let small: NodeSet = [1, 70].map(NodeId).into_iter().collect();
        let large: NodeSet = [1, 2, 70, 71].map(NodeId).into_iter().collect();
        assert!(small.is_subset(&large) && !large.is_subset(&small));
        assert_eq!(small.intersection(&large), small);
    }
}
