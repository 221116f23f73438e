//! The central clock: what its stamps are worth.

use std::time::Duration;

use crate::support::{T, at, costs};
use conclave_algorithms::base;
use conclave_algorithms::base::physical_clock::{PLAIN, PhysicalClock};
use conclave_protocol::{Hosted, NodeId, Setup, Time, Topology};
use conclave_sim::{Arrivals, Ask, Delay, Event, Fault, RunSpec, SlowLink, Workload, World};

/// The server, A and B.
const SERVER: NodeId = NodeId(0);
const A: NodeId = NodeId(1);
const B: NodeId = NodeId(2);

/// A's event at 0, B's at 1. A's way to the server and back take `there` and `back`, B's one unit.
fn spec(there: u32, back: u32) -> RunSpec {
    let mut setup = Setup::new(Topology::complete(3));
    setup.delay = T * 20;
    let mut spec = RunSpec::new(&PLAIN.info, setup);
    spec.delays = Delay::Constant(T).into();
    let forever = |from, to, units: u32| SlowLink {
        from,
        to,
        delay: T * units,
        since: Time::ZERO,
        until: Time::MAX,
    };
    spec.delays.links = vec![forever(A, SERVER, there), forever(SERVER, A, back)];
    let events =
        vec![Ask { node: A, at: at(0), hold: None }, Ask { node: B, at: at(1), hold: None }];
    spec.workload = Workload { arrivals: Arrivals::Plan(events), ..Workload::idle() };
    spec.until = at(500);
    spec
}

fn finished(spec: &RunSpec) -> World {
    let config = (PLAIN.config)(&spec.setup).expect("the set-up fits");
    let host = Hosted::<PhysicalClock, base::Client>::new(config, spec.setup.n());
    let mut world = World::new(Box::new(host), spec);
    while world.step().is_none() {}
    world
}

/// The only stamp of each client, and how uncertain it is.
fn stamps(world: &World) -> [(i64, Duration); 2] {
    let of = |node: NodeId| {
        let client = world.client::<base::Client>(node).expect("it is one");
        assert_eq!(client.stamps.len(), 1);
        client.stamps[0]
    };
    [of(A), of(B)]
}

fn units(n: i64) -> i64 {
    n * T.as_nanos() as i64
}

#[test]
fn stamping_on_arrival_reverses_what_allowing_for_the_way_gets_right() {
    let world = finished(&spec(10, 10));
    let arrivals: Vec<(NodeId, Time)> = world
        .trace()
        .records
        .iter()
        .filter(|record| record.node == SERVER)
        .filter_map(|record| match record.event() {
            Event::Deliver { from, .. } => Some((from, record.at)),
            _ => None,
        })
        .collect();
    assert_eq!(arrivals, [(B, at(2)), (A, at(10))], "B's event seems to be the earlier");
    let [a, b] = stamps(&world);
    assert_eq!((a.0, b.0), (units(0), units(1)), "A's was");
    assert_eq!((a.1, b.1), (T * 10, T));
}

#[test]
fn ways_of_different_length_reverse_the_order_and_the_uncertainty_says_so() {
    let [a, b] = stamps(&finished(&spec(18, 2)));
    assert_eq!((a.0, b.0), (units(8), units(1)));
    assert_eq!(a.1, T * 10);
    assert!(a.0 - units(10) <= b.0, "the uncertainties overlap");
}

#[test]
fn a_known_least_delay_narrows_the_uncertainty() {
    let mut spec = spec(10, 10);
    // T is 20 units here, so this is one unit.
    spec.setup = spec.setup.with("least", 5);
    let [a, b] = stamps(&finished(&spec));
    assert_eq!((a.1, b.1), (T * 9, Duration::ZERO));
}

#[test]
fn without_the_server_there_are_no_stamps() {
    let mut spec = spec(10, 10);
    spec.faults = spec.faults.with(Time::ZERO, Fault::Crash(SERVER));
    spec.linger = None;
    let world = finished(&spec);
    for node in [A, B] {
        let client = world.client::<base::Client>(node).expect("it is one");
        assert!(client.stamps.is_empty());
        assert!(client.late > 1, "each event is reported unordered, and tried again");
    }
}

#[test]
fn an_event_stamped_at_the_second_try_keeps_its_time() {
    let mut spec = spec(10, 10);
    spec.faults = spec.faults.with(Time::ZERO, Fault::Lose { label: "TimeReq".to_owned() });
    spec.linger = None;
    let [a, _] = stamps(&finished(&spec));
    assert_eq!(a, (units(0), T * 10));
}

#[test]
fn a_stamp_costs_two_messages_and_a_round_trip() {
    let outcome = {
        let mut spec = spec(1, 1);
        spec.linger = Some(T);
        spec.setup.delay = T;
        crate::support::simulate(&PLAIN, &spec)
    };
    let costs = costs(&outcome);
    assert_eq!((costs.by_label["TimeReq"], costs.by_label["TimeRep"]), (2, 2));
}

#[test]
fn every_stamp_is_within_its_uncertainty_of_the_truth() {
    for seed in 0..240 {
        let mut setup = Setup::new(Topology::complete(5));
        setup.delay = T;
        let mut spec = RunSpec::new(&PLAIN.info, setup);
        spec.seed = seed;
        spec.delays = Delay::Uniform(T / 20, T).into();
        let moment = |node: u32| at(u64::from(node) * 7 + seed % 5);
        let events = (1..5).map(|node| Ask { node: NodeId(node), at: moment(node), hold: None });
        spec.workload = Workload { arrivals: Arrivals::Plan(events.collect()), ..Workload::idle() };
        spec.until = at(500);
        let world = finished(&spec);
        for node in 1..5 {
            let client = world.client::<base::Client>(NodeId(node)).expect("it is one");
            let truth = moment(node).as_nanos() as i64;
            let [(nanos, uncertainty)] = client.stamps[..] else { panic!("one stamp each") };
            assert!(nanos.abs_diff(truth) <= uncertainty.as_nanos() as u64, "seed={seed}");
        }
    }
}
