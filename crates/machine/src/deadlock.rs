//! Deadlock detection on the wait-for graph.
//!
//! A wait can end well if every request ahead of it in its queues can be granted, and all holders of what it wants can
//! go on and release it; of permits, enough of the holders. A thread of control that does not wait can go on. One that
//! cannot go on by these rules is in a deadlock or waits for one.
//!
//! A new wait is nearly the only thing that can make a deadlock, and it is then part of it: before, there
//! was none. So the search begins at the new wait, and most of the time ends at once: a thread of control that holds
//! nothing blocks no other.
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
use crate::waits::{Goal, Wait};
use crate::{Agent, Error, Event, Link, Mode, Name, Policy, Victim};

/// What can be waited for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Wanted {
    Lock(LockId),
    Election(Name),
}

/// A condition for a wait to end well.
#[derive(Clone, Copy)]
enum Condition {
    /// This other wait ends well.
    Ends(Arrival),
    /// Those who never go on keep no more permits than this.
    Permits { lock: LockId, most: u32 },
}

/// The permits of a lock that are held by those who may never go on.
#[derive(Default)]
struct Kept {
    permits: u32,
    awaited_by: Vec<Arrival>,
}

/// Whose leadership candidates wait to end, each found once in a search.
type Leaders = BTreeMap<Name, Option<Agent>>;

impl Machine {
    /// Ends waits for locks until the new wait is in no deadlock with any.
    pub(crate) fn break_cycles(&mut self, arrival: Arrival) {
        self.try_to_break_cycles(arrival);
    }

    /// The same, and says whether it has ended any.
    fn try_to_break_cycles(&mut self, arrival: Arrival) -> bool {
        let mut ended = false;
        let choice = match self.config.deadlocks {
            Policy::None => return ended,
            Policy::Detect(choice) => choice,
            Policy::WaitDie | Policy::WoundWait => Victim::default(),
        };
        while let Some(wait) = self.waits.get(&arrival) {
            if !self.may_be_stuck(wait) {
                break;
            }
            let Some(cycle) = self.cycle(arrival) else { break };
            ended = true;
            let agents = cycle.iter().filter(|link| !link.election).map(|link| link.waiter);
            let victim = self.victim(agents, choice);
            let wait = self.withdraw(self.waiting[&victim]);
            self.turn.events.push(Event::Deadlock { victim, cycle: cycle.clone() });
            self.answer(&wait, Err(Error::Deadlock { cycle }));
            self.settle();
        }
        ended
    }

    /// Looks for deadlocks where a leader stays although it was to yield.
    pub(crate) fn look_at_kept(&mut self) {
        while let Some(name) = self.turn.kept.pop_first() {
            if self.is_mutated(Mutation::StayingIgnored) {
                continue;
            }
            let Some(election) = self.elections.get(&name) else { continue };
            let candidates: Vec<Arrival> = election.candidates.iter().map(|&(_, it)| it).collect();
            // One search for all of them, and another only when something has changed.
            let mut stuck = self.stuck(self.reach(candidates.iter().copied()));
            for &arrival in &candidates {
                if stuck.contains(&arrival) && self.try_to_break_cycles(arrival) {
                    let rest = candidates.iter().copied();
                    let rest = rest.filter(|arrival| self.waits.contains_key(arrival));
                    stuck = self.stuck(self.reach(rest));
                }
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
        let stuck = self.stuck(self.reach([arrival].into_iter()));
        let wants_lock = |it: &Arrival| !matches!(self.waits[it].goal, Goal::Lead(_));
        if !stuck.contains(&arrival) || !stuck.iter().any(wants_lock) {
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
    pub(crate) fn deadlock_of(&self, waits: impl Iterator<Item = Arrival>) -> Option<Vec<Link>> {
        let waits: Vec<Arrival> = waits.filter(|arrival| self.waits[arrival].blocks()).collect();
        let stuck = self.stuck(self.reach(waits.iter().copied()));
        let first = waits.into_iter().find(|arrival| stuck.contains(arrival))?;
        // Each stuck agent needs another that is stuck, so this comes back to where it has been.
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
        // telling only if no other is.
        if needs.len() > 1 {
            needs.remove(&wait.agent);
        }
        needs
    }

    /// Some waits, and all the waits on which it depends whether they can end.
    fn reach(&self, waits: impl Iterator<Item = Arrival>) -> BTreeSet<Arrival> {
        let mut leaders = Leaders::new();
        let mut reached = BTreeSet::new();
        let mut permits: BTreeSet<LockId> = BTreeSet::new();
        let mut open: Vec<Arrival> = waits.collect();
        while let Some(arrival) = open.pop() {
            if !reached.insert(arrival) {
                continue;
            }
            for condition in self.conditions(&self.waits[&arrival], &mut leaders) {
                match condition {
                    Condition::Ends(other) => open.push(other),
                    Condition::Permits { lock, .. } if permits.insert(lock) => {
                        let holders = self.locks[lock].holders.iter();
                        let holders = holders.map(|hold| self.holds[hold].agent);
                        open.extend(holders.filter_map(|agent| self.waiting.get(&agent)));
                    }
                    Condition::Permits { .. } => {}
                }
            }
        }
        reached
    }

    /// Those of the waits that can never end well, provided that all on which they depend are among
    /// them.
    ///
    /// Each waits for one of its conditions at a time, and is looked at again only when that one is met.
    pub(crate) fn stuck(&self, mut stuck: BTreeSet<Arrival>) -> BTreeSet<Arrival> {
        let mut leaders = Leaders::new();
        let mut unmet: BTreeMap<Arrival, Vec<Condition>> = BTreeMap::new();
        // Who is looked at again when this one ends, and when permits of this lock come back.
        let mut after: BTreeMap<Arrival, Vec<Arrival>> = BTreeMap::new();
        let mut permits: BTreeMap<LockId, Kept> = BTreeMap::new();
        let mut gives: BTreeMap<Arrival, Vec<(LockId, u32)>> = BTreeMap::new();
        let mut open: Vec<Arrival> = stuck.iter().rev().copied().collect();
        while let Some(arrival) = open.pop() {
            if !stuck.contains(&arrival) {
                continue;
            }
            let conditions = unmet
                .entry(arrival)
                .or_insert_with(|| self.conditions(&self.waits[&arrival], &mut leaders));
            while let Some(&condition) = conditions.last() {
                self.looks_at(1);
                match condition {
                    Condition::Ends(other) => {
                        if stuck.contains(&other) {
                            after.entry(other).or_default().push(arrival);
                            break;
                        }
                    }
                    Condition::Permits { lock, most } => {
                        let kept = permits.entry(lock).or_insert_with(|| {
                            let mut kept = Kept::default();
                            for (agent, take) in self.permits_held(lock) {
                                let holder = self.waiting.get(&agent);
                                if let Some(&holder) = holder.filter(|it| stuck.contains(it)) {
                                    kept.permits += take;
                                    gives.entry(holder).or_default().push((lock, take));
                                }
                            }
                            kept
                        });
                        if kept.permits > most {
                            kept.awaited_by.push(arrival);
                            break;
                        }
                    }
                }
                conditions.pop();
            }
            if !conditions.is_empty() {
                continue;
            }
            stuck.remove(&arrival);
            open.extend(after.remove(&arrival).into_iter().flatten());
            for (lock, take) in gives.remove(&arrival).into_iter().flatten() {
                let kept = permits.get_mut(&lock).expect("they were counted");
                kept.permits -= take;
                open.append(&mut kept.awaited_by);
            }
        }
        stuck
    }

    /// What has to come about before a wait can end well, as far as that depends on other waits.
    fn conditions(&self, wait: &Wait, leaders: &mut Leaders) -> Vec<Condition> {
        let mut conditions = Vec::new();
        for &part in wait.goal.parts() {
            let before = self.ahead(wait, part).next();
            match part.mode {
                Mode::Permits { take, of } if !self.is_mutated(Mutation::AnyPermitNeedsAll) => {
                    conditions.push(Condition::Permits { lock: part.lock, most: of - take });
                }
                // When the one before has the lock, none of these is in the way any more.
                _ if before.is_some_and(|before| self.needs_all_gone(before, part.lock)) => {}
                _ => {
                    let holders = self.obstacles(wait, part).inspect(|_| self.looks_at(1));
                    let holders = holders.filter_map(|agent| self.waiting.get(&agent));
                    conditions.extend(holders.map(|&arrival| Condition::Ends(arrival)));
                }
            }
            // Looked at first. The one before depends on those before it.
            conditions.extend(before.map(|before| Condition::Ends(before.arrival)));
        }
        if let Goal::Lead(candidacy) = &wait.goal {
            let name = &candidacy.election;
            let leader = *leaders.entry(name.clone()).or_insert_with(|| self.incumbent(name));
            let leader = leader.and_then(|agent| self.waiting.get(&agent));
            let rival = self.rivals(wait).next().map(|wait| &wait.arrival);
            let both = leader.into_iter().chain(rival);
            conditions.extend(both.map(|&arrival| Condition::Ends(arrival)));
        }
        conditions
    }

    /// Whether a wait for a lock that is read and written ends only when no other holds that lock.
    fn needs_all_gone(&self, wait: &Wait, lock: LockId) -> bool {
        let mut parts = wait.goal.parts().iter();
        let part = parts.find(|part| part.lock == lock).expect("it waits here");
        let has_permits = matches!(part.mode, Mode::Permits { .. });
        !has_permits && self.locks[lock].is_blocked_by_holders(part.mode)
    }

    /// Who holds permits of a lock, and how many.
    fn permits_held(&self, lock: LockId) -> impl Iterator<Item = (Agent, u32)> {
        let holds = self.locks[lock].holders.iter().map(|hold| &self.holds[hold]);
        holds.map(|hold| match hold.mode {
            Mode::Permits { take, .. } => (hold.agent, take),
            Mode::Exclusive | Mode::Shared => (hold.agent, 0),
        })
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
