//! The listening socket: connections as they come, over TLS if told so, each of them counted, and none
//! that outlasts its client.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use prometheus_client::metrics::counter::Counter;
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admission::{Admission, PATIENCE as REFUSAL, Slot, refuse};
use crate::metrics::Metrics;
use crate::tls::Certificates;

/// How many connections may wait to be taken, when many come at once.
const BACKLOG: u32 = 4096;

/// How often a client that says nothing is asked whether it is there.
const PROBES: u32 = 3;

/// The shortest and the longest pause after the system has refused to hand over a connection.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Listens, without accepting connections yet.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// The listening socket, and how its connections are accepted.
pub(crate) struct Listener {
    pub(crate) listener: TcpListener,
    pub(crate) tls: Option<Certificates>,
    /// A client that has sent nothing for so long is probed.
    pub(crate) silence: Duration,
    /// How long a client may take for the TLS handshake, or for its first byte.
    pub(crate) patience: Duration,
    pub(crate) admission: Admission,
    pub(crate) metrics: Arc<Metrics>,
}

impl Listener {
    /// Accepts connections until the server closes and all have ended, except those that were upgraded.
    pub(crate) async fn take_all<F>(
        self,
        closing: CancellationToken,
        serve: impl Fn(Connection) -> F + Clone + Send + 'static,
    ) where
        F: Future<Output = ()> + Send,
    {
        let served = TaskTracker::new();
        let mut pause = SHORTEST_PAUSE;
        while let Some(come) = closing.run_until_cancelled(self.listener.accept()).await {
            let tcp = match come {
                Ok((tcp, _)) => tcp,
                // That client has gone again.
                Err(error) if is_of_one_client(&error) => continue,
                Err(error) => {
                    self.metrics.accept_errors.inc();
                    tracing::warn!(%error, "cannot take connections, and tries again");
                    closing.run_until_cancelled(tokio::time::sleep(pause)).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    continue;
                }
            };
            pause = SHORTEST_PAUSE;
            let (tls, ends) = (self.tls.as_ref().map(Certificates::current), closing.clone());
            let (slot, silence) = (self.admission.admit(), self.silence);
            // A client that is refused must not delay the refusal of the next.
            let patience = if slot.is_some() { self.patience } else { REFUSAL };
            let established = async move {
                let established = tokio::time::timeout(patience, handshake(tcp, tls, silence));
                ends.run_until_cancelled(established).await?.ok()?.ok()
            };
            if let Some(slot) = slot {
                let (serve, unresponsive) = (serve.clone(), self.metrics.unresponsive.clone());
                served.spawn(async move {
                    if let Some(io) = established.await {
                        serve(Connection::new(io, slot, unresponsive)).await;
                    }
                });
            } else {
                let turned_away = closing.run_until_cancelled(self.admission.turn_away()).await;
                let reason = self.admission.reason();
                served.spawn(async move {
                    match established.await {
                        Some(Io::Plain(tcp)) => refuse(tcp, &reason).await,
                        Some(Io::Tls(tls)) => refuse(tls, &reason).await,
                        None => {}
                    }
                    drop(turned_away);
                });
            }
        }
        drop(self);
        served.close();
        served.wait().await;
    }
}

/// Whether an error concerns only the client that was to be accepted.
fn is_of_one_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}

/// Sets the socket up, and waits for the TLS handshake or the first byte.
async fn handshake(tcp: TcpStream, tls: Option<TlsAcceptor>, silence: Duration) -> io::Result<Io> {
    tcp.set_nodelay(true)?;
    if tcp.peer_addr()?.ip().is_loopback() {
        // Nothing is congested within one machine, and this is what takes the least of its time. A system that
        // has been told otherwise may refuse.
        let _ = sockopt::set_tcp_congestion(&tcp, "reno");
    }
    sockopt::set_socket_keepalive(&tcp, true)?;
    // This is for clients without HTTP/2, which asks by itself, and counts in whole seconds.
    let seconds = |span: Duration| span.max(Duration::from_secs(1));
    let (idle, pause) = (seconds(silence), seconds(silence / PROBES));
    sockopt::set_tcp_keepidle(&tcp, idle)?;
    sockopt::set_tcp_keepintvl(&tcp, pause)?;
    sockopt::set_tcp_keepcnt(&tcp, PROBES)?;
    // No probes are sent while data is unacknowledged; so that has to be acknowledged within as long.
    let patience = (idle + pause * PROBES).as_millis().min(i32::MAX as u128);
    sockopt::set_tcp_user_timeout(&tcp, patience as u32)?;
    Ok(match tls {
        Some(tls) => {
            let peer = tcp.peer_addr()?;
            let accepted = tls.accept(tcp).await.inspect_err(|error| {
                let event = "tls-handshake-failed";
                tracing::info!(event, %peer, %error, "a client could not connect over TLS");
            });
            Io::Tls(Box::new(accepted?))
        }
        None => {
            tcp.readable().await?;
            Io::Plain(tcp)
        }
    })
}

/// A client's connection.
pub(crate) struct Connection {
    io: Io,
    hang_up: HangUp,
    /// Counts those whose system has not confirmed anything for too long; each once.
    unresponsive: Option<Counter>,
    _slot: Slot,
}

/// Ends a connection at once, whatever is still to be sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct HangUp(Arc<Hanging>);

#[derive(Debug, Default)]
struct Hanging {
    /// Where the client is.
    peer: Option<IpAddr>,
    up: AtomicBool,
    /// The task that serves the connection.
    task: AtomicWaker,
}

impl HangUp {
    fn of(io: &Io) -> Self {
        let tcp = match io {
            Io::Plain(tcp) => tcp,
            Io::Tls(tls) => tls.get_ref().0,
        };
        let peer = tcp.peer_addr().ok().map(|peer| peer.ip().to_canonical());
        Self(Arc::new(Hanging { peer, ..Hanging::default() }))
    }

    /// The address of the client.
    pub(crate) fn peer(&self) -> Option<IpAddr> {
        self.0.peer
    }

    pub(crate) fn now(&self) {
        self.0.up.store(true, Ordering::SeqCst);
        self.0.task.wake();
    }

    /// Fails if it was; if not yet, the task is woken when it is.
    fn check(&self, cx: &Context<'_>) -> io::Result<()> {
        self.0.task.register(cx.waker());
        if self.0.up.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(())
    }
}

enum Io {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connection {
    fn new(io: Io, slot: Slot, unresponsive: Counter) -> Self {
        let (hang_up, unresponsive) = (HangUp::of(&io), Some(unresponsive));
        Self { io, hang_up, unresponsive, _slot: slot }
    }

    /// Takes note of it if the system has given the client up: it has closed its window, or its cable is cut.
    fn note<T>(&mut self, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let Poll::Ready(Err(error)) = &result
            && error.kind() == io::ErrorKind::TimedOut
            && let Some(unresponsive) = self.unresponsive.take()
        {
            unresponsive.inc();
        }
        result
    }

    /// With which it can be ended from elsewhere.
    pub(crate) fn hang_up(&self) -> HangUp {
        self.hang_up.clone()
    }
}

/// Does the same with whichever it is.
macro_rules! with_io {
    ($connection:expr, $io:ident => $work:expr) => {{
        let connection = $connection.get_mut();
        let result = match &mut connection.io {
            Io::Plain(tcp) => {
                let $io = Pin::new(tcp);
                $work
            }
            Io::Tls(tls) => {
                let $io = Pin::new(&mut **tls);
                $work
            }
        };
        connection.note(result)
    }};
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.hang_up.check(cx)?;
        with_io!(self, io => io.poll_read(cx, buffer))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.hang_up.check(cx)?;
        with_io!(self, io => io.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // Most often there is one, for which the system has a shorter way.
        if let [bytes] = slices {
            return self.poll_write(cx, bytes);
        }
        self.hang_up.check(cx)?;
        with_io!(self, io => io.poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.io {
            Io::Plain(tcp) => tcp.is_write_vectored(),
            Io::Tls(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with_io!(self, io => io.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with_io!(self, io => io.poll_shutdown(cx))
    }
}
