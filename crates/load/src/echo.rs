//! The stream without the lock manager: an echo server.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use conclave_api::v1::ask::What;
use conclave_api::v1::{Ask, Echo, Tell};
use conclave_api::{Delimited, LONGEST_MESSAGE, PLAIN};
use futures_util::{FutureExt, SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_util::codec::Framed;

use crate::{Arrangement, LoadError};

/// How many echoes per second clients hear, each one at a time.
pub(crate) async fn rate(
    address: SocketAddr,
    arrangement: Arrangement,
    span: Duration,
) -> Result<f64, LoadError> {
    let Arrangement { clients, connections } = arrangement;
    let mut heard = JoinSet::new();
    for connection in 0..connections {
        // Those that are left over are on the first connections, as they are elsewhere.
        let more = usize::from(connection < clients % connections);
        heard.spawn(hear(address, clients / connections + more, span));
    }
    let mut sum = 0.0;
    while let Some(rate) = heard.join_next().await {
        let rate = rate.expect("it does not panic");
        sum += rate.map_err(|error| LoadError::Io { what: "an echo".to_owned(), error })?;
    }
    Ok(sum)
}

/// So many clients on one stream: each asks again as soon as it has heard its echo.
#[expect(clippy::disallowed_methods, reason = "it measures")]
async fn hear(address: SocketAddr, clients: usize, span: Duration) -> io::Result<f64> {
    let mut stream = begin(address).await?;
    let ask = |id| {
        let echo = What::Echo(Echo { body: vec![7; 32] });
        Ask { id, what: Some(echo), ..Ask::default() }
    };
    let begun = Instant::now();
    for client in 0..clients {
        stream.feed(ask(client as u64 + 1)).await?;
    }
    stream.flush().await?;
    let mut count = 0_u32;
    while begun.elapsed() < span {
        // Whatever has come is answered together.
        let mut heard = Some(stream.next().await);
        while let Some(tell) = heard {
            let tell = tell.ok_or(io::ErrorKind::UnexpectedEof)??;
            stream.feed(ask(tell.id)).await?;
            count += 1;
            heard = stream.next().now_or_never();
        }
        stream.flush().await?;
    }
    Ok(f64::from(count) / begun.elapsed().as_secs_f64())
}

/// A stream as clients have it.
async fn begin(address: SocketAddr) -> io::Result<Framed<TcpStream, Delimited<Ask, Tell>>> {
    let mut tcp = TcpStream::connect(address).await?;
    tcp.set_nodelay(true)?;
    let head = format!(
        "GET /v1/talk HTTP/1.1\r\nHost: {address}\r\nConnection: upgrade\r\nUpgrade: {PLAIN}\r\n\r\n"
    );
    tcp.write_all(head.as_bytes()).await?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(tcp.read_u8().await?);
    }
    if !answer.starts_with(b"HTTP/1.1 101 ") {
        return Err(io::Error::other("the server does not talk"));
    }
    Ok(Framed::new(tcp, Delimited::up_to(LONGEST_MESSAGE)))
}
