//! How the quantities of the theory are read off a run.

use std::time::Duration;

use conclave_protocol::theory::Case;
use conclave_protocol::{Info, Observation, Time};
use conclave_sim::{Costs, EntryCost, Event, Outcome, Record};

use super::Row;
use super::formula::{Number, Params, whole};
use super::setups::{Experiment, Scope, T, experiments, is_example, spec};
use crate::lattice::{Request, lattice};
use crate::simulate;

/// A figure of the theory beside the one that was measured.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What was measured.
    pub quantity: String,
    /// What theory says.
    pub expected: Number,
    /// What a run said.
    pub measured: Number,
    /// Whether they agree: are equal, or the measured one keeps the bound.
    pub agrees: bool,
}

/// Runs the case of a row in every way there is, and finds every quantity it has a formula for.
pub fn examine(row: &Row, params: &Params) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    let (info, case, experiments) = experiments(row, params)?;
    for experiment in experiments {
        let run = Run::of(info, case, &experiment)?;
        for (quantity, _) in row.formulas() {
            let expected = row.figure(quantity, params).expect("it has a formula");
            let expected = expected.map_err(|error| format!("{row}: {quantity}: {error}"))?;
            let measured = run.measure(quantity).map_err(|why| format!("{quantity}: {why}"))?;
            let bound = experiment.scope == Scope::AtMost || quantity.ends_with("upper_bound");
            let agrees =
                if bound { measured.to_f64() <= expected.to_f64() } else { measured == expected };
            let quantity = quantity.to_owned();
            findings.push(Finding { quantity, expected, measured, agrees });
        }
    }
    Ok(findings)
}

/// A run of an experiment, with what it cost.
struct Run<'a> {
    info: &'static Info,
    case: &'static Case,
    experiment: &'a Experiment,
    outcome: Outcome,
    costs: Costs,
}

impl<'a> Run<'a> {
    fn of(
        info: &'static Info,
        case: &'static Case,
        experiment: &'a Experiment,
    ) -> Result<Self, String> {
        for run in &experiment.runs {
            let outcome = simulate(&spec(info, run)).map_err(|failure| failure.to_string())?;
            let costs = Costs::of(&outcome.trace);
            if is_example(experiment.provided, &outcome, &costs) {
                return Ok(Self { info, case, experiment, outcome, costs });
            }
        }
        Err(format!("none of {} runs is as {:?}", experiment.runs.len(), experiment.provided))
    }

    fn measure(&self, quantity: &str) -> Result<Number, String> {
        let mut counts = self.case.counts.iter();
        if let Some((_, label)) = counts.find(|(counted, _)| *counted == quantity) {
            return match quantity.ends_with("_mean") {
                true => self.mean_over_runs(label),
                false => Ok(self.labelled(label)),
            };
        }
        match quantity {
            "messages_total" => self.total(),
            "messages_entry" => self.per_entry(|entry| match self.experiment.scope {
                Scope::Transmissions => entry.transmissions - entry.messages_exit,
                _ => entry.messages_entry,
            }),
            "messages_exit" => self.per_entry(|entry| entry.messages_exit),
            "entry_delay_hops" => self.entry_delay(),
            "sync_delay_hops" => self.synchronization_delay(),
            "response_time" => self.same(self.first().map(|entry| {
                entry.left.map(|left| units(left - entry.asked)).ok_or("it never left")
            })),
            "last_entry_time" => {
                let last = self.costs.entered().filter_map(|entry| entry.entered).max();
                last.map(|last| units(last - Time::ZERO)).ok_or_else(|| "no node entered".into())
            }
            "replies_needed" => self.replies_needed(),
            "turnaround_hops" => self.turnaround(),
            "cuts" | "consistent_cuts" | "linearizations" => self.lattice(quantity),
            "rounds" => self.first_to_know(),
            _ => Err("there is no telling how to measure it".into()),
        }
    }

    /// How many cuts the run has, consistent or not, and in how many orders it could have happened.
    fn lattice(&self, quantity: &str) -> Result<Number, String> {
        let request = Request::default();
        let data = lattice(&self.outcome.trace, None, &request, |_, _, _| true);
        let data = data.map_err(|refusal| refusal.to_string())?;
        let number = match quantity {
            "cuts" => data.cuts.parse().ok(),
            "consistent_cuts" => Some(data.consistent),
            _ => data.linearizations.and_then(|number| number.parse().ok()),
        };
        number.map(whole).ok_or_else(|| "there are too many to be counted".to_owned())
    }

    fn total(&self) -> Result<Number, String> {
        let both = |entry: &EntryCost| entry.messages_entry + entry.messages_exit;
        match self.experiment.scope {
            Scope::Run => Ok(whole(self.costs.messages)),
            Scope::AfterFact => Ok(whole(self.after_fact(|_| true))),
            Scope::Arrivals => Ok(whole(self.arrivals().count() as u64)),
            Scope::Transmissions => Ok(whole(self.costs.transmissions)),
            Scope::Entry(_) | Scope::EachEntry | Scope::Node(_) => self.per_entry(both),
            Scope::WhileWaiting => {
                let asked = self.position(Observation::Asked).ok_or("no node asked")?;
                let entered = self.entered_position().ok_or("no node entered")?;
                let waited = self.outcome.trace.records.iter().take(entered).skip(asked);
                let sent = waited.filter(|r| matches!(r.event(), Event::Send { .. }));
                Ok(whole(sent.count() as u64))
            }
            Scope::AtMost => {
                let entered = self.costs.entered().count();
                if entered < self.costs.entries.len() {
                    return Err("not every request was served".into());
                }
                let messages = self.costs.messages;
                Ok(Number::Real(messages as f64 / entered as f64))
            }
        }
    }

    /// The requests that the figures are about.
    fn requests(&self) -> Vec<&EntryCost> {
        let entries = &self.costs.entries;
        match self.experiment.scope {
            Scope::Entry(i) => entries.get(i).into_iter().collect(),
            Scope::Node(node) => entries.iter().filter(|entry| entry.node == node).collect(),
            _ => entries.iter().collect(),
        }
    }

    /// Summed up over a run or a node; of each request where they are to be alike.
    fn per_entry(&self, count: impl Fn(&EntryCost) -> u64) -> Result<Number, String> {
        let counts = self.requests().into_iter().map(count);
        match self.experiment.scope {
            Scope::EachEntry => self.same(counts.map(|count| Ok(whole(count)))),
            _ => Ok(whole(counts.sum::<u64>())),
        }
    }

    /// The requests whose delay counts: in a run of many, that of the first to enter.
    fn first(&self) -> impl Iterator<Item = &EntryCost> {
        let one = matches!(self.experiment.scope, Scope::Run | Scope::Transmissions);
        let requests = self.requests();
        let first =
            requests.iter().copied().min_by_key(|e| (e.entered.unwrap_or(Time::MAX), e.node));
        if one { first.into_iter().collect() } else { requests }.into_iter()
    }

    fn entry_delay(&self) -> Result<Number, String> {
        self.same(self.first().map(|entry| {
            let entered = entry.entered.ok_or("it never entered")?;
            let delay = units(entered - entry.asked);
            let chain = self.costs.entry_hops(&self.outcome.trace, entry);
            if self.experiment.causal && chain.map(whole) != Some(delay) {
                return Err("the time to enter is not the length of the causal chain");
            }
            Ok(delay)
        }))
    }

    fn synchronization_delay(&self) -> Result<Number, String> {
        self.same(self.costs.handovers.iter().map(|handover| {
            let delay = units(handover.delay);
            let chain = self.costs.handover_hops(&self.outcome.trace, handover);
            if chain.is_some_and(|chain| whole(chain) != delay) {
                return Err("the time of a hand-over is not the length of the causal chain");
            }
            Ok(delay)
        }))
    }

    /// How many replies had come when the requester entered.
    fn replies_needed(&self) -> Result<Number, String> {
        let entered = self.entered_position().ok_or("no node entered")?;
        let records = self.outcome.trace.records.iter().take(entered);
        let node = self.outcome.trace.records[entered].node;
        let replies = records.filter(|record| match record.event() {
            Event::Deliver { label, .. } => {
                record.node == node && self.outcome.trace.name(label) == "Reply"
            }
            _ => false,
        });
        Ok(whole(replies.count() as u64))
    }

    /// From the call for an election until the last to learn the outcome has done so, or, where
    /// arrivals count, until the last message has arrived.
    fn turnaround(&self) -> Result<Number, String> {
        let records = &self.outcome.trace.records;
        let called = self.position(Observation::Called).ok_or("no node called for an election")?;
        if self.experiment.scope == Scope::Arrivals {
            let last = self.arrivals().last().ok_or("no message arrived")?;
            return Ok(units(last.at - records[called].at));
        }
        let follows = |event| matches!(event, Event::Notice(Observation::Follows { .. }));
        let last = records.iter().rev().find(|record| follows(record.event()));
        let last = last.ok_or("no node was elected")?;
        Ok(units(last.at - records[called].at))
    }

    /// From the call for an election until the winner knows.
    fn first_to_know(&self) -> Result<Number, String> {
        let records = &self.outcome.trace.records;
        let called = self.position(Observation::Called).ok_or("no node called for an election")?;
        let follows = |event| matches!(event, Event::Notice(Observation::Follows { .. }));
        let first = records.iter().find(|record| follows(record.event()));
        Ok(units(first.ok_or("no node was elected")?.at - records[called].at))
    }

    /// Messages that arrive, but for acknowledgements.
    fn arrivals(&self) -> impl Iterator<Item = &Record> {
        let trace = &self.outcome.trace;
        trace.records.iter().filter(|record| match record.event() {
            Event::Deliver { label, .. } => trace.name(label) != "Ack",
            _ => false,
        })
    }

    /// How many messages of a name there are on average over all runs of the experiment.
    fn mean_over_runs(&self, label: &str) -> Result<Number, String> {
        let mut total = 0;
        for run in &self.experiment.runs {
            let spec = spec(self.info, run);
            let outcome = simulate(&spec).map_err(|failure| failure.to_string())?;
            total += Costs::of(&outcome.trace).by_label.get(label).copied().unwrap_or(0);
        }
        Ok(Number::fraction(total.into(), self.experiment.runs.len() as u128))
    }

    fn labelled(&self, label: &str) -> Number {
        if self.experiment.scope != Scope::AfterFact {
            return whole(self.costs.by_label.get(label).copied().unwrap_or(0));
        }
        whole(self.after_fact(|sent| sent == label))
    }

    /// How many messages of such names are sent when something has become true of the whole system.
    fn after_fact(&self, counts: impl Fn(&str) -> bool) -> u64 {
        let trace = &self.outcome.trace;
        let facts = |(_, record): &(usize, &Record)| matches!(record.event(), Event::Facts(_));
        let fact = trace.records.iter().enumerate().filter(facts).last();
        let after = trace.records.iter().skip(fact.map_or(0, |(place, _)| place + 1));
        let sent = after.filter(|record| match record.event() {
            Event::Send { label, .. } => counts(trace.name(label)),
            _ => false,
        });
        sent.count() as u64
    }

    fn position(&self, request: Observation) -> Option<usize> {
        let wanted = Event::Request(request);
        self.outcome.trace.records.iter().position(|record| record.event() == wanted)
    }

    fn entered_position(&self) -> Option<usize> {
        let entered = |event| matches!(event, Event::Notice(Observation::Entered { .. }));
        self.outcome.trace.records.iter().position(|record| entered(record.event()))
    }

    /// The one value that all have.
    fn same(
        &self,
        values: impl Iterator<Item = Result<Number, &'static str>>,
    ) -> Result<Number, String> {
        let values = values.collect::<Result<Vec<Number>, _>>()?;
        match values.as_slice() {
            [first, rest @ ..] if rest.iter().all(|value| value == first) => Ok(*first),
            [] => Err("there is nothing to measure".into()),
            _ => {
                let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                Err(format!("it varies: {}", values.join(" ")))
            }
        }
    }
}

/// A duration in units of `T`.
pub fn units(duration: Duration) -> Number {
    Number::fraction(duration.as_nanos(), T.as_nanos())
}
