//! `conclave locks`.

use std::io::Write;

use conclave_client::view::{Holder, Lock, Mode};
use serde_json::json;

use crate::report::table;
use crate::service::{age_ms, mode, text, who};
use crate::{Done, Failure, Terminal};

/// What to know, for `--help`.
pub const HELP: &str = "\
Examples:
  conclave locks              all that are held or waited for
  conclave locks backup/      those whose names begin so
  conclave locks --json | jq -r '.[] | select(.waiting > 0) | .name'";

pub use crate::service::ListArgs as Args;

/// Lists the locks that are held or waited for.
pub fn perform(args: &Args, terminal: &Terminal, out: &mut dyn Write) -> Result<Done, Failure> {
    let locks = args.service.ask(async |client| client.locks(&args.prefix).await)?;
    if args.service.json {
        writeln!(out, "{:#}", json!(locks))?;
        return Ok(Done::Well);
    }
    if locks.is_empty() {
        let which =
            if args.prefix.is_empty() { String::new() } else { format!(" of {:?}", args.prefix) };
        writeln!(out, "no lock{which} is held; `conclave lock NAME -- COMMAND` holds one")?;
        return Ok(Done::Well);
    }
    let mut table = table(terminal);
    table.set_header(["lock", "held by", "how", "token", "for", "waiting"]);
    for lock in &locks {
        let waiting = lock.waiting.max(lock.waiters.len() as u64).to_string();
        let mut rows = lock.holders.iter().map(|holder| row(lock, holder)).collect::<Vec<_>>();
        if rows.is_empty() {
            rows.push(["none", "", "", ""].map(str::to_owned));
        }
        let unlisted = lock.holding.saturating_sub(lock.holders.len() as u64);
        if unlisted > 0 {
            rows.push([
                format!("and {unlisted} more"),
                String::new(),
                String::new(),
                String::new(),
            ]);
        }
        for (i, [holder, how, token, since]) in rows.into_iter().enumerate() {
            let (name, waiting) =
                if i == 0 { (text(&lock.name), waiting.as_str()) } else { Default::default() };
            table.add_row([name.as_str(), &holder, &how, &token, &since, waiting]);
        }
    }
    writeln!(out, "{}", table.trim_fmt())?;
    Ok(Done::Well)
}

fn row(lock: &Lock, holder: &Holder) -> [String; 4] {
    let of = if lock.kind() == Mode::Permits { lock.of } else { 0 };
    [
        who(holder.who.as_ref()),
        mode(holder.mode(), holder.permits, of),
        holder.token.to_string(),
        age_ms(holder.for_ms),
    ]
}
