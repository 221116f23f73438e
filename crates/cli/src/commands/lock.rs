//! `conclave lock`.

mod nested;

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use conclave_client::view::{Holder, Reasons};
use conclave_client::{Acquire, Client, Error, Guard, Loss, Session, SessionOptions, Want};
use serde_json::json;
use tokio::sync::Notify;

use crate::service::{
    LeaseBudget, Log, Nested, Patience, Run, ServiceArgs, ServiceError, Signals, Supervised,
    abandon, age_ms, close_session, end_as, find, give_up, name, plural, silence, span, spell,
    text, wait, wait_for_nested, who,
};
use crate::{Done, Failure, Terminal};

/// What to know, for `--help`.
pub const HELP: &str = "\
Examples:
  conclave lock backup ./backup.sh                    one at a time, everywhere
  conclave lock --try backup ./backup.sh              or not at all (exit code 10)
  conclave lock --timeout 30s backup ./backup.sh      wait for half a minute at most (11)
  conclave lock --shared site ./build                 with others who share it
  conclave lock --permits 3 upload ./upload           at most three at a time
  conclave lock --permits 2/8 cpus make -j2           two of eight
  conclave lock disk --and tape ./copy                both at once, without deadlock
  conclave lock disk tape -- ./copy                   the same
  conclave lock backup                                hold it until Ctrl-C, and print the token

The first word that is no flag is the lock, the next one begins the command. With a --, all words
before it are locks.

The command:
  It is run directly (for a line of shell: -- sh -c '…'), in a process group of its own, with standard
  input and output as they are. INT, TERM, HUP, QUIT, USR1, USR2 and WINCH are passed on to all of the
  group. Its environment has
    CONCLAVE_LOCK       the name; of several, one on each line
    CONCLAVE_TOKEN      the fencing token: greater than those of all grants before
    CONCLAVE_SESSION    the session that holds the lock
    CONCLAVE_ENDPOINTS  where the nodes are, so that a nested `conclave lock` finds them
  The lock is released when the command ends. What it leaves running in the background goes on without.

Nested commands:
  `conclave lock` and `conclave elect` within the command use its session: what they wait for and what it holds
  belong to one thread of control, and a deadlock by way of both is found (exit code 15). So --ttl,
  --name and --priority of the outer one hold for them, too. To lock what the outer one holds is refused, but
  for --reentrant. Of several nested ones at the same time, one goes on for the outer command, and the others are
  threads of control of their own. With --new-session, a nested one knows nothing of the outer one.
  If nested ones are left in the background, `conclave lock` releases its own lock and waits for their end.

When the lock is lost:
  If no node answers, the command gets SIGTERM in time to end before others may have the lock, and
  SIGKILL after --grace; all of its group is dead a sixteenth of --ttl (a minute at most) before the
  lease ends. If the
  lock is lost already, because an operator took it, say, it gets SIGKILL at once: another session may
  hold the lock by then.
  A second process, `lock-guard`, starts the command and knows its lease before that runs. If
  `conclave lock` is killed, the guard ends the command (SIGTERM, --grace, SIGKILL) and releases the lock;
  if it is stopped for too long, the command gets SIGKILL. If the guard is killed, the system kills the
  command, and `conclave lock` the rest of its group.
  If both are killed at the same moment, the system kills the command itself, but what that has started goes
  on; if both are stopped, nothing ends the command. Nor can processes be ended that have left the group
  (setsid) or belong to another user (sudo), nor what has been sent over the network be called back. For all
  that, have what you write to refuse tokens less than the greatest it has seen.

When the command ends and no node answers:
  `conclave lock` ends with the command's exit code within a second, and a process in the background
  releases the lock as soon as a node is there.

While it waits for the lock:
  If the node is down, it goes on waiting, and keeps its place in the queue as long as its session lives
  (--ttl); after that it asks again. --timeout is the bound for all of it, to find a node included (exit code 13 if
  none has answered by then); with --try, a node that says nothing is given two seconds.";

/// Flags of `conclave lock`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The lock; several that are to be held at once need a -- before the command
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// Hold this lock, too
    #[arg(long = "and", value_name = "NAME", env = "CONCLAVE_AND")]
    pub and: Vec<String>,
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
    /// Within a command that runs under the same lock, hold it once more
    #[arg(long, env = "CONCLAVE_REENTRANT")]
    pub reentrant: bool,
    /// How the lock is kept.
    #[command(flatten)]
    pub session_args: SessionArgs,
    /// The command to run while it is held
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
    /// How a node is reached.
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// How what is held is kept.
#[derive(Clone, Debug, clap::Args)]
pub struct SessionArgs {
    /// After how long without a sign of life others may have it
    #[arg(long, value_name = "TIME", env = "CONCLAVE_TTL", value_parser = span)]
    #[arg(default_value = "15s")]
    pub ttl: Duration,
    /// How long the command may take to end (by default a fifth of --ttl, a minute at most)
    #[arg(long, value_name = "TIME", env = "CONCLAVE_GRACE", value_parser = span)]
    pub grace: Option<Duration>,
    /// What others see (by default the command and the number of this process)
    #[arg(long, value_name = "TEXT", env = "CONCLAVE_NAME")]
    pub name: Option<String>,
    /// In a deadlock the lowest loses, if the node was told to go by that
    #[arg(long, value_name = "NUMBER", env = "CONCLAVE_PRIORITY", allow_negative_numbers = true)]
    #[arg(default_value_t = 0)]
    pub priority: i32,
    /// Within a command that runs under a lock, be on one's own: a session that knows nothing of the other
    #[arg(long, env = "CONCLAVE_NEW_SESSION")]
    pub new_session: bool,
    /// Say what happens
    #[arg(long, short, env = "CONCLAVE_VERBOSE")]
    pub verbose: bool,
}

impl SessionArgs {
    /// Opens a session for a command. A client that had one before (`again`) tries until a node is up again, or the
    /// user's patience is over.
    pub(crate) async fn open(
        &self,
        client: &Client,
        command: &[OsString],
        service: &ServiceArgs,
        patience: &Patience,
        again: bool,
    ) -> Result<Session, Failure> {
        let name = name(self.name.as_ref(), command);
        let options = SessionOptions::ttl(self.ttl).name(name).priority(self.priority);
        loop {
            match patience.bound(client, client.open(options.clone())).await {
                Ok(session) => return Ok(session),
                Err(error) if again && error.may_pass() && !patience.is_over() => {
                    tokio::time::sleep(RETRY).await;
                }
                Err(error) => return Err(service.failure_within(error, patience)),
            }
        }
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
    let budget = LeaseBudget::new(args.session_args.ttl, args.session_args.grace)?;
    if let Some(program) = args.command.first() {
        find(program).map_err(|error| args.hint(error))?;
    }
    wait(hold(args, budget, terminal, out))
}

async fn hold(
    args: &Args,
    budget: LeaseBudget,
    terminal: &Terminal,
    out: &mut dyn Write,
) -> Result<Done, Failure> {
    let Args { session_args, command, service, .. } = args;
    let log = Log::new(terminal, args.subject(), service, session_args.verbose);
    let mut signals = Signals::listen().map_err(Failure::Output)?;
    let patience = Patience::begin(args.limit());
    if !session_args.new_session
        && let Some(outer) = Nested::join(service.fingerprint(), &log).await
    {
        return nested::hold(args, outer, &patience, &mut signals, &log, out).await;
    }
    let client = tokio::select! {
        client = service.connect_within(&patience) => client?,
        signal = signals.stop() => return Ok(Done::signal(signal as i32)),
    };
    let mut again = false;
    let (session, guard) = loop {
        let session = tokio::select! {
            opened = session_args.open(&client, command, service, &patience, again) => opened?,
            signal = signals.stop() => return Ok(Done::signal(signal as i32)),
        };
        let guard = tokio::select! {
            guard = args.acquire(&client, &session, &patience, &log) => guard,
            signal = signals.stop() => {
                close_session(session, service, &log).await;
                return Ok(Done::signal(signal as i32));
            }
        };
        match guard {
            Ok(guard) => break (session, guard),
            // The wait goes on when a node is up again.
            Err(Error::SessionLost(Loss::Expired | Loss::Gone)) if !patience.is_over() => {
                let text = format!(
                    "no node has answered for longer than --ttl {}, and the place in the queue is lost; asks again",
                    spell(session_args.ttl),
                );
                log.info("asks-again", &text);
                again = true;
            }
            Err(error) => {
                give_up(&patience, session, service, &log).await;
                return Err(args.not_acquired(error, &patience));
            }
        }
    };
    log.debug("held", &format!("held with token {}", guard.token()));
    if command.is_empty() {
        return without_command(args, &client, session, &guard, &mut signals, &log, out).await;
    }
    let mut environment = service.environment();
    environment.extend(args.environment(guard.token(), session.id()));
    let run = Run {
        command,
        environment,
        budget,
        service,
        client: &client,
        session: &session,
        lost: Box::pin(guard.lost()),
        asked_back: Box::pin(std::future::pending()),
    };
    let (outcome, nest) = match run.run(&mut signals).await {
        Ok(ended) => ended,
        Err(error) => {
            close_session(session, service, &log).await;
            return Err(error.into());
        }
    };
    if nest.count() > 0 && matches!(outcome, Supervised::Ended { .. }) {
        drop(guard);
        wait_for_nested(&nest, &mut signals, &log).await;
    }
    if let Some(signal) = nest.abandoned() {
        abandon(session, &log);
        return Ok(Done::signal(signal as i32));
    }
    close_session(session, service, &log).await;
    match outcome {
        Supervised::Ended { status, had_terminal } => Ok(end_as(status, had_terminal)),
        Supervised::Lost(why) => Err(args.lost(&why, "; the command was ended")),
        Supervised::GaveWay => Err(args.lost("it was asked back", "; the command was ended")),
        Supervised::Unguarded => Err(ServiceError::unguarded(&args.subject()).into()),
    }
}

/// Between two attempts to open a session.
pub(crate) const RETRY: Duration = Duration::from_millis(200);

/// Holds until a signal says to stop.
async fn without_command(
    args: &Args,
    client: &Client,
    session: Session,
    guard: &Guard,
    signals: &mut Signals,
    log: &Log,
    out: &mut dyn Write,
) -> Result<Done, Failure> {
    args.print_token(guard.token(), &guard.epochs(), session.id(), log, out)?;
    tokio::select! {
        loss = guard.lost() => {
            let why = match loss {
                Loss::Expired => silence(client),
                loss => loss.to_string(),
            };
            close_session(session, &args.service, log).await;
            Err(args.lost(&why, ""))
        }
        _ = signals.stop() => {
            close_session(session, &args.service, log).await;
            Ok(Done::Well)
        }
    }
}

impl Args {
    /// For how long the user is ready to wait.
    fn limit(&self) -> Option<Duration> {
        if self.at_once { Some(Duration::ZERO) } else { self.timeout }
    }

    /// For how long a node may have it wait.
    fn wait_limit(&self, patience: &Patience) -> Option<Duration> {
        // No time at all would mean at once.
        let left = || patience.left().map(|left| left.max(Duration::from_millis(1)));
        if self.at_once { Some(Duration::ZERO) } else { left() }
    }

    /// All locks that are wanted.
    fn names(&self) -> Vec<String> {
        self.names.iter().chain(&self.and).cloned().collect()
    }

    /// What the command is told.
    fn environment(&self, token: u64, session: u64) -> [(&'static str, String); 3] {
        [
            ("CONCLAVE_LOCK", self.names().join("\n")),
            ("CONCLAVE_TOKEN", token.to_string()),
            ("CONCLAVE_SESSION", session.to_string()),
        ]
    }

    /// Without a command, says what is held.
    fn print_token(
        &self,
        token: u64,
        epochs: &[u64],
        session: u64,
        log: &Log,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        if self.service.json {
            let names = self.names();
            let value =
                json!({ "locks": names, "token": token, "epochs": epochs, "session": session });
            writeln!(out, "{value}")?;
        } else {
            writeln!(out, "{token}")?;
            if std::io::stderr().is_terminal() || log.is_verbose() {
                log.info("holding", &format!("held by session {session} until Ctrl-C"));
            }
        }
        out.flush()?;
        Ok(())
    }

    /// What may have been meant, if there is no such command.
    fn hint(&self, error: ServiceError) -> ServiceError {
        let (ServiceError::NotFound(text), Some(program)) = (&error, self.command.first()) else {
            return error;
        };
        let program = program.to_string_lossy();
        let names = self.names.join(" ");
        let hint = match (self.names.as_slice(), self.command.as_slice()) {
            ([_], [_]) => format!("for two locks, `conclave lock {names} --and {program}`"),
            ([_], _) => return error,
            ([first, rest @ ..], _) => format!(
                "what stands before -- are locks; for one lock and a command with -- in it, \
                 `conclave lock {first} -- {} -- {program}`",
                rest.join(" "),
            ),
            _ => return error,
        };
        ServiceError::NotFound(format!("{text}; {hint}"))
    }

    fn subject(&self) -> String {
        self.names().iter().map(|name| text(name)).collect::<Vec<_>>().join(", ")
    }

    fn lost(&self, why: &str, then: &str) -> Failure {
        ServiceError::Lost(format!("{} was lost: {why}{then}", self.subject())).into()
    }

    fn wants(&self) -> impl Iterator<Item = Want> {
        self.names().into_iter().map(|name| match self.permits {
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
        patience: &Patience,
        log: &Log,
    ) -> Result<Guard, Error> {
        let (waits, queued) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
        let told = (waits.clone(), queued.clone());
        let mut acquire = Acquire::all(self.wants()).on_waiting(move || {
            told.1.store(true, Ordering::SeqCst);
            told.0.notify_one();
        });
        if let Some(limit) = self.wait_limit(patience) {
            acquire = acquire.timeout(limit);
        }
        if self.reentrant {
            acquire = acquire.reentrant();
        }
        let told = async {
            if !log.is_verbose() && !std::io::stderr().is_terminal() {
                std::future::pending::<()>().await;
            }
            waits.notified().await;
            self.tell_why(client, session.id(), log).await
        };
        let acquired = async {
            match patience.bound(client, session.acquire(acquire)).await {
                // The node has said that others are before this one, and that is why.
                Err(error) if error.may_pass() && queued.load(Ordering::SeqCst) => {
                    Err(if patience.is_over() { Error::TimedOut } else { error })
                }
                acquired => acquired,
            }
        };
        tokio::select! {
            guard = acquired => guard,
            never = told => match never {},
        }
    }

    /// What to tell a user about locks that could not be had.
    fn not_acquired(&self, error: Error, patience: &Patience) -> Failure {
        let subject = self.subject();
        match error {
            Error::Conflict(_) => ServiceError::Conflict(format!(
                "{subject} cannot be had at once; `conclave why {subject}` tells who has it"
            ))
            .into(),
            Error::TimedOut => ServiceError::TimedOut(format!(
                "{subject} could not be had within {}; `conclave why {subject}` tells who has it",
                spell(self.timeout.unwrap_or_default()),
            ))
            .into(),
            Error::SessionLost(why) => {
                ServiceError::Lost(format!("gave up waiting for {subject}: {why}")).into()
            }
            error => self.service.failure_within(error, patience),
        }
    }

    /// Says which session is in the way, and again when another is.
    async fn tell_why(&self, client: &Client, session: u64, log: &Log) -> Infallible {
        let mut said = String::new();
        loop {
            for name in &self.names() {
                // If it cannot be seen, it is waited for all the same.
                let Ok(reasons) = client.why(name).await else { continue };
                let Some(now) = in_the_way(&reasons, session) else { continue };
                let line = format!("waiting: {now}");
                let key = now.split(", for ").next().unwrap_or_default().to_owned();
                if key != said {
                    log.info("waiting", &line);
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
