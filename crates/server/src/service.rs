//! What can be asked of a node, however it is asked: each method checks who asks, and answers.

use std::future::pending;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use conclave_api::{Code, v1};
use conclave_machine::{CallId, Command, Name, Origin, RequestId, SessionId, Token, Via};
use tokio::runtime::Handle;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio_util::sync::CancellationToken;
use v1::ask::What as Asked;
use v1::tell::What as Told;

use crate::access::{Access, Caller, Right};
use crate::hub::{Renewal, SingleCall, Target};
use crate::keys;
use crate::listen::HangUp;
use crate::node::{Node, STOPPING};
use crate::outbound::{Answers, Outbound};
use crate::translate::{self, LABEL, failed, millis};

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

/// For how long a deposed session may not stand again, unless the operator says otherwise.
const BARRED: Duration = Duration::from_mins(1);

type Answer<T> = Result<T, v1::Failed>;

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

    /// Somebody is there: the way to it, and what goes that way.
    pub(crate) fn enter(
        self: &Arc<Self>,
        caller: &Caller,
        hang_up: Option<HangUp>,
    ) -> (Outbound, Answers) {
        let connection = self.connections.fetch_add(1, Ordering::Relaxed);
        let cut_off = self.node.metrics.behind.clone();
        let way = Outbound::new(connection, &self.bounds, hang_up, cut_off);
        // Whoever has a token is let go with it.
        let gone = caller.revoked().unwrap_or(&self.closing).child_token();
        let answers = Answers::new(way.clone(), gone.clone().drop_guard());
        tokio::spawn(forget_when(gone, self.clone(), way.clone()));
        (way, answers)
    }

    /// Answers one question by itself. What has to wait is answered when the wait is over; if the call is given
    /// up before, so is the wait.
    pub(crate) async fn call(&self, caller: &Caller, ask: v1::Ask) -> Answer<Told> {
        let v1::Ask { session, id, received, key, what } = ask;
        let what = what.ok_or_else(nothing)?;
        may_ask(caller, &what)?;
        let session = SessionId(session);
        match what {
            Asked::Echo(echo) => return Ok(Told::Echo(echo)),
            Asked::Open(open) => {
                let (command, key) = caller.open(&open)?;
                let told = self.done(command).await?;
                return Ok(match told {
                    Told::Opened(opened) => Told::Opened(v1::Opened { key, ..opened }),
                    told => told,
                });
            }
            Asked::Attach(_) | Asked::Observe(_) | Asked::Unobserve(_) => {
                return Err(failed(Code::BadRequest, "this needs a stream"));
            }
            _ => self.check_key(caller, session, key)?,
        }
        match what {
            Asked::KeepAlive(_) => {
                let (told, answer) = oneshot::channel();
                let target = Target::Caller(told);
                let renewal = Renewal { sessions: vec![session], strange: Vec::new(), target };
                self.node.keep_alive(renewal);
                match answered(answer).await? {
                    Told::Alive(alive) if !alive.gone.is_empty() => Err(unknown(session)),
                    told => Ok(told),
                }
            }
            Asked::Close(_) => self.done(Command::Close { session }).await,
            what => {
                let (request, received) = (number(id)?, RequestId(received));
                let call = CallId {
                    node: self.node.id(),
                    call: self.calls.fetch_add(1, Ordering::Relaxed),
                };
                let (told, answer) = oneshot::channel();
                let (number, numbered) = oneshot::channel();
                let via = Via::Call(call);
                let what = translate::call(what)?;
                let command = Command::Request { session, request, received, via, call: what };
                let node = Arc::downgrade(&self.node);
                let mut interest = Interest { node, session, request, numbered, call, lasts: true };
                self.node.submit(command, Target::Call(SingleCall { told, number }));
                let mut told = tokio::select! {
                    biased;
                    told = self.outcome(session, answer) => told,
                    // A client whose token is gone is not waited for: the node hangs up for it.
                    failed = self.revoked(caller) => return Err(failed),
                };
                interest.lasts = false;
                if let Err(failed) = &mut told {
                    caller.hide_in_failure(failed);
                }
                told
            }
        }
    }

    /// Waits for the answer to a request. While that takes, the session lives on, for its client is there; from the
    /// answer on it has to be kept alive. When the server closes, nothing more is granted, and to wait is no use.
    async fn outcome(&self, session: SessionId, answer: oneshot::Receiver<Told>) -> Answer<Told> {
        let mut answer = pin!(answered(answer));
        loop {
            // As often as a client would that renews its lease in time, by what is left of it.
            let left = self.node.left(session).unwrap_or(Duration::MAX) / RENEWALS;
            let left = left.max(SHORTEST_RENEWAL);
            tokio::select! {
                biased;
                told = &mut answer => return told,
                () = self.closing.cancelled() => {
                    return Err(failed(Code::Unavailable, STOPPING));
                }
                () = tokio::time::sleep(left) => {
                    let (sessions, strange) = (vec![session], Vec::new());
                    self.node.keep_alive(Renewal { sessions, strange, target: Target::Nobody });
                }
            }
        }
    }

    /// Waits until a caller's token is revoked, and says so. When the server closes, all tokens are revoked, too, but
    /// that is not why a wait ends.
    async fn revoked(&self, caller: &Caller) -> v1::Failed {
        match caller.revoked() {
            Some(revoked) => revoked.cancelled().await,
            None => pending().await,
        }
        if self.closing.is_cancelled() {
            return failed(Code::Unavailable, STOPPING);
        }
        let message =
            "this token was revoked, or its rights were changed; ask again with one that is known";
        failed(Code::Unauthenticated, message)
    }

    /// Has a command carried out.
    async fn done(&self, command: Command) -> Answer<Told> {
        let (told, answer) = oneshot::channel();
        self.node.submit(command, Target::Caller(told));
        answered(answer).await
    }

    /// Whether a client may act for a session: it has to know the key, and to show the token that opened it.
    pub(crate) fn check_key(&self, caller: &Caller, session: SessionId, key: u64) -> Answer<()> {
        let shown = keys::digest(key);
        let right = self.node.look(|machine| {
            let known = machine.key(session);
            known.is_some_and(|(key, opened_by)| key.is(&shown) && caller.is(opened_by))
        });
        // Whether it exists is nobody's business who may not act for it.
        if right { Ok(()) } else { Err(unknown(session)) }
    }

    pub(crate) fn locks(&self, caller: &Caller, list: &v1::ListLocks) -> v1::LockList {
        let most = page(list.limit);
        let after = (!list.after.is_empty()).then_some(list.after.as_str());
        let mut locks: Vec<v1::Lock> = self.node.see(|eye| {
            let locks = eye.machine.locks(&list.prefix, after);
            let locks = locks.filter(|lock| caller.sees(&lock.name));
            let locks = locks.take(most + 1).map(|lock| eye.lock(lock, false));
            locks.map(|lock| caller.hide_in_lock(lock)).collect()
        });
        let more = locks.len() > most;
        locks.truncate(most);
        v1::LockList { locks, more }
    }

    pub(crate) fn sessions(
        &self,
        caller: &Caller,
        list: &v1::ListSessions,
    ) -> Answer<v1::SessionList> {
        caller.may_all(Right::Observe)?;
        let most = page(list.limit);
        let mut sessions: Vec<v1::Session> = self.node.see(|eye| {
            let sessions = eye.machine.sessions(Some(SessionId(list.after)));
            sessions.take(most + 1).map(|session| eye.session(session)).collect()
        });
        let more = sessions.len() > most;
        sessions.truncate(most);
        Ok(v1::SessionList { sessions, more })
    }

    pub(crate) fn elections(&self, caller: &Caller, list: &v1::ListElections) -> v1::ElectionList {
        let most = page(list.limit);
        let mut elections: Vec<v1::Election> = self.node.see(|eye| {
            let elections = eye.machine.elections().filter(|election| {
                let name: &str = &election.name;
                name.starts_with(&list.prefix) && name > list.after.as_str() && caller.sees(name)
            });
            elections.take(most + 1).map(|election| eye.election(election)).collect()
        });
        let more = elections.len() > most;
        elections.truncate(most);
        v1::ElectionList { elections, more }
    }

    pub(crate) fn why(&self, caller: &Caller, named: &v1::Named) -> Answer<v1::Reasons> {
        caller.may(Right::Observe, &named.name)?;
        Ok(caller.hide_in_reasons(self.node.see(|eye| eye.why(&named.name))))
    }

    pub(crate) fn graph(&self, caller: &Caller) -> Answer<v1::WaitGraph> {
        caller.may_all(Right::Observe)?;
        Ok(self.node.see(|eye| eye.graph()))
    }

    pub(crate) async fn force_release(
        &self,
        caller: &Caller,
        take: v1::TakeLock,
    ) -> Answer<v1::Done> {
        caller.may(Right::Admin, &take.lock)?;
        translate::lock_fits(&take.lock)?;
        let (lock, token) = (take.lock.into(), take.token.map(Token));
        let reason = reason(take.reason)?;
        self.administer(caller, Command::ForceRelease { lock, token, reason }).await?;
        Ok(v1::Done {})
    }

    pub(crate) async fn expel(&self, caller: &Caller, end: v1::EndSession) -> Answer<v1::Done> {
        caller.may_all(Right::Admin)?;
        let (session, reason) = (SessionId(end.session), reason(end.reason)?);
        self.administer(caller, Command::Expel { session, reason }).await?;
        Ok(v1::Done {})
    }

    pub(crate) async fn expel_all(
        &self,
        caller: &Caller,
        end: v1::EndSessions,
    ) -> Answer<v1::Expelled> {
        caller.may_all(Right::Admin)?;
        let v1::EndSessions { opened_by, host, address, reason } = end;
        let origin = match (opened_by.as_str(), host.as_str(), address.as_str()) {
            (name, "", "") if !name.is_empty() => Origin::Token(name.into()),
            ("", host, "") if !host.is_empty() => Origin::Host(host.into()),
            ("", "", address) if !address.is_empty() => Origin::Address(address.into()),
            _ => {
                let message = "whose sessions? one of `opened_by`, `host` and `address` is needed";
                return Err(failed(Code::BadRequest, message));
            }
        };
        let reason = self::reason(reason)?;
        match self.administer(caller, Command::ExpelAll { origin, reason }).await? {
            Told::Expelled(expelled) => Ok(expelled),
            _ => Ok(v1::Expelled::default()),
        }
    }

    pub(crate) async fn depose(&self, caller: &Caller, end: v1::EndLeadership) -> Answer<v1::Done> {
        caller.may(Right::Admin, &end.election)?;
        translate::election_fits(&end.election)?;
        let v1::EndLeadership { election, barred_ms, at_once, .. } = end;
        let (election, reason) = (election.into(), reason(end.reason)?);
        let barred = barred_ms.map_or(BARRED, Duration::from_millis);
        self.administer(caller, Command::Depose { election, reason, barred, at_once }).await?;
        Ok(v1::Done {})
    }

    async fn administer(&self, caller: &Caller, command: Command) -> Answer<Told> {
        let (told, answer) = oneshot::channel();
        let target = match caller.name() {
            Some(name) => Target::Operator(name.to_owned(), told),
            None => Target::Caller(told),
        };
        self.node.submit(command, target);
        answered(answer).await
    }

    pub(crate) fn status(&self) -> v1::NodeStatus {
        let (counts, warnings) =
            self.node.look(|machine| (machine.counts(), machine.nearly_full()));
        v1::NodeStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            up_ms: millis(self.node.up()),
            deadlocks: self.node.look(|machine| machine.config().deadlocks.to_string()),
            sessions: counts.sessions as u64,
            locks: counts.locks as u64,
            holds: counts.holds as u64,
            waits: counts.waits as u64,
            elections: counts.elections as u64,
            trouble: self.node.trouble().unwrap_or_default(),
            warnings,
        }
    }
}

/// When a client has gone, or has to, nothing is sent to it any more.
async fn forget_when(gone: CancellationToken, service: Arc<Service>, way: Outbound) {
    gone.cancelled().await;
    way.end();
    service.node.with_both(|hub, _| hub.forget(way.connection()));
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
                node.submit(Command::HangUp { session, request, call }, Target::Nobody);
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

async fn answered(answer: oneshot::Receiver<Told>) -> Answer<Told> {
    match answer.await {
        Ok(Told::Failed(failed)) => Err(failed),
        Ok(told) => Ok(told),
        Err(_) => Err(failed(Code::Unavailable, "the node has stopped")),
    }
}

/// Whether somebody may ask this, as far as names are concerned.
pub(crate) fn may_ask(caller: &Caller, what: &Asked) -> Answer<()> {
    match what {
        Asked::Acquire(acquire) => {
            acquire.wants.iter().try_for_each(|want| caller.may(Right::Lock, &want.lock))
        }
        Asked::Campaign(campaign) => caller.may(Right::Lock, &campaign.election),
        Asked::Observe(observe) => caller.may(Right::Observe, &observe.election),
        // What a session has, it may give back and change.
        _ => Ok(()),
    }
}

/// The number of a request, as a client gives it.
pub(crate) fn number(id: u64) -> Answer<RequestId> {
    let request = RequestId(id);
    if request.is_allotted() {
        return Err(failed(Code::BadRequest, "the number of a request has to be below 2^63"));
    }
    Ok(request)
}

fn reason(reason: String) -> Answer<Name> {
    translate::fits(&reason, LABEL, "a reason")?;
    // What separates records is no reason, either.
    let blank = |c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c);
    if reason.chars().all(blank) {
        return Err(failed(Code::BadRequest, "a reason is needed; it is recorded"));
    }
    Ok(reason.into())
}

/// How many of something are listed at once.
fn page(limit: u32) -> usize {
    match limit {
        0 => 1000,
        limit => limit.min(10_000) as usize,
    }
}

pub(crate) fn nothing() -> v1::Failed {
    failed(Code::BadRequest, "nothing is asked")
}

pub(crate) fn unknown(session: SessionId) -> v1::Failed {
    let message = format!(
        "there is no session {session}, or its key or its token is another; it may have expired"
    );
    failed(Code::UnknownSession, message)
}
