//! Events of a session as server-sent events, for clients without a stream.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use conclave_api::{Code, v1};
use conclave_machine::SessionId;
use futures_util::{StreamExt, stream};
use v1::tell::What as ServerMessage;

use super::body::{Handle, Refusal};
use crate::answer::Failure;
use crate::auth::Caller;
use crate::client_queue::Delivery;
use crate::codec;
use crate::listen::HangUp;
use crate::service::{Service, SessionKey, unknown};

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
    service.check_key(caller, SessionKey { session, key: handle.key })?;
    let (queue, deliveries) = service.register(caller, hang_up);
    let has = service.node.see_with_dispatch(|dispatch, at| {
        let has = at.machine.session(session).ok_or_else(|| unknown(session))?;
        if dispatch.listen(session, &queue) > MOST_LISTENERS {
            dispatch.forget(queue.connection());
            let message =
                format!("at most {MOST_LISTENERS} may listen to what happens to one session");
            return Err(Failure::new(Code::TooMany, message));
        }
        dispatch.remind(session, at.machine, at.now);
        Ok(at.session(has))
    })?;
    let first = Event::default().event("session").json_data(has);
    let later = deliveries.filter_map(|delivery| ready(event(delivery)));
    let all = stream::iter(first.ok()).chain(later).map(Ok::<_, Infallible>);
    Ok(Sse::new(all).keep_alive(KeepAlive::default()).into_response())
}

/// Encodes what has happened to a session.
fn event(delivery: Delivery) -> Option<Event> {
    let Delivery::Event { event: happened, now, .. } = delivery else { return None };
    let event = |name: &str| Event::default().event(name);
    let event = match codec::event(happened, now)? {
        ServerMessage::Lost(lost) => event("lost").json_data(lost),
        ServerMessage::Deposed(deposed) => event("deposed").json_data(deposed),
        ServerMessage::Yield(asked) => event("yield").json_data(asked),
        ServerMessage::Wounded(wounded) => event("wounded").json_data(wounded),
        ServerMessage::Ended(ended) => event("ended").json_data(ended),
        _ => return None,
    };
    event.ok()
}
