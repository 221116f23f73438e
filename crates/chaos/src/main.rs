//! Chaos with real processes.
//!
//! A node, clients over HTTP, clients in Rust, and commands under `conclave lock` and `conclave elect`, all as real
//! processes; a proxy between them and the node; and faults, drawn from a seed. Everything is recorded with one clock,
//! and [`conclave_history`] judges what was recorded. `docs/chaos.md` says what is done and what is not.

mod clock;
mod command;
mod disk;
mod force;
mod http;
mod http_client;
mod listing;
mod node;
mod plan;
mod process_fault;
mod proxy;
mod recorder;
mod report;
mod run;
mod session_client;
mod wrapper;

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

/// Run a node and its clients as real processes, with faults, and judge what was recorded.
#[derive(Debug, Parser)]
#[command(name = "chaos", version, args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    inner: Option<Inner>,
    #[command(flatten)]
    run: RunArguments,
}

/// What is done.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RunArguments {
    /// For how long faults are made, in minutes
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// What the faults are drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The program that is tried
    #[arg(long, default_value = "target/debug/conclave")]
    program: PathBuf,
    /// Where the history goes: FOLDER/SEED.jsonl
    #[arg(long, default_value = "target/chaos")]
    output: PathBuf,
    /// Make only faults of these kinds, separated by commas; `none` makes none
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Judge this history again instead of making one
    #[arg(long, value_name = "FILE")]
    judge: Option<PathBuf>,
}

/// What this program does when it starts itself.
#[derive(Debug, Subcommand)]
enum Inner {
    /// Be the command under a lock
    #[command(hide = true)]
    Command(command::Arguments),
    /// Be a client in Rust
    #[command(hide = true)]
    Client(session_client::Arguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.inner {
        Some(Inner::Command(arguments)) => return command::run(&arguments),
        Some(Inner::Client(arguments)) => session_client::run(&arguments),
        None => match &arguments.run.judge {
            Some(file) => judge(file),
            None => run::run(&arguments.run),
        },
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("chaos: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Judges a history that was recorded before.
fn judge(file: &PathBuf) -> Result<bool> {
    let open = File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
    let events = conclave_history::read(BufReader::new(open))?;
    Ok(report::print(&events))
}
