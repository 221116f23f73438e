//! What the commands of the lock service have in common: how they reach a node, what they say, how they run a
//! command and see to it that it ends in time.

mod attend;
mod boottime;
mod child;
pub(crate) mod command_line;
mod connect;
mod descriptors;
mod foreground;
pub(crate) mod guard;
mod nested;
mod patience;
pub(crate) mod release;
mod run;
mod show;
mod signals;
mod span;
mod spawn;
mod trouble;
mod voice;

use std::ffi::OsString;
use std::future::Future;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

pub(crate) use attend::{Attended, Holding, Stay, attend};
pub(crate) use child::{Child, Ties, find};
pub use connect::ServiceArgs;
pub(crate) use connect::silence;
pub(crate) use nested::{Nest, Nested, OUTER_LOST, Stands, Wanted};
pub(crate) use patience::Patience;
pub(crate) use run::{Run, outlast};
pub(crate) use show::{age_ms, chain, label, mode, plural, tenure, text, who};
pub(crate) use signals::Signals;
pub(crate) use span::{span, spell};
pub use trouble::Trouble;
pub(crate) use voice::Voice;

use conclave_client::{Error, Loss, Session};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::runtime::Runtime;

use crate::{Done, Failure};

/// By which the program knows that it is to keep a processor awake for a node.
pub(crate) const AWAKE: &str = "__awake";

/// Does something that waits for others.
pub(crate) fn wait<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    one_thread()?.block_on(work)
}

/// Where tasks run, one at a time: all of them wait most of the time, and threads would only wake each other.
pub(crate) fn one_thread() -> Result<Runtime, Trouble> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Trouble::Stopped(format!("cannot begin: {error}")))
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

/// For how long the end of a session is waited for.
const FAREWELL: Duration = Duration::from_secs(1);
/// The same, when the user's patience is over: a node that answers needs no longer.
const BRIEF: Duration = Duration::from_millis(250);

/// Ends a session and all that it holds. If no node can be told at once, another process tells it as soon as that is
/// possible, and this one goes on.
pub(crate) async fn farewell(session: Session, service: &ServiceArgs, voice: &Voice) {
    farewell_within(FAREWELL, session, service, voice).await;
}

/// The same for a user who may have waited for as long as was said.
pub(crate) async fn give_up(
    patience: &Patience,
    session: Session,
    service: &ServiceArgs,
    voice: &Voice,
) {
    let limit = if patience.is_over() { BRIEF } else { FAREWELL };
    farewell_within(limit, session, service, voice).await;
}

async fn farewell_within(limit: Duration, session: Session, service: &ServiceArgs, voice: &Voice) {
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
    voice.say("untold", &text);
}

/// Leaves a session to its lease, because something that it holds a lock for may still run.
pub(crate) fn abandon(session: Session, voice: &Voice) {
    let text = format!(
        "nested commands may still run, and what they hold is held until the lease ends, for up to {}",
        spell(session.ttl()),
    );
    voice.say("abandoned", &text);
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
