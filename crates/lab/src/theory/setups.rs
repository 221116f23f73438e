//! The cases of the theory as runs of the simulator.
//!
//! How each case is brought about stands beside its algorithm, in
//! [`Info::cases`](conclave_protocol::Info::cases).

use std::collections::BTreeMap;

use crate::catalogue;
use conclave_protocol::theory::{Asks, Case, Given, Pace, Provided, Run};
use conclave_protocol::{Info, Time};
use conclave_sim::{
    Arrivals, Costs, Delay, Event, Fault, Outcome, PlannedFault, RunSpec, Spread, Workload,
};

pub use conclave_protocol::theory::{Experiment, Scope, T, at};

use super::Row;
use super::formula::{Params, whole};

/// `E` where a case does not say how long a process stays inside, in units of `T`.
const STAY: u32 = 50;

/// The parameters of a row: those of its instances and some more.
pub fn parameters(row: &Row) -> Vec<Params> {
    let worked_out = row.instances().map(|(params, _)| params);
    let further = find(row).map_or(&[][..], |(_, case)| case.further).iter().map(|params| {
        params.iter().map(|&(name, value)| (name.to_owned(), whole(value))).collect()
    });
    let mut all: Vec<Params> = worked_out.chain(further).collect();
    for params in &mut all {
        params.entry("T".into()).or_insert_with(|| whole(1));
        params.entry("E".into()).or_insert_with(|| whole(STAY));
    }
    all
}

/// A row as it can be run: the algorithm, the case, and every way to set it up.
pub type Runnable = (&'static Info, &'static Case, Vec<Experiment>);

/// The ways to set up the case of a row, or why there are none.
pub fn experiments(row: &Row, params: &Params) -> Result<Runnable, String> {
    let (info, case) =
        find(row).ok_or_else(|| format!("{} does not say how to run {row}", row.id))?;
    let small = |value: u64| value.try_into().expect("parameters are small");
    let values: BTreeMap<String, u32> = params
        .iter()
        .filter_map(|(name, value)| Some((name.clone(), small(value.to_u64()?))))
        .collect();
    let shapes = |name: &str, n, seed| conclave_sim::shape(name, n, seed).expect("there is such");
    Ok((info, case, (case.plan)(&Given::new(values, shapes))))
}

/// The entry that a row is about, and its case.
fn find(row: &Row) -> Option<(&'static Info, &'static Case)> {
    let info = catalogue::find(&row.id)?;
    let mut own = info.cases.iter().filter(|case| case.of.is_none());
    Some((info, own.find(|case| case.scenario == row.scenario)?))
}

/// The run as one of the simulator's.
pub fn spec(info: &Info, run: &Run) -> RunSpec {
    let mut spec = RunSpec::new(info, run.setup.clone());
    let up_to = |most| Spread::between(Default::default(), most);
    let arrivals = match &run.asks {
        Asks::Planned(asks) => Arrivals::Plan(asks.clone()),
        Asks::Again { clients, rounds, think } => Arrivals::Closed {
            clients: clients.clone(),
            rounds: *rounds,
            first: up_to(*think),
            think: up_to(*think),
        },
        Asks::Open { clients } => {
            Arrivals::Open { clients: clients.clone(), rounds: None, every: T }
        }
    };
    spec.workload = Workload { arrivals, hold: Spread::exactly(run.stay.unwrap_or_default()) };
    let unit = run.setup.delay;
    spec.delays = match run.pace {
        Pace::Unit => Delay::Constant(unit).into(),
        Pace::Serial => Delay::Serial(unit).into(),
        Pace::Varying => Delay::Uniform(unit / 20, unit).into(),
    };
    for &(node, at) in &run.crashes {
        spec.faults.plan.push(PlannedFault { at, action: Fault::Crash(node) });
    }
    spec.faults.plan.sort_by_key(|happening| happening.at);
    spec.seed = run.seed;
    if !run.served {
        spec.linger = None;
    }
    spec.until = run.until.unwrap_or(Time::MAX);
    if !run.detector {
        spec.detector = None;
    }
    spec
}

/// Whether the run is an example of the case.
pub fn is_example(provided: Provided, outcome: &Outcome, costs: &Costs) -> bool {
    let Provided::Messages { node, sent, received } = provided else { return true };
    let (mut asked, mut granted) = (0, 0);
    for record in &outcome.trace.records {
        match record.event() {
            Event::Send { label, .. } if record.node == node => {
                asked += u64::from(outcome.trace.name(label).starts_with(sent.0));
            }
            Event::Deliver { label, .. } if record.node == node => {
                granted += u64::from(outcome.trace.name(label).starts_with(received.0));
            }
            _ => {}
        }
    }
    let served = costs.entries.iter().all(|entry| entry.left.is_some());
    served && (asked, granted) == (sent.1, received.1)
}
