//! Decisions, carried out at nodes that do nothing but keep a diary.

use std::time::Duration;

use conclave_protocol::{
    Action, Client, Ctx, Decision, Entry, HeardBy, Model, NodeId, Observable, Observation,
    Property, Protocol, Setup, Time, Topology,
};
use serde::{Deserialize, Serialize};

use crate::*;

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Diary(Vec<String>);

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Request {
    Greet,
    Toss,
    Look,
    Nap,
    Work,
    Enter,
    Leave,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Notice {
    Entered,
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Msg {
    Booted,
    Hello(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Timer {
    Short,
    Long(u32),
}

impl Observable for Request {
    fn observation(&self) -> Observation {
        match self {
            Self::Enter => Observation::Asked,
            Self::Leave => Observation::Left,
            _ => Observation::Other,
        }
    }
}

impl HeardBy for Notice {
    type Client = Anyone;
}

impl Observable for Notice {
    fn observation(&self) -> Observation {
        if *self == Self::Entered { Observation::Entered { token: 1 } } else { Observation::Other }
    }
}

impl Diary {
    fn note(&mut self, text: impl Into<String>) {
        self.0.push(text.into());
    }
}

impl Protocol for Diary {
    type Config = ();
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Timer;
    type Stable = u32;

    fn start(saved: Option<u32>, ctx: &mut Ctx<Self>) -> Self {
        if ctx.me == NodeId(0) {
            ctx.send(NodeId(1), Msg::Booted);
        }
        Self(vec![format!("boots with {saved:?} at {:?}", ctx.now())])
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            Request::Greet => {
                let number = self.0.len() as u32;
                ctx.broadcast(Msg::Hello(number));
                self.note("greets");
            }
            Request::Toss => {
                let tosses = [ctx.choose(6), ctx.choose(6), ctx.choose(6)];
                self.note(format!("tosses {tosses:?}"));
            }
            Request::Look => self.note(format!("sees {:?}", ctx.now())),
            Request::Nap => {
                ctx.set_timer(Timer::Short, Duration::from_secs(1));
                ctx.set_timer(Timer::Long(7), Duration::MAX);
                ctx.set_timer(Timer::Short, Duration::from_secs(2));
            }
            // In this order: a save, two messages, a notice and a save, a message, a timer.
            Request::Work => {
                ctx.save(1);
                ctx.broadcast(Msg::Hello(1));
                ctx.notify(Notice::Done);
                ctx.save(2);
                ctx.send(NodeId(2), Msg::Hello(2));
                ctx.set_timer(Timer::Short, Duration::ZERO);
            }
            Request::Enter => ctx.notify(Notice::Entered),
            Request::Leave => {}
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, _: &mut Ctx<Self>) {
        self.note(format!("{from} says {msg:?}"));
    }

    fn on_timer(&mut self, timer: Timer, ctx: &mut Ctx<Self>) {
        self.note(format!("{timer:?} is over"));
        ctx.cancel_timer(Timer::Short);
    }

    fn on_suspect(&mut self, peer: NodeId, _: &mut Ctx<Self>) {
        self.note(format!("suspects {peer}"));
    }

    fn on_restore(&mut self, peer: NodeId, _: &mut Ctx<Self>) {
        self.note(format!("trusts {peer}"));
    }

    fn on_join(&mut self, sponsor: NodeId, _: &mut Ctx<Self>) {
        self.note(format!("joins through {sponsor}"));
    }

    fn on_leave(&mut self, _: &mut Ctx<Self>) {
        self.note("leaves");
    }
}

/// Asks anything, and only to leave while inside.
#[derive(Clone, Default, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Anyone {
    inside: bool,
}

impl<P: Protocol<Request = Request, Notice = Notice>> Client<P> for Anyone {
    fn requests(&self) -> impl IntoIterator<Item = Request> {
        use Request::*;
        if self.inside { vec![Leave] } else { vec![Greet, Toss, Look, Nap, Work, Enter] }
    }

    fn on_request(&mut self, _: &Request) {
        self.inside = false;
    }

    fn on_notice(&mut self, notice: &Notice) {
        self.inside |= *notice == Notice::Entered;
    }
}

const GREET: u32 = 0;
const TOSS: u32 = 1;
const LOOK: u32 = 2;
const NAP: u32 = 3;
const WORK: u32 = 4;
const ENTER: u32 = 5;

static ENTRY: Entry<Diary> = Entry::new("mutex/diary", "", |_| Ok(())).model(Model::FIFO);

const T: Duration = Duration::from_millis(1);

fn at(t: u32) -> Time {
    Time::ZERO + T * t
}

fn p(node: u32) -> NodeId {
    NodeId(node)
}

fn ask(node: u32, request: u32) -> Decision {
    Action::Ask { node: p(node), request }.into()
}

fn deliver(from: u32, to: u32, place: u32) -> Decision {
    Action::Deliver { from: p(from), to: p(to), place }.into()
}

fn lose(from: u32, to: u32, place: u32) -> Decision {
    Action::Lose { from: p(from), to: p(to), place }.into()
}

fn repeat(from: u32, to: u32, place: u32) -> Decision {
    Action::Repeat { from: p(from), to: p(to), place }.into()
}

fn timer(node: u32, timer: &str) -> Decision {
    Action::Timer { node: p(node), timer: timer.to_owned() }.into()
}

fn by_clock(clock: Time, decision: Decision) -> Decision {
    Decision { clock, ..decision }
}

fn crash_after(messages: u32, decision: Decision) -> Decision {
    Decision { crash_after: Some(messages), ..decision }
}

fn spec(decisions: Vec<Decision>) -> RunSpec {
    let mut spec = RunSpec::new(&ENTRY.info, Setup::new(Topology::complete(3)));
    // None of this has a say.
    spec.workload = Workload::burst([p(1)], T);
    spec.faults = Faults::none().with(at(2), Fault::Crash(p(1)));
    spec.faults.loss = 1_000_000;
    (spec.detector, spec.until, spec.events) = (Some(T), at(1), 1);
    (spec.tracing, spec.decisions) = (Tracing::Full, Some(decisions));
    spec
}

fn try_to(decisions: &[Decision]) -> Result<Outcome, SpecError> {
    run(&ENTRY, &spec(decisions.to_vec()))
}

#[track_caller]
fn follow(decisions: &[Decision]) -> Outcome {
    try_to(decisions).unwrap_or_else(|error| panic!("{error}"))
}

/// What `node` has written since it last booted.
fn diary(outcome: &Outcome, node: u32) -> Vec<String> {
    let own = |i: &usize| outcome.trace.records[*i].node == p(node);
    let last = outcome.trace.states.iter().rev().find(|(i, _)| own(i));
    let diary: Diary = last.map_or(Diary(Vec::new()), |(_, it)| serde_json::from_str(it).unwrap());
    diary.0.into_iter().skip(1).collect()
}

/// The events of a run but its sends, with where and when they happened.
fn events(outcome: &Outcome) -> Vec<(u64, u32, Event)> {
    let records = outcome.trace.records.iter();
    let records = records.map(|it| (it.at.as_nanos() / 1_000_000, it.node.0, it.event()));
    records.filter(|(.., event)| !matches!(event, Event::Send { .. })).collect()
}

/// Why the last of the decisions makes no sense.
#[track_caller]
fn senseless(decisions: &[Decision]) -> String {
    match try_to(decisions) {
        Err(SpecError::Senseless { number, what, why }) => {
            assert_eq!(number, decisions.len());
            assert_eq!(what, decisions[number - 1].what.to_string());
            why
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn messages_stay_on_their_links_until_it_is_decided_about_them() {
    let outcome = follow(&[ask(0, GREET), ask(0, GREET), deliver(0, 1, 1), deliver(0, 1, 1)]);
    assert_eq!(diary(&outcome, 1), ["p0 says Hello(1)", "p0 says Hello(2)"]);
    assert_eq!(diary(&outcome, 2), [""; 0]);
    // One each T, and what was sent while booting is still on its way.
    let times: Vec<u64> = events(&outcome).into_iter().map(|(at, ..)| at).collect();
    assert_eq!(times, [1, 2, 3, 4]);
    assert_eq!((outcome.trace.ended, outcome.trace.end), (at(4), End::Decisions));
    assert_eq!(outcome.stats.sent - outcome.stats.delivered, 3);
    assert_eq!(outcome.stats.pending, 5);
    let first = follow(&[deliver(0, 1, 0)]);
    assert_eq!(diary(&first, 1), ["p0 says Booted"]);
    assert_eq!(first.trace.end, End::Quiet);
}

#[test]
fn a_message_is_lost_or_repeated_in_its_place() {
    let outcome = follow(&[
        ask(0, GREET),
        ask(0, GREET),
        repeat(0, 1, 1),
        deliver(0, 1, 3),
        deliver(0, 1, 2),
        lose(0, 1, 0),
        deliver(0, 1, 0),
    ]);
    let heard = ["p0 says Hello(2)", "p0 says Hello(1)", "p0 says Hello(1)"];
    assert_eq!(diary(&outcome, 1), heard);
    let lost = events(&outcome).into_iter().find(|it| matches!(it.2, Event::Lose { .. }));
    assert_eq!(lost, Some((6, 0, Event::Lose { to: p(1), serial: 0, label: 0 })));
    assert_eq!(outcome.stats.lost, 1);
}

#[test]
fn a_timer_runs_until_it_is_decided_that_it_has_run_out() {
    let nap = [ask(2, NAP), timer(2, "Long(7)")];
    let outcome = follow(&nap);
    assert_eq!(diary(&outcome, 2), ["Long(7) is over"]);
    assert_eq!(senseless(&[&nap[..], &[timer(2, "Short")]].concat()), "no timer runs there");
    assert_eq!(
        senseless(&[nap[0].clone(), timer(2, "Long(8)")]),
        "those that run there are Short, Long(7)"
    );
    let both = [nap[0].clone(), timer(2, "Short"), timer(2, "Long(7)")];
    assert_eq!(diary(&follow(&both), 2), ["Short is over", "Long(7) is over"]);
    let crashed = [nap[0].clone(), Action::Crash(p(2)).into(), Action::Recover(p(2)).into()];
    let late = [&crashed[..], &[timer(2, "Short")]].concat();
    assert_eq!(senseless(&late), "no timer runs there");
    assert_eq!(
        senseless(&late[..2].iter().chain(&late[3..]).cloned().collect::<Vec<_>>()),
        "p2 is down"
    );
}

#[test]
fn rules_see_the_clock_and_the_choices_of_the_decision() {
    let toss = Decision { choices: vec![5, 2], ..ask(1, TOSS) };
    let outcome = follow(&[
        toss.clone(),
        ask(1, TOSS),
        by_clock(at(70), ask(1, LOOK)),
        ask(1, TOSS),
        by_clock(at(70), ask(1, LOOK)),
        by_clock(at(5), ask(2, LOOK)),
    ]);
    let own =
        ["tosses [5, 2, 0]", "tosses [0, 0, 0]", "sees 70ms", "tosses [0, 0, 0]", "sees 70ms"];
    assert_eq!(diary(&outcome, 1), own);
    assert_eq!(diary(&outcome, 2), ["sees 5ms"]);
    let six = Decision { choices: vec![0, 6], ..toss };
    assert_eq!(senseless(&[six]), "6 is chosen where there are 6 to choose from");
    let back = [by_clock(at(7), ask(1, LOOK)), by_clock(at(6), ask(1, LOOK))];
    assert_eq!(senseless(&back), "its clock would go back from 7ms to 6ms");
}

#[test]
fn what_is_done_to_the_system_is_done_as_in_any_run() {
    let outcome = follow(&[
        ask(0, WORK),
        Action::Crash(p(0)).into(),
        Action::Recover(p(0)).into(),
        Action::Crash(p(0)).into(),
        Action::RecoverEmpty(p(0)).into(),
        Action::Crash(p(0)).into(),
        Action::Recover(p(0)).into(),
    ]);
    let booted: Vec<Event> = events(&outcome).into_iter().map(|it| it.2).collect();
    let (up, down) = (Event::Recover, Event::Crash);
    assert_eq!(booted[2..], [down, up, down, Event::RecoverEmpty, down, up]);
    let told = follow(&[
        Action::Suspect { node: p(1), peer: p(2) }.into(),
        Action::Trust { node: p(1), peer: p(2) }.into(),
        Action::Join { node: p(1), sponsor: p(0) }.into(),
        Action::Leave(p(1)).into(),
    ]);
    assert_eq!(diary(&told, 1), ["suspects p2", "trusts p2", "joins through p0", "leaves"]);
    let boots = |decisions: &[Decision]| {
        let outcome = follow(&[decisions, &[ask(0, TOSS)]].concat());
        let (_, state) = outcome.trace.states.last_key_value().unwrap();
        serde_json::from_str::<Diary>(state).unwrap().0[0].clone()
    };
    let crash = Decision::from(Action::Crash(p(0)));
    let recover = by_clock(at(9), Action::Recover(p(0)).into());
    let forget = Decision::from(Action::RecoverEmpty(p(0)));
    let worked = [ask(0, WORK), crash.clone(), recover.clone()];
    assert_eq!(boots(&worked), "boots with Some(2) at 9ms");
    assert_eq!(boots(&[ask(0, WORK), crash.clone(), forget.clone()]), "boots with None at 0ns");
    // What was forgotten does not come back.
    let twice = [ask(0, WORK), crash.clone(), forget, crash, recover];
    assert_eq!(boots(&twice), "boots with None at 9ms");
}

#[test]
fn who_is_down_or_cut_off_gets_nothing() {
    let crash = Decision::from(Action::Crash(p(1)));
    let recover = Decision::from(Action::Recover(p(1)));
    let lost = |outcome: &Outcome| outcome.stats.lost;
    let down = follow(&[crash.clone(), deliver(0, 1, 0)]);
    assert_eq!((lost(&down), down.trace.end), (1, End::Quiet));
    let back = follow(&[crash, recover, deliver(0, 1, 0)]);
    assert_eq!((lost(&back), diary(&back, 1)), (0, vec!["p0 says Booted".to_owned()]));
    let apart = Decision::from(Action::Partition(vec![vec![p(0), p(2)], vec![p(1)]]));
    let cut = [apart, ask(0, GREET), deliver(0, 2, 0), deliver(0, 1, 0)];
    // The greeting is lost as it is sent, and what had been sent before when it would arrive.
    let outcome = follow(&cut);
    assert_eq!((lost(&outcome), outcome.stats.delivered), (2, 1));
    assert_eq!(senseless(&[&cut[..], &[deliver(0, 1, 0)]].concat()), "none is on its way there");
    let healed = [cut[0].clone(), Action::Heal.into(), deliver(0, 1, 0)];
    assert_eq!(diary(&follow(&healed), 1), ["p0 says Booted"]);
}

#[test]
fn a_node_that_crashes_in_the_middle_of_a_step_has_done_what_came_before() {
    let recover = Decision::from(Action::Recover(p(1)));
    let work = |messages| {
        let outcome = follow(&[crash_after(messages, ask(1, WORK)), recover.clone(), ask(1, TOSS)]);
        let (_, state) = outcome.trace.states.last_key_value().unwrap();
        let boot = serde_json::from_str::<Diary>(state).unwrap().0[0].clone();
        let told = events(&outcome).iter().any(|it| it.2 == Event::Notice(Observation::Other));
        assert!(events(&outcome).contains(&(1, 1, Event::Crash)));
        (outcome.stats.sent - 1, told, boot)
    };
    let expect = |sent, told, saved: &str| (sent, told, format!("boots with {saved} at 0ns"));
    assert_eq!(work(0), expect(0, false, "None"));
    assert_eq!(work(1), expect(1, false, "Some(1)"));
    assert_eq!(work(2), expect(2, false, "Some(1)"));
    assert_eq!(work(3), expect(3, true, "Some(2)"));
    assert_eq!(work(4), expect(3, true, "Some(2)"));
    // Also while it boots, or gets a message.
    let crash = Decision::from(Action::Crash(p(0)));
    let boot = crash_after(0, Action::Recover(p(0)).into());
    assert_eq!(follow(&[crash, boot]).stats.sent, 1);
    let outcome = follow(&[crash_after(3, deliver(0, 1, 0))]);
    assert_eq!((outcome.stats.delivered, outcome.trace.end), (1, End::Quiet));
}

#[test]
fn a_run_is_over_when_nothing_is_left_and_open_when_the_decisions_are() {
    let end = |decisions: &[Decision]| follow(&[&[deliver(0, 1, 0)], decisions].concat()).trace.end;
    assert_eq!(end(&[]), End::Quiet);
    assert_eq!(end(&[ask(1, NAP)]), End::Decisions);
    assert_eq!(end(&[ask(1, ENTER)]), End::Decisions);
    assert_eq!(end(&[ask(1, ENTER), ask(1, 0)]), End::Quiet);
    assert_eq!(end(&[ask(1, ENTER), Action::Crash(p(1)).into()]), End::Quiet);
    assert_eq!(follow(&[]).trace.end, End::Decisions);
}

#[test]
fn a_decision_that_makes_no_sense_is_refused_with_the_reason() {
    let one = |what: Action| senseless(&[what.into()]);
    let crash = Decision::from(Action::Crash(p(1)));
    let down = |what: Action| senseless(&[crash.clone(), what.into()]);
    let [node, peer] = [p(1), p(1)];
    assert_eq!(one(Action::Leave(p(3))), "there are only nodes p0 to p2");
    assert_eq!(one(Action::Partition(vec![vec![p(9)]])), "there are only nodes p0 to p2");
    assert_eq!(senseless(&[deliver(1, 2, 0)]), "none is on its way there");
    assert_eq!(senseless(&[lose(0, 1, 1)]), "the last on its way there is number 0");
    assert_eq!(senseless(&[repeat(0, 1, 1)]), "the last on its way there is number 0");
    assert_eq!(senseless(&[ask(1, 6)]), "the last that its application may make is number 5");
    assert_eq!(senseless(&[ask(1, ENTER), ask(1, 1)]).split(' ').next_back(), Some("0"));
    assert_eq!(one(Action::Recover(p(1))), "p1 is up");
    assert_eq!(one(Action::RecoverEmpty(p(1))), "p1 is up");
    assert_eq!(one(Action::Heal), "it is not apart");
    for sole in [
        Action::Suspect { node, peer },
        Action::Trust { node, peer },
        Action::Join { node, sponsor: peer },
    ] {
        assert_eq!(one(sole), "that takes another node");
    }
    let peer = p(2);
    for what in [
        Action::Ask { node, request: GREET },
        Action::Timer { node, timer: "Short".to_owned() },
        Action::Crash(node),
        Action::Suspect { node, peer },
        Action::Trust { node, peer },
        Action::Join { node, sponsor: peer },
        Action::Leave(node),
    ] {
        assert_eq!(down(what), "p1 is down");
    }
    let no_step = "that is no step in whose middle a node could crash";
    assert_eq!(senseless(&[crash_after(0, lose(0, 1, 0))]), no_step);
    assert_eq!(senseless(&[crash_after(0, crash.clone())]), no_step);
    let lost = [crash, crash_after(0, deliver(0, 1, 0))];
    assert_eq!(senseless(&lost), "it is lost, and no node crashes receiving it");
    let error = try_to(&lost).unwrap_err().to_string();
    let said = "decision 2 makes no sense: p1 gets message 0 from p0, but it is lost, and no node crashes receiving it";
    assert_eq!(error, said);
}

#[test]
fn the_decisions_say_what_goes_beyond_a_model() {
    let beyond = |decisions: &[Decision]| {
        let beyond = spec(decisions.to_vec()).beyond(&ENTRY.info);
        beyond.into_iter().map(|it| it.0).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(beyond(&[deliver(0, 1, 0), ask(0, TOSS)]), "");
    assert!(beyond(&[deliver(0, 1, 1)]).contains("overtake"));
    assert!(beyond(&[lose(0, 1, 0)]).contains("lost or repeated"));
    assert!(beyond(&[repeat(0, 1, 0)]).contains("lost or repeated"));
    assert!(beyond(&[Action::Crash(p(1)).into()]).contains("no crashes"));
    assert!(beyond(&[crash_after(0, ask(1, TOSS))]).contains("p1 crashes at 1ms"));
}

#[test]
fn a_file_of_decisions_gives_the_same_run_again_and_says_what_it_shows() {
    let decisions = vec![Decision { choices: vec![3], ..by_clock(at(4), ask(1, TOSS)) }];
    let spec = spec(decisions);
    let outcome = run(&ENTRY, &spec).unwrap();
    let mut file = TraceFile::new(&spec, &outcome);
    assert_eq!(file.version, VERSION);
    let why = "p1 waits".to_owned();
    let finding = Finding { property: Property::NoStarvation, why, step: 1, loop_from: None };
    file.verdict = Some(finding.clone());
    let again = TraceFile::parse(&file.to_text()).unwrap();
    assert_eq!(again, file);
    let anew = run(&ENTRY, &again.spec).unwrap();
    assert_eq!(replay(&again, &anew), Replay::Identical { events: outcome.trace.records.len() });
    assert_eq!(finding.to_string(), "NS violated at step 1: p1 waits");
    let endless = Finding { step: 14, loop_from: Some(9), ..finding.clone() };
    assert_eq!(endless.to_string(), "NS violated: p1 waits; steps 9 to 14 repeat for ever");
    let stuck = Finding { loop_from: Some(1), ..finding };
    assert_eq!(stuck.to_string(), "NS violated: p1 waits; step 1 repeats for ever");
    let usual = RunSpec { decisions: None, ..spec };
    let file = TraceFile::new(&usual, &run(&ENTRY, &usual).unwrap());
    assert_eq!(file.version, VERSION);
    assert!(!file.to_text().contains("decisions") && !file.to_text().contains("verdict"));
}
