//! How processes end.

use std::collections::{BTreeMap, BTreeSet};

use crate::index::Index;
use crate::reasons::{Reasons, Span};
use crate::{Ending, Event, Kind, Rule, Time, Verdict};

/// What is known of a process.
#[derive(Default)]
struct Process {
    started: Option<usize>,
    struck: bool,
    /// Those that its commands were told of.
    sessions: BTreeSet<u64>,
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
            Event::Ran { name, session, last, code, .. } => {
                let process = processes.entry(name).or_default();
                process.sessions.insert(*session);
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
    let reasons = Reasons::new(index);
    for (place, event) in index.events.iter().enumerate() {
        let Event::Exited { name, ending, said, at } = event else { continue };
        let Some((process, started)) =
            processes.get(name.as_str()).and_then(|process| Some((process, process.started?)))
        else {
            continue;
        };
        // The command is there, and can be run; and whatever is done to a process, its code has no error.
        if process.struck && !matches!(ending, Ending::Code(101 | 126 | 127)) {
            verdict.not_judged(Rule::Exit, "the process was killed or stopped");
            continue;
        }
        let Event::Started { wants, ttl, at: from, .. } = &index.events[started] else { continue };
        let span = Span { name, wants, ttl: *ttl, from: *from, to: *at };
        let Some(wrong) = wrong(&index.events[started], process, *ending, &reasons, &span) else {
            verdict.judged(Rule::Exit, 1);
            continue;
        };
        // A process that gets no time cannot renew its lease.
        if *ending == Ending::Code(12) && reasons.stalled(&span) {
            verdict.not_judged(Rule::Exit, "lists stalled, and so may have the renewal");
            continue;
        }
        verdict.judged(Rule::Exit, 1);
        let says = format!("{name} ended with {ending}, {wrong}; it said: {said}");
        let ran = process.ran.map(|(.., place)| place);
        verdict.violated(Rule::Exit, says, [started, place].into_iter().chain(ran).collect());
    }
}

/// What is wrong with how a process ended.
fn wrong(
    started: &Event,
    process: &Process,
    ending: Ending,
    reasons: &Reasons<'_>,
    span: &Span<'_>,
) -> Option<String> {
    let Event::Started { kind, try_once, timeout, code: promised, .. } = started else {
        return None;
    };
    let Ending::Code(code) = ending else { return Some("though nothing was done to it".into()) };
    let ended = process.ran.and_then(|(_, code, _)| code);
    // A candidate that gave way stands again.
    let ran = process.ran.is_some() && *kind == Kind::Lock;
    let because = |allowed: bool, why: &str| (!allowed).then(|| why.to_owned());
    let lost = || {
        let lost = reasons.fault(span)
            || reasons.forced(span, &process.sessions)
            || (*kind == Kind::Elect && reasons.others(span));
        because(lost, "though no fault, operator or candidate took from it what it held")
    };
    // Its command did not end by itself.
    let without_end = || match code {
        // The command was ended with it.
        12 => lost(),
        10 if !*try_once || ran => Some("though it was to wait, or ran its command".to_owned()),
        10 => because(reasons.others(span), "though no other holder or waiter is known"),
        11 if timeout.is_none() || ran => {
            Some("though it had no time limit, or ran its command".to_owned())
        }
        11 => because(
            reasons.others(span) || reasons.fault(span) || reasons.forced(span, &process.sessions),
            "though no other holder or waiter is known, and there was no fault",
        ),
        17 => because(reasons.fault(span) && !ran, "though the node had no reason to refuse"),
        13 if ran => Some("though its command ran".to_owned()),
        13 => because(reasons.fault(span), "though there was no fault"),
        code if code == *promised => Some("as its command should have, which did not".to_owned()),
        _ => Some("which says nothing that can have happened".to_owned()),
    };
    if let Some(ended) = ended {
        // What it was run for may have been lost while it ended.
        return match code {
            code if code == ended => None,
            12 => lost(),
            // A candidate that gave way in the moment in which its command ended stands again.
            _ if *kind == Kind::Elect && lost().is_none() => without_end(),
            _ => Some(format!("but its command with {ended}")),
        };
    }
    without_end()
}
