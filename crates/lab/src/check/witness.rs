//! A counter-example as a run: simulated, said in words, and as a file.

use conclave_check::{CheckSpec, Violation};
use conclave_protocol::{Action, Info, NodeId, Observation, Property, Time};
use conclave_sim::{Event, Finding, Outcome, RunSpec, Trace, TraceFile, Tracing};

use crate::report::Remark;
use crate::{Refusal, simulate};

/// A run that violates a property.
#[derive(Debug)]
pub struct Witness {
    /// What it violates.
    pub property: Property,
    /// By which decisions, and why.
    pub violation: Violation,
    /// The run as a specification.
    pub spec: RunSpec,
    /// What happened.
    pub outcome: Outcome,
}

impl Witness {
    /// Follows the decisions of a violation in the simulator.
    pub fn new(
        info: &Info,
        check: &CheckSpec,
        property: Property,
        violation: &Violation,
    ) -> Result<Self, Refusal> {
        let mut spec = RunSpec::new(info, check.setup.clone());
        spec.channels = check.channels;
        spec.tracing = Tracing::Full;
        spec.decisions = Some(violation.decisions.clone());
        let outcome = simulate(&spec)?;
        Ok(Self { property, violation: violation.clone(), spec, outcome })
    }

    /// How many steps it takes.
    #[expect(clippy::len_without_is_empty, reason = "it is no collection")]
    pub fn len(&self) -> usize {
        self.violation.decisions.len()
    }

    /// The number of the first step of the part that repeats for ever, counted from 1.
    pub fn loop_from(&self) -> Option<usize> {
        self.violation.loop_from.map(|from| from + 1)
    }

    /// Whether another violation is shown by the same run.
    pub fn is_same_run(&self, other: &Self) -> bool {
        let (one, two) = (&self.violation, &other.violation);
        one.decisions == two.decisions && one.loop_from == two.loop_from
    }

    /// The run as a file, with what it shows.
    pub fn file(&self) -> TraceFile {
        let finding = Finding {
            property: self.property,
            why: self.violation.why.clone(),
            step: self.len(),
            loop_from: self.loop_from(),
        };
        TraceFile { verdict: Some(finding), ..TraceFile::new(&self.spec, &self.outcome) }
    }

    /// What to point at in the run: where it repeats, and what is wrong at its end, also according
    /// to those that are shown by the same run.
    pub fn remarks(&self, also: &[&Self]) -> Vec<Remark> {
        let mut remarks = Vec::new();
        if let Some(from) = self.loop_from() {
            let records = self.records(from);
            let text = match from == self.len() {
                true => format!("step {from} repeats for ever"),
                false => format!("steps {from} to {} repeat for ever", self.len()),
            };
            remarks.extend(records.last().map(|&record| Remark { record, text }));
        }
        let last = self.outcome.trace.records.len().saturating_sub(1);
        remarks.extend([self].iter().chain(also).map(|it| {
            let text = format!("{} violated: {}", it.property, it.violation.why);
            Remark { record: last, text }
        }));
        remarks
    }

    /// What happens in each step, in words.
    pub fn steps(&self) -> impl Iterator<Item = String> + '_ {
        (1..=self.len()).map(|step| self.words(step))
    }

    /// The events of a step, by their place in the trace.
    fn records(&self, step: usize) -> Vec<usize> {
        let moment = u32::try_from(step).unwrap_or(u32::MAX);
        let at = Time::ZERO + self.spec.setup.delay.saturating_mul(moment);
        let records = self.outcome.trace.records.iter().enumerate();
        records.filter(|(_, record)| record.at == at).map(|(i, _)| i).collect()
    }

    /// What happens in a step, in words; steps are counted from 1.
    pub fn words(&self, step: usize) -> String {
        let trace = &self.outcome.trace;
        let decision = &self.violation.decisions[step - 1];
        let mut text = String::new();
        let mut consequences = Vec::new();
        for record in self.records(step) {
            let record = trace.records.get(record).expect("it is in the trace");
            let node = record.node;
            let cause = match record.event() {
                Event::Notice(mark) => {
                    consequences.extend(consequence(mark, node, trace));
                    continue;
                }
                Event::Crash if !text.is_empty() => {
                    consequences.push("crashes in the middle of that".to_owned());
                    continue;
                }
                Event::Deliver { from, label, .. } => {
                    format!("{node} gets {} from {from}", trace.name(label))
                }
                Event::Lose { to, label, .. } => {
                    format!("{} from {node} to {to} is lost", trace.name(label))
                }
                Event::Timer { label } => format!("timer {} of {node} runs out", trace.name(label)),
                Event::Request(Observation::Asked) => format!("{node} asks"),
                Event::Request(Observation::Left) => format!("{node} leaves"),
                Event::Request(Observation::Called) => format!("{node} calls an election"),
                Event::Request(Observation::Note(note)) => format!("{node} {}", trace.words(&note)),
                _ => continue,
            };
            if text.is_empty() {
                text = cause;
            }
        }
        if text.is_empty() {
            text = decision.what.to_string();
        }
        // It is not the timer that does what comes of it.
        let timer = matches!(decision.what, Action::Timer { .. });
        let (comma, and) = if timer { (": it ", ": it ") } else { (", ", " and ") };
        match consequences.split_last() {
            None => text,
            Some((last, [])) => format!("{text}{and}{last}"),
            Some((last, others)) => format!("{text}{comma}{} and {last}", others.join(", ")),
        }
    }
}

/// What an application is told, as something that the node does.
fn consequence(mark: Observation, node: NodeId, trace: &Trace) -> Option<String> {
    Some(match mark {
        Observation::Entered { token } => format!("enters with token {token}"),
        Observation::Lost => "has its grant revoked".to_owned(),
        Observation::Follows { leader, .. } if leader == node => "leads".to_owned(),
        Observation::Follows { leader, .. } => format!("follows {leader}"),
        Observation::Unled => "follows no leader".to_owned(),
        Observation::Suspects(peer) => format!("suspects {peer}"),
        Observation::Trusts(peer) => format!("trusts {peer}"),
        Observation::Note(note) => trace.words(&note),
        Observation::Asked => "asks".to_owned(),
        Observation::Left => "leaves".to_owned(),
        Observation::Called | Observation::Other => return None,
    })
}
