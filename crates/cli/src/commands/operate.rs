//! What operators do: `conclave release`, `conclave expel`, `conclave depose`, `conclave status`.

use std::io::Write;
use std::time::Duration;

use conclave_client::{Deposition, Origin};
use serde_json::json;

use crate::service::{ServiceArgs, age_ms, plural, span, text};
use crate::terminal::{BOLD, ERROR, GOOD, WARN, paint};
use crate::{Done, Failure};

/// What to know about `conclave release`, for `--help`.
pub const RELEASE_HELP: &str = "\
Examples:
  conclave release backup --force --reason 'the holder hangs, see ticket 42'
  conclave release upload --force --token 1234 --reason 'this one of three'
  conclave why backup           shows who holds it, and afterwards the reason

This takes the lock by force: the next holder has it at once. The holder is told at once, too, and a command
under `conclave lock` is killed; but one that is stopped or cut off does not hear of it and goes on beside
the next holder until its lease ends (at the latest after its time-to-live; `conclave sessions` shows what
is left). Only fencing tokens stop that one. Without haste, end the command itself, or wait for its lease.";

/// Flags of `conclave release`.
#[derive(Clone, Debug, clap::Args)]
pub struct Release {
    /// The lock
    pub name: String,
    /// Yes, take it from its holders
    #[arg(long, env = "CONCLAVE_FORCE")]
    pub force: bool,
    /// Only from the holder with this token
    #[arg(long, value_name = "NUMBER", env = "CONCLAVE_RELEASE_TOKEN")]
    pub token: Option<u64>,
    /// Why, for the record
    #[arg(long, value_name = "TEXT", env = "CONCLAVE_REASON")]
    pub reason: String,
    /// How a node is reached.
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// Takes a lock from its holders.
pub fn release(args: &Release, out: &mut dyn Write) -> Result<Done, Failure> {
    let Release { name, force, token, reason, service } = args;
    if !force {
        return Err(Failure::Usage(format!(
            "only its holder releases {name:?} as a matter of course; add --force to take it from \
             its holders"
        )));
    }
    service.ask(async |client| client.force_release(name, *token, reason).await)?;
    done(service, &format!("{} was taken from its holders", text(name)), out)
}

/// What to know about `conclave expel`, for `--help`.
pub const EXPEL_HELP: &str = "\
Examples:
  conclave sessions                                 which there are
  conclave expel 17 --reason 'its machine is lost'  end one, and all it holds, leads and waits for
  conclave expel --opened-by ci --reason 'a loop'   end all that were opened with the token of this name
  conclave expel --host db1 --reason 'it is lost'   end all whose clients say that they run there
  conclave expel --address 10.0.0.7 --reason '…'    end all that were opened from there

What they held and led goes to others at once. Clients are told, and commands under their locks are killed; but
a client that is stopped or cut off goes on beside the next holder until its lease ends, as with
`conclave release --force`.";

/// Flags of `conclave expel`.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "whose", required = true, multiple = false, args = ["session", "opened_by", "host", "address"])]
pub struct Expel {
    /// The session's number
    pub session: Option<u64>,
    /// All sessions that were opened with the token of this name
    #[arg(long, value_name = "TOKEN", env = "CONCLAVE_EXPEL_OPENED_BY")]
    pub opened_by: Option<String>,
    /// All sessions whose clients say that they run on this host
    #[arg(long, value_name = "HOST", env = "CONCLAVE_EXPEL_HOST")]
    pub host: Option<String>,
    /// All sessions that were opened from this network address
    #[arg(long, value_name = "ADDRESS", env = "CONCLAVE_EXPEL_ADDRESS")]
    pub address: Option<String>,
    /// Why, for the record
    #[arg(long, value_name = "TEXT", env = "CONCLAVE_REASON")]
    pub reason: String,
    /// How a node is reached.
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// Ends a session, or all of one origin.
pub fn expel(args: &Expel, out: &mut dyn Write) -> Result<Done, Failure> {
    let Expel { session, opened_by, host, address, reason, service } = args;
    if let Some(session) = session {
        service.ask(async |client| client.expel(*session, reason).await)?;
        return done(service, &format!("session {session} was ended"), out);
    }
    let origin = (opened_by.clone().map(Origin::Token))
        .or_else(|| host.clone().map(Origin::Host))
        .or_else(|| address.clone().map(Origin::Address));
    let Some(origin) = origin else {
        return Err(Failure::Usage("say which session, or whose sessions".to_owned()));
    };
    let ended = service.ask(async |client| client.expel_all(origin.clone(), reason).await)?;
    let were = if ended == 1 { "was" } else { "were" };
    done(service, &format!("{} {were} ended", plural(ended, "session")), out)
}

/// What to know about `conclave depose`, for `--help`.
pub const DEPOSE_HELP: &str = "\
Examples:
  conclave observe web --once                       who leads
  conclave depose web --reason 'it serves errors'   the next candidate leads
  conclave depose web --for 1h --reason 'upgrade'   and this one may not stand again for an hour
  conclave why web                                  whether the deposed leader has confirmed

The leader is told at once, and a command under `conclave elect` is killed. The next candidate leads as soon as
that is confirmed, or when the lease of the deposed leader has ended: one that is stopped or cut off does
not hear of it and believes until then that it leads. With --at-once the next candidate does not wait for
either, and for that long there may be two.

The deposed session may not stand again in this election for a minute, or for as long as --for says; a
`conclave elect` waits so long and then stands again, or ends with exit code 12 if it was started with
--once. A process that is started anew is another candidate.";

/// Flags of `conclave depose`.
#[derive(Clone, Debug, clap::Args)]
pub struct Depose {
    /// The election
    pub election: String,
    /// Why, for the record
    #[arg(long, value_name = "TEXT", env = "CONCLAVE_REASON")]
    pub reason: String,
    /// For how long the deposed one may not stand again
    #[arg(long = "for", value_name = "TIME", env = "CONCLAVE_FOR", value_parser = span)]
    #[arg(default_value = "1m")]
    pub barred: Duration,
    /// Let the next one lead even if the deposed leader may not have heard of it
    #[arg(long, env = "CONCLAVE_AT_ONCE")]
    pub at_once: bool,
    /// How a node is reached.
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// Ends a leadership.
pub fn depose(args: &Depose, out: &mut dyn Write) -> Result<Done, Failure> {
    let Depose { election, reason, barred, at_once, service } = args;
    let how = Deposition { barred: Some(*barred), at_once: *at_once };
    service.ask(async |client| client.depose_with(election, reason, how).await)?;
    let election = text(election);
    let when = if *at_once {
        "the next candidate leads".to_owned()
    } else {
        format!(
            "the next candidate leads when it has confirmed or its lease has ended; `conclave why \
             {election}` tells"
        )
    };
    done(service, &format!("the leader of {election} was deposed; {when}"), out)
}

fn done(service: &ServiceArgs, what: &str, out: &mut dyn Write) -> Result<Done, Failure> {
    if service.json {
        writeln!(out, "{}", json!({ "done": true, "message": what }))?;
    } else {
        writeln!(out, "{what}")?;
    }
    Ok(Done::Well)
}

/// What to know about `conclave status`, for `--help`.
pub const STATUS_HELP: &str = "\
Examples:
  conclave status                                 how the node does, and how much there is
  conclave status --endpoints 10.0.0.7:7411
  conclave status --json | jq -e '.trouble == \"\"'   for a script that has to know";

/// Flags of `conclave status`.
#[derive(Clone, Debug, clap::Args)]
pub struct Status {
    /// How a node is reached.
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// Says how a node does.
pub fn status(args: &Status, out: &mut dyn Write) -> Result<Done, Failure> {
    let status = args.service.ask(async |client| client.status().await)?;
    if args.service.json {
        writeln!(out, "{:#}", json!(status))?;
        return Ok(Done::Well);
    }
    let (version, up) = (text(&status.version), age_ms(status.up_ms));
    writeln!(out, "{} {version}, up for {up}", paint(BOLD, "conclave"))?;
    let counts = [
        plural(status.sessions, "session"),
        plural(status.locks, "lock"),
        plural(status.holds, "hold"),
        plural(status.waits, "wait"),
        plural(status.elections, "election"),
    ];
    writeln!(out, "{}", counts.join(", "))?;
    writeln!(out, "deadlocks: {}", text(&status.deadlocks))?;
    if status.trouble.is_empty() {
        for warning in &status.warnings {
            writeln!(out, "{} {}", paint(WARN, "nearly full:"), text(warning))?;
        }
        if status.warnings.is_empty() {
            writeln!(out, "{}", paint(GOOD, "all is well"))?;
        }
    } else {
        writeln!(out, "{} {}", paint(ERROR, "nothing is granted:"), text(&status.trouble))?;
    }
    Ok(Done::Well)
}
