//! The second process of a node that keeps a processor awake: it runs while there are commands, sleeps otherwise, comes
//! after all others, and ends with the first.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use conclave_testing::{skipped, until};

/// A field of what the system says about a process or a thread, counted as in its manual.
fn field(stat: &Path, number: usize) -> Option<String> {
    let stat = fs::read_to_string(stat).ok()?;
    // The second is a name in parentheses.
    stat.rsplit_once(')')?.1.split_whitespace().nth(number - 3).map(str::to_owned)
}

/// The processes that a process has started.
fn children_of(process: u32) -> Vec<u32> {
    let parent = process.to_string();
    let all = fs::read_dir("/proc").expect("the system says what runs").filter_map(Result::ok);
    all.filter(|one| field(&one.path().join("stat"), 4).as_ref() == Some(&parent))
        .filter_map(|one| one.file_name().to_str()?.parse().ok())
        .collect()
}

/// The states of the threads of a process that come after all others.
fn last_of(process: u32) -> Vec<String> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    let state = |task: fs::DirEntry| {
        let stat = task.path().join("stat");
        // The 41st is the policy, and 5 is SCHED_IDLE.
        field(&stat, 3).filter(|_| field(&stat, 41).as_deref() == Some("5"))
    };
    tasks.filter_map(Result::ok).filter_map(state).collect()
}

#[test]
fn it_runs_during_commands_sleeps_otherwise_and_ends_with_the_first_process() {
    if conclave_server::is_rationed() {
        skipped("awake", "control groups share out the time of processors here");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let mut node = Command::new(env!("CARGO_BIN_EXE_conclave-test-process"))
        .arg("awake-node")
        .arg(directory.path().join("data"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut orders = node.stdin.take().expect("it is piped");
    let mut says = BufReader::new(node.stdout.take().expect("it is piped")).lines();
    let mut hears = |word: &str| {
        assert_eq!(says.next().expect("it goes on").expect("text"), word);
    };
    hears("up");
    let second = children_of(node.id());
    assert_eq!(second.len(), 1, "it has started one process");
    let second = second[0];
    for _ in 0..3 {
        until("sleep", || last_of(second) == ["S"]);
        orders.write_all(b"work\n").expect("it reads");
        until("waking", || last_of(second) == ["R"]);
        orders.write_all(b"rest\n").expect("it reads");
        hears("rests");
    }
    node.kill().expect("it was alive");
    node.wait().expect("it is dead");
    let stat = format!("/proc/{second}/stat");
    // The system may keep a dead one until some process takes note of its end.
    let is_over = |state: String| matches!(state.as_str(), "Z" | "X");
    until("the end", || field(Path::new(&stat), 3).is_none_or(is_over));
}
