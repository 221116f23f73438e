//! Mutual exclusion.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use conclave_protocol::{Mark, NodeId, Time, VectorClock, names};

use super::{Verdict, last, open, violated};
use crate::{End, Event, Trace};

/// Who is inside, and who waits since when.
#[derive(Default)]
struct Section {
    inside: BTreeSet<NodeId>,
    waiting: BTreeMap<NodeId, Time>,
    paused: BTreeSet<NodeId>,
    /// Since when somebody has waited while nobody was inside.
    stuck: Option<Time>,
}

impl Section {
    fn apply(&mut self, node: NodeId, at: Time, event: Event) {
        match event {
            Event::Request(Mark::Asked) => {
                self.waiting.insert(node, at);
            }
            Event::Notice(Mark::Entered { .. }) => {
                self.waiting.remove(&node);
                self.inside.insert(node);
            }
            Event::Request(Mark::Left) | Event::Notice(Mark::Lost) => {
                self.inside.remove(&node);
            }
            Event::Pause => {
                self.paused.insert(node);
            }
            Event::Resume => {
                self.paused.remove(&node);
            }
            // Who has crashed does nothing inside any more; fencing keeps its late writes out.
            Event::Crash => {
                self.inside.remove(&node);
                self.waiting.remove(&node);
                self.paused.remove(&node);
            }
            _ => return,
        }
        let stuck = self.inside.is_empty() && !self.waiting.is_empty();
        self.stuck = if stuck { self.stuck.or(Some(at)) } else { None };
    }
}

pub(super) fn exclusion(trace: &Trace, places: u32) -> Verdict {
    let mut section = Section::default();
    for (i, record) in trace.records.iter().enumerate() {
        section.apply(record.node, record.at, record.event());
        if section.inside.len() > places as usize {
            let who = names(section.inside.iter().copied());
            return violated(i, format!("{who} are inside together"));
        }
    }
    Verdict::Held
}

/// Those who wait at the end, and since when the run has been undisturbed.
struct Ending {
    section: Section,
    calm: Time,
}

impl Ending {
    fn of(trace: &Trace) -> Self {
        let (mut section, mut calm) = (Section::default(), Time::ZERO);
        for record in &trace.records {
            let event = record.event();
            section.apply(record.node, record.at, event);
            if event.disturbs() {
                calm = record.at;
            }
        }
        Self { section, calm }
    }

    /// What can be said of those who wait, if anything can: that nothing is left to happen, or that
    /// they have waited longer than anybody need.
    fn verdict(
        &self,
        trace: &Trace,
        patience: Duration,
        since: Time,
        for_ever: String,
        too_long: impl FnOnce(Duration) -> String,
    ) -> Verdict {
        let waited = trace.ended.max(since) - since;
        if !self.section.paused.is_empty() {
            let who = names(self.section.paused.iter().copied());
            return open(format!("the run ended while {who} paused"));
        }
        match trace.end {
            End::Quiet => violated(last(trace), for_ever),
            _ if waited > patience => violated(last(trace), too_long(waited)),
            _ => {
                let who = names(self.section.waiting.keys().copied());
                open(format!("the run ended while {who} still waited"))
            }
        }
    }
}

/// "waits" or "wait", as so many do.
fn wait(waiting: usize) -> &'static str {
    if waiting == 1 { "waits" } else { "wait" }
}

pub(super) fn no_deadlock(trace: &Trace, patience: Duration) -> Verdict {
    let ending = Ending::of(trace);
    let section = &ending.section;
    let Some(since) = section.stuck else { return Verdict::Held };
    let who = names(section.waiting.keys().copied());
    let wait = wait(section.waiting.len());
    let for_ever = format!("{who} {wait} for ever: nobody is inside and nothing is left to happen");
    let too_long = |span| format!("{who} {wait}, and for {span:?} nobody has been inside");
    ending.verdict(trace, patience, since.max(ending.calm), for_ever, too_long)
}

pub(super) fn no_starvation(trace: &Trace, patience: Duration) -> Verdict {
    let ending = Ending::of(trace);
    let waiting = &ending.section.waiting;
    let Some(&first) = waiting.values().min() else { return Verdict::Held };
    let since = first.max(ending.calm);
    let starved = waiting.iter().filter(|(_, asked)| {
        trace.end == End::Quiet || trace.ended - (**asked).max(ending.calm) > patience
    });
    let who = names(starved.map(|(&node, _)| node));
    let too_long = |span| format!("{who} asked and did not enter for {span:?}");
    let for_ever = format!("{who} asked and never entered");
    ending.verdict(trace, patience, since, for_ever, too_long)
}

pub(super) fn fence_order(trace: &Trace) -> Verdict {
    let mut last: Option<(NodeId, u64)> = None;
    for (i, record) in trace.records.iter().enumerate() {
        let Event::Notice(Mark::Entered { token }) = record.event() else { continue };
        if let Some((before, high)) = last
            && token <= high
        {
            let node = record.node;
            let why = format!("{node} entered with token {token}, after {before} with {high}");
            return violated(i, why);
        }
        last = Some((record.node, token));
    }
    Verdict::Held
}

/// Only the first so many requests are compared with each other.
const COMPARED: usize = 2_000;

pub(super) fn fcfs_happened_before(trace: &Trace) -> Verdict {
    struct Asked {
        node: NodeId,
        clock: VectorClock,
        entered: Option<usize>,
        /// Its node crashed or was told that it will not be served.
        withdrawn: bool,
    }
    let mut asked: Vec<Asked> = Vec::new();
    let mut latest: BTreeMap<NodeId, usize> = BTreeMap::new();
    let mut left_out = false;
    let clocks = trace.vector_clocks();
    for (i, record) in trace.records.iter().enumerate() {
        match record.event() {
            Event::Request(Mark::Asked) if asked.len() < COMPARED => {
                latest.insert(record.node, asked.len());
                let (node, clock) = (record.node, clocks[i].clone());
                asked.push(Asked { node, clock, entered: None, withdrawn: false });
            }
            Event::Request(Mark::Asked) => {
                latest.remove(&record.node);
                left_out = true;
            }
            Event::Notice(Mark::Entered { .. }) => {
                if let Some(&request) = latest.get(&record.node)
                    && asked[request].entered.is_none()
                {
                    asked[request].entered = Some(i);
                }
            }
            Event::Crash | Event::Notice(Mark::Lost) => {
                if let Some(request) = latest.remove(&record.node) {
                    asked[request].withdrawn = asked[request].entered.is_none();
                }
            }
            _ => {}
        }
    }
    for (second, later) in asked.iter().enumerate() {
        let Some(entered) = later.entered else { continue };
        for earlier in &asked[..second] {
            // Who has not entered by the end can only do so later.
            let overtaken =
                earlier.entered.is_none_or(|first| first > entered) && !earlier.withdrawn;
            if overtaken && earlier.clock.before(&later.clock) {
                let (a, b) = (earlier.node, later.node);
                let why = format!("{a}'s request happened before {b}'s, and {b} entered first");
                return violated(entered, why);
            }
        }
    }
    if left_out {
        return open(format!("only the first {COMPARED} requests were compared"));
    }
    Verdict::Held
}
