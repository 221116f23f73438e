//! A run's report for programs: what `run --json` prints.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocol::{NodeId, Property, Time};
use conclave_sim::{
    Beyond, End, EntryCost, Handover, Percentiles, RunSpec, Stats, Superpeers, Verdict,
};
use serde::Serialize;

use super::{CHAINED, Claim, Judged, Report};

/// Everything that is said about a run.
#[derive(Clone, Debug, Serialize)]
pub struct RunData<'a> {
    /// The algorithm's id.
    pub algorithm: &'static str,
    /// The case of the theory that the run is an example of.
    pub theory: Option<TheoryData>,
    /// What was run.
    pub spec: &'a RunSpec,
    /// In which ways the run went beyond the algorithm's model.
    pub beyond_model: Vec<&'a str>,
    /// Why the run ended.
    pub end: End,
    /// When it ended, in nanoseconds of virtual time.
    pub end_at_ns: u64,
    /// How much happened.
    pub stats: Stats,
    /// What it cost.
    pub costs: CostData<'a>,
    /// Which properties held.
    pub properties: Vec<JudgedData<'a>>,
    /// Where snapshots are taken: whether the state of each can be reached from that before it, and
    /// that after it from there, shown by execution.
    pub reach: Option<&'a Verdict>,
    /// Where several are elected to serve the rest: how good they are.
    pub superpeers: Option<Demands>,
    /// What nodes tell of states they have recorded, if the run was recorded in full.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recorded: Vec<RecordedData>,
    /// Whether a promise was broken in a run that keeps the model.
    pub violated: bool,
}

/// What a node tells of states that it has recorded.
#[derive(Clone, Debug, Serialize)]
pub struct RecordedData {
    /// The node.
    pub node: NodeId,
    /// When, in nanoseconds of virtual time.
    pub at_ns: u64,
    /// What, in words.
    pub text: String,
}

/// A case of the theory beside what was measured.
#[derive(Clone, Debug, Serialize)]
pub struct TheoryData {
    /// The row, by algorithm and case.
    pub row: String,
    /// The case in words.
    pub given: &'static str,
    /// Figure by figure.
    pub figures: Vec<FigureData>,
}

/// A figure of the theory beside the measured one.
#[derive(Clone, Debug, Serialize)]
pub struct FigureData {
    /// Its name in the theory.
    pub quantity: &'static str,
    /// What the run says.
    pub measured: Option<f64>,
    /// What theory says, as a formula.
    pub formula: &'static str,
    /// What the formula comes to.
    pub theory: f64,
    /// Whether it is the most that theory allows for rather than the exact figure.
    pub bound: bool,
}

/// What a run cost.
#[derive(Clone, Debug, Serialize)]
pub struct CostData<'a> {
    /// Every entry that was asked for, in the order of asking.
    pub entries: Vec<EntryData<'a>>,
    /// Messages sent, each copy of a broadcast counted.
    pub messages: u64,
    /// Messages per entry, of those who entered.
    pub messages_per_entry: Option<f64>,
    /// Transmissions, where a broadcast is one.
    pub transmissions: u64,
    /// Messages that belong to no entry.
    pub overhead: u64,
    /// Messages that never arrived.
    pub lost: u64,
    /// Bytes sent, if sizes were measured.
    pub bytes: u64,
    /// Bytes per entry, if sizes were measured.
    pub bytes_per_entry: Option<f64>,
    /// Messages by name.
    pub by_label: &'a BTreeMap<String, u64>,
    /// The critical section passing from one node to the next.
    pub handovers: &'a [Handover],
    /// From asking to entering, in seconds.
    pub waiting_s: Seconds,
    /// From asking to leaving, in seconds.
    pub response_s: Seconds,
    /// From one leaving to the next entering, in seconds.
    pub synchronization_s: Seconds,
    /// Entries per second.
    pub throughput_per_s: Option<f64>,
    /// Jain's index of the entries of each node; 1 is even.
    pub fairness: Option<f64>,
    /// How often a request was overtaken by later ones, at most.
    pub overtaking: u64,
}

/// What one entry cost.
#[derive(Clone, Debug, Serialize)]
pub struct EntryData<'a> {
    /// Who, when, and how many messages.
    #[serde(flatten)]
    pub cost: &'a EntryCost,
    /// The length of the causal chain from asking to entering; of the first 500 entries only.
    pub hops: Option<u32>,
}

/// Percentiles of durations, in seconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Seconds {
    /// Half are no longer.
    pub p50: f64,
    /// Nine of ten are no longer.
    pub p90: f64,
    /// Ninety-nine of a hundred are no longer.
    pub p99: f64,
    /// None is longer.
    pub max: f64,
    /// The mean.
    pub mean: f64,
}

/// A property, what the run says about it, and what the algorithm does.
#[derive(Clone, Debug, Serialize)]
pub struct JudgedData<'a> {
    /// What the run says.
    #[serde(flatten)]
    pub verdict: &'a Verdict,
    /// The property.
    pub property: Property,
    /// What it says.
    pub meaning: &'static str,
    /// Whether the algorithm promises it.
    pub promised: bool,
    /// How it comes to fail, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known_failure: Option<&'static str>,
}

/// Superpeers, and what is demanded of them.
#[derive(Clone, Debug, Serialize)]
pub struct Demands {
    /// Those there are.
    pub found: Superpeers,
    /// How many there should be.
    pub wanted: f64,
    /// Whether each demand is met, and the demand in words.
    pub demands: Vec<(bool, String)>,
}

impl From<Percentiles> for Seconds {
    fn from(of: Percentiles) -> Self {
        let seconds = |span: Duration| span.as_secs_f64();
        Self {
            p50: seconds(of.p50),
            p90: seconds(of.p90),
            p99: seconds(of.p99),
            max: seconds(of.max),
            mean: seconds(of.mean),
        }
    }
}

impl From<(NodeId, Time, String)> for RecordedData {
    fn from((node, at, text): (NodeId, Time, String)) -> Self {
        Self { node, at_ns: at.as_nanos(), text }
    }
}

impl Report<'_> {
    /// Everything, for programs.
    pub fn data(&self) -> RunData<'_> {
        RunData {
            algorithm: self.info.id,
            theory: self.theory_data(),
            spec: self.spec,
            beyond_model: self.beyond.iter().map(|Beyond(text)| text.as_str()).collect(),
            end: self.outcome.trace.end,
            end_at_ns: self.outcome.trace.ended.as_nanos(),
            stats: self.outcome.stats,
            costs: self.cost_data(),
            properties: self.judged.iter().map(Judged::data).collect(),
            reach: self.reach.as_ref(),
            superpeers: self.superpeers().map(|(found, wanted)| {
                let demands = found.judged(wanted).into_iter().collect();
                Demands { found, wanted, demands }
            }),
            recorded: self.shown().into_iter().map(RecordedData::from).collect(),
            violated: self.violated(),
        }
    }

    fn theory_data(&self) -> Option<TheoryData> {
        let row = self.theory.as_ref()?.row;
        let figures = self.figures().into_iter().filter_map(|measured| {
            let expected = self.expected(measured.key)?;
            Some(FigureData {
                quantity: measured.key,
                measured: measured.value,
                formula: expected.formula,
                theory: expected.value,
                bound: expected.bound,
            })
        });
        Some(TheoryData { row: row.to_string(), given: &row.given, figures: figures.collect() })
    }

    fn cost_data(&self) -> CostData<'_> {
        let (costs, trace) = (&self.costs, &self.outcome.trace);
        let entry = |(i, cost)| {
            let hops = if i < CHAINED { costs.entry_hops(trace, cost) } else { None };
            EntryData { cost, hops }
        };
        CostData {
            entries: costs.entries.iter().enumerate().map(entry).collect(),
            messages: costs.messages,
            messages_per_entry: costs.messages_per_entry(),
            transmissions: costs.transmissions,
            overhead: costs.overhead,
            lost: costs.lost,
            bytes: costs.bytes,
            bytes_per_entry: costs.bytes_per_entry(),
            by_label: &costs.by_label,
            handovers: &costs.handovers,
            waiting_s: costs.waiting().into(),
            response_s: costs.turnaround().into(),
            synchronization_s: costs.synchronization().into(),
            throughput_per_s: costs.throughput(),
            fairness: costs.fairness(),
            overtaking: costs.overtaking(),
        }
    }
}

impl Judged {
    /// Everything, for programs.
    pub fn data(&self) -> JudgedData<'_> {
        JudgedData {
            verdict: &self.verdict,
            property: self.property,
            meaning: self.property.meaning(),
            promised: self.claim == Claim::Promised,
            known_failure: match self.claim {
                Claim::Fails(why) => Some(why),
                _ => None,
            },
        }
    }
}
