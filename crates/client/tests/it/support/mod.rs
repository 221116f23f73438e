pub(crate) mod proxy;

use std::net::SocketAddr;
use std::time::Duration;

use conclave_client::{Client, Options, Session, SessionOptions};
use conclave_machine::{Config, Policy};
use conclave_server::{ManualTime, ServeOptions, Server, TimeSource};
use tempfile::TempDir;

/// A server that can be stopped and started again where it was.
pub(crate) struct World {
    directory: TempDir,
    address: SocketAddr,
    config: Config,
    time: TimeSource,
    server: Option<Server>,
}

pub(crate) const LONG: Duration = Duration::from_secs(60);

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(Policy::default()).await
    }

    /// A server that does this about deadlocks.
    pub(crate) async fn with(deadlocks: Policy) -> Self {
        Self::made(Config { deadlocks, ..Config::default() }, TimeSource::default()).await
    }

    /// A server for which time passes when the test says so.
    pub(crate) async fn by(time: ManualTime) -> Self {
        Self::made(Config::default(), TimeSource::Manual(time)).await
    }

    async fn made(config: Config, time: TimeSource) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let address = "127.0.0.1:0".parse().expect("an address");
        let mut world = Self { directory, address, config, time, server: None };
        world.start().await;
        world
    }

    pub(crate) async fn start(&mut self) {
        let node = conclave_server::Options::new(self.directory.path().join("data"));
        let (config, time) = (self.config.clone(), self.time.clone());
        let node = conclave_server::Options { config, time, ..node };
        let options = ServeOptions { listen: self.address, ..ServeOptions::new(node) };
        let server = Server::start(options).await.expect("it starts");
        self.address = server.address();
        self.server = Some(server);
    }

    pub(crate) async fn stop(&mut self) {
        self.server.take().expect("it is up").stop().await.expect("it stops");
    }

    /// The server's disk is lost.
    pub(crate) fn forget(&self) {
        std::fs::remove_dir_all(self.directory.path().join("data")).expect("it is there");
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn options(&self) -> Options {
        Options::new(self.address.to_string()).name("test")
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.options()).await.expect("it is up")
    }

    /// The token that a lock is held with.
    pub(crate) async fn holder(&self, lock: &str) -> Option<u64> {
        let reasons = self.client().await.why(lock).await.expect("it answers");
        Some(reasons.lock?.holders.first()?.token)
    }

    /// A session of a client of its own.
    pub(crate) async fn session(&self, name: &str, ttl: Duration) -> Session {
        open(&self.client().await, name, ttl).await
    }
}

pub(crate) async fn open(client: &Client, name: &str, ttl: Duration) -> Session {
    client.open(SessionOptions::ttl(ttl).name(name)).await.expect("there is room")
}

pub(crate) use conclave_testing::until_async as until;

/// Waits until so many wait for a lock.
pub(crate) async fn until_waiting(client: &Client, lock: &str, waiting: u64) {
    until(&format!("{waiting} wait for {lock}"), async || {
        let reasons = client.why(lock).await.expect("the server answers");
        reasons.lock.map_or(0, |lock| lock.waiting) == waiting
    })
    .await;
}
