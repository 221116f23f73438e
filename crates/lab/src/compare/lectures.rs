//! What the lectures claim, with what is wrong about it in notes.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::theory::{Claim, Row, Verdict, rows_of, theory};

/// What the lectures say about some algorithms.
#[derive(Debug, Default, Serialize)]
pub struct Claims {
    /// The numbers of the lectures that say something.
    pub documents: Vec<&'static str>,
    /// By algorithm and lecture.
    pub by_algorithm: BTreeMap<&'static str, BTreeMap<&'static str, Vec<Stated>>>,
    /// What is to be said about claims that are not simply exact; the first has number 1.
    pub errata: Vec<String>,
}

/// One claim.
#[derive(Clone, Debug, Serialize)]
pub struct Stated {
    /// In the lecture's words.
    pub quantity: &'static str,
    /// Of the quantities that are compared, the one it is about.
    pub about: &'static str,
    /// What theory says instead, as a formula.
    pub theory: Option<&'static str>,
    /// The figure.
    pub formula: &'static str,
    /// What it is worth, in words.
    pub verdict: &'static str,
    /// The sign that stands for that.
    pub sign: &'static str,
    /// The number of the note about it.
    pub note: Option<usize>,
}

impl Claims {
    /// What the lectures say about these algorithms.
    pub fn about(ids: impl Iterator<Item = &'static str>) -> Self {
        let mut claims = Self::default();
        for id in ids {
            let claimed = rows_of(id).flat_map(|row| row.claims.iter().map(move |c| (row, c)));
            for (row, claim) in claimed.filter(|(_, claim)| claim.says_something()) {
                let stated = claims.state(row, claim);
                let by_document = claims.by_algorithm.entry(id).or_default();
                by_document.entry(claim.document()).or_default().push(stated);
            }
        }
        let said =
            |document: &&str| claims.by_algorithm.values().any(|by| by.contains_key(document));
        claims.documents = theory().documents.keys().map(String::as_str).filter(said).collect();
        claims
    }

    fn state(&mut self, row: &'static Row, claim: &'static Claim) -> Stated {
        let verdict = claim.verdict();
        let note = claim.remark().map(|remark| {
            let name = row.id.split_once('/').map_or(row.id.as_str(), |(_, name)| name);
            let (document, quantity, formula) = (claim.document(), &claim.quantity, &claim.formula);
            self.errata.push(format!(
                "{} [{document}] {name}, {quantity}: {formula} — {remark}",
                verdict.sign()
            ));
            self.errata.len()
        });
        let (about, key) = about(&claim.quantity);
        let formula = |row: &'static Row| {
            row.formulas().find(|(name, _)| *name == key).map(|(_, formula)| formula)
        };
        Stated {
            quantity: &claim.quantity,
            about,
            theory: formula(row).or_else(|| rows_of(&row.id).find_map(formula)),
            formula: &claim.formula,
            verdict: verdict.meaning(),
            sign: verdict.sign(),
            note,
        }
    }

    /// The quantities that are claimed about an algorithm, each with theory's formula.
    pub fn quantities(&self, id: &str) -> Vec<(&'static str, Option<&'static str>)> {
        let stated = self.by_algorithm.get(id).into_iter().flat_map(|by| by.values().flatten());
        let mut quantities: Vec<(&'static str, Option<&'static str>)> = Vec::new();
        for stated in stated {
            if quantities.iter().all(|(about, _)| *about != stated.about) {
                quantities.push((stated.about, stated.theory));
            }
        }
        let place = |about: &str| QUANTITIES.iter().position(|(known, ..)| *known == about);
        quantities.sort_by_key(|(about, _)| place(about).unwrap_or(QUANTITIES.len()));
        quantities
    }

    /// What a lecture says about a quantity of an algorithm, in a few characters.
    pub fn short(&self, id: &str, about: &str, document: &str) -> String {
        let stated = self.by_algorithm.get(id).and_then(|by| by.get(document));
        let stated = stated.map_or(&[][..], Vec::as_slice).iter();
        let stated = stated.filter(|stated| stated.about == about).map(|stated| {
            let note = stated.note.map_or_else(String::new, |note| format!("[{note}]"));
            format!("{} {}{note}", stated.formula, stated.sign)
        });
        stated.collect::<Vec<_>>().join(", ")
    }
}

/// The quantities that are compared: the name, the theory's name, and what lectures call it.
const QUANTITIES: &[(&str, &str, &[&str])] = &[
    (
        "messages",
        "messages_total",
        &[
            "messages",
            "messages per entry/exit",
            "messages per CS",
            "messages per CS (table)",
            "messages per access",
            "messages entry/exit",
            "total",
            "optimised messages",
        ],
    ),
    ("· to enter", "messages_entry", &["messages entry", "entry", "messages to enter"]),
    ("· to leave", "messages_exit", &["exit"]),
    (
        "entry delay",
        "entry_delay_hops",
        &[
            "delay before entry",
            "delay before entry (messages)",
            "client delay",
            "delay",
            "average delay",
        ],
    ),
    ("sync delay", "sync_delay_hops", &["synchronization delay", "delay d"]),
    ("response", "response_time", &["response", "response time", "turnaround increase"]),
    ("replies to enter", "replies_needed", &["replies to enter"]),
];

/// What a lecture's words for a quantity are about, and the theory's name for it.
fn about(quantity: &'static str) -> (&'static str, &'static str) {
    let known = QUANTITIES.iter().find(|(.., words)| words.contains(&quantity));
    known.map_or((quantity, ""), |&(about, key, _)| (about, key))
}

/// The signs and what they mean.
pub fn legend() -> String {
    let signs = Verdict::ALL.map(|verdict| format!("{} {}", verdict.sign(), verdict.meaning()));
    signs.join(" · ")
}
