//! What can be seen of a node, and what helps to find one's way.

use std::path::Path;
use std::process::Command;

use crate::support::node::{Node, eventually, program};
use crate::support::{conclave, ends_with, stderr, stdout};
use clap::CommandFactory;
use conclave_cli::Cli;
use conclave_client::{Client, Options, SessionOptions};
use tempfile::TempDir;

#[test]
fn a_chain_of_waits_is_no_deadlock() {
    let node = Node::start(&[]);
    let begin = |name: &str, locks: &[&str]| {
        node.begin(&[&["lock", "--ttl", "60s", "--name", name], locks].concat())
    };
    let holder = begin("first", &["a", "--and", "b"]);
    holder.line();
    let _second = begin("second", &["b", "--and", "c"]);
    node.waiters("b", 1);
    let _third = begin("third", &["c", "--and", "d"]);
    node.waiters("c", 2);
    let why = node.ends_with(0, &["why", "c"]);
    for part in
        ["1. second@", "2. third@", "together with d", "second@", "waits for b, held by first@"]
    {
        assert!(why.contains(part), "lacks {part:?}:\n{why}");
    }
    assert!(!why.contains("deadlock"), "{why}");
    let graph = node.ends_with(0, &["graph"]);
    assert!(graph.contains("waits for b, held by first@"), "{graph}");
    assert!(graph.contains("waits for c, and is behind second@"), "{graph}");
    assert!(graph.contains("no deadlock"), "{graph}");
    let dot = node.ends_with(0, &["graph", "--dot"]);
    assert!(dot.starts_with("digraph") && dot.contains("-> ") && !dot.contains("red"), "{dot}");
    let graph = node.json(&["graph", "--json"]);
    assert_eq!(graph["stuck"], serde_json::json!([]));
    let locks = node.ends_with(0, &["locks"]);
    assert!(locks.contains("first@") && locks.contains("exclusive"), "{locks}");
    let sessions = node.ends_with(0, &["sessions"]);
    assert!(sessions.contains("third@") && sessions.contains("a, b"), "{sessions}");
    assert_eq!(node.json(&["locks", "a", "--json"])[0]["name"], "a");
    let none = node.ends_with(0, &["locks", "zzz"]);
    assert!(none.contains("conclave lock NAME"), "{none}");
}

#[test]
fn a_deadlock_that_nothing_is_done_about_is_shown() {
    let node = Node::start(&["--deadlocks", "none"]);
    let runtime = tokio::runtime::Runtime::new().expect("there is room");
    runtime.block_on(async {
        let client = Client::connect(Options::new(&node.address)).await.expect("it answers");
        let open = async |name: &str| {
            let options = SessionOptions::ttl(std::time::Duration::from_mins(1)).name(name);
            client.open(options).await.expect("there is room")
        };
        let (one, two) = (open("one").await, open("two").await);
        let (_x, _y) = (one.lock("x").await.expect("free"), two.lock("y").await.expect("free"));
        let waits = [
            tokio::spawn(async move { one.lock("y").await.map(drop) }),
            tokio::spawn(async move { two.lock("x").await.map(drop) }),
        ];
        let why = tokio::task::block_in_place(|| {
            node.waiters("x", 1);
            node.waiters("y", 1);
            let why = node.ends_with(0, &["why", "x"]);
            let graph = node.ends_with(0, &["graph"]);
            assert!(graph.contains("deadlock: these can never go on"), "{graph}");
            let dot = node.ends_with(0, &["graph", "--dot"]);
            assert_eq!(dot.matches("color=red").count(), 2, "{dot}");
            let stuck = &node.json(&["graph", "--json"])["stuck"];
            assert_eq!(stuck.as_array().map(Vec::len), Some(2), "{stuck}");
            why
        });
        for part in [
            "deadlock",
            "waits for y because of two@",
            "waits for x because of one@",
            "conclave expel",
        ] {
            assert!(why.contains(part), "lacks {part:?}:\n{why}");
        }
        // An operator helps.
        let session = tokio::task::block_in_place(|| {
            let session = node.holder("y")["who"]["session"].to_string();
            node.ends_with(0, &["expel", &session, "--reason", "to end a deadlock"]);
            session
        });
        let [first, second] = waits;
        first.await.expect("it goes on").expect("the lock is free now");
        second.await.expect("it goes on").expect_err(&session);
    });
}

#[test]
fn json_is_printed_by_everything_that_prints() {
    let node = Node::start(&[]);
    for args in [
        &["locks"][..],
        &["sessions"],
        &["elections"],
        &["why", "a"],
        &["graph"],
        &["status"],
        &["observe", "a", "--once"],
    ] {
        node.json(&[args, &["--json"]].concat());
        // A variable says the same, in any of the usual ways.
        let mut by_variable = node.program(args);
        let output = by_variable.env("CONCLAVE_JSON", "1").output().expect("it starts");
        serde_json::from_str::<serde_json::Value>(&stdout(&output)).expect("it is JSON");
    }
    let holder = node.begin(&["lock", "a", "--and", "b", "--json"]);
    let held: serde_json::Value = serde_json::from_str(&holder.line()).expect("it is JSON");
    assert_eq!(held["locks"], serde_json::json!(["a", "b"]));
    let waiter = node.begin(&["lock", "a", "--json", "-v", "--", "true"]);
    let told = eventually("a line", || waiter.stderr().ends_with('\n').then(|| waiter.stderr()));
    let told: serde_json::Value = serde_json::from_str(&told).expect("it is JSON");
    assert_eq!((&told["event"], &told["name"]), (&"waiting".into(), &"a".into()));
}

#[test]
fn every_command_has_an_example_and_every_flag_of_the_service_a_variable() {
    let lab = ["list", "explain", "run", "replay", "check", "compare", "lattice", "cut"];
    for command in Cli::command().get_subcommands() {
        let name = command.get_name();
        let help = ends_with(0, &[name, "--help"]);
        assert!(help.contains("Example"), "{name} teaches nothing:\n{help}");
        assert!(help.contains(&format!("conclave {name}")), "{name}");
        if lab.contains(&name) {
            continue;
        }
        let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
        for flag in shown.filter_map(|arg| Some((arg.get_long()?, arg))) {
            let (long, arg) = flag;
            let has = arg.get_env().is_some_and(|it| it.to_string_lossy().starts_with("CONCLAVE_"));
            assert!(has, "{name} --{long} has no variable");
        }
    }
    // What a command is told about a lock is not taken for a flag of another.
    for command in Cli::command().get_subcommands() {
        for arg in command.get_arguments() {
            let name =
                arg.get_env().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
            let told = ["LOCK", "TOKEN", "SESSION", "ELECTION", "TERM"];
            assert!(!told.iter().any(|it| name == format!("CONCLAVE_{it}")), "{name}");
        }
    }
}

#[test]
fn a_shell_completes_the_names_that_the_node_has() {
    let node = Node::start(&[]);
    let holders = ["ci/build", "ci/test", "backup", "odd $name"]
        .map(|lock| node.begin(&["lock", lock, "--ttl", "60s"]));
    holders.iter().for_each(|holder| drop(holder.line()));
    let leader = node.begin(&["elect", "web", "--ttl", "60s", "--once"]);
    leader.line();
    // The program, where the script looks for it.
    let own = Path::new(env!("CARGO_BIN_EXE_conclave")).parent().expect("it is in a folder");
    let path = format!("{}:{}", own.display(), std::env::var("PATH").unwrap_or_default());
    let completed = |endpoints: &str, line: &[&str]| -> Vec<String> {
        let script = "source <(conclave completions bash); COMP_WORDS=(conclave \"$@\"); \
                      COMP_CWORD=$#; _conclave_names conclave \"${@: -1}\" \"\"; \
                      for name in \"${COMPREPLY[@]}\"; do [[ $name == -* ]] || echo \"$name\"; done";
        let mut bash = Command::new("bash");
        bash.args(["-c", script, "bash"]).args(line).env("PATH", &path);
        let output = bash.env("CONCLAVE_ENDPOINTS", endpoints).output().expect("there is bash");
        assert_eq!(stderr(&output), "");
        stdout(&output).lines().map(str::to_owned).collect()
    };
    // More of them hold something in the moment in which the node is asked than before, on a busy machine.
    let complete = |line: &[&str], wanted: &[&str]| {
        eventually("names", || (completed(&node.address, line) == wanted).then_some(()));
    };
    complete(&["lock", "ci/"], &["ci/build", "ci/test"]);
    complete(&["why", "--json", "b"], &["backup"]);
    complete(&["observe", "w"], &["web"]);
    let at = ["release", "--endpoints", &node.address, "ba"];
    eventually("a name", || (completed("127.0.0.1:1", &at) == ["backup"]).then_some(()));
    // After two dashes a command is written, and where no node answers nothing is said.
    assert_eq!(completed(&node.address, &["lock", "x", "--", "ci/"]), [""; 0]);
    assert_eq!(completed("127.0.0.1:1", &["lock", "ci/"]), [""; 0]);
}

#[test]
fn shells_and_man_get_what_they_need() {
    for (shell, sign) in
        [("bash", "complete -F"), ("zsh", "#compdef conclave"), ("fish", "complete -c")]
    {
        let script = ends_with(0, &["completions", shell]);
        assert!(script.contains(sign) && script.contains("elections"), "{shell}");
        assert!(script.contains("conclave __names"), "{shell}");
    }
    assert_eq!(conclave(&["completions", "tcsh"]).status.code(), Some(2));
    let page = ends_with(0, &["man"]);
    assert!(page.contains(".TH conclave 1"), "{page}");
    let folder = TempDir::new().expect("there is room");
    let pages = folder.path().join("man1");
    let mut man = program(&["man", "--out"]);
    let output = man.arg(&pages).output().expect("it starts");
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains("conclave-lock.1"));
    let page = std::fs::read_to_string(pages.join("conclave-lock.1")).expect("it is written");
    assert!(page.contains("CONCLAVE_TTL") && page.contains("fencing token"), "{page}");
}
