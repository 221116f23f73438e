//! `conclave why`.

use std::io::Write;

use conclave_client::view::{Election, Lock, Mode, Reasons, Waiter};
use serde_json::json;

use crate::service::{ServiceArgs, age_ms, chain, label, mode, plural, tenure, text, who};
use crate::terminal::{BOLD, ERROR, NAME, WARN, paint};
use crate::{Done, Failure};

/// What to know, for `--help`.
pub const HELP: &str = "\
Examples:
  conclave why backup            who holds it and since when, who waits and for whom, any deadlock
  conclave why web               of an election: who leads, whether it was asked to yield, who stands
  conclave why backup --json
  conclave release backup --force --reason 'the holder hangs'   and what to do if it must be";

/// Flags of `conclave why`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The lock or the election
    pub name: String,
    /// How a node is reached.
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// Says why a lock cannot be had, or an election not be led.
pub fn perform(args: &Args, out: &mut dyn Write) -> Result<Done, Failure> {
    let reasons = args.service.ask(async |client| client.why(&args.name).await)?;
    if args.service.json {
        writeln!(out, "{:#}", json!(reasons))?;
    } else {
        print(&args.name, &reasons, out)?;
    }
    Ok(Done::Well)
}

fn print(name: &str, reasons: &Reasons, out: &mut dyn Write) -> Result<(), Failure> {
    let Reasons { lock, waits, cycle, forced, hidden, election } = reasons;
    let plain = name;
    let name = paint(NAME, text(name));
    match (lock, election) {
        (None, None) => {
            writeln!(out, "{name} is free: no lock of this name is held, and no election led")?;
        }
        (lock, election) => {
            if let Some(lock) = lock {
                print_lock(&name, lock, out)?;
            }
            if let Some(election) = election {
                print_election(&name, election, out)?;
            }
        }
    }
    // The first of those waits is that for the lock itself, and has been told.
    let further = waits.iter().filter(|edge| edge.lock != *plain);
    let further: Vec<String> = further.map(label).collect();
    if !further.is_empty() {
        writeln!(out, "{}", paint(BOLD, "and these in turn"))?;
        for line in further {
            writeln!(out, "  {line}")?;
        }
    }
    if *hidden > 0 {
        let waits = plural(u64::from(*hidden), "wait");
        writeln!(out, "and {waits} for locks that this token may not see")?;
    }
    if !cycle.is_empty() {
        writeln!(out, "{}", paint(ERROR, "deadlock: none of these can go on"))?;
        for line in chain(cycle) {
            writeln!(out, "  {line}")?;
        }
        writeln!(out, "  end one of them: conclave expel SESSION --reason TEXT")?;
    }
    if !forced.is_empty() {
        writeln!(out, "{}", paint(WARN, "taken by operators"))?;
        for one in forced {
            let (ago, session, reason) = (age_ms(one.ago_ms), one.session, text(&one.reason));
            writeln!(out, "  {ago} ago from session {session}, token {}: {reason}", one.token)?;
        }
    }
    Ok(())
}

fn print_lock(name: &str, lock: &Lock, out: &mut dyn Write) -> Result<(), Failure> {
    let of = if lock.kind() == Mode::Permits { lock.of } else { 0 };
    let holding = lock.holding.max(lock.holders.len() as u64);
    let waiting = lock.waiting.max(lock.waiters.len() as u64);
    match (holding, waiting) {
        (0, _) => writeln!(out, "{name} is free")?,
        (_, 0) => writeln!(out, "{name} is held, and no session waits for it")?,
        _ => writeln!(out, "{name} is held, and {} for it", wait_for(waiting))?,
    }
    for holder in &lock.holders {
        let how = mode(holder.mode(), holder.permits, of);
        let (name, token, since) = (who(holder.who.as_ref()), holder.token, age_ms(holder.for_ms));
        let depth =
            if holder.depth > 1 { format!(", {} times", holder.depth) } else { String::new() };
        writeln!(out, "  held by {name} for {since}, {how}{depth}, token {token}")?;
    }
    if holding > lock.holders.len() as u64 {
        writeln!(out, "  and {} more", holding - lock.holders.len() as u64)?;
    }
    for (place, waiter) in (1_u64..).zip(&lock.waiters) {
        writeln!(out, "  {place}. {}", waits(waiter, lock, of))?;
    }
    if waiting > lock.waiters.len() as u64 {
        writeln!(out, "  and {} more", plural(waiting - lock.waiters.len() as u64, "request"))?;
    }
    Ok(())
}

fn print_election(name: &str, election: &Election, out: &mut dyn Write) -> Result<(), Failure> {
    let Some(leads) = &election.leader else {
        writeln!(out, "the election {name} has no leader")?;
        return Ok(());
    };
    let (leader, since) = (who(leads.who.as_ref()), age_ms(leads.for_ms));
    writeln!(out, "the election {name} is led by {leader} for {since}, term {}", leads.term)?;
    if let Some(tenure) = tenure(leads) {
        writeln!(
            out,
            "  {} {tenure}",
            leads.who.as_ref().map_or_else(|| "?".to_owned(), |it| text(&it.name))
        )?;
    }
    for (place, candidate) in (1_u64..).zip(&election.candidates) {
        let (name, since) = (who(candidate.who.as_ref()), age_ms(candidate.for_ms));
        let left = match candidate.left_ms {
            None => String::new(),
            Some(left) => format!(", and gives up in {}", age_ms(left)),
        };
        writeln!(out, "  {place}. {name} stands for {since}, rank {}{left}", candidate.rank)?;
    }
    Ok(())
}

fn wait_for(count: u64) -> String {
    if count == 1 { "1 request waits".to_owned() } else { format!("{count} requests wait") }
}

fn waits(waiter: &Waiter, lock: &Lock, of: u32) -> String {
    let name = who(waiter.who.as_ref());
    let how = if waiter.upgrade {
        "to hold alone what it shares".to_owned()
    } else {
        mode(waiter.mode(), waiter.permits, of)
    };
    let others: Vec<String> =
        waiter.locks.iter().filter(|other| **other != lock.name).map(|other| text(other)).collect();
    let mut others = others;
    if waiter.hidden > 0 {
        let locks = plural(u64::from(waiter.hidden), "lock");
        others.push(format!("{locks} that this token may not see"));
    }
    let together = match others.as_slice() {
        [] => String::new(),
        some => format!(", together with {}", some.join(", ")),
    };
    let left = match waiter.left_ms {
        None => String::new(),
        Some(left) => format!(", and gives up in {}", age_ms(left)),
    };
    format!("{name} waits for {}, {how}{together}{left}", age_ms(waiter.for_ms))
}
