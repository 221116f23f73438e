//! All consistent cuts of a run, and what is asked about them.

use conclave_lab::flags::RunFlags;
use conclave_lab::lattice::{
    Computation, Known, LatticeData, MEMORY, Request, Scope, Stop, cut, dot, lattice, svg,
};
use conclave_lab::{find, simulate};
use conclave_protocol::{Observation, Setup, Topology};
use conclave_sim::{FileEvent, RunSpec, TraceFile, Tracing};

/// What happens in a run that is written down by hand.
#[derive(Clone, Copy)]
enum Happens {
    /// Something inside a node.
    Local(u32),
    /// The node sends a message of this number to another.
    Send(u32, u32, u32),
    /// The node receives a message of this number from another.
    Receive(u32, u32, u32),
    /// The network loses it.
    Lose(u32, u32, u32),
    /// The node enters, which is an event of its own.
    Enter(u32),
    /// The node leaves.
    Leave(u32),
}
use Happens::{Enter, Leave, Local, Lose, Receive, Send};

/// A trace file in which one thing happens after the other.
fn file(nodes: u32, happens: &[Happens]) -> TraceFile {
    let info = find("mutex/ricart-agrawala").expect("it is in the catalogue");
    let mut spec = RunSpec::new(info, Setup::new(Topology::complete(nodes)));
    spec.tracing = Tracing::Full;
    let outcome = simulate(&RunSpec { until: conclave_protocol::Time::ZERO, ..spec.clone() });
    let mut file = TraceFile::new(&spec, &outcome.expect("it can be run"));
    let named =
        |node, event: &str| FileEvent { node, event: event.to_owned(), ..FileEvent::default() };
    let timer = |node| FileEvent { label: Some("Step".to_owned()), ..named(node, "timer") };
    let message = |node, event, peer, number| FileEvent {
        peer: Some(peer),
        message: Some(number),
        label: Some("Word".to_owned()),
        owner: Some(conclave_sim::Owner::Nobody),
        ..named(node, event)
    };
    let entered = Observation::Entered { token: 1 };
    let mark = |node, event, mark| FileEvent { mark: Some(mark), ..named(node, event) };
    let events = happens.iter().flat_map(|it| match *it {
        Local(node) => vec![timer(node)],
        Send(node, to, number) => vec![timer(node), message(node, "send", to, number)],
        Receive(node, from, number) => vec![message(node, "deliver", from, number)],
        Lose(node, to, number) => vec![message(node, "lose", to, number)],
        Enter(node) => vec![timer(node), mark(node, "notice", entered)],
        Leave(node) => vec![mark(node, "request", Observation::Left)],
    });
    file.events = events.collect();
    // Each at a time of its own, what a step sends and tells at the same.
    let mut at = 0;
    for event in &mut file.events {
        at += u64::from(!["send", "notice"].contains(&event.event.as_str()));
        event.at = at;
    }
    file
}

fn request() -> Request {
    let (possibly, definitely) = (None, None);
    Request { scope: Scope::Application, possibly, definitely, memory: MEMORY, keep: 100 }
}

fn walked(file: &TraceFile, request: &Request) -> LatticeData {
    let trace = file.trace().expect("it is a trace");
    lattice(&trace, Some(file), request, |_, _, _| true).expect("it can be walked")
}

/// Cuts, consistent ones, linearizations.
fn figures(nodes: u32, happens: &[Happens]) -> (String, u64, String) {
    let data = walked(&file(nodes, happens), &request());
    assert_eq!(data.levels.iter().sum::<u64>(), data.consistent);
    assert_eq!(data.states.len() as u64, data.consistent);
    let happened = data.states.iter().filter(|cut| cut.run).count();
    assert_eq!(happened, data.levels.len(), "a run passes through one cut of each level");
    (data.cuts, data.consistent, data.linearizations.expect("it came to its end"))
}

fn are(cuts: &str, consistent: u64, linearizations: &str) -> (String, u64, String) {
    (cuts.to_owned(), consistent, linearizations.to_owned())
}

#[test]
fn the_figures_of_small_runs_are_those_of_the_theory() {
    let two_by_two = [Send(0, 1, 0), Local(1), Local(0), Receive(1, 0, 0)];
    assert_eq!(figures(2, &two_by_two), are("9", 8, "5"));
    let apart = [Local(0), Local(0), Local(1), Local(1), Local(2), Local(2)];
    assert_eq!(figures(3, &apart), are("27", 27, "90"));
    let chain = [
        Send(0, 1, 0),
        Receive(1, 0, 0),
        Local(0),
        Send(1, 2, 1),
        Receive(2, 1, 1),
        Send(2, 1, 2),
        Receive(1, 2, 2),
    ];
    assert_eq!(figures(3, &chain), are("36", 13, "6"));
    let uneven = [Local(0), Local(0), Local(0), Local(1), Local(1)];
    assert_eq!(figures(2, &uneven), are("12", 12, "10"));
    let round = [Send(0, 1, 0), Receive(1, 0, 0), Send(1, 0, 1), Receive(0, 1, 1)];
    assert_eq!(figures(2, &round), are("9", 5, "1"));
    assert_eq!(figures(2, &[]), are("1", 1, "1"));
}

#[test]
fn the_cut_that_breaks_a_message_is_the_one_that_is_missing() {
    let file = file(2, &[Send(0, 1, 0), Local(1), Local(0), Receive(1, 0, 0)]);
    let trace = file.trace().unwrap();
    let at = |text: &str| cut(&trace, Some(&file), Scope::Application, text);
    let torn = at("p0:0,p1:2").unwrap();
    assert!(!torn.consistent);
    let [message] = &torn.broken_by[..] else { panic!("{:?}", torn.broken_by) };
    assert_eq!((message.from.0, message.sent, message.to.0, message.received), (0, 1, 1, 2));
    assert_eq!((torn.within, torn.around), (vec![0, 1], vec![1, 2]));
    let sound = at("p1:1, p0:2").unwrap();
    assert!(sound.consistent && sound.broken_by.is_empty());
    let [channel] = &sound.state.channels[..] else { panic!("{:?}", sound.state.channels) };
    assert_eq!((channel.from.0, channel.to.0, channel.messages.len()), (0, 1, 1));
    let refused = |text: &str| at(text).unwrap_err().to_string();
    assert_eq!(refused("p0:0,p1:3"), "p1 has no event 3: it has 2, and p1:0 to p1:2 are possible");
    assert_eq!(refused("p0:0,p2:0"), "there is no p2: the nodes are p0 to p1");
    assert!(refused("p0:1").contains("p1:0 to p1:2 are possible"));
    assert!(refused("p0-1").contains("p0:2,p1:2 or less"));
    assert!(refused("p0:1,p1:1,p0:1").contains("twice"));
    assert!(refused("#3").contains("no snapshot #3"));
}

#[test]
fn a_lost_message_is_in_no_channel() {
    let file = file(2, &[Send(0, 1, 0), Send(0, 1, 1), Lose(0, 1, 0), Local(1)]);
    let data = walked(&file, &Request { possibly: Some("channel(p0,p1)=2".into()), ..request() });
    assert_eq!((data.messages, data.on_their_way), (2, 1));
    assert_eq!(data.possibly.unwrap().answer, Known::No);
    let last = data.states.last().unwrap();
    assert_eq!(last.state.channels[0].messages[0].sent, 2);
}

/// Whether a fact is possible, and whether it is sure.
fn asked(file: &TraceFile, fact: &str) -> (Known, Known) {
    let fact = Some(fact.to_owned());
    let data = walked(file, &Request { possibly: fact.clone(), definitely: fact, ..request() });
    (data.possibly.unwrap().answer, data.definitely.unwrap().answer)
}

#[test]
fn what_is_possible_need_not_be_sure() {
    use Known::{No, Yes};
    // Each is inside for a while, without a word between them.
    let apart = file(2, &[Enter(0), Leave(0), Enter(1), Leave(1)]);
    assert_eq!(asked(&apart, "inside(p0) and inside(p1)"), (Yes, No));
    assert_eq!(asked(&apart, "inside(p0)"), (Yes, Yes));
    assert_eq!(asked(&apart, "inside >= 3"), (No, No));
    assert_eq!(asked(&apart, "inside = 0 or not (inside < 2)"), (Yes, Yes));
    assert_eq!(asked(&apart, "events(p0)=1 and events(p1)=1"), (Yes, No));
    // The same with a word from the first to the second.
    let ordered = [Enter(0), Leave(0), Send(0, 1, 0), Receive(1, 0, 0), Enter(1), Leave(1)];
    let ordered = file(2, &ordered);
    assert_eq!(asked(&ordered, "inside=2"), (No, No));
    assert_eq!(asked(&ordered, "channel(p0,p1)=1"), (Yes, Yes));
    assert_eq!(asked(&ordered, "messages > 1"), (No, No));
}

#[test]
fn a_run_that_avoids_a_fact_is_shown_and_does_avoid_it() {
    let file = file(2, &[Enter(0), Enter(1), Leave(0), Leave(1)]);
    let fact = Some("inside=2".to_owned());
    let data = walked(&file, &Request { definitely: fact, ..request() });
    let definitely = data.definitely.unwrap();
    assert!(definitely.in_run);
    let avoiding = definitely.avoiding.expect("there is memory for it");
    let mut cut = vec![0; 2];
    for node in avoiding {
        cut[node.index()] += 1;
        let state = data.states.iter().find(|it| it.cut == cut).expect("it is consistent");
        assert_eq!(state.definitely, Some(false), "{cut:?}");
    }
    assert_eq!(cut, data.events);
}

#[test]
fn facts_that_make_no_sense_are_refused_with_those_there_are() {
    let file = file(2, &[Local(0)]);
    let trace = file.trace().unwrap();
    for wrong in [
        "",
        "inside(p2)",
        "asleep(p0)",
        "inside(p0",
        "inside",
        "channel(p0)=1",
        "inside=x",
        "leader(p0)>p1",
        "inside(p0) inside(p1)",
        "not",
        "messages=-1",
    ] {
        let request = Request { possibly: Some(wrong.to_owned()), ..request() };
        let refusal = lattice(&trace, None, &request, |_, _, _| true).unwrap_err().to_string();
        assert_eq!(refusal.lines().count(), 1);
        let says = refusal.contains("facts are inside(p0)") || refusal.contains("p0 to p1");
        assert!(says, "{wrong}: {refusal}");
    }
}

#[test]
fn a_lattice_that_does_not_fit_stops_and_says_how_far_it_came() {
    let happens: Vec<Happens> = (0..6).flat_map(|node| [Local(node); 12]).collect();
    let file = file(6, &happens);
    let data = walked(&file, &Request { memory: 64 << 10, keep: 0, ..request() });
    let stopped = data.stopped.expect("there is no room");
    assert_eq!((stopped.why, stopped.of), (Stop::Memory, 72));
    assert!(stopped.level > 3 && stopped.level < 40, "{stopped:?}");
    assert!(data.memory <= 64 << 10);
    assert_eq!((data.linearizations, data.cuts.as_str()), (None, "4826809"));
    // The levels so far are whole: so many ways to take so many events from six.
    assert_eq!(data.levels[..4], [1, 6, 21, 56]);
    let trace = file.trace().unwrap();
    let told = lattice(&trace, None, &request(), |size, _, _| size < 3).unwrap();
    assert_eq!(told.stopped.unwrap().why, Stop::Told);
    assert_eq!(told.levels, [1, 6, 21]);
}

#[test]
fn linearizations_beyond_what_can_be_counted_are_said_to_be_more() {
    // C(200, 100) has 59 digits.
    let happens: Vec<Happens> = (0..2).flat_map(|node| [Local(node); 100]).collect();
    let data = walked(&file(2, &happens), &Request { keep: 0, ..request() });
    assert!(data.capped);
    assert_eq!(data.linearizations, Some(u128::MAX.to_string()));
    assert_eq!((data.consistent, data.cuts.as_str()), (101 * 101, "10201"));
}

/// A run of an algorithm, recorded in full.
fn recorded(id: &str, flags: &RunFlags) -> TraceFile {
    let info = find(id).expect("it is in the catalogue");
    let spec = RunSpec { tracing: Tracing::Full, ..flags.allowed(info).expect("it is allowed") };
    let outcome = simulate(&spec).expect("it can be run");
    TraceFile::new(&spec, &outcome)
}

#[test]
fn exclusion_holds_in_every_cut_of_a_run_of_an_algorithm_that_keeps_it() {
    let flags = RunFlags { nodes: 3, ..RunFlags::default() };
    let file = recorded("mutex/ricart-agrawala", &flags);
    let fact = Some("inside >= 2".to_owned());
    let data = walked(&file, &Request { possibly: fact, ..request() });
    assert_eq!(data.possibly.unwrap().answer, Known::No);
    assert!(data.consistent > data.run.len() as u64 + 1);
    let fact = Some("inside(p2)".to_owned());
    let data = walked(&file, &Request { definitely: fact, ..request() });
    assert_eq!(data.definitely.unwrap().answer, Known::Yes);
}

#[test]
fn a_recorded_snapshot_is_a_cut_of_the_application() {
    let ask = vec!["0@0".parse().unwrap()];
    let flags = RunFlags { nodes: 3, seed: 3, ask, ..RunFlags::default() };
    let file = recorded("snapshot/chandy-lamport", &flags);
    let trace = file.trace().unwrap();
    let run = Computation::new(&trace, Scope::Application);
    let markers = |scope| {
        let run = Computation::new(&trace, scope);
        run.messages.iter().filter(|it| trace.name(it.label) == "Marker").count()
    };
    assert_eq!((markers(Scope::Application), markers(Scope::Everything)), (0, 6));
    let [snapshot] = &run.snapshots[..] else { panic!("{:?}", run.snapshots) };
    assert!(run.is_consistent(&snapshot.whole().expect("every node records")));
    let at = cut(&trace, Some(&file), Scope::Application, "#0").unwrap();
    assert_eq!(Some(at.cut), snapshot.whole());
    // What nodes and channels hold adds up.
    let balance = |node: &conclave_lab::lattice::NodeData| {
        node.state.as_ref()?.pointer("/Bank/balance")?.as_u64()
    };
    let nodes: u64 = at.state.nodes.iter().filter_map(balance).sum();
    let messages = at.state.channels.iter().flat_map(|channel| &channel.messages);
    let coin = |message: &conclave_lab::lattice::MessageData| {
        message.data.as_ref()?.pointer("/App/BankApp/Transfer")?.as_u64()
    };
    assert_eq!(nodes + messages.filter_map(coin).sum::<u64>(), 1 + 4 + 16);
}

#[test]
fn pictures_have_every_cut_and_every_step_between_two() {
    let data = walked(
        &file(2, &[Send(0, 1, 0), Local(1), Local(0), Receive(1, 0, 0)]),
        &Request { possibly: Some("channel(p0,p1)=1".into()), ..request() },
    );
    let (dot, svg) = (dot(&data), svg(&data));
    assert_eq!((dot.matches(" -> ").count(), svg.matches("<line").count()), (10, 10));
    assert_eq!((dot.matches("shape=box").count(), svg.matches("<rect").count()), (1, 8));
    // The run that happened: four steps.
    assert_eq!(dot.matches("color=\"#1f5fa8\", penwidth=3]").count(), 4);
    assert!(svg.contains("p0 to p1: Word"));
    assert!(!dot.contains("0,2"));
}
