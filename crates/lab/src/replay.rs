//! A recorded run, run again and compared event by event.

use conclave_protocol::Info;
use conclave_sim::{FileEvent, Finding, Outcome, Replay, RunSpec, TraceFile, Tracing};
use serde::Serialize;

use crate::report::{Report, RunData};
use crate::{Refusal, find, simulate};

/// A run that was run again.
#[derive(Debug)]
pub struct Replayed {
    /// The algorithm.
    pub info: &'static Info,
    /// What was run.
    pub spec: RunSpec,
    /// What happened this time.
    pub outcome: Outcome,
    /// What the file says that it shows.
    pub shows: Option<Finding>,
    /// Whether the same happened.
    pub same: Replay,
}

/// The run and the comparison: what `replay --json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct ReplayData<'a> {
    /// The run.
    #[serde(flatten)]
    pub run: RunData<'a>,
    /// What the file says that it shows.
    pub shows: Option<&'a Finding>,
    /// Whether the same happened.
    pub replay: SameData<'a>,
}

/// Whether the same happened.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum SameData<'a> {
    /// It did.
    Identical {
        /// Always true.
        identical: bool,
        /// How many events there are.
        events: usize,
    },
    /// It did not.
    Differs {
        /// Always false.
        identical: bool,
        /// The first event that differs.
        event: usize,
        /// What the file has there, if anything.
        recorded: Option<&'a FileEvent>,
        /// What happened this time, if anything.
        replayed: Option<&'a FileEvent>,
    },
}

/// Runs the specification of a file again.
pub fn replay(file: &TraceFile) -> Result<Replayed, Refusal> {
    let info = find(&file.spec.algorithm)?;
    let spec = RunSpec { tracing: Tracing::Full, ..file.spec.clone() };
    let outcome = simulate(&spec)?;
    let same = conclave_sim::replay(file, &outcome);
    Ok(Replayed { info, spec, outcome, shows: file.verdict.clone(), same })
}

impl Replayed {
    /// Whether the same happened.
    pub fn is_identical(&self) -> bool {
        matches!(self.same, Replay::Identical { .. })
    }

    /// What can be said about the run.
    pub fn report(&self) -> Report<'_> {
        Report::new(self.info, &self.spec, &self.outcome)
    }

    /// Everything, for programs; `report` is that of this run.
    pub fn data<'a>(&'a self, report: &'a Report<'_>) -> ReplayData<'a> {
        let replay = match &self.same {
            Replay::Identical { events } => {
                SameData::Identical { identical: true, events: *events }
            }
            Replay::Differs { event, recorded, replayed } => SameData::Differs {
                identical: false,
                event: *event,
                recorded: recorded.as_deref(),
                replayed: replayed.as_deref(),
            },
        };
        ReplayData { run: report.data(), shows: self.shows.as_ref(), replay }
    }
}
