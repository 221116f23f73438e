//! The listening socket, and all that answers there.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use conclave_api::v1::conclave_server::ConclaveServer;
use conclave_api::{DEFAULT_ADDRESS, DESCRIPTORS, LONGEST_MESSAGE};
use thiserror::Error;
use tokio::task::JoinHandle;
use tonic::transport::server::TcpIncoming;

use crate::access::Access;
use crate::grpc::Grpc;
use crate::service::{Bounds, Service};
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
}

impl ServeOptions {
    /// A server that can be reached from this machine only.
    pub fn new(node: Options) -> Self {
        let listen = DEFAULT_ADDRESS.parse().expect("it is an address");
        Self { node, listen, bounds: Bounds::default() }
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
    /// It listens no more.
    #[error("the server has stopped: {0}")]
    Stopped(String),
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; another program listens there: choose another port",
        io::ErrorKind::AddrNotAvailable => "; this machine has no such address",
        io::ErrorKind::PermissionDenied => "; ports below 1024 need a right of their own",
        _ => "",
    }
}

/// For how many milliseconds connections that do not end are waited for.
const PATIENCE: u32 = 2000;

/// A server that is up.
pub struct Server {
    address: SocketAddr,
    service: Arc<Service>,
    listening: JoinHandle<Result<(), tonic::transport::Error>>,
}

impl Server {
    /// Starts a node and lets clients in.
    pub async fn start(options: ServeOptions) -> Result<Self, ServeError> {
        let ServeOptions { node, listen, bounds } = options;
        // First, so that a port in use costs nothing.
        let incoming = TcpIncoming::bind(listen);
        let incoming = incoming.map_err(|error| ServeError::Listen { address: listen, error })?;
        let incoming = incoming.with_nodelay(Some(true));
        let address = incoming.local_addr();
        let address = address.map_err(|error| ServeError::Listen { address: listen, error })?;
        let node = Arc::new(Node::open(node).await?);
        let service = Arc::new(Service::new(node, Access::Anybody, bounds));
        let grpc = ConclaveServer::new(Grpc(service.clone()));
        let grpc = grpc.max_decoding_message_size(LONGEST_MESSAGE);
        let (health, healthy) = tonic_health::server::health_reporter();
        health.set_serving::<ConclaveServer<Grpc>>().await;
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .build_v1()
            .expect("the descriptors are well-formed");
        let closing = service.closing.clone();
        let server = tonic::transport::Server::builder()
            .accept_http1(true)
            .http2_keepalive_interval(Some(Duration::from_secs(10)))
            .http2_keepalive_timeout(Some(Duration::from_secs(10)))
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(1 << 21)
            .add_service(grpc)
            .add_service(healthy)
            .add_service(reflection)
            .serve_with_incoming_shutdown(incoming, closing.cancelled_owned());
        Ok(Self { address, service, listening: tokio::spawn(server) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The node behind it.
    pub fn node(&self) -> &Node {
        &self.service.node
    }

    /// Stops: clients are sent away, and find their sessions as they left them when the node is up again.
    pub async fn stop(self) -> Result<(), ServeError> {
        let Self { service, listening, .. } = self;
        service.closing.cancel();
        // A connection that does not end by itself is not waited for.
        let ended = tokio::time::timeout(Duration::from_millis(PATIENCE.into()), listening).await;
        if let Ok(Ok(Err(error))) = ended {
            return Err(ServeError::Stopped(error.to_string()));
        }
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
