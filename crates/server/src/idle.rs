//! Closes idle connections: those without a request for a while, whether silent or in the middle of a header.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// What is being answered on a connection. Clones are of the same connection.
#[derive(Clone)]
pub(crate) struct Activity(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    /// Something was asked, or answered to the end.
    changed: Notify,
}

struct State {
    /// Questions that are not answered to the end.
    open: usize,
    /// When the last of them was, or the connection began.
    since: Instant,
}

impl Activity {
    pub(crate) fn new() -> Self {
        let state = Mutex::new(State { open: 0, since: Instant::now() });
        Self(Arc::new(Inner { state, changed: Notify::new() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something is asked; it is being answered until this is dropped.
    pub(crate) fn begin(&self) -> Answering {
        self.state().open += 1;
        Answering(self.clone())
    }

    /// Waits until nothing has been asked for so long.
    pub(crate) async fn idle_for(&self, patience: Duration) {
        loop {
            let changed = self.0.changed.notified();
            let since = {
                let state = self.state();
                (state.open == 0).then_some(state.since)
            };
            match since.and_then(|since| since.checked_add(patience)) {
                Some(end) if Instant::now() >= end => return,
                Some(end) => sleep_until(end).await,
                None => changed.await,
            }
        }
    }
}

/// A question that is being answered.
pub(crate) struct Answering(Activity);

impl Drop for Answering {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.open -= 1;
        if state.open == 0 {
            state.since = Instant::now();
            drop(state);
            self.0.0.changed.notify_one();
        }
    }
}

/// The body of an answer: the connection is not idle before its end is sent.
pub(crate) struct CountedBody {
    body: Body,
    _answering: Answering,
}

impl CountedBody {
    pub(crate) fn new(body: Body, answering: Answering) -> Self {
        Self { body, _answering: answering }
    }
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_connection_is_idle_when_its_last_answer_has_ended_and_not_before() {
        let activity = Activity::new();
        activity.idle_for(Duration::ZERO).await;
        let (one, two) = (activity.begin(), activity.begin());
        let mut idle = std::pin::pin!(activity.idle_for(Duration::ZERO));
        assert!(idle.as_mut().now_or_never().is_none());
        drop(one);
        assert!(idle.as_mut().now_or_never().is_none());
        drop(two);
        idle.await;
        let never = activity.idle_for(Duration::MAX).now_or_never();
        assert!(never.is_none(), "it may be idle for as long as it likes");
    }
}
