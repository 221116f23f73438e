use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use crate::election::Election;
use crate::ids::Arrival;
use crate::lock::{Hold, Lock, LockId, Place};
use crate::mutation::Mutation;
use crate::session::{Origins, Replies, Session};
use crate::slab::Slab;
use crate::view::Forced;
use crate::waits::Wait;
use crate::{
    Agent, Cause, Command, Config, Error, Event, KeyDigest, Name, Open, Origin, Reply, RequestId,
    Scarce, SessionId, Span, Time, Token, Via,
};

/// The lock manager: sessions, locks, elections.
///
/// It is a function of the commands it was given and of their times. Two machines with the same
/// configuration that are given the same commands are equal, answer alike and report alike.
#[derive(Clone, Debug)]
pub struct Machine {
    pub(crate) config: Config,
    /// The time of the last command.
    pub(crate) now: Time,
    pub(crate) last_token: Token,
    pub(crate) last_session: SessionId,
    pub(crate) last_arrival: Arrival,
    pub(crate) sessions: BTreeMap<SessionId, Session>,
    /// The sessions that have a key, by its digest.
    pub(crate) keys: BTreeMap<KeyDigest, SessionId>,
    pub(crate) origins: Origins,
    /// The locks that are held or wanted, by name.
    pub(crate) names: BTreeMap<Name, LockId>,
    pub(crate) locks: Slab<Lock>,
    pub(crate) holds: Slab<Hold>,
    pub(crate) waits: BTreeMap<Arrival, Wait>,
    /// Who waits for a lock or to lead, and by what. Candidates that are mere stand-bys are not here: they
    /// are not held up.
    pub(crate) waiting: BTreeMap<Agent, Arrival>,
    /// Agents that block an older one, under wound-wait, and which.
    pub(crate) wounded: BTreeMap<Agent, Agent>,
    pub(crate) elections: BTreeMap<Name, Election>,
    /// What happens by itself, and when.
    pub(crate) due: BTreeSet<(Time, Due)>,
    pub(crate) forced: VecDeque<Forced>,
    pub(crate) turn: Turn,
    #[cfg(test)]
    pub(crate) mutation: Option<Mutation>,
    /// How much was looked at, for tests of what a search costs.
    #[cfg(test)]
    pub(crate) steps: std::cell::Cell<u64>,
}

/// Something that happens by itself when its time has come.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// A session ends.
    Session(SessionId),
    /// A wait is over.
    Wait(Arrival),
    /// A leader has had the time to yield that it asked for, or the lease of one that was deposed has
    /// ended.
    Yield(Name),
}

/// What is to be done before a command is done with; empty between commands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turn {
    pub(crate) events: Vec<Event>,
    /// Locks at which a request may be granted now, or which may be forgotten.
    pub(crate) touched: Vec<LockId>,
    /// Those who are first for one of these, the first to come on top.
    pub(crate) heads: BinaryHeap<Reverse<Place>>,
    /// The locks that were touched before.
    pub(crate) looked_at: Vec<LockId>,
    /// Elections that may have no leader.
    pub(crate) vacant: BTreeSet<Name>,
    /// Elections that a candidate has left before which the leader was to yield: who waits for the leader
    /// may now wait for ever.
    pub(crate) kept: BTreeSet<Name>,
    /// The wait that the command itself has begun: what comes of it within the command is the
    /// reply.
    pub(crate) asking: Option<Arrival>,
    /// How the answer to the request gets to the client.
    pub(crate) via: Via,
    pub(crate) answer: Option<Result<Reply, Error>>,
}

impl Machine {
    /// A machine without sessions.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            now: Time::ZERO,
            last_token: Token(0),
            last_session: SessionId(0),
            last_arrival: Arrival(0),
            sessions: BTreeMap::new(),
            keys: BTreeMap::new(),
            origins: Origins::default(),
            names: BTreeMap::new(),
            locks: Slab::default(),
            holds: Slab::default(),
            waits: BTreeMap::new(),
            waiting: BTreeMap::new(),
            wounded: BTreeMap::new(),
            elections: BTreeMap::new(),
            due: BTreeSet::new(),
            forced: VecDeque::new(),
            turn: Turn::default(),
            #[cfg(test)]
            mutation: None,
            #[cfg(test)]
            steps: std::cell::Cell::new(0),
        }
    }

    /// What it was made with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The greatest token that was granted.
    pub fn last_token(&self) -> Token {
        self.last_token
    }

    /// The time of the last command.
    pub fn now(&self) -> Time {
        self.now
    }

    /// When something is due next. If no command comes by then, a [`Command::Tick`] should.
    pub fn next_due(&self) -> Option<Time> {
        self.due.first().map(|&(time, _)| time)
    }

    /// The sessions that a command written at `at` would find expired, the first to end first.
    pub fn overdue(&self, at: Time) -> impl Iterator<Item = SessionId> {
        let due = self.due.iter().take_while(move |&&(time, _)| time <= at);
        due.filter_map(|(_, due)| match due {
            Due::Session(session) => Some(*session),
            _ => None,
        })
    }

    /// Carries out a command that was written at `at`, and adds what it brought about to `events`.
    ///
    /// What was due by then happens before. A time before that of the last command is taken for
    /// the same: the clock never goes back.
    pub fn apply(
        &mut self,
        at: Time,
        command: Command,
        events: &mut Vec<Event>,
    ) -> Result<Reply, Error> {
        self.now = self.now.max(at);
        self.expire();
        let reply = self.carry_out(command);
        self.settle();
        self.look_at_kept();
        events.append(&mut self.turn.events);
        reply
    }

    fn carry_out(&mut self, command: Command) -> Result<Reply, Error> {
        match command {
            Command::Tick => Ok(Reply::Done),
            Command::NodeStarted { node } => {
                self.node_started(node);
                Ok(Reply::Done)
            }
            Command::Open(open) => self.open(open),
            Command::KeepAlive { mut sessions } => {
                let deposed = sessions.iter().flat_map(|&session| self.deposed(session)).collect();
                sessions.retain(|&session| !self.keep_alive(session));
                Ok(Reply::Alive { gone: sessions, deposed })
            }
            Command::Close { session } => {
                self.known(session)?;
                self.end_session(session, Cause::Closed);
                Ok(Reply::Done)
            }
            Command::Expel { session, reason } => {
                self.check_label(&reason)?;
                self.known(session)?;
                self.end_session(session, Cause::Expelled);
                Ok(Reply::Done)
            }
            Command::ExpelAll { origin, reason } => {
                self.check_label(&reason)?;
                Ok(self.expel_all(&origin))
            }
            Command::HangUp { session, request, call } => {
                self.known(session)?;
                self.hang_up(session, request, call)
            }
            Command::Request { session, request, received, via, call } => {
                self.turn.via = via;
                self.request(session, request, received, &call)
            }
            Command::ForceRelease { lock, token, reason } => {
                self.force_release(&lock, token, reason)
            }
            Command::Depose { election, reason, barred, at_once } => {
                self.depose(&election, reason, barred, at_once)
            }
        }
    }

    fn open(&mut self, open: Open) -> Result<Reply, Error> {
        if let Some(&session) = self.keys.get(&open.key)
            && !self.is_mutated(Mutation::OpenedTwice)
        {
            // The client asks again, and counts the lease from now.
            if self.sessions[&session].opened_by != open.opened_by {
                return Err(Error::KeyTaken);
            }
            self.keep_alive(session);
            let silent = self.is_mutated(Mutation::SilentOpenings);
            let deposed = if silent { Vec::new() } else { self.deposed(session) };
            return Ok(Reply::Opened { session, deposed });
        }
        self.check_open(&open)?;
        let Open { name, host, ttl, priority, key, opened_by, address, quota: _ } = open;
        self.last_session.0 += 1;
        let session = self.last_session;
        let deadline = self.now + ttl;
        let fresh = Session {
            name,
            host,
            ttl,
            priority,
            key,
            opened_by,
            address,
            opened: self.now,
            deadline,
            holds: Vec::new(),
            waits: Vec::new(),
            pending: 0,
            leads: Vec::new(),
            barred: Vec::new(),
            replies: Replies::default(),
            allotted: Replies::default(),
            next_allotted: RequestId::ALLOTTED,
        };
        self.admit(session, fresh);
        Ok(Reply::Opened { session, deposed: Vec::new() })
    }

    /// Whether there may be such a session.
    fn check_open(&self, open: &Open) -> Result<(), Error> {
        for label in [&open.name, &open.host, &open.opened_by, &open.address] {
            self.check_label(label)?;
        }
        let limits = &self.config.limits;
        let (least, most) = (limits.shortest_ttl, limits.longest_ttl);
        if open.ttl < least || open.ttl > most {
            return Err(Error::BadSpan { what: Span::TimeToLive, least, most });
        }
        within(self.sessions.len(), limits.sessions, Scarce::Sessions)?;
        if !open.opened_by.is_empty() {
            let quota = open.quota.map_or(usize::MAX, |quota| quota as usize);
            let most = limits.sessions_per_token.min(quota);
            within(self.origins.of_token(&open.opened_by), most, Scarce::SessionsPerToken)?;
        }
        if !open.address.is_empty() {
            let (there, most) =
                (self.origins.of_address(&open.address), limits.sessions_per_address);
            within(there, most, Scarce::SessionsPerAddress)?;
        }
        Ok(())
    }

    /// Writes a session down wherever it belongs.
    pub(crate) fn admit(&mut self, id: SessionId, session: Session) {
        self.due.insert((session.deadline, Due::Session(id)));
        if session.key != KeyDigest::NONE {
            self.keys.insert(session.key, id);
        }
        self.origins.add(&session);
        self.sessions.insert(id, session);
    }

    fn expel_all(&mut self, origin: &Origin) -> Reply {
        let is_from = |session: &Session| match origin {
            Origin::Token(name) => session.opened_by == *name,
            Origin::Host(host) => session.host == *host,
            Origin::Address(address) => session.address == *address,
        };
        let theirs = self.sessions.iter().filter(|(_, session)| is_from(session));
        let theirs: Vec<SessionId> = theirs.map(|(&id, _)| id).collect();
        let sessions = theirs.len() as u64;
        for session in theirs {
            self.end_session(session, Cause::Expelled);
        }
        Reply::Expelled { sessions }
    }

    /// Whether there is such a session, which then lives on.
    fn keep_alive(&mut self, id: SessionId) -> bool {
        let now = self.now;
        let Some(session) = self.sessions.get_mut(&id) else { return false };
        let deadline = now + session.ttl;
        if deadline > session.deadline {
            self.due.remove(&(session.deadline, Due::Session(id)));
            self.due.insert((deadline, Due::Session(id)));
            session.deadline = deadline;
        }
        true
    }

    /// Lets happen what is due. Whatever is over is over before anything is granted, so that
    /// nothing is granted to a session that has ended.
    fn expire(&mut self) {
        let now = self.now;
        let mut yielding = Vec::new();
        while self.due.first().is_some_and(|&(time, _)| time <= now) {
            let (_, due) = self.due.pop_first().expect("something is due");
            match due {
                Due::Session(session) => {
                    self.end_session(session, Cause::Expired);
                    if self.is_mutated(Mutation::GrantToDead) {
                        self.settle();
                    }
                }
                Due::Wait(arrival) => {
                    let wait = self.withdraw(arrival);
                    self.answer(&wait, Err(Error::TimedOut));
                }
                Due::Yield(election) => yielding.push(election),
            }
        }
        for election in yielding {
            self.time_is_up(&election);
        }
        self.settle();
        self.look_at_kept();
    }

    /// Ends a session: first its waits, then what it holds. Nothing is granted yet.
    fn end_session(&mut self, id: SessionId, cause: Cause) {
        let waits = self.sessions[&id].waits.clone();
        for (_, arrival) in waits {
            let wait = self.withdraw(arrival);
            self.answer(&wait, Err(Error::SessionEnded));
        }
        for hold in self.holds_by_name(id, |_| true) {
            self.drop_hold(hold, cause);
        }
        // Taken at once: each that ends by itself is looked for among all that are left.
        let session = self.sessions.get_mut(&id).expect("it is there");
        let mut leads = std::mem::take(&mut session.leads);
        leads.sort_unstable();
        for election in leads {
            self.vacate(&election, Some(cause));
        }
        let session = self.sessions.remove(&id).expect("it is there");
        self.due.remove(&(session.deadline, Due::Session(id)));
        if self.keys.get(&session.key) == Some(&id) {
            self.keys.remove(&session.key);
        }
        self.origins.remove(&session);
        self.turn.events.push(Event::Ended { session: id, cause });
    }

    pub(crate) fn next_token(&mut self) -> Token {
        self.last_token.0 += 1;
        self.last_token
    }

    fn known(&self, session: SessionId) -> Result<(), Error> {
        if self.sessions.contains_key(&session) {
            return Ok(());
        }
        Err(Error::UnknownSession(session))
    }

    pub(crate) fn check_label(&self, label: &str) -> Result<(), Error> {
        fits(label.len(), self.config.limits.label_bytes, Scarce::LabelBytes)
    }

    pub(crate) fn check_name(&self, name: &str) -> Result<(), Error> {
        if name.is_empty() {
            return Err(Error::NoName);
        }
        fits(name.len(), self.config.limits.name_bytes, Scarce::NameBytes)
    }

    /// Whether so many more locks and elections can be there.
    pub(crate) fn check_names(&self, more: usize) -> Result<(), Error> {
        let names = self.names.len() + self.elections.len() + more;
        fits(names, self.config.limits.names, Scarce::Names)
    }

    /// So many things are looked at. Tests count them.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "only tests count"))]
    #[inline]
    pub(crate) fn looks_at(&self, things: usize) {
        #[cfg(test)]
        self.steps.set(self.steps.get() + things as u64);
        #[cfg(not(test))]
        let _ = things;
    }

    /// Whether a test has spoilt the machine in this way.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "only tests spoil the machine"))]
    #[inline]
    pub(crate) fn is_mutated(&self, mutation: Mutation) -> bool {
        #[cfg(test)]
        return self.mutation == Some(mutation);
        #[cfg(not(test))]
        {
            let _ = mutation;
            false
        }
    }
}

/// Whether there is room for one more.
pub(crate) fn within(now: usize, most: usize, what: Scarce) -> Result<(), Error> {
    fits(now.saturating_add(1), most, what)
}

/// Whether so many are not too many.
pub(crate) fn fits(count: usize, most: usize, what: Scarce) -> Result<(), Error> {
    if count <= most {
        return Ok(());
    }
    Err(Error::Limit { what, most: most as u64 })
}
