//! What the model makes of elections.

use super::*;

impl Model {
    pub(super) fn campaign(
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
            return Err(Error::BadSpan {
                what: Span::Grace,
                least: Duration::ZERO,
                most: limits.longest_grace,
            });
        }
        let agent = Agent { session, owner: campaign.owner.unwrap_or_default() };
        if campaign.owner.is_some() && self.is_blocked(agent) {
            return Err(Error::Busy);
        }
        let clock = self.now;
        let barred = self.session(session).barred.iter();
        if let Some((_, until)) = barred.rev().find(|(it, _)| it == name)
            && *until > clock
        {
            return Err(Error::Barred { election: name.clone(), left: until.since(clock) });
        }
        let Some(leader) = self.leaders.iter_mut().find(|it| it.election == *name) else {
            most(self.names() + 1, limits.names, Scarce::Names)?;
            return Ok(self.elect(session, request, campaign));
        };
        let better = campaign.preempt && campaign.rank > leader.rank;
        let stands =
            |it: &&AWait| matches!(&it.goal, AGoal::Lead(other) if other.election == *name);
        let candidates = self.waits.iter().filter(stands).count();
        if leader.session == session
            || self.waits.iter().any(|it| stands(&it) && it.agent.session == session)
        {
            return Err(Error::AlreadyCandidate(name.clone()));
        }
        if impatient(campaign.patience) {
            return Err(Error::Conflict(name.clone()));
        }
        most(candidates + 1, limits.waiters_per_lock, Scarce::WaitersPerLock)?;
        self.room(session, std::iter::empty())?;
        if better {
            let now = self.now;
            let leader = self.leaders.iter_mut().find(|it| it.election == *name);
            let leader = leader.expect("it has a leader");
            if leader.deposed.is_none() && leader.grace.is_zero() {
                self.oust(name, Cause::Preempted);
            } else if leader.deposed.is_none() && leader.yield_by.is_none() {
                let by = now + leader.grace;
                leader.yield_by = Some(by);
                let (session, term, by) = (leader.session, leader.term, by);
                self.events.push(Event::Yield { election: name.clone(), session, term, by });
            }
        }
        self.wait(agent, request, campaign.patience, AGoal::Lead(campaign.clone()))
    }

    pub(super) fn elect(
        &mut self,
        session: SessionId,
        request: RequestId,
        campaign: &Campaign,
    ) -> Reply {
        let term = self.token();
        self.leaders.push(ALeader {
            election: campaign.election.clone(),
            session,
            term,
            request,
            rank: campaign.rank,
            grace: campaign.grace,
            value: campaign.value.clone(),
            owner: campaign.owner,
            yield_by: None,
            deposed: None,
        });
        self.announce(&campaign.election);
        Reply::Elected { term }
    }

    /// Ends a leadership, and notes that another may lead.
    pub(super) fn vacate(&mut self, election: &Name, cause: Option<Cause>) {
        let at = self.leaders.iter().position(|it| it.election == *election);
        let ALeader { session, term, .. } = self.leaders.remove(at.expect("it has a leader"));
        self.vacated.push(election.clone());
        if let Some(cause) = cause {
            let election = election.clone();
            let deposed = Deposed { election, session, term, cause, until: None };
            self.events.push(Event::Deposed(deposed));
        }
    }

    /// The leader is told that it is deposed, and its leadership is over when its lease of now is.
    pub(super) fn oust(&mut self, election: &Name, cause: Cause) {
        let at = self.leaders.iter().position(|it| it.election == *election);
        let at = at.expect("it has a leader");
        if self.leaders[at].deposed.is_some() {
            return;
        }
        let (session, term) = (self.leaders[at].session, self.leaders[at].term);
        let until = self.session(session).deadline;
        (self.leaders[at].yield_by, self.leaders[at].deposed) = (None, Some((cause, until)));
        let until = Some(until);
        let deposed = Deposed { election: election.clone(), session, term, cause, until };
        self.events.push(Event::Deposed(deposed));
    }

    /// What is over of leaderships by this time.
    pub(super) fn yield_or_go(&mut self, clock: Time) {
        let time = |it: &ALeader| it.deposed.map(|(_, until)| until).or(it.yield_by);
        let over = self.leaders.iter().filter_map(|it| Some((time(it)?, it.election.clone())));
        let mut over: Vec<(Time, Name)> = over.filter(|(by, _)| *by <= clock).collect();
        over.sort();
        for (_, election) in over {
            let leader = self.leaders.iter_mut().find(|it| it.election == election);
            let leader = leader.expect("a leader");
            if leader.deposed.is_some() {
                self.vacate(&election, None);
                continue;
            }
            leader.yield_by = None;
            let leader = leader.clone();
            if self.is_preempted(&leader) {
                self.oust(&election, Cause::Preempted);
            }
        }
    }

    /// Whether a better candidate wants a leader to yield.
    pub(super) fn is_preempted(&self, leader: &ALeader) -> bool {
        self.waits.iter().any(|it| {
            matches!(&it.goal, AGoal::Lead(campaign) if campaign.election == leader.election
                && campaign.rank > leader.rank && campaign.preempt)
        })
    }

    pub(super) fn depose(
        &mut self,
        election: &Name,
        barred: Duration,
        at_once: bool,
    ) -> Result<Reply, Error> {
        if barred > self.config.limits.longest_ttl {
            let (least, most) = (Duration::ZERO, self.config.limits.longest_ttl);
            return Err(Error::BadSpan { what: Span::Barred, least, most });
        }
        let Some(leader) = self.leaders.iter().find(|it| it.election == *election) else {
            return Err(Error::Free(election.clone()));
        };
        let (session, until) = (leader.session, self.now + barred);
        self.session(session).barred.push((election.clone(), until));
        if at_once {
            self.vacate(election, Some(Cause::Forced));
        } else {
            self.oust(election, Cause::Forced);
        }
        Ok(Reply::Done)
    }

    /// What a session leads and has been told that it does not.
    pub(super) fn deposed(&self, session: SessionId) -> Vec<Deposed> {
        let mut led: Vec<&ALeader> =
            self.leaders.iter().filter(|it| it.session == session).collect();
        led.sort_by_key(|it| it.election.clone());
        let deposed = led.into_iter().filter_map(|it| {
            let (cause, until) = it.deposed?;
            let (election, term, until) = (it.election.clone(), it.term, Some(until));
            Some(Deposed { election, session, term, cause, until })
        });
        deposed.collect()
    }

    /// Who has to go before a candidate leads: who leads and is not deposed, and who would lead before.
    pub(super) fn before(&self, wait: &AWait) -> Vec<Agent> {
        let AGoal::Lead(campaign) = &wait.goal else { return Vec::new() };
        let mut before = Vec::new();
        let leader = self.leaders.iter().find(|it| it.election == campaign.election);
        if let Some(leader) = leader
            && let Some(owner) = leader.owner
            && leader.deposed.is_none()
            && !self.is_preempted(leader)
        {
            before.push(Agent { session: leader.session, owner });
        }
        let place = |rank: i64, arrival: u64| (std::cmp::Reverse(rank), arrival);
        for other in self.waits.iter().filter(|it| it.blocks()) {
            if let AGoal::Lead(rival) = &other.goal
                && rival.election == campaign.election
                && place(rival.rank, other.arrival) < place(campaign.rank, wait.arrival)
            {
                before.push(other.agent);
            }
        }
        before
    }

    /// Looks for deadlocks of candidates: one who wanted the leader to yield may have gone.
    pub(super) fn look_at_candidates(&mut self) {
        let mut candidates: Vec<(Name, std::cmp::Reverse<i64>, u64)> = Vec::new();
        for wait in &self.waits {
            if let AGoal::Lead(campaign) = &wait.goal {
                let rank = std::cmp::Reverse(campaign.rank);
                candidates.push((campaign.election.clone(), rank, wait.arrival));
            }
        }
        candidates.sort();
        for (_, _, arrival) in candidates {
            self.break_cycles(arrival);
        }
    }

    pub(super) fn announce(&mut self, election: &Name) {
        let leader = self.leaders.iter().find(|it| it.election == *election);
        let leader = leader.map(|it| Leadership {
            session: it.session,
            term: it.term,
            value: it.value.clone(),
        });
        self.events.push(Event::Leader { election: election.clone(), leader });
    }

    pub(super) fn leads(
        &mut self,
        session: SessionId,
        election: &Name,
        term: Token,
    ) -> Option<&mut ALeader> {
        let mut leaders = self.leaders.iter_mut();
        leaders.find(|it| it.election == *election && it.session == session && it.term == term)
    }
}
