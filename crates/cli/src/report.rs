//! What is said about a run: what it was, what it cost, and which properties held.

mod describe;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use conclave_algorithms::election::superpeers_wanted;
use conclave_protocol::{Info, Mark, NodeId, Property, Time, Wrap};
use conclave_sim::{
    Beyond, Costs, End, Event, JudgeLimits, Outcome, RunSpec, Superpeers, Tracing, Verdict, judge,
    judgeable,
};
use serde_json::{Value, json};

pub use self::describe::describe;
use crate::diagram::{Remark, in_units};
use crate::terminal::{BOLD, DIM, ERROR, GOOD, WARN, paint};
use crate::theory::fit::{About, Fit, fit};
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

/// A figure that was measured.
struct Measured {
    /// Its name in the theory, if it has one.
    key: &'static str,
    /// What it is, in words.
    name: &'static str,
    /// The figure.
    text: String,
    /// The figure as a number, if it is a single one.
    value: Option<f64>,
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
    let limits = JudgeLimits::of(info, spec, outcome);
    let size = outcome.trace.records.len().saturating_mul(outcome.trace.nodes as usize);
    let repeats = Wrap::of(&spec.setup).is_ok_and(Wrap::repeats);
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
        Property::FenceOrder | Property::FcfsTimestamp if repeats => {
            Verdict::Open { why: "with wrap set, fencing tokens come again and again".into() }
        }
        _ => judge(property, outcome, limits),
    };
    let judged =
        |property| Judged { property, verdict: verdict(property), claim: claim(info, property) };
    judgeable(info).into_iter().map(judged).collect()
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
            theory: fit(info, spec),
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
    pub fn cost_table(&self, terminal: &Terminal) -> String {
        let mut table = table(terminal);
        let figures = self.figures();
        let beside: Vec<String> =
            figures.iter().map(|measured| self.beside(measured, terminal)).collect();
        let theory = self.theory.as_ref().filter(|_| beside.iter().any(|text| !text.is_empty()));
        let mut header = vec!["cost", "measured"];
        header.extend(theory.map(|_| "theory"));
        table.set_header(header);
        for (measured, beside) in figures.into_iter().zip(beside) {
            let mut row = vec![measured.name.to_owned(), measured.text];
            row.extend(theory.map(|_| beside));
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
        if let Some(Fit { row, about, .. }) = theory {
            let load = match about {
                About::Each if row.scenario != "saturated" => "; the same under any load",
                About::AtMost if row.scenario == "contended-bound" => "",
                About::AtMost => "; under load no more",
                _ => "",
            };
            let _ = writeln!(text, "theory: {row} ({}{load})", row.given);
        }
        text
    }

    /// What theory says about a figure: the formula, its value, and whether it came out.
    fn beside(&self, measured: &Measured, terminal: &Terminal) -> String {
        let expected = self.expected(measured.key);
        let Some((formula, expected, bound)) = expected else { return String::new() };
        let agrees = measured.value.is_some_and(|value| {
            let equal = (value - expected).abs() < 1e-9;
            equal || bound && value < expected
        });
        let figure = number(expected);
        let figure = if formula == figure { figure } else { format!("{formula} = {figure}") };
        let most = match (bound, terminal.ascii) {
            (false, _) => "",
            (true, true) => "<= ",
            (true, false) => "≤ ",
        };
        let sign = match (agrees, terminal.ascii) {
            (false, _) => "",
            (true, true) => " ok",
            (true, false) => " ✓",
        };
        format!("{most}{figure}{}", paint(GOOD, sign))
    }

    /// The theory's figure for a measured one: the formula, its value, and whether that is a bound.
    fn expected(&self, key: &str) -> Option<(&'static str, f64, bool)> {
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
        Some((formula, value, bound))
    }

    /// What was measured.
    fn figures(&self) -> Vec<Measured> {
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
            let mean = |of: fn(&conclave_sim::EntryCost) -> u64| {
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
        let upkeep = self.info.family() == "election" && costs.overhead < costs.messages;
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
        rows.push(time("", "virtual time", self.outcome.at - Time::ZERO));
        if self.outcome.tracing < Tracing::Events {
            rows.push(text("", "steps of nodes", self.outcome.stats.events.to_string()));
            rows.push(text("", "events pending at most", self.outcome.stats.pending.to_string()));
            if let Some(bytes) = memory_peak() {
                let mebibytes = format!("{} MiB", bytes >> 20);
                rows.push(text("", "memory of the program at most", mebibytes));
            }
        }
        rows
    }

    /// How long an election took, from the first call until the last to learn of it has done so.
    fn turnaround(&self) -> Option<Duration> {
        if self.info.family() != "election" {
            return None;
        }
        let records = &self.outcome.trace.records;
        let called = records.iter().find(|r| r.event() == Event::Request(Mark::Called))?.at;
        let follows = |event| matches!(event, Event::Notice(Mark::Follows { .. }));
        let last = records.iter().rev().find(|record| follows(record.event()))?.at;
        (last > called).then(|| last - called)
    }

    /// The verdict on each property, in words.
    pub fn verdicts(&self, terminal: &Terminal) -> String {
        let mut text = String::new();
        for judged in &self.judged {
            text.push_str(&self.verdict_line(judged, terminal));
        }
        if let Some((found, wanted)) = self.superpeers() {
            let (tick, cross) = if terminal.ascii { ("+", "x") } else { ("✓", "✗") };
            let _ = writeln!(text, "{}", paint(BOLD, "superpeers"));
            for (well, line) in found.judged(wanted) {
                let mark = if well { paint(GOOD, tick) } else { paint(ERROR, cross) };
                let _ = writeln!(text, "{mark} {line}");
            }
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
            End::TimeLimit => "The run was cut off: the time was up; --until gives it more.",
            End::EventLimit => {
                "The run was cut off: the number of events was reached; --events allows more."
            }
            End::Decisions => "The run ends with its last decision; more could have followed.",
        };
        let _ = writeln!(text, "{}", paint(DIM, end));
        text
    }

    /// Where several are elected to serve the rest: how good they are, and how many there should be.
    fn superpeers(&self) -> Option<(Superpeers, f64)> {
        let setup = &self.spec.setup;
        let wanted = superpeers_wanted(setup).filter(|_| self.info.elects_several())?;
        Some((Superpeers::of(&self.outcome.beliefs, &setup.topology), wanted))
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
        let theory = self.theory.as_ref().map(|Fit { row, .. }| {
            let figures = self.figures().into_iter().filter_map(|measured| {
                let (formula, value, bound) = self.expected(measured.key)?;
                Some(json!({
                    "quantity": measured.key, "measured": measured.value,
                    "formula": formula, "theory": value, "bound": bound,
                }))
            });
            let figures: Vec<Value> = figures.collect();
            json!({ "row": row.to_string(), "given": row.given, "figures": figures })
        });
        json!({
            "algorithm": self.info.id,
            "theory": theory,
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
            "superpeers": self.superpeers().map(|(found, wanted)| {
                let demands = found.judged(wanted).map(|(well, text)| json!([well, text]));
                json!({ "found": found, "wanted": wanted, "demands": demands })
            }),
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

/// The most memory that the program has had, where the system tells.
fn memory_peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
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
