//! The connection: one stream to one of the servers at a time, and another when it breaks.

use std::future::poll_fn;
use std::io;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use conclave_api::v1::conclave_client::ConclaveClient;
use conclave_api::v1::tell::What as Told;
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

use crate::book::{Book, Shared};
use crate::place::{LONGEST_ANSWER, Place, Wire};
use crate::{Error, Loss};

/// The server's methods.
pub(crate) type Rpc = ConclaveClient<InterceptedService<Channel, Bearer>>;

/// How the connection does.
#[derive(Clone, Default)]
pub(crate) struct Line {
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

/// Does all that a client does in the background, until it has nothing to do any more.
pub(crate) async fn run(
    shared: Arc<Shared>,
    places: Vec<Place>,
    bearer: Option<MetadataValue<Ascii>>,
) {
    let running = Running(shared);
    let (line, heart) = (running.0.clone(), running.0.clone());
    // Tasks of their own: whatever the server says would wake the heart, too.
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { line.stay_connected(&places, &Bearer(bearer)).await });
    tasks.spawn(async move { heart.beat().await });
    // The first never ends by itself, and the second when there is nothing to do any more.
    if let Some(Err(error)) = tasks.join_next().await
        && error.is_panic()
    {
        resume_unwind(error.into_panic());
    }
}

/// If the task ends, for whatever reason, nothing is renewed any more.
struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.line.send_replace(Line::default());
        self.0.visit(|book| {
            book.outbox = None;
            book.abandon_all();
        });
    }
}

impl Shared {
    async fn stay_connected(&self, places: &[Place], bearer: &Bearer) {
        let mut next = fastrand::usize(..places.len());
        let mut failures = 0;
        loop {
            let place = &places[next % places.len()];
            match self.dial(place, bearer).await {
                Ok((rpc, wire)) => {
                    let (outbox, asks) = mpsc::unbounded_channel();
                    self.line.send_replace(Line { rpc: Some(rpc), ..Line::default() });
                    self.visit(|book| {
                        book.outbox = Some(outbox);
                        book.repeat_all();
                        // Whoever was to be hung up on was another.
                        let _ = self.hang_up.notified().now_or_never();
                    });
                    let error = self.talk(wire, asks).await;
                    self.visit(|book| book.outbox = None);
                    self.line.send_replace(Line { error: Some(error), ..Line::default() });
                    // It was fine until now, and may be again.
                    failures = 0;
                }
                Err(error) => {
                    failures += 1;
                    self.line.send_replace(Line { rpc: None, error: Some(error), failures });
                }
            }
            next += 1;
            tokio::time::sleep(self.pause(failures, places.len())).await;
        }
    }

    /// How long to wait after so many failures in a row: longer each time all servers were tried, never the
    /// same for all clients, and never so long that a server comes back in time and a session is lost
    /// all the same.
    fn pause(&self, failures: u32, endpoints: usize) -> Duration {
        let rounds = failures / u32::try_from(endpoints).unwrap_or(u32::MAX);
        let longest = SHORTEST_PAUSE * 2_u32.saturating_pow(rounds.min(16));
        let longest = longest.min(self.options.longest_pause);
        let longest =
            self.visit(|book| book.shortest_ttl()).map_or(longest, |ttl| longest.min(ttl / 8));
        longest.mul_f64(fastrand::f64())
    }

    async fn dial(&self, place: &Place, bearer: &Bearer) -> Result<(Rpc, Wire), Error> {
        // A server that keeps silent is not to cost a session that another could still renew.
        let ttl = self.visit(|book| book.shortest_ttl()).unwrap_or(Duration::MAX);
        let patience = self.options.connect_timeout.min(ttl / 4);
        let uri = place.endpoint.uri();
        let wire = tokio::time::timeout(patience, place.dial(bearer.header().as_ref()))
            .await
            .map_err(|_| Error::Unreachable(format!("{uri} does not answer")))??;
        let channel = place.endpoint.connect_lazy();
        let rpc = ConclaveClient::with_interceptor(channel, bearer.clone());
        Ok((rpc.max_decoding_message_size(LONGEST_ANSWER), wire))
    }

    /// Listens and asks until the connection breaks, and says why it did.
    async fn talk(&self, mut wire: Wire, mut asks: Asks) -> Error {
        let broken = tokio::select! {
            biased;
            () = self.hang_up.notified() => "the server is silent".to_owned(),
            broken = poll_fn(|cx| self.poll_wire(&mut wire, &mut asks, cx)) => broken,
        };
        Error::Unreachable(broken)
    }

    /// Is ready when the connection is broken.
    fn poll_wire(&self, wire: &mut Wire, asks: &mut Asks, cx: &mut Context<'_>) -> Poll<String> {
        while let Poll::Ready(told) = Pin::new(&mut *wire).poll_next(cx) {
            match told {
                Some(Ok(tell)) => self.visit(|book| book.hear(tell)),
                Some(Err(error)) => return Poll::Ready(error.to_string()),
                None => return Poll::Ready("the server hung up".to_owned()),
            }
        }
        match ready!(poll_say(wire, asks, cx)) {
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(error.to_string()),
        }
    }
}

/// Says all that is to be said at present.
fn poll_say(wire: &mut Wire, asks: &mut Asks, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    let mut wire = Pin::new(wire);
    loop {
        ready!(wire.as_mut().poll_ready(cx))?;
        match asks.poll_recv(cx) {
            Poll::Ready(Some(ask)) => wire.as_mut().start_send(ask)?,
            Poll::Ready(None) | Poll::Pending => return wire.poll_flush(cx),
        }
    }
}

/// What is to be asked.
type Asks = mpsc::UnboundedReceiver<Ask>;

impl Book {
    /// Takes note of what the server says.
    pub(crate) fn hear(&mut self, tell: Tell) {
        (self.heard, self.suspect) = (true, None);
        let Tell { session, id, what } = tell;
        let Some(what) = what else { return };
        match (session, id, what) {
            (_, id, Told::Alive(alive)) => {
                // Before the lease is renewed, for these leaderships are not.
                for v1::DeposedLeader { session, term, cause, .. } in alive.deposed {
                    let cause = v1::Cause::try_from(cause).unwrap_or(v1::Cause::Preempted);
                    if let Some(tracked) = self.sessions.get_mut(&session) {
                        tracked.depose(term, cause.into(), true);
                    }
                }
                self.renewed(id, &alive.gone, self.time.now());
            }
            (_, id, Told::Opened(opened)) => self.opened(id, &opened),
            (0, id, Told::Failed(failed)) => {
                self.not_renewed(id, self.time.now());
                self.not_opened(id, *failed);
            }
            (_, 0, Told::Ended(ended)) => self.ended(session, ended.cause().into()),
            (_, 0, Told::Lost(lost)) => self.lost(session, &lost),
            (_, 0, Told::Deposed(deposed)) => {
                if let Some(tracked) = self.sessions.get_mut(&session) {
                    let confirm = deposed.left_ms.is_some();
                    tracked.depose(deposed.term, deposed.cause().into(), confirm);
                }
            }
            (_, 0, Told::Yield(please)) => {
                let terms = self.sessions.get(&session).map(|tracked| &tracked.terms);
                if let Some(led) = terms.and_then(|terms| terms.get(&please.term)) {
                    let within = Duration::from_millis(please.within_ms);
                    led.term.ask_to_yield(self.time.now().plus(within));
                }
            }
            (_, 0, Told::Wounded(v1::Wounded { owner, by })) => {
                if let Some(tracked) = self.sessions.get(&session) {
                    tracked.vital.wound(owner, by);
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
        let Some(tracked) = self.sessions.get_mut(&session) else { return };
        if let Some(held) = tracked.holds.get(&lost.token) {
            held.hold.lose(Loss::from(lost.cause()));
            if held.hold.locks.len() == 1 {
                tracked.holds.remove(&lost.token);
            }
        }
    }
}
