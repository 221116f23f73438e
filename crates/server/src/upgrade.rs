//! A client's stream without gRPC, on a connection that began as HTTP and was upgraded. The framing of HTTP/2 costs more
//! time for each message than all that the service itself does for it.

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
use crate::stream::{ClientStream, STEPS_AT_ONCE, Step};

/// How long a client may take to read the last messages.
const PATIENCE: Duration = Duration::from_secs(1);

/// Serves a client's stream on its connection, until one of them ends it.
pub(crate) async fn serve(upgrading: OnUpgrade, mut stream: ClientStream) {
    let Ok(upgraded) = upgrading.await else { return };
    let Ok(Parts { io, read_buf, .. }) = downcast::<TokioIo<Connection>>(upgraded) else {
        unreachable!("all connections are of this kind");
    };
    let mut parts = FramedParts::new::<Tell>(io.into_inner(), Delimited::up_to(LONGEST_MESSAGE));
    parts.read_buf.extend_from_slice(&read_buf);
    let mut frames = Framed::from_parts(parts);
    if poll_fn(|cx| poll_frames(&mut stream, &mut frames, cx)).await.is_ok() {
        let _ = tokio::time::timeout(PATIENCE, frames.close()).await;
    }
}

type Frames = Framed<Connection, Delimited<Tell, Ask>>;

/// Writes what is queued, and reads requests. Is ready when the stream is over.
fn poll_frames(
    stream: &mut ClientStream,
    frames: &mut Frames,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    let mut frames = Pin::new(frames);
    for _ in 0..STEPS_AT_ONCE {
        if frames.as_mut().poll_ready(cx)?.is_pending() {
            // A client that does not read is not waited for when the stream has to end.
            return stream.poll_over(cx).map(Ok);
        }
        match stream.poll_step(&mut frames, cx) {
            Poll::Ready(Step::Send(tell)) => frames.as_mut().start_send(tell)?,
            Poll::Ready(Step::Received) => {}
            Poll::Ready(Step::Over) => return Poll::Ready(Ok(())),
            Poll::Pending => {
                ready!(frames.poll_flush(cx))?;
                return Poll::Pending;
            }
        }
    }
    cx.waker().wake_by_ref();
    Poll::Pending
}
