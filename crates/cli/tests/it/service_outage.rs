//! What commands under a lock do while no node answers, and that nothing of them is left behind.

use std::fs;

use crate::support::node::{Node, Process, eventually, line_in, program};
use crate::support::stderr;
use nix::sys::signal::Signal;
use serde_json::Value;

/// A command that goes on until it is let go.
const UNTIL_TOLD: &str = "echo > ready; while ! test -e go; do sleep 0.05; done; exit 5";

#[test]
fn a_command_that_ends_while_its_node_is_down_leaves_no_ghost() {
    let mut node = Node::start(&[]);
    // Were it left to its lease, the next one would wait for an hour.
    let mut holder = node.begin(&["lock", "--ttl", "1h", "a", "--", "sh", "-c", UNTIL_TOLD]);
    line_in(&node.file("ready"));
    let mut leader = node.begin(&["elect", "--ttl", "1h", "web", "--", "sh", "-c", UNTIL_TOLD]);
    eventually("a leader", || {
        let leads = node.json(&["observe", "web", "--once", "--json"]);
        (!leads["leader"].is_null()).then_some(())
    });
    node.crash();
    fs::write(node.file("go"), "").expect("it can be written");
    for process in [&mut holder, &mut leader] {
        process.ends_with(5);
        assert!(process.stderr().contains("in the background"), "{}", process.stderr());
    }
    node.restart();
    node.begin(&["lock", "--ttl", "60s", "a", "--", "true"]).ends_with(0);
    node.begin(&["elect", "--ttl", "60s", "web", "--", "true"]).ends_with(0);
    // What was confirmed is no cause for words.
    let mut quiet = node.begin(&["lock", "a", "--", "true"]);
    quiet.ends_with(0);
    assert_eq!(quiet.stderr(), "");
}

#[test]
fn what_a_killed_holder_held_is_released_when_its_command_is_dead() {
    let node = Node::start(&[]);
    let script = "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done";
    let args = ["lock", "--ttl", "1h", "--grace", "200ms", "a", "--", "sh", "-c", script];
    let mut holder = node.begin(&args);
    let pid = line_in(&node.file("pid"));
    let look = "! test -e /proc/$0 || grep -q 'State:.[ZX]' /proc/$0/status";
    let mut next = node.begin(&["lock", "--ttl", "60s", "a", "--", "sh", "-c", look, &pid]);
    node.waiters("a", 1);
    holder.signal(Signal::SIGKILL);
    holder.status();
    next.ends_with(0);
}

#[test]
fn a_candidate_whose_session_ends_while_it_waits_gives_up_when_its_time_is_over() {
    let mut node = Node::start(&[]);
    let leader = node.begin(&["elect", "--ttl", "1h", "web"]);
    leader.line();
    let args = ["elect", "web", "--ttl", "2s", "--timeout", "4s", "--", "true"];
    let mut candidate = node.begin(&args);
    eventually("a candidate", || {
        let elections = node.json(&["elections", "--json"]);
        elections[0]["candidates"].as_array().filter(|all| all.len() == 1).map(drop)
    });
    node.crash();
    // The session is lost after two seconds; what is left of the four is not begun anew.
    candidate.ends_with(13);
    leader.signal(Signal::SIGKILL);
}

#[test]
fn who_waits_for_a_lock_outlives_an_outage() {
    let mut node = Node::start(&[]);
    let mut holder = node.begin(&["lock", "--ttl", "1h", "a"]);
    holder.line();
    let mut waiter = node.begin(&["lock", "--ttl", "2s", "a", "--", "sh", "-c", "exit 7"]);
    node.waiters("a", 1);
    node.crash();
    eventually("that its place is lost", || waiter.stderr().contains("asks again").then_some(()));
    node.restart();
    eventually("that it waits again", || {
        let reasons = node.json(&["why", "a", "--json"]);
        let waiters = reasons["lock"]["waiters"].as_array().map_or(0, Vec::len);
        (waiters >= 1).then_some(())
    });
    assert!(waiter.is_running(), "{}", waiter.stderr());
    holder.signal(Signal::SIGTERM);
    holder.ends_with(0);
    waiter.ends_with(7);
}

#[test]
fn a_candidate_that_never_led_does_not_say_that_it_leads_no_more() {
    let mut node = Node::start(&[]);
    let leader = node.begin(&["elect", "--ttl", "1h", "web"]);
    leader.line();
    let mut candidate = node.begin(&["elect", "--ttl", "2s", "web", "--", "true"]);
    eventually("a candidate", || {
        let elections = node.json(&["elections", "--json"]);
        elections[0]["candidates"].as_array().filter(|all| all.len() == 1).map(drop)
    });
    node.crash();
    eventually("that it stands again", || {
        candidate.stderr().contains("stands again").then_some(())
    });
    assert!(candidate.stderr().contains("did not lead yet"), "{}", candidate.stderr());
    assert!(!candidate.stderr().contains("leads no more"), "{}", candidate.stderr());
    candidate.signal(Signal::SIGTERM);
    candidate.ends_with(143);
}

#[test]
fn who_cannot_wait_need_not_wait_for_a_node_either() {
    // No node listens there; to try for an hour would be too long for this test.
    let far = ["--endpoints", "127.0.0.1:9", "--connect-timeout", "1h"];
    for patience in [&["--try"][..], &["--timeout", "1900ms"]] {
        let args = [&["lock", "a"], patience, &far, &["--", "true"]].concat();
        let folder = tempfile::TempDir::new().expect("there is room");
        let mut process = Process::start(folder.path(), program(&args));
        process.ends_with(13);
        assert!(process.stderr().contains("no node answers"), "{}", process.stderr());
    }
    // A port that accepts connections and says nothing is no better, nor is a node that is stopped.
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = port.local_addr().expect("it has an address").to_string();
    let mut node = Node::start(&[]);
    node.process().signal(Signal::SIGSTOP);
    for endpoint in [&port, &node.address] {
        let silent = ["--endpoints", endpoint, "--connect-timeout", "1h", "--", "true"];
        for patience in [&["lock", "a", "--try"][..], &["lock", "a", "--timeout", "1s"]] {
            node.begin(&[patience, &silent].concat()).ends_with(13);
        }
        node.begin(&[&["elect", "web", "--timeout", "1s"], &silent[..]].concat()).ends_with(13);
    }
    node.process().signal(Signal::SIGCONT);
}

#[test]
fn a_node_that_falls_silent_while_a_lock_is_waited_for_does_not_prolong_the_wait() {
    let mut node = Node::start(&[]);
    let holder = node.begin(&["lock", "--ttl", "1h", "a"]);
    holder.line();
    // Its session would let it wait for an hour.
    let mut waiter = node.begin(&["lock", "--ttl", "1h", "--timeout", "10s", "a", "--", "true"]);
    node.waiters("a", 1);
    node.process().signal(Signal::SIGSTOP);
    waiter.ends_with(11);
    assert!(waiter.stderr().contains("could not be had within 10s"), "{}", waiter.stderr());
    assert!(waiter.stderr().contains("in the background"), "{}", waiter.stderr());
    node.process().signal(Signal::SIGCONT);
    // What goes on in the background ends its session.
    node.waiters("a", 0);
}

#[test]
fn errors_are_json_where_the_rest_is() {
    let node = Node::start(&[]);
    let holder = node.begin(&["lock", "--ttl", "60s", "a"]);
    holder.line();
    let error = |args: &[&str]| -> (i64, Value) {
        let output = node.run(args);
        let said = stderr(&output);
        assert_eq!(said.trim_end().lines().count(), 1, "one line: {said:?}");
        let value: Value = serde_json::from_str(&said).expect(&said);
        let error = value["error"].clone();
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{error}");
        let code = output.status.code().expect("it ended by itself");
        assert_eq!(error["exit"], code, "{error}");
        (code.into(), error["code"].clone())
    };
    for (args, exit, code) in [
        (&["lock", "a", "--try", "--json", "--", "true"][..], 10, "conflict"),
        (&["lock", "a", "--timeout", "3s", "--json", "--", "true"], 11, "timed-out"),
        (&["lock", "a", "--json", "--", "no-such-command"], 127, "command-not-found"),
        (&["lock", "", "--json", "--", "true"], 14, "no-name"),
        (&["expel", "4711", "--reason", "x", "--json"], 14, "unknown-session"),
        (&["lock", "--json"], 2, "usage"),
        (&["locks", "--json", "--auth-token-file", "nowhere"], 5, "file"),
    ] {
        let found = error(args);
        assert_eq!(found.0, exit, "{args:?}: {found:?}");
        assert_eq!(found.1, code, "{args:?}");
    }
    let commands: [&[&str]; 9] = [
        &["lock", "b", "--", "true"],
        &["elect", "b", "--", "true"],
        &["observe", "b", "--once"],
        &["locks"],
        &["sessions"],
        &["elections"],
        &["why", "b"],
        &["graph"],
        &["status"],
    ];
    let nowhere = ["--json", "--endpoints", "127.0.0.1:9", "--connect-timeout", "100ms"];
    for command in commands {
        let args = [&command[..1], &nowhere, &command[1..]].concat();
        assert_eq!(error(&args), (13, "unreachable".into()), "{args:?}");
    }
}
