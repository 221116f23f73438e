//! What a user types.

use std::fmt::{Debug, Display};
use std::str::FromStr;
use std::time::Duration;

use conclave_lab::flags::{
    AskAt, Attributes, CheckFlags, DelayModel, DetectorModel, Files, GroupsWhile, LabelAt,
    MeanRate, NodeAt, NodeWhile, Nodes, PairAt, Rounds, RunFlags, Setting, Share, Size, Slow, Span,
    Spans, command,
};
use conclave_lab::{Refusal, find};
use conclave_protocol::{NodeId, Point, Topology};
use conclave_sim::{Arrivals, Delay};

const MS: Duration = Duration::from_millis(1);

#[test]
fn times_are_read_exactly() {
    let read = |text: &str| text.parse::<Span>().map(|span| span.with(MS * 2).as_nanos());
    assert_eq!(read("5ms"), Ok(5_000_000));
    assert_eq!(read("0.1ms"), Ok(100_000));
    assert_eq!(read(".5us"), Ok(500));
    assert_eq!(read("3T"), Ok(6_000_000));
    assert_eq!(read("1.5"), Ok(3_000_000));
    assert_eq!(read("2s"), Ok(2_000_000_000));
    assert_eq!(read("0"), Ok(0));
    for bad in ["", "ms", "5 parsecs", "-1ms", "1e3", "99999999999999s"] {
        assert!(read(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn the_flags_of_the_manual_are_understood() {
    let slow: Slow = "1->0:10ms@2ms..5ms".parse().unwrap();
    assert_eq!((slow.from, slow.to, slow.delay), (NodeId(1), NodeId(0), Span::Nanos(10_000_000)));
    assert!(slow.window.is_some_and(|window| window.to == Some(Span::Nanos(5_000_000))));
    let ask: AskAt = "p2@1ms:5ms".parse().unwrap();
    assert_eq!((ask.node, ask.hold), (NodeId(2), Some(Span::Nanos(5_000_000))));
    let apart: GroupsWhile = "0,1|2,3@5ms..9ms".parse().unwrap();
    assert_eq!(apart.groups.len(), 2);
    assert_eq!("5%".parse(), Ok(Share(50_000)));
    assert_eq!("0.5%".parse(), Ok(Share(5_000)));
    assert_eq!("0.05".parse(), Ok(Share(50_000)));
}

#[test]
fn what_makes_no_sense_is_refused_with_an_example() {
    assert!("3".parse::<NodeAt>().unwrap_err().contains("3@5ms"));
    assert!("x@5".parse::<NodeAt>().unwrap_err().contains("no node"));
    assert!("0,1|1,2@5".parse::<GroupsWhile>().unwrap_err().contains("two groups"));
    assert!("150%".parse::<Share>().is_err());
    let settling: DelayModel = "settling:1ms:2T:100".parse().unwrap();
    let (mean, bound, at) = (Span::Nanos(1_000_000), "2T".parse().unwrap(), "100".parse().unwrap());
    assert_eq!(settling, DelayModel::Settling { mean, bound, at });
    assert!("settling:1ms:2ms".parse::<DelayModel>().unwrap_err().contains("1ms:2ms:100ms"));
    assert!("gauss:1ms".parse::<DelayModel>().unwrap_err().contains("uniform:0.5ms..1.5ms"));
}

#[test]
fn sizes_have_units_of_two_kinds() {
    let size = |text: &str| text.parse::<Size>().map(|Size(bytes)| bytes);
    assert_eq!(size("2GiB"), Ok(2 << 30));
    assert_eq!(size("1.5M"), Ok(3 << 19));
    assert_eq!(size("500MB"), Ok(500_000_000));
    assert_eq!(size("4096"), Ok(4096));
    for wrong in ["", "0", "GiB", "2parsecs", "-1G", "99999999TiB"] {
        assert!(size(wrong).unwrap_err().contains("2GiB"), "{wrong}");
    }
    assert_eq!(Size(2 << 30).to_string(), "2GiB");
    assert_eq!(Size(3 << 19).to_string(), "1.5MiB");
    assert_eq!(Size(100).to_string(), "100 bytes");
}

#[test]
fn nodes_in_a_row_end_before_the_last_number() {
    assert_eq!("0..2".parse(), Ok(Nodes(0..2)));
    assert_eq!("p1".parse(), Ok(Nodes(1..2)));
    assert!("2..2".parse::<Nodes>().unwrap_err().contains("names no node"));
}

#[test]
fn attributes_are_given_or_drawn() {
    assert_eq!("5, 5,9".parse(), Ok(Attributes::Given(vec![5, 5, 9])));
    let drawn = Attributes::Random.of(100, 3);
    assert_eq!(drawn, Attributes::Random.of(100, 3));
    assert_ne!(drawn, Attributes::Random.of(100, 4));
    let mut sorted = drawn;
    sorted.sort_unstable();
    assert!(sorted.into_iter().eq(1..=100));
    let refused = "5,x".parse::<Attributes>().unwrap_err();
    assert!(refused.contains("\"x\" is not a number"), "{refused}");
}

/// What is written is read as the same.
#[track_caller]
fn kept<T: FromStr<Err = String> + Display + Debug + PartialEq>(texts: &[&str]) {
    for text in texts {
        let value: T = text.parse().unwrap();
        let written = value.to_string();
        assert_eq!(written.parse().as_ref(), Ok(&value), "{text} became {written}");
    }
}

#[test]
fn values_are_written_as_they_are_read() {
    kept::<Span>(&["5ms", "0.1ms", "1.5s", "1ns", "1500ns", "90min", "3T", "0.05", "0", "7"]);
    kept::<Spans>(&["2ms", "0..4T", "1ms..1ms"]);
    kept::<MeanRate>(&["500", "500:50", "2s:1ms"]);
    kept::<NodeAt>(&["3@5ms", "p3@0"]);
    kept::<AskAt>(&["2", "2@1ms", "2@1ms:5ms"]);
    kept::<NodeWhile>(&["2@3ms..8ms", "2@3"]);
    kept::<GroupsWhile>(&["0,1|2,3@5ms..9ms", "0|1|2@1"]);
    kept::<PairAt>(&["1:0@3ms"]);
    kept::<LabelAt>(&["Token@3ms"]);
    kept::<Slow>(&["1->0:10ms", "1->0:10ms@2ms..5ms", "1->0:10ms@2ms"]);
    kept::<Share>(&["5%", "0.5%", "0.05", "1ppm"]);
    kept::<Setting>(&["units=2", "name=a=b"]);
    kept::<DelayModel>(&["unit", "const:1ms", "uniform:0.5..1", "exp:1ms", "serial:2T"]);
    kept::<DelayModel>(&["settling:1ms:2ms:100ms", "matrix:a file"]);
    kept::<Rounds>(&["3", "endless"]);
    kept::<DetectorModel>(&["off", "2T"]);
    kept::<Nodes>(&["0..2", "3"]);
    kept::<Attributes>(&["5,5,9", "random"]);
    assert_eq!("90min".parse::<Span>().unwrap().to_string(), "5400s");
    assert_eq!("0.05".parse::<Span>().unwrap().to_string(), "0.05T");
}

#[test]
fn a_file_has_links_and_perhaps_places() {
    let info = find("election/wireless-tree").unwrap();
    let read = |text: &str| -> Result<Topology, String> {
        let files = Files::from([("places".to_owned(), text.to_owned())]);
        let flags = RunFlags { topology: Some("places".into()), files, ..RunFlags::default() };
        Ok(flags.spec(info).map_err(|refusal| refusal.to_string())?.setup.topology)
    };
    let placed = read("0 1\n1 2 # a line\nat 0 0 0\nat 1 1.5 0\nat 2 3 0 -1\n").unwrap();
    assert_eq!(placed.point(NodeId(2)), Some(Point([3000, 0, -1000])));
    assert_eq!(read("0 1\n1 2\n").unwrap().point(NodeId(0)), None);
    let refused = |text| read(text).unwrap_err();
    assert!(refused("0 1\n1 2\nat 0 1\n").contains("not one for each"));
    assert!(refused("0 1\nat x 1 1\n").contains("places, line 2"));
    let one_way = read("0 1\n1 -> 2\n").unwrap_err();
    assert!(one_way.contains("links that lead both ways"), "{one_way}");
}

#[test]
fn a_file_has_links_that_lead_one_way() {
    let info = find("snapshot/chandy-lamport").unwrap();
    let read = |text: &str| {
        let files = Files::from([("links".to_owned(), text.to_owned())]);
        RunFlags { topology: Some("links".into()), files, ..RunFlags::default() }.spec(info)
    };
    let topology = read("0 1\n1 -> 2\n2 -> 0\n").unwrap().setup.topology;
    let links = [(0, 1), (1, 0), (1, 2), (2, 0)].map(|(a, b)| (NodeId(a), NodeId(b)));
    assert_eq!(Ok(topology), Topology::digraph(3, &links));
    let refused = |text| read(text).unwrap_err().to_string();
    assert!(refused("0 -> 1\n").contains("links: "));
    assert!(refused("0 -> 1\n1 -> 2\nat 0 1 1\n").contains("both ways only"));
}

#[test]
fn a_file_has_a_delay_for_each_link() {
    let info = find("mutex/lamport").unwrap();
    let read = |files| {
        let delay = Some(DelayModel::Matrix("delays".into()));
        RunFlags { nodes: 2, delay, files, ..RunFlags::default() }.spec(info)
    };
    let file = |text: &str| Files::from([("delays".to_owned(), text.to_owned())]);
    let spec = read(file("0 2ms\n\n3T 0\n")).unwrap();
    let (zero, two, three) = (Duration::ZERO, MS * 2, MS * 3);
    assert_eq!(spec.delays.model, Delay::Matrix(vec![vec![zero, two], vec![three, zero]]));
    let refused = |files| read(files).unwrap_err().to_string();
    assert!(refused(file("0 1\n")).contains("delays: for 2 nodes there have to be 2 rows"));
    assert!(refused(file("0 1\nx 0\n")).contains("is no time"));
    assert!(refused(Files::new()).contains("there is no such file"));
}

#[test]
fn json_says_what_a_command_line_says() {
    let json = r#"{"nodes": 5, "delay": "exp:1ms", "crash": ["2@4"], "recover-empty": ["2@9"]}"#;
    let flags: RunFlags = serde_json::from_str(json).unwrap();
    let expected = RunFlags {
        nodes: 5,
        delay: Some("exp:1ms".parse().unwrap()),
        crash: vec!["2@4".parse().unwrap()],
        recover_empty: vec!["2@9".parse().unwrap()],
        ..RunFlags::default()
    };
    assert_eq!(flags, expected);
    let line = command(["conclave", "run", "mutex/lamport"], flags.flags());
    let said =
        "conclave run mutex/lamport --crash 2@4T --delay exp:1ms --nodes 5 --recover-empty 2@9T";
    assert_eq!(line, said);
    let flags: CheckFlags =
        serde_json::from_str(r#"{"requests": "endless", "mid-step": true, "crashes": 1}"#).unwrap();
    let line = command(["conclave", "check", "mutex/lamport"], flags.flags());
    assert_eq!(line, "conclave check mutex/lamport --crashes 1 --mid-step --requests endless");
    let written = serde_json::to_string(&flags).unwrap();
    assert_eq!(serde_json::from_str::<CheckFlags>(&written).unwrap(), flags);
    let wrong = |json| serde_json::from_str::<RunFlags>(json).unwrap_err().to_string();
    assert!(wrong(r#"{"crash": ["2"]}"#).contains("NODE@TIME, as in 3@5ms"));
    assert!(wrong(r#"{"craash": []}"#).contains("unknown field `craash`"));
}

#[test]
fn words_are_quoted_for_a_shell() {
    let flags = [("partition".to_owned(), Some("0|1@2".to_owned())), ("ascii".to_owned(), None)];
    let said = "conclave 'it'\\''s' --partition '0|1@2' --ascii";
    assert_eq!(command(["conclave", "it's"], flags), said);
}

#[test]
fn each_family_has_its_usual_workload() {
    let asks = |id| match (RunFlags::default().spec(find(id).unwrap()).unwrap()).workload.arrivals {
        Arrivals::Plan(asks) => asks.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!([asks("mutex/lamport"), asks("election/bully"), asks("fd/heartbeat")], [3, 1, 0]);
}

#[test]
fn what_is_left_open_is_left_to_chance() {
    let said = |(_, added): (RunFlags, Vec<_>)| command([], added);
    let flags = RunFlags { nodes: 4, ..RunFlags::default() };
    let all = "--delay uniform:0.05T..1T --rounds 3 --think 0..8T --hold 0..2T";
    assert_eq!(said(flags.with_chance()), all);
    let flags = RunFlags { ask: vec!["1@2".parse().unwrap()], ..flags };
    assert_eq!(said(flags.with_chance()), "--delay uniform:0.05T..1T --hold 0..2T");
}

#[test]
fn a_run_beyond_the_model_is_refused_unless_it_is_wanted() {
    let info = find("mutex/lamport").unwrap();
    let crash = vec!["1@2".parse().unwrap()];
    let mut flags = RunFlags { crash, ..RunFlags::default() };
    assert!(matches!(flags.allowed(info), Err(Refusal::BeyondModel { .. })));
    flags.beyond_model = true;
    assert!(flags.allowed(info).is_ok());
    let mut flags = CheckFlags { crashes: 1, ..CheckFlags::default() };
    assert!(matches!(flags.allowed(info), Err(Refusal::BeyondModel { .. })));
    flags.beyond_model = true;
    assert!(flags.allowed(info).is_ok());
}

#[test]
fn what_ends_before_it_begins_is_refused() {
    let info = find("mutex/lamport").unwrap();
    let pause = vec!["1@5..2".parse().unwrap()];
    let refused = RunFlags { pause, ..RunFlags::default() }.spec(info).unwrap_err();
    assert!(refused.to_string().contains("--pause ends before it begins"), "{refused}");
    let refused = CheckFlags { recoveries: 1, ..CheckFlags::default() }.spec(info).unwrap_err();
    assert!(refused.to_string().contains("more recoveries than --crashes"), "{refused}");
}
