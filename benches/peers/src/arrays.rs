//! Ricart–Agrawala as a plain `Model` of fixed arrays, with everything derived: packed by hand so
//! that a state owns no memory, but not to the last bit as in [`packed`](crate::packed).

use stateright::{Model, Property};

use crate::{EXCLUSION, never_violated};

/// Room for so many nodes.
const MOST: usize = 4;

/// Nodes that ask a number of times each.
#[derive(Clone, Copy, Debug)]
pub struct Arrays {
    nodes: usize,
    requests: u8,
}

impl Arrays {
    /// `nodes` nodes, at most four, that ask `requests` times each.
    pub fn new(nodes: usize, requests: u8) -> Self {
        assert!(nodes <= MOST, "there is room for {MOST} nodes");
        Self { nodes, requests }
    }
}

/// The nodes, and the links to each from each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    nodes: [Node; MOST],
    links: [[Link; MOST]; MOST],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Node {
    phase: Phase,
    /// Requests still to be made.
    left: u8,
    /// The highest time used or seen.
    high: u8,
    /// The time of the request, until this node leaves; 0 then.
    ts: u8,
    /// Whose replies are missing, a bit each.
    awaiting: u8,
    /// Who gets its reply when this node leaves, a bit each.
    deferred: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Phase {
    #[default]
    Idle,
    Waiting,
    Inside,
}

/// A queue of messages: 0 is a reply, anything else the time of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Link {
    len: u8,
    messages: [u8; 3],
}

const REPLY: u8 = 0;

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A node asks.
    Ask(usize),
    /// A node leaves.
    Leave(usize),
    /// A message arrives.
    Deliver {
        /// The sender.
        from: usize,
        /// The receiver.
        to: usize,
    },
}

impl Model for Arrays {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State::default();
        for node in &mut state.nodes[..self.nodes] {
            node.left = self.requests;
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (me, node) in state.nodes[..self.nodes].iter().enumerate() {
            match node.phase {
                Phase::Idle if node.left > 0 => actions.push(Action::Ask(me)),
                Phase::Inside => actions.push(Action::Leave(me)),
                Phase::Idle | Phase::Waiting => {}
            }
            for (from, link) in state.links[me].iter().enumerate() {
                if link.len > 0 {
                    actions.push(Action::Deliver { from, to: me });
                }
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        match action {
            Action::Ask(me) => {
                let node = &mut next.nodes[me];
                node.phase = Phase::Waiting;
                node.left -= 1;
                node.high += 1;
                node.ts = node.high;
                node.awaiting = ((1 << self.nodes) - 1) & !(1 << me);
                let (peers, ts) = (node.awaiting, node.ts);
                next.send(me, peers, ts);
            }
            Action::Leave(me) => {
                let node = &mut next.nodes[me];
                node.phase = Phase::Idle;
                node.ts = 0;
                let deferred = std::mem::take(&mut node.deferred);
                next.send(me, deferred, REPLY);
            }
            Action::Deliver { from, to } => next.deliver(from, to),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let exclusion = |_: &Self, state: &State| {
            state.nodes.iter().filter(|node| node.phase == Phase::Inside).count() <= 1
        };
        vec![Property::<Self>::always(EXCLUSION, exclusion), never_violated()]
    }
}

impl State {
    fn deliver(&mut self, from: usize, to: usize) {
        let link = &mut self.links[to][from];
        let [msg, second, third] = link.messages;
        *link = Link { len: link.len - 1, messages: [second, third, 0] };
        let node = &mut self.nodes[to];
        if msg == REPLY {
            node.awaiting &= !(1 << from);
            if node.awaiting == 0 {
                node.phase = Phase::Inside;
            }
            return;
        }
        node.high = node.high.max(msg);
        match node.phase {
            Phase::Inside => node.deferred |= 1 << from,
            Phase::Waiting if (node.ts, to) < (msg, from) => node.deferred |= 1 << from,
            Phase::Idle | Phase::Waiting => self.send(to, 1 << from, REPLY),
        }
    }

    /// Sends `msg` to each node of the set `to`.
    fn send(&mut self, from: usize, to: u8, msg: u8) {
        for (receiver, links) in self.links.iter_mut().enumerate() {
            if to & 1 << receiver != 0 {
                let link = &mut links[from];
                link.messages[usize::from(link.len)] = msg;
                link.len += 1;
            }
        }
    }
}
