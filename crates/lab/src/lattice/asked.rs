//! What the commands about cuts answer, as data.

use std::collections::BTreeSet;

use conclave_protocol::NodeId;
use conclave_sim::{Event, Trace, TraceFile};
use serde::Serialize;
use serde_json::Value;

use super::fact::Asked;
use super::state::{Contents, StateData};
use super::{
    Computation, Definitely, Fact, Happening, MEMORY, Questions, Recorded, Scope, Sent, Status,
    Stop, Visitor, Walked, walk,
};
use crate::Refusal;
use crate::diagram::steps::steps;

/// What to find out about a run.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which steps are events.
    pub scope: Scope,
    /// A fact: is it so in some consistent cut?
    pub possibly: Option<String>,
    /// A fact: does every run in which the same happened pass through a cut in which it is so?
    pub definitely: Option<String>,
    /// How many bytes the cuts may take.
    pub memory: u64,
    /// Of how many cuts, at most, to say what each is like; of none, if there are more.
    pub keep: usize,
}

/// Events of the application, no question, the usual memory, and nothing kept.
impl Default for Request {
    fn default() -> Self {
        let (scope, possibly, definitely) = (Scope::Application, None, None);
        Self { scope, possibly, definitely, memory: MEMORY, keep: 0 }
    }
}

/// All consistent cuts of a run: what `lattice --json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct LatticeData {
    /// The algorithm's id.
    pub algorithm: String,
    /// Whether control messages, and the steps that they cause, count as well.
    pub control: bool,
    /// How many events each node has.
    pub events: Vec<u32>,
    /// How many messages there are between them.
    pub messages: usize,
    /// How many of these are still on their way at the end.
    pub on_their_way: usize,
    /// How many cuts there are, consistent or not, as text: the number may be long.
    pub cuts: String,
    /// How many consistent cuts there are of each size, as far as the walk came.
    pub levels: Vec<u64>,
    /// How many consistent cuts that makes.
    pub consistent: u64,
    /// In how many orders all of it could have happened, as text, if the walk came to its end.
    pub linearizations: Option<String>,
    /// Whether there are more linearizations than that, which is the largest number that fits.
    pub capped: bool,
    /// Whose events came one after the other in the run that happened.
    pub run: Vec<NodeId>,
    /// The snapshots that were recorded.
    pub snapshots: Vec<SnapshotData>,
    /// Whether a fact is so in some consistent cut.
    pub possibly: Option<KnownData>,
    /// Whether every run passes through a cut in which a fact is so.
    pub definitely: Option<AvoidedData>,
    /// Why the walk ended before its end, if it did.
    pub stopped: Option<StoppedData>,
    /// How many bytes the cuts took at most.
    pub memory: u64,
    /// The consistent cuts, level by level; none if there are too many.
    pub states: Vec<CutData>,
}

/// A snapshot of the run.
#[derive(Clone, Debug, Serialize)]
pub struct SnapshotData {
    /// Its number.
    pub number: u16,
    /// How many events of each node came before it recorded; null of those that did not.
    pub recorded: Vec<Option<u32>>,
    /// Whether that is a consistent cut, if every node has recorded.
    pub consistent: Option<bool>,
}

/// What is known of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Known {
    /// It is so.
    Yes,
    /// It is not.
    No,
    /// The walk was stopped too soon to say.
    Unknown,
}

/// Whether a fact is so in some consistent cut.
#[derive(Clone, Debug, Serialize)]
pub struct KnownData {
    /// The fact, as it was asked.
    pub fact: String,
    /// The answer.
    pub answer: Known,
    /// The first cut in which it is so.
    pub cut: Option<Vec<u32>>,
    /// Whether it was so in the run that happened.
    pub in_run: bool,
    /// The global state of that cut.
    pub state: Option<StateData>,
}

/// Whether every run passes through a cut in which a fact is so.
#[derive(Clone, Debug, Serialize)]
pub struct AvoidedData {
    /// The fact, as it was asked.
    pub fact: String,
    /// The answer.
    pub answer: Known,
    /// If so: every run has passed through such a cut when so many events have happened.
    pub by: Option<usize>,
    /// If not: whose events come one after the other in a run that avoids it, unless there was no
    /// memory to keep it.
    pub avoiding: Option<Vec<NodeId>>,
    /// Whether it was so in the run that happened.
    pub in_run: bool,
}

/// Why and where a walk ended before its end.
#[derive(Clone, Debug, Serialize)]
pub struct StoppedData {
    /// Why.
    pub why: Stop,
    /// How many events the last whole level stands for.
    pub level: usize,
    /// How many events there are.
    pub of: usize,
}

/// A consistent cut.
#[derive(Clone, Debug, Serialize)]
pub struct CutData {
    /// How many events of each node.
    pub cut: Vec<u32>,
    /// In how many orders it can be reached, as text.
    pub ways: String,
    /// Whether the run that happened passed through it.
    pub run: bool,
    /// The numbers of the snapshots that recorded it.
    pub snapshots: Vec<u16>,
    /// Whether what was asked about by `--possibly` is so in it.
    pub possibly: Option<bool>,
    /// The same of `--definitely`.
    pub definitely: Option<bool>,
    /// What it is like.
    pub state: StateData,
}

/// Walks through all consistent cuts of a recorded run; `file` has what messages and states said.
/// `on` is told now and then how many events the cuts have that are looked for, how many there are,
/// and how many cuts have been found; it says whether to go on.
pub fn lattice(
    trace: &Trace,
    file: Option<&TraceFile>,
    request: &Request,
    on: impl FnMut(usize, usize, u64) -> bool,
) -> Result<LatticeData, Refusal> {
    let fact = |text: &Option<String>| match text {
        Some(text) => Fact::parse(text, trace.nodes).map(Some).map_err(Refusal::Usage),
        None => Ok(None),
    };
    let questions = Questions {
        possibly: fact(&request.possibly)?,
        definitely: fact(&request.definitely)?,
        memory: request.memory,
    };
    let run = Computation::new(trace, request.scope);
    let statuses = Status::all(&run);
    let most = request.keep as u64;
    let mut keeper = Keeper { kept: Some(Vec::new()), seen: 0, most, total: run.run.len(), on };
    let walked = walk(&run, &statuses, &questions, &mut keeper);
    let kept = keeper.kept.unwrap_or_default();
    let contents = Contents::new(trace, file, request.scope);
    let all = Described { run: &run, statuses: &statuses, questions: &questions, contents };
    Ok(all.data(trace, request, walked, kept))
}

/// Keeps the cuts, as long as they are few.
struct Keeper<F> {
    kept: Option<Vec<(Vec<u32>, u128)>>,
    seen: u64,
    most: u64,
    total: usize,
    on: F,
}

impl<F: FnMut(usize, usize, u64) -> bool> Visitor for Keeper<F> {
    fn level(&mut self, _: usize, cuts: &mut dyn Iterator<Item = (&[u32], u128)>) {
        let mut level: Vec<(Vec<u32>, u128)> = Vec::new();
        for (cut, ways) in cuts {
            self.seen += 1;
            if self.kept.is_some() && self.seen <= self.most {
                level.push((cut.to_vec(), ways));
            }
        }
        match &mut self.kept {
            Some(all) if self.seen <= self.most => {
                level.sort_by(|a, b| b.0.cmp(&a.0));
                all.append(&mut level);
            }
            _ => self.kept = None,
        }
    }

    fn goes_on(&mut self, size: usize, found: u64) -> bool {
        (self.on)(size, self.total, self.seen + found)
    }
}

/// A run with all that is needed to describe its cuts.
struct Described<'a> {
    run: &'a Computation,
    statuses: &'a [Vec<Status>],
    questions: &'a Questions,
    contents: Contents<'a>,
}

impl Described<'_> {
    fn data(
        &self,
        trace: &Trace,
        request: &Request,
        walked: Walked,
        kept: Vec<(Vec<u32>, u128)>,
    ) -> LatticeData {
        let run = self.run;
        let on_their_way = |it: &&Sent| it.received.is_none() && !it.lost;
        let snapshots = run.snapshots.iter().map(|snapshot| SnapshotData {
            number: snapshot.number,
            recorded: snapshot.cut.clone(),
            consistent: snapshot.whole().map(|cut| run.is_consistent(&cut)),
        });
        LatticeData {
            algorithm: trace.algorithm.clone(),
            control: request.scope == Scope::Everything,
            events: run.lengths(),
            messages: run.messages.len(),
            on_their_way: run.messages.iter().filter(on_their_way).count(),
            cuts: product(&run.lengths()),
            consistent: walked.levels.iter().sum(),
            linearizations: walked.linearizations.map(|number| number.to_string()),
            capped: walked.capped && walked.linearizations.is_some(),
            run: run.run.clone(),
            snapshots: snapshots.collect(),
            possibly: self.possibly(request, &walked),
            definitely: self.definitely(request, &walked),
            stopped: walked.stopped.map(|why| StoppedData {
                why,
                level: walked.levels.len().saturating_sub(1),
                of: run.run.len(),
            }),
            memory: walked.bytes,
            states: self.states(kept),
            levels: walked.levels,
        }
    }

    fn possibly(&self, request: &Request, walked: &Walked) -> Option<KnownData> {
        let fact = request.possibly.clone()?;
        let answer = match (&walked.possibly, walked.stopped) {
            (Some(_), _) => Known::Yes,
            (None, None) => Known::No,
            (None, Some(_)) => Known::Unknown,
        };
        let state = walked.possibly.as_ref();
        let state = state.map(|cut| self.contents.state(self.run, self.statuses, cut));
        let in_run = self.in_run(self.questions.possibly.as_ref()?);
        Some(KnownData { fact, answer, cut: walked.possibly.clone(), in_run, state })
    }

    fn definitely(&self, request: &Request, walked: &Walked) -> Option<AvoidedData> {
        let fact = request.definitely.clone()?;
        let (answer, by, avoiding) = match &walked.definitely {
            Some(Definitely::By(size)) => (Known::Yes, Some(*size), None),
            Some(Definitely::Refuted(run)) => (Known::No, None, run.clone()),
            None => (Known::Unknown, None, None),
        };
        let in_run = self.in_run(self.questions.definitely.as_ref()?);
        Some(AvoidedData { fact, answer, by, avoiding, in_run })
    }

    /// Whether a fact was so at some moment of the run that happened.
    fn in_run(&self, fact: &Fact) -> bool {
        let asked = Asked::new(fact, self.run, self.statuses);
        passed(self.run).any(|cut| asked.holds(&cut))
    }

    fn states(&self, kept: Vec<(Vec<u32>, u128)>) -> Vec<CutData> {
        let asked = |fact| Asked::new(fact, self.run, self.statuses);
        let possibly = self.questions.possibly.as_ref().map(asked);
        let definitely = self.questions.definitely.as_ref().map(asked);
        let happened: BTreeSet<Vec<u32>> = match kept.is_empty() {
            true => BTreeSet::new(),
            false => passed(self.run).collect(),
        };
        let snapshots = |cut: &Vec<u32>| {
            let those = self.run.snapshots.iter().filter(|it| it.whole().as_ref() == Some(cut));
            those.map(|it| it.number).collect()
        };
        let data = |(cut, ways): (Vec<u32>, u128)| CutData {
            ways: ways.to_string(),
            run: happened.contains(&cut),
            snapshots: snapshots(&cut),
            possibly: possibly.as_ref().map(|it| it.holds(&cut)),
            definitely: definitely.as_ref().map(|it| it.holds(&cut)),
            state: self.contents.state(self.run, self.statuses, &cut),
            cut,
        };
        kept.into_iter().map(data).collect()
    }
}

/// The cuts that the run that happened passed through.
fn passed(run: &Computation) -> impl Iterator<Item = Vec<u32>> {
    let mut cut = vec![0; run.nodes()];
    let first = std::iter::once(cut.clone());
    first.chain(run.run.iter().map(move |node| {
        cut[node.index()] += 1;
        cut.clone()
    }))
}

/// How many cuts there are: each node may be anywhere.
fn product(lengths: &[u32]) -> String {
    // The number may be longer than any type has room for.
    let mut digits = vec![1u64];
    for &length in lengths {
        let mut carry = 0;
        for digit in &mut digits {
            let product = *digit * (u64::from(length) + 1) + carry;
            (*digit, carry) = (product % 1_000_000_000, product / 1_000_000_000);
        }
        while carry > 0 {
            digits.push(carry % 1_000_000_000);
            carry /= 1_000_000_000;
        }
    }
    let (last, rest) = digits.split_last().expect("there is one");
    let rest = rest.iter().rev().map(|digit| format!("{digit:09}"));
    std::iter::once(last.to_string()).chain(rest).collect()
}

/// What can be said of a cut: what `cut --json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct CutReport {
    /// The algorithm's id.
    pub algorithm: String,
    /// Whether control messages, and the steps that they cause, count as well.
    pub control: bool,
    /// How many events each node has.
    pub events: Vec<u32>,
    /// The cut: how many events of each node.
    pub cut: Vec<u32>,
    /// Whether it is consistent.
    pub consistent: bool,
    /// The messages that break it: received inside and sent outside.
    pub broken_by: Vec<TornData>,
    /// The largest consistent cut within it.
    pub within: Vec<u32>,
    /// The smallest consistent cut around it.
    pub around: Vec<u32>,
    /// What nodes and channels hold.
    pub state: StateData,
}

/// A message that is received inside a cut and sent outside.
#[derive(Clone, Debug, Serialize)]
pub struct TornData {
    /// Its name.
    pub label: String,
    /// The sender.
    pub from: NodeId,
    /// The event that sent it.
    pub sent: u32,
    /// The receiver.
    pub to: NodeId,
    /// The event that received it.
    pub received: u32,
    /// What it says, if the trace has it.
    pub data: Option<Value>,
}

/// Says of a cut of a recorded run whether it is consistent, and what it is like.
pub fn cut(
    trace: &Trace,
    file: Option<&TraceFile>,
    scope: Scope,
    at: &str,
) -> Result<CutReport, Refusal> {
    let run = Computation::new(trace, scope);
    let cut = parse_cut(at, &run)?;
    let contents = Contents::new(trace, file, scope);
    let torn = run.torn(&cut).map(|it| TornData {
        label: trace.name(it.label).to_owned(),
        from: it.from,
        sent: it.sent,
        to: it.to,
        received: it.received.expect("it is received inside"),
        data: contents.message(it).data,
    });
    let statuses = Status::all(&run);
    Ok(CutReport {
        algorithm: trace.algorithm.clone(),
        control: scope == Scope::Everything,
        events: run.lengths(),
        consistent: run.is_consistent(&cut),
        broken_by: torn.collect(),
        within: run.largest_within(&cut),
        around: run.smallest_around(&cut),
        state: contents.state(&run, &statuses, &cut),
        cut,
    })
}

/// Reads a cut of a run: `p0:5,p1:7,p2:3`, or the number of a snapshot, `#0`.
pub fn parse_cut(text: &str, run: &Computation) -> Result<Vec<u32>, Refusal> {
    let lengths = run.lengths();
    if let Some(number) = text.strip_prefix('#') {
        return recorded(number, run);
    }
    let mut cut: Vec<Option<u32>> = vec![None; lengths.len()];
    for part in text.split(',').map(str::trim) {
        let parsed = part.split_once(':').and_then(|(node, events)| {
            let node: usize = node.trim().trim_start_matches('p').parse().ok()?;
            Some((node, events.trim().parse::<u32>().ok()?))
        });
        let Some((node, events)) = parsed else {
            return Err(Refusal::Usage(format!(
                "{part:?} is no part of a cut; a cut of this run is {} or less of each",
                cut_in_words(&lengths)
            )));
        };
        let Some(&length) = lengths.get(node) else {
            let last = lengths.len() - 1;
            return Err(impossible(format!("there is no p{node}: the nodes are p0 to p{last}")));
        };
        if events > length {
            let text = format!("p{node} has no event {events}: it has {length}");
            return Err(impossible(format!(
                "{text}, and p{node}:0 to p{node}:{length} are possible"
            )));
        }
        if cut[node].replace(events).is_some() {
            return Err(Refusal::Usage(format!("p{node} is there twice in {text:?}")));
        }
    }
    if let Some(node) = cut.iter().position(Option::is_none) {
        let length = lengths[node];
        return Err(Refusal::Usage(format!(
            "{text:?} does not say how many events of p{node} to take: p{node}:0 to p{node}:{length} \
             are possible"
        )));
    }
    Ok(cut.into_iter().flatten().collect())
}

/// The cut of a recorded snapshot.
fn recorded(number: &str, run: &Computation) -> Result<Vec<u32>, Refusal> {
    let whole = |it: &&Recorded| it.whole().is_some();
    let found = run.snapshots.iter().filter(whole).find(|it| it.number.to_string() == number);
    found.and_then(Recorded::whole).ok_or_else(|| {
        let numbers = run.snapshots.iter().filter(whole).map(|it| format!("#{}", it.number));
        let numbers: Vec<String> = numbers.collect();
        impossible(match numbers.is_empty() {
            true => format!("there is no snapshot #{number} that every node has recorded, nor any"),
            false => format!(
                "there is no snapshot #{number} that every node has recorded: there is {}",
                numbers.join(", ")
            ),
        })
    })
}

fn impossible(text: String) -> Refusal {
    Refusal::Impossible(text)
}

/// The events of a run: what `cut --json` prints that is given no cut.
#[derive(Clone, Debug, Serialize)]
pub struct EventsData {
    /// The algorithm's id.
    pub algorithm: String,
    /// Whether control messages, and the steps that they cause, count as well.
    pub control: bool,
    /// The events of each node, in order.
    pub nodes: Vec<Vec<EventData>>,
}

/// An event.
#[derive(Clone, Debug, Serialize)]
pub struct EventData {
    /// The how-manieth of its node, counted from 1.
    pub number: usize,
    /// When, in nanoseconds of virtual time.
    pub at_ns: u64,
    /// What happened, in words.
    pub what: String,
}

/// The events of a run, numbered as cuts name them.
pub fn events(trace: &Trace, scope: Scope) -> EventsData {
    let run = Computation::new(trace, scope);
    let steps = steps(trace);
    let event = |(number, event): (usize, &Happening)| {
        let step = steps.iter().find(|step| step.records == event.records);
        let said = step.map(|step| step.words(trace, false)).unwrap_or_default();
        let mut words: Vec<String> = said.into_iter().map(|piece| piece.text).collect();
        if let Event::Deliver { from, label, .. } = event.cause {
            words.insert(0, format!("{} from {from}", trace.name(label)));
        }
        let at_ns = trace.records[event.records.start].at.as_nanos();
        EventData { number, at_ns, what: words.join(", ") }
    };
    let of = |events: &Vec<Happening>| (1..).zip(events).map(event).collect();
    EventsData {
        algorithm: trace.algorithm.clone(),
        control: scope == Scope::Everything,
        nodes: run.events.iter().map(of).collect(),
    }
}

/// A cut as it is typed.
pub fn cut_in_words(cut: &[u32]) -> String {
    let parts = cut.iter().enumerate().map(|(node, events)| format!("p{node}:{events}"));
    parts.collect::<Vec<_>>().join(",")
}
