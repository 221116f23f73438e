//! Nodes crash, come back, join and leave while elections go on; whenever there is peace for a
//! while, everybody agrees on the best of those who are there.
//!
//! One test per election of the catalogue: `cargo test -p conclave-algorithms --test catalogue churn`.

use std::collections::BTreeSet;

use crate::support::{T, at, simulate, topology, verdict};
use conclave_algorithms::catalogue;
use conclave_protocol::{Algorithm, Crashes, Family, NodeId, Property, Ranks, Setup};
use conclave_sim::{Arrivals, Ask, Delay, Fault, Faults, Outcome, Rng, RunSpec, Tracing, Workload};
use libtest_mimic::{Failed, Trial};

/// How many different runs each election has …
const SEEDS: u64 = 1_000;
/// … and how many times in each of them there is trouble, and then peace.
const TROUBLES: u64 = 3;
const AT_REST: [Property; 3] = [Property::OneLeader, Property::LeaderKnown, Property::BestLeads];

pub(crate) fn trials() -> Vec<Trial> {
    let elections = catalogue::ALL.iter().copied().filter(|entry| {
        let info = entry.info();
        let promises = AT_REST.iter().any(|property| info.holds.contains(property));
        Family::of(info).elects && promises
    });
    elections
        .map(|entry| Trial::test(format!("churn {}", entry.info().id), move || churn(entry)))
        .collect()
}

fn churn(entry: &dyn Algorithm) -> Result<(), Failed> {
    let (mut quiet, mut faults) = (0, 0);
    for seed in 0..SEEDS {
        let spec = troubled(entry, seed);
        // What happens up to the end of a time of peace does not depend on what comes later.
        for trouble in 1..=TROUBLES {
            let mut spec = spec.clone();
            let end = start(trouble, spec.setup.n());
            spec.faults.plan.retain(|happening| happening.at < end);
            if let Arrivals::Plan(calls) = &mut spec.workload.arrivals {
                calls.retain(|call| call.at < end);
            }
            let outcome = simulate(entry, &spec);
            quiet += 1;
            faults += spec.faults.plan.len();
            // Where there are members, the others need not know who leads them.
            if has_members(entry) {
                members_agree(&spec, &outcome, seed)?;
                continue;
            }
            for property in AT_REST.into_iter().filter(|it| entry.info().holds.contains(it)) {
                let verdict = verdict(property, &outcome, 1);
                if !verdict.held() {
                    let text = format!(
                        "{property}, seed {seed}, trouble {trouble}: {verdict:?}, {:?}",
                        (&spec.faults.plan, &spec.setup.attributes)
                    );
                    return Err(text.into());
                }
            }
        }
    }
    println!("{}: {quiet} times of peace after {faults} faults", entry.info().id);
    Ok(())
}

/// Whether some nodes are members and others not.
fn has_members(entry: &dyn Algorithm) -> bool {
    entry.info().options.iter().any(|option| option.name == "members")
}

/// Every live member follows the best of them.
fn members_agree(spec: &RunSpec, outcome: &Outcome, seed: u64) -> Result<(), Failed> {
    let first: u32 = spec.setup.option("members", spec.setup.n()).expect("a number");
    let mut members: BTreeSet<NodeId> = (0..first).map(NodeId).collect();
    for happening in &spec.faults.plan {
        match happening.action {
            Fault::Join { node, .. } => members.insert(node),
            Fault::Leave(node) => members.remove(&node),
            _ => false,
        };
    }
    members.retain(|&node| outcome.trace.leaders().is_live(node));
    let best = Ranks::new(&spec.setup.attributes).best(members.iter().copied());
    let leader = |node| outcome.trace.leaders().leader_of(node).map(|(leader, _)| leader);
    match members.iter().find(|&&node| leader(node) != best) {
        None => Ok(()),
        Some(&node) => {
            let text = format!(
                "seed {seed}: of {members:?}, {node} follows {:?} {:?}",
                leader(node),
                (&spec.faults.plan, &spec.setup)
            );
            Err(text.into())
        }
    }
}

/// When trouble number `trouble` begins, counted from 0; before it there is peace.
fn start(trouble: u64, n: u32) -> conclave_protocol::Time {
    at(trouble * (300 + 60 * u64::from(n)))
}

/// A run with several times of trouble: a node calls, and nodes crash, recover, join and leave at
/// random, as far as the model allows it.
fn troubled(entry: &dyn Algorithm, seed: u64) -> RunSpec {
    let mut rng = Rng::new(seed).fork(1);
    let n = 3 + rng.below(5) as u32;
    let model = entry.info().model;
    let mut setup = Setup::new(topology(entry, n, seed));
    if seed % 3 == 1 && !entry.info().elects_several() {
        setup.attributes = (0..n).map(|_| 1 + rng.below(u64::from(n))).collect();
    }
    let members = has_members(entry);
    if entry.info().options.iter().any(|option| option.name == "periods") {
        setup = setup.with("periods", 0);
    }
    let mut inside: Vec<bool> = vec![true; n as usize];
    if members {
        let first = n.div_ceil(2);
        setup = setup.with("members", first);
        inside[first as usize..].fill(false);
    }
    let mut spec = RunSpec::new(entry.info(), setup);
    spec.seed = seed;
    spec.delays = Delay::Uniform(T / 20, T).into();
    spec.tracing = Tracing::Events;
    let mut up = vec![true; n as usize];
    let (mut faults, mut calls) = (Faults::none(), Vec::new());
    // A majority stays, for those who need one, and so does a member.
    let spared = rng.below(u64::from(n.div_ceil(2))) as u32;
    for trouble in 0..TROUBLES {
        let mut when = start(trouble, n);
        // A node that joins and crashes before it is in leaves open whether it is a member.
        let mut touched = BTreeSet::new();
        for _ in 0..=rng.below(3) {
            when = when + T * rng.below(8) as u32 + T / 7;
            let node = rng.below(u64::from(n)) as u32;
            if members && !touched.insert(node) {
                continue;
            }
            let here = node as usize;
            let crowd = up.iter().filter(|up| **up).count() as u32;
            if members && up[here] && rng.below(2) == 0 {
                let node = NodeId(node);
                let action = match inside[here] {
                    false => Fault::Join { node, sponsor: NodeId(spared) },
                    true if node.0 != spared => Fault::Leave(node),
                    true => continue,
                };
                inside[here] = !inside[here];
                faults = faults.with(when, action);
            } else if !up[here] && model.crashes >= Crashes::Recover {
                up[here] = true;
                faults = faults.with(when, Fault::Recover(NodeId(node)));
            } else if up[here]
                && model.crashes > Crashes::None
                && node != spared
                && crowd > n / 2 + 1
            {
                up[here] = false;
                faults = faults.with(when, Fault::Crash(NodeId(node)));
            }
        }
        // The spared node calls, in the middle of it.
        let call = start(trouble, n) + T * rng.below(16) as u32;
        calls.push(Ask { node: NodeId(spared), at: call, hold: None });
    }
    calls.sort_by_key(|call| call.at);
    spec.faults = faults;
    spec.workload = Workload { arrivals: Arrivals::Plan(calls), ..Workload::idle() };
    spec.linger = Some(T * (250 + 50 * n));
    spec.until = at(100_000);
    spec
}
