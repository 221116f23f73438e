//! `conclave elect` within a command that another one runs.

use std::io::Write;
use std::time::Duration;

use conclave_client::Error;

use super::{Args, Over, not_elected};
use crate::service::{
    Candidate, Child, ChildOptions, Holding, LeaseBudget, Log, Nested, OUTER_LOST, Patience,
    ServiceError, Signals, Supervised, supervise, text,
};
use crate::{Done, Failure};

/// Stands in an election by the session of the outer process, once.
pub(super) async fn lead(
    args: &Args,
    nested: &mut Nested,
    signals: &mut Signals,
    log: &Log,
    out: &mut dyn Write,
) -> Result<Over, Failure> {
    let (budget, patience) =
        (LeaseBudget::new(nested.ttl, args.session_args.grace)?, Patience::begin(args.timeout));
    let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let stands = Candidate {
        election: args.election.clone(),
        rank: args.rank,
        preempt: args.preempt,
        grace_ms: millis((budget.grace + budget.margin()).min(Duration::from_secs(600))),
        value: args.value.clone(),
        timeout_ms: args.timeout.map(millis),
    };
    log.debug("stands", &format!("stands with rank {}", args.rank));
    let elected = tokio::select! {
        elected = nested.campaign(stands) => elected,
        // The outer process cannot hear its node, or is stopped. The candidacy ends with this process.
        () = patience.over() => Err(Error::TimedOut),
        signal = signals.stop() => return Ok(Over::Done(Done::signal(signal as i32))),
    };
    let term = match elected {
        Ok(term) => term,
        Err(Error::SessionLost(why)) => {
            let election = text(&args.election);
            return Err(ServiceError::Lost(format!("stands no more in {election}: {why}")).into());
        }
        Err(Error::Refused { code, message }) if code == OUTER_LOST => {
            let election = text(&args.election);
            return Err(
                ServiceError::Lost(format!("stands no more in {election}: {message}")).into()
            );
        }
        Err(Error::Barred { left, .. }) => return Ok(Over::Barred(left)),
        Err(error) => return Err(not_elected(args, error)),
    };
    log.debug("leads", &format!("leads with term {term}"));
    let over = if args.command.is_empty() {
        args.print_term(term, nested.session, out)?;
        tokio::select! {
            why = nested.lost() => Over::Lost(why),
            _ = nested.asked_back() => gave_way(nested)?,
            _ = signals.stop() => Over::Done(Done::Well),
        }
    } else {
        let mut environment = args.environment(term, nested.session);
        environment.push(nested.environment());
        let unguarded = |error| {
            ServiceError::NotExecutable(format!("the outer process does not answer: {error}"))
        };
        let to_outer = Some(nested.guard_connection().map_err(unguarded)?);
        let child_options = ChildOptions { credentials: None, nest: None, to_outer };
        let remaining = || nested.remaining();
        let child =
            Child::spawn(&args.command, environment, budget, child_options, remaining).await?;
        let holding = Holding {
            remaining: &remaining,
            silence: &|| "no node has answered the outer process for too long".to_owned(),
            lost: Box::pin(nested.lost()),
            asked_back: Box::pin(nested.asked_back()),
        };
        match supervise(child, signals, budget, holding).await {
            Supervised::Ended { status, had_terminal } => Over::Ended(status, had_terminal),
            Supervised::Lost(why) => Over::Lost(why),
            Supervised::GaveWay => gave_way(nested)?,
            Supervised::Unguarded => {
                return Err(ServiceError::unguarded(&text(&args.election)).into());
            }
        }
    };
    nested.release().await;
    match over {
        // Nothing is granted any more.
        Over::Lost(why) if nested.is_killed() => {
            let election = text(&args.election);
            Err(ServiceError::Lost(format!("leads {election} no more: {why}")).into())
        }
        over => Ok(over),
    }
}

fn gave_way(nested: &Nested) -> Result<Over, Failure> {
    if nested.is_alone() {
        return Err(ServiceError::Lost(
            "the process that this one is nested in is gone".to_owned(),
        )
        .into());
    }
    Ok(Over::Lost("it gave way to a better candidate".to_owned()))
}
