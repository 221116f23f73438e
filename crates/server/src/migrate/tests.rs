//! A migration may be interrupted anywhere, and is begun again or finished at the next start.

use super::*;
use crate::clock::{ManualTime, TimeSource};
use crate::node::{Node, Options};

fn golden(name: &str) -> tempfile::TempDir {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let directory = tempfile::tempdir().expect("a directory");
    fs::create_dir(directory.path().join("log")).expect("it can be made");
    for file in ["config", "snapshot", "log/0000000000000001.log"] {
        if let Ok(mut bytes) = fs::read(source.join(file)) {
            if file.ends_with(".log") {
                bytes.resize(8 << 20, 0);
            }
            fs::write(directory.path().join(file), bytes).expect("it can be written");
        }
    }
    directory
}

fn interrupted(directory: &Path, after: usize) -> bool {
    let mut steps = 0;
    let mut step = |_: &'static str| {
        steps += 1;
        if steps > after { Err(io::Error::other("killed")) } else { Ok(()) }
    };
    let done = match look(directory).expect("it can be read") {
        Found::Format1 => migrate(directory, &mut step).is_ok(),
        _ => put_aside(directory, &mut step).is_ok(),
    };
    !done
}

async fn state(directory: &Path) -> Vec<u8> {
    // Time stands still, so that only the migration makes a difference.
    let time = TimeSource::Manual(ManualTime::new());
    let node = Node::open(Options { time, ..Options::new(directory) }).await.expect("a node");
    let state = node.look(|machine| conclave_record::encode(&machine.snapshot()));
    node.stop().await.expect("it stops");
    state
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_after_any_step_it_starts_again_and_comes_to_the_same_state() {
    for name in ["format-1-log", "format-1-snapshot"] {
        let expected = state(golden(name).path()).await;
        let mut after = 0;
        loop {
            let directory = golden(name);
            let killed = interrupted(directory.path(), after);
            // Once more in the middle of that, at each of its steps.
            interrupted(directory.path(), after / 2);
            assert_eq!(state(directory.path()).await, expected, "{name}, after {after} steps");
            let left = ["log", "config", "before-2", "snapshot.new"];
            for left in left.map(|left| directory.path().join(left)) {
                assert!(!left.exists(), "{} is left, after {after} steps", left.display());
            }
            if !killed {
                break;
            }
            after += 1;
        }
        assert!(after >= 7, "{after} steps");
    }
}

#[test]
fn until_the_rename_the_old_files_are_as_they_were() {
    let directory = golden("format-1-snapshot");
    let old = || {
        let read = |name| fs::read(directory.path().join(name)).expect("it is there");
        [read("config"), read("snapshot"), read("log/0000000000000001.log")]
    };
    let before = old();
    for after in 0..4 {
        assert!(interrupted(directory.path(), after));
        assert_eq!(look(directory.path()).expect("it can be read"), Found::Format1);
        assert!(old() == before, "after {after} steps");
    }
    assert!(interrupted(directory.path(), 4));
    assert_eq!(look(directory.path()).expect("it can be read"), Found::Format2);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_the_user_that_are_called_as_those_of_format_1_are_left_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let file = |name: &str| path.join(name);
    let write = |name: &str| fs::write(file(name), "precious").expect("it can be written");
    let is_there = |name: &str| fs::read(file(name)).is_ok_and(|bytes| bytes == b"precious");
    // The node's own messages may go there, before it is started for the first time.
    write("log");
    write("config");
    assert_eq!(look(path).expect("it can be read"), Found::Nothing);
    for _ in 0..2 {
        state(path).await;
        assert!(is_there("log") && is_there("config") && !file(BEFORE).exists());
    }
    // Or a directory.
    fs::remove_file(file("log")).expect("it is there");
    fs::create_dir(file("log")).expect("it can be made");
    fs::create_dir(file(BEFORE)).expect("it can be made");
    write("log/today.txt");
    write("before-2/notes");
    for _ in 0..2 {
        state(path).await;
        assert!(is_there("log/today.txt") && is_there("config") && is_there("before-2/notes"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_of_format_1_with_something_else_in_it_is_not_taken_for_nothing() {
    let directory = golden("format-1-log");
    let notes = directory.path().join("log/notes");
    fs::write(&notes, "precious").expect("it can be written");
    fs::remove_file(directory.path().join("config")).expect("it is there");
    assert_eq!(look(directory.path()).expect("it can be read"), Found::Format1);
    Node::open(Options::new(directory.path())).await.err().expect("it cannot be read");
    assert!(notes.exists());
}
