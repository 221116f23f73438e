use std::fmt;
use std::sync::Arc;

use conclave_api::v1;
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::acquire::millis;
use crate::connection::{ConnectionStatus, Rpc, run};
use crate::state::Shared;
use crate::{Credentials, Error, Options, Session, SessionOptions};

/// A client of the service. Clones are the same client.
///
/// It has one connection to one of the servers, over which everything goes, and a task on the runtime that it
/// was made on, which keeps the connection and renews the leases of all its sessions. A program that blocks
/// that runtime blocks the renewals; its sessions are then lost, and say so.
#[derive(Clone, Debug)]
pub struct Client {
    handle: Arc<Handle>,
}

/// What keeps the background task going.
pub(crate) struct Handle {
    shared: Arc<Shared>,
}

impl Handle {
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.with_state(|state| state.last_handle_gone = true);
        self.shared.wake_keepalive.notify_one();
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

impl Client {
    /// Connects to one of the servers.
    pub fn connect(options: Options) -> BoxFuture<'static, Result<Self, Error>> {
        // Boxed, so that it is compiled here and not in every program that calls it.
        Box::pin(async { Self::connect_task(options).await.map(|(client, _)| client) })
    }

    /// The same, and the task that goes on in the background until all is done.
    pub(crate) async fn connect_task(options: Options) -> Result<(Self, JoinHandle<()>), Error> {
        let (endpoints, bearer) = (options.parse_endpoints()?, options.bearer()?);
        let shared = Arc::new(Shared::new(options));
        let client = Self { handle: Arc::new(Handle { shared: shared.clone() }) };
        let task = tokio::spawn(run(shared, endpoints, bearer));
        client.rpc().await?;
        Ok((client, task))
    }

    /// Opens a session.
    pub async fn open(&self, options: SessionOptions) -> Result<Session, Error> {
        let shared = &self.handle.shared;
        let SessionOptions { ttl, name, priority } = options;
        let open = v1::Open {
            name: name.unwrap_or_else(|| shared.options.name.clone()),
            host: shared.options.host.clone(),
            ttl_ms: millis(ttl.unwrap_or(SessionOptions::DEFAULT_TTL)),
            priority,
            // With a key of its own the question can be repeated, and there is one session all the same.
            nonce: getrandom::u64().unwrap_or_default(),
        };
        let opened = shared.with_state(|state| state.open(open));
        match tokio::time::timeout(shared.options.connect_timeout, opened).await {
            Ok(Ok(opened)) => {
                let opened = opened?;
                Ok(Session::new(self.handle.clone(), opened.id, opened.liveness))
            }
            Ok(Err(_)) => Err(Error::Unreachable("the client has stopped".to_owned())),
            Err(_) => Err(self.unreachable()),
        }
    }

    /// The connection, as soon as there is one.
    pub(crate) async fn rpc(&self) -> Result<Rpc, Error> {
        let shared = &self.handle.shared;
        let mut status = shared.connection.subscribe();
        // Of several servers, one may be trusted though another is not.
        let only = shared.options.endpoints.len() == 1;
        let settles =
            |error: &Error| !error.may_pass() || only && matches!(error, Error::Untrusted(_));
        let tried = |status: &ConnectionStatus| {
            shared.options.once && status.failures as usize >= shared.options.endpoints.len()
        };
        let settled = status.wait_for(|status| {
            status.rpc.is_some() || status.error.as_ref().is_some_and(settles) || tried(status)
        });
        let settled = tokio::time::timeout(shared.options.connect_timeout, settled).await;
        let status = match settled {
            Ok(Ok(status)) => status.clone(),
            Ok(Err(_)) | Err(_) => return Err(self.unreachable()),
        };
        status.rpc.ok_or_else(|| status.error.unwrap_or_else(|| self.unreachable()))
    }

    /// Why the last attempt to reach a server failed; nothing while one is connected.
    pub fn last_error(&self) -> Option<Error> {
        self.handle.shared.connection.borrow().error.clone()
    }

    /// Ends a session that another client has opened, and waits until the server has done that. If it was over
    /// before, that is fine, too.
    pub async fn end(&self, credentials: &Credentials) -> Result<(), Error> {
        let (reply, ended) = oneshot::channel();
        self.handle.shared.with_state(|state| state.end(credentials, reply));
        match ended.await {
            Ok(ended) => ended.map(drop),
            Err(_) => Err(self.unreachable()),
        }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.handle.shared.options
    }

    /// Why no server can be reached.
    pub(crate) fn unreachable(&self) -> Error {
        let shared = &self.handle.shared;
        let error = shared.connection.borrow().error.clone();
        let servers = shared.options.endpoints.join(", ");
        // The same words as of an attempt that takes as long: which of the two is noticed first is chance.
        error.unwrap_or_else(|| Error::Unreachable(format!("{servers} does not answer")))
    }
}
