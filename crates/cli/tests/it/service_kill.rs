//! What becomes of nested commands, and of what they hold, when the outer command or its wrapper has to end.

use std::fs;
use std::process::Command;

use crate::support::node::{Node, Process, eventually, is_alive, line_in, program};
use crate::support::{stderr, stdout};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

const OWN: &str = env!("CARGO_BIN_EXE_conclave");
/// A command that tells its number and goes on for ever.
const ENDLESS: &str = "echo $$ > pid; while :; do sleep 0.05; done";
/// What the next holder of a lock finds of a process: that it is dead.
const LOOK: &str = "! test -e /proc/$0 || grep -q 'State:.[ZX]' /proc/$0/status";

fn write(node: &Node, name: &str, text: &str) {
    fs::write(node.file(name), text).expect("it can be written");
}

/// Runs a script within a lock, but in another session of the system: it does not end with the group of the command.
fn detached(node: &Node, script: &str) -> Process {
    write(node, "detached", script);
    let args = ["lock", "--ttl", "1h", "a", "--", "sh", "-c", "setsid sh detached & wait"];
    node.begin(&args)
}

fn number(text: &str) -> Pid {
    Pid::from_raw(text.parse().expect("a number"))
}

fn force(node: &Node, lock: &str) {
    node.ends_with(0, &["release", lock, "--force", "--reason", "it hangs"]);
}

#[test]
fn a_nested_leader_does_not_stand_again_when_the_outer_lock_is_taken() {
    let node = Node::start(&[]);
    write(&node, "serve", ENDLESS);
    let mut outer =
        detached(&node, &format!("{OWN} elect web -- sh serve 2> said; echo $? > code"));
    let pid = line_in(&node.file("pid"));
    force(&node, "a");
    outer.ends_with(12);
    assert!(!is_alive(&pid), "it was killed");
    assert_eq!(line_in(&node.file("code")), "12");
    let said = fs::read_to_string(node.file("said")).expect("it is there");
    assert!(said.contains("leads web no more") && !said.contains("stands again"), "{said}");
    let leads = node.json(&["observe", "web", "--once", "--json"]);
    assert!(leads["leader"].is_null(), "{leads}");
}

#[test]
fn a_nested_candidate_stands_no_more_when_the_outer_lock_is_taken() {
    let node = Node::start(&[]);
    let leader = node.begin(&["elect", "--ttl", "1h", "web"]);
    leader.line();
    let mut outer = detached(&node, &format!("{OWN} elect web -- true 2> said; echo $? > code"));
    eventually("the candidate", || {
        let elections = node.json(&["elections", "--json"]);
        elections[0]["candidates"].as_array().filter(|all| all.len() == 1).map(drop)
    });
    force(&node, "a");
    outer.ends_with(12);
    assert_eq!(line_in(&node.file("code")), "12");
}

#[test]
fn what_a_stopped_nested_process_holds_is_free_when_its_command_is_dead() {
    let node = Node::start(&[]);
    write(&node, "inner", ENDLESS);
    let mut outer = detached(&node, &format!("echo $$ > wrapper; exec {OWN} lock b -- sh inner"));
    let [pid, wrapper] = ["pid", "wrapper"].map(|name| line_in(&node.file(name)));
    let mut next = node.begin(&["lock", "--ttl", "60s", "b", "--", "sh", "-c", LOOK, &pid]);
    node.waiters("b", 1);
    kill(number(&wrapper), Signal::SIGSTOP).expect("it is there");
    force(&node, "a");
    // The lease would last for an hour.
    outer.ends_with(12);
    next.ends_with(0);
    kill(number(&wrapper), Signal::SIGKILL).expect("it is there");
}

#[test]
fn what_is_nested_deeper_belongs_to_the_session_after_the_outer_command_has_ended() {
    let node = Node::start(&[]);
    let deep = format!(
        "echo > ready; while ! test -e go; do sleep 0.05; done; \
         {OWN} lock --timeout 100s b -- true 2> said; echo $? > code"
    );
    write(&node, "deep", &deep);
    let script = format!("{OWN} lock b -- sh deep & while ! test -e ready; do sleep 0.05; done");
    let mut outer = node.begin(&["lock", "--ttl", "60s", "a", "--", "sh", "-c", &script]);
    eventually("that it waits", || {
        outer.stderr().contains("a nested command goes on").then_some(())
    });
    write(&node, "go", "");
    // It is its own lock that it wants, and to wait for that would be for ever.
    assert_eq!(line_in(&node.file("code")), "14");
    outer.ends_with(0);
}

#[test]
fn a_nested_process_says_when_it_cannot_reach_the_outer_one() {
    let node = Node::start(&[]);
    let mut alone = node.program(&["lock", "a", "--", "true"]);
    let alone = alone.env("CONCLAVE_NEST", "conclave-of-no-process 0").output().expect("it starts");
    assert_eq!(alone.status.code(), Some(0));
    assert!(stderr(&alone).contains("uses a session of its own"), "{}", stderr(&alone));
}

#[test]
fn what_a_killed_holder_held_is_released_though_a_command_was_nested_before() {
    let node = Node::start(&[]);
    let script = format!("{OWN} lock b -- true; {ENDLESS}");
    let args = ["lock", "--ttl", "1h", "--grace", "200ms", "a", "--", "sh", "-c", &script];
    let mut holder = node.begin(&args);
    let pid = line_in(&node.file("pid"));
    // It has taken note that nothing is nested any more: what remains is the socket that it listens on.
    let socket = format!("@conclave-{}-", holder.pid());
    eventually("the end of what was nested", || {
        let sockets = fs::read_to_string("/proc/net/unix").expect("it is there");
        (sockets.lines().filter(|line| line.contains(&socket)).count() == 1).then_some(())
    });
    let mut next = node.begin(&["lock", "--ttl", "60s", "a", "--", "sh", "-c", LOOK, &pid]);
    node.waiters("a", 1);
    holder.signal(Signal::SIGKILL);
    holder.status();
    next.ends_with(0);
}

#[test]
fn a_nested_leader_who_is_deposed_stands_again_when_it_may() {
    let node = Node::start(&[]);
    let serve = "echo $CONCLAVE_TERM >> terms; while :; do sleep 0.05; done";
    let args = ["lock", "--ttl", "60s", "a", "--", OWN, "elect", "web", "--", "sh", "-c", serve];
    let mut outer = node.begin(&args);
    line_in(&node.file("terms"));
    node.ends_with(0, &["depose", "web", "--for", "1s", "--reason", "it serves errors"]);
    eventually("another term", || {
        assert!(outer.is_running(), "{}", outer.stderr());
        let terms = fs::read_to_string(node.file("terms")).expect("it is there");
        (terms.lines().count() == 2).then_some(())
    });
    assert!(outer.stderr().contains("stands again in"), "{}", outer.stderr());
}

#[test]
fn what_a_killed_holder_held_is_released_though_the_file_with_its_token_is_gone() {
    let folder = TempDir::new().expect("there is room");
    let tokens = folder.path().join("tokens.toml");
    let file = tokens.to_str().expect("it is UTF-8");
    let made = program(&["token", "ci", "--lock", "", "--add", file]).output().expect("it starts");
    let token = stdout(&made).trim().to_owned();
    let node = Node::start(&["--tokens", file]);
    write(&node, "secret", &token);
    let flags = ["--ttl", "1h", "--grace", "200ms", "--auth-token-file", "secret"];
    let args = [&["lock"], &flags[..], &["a", "--", "sh", "-c", ENDLESS]].concat();
    let mut holder = node.begin(&args);
    line_in(&node.file("pid"));
    fs::remove_file(node.file("secret")).expect("it is there");
    holder.signal(Signal::SIGKILL);
    holder.status();
    let mut next = node.program(&["lock", "--ttl", "60s", "a", "--", "true"]);
    next.env("CONCLAVE_AUTH_TOKEN", &token);
    Process::start(node.folder(), next).ends_with(0);
}

#[test]
fn a_release_in_the_background_keeps_nothing_open() {
    let mut node = Node::start(&[]);
    write(&node, "until-told", "echo > ready; while ! test -e go; do sleep 0.05; done; exit 5");
    let script = format!("exec 9> file; flock 9; exec {OWN} lock --ttl 1h a -- sh until-told");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).env("CONCLAVE_ENDPOINTS", &node.address);
    shell.current_dir(node.folder()).env(conclave_testing::MARK, node.folder());
    let mut holder = Process::start(node.folder(), shell);
    line_in(&node.file("ready"));
    node.crash();
    write(&node, "go", "");
    holder.ends_with(5);
    assert!(holder.stderr().contains("in the background"), "{}", holder.stderr());
    // No node is there, so the process in the background goes on.
    eventually("the lock on the file", || {
        let file = node.file("file");
        let flock = Command::new("flock").arg("-n").arg(file).arg("true").status();
        flock.expect("it starts").success().then_some(())
    });
}

#[test]
fn a_leader_that_resigns_to_a_stopped_node_hears_that_it_is_to_stop() {
    let mut node = Node::start(&[]);
    let serve = "trap 'echo > told; while ! test -e go; do sleep 0.05; done; exit 0' TERM; \
                 echo $$ > pid; while :; do sleep 0.05; done";
    let mut low = node.begin(&["elect", "--ttl", "1h", "web", "--", "sh", "-c", serve]);
    let pid = line_in(&node.file("pid"));
    let _high = node.begin(&["elect", "--ttl", "1h", "--rank", "5", "--preempt", "web"]);
    line_in(&node.file("told"));
    node.process().signal(Signal::SIGSTOP);
    write(&node, "go", "");
    eventually("the end of its command", || (!is_alive(&pid)).then_some(()));
    // A signal that comes before it resigns is for its command.
    eventually("its end", || {
        low.signal(Signal::SIGTERM);
        (!low.is_running()).then_some(())
    });
    low.ends_with(143);
}
