//! `conclave observe`.

use std::io::Write;

use conclave_client::view::Leader;

use crate::service::{ServiceArgs, age_ms, tenure, text, wait, who};
use crate::terminal::{DIM, NAME, paint};
use crate::{Done, Failure};

/// What to know, for `--help`.
pub const HELP: &str = "\
Examples:
  conclave observe web              who leads, now and whenever that changes
  conclave observe web --once       who leads now
  conclave observe web --json       a line of JSON for each change";

/// Flags of `conclave observe`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The election
    #[arg(value_name = "NAME")]
    pub election: String,
    /// Only now
    #[arg(long, env = "CONCLAVE_ONCE")]
    pub once: bool,
    /// How a node is reached.
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// Says who leads an election.
pub fn perform(args: &Args, out: &mut dyn Write) -> Result<Done, Failure> {
    let Args { election, once, service } = args;
    wait(async {
        let client = service.connect().await?;
        let mut observation = client.observe(election);
        while let Some(change) = observation.next().await {
            let leader = change.map_err(|error| service.failure(error))?;
            print(&leader, service.json, out)?;
            out.flush()?;
            if *once {
                break;
            }
        }
        Ok(Done::Well)
    })
}

fn print(leader: &Leader, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    if json {
        writeln!(out, "{}", serde_json::json!(leader))?;
        return Ok(());
    }
    let election = paint(NAME, text(&leader.election));
    let Some(leads) = &leader.leader else {
        writeln!(out, "{election}: {}", paint(DIM, "no leader"))?;
        return Ok(());
    };
    let (name, term, since) = (who(leads.who.as_ref()), leads.term, age_ms(leads.for_ms));
    write!(out, "{election}: led by {name}, term {term}, for {since}")?;
    if let Some(tenure) = tenure(leads) {
        write!(out, ", {tenure}")?;
    }
    let value = String::from_utf8_lossy(&leads.value);
    if value.is_empty() {
        writeln!(out)?;
    } else {
        writeln!(out, ": {}", text(&value))?;
    }
    Ok(())
}
