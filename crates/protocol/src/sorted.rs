//! A small map as a sorted vector.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A map of a few entries in the order of its keys, which serializes as a map.
///
/// A `BTreeMap` would do. But this one is compiled for the messages of every algorithm, and a B-tree costs some
/// seventy functions each time, a vector five.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Sorted<K, V>(Vec<(K, V)>);

impl<K, V> Default for Sorted<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Copy + Ord, V> Sorted<K, V> {
    fn find(&self, key: K) -> Result<usize, usize> {
        self.0.binary_search_by_key(&key, |(key, _)| *key)
    }

    pub(crate) fn get(&self, key: K) -> Option<&V> {
        self.find(key).ok().map(|at| &self.0[at].1)
    }

    pub(crate) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        self.find(key).ok().map(|at| &mut self.0[at].1)
    }

    /// The value of a key, which is put there if the key is new.
    pub(crate) fn get_or_insert(&mut self, key: K, fresh: V) -> &mut V {
        let at = self.find(key).unwrap_or_else(|at| {
            self.0.insert(at, (key, fresh));
            at
        });
        &mut self.0[at].1
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        match self.find(key) {
            Ok(at) => self.0[at].1 = value,
            Err(at) => self.0.insert(at, (key, value)),
        }
    }

    /// Takes out the first entry if it has this key.
    pub(crate) fn take_first(&mut self, key: K) -> Option<V> {
        let is_first = self.0.first().is_some_and(|(first, _)| *first == key);
        is_first.then(|| self.0.remove(0).1)
    }

    /// Drops all entries whose keys are smaller.
    pub(crate) fn drop_below(&mut self, key: K) {
        let (Ok(from) | Err(from)) = self.find(key);
        self.0.drain(..from);
    }

    pub(crate) fn entries(&self) -> &[(K, V)] {
        &self.0
    }

    pub(crate) fn entries_mut(&mut self) -> &mut [(K, V)] {
        &mut self.0
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for Sorted<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(key, value)| (key, value))).finish()
    }
}

impl<K: Serialize, V: Serialize> Serialize for Sorted<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl<'de, K: Copy + Ord + Deserialize<'de>, V: Deserialize<'de>> Deserialize<'de> for Sorted<K, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

struct Entries<K, V>(PhantomData<(K, V)>);

impl<'de, K: Copy + Ord + Deserialize<'de>, V: Deserialize<'de>> Visitor<'de> for Entries<K, V> {
    type Value = Sorted<K, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut sorted = Sorted::default();
        while let Some((key, value)) = map.next_entry()? {
            sorted.insert(key, value);
        }
        Ok(sorted)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn both(keys: &[u64]) -> (Sorted<u64, char>, BTreeMap<u64, char>) {
        let entries = keys.iter().copied().zip('a'..);
        let mut sorted = Sorted::default();
        for (key, value) in entries.clone() {
            sorted.insert(key, value);
        }
        (sorted, entries.collect())
    }

    #[test]
    fn it_is_written_and_shown_as_a_b_tree_is() {
        let (sorted, tree) = both(&[7, 3, 300, 3, 5]);
        assert_eq!(serde_json::to_string(&sorted).unwrap(), serde_json::to_string(&tree).unwrap());
        assert_eq!(postcard::to_allocvec(&sorted).unwrap(), postcard::to_allocvec(&tree).unwrap());
        assert_eq!(format!("{sorted:?}"), format!("{tree:?}"));
        let text = r#"{"5":"e","3":"d","300":"c","7":"a"}"#;
        assert_eq!(serde_json::from_str::<Sorted<u64, char>>(text).unwrap(), sorted);
    }

    #[test]
    fn what_is_below_goes_and_the_first_goes_by_its_key() {
        let (mut sorted, _) = both(&[1, 2, 4, 5]);
        sorted.drop_below(3);
        assert_eq!(sorted.entries(), [(4, 'c'), (5, 'd')]);
        assert_eq!(sorted.take_first(3), None);
        assert_eq!(sorted.take_first(4), Some('c'));
        sorted.drop_below(9);
        assert!(sorted.entries().is_empty());
    }

    #[test]
    fn a_key_keeps_the_value_it_has() {
        let (mut sorted, _) = both(&[1, 3]);
        assert_eq!(*sorted.get_or_insert(3, 'x'), 'b');
        assert_eq!(*sorted.get_or_insert(2, 'y'), 'y');
        assert_eq!(sorted.entries(), [(1, 'a'), (2, 'y'), (3, 'b')]);
        assert_eq!((sorted.get(2), sorted.get(4)), (Some(&'y'), None));
    }
}
