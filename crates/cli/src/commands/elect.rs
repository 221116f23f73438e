//! `conclave elect`.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitStatus;
use std::time::Duration;

use conclave_client::{Candidacy, Error, Leadership, Session};
use serde_json::json;

use super::lock::Keep;
use crate::service::{
    Attended, Child, Holding, ServiceArgs, Signals, Stay, Trouble, Voice, attend, end_as, farewell,
    find, span, spell, text, wait,
};
use crate::{Done, Failure, Terminal};

/// What to know, for `--help`.
pub const HELP: &str = "\
Examples:
  conclave elect web -- ./serve                    run it on one machine at a time
  conclave elect web --rank 10 --preempt -- ./serve   here rather than anywhere of lower rank
  conclave elect web --value http://a:80 -- ./serve   and let `conclave observe web` show where
  conclave elect web --once -- ./migrate           once: lead, run, resign
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

No other command is run by a leader before this one has ended: whoever follows leads when this program has
said that the command is gone, or when its lease has ended, by which time the command is killed. So a
candidate with --preempt waits for up to the --ttl of a leader that is stopped or cut off.

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
    pub keep: Keep,
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
}

/// Stands in an election, and runs a command while leading.
pub fn perform(args: &Args, terminal: &Terminal, out: &mut dyn Write) -> Result<Done, Failure> {
    let stay = Stay::new(args.keep.ttl, args.keep.grace)?;
    if let Some(program) = args.command.first() {
        find(program)?;
    }
    wait(stand(args, stay, terminal, out))
}

async fn stand(
    args: &Args,
    stay: Stay,
    terminal: &Terminal,
    out: &mut dyn Write,
) -> Result<Done, Failure> {
    let voice = Voice::new(terminal, text(&args.election), &args.service, args.keep.verbose);
    let mut signals = Signals::listen().map_err(Failure::Output)?;
    let client = tokio::select! {
        client = args.service.connect() => client?,
        signal = signals.stop() => return Ok(Done::signal(signal as i32)),
    };
    let (mut again, mut kept) = (false, None);
    loop {
        let opened = match kept.take().filter(Session::is_alive) {
            Some(session) => Ok(session),
            None => tokio::select! {
                opened = args.keep.open(&client, &args.command) => opened,
                signal = signals.stop() => return Ok(Done::signal(signal as i32)),
            },
        };
        let session = match opened {
            Ok(session) => session,
            // It was let in before, and will be when a node is up again.
            Err(Error::Unreachable(_)) if again => continue,
            Err(error) => return Err(args.service.failure(error)),
        };
        let over = match lead(args, stay, &session, &mut signals, &voice, out).await {
            Ok(over) => over,
            Err(failure) => {
                farewell(session, &voice).await;
                return Err(failure);
            }
        };
        let election = text(&args.election);
        match over {
            Over::Done(done) => {
                farewell(session, &voice).await;
                return Ok(done);
            }
            Over::Ended(status, had_terminal) => {
                farewell(session, &voice).await;
                return Ok(end_as(status, had_terminal));
            }
            Over::Lost(why) if args.once => {
                farewell(session, &voice).await;
                return Err(Trouble::Lost(format!("leads {election} no more: {why}")).into());
            }
            Over::Lost(why) => voice.say("lost", &format!("leads no more: {why}; stands again")),
            Over::NeverLed(why) => {
                voice.say("lost", &format!("was not elected yet: {why}; stands again"));
            }
            Over::Barred(left) => {
                let left_text = spell(left);
                voice
                    .say("barred", &format!("an operator deposed it; stands again in {left_text}"));
                tokio::select! {
                    () = tokio::time::sleep(left) => {}
                    signal = signals.stop() => {
                        farewell(session, &voice).await;
                        return Ok(Done::signal(signal as i32));
                    }
                }
            }
        }
        // The same session stands again: an operator who deposed it means this one.
        (again, kept) = (true, Some(session));
    }
}

async fn lead(
    args: &Args,
    stay: Stay,
    session: &Session,
    signals: &mut Signals,
    voice: &Voice,
    out: &mut dyn Write,
) -> Result<Over, Failure> {
    let mut candidacy = Candidacy::new(&args.election).rank(args.rank).value(args.value.as_bytes());
    // The command is to be dead before the node gives the leadership to another.
    candidacy = candidacy.grace(stay.grace + stay.margin());
    if args.preempt {
        candidacy = candidacy.preempt();
    }
    if let Some(timeout) = args.timeout {
        candidacy = candidacy.timeout(timeout);
    }
    voice.verbosely("stands", &format!("stands with rank {}", args.rank));
    let elected = tokio::select! {
        elected = session.campaign(candidacy) => elected,
        signal = signals.stop() => return Ok(Over::Done(Done::signal(signal as i32))),
    };
    let leadership = match elected {
        Ok(leadership) => leadership,
        Err(Error::SessionLost(why)) => return Ok(Over::NeverLed(why.to_string())),
        Err(Error::Barred { left, .. }) => return Ok(Over::Barred(left)),
        Err(error) => {
            let election = text(&args.election);
            return Err(match error {
                Error::TimedOut => Trouble::TimedOut(format!(
                    "not elected in {election} within {}; `conclave observe --once {election}` tells \
                     who leads",
                    spell(args.timeout.unwrap_or_default()),
                ))
                .into(),
                error => args.service.failure(error),
            });
        }
    };
    voice.verbosely("leads", &format!("leads with term {}", leadership.term()));
    let over = if args.command.is_empty() {
        without_command(args, &leadership, signals, out).await
    } else {
        with_command(args, stay, session, &leadership, signals).await
    };
    if let Ok(Over::Lost(_)) = over
        && session.is_alive()
    {
        // The command is gone, and whoever follows may lead. If no node answers, its lease ends.
        let _ = tokio::time::timeout(stay.ttl, leadership.resign()).await;
    }
    over
}

async fn with_command(
    args: &Args,
    stay: Stay,
    session: &Session,
    leadership: &Leadership,
    signals: &mut Signals,
) -> Result<Over, Failure> {
    let term = leadership.term().to_string();
    let mut environment = args.service.environment();
    environment.extend([
        ("CONCLAVE_ELECTION", args.election.clone()),
        ("CONCLAVE_TERM", term.clone()),
        ("CONCLAVE_TOKEN", term),
        ("CONCLAVE_SESSION", session.id().to_string()),
    ]);
    let remaining = || session.remaining();
    let child = Child::spawn(&args.command, environment, stay, remaining).await?;
    let holding = Holding {
        remaining: &remaining,
        lost: Box::pin(leadership.lost()),
        asked_back: Box::pin(leadership.yielding()),
    };
    Ok(match attend(child, signals, stay, holding).await {
        Attended::Ended { status, had_terminal } => Over::Ended(status, had_terminal),
        Attended::Lost(why) => Over::Lost(why),
        Attended::GaveWay => Over::Lost("it gave way to a better candidate".to_owned()),
        Attended::Unguarded => return Err(Trouble::unguarded(&text(&args.election)).into()),
    })
}

/// Leads until somebody says to stop.
async fn without_command(
    args: &Args,
    leadership: &Leadership,
    signals: &mut Signals,
    out: &mut dyn Write,
) -> Result<Over, Failure> {
    let (term, session) = (leadership.term(), leadership.session());
    if args.service.json {
        let election = &args.election;
        writeln!(out, "{}", json!({ "election": election, "term": term, "session": session }))?;
    } else {
        writeln!(out, "{term}")?;
    }
    out.flush()?;
    Ok(tokio::select! {
        loss = leadership.lost() => Over::Lost(loss.to_string()),
        _ = leadership.yielding() => Over::Lost("it gave way to a better candidate".to_owned()),
        _ = signals.stop() => Over::Done(Done::Well),
    })
}
