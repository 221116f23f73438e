use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How often an application asks.
///
/// In JSON it is a number or the word `endless`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Requests {
    /// So often at most.
    AtMost(u32),
    /// Again and again. The number of requests made so far is then part of no state, so that an
    /// endless run returns to a state it was in.
    Endless,
}

/// The word for requests without end.
const ENDLESS: &str = "endless";

impl Requests {
    /// Whether there is one left.
    pub fn any(self) -> bool {
        self != Self::AtMost(0)
    }

    /// What is left after one of them.
    pub fn less_one(self) -> Self {
        match self {
            Self::AtMost(left) => Self::AtMost(left - 1),
            Self::Endless => Self::Endless,
        }
    }

    /// How many there are, if there is an end to them.
    pub fn count(self) -> Option<u32> {
        match self {
            Self::AtMost(count) => Some(count),
            Self::Endless => None,
        }
    }
}

impl From<u32> for Requests {
    fn from(count: u32) -> Self {
        Self::AtMost(count)
    }
}

impl fmt::Display for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(count) => count.fmt(f),
            Self::Endless => f.write_str(ENDLESS),
        }
    }
}

impl FromStr for Requests {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == ENDLESS {
            return Ok(Self::Endless);
        }
        let count = text.parse().map(Self::AtMost);
        count.map_err(|_| format!("{text} is neither a number nor {ENDLESS}"))
    }
}

impl Serialize for Requests {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::AtMost(count) => serializer.serialize_u32(*count),
            Self::Endless => serializer.serialize_str(ENDLESS),
        }
    }
}

impl<'de> Deserialize<'de> for Requests {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Text {
            Count(u32),
            Word(String),
        }
        match Text::deserialize(deserializer)? {
            Text::Count(count) => Ok(Self::AtMost(count)),
            Text::Word(word) => word.parse().map_err(serde::de::Error::custom),
        }
    }
}
