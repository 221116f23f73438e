//! Calling nodes by other names, in any value of any protocol.
//!
//! A value says through serde what it is made of. It is written down as a list of tokens, with
//! every [`NodeId`] renamed on the way and every [`NodeSet`] rebuilt from its renamed members, and
//! the list is read back as a value of the same type. Both types are recognised by the names under
//! which they serialise, which no other type may have. The name in a [`Stamp`](crate::Stamp) is a
//! `NodeId` and changes; maps and sets sort themselves anew by the new names.
//!
//! What cannot be recognised stays as it is:
//!
//! - a number that stands for a node, such as the low bits of a
//!   [`Stamp::token`](crate::Stamp::token) or an id kept as `u32`;
//! - the places in an array with one entry per node, such as those of a
//!   [`VectorClock`](crate::VectorClock), and the order of a list that is kept sorted by node;
//! - a name in a text.
//!
//! For an algorithm with any of these in its state, the renamed value is not the one that the
//! renamed run would have led to. So a search that takes states that differ by names for the same
//! has to check first that renaming commutes with the rules.

mod reader;
mod writer;

use std::fmt;

use serde::{de, ser};

use self::reader::Reader;
use self::writer::Writer;
use crate::{NodeId, NodeSet, Value};

/// The same value with every node in it called by another name: node `i` becomes `names[i]`.
///
/// `names` is a permutation of the nodes. A number that stands for a node without being a
/// [`NodeId`], and the places in an array with one entry per node, stay as they are; so a caller
/// that relies on renaming has to check that it commutes with the rules.
///
/// Returns `None` if the value names a node that `names` does not, or cannot be rebuilt from what
/// it serialises.
pub fn renamed<T: Value>(value: &T, names: &[NodeId]) -> Option<T> {
    debug_assert!(is_permutation(names), "{names:?} are not the names of all nodes");
    let mut writer = Writer::new(names);
    // By way of objects, so that types are compiled for one writer and for one reader.
    erased_serde::serialize(value, &mut writer).ok()?;
    let mut reader = Reader { tokens: &writer.tokens };
    let renamed = {
        let mut erased = <dyn erased_serde::Deserializer<'_>>::erase(&mut reader);
        erased_serde::deserialize(&mut erased).ok()?
    };
    reader.tokens.is_empty().then_some(renamed)
}

fn is_permutation(names: &[NodeId]) -> bool {
    let set: NodeSet = names.iter().copied().collect();
    set.len() == names.len() && names.iter().all(|name| name.index() < names.len())
}

/// A value is one token, or one that says what follows and then that.
#[derive(Debug)]
enum Token {
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Char(char),
    Text(Box<str>),
    Bytes(Box<[u8]>),
    Unit,
    None,
    /// One value follows.
    Some,
    /// So many values follow.
    Seq(usize),
    /// So many pairs of a key and a value follow.
    Map(usize),
    /// A key of a struct, which is written as a map.
    Field(&'static str),
    /// What the variant carries follows; [`Unit`](Self::Unit) if that is nothing.
    Variant(&'static str),
}

/// The value cannot be written or read back.
#[derive(Debug)]
struct Refused;

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the value cannot be rebuilt from what it serialises")
    }
}

impl std::error::Error for Refused {}

impl ser::Error for Refused {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

impl de::Error for Refused {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet, VecDeque};
    use std::marker::PhantomData;
    use std::time::Duration;

    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::{Action, Decision, Never, Stamp, Time, VectorClock};

    #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    struct Everything<T> {
        phases: Vec<Phase>,
        stamps: BTreeMap<Stamp, Option<Option<NodeId>>>,
        queue: VecDeque<(NodeId, u64, i64)>,
        members: BTreeSet<NodeId>,
        far: NodeSet,
        clock: (Time, Duration, [u8; 3]),
        mark: Observation,
        text: (String, char, bool, ()),
        timers: Option<T>,
        none: Vec<T>,
        marker: PhantomData<T>,
        nested: Option<Box<Self>>,
    }

    #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    struct Observation;

    #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    struct Pair(NodeId, i8);

    #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    enum Phase {
        Idle,
        Asking(Stamp),
        Voting(Pair, NodeSet),
        Waiting { missing: NodeSet, answers: BTreeMap<NodeId, Box<Self>> },
    }

    fn set(members: &[u32]) -> NodeSet {
        members.iter().copied().map(NodeId).collect()
    }

    fn stamp(time: u64, node: u32) -> Stamp {
        Stamp { time, node: NodeId(node) }
    }

    fn everything() -> Everything<Never> {
        let answers = BTreeMap::from([
            (NodeId(0), Box::new(Phase::Idle)),
            (NodeId(70), Box::new(Phase::Asking(stamp(9, 1)))),
        ]);
        let inner = Everything {
            phases: Vec::new(),
            stamps: BTreeMap::new(),
            queue: VecDeque::new(),
            members: BTreeSet::new(),
            far: NodeSet::new(),
            clock: (Time::MAX, Duration::MAX, [0; 3]),
            mark: Observation,
            text: (String::new(), '\0', false, ()),
            timers: None,
            none: Vec::new(),
            marker: PhantomData,
            nested: None,
        };
        Everything {
            phases: vec![
                Phase::Idle,
                Phase::Asking(stamp(u64::MAX, 2)),
                Phase::Voting(Pair(NodeId(3), -4), set(&[0, 63, 64])),
                Phase::Waiting { missing: set(&[]), answers },
            ],
            stamps: BTreeMap::from([
                (stamp(1, 0), None),
                (stamp(1, 1), Some(None)),
                (stamp(2, 0), Some(Some(NodeId(70)))),
            ]),
            queue: VecDeque::from([(NodeId(2), 1, i64::MIN), (NodeId(0), u64::MAX, 1)]),
            members: [0, 1, 99].map(NodeId).into(),
            far: set(&[1, 64, 65, 70]),
            clock: (Time::from_nanos(5), Duration::from_nanos(1_000_000_007), [1, 2, 3]),
            mark: Observation,
            text: ("p1 and p2".to_owned(), 'é', true, ()),
            timers: None,
            none: Vec::new(),
            marker: PhantomData,
            nested: Some(Box::new(inner)),
        }
    }

    /// The names of a hundred nodes, with two of them exchanged.
    fn swap(a: usize, b: usize) -> Vec<NodeId> {
        let mut names: Vec<NodeId> = (0..100).map(NodeId).collect();
        names.swap(a, b);
        names
    }

    #[test]
    fn a_value_whose_nodes_keep_their_names_is_the_same() {
        let value = everything();
        assert_eq!(renamed(&value, &swap(0, 0)), Some(value));
    }

    #[test]
    fn two_names_exchanged_twice_are_as_before() {
        let value = everything();
        for (a, b) in [(0, 1), (0, 70), (63, 64), (1, 99)] {
            let once = renamed(&value, &swap(a, b)).expect("it can be renamed");
            assert_ne!(once, value);
            assert_eq!(renamed(&once, &swap(a, b)).as_ref(), Some(&value), "{a} and {b}");
        }
    }

    #[test]
    fn nodes_are_renamed_wherever_they_are() {
        let was = everything();
        let is = renamed(&was, &swap(0, 70)).expect("it can be renamed");
        assert_eq!(is.phases[1], was.phases[1]);
        assert_eq!(is.phases[2], Phase::Voting(Pair(NodeId(3), -4), set(&[63, 64, 70])));
        let Phase::Waiting { missing, answers } = &is.phases[3] else { panic!("{is:?}") };
        assert!(missing.is_empty());
        assert_eq!(*answers[&NodeId(70)], Phase::Idle);
        assert_eq!(*answers[&NodeId(0)], Phase::Asking(stamp(9, 1)));
        let stamps = [
            (stamp(1, 1), Some(None)),
            (stamp(1, 70), None),
            (stamp(2, 70), Some(Some(NodeId(0)))),
        ];
        assert_eq!(is.stamps, BTreeMap::from(stamps));
        assert_eq!(is.queue, [(NodeId(2), 1, i64::MIN), (NodeId(70), u64::MAX, 1)]);
        assert_eq!(is.members, [1, 70, 99].map(NodeId).into());
        assert_eq!(is.far, set(&[0, 1, 64, 65]));
        assert_eq!((is.clock, is.text, is.nested), (was.clock, was.text, was.nested));
    }

    #[test]
    fn a_cycle_of_names_moves_every_node_on() {
        let names = [1, 2, 0].map(NodeId);
        assert_eq!(renamed(&[0, 1, 2].map(NodeId), &names), Some(names));
        assert_eq!(renamed(&set(&[0, 2]), &names), Some(set(&[0, 1])));
    }

    #[test]
    fn numbers_and_places_that_stand_for_nodes_stay() {
        let names = [1, 0].map(NodeId);
        let token = stamp(3, 1).token();
        assert_eq!(renamed(&token, &names), Some(token));
        let mut clock = VectorClock::new(2);
        clock.tick(NodeId(1));
        assert_eq!(renamed(&clock, &names), Some(clock));
        let sorted = vec![NodeId(0), NodeId(1)];
        assert_eq!(renamed(&sorted, &names), Some(names.to_vec()));
    }

    #[test]
    fn fields_left_out_get_their_defaults() {
        let names = [1, 0].map(NodeId);
        let crash = Decision::from(Action::Crash(NodeId(0)));
        assert_eq!(renamed(&crash, &names), Some(Action::Crash(NodeId(1)).into()));
        let late = Decision { crash_after: Some(1), ..Action::Heal.into() };
        assert_eq!(renamed(&late, &names), Some(late));
    }

    #[test]
    fn a_node_without_a_new_name_is_refused() {
        let names = [1, 0].map(NodeId);
        assert_eq!(renamed(&NodeId(2), &names), None);
        assert_eq!(renamed(&set(&[0, 64]), &names), None);
    }

    #[test]
    fn a_value_that_does_not_read_what_it_wrote_is_refused() {
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        struct Odd {
            #[serde(skip_deserializing)]
            written: Option<u8>,
            #[serde(skip_serializing)]
            read: u8,
        }
        assert_eq!(renamed(&Odd { written: None, read: 1 }, &[]), None);
        assert_eq!(renamed(&u128::MAX, &[]), None);
    }
}
