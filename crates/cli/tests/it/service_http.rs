//! Calls over HTTP to a node that is killed or stopped while they wait.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::node::{Node, eventually};
use conclave_testing::LIMIT;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// A call whose answer has not been read.
struct Call(TcpStream);

impl Call {
    fn begin(node: &Node, path: &str, body: &Value) -> Self {
        let body = body.to_string();
        let mut io = TcpStream::connect(&node.address).expect("it listens");
        io.set_read_timeout(Some(LIMIT)).expect("it is a socket");
        let head = "host: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n";
        let length = body.len();
        write!(io, "POST {path} HTTP/1.1\r\n{head}content-length: {length}\r\n\r\n{body}")
            .expect("it listens");
        Self(io)
    }

    /// The status and what the answer says; nothing if the connection ends without one.
    fn end(mut self) -> Option<(u16, Value)> {
        let mut bytes = Vec::new();
        // A node that was killed may have reset the connection.
        let _ = self.0.read_to_end(&mut bytes);
        let text = String::from_utf8(bytes).expect("the node answers UTF-8");
        let (head, body) = text.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().expect("a status is a number");
        Some((status, serde_json::from_str(body).expect("the body is JSON")))
    }
}

/// Asks, and has to be answered well.
#[track_caller]
fn post(node: &Node, path: &str, body: &Value) -> Value {
    let (status, answer) = Call::begin(node, path, body).end().expect("it answers");
    assert_eq!(status, 200, "{path} {body}: {answer}");
    answer
}

fn open(node: &Node) -> Value {
    post(node, "/v1/sessions", &json!({ "ttl_ms": 3_600_000 }))["session"].clone()
}

fn acquire(session: &Value, number: u64) -> Value {
    json!({ "session": session, "request": number, "lock": "a" })
}

fn release(session: &Value, token: &Value) -> Value {
    json!({ "session": session, "lock": "a", "token": token })
}

/// The sessions that wait for the lock, the first first.
fn waiting(node: &Node) -> Vec<Value> {
    let why = node.json(&["why", "a", "--json"]);
    let waiters = why["lock"]["waiters"].as_array().cloned().unwrap_or_default();
    waiters.iter().map(|waiter| waiter["who"]["session"].clone()).collect()
}

#[test]
fn a_wait_over_http_does_not_survive_the_kill_of_its_node() {
    let mut node = Node::start(&[]);
    let [holder, dead, next] = [open(&node), open(&node), open(&node)];
    let held = post(&node, "/v1/acquire", &acquire(&holder, 1))["token"].clone();
    let wait = Call::begin(&node, "/v1/acquire", &acquire(&dead, 7));
    node.waiters("a", 1);
    node.crash();
    assert_eq!(wait.end(), None, "its client was told nothing");
    node.restart();
    assert_eq!(waiting(&node), Vec::<Value>::new(), "no ghost waits");

    // Another session waits now, and is next though the other one came before it in the last life of the node.
    let waits = Call::begin(&node, "/v1/acquire", &acquire(&next, 1));
    node.waiters("a", 1);
    // The retry under the same number and one under the next begin anew, and neither is busy.
    let retry = Call::begin(&node, "/v1/acquire", &acquire(&dead, 7));
    node.waiters("a", 2);
    post(&node, "/v1/release", &release(&holder, &held));
    let (status, granted) = waits.end().expect("it answers");
    assert_eq!(status, 200, "{granted}");
    assert_eq!(waiting(&node).len(), 1, "the retry waits on");
    post(&node, "/v1/release", &release(&next, &granted["token"]));
    let (status, retried) = retry.end().expect("it answers");
    assert_eq!(status, 200, "{retried}");
    assert!(retried["token"].as_u64() > granted["token"].as_u64(), "{retried}");
    // And it is the holder: the lock is its to give back.
    post(&node, "/v1/release", &release(&dead, &retried["token"]));
    let again = json!({ "session": dead, "request": 8, "lock": "a", "timeout_ms": 0 });
    post(&node, "/v1/acquire", &again);
}

#[test]
fn a_grant_told_to_a_repetition_stands_though_the_node_was_stopped_between() {
    let mut node = Node::start(&[]);
    let [one, two, three] = [open(&node), open(&node), open(&node)];
    for round in 1..=20 {
        let held = post(&node, "/v1/acquire", &acquire(&one, round))["token"].clone();
        let first = Call::begin(&node, "/v1/acquire", &acquire(&two, round));
        // In every other round the node has not read it when it is stopped.
        if round % 2 == 0 {
            node.waiters("a", 1);
        }
        node.process().signal(Signal::SIGSTOP);
        eventually("that it is stopped", || is_stopped(&mut node).then_some(()));
        drop(first);
        let second = Call::begin(&node, "/v1/acquire", &acquire(&two, round));
        let releasing = Call::begin(&node, "/v1/release", &release(&one, &held));
        node.process().signal(Signal::SIGCONT);
        let (status, granted) = second.end().expect("it answers");
        assert_eq!(status, 200, "round {round}: {granted}");
        assert_eq!(releasing.end().expect("it answers").0, 200, "round {round}");
        // The node notices some time that the first connection is closed. What that undid would be had by others.
        let other = json!({ "session": three, "lock": "a", "timeout_ms": 30 });
        let (status, other) = Call::begin(&node, "/v1/acquire", &other).end().expect("it answers");
        assert_eq!((status, &other["code"]), (409, &json!("timed-out")), "round {round}: {other}");
        assert_eq!(node.holder("a")["token"], granted["token"], "round {round}");
        post(&node, "/v1/release", &release(&two, &granted["token"]));
    }
}

#[test]
fn a_command_outlives_its_time_to_live_because_its_lock_is_renewed() {
    let node = Node::start(&[]);
    // Not a word about leases: it is a session of 15 seconds.
    let mut holder = node.begin(&["lock", "a", "--", "sh", "-c", "exec sleep 100000"]);
    let holds = node.holder("a");
    // A session that lives a little longer, and is not renewed.
    post(&node, "/v1/sessions", &json!({ "ttl_ms": 16_000 }));
    let sessions = || node.json(&["sessions", "--json"]).as_array().expect("a list").len();
    assert_eq!(sessions(), 2);
    eventually("the end of that lease", || (sessions() == 1).then_some(()));
    assert!(holder.is_running(), "{}", holder.stderr());
    assert_eq!(node.holder("a")["token"], holds["token"]);
    holder.signal(Signal::SIGTERM);
    holder.ends_with(143);
}

/// Whether all threads of the node have taken note of SIGSTOP.
fn is_stopped(node: &mut Node) -> bool {
    let tasks = format!("/proc/{}/task", node.process().pid());
    let tasks = std::fs::read_dir(tasks).expect("it is there").filter_map(Result::ok);
    let state = |task: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").map(|(_, rest)| rest.starts_with('T'))
    };
    tasks.filter_map(state).all(|stopped| stopped)
}
