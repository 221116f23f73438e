use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use conclave_api::v1;
use futures_util::stream::{self, BoxStream, Stream, StreamExt};
use tonic::Streaming;

use crate::{Client, Error};

/// Who leads an election: now, and whenever that changes.
///
/// It goes on over broken connections; what changed meanwhile shows as one change. It ends only if the server
/// refuses to tell.
#[must_use]
pub struct Observation(BoxStream<'static, Result<v1::Leader, Error>>);

impl Observation {
    /// Waits for the next change.
    pub async fn next(&mut self) -> Option<Result<v1::Leader, Error>> {
        StreamExt::next(&mut self.0).await
    }
}

impl Stream for Observation {
    type Item = Result<v1::Leader, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx)
    }
}

impl fmt::Debug for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observation")
    }
}

impl Client {
    /// Observes an election.
    pub fn observe(&self, election: impl Into<String>) -> Observation {
        let election = v1::ObserveElection { election: election.into() };
        let observer = Observer { client: self.clone(), election, told: None, stream: None };
        let changes = stream::unfold(Some(observer), |observer| async {
            let mut observer = observer?;
            match observer.change().await {
                Ok(leader) => Some((Ok(leader), Some(observer))),
                Err(error) => Some((Err(error), None)),
            }
        });
        Observation(changes.boxed())
    }
}

struct Observer {
    client: Client,
    election: v1::ObserveElection,
    told: Option<v1::Leader>,
    stream: Option<Streaming<v1::Leader>>,
}

impl Observer {
    async fn change(&mut self) -> Result<v1::Leader, Error> {
        loop {
            match self.hear().await {
                Ok(leader) if self.is_news(&leader) => {
                    self.told = Some(leader.clone());
                    return Ok(leader);
                }
                Ok(_) => {}
                Err(error) if error.may_pass() => {
                    self.stream = None;
                    let pause = Duration::from_millis(fastrand::u64(20..200));
                    tokio::time::sleep(pause).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn hear(&mut self) -> Result<v1::Leader, Error> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                let mut rpc = self.client.rpc().await?;
                none.insert(rpc.observe(self.election.clone()).await?.into_inner())
            }
        };
        let heard = stream.message().await?;
        heard.ok_or_else(|| Error::Unreachable("the server hung up".to_owned()))
    }

    /// A new connection begins with what may be known already.
    fn is_news(&self, leader: &v1::Leader) -> bool {
        let state = |leader: &v1::Leader| {
            leader.leader.as_ref().map(|leader| (leader.term, leader.value.clone()))
        };
        self.told.as_ref().is_none_or(|told| state(told) != state(leader))
    }
}
