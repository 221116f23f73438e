//! What the machine should do, said as plainly as possible: flat lists that are searched from end to
//! end, and everything worked out anew each time. Slow, and easy to believe.

mod elections;
mod locks;
mod policy;
mod requests;

use std::time::Duration;

use crate::*;

#[derive(Clone, Debug)]
pub(crate) struct Model {
    config: Config,
    now: Time,
    /// How the request being answered was asked.
    via: Via,
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
    barred: Vec<(Name, Time)>,
    priority: i32,
    open: Open,
    /// The answers in the order in which they were given.
    kept: Vec<(RequestId, Kept)>,
    forgotten: RequestId,
    /// How many requests came without a number.
    unnumbered: u64,
}

#[derive(Clone, Debug)]
enum Kept {
    Answer(Result<Reply, Error>),
    Grant,
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
    pub(crate) request: RequestId,
    /// The mode it had before, if the request was to change that.
    before: Option<Mode>,
}

#[derive(Clone, Debug)]
pub(crate) struct AWait {
    arrival: u64,
    pub(crate) agent: Agent,
    pub(crate) request: RequestId,
    via: Via,
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
    owner: Option<Owner>,
    yield_by: Option<Time>,
    deposed: Option<(Cause, Time)>,
}

impl Model {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            config,
            now: Time::ZERO,
            via: Via::Stream,
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
        self.now = self.now.max(at);
        self.expire();
        self.settle();
        self.look_at_candidates();
        let reply = self.carry_out(command);
        self.settle();
        self.look_at_candidates();
        (reply, std::mem::take(&mut self.events))
    }

    fn session(&mut self, id: SessionId) -> &mut ASession {
        self.sessions.iter_mut().find(|it| it.id == id).expect("a session")
    }

    fn expire(&mut self) {
        let now = self.now;
        // In the order of time; of what is due at once, sessions first.
        loop {
            let sessions = self.sessions.iter().map(|it| (it.deadline, 0, it.id.0));
            let waits = self.waits.iter().filter_map(|it| Some((it.until?, 1, it.arrival)));
            let Some((time, kind, number)) = sessions.chain(waits).min() else { break };
            if time > now {
                break;
            }
            if kind == 0 {
                self.end(SessionId(number), Cause::Expired);
            } else {
                self.end_wait(number, Err(Error::TimedOut));
            }
        }
        self.yield_or_go(now);
    }

    fn carry_out(&mut self, command: &Command) -> Result<Reply, Error> {
        let limits = self.config.limits.clone();
        let label = |text: &str| most(text.len(), limits.label_bytes, Scarce::LabelBytes);
        match command {
            Command::Tick => Ok(Reply::Done),
            Command::NodeStarted { node } => {
                let there = |it: &&AWait| matches!(it.via, Via::Call(call) if call.node == *node);
                let calls = self.waits.iter().filter(there);
                let mut calls: Vec<u64> = calls.map(|it| it.arrival).collect();
                calls.sort_unstable();
                calls.into_iter().for_each(|arrival| self.drop_wait(arrival));
                Ok(Reply::Done)
            }
            Command::Open(open) => {
                let same = |it: &&ASession| it.open.key == open.key && open.key != KeyDigest::NONE;
                if let Some(same) = self.sessions.iter().find(same) {
                    let session = same.id;
                    if same.open.opened_by != open.opened_by {
                        return Err(Error::KeyTaken);
                    }
                    self.keep_alive(session);
                    let deposed = self.deposed(session);
                    return Ok(Reply::Opened { session, deposed });
                }
                label(&open.name)?;
                label(&open.host)?;
                label(&open.opened_by)?;
                label(&open.address)?;
                let (least, longest) = (limits.shortest_ttl, limits.longest_ttl);
                if open.ttl < least || open.ttl > longest {
                    return Err(Error::BadSpan { what: Span::TimeToLive, least, most: longest });
                }
                most(self.sessions.len() + 1, limits.sessions, Scarce::Sessions)?;
                let count = |which: &dyn Fn(&Open) -> bool| {
                    self.sessions.iter().filter(|it| which(&it.open)).count()
                };
                if !open.opened_by.is_empty() {
                    let count = count(&|it| it.opened_by == open.opened_by);
                    let quota = open.quota.map_or(usize::MAX, |quota| quota as usize);
                    let quota = limits.sessions_per_token.min(quota);
                    most(count + 1, quota, Scarce::SessionsPerToken)?;
                }
                if !open.address.is_empty() {
                    let count = count(&|it| it.address == open.address);
                    most(count + 1, limits.sessions_per_address, Scarce::SessionsPerAddress)?;
                }
                self.opened += 1;
                let id = SessionId(self.opened);
                self.sessions.push(ASession {
                    id,
                    ttl: open.ttl,
                    deadline: self.now + open.ttl,
                    barred: Vec::new(),
                    priority: open.priority,
                    open: open.clone(),
                    kept: Vec::new(),
                    forgotten: RequestId(0),
                    unnumbered: 0,
                });
                Ok(Reply::Opened { session: id, deposed: Vec::new() })
            }
            Command::KeepAlive { sessions } => {
                let deposed = sessions.iter().flat_map(|&id| self.deposed(id)).collect();
                let gone = sessions.iter().copied().filter(|&id| !self.keep_alive(id)).collect();
                Ok(Reply::Alive { gone, deposed })
            }
            Command::Close { session } => self.end_known(*session, Cause::Closed),
            Command::Expel { session, reason } => {
                label(reason)?;
                self.end_known(*session, Cause::Expelled)
            }
            Command::ExpelAll { origin, reason } => {
                label(reason)?;
                let from = |open: &Open| match origin {
                    Origin::Token(name) => open.opened_by == *name,
                    Origin::Host(host) => open.host == *host,
                    Origin::Address(address) => open.address == *address,
                };
                let theirs = self.sessions.iter().filter(|it| from(&it.open));
                let theirs: Vec<SessionId> = theirs.map(|it| it.id).collect();
                for &session in &theirs {
                    self.end(session, Cause::Expelled);
                }
                Ok(Reply::Expelled { sessions: theirs.len() as u64 })
            }
            Command::HangUp { session, request, call } => {
                if !self.sessions.iter().any(|it| it.id == *session) {
                    return Err(Error::UnknownSession(*session));
                }
                let wait = self.of_session(*session).find(|it| it.request == *request);
                match wait.map(|it| (it.via, it.arrival)) {
                    Some((Via::Call(other), arrival)) if other == *call => {
                        self.drop_wait(arrival);
                    }
                    Some(_) => {}
                    None if request.is_allotted() => drop(self.cancel(*session, *request)),
                    None => {}
                }
                Ok(Reply::Done)
            }
            Command::Request { session, request, received, via, call } => {
                self.via = *via;
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
            Command::Depose { election, reason, barred, at_once } => {
                label(reason)?;
                self.depose(election, *barred, *at_once)
            }
        }
    }

    fn keep_alive(&mut self, id: SessionId) -> bool {
        let now = self.now;
        let Some(session) = self.sessions.iter_mut().find(|it| it.id == id) else { return false };
        session.deadline = session.deadline.max(now + session.ttl);
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

    /// Ends a wait of which nothing is remembered.
    fn drop_wait(&mut self, arrival: u64) {
        let at = self.waits.iter().position(|it| it.arrival == arrival).expect("it waits");
        let AWait { agent, request, .. } = self.waits.remove(at);
        let (session, answer) = (agent.session, Err(Error::Cancelled));
        self.events.push(Event::Answered { session, request, answer });
    }

    fn tell(&mut self, wait: &AWait, answer: Result<Reply, Error>) {
        let kept = match (&answer, &wait.goal) {
            (Err(_), _) => Kept::Answer(answer.clone()),
            (_, AGoal::Locks(_) | AGoal::Upgrade(..)) => Kept::Grant,
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
            self.holds.push(AHold {
                lock,
                agent,
                mode,
                depth: 1,
                token,
                epoch,
                request,
                before: None,
            });
            epochs.push(epoch);
        }
        Reply::Granted { token, epochs: epochs.into(), depth: 1 }
    }

    fn convert(&mut self, lock: &Name, old: Token, mode: Mode, request: RequestId) -> Reply {
        let token = self.token();
        let hold = self.holds.iter_mut().find(|it| it.lock == *lock && it.token == old);
        let hold = hold.expect("it is held");
        hold.before = Some(hold.mode);
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
