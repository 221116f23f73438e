//! `conclave token`.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use conclave_server::{TokenRights, new_token};
use rustix::fs::{FileType, Mode, fchmod, fstat};
use serde_json::json;

use super::cert::create;
use crate::{Done, Failure};

/// What to know, for `--help`.
pub const HELP: &str = "\
Examples:
  conclave token ci --lock ci/                        may hold locks whose names begin with ci/
  conclave token eye --observe ''                     may see everything
  conclave token root --lock '' --admin ''            may do everything
  conclave token ci --lock ci/ --add tokens.toml --out ci.secret
                                                      one file for the node, one for the client
  conclave up --tokens tokens.toml
  conclave lock ci/build --auth-token-file ci.secret -- make

The secret is written to --out, which its owner alone can read, or printed once, and kept nowhere else: the node's
file has only its digest, and may be read by all, but written by its owner only. If the output is a file, as with
`> ci.secret`, that is made readable by its owner alone before the secret is written. A node reads its file when it
starts, and again when it gets SIGHUP.

Exit codes:
  0  done
  2  the command line cannot be understood
  5  a file is there already, or cannot be written";

/// Flags of `conclave token`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Who is going to have it, for people
    pub name: String,
    /// May hold locks and stand in elections whose names begin so (several times, if need be)
    #[arg(long, value_name = "PREFIX", env = "CONCLAVE_TOKEN_LOCK")]
    pub lock: Vec<String>,
    /// May see those whose names begin so, besides what it may lock
    #[arg(long, value_name = "PREFIX", env = "CONCLAVE_TOKEN_OBSERVE")]
    pub observe: Vec<String>,
    /// May take those from others whose names begin so
    #[arg(long, value_name = "PREFIX", env = "CONCLAVE_TOKEN_ADMIN")]
    pub admin: Vec<String>,
    /// May have at most so many sessions
    #[arg(long, value_name = "N", env = "CONCLAVE_TOKEN_SESSIONS")]
    pub sessions: Option<u32>,
    /// Add it to this file, and print only the secret
    #[arg(long, value_name = "FILE", env = "CONCLAVE_TOKEN_ADD")]
    pub add: Option<PathBuf>,
    /// Write the secret to this new file, readable by its owner only, instead of printing it
    #[arg(long, value_name = "FILE", env = "CONCLAVE_TOKEN_OUT")]
    pub out: Option<PathBuf>,
    /// Print JSON
    #[arg(long, env = "CONCLAVE_JSON", help_heading = "Output")]
    pub json: bool,
}

/// Makes a token.
pub fn perform(args: &Args, out: &mut dyn Write) -> Result<Done, Failure> {
    let Args { name, lock, observe, admin, sessions, add, out: kept, json } = args;
    if lock.is_empty() && observe.is_empty() && admin.is_empty() {
        return Err(Failure::Usage(
            "a token needs a right; say what it may do with --lock, --observe or --admin, and '' for \
             everything"
                .to_owned(),
        ));
    }
    let (lock, observe, admin) = (lock.clone(), observe.clone(), admin.clone());
    let (secret, entry) =
        new_token(name, TokenRights { lock, observe, admin, sessions: *sessions });
    // The secret first: a token that is known and that no client has could be mistaken for one that is in use.
    match kept {
        Some(path) => {
            let bad = |error| Failure::File { path: path.clone(), error };
            create(path, 0o600, &format!("{secret}\n")).map_err(bad)?;
        }
        None => keep_private()?,
    }
    if let Some(path) = add {
        let bad = |error| Failure::File { path: path.clone(), error };
        let mut file = File::options().append(true).create(true).open(path).map_err(bad)?;
        writeln!(file, "{entry}").and_then(|()| file.sync_all()).map_err(bad)?;
    }
    if *json {
        let shown = kept.is_none().then_some(&secret);
        let file = kept.as_ref().map(|path| path.to_string_lossy());
        let made = json!({ "name": name, "secret": shown, "file": file, "entry": entry });
        writeln!(out, "{made}")?;
    } else if let Some(path) = kept {
        if add.is_none() {
            writeln!(
                out,
                "# for the file that the node reads (conclave up --tokens FILE):\n{entry}"
            )?;
        }
        writeln!(out, "# the secret, for {name}, is in {}", path.display())?;
    } else if add.is_some() {
        writeln!(out, "{secret}")?;
    } else {
        writeln!(out, "# the secret, for {name}, which is shown only now:\n# {secret}")?;
        writeln!(out, "# for the file that the node reads (conclave up --tokens FILE):\n{entry}")?;
    }
    Ok(Done::Well)
}

/// If what is printed goes to a file, only its owner is to read it: shells make files that all can read.
fn keep_private() -> Result<(), Failure> {
    let failed = |error: rustix::io::Errno| {
        Failure::Output(io::Error::new(
            io::Error::from(error).kind(),
            format!("a secret would go to a file that others can read ({error}); use --out FILE"),
        ))
    };
    let stdout = io::stdout();
    let about = fstat(&stdout).map_err(failed)?;
    let is_file = FileType::from_raw_mode(about.st_mode) == FileType::RegularFile;
    if is_file && about.st_mode & 0o077 != 0 {
        fchmod(&stdout, Mode::RUSR | Mode::WUSR).map_err(failed)?;
    }
    Ok(())
}
