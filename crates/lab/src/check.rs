//! Checks: every run of a small system, what was found, and the runs that show it.
//!
//! The searches themselves are carried out by a [`Searcher`], so that a clock, a progress bar and a
//! key that stops everything remain with those who have them.

pub mod budgets;
pub mod crashes;
pub mod messages;
pub mod overview;
mod witness;
mod words;

use std::time::Duration;

use conclave_check::{CheckSpec, Coverage, Judgement, Messages, Report, Stop, Verdict, Violation};
use conclave_protocol::{Info, Property, Setup};
use conclave_sim::judgeable;
use serde::Serialize;

use self::messages::CountedData;
pub use self::witness::Witness;
pub use self::words::{counted, describe, faults, grouped, short};
use crate::report::{Claim, claim};
use crate::{Refusal, askers};

/// Carries out searches, one after the other.
pub trait Searcher {
    /// Searches every run; `what` says what is searched, for those who watch.
    fn search(&self, spec: &CheckSpec, what: &str) -> Result<Searched, Refusal>;

    /// Whether no further search is to begin.
    fn is_stopped(&self) -> bool;
}

/// What a search has found, and how long it took.
#[derive(Clone, Debug)]
pub struct Searched {
    /// What was found.
    pub report: Report,
    /// How long it took.
    pub time: Duration,
}

/// A violation found at random, and how long that took.
#[derive(Clone, Debug)]
pub struct Caught {
    /// What is violated.
    pub property: Property,
    /// By which run.
    pub violation: Violation,
    /// How long it took to find it.
    pub time: Duration,
}

impl Searched {
    /// How many seconds it took; never zero, so that rates can be computed.
    pub fn seconds(&self) -> f64 {
        self.time.as_secs_f64().max(1e-6)
    }

    /// Counts what was found at random where the search has not come to an answer.
    pub fn add(&mut self, caught: &Caught) {
        for judgement in &mut self.report.verdicts {
            if judgement.property == caught.property && judgement.verdict == Verdict::Open {
                judgement.verdict = Verdict::Violated(caught.violation.clone());
            }
        }
    }
}

/// How a check ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Nothing that is promised is violated.
    Well,
    /// A promise is broken.
    Violated,
    /// A limit stopped the search before it was done.
    Stopped,
    /// The caller stopped it.
    Interrupted,
}

impl Ending {
    /// Of a table: violated if any row is, else interrupted if it was not finished.
    fn of_table(violated: bool, interrupted: bool) -> Self {
        match (violated, interrupted) {
            (true, _) => Self::Violated,
            (false, true) => Self::Interrupted,
            (false, false) => Self::Well,
        }
    }
}

/// A check, what it found, and the runs that show it.
#[derive(Debug)]
pub struct Checked<'a> {
    /// The algorithm.
    pub info: &'static Info,
    /// What was checked.
    pub spec: &'a CheckSpec,
    /// What the search found.
    pub searched: &'a Searched,
    /// In which ways the check goes beyond the algorithm's model.
    pub beyond: Vec<String>,
    /// The run of each violation.
    pub witnesses: Vec<Witness>,
    /// What was found at random before the search.
    pub caught: Option<Caught>,
}

impl<'a> Checked<'a> {
    /// Follows each violation in the simulator.
    pub fn new(
        info: &'static Info,
        spec: &'a CheckSpec,
        searched: &'a Searched,
        caught: Option<Caught>,
    ) -> Result<Self, Refusal> {
        let violations = searched.report.violations();
        let witness = |(property, violation)| Witness::new(info, spec, property, violation);
        let witnesses = violations.map(witness).collect::<Result<_, _>>()?;
        Ok(Self { info, spec, searched, beyond: spec.beyond(info), witnesses, caught })
    }

    /// What the search found.
    pub fn report(&self) -> &Report {
        &self.searched.report
    }

    /// The violation that matters most: of a promise, if there is one.
    pub fn blamed(&self) -> Option<&Witness> {
        let promised = |witness: &&Witness| is_promised(self.info, witness.property);
        self.witnesses.iter().find(promised).or_else(|| self.witnesses.first())
    }

    /// Whether a promise was broken, or the search cut short.
    pub fn ending(&self) -> Ending {
        let report = self.report();
        let mut violations = report.violations();
        let within_model = self.beyond.is_empty();
        if within_model && violations.any(|(property, _)| is_promised(self.info, property)) {
            return Ending::Violated;
        }
        match report.coverage.stop {
            None => Ending::Well,
            Some(Stop::Asked) => Ending::Interrupted,
            Some(_) if report.verdicts.iter().all(|it| it.verdict != Verdict::Open) => Ending::Well,
            Some(_) => Ending::Stopped,
        }
    }

    /// Everything, for programs.
    pub fn data(&self) -> CheckData<'_> {
        let (report, seconds) = (self.report(), self.searched.seconds());
        CheckData {
            algorithm: self.info.id,
            spec: self.spec,
            beyond_model: &self.beyond,
            properties: report.verdicts.iter().map(|judgement| self.property(judgement)).collect(),
            coverage: &report.coverage,
            messages: report.messages.as_ref(),
            theory: messages::data(self.info, self.spec, report),
            hunt: self.caught.as_ref().map(|caught| HuntData {
                property: caught.property,
                steps: caught.violation.decisions.len(),
                seconds: caught.time.as_secs_f64(),
            }),
            seconds,
            transitions_per_second: report.coverage.transitions as f64 / seconds,
            violated: self.ending() == Ending::Violated,
        }
    }

    fn property<'b>(&'b self, judgement: &'b Judgement) -> PropertyData<'b> {
        let claim = claim(self.info, judgement.property);
        let witness = self.witnesses.iter().find(|it| it.property == judgement.property);
        PropertyData {
            judgement,
            meaning: judgement.property.meaning(),
            promised: claim == Claim::Promised,
            known_failure: match claim {
                Claim::Fails(why) => Some(why),
                _ => None,
            },
            steps: witness.map(|witness| witness.steps().collect()),
        }
    }
}

/// Everything that is said about a check: what `check --json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct CheckData<'a> {
    /// The algorithm's id.
    pub algorithm: &'static str,
    /// What was checked.
    pub spec: &'a CheckSpec,
    /// In which ways the check goes beyond the algorithm's model.
    pub beyond_model: &'a [String],
    /// What can be said of each property.
    pub properties: Vec<PropertyData<'a>>,
    /// How much was searched.
    pub coverage: &'a Coverage,
    /// The messages of each entry, over all runs, if they were counted.
    pub messages: Option<&'a Messages>,
    /// What theory says about them.
    pub theory: Option<CountedData>,
    /// What was found at random before the search.
    pub hunt: Option<HuntData>,
    /// How long the search took.
    pub seconds: f64,
    /// How fast it was.
    pub transitions_per_second: f64,
    /// Whether a promise was broken within the model.
    pub violated: bool,
}

/// What a check says of a property.
#[derive(Clone, Debug, Serialize)]
pub struct PropertyData<'a> {
    /// The property, and what is true of it.
    #[serde(flatten)]
    pub judgement: &'a Judgement,
    /// What it says.
    pub meaning: &'static str,
    /// Whether the algorithm promises it.
    pub promised: bool,
    /// How it comes to fail, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known_failure: Option<&'static str>,
    /// What happens in each step of the run that violates it, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<String>>,
}

/// A violation found at random.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct HuntData {
    /// What is violated.
    pub property: Property,
    /// After how many steps.
    pub steps: usize,
    /// How long it took to find it.
    pub seconds: f64,
}

/// A verdict of a table, without the run that shows it.
#[derive(Clone, Debug, Serialize)]
pub struct VerdictData {
    /// The property.
    pub property: Property,
    /// `holds`, `vacuous`, `open` or `violated`.
    pub verdict: &'static str,
    /// How many steps the run has that violates it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<usize>,
    /// What is wrong, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Whether the run that violates it goes on for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endless: Option<bool>,
}

impl VerdictData {
    /// What was found about a property.
    pub fn of(judgement: &Judgement) -> Self {
        let violation = match &judgement.verdict {
            Verdict::Violated(violation) => Some(violation),
            _ => None,
        };
        Self {
            property: judgement.property,
            verdict: match judgement.verdict {
                Verdict::Holds => "holds",
                Verdict::Vacuous { .. } => "vacuous",
                Verdict::Open => "open",
                Verdict::Violated(_) => "violated",
            },
            steps: violation.map(|violation| violation.decisions.len()),
            why: violation.map(|violation| violation.why.clone()),
            endless: violation.map(|violation| violation.loop_from.is_some()),
        }
    }
}

/// Whether a violation of it is a broken promise: of the algorithm, or of what it spoils.
pub fn is_promised(info: &Info, property: Property) -> bool {
    crate::report::is_promised(claim(info, property))
}

/// A check of everything that an algorithm promises, and of what it is there to break.
pub fn default_spec(info: &Info, setup: Setup) -> Result<CheckSpec, Refusal> {
    let clients = askers(info.id, &setup)?;
    let mut spec = CheckSpec::new(info, setup, clients);
    let broken = info.mutant.map(|mutant| mutant.breaks);
    spec.properties.extend(broken.filter(|property| !info.holds.contains(property)));
    if spec.properties.is_empty() {
        spec.properties = judgeable(info);
    }
    spec.properties.sort_unstable();
    Ok(spec)
}

/// The properties asked for, each once and in the order of the catalogue.
pub fn chosen(info: &Info, asked: &[Property]) -> Result<Vec<Property>, Refusal> {
    let known = judgeable(info);
    if let Some(stray) = asked.iter().find(|property| !known.contains(property)) {
        let known: Vec<&str> = known.into_iter().map(Property::name).collect();
        let (id, meaning, known) = (info.id, stray.meaning(), known.join(", "));
        let text = format!("{stray} ({meaning}) is not for {id}; of it can be checked {known}");
        return Err(Refusal::Usage(text));
    }
    let mut properties = asked.to_vec();
    properties.sort_unstable();
    properties.dedup();
    Ok(properties)
}
