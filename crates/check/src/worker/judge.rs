//! What is true of a state.

use conclave_protocol::{NodeId, Property};

use super::Worker;

impl Worker<'_> {
    /// The nodes that are up, one bit each.
    pub(crate) fn up(&mut self, state: &[u32]) -> u32 {
        let nodes = 0..self.shape.n;
        nodes.fold(0, |up, node| up | u32::from(self.local(state[node]).up) << node)
    }

    /// The nodes that wait for the critical section and those inside, one bit each.
    pub(crate) fn standing(&mut self, state: &[u32]) -> (u32, u32) {
        let mut standing = (0, 0);
        for (node, &local) in state[..self.shape.n].iter().enumerate() {
            let local = self.local(local);
            standing.0 |= u32::from(local.waiting) << node;
            standing.1 |= u32::from(local.inside) << node;
        }
        standing
    }

    /// How many messages whoever enters next pays for.
    pub(crate) fn pending(&mut self, state: &[u32]) -> u32 {
        self.global(state[self.shape.global_slot()]).pending
    }

    /// The properties of states that this one violates, as places in the list of them.
    pub(crate) fn broken(&mut self, state: &[u32]) -> u32 {
        let shape = self.shape;
        let mut broken = 0;
        for (place, property) in shape.safety.iter().enumerate() {
            let is = match property {
                Property::Exclusion => {
                    let (_, inside) = self.standing(state);
                    inside.count_ones() > shape.places
                }
                Property::FenceOrder | Property::FcfsTimestamp => {
                    self.global(state[shape.global_slot()]).unfenced
                }
                Property::OneLeaderPerEpoch => self.global(state[shape.global_slot()]).split,
                Property::FcfsHappenedBefore => self.overtaken(state).is_some(),
                Property::Accuracy => {
                    let up = self.up(state);
                    let wrong = |local: &u32| self.opinions[*local as usize].suspects & up != 0;
                    state[..shape.n].iter().any(wrong)
                }
                _ => false,
            };
            broken |= u32::from(is) << place;
        }
        broken
    }

    /// Who waits although its request happened before that of somebody inside.
    pub(crate) fn overtaken(&mut self, state: &[u32]) -> Option<(NodeId, NodeId)> {
        let (waiting, inside) = self.standing(state);
        let nodes = |mask: u32| (0..self.shape.n).filter(move |node| mask >> node & 1 == 1);
        for second in nodes(inside) {
            let preceded = self.opinions[state[second] as usize].preceded;
            for first in nodes(waiting) {
                if preceded & self.opinions[state[first] as usize].request != 0 {
                    return Some((NodeId(first as u32), NodeId(second as u32)));
                }
            }
        }
        None
    }

    /// Whether a property is to be judged where nothing has to happen: whoever waits for the
    /// critical section must not depend on somebody else's asking for it, too, while a leader is
    /// known only after an election was called.
    pub(crate) fn is_due(&self, property: Property, end: bool) -> bool {
        end || matches!(property, Property::NoDeadlock | Property::NoStarvation)
    }

    /// Whether what is said of a system at rest is true of this state.
    pub(crate) fn at_rest(&mut self, property: Property, state: &[u32]) -> bool {
        let up = self.up(state);
        let n = self.shape.n;
        let apart = self.global(state[self.shape.global_slot()]).apart;
        let live: Vec<usize> = (0..n).filter(|node| up >> node & 1 == 1).collect();
        let opinion = |node: usize| self.opinions[state[node] as usize];
        match property {
            Property::NoDeadlock | Property::NoStarvation => self.standing(state).0 == 0,
            Property::OneLeader => {
                let leads = |node: &&usize| opinion(**node).follows == Some(NodeId(**node as u32));
                let leaders: Vec<usize> = live.iter().filter(leads).copied().collect();
                let together = |a: usize, b: usize| !self.shape.apart(a, b, apart);
                let pairs = leaders.iter().enumerate();
                pairs.into_iter().all(|(i, a)| leaders[i + 1..].iter().all(|b| !together(*a, *b)))
            }
            Property::LeaderKnown => live
                .iter()
                .all(|&node| opinion(node).follows.is_some_and(|leader| up >> leader.0 & 1 == 1)),
            Property::BestLeads => live.iter().all(|&node| {
                let best = self.shape.ranks.best(live.iter().map(|node| NodeId(*node as u32)));
                opinion(node).follows.is_none_or(|leader| Some(leader) == best)
            }),
            Property::Completeness => {
                let down = !up & ((1 << n) - 1);
                live.iter().all(|&node| opinion(node).suspects & down == down)
            }
            _ => true,
        }
    }
}
