//! `conclave completions` and `conclave man`.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use super::names;
use crate::{Cli, Done, Failure};

/// What to know about `conclave completions`, for `--help`.
pub const COMPLETIONS_HELP: &str = "\
Examples:
  source <(conclave completions bash)                          for now
  conclave completions bash > ~/.local/share/bash-completion/completions/conclave
  conclave completions zsh > ~/.zfunc/_conclave
  conclave completions fish > ~/.config/fish/completions/conclave.fish

In bash, zsh and fish the names of locks, elections and sessions are completed, too: the script asks the node that
CONCLAVE_ENDPOINTS or --endpoints says, for half a second at most, and keeps silent if none answers.";

/// Flags of `conclave completions`.
#[derive(Clone, Debug, clap::Args)]
pub struct Completions {
    /// For which shell
    pub shell: Shell,
}

/// Prints what a shell needs to complete command lines.
pub fn completions(args: &Completions, out: &mut dyn Write) -> Result<Done, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "conclave", &mut script);
    let script = String::from_utf8(script).map_err(io::Error::other)?;
    let script = match args.shell {
        Shell::Bash => names::for_bash(&script),
        Shell::Zsh => names::for_zsh(&script),
        Shell::Fish => names::for_fish(&script),
        _ => script,
    };
    out.write_all(script.as_bytes())?;
    Ok(Done::Well)
}

/// What to know about `conclave man`, for `--help`.
pub const MAN_HELP: &str = "\
Examples:
  conclave man | man -l -                            the page of conclave itself
  conclave man --out ~/.local/share/man/man1         a page for each command; then: man conclave-lock";

/// Flags of `conclave man`.
#[derive(Clone, Debug, clap::Args)]
pub struct Manual {
    /// Write a page for each command into this folder
    #[arg(long, value_name = "FOLDER", env = "CONCLAVE_MAN_OUT")]
    pub out: Option<PathBuf>,
}

/// Prints or writes the manual.
pub fn man(args: &Manual, out: &mut dyn Write) -> Result<Done, Failure> {
    let mut program = Cli::command();
    program.build();
    let Some(folder) = &args.out else {
        out.write_all(&page(program)?)?;
        return Ok(Done::Well);
    };
    let bad = |path: &Path, error| Failure::File { path: path.to_owned(), error };
    fs::create_dir_all(folder).map_err(|error| bad(folder, error))?;
    let mut commands = vec![program.clone()];
    for command in program.get_subcommands().filter(|it| it.get_name() != "help") {
        let name: &'static str = format!("conclave-{}", command.get_name()).leak();
        commands.push(command.clone().name(name));
    }
    for command in commands {
        let path = folder.join(format!("{}.1", command.get_name()));
        fs::write(&path, page(command)?).map_err(|error| bad(&path, error))?;
        writeln!(out, "{}", path.display())?;
    }
    Ok(Done::Well)
}

fn page(command: clap::Command) -> io::Result<Vec<u8>> {
    let mut variables = String::new();
    for arg in command.get_arguments() {
        if let (Some(flag), Some(variable)) = (arg.get_long(), arg.get_env()) {
            let (flag, variable) = (flag.replace('-', "\\-"), variable.to_string_lossy());
            variables += &format!(".TP\n\\fB{variable}\\fR\nInstead of \\fB\\-\\-{flag}\\fR\n");
        }
    }
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    let mut page = String::from_utf8(page).map_err(io::Error::other)?;
    // What comes last is set out in columns already.
    if let Some((before, after)) = page.split_once(".SH EXTRA\n") {
        let (notes, rest) = after.split_once(".SH ").unwrap_or((after, "VERSION\n"));
        page = format!("{before}.SH NOTES\n.nf\n{notes}.fi\n.SH {rest}");
    }
    if !variables.is_empty() {
        page = page.replacen(".SH VERSION", &format!(".SH ENVIRONMENT\n{variables}.SH VERSION"), 1);
    }
    Ok(page.into_bytes())
}
