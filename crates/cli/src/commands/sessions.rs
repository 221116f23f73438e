//! `conclave sessions`.

use std::io::Write;

use serde_json::json;

use crate::report::table;
use crate::service::{ServiceArgs, age_ms, text};
use crate::{Done, Failure, Terminal};

/// What to know, for `--help`.
pub const HELP: &str = "\
Examples:
  conclave sessions           who is there, what they hold, lead and wait for
  conclave sessions --json | jq '.[] | select(.name | startswith(\"backup\")) | .session'
  conclave expel 17 --reason 'its machine is on fire'";

/// Flags of `conclave sessions`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// How a node is reached.
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// Lists the sessions.
pub fn perform(args: &Args, terminal: &Terminal, out: &mut dyn Write) -> Result<Done, Failure> {
    let sessions = args.service.ask(async |client| client.sessions().await)?;
    if args.service.json {
        writeln!(out, "{:#}", json!(sessions))?;
        return Ok(Done::Well);
    }
    if sessions.is_empty() {
        writeln!(out, "no sessions")?;
        return Ok(Done::Well);
    }
    let mut table = table(terminal);
    table.set_header(["session", "who", "for", "lease", "holds", "leads", "waits for"]);
    for session in &sessions {
        let names = |names: Vec<&String>| {
            const SHOWN: usize = 5;
            let mut shown: Vec<String> = names.iter().take(SHOWN).map(|name| text(name)).collect();
            if names.len() > SHOWN {
                shown.push(format!("and {} more", names.len() - SHOWN));
            }
            shown.join(", ")
        };
        table.add_row([
            session.session.to_string(),
            format!("{}@{}", text(&session.name), text(&session.host)),
            age_ms(session.for_ms),
            format!("{} of {}", age_ms(session.left_ms), age_ms(session.ttl_ms)),
            names(session.holds.iter().map(|held| &held.lock).collect()),
            names(session.leads.iter().collect()),
            names(session.waits.iter().collect()),
        ]);
    }
    writeln!(out, "{}", table.trim_fmt())?;
    Ok(Done::Well)
}
