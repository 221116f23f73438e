//! What is said about a run: what it was, what it cost, and which properties held.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use conclave_protocol::{Channels, Info, Mark, NodeId, Property, Time};
use conclave_sim::{
    Arrivals, Beyond, Costs, Delay, End, Event, JudgeLimits, Outcome, RunSpec, Spread, Verdict,
    judge,
};
use serde_json::{Value, json};

use crate::diagram::{Remark, in_units};
use crate::terminal::{BOLD, DIM, ERROR, GOOD, WARN, paint};
use crate::{Done, Terminal, places};

/// A vector clock for every event takes too much memory beyond so many components.
const COMPARABLE: usize = 20_000_000;
/// Causal chains are followed for the first so many entries.
const CHAINED: usize = 500;

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
    /// In which ways the run went beyond the algorithm's model.
    pub beyond: Vec<Beyond>,
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

/// The theory's figures for a run, by the names of `theory.json`, as text.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// The row they are from.
    pub scenario: String,
    /// Such as `messages_total` and `2*(N-1) = 4`.
    pub figures: BTreeMap<String, String>,
}

/// The properties that make sense for a family, whether promised or not.
fn of_family(family: &str) -> &'static [Property] {
    match family {
        "mutex" => &[
            Property::Exclusion,
            Property::NoDeadlock,
            Property::NoStarvation,
            Property::FcfsHappenedBefore,
            Property::FenceOrder,
        ],
        "election" => &[
            Property::OneLeader,
            Property::OneLeaderPerEpoch,
            Property::LeaderKnown,
            Property::BestLeads,
        ],
        "fd" => &[Property::Completeness, Property::Accuracy],
        _ => &[],
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
    let patience = ((outcome.at - Time::ZERO) / 2).max(spec.setup.delay * 100);
    let limits = JudgeLimits { places: places(info, &spec.setup), patience };
    let family = of_family(info.family());
    let wanted =
        |property: &Property| claim(info, *property) != Claim::None || family.contains(property);
    let size = outcome.trace.records.len().saturating_mul(outcome.trace.nodes as usize);
    let verdict = |property| match property {
        Property::FcfsHappenedBefore if size > COMPARABLE => {
            Verdict::Open { why: "the run is too large to compare all its requests".into() }
        }
        // The links' own packets and acknowledgements order requests that the algorithm, which
        // does not see them, cannot know to be ordered.
        Property::FcfsHappenedBefore if spec.reliable => match judge(property, outcome, limits) {
            Verdict::Violated { why, .. } => {
                Verdict::Open { why: format!("{why}, as far as acknowledgements count") }
            }
            verdict => verdict,
        },
        _ => judge(property, outcome, limits),
    };
    let judged =
        |property| Judged { property, verdict: verdict(property), claim: claim(info, property) };
    Property::ALL.into_iter().filter(wanted).map(judged).collect()
}

impl Judged {
    /// Whether this is a broken promise, in a run that keeps the model.
    pub fn is_broken(&self) -> bool {
        self.verdict.is_violated() && matches!(self.claim, Claim::Promised | Claim::Spoilt)
    }
}

impl<'a> Report<'a> {
    /// Judges a run.
    pub fn new(info: &'static Info, spec: &'a RunSpec, outcome: &'a Outcome) -> Self {
        Self {
            info,
            spec,
            outcome,
            costs: Costs::of(&outcome.trace),
            judged: judge_all(info, spec, outcome),
            beyond: spec.beyond(info),
        }
    }

    /// Whether a promise was broken.
    pub fn done(&self) -> Done {
        let broken = self.beyond.is_empty() && self.judged.iter().any(Judged::is_broken);
        if broken { Done::Violated } else { Done::Well }
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
        let mut most = places(self.info, &self.spec.setup) as usize;
        let mut inside: BTreeSet<NodeId> = BTreeSet::new();
        let mut remarks = Vec::new();
        for (i, record) in self.outcome.trace.records.iter().enumerate() {
            match record.event() {
                Event::Notice(Mark::Entered { .. }) => {
                    inside.insert(record.node);
                }
                Event::Request(Mark::Left) | Event::Notice(Mark::Lost) | Event::Crash => {
                    inside.remove(&record.node);
                }
                _ => {}
            }
            if inside.len() > most {
                most = inside.len();
                let names: Vec<String> = inside.iter().map(ToString::to_string).collect();
                let (last, others) = names.split_last().expect("somebody is inside");
                let who = format!("{} and {last}", others.join(", "));
                let text = format!("ME violated: {who} are inside together");
                remarks.push(Remark { record: i, text });
            }
        }
        remarks
    }

    /// One line: what was run.
    pub fn headline(&self) -> String {
        format!("{} {}", paint(BOLD, self.info.title), describe(self.info, self.spec))
    }

    /// The cost table, beside the theory's figures where there are some.
    pub fn cost_table(&self, terminal: &Terminal, expected: Option<&Expected>) -> String {
        let mut table = table(terminal);
        let theory = |key: &str| {
            let figure = expected.and_then(|expected| expected.figures.get(key));
            figure.cloned().unwrap_or_default()
        };
        let mut header = vec!["cost", "measured"];
        header.extend(expected.map(|_| "theory"));
        table.set_header(header);
        for (key, name, value) in self.figures() {
            let mut row = vec![name.to_owned(), value];
            row.extend(expected.map(|_| theory(key)));
            table.add_row(row);
        }
        if let Some(column) = table.column_mut(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let mut text = format!("{}\n", table.trim_fmt());
        if !self.costs.by_label.is_empty() {
            let labels = self.costs.by_label.iter().map(|(name, count)| format!("{name} {count}"));
            let _ = writeln!(text, "messages by name: {}", labels.collect::<Vec<_>>().join(", "));
        }
        if let Some(Expected { scenario, .. }) = expected {
            let _ = writeln!(text, "theory: {scenario}");
        }
        text
    }

    /// The measured figures: the theory's key, a name and the value.
    fn figures(&self) -> Vec<(&'static str, &'static str, String)> {
        let costs = &self.costs;
        let unit = self.spec.setup.delay;
        let time = |span: Duration| format!("{} T", in_units(span, unit));
        let mut rows: Vec<(&'static str, &'static str, String)> = Vec::new();
        let entered: Vec<_> = costs.entered().collect();
        let share = |sum: u64| number(sum as f64 / entered.len().max(1) as f64);
        if !costs.entries.is_empty() {
            rows.push(("", "entries", format!("{} of {}", entered.len(), costs.entries.len())));
        }
        if !entered.is_empty() {
            let sum = |of: fn(&conclave_sim::EntryCost) -> u64| {
                share(entered.iter().map(|entry| of(entry)).sum())
            };
            // Of those who entered: what others spent in vain says nothing about an entry.
            let all = sum(|entry| entry.messages_entry + entry.messages_exit);
            rows.push(("messages_total", "messages per entry and exit", all));
            rows.push(("messages_entry", "· to enter", sum(|entry| entry.messages_entry)));
            rows.push(("messages_exit", "· to leave", sum(|entry| entry.messages_exit)));
            let transmissions = sum(|entry| entry.transmissions);
            if costs.transmissions != costs.messages {
                rows.push(("transmissions", "· where a broadcast counts once", transmissions));
            }
            let trace = &self.outcome.trace;
            let hops = entered.iter().take(CHAINED).filter_map(|e| costs.entry_hops(trace, e));
            rows.extend(
                range(hops.collect()).map(|hops| ("entry_delay_hops", "hops to enter", hops)),
            );
            let handovers = costs.handovers.iter().take(CHAINED);
            let hops = handovers.filter_map(|handover| costs.handover_hops(trace, handover));
            let hops = range(hops.collect());
            rows.extend(
                hops.map(|hops| ("sync_delay_hops", "hops from one user to the next", hops)),
            );
            if !costs.handovers.is_empty() {
                let mean = time(costs.synchronization().mean);
                rows.push(("sync_delay", "synchronization delay, mean", mean));
            }
            rows.push(("response_time", "response time, mean", time(costs.turnaround().mean)));
            let waiting = costs.waiting();
            let percentiles = [waiting.p50, waiting.p90, waiting.p99, waiting.max]
                .map(|span| in_units(span, unit));
            let text = format!("{} T", percentiles.join(" / "));
            rows.push(("", "waiting, p50 / p90 / p99 / max", text));
            if let Some(bytes) = costs.bytes_per_entry() {
                rows.push(("", "bytes per entry", number(bytes)));
            }
            if let Some(rate) = costs.throughput() {
                rows.push(("throughput", "entries per T", number(rate * unit.as_secs_f64())));
            }
            if let Some(fairness) = costs.fairness() {
                rows.push(("", "fairness (Jain; 1 is even)", number(fairness)));
            }
            rows.push(("", "most overtakings", costs.overtaking().to_string()));
        }
        rows.push(("messages", "messages in all", costs.messages.to_string()));
        if entered.is_empty() && costs.bytes > 0 {
            rows.push(("", "bytes in all", costs.bytes.to_string()));
        }
        if costs.overhead > 0 && !costs.entries.is_empty() {
            rows.push(("", "· that belong to no entry", costs.overhead.to_string()));
        }
        if costs.lost > 0 {
            rows.push(("", "· that were lost", costs.lost.to_string()));
        }
        let end = self.outcome.at - Time::ZERO;
        rows.push(("", "virtual time", format!("{} T", in_units(end, unit))));
        rows
    }

    /// The verdict on each property, in words.
    pub fn verdicts(&self, terminal: &Terminal) -> String {
        let mut text = String::new();
        for judged in &self.judged {
            text.push_str(&self.verdict_line(judged, terminal));
        }
        if let Some(mutant) = self.info.mutant {
            let _ = writeln!(
                text,
                "{}",
                paint(DIM, format!("A spoilt {}: {}.", mutant.of, mutant.defect))
            );
        }
        let end = match self.outcome.end {
            End::Quiet | End::Served => return text,
            End::TimeLimit => "the time was up; --until gives it more",
            End::EventLimit => "the number of events was reached; --events allows more",
        };
        let _ = writeln!(text, "{}", paint(DIM, format!("The run was cut off: {end}.")));
        text
    }

    fn verdict_line(&self, judged: &Judged, terminal: &Terminal) -> String {
        let Judged { property, verdict, claim } = judged;
        let (tick, cross) = if terminal.ascii { ("+", "x") } else { ("✓", "✗") };
        let unit = self.spec.setup.delay;
        let (mark, word, said) = match verdict {
            Verdict::Held => {
                (paint(GOOD, tick), paint(GOOD, "held    "), property.meaning().to_owned())
            }
            Verdict::Violated { record, why } => {
                let at = self.outcome.trace.records.get(*record);
                let at = at.map_or(String::new(), |record| {
                    format!(
                        " (event {}, at {} T)",
                        judged_record(verdict),
                        in_units(record.at - Time::ZERO, unit)
                    )
                });
                (paint(ERROR, cross), paint(ERROR, "VIOLATED"), format!("{why}{at}"))
            }
            Verdict::Open { why } => (paint(WARN, "?"), paint(WARN, "open    "), why.clone()),
        };
        let note = match (verdict.is_violated(), claim) {
            (true, Claim::Promised | Claim::Spoilt) if !self.beyond.is_empty() => {
                " (outside its model)".to_owned()
            }
            (true, Claim::Spoilt) => " (as the sound algorithm never does)".to_owned(),
            (true, Claim::Fails(why)) => format!(" (known: {why})"),
            (true, Claim::None) => " (not promised)".to_owned(),
            (false, Claim::Fails(_) | Claim::None) => " (this time; not promised)".to_owned(),
            (false, Claim::Spoilt) => " (this time; it is spoilt)".to_owned(),
            (_, Claim::Promised) => String::new(),
        };
        format!("{mark} {property:<8} {word} {said}{}\n", paint(DIM, note))
    }

    /// Everything, for programs.
    pub fn json(&self) -> Value {
        let costs = &self.costs;
        let trace = &self.outcome.trace;
        let seconds = |span: Duration| span.as_secs_f64();
        let percentiles = |of: conclave_sim::Percentiles| {
            json!({
                "p50": seconds(of.p50), "p90": seconds(of.p90), "p99": seconds(of.p99),
                "max": seconds(of.max), "mean": seconds(of.mean),
            })
        };
        let entries: Vec<Value> = costs
            .entries
            .iter()
            .enumerate()
            .map(|(i, entry)| {
                let mut value = json!(entry);
                let hops = if i < CHAINED { costs.entry_hops(trace, entry) } else { None };
                value["hops"] = json!(hops);
                value
            })
            .collect();
        json!({
            "algorithm": self.info.id,
            "spec": self.spec,
            "beyond_model": self.beyond.iter().map(|Beyond(text)| text).collect::<Vec<_>>(),
            "end": self.outcome.end,
            "end_at_ns": self.outcome.at.as_nanos(),
            "stats": self.outcome.stats,
            "costs": {
                "entries": entries,
                "messages": costs.messages,
                "messages_per_entry": costs.messages_per_entry(),
                "transmissions": costs.transmissions,
                "overhead": costs.overhead,
                "lost": costs.lost,
                "bytes": costs.bytes,
                "bytes_per_entry": costs.bytes_per_entry(),
                "by_label": costs.by_label,
                "handovers": costs.handovers,
                "waiting_s": percentiles(costs.waiting()),
                "response_s": percentiles(costs.turnaround()),
                "synchronization_s": percentiles(costs.synchronization()),
                "throughput_per_s": costs.throughput(),
                "fairness": costs.fairness(),
                "overtaking": costs.overtaking(),
            },
            "properties": self.judged.iter().map(Judged::json).collect::<Vec<_>>(),
            "violated": self.done() == Done::Violated,
        })
    }
}

fn judged_record(verdict: &Verdict) -> usize {
    match verdict {
        Verdict::Violated { record, .. } => *record,
        _ => 0,
    }
}

impl Judged {
    fn json(&self) -> Value {
        let mut value = json!(self.verdict);
        value["property"] = json!(self.property);
        value["meaning"] = json!(self.property.meaning());
        value["promised"] = json!(self.claim == Claim::Promised);
        if let Claim::Fails(why) = self.claim {
            value["known_failure"] = json!(why);
        }
        value
    }
}

/// A table without lines between its rows.
pub(crate) fn table(terminal: &Terminal) -> Table {
    let mut table = Table::new();
    table
        .load_preset(if terminal.ascii { ASCII_TABLE } else { presets::UTF8_HORIZONTAL_ONLY })
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(terminal.width).unwrap_or(u16::MAX));
    if !terminal.ascii {
        // A line under the heading is enough.
        for part in [
            comfy_table::TableComponent::HorizontalLines,
            comfy_table::TableComponent::MiddleIntersections,
            comfy_table::TableComponent::TopBorder,
            comfy_table::TableComponent::TopBorderIntersections,
            comfy_table::TableComponent::BottomBorder,
            comfy_table::TableComponent::BottomBorderIntersections,
        ] {
            table.remove_style(part);
        }
    }
    table
}

/// A line of dashes under the heading, and nothing else.
const ASCII_TABLE: &str = "     --            ";

/// A number without more digits than it needs.
pub(crate) fn number(value: f64) -> String {
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

/// What a specification says, in one line.
pub fn describe(info: &Info, spec: &RunSpec) -> String {
    let unit = spec.setup.delay;
    let mut parts = vec![
        format!("({}), {}, {}", info.id, counted(spec.setup.n() as usize, "node"), shape(spec)),
        format!("{}, T = {unit:?}", delays(spec)),
        workload(info, spec),
    ];
    if spec.channels != Channels::Fifo {
        parts.push("messages may overtake each other".to_owned());
    }
    if spec.reliable {
        parts.push("over acknowledged links".to_owned());
    }
    let share = |millionths: u32| number(f64::from(millionths) / 10_000.0);
    if spec.faults.loss > 0 {
        parts.push(format!("{}% of messages lost", share(spec.faults.loss)));
    }
    if spec.faults.duplication > 0 {
        parts.push(format!("{}% of messages repeated", share(spec.faults.duplication)));
    }
    if spec.faults.skew > 0 {
        parts.push(format!("clocks off by up to {} ppm", spec.faults.skew));
    }
    if !spec.faults.plan.is_empty() {
        parts.push(counted(spec.faults.plan.len(), "planned fault"));
    }
    for (name, value) in &spec.setup.options {
        parts.push(format!("{name}={value}"));
    }
    parts.push(format!("seed {}", spec.seed));
    parts.join("; ")
}

fn shape(spec: &RunSpec) -> &'static str {
    match spec.setup.topology.shape() {
        "complete" => "each linked with each",
        "ring" => "in a ring",
        "line" => "in a line",
        "star" => "in a star",
        "binary" => "in a binary tree",
        "tree" => "in a tree",
        _ => "in a graph",
    }
}

fn delays(spec: &RunSpec) -> String {
    let mut text = match &spec.delays.model {
        Delay::Constant(delay) if *delay == spec.setup.delay => "unit delays".to_owned(),
        Delay::Constant(delay) => format!("delays of {delay:?}"),
        Delay::Uniform(least, most) => format!("delays of {least:?} to {most:?}"),
        Delay::Exponential(mean) => format!("exponential delays of {mean:?} on average"),
        Delay::Matrix(_) => "delays by link".to_owned(),
        Delay::Serial(each) => format!("a medium that takes {each:?} per message"),
    };
    if !spec.delays.links.is_empty() {
        let _ = write!(text, " with {}", counted(spec.delays.links.len(), "exception"));
    }
    text
}

fn workload(info: &Info, spec: &RunSpec) -> String {
    let inside = |hold: Spread| {
        if hold.least == hold.most {
            format!("{:?}", hold.least)
        } else {
            format!("{:?} to {:?}", hold.least, hold.most)
        }
    };
    // Nobody is inside anything where nothing is exclusive.
    let hold = match info.family() {
        "mutex" => format!(", inside for {}", inside(spec.workload.hold)),
        _ => String::new(),
    };
    let often = |rounds: &Option<u32>| match rounds {
        Some(1) => "once".to_owned(),
        Some(rounds) => format!("{rounds} times"),
        None => "without end".to_owned(),
    };
    match &spec.workload.arrivals {
        Arrivals::Plan(asks) if asks.is_empty() => "nobody asks".to_owned(),
        Arrivals::Plan(asks) => {
            let mut who: Vec<NodeId> = asks.iter().map(|ask| ask.node).collect();
            who.sort_unstable();
            who.dedup();
            let asks = counted(asks.len(), "request");
            format!("{asks} by {}{hold}", counted(who.len(), "node"))
        }
        Arrivals::Closed { clients, rounds, .. } => {
            let clients = counted(clients.len(), "node");
            format!("{clients} asking {}{hold}", often(rounds))
        }
        Arrivals::Open { clients, rounds, every } => {
            let clients = counted(clients.len(), "node");
            format!("{clients} asking {} every {every:?} or so{hold}", often(rounds))
        }
    }
}

fn counted(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}
