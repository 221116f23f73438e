//! `conclave check` as users meet it: what it proves, what it refutes, and how it ends.

use std::process::{Command, Stdio};

use crate::support::{conclave, ends_with, is_at_work, json, refuses, scratch, stderr, stdout};
use conclave_algorithms::catalogue;
use serde_json::Value;

const RA: &str = "mutex/ricart-agrawala";
const BARE: &str = "mutex/ricart-agrawala-bare-reply";
const NO_TIE_BREAK: &str = "mutex/ra-no-tie-break";

/// The verdict on a property.
fn verdict<'a>(value: &'a Value, property: &str) -> &'a Value {
    let properties = value["properties"].as_array().expect("a list");
    let found = properties.iter().find(|it| it["property"] == property);
    found.unwrap_or_else(|| panic!("{property} was not checked: {value:#}"))
}

#[test]
fn a_sound_algorithm_is_proved_and_every_state_counted() {
    let check = |more: &[&str]| {
        let args = ["check", BARE, "--channels", "fifo", "--property"];
        ends_with(0, &[&args[..], more].concat())
    };
    let text = check(&["ME,ND,NS"]);
    for part in [
        "(mutex/ricart-agrawala-bare-reply), 3 nodes, each linked with each; 3 nodes ask once; mess",
        "✓ ME       holds in all 2,049 states\n",
        "✓ NS       holds in all 2,049 states\n",
        "states     2,049 distinct, 5,489 generated, 3 terminal\n",
        "reduction  off: ND, NS may fail in endless runs",
        "rules      ran ",
        "collision  with probability ",
        " bytes per state",
        " transitions per second",
    ] {
        assert!(text.contains(part), "lacks {part:?}:\n{text}");
    }
    assert!(!text.contains("violat") && !text.contains("history"), "{text}");
    let one = check(&["ME", "--no-reduction"]);
    assert!(one.contains("2,049 distinct, 5,489 generated") && !one.contains("ND"), "{one}");
    assert!(one.contains("reduction  off, as told"), "{one}");
    let reduced = check(&["ME"]);
    assert!(reduced.contains("holds in all 2,049 states"), "{reduced}");
    assert!(reduced.contains("reduction  on") && !reduced.contains("5,489"), "{reduced}");
    let order = check(&["ME,FENCE"]);
    assert!(order.contains("history    FENCE: states count as different"), "{order}");
}

#[test]
fn a_mutant_is_refuted_by_a_shortest_run_that_is_drawn_and_said_in_words() {
    let text = ends_with(1, &["check", NO_TIE_BREAK, "--nodes", "2"]);
    for part in [
        "✗ ME       violated after 6 steps: p0 and p1 are inside together",
        "(as the sound algorithm never does)",
        "A spoilt mutex/ricart-agrawala",
        "a shortest run that violates ME: 6 steps",
        "──Request──",
        "ENTERS #",
        "!! ME violated: p0 and p1 are inside together",
        "Step 6 breaks it: p",
        " gets Reply from p",
        " and enters with token ",
    ] {
        assert!(text.contains(part), "lacks {part:?}:\n{text}");
    }
    let bare = ends_with(1, &["check", NO_TIE_BREAK, "-n", "2", "--no-diagram", "--ascii"]);
    assert!(!bare.contains("ENTERS") && bare.contains("Step 6 breaks it") && bare.is_ascii());
}

#[test]
fn a_counter_example_can_be_run_again_bit_for_bit() {
    let path = scratch("counter-example.json");
    let name = path.to_str().expect("a plain path");
    let text = ends_with(1, &["check", NO_TIE_BREAK, "-n", "2", "--trace", name]);
    assert!(text.contains(&format!("`conclave replay {name}` runs it")), "{text}");
    let said = ends_with(0, &["replay", name]);
    assert!(said.contains("shows: ME violated at step 6: p0 and p1"), "{said}");
    assert!(said.contains("identical: all"), "{said}");
    let unwritten = scratch("no-counter-example.json");
    let output = conclave(&["check", RA, "-n", "2", "--trace", unwritten.to_str().expect("plain")]);
    assert!(stderr(&output).contains("nothing was violated") && !unwritten.exists());
}

#[test]
fn beyond_its_model_an_algorithm_is_refuted_but_not_blamed() {
    let args = ["check", RA, "-n", "2", "--losses", "1", "--beyond-model", "--property", "NS"];
    let text = ends_with(0, &args);
    assert!(text.contains("beyond its model: messages may be lost"), "{text}");
    assert!(text.contains("✗ NS       violated after 2 steps"), "{text}");
    assert!(text.contains("(outside its model)") && text.contains("is lost"), "{text}");
}

#[test]
fn an_endless_run_says_which_steps_repeat() {
    let path = scratch("endless.json");
    let name = path.to_str().expect("a plain path");
    let args = ["check", "mutex/token-ring-bidirectional", "--property", "NS", "--trace", name];
    let text = ends_with(1, &args);
    for part in [
        "✗ NS       violated by an endless run (3 steps to the end of its loop): p2 asked",
        "!! steps 2 to 3 repeat for ever",
        "Steps 2 to 3 repeat for ever:\n    2 p1 gets Token from p0\n    3 p0 gets Token from p1\n",
    ] {
        assert!(text.contains(part), "lacks {part:?}:\n{text}");
    }
    let said = ends_with(0, &["replay", name]);
    assert!(said.contains("steps 2 to 3 repeat for ever") && said.contains("identical"), "{said}");
}

#[test]
fn who_starves_while_others_ask_for_ever_is_shown_and_replayed() {
    let path = scratch("starved.json");
    let name = path.to_str().expect("a plain path");
    let greedy = ["check", "mutex/tree-greedy", "--topology", "line", "--channels", "fifo"];
    let endless = ["--requests", "endless", "--set", "wrap=1", "--property", "NS"];
    let text = ends_with(1, &[&greedy[..], &endless, &["--trace", name]].concat());
    for part in [
        "3 nodes ask again and again",
        "✗ NS       violated by an endless run (17 steps to the end of its loop): p0 asked",
        "Steps 10 to 17 repeat for ever:",
    ] {
        assert!(text.contains(part), "lacks {part:?}:\n{text}");
    }
    let said = ends_with(0, &["replay", name]);
    assert!(said.contains("steps 10 to 17 repeat for ever"), "{said}");
    assert!(said.contains("identical"), "{said}");
    let text = ends_with(1, &[&greedy[..], &endless, &["--json"]].concat());
    let value: Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(value["spec"]["requests"], "endless");
    let fair = ["check", "mutex/raymond-tree", "--topology", "line"];
    let text = ends_with(0, &[&fair[..], &endless].concat());
    assert!(text.contains("✓ NS"), "{text}");
}

#[test]
fn what_cannot_be_watched_is_refused() {
    let endless = ["check", RA, "--requests", "endless"];
    refuses(2, &endless, "FCFS-HB compares each request");
    refuses(2, &["check", RA, "--requests", "22"], "22 each make 66");
    refuses(2, &["check", RA, "--requests", "often"], "neither a number nor endless");
    let fenced = ["check", "mutex/raymond-tree", "--set", "wrap=2", "--property", "FENCE"];
    refuses(2, &fenced, "FENCE is about the order of fencing tokens");
}

#[test]
fn what_never_happened_is_named() {
    let text = ends_with(0, &["check", "fd/heartbeat", "-n", "2", "--property", "ACCURATE"]);
    assert!(text.contains("never seen message Beat"), "{text}");
    assert!(text.contains("timer Overdue of p0 runs out: it suspects p1."), "{text}");
    assert!(text.contains("(known: "), "{text}");
}

#[test]
fn json_says_what_the_text_says() {
    let value = json(&["check", BARE, "--channels", "fifo", "--property", "ME,ND,NS", "--json"]);
    assert_eq!(value["coverage"]["states"], 2_049);
    assert_eq!(value["coverage"]["transitions"], 5_488);
    assert_eq!(verdict(&value, "ME")["verdict"], "holds");
    assert_eq!(verdict(&value, "ME")["promised"], true);
    assert_eq!(value["violated"], false);
    assert!(value["transitions_per_second"].as_f64().is_some_and(|rate| rate > 0.0));
    let value = json(&["check", NO_TIE_BREAK, "-n", "2", "--json"]);
    let broken = verdict(&value, "ME");
    assert_eq!(broken["verdict"], "violated");
    assert_eq!(broken["decisions"].as_array().map(Vec::len), Some(6));
    assert_eq!(broken["steps"].as_array().map(Vec::len), Some(6));
    assert_eq!(value["violated"], true);
}

#[test]
fn limits_stop_a_search_cleanly_and_say_what_was_covered() {
    let states = ends_with(6, &["check", RA, "--states", "500"]);
    assert!(states.contains("stopped before it was done: --states allows no more"), "{states}");
    assert!(states.contains("~ ME       holds so far ("), "{states}");
    let depth = ends_with(6, &["check", RA, "--depth", "5"]);
    assert!(depth.contains("holds so far (") && depth.contains("runs of up to 5 steps"), "{depth}");
    let memory = ends_with(6, &["check", RA, "-n", "4", "--memory", "1MiB"]);
    assert!(memory.contains("it would take more than 1MiB; --memory gives it more"), "{memory}");
    // What has been found by then has been found.
    let found = ends_with(1, &["check", NO_TIE_BREAK, "--states", "20000", "-r", "2"]);
    assert!(found.contains("ME       violated after"), "{found}");
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_searched() {
    refuses(2, &["check"], "<ID>");
    refuses(2, &["check", "mutex/ricart-agrwala"], "did you mean mutex/ricart-agrawala");
    refuses(2, &["check", RA, "--all"], "cannot be used with");
    refuses(2, &["check", RA, "--deep"], "--all");
    refuses(2, &["check", RA, "--property", "L1"], "not for mutex/ricart-agrawala");
    refuses(2, &["check", RA, "--property", "MX"], "ME, ND, NS");
    refuses(2, &["check", RA, "--recoveries", "1"], "more recoveries than --crashes");
    refuses(2, &["check", RA, "--mid-step"], "--crashes");
    refuses(2, &["check", RA, "--memory", "2parsecs"], "2GiB");
    refuses(2, &["check", RA, "--count", "--requests", "2"], "--count");
    refuses(2, &["check", RA, "--threads", "0"], "0 is not in");
    refuses(3, &["check", RA, "--nodes", "17"], "1 to 16 nodes");
    refuses(3, &["check", RA, "--clients", "0..9"], "only nodes p0 to p2");
    refuses(3, &["check", RA, "--set", "speed=9"], "has no option \"speed\"");
    refuses(3, &["check", RA, "--topology", "ring"], "needs a complete topology");
    refuses(4, &["check", RA, "--crashes", "1"], "--beyond-model");
    refuses(4, &["check", RA, "--losses", "1"], "relies on each arriving");
    refuses(4, &["check", "mutex/lamport", "--channels", "reordering"], "overtake");
    refuses(5, &["check", NO_TIE_BREAK, "-n", "2", "--trace", "/no/such/x.json"], "/no/such");
}

#[test]
fn a_walk_at_random_finds_a_violation_before_the_search_does() {
    let args = ["check", NO_TIE_BREAK, "-r", "2", "--no-diagram", "--hunt"];
    let text = ends_with(1, &args);
    assert!(text.contains("hunt       at random, ME was violated within"), "{text}");
    assert!(text.contains("a shortest run that violates ME"), "{text}");
    // A search that stops too early has nothing to say; the walk has.
    let short = [&args[..], &["7", "--states", "50"]].concat();
    let text = ends_with(1, &short);
    assert!(
        text.contains("stopped before it was done") && text.contains("ME       violated after")
    );
    let value = json(&[&args[..], &["--json"]].concat());
    assert_eq!(value["hunt"]["property"], "ME");
}

#[test]
fn messages_are_counted_over_all_runs_beside_the_theory() {
    let text = ends_with(0, &["check", RA, "--count"]);
    for part in [
        "an entry of p0       4     4  2*(N-1) = 4 ✓",
        "a whole run         12    12",
        "2*N*(N-1) = 12 ✓",
        "theory: mutex/ricart-agrawala/idle",
    ] {
        assert!(text.contains(part), "lacks {part:?}:\n{text}");
    }
    let value = json(&["check", RA, "--count", "--json"]);
    assert_eq!(value["messages"]["whole"], serde_json::json!([12, 12]));
    assert_eq!(value["theory"]["of_node"][0]["alone"]["agrees"], true);
}

#[test]
fn a_table_says_which_faults_an_algorithm_bears() {
    let args = ["check", RA, "-n", "2", "--budget-table"];
    let text = ends_with(0, &args);
    let row = |name: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(name));
        let line = line.unwrap_or_else(|| panic!("no row {name:?}:\n{text}"));
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(row("nothing").starts_with("nothing within ✓ ✓ ✓"), "{text}");
    assert!(row("a lost message").starts_with("a lost message beyond ✓ ✗"), "{text}");
    assert!(row("a crash").starts_with("a crash beyond ✓ ✗"), "{text}");
    for name in ["two crashes", "a repeated message", "a partition", "a crash with amnesia"] {
        assert!(row(name).contains("beyond"), "{text}");
    }
    let value = json(&[&args[..], &["--json"]].concat());
    let rows = value["rows"].as_array().expect("rows");
    let nothing = rows.iter().find(|row| row["faults"] == "nothing").expect("the row");
    assert_eq!(nothing["within_model"], true);
    assert_eq!(verdict(nothing, "ME")["verdict"], "holds");
    let lost = rows.iter().find(|row| row["faults"] == "a lost message").expect("the row");
    assert_eq!(verdict(lost, "NS")["verdict"], "violated");
}

#[test]
fn the_whole_catalogue_is_checked_in_one_table() {
    let text = ends_with(0, &["check", "--all"]);
    for info in catalogue::infos() {
        if ["mutex", "election", "fd"].contains(&info.family()) {
            let row = text.lines().any(|line| line.split(' ').next() == Some(info.name()));
            let excused = text.contains(&format!(" of {}", info.id));
            assert!(row || excused, "{} is not shown:\n{text}", info.id);
        }
    }
    assert!(text.contains(" entries, ") && text.contains(" of them mutants"), "{text}");
    assert!(text.contains("no promise is broken"), "{text}");
    // What is claimed to fail has to be found to fail.
    let short = ends_with(1, &["check", "--all", "--states", "300"]);
    assert!(short.contains("wrong: ") && short.contains("no run was found that violates"));
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_search_with_what_was_covered() {
    let args = ["check", RA, "-n", "5", "-r", "2", "--memory", "1GiB"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_conclave"));
    let child = command.args(args).stdout(Stdio::piped()).spawn().expect("the program starts");
    is_at_work(child.id());
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.expect("kill is there").success());
    let output = child.wait_with_output().expect("the program ends");
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(text.contains("Ctrl-C was pressed") && text.contains("holds so far"), "{text}");
}

#[test]
fn help_says_how_a_check_ends() {
    let help = ends_with(0, &["check", "--help"]);
    for part in ["How a check ends:", "Exit codes:", "6  a search was stopped", "--budget-table"] {
        assert!(help.contains(part), "lacks {part:?}:\n{help}");
    }
}

#[test]
fn the_manual_says_which_crash_each_election_survives() {
    let page = include_str!("../../../../docs/elections.md");
    let table = |text: &str| -> Vec<Vec<String>> {
        let rows = text.lines().filter(|line| line.starts_with("| `"));
        // The last column counts states, of which a search that is stopped visits more or fewer.
        let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect();
        rows.map(cells)
            .map(|mut cells: Vec<String>| {
                cells.truncate(8);
                cells
            })
            .collect()
    };
    let (told, found) =
        (table(page), table(&ends_with(0, &["check", "election", "--crash-table", "--markdown"])));
    assert_eq!(told.len(), found.len(), "an election is missing");
    let stopped = |cell: &str| cell.trim_start_matches('(').starts_with('~');
    for (told, found) in told.iter().zip(&found) {
        for (column, (said, is)) in told.iter().zip(found).enumerate() {
            let same = said == is || stopped(said) && stopped(is);
            assert!(
                same,
                "{}, column {column}: the manual says {said:?}, and it is {is:?}",
                told[1]
            );
        }
    }
    refuses(2, &["check", "mutex/lamport", "--crash-table"], "is about elections of one leader");
}
