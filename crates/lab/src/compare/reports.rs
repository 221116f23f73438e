//! Algorithms that find out something of the whole system, measured: what that costs, how soon it is
//! reported when it has become so, and what may go wrong meanwhile.

use std::collections::BTreeMap;

use conclave_protocol::family::reports::REPORTS;
use conclave_protocol::family::stable::{RECORDS, SEES};
use conclave_protocol::{
    Asking, Channels, Family, Info, NodeId, Note, Observation, Property, Setup, Time,
};
use conclave_sim::{
    Arrivals, Ask, Delay, Event, Fault, JudgeLimits, Outcome, RunSpec, Trace, Verdict, Workload,
    judge,
};
use serde::Serialize;

use super::mutex::{Beside, in_units, topology};
use super::{Comparison, Sheet, figure, or_dash};
use crate::simulate;
use crate::theory::formula::{Params, whole};
use crate::theory::rows_of;
use crate::theory::setups::{T, at};

/// An algorithm among so many nodes. Times are in units of `T`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Finding {
    /// How many nodes there are.
    pub nodes: u32,
    /// Why there is nothing to measure.
    pub unfit: Option<String>,
    /// Runs with delays that vary …
    pub runs: u32,
    /// … of which in so many something became so.
    pub became: u32,
    /// Messages of the application, the mean.
    pub messages: f64,
    /// Control messages, the mean.
    pub control: Beside,
    /// Control messages that were sent when it was so and before it was reported, at most.
    pub after: Option<u64>,
    /// What theory says there are at most.
    pub after_bound: Option<f64>,
    /// From becoming so to being reported, the mean.
    pub delay_mean: Option<f64>,
    /// The longest.
    pub delay_most: Option<f64>,
    /// Snapshots, the mean, if there are any.
    pub snapshots: f64,
    /// Snapshots that were started when it was so and before it was reported, at most.
    pub further: Option<u64>,
    /// What may go wrong.
    pub faults: Vec<Survived>,
}

/// What becomes of it if something goes wrong.
#[derive(Clone, Debug, Serialize)]
pub struct Survived {
    /// What goes wrong.
    pub fault: &'static str,
    /// Runs, each of which it goes wrong in elsewhere …
    pub runs: u32,
    /// … of which in so many nothing wrong was reported …
    pub sound: u32,
    /// … and in so many everything that had become so.
    pub reported: u32,
    /// The first in which something was not as it should: what went wrong, and what came of it.
    pub first: Option<String>,
}

/// What goes wrong, in the order of the table.
pub(super) const FAULTS: [&str; 4] = ["overtaking", "lost", "lost control", "crash"];

/// At most so many runs with one kind of fault.
const TRIED: usize = 60;
/// Nothing takes longer.
const END: u32 = 4_000;

/// Measures an algorithm among so many nodes, over so many seeds.
pub(super) fn measure(info: &'static Info, nodes: u32, seeds: u64) -> Finding {
    let mut finding = Finding { nodes, ..Finding::default() };
    let mut seen = Vec::new();
    for seed in 0..seeds {
        let mut spec = run(info, nodes);
        (spec.seed, spec.delays) = (seed, Delay::Uniform(T / 20, T).into());
        match simulate(&spec) {
            Ok(outcome) => seen.push(Seen::of(&outcome.trace)),
            Err(failure) => return Finding { unfit: Some(failure.to_string()), ..finding },
        }
    }
    let mean = |of: fn(&Seen) -> u64| {
        seen.iter().map(|it| of(it) as f64).sum::<f64>() / (seen.len().max(1)) as f64
    };
    let found = || seen.iter().flat_map(|it| &it.found);
    finding.runs = seen.len() as u32;
    finding.became = seen.iter().filter(|it| it.became).count() as u32;
    finding.messages = mean(|it| it.messages);
    finding.snapshots = mean(|it| it.snapshots);
    let mut params = Params::from([("N".to_owned(), whole(u64::from(nodes)))]);
    if let Some(first) =
        seen.first().filter(|first| seen.iter().all(|it| it.messages == first.messages))
    {
        params.insert("M".to_owned(), whole(first.messages));
    }
    let theory = |quantity: &str| {
        let figure = rows_of(info.id).find_map(|row| row.figure(quantity, &params))?;
        figure.ok().map(|number| number.to_f64())
    };
    finding.control =
        Beside { measured: Some(mean(|it| it.control)), theory: theory("control_messages") };
    finding.after_bound = theory("token_hops_upper_bound");
    finding.after = found().map(|it| it.control).max();
    finding.further = found().map(|it| it.snapshots).max().filter(|_| finding.snapshots > 0.0);
    let delays: Vec<f64> = found().map(|it| it.delay).collect();
    if !delays.is_empty() {
        finding.delay_mean = Some(delays.iter().sum::<f64>() / delays.len() as f64);
        finding.delay_most = delays.iter().copied().reduce(f64::max);
    }
    finding.faults = FAULTS.iter().filter_map(|fault| survived(info, nodes, fault)).collect();
    finding
}

/// A run in which nothing goes wrong: the application goes on by itself, and the first node looks
/// at it if that has to be asked for.
fn run(info: &'static Info, nodes: u32) -> RunSpec {
    let mut spec = RunSpec::new(info, Setup::new(topology(info, nodes)));
    if Family::of(info).asking != Asking::None {
        let ask = Ask { node: NodeId(0), at: at(1), hold: None };
        spec.workload = Workload { arrivals: Arrivals::Plan(vec![ask]), ..Workload::idle() };
    }
    spec.linger = None;
    spec.until = at(END);
    spec
}

/// What a run shows.
#[derive(Default)]
struct Seen {
    messages: u64,
    control: u64,
    snapshots: u64,
    became: bool,
    /// Whatever was reported when it had become so.
    found: Vec<Found>,
}

/// Something that became so and was reported: what came between.
struct Found {
    delay: f64,
    control: u64,
    snapshots: u64,
}

impl Seen {
    fn of(trace: &Trace) -> Self {
        let mut seen = Self::default();
        // Since when each thing has been so, and what had been sent and started by then.
        let mut since: BTreeMap<u32, (Time, u64, u64)> = BTreeMap::new();
        let (mut facts, mut started) = (0, 0);
        let mut reports: Vec<(Time, u64, u64, u64)> = Vec::new();
        for record in &trace.records {
            match record.event() {
                Event::Send { control: true, .. } => seen.control += 1,
                Event::Send { .. } => seen.messages += 1,
                Event::Notice(Observation::Note(Note { kind: SEES, .. })) => seen.snapshots += 1,
                Event::Notice(Observation::Note(Note { kind: RECORDS, .. }))
                    if record.node == NodeId(0) =>
                {
                    started += 1;
                }
                Event::Notice(Observation::Note(Note { kind: REPORTS, value, .. })) => {
                    reports.push((record.at, value, seen.control, started));
                }
                Event::Facts(now) => {
                    for bit in (0..u64::BITS).filter(|bit| (now & !facts) >> bit & 1 == 1) {
                        since.insert(bit, (record.at, seen.control, started));
                    }
                    facts = now;
                }
                _ => {}
            }
        }
        seen.became = facts != 0;
        for (at, value, control, started) in reports {
            for bit in (0..u64::BITS).filter(|bit| value >> bit & 1 == 1) {
                let Some((risen, sent, before)) = since.get(&bit).copied() else { continue };
                seen.found.push(Found {
                    delay: in_units(at.max(risen) - risen),
                    control: control.saturating_sub(sent),
                    snapshots: u64::saturating_sub(started, before),
                });
            }
        }
        seen
    }
}

/// Tries a fault in many places.
fn survived(info: &'static Info, nodes: u32, fault: &'static str) -> Option<Survived> {
    let calm = simulate(&run(info, nodes)).ok()?;
    let end = (in_units(calm.trace.ended - Time::ZERO).ceil() as u32).clamp(1, END);
    let labels = |wanted: bool| {
        let sent = calm.trace.records.iter().filter_map(|record| match record.event() {
            Event::Send { label, control, .. } if control == wanted => Some(label),
            _ => None,
        });
        let mut labels: Vec<String> = sent.map(|it| calm.trace.name(it).to_owned()).collect();
        labels.sort_unstable();
        labels.dedup();
        labels
    };
    let moments = || (0..2 * end).map(|half| at(0) + T / 2 * half + T / 4);
    let lose = |label: String| moments().map(move |at| (at, Fault::Lose { label: label.clone() }));
    let plans: Vec<(Time, Fault)> = match fault {
        "overtaking" => Vec::new(),
        "lost" => labels(false).into_iter().flat_map(lose).collect(),
        "lost control" => labels(true).into_iter().flat_map(lose).collect(),
        _ => moments()
            .flat_map(|at| (0..nodes).map(move |node| (at, Fault::Crash(NodeId(node)))))
            .collect(),
    };
    let mut specs = Vec::new();
    if fault == "overtaking" {
        for seed in 0..TRIED as u64 {
            let mut spec = run(info, nodes);
            (spec.seed, spec.channels) = (seed, Channels::Reliable);
            spec.delays = Delay::Uniform(T / 20, T * 4).into();
            specs.push((spec, "messages overtake each other".to_owned()));
        }
    }
    let step = plans.len().div_ceil(TRIED).max(1);
    for (when, action) in plans.into_iter().step_by(step) {
        let mut spec = run(info, nodes);
        let what = format!("{action} at {} T", figure(in_units(when - Time::ZERO)));
        spec.faults = spec.faults.with(when, action);
        specs.push((spec, what));
    }
    let mut survived = Survived { fault, runs: 0, sound: 0, reported: 0, first: None };
    for (spec, what) in specs {
        let outcome = simulate(&spec).ok()?;
        survived.runs += 1;
        let broken = |property| broken(info, &spec, &outcome, property);
        let (sound, reported) = (broken(Property::Sound), broken(Property::Reported));
        survived.sound += u32::from(sound.is_none());
        survived.reported += u32::from(reported.is_none());
        if let Some(why) = sound.or(reported)
            && survived.first.is_none()
        {
            survived.first = Some(format!("{what}: {why}"));
        }
    }
    Some(survived)
}

fn broken(
    info: &'static Info,
    spec: &RunSpec,
    outcome: &Outcome,
    property: Property,
) -> Option<String> {
    let limits = JudgeLimits::of(info, spec, &outcome.trace);
    match judge(property, &outcome.trace, limits) {
        verdict if verdict.held() => None,
        Verdict::Violated { why, .. } => Some(format!("{property}: {why}")),
        _ => Some(format!("{property}: it never comes to rest")),
    }
}

/// What stands in the columns that a family has, and how much each matters.
pub(super) type Columns = &'static [(&'static str, u8, fn(&Finding) -> String)];

/// The last columns of every table: what may go wrong.
const LAST: Columns = &[
    ("overtaking", 1, |it| held(it, "overtaking")),
    ("lost", 1, |it| held(it, "lost")),
    ("lost control", 1, |it| held(it, "lost control")),
    ("crash", 1, |it| held(it, "crash")),
];

/// In how many runs with this fault nothing wrong was reported, and everything.
fn held(finding: &Finding, fault: &str) -> String {
    match finding.faults.iter().find(|it| it.fault == fault) {
        Some(it) if it.runs > 0 => format!("{}+{}/{}", it.sound, it.reported, it.runs),
        _ => "–".to_owned(),
    }
}

/// The table for one number of nodes.
pub(super) fn sheet(
    comparison: &Comparison,
    i: usize,
    nodes: u32,
    first: Columns,
    note: &str,
) -> Sheet {
    let columns = || first.iter().chain(LAST);
    let (mut rows, mut notes) = (Vec::new(), vec![note.to_owned()]);
    notes.push(
        "The last columns: runs in each of which messages overtake each other, a message of the \
         application or a control message is lost, or a node crashes, at another place in each; \
         s+r/n: of n runs nothing was reported wrongly in s, and everything that had become so was \
         reported in r. ✓: exactly as theory has it; (n): theory says n"
            .to_owned(),
    );
    for algorithm in &comparison.algorithms {
        let finding = &algorithm.findings[i];
        let name = algorithm.name().to_owned();
        if let Some(why) = &finding.unfit {
            notes.push(format!("{name}: – because {why}"));
            rows.push([vec![name], vec!["–".into(); columns().count()]].concat());
            continue;
        }
        for fault in &finding.faults {
            notes.extend(fault.first.iter().map(|why| format!("{name}: {why}")));
        }
        let cells = columns().map(|(_, _, cell)| cell(finding));
        rows.push(std::iter::once(name).chain(cells).collect());
    }
    let head = std::iter::once("algorithm").chain(columns().map(|(head, ..)| *head));
    let matters = std::iter::once(0).chain(columns().map(|(_, matters, _)| *matters)).collect();
    let head = head.map(str::to_owned).collect();
    Sheet { title: format!("N = {nodes}"), head, rows, notes, words: 1, matters }
}

/// How long it took until something was reported.
pub(super) fn delay(value: Option<f64>) -> String {
    or_dash(value)
}

/// A count, beside the most that theory allows for.
pub(super) fn at_most(value: Option<u64>, bound: Option<f64>) -> String {
    match (value, bound) {
        (Some(value), Some(bound)) => format!("{value} (≤ {})", figure(bound)),
        (Some(value), None) => value.to_string(),
        (None, _) => "–".to_owned(),
    }
}
