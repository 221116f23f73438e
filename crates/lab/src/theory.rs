//! What theory says algorithms cost, what the lectures claim they cost, and how to run each case.
//!
//! The figures are those of `theory.json`. [`setups`] turns the cases that stand beside each
//! algorithm into runs; the test `theory` carries them all out and finds every figure exactly.

pub mod fit;
pub mod formula;
pub mod measure;
pub mod setups;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use formula::{FormulaError, Number, Params, evaluate};

/// Everything in `theory.json`.
#[derive(Debug, Deserialize)]
pub struct Theory {
    /// The lectures, by their number.
    pub documents: BTreeMap<String, String>,
    /// What costs what, in which case.
    pub rows: Vec<Row>,
}

/// What an algorithm costs in one case.
#[derive(Debug, Serialize, Deserialize)]
pub struct Row {
    /// The algorithm.
    pub id: String,
    /// Its family.
    pub family: String,
    /// The name of the case.
    pub scenario: String,
    /// The case in words.
    pub given: String,
    formulas: BTreeMap<String, Option<String>>,
    instances: Vec<BTreeMap<String, serde_json::Number>>,
    /// What the lectures say about it.
    pub claims: Vec<Claim>,
    /// What can go wrong, in a few words.
    pub problems: String,
    /// How the figures were checked when they were written down.
    pub verified: String,
    /// Remarks.
    pub notes: String,
}

/// What a lecture says an algorithm costs.
#[derive(Debug, Serialize, Deserialize)]
pub struct Claim {
    doc: String,
    /// What it is about.
    pub quantity: String,
    /// The figure.
    pub formula: String,
    verdict: String,
}

/// What a claim is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It is the exact figure.
    Exact,
    /// It is, in a certain case or reading.
    Conditional,
    /// It is about right.
    Loose,
    /// It is not true.
    Wrong,
    /// It is no figure that could be compared, but there is something to say.
    Remark,
}

static THEORY: LazyLock<Theory> = LazyLock::new(|| {
    let text = include_str!("../../../theory.json");
    serde_json::from_str(text).expect("theory.json is part of the program, and the tests read it")
});

/// Everything in `theory.json`.
pub fn theory() -> &'static Theory {
    &THEORY
}

/// The rows about the algorithm called `id`.
pub fn rows_of(id: &str) -> impl Iterator<Item = &'static Row> {
    theory().rows.iter().filter(move |row| row.id == id)
}

/// The row about the algorithm called `id` in the case called `scenario`.
pub fn row(id: &str, scenario: &str) -> Option<&'static Row> {
    rows_of(id).find(|row| row.scenario == scenario)
}

impl Row {
    /// What is known: each quantity with its formula.
    pub fn formulas(&self) -> impl Iterator<Item = (&str, &str)> {
        self.formulas
            .iter()
            .filter_map(|(name, formula)| Some((name.as_str(), formula.as_deref()?)))
    }

    /// The figure for `quantity`, `None` if there is no formula for it.
    pub fn figure(&self, quantity: &str, params: &Params) -> Option<Result<Number, FormulaError>> {
        let formula = self.formulas.get(quantity)?.as_deref()?;
        Some(evaluate(formula, params))
    }

    /// The cases that have been worked out: the parameters and the figures.
    pub fn instances(&self) -> impl Iterator<Item = (Params, BTreeMap<&str, Number>)> {
        self.instances.iter().map(|instance| {
            let (mut params, mut figures) = (Params::new(), BTreeMap::new());
            for (name, value) in instance {
                let value = number(value);
                if self.formulas.contains_key(name) {
                    figures.insert(name.as_str(), value);
                } else {
                    params.insert(name.clone(), value);
                }
            }
            (params, figures)
        })
    }
}

fn number(value: &serde_json::Number) -> Number {
    match value.as_i64() {
        Some(value) => formula::whole(value),
        None => Number::Real(value.as_f64().expect("a number of theory.json is a float or an i64")),
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.id, self.scenario)
    }
}

impl Claim {
    /// The number of the lecture.
    pub fn document(&self) -> &str {
        self.doc.split_once('_').map_or(self.doc.as_str(), |(number, _)| number)
    }

    /// Whether there is a claim at all; some lectures leave the place empty.
    pub fn says_something(&self) -> bool {
        self.verdict != "-"
    }

    /// What the claim is worth.
    pub fn verdict(&self) -> Verdict {
        let first = self.verdict.split(|c: char| !c.is_alphabetic()).next();
        match first {
            Some("exact") if self.verdict == "exact" => Verdict::Exact,
            Some("exact") => Verdict::Conditional,
            Some("loose") => Verdict::Loose,
            Some("wrong") => Verdict::Wrong,
            _ => Verdict::Remark,
        }
    }

    /// What is to be said about it, if it is not simply exact.
    pub fn remark(&self) -> Option<&str> {
        let text = self.verdict.as_str();
        let text = text.strip_prefix("loose: ").or_else(|| text.strip_prefix("wrong: "));
        let text = text.unwrap_or(&self.verdict);
        (self.verdict() != Verdict::Exact && self.says_something()).then_some(text)
    }
}

impl Verdict {
    /// Every verdict, from good to bad.
    pub const ALL: [Self; 5] =
        [Self::Exact, Self::Conditional, Self::Loose, Self::Wrong, Self::Remark];

    /// The sign that stands for it in a table.
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Exact => "✓",
            Self::Conditional => "(✓)",
            Self::Loose => "≈",
            Self::Wrong => "✗",
            Self::Remark => "†",
        }
    }

    /// What the sign means.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Conditional => "exact under a condition",
            Self::Loose => "about right",
            Self::Wrong => "wrong",
            Self::Remark => "see the note",
        }
    }
}
