//! `conclave lock`.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use conclave_client::view::{Holder, Reasons};
use conclave_client::{Acquire, Client, Error, Guard, Loss, Session, SessionOptions, Want};
use serde_json::json;
use tokio::sync::Notify;

use crate::service::{
    Attended, Child, Holding, ServiceArgs, Signals, Stay, Trouble, Voice, age_ms, attend, end_as,
    farewell, find, name, plural, span, spell, text, wait, who,
};
use crate::{Done, Failure, Terminal};

/// What to know, for `--help`.
pub const HELP: &str = "\
Examples:
  conclave lock backup -- ./backup.sh                 one at a time, everywhere
  conclave lock --try backup -- ./backup.sh           or not at all (exit code 10)
  conclave lock --timeout 30s backup -- ./backup.sh   wait for half a minute at most (11)
  conclave lock --shared site -- ./build              with others who share it
  conclave lock --permits 3 upload -- ./upload        at most three at a time
  conclave lock --permits 2/8 cpus -- make -j2        two of eight
  conclave lock disk tape -- ./copy                   both at once, without deadlock
  conclave lock backup                                hold it until Ctrl-C, and print the token

The command:
  It is run directly (for a line of shell: -- sh -c '…'), in a process group of its own, with standard
  input and output as they are. INT, TERM, HUP, QUIT, USR1, USR2 and WINCH are passed on to all of the
  group. Its environment has
    CONCLAVE_LOCK       the name; of several, one on each line
    CONCLAVE_TOKEN      the fencing token: greater than those of all grants before
    CONCLAVE_SESSION    the session that holds the lock
    CONCLAVE_ENDPOINTS  where the nodes are, so that a nested `conclave lock` finds them
  The lock is released when the command ends. What it leaves running in the background goes on without.

When the lock is lost:
  If no node answers, the command gets SIGTERM in time to end before others may have the lock, and
  SIGKILL after --grace; all of its group is dead a sixteenth of --ttl before the lease ends. If the
  lock is lost already, because an operator took it, say, it gets SIGKILL at once: somebody else may
  hold the lock by then. The same happens if `conclave lock` itself is killed (SIGTERM, --grace,
  SIGKILL) or stopped for too long (SIGKILL): a second process watches. What has left the group, or has been
  sent over the network, cannot be called back; for that, have what you write to refuse tokens
  less than the greatest it has seen.";

/// Flags of `conclave lock`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The lock, or several that are to be held at once
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// Share it with others who do
    #[arg(long, env = "CONCLAVE_SHARED", conflicts_with = "permits")]
    pub shared: bool,
    /// Take one of N permits, or K of them
    #[arg(long, value_name = "N|K/N", env = "CONCLAVE_PERMITS", value_parser = permits)]
    pub permits: Option<(u32, u32)>,
    /// Have it at once or not at all
    #[arg(long = "try", env = "CONCLAVE_TRY", conflicts_with = "timeout")]
    pub at_once: bool,
    /// Wait no longer than so
    #[arg(long, value_name = "TIME", env = "CONCLAVE_TIMEOUT", value_parser = span)]
    pub timeout: Option<Duration>,
    /// How the lock is kept.
    #[command(flatten)]
    pub keep: Keep,
    /// The command to run while it is held
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
    /// How a node is reached.
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// How what is held is kept.
#[derive(Clone, Debug, clap::Args)]
pub struct Keep {
    /// After how long without a sign of life others may have it
    #[arg(long, value_name = "TIME", env = "CONCLAVE_TTL", value_parser = span)]
    #[arg(default_value = "15s")]
    pub ttl: Duration,
    /// How long the command may take to end (by default a fifth of --ttl)
    #[arg(long, value_name = "TIME", env = "CONCLAVE_GRACE", value_parser = span)]
    pub grace: Option<Duration>,
    /// What others see (by default the command and the number of this process)
    #[arg(long, value_name = "TEXT", env = "CONCLAVE_NAME")]
    pub name: Option<String>,
    /// In a deadlock the lowest loses, if the node was told to go by that
    #[arg(long, value_name = "NUMBER", env = "CONCLAVE_PRIORITY", allow_negative_numbers = true)]
    #[arg(default_value_t = 0)]
    pub priority: i32,
    /// Say what happens
    #[arg(long, short, env = "CONCLAVE_VERBOSE")]
    pub verbose: bool,
}

impl Keep {
    /// Opens a session for a command.
    pub(crate) async fn open(
        &self,
        client: &Client,
        command: &[OsString],
    ) -> Result<Session, Error> {
        let name = name(self.name.as_ref(), command);
        client.open(SessionOptions::ttl(self.ttl).name(name).priority(self.priority)).await
    }
}

fn permits(text: &str) -> Result<(u32, u32), String> {
    let bad = || format!("{text:?} is no number of permits; write 3, or 2/8 for two of eight");
    let (take, of) = text.split_once('/').unwrap_or(("1", text));
    let (take, of) = (take.parse().map_err(|_| bad())?, of.parse().map_err(|_| bad())?);
    if take == 0 || take > of { Err(bad()) } else { Ok((take, of)) }
}

/// Holds a lock, and runs a command meanwhile.
pub fn perform(args: &Args, terminal: &Terminal, out: &mut dyn Write) -> Result<Done, Failure> {
    let stay = Stay::new(args.keep.ttl, args.keep.grace)?;
    if let Some(program) = args.command.first() {
        find(program)?;
    }
    wait(hold(args, stay, terminal, out))
}

async fn hold(
    args: &Args,
    stay: Stay,
    terminal: &Terminal,
    out: &mut dyn Write,
) -> Result<Done, Failure> {
    let Args { keep, command, service, .. } = args;
    let voice = Voice::new(terminal, args.subject(), service, keep.verbose);
    let mut signals = Signals::listen().map_err(Failure::Output)?;
    let client = tokio::select! {
        client = service.connect() => client?,
        signal = signals.stop() => return Ok(Done::signal(signal as i32)),
    };
    let session = keep.open(&client, command).await.map_err(|error| service.failure(error))?;
    let guard = tokio::select! {
        guard = args.acquire(&client, &session, &voice) => guard,
        signal = signals.stop() => {
            farewell(session, &voice).await;
            return Ok(Done::signal(signal as i32));
        }
    };
    let guard = match guard {
        Ok(guard) => guard,
        Err(failure) => {
            farewell(session, &voice).await;
            return Err(failure);
        }
    };
    voice.verbosely("held", &format!("held with token {}", guard.token()));
    if command.is_empty() {
        return without_command(args, session, &guard, &mut signals, &voice, out).await;
    }
    let mut environment = service.environment();
    environment.extend([
        ("CONCLAVE_LOCK", args.names.join("\n")),
        ("CONCLAVE_TOKEN", guard.token().to_string()),
        ("CONCLAVE_SESSION", session.id().to_string()),
    ]);
    let remaining = || session.remaining();
    let child = match Child::spawn(command, environment, stay, remaining).await {
        Ok(child) => child,
        Err(trouble) => {
            farewell(session, &voice).await;
            return Err(trouble.into());
        }
    };
    let holding = Holding {
        remaining: &remaining,
        lost: Box::pin(guard.lost()),
        asked_back: Box::pin(std::future::pending()),
    };
    let attended = attend(child, &mut signals, stay, holding).await;
    farewell(session, &voice).await;
    match attended {
        Attended::Ended { status, had_terminal } => Ok(end_as(status, had_terminal)),
        Attended::Lost(why) => Err(args.lost(&why, "; the command was ended")),
        Attended::GaveWay => Err(args.lost("it was asked back", "; the command was ended")),
        Attended::Unguarded => Err(Trouble::unguarded(&args.subject()).into()),
    }
}

/// Holds until somebody says to stop.
async fn without_command(
    args: &Args,
    session: Session,
    guard: &Guard,
    signals: &mut Signals,
    voice: &Voice,
    out: &mut dyn Write,
) -> Result<Done, Failure> {
    let (token, number) = (guard.token(), session.id());
    if args.service.json {
        let epochs = guard.epochs();
        let value = json!({
            "locks": args.names, "token": token, "epochs": epochs, "session": number,
        });
        writeln!(out, "{value}")?;
    } else {
        writeln!(out, "{token}")?;
        if std::io::stderr().is_terminal() || voice.is_verbose() {
            voice.say("holding", &format!("held by session {number} until Ctrl-C"));
        }
    }
    out.flush()?;
    tokio::select! {
        loss = guard.lost() => {
            farewell(session, voice).await;
            Err(args.lost(&loss.to_string(), ""))
        }
        _ = signals.stop() => {
            farewell(session, voice).await;
            Ok(Done::Well)
        }
    }
}

impl Args {
    fn subject(&self) -> String {
        self.names.iter().map(|name| text(name)).collect::<Vec<_>>().join(", ")
    }

    fn lost(&self, why: &str, then: &str) -> Failure {
        Trouble::Lost(format!("{} was lost: {why}{then}", self.subject())).into()
    }

    fn wants(&self) -> impl Iterator<Item = Want> {
        self.names.iter().map(|name| match self.permits {
            Some((take, of)) => Want::permits(name, take, of),
            None if self.shared => Want::shared(name),
            None => Want::exclusive(name),
        })
    }

    /// Asks for the locks, and says what they have to be waited for.
    async fn acquire(
        &self,
        client: &Client,
        session: &Session,
        voice: &Voice,
    ) -> Result<Guard, Failure> {
        let waits = Arc::new(Notify::new());
        let told = waits.clone();
        let mut acquire = Acquire::all(self.wants()).on_waiting(move || told.notify_one());
        if self.at_once {
            acquire = acquire.at_once();
        } else if let Some(timeout) = self.timeout {
            acquire = acquire.timeout(timeout);
        }
        let told = async {
            if !voice.is_verbose() && !std::io::stderr().is_terminal() {
                std::future::pending::<()>().await;
            }
            waits.notified().await;
            self.tell_why(client, session.id(), voice).await
        };
        let failed = |error| {
            let subject = self.subject();
            match error {
                Error::Conflict(_) => Trouble::Conflict(format!(
                    "{subject} cannot be had at once; `conclave why {subject}` tells who has it"
                ))
                .into(),
                Error::TimedOut => Trouble::TimedOut(format!(
                    "{subject} could not be had within {}; `conclave why {subject}` tells who has it",
                    spell(self.timeout.unwrap_or_default()),
                ))
                .into(),
                Error::SessionLost(Loss::Expired | Loss::Gone) => Trouble::Unreachable(format!(
                    "no node has answered for longer than --ttl {}, and the place in the queue for \
                     {subject} is lost; try again, or wait with a longer --ttl",
                    spell(self.keep.ttl),
                ))
                .into(),
                Error::SessionLost(why) => {
                    Trouble::Lost(format!("gave up waiting for {subject}: {why}")).into()
                }
                error => self.service.failure(error),
            }
        };
        tokio::select! {
            guard = session.acquire(acquire) => guard.map_err(failed),
            never = told => never,
        }
    }

    /// Says who is in the way, and again when somebody else is.
    async fn tell_why(
        &self,
        client: &Client,
        session: u64,
        voice: &Voice,
    ) -> Result<Guard, Failure> {
        let mut said = String::new();
        loop {
            for name in &self.names {
                // If it cannot be seen, it is waited for all the same.
                let Ok(reasons) = client.why(name).await else { continue };
                let Some(now) = in_the_way(&reasons, session) else { continue };
                let line = format!("waiting: {now}");
                let key = now.split(", for ").next().unwrap_or_default().to_owned();
                if key != said {
                    voice.say("waiting", &line);
                    said = key;
                }
            }
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
    }
}

/// Who is before a session.
fn in_the_way(reasons: &Reasons, session: u64) -> Option<String> {
    let lock = reasons.lock.as_ref()?;
    let holds = |holder: &&Holder| holder.who.as_ref().is_none_or(|who| who.session != session);
    let holder = lock.holders.iter().find(holds);
    let ours = |waiter: &conclave_client::view::Waiter| {
        waiter.who.as_ref().is_some_and(|who| who.session == session)
    };
    let before = lock.waiters.iter().position(ours)?;
    let queue = match before {
        0 => String::new(),
        some => format!(", {} before this one", plural(some as u64, "request")),
    };
    Some(match (holder, lock.holding.max(lock.holders.len() as u64)) {
        (Some(holder), 0 | 1) => {
            format!("held by {}, for {}{queue}", who(holder.who.as_ref()), age_ms(holder.for_ms))
        }
        (Some(holder), more) => format!(
            "held by {} and {} more, for {}{queue}",
            who(holder.who.as_ref()),
            more - 1,
            age_ms(holder.for_ms),
        ),
        (None, _) => format!("{} before this one", plural(before as u64, "request")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_are_some_of_a_number() {
        assert_eq!(permits("3"), Ok((1, 3)));
        assert_eq!(permits("2/8"), Ok((2, 8)));
        for bad in ["", "0", "0/3", "4/3", "x", "1/2/3", "-1"] {
            assert!(permits(bad).expect_err(bad).contains("two of eight"));
        }
    }
}
