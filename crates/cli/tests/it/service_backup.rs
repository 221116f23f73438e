//! `conclave backup`, `conclave restore`, and what `conclave up` says of damaged data.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use nix::sys::signal::Signal;

use crate::support::node::{Node, program};
use crate::support::{stderr, stdout};

#[test]
fn a_backup_of_a_running_node_is_restored_without_its_holders() {
    let mut node = Node::start(&[]);
    let mut holder = node.begin(&["lock", "--ttl", "60s", "a"]);
    let token: u64 = holder.line().parse().expect("it prints the token");
    let said = node.json(&["backup", "copy", "--json"]);
    assert_eq!((&said["last_token"], &said["sessions"]), (&token.into(), &1.into()), "{said}");
    let mode = fs::metadata(node.file("copy")).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Once more, over the old one.
    let text = node.ends_with(0, &["backup", "copy"]);
    assert!(text.contains("1 session, 1 lock"), "{text}");
    node.refuses(22, &["restore", "copy", "--data", "data"], "is not empty");
    node.refuses(22, &["restore", "no-file", "--data", "new"], "cannot read no-file");
    fs::write(node.file("bad"), b"conclav2 and nonsense").expect("it can be written");
    node.refuses(23, &["restore", "bad", "--data", "new"], "no backup that can be restored");
    assert!(!node.file("new").exists(), "nothing was begun");
    let text = node.ends_with(0, &["restore", "copy", "--data", "new", "--wait", "0s"]);
    assert!(text.contains("no sessions") && text.contains("conclave up --data new"), "{text}");
    assert!(!text.contains("grants nothing"), "{text}");
    let text = node.ends_with(0, &["restore", "copy", "--data", "waits"]);
    assert!(text.contains("grants nothing for 60 s"), "{text}");
    let said = node.json(&["restore", "copy", "--data", "long", "--wait", "1h", "--json"]);
    assert_eq!(said["wait_ms"], 3_600_000, "{said}");
    holder.signal(Signal::SIGTERM);
    holder.ends_with(0);
    node.process().signal(Signal::SIGTERM);
    node.process().ends_with(0);

    fs::rename(node.file("data"), node.file("old")).expect("it is there");
    fs::rename(node.file("new"), node.file("data")).expect("it is there");
    node.restart();
    assert_eq!(node.json(&["sessions", "--json"]).as_array().map(Vec::len), Some(0));
    let later = node.ends_with(0, &["lock", "a", "--", "sh", "-c", "echo $CONCLAVE_TOKEN"]);
    let later: u64 = later.trim().parse().expect("it prints the token");
    assert!(later > 1 << 50, "{later}");

    node.process().signal(Signal::SIGTERM);
    node.process().ends_with(0);
    fs::rename(node.file("data"), node.file("older")).expect("it is there");
    fs::rename(node.file("long"), node.file("data")).expect("it is there");
    node.restart();
    let status = node.json(&["status", "--json"]);
    let trouble = status["trouble"].as_str().unwrap_or_default();
    assert!(trouble.contains("restored from a backup"), "{status}");
    node.refuses(17, &["lock", "a", "--try", "--", "true"], "restored from a backup");
}

#[test]
fn a_log_that_was_cut_flipped_or_lost_is_damage_and_exit_code_23() {
    let mut node = Node::start(&[]);
    for _ in 0..5 {
        node.ends_with(0, &["lock", "a", "--", "true"]);
    }
    node.process().signal(Signal::SIGTERM);
    node.process().ends_with(0);
    let (data, journal) = (node.file("data"), node.file("data").join("journal"));
    let file = journal.join("0000000000000001.log");
    let good = fs::read(&file).expect("it is there");
    let last = good.iter().rposition(|&byte| byte != 0).expect("there is something");
    let refuses = |text: &str| {
        let data = data.to_str().expect("it is UTF-8");
        let output = program(&["up", "--data", data, "--listen", "127.0.0.1:0"]).output();
        let output = output.expect("it starts");
        assert_eq!(output.status.code(), Some(23), "{}", stderr(&output));
        assert!(stderr(&output).contains(text), "{}", stderr(&output));
        assert_eq!(stdout(&output), "");
    };
    let mut flipped = good.clone();
    flipped[last] ^= 1;
    fs::write(&file, &flipped).expect("it can be written");
    refuses("may have been acknowledged");
    fs::write(&file, &good[..good.len() / 2]).expect("it can be written");
    refuses("is cut off");
    fs::rename(&journal, node.file("away")).expect("it is there");
    refuses("what came after the snapshot is missing");
    fs::rename(node.file("away"), &journal).expect("it is there");
    fs::write(&file, &good).expect("it can be written");
    node.restart();
}
