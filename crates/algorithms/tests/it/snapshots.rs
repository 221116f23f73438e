//! Snapshots of applications that go on: consistent whatever is inside, and without them noticing.

use std::collections::BTreeMap;

use conclave_algorithms::snapshot::chandy_lamport::{self, ChandyLamport, Config};
use conclave_algorithms::snapshot::{Notice, Request};
use conclave_algorithms::{election, mutex};
use conclave_lab::diagram::{Options, draw};
use conclave_protocol::{
    Algorithm, Channels, Client, Entry, HeardBy, Hosted, NodeId, Property, Protocol, Setup,
    Topology,
};
use conclave_sim::{
    Ask, Costs, Event, Fault, JudgeLimits, Outcome, RunSpec, TraceFile, Tracing, Verdict, Workload,
    World, judge, replay,
};
use serde::{Deserialize, Serialize};

use crate::support::{T, at, random_spec, simulate, topology};

const SNAPSHOT: [Property; 4] = [Property::Cut, Property::Sum, Property::Done, Property::Conserved];

/// An application around another: after its first request it asks for a snapshot.
#[derive(Clone, Default, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Around<C> {
    inside: C,
    asked: bool,
    snapped: bool,
}

impl<P: Protocol, C: Client<P>> Client<ChandyLamport<P>> for Around<C> {
    fn requests(&self) -> impl IntoIterator<Item = Request<P::Request>> {
        let snapshot = (self.asked && !self.snapped).then_some(Request::Snapshot);
        snapshot.into_iter().chain(self.inside.requests().into_iter().map(Request::App))
    }

    fn on_request(&mut self, request: &Request<P::Request>) {
        match request {
            Request::Snapshot => self.snapped = true,
            Request::App(request) => {
                self.asked = true;
                self.inside.on_request(request);
            }
        }
    }

    fn on_notice(&mut self, notice: &Notice<P>) {
        if let Notice::App(notice) = notice {
            self.inside.on_notice(notice);
        }
    }
}

/// Takes snapshots of an algorithm of the catalogue: each is consistent, and the algorithm keeps
/// what it promises.
fn wrapped<P: Protocol>(entry: &Entry<P>)
where
    P::Notice: HeardBy<Client: Client<P>>,
{
    let info = &entry.info;
    for seed in 0..6 {
        let n = 3 + (seed % 3) as u32;
        let setup = Setup::new(topology(entry, n, seed));
        let Ok(config) = (entry.config)(&setup) else { continue };
        let mut spec = random_spec(entry, setup, seed);
        (spec.channels, spec.tracing) = (Channels::Fifo, Tracing::Events);
        type Inside<P> = <<P as Protocol>::Notice as HeardBy>::Client;
        let host = Hosted::<ChandyLamport<P>, Around<Inside<P>>>::new(Config::new(config, None), n);
        let outcome = World::new(Box::new(host), &spec).finish();
        let limits = JudgeLimits::of(info, &spec, &outcome.trace);
        let verdict = |property| judge(property, &outcome.trace, limits);
        assert_eq!(verdict(Property::Cut), Verdict::Held, "{} seed={seed}", info.id);
        let inner = info.holds.iter().copied();
        for property in inner.chain([Property::Done]) {
            let verdict = verdict(property);
            assert!(!verdict.is_violated(), "{} seed={seed} {property}: {verdict:?}", info.id);
        }
    }
}

macro_rules! wrap {
    ($family:ident: $($module:ident::$entry:ident),+ $(,)?) => {
        $(wrapped(&$family::$module::$entry);)+
    };
}

#[test]
fn locks_can_be_looked_at_in_a_snapshot_and_notice_nothing() {
    wrap!(mutex:
        bakery_message_passing::PLAIN,
        centralized::PLAIN,
        lamport::PLAIN,
        ricart_agrawala::PLAIN,
        ricart_agrawala_queued::PLAIN,
        ricart_agrawala_token::PLAIN,
        roucairol_carvalho::PLAIN,
        maekawa_sanders::PLAIN,
        raymond_k::PLAIN,
        suzuki_kasami::PLAIN,
        naimi_trehel::PLAIN,
        raymond_tree::PLAIN,
        tree_token_fair::PLAIN,
        token_ring_on_demand::PLAIN,
    );
}

#[test]
fn elections_can_be_looked_at_in_a_snapshot_and_notice_nothing() {
    wrap!(election:
        bully::PLAIN,
        wireless_tree::PLAIN,
        tree_mattern::PLAIN,
        le_lann::PLAIN,
        chang_roberts::PLAIN,
        ring_list::PLAIN,
    );
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
    assert!(vacuous(Property::Cut) && vacuous(Property::Sum) && vacuous(Property::Done));
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
