//! What the lectures claim.

use conclave_lab::compare::lectures::Claims;

#[test]
fn claims_are_signed_and_errata_are_numbered_in_order() {
    let claims = Claims::about(["mutex/ricart-agrawala", "mutex/maekawa"].into_iter());
    assert_eq!(claims.documents, ["000", "001", "002", "003", "004"]);
    assert_eq!(claims.short("mutex/ricart-agrawala", "messages", "001"), "2(N-1) ✓");
    let second = claims.short("mutex/ricart-agrawala", "· to leave", "002");
    assert_eq!(second, "N-1 ✗[2]");
    let quantities = claims.quantities("mutex/ricart-agrawala");
    assert_eq!(quantities[0], ("messages", Some("2*(N-1)")));
    assert!(claims.errata[1].starts_with("✗ [002] ricart-agrawala, exit: N-1 — double count"));
    assert_eq!(claims.short("mutex/maekawa", "messages", "000"), "");
    let notes = claims.by_algorithm.values().flat_map(|by| by.values().flatten());
    let mut notes: Vec<_> = notes.filter_map(|stated| stated.note).collect();
    notes.sort_unstable();
    assert_eq!(notes, (1..=claims.errata.len()).collect::<Vec<_>>());
}
