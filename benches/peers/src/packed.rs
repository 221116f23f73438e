//! Ricart–Agrawala packed by hand into 32 bytes: as fast as Stateright explores it.
//!
//! A link never carries more than a request and a reply. The sender asks again only after the
//! receiver has replied, and replies again only after the receiver has had its last reply and asked
//! again. So a link is a byte, and the links to a node are a word like the node itself.

use std::hash::{Hash, Hasher};

use stateright::{Model, Property};

use crate::{EXCLUSION, never_violated};

/// Room for so many nodes.
const MOST: usize = 4;

/// Nodes that ask a number of times each.
#[derive(Clone, Copy, Debug)]
pub struct Packed {
    nodes: u8,
    requests: u8,
    tie_break: bool,
}

impl Packed {
    /// `nodes` nodes, at most four, that ask `requests` times each, at most three times.
    pub fn new(nodes: u8, requests: u8) -> Self {
        assert!(usize::from(nodes) <= MOST, "a word has room for the links from {MOST} nodes");
        assert!(requests <= 3, "half a byte has room for a time up to 13");
        Self { nodes, requests, tie_break: true }
    }

    /// The same, but of two requests with the same time each yields to the other.
    #[must_use]
    pub fn without_tie_break(self) -> Self {
        Self { tie_break: false, ..self }
    }
}

/// The state of all nodes, and the links to each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    nodes: [Node; MOST],
    links: [Links; MOST],
}

/// The state of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Node {
    /// Two bits for the phase, the others for the number of requests still to be made.
    stage: u8,
    /// The highest time used or seen.
    high: u8,
    /// The time of the request, until this node leaves; 0 then.
    ts: u8,
    /// Whose replies are missing, in the lower half; who waits for ours, in the upper.
    sets: u8,
}

const PHASE: u8 = 0b11;
const IDLE: u8 = 0;
const WAITING: u8 = 1;
const INSIDE: u8 = 2;
const ONE_REQUEST: u8 = 1 << 2;

/// The links to a node, by sender: the older message in the lower half of a byte.
type Links = [u8; MOST];

/// No message.
const EMPTY: u8 = 0;
/// A reply. A request is its time and this.
const REPLY: u8 = 1;

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A node asks, or leaves.
    Act(u8),
    /// A message arrives.
    Deliver {
        /// The sender.
        from: u8,
        /// The receiver.
        to: u8,
    },
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let word = |node: &Node| u32::from_ne_bytes([node.stage, node.high, node.ts, node.sets]);
        let pair = |a: u32, b: u32| u64::from(a) << 32 | u64::from(b);
        let [a, b, c, d] = &self.nodes;
        hasher.write_u64(pair(word(a), word(b)));
        hasher.write_u64(pair(word(c), word(d)));
        let [a, b, c, d] = self.links.map(u32::from_ne_bytes);
        hasher.write_u64(pair(a, b));
        hasher.write_u64(pair(c, d));
    }
}

impl Model for Packed {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State { nodes: [Node::default(); MOST], links: [[EMPTY; MOST]; MOST] };
        for node in &mut state.nodes[..usize::from(self.nodes)] {
            node.stage = IDLE + self.requests * ONE_REQUEST;
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for me in 0..self.nodes {
            let node = &state.nodes[usize::from(me)];
            if node.stage & PHASE == INSIDE || node.stage & PHASE == IDLE && node.stage != IDLE {
                actions.push(Action::Act(me));
            }
            for from in 0..self.nodes {
                if state.links[usize::from(me)][usize::from(from)] != EMPTY {
                    actions.push(Action::Deliver { from, to: me });
                }
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        match action {
            Action::Act(me) if state.nodes[usize::from(me)].stage & PHASE == INSIDE => {
                next.leave(me);
            }
            Action::Act(me) => self.ask(me, &mut next),
            Action::Deliver { from, to } => self.deliver(from, to, &mut next),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let exclusion = |_: &Self, state: &State| {
            state.nodes.iter().filter(|node| node.stage & PHASE == INSIDE).count() <= 1
        };
        vec![Property::<Self>::always(EXCLUSION, exclusion), never_violated()]
    }
}

impl Packed {
    fn ask(&self, me: u8, state: &mut State) {
        let node = &mut state.nodes[usize::from(me)];
        node.stage -= ONE_REQUEST - (WAITING - IDLE);
        node.high += 1;
        node.ts = node.high;
        let peers = ((1 << self.nodes) - 1) & !(1 << me);
        node.sets |= peers;
        let request = node.ts + REPLY;
        state.send(me, peers, request);
    }

    fn deliver(&self, from: u8, to: u8, state: &mut State) {
        let link = &mut state.links[usize::from(to)][usize::from(from)];
        let msg = *link & 0xf;
        *link >>= 4;
        let node = &mut state.nodes[usize::from(to)];
        if msg == REPLY {
            node.sets &= !(1 << from);
            if node.sets & 0xf == 0 {
                node.stage += INSIDE - WAITING;
            }
            return;
        }
        let ts = msg - REPLY;
        node.high = node.high.max(ts);
        let older = node.ts < ts || self.tie_break && node.ts == ts && to < from;
        let phase = node.stage & PHASE;
        if phase == INSIDE || phase == WAITING && older {
            node.sets |= 1 << (4 + from);
        } else {
            state.send(to, 1 << from, REPLY);
        }
    }
}

impl State {
    fn leave(&mut self, me: u8) {
        let node = &mut self.nodes[usize::from(me)];
        node.stage -= INSIDE - IDLE;
        node.ts = 0;
        let deferred = node.sets >> 4;
        node.sets = 0;
        self.send(me, deferred, REPLY);
    }

    /// Sends `msg` to each node of the set `to`.
    fn send(&mut self, from: u8, to: u8, msg: u8) {
        for (receiver, links) in self.links.iter_mut().enumerate() {
            if to & 1 << receiver != 0 {
                let link = &mut links[usize::from(from)];
                debug_assert!(*link & 0xf0 == EMPTY, "a request and a reply at most");
                *link |= if *link == EMPTY { msg } else { msg << 4 };
            }
        }
    }
}
