//! What happens to a session, as server-sent events: for clients that have no stream, but want to know at once that a
//! lock is theirs no more.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use conclave_api::{Code, v1};
use conclave_machine::SessionId;
use futures_util::{StreamExt, stream};
use v1::tell::What as Told;

use super::body::{Handle, Refusal};
use crate::access::Caller;
use crate::listen::HangUp;
use crate::service::{Service, unknown};
use crate::translate::failed;

/// How many may listen to what happens to one session.
const MOST_LISTENERS: usize = 16;

/// Tells what a session has, and from then on what it loses.
pub(super) fn events(
    service: &Arc<Service>,
    caller: &Caller,
    handle: Handle,
    hang_up: Option<HangUp>,
) -> Result<Response, Refusal> {
    let session = SessionId(handle.session);
    service.check_key(caller, session, handle.key)?;
    let (to, answers) = service.enter(caller, hang_up);
    let has = service.node.see_with_hub(|hub, eye| {
        let has = eye.machine.session(session).ok_or_else(|| unknown(session))?;
        if hub.listen(session, &to) > MOST_LISTENERS {
            hub.forget(to.connection());
            let message =
                format!("at most {MOST_LISTENERS} may listen to what happens to one session");
            return Err(failed(Code::TooMany, message));
        }
        hub.remind(session, eye.machine, eye.now);
        Ok(eye.session(has))
    })?;
    let first = Event::default().event("session").json_data(has);
    let later = answers.filter_map(|tell| ready(tell.what.and_then(event)));
    let all = stream::iter(first.ok()).chain(later).map(Ok::<_, Infallible>);
    Ok(Sse::new(all).keep_alive(KeepAlive::default()).into_response())
}

/// What has happened to a session, as an event; answers to what it asked are none.
fn event(told: Told) -> Option<Event> {
    let event = |name: &str| Event::default().event(name);
    let event = match told {
        Told::Lost(lost) => event("lost").json_data(lost),
        Told::Deposed(deposed) => event("deposed").json_data(deposed),
        Told::Yield(asked) => event("yield").json_data(asked),
        Told::Wounded(wounded) => event("wounded").json_data(wounded),
        Told::Ended(ended) => event("ended").json_data(ended),
        _ => return None,
    };
    event.ok()
}
