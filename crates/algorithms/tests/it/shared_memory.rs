//! Algorithms of shared memory, and the bakery by messages: what they cost, whom they starve, and
//! what stops them.

use crate::support::{
    T, asking, at, burst, complete, costs, lose, order, random_spec, simulate, verdict,
};
use conclave_algorithms::mutex::{self, bakery, bakery_message_passing, dijkstra_1965};
use conclave_protocol::{Algorithm, Entry, NodeId, Observation, Property, Setup, Topology};
use conclave_sim::{Costs, Delay, End, Event, Fault, Faults, Outcome, RunSpec, SlowLink, Tracing};

/// So many processes, and the memory.
fn with_memory(processes: u32) -> Setup {
    Setup::new(Topology::complete(processes + 1))
}

fn slow(spec: &mut RunSpec, from: u32, to: u32, since: u64, until: u64, delay: u64) {
    spec.delays.links.push(SlowLink {
        from: NodeId(from),
        to: NodeId(to),
        delay: T * delay as u32,
        since: at(since),
        until: at(until),
    });
}

fn counted(costs: &Costs, label: &str) -> u64 {
    costs.by_label.get(label).copied().unwrap_or(0)
}

/// Runs with delays that differ a lot.
fn wild(entry: &dyn Algorithm, setup: Setup, seed: u64) -> RunSpec {
    let mut spec = random_spec(entry, setup, seed);
    spec.delays = Delay::Uniform(T / 100, T * 8).into();
    spec.until = at(100_000);
    spec
}

fn overtakings<P: mutex::Algorithm>(entry: &Entry<P>) -> usize {
    let overtakes = |&seed: &u64| {
        let outcome = simulate(entry, &wild(entry, complete(3 + seed as u32 % 4), seed));
        verdict(Property::FcfsHappenedBefore, &outcome, 1).is_violated()
    };
    (0..200).filter(overtakes).count()
}

#[test]
fn a_memory_alone_is_no_system() {
    let unfit = (dijkstra_1965::PLAIN.config)(&complete(1)).unwrap_err();
    assert!(unfit.to_string().contains("two nodes"));
    assert!((bakery::PLAIN.config)(&complete(1)).is_err());
    let unfit = (bakery::PLAIN.config)(&complete(3).with("registers", "weak")).unwrap_err();
    assert!(unfit.to_string().contains("atomic or safe"));
    let unfit = (bakery_message_passing::PLAIN.config)(&complete(3).with("poll", 0)).unwrap_err();
    assert!(unfit.to_string().contains("poll=0"));
}

#[test]
fn dijkstra_makes_n_plus_2_accesses_to_enter_on_its_turn_and_2_to_leave() {
    for processes in 1..=8 {
        let entry = &dijkstra_1965::PLAIN;
        let cost = |node| {
            let outcome = simulate(entry, &burst(entry, with_memory(processes), [node], 1));
            let costs = costs(&outcome);
            // Each access is two messages.
            (costs.entries[0].messages_entry / 2, costs.entries[0].messages_exit / 2)
        };
        // The fencing token takes two more.
        let on_its_turn = u64::from(1 + 1 + 1 + (processes - 1)) + 2;
        assert_eq!(cost(0), (on_its_turn, 2));
        // Not its turn: stage2 := false, read want[turn], turn := i, read turn.
        if processes > 1 {
            assert_eq!(cost(1), (on_its_turn + 4, 2));
        }
    }
}

#[test]
fn dijkstra_excludes_and_goes_on_however_the_accesses_fall() {
    let entry = &dijkstra_1965::PLAIN;
    for seed in 0..400 {
        let processes = 2 + seed as u32 % 4;
        let outcome = simulate(entry, &wild(entry, with_memory(processes), seed));
        assert_eq!(outcome.stats.entered, u64::from(3 * processes), "seed {seed}");
        for &property in entry.info.holds {
            let verdict = verdict(property, &outcome, 1);
            assert!(verdict.held(), "{property} seed {seed}: {verdict:?}");
        }
    }
}

#[test]
fn dijkstra_starves_one_who_looks_at_the_wrong_moments() {
    for rounds in [100, 1_000] {
        let entry = &dijkstra_1965::PLAIN;
        let mut plan = vec![(1, 0, 1)];
        plan.extend(std::iter::repeat_n((0, 0, 20), rounds));
        let mut spec = asking(entry, with_memory(2), &plan);
        // p0 takes 12 to enter, stays for 20 and takes 4 to leave, when it has asked again. p1 looks
        // at the turn, steps back and looks whether p0 wants in: 36 as well, and it always does.
        let row = |delay: u32| vec![T, T, T * delay];
        spec.delays.model = Delay::Matrix(vec![row(1), row(6), vec![T, T * 6, T]]);
        let outcome = simulate(entry, &spec);
        let mut expected = vec![0; rounds];
        expected.push(1);
        assert_eq!(order(&outcome), expected, "p1 gets in when p0 asks no more");
        assert!(verdict(Property::NoDeadlock, &outcome, 1).held());
        // While p0 goes on asking, p1 starves.
        spec.until = at(30 * rounds as u64);
        let outcome = simulate(entry, &spec);
        assert!(verdict(Property::NoStarvation, &outcome, 1).is_violated());
    }
}

#[test]
fn requests_overtake_those_they_have_heard_of() {
    assert!(overtakings(&dijkstra_1965::PLAIN) > 0);
    assert!(overtakings(&bakery::PLAIN) > 0);
    assert!(overtakings(&bakery_message_passing::PLAIN) > 0);
    assert!(overtakings(&bakery_message_passing::COOPERATIVE) > 0);
}

#[test]
fn the_bakery_reads_3n_and_writes_4_registers() {
    for processes in 1..=8 {
        let n = u64::from(processes);
        for registers in ["atomic", "safe"] {
            let entry = &bakery::PLAIN;
            let setup = with_memory(processes).with("registers", registers);
            let outcome = simulate(entry, &burst(entry, setup, [processes - 1], 1));
            let costs = costs(&outcome);
            // One read and one write are for the fencing token.
            assert_eq!(counted(&costs, "Read"), n + 2 * n + 1);
            let (write, per_write) =
                if registers == "atomic" { ("Write", 2) } else { ("Begin", 4) };
            assert_eq!(counted(&costs, write), 4 + 1);
            assert_eq!(costs.entries[0].messages_entry, 2 * (3 * n + 1) + per_write * 4);
            assert_eq!(costs.entries[0].messages_exit, per_write);
        }
    }
}

/// The messages of a full trace that were sent, in order: place in the trace, sender, text.
fn sends(outcome: &Outcome) -> impl Iterator<Item = (usize, u32, &str)> {
    outcome.trace.records.iter().enumerate().filter_map(|(i, record)| match record.event() {
        Event::Send { serial, .. } => {
            Some((i, record.node.0, &*outcome.trace.messages[serial as usize]))
        }
        _ => None,
    })
}

#[test]
fn of_two_with_the_same_number_the_lower_id_goes_first_and_a_latecomer_last() {
    let entry = &bakery::PLAIN;
    let setup = with_memory(3).with("registers", "atomic");
    let mut spec = asking(entry, setup, &[(0, 0, 1), (1, 0, 1), (2, 9, 1)]);
    spec.tracing = Tracing::Full;
    let outcome = simulate(entry, &spec);
    let taken: Vec<&str> = sends(&outcome)
        .map(|(_, _, text)| text)
        .filter(|text| text.contains("Write") && text.contains("Number"))
        .filter(|text| !text.contains("\"value\":0"))
        .collect();
    let expected = [(0, 1), (1, 1), (2, 2)].map(|(node, number)| {
        format!("{{\"Write\":{{\"register\":{{\"Number\":{node}}},\"value\":{number}}}}}")
    });
    assert_eq!(taken, expected);
    assert_eq!(order(&outcome), [0, 1, 2]);
}

#[test]
fn the_bakery_serves_whoever_had_its_number_before_another_began_to_choose() {
    let entry = &bakery::PLAIN;
    for seed in 0..200 {
        let processes = 2 + seed as u32 % 4;
        let mut spec = wild(entry, with_memory(processes), seed);
        spec.tracing = Tracing::Full;
        let outcome = simulate(entry, &spec);
        // For each request: when its doorway began, when it ended, when it entered.
        let mut requests: Vec<[usize; 3]> = Vec::new();
        let mut latest = vec![None; processes as usize];
        let mut sends = sends(&outcome).peekable();
        for (i, record) in outcome.trace.records.iter().enumerate() {
            if let Some((_, node, text)) = sends.next_if(|(sent, ..)| *sent == i) {
                let begins =
                    format!("{{\"Begin\":{{\"register\":{{\"Choosing\":{node}}},\"value\":1");
                if text.starts_with(&begins) {
                    latest[node as usize] = Some(requests.len());
                    requests.push([i, usize::MAX, usize::MAX]);
                } else if text == "{\"Read\":{\"Choosing\":0}}" {
                    let request = latest[node as usize].expect("the doorway comes first");
                    requests[request][1] = requests[request][1].min(i);
                }
            }
            if let Event::Notice(Observation::Entered { .. }) = record.event() {
                let request = latest[record.node.index()].expect("the doorway comes first");
                requests[request][2] = i;
            }
        }
        assert_eq!(requests.len(), 3 * processes as usize);
        for [_, ended, entered] in &requests {
            for [began, _, later] in &requests {
                assert!(began < ended || entered < later, "seed {seed}");
            }
        }
    }
}

#[test]
fn the_bakery_keeps_its_promises_with_registers_of_either_kind() {
    for registers in ["atomic", "safe"] {
        for seed in 0..200 {
            let entry = &bakery::PLAIN;
            let setup = with_memory(2 + seed as u32 % 4).with("registers", registers);
            let outcome = simulate(entry, &wild(entry, setup, seed));
            for &property in entry.info.holds {
                let verdict = verdict(property, &outcome, 1);
                assert!(verdict.held(), "{property} {registers} seed {seed}: {verdict:?}");
            }
        }
    }
}

#[test]
fn without_choosing_two_with_the_same_number_are_inside_together() {
    fn run(entry: &Entry<bakery::Bakery>) -> Outcome {
        let setup = with_memory(2).with("registers", "atomic");
        let mut spec = asking(entry, setup, &[(0, 0, 100), (1, 0, 100)]);
        // Both have found no number; p0 is slow to write its own.
        slow(&mut spec, 0, 2, 4, 5, 30);
        simulate(entry, &spec)
    }
    let outcome = run(&bakery::NO_CHOOSING);
    assert_eq!(order(&outcome), [1, 0]);
    assert!(verdict(Property::Exclusion, &outcome, 1).is_violated());
    let outcome = run(&bakery::PLAIN);
    assert!(verdict(Property::Exclusion, &outcome, 1).held());
    assert_eq!(order(&outcome).len(), 2);
}

#[test]
fn a_crash_of_the_memory_or_of_one_with_a_number_stops_the_bakery() {
    let entry = &bakery::PLAIN;
    let run = |crashed| {
        let plan = [(0, 0, 500), (1, 100, 1), (2, 110, 1)];
        let mut spec = asking(entry, with_memory(3), &plan);
        spec.faults = Faults::none().with(at(200), Fault::Crash(NodeId(crashed)));
        spec.until = at(5_000);
        simulate(entry, &spec)
    };
    for crashed in [0, 3] {
        let outcome = run(crashed);
        assert_eq!(order(&outcome), [0]);
        assert!(verdict(Property::NoStarvation, &outcome, 1).is_violated());
    }
}

#[test]
fn the_bakery_by_messages_costs_6_n_minus_1_messages_and_6_hops() {
    for entry in [&bakery_message_passing::PLAIN, &bakery_message_passing::COOPERATIVE] {
        for n in 2..=9 {
            let outcome = simulate(entry, &burst(entry, complete(n), [n - 1], 1));
            let costs = costs(&outcome);
            let lone = &costs.entries[0];
            assert_eq!(costs.messages, u64::from(6 * (n - 1)));
            assert_eq!((lone.messages_entry, lone.messages_exit), (costs.messages, 0));
            assert_eq!(costs.entry_hops(&outcome.trace, lone), Some(6));
        }
    }
}

#[test]
fn every_further_poll_costs_two_messages_and_cooperation_needs_none() {
    for seed in 0..200 {
        let n = 2 + seed as u32 % 8;
        let polls = |entry: &Entry<_>| {
            let outcome = simulate(entry, &random_spec(entry, complete(n), seed));
            let is_poll =
                |record: &&conclave_sim::Record| matches!(record.event(), Event::Timer { .. });
            let polls = outcome.trace.records.iter().filter(is_poll).count() as u64;
            let entries = outcome.stats.entered;
            assert_eq!(entries, u64::from(3 * n));
            let idle = u64::from(6 * (n - 1)) * entries;
            assert_eq!(costs(&outcome).messages, idle + 2 * polls, "seed {seed}");
            polls
        };
        polls(&bakery_message_passing::PLAIN);
        assert_eq!(polls(&bakery_message_passing::COOPERATIVE), 0);
    }
}

#[test]
fn longer_pauses_mean_fewer_polls() {
    let entry = &bakery_message_passing::PLAIN;
    let messages = |poll: u32| {
        let outcome = simulate(entry, &burst(entry, complete(5).with("poll", poll), 0..5, 20));
        assert_eq!(order(&outcome), [0, 1, 2, 3, 4], "all take 1, and ids decide");
        costs(&outcome).messages
    };
    assert!(messages(1) > messages(5) && messages(5) > messages(25));
}

#[test]
fn a_crashed_owner_or_a_lost_answer_blocks_the_bakery_by_messages() {
    for entry in [&bakery_message_passing::PLAIN, &bakery_message_passing::COOPERATIVE] {
        let stuck = |action| {
            let mut spec = asking(entry, complete(3), &[(0, 5, 1), (1, 5, 1)]);
            spec.faults = Faults::none().with(at(1), action);
            let outcome = simulate(entry, &spec);
            assert_eq!(order(&outcome), [0; 0]);
            assert!(verdict(Property::NoStarvation, &outcome, 1).is_violated());
            outcome.trace.end
        };
        assert_eq!(stuck(Fault::Crash(NodeId(2))), End::Quiet);
        // p0 waits for the answer, and p1 for p0, asking it again and again.
        stuck(lose("Value"));
    }
}

#[test]
fn in_the_bakery_by_messages_a_lower_id_overtakes_one_whose_number_is_held_up() {
    for entry in [&bakery_message_passing::PLAIN, &bakery_message_passing::COOPERATIVE] {
        let mut spec = asking(entry, complete(3), &[(1, 0, 1), (0, 2, 1)]);
        slow(&mut spec, 2, 1, 0, 10, 20);
        let outcome = simulate(entry, &spec);
        assert_eq!(order(&outcome), [0, 1]);
        assert!(verdict(Property::FcfsHappenedBefore, &outcome, 1).is_violated());
    }
}
