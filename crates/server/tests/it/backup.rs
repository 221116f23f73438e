//! A backup is the whole state; what is made from it grants no token twice and revives no holder.

use std::fs;
use std::time::Duration;

use conclave_machine::{Call, Campaign, Command, Open, Patience, Reply, Token};
use conclave_server::{ManualTime, Node, NodeError, Options, TimeSource, read_backup, restore};

use crate::support::node::{acquire, ask, open_session};

/// A node with a holder, a leader and an order of an operator, and what it had granted last.
async fn busy(options: &Options) -> (Node, Token) {
    let node = Node::open(options.clone()).await.expect("a node");
    let session = open_session(&node).await;
    acquire(&node, session, 1, "a").await;
    let force = Command::ForceRelease { lock: "a".into(), token: None, reason: "test".into() };
    node.propose(force).await.expect("the node is up").expect("it is held");
    let token = acquire(&node, session, 2, "b").await;
    let campaign = Campaign {
        election: "web".into(),
        rank: 0,
        preempt: false,
        grace: Duration::ZERO,
        value: b"here".to_vec(),
        patience: Patience::Forever,
        owner: None,
    };
    let led = ask(&node, session, 3, Call::Campaign(campaign)).await.expect("the node is up");
    let Ok(Reply::Elected { term }) = led else { panic!("it does not lead, but {led:?}") };
    (node, token.max(term))
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_tokens_are_greater_than_any_before_and_nothing_is_held() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut options = Options::new(directory.path().join("one"));
    options.config.deadlocks = conclave_machine::Policy::WaitDie;
    let (node, last) = busy(&options).await;
    let backup = node.backup().await.expect("the node is up");
    let read = read_backup(&backup).expect("it is one");
    assert_eq!((read.last_token, read.counts.holds, read.counts.sessions), (last, 1, 1));
    // What is granted after the backup is not in it.
    let session = open_session(&node).await;
    let mut latest = last;
    for number in 1..50 {
        latest = latest.max(acquire(&node, session, number, &format!("late-{number}")).await);
    }
    node.stop().await.expect("it stops");

    let (mut file, mut newest) = (backup, Token(1 << 50));
    for round in 1..4_u64 {
        let data = directory.path().join(format!("restored-{round}"));
        let restored = restore(&file, &data, Some(Duration::ZERO)).await.expect("it is restored");
        let after = restored.tokens_after;
        assert!(after > newest && after < Token(1 << 53), "{after}");
        newest = after;
        // Other settings are not taken: those of the backup are.
        let node = Node::open(Options::new(&data)).await.expect("a node");
        node.look(|machine| {
            let counts = machine.counts();
            assert_eq!(
                (counts.sessions, counts.holds, counts.waits, counts.elections),
                (0, 0, 0, 0)
            );
            assert_eq!(machine.config().deadlocks, conclave_machine::Policy::WaitDie);
        });
        let session = open_session(&node).await;
        assert!(session.0 > after.0, "numbers of sessions are not used again, either");
        let token = acquire(&node, session, 1, "b").await;
        assert!(token > latest, "{token} after {latest}");
        latest = token;
        let forced = node.look(|machine| machine.why("a").map(|why| why.forced.len()));
        assert!(forced.is_none_or(|forced| forced == 1), "records are kept");
        file = node.backup().await.expect("the node is up");
        node.stop().await.expect("it stops");
        // It is a directory like any other.
        let node = Node::open(Options::new(&data)).await.expect("a node");
        assert_eq!(node.look(|machine| machine.counts().holds), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_backup_and_a_directory_in_use_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = Options::new(directory.path().join("one"));
    let (node, _) = busy(&options).await;
    let backup = node.backup().await.expect("the node is up");
    let target = directory.path().join("two");
    for at in (0..backup.len()).step_by(backup.len() / 40) {
        let mut bad = backup.clone();
        bad[at] ^= 0x10;
        let error = restore(&bad, &target, None).await.expect_err("it is damaged");
        assert!(matches!(error, NodeError::Backup(_)), "{at}: {error}");
        assert!(!target.exists(), "nothing was begun");
    }
    let error =
        restore(&backup[..backup.len() / 2], &target, None).await.expect_err("it is cut off");
    assert!(matches!(error, NodeError::Backup(_)), "{error}");
    let error =
        restore(&backup, &options.directory, None).await.expect_err("the directory is in use");
    assert!(matches!(error, NodeError::NotEmpty(_)), "{error}");
    fs::create_dir(&target).expect("it can be made");
    fs::write(target.join("notes"), b"mine").expect("it can be written");
    let error = restore(&backup, &target, None).await.expect_err("it is not empty");
    assert!(matches!(error, NodeError::NotEmpty(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_with_a_damaged_log_can_be_gone_on_with_from_its_snapshot() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = Options::new(directory.path().join("one"));
    let (node, last) = busy(&options).await;
    node.stop().await.expect("it stops");
    let snapshot = fs::read(options.directory.join("snapshot")).expect("it is there");
    let data = directory.path().join("two");
    restore(&snapshot, &data, Some(Duration::ZERO)).await.expect("it is restored");
    let node = Node::open(Options::new(&data)).await.expect("a node");
    let session = open_session(&node).await;
    assert!(acquire(&node, session, 1, "b").await > last);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_backup_restored_twice_grants_no_token_and_opens_no_session_twice() {
    let directory = tempfile::tempdir().expect("a directory");
    let (node, _) = busy(&Options::new(directory.path().join("one"))).await;
    let backup = node.backup().await.expect("the node is up");
    let mut granted = Vec::new();
    for name in ["two", "three"] {
        let data = directory.path().join(name);
        restore(&backup, &data, Some(Duration::ZERO)).await.expect("it is restored");
        let node = Node::open(Options::new(&data)).await.expect("a node");
        let session = open_session(&node).await;
        granted.push((session, acquire(&node, session, 1, "b").await));
    }
    assert!(granted[1].0 > granted[0].0 && granted[1].1 > granted[0].1, "{granted:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_node_grants_nothing_until_leases_of_before_have_ended() {
    let directory = tempfile::tempdir().expect("a directory");
    let (node, _) = busy(&Options::new(directory.path().join("one"))).await;
    let backup = node.backup().await.expect("the node is up");
    let data = directory.path().join("two");
    let wait = restore(&backup, &data, None).await.expect("it is restored").wait;
    assert!(wait >= Duration::from_mins(1), "{wait:?}");
    let time = ManualTime::new();
    let options = Options { time: TimeSource::Manual(time.clone()), ..Options::new(&data) };
    let waits = |node: &Node| {
        let trouble = node.trouble().expect("it grants nothing");
        assert!(trouble.contains("restored from a backup"), "{trouble}");
    };
    let node = Node::open(options.clone()).await.expect("a node");
    waits(&node);
    time.advance(wait - Duration::from_millis(1));
    waits(&node);
    let open = Command::Open(Open::default());
    assert!(node.propose(open).await.is_err(), "no session is opened, either");
    node.stop().await.expect("it stops");
    // To start it anew does not end the wait.
    let node = Node::open(options).await.expect("a node");
    waits(&node);
    time.advance(wait);
    assert_eq!(node.trouble(), None);
    let session = open_session(&node).await;
    acquire(&node, session, 1, "b").await;
    // A backup of it is one of a node that grants.
    let again = directory.path().join("three");
    let backup = node.backup().await.expect("the node is up");
    restore(&backup, &again, Some(Duration::ZERO)).await.expect("it is restored");
    let node = Node::open(Options::new(&again)).await.expect("a node");
    assert_eq!(node.trouble(), None);
}
