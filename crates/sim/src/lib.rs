//! A deterministic simulator: the same arguments and seed give the same run, on any machine.
//!
//! Read [`RunSpec`] for what can be asked of a run, [`run()`] for how to get one, then [`Trace`].
//! Everything said about a run afterwards — its [`Costs`], the [`Quality`] of a failure detector,
//! whether a [property](judge) held — is a function of its trace.
//!
//! The simulator knows algorithms only through [`Protocol`](conclave_protocol::Protocol) and the
//! [`Mark`](conclave_protocol::Mark)s of their requests and notices.

mod beliefs;
mod costs;
mod course;
mod delay;
mod environment;
mod faults;
mod file;
mod properties;
mod quality;
mod queue;
mod records;
mod rng;
mod shapes;
mod spec;
mod superpeers;
mod trace;
mod workload;
mod world;

pub use beliefs::Beliefs;
pub use costs::{Costs, EntryCost, Handover, Percentiles};
pub use delay::{Delay, Delays, SlowLink};
pub use faults::{Action, Faults, Happening, Rate};
pub use file::{
    Ending, FileBoot, FileEvent, FileNote, Finding, Replay, TraceError, TraceFile, VERSION, replay,
};
pub use properties::{Limits as JudgeLimits, Survey, Verdict, judge, judgeable};
pub use quality::{Detection, Mistake, Quality};
pub use queue::{Calendar, Class, Key};
pub use records::Records;
pub use rng::{Rng, Spread};
pub use shapes::{DRAWN, shape};
pub use spec::{Beyond, RunSpec, SpecError, Then, Tracing};
pub use superpeers::{Gap, Spacing, Superpeers};
pub use trace::{Alarm, Event, Owner, Record, Step, Trace};
pub use workload::{Arrivals, Ask, Workload};
pub use world::{End, Outcome, Stats, World, record, run};
