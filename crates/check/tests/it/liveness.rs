//! Endless runs: what fairness rules out, and what it does not.

use conclave_check::{CheckSpec, Progress, Report, Verdict, check};
use conclave_protocol::{
    Action, Client, Ctx, Entry, HeardBy, Info, Model, Never, NodeId, Observable, Observation,
    Property, Protocol, Setup, Topology,
};
use serde::{Deserialize, Serialize};

/// One node that walks through a graph of states by a timer, and is granted the critical section
/// in one of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Walk(u32);

/// Where each state may go, and the state in which the request is granted.
#[derive(Clone, Copy, Debug)]
struct Map {
    ways: &'static [&'static [u32]],
    granted: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Request {
    Acquire,
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Acquired;

/// Runs out again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Tick;

impl Observable for Request {
    fn observation(&self) -> Observation {
        match self {
            Self::Acquire => Observation::Asked,
            Self::Release => Observation::Left,
        }
    }
}

impl HeardBy for Acquired {
    type Client = Asker;
}

impl Observable for Acquired {
    fn observation(&self) -> Observation {
        Observation::Entered { token: 1 }
    }
}

impl Protocol for Walk {
    type Config = Map;
    type Request = Request;
    type Notice = Acquired;
    type Msg = Never;
    type Timer = Tick;
    type Stable = Never;

    fn start(_: Option<Never>, _: &mut Ctx<Self>) -> Self {
        Self(0)
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        if request == Request::Acquire {
            self.arrive(ctx);
        } else {
            ctx.cancel_timer(Tick);
        }
    }

    fn on_message(&mut self, _: NodeId, msg: Never, _: &mut Ctx<Self>) {
        match msg {}
    }

    fn on_timer(&mut self, _: Tick, ctx: &mut Ctx<Self>) {
        let ways = ctx.config.ways[self.0 as usize];
        self.0 = ways[ctx.choose(ways.len() as u32) as usize];
        self.arrive(ctx);
    }
}

impl Walk {
    fn arrive(&self, ctx: &mut Ctx<Self>) {
        if self.0 == ctx.config.granted {
            ctx.notify(Acquired);
        }
        if !ctx.config.ways[self.0 as usize].is_empty() {
            ctx.set_timer(Tick, std::time::Duration::from_millis(1));
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Asker {
    asked: bool,
    inside: bool,
}

impl Client<Walk> for Asker {
    fn requests(&self) -> impl IntoIterator<Item = Request> {
        match self {
            Self { asked: false, .. } => Some(Request::Acquire),
            Self { inside: true, .. } => Some(Request::Release),
            _ => None,
        }
    }

    fn on_request(&mut self, request: &Request) {
        match request {
            Request::Acquire => self.asked = true,
            Request::Release => self.inside = false,
        }
    }

    fn on_notice(&mut self, _: &Acquired) {
        self.inside = true;
    }
}

const INFO: Info = Info {
    id: "mutex/walk",
    title: "",
    summary: "",
    source: "",
    text: "",
    model: Model::FIFO,
    holds: &[Property::NoStarvation, Property::NoDeadlock],
    fails: &[],
    options: &[],
    mutant: None,
    ..Info::EMPTY
};

/// What is said of "the request is granted in the end".
fn verdict(config: fn(&Setup) -> Result<Map, conclave_protocol::Unfit>) -> Verdict {
    let report = report(1, config);
    report.verdict(Property::NoStarvation).expect("it was checked").clone()
}

fn report(nodes: u32, config: fn(&Setup) -> Result<Map, conclave_protocol::Unfit>) -> Report {
    let entry = Entry::<Walk> { info: INFO, config, clients: Entry::<Walk>::everyone };
    let spec = CheckSpec::new(&INFO, Setup::new(Topology::complete(nodes)), 0..nodes);
    check(&entry, &spec, &Progress::default()).expect("it is sound")
}

#[test]
fn a_deadlock_says_whether_anything_could_still_happen() {
    for (nodes, rest) in [
        (1, "nothing is left to happen"),
        (2, "nothing has to happen, only further requests could"),
    ] {
        let report = report(nodes, |_| Ok(Map { ways: &[&[]], granted: 1 }));
        let verdict = report.verdict(Property::NoDeadlock);
        let Some(Verdict::Violated(violation)) = verdict else { panic!("{verdict:?}") };
        let why = format!("p0 waits for ever: no node is inside and {rest}");
        assert_eq!((violation.decisions.len(), &violation.why), (1, &why));
    }
}

#[test]
fn two_states_that_lead_to_each_other_never_lead_to_a_third() {
    let verdict = verdict(|_| Ok(Map { ways: &[&[1], &[0], &[], &[], &[], &[]], granted: 5 }));
    let Verdict::Violated(violation) = verdict else { panic!("{verdict:?}") };
    assert_eq!(violation.loop_from, Some(1), "it asks, and then goes round");
    assert_eq!(violation.decisions.len(), 3);
    let timer = Action::Timer { node: NodeId(0), timer: "Tick".to_owned() };
    assert!(violation.decisions[1..].iter().all(|decision| decision.what == timer));
}

/// From 0 by way of 1 or of 2 to 3: some runs pass 1 and others do not, whatever the order.
#[test]
fn a_diamond_is_not_always_crossed_on_the_same_side() {
    let verdicts = [
        verdict(|_| Ok(Map { ways: &[&[1, 2], &[3], &[3], &[]], granted: 1 })),
        verdict(|_| Ok(Map { ways: &[&[2, 1], &[3], &[3], &[]], granted: 1 })),
        verdict(|_| Ok(Map { ways: &[&[1, 2], &[3], &[3], &[]], granted: 2 })),
    ];
    for verdict in verdicts {
        let Verdict::Violated(violation) = verdict else { panic!("{verdict:?}") };
        assert_eq!(violation.loop_from, None, "it ends in 3, which nothing leads out of");
        assert_eq!(violation.decisions.len(), 3);
    }
    let both = verdict(|_| Ok(Map { ways: &[&[1, 2], &[3], &[3], &[]], granted: 3 }));
    assert_eq!(both, Verdict::Holds);
}

/// A node that may leave a loop need not: the timer is treated fairly, its choices are not.
#[test]
fn a_loop_that_may_be_left_may_also_be_stayed_in() {
    let verdict = verdict(|_| Ok(Map { ways: &[&[1], &[0, 2], &[]], granted: 2 }));
    let Verdict::Violated(violation) = verdict else { panic!("{verdict:?}") };
    assert!(violation.loop_from.is_some());
}

#[test]
fn what_cannot_be_put_off_for_ever_happens() {
    let verdict = verdict(|_| Ok(Map { ways: &[&[1], &[2], &[]], granted: 2 }));
    assert_eq!(verdict, Verdict::Holds);
}
