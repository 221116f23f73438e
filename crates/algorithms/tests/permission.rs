//! Mutual exclusion by permission of all: exact costs, replays, and every known failure.

mod support;

use std::time::Duration;

use conclave_algorithms::mutex::{self, lamport, ricart_agrawala as ra};
use conclave_protocol::{Entry, NodeId, Property, Setup, Time, Topology};
use conclave_sim::{Arrivals, Ask, RunSpec, SlowLink, Spread, Workload};
use support::{T, at, order, simulate, verdict};

fn setup(n: u32) -> Setup {
    Setup::new(Topology::complete(n))
}

/// `tenths` tenths of a unit after the beginning.
fn tenths(tenths: u32) -> Time {
    Time::ZERO + T * tenths / 10
}

/// A run in unit delays in which each `(node, time, hold)` of the plan, in tenths of a unit, asks.
fn planned<P: mutex::Algorithm>(
    entry: &Entry<P>,
    setup: Setup,
    plan: impl IntoIterator<Item = (u32, u32, u32)>,
) -> RunSpec {
    let ask = |(node, when, hold)| Ask {
        node: NodeId(node),
        at: tenths(when),
        hold: Some(T * hold / 10),
    };
    let mut spec = RunSpec::new(&entry.info, setup);
    spec.workload = Workload {
        arrivals: Arrivals::Plan(plan.into_iter().map(ask).collect()),
        hold: Spread::exactly(Duration::ZERO),
    };
    spec.until = at(100_000);
    spec
}

/// Messages sent from one node to another in a span of time, in tenths of a unit, take longer.
fn slow(from: u32, to: u32, sent: std::ops::Range<u32>, delay: u32) -> SlowLink {
    SlowLink {
        from: NodeId(from),
        to: NodeId(to),
        delay: T * delay / 10,
        since: tenths(sent.start),
        until: tenths(sent.end),
    }
}

/// p1 hears of p2's request and then replies to p0, which has not heard of it and asks again.
fn a_reply_tells_of_a_request<P: mutex::Algorithm>(entry: &Entry<P>) -> RunSpec {
    let mut spec = planned(entry, setup(3), [(0, 0, 10), (2, 15, 10), (0, 80, 10)]);
    spec.delays.links = vec![slow(0, 1, 0..1, 50), slow(2, 0, 12..18, 200)];
    spec
}

#[test]
fn a_reply_carries_the_clock_so_that_what_it_tells_of_comes_first() {
    let spec = a_reply_tells_of_a_request(&ra::PLAIN);
    let outcome = simulate(&ra::PLAIN, &spec);
    assert_eq!(order(&outcome), [0, 2, 0]);
    assert!(verdict(Property::FcfsHappenedBefore, &outcome, 1).held());
    let outcome = simulate(&lamport::PLAIN, &a_reply_tells_of_a_request(&lamport::PLAIN));
    assert!(verdict(Property::FcfsHappenedBefore, &outcome, 1).held());
}
