//! The coordinator that is replaced, over other elections than the bully algorithm: by a majority,
//! which survives partitions, and others, with what these do not survive.

use std::time::Duration;

use crate::support::{
    T, asking, at, complete, costs, nodes, order, random_crashes, random_spec, simulate, verdict,
};
use conclave_algorithms::election::support::ring;
use conclave_algorithms::election::{self, chang_roberts, quorum_epoch, ring_list, wireless_tree};
use conclave_algorithms::mutex::centralized_failover::{Config, PLAIN, QUORUM, config};
use conclave_algorithms::mutex::{self, Coordinator};
use conclave_protocol::{
    Algorithm, Crashes, Entry, Info, Model, NodeId, Observation, Property, Setup, Time, Unfit,
};
use conclave_sim::{Arrivals, Event, Fault, Faults, Outcome, Rng, RunSpec, Spread};

const SAFE: [Property; 2] = [Property::Exclusion, Property::FenceOrder];
const LIVE: [Property; 2] = [Property::NoDeadlock, Property::NoStarvation];

/// Runs an entry that is not in the catalogue.
fn run<P: mutex::Algorithm>(entry: &Entry<P>, spec: &RunSpec) -> Outcome {
    conclave_sim::run(entry, spec).expect("the specification makes sense")
}

fn assert_held(outcome: &Outcome, properties: &[Property], context: &str) {
    for &property in properties {
        let verdict = verdict(property, outcome, 1);
        assert!(verdict.held(), "{context} {property}: {verdict:?}");
    }
}

/// When a node entered the first time.
fn entered(outcome: &Outcome, node: u32) -> Option<Time> {
    let costs = costs(outcome);
    costs.entered().find(|entry| entry.node == NodeId(node)).and_then(|entry| entry.entered)
}

/// p0, p1 and p2 on one side, p3 and p4 on the other.
fn apart() -> Fault {
    Fault::Partition(vec![nodes([0, 1, 2]).to_vec(), nodes([3, 4]).to_vec()])
}

/// Partitions of two parts at random moments, each healed before the next.
fn partitions(mut faults: Faults, n: u32, until: u64, rng: &mut Rng) -> Faults {
    let mut now = rng.below(60);
    while now < until {
        let sides = rng.below(1 << n);
        let side = |want: u64| (0..n).filter(|i| sides >> i & 1 == want).map(NodeId).collect();
        faults = faults.with(at(now), Fault::Partition(vec![side(0), side(1)]));
        now += 1 + rng.below(120);
        faults = faults.with(at(now), Fault::Heal);
        now += 1 + rng.below(120);
    }
    faults
}

/// Everybody keeps asking, and stays for up to 80T, while the network falls apart and is whole again.
fn falling_apart(seed: u64) -> RunSpec {
    let mut rng = Rng::new(seed).fork(9);
    let n = 2 + (seed % 6) as u32;
    let mut spec = random_spec(&QUORUM, complete(n), seed);
    if let Arrivals::Closed { rounds, .. } = &mut spec.workload.arrivals {
        *rounds = Some(12);
    }
    spec.workload.hold = Spread::between(Duration::ZERO, T * (1 + rng.below(80) as u32));
    spec.faults = partitions(spec.faults, n, 900, &mut rng);
    spec.until = at(2_500);
    spec
}

#[test]
fn a_majority_keeps_the_lock_safe_through_partitions_crashes_and_recoveries() {
    let mut entries = 0;
    for seed in 0..3_000 {
        let mut spec = falling_apart(seed);
        let mut rng = Rng::new(seed).fork(10);
        let n = spec.setup.n();
        let spared = NodeId(rng.below(u64::from(n)) as u32);
        if seed % 3 == 0 {
            let crashes = random_crashes(&QUORUM, n, spared, 400, &mut rng);
            spec.faults.plan.extend(crashes.plan);
        }
        assert_eq!(spec.beyond(&QUORUM.info), []);
        let outcome = simulate(&QUORUM, &spec);
        assert_held(&outcome, &SAFE, &format!("n={n} seed={seed}"));
        entries += outcome.stats.entered;
    }
    assert!(entries > 60_000, "only {entries} entries");
}

#[test]
fn whoever_does_not_wait_for_the_last_coordinator_to_step_down_is_not_safe() {
    let entry: Entry<Coordinator<quorum_epoch::QuorumEpoch>> = Entry {
        config: |setup| Ok((QUORUM.config)(setup)?.with_grace(Duration::ZERO)),
        info: QUORUM.info,
        clients: QUORUM.clients,
    };
    for seed in [649, 1_149, 1_707] {
        let outcome = run(&entry, &falling_apart(seed));
        assert!(verdict(Property::Exclusion, &outcome, 1).is_violated(), "seed {seed}");
    }
}

#[test]
fn with_a_majority_up_and_the_network_whole_everybody_is_served() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed).fork(9);
        let n = 2 + (seed % 6) as u32;
        let mut spec = random_spec(&QUORUM, complete(n), seed);
        // A minority stays down.
        for node in 0..(n - 1) / 2 {
            let when = at(rng.below(100));
            spec.faults = spec.faults.with(when, Fault::Crash(NodeId(node)));
        }
        spec.faults = partitions(spec.faults, n, 300, &mut rng);
        spec.until = at(20_000);
        assert_eq!(spec.beyond(&QUORUM.info), []);
        let outcome = simulate(&QUORUM, &spec);
        assert_held(&outcome, &SAFE, &format!("n={n} seed={seed}"));
        assert_held(&outcome, &LIVE, &format!("n={n} seed={seed}"));
    }
}

/// The coordinator p4 and the holder p3 are cut off from the others, one of which wants in.
fn cut_off(entry: &dyn Algorithm) -> RunSpec {
    let mut spec = asking(entry, complete(5), &[(4, 0, 1), (3, 50, 400), (0, 65, 5), (4, 70, 5)]);
    spec.faults = Faults::none().with(at(60), apart());
    spec.until = at(400);
    spec
}

#[test]
fn a_partition_makes_two_coordinators_unless_a_majority_elects_them() {
    let split = simulate(&PLAIN, &cut_off(&PLAIN));
    assert!(verdict(Property::Exclusion, &split, 1).is_violated());
    let whole = simulate(&QUORUM, &cut_off(&QUORUM));
    assert_held(&whole, &SAFE, "by majority");
    // p4 steps down, p3's lease ends, and only then a node enters on the other side.
    let lost = whole.trace.records.iter().find(|record| {
        record.node == NodeId(3) && record.event() == Event::Notice(Observation::Lost)
    });
    let lost = lost.expect("its lease ended").at;
    assert!(lost <= at(60 + 14 + 20), "{lost:?}");
    assert!(entered(&whole, 0).expect("p0 has a majority on its side") > lost);
    assert_eq!(order(&whole), [4, 3, 0], "and p4 has none");
    // Once the network is whole, p4 is served, too.
    let mut spec = cut_off(&QUORUM);
    spec.faults = spec.faults.with(at(300), Fault::Heal);
    spec.until = at(2_000);
    assert_eq!(order(&simulate(&QUORUM, &spec)), [4, 3, 0, 4]);
}

#[test]
fn without_leases_a_majority_is_safe_and_waits_for_whom_it_cannot_reach() {
    let entry: Entry<Coordinator<quorum_epoch::QuorumEpoch>> = Entry {
        config: |setup| Ok((QUORUM.config)(setup)?.without_leases()),
        info: QUORUM.info,
        clients: QUORUM.clients,
    };
    let outcome = run(&entry, &cut_off(&entry));
    assert_held(&outcome, &SAFE, "without leases");
    assert_eq!((order(&outcome), entered(&outcome, 0)), (vec![4, 3], None));
    // Those on the other side go on when everybody is back.
    let mut spec = cut_off(&entry);
    spec.faults = spec.faults.with(at(300), Fault::Heal);
    spec.until = at(3_000);
    let outcome = run(&entry, &spec);
    assert_held(&outcome, &SAFE, "without leases, healed");
    assert_eq!(order(&outcome).len(), 4);
}

#[test]
fn without_a_majority_nobody_is_served() {
    let mut spec = asking(&QUORUM, complete(3), &[(0, 100, 1)]);
    spec.faults =
        Faults::none().with(at(0), Fault::Crash(NodeId(1))).with(at(0), Fault::Crash(NodeId(2)));
    spec.until = at(5_000);
    let outcome = simulate(&QUORUM, &spec);
    assert!(LIVE.iter().all(|&property| verdict(property, &outcome, 1).is_violated()));
}

/// The coordinator over an election with these constants, where nodes may crash so.
fn over<E: election::Algorithm>(
    config: fn(&Setup) -> Result<Config<E::Config>, Unfit>,
    crashes: Crashes,
) -> Entry<Coordinator<E>> {
    let model = Model { crashes, ..PLAIN.info.model };
    let info = Info { model, ..PLAIN.info };
    Entry { config, info, clients: Entry::<Coordinator<E>>::everyone }
}

fn assert_it_will_do<E: election::Algorithm>(entry: &Entry<Coordinator<E>>, name: &str) {
    for seed in 0..120 {
        let spec = random_spec(entry, complete(2 + (seed % 8) as u32), seed);
        let outcome = run(entry, &spec);
        assert_held(&outcome, &SAFE, &format!("{name}, seed {seed}"));
        assert_held(&outcome, &LIVE, &format!("{name}, seed {seed}"));
    }
}

#[test]
fn any_election_will_do_where_nothing_goes_wrong() {
    let none = Crashes::None;
    let flooding = over::<wireless_tree::WirelessTree>(
        |setup| config(setup, (wireless_tree::PLAIN.config)(setup)?),
        none,
    );
    assert_it_will_do(&flooding, "wireless-tree");
    let highest = over::<chang_roberts::ChangRoberts>(
        |setup| config(setup, (chang_roberts::PLAIN.config)(setup)?),
        none,
    );
    assert_it_will_do(&highest, "chang-roberts");
    let lists = over::<ring::Ring>(|setup| config(setup, (ring_list::PLAIN.config)(setup)?), none);
    assert_it_will_do(&lists, "ring-list");
}

/// Runs with crashes; in how many of them a node waits for ever. No two are ever inside.
fn stuck<E: election::Algorithm>(entry: &Entry<Coordinator<E>>, name: &str) -> usize {
    let is_stuck = |&seed: &u64| {
        let n = 2 + (seed % 8) as u32;
        let mut rng = Rng::new(seed).fork(9);
        let mut spec = random_spec(entry, complete(n), seed);
        let spared = NodeId(rng.below(u64::from(n)) as u32);
        spec.faults = random_crashes(entry, n, spared, 60, &mut rng);
        spec.until = at(5_000);
        let outcome = run(entry, &spec);
        assert_held(&outcome, &SAFE, &format!("{name}, seed {seed}"));
        verdict(Property::NoDeadlock, &outcome, 1).is_violated()
    };
    (0..240).filter(is_stuck).count()
}

#[test]
fn over_a_ring_the_lock_is_safe_and_ends_where_the_election_does() {
    let lists =
        over::<ring::Ring>(|setup| config(setup, (ring_list::PLAIN.config)(setup)?), Crashes::Stop);
    let repaired = over::<chang_roberts::ChangRoberts>(
        |setup| config(setup, (chang_roberts::REPAIRED.config)(setup)?),
        Crashes::Stop,
    );
    let (few, many) = (stuck(&lists, "ring-list"), stuck(&repaired, "chang-roberts-repaired"));
    // The one announces dead leaders, the other passes the id of one on for ever.
    assert!(0 < few && few < many, "{few} and {many} of 240");
    assert_eq!(stuck(&PLAIN, "bully"), 0);
}
