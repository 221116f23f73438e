//! The command line of Conclave: the catalogue, runs, their space-time diagrams, costs and
//! verdicts.
//!
//! A command turns flags into plain data ([`spec_args`]), calls the simulator through
//! [`simulate`], and says what came of it ([`report`], [`diagram`]).

pub mod commands;
pub mod diagram;
mod markdown;
pub mod report;
mod simulate;
pub mod spec_args;
mod terminal;
pub mod theory;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use conclave_sim::{Beyond, SpecError, TraceError};
use thiserror::Error;

pub use simulate::{clients, find, places, simulate};
pub use terminal::{Color, Terminal, TerminalArgs};

/// Every exit code, for `--help`.
const EXIT_CODES: &str = "\
Exit codes:
  0  done; every property that the model promises held
  1  a promised property was violated, or a replay differs from its trace
  2  the command line cannot be understood, or names an algorithm that does not exist
  3  there can be no such run: a node, an option or a size that does not fit
  4  the run goes beyond the algorithm's model, and --beyond-model was not given
  5  a file cannot be read or written, or is not a trace that this program understands
  6  a search was stopped by a limit before it was done, and has found no broken promise
  130  stopped by Ctrl-C";

fn check_help() -> String {
    format!("{}\n\n{EXIT_CODES}", commands::check::ENDS)
}

/// Coordination algorithms: look them up, run them, break them.
#[derive(Debug, Parser)]
#[command(name = "conclave", version, after_help = EXIT_CODES, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// How to print.
    #[command(flatten)]
    pub terminal: TerminalArgs,
}

/// What can be done.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub enum Command {
    /// List the algorithms of the catalogue
    List(commands::list::Args),
    /// Explain an algorithm: idea, rules, model, promises, cost, known failures
    Explain(commands::explain::Args),
    /// Run an algorithm in the simulator, with faults of your choice
    #[command(after_help = EXIT_CODES)]
    Run(Box<commands::run::Args>),
    /// Run a recorded trace again and compare, event by event
    #[command(after_help = EXIT_CODES)]
    Replay(commands::replay::Args),
    /// Check every run of a small system, faults included, or show a shortest counter-example
    #[command(after_help = check_help())]
    Check(Box<commands::check::Args>),
    /// Compare the algorithms of a family: measured, in theory, and as the lectures have it
    Compare(commands::compare::Args),
}

/// How a command ended, if it did what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// All is well.
    Well,
    /// A promise was broken, or a replay differs.
    Violated,
    /// Stopped by a limit.
    Stopped,
    /// Stopped by Ctrl-C.
    Interrupted,
}

/// Why a command could not do what was asked: one line, with what to do about it.
#[derive(Debug, Error)]
pub enum Failure {
    /// No algorithm has this id.
    #[error("no algorithm is called {id:?}{}", suggest(.nearest))]
    UnknownId {
        /// What was asked for.
        id: String,
        /// What may have been meant.
        nearest: Vec<&'static str>,
    },
    /// The flags contradict each other or cannot be read.
    #[error("{0}")]
    Usage(String),
    /// There can be no such run.
    #[error("{0}")]
    Impossible(String),
    /// The run breaks an assumption of the algorithm.
    #[error(
        "{id} makes no promise about such a run: {}; add --beyond-model to run it all the same",
        list(.beyond)
    )]
    BeyondModel {
        /// The algorithm.
        id: &'static str,
        /// What is beyond its model.
        beyond: Vec<Beyond>,
    },
    /// A file cannot be read or written.
    #[error("{path}: {error}", path = .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// A file is not a trace, or not one of ours.
    #[error("{path}: {error}", path = .path.display())]
    Trace {
        /// Which.
        path: PathBuf,
        /// Why not.
        error: TraceError,
    },
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

impl From<SpecError> for Failure {
    fn from(error: SpecError) -> Self {
        Self::Impossible(error.to_string())
    }
}

impl Failure {
    /// The exit code of the program.
    pub fn code(&self) -> u8 {
        match self {
            Self::UnknownId { .. } | Self::Usage(_) => 2,
            Self::Impossible(_) => 3,
            Self::BeyondModel { .. } => 4,
            Self::File { .. } | Self::Trace { .. } | Self::Output(_) => 5,
        }
    }
}

fn suggest(nearest: &[&str]) -> String {
    match nearest {
        [] => "; `conclave list --mutants` shows all".to_owned(),
        some => format!("; did you mean {}?", some.join(" or ")),
    }
}

fn list(beyond: &[Beyond]) -> String {
    let reasons: Vec<&str> = beyond.iter().map(|Beyond(reason)| reason.as_str()).collect();
    reasons.join("; ")
}

/// The program: reads the command line, does what it says, and returns the exit code.
pub fn main() -> ExitCode {
    let matches = Cli::command().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let terminal = Terminal::new(&cli.terminal);
    let mut out = terminal.stdout();
    let given = matches.subcommand().map(|(name, given)| spec_args::given(name, given));
    let done = cli.command.perform(&terminal, &given.unwrap_or_default(), &mut out);
    match done.and_then(|done| out.flush().map(|()| done).map_err(Failure::Output)) {
        Ok(Done::Well) => ExitCode::SUCCESS,
        Ok(Done::Violated) => ExitCode::from(1),
        Ok(Done::Stopped) => ExitCode::from(6),
        Ok(Done::Interrupted) => ExitCode::from(130),
        // Whoever read the output has seen enough.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(failure) => {
            let (red, plain) = terminal::style(terminal::ERROR);
            // Standard error may be closed, too; then there is nobody to tell.
            let _ = writeln!(terminal.stderr(), "{red}error:{plain} {failure}");
            ExitCode::from(failure.code())
        }
    }
}

impl Command {
    /// Does it. `given` is what was set on the command line, for commands that quote it.
    pub fn perform(
        &self,
        terminal: &Terminal,
        given: &spec_args::Given,
        out: &mut dyn Write,
    ) -> Result<Done, Failure> {
        match self {
            Self::List(args) => commands::list::perform(args, terminal, out),
            Self::Explain(args) => commands::explain::perform(args, terminal, out),
            Self::Run(args) => commands::run::perform(args, given, terminal, out),
            Self::Replay(args) => commands::replay::perform(args, terminal, out),
            Self::Check(args) => commands::check::perform(args, terminal, out),
            Self::Compare(args) => commands::compare::perform(args, terminal, out),
        }
    }
}
