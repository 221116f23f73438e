//! How fast and how small the lock manager is, alone: no log, no network.
//!
//! `cargo bench -p conclave-bench --bench machine`
//!
//! Memory is what the process grows by. Times are the least of several rounds, beside what the same
//! machine needs for a plain ordered map of as many names in the same run.

mod memory;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use conclave_machine::{
    Acquire, Call, Command, Config, Error, Event, Machine, Open, Reply, RequestId, SessionId, Time,
    Token, Via,
};

const LOCKS: u64 = 100_000;
const SESSIONS: u64 = 10_000;
const ROUNDS: usize = 5;

fn main() {
    let mut memory = Memory::new();
    let mut server = Server::new();
    let sessions: Vec<SessionId> = (0..SESSIONS).map(|_| server.open()).collect();
    let per_session = memory.grown() as f64 / SESSIONS as f64;

    let mut held: Vec<(SessionId, String, Token)> = Vec::new();
    for i in 0..LOCKS {
        let session = sessions[(i % SESSIONS) as usize];
        let name = name(i);
        let token = server.acquire(session, &name).expect("it is free");
        held.push((session, name, token));
    }
    let ours = held.iter().map(|(_, name, _)| name.capacity()).sum::<usize>()
        + held.capacity() * size_of::<(SessionId, String, Token)>();
    let per_lock = (memory.grown() - ours as i64) as f64 / LOCKS as f64;
    println!("{SESSIONS} idle sessions      {per_session:>8.0} bytes each (at most 2048)");
    println!("{LOCKS} held locks       {per_lock:>8.0} bytes each (at most 300)");
    assert!(per_session <= 2048.0, "a session takes too much");
    assert!(per_lock <= 300.0, "a lock takes too much");

    let snapshot = timed(1, || black_box(server.machine.snapshot()));
    println!("snapshot of all that     {:>8.1} ms", snapshot.as_secs_f64() * 1e3);

    keep_alive(&mut server, &sessions);
    uncontended(&mut server, sessions[0], &held);
    drop(server);
    let few = hand_off(10);
    let many = hand_off(10_000);
    println!("hand-off, 10 waiters     {few:>8.0} ns");
    println!("hand-off, 10,000 waiters {many:>8.0} ns ({:.2} times; at most 2)", many / few);
    assert!(many <= 2.0 * few, "a long queue is slow");
    nested(1_000);
}

/// A lock taken and released beside those that are held, and a map that does as much with names.
fn uncontended(server: &mut Server, session: SessionId, held: &[(SessionId, String, Token)]) {
    let names: Vec<String> = (0..1000).map(|i| format!("{}/other", name(i * 97))).collect();
    let ours = timed(ROUNDS, || {
        for name in &names {
            let token = server.acquire(session, name).expect("it is free");
            server.release(session, name, token);
        }
    });
    let mut map: BTreeMap<String, u64> =
        held.iter().map(|(_, name, _)| (name.clone(), 0)).collect();
    let plain = timed(ROUNDS, || {
        for name in &names {
            map.insert(name.clone(), 1);
            black_box(map.remove(name));
        }
    });
    let each = |time: Duration| time.as_nanos() as f64 / names.len() as f64;
    println!(
        "acquire and release      {:>8.0} ns (a map of {LOCKS} names: {:.0} ns, {:.1} times)",
        each(ours),
        each(plain),
        each(ours) / each(plain)
    );
}

fn keep_alive(server: &mut Server, sessions: &[SessionId]) {
    let each = timed(ROUNDS, || {
        for batch in sessions.chunks(100) {
            server.apply(Command::KeepAlive { sessions: batch.to_vec() }).expect("they live");
        }
    });
    let nanos = each.as_nanos() as f64 / sessions.len() as f64;
    // Three renewals in a time-to-live of ten seconds.
    let core = nanos * 0.3 * SESSIONS as f64 / 1e9;
    println!("keepalive                {nanos:>8.0} ns ({:.3} % of a core)", core * 100.0);
}

/// From the release by one to the grant to the next, with so many behind it. The sessions are as many
/// in any case and take turns, so that it is the queue that makes a difference and not the caches.
fn hand_off(waiters: usize) -> f64 {
    let mut server = Server::new();
    let sessions: Vec<SessionId> = (0..SESSIONS + 1).map(|_| server.open()).collect();
    let mut token = server.acquire(sessions[0], "lock").expect("it is free");
    for &session in &sessions[1..=waiters] {
        assert_eq!(server.acquire(session, "lock"), None);
    }
    // For each that is served another one comes, so the queue stays as long as it is.
    let mut holder = 0;
    let mut round = || {
        for _ in 0..10_000 {
            server.release(sessions[holder], "lock", token);
            token = server.granted.take().expect("somebody waits");
            let next = sessions[(holder + waiters + 1) % sessions.len()];
            assert_eq!(server.acquire(next, "lock"), None);
            holder = (holder + 1) % sessions.len();
        }
    };
    round();
    timed(ROUNDS, round).as_nanos() as f64 / 10_000.0
}

/// Waits that are searched for cycles: each holds a lock and waits for the one that the next holds.
fn nested(length: u64) {
    let took = timed(ROUNDS, || {
        let mut server = Server::new();
        let sessions: Vec<SessionId> = (0..length).map(|_| server.open()).collect();
        for (i, &session) in (0..).zip(&sessions) {
            server.acquire(session, &name(i)).expect("it is free");
        }
        for (i, &session) in (0..length - 1).zip(&sessions) {
            assert_eq!(server.acquire(session, &name(i + 1)), None);
        }
        let last = sessions[sessions.len() - 1];
        let call = Call::Acquire(Acquire::exclusive(name(0)));
        let closed = server.request(last, call);
        assert!(matches!(closed, Err(Error::Deadlock { .. })), "{closed:?}");
    });
    println!(
        "chain of {length} waits     {:>8.0} ns a wait, searched for cycles, and closed",
        took.as_nanos() as f64 / length as f64
    );
}

fn name(i: u64) -> String {
    format!("jobs/{i:012}")
}

/// A machine, with what a server does around it.
struct Server {
    machine: Machine,
    events: Vec<Event>,
    requests: u64,
    granted: Option<Token>,
}

impl Server {
    fn new() -> Self {
        let machine = Machine::new(Config::default());
        Self { machine, events: Vec::new(), requests: 0, granted: None }
    }

    fn apply(&mut self, command: Command) -> Result<Reply, conclave_machine::Error> {
        let reply = self.machine.apply(Time::from_millis(1), command, &mut self.events);
        for event in self.events.drain(..) {
            if let Event::Answered { answer: Ok(Reply::Granted { token, .. }), .. } = event {
                self.granted = Some(token);
            }
        }
        reply
    }

    fn open(&mut self) -> SessionId {
        let ttl = Duration::from_secs(10);
        let open =
            Open { name: "worker-0000".into(), host: "host-0000".into(), ttl, ..Open::default() };
        match self.apply(Command::Open(open)) {
            Ok(Reply::Opened { session, .. }) => session,
            other => panic!("{other:?}"),
        }
    }

    fn request(
        &mut self,
        session: SessionId,
        call: Call,
    ) -> Result<Reply, conclave_machine::Error> {
        self.requests += 1;
        let request = RequestId(self.requests);
        // A client has had all answers but the last.
        let received = RequestId(self.requests.saturating_sub(2));
        self.apply(Command::Request { session, request, received, via: Via::Stream, call })
    }

    /// The token, or nothing if it waits.
    fn acquire(&mut self, session: SessionId, name: &str) -> Option<Token> {
        match self.request(session, Call::Acquire(Acquire::exclusive(name))) {
            Ok(Reply::Granted { token, .. }) => Some(token),
            Ok(Reply::Waiting) => None,
            other => panic!("{other:?}"),
        }
    }

    fn release(&mut self, session: SessionId, name: &str, token: Token) {
        let release = Call::Release { lock: name.into(), token, to: None };
        self.request(session, release).expect("it is held");
    }
}

/// The least time of so many rounds.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn timed<T>(rounds: usize, mut work: impl FnMut() -> T) -> Duration {
    let round = |_| {
        let begun = Instant::now();
        black_box(work());
        begun.elapsed()
    };
    (0..rounds).map(round).min().expect("there is a round")
}

/// How much memory this process has.
struct Memory {
    before: i64,
}

impl Memory {
    fn new() -> Self {
        Self { before: Self::now() }
    }

    fn now() -> i64 {
        memory::kib("VmRSS:") as i64 * 1024
    }

    /// How many bytes have come since the last time.
    fn grown(&mut self) -> i64 {
        let now = Self::now();
        std::mem::replace(&mut self.before, now).wrapping_neg() + now
    }
}
