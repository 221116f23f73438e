use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Topology;

/// The make-up of a system, from which an algorithm derives its constants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// Who exists, and who has a link to whom.
    pub topology: Topology,
    /// `T`: the longest a message takes, as far as a synchronous algorithm may rely on it.
    pub delay: Duration,
    /// `Tproc`: the longest a rule takes to answer.
    pub processing: Duration,
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
            options: BTreeMap::new(),
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
