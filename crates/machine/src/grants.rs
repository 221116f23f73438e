//! Granting and releasing locks.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::lock::{By, Hold, HoldId, Kind, Lock, LockId, Place};
use crate::machine::{Machine, fits, within};
use crate::mutation::Mutation;
use crate::view::Forced;
use crate::waits::{Goal, Part, Wait};
use crate::{
    Acquire, Agent, Cause, Error, Event, Mode, Name, Patience, Reply, RequestId, Scarce, SessionId,
    Token, Want,
};

impl Machine {
    pub(crate) fn acquire(
        &mut self,
        session: SessionId,
        request: RequestId,
        acquire: &Acquire,
    ) -> Result<Reply, Error> {
        let agent = Agent { session, owner: acquire.owner };
        let found = self.check(agent, acquire)?;
        if acquire.reentrant
            && let Some(hold) = found[0].and_then(|lock| self.hold_of(agent, lock))
        {
            return self.nest(hold, acquire.wants[0].mode);
        }
        let taken = acquire.wants.iter().zip(&found).find(|(want, found)| {
            found.is_some_and(|lock| !self.is_free(&self.locks[lock], want.mode))
        });
        match taken {
            None => {
                let parts = self.parts_of(acquire, &found);
                Ok(self.grant(agent, request, &parts))
            }
            Some((want, _)) if is_try(acquire.patience) => Err(Error::Conflict(want.lock.clone())),
            Some(_) => {
                self.check_room(agent, found.iter().flatten().copied())?;
                let parts = self.parts_of(acquire, &found);
                self.wait(agent, request, acquire.patience, Goal::Locks(parts))
            }
        }
    }

    /// Whether a request for locks makes sense, and there is room for what it asks. Finds those of
    /// the locks that are there.
    fn check(&self, agent: Agent, acquire: &Acquire) -> Result<Vec<Option<LockId>>, Error> {
        let Acquire { wants, reentrant, .. } = acquire;
        let limits = &self.config.limits;
        if wants.is_empty() {
            return Err(Error::NoLocks);
        }
        fits(wants.len(), limits.locks_per_request, Scarce::LocksPerRequest)?;
        if *reentrant && wants.len() > 1 {
            return Err(Error::ReentrantOnlyAlone);
        }
        let mut names = BTreeSet::new();
        for want in wants {
            self.check_name(&want.lock)?;
            if let Mode::Permits { take, of } = want.mode {
                fits(of as usize, limits.permits as usize, Scarce::Permits)?;
                if take == 0 || take > of {
                    return Err(Error::BadPermits { take, of });
                }
            }
            if wants.len() > 1 && !names.insert(&want.lock) {
                return Err(Error::Twice(want.lock.clone()));
            }
        }
        if self.waiting.contains_key(&agent) {
            return Err(Error::Busy);
        }
        let found: Vec<Option<LockId>> =
            wants.iter().map(|want| self.names.get(&want.lock).copied()).collect();
        for (want, found) in wants.iter().zip(&found) {
            let &Some(id) = found else { continue };
            let kind = self.locks[id].kind;
            if kind != Kind::of(want.mode) {
                return Err(Error::OtherKind(want.lock.clone()));
            }
            if kind == Kind::ReadWrite && !reentrant && self.hold_of(agent, id).is_some() {
                return Err(Error::AlreadyHeld(want.lock.clone()));
            }
        }
        self.check_names(found.iter().filter(|found| found.is_none()).count())?;
        let session = &self.sessions[&agent.session];
        let locks = session.holds.len() + session.pending + wants.len();
        fits(locks, limits.locks_per_session, Scarce::LocksPerSession)?;
        Ok(found)
    }

    /// Whether one more may wait: of the session, and at each of these.
    pub(crate) fn check_room(
        &self,
        agent: Agent,
        locks: impl IntoIterator<Item = LockId>,
    ) -> Result<(), Error> {
        let limits = &self.config.limits;
        let waits = self.sessions[&agent.session].waits.len();
        within(waits, limits.waits_per_session, Scarce::WaitsPerSession)?;
        for lock in locks {
            let waiters = self.locks[lock].waiters();
            within(waiters, limits.waiters_per_lock, Scarce::WaitersPerLock)?;
        }
        Ok(())
    }

    /// Holds once more what is held.
    fn nest(&mut self, id: HoldId, mode: Mode) -> Result<Reply, Error> {
        let hold = &mut self.holds[id];
        let enough = match (hold.mode, mode) {
            (Mode::Shared, Mode::Exclusive) => false,
            (Mode::Permits { take: held, .. }, Mode::Permits { take, .. }) => take <= held,
            _ => true,
        };
        if !enough {
            return Err(Error::NeedsUpgrade(self.locks[hold.lock].name.clone()));
        }
        let most = self.config.limits.depth;
        fits(hold.depth as usize + 1, most as usize, Scarce::Depth)?;
        hold.depth += 1;
        Ok(self.granted(&self.holds[id]))
    }

    /// The locks that a request names; those that are not there are made.
    fn parts_of(&mut self, acquire: &Acquire, found: &[Option<LockId>]) -> Vec<Part> {
        let part = |(want, found): (&Want, &Option<LockId>)| {
            let lock = found.unwrap_or_else(|| {
                let lock = Lock::new(want.lock.clone(), Kind::of(want.mode));
                let lock = self.locks.insert(lock);
                self.names.insert(want.lock.clone(), lock);
                lock
            });
            Part { lock, mode: want.mode }
        };
        acquire.wants.iter().zip(found).map(part).collect()
    }

    /// Grants all of these to an agent.
    fn grant(&mut self, agent: Agent, request: RequestId, parts: &[Part]) -> Reply {
        let token = self.next_token();
        let epochs = parts.iter().map(|part| self.hold(agent, request, *part, token)).collect();
        Reply::Granted { token, epochs, depth: 1 }
    }

    fn hold(&mut self, agent: Agent, request: RequestId, part: Part, token: Token) -> Token {
        let Part { lock, mode } = part;
        let session = self.sessions.get_mut(&agent.session).expect("who holds has a session");
        let listed = u32::try_from(session.holds.len()).expect("limits keep this below 2^32");
        let hold = Hold {
            agent,
            lock,
            mode,
            depth: 1,
            token,
            since: self.now,
            request,
            by: By::Acquire,
            listed,
        };
        let hold = self.holds.insert(hold);
        session.holds.push(hold);
        self.locks[lock].add(hold, mode, token);
        self.report(hold);
        self.locks[lock].epoch
    }

    /// Reports that a hold has begun, or has changed.
    fn report(&mut self, hold: HoldId) {
        let Hold { agent, lock, mode, token, .. } = self.holds[hold];
        let Lock { name, epoch, .. } = &self.locks[lock];
        let (lock, epoch) = (name.clone(), *epoch);
        self.turn.events.push(Event::Granted { lock, agent, mode, token, epoch });
    }

    /// Ends a hold.
    pub(crate) fn drop_hold(&mut self, id: HoldId, cause: Cause) {
        let agent = self.holds[id].agent;
        if let Some(&arrival) = self.waiting.get(&agent)
            && matches!(self.waits[&arrival].goal, Goal::Upgrade(hold, _) if hold == id)
        {
            let wait = self.withdraw(arrival);
            self.answer(&wait, Err(Error::Lost));
        }
        let Hold { lock, mode, token, listed, .. } = self.holds.remove(id);
        let session = self.sessions.get_mut(&agent.session).expect("who holds has a session");
        session.holds.swap_remove(listed as usize);
        if let Some(&moved) = session.holds.get(listed as usize) {
            self.holds[moved].listed = listed;
        }
        self.locks[lock].subtract(mode, token);
        self.turn.touched.push(lock);
        let lock = self.locks[lock].name.clone();
        self.turn.events.push(Event::Released { lock, agent, token, cause });
        if self.wounded.contains_key(&agent) && !self.holds_anything(agent) {
            self.wounded.remove(&agent);
        }
    }

    pub(crate) fn release(
        &mut self,
        session: SessionId,
        lock: &Name,
        token: Token,
        to: Option<SessionId>,
    ) -> Result<Reply, Error> {
        let hold = self.held(session, lock, token)?;
        if let Some(to) = to {
            return self.hand_over(hold, to);
        }
        Ok(self.release_level(hold, Cause::Released))
    }

    pub(crate) fn release_level(&mut self, id: HoldId, cause: Cause) -> Reply {
        let hold = &mut self.holds[id];
        if hold.depth > 1 {
            hold.depth -= 1;
            return Reply::Released { left: hold.depth };
        }
        self.drop_hold(id, cause);
        Reply::Released { left: 0 }
    }

    pub(crate) fn release_all(&mut self, session: SessionId, token: Token) -> Result<Reply, Error> {
        for hold in self.holds_by_name(session, |hold| hold.token == token) {
            self.drop_hold(hold, Cause::Released);
        }
        Ok(Reply::Released { left: 0 })
    }

    /// Gives a lock to a session that waits for it, before all others.
    fn hand_over(&mut self, id: HoldId, to: SessionId) -> Result<Reply, Error> {
        let hold = self.holds[id].clone();
        let session = self.sessions.get(&to).ok_or(Error::UnknownReceiver(to))?;
        let waits = session.waits.iter().map(|(_, arrival)| &self.waits[arrival]);
        let mut waits: Vec<&Wait> = waits.collect();
        waits.sort_unstable_by_key(|wait| wait.arrival);
        let wants = |wait: &&&Wait| match &wait.goal {
            Goal::Locks(parts) => parts.iter().any(|part| part.lock == hold.lock),
            Goal::Upgrade(..) | Goal::Lead(_) => false,
        };
        let wait = *waits.iter().find(wants).ok_or(Error::NotWaiting(to))?;
        let (place, arrival) = (wait.place(), wait.arrival);
        let can_take = wait.goal.parts().iter().all(|part| {
            let lock = &self.locks[part.lock];
            if part.lock != hold.lock {
                return lock.head() == Some(place) && lock.admits(part.mode);
            }
            match part.mode {
                Mode::Exclusive => lock.taken == 1,
                Mode::Shared => !lock.exclusive || hold.mode == Mode::Exclusive,
                Mode::Permits { take, of } => lock.taken - units(hold.mode) <= of - take,
            }
        });
        if !can_take {
            return Err(Error::CannotTake(to));
        }
        self.drop_hold(id, Cause::HandedOver);
        let wait = self.withdraw(arrival);
        if self.is_mutated(Mutation::TokenHandedOn) {
            self.last_token.0 -= 1;
        }
        let reply = self.grant(wait.agent, wait.request, wait.goal.parts());
        self.answer(&wait, Ok(reply));
        self.look_again(hold.lock, wait.agent);
        Ok(Reply::Released { left: 0 })
    }

    pub(crate) fn upgrade(
        &mut self,
        session: SessionId,
        request: RequestId,
        name: &Name,
        token: Token,
        patience: Patience,
    ) -> Result<Reply, Error> {
        let id = self.held(session, name, token)?;
        let Hold { agent, lock, mode, .. } = self.holds[id];
        if mode != Mode::Shared {
            return Err(Error::NotShared(name.clone()));
        }
        if self.waiting.contains_key(&agent) {
            return Err(Error::Busy);
        }
        if self.locks[lock].taken == 1 {
            let reply = self.convert(id, By::Upgrade, request);
            self.look_again(lock, agent);
            return Ok(reply);
        }
        if is_try(patience) {
            return Err(Error::Conflict(name.clone()));
        }
        self.check_room(agent, [lock])?;
        let goal = Goal::Upgrade(id, [Part { lock, mode: Mode::Exclusive }]);
        self.wait(agent, request, patience, goal)
    }

    pub(crate) fn downgrade(
        &mut self,
        session: SessionId,
        request: RequestId,
        name: &Name,
        token: Token,
    ) -> Result<Reply, Error> {
        let id = self.held(session, name, token)?;
        if self.holds[id].mode != Mode::Exclusive {
            return Err(Error::NotExclusive(name.clone()));
        }
        Ok(self.convert(id, By::Downgrade, request))
    }

    /// The only holder holds the lock in another mode from now on, by a new grant.
    pub(crate) fn convert(&mut self, id: HoldId, by: By, request: RequestId) -> Reply {
        let token = self.next_token();
        let mode = if by == By::Upgrade { Mode::Exclusive } else { Mode::Shared };
        let hold = &mut self.holds[id];
        (hold.mode, hold.token, hold.request, hold.by) = (mode, token, request, by);
        self.locks[hold.lock].convert(id, mode, token);
        self.turn.touched.push(hold.lock);
        self.report(id);
        self.granted(&self.holds[id])
    }

    pub(crate) fn force_release(
        &mut self,
        name: &Name,
        token: Option<Token>,
        reason: Name,
    ) -> Result<Reply, Error> {
        self.check_label(&reason)?;
        let lock = *self.names.get(name).ok_or_else(|| Error::Free(name.clone()))?;
        let holders = &self.locks[lock].holders;
        let holds: Vec<HoldId> = match token {
            None => holders.iter().collect(),
            Some(token) => {
                let stale = Error::StaleToken { lock: name.clone(), token };
                vec![holders.get(token).ok_or(stale)?]
            }
        };
        for hold in holds {
            let Hold { agent, token, .. } = self.holds[hold];
            self.record(Forced {
                at: self.now,
                name: name.clone(),
                agent,
                token,
                reason: reason.clone(),
            });
            self.drop_hold(hold, Cause::Forced);
        }
        Ok(Reply::Done)
    }

    pub(crate) fn record(&mut self, forced: Forced) {
        self.forced.push_back(forced);
        while self.forced.len() > self.config.limits.records {
            self.forced.pop_front();
        }
    }

    /// Grants what can be granted, in the order of arrival, and forgets locks that are neither held nor wanted.
    pub(crate) fn settle(&mut self) {
        loop {
            for lock in self.turn.touched.drain(..) {
                self.turn.heads.extend(self.locks[lock].head().map(Reverse));
                self.turn.looked_at.push(lock);
            }
            let Some(Reverse(place)) = self.turn.heads.pop() else { break };
            // It may have been withdrawn since.
            let ready = self.waits.get(&place.arrival).is_some_and(|wait| self.is_ready(wait));
            if ready {
                self.serve(place);
            }
        }
        let mut looked_at = std::mem::take(&mut self.turn.looked_at);
        looked_at.sort_unstable();
        looked_at.dedup();
        for lock in looked_at.drain(..) {
            self.forget_if_unused(lock);
        }
        self.turn.looked_at = looked_at;
        self.settle_elections();
    }

    /// Grants what a wait has waited for.
    fn serve(&mut self, place: Place) {
        let wait = self.withdraw(place.arrival);
        let reply = match &wait.goal {
            Goal::Locks(parts) => self.grant(wait.agent, wait.request, parts),
            Goal::Upgrade(hold, _) => self.convert(*hold, By::Upgrade, wait.request),
            Goal::Lead(_) => unreachable!("candidates are in no queue of a lock"),
        };
        // The next in the queue may be granted now, even where nothing was released.
        self.turn.touched.extend(wait.goal.parts().iter().map(|part| part.lock));
        self.answer(&wait, Ok(reply));
    }

    fn forget_if_unused(&mut self, id: LockId) {
        if self.locks[id].is_unused() {
            let lock = self.locks.remove(id);
            self.names.remove(&lock.name);
        }
    }

    pub(crate) fn granted(&self, hold: &Hold) -> Reply {
        let epochs = [self.locks[hold.lock].epoch].into();
        Reply::Granted { token: hold.token, epochs, depth: hold.depth }
    }

    /// The hold of a session with this token.
    fn held(&self, session: SessionId, name: &Name, token: Token) -> Result<HoldId, Error> {
        let lock = *self.names.get(name).ok_or_else(|| Error::NotHeld(name.clone()))?;
        let hold = self.locks[lock].holders.get(token);
        if let Some(hold) = hold.filter(|&hold| self.holds[hold].agent.session == session) {
            return Ok(hold);
        }
        if self.holds_on(session, name).next().is_some() {
            return Err(Error::StaleToken { lock: name.clone(), token });
        }
        Err(Error::NotHeld(name.clone()))
    }

    /// The hold of an agent on a lock; of permits, the one with the most.
    pub(crate) fn hold_of_name(&self, agent: Agent, name: &Name) -> Option<HoldId> {
        self.hold_of(agent, *self.names.get(name)?)
    }

    fn hold_of(&self, agent: Agent, lock: LockId) -> Option<HoldId> {
        let holders = &self.locks[lock].holders;
        let mine = |hold: &HoldId| {
            let hold = &self.holds[*hold];
            hold.agent == agent && hold.lock == lock
        };
        let most = |hold: &HoldId| {
            let hold = &self.holds[*hold];
            (units(hold.mode), Reverse(hold.token))
        };
        let listed = &self.sessions[&agent.session].holds;
        if listed.len() < holders.len() {
            listed.iter().copied().filter(mine).max_by_key(most)
        } else {
            holders.iter().filter(mine).max_by_key(most)
        }
    }

    /// The holds of a session on a lock.
    pub(crate) fn holds_on(&self, session: SessionId, name: &Name) -> impl Iterator<Item = &Hold> {
        let lock = self.names.get(name).copied();
        let listed = self.sessions[&session].holds.iter();
        listed.map(|&hold| &self.holds[hold]).filter(move |hold| Some(hold.lock) == lock)
    }

    /// Some holds of a session, by the names of the locks and by token.
    pub(crate) fn holds_by_name(
        &self,
        session: SessionId,
        which: impl Fn(&Hold) -> bool,
    ) -> Vec<HoldId> {
        let listed = self.sessions[&session].holds.iter().copied();
        let mut holds: Vec<HoldId> = listed.filter(|&hold| which(&self.holds[hold])).collect();
        let key = |&hold: &HoldId| {
            let hold = &self.holds[hold];
            (&self.locks[hold.lock].name, hold.token)
        };
        holds.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
        holds
    }

    pub(crate) fn holds_by(&self, agent: Agent) -> impl Iterator<Item = &Hold> {
        let holds = self.sessions[&agent.session].holds.iter().map(|&hold| &self.holds[hold]);
        holds.filter(move |hold| hold.agent == agent)
    }

    pub(crate) fn holds_anything(&self, agent: Agent) -> bool {
        self.holds_by(agent).next().is_some()
    }
}

/// How many permits are held; one of a lock without.
pub(crate) fn units(mode: Mode) -> u32 {
    match mode {
        Mode::Permits { take, .. } => take,
        Mode::Exclusive | Mode::Shared => 1,
    }
}

fn is_try(patience: Patience) -> bool {
    patience == Patience::Try || patience == Patience::For(std::time::Duration::ZERO)
}
