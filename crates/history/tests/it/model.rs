//! A lock service in a page, for honest histories: clients ask over slow lines, die, and are forgotten.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use conclave_history::{Event, Held, LockView, Mode, Time, Waiter, Want};

const MS: u64 = 1_000_000;

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    /// A session begins, or goes on after it has released something.
    Ask(u64),
    /// The server reads the request.
    Arrive(u64),
    /// The client reads that it was granted this token.
    Hear(u64, u64),
    Release(u64, u64),
    /// The server reads the release; the client will have been told at that time.
    Free(u64, u64, Time),
    /// The client renews its lease, unless it is dead.
    Renew(u64),
    /// The server ends the session, unless that was renewed.
    Expire(u64),
    Look,
}

#[derive(Clone, Debug)]
struct Session {
    want: Want,
    request: u64,
    /// When the server ends it.
    until: Time,
    /// Its client sends nothing more.
    dead: bool,
}

/// An honest service and its clients.
pub(crate) struct Model {
    chance: fastrand::Rng,
    now: Time,
    calendar: BinaryHeap<Reverse<(Time, Next)>>,
    sessions: BTreeMap<u64, Session>,
    holders: BTreeMap<String, Vec<(u64, u64, Mode)>>,
    queues: BTreeMap<String, Vec<u64>>,
    last_token: u64,
    events: Vec<Event>,
}

const TTL: u64 = 2_000 * MS;

/// An honest history of some sessions.
pub(crate) fn history(seed: u64, sessions: u64) -> Vec<Event> {
    let mut model = Model {
        chance: fastrand::Rng::with_seed(seed),
        now: 1_000 * MS,
        calendar: BinaryHeap::new(),
        sessions: BTreeMap::new(),
        holders: BTreeMap::new(),
        queues: BTreeMap::new(),
        last_token: 0,
        events: Vec::new(),
    };
    for session in 1..=sessions {
        model.open(session);
    }
    for _ in 0..sessions * 2 {
        let at = model.soon(sessions * 300);
        model.plan(at, Next::Look);
    }
    while let Some(Reverse((at, next))) = model.calendar.pop() {
        model.now = at;
        model.happens(next);
    }
    model.events
}

impl Model {
    /// A moment within the next milliseconds.
    fn soon(&mut self, within: u64) -> Time {
        self.now + self.chance.u64(1..within * MS)
    }

    fn plan(&mut self, at: Time, next: Next) {
        self.calendar.push(Reverse((at, next)));
    }

    fn open(&mut self, session: u64) {
        let sent = self.soon(4_000);
        let (written, answered) = (sent + MS, sent + 2 * MS);
        let name = format!("s{session}");
        self.events.push(Event::Opened { session, name, ttl: TTL, sent, answered });
        let (want, until) = (Want::exclusive(""), written + TTL);
        self.sessions.insert(session, Session { want, request: 0, until, dead: false });
        self.plan(answered, Next::Ask(session));
        self.plan(answered + TTL / 3, Next::Renew(session));
        self.plan(until, Next::Expire(session));
    }

    /// The client renews its lease.
    fn renew(&mut self, number: u64) {
        let sent = self.now;
        let answered = sent + self.chance.u64(1..3) * MS;
        let session = self.sessions.get_mut(&number).expect("it is alive");
        session.until = answered - MS / 2 + TTL;
        let until = session.until;
        self.events.push(Event::Renewed { session: number, sent, answered });
        self.plan(until, Next::Expire(number));
    }

    fn happens(&mut self, next: Next) {
        match next {
            Next::Ask(number) if self.sessions.contains_key(&number) => {
                let lock = ["a", "b", "c"][self.chance.usize(..3)];
                let want = match (lock, self.chance.bool()) {
                    ("c", _) => Want::permits(lock, self.chance.u32(1..3), 3),
                    (_, true) => Want::exclusive(lock),
                    (_, false) => Want::shared(lock),
                };
                let at = self.now;
                let session = self.sessions.get_mut(&number).expect("it is alive");
                session.request += 1;
                session.want = want.clone();
                let request = session.request;
                let wants = vec![want];
                self.events.push(Event::Asked { session: number, request, wants, at });
                let at = self.soon(5);
                self.plan(at, Next::Arrive(number));
            }
            Next::Arrive(number) if self.sessions.contains_key(&number) => {
                let lock = self.sessions[&number].want.lock.clone();
                self.queues.entry(lock.clone()).or_default().push(number);
                self.serve(&lock);
            }
            Next::Hear(number, token) if self.sessions.contains_key(&number) => {
                let (at, request) = (self.now, self.sessions[&number].request);
                self.events.push(Event::Granted { session: number, request, token, at });
                if self.chance.u8(..8) == 0 {
                    let name = format!("s{number}");
                    self.events.push(Event::Silent { name, ttl: TTL, at });
                    self.sessions.get_mut(&number).expect("it is alive").dead = true;
                } else {
                    let at = self.soon(50);
                    self.plan(at, Next::Release(number, token));
                }
            }
            Next::Release(session, token) if self.sessions.contains_key(&session) => {
                let at = self.now;
                self.events.push(Event::Releasing { session, token, at });
                let free = self.soon(5);
                self.plan(free, Next::Free(session, token, free + MS));
            }
            Next::Free(session, token, at) if self.sessions.contains_key(&session) => {
                self.events.push(Event::Released { session, token, at });
                let lock = self.sessions[&session].want.lock.clone();
                self.let_go(session, &lock);
                if self.sessions[&session].request < 5 {
                    self.plan(at + MS, Next::Ask(session));
                } else {
                    self.sessions.get_mut(&session).expect("it is alive").dead = true;
                }
            }
            Next::Renew(number)
                if self.sessions.get(&number).is_some_and(|session| !session.dead) =>
            {
                self.renew(number);
                self.plan(self.now + TTL / 3, Next::Renew(number));
            }
            Next::Expire(session) => {
                let due = self.sessions.get(&session).filter(|session| session.until <= self.now);
                if let Some(lock) = due.map(|session| session.want.lock.clone()) {
                    self.sessions.remove(&session);
                    self.let_go(session, &lock);
                }
            }
            Next::Look => self.look(),
            _ => {}
        }
    }

    fn let_go(&mut self, session: u64, lock: &str) {
        if let Some(holders) = self.holders.get_mut(lock) {
            holders.retain(|(holder, ..)| *holder != session);
        }
        if let Some(queue) = self.queues.get_mut(lock) {
            queue.retain(|waiter| *waiter != session);
        }
        self.serve(lock);
    }

    /// Grants to the first in the queue as long as it can have the lock.
    fn serve(&mut self, lock: &str) {
        while let Some(&first) = self.queues.get(lock).and_then(|queue| queue.first()) {
            let mode = self.sessions[&first].want.mode;
            let holders = self.holders.entry(lock.to_owned()).or_default();
            let fits = match mode {
                Mode::Exclusive => holders.is_empty(),
                Mode::Shared => holders.iter().all(|(.., mode)| *mode == Mode::Shared),
                Mode::Permits { take, of } => {
                    let taken = |(.., mode): &(u64, u64, Mode)| match mode {
                        Mode::Permits { take, .. } => *take,
                        _ => of,
                    };
                    holders.iter().map(taken).sum::<u32>() + take <= of
                }
            };
            if !fits {
                return;
            }
            self.last_token += 1;
            holders.push((first, self.last_token, mode));
            self.queues.get_mut(lock).expect("it is there").remove(0);
            let (at, token) = (self.soon(5), self.last_token);
            self.plan(at, Next::Hear(first, token));
        }
    }

    fn look(&mut self) {
        let name = |session: &u64| format!("s{session}");
        let mut locks: BTreeMap<&str, LockView> = BTreeMap::new();
        let empty =
            |lock: &str| LockView { lock: lock.to_owned(), holders: vec![], waiters: vec![] };
        for (lock, holders) in &self.holders {
            let view = locks.entry(lock).or_insert_with(|| empty(lock));
            let held = |(session, token, _): &(u64, u64, Mode)| Held {
                session: *session,
                name: name(session),
                token: *token,
            };
            view.holders = holders.iter().map(held).collect();
        }
        for (lock, queue) in &self.queues {
            let view = locks.entry(lock).or_insert_with(|| empty(lock));
            let wait = |session: &u64| Waiter { session: *session, name: name(session) };
            view.waiters = queue.iter().map(wait).collect();
        }
        let locks = locks.into_values().collect();
        self.events.push(Event::Looked { sent: self.now - MS, answered: self.now + MS, locks });
    }
}
