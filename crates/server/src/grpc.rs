//! The front end for `conclave.v1` over gRPC.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use conclave_api::v1::conclave_server::Conclave;
use conclave_api::{Code, v1};
use conclave_machine::SessionId;
use futures_util::stream::{BoxStream, Stream, StreamExt};
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};
use v1::ask::What as ClientMessage;
use v1::tell::What as ServerMessage;

use crate::answer::Failure;
use crate::auth::{Caller, Right};
use crate::client_queue::Question;
use crate::codec;
use crate::service::{Service, SessionKey};
use crate::stream::{ClientStream, STEPS_AT_ONCE, Step};

/// The gRPC service of a node.
pub(crate) struct Grpc(pub(crate) Arc<Service>);

type Returned<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Conclave for Grpc {
    type TalkStream = ServerMessages;

    async fn talk(&self, request: Request<Streaming<v1::Ask>>) -> Returned<Self::TalkStream> {
        let caller = self.caller(&request)?;
        let hang_up = request.extensions().get().cloned();
        let stream = ClientStream::new(self.0.clone(), caller, hang_up);
        Ok(Response::new(ServerMessages { stream, asked: Some(request.into_inner()) }))
    }

    async fn call(&self, request: Request<v1::Ask>) -> Returned<v1::Tell> {
        let caller = self.caller(&request)?;
        let patience = patience(request.metadata());
        let ask = request.into_inner();
        let (session, id) = (ask.session, ask.id);
        let told = tokio::time::timeout(patience, call(&self.0, &caller, ask)).await;
        let told = told.map_err(|_| Status::deadline_exceeded("it could not be had in time"))?;
        let what = told.map_err(|failure| self.status(failure))?;
        Ok(Response::new(v1::Tell { session, id, what: Some(what) }))
    }

    type ObserveStream = BoxStream<'static, Result<v1::Leader, Status>>;

    async fn observe(
        &self,
        request: Request<v1::ObserveElection>,
    ) -> Returned<Self::ObserveStream> {
        let caller = self.caller(&request)?;
        let hang_up = request.extensions().get().cloned();
        let leaders = self.0.observe(&caller, &request.get_ref().election, hang_up);
        let leaders = leaders.map_err(|failure| self.status(failure))?;
        Ok(Response::new(leaders.map(|leader| Ok(codec::leader(&leader))).boxed()))
    }

    async fn locks(&self, request: Request<v1::ListLocks>) -> Returned<v1::LockList> {
        let caller = self.caller(&request)?;
        Ok(Response::new(codec::locks(&self.0, &caller, request.get_ref())))
    }

    async fn sessions(&self, request: Request<v1::ListSessions>) -> Returned<v1::SessionList> {
        let caller = self.caller(&request)?;
        self.respond(codec::sessions(&self.0, &caller, request.get_ref()))
    }

    async fn elections(&self, request: Request<v1::ListElections>) -> Returned<v1::ElectionList> {
        let caller = self.caller(&request)?;
        Ok(Response::new(codec::elections(&self.0, &caller, request.get_ref())))
    }

    async fn why(&self, request: Request<v1::Named>) -> Returned<v1::Reasons> {
        let caller = self.caller(&request)?;
        self.respond(self.0.why(&caller, &request.get_ref().name, |at, why| at.reasons(why)))
    }

    async fn graph(&self, request: Request<v1::ShowGraph>) -> Returned<v1::WaitGraph> {
        let caller = self.caller(&request)?;
        self.respond(self.0.graph(&caller, |at| at.graph()))
    }

    async fn force_release(&self, request: Request<v1::TakeLock>) -> Returned<v1::Done> {
        let caller = self.caller(&request)?;
        self.respond(codec::force_release(&self.0, &caller, request.into_inner()).await)
    }

    async fn expel(&self, request: Request<v1::EndSession>) -> Returned<v1::Done> {
        let caller = self.caller(&request)?;
        self.respond(codec::expel(&self.0, &caller, request.into_inner()).await)
    }

    async fn expel_all(&self, request: Request<v1::EndSessions>) -> Returned<v1::Expelled> {
        let caller = self.caller(&request)?;
        self.respond(codec::expel_all(&self.0, &caller, request.into_inner()).await)
    }

    async fn depose(&self, request: Request<v1::EndLeadership>) -> Returned<v1::Done> {
        let caller = self.caller(&request)?;
        self.respond(codec::depose(&self.0, &caller, request.into_inner()).await)
    }

    async fn status(&self, request: Request<v1::ShowStatus>) -> Returned<v1::NodeStatus> {
        self.caller(&request)?;
        Ok(Response::new(codec::status(self.0.state())))
    }
}

/// Answers a single call.
async fn call(service: &Service, caller: &Caller, ask: v1::Ask) -> Result<ServerMessage, Failure> {
    let v1::Ask { session, id, received, key, what } = ask;
    let session = SessionId(session);
    match what.ok_or_else(codec::nothing)? {
        ClientMessage::Echo(echo) => Ok(ServerMessage::Echo(echo)),
        ClientMessage::Open(open) => {
            let (key, answered) = service.open(caller, codec::new_session(open)).await?;
            Ok(codec::reply(Question { session, id, key }, answered))
        }
        ClientMessage::Observe(observe) => {
            caller.may(Right::Observe, &observe.election)?;
            Err(needs_stream())
        }
        ClientMessage::Attach(_) | ClientMessage::Unobserve(_) => Err(needs_stream()),
        what => {
            let ask = codec::ask(what, id, received)?;
            let answered = service.call(caller, SessionKey { session, key }, ask).await?;
            Ok(codec::reply(Question { session, id, key: 0 }, answered))
        }
    }
}

fn needs_stream() -> Failure {
    Failure::new(Code::BadRequest, "this needs a stream")
}

/// The messages to a client on a stream.
pub(crate) struct ServerMessages {
    stream: ClientStream,
    /// The messages from the client, until one of them ends the stream.
    asked: Option<Streaming<v1::Ask>>,
}

impl Stream for ServerMessages {
    type Item = Result<v1::Tell, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { stream, asked } = &mut *self;
        for _ in 0..STEPS_AT_ONCE {
            let Some(asks) = asked else { return Poll::Ready(None) };
            match ready!(stream.poll_step(asks, cx)) {
                Step::Send(tell) => return Poll::Ready(Some(Ok(tell))),
                Step::Received => {}
                Step::Over => {
                    *asked = None;
                    let status = Status::unavailable("the connection was ended");
                    return Poll::Ready(Some(Err(status)));
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Grpc {
    /// The caller, by the token that it shows.
    fn caller<T>(&self, request: &Request<T>) -> Result<Caller, Status> {
        let shown = request.metadata().get("authorization").map(|value| value.as_bytes());
        let caller = self.0.access.caller(shown).map_err(|failure| self.status(failure))?;
        Ok(caller.on(request.extensions().get()))
    }

    fn respond<T>(&self, answer: Result<T, Failure>) -> Returned<T> {
        answer.map(Response::new).map_err(|failure| self.status(failure))
    }

    fn status(&self, failure: Failure) -> Status {
        self.0.node.metrics.refuse(failure.code);
        status(failure)
    }
}

/// The deadline of a call, which gRPC has in a header: some digits and a unit.
fn patience(metadata: &MetadataMap) -> Duration {
    let said = metadata.get("grpc-timeout").and_then(|said| said.to_str().ok());
    let span = said.and_then(|said| {
        let (digits, unit) = said.split_at_checked(said.len().checked_sub(1)?)?;
        let number = digits.parse::<u32>().ok().filter(|_| digits.len() <= 8)?;
        Some(match unit {
            "H" => Duration::from_secs(3600) * number,
            "M" => Duration::from_secs(60) * number,
            "S" => Duration::from_secs(1) * number,
            "m" => Duration::from_millis(1) * number,
            "u" => Duration::from_micros(1) * number,
            "n" => Duration::from_nanos(1) * number,
            _ => return None,
        })
    });
    span.unwrap_or(Duration::MAX)
}

/// A failure as gRPC has it; the code that programs go by is in the metadata.
fn status(failure: Failure) -> Status {
    let failed = codec::failed(failure.clone());
    let mut status = Status::new(failure.code.grpc_status(), failed.message);
    let code = failure.code.as_str().parse().expect("codes are ASCII");
    status.metadata_mut().insert("conclave-code", code);
    if let Some(retry_ms) = failed.retry_ms {
        status.metadata_mut().insert("conclave-retry-ms", retry_ms.into());
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_read_as_grpc_writes_it() {
        let read = |said: &str| {
            let mut metadata = MetadataMap::new();
            metadata.insert("grpc-timeout", said.parse().expect("ASCII"));
            patience(&metadata)
        };
        assert_eq!(read("2H"), Duration::from_secs(7200));
        assert_eq!(read("3M"), Duration::from_secs(180));
        assert_eq!(read("99999999S"), Duration::from_secs(99_999_999));
        assert_eq!(read("100m"), Duration::from_millis(100));
        assert_eq!((read("5u"), read("5n")), (Duration::from_micros(5), Duration::from_nanos(5)));
        for nonsense in ["", "S", "5", "-5S", "5s", "123456789S", "5 S"] {
            assert_eq!(read(nonsense), Duration::MAX, "{nonsense:?}");
        }
        assert_eq!(patience(&MetadataMap::new()), Duration::MAX);
    }
}
