//! Elections and failure detectors.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use conclave_protocol::{Mark, NodeId, Time, names};

use super::{Verdict, last, open, violated};
use crate::{End, Event, Trace, Tracing};

/// Whether the run says anything about a system at rest: it came to rest by itself, or was left
/// alone for longer than anything takes.
fn at_rest(trace: &Trace, patience: Duration) -> Option<Verdict> {
    if matches!(trace.end, End::Quiet | End::Served) {
        return None;
    }
    let disturbed = |event: Event| event.disturbs() || matches!(event, Event::Request(_));
    let mut records = trace.records.iter().rev();
    let calm = records.find(|record| disturbed(record.event())).map_or(Time::ZERO, |it| it.at);
    let why = "the run was cut off too soon, and this is said of a system at rest";
    let unseen = trace.tracing < Tracing::Events;
    (unseen || trace.ended - calm <= patience).then(|| open(why))
}

pub(super) fn one_leader(trace: &Trace, patience: Duration) -> Verdict {
    if let Some(open) = at_rest(trace, patience) {
        return open;
    }
    let mut of_group: BTreeMap<u32, Vec<NodeId>> = BTreeMap::new();
    let beliefs = trace.beliefs();
    for node in beliefs.leaders() {
        of_group.entry(beliefs.group(node)).or_default().push(node);
    }
    match of_group.into_values().find(|leaders| leaders.len() > 1) {
        Some(leaders) => {
            let why = format!("{} each take themselves for the leader", names(leaders));
            violated(last(trace), why)
        }
        None => Verdict::Held,
    }
}

pub(super) fn one_leader_per_epoch(trace: &Trace) -> Verdict {
    let mut of_epoch: BTreeMap<u64, NodeId> = BTreeMap::new();
    for (i, record) in trace.records.iter().enumerate() {
        if let Event::Notice(Mark::Follows { leader, epoch }) = record.event() {
            let first = *of_epoch.entry(epoch).or_insert(leader);
            if first != leader {
                let why = format!("{first} and {leader} both lead in epoch {epoch}");
                return violated(i, why);
            }
        }
    }
    Verdict::Held
}

pub(super) fn leader_known(trace: &Trace, patience: Duration) -> Verdict {
    if let Some(open) = at_rest(trace, patience) {
        return open;
    }
    let beliefs = trace.beliefs();
    let knows =
        |node: &NodeId| beliefs.leader_of(*node).is_some_and(|(leader, _)| beliefs.is_live(leader));
    let lost: Vec<NodeId> = beliefs.live().filter(|node| !knows(node)).collect();
    if lost.is_empty() {
        return Verdict::Held;
    }
    violated(last(trace), format!("no live leader is known to {}", names(lost)))
}

pub(super) fn best_leads(trace: &Trace, patience: Duration) -> Verdict {
    if let Some(open) = at_rest(trace, patience) {
        return open;
    }
    let beliefs = trace.beliefs();
    let Some(best) = beliefs.best() else { return Verdict::Held };
    match beliefs.followers().find(|&(_, leader, _)| leader != best) {
        None => Verdict::Held,
        Some((_, leader, _)) => violated(
            last(trace),
            format!("{leader} is taken for the leader, and {best} is the best live node"),
        ),
    }
}

/// Who suspects whom.
fn suspicions(trace: &Trace) -> (BTreeSet<(NodeId, NodeId)>, BTreeSet<NodeId>) {
    let mut suspects = BTreeSet::new();
    let mut down = BTreeSet::new();
    for record in &trace.records {
        match record.event() {
            Event::Notice(Mark::Suspects(peer)) => {
                suspects.insert((record.node, peer));
            }
            Event::Notice(Mark::Trusts(peer)) => {
                suspects.remove(&(record.node, peer));
            }
            Event::Crash => {
                down.insert(record.node);
                suspects.retain(|(node, _)| *node != record.node);
            }
            Event::Recover | Event::RecoverEmpty => {
                down.remove(&record.node);
            }
            _ => {}
        }
    }
    (suspects, down)
}

pub(super) fn completeness(trace: &Trace, patience: Duration) -> Verdict {
    let (suspects, down) = suspicions(trace);
    let live = (0..trace.nodes).map(NodeId).filter(|node| !down.contains(node));
    for node in live {
        if let Some(&missed) = down.iter().find(|&&peer| !suspects.contains(&(node, peer))) {
            let why = format!("{missed} is down and {node} does not suspect it");
            return at_rest(trace, patience).unwrap_or_else(|| violated(last(trace), why));
        }
    }
    Verdict::Held
}

pub(super) fn accuracy(trace: &Trace) -> Verdict {
    let mut down = BTreeSet::new();
    for (i, record) in trace.records.iter().enumerate() {
        match record.event() {
            Event::Crash => {
                down.insert(record.node);
            }
            Event::Recover | Event::RecoverEmpty => {
                down.remove(&record.node);
            }
            Event::Notice(Mark::Suspects(peer)) if !down.contains(&peer) => {
                return violated(i, format!("{} suspects {peer}, which is up", record.node));
            }
            _ => {}
        }
    }
    Verdict::Held
}
