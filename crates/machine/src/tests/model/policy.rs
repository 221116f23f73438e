//! What the model says about waiting: policies, deadlocks, victims.

use std::collections::BTreeSet;

use super::*;

impl Model {
    /// Where deadlock policies come in.
    pub(super) fn wait(
        &mut self,
        agent: Agent,
        request: RequestId,
        patience: Patience,
        goal: AGoal,
    ) -> Result<Reply, Error> {
        let until = match patience {
            Patience::For(span) => Some(self.now + span),
            _ => None,
        };
        let arrival = self.arrivals + 1;
        let upgraded = match &goal {
            AGoal::Upgrade(lock, _) => Some(lock.clone()),
            _ => None,
        };
        let leads = matches!(goal, AGoal::Lead(_));
        let detects = matches!(self.config.deadlocks, Policy::Detect(_));
        let wait = AWait { arrival, agent, request, via: self.via, until, goal };
        self.waits.push(wait.clone());
        if !leads && let Some(error) = self.objection(&wait, upgraded.as_ref()) {
            self.waits.pop();
            return Err(error);
        }
        self.arrivals = arrival;
        self.asking = Some(arrival);
        if detects || leads {
            self.break_cycles(arrival);
        } else if self.config.deadlocks == Policy::WoundWait {
            for (_, other) in self.in_the_way(&wait) {
                if agent < other {
                    self.wound(other, agent);
                }
            }
        }
        if let Some(lock) = upgraded
            && self.waits.iter().any(|it| it.arrival == arrival)
        {
            self.overtaken(&lock, agent);
        }
        if !detects && !leads {
            self.break_cycles(arrival);
        }
        self.settle();
        self.asking = None;
        self.answer.take().unwrap_or(Ok(Reply::Waiting))
    }

    /// Refuses waits for locks until a wait is in no cycle with any.
    pub(super) fn break_cycles(&mut self, arrival: u64) {
        let choice = match self.config.deadlocks {
            Policy::None => return,
            Policy::Detect(choice) => choice,
            Policy::WaitDie | Policy::WoundWait => Victim::Youngest,
        };
        while let Some(cycle) = self.cycle(arrival) {
            let victim = self.victim(&cycle, choice);
            self.events.push(Event::Deadlock { victim, cycle: cycle.clone() });
            let of_victim = self.waits.iter().find(|it| it.agent == victim && it.blocks());
            let of_victim = of_victim.expect("a victim waits").arrival;
            self.end_wait(of_victim, Err(Error::Deadlock { cycle }));
            self.settle();
        }
    }

    /// Who is in the way of a wait: for each of its locks, who holds it so that it matters, by
    /// token, and who is ahead, from the nearest.
    pub(super) fn in_the_way(&self, wait: &AWait) -> Vec<(Name, Agent)> {
        let mut found = Vec::new();
        for want in self.wants(wait) {
            let own = match &wait.goal {
                AGoal::Upgrade(_, token) => Some(*token),
                _ => None,
            };
            let mut holders: Vec<&AHold> = self.holders(&want.lock).collect();
            holders.sort_by_key(|it| it.token);
            for hold in holders {
                let matters = want.mode != Mode::Shared || hold.mode == Mode::Exclusive;
                if matters && Some(hold.token) != own {
                    found.push((want.lock.clone(), hold.agent));
                }
            }
            for other in self.queue(&want.lock).into_iter().rev() {
                if order(other) < order(wait) {
                    found.push((want.lock.clone(), other.agent));
                }
            }
        }
        found
    }

    pub(super) fn objection(&self, wait: &AWait, upgraded: Option<&Name>) -> Option<Error> {
        let waiter = wait.agent;
        if matches!(self.config.deadlocks, Policy::None | Policy::Detect(_)) {
            return None;
        }
        for want in self.wants(wait) {
            if let Mode::Permits { take, of } = want.mode {
                let mine = self.holders(&want.lock).filter(|it| it.agent == waiter);
                if mine.map(|it| permits(it.mode)).sum::<u32>() + take > of {
                    return Some(Error::Deadlock {
                        cycle: vec![Link { waiter, lock: want.lock, election: false }],
                    });
                }
            }
        }
        if self.config.deadlocks == Policy::WaitDie {
            let elder = self.in_the_way(wait).into_iter().find(|(_, other)| *other < waiter)?;
            return Some(Error::Died { lock: elder.0, elder: elder.1 });
        }
        if let Some((_, by)) = self.wounded.iter().find(|(wounded, _)| *wounded == waiter) {
            return Some(Error::Wounded { by: *by });
        }
        let queue = self.queue(upgraded?);
        let by = queue.into_iter().find(|it| it.agent < waiter)?.agent;
        Some(Error::Wounded { by })
    }

    pub(super) fn overtaken(&mut self, lock: &Name, agent: Agent) {
        let queue: Vec<AWait> = self.queue(lock).into_iter().cloned().collect();
        for wait in queue.into_iter().filter(|it| it.agent != agent) {
            match self.config.deadlocks {
                Policy::WaitDie if wait.agent > agent => {
                    let died = Error::Died { lock: lock.clone(), elder: agent };
                    self.end_wait(wait.arrival, Err(died));
                }
                Policy::WoundWait if wait.agent < agent => {
                    self.wound(agent, wait.agent);
                    return;
                }
                _ => {}
            }
        }
    }

    pub(super) fn wound(&mut self, agent: Agent, by: Agent) {
        let holds = self.holds.iter().any(|it| it.agent == agent);
        if holds && !self.wounded.iter().any(|(wounded, _)| *wounded == agent) {
            self.wounded.push((agent, by));
            self.events.push(Event::Wounded { agent, by });
        }
        let mut waits = self.waits.iter();
        let wait = waits.find(|it| it.agent == agent && !matches!(it.goal, AGoal::Lead(_)));
        if let Some(arrival) = wait.map(|it| it.arrival) {
            self.end_wait(arrival, Err(Error::Wounded { by }));
        }
    }

    /// The agents that can never go on, found by letting all others go on: each that does not wait releases
    /// everything and resigns, each request that can be granted is, and so on until nothing moves.
    pub(crate) fn deadlocked(&self) -> Vec<Agent> {
        let mut world = self.clone();
        // Who is deposed or is going to be leads no more, whatever it waits for.
        world.leaders.retain(|it| it.deposed.is_none() && !self.is_preempted(it));
        world.waits.retain(AWait::blocks);
        loop {
            let waiting: Vec<Agent> = world.waits.iter().map(|it| it.agent).collect();
            world.holds.retain(|it| waiting.contains(&it.agent));
            world.leaders.retain(|it| {
                let agent = it.owner.map(|owner| Agent { session: it.session, owner });
                agent.is_some_and(|agent| waiting.contains(&agent))
            });
            let leads_next =
                |it: &AWait| matches!(it.goal, AGoal::Lead(_)) && world.before(it).is_empty();
            let ready = |it: &AWait| world.is_ready(it) || leads_next(it);
            let Some(at) = world.waits.iter().position(ready) else {
                return waiting;
            };
            world.waits.remove(at);
        }
    }

    /// The shortest way from a wait that can never end back to it, with a wait for a lock on it; of
    /// several, the one with the most senior members first.
    pub(super) fn cycle(&self, arrival: u64) -> Option<Vec<Link>> {
        let stuck = self.deadlocked();
        let wait = self.waits.iter().find(|it| it.arrival == arrival && it.blocks())?;
        if !stuck.contains(&wait.agent) {
            return None;
        }
        let mut search = Search { model: self, to: wait.agent, stuck, hopeless: BTreeSet::new() };
        (1..=2 * search.stuck.len()).find_map(|length| search.path(wait.agent, length, false))
    }

    pub(super) fn victim(&self, cycle: &[Link], choice: Victim) -> Agent {
        let locks = cycle.iter().filter(|link| !link.election);
        let mut agents: Vec<Agent> = locks.map(|link| link.waiter).collect();
        agents.sort_by_key(|&agent| std::cmp::Reverse(agent));
        let holds = |agent| self.holds.iter().filter(|it| it.agent == agent).count();
        let priority = |agent: Agent| {
            self.sessions.iter().find(|it| it.id == agent.session).expect("a session").priority
        };
        match choice {
            Victim::Youngest => agents[0],
            Victim::FewestLocks => *agents.iter().min_by_key(|&&it| holds(it)).expect("some"),
            Victim::LowestPriority => *agents.iter().min_by_key(|&&it| priority(it)).expect("some"),
        }
    }
}

/// The search for a cycle.
struct Search<'a> {
    model: &'a Model,
    to: Agent,
    stuck: Vec<Agent>,
    /// From where, in so many steps, and after a wait for a lock or not, there is no way.
    hopeless: BTreeSet<(Agent, usize, bool)>,
}

impl Search<'_> {
    fn path(&mut self, from: Agent, length: usize, by_lock: bool) -> Option<Vec<Link>> {
        if self.hopeless.contains(&(from, length, by_lock)) {
            return None;
        }
        let mut waits = self.model.waits.iter();
        let wait = waits.find(|it| it.agent == from && it.blocks())?;
        let mut next: Vec<(Agent, Name, bool)> = Vec::new();
        let locks = self.model.in_the_way(wait).into_iter();
        let locks = locks.map(|(lock, agent)| (agent, lock, false));
        let rivals = self.model.before(wait).into_iter();
        let elections = rivals.filter_map(|agent| match &wait.goal {
            AGoal::Lead(campaign) => Some((agent, campaign.election.clone(), true)),
            _ => None,
        });
        for (agent, name, election) in locks.chain(elections) {
            if self.stuck.contains(&agent) && !next.iter().any(|(other, ..)| *other == agent) {
                next.push((agent, name, election));
            }
        }
        if next.len() > 1 {
            next.retain(|(agent, ..)| *agent != from);
        }
        next.sort();
        for (agent, lock, election) in next {
            let link = Link { waiter: from, lock, election };
            let by_lock = by_lock || !election;
            if length == 1 {
                if agent == self.to && by_lock {
                    return Some(vec![link]);
                }
            } else if agent != self.to
                && let Some(mut rest) = self.path(agent, length - 1, by_lock)
            {
                rest.insert(0, link);
                return Some(rest);
            }
        }
        self.hopeless.insert((from, length, by_lock));
        None
    }
}

impl AWait {
    /// Whether its thread of control does nothing else meanwhile.
    pub(super) fn blocks(&self) -> bool {
        !matches!(&self.goal, AGoal::Lead(campaign) if campaign.owner.is_none())
    }
}
