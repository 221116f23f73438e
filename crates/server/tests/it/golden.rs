//! Directories that earlier versions wrote are read: they are in `tests/golden`, as those versions left them, with what
//! was there to be seen. Files of logs are kept without the zeros at their end.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use conclave_machine::{ElectionView, Machine, Policy, SessionId, Token};
use conclave_server::{Node, Options};
use serde_json::{Value, json};

use crate::support::node::{acquire, open_session};

/// How long a file of a log is.
const FILE: usize = 8 << 20;

/// A copy of a golden directory, with its files as long as they were, and what was seen.
fn golden(name: &str) -> (tempfile::TempDir, PathBuf, Value) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    copy(&source, &data);
    let expected = fs::read(source.join("expected.json")).expect("it is there");
    fs::remove_file(data.join("expected.json")).expect("it was copied");
    (directory, data, serde_json::from_slice(&expected).expect("JSON"))
}

fn copy(from: &Path, to: &Path) {
    // As a node makes it.
    fs::DirBuilder::new().mode(0o700).create(to).expect("it can be made");
    for entry in fs::read_dir(from).expect("it is there") {
        let path = entry.expect("a file").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target);
            continue;
        }
        let mut bytes = fs::read(&path).expect("it is there");
        if path.extension().is_some_and(|extension| extension == "log") {
            bytes.resize(FILE, 0);
        }
        fs::write(target, bytes).expect("it can be written");
    }
}

/// What the API of version 0.1 said of locks, without how long that had been so.
fn locks(state: &Value) -> Value {
    let holder = |holder: &Value| {
        json!([
            holder["who"]["session"],
            holder["token"],
            holder["depth"],
            holder["mode"],
            holder["permits"]
        ])
    };
    let waiter = |waiter: &Value| json!([waiter["who"]["session"], waiter["request"]]);
    let all = state["locks"]["locks"].as_array().expect("locks");
    let list = |of: &Value, show: &dyn Fn(&Value) -> Value| -> Vec<Value> {
        of.as_array().expect("a list").iter().map(show).collect()
    };
    let why = |lock: &Value| {
        let name = lock["name"].as_str().expect("a name");
        // All that wait are in `why` only.
        let seen = &state["why"][name]["lock"];
        let lock = if seen.is_object() { seen } else { lock };
        json!({
            "name": name,
            "epoch": lock["epoch"],
            "holders": list(&lock["holders"], &holder),
            "waiters": list(&lock["waiters"], &waiter),
        })
    };
    all.iter().map(why).collect()
}

/// The same of the machine.
fn locks_of(machine: &Machine) -> Value {
    use conclave_machine::Mode;
    let mode = |mode| match mode {
        Mode::Exclusive => ("exclusive", 0),
        Mode::Shared => ("shared", 0),
        Mode::Permits { take, .. } => ("permits", take),
    };
    let lock = |lock: conclave_machine::LockView| {
        let holder = |holder: &conclave_machine::HolderView| {
            let (kind, permits) = mode(holder.mode);
            json!([holder.who.agent.session, holder.token, holder.depth, kind, permits])
        };
        let holders: Vec<Value> = lock.holders.iter().map(holder).collect();
        let waiters: Vec<Value> =
            lock.waiters.iter().map(|it| json!([it.who.agent.session, it.request])).collect();
        json!({ "name": lock.name, "epoch": lock.epoch, "holders": holders, "waiters": waiters })
    };
    machine.locks("", None).map(lock).collect()
}

/// What was said of sessions, but for times.
fn sessions(state: &Value) -> Vec<Value> {
    let all = state["sessions"]["sessions"].as_array().expect("sessions");
    let show = |it: &Value| {
        let of = |name: &str| it[name].clone();
        json!([
            of("session"),
            of("name"),
            of("host"),
            of("ttl_ms"),
            of("priority"),
            of("leads"),
            of("waits")
        ])
    };
    all.iter().map(show).collect()
}

fn sessions_of(machine: &Machine) -> Vec<Value> {
    let show = |it: conclave_machine::SessionView| {
        let ttl = it.ttl.as_millis() as u64;
        json!([it.session, it.name, it.host, ttl, it.priority, it.leads, it.waits])
    };
    machine.sessions(None).map(show).collect()
}

fn election(machine: &Machine) -> ElectionView {
    machine.elections().find(|election| &*election.name == "web").expect("it is there")
}

/// All that was there is there.
fn compare(node: &Node, expected: &Value) {
    let state = &expected["state"];
    node.look(|machine| {
        assert_eq!(locks_of(machine), locks(state));
        assert_eq!(sessions_of(machine), sessions(state));
        let (found, seen) = (election(machine), &state["elections"]["elections"][0]);
        let leader = found.leader.expect("it has a leader");
        assert_eq!(json!(leader.session), seen["leader"]["who"]["session"]);
        assert_eq!(json!(leader.term), seen["leader"]["term"]);
        assert_eq!(json!(String::from_utf8_lossy(&leader.value)), seen["leader"]["value"]);
        let candidates = seen["candidates"].as_array().expect("candidates");
        assert_eq!(found.candidates.len(), candidates.len());
        for (one, other) in found.candidates.iter().zip(candidates) {
            assert_eq!(
                json!([one.who.agent.session, one.request]),
                json!([other["who"]["session"], other["request"]])
            );
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn what_version_0_1_wrote_is_migrated_and_nothing_is_lost() {
    for (name, policy) in
        [("format-1-log", Policy::default()), ("format-1-snapshot", Policy::WoundWait)]
    {
        let (_directory, data, expected) = golden(name);
        let node = Node::open(Options::new(&data)).await.expect("it is migrated");
        assert!(node.said().iter().any(|line| line.contains("from format 1")), "{:?}", node.said());
        compare(&node, &expected);
        assert_eq!(node.look(|machine| machine.config().deadlocks), policy);
        assert!(data.join("before-2/log").is_dir() && !data.join("log").exists());
        // Time did not pass, and nothing was renewed beyond its time-to-live.
        let left = node.look(|machine| machine.session(SessionId(1)).expect("it lives").left);
        let ttl = node.look(|machine| machine.session(SessionId(1)).expect("it lives").ttl);
        assert!(left <= ttl && left > ttl / 2, "{left:?} of {ttl:?}");
        let before = node.look(|machine| machine.locks("", None).map(|it| it.epoch).max());
        let session = open_session(&node).await;
        let token = acquire(&node, session, 1, "new").await;
        assert!(token > before.unwrap_or(Token(0)), "tokens go on");
        node.stop().await.expect("it stops");
        assert!(!data.join("before-2").exists(), "after a clean stop the old is not needed");

        let node = Node::open(Options::new(&data)).await.expect("it is format 2 now");
        assert_eq!(node.said(), &[] as &[String]);
        let held = node.look(|machine| machine.lock("new")).expect("it is held");
        assert_eq!(held.holders[0].token, token);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_in_a_directory_of_version_0_1_is_named_and_nothing_is_changed() {
    use conclave_server::NodeError;
    for (name, part) in
        [("format-1-log", "config"), ("format-1-log", "log"), ("format-1-snapshot", "snapshot")]
    {
        let (_directory, data, expected) = golden(name);
        let file = match part {
            "log" => data.join("log/0000000000000001.log"),
            part => data.join(part),
        };
        let good = fs::read(&file).expect("it is there");
        let used = good.iter().rposition(|&byte| byte != 0).expect("there is something");
        let mut bad = good.clone();
        // The last record of the log was acknowledged, too.
        bad[used] ^= 0x20;
        fs::write(&file, &bad).expect("it can be written");
        let error = Node::open(Options::new(&data)).await.err().expect("it is damaged");
        let named = match part {
            "config" => matches!(error, NodeError::Settings { .. }),
            "log" => matches!(error, NodeError::Log { .. }),
            _ => matches!(error, NodeError::Snapshot { .. }),
        };
        assert!(named, "{part}: {error}");
        fs::write(&file, &good).expect("it can be written");
        let node = Node::open(Options::new(&data)).await.expect("all is well again");
        compare(&node, &expected);
    }
}

/// The directory of the present format, and what is in it.
const PRESENT: &str = "format-2-level-2";

/// All that is compared of a directory of format 2.
fn seen(node: &Node) -> Value {
    node.look(|machine| {
        let web = election(machine);
        let leader = web.leader.expect("it has a leader");
        let candidates: Vec<Value> =
            web.candidates.iter().map(|one| json!([one.who.agent.session, one.request])).collect();
        let left = |id| machine.session(id).map(|session| session.left.as_nanos() as u64);
        json!({
            "locks": locks_of(machine),
            "sessions": sessions_of(machine),
            "leader": [json!(leader.session), json!(leader.term), json!(leader.value)],
            "candidates": candidates,
            "left": left(SessionId(1)),
            "now": machine.now().as_nanos(),
            "last_token": machine.last_token(),
            "deadlocks": machine.config().deadlocks.to_string(),
        })
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_format_2_has_written_is_read() {
    use conclave_server::{ManualTime, TimeSource};
    let (_directory, data, expected) = golden(PRESENT);
    let time = TimeSource::Manual(ManualTime::new());
    let node = Node::open(Options { time, ..Options::new(&data) }).await.expect("a node");
    assert_eq!(seen(&node), expected);
    assert_eq!(node.said(), &[] as &[String]);
}

/// Writes the directory that the test above reads; for a format that was released, never again.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "writes a golden directory"]
async fn write_the_directory_of_the_present_format() {
    use conclave_machine::{Acquire, Call, Campaign, Command, Mode, Owner, Patience, Want};
    use conclave_server::{ManualTime, TimeSource};
    use std::time::Duration;

    use crate::support::node::ask;

    let time = ManualTime::new();
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let mut options = Options::new(&data);
    options.time = TimeSource::Manual(time.clone());
    options.config.deadlocks = Policy::Detect(conclave_machine::Victim::FewestLocks);
    let node = Node::open(options).await.expect("a node");
    let (one, two) = (open_session(&node).await, open_session(&node).await);
    let two_of = |lock: &str| Want { lock: lock.into(), mode: Mode::Permits { take: 2, of: 5 } };
    let campaign = |rank, value: &str| {
        Call::Campaign(Campaign {
            election: "web".into(),
            owner: None,
            rank,
            preempt: false,
            grace: Duration::from_secs(3),
            value: value.into(),
            patience: Patience::Forever,
        })
    };
    let reader = Acquire::shared("shared");
    let asked = [
        (one, Call::Acquire(Acquire::exclusive("a"))),
        (one, Call::Acquire(reader.clone())),
        (two, Call::Acquire(reader)),
        (two, Call::Acquire(Acquire::all([two_of("pool")]))),
        (two, Call::Acquire(Acquire::exclusive("again").again())),
        (two, Call::Acquire(Acquire::exclusive("again").again())),
        (one, campaign(0, "one")),
        (two, campaign(7, "two")),
        (two, Call::Acquire(Acquire::exclusive("a").with(Patience::For(Duration::from_mins(30))))),
        (one, Call::Acquire(Acquire::exclusive("b").by(Owner(3)))),
    ];
    for (number, (session, call)) in (1..).zip(asked) {
        time.advance(Duration::from_millis(17));
        let answer = ask(&node, session, number, call).await.expect("the node is up");
        answer.expect("it is granted, or waits");
        if number == 5 {
            node.snapshot().await.expect("it is written");
        }
    }
    let force = Command::ForceRelease { lock: "b".into(), token: None, reason: "test".into() };
    node.propose(force).await.expect("the node is up").expect("it is held");
    node.stop().await.expect("it stops");
    let time = TimeSource::Manual(ManualTime::new());
    let node = Node::open(Options { time, ..Options::new(&data) }).await.expect("a node");
    let seen = seen(&node);
    drop(node);

    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(PRESENT);
    let _ = fs::remove_dir_all(&target);
    fs::create_dir_all(target.join("journal")).expect("it can be made");
    fs::copy(data.join("snapshot"), target.join("snapshot")).expect("it is there");
    for file in fs::read_dir(data.join("journal")).expect("it is there") {
        let path = file.expect("a file").path();
        let mut bytes = fs::read(&path).expect("it is there");
        bytes.truncate(bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1));
        fs::write(target.join("journal").join(path.file_name().expect("a name")), bytes)
            .expect("it can be written");
    }
    let text = serde_json::to_string_pretty(&seen).expect("JSON");
    fs::write(target.join("expected.json"), text).expect("it can be written");
}
