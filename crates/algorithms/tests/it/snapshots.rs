//! Snapshots of applications that go on: consistent whatever is inside, and without them noticing.

use std::collections::BTreeMap;

use conclave_algorithms::catalogue;
use conclave_algorithms::snapshot::chandy_lamport::{self, ChandyLamport, Config};
use conclave_algorithms::snapshot::{lai_yang, mattern, mattern_vector};
use conclave_lab::diagram::{Options, draw};
use conclave_protocol::{Algorithm, Channels, Host, Hosted, NodeId, Property, Setup, Topology};
use conclave_sim::{
    Ask, Costs, Event, Fault, JudgeLimits, Outcome, RunSpec, TraceFile, Tracing, Verdict, Workload,
    World, judge, replay,
};

use crate::any::{Any, Snapper, Values};
use crate::support::{T, at, random_spec, simulate, topology};

const SNAPSHOT: [Property; 5] =
    [Property::Cut, Property::Channels, Property::Sum, Property::Done, Property::Conserved];

/// What is wrapped around so many nodes of an algorithm, and whether it needs messages in order.
#[derive(Clone, Copy)]
struct Around {
    host: fn(Values, u32) -> Box<dyn Host>,
    ordered: bool,
}

const CHANDY_LAMPORT: Around = Around {
    host: |it, n| Box::new(Hosted::<ChandyLamport<Any>, Snapper>::new(Config::new(it, None), n)),
    ordered: true,
};
const UNORDERED: [Around; 3] = [
    Around {
        host: |it, n| {
            let config = lai_yang::Config::new(it, None);
            Box::new(Hosted::<lai_yang::LaiYang<Any>, Snapper>::new(config, n))
        },
        ordered: false,
    },
    Around {
        host: |it, n| {
            let config = mattern::Config::new(it, None);
            Box::new(Hosted::<mattern::Mattern<Any>, Snapper>::new(config, n))
        },
        ordered: false,
    },
    Around {
        host: |it, n| {
            let config = mattern_vector::Config::new(it, None);
            Box::new(Hosted::<mattern_vector::MatternVector<Any>, Snapper>::new(config, n))
        },
        ordered: false,
    },
];

/// Takes snapshots of an algorithm of the catalogue: each is consistent, and the algorithm keeps
/// what it promises. Returns in how many runs a snapshot was taken.
fn wrapped(entry: &dyn Algorithm, around: Around) -> u32 {
    let (info, mut taken) = (entry.info(), 0);
    for seed in 0..6 {
        let n = 3 + (seed % 3) as u32;
        let setup = Setup::new(topology(entry, n, seed));
        let Ok(values) = Values::of(entry, &setup) else { continue };
        let mut spec = random_spec(entry, setup, seed);
        let least = if around.ordered { Channels::Fifo } else { Channels::Reliable };
        (spec.channels, spec.tracing) = (info.model.channels.max(least), Tracing::Events);
        let n = spec.setup.n();
        let outcome = World::new((around.host)(values, n), &spec).finish();
        let limits = JudgeLimits::of(info, &spec, &outcome.trace);
        let verdict = |property| judge(property, &outcome.trace, limits);
        if let Verdict::Vacuous { .. } = verdict(Property::Cut) {
            continue;
        }
        taken += 1;
        assert_eq!(verdict(Property::Cut), Verdict::Held, "{} seed={seed}", info.id);
        assert_eq!(verdict(Property::Channels), Verdict::Held, "{} seed={seed}", info.id);
        let inner = info.holds.iter().copied();
        for property in inner.chain([Property::Done]) {
            let verdict = verdict(property);
            assert!(!verdict.is_violated(), "{} seed={seed} {property}: {verdict:?}", info.id);
        }
    }
    taken
}

/// Every algorithm of a family that its application asks for something, the mutants aside.
fn wrap_all(family: &str, around: Around) {
    let all = catalogue::ALL.iter().copied();
    let those = all.filter(|it| it.info().family() == family && it.info().mutant.is_none());
    let mut never = Vec::new();
    for entry in those {
        if wrapped(entry, around) == 0 {
            never.push(entry.info().id);
        }
    }
    assert!(never.is_empty(), "no snapshot was taken of {never:?}");
}

#[test]
fn locks_can_be_looked_at_in_a_snapshot_and_notice_nothing() {
    wrap_all("mutex", CHANDY_LAMPORT);
}

#[test]
fn elections_can_be_looked_at_in_a_snapshot_and_notice_nothing() {
    wrap_all("election", CHANDY_LAMPORT);
}

#[test]
fn snapshots_without_order_are_taken_of_locks_and_elections() {
    for around in UNORDERED {
        wrap_all("mutex", around);
        wrap_all("election", around);
    }
}

/// The sum of the coins in a snapshot, where messages overtake each other.
#[test]
fn where_messages_overtake_each_other_only_some_snapshots_have_every_coin_once() {
    let wrong = |entry: &dyn Algorithm| {
        let mut wrong = 0;
        for seed in 0..60 {
            let n = 3 + (seed % 4) as u32;
            let mut spec = random_spec(entry, Setup::new(Topology::complete(n)), seed);
            spec.channels = Channels::Reliable;
            let outcome = simulate(entry, &spec);
            let limits = JudgeLimits::of(entry.info(), &spec, &outcome.trace);
            let verdict = judge(Property::Sum, &outcome.trace, limits);
            assert!(verdict.held() || verdict.is_violated(), "{verdict:?}");
            wrong += u32::from(verdict.is_violated());
        }
        wrong
    };
    let sound: [&dyn Algorithm; 3] = [&lai_yang::PLAIN, &mattern::PLAIN, &mattern_vector::PLAIN];
    assert_eq!(sound.map(wrong), [0; 3]);
    let unordered = wrong(&chandy_lamport::UNORDERED);
    assert!(unordered > 15, "{unordered} of 60 snapshots by markers are wrong");
}

fn entry() -> &'static dyn Algorithm {
    &chandy_lamport::PLAIN
}

/// A run of the bank in which these nodes start a snapshot after a while.
fn bank(topology: Topology, initiators: &[u32]) -> RunSpec {
    let mut spec = RunSpec::new(entry().info(), Setup::new(topology));
    spec.tracing = Tracing::Full;
    let asks = initiators.iter().map(|&node| Ask { node: NodeId(node), at: at(2), hold: None });
    spec.workload = Workload::idle();
    spec.workload.arrivals = conclave_sim::Arrivals::Plan(asks.collect());
    spec
}

fn verdicts(spec: &RunSpec, outcome: &Outcome) -> BTreeMap<Property, Verdict> {
    let limits = JudgeLimits::of(entry().info(), spec, &outcome.trace);
    SNAPSHOT.iter().map(|it| (*it, judge(*it, &outcome.trace, limits))).collect()
}

fn digraph(n: u32, links: &[(u32, u32)]) -> Topology {
    let links: Vec<_> = links.iter().map(|&(a, b)| (NodeId(a), NodeId(b))).collect();
    Topology::digraph(n, &links).expect("there is such a graph")
}

#[test]
fn a_snapshot_takes_one_marker_on_each_channel() {
    let round = digraph(4, &[(0, 1), (1, 2), (2, 3), (3, 0), (1, 0), (3, 1)]);
    for topology in [Topology::complete(4), Topology::ring(5), Topology::line(4), round] {
        let channels = topology.channels();
        for initiators in [&[0][..], &[1, 3]] {
            let spec = bank(topology.clone(), initiators);
            assert_eq!(spec.beyond(entry().info()), []);
            let outcome = simulate(entry(), &spec);
            for (property, verdict) in verdicts(&spec, &outcome) {
                assert_eq!(verdict, Verdict::Held, "{topology} {property}");
            }
            let markers = Costs::of(&outcome.trace).by_label["Marker"];
            assert_eq!(markers, channels * initiators.len() as u64, "{topology}");
        }
    }
}

/// A graph with links that lead one way, in which all reach all: a ring, and some links across.
fn one_way(n: u32, seed: u64) -> Topology {
    let across = (0..n).map(|a| (a, (a * 3 + seed as u32) % n)).filter(|(a, b)| a != b);
    let links: Vec<_> = (0..n).map(|a| (a, (a + 1) % n)).chain(across.step_by(2)).collect();
    digraph(n, &links)
}

#[test]
fn where_links_lead_one_way_all_parts_come_to_the_initiator_all_the_same() {
    let collect: &dyn Algorithm = &chandy_lamport::COLLECT;
    for seed in 0..40 {
        let n = 2 + (seed % 7) as u32;
        let setup = Setup::new(one_way(n, seed));
        let mut spec = random_spec(collect, setup, seed);
        spec.channels = Channels::Fifo;
        assert_eq!(spec.beyond(collect.info()), [], "all reach all");
        let outcome = simulate(collect, &spec);
        let limits = JudgeLimits::of(collect.info(), &spec, &outcome.trace);
        for property in [Property::Cut, Property::Sum, Property::Done, Property::Collected] {
            let verdict = judge(property, &outcome.trace, limits);
            assert_eq!(verdict, Verdict::Held, "seed={seed} {property}");
        }
        let costs = Costs::of(&outcome.trace);
        let snapshots = costs.by_label["Marker"] / spec.setup.topology.channels();
        let most = snapshots * u64::from(n - 1) * spec.setup.topology.channels();
        assert!(costs.by_label["Report"] <= most, "seed={seed}: one on each channel at most");
    }
}

#[test]
fn on_a_chain_parts_do_not_come_back() {
    let collect: &dyn Algorithm = &chandy_lamport::COLLECT;
    let mut spec = bank(Topology::chain(3), &[0]);
    spec.algorithm = collect.info().id.to_owned();
    let outcome = simulate(collect, &spec);
    let limits = JudgeLimits::of(collect.info(), &spec, &outcome.trace);
    assert_eq!(judge(Property::Done, &outcome.trace, limits), Verdict::Held);
    assert!(judge(Property::Collected, &outcome.trace, limits).is_violated());
}

#[test]
fn on_a_chain_a_snapshot_is_complete_only_if_it_starts_where_all_are_reached() {
    let chain = digraph(3, &[(0, 1), (1, 2)]);
    for (initiator, complete) in [(0, true), (1, false), (2, false)] {
        let spec = bank(chain.clone(), &[initiator]);
        assert!(spec.beyond(entry().info())[0].0.contains("cannot reach"));
        let outcome = simulate(entry(), &spec);
        let verdicts = verdicts(&spec, &outcome);
        assert_eq!(verdicts[&Property::Done].held(), complete, "p{initiator}: {verdicts:?}");
        assert_eq!(verdicts[&Property::Cut], Verdict::Held);
    }
}

#[test]
fn without_a_snapshot_nothing_is_said_of_snapshots() {
    let spec = bank(Topology::complete(3), &[]);
    let verdicts = verdicts(&spec, &simulate(entry(), &spec));
    let vacuous = |property| matches!(&verdicts[&property], Verdict::Vacuous { .. });
    let about_snapshots = [Property::Cut, Property::Channels, Property::Sum, Property::Done];
    assert!(about_snapshots.into_iter().all(vacuous), "{verdicts:?}");
    assert_eq!(verdicts[&Property::Conserved], Verdict::Held);
}

#[test]
fn a_lost_coin_is_seen_by_the_judge_and_by_no_node() {
    let mut spec = bank(Topology::complete(3), &[]);
    spec.faults = spec.faults.with(at(0), Fault::Lose { label: "Transfer".to_owned() });
    let outcome = simulate(entry(), &spec);
    assert!(verdicts(&spec, &outcome)[&Property::Conserved].is_violated());
}

#[test]
fn a_trace_file_alone_is_enough_to_judge_a_snapshot() {
    for algorithm in [entry(), &chandy_lamport::NAIVE] {
        let mut broken = 0;
        for seed in 0..12 {
            let mut spec = random_spec(algorithm, Setup::new(Topology::complete(4)), seed);
            spec.tracing = Tracing::Full;
            let outcome = simulate(algorithm, &spec);
            let text = TraceFile::new(&spec, &outcome).to_text();
            assert!(text.contains(r#""note":{"what":"records","number":0"#) || seed > 0);
            assert!(text.contains(r#""event":"facts""#) && text.contains(r#""control":true"#));
            let file = TraceFile::parse(&text).expect("it was just written");
            assert_eq!(
                replay(&file, &outcome),
                conclave_sim::Replay::Identical { events: outcome.trace.records.len() }
            );
            let read = file.trace().expect("it makes sense");
            for property in SNAPSHOT {
                let limits = JudgeLimits::of(algorithm.info(), &spec, &outcome.trace);
                let verdict = judge(property, &outcome.trace, limits);
                assert_eq!(judge(property, &read, limits), verdict);
                broken += u32::from(property == Property::Cut && verdict.is_violated());
            }
        }
        assert_eq!(broken > 0, algorithm.info().mutant.is_some());
    }
}

#[test]
fn a_diagram_says_in_words_what_nodes_record() {
    let spec = bank(Topology::complete(3), &[1]);
    let outcome = simulate(entry(), &spec);
    let options = Options { width: 120, ascii: true, unit: T, events: usize::MAX };
    let diagram = draw(&outcome.trace, &[], &options);
    let line = |pieces: &Vec<_>| pieces.iter().map(text).collect::<String>();
    let text: Vec<String> = diagram.lines.iter().map(line).collect();
    for words in ["starts a snapshot", "RECORDS #1", "channel from p1 done #1", "part done #1: "] {
        assert!(text.iter().any(|line| line.contains(words)), "{words}: {text:#?}");
    }
}

fn text(piece: &conclave_lab::diagram::Piece) -> &str {
    &piece.text
}

#[test]
fn users_of_a_critical_section_can_be_looked_at_while_they_use_it() {
    let setup = Setup::new(Topology::complete(3)).with("app", "section");
    let mut entered = 0;
    for seed in 0..24 {
        let spec = random_spec(entry(), setup.clone(), seed);
        let outcome = simulate(entry(), &spec);
        let limits = JudgeLimits::of(entry().info(), &spec, &outcome.trace);
        for property in [Property::Cut, Property::Done, Property::Exclusion] {
            let verdict = judge(property, &outcome.trace, limits);
            assert_eq!(verdict, Verdict::Held, "seed={seed} {property}");
        }
        let sum = judge(Property::Sum, &outcome.trace, limits);
        assert!(matches!(sum, Verdict::Vacuous { .. }), "{sum:?}");
        let enters =
            |event| matches!(event, Event::Notice(conclave_protocol::Observation::Entered { .. }));
        entered += outcome.trace.records.iter().filter(|record| enters(record.event())).count();
    }
    assert_eq!(entered, 24 * 3 * 2, "each of three nodes enters twice");
}
