//! What is done to the repository rather than with it.
//!
//! `cargo xtask test` runs every check that counts, and is all that the continuous build runs.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::process::{self, Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

mod busy;
mod options;

use options::Options;

const USAGE: &str = "usage: cargo xtask test [--repeat K [--within M]] [--busy]
       cargo xtask chaos [--minutes M] [--seed S] [--judge FILE]
       cargo xtask peers

  test    formatting, lints, tests, a minute of chaos, documentation, and the purity of the algorithms and the machine
            --repeat K   run the tests K times, to the last even if some fail, and say how many failed
            --within M   begin no further run that would not end within M minutes of the start, and say so
            --busy       run the tests beside two busy loops for each processor
  chaos   a node and its clients as real processes, with faults, judged from what was recorded; see docs/chaos.md
  peers   the model checker against Stateright, which `test` does not build: the same states and verdicts";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(2).collect();
    let done = match env::args().nth(1).as_deref() {
        Some("test") => match Options::read(&arguments) {
            Ok(options) => test(&options),
            Err(wrong) => {
                eprintln!("xtask: {wrong}\n\n{USAGE}");
                return ExitCode::from(2);
            }
        },
        Some("chaos") => chaos(&arguments),
        Some("peers") => cargo(&["test", "--manifest-path", "benches/peers/Cargo.toml"], &[]),
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
type Step = (&'static str, fn(&Options, &mut Summary) -> Result<()>);

const STEPS: [Step; 6] = [
    ("formatting", |_, _| cargo(&["fmt", "--all", "--check"], &[])),
    ("lints", |_, _| {
        cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[])
    }),
    ("tests", tests),
    ("chaos", |_, summary| {
        let file = skips()?;
        let minute = ["--minutes", "1", "--seed", "14"].map(str::to_owned);
        let done = run_chaos(&minute, &[(SKIPPED, &file)]);
        summary.read_skips(&file);
        done
    }),
    ("documentation", |_, _| {
        let args = ["doc", "--workspace", "--no-deps"];
        cargo(&args, &[("RUSTDOCFLAGS", "-D warnings")])
    }),
    ("purity", |_, _| purity()),
];

/// What is said at the end.
struct Summary {
    /// When the first check began.
    begun: Instant,
    /// How long each check took, and each run of the tests.
    times: Vec<(String, Duration)>,
    /// Tests that said they could not be run here, and why.
    skipped: BTreeSet<String>,
}

/// Builds the program and what tries it, and has it tried.
fn chaos(arguments: &[String]) -> Result<()> {
    cargo(&["build", "-p", "conclave-cli", "-p", "conclave-chaos"], &[])?;
    run_chaos(arguments, &[])
}

/// Has the program tried, as it was built. `cargo run` would choose the features of two crates alone, and
/// compile half of the workspace a second time after the tests.
fn run_chaos(arguments: &[String], variables: &[(&str, &str)]) -> Result<()> {
    let this = env::current_exe().context("where does this program lie?")?;
    let program = this.with_file_name("conclave-chaos");
    let mut command = Command::new(&program);
    command.args(arguments).current_dir(root());
    if !arguments.iter().any(|argument| argument.starts_with("--program")) {
        command.arg("--program").arg(this.with_file_name("conclave"));
    }
    println!("   {command:?}");
    let status = command.envs(variables.iter().copied()).status();
    let status = status.with_context(|| format!("cannot start {}", program.display()))?;
    ensure!(status.success(), "to repeat it: cargo xtask chaos {}", arguments.join(" "));
    Ok(())
}

fn test(options: &Options) -> Result<()> {
    let mut summary = Summary { begun: now(), times: Vec::new(), skipped: BTreeSet::new() };
    for (i, (name, check)) in STEPS.iter().enumerate() {
        println!("\n== {}/{} {name}", i + 1, STEPS.len());
        let begun = now();
        let checked = check(options, &mut summary);
        let took = begun.elapsed();
        checked.with_context(|| format!("{name} failed after {took:.1?}"))?;
        println!("== {name} passed in {took:.1?}");
        summary.times.push(((*name).to_owned(), took));
    }
    println!("\nall {} checks passed:", STEPS.len());
    summary.times.push(("in all".to_owned(), summary.begun.elapsed()));
    summary.print();
    Ok(())
}

impl Summary {
    /// Takes over what could not be run, from the file that it was written to.
    fn read_skips(&mut self, file: &str) {
        let skipped = fs::read_to_string(file).unwrap_or_default();
        drop(fs::remove_file(file));
        self.skipped.extend(skipped.lines().map(str::to_owned));
    }

    fn print(&self) {
        for (name, took) in &self.times {
            println!("  {name:<14} {:>7.1} s", took.as_secs_f64());
        }
        match self.skipped.len() {
            0 => println!("no test was skipped"),
            n => println!("{n} skipped for want of something:"),
        }
        for test in &self.skipped {
            println!("  {test}");
        }
    }
}

/// Runs the tests as often as asked for and as there is time. Those that cannot be run here say so in a file.
fn tests(options: &Options, summary: &mut Summary) -> Result<()> {
    // What is built beside busy loops is built three times as slowly, and proves nothing.
    cargo(&["build", "--workspace", "--bins", "--tests"], &[])?;
    let file = skips()?;
    let _busy = options.busy.then(busy::Loops::start).transpose()?;
    let mut failed = Vec::new();
    let mut runs = 0;
    let mut longest = Duration::ZERO;
    for run in 1..=options.repeat {
        if run > 1
            && let Some(within) = options.within
            && summary.begun.elapsed() + longest > within
        {
            println!("== no time for run {run} of {}", options.repeat);
            summary.times.push((format!("  no time for run {run}"), Duration::ZERO));
            break;
        }
        runs = run;
        let begun = now();
        // A test that fails hides none of those after it.
        let threads = test_threads();
        let variables = [(SKIPPED, file.as_str()), ("RUST_TEST_THREADS", &threads)];
        let result = cargo(&["test", "--workspace", "--no-fail-fast"], &variables);
        let took = begun.elapsed();
        longest = longest.max(took);
        if options.repeat > 1 {
            let outcome = if result.is_ok() { "passed" } else { "FAILED" };
            println!("== run {run} of {} {outcome} in {took:.1?}", options.repeat);
            summary.times.push((format!("  run {run} {outcome}"), took));
        }
        if let Err(error) = result {
            failed.push(error);
        }
    }
    summary.read_skips(&file);
    let count = failed.len();
    match failed.pop() {
        Some(error) if options.repeat == 1 => Err(error),
        Some(error) => {
            summary.print();
            Err(error.context(format!("{count} of {runs} runs failed")))
        }
        None => Ok(()),
    }
}

/// How many tests run at once. Those of the service mostly wait, for leases to end or processes to
/// start, so more run than there are processors.
fn test_threads() -> String {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    (3 * processors).to_string()
}

/// The name of a file for what cannot be run here.
fn skips() -> Result<String> {
    let file = env::temp_dir().join(format!("conclave-skipped-{}", process::id()));
    let path =
        file.to_str().context("the directory for temporary files has a name that is no text")?;
    Ok(path.to_owned())
}

/// Tests that cannot be run here write to the file that this names: `conclave_testing::SKIPPED`.
const SKIPPED: &str = "CONCLAVE_SKIPPED_TESTS";

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
    let mut command = Command::new(cargo);
    command.args(args).current_dir(root());
    command
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

/// The crates that must not depend on anything that does I/O, reads a clock or draws chance.
const PURE: [&str; 5] = [
    "conclave-protocol",
    "conclave-algorithms",
    "conclave-machine",
    "conclave-machine-v1",
    "conclave-record",
];

/// What they may depend on: each other, serialization and errors, and what their macros are compiled
/// with.
const ALLOWED: [&str; 16] = [
    "conclave-protocol",
    "conclave-algorithms",
    "conclave-machine",
    "conclave-machine-v1",
    "conclave-record",
    "thiserror",
    "thiserror-impl",
    "serde",
    "serde_core",
    "serde_derive",
    "erased-serde",
    "typeid",
    "proc-macro2",
    "quote",
    "syn",
    "unicode-ident",
];

/// The laboratory and what it is made of: these compute, too, and a page in a browser is to have them. They may use
/// what the pure crates use, and these.
const COMPUTING: [&str; 3] = ["conclave-sim", "conclave-check", "conclave-lab"];

/// Containers, text and encodings; no clock, no thread, no file, no chance.
const ALSO_ALLOWED: [&str; 14] = [
    "conclave-sim",
    "conclave-check",
    "conclave-lab",
    "cobs",
    "equivalent",
    "hashbrown",
    "indexmap",
    "itoa",
    "memchr",
    "postcard",
    "rustc-hash",
    "serde_json",
    "strsim",
    "zmij",
];

/// Checks what the pure crates and the laboratory depend on.
fn purity() -> Result<()> {
    for pure in PURE.into_iter().chain(COMPUTING) {
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
        let mut foreign = foreign(&tree);
        if COMPUTING.contains(&pure) {
            foreign.retain(|name| !ALSO_ALLOWED.contains(name));
        }
        if !foreign.is_empty() {
            let names: Vec<&str> = foreign.into_iter().collect();
            bail!(
                "{pure} depends on {}, which may do I/O, read a clock or draw chance; if it does not, \
                 xtask/src/main.rs has the list; {repeat}",
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
