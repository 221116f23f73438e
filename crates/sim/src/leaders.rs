use conclave_protocol::{NodeId, Observation, Ranks};

use crate::{Event, Record, Trace};

/// Who is up and takes whom for the leader when a run is over, as its trace tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaders {
    ranks: Ranks,
    /// By node.
    follows: Vec<Option<(NodeId, u64)>>,
    /// By node, whether it is up.
    live: Vec<bool>,
    /// By node, the part of the network it is in, while that is apart.
    groups: Option<Vec<u32>>,
}

impl Leaders {
    pub(crate) fn of(trace: &Trace) -> Self {
        let nodes = trace.nodes as usize;
        let mut leaders = Self {
            ranks: trace.ranks.clone(),
            follows: vec![None; nodes],
            live: vec![true; nodes],
            groups: None,
        };
        let kept = trace.latest.iter().flatten().chain(&trace.network);
        for record in trace.records.iter().chain(kept) {
            leaders.learn(record, trace);
        }
        leaders
    }

    fn learn(&mut self, record: &Record, trace: &Trace) {
        let node = record.node.index();
        match record.event() {
            Event::Notice(Observation::Follows { leader, epoch }) => {
                self.follows[node] = Some((leader, epoch));
            }
            Event::Notice(Observation::Unled) => self.follows[node] = None,
            Event::Crash => (self.live[node], self.follows[node]) = (false, None),
            Event::Recover | Event::RecoverEmpty => self.live[node] = true,
            Event::Partition(number) => {
                self.groups = trace.partitions.get(number as usize).cloned();
            }
            Event::Heal => self.groups = None,
            _ => {}
        }
    }

    /// The nodes that are up, ascending.
    pub fn live(&self) -> impl Iterator<Item = NodeId> + '_ {
        (0..).map(NodeId).zip(&self.live).filter(|(_, up)| **up).map(|(node, _)| node)
    }

    /// Whether `node` is up.
    pub fn is_live(&self, node: NodeId) -> bool {
        self.live.get(node.index()).is_some_and(|up| *up)
    }

    /// The best leader there could be.
    pub fn best(&self) -> Option<NodeId> {
        self.ranks.best(self.live())
    }

    /// Whom `node` follows, and in which term.
    pub fn leader_of(&self, node: NodeId) -> Option<(NodeId, u64)> {
        self.follows.get(node.index()).copied().flatten()
    }

    /// Every node that follows a leader, ascending, with the leader and the term.
    pub fn followers(&self) -> impl Iterator<Item = (NodeId, NodeId, u64)> + '_ {
        let each = (0..).map(NodeId).zip(&self.follows);
        each.filter_map(|(node, follows)| follows.map(|(leader, epoch)| (node, leader, epoch)))
    }

    /// The nodes that take themselves for a leader, ascending.
    pub fn leaders(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.followers().filter(|(node, leader, _)| node == leader).map(|(node, ..)| node)
    }

    /// The part of the network that `node` is in: 0 for all of them unless it is apart.
    pub fn group(&self, node: NodeId) -> u32 {
        self.groups.as_ref().map_or(0, |groups| groups[node.index()])
    }
}
