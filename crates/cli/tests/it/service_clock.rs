//! The clock on the wall is set back and forward, and no lock is lost, kept or given away for that.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::node::{Node, Process, eventually};
use nix::sys::signal::Signal;
use tempfile::TempDir;

/// A day, in seconds.
const DAY: i64 = 86_400;

/// A clock on the wall that can be stepped, for all processes that are started with its environment.
struct Wall {
    folder: TempDir,
}

impl Wall {
    fn new() -> Self {
        let wall = Self { folder: TempDir::new().expect("there is room") };
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/stepped_clock.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]).arg(wall.library()).arg(source);
        let compiled = compiler.output().expect("this test needs a C compiler: install `cc`");
        assert!(compiled.status.success(), "{}", crate::support::stderr(&compiled));
        wall.step(0);
        wall
    }

    fn library(&self) -> PathBuf {
        self.folder.path().join("stepped_clock.so")
    }

    fn offset(&self) -> PathBuf {
        self.folder.path().join("offset")
    }

    /// From now on it is so many seconds off.
    fn step(&self, seconds: i64) {
        let fresh = self.folder.path().join("fresh");
        fs::write(&fresh, seconds.to_string()).expect("it can be written");
        fs::rename(fresh, self.offset()).expect("it can be replaced");
    }

    fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        vec![("LD_PRELOAD", self.library()), ("STEPPED_CLOCK", self.offset())]
    }

    /// A process has to go by it; otherwise nothing is shown.
    fn assert_seen_by(&self, process: &Process) {
        let maps =
            fs::read_to_string(format!("/proc/{}/maps", process.pid())).expect("it is there");
        let library = self.library();
        assert!(maps.contains(library.to_str().expect("it is UTF-8")), "it was not preloaded");
    }
}

/// A command that writes down again and again what the clock on the wall says.
const TELL_TIME: &str = "while :; do date +%s > now.new; mv now.new now; sleep 0.1; done";

fn told(file: &Path) -> Option<i64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Waits until the lease of a session whose client is gone has ended.
fn outlast_a_lease(node: &Node, ttl: &str, step: impl FnOnce()) {
    let mut gone = node.begin(&["lock", "--ttl", ttl, "other"]);
    node.holder("other");
    gone.signal(Signal::SIGKILL);
    gone.status();
    step();
    node.begin(&["lock", "--ttl", "60s", "other", "--", "true"]).ends_with(0);
}

#[test]
fn steps_of_the_clock_on_the_wall_change_nothing() {
    let wall = Wall::new();
    let mut node = Node::start_in(wall.environment(), &[]);
    wall.assert_seen_by(node.process());
    let mut holder = node.begin(&["lock", "--ttl", "10s", "disk", "--", "sh", "-c", TELL_TIME]);
    let held = node.holder("disk");
    wall.assert_seen_by(&holder);
    let script = "echo $CONCLAVE_TOKEN";
    let patient = ["lock", "--ttl", "10s", "--timeout", "1h", "disk", "--", "sh", "-c", script];
    let mut waiter = node.begin(&patient);
    node.waiters("disk", 1);
    wall.assert_seen_by(&waiter);
    let now = eventually("the time", || told(&node.file("now")));

    for step in [-DAY, DAY] {
        // By the time that another lease of that length is over, they have had to renew theirs.
        outlast_a_lease(&node, "10s", || wall.step(step));
        eventually("the step", || {
            told(&node.file("now")).filter(|told| (told - now - step).abs() < DAY / 2)
        });
        assert!(holder.is_running(), "{}", holder.stderr());
        assert!(waiter.is_running(), "{}{}", waiter.stdout(), waiter.stderr());
        let holds = node.holder("disk");
        assert_eq!((&holds["token"], &holds["who"]), (&held["token"], &held["who"]), "{step}");
        node.waiters("disk", 1);
        // A wait ends in its time, too.
        node.begin(&["lock", "--timeout", "3s", "disk", "--", "true"]).ends_with(11);
    }
    holder.signal(Signal::SIGTERM);
    holder.status();
    waiter.ends_with(0);
    let tokens = [held["token"].to_string(), waiter.stdout()]
        .map(|token| token.trim().trim_matches('"').parse::<u64>().expect("a token"));
    assert!(tokens[0] < tokens[1], "{tokens:?}");
}
