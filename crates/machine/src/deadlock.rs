//! Finding deadlocks: who waits for whom, and whether that can ever end.
//!
//! A wait can end well if everybody ahead of it in its queues can be served, and everybody who holds
//! what it wants can go on and release it; of permits, enough of those who hold them. Who does not
//! wait can go on. Whoever cannot, by these rules, is in a deadlock or waits for one.
//!
//! A new wait is nearly the only thing that can make a deadlock, and it is then part of it: before, there
//! was none. So the search begins at the new wait, and most of the time ends at once: who holds nothing
//! is in nobody's way.
//!
//! A candidate whose thread of control does nothing else waits like others: for the leader, unless that is
//! going to be deposed, and for those who would lead before it. When a candidate goes for which the leader
//! was to yield, the leader stays, and that can make a deadlock without a new wait. Whatever the policy, a
//! cycle that leads through an election is broken by refusing a wait for a lock in it; candidates stand on.
//! Where all are candidates, each is a stand-by for what another leads, and nothing is done about it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::ids::Arrival;
use crate::lock::LockId;
use crate::machine::Machine;
use crate::mutation::Mutation;
use crate::waits::{Goal, Part, Wait};
use crate::{Agent, Error, Event, Link, Mode, Name, Policy, Victim};

/// What can be waited for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Wanted {
    Lock(LockId),
    Election(Name),
}

impl Machine {
    /// Ends waits for locks until the new wait is in no deadlock with any.
    pub(crate) fn break_cycles(&mut self, arrival: Arrival) {
        let choice = match self.config.deadlocks {
            Policy::None => return,
            Policy::Detect(choice) => choice,
            Policy::WaitDie | Policy::WoundWait => Victim::default(),
        };
        while let Some(wait) = self.waits.get(&arrival) {
            if !self.may_be_stuck(wait) {
                return;
            }
            let Some(cycle) = self.cycle(arrival) else { return };
            let agents = cycle.iter().filter(|link| !link.election).map(|link| link.waiter);
            let victim = self.victim(agents, choice);
            let wait = self.withdraw(self.waiting[&victim]);
            self.turn.events.push(Event::Deadlock { victim, cycle: cycle.clone() });
            self.answer(&wait, Err(Error::Deadlock { cycle }));
            self.settle();
        }
    }

    /// Looks for deadlocks where a leader stays although it was to yield.
    pub(crate) fn look_at_kept(&mut self) {
        while let Some(name) = self.turn.kept.pop_first() {
            if self.is_mutated(Mutation::StayingIgnored) {
                continue;
            }
            let Some(election) = self.elections.get(&name) else { continue };
            let candidates: Vec<Arrival> = election.candidates.iter().map(|&(_, it)| it).collect();
            for arrival in candidates {
                self.break_cycles(arrival);
            }
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

    /// Whether the locks and elections that lie on the way of a wait lead back to it. If not, there is no
    /// deadlock; if so, there may be one. Looks at each once, however many wait for it.
    fn may_be_stuck(&self, wait: &Wait) -> bool {
        let session = &self.sessions[&wait.agent.session];
        let stands_in = match &wait.goal {
            Goal::Lead(candidacy) => Some(&candidacy.election),
            Goal::Locks(_) | Goal::Upgrade(..) => None,
        };
        if !wait.blocks()
            || session.holds.is_empty() && session.leads.is_empty() && stands_in.is_none()
        {
            return false;
        }
        let mut seen: BTreeSet<Wanted> = BTreeSet::new();
        let mut open: Vec<Wanted> = wait.goal.wanted();
        while let Some(wanted) = open.pop() {
            if seen.contains(&wanted) {
                continue;
            }
            let mut agents: Vec<Agent> = Vec::new();
            match &wanted {
                Wanted::Lock(id) => {
                    let lock = &self.locks[*id];
                    agents.extend(lock.holders.iter().map(|hold| self.holds[hold].agent));
                    if lock.leads_elsewhere() {
                        for place in lock.waiting() {
                            open.extend(self.waits[&place.arrival].goal.wanted());
                        }
                    }
                }
                Wanted::Election(name) => agents.extend(self.incumbent(name)),
            }
            seen.insert(wanted);
            for agent in agents {
                if agent == wait.agent {
                    return true;
                }
                let Some(arrival) = self.waiting.get(&agent) else { continue };
                let goal = &self.waits[arrival].goal;
                // It may wait behind the new candidate, which holds nothing.
                if matches!(goal, Goal::Lead(other) if Some(&other.election) == stands_in) {
                    return true;
                }
                open.extend(goal.wanted());
            }
        }
        false
    }

    /// A shortest cycle through a wait that can never end well, with a wait for a lock in it; nothing if
    /// there is none.
    pub(crate) fn cycle(&self, arrival: Arrival) -> Option<Vec<Link>> {
        let stuck = self.stuck(self.reach(arrival));
        if !stuck.contains(&arrival) {
            return None;
        }
        let start = self.waits[&arrival].agent;
        // Who was reached first from whom and because of what; apart, who by way of a lock.
        let mut from: BTreeMap<(Agent, bool), (Agent, bool)> = BTreeMap::new();
        let mut links: BTreeMap<(Agent, bool), Link> = BTreeMap::new();
        let mut open = VecDeque::from([(start, false)]);
        while let Some((agent, by_lock)) = open.pop_front() {
            let wait = &self.waits[&self.waiting[&agent]];
            for (next, (lock, election)) in self.needs(wait, &stuck) {
                let reached = (next, by_lock || !election);
                let link = Link { waiter: agent, lock, election };
                if next == start {
                    if !reached.1 {
                        continue;
                    }
                    let mut cycle = vec![link];
                    let mut back = (agent, by_lock);
                    while let Some(link) = links.get(&back) {
                        cycle.push(link.clone());
                        back = from[&back];
                    }
                    cycle.reverse();
                    return Some(cycle);
                }
                if let std::collections::btree_map::Entry::Vacant(unseen) = from.entry(reached) {
                    unseen.insert((agent, by_lock));
                    links.insert(reached, link);
                    open.push_back(reached);
                }
            }
        }
        None
    }

    /// The thread of control whose leadership candidates wait to end. There is none if the leader is going
    /// to be deposed, or may do something else meanwhile.
    pub(crate) fn incumbent(&self, election: &str) -> Option<Agent> {
        if self.is_mutated(Mutation::CandidatesIgnored) {
            return None;
        }
        let election = &self.elections[election];
        let leader = election.leader.as_ref().filter(|leader| leader.deposed.is_none())?;
        leader.agent().filter(|_| !self.is_preempted(election, leader.rank))
    }

    /// Who would lead before a candidate, the nearest first, as far as they do nothing else meanwhile.
    pub(crate) fn rivals(&self, wait: &Wait) -> impl Iterator<Item = &Wait> {
        let candidates = match &wait.goal {
            Goal::Lead(candidacy) => {
                let place = (Reverse(candidacy.rank), wait.arrival);
                let election = &self.elections[&candidacy.election];
                Some(election.candidates.range(..place).rev())
            }
            Goal::Locks(_) | Goal::Upgrade(..) => None,
        };
        let candidates = candidates.into_iter().flatten();
        candidates.map(|(_, arrival)| &self.waits[arrival]).filter(|wait| wait.blocks())
    }

    /// A deadlock that those who wait for a lock are in, or wait for.
    pub(crate) fn deadlock_at(&self, lock: LockId) -> Option<Vec<Link>> {
        self.deadlock_of(self.locks[lock].waiting().map(|place| place.arrival))
    }

    /// A deadlock that one of these waits is in, or waits for. Unless deadlocks are left alone, there is none
    /// but among candidates.
    pub(crate) fn deadlock_of(
        &self,
        mut waits: impl Iterator<Item = Arrival>,
    ) -> Option<Vec<Link>> {
        let stuck = self.all_stuck();
        let first = waits.find(|arrival| stuck.contains(arrival))?;
        // Whoever is stuck needs another that is, so this comes back to where it has been.
        let mut way: Vec<Link> = Vec::new();
        let mut agent = self.waits[&first].agent;
        loop {
            if let Some(begin) = way.iter().position(|link| link.waiter == agent) {
                return Some(way.split_off(begin));
            }
            let wait = &self.waits[&self.waiting[&agent]];
            let (next, (lock, election)) = self.needs(wait, &stuck).pop_first()?;
            way.push(Link { waiter: agent, lock, election });
            agent = next;
        }
    }

    /// The members of `stuck` that a wait needs to go on, each with the first lock for which it does, or
    /// the election.
    fn needs(&self, wait: &Wait, stuck: &BTreeSet<Arrival>) -> BTreeMap<Agent, (Name, bool)> {
        let is_stuck =
            |agent: Agent| self.waiting.get(&agent).is_some_and(|arrival| stuck.contains(arrival));
        let mut needs = BTreeMap::new();
        for &part in wait.goal.parts() {
            let ahead = self.ahead(wait, part).map(|wait| wait.agent);
            for agent in self.obstacles(wait, part).chain(ahead).filter(|&agent| is_stuck(agent)) {
                needs.entry(agent).or_insert_with(|| (self.locks[part.lock].name.clone(), false));
            }
        }
        if let Goal::Lead(candidacy) = &wait.goal {
            let rivals = self.rivals(wait).map(|wait| wait.agent);
            let before = self.incumbent(&candidacy.election).into_iter().chain(rivals);
            for agent in before.filter(|&agent| is_stuck(agent)) {
                needs.entry(agent).or_insert_with(|| (candidacy.election.clone(), true));
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
            if let Goal::Lead(candidacy) = &wait.goal {
                let leader = self.incumbent(&candidacy.election);
                open.extend(leader.and_then(|agent| self.waiting.get(&agent)));
                open.extend(self.rivals(wait).take(1).map(|wait| wait.arrival));
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
        if let Goal::Lead(candidacy) = &wait.goal {
            let leader = self.incumbent(&candidacy.election);
            let leader = leader.and_then(|agent| self.waiting.get(&agent));
            let rival = self.rivals(wait).next().map(|wait| &wait.arrival);
            return !leader.into_iter().chain(rival).any(|arrival| stuck.contains(arrival));
        }
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

    /// All waits that can never end well.
    pub(crate) fn all_stuck(&self) -> BTreeSet<Arrival> {
        let waits = self.waits.values().filter(|wait| wait.blocks());
        self.stuck(waits.map(|wait| wait.arrival).collect())
    }
}

impl Goal {
    /// What it is about.
    fn wanted(&self) -> Vec<Wanted> {
        match self {
            Self::Lead(candidacy) => vec![Wanted::Election(candidacy.election.clone())],
            goal => goal.parts().iter().map(|part| Wanted::Lock(part.lock)).collect(),
        }
    }
}
