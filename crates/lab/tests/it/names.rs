//! Ids that were mistyped.

use conclave_lab::nearest;

#[test]
fn a_mistyped_name_finds_its_neighbours() {
    let ids = ["mutex/ricart-agrawala", "mutex/token-ring", "election/bully"];
    assert_eq!(nearest("mutex/ricart-agrwala", ids.into_iter()), ["mutex/ricart-agrawala"]);
    assert_eq!(nearest("bully", ids.into_iter()), ["election/bully"]);
    assert_eq!(nearest("xyzzy", ids.into_iter()), [""; 0]);
}
