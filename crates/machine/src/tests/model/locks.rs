//! What the model makes of requests for locks.

use super::*;

impl Model {
    pub(super) fn acquire(
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
        if self.is_blocked(agent) {
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

    pub(super) fn names(&self) -> usize {
        let mut locks: Vec<Name> = self.holds.iter().map(|it| it.lock.clone()).collect();
        locks.extend(self.waits.iter().flat_map(|it| self.wants(it)).map(|want| want.lock));
        locks.sort();
        locks.dedup();
        locks.len() + self.leaders.len()
    }

    pub(super) fn is_blocked(&self, agent: Agent) -> bool {
        self.waits.iter().any(|it| it.agent == agent && it.blocks())
    }

    pub(super) fn room<'a>(
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

    pub(super) fn held(
        &self,
        session: SessionId,
        lock: &Name,
        token: Token,
    ) -> Result<AHold, Error> {
        let mine = || self.holders(lock).filter(|it| it.agent.session == session);
        if let Some(hold) = mine().find(|it| it.token == token) {
            return Ok(hold.clone());
        }
        match mine().next() {
            Some(_) => Err(Error::StaleToken { lock: lock.clone(), token }),
            None => Err(Error::NotHeld(lock.clone())),
        }
    }

    pub(super) fn release(
        &mut self,
        session: SessionId,
        lock: &Name,
        token: Token,
        to: Option<SessionId>,
    ) -> Result<Reply, Error> {
        let hold = self.held(session, lock, token)?;
        let Some(to) = to else { return Ok(self.release_level(&hold, Cause::Released)) };
        if !self.sessions.iter().any(|it| it.id == to) {
            return Err(Error::UnknownReceiver(to));
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

    pub(super) fn release_level(&mut self, hold: &AHold, cause: Cause) -> Reply {
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

    pub(super) fn upgrade(
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
        if self.is_blocked(hold.agent) {
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

    pub(super) fn downgrade(
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

    pub(super) fn cancel(&mut self, id: SessionId, request: RequestId) -> Result<Reply, Error> {
        let waits = self.of_session(id).find(|it| it.request == request).map(|it| it.arrival);
        if let Some(arrival) = waits {
            self.end_wait(arrival, Err(Error::Cancelled));
            return Ok(Reply::Done);
        }
        let session = self.session(id);
        let forgotten = request <= session.forgotten;
        let kept = session.kept(request).cloned();
        let remember = kept.is_some() || !(request.is_allotted() || forgotten);
        let granted = self.held_by_name(id, |it| it.request == request);
        match kept {
            Some(Kept::Answer(_)) => return Ok(Reply::Done),
            Some(Kept::Nested(lock, owner)) => {
                let agent = Agent { session: id, owner };
                if let Some(hold) = self.best_hold(agent, &lock).cloned() {
                    self.release_level(&hold, Cause::Cancelled);
                }
            }
            Some(Kept::Grant | Kept::Lead) | None => {
                for (lock, token) in granted {
                    let hold = self.held(id, &lock, token)?;
                    match hold.before {
                        None => {
                            self.release_level(&hold, Cause::Cancelled);
                        }
                        Some(Mode::Shared) => {
                            self.convert(&lock, token, Mode::Shared, request);
                        }
                        Some(_) => {}
                    }
                }
                let mut led = self.leaders.iter();
                let led = led.find(|it| it.session == id && it.request == request);
                if let Some(election) = led.map(|it| it.election.clone()) {
                    self.vacate(&election, None);
                }
            }
        }
        if remember {
            self.keep(id, request, Kept::Answer(Err(Error::Cancelled)));
        }
        Ok(Reply::Done)
    }
}
