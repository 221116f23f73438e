//! A client's stream, over gRPC or plain.

use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

use conclave_api::v1::ask::What as Ask;
use conclave_api::v1::tell::What as Told;
use conclave_api::{Delimited, LONGEST_MESSAGE, PLAIN, v1};
use conclave_server::Server;
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::codec::{FramedRead, FramedWrite};
use tonic::Streaming;

use super::grpc;

/// Makes two tests of each: with one kind of stream, and with the other.
macro_rules! both_ways {
    ($($name:ident)*) => {
        mod over_grpc {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(super::Way::Grpc).await;
            })*
        }
        mod plainly {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(super::Way::Plain).await;
            })*
        }
    };
}
pub(crate) use both_ways;

/// How messages are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Grpc,
    Plain,
}

/// One stream to a server.
pub(crate) struct Stream {
    pub(crate) asks: mpsc::Sender<v1::Ask>,
    pub(crate) tells: Tells,
}

/// What the server says.
pub(crate) enum Tells {
    Grpc(Streaming<v1::Tell>),
    Plain(FramedRead<OwnedReadHalf, Delimited<v1::Ask, v1::Tell>>),
}

impl Tells {
    /// The next, unless the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<v1::Tell> {
        match self {
            Self::Grpc(tells) => tells.message().await.ok().flatten(),
            Self::Plain(tells) => tells.next().await.and_then(Result::ok),
        }
    }
}

/// A connection that is not HTTP any more.
pub(crate) async fn upgrade(server: &Server, headers: &[(&str, &str)]) -> TcpStream {
    upgrade_at(server.address(), headers).await
}

pub(crate) async fn upgrade_at(address: SocketAddr, headers: &[(&str, &str)]) -> TcpStream {
    let mut head = "GET /v1/talk HTTP/1.1\r\nhost: localhost\r\n".to_owned();
    for (name, value) in [("connection", "upgrade"), ("upgrade", PLAIN)].iter().chain(headers) {
        write!(head, "{name}: {value}\r\n").expect("there is room");
    }
    let mut io = TcpStream::connect(address).await.expect("it listens");
    io.write_all(format!("{head}\r\n").as_bytes()).await.expect("it listens");
    upgraded(&mut io).await;
    io
}

/// Reads to the end of HTTP.
pub(crate) async fn upgraded(io: &mut TcpStream) {
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(io.read_u8().await.expect("it answers"));
    }
    let answer = String::from_utf8(answer).expect("text");
    assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
    assert!(answer.to_lowercase().contains(&format!("upgrade: {PLAIN}\r\n")), "{answer}");
}

impl Stream {
    pub(crate) async fn to(server: &Server, way: Way) -> Self {
        let (asks, mut sent) = mpsc::channel(100);
        let tells = match way {
            Way::Grpc => {
                let tells = grpc(server).await.talk(ReceiverStream::new(sent)).await;
                Tells::Grpc(tells.expect("it answers").into_inner())
            }
            Way::Plain => {
                let (read, write) = upgrade(server, &[]).await.into_split();
                let delimited = || Delimited::<v1::Ask, v1::Tell>::up_to(LONGEST_MESSAGE);
                let mut write = FramedWrite::new(write, delimited());
                tokio::spawn(async move {
                    while let Some(ask) = sent.recv().await {
                        if write.send(ask).await.is_err() {
                            return;
                        }
                    }
                });
                Tells::Plain(FramedRead::new(read, delimited()))
            }
        };
        Self { asks, tells }
    }

    pub(crate) async fn send(&self, session: u64, id: u64, key: u64, what: Ask) {
        let ask = v1::Ask { session, id, received: 0, key, what: Some(what) };
        self.asks.send(ask).await.expect("it listens");
    }

    pub(crate) async fn next(&mut self) -> (u64, u64, Told) {
        let tell = self.tells.next().await.expect("it goes on");
        (tell.session, tell.id, tell.what.expect("it says something"))
    }

    /// Opens a session, and says its number and its key.
    pub(crate) async fn open(&mut self, ttl: Duration) -> (u64, u64) {
        let ttl_ms = ttl.as_millis() as u64;
        let open = v1::Open { name: "test".into(), ttl_ms, ..v1::Open::default() };
        self.send(0, 1, 0, Ask::Open(open)).await;
        match self.next().await {
            (0, 1, Told::Opened(opened)) => (opened.session, opened.key),
            other => panic!("no session, but {other:?}"),
        }
    }
}
