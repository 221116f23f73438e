//! What a client does as time passes: it renews leases, and finds that some are over.

use std::time::Duration;

use conclave_api::v1::ask::What;
use conclave_api::v1::{self, Ask};

use crate::Loss;
use crate::book::{Book, RENEWALS, Shared};
use crate::time::Moment;

/// Timers stand still while the machine sleeps, and leases do not: the heart looks at least so often.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// A server of which nothing is heard for so long is asked whether it is there, also if nothing is wanted of it
/// just then; and is given up after as long again.
pub(crate) const SILENCE: Duration = Duration::from_secs(5);

/// How many sessions are renewed by one message.
const TOGETHER: usize = 4096;

impl Shared {
    /// Renews leases and ends those that are over, until nothing is left to do.
    pub(crate) async fn beat(&self) {
        loop {
            let now = self.options.time.now();
            let (next, finished) = self.visit(|book| {
                if book.beat(now) {
                    self.hang_up.notify_one();
                }
                (book.wake, book.is_finished())
            });
            if finished {
                return;
            }
            let sleep = next.map_or(LONGEST_SLEEP, |next| next.since(now).min(LONGEST_SLEEP));
            tokio::select! {
                () = self.options.time.sleep(now, sleep) => {}
                () = self.poke.notified() => {}
            }
        }
    }
}

impl Book {
    /// Does what is due. Says whether the server is to be given up for dead.
    pub(crate) fn beat(&mut self, now: Moment) -> bool {
        self.wake = None;
        let (mut over, mut due, mut resumed) = (Vec::new(), Vec::new(), Vec::new());
        let mut wake = Moment::NEVER;
        for (&session, tracked) in &mut self.sessions {
            if let Some(closing) = &tracked.closing {
                if closing.until <= now && (self.outbox.is_some() || self.last_handle_gone) {
                    over.push(session);
                }
                // While no server is there, its time does not pass there either.
                wake = wake.min(closing.until.max(now.plus(LONGEST_SLEEP)));
                continue;
            }
            let lease = &tracked.vital.lease;
            if !lease.lasts(now) {
                over.push(session);
                continue;
            }
            // Those that are due soon go with those that are due now.
            let interval = lease.ttl() / RENEWALS;
            if tracked.renew_at <= now.plus(interval / 8) {
                due.push(session);
                tracked.renew_at = now.plus(interval);
            }
            match tracked.paused {
                Some(until) if until <= now => resumed.push(session),
                Some(until) => wake = wake.min(until),
                None => {}
            }
            wake = wake.min(tracked.renew_at).min(lease.ends());
        }
        if wake != Moment::NEVER {
            self.wake_by(wake);
        }
        for session in over {
            let closed = self.sessions.get(&session).is_some_and(|one| one.closing.is_some());
            if closed {
                // By now the server has ended it by itself.
                self.ended(session, Loss::Closed);
            } else {
                self.close(session, Loss::Expired, None);
            }
        }
        resumed.into_iter().for_each(|session| self.repeat(session));
        if std::mem::take(&mut self.heard) || self.outbox.is_none() {
            self.quiet = None;
        } else if now.since(*self.quiet.get_or_insert(now)) >= SILENCE {
            self.inquire(now.plus(SILENCE));
        }
        self.renew(&due, now);
        let dead = self.suspect.is_some_and(|suspect| suspect <= now);
        if dead {
            self.suspect = None;
        } else if let Some(suspect) = self.suspect {
            self.wake_by(suspect);
        }
        dead
    }

    /// Renews the leases of these.
    fn renew(&mut self, sessions: &[u64], now: Moment) {
        if self.outbox.is_none() || sessions.is_empty() {
            return;
        }
        self.wonder(now);
        for sessions in sessions.chunks(TOGETHER) {
            let id = self.next_id();
            self.renewals.insert(id, (now, sessions.to_vec()));
            let what = Some(What::KeepAlive(v1::KeepAlive { sessions: sessions.to_vec() }));
            self.send(Ask { id, what, ..Ask::default() });
        }
    }

    /// If an earlier renewal should have been confirmed by now, asks the server whether it is there. A
    /// slow disk delays renewals, but not an echo; if not even that comes, nobody is there any more.
    fn wonder(&mut self, now: Moment) {
        let overdue = |(sent, renewed): &(Moment, Vec<u64>)| {
            let alive = renewed.iter().filter_map(|session| self.sessions.get(session));
            let ttls = alive.filter(|one| one.closing.is_none()).map(|one| one.vital.lease.ttl());
            ttls.min().filter(|&ttl| now.since(*sent) >= ttl / 4)
        };
        let overdue = self.renewals.values().filter_map(overdue).min();
        if let Some(ttl) = overdue {
            self.inquire(now.plus(ttl / 8));
        }
    }

    /// Asks the server whether it is there. If it is not heard by then, it is not.
    fn inquire(&mut self, by: Moment) {
        if self.suspect.is_none() {
            self.suspect = Some(by);
            let (id, what) = (self.next_id(), Some(What::Echo(v1::Echo::default())));
            self.send(Ask { id, what, ..Ask::default() });
        }
    }

    /// The server has written a renewal down.
    pub(crate) fn renewed(&mut self, id: u64, gone: &[u64], now: Moment) {
        let Some((sent, sessions)) = self.renewals.remove(&id) else { return };
        for session in sessions {
            let Some(tracked) = self.sessions.get(&session) else { continue };
            if gone.contains(&session) {
                self.ended(session, Loss::Gone);
            } else if tracked.closing.is_none() && !tracked.vital.lease.renew(sent, now) {
                self.close(session, Loss::Expired, None);
            }
        }
    }

    /// The server could not write a renewal down. There is time for another.
    pub(crate) fn not_renewed(&mut self, id: u64, now: Moment) {
        let Some((_, sessions)) = self.renewals.remove(&id) else { return };
        for session in sessions {
            let Some(tracked) = self.sessions.get_mut(&session) else { continue };
            tracked.renew_at = now.plus(tracked.vital.lease.ttl() / 8);
            let renew_at = tracked.renew_at;
            self.wake_by(renew_at);
        }
    }

    /// The shortest time-to-live of a session that lives.
    pub(crate) fn shortest_ttl(&self) -> Option<Duration> {
        let alive = self.sessions.values().filter(|tracked| tracked.closing.is_none());
        alive.map(|tracked| tracked.vital.lease.ttl()).min()
    }

    /// There is a new connection: everything that may not have been heard is said again.
    pub(crate) fn repeat_all(&mut self) {
        let now = self.time.now();
        self.renewals.clear();
        (self.quiet, self.suspect) = (None, None);
        let sessions: Vec<u64> = self.sessions.keys().copied().collect();
        for &session in &sessions {
            self.repeat(session);
        }
        for tracked in self.sessions.values_mut() {
            tracked.renew_at = now.plus(tracked.vital.lease.ttl() / RENEWALS);
        }
        let alive = |session: &u64| self.sessions[session].closing.is_none();
        let sessions: Vec<u64> = sessions.into_iter().filter(alive).collect();
        self.renew(&sessions, now);
        self.opening.retain(|_, opening| !opening.reply.is_closed());
        let opening: Vec<u64> = self.opening.keys().copied().collect();
        opening.into_iter().for_each(|id| self.send_open(id));
    }
}
