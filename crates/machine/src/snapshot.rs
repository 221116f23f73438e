//! The machine as plain data, and back.
//!
//! A snapshot names locks and sessions and says nothing of how they lie in memory. A machine that was
//! restored answers every command as the one that the snapshot was taken of.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::election::{Election, Leader};
use crate::ids::Arrival;
use crate::lock::{By, Hold, Kind, Lock, LockId};
use crate::machine::{Due, Machine};
use crate::session::{Replies, Session};
use crate::view::Forced;
use crate::waits::{Candidacy, Goal, Part, Wait};
use crate::{Agent, Config, KeyDigest, Mode, Name, RequestId, SessionId, Time, Token, Via};

/// The whole state of a machine, for a file or for a new member of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The format.
    pub(crate) version: u32,
    pub(crate) config: Config,
    pub(crate) now: Time,
    pub(crate) last_token: Token,
    pub(crate) last_session: SessionId,
    pub(crate) last_arrival: Arrival,
    pub(crate) sessions: Vec<SessionRecord>,
    /// In the order of their names; the rest refers to them by their place here.
    pub(crate) locks: Vec<LockRecord>,
    pub(crate) waits: Vec<WaitRecord>,
    pub(crate) wounded: Vec<(Agent, Agent)>,
    pub(crate) elections: Vec<(Name, Option<Leader>)>,
    pub(crate) forced: Vec<Forced>,
}

/// The format that this version writes and reads.
const VERSION: u32 = 2;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionRecord {
    pub(crate) id: SessionId,
    pub(crate) name: Name,
    pub(crate) host: Name,
    pub(crate) ttl: Duration,
    pub(crate) priority: i32,
    pub(crate) key: KeyDigest,
    pub(crate) opened_by: Name,
    pub(crate) address: Name,
    pub(crate) opened: Time,
    pub(crate) deadline: Time,
    pub(crate) barred: Vec<(Name, Time)>,
    pub(crate) replies: Replies,
    pub(crate) allotted: Replies,
    pub(crate) next_allotted: RequestId,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LockRecord {
    pub(crate) name: Name,
    pub(crate) kind: Kind,
    pub(crate) epoch: Token,
    pub(crate) holds: Vec<HoldRecord>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HoldRecord {
    pub(crate) agent: Agent,
    pub(crate) mode: Mode,
    pub(crate) depth: u32,
    pub(crate) token: Token,
    pub(crate) since: Time,
    pub(crate) request: RequestId,
    pub(crate) by: By,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WaitRecord {
    pub(crate) arrival: Arrival,
    pub(crate) agent: Agent,
    pub(crate) request: RequestId,
    pub(crate) via: Via,
    pub(crate) since: Time,
    pub(crate) until: Option<Time>,
    pub(crate) goal: GoalRecord,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum GoalRecord {
    Locks(Vec<(u32, Mode)>),
    Upgrade { lock: u32, token: Token },
    Lead(Candidacy),
}

/// Why a snapshot cannot be restored.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadSnapshot {
    /// It was written by another version.
    #[error("the snapshot has format {found}, and this version reads format {VERSION}")]
    Version {
        /// Its format.
        found: u32,
    },
    /// It refers to something that is not in it.
    #[error("the snapshot contradicts itself: {0}")]
    Contradiction(&'static str),
}

impl Snapshot {
    /// The same without any session and what sessions hold, wait for and lead, and with counters that go on after `start`,
    /// which has to be above whatever may have been given out since: then a machine that is restored from a copy
    /// grants no token twice. A counter that is beyond `start` already goes on as far above where it was.
    #[must_use]
    pub fn renewed(self, start: u64) -> Self {
        let skip = |last: u64| if last < start { start } else { last.saturating_add(start) };
        Self {
            last_token: Token(skip(self.last_token.0)),
            last_session: SessionId(skip(self.last_session.0)),
            ..Machine { now: self.now, forced: self.forced.into(), ..Machine::new(self.config) }
                .snapshot()
        }
    }

    /// The longest time-to-live of its sessions, if there are any.
    pub fn longest_ttl(&self) -> Option<Duration> {
        self.sessions.iter().map(|session| session.ttl).max()
    }
}

impl Machine {
    /// The whole state, as plain data.
    pub fn snapshot(&self) -> Snapshot {
        let sessions = self.sessions.iter().map(|(&id, session)| SessionRecord {
            id,
            name: session.name.clone(),
            host: session.host.clone(),
            ttl: session.ttl,
            priority: session.priority,
            key: session.key,
            opened_by: session.opened_by.clone(),
            address: session.address.clone(),
            opened: session.opened,
            deadline: session.deadline,
            barred: session.barred.clone(),
            replies: session.replies.clone(),
            allotted: session.allotted.clone(),
            next_allotted: session.next_allotted,
        });
        let places: BTreeMap<LockId, u32> = (0..).zip(self.names.values()).map(swap).collect();
        let locks = self.names.values().map(|&lock| self.record_lock(&self.locks[lock]));
        let waits = self.waits.values().map(|wait| self.record_wait(wait, &places));
        let elections = self.elections.iter();
        Snapshot {
            version: VERSION,
            config: self.config.clone(),
            now: self.now,
            last_token: self.last_token,
            last_session: self.last_session,
            last_arrival: self.last_arrival,
            sessions: sessions.collect(),
            locks: locks.collect(),
            waits: waits.collect(),
            wounded: self.wounded.iter().map(|(&agent, &by)| (agent, by)).collect(),
            elections: elections.map(|(name, it)| (name.clone(), it.leader.clone())).collect(),
            forced: self.forced.iter().cloned().collect(),
        }
    }

    fn record_lock(&self, lock: &Lock) -> LockRecord {
        let holds = lock.holders.iter().map(|hold| {
            let Hold { agent, mode, depth, token, since, request, by, .. } = self.holds[hold];
            HoldRecord { agent, mode, depth, token, since, request, by }
        });
        let holds = holds.collect();
        LockRecord { name: lock.name.clone(), kind: lock.kind, epoch: lock.epoch, holds }
    }

    fn record_wait(&self, wait: &Wait, places: &BTreeMap<LockId, u32>) -> WaitRecord {
        let goal = match &wait.goal {
            Goal::Locks(parts) => {
                let parts = parts.iter().map(|part| (places[&part.lock], part.mode));
                GoalRecord::Locks(parts.collect())
            }
            Goal::Upgrade(hold, [part]) => {
                GoalRecord::Upgrade { lock: places[&part.lock], token: self.holds[*hold].token }
            }
            Goal::Lead(candidacy) => GoalRecord::Lead((**candidacy).clone()),
        };
        let Wait { arrival, agent, request, via, since, until, .. } = *wait;
        WaitRecord { arrival, agent, request, via, since, until, goal }
    }

    /// The machine that a snapshot was taken of.
    pub fn restore(snapshot: Snapshot) -> Result<Self, BadSnapshot> {
        if snapshot.version != VERSION {
            return Err(BadSnapshot::Version { found: snapshot.version });
        }
        let mut machine = Self::new(snapshot.config);
        machine.now = snapshot.now;
        machine.last_token = snapshot.last_token;
        machine.last_session = snapshot.last_session;
        machine.last_arrival = snapshot.last_arrival;
        for record in snapshot.sessions {
            machine.admit(record.id, record.restore());
        }
        let mut locks = Vec::with_capacity(snapshot.locks.len());
        for record in snapshot.locks {
            locks.push(machine.restore_lock(record)?);
        }
        for (name, leader) in snapshot.elections {
            machine.restore_election(name, leader)?;
        }
        for record in snapshot.waits {
            machine.restore_wait(record, &locks)?;
        }
        machine.wounded = snapshot.wounded.into_iter().collect();
        machine.forced = snapshot.forced.into();
        Ok(machine)
    }

    fn restore_lock(&mut self, record: LockRecord) -> Result<LockId, BadSnapshot> {
        let lock = self.locks.insert(Lock::new(record.name.clone(), record.kind));
        self.names.insert(record.name, lock);
        for HoldRecord { agent, mode, depth, token, since, request, by } in record.holds {
            let session = self.sessions.get_mut(&agent.session);
            let session = session.ok_or(BadSnapshot::Contradiction("a holder has no session"))?;
            let listed = u32::try_from(session.holds.len())
                .map_err(|_| BadSnapshot::Contradiction("a session holds too much"))?;
            if !self.locks[lock].admits(mode) {
                return Err(BadSnapshot::Contradiction("a lock has holders that conflict"));
            }
            let hold = Hold { agent, lock, mode, depth, token, since, request, by, listed };
            let hold = self.holds.insert(hold);
            session.holds.push(hold);
            self.locks[lock].add(hold, mode, token);
        }
        self.locks[lock].epoch = record.epoch;
        Ok(lock)
    }

    fn restore_election(&mut self, name: Name, leader: Option<Leader>) -> Result<(), BadSnapshot> {
        if let Some(leader) = &leader {
            let session = self.sessions.get_mut(&leader.session);
            let session = session.ok_or(BadSnapshot::Contradiction("a leader has no session"))?;
            session.leads.push(name.clone());
            if let Some(by) = leader.time_limit() {
                self.due.insert((by, Due::Yield(name.clone())));
            }
        }
        self.elections.insert(name, Election { leader, ..Election::default() });
        Ok(())
    }

    fn restore_wait(&mut self, record: WaitRecord, locks: &[LockId]) -> Result<(), BadSnapshot> {
        const NO_LOCK: BadSnapshot = BadSnapshot::Contradiction("a request waits for no lock");
        let WaitRecord { arrival, agent, request, via, since, until, goal } = record;
        let lock = |place: u32| locks.get(place as usize).copied().ok_or(NO_LOCK);
        let goal = match goal {
            GoalRecord::Locks(parts) => {
                let part = |(place, mode)| Ok(Part { lock: lock(place)?, mode });
                Goal::Locks(parts.into_iter().map(part).collect::<Result<_, _>>()?)
            }
            GoalRecord::Upgrade { lock: place, token } => {
                let lock = lock(place)?;
                let hold = self.locks[lock].holders.get(token).ok_or(NO_LOCK)?;
                Goal::Upgrade(hold, [Part { lock, mode: Mode::Exclusive }])
            }
            GoalRecord::Lead(candidacy) => {
                if !self.elections.contains_key(&candidacy.election) {
                    let why = "a candidate stands in no election";
                    return Err(BadSnapshot::Contradiction(why));
                }
                Goal::Lead(Box::new(candidacy))
            }
        };
        if !self.sessions.contains_key(&agent.session) {
            return Err(BadSnapshot::Contradiction("a request that waits has no session"));
        }
        self.enlist(Wait { arrival, agent, request, via, since, until, goal });
        Ok(())
    }
}

impl SessionRecord {
    fn restore(self) -> Session {
        let Self {
            id: _,
            name,
            host,
            ttl,
            priority,
            key,
            opened_by,
            address,
            opened,
            deadline,
            barred,
            replies,
            allotted,
            next_allotted,
        } = self;
        Session {
            name,
            host,
            ttl,
            priority,
            key,
            opened_by,
            address,
            opened,
            deadline,
            holds: Vec::new(),
            waits: Vec::new(),
            pending: 0,
            leads: Vec::new(),
            barred,
            replies,
            allotted,
            next_allotted,
        }
    }
}

fn swap<A, B: Copy>((a, b): (A, &B)) -> (B, A) {
    (*b, a)
}
