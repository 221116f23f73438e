//! How many states algorithms of the catalogue have.
//!
//! Another model checker, Stateright, has counted the same, and `cargo xtask peers` has it count again. This keeps what
//! it found without building it.

use conclave_algorithms::catalogue;
use conclave_check::{CheckSpec, Progress, Timers, Verdict};
use conclave_protocol::{Channels, Property, Setup, Topology};

const FIFO: Channels = Channels::Fifo;
const BAG: Channels = Channels::Reliable;
const HOLDS: bool = false;
const BREAKS: bool = true;

/// An algorithm, nodes, requests of each, links; then distinct and generated states and depth as Stateright counts them,
/// with the state in which a run begins; and whether too many get in.
type Counted = (&'static str, (u32, u32, Channels), [u64; 3], bool);

const COUNTED: &[Counted] = &[
    ("mutex/lamport", (2, 1, FIFO), [61, 77, 11], HOLDS),
    ("mutex/lamport", (3, 1, FIFO), [46_944, 119_522, 25], HOLDS),
    ("mutex/ricart-agrawala", (2, 1, FIFO), [30, 39, 9], HOLDS),
    ("mutex/ricart-agrawala", (2, 1, BAG), [34, 47, 9], HOLDS),
    ("mutex/ricart-agrawala", (3, 1, FIFO), [2_493, 6_569, 19], HOLDS),
    ("mutex/ricart-agrawala", (3, 1, BAG), [4_522, 14_645, 19], HOLDS),
    ("mutex/ricart-agrawala", (3, 2, FIFO), [37_965, 104_442, 37], HOLDS),
    ("mutex/roucairol-carvalho", (2, 1, FIFO), [20, 26, 9], HOLDS),
    ("mutex/roucairol-carvalho", (3, 1, FIFO), [417, 961, 19], HOLDS),
    ("mutex/roucairol-carvalho", (3, 1, BAG), [537, 1_401, 19], HOLDS),
    ("mutex/maekawa", (2, 1, FIFO), [34, 47, 11], HOLDS),
    ("mutex/maekawa", (3, 1, FIFO), [306, 613, 16], HOLDS),
    ("mutex/maekawa-sanders", (2, 1, FIFO), [49, 64, 12], HOLDS),
    ("mutex/maekawa-sanders", (3, 1, FIFO), [457, 939, 17], HOLDS),
    ("mutex/token-ring", (2, 1, FIFO), [24, 39, 8], HOLDS),
    ("mutex/token-ring", (3, 1, FIFO), [108, 208, 12], HOLDS),
    ("mutex/token-ring-on-demand", (2, 1, FIFO), [20, 26, 9], HOLDS),
    ("mutex/token-ring-on-demand", (3, 1, FIFO), [247, 449, 16], HOLDS),
    ("mutex/token-ring-on-demand", (3, 1, BAG), [735, 1_650, 18], HOLDS),
    ("mutex/suzuki-kasami", (2, 1, FIFO), [20, 26, 9], HOLDS),
    ("mutex/suzuki-kasami", (3, 1, FIFO), [579, 1_581, 16], HOLDS),
    ("mutex/suzuki-kasami", (3, 1, BAG), [725, 2_078, 16], HOLDS),
    ("mutex/suzuki-kasami", (3, 2, FIFO), [14_028, 44_525, 31], HOLDS),
    ("mutex/ricart-agrawala-token", (2, 1, FIFO), [26, 30, 9], HOLDS),
    ("mutex/ricart-agrawala-token", (3, 1, FIFO), [2_015, 4_540, 16], HOLDS),
    ("mutex/raymond-tree", (3, 1, FIFO), [144, 243, 15], HOLDS),
    ("mutex/naimi-trehel", (3, 1, FIFO), [154, 265, 14], HOLDS),
    ("mutex/centralized-token", (3, 1, FIFO), [33, 49, 11], HOLDS),
    ("mutex/raymond-k", (3, 1, FIFO), [7_004, 22_290, 19], HOLDS),
    ("election/bully", (2, 1, FIFO), [47, 80, 9], HOLDS),
    ("mutex/ra-no-tie-break", (2, 1, FIFO), [34, 47, 9], BREAKS),
    ("mutex/ra-no-tie-break", (2, 1, BAG), [42, 61, 9], BREAKS),
    ("mutex/ra-no-tie-break", (3, 1, FIFO), [3_614, 10_249, 19], BREAKS),
    ("mutex/maekawa-literal-003", (3, 1, FIFO), [987, 2_200, 16], BREAKS),
    ("mutex/lamport", (2, 1, BAG), [102, 145, 11], BREAKS),
    ("mutex/lamport-ack-suppression", (2, 1, BAG), [138, 216, 11], BREAKS),
];

#[test]
fn the_whole_graph_has_as_many_states_as_another_checker_has_counted() {
    for &(id, (nodes, requests, channels), [distinct, generated, depth], violated) in COUNTED {
        let what = format!("{id}, {nodes} nodes, {requests} requests, {channels:?}");
        let info = catalogue::find(id).expect("it is in the catalogue");
        let setup = Setup::new(Topology::of(info.model.links, nodes));
        let clients =
            conclave_lab::clients(id, &setup).expect("it is in the catalogue").expect("it fits");
        let mut spec = CheckSpec {
            requests: requests.into(),
            channels,
            timers: Timers::Anytime,
            detector: false,
            properties: Vec::new(),
            reduction: false,
            ..CheckSpec::new(info, setup, clients)
        };
        let run = |spec: &CheckSpec| {
            let report =
                conclave_lab::check(spec, &Progress::default()).expect("it is in the catalogue");
            report.unwrap_or_else(|error| panic!("{what}: {error}"))
        };

        // With nothing to violate, a search goes on to the end.
        let whole = run(&spec).coverage;
        assert_eq!(whole.stop, None, "{what}");
        let counts = [whole.states, whole.transitions + 1, u64::from(whole.depth) + 1];
        assert_eq!(counts, [distinct, generated, depth], "{what}");

        spec.properties = vec![Property::Exclusion];
        let judged = run(&spec);
        let verdict = judged.verdict(Property::Exclusion).expect("it was to be checked");
        assert_eq!(matches!(verdict, Verdict::Violated(_)), violated, "{what}: {verdict:?}");
    }
}
