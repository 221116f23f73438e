//! `conclave token`.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use conclave_server::{TokenRights, new_token};
use serde_json::json;

use crate::{Done, Failure};

/// What to know, for `--help`.
pub const HELP: &str = "\
Examples:
  conclave token ci --lock ci/                        may hold locks whose names begin with ci/
  conclave token eye --observe ''                     may see everything
  conclave token root --lock '' --admin ''            may do everything
  conclave token ci --lock ci/ --add tokens.toml > ci.secret
                                                      one file for the node, one for the client
  conclave up --tokens tokens.toml
  conclave lock ci/build --auth-token-file ci.secret -- make

The secret is printed once and kept nowhere: the file has only its digest, and may be read by anybody. A
node reads the file when it starts, and again when it gets SIGHUP.";

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
    /// Print JSON
    #[arg(long, env = "CONCLAVE_JSON", help_heading = "Output")]
    pub json: bool,
}

/// Makes a token.
pub fn perform(args: &Args, out: &mut dyn Write) -> Result<Done, Failure> {
    let Args { name, lock, observe, admin, sessions, add, json } = args;
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
    if let Some(path) = add {
        let bad = |error| Failure::File { path: path.clone(), error };
        let mut file = File::options().append(true).create(true).open(path).map_err(bad)?;
        writeln!(file, "{entry}").and_then(|()| file.sync_all()).map_err(bad)?;
    }
    if *json {
        writeln!(out, "{}", json!({ "name": name, "secret": secret, "entry": entry }))?;
    } else if add.is_some() {
        writeln!(out, "{secret}")?;
    } else {
        writeln!(out, "# the secret, for {name}, which is shown only now:\n# {secret}")?;
        writeln!(out, "# for the file that the node reads (conclave up --tokens FILE):\n{entry}")?;
    }
    Ok(Done::Well)
}
