//! A server, and the simplest client of HTTP there can be.

#![allow(dead_code, unused_imports, unused_macros, reason = "each test uses some of it")]

pub(crate) mod crowd;
pub(crate) mod node;
pub(crate) mod stream;

use std::path::Path;

use conclave_api::v1;
use conclave_server::{Options, ServeOptions, Server};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::transport::Channel;
use v1::conclave_client::ConclaveClient;

pub(crate) fn options(directory: &Path) -> ServeOptions {
    let node = Options::new(directory.join("data"));
    let listen = "127.0.0.1:0".parse().expect("an address");
    ServeOptions { listen, ..ServeOptions::new(node) }
}

pub(crate) async fn server(directory: &Path) -> Server {
    Server::start(options(directory)).await.expect("it starts")
}

pub(crate) async fn grpc(server: &Server) -> ConclaveClient<Channel> {
    let address = format!("http://{}", server.address());
    let channel = Channel::from_shared(address).expect("an address").connect().await;
    ConclaveClient::new(channel.expect("it listens"))
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// What it is refused with.
    pub(crate) fn refused(&self) -> (u16, String) {
        (self.status, self.json()["code"].as_str().expect("a code").to_owned())
    }
}

/// Sends bytes and reads until the other side ends the connection.
pub(crate) async fn exchange(mut io: impl AsyncRead + AsyncWrite + Unpin, sent: &[u8]) -> Answer {
    // A server that refuses need not read to the end.
    drop(io.write_all(sent).await);
    let mut bytes = Vec::new();
    drop(io.read_to_end(&mut bytes).await);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (headers, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = headers.split(' ').nth(1).and_then(|status| status.parse().ok());
    let chunked = headers.to_lowercase().contains("transfer-encoding: chunked");
    Answer {
        status: status.unwrap_or(0),
        headers: headers.to_owned(),
        body: if chunked { unchunked(body) } else { body.to_owned() },
    }
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap_or(0);
        whole.push_str(&rest[..length]);
        body = rest[length..].trim_start_matches("\r\n");
    }
    whole
}

pub(crate) fn request(method: &str, path: &str, headers: &str, body: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}content-length: \
         {}\r\n\r\n{body}",
        body.len()
    )
}

pub(crate) async fn send(server: &Server, bytes: &[u8]) -> Answer {
    let io = TcpStream::connect(server.address()).await.expect("it listens");
    conclave_testing::in_time("an answer", exchange(io, bytes)).await
}

/// Sends a message as gRPC frames it, over HTTP/1.
pub(crate) async fn call(server: &Server, method: &str, headers: &str, frame: &[u8]) -> Answer {
    let path = format!("/conclave.v1.Conclave/{method}");
    let headers = format!("content-type: application/grpc\r\nte: trailers\r\n{headers}");
    let head = request("POST", &path, &headers, &"x".repeat(frame.len()));
    let head = &head.as_bytes()[..head.len() - frame.len()];
    send(server, &[head, frame].concat()).await
}

/// A message as gRPC frames it.
pub(crate) fn framed(compressed: u8, length: u32, bytes: &[u8]) -> Vec<u8> {
    [&[compressed], length.to_be_bytes().as_slice(), bytes].concat()
}

pub(crate) async fn get(server: &Server, path: &str) -> Answer {
    send(server, request("GET", path, "", "").as_bytes()).await
}

pub(crate) async fn post(server: &Server, path: &str, body: &str) -> Answer {
    send(server, request("POST", path, "", body).as_bytes()).await
}

/// Opens a session, and says how it is written.
pub(crate) async fn open(server: &Server) -> String {
    let opened = post(server, "/v1/sessions", r#"{"name":"test","ttl_ms":600000}"#).await;
    opened.json()["session"].as_str().expect("a session").to_owned()
}

/// Waits until something is so.
pub(crate) async fn until(mut is_so: impl FnMut() -> bool) {
    conclave_testing::until_async("what the test waits for", async || is_so()).await;
}

/// From now on a client hears nothing and says nothing, not even that it does not.
pub(crate) fn cut_cable(io: &TcpStream) {
    let drop_all = socket2::SockFilter::new(6, 0, 0, 0);
    socket2::SockRef::from(io).attach_filter(&[drop_all]).expect("any process may do so");
}
