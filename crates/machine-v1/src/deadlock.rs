//! Finding deadlocks: who waits for whom, and whether that can ever end.
//!
//! A wait can end well if everybody ahead of it in its queues can be served, and everybody who holds
//! what it wants can go on and release it; of permits, enough of those who hold them. Who does not
//! wait can go on. Whoever cannot, by these rules, is in a deadlock or waits for one.
//!
//! A new wait is the only thing that can make a deadlock, and it is then part of it: before, there was
//! none. So the search begins at the new wait, and most of the time ends at once: who holds nothing
//! is in nobody's way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::ids::Arrival;
use crate::lock::LockId;
use crate::machine::Machine;
use crate::mutation::Mutation;
use crate::waits::{Goal, Part, Wait};
use crate::{Agent, Error, Event, Link, Mode, Name, Policy, Victim};

impl Machine {
    /// Ends waits until the new one is in no deadlock.
    pub(crate) fn break_cycles(&mut self, arrival: Arrival, choice: Victim) {
        while let Some(wait) = self.waits.get(&arrival) {
            if !self.may_be_stuck(wait) {
                return;
            }
            let Some(cycle) = self.cycle(arrival) else { return };
            let agents = cycle.iter().map(|link| link.waiter);
            let victim = self.victim(agents, choice);
            let wait = self.withdraw(self.waiting[&victim]);
            self.turn.events.push(Event::Deadlock { victim, cycle: cycle.clone() });
            self.answer(&wait, Err(Error::Deadlock { cycle }));
            self.settle();
        }
    }

    fn victim(&self, agents: impl Iterator<Item = Agent>, choice: Victim) -> Agent {
        let youngest = |agent: Agent| std::cmp::Reverse(agent);
        let victim = match choice {
            Victim::Youngest => agents.max(),
            Victim::FewestLocks => {
                agents.min_by_key(|&agent| (self.holds_by(agent).count(), youngest(agent)))
            }
            Victim::LowestPriority => agents
                .min_by_key(|&agent| (self.sessions[&agent.session].priority, youngest(agent))),
        };
        victim.expect("a cycle has members")
    }

    /// Whether the locks that lie on the way of a wait lead back to who waits. If not, there is no
    /// deadlock; if so, there may be one. Looks at each lock once, however many wait for it.
    fn may_be_stuck(&self, wait: &Wait) -> bool {
        if self.sessions[&wait.agent.session].holds.is_empty() {
            return false;
        }
        let mut seen: BTreeSet<LockId> = BTreeSet::new();
        let mut open: Vec<LockId> = wait.goal.parts().iter().map(|part| part.lock).collect();
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            let lock = &self.locks[id];
            for hold in lock.holders.iter() {
                let agent = self.holds[hold].agent;
                if agent == wait.agent {
                    return true;
                }
                if let Some(arrival) = self.waiting.get(&agent) {
                    open.extend(self.waits[arrival].goal.parts().iter().map(|part| part.lock));
                }
            }
            if lock.leads_elsewhere() {
                for place in lock.waiting() {
                    let parts = self.waits[&place.arrival].goal.parts();
                    open.extend(parts.iter().map(|part| part.lock));
                }
            }
        }
        false
    }

    /// A shortest cycle through a wait that can never end well; nothing if it can.
    pub(crate) fn cycle(&self, arrival: Arrival) -> Option<Vec<Link>> {
        let stuck = self.stuck(self.reach(arrival));
        if !stuck.contains(&arrival) {
            return None;
        }
        let start = self.waits[&arrival].agent;
        // Who was reached first from whom, and because of which lock.
        let mut from: BTreeMap<Agent, (Agent, Name)> = BTreeMap::new();
        let mut open = VecDeque::from([start]);
        while let Some(agent) = open.pop_front() {
            let wait = &self.waits[&self.waiting[&agent]];
            for (next, lock) in self.needs(wait, &stuck) {
                if next == start {
                    let mut links = vec![Link { waiter: agent, lock }];
                    let mut back = agent;
                    while let Some((before, lock)) = from.get(&back) {
                        links.push(Link { waiter: *before, lock: lock.clone() });
                        back = *before;
                    }
                    links.reverse();
                    return Some(links);
                }
                if let std::collections::btree_map::Entry::Vacant(unseen) = from.entry(next) {
                    unseen.insert((agent, lock));
                    open.push_back(next);
                }
            }
        }
        None
    }

    /// A deadlock that those who wait for a lock are in, or wait for. There is none unless deadlocks are
    /// left alone.
    pub(crate) fn deadlock_at(&self, lock: LockId) -> Option<Vec<Link>> {
        if self.config.deadlocks != Policy::None {
            return None;
        }
        let stuck = self.all_stuck();
        let mut places = self.locks[lock].waiting();
        let first = places.find(|place| stuck.contains(&place.arrival))?;
        // Whoever is stuck needs somebody who is, so this comes back to where it has been.
        let mut way: Vec<Link> = Vec::new();
        let mut agent = self.waits[&first.arrival].agent;
        loop {
            if let Some(begin) = way.iter().position(|link| link.waiter == agent) {
                return Some(way.split_off(begin));
            }
            let wait = &self.waits[&self.waiting[&agent]];
            let (next, lock) = self.needs(wait, &stuck).pop_first()?;
            way.push(Link { waiter: agent, lock });
            agent = next;
        }
    }

    /// The members of `stuck` that a wait needs to go on, each with the first lock for which it does.
    fn needs(&self, wait: &Wait, stuck: &BTreeSet<Arrival>) -> BTreeMap<Agent, Name> {
        let is_stuck =
            |agent: Agent| self.waiting.get(&agent).is_some_and(|arrival| stuck.contains(arrival));
        let mut needs = BTreeMap::new();
        for &part in wait.goal.parts() {
            let ahead = self.ahead(wait, part).map(|wait| wait.agent);
            for agent in self.obstacles(wait, part).chain(ahead).filter(|&agent| is_stuck(agent)) {
                needs.entry(agent).or_insert_with(|| self.locks[part.lock].name.clone());
            }
        }
        // Who holds some of the permits that it wants more of is in its own way, but that is worth
        // telling only if nobody else is.
        if needs.len() > 1 {
            needs.remove(&wait.agent);
        }
        needs
    }

    /// A wait, and all the waits on which it depends whether it can end.
    fn reach(&self, arrival: Arrival) -> BTreeSet<Arrival> {
        let mut reached = BTreeSet::new();
        let mut open = vec![arrival];
        while let Some(arrival) = open.pop() {
            if !reached.insert(arrival) {
                continue;
            }
            let wait = &self.waits[&arrival];
            for &part in wait.goal.parts() {
                let holders = self.obstacles(wait, part);
                open.extend(holders.filter_map(|agent| self.waiting.get(&agent)));
                // The one before depends on those before it.
                open.extend(self.ahead(wait, part).take(1).map(|wait| wait.arrival));
            }
        }
        reached
    }

    /// Those of the waits that can never end well, provided that all on which they depend are among
    /// them.
    pub(crate) fn stuck(&self, mut waits: BTreeSet<Arrival>) -> BTreeSet<Arrival> {
        loop {
            let before = waits.len();
            let mut rest = waits.clone();
            for arrival in &waits {
                if self.can_go_on(&self.waits[arrival], &rest) {
                    rest.remove(arrival);
                }
            }
            waits = rest;
            if waits.len() == before {
                return waits;
            }
        }
    }

    /// Whether a wait ends well if all but `stuck` do, and they release what they hold.
    fn can_go_on(&self, wait: &Wait, stuck: &BTreeSet<Arrival>) -> bool {
        wait.goal.parts().iter().all(|&part| {
            let served =
                self.ahead(wait, part).take(1).all(|ahead| !stuck.contains(&ahead.arrival));
            served && self.can_be_had(wait, part, stuck)
        })
    }

    fn can_be_had(&self, wait: &Wait, part: Part, stuck: &BTreeSet<Arrival>) -> bool {
        let is_stuck =
            |agent: Agent| self.waiting.get(&agent).is_some_and(|arrival| stuck.contains(arrival));
        let all = !self.is_mutated(Mutation::AnyPermitNeedsAll);
        if let Mode::Permits { take, of } = part.mode
            && all
        {
            let holds = self.locks[part.lock].holders.iter().map(|hold| &self.holds[hold]);
            let kept = holds.filter(|hold| is_stuck(hold.agent)).map(|hold| match hold.mode {
                Mode::Permits { take, .. } => take,
                Mode::Exclusive | Mode::Shared => 0,
            });
            return kept.sum::<u32>() <= of - take;
        }
        !self.obstacles(wait, part).any(is_stuck)
    }

    /// All waits for locks that can never end well.
    pub(crate) fn all_stuck(&self) -> BTreeSet<Arrival> {
        let waits = self.waits.values().filter(|wait| !matches!(wait.goal, Goal::Lead(_)));
        self.stuck(waits.map(|wait| wait.arrival).collect())
    }
}
