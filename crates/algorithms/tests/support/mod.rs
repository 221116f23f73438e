//! What the tests of the catalogue share: runs with chance in them, and what to say of them.

#![allow(dead_code, reason = "each test uses its part")]

use std::time::Duration;

use conclave_algorithms::mutex;
use conclave_protocol::{Entry, Links, NodeId, Property, Protocol, Setup, Time, Topology};
use conclave_sim::{
    Arrivals, Costs, Delay, JudgeLimits, Outcome, Rng, RunSpec, Spread, Verdict, Workload, judge,
    run,
};

/// `T`, the unit of the theory.
pub(crate) const T: Duration = Duration::from_millis(1);

/// `t` units after the beginning.
pub(crate) fn at(t: u64) -> Time {
    Time::ZERO + T * t as u32
}

/// The nodes with these ids.
pub(crate) fn nodes<const K: usize>(ids: [u32; K]) -> [NodeId; K] {
    ids.map(NodeId)
}

/// A topology of `n` nodes that suits the algorithm; for trees, a different shape by seed.
pub(crate) fn topology<P: Protocol>(entry: &Entry<P>, n: u32, seed: u64) -> Topology {
    match entry.info.model.links {
        Links::Complete => Topology::complete(n),
        Links::Ring => Topology::ring(n),
        Links::Tree => {
            let shapes = [Topology::line(n), Topology::star(n), Topology::binary(n)];
            shapes[seed as usize % 3].clone()
        }
    }
}

/// A run with chance in everything its model leaves open: delays up to `T`, think and hold times;
/// each client enters three times.
pub(crate) fn random_spec<P: Protocol>(entry: &Entry<P>, setup: Setup, seed: u64) -> RunSpec {
    let n = setup.n();
    let config = (entry.config)(&setup).expect("the algorithm fits the system");
    let clients = (entry.clients)(&config, n);
    let mut rng = Rng::new(seed);
    let mut spec = RunSpec::new(&entry.info, setup);
    spec.seed = seed;
    spec.delays = Delay::Uniform(T / 20, T).into();
    // Sometimes everybody at once, sometimes hardly ever two.
    let pause = T * rng.below(4 * u64::from(n) + 1) as u32;
    spec.workload = Workload {
        arrivals: Arrivals::Closed {
            clients,
            rounds: Some(3),
            first: Spread::between(Duration::ZERO, pause),
            think: Spread::between(Duration::ZERO, pause),
        },
        hold: Spread::between(Duration::ZERO, T * 2),
    };
    spec.until = at(2_000 + 400 * u64::from(n));
    spec
}

/// Everybody in `who` asks at once, in unit delays, and stays inside for `hold` units.
pub(crate) fn burst<P: Protocol>(
    entry: &Entry<P>,
    setup: Setup,
    who: impl IntoIterator<Item = u32>,
    hold: u64,
) -> RunSpec {
    let mut spec = RunSpec::new(&entry.info, setup);
    spec.workload = Workload::burst(who.into_iter().map(NodeId), T * hold as u32);
    spec.until = at(100_000);
    spec
}

/// Runs an algorithm of mutual exclusion.
pub(crate) fn simulate<P: mutex::Algorithm>(entry: &Entry<P>, spec: &RunSpec) -> Outcome {
    run::<P, mutex::Client>(entry, spec).expect("the specification makes sense")
}

/// The costs of a run.
pub(crate) fn costs(outcome: &Outcome) -> Costs {
    Costs::of(&outcome.trace)
}

/// Judges a property with patience for half the run.
pub(crate) fn verdict(property: Property, outcome: &Outcome, places: u32) -> Verdict {
    let patience = (outcome.at - Time::ZERO) / 2;
    judge(property, outcome, JudgeLimits { places, patience })
}

/// The order in which nodes entered.
pub(crate) fn order(outcome: &Outcome) -> Vec<u32> {
    let mut entered: Vec<_> =
        costs(outcome).entered().map(|entry| (entry.entered, entry.node.0)).collect();
    entered.sort_unstable();
    entered.into_iter().map(|(_, node)| node).collect()
}
