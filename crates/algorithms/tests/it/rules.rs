//! Every numbered rule of every description runs in some run, within the model where it may, and no
//! other number does: what traces say of rules is what the description calls so.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::support::{
    T, add_random_faults, at, comes_back, random_election, random_spec, random_watch, simulate,
    topology,
};
use conclave_algorithms::catalogue;
use conclave_protocol::{Algorithm, Asking, Channels, Detector, Family, NodeId, Setup};
use conclave_sim::{Fault, Rate, RunSpec, Spread, Tracing};

/// Descriptions with rules for what the model does not allow for, by the first entry of each.
const BEYOND: [&str; 5] = [
    "base/physical-clock-central",
    "election/superpeer-tokens",
    "election/wireless-tree",
    "mutex/lin-sigma",
    "mutex/raymond-tree",
];

/// An entry has so many runs at most.
const RUNS: u64 = 96;

#[test]
fn every_numbered_rule_runs_in_some_run() {
    let mut files: BTreeMap<&str, Vec<&'static dyn Algorithm>> = BTreeMap::new();
    for &entry in catalogue::ALL {
        files.entry(entry.info().text).or_default().push(entry);
    }
    let mut wrong = Vec::new();
    for (text, entries) in &files {
        let name = entries[0].info().id;
        let written = numbers(text);
        let mut ran = run(entries, &written, false);
        if BEYOND.contains(&name) {
            ran.extend(run(entries, &written, true));
        }
        let missing: Vec<u32> = written.difference(&ran).copied().collect();
        let unknown: Vec<u32> = ran.difference(&written).copied().collect();
        if written.is_empty() || !missing.is_empty() || !unknown.is_empty() {
            wrong.push(format!(
                "{name}: of {written:?}, {missing:?} never ran; {unknown:?} are not described"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The numbers under the heading "Rules" of a description.
fn numbers(text: &str) -> BTreeSet<u32> {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    let rules = lines.skip_while(|line| line.trim() != "# Rules").skip(1);
    let rules = rules.take_while(|line| !line.starts_with(" # "));
    rules.filter_map(|line| line.trim().split_once(". ")?.0.parse().ok()).collect()
}

/// The rules that run, until all of them have.
fn run(entries: &[&dyn Algorithm], wanted: &BTreeSet<u32>, beyond: bool) -> BTreeSet<u32> {
    let mut mask = 0;
    let numbers = |mask: u32| (1..u32::BITS).filter(|rule| mask >> rule & 1 == 1).collect();
    for seed in 0..RUNS {
        for entry in entries.iter().filter(|entry| entry.info().mutant.is_none()) {
            let Some(spec) = spec(*entry, seed, beyond) else { continue };
            let trace = simulate(*entry, &spec).trace;
            let booted = trace.booted.iter().map(|(_, step)| step.rules);
            mask |= trace.steps.values().map(|step| step.rules).chain(booted).fold(0, |a, b| a | b);
            let ran: BTreeSet<u32> = numbers(mask);
            if wanted.is_subset(&ran) {
                return ran;
            }
        }
    }
    numbers(mask)
}

/// Options that have rules of their own run, or run soon.
const SET: [(&str, &str, &str); 7] = [
    ("probe", "1000", "3"),
    ("suppression", "false", "true"),
    ("lease", "0", "60"),
    ("lease", "400", "60"),
    ("section", "50", "8"),
    ("successors", "all", "1"),
    ("mode", "reclaim", "defer"),
];

/// A run with what the model leaves open, or with more than it allows for.
fn spec(entry: &dyn Algorithm, seed: u64, beyond: bool) -> Option<RunSpec> {
    let mut setup = Setup::new(topology(entry, 2 + (seed % 6) as u32, seed));
    for option in entry.info().options.iter().filter(|_| seed % 2 == 1) {
        let set = SET.iter().find(|it| (it.0, it.1) == (option.name, option.default));
        if let Some((name, _, value)) = set {
            setup = setup.with(name, value);
        }
    }
    let elects_members = Family::of(entry.info()).elects
        && entry.info().options.iter().any(|option| option.name == "members");
    if elects_members {
        let members = setup.n().div_ceil(2);
        setup = setup.with("members", members);
    }
    entry.clients(&setup).ok()?;
    let n = setup.n();
    let family = Family::of(entry.info());
    let mut spec = match entry.info().asking() {
        _ if family.elects => random_election(entry, setup, seed),
        Asking::None => random_watch(entry, setup, seed),
        Asking::All | Asking::One => random_spec(entry, setup, seed),
    };
    spec.tracing = Tracing::Full;
    spec.events = 4_000;
    let model = entry.info().model;
    if family.inside || comes_back(entry) {
        add_random_faults(entry, &mut spec);
    }
    if seed % 3 == 1 && model.channels == Channels::Lossy {
        (spec.faults.loss, spec.faults.duplication) = (100_000, 50_000);
    }
    let mut add = |when, action| {
        spec.faults = std::mem::take(&mut spec.faults).with(when, action);
    };
    if seed % 3 == 2 && model.partitions {
        let groups = vec![vec![NodeId(0)], (1..n).map(NodeId).collect()];
        add(at(5), Fault::Partition(groups));
        add(at(25), Fault::Heal);
    }
    if elects_members {
        add(at(40), Fault::Join { node: NodeId(n - 1), sponsor: NodeId(0) });
    }
    if model.detector != Detector::None && seed % 5 == 1 {
        add(at(3), Fault::Trust { node: NodeId(0), peer: NodeId(n - 1) });
    }
    if beyond {
        let node = NodeId(seed as u32 % n);
        let when = at(1) + T * (seed % 40) as u32 / 4;
        add(when, Fault::Crash(node));
        let back =
            if seed.is_multiple_of(2) { Fault::Recover(node) } else { Fault::RecoverEmpty(node) };
        add(when + T * 20, back);
        spec.faults.loss = if seed.is_multiple_of(3) { 60_000 } else { 0 };
        (spec.detector, spec.until) = (Some(T * 2), spec.until.min(at(3_000)));
        return Some(spec);
    }
    if entry.info().options.iter().any(|option| option.name == "members") && seed % 2 == 1 {
        add(at(60), Fault::Leave(NodeId(0)));
    }
    if seed % 4 == 3 && model.detector == Detector::Eventual {
        let lasting = Some(T * 9);
        spec.faults.suspicions = Some(Rate { every: Duration::from_millis(40), lasting });
        spec.until = spec.until.min(at(2_000));
    }
    if seed % 4 == 1 && family.inside {
        // Long enough for leases to be renewed.
        spec.workload.hold = Spread::between(T, T * 15);
    }
    spec.beyond(entry.info()).is_empty().then_some(spec)
}
