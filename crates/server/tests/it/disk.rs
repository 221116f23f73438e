//! A disk that fills up, on a file system of its own: the test starts itself again where it may mount one.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::time::Duration;

use crate::support::node::{acquire, ask, open_session};
use crate::support::until;
use conclave_machine::{Acquire, Call, Campaign, Command, Patience, Reply};
use conclave_server::{Node, Options};

/// Set where the small file system is mounted.
const DISK: &str = "CONCLAVE_TEST_DISK";

/// The small file system; or, having run the test there, nothing.
fn disk(test: &str) -> Option<PathBuf> {
    if let Ok(disk) = std::env::var(DISK) {
        return Some(disk.into());
    }
    let directory = tempfile::tempdir().expect("a directory");
    // In a name space of its own, so that no other process sees it and it ends with this one.
    let script = r#"mount -t tmpfs -o size=48m conclave-test "$0" && exec "$@""#;
    let status = Process::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", script])
        .arg(directory.path())
        .arg(std::env::current_exe().expect("Linux tells"))
        .args(["--exact", &format!("disk::{test}"), "--nocapture", "--test-threads=1"])
        .env(DISK, directory.path())
        .status()
        .expect("util-linux is there");
    assert!(status.success(), "it failed on its own file system, or may not mount one: {status}");
    None
}

/// Leaves so much room on the disk, as well as can be.
fn leave(disk: &Path, kib: u64) {
    let filler = disk.join("filler");
    let mut file = File::options().append(true).create(true).open(filler).expect("a file");
    let free = || {
        let disk = rustix::fs::statvfs(disk).expect("it is mounted");
        disk.f_bavail * disk.f_frsize
    };
    while free() > kib << 10 {
        let bytes = (free() - (kib << 10)).min(64 << 10);
        if file.write_all(&vec![7; bytes as usize]).is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_disk_is_nearly_full_nothing_is_granted_but_all_can_be_given_back() {
    let name = "while_the_disk_is_nearly_full_nothing_is_granted_but_all_can_be_given_back";
    let Some(disk) = disk(name) else { return };
    let node = Node::open(Options::new(disk.join("data"))).await.expect("a node");
    let session = open_session(&node).await;
    let token = acquire(&node, session, 1, "a").await;
    assert_eq!(node.trouble(), None);

    leave(&disk, 4096);
    until(|| node.trouble().is_some()).await;
    let refused = ask(&node, session, 2, Call::Acquire(Acquire::exclusive("b"))).await;
    let why = refused.expect_err("nothing is granted").to_string();
    assert!(why.contains("the disk is full") && why.contains("make room"), "{why}");
    let kept = node.propose(Command::KeepAlive { sessions: vec![session] }).await;
    assert_eq!(
        kept.expect("the node is up"),
        Ok(Reply::Alive { gone: Vec::new(), deposed: Vec::new() })
    );
    let release = Call::Release { lock: "a".into(), token, to: None };
    let released = ask(&node, session, 3, release).await.expect("the node is up");
    assert_eq!(released, Ok(Reply::Released { left: 0 }));

    fs::remove_file(disk.join("filler")).expect("it is there");
    until(|| node.trouble().is_none()).await;
    assert!(acquire(&node, session, 4, "b").await > token);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_leases_are_renewed_and_locks_given_back_without_end() {
    let name = "on_a_full_disk_leases_are_renewed_and_locks_given_back_without_end";
    let Some(disk) = disk(name) else { return };
    let node = Node::open(Options::new(disk.join("data"))).await.expect("a node");
    let session = open_session(&node).await;
    let token = acquire(&node, session, 1, "a").await;
    let stand = Campaign {
        election: "e".into(),
        rank: 0,
        preempt: false,
        grace: Duration::ZERO,
        value: Vec::new(),
        patience: Patience::Try,
        owner: None,
    };
    let elected = ask(&node, session, 2, Call::Campaign(stand)).await.expect("the node is up");
    let Ok(Reply::Elected { term }) = elected else { panic!("no leader, but {elected:?}") };

    leave(&disk, 15 << 10);
    until(|| node.trouble().is_some()).await;
    // What is proclaimed would take room, as what is granted does.
    let proclaim = Call::Proclaim { election: "e".into(), term, value: vec![7; 4096] };
    let refused = ask(&node, session, 3, proclaim).await.expect_err("nothing is proclaimed");
    assert!(refused.to_string().contains("the disk is full"), "{refused}");
    // Far more than the disk has room for: the log is cut meanwhile, and what is kept free is never used up.
    let long = vec![session; 100_000];
    let mut written = 0;
    while written < 96 << 20 {
        let before = node.since_snapshot().1;
        let kept = node.propose(Command::KeepAlive { sessions: long.clone() }).await;
        let alive = Reply::Alive { gone: Vec::new(), deposed: Vec::new() };
        assert_eq!(kept.expect("the node is up"), Ok(alive));
        written += node.since_snapshot().1.saturating_sub(before);
        // Clients renew their leases a few times a second, and not as fast as the disk takes it.
        until(|| node.since_snapshot().1 <= 4 << 20).await;
    }
    assert!(node.trouble().is_some_and(|trouble| trouble.contains("the disk is full")));
    let release = Call::Release { lock: "a".into(), token, to: None };
    let released = ask(&node, session, 4, release).await.expect("the node is up");
    assert_eq!(released, Ok(Reply::Released { left: 0 }));
    let resign = Call::Resign { election: "e".into(), term };
    ask(&node, session, 5, resign).await.expect("the node is up").expect("it led");
    node.propose(Command::Close { session }).await.expect("the node is up").expect("it was open");
    node.stop().await.expect("it stops");
    fs::remove_file(disk.join("filler")).expect("it is there");
    let node = Node::open(Options::new(disk.join("data"))).await.expect("a node");
    assert_eq!(node.look(|machine| machine.counts().sessions), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_without_any_room_stops_the_node_and_nothing_acknowledged_is_lost() {
    let name = "a_disk_without_any_room_stops_the_node_and_nothing_acknowledged_is_lost";
    let Some(disk) = disk(name) else { return };
    let node = Node::open(Options::new(disk.join("data"))).await.expect("a node");
    let session = open_session(&node).await;
    let mut tokens = Vec::new();
    for number in 1..=20 {
        tokens.push(acquire(&node, session, number, &format!("lock-{number}")).await);
    }
    leave(&disk, 0);
    // Some of the log is made in advance; what fits there may be acknowledged, and what does not is not.
    let long = vec![session; 100_000];
    let error = loop {
        let kept = node.propose(Command::KeepAlive { sessions: long.clone() }).await;
        match kept {
            Ok(answer) => {
                assert_eq!(answer, Ok(Reply::Alive { gone: Vec::new(), deposed: Vec::new() }));
            }
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("stopped"), "{error}");
    let release = Call::Release { lock: "lock-1".into(), token: tokens[0], to: None };
    ask(&node, session, 21, release).await.expect_err("it has stopped");
    drop(node);
    fs::remove_file(disk.join("filler")).expect("it is there");
    let node = Node::open(Options::new(disk.join("data"))).await.expect("a node");
    for (number, token) in (1..).zip(&tokens) {
        let held = node.look(|machine| machine.lock(&format!("lock-{number}")));
        assert_eq!(held.expect("it was not released").holders[0].token, *token);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_with_a_snapshot_due_ends_grants_and_nothing_else() {
    let name = "a_full_disk_with_a_snapshot_due_ends_grants_and_nothing_else";
    let Some(disk) = disk(name) else { return };
    let options = Options { snapshot_every: 50, ..Options::new(disk.join("data")) };
    let node = Node::open(options.clone()).await.expect("a node");
    let session = open_session(&node).await;
    let token = acquire(&node, session, 1, "a").await;
    leave(&disk, 0);
    // Renewals go on long after a snapshot is due; it is tried, and does not fit.
    let failed = || node.trouble().is_some_and(|trouble| trouble.contains("snapshot"));
    let full = || node.trouble().is_some_and(|trouble| trouble.contains("the disk is full"));
    while node.since_snapshot().0 < 500 || !(failed() || full()) {
        let kept = node.propose(Command::KeepAlive { sessions: vec![session] }).await;
        assert_eq!(
            kept.expect("the node is up"),
            Ok(Reply::Alive { gone: Vec::new(), deposed: Vec::new() })
        );
    }
    let refused = ask(&node, session, 2, Call::Acquire(Acquire::exclusive("b"))).await;
    refused.expect_err("nothing is granted");
    let release = Call::Release { lock: "a".into(), token, to: None };
    let released = ask(&node, session, 3, release).await.expect("the node is up");
    assert_eq!(released, Ok(Reply::Released { left: 0 }));

    fs::remove_file(disk.join("filler")).expect("it is there");
    until(|| node.trouble().is_none() && node.since_snapshot().0 < 50).await;
    let later = acquire(&node, session, 4, "b").await;
    assert!(later > token);
    node.stop().await.expect("it stops");
    let node = Node::open(options).await.expect("a node");
    let held = node.look(|machine| machine.lock("b")).expect("it is held");
    assert_eq!(held.holders[0].token, later);
}
