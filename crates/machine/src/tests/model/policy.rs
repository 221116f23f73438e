//! What the model says about waiting: policies, deadlocks, victims.

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
        let wait = AWait { arrival, agent, request, via: self.via, until, goal };
        self.waits.push(wait.clone());
        if !leads && let Some(error) = self.objection(&wait, upgraded.as_ref()) {
            self.waits.pop();
            return Err(error);
        }
        self.arrivals = arrival;
        self.asking = Some(arrival);
        match self.config.deadlocks {
            Policy::Detect(choice) if !leads => {
                while let Some(cycle) = self.cycle(arrival) {
                    let victim = self.victim(&cycle, choice);
                    self.events.push(Event::Deadlock { victim, cycle: cycle.clone() });
                    let of_victim = self
                        .waits
                        .iter()
                        .find(|it| it.agent == victim && !matches!(it.goal, AGoal::Lead(_)));
                    let of_victim = of_victim.expect("a victim waits").arrival;
                    self.end_wait(of_victim, Err(Error::Deadlock { cycle }));
                    self.settle();
                }
            }
            Policy::WoundWait if !leads => {
                for (_, other) in self.in_the_way(&wait) {
                    if agent < other {
                        self.wound(other, agent);
                    }
                }
            }
            _ => {}
        }
        if let Some(lock) = upgraded
            && self.waits.iter().any(|it| it.arrival == arrival)
        {
            self.overtaken(&lock, agent);
        }
        self.settle();
        self.asking = None;
        self.answer.take().unwrap_or(Ok(Reply::Waiting))
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
                    return Some(Error::Deadlock { cycle: vec![Link { waiter, lock: want.lock }] });
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

    /// Who can never go on, found by letting everybody else go on: whoever does not wait releases
    /// everything, whoever can be served is, and so on until nothing moves.
    pub(crate) fn deadlocked(&self) -> Vec<Agent> {
        let mut world = self.clone();
        world.waits.retain(|it| !matches!(it.goal, AGoal::Lead(_)));
        loop {
            let waiting: Vec<Agent> = world.waits.iter().map(|it| it.agent).collect();
            world.holds.retain(|it| waiting.contains(&it.agent));
            let Some(at) = world.waits.iter().position(|it| world.is_ready(it)) else {
                return waiting;
            };
            world.waits.remove(at);
        }
    }

    /// The shortest way from a wait that can never end back to it; of several, the one with the
    /// most senior members first.
    pub(super) fn cycle(&self, arrival: u64) -> Option<Vec<Link>> {
        let stuck = self.deadlocked();
        let start = self.waits.iter().find(|it| it.arrival == arrival)?.agent;
        if !stuck.contains(&start) {
            return None;
        }
        (1..=stuck.len()).find_map(|length| self.path(start, start, length, &stuck))
    }

    pub(super) fn path(
        &self,
        from: Agent,
        to: Agent,
        length: usize,
        stuck: &[Agent],
    ) -> Option<Vec<Link>> {
        let mut waits = self.waits.iter();
        let wait = waits.find(|it| it.agent == from && !matches!(it.goal, AGoal::Lead(_)))?;
        let mut next: Vec<(Agent, Name)> = Vec::new();
        for (lock, agent) in self.in_the_way(wait) {
            if stuck.contains(&agent) && !next.iter().any(|(other, _)| *other == agent) {
                next.push((agent, lock));
            }
        }
        if next.len() > 1 {
            next.retain(|(agent, _)| *agent != from);
        }
        next.sort();
        for (agent, lock) in next {
            let link = Link { waiter: from, lock };
            if length == 1 {
                if agent == to {
                    return Some(vec![link]);
                }
            } else if agent != to
                && let Some(mut rest) = self.path(agent, to, length - 1, stuck)
            {
                rest.insert(0, link);
                return Some(rest);
            }
        }
        None
    }

    pub(super) fn victim(&self, cycle: &[Link], choice: Victim) -> Agent {
        let mut agents: Vec<Agent> = cycle.iter().map(|link| link.waiter).collect();
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
