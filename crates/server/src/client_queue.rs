//! The queue of answers and events for a client, in the machine's words. Commands fill it while they are applied; the
//! task that serves the connection empties it, encodes each entry for its front end, and reads what the client sends.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use conclave_machine::{Event, SessionId, Time};
use futures_util::stream::Stream;
use futures_util::task::AtomicWaker;
use prometheus_client::metrics::counter::Counter;
use tokio_util::sync::DropGuard;

use crate::answer::Answer;
use crate::listen::HangUp;
use crate::service::Bounds;
use crate::state::Leader;

/// What a client is told.
pub(crate) enum Delivery {
    /// The answer to one of its requests.
    Answer(Question, Answer),
    /// What has happened to one of its sessions, at this time.
    Event { session: SessionId, event: Event, now: Time },
    /// The leader of an election that it observes; with the number of its question if this is the answer to it, and with
    /// 0 otherwise.
    Leader { id: u64, leader: Arc<Leader> },
}

/// What an answer belongs to.
#[derive(Clone, Copy)]
pub(crate) struct Question {
    pub(crate) session: SessionId,
    /// The number that the client gave it.
    pub(crate) id: u64,
    /// The key of the session, if the question is to open one.
    pub(crate) key: u64,
}

/// The queue of one client. Clones are the same queue.
#[derive(Clone)]
pub(crate) struct ClientQueue(Arc<Shared>);

struct Shared {
    connection: u64,
    queue: Mutex<VecDeque<Delivery>>,
    /// The task that serves the connection.
    reader: AtomicWaker,
    /// Nothing more is sent.
    over: AtomicBool,
    /// Questions that are not answered yet, and how many of them there may be.
    open: AtomicUsize,
    most_open: usize,
    /// How long the queue may be. A client that is further behind is cut off; it may connect again and ask for what it
    /// has missed.
    most_queued: usize,
    /// Ends the connection itself: a client that does not read cannot be told to go.
    hang_up: Option<HangUp>,
    /// Counts clients that were cut off.
    cut_off: Counter,
}

impl ClientQueue {
    /// The queue of the client on a connection.
    pub(crate) fn new(
        connection: u64,
        bounds: &Bounds,
        hang_up: Option<HangUp>,
        cut_off: Counter,
    ) -> Self {
        Self(Arc::new(Shared {
            connection,
            queue: Mutex::default(),
            reader: AtomicWaker::new(),
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

    pub(crate) fn push(&self, delivery: Delivery) {
        if self.is_over() {
            return;
        }
        let mut queue = self.queue();
        let waiting = queue.len();
        if waiting < self.0.most_queued {
            queue.push_back(delivery);
        }
        drop(queue);
        if waiting == 0 {
            // The first entry wakes the reader, which takes all that there are.
            self.0.reader.wake();
        } else if waiting >= self.0.most_queued {
            self.cut_off();
        }
    }

    /// Ends the connection of a client that does not read.
    fn cut_off(&self) {
        if !self.0.over.swap(true, Ordering::AcqRel) {
            self.0.cut_off.inc();
            self.0.reader.wake();
            if let Some(hang_up) = &self.0.hang_up {
                hang_up.now();
            }
        }
    }

    /// From now on nothing more is sent.
    pub(crate) fn end(&self) {
        self.0.over.store(true, Ordering::Release);
        self.0.reader.wake();
    }

    /// Whether nothing more is sent.
    pub(crate) fn is_over(&self) -> bool {
        self.0.over.load(Ordering::Acquire)
    }

    /// Whether the client may ask nothing more until some of its questions are answered.
    pub(crate) fn is_busy(&self) -> bool {
        self.0.open.load(Ordering::Acquire) >= self.0.most_open
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Delivery>> {
        self.0.queue.lock().expect("no code panics while it holds the lock")
    }
}

/// Counts a question as unanswered until this is dropped.
pub(crate) struct OpenQuestion(ClientQueue);

impl OpenQuestion {
    pub(crate) fn new(queue: &ClientQueue) -> Self {
        queue.0.open.fetch_add(1, Ordering::AcqRel);
        Self(queue.clone())
    }

    /// The queue of the client that asked.
    pub(crate) fn queue(&self) -> &ClientQueue {
        &self.0
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        let Shared { open, most_open, reader, .. } = &*self.0.0;
        if open.fetch_sub(1, Ordering::AcqRel) == *most_open {
            reader.wake();
        }
    }
}

/// The reading end of a client's queue: yields entries until nothing more is sent.
pub(crate) struct Deliveries {
    queue: ClientQueue,
    /// Entries that were taken from the queue.
    next: VecDeque<Delivery>,
    /// Dropped with the reading end, upon which the client is forgotten.
    _present: DropGuard,
}

/// A buffer with more room than this is not kept for the next burst.
const LARGEST_KEPT: usize = 256;

impl Deliveries {
    pub(crate) fn new(queue: ClientQueue, present: DropGuard) -> Self {
        Self { queue, next: VecDeque::new(), _present: present }
    }

    /// Is ready when nothing more is sent, though entries may be left.
    pub(crate) fn poll_over(&self, cx: &Context<'_>) -> Poll<()> {
        // The waker is registered before the look, so that no later change is missed.
        self.queue.0.reader.register(cx.waker());
        if self.queue.is_over() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Stream for Deliveries {
    type Item = Delivery;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Delivery>> {
        if let Some(delivery) = self.next.pop_front() {
            return Poll::Ready(Some(delivery));
        }
        if self.next.capacity() > LARGEST_KEPT {
            self.next = VecDeque::new();
        }
        let over = self.poll_over(cx).is_ready();
        let Self { queue, next, .. } = &mut *self;
        std::mem::swap(next, &mut *queue.queue());
        match next.pop_front() {
            Some(delivery) => Poll::Ready(Some(delivery)),
            None if over => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl Drop for Deliveries {
    fn drop(&mut self) {
        self.queue.end();
    }
}
