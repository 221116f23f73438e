//! Commands under a lock: how they are run, how they end, and that they end in time.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use crate::support::node::{Node, Process, eventually, is_alive, line_in, program};
use nix::sys::signal::Signal;

#[test]
fn a_lock_ends_as_its_command_does() {
    let node = Node::start(&[]);
    for (script, code) in
        [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143)]
    {
        node.ends_with(code, &["lock", "a", "--", "sh", "-c", script]);
    }
    node.refuses(127, &["lock", "a", "--", "no-such-command"], "sh -c");
    node.refuses(127, &["lock", "a", "--", "./no-such-file"], "no-such-file");
    fs::write(node.file("plain"), "hello").expect("it can be written");
    node.refuses(126, &["lock", "a", "--", "./plain"], "chmod");
    assert_eq!(node.json(&["locks", "--json"]), serde_json::json!([]), "nothing is left behind");
}

#[test]
fn a_command_gets_its_input_and_is_told_what_it_holds() {
    let node = Node::start(&[]);
    let mut program = node.program(&["lock", "a", "--", "cat"]);
    program.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut cat = program.spawn().expect("it starts");
    cat.stdin.take().expect("it is piped").write_all(b"through and through").expect("it reads");
    let output = cat.wait_with_output().expect("it ends");
    assert_eq!(output.stdout, b"through and through");

    let script = "echo $CONCLAVE_LOCK; echo $CONCLAVE_TOKEN; echo $CONCLAVE_SESSION; \
                  echo $CONCLAVE_ENDPOINTS";
    let told = || -> Vec<String> {
        let text = node.ends_with(0, &["lock", "a", "--", "sh", "-c", script]);
        text.lines().map(str::to_owned).collect()
    };
    let (first, second) = (told(), told());
    assert_eq!((first[0].as_str(), &first[3]), ("a", &node.address));
    let number = |text: &str| text.parse::<u64>().expect("it is a number");
    assert!(number(&first[1]) < number(&second[1]), "tokens grow");
    assert!(number(&first[2]) < number(&second[2]), "each has a session of its own");
    let both = node.ends_with(0, &["lock", "a", "b", "--", "sh", "-c", "echo \"$CONCLAVE_LOCK\""]);
    assert_eq!(both, "a\nb\n");
}

#[test]
fn one_name_and_then_the_command_needs_no_dashes() {
    let node = Node::start(&[]);
    fs::write(node.file("backup.sh"), "echo \"$CONCLAVE_LOCK\" \"$@\"").expect("it can be written");
    let told = node.ends_with(0, &["lock", "backup", "sh", "backup.sh", "--verbose", "-v"]);
    assert_eq!(told, "backup --verbose -v\n");
    let told =
        node.ends_with(0, &["lock", "a", "--and", "b", "--ttl", "20s", "sh", "backup.sh", "x"]);
    assert_eq!(told, "a\nb x\n");
    assert_eq!(node.ends_with(0, &["elect", "web", "sh", "backup.sh", "y"]), " y\n");
    // What may have been meant is said.
    node.refuses(127, &["lock", "disk", "tape"], "--and tape");
    node.refuses(
        127,
        &["lock", "a", "git", "checkout", "--", "some-file"],
        "lock a -- git checkout -- some-file",
    );
}

#[test]
fn who_does_not_want_to_wait_is_told_so_by_the_exit_code() {
    let node = Node::start(&[]);
    let holder = node.begin(&["lock", "a", "--ttl", "60s", "--name", "holder"]);
    let token: u64 = holder.line().parse().expect("it prints the token");
    assert_eq!(node.holder("a")["token"], token);
    node.refuses(10, &["lock", "--try", "a", "--", "true"], "conclave why a");
    node.refuses(11, &["lock", "--timeout", "3s", "a", "--", "true"], "within 3s");
    node.refuses(10, &["lock", "--try", "b", "a", "--", "true"], "b, a cannot be had at once");
    node.ends_with(0, &["lock", "--try", "b", "--", "true"]);
    // The waiter is told for whom it waits.
    let mut waiter = node.begin(&["lock", "-v", "a", "--", "true"]);
    eventually("the reason", || waiter.stderr().contains("held by holder@").then_some(()));
    holder.signal(Signal::SIGTERM);
    let mut holder = holder;
    holder.ends_with(0);
    waiter.ends_with(0);
}

#[test]
fn first_come_first_served() {
    let node = Node::start(&[]);
    let mut holder = node.begin(&["lock", "a", "--ttl", "60s"]);
    holder.line();
    let mut waiters = Vec::new();
    for name in ["one", "two", "three"] {
        let script = format!("echo {name} >> order");
        waiters.push(node.begin(&["lock", "--ttl", "60s", "a", "--", "sh", "-c", &script]));
        node.waiters("a", waiters.len());
    }
    holder.signal(Signal::SIGTERM);
    holder.ends_with(0);
    waiters.iter_mut().for_each(|waiter| waiter.ends_with(0));
    let order = fs::read_to_string(node.file("order")).expect("they have written");
    assert_eq!(order, "one\ntwo\nthree\n");
}

#[test]
fn some_share_and_some_count() {
    let node = Node::start(&[]);
    let hold = |args: &[&str]| {
        let holder = node.begin(&[&["lock", "--ttl", "60s"], args].concat());
        holder.line();
        holder
    };
    let _readers = [hold(&["--shared", "site"]), hold(&["--shared", "site"])];
    node.refuses(10, &["lock", "--try", "site", "--", "true"], "site");
    let _uploads = [hold(&["--permits", "3", "upload"]), hold(&["--permits", "1/3", "upload"])];
    node.refuses(10, &["lock", "--try", "--permits", "2/3", "upload", "--", "true"], "upload");
    node.ends_with(0, &["lock", "--try", "--permits", "3", "upload", "--", "true"]);
    node.refuses(14, &["lock", "--try", "--permits", "4", "upload", "--", "true"], "permits");
    let text = node.ends_with(0, &["why", "upload"]);
    assert!(text.contains("1 of 3 permits"), "{text}");
}

#[test]
fn bad_command_lines_are_refused_with_what_would_do() {
    let node = Node::start(&[]);
    node.refuses(
        2,
        &["lock", "a", "--ttl", "10s", "--grace", "9s", "--", "true"],
        "--ttl has to be",
    );
    for args in [
        &["lock"][..],
        &["lock", "a", "--ttl", "soon"],
        &["lock", "a", "--permits", "0"],
        &["lock", "a", "--shared", "--permits", "3"],
        &["lock", "a", "--try", "--timeout", "1s"],
        &["release", "a", "--force"],
    ] {
        node.ends_with(2, args);
    }
    node.refuses(14, &["lock", "", "--", "true"], "name");
    node.refuses(14, &["lock", "a", "--ttl", "1ms", "--", "true"], "has to be from");
    node.refuses(2, &["locks", "--endpoints", "nowhere"], "port");
}

#[test]
fn without_a_node_there_is_a_hint() {
    let mut command = program(&["lock", "a", "--connect-timeout", "200ms", "--", "true"]);
    // No node listens there.
    command.env("CONCLAVE_ENDPOINTS", "127.0.0.1:9");
    let output = command.output().expect("it starts");
    assert_eq!(output.status.code(), Some(13));
    let said = crate::support::stderr(&output);
    assert!(said.contains("conclave up") && said.trim_end().lines().count() == 1, "{said}");
}

#[test]
fn signals_reach_the_command_and_all_that_it_has_started() {
    let node = Node::start(&[]);
    // The shell that waits is behind another.
    let script = "trap 'wait; exit 3' TERM; sh -c 'trap \"echo inner >> heard; exit 0\" TERM; \
                  echo > ready; while :; do sleep 0.05; done' & wait";
    let mut holder = node.begin(&["lock", "--ttl", "60s", "a", "--", "sh", "-c", script]);
    eventually("the command", || node.file("ready").exists().then_some(()));
    holder.signal(Signal::SIGTERM);
    holder.ends_with(3);
    assert_eq!(line_in(&node.file("heard")), "inner");
    // While it waits, there is no command to pass them on to.
    let holder = node.begin(&["lock", "--ttl", "60s", "b"]);
    holder.line();
    let mut waiter = node.begin(&["lock", "b", "--", "true"]);
    node.waiters("b", 1);
    waiter.signal(Signal::SIGTERM);
    waiter.ends_with(143);
    node.waiters("b", 0);
}

#[test]
fn locks_are_nested() {
    let node = Node::start(&[]);
    let own = env!("CARGO_BIN_EXE_conclave");
    let script = "echo $CONCLAVE_LOCK; exit 9";
    // The inner one finds the node by what the outer one was told.
    let mut outer = program(&["lock", "--endpoints", &node.address, "a", "--"]);
    outer.args([own, "lock", "b", "--", "sh", "-c", script]);
    let output = outer.output().expect("it starts");
    assert_eq!((output.status.code(), crate::support::stdout(&output).as_str()), (Some(9), "b\n"));
}

/// A command that tells its number and goes on for ever, deaf to SIGTERM.
const STUBBORN: &str = "trap '' TERM; echo $$ > $0; while :; do sleep 0.05; done";

/// What the next holder of a lock finds of a process: how it is, or nothing.
const LOOK: &str = "cat /proc/$0/status > found; echo done >> found";

fn is_dead(found: &str) -> bool {
    let state = found.lines().find_map(|line| line.strip_prefix("State:"));
    state.is_none_or(|state| state.trim().starts_with(['Z', 'X']))
}

fn stubborn(node: &Node, ttl: &str) -> (Process, String) {
    let args = ["lock", "--ttl", ttl, "a", "--", "sh", "-c", STUBBORN, "pid"];
    let holder = node.begin(&args);
    let pid = line_in(&node.file("pid"));
    assert!(is_alive(&pid));
    (holder, pid)
}

#[test]
fn when_the_holder_is_killed_its_command_is_dead_before_the_next_one_has_the_lock() {
    let node = Node::start(&[]);
    let (mut holder, pid) = stubborn(&node, "10s");
    let mut next = node.begin(&["lock", "--ttl", "60s", "a", "--", "sh", "-c", LOOK, &pid]);
    node.waiters("a", 1);
    holder.signal(Signal::SIGKILL);
    holder.status();
    next.ends_with(0);
    let found = fs::read_to_string(node.file("found")).expect("it has looked");
    assert!(is_dead(&found), "{found}");
}

#[test]
fn when_the_holder_is_stopped_its_command_is_dead_before_the_next_one_has_the_lock() {
    let node = Node::start(&[]);
    let (mut holder, pid) = stubborn(&node, "10s");
    let mut next = node.begin(&["lock", "--ttl", "60s", "a", "--", "sh", "-c", LOOK, &pid]);
    node.waiters("a", 1);
    holder.signal(Signal::SIGSTOP);
    next.ends_with(0);
    let found = fs::read_to_string(node.file("found")).expect("it has looked");
    assert!(is_dead(&found), "{found}");
    // The holder finds out as soon as it can.
    assert!(holder.is_running());
    holder.signal(Signal::SIGCONT);
    holder.ends_with(12);
    assert!(holder.stderr().contains("a was lost"), "{}", holder.stderr());
}

#[test]
fn when_no_node_answers_a_command_is_told_to_end_in_time() {
    let mut node = Node::start(&[]);
    // It takes its time, but not as long as it may.
    let script = "trap 'echo told > told; sleep 0.2; echo cleaned >> told; exit 0' TERM; \
                  echo > ready; while :; do sleep 0.05; done";
    let args = ["lock", "--ttl", "20s", "--grace", "7s", "a", "--", "sh", "-c", script];
    let mut holder = node.begin(&args);
    eventually("the command", || node.file("ready").exists().then_some(()));
    // A waiter whose own session is in no danger.
    let mut next = node.begin(&["lock", "--ttl", "10m", "a", "--", "true"]);
    node.waiters("a", 1);
    node.process().signal(Signal::SIGSTOP);
    holder.ends_with(12);
    assert!(holder.stderr().contains("no node has answered"), "{}", holder.stderr());
    let told = fs::read_to_string(node.file("told")).expect("it was told");
    assert_eq!(told, "told\ncleaned\n");
    // The node did not see time pass: nothing was lost, and the first session ends in its own time.
    node.process().signal(Signal::SIGCONT);
    next.ends_with(0);
}

#[test]
fn a_command_goes_on_while_its_node_is_started_again() {
    let mut node = Node::start(&[]);
    let script = "echo > ready; while ! test -e go; do sleep 0.05; done; exit 5";
    let mut holder = node.begin(&["lock", "--ttl", "60s", "a", "--", "sh", "-c", script]);
    eventually("the command", || node.file("ready").exists().then_some(()));
    let token = node.holder("a")["token"].clone();
    let mut next = node.begin(&["lock", "--ttl", "60s", "a", "--", "true"]);
    node.waiters("a", 1);
    for _ in 0..2 {
        node.crash();
        node.restart();
        assert_eq!(node.holder("a")["token"], token, "it is held as before");
        node.waiters("a", 1);
    }
    assert!(holder.is_running() && next.is_running());
    fs::write(node.file("go"), "").expect("it can be written");
    holder.ends_with(5);
    next.ends_with(0);
}

#[test]
fn what_an_operator_takes_ends_the_command_at_once_and_the_reason_is_kept() {
    let node = Node::start(&[]);
    let (mut holder, pid) = stubborn(&node, "60s");
    let session = node.holder("a")["who"]["session"].to_string();
    node.ends_with(0, &["expel", &session, "--reason", "its machine is on fire"]);
    holder.ends_with(12);
    assert!(!is_alive(&pid), "it was killed");
    assert!(holder.stderr().contains("an operator"), "{}", holder.stderr());

    fs::remove_file(node.file("pid")).expect("it is there");
    let (mut holder, pid) = stubborn(&node, "60s");
    node.refuses(2, &["release", "a", "--reason", "no"], "--force");
    node.ends_with(0, &["release", "a", "--force", "--reason", "it hangs, see ticket 42"]);
    holder.ends_with(12);
    assert!(!is_alive(&pid), "it was killed");
    let why = node.ends_with(0, &["why", "a"]);
    assert!(why.contains("a is free") && why.contains("it hangs, see ticket 42"), "{why}");
    let forced = &node.json(&["why", "a", "--json"])["forced"];
    let reasons: Vec<_> =
        forced.as_array().expect("a list").iter().map(|it| &it["reason"]).collect();
    assert!(reasons.iter().any(|it| *it == "it hangs, see ticket 42"), "{forced}");
    node.refuses(14, &["release", "a", "--force", "--reason", "again"], "no session holds");
    node.refuses(14, &["expel", "4711", "--reason", "who?"], "no session 4711");
}

#[test]
fn under_wait_die_the_younger_one_does_not_wait() {
    let node = Node::start(&["--deadlocks", "wait-die"]);
    let holder = node.begin(&["lock", "--ttl", "60s", "a"]);
    holder.line();
    node.refuses(15, &["lock", "a", "--", "true"], "older");
}
