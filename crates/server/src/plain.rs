//! A client's stream without gRPC: a connection that began as HTTP and was upgraded. What HTTP/2 has to be
//! told with each message takes longer than all that the service itself does for it.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use conclave_api::v1::{Ask, Tell};
use conclave_api::{Delimited, LONGEST_MESSAGE};
use futures_util::{Sink, SinkExt};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto::upgrade::{Parts, downcast};
use tokio_util::codec::{Framed, FramedParts};

use crate::listen::Connection;
use crate::talk::{AT_ONCE, Talk, Turn};

/// How long a client may take to read the last it is told.
const PATIENCE: Duration = Duration::from_secs(1);

/// Talks with a client, on its connection, until one of them ends it.
pub(crate) async fn converse(upgrading: OnUpgrade, mut talk: Talk) {
    let Ok(upgraded) = upgrading.await else { return };
    let Ok(Parts { io, read_buf, .. }) = downcast::<TokioIo<Connection>>(upgraded) else {
        unreachable!("all connections are of this kind");
    };
    let mut parts = FramedParts::new::<Tell>(io.into_inner(), Delimited::up_to(LONGEST_MESSAGE));
    parts.read_buf.extend_from_slice(&read_buf);
    let mut line = Framed::from_parts(parts);
    if poll_fn(|cx| poll_line(&mut talk, &mut line, cx)).await.is_ok() {
        let _ = tokio::time::timeout(PATIENCE, line.close()).await;
    }
}

type Line = Framed<Connection, Delimited<Tell, Ask>>;

/// Says what is to be said, and listens. There is nothing more to say when this is ready.
fn poll_line(talk: &mut Talk, line: &mut Line, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    let mut line = Pin::new(line);
    for _ in 0..AT_ONCE {
        if line.as_mut().poll_ready(cx)?.is_pending() {
            // It does not read, and is not waited for.
            return talk.poll_over(cx).map(Ok);
        }
        match talk.poll_turn(&mut line, cx) {
            Poll::Ready(Turn::Tell(tell)) => line.as_mut().start_send(tell)?,
            Poll::Ready(Turn::Asked) => {}
            Poll::Ready(Turn::Over) => return Poll::Ready(Ok(())),
            Poll::Pending => {
                ready!(line.poll_flush(cx))?;
                return Poll::Pending;
            }
        }
    }
    cx.waker().wake_by_ref();
    Poll::Pending
}
