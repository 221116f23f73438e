//! What algorithms keep, send and say is plain data: its nodes can be renamed, its kinds listed.

use std::ops::Range;

use crate::support::{T, topology};
use conclave_algorithms::catalogue::{self, Visitor};
use conclave_protocol::{
    Client, Ctx, Effect, Effects, Entry, Input, NodeId, Protocol, Reliable, ReliableConfig, Setup,
    Time, Value, label, labels, renamed,
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
        for info in catalogue::ALL {
            catalogue::visit(info.id, Drive { n, seed }).expect("it is in the catalogue");
        }
    }
}

/// Drives an algorithm, plain and over numbered links, any message next, any timer at any time.
struct Drive {
    n: u32,
    seed: u64,
}

impl Visitor for Drive {
    type Output = ();

    fn visit<P, C>(self, entry: &'static Entry<P>)
    where
        P: Protocol,
        C: Client<P> + Client<Reliable<P>>,
    {
        let Self { n, seed } = self;
        let setup = Setup::new(topology(entry, n, seed));
        // Not every algorithm fits every number of nodes.
        let Ok(config) = (entry.config)(&setup) else { return };
        let clients = (entry.clients)(&config, n);
        drive::<P, C>(&setup, &config, clients.clone(), seed);
        let config = ReliableConfig { resend: T * 4, app: config };
        drive::<Reliable<P>, C>(&setup, &config, clients, seed);
    }
}

/// The value survives renaming: unchanged under its own names, and there and back under others.
fn check(value: &impl Value, names: &[NodeId]) {
    let same: Vec<NodeId> = (0..names.len() as u32).map(NodeId).collect();
    assert_eq!(renamed(value, &same).as_ref(), Some(value));
    let mut back = same;
    for (node, name) in (0..).map(NodeId).zip(names) {
        back[name.index()] = node;
    }
    let other = renamed(value, names).expect("it can be renamed");
    assert_eq!(renamed(&other, &back).as_ref(), Some(value), "by way of {other:?}");
}

/// The value can be renamed, and its kind is one of those its type has.
fn check_kind<V: Value>(value: &V, names: &[NodeId]) {
    check(value, names);
    let (name, names) = (label(value), labels::<V>());
    assert!(names.contains(&name), "{name} is not among {names:?}");
}

/// What a step asks for, with chance where it leaves something open.
struct Asked<'r, P: Protocol> {
    effects: Vec<Effect<P>>,
    rng: &'r mut Rng,
}

impl<P: Protocol> Effects<P> for Asked<'_, P> {
    fn emit(&mut self, effect: Effect<P>) {
        assert!(self.effects.len() < 1_000, "a step does not end");
        self.effects.push(effect);
    }

    fn choose(&mut self, n: u32) -> u32 {
        self.rng.below(n.into()) as u32
    }
}

fn drive<P: Protocol, C: Client<P>>(
    setup: &Setup,
    config: &P::Config,
    asking: Range<u32>,
    seed: u64,
) {
    let mut rng = Rng::new(seed);
    let nodes: Vec<NodeId> = setup.topology.nodes().collect();
    let mut names = nodes.clone();
    for last in (1..names.len()).rev() {
        names.swap(last, rng.below(last as u64 + 1) as usize);
    }
    let mut asked = Asked { effects: Vec::new(), rng: &mut rng };
    let mut clients = vec![C::default(); nodes.len()];
    // What may happen next, in any order, which is harder on the rules than they have a right to.
    let mut pool = Vec::new();
    let boot = |&me: &NodeId| {
        let mut ctx = Ctx::new(me, &setup.topology, config, Time::ZERO, &mut asked);
        let state = P::boot(None, &mut ctx);
        carry_out(me, asked.effects.drain(..), &mut clients, &mut pool, &names);
        state
    };
    let mut states: Vec<P> = nodes.iter().map(boot).collect();
    for at in 1..STEPS {
        let mut requests = Vec::new();
        for node in asking.clone().map(NodeId) {
            let may = clients[node.index()].requests().into_iter();
            requests.extend(may.map(|request| (node, Input::Request(request))));
        }
        let choices = (pool.len() + requests.len()) as u64;
        if choices == 0 {
            break;
        }
        let pick = asked.rng.below(choices) as usize;
        let (me, input) = match pick.checked_sub(pool.len()) {
            Some(request) => requests.swap_remove(request),
            None => pool.swap_remove(pick),
        };
        check(&input, &names);
        if let Input::Request(request) = &input {
            check_kind(request, &names);
            clients[me.index()].on_request(request);
        }
        let now = Time::ZERO + T * at as u32;
        let mut ctx = Ctx::new(me, &setup.topology, config, now, &mut asked);
        states[me.index()].step(input, &mut ctx);
        carry_out(me, asked.effects.drain(..), &mut clients, &mut pool, &names);
        check(&states[me.index()], &names);
        check(&clients[me.index()], &names);
    }
}

/// Checks the effects of a step at `me`, and puts what they lead to into the pool.
fn carry_out<P: Protocol, C: Client<P>>(
    me: NodeId,
    effects: impl Iterator<Item = Effect<P>>,
    clients: &mut [C],
    pool: &mut Vec<(NodeId, Input<P>)>,
    names: &[NodeId],
) {
    let arrives = |msg: P::Msg| Input::Message { from: me, msg };
    for effect in effects {
        check(&effect, names);
        match effect {
            Effect::Send { to, msg } => {
                check_kind(&msg, names);
                pool.push((to, arrives(msg)));
            }
            Effect::Broadcast(msg) => {
                check_kind(&msg, names);
                let peers = names.iter().filter(|&&peer| peer != me);
                pool.extend(peers.map(|&peer| (peer, arrives(msg.clone()))));
            }
            Effect::Notify(notice) => {
                check_kind(&notice, names);
                clients[me.index()].on_notice(&notice);
            }
            Effect::SetTimer { timer, .. } => {
                check_kind(&timer, names);
                let timer = (me, Input::Timer(timer));
                if !pool.contains(&timer) {
                    pool.push(timer);
                }
            }
            Effect::CancelTimer(timer) => {
                let timer = (me, Input::Timer(timer));
                pool.retain(|it| *it != timer);
            }
            Effect::Save(stable) => check(&stable, names),
        }
    }
}
