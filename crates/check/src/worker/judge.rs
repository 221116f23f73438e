//! What is true of a state.

use conclave_protocol::{NodeId, Now, Promise, Says, Those};

use super::Worker;
use super::learn::{GlobalMeta, Opinion};
use crate::shape::SystemShape;

/// What properties speak of, in one state.
pub(crate) struct Scene<'s> {
    shape: &'s SystemShape,
    state: &'s [u32],
    opinions: &'s [Opinion],
    words: &'s [Vec<u64>],
    history: &'s [u64],
    facts: Option<u64>,
    global: GlobalMeta,
    /// The nodes that are up, those that wait for the critical section and those inside, one bit
    /// each.
    up: u32,
    waiting: u32,
    inside: u32,
    step: Step,
}

/// What is known of the step that led to a state: of states alone only that a grant was stale, or
/// that there are rivals.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Step {
    /// Who was granted, with which token, and the highest before.
    pub(crate) grant: (NodeId, u64, u64),
    /// Who led first in an epoch, who leads now, and the epoch.
    pub(crate) rivals: (NodeId, NodeId, u64),
}

impl Worker<'_> {
    /// The nodes that are up, one bit each.
    pub(crate) fn up(&mut self, state: &[u32]) -> u32 {
        let nodes = 0..self.shape.n;
        nodes.fold(0, |up, node| up | u32::from(self.local(state[node]).up) << node)
    }

    /// The nodes that wait for the critical section and those inside, one bit each.
    pub(crate) fn standing(&mut self, state: &[u32]) -> (u32, u32) {
        let scene = self.scene(state, Step::default());
        (scene.waiting, scene.inside)
    }

    /// How many messages so far are counted for the next entry.
    pub(crate) fn pending(&mut self, state: &[u32]) -> u32 {
        self.global(state[self.shape.global_slot()]).pending
    }

    /// What is so in this state, `step` having led to it.
    pub(crate) fn scene<'s>(&'s mut self, state: &'s [u32], step: Step) -> Scene<'s> {
        let (mut up, mut waiting, mut inside) = (0, 0, 0);
        for (node, &local) in state[..self.shape.n].iter().enumerate() {
            let local = self.local(local);
            up |= u32::from(local.up) << node;
            waiting |= u32::from(local.waiting) << node;
            inside |= u32::from(local.inside) << node;
        }
        let global_id = state[self.shape.global_slot()];
        let global = self.global(global_id);
        let shape = self.shape;
        let facts = match shape.watch.facts {
            true => self.lock().facts(state, &shape.links, shape.n),
            false => None,
        };
        let (opinions, words) = (&self.opinions, &self.words);
        let history = self.histories.get(global_id as usize).map_or(&[][..], |history| history);
        Scene { shape, state, opinions, words, history, facts, global, up, waiting, inside, step }
    }

    /// The properties of states that this one violates, as places in the list of them.
    pub(crate) fn broken(&mut self, state: &[u32]) -> u32 {
        let shape = self.shape;
        let scene = self.scene(state, Step::default());
        let mut broken = 0;
        for (place, promise) in shape.safety.iter().enumerate() {
            broken |= u32::from(!scene.satisfies(promise)) << place;
        }
        broken
    }

    /// Whether what is said of a system at rest is true of this state.
    pub(crate) fn at_rest(&mut self, promise: &Promise, state: &[u32]) -> bool {
        self.scene(state, Step::default()).satisfies(promise)
    }
}

/// Whether a property is to be judged where nothing has to happen: a node that waits for the
/// critical section must not depend on another node's request, while a leader is known only after
/// an election was called.
pub(crate) fn is_due(promise: &Promise, end: bool) -> bool {
    end || matches!(promise.says, Says::InTheEnd(_))
}

impl Scene<'_> {
    /// Whether a property is true of the state; of what must not last, whether it does not hold
    /// now.
    pub(crate) fn satisfies(&self, promise: &Promise) -> bool {
        match promise.says {
            Says::Always(law) | Says::AtRest(law) => (law.broken)(self).is_none(),
            Says::InTheEnd(owed) => (owed.to)(self).is_empty(),
        }
    }

    fn opinion(&self, node: NodeId) -> &Opinion {
        &self.opinions[self.state[node.index()] as usize]
    }
}

impl Now for Scene<'_> {
    fn nodes(&self) -> u32 {
        self.shape.n as u32
    }

    fn places(&self) -> u32 {
        self.shape.places
    }

    fn up(&self) -> Those<'_> {
        Those::Bits(self.up)
    }

    fn waiting(&self) -> Those<'_> {
        Those::Bits(self.waiting)
    }

    fn inside(&self) -> Those<'_> {
        Those::Bits(self.inside)
    }

    fn precedes(&self, first: NodeId, second: NodeId) -> bool {
        self.opinion(second).preceded & self.opinion(first).request != 0
    }

    fn stale_grant(&self) -> Option<(NodeId, u64, u64)> {
        self.global.unfenced.then_some(self.step.grant)
    }

    fn leader_of(&self, node: NodeId) -> Option<NodeId> {
        self.opinion(node).follows
    }

    fn rivals(&self) -> Option<(NodeId, NodeId, u64)> {
        self.global.split.then_some(self.step.rivals)
    }

    fn best(&self) -> Option<NodeId> {
        let up = (0..self.nodes()).filter(|node| self.up >> node & 1 == 1);
        self.shape.ranks.best(up.map(NodeId))
    }

    fn together(&self, a: NodeId, b: NodeId) -> bool {
        !self.shape.apart(a.index(), b.index(), self.global.apart)
    }

    fn suspected_by(&self, node: NodeId) -> Those<'_> {
        Those::Bits(self.opinion(node).suspects)
    }

    fn noted(&self, node: NodeId) -> &[u64] {
        let local = self.state[node.index()] as usize;
        self.words.get(local).map_or(&[], |words| words)
    }

    fn history(&self) -> &[u64] {
        self.history
    }

    fn channels(&self) -> u64 {
        self.shape.channels
    }

    fn facts(&self) -> Option<u64> {
        self.facts
    }
}

/// What a stored graph knows of a state: who waits and who is inside, sixteen bits each.
pub(crate) struct Labelled(pub(crate) u64);

impl Now for Labelled {
    fn nodes(&self) -> u32 {
        16
    }

    fn places(&self) -> u32 {
        u32::MAX
    }

    fn up(&self) -> Those<'_> {
        Those::NOBODY
    }

    fn waiting(&self) -> Those<'_> {
        Those::Bits(self.0 as u32 & 0xffff)
    }

    fn inside(&self) -> Those<'_> {
        Those::Bits((self.0 >> 16) as u32 & 0xffff)
    }

    fn precedes(&self, _: NodeId, _: NodeId) -> bool {
        false
    }

    fn stale_grant(&self) -> Option<(NodeId, u64, u64)> {
        None
    }

    fn leader_of(&self, _: NodeId) -> Option<NodeId> {
        None
    }

    fn rivals(&self) -> Option<(NodeId, NodeId, u64)> {
        None
    }

    fn best(&self) -> Option<NodeId> {
        None
    }

    fn together(&self, _: NodeId, _: NodeId) -> bool {
        true
    }

    fn suspected_by(&self, _: NodeId) -> Those<'_> {
        Those::NOBODY
    }

    fn noted(&self, _: NodeId) -> &[u64] {
        &[]
    }

    fn history(&self) -> &[u64] {
        &[]
    }

    fn channels(&self) -> u64 {
        0
    }

    fn facts(&self) -> Option<u64> {
        None
    }
}
