//! Elections under faults, with real processes: leaders are killed, stopped and preempted, the node is
//! killed; and at no moment do the commands of two leaders run.

use std::collections::BTreeMap;
use std::fs;

use crate::support::node::{Node, Process, eventually};
use nix::sys::signal::Signal;

/// A command that writes down again and again that it runs, by which term, and when.
const BEAT: &str = "while :; do echo $0 $CONCLAVE_TERM $(date +%s%N) >> history; sleep 0.02; done";

/// A candidate of the election `web`.
fn candidate(node: &Node, name: &str, ttl: &str, more: &[&str]) -> Process {
    let flags = ["elect", "web", "--ttl", ttl, "--name", name];
    node.begin(&[&flags[..], more, &["--", "sh", "-c", BEAT, name]].concat())
}

/// When a command ran, from its first word to its last.
#[derive(Clone, Debug)]
struct Reign {
    name: String,
    from: u64,
    to: u64,
}

/// Who ran its command, by term.
fn history(node: &Node) -> BTreeMap<u64, Reign> {
    let text = fs::read_to_string(node.file("history")).unwrap_or_default();
    let mut reigns: BTreeMap<u64, Reign> = BTreeMap::new();
    // The last line may be half written.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    for line in whole.lines() {
        let mut words = line.split(' ');
        let name = words.next().expect("a name").to_owned();
        let [term, at] = [(); 2].map(|()| {
            words.next().and_then(|word| word.parse::<u64>().ok()).expect("a number in each line")
        });
        let reign =
            reigns.entry(term).or_insert_with(|| Reign { name: name.clone(), from: at, to: at });
        assert_eq!(reign.name, name, "two have the term {term}");
        (reign.from, reign.to) = (reign.from.min(at), reign.to.max(at));
    }
    reigns
}

/// No two commands ran at the same time, and later ones have higher terms.
#[track_caller]
fn judge(node: &Node) {
    let reigns = history(node);
    let all: Vec<(&u64, &Reign)> = reigns.iter().collect();
    for pair in all.windows(2) {
        let [(before, first), (after, second)] = pair else { unreachable!("they are two") };
        assert!(
            first.to < second.from,
            "{} with term {before} ran beside {} with term {after}, for {} ms",
            first.name,
            second.name,
            (first.to - second.from) / 1_000_000
        );
    }
}

/// Waits until a leader of this name runs its command with a later term than this, and returns that.
fn leads(node: &Node, name: &str, after: u64) -> u64 {
    eventually(&format!("{name} leads"), || {
        let reigns = history(node);
        reigns.iter().find(|(term, reign)| **term > after && reign.name == name).map(|(&it, _)| it)
    })
}

/// Waits until so many stand.
fn stand(node: &Node, count: usize) {
    eventually("a candidate", || {
        let elections = node.json(&["elections", "--json"]);
        let candidates = elections[0]["candidates"].as_array().map_or(0, Vec::len);
        (candidates == count).then_some(())
    });
}

#[test]
fn a_leader_that_is_stopped_is_not_followed_before_its_command_has_ended() {
    let node = Node::start(&[]);
    let low = candidate(&node, "low", "6s", &[]);
    let term = leads(&node, "low", 0);
    low.signal(Signal::SIGSTOP);
    let _high = candidate(&node, "high", "60s", &["--rank", "5", "--preempt"]);
    // It cannot hear that it is to yield, nor that it is deposed.
    eventually("that it is deposed", || {
        let why = node.ends_with(0, &["why", "web"]);
        assert!(!why.contains("is free"), "{why}");
        why.contains("low was deposed and has not confirmed it; its lease lasts").then_some(())
    });
    let elections = node.ends_with(0, &["elections"]);
    assert!(elections.contains("low@") && elections.contains("high@"), "{elections}");
    leads(&node, "high", term);
    low.signal(Signal::SIGCONT);
    // It notices, and stands again.
    stand(&node, 1);
    judge(&node);
}

#[test]
fn a_leader_that_hears_that_it_is_to_yield_is_followed_without_waiting_for_its_lease() {
    let node = Node::start(&[]);
    let _low = candidate(&node, "low", "10m", &["--grace", "10s"]);
    let term = leads(&node, "low", 0);
    let mut high = candidate(&node, "high", "10m", &["--rank", "5", "--preempt"]);
    let term = leads(&node, "high", term);
    stand(&node, 1);
    // Back and forth; the first stands with the same session as before.
    high.signal(Signal::SIGTERM);
    high.ends_with(143);
    leads(&node, "low", term);
    judge(&node);
}

#[test]
fn a_deposed_leader_does_not_come_straight_back_whatever_its_rank() {
    let node = Node::start(&[]);
    let mut best = candidate(&node, "best", "60s", &["--rank", "9", "--preempt"]);
    let term = leads(&node, "best", 0);
    let other = candidate(&node, "other", "60s", &[]);
    stand(&node, 1);
    node.ends_with(0, &["depose", "web", "--for", "1h", "--reason", "it serves errors"]);
    let term = leads(&node, "other", term);
    eventually("word of why it does not lead", || {
        best.stderr().contains("an operator deposed it; stands again in").then_some(())
    });
    let elections = node.json(&["elections", "--json"]);
    assert_eq!(elections[0]["leader"]["who"]["name"], "other");
    assert_eq!(elections[0]["candidates"], serde_json::json!([]));
    best.signal(Signal::SIGTERM);
    best.ends_with(143);
    // After a short while it may come back.
    let _back = candidate(&node, "back", "60s", &["--rank", "9", "--preempt"]);
    let term = leads(&node, "back", term);
    node.ends_with(0, &["depose", "web", "--for", "100ms", "--reason", "for a moment"]);
    leads(&node, "back", term);
    // With --once, that is the end of it.
    drop(other);
    let mut once = node.begin(&["elect", "db", "--once", "--ttl", "60s", "--", "sleep", "600"]);
    eventually("a leader of db", || {
        let leader = node.json(&["observe", "db", "--once", "--json"]);
        (!leader["leader"].is_null()).then_some(())
    });
    node.ends_with(0, &["depose", "db", "--reason", "enough"]);
    once.ends_with(12);
    judge(&node);
}

#[test]
fn whatever_happens_to_leaders_and_to_the_node_no_two_commands_run_at_once() {
    let mut node = Node::start(&[]);
    let stand_by = |node: &Node, name: &str, rank: &str| {
        candidate(node, name, "3s", &["--rank", rank, "--preempt"])
    };
    let one = stand_by(&node, "one", "1");
    let mut term = leads(&node, "one", 0);
    // Killed while a better one arrives.
    let two = stand_by(&node, "two", "2");
    one.signal(Signal::SIGKILL);
    term = leads(&node, "two", term);
    // Stopped while a better one takes over, and woken when that leads.
    let three = stand_by(&node, "three", "3");
    two.signal(Signal::SIGSTOP);
    term = leads(&node, "three", term);
    two.signal(Signal::SIGCONT);
    stand(&node, 1);
    // The node is killed while a leader is asked to yield; it comes back, and the better one leads.
    let four = stand_by(&node, "four", "4");
    node.crash();
    node.restart();
    term = leads(&node, "four", term);
    // The node is away for longer than leases last, so that the command has to end; then one leads again.
    let begun = history(&node)[&term].to;
    node.crash();
    eventually("the end of the command", || {
        let last = history(&node)[&term].to;
        let now =
            std::process::Command::new("date").arg("+%s%N").output().expect("there is a clock");
        let now: u64 = String::from_utf8_lossy(&now.stdout).trim().parse().expect("a number");
        (now > last + 1_000_000_000 && now > begun + 3_000_000_000).then_some(())
    });
    node.restart();
    eventually("another leader", || {
        history(&node).last_key_value().filter(|(last, _)| **last > term).map(drop)
    });
    judge(&node);
    drop((two, three, four));
}
