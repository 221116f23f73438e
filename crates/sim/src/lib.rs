//! A deterministic simulator: the same arguments and seed give the same run, on any machine.
//!
//! Read [`RunSpec`] for what can be asked of a run, [`run()`] for how to get one, then [`Trace`].
//! Everything said about a run afterwards — its [`Costs`], the [`DetectorMetrics`] of a failure detector,
//! whether a [property](judge) held — is a function of its trace.
//!
//! The simulator knows algorithms only through [`Protocol`](conclave_protocol::Protocol) and the
//! [`Observation`](conclave_protocol::Observation)s of their requests and notices.

mod costs;
mod delay;
mod detector_metrics;
mod environment;
mod faults;
mod file;
mod leaders;
mod properties;
mod queue;
mod records;
mod rng;
mod schedule;
mod shapes;
mod spec;
mod superpeers;
mod trace;
mod workload;
mod world;

pub use costs::{Costs, EntryCost, Handover, Percentiles};
pub use delay::{Delay, Delays, SlowLink};
pub use detector_metrics::{Detection, DetectorMetrics, Mistake};
pub use faults::{Fault, Faults, PlannedFault, Rate};
pub use file::{
    Ending, FileBoot, FileEvent, FileNote, Finding, Replay, TraceError, TraceFile, VERSION, replay,
};
pub use leaders::Leaders;
pub use properties::{Limits as JudgeLimits, Survey, Verdict, judge, judgeable};
pub use queue::{Calendar, Class, Key};
pub use records::Records;
pub use rng::{Rng, Spread};
pub use shapes::{DRAWN, shape};
pub use spec::{Beyond, RunSpec, SpecError, Then, Tracing};
pub use superpeers::{Gap, Spacing, Superpeers};
pub use trace::{Alarm, Event, Owner, Record, Step, Trace};
pub use workload::{Arrivals, Ask, Workload};
pub use world::{End, Outcome, Stats, World, record, run};
