//! What the catalogue claims about mutual exclusion, elections and failure detectors, checked over
//! all runs of small systems: every promise holds, every disclaimer and every mutant is refuted by a
//! run of the length that stands beside the entry.
//!
//! One test per entry: `cargo test -p conclave-algorithms --test catalogue claims`.

use std::collections::BTreeSet;

use crate::support::talk::Talkative;
use conclave_algorithms::catalogue;
use conclave_algorithms::mutex::{
    self, centralized, dijkstra_self_stabilizing_ring as registers, physical_clock_order as clock,
    token_ring, token_ring_ft, token_ring_handler, token_ring_loss_probe, token_ring_misra,
    token_ring_on_demand,
};
use conclave_check::{CheckSpec, Progress, Report, Stop, Verdict, Violation};
use conclave_lab::claims::{self, Check, Expected, Size};
use conclave_protocol::{Decision, Entry, Info, Observation, Property};
use conclave_sim::{End, Event, RunSpec, Tracing};
use libtest_mimic::{Failed, Trial};

pub(crate) fn trials() -> Vec<Trial> {
    let trial =
        |info: &'static Info| Trial::test(format!("claims {}", info.id), move || entry(info));
    let complete = Trial::test("claims are all checked", every_claim_is_checked);
    let claiming = catalogue::infos().filter(|info| !info.claims.is_empty());
    claiming.map(trial).chain([complete]).collect()
}

fn every_claim_is_checked() -> Result<(), Failed> {
    let mut missing = Vec::new();
    for (info, holds, fails) in claims::owed() {
        let about = |property: Property, holds: bool| {
            let says = |check: &&Check| match check.expected {
                Expected::Holds => holds,
                Expected::Fails(_) | Expected::Loops(..) => !holds,
                Expected::Unchecked(_) => true,
            };
            info.claims.iter().filter(says).any(|check| check.properties.contains(&property))
        };
        let holds = holds.into_iter().map(|property| (property, true));
        let fails = fails.into_iter().map(|property| (property, false));
        for (property, holds) in holds.chain(fails).filter(|&(it, holds)| !about(it, holds)) {
            let word = if holds { "promises" } else { "disclaims" };
            missing.push(format!("{} {word} {property}", info.id));
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(missing.join("; ").into()) }
}

fn entry(info: &'static Info) -> Result<(), Failed> {
    let mut wrong = Vec::new();
    for check in info.claims {
        let Some(spec) = claims::spec(check, info) else { continue };
        let spec = spec.map_err(|unfit| format!("{check:?}: {unfit}"))?;
        let beyond = spec.beyond(info);
        if check.expected == Expected::Holds && beyond.is_empty() == check.beyond {
            wrong.push(format!("{check:?}: beyond the model are {beyond:?}"));
        }
        let report = if check.talk { in_talk(info, &spec) } else { plain(&spec) };
        let report = report.ok_or("it does not talk")?;
        let (states, depth) = (report.coverage.states, report.coverage.depth);
        println!("{}: {} nodes, {states} states, {depth} deep", info.id, check.nodes);
        for &property in check.properties {
            if let Some(Verdict::Violated(violation)) = report.verdict(property)
                && !check.talk
            {
                go_round(info, &spec, property, violation)?;
            }
            if let Some(found) = contradiction(check, &report, property) {
                let Check { nodes, requests, expected, budgets, .. } = check;
                wrong.push(format!(
                    "{property} with {nodes} nodes, {requests} requests, {budgets:?}, {states} \
                     states, {depth} deep: expected {expected:?}, found {found}"
                ));
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

/// Follows an endless run in the simulator, three times round its loop.
fn go_round(
    info: &Info,
    spec: &CheckSpec,
    property: Property,
    violation: &Violation,
) -> Result<(), Failed> {
    let Some(from) = violation.loop_from else { return Ok(()) };
    let (way, round) = violation.decisions.split_at(from);
    let follow = |decisions: Vec<Decision>| {
        let mut run = RunSpec::new(info, spec.setup.clone());
        (run.tracing, run.decisions) = (Tracing::Full, Some(decisions));
        conclave_lab::run(&run).expect("it is in the catalogue").expect("it runs")
    };
    let before = follow(way.to_vec()).trace.records.len();
    let outcome = follow([way, round, round, round].concat());
    if outcome.trace.end != End::Decisions {
        return Err(
            format!("{property}: the loop cannot be followed: {:?}", outcome.trace.end).into()
        );
    }
    // Who waits when the loop begins, and who enters in it.
    let (mut waiting, mut entered) = (BTreeSet::new(), BTreeSet::new());
    for (place, record) in outcome.trace.records.iter().enumerate() {
        match record.event() {
            Event::Request(Observation::Asked) if place < before => {
                waiting.insert(record.node);
            }
            Event::Notice(Observation::Entered { .. }) if place < before => {
                waiting.remove(&record.node);
            }
            Event::Notice(Observation::Entered { .. }) => {
                entered.insert(record.node);
            }
            _ => {}
        }
    }
    let violated = match property {
        Property::NoDeadlock => !waiting.is_empty() && entered.is_empty(),
        Property::NoStarvation => !waiting.is_subset(&entered),
        _ => true,
    };
    let text = || format!("{property}: {waiting:?} wait, and in the loop {entered:?} enter").into();
    if violated { Ok(()) } else { Err(text()) }
}

/// What was found, if it is not what was expected.
fn contradiction(check: &Check, report: &Report, property: Property) -> Option<String> {
    let verdict = report.verdict(property)?;
    let depth = report.coverage.depth;
    let expected = match (check.expected, check.size, verdict) {
        (Expected::Holds, Size::Whole, Verdict::Holds) => true,
        (Expected::Holds, Size::Bounded(most), Verdict::Open) => {
            report.coverage.stop == Some(Stop::Depth) && depth == most
        }
        (Expected::Fails(steps), _, Verdict::Violated(violation)) => {
            violation.loop_from.is_none() && violation.decisions.len() == steps
        }
        (Expected::Loops(steps, from), _, Verdict::Violated(violation)) => {
            violation.loop_from == Some(from) && violation.decisions.len() == steps
        }
        _ => false,
    };
    let found = || match verdict {
        Verdict::Violated(violation) => {
            let (steps, from) = (violation.decisions.len(), violation.loop_from);
            format!("a violation of {steps} steps, loop from {from:?}: {}", violation.why)
        }
        other => format!("{other:?}"),
    };
    (!expected).then(found)
}

fn plain(spec: &CheckSpec) -> Option<Report> {
    let report = conclave_lab::check(spec, &Progress::default())?;
    Some(report.expect("the check makes sense"))
}

/// The same where a node that asks tells all others, beside the algorithm.
fn in_talk(info: &Info, spec: &CheckSpec) -> Option<Report> {
    macro_rules! talk {
        ($($entry:path),+ $(,)?) => {
            $(if info.id == $entry.info.id {
                return Some(talkative(&$entry, spec));
            })+
        };
    }
    talk!(
        centralized::PLAIN,
        centralized::TOKEN,
        centralized::TIMESTAMPED,
        clock::PLAIN,
        clock::LITERAL,
        token_ring::PLAIN,
        token_ring_on_demand::PLAIN,
        token_ring_handler::HANDLER,
        token_ring_loss_probe::PLAIN,
        token_ring_misra::PLAIN,
        token_ring_ft::PLAIN,
        registers::PLAIN,
        registers::SETTLED,
    );
    None
}

fn talkative<P: mutex::Algorithm>(entry: &Entry<P>, spec: &CheckSpec) -> Report {
    let Entry { info, config, clients } = *entry;
    let entry = Entry::<Talkative<P>> { info, config, clients };
    let report = conclave_check::check(&entry, spec, &Progress::default());
    report.expect("the check makes sense")
}
