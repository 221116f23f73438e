//! `conclave elections`.

use std::io::Write;

use serde_json::json;

use crate::report::table;
use crate::service::{age_ms, tenure, text, who};
use crate::{Done, Failure, Terminal};

/// What to know, for `--help`.
pub const HELP: &str = "\
Examples:
  conclave elections          who leads, and who stands ready
  conclave elections web      those whose names begin so
  conclave observe web        one of them, as it changes";

pub use crate::service::ListArgs as Args;

/// Lists the elections.
pub fn perform(args: &Args, terminal: &Terminal, out: &mut dyn Write) -> Result<Done, Failure> {
    let elections = args.service.ask(async |client| client.elections(&args.prefix).await)?;
    if args.service.json {
        writeln!(out, "{:#}", json!(elections))?;
        return Ok(Done::Well);
    }
    if elections.is_empty() {
        writeln!(out, "no elections; `conclave elect NAME -- COMMAND` stands in one")?;
        return Ok(Done::Well);
    }
    let mut table = table(terminal);
    table.set_header(["election", "leader", "term", "for", "value", "candidates, the best first"]);
    for election in &elections {
        let [leader, term, since, value] = match &election.leader {
            None => ["none", "", "", ""].map(str::to_owned),
            Some(leads) => [
                match tenure(leads) {
                    None => who(leads.who.as_ref()),
                    Some(tenure) => format!("{}\n{tenure}", who(leads.who.as_ref())),
                },
                leads.term.to_string(),
                age_ms(leads.for_ms),
                match leads.value.as_slice() {
                    [] => String::new(),
                    value => text(&String::from_utf8_lossy(value)),
                },
            ],
        };
        let candidates = election.candidates.iter();
        let candidates =
            candidates.map(|one| format!("{}, rank {}", who(one.who.as_ref()), one.rank));
        let candidates = candidates.collect::<Vec<_>>().join("\n");
        table.add_row([text(&election.name), leader, term, since, value, candidates]);
    }
    writeln!(out, "{}", table.trim_fmt())?;
    Ok(Done::Well)
}
