//! `conclave elect`.

mod nested;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitStatus;
use std::time::Duration;

use conclave_client::{Candidacy, Client, Error, Leadership, Loss, Session};
use nix::sys::signal::Signal;
use serde_json::json;

use super::lock::{RETRY, SessionArgs};
use crate::service::{
    LeaseBudget, Log, Nest, Nested, Patience, Run, ServiceArgs, ServiceError, Signals, Supervised,
    abandon, close_session, end_as, find, give_up, span, spell, text, wait, wait_for_nested,
};
use crate::{Done, Failure, Terminal};

/// What to know, for `--help`.
pub const HELP: &str = "\
Examples:
  conclave elect web ./serve                       run it on one machine at a time
  conclave elect web --rank 10 --preempt ./serve   here rather than anywhere of lower rank
  conclave elect web --value http://a:80 ./serve   and let `conclave observe web` show where
  conclave elect web --once ./migrate              once: lead, run, resign
  conclave elect web                               lead until Ctrl-C, and print the term

The command is run as `conclave lock` runs one (see there), with
  CONCLAVE_ELECTION   the election
  CONCLAVE_TERM       the term: a fencing token, greater than those of all leaders before
  CONCLAVE_TOKEN      the same
  CONCLAVE_SESSION    the session that leads
  CONCLAVE_ENDPOINTS  where the nodes are
When it ends by itself, the leader resigns, and this program ends with its exit code. When a better
candidate wants to lead, or no node answers, the command gets SIGTERM, and SIGKILL after --grace; when
the leadership is lost already, it gets SIGKILL at once. Then this program stands again, unless --once
was given, with which it ends with exit code 12.

No other command is run by a leader before this one has ended: the next candidate leads when this program has
said that the command is gone, or when its lease has ended, by which time the command is killed. So a
candidate with --preempt waits for up to the --ttl of a leader that is stopped or cut off.

Within a command that `conclave lock` or `conclave elect` runs, it uses the outer session, as a nested `conclave lock`
does (see there): a deadlock by way of locks and elections is found, and the wait for a lock in it is refused (exit code 15).

After `conclave depose` this program waits for as long as the operator said (a minute unless told
otherwise) before it stands again.";

/// Flags of `conclave elect`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The election
    #[arg(value_name = "NAME")]
    pub election: String,
    /// The candidate with the highest rank leads; of equals, the first
    #[arg(long, value_name = "NUMBER", env = "CONCLAVE_RANK", allow_negative_numbers = true)]
    #[arg(default_value_t = 0)]
    pub rank: i64,
    /// Have a leader of lower rank give way
    #[arg(long, env = "CONCLAVE_PREEMPT")]
    pub preempt: bool,
    /// What others see when this one leads
    #[arg(long, value_name = "TEXT", env = "CONCLAVE_VALUE", default_value = "")]
    pub value: String,
    /// Do not stand again when the leadership is over
    #[arg(long, env = "CONCLAVE_ONCE")]
    pub once: bool,
    /// Wait no longer than so to be elected
    #[arg(long, value_name = "TIME", env = "CONCLAVE_TIMEOUT", value_parser = span)]
    pub timeout: Option<Duration>,
    /// How the leadership is kept.
    #[command(flatten)]
    pub session_args: SessionArgs,
    /// The command to run while leading
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
    /// How a node is reached.
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// How a leadership ended.
enum Over {
    /// It is done with.
    Done(Done),
    /// The command has ended by itself.
    Ended(ExitStatus, bool),
    /// It was lost, and may be had again.
    Lost(String),
    /// The session was lost before it led.
    NeverLed(String),
    /// An operator has deposed it, and it may not stand again for so long.
    Barred(Duration),
    /// A signal came while nested commands were to end, of which some may still run.
    Abandoned(Signal),
}

/// How the program ends.
enum Ending {
    Done(Done),
    /// As the command has.
    Command(ExitStatus, bool),
}

impl Ending {
    fn end(self) -> Done {
        match self {
            Self::Done(done) => done,
            Self::Command(status, had_terminal) => end_as(status, had_terminal),
        }
    }
}

/// Stands in an election, and runs a command while leading.
pub fn perform(args: &Args, terminal: &Terminal, out: &mut dyn Write) -> Result<Done, Failure> {
    let budget = LeaseBudget::new(args.session_args.ttl, args.session_args.grace)?;
    if let Some(program) = args.command.first() {
        find(program)?;
    }
    wait(stand(args, budget, terminal, out))
}

async fn stand(
    args: &Args,
    budget: LeaseBudget,
    terminal: &Terminal,
    out: &mut dyn Write,
) -> Result<Done, Failure> {
    let log = Log::new(terminal, text(&args.election), &args.service, args.session_args.verbose);
    let mut signals = Signals::listen().map_err(Failure::Output)?;
    if !args.session_args.new_session
        && let Some(mut outer) = Nested::join(args.service.fingerprint(), &log).await
    {
        loop {
            let over = nested::lead(args, &mut outer, &mut signals, &log, out).await?;
            if let Some(ending) = args.goes_on(over, &mut signals, &log).await? {
                return Ok(ending.end());
            }
        }
    }
    let mut patience = Patience::begin(args.timeout);
    let client = tokio::select! {
        client = args.service.connect_within(&patience) => client?,
        signal = signals.stop() => return Ok(Done::signal(signal as i32)),
    };
    let (mut again, mut kept) = (false, None);
    loop {
        let session = match kept.take().filter(Session::is_alive) {
            // A leadership that begins on the rest of an old lease would be over at once.
            Some(session) if session.remaining() < budget.ttl / 2 => {
                tokio::select! {
                    () = tokio::time::sleep(RETRY) => {}
                    signal = signals.stop() => return Ok(Done::signal(signal as i32)),
                }
                kept = Some(session);
                continue;
            }
            Some(session) => session,
            None => {
                let Args { session_args, command, service, .. } = args;
                tokio::select! {
                    opened = session_args.open(&client, command, service, &patience, again) => opened?,
                    signal = signals.stop() => return Ok(Done::signal(signal as i32)),
                }
            }
        };
        let stands = Standing { budget, client: &client, session: &session, patience: &patience };
        let over = lead(args, stands, &mut signals, &log, out).await;
        let begins_anew = matches!(over, Ok(Over::Lost(_) | Over::Barred(_)));
        let over = match over {
            Ok(Over::Abandoned(signal)) => {
                abandon(session, &log);
                return Ok(Done::signal(signal as i32));
            }
            Ok(over) => args.goes_on(over, &mut signals, &log).await,
            Err(failure) => Err(failure),
        };
        match over {
            // The same session stands again: an operator who deposed it means this one.
            Ok(None) => {
                (again, kept) = (true, Some(session));
                // A candidate that has not led yet, and was not told to wait by an operator, has waited all the time.
                if begins_anew {
                    patience = Patience::begin(args.timeout);
                }
            }
            Ok(Some(done)) => {
                close_session(session, &args.service, &log).await;
                return Ok(done.end());
            }
            Err(failure) => {
                // After a leadership there is time to say so, however long that has lasted.
                match &failure {
                    Failure::Service(ServiceError::TimedOut(_) | ServiceError::Unreachable(_)) => {
                        give_up(&patience, session, &args.service, &log).await;
                    }
                    _ => close_session(session, &args.service, &log).await,
                }
                return Err(failure);
            }
        }
    }
}

/// What a candidate stands with.
#[derive(Clone, Copy)]
struct Standing<'a> {
    budget: LeaseBudget,
    client: &'a Client,
    session: &'a Session,
    patience: &'a Patience,
}

impl Args {
    /// How the program ends after a leadership; nothing if it stands again.
    async fn goes_on(
        &self,
        over: Over,
        signals: &mut Signals,
        log: &Log,
    ) -> Result<Option<Ending>, Failure> {
        match over {
            Over::Done(done) => return Ok(Some(Ending::Done(done))),
            Over::Abandoned(signal) => {
                return Ok(Some(Ending::Done(Done::signal(signal as i32))));
            }
            Over::Ended(status, had_terminal) => {
                return Ok(Some(Ending::Command(status, had_terminal)));
            }
            Over::Lost(why) if self.once => {
                let election = text(&self.election);
                return Err(ServiceError::Lost(format!("leads {election} no more: {why}")).into());
            }
            Over::Lost(why) => log.info("lost", &format!("leads no more: {why}; stands again")),
            Over::NeverLed(why) => {
                log.info("stands-again", &format!("did not lead yet: {why}; stands again"));
            }
            Over::Barred(left) => {
                let left_text = spell(left);
                log.info("barred", &format!("an operator deposed it; stands again in {left_text}"));
                tokio::select! {
                    () = tokio::time::sleep(left) => {}
                    signal = signals.stop() => {
                        return Ok(Some(Ending::Done(Done::signal(signal as i32))));
                    }
                }
            }
        }
        Ok(None)
    }

    /// What the command is told.
    fn environment(&self, term: u64, session: u64) -> Vec<(&'static str, String)> {
        let mut environment = self.service.environment();
        environment.extend([
            ("CONCLAVE_ELECTION", self.election.clone()),
            ("CONCLAVE_TERM", term.to_string()),
            ("CONCLAVE_TOKEN", term.to_string()),
            ("CONCLAVE_SESSION", session.to_string()),
        ]);
        environment
    }

    /// Without a command, says what is led.
    fn print_term(&self, term: u64, session: u64, out: &mut dyn Write) -> Result<(), Failure> {
        if self.service.json {
            let election = &self.election;
            writeln!(out, "{}", json!({ "election": election, "term": term, "session": session }))?;
        } else {
            writeln!(out, "{term}")?;
        }
        out.flush()?;
        Ok(())
    }
}

impl Standing<'_> {
    /// Waits until the session leads, for as long as the user is ready to.
    async fn campaign(&self, candidacy: Candidacy) -> Result<Leadership, Error> {
        let Self { client, session, patience, .. } = self;
        match patience.bound(client, session.campaign(candidacy)).await {
            // While a node is connected, another leads for all that is known.
            Err(error) if error.may_pass() && patience.is_over() => {
                Err(client.last_error().unwrap_or(Error::TimedOut))
            }
            elected => elected,
        }
    }
}

/// What to tell a user about an election that was not won.
fn not_elected(args: &Args, error: Error) -> Failure {
    let election = text(&args.election);
    match error {
        Error::TimedOut => ServiceError::TimedOut(format!(
            "not elected in {election} within {}; `conclave observe --once {election}` tells who leads",
            spell(args.timeout.unwrap_or_default()),
        ))
        .into(),
        error => args.service.failure_within(error, &Patience::begin(args.timeout)),
    }
}

async fn lead(
    args: &Args,
    stands: Standing<'_>,
    signals: &mut Signals,
    log: &Log,
    out: &mut dyn Write,
) -> Result<Over, Failure> {
    let Standing { budget, session, patience, .. } = stands;
    let mut candidacy = Candidacy::new(&args.election).rank(args.rank).value(args.value.as_bytes());
    // The command is to be dead before the node gives the leadership to another.
    // More than ten minutes no node grants; it waits for the leader, or for the end of the lease, in any case.
    let grace = (budget.grace + budget.margin()).min(Duration::from_secs(600));
    candidacy = candidacy.grace(grace);
    if args.preempt {
        candidacy = candidacy.preempt();
    }
    if let Some(left) = patience.left() {
        // No time at all would mean at once.
        candidacy = candidacy.timeout(left.max(Duration::from_millis(1)));
    }
    log.debug("stands", &format!("stands with rank {}", args.rank));
    let elected = tokio::select! {
        elected = stands.campaign(candidacy) => elected,
        signal = signals.stop() => return Ok(Over::Done(Done::signal(signal as i32))),
    };
    let leadership = match elected {
        Ok(leadership) => leadership,
        Err(Error::SessionLost(Loss::Expired | Loss::Gone)) => {
            return Ok(Over::NeverLed("no node has answered for longer than --ttl".to_owned()));
        }
        Err(Error::SessionLost(why)) => {
            let election = text(&args.election);
            return Err(ServiceError::Lost(format!("stands no more in {election}: {why}")).into());
        }
        Err(Error::Barred { left, .. }) => return Ok(Over::Barred(left)),
        Err(error) => return Err(not_elected(args, error)),
    };
    log.debug("leads", &format!("leads with term {}", leadership.term()));
    let over = if args.command.is_empty() {
        without_command(args, &leadership, signals, out).await
    } else {
        match with_command(args, stands, &leadership, signals).await {
            Ok((over @ Over::Ended(..), nest)) if nest.count() > 0 => {
                drop(leadership);
                wait_for_nested(&nest, signals, log).await;
                return Ok(nest.abandoned().map_or(over, Over::Abandoned));
            }
            Ok((over, nest)) => match nest.abandoned() {
                Some(signal) => return Ok(Over::Abandoned(signal)),
                None => Ok(over),
            },
            Err(failure) => Err(failure),
        }
    };
    if let Ok(Over::Lost(_)) = over
        && session.is_alive()
    {
        // The command is gone, and another may lead. If no node answers, the lease ends.
        tokio::select! {
            _ = tokio::time::timeout(budget.ttl, leadership.resign()) => {}
            signal = signals.stop() => return Ok(Over::Done(Done::signal(signal as i32))),
        }
    }
    over
}

async fn with_command(
    args: &Args,
    stands: Standing<'_>,
    leadership: &Leadership,
    signals: &mut Signals,
) -> Result<(Over, Nest), Failure> {
    let Standing { budget, client, session, .. } = stands;
    let run = Run {
        command: &args.command,
        environment: args.environment(leadership.term(), session.id()),
        budget,
        service: &args.service,
        client,
        session,
        lost: Box::pin(leadership.lost()),
        asked_back: Box::pin(leadership.yielding()),
    };
    let (outcome, nest) = run.run(signals).await?;
    let over = match outcome {
        Supervised::Ended { status, had_terminal } => Over::Ended(status, had_terminal),
        Supervised::Lost(why) => Over::Lost(why),
        Supervised::GaveWay => Over::Lost("it gave way to a better candidate".to_owned()),
        Supervised::Unguarded => return Err(ServiceError::unguarded(&text(&args.election)).into()),
    };
    Ok((over, nest))
}

/// Leads until a signal says to stop.
async fn without_command(
    args: &Args,
    leadership: &Leadership,
    signals: &mut Signals,
    out: &mut dyn Write,
) -> Result<Over, Failure> {
    args.print_term(leadership.term(), leadership.session(), out)?;
    Ok(tokio::select! {
        loss = leadership.lost() => Over::Lost(loss.to_string()),
        _ = leadership.yielding() => Over::Lost("it gave way to a better candidate".to_owned()),
        _ = signals.stop() => Over::Done(Done::Well),
    })
}
