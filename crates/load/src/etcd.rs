//! The same with etcd: its own server, and the lock that it offers (`v3lockpb.Lock`), over gRPC.
//!
//! The crate `etcd-client` sends the same four messages, but cannot be built without a compiler for .proto
//! files on the machine.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prost::Message;
use tokio::process::{Child, Command};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic_prost::ProstCodec;

use crate::{Arrangement, LoadError, Options};

/// An etcd that is up, until it is dropped.
pub(crate) struct Etcd {
    process: Child,
    endpoint: String,
}

impl Etcd {
    pub(crate) async fn start(
        program: &Path,
        options: &Options,
        arrangement: Arrangement,
    ) -> Result<Self, LoadError> {
        let data = options.directory.join(format!("etcd-{}", arrangement.connections));
        let failed =
            |error| LoadError::Io { what: format!("cannot start {}", program.display()), error };
        fs::create_dir_all(&data).map_err(failed)?;
        let free = || -> std::io::Result<String> {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            Ok(format!("http://{}", listener.local_addr()?))
        };
        let (clients, peers) = (free().map_err(failed)?, free().map_err(failed)?);
        let process = Command::new(program)
            .arg("--data-dir")
            .arg(data)
            .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
            .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &format!("default={peers}"), "--log-level", "error"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        for _ in 0..100 {
            if let Ok(mut client) = Client::connect(&clients).await
                && client.grant(60).await.is_ok()
            {
                return Ok(Self { process, endpoint: clients });
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err(LoadError::Dead("etcd".to_owned()))
    }

    pub(crate) async fn stop(mut self) {
        // It is killed when it is dropped in any case.
        let _ = self.process.kill().await;
    }

    /// How many locks per second clients take and give back, each its own.
    pub(crate) async fn throughput(
        &self,
        arrangement: Arrangement,
        span: Duration,
    ) -> Result<f64, LoadError> {
        let Arrangement { clients, connections } = arrangement;
        let mut connected = Vec::new();
        for _ in 0..connections {
            connected.push(Client::connect(&self.endpoint).await?);
        }
        let start = Arc::new(Barrier::new(clients));
        let mut tasks = JoinSet::new();
        for number in 0..clients {
            let start = start.clone();
            let client = connected[number % connections].clone();
            tasks.spawn(async move { work(client, number, &start, span).await });
        }
        let mut sum = 0.0;
        while let Some(rate) = tasks.join_next().await {
            sum += rate.expect("it does not panic")?;
        }
        Ok(sum)
    }
}

/// A client of etcd that knows leases and locks. Clones share a connection.
#[derive(Clone)]
struct Client(Grpc<Channel>);

impl Client {
    async fn connect(endpoint: &str) -> Result<Self, LoadError> {
        let channel = Channel::from_shared(endpoint.to_owned()).expect("it is an address");
        Ok(Self(Grpc::new(channel.tcp_nodelay(true).connect().await?)))
    }

    async fn call<Q, A>(&mut self, path: &'static str, question: Q) -> Result<A, LoadError>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.0.ready().await?;
        let (path, codec) = (PathAndQuery::from_static(path), ProstCodec::default());
        Ok(self.0.unary(tonic::Request::new(question), path, codec).await?.into_inner())
    }

    async fn grant(&mut self, seconds: i64) -> Result<i64, LoadError> {
        let grant = LeaseGrant { seconds, id: 0 };
        let lease: Lease = self.call("/etcdserverpb.Lease/LeaseGrant", grant).await?;
        Ok(lease.id)
    }

    async fn lock(&mut self, name: &str, lease: i64) -> Result<Vec<u8>, LoadError> {
        let lock = Lock { name: name.as_bytes().to_vec(), lease };
        let locked: Locked = self.call("/v3lockpb.Lock/Lock", lock).await?;
        Ok(locked.key)
    }

    async fn unlock(&mut self, key: Vec<u8>) -> Result<(), LoadError> {
        self.call::<_, Unlocked>("/v3lockpb.Lock/Unlock", Unlock { key }).await.map(drop)
    }
}

#[derive(Clone, PartialEq, Message)]
struct LeaseGrant {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int64, tag = "2")]
    id: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Lease {
    #[prost(int64, tag = "2")]
    id: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Lock {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
    #[prost(int64, tag = "2")]
    lease: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Locked {
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Unlock {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Unlocked {}

#[expect(clippy::disallowed_methods, reason = "it measures")]
async fn work(
    mut client: Client,
    number: usize,
    start: &Barrier,
    span: Duration,
) -> Result<f64, LoadError> {
    let lease = client.grant(600).await?;
    let name = format!("lock-{number}");
    start.wait().await;
    let begun = Instant::now();
    let mut count = 0_u32;
    while begun.elapsed() < span {
        let key = client.lock(&name, lease).await?;
        client.unlock(key).await?;
        count += 1;
    }
    Ok(f64::from(count) / begun.elapsed().as_secs_f64())
}
