//! What the model makes of requests: which are answered, and which are answered again.

use super::*;

impl ASession {
    /// What came of a request, if that is kept.
    pub(super) fn kept(&self, request: RequestId) -> Option<&Kept> {
        self.kept.iter().find(|(other, _)| *other == request).map(|(_, kept)| kept)
    }
}

impl Model {
    pub(super) fn request(
        &mut self,
        id: SessionId,
        request: RequestId,
        received: RequestId,
        call: &Call,
    ) -> Result<Reply, Error> {
        let Some(session) = self.sessions.iter_mut().find(|it| it.id == id) else {
            return Err(Error::UnknownSession(id));
        };
        session.kept.retain(|&(kept, _)| kept > received || kept.is_allotted());
        session.forgotten = session.forgotten.max(received);
        if request.is_allotted() {
            return Err(Error::Forgotten(request));
        }
        let mut request = request;
        if request == RequestId(0) {
            request = RequestId(RequestId::ALLOTTED.0 + session.unnumbered);
            session.unnumbered += 1;
        }
        let forgotten = request <= session.forgotten;
        if let Some(kept) = session.kept(request).cloned() {
            return self.again(id, request, &kept, call);
        }
        let via = self.via;
        let mut waits = self.waits.iter_mut().filter(|it| it.agent.session == id);
        if let Some(wait) = waits.find(|it| it.request == request) {
            wait.via = via;
            return Ok(Reply::Waiting);
        }
        if forgotten {
            let kept = if matches!(call, Call::Campaign(_)) { Kept::Lead } else { Kept::Grant };
            return self.again(id, request, &kept, call).map_err(|_| Error::Forgotten(request));
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
                match self.leads(id, election, *term).filter(|it| it.deposed.is_none()) {
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
            (Ok(Reply::Granted { depth: 2.., .. }), Call::Acquire(acquire)) => {
                Kept::Nested(acquire.wants[0].lock.clone(), acquire.owner)
            }
            (Ok(Reply::Granted { .. }), _) => Kept::Grant,
            (Ok(Reply::Elected { .. }), _) => Kept::Lead,
            _ => Kept::Answer(reply.clone()),
        };
        self.keep(id, request, kept);
        reply
    }

    pub(super) fn keep(&mut self, id: SessionId, request: RequestId, kept: Kept) {
        let most = self.config.limits.replies;
        let session = self.session(id);
        match session.kept.iter_mut().find(|(other, _)| *other == request) {
            Some((_, old)) => *old = kept,
            None => session.kept.push((request, kept)),
        }
        // Those with a number and those without do not make room for each other.
        let alike = |other: RequestId| other.is_allotted() == request.is_allotted();
        while session.kept.iter().filter(|(other, _)| alike(*other)).count() > most {
            let oldest = session.kept.iter().position(|(other, _)| alike(*other));
            let (oldest, _) = session.kept.remove(oldest.expect("one too many"));
            if !oldest.is_allotted() {
                session.forgotten = session.forgotten.max(oldest);
            }
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
            (Kept::Grant, Call::Upgrade { lock, .. } | Call::Downgrade { lock, .. }) => {
                granted(lock).map(told).ok_or(Error::Lost)
            }
            (Kept::Nested(lock, owner), _) => {
                let hold = self.best_hold(Agent { session: id, owner: *owner }, lock);
                hold.map(told).ok_or(Error::Lost)
            }
            (Kept::Lead, Call::Campaign(campaign)) => {
                let mut leaders = self.leaders.iter();
                let leader = leaders.find(|it| {
                    it.election == campaign.election
                        && it.session == id
                        && it.request == request
                        && it.deposed.is_none()
                });
                leader.map(|it| Reply::Elected { term: it.term }).ok_or(Error::Lost)
            }
            _ => Err(Error::Lost),
        }
    }
}
