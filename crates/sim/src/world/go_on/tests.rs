//! Runs of a gossip that uses everything a rule may: they are written down, followed, and gone on
//! with from anywhere.

use std::time::Duration;

use conclave_protocol::{
    Action, Ctx, Decision, Entry, HeardBy, NodeId, Observable, Observation, Protocol, Setup, Time,
    Topology,
};
use serde::{Deserialize, Serialize};

use crate::world::user::{Request, User};
use crate::*;

const T: Duration = Duration::from_millis(1);

/// Passes rumours on to nodes that it chooses, sometimes later, and lets one in for a while.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Gossip {
    heard: u32,
    latest: Time,
    suspects: Vec<NodeId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Notice {
    Acquired,
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Rumour {
    left: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Timer {
    Pass(u32),
    Enter,
}

impl HeardBy for Notice {
    type Client = User;
}

impl Observable for Notice {
    fn observation(&self) -> Observation {
        match self {
            Self::Acquired => Observation::Entered { token: 7 },
            Self::Lost => Observation::Lost,
        }
    }
}

impl Gossip {
    fn tell(&mut self, left: u32, ctx: &mut Ctx<Self>) {
        match ctx.choose(4) {
            0 => ctx.broadcast(Rumour { left }),
            1 => ctx.set_timer(Timer::Pass(left), T * (1 + ctx.me.0)),
            _ => {
                let to = ctx.choose(ctx.n());
                ctx.send(NodeId(to), Rumour { left });
            }
        }
    }
}

impl Protocol for Gossip {
    type Config = ();
    type Request = Request;
    type Notice = Notice;
    type Msg = Rumour;
    type Timer = Timer;
    type Stable = u32;

    fn start(saved: Option<u32>, ctx: &mut Ctx<Self>) -> Self {
        let heard = saved.unwrap_or(0);
        let mut state = Self { heard, latest: ctx.now(), suspects: Vec::new() };
        state.tell(2, ctx);
        state
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            Request::Acquire => {
                ctx.set_timer(Timer::Enter, T * 3);
                self.tell(3, ctx);
            }
            Request::Release => ctx.save(self.heard),
        }
    }

    fn on_message(&mut self, _: NodeId, Rumour { left }: Rumour, ctx: &mut Ctx<Self>) {
        self.heard += 1;
        if left > 0 {
            self.tell(left - 1, ctx);
        }
        if self.heard.is_multiple_of(5) {
            self.latest = ctx.now();
            ctx.cancel_timer(Timer::Pass(1));
        }
    }

    fn on_timer(&mut self, timer: Timer, ctx: &mut Ctx<Self>) {
        match timer {
            Timer::Pass(left) => self.tell(left, ctx),
            Timer::Enter if self.heard % 7 == 6 => ctx.notify(Notice::Lost),
            Timer::Enter => ctx.notify(Notice::Acquired),
        }
    }

    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        self.suspects.push(peer);
        self.tell(1, ctx);
    }

    fn on_restore(&mut self, peer: NodeId, _: &mut Ctx<Self>) {
        self.suspects.retain(|it| *it != peer);
    }

    fn on_join(&mut self, sponsor: NodeId, ctx: &mut Ctx<Self>) {
        ctx.send(sponsor, Rumour { left: 1 });
    }
}

static ENTRY: Entry<Gossip> = Entry::new("mutex/gossip", "", |_| Ok(()));

fn at(t: u64) -> Time {
    Time::ZERO + T * t as u32
}

/// Anything may happen, and much of it at the same moments.
fn wild(seed: u64) -> RunSpec {
    let mut rng = Rng::new(seed).fork(9);
    let mut draw = |below: u64| rng.below(below);
    let n = 2 + draw(3);
    let mut spec = RunSpec::new(&ENTRY.info, Setup::new(Topology::complete(n as u32)));
    (spec.seed, spec.tracing, spec.reliable) = (seed, Tracing::Full, draw(4) == 0);
    spec.delays = match draw(4) {
        0 => Delay::Constant(T).into(),
        1 => Delay::Exponential(T).into(),
        2 => Delay::Serial(T / 4).into(),
        _ => Delay::Uniform(T / 20, T * 3).into(),
    };
    use conclave_protocol::Channels;
    spec.channels = if draw(2) == 0 { Channels::Fifo } else { Channels::Lossy };
    spec.detector = Some(T * 2).filter(|_| draw(3) > 0);
    let (clients, rounds) = (0..n as u32, Some(1 + draw(3) as u32));
    let arrivals = match draw(3) {
        0 => Arrivals::Open { clients, rounds, every: T * 4 },
        1 => Arrivals::Plan(
            (0..5)
                .map(|i| Ask { node: NodeId(i % n as u32), at: at(draw(9)), hold: None })
                .collect(),
        ),
        _ => {
            let think = Spread::between(Duration::ZERO, T * 5);
            Arrivals::Closed { clients, rounds, first: think, think }
        }
    };
    spec.workload = Workload { arrivals, hold: Spread::between(Duration::ZERO, T * 2) };
    for nano in 0..draw(14) {
        let (node, peer) = (NodeId(draw(n) as u32), NodeId(draw(n) as u32));
        let action = match draw(13) {
            0 | 1 => Fault::Crash(node),
            2 => Fault::Recover(node),
            3 => Fault::RecoverEmpty(node),
            4 => Fault::Reset(node),
            5 | 6 => Fault::Pause(node),
            7 => Fault::Resume(node),
            8 => Fault::Partition(vec![vec![node]]),
            9 => Fault::Lose { label: "Rumour".to_owned() },
            10 => Fault::Leave(node),
            11 if node != peer => Fault::Suspect { node, peer },
            12 if node != peer => Fault::Join { node, sponsor: peer },
            _ if node != peer => Fault::Trust { node, peer },
            _ => continue,
        };
        // No two of them at one moment: a list may end between any two decisions.
        let at = at(draw(20)) + Duration::from_nanos(nano);
        spec.faults.plan.push(PlannedFault { at, action });
    }
    let rate = |every| Some(Rate { every: T * every, lasting: Some(T * 4) });
    if draw(2) == 0 {
        (spec.faults.pauses, spec.faults.crashes) = (rate(15), rate(20));
        spec.faults.suspicions = rate(18);
    }
    if draw(2) == 0 {
        (spec.faults.loss, spec.faults.duplication) = (90_000, 150_000);
    }
    spec.faults.skew = 20_000 * draw(2) as u32;
    (spec.events, spec.until, spec.linger) = (400, at(80), Some(T * 12).filter(|_| draw(2) == 0));
    spec
}

fn following(spec: &RunSpec, decisions: &[Decision], then: Then) -> RunSpec {
    RunSpec { decisions: Some(decisions.to_vec()), then, ..spec.clone() }
}

fn assert_same(found: &Trace, expected: &Trace, what: &str) {
    let (one, other) = (found.records.iter(), expected.records.iter());
    for (place, (one, other)) in one.zip(other).enumerate() {
        assert_eq!(one, other, "{what}: event {place}: {:?}, {:?}", one.event(), other.event());
    }
    assert_eq!(found, expected, "{what}");
}

#[test]
fn any_run_can_be_written_down_followed_and_gone_on_with_from_anywhere() {
    let mut decided = 0;
    for seed in 0..300 {
        let spec = wild(seed);
        let drawn = run(&ENTRY, &spec).unwrap();
        let (recorded, decisions) = record(&ENTRY, &spec).unwrap();
        assert_same(&recorded.trace, &drawn.trace, &format!("seed {seed}, recorded"));
        decided += decisions.len();
        let followed = run(&ENTRY, &following(&spec, &decisions, Then::Stop));
        let followed = followed.unwrap_or_else(|error| panic!("seed {seed}: {error}")).trace;
        let Trace { end, ended, .. } = drawn.trace;
        let followed = Trace { end, ended, ..followed };
        assert_same(&followed, &drawn.trace, &format!("seed {seed}, followed"));
        let mut rng = Rng::new(seed);
        for _ in 0..8 {
            let cut = rng.below(decisions.len() as u64 + 1) as usize;
            let what = format!("seed {seed}, cut at {cut} of {}", decisions.len());
            let on = following(&spec, &decisions[..cut], Then::Continue);
            let (went_on, written) = record(&ENTRY, &on).unwrap();
            assert_same(&went_on.trace, &drawn.trace, &what);
            assert_same(&run(&ENTRY, &on).unwrap().trace, &drawn.trace, &what);
            for (place, (one, other)) in written.iter().zip(&decisions).enumerate() {
                assert_eq!(one, other, "{what}: decision {place}");
            }
            assert_eq!(written.len(), decisions.len(), "{what}");
        }
    }
    assert!(decided > 15_000, "{decided} decisions");
}

#[test]
fn a_branch_goes_on_by_the_calendar_and_is_the_same_every_time() {
    let (mut branches, mut lost) = (0, 0);
    for seed in 0..60 {
        let mut spec = wild(seed);
        spec.faults = Faults::none();
        let (_, decisions) = record(&ENTRY, &spec).unwrap();
        let deliver = |it: &Decision| matches!(it.what, Action::Deliver { .. });
        let Some(place) = decisions.iter().skip(decisions.len() / 2).position(deliver) else {
            continue;
        };
        let place = decisions.len() / 2 + place;
        let mut branch = decisions[..=place].to_vec();
        let Action::Deliver { from, to, place } = branch[place].what else { unreachable!() };
        branch.last_mut().unwrap().what = Action::Lose { from, to, place };
        let on = following(&spec, &branch, Then::Continue);
        let (outcome, written) = record(&ENTRY, &on).unwrap();
        assert_same(&run(&ENTRY, &on).unwrap().trace, &outcome.trace, "again");
        assert_eq!(written[..branch.len()], branch);
        // What is written down of it is the same run, too.
        let followed = run(&ENTRY, &following(&spec, &written, Then::Stop)).unwrap().trace;
        let Trace { end, ended, .. } = outcome.trace;
        assert_same(&Trace { end, ended, ..followed }, &outcome.trace, "followed");
        branches += 1;
        lost += outcome.stats.lost;
    }
    assert!(branches > 40 && lost >= branches, "{branches} branches, {lost} lost");
}

#[test]
fn what_was_due_before_the_last_decision_happens_at_once() {
    let mut spec = RunSpec::new(&ENTRY.info, Setup::new(Topology::complete(2)));
    spec.linger = None;
    spec.events = 40;
    let late = Decision { at: Some(at(50)), ..Action::Ask { node: NodeId(0), request: 0 }.into() };
    let drawn =
        run(&ENTRY, &following(&spec, std::slice::from_ref(&late), Then::Continue)).unwrap();
    let booted = drawn.trace.records.iter().filter(|record| record.at == Time::ZERO).count();
    let mut later = drawn.trace.records.iter().skip(booted);
    assert!(later.clone().count() > 1 && later.all(|record| record.at >= at(50)));
    let early = Decision { at: Some(at(49)), ..late.clone() };
    let error = run(&ENTRY, &following(&spec, &[late, early], Then::Stop)).unwrap_err();
    assert!(error.to_string().contains("49ms is earlier than the decision before it"), "{error}");
}
