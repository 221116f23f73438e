//! What the tests of the catalogue share: runs with chance in them, and what to say of them.

#![allow(dead_code, reason = "each test uses its part")]

pub(crate) mod talk;

use std::ops::Range;
use std::time::Duration;

use conclave_protocol::{
    Algorithm, Crashes, Links, NodeId, Property, Setup, Time, Timing, Topology,
};
use conclave_sim::{
    Arrivals, Ask, Costs, Delay, Fault, Faults, JudgeLimits, Outcome, Rng, RunSpec, SlowLink,
    Spread, Verdict, Workload, judge,
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

/// A system in which all talk to all.
pub(crate) fn complete(n: u32) -> Setup {
    Setup::new(Topology::complete(n))
}

/// A system on a ring.
pub(crate) fn ring(n: u32) -> Setup {
    Setup::new(Topology::ring(n))
}

/// A topology of `n` nodes that suits the algorithm, of a different shape by seed where it may.
pub(crate) fn topology(entry: &dyn Algorithm, n: u32, seed: u64) -> Topology {
    let links = entry.info().model.links;
    let names: &[&str] = match links {
        Links::Tree => &["line", "star", "binary", "tree"],
        Links::Graph | Links::Directed => &["grid", "geometric", "tree", "complete", "star"],
        Links::Space => &["grid", "geometric", "geometric3"],
        Links::Keys => &["dht"],
        Links::Complete | Links::Ring => return Topology::of(links, n),
    };
    let name = names[seed as usize % names.len()];
    conclave_sim::shape(name, n, seed).expect("there is such a shape")
}

/// A run with chance in everything its model leaves open: delays up to `T`, think and hold times;
/// each client enters three times. Where a group can grow, half the nodes have to join it first.
pub(crate) fn random_spec(entry: &dyn Algorithm, setup: Setup, seed: u64) -> RunSpec {
    let n = setup.n();
    let clients = entry.clients(&setup).expect("the algorithm fits the system");
    let mut rng = Rng::new(seed);
    let mut spec = RunSpec::new(entry.info(), setup);
    spec.seed = seed;
    let mut rounds = 3;
    if entry.info().options.iter().any(|option| option.name == "members") {
        // Long enough that to wait for membership first is not to starve.
        rounds = 6;
        let members = n.div_ceil(2);
        spec.setup = spec.setup.with("members", members);
        for node in (members..n).map(NodeId) {
            let sponsor = NodeId(rng.below(u64::from(members)) as u32);
            let when = Time::ZERO + T * rng.below(4) as u32;
            spec.faults = spec.faults.with(when, Fault::Join { node, sponsor });
        }
    }
    spec.delays = Delay::Uniform(T / 20, T).into();
    // Sometimes everybody at once, sometimes hardly ever two.
    let pause = T * rng.below(4 * u64::from(n) + 1) as u32;
    spec.workload = Workload {
        arrivals: Arrivals::Closed {
            clients,
            rounds: Some(rounds),
            first: Spread::between(Duration::ZERO, pause),
            think: Spread::between(Duration::ZERO, pause),
        },
        hold: Spread::between(Duration::ZERO, T * 2),
    };
    spec.until = at(2_000 + 400 * u64::from(n));
    spec
}

/// A run of an election with chance in everything its model leaves open: who calls it and when,
/// attributes if there are any, delays up to `T`, who crashes meanwhile and afterwards, and who
/// comes back.
pub(crate) fn random_election(entry: &dyn Algorithm, mut setup: Setup, seed: u64) -> RunSpec {
    let n = u64::from(setup.n());
    // Sizes go by the remainder modulo eight. Some attributes are equal.
    if seed / 8 % 2 == 1 && setup.attributes.is_empty() {
        let mut rng = Rng::new(seed).fork(78);
        setup.attributes = (0..n).map(|_| 1 + rng.below(n)).collect();
    }
    let mut spec = RunSpec::new(entry.info(), setup);
    let mut rng = Rng::new(seed);
    spec.seed = seed;
    spec.delays = Delay::Uniform(T / 20, T).into();
    // One caller stays up, so that the call is not lost with its caller.
    let faithful = rng.below(n);
    let span = 1 + rng.below(40) as u32;
    let moment = |rng: &mut Rng| Time::ZERO + T * span * rng.below(1_000) as u32 / 1_000;
    let mut calls = Vec::new();
    for node in 0..n {
        if node == faithful || rng.below(3) == 0 {
            let node = NodeId(node as u32);
            calls.push(Ask { node, at: moment(&mut rng), hold: None });
        }
    }
    spec.workload = Workload { arrivals: Arrivals::Plan(calls), ..Workload::idle() };
    let spared = NodeId(faithful as u32);
    spec.faults = random_crashes(entry, spec.setup.n(), spared, span, &mut rng);
    spec.linger = Some(T * 2_000);
    spec.until = at(10_000);
    spec
}

/// A run in which failure detectors watch, and nodes crash as the model allows.
pub(crate) fn random_watch(entry: &dyn Algorithm, setup: Setup, seed: u64) -> RunSpec {
    let mut spec = RunSpec::new(entry.info(), setup);
    let mut rng = Rng::new(seed);
    spec.seed = seed;
    spec.delays = Delay::Uniform(T / 20, T).into();
    spec.faults = random_crashes(entry, spec.setup.n(), NodeId(0), 60, &mut rng);
    spec.linger = Some(T * 60);
    spec.until = at(1_000);
    spec
}

/// Crashes of up to all nodes but `spared` in the first `span` units, and recoveries, as far as
/// the model allows them.
pub(crate) fn random_crashes(
    entry: &dyn Algorithm,
    n: u32,
    spared: NodeId,
    span: u32,
    rng: &mut Rng,
) -> Faults {
    let allowed = entry.info().model.crashes;
    let mut faults = Faults::none();
    if allowed == Crashes::None {
        return faults;
    }
    let odds = 1 + rng.below(4);
    for node in (0..n).map(NodeId).filter(|&node| node != spared) {
        if rng.below(odds) > 0 {
            continue;
        }
        let crash = Time::ZERO + T * span * rng.below(1_000) as u32 / 1_000;
        faults = faults.with(crash, Fault::Crash(node));
        if allowed >= Crashes::Recover && rng.below(2) == 0 {
            let back = crash + T / 10 + T * rng.below(u64::from(span)) as u32;
            let empty = allowed == Crashes::Amnesia && rng.below(2) == 0;
            let action = if empty { Fault::RecoverEmpty(node) } else { Fault::Recover(node) };
            faults = faults.with(back, action);
        }
    }
    faults
}

/// Whether it is about nodes that come back after a crash, and not about whom they elect.
pub(crate) fn comes_back(entry: &dyn Algorithm) -> bool {
    let about = [Property::Restored, Property::Resumed];
    about.iter().any(|property| entry.info().holds.contains(property))
        || entry.info().mutant.is_some_and(|it| comes_back_as(it.of))
}

/// The same of the algorithm that a mutant spoils.
fn comes_back_as(id: &str) -> bool {
    conclave_algorithms::catalogue::algorithm(id).is_some_and(comes_back)
}

/// The same run with what its model allows to go wrong: half of the seeds get crashes and
/// recoveries, and a quarter get pauses where nothing is known about time. Says whether there are
/// crashes.
pub(crate) fn add_random_faults(entry: &dyn Algorithm, spec: &mut RunSpec) -> bool {
    let (n, model) = (spec.setup.n(), entry.info().model);
    // Sizes go by the remainder modulo eight.
    let share = spec.seed / 8 % 4;
    let mut rng = Rng::new(spec.seed).fork(77);
    let crashes = share % 2 == 1 && model.crashes > Crashes::None;
    if crashes {
        // Where a group can grow, a member stays.
        let spared = NodeId(rng.below(u64::from(n.div_ceil(2))) as u32);
        let crashes = random_crashes(entry, n, spared, 60, &mut rng);
        spec.faults.plan.extend(crashes.plan);
    }
    if share == 3 && model.timing == Timing::Asynchronous {
        for _ in 0..=rng.below(4) {
            let node = NodeId(rng.below(u64::from(n)) as u32);
            let from = at(rng.below(60));
            let until = from + T * (1 + rng.below(12) as u32);
            spec.faults = std::mem::take(&mut spec.faults)
                .with(from, Fault::Pause(node))
                .with(until, Fault::Resume(node));
        }
    }
    crashes
}

/// Everybody in `who` asks at once, in unit delays, and stays inside for `hold` units.
pub(crate) fn burst(
    entry: &dyn Algorithm,
    setup: Setup,
    who: impl IntoIterator<Item = u32>,
    hold: u64,
) -> RunSpec {
    let mut spec = RunSpec::new(entry.info(), setup);
    spec.workload = Workload::burst(who.into_iter().map(NodeId), T * hold as u32);
    spec.until = at(100_000);
    spec
}

/// Runs an algorithm of the catalogue.
pub(crate) fn simulate(entry: &dyn Algorithm, spec: &RunSpec) -> Outcome {
    assert_eq!(spec.algorithm, entry.info().id, "the specification is for this algorithm");
    let outcome = conclave_lab::run(spec).expect("it is in the catalogue");
    outcome.expect("the specification makes sense")
}

/// The costs of a run.
pub(crate) fn costs(outcome: &Outcome) -> Costs {
    Costs::of(&outcome.trace)
}

/// Judges a property with patience for half the run, or a thousand units if that is more.
pub(crate) fn verdict(property: Property, outcome: &Outcome, places: u32) -> Verdict {
    // Half the run, but a short run is no sign of starvation.
    let patience = ((outcome.trace.ended - Time::ZERO) / 2).max(T * 1_000);
    judge(property, &outcome.trace, JudgeLimits { places, patience })
}

/// Whether a property held, with one place inside.
pub(crate) fn held(property: Property, outcome: &Outcome) -> bool {
    verdict(property, outcome, 1).held()
}

/// The next message of this name is lost.
pub(crate) fn lose(label: &str) -> Fault {
    Fault::Lose { label: label.to_owned() }
}

/// Everybody enters so often, asks again on leaving, and stays for two units.
pub(crate) fn saturated(entry: &dyn Algorithm, setup: Setup, rounds: u32) -> RunSpec {
    let n = setup.n();
    let mut spec = RunSpec::new(entry.info(), setup);
    spec.workload = Workload {
        arrivals: Arrivals::Closed {
            clients: 0..n,
            rounds: Some(rounds),
            first: Spread::exactly(Duration::ZERO),
            think: Spread::exactly(Duration::ZERO),
        },
        hold: Spread::exactly(T * 2),
    };
    spec
}

/// The order in which nodes entered.
pub(crate) fn order(outcome: &Outcome) -> Vec<u32> {
    let mut entered: Vec<_> =
        costs(outcome).entered().map(|entry| (entry.entered, entry.node.0)).collect();
    entered.sort_unstable();
    entered.into_iter().map(|(_, node)| node).collect()
}

/// `tenths` tenths of a unit after the beginning.
pub(crate) fn tenths(tenths: u32) -> Time {
    Time::ZERO + T * tenths / 10
}

/// A run in unit delays in which these ask: `(node, when, hold)`, in tenths of a unit.
pub(crate) fn planned(
    entry: &dyn Algorithm,
    setup: Setup,
    plan: impl IntoIterator<Item = (u32, u32, u32)>,
) -> RunSpec {
    let asks = plan.into_iter().map(|(node, when, hold)| Ask {
        node: NodeId(node),
        at: tenths(when),
        hold: Some(T * hold / 10),
    });
    let mut spec = RunSpec::new(entry.info(), setup);
    spec.workload = Workload { arrivals: Arrivals::Plan(asks.collect()), ..Workload::idle() };
    spec.until = at(100_000);
    spec
}

/// The same in whole units.
pub(crate) fn asking(entry: &dyn Algorithm, setup: Setup, plan: &[(u32, u64, u64)]) -> RunSpec {
    let tenths = |&(node, t, hold): &(u32, u64, u64)| (node, 10 * t as u32, 10 * hold as u32);
    planned(entry, setup, plan.iter().map(tenths))
}

/// Messages sent from one node to another in a span of time take longer, all in tenths of a unit.
pub(crate) fn slow(from: u32, to: u32, sent: Range<u32>, delay: u32) -> SlowLink {
    SlowLink {
        from: NodeId(from),
        to: NodeId(to),
        delay: T * delay / 10,
        since: tenths(sent.start),
        until: tenths(sent.end),
    }
}
