//! The program as tests start it.

#![allow(dead_code, reason = "each test uses its part")]

pub(crate) mod node;

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

/// Runs the program to its end.
pub(crate) fn conclave(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conclave"));
    // What happens to be set where the tests run is none of their business.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CONCLAVE_")) {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C.UTF-8").args(args).output().expect("the program starts")
}

/// What it printed.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("the program prints UTF-8")
}

/// What it complained about.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("the program prints UTF-8")
}

/// Runs the program, which has to end with `code`, and returns what it prints.
pub(crate) fn ends_with(code: i32, args: &[&str]) -> String {
    let output = conclave(args);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(code), "{args:?}\n{text}\n{}", stderr(&output));
    text
}

/// The program has to refuse with `code` and one line that contains `text`.
pub(crate) fn refuses(code: i32, args: &[&str], text: &str) {
    let output = conclave(args);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{args:?}\n{said}");
    assert!(said.contains(text), "{args:?} should say {text:?}, and says {said:?}");
    assert_eq!(stdout(&output), "", "{args:?} prints nothing before it refuses");
    if code != 2 {
        assert_eq!(said.trim_end().lines().count(), 1, "one line: {said:?}");
    }
}

/// What it prints, as JSON.
pub(crate) fn json(args: &[&str]) -> Value {
    serde_json::from_str(&stdout(&conclave(args))).expect("the output is JSON")
}

/// Waits until a process has been told what to do about Ctrl-C, and has done some work since.
pub(crate) fn is_at_work(process: u32) {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{process}/{file}")).ok();
    conclave_testing::until("the program hears Ctrl-C", || {
        let status = read("status").unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|caught| u64::from_str_radix(caught.trim(), 16).ok());
        caught.is_some_and(|caught| caught & 1 << (SIGINT - 1) != 0)
    });
    // In hundredths of a second, by the process's own clock: others may keep the machine busy.
    let worked = || -> Option<u64> {
        let stat = read("stat")?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(11)?.parse().ok()
    };
    let begun = worked().expect("it runs");
    conclave_testing::until("the program works", || worked().is_none_or(|now| now > begun + 30));
}

const SIGINT: i32 = nix::sys::signal::Signal::SIGINT as i32;

/// A file to write to.
pub(crate) fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}
