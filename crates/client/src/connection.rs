//! The connection: one stream to one of the servers at a time; when it breaks, the next is tried.

use std::future::poll_fn;
use std::io;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use conclave_api::v1::conclave_client::ConclaveClient;
use conclave_api::v1::tell::What as ServerMessage;
use conclave_api::v1::{self, Ask, Tell};
use futures_util::{FutureExt, Sink, Stream};
use hyper::header::HeaderValue;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::endpoint::{Endpoint, LONGEST_ANSWER, MessageStream};
use crate::state::{Shared, State};
use crate::{Error, Loss};

/// The server's methods.
pub(crate) type Rpc = ConclaveClient<InterceptedService<Channel, Bearer>>;

/// The state of the connection.
#[derive(Clone, Default)]
pub(crate) struct ConnectionStatus {
    /// The server that is connected.
    pub(crate) rpc: Option<Rpc>,
    /// Why the last attempt failed.
    pub(crate) error: Option<Error>,
    /// How many attempts have failed in a row.
    pub(crate) failures: u32,
}

/// Shows the client's token with every call.
#[derive(Clone)]
pub(crate) struct Bearer(pub(crate) Option<MetadataValue<Ascii>>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(bearer) = &self.0 {
            request.metadata_mut().insert("authorization", bearer.clone());
        }
        Ok(request)
    }
}

impl Bearer {
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        let mut header = HeaderValue::from_bytes(self.0.as_ref()?.as_bytes()).ok()?;
        header.set_sensitive(true);
        Some(header)
    }
}

/// The shortest pause after an attempt that failed.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

/// The background work of a client: the connection and the renewals. Ends when nothing is left to do.
pub(crate) async fn run(
    shared: Arc<Shared>,
    endpoints: Vec<Endpoint>,
    bearer: Option<MetadataValue<Ascii>>,
) {
    let running = Running(shared);
    let (connector, renewer) = (running.0.clone(), running.0.clone());
    // Tasks of their own: each message of the server would wake the renewals, too.
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { connector.stay_connected(&endpoints, &Bearer(bearer)).await });
    tasks.spawn(async move { renewer.keep_alive().await });
    // The first never ends by itself, the second when nothing is left to do.
    if let Some(Err(error)) = tasks.join_next().await
        && error.is_panic()
    {
        resume_unwind(error.into_panic());
    }
}

/// When the task ends, for whatever reason, nothing is renewed any more, and all sessions are over.
struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.connection.send_replace(ConnectionStatus::default());
        self.0.with_state(|state| {
            state.outbox = None;
            state.abandon_all();
        });
    }
}

impl Shared {
    async fn stay_connected(&self, endpoints: &[Endpoint], bearer: &Bearer) {
        let mut next = fastrand::usize(..endpoints.len());
        let mut failures = 0;
        loop {
            let endpoint = &endpoints[next % endpoints.len()];
            match self.dial(endpoint, bearer).await {
                Ok((rpc, stream)) => {
                    let (outbox, requests) = mpsc::unbounded_channel();
                    self.connection.send_replace(ConnectionStatus {
                        rpc: Some(rpc),
                        ..ConnectionStatus::default()
                    });
                    self.with_state(|state| {
                        state.outbox = Some(outbox);
                        state.repeat_all();
                        // A disconnect that was asked for concerned the connection before.
                        let _ = self.disconnect.notified().now_or_never();
                    });
                    let error = self.serve(stream, requests).await;
                    self.with_state(|state| state.outbox = None);
                    self.connection.send_replace(ConnectionStatus {
                        error: Some(error),
                        ..ConnectionStatus::default()
                    });
                    // It worked until now, so the next attempt begins with the shortest pause.
                    failures = 0;
                }
                Err(error) => {
                    failures += 1;
                    self.connection.send_replace(ConnectionStatus {
                        rpc: None,
                        error: Some(error),
                        failures,
                    });
                }
            }
            next += 1;
            tokio::time::sleep(self.pause(failures, endpoints.len())).await;
        }
    }

    /// How long to wait after so many failures in a row: exponential backoff with jitter, bounded so that a session
    /// is not lost although a server came back in time.
    fn pause(&self, failures: u32, endpoints: usize) -> Duration {
        let rounds = failures / u32::try_from(endpoints).unwrap_or(u32::MAX);
        let longest = SHORTEST_PAUSE * 2_u32.saturating_pow(rounds.min(16));
        let longest = longest.min(self.options.longest_pause);
        let longest = self
            .with_state(|state| state.shortest_ttl())
            .map_or(longest, |ttl| longest.min(ttl / 8));
        longest.mul_f64(fastrand::f64())
    }

    async fn dial(
        &self,
        endpoint: &Endpoint,
        bearer: &Bearer,
    ) -> Result<(Rpc, MessageStream), Error> {
        // A server that does not answer must not cost a session that another could still renew.
        let ttl = self.with_state(|state| state.shortest_ttl()).unwrap_or(Duration::MAX);
        let patience = self.options.connect_timeout.min(ttl / 4);
        let uri = endpoint.grpc.uri();
        let stream = tokio::time::timeout(patience, endpoint.dial(bearer.header().as_ref()))
            .await
            .map_err(|_| Error::Unreachable(format!("{uri} does not answer")))??;
        let channel = endpoint.grpc.connect_lazy();
        let rpc = ConclaveClient::with_interceptor(channel, bearer.clone());
        Ok((rpc.max_decoding_message_size(LONGEST_ANSWER), stream))
    }

    /// Reads and writes messages until the connection breaks, and returns why it did.
    async fn serve(&self, mut stream: MessageStream, mut requests: Requests) -> Error {
        let broken = tokio::select! {
            biased;
            () = self.disconnect.notified() => "the server is silent".to_owned(),
            broken = poll_fn(|cx| self.poll_stream(&mut stream, &mut requests, cx)) => broken,
        };
        Error::Unreachable(broken)
    }

    /// Is ready when the connection is broken.
    fn poll_stream(
        &self,
        stream: &mut MessageStream,
        requests: &mut Requests,
        cx: &mut Context<'_>,
    ) -> Poll<String> {
        while let Poll::Ready(message) = Pin::new(&mut *stream).poll_next(cx) {
            match message {
                Some(Ok(tell)) => self.with_state(|state| state.receive(tell)),
                Some(Err(error)) => return Poll::Ready(error.to_string()),
                None => return Poll::Ready("the server hung up".to_owned()),
            }
        }
        match ready!(poll_send(stream, requests, cx)) {
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(error.to_string()),
        }
    }
}

/// Sends all requests that are queued.
fn poll_send(
    stream: &mut MessageStream,
    requests: &mut Requests,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    let mut stream = Pin::new(stream);
    loop {
        ready!(stream.as_mut().poll_ready(cx))?;
        match requests.poll_recv(cx) {
            Poll::Ready(Some(ask)) => stream.as_mut().start_send(ask)?,
            Poll::Ready(None) | Poll::Pending => return stream.poll_flush(cx),
        }
    }
}

/// Requests on their way to the server.
type Requests = mpsc::UnboundedReceiver<Ask>;

impl State {
    /// Applies a message of the server.
    pub(crate) fn receive(&mut self, tell: Tell) {
        (self.received, self.suspect) = (true, None);
        let Tell { session, id, what } = tell;
        let Some(what) = what else { return };
        match (session, id, what) {
            (_, id, ServerMessage::Alive(alive)) => {
                // Before the lease is renewed: the renewal does not prolong these leaderships.
                for v1::DeposedLeader { session, term, cause, .. } in alive.deposed {
                    let cause = v1::Cause::try_from(cause).unwrap_or(v1::Cause::Preempted);
                    if let Some(session_state) = self.sessions.get_mut(&session) {
                        session_state.depose(term, cause.into(), true);
                    }
                }
                self.renewed(id, &alive.gone, self.time.now());
            }
            (_, id, ServerMessage::Opened(opened)) => self.opened(id, &opened),
            (0, id, ServerMessage::Failed(failed)) => {
                self.not_renewed(id, self.time.now());
                self.not_opened(id, *failed);
            }
            (_, 0, ServerMessage::Ended(ended)) => self.ended(session, ended.cause().into()),
            (_, 0, ServerMessage::Lost(lost)) => self.lost(session, &lost),
            (_, 0, ServerMessage::Deposed(deposed)) => {
                if let Some(session_state) = self.sessions.get_mut(&session) {
                    let confirm = deposed.left_ms.is_some();
                    session_state.depose(deposed.term, deposed.cause().into(), confirm);
                }
            }
            (_, 0, ServerMessage::Yield(please)) => {
                let terms = self.sessions.get(&session).map(|session_state| &session_state.terms);
                if let Some(led) = terms.and_then(|terms| terms.get(&please.term)) {
                    let within = Duration::from_millis(please.within_ms);
                    led.term.ask_to_yield(self.time.now().plus(within));
                }
            }
            (_, 0, ServerMessage::Wounded(v1::Wounded { owner, by })) => {
                if let Some(session_state) = self.sessions.get(&session) {
                    session_state.liveness.wound(owner, by);
                }
            }
            (0, ..) | (_, 0, _) => {}
            (session, id, what) => self.answered(session, id, what),
        }
    }

    fn not_opened(&mut self, id: u64, failed: v1::Failed) {
        if let Some(opening) = self.opening.remove(&id) {
            let _ = opening.reply.send(Err(failed.into()));
        }
    }

    fn lost(&mut self, session: u64, lost: &v1::Lost) {
        let Some(session_state) = self.sessions.get_mut(&session) else { return };
        if let Some(held) = session_state.holds.get(&lost.token) {
            held.hold.loss.set(Loss::from(lost.cause()));
            if held.hold.locks.len() == 1 {
                session_state.holds.remove(&lost.token);
            }
        }
    }
}
