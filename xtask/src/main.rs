//! What is done to the repository rather than with it.
//!
//! `cargo xtask test` runs every check that counts, and is all that the continuous build runs.

use std::collections::BTreeSet;
use std::env;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

const USAGE: &str = "usage: cargo xtask test

  test    formatting, lints, tests, documentation, and the purity of the algorithms and the machine";

fn main() -> ExitCode {
    let done = match env::args().nth(1).as_deref() {
        Some("test") => test(),
        Some("help" | "--help" | "-h") => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nxtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A check: its name, and what it does.
type Step = (&'static str, fn() -> Result<()>);

const STEPS: [Step; 5] = [
    ("formatting", || cargo(&["fmt", "--all", "--check"], &[])),
    ("lints", || cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[])),
    ("tests", || cargo(&["test", "--workspace"], &[])),
    ("documentation", || {
        let args = ["doc", "--workspace", "--no-deps"];
        cargo(&args, &[("RUSTDOCFLAGS", "-D warnings")])
    }),
    ("purity", purity),
];

fn test() -> Result<()> {
    let mut times = Vec::new();
    for (i, (name, check)) in STEPS.iter().enumerate() {
        println!("\n== {}/{} {name}", i + 1, STEPS.len());
        let begun = now();
        check().with_context(|| format!("{name} failed after {:.1?}", begun.elapsed()))?;
        let took = begun.elapsed();
        println!("== {name} passed in {took:.1?}");
        times.push((name, took));
    }
    println!("\nall {} checks passed:", times.len());
    for (name, took) in &times {
        println!("  {name:<14} {:>7.1} s", took.as_secs_f64());
    }
    let total: Duration = times.iter().map(|(_, took)| *took).sum();
    println!("  {:<14} {:>7.1} s", "in all", total.as_secs_f64());
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "measures how long the checks take")]
fn now() -> Instant {
    Instant::now()
}

/// Runs cargo in the repository's root and passes its output on.
fn cargo(args: &[&str], variables: &[(&str, &str)]) -> Result<()> {
    let settings: String =
        variables.iter().map(|(name, value)| format!("{name}='{value}' ")).collect();
    let line = format!("{settings}cargo {}", args.join(" "));
    println!("   {line}");
    let status = command(args).envs(variables.iter().copied()).status();
    let status = status.with_context(|| format!("cannot start `{line}`"))?;
    ensure!(status.success(), "to repeat it: {line}");
    Ok(())
}

fn command(args: &[&str]) -> Command {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace");
    let mut command = Command::new(cargo);
    command.args(args).current_dir(root);
    command
}

/// The crates that must not depend on anything that does I/O, reads a clock or draws chance.
const PURE: [&str; 3] = ["conclave-protocol", "conclave-algorithms", "conclave-machine"];

/// What they may depend on: each other, serialization and errors, and what their macros are compiled
/// with.
const ALLOWED: [&str; 12] = [
    "conclave-protocol",
    "conclave-algorithms",
    "conclave-machine",
    "thiserror",
    "thiserror-impl",
    "serde",
    "serde_core",
    "serde_derive",
    "proc-macro2",
    "quote",
    "syn",
    "unicode-ident",
];

/// Checks what the pure crates depend on.
fn purity() -> Result<()> {
    for pure in PURE {
        let args = ["tree", "-p", pure, "-e", "normal", "--prefix", "none", "--format", "{p}"];
        println!("   cargo {}", args.join(" "));
        let output = command(&args).output().context("cannot start cargo tree")?;
        let repeat = format!("to repeat it: cargo {}", args.join(" "));
        ensure!(
            output.status.success(),
            "cargo tree failed: {}; {repeat}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        let tree = String::from_utf8(output.stdout).context("cargo tree prints text")?;
        let foreign = foreign(&tree);
        if !foreign.is_empty() {
            let names: Vec<&str> = foreign.into_iter().collect();
            bail!(
                "{pure} depends on {}, and pure crates are to depend on nothing but serde and thiserror; \
                 {repeat}",
                names.join(", ")
            );
        }
    }
    Ok(())
}

/// The crates of a dependency tree that a pure crate may not use.
fn foreign(tree: &str) -> BTreeSet<&str> {
    let names = tree.lines().filter_map(|line| line.split_whitespace().next());
    names.filter(|name| !ALLOWED.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_that_does_io_is_named() {
        let tree = "conclave-algorithms v0.1.0 (/x)\nserde v1.0.228\nrand v0.9.0\nlibc v0.2.1\n";
        assert_eq!(foreign(tree), BTreeSet::from(["libc", "rand"]));
    }
}
