//! What clients may ask of a node, whatever front end they ask by: each method checks the caller's rights, and answers in
//! the words of the machine.

mod operators;

use std::future::{pending, ready};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use conclave_api::Code;
use conclave_machine::{
    Call, CallId, Command, Counts, ElectionView, Name, Reply, RequestId, SessionId, SessionView,
    Via, Why,
};
use futures_util::stream::{Stream, StreamExt};
use tokio::runtime::Handle;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio_util::sync::CancellationToken;

use crate::answer::{Answer, Answered, Failure};
use crate::auth::{Access, Caller, Right, VisibleLock, VisibleWhy};
use crate::client_queue::{ClientQueue, Deliveries, Delivery};
use crate::dispatch::{Renewal, SingleCall, Target};
use crate::keys;
use crate::listen::HangUp;
use crate::node::{Node, STOPPING};
use crate::sizes;
use crate::state::{Leader, MachineAt};

/// A node, as clients see it.
pub(crate) struct Service {
    pub(crate) node: Arc<Node>,
    /// Cancelled when all connections have to end.
    pub(crate) closing: CancellationToken,
    pub(crate) bounds: Bounds,
    pub(crate) access: Access,
    connections: AtomicU64,
    calls: AtomicU64,
}

/// A session that a client wants to open.
pub(crate) struct NewSession {
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) ttl: Duration,
    pub(crate) priority: i32,
    /// Chosen by the client, so that to open again returns the same session; 0 if it does not care.
    pub(crate) nonce: u64,
}

/// A session, and the key that lets a client act for it.
#[derive(Clone, Copy)]
pub(crate) struct SessionKey {
    pub(crate) session: SessionId,
    pub(crate) key: u64,
}

/// What a client may ask on behalf of a session.
pub(crate) enum Ask {
    KeepAlive,
    Close,
    /// A call to the machine, by the number that the client gave it; 0 if it gave none.
    Call {
        id: u64,
        received: RequestId,
        call: Call,
    },
}

/// Part of a list, and whether there is more.
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    pub(crate) more: bool,
}

/// Which part of a list is asked for.
pub(crate) struct Range<'a> {
    pub(crate) prefix: &'a str,
    /// Only what comes after this name, unless it is empty.
    pub(crate) after: &'a str,
    /// At most so many; 0 means the usual number.
    pub(crate) limit: u32,
}

/// How a node does.
pub(crate) struct NodeState {
    pub(crate) up: Duration,
    /// The policy for deadlocks.
    pub(crate) deadlocks: String,
    pub(crate) counts: Counts,
    /// Why nothing is granted, if so.
    pub(crate) trouble: Option<String>,
    pub(crate) warnings: Vec<String>,
}

/// How much one client may ask for.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Questions of one connection that are not answered yet; what waits in a queue is answered.
    pub in_flight: usize,
    /// Sessions of one connection.
    pub sessions: usize,
    /// Elections that one connection observes.
    pub observed: usize,
    /// What may wait to be sent to one connection; a client that is further behind is cut off.
    pub queued: usize,
    /// A client that has been silent for so long is asked whether it is there; one that does not answer for
    /// as long again is not.
    pub silence: Duration,
    /// A connection on which nothing is asked for so long is closed; one that has become a stream is not.
    pub patience: Duration,
    /// Connections of all clients together. If nothing is said, as many as this process may have open files, less
    /// some for the node itself.
    pub connections: Option<usize>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            in_flight: 4096,
            sessions: 20_000,
            observed: 1000,
            queued: 16 * 1024,
            silence: Duration::from_secs(10),
            patience: Duration::from_secs(30),
            connections: None,
        }
    }
}

/// A lease is renewed after this part of what is left of it.
const RENEWALS: u32 = 3;
/// And not more often than that.
const SHORTEST_RENEWAL: Duration = Duration::from_millis(50);

impl Service {
    pub(crate) fn new(node: Arc<Node>, access: Access, bounds: Bounds) -> Self {
        let closing = CancellationToken::new();
        let (connections, calls) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { node, closing, bounds, access, connections, calls }
    }

    /// All connections have to end.
    pub(crate) fn close(&self) {
        self.closing.cancel();
        self.access.close();
    }

    /// Registers a client: its queue, and the end from which its connection is served.
    pub(crate) fn register(
        self: &Arc<Self>,
        caller: &Caller,
        hang_up: Option<HangUp>,
    ) -> (ClientQueue, Deliveries) {
        let connection = self.connections.fetch_add(1, Ordering::Relaxed);
        let cut_off = self.node.metrics.behind.clone();
        let queue = ClientQueue::new(connection, &self.bounds, hang_up, cut_off);
        // A client with a token is disconnected when the token is revoked.
        let gone = caller.revoked().unwrap_or(&self.closing).child_token();
        let deliveries = Deliveries::new(queue.clone(), gone.clone().drop_guard());
        tokio::spawn(forget_when(gone, self.clone(), queue.clone()));
        (queue, deliveries)
    }

    /// Opens a session by a single call; returns its key, too.
    pub(crate) async fn open(
        &self,
        caller: &Caller,
        open: NewSession,
    ) -> Result<(u64, Answered), Failure> {
        let (command, key) = caller.open(open)?;
        Ok((key, self.done(command).await?))
    }

    /// Answers a single call on behalf of a session. A request that has to wait is answered when the wait is over; if
    /// the client gives up the call before, the wait ends.
    pub(crate) async fn call(&self, caller: &Caller, session: SessionKey, ask: Ask) -> Answer {
        if let Ask::Call { call, .. } = &ask {
            check_rights(caller, call)?;
        }
        self.check_key(caller, session)?;
        let SessionKey { session, .. } = session;
        match ask {
            Ask::KeepAlive => {
                let (told, answer) = oneshot::channel();
                let target = Target::Caller(told);
                let renewal = Renewal { sessions: vec![session], strange: Vec::new(), target };
                self.node.keep_alive(renewal);
                let answered = answered(answer).await?;
                match &answered.reply {
                    Reply::Alive { gone, .. } if !gone.is_empty() => Err(unknown(session)),
                    _ => Ok(answered),
                }
            }
            Ask::Close => self.done(Command::Close { session }).await,
            Ask::Call { id, received, call: asked } => {
                let call = CallId {
                    node: self.node.id(),
                    call: self.calls.fetch_add(1, Ordering::Relaxed),
                };
                let (told, answer) = oneshot::channel();
                let (number, numbered) = oneshot::channel();
                let (request, command) = request(session, id, received, Via::Call(call), asked)?;
                let node = Arc::downgrade(&self.node);
                let mut interest = Interest { node, session, request, numbered, call, lasts: true };
                self.node.submit(command, Target::Call(SingleCall { answer: told, number }));
                let mut answer = tokio::select! {
                    biased;
                    answer = self.outcome(session, answer) => answer,
                    // The node hangs up for a client whose token was revoked.
                    failure = self.revoked(caller) => return Err(failure),
                };
                interest.lasts = false;
                if let Err(failure) = &mut answer {
                    caller.hide_in_failure(failure);
                }
                answer
            }
        }
    }

    /// The leader of an election, now and whenever it changes.
    pub(crate) fn observe(
        self: &Arc<Self>,
        caller: &Caller,
        election: &str,
        hang_up: Option<HangUp>,
    ) -> Result<impl Stream<Item = Arc<Leader>> + Send + 'static + use<>, Failure> {
        caller.may(Right::Observe, election)?;
        sizes::election(election)?;
        let election = Name::from(election);
        let (queue, deliveries) = self.register(caller, hang_up);
        self.node.see_with_dispatch(|dispatch, at| {
            dispatch.observe(&election, &queue);
            let leader = Arc::new(at.leader(&election));
            queue.push(Delivery::Leader { id: 0, leader });
        });
        Ok(deliveries.filter_map(|delivery| {
            ready(match delivery {
                Delivery::Leader { leader, .. } => Some(leader),
                Delivery::Answer(..) | Delivery::Event { .. } => None,
            })
        }))
    }

    /// Waits for the answer to a request. Meanwhile the node renews the session, since its client is connected; from the
    /// answer on the client has to. When the server closes, nothing more is granted, so the wait ends.
    async fn outcome(&self, session: SessionId, answer: oneshot::Receiver<Answer>) -> Answer {
        let mut answer = pin!(answered(answer));
        loop {
            // As often as a client that renews its lease in time: after a part of what is left of it.
            let left = self.node.left(session).unwrap_or(Duration::MAX) / RENEWALS;
            let left = left.max(SHORTEST_RENEWAL);
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                () = self.closing.cancelled() => {
                    return Err(Failure::new(Code::Unavailable, STOPPING));
                }
                () = tokio::time::sleep(left) => {
                    let (sessions, strange) = (vec![session], Vec::new());
                    self.node.keep_alive(Renewal { sessions, strange, target: Target::Discard });
                }
            }
        }
    }

    /// Waits until a caller's token is revoked. When the server closes, all tokens are revoked, too, and the failure
    /// says that the server closes.
    async fn revoked(&self, caller: &Caller) -> Failure {
        match caller.revoked() {
            Some(revoked) => revoked.cancelled().await,
            None => pending().await,
        }
        if self.closing.is_cancelled() {
            return Failure::new(Code::Unavailable, STOPPING);
        }
        let message =
            "this token was revoked, or its rights were changed; ask again with one that is known";
        Failure::new(Code::Unauthenticated, message)
    }

    /// Has a command committed and applied.
    async fn done(&self, command: Command) -> Answer {
        let (told, answer) = oneshot::channel();
        self.node.submit(command, Target::Caller(told));
        answered(answer).await
    }

    /// Whether a client may act for a session: it has to know the key, and to show the token that opened it.
    pub(crate) fn check_key(&self, caller: &Caller, session: SessionKey) -> Result<(), Failure> {
        let SessionKey { session, key } = session;
        let shown = keys::digest(key);
        let right = self.node.look(|machine| {
            let known = machine.key(session);
            known.is_some_and(|(key, opened_by)| key.is(&shown) && caller.is(opened_by))
        });
        // A caller that may not act for a session does not learn whether it exists.
        if right { Ok(()) } else { Err(unknown(session)) }
    }

    /// The locks that a caller may see, by name.
    pub(crate) fn locks<T>(
        &self,
        caller: &Caller,
        range: &Range<'_>,
        encode: impl Fn(MachineAt<'_>, VisibleLock) -> T,
    ) -> Page<T> {
        let after = (!range.after.is_empty()).then_some(range.after);
        self.node.see(|at| {
            let locks = at.machine.locks(range.prefix, after);
            let locks = locks.filter(|lock| caller.sees(&lock.name));
            page(range.limit, locks.map(|lock| encode(at, caller.visible_lock(lock))))
        })
    }

    /// The sessions after one, the oldest first.
    pub(crate) fn sessions<T>(
        &self,
        caller: &Caller,
        after: SessionId,
        limit: u32,
        encode: impl Fn(MachineAt<'_>, SessionView) -> T,
    ) -> Result<Page<T>, Failure> {
        caller.may_all(Right::Observe)?;
        Ok(self.node.see(|at| {
            let sessions = at.machine.sessions(Some(after));
            page(limit, sessions.map(|session| encode(at, session)))
        }))
    }

    /// The elections that a caller may see, by name.
    pub(crate) fn elections<T>(
        &self,
        caller: &Caller,
        range: &Range<'_>,
        encode: impl Fn(MachineAt<'_>, ElectionView) -> T,
    ) -> Page<T> {
        self.node.see(|at| {
            let elections = at.machine.elections().filter(|election| {
                let name: &str = &election.name;
                name.starts_with(range.prefix) && name > range.after && caller.sees(name)
            });
            page(range.limit, elections.map(|election| encode(at, election)))
        })
    }

    /// Why a lock cannot be had or an election cannot be led. What operators took is part of it even if it is free.
    pub(crate) fn why<T>(
        &self,
        caller: &Caller,
        name: &str,
        encode: impl FnOnce(MachineAt<'_>, VisibleWhy) -> T,
    ) -> Result<T, Failure> {
        caller.may(Right::Observe, name)?;
        Ok(self.node.see(|at| {
            let forced = at.machine.forced().filter(|forced| &*forced.name == name);
            let forced = forced.cloned().collect();
            let why = match at.machine.why(name) {
                Some(why) => caller.visible_why(Why { forced, ..why }),
                None => VisibleWhy { forced, ..VisibleWhy::default() },
            };
            encode(at, why)
        }))
    }

    /// The wait-for graph.
    pub(crate) fn graph<T>(
        &self,
        caller: &Caller,
        encode: impl FnOnce(MachineAt<'_>) -> T,
    ) -> Result<T, Failure> {
        caller.may_all(Right::Observe)?;
        Ok(self.node.see(encode))
    }

    pub(crate) fn state(&self) -> NodeState {
        let (counts, warnings) =
            self.node.look(|machine| (machine.counts(), machine.nearly_full()));
        let deadlocks = self.node.look(|machine| machine.config().deadlocks.to_string());
        NodeState { up: self.node.up(), deadlocks, counts, trouble: self.node.trouble(), warnings }
    }
}

/// Removes a client when it has disconnected or its connection has to end.
async fn forget_when(gone: CancellationToken, service: Arc<Service>, queue: ClientQueue) {
    gone.cancelled().await;
    queue.end();
    service.node.with_both(|dispatch, _| dispatch.forget(queue.connection()));
}

/// A request that a single call awaits the answer to. If the call is given up, the node hangs up for it: the wait
/// ends unless another connection has taken it over, and what came without a number is undone.
struct Interest {
    node: Weak<Node>,
    session: SessionId,
    /// 0 if the machine allots it.
    request: RequestId,
    /// Where the number comes from that the request has in the log.
    numbered: oneshot::Receiver<RequestId>,
    call: CallId,
    lasts: bool,
}

impl Drop for Interest {
    fn drop(&mut self) {
        if !self.lasts {
            return;
        }
        let (node, session, call) = (self.node.clone(), self.session, self.call);
        let hang_up = move |request| {
            if let Some(node) = node.upgrade() {
                node.submit(Command::HangUp { session, request, call }, Target::Discard);
            }
        };
        if self.request != RequestId(0) {
            return hang_up(self.request);
        }
        match self.numbered.try_recv() {
            Ok(request) => hang_up(request),
            // It is on its way into the log.
            Err(TryRecvError::Empty) => {
                let numbered = std::mem::replace(&mut self.numbered, oneshot::channel().1);
                if let Ok(runtime) = Handle::try_current() {
                    runtime.spawn(async move { numbered.await.map(hang_up) });
                }
            }
            Err(TryRecvError::Closed) => {}
        }
    }
}

async fn answered(answer: oneshot::Receiver<Answer>) -> Answer {
    let stopped = || Err(Failure::new(Code::Unavailable, "the node has stopped"));
    answer.await.unwrap_or_else(|_| stopped())
}

/// Whether a caller may make this call, as far as names are concerned.
pub(crate) fn check_rights(caller: &Caller, call: &Call) -> Result<(), Failure> {
    match call {
        Call::Acquire(acquire) => {
            acquire.wants.iter().try_for_each(|want| caller.may(Right::Lock, &want.lock))
        }
        Call::Campaign(campaign) => caller.may(Right::Lock, &campaign.election),
        // What a session has, it may give back and change.
        _ => Ok(()),
    }
}

/// The command for a call, and the number that the client gave it.
pub(crate) fn request(
    session: SessionId,
    id: u64,
    received: RequestId,
    via: Via,
    call: Call,
) -> Result<(RequestId, Command), Failure> {
    let request = RequestId(id);
    if request.is_allotted() {
        let message = "the number of a request has to be below 2^63";
        return Err(Failure::new(Code::BadRequest, message));
    }
    sizes::check(&call)?;
    Ok((request, Command::Request { session, request, received, via, call }))
}

/// The first items of a list.
fn page<T>(limit: u32, items: impl Iterator<Item = T>) -> Page<T> {
    let most = match limit {
        0 => 1000,
        limit => limit.min(10_000) as usize,
    };
    let mut items: Vec<T> = items.take(most + 1).collect();
    let more = items.len() > most;
    items.truncate(most);
    Page { items, more }
}

pub(crate) fn unknown(session: SessionId) -> Failure {
    let message = format!(
        "there is no session {session}, or its key or its token is another; it may have expired"
    );
    Failure::new(Code::UnknownSession, message)
}
