//! Ricart–Agrawala in groups that change: nodes that crash, are suspected, join and leave.

use crate::support::{
    T, at, burst, complete, costs, held, order, planned, random_crashes, random_spec, simulate,
    slow, verdict,
};
use conclave_algorithms::mutex::ricart_agrawala::FD;
use conclave_algorithms::mutex::{
    ricart_agrawala_membership as membership, ricart_agrawala_queued as queued,
};
use conclave_protocol::{Channels, NodeId, Observation, Property, Setup, Time};
use conclave_sim::{End, Event, Fault, JudgeLimits, Outcome, Rng, RunSpec, judge};

/// Who reported a suspicion of whom, and when; and who took one back.
fn reports(outcome: &Outcome) -> Vec<(Time, NodeId, Observation)> {
    let records = outcome.trace.records.iter();
    let reports = records.filter_map(|record| match record.event() {
        Event::Notice(mark @ (Observation::Suspects(_) | Observation::Trusts(_))) => {
            Some((record.at, record.node, mark))
        }
        _ => None,
    });
    reports.collect()
}

#[test]
fn a_silent_node_is_reported_after_a_round_trip() {
    let mut spec = burst(&queued::PLAIN, complete(4), [1, 2], 3);
    spec.faults = spec.faults.with(at(0), Fault::Crash(NodeId(3)));
    let outcome = simulate(&queued::PLAIN, &spec);
    assert!(order(&outcome).is_empty(), "a crash still stops everybody");
    let suspects = Observation::Suspects(NodeId(3));
    assert_eq!(
        reports(&outcome),
        [(at(2), NodeId(1), suspects), (at(2), NodeId(2), suspects)],
        "and no other node is suspected"
    );
}

#[test]
fn a_node_that_crashes_inside_is_found_by_a_probe() {
    let plan = [(0, 0, 1_000), (1, 50, 10)];
    let mut spec = planned(&queued::PLAIN, complete(3).with("probe", 10), plan);
    spec.faults = spec.faults.with(at(30), Fault::Crash(NodeId(0)));
    spec.until = at(200);
    let outcome = simulate(&queued::PLAIN, &spec);
    assert_eq!(order(&outcome), [0], "a crash inside stops everybody");
    // Asked at 5, queued at 7, probed at 15 and 25; the probe at 35 remains without answer.
    assert_eq!(reports(&outcome), [(at(37), NodeId(1), Observation::Suspects(NodeId(0)))]);
    // Without probes no node notices.
    spec.setup = complete(3).with("probe", 0);
    let outcome = simulate(&queued::PLAIN, &spec);
    assert_eq!((reports(&outcome), outcome.trace.end), (vec![], End::Quiet));
}

#[test]
fn a_suspicion_of_a_slow_node_is_taken_back() {
    let mut spec = burst(&queued::PLAIN, complete(3), [1], 3);
    spec.delays.links = vec![slow(2, 1, 0..100, 50)];
    let outcome = simulate(&queued::PLAIN, &spec);
    let (suspects, trusts) = (Observation::Suspects(NodeId(2)), Observation::Trusts(NodeId(2)));
    assert_eq!(reports(&outcome), [(at(2), NodeId(1), suspects), (at(6), NodeId(1), trusts)]);
    assert_eq!(order(&outcome), [1]);
}

#[test]
fn in_a_synchronous_system_nobody_alive_is_suspected_and_probes_do_no_harm() {
    for seed in 0..240 {
        let n = 2 + (seed % 8) as u32;
        let probe = 2 + (seed / 8) % 4;
        let mut spec = random_spec(&queued::PLAIN, complete(n).with("probe", probe), seed);
        if seed % 3 == 0 {
            spec.channels = Channels::Fifo;
        }
        let outcome = simulate(&queued::PLAIN, &spec);
        for &property in queued::PLAIN.info.holds.iter().chain(&[Property::Accuracy]) {
            assert!(held(property, &outcome), "{property} n={n} seed={seed} probe={probe}");
        }
    }
}

#[test]
fn with_a_perfect_detector_crashes_do_no_harm() {
    let mut crashes = 0;
    for seed in 0..240 {
        let n = 2 + (seed % 8) as u32;
        let mut spec = random_spec(&FD, complete(n), seed);
        let span = 5 + (seed % 40) as u32;
        spec.faults = random_crashes(&FD, n, NodeId(0), span, &mut Rng::new(seed));
        crashes += spec.faults.plan.len();
        assert_eq!(spec.beyond(&FD.info), []);
        let outcome = simulate(&FD, &spec);
        for &property in FD.info.holds {
            let verdict =
                judge(property, &outcome.trace, JudgeLimits { places: 1, patience: T * 100 });
            assert!(verdict.held(), "{property} n={n} seed={seed}: {verdict:?}");
        }
    }
    assert!(crashes > 240, "only {crashes} crashes");
}

#[test]
fn a_node_that_crashed_inside_is_passed_over() {
    let plan = [(0, 0, 1000), (1, 30, 10), (2, 40, 10)];
    let mut spec = planned(&FD, complete(3), plan);
    spec.faults = spec.faults.with(at(10), Fault::Crash(NodeId(0)));
    let outcome = simulate(&FD, &spec);
    assert_eq!(order(&outcome), [0, 1, 2]);
    // The detector takes a round trip.
    assert_eq!(costs(&outcome).entries[1].entered, Some(at(12)));
}

#[test]
fn the_dead_are_not_asked() {
    let mut spec = planned(&FD, complete(5), [(0, 100, 10)]);
    for node in [3, 4].map(NodeId) {
        spec.faults = spec.faults.with(at(1), Fault::Crash(node));
    }
    let costs = costs(&simulate(&FD, &spec));
    assert_eq!((costs.messages, costs.lost), (4, 0), "two live peers");
    // Those that have crashed unnoticed are, in vain.
    let mut spec = planned(&FD, complete(5), [(0, 11, 10)]);
    for node in [3, 4].map(NodeId) {
        spec.faults = spec.faults.with(at(1), Fault::Crash(node));
    }
    let costs = crate::support::costs(&simulate(&FD, &spec));
    assert_eq!((costs.messages, costs.lost), (6, 2));
}

#[test]
fn one_wrong_suspicion_puts_two_inside() {
    let mut spec = planned(&FD, complete(3), [(0, 0, 500), (1, 110, 10)]);
    let (node, peer) = (NodeId(1), NodeId(0));
    spec.faults = spec.faults.with(at(10), Fault::Suspect { node, peer });
    let outcome = simulate(&FD, &spec);
    assert!(verdict(Property::Exclusion, &outcome, 1).is_violated());
    // Taken back in time, it does no harm.
    spec.faults = spec.faults.with(tenth_before(11), Fault::Trust { node, peer });
    assert!(held(Property::Exclusion, &simulate(&FD, &spec)));
}

fn tenth_before(t: u64) -> Time {
    crate::support::tenths(t as u32 * 10 - 1)
}

/// Three members of five nodes.
fn group() -> Setup {
    complete(5).with("members", 3)
}

fn with_join(spec: RunSpec, when: u64, node: u32, sponsor: u32) -> RunSpec {
    let action = Fault::Join { node: NodeId(node), sponsor: NodeId(sponsor) };
    RunSpec { faults: spec.faults.clone().with(at(when), action), ..spec }
}

fn with_leave(spec: RunSpec, when: u64, node: u32) -> RunSpec {
    RunSpec { faults: spec.faults.clone().with(at(when), Fault::Leave(NodeId(node))), ..spec }
}

#[test]
fn outsiders_are_not_asked() {
    let entry = &membership::PLAIN;
    let costs = costs(&simulate(entry, &burst(entry, group(), [1], 3)));
    assert_eq!(costs.messages, 4);
}

#[test]
fn an_outsiders_request_waits_until_it_has_joined() {
    let entry = &membership::PLAIN;
    let spec = planned(entry, group(), [(3, 0, 10), (0, 100, 10)]);
    let outcome = simulate(entry, &spec);
    assert_eq!((order(&outcome), outcome.trace.end), (vec![0], End::Quiet));
    let outcome = simulate(entry, &with_join(spec, 20, 3, 1));
    assert_eq!(order(&outcome), [0, 3]);
    let costs = costs(&outcome);
    assert_eq!(costs.entries[0].messages_entry, 6, "it asks three members");
}

#[test]
fn a_change_costs_an_entry_and_two_messages_for_each_that_is_told() {
    let entry = &membership::PLAIN;
    let spec = planned(entry, group(), []);
    // The join; asking two members; telling them and the newcomer.
    let costs = costs(&simulate(entry, &with_join(spec.clone(), 1, 3, 1)));
    assert_eq!((costs.messages, costs.overhead), (1 + 4 + 6, 11));
    // Asking two members; telling them.
    let costs = crate::support::costs(&simulate(entry, &with_leave(spec, 1, 1)));
    assert_eq!((costs.messages, costs.overhead), (4 + 4, 8));
}

#[test]
fn a_waiting_member_asks_the_newcomer_too() {
    // p0 is inside when p3 asks p1 to let it in and p2 asks to enter, later than p1 does.
    let entry = &membership::PLAIN;
    let plan = [(0, 0, 100), (2, 60, 10), (3, 0, 10)];
    let outcome = simulate(entry, &with_join(planned(entry, group(), plan), 3, 3, 1));
    assert_eq!(order(&outcome), [0, 2, 3]);
    let costs = costs(&outcome);
    let of_p2 = costs.entries.iter().find(|cost| cost.node == NodeId(2)).expect("p2 has asked");
    assert_eq!(of_p2.messages_entry, 6, "two members and the newcomer");
}

#[test]
fn who_has_left_passes_newcomers_on_and_the_last_member_stays() {
    let entry = &membership::PLAIN;
    let mut spec = planned(entry, group(), [(4, 0, 10), (0, 500, 10), (2, 600, 10)]);
    spec = with_leave(spec, 1, 0);
    spec = with_leave(spec, 10, 1);
    spec = with_leave(spec, 20, 2);
    // p0 knows of p1, which knows of p2, which lets p4 in and leaves at last.
    spec = with_join(spec, 30, 4, 0);
    let outcome = simulate(entry, &spec);
    assert_eq!(order(&outcome), [4], "p0 and p2 are outside");
    spec = with_join(spec, 70, 0, 2);
    let outcome = simulate(entry, &spec);
    assert_eq!(order(&outcome), [4, 0]);
}

#[test]
fn joining_and_leaving_do_no_harm() {
    let entry = &membership::PLAIN;
    let (mut joins, mut leaves) = (0, 0);
    for seed in 0..400 {
        let n = 2 + (seed % 8) as u32;
        let mut spec = random_spec(entry, complete(n), seed);
        let mut rng = Rng::new(seed ^ 0x5eed);
        if seed % 2 == 0 {
            spec.channels = Channels::Fifo;
        }
        // Some leave, and come back through anybody, perhaps through one who has left too.
        for node in (0..n).map(NodeId) {
            let mut when = Time::ZERO + T * rng.below(10) as u32;
            for _ in 0..rng.below(3) {
                spec.faults = spec.faults.with(when, Fault::Leave(node));
                when = when + T / 10 + T * rng.below(200) as u32 / 10;
                let sponsor = NodeId((node.0 + 1 + rng.below(u64::from(n) - 1) as u32) % n);
                spec.faults = spec.faults.with(when, Fault::Join { node, sponsor });
                when = when + T / 10 + T * rng.below(200) as u32 / 10;
            }
        }
        let outcome = simulate(entry, &spec);
        for property in [Property::Exclusion, Property::FenceOrder] {
            let verdict = verdict(property, &outcome, 1);
            assert!(verdict.held(), "{property} n={n} seed={seed}: {verdict:?}");
        }
        let entered = order(&outcome).len() as u32;
        assert_eq!(entered, 6 * n, "n={n} seed={seed}: all are members again in the end");
        let changes = |leave: bool| {
            let is_leave = |action: &Fault| matches!(action, Fault::Leave(_));
            spec.faults.plan.iter().filter(|item| is_leave(&item.action) == leave).count()
        };
        (joins, leaves) = (joins + changes(false), leaves + changes(true));
    }
    assert!(joins > 1_000 && leaves > 1_000, "{joins} joins, {leaves} leaves");
}

#[test]
fn a_newcomer_known_only_to_its_sponsor_is_not_alone_inside() {
    // p3 joins through p0 and enters; p1 does not know of it.
    let plan = [(3, 0, 300), (1, 150, 10)];
    for (entry, alone) in [(&membership::PLAIN, true), (&membership::NO_CS, false)] {
        let outcome = simulate(entry, &with_join(planned(entry, group(), plan), 1, 3, 0));
        assert_eq!(order(&outcome), [3, 1]);
        assert_eq!(held(Property::Exclusion, &outcome), alone);
    }
}

#[test]
fn a_group_has_one_member_at_least_and_no_more_than_there_are_nodes() {
    let config = membership::PLAIN.config;
    assert!(config(&complete(3).with("members", 0)).is_err());
    assert!(config(&complete(3).with("members", 4)).is_err());
    assert!(config(&complete(3).with("members", 3)).is_ok());
    assert!(config(&complete(3).with("members", "all")).is_ok());
}
