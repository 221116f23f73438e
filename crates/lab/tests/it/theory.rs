//! What `theory.json` says, and that its instances are as its formulas.

use conclave_lab::theory::{Verdict, formula, row, theory};
use serde_json::json;

#[test]
fn every_formula_gives_the_figures_of_its_instances() {
    let mut figures = 0;
    for row in &theory().rows {
        for (mut params, expected) in row.instances() {
            // Figures in these units are what instances give.
            params.entry("T".into()).or_insert_with(|| formula::whole(1));
            for (quantity, value) in expected {
                let computed = row.figure(quantity, &params).expect("a formula");
                assert_eq!(computed, Ok(value), "{row}: {quantity}");
                figures += 1;
            }
        }
    }
    assert!(figures > 300, "only {figures} figures");
}

#[test]
fn verdicts_are_read_off_their_first_word() {
    let claims = || theory().rows.iter().flat_map(|row| &row.claims);
    for claim in claims() {
        let verdict = claim.verdict();
        let value = json!(claim);
        let text = value["verdict"].as_str().expect("it is text");
        assert_eq!(verdict == Verdict::Exact, text == "exact");
        assert_eq!(verdict == Verdict::Wrong, text.starts_with("wrong"));
        assert!(theory().documents.contains_key(claim.document()), "{claim:?}");
    }
    let count = |verdict| claims().filter(|claim| claim.verdict() == verdict).count();
    assert!(
        Verdict::ALL.iter().all(|&verdict| count(verdict) > 3),
        "{:?}",
        Verdict::ALL.map(count)
    );
}

#[test]
fn a_wrong_claim_says_what_is_wrong() {
    let row = row("mutex/ricart-agrawala", "idle").expect("the row");
    let exit = row.claims.iter().find(|claim| claim.quantity == "exit").expect("the claim");
    assert_eq!((exit.document(), exit.verdict()), ("002", Verdict::Wrong));
    assert!(exit.remark().expect("a remark").starts_with("double count"));
    let entry = row.claims.iter().find(|claim| claim.quantity == "entry").expect("the claim");
    assert_eq!((entry.verdict(), entry.remark()), (Verdict::Exact, None));
}
