//! Commands that are run by a leader.

use std::fs;

use crate::support::node::{Node, eventually, line_in};
use nix::sys::signal::Signal;
use serde_json::Value;

/// A command that notes its term, and that it was told to end.
const SERVE: &str = "trap 'echo $0 ends >> story; exit 0' TERM; echo $0 $CONCLAVE_TERM >> story; \
                     while :; do sleep 0.05; done";

fn story(node: &Node) -> Vec<String> {
    let story = fs::read_to_string(node.file("story")).unwrap_or_default();
    story.lines().map(str::to_owned).collect()
}

fn so_far(node: &Node, lines: usize) -> Vec<String> {
    eventually(&format!("line {lines} of the story"), || {
        let story = story(node);
        (story.len() >= lines).then_some(story)
    })
}

fn term(line: &str) -> u64 {
    let term = line.split(' ').nth(1).expect("there is a term");
    term.parse().expect("it is a number")
}

#[test]
fn a_leader_runs_its_command_and_ends_as_that_does() {
    let node = Node::start(&[]);
    let script = "echo $CONCLAVE_ELECTION $CONCLAVE_TERM $CONCLAVE_TOKEN; exit 6";
    let printed = node.ends_with(6, &["elect", "web", "--", "sh", "-c", script]);
    let words: Vec<&str> = printed.split_whitespace().collect();
    assert_eq!((words[0], words[1]), ("web", words[2]));
    assert!(words[1].parse::<u64>().is_ok_and(|term| term > 0));
    let gone = node.ends_with(0, &["observe", "web", "--once"]);
    assert!(gone.contains("no leader"), "{gone}");
    node.refuses(127, &["elect", "web", "--", "no-such-command"], "no-such-command");
}

#[test]
fn a_better_candidate_takes_over_and_the_other_stands_again() {
    let node = Node::start(&[]);
    let candidate = |name: &str, more: &[&str]| {
        let flags = ["elect", "web", "--ttl", "60s", "--name", name, "--value", name];
        node.begin(&[&flags[..], more, &["--", "sh", "-c", SERVE, name]].concat())
    };
    let observer = node.begin(&["observe", "web", "--json"]);
    let low = candidate("low", &[]);
    let story = so_far(&node, 1);
    let first = term(&story[0]);
    // Of equal rank, it waits.
    let mut equal = candidate("equal", &["--preempt"]);
    eventually("another candidate", || {
        let elections = node.json(&["elections", "--json"]);
        elections[0]["candidates"].as_array().filter(|all| all.len() == 1).map(drop)
    });
    equal.signal(Signal::SIGTERM);
    equal.ends_with(143);

    let high = candidate("high", &["--rank", "5", "--preempt"]);
    let story = so_far(&node, 3);
    assert_eq!((story[1].as_str(), story[2].starts_with("high ")), ("low ends", true));
    assert!(term(&story[2]) > first);
    let leads = node.json(&["observe", "web", "--once", "--json"]);
    assert_eq!(
        (&leads["leader"]["value"], &leads["leader"]["who"]["name"]),
        (&"high".into(), &"high".into())
    );
    // It is told to stop, resigns, and the first leads again.
    high.signal(Signal::SIGTERM);
    let story = so_far(&node, 5);
    assert_eq!((story[3].as_str(), story[4].starts_with("low ")), ("high ends", true));
    assert!(term(&story[4]) > term(&story[2]));
    let mut low = low;
    low.signal(Signal::SIGTERM);
    low.ends_with(0);
    // The observer has seen all of it, and in order.
    let terms = eventually("the end of what is observed", || {
        let seen = observer.stdout();
        let seen: Vec<Value> =
            seen.lines().map_while(|line| serde_json::from_str(line).ok()).collect();
        let terms: Vec<u64> =
            seen.iter().filter_map(|leader| leader["leader"]["term"].as_u64()).collect();
        let over = seen.last().is_some_and(|last| last["leader"].is_null());
        (over && terms.len() >= 3).then_some(terms)
    });
    assert!(terms.is_sorted(), "{terms:?}");
}

#[test]
fn a_leader_who_is_deposed_is_ended_at_once() {
    let node = Node::start(&[]);
    let script = "trap '' TERM; echo $$ >> pids; while :; do sleep 0.05; done";
    let mut leader =
        node.begin(&["elect", "web", "--once", "--ttl", "60s", "--", "sh", "-c", script]);
    let pid = line_in(&node.file("pids"));
    node.ends_with(0, &["depose", "web", "--reason", "it serves errors"]);
    leader.ends_with(12);
    assert!(!crate::support::node::is_alive(&pid));
    assert!(leader.stderr().contains("an operator"), "{}", leader.stderr());
    node.refuses(14, &["depose", "web", "--reason", "again"], "no session holds or leads");
    // Without a command, the term is printed, and Ctrl-C resigns.
    let mut leader = node.begin(&["elect", "web"]);
    leader.line().parse::<u64>().expect("it prints the term");
    node.refuses(11, &["elect", "web", "--timeout", "3s", "--", "true"], "within 3s");
    leader.signal(Signal::SIGTERM);
    leader.ends_with(0);
}

#[test]
fn a_leader_whose_node_is_gone_stands_again_when_it_is_back() {
    let mut node = Node::start(&[]);
    let mut leader = node.begin(&["elect", "web", "--ttl", "10s", "--", "sh", "-c", SERVE, "only"]);
    let story = so_far(&node, 1);
    let first = term(&story[0]);
    node.crash();
    assert_eq!(so_far(&node, 2)[1], "only ends", "it was told before its lease was over");
    node.restart();
    let story = so_far(&node, 3);
    assert!(term(&story[2]) > first);
    leader.signal(Signal::SIGTERM);
    leader.ends_with(0);
}
