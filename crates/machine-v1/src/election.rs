//! Elections: the best candidate leads, until it resigns, its session ends, or a better one may and
//! does take over.
//!
//! A leader that is to yield to a better one is told so, and has the grace period that it asked for
//! when it stood to stop what it does and resign. Only then is it deposed, so that a program that
//! keeps its word never leads beside another.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::Arrival;
use crate::machine::{Due, Machine, fits, within};
use crate::view::Forced;
use crate::waits::{Candidacy, Goal};
use crate::{
    Agent, Campaign, Cause, Error, Event, Leadership, Name, Owner, Patience, Reply, RequestId,
    Scarce, SessionId, Time, Token,
};

/// An election that somebody leads or wants to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Election {
    pub(crate) leader: Option<Leader>,
    /// Who stands, the best first.
    pub(crate) candidates: BTreeSet<(Reverse<i64>, Arrival)>,
}

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Leader {
    pub(crate) session: SessionId,
    pub(crate) request: RequestId,
    pub(crate) rank: i64,
    pub(crate) grace: Duration,
    pub(crate) value: Vec<u8>,
    pub(crate) term: Token,
    pub(crate) since: Time,
    /// If it was asked to yield: when it is going to be deposed, by the clock of leases.
    pub(crate) yield_by: Option<Time>,
}

impl Election {
    pub(crate) fn enter(&mut self, candidacy: &Candidacy, arrival: Arrival) {
        self.candidates.insert((Reverse(candidacy.rank), arrival));
    }

    pub(crate) fn leave(&mut self, candidacy: &Candidacy, arrival: Arrival) {
        self.candidates.remove(&(Reverse(candidacy.rank), arrival));
    }

    /// The term of this session's leadership, if it came by this request.
    pub(crate) fn term_of(&self, session: SessionId, request: RequestId) -> Option<Token> {
        let leader = self.leader.as_ref()?;
        (leader.session == session && leader.request == request).then_some(leader.term)
    }
}

impl Machine {
    pub(crate) fn campaign(
        &mut self,
        session: SessionId,
        request: RequestId,
        campaign: &Campaign,
    ) -> Result<Reply, Error> {
        let Campaign { election: name, rank, preempt, grace, value, patience } = campaign;
        let limits = &self.config.limits;
        self.check_name(name)?;
        fits(value.len(), limits.value_bytes, Scarce::ValueBytes)?;
        if *grace > limits.longest_grace {
            return Err(Error::BadSpan);
        }
        let candidacy = Candidacy {
            election: name.clone(),
            rank: *rank,
            preempt: *preempt,
            grace: *grace,
            value: value.clone(),
        };
        let Some(election) = self.elections.get(name) else {
            self.check_names(1)?;
            self.elections.insert(name.clone(), Election::default());
            let term = self.elect(session, request, candidacy);
            return Ok(Reply::Elected { term });
        };
        let leader = election.leader.as_ref().expect("an election that is wanted has a leader");
        let stands = |&(_, arrival): &(_, Arrival)| self.waits[&arrival].agent.session == session;
        if leader.session == session || election.candidates.iter().any(stands) {
            return Err(Error::AlreadyCandidate(name.clone()));
        }
        let at_once = *preempt && *rank > leader.rank && leader.grace.is_zero();
        if !at_once && matches!(patience, Patience::Try | Patience::For(Duration::ZERO)) {
            return Err(Error::Conflict(name.clone()));
        }
        let candidates = election.candidates.len();
        within(candidates, limits.waiters_per_lock, Scarce::WaitersPerLock)?;
        let agent = Agent { session, owner: Owner(0) };
        self.check_room(agent, [])?;
        let better = *preempt && *rank > leader.rank;
        if better {
            self.ask_to_yield(name);
        }
        self.wait(agent, request, *patience, Goal::Lead(Box::new(candidacy)))
    }

    /// Tells a leader to resign, and deposes it if it needs no time for that.
    fn ask_to_yield(&mut self, name: &Name) {
        let (clock, stalled) = (self.clock(), self.stalled);
        let leader = self.elections.get_mut(name).and_then(|election| election.leader.as_mut());
        let leader = leader.expect("a leader is asked to yield");
        if leader.grace.is_zero() {
            self.vacate(name, Some(Cause::Preempted));
        } else if leader.yield_by.is_none() {
            let by = clock + leader.grace;
            leader.yield_by = Some(by);
            self.due.insert((by, Due::Yield(name.clone())));
            let (session, term) = (leader.session, leader.term);
            let by = by + stalled;
            self.turn.events.push(Event::Yield { election: name.clone(), session, term, by });
        }
    }

    /// The leader was asked to yield and had time enough: it is deposed, if anybody still wants it.
    pub(crate) fn grace_is_over(&mut self, name: &Name) {
        let Some(election) = self.elections.get_mut(name) else { return };
        let Some(leader) = &mut election.leader else { return };
        leader.yield_by = None;
        let rank = leader.rank;
        if self.is_preempted(&self.elections[name], rank) {
            self.vacate(name, Some(Cause::Preempted));
        }
    }

    /// Whether a leader of this rank has to make way for a candidate.
    fn is_preempted(&self, election: &Election, rank: i64) -> bool {
        let mut better = election.candidates.iter().take_while(|(other, _)| other.0 > rank);
        better.any(|(_, arrival)| match &self.waits[arrival].goal {
            Goal::Lead(candidacy) => candidacy.preempt,
            Goal::Locks(_) | Goal::Upgrade(..) => false,
        })
    }

    /// What a session leads and has been asked to yield to somebody who still wants it: the election, the
    /// term, and when it is going to be deposed.
    pub fn asked_to_yield(&self, session: SessionId) -> impl Iterator<Item = (&Name, Token, Time)> {
        let leads = self.sessions.get(&session).map(|session| session.leads.as_slice());
        leads.unwrap_or_default().iter().filter_map(|name| {
            let election = self.elections.get(name)?;
            let leader = election.leader.as_ref()?;
            let by = leader.yield_by.filter(|_| self.is_preempted(election, leader.rank))?;
            Some((name, leader.term, by + self.stalled))
        })
    }

    /// Nobody leads any more; whoever led is told why if it did not ask for that.
    pub(crate) fn vacate(&mut self, name: &Name, cause: Option<Cause>) {
        let election = self.elections.get_mut(name).expect("somebody leads it");
        let leader = election.leader.take().expect("somebody leads it");
        if let Some(by) = leader.yield_by {
            self.due.remove(&(by, Due::Yield(name.clone())));
        }
        let session = self.sessions.get_mut(&leader.session).expect("who leads has a session");
        session.leads.retain(|led| led != name);
        self.turn.vacant.insert(name.clone());
        if let Some(cause) = cause {
            let Leader { session, term, .. } = leader;
            self.turn.events.push(Event::Deposed { election: name.clone(), session, term, cause });
        }
    }

    /// Lets somebody lead.
    fn elect(&mut self, session: SessionId, request: RequestId, candidacy: Candidacy) -> Token {
        let Candidacy { election: name, rank, grace, value, .. } = candidacy;
        let term = self.next_token();
        let leader =
            Leader { session, request, rank, grace, value, term, since: self.now, yield_by: None };
        let election = self.elections.get_mut(&name).expect("it was called");
        election.leader = Some(leader);
        let session = self.sessions.get_mut(&session).expect("who stands has a session");
        session.leads.push(name.clone());
        self.announce(&name);
        term
    }

    /// Tells everybody who leads.
    fn announce(&mut self, name: &Name) {
        let leader = self.elections.get(name).and_then(|election| election.leader.as_ref());
        let leader = leader.map(|leader| Leadership {
            session: leader.session,
            term: leader.term,
            value: leader.value.clone(),
        });
        self.turn.events.push(Event::Leader { election: name.clone(), leader });
    }

    /// Lets the best candidates lead what nobody leads, and forgets elections that nobody wants.
    pub(crate) fn settle_elections(&mut self) {
        while let Some(name) = self.turn.vacant.pop_first() {
            let Some(election) = self.elections.get(&name) else { continue };
            if election.leader.is_some() {
                continue;
            }
            let Some(&(_, arrival)) = election.candidates.first() else {
                self.announce(&name);
                self.elections.remove(&name);
                continue;
            };
            let wait = self.withdraw(arrival);
            let Goal::Lead(candidacy) = &wait.goal else { unreachable!("candidates want to lead") };
            let candidacy = (**candidacy).clone();
            let term = self.elect(wait.agent.session, wait.request, candidacy);
            self.answer(&wait, Ok(Reply::Elected { term }));
        }
    }

    pub(crate) fn proclaim(
        &mut self,
        session: SessionId,
        name: &Name,
        term: Token,
        value: &[u8],
    ) -> Result<Reply, Error> {
        fits(value.len(), self.config.limits.value_bytes, Scarce::ValueBytes)?;
        self.leads(session, name, term)?.value = value.to_vec();
        self.announce(name);
        Ok(Reply::Done)
    }

    pub(crate) fn resign(
        &mut self,
        session: SessionId,
        name: &Name,
        term: Token,
    ) -> Result<Reply, Error> {
        self.leads(session, name, term)?;
        self.vacate(name, None);
        Ok(Reply::Done)
    }

    /// Gives up the leadership that came by this request, if it is still there.
    pub(crate) fn resign_of(&mut self, session: SessionId, request: RequestId) {
        let led = &self.sessions[&session].leads;
        let won = |name: &&Name| self.elections[*name].term_of(session, request).is_some();
        if let Some(name) = led.iter().find(won).cloned() {
            self.vacate(&name, None);
        }
    }

    pub(crate) fn depose(&mut self, name: &Name, reason: Name) -> Result<Reply, Error> {
        self.check_label(&reason)?;
        let leader = self.elections.get(name).and_then(|election| election.leader.as_ref());
        let leader = leader.ok_or_else(|| Error::Free(name.clone()))?;
        let agent = Agent { session: leader.session, owner: Owner(0) };
        let (at, name, token) = (self.now, name.clone(), leader.term);
        self.record(Forced { at, name: name.clone(), agent, token, reason });
        self.vacate(&name, Some(Cause::Forced));
        Ok(Reply::Done)
    }

    fn leads(
        &mut self,
        session: SessionId,
        name: &Name,
        term: Token,
    ) -> Result<&mut Leader, Error> {
        let leader = self.elections.get_mut(name).and_then(|election| election.leader.as_mut());
        let led = leader.filter(|leader| leader.session == session && leader.term == term);
        led.ok_or_else(|| Error::NotLeader(name.clone()))
    }
}
