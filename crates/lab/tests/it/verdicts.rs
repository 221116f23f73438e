//! What a run does not tell is not said.

use conclave_lab::report::judge_all;
use conclave_lab::{find, simulate};
use conclave_protocol::{Channels, NodeId, Property, Setup, Time, Topology};
use conclave_sim::{Arrivals, Ask, RunSpec, Verdict, Workload};

/// A packet that is sent again, or waits for an earlier one, may pass the marker that the algorithm
/// sees in order.
#[test]
fn packets_of_reliable_links_tear_no_cut() {
    let info = find("snapshot/chandy-lamport").expect("it is in the catalogue");
    let mut open = 0;
    for seed in 0..20 {
        let mut spec = RunSpec::new(info, Setup::new(Topology::complete(3)));
        let at = Time::ZERO + spec.setup.delay * 3;
        let ask = Ask { node: NodeId(0), at, hold: None };
        spec.workload = Workload { arrivals: Arrivals::Plan(vec![ask]), ..Workload::idle() };
        (spec.seed, spec.reliable, spec.channels) = (seed, true, Channels::Lossy);
        spec.faults.loss = 200_000;
        let outcome = simulate(&spec).expect("it runs");
        let judged = judge_all(info, &spec, &outcome);
        assert!(judged.iter().all(|it| !it.is_broken()), "seed {seed}: {judged:?}");
        let cut = judged.iter().find(|it| it.property == Property::Cut).expect("it is judged");
        open += u32::from(matches!(cut.verdict, Verdict::Open { .. }));
    }
    assert!(open > 0, "no packet has passed a marker");
}
