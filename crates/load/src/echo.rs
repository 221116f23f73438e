//! The stream without the locks: what is sent comes back.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use conclave_api::v1::ask::What;
use conclave_api::v1::conclave_client::ConclaveClient;
use conclave_api::v1::{Ask, Echo};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Channel;

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
        sum += rate.expect("it does not panic")?;
    }
    Ok(sum)
}

/// So many clients on one stream: each asks again as soon as it has heard its echo.
#[expect(clippy::disallowed_methods, reason = "it measures")]
async fn hear(address: SocketAddr, clients: usize, span: Duration) -> Result<f64, LoadError> {
    let channel = Channel::from_shared(format!("http://{address}")).expect("it is an address");
    let channel = channel.tcp_nodelay(true).connect().await?;
    let (asks, sent) = mpsc::unbounded_channel();
    let ask = |id| {
        let echo = What::Echo(Echo { body: vec![7; 32] });
        let ask = Ask { id, what: Some(echo), ..Ask::default() };
        asks.send(ask).map_err(|_| LoadError::Dead("the server".to_owned()))
    };
    let talk = ConclaveClient::new(channel).talk(UnboundedReceiverStream::new(sent)).await?;
    let mut tells = talk.into_inner();
    let begun = Instant::now();
    for client in 0..clients {
        ask(client as u64 + 1)?;
    }
    let mut count = 0_u32;
    while begun.elapsed() < span {
        let Some(tell) = tells.message().await? else {
            return Err(LoadError::Dead("the server".to_owned()));
        };
        ask(tell.id)?;
        count += 1;
    }
    Ok(f64::from(count) / begun.elapsed().as_secs_f64())
}
