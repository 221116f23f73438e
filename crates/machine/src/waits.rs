//! The waits, and the policies that keep them from lasting for ever.

use serde::{Deserialize, Serialize};

use crate::ids::Arrival;
use crate::lock::{Class, HoldId, Lock, LockId, Place};
use crate::machine::{Due, Machine};
use crate::mutation::Mutation;
use crate::{Agent, Error, Event, Link, Mode, Name, Patience, Policy, Reply, RequestId, Time, Via};

/// A request that waits.
#[derive(Clone, Debug)]
pub(crate) struct Wait {
    pub(crate) arrival: Arrival,
    pub(crate) agent: Agent,
    pub(crate) request: RequestId,
    pub(crate) via: Via,
    pub(crate) since: Time,
    /// When it has waited long enough.
    pub(crate) until: Option<Time>,
    pub(crate) goal: Goal,
}

/// What a request waits for.
#[derive(Clone, Debug)]
pub(crate) enum Goal {
    /// All of these at once. It holds none of them until it holds all.
    Locks(Vec<Part>),
    /// To hold exclusively what it shares.
    Upgrade(HoldId, [Part; 1]),
    /// To lead.
    Lead(Box<Candidacy>),
}

/// One of the locks of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) lock: LockId,
    pub(crate) mode: Mode,
}

/// What a candidate of an election offers and wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Candidacy {
    pub(crate) election: Name,
    pub(crate) rank: i64,
    pub(crate) preempt: bool,
    pub(crate) grace: std::time::Duration,
    pub(crate) value: Vec<u8>,
    /// Whether the thread of control does nothing else until it leads.
    pub(crate) blocks: bool,
}

impl Goal {
    /// The locks that it is about.
    pub(crate) fn parts(&self) -> &[Part] {
        match self {
            Self::Locks(parts) => parts,
            Self::Upgrade(_, part) => part,
            Self::Lead(_) => &[],
        }
    }
}

impl Wait {
    /// Whether its thread of control does nothing else meanwhile.
    pub(crate) fn blocks(&self) -> bool {
        match &self.goal {
            Goal::Locks(_) | Goal::Upgrade(..) => true,
            Goal::Lead(candidacy) => candidacy.blocks,
        }
    }

    pub(crate) fn place(&self) -> Place {
        let class = match self.goal {
            Goal::Upgrade(..) => Class::Upgrade,
            Goal::Locks(_) | Goal::Lead(_) => Class::Ordinary,
        };
        Place { class, arrival: self.arrival }
    }
}

impl Machine {
    /// Puts a request where it waits, after what the policy has to say. If it is answered at once
    /// all the same, for better or worse, that is the reply.
    pub(crate) fn wait(
        &mut self,
        agent: Agent,
        request: RequestId,
        patience: Patience,
        goal: Goal,
    ) -> Result<Reply, Error> {
        let until = match patience {
            Patience::For(span) => Some(self.now + span),
            Patience::Try | Patience::Forever => None,
        };
        let arrival = Arrival(self.last_arrival.0 + 1);
        let via = self.turn.via;
        let wait = Wait { arrival, agent, request, via, since: self.now, until, goal };
        if let Some(error) = self.objection(&wait) {
            // A lock that was made for this request is not needed.
            self.turn.touched.extend(wait.goal.parts().iter().map(|part| part.lock));
            return Err(error);
        }
        self.last_arrival = arrival;
        self.turn.asking = Some(arrival);
        self.enlist(wait);
        self.heed_policy(arrival);
        self.settle();
        self.turn.asking = None;
        self.turn.answer.take().unwrap_or(Ok(Reply::Waiting))
    }

    /// Writes a wait down wherever it belongs.
    pub(crate) fn enlist(&mut self, wait: Wait) {
        let place = wait.place();
        let parts = wait.goal.parts();
        for part in parts {
            self.locks[part.lock].enqueue(place, parts.len() > 1);
        }
        if let Goal::Lead(candidacy) = &wait.goal {
            let election = self.elections.get_mut(&candidacy.election);
            election.expect("who stands does so in an election").enter(candidacy, wait.arrival);
        }
        if wait.blocks() {
            self.waiting.insert(wait.agent, wait.arrival);
        }
        let session = self.sessions.get_mut(&wait.agent.session).expect("who waits has a session");
        session.add_wait(wait.request, wait.arrival);
        session.pending += parts.len();
        if let Some(until) = wait.until {
            self.due.insert((until, Due::Wait(wait.arrival)));
        }
        self.waits.insert(wait.arrival, wait);
    }

    /// Removes a wait from everything. A request behind it may be next.
    pub(crate) fn withdraw(&mut self, arrival: Arrival) -> Wait {
        let wait = self.waits.remove(&arrival).expect("it waits");
        let place = wait.place();
        let parts = wait.goal.parts();
        for part in parts {
            self.locks[part.lock].dequeue(place, parts.len() > 1);
            if !self.is_mutated(Mutation::LostWakeUp) {
                self.turn.touched.push(part.lock);
            }
        }
        if let Goal::Lead(candidacy) = &wait.goal {
            let election = self.elections.get_mut(&candidacy.election);
            election.expect("who stands does so in an election").leave(candidacy, arrival);
            self.turn.vacant.insert(candidacy.election.clone());
            if candidacy.preempt {
                self.turn.kept.insert(candidacy.election.clone());
            }
        }
        if wait.blocks() {
            self.waiting.remove(&wait.agent);
        }
        let session = self.sessions.get_mut(&wait.agent.session).expect("who waits has a session");
        session.remove_wait(wait.request);
        session.pending -= parts.len();
        if let Some(until) = wait.until {
            self.due.remove(&(until, Due::Wait(arrival)));
        }
        wait
    }

    /// Who holds a lock and can be in the way of a wait for it, in the order of their tokens. A
    /// holder that waits for an upgrade is not in its own way; one that wants more permits may be.
    pub(crate) fn obstacles(&self, wait: &Wait, part: Part) -> impl Iterator<Item = Agent> {
        let lock = &self.locks[part.lock];
        let own = match wait.goal {
            Goal::Upgrade(hold, _) => Some(hold),
            Goal::Locks(_) | Goal::Lead(_) => None,
        };
        let in_the_way = lock.is_blocked_by_holders(part.mode)
            && (lock.exclusive
                || lock.kind != crate::Kind::ReadWrite
                || !self.is_mutated(Mutation::SharersIgnored));
        let holders = in_the_way.then(|| lock.holders.iter()).into_iter().flatten();
        holders.filter(move |&hold| Some(hold) != own).map(|hold| self.holds[hold].agent)
    }

    /// Who is ahead of a wait at a lock, the nearest first.
    pub(crate) fn ahead(&self, wait: &Wait, part: Part) -> impl Iterator<Item = &Wait> {
        let places = self.locks[part.lock].ahead(wait.place());
        let seen = !self.is_mutated(Mutation::QueuesIgnored);
        places.filter(move |_| seen).map(|place| &self.waits[&place.arrival])
    }

    /// Why the policy does not let it wait.
    fn objection(&self, wait: &Wait) -> Option<Error> {
        if let Goal::Lead(_) = wait.goal {
            return None;
        }
        match self.config.deadlocks {
            Policy::None | Policy::Detect(_) => None,
            Policy::WaitDie => self.waits_for_itself(wait).or_else(|| self.elder(wait)),
            Policy::WoundWait => {
                if let Some(error) = self.waits_for_itself(wait) {
                    return Some(error);
                }
                if let Some(&by) = self.wounded.get(&wait.agent)
                    && !self.is_mutated(Mutation::WoundsHeal)
                {
                    return Some(Error::Wounded { by });
                }
                // It would come before older ones, who would then wait for a younger one.
                let overtakes = match wait.goal {
                    Goal::Upgrade(_, [part]) => Some(part.lock),
                    Goal::Locks(_) | Goal::Lead(_) => None,
                }?;
                let by = self.overtaken(overtakes, wait.agent, Agent::is_older_than).next()?.agent;
                Some(Error::Wounded { by })
            }
        }
    }

    /// Under wait-die: an older one that it would have to wait for. Each waiter is older than all
    /// ahead of it, so that the nearest is the oldest.
    fn elder(&self, wait: &Wait) -> Option<Error> {
        wait.goal.parts().iter().find_map(|&part| {
            let ahead = self.ahead(wait, part).take(1).map(|wait| wait.agent);
            let mut elders = self.obstacles(wait, part).chain(ahead);
            let elder = elders.find(|other| other.is_older_than(wait.agent))?;
            Some(Error::Died { lock: self.locks[part.lock].name.clone(), elder })
        })
    }

    /// Whether it wants more permits than there are beside those it holds itself.
    fn waits_for_itself(&self, wait: &Wait) -> Option<Error> {
        let stuck = wait.goal.parts().iter().find(|part| {
            let Mode::Permits { take, of } = part.mode else { return false };
            let holds = self.locks[part.lock].holders.iter().map(|hold| &self.holds[hold]);
            let own = holds.filter(|hold| hold.agent == wait.agent).map(|hold| match hold.mode {
                Mode::Permits { take, .. } => take,
                Mode::Exclusive | Mode::Shared => 0,
            });
            own.sum::<u32>() > of - take
        })?;
        let lock = self.locks[stuck.lock].name.clone();
        Some(Error::Deadlock { cycle: vec![Link { waiter: wait.agent, lock, election: false }] })
    }

    /// Does what the policy wants done about a new wait.
    fn heed_policy(&mut self, arrival: Arrival) {
        let wait = &self.waits[&arrival];
        if let Goal::Lead(_) = wait.goal {
            return self.break_cycles(arrival);
        }
        let (agent, upgrade) = (wait.agent, wait.place().class == Class::Upgrade);
        match self.config.deadlocks {
            Policy::None => {}
            Policy::Detect(_) => self.break_cycles(arrival),
            Policy::WaitDie => {}
            Policy::WoundWait => {
                let mut younger = Vec::new();
                for &part in wait.goal.parts() {
                    let holders = self.obstacles(wait, part);
                    // Each waiter is younger than all ahead of it.
                    let ahead = self.ahead(wait, part).map(|wait| wait.agent);
                    let ahead = ahead.take_while(|&other| agent.is_older_than(other));
                    younger.extend(holders.filter(|&other| agent.is_older_than(other)));
                    younger.extend(ahead);
                }
                for other in younger {
                    self.wound(other, agent);
                }
            }
        }
        if upgrade && let Some(wait) = self.waits.get(&arrival) {
            self.look_again(wait.goal.parts()[0].lock, agent);
        }
        // Age keeps cycles of locks away, but candidates wait for their elders and for younger ones.
        if matches!(self.config.deadlocks, Policy::WaitDie | Policy::WoundWait)
            && self.waits.contains_key(&arrival)
        {
            self.break_cycles(arrival);
        }
    }

    /// An agent has overtaken waiters of this lock: evaluates the policy again for each of them.
    pub(crate) fn look_again(&mut self, lock: LockId, agent: Agent) {
        if self.is_mutated(Mutation::NoSecondLook) {
            return;
        }
        match self.config.deadlocks {
            Policy::None | Policy::Detect(_) => {}
            Policy::WaitDie => {
                let younger =
                    self.overtaken(lock, agent, |other, agent| agent.is_older_than(other));
                let younger: Vec<Arrival> = younger.map(|wait| wait.arrival).collect();
                let name = self.locks[lock].name.clone();
                for arrival in younger {
                    let wait = self.withdraw(arrival);
                    self.answer(&wait, Err(Error::Died { lock: name.clone(), elder: agent }));
                }
            }
            Policy::WoundWait => {
                let older = self.overtaken(lock, agent, Agent::is_older_than).next();
                if let Some(by) = older.map(|wait| wait.agent) {
                    self.wound(agent, by);
                }
            }
        }
    }

    /// Others who wait for a lock and stand to `agent` as said.
    fn overtaken(
        &self,
        lock: LockId,
        agent: Agent,
        which: fn(Agent, Agent) -> bool,
    ) -> impl Iterator<Item = &Wait> {
        let waits = self.locks[lock].waiting().map(|place| &self.waits[&place.arrival]);
        waits.filter(move |wait| wait.agent != agent && which(wait.agent, agent))
    }

    /// `agent` is in the way of `by`: it waits no more, and may not wait again until it holds nothing.
    fn wound(&mut self, agent: Agent, by: Agent) {
        if self.holds_anything(agent) && !self.wounded.contains_key(&agent) {
            self.wounded.insert(agent, by);
            self.turn.events.push(Event::Wounded { agent, by });
        }
        if let Some(&arrival) = self.waiting.get(&agent)
            && !matches!(self.waits[&arrival].goal, Goal::Lead(_))
            && !self.is_mutated(Mutation::WoundsHeal)
        {
            let wait = self.withdraw(arrival);
            self.answer(&wait, Err(Error::Wounded { by }));
        }
    }

    /// Whether a lock can be had at once by a newcomer.
    pub(crate) fn is_free(&self, lock: &Lock, mode: Mode) -> bool {
        lock.admits(mode) && (lock.waiters() == 0 || self.is_mutated(Mutation::Barging))
    }

    /// Whether a wait can be granted: it is the first for each of its locks, and each can be had.
    pub(crate) fn is_ready(&self, wait: &Wait) -> bool {
        let place = wait.place();
        match &wait.goal {
            Goal::Locks(parts) => parts.iter().all(|part| {
                let lock = &self.locks[part.lock];
                let first = lock.head() == Some(place)
                    || parts.len() > 1 && self.is_mutated(Mutation::HalfReady);
                first && lock.admits(part.mode)
            }),
            Goal::Upgrade(_, [part]) => {
                let lock = &self.locks[part.lock];
                lock.head() == Some(place) && lock.taken == 1
            }
            Goal::Lead(_) => false,
        }
    }
}
