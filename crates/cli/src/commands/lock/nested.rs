//! `conclave lock` within a command that another one runs.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use conclave_client::Error;
use tokio::sync::Notify;

use super::Args;
use crate::service::{
    Attended, Child, Holding, Nested, OUTER_LOST, Patience, Signals, Stay, Ties, Trouble, Voice,
    Wanted, attend, end_as,
};
use crate::{Done, Failure};

/// Holds a lock by the session of the outer process.
pub(super) async fn hold(
    args: &Args,
    mut nested: Nested,
    patience: &Patience,
    signals: &mut Signals,
    voice: &Voice,
    out: &mut dyn Write,
) -> Result<Done, Failure> {
    let stay = Stay::new(nested.ttl, args.keep.grace)?;
    let granted = tokio::select! {
        granted = acquire(args, &mut nested, patience, voice) => granted,
        signal = signals.stop() => return Ok(Done::signal(signal as i32)),
    };
    let refused = |error| not_acquired(args, error, patience, nested.session);
    let (token, epochs) = granted.map_err(refused)?;
    voice.verbosely("held", &format!("held with token {token}"));
    if args.command.is_empty() {
        args.print_token(token, &epochs, nested.session, voice, out)?;
        let over = tokio::select! {
            why = nested.lost() => Err(args.lost(&why, "")),
            _ = nested.asked_back() => Err(args.lost(ALONE, "")),
            _ = signals.stop() => Ok(Done::Well),
        };
        nested.release().await;
        return over;
    }
    let mut environment = args.service.environment();
    environment.extend(args.environment(token, nested.session));
    environment.push(nested.environment());
    let unguarded =
        |error| Trouble::NotExecutable(format!("the outer process does not answer: {error}"));
    let tether = Some(nested.tether().map_err(unguarded)?);
    let ties = Ties { credentials: None, nest: None, tether };
    let remaining = || nested.remaining();
    let child = Child::spawn(&args.command, environment, stay, ties, remaining).await?;
    let holding = Holding {
        remaining: &remaining,
        silence: &|| "no node has answered the outer process for too long".to_owned(),
        lost: Box::pin(nested.lost()),
        asked_back: Box::pin(nested.asked_back()),
    };
    let attended = attend(child, signals, stay, holding).await;
    nested.release().await;
    match attended {
        Attended::Ended { status, had_terminal } => Ok(end_as(status, had_terminal)),
        Attended::Lost(why) => Err(args.lost(&why, "; the command was ended")),
        Attended::GaveWay => Err(args.lost(ALONE, "; the command was ended")),
        Attended::Unguarded => Err(Trouble::unguarded(&args.subject()).into()),
    }
}

/// Why a nested lock is lost when its outer process is killed.
const ALONE: &str = "the process that it is nested in is gone";

async fn acquire(
    args: &Args,
    nested: &mut Nested,
    patience: &Patience,
    voice: &Voice,
) -> Result<(u64, Vec<u64>), Error> {
    let wants = args.names().into_iter().map(|lock| Wanted {
        lock,
        shared: args.shared,
        permits: args.permits,
    });
    let limit = args.wait_limit(patience);
    let waits = Arc::new(Notify::new());
    let (told, session) = (waits.clone(), nested.session);
    let told_why = async {
        waits.notified().await;
        if (voice.is_verbose() || std::io::stderr().is_terminal())
            && let Ok(client) = args.service.connect().await
        {
            return args.tell_why(&client, session, voice).await;
        }
        std::future::pending().await
    };
    tokio::select! {
        granted = nested.acquire(wants.collect(), limit, args.reentrant, move || told.notify_one()) => granted,
        // The outer process cannot hear its node, or is stopped. What it may be granted is given back when this ends.
        () = patience.over() => Err(match limit {
            Some(Duration::ZERO) => Error::Unreachable("the outer process has heard nothing".to_owned()),
            _ => Error::TimedOut,
        }),
        never = told_why => match never {},
    }
}

fn not_acquired(args: &Args, error: Error, patience: &Patience, session: u64) -> Failure {
    match error {
        Error::Refused { code, message } if code == "already-held" => Trouble::RefusedWith {
            code,
            message: format!(
                "{message}: the command that this one is nested in holds it (session {session}), and to wait for \
                 it would be for ever; hold it once more with --reentrant"
            ),
        }
        .into(),
        Error::Refused { code, message } if code == OUTER_LOST => {
            Trouble::Lost(format!("gave up waiting for {}: {message}", args.subject())).into()
        }
        error => args.not_acquired(error, patience),
    }
}
