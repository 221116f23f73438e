//! Wrappers: every kind of input reaches the protocol inside, and every kind of effect comes out.

use std::time::Duration;

use crate::support::{T, at, nodes, random_spec, simulate};
use conclave_algorithms::detector::heartbeat::{self, Heartbeat};
use conclave_algorithms::detector::support::with::{self, With};
use conclave_algorithms::detector::timeout_sync::{self, TimeoutSync};
use conclave_algorithms::snapshot::chandy_lamport::{self, ChandyLamport};
use conclave_algorithms::stable::looks::{self, Looks};
use conclave_algorithms::termination::dijkstra_scholten::{self, DijkstraScholten};
use conclave_algorithms::termination::safra::{self, Safra};
use conclave_algorithms::{detector, mutex, snapshot, stable, termination};
use conclave_protocol::{
    Channels, Charge, Ctx, Effect, Entry, Handle, Host, HostInput, Hosted, Input, InputOf, Message,
    Never, NodeId, Observable, Observation, Outside, Property, Protocol, Reliable, Setup, Shown,
    Time, TimerKey, Topology, Turn,
};
use conclave_sim::{Delay, Fault, JudgeLimits, RunSpec, World, judge};
use serde::{Deserialize, Serialize};

/// A protocol that reports everything it is told, and does on request everything that can be done.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Probe {
    booted_with: Option<u64>,
}

/// What it is asked: the next effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Do {
    Send(NodeId),
    Broadcast,
    SetTimer,
    CancelTimer,
    Save(u64),
    Choose,
}

/// What it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Told {
    Started(Option<u64>),
    Asked,
    Message(NodeId),
    Timer,
    Suspect(NodeId),
    Restore(NodeId),
    Join(NodeId),
    Leave,
    Chosen(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Word;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Alarm;

impl Observable for Do {
    fn observation(&self) -> Observation {
        Observation::Other
    }
}

impl Observable for Told {
    fn observation(&self) -> Observation {
        Observation::Other
    }
}

impl Protocol for Probe {
    type Config = u32;
    type Request = Do;
    type Notice = Told;
    type Msg = Word;
    type Timer = Alarm;
    type Stable = u64;

    fn start(saved: Option<u64>, ctx: &mut Ctx<Self>) -> Self {
        assert_eq!(*ctx.config, 17, "the protocol inside sees its own constants");
        ctx.notify(Told::Started(saved));
        ctx.send(ctx.me, Word);
        Self { booted_with: saved }
    }

    fn on_request(&mut self, request: Do, ctx: &mut Ctx<Self>) {
        ctx.notify(Told::Asked);
        match request {
            Do::Send(to) => ctx.send(to, Word),
            Do::Broadcast => ctx.broadcast(Word),
            Do::SetTimer => ctx.set_timer(Alarm, T),
            Do::CancelTimer => ctx.cancel_timer(Alarm),
            Do::Save(value) => ctx.save(value),
            Do::Choose => {
                let chosen = ctx.choose(3);
                ctx.notify(Told::Chosen(chosen));
            }
        }
    }

    fn on_message(&mut self, from: NodeId, _: Word, ctx: &mut Ctx<Self>) {
        ctx.notify(Told::Message(from));
    }

    fn on_timer(&mut self, _: Alarm, ctx: &mut Ctx<Self>) {
        ctx.notify(Told::Timer);
    }

    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        ctx.notify(Told::Suspect(peer));
    }

    fn on_restore(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        ctx.notify(Told::Restore(peer));
    }

    fn on_join(&mut self, sponsor: NodeId, ctx: &mut Ctx<Self>) {
        ctx.notify(Told::Join(sponsor));
    }

    fn on_leave(&mut self, ctx: &mut Ctx<Self>) {
        ctx.notify(Told::Leave);
    }

    fn charge(_: &Word, _: NodeId, _: NodeId) -> Charge {
        Charge::NextEntry
    }
}

/// How to look at a wrapper around the probe.
trait Wrapper: Protocol {
    fn config() -> Self::Config;
    /// A request of the probe's application.
    fn request(request: Do) -> Self::Request;
    /// What the probe says, if the wrapper does not say it itself.
    fn told(notice: &Self::Notice) -> Option<Told>;
    fn probe(&self) -> &Probe;
    /// What the probe has saved, in what the wrapper has saved.
    fn saved(stable: &Self::Stable) -> Option<u64>;
    fn alarm() -> Self::Timer;
    /// Whether this is a message of the probe.
    fn carries(msg: &Self::Msg) -> bool;
}

/// A detector, and constants for it.
trait Watching: detector::Algorithm + Protocol<Stable = Never> {
    fn constants() -> Self::Config;
}

impl Watching for Heartbeat {
    fn constants() -> Self::Config {
        heartbeat::Config { interval: T, timeout: T, step: T }
    }
}

impl Watching for TimeoutSync {
    fn constants() -> Self::Config {
        timeout_sync::Config { interval: T * 5, timeout: T * 2 }
    }
}

impl<D: Watching> Wrapper for With<D, Probe> {
    fn config() -> Self::Config {
        with::Config { detector: D::constants(), app: 17 }
    }
    fn request(request: Do) -> Do {
        request
    }
    fn told(notice: &Told) -> Option<Told> {
        Some(*notice)
    }
    fn probe(&self) -> &Probe {
        &self.app
    }
    fn saved(stable: &u64) -> Option<u64> {
        Some(*stable)
    }
    fn alarm() -> Self::Timer {
        with::Timer::App(Alarm)
    }
    fn carries(msg: &Self::Msg) -> bool {
        matches!(msg, with::Msg::App(Word))
    }
}

impl Wrapper for ChandyLamport<Probe> {
    fn config() -> Self::Config {
        chandy_lamport::Config::new(17, Some((|_| 1, |_| 1)))
    }
    fn request(request: Do) -> Self::Request {
        snapshot::Request::App(request)
    }
    fn told(notice: &Self::Notice) -> Option<Told> {
        match notice {
            snapshot::Notice::App(told) => Some(*told),
            _ => None,
        }
    }
    fn probe(&self) -> &Probe {
        &self.app.state
    }
    fn saved(stable: &u64) -> Option<u64> {
        Some(*stable)
    }
    fn alarm() -> Alarm {
        Alarm
    }
    fn carries(msg: &Self::Msg) -> bool {
        matches!(msg, chandy_lamport::Msg::App(Word))
    }
}

impl termination::Work for Probe {
    fn is_passive(&self) -> bool {
        true
    }
}

impl Wrapper for DijkstraScholten<Probe> {
    fn config() -> Self::Config {
        dijkstra_scholten::Config::new(17, NodeId(0))
    }
    fn request(request: Do) -> Do {
        request
    }
    fn told(notice: &Self::Notice) -> Option<Told> {
        match notice {
            termination::Notice::App(told) => Some(*told),
            termination::Notice::Terminated => None,
        }
    }
    fn probe(&self) -> &Probe {
        &self.work
    }
    fn saved(stable: &u64) -> Option<u64> {
        Some(*stable)
    }
    fn alarm() -> Alarm {
        Alarm
    }
    fn carries(msg: &Self::Msg) -> bool {
        matches!(msg, dijkstra_scholten::Msg::App(Word))
    }
}

impl Wrapper for Safra<Probe> {
    fn config() -> Self::Config {
        safra::Config::new(17)
    }
    fn request(request: Do) -> Do {
        request
    }
    fn told(notice: &Self::Notice) -> Option<Told> {
        match notice {
            termination::Notice::App(told) => Some(*told),
            termination::Notice::Terminated => None,
        }
    }
    fn probe(&self) -> &Probe {
        &self.work
    }
    fn saved(stable: &u64) -> Option<u64> {
        Some(*stable)
    }
    fn alarm() -> Alarm {
        Alarm
    }
    fn carries(msg: &Self::Msg) -> bool {
        matches!(msg, safra::Msg::App(Word))
    }
}

impl Wrapper for Looks<Probe> {
    fn config() -> Self::Config {
        looks::Config {
            snapshots: chandy_lamport::Config::new(17, None).collecting(),
            sought: 1,
            so: |_| 0,
            active: |_| true,
            pause: T,
        }
    }
    fn request(request: Do) -> Self::Request {
        stable::Request::App(request)
    }
    fn told(notice: &Self::Notice) -> Option<Told> {
        match notice {
            stable::Notice::App(told) => Some(*told),
            _ => None,
        }
    }
    fn probe(&self) -> &Probe {
        &self.snapshots.app.state
    }
    fn saved(stable: &u64) -> Option<u64> {
        Some(*stable)
    }
    fn alarm() -> Self::Timer {
        looks::Timer::App(Alarm)
    }
    fn carries(msg: &Self::Msg) -> bool {
        matches!(msg, chandy_lamport::Msg::App(Word))
    }
}

const ME: NodeId = NodeId(1);

/// A node with a wrapped probe, as a driver sees it.
struct Node<W: Wrapper> {
    state: W,
    config: W::Config,
    topology: Topology,
}

impl<W: Wrapper> Node<W> {
    fn boot(saved: Option<W::Stable>) -> (Self, Vec<Effect<W>>) {
        let (config, topology) = (W::config(), Topology::complete(3));
        let mut effects = Vec::new();
        let state = W::boot(saved, &mut Ctx::new(ME, &topology, &config, Time::ZERO, &mut effects));
        (Self { state, config, topology }, effects)
    }

    fn step(&mut self, input: InputOf<W>) -> Vec<Effect<W>> {
        let mut effects = Vec::new();
        let mut ctx = Ctx::new(ME, &self.topology, &self.config, Time::ZERO, &mut effects);
        self.state.step(input, &mut ctx);
        effects
    }
}

fn told<W: Wrapper>(effects: &[Effect<W>]) -> Vec<Told> {
    let told = |effect: &Effect<W>| match effect {
        Effect::Notify(notice) => W::told(notice),
        _ => None,
    };
    effects.iter().filter_map(told).collect()
}

/// To whom a message of the probe goes; a broadcast counts for all.
fn reached<W: Wrapper>(effects: &[Effect<W>]) -> Vec<NodeId> {
    let reached = |effect: &Effect<W>| match effect {
        Effect::Send { to, msg } if W::carries(msg) => vec![*to],
        Effect::Broadcast(msg) if W::carries(msg) => nodes([0, 2]).to_vec(),
        _ => Vec::new(),
    };
    effects.iter().flat_map(reached).collect()
}

fn sees_through<W: Wrapper>() {
    let (mut node, booted) = Node::<W>::boot(None);
    assert_eq!(
        told(&booted),
        [Told::Started(None), Told::Message(ME)],
        "it boots and hears itself"
    );

    // Every kind of effect comes out.
    let sent = node.step(Input::Request(W::request(Do::Send(NodeId(2)))));
    assert_eq!(told(&sent), [Told::Asked]);
    assert_eq!(reached(&sent), [NodeId(2)]);
    let word = sent.iter().find_map(|effect| match effect {
        Effect::Send { msg, .. } if W::carries(msg) => Some(msg.clone()),
        _ => None,
    });
    let word = word.expect("just sent");
    assert_eq!(W::charge(&word, ME, NodeId(2)), Charge::NextEntry, "charged as the probe says");
    assert_eq!(reached(&node.step(Input::Request(W::request(Do::Broadcast)))), nodes([0, 2]));
    let to_self = node.step(Input::Request(W::request(Do::Send(ME))));
    assert_eq!(told(&to_self), [Told::Asked, Told::Message(ME)]);
    assert_eq!(reached(&to_self), [], "a message to oneself stays inside");
    let set = node.step(Input::Request(W::request(Do::SetTimer)));
    assert!(set.contains(&Effect::SetTimer { timer: W::alarm(), after: T }));
    let cancelled = node.step(Input::Request(W::request(Do::CancelTimer)));
    assert!(cancelled.contains(&Effect::CancelTimer(W::alarm())));
    let saved = node.step(Input::Request(W::request(Do::Save(42))));
    let stable = saved.iter().find_map(|effect| match effect {
        Effect::Save(stable) => Some(stable.clone()),
        _ => None,
    });
    let stable = stable.expect("something was saved");
    assert_eq!(W::saved(&stable), Some(42));
    assert_eq!(
        told(&node.step(Input::Request(W::request(Do::Choose)))),
        [Told::Asked, Told::Chosen(0)]
    );

    // Every kind of input gets in. The first message of a peer is like our first to it.
    let (mut peer, _) = Node::<W>::boot(None);
    assert_eq!(
        told(&peer.step(Input::Message { from: NodeId(2), msg: word })),
        [Told::Message(NodeId(2))]
    );
    assert_eq!(told(&node.step(Input::Timer(W::alarm()))), [Told::Timer]);
    assert_eq!(told(&node.step(Input::Suspect(NodeId(0)))), [Told::Suspect(NodeId(0))]);
    assert_eq!(told(&node.step(Input::Restore(NodeId(0)))), [Told::Restore(NodeId(0))]);
    assert_eq!(told(&node.step(Input::Join(NodeId(2)))), [Told::Join(NodeId(2))]);
    assert_eq!(told(&node.step(Input::Leave)), [Told::Leave]);

    // What it saved is what it boots with, and a boot without saving again loses nothing.
    let (node, booted) = Node::<W>::boot(Some(stable));
    assert_eq!(told(&booted)[0], Told::Started(Some(42)));
    assert_eq!(node.state.probe().booted_with, Some(42));
    for effect in &booted {
        if let Effect::Save(again) = effect {
            assert_eq!(W::saved(again), Some(42));
        }
    }
}

/// What the node of a host asked for in a turn.
#[derive(Default)]
struct Noted {
    told: Vec<Told>,
    /// To whom a message of the probe went, and whose it is.
    reached: Vec<NodeId>,
    charged: Vec<Charge>,
    handles: Vec<Handle>,
    set: Vec<(TimerKey, Duration)>,
    cancelled: Vec<TimerKey>,
    saved: usize,
    me: NodeId,
}

impl Outside for Noted {
    fn send(&mut self, to: NodeId, handle: Handle, message: &dyn Message) -> u32 {
        if message.label() != "Ack" {
            self.reached.push(to);
            self.charged.push(message.charge(self.me, to));
            self.handles.push(handle);
        }
        1
    }

    fn broadcast(&mut self, _: Handle, _: &dyn Message) -> u32 {
        panic!("links number each message")
    }

    fn notify(&mut self, _: Observation, notice: &dyn erased_serde::Serialize) -> bool {
        let text = serde_json::to_string(&notice).expect("it is plain data");
        self.told.push(serde_json::from_str(&text).expect("it was one"));
        true
    }

    fn set_timer(&mut self, timer: TimerKey, _: &dyn Shown, after: Duration) {
        // Even keys are those of the links.
        if timer.0 % 2 == 1 {
            self.set.push((timer, after));
        }
    }

    fn cancel_timer(&mut self, timer: TimerKey, _: &dyn Shown) {
        self.cancelled.push(timer);
    }

    fn save(&mut self) -> bool {
        self.saved += 1;
        true
    }

    fn choose(&mut self, _: u32) -> u32 {
        0
    }
}

/// An application that asks for anything at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Anything;

const REQUESTS: [Do; 7] = [
    Do::Send(NodeId(2)),
    Do::Send(ME),
    Do::Broadcast,
    Do::SetTimer,
    Do::CancelTimer,
    Do::Save(42),
    Do::Choose,
];

impl conclave_protocol::Client<Probe> for Anything {
    fn requests(&self) -> impl IntoIterator<Item = Do> {
        REQUESTS
    }
    fn on_request(&mut self, _: &Do) {}
    fn on_notice(&mut self, _: &Told) {}
}

/// Nodes with probes on numbered links, as a driver sees them.
struct Linked {
    host: Reliable,
    topology: Topology,
}

impl Linked {
    fn boot() -> (Self, Noted) {
        let host = Reliable::new(Box::new(Hosted::<Probe, Anything>::new(17, 3)), 3, T);
        let mut nodes = Self { host, topology: Topology::complete(3) };
        nodes.boot_at(NodeId(2));
        let noted = nodes.boot_at(ME);
        (nodes, noted)
    }

    fn boot_at(&mut self, node: NodeId) -> Noted {
        let mut noted = Noted { me: node, ..Noted::default() };
        let turn = Turn { node, now: Time::ZERO, topology: &self.topology, settles: true };
        self.host.boot(turn, true, &mut noted);
        noted
    }

    fn act_at(&mut self, node: NodeId, input: HostInput) -> Noted {
        let mut noted = Noted { me: node, ..Noted::default() };
        let turn = Turn { node, now: Time::ZERO, topology: &self.topology, settles: true };
        self.host.act(turn, input, &mut noted);
        noted
    }

    fn act(&mut self, input: HostInput) -> Noted {
        self.act_at(ME, input)
    }

    fn ask(&mut self, request: Do) -> Noted {
        let place = REQUESTS.iter().position(|it| *it == request).expect("it may ask that");
        self.act(Input::Request(place))
    }
}

#[test]
fn protocols_with_a_detector_get_everything() {
    sees_through::<With<Heartbeat, Probe>>();
    sees_through::<With<TimeoutSync, Probe>>();
}

#[test]
fn applications_of_which_snapshots_are_taken_get_everything() {
    sees_through::<ChandyLamport<Probe>>();
}

#[test]
fn works_whose_end_is_sought_get_everything() {
    sees_through::<DijkstraScholten<Probe>>();
    sees_through::<Safra<Probe>>();
    sees_through::<Looks<Probe>>();
}

#[test]
fn reliable_links_forward_everything() {
    let (mut node, booted) = Linked::boot();
    assert_eq!(booted.told, [Told::Started(None), Told::Message(ME)], "it boots and hears itself");

    // Every kind of effect comes out.
    let sent = node.ask(Do::Send(NodeId(2)));
    assert_eq!(sent.told, [Told::Asked]);
    assert_eq!(sent.reached, [NodeId(2)]);
    assert_eq!(sent.charged, [Charge::NextEntry], "charged as the probe says");
    assert_eq!(node.ask(Do::Broadcast).reached, nodes([0, 2]));
    let to_self = node.ask(Do::Send(ME));
    assert_eq!(to_self.told, [Told::Asked, Told::Message(ME)]);
    assert_eq!(to_self.reached, [], "a message to oneself stays inside");
    let set = node.ask(Do::SetTimer).set;
    let [(alarm, after)] = set[..] else { panic!("one timer") };
    assert_eq!((format!("{:?}", node.host.timer(ME, alarm)), after), ("App(Alarm)".into(), T));
    assert_eq!(node.act(Input::Timer(alarm)).told, [Told::Timer]);
    let set = node.ask(Do::SetTimer).set;
    assert_eq!(node.ask(Do::CancelTimer).cancelled, [set[0].0]);
    assert_eq!(node.ask(Do::Save(42)).saved, 1);
    assert_eq!(node.ask(Do::Choose).told, [Told::Asked, Told::Chosen(0)]);

    // Every kind of input gets in. What p1 has sent p2 first, p2 hears from p1 first.
    let [first, ..] = sent.handles[..] else { panic!("one message") };
    let (at, message) = (NodeId(2), Input::Message { from: ME, msg: first });
    assert_eq!(node.act_at(at, message).told, [Told::Message(ME)]);
    assert_eq!(node.act(Input::Suspect(NodeId(0))).told, [Told::Suspect(NodeId(0))]);
    assert_eq!(node.act(Input::Restore(NodeId(0))).told, [Told::Restore(NodeId(0))]);
    assert_eq!(node.act(Input::Join(NodeId(2))).told, [Told::Join(NodeId(2))]);
    assert_eq!(node.act(Input::Leave).told, [Told::Leave]);

    // What it saved is what it boots with.
    node.host.crash(ME);
    assert_eq!(node.boot_at(ME).told[0], Told::Started(Some(42)));
    let probe = node.host.inside(ME).and_then(|state| state.downcast_ref::<Probe>());
    assert_eq!(probe.expect("it is up").booted_with, Some(42));
}

#[test]
fn detectors_call_the_rules_for_suspicion_and_trust() {
    let (mut node, _) = Node::<With<Heartbeat, Probe>>::boot(None);
    let overdue = with::Timer::Detector(heartbeat::Timer::Overdue(NodeId(2)));
    let late = node.step(Input::Timer(overdue));
    assert_eq!(told(&late), [Told::Suspect(NodeId(2))]);
    let beat = with::Msg::Detector(heartbeat::Msg::Beat);
    let back = node.step(Input::Message { from: NodeId(2), msg: beat });
    assert_eq!(told(&back), [Told::Restore(NodeId(2))]);
    let more = Effect::SetTimer { timer: overdue, after: T * 2 };
    assert!(back.contains(&more), "a mistake earns the peer more time");

    let (mut node, _) = Node::<With<TimeoutSync, Probe>>::boot(None);
    node.step(Input::Timer(with::Timer::Detector(timeout_sync::Timer::Check)));
    let pong = with::Msg::Detector(timeout_sync::Msg::Pong { n: 1 });
    node.step(Input::Message { from: NodeId(0), msg: pong });
    let late = node.step(Input::Timer(with::Timer::Detector(timeout_sync::Timer::Overdue)));
    assert_eq!(told(&late), [Told::Suspect(NodeId(2))]);
}

/// Over a network that loses, repeats and reorders, an algorithm on numbered links keeps what it
/// promises on reliable FIFO channels.
fn keeps_its_promises_on_a_bad_network<P: mutex::Algorithm>(entry: &Entry<P>) {
    let promises = [Property::Exclusion, Property::NoStarvation, Property::FenceOrder];
    for seed in 0..240 {
        let n = 2 + (seed % 6) as u32;
        let setup = Setup::new(crate::support::topology(entry, n, seed));
        let mut spec = random_spec(entry, setup, seed);
        spec.channels = Channels::Lossy;
        spec.reliable = true;
        spec.faults.loss = 200_000;
        spec.faults.duplication = 200_000;
        spec.until = at(20_000);
        assert_eq!(spec.beyond(&entry.info), []);
        let outcome = simulate(entry, &spec);
        assert!(outcome.stats.lost > 0, "the network was bad");
        assert!(outcome.stats.entered >= u64::from(n) * 3, "seed={seed}");
        for property in promises {
            let verdict = judge(property, &outcome.trace, JudgeLimits::default());
            assert!(verdict.held(), "{} n={n} seed={seed} {property}: {verdict:?}", entry.info.id);
        }
    }
}

#[test]
fn ricart_agrawala_runs_over_numbered_links() {
    keeps_its_promises_on_a_bad_network(&mutex::ricart_agrawala::PLAIN);
}

#[test]
fn lamport_which_needs_fifo_channels_runs_over_numbered_links() {
    assert_eq!(mutex::lamport::PLAIN.info.model.channels, Channels::Fifo);
    keeps_its_promises_on_a_bad_network(&mutex::lamport::PLAIN);
}

#[test]
fn the_token_ring_runs_over_numbered_links() {
    keeps_its_promises_on_a_bad_network(&mutex::token_ring::PLAIN);
}

/// An application that never asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Silent;

/// A protocol that sends its successor a number every unit of time, and notes what arrives.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Counter {
    sent: u32,
    heard: Vec<u32>,
}

impl Protocol for Counter {
    type Config = ();
    type Request = Never;
    type Notice = Never;
    type Msg = u32;
    type Timer = Alarm;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        ctx.set_timer(Alarm, T);
        Self { sent: 0, heard: Vec::new() }
    }

    fn on_request(&mut self, request: Never, _: &mut Ctx<Self>) {
        match request {}
    }

    fn on_message(&mut self, _: NodeId, number: u32, _: &mut Ctx<Self>) {
        self.heard.push(number);
    }

    fn on_timer(&mut self, _: Alarm, ctx: &mut Ctx<Self>) {
        if self.sent < 50 {
            self.sent += 1;
            ctx.send(ctx.successor(), self.sent);
            ctx.set_timer(Alarm, T);
        }
    }
}

impl conclave_protocol::Client<Counter> for Silent {
    fn requests(&self) -> impl IntoIterator<Item = Never> {
        None
    }
    fn on_request(&mut self, request: &Never) {
        match *request {}
    }
    fn on_notice(&mut self, notice: &Never) {
        match *notice {}
    }
}

#[test]
fn after_a_crash_and_recovery_the_links_carry_on_in_order() {
    let mut renewed = 0;
    for seed in 0..240 {
        let crash = 5 + seed % 40;
        let back = crash + 1 + seed % 17;
        let info = &mutex::ricart_agrawala::PLAIN.info;
        let mut spec = RunSpec::new(info, Setup::new(Topology::complete(2)));
        spec.seed = seed;
        spec.channels = Channels::Lossy;
        spec.reliable = true;
        spec.delays = Delay::Uniform(T / 20, T).into();
        spec.faults.loss = 200_000;
        spec.faults.duplication = 200_000;
        spec.faults = spec
            .faults
            .with(at(crash), Fault::Crash(NodeId(1)))
            .with(at(back), Fault::Recover(NodeId(1)));
        spec.linger = None;
        spec.until = at(1_000);
        let host = Hosted::<Counter, Silent>::new((), 2);
        let mut world = World::new(Box::new(Reliable::new(Box::new(host), 2, T * 3)), &spec);
        while world.step().is_none() {}
        let state = |node| world.state::<Counter>(NodeId(node)).expect("it is up");
        let heard = |node| &state(node).heard;
        // The survivor hears the numbers of both lives, each life in order from 1; of the first
        // life perhaps not the last few, and of the second all.
        let at_survivor = heard(0);
        let lives = at_survivor.iter().position(|&number| number == 1 && at_survivor[0] == 1);
        assert_eq!(lives, Some(0), "seed={seed}: {at_survivor:?}");
        let second = at_survivor.iter().rposition(|&number| number == 1).expect("it begins with 1");
        let in_order = |numbers: &[u32]| (1..).zip(numbers).all(|(i, &number)| i == number);
        assert!(in_order(&at_survivor[..second]), "seed={seed}: {at_survivor:?}");
        assert!(in_order(&at_survivor[second..]), "seed={seed}: {at_survivor:?}");
        assert_eq!(at_survivor[second..].len(), 50, "seed={seed}");
        renewed += u32::from(second > 0);
        // The one that recovered hears everything it had not acknowledged, in order and once.
        let at_reborn = heard(1);
        assert_eq!(at_reborn.last(), Some(&50), "seed={seed}");
        assert!(at_reborn.is_sorted_by(|a, b| a + 1 == *b), "seed={seed}: {at_reborn:?}");
    }
    assert!(renewed > 200, "the survivor heard both lives {renewed} times");
}
