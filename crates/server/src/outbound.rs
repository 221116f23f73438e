//! The way to a client: what it is told waits there until it is sent, by the task that also listens to it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use conclave_api::v1::{Tell, tell::What as Told};
use futures_util::stream::Stream;
use futures_util::task::AtomicWaker;
use prometheus_client::metrics::counter::Counter;
use tokio_util::sync::DropGuard;

use crate::listen::HangUp;
use crate::service::Bounds;

/// The way to a client. Clones are the same way.
#[derive(Clone)]
pub(crate) struct Outbound(Arc<Way>);

struct Way {
    connection: u64,
    /// What is to be sent.
    queue: Mutex<VecDeque<Tell>>,
    /// Whoever sends it, and listens.
    sender: AtomicWaker,
    /// Nothing more is sent.
    over: AtomicBool,
    /// Questions that are not answered yet, and how many of them there may be.
    open: AtomicUsize,
    most_open: usize,
    /// How many things may wait to be sent. A client that is further behind is cut off; it may come again and ask
    /// for what it has missed.
    most_queued: usize,
    /// Ends the connection itself, for one that does not read is not told anything by other means.
    hang_up: Option<HangUp>,
    /// Counts those that did not read.
    cut_off: Counter,
}

impl Outbound {
    /// The way to a connection's client.
    pub(crate) fn new(
        connection: u64,
        bounds: &Bounds,
        hang_up: Option<HangUp>,
        cut_off: Counter,
    ) -> Self {
        Self(Arc::new(Way {
            connection,
            queue: Mutex::default(),
            sender: AtomicWaker::new(),
            over: AtomicBool::new(false),
            open: AtomicUsize::new(0),
            most_open: bounds.in_flight,
            most_queued: bounds.queued.max(1),
            hang_up,
            cut_off,
        }))
    }

    pub(crate) fn connection(&self) -> u64 {
        self.0.connection
    }

    pub(crate) fn tell(&self, session: u64, id: u64, what: Told) {
        if self.is_over() {
            return;
        }
        let mut queue = self.queue();
        let waiting = queue.len();
        if waiting < self.0.most_queued {
            queue.push_back(Tell { session, id, what: Some(what) });
        }
        drop(queue);
        if waiting == 0 {
            // It is woken for the first of them.
            self.0.sender.wake();
        } else if waiting >= self.0.most_queued {
            self.cut_off();
        }
    }

    /// It does not read.
    fn cut_off(&self) {
        if !self.0.over.swap(true, Ordering::AcqRel) {
            self.0.cut_off.inc();
            self.0.sender.wake();
            if let Some(hang_up) = &self.0.hang_up {
                hang_up.now();
            }
        }
    }

    /// Nothing more is sent.
    pub(crate) fn end(&self) {
        self.0.over.store(true, Ordering::Release);
        self.0.sender.wake();
    }

    /// Whether nothing more is sent.
    pub(crate) fn is_over(&self) -> bool {
        self.0.over.load(Ordering::Acquire)
    }

    /// Whether no more questions may be asked until some are answered.
    pub(crate) fn is_busy(&self) -> bool {
        self.0.open.load(Ordering::Acquire) >= self.0.most_open
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Tell>> {
        self.0.queue.lock().expect("nobody panics while using it")
    }
}

/// A question that is open until this is dropped.
pub(crate) struct Open(Outbound);

impl Open {
    pub(crate) fn new(way: &Outbound) -> Self {
        way.0.open.fetch_add(1, Ordering::AcqRel);
        Self(way.clone())
    }

    /// The way back.
    pub(crate) fn way(&self) -> &Outbound {
        &self.0
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let Way { open, most_open, sender, .. } = &*self.0.0;
        if open.fetch_sub(1, Ordering::AcqRel) == *most_open {
            sender.wake();
        }
    }
}

/// What a client is told, until nothing more is sent.
pub(crate) struct Answers {
    way: Outbound,
    /// What was taken from the queue.
    next: VecDeque<Tell>,
    /// When nobody wants to know any more, the client is forgotten.
    _present: DropGuard,
}

/// So much room is not kept for the next burst.
const MUCH: usize = 256;

impl Answers {
    pub(crate) fn new(way: Outbound, present: DropGuard) -> Self {
        Self { way, next: VecDeque::new(), _present: present }
    }

    /// Tells something before all that waits in the queue.
    pub(crate) fn tell_first(&mut self, session: u64, id: u64, what: Told) {
        self.next.push_back(Tell { session, id, what: Some(what) });
    }

    /// Is ready when nothing more is sent, though something may be left.
    pub(crate) fn poll_over(&self, cx: &Context<'_>) -> Poll<()> {
        // Before it looks, so that nothing is missed that comes afterwards.
        self.way.0.sender.register(cx.waker());
        if self.way.is_over() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Stream for Answers {
    type Item = Tell;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Tell>> {
        if let Some(tell) = self.next.pop_front() {
            return Poll::Ready(Some(tell));
        }
        if self.next.capacity() > MUCH {
            self.next = VecDeque::new();
        }
        let over = self.poll_over(cx).is_ready();
        let Self { way, next, .. } = &mut *self;
        std::mem::swap(next, &mut *way.queue());
        match next.pop_front() {
            Some(tell) => Poll::Ready(Some(tell)),
            None if over => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.way.end();
    }
}
