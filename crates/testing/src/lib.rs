//! What the tests of several crates share: waiting for events, ending what was started, and saying what was skipped.
//!
//! Tests wait for events and never for a span of time, since a machine that is busy with other things may take ten
//! times as long. There is one limit for all of them, [`LIMIT`], and it is there only so that a test that waits in
//! vain ends and says for what.

mod marked;

use std::fs::File;
use std::future::Future;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

pub use marked::{MARK, end_marked, marked};

/// How long a test waits for what must come.
pub const LIMIT: Duration = Duration::from_secs(120);

/// How long a test waits before it looks again.
const PAUSE: Duration = Duration::from_millis(5);

/// The file that [`skipped`] writes to, if this variable is set; `cargo xtask test` sets it.
pub const SKIPPED: &str = "CONCLAVE_SKIPPED_TESTS";

/// Looks until something is found.
///
/// # Panics
///
/// If nothing is found within the [`LIMIT`].
#[track_caller]
pub fn eventually<T>(what: &str, find: impl FnMut() -> Option<T>) -> T {
    within(LIMIT, what, find)
}

#[track_caller]
fn within<T>(limit: Duration, what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let begun = now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(begun.elapsed() < limit, "{what}: not within {limit:?}");
        pause(PAUSE);
    }
}

/// Waits until something is so.
///
/// # Panics
///
/// If it is not so within the [`LIMIT`].
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    eventually(what, || is_so().then_some(()));
}

/// The same as [`eventually`] for a task, which lets others run meanwhile.
///
/// # Panics
///
/// If nothing is found within the [`LIMIT`].
pub async fn eventually_async<T>(what: &str, mut find: impl AsyncFnMut() -> Option<T>) -> T {
    let look = async {
        loop {
            if let Some(found) = find().await {
                return found;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    in_time(what, look).await
}

/// The same as [`until`] for a task, which lets others run meanwhile.
///
/// # Panics
///
/// If it is not so within the [`LIMIT`].
pub async fn until_async(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    eventually_async(what, async || is_so().await.then_some(())).await;
}

/// What comes of a future that must come to an end.
///
/// # Panics
///
/// If it does not within the [`LIMIT`].
pub async fn in_time<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(LIMIT, future).await {
        Ok(output) => output,
        Err(_) => panic!("{what}: not within {LIMIT:?}"),
    }
}

/// Says that a test, or a part of it, was skipped and why: a tool is not installed, or the machine forbids it. The summary
/// of `cargo xtask test` lists it.
pub fn skipped(test: &str, reason: &str) {
    eprintln!("SKIPPED: {test}: {reason}");
    if let Some(file) = std::env::var_os(SKIPPED) {
        append(Path::new(&file), test, reason);
    }
}

/// Tests of several processes write at the same time: each line goes out in one piece, to the end.
fn append(file: &Path, test: &str, reason: &str) {
    let line = format!("{test}: {}\n", reason.replace('\n', " "));
    let file = File::options().append(true).create(true).open(file);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.expect("what was skipped can be written down");
}

/// Waits a moment, where what is waited for has no other sign.
#[expect(clippy::disallowed_methods, reason = "something is to happen in another process")]
pub fn pause(span: Duration) {
    std::thread::sleep(span);
}

#[expect(clippy::disallowed_methods, reason = "a test that waits in vain has to end")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_is_waited_for() {
        let mut looks = 0;
        let found = eventually("the third look", || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(found, 3);
    }

    #[tokio::test]
    async fn a_task_waits_for_it_too() {
        let mut looks = 0;
        until_async("the third look", async || {
            looks += 1;
            looks == 3
        })
        .await;
        assert_eq!(in_time("the end", async { looks }).await, 3);
    }

    #[test]
    #[should_panic(expected = "what never comes: not within 1ms")]
    fn what_never_comes_is_named() {
        within(Duration::from_millis(1), "what never comes", || None::<()>);
    }

    #[test]
    fn each_skipped_test_has_a_line() {
        let folder = tempfile::tempdir().expect("a directory");
        let file = folder.path().join("skipped");
        append(&file, "a", "no curl");
        append(&file, "b", "two\nlines");
        assert_eq!(
            std::fs::read_to_string(file).expect("it is there"),
            "a: no curl\nb: two lines\n"
        );
    }
}
