//! `conclave lock` within a command that another one runs.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use conclave_client::Error;
use tokio::sync::Notify;

use super::Args;
use crate::service::{
    Child, ChildOptions, Holding, LeaseBudget, Log, Nested, OUTER_LOST, Patience, ServiceError,
    Signals, Supervised, WantedLock, end_as, supervise,
};
use crate::{Done, Failure};

/// Holds a lock by the session of the outer process.
pub(super) async fn hold(
    args: &Args,
    mut nested: Nested,
    patience: &Patience,
    signals: &mut Signals,
    log: &Log,
    out: &mut dyn Write,
) -> Result<Done, Failure> {
    let budget = LeaseBudget::new(nested.ttl, args.session_args.grace)?;
    let granted = tokio::select! {
        granted = acquire(args, &mut nested, patience, log) => granted,
        signal = signals.stop() => return Ok(Done::signal(signal as i32)),
    };
    let refused = |error| not_acquired(args, error, patience, nested.session);
    let (token, epochs) = granted.map_err(refused)?;
    log.debug("held", &format!("held with token {token}"));
    if args.command.is_empty() {
        args.print_token(token, &epochs, nested.session, log, out)?;
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
        |error| ServiceError::NotExecutable(format!("the outer process does not answer: {error}"));
    let to_outer = Some(nested.guard_connection().map_err(unguarded)?);
    let child_options = ChildOptions { credentials: None, nest: None, to_outer };
    let remaining = || nested.remaining();
    let child = Child::spawn(&args.command, environment, budget, child_options, remaining).await?;
    let holding = Holding {
        remaining: &remaining,
        silence: &|| "no node has answered the outer process for too long".to_owned(),
        lost: Box::pin(nested.lost()),
        asked_back: Box::pin(nested.asked_back()),
    };
    let outcome = supervise(child, signals, budget, holding).await;
    nested.release().await;
    match outcome {
        Supervised::Ended { status, had_terminal } => Ok(end_as(status, had_terminal)),
        Supervised::Lost(why) => Err(args.lost(&why, "; the command was ended")),
        Supervised::GaveWay => Err(args.lost(ALONE, "; the command was ended")),
        Supervised::Unguarded => Err(ServiceError::unguarded(&args.subject()).into()),
    }
}

/// Why a nested lock is lost when its outer process is killed.
const ALONE: &str = "the process that it is nested in is gone";

async fn acquire(
    args: &Args,
    nested: &mut Nested,
    patience: &Patience,
    log: &Log,
) -> Result<(u64, Vec<u64>), Error> {
    let wants = args.names().into_iter().map(|lock| WantedLock {
        lock,
        shared: args.shared,
        permits: args.permits,
    });
    let limit = args.wait_limit(patience);
    let waits = Arc::new(Notify::new());
    let (told, session) = (waits.clone(), nested.session);
    let told_why = async {
        waits.notified().await;
        if (log.is_verbose() || std::io::stderr().is_terminal())
            && let Ok(client) = args.service.connect().await
        {
            return args.tell_why(&client, session, log).await;
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
        Error::Refused { code, message } if code == "already-held" => ServiceError::RefusedWith {
            code,
            message: format!(
                "{message}: the command that this one is nested in holds it (session {session}), and to wait for \
                 it would be for ever; hold it once more with --reentrant"
            ),
        }
        .into(),
        Error::Refused { code, message } if code == OUTER_LOST => {
            ServiceError::Lost(format!("gave up waiting for {}: {message}", args.subject())).into()
        }
        error => args.not_acquired(error, patience),
    }
}
