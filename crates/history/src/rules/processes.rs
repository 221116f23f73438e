//! How processes end.

use std::collections::BTreeMap;

use crate::index::Index;
use crate::{Ending, Event, Kind, Rule, Time, Verdict};

/// What is known of a process.
#[derive(Default)]
struct Process {
    started: Option<usize>,
    struck: bool,
    /// The last command that it ran: when that was last seen, how it ended, and where that is written.
    ran: Option<(Time, Option<i32>, usize)>,
}

pub(crate) fn judge(index: &Index<'_>, verdict: &mut Verdict) {
    let mut processes: BTreeMap<&str, Process> = BTreeMap::new();
    for (place, event) in index.events.iter().enumerate() {
        match event {
            Event::Started { name, .. } => {
                processes.entry(name).or_default().started = Some(place);
                verdict.judged(Rule::Progress, 1);
            }
            Event::Struck { name, .. } => processes.entry(name).or_default().struck = true,
            Event::Ran { name, last, code, .. } => {
                let process = processes.entry(name).or_default();
                process.ran = process.ran.max(Some((*last, *code, place)));
            }
            Event::Asked { .. } => verdict.judged(Rule::Progress, 1),
            Event::Hung { what, since, at } => {
                let span = (at - since) as f64 / 1e9;
                let says = format!("{what} did not end for {span:.1} s without faults");
                verdict.violated(Rule::Progress, says, vec![place]);
            }
            Event::NodeExited { ending, expected, said, at } => {
                verdict.judged(Rule::Node, 1);
                if Some(*ending) != *expected {
                    let asked = expected.map_or_else(|| "go on".to_owned(), |e| format!("{e}"));
                    let says = format!(
                        "the node ended with {ending} at {}, but was to {asked}; it said: {said}",
                        index.ms(*at)
                    );
                    verdict.violated(Rule::Node, says, vec![place]);
                }
            }
            _ => {}
        }
    }
    let faults = faults(index.events);
    for (place, event) in index.events.iter().enumerate() {
        let Event::Exited { name, ending, said, at } = event else { continue };
        let Some((process, started)) =
            processes.get(name.as_str()).and_then(|process| Some((process, process.started?)))
        else {
            continue;
        };
        if process.struck {
            verdict.not_judged(Rule::Exit, "the process was killed or stopped");
            continue;
        }
        verdict.judged(Rule::Exit, 1);
        let events = index.events;
        let refused = faults.iter().any(|(from, to)| *from < *at && *to > events[started].at());
        if let Some(wrong) = wrong(&events[started], process, *ending, refused) {
            let says = format!("{name} ended with {ending}, {wrong}; it said: {said}");
            let ran = process.ran.map(|(.., place)| place);
            verdict.violated(Rule::Exit, says, [started, place].into_iter().chain(ran).collect());
        }
    }
}

/// When there were faults, so that a node may answer that it cannot: its disk is full, or it stops.
fn faults(events: &[Event]) -> Vec<(Time, Time)> {
    let mut edges: Vec<(Time, bool)> = Vec::new();
    for event in events {
        match event {
            Event::FaultBegan { at, .. } => edges.push((*at, true)),
            Event::FaultEnded { at, .. } => edges.push((*at, false)),
            _ => {}
        }
    }
    edges.sort_unstable();
    let (mut spans, mut since) = (Vec::new(), None);
    for (at, begins) in edges {
        if begins {
            since = Some(at);
        } else if let Some(since) = since.take() {
            spans.push((since, at));
        }
    }
    spans.extend(since.map(|since| (since, Time::MAX)));
    spans
}

/// What is wrong with how a process ended.
fn wrong(started: &Event, process: &Process, ending: Ending, refused: bool) -> Option<String> {
    let Event::Started { kind, try_once, timeout, code: promised, .. } = started else {
        return None;
    };
    let Ending::Code(code) = ending else { return Some("though nothing was done to it".into()) };
    let ended = process.ran.and_then(|(_, code, _)| code);
    // A candidate that gave way stands again.
    let ran = process.ran.is_some() && *kind == Kind::Lock;
    if let Some(ended) = ended {
        // What it was run for may have been lost while it ended.
        let says = format!("but its command with {ended}");
        return (code != ended && code != 12).then_some(says);
    }
    let because = |allowed: bool, why: &str| (!allowed).then(|| why.to_owned());
    match code {
        // The command was ended with it.
        12 => None,
        10 => because(*try_once && !ran, "though it was to wait, or ran its command"),
        11 => because(timeout.is_some() && !ran, "though it had no time limit, or ran its command"),
        17 => because(refused && !ran, "though the node had no reason to refuse"),
        13 => because(!ran, "though its command ran"),
        code if code == *promised => Some("as its command should have, which did not".to_owned()),
        _ => Some("which says nothing that can have happened".to_owned()),
    }
}
