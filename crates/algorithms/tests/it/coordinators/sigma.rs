//! Several replicas that queue.

use conclave_algorithms::mutex::lin_sigma::PLAIN as SIGMA;
use conclave_protocol::Channels;

use super::*;

#[test]
fn an_idle_entry_costs_3n_messages_and_two_hops() {
    for (n, m) in [(3, 2), (8, 5), (8, 6)] {
        let outcome = simulate(&SIGMA, &burst(&SIGMA, group(n, m, 2), [n], 50));
        let (costs, n) = (costs(&outcome), u64::from(n));
        let one = &costs.entries[0];
        assert_eq!((one.messages_entry, one.messages_exit, costs.messages), (2 * n, n, 3 * n));
        assert_eq!(costs.entry_hops(&outcome.trace, one), Some(2));
        assert_eq!(costs.turnaround().max, T * (2 + 50));
    }
}

/// Each of three clients is near one replica.
fn three_way_split() -> RunSpec {
    let mut spec = burst(&SIGMA, group(3, 2, 3), 3..6, 5);
    spec.setup.delay = T * 2;
    let delay = |a: u32, b: u32| if a.abs_diff(b) == 3 { T } else { T * 2 };
    let rows = (0..6).map(|a| (0..6).map(|b| delay(a, b)).collect()).collect();
    spec.delays = Delay::Matrix(rows).into();
    spec
}

#[test]
fn those_who_split_the_replicas_yield_and_the_oldest_goes_first() {
    let spec = three_way_split();
    assert_eq!(spec.beyond(&SIGMA.info), []);
    let outcome = simulate(&SIGMA, &spec);
    assert!(costs(&outcome).by_label["Yield"] >= 3);
    assert_eq!(order(&outcome), [3, 4, 5]);
    assert_eq!(holds(&outcome, LIVE), Ok(()));
}

#[test]
fn under_heavy_load_nobody_is_stuck_and_some_are_overtaken() {
    let mut overtaken = 0;
    for seed in 0..240 {
        let n = 3 + (seed % 6) as u32;
        let m = n / 2 + 1 + (seed / 6 % 2) as u32;
        let mut spec = random_spec(&SIGMA, group(n, m, 8), seed);
        if let Arrivals::Closed { rounds, first, think, .. } = &mut spec.workload.arrivals {
            *rounds = Some(6);
            *first = Spread::exactly(Duration::ZERO);
            *think = Spread::between(Duration::ZERO, T);
        }
        let outcome = simulate(&SIGMA, &spec);
        assert_eq!(holds(&outcome, LIVE), Ok(()), "seed {seed}");
        assert_eq!(outcome.stats.entered, 48, "seed {seed}");
        let order = verdict(Property::FcfsHappenedBefore, &outcome, 1);
        overtaken += u32::from(order.is_violated());
    }
    assert!(overtaken > 0, "later requests do enter first");
}

#[test]
fn answers_that_crossed_a_yield_do_not_count() {
    // Messages take many times what is expected, and requests are repeated so often that answers
    // to them and yields cross all the time. Without a lease nothing relies on delays.
    for seed in 0..240 {
        let n = 3 + (seed % 6) as u32;
        let mut setup = group(n, n / 2 + 1, 6).with("section", 8).with("lease", 0);
        setup.delay = T / 16;
        let mut spec = random_spec(&SIGMA, setup, seed);
        if let Arrivals::Closed { rounds, first, think, .. } = &mut spec.workload.arrivals {
            *rounds = Some(6);
            *first = Spread::exactly(Duration::ZERO);
            *think = Spread::between(Duration::ZERO, T);
        }
        let outcome = simulate(&SIGMA, &spec);
        assert_eq!(holds(&outcome, LIVE), Ok(()), "seed {seed}");
    }
}

/// How many of so many runs have two inside, if each replica resets now and then.
fn double_entries(m: u32, runs: u64) -> u32 {
    let violated = |seed: &u64| {
        let mut spec = random_spec(&SIGMA, group(8, m, 3).with("section", 20), *seed);
        spec.workload.hold = Spread::exactly(T * 20);
        spec.faults = resets(8, 60, 300, *seed);
        let outcome = simulate(&SIGMA, &spec);
        verdict(Property::Exclusion, &outcome, 1).is_violated()
    };
    (0..runs).filter(violated).count() as u32
}

#[test]
fn a_larger_overlap_makes_double_entries_by_reset_rarer() {
    let (bare, more) = (double_entries(5, 200), double_entries(6, 200));
    assert!(bare > 20 && more * 3 < bare, "m=5: {bare}, m=6: {more}");
}

#[test]
fn one_reset_suffices_for_two_inside_and_one_more_in_the_majority_cures_it() {
    let run = |n, m| {
        // The second request comes to the replicas that were reset first.
        let mut spec = plan(&SIGMA, group(n, m, 2), [ask(n, 0, 100), ask(n + 1, 10, 5)]);
        spec.delays.links.push(slow_at_first(n, n - 1, 60));
        spec.faults = Faults::none().with(at(5), Fault::Reset(NodeId(0)));
        simulate(&SIGMA, &spec)
    };
    // p3 owns replicas 0 and 1; its request to the third is slow.
    assert!(verdict(Property::Exclusion, &run(3, 2), 1).is_violated());
    assert_eq!(holds(&run(4, 3), LIVE), Ok(()));
}

#[test]
fn fewer_resets_than_the_overlap_do_no_harm_and_queues_are_rebuilt() {
    for seed in 0..240 {
        let mut spec = random_spec(&SIGMA, group(4, 3, 4), seed);
        let mut rng = Rng::new(seed);
        let (when, who) = (rng.below(60), NodeId(rng.below(4) as u32));
        spec.faults = Faults::none().with(at(when), Fault::Reset(who));
        let outcome = simulate(&SIGMA, &spec);
        assert_eq!(holds(&outcome, LIVE), Ok(()), "seed {seed}");
        assert_eq!(outcome.stats.entered, 12, "seed {seed}");
    }
}

#[test]
fn a_lease_outlives_crashed_clients_and_fences_them_off() {
    for seed in 0..240 {
        let n = 3 + (seed % 4) as u32;
        let mut spec = random_spec(&SIGMA, group(n, n / 2 + 1, 5).with("lease", 40), seed);
        spec.workload.hold = Spread::between(T, T * 60);
        let mut rng = Rng::new(seed);
        for client in 0..3 {
            let when = at(rng.below(200));
            let crash = Fault::Crash(NodeId(n + client));
            spec.faults = std::mem::take(&mut spec.faults).with(when, crash);
        }
        let outcome = simulate(&SIGMA, &spec);
        assert_eq!(holds(&outcome, LIVE), Ok(()), "seed {seed}");
    }
}

#[test]
fn holders_that_crash_one_after_the_other_never_pass_on_a_token_twice() {
    for seed in 0..240 {
        let n = 3 + (seed % 6) as u32;
        let mut spec = random_spec(&SIGMA, group(n, n / 2 + 1, 6).with("lease", 30), seed);
        spec.workload.hold = Spread::exactly(T * 30);
        // The node that is inside at that time; the others go on.
        for (client, after) in [(0, 40), (1, 90), (2, 140), (3, 200), (4, 260)] {
            let when = at(after + seed % 17);
            let crash = Fault::Crash(NodeId(n + client));
            spec.faults = std::mem::take(&mut spec.faults).with(when, crash);
        }
        let outcome = simulate(&SIGMA, &spec);
        assert_eq!(holds(&outcome, LIVE), Ok(()), "seed {seed}");
    }
}

/// p5 dies as the owner of replicas 0 and 1, p4 as that of 0 and 2. The next entrant, p3, hears of
/// its majority from 1 and 2 first, and neither of them has seen both die.
#[test]
fn a_replica_that_drops_an_owner_tells_the_others_of_its_token() {
    let mut setup = group(3, 2, 3).with("lease", 20);
    setup.delay = T * 2;
    let mut spec = plan(&SIGMA, setup, [ask(5, 0, 90), ask(4, 0, 90), ask(3, 39, 5)]);
    spec.delays = Delay::Constant(T).into();
    let link = |from, to, quarters, since| {
        let (from, to, delay) = (NodeId(from), NodeId(to), T * quarters / 4);
        SlowLink { from, to, delay, since: at(since), until: at(since + 39) }
    };
    spec.delays.links =
        vec![link(5, 0, 2, 0), link(5, 1, 2, 0), link(3, 0, 7, 39), link(0, 3, 7, 79)];
    spec.faults =
        Faults::none().with(at(5), Fault::Crash(NodeId(5))).with(at(45), Fault::Crash(NodeId(4)));
    let outcome = simulate(&SIGMA, &spec);
    assert_eq!(order(&outcome), [5, 4, 3]);
    assert_eq!(holds(&outcome, LIVE), Ok(()));
    let tokens: Vec<_> = costs(&outcome).entered().map(|entry| entry.token).collect();
    assert_eq!(tokens, [Some(2), Some(1), Some(3)], "in the order of asking: p4, p5, p3");
}

#[test]
fn a_holder_that_crashes_blocks_everybody_if_there_is_no_lease() {
    let run = |lease: u32| {
        let setup = group(3, 2, 3).with("lease", lease);
        let mut spec = burst(&SIGMA, setup, 3..6, 50);
        spec.faults = Faults::none().with(at(10), Fault::Crash(NodeId(3)));
        spec.until = at(5_000);
        simulate(&SIGMA, &spec)
    };
    let outcome = run(0);
    assert_eq!(outcome.stats.entered, 1);
    assert!(verdict(Property::NoDeadlock, &outcome, 1).is_violated());
    let outcome = run(400);
    assert_eq!(order(&outcome), [3, 4, 5]);
    assert_eq!(holds(&outcome, LIVE), Ok(()));
}

#[test]
fn a_holder_that_pauses_beyond_its_lease_is_not_alone_but_fenced_off() {
    let setup = group(3, 2, 2).with("lease", 40);
    let mut spec = plan(&SIGMA, setup, [ask(3, 0, 20), ask(4, 5, 100)]);
    spec.faults = Faults::none()
        .with(at(10), Fault::Pause(NodeId(3)))
        .with(at(100), Fault::Resume(NodeId(3)));
    assert_eq!(spec.beyond(&SIGMA.info).len(), 1);
    let outcome = simulate(&SIGMA, &spec);
    assert!(verdict(Property::Exclusion, &outcome, 1).is_violated());
    assert_eq!(holds(&outcome, &[Property::FenceOrder]), Ok(()));
}

#[test]
fn a_long_stay_is_renewed_and_not_dropped() {
    let setup = group(3, 2, 2).with("lease", 40);
    let outcome = simulate(&SIGMA, &plan(&SIGMA, setup, [ask(3, 0, 500), ask(4, 5, 5)]));
    assert_eq!(order(&outcome), [3, 4]);
    assert_eq!(holds(&outcome, LIVE), Ok(()));
}

#[test]
fn the_crash_of_somebody_idle_is_harmless_and_so_is_that_of_a_minority_of_replicas() {
    for seed in 0..200 {
        let mut spec = random_spec(&SIGMA, group(5, 3, 5), seed);
        if let Arrivals::Closed { clients, .. } = &mut spec.workload.arrivals {
            *clients = 5..9;
        }
        let when = at(seed % 40);
        let crashed = if seed % 2 == 0 { vec![9] } else { vec![seed as u32 % 5, 4] };
        for node in crashed {
            let crash = Fault::Crash(NodeId(node));
            spec.faults = std::mem::take(&mut spec.faults).with(when, crash);
        }
        let outcome = simulate(&SIGMA, &spec);
        assert_eq!(outcome.stats.entered, 12, "seed {seed}");
        assert_eq!(holds(&outcome, LIVE), Ok(()), "seed {seed}");
    }
}

#[test]
fn lost_messages_are_retried() {
    for label in ["Req", "Resp", "Yield", "Rel"] {
        let mut spec = three_way_split();
        let lose = Fault::Lose { label: label.to_owned() };
        spec.faults = Faults::none().with(at(0), lose);
        let outcome = simulate(&SIGMA, &spec);
        assert_eq!((outcome.stats.entered, outcome.stats.lost), (3, 1), "{label}");
        assert_eq!(holds(&outcome, SAFE), Ok(()), "{label}");
    }
    for seed in 0..200 {
        let mut spec = random_spec(&SIGMA, group(4, 3, 4), seed);
        spec.faults.loss = 20_000;
        spec.until = at(20_000);
        let outcome = simulate(&SIGMA, &spec);
        assert_eq!(holds(&outcome, SAFE), Ok(()), "seed {seed}");
        assert_eq!(outcome.stats.entered, 12, "seed {seed}");
    }
}

#[test]
fn without_fifo_a_release_overtakes_its_request_whose_ghost_then_owns_a_replica() {
    let run = |channels, lease: u32| {
        let setup = group(3, 3, 2).with("lease", lease);
        let mut spec = plan(&SIGMA, setup, [ask(3, 0, 5), ask(4, 500, 5)]);
        spec.channels = channels;
        // The request is repeated, and the first copy comes long after the release.
        spec.delays.links.push(slow_at_first(3, 0, 300));
        spec.until = at(5_000);
        simulate(&SIGMA, &spec)
    };
    let outcome = run(Channels::Reliable, 0);
    assert_eq!(order(&outcome), [3]);
    assert!(verdict(Property::NoStarvation, &outcome, 1).is_violated());
    assert_eq!(order(&run(Channels::Reliable, 400)), [3, 4]);
    assert_eq!(order(&run(Channels::Fifo, 0)), [3, 4]);
}

#[test]
fn a_lease_or_a_section_that_is_too_short_is_refused() {
    let refusal = |name, value: u32| {
        let refused = (SIGMA.config)(&group(3, 2, 2).with(name, value)).expect_err("too short");
        refused.to_string()
    };
    assert!(refusal("lease", 7).contains("lease=7, but it has to be 8 or more, or 0"));
    assert!(refusal("section", 3).contains("section=3, but it has to be 4 or more"));
    for (name, value) in [("lease", 0), ("lease", 8), ("section", 4)] {
        assert!((SIGMA.config)(&group(3, 2, 2).with(name, value)).is_ok(), "{name}={value}");
    }
}

#[test]
fn more_than_n_minus_m_crashed_replicas_leave_no_majority() {
    let entered = |crashed: u32| {
        let mut spec = burst(&SIGMA, group(5, 3, 2), [5, 6], 5);
        for replica in (0..crashed).map(NodeId) {
            spec.faults = spec.faults.with(at(0), Fault::Crash(replica));
        }
        spec.until = at(5_000);
        simulate(&SIGMA, &spec).stats.entered
    };
    assert_eq!((entered(2), entered(3)), (2, 0));
}
