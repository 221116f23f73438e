//! Several coordinators, and clients that retry.

use super::*;

#[test]
fn an_idle_entry_costs_3m_or_3n_if_all_are_asked() {
    let entry = &replicated::PLAIN;
    for (n, m) in [(3, 2), (5, 3), (8, 6)] {
        for (mode, asked) in [("ask-m", m), ("ask-all", n)] {
            let setup = group(n, m, 2).with("mode", mode);
            let outcome = simulate(entry, &burst(entry, setup, [n], 5));
            let (costs, asked) = (costs(&outcome), u64::from(asked));
            let one = &costs.entries[0];
            assert_eq!((one.messages_entry, one.messages_exit), (2 * asked, asked));
            assert_eq!(costs.messages, 3 * asked);
            assert_eq!(costs.entry_hops(&outcome.trace, one), Some(2));
            assert_eq!(costs.turnaround().max, T * (2 + 5));
        }
    }
}

/// The messages of B, which asks a moment after A and always the same time later again.
fn messages_of_b(setup: Setup, a_holds: u64) -> (u64, u64) {
    let entry = &replicated::PLAIN;
    let (n, backoff) = (setup.option("coordinators", 0).unwrap(), "constant");
    let setup = setup.with("backoff", backoff).with("base", 10);
    let outcome = simulate(entry, &plan(entry, setup, [ask(n, 0, a_holds), ask(n + 1, 3, 1)]));
    let costs = costs(&outcome);
    let b = costs.entries.iter().find(|entry| entry.node == NodeId(n + 1)).unwrap();
    assert!(b.left.is_some());
    (b.messages_entry, b.messages_exit)
}

#[test]
fn k_attempts_with_g_grants_in_vain_cost_2mk_plus_m_plus_g() {
    // B asks the same two as A, both deny; it asks again when A has left.
    assert_eq!(messages_of_b(group(3, 2, 2).with("targets", "fixed"), 8), (8, 2));
    // B asks the second and the third; it gives the third's grant back.
    assert_eq!(messages_of_b(group(3, 2, 2).with("targets", "rotate"), 8), (9, 2));
    // Three attempts at three coordinators, of which two in vain.
    assert_eq!(messages_of_b(group(5, 3, 2).with("targets", "fixed"), 20), (18, 3));
}

/// A holds the first two of three; one of these resets; B asks the last two.
#[test]
fn one_reset_suffices_for_two_inside() {
    let entry = &replicated::PLAIN;
    let setup = group(3, 2, 2).with("targets", "rotate");
    let mut spec = plan(entry, setup.clone(), [ask(3, 0, 50), ask(4, 10, 5)]);
    assert_eq!(holds(&simulate(entry, &spec), LIVE), Ok(()));
    spec.faults = Faults::none().with(at(5), Fault::Reset(NodeId(1)));
    let outcome = simulate(entry, &spec);
    assert!(verdict(Property::Exclusion, &outcome, 1).is_violated());

    // A majority that overlaps in two is proof against one.
    let entry = &replicated::PLAIN;
    let mut spec = plan(entry, group(3, 3, 2), [ask(3, 0, 50), ask(4, 10, 5)]);
    spec.faults = Faults::none().with(at(5), Fault::Reset(NodeId(1)));
    assert_eq!(holds(&simulate(entry, &spec), LIVE), Ok(()));

    // So is a coordinator that writes down what it grants.
    let entry = &replicated::PERSISTENT;
    let mut spec = plan(entry, setup, [ask(3, 0, 50), ask(4, 10, 5)]);
    spec.faults =
        Faults::none().with(at(5), Fault::Crash(NodeId(1))).with(at(5), Fault::Recover(NodeId(1)));
    assert_eq!(spec.beyond(&entry.info), []);
    assert_eq!(holds(&simulate(entry, &spec), LIVE), Ok(()));
}

/// Two clients, each near two of the four coordinators.
fn split(backoff: &str, seed: u64) -> Outcome {
    let entry = &replicated::PLAIN;
    let setup = group(4, 3, 2).with("mode", "ask-all").with("backoff", backoff);
    let mut spec = burst(entry, setup, [4, 5], 5);
    let near = |a: usize, b: usize| {
        let pair = (a.min(b), a.max(b));
        [(0, 4), (1, 4), (2, 5), (3, 5)].contains(&pair)
    };
    let delay = |a, b| if near(a, b) { T } else { T * 2 };
    let rows = (0..6).map(|a| (0..6).map(|b| delay(a, b)).collect()).collect();
    spec.delays = Delay::Matrix(rows).into();
    spec.seed = seed;
    spec.until = at(10_000);
    simulate(entry, &spec)
}

#[test]
fn two_who_split_the_coordinators_meet_for_ever_if_the_backoff_is_constant() {
    let outcome = split("constant", 0);
    assert_eq!((outcome.stats.entered, outcome.trace.end), (0, End::TimeLimit));
    assert!(verdict(Property::NoDeadlock, &outcome, 1).is_violated());
    for seed in 0..200 {
        let outcome = split("random", seed);
        assert_eq!((outcome.stats.entered, outcome.trace.end), (2, End::Served), "seed {seed}");
    }
}

#[test]
fn in_practice_everybody_gets_in_and_sometimes_out_of_order() {
    let entry = &replicated::PLAIN;
    let mut overtaken = 0;
    for seed in 0..200 {
        let mode = if seed % 2 == 0 { "ask-m" } else { "ask-all" };
        let n = 3 + (seed % 3) as u32;
        let spec = random_spec(entry, group(n, n / 2 + 1, 4).with("mode", mode), seed);
        let outcome = simulate(entry, &spec);
        assert_eq!(outcome.stats.entered, 12, "seed {seed}");
        assert_eq!(holds(&outcome, SAFE), Ok(()), "seed {seed}");
        let order = verdict(Property::FcfsHappenedBefore, &outcome, 1);
        overtaken += u32::from(order.is_violated());
    }
    assert!(overtaken > 0, "later requests do enter first");
}

/// How many of so many runs have two inside, if each coordinator resets now and then.
fn double_entries(m: u32, runs: u64) -> u32 {
    let entry = &replicated::PLAIN;
    let violated = |seed: &u64| {
        let setup = group(8, m, 3).with("mode", "ask-all").with("base", 1);
        let mut spec = random_spec(entry, setup, *seed);
        spec.workload.hold = Spread::exactly(T * 20);
        spec.faults = resets(8, 60, 300, *seed);
        let outcome = simulate(entry, &spec);
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
fn fewer_resets_than_the_overlap_do_no_harm() {
    let entry = &replicated::PLAIN;
    for seed in 0..240 {
        // Majorities of three out of four overlap in two, so that one reset is one too few.
        let mut spec = random_spec(entry, group(4, 3, 3), seed);
        let mut rng = Rng::new(seed);
        let (when, who) = (rng.below(60), NodeId(rng.below(4) as u32));
        spec.faults = Faults::none().with(at(when), Fault::Reset(who));
        let outcome = simulate(entry, &spec);
        assert_eq!(holds(&outcome, SAFE), Ok(()), "seed {seed}");
        assert_eq!(outcome.stats.entered, 9, "seed {seed}");
    }
}

#[test]
fn with_stable_storage_any_node_may_crash_and_come_back() {
    let entry = &replicated::PERSISTENT;
    for seed in 0..240 {
        let n = 3 + (seed % 3) as u32;
        let mode = if seed % 2 == 0 { "ask-m" } else { "ask-all" };
        let mut spec = random_spec(entry, group(n, n / 2 + 1, 3).with("mode", mode), seed);
        let mut rng = Rng::new(seed);
        for _ in 0..8 {
            let (who, when) = (NodeId(rng.below(u64::from(n + 3)) as u32), rng.below(120));
            let back = at(when + rng.below(20));
            spec.faults = std::mem::take(&mut spec.faults)
                .with(at(when), Fault::Crash(who))
                .with(back, Fault::Recover(who));
        }
        assert_eq!(spec.beyond(&entry.info), []);
        let outcome = simulate(entry, &spec);
        assert_eq!(holds(&outcome, LIVE), Ok(()), "seed {seed}");
    }
}

#[test]
fn the_crash_of_somebody_idle_is_harmless_and_so_is_that_of_one_coordinator() {
    let entry = &replicated::PLAIN;
    for seed in 0..200 {
        let mut spec = random_spec(entry, group(5, 3, 4), seed);
        if let Arrivals::Closed { clients, .. } = &mut spec.workload.arrivals {
            *clients = 5..8;
        }
        let who = if seed % 2 == 0 { 8 } else { seed as u32 / 2 % 5 };
        spec.faults = Faults::none().with(at(seed % 40), Fault::Crash(NodeId(who)));
        let outcome = simulate(entry, &spec);
        assert_eq!(outcome.stats.entered, 9, "seed {seed}");
        assert_eq!(holds(&outcome, SAFE), Ok(()), "seed {seed}");
    }
}

#[test]
fn a_holder_that_crashes_blocks_its_granters_unless_there_is_a_lease() {
    let entry = &replicated::PLAIN;
    let run = |lease: u32| {
        let setup = group(3, 2, 2).with("targets", "fixed").with("lease", lease);
        let mut spec = plan(entry, setup, [ask(3, 0, 50), ask(4, 10, 5)]);
        spec.faults = Faults::none().with(at(5), Fault::Crash(NodeId(3)));
        simulate(entry, &spec)
    };
    let outcome = run(0);
    assert_eq!(outcome.stats.entered, 1);
    assert!(verdict(Property::NoDeadlock, &outcome, 1).is_violated());
    let outcome = run(100);
    assert_eq!(order(&outcome), [3, 4]);
    assert_eq!(holds(&outcome, SAFE), Ok(()));
}

#[test]
fn leases_keep_crashed_clients_and_long_stays_from_blocking_others() {
    let entry = &replicated::PLAIN;
    for seed in 0..240 {
        let setup = group(3 + (seed % 3) as u32, 3, 4).with("lease", 30);
        let n = setup.option("coordinators", 0).unwrap();
        let mut spec = random_spec(entry, setup, seed);
        spec.workload.hold = Spread::between(T, T * 40);
        let crash = Fault::Crash(NodeId(n + (seed % 2) as u32));
        spec.faults = Faults::none().with(at(seed % 100), crash);
        let outcome = simulate(entry, &spec);
        assert_eq!(holds(&outcome, LIVE), Ok(()), "seed {seed}");
    }
}

#[test]
fn lost_messages_are_retried() {
    let entry = &replicated::PLAIN;
    for label in ["Req", "Grant", "Deny", "Rel"] {
        let setup = group(3, 2, 2).with("targets", "fixed").with("lease", 200);
        let mut spec = plan(entry, setup, [ask(3, 0, 8), ask(4, 3, 8)]);
        let lose = Fault::Lose { label: label.to_owned() };
        spec.faults = Faults::none().with(at(0), lose);
        let outcome = simulate(entry, &spec);
        assert_eq!((outcome.stats.entered, outcome.stats.lost), (2, 1), "{label}");
        assert_eq!(holds(&outcome, SAFE), Ok(()), "{label}");
    }
}
