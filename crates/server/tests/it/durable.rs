//! What was acknowledged is there after whatever happens to the process.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::time::Duration;

use crate::support::node::{acquire, open_session};
use crate::support::until;
use conclave_machine::{Command, Open, Reply, Token};
use conclave_server::{ManualTime, Node, NodeError, Options, TimeSource};

fn token_of(node: &Node, lock: &str) -> Option<Token> {
    node.look(|machine| Some(machine.lock(lock)?.holders[0].token))
}

fn options(directory: &Path) -> Options {
    Options::new(directory.join("data"))
}

/// A node whose time passes when the test says so.
fn with_time(directory: &Path) -> (ManualTime, Options) {
    let time = ManualTime::new();
    let options = Options { time: TimeSource::Manual(time.clone()), ..options(directory) };
    (time, options)
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_and_sessions_outlive_a_restart_and_leases_go_on_where_they_were() {
    let directory = tempfile::tempdir().expect("a directory");
    let (time, options) = with_time(directory.path());
    let node = Node::open(options.clone()).await.expect("a node");
    let session = open_session(&node).await;
    let token = acquire(&node, session, 1, "a").await;
    let left = |node: &Node| node.look(|machine| machine.session(session)).expect("it lives").left;
    let ttl = left(&node);
    let second = Duration::from_secs(1);
    time.advance(second);
    node.propose(Command::Tick).await.expect("the node is up").expect("time passes");
    node.stop().await.expect("it stops");
    for life in 1..4 {
        // While it is down, time does not count; and no start makes a lease longer.
        time.advance(1000 * second);
        let node = Node::open(options.clone()).await.expect("a node");
        assert_eq!(token_of(&node, "a"), Some(token));
        assert_eq!(left(&node), ttl - second * life);
        time.advance(second);
        node.propose(Command::Tick).await.expect("the node is up").expect("time passes");
        node.stop().await.expect("it stops");
    }
    let node = Node::open(options).await.expect("a node");
    assert!(acquire(&node, session, 2, "b").await > token, "tokens go on");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lock_of_a_dead_client_is_freed_however_often_the_node_restarts() {
    let directory = tempfile::tempdir().expect("a directory");
    let (time, options) = with_time(directory.path());
    let (name, host, ttl) = ("dead".into(), "here".into(), Duration::from_secs(10));
    let node = Node::open(options.clone()).await.expect("a node");
    let open = Command::Open(Open { name, host, ttl, ..Open::default() });
    let opened = node.propose(open).await.expect("the node is up");
    let Ok(Reply::Opened { session, .. }) = opened else { panic!("no session, but {opened:?}") };
    acquire(&node, session, 1, "a").await;
    node.stop().await.expect("it stops");
    // Each life is shorter than the lease.
    for life in 1..=10 {
        let node = Node::open(options.clone()).await.expect("a node");
        assert!(token_of(&node, "a").is_some(), "in life {life} its time is not over");
        time.advance(ttl / 10);
        node.propose(Command::Tick).await.expect("the node is up").expect("time passes");
        assert_eq!(token_of(&node, "a").is_none(), life == 10, "in life {life}");
        node.stop().await.expect("it stops");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_other_user_may_look_into_the_directory_or_read_the_files_of_the_node() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    for _ in 0..2 {
        let node = Node::open(options(directory.path())).await.expect("a node");
        open_session(&node).await;
        node.snapshot().await.expect("it is written");
        node.stop().await.expect("it stops");
        let mut all = vec![data.clone()];
        while let Some(path) = all.pop() {
            let mode = fs::metadata(&path).expect("it is there").permissions().mode() & 0o777;
            let expected = if path.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode, expected, "{}", path.display());
            if path.is_dir() {
                let files = fs::read_dir(&path).expect("it is ours");
                all.extend(files.map(|file| file.expect("a file").path()));
            }
            // As an earlier version would have left it.
            let open = if path.is_dir() { 0o755 } else { 0o644 };
            if path == data {
                continue;
            }
            fs::set_permissions(&path, fs::Permissions::from_mode(open)).expect("it is ours");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_others_share_keeps_its_mode_and_that_is_said() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().expect("a directory");
    let data = options(directory.path()).directory;
    fs::create_dir(&data).expect("it can be made");
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    for (shared, is_said) in [(0o755, true), (0o750, true), (0o700, false)] {
        fs::set_permissions(&data, fs::Permissions::from_mode(shared)).expect("it is ours");
        let node = Node::open(options(directory.path())).await.expect("a node");
        let said = node.said().concat();
        assert_eq!(said.contains("others can look into"), is_said, "{said}");
        node.stop().await.expect("it stops");
        assert_eq!(mode(&data), shared);
        assert_eq!((mode(&data.join("journal")), mode(&data.join("snapshot"))), (0o700, 0o600));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_belongs_to_one_node() {
    let directory = tempfile::tempdir().expect("a directory");
    let node = Node::open(options(directory.path())).await.expect("a node");
    let other = Node::open(options(directory.path())).await;
    assert!(matches!(other, Err(NodeError::InUse(_))));
    drop(node);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_cut_after_a_snapshot_and_nothing_is_lost() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = Options { snapshot_every: 100, ..options(directory.path()) };
    let node = Node::open(options.clone()).await.expect("a node");
    let session = open_session(&node).await;
    let mut tokens = Vec::new();
    for i in 1..=500 {
        tokens.push(acquire(&node, session, i, &format!("lock-{i}")).await);
    }
    node.stop().await.expect("it stops");
    assert!(options.directory.join("snapshot").exists());
    let node = Node::open(options).await.expect("a node");
    for (i, token) in (1..).zip(tokens) {
        assert_eq!(token_of(&node, &format!("lock-{i}")), Some(token));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_half_written_at_the_end_of_the_log_is_cut_off() {
    let directory = tempfile::tempdir().expect("a directory");
    let node = Node::open(options(directory.path())).await.expect("a node");
    let session = open_session(&node).await;
    let token = acquire(&node, session, 1, "a").await;
    node.stop().await.expect("it stops");

    let newest = log_files(directory.path()).pop().expect("there is a log");
    let mut bytes = fs::read(&newest).expect("it can be read");
    let end = used(&bytes);
    // The sector in which it begins was not written, and the next was.
    let next = (end / 512 + 1) * 512;
    bytes[next..next + 6].copy_from_slice(&[0, 0, 0, 1, 7, 7]);
    fs::write(newest, bytes).expect("it can be written");

    let node = Node::open(options(directory.path())).await.expect("a node");
    let said = node.said().join("\n");
    assert!(said.contains("cut off") && said.contains("never acknowledged"), "{said}");
    assert_eq!(token_of(&node, "a"), Some(token));
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_of_the_log_is_not_passed_over() {
    let directory = tempfile::tempdir().expect("a directory");
    let node = Node::open(options(directory.path())).await.expect("a node");
    let session = open_session(&node).await;
    for i in 1..=50 {
        acquire(&node, session, i, &format!("lock-{i}")).await;
    }
    node.stop().await.expect("it stops");

    let file = log_files(directory.path()).pop().expect("there is a log");
    let good = fs::read(&file).expect("it can be read");
    let used = used(&good);
    for at in (0..used).step_by(used / 97) {
        for bit in [0x01, 0x40, 0x80] {
            let mut bytes = good.clone();
            bytes[at] ^= bit;
            fs::write(&file, bytes).expect("it can be written");
            let Err(error) = Node::open(options(directory.path())).await else {
                panic!("damage of {bit} at {at} of {} was not noticed", good.len())
            };
            assert!(matches!(error, NodeError::Log { .. }), "{error}");
            assert!(error.to_string().contains("conclave restore"), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_snapshot_is_not_taken_for_a_good_one() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::create_dir_all(directory.path().join("data")).expect("it can be made");
    fs::write(directory.path().join("data/snapshot"), b"conclav2....nonsense").expect("written");
    let Err(error) = Node::open(options(directory.path())).await else { panic!("it was taken") };
    assert!(matches!(error, NodeError::Snapshot { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_or_a_log_that_is_missing_is_missed() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = Options { snapshot_every: 50, ..options(directory.path()) };
    let node = Node::open(options.clone()).await.expect("a node");
    let session = open_session(&node).await;
    for i in 1..=200 {
        acquire(&node, session, i, &format!("lock-{i}")).await;
    }
    node.stop().await.expect("it stops");
    let away = directory.path().join("away");
    for part in ["snapshot", "journal"] {
        fs::rename(options.directory.join(part), &away).expect("it is there");
        let Err(error) = Node::open(options.clone()).await else { panic!("locks were forgotten") };
        let named = matches!(
            (part, &error),
            ("snapshot", NodeError::Snapshot { .. }) | ("journal", NodeError::Log { .. })
        );
        assert!(named, "{part}: {error}");
        assert!(error.to_string().contains("is missing; put a copy"), "{error}");
        fs::rename(&away, options.directory.join(part)).expect("it is there");
    }
    let node = Node::open(options).await.expect("all is well again");
    assert_eq!(node.look(|machine| machine.counts().holds), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_not_kept_alive_ends_in_its_time_though_no_command_comes() {
    let directory = tempfile::tempdir().expect("a directory");
    let time = ManualTime::new();
    let options = Options { time: TimeSource::Manual(time.clone()), ..options(directory.path()) };
    let node = Node::open(options).await.expect("a node");
    let (name, host, ttl) = ("test".into(), "here".into(), Duration::from_secs(10));
    let open = Command::Open(Open { name, host, ttl, ..Open::default() });
    node.propose(open).await.expect("the node is up").expect("there is room");
    time.advance(ttl - Duration::from_millis(1));
    node.propose(Command::Tick).await.expect("the node is up").expect("time passes");
    assert_eq!(node.look(|machine| machine.counts().sessions), 1, "its time is not over");
    time.advance(Duration::from_millis(1));
    until(|| node.look(|machine| machine.counts().sessions) == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_that_is_left_behind_is_bounded_by_commands_however_many_share_an_entry() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = Options { snapshot_every: 2000, ..options(directory.path()) };
    let node = Node::open(options.clone()).await.expect("a node");
    let session = open_session(&node).await;
    let keep = || node.propose(Command::KeepAlive { sessions: vec![session] });
    for _ in 0..20 {
        // Sent together, they share a few entries.
        let all = futures_util::future::join_all((0..2000).map(|_| keep())).await;
        assert!(all.into_iter().all(|kept| kept.is_ok_and(|kept| kept.is_ok())));
    }
    // The last snapshot may be on its way.
    until(|| node.since_snapshot().0 < 2000).await;
    node.stop().await.expect("it stops");
    let node = Node::open(options).await.expect("a node");
    let (commands, bytes) = node.since_snapshot();
    assert!(commands <= 2000, "{commands} commands are read again");
    assert!(bytes < 100_000, "{bytes} bytes are read again");
}

/// What `--snapshot-every` is for: `cargo test --release -p conclave-server --test it restart -- --ignored --nocapture`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures, and takes long"]
async fn how_long_a_restart_takes_with_many_locks_and_a_long_history() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = options(directory.path());
    let node = Node::open(options.clone()).await.expect("a node");
    let session = open_session(&node).await;
    for first in (1..100_000).step_by(1000) {
        let all = (first..first + 1000).map(|i| {
            let (node, lock) = (&node, format!("lock-{i}"));
            async move { acquire(node, session, i, &lock).await }
        });
        futures_util::future::join_all(all).await;
    }
    let keep = || node.propose(Command::KeepAlive { sessions: vec![session] });
    for _ in 0..1000 {
        futures_util::future::join_all((0..1000).map(|_| keep())).await;
    }
    let left = node.since_snapshot();
    node.stop().await.expect("it stops");
    #[expect(clippy::disallowed_methods, reason = "measures")]
    let begun = std::time::Instant::now();
    let node = Node::open(options).await.expect("a node");
    let took = begun.elapsed();
    println!("1,100,000 commands; {left:?} commands and bytes of log; restarted in {took:?}");
    assert_eq!(node.look(|machine| machine.counts().holds), 100_000);
}

/// Where the frames in a file of the log end: each says how long it is, and after the last there are zeros.
fn used(bytes: &[u8]) -> usize {
    let mut end = 40;
    while let Some(length) =
        bytes[end + 4..].first_chunk().map(|length| u32::from_be_bytes(*length))
        && length > 0
    {
        end += (24 + length as usize).next_multiple_of(8);
    }
    end
}

fn log_files(directory: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(directory.join("data/journal")).expect("there is a log");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_again_and_again_it_loses_nothing_that_was_acknowledged() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let mut acknowledged: Vec<(String, u64)> = Vec::new();
    for round in 0..8_u64 {
        let before = acknowledged.len();
        let mut child = Process::new(env!("CARGO_BIN_EXE_conclave-test-process"))
            .arg("acquire")
            .arg(&data)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        // As many as it takes to be somewhere else each time.
        for line in lines.by_ref().take(30 + 71 * round as usize) {
            acknowledged.extend(parse(&line.expect("text")));
        }
        child.kill().expect("it was alive");
        child.wait().expect("it is dead");
        // What it said before it died counts, too.
        for line in lines {
            acknowledged.extend(parse(&line.expect("text")));
        }
        assert!(acknowledged.len() > before, "it did something");
        let node = Node::open(Options::new(&data)).await.expect("a node");
        for (lock, token) in &acknowledged {
            assert_eq!(token_of(&node, lock), Some(Token(*token)), "{lock} after round {round}");
        }
        node.stop().await.expect("it stops");
    }
    let tokens: Vec<u64> = acknowledged.iter().map(|(_, token)| *token).collect();
    assert!(tokens.is_sorted_by(|one, next| one < next), "tokens rise over all its lives");
}

fn parse(line: &str) -> Option<(String, u64)> {
    let (lock, token) = line.split_once(' ')?;
    Some((lock.to_owned(), token.parse().ok()?))
}
