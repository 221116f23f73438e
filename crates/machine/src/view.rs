//! What can be seen of the machine without changing it: who holds what, who waits for whom, since
//! when, and why.

use std::ops::Bound;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::election::Election;
use crate::lock::{Hold, Lock};
use crate::machine::Machine;
use crate::session::Session;
use crate::waits::{Goal, Wait};
use crate::{
    Agent, Cause, KeyDigest, Kind, Leadership, Link, Mode, Name, RequestId, Scarce, SessionId,
    Time, Token,
};

/// A lock that is held or wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockView {
    /// Its name.
    pub name: Name,
    /// What it is.
    pub kind: Kind,
    /// The token that began the present period of holding.
    pub epoch: Token,
    /// Who holds it, in the order of their tokens.
    pub holders: Vec<HolderView>,
    /// Who waits for it, the next first.
    pub waiters: Vec<WaiterView>,
}

/// A holder of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderView {
    /// Who.
    pub who: Who,
    /// How.
    pub mode: Mode,
    /// How often it was taken.
    pub depth: u32,
    /// The fencing token.
    pub token: Token,
    /// Since when.
    pub since: Time,
}

/// A waiter for a lock, or a candidate of an election.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaiterView {
    /// Who.
    pub who: Who,
    /// By which request.
    pub request: RequestId,
    /// How it wants the lock; a candidate wants to lead.
    pub wants: Wants,
    /// Since when.
    pub since: Time,
    /// For how much longer, unless for as long as it takes.
    pub left: Option<Duration>,
    /// The locks that it waits for at once.
    pub locks: Vec<Name>,
}

/// What a waiter wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wants {
    /// To hold the lock so.
    Hold(Mode),
    /// To hold exclusively what it shares.
    Upgrade,
    /// To lead, with this rank.
    Lead {
        /// The rank.
        rank: i64,
    },
}

/// An agent, with the names of its session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Who {
    /// Who.
    pub agent: Agent,
    /// The session's name.
    pub name: Name,
    /// Where it runs.
    pub host: Name,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionView {
    /// Its number.
    pub session: SessionId,
    /// What the client is called.
    pub name: Name,
    /// Where it runs.
    pub host: Name,
    /// Its time-to-live.
    pub ttl: Duration,
    /// For how much longer it lives unless it is kept alive.
    pub left: Duration,
    /// When it was opened.
    pub opened: Time,
    /// Its priority in deadlocks.
    pub priority: i32,
    /// The name of the token that opened it; empty if there was none.
    pub opened_by: Name,
    /// The network address that it was opened from, if that is known.
    pub address: Name,
    /// The locks that it holds, by name, with their tokens.
    pub holds: Vec<(Name, Token)>,
    /// The locks that it waits for, by name.
    pub waits: Vec<Name>,
    /// The elections that it leads.
    pub leads: Vec<Name>,
}

/// An election with a leader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElectionView {
    /// Its name.
    pub name: Name,
    /// Who leads.
    pub leader: Option<Leadership>,
    /// Who that is, for people, and since when.
    pub who: Option<(Who, Time)>,
    /// Whether the leader leads on.
    pub tenure: Tenure,
    /// Who else would, the best first.
    pub candidates: Vec<WaiterView>,
}

/// Whether a leader leads on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tenure {
    /// It does.
    Unquestioned,
    /// It was asked to yield.
    Yields {
        /// For how much longer it may take.
        left: Duration,
    },
    /// It was deposed, and has not confirmed that.
    Deposed {
        /// Why.
        cause: Cause,
        /// For how much longer its lease lasts.
        left: Duration,
    },
}

/// Why a lock cannot be had, or an election not be led.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    /// Who holds the lock of this name, and who waits for it.
    pub lock: Option<LockView>,
    /// Who leads the election of this name, and who stands in it.
    pub election: Option<ElectionView>,
    /// What its holders and waiters wait for, and what those wait for, and so on.
    pub waits: Vec<Edge>,
    /// The deadlock that its waiters are in, if they are.
    pub cycle: Option<Vec<Link>>,
    /// When it was last taken by force, and why.
    pub forced: Vec<Forced>,
}

/// One waits for another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Edge {
    /// Who waits.
    pub waiter: Agent,
    /// For which lock, or to lead which election.
    pub lock: Name,
    /// Whether that is an election.
    pub election: bool,
    /// For whom.
    pub on: Agent,
    /// Whether that one holds the lock or leads, or is only before it in the queue.
    pub holds: bool,
}

/// A lock or a leadership that an operator took by force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forced {
    /// When.
    pub at: Time,
    /// Which lock or election.
    pub name: Name,
    /// From whom.
    pub agent: Agent,
    /// With which token.
    pub token: Token,
    /// Why.
    pub reason: Name,
}

impl Machine {
    /// The locks whose names begin with `prefix`, after the name `after` if there is one, in the
    /// order of their names.
    pub fn locks(&self, prefix: &str, after: Option<&str>) -> impl Iterator<Item = LockView> {
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let locks = self.names.range::<str, _>((from, Bound::Unbounded));
        let locks = locks.take_while(move |(name, _)| name.starts_with(prefix));
        locks.map(|(_, &lock)| self.view_lock(&self.locks[lock]))
    }

    /// A lock, if it is held or wanted.
    pub fn lock(&self, name: &str) -> Option<LockView> {
        self.names.get(name).map(|&lock| self.view_lock(&self.locks[lock]))
    }

    /// Whether a request waits for a lock. A newcomer then waits, too.
    pub fn is_waited_for(&self, lock: &str) -> bool {
        self.names.get(lock).is_some_and(|&lock| self.locks[lock].waiting().next().is_some())
    }

    /// The sessions, the senior first, after the number `after`.
    pub fn sessions(&self, after: Option<SessionId>) -> impl Iterator<Item = SessionView> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let sessions = self.sessions.range((from, Bound::Unbounded));
        sessions.map(|(&id, session)| self.view_session(id, session))
    }

    /// A session, if it lives.
    pub fn session(&self, id: SessionId) -> Option<SessionView> {
        self.sessions.get(&id).map(|session| self.view_session(id, session))
    }

    /// For how long a session lives on if it is not renewed, by the time of the last command.
    pub fn left(&self, id: SessionId) -> Option<Duration> {
        self.sessions.get(&id).map(|session| session.deadline.since(self.now))
    }

    /// The elections, in the order of their names.
    pub fn elections(&self) -> impl Iterator<Item = ElectionView> {
        self.elections.iter().map(|(name, election)| self.view_election(name, election))
    }

    /// An election, if it has a leader.
    pub fn election(&self, name: &str) -> Option<ElectionView> {
        let (name, election) = self.elections.get_key_value(name)?;
        Some(self.view_election(name, election))
    }

    /// Why a lock cannot be had or an election not be led: who has it, who waits, what they wait for, and
    /// the deadlock if there is one. Nothing if it is neither held nor led.
    pub fn why(&self, name: &str) -> Option<Why> {
        let id = self.names.get(name).copied();
        let lock = id.map(|id| self.view_lock(&self.locks[id]));
        let election = self.election(name);
        if lock.is_none() && election.is_none() {
            return None;
        }
        let stands = self.elections.get(name).map(|election| election.candidates.iter());
        let stands = stands.into_iter().flatten().map(|&(_, arrival)| arrival);
        let cycle = id.and_then(|id| self.deadlock_at(id)).or_else(|| self.deadlock_of(stands));
        let mut agents: Vec<Agent> = Vec::new();
        if let Some(lock) = &lock {
            agents.extend(lock.waiters.iter().map(|waiter| waiter.who.agent));
            agents.extend(lock.holders.iter().map(|holder| holder.who.agent));
        }
        if let Some(election) = &election {
            agents.extend(election.candidates.iter().map(|candidate| candidate.who.agent));
            agents.extend(election.who.iter().map(|(who, _)| who.agent));
        }
        let mut seen: std::collections::BTreeSet<Agent> = agents.iter().copied().collect();
        let mut waits = Vec::new();
        while let Some(agent) = agents.pop() {
            let Some(arrival) = self.waiting.get(&agent) else { continue };
            for edge in self.edges(&self.waits[arrival]) {
                if seen.insert(edge.on) {
                    agents.push(edge.on);
                }
                waits.push(edge);
            }
        }
        waits.sort_unstable();
        let forced = self.forced.iter().filter(|forced| &*forced.name == name).cloned().collect();
        Some(Why { lock, election, waits, cycle, forced })
    }

    /// Who waits for whom, for a lock or to lead: each for those who hold or lead, and for the one just before
    /// it. Whom that one waits for too is not said again. Mere stand-bys are left out.
    pub fn graph(&self) -> Vec<Edge> {
        self.waits.values().flat_map(|wait| self.edges(wait)).collect()
    }

    /// Who waits and can never have what it waits for, unless another gives up. If deadlocks are prevented
    /// or broken, there is none but among candidates, each for what another leads, and who waits for those.
    pub fn deadlocked(&self) -> Vec<Agent> {
        self.all_stuck().iter().map(|arrival| self.waits[arrival].agent).collect()
    }

    /// What was taken by force lately, the last first.
    pub fn forced(&self) -> impl Iterator<Item = &Forced> {
        self.forced.iter().rev()
    }

    /// An agent with the names of its session, if that lives.
    pub fn who(&self, agent: Agent) -> Option<Who> {
        self.sessions.contains_key(&agent.session).then(|| self.known_as(agent))
    }

    /// The digest of a session's key and the name of the token that opened it, if it lives.
    pub fn key(&self, id: SessionId) -> Option<(&KeyDigest, &Name)> {
        self.sessions.get(&id).map(|session| (&session.key, &session.opened_by))
    }

    /// The number that the next request of a session without one is allotted, if the session lives.
    pub fn next_allotted(&self, id: SessionId) -> Option<RequestId> {
        self.sessions.get(&id).map(|session| session.next_allotted)
    }

    /// How many there are: sessions, locks, holds, waiting requests, elections.
    pub fn counts(&self) -> Counts {
        Counts {
            sessions: self.sessions.len(),
            locks: self.locks.len(),
            holds: self.holds.len(),
            waits: self.waits.len(),
            elections: self.elections.len(),
        }
    }

    /// The tables of which nine tenths are in use, each as a line for operators.
    pub fn nearly_full(&self) -> Vec<String> {
        let limits = &self.config.limits;
        let tables = [
            (self.sessions.len(), limits.sessions, Scarce::Sessions),
            (self.names.len() + self.elections.len(), limits.names, Scarce::Names),
        ];
        let full = |&(count, most, _): &(usize, usize, Scarce)| count >= most - most / 10;
        let tables = tables.into_iter().filter(full);
        tables
            .map(|(count, most, what)| format!("there are {count} of at most {most} {what}"))
            .collect()
    }

    fn edges(&self, wait: &Wait) -> Vec<Edge> {
        let mut edges = Vec::new();
        for &part in wait.goal.parts() {
            let name = &self.locks[part.lock].name;
            let edge = |on, holds| Edge {
                waiter: wait.agent,
                lock: name.clone(),
                election: false,
                on,
                holds,
            };
            let before = self.ahead(wait, part).next();
            let as_before = before.is_some_and(|before| {
                let mut parts = before.goal.parts().iter();
                let same = parts.find(|other| other.lock == part.lock).expect("it waits here");
                self.locks[part.lock].is_blocked_by_holders(same.mode)
            });
            if !as_before {
                edges.extend(self.obstacles(wait, part).map(|agent| edge(agent, true)));
            }
            edges.extend(before.map(|before| edge(before.agent, false)));
        }
        if let Goal::Lead(candidacy) = &wait.goal
            && candidacy.blocks
        {
            let rival = self.rivals(wait).next().map(|rival| (rival.agent, false));
            let leader = self.elections[&candidacy.election].leader.as_ref();
            let leader = leader.map(|leader| (leader.known_agent(), true));
            edges.extend(rival.or(leader).map(|(on, holds)| Edge {
                waiter: wait.agent,
                lock: candidacy.election.clone(),
                election: true,
                on,
                holds,
            }));
        }
        edges
    }

    fn view_lock(&self, lock: &Lock) -> LockView {
        let holders = lock.holders.iter().map(|hold| {
            let Hold { agent, mode, depth, token, since, .. } = self.holds[hold];
            HolderView { who: self.known_as(agent), mode, depth, token, since }
        });
        let waiters = lock.waiting().map(|place| {
            let wait = &self.waits[&place.arrival];
            let mut parts = wait.goal.parts().iter();
            let part = parts.find(|part| self.locks[part.lock].name == lock.name);
            self.view_wait(wait, part.expect("it waits here").mode)
        });
        LockView {
            name: lock.name.clone(),
            kind: lock.kind,
            epoch: lock.epoch,
            holders: holders.collect(),
            waiters: waiters.collect(),
        }
    }

    fn view_wait(&self, wait: &Wait, mode: Mode) -> WaiterView {
        let wants = match &wait.goal {
            Goal::Locks(_) => Wants::Hold(mode),
            Goal::Upgrade(..) => Wants::Upgrade,
            Goal::Lead(candidacy) => Wants::Lead { rank: candidacy.rank },
        };
        let locks = wait.goal.parts().iter().map(|part| self.locks[part.lock].name.clone());
        WaiterView {
            who: self.known_as(wait.agent),
            request: wait.request,
            wants,
            since: wait.since,
            left: wait.until.map(|until| until.since(self.now)),
            locks: locks.collect(),
        }
    }

    fn view_session(&self, id: SessionId, session: &Session) -> SessionView {
        let holds = self.holds_by_name(id, |_| true).into_iter().map(|hold| {
            let Hold { lock, token, .. } = self.holds[hold];
            (self.locks[lock].name.clone(), token)
        });
        let waits = session.waits.iter().flat_map(|(_, arrival)| self.waits[arrival].goal.parts());
        let mut waits: Vec<Name> = waits.map(|part| self.locks[part.lock].name.clone()).collect();
        waits.sort_unstable();
        let mut leads = session.leads.clone();
        leads.sort_unstable();
        SessionView {
            session: id,
            name: session.name.clone(),
            host: session.host.clone(),
            ttl: session.ttl,
            left: session.deadline.since(self.now),
            opened: session.opened,
            priority: session.priority,
            opened_by: session.opened_by.clone(),
            address: session.address.clone(),
            holds: holds.collect(),
            waits,
            leads,
        }
    }

    fn view_election(&self, name: &Name, election: &Election) -> ElectionView {
        let leader = election.leader.as_ref();
        let who = leader.map(|leader| (self.known_as(leader.known_agent()), leader.since));
        let left = |until: Time| until.since(self.now);
        let tenure = match leader.map(|leader| (leader.deposed, leader.yield_by)) {
            Some((Some((cause, until)), _)) => Tenure::Deposed { cause, left: left(until) },
            Some((None, Some(by))) => Tenure::Yields { left: left(by) },
            _ => Tenure::Unquestioned,
        };
        let candidates = election.candidates.iter();
        let candidates =
            candidates.map(|(_, arrival)| self.view_wait(&self.waits[arrival], Mode::Exclusive));
        ElectionView {
            name: name.clone(),
            leader: leader.map(|leader| Leadership {
                session: leader.session,
                term: leader.term,
                value: leader.value.clone(),
            }),
            who,
            tenure,
            candidates: candidates.collect(),
        }
    }

    fn known_as(&self, agent: Agent) -> Who {
        let session = &self.sessions[&agent.session];
        Who { agent, name: session.name.clone(), host: session.host.clone() }
    }
}

/// How many there are of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Sessions.
    pub sessions: usize,
    /// Locks that are held or waited for.
    pub locks: usize,
    /// Holds: a shared lock has several.
    pub holds: usize,
    /// Requests that wait.
    pub waits: usize,
    /// Elections.
    pub elections: usize,
}
