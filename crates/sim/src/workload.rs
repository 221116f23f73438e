use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

pub use conclave_protocol::theory::Ask;
use conclave_protocol::{NodeId, Observation, Time};
use serde::{Deserialize, Serialize};

use crate::{Rng, Spread};

/// What the applications do: who asks when, and how long they stay inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// When they ask.
    pub arrivals: Arrivals,
    /// How long they stay inside the critical section.
    pub hold: Spread,
}

/// When applications ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// At exactly these moments. One that comes while the previous request of the same node is
    /// unfinished waits until it is.
    Plan(Vec<Ask>),
    /// Closed loop: each client asks, enters, leaves, thinks, and asks again.
    Closed {
        /// The nodes that ask.
        clients: Range<u32>,
        /// How often each asks; without end if not set.
        rounds: Option<u32>,
        /// How long before it asks the first time.
        first: Spread,
        /// How long between leaving and asking again.
        think: Spread,
    },
    /// Open loop: requests come to each client as a Poisson process, however long they take.
    Open {
        /// The nodes that ask.
        clients: Range<u32>,
        /// How often each asks; without end if not set.
        rounds: Option<u32>,
        /// The mean time between two requests.
        every: Duration,
    },
}

impl Workload {
    /// Each of these nodes asks once at the very beginning and stays inside for `hold`.
    pub fn burst(nodes: impl IntoIterator<Item = NodeId>, hold: Duration) -> Self {
        let asks = nodes.into_iter().map(|node| Ask { node, at: Time::ZERO, hold: None });
        Self { arrivals: Arrivals::Plan(asks.collect()), hold: Spread::exactly(hold) }
    }

    /// No application makes a request.
    pub fn idle() -> Self {
        Self::burst([], Duration::ZERO)
    }

    /// The nodes that ask.
    pub fn clients(&self) -> BTreeSet<NodeId> {
        match &self.arrivals {
            Arrivals::Plan(asks) => asks.iter().map(|ask| ask.node).collect(),
            Arrivals::Closed { clients, .. } | Arrivals::Open { clients, .. } => {
                clients.clone().map(NodeId).collect()
            }
        }
    }
}

/// The workload as it unfolds.
#[derive(Clone, Debug)]
pub(crate) struct Agenda {
    workload: Workload,
    rng: Rng,
    /// By node; empty for a plan in which hardly anybody asks.
    asked: Vec<u32>,
    /// Open loop: when each client's next request comes.
    due: Vec<Time>,
    /// A plan: what is left of it, by node and then time.
    plan: Vec<Ask>,
    taken: Vec<bool>,
}

impl Agenda {
    pub(crate) fn new(workload: Workload, nodes: u32, rng: Rng) -> Self {
        let (mut asked, mut due, mut plan) = (Vec::new(), Vec::new(), Vec::new());
        match &workload.arrivals {
            Arrivals::Plan(asks) => {
                plan.clone_from(asks);
                plan.sort_by_key(|ask| (ask.node, ask.at));
            }
            Arrivals::Closed { .. } => asked = vec![0; nodes as usize],
            Arrivals::Open { .. } => {
                asked = vec![0; nodes as usize];
                due = vec![Time::ZERO; nodes as usize];
            }
        }
        let taken = vec![false; plan.len()];
        Self { workload, rng, asked, due, plan, taken }
    }

    /// When the application at `node` makes a request that means `mark`; `None` if it does not.
    pub(crate) fn when(&mut self, node: NodeId, mark: Observation, now: Time) -> Option<Time> {
        match mark.is_ask() {
            true => self.next_ask(node, now),
            false => Some(self.next_leave(node, now)),
        }
    }

    /// `node` has made the request that `when` announced.
    pub(crate) fn asked(&mut self, node: NodeId, mark: Observation) {
        if !mark.is_ask() {
            return;
        }
        if let Some(i) = self.next_planned(node) {
            self.taken[i] = true;
        }
        if let Some(asked) = self.asked.get_mut(node.index()) {
            *asked += 1;
        }
        if let Some(due) = self.due.get_mut(node.index())
            && let Arrivals::Open { every, .. } = self.workload.arrivals
        {
            *due = *due + Duration::from_nanos(self.rng.exponential(every.as_nanos() as u64));
        }
    }

    /// When the next request came to the application at `node`, by the plan of an open loop.
    pub(crate) fn due(&self, node: NodeId) -> Option<Time> {
        self.due.get(node.index()).copied()
    }

    /// How many more requests `node` will make; `None` if there is no end to them.
    pub(crate) fn remaining(&self, node: NodeId) -> Option<u64> {
        match &self.workload.arrivals {
            Arrivals::Plan(_) => {
                Some(self.planned(node).filter(|&i| !self.taken[i]).count() as u64)
            }
            Arrivals::Closed { clients, rounds, .. } | Arrivals::Open { clients, rounds, .. } => {
                if !clients.contains(&node.0) {
                    return Some(0);
                }
                rounds.map(|rounds| u64::from(rounds - self.asked[node.index()].min(rounds)))
            }
        }
    }

    fn next_ask(&mut self, node: NodeId, now: Time) -> Option<Time> {
        let more = |clients: &Range<u32>, rounds: &Option<u32>, asked: u32| {
            clients.contains(&node.0) && rounds.is_none_or(|rounds| asked < rounds)
        };
        match &self.workload.arrivals {
            Arrivals::Plan(_) => self.next_planned(node).map(|i| self.plan[i].at.max(now)),
            Arrivals::Closed { clients, rounds, first, think } => {
                let asked = self.asked[node.index()];
                let pause = if asked == 0 { *first } else { *think };
                more(clients, rounds, asked).then(|| pause.after(now, &mut self.rng))
            }
            Arrivals::Open { clients, rounds, every } => {
                let asked = self.asked[node.index()];
                if !more(clients, rounds, asked) {
                    return None;
                }
                let due = &mut self.due[node.index()];
                if asked == 0 && *due == Time::ZERO {
                    let gap = self.rng.exponential(every.as_nanos() as u64);
                    *due = Time::ZERO + Duration::from_nanos(gap.max(1));
                }
                Some((*due).max(now))
            }
        }
    }

    fn next_leave(&mut self, node: NodeId, now: Time) -> Time {
        let latest = self.planned(node).rev().find(|&i| self.taken[i]);
        match latest.and_then(|i| self.plan[i].hold) {
            Some(hold) => now + hold,
            None => self.workload.hold.after(now, &mut self.rng),
        }
    }

    fn next_planned(&self, node: NodeId) -> Option<usize> {
        self.planned(node).find(|&i| !self.taken[i])
    }

    /// The places in the plan that are `node`'s.
    fn planned(&self, node: NodeId) -> Range<usize> {
        let start = self.plan.partition_point(|ask| ask.node < node);
        let end = self.plan.partition_point(|ask| ask.node <= node);
        start..end
    }
}
