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
            let now = self.now;
            let leader = self.leaders.iter_mut().find(|it| it.election == *name);
            let leader = leader.expect("somebody leads");
            if leader.yield_by.is_none() {
                let by = now + leader.grace;
                leader.yield_by = Some(by);
                let (session, term, by) = (leader.session, leader.term, by);
                self.events.push(Event::Yield { election: name.clone(), session, term, by });
            }
        }
        let agent = Agent { session, owner: Owner(0) };
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
            yield_by: None,
        });
        self.announce(&campaign.election);
        Reply::Elected { term }
    }

    /// Ends a leadership, and notes that somebody else may lead.
    pub(super) fn vacate(&mut self, election: &Name, cause: Option<Cause>) {
        let at = self.leaders.iter().position(|it| it.election == *election);
        let ALeader { session, term, .. } = self.leaders.remove(at.expect("somebody leads"));
        self.vacated.push(election.clone());
        if let Some(cause) = cause {
            let election = election.clone();
            self.events.push(Event::Deposed { election, session, term, cause });
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
