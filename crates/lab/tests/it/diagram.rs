//! Runs drawn as text.

use conclave_lab::diagram::{Diagram, Options, Piece, Tone, draw};
use conclave_lab::flags::RunFlags;
use conclave_lab::report::Remark;
use conclave_lab::{find, simulate};

/// The diagram of a run of the centralized algorithm, with a remark about its last event.
fn drawn(nodes: u32, width: usize, ascii: bool) -> Diagram {
    let info = find("mutex/centralized").unwrap();
    let ask = vec!["1@0".parse().unwrap()];
    let spec = RunFlags { nodes, ask, ..RunFlags::default() }.allowed(info).unwrap();
    let trace = simulate(&spec).unwrap().trace;
    let remarks = [Remark { record: trace.records.len() - 1, text: "seen".to_owned() }];
    draw(&trace, &remarks, &Options { width, ascii, unit: spec.setup.delay, events: 60 })
}

fn text(diagram: &Diagram) -> Vec<String> {
    let line = |pieces: &Vec<Piece>| pieces.iter().map(|piece| piece.text.as_str()).collect();
    diagram.lines.iter().map(line).collect()
}

#[test]
fn time_runs_downward_and_arrows_across() {
    let expected = [
        "     T   p0                      p1",
        "     0   │                       ┊ asks Request→p0",
        "     1   │◀────────Request───────┊",
        "         │ Grant→p1              ┊",
        "     2   │────────Grant─────────▶║ ENTERS #1",
        "     3   │                       │ LEAVES Release→p0",
        "     4   │◀────────Release───────│",
        "     !! seen",
        "         │ outside   ┊ waiting   ║ inside",
    ];
    assert_eq!(text(&drawn(2, 60, false)), expected);
}

#[test]
fn pieces_say_how_they_are_meant() {
    let diagram = drawn(2, 60, true);
    let tone = |text: &str| {
        let mut pieces = diagram.lines.iter().flatten();
        pieces.find(|piece| piece.text.contains(text)).map(|piece| piece.tone)
    };
    assert_eq!(tone("ENTERS"), Some(Tone::Good));
    assert_eq!(tone("asks"), Some(Tone::Strong));
    assert_eq!(tone("!!"), Some(Tone::Bad));
    assert_eq!(tone("outside"), Some(Tone::Dim));
    assert!(text(&diagram).iter().all(|line| line.is_ascii()));
    let json = serde_json::to_value(&diagram).unwrap();
    assert_eq!(json["lines"][0][0]["tone"], "dim");
}

#[test]
fn many_nodes_are_listed_rather_than_drawn() {
    let asks = "     0   : p1    asks  Request->p0";
    assert_eq!(text(&drawn(11, 200, true))[1], asks);
    assert_eq!(text(&drawn(3, 40, true))[1], asks, "nor is there room for three");
}

/// A run of a snapshot among three, drawn.
fn snapshot(ascii: bool) -> Vec<String> {
    let info = find("snapshot/chandy-lamport").unwrap();
    let ask = vec!["0@1".parse().unwrap()];
    let set = vec!["transfers=1".parse().unwrap()];
    let flags = RunFlags { nodes: 3, ask, set, ..RunFlags::default() };
    let spec = flags.allowed(info).unwrap();
    let trace = simulate(&spec).unwrap().trace;
    text(&draw(&trace, &[], &Options { width: 110, ascii, unit: spec.setup.delay, events: 60 }))
}

#[test]
fn the_cut_of_a_snapshot_runs_through_the_lives_where_nodes_record() {
    let lines = snapshot(false);
    let begins = lines.iter().position(|line| line.starts_with("     2 ")).expect("T = 2");
    let expected = [
        "     2   │╌╌╌╌╌╌╌╌Marker╌╌╌╌╌╌╌╌▶│                       │",
        "         │           ━━━━━━━━━━━━┿━RECORDS #0━           │",
        "         │                       │ channel from p0 done #0",
        "         │                       │ Marker→p0,p2          │",
        "         │╌╌╌╌╌╌╌╌Marker╌╌╌╌╌╌╌╌╌┼╌╌╌╌╌╌╌╌╌╌╌╂╌╌╌╌╌╌╌╌╌╌▶│",
        "         │                       │           ━━━━━━━━━━━━┿ RECORDS #0 channel from p0 done #0 \
         Marker→p0,p1",
        "         │───────Transfer────────┼──────────────────────▶│",
    ];
    assert_eq!(lines[begins..begins + expected.len()], expected);
    // Before it, between the node that has recorded and those that have not.
    let down: Vec<&String> = lines[..begins].iter().filter(|line| line.contains('┃')).collect();
    assert!(
        !down.is_empty() && down.iter().all(|line| line.chars().nth(21) == Some('┃')),
        "{down:?}"
    );
    assert!(!lines[begins + expected.len()..lines.len() - 1].join("").contains(['┃', '━', '╂']));
    assert!(lines.last().unwrap().ends_with("╌╌ control message   ━━ cut of snapshot #0"));
    assert!(snapshot(true).iter().all(|line| line.is_ascii()));
}
