use conclave_protocol::{Decision, Property};
use serde::{Deserialize, Serialize};

/// What a check has found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What can be said of each property.
    pub verdicts: Vec<Judgement>,
    /// How much was searched.
    pub coverage: Coverage,
    /// The messages of each entry, over all runs, if they were counted.
    pub messages: Option<Messages>,
}

impl Report {
    /// The violations that were found.
    pub fn violations(&self) -> impl Iterator<Item = (Property, &Violation)> {
        self.verdicts.iter().filter_map(|judgement| match &judgement.verdict {
            Verdict::Violated(violation) => Some((judgement.property, violation)),
            _ => None,
        })
    }

    /// What was found about a property, if it was checked.
    pub fn verdict(&self, property: Property) -> Option<&Verdict> {
        let judgement = self.verdicts.iter().find(|judgement| judgement.property == property);
        judgement.map(|judgement| &judgement.verdict)
    }
}

/// What can be said of a property.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The property.
    pub property: Property,
    /// What is true of it.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// What is true of a property.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum Verdict {
    /// It holds in every run within the budgets.
    Holds,
    /// It holds, but only because nothing it speaks of ever happens.
    Vacuous {
        /// What never happens.
        why: String,
    },
    /// It holds as far as the search has come, which is not to the end.
    Open,
    /// It does not hold.
    Violated(Violation),
}

/// A run that violates a property; no shorter one does, unless the search was cut short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Violation {
    /// What is wrong, in words.
    pub why: String,
    /// The run.
    pub decisions: Vec<Decision>,
    /// The decision with which the part begins that repeats for ever, if there is one.
    pub loop_from: Option<usize>,
}

/// How much was searched, and what it took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Coverage {
    /// Different states visited.
    pub states: u64,
    /// Transitions followed, those included that led to states visited before.
    pub transitions: u64,
    /// Steps to the state furthest from the beginning.
    pub depth: u32,
    /// States in which nothing but faults can happen any more.
    pub terminal: u64,
    /// Why the search ended before it was done, if it did.
    pub stop: Option<Stop>,
    /// How likely it is that two of the states had the same fingerprint, so that one of them was
    /// left out.
    pub collision: f64,
    /// The bytes that the search took at most, by its own account.
    pub bytes: u64,
    /// Different states of single nodes, messages, contents of links, and steps: the algorithm's
    /// rules ran once for each of the last.
    pub parts: [usize; 4],
    /// Whether orders that cannot be told apart were explored once.
    pub reduced: bool,
    /// Whether states that differ in names only were explored once.
    pub symmetric: bool,
    /// Messages that never arrived, requests that were never made, timers that never ran out.
    pub unexercised: Vec<String>,
}

/// Why a search ended before it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// The runs were to have no more steps.
    Depth,
    /// No more states were to be visited.
    States,
    /// It would have taken more memory than it may.
    Memory,
    /// It was told to stop.
    Asked,
}

/// How many messages each entry takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Messages {
    /// Of the entries of each node that asks: the fewest, and the most; none if there is no end to
    /// them.
    pub of_node: Vec<(u32, u32, Option<u32>)>,
    /// Of all messages of a whole run: the fewest and the most.
    pub whole: (u32, Option<u32>),
}
