//! What the commands of the lock service share: connecting to a node, logging, and running a command that has ended
//! in time (`supervise`, `guard`, `child`, `nested`).

mod boottime;
mod child;
pub(crate) mod command_line;
mod connect;
mod descriptors;
mod foreground;
pub(crate) mod guard;
mod log;
mod nested;
mod patience;
pub(crate) mod release;
mod run;
mod service_error;
mod show;
mod signals;
mod span;
mod spawn;
mod supervise;

use std::ffi::OsString;
use std::future::Future;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

pub(crate) use child::{Child, ChildOptions, find};
pub(crate) use connect::silence;
pub use connect::{ListArgs, ServiceArgs};
pub(crate) use log::Log;
pub(crate) use nested::{Candidate, Nest, Nested, OUTER_LOST, WantedLock};
pub(crate) use patience::Patience;
pub(crate) use run::{Run, wait_for_nested};
pub use service_error::ServiceError;
pub(crate) use show::{age_ms, chain, label, mode, plural, tenure, text, who};
pub(crate) use signals::Signals;
pub(crate) use span::{span, spell};
pub(crate) use supervise::{Holding, LeaseBudget, Supervised, supervise};

use conclave_client::{Error, Loss, Session};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::runtime::Runtime;

use crate::{Done, Failure};

/// The argument by which the program knows that it is the idle spinner of a node.
pub(crate) const IDLE_SPINNER: &str = "__awake";

/// Runs a future on a runtime with one thread.
pub(crate) fn wait<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    one_thread()?.block_on(work)
}

/// Where tasks run, one at a time: all of them wait most of the time, and threads would only wake each other.
pub(crate) fn one_thread() -> Result<Runtime, ServiceError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| ServiceError::Stopped(format!("cannot begin: {error}")))
}

/// What a session is called, for people, unless they say otherwise.
pub(crate) fn name(given: Option<&String>, command: &[OsString]) -> String {
    let process = std::process::id();
    let named = || {
        let program = command.first().and_then(|program| Path::new(program).file_name());
        let program = program.map_or_else(|| "conclave".into(), |name| name.to_string_lossy());
        format!("{}[{process}]", program.chars().take(50).collect::<String>())
    };
    given.cloned().unwrap_or_else(named)
}

/// How long closing a session may take.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);
/// The same, when the user's patience is over: a node that answers needs no longer.
const SHORT_CLOSE_LIMIT: Duration = Duration::from_millis(250);

/// Ends a session and all that it holds. If no node can be told at once, another process tells it as soon as that is
/// possible, and this one goes on.
pub(crate) async fn close_session(session: Session, service: &ServiceArgs, log: &Log) {
    close_within(CLOSE_LIMIT, session, service, log).await;
}

/// The same for a user who may have waited for as long as was said.
pub(crate) async fn give_up(
    patience: &Patience,
    session: Session,
    service: &ServiceArgs,
    log: &Log,
) {
    let limit = if patience.is_over() { SHORT_CLOSE_LIMIT } else { CLOSE_LIMIT };
    close_within(limit, session, service, log).await;
}

async fn close_within(limit: Duration, session: Session, service: &ServiceArgs, log: &Log) {
    let credentials = session.credentials();
    match tokio::time::timeout(limit, session.close()).await {
        // It could not be renewed; and while its node is down, it does not get older there.
        Err(_) | Ok(Err(Error::SessionLost(Loss::Expired))) => {}
        Ok(_) => return,
    }
    let Some(credentials) = credentials else { return };
    let ttl = spell(credentials.ttl());
    let text = match release::in_background(&credentials, service.environment()) {
        Ok(()) => format!(
            "no node could be told yet that it is over; a process in the background goes on trying for {}, and \
             others wait until then, or for up to {ttl} of the node's time",
            spell(release::patience(&credentials)),
        ),
        Err(error) => format!(
            "no node could be told that it is over, and others wait for up to {ttl} of the node's time ({error})"
        ),
    };
    log.info("untold", &text);
}

/// Leaves a session to its lease, because something that it holds a lock for may still run.
pub(crate) fn abandon(session: Session, log: &Log) {
    let text = format!(
        "nested commands may still run, and what they hold is held until the lease ends, for up to {}",
        spell(session.ttl()),
    );
    log.info("abandoned", &text);
    // To drop it would be to close it.
    std::mem::forget(session);
}

/// Ends as a command has ended.
pub(crate) fn end_as(status: ExitStatus, had_terminal: bool) -> Done {
    match status.signal() {
        None => Done::Code(u8::try_from(status.code().unwrap_or_default()).unwrap_or(u8::MAX)),
        Some(signal) => {
            if had_terminal && signal == Signal::SIGINT as i32 {
                // What was typed was meant for all who were started together, and came to the command only.
                let _ = kill(Pid::from_raw(0), Signal::SIGINT);
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
            Done::signal(signal)
        }
    }
}
