//! How many states algorithms of the catalogue have, as Stateright counts them.

use conclave_peers::{Counts, IDS, count};

const FIFO: bool = false;
const BAG: bool = true;

/// Asserts the counts of `id` with `nodes` nodes that ask `requests` times each: distinct and
/// generated states and depth.
fn holds(id: &str, (nodes, requests, bag): (u32, u32, bool), counts: [usize; 3]) {
    check(id, (nodes, requests, bag), counts, false);
}

/// The same of an algorithm that lets too many in.
fn breaks(id: &str, (nodes, requests, bag): (u32, u32, bool), counts: [usize; 3]) {
    check(id, (nodes, requests, bag), counts, true);
}

fn check(
    id: &str,
    (nodes, requests, bag): (u32, u32, bool),
    [distinct, generated, depth]: [usize; 3],
    violated: bool,
) {
    let counts = count(id, nodes, requests, bag, 1);
    println!("{id} {nodes} nodes, {requests} requests, bag {bag}: {counts:?}");
    assert_eq!(
        counts,
        Counts { distinct, generated, depth, violated },
        "{id}, {nodes} nodes, {requests} requests, bag {bag}"
    );
}

#[test]
fn permission_of_all() {
    let id = "mutex/lamport";
    holds(id, (2, 1, FIFO), [61, 77, 11]);
    holds(id, (3, 1, FIFO), [46_944, 119_522, 25]);
    let id = "mutex/ricart-agrawala";
    holds(id, (2, 1, FIFO), [30, 39, 9]);
    holds(id, (2, 1, BAG), [34, 47, 9]);
    holds(id, (3, 1, FIFO), [2_493, 6_569, 19]);
    holds(id, (3, 1, BAG), [4_522, 14_645, 19]);
    holds(id, (3, 2, FIFO), [37_965, 104_442, 37]);
    let id = "mutex/roucairol-carvalho";
    holds(id, (2, 1, FIFO), [20, 26, 9]);
    holds(id, (3, 1, FIFO), [417, 961, 19]);
    holds(id, (3, 1, BAG), [537, 1_401, 19]);
}

#[test]
fn quorums() {
    holds("mutex/maekawa", (2, 1, FIFO), [34, 47, 11]);
    holds("mutex/maekawa", (3, 1, FIFO), [306, 613, 16]);
    holds("mutex/maekawa-sanders", (2, 1, FIFO), [49, 64, 12]);
    holds("mutex/maekawa-sanders", (3, 1, FIFO), [457, 939, 17]);
}

#[test]
fn tokens() {
    let id = "mutex/token-ring";
    holds(id, (2, 1, FIFO), [24, 39, 8]);
    holds(id, (3, 1, FIFO), [108, 208, 12]);
    let id = "mutex/token-ring-on-demand";
    holds(id, (2, 1, FIFO), [20, 26, 9]);
    holds(id, (3, 1, FIFO), [247, 449, 16]);
    holds(id, (3, 1, BAG), [735, 1_650, 18]);
    let id = "mutex/suzuki-kasami";
    holds(id, (2, 1, FIFO), [20, 26, 9]);
    holds(id, (3, 1, FIFO), [579, 1_581, 16]);
    holds(id, (3, 1, BAG), [725, 2_078, 16]);
    holds(id, (3, 2, FIFO), [14_028, 44_525, 31]);
    let id = "mutex/ricart-agrawala-token";
    holds(id, (2, 1, FIFO), [26, 30, 9]);
    holds(id, (3, 1, FIFO), [2_015, 4_540, 16]);
    holds("mutex/raymond-tree", (3, 1, FIFO), [144, 243, 15]);
    holds("mutex/naimi-trehel", (3, 1, FIFO), [154, 265, 14]);
}

#[test]
fn a_coordinator_and_several_units() {
    holds("mutex/centralized-token", (3, 1, FIFO), [33, 49, 11]);
    holds("mutex/raymond-k", (3, 1, FIFO), [7_004, 22_290, 19]);
}

#[test]
fn timers_run_out_at_any_moment() {
    holds("election/bully", (2, 1, FIFO), [47, 80, 9]);
}

#[test]
fn what_is_wrong_lets_two_in() {
    let id = "mutex/ra-no-tie-break";
    breaks(id, (2, 1, FIFO), [34, 47, 9]);
    breaks(id, (2, 1, BAG), [42, 61, 9]);
    breaks(id, (3, 1, FIFO), [3_614, 10_249, 19]);
    breaks("mutex/maekawa-literal-003", (3, 1, FIFO), [987, 2_200, 16]);
}

#[test]
fn lamports_algorithm_needs_order_on_its_links() {
    breaks("mutex/lamport", (2, 1, BAG), [102, 145, 11]);
    breaks("mutex/lamport-ack-suppression", (2, 1, BAG), [138, 216, 11]);
}

#[test]
fn threads_do_not_change_the_counts() {
    for threads in [1, 2, 3] {
        let counts = count("mutex/ricart-agrawala", 3, 2, FIFO, threads);
        assert_eq!((counts.distinct, counts.generated), (37_965, 104_442));
    }
}

#[test]
#[should_panic(expected = "mutex/none is not among")]
fn an_unknown_algorithm_is_refused() {
    assert!(!IDS.contains(&"mutex/none"));
    count("mutex/none", 2, 1, FIFO, 1);
}
