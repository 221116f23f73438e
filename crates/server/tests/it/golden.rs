//! Directories that earlier versions wrote are read: they are in `tests/golden`, as those versions left them, with what
//! was there to be seen. Files of logs are kept without the zeros at their end.

use std::fs;
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
    fs::create_dir(to).expect("it can be made");
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
        let leader = found.leader.expect("somebody leads");
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
