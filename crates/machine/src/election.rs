//! Elections: the best candidate leads, until it resigns, its session ends, or a better one may and
//! does take over.
//!
//! A leader that is to yield to a better one is told so, and has the grace period that it asked for
//! when it stood to stop what it does and resign. Then it is deposed: it is told that, too, and renewals of
//! its session prolong this leadership no more. But it may not hear any of it, and its lease, as it stood
//! when it was deposed, lets it believe that it leads. So another leads when the deposed one has resigned,
//! which confirms it, or when that lease has ended; never before.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::Arrival;
use crate::machine::{Due, Machine, fits, within};
use crate::mutation::Mutation;
use crate::view::Forced;
use crate::waits::{Candidacy, Goal};
use crate::{
    Agent, Campaign, Cause, Deposed, Error, Event, Leadership, Name, Owner, Patience, Reply,
    RequestId, Scarce, SessionId, Span, Time, Token,
};

/// An election with a leader or candidates.
#[derive(Clone, Debug, Default)]
pub(crate) struct Election {
    pub(crate) leader: Option<Leader>,
    /// Who stands, the best first.
    pub(crate) candidates: BTreeSet<(Reverse<i64>, Arrival)>,
}

/// The leader of an election.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Leader {
    pub(crate) session: SessionId,
    pub(crate) request: RequestId,
    pub(crate) rank: i64,
    pub(crate) grace: Duration,
    pub(crate) value: Vec<u8>,
    pub(crate) term: Token,
    pub(crate) since: Time,
    /// The thread of control that leads, if it does nothing else.
    pub(crate) owner: Option<Owner>,
    /// If it was asked to yield: when it is going to be deposed.
    pub(crate) yield_by: Option<Time>,
    /// If it was deposed: why, and when its lease ends.
    pub(crate) deposed: Option<(Cause, Time)>,
}

impl Leader {
    fn came_by(&self, session: SessionId, request: RequestId) -> bool {
        self.session == session && self.request == request
    }

    /// When something is going to happen to it by itself.
    pub(crate) fn time_limit(&self) -> Option<Time> {
        self.deposed.map(|(_, until)| until).or(self.yield_by)
    }

    /// By which it is known.
    pub(crate) fn known_agent(&self) -> Agent {
        Agent { session: self.session, owner: self.owner.unwrap_or_default() }
    }

    /// The thread of control that leads, if it does nothing else.
    pub(crate) fn agent(&self) -> Option<Agent> {
        self.owner.map(|owner| Agent { session: self.session, owner })
    }
}

impl Election {
    pub(crate) fn enter(&mut self, candidacy: &Candidacy, arrival: Arrival) {
        self.candidates.insert((Reverse(candidacy.rank), arrival));
    }

    pub(crate) fn leave(&mut self, candidacy: &Candidacy, arrival: Arrival) {
        self.candidates.remove(&(Reverse(candidacy.rank), arrival));
    }

    /// The term of this session's leadership, if it came by this request and is not over.
    pub(crate) fn term_of(&self, session: SessionId, request: RequestId) -> Option<Token> {
        let leader = self.leader.as_ref().filter(|leader| leader.deposed.is_none())?;
        leader.came_by(session, request).then_some(leader.term)
    }
}

impl Machine {
    pub(crate) fn campaign(
        &mut self,
        session: SessionId,
        request: RequestId,
        campaign: &Campaign,
    ) -> Result<Reply, Error> {
        let Campaign { election: name, rank, preempt, grace, value, patience, owner } = campaign;
        let limits = &self.config.limits;
        self.check_name(name)?;
        fits(value.len(), limits.value_bytes, Scarce::ValueBytes)?;
        if *grace > limits.longest_grace {
            return Err(Error::BadSpan {
                what: Span::Grace,
                least: Duration::ZERO,
                most: limits.longest_grace,
            });
        }
        let agent = Agent { session, owner: owner.unwrap_or_default() };
        let blocks = owner.is_some();
        if blocks && self.waiting.contains_key(&agent) {
            return Err(Error::Busy);
        }
        self.check_bar(session, name)?;
        let candidacy = Candidacy {
            election: name.clone(),
            rank: *rank,
            preempt: *preempt,
            grace: *grace,
            value: value.clone(),
            blocks,
        };
        let Some(election) = self.elections.get(name) else {
            self.check_names(1)?;
            self.elections.insert(name.clone(), Election::default());
            let term = self.elect(agent, request, candidacy);
            return Ok(Reply::Elected { term });
        };
        let leader = election.leader.as_ref().expect("an election that is wanted has a leader");
        let stands = |&(_, arrival): &(_, Arrival)| self.waits[&arrival].agent.session == session;
        if leader.session == session || election.candidates.iter().any(stands) {
            return Err(Error::AlreadyCandidate(name.clone()));
        }
        // Even a leader that needs no time to yield has to confirm that it has.
        if matches!(patience, Patience::Try | Patience::For(Duration::ZERO)) {
            return Err(Error::Conflict(name.clone()));
        }
        let candidates = election.candidates.len();
        within(candidates, limits.waiters_per_lock, Scarce::WaitersPerLock)?;
        self.check_room(agent, [])?;
        let better = *preempt && *rank > leader.rank;
        if better {
            self.ask_to_yield(name);
        }
        self.wait(agent, request, *patience, Goal::Lead(Box::new(candidacy)))
    }

    /// Whether an operator has deposed the session there a short while ago.
    fn check_bar(&self, session: SessionId, name: &Name) -> Result<(), Error> {
        let clock = self.now;
        let barred = &self.sessions[&session].barred;
        let until = barred.iter().find(|(election, until)| election == name && *until > clock);
        match until {
            None => Ok(()),
            Some((_, until)) => {
                Err(Error::Barred { election: name.clone(), left: until.since(clock) })
            }
        }
    }

    /// Tells a leader to resign, and deposes it if it needs no time for that.
    fn ask_to_yield(&mut self, name: &Name) {
        let now = self.now;
        let leader = self.elections.get_mut(name).and_then(|election| election.leader.as_mut());
        let leader = leader.expect("a leader is asked to yield");
        if leader.time_limit().is_some() {
            return;
        }
        if leader.grace.is_zero() {
            return self.oust(name, Cause::Preempted);
        }
        let by = now + leader.grace;
        leader.yield_by = Some(by);
        self.due.insert((by, Due::Yield(name.clone())));
        let (session, term) = (leader.session, leader.term);
        self.turn.events.push(Event::Yield { election: name.clone(), session, term, by });
    }

    /// Deposes a leader: tells it, and lets another lead when it has confirmed, or when the lease that it
    /// has now ends.
    fn oust(&mut self, name: &Name, cause: Cause) {
        if self.is_mutated(Mutation::DeposedAtOnce) {
            return self.vacate(name, Some(cause));
        }
        let leader = self.elections.get_mut(name).and_then(|election| election.leader.as_mut());
        let leader = leader.expect("a leader is deposed");
        if leader.deposed.is_some() {
            return;
        }
        if let Some(by) = leader.yield_by.take() {
            self.due.remove(&(by, Due::Yield(name.clone())));
        }
        let until = self.sessions[&leader.session].deadline;
        leader.deposed = Some((cause, until));
        self.due.insert((until, Due::Yield(name.clone())));
        let (session, term, until) = (leader.session, leader.term, Some(until));
        let deposed = Deposed { election: name.clone(), session, term, cause, until };
        self.turn.events.push(Event::Deposed(deposed));
    }

    /// A leader that was asked to yield had time enough, or the lease of a deposed one has ended.
    pub(crate) fn time_is_up(&mut self, name: &Name) {
        let Some(election) = self.elections.get_mut(name) else { return };
        let Some(leader) = &mut election.leader else { return };
        if leader.deposed.is_some() {
            return self.vacate(name, None);
        }
        leader.yield_by = None;
        let rank = leader.rank;
        if self.is_preempted(&self.elections[name], rank) {
            self.oust(name, Cause::Preempted);
        }
    }

    /// Whether a leader of this rank has to make way for a candidate.
    pub(crate) fn is_preempted(&self, election: &Election, rank: i64) -> bool {
        let mut better = election.candidates.iter().take_while(|(other, _)| other.0 > rank);
        better.any(|(_, arrival)| {
            self.looks_at(1);
            match &self.waits[arrival].goal {
                Goal::Lead(candidacy) => candidacy.preempt,
                Goal::Locks(_) | Goal::Upgrade(..) => false,
            }
        })
    }

    /// What a session leads and has been asked to yield to a candidate that still wants it: the election,
    /// the term, and when it is going to be deposed.
    pub fn asked_to_yield(&self, session: SessionId) -> impl Iterator<Item = (&Name, Token, Time)> {
        let leads = self.sessions.get(&session).map(|session| session.leads.as_slice());
        leads.unwrap_or_default().iter().filter_map(|name| {
            let election = self.elections.get(name)?;
            let leader = election.leader.as_ref()?;
            let by = leader.yield_by.filter(|_| self.is_preempted(election, leader.rank))?;
            Some((name, leader.term, by))
        })
    }

    /// The leaderships of a session that were deposed, while no other leads instead.
    pub fn deposed(&self, session: SessionId) -> Vec<Deposed> {
        let leads = self.sessions.get(&session).map(|session| session.leads.as_slice());
        let deposed = leads.unwrap_or_default().iter().filter_map(|name| {
            let leader = self.elections.get(name)?.leader.as_ref()?;
            let (cause, until) = leader.deposed?;
            let (election, term, until) = (name.clone(), leader.term, Some(until));
            Some(Deposed { election, session, term, cause, until })
        });
        let mut deposed: Vec<Deposed> = deposed.collect();
        deposed.sort_unstable_by(|one, other| one.election.cmp(&other.election));
        if self.is_mutated(Mutation::SilentRenewals) { Vec::new() } else { deposed }
    }

    /// The leadership ends; the leader is told why if it did not ask for that.
    pub(crate) fn vacate(&mut self, name: &Name, cause: Option<Cause>) {
        let election = self.elections.get_mut(name).expect("it has a leader");
        let leader = election.leader.take().expect("it has a leader");
        if let Some(time) = leader.time_limit() {
            self.due.remove(&(time, Due::Yield(name.clone())));
        }
        self.looks_at(self.sessions[&leader.session].leads.len());
        let session = self.sessions.get_mut(&leader.session).expect("who leads has a session");
        session.leads.retain(|led| led != name);
        self.turn.vacant.insert(name.clone());
        if let Some(cause) = cause {
            let Leader { session, term, .. } = leader;
            let deposed = Deposed { election: name.clone(), session, term, cause, until: None };
            self.turn.events.push(Event::Deposed(deposed));
        }
    }

    /// Lets a candidate lead.
    fn elect(&mut self, agent: Agent, request: RequestId, candidacy: Candidacy) -> Token {
        let Candidacy { election: name, rank, grace, value, blocks, .. } = candidacy;
        let Agent { session, owner } = agent;
        let term = self.next_token();
        let leader = Leader {
            session,
            request,
            rank,
            grace,
            value,
            term,
            since: self.now,
            owner: blocks.then_some(owner),
            yield_by: None,
            deposed: None,
        };
        let election = self.elections.get_mut(&name).expect("it was called");
        election.leader = Some(leader);
        let session = self.sessions.get_mut(&session).expect("who stands has a session");
        session.leads.push(name.clone());
        self.announce(&name);
        term
    }

    /// Announces the leader, or that there is none.
    fn announce(&mut self, name: &Name) {
        let leader = self.elections.get(name).and_then(|election| election.leader.as_ref());
        let leader = leader.map(|leader| Leadership {
            session: leader.session,
            term: leader.term,
            value: leader.value.clone(),
        });
        self.turn.events.push(Event::Leader { election: name.clone(), leader });
    }

    /// Elects the best candidates of elections without a leader, and forgets elections without candidates.
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
            let term = self.elect(wait.agent, wait.request, candidacy);
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
        let leader = self.leads(session, name, term)?;
        if leader.deposed.is_some() {
            return Err(Error::NotLeader(name.clone()));
        }
        leader.value = value.to_vec();
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
        let won = |name: &&Name| {
            let leader = self.elections[*name].leader.as_ref();
            leader.is_some_and(|leader| leader.came_by(session, request))
        };
        if let Some(name) = led.iter().find(won).cloned() {
            self.vacate(&name, None);
        }
    }

    pub(crate) fn depose(
        &mut self,
        name: &Name,
        reason: Name,
        barred: Duration,
        at_once: bool,
    ) -> Result<Reply, Error> {
        self.check_label(&reason)?;
        if barred > self.config.limits.longest_ttl {
            let (least, most) = (Duration::ZERO, self.config.limits.longest_ttl);
            return Err(Error::BadSpan { what: Span::Barred, least, most });
        }
        let leader = self.elections.get(name).and_then(|election| election.leader.as_ref());
        let leader = leader.ok_or_else(|| Error::Free(name.clone()))?;
        let agent = leader.known_agent();
        let (at, name, token) = (self.now, name.clone(), leader.term);
        self.record(Forced { at, name: name.clone(), agent, token, reason });
        self.bar(agent.session, &name, barred);
        if at_once {
            self.vacate(&name, Some(Cause::Forced));
        } else {
            self.oust(&name, Cause::Forced);
        }
        Ok(Reply::Done)
    }

    /// A session may not stand in an election for so long.
    fn bar(&mut self, session: SessionId, name: &Name, span: Duration) {
        let clock = self.now;
        let session = self.sessions.get_mut(&session).expect("who leads has a session");
        session.barred.retain(|(election, until)| election != name && *until > clock);
        if !span.is_zero() {
            session.barred.push((name.clone(), clock + span));
        }
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
