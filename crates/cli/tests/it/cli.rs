//! The program as users meet it: what it prints, and how it ends.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::support::{conclave, ends_with, is_at_work, json, refuses, scratch, stderr, stdout};
use conclave_algorithms::catalogue;

const RA: &str = "mutex/ricart-agrawala";

#[test]
fn list_shows_every_algorithm_and_mutants_only_on_request() {
    let (plain, all) = (ends_with(0, &["list"]), ends_with(0, &["list", "--mutants"]));
    for info in catalogue::infos() {
        assert!(all.contains(info.id), "{}", info.id);
        let shown = plain.split_whitespace().any(|word| word == info.id);
        assert_eq!(shown, info.mutant.is_none(), "{}", info.id);
    }
    let listed = json(&["list", "mutex", "--mutants", "--json"]);
    let listed = listed["entries"].as_array().expect("a list");
    let ids = listed.iter().filter(|entry| entry["topic"] != true).count();
    assert_eq!(ids, catalogue::infos().filter(|info| info.family() == "mutex").count());
    for topic in catalogue::TOPICS {
        assert!(plain.contains(topic.id), "{}", topic.id);
        assert!(ends_with(0, &["explain", topic.id]).contains(topic.title));
        assert_eq!(json(&["explain", topic.id, "--json"])["id"], topic.id);
        refuses(2, &["run", topic.id], "conclave explain");
    }
}

#[test]
fn list_has_a_line_for_each_entry_that_fits_the_terminal() {
    let longest = catalogue::infos().map(|info| info.id.len()).max().expect("there are some");
    for width in [40, 60, 80, 100, 160] {
        let text = ends_with(0, &["list", "--mutants", "--width", &width.to_string()]);
        for info in catalogue::infos() {
            let mut lines =
                text.lines().filter(|line| line.split_whitespace().next() == Some(info.id));
            let line = lines.next().unwrap_or_else(|| panic!("{} is not in {text}", info.id));
            assert_eq!(lines.next(), None, "one line for {}", info.id);
            assert!(line.chars().count() <= width.max(2 + longest), "{width}: {line}");
        }
    }
    let wide = ends_with(0, &["list", "mutex", "--width", "160"]);
    let line = wide.lines().find(|line| line.contains(" mutex/lamport ")).expect("it is there");
    assert!(line.contains("Lamport") && line.ends_with("fifo"), "{line}");
    let narrow = ends_with(0, &["list", "mutex", "--width", "60"]);
    assert!(narrow.contains('…') && !narrow.contains("fifo"), "{narrow}");
}

#[test]
fn list_groups_by_family_and_tells_more_if_asked() {
    let text = ends_with(0, &["list"]);
    for family in ["base", "mutex", "election", "fd"] {
        assert_eq!(text.lines().filter(|line| *line == family).count(), 1, "{family}: {text}");
    }
    let info = catalogue::find(RA).expect("it exists");
    assert!(!text.contains(info.summary), "{text}");
    let long = ends_with(0, &["list", "--long", "--width", "300"]);
    assert!(long.contains(info.summary), "{long}");
}

#[test]
fn explain_tells_idea_rules_model_and_promises_of_every_algorithm() {
    for info in catalogue::infos() {
        let text = ends_with(0, &["explain", info.id]);
        for part in [info.title, info.id, "Rules", "Model"] {
            assert!(text.contains(part), "{} lacks {part:?}:\n{text}", info.id);
        }
        for property in info.holds {
            assert!(text.contains(property.meaning()), "{} lacks {property}", info.id);
        }
        assert!(!text.contains('\u{1b}'), "no colour into a pipe");
        let value = json(&["explain", info.id, "--json"]);
        assert_eq!(value["id"], info.id);
        assert!(value["explanation"].as_str().is_some_and(|text| text.contains("# Rules")));
    }
}

#[test]
fn explain_gives_the_cost_and_what_the_lectures_claim() {
    let text = ends_with(0, &["explain", RA]);
    for part in ["2*(N-1)", "lecture 000", "wrong"] {
        assert!(text.contains(part), "lacks {part:?}:\n{text}");
    }
}

#[test]
fn every_algorithm_runs_with_no_more_than_its_name() {
    for info in catalogue::infos() {
        // Some need more nodes than three, and say so.
        let output = conclave(&["run", info.id]);
        let code = output.status.code();
        let fine = match info.mutant {
            Some(_) => matches!(code, Some(0 | 1 | 3)),
            None => matches!(code, Some(0 | 3)),
        };
        assert!(fine, "{} ends with {code:?}:\n{}{}", info.id, stdout(&output), stderr(&output));
    }
}

#[test]
fn a_run_shows_diagram_costs_and_verdicts() {
    let text = ends_with(0, &["run", RA, "--nodes", "3"]);
    for part in ["p0", "──Request──", "▶", "ENTERS #", "LEAVES", "messages per entry", "✓ ME"]
    {
        assert!(text.contains(part), "lacks {part:?}:\n{text}");
    }
    let plain = ends_with(0, &["run", RA, "--ascii"]);
    assert!(plain.contains("-Request-") && plain.is_ascii(), "{plain}");
    let colored = ends_with(0, &["run", RA, "--color", "always"]);
    assert!(colored.contains('\u{1b}'));
    let bare = ends_with(0, &["run", RA, "--no-diagram"]);
    assert!(!bare.contains("ENTERS") && bare.contains("messages per entry"));
}

#[test]
fn a_mutant_is_caught_in_the_act() {
    let text = ends_with(1, &["run", "mutex/ra-no-tie-break", "--nodes", "3"]);
    assert!(text.contains("!! ME violated: p0 and p1 are inside together"), "{text}");
    assert!(text.contains("✗ ME       VIOLATED"), "{text}");
    let all =
        ends_with(1, &["run", "mutex/ra-no-tie-break", "--ask", "0@0,1@0,2@0", "--hold", "5"]);
    assert!(all.contains("!! ME violated: p0, p1 and p2 are inside together"), "{all}");
}

#[test]
fn many_seeds_report_the_first_violation_and_the_command_that_shows_it() {
    let text = ends_with(0, &["run", RA, "--nodes", "4", "--seeds", "50"]);
    assert!(
        text.contains("50 runs (seeds 0 to 49)") && text.contains("held in 50 of 50"),
        "{text}"
    );

    let args = ["run", "mutex/ra-notify-one", "-n", "4", "--seeds", "40", "--seed", "7"];
    let text = ends_with(1, &args);
    let command = text.lines().find_map(|line| line.strip_prefix("see it: "));
    let words: Vec<&str> = command.expect("a command").split_whitespace().collect();
    assert_eq!(words[0], "conclave");
    let words: Vec<&str> = words[1..].iter().map(|word| word.trim_matches('\'')).collect();
    let shown = ends_with(1, &words);
    assert!(shown.contains("VIOLATED"), "{shown}");
}

#[test]
fn runs_are_the_same_byte_by_byte_and_replays_prove_it() {
    let (one, two) = (scratch("one.json"), scratch("two.json"));
    for path in [&one, &two] {
        let path = path.to_str().expect("a plain path");
        let args = ["--delay", "exp:1ms", "--rounds", "3", "--seed", "11", "--trace", path];
        ends_with(0, &[&["run", RA, "-n", "4"][..], &args].concat());
    }
    let read = |path: &PathBuf| std::fs::read_to_string(path).expect("the trace was written");
    assert_eq!(read(&one), read(&two));
    let path = one.to_str().expect("a plain path");
    assert!(ends_with(0, &["replay", path]).contains("identical: all"));
    assert_eq!(json(&["replay", path, "--json"])["replay"]["identical"], true);
}

#[test]
fn a_tampered_trace_is_found_out() {
    let path = scratch("tampered.json");
    let name = path.to_str().expect("a plain path");
    ends_with(0, &["run", RA, "--trace", name]);
    let text = std::fs::read_to_string(&path).expect("the trace was written");
    assert!(text.contains("\"label\":\"Reply\""));
    let tampered = text.replacen("\"label\":\"Reply\"", "\"label\":\"Request\"", 1);
    std::fs::write(&path, tampered).expect("the file can be written");
    let said = ends_with(1, &["replay", name]);
    assert!(said.contains("different from event"), "{said}");
}

#[test]
fn files_that_are_no_traces_are_refused_with_the_reason() {
    let refuse = |name: &str, content: &str, reason: &str| {
        let path = scratch(name);
        std::fs::write(&path, content).expect("the file can be written");
        refuses(5, &["replay", path.to_str().expect("a plain path")], reason);
    };
    refuse("corrupt.json", "{\"format\":\"conclave-tr", "not a trace");
    refuse("empty.json", "", "not a trace");
    refuse("future.json", "{\"format\":\"conclave-trace\",\"version\":99}", "version 99");
    refuse("foreign.json", "{\"format\":\"something\",\"version\":1}", "\"something\"");
    refuses(5, &["replay", "no-such-file.json"], "no-such-file.json");
    refuses(5, &["run", RA, "--trace", "/no/such/directory/x.json"], "/no/such/directory");
}

#[test]
fn bad_input_is_refused_before_anything_runs() {
    refuses(2, &["run", "mutex/ricart-agrwala"], "did you mean mutex/ricart-agrawala");
    refuses(2, &["explain", "agrawala"], "mutex/ricart-agrawala");
    refuses(2, &["run", "xyzzy"], "conclave list");
    refuses(2, &["list", "mutx"], "did you mean mutex");
    refuses(2, &["run", RA, "--crash", "3"], "3@5ms");
    refuses(2, &["run", RA, "--hold", "5parsecs"], "bare number means T");
    refuses(2, &["run", RA, "--nodes", "0"], "0 is not in");
    refuses(2, &["run", RA, "--nods", "3"], "--nodes");
    refuses(2, &["run", RA, "--delay", "gauss:1ms"], "uniform:0.5ms..1.5ms");
    refuses(2, &["run", RA, "--loss", "150%"], "5%");
    refuses(2, &["run", RA, "--pause", "0@5..2"], "ends before it begins");
    refuses(2, &["run", RA, "--delay", "uniform:2ms..1ms"], "ends before it begins");
    refuses(2, &["run", RA, "--until", "20000000000s"], "too long");
    refuses(2, &["compare", RA], "compare mutex --only ricart-agrawala");
    refuses(2, &["run", RA, "--ask", "0@0", "--rounds", "3"], "cannot be used with");
    refuses(3, &["run", RA, "--nodes", "5", "--crash", "9@5s"], "only nodes p0 to p4");
    refuses(3, &["run", RA, "--ask", "7@0"], "only nodes p0 to p2");
    refuses(3, &["run", RA, "--slow", "1->8:5ms"], "only nodes p0 to p2");
    refuses(3, &["run", RA, "--set", "speed=9"], "has no option \"speed\"");
    refuses(3, &["run", "mutex/token-ring", "--set", "speed=9"], "it has holder");
    refuses(3, &["run", "mutex/token-ring", "--set", "holder=9"], "only nodes 0 to 2");
    refuses(3, &["run", RA, "--topology", "torus"], "complete, ring");
    refuses(3, &["run", RA, "--topology", "ring"], "needs a complete topology");
    refuses(4, &["run", RA, "--crash", "1@5ms"], "--beyond-model");
    refuses(4, &["run", RA, "--loss", "5%"], "needs reliable channels");
    refuses(5, &["run", RA, "--delay", "matrix:/no/such"], "/no/such");
}

#[test]
fn a_run_stands_beside_the_case_of_the_theory_that_it_is() {
    let shows = |args: &[&str], row: &str, figures: &[&str]| {
        let text = ends_with(0, &[&["run", "--no-diagram"], args].concat());
        assert!(text.contains(&format!("theory: {row} (")), "{args:?} is no {row}:\n{text}");
        for figure in figures {
            assert!(text.contains(figure), "{args:?} lacks {figure}:\n{text}");
        }
    };
    let alone = ["2*(N-1) = 8 ✓", "2*T+E = 3 ✓"];
    shows(&[RA, "-n", "5", "--ask", "2"], "mutex/ricart-agrawala/idle", &alone);
    let all = ["2*N*(N-1) = 12 ✓", "1 ✓"];
    shows(&[RA, "--ask", "0,1,2"], "mutex/ricart-agrawala/burst", &all);
    shows(&[RA], "mutex/ricart-agrawala/idle", &["2*(N-1) = 4 ✓"]);
    let serial = ["2*(N-1)*T+E = 5 ✓"];
    let args = [RA, "--ask", "1", "--delay", "serial:1ms"];
    shows(&args, "mutex/ricart-agrawala/idle-serial-medium", &serial);
    let multicast = ["mutex/ricart-agrawala-multicast", "-n", "6", "--ask", "1"];
    shows(&multicast, "mutex/ricart-agrawala/idle-hardware-multicast", &["N = 6 ✓"]);
    let tree = ["mutex/raymond-tree", "-n", "7", "--ask", "6", "--set", "holder=1"];
    shows(&tree, "mutex/raymond-tree/distance-d", &["2*d = 6 ✓"]);
    let ring = ["mutex/token-ring", "-n", "6", "--ask", "1", "--set", "holder=4"];
    shows(&ring, "mutex/token-ring/distance-d", &["d*T+E = 4 ✓"]);
    let voters = ["mutex/maekawa", "-n", "13", "--ask", "4@3:2"];
    shows(&voters, "mutex/maekawa/idle-projective", &["3*(K-1) = 9 ✓", "2*T+E = 4 ✓"]);
    let crowd = ["mutex/centralized", "-n", "4", "--ask", "1,2,3", "--hold", "5"];
    shows(&crowd, "mutex/centralized/burst", &["3*M = 9 ✓", "2+(M-1)*(E+2) = 16 ✓"]);
    let bound = ["mutex/maekawa-sanders", "-n", "7", "--rounds", "3"];
    shows(&bound, "mutex/maekawa-sanders/contended-bound", &["≤ 6*(K-1) = 12 ✓"]);
    let dead = ["election/bully", "-n", "5", "--crash", "4@0", "--ask", "0@10"];
    shows(&dead, "election/bully/probing", &["a*a+N-2 = 19 ✓"]);
    let lossy = ends_with(0, &["run", RA, "--ask", "0", "--crash", "1@9", "--beyond-model"]);
    assert!(!lossy.contains("theory"), "{lossy}");
}

#[test]
fn flags_without_effect_are_named_after_the_run() {
    let warns = |args: &[&str], text: &str| {
        let output = conclave(&[&["run"], args].concat());
        let said = stderr(&output);
        assert!(said.contains("no effect:") && said.contains(text), "{args:?}: {said:?}");
    };
    warns(&[RA, "--lose", "Foo@1", "--beyond-model"], "--lose Foo: no such message");
    warns(&["fd/timeout-sync", "--ask", "0@1"], "--ask");
    warns(&["election/bully", "--hold", "3"], "--hold");
    assert_eq!(stderr(&conclave(&["run", RA, "--hold", "3"])), "");
}

#[test]
fn beyond_its_model_an_algorithm_is_shown_but_not_blamed() {
    let crash = ["--crash", "1@0.5ms", "--beyond-model"];
    let text = ends_with(0, &[&["run", RA][..], &crash].concat());
    assert!(text.contains("beyond its model: p1 crashes"), "{text}");
    assert!(text.contains("CRASHES") && text.contains("(outside its model)"), "{text}");
}

#[test]
fn reliable_links_make_loss_harmless() {
    let args = ["run", RA, "--reliable", "--loss", "20%", "--duplicate", "10%", "--seeds", "20"];
    let text = ends_with(0, &args);
    assert!(text.contains("NS       held in 20 of 20"), "{text}");
}

#[test]
fn every_kind_of_fault_can_be_said() {
    let faults = [
        "--pause",
        "1@1..3",
        "--partition",
        "0,1|2@4..6",
        "--suspect",
        "1:0@3ms",
        "--trust",
        "1:0@4ms",
        "--lose",
        "Reply@3ms",
        "--join",
        "2:0@2ms",
        "--leave",
        "1@9ms",
        "--crash",
        "2@7",
        "--recover",
        "2@8",
        "--crash",
        "2@9",
        "--recover-empty",
        "2@10",
        "--reset",
        "0@11",
        "--slow",
        "1->0:10ms@2ms..5ms",
        "--skew",
        "100",
        "--detector",
        "2T",
        "--until",
        "500",
        "--channels",
        "fifo",
        "--delay",
        "serial:1ms",
        "--open",
        "3",
        "--hold",
        "0..1",
    ];
    let text = ends_with(0, &[&["run", RA, "--beyond-model"][..], &faults].concat());
    for part in ["the network falls apart", "whole again", "pauses", "goes on", "boots empty"] {
        assert!(text.contains(part), "lacks {part:?}:\n{text}");
    }
}

#[test]
fn json_says_what_the_tables_say() {
    let value = json(&["run", RA, "--json"]);
    assert_eq!(value["costs"]["messages_per_entry"], 4.0);
    assert_eq!(value["properties"][0]["property"], "ME");
    assert_eq!(value["properties"][0]["verdict"], "held");
    assert_eq!(value["violated"], false);
    let value = json(&["run", "mutex/ra-no-tie-break", "--seeds", "20", "--json"]);
    assert_eq!(value["runs"], 20);
    let command = value["first"]["command"].as_str().expect("a command");
    assert!(command.contains("--seed ") && !command.contains("--json"), "{command}");
}

#[test]
fn topologies_and_matrices_are_read_from_files() {
    let (links, bad, matrix) = (scratch("links"), scratch("bad-links"), scratch("matrix"));
    std::fs::write(&links, "# a triangle\n0 1\n1 2\n0 2\n").expect("writable");
    std::fs::write(&bad, "0 1\none two\n").expect("writable");
    std::fs::write(&matrix, "0 1ms 2ms\n1ms 0 1ms\n2T 1 0\n").expect("writable");
    let path = |path: &PathBuf| path.to_str().expect("a plain path").to_owned();
    refuses(3, &["run", RA, "--topology", &path(&links)], "not a graph");
    refuses(3, &["run", RA, "--topology", &path(&bad)], "line 2");
    let delay = format!("matrix:{}", path(&matrix));
    ends_with(0, &["run", RA, "--delay", &delay]);
    refuses(3, &["run", RA, "-n", "4", "--delay", &delay], "4 rows of 4");
}

#[test]
fn wide_systems_are_listed_rather_than_drawn() {
    let text = ends_with(0, &["run", RA, "--nodes", "12", "--ask", "3@0"]);
    assert!(text.contains("p3") && text.contains("Request→all"), "{text}");
    assert!(text.contains("Request from p3"), "{text}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_long_search_with_what_was_covered() {
    let args = ["run", RA, "--seeds", "100000000"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_conclave"));
    let child = command.args(args).stdout(Stdio::piped()).spawn().expect("the program starts");
    is_at_work(child.id());
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.expect("kill is there").success());
    let output = child.wait_with_output().expect("the program ends");
    assert_eq!(output.status.code(), Some(130));
    let text = stdout(&output);
    assert!(text.contains("of 100000000 seeds") && text.contains("held in"), "{text}");
}

#[test]
fn help_names_the_exit_codes_and_the_variables() {
    let help = ends_with(0, &["run", "--help"]);
    for part in ["Exit codes:", "CONCLAVE_SEED", "--beyond-model", "uniform:0.5ms..1.5ms"] {
        assert!(help.contains(part), "lacks {part:?}:\n{help}");
    }
}

#[test]
fn a_long_wait_that_ends_breaks_no_promise() {
    let runs = [
        "run mutex/centralized --nodes 3 --ask 1@0:300,2@1:1",
        "run mutex/ricart-agrawala --ask 0@0:1s,1@1",
        "run mutex/ricart-agrawala --delay const:200ms",
        "run mutex/token-ring --nodes 300 --ask 299@0",
        "run mutex/raymond-tree --nodes 200 --topology line --ask 199@0",
        "run mutex/lamport --ask 1@0 --pause 0@1..50000",
        "run election/bully --nodes 5 --ask 0@0,1@0 --until 0.5",
        "run fd/timeout-sync --nodes 3 --crash 1@5 --until 5.5",
    ];
    for run in runs {
        let output = conclave(&run.split_whitespace().collect::<Vec<_>>());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(0), "{run}\n{text}");
    }
}

#[test]
fn faults_come_at_rates_as_well_as_at_moments() {
    let text = ends_with(
        0,
        &["run", "mutex/lamport", "--rounds", "4", "--think", "5", "--pause-rate", "20:5"],
    );
    assert!(text.contains("pauses every 20ms on average") && text.contains("z pauses"), "{text}");
    let crashes =
        ["run", "fd/heartbeat", "--nodes", "4", "--crash-rate", "20:30", "--until", "200"];
    assert!(ends_with(0, &crashes).contains("CRASHES"));
    refuses(4, &["run", "mutex/lamport", "--crash-rate", "100"], "crash at random");
    refuses(2, &["run", "mutex/lamport", "--crash-rate", "0"], "mean time");
}

#[test]
fn the_manual_shows_what_the_comparison_of_detectors_prints() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/detectors.md");
    let manual = std::fs::read_to_string(path).expect("it is there");
    let tables = ends_with(0, &["compare", "fd", "--markdown"]);
    assert!(manual.contains(&tables), "write this into docs/detectors.md:\n{tables}");
    let text = ends_with(0, &["compare", "fd", "--width", "100"]);
    let plot = text.find("Mistakes per pair").map_or("", |at| text[at..].trim_end());
    assert!(manual.contains(plot), "write this into docs/detectors.md:\n{plot}");
}
