use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{NodeId, Topology};

/// The make-up of a system, from which an algorithm derives its constants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// Who exists, and who has a link to whom.
    pub topology: Topology,
    /// `T`: the longest a message takes, as far as a synchronous algorithm may rely on it.
    pub delay: Duration,
    /// `Tproc`: the longest a rule takes to answer.
    pub processing: Duration,
    /// What makes a node a good leader, beside its id: capacity, battery, place. One for each node,
    /// or none at all if they are all alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<u64>,
    /// What was set by name; see [`Info::options`](crate::Info::options).
    pub options: BTreeMap<String, String>,
}

impl Setup {
    /// A system with the given topology, `T` of one millisecond, and nothing else set.
    pub fn new(topology: Topology) -> Self {
        Self {
            topology,
            delay: Duration::from_millis(1),
            processing: Duration::ZERO,
            attributes: Vec::new(),
            options: BTreeMap::new(),
        }
    }

    /// The same with an attribute for each node.
    #[must_use]
    pub fn with_attributes(mut self, attributes: impl Into<Vec<u64>>) -> Self {
        self.attributes = attributes.into();
        self
    }

    /// How good a leader each node is; there must be an attribute for each, or for none.
    pub fn ranks(&self) -> Result<Ranks, Unfit> {
        match self.attributes.len() {
            0 => Ok(Ranks::default()),
            many if many == self.n() as usize => Ok(Ranks::new(&self.attributes)),
            many => Err(Unfit::new(format!(
                "there are {many} attributes for {} nodes; give one for each, or none",
                self.n()
            ))),
        }
    }

    /// The same with an option set.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.options.insert(name.to_owned(), value.to_string());
        self
    }

    /// How many nodes there are.
    pub fn n(&self) -> u32 {
        self.topology.len()
    }

    /// The option `name`, or `default` if it is not set.
    pub fn option<T: FromStr<Err: fmt::Display>>(
        &self,
        name: &str,
        default: T,
    ) -> Result<T, Unfit> {
        self.optional(name).map(|value| value.unwrap_or(default))
    }

    /// The option `name`, if it is set.
    pub fn optional<T: FromStr<Err: fmt::Display>>(&self, name: &str) -> Result<Option<T>, Unfit> {
        let Some(text) = self.options.get(name) else { return Ok(None) };
        let value = text.parse();
        value.map(Some).map_err(|e| Unfit::new(format!("{name}={text} cannot be read: {e}")))
    }
}

/// How good a leader a node is: by its attribute, and by its id if attributes are equal, so that no
/// two ranks are.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Rank {
    /// What counts first.
    pub attribute: u64,
    /// Whose rank it is.
    pub node: NodeId,
}

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.attribute, self.node)
    }
}

/// How good a leader each node is.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Ranks(Arc<[u64]>);

impl Ranks {
    /// By these attributes; a node without one has 0.
    pub fn new(attributes: &[u64]) -> Self {
        Self(attributes.into())
    }

    /// The rank of `node`.
    #[inline]
    pub fn of(&self, node: NodeId) -> Rank {
        Rank { attribute: self.0.get(node.index()).copied().unwrap_or(0), node }
    }

    /// The best of `nodes`.
    pub fn best(&self, nodes: impl IntoIterator<Item = NodeId>) -> Option<NodeId> {
        nodes.into_iter().map(|node| self.of(node)).max().map(|rank| rank.node)
    }
}

/// Why an algorithm cannot run in the system described by a [`Setup`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit(String);

impl Unfit {
    /// `reason` says what does not fit and what would.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unfit {}
