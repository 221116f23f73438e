//! Properties, as functions of a trace.

mod limits;
mod section;
mod watch;

#[cfg(test)]
mod tests;

use std::time::Duration;

use conclave_protocol::{Info, Property};
use serde::Serialize;

pub use self::limits::Limits;
use crate::{End, Trace, Tracing};

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
        matches!(self, Self::Held)
    }
}

/// The properties that a run of the algorithm is to be judged by: those that make sense for its
/// family, and whatever it claims or disclaims.
///
/// Whether grants follow the requests' timestamps shows only in tokens that are timestamps, which
/// those of an algorithm that does not promise that order need not be.
pub fn judgeable(info: &Info) -> Vec<Property> {
    let family: &[Property] = match info.family() {
        "mutex" => &[
            Property::Exclusion,
            Property::NoDeadlock,
            Property::NoStarvation,
            Property::FcfsHappenedBefore,
            Property::FenceOrder,
        ],
        "election" => &[
            Property::OneLeader,
            Property::OneLeaderPerEpoch,
            Property::LeaderKnown,
            Property::BestLeads,
        ],
        "fd" => &[Property::Completeness, Property::Accuracy],
        _ => &[],
    };
    // Where several lead on purpose, it makes no sense to ask for one.
    let several = info.elects_several();
    let family = if several { &[] } else { family };
    let breaks = |property| info.mutant.is_some_and(|mutant| mutant.breaks == property);
    let wanted = |property: &Property| {
        let promised = info.holds.contains(property) || breaks(*property);
        let failing = info.fails.iter().any(|(fails, _)| fails == property);
        let stamped = *property != Property::FcfsTimestamp;
        promised || stamped && !several && (failing || family.contains(property))
    };
    Property::ALL.into_iter().filter(wanted).collect()
}

/// Judges a property of a run, by its trace alone.
///
/// What is said of the end of things is judged only where the run shows it: a run that came to its
/// end by itself, or one that was cut off after more than the [patience](Limits::patience) that any
/// run within the model needs, nothing having been done to the system meanwhile.
pub fn judge(property: Property, trace: &Trace, limits: Limits) -> Verdict {
    let at_rest = [Property::OneLeader, Property::LeaderKnown, Property::BestLeads];
    if trace.tracing < Tracing::Events && !at_rest.contains(&property) {
        return open("the run was not recorded");
    }
    // Decisions that come to an end say nothing about those that could have followed.
    let followed = trace.end == End::Decisions;
    let patience = if followed { Duration::MAX } else { limits.patience };
    match property {
        Property::Exclusion => section::exclusion(trace, limits.places),
        Property::NoDeadlock => section::no_deadlock(trace, patience),
        Property::NoStarvation => section::no_starvation(trace, patience),
        Property::FcfsHappenedBefore => section::fcfs_happened_before(trace),
        // The token of an algorithm that promises this is the request's timestamp.
        Property::FcfsTimestamp | Property::FenceOrder => section::fence_order(trace),
        Property::OneLeader => watch::one_leader(trace, patience),
        Property::OneLeaderPerEpoch => watch::one_leader_per_epoch(trace),
        Property::LeaderKnown => watch::leader_known(trace, patience),
        Property::BestLeads => watch::best_leads(trace, patience),
        Property::Completeness => watch::completeness(trace, patience),
        Property::Accuracy => watch::accuracy(trace),
    }
}

fn violated(record: usize, why: impl Into<String>) -> Verdict {
    Verdict::Violated { record, why: why.into() }
}

fn open(why: impl Into<String>) -> Verdict {
    Verdict::Open { why: why.into() }
}

/// The record that stands for something that did not happen: the last one.
fn last(trace: &Trace) -> usize {
    trace.records.len().saturating_sub(1)
}
