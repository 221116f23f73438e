//! Counter-examples as users meet them: files of decisions that are run again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use conclave_algorithms::catalogue;
use conclave_protocol::{Action, Decision, Links, NodeId, Property, Setup, Time, Topology};
use conclave_sim::{
    Delay, End, FileEvent, Finding, RunSpec, TraceFile, Tracing, Verdict, Workload, judge,
};

const MUTANT: &str = "mutex/ra-no-tie-break";

fn replay(path: &PathBuf) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conclave"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CONCLAVE_")) {
        command.env_remove(name);
    }
    let Output { status, stdout, stderr } =
        command.env("LC_ALL", "C.UTF-8").arg("replay").arg(path).output().expect("it starts");
    let text = |bytes| String::from_utf8(bytes).expect("the program prints UTF-8");
    (status.code(), text(stdout), text(stderr))
}

fn write(name: &str, file: &TraceFile) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, file.to_text()).expect("the file can be written");
    path
}

/// Two nodes ask at once, and each lets the other in.
fn both_enter() -> TraceFile {
    let ask = |node| Decision::from(Action::Ask { node: NodeId(node), request: 0 });
    let deliver =
        |from, to| Decision::from(Action::Deliver { from: NodeId(from), to: NodeId(to), place: 0 });
    let decisions =
        vec![ask(0), ask(1), deliver(0, 1), deliver(1, 0), deliver(1, 0), deliver(0, 1)];
    let info = catalogue::find(MUTANT).expect("it is in the catalogue");
    let mut spec = RunSpec::new(info, Setup::new(Topology::complete(2)));
    (spec.tracing, spec.decisions) = (Tracing::Full, Some(decisions));
    let outcome = conclave_lab::run(&spec).expect("it is in the catalogue").expect("it runs");
    assert_eq!(outcome.trace.end, End::Decisions);
    let verdict = judge(Property::Exclusion, &outcome.trace, Default::default());
    let Verdict::Violated { why, .. } = verdict else { panic!("{verdict:?}") };
    let finding = Finding { property: Property::Exclusion, why, step: 6, loop_from: None };
    TraceFile { verdict: Some(finding), ..TraceFile::new(&spec, &outcome) }
}

/// The decisions by which the surroundings made a run what it was; `None` if it has timers whose
/// names the trace does not tell.
fn decisions(file: &TraceFile) -> Option<Vec<Decision>> {
    let mut links: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
    let mut decisions = Vec::new();
    for event in &file.events {
        let (node, peer) = (event.node, event.peer.unwrap_or(0));
        let what = match event.event.as_str() {
            "send" => {
                links.entry((node, peer)).or_default().extend(event.message);
                continue;
            }
            "deliver" => {
                let link = links.get_mut(&(peer, node))?;
                let place = link.iter().position(|&sent| Some(sent) == event.message)?;
                link.remove(place);
                Action::Deliver { from: NodeId(peer), to: NodeId(node), place: place as u32 }
            }
            "request" => Action::Ask { node: NodeId(node), request: 0 },
            "timer" => {
                let timer = event.data.as_ref()?.as_str()?.to_owned();
                Action::Timer { node: NodeId(node), timer }
            }
            "notice" | "facts" => continue,
            other => panic!("nothing else happens: {other}"),
        };
        let clock = Time::from_nanos(event.at);
        decisions.push(Decision { clock, ..what.into() });
    }
    Some(decisions)
}

#[test]
fn a_run_that_follows_the_decisions_of_another_is_the_same() {
    let unit = Duration::from_millis(1);
    let (mut compared, mut chosen, mut nested) = (0, Vec::new(), 0);
    for info in catalogue::infos() {
        let n = if info.family() == "mutex" { 4 } else { 3 };
        let shape =
            if info.model.links == Links::Tree { Topology::line } else { Topology::complete };
        let mut spec = RunSpec::new(info, Setup::new(shape(n)));
        spec.delays = Delay::Uniform(unit / 2, unit).into();
        spec.until = Time::ZERO + unit * 200;
        spec.tracing = Tracing::Full;
        let Some(Ok(clients)) = conclave_lab::clients(info.id, &spec.setup) else { continue };
        spec.workload = Workload::burst(clients.map(NodeId), unit);
        let Some(Ok(run)) = conclave_lab::run(&spec) else { continue };
        let run = TraceFile::new(&spec, &run);
        // The timers of an application inside have no plain name in a trace. That such runs can be followed is shown
        // with the library's own way of writing them down, by the catalogue's test `recorded`.
        if run.events.iter().any(|event| {
            event.event == "timer" && !event.data.as_ref().is_some_and(serde_json::Value::is_string)
        }) {
            nested += 1;
            continue;
        }
        let Some(decisions) = decisions(&run) else { continue };
        spec.decisions = Some(decisions);
        let followed = conclave_lab::run(&spec).expect("it is in the catalogue");
        let Ok(followed) = followed else {
            chosen.push(info.id);
            continue;
        };
        let followed = TraceFile::new(&spec, &followed);
        // All but the times, which count decisions.
        let timeless = |event: FileEvent| FileEvent { at: 0, ..event };
        let pairs = run.events.into_iter().zip(followed.events);
        if !pairs.into_iter().all(|(a, b)| timeless(a) == timeless(b)) {
            chosen.push(info.id);
        }
        compared += 1;
    }
    // Chance decides what a read gives that comes while the register is written, for how long a timer is set, and what an
    // application inside a wrapper does; the decisions above have no choices.
    chosen.retain(|id| {
        !["snapshot/", "stable/", "termination/"].iter().any(|family| id.starts_with(family))
    });
    assert_eq!(
        chosen,
        [
            "mutex/bakery",
            "mutex/bakery-no-choosing",
            "mutex/replicated-coordinator",
            "mutex/replicated-coordinator-persistent",
            "election/quorum-epoch",
        ]
    );
    let plain = catalogue::ALL.len() - nested;
    assert!(compared > plain * 9 / 10, "only {compared} of {plain} could be followed");
}

#[test]
fn a_counter_example_is_drawn_and_said_in_words_and_replays_bit_for_bit() {
    let (code, said, _) = replay(&write("both-enter.json", &both_enter()));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("follows 6 decisions"), "{said}");
    assert!(!said.contains("seed") && !said.contains("delays"), "{said}");
    assert!(said.contains("ME violated: p0 and p1 are inside together"), "the diagram\n{said}");
    assert!(said.contains("shows: ME violated at step 6: p0 and p1"), "{said}");
    assert!(said.contains("identical: all"), "{said}");
    assert!(said.contains("The run ends with its last decision"), "{said}");
}

#[test]
fn the_end_of_an_endless_loop_is_said() {
    let mut file = both_enter();
    let (property, why) = (Property::NoStarvation, "p1 asked and never entered".to_owned());
    file.verdict = Some(Finding { property, why, step: 6, loop_from: Some(3) });
    let (_, said, _) = replay(&write("loop.json", &file));
    assert!(said.contains("shows: NS violated: p1 asked and never entered"), "{said}");
    assert!(said.contains("steps 3 to 6 repeat for ever"), "{said}");
}

#[test]
fn a_tampered_counter_example_is_found_out() {
    let mut file = both_enter();
    file.events[2].lamport += 1;
    let (code, said, _) = replay(&write("tampered-decisions.json", &file));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("different from event 2 on"), "{said}");
}

#[test]
fn a_decision_that_makes_no_sense_is_refused() {
    let mut file = both_enter();
    let what = Action::Timer { node: NodeId(1), timer: "Resend".to_owned() };
    file.spec.decisions.as_mut().expect("there are some")[3] = what.into();
    let (code, said, why) = replay(&write("senseless.json", &file));
    assert_eq!((code, said.as_str()), (Some(3), ""), "{why}");
    let words = "decision 4 makes no sense: timer Resend of p1 runs out, but no timer runs there";
    assert!(why.contains(words), "{why}");
    assert_eq!(why.trim_end().lines().count(), 1, "{why}");
}
