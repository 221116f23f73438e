//! Invariants of the machine between commands, for tests.

use crate::KeyDigest;
use crate::lock::{Hold, Kind};
use crate::machine::{Due, Machine};
use crate::session::Origins;
use crate::waits::Goal;
use crate::{Mode, Policy};

impl Machine {
    /// What is wrong, if anything is.
    pub(crate) fn audit(&self) -> Result<(), String> {
        let turn = &self.turn;
        ensure(turn.events.is_empty() && turn.touched.is_empty(), "something is left to do")?;
        ensure(turn.asking.is_none() && turn.answer.is_none(), "an answer is left over")?;
        self.audit_locks()?;
        self.audit_sessions()?;
        self.audit_waits()?;
        self.audit_policy()
    }

    fn audit_locks(&self) -> Result<(), String> {
        ensure(self.names.len() == self.locks.len(), "a lock has no name")?;
        let mut holds = 0;
        for (name, &id) in &self.names {
            let lock = &self.locks[id];
            ensure(*name == lock.name, "a lock is found under another name")?;
            ensure(!lock.is_unused(), "a lock is kept that is neither held nor wanted")?;
            let held: Vec<&Hold> = lock.holders.iter().map(|hold| &self.holds[hold]).collect();
            holds += held.len();
            let writers = held.iter().filter(|hold| hold.mode == Mode::Exclusive).count();
            let taken: u32 = held.iter().map(|hold| crate::grants::units(hold.mode)).sum();
            ensure(writers == 0 || held.len() == 1, "a writer is not alone")?;
            ensure(lock.exclusive == (writers == 1), "exclusive is told wrongly")?;
            ensure(lock.taken == taken, "what is taken is counted wrongly")?;
            if let Kind::Permits(of) = lock.kind {
                ensure(taken <= of, "more permits are taken than there are")?;
            }
            for hold in held {
                ensure(hold.lock == id && Kind::of(hold.mode) == lock.kind, "a hold is misplaced")?;
                ensure(hold.token <= self.last_token, "a token is out of order")?;
                ensure(lock.epoch <= hold.token, "a holder is older than its epoch")?;
                let session = self.sessions.get(&hold.agent.session);
                let session = session.ok_or("a dead session holds a lock")?;
                let listed = session.holds.get(hold.listed as usize);
                let listed = listed.is_some_and(|&other| self.holds[other].token == hold.token);
                ensure(listed, "a session does not list its hold")?;
            }
        }
        ensure(holds == self.holds.len(), "a hold is at no lock")
    }

    fn audit_sessions(&self) -> Result<(), String> {
        let now = self.now;
        let holds: usize = self.sessions.values().map(|session| session.holds.len()).sum();
        ensure(holds == self.holds.len(), "a session lists what it does not hold")?;
        for (&id, session) in &self.sessions {
            ensure(session.deadline > now, "a session outlives its deadline")?;
            let due = self.due.contains(&(session.deadline, Due::Session(id)));
            ensure(due, "a session is not going to end")?;
            let parts = session.waits.iter().map(|(_, wait)| self.waits[wait].goal.parts().len());
            ensure(session.pending == parts.sum::<usize>(), "pending is counted wrongly")?;
            for name in &session.leads {
                let leader = self.elections[name].leader.as_ref();
                ensure(
                    leader.is_some_and(|leader| leader.session == id),
                    "a leader does not lead",
                )?;
            }
        }
        let keyed = self.sessions.iter().filter(|(_, session)| session.key != KeyDigest::NONE);
        let keyed: Vec<_> = keyed.map(|(&id, session)| (session.key, id)).collect();
        ensure(keyed.len() == self.keys.len(), "a key is known that is no session's")?;
        ensure(keyed.iter().all(|(key, id)| self.keys.get(key) == Some(id)), "a key is lost")?;
        let mut origins = Origins::default();
        self.sessions.values().for_each(|session| origins.add(session));
        ensure(origins == self.origins, "origins are counted wrongly")?;
        let yields = self.elections.values().filter_map(|it| it.leader.as_ref()?.time_limit());
        let limited = self.waits.values().filter(|wait| wait.until.is_some());
        let due = self.sessions.len() + limited.count() + yields.count();
        ensure(self.due.len() == due, "something is due that is not there")
    }

    fn audit_waits(&self) -> Result<(), String> {
        let queued: usize = self.names.values().map(|&id| self.locks[id].waiters()).sum();
        let parts: usize = self.waits.values().map(|wait| wait.goal.parts().len()).sum();
        ensure(queued == parts, "a queue has a request that does not wait")?;
        for (arrival, wait) in &self.waits {
            ensure(*arrival == wait.arrival && *arrival <= self.last_arrival, "an odd arrival")?;
            let session = self.sessions.get(&wait.agent.session);
            let session = session.ok_or("a dead session waits")?;
            ensure(session.wait_of(wait.request) == Some(*arrival), "a wait is not listed")?;
            ensure(wait.until.is_none_or(|until| until > self.now), "a wait takes too long")?;
            for part in wait.goal.parts() {
                let lock = &self.locks[part.lock];
                ensure(lock.waiting().any(|place| place == wait.place()), "a wait is in no queue")?;
            }
            match &wait.goal {
                Goal::Lead(candidacy) => {
                    let election = &self.elections[&candidacy.election];
                    ensure(
                        election.leader.is_some(),
                        "a candidate waits though there is no leader",
                    )?;
                    let known = self.waiting.get(&wait.agent) == Some(arrival);
                    ensure(known == candidacy.blocks, "a candidate is held up who is not")?;
                }
                Goal::Locks(_) | Goal::Upgrade(..) => {
                    ensure(self.waiting.get(&wait.agent) == Some(arrival), "a wait is unknown")?;
                    ensure(!self.is_ready(wait), "a wait could be granted and is not")?;
                }
            }
        }
        let lead = self.waits.values().filter(|wait| matches!(wait.goal, Goal::Lead(_))).count();
        let blocked = self.waits.values().filter(|wait| wait.blocks()).count();
        ensure(self.waiting.len() == blocked, "one waits who does not")?;
        let candidates: usize = self.elections.values().map(|it| it.candidates.len()).sum();
        ensure(candidates == lead, "a candidate is not there")
    }

    fn audit_policy(&self) -> Result<(), String> {
        for &agent in self.wounded.keys() {
            ensure(self.holds_anything(agent), "a wound outlives what was held")?;
            let wait = self.waiting.get(&agent).map(|arrival| &self.waits[arrival].goal);
            ensure(matches!(wait, None | Some(Goal::Lead(_))), "a wounded one waits")?;
        }
        if self.config.deadlocks != Policy::None {
            let mut waits = self.waiting.values();
            ensure(waits.all(|&arrival| self.cycle(arrival).is_none()), "a deadlock was missed")?;
            let stands = self.waits.values().any(|it| matches!(it.goal, Goal::Lead(_)));
            ensure(stands || self.all_stuck().is_empty(), "a deadlock was missed")?;
        }
        let edges = || {
            self.waits.values().flat_map(|wait| {
                wait.goal.parts().iter().flat_map(move |&part| {
                    let ahead = self.ahead(wait, part).map(|wait| wait.agent);
                    let others = self.obstacles(wait, part).chain(ahead);
                    others.filter(|&other| other != wait.agent).map(|other| (wait.agent, other))
                })
            })
        };
        match self.config.deadlocks {
            Policy::None | Policy::Detect(_) => Ok(()),
            Policy::WaitDie => {
                ensure(edges().all(|(one, other)| one < other), "a younger one waits for an older")
            }
            Policy::WoundWait => ensure(
                edges().all(|(one, other)| one > other || self.wounded.contains_key(&other)),
                "an older one waits for a younger that is not wounded",
            ),
        }
    }
}

fn ensure(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}
