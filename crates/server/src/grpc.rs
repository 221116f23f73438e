//! `conclave.v1` over gRPC.

use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use conclave_api::v1::conclave_server::Conclave;
use conclave_api::{Code, v1};
use conclave_machine::Name;
use futures_util::stream::{BoxStream, Stream, StreamExt};
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};
use v1::tell::What as Told;

use crate::access::{Caller, Right};
use crate::listen::HangUp;
use crate::service::Service;
use crate::talk::{AT_ONCE, Talk, Turn};
use crate::translate::election_fits;

/// The gRPC service of a node.
pub(crate) struct Grpc(pub(crate) Arc<Service>);

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Conclave for Grpc {
    type TalkStream = Conversation;

    async fn talk(&self, request: Request<Streaming<v1::Ask>>) -> Answer<Self::TalkStream> {
        let caller = self.caller(&request)?;
        let talk = Talk::new(self.0.clone(), caller, request.extensions().get().cloned());
        Ok(Response::new(Conversation { talk, asked: Some(request.into_inner()) }))
    }

    async fn call(&self, request: Request<v1::Ask>) -> Answer<v1::Tell> {
        let caller = self.caller(&request)?;
        let patience = patience(request.metadata());
        let ask = request.into_inner();
        let (session, id) = (ask.session, ask.id);
        let told = tokio::time::timeout(patience, self.0.call(&caller, ask)).await;
        let told = told.map_err(|_| Status::deadline_exceeded("it could not be had in time"))?;
        let what = told.map_err(|failed| self.status(failed))?;
        Ok(Response::new(v1::Tell { session, id, what: Some(what) }))
    }

    type ObserveStream = BoxStream<'static, Result<v1::Leader, Status>>;

    async fn observe(&self, request: Request<v1::ObserveElection>) -> Answer<Self::ObserveStream> {
        let caller = self.caller(&request)?;
        let hang_up = request.extensions().get().cloned();
        let election = request.into_inner().election;
        let allowed = caller.may(Right::Observe, &election);
        let allowed = allowed.and_then(|()| election_fits(&election));
        allowed.map_err(|failed| self.status(failed))?;
        Ok(Response::new(observation(&self.0, &caller, &election.into(), hang_up).map(Ok).boxed()))
    }

    async fn locks(&self, request: Request<v1::ListLocks>) -> Answer<v1::LockList> {
        let caller = self.caller(&request)?;
        Ok(Response::new(self.0.locks(&caller, request.get_ref())))
    }

    async fn sessions(&self, request: Request<v1::ListSessions>) -> Answer<v1::SessionList> {
        let caller = self.caller(&request)?;
        self.respond(self.0.sessions(&caller, request.get_ref()))
    }

    async fn elections(&self, request: Request<v1::ListElections>) -> Answer<v1::ElectionList> {
        let caller = self.caller(&request)?;
        Ok(Response::new(self.0.elections(&caller, request.get_ref())))
    }

    async fn why(&self, request: Request<v1::Named>) -> Answer<v1::Reasons> {
        let caller = self.caller(&request)?;
        self.respond(self.0.why(&caller, request.get_ref()))
    }

    async fn graph(&self, request: Request<v1::ShowGraph>) -> Answer<v1::WaitGraph> {
        let caller = self.caller(&request)?;
        self.respond(self.0.graph(&caller))
    }

    async fn force_release(&self, request: Request<v1::TakeLock>) -> Answer<v1::Done> {
        let caller = self.caller(&request)?;
        self.respond(self.0.force_release(&caller, request.into_inner()).await)
    }

    async fn expel(&self, request: Request<v1::EndSession>) -> Answer<v1::Done> {
        let caller = self.caller(&request)?;
        self.respond(self.0.expel(&caller, request.into_inner()).await)
    }

    async fn expel_all(&self, request: Request<v1::EndSessions>) -> Answer<v1::Expelled> {
        let caller = self.caller(&request)?;
        self.respond(self.0.expel_all(&caller, request.into_inner()).await)
    }

    async fn depose(&self, request: Request<v1::EndLeadership>) -> Answer<v1::Done> {
        let caller = self.caller(&request)?;
        self.respond(self.0.depose(&caller, request.into_inner()).await)
    }

    async fn status(&self, request: Request<v1::ShowStatus>) -> Answer<v1::NodeStatus> {
        self.caller(&request)?;
        Ok(Response::new(self.0.status()))
    }
}

/// What a client is told on a stream.
pub(crate) struct Conversation {
    talk: Talk,
    /// What it asks, until one of them ends it.
    asked: Option<Streaming<v1::Ask>>,
}

impl Stream for Conversation {
    type Item = Result<v1::Tell, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { talk, asked } = &mut *self;
        for _ in 0..AT_ONCE {
            let Some(asks) = asked else { return Poll::Ready(None) };
            match ready!(talk.poll_turn(asks, cx)) {
                Turn::Tell(tell) => return Poll::Ready(Some(Ok(tell))),
                Turn::Asked => {}
                Turn::Over => {
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
    /// Who asks.
    fn caller<T>(&self, request: &Request<T>) -> Result<Caller, Status> {
        let shown = request.metadata().get("authorization").map(|value| value.as_bytes());
        let caller = self.0.access.caller(shown).map_err(|failed| self.status(failed))?;
        Ok(caller.on(request.extensions().get()))
    }

    fn respond<T>(&self, answer: Result<T, v1::Failed>) -> Answer<T> {
        answer.map(Response::new).map_err(|failed| self.status(failed))
    }

    fn status(&self, failed: v1::Failed) -> Status {
        self.0.node.metrics.refuse(&failed.code);
        status(failed)
    }
}

/// How long whoever calls is ready to wait, which gRPC has in a header: some digits and a unit.
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
fn status(failed: v1::Failed) -> Status {
    let code = Code::parse(&failed.code).map_or(tonic::Code::Unknown, Code::grpc_status);
    let mut status = Status::new(code, failed.message);
    let code =
        failed.code.parse().unwrap_or_else(|_| Code::BadRequest.as_str().parse().expect("ASCII"));
    status.metadata_mut().insert("conclave-code", code);
    if let Some(retry_ms) = failed.retry_ms {
        status.metadata_mut().insert("conclave-retry-ms", retry_ms.into());
    }
    status
}

/// Who leads an election, now and later.
pub(crate) fn observation(
    service: &Arc<Service>,
    caller: &Caller,
    election: &Name,
    hang_up: Option<HangUp>,
) -> impl Stream<Item = v1::Leader> + Send + 'static + use<> {
    let (to, answers) = service.enter(caller, hang_up);
    service.node.see_with_hub(|hub, eye| {
        hub.observe(election, &to);
        to.tell(0, 0, Told::Leader(eye.leader(election)));
    });
    answers.filter_map(|tell| {
        ready(match tell.what {
            Some(Told::Leader(leader)) => Some(leader),
            _ => None,
        })
    })
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
