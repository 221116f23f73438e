//! The command line of Conclave: a node, locks and elections for commands; and the catalogue, runs, their
//! space-time diagrams, costs and verdicts.
//!
//! A command of the lock service reaches a node, and runs other commands, by way of [`service`]. A command of the
//! laboratory turns flags into plain data ([`spec_args`]), hands it to [`conclave_lab`], and shows what came of it
//! ([`report`]).

pub mod commands;
mod diagram;
mod markdown;
pub mod report;
pub mod service;
pub mod spec_args;
mod terminal;

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::FalseyValueParser;
use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};
use conclave_lab::{Printed, Refusal};
use conclave_sim::TraceError;
use serde::Serialize;
use serde_json::json;
use thiserror::Error;

pub use terminal::{Color, Terminal, TerminalArgs};

/// The exit codes of the laboratory, for `--help`.
const LAB_CODES: &str = "\
Exit codes:
  0  done; every property that the model promises held
  1  a promised property was violated, or a replay differs from its trace
  2  the command line cannot be understood, or names an algorithm that does not exist
  3  there can be no such run: a node, an option or a size that does not fit
  4  the run goes beyond the algorithm's model, and --beyond-model was not given
  5  a file cannot be read or written, or is not a trace that this program understands
  6  a search was stopped by a limit before it was done, and has found no broken promise
  130  stopped by Ctrl-C";

/// The exit codes of the lock service, for `--help`.
const SERVICE_CODES: &str = "\
Exit codes:
  0    done; of lock and elect with a command: what that ended with, 128+n if by signal n
  2    the command line cannot be understood
  5    a file cannot be read or written
  10   somebody else has it (--try)
  11   it could not be had in time (--timeout)
  12   it was lost; the command was ended
  13   no node answers
  14   the node refuses: no right to that, or no such thing
  15   a deadlock, or what could become one: release what you hold and try again
  16   a certificate is not accepted: expired, for another name, or of an unknown authority
  17   a node answers, but cannot do that now: its disk is full, say
  126  the command cannot be executed
  127  there is no such command
  130  stopped by Ctrl-C
With --json, an error is a line on standard error: {\"error\":{\"code\":…,\"message\":…,\"exit\":…}}";

/// The exit codes of a node, for `--help`.
const UP_CODES: &str = "\
Exit codes:
  0    stopped by Ctrl-C or SIGTERM
  2    the command line cannot be understood
  20   cannot listen: the port is in use, say
  21   another node uses the directory
  22   the directory cannot be used: it cannot be written to, say
  23   what is in the directory is damaged
  24   the node could not start or stop, for another reason
  25   a certificate, a key or the tokens cannot be used
  130  stopped by a second Ctrl-C before it had stopped";

/// Every exit code.
fn exit_codes() -> String {
    let lines = [LAB_CODES, SERVICE_CODES, UP_CODES].map(|codes| {
        let lines = codes.lines().skip(1);
        lines.map(|line| line.trim().split_once(' ').unwrap_or((line, "")))
    });
    let [lab, service, up] = lines.map(|lines| {
        let lines = lines.map(|(code, meaning)| format!("  {code:<4} {}", meaning.trim()));
        lines.collect::<Vec<_>>().join("\n")
    });
    format!(
        "Exit codes of the laboratory (list, explain, run, replay, check, compare):\n{lab}\n\n\
         Exit codes of the lock service:\n{service}\n\nExit codes of a node (up):\n{up}"
    )
}

fn lab_help(examples: &str) -> String {
    format!("{examples}\n\n{LAB_CODES}")
}

fn service_help(examples: &str) -> String {
    format!("{examples}\n\n{SERVICE_CODES}")
}

fn up_help() -> String {
    format!("{}\n\n{UP_CODES}", commands::up::HELP)
}

fn check_help() -> String {
    format!("{}\n\n{LAB_CODES}", commands::check::ENDS)
}

/// Locks and elections for programs on many machines; and the algorithms behind such things, to look up, run
/// and break.
#[derive(Debug, Parser)]
#[command(name = "conclave", version, after_help = exit_codes(), propagate_version = true)]
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
    /// Run a node: locks, elections, durable, without configuration
    #[command(after_help = up_help())]
    Up(commands::up::Args),
    /// Hold a lock, and run a command meanwhile
    #[command(after_help = service_help(commands::lock::HELP))]
    #[command(override_usage = "conclave lock [OPTIONS] <NAME> [COMMAND]...\n       \
                                conclave lock [OPTIONS] <NAME>... -- [COMMAND]...")]
    Lock(Box<commands::lock::Args>),
    /// Stand in an election, and run a command while leading
    #[command(after_help = service_help(commands::elect::HELP))]
    #[command(override_usage = "conclave elect [OPTIONS] <NAME> [COMMAND]...")]
    Elect(Box<commands::elect::Args>),
    /// Say who leads an election, now and whenever that changes
    #[command(after_help = service_help(commands::observe::HELP))]
    Observe(commands::observe::Args),
    /// List the locks: who holds them, how, since when, how many wait
    #[command(after_help = service_help(commands::locks::HELP))]
    Locks(commands::locks::Args),
    /// List the sessions: what they hold, lead and wait for
    #[command(after_help = service_help(commands::sessions::HELP))]
    Sessions(commands::sessions::Args),
    /// List the elections: who leads, who stands ready
    #[command(after_help = service_help(commands::elections::HELP))]
    Elections(commands::elections::Args),
    /// Say why a lock cannot be had: who holds it, who waits, for whom, and any deadlock
    #[command(after_help = service_help(commands::why::HELP))]
    Why(commands::why::Args),
    /// Show who waits for whom, as text, for Graphviz, or as JSON
    #[command(after_help = service_help(commands::graph::HELP))]
    Graph(commands::graph::Args),
    /// Take a lock from whoever holds it
    #[command(after_help = service_help(commands::operate::RELEASE_HELP))]
    Release(commands::operate::Release),
    /// End a session, and with it all that it holds
    #[command(after_help = service_help(commands::operate::EXPEL_HELP))]
    Expel(commands::operate::Expel),
    /// End a leadership
    #[command(after_help = service_help(commands::operate::DEPOSE_HELP))]
    Depose(commands::operate::Depose),
    /// Say what a node is and how it does
    #[command(after_help = service_help(commands::operate::STATUS_HELP))]
    Status(commands::operate::Status),
    /// Write all that a node knows to a file, while it is up
    #[command(after_help = service_help(commands::backup::BACKUP_HELP))]
    Backup(commands::backup::Backup),
    /// Make a directory for a node from a backup
    #[command(after_help = commands::backup::RESTORE_HELP)]
    Restore(commands::backup::Restore),
    /// Make a token by which a node knows somebody, and what that one may do
    #[command(after_help = commands::token::HELP)]
    Token(commands::token::Args),
    /// Make certificates: of an authority, and for nodes and clients
    #[command(after_help = commands::cert::HELP)]
    Cert(commands::cert::Args),
    /// Measure the service beside this machine's disk and network, and beside etcd
    #[command(after_help = commands::bench::HELP)]
    Bench(commands::bench::Args),
    /// List the algorithms of the catalogue
    #[command(after_help = LIST_HELP)]
    List(commands::list::Args),
    /// Explain an algorithm: idea, rules, model, promises, cost, known failures
    #[command(after_help = EXPLAIN_HELP)]
    Explain(commands::explain::Args),
    /// Run an algorithm in the simulator, with faults of your choice
    #[command(after_help = lab_help(RUN_HELP))]
    Run(Box<commands::run::Args>),
    /// Run a recorded trace again and compare, event by event
    #[command(after_help = lab_help(REPLAY_HELP))]
    Replay(commands::replay::Args),
    /// Check every run of a small system, faults included, or show a shortest counter-example
    #[command(after_help = check_help())]
    Check(Box<commands::check::Args>),
    /// Compare the algorithms of a family: measured, in theory, and as the lectures have it
    #[command(after_help = COMPARE_HELP)]
    Compare(commands::compare::Args),
    /// Print what a shell needs to complete command lines
    #[command(after_help = commands::manual::COMPLETIONS_HELP)]
    Completions(commands::manual::Completions),
    /// Print the manual, or write a page for each command
    #[command(after_help = commands::manual::MAN_HELP)]
    Man(commands::manual::Manual),
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
    /// As a command has ended that was run, or a signal has it.
    Code(u8),
}

impl Done {
    /// Ended by a signal.
    pub(crate) fn signal(number: i32) -> Self {
        Self::Code(u8::try_from(128 + number).unwrap_or(u8::MAX))
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
    /// The lock service, or a command under a lock.
    #[error(transparent)]
    Service(#[from] service::Trouble),
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
            Self::Service(trouble) => trouble.code(),
            Self::File { .. } | Self::Trace { .. } | Self::Output(_) => 5,
        }
    }
}

impl Failure {
    /// What programs go by: it does not change with the wording.
    pub fn slug(&self) -> &str {
        match self {
            Self::Refused(Refusal::UnknownId { .. }) => "unknown-algorithm",
            Self::Refused(Refusal::Usage(_)) | Self::Usage(_) => "usage",
            Self::Refused(Refusal::Impossible(_)) => "impossible",
            Self::Refused(Refusal::BeyondModel { .. }) => "beyond-model",
            Self::Service(trouble) => trouble.slug(),
            Self::File { .. } => "file",
            Self::Trace { .. } => "trace",
            Self::Output(_) => "output",
        }
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

/// The program: reads the command line, does what it says, and returns the exit code.
pub fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next().as_deref().and_then(OsStr::to_str) {
        Some(service::guard::GUARD) => {
            let arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
            return service::guard::guard(&arguments.collect::<Vec<_>>());
        }
        Some(service::release::RELEASE) => return service::release::release(),
        Some(service::guard::BECOME) => {
            return service::guard::become_command(&arguments.collect::<Vec<_>>());
        }
        Some(commands::names::ARGUMENT) => {
            let words = arguments.map(|word| word.to_string_lossy().into_owned());
            commands::names::print(&words.collect::<Vec<_>>(), &mut io::stdout());
            return ExitCode::SUCCESS;
        }
        Some(service::AWAKE) => {
            // Without it, everything is as right, and slower.
            let _ = conclave_server::run_idle_spinner();
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let program = program();
    let arguments = service::command_line::separate(&program, std::env::args_os().collect());
    let asks_json = arguments.iter().take_while(|word| *word != "--").any(|word| word == "--json");
    let matches = program.try_get_matches_from(arguments).unwrap_or_else(|error| {
        if asks_json && error.use_stderr() {
            let text = error.to_string();
            let text = text.trim_start_matches("error: ").lines().next().unwrap_or_default();
            complain(
                &Terminal::new(&TerminalArgs::default()),
                &Failure::Usage(text.to_owned()),
                true,
            );
            std::process::exit(error.exit_code());
        }
        error.exit()
    });
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let terminal = Terminal::new(&cli.terminal);
    let mut out = terminal.stdout();
    let given = matches.subcommand().map(|(name, given)| spec_args::given(name, given));
    let json = matches.subcommand().is_some_and(|(_, matches)| {
        matches.try_get_one::<bool>("json").ok().flatten().copied().unwrap_or_default()
    });
    let done = cli.command.perform(&terminal, &given.unwrap_or_default(), &mut out);
    match done.and_then(|done| out.flush().map(|()| done).map_err(Failure::Output)) {
        Ok(Done::Well) => ExitCode::SUCCESS,
        Ok(Done::Violated) => ExitCode::from(1),
        Ok(Done::Stopped) => ExitCode::from(6),
        Ok(Done::Interrupted) => ExitCode::from(130),
        Ok(Done::Code(code)) => ExitCode::from(code),
        // The reader of the output has seen enough.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(failure) => {
            complain(&terminal, &failure, json);
            ExitCode::from(failure.code())
        }
    }
}

/// Says why something was not done.
fn complain(terminal: &Terminal, failure: &Failure, json: bool) {
    // Standard error may be closed, too; then there is nobody to tell.
    let _ = if json {
        let (code, message) = (failure.slug(), failure.to_string());
        let error = json!({ "code": code, "message": message, "exit": failure.code() });
        writeln!(terminal.stderr(), "{}", json!({ "error": error }))
    } else {
        let (red, plain) = terminal::style(terminal::ERROR);
        writeln!(terminal.stderr(), "{red}error:{plain} {failure}")
    };
}

/// The command line. A variable that stands for a flag may say yes and no in any of the usual ways.
pub(crate) fn program() -> clap::Command {
    fn lenient(command: clap::Command) -> clap::Command {
        let flag = |arg: clap::Arg| match arg.get_action() {
            ArgAction::SetTrue => arg.value_parser(FalseyValueParser::new()),
            _ => arg,
        };
        command.mut_args(flag).mut_subcommands(lenient)
    }
    lenient(Cli::command())
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
            Self::Up(args) => commands::up::perform(args, terminal, out),
            Self::Lock(args) => commands::lock::perform(args, terminal, out),
            Self::Elect(args) => commands::elect::perform(args, terminal, out),
            Self::Observe(args) => commands::observe::perform(args, out),
            Self::Locks(args) => commands::locks::perform(args, terminal, out),
            Self::Sessions(args) => commands::sessions::perform(args, terminal, out),
            Self::Elections(args) => commands::elections::perform(args, terminal, out),
            Self::Why(args) => commands::why::perform(args, out),
            Self::Graph(args) => commands::graph::perform(args, out),
            Self::Release(args) => commands::operate::release(args, out),
            Self::Expel(args) => commands::operate::expel(args, out),
            Self::Depose(args) => commands::operate::depose(args, out),
            Self::Status(args) => commands::operate::status(args, out),
            Self::Backup(args) => commands::backup::backup(args, out),
            Self::Restore(args) => commands::backup::restore(args, out),
            Self::Token(args) => commands::token::perform(args, out),
            Self::Cert(args) => commands::cert::perform(args, out),
            Self::Completions(args) => commands::manual::completions(args, out),
            Self::Man(args) => commands::manual::man(args, out),
            Self::Bench(args) => commands::bench::perform(args, out),
            Self::List(args) => commands::list::perform(args, terminal, out),
            Self::Explain(args) => commands::explain::perform(args, terminal, out),
            Self::Run(args) => commands::run::perform(args, given, terminal, out),
            Self::Replay(args) => commands::replay::perform(args, terminal, out),
            Self::Check(args) => commands::check::perform(args, terminal, out),
            Self::Compare(args) => commands::compare::perform(args, terminal, out),
        }
    }
}
