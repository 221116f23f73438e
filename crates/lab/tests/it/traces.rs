//! Trace files: those of earlier versions are read and replayed, and what version 3 says is there.

use conclave_lab::replay::replay;
use conclave_sim::{Alarm, RunSpec, TraceFile, Tracing, VERSION};
use serde_json::Value;

const EARLIER: [(u32, &str); 2] =
    [(1, include_str!("traces/version-1.json")), (2, include_str!("traces/version-2.json"))];

fn parse(text: &str) -> TraceFile {
    TraceFile::parse(text).expect("it is a trace")
}

/// The same run as a file of today.
fn again(spec: &RunSpec) -> TraceFile {
    let spec = RunSpec { tracing: Tracing::Full, ..spec.clone() };
    let outcome = conclave_lab::simulate(&spec).expect("it can be run");
    TraceFile::new(&spec, &outcome)
}

#[test]
fn files_of_earlier_versions_are_replayed_as_far_as_they_say_anything() {
    for (version, text) in EARLIER {
        let mut file = parse(text);
        assert_eq!(file.version, version);
        let replayed = replay(&file).expect("it can be run");
        assert!(replayed.is_identical(), "version {version}: {:?}", replayed.same);
        // Sets of nodes have changed their looks: they are compared all the same.
        let states = file.events.iter_mut().filter_map(|event| event.state.as_mut());
        let deferred = states.filter_map(|state| state.get_mut("deferred"));
        for set in deferred {
            *set = serde_json::json!({"low": 1 << 9, "high": []});
        }
        assert!(!replay(&file).expect("it can be run").is_identical(), "version {version}");
    }
}

#[test]
fn a_file_of_today_says_what_nodes_were_like_and_which_rules_ran() {
    let file = again(&parse(EARLIER[0].1).spec);
    assert_eq!((file.version, file.booted.len()), (VERSION, 3));
    assert_eq!(parse(&file.to_text()), file);
    assert!(replay(&file).expect("it can be run").is_identical());
    let recovered = file.events.iter().find(|event| event.event == "recover");
    assert!(recovered.expect("p1 recovers").state.is_some());
    let asked = file.events.iter().find(|event| event.event == "request").expect("p0 asks");
    assert_eq!(asked.rules, [1]);
    let waits = serde_json::to_value(&asked.waits).expect("it is plain data");
    assert_eq!(waits, serde_json::json!(["p1", "p2"]));
    let missing = asked.state.as_ref().and_then(|state| state.pointer("/phase/Waiting/missing"));
    assert_eq!(missing, Some(&waits));
    // What is changed in it is found.
    for change in [
        |file: &mut TraceFile| file.booted[1].state = Value::Null,
        |file: &mut TraceFile| file.events[0].rules = vec![2],
        |file: &mut TraceFile| file.events[0].waits.clear(),
    ] {
        let mut changed = file.clone();
        change(&mut changed);
        assert!(!replay(&changed).expect("it can be run").is_identical());
    }
}

#[test]
fn timers_are_named_where_they_are_set_and_where_they_are_cancelled() {
    let info = conclave_lab::find("mutex/ricart-agrawala").expect("it is in the catalogue");
    let setup = conclave_protocol::Setup::new(conclave_protocol::Topology::complete(2));
    let mut spec = RunSpec::new(info, setup);
    spec.reliable = true;
    let clients = [conclave_protocol::NodeId(0)];
    spec.workload = conclave_sim::Workload::burst(clients, spec.setup.delay);
    let file = again(&spec);
    let asked = file.events.iter().find(|event| event.event == "request").expect("p0 asks");
    let [Alarm::Set { set, after }] = &asked.timers[..] else { panic!("{:?}", asked.timers) };
    assert_eq!((set.as_str(), *after), ("Resend(p1)", 3_000_000));
    let cancelled = Alarm::Cancelled { cancelled: set.clone() };
    assert!(file.events.iter().any(|event| event.timers == [cancelled.clone()]));
}
