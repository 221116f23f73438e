//! One specification with many seeds: how often each property was violated.

use std::collections::BTreeMap;

use conclave_protocol::{Info, Property};
use conclave_sim::{Beyond, Outcome, RunSpec, Verdict};
use serde::Serialize;

use crate::report::{Judged, judge_all};
use crate::{Refusal, simulate};

/// What many seeds have shown.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// How many runs there were.
    pub runs: u64,
    /// Steps of nodes, of all runs.
    pub events: u64,
    /// Entries, of all runs.
    pub entries: u64,
    /// How many runs violated a property.
    pub violations: BTreeMap<Property, u64>,
    /// How many runs say nothing about a property.
    pub open: BTreeMap<Property, u64>,
    /// The first seed that broke a promise, and which.
    pub first: Option<(u64, Judged)>,
}

/// What many seeds have shown: what `run --seeds --json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct SweepData<'a> {
    /// The algorithm's id.
    pub algorithm: &'static str,
    /// What was run, with the first seed.
    pub spec: &'a RunSpec,
    /// In which ways the runs go beyond the algorithm's model.
    pub beyond_model: Vec<&'a str>,
    /// How many seeds were asked for.
    pub seeds: u64,
    /// How many runs there were.
    pub runs: u64,
    /// Steps of nodes, of all runs.
    pub events: u64,
    /// Entries, of all runs.
    pub entries: u64,
    /// How many runs violated a property.
    pub violations: BTreeMap<&'static str, u64>,
    /// How many runs say nothing about a property.
    pub undecided: BTreeMap<&'static str, u64>,
    /// The first run that broke a promise.
    pub first: Option<FirstData<'a>>,
}

/// The first run that broke a promise.
#[derive(Clone, Debug, Serialize)]
pub struct FirstData<'a> {
    /// Its seed.
    pub seed: u64,
    /// What it violates.
    pub property: Property,
    /// How.
    pub verdict: &'a Verdict,
    /// The command that shows it.
    pub command: Option<&'a str>,
}

impl Sweep {
    /// Runs so many seeds from that of `base` on, as long as `on` says so before each.
    pub fn over(
        info: &'static Info,
        base: &RunSpec,
        seeds: u64,
        mut on: impl FnMut() -> bool,
    ) -> Result<Self, Refusal> {
        let mut found = Self::default();
        for seed in (0..seeds).map(|i| base.seed.wrapping_add(i)) {
            if !on() {
                break;
            }
            let spec = RunSpec { seed, ..base.clone() };
            found.take(seed, info, &spec, &simulate(&spec)?);
        }
        Ok(found)
    }

    fn take(&mut self, seed: u64, info: &'static Info, spec: &RunSpec, outcome: &Outcome) {
        self.runs += 1;
        self.events += outcome.stats.events;
        self.entries += outcome.stats.entered;
        for judged in judge_all(info, spec, outcome) {
            match &judged.verdict {
                Verdict::Held | Verdict::Vacuous { .. } => {}
                Verdict::Violated { .. } => {
                    *self.violations.entry(judged.property).or_default() += 1;
                    if judged.is_broken() && self.first.is_none() {
                        self.first = Some((seed, judged));
                    }
                }
                Verdict::Open { .. } => *self.open.entry(judged.property).or_default() += 1,
            }
        }
    }

    /// Everything, for programs; `command` is the one that shows the first violation.
    pub fn data<'a>(
        &'a self,
        info: &'static Info,
        base: &'a RunSpec,
        beyond: &'a [Beyond],
        seeds: u64,
        command: Option<&'a str>,
    ) -> SweepData<'a> {
        let first = self.first.as_ref().map(|(seed, judged)| FirstData {
            seed: *seed,
            property: judged.property,
            verdict: &judged.verdict,
            command,
        });
        SweepData {
            algorithm: info.id,
            spec: base,
            beyond_model: beyond.iter().map(|Beyond(text)| text.as_str()).collect(),
            seeds,
            runs: self.runs,
            events: self.events,
            entries: self.entries,
            violations: by_name(&self.violations),
            undecided: by_name(&self.open),
            first,
        }
    }
}

fn by_name(counts: &BTreeMap<Property, u64>) -> BTreeMap<&'static str, u64> {
    counts.iter().map(|(property, count)| (property.name(), *count)).collect()
}
