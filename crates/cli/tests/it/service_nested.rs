//! Commands under a lock that lock and stand for election themselves.

use std::fs;

use crate::support::node::{Node, Process, eventually, is_alive, line_in};
use crate::support::stderr;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const OWN: &str = env!("CARGO_BIN_EXE_conclave");

/// A script that has one thing, waits until the other script has its own, and wants that one.
fn wants(first: &str, second: &str, command: &str) -> String {
    format!(
        "echo > has-{first}; while ! test -e has-{second}; do sleep 0.02; done; \
         {OWN} {command} {second} -- echo got {second}"
    )
}

fn start(node: &Node, flags: &[&str], script: &str) -> Process {
    node.begin(&[&["lock", "--ttl", "60s"], flags, &["--", "sh", "-c", script]].concat())
}

#[test]
fn a_deadlock_of_nested_locks_is_found_and_named() {
    let node = Node::start(&[]);
    let mut both = [
        start(&node, &["A"], &wants("A", "B", "lock")),
        start(&node, &["B"], &wants("B", "A", "lock")),
    ];
    let codes = both.each_mut().map(|one| one.status().code());
    assert!(codes == [Some(15), Some(0)] || codes == [Some(0), Some(15)], "{codes:?}");
    let refused = &both[usize::from(codes[1] == Some(15))];
    let said = refused.stderr();
    assert!(said.contains("deadlock") && said.contains('A') && said.contains('B'), "{said}");
    assert_eq!(node.json(&["locks", "--json"]), serde_json::json!([]), "nothing is left behind");
}

#[test]
fn the_graph_shows_a_deadlock_of_nested_locks() {
    let node = Node::start(&["--deadlocks", "none"]);
    let both = [
        start(&node, &["A"], &wants("A", "B", "lock")),
        start(&node, &["B"], &wants("B", "A", "lock")),
    ];
    let graph = eventually("the cycle", || {
        let graph = node.ends_with(0, &["graph"]);
        (!graph.contains("no deadlock") && graph.contains("deadlock")).then_some(graph)
    });
    assert!(graph.contains("waits for A") && graph.contains("waits for B"), "{graph}");
    drop(both);
}

/// One that holds a lock and stands in an election, and the leader, who wants the lock. All of it is done by nested
/// commands, but for the session that is outermost.
fn lock_and_election(node: &Node) -> [Process; 2] {
    let (holder, leader) = (wants("A", "E", "elect"), wants("E", "A", "lock"));
    let [holds, leads] = [("hold", holder), ("lead", leader)].map(|(name, script)| {
        fs::write(node.file(name), script).expect("it can be written");
        format!("{OWN} {} -- sh {name}", if name == "hold" { "lock A" } else { "elect E" })
    });
    // The holder's is nested once more, and the leader is nested in a lock that has nothing to do with it.
    let holds = node.begin(&["elect", "--ttl", "60s", "F", "--", "sh", "-c", &holds]);
    let leads = node.begin(&["lock", "--ttl", "60s", "B", "--", "sh", "-c", &leads]);
    [holds, leads]
}

#[test]
fn a_deadlock_of_a_nested_lock_and_a_nested_election_is_found_and_named() {
    let node = Node::start(&[]);
    let [mut holder, mut leader] = lock_and_election(&node);
    // A wait for a lock is refused rather than a candidacy, whichever was there first.
    leader.ends_with(15);
    let said = leader.stderr();
    assert!(said.contains("deadlock") && said.contains('A') && said.contains('E'), "{said}");
    assert!(!leader.stdout().contains("got A"), "{}", leader.stdout());
    // With its end it has resigned, and the candidate leads.
    holder.ends_with(0);
    assert!(holder.stdout().contains("got E"), "{}", holder.stdout());
    assert_eq!(node.json(&["locks", "--json"]), serde_json::json!([]), "nothing is left behind");
    assert_eq!(node.json(&["elections", "--json"]), serde_json::json!([]), "nor there");
}

#[test]
fn the_graph_shows_a_deadlock_of_a_nested_lock_and_a_nested_election() {
    let node = Node::start(&["--deadlocks", "none"]);
    let both = lock_and_election(&node);
    let graph = eventually("the cycle", || {
        let graph = node.ends_with(0, &["graph"]);
        (!graph.contains("no deadlock") && graph.contains("deadlock")).then_some(graph)
    });
    assert!(graph.contains("waits for A") && graph.contains('E'), "{graph}");
    drop(both);
}

#[test]
fn a_nested_candidate_beside_another_nested_command_is_a_thread_of_control_of_its_own() {
    let node = Node::start(&[]);
    let mut leader = node.begin(&["elect", "--ttl", "60s", "E"]);
    leader.line();
    // The first nested command goes on for the outer one and stands; the second is beside it and need not wait.
    let script = format!(
        "{OWN} elect E -- echo leads & while ! test -e stands; do sleep 0.02; done; \
         {OWN} lock b -- echo holds b; wait"
    );
    let mut outer = node.begin(&["lock", "--ttl", "60s", "a", "--", "sh", "-c", &script]);
    eventually("a candidate", || {
        let elections = node.json(&["elections", "--json"]);
        elections[0]["candidates"].as_array().filter(|all| all.len() == 1).map(drop)
    });
    fs::write(node.file("stands"), "").expect("it can be written");
    eventually("the other", || outer.stdout().contains("holds b").then_some(()));
    leader.signal(Signal::SIGTERM);
    leader.ends_with(0);
    outer.ends_with(0);
    assert!(outer.stdout().contains("leads"), "{}", outer.stdout());
}

#[test]
fn nested_commands_at_the_same_time_are_not_taken_for_one_thread_of_control() {
    let node = Node::start(&[]);
    // Another process leads E, and then waits for b.
    let script = format!("while ! test -e b-held; do sleep 0.02; done; {OWN} lock b -- echo has b");
    let mut other =
        node.begin(&["elect", "--once", "--ttl", "60s", "E", "--", "sh", "-c", &script]);
    eventually("a leader", || {
        let elections = node.json(&["elections", "--json"]);
        elections[0]["leader"].is_object().then_some(())
    });
    // The first nested command goes on for the outer one. The second holds b, the third waits for E: were they one
    // thread of control, it would wait for itself.
    let until = "while ! test -e enough; do sleep 0.02; done";
    let script = format!(
        "{OWN} lock x -- sh -c 'touch x-held; {until}' & while ! test -e x-held; do sleep 0.02; done; \
         {OWN} lock b -- sh -c 'touch b-held; {until}' & while ! test -e b-held; do sleep 0.02; done; \
         {OWN} elect --once E -- echo leads E & wait"
    );
    let mut outer = node.begin(&["lock", "--ttl", "60s", "a", "--", "sh", "-c", &script]);
    node.waiters("b", 1);
    eventually("a candidate", || {
        let elections = node.json(&["elections", "--json"]);
        elections[0]["candidates"].as_array().filter(|all| all.len() == 1).map(drop)
    });
    let graph = node.ends_with(0, &["graph"]);
    assert!(graph.contains("no deadlock"), "{graph}");
    fs::write(node.file("enough"), "").expect("it can be written");
    other.ends_with(0);
    outer.ends_with(0);
    assert!(other.stdout().contains("has b"), "{}", other.stdout());
    assert!(outer.stdout().contains("leads E"), "{}", outer.stdout());
}

#[test]
fn to_lock_ones_own_lock_is_refused_or_reentrant() {
    let node = Node::start(&[]);
    node.refuses(14, &["lock", "n1", "--", OWN, "lock", "n1", "--", "true"], "--reentrant");
    let deep = ["lock", "n1", "--", OWN, "lock", "--reentrant", "n1", "--", "sh", "-c"];
    // The inner release leaves the outer hold.
    let script = format!(
        "{OWN} lock --reentrant n1 -- true; {OWN} lock --new-session --try n1 -- true; echo $?"
    );
    let printed = node.run(&[&deep[..], &[&script]].concat());
    assert_eq!(crate::support::stdout(&printed), "10\n", "{}", stderr(&printed));
    node.ends_with(0, &["lock", "--try", "n1", "--", "true"]);
}

#[test]
fn nested_commands_use_the_session_they_are_nested_in() {
    let node = Node::start(&[]);
    let script = format!(
        "echo $CONCLAVE_SESSION; {OWN} lock b -- sh -c 'echo $CONCLAVE_SESSION $CONCLAVE_LOCK; \
         {OWN} elect web -- sh -c \"echo \\$CONCLAVE_SESSION \\$CONCLAVE_ELECTION; \
         {OWN} lock --new-session c -- sh -c \\\"echo \\\\\\$CONCLAVE_SESSION\\\"\"'; \
         {OWN} lock b -- echo again; exit 4"
    );
    let printed = node.ends_with(4, &["lock", "a", "--", "sh", "-c", &script]);
    let lines: Vec<&str> = printed.lines().collect();
    let outer = lines[0];
    assert_eq!(lines[1], format!("{outer} b"), "{printed}");
    assert_eq!(lines[2], format!("{outer} web"), "{printed}");
    assert_ne!(lines[3], outer, "{printed}");
    assert_eq!(lines[4], "again", "{printed}");
    // The key is nowhere to be seen.
    let script = "tr '\\0' '\\n' < /proc/self/environ; tr '\\0' '\\n' < /proc/$PPID/cmdline";
    let seen = node.ends_with(0, &["lock", "a", "--", "sh", "-c", script]);
    assert!(seen.contains("CONCLAVE_NEST") && !seen.to_lowercase().contains("key"), "{seen}");
    assert_eq!(node.json(&["locks", "--json"]), serde_json::json!([]), "nothing is left behind");
}

#[test]
fn nested_commands_at_the_same_time_exclude_each_other() {
    let node = Node::start(&[]);
    let alone = "exec 9>>inside; flock -n 9 || echo twice >> verdict; echo >> runs; sleep 0.1 9>&-";
    fs::write(node.file("alone"), alone).expect("it can be written");
    let one = format!("{OWN} lock b -- sh alone &");
    let script = format!("{one} {one} {one} wait");
    node.ends_with(0, &["lock", "--ttl", "60s", "a", "--", "sh", "-c", &script]);
    assert!(!node.file("verdict").exists());
    assert_eq!(fs::read_to_string(node.file("runs")).expect("they ran").lines().count(), 3);
}

#[test]
fn a_nested_command_that_is_left_in_the_background_keeps_its_own_lock() {
    let node = Node::start(&[]);
    let script = format!(
        "{OWN} lock b -- sh -c 'echo > ready; while ! test -e go; do sleep 0.05; done' & \
         while ! test -e ready; do sleep 0.05; done; exit 6"
    );
    let mut outer = node.begin(&["lock", "--ttl", "60s", "a", "--", "sh", "-c", &script]);
    eventually("the nested command", || node.file("ready").exists().then_some(()));
    // The outer lock is free as soon as its command has ended, and the inner one is not.
    node.begin(&["lock", "--ttl", "60s", "a", "--", "true"]).ends_with(0);
    node.refuses(10, &["lock", "--try", "b", "--", "true"], "b cannot be had");
    eventually("that it waits", || {
        outer.stderr().contains("a nested command goes on").then_some(())
    });
    assert!(outer.is_running(), "{}", outer.stderr());
    fs::write(node.file("go"), "").expect("it can be written");
    outer.ends_with(6);
    node.ends_with(0, &["lock", "--try", "b", "--", "true"]);
}

/// A nested command that tells its number and goes on for ever, deaf to SIGTERM.
fn stubborn_within(node: &Node, ttl: &str) -> (Process, String, String) {
    let inner = "trap '' TERM; echo $PPID > guard; echo $$ > pid; while :; do sleep 0.05; done";
    fs::write(node.file("inner"), inner).expect("it can be written");
    let script = format!("echo $$ > wrapper; exec {OWN} lock b -- sh inner");
    let outer = node.begin(&["lock", "--ttl", ttl, "a", "--", "sh", "-c", &script]);
    let [pid, wrapper] = ["pid", "wrapper"].map(|name| line_in(&node.file(name)));
    (outer, pid, wrapper)
}

/// What the next holder of a lock finds of a process: that it is dead.
const LOOK: &str = "! test -e /proc/$0 || grep -q 'State:.[ZX]' /proc/$0/status";

fn next(node: &Node, lock: &str, pid: &str) -> Process {
    let next = node.begin(&["lock", "--ttl", "60s", lock, "--", "sh", "-c", LOOK, pid]);
    node.waiters(lock, 1);
    next
}

#[test]
fn a_nested_command_is_dead_before_another_has_either_lock_whichever_process_is_killed() {
    let node = Node::start(&[]);
    // The outer process, then the nested one.
    let (mut outer, pid, _) = stubborn_within(&node, "4s");
    let mut nexts = [next(&node, "a", &pid), next(&node, "b", &pid)];
    outer.signal(Signal::SIGKILL);
    outer.status();
    nexts.iter_mut().for_each(|next| next.ends_with(0));

    for name in ["pid", "wrapper", "guard"] {
        fs::remove_file(node.file(name)).expect("it is there");
    }
    let (mut outer, pid, wrapper) = stubborn_within(&node, "1h");
    let mut inner_next = next(&node, "b", &pid);
    kill(Pid::from_raw(wrapper.parse().expect("a number")), Signal::SIGKILL).expect("it is there");
    // Its guard gives it a fifth of the time-to-live to end; that is long here.
    assert!(is_alive(&pid) && inner_next.is_running());
    let guard = line_in(&node.file("guard"));
    kill(Pid::from_raw(guard.parse().expect("a number")), Signal::SIGKILL).expect("it is there");
    inner_next.ends_with(0);
    outer.status();
}

#[test]
fn what_an_operator_takes_from_the_outer_command_ends_the_nested_one_at_once() {
    let node = Node::start(&[]);
    let (mut outer, pid, _) = stubborn_within(&node, "1h");
    let mut inner_next = next(&node, "b", &pid);
    node.ends_with(0, &["release", "a", "--force", "--reason", "it hangs"]);
    outer.ends_with(12);
    assert!(!is_alive(&pid), "it was killed");
    inner_next.ends_with(0);
}
