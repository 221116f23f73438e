//! What a client does as time passes: it renews leases, ends those that are over, and suspects a silent server.

use std::time::Duration;

use conclave_api::v1::ask::What as Operation;
use conclave_api::v1::{self, Ask};

use crate::Loss;
use crate::state::{RENEWALS, Shared, State};
use crate::time::Moment;

/// Timers stand still while the machine sleeps, leases do not: so leases are looked at at least this often.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// A server that has sent nothing for so long is asked for an echo, and is given up after as long again without one.
pub(crate) const SILENCE: Duration = Duration::from_secs(5);

/// How many sessions are renewed by one message.
const SESSIONS_PER_RENEWAL: usize = 4096;

impl Shared {
    /// Renews leases and ends those that are over, until nothing is left to do.
    pub(crate) async fn keep_alive(&self) {
        loop {
            let now = self.options.time.now();
            let (next, finished) = self.with_state(|state| {
                if state.tick(now) {
                    self.disconnect.notify_one();
                }
                (state.next_check, state.is_finished())
            });
            if finished {
                return;
            }
            let sleep = next.map_or(LONGEST_SLEEP, |next| next.since(now).min(LONGEST_SLEEP));
            tokio::select! {
                () = self.options.time.sleep(now, sleep) => {}
                () = self.wake_keepalive.notified() => {}
            }
        }
    }
}

impl State {
    /// Does what is due. Returns whether the server is to be given up.
    pub(crate) fn tick(&mut self, now: Moment) -> bool {
        self.next_check = None;
        let (mut over, mut due, mut resumed) = (Vec::new(), Vec::new(), Vec::new());
        let mut wake = Moment::NEVER;
        for (&session, session_state) in &mut self.sessions {
            if let Some(closing) = &session_state.closing {
                if closing.until <= now && (self.outbox.is_some() || self.last_handle_gone) {
                    over.push(session);
                }
                // While no server is up, log time does not pass either.
                wake = wake.min(closing.until.max(now.plus(LONGEST_SLEEP)));
                continue;
            }
            let lease = &session_state.liveness.lease;
            if !lease.lasts(now) {
                over.push(session);
                continue;
            }
            // Those that are due soon go with those that are due now.
            let interval = lease.ttl() / RENEWALS;
            if session_state.renew_at <= now.plus(interval / 8) {
                due.push(session);
                session_state.renew_at = now.plus(interval);
            }
            match session_state.paused {
                Some(until) if until <= now => resumed.push(session),
                Some(until) => wake = wake.min(until),
                None => {}
            }
            wake = wake.min(session_state.renew_at).min(lease.ends());
        }
        if wake != Moment::NEVER {
            self.check_by(wake);
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
        if std::mem::take(&mut self.received) || self.outbox.is_none() {
            self.quiet = None;
        } else if now.since(*self.quiet.get_or_insert(now)) >= SILENCE {
            self.probe(now.plus(SILENCE));
        }
        self.renew(&due, now);
        let dead = self.suspect.is_some_and(|suspect| suspect <= now);
        if dead {
            self.suspect = None;
        } else if let Some(suspect) = self.suspect {
            self.check_by(suspect);
        }
        dead
    }

    /// Renews the leases of these.
    fn renew(&mut self, sessions: &[u64], now: Moment) {
        if self.outbox.is_none() || sessions.is_empty() {
            return;
        }
        self.suspect_if_overdue(now);
        for sessions in sessions.chunks(SESSIONS_PER_RENEWAL) {
            let id = self.next_id();
            self.renewals.insert(id, (now, sessions.to_vec()));
            let what = Some(Operation::KeepAlive(v1::KeepAlive { sessions: sessions.to_vec() }));
            self.send(Ask { id, what, ..Ask::default() });
        }
    }

    /// If an earlier renewal should have been confirmed by now, asks the server for an echo. A slow disk delays
    /// renewals, but not an echo; if not even that comes, the server is given up.
    fn suspect_if_overdue(&mut self, now: Moment) {
        let overdue = |(sent, renewed): &(Moment, Vec<u64>)| {
            let alive = renewed.iter().filter_map(|session| self.sessions.get(session));
            let ttls =
                alive.filter(|one| one.closing.is_none()).map(|one| one.liveness.lease.ttl());
            ttls.min().filter(|&ttl| now.since(*sent) >= ttl / 4)
        };
        let overdue = self.renewals.values().filter_map(overdue).min();
        if let Some(ttl) = overdue {
            self.probe(now.plus(ttl / 8));
        }
    }

    /// Asks the server for an echo. If nothing is received from it by then, it is given up.
    fn probe(&mut self, by: Moment) {
        if self.suspect.is_none() {
            self.suspect = Some(by);
            let (id, what) = (self.next_id(), Some(Operation::Echo(v1::Echo::default())));
            self.send(Ask { id, what, ..Ask::default() });
        }
    }

    /// The server has committed a renewal.
    pub(crate) fn renewed(&mut self, id: u64, gone: &[u64], now: Moment) {
        let Some((sent, sessions)) = self.renewals.remove(&id) else { return };
        for session in sessions {
            let Some(session_state) = self.sessions.get(&session) else { continue };
            if gone.contains(&session) {
                self.ended(session, Loss::Gone);
            } else if session_state.closing.is_none()
                && !session_state.liveness.lease.renew(sent, now)
            {
                self.close(session, Loss::Expired, None);
            }
        }
    }

    /// The server could not commit a renewal. There is time for another.
    pub(crate) fn not_renewed(&mut self, id: u64, now: Moment) {
        let Some((_, sessions)) = self.renewals.remove(&id) else { return };
        for session in sessions {
            let Some(session_state) = self.sessions.get_mut(&session) else { continue };
            session_state.renew_at = now.plus(session_state.liveness.lease.ttl() / 8);
            let renew_at = session_state.renew_at;
            self.check_by(renew_at);
        }
    }

    /// The shortest time-to-live of a session that lives.
    pub(crate) fn shortest_ttl(&self) -> Option<Duration> {
        let alive = self.sessions.values().filter(|session_state| session_state.closing.is_none());
        alive.map(|session_state| session_state.liveness.lease.ttl()).min()
    }

    /// After a reconnect: sends again all that may not have been received.
    pub(crate) fn repeat_all(&mut self) {
        let now = self.time.now();
        self.renewals.clear();
        (self.quiet, self.suspect) = (None, None);
        let sessions: Vec<u64> = self.sessions.keys().copied().collect();
        for &session in &sessions {
            self.repeat(session);
        }
        for session_state in self.sessions.values_mut() {
            session_state.renew_at = now.plus(session_state.liveness.lease.ttl() / RENEWALS);
        }
        let alive = |session: &u64| self.sessions[session].closing.is_none();
        let sessions: Vec<u64> = sessions.into_iter().filter(alive).collect();
        self.renew(&sessions, now);
        self.opening.retain(|_, opening| !opening.reply.is_closed());
        let opening: Vec<u64> = self.opening.keys().copied().collect();
        opening.into_iter().for_each(|id| self.send_open(id));
    }
}
