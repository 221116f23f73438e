//! The counts of the reference model, on which several checkers agree.

use conclave_peers::arrays::Arrays;
use conclave_peers::packed::Packed;
use conclave_peers::{Counts, Search, actors, count, explore};

const THREE_ONCE: Counts = Counts { distinct: 2_049, generated: 5_489, depth: 19, violated: false };
const THREE_TWICE: Counts =
    Counts { distinct: 25_674, generated: 71_373, depth: 37, violated: false };
const FOUR_ONCE: Counts =
    Counts { distinct: 1_402_298, generated: 7_398_199, depth: 33, violated: false };

#[test]
fn actors_give_the_golden_counts() {
    for search in [Search::Breadth, Search::Depth] {
        assert_eq!(explore(actors::model(3, 1), search, 1), THREE_ONCE);
        assert_eq!(explore(actors::model(3, 2), search, 1), THREE_TWICE);
    }
}

#[test]
fn the_packed_models_give_the_golden_counts() {
    for search in [Search::Breadth, Search::Depth] {
        assert_eq!(explore(Arrays::new(3, 1), search, 1), THREE_ONCE);
        assert_eq!(explore(Arrays::new(3, 2), search, 1), THREE_TWICE);
        assert_eq!(explore(Packed::new(3, 1), search, 1), THREE_ONCE);
        assert_eq!(explore(Packed::new(3, 2), search, 1), THREE_TWICE);
    }
    assert_eq!(explore(Packed::new(4, 1), Search::Depth, 2), FOUR_ONCE);
}

#[test]
fn the_reference_protocol_gives_the_golden_counts() {
    assert_eq!(count("oracle/ricart-agrawala", 3, 1, false, 1), THREE_ONCE);
    assert_eq!(count("oracle/ricart-agrawala", 3, 2, false, 1), THREE_TWICE);
}

#[test]
fn the_catalogues_algorithm_with_bare_replies_gives_the_golden_counts() {
    assert_eq!(count("mutex/ricart-agrawala-bare-reply", 3, 1, false, 1), THREE_ONCE);
    assert_eq!(count("mutex/ricart-agrawala-bare-reply", 3, 2, false, 1), THREE_TWICE);
}

#[test]
fn without_the_tie_break_two_get_in() {
    for (nodes, requests) in [(2, 1), (3, 1), (3, 2)] {
        let packed = Packed::new(nodes, requests).without_tie_break();
        let packed = explore(packed, Search::Breadth, 1);
        assert!(packed.violated);
        let (nodes, requests) = (u32::from(nodes), u32::from(requests));
        assert_eq!(count("oracle/ra-no-tie-break", nodes, requests, false, 1), packed);
    }
}
