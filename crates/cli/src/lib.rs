//! The command line of Conclave: a node, locks and elections for commands; and the catalogue, runs, their
//! space-time diagrams, costs and verdicts.
//!
//! A command of the lock service reaches a node, and runs other commands, by way of [`service`]. The commands of the
//! laboratory are those of [`conclave_lab_cli`].

pub mod commands;
pub mod service;

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use conclave_lab_cli::{report, spec_args, terminal};
use thiserror::Error;

pub use conclave_lab_cli::{Color, Done, Terminal, TerminalArgs};

/// The exit codes of the lock service, for `--help`.
const SERVICE_CODES: &str = "\
Exit codes:
  0    done; of lock and elect with a command: what that ended with, 128+n if by signal n
  2    the command line cannot be understood
  5    a file cannot be read or written
  10   another session holds or leads it (--try)
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
    let lines = [conclave_lab_cli::CODES, SERVICE_CODES, UP_CODES].map(|codes| {
        let lines = codes.lines().skip(1);
        lines.map(|line| line.trim().split_once(' ').unwrap_or((line, "")))
    });
    let [lab, service, up] = lines.map(|lines| {
        let lines = lines.map(|(code, meaning)| format!("  {code:<4} {}", meaning.trim()));
        lines.collect::<Vec<_>>().join("\n")
    });
    format!(
        "Exit codes of the laboratory (list, explain, run, replay, check, lattice, cut, compare):\n{lab}\n\n\
         Exit codes of the lock service:\n{service}\n\nExit codes of a node (up):\n{up}"
    )
}

fn service_help(examples: &str) -> String {
    format!("{examples}\n\n{SERVICE_CODES}")
}

fn up_help() -> String {
    format!("{}\n\n{UP_CODES}", commands::up::HELP)
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
    /// Take a lock from its holders
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
    /// Make an access token for a client, with its rights
    #[command(after_help = commands::token::HELP)]
    Token(commands::token::Args),
    /// Make certificates: of an authority, and for nodes and clients
    #[command(after_help = commands::cert::HELP)]
    Cert(commands::cert::Args),
    /// Measure the service beside this machine's disk and network, and beside etcd
    #[command(after_help = commands::bench::HELP)]
    Bench(commands::bench::Args),
    /// A command of the laboratory.
    #[command(flatten)]
    Lab(conclave_lab_cli::Command),
    /// Print what a shell needs to complete command lines
    #[command(after_help = commands::manual::COMPLETIONS_HELP)]
    Completions(commands::manual::Completions),
    /// Print the manual, or write a page for each command
    #[command(after_help = commands::manual::MAN_HELP)]
    Man(commands::manual::Manual),
}

/// Why a command could not do what was asked: one line, with what to do about it.
#[derive(Debug, Error)]
pub enum Failure {
    /// The laboratory.
    #[error(transparent)]
    Lab(#[from] conclave_lab_cli::Failure),
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
    /// The lock service, or a command under a lock.
    #[error(transparent)]
    Service(#[from] service::ServiceError),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

impl Failure {
    /// The exit code of the program.
    pub fn code(&self) -> u8 {
        match self {
            Self::Lab(failure) => failure.code(),
            Self::Service(error) => error.code(),
            Self::Usage(_) => 2,
            Self::File { .. } | Self::Output(_) => 5,
        }
    }

    /// What programs go by: it does not change with the wording.
    pub fn slug(&self) -> &str {
        match self {
            Self::Lab(failure) => failure.slug(),
            Self::Service(error) => error.slug(),
            Self::Usage(_) => "usage",
            Self::File { .. } => "file",
            Self::Output(_) => "output",
        }
    }

    /// Whether the reader of the output has seen enough.
    fn is_closed_output(&self) -> bool {
        match self {
            Self::Lab(failure) => failure.is_closed_output(),
            Self::Output(error) => error.kind() == io::ErrorKind::BrokenPipe,
            _ => false,
        }
    }
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
        Some(service::IDLE_SPINNER) => {
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
    let json = conclave_lab_cli::asks_json(&matches);
    let done = cli.command.perform(&terminal, &given.unwrap_or_default(), &mut out);
    match done.and_then(|done| out.flush().map(|()| done).map_err(Failure::Output)) {
        Ok(done) => ExitCode::from(done.code()),
        Err(failure) if failure.is_closed_output() => ExitCode::SUCCESS,
        Err(failure) => {
            complain(&terminal, &failure, json);
            ExitCode::from(failure.code())
        }
    }
}

/// Says why something was not done.
fn complain(terminal: &Terminal, failure: &Failure, json: bool) {
    let message = failure.to_string();
    conclave_lab_cli::complain(terminal, failure.slug(), &message, failure.code(), json);
}

/// The command line. A variable that stands for a flag may say yes and no in any of the usual ways.
pub(crate) fn program() -> clap::Command {
    conclave_lab_cli::lenient(Cli::command())
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
            Self::Lab(command) => Ok(command.perform(terminal, given, out)?),
        }
    }
}
