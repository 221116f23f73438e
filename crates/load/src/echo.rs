//! The stream without the locks: what is sent comes back.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use conclave_api::v1::ask::What;
use conclave_api::v1::conclave_client::ConclaveClient;
use conclave_api::v1::{Ask, Echo};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use crate::LoadError;

/// How many echoes per second so many clients hear, each over a stream of its own and one at a time.
pub(crate) async fn rate(
    address: SocketAddr,
    clients: usize,
    span: Duration,
) -> Result<f64, LoadError> {
    let mut heard = JoinSet::new();
    for _ in 0..clients {
        heard.spawn(hear(address, span));
    }
    let mut sum = 0.0;
    while let Some(rate) = heard.join_next().await {
        sum += rate.expect("it does not panic")?;
    }
    Ok(sum)
}

#[expect(clippy::disallowed_methods, reason = "it measures")]
async fn hear(address: SocketAddr, span: Duration) -> Result<f64, LoadError> {
    let channel = Channel::from_shared(format!("http://{address}")).expect("it is an address");
    let channel = channel.tcp_nodelay(true).connect().await?;
    let (asks, sent) = mpsc::channel(1);
    let talk = ConclaveClient::new(channel).talk(ReceiverStream::new(sent)).await?;
    let mut tells = talk.into_inner();
    let begun = Instant::now();
    let mut count = 0_u32;
    while begun.elapsed() < span {
        let echo = What::Echo(Echo { body: vec![7; 32] });
        let ask = Ask { id: 1, what: Some(echo), ..Ask::default() };
        if asks.send(ask).await.is_err() || tells.message().await?.is_none() {
            return Err(LoadError::Dead("the server".to_owned()));
        }
        count += 1;
    }
    Ok(f64::from(count) / begun.elapsed().as_secs_f64())
}
