//! Applications that never stop asking, and orders of requests that cannot be watched.

use conclave_algorithms::mutex::{Algorithm, dijkstra_1965, raymond_tree, ricart_agrawala};
use conclave_check::{CheckError, CheckSpec, Progress, Report, Requests, Verdict, check};
use conclave_protocol::{Action, Channels, Entry, Property, Setup, Topology};

fn spec<P: Algorithm>(entry: &Entry<P>, setup: Setup, properties: &[Property]) -> CheckSpec {
    let config = (entry.config)(&setup).expect("it fits");
    let clients = (entry.clients)(&config, setup.n());
    let properties = properties.to_vec();
    CheckSpec { properties, ..CheckSpec::new(&entry.info, setup, clients) }
}

fn run<P: Algorithm>(entry: &Entry<P>, spec: &CheckSpec) -> Result<Report, CheckError> {
    check(entry, spec, &Progress::default())
}

/// Whether no node starves in a line of three where all ask for ever.
fn endless<P: Algorithm>(entry: &Entry<P>) -> Report {
    let setup = Setup::new(Topology::line(3)).with("wrap", 1);
    let live = [Property::NoDeadlock, Property::NoStarvation];
    let mut spec = spec(entry, setup, &live);
    (spec.requests, spec.channels) = (Requests::Endless, Channels::Fifo);
    run(entry, &spec).expect("it can be checked")
}

#[test]
fn whoever_never_stops_asking_starves_others_or_does_not() {
    let fair = endless(&raymond_tree::PLAIN);
    assert_eq!(fair.violations().count(), 0);
    let greedy = endless(&raymond_tree::GREEDY);
    assert_eq!(greedy.coverage.states, fair.coverage.states);
    assert!(matches!(greedy.verdict(Property::NoDeadlock), Some(Verdict::Holds)));
    let starved = greedy.verdict(Property::NoStarvation);
    let Some(Verdict::Violated(violation)) = starved else { panic!("{starved:?}") };
    assert_eq!(violation.why, "p0 asked and never enters");
    // In the loop, the others ask again.
    let from = violation.loop_from.expect("it is endless");
    let round = &violation.decisions[from..];
    for node in [1, 2] {
        let asks = |what: &Action| matches!(what, Action::Ask { node: it, .. } if it.0 == node);
        assert!(round.iter().any(|decision| asks(&decision.what)), "{round:?}");
    }
}

#[test]
fn without_wrap_tokens_make_every_state_new() {
    let entry = &dijkstra_1965::PLAIN;
    let setup = Setup::new(Topology::complete(3));
    let mut spec = spec(entry, setup, &[Property::NoStarvation]);
    spec.requests = Requests::Endless;
    spec.limits.states = Some(20_000);
    let report = run(entry, &spec).expect("it can be checked");
    assert!(matches!(report.verdict(Property::NoStarvation), Some(Verdict::Open)));
    spec.setup = spec.setup.with("wrap", 1);
    let report = run(entry, &spec).expect("it can be checked");
    assert!(report.coverage.stop.is_none() && report.coverage.states < 5_000);
    assert_eq!(report.violations().count(), 1);
}

fn refusal<P: Algorithm>(entry: &Entry<P>, spec: &CheckSpec) -> String {
    run(entry, spec).expect_err("it cannot be checked").to_string()
}

#[test]
fn the_order_of_more_requests_than_can_be_told_apart_is_refused() {
    let entry = &ricart_agrawala::PLAIN;
    let order = [Property::FcfsHappenedBefore];
    let mut spec = spec(entry, Setup::new(Topology::complete(3)), &order);
    spec.limits.states = Some(100);
    spec.requests = Requests::AtMost(21);
    assert!(run(entry, &spec).is_ok());
    spec.requests = Requests::AtMost(22);
    assert_eq!(
        refusal(entry, &spec),
        "FCFS-HB is watched for up to 64 requests, and 3 nodes with 22 each make 66: check fewer, \
         or other properties"
    );
    spec.requests = Requests::Endless;
    assert!(refusal(entry, &spec).contains("there is no end to these"));
    spec.properties = vec![Property::Exclusion];
    assert!(run(entry, &spec).is_ok());
}

#[test]
fn the_order_of_tokens_that_come_again_is_refused() {
    let entry = &raymond_tree::PLAIN;
    let setup = Setup::new(Topology::line(3)).with("wrap", 2);
    let default = CheckSpec::new(&entry.info, setup.clone(), 0..3);
    assert!(!default.properties.contains(&Property::FenceOrder));
    let spec = spec(entry, setup, &[Property::FenceOrder]);
    assert!(refusal(entry, &spec).starts_with("FENCE is about the order of fencing tokens"));
}

#[test]
fn requests_are_a_number_or_a_word() {
    for (text, json, requests) in
        [("2", "2", Requests::AtMost(2)), ("endless", "\"endless\"", Requests::Endless)]
    {
        assert_eq!(text.parse(), Ok(requests));
        assert_eq!(requests.to_string(), text);
        assert_eq!(serde_json::to_string(&requests).expect("it is plain"), json);
        assert_eq!(serde_json::from_str::<Requests>(json).expect("it is read"), requests);
    }
    let unread: Result<Requests, String> = "often".parse();
    assert_eq!(unread.unwrap_err(), "often is neither a number nor endless");
}
