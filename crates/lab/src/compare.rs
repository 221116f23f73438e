//! What the algorithms of a family cost, measured beside theory and beside what the lectures claim.

pub mod election;
pub mod fd;
pub mod lectures;
pub mod mutex;
pub mod reports;
mod sheets;
mod stable;
mod termination;

use crate::catalogue;
use conclave_protocol::Info;
use serde::{Deserialize, Serialize};

pub use self::sheets::{Sheet, sheets};
use crate::{Refusal, find};
use election::Election;
use fd::Detectors;
use lectures::Claims;
use mutex::Size;
use reports::Finding;

/// How the algorithms of each family are compared. A new family adds its file and a line here.
static KINDS: &[&Kind] =
    &[&mutex::KIND, &election::KIND, &fd::KIND, &stable::KIND, &termination::KIND];

/// How the algorithms of a family are compared.
struct Kind {
    /// The family.
    family: &'static str,
    /// Numbers of nodes, if none are given.
    nodes: &'static [u32],
    /// How many runs with chance in them are averaged over, if that is not given.
    seeds: u64,
    /// What is measured.
    how: How,
}

/// What is measured.
enum How {
    /// What each algorithm costs by number of nodes.
    Costs {
        /// Measures an algorithm among so many nodes, over so many seeds.
        measure: fn(&'static Info, u32, u64, &mut Algorithm),
        /// The table for one number of nodes: that at this place, which is so many.
        sheet: fn(&Comparison, usize, u32) -> Sheet,
        /// Another table, if there is more to say.
        further: fn(&Comparison) -> Option<Sheet>,
        /// What to draw over the number of nodes.
        graphs: fn(&Comparison) -> Vec<Graph>,
    },
    /// How soon failure detectors find a crash, and how often they are wrong.
    Detectors,
}

/// Something to be drawn over the number of nodes.
#[derive(Debug)]
pub struct Graph {
    /// What it is.
    pub title: &'static str,
    /// In which unit.
    pub unit: &'static str,
    /// Whether it grows by factors.
    pub log: bool,
    /// Of each algorithm.
    pub lines: Vec<Line>,
}

/// An algorithm's line.
#[derive(Debug)]
pub struct Line {
    /// The name of the algorithm.
    pub name: &'static str,
    /// Which of the algorithms compared it is.
    pub place: usize,
    /// By number of nodes.
    pub measured: Vec<(f64, f64)>,
    /// What theory says.
    pub theory: Vec<(f64, f64)>,
}

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
    kind: &'static Kind,
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
    /// By number of nodes, for what finds out something of the whole system.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
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
        let kind = Kind::of(&self.family).ok_or_else(|| self.nothing())?;
        let algorithms = self.chosen()?;
        let given = Some(self.nodes.as_slice()).filter(|nodes| !nodes.is_empty());
        Ok(Plan {
            kind,
            nodes: given.unwrap_or(kind.nodes).to_vec(),
            seeds: self.seeds.unwrap_or(kind.seeds),
            algorithms,
        })
    }

    /// Why there is nothing to compare.
    fn nothing(&self) -> Refusal {
        let family = &self.family;
        let text = match find(family) {
            Ok(info) => format!(
                "{family} is an algorithm, not a family; try compare {} --only {}",
                info.family(),
                info.name()
            ),
            Err(_) => {
                let (last, first) = KINDS.split_last().expect("there are some");
                let first: Vec<&str> = first.iter().map(|kind| kind.family).collect();
                let (first, last) = (first.join(", "), last.family);
                format!("there is nothing to compare about {family:?}; try {first} or {last}")
            }
        };
        Refusal::Usage(text)
    }

    fn chosen(&self) -> Result<Vec<&'static Info>, Refusal> {
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
        match self.kind.how {
            How::Detectors => fd::steps(&self.algorithms, &self.nodes),
            How::Costs { .. } => self.algorithms.len() * self.nodes.len(),
        }
    }

    /// Measures. `on` is told what comes next before each step, and says whether to go on. Returns
    /// what was measured, and whether that is all.
    pub fn carry_out(&self, mut on: impl FnMut(&str) -> bool) -> (Compared, bool) {
        let How::Costs { measure, .. } = self.kind.how else {
            let (detectors, whole) = fd::measure(&self.algorithms, &self.nodes, self.seeds, on);
            return (Compared::Detectors(detectors), whole);
        };
        let mut measured = Vec::new();
        for &info in &self.algorithms {
            let Some(algorithm) = self.measure(info, measure, &mut on) else { break };
            measured.push(algorithm);
        }
        let whole = measured.len() == self.algorithms.len();
        let claims = Claims::about(measured.iter().map(|algorithm| algorithm.id));
        let comparison = Comparison {
            family: self.kind.family.to_owned(),
            nodes: self.nodes.clone(),
            seeds: self.seeds,
            stay: mutex::STAY,
            algorithms: measured,
            claims,
        };
        (Compared::Costs(comparison), whole)
    }

    /// Measures an algorithm; `None` if that was not to be finished.
    fn measure(
        &self,
        info: &'static Info,
        measure: fn(&'static Info, u32, u64, &mut Algorithm),
        on: &mut impl FnMut(&str) -> bool,
    ) -> Option<Algorithm> {
        let (id, title) = (info.id, info.title);
        let (sizes, elections, findings) = (Vec::new(), Vec::new(), Vec::new());
        let mut algorithm = Algorithm { id, title, sizes, elections, findings };
        for &nodes in &self.nodes {
            if !on(&format!("{} × {nodes}", info.name())) {
                return None;
            }
            measure(info, nodes, self.seeds, &mut algorithm);
        }
        Some(algorithm)
    }
}

impl Kind {
    fn of(family: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.family == family).copied()
    }
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Kind").field(&self.family).finish()
    }
}

impl Comparison {
    /// What to draw over the number of nodes.
    pub fn graphs(&self) -> Vec<Graph> {
        match Kind::of(&self.family).map(|kind| &kind.how) {
            Some(How::Costs { graphs, .. }) => graphs(self),
            _ => Vec::new(),
        }
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
