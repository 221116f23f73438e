//! What can be said about a run: what it was, what it cost, and which properties held.

mod describe;
mod json;

use std::collections::BTreeSet;
use std::time::Duration;

use conclave_protocol::{BoundedCounter, Family, Info, NodeId, Observation, Property, Time};
use conclave_sim::{
    Beyond, Costs, EntryCost, Event, JudgeLimits, Outcome, RunSpec, Superpeers, Survey, Tracing,
    Verdict, judgeable,
};

pub use self::describe::describe;
pub(crate) use self::describe::shape;
pub use self::json::{
    CostData, Demands, EntryData, FigureData, JudgedData, RunData, Seconds, TheoryData,
};
use crate::catalogue;
use crate::reach::reach;
use crate::theory::fit::{About, Fit, fit};

/// Causal chains are followed for the first so many entries.
pub(crate) const CHAINED: usize = 500;

/// A run and what can be said about it.
#[derive(Debug)]
pub struct Report<'a> {
    /// The algorithm.
    pub info: &'static Info,
    /// What was to be run.
    pub spec: &'a RunSpec,
    /// What happened.
    pub outcome: &'a Outcome,
    /// What it cost.
    pub costs: Costs,
    /// Which properties held.
    pub judged: Vec<Judged>,
    /// Whether the states that snapshots found can be [reached](crate::reach), if it takes any.
    pub reach: Option<Verdict>,
    /// In which ways the run went beyond the algorithm's model.
    pub beyond: Vec<Beyond>,
    /// The case of the theory that the run is an example of.
    pub theory: Option<Fit>,
}

/// A property, what the run says about it, and what the algorithm does.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The property.
    pub property: Property,
    /// What the run says.
    pub verdict: Verdict,
    /// What the algorithm claims.
    pub claim: Claim,
}

/// What an algorithm claims about a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It holds in every run within the model.
    Promised,
    /// The sound algorithm promises it, and this spoilt one is there to break it.
    Spoilt,
    /// It does not hold, for this reason.
    Fails(&'static str),
    /// Nothing.
    None,
}

/// Something to be said about an event.
#[derive(Clone, Debug)]
pub struct Remark {
    /// The event, an index into the trace.
    pub record: usize,
    /// What to say.
    pub text: String,
}

/// A figure that was measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Its name in the theory, if it has one.
    pub key: &'static str,
    /// What it is, in words.
    pub name: &'static str,
    /// The figure.
    pub text: String,
    /// The figure as a number, if it is a single one.
    pub value: Option<f64>,
}

/// A figure of the theory.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// As a formula.
    pub formula: &'static str,
    /// What the formula comes to.
    pub value: f64,
    /// Whether it is the most that theory allows for rather than the exact figure.
    pub bound: bool,
}

impl Expected {
    /// Whether what was measured is as theory has it.
    pub fn agrees(&self, measured: f64) -> bool {
        (measured - self.value).abs() < 1e-9 || self.bound && measured < self.value
    }
}

/// What the algorithm claims about a property.
pub fn claim(info: &Info, property: Property) -> Claim {
    if info.holds.contains(&property) {
        return Claim::Promised;
    }
    if info.mutant.is_some_and(|mutant| mutant.breaks == property) {
        return Claim::Spoilt;
    }
    let failure = info.fails.iter().find(|(fails, _)| *fails == property);
    failure.map_or(Claim::None, |(_, why)| Claim::Fails(why))
}

/// The verdict on each property that is claimed or belongs to the family.
pub fn judge_all(info: &'static Info, spec: &RunSpec, outcome: &Outcome) -> Vec<Judged> {
    survey(info, spec, outcome).0
}

/// The same and what the run cost, in one walk over its trace.
fn survey(info: &'static Info, spec: &RunSpec, outcome: &Outcome) -> (Vec<Judged>, Costs) {
    let (trace, properties) = (&outcome.trace, judgeable(info));
    let survey = Survey::new(trace, &properties, info.places(&spec.setup));
    let patience = JudgeLimits::surveyed(info, spec, trace, &survey).patience;
    let repeats = BoundedCounter::of(&spec.setup).is_ok_and(BoundedCounter::repeats);
    let verdict = |property| match property {
        // The links' own packets and acknowledgements order requests that the algorithm, which
        // does not see them, cannot know to be ordered.
        Property::FcfsHappenedBefore if spec.reliable => {
            unless_violated(survey.verdict(property, patience), "as far as acknowledgements count")
        }
        // A packet may wait for an earlier one, or be sent again, on either side of the cut.
        Property::Cut | Property::Channels if spec.reliable => unless_violated(
            survey.verdict(property, patience),
            "as far as packets of the links count",
        ),
        Property::FenceOrder | Property::FcfsTimestamp if repeats => {
            Verdict::Open { why: "with wrap set, fencing tokens come again and again".into() }
        }
        _ => survey.verdict(property, patience),
    };
    let judged =
        |property| Judged { property, verdict: verdict(property), claim: claim(info, property) };
    (properties.into_iter().map(judged).collect(), survey.into_costs())
}

/// What is judged by the packets of links is no verdict on what these hand to the algorithm, if it
/// is a violation.
fn unless_violated(verdict: Verdict, so_far: &str) -> Verdict {
    match verdict {
        Verdict::Violated { why, .. } => Verdict::Open { why: format!("{why}, {so_far}") },
        verdict => verdict,
    }
}

impl Judged {
    /// Whether this is a broken promise, in a run that keeps the model.
    pub fn is_broken(&self) -> bool {
        self.verdict.is_violated() && is_promised(self.claim)
    }
}

/// Whether a violation of what is claimed so is a broken promise: of the algorithm, or of what it
/// spoils.
pub fn is_promised(claim: Claim) -> bool {
    matches!(claim, Claim::Promised | Claim::Spoilt)
}

impl<'a> Report<'a> {
    /// Judges a run.
    pub fn new(info: &'static Info, spec: &'a RunSpec, outcome: &'a Outcome) -> Self {
        let (judged, costs) = survey(info, spec, outcome);
        Self {
            info,
            spec,
            outcome,
            costs,
            judged,
            reach: catalogue::algorithm(info.id)
                .and_then(|algorithm| reach(algorithm, spec, &outcome.trace)),
            beyond: spec.beyond(info),
            theory: fit(info, spec),
        }
    }

    /// Whether a promise was broken.
    pub fn violated(&self) -> bool {
        let unreachable = self.reach.as_ref().is_some_and(Verdict::is_violated)
            && matches!(claim(self.info, Property::Cut), Claim::Promised);
        self.beyond.is_empty() && (self.judged.iter().any(Judged::is_broken) || unreachable)
    }

    /// What nodes tell of states they have recorded, in words, in a run that was recorded in full.
    pub fn shown(&self) -> Vec<(NodeId, Time, String)> {
        let (Some(shows), trace) = (self.info.shows, &self.outcome.trace) else {
            return Vec::new();
        };
        let notices = trace.notes.iter().filter_map(|(place, text)| {
            let record = trace.records.get(*place)?;
            let Event::Notice(_) = record.event() else { return None };
            let mut json = serde_json::Deserializer::from_str(text);
            let mut written = <dyn erased_serde::Deserializer<'_>>::erase(&mut json);
            Some((record.node, record.at, shows(record.node, &mut written)?))
        });
        notices.collect()
    }

    /// What to point at in the diagram.
    pub fn remarks(&self) -> Vec<Remark> {
        let mut remarks = Vec::new();
        for Judged { property, verdict, claim } in &self.judged {
            let Verdict::Violated { record, why } = verdict else { continue };
            match (property, claim) {
                (_, Claim::None) => {}
                (Property::Exclusion, _) => remarks.extend(self.crowds()),
                _ => {
                    let text = format!("{property} violated: {why}");
                    remarks.push(Remark { record: *record, text });
                }
            }
        }
        remarks
    }

    /// Each time that more are inside together than ever before, and more than may be.
    fn crowds(&self) -> Vec<Remark> {
        let mut most = self.info.places(&self.spec.setup) as usize;
        let mut inside: BTreeSet<NodeId> = BTreeSet::new();
        let mut remarks = Vec::new();
        for (i, record) in self.outcome.trace.records.iter().enumerate() {
            match record.event() {
                Event::Notice(Observation::Entered { .. }) => {
                    inside.insert(record.node);
                }
                Event::Request(Observation::Left)
                | Event::Notice(Observation::Lost)
                | Event::Crash => {
                    inside.remove(&record.node);
                }
                _ => {}
            }
            if inside.len() > most {
                most = inside.len();
                let names: Vec<String> = inside.iter().map(ToString::to_string).collect();
                let (last, others) = names.split_last().expect("a node is inside");
                let who = format!("{} and {last}", others.join(", "));
                let text = format!("ME violated: {who} are inside together");
                remarks.push(Remark { record: i, text });
            }
        }
        remarks
    }

    /// The theory's figure for the measured one of this name.
    pub fn expected(&self, key: &str) -> Option<Expected> {
        let Fit { row, about, .. } = self.theory.as_ref()?;
        // Theory counts all messages of a run where the run is one of many entries, and
        // transmissions where there is a medium for them.
        let (quantity, bound) = match (about, key) {
            (About::Lone, _) => (key, false),
            (About::Transmissions, "transmissions") => ("messages_total", false),
            (About::Transmissions, "entry_delay_hops") => (key, false),
            (About::Burst, "messages") => ("messages_total", false),
            (About::Burst, "sync_delay_hops" | "last_entry_time") => (key, false),
            (About::Each, "messages_total" | "messages_entry" | "messages_exit") => (key, false),
            (About::Each, "sync_delay_hops") if row.scenario == "saturated" => (key, false),
            (About::AtMost, "messages_total") => (key, true),
            (About::Election, "messages") => ("messages_total", false),
            (About::Election, "turnaround_hops") => (key, false),
            _ => return None,
        };
        let (_, formula) = row.formulas().find(|(name, _)| *name == quantity)?;
        let value = self.theory.as_ref()?.figure(quantity)?.to_f64();
        Some(Expected { formula, value, bound })
    }

    /// What was measured.
    pub fn figures(&self) -> Vec<Measured> {
        let costs = &self.costs;
        let unit = self.spec.setup.delay;
        let units = |span: Duration| span.as_secs_f64() / unit.as_secs_f64();
        let text = |key, name, text: String| Measured { key, name, text, value: None };
        let plain =
            |key, name, value: f64| Measured { key, name, text: number(value), value: Some(value) };
        let time = |key, name, span: Duration| Measured {
            key,
            name,
            text: format!("{} T", in_units(span, unit)),
            value: Some(units(span)),
        };
        let hops = |key, name, hops: Vec<u32>| {
            let value = hops.first().filter(|first| hops.iter().all(|hops| hops == *first));
            let value = value.map(|&value| f64::from(value));
            range(hops).map(|text| Measured { key, name, text, value })
        };
        let mut rows: Vec<Measured> = Vec::new();
        let entered: Vec<_> = costs.entered().collect();
        if !costs.entries.is_empty() {
            let of = format!("{} of {}", entered.len(), costs.entries.len());
            rows.push(text("", "entries", of));
        }
        if !entered.is_empty() {
            let mean = |of: fn(&EntryCost) -> u64| {
                entered.iter().map(|entry| of(entry)).sum::<u64>() as f64 / entered.len() as f64
            };
            // Of those who entered: what others spent in vain says nothing about an entry.
            let all = mean(|entry| entry.messages_entry + entry.messages_exit);
            rows.push(plain("messages_total", "messages per entry and exit", all));
            rows.push(plain("messages_entry", "· to enter", mean(|entry| entry.messages_entry)));
            rows.push(plain("messages_exit", "· to leave", mean(|entry| entry.messages_exit)));
            if costs.transmissions != costs.messages {
                let transmissions = mean(|entry| entry.transmissions);
                let name = "· where a broadcast counts once";
                rows.push(plain("transmissions", name, transmissions));
            }
            let trace = &self.outcome.trace;
            let enter = entered.iter().take(CHAINED).filter_map(|e| costs.entry_hops(trace, e));
            rows.extend(hops("entry_delay_hops", "hops to enter", enter.collect()));
            let handovers = costs.handovers.iter().take(CHAINED);
            let pass = handovers.filter_map(|handover| costs.handover_hops(trace, handover));
            let name = "hops from one user to the next";
            rows.extend(hops("sync_delay_hops", name, pass.collect()));
            if !costs.handovers.is_empty() {
                let mean = costs.synchronization().mean;
                rows.push(time("", "synchronization delay, mean", mean));
            }
            rows.push(time("response_time", "response time, mean", costs.turnaround().mean));
            let waiting = costs.waiting();
            let percentiles = [waiting.p50, waiting.p90, waiting.p99, waiting.max]
                .map(|span| in_units(span, unit));
            let percentiles = format!("{} T", percentiles.join(" / "));
            rows.push(text("", "waiting, p50 / p90 / p99 / max", percentiles));
            if let Some(last) = entered.iter().filter_map(|entry| entry.entered).max() {
                rows.push(time("last_entry_time", "last entry at", last - Time::ZERO));
            }
            if let Some(bytes) = costs.bytes_per_entry() {
                rows.push(plain("", "bytes per entry", bytes));
            }
            if let Some(rate) = costs.throughput() {
                rows.push(plain("", "entries per T", rate * unit.as_secs_f64()));
            }
            if let Some(fairness) = costs.fairness() {
                rows.push(plain("", "fairness (Jain; 1 is even)", fairness));
            }
            rows.push(text("", "most overtakings", costs.overtaking().to_string()));
        }
        rows.extend(self.turnaround().map(|span| {
            time("turnaround_hops", "from the first call to the last that knows", span)
        }));
        let upkeep = Family::of(self.info).elects && costs.overhead < costs.messages;
        if upkeep && costs.overhead > 0 {
            let counted = (costs.messages - costs.overhead) as f64;
            rows.push(plain("messages", "messages of the election", counted));
            rows.push(plain("", "messages in all", costs.messages as f64));
        } else {
            rows.push(plain("messages", "messages in all", costs.messages as f64));
        }
        if entered.is_empty() && costs.bytes > 0 {
            rows.push(text("", "bytes in all", costs.bytes.to_string()));
        }
        if costs.overhead > 0 && !costs.entries.is_empty() {
            rows.push(text("", "· that belong to no entry", costs.overhead.to_string()));
        }
        if costs.lost > 0 {
            rows.push(text("", "· that were lost", costs.lost.to_string()));
        }
        rows.push(time("", "virtual time", self.outcome.trace.ended - Time::ZERO));
        if self.outcome.trace.tracing < Tracing::Events {
            rows.push(text("", "steps of nodes", self.outcome.stats.events.to_string()));
            rows.push(text("", "events pending at most", self.outcome.stats.pending.to_string()));
        }
        rows
    }

    /// How long an election took, from the first call until the last to learn of it has done so.
    fn turnaround(&self) -> Option<Duration> {
        if !Family::of(self.info).elects {
            return None;
        }
        let records = &self.outcome.trace.records;
        let called = records.iter().find(|r| r.event() == Event::Request(Observation::Called))?.at;
        let follows = |event| matches!(event, Event::Notice(Observation::Follows { .. }));
        let last = records.iter().rev().find(|record| follows(record.event()))?.at;
        (last > called).then(|| last - called)
    }

    /// Where several are elected to serve the rest: how good they are, and how many there should be.
    pub fn superpeers(&self) -> Option<(Superpeers, f64)> {
        let setup = &self.spec.setup;
        let wanted = self.info.several?(setup)?;
        Some((Superpeers::of(&self.outcome.trace.leaders(), &setup.topology), wanted))
    }
}

/// A number without more digits than it needs.
pub fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// One value, or the least and the greatest with the mean.
fn range(values: Vec<u32>) -> Option<String> {
    let (least, most) = (values.iter().min()?, values.iter().max()?);
    let mean = values.iter().map(|&value| f64::from(value)).sum::<f64>() / values.len() as f64;
    if least == most {
        return Some(least.to_string());
    }
    Some(format!("{} ({least} to {most})", number(mean)))
}

/// A duration in units of `T`, to three places.
pub fn in_units(span: Duration, unit: Duration) -> String {
    let thousandths = (span.as_nanos() * 1_000 + unit.as_nanos() / 2) / unit.as_nanos().max(1);
    let (whole, rest) = (thousandths / 1_000, thousandths % 1_000);
    if rest == 0 {
        return whole.to_string();
    }
    format!("{whole}.{rest:03}").trim_end_matches('0').to_owned()
}
