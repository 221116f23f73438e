//! Runs of an algorithm that is none: p0 grants whatever it is asked for, at once.

use std::time::Duration;

use conclave_protocol::{
    Charge, Ctx, Entry, HeardBy, Model, Never, NodeId, Observable, Observation, Protocol, Setup,
    Time, Topology,
};
use serde::{Deserialize, Serialize};

use super::user::{Request, User};
use crate::*;

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Generous;

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Granted;

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Msg {
    Ask,
    Grant,
}

impl HeardBy for Granted {
    type Client = User;
}

impl Observable for Granted {
    fn observation(&self) -> Observation {
        Observation::Entered { token: 1 }
    }
}

impl Protocol for Generous {
    type Config = ();
    type Request = Request;
    type Notice = Granted;
    type Msg = Msg;
    type Timer = Never;
    type Stable = Never;

    fn start(_: Option<Never>, _: &mut Ctx<Self>) -> Self {
        Self
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        if request == Request::Acquire {
            ctx.send(NodeId(0), Msg::Ask);
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            Msg::Ask => ctx.send(from, Msg::Grant),
            Msg::Grant => ctx.notify(Granted),
        }
    }

    fn charge(msg: &Msg, _: NodeId, _: NodeId) -> Charge {
        if *msg == Msg::Ask { Charge::Sender } else { Charge::Receiver }
    }
}

static ENTRY: Entry<Generous> =
    Entry::new("mutex/generous", "", |_| Ok(())).model(Model::FIFO).clients(|_, n| 1..n);

const T: Duration = Duration::from_millis(1);

fn at(t: u32) -> Time {
    Time::ZERO + T * t
}

/// p1 asks at 0 in a system of three.
fn spec(faults: Faults) -> RunSpec {
    let mut spec = RunSpec::new(&ENTRY.info, Setup::new(Topology::complete(3)));
    spec.workload = Workload::burst([NodeId(1)], T);
    spec.faults = faults;
    spec
}

fn simulate(spec: &RunSpec) -> Outcome {
    run(&ENTRY, spec).unwrap()
}

/// When an event that satisfies the condition happens at `node`.
fn when(outcome: &Outcome, node: u32, what: impl Fn(Event) -> bool) -> Vec<Time> {
    let here = outcome.trace.records.iter().filter(|record| record.node == NodeId(node));
    here.filter(|record| what(record.event())).map(|record| record.at).collect()
}

#[test]
fn what_a_paused_node_is_told_waits_until_it_goes_on() {
    let (node, peer, sponsor) = (NodeId(0), NodeId(2), NodeId(1));
    let told = [
        (Fault::Suspect { node, peer }, Event::Suspect(peer)),
        (Fault::Trust { node, peer }, Event::Restore(peer)),
        (Fault::Join { node, sponsor }, Event::Join(sponsor)),
        (Fault::Leave(node), Event::Leave),
    ];
    for (action, event) in told {
        let faults = Faults::none()
            .with(at(1), Fault::Pause(node))
            .with(at(3), action)
            .with(at(9), Fault::Resume(node));
        let outcome = simulate(&spec(faults));
        assert_eq!(when(&outcome, 0, |it| it == event), [at(9)]);
        assert_eq!(when(&outcome, 0, |it| matches!(it, Event::Deliver { .. })), [at(9)]);
        assert_eq!(outcome.stats.entered, 1);
    }
}

#[test]
fn a_crash_ends_a_pause_and_loses_what_waited() {
    let faults = Faults::none()
        .with(at(0), Fault::Pause(NodeId(0)))
        .with(at(5), Fault::Crash(NodeId(0)))
        .with(at(6), Fault::Recover(NodeId(0)));
    let mut spec = spec(faults);
    let Arrivals::Plan(asks) = &mut spec.workload.arrivals else { unreachable!("a plan") };
    asks.push(Ask { node: NodeId(2), at: at(6), hold: None });
    let outcome = simulate(&spec);
    // p1's question is lost with the crash; p2's is answered by the node that has come back.
    assert_eq!(when(&outcome, 1, |it| matches!(it, Event::Lose { .. })), [at(5)]);
    assert_eq!(outcome.stats.lost, 1);
    assert_eq!(outcome.stats.sent, outcome.stats.delivered + outcome.stats.lost);
    assert_eq!(when(&outcome, 2, |it| matches!(it, Event::Notice(_))), [at(8)]);
}

#[test]
fn an_open_loop_counts_the_time_before_the_node_could_ask() {
    let mut spec = spec(Faults::none());
    spec.workload = Workload {
        arrivals: Arrivals::Open { clients: 1..2, rounds: Some(100), every: T },
        hold: Spread::exactly(T * 10),
    };
    let costs = Costs::of(&simulate(&spec).trace);
    // One a millisecond comes, and each takes twelve.
    assert!(costs.waiting().max > T * 900, "{:?}", costs.waiting());
    assert!(costs.entries.iter().all(|entry| entry.due <= entry.asked));
    assert!(costs.entries.is_sorted_by_key(|entry| entry.due));
}

#[test]
fn resends_are_nobodys() {
    for seed in 0..50 {
        let mut spec = spec(Faults { loss: 300_000, ..Faults::none() });
        (spec.reliable, spec.seed) = (true, seed);
        let outcome = simulate(&spec);
        let costs = Costs::of(&outcome.trace);
        let [entry] = costs.entries.as_slice() else { panic!("one entry") };
        assert_eq!(entry.messages_entry + entry.messages_exit, 2, "seed {seed}");
        assert_eq!(outcome.stats.entered, 1);
    }
}

#[test]
fn a_partition_leaves_its_groups_behind() {
    let groups = vec![vec![NodeId(1), NodeId(2)]];
    let apart = Faults::none().with(at(1), Fault::Partition(groups));
    let split = simulate(&spec(apart.clone())).trace.leaders();
    let group = |node| split.group(NodeId(node));
    assert!(group(1) == group(2) && group(0) != group(1));
    let whole = simulate(&spec(apart.with(at(2), Fault::Heal))).trace.leaders();
    assert_eq!(whole.group(NodeId(0)), whole.group(NodeId(1)));
}

#[test]
fn what_was_written_down_is_judged_like_the_run() {
    let groups = vec![vec![NodeId(1), NodeId(2)]];
    let faults = Faults::none()
        .with(at(1), Fault::Partition(groups))
        .with(at(2), Fault::Crash(NodeId(2)))
        .with(at(3), Fault::Heal);
    let mut spec = spec(faults);
    spec.tracing = Tracing::Full;
    let run = simulate(&spec).trace;
    let text = TraceFile::new(&spec, &simulate(&spec)).to_text();
    let file = TraceFile::parse(&text).unwrap();
    let read = file.trace().unwrap();
    assert_eq!((read.records.len(), &read.records), (run.records.len(), &run.records));
    assert_eq!((read.end, read.ended, &read.labels), (run.end, run.ended, &run.labels));
    assert_eq!((read.leaders(), read.nodes), (run.leaders(), run.nodes));
    for property in conclave_protocol::Property::ALL {
        let verdict = |trace| judge(property, trace, JudgeLimits::default());
        assert_eq!(verdict(&read), verdict(&run), "{property}");
    }
    // A file from elsewhere may say anything.
    let mut broken = file;
    broken.events[0].node = 9;
    let broken = broken.trace();
    assert!(matches!(broken, Err(TraceError::Senseless { .. })), "{broken:?}");
}

#[test]
fn mere_counts_know_who_is_up_and_who_is_apart() {
    let groups = vec![vec![NodeId(1), NodeId(2)]];
    let faults = Faults::none()
        .with(at(1), Fault::Crash(NodeId(2)))
        .with(at(2), Fault::Crash(NodeId(1)))
        .with(at(3), Fault::RecoverEmpty(NodeId(1)))
        .with(at(4), Fault::Partition(groups));
    let mut spec = spec(faults);
    let traced = simulate(&spec).trace.leaders();
    for tracing in [Tracing::Off, Tracing::Counts] {
        spec.tracing = tracing;
        let counted = simulate(&spec).trace;
        assert_eq!((counted.records.len(), counted.leaders()), (0, traced.clone()));
    }
    assert!(traced.live().eq([NodeId(0), NodeId(1)]));
    assert_ne!(traced.group(NodeId(0)), traced.group(NodeId(1)));
}
