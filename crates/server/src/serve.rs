//! Puts a server together: the node, its front ends, and the listening socket.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use conclave_api::v1::conclave_server::ConclaveServer;
use conclave_api::{DEFAULT_ADDRESS, DESCRIPTORS, LONGEST_MESSAGE};
use futures_util::future::BoxFuture;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use prometheus_client::metrics::counter::Counter;
use thiserror::Error;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::codegen::Service as _;
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::admission::{self, Admission};
use crate::auth::Access;
use crate::grpc::Grpc;
use crate::http::{self, Hosts};
use crate::idle::{Activity, CountedBody};
use crate::listen::{self, Connection, Listener};
use crate::service::{Bounds, Service};
use crate::tls::{Certificates, Tls};
use crate::tokens::Tokens;
use crate::{Node, NodeError, Options};

/// How a server is started.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The node behind it.
    pub node: Options,
    /// Where it listens.
    pub listen: SocketAddr,
    /// How much one client may ask for.
    pub bounds: Bounds,
    /// With what it shows who it is, and finds out who others are.
    pub tls: Option<Tls>,
    /// The file of access tokens; only clients with one of them are let in then.
    pub tokens: Option<PathBuf>,
    /// Whether every client that can reach it may do anything, in the clear, from other machines, too.
    pub insecure: bool,
}

impl ServeOptions {
    /// A server that can be reached from this machine only.
    pub fn new(node: Options) -> Self {
        let listen = DEFAULT_ADDRESS.parse().expect("it is an address");
        let bounds = Bounds::default();
        Self { node, listen, bounds, tls: None, tokens: None, insecure: false }
    }
}

impl ServeOptions {
    /// Refuses to serve clients of other machines without TLS and authentication, unless told so.
    fn check_openness(&self) -> Result<(), ServeError> {
        let Self { listen, tls, tokens, insecure, .. } = self;
        if *insecure || listen.ip().is_loopback() {
            return Ok(());
        }
        match tls {
            None => Err(ServeError::Open(*listen, "without TLS")),
            Some(Tls { client_ca: None, .. }) if tokens.is_none() => {
                Err(ServeError::Open(*listen, "without asking who they are"))
            }
            Some(_) => Ok(()),
        }
    }
}

/// Why a server cannot start or go on.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The node cannot.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// It cannot listen.
    #[error("cannot listen on {address}: {error}{}", hint(.error))]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// Others could listen in, or take any lock.
    #[error(
        "refusing to listen on {0}, where other machines can reach it, {1}; give it a certificate (--tls-cert \
         and --tls-key) and either tokens (--tokens) or an authority that issues certificates to clients \
         (--client-ca), or listen on 127.0.0.1, or say --insecure if no other can get there"
    )]
    Open(SocketAddr, &'static str),
    /// There may not be so many connections.
    #[error(
        "there is room for {room} connections and not for {wanted}, because each is an open file; raise the limit \
         (ulimit -n, or LimitNOFILE in a systemd unit), or ask for fewer with --connections"
    )]
    Room {
        /// How many were asked for.
        wanted: usize,
        /// For how many there is room.
        room: usize,
    },
    /// A certificate or a key cannot be used.
    #[error("cannot use TLS: {0}")]
    Tls(String),
    /// The tokens cannot be read.
    #[error("cannot read the tokens in {path}: {error}")]
    Tokens {
        /// The file.
        path: PathBuf,
        /// Why.
        error: String,
    },
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; another program listens there: choose another port",
        io::ErrorKind::AddrNotAvailable => "; this machine has no such address",
        io::ErrorKind::PermissionDenied => "; ports below 1024 need a right of their own",
        _ => "",
    }
}

fn read(path: &Path) -> Result<Tokens, ServeError> {
    Tokens::read(path).map_err(|error| ServeError::Tokens { path: path.to_owned(), error })
}

/// How many streams and calls one connection may have open. Those who wait in queues are among them, and
/// to release a lock must be possible still.
const MOST_STREAMS: u32 = 20_000;

/// How often health is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Tells those who ask by gRPC whether anything is granted.
async fn report_health(health: HealthReporter, service: Weak<Service>) {
    let mut told = None;
    while let Some(service) = service.upgrade() {
        let well = service.node.illness().is_none();
        drop(service);
        if told != Some(well) {
            let status = if well { ServingStatus::Serving } else { ServingStatus::NotServing };
            health.set_service_status("", status).await;
            health.set_service_status(<ConclaveServer<Grpc> as NamedService>::NAME, status).await;
            told = Some(well);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// How connections are served.
fn way(bounds: &Bounds) -> Builder<TokioExecutor> {
    let mut way = Builder::new(TokioExecutor::new());
    // Who does not finish a question in time is not waited for; see `idle`.
    way.http1().timer(TokioTimer::new()).header_read_timeout(None);
    way.http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(bounds.silence)
        .keep_alive_timeout(bounds.silence)
        .max_concurrent_streams(MOST_STREAMS)
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(1 << 21);
    way
}

/// How long a client may take to hear that the connection ends.
const SHUTDOWN_LIMIT: Duration = Duration::from_millis(500);

/// Serves HTTP/1.1, HTTP/2 and gRPC on the connections of clients.
#[derive(Clone)]
struct Connections {
    way: Builder<TokioExecutor>,
    routes: Router,
    patience: Duration,
    idle: Counter,
    closing: CancellationToken,
}

impl Connections {
    /// Serves a connection until it ends, is idle for too long, or the server ends.
    async fn serve(self, connection: Connection) {
        let Self { way, routes, patience, idle, closing } = self;
        let (hang_up, activity) = (connection.hang_up(), Activity::new());
        let asked = activity.clone();
        let answer = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(hang_up.clone());
            let answering = asked.begin();
            let answer = routes.clone().call(request);
            async move {
                let answer = answer.await?;
                Ok::<_, Infallible>(answer.map(|body| CountedBody::new(body, answering)))
            }
        });
        let mut served = pin!(way.serve_connection_with_upgrades(TokioIo::new(connection), answer));
        tokio::select! {
            biased;
            // How it ended is between the two of them.
            _ = served.as_mut() => return,
            () = closing.cancelled() => {}
            () = activity.idle_for(patience) => drop(idle.inc()),
        }
        served.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(SHUTDOWN_LIMIT, served).await;
    }
}

/// How long it may take until the last commands are on disk.
const DRAINING: Duration = Duration::from_secs(5);

/// For how many milliseconds connections that do not end are waited for.
const PATIENCE: u32 = 2000;

/// A server that is up.
pub struct Server {
    address: SocketAddr,
    service: Arc<Service>,
    /// The file of access tokens.
    tokens: Option<PathBuf>,
    certificates: Option<Certificates>,
    listening: JoinHandle<()>,
}

impl Server {
    /// Starts a node and lets clients in.
    pub fn start(options: ServeOptions) -> BoxFuture<'static, Result<Self, ServeError>> {
        // Boxed, so that it is compiled here and not in every program that calls it.
        Box::pin(Self::begin(options))
    }

    async fn begin(options: ServeOptions) -> Result<Self, ServeError> {
        options.check_openness()?;
        let ServeOptions { node, listen, bounds, tls, tokens, .. } = options;
        let room = admission::room();
        let most = match bounds.connections {
            Some(wanted) if wanted > room => return Err(ServeError::Room { wanted, room }),
            Some(wanted) => wanted,
            None => room,
        };
        let certified = tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        let tls = tls.map(Certificates::read).transpose().map_err(ServeError::Tls)?;
        let certificates = tls.clone();
        let access = match &tokens {
            None => Access::Open,
            Some(path) => Access::Tokens(read(path)?.into()),
        };
        // Before the node, so that a port in use costs nothing.
        let bound =
            listen::bind(listen).and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) =
            bound.map_err(|error| ServeError::Listen { address: listen, error })?;
        let node = Arc::new(Node::open(node).await?);
        if let Some(certificates) = &certificates {
            certificates.measure(&node.metrics);
        }
        let known = certified || matches!(access, Access::Tokens(_));
        let service = Arc::new(Service::new(node, access, bounds));
        let grpc = ConclaveServer::new(Grpc(service.clone()));
        let grpc = grpc.max_decoding_message_size(LONGEST_MESSAGE);
        let (health, healthy) = tonic_health::server::health_reporter();
        health.set_serving::<ConclaveServer<Grpc>>().await;
        tokio::spawn(report_health(health, Arc::downgrade(&service)));
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .build_v1()
            .expect("the descriptors are well-formed");
        // Many tools still ask by the name that it had first.
        let reflection_before = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .build_v1alpha()
            .expect("the descriptors are well-formed");
        let grpc = Routes::new(grpc).add_service(healthy);
        let grpc = grpc.add_service(reflection).add_service(reflection_before);
        let hosts = if address.ip().is_loopback() && !known { Hosts::Local } else { Hosts::Any };
        let routes = http::add_routes(grpc.into_axum_router(), &service, hosts);
        let (closing, metrics) = (service.closing.clone(), service.node.metrics.clone());
        let connections = Connections {
            way: way(&bounds),
            routes,
            patience: bounds.patience,
            idle: metrics.idle.clone(),
            closing: closing.clone(),
        };
        let listener = Listener {
            listener,
            tls,
            silence: bounds.silence,
            patience: bounds.patience,
            admission: Admission::of(most, metrics.clone()),
            metrics,
        };
        let server =
            listener.take_all(closing, move |connection| connections.clone().serve(connection));
        Ok(Self { address, service, tokens, certificates, listening: tokio::spawn(server) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The node behind it.
    pub fn node(&self) -> &Node {
        &self.service.node
    }

    /// Reads the tokens again, and says how many there are. Clients whose token is not there any more, or has other
    /// rights, are sent away. If the file cannot be read, all stays as it is. Without tokens, there is nothing to do.
    pub fn read_tokens_again(&self) -> Result<usize, ServeError> {
        let Some(path) = &self.tokens else { return Ok(0) };
        let tokens = read(path)?;
        let count = tokens.len();
        self.service.access.replace(tokens);
        Ok(count)
    }

    /// Reads the certificates and their keys again, for connections that come from now on, and says whether there are
    /// any. If they cannot be used, all stays as it is.
    pub fn read_certificates_again(&self) -> Result<bool, ServeError> {
        let Some(certificates) = &self.certificates else { return Ok(false) };
        certificates.read_again().map_err(ServeError::Tls)?;
        certificates.measure(&self.service.node.metrics);
        Ok(true)
    }

    /// Stops: clients are sent away, and find their sessions as they left them when the node is up again.
    pub fn stop(self) -> BoxFuture<'static, Result<(), ServeError>> {
        Box::pin(self.end())
    }

    async fn end(self) -> Result<(), ServeError> {
        let Self { service, listening, .. } = self;
        // First the node grants nothing any more, since it could not answer; grants made so far are answered.
        let _ = tokio::time::timeout(DRAINING, service.node.drain()).await;
        service.close();
        // A connection that does not end by itself is not waited for.
        let _ = tokio::time::timeout(Duration::from_millis(PATIENCE.into()), listening).await;
        let mut node = service.node.clone();
        drop(service);
        // Its connections let go of it one after the other.
        for _ in 0..PATIENCE {
            node = match Arc::try_unwrap(node) {
                Ok(node) => return Ok(node.stop().await?),
                Err(used) => used,
            };
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // What was acknowledged is on disk in any case.
        Ok(())
    }
}
