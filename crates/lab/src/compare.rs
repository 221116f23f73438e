//! What the algorithms of a family cost, measured beside theory and beside what the lectures claim.

pub mod election;
pub mod fd;
pub mod lectures;
pub mod mutex;
mod sheets;

use crate::catalogue;
use conclave_protocol::Info;
use serde::{Deserialize, Serialize};

pub use self::sheets::{Sheet, sheets};
use crate::{Refusal, find};
use election::Election;
use fd::Detectors;
use lectures::Claims;
use mutex::Size;

/// What to compare.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Request {
    /// The family.
    pub family: String,
    /// Numbers of nodes; some that suit the family if none are given.
    pub nodes: Vec<u32>,
    /// How many runs with chance in them to average over.
    pub seeds: Option<u64>,
    /// Only these algorithms, with or without the family.
    pub only: Vec<String>,
    /// Whether to include the algorithms that exist to be refuted.
    pub mutants: bool,
}

/// A comparison that can be carried out.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The family.
    pub family: String,
    /// Numbers of nodes.
    pub nodes: Vec<u32>,
    /// How many runs with chance in them to average over.
    pub seeds: u64,
    /// What is compared.
    pub algorithms: Vec<&'static Info>,
}

/// What came of a comparison.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Compared {
    /// Of algorithms by what they cost.
    Costs(Comparison),
    /// Of failure detectors.
    Detectors(Detectors),
}

/// Everything that was measured, and everything there is to say beside it.
#[derive(Debug, Serialize)]
pub struct Comparison {
    /// The family.
    pub family: String,
    /// Numbers of nodes.
    pub nodes: Vec<u32>,
    /// How many runs with chance in them were averaged over.
    pub seeds: u64,
    /// How long a process stays inside, in units of `T`.
    pub stay: u32,
    /// What was measured.
    pub algorithms: Vec<Algorithm>,
    /// What the lectures say.
    pub claims: Claims,
}

/// One algorithm of the comparison.
#[derive(Debug, Serialize)]
pub struct Algorithm {
    /// Its id.
    pub id: &'static str,
    /// As printed.
    pub title: &'static str,
    /// By number of nodes, for mutual exclusion.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<Size>,
    /// By number of nodes, for elections.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub elections: Vec<Election>,
}

impl Algorithm {
    /// The part of the id after the slash.
    pub fn name(&self) -> &'static str {
        crate::entries::name(self.id)
    }
}

impl Request {
    /// The algorithms that are compared, and among how many nodes.
    pub fn plan(&self) -> Result<Plan, Refusal> {
        let algorithms = self.chosen()?;
        let (nodes, seeds) = match self.family.as_str() {
            "fd" => (fd::NODES, fd::SEEDS),
            _ => (&[3, 7, 13, 31, 57][..], 3),
        };
        let given = Some(self.nodes.as_slice()).filter(|nodes| !nodes.is_empty());
        Ok(Plan {
            family: self.family.clone(),
            nodes: given.unwrap_or(nodes).to_vec(),
            seeds: self.seeds.unwrap_or(seeds),
            algorithms,
        })
    }

    fn chosen(&self) -> Result<Vec<&'static Info>, Refusal> {
        if !["mutex", "election", "fd"].contains(&self.family.as_str()) {
            let family = &self.family;
            let text = match find(family) {
                Ok(info) => format!(
                    "{family} is an algorithm, not a family; try compare {} --only {}",
                    info.family(),
                    info.name()
                ),
                Err(_) => {
                    format!(
                        "there is nothing to compare about {family:?}; try mutex, election or fd"
                    )
                }
            };
            return Err(Refusal::Usage(text));
        }
        let asked = self.only.iter().map(|id| match id.contains('/') {
            true => id.clone(),
            false => format!("{}/{id}", self.family),
        });
        let only = asked.map(|id| find(&id)).collect::<Result<Vec<_>, _>>()?;
        if let Some(other) = only.iter().find(|info| info.family() != self.family) {
            let text = format!("{} is not of the family {}", other.id, self.family);
            return Err(Refusal::Usage(text));
        }
        if !only.is_empty() {
            return Ok(only);
        }
        let family = catalogue::infos().filter(|info| info.family() == self.family);
        Ok(family.filter(|info| self.mutants || info.mutant.is_none()).collect())
    }
}

impl Plan {
    /// How many steps it takes.
    pub fn steps(&self) -> usize {
        match self.family.as_str() {
            "fd" => fd::steps(&self.algorithms, &self.nodes),
            _ => self.algorithms.len() * self.nodes.len(),
        }
    }

    /// Measures. `on` is told what comes next before each step, and says whether to go on. Returns
    /// what was measured, and whether that is all.
    pub fn carry_out(&self, mut on: impl FnMut(&str) -> bool) -> (Compared, bool) {
        if self.family == "fd" {
            let (detectors, whole) = fd::measure(&self.algorithms, &self.nodes, self.seeds, on);
            return (Compared::Detectors(detectors), whole);
        }
        let mut measured = Vec::new();
        for &info in &self.algorithms {
            let Some(algorithm) = self.measure(info, &mut on) else { break };
            measured.push(algorithm);
        }
        let whole = measured.len() == self.algorithms.len();
        let claims = Claims::about(measured.iter().map(|algorithm| algorithm.id));
        let comparison = Comparison {
            family: self.family.clone(),
            nodes: self.nodes.clone(),
            seeds: self.seeds,
            stay: mutex::STAY,
            algorithms: measured,
            claims,
        };
        (Compared::Costs(comparison), whole)
    }

    /// Measures an algorithm; `None` if that was not to be finished.
    fn measure(&self, info: &'static Info, on: &mut impl FnMut(&str) -> bool) -> Option<Algorithm> {
        let (mut sizes, mut elections) = (Vec::new(), Vec::new());
        for &nodes in &self.nodes {
            if !on(&format!("{} × {nodes}", info.name())) {
                return None;
            }
            if self.family == "election" {
                elections.push(election::measure(info, nodes));
            } else {
                sizes.push(mutex::measure(info, nodes, self.seeds));
            }
        }
        Some(Algorithm { id: info.id, title: info.title, sizes, elections })
    }
}

/// A number as one would write it: no more than two decimals, and none that are zero.
pub fn figure(value: f64) -> String {
    let rounded = format!("{value:.2}");
    rounded.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The same, or a dash.
pub fn or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), figure)
}
