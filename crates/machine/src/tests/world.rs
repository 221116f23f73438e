//! A machine, a clock and a record of what happened, for stories.

use std::time::Duration;

use crate::*;

pub(crate) struct World {
    pub(crate) machine: Machine,
    pub(crate) events: Vec<Event>,
    at: Time,
    requests: u64,
    names: std::vec::IntoIter<&'static str>,
}

impl World {
    pub(crate) fn new(deadlocks: Policy) -> Self {
        Self::with(Config { deadlocks, ..Config::default() })
    }

    pub(crate) fn with(config: Config) -> Self {
        Self {
            machine: Machine::new(config),
            events: Vec::new(),
            at: Time::ZERO,
            requests: 0,
            names: vec!["one", "two", "three", "four"].into_iter(),
        }
    }

    pub(crate) fn apply(&mut self, command: Command) -> Result<Reply, Error> {
        self.apply_later(0, command)
    }

    pub(crate) fn apply_later(&mut self, millis: u64, command: Command) -> Result<Reply, Error> {
        self.at = self.at + Duration::from_millis(millis);
        let reply = self.machine.apply(self.at, command, &mut self.events);
        self.machine.audit().expect("the machine is sound");
        reply
    }

    /// Time passes.
    pub(crate) fn pass(&mut self, millis: u64) {
        self.apply_later(millis, Command::Tick).expect("time passes");
    }

    pub(crate) fn try_open(&mut self, ttl: Duration, priority: i32) -> Result<Reply, Error> {
        let name = self.names.next().unwrap_or("more").into();
        let host = "here".into();
        self.apply(Command::Open(Open { name, host, ttl, priority, ..Open::default() }))
    }

    /// A session that lives for ten seconds.
    pub(crate) fn open(&mut self) -> SessionId {
        self.open_with(0)
    }

    pub(crate) fn open_with(&mut self, priority: i32) -> SessionId {
        match self.try_open(Duration::from_secs(10), priority) {
            Ok(Reply::Opened { session, .. }) => session,
            other => panic!("no session, but {other:?}"),
        }
    }

    pub(crate) fn open_several<const N: usize>(&mut self) -> [SessionId; N] {
        [(); N].map(|()| self.open())
    }

    /// Those of one session that live no more.
    pub(crate) fn keep_alive(&mut self, session: SessionId) -> Vec<SessionId> {
        match self.apply(Command::KeepAlive { sessions: vec![session] }) {
            Ok(Reply::Alive { gone, .. }) => gone,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn call(&mut self, session: SessionId, call: Call) -> Result<Reply, Error> {
        self.requests += 1;
        self.repeat(session, RequestId(self.requests), call)
    }

    pub(crate) fn repeat(
        &mut self,
        session: SessionId,
        request: RequestId,
        call: Call,
    ) -> Result<Reply, Error> {
        let (received, via) = (RequestId(0), Via::Stream);
        self.apply(Command::Request { session, request, received, via, call })
    }

    pub(crate) fn last_request(&self) -> RequestId {
        RequestId(self.requests)
    }

    pub(crate) fn acquire(&mut self, session: SessionId, it: Acquire) -> Result<Reply, Error> {
        self.call(session, Call::Acquire(it))
    }

    /// Acquires what can be had at once.
    pub(crate) fn token(&mut self, session: SessionId, it: Acquire) -> Token {
        granted(&self.acquire(session, it))
    }

    pub(crate) fn release(&mut self, session: SessionId, lock: &str, token: Token) {
        let release = Call::Release { lock: lock.into(), token, to: None };
        self.call(session, release).expect("it is held");
    }

    pub(crate) fn upgrade(&mut self, session: SessionId, lock: &str) -> Result<Reply, Error> {
        let holders = self.machine.lock(lock).expect("it is held").holders;
        let holder = holders.iter().find(|holder| holder.who.agent.session == session);
        let token = holder.expect("it is held").token;
        let patience = Patience::Forever;
        self.call(session, Call::Upgrade { lock: lock.into(), token, patience })
    }

    pub(crate) fn holders(&self, lock: &str) -> Vec<SessionId> {
        let holders = self.machine.lock(lock).map(|lock| lock.holders).unwrap_or_default();
        holders.iter().map(|holder| holder.who.agent.session).collect()
    }

    pub(crate) fn waiters(&self, lock: &str) -> Vec<SessionId> {
        let waiters = self.machine.lock(lock).map(|lock| lock.waiters).unwrap_or_default();
        waiters.iter().map(|waiter| waiter.who.agent.session).collect()
    }

    /// Whether a request of this session was answered so after having waited.
    pub(crate) fn was_told(&self, to: SessionId, error: &Error) -> bool {
        self.events.iter().any(|event| match event {
            Event::Answered { session, answer: Err(found), .. } => *session == to && found == error,
            _ => false,
        })
    }

    /// The cycle that a session was told of, as its members.
    pub(crate) fn cycle_told(&self, to: SessionId) -> Option<Vec<SessionId>> {
        self.events.iter().find_map(|event| match event {
            Event::Answered { session, answer: Err(Error::Deadlock { cycle }), .. }
                if *session == to =>
            {
                Some(members(cycle))
            }
            _ => None,
        })
    }
}

pub(crate) fn members(cycle: &[Link]) -> Vec<SessionId> {
    cycle.iter().map(|link| link.waiter.session).collect()
}

pub(crate) fn exclusive(lock: &str) -> Acquire {
    Acquire::exclusive(lock)
}

pub(crate) fn shared(lock: &str) -> Acquire {
    Acquire::shared(lock)
}

pub(crate) fn waits() -> Result<Reply, Error> {
    Ok(Reply::Waiting)
}

/// The token of something that was granted.
#[track_caller]
pub(crate) fn granted(reply: &Result<Reply, Error>) -> Token {
    match reply {
        Ok(Reply::Granted { token, .. } | Reply::Elected { term: token }) => *token,
        other => panic!("it was not granted, but {other:?}"),
    }
}
