//! What the lectures claim, with what is wrong about it in notes.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::theory::{Claim, Verdict, rows_of, theory};

/// What the lectures say about some algorithms.
#[derive(Debug, Default, Serialize)]
pub(super) struct Claims {
    /// The numbers of the lectures that say something.
    pub(super) documents: Vec<&'static str>,
    /// By algorithm and lecture.
    pub(super) by_algorithm: BTreeMap<&'static str, BTreeMap<&'static str, Vec<Stated>>>,
    /// What is to be said about claims that are not simply exact; the first has number 1.
    pub(super) errata: Vec<String>,
}

/// One claim.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Stated {
    pub(super) quantity: &'static str,
    pub(super) formula: &'static str,
    pub(super) verdict: &'static str,
    pub(super) sign: &'static str,
    /// The number of the note about it.
    pub(super) note: Option<usize>,
}

impl Claims {
    /// What the lectures say about these algorithms.
    pub(super) fn about(ids: impl Iterator<Item = &'static str>) -> Self {
        let mut claims = Self::default();
        for id in ids {
            let claimed = rows_of(id).flat_map(|row| &row.claims);
            for claim in claimed.filter(|claim| claim.says_something()) {
                let stated = claims.state(id, claim);
                let by_document = claims.by_algorithm.entry(id).or_default();
                by_document.entry(claim.document()).or_default().push(stated);
            }
        }
        let said =
            |document: &&str| claims.by_algorithm.values().any(|by| by.contains_key(document));
        claims.documents = theory().documents.keys().map(String::as_str).filter(said).collect();
        claims
    }

    fn state(&mut self, id: &str, claim: &'static Claim) -> Stated {
        let verdict = claim.verdict();
        let note = claim.remark().map(|remark| {
            let name = id.split_once('/').map_or(id, |(_, name)| name);
            let (document, quantity, formula) = (claim.document(), &claim.quantity, &claim.formula);
            self.errata.push(format!(
                "{} [{document}] {name}, {quantity}: {formula} — {remark}",
                verdict.sign()
            ));
            self.errata.len()
        });
        Stated {
            quantity: &claim.quantity,
            formula: &claim.formula,
            verdict: verdict.meaning(),
            sign: verdict.sign(),
            note,
        }
    }

    /// What a lecture says about an algorithm, in a few characters.
    pub(super) fn short(&self, id: &str, document: &str) -> String {
        let stated = self.by_algorithm.get(id).and_then(|by| by.get(document));
        let stated = stated.map_or(&[][..], Vec::as_slice).iter().map(|stated| {
            let note = stated.note.map_or_else(String::new, |note| format!("[{note}]"));
            format!("{}\u{a0}{}{note}", stated.formula, stated.sign)
        });
        stated.collect::<Vec<_>>().join(", ")
    }
}

/// The signs and what they mean.
pub(super) fn legend() -> String {
    let signs = Verdict::ALL.map(|verdict| format!("{} {}", verdict.sign(), verdict.meaning()));
    signs.join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_signed_and_errata_are_numbered_in_order() {
        let claims = Claims::about(["mutex/ricart-agrawala", "mutex/maekawa"].into_iter());
        assert_eq!(claims.documents, ["000", "001", "002", "003", "004"]);
        assert_eq!(claims.short("mutex/ricart-agrawala", "001"), "2(N-1)\u{a0}✓");
        let second = claims.short("mutex/ricart-agrawala", "002");
        assert!(second.contains("N-1\u{a0}✗[2]"), "{second}");
        assert!(claims.errata[1].starts_with("✗ [002] ricart-agrawala, exit: N-1 — double count"));
        assert_eq!(claims.short("mutex/maekawa", "000"), "");
        let notes = claims.by_algorithm.values().flat_map(|by| by.values().flatten());
        let mut notes: Vec<_> = notes.filter_map(|stated| stated.note).collect();
        notes.sort_unstable();
        assert_eq!(notes, (1..=claims.errata.len()).collect::<Vec<_>>());
    }
}
