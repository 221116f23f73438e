//! The laboratory on a terminal: the catalogue, runs, their space-time diagrams, costs and verdicts.
//!
//! A command turns flags into plain data ([`spec_args`]), hands it to [`conclave_lab`], and shows what came of it
//! ([`report`]). The program `conclave` has these commands beside those of the lock service; a program with
//! algorithms of its own has them by [`main`].

pub mod commands;
mod diagram;
mod markdown;
pub mod report;
pub mod spec_args;
pub mod terminal;

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::FalseyValueParser;
use clap::{ArgAction, ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use conclave_lab::{Printed, Refusal};
use conclave_protocol::Algorithm;
use conclave_sim::TraceError;
use serde::Serialize;
use serde_json::json;
use thiserror::Error;

pub use terminal::{Color, Terminal, TerminalArgs};

/// The exit codes of the laboratory, for `--help`.
pub const CODES: &str = "\
Exit codes:
  0  done; every property that the model promises held
  1  a promised property was violated, or a replay differs from its trace
  2  the command line cannot be understood, or names an algorithm that does not exist
  3  there can be no such run: a node, an option or a size that does not fit
  4  the run goes beyond the algorithm's model, and --beyond-model was not given
  5  a file cannot be read or written, or is not a trace that this program understands
  6  a search was stopped by a limit before it was done, and has found no broken promise
  130  stopped by Ctrl-C";

fn help(examples: &str) -> String {
    format!("{examples}\n\n{CODES}")
}

fn check_help() -> String {
    format!("{}\n\n{CODES}", commands::check::ENDS)
}

/// What can be done with algorithms.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub enum Command {
    /// List the algorithms of the catalogue
    #[command(after_help = LIST_HELP)]
    List(commands::list::Args),
    /// Explain an algorithm: idea, rules, model, promises, cost, known failures
    #[command(after_help = EXPLAIN_HELP)]
    Explain(commands::explain::Args),
    /// Run an algorithm in the simulator, with faults of your choice
    #[command(after_help = help(RUN_HELP))]
    Run(Box<commands::run::Args>),
    /// Run a recorded trace again and compare, event by event
    #[command(after_help = help(REPLAY_HELP))]
    Replay(commands::replay::Args),
    /// Check every run of a small system, faults included, or show a shortest counter-example
    #[command(after_help = check_help())]
    Check(Box<commands::check::Args>),
    /// Find all global states that the processes of a run could have been in, and ask about them
    #[command(after_help = help(LATTICE_HELP))]
    Lattice(Box<commands::lattice::Args>),
    /// Say whether a cut of a recorded run is consistent, and what is in the channels
    #[command(after_help = help(CUT_HELP))]
    Cut(commands::cut::Args),
    /// Compare the algorithms of a family: measured, in theory, and as the lectures have it
    #[command(after_help = COMPARE_HELP)]
    Compare(commands::compare::Args),
}

const LIST_HELP: &str = "\
Examples:
  conclave list               everything
  conclave list mutex         one family
  conclave list --long        with a sentence about each
  conclave list --mutants     also the spoilt ones";

const EXPLAIN_HELP: &str = "\
Example:
  conclave explain mutex/maekawa";

const RUN_HELP: &str = "\
Examples:
  conclave run mutex/ricart-agrawala --nodes 3
  conclave run mutex/token-ring-ft --nodes 5 --rounds 2 --crash 2@4
  conclave run mutex/ra-no-tie-break --nodes 3 --seeds 1000";

const REPLAY_HELP: &str = "\
Example:
  conclave run mutex/lamport --trace run.json && conclave replay run.json";

const LATTICE_HELP: &str = "\
Examples:
  conclave lattice mutex/ricart-agrawala --possibly 'inside>=2'
  conclave lattice snapshot/chandy-lamport --set transfers=1 --ask 0@1
  conclave lattice run.json --svg > lattice.svg

Facts:
  inside(p0), waiting(p0), down(p0), leads(p0), leader(p0)=p1, leader(p0)=none, suspects(p0,p1);
  numbers, compared by =, !=, <, <=, > or >=: inside, waiting, down, leads (of how many nodes it is
  so), events(p0), channel(p0,p1), messages (on their way); and, or, not, brackets.";

const CUT_HELP: &str = "\
Examples:
  conclave run mutex/lamport --trace run.json
  conclave cut run.json                        the events of each node, numbered
  conclave cut run.json --at p0:5,p1:7,p2:3
  conclave cut run.json --at '#0'              the cut that a snapshot recorded";

const COMPARE_HELP: &str = "\
Examples:
  conclave compare mutex --nodes 7
  conclave compare election --nodes 5,8
  conclave compare fd";

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
    /// With this exit code, which is that of another program.
    Code(u8),
}

impl Done {
    /// Ended by a signal.
    pub fn signal(number: i32) -> Self {
        Self::Code(u8::try_from(128 + number).unwrap_or(u8::MAX))
    }

    /// The exit code of the program.
    pub fn code(self) -> u8 {
        match self {
            Self::Well => 0,
            Self::Violated => 1,
            Self::Stopped => 6,
            Self::Interrupted => 130,
            Self::Code(code) => code,
        }
    }
}

/// Why a command could not do what was asked: one line, with what to do about it.
#[derive(Debug, Error)]
pub enum Failure {
    /// The laboratory does not do such a thing.
    #[error("{refusal}{hint}", refusal = .0, hint = hint(.0))]
    Refused(#[from] Refusal),
    /// The flags contradict each other or cannot be read.
    #[error("{0}")]
    Usage(String),
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

impl Failure {
    /// The exit code of the program.
    pub fn code(&self) -> u8 {
        match self {
            Self::Refused(Refusal::UnknownId { .. } | Refusal::Usage(_)) | Self::Usage(_) => 2,
            Self::Refused(Refusal::Impossible(_)) => 3,
            Self::Refused(Refusal::BeyondModel { .. }) => 4,
            Self::File { .. } | Self::Trace { .. } | Self::Output(_) => 5,
        }
    }

    /// What programs go by: it does not change with the wording.
    pub fn slug(&self) -> &'static str {
        match self {
            Self::Refused(Refusal::UnknownId { .. }) => "unknown-algorithm",
            Self::Refused(Refusal::Usage(_)) | Self::Usage(_) => "usage",
            Self::Refused(Refusal::Impossible(_)) => "impossible",
            Self::Refused(Refusal::BeyondModel { .. }) => "beyond-model",
            Self::File { .. } => "file",
            Self::Trace { .. } => "trace",
            Self::Output(_) => "output",
        }
    }

    /// Whether the reader of the output has seen enough.
    pub fn is_closed_output(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// What can be done about a refusal, by flags.
fn hint(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::BeyondModel { .. } => "; add --beyond-model to run it all the same",
        _ => "",
    }
}

/// Prints data of the laboratory for programs, under its version.
pub(crate) fn print_json(data: &impl Serialize, out: &mut dyn Write) -> Result<(), Failure> {
    let value = serde_json::to_value(Printed::new(data)).map_err(io::Error::from)?;
    Ok(writeln!(out, "{value:#}")?)
}

/// Algorithms, to look up, run, check and compare.
#[derive(Debug, Parser)]
struct Cli {
    /// What to do.
    #[command(subcommand)]
    command: Command,
    /// How to print.
    #[command(flatten)]
    terminal: TerminalArgs,
}

/// The laboratory as a program, with algorithms of your own beside those of the catalogue: reads the
/// command line, does what it says, and returns the exit code.
pub fn main(own: &'static [&'static dyn Algorithm]) -> ExitCode {
    let path = std::env::args_os().next().map(PathBuf::from);
    let name = path.as_deref().and_then(Path::file_name).and_then(OsStr::to_str);
    let name: &'static str = name.unwrap_or("laboratory").to_owned().leak();
    if let Err(clash) = conclave_lab::catalogue::add(name, own) {
        eprintln!("error: {clash}");
        return ExitCode::from(2);
    }
    let matches = lenient(Cli::command().name(name)).get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let terminal = Terminal::new(&cli.terminal);
    let mut out = terminal.stdout();
    let given = matches.subcommand().map(|(name, given)| spec_args::given(name, given));
    let done = cli.command.perform(&terminal, &given.unwrap_or_default(), &mut out);
    match done.and_then(|done| out.flush().map(|()| done).map_err(Failure::Output)) {
        Ok(done) => ExitCode::from(done.code()),
        Err(failure) if failure.is_closed_output() => ExitCode::SUCCESS,
        Err(failure) => {
            let (code, slug) = (failure.code(), failure.slug());
            complain(&terminal, slug, &failure.to_string(), code, asks_json(&matches));
            ExitCode::from(code)
        }
    }
}

/// Whether a command was given `--json`.
pub fn asks_json(matches: &ArgMatches) -> bool {
    matches.subcommand().is_some_and(|(_, matches)| {
        matches.try_get_one::<bool>("json").ok().flatten().copied().unwrap_or_default()
    })
}

/// Says why something was not done: a line for people, or an object for programs.
pub fn complain(terminal: &Terminal, slug: &str, message: &str, exit: u8, json: bool) {
    // Standard error may be closed, too; then there is no reader to tell.
    let _ = if json {
        let error = json!({ "code": slug, "message": message, "exit": exit });
        writeln!(terminal.stderr(), "{}", json!({ "error": error }))
    } else {
        let (red, plain) = terminal::style(terminal::ERROR);
        writeln!(terminal.stderr(), "{red}error:{plain} {message}")
    };
}

/// The command line in which a variable that stands for a flag may say yes and no in any of the usual
/// ways.
pub fn lenient(command: clap::Command) -> clap::Command {
    let flag = |arg: clap::Arg| match arg.get_action() {
        ArgAction::SetTrue => arg.value_parser(FalseyValueParser::new()),
        _ => arg,
    };
    command.mut_args(flag).mut_subcommands(lenient)
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
            Self::Lattice(args) => commands::lattice::perform(args, given, terminal, out),
            Self::Cut(args) => commands::cut::perform(args, terminal, out),
            Self::Compare(args) => commands::compare::perform(args, terminal, out),
        }
    }
}
