//! Ricart–Agrawala as users of Stateright write it: one actor per node, an ordered network.
//!
//! An actor acts of its own accord when a timer runs out, which it may do at any moment. `Ask` is
//! set while the node is idle and has requests left, `Leave` while it is inside. So at most one is
//! set, which one follows from the node's state, and either is one step: timers add no states.

use std::borrow::Cow;
use std::sync::Arc;

use stateright::Expectation;
use stateright::actor::{Actor, ActorModel, Id, Network, Out, model_peers, model_timeout};

use crate::{EXCLUSION, never_violated};

/// A node of Ricart–Agrawala.
#[derive(Clone, Debug)]
pub struct Node {
    peers: Vec<Id>,
    requests: u8,
}

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    phase: Phase,
    /// Requests still to be made.
    left: u8,
    /// The highest time seen.
    high: u8,
    /// The time of the request, until this node leaves; 0 then.
    ts: u8,
    /// Whose replies are missing, a bit each.
    awaiting: u8,
    /// Who gets its reply when this node leaves, a bit each.
    deferred: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Waiting,
    Inside,
}

/// What nodes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Msg {
    /// May I? I asked at this time.
    Request(u8),
    /// You may.
    Reply,
}

/// When a node acts of its own accord.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// It asks.
    Ask,
    /// It leaves.
    Leave,
}

/// `nodes` nodes that ask `requests` times each.
pub fn model(nodes: usize, requests: u8) -> ActorModel<Node> {
    let peers = |me| model_peers(me, nodes);
    let mut model = ActorModel::new((), ())
        .actors((0..nodes).map(|me| Node { peers: peers(me), requests }))
        .init_network(Network::new_ordered([]))
        .property(Expectation::Always, EXCLUSION, |_, state| {
            let inside = |node: &&Arc<State>| node.phase == Phase::Inside;
            state.actor_states.iter().filter(inside).count() <= 1
        });
    model.properties.push(never_violated());
    model
}

impl Actor for Node {
    type Msg = Msg;
    type Timer = Timer;
    type State = State;
    type Storage = ();
    type Random = ();

    fn on_start(&self, _: Id, _: &Option<()>, out: &mut Out<Self>) -> State {
        if self.requests > 0 {
            out.set_timer(Timer::Ask, model_timeout());
        }
        State { phase: Phase::Idle, left: self.requests, high: 0, ts: 0, awaiting: 0, deferred: 0 }
    }

    fn on_timeout(&self, _: Id, state: &mut Cow<State>, timer: &Timer, out: &mut Out<Self>) {
        let state = state.to_mut();
        match timer {
            Timer::Ask => {
                state.phase = Phase::Waiting;
                state.left -= 1;
                state.high += 1;
                state.ts = state.high;
                state.awaiting = self.peers.iter().fold(0, |all, &peer| all | bit(peer));
                out.broadcast(&self.peers, &Msg::Request(state.ts));
            }
            Timer::Leave => {
                state.phase = Phase::Idle;
                state.ts = 0;
                let deferred = std::mem::take(&mut state.deferred);
                let waiting = self.peers.iter().filter(|&&peer| deferred & bit(peer) != 0);
                out.broadcast(waiting, &Msg::Reply);
                if state.left > 0 {
                    out.set_timer(Timer::Ask, model_timeout());
                }
            }
        }
    }

    fn on_msg(&self, me: Id, state: &mut Cow<State>, from: Id, msg: Msg, out: &mut Out<Self>) {
        let state = state.to_mut();
        match msg {
            Msg::Request(ts) => {
                state.high = state.high.max(ts);
                let older = (state.ts, me) < (ts, from);
                match state.phase {
                    Phase::Inside => state.deferred |= bit(from),
                    Phase::Waiting if older => state.deferred |= bit(from),
                    Phase::Idle | Phase::Waiting => out.send(from, Msg::Reply),
                }
            }
            Msg::Reply => {
                state.awaiting &= !bit(from);
                if state.awaiting == 0 {
                    state.phase = Phase::Inside;
                    out.set_timer(Timer::Leave, model_timeout());
                }
            }
        }
    }
}

fn bit(node: Id) -> u8 {
    1 << usize::from(node)
}
