//! Elections along the links of a graph: what they cost, the examples of the literature, large
//! networks, and crashes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::support::{T, at, costs, simulate, slow, verdict};
use conclave_algorithms::election::{tree_mattern, wireless_tree};
use conclave_protocol::{Algorithm, NodeId, Observation, Property, Setup, Time, Topology};
use conclave_sim::{
    Arrivals, Ask, Delay, Event, Fault, Faults, Outcome, Rng, RunSpec, Tracing, Workload, shape,
};

const PROMISES: [Property; 4] =
    [Property::OneLeader, Property::OneLeaderPerEpoch, Property::LeaderKnown, Property::BestLeads];

/// These nodes call at the beginning, in unit delays.
fn call(
    entry: &dyn Algorithm,
    topology: Topology,
    callers: impl IntoIterator<Item = u32>,
) -> RunSpec {
    let mut spec = RunSpec::new(entry.info(), Setup::new(topology));
    spec.workload = Workload::burst(callers.into_iter().map(NodeId), Duration::ZERO);
    spec.linger = None;
    spec
}

/// Nodes that call at given times, in units.
fn calls<const K: usize>(calls: [(u32, u64); K]) -> Workload {
    let asks = calls.map(|(node, t)| Ask { node: NodeId(node), at: at(t), hold: None });
    Workload { arrivals: Arrivals::Plan(asks.to_vec()), ..Workload::idle() }
}

/// How many messages of each of these names were sent.
fn counted<const K: usize>(outcome: &Outcome, labels: [&str; K]) -> [u64; K] {
    let by_label = costs(outcome).by_label;
    labels.map(|label| by_label.get(label).copied().unwrap_or(0))
}

fn assert_promises(outcome: &Outcome, context: &str) {
    for property in PROMISES {
        let verdict = verdict(property, outcome, 1);
        assert!(verdict.held(), "{context} {property}: {verdict:?}");
    }
}

/// Attributes with many ties.
fn attributes(n: u32, rng: &mut Rng) -> Vec<u64> {
    (0..n).map(|_| rng.below(4)).collect()
}

/// Nodes from `n`, each with one chance in three, but at least one.
fn some_callers(n: u32, rng: &mut Rng) -> BTreeSet<u32> {
    let first = rng.below(u64::from(n)) as u32;
    (0..n).filter(|_| rng.below(3) == 0).chain([first]).collect()
}

#[test]
fn on_five_hundred_random_trees_an_election_costs_three_n_plus_k_minus_four() {
    for seed in 0..500 {
        let mut rng = Rng::new(seed);
        let n = 2 + rng.below(60) as u32;
        let callers = some_callers(n, &mut rng);
        let k = callers.len() as u64;
        let mut spec = call(&tree_mattern::PLAIN, shape("tree", n, seed).unwrap(), callers);
        spec.setup = spec.setup.with_attributes(attributes(n, &mut rng));
        spec.delays = Delay::Uniform(T / 20, T).into();
        spec.seed = seed;
        let outcome = simulate(&tree_mattern::PLAIN, &spec);
        let n = u64::from(n);
        let found = counted(&outcome, ["Wake", "Up", "Result"]);
        assert_eq!(found, [n + k - 2, n, n - 2], "seed {seed}: {n} nodes, {k} callers");
        assert_eq!(outcome.stats.sent, 3 * n + k - 4);
        assert_promises(&outcome, &format!("seed {seed}"));
    }
}

#[test]
fn a_node_alone_elects_itself_without_a_message() {
    let alone = simulate(&tree_mattern::PLAIN, &call(&tree_mattern::PLAIN, Topology::line(1), [0]));
    assert_eq!(alone.stats.sent, 0);
    assert_promises(&alone, "a tree of one");
    let alone = call(&wireless_tree::PLAIN, Topology::grid(1), [0]);
    let alone = simulate(&wireless_tree::PLAIN, &alone);
    assert_eq!(alone.stats.sent, 0);
    assert_promises(&alone, "a graph of one");
}

#[test]
fn each_further_call_is_a_further_election() {
    let tree = shape("tree", 20, 3).unwrap();
    let mut spec = call(&tree_mattern::PLAIN, tree.clone(), []);
    spec.workload = calls([(3, 0), (7, 100), (3, 101), (19, 200)]);
    let outcome = simulate(&tree_mattern::PLAIN, &spec);
    // The second and the third call are one election with two callers.
    assert_eq!(outcome.stats.sent, 2 * (3 * 20 + 1 - 4) + (3 * 20 + 2 - 4));
    assert_promises(&outcome, "trees");
    let epochs: BTreeSet<u64> =
        outcome.trace.leaders().followers().map(|(.., epoch)| epoch).collect();
    assert_eq!(epochs, BTreeSet::from([3]));

    let mut spec = call(&wireless_tree::PLAIN, tree, []);
    spec.workload = calls([(3, 0), (7, 100), (3, 200)]);
    let outcome = simulate(&wireless_tree::PLAIN, &spec);
    assert_eq!(outcome.stats.sent, 3 * (4 * 19 - 20 + 1));
    assert_promises(&outcome, "graphs");
}

#[test]
fn later_elections_do_not_need_the_order_of_messages_either() {
    for seed in 0..200 {
        let n = 2 + (seed % 12) as u32;
        let mut spec = call(&tree_mattern::PLAIN, shape("tree", n, seed).unwrap(), []);
        let mut rng = Rng::new(seed);
        let asks = (0..8).map(|_| Ask {
            node: NodeId(rng.below(u64::from(n)) as u32),
            at: Time::ZERO + T * rng.below(400) as u32 / 10,
            hold: None,
        });
        spec.workload = Workload { arrivals: Arrivals::Plan(asks.collect()), ..Workload::idle() };
        spec.delays = Delay::Uniform(T / 20, T * 3).into();
        spec.channels = conclave_protocol::Channels::Reliable;
        spec.seed = seed;
        assert_promises(&simulate(&tree_mattern::PLAIN, &spec), &format!("seed {seed}"));
    }
}

#[test]
fn a_crash_leaves_a_tree_without_a_leader() {
    let mut spec = call(&tree_mattern::PLAIN, Topology::line(4), [0]);
    spec.faults = Faults::none().with(at(1), Fault::Crash(NodeId(2)));
    let outcome = simulate(&tree_mattern::PLAIN, &spec);
    assert!(verdict(Property::LeaderKnown, &outcome, 1).is_violated());
    assert_eq!(outcome.trace.leaders().followers().count(), 0);
}

#[test]
fn flooding_costs_four_messages_a_link_but_one_a_node() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let n = 2 + rng.below(40) as u32;
        let name = ["grid", "geometric", "tree", "complete", "star", "geometric3"];
        let topology = shape(name[seed as usize % name.len()], n, seed).unwrap();
        let links = topology.links();
        let source = rng.below(u64::from(n)) as u32;
        let mut spec = call(&wireless_tree::PLAIN, topology, [source]);
        spec.setup = spec.setup.with_attributes(attributes(n, &mut rng));
        spec.delays = Delay::Uniform(T / 20, T).into();
        spec.seed = seed;
        let outcome = simulate(&wireless_tree::PLAIN, &spec);
        let n = u64::from(n);
        let elec = 2 * links - n + 1;
        let found = counted(&outcome, ["Election", "Ack", "Leader"]);
        assert_eq!(found, [elec, elec, n - 1], "seed {seed}: {n} nodes, {links} links");
        assert_promises(&outcome, &format!("seed {seed}"));
    }
}

#[test]
fn of_several_sources_the_largest_wins_and_the_outcome_is_the_same() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let n = 2 + rng.below(30) as u32;
        let topology = shape("geometric", n, seed).unwrap();
        let callers = some_callers(n, &mut rng);
        let mut spec = call(&wireless_tree::PLAIN, topology, callers);
        spec.setup = spec.setup.with_attributes(attributes(n, &mut rng));
        spec.delays = Delay::Uniform(T / 20, T).into();
        spec.seed = seed;
        assert_promises(&simulate(&wireless_tree::PLAIN, &spec), &format!("seed {seed}"));
    }
}

/// The nodes a to j of the example, and what they have to offer.
const CAPACITIES: [u64; 10] = [4, 6, 3, 2, 1, 4, 2, 8, 5, 4];

/// The example: thirteen links, three of them slow, and node a calls.
fn example() -> RunSpec {
    let letter = |byte: u8| u32::from(byte - b'a');
    let named = |link: &str| (letter(link.as_bytes()[0]), letter(link.as_bytes()[1]));
    let links = "ab aj bc bg cd ce df ef eg fi gh gj hi".split(' ').map(named);
    let links: Vec<_> = links.map(|(a, b)| (NodeId(a), NodeId(b))).collect();
    let topology = Topology::graph(10, &links).unwrap();
    let mut spec = call(&wireless_tree::PLAIN, topology, [0]);
    spec.setup = spec.setup.with_attributes(CAPACITIES);
    for (a, b) in ["ce", "df", "gj"].map(named) {
        spec.delays.links.extend([slow(a, b, 0..1_000, 15), slow(b, a, 0..1_000, 15)]);
    }
    spec.tracing = Tracing::Full;
    spec
}

fn name(node: NodeId) -> char {
    char::from(b'a' + node.0 as u8)
}

/// The node that a message names as the best, if it does, with its capacity.
fn best(message: &str) -> Option<(NodeId, u64)> {
    let number = |after: &str| -> Option<u64> {
        let digits = message.split_once("\"best\"")?.1.split_once(after)?.1;
        digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    Some((NodeId(number("\"node\":")? as u32), number("\"attribute\":")?))
}

#[test]
fn the_example_with_ten_nodes_grows_its_tree_and_elects_h() {
    let outcome = simulate(&wireless_tree::PLAIN, &example());
    assert_eq!(counted(&outcome, ["Election", "Ack", "Leader"]), [17, 17, 9]);
    assert_promises(&outcome, "the example");
    assert!(outcome.trace.leaders().followers().all(|(_, leader, _)| name(leader) == 'h'));

    let (mut parents, mut reports) = (BTreeMap::new(), Vec::new());
    for record in &outcome.trace.records {
        let Event::Deliver { from, serial, label } = record.event() else { continue };
        let (from, to) = (name(from), name(record.node));
        match outcome.trace.name(label) {
            "Election" if to != 'a' => {
                parents.entry(to).or_insert(from);
            }
            "Ack" => {
                if let Some((node, attribute)) = best(&outcome.trace.messages[serial as usize]) {
                    reports.push((from, to, (name(node), attribute)));
                }
            }
            _ => {}
        }
    }
    let mut tree: Vec<String> =
        parents.into_iter().map(|(child, parent)| format!("{parent}{child}")).collect();
    tree.sort_unstable();
    assert_eq!(tree, ["ab", "aj", "bc", "bg", "cd", "ef", "ge", "gh", "hi"]);
    reports.sort_unstable();
    let mut expected = vec![
        ('d', 'c', ('d', 2)),
        ('c', 'b', ('c', 3)),
        ('f', 'e', ('f', 4)),
        ('e', 'g', ('f', 4)),
        ('i', 'h', ('i', 5)),
        ('h', 'g', ('h', 8)),
        ('g', 'b', ('h', 8)),
        ('b', 'a', ('h', 8)),
        ('j', 'a', ('j', 4)),
    ];
    expected.sort_unstable();
    assert_eq!(reports, expected);
}

/// Up to so many crashes while elections are under way and after.
fn crashes(n: u32, most: u64, rng: &mut Rng) -> Faults {
    let mut faults = Faults::none();
    for _ in 0..rng.below(most + 1) {
        let node = NodeId(rng.below(u64::from(n)) as u32);
        let when = Time::ZERO + T * rng.below(300) as u32 / 10;
        faults = faults.with(when, Fault::Crash(node));
    }
    faults
}

#[test]
fn crashes_that_leave_the_network_connected_are_survived() {
    // Where everybody is linked with everybody, the live ones always remain connected.
    for seed in 0..600 {
        let mut rng = Rng::new(seed);
        let n = 2 + rng.below(8) as u32;
        let callers = some_callers(n, &mut rng);
        let mut spec = call(&wireless_tree::PLAIN, Topology::complete(n), callers);
        spec.setup = spec.setup.with_attributes(attributes(n, &mut rng));
        spec.delays = Delay::Uniform(T / 20, T * 4).into();
        spec.faults = crashes(n, 4, &mut rng);
        // One that stays calls when all is over, in case all callers died early.
        let dead = |node: &u32| spec.faults.is_down(NodeId(*node), at(1_000));
        let Some(last) = (0..n).find(|node| !dead(node)) else { continue };
        let Arrivals::Plan(asks) = &mut spec.workload.arrivals else { unreachable!("a plan") };
        asks.push(Ask { node: NodeId(last), at: at(3), hold: None });
        spec.seed = seed;
        assert_promises(&simulate(&wireless_tree::PLAIN, &spec), &format!("seed {seed}"));
    }
    // A ring of links in both directions survives any one crash.
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let n = 3 + rng.below(8) as u32;
        let links: Vec<_> = (0..n).map(|i| (NodeId(i), NodeId((i + 1) % n))).collect();
        let callers = some_callers(n, &mut rng);
        let last = *callers.first().unwrap();
        let topology = Topology::graph(n, &links).unwrap();
        let mut spec = call(&wireless_tree::PLAIN, topology, callers);
        spec.delays = Delay::Uniform(T / 20, T * 4).into();
        let victim = NodeId((last + 1 + rng.below(u64::from(n) - 1) as u32) % n);
        let when = Time::ZERO + T * rng.below(300) as u32 / 10;
        spec.faults = Faults::none().with(when, Fault::Crash(victim));
        spec.seed = seed;
        assert_promises(&simulate(&wireless_tree::PLAIN, &spec), &format!("ring, seed {seed}"));
    }
}

#[test]
fn a_child_that_dies_is_not_waited_for_and_an_orphan_starts_anew() {
    // The child of the source dies before it has heard anything.
    let mut spec = call(&wireless_tree::PLAIN, Topology::complete(4), [0]);
    spec.faults = Faults::none().with(at(0) + T / 2, Fault::Crash(NodeId(3)));
    let outcome = simulate(&wireless_tree::PLAIN, &spec);
    assert_promises(&outcome, "a child dies");
    assert_eq!(outcome.trace.leaders().leader_of(NodeId(0)), Some((NodeId(2), 1)));
    // The source dies: its orphans start elections of their own, and the largest is p3's.
    spec.faults = Faults::none().with(at(0) + T / 2, Fault::Crash(NodeId(0)));
    let outcome = simulate(&wireless_tree::PLAIN, &spec);
    assert_promises(&outcome, "the source dies");
    assert_eq!(outcome.trace.leaders().leader_of(NodeId(1)), Some((NodeId(3), 2)));
}

#[test]
fn a_dead_leader_is_replaced_by_its_neighbours_call() {
    let mut spec = call(&wireless_tree::PLAIN, Topology::grid(9), [0]);
    spec.faults = Faults::none().with(at(50), Fault::Crash(NodeId(8)));
    let outcome = simulate(&wireless_tree::PLAIN, &spec);
    assert_promises(&outcome, "the leader dies");
    assert_eq!(outcome.trace.leaders().leader_of(NodeId(0)), Some((NodeId(7), 2)));
}

#[test]
fn a_crash_that_splits_the_network_makes_two_leaders() {
    let mut spec = call(&wireless_tree::PLAIN, Topology::line(5), [0]);
    spec.faults = Faults::none().with(at(50), Fault::Crash(NodeId(2)));
    spec.workload = calls([(0, 0), (0, 100), (4, 100)]);
    let outcome = simulate(&wireless_tree::PLAIN, &spec);
    assert!(verdict(Property::OneLeader, &outcome, 1).is_violated());
    assert_eq!(outcome.trace.leaders().leaders().collect::<Vec<_>>(), [NodeId(1), NodeId(4)]);
}

#[test]
fn without_a_failure_detector_a_crash_stops_the_election() {
    let mut spec = call(&wireless_tree::PLAIN, Topology::complete(3), [0]);
    spec.faults = Faults::none().with(at(0) + T / 2, Fault::Crash(NodeId(2)));
    spec.detector = None;
    let outcome = simulate(&wireless_tree::PLAIN, &spec);
    assert!(verdict(Property::LeaderKnown, &outcome, 1).is_violated());
}

#[test]
fn a_hundred_thousand_nodes_elect_on_a_tree_and_on_a_geometric_graph() {
    const N: u32 = 100_000;
    for (name, seed) in [("tree", 1), ("line", 1)] {
        let mut spec = call(&tree_mattern::PLAIN, shape(name, N, seed).unwrap(), [7, 70_000]);
        spec.tracing = Tracing::Off;
        let outcome = simulate(&tree_mattern::PLAIN, &spec);
        assert_eq!(outcome.stats.sent, 3 * u64::from(N) + 2 - 4);
        assert_all_follow(&outcome, N, N - 1);
    }
    let topology = shape("geometric", N, 1).unwrap();
    let links = topology.links();
    let mut spec = call(&wireless_tree::PLAIN, topology, [12_345]);
    spec.delays = Delay::Uniform(T / 2, T).into();
    spec.tracing = Tracing::Off;
    let outcome = simulate(&wireless_tree::PLAIN, &spec);
    assert_eq!(outcome.stats.sent, 4 * links - u64::from(N) + 1);
    assert_all_follow(&outcome, N, N - 1);
}

fn assert_all_follow(outcome: &Outcome, n: u32, leader: u32) {
    let leaders = outcome.trace.leaders();
    let followers = leaders.followers();
    let loyal = followers.filter(|&(_, whom, epoch)| whom == NodeId(leader) && epoch == 1);
    assert_eq!(loyal.count(), n as usize);
}

#[test]
fn everybody_is_told_once_for_each_election() {
    let outcome = simulate(&wireless_tree::PLAIN, &example());
    let told = |record: &&conclave_sim::Record| {
        matches!(record.event(), Event::Notice(Observation::Follows { .. }))
    };
    assert_eq!(outcome.trace.records.iter().filter(told).count(), 10);
}
