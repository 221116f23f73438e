//! Properties, as functions of a trace.

mod limits;
mod scene;
mod survey;

#[cfg(test)]
mod tests;

use conclave_protocol::{Family, Info, Property};
use serde::Serialize;

pub use self::limits::Limits;
pub use self::survey::Survey;
use crate::Trace;

/// What can be said of a property after a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum Verdict {
    /// The run satisfies it.
    Held,
    /// The run violates it.
    Violated {
        /// The event that did, as an index into the trace; the last one if it is an absence.
        record: usize,
        /// In words.
        why: String,
    },
    /// The run satisfies it, since there was nothing that it speaks of.
    Vacuous {
        /// What there was none of.
        why: String,
    },
    /// The run does not tell.
    Open {
        /// Why not.
        why: String,
    },
}

impl Verdict {
    /// Whether the run violates the property.
    pub fn is_violated(&self) -> bool {
        matches!(self, Self::Violated { .. })
    }

    /// Whether the run satisfies the property.
    pub fn held(&self) -> bool {
        matches!(self, Self::Held | Self::Vacuous { .. })
    }
}

/// The properties that a run of the algorithm is to be judged by: those that make sense for its
/// family, and whatever it claims or disclaims.
///
/// Whether grants follow the requests' timestamps shows only in tokens that are timestamps, which
/// those of an algorithm that does not promise that order need not be.
pub fn judgeable(info: &Info) -> Vec<Property> {
    // Where several lead on purpose, it makes no sense to ask for one.
    let several = info.elects_several();
    let usual = |property| {
        let mut promises = Family::of(info).promises.iter();
        promises.any(|promise| promise.usual && promise.property == property)
    };
    let breaks = |property| info.mutant.is_some_and(|mutant| mutant.breaks == property);
    let wanted = |property: &Property| {
        let promised = info.holds.contains(property) || breaks(*property);
        let failing = info.fails.iter().any(|(fails, _)| fails == property);
        let stamped = *property != Property::FcfsTimestamp;
        promised || stamped && !several && (failing || usual(*property))
    };
    Property::ALL.into_iter().filter(wanted).collect()
}

/// Judges a property of a run, by its trace alone. Who wants to know about several, or what the run
/// cost, too, makes a [`Survey`].
pub fn judge(property: Property, trace: &Trace, limits: Limits) -> Verdict {
    Survey::new(trace, &[property], limits.places).verdict(property, limits.patience)
}

fn violated(record: usize, why: impl Into<String>) -> Verdict {
    Verdict::Violated { record, why: why.into() }
}

fn open(why: impl Into<String>) -> Verdict {
    Verdict::Open { why: why.into() }
}
