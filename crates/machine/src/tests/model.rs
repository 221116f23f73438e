//! What the machine should do, said as plainly as possible: flat lists that are searched from end to
//! end, and everything worked out anew each time. Slow, and easy to believe.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::*;

#[derive(Clone, Debug)]
pub(crate) struct Model {
    config: Config,
    now: Time,
    stalled: Duration,
    tokens: u64,
    opened: u64,
    arrivals: u64,
    pub(crate) sessions: Vec<ASession>,
    pub(crate) holds: Vec<AHold>,
    pub(crate) waits: Vec<AWait>,
    pub(crate) leaders: Vec<ALeader>,
    wounded: Vec<(Agent, Agent)>,
    events: Vec<Event>,
    /// Elections that have lost their leader.
    vacated: Vec<Name>,
    /// The request being answered, if it waits.
    asking: Option<u64>,
    answer: Option<Result<Reply, Error>>,
}

#[derive(Clone, Debug)]
pub(crate) struct ASession {
    pub(crate) id: SessionId,
    ttl: Duration,
    deadline: Time,
    priority: i32,
    kept: BTreeMap<RequestId, Kept>,
    forgotten: RequestId,
}

#[derive(Clone, Debug)]
enum Kept {
    Answer(Result<Reply, Error>),
    Grant,
    Upgrade,
    Downgrade,
    Nested(Name, Owner),
    Lead,
}

#[derive(Clone, Debug)]
pub(crate) struct AHold {
    pub(crate) lock: Name,
    pub(crate) agent: Agent,
    pub(crate) mode: Mode,
    depth: u32,
    pub(crate) token: Token,
    epoch: Token,
    request: RequestId,
}

#[derive(Clone, Debug)]
pub(crate) struct AWait {
    arrival: u64,
    pub(crate) agent: Agent,
    pub(crate) request: RequestId,
    until: Option<Time>,
    goal: AGoal,
}

#[derive(Clone, Debug)]
enum AGoal {
    Locks(Vec<Want>),
    Upgrade(Name, Token),
    Lead(Campaign),
}

#[derive(Clone, Debug)]
pub(crate) struct ALeader {
    pub(crate) election: Name,
    pub(crate) session: SessionId,
    pub(crate) term: Token,
    request: RequestId,
    rank: i64,
    grace: Duration,
    value: Vec<u8>,
    yield_by: Option<Time>,
}

impl Model {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            config,
            now: Time::ZERO,
            stalled: Duration::ZERO,
            tokens: 0,
            opened: 0,
            arrivals: 0,
            sessions: Vec::new(),
            holds: Vec::new(),
            waits: Vec::new(),
            leaders: Vec::new(),
            wounded: Vec::new(),
            events: Vec::new(),
            vacated: Vec::new(),
            asking: None,
            answer: None,
        }
    }

    pub(crate) fn apply(
        &mut self,
        at: Time,
        command: &Command,
    ) -> (Result<Reply, Error>, Vec<Event>) {
        let elapsed = at.since(self.now);
        self.now = self.now.max(at);
        match command {
            Command::Resume { stalled } => self.stalled += (*stalled).min(elapsed),
            Command::RenewAll => {
                for id in self.sessions.iter().map(|it| it.id).collect::<Vec<_>>() {
                    self.keep_alive(id);
                }
            }
            _ => {}
        }
        self.expire();
        self.settle();
        let reply = self.carry_out(command);
        self.settle();
        (reply, std::mem::take(&mut self.events))
    }

    fn clock(&self) -> Time {
        self.now.back(self.stalled)
    }

    fn session(&mut self, id: SessionId) -> &mut ASession {
        self.sessions.iter_mut().find(|it| it.id == id).expect("a session")
    }

    fn expire(&mut self) {
        let clock = self.clock();
        // In the order of time; of what is due at once, sessions first.
        loop {
            let sessions = self.sessions.iter().map(|it| (it.deadline, 0, it.id.0));
            let waits = self.waits.iter().filter_map(|it| Some((it.until?, 1, it.arrival)));
            let Some((time, kind, number)) = sessions.chain(waits).min() else { break };
            if time > clock {
                break;
            }
            if kind == 0 {
                self.end(SessionId(number), Cause::Expired);
            } else {
                self.end_wait(number, Err(Error::TimedOut));
            }
        }
        let mut over: Vec<(Time, Name)> = Vec::new();
        for leader in &mut self.leaders {
            if let Some(by) = leader.yield_by.filter(|&by| by <= clock) {
                leader.yield_by = None;
                over.push((by, leader.election.clone()));
            }
        }
        over.sort();
        for (_, election) in over {
            let leader = self.leaders.iter().find(|it| it.election == election).expect("a leader");
            let rank = leader.rank;
            let better = |it: &AWait| {
                matches!(&it.goal, AGoal::Lead(campaign)
                if campaign.election == election && campaign.rank > rank && campaign.preempt)
            };
            if self.waits.iter().any(better) {
                self.vacate(&election, Some(Cause::Preempted));
            }
        }
    }

    fn carry_out(&mut self, command: &Command) -> Result<Reply, Error> {
        let limits = self.config.limits.clone();
        let label = |text: &str| most(text.len(), limits.label_bytes, Scarce::LabelBytes);
        match command {
            Command::Tick | Command::Resume { .. } | Command::RenewAll => Ok(Reply::Done),
            Command::Open(open) => {
                label(&open.name)?;
                label(&open.host)?;
                if open.ttl < limits.shortest_ttl || open.ttl > limits.longest_ttl {
                    return Err(Error::BadSpan);
                }
                most(self.sessions.len() + 1, limits.sessions, Scarce::Sessions)?;
                self.opened += 1;
                let id = SessionId(self.opened);
                self.sessions.push(ASession {
                    id,
                    ttl: open.ttl,
                    deadline: self.clock() + open.ttl,
                    priority: open.priority,
                    kept: BTreeMap::new(),
                    forgotten: RequestId(0),
                });
                Ok(Reply::Opened { session: id })
            }
            Command::KeepAlive { sessions } => {
                let gone = sessions.iter().copied().filter(|&id| !self.keep_alive(id)).collect();
                Ok(Reply::Alive { gone })
            }
            Command::Close { session } => self.end_known(*session, Cause::Closed),
            Command::Expel { session, reason } => {
                label(reason)?;
                self.end_known(*session, Cause::Expelled)
            }
            Command::Request { session, request, received, call } => {
                self.request(*session, *request, *received, call)
            }
            Command::ForceRelease { lock, token, reason } => {
                label(reason)?;
                if !self.is_wanted(lock) {
                    return Err(Error::Free(lock.clone()));
                }
                let mut tokens: Vec<Token> = self.holders(lock).map(|it| it.token).collect();
                if let Some(token) = *token {
                    if !tokens.contains(&token) {
                        return Err(Error::StaleToken { lock: lock.clone(), token });
                    }
                    tokens = vec![token];
                }
                tokens.sort();
                for token in tokens {
                    self.drop_hold(lock, token, Cause::Forced);
                }
                Ok(Reply::Done)
            }
            Command::Depose { election, reason } => {
                label(reason)?;
                if !self.leaders.iter().any(|it| it.election == *election) {
                    return Err(Error::Free(election.clone()));
                }
                self.vacate(election, Some(Cause::Forced));
                Ok(Reply::Done)
            }
        }
    }

    fn keep_alive(&mut self, id: SessionId) -> bool {
        let clock = self.clock();
        let Some(session) = self.sessions.iter_mut().find(|it| it.id == id) else { return false };
        session.deadline = session.deadline.max(clock + session.ttl);
        true
    }

    fn end_known(&mut self, id: SessionId, cause: Cause) -> Result<Reply, Error> {
        if !self.sessions.iter().any(|it| it.id == id) {
            return Err(Error::UnknownSession(id));
        }
        self.end(id, cause);
        Ok(Reply::Done)
    }

    fn end(&mut self, id: SessionId, cause: Cause) {
        let mut waits: Vec<(RequestId, u64)> = Vec::new();
        waits.extend(self.of_session(id).map(|it| (it.request, it.arrival)));
        waits.sort();
        for (_, arrival) in waits {
            self.end_wait(arrival, Err(Error::SessionEnded));
        }
        for (lock, token) in self.held_by_name(id, |_| true) {
            self.drop_hold(&lock, token, cause);
        }
        let led = self.leaders.iter().filter(|it| it.session == id);
        let mut led: Vec<Name> = led.map(|it| it.election.clone()).collect();
        led.sort();
        for election in led {
            self.vacate(&election, Some(cause));
        }
        self.sessions.retain(|it| it.id != id);
        self.events.push(Event::Ended { session: id, cause });
    }

    fn of_session(&self, id: SessionId) -> impl Iterator<Item = &AWait> {
        self.waits.iter().filter(move |it| it.agent.session == id)
    }

    fn held_by_name(&self, id: SessionId, which: impl Fn(&AHold) -> bool) -> Vec<(Name, Token)> {
        let holds = self.holds.iter().filter(|it| it.agent.session == id && which(it));
        let mut holds: Vec<_> = holds.map(|it| (it.lock.clone(), it.token)).collect();
        holds.sort();
        holds
    }

    fn request(
        &mut self,
        id: SessionId,
        request: RequestId,
        received: RequestId,
        call: &Call,
    ) -> Result<Reply, Error> {
        let Some(session) = self.sessions.iter_mut().find(|it| it.id == id) else {
            return Err(Error::UnknownSession(id));
        };
        session.kept.retain(|&kept, _| kept > received);
        session.forgotten = session.forgotten.max(received);
        let forgotten = request <= session.forgotten;
        if let Some(kept) = session.kept.get(&request).cloned() {
            return self.again(id, request, &kept, call);
        }
        if self.of_session(id).any(|it| it.request == request) {
            return Ok(Reply::Waiting);
        }
        if forgotten {
            return Err(Error::Forgotten(request));
        }
        let reply = match call {
            Call::Acquire(acquire) => self.acquire(id, request, acquire),
            Call::Release { lock, token, to } => self.release(id, lock, *token, *to),
            Call::ReleaseAll { token } => {
                for (lock, token) in self.held_by_name(id, |it| it.token == *token) {
                    self.drop_hold(&lock, token, Cause::Released);
                }
                Ok(Reply::Released { left: 0 })
            }
            Call::Upgrade { lock, token, patience } => {
                self.upgrade(id, request, lock, *token, *patience)
            }
            Call::Downgrade { lock, token } => self.downgrade(id, request, lock, *token),
            Call::Cancel { request } => self.cancel(id, *request),
            Call::Campaign(campaign) => self.campaign(id, request, campaign),
            Call::Proclaim { election, term, value } => {
                most(value.len(), self.config.limits.value_bytes, Scarce::ValueBytes)?;
                match self.leads(id, election, *term) {
                    None => Err(Error::NotLeader(election.clone())),
                    Some(leader) => {
                        leader.value = value.clone();
                        self.announce(election);
                        Ok(Reply::Done)
                    }
                }
            }
            Call::Resign { election, term } => match self.leads(id, election, *term) {
                None => Err(Error::NotLeader(election.clone())),
                Some(_) => {
                    self.vacate(election, None);
                    Ok(Reply::Done)
                }
            },
        };
        let kept = match (&reply, call) {
            (Ok(Reply::Waiting), _) => return reply,
            (Ok(Reply::Granted { depth: 1, .. }), Call::Acquire(_)) => Kept::Grant,
            (Ok(Reply::Granted { .. }), Call::Acquire(acquire)) => {
                Kept::Nested(acquire.wants[0].lock.clone(), acquire.owner)
            }
            (Ok(Reply::Granted { .. }), Call::Upgrade { .. }) => Kept::Upgrade,
            (Ok(Reply::Granted { .. }), _) => Kept::Downgrade,
            (Ok(Reply::Elected { .. }), _) => Kept::Lead,
            _ => Kept::Answer(reply.clone()),
        };
        self.keep(id, request, kept);
        reply
    }

    fn keep(&mut self, id: SessionId, request: RequestId, kept: Kept) {
        let most = self.config.limits.replies;
        let session = self.session(id);
        session.kept.insert(request, kept);
        while session.kept.len() > most {
            let (oldest, _) = session.kept.pop_first().expect("one too many");
            session.forgotten = session.forgotten.max(oldest);
        }
    }

    fn again(
        &self,
        id: SessionId,
        request: RequestId,
        kept: &Kept,
        call: &Call,
    ) -> Result<Reply, Error> {
        let granted = |lock: &Name| {
            self.holders(lock).find(|it| it.agent.session == id && it.request == request)
        };
        match (kept, call) {
            (Kept::Answer(answer), _) => answer.clone(),
            (Kept::Grant, Call::Acquire(acquire)) => {
                let mut token = None;
                let mut epochs = Vec::new();
                for want in &acquire.wants {
                    let hold = granted(&want.lock).ok_or(Error::Lost)?;
                    token = token.or(Some(hold.token));
                    epochs.push(hold.epoch);
                }
                let token = token.ok_or(Error::Lost)?;
                Ok(Reply::Granted { token, epochs: epochs.into(), depth: 1 })
            }
            (
                Kept::Upgrade | Kept::Downgrade,
                Call::Upgrade { lock, .. } | Call::Downgrade { lock, .. },
            ) => granted(lock).map(told).ok_or(Error::Lost),
            (Kept::Nested(lock, owner), _) => {
                let hold = self.best_hold(Agent { session: id, owner: *owner }, lock);
                hold.map(told).ok_or(Error::Lost)
            }
            (Kept::Lead, Call::Campaign(campaign)) => {
                let mut leaders = self.leaders.iter();
                let leader = leaders.find(|it| {
                    it.election == campaign.election && it.session == id && it.request == request
                });
                leader.map(|it| Reply::Elected { term: it.term }).ok_or(Error::Lost)
            }
            _ => Err(Error::Lost),
        }
    }

    fn holders(&self, lock: &Name) -> impl Iterator<Item = &AHold> {
        self.holds.iter().filter(move |it| it.lock == *lock)
    }

    fn is_wanted(&self, lock: &Name) -> bool {
        self.holders(lock).next().is_some() || !self.queue(lock).is_empty()
    }

    /// What a wait wants of locks.
    fn wants(&self, wait: &AWait) -> Vec<Want> {
        match &wait.goal {
            AGoal::Locks(wants) => wants.clone(),
            AGoal::Upgrade(lock, _) => vec![Want { lock: lock.clone(), mode: Mode::Exclusive }],
            AGoal::Lead(_) => Vec::new(),
        }
    }

    /// Who waits for a lock, the next first.
    fn queue(&self, lock: &Name) -> Vec<&AWait> {
        let waits = self.waits.iter();
        let mut queue: Vec<&AWait> =
            waits.filter(|it| self.wants(it).iter().any(|want| want.lock == *lock)).collect();
        queue.sort_by_key(|it| order(it));
        queue
    }

    /// Whether a lock can be held so beside its holders, not counting those who are excused.
    fn admits(&self, want: &Want, excused: Option<Token>) -> bool {
        let mut others = self.holders(&want.lock).filter(|it| Some(it.token) != excused);
        match want.mode {
            Mode::Exclusive => others.next().is_none(),
            Mode::Shared => others.all(|it| it.mode == Mode::Shared),
            Mode::Permits { take, of } => {
                u64::from(take) + others.map(|it| u64::from(permits(it.mode))).sum::<u64>()
                    <= u64::from(of)
            }
        }
    }

    fn is_ready(&self, wait: &AWait) -> bool {
        let excused = match &wait.goal {
            AGoal::Upgrade(_, token) => Some(*token),
            AGoal::Locks(_) => None,
            AGoal::Lead(_) => return false,
        };
        self.wants(wait).iter().all(|want| {
            self.queue(&want.lock)[0].arrival == wait.arrival && self.admits(want, excused)
        })
    }

    /// Grants the first that can be granted, until none can.
    fn settle(&mut self) {
        loop {
            let ready = self.waits.iter().filter(|it| self.is_ready(it)).min_by_key(|it| order(it));
            let Some(arrival) = ready.map(|it| it.arrival) else { break };
            self.serve(arrival);
        }
        let mut vacated = std::mem::take(&mut self.vacated);
        vacated.sort();
        for election in vacated {
            let best = self.waits.iter().filter_map(|it| match &it.goal {
                AGoal::Lead(campaign) if campaign.election == election => {
                    Some((std::cmp::Reverse(campaign.rank), it.arrival))
                }
                _ => None,
            });
            match best.min() {
                None => self.announce(&election),
                Some((_, arrival)) => self.serve(arrival),
            }
        }
    }

    fn serve(&mut self, arrival: u64) {
        let at = self.waits.iter().position(|it| it.arrival == arrival).expect("it waits");
        let wait = self.waits.remove(at);
        let reply = match &wait.goal {
            AGoal::Locks(wants) => self.grant(wait.agent, wait.request, wants),
            AGoal::Upgrade(lock, token) => {
                self.convert(lock, *token, Mode::Exclusive, wait.request)
            }
            AGoal::Lead(campaign) => self.elect(wait.agent.session, wait.request, campaign),
        };
        self.tell(&wait, Ok(reply));
    }

    fn end_wait(&mut self, arrival: u64, answer: Result<Reply, Error>) {
        let at = self.waits.iter().position(|it| it.arrival == arrival).expect("it waits");
        let wait = self.waits.remove(at);
        self.tell(&wait, answer);
    }

    fn tell(&mut self, wait: &AWait, answer: Result<Reply, Error>) {
        let kept = match (&answer, &wait.goal) {
            (Err(_), _) => Kept::Answer(answer.clone()),
            (_, AGoal::Locks(_)) => Kept::Grant,
            (_, AGoal::Upgrade(..)) => Kept::Upgrade,
            (_, AGoal::Lead(_)) => Kept::Lead,
        };
        self.keep(wait.agent.session, wait.request, kept);
        if self.asking == Some(wait.arrival) {
            self.answer = Some(answer);
        } else {
            let (session, request) = (wait.agent.session, wait.request);
            self.events.push(Event::Answered { session, request, answer });
        }
    }

    fn token(&mut self) -> Token {
        self.tokens += 1;
        Token(self.tokens)
    }

    fn grant(&mut self, agent: Agent, request: RequestId, wants: &[Want]) -> Reply {
        let token = self.token();
        let mut epochs = Vec::new();
        for Want { lock, mode } in wants {
            let epoch = self.holders(lock).next().map_or(token, |it| it.epoch);
            let (lock, mode) = (lock.clone(), *mode);
            self.events.push(Event::Granted { lock: lock.clone(), agent, mode, token, epoch });
            self.holds.push(AHold { lock, agent, mode, depth: 1, token, epoch, request });
            epochs.push(epoch);
        }
        Reply::Granted { token, epochs: epochs.into(), depth: 1 }
    }

    fn convert(&mut self, lock: &Name, old: Token, mode: Mode, request: RequestId) -> Reply {
        let token = self.token();
        let hold = self.holds.iter_mut().find(|it| it.lock == *lock && it.token == old);
        let hold = hold.expect("it is held");
        (hold.mode, hold.token, hold.epoch, hold.request) = (mode, token, token, request);
        let (reply, agent) = (told(hold), hold.agent);
        self.events.push(Event::Granted { lock: lock.clone(), agent, mode, token, epoch: token });
        reply
    }

    fn drop_hold(&mut self, lock: &Name, token: Token, cause: Cause) {
        let upgrade = self.waits.iter().find(
            |it| matches!(&it.goal, AGoal::Upgrade(of, with) if of == lock && *with == token),
        );
        if let Some(arrival) = upgrade.map(|it| it.arrival) {
            self.end_wait(arrival, Err(Error::Lost));
        }
        let at = self.holds.iter().position(|it| it.lock == *lock && it.token == token);
        let AHold { agent, .. } = self.holds.remove(at.expect("it is held"));
        self.events.push(Event::Released { lock: lock.clone(), agent, token, cause });
        if !self.holds.iter().any(|it| it.agent == agent) {
            self.wounded.retain(|(wounded, _)| *wounded != agent);
        }
    }

    fn best_hold(&self, agent: Agent, lock: &Name) -> Option<&AHold> {
        let mine = self.holders(lock).filter(|it| it.agent == agent);
        mine.min_by_key(|it| (std::cmp::Reverse(permits(it.mode)), it.token))
    }

    fn acquire(
        &mut self,
        session: SessionId,
        request: RequestId,
        acquire: &Acquire,
    ) -> Result<Reply, Error> {
        let limits = self.config.limits.clone();
        let agent = Agent { session, owner: acquire.owner };
        let wants = &acquire.wants;
        if wants.is_empty() {
            return Err(Error::NoLocks);
        }
        most(wants.len(), limits.locks_per_request, Scarce::LocksPerRequest)?;
        if acquire.reentrant && wants.len() > 1 {
            return Err(Error::ReentrantOnlyAlone);
        }
        for (i, want) in wants.iter().enumerate() {
            if want.lock.is_empty() {
                return Err(Error::NoName);
            }
            most(want.lock.len(), limits.name_bytes, Scarce::NameBytes)?;
            if let Mode::Permits { take, of } = want.mode {
                most(of as usize, limits.permits as usize, Scarce::Permits)?;
                if take == 0 || take > of {
                    return Err(Error::BadPermits { take, of });
                }
            }
            if wants[..i].iter().any(|other| other.lock == want.lock) {
                return Err(Error::Twice(want.lock.clone()));
            }
        }
        if self.waits_for_lock(agent) {
            return Err(Error::Busy);
        }
        for want in wants {
            let modes = self.holders(&want.lock).map(|it| it.mode);
            let queued = self.waits.iter().flat_map(|it| self.wants(it));
            let queued = queued.filter(|other| other.lock == want.lock).map(|other| other.mode);
            let Some(mode) = modes.chain(queued).next() else { continue };
            let same = match (mode, want.mode) {
                (Mode::Permits { of, .. }, Mode::Permits { of: other, .. }) => of == other,
                (Mode::Permits { .. }, _) | (_, Mode::Permits { .. }) => false,
                _ => true,
            };
            if !same {
                return Err(Error::OtherKind(want.lock.clone()));
            }
            let plain = !matches!(mode, Mode::Permits { .. });
            if plain && !acquire.reentrant && self.best_hold(agent, &want.lock).is_some() {
                return Err(Error::AlreadyHeld(want.lock.clone()));
            }
        }
        let fresh = wants.iter().filter(|want| !self.is_wanted(&want.lock)).count();
        most(self.names() + fresh, limits.names, Scarce::Names)?;
        let held = self.holds.iter().filter(|it| it.agent.session == session).count();
        let pending: usize = self.of_session(session).map(|it| self.wants(it).len()).sum();
        most(held + pending + wants.len(), limits.locks_per_session, Scarce::LocksPerSession)?;
        if acquire.reentrant
            && let Some(hold) = self.best_hold(agent, &wants[0].lock)
        {
            let short = match (hold.mode, wants[0].mode) {
                (Mode::Shared, Mode::Exclusive) => true,
                (Mode::Permits { take, .. }, Mode::Permits { take: wanted, .. }) => wanted > take,
                _ => false,
            };
            if short {
                return Err(Error::NeedsUpgrade(wants[0].lock.clone()));
            }
            most(hold.depth as usize + 1, limits.depth as usize, Scarce::Depth)?;
            let token = hold.token;
            let hold =
                self.holds.iter_mut().find(|it| it.token == token && it.lock == wants[0].lock);
            let hold = hold.expect("it is held");
            hold.depth += 1;
            return Ok(told(hold));
        }
        let free = |want: &&Want| self.queue(&want.lock).is_empty() && self.admits(want, None);
        let Some(taken) = wants.iter().find(|want| !free(want)) else {
            return Ok(self.grant(agent, request, wants));
        };
        if impatient(acquire.patience) {
            return Err(Error::Conflict(taken.lock.clone()));
        }
        self.room(session, wants.iter().map(|want| &want.lock))?;
        self.wait(agent, request, acquire.patience, AGoal::Locks(wants.clone()))
    }

    fn names(&self) -> usize {
        let mut locks: Vec<Name> = self.holds.iter().map(|it| it.lock.clone()).collect();
        locks.extend(self.waits.iter().flat_map(|it| self.wants(it)).map(|want| want.lock));
        locks.sort();
        locks.dedup();
        locks.len() + self.leaders.len()
    }

    fn waits_for_lock(&self, agent: Agent) -> bool {
        self.waits.iter().any(|it| it.agent == agent && !matches!(it.goal, AGoal::Lead(_)))
    }

    fn room<'a>(
        &self,
        session: SessionId,
        locks: impl Iterator<Item = &'a Name>,
    ) -> Result<(), Error> {
        let limits = &self.config.limits;
        let waits = self.of_session(session).count();
        most(waits + 1, limits.waits_per_session, Scarce::WaitsPerSession)?;
        for lock in locks {
            most(self.queue(lock).len() + 1, limits.waiters_per_lock, Scarce::WaitersPerLock)?;
        }
        Ok(())
    }

    fn held(&self, session: SessionId, lock: &Name, token: Token) -> Result<AHold, Error> {
        let mine = || self.holders(lock).filter(|it| it.agent.session == session);
        if let Some(hold) = mine().find(|it| it.token == token) {
            return Ok(hold.clone());
        }
        match mine().next() {
            Some(_) => Err(Error::StaleToken { lock: lock.clone(), token }),
            None => Err(Error::NotHeld(lock.clone())),
        }
    }

    fn release(
        &mut self,
        session: SessionId,
        lock: &Name,
        token: Token,
        to: Option<SessionId>,
    ) -> Result<Reply, Error> {
        let hold = self.held(session, lock, token)?;
        let Some(to) = to else { return Ok(self.release_level(&hold, Cause::Released)) };
        if !self.sessions.iter().any(|it| it.id == to) {
            return Err(Error::UnknownSession(to));
        }
        let wanting = self.of_session(to).filter(|it| match &it.goal {
            AGoal::Locks(wants) => wants.iter().any(|want| want.lock == *lock),
            _ => false,
        });
        let Some(wait) = wanting.min_by_key(|it| it.arrival).cloned() else {
            return Err(Error::NotWaiting(to));
        };
        let fits = self.wants(&wait).iter().all(|want| {
            if want.lock == *lock {
                return self.admits(want, Some(token));
            }
            self.queue(&want.lock)[0].arrival == wait.arrival && self.admits(want, None)
        });
        if !fits {
            return Err(Error::CannotTake(to));
        }
        self.drop_hold(lock, token, Cause::HandedOver);
        self.serve(wait.arrival);
        self.overtaken(lock, wait.agent);
        Ok(Reply::Released { left: 0 })
    }

    fn release_level(&mut self, hold: &AHold, cause: Cause) -> Reply {
        if hold.depth == 1 {
            self.drop_hold(&hold.lock, hold.token, cause);
            return Reply::Released { left: 0 };
        }
        let mut holds = self.holds.iter_mut();
        let found = holds.find(|it| it.token == hold.token && it.lock == hold.lock);
        let found = found.expect("it is held");
        found.depth -= 1;
        Reply::Released { left: found.depth }
    }

    fn upgrade(
        &mut self,
        session: SessionId,
        request: RequestId,
        lock: &Name,
        token: Token,
        patience: Patience,
    ) -> Result<Reply, Error> {
        let hold = self.held(session, lock, token)?;
        if hold.mode != Mode::Shared {
            return Err(Error::NotShared(lock.clone()));
        }
        if self.waits_for_lock(hold.agent) {
            return Err(Error::Busy);
        }
        if self.holders(lock).count() == 1 {
            let reply = self.convert(lock, token, Mode::Exclusive, request);
            self.overtaken(lock, hold.agent);
            return Ok(reply);
        }
        if impatient(patience) {
            return Err(Error::Conflict(lock.clone()));
        }
        self.room(session, [lock].into_iter())?;
        self.wait(hold.agent, request, patience, AGoal::Upgrade(lock.clone(), token))
    }

    fn downgrade(
        &mut self,
        session: SessionId,
        request: RequestId,
        lock: &Name,
        token: Token,
    ) -> Result<Reply, Error> {
        let hold = self.held(session, lock, token)?;
        if hold.mode != Mode::Exclusive {
            return Err(Error::NotExclusive(lock.clone()));
        }
        Ok(self.convert(lock, token, Mode::Shared, request))
    }

    fn cancel(&mut self, id: SessionId, request: RequestId) -> Result<Reply, Error> {
        let waits = self.of_session(id).find(|it| it.request == request).map(|it| it.arrival);
        if let Some(arrival) = waits {
            self.end_wait(arrival, Err(Error::Cancelled));
            return Ok(Reply::Done);
        }
        let session = self.session(id);
        let forgotten = request <= session.forgotten;
        let kept = session.kept.get(&request).cloned();
        let granted = self.held_by_name(id, |it| it.request == request);
        match kept {
            Some(Kept::Answer(_) | Kept::Downgrade) => return Ok(Reply::Done),
            Some(Kept::Grant) => {
                for (lock, token) in granted {
                    let hold = self.held(id, &lock, token)?;
                    self.release_level(&hold, Cause::Cancelled);
                }
            }
            Some(Kept::Upgrade) => {
                for (lock, token) in granted {
                    self.convert(&lock, token, Mode::Shared, request);
                }
            }
            Some(Kept::Nested(lock, owner)) => {
                let agent = Agent { session: id, owner };
                if let Some(hold) = self.best_hold(agent, &lock).cloned() {
                    self.release_level(&hold, Cause::Cancelled);
                }
            }
            Some(Kept::Lead) => {
                let mut led = self.leaders.iter();
                let led = led.find(|it| it.session == id && it.request == request);
                if let Some(election) = led.map(|it| it.election.clone()) {
                    self.vacate(&election, None);
                }
            }
            None if forgotten => return Ok(Reply::Done),
            None => {}
        }
        self.keep(id, request, Kept::Answer(Err(Error::Cancelled)));
        Ok(Reply::Done)
    }

    /// Where deadlock policies come in.
    fn wait(
        &mut self,
        agent: Agent,
        request: RequestId,
        patience: Patience,
        goal: AGoal,
    ) -> Result<Reply, Error> {
        let until = match patience {
            Patience::For(span) => Some(self.clock() + span),
            _ => None,
        };
        let arrival = self.arrivals + 1;
        let upgraded = match &goal {
            AGoal::Upgrade(lock, _) => Some(lock.clone()),
            _ => None,
        };
        let leads = matches!(goal, AGoal::Lead(_));
        let wait = AWait { arrival, agent, request, until, goal };
        self.waits.push(wait.clone());
        if !leads && let Some(error) = self.objection(&wait, upgraded.as_ref()) {
            self.waits.pop();
            return Err(error);
        }
        self.arrivals = arrival;
        self.asking = Some(arrival);
        match self.config.deadlocks {
            Policy::Detect(choice) if !leads => {
                while let Some(cycle) = self.cycle(arrival) {
                    let victim = self.victim(&cycle, choice);
                    self.events.push(Event::Deadlock { victim, cycle: cycle.clone() });
                    let of_victim = self
                        .waits
                        .iter()
                        .find(|it| it.agent == victim && !matches!(it.goal, AGoal::Lead(_)));
                    let of_victim = of_victim.expect("a victim waits").arrival;
                    self.end_wait(of_victim, Err(Error::Deadlock { cycle }));
                    self.settle();
                }
            }
            Policy::WoundWait if !leads => {
                for (_, other) in self.in_the_way(&wait) {
                    if agent < other {
                        self.wound(other, agent);
                    }
                }
            }
            _ => {}
        }
        if let Some(lock) = upgraded
            && self.waits.iter().any(|it| it.arrival == arrival)
        {
            self.overtaken(&lock, agent);
        }
        self.settle();
        self.asking = None;
        self.answer.take().unwrap_or(Ok(Reply::Waiting))
    }

    /// Who is in the way of a wait: for each of its locks, who holds it so that it matters, by
    /// token, and who is ahead, from the nearest.
    fn in_the_way(&self, wait: &AWait) -> Vec<(Name, Agent)> {
        let mut found = Vec::new();
        for want in self.wants(wait) {
            let own = match &wait.goal {
                AGoal::Upgrade(_, token) => Some(*token),
                _ => None,
            };
            let mut holders: Vec<&AHold> = self.holders(&want.lock).collect();
            holders.sort_by_key(|it| it.token);
            for hold in holders {
                let matters = want.mode != Mode::Shared || hold.mode == Mode::Exclusive;
                if matters && Some(hold.token) != own {
                    found.push((want.lock.clone(), hold.agent));
                }
            }
            for other in self.queue(&want.lock).into_iter().rev() {
                if order(other) < order(wait) {
                    found.push((want.lock.clone(), other.agent));
                }
            }
        }
        found
    }

    fn objection(&self, wait: &AWait, upgraded: Option<&Name>) -> Option<Error> {
        let waiter = wait.agent;
        if matches!(self.config.deadlocks, Policy::None | Policy::Detect(_)) {
            return None;
        }
        for want in self.wants(wait) {
            if let Mode::Permits { take, of } = want.mode {
                let mine = self.holders(&want.lock).filter(|it| it.agent == waiter);
                if mine.map(|it| permits(it.mode)).sum::<u32>() + take > of {
                    return Some(Error::Deadlock { cycle: vec![Link { waiter, lock: want.lock }] });
                }
            }
        }
        if self.config.deadlocks == Policy::WaitDie {
            let elder = self.in_the_way(wait).into_iter().find(|(_, other)| *other < waiter)?;
            return Some(Error::Died { lock: elder.0, elder: elder.1 });
        }
        if let Some((_, by)) = self.wounded.iter().find(|(wounded, _)| *wounded == waiter) {
            return Some(Error::Wounded { by: *by });
        }
        let queue = self.queue(upgraded?);
        let by = queue.into_iter().find(|it| it.agent < waiter)?.agent;
        Some(Error::Wounded { by })
    }

    fn overtaken(&mut self, lock: &Name, agent: Agent) {
        let queue: Vec<AWait> = self.queue(lock).into_iter().cloned().collect();
        for wait in queue.into_iter().filter(|it| it.agent != agent) {
            match self.config.deadlocks {
                Policy::WaitDie if wait.agent > agent => {
                    let died = Error::Died { lock: lock.clone(), elder: agent };
                    self.end_wait(wait.arrival, Err(died));
                }
                Policy::WoundWait if wait.agent < agent => {
                    self.wound(agent, wait.agent);
                    return;
                }
                _ => {}
            }
        }
    }

    fn wound(&mut self, agent: Agent, by: Agent) {
        let holds = self.holds.iter().any(|it| it.agent == agent);
        if holds && !self.wounded.iter().any(|(wounded, _)| *wounded == agent) {
            self.wounded.push((agent, by));
            self.events.push(Event::Wounded { agent, by });
        }
        let mut waits = self.waits.iter();
        let wait = waits.find(|it| it.agent == agent && !matches!(it.goal, AGoal::Lead(_)));
        if let Some(arrival) = wait.map(|it| it.arrival) {
            self.end_wait(arrival, Err(Error::Wounded { by }));
        }
    }

    /// Who can never go on, found by letting everybody else go on: whoever does not wait releases
    /// everything, whoever can be served is, and so on until nothing moves.
    pub(crate) fn deadlocked(&self) -> Vec<Agent> {
        let mut world = self.clone();
        world.waits.retain(|it| !matches!(it.goal, AGoal::Lead(_)));
        loop {
            let waiting: Vec<Agent> = world.waits.iter().map(|it| it.agent).collect();
            world.holds.retain(|it| waiting.contains(&it.agent));
            let Some(at) = world.waits.iter().position(|it| world.is_ready(it)) else {
                return waiting;
            };
            world.waits.remove(at);
        }
    }

    /// The shortest way from a wait that can never end back to it; of several, the one with the
    /// most senior members first.
    fn cycle(&self, arrival: u64) -> Option<Vec<Link>> {
        let stuck = self.deadlocked();
        let start = self.waits.iter().find(|it| it.arrival == arrival)?.agent;
        if !stuck.contains(&start) {
            return None;
        }
        (1..=stuck.len()).find_map(|length| self.path(start, start, length, &stuck))
    }

    fn path(&self, from: Agent, to: Agent, length: usize, stuck: &[Agent]) -> Option<Vec<Link>> {
        let mut waits = self.waits.iter();
        let wait = waits.find(|it| it.agent == from && !matches!(it.goal, AGoal::Lead(_)))?;
        let mut next: Vec<(Agent, Name)> = Vec::new();
        for (lock, agent) in self.in_the_way(wait) {
            if stuck.contains(&agent) && !next.iter().any(|(other, _)| *other == agent) {
                next.push((agent, lock));
            }
        }
        if next.len() > 1 {
            next.retain(|(agent, _)| *agent != from);
        }
        next.sort();
        for (agent, lock) in next {
            let link = Link { waiter: from, lock };
            if length == 1 {
                if agent == to {
                    return Some(vec![link]);
                }
            } else if agent != to
                && let Some(mut rest) = self.path(agent, to, length - 1, stuck)
            {
                rest.insert(0, link);
                return Some(rest);
            }
        }
        None
    }

    fn victim(&self, cycle: &[Link], choice: Victim) -> Agent {
        let mut agents: Vec<Agent> = cycle.iter().map(|link| link.waiter).collect();
        agents.sort_by_key(|&agent| std::cmp::Reverse(agent));
        let holds = |agent| self.holds.iter().filter(|it| it.agent == agent).count();
        let priority = |agent: Agent| {
            self.sessions.iter().find(|it| it.id == agent.session).expect("a session").priority
        };
        match choice {
            Victim::Youngest => agents[0],
            Victim::FewestLocks => *agents.iter().min_by_key(|&&it| holds(it)).expect("some"),
            Victim::LowestPriority => *agents.iter().min_by_key(|&&it| priority(it)).expect("some"),
        }
    }

    fn campaign(
        &mut self,
        session: SessionId,
        request: RequestId,
        campaign: &Campaign,
    ) -> Result<Reply, Error> {
        let limits = self.config.limits.clone();
        let name = &campaign.election;
        if name.is_empty() {
            return Err(Error::NoName);
        }
        most(name.len(), limits.name_bytes, Scarce::NameBytes)?;
        most(campaign.value.len(), limits.value_bytes, Scarce::ValueBytes)?;
        if campaign.grace > limits.longest_grace {
            return Err(Error::BadSpan);
        }
        let Some(leader) = self.leaders.iter_mut().find(|it| it.election == *name) else {
            most(self.names() + 1, limits.names, Scarce::Names)?;
            return Ok(self.elect(session, request, campaign));
        };
        let better = campaign.preempt && campaign.rank > leader.rank;
        let at_once = better && leader.grace.is_zero();
        let stands =
            |it: &&AWait| matches!(&it.goal, AGoal::Lead(other) if other.election == *name);
        let candidates = self.waits.iter().filter(stands).count();
        if leader.session == session
            || self.waits.iter().any(|it| stands(&it) && it.agent.session == session)
        {
            return Err(Error::AlreadyCandidate(name.clone()));
        }
        if !at_once && impatient(campaign.patience) {
            return Err(Error::Conflict(name.clone()));
        }
        most(candidates + 1, limits.waiters_per_lock, Scarce::WaitersPerLock)?;
        self.room(session, std::iter::empty())?;
        if at_once {
            self.vacate(name, Some(Cause::Preempted));
        } else if better {
            let (clock, stalled) = (self.clock(), self.stalled);
            let leader = self.leaders.iter_mut().find(|it| it.election == *name);
            let leader = leader.expect("somebody leads");
            if leader.yield_by.is_none() {
                let by = clock + leader.grace;
                leader.yield_by = Some(by);
                let (session, term, by) = (leader.session, leader.term, by + stalled);
                self.events.push(Event::Yield { election: name.clone(), session, term, by });
            }
        }
        let agent = Agent { session, owner: Owner(0) };
        self.wait(agent, request, campaign.patience, AGoal::Lead(campaign.clone()))
    }

    fn elect(&mut self, session: SessionId, request: RequestId, campaign: &Campaign) -> Reply {
        let term = self.token();
        self.leaders.push(ALeader {
            election: campaign.election.clone(),
            session,
            term,
            request,
            rank: campaign.rank,
            grace: campaign.grace,
            value: campaign.value.clone(),
            yield_by: None,
        });
        self.announce(&campaign.election);
        Reply::Elected { term }
    }

    /// Ends a leadership, and notes that somebody else may lead.
    fn vacate(&mut self, election: &Name, cause: Option<Cause>) {
        let at = self.leaders.iter().position(|it| it.election == *election);
        let ALeader { session, term, .. } = self.leaders.remove(at.expect("somebody leads"));
        self.vacated.push(election.clone());
        if let Some(cause) = cause {
            let election = election.clone();
            self.events.push(Event::Deposed { election, session, term, cause });
        }
    }

    fn announce(&mut self, election: &Name) {
        let leader = self.leaders.iter().find(|it| it.election == *election);
        let leader = leader.map(|it| Leadership {
            session: it.session,
            term: it.term,
            value: it.value.clone(),
        });
        self.events.push(Event::Leader { election: election.clone(), leader });
    }

    fn leads(&mut self, session: SessionId, election: &Name, term: Token) -> Option<&mut ALeader> {
        let mut leaders = self.leaders.iter_mut();
        leaders.find(|it| it.election == *election && it.session == session && it.term == term)
    }
}

/// Upgrades come first, the rest as they came.
fn order(wait: &AWait) -> (bool, u64) {
    (!matches!(wait.goal, AGoal::Upgrade(..)), wait.arrival)
}

fn permits(mode: Mode) -> u32 {
    match mode {
        Mode::Permits { take, .. } => take,
        _ => 1,
    }
}

fn impatient(patience: Patience) -> bool {
    matches!(patience, Patience::Try | Patience::For(Duration::ZERO))
}

fn told(hold: &AHold) -> Reply {
    Reply::Granted { token: hold.token, epochs: [hold.epoch].into(), depth: hold.depth }
}

fn most(count: usize, most: usize, what: Scarce) -> Result<(), Error> {
    if count > most { Err(Error::Limit { what, most: most as u64 }) } else { Ok(()) }
}
