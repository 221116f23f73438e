//! What algorithms keep, send and ask is plain data: its nodes can be renamed, its kinds listed.

use crate::support::{T, topology};
use conclave_algorithms::catalogue;
use conclave_protocol::{
    Algorithm, Input, Kind, NodeId, Numbered, NumberedEffect, NumberedInput, Reaction, Setup, Time,
    Turn,
};
use conclave_sim::Rng;
use proptest::prelude::{ProptestConfig, proptest};

const STEPS: usize = 150;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn every_value_of_every_algorithm_can_be_renamed_and_every_kind_is_listed(
        n in 2_u32..7,
        seed: u64,
    ) {
        for &entry in catalogue::ALL {
            drive(entry, n, seed);
        }
    }
}

/// The values of an algorithm, and other names for its nodes.
struct Values {
    numbered: Box<dyn Numbered>,
    names: Vec<NodeId>,
}

impl Values {
    /// The value survives renaming: unchanged under its own names, and there and back under others.
    fn check(&mut self, kind: Kind, value: u32) {
        let same: Vec<NodeId> = (0..self.names.len() as u32).map(NodeId).collect();
        assert_eq!(self.numbered.renamed(kind, value, &same), Some(value));
        let mut back = same;
        for (node, name) in (0..).map(NodeId).zip(&self.names) {
            back[name.index()] = node;
        }
        let other = self.numbered.renamed(kind, value, &self.names).expect("it can be renamed");
        let way = self.numbered.print(kind, other);
        assert_eq!(self.numbered.renamed(kind, other, &back), Some(value), "by way of {way}");
    }

    /// The value can be renamed, and its kind is one of those its type has.
    fn check_kind(&mut self, kind: Kind, value: u32) {
        self.check(kind, value);
        let (name, names) = (self.numbered.label(kind, value), self.numbered.labels(kind));
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }

    /// Checks what comes of a step at `me`, and puts what it leads to into the pool.
    fn check_all(
        &mut self,
        me: NodeId,
        reaction: &Reaction,
        pool: &mut Vec<(NodeId, NumberedInput)>,
    ) {
        self.check(Kind::State, reaction.state);
        self.check(Kind::Client, reaction.client);
        assert!(reaction.effects.len() < 1_000, "a step does not end");
        for effect in &reaction.effects {
            match *effect {
                NumberedEffect::Send { to, msg } => {
                    self.check_kind(Kind::Message, msg);
                    pool.push((to, Input::Message { from: me, msg }));
                }
                NumberedEffect::Broadcast(msg) => {
                    self.check_kind(Kind::Message, msg);
                    let peers = self.names.iter().filter(|&&peer| peer != me);
                    let arrives = Input::Message { from: me, msg };
                    pool.extend(peers.map(|&peer| (peer, arrives)));
                }
                NumberedEffect::Notify(_) => {}
                NumberedEffect::SetTimer { timer, .. } => {
                    self.check_kind(Kind::Timer, timer);
                    let timer = (me, Input::Timer(timer));
                    if !pool.contains(&timer) {
                        pool.push(timer);
                    }
                }
                NumberedEffect::CancelTimer(timer) => {
                    let timer = (me, Input::Timer(timer));
                    pool.retain(|it| *it != timer);
                }
                NumberedEffect::Save(stable) => self.check(Kind::Stable, stable),
            }
        }
    }
}

/// Drives an algorithm, any message next, any timer at any time.
fn drive(entry: &dyn Algorithm, n: u32, seed: u64) {
    let setup = Setup::new(topology(entry, n, seed));
    // Not every algorithm fits every number of nodes.
    let Ok(asking) = entry.clients(&setup) else { return };
    let mut numbered = entry.numbered(&setup).expect("it fits");
    let mut rng = Rng::new(seed);
    let nodes: Vec<NodeId> = setup.topology.nodes().collect();
    let mut names = nodes.clone();
    rng.shuffle(&mut names);
    let client = numbered.client();
    let mut values = Values { numbered, names };
    let mut now = Time::ZERO;
    let mut choose = |n: u32| rng.below(n.into()) as u32;
    let topology = &setup.topology;
    // What may happen next, in any order, which is harder on the rules than they have a right to.
    let mut pool = Vec::new();
    let mut at: Vec<(u32, u32)> = Vec::new();
    for &me in &nodes {
        let turn = Turn { node: me, now, topology, settles: true };
        let booted = values.numbered.boot(turn, None, client, &mut choose);
        values.check_all(me, &booted, &mut pool);
        at.push((booted.state, booted.client));
    }
    let mut picks = Rng::new(seed).fork(1);
    for _ in 1..STEPS {
        now = now + T;
        let mut requests = Vec::new();
        for node in asking.clone().map(NodeId) {
            let may = values.numbered.requests(at[node.index()].1).into_iter();
            requests.extend(may.map(|(request, _)| (node, Input::Request(request))));
        }
        let choices = (pool.len() + requests.len()) as u64;
        if choices == 0 {
            break;
        }
        let pick = picks.below(choices) as usize;
        let (me, input) = match pick.checked_sub(pool.len()) {
            Some(request) => requests.swap_remove(request),
            None => pool.swap_remove(pick),
        };
        if let Input::Request(request) = input {
            values.check_kind(Kind::Request, request);
        }
        let (state, client) = at[me.index()];
        let turn = Turn { node: me, now, topology, settles: true };
        let reaction = values.numbered.react(turn, state, client, input, &mut choose);
        values.check_all(me, &reaction, &mut pool);
        at[me.index()] = (reaction.state, reaction.client);
    }
}
