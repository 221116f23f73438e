//! One coordinator or several: what they cost, what they survive, and how they fail.

mod one;
mod several;
mod sigma;

use std::time::Duration;

use crate::support::talk::talkative;
use crate::support::{T, at, burst, costs, order, random_spec, simulate, verdict};
use conclave_algorithms::mutex::{self, centralized, replicated_coordinator as replicated};
use conclave_protocol::{Algorithm, Entry, Hosted, NodeId, Property, Setup, Time, Topology};
use conclave_sim::{
    Arrivals, Ask, Delay, End, Event, Fault, Faults, JudgeLimits, Outcome, Rng, RunSpec, SlowLink,
    Spread, Verdict, Workload, World, judge,
};

fn system(n: u32) -> Setup {
    Setup::new(Topology::complete(n))
}

fn ask(node: u32, t: u64, hold: u64) -> Ask {
    Ask { node: NodeId(node), at: at(t), hold: Some(T * hold as u32) }
}

/// These requests, in unit delays.
fn plan(entry: &dyn Algorithm, setup: Setup, asks: impl Into<Vec<Ask>>) -> RunSpec {
    let mut spec = RunSpec::new(entry.info(), setup);
    spec.workload =
        Workload { arrivals: Arrivals::Plan(asks.into()), hold: Spread::exactly(Duration::ZERO) };
    spec.until = at(20_000);
    spec
}

/// A link that is slow for what is sent at the very beginning.
fn slow_at_first(from: u32, to: u32, t: u64) -> SlowLink {
    let (from, to) = (NodeId(from), NodeId(to));
    SlowLink { from, to, delay: T * t as u32, since: Time::ZERO, until: at(1) }
}

fn labels(outcome: &Outcome) -> Vec<String> {
    let sent = outcome.trace.records.iter().filter_map(|record| match record.event() {
        Event::Send { label, .. } => Some(outcome.trace.name(label).to_owned()),
        _ => None,
    });
    sent.collect()
}

/// Judges with patience for a thousand units.
fn holds(outcome: &Outcome, properties: &[Property]) -> Result<(), Verdict> {
    let limits = JudgeLimits { places: 1, patience: T * 1000 };
    let verdicts = properties.iter().map(|&property| judge(property, &outcome.trace, limits));
    verdicts.filter(|verdict| !verdict.held()).try_for_each(Err)
}

const SAFE: &[Property] = &[Property::Exclusion, Property::FenceOrder];
const LIVE: &[Property] =
    &[Property::Exclusion, Property::FenceOrder, Property::NoDeadlock, Property::NoStarvation];

/// Each of the nodes 0 to `n` resets at random moments, on average every `mean` units, until `end`.
fn resets(n: u32, mean: u64, end: u64, seed: u64) -> Faults {
    let mut rng = Rng::new(seed ^ 0x5eed);
    let mut faults = Faults::none();
    for node in (0..n).map(NodeId) {
        let mut t = rng.exponential(mean * 1_000_000);
        while t < end * 1_000_000 {
            faults = faults.with(Time::from_nanos(t), Fault::Reset(node));
            t += rng.exponential(mean * 1_000_000);
        }
    }
    faults
}

/// `n` coordinators, of which `m` must agree, and so many clients.
fn group(n: u32, m: u32, clients: u32) -> Setup {
    system(n + clients).with("coordinators", n).with("majority", m)
}
