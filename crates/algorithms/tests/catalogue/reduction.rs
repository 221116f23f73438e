//! What reduction leaves out makes no difference: with and without it, the model checker visits the
//! same states and comes to the same verdicts, and its counter-examples are violations to the
//! simulator, too.

use conclave_algorithms::catalogue;
use conclave_check::{CheckSpec, Progress, Report, Requests, Stop, Verdict};
use conclave_protocol::{Channels, Family, Info, Links, Promise, Property, Says, Setup, Topology};
use conclave_sim::{JudgeLimits, RunSpec, Tracing, judge};
use libtest_mimic::{Failed, Trial};

/// Larger systems are left to the searches by hand.
const MOST_STATES: u64 = 30_000;

pub(crate) fn trials() -> Vec<Trial> {
    let trials = catalogue::infos().filter(|info| !Family::of(info).promises.is_empty());
    trials
        .map(|info| Trial::test(format!("reduction {}", info.id), move || compare(info)))
        .collect()
}

/// As long as there is no system small enough, only runs of so many steps: where something counts
/// on and on, there is no end to the states.
const SHORT: u32 = 12;

fn compare(info: &'static Info) -> Result<(), Failed> {
    for depth in [None, Some(SHORT)] {
        if compare_up_to(depth, info)? > 0 {
            return Ok(());
        }
    }
    Err("no system was small enough".into())
}

/// Compares all small systems in runs of so many steps; how many there are.
fn compare_up_to(depth: Option<u32>, info: &'static Info) -> Result<u32, Failed> {
    let mut compared = 0;
    for (nodes, requests) in [(2, 2), (3, 1)] {
        for channels in [Channels::Fifo, Channels::Reliable] {
            for crashes in [0, 1] {
                let Some(mut spec) = spec(info, nodes) else { continue };
                spec.limits.depth = depth;
                (spec.requests, spec.channels, spec.budgets.crashes) =
                    (Requests::AtMost(requests), channels, crashes);
                let [full, reduced] =
                    [false, true].map(|reduction| check(&CheckSpec { reduction, ..spec.clone() }));
                let cut =
                    |report: &Report| report.coverage.stop.is_some_and(|stop| stop != Stop::Depth);
                if cut(&full) || cut(&reduced) {
                    continue;
                }
                compared += 1;
                same(&spec, &full, &reduced)?;
            }
        }
    }
    Ok(compared)
}

fn spec(info: &'static Info, nodes: u32) -> Option<CheckSpec> {
    let topology = match info.model.links {
        Links::Tree => Topology::line(nodes),
        links => Topology::of(links, nodes),
    };
    let setup = Setup::new(topology);
    let clients = conclave_lab::clients(info.id, &setup)?.ok()?;
    let mut spec = CheckSpec::new(info, setup, clients);
    // What is so in each state, by the family; of the order of timestamps only some say anything.
    let always = |promise: &&Promise| promise.usual && matches!(promise.says, Says::Always(_));
    let always = Family::of(info).promises.iter().filter(always);
    spec.properties = always.map(|promise| promise.property).collect();
    spec.budgets.timers = Some(2);
    spec.limits.states = Some(MOST_STATES);
    Some(spec)
}

fn check(spec: &CheckSpec) -> Report {
    let report = conclave_lab::check(spec, &Progress::default());
    report.expect("it is in the catalogue").expect("it can be checked")
}

fn same(spec: &CheckSpec, full: &Report, reduced: &Report) -> Result<(), Failed> {
    let context = format!(
        "{} nodes, {} requests, {:?}, {} crashes",
        spec.setup.n(),
        spec.requests,
        spec.channels,
        spec.budgets.crashes
    );
    if !reduced.coverage.reduced || full.coverage.reduced {
        return Err(format!("{context}: reduction is not what was asked for").into());
    }
    let all_violated = full.violations().count() == spec.properties.len();
    let counts = |report: &Report| {
        // A search that has found everything stops, after as many states as it happened to take.
        let coverage = &report.coverage;
        (!all_violated).then_some((coverage.states, coverage.depth, coverage.terminal))
    };
    if counts(full) != counts(reduced) {
        let counts = (counts(full), counts(reduced));
        return Err(format!("{context}: states, depth and ends differ: {counts:?}").into());
    }
    for (property, a) in full.verdicts.iter().map(|it| (it.property, &it.verdict)) {
        let b = reduced.verdict(property).ok_or("a verdict is missing")?;
        match (a, b) {
            (Verdict::Violated(a), Verdict::Violated(b)) => {
                if a.decisions.len() != b.decisions.len() {
                    let lengths = (a.decisions.len(), b.decisions.len());
                    return Err(format!("{context}: {property} in {lengths:?} steps").into());
                }
                for violation in [a, b] {
                    replay(spec, property, &violation.decisions)
                        .map_err(|why| format!("{context}: {property}: {why}"))?;
                }
            }
            (a, b) if a == b => {}
            (a, b) => return Err(format!("{context}: {property} is {a:?} and {b:?}").into()),
        }
    }
    Ok(())
}

/// The simulator follows the counter-example and judges the run.
fn replay(
    spec: &CheckSpec,
    property: Property,
    decisions: &[conclave_protocol::Decision],
) -> Result<(), String> {
    let info = catalogue::find(&spec.algorithm).ok_or("it is in the catalogue")?;
    let mut run = RunSpec::new(info, spec.setup.clone());
    run.channels = spec.channels;
    run.decisions = Some(decisions.to_vec());
    run.tracing = Tracing::Full;
    let outcome = conclave_lab::run(&run).ok_or("it is in the catalogue")?;
    let outcome = outcome.map_err(|error| error.to_string())?;
    let limits = JudgeLimits { places: spec.places, ..JudgeLimits::default() };
    let verdict = judge(property, &outcome.trace, limits);
    if verdict.is_violated() {
        return Ok(());
    }
    Err(format!("the simulator finds {verdict:?}"))
}
