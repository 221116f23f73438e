//! A bench for the rules of an algorithm, one node and one event at a time.

use std::fmt;

use crate::{Ctx, Effect, Effects, Entry, Input, InputOf, NodeId, Protocol, Setup, Time, Topology};

/// The nodes of a system, for tests of single rules: each event is given by hand, and what the
/// rule asks for is returned instead of carried out.
///
/// ```ignore
/// let mut bench = Bench::complete(&PLAIN, 3);
/// assert_eq!(bench.at(0).request(Request::Acquire), [Effect::Broadcast(Msg::Request(first))]);
/// ```
pub struct Bench<P: Protocol> {
    topology: Topology,
    config: P::Config,
    now: Time,
    nodes: Vec<P>,
    booted: Vec<Vec<Effect<P>>>,
    choices: std::vec::IntoIter<u32>,
    rules: u32,
}

impl<P: Protocol> Bench<P> {
    /// Such a system, every node having booted for the first time at time 0. Panics if the algorithm
    /// does not run in it.
    pub fn new(entry: &Entry<P>, setup: &Setup) -> Self {
        let config = (entry.config)(setup).unwrap_or_else(|unfit| panic!("{unfit}"));
        let mut bench = Self {
            topology: setup.topology.clone(),
            config,
            now: Time::ZERO,
            nodes: Vec::new(),
            booted: Vec::new(),
            choices: Vec::new().into_iter(),
            rules: 0,
        };
        for node in bench.topology.clone().nodes() {
            let (state, effects) = bench.step(node, |ctx| P::boot(None, ctx));
            bench.nodes.push(state);
            bench.booted.push(effects);
        }
        bench
    }

    /// So many nodes, each with a link to each.
    pub fn complete(entry: &Entry<P>, nodes: u32) -> Self {
        Self::new(entry, &Setup::new(Topology::complete(nodes)))
    }

    /// The node at which something is to happen.
    pub fn at(&mut self, node: u32) -> At<'_, P> {
        At { bench: self, node: NodeId(node) }
    }

    /// What all clocks show from now on.
    pub fn clock(&mut self, now: Time) {
        self.now = now;
    }

    /// What the rules of the next step choose, in order; 0 from there on.
    pub fn choices(&mut self, choices: impl Into<Vec<u32>>) {
        self.choices = choices.into().into_iter();
    }

    fn step<T>(
        &mut self,
        node: NodeId,
        rule: impl FnOnce(&mut Ctx<P>) -> T,
    ) -> (T, Vec<Effect<P>>) {
        let choices = std::mem::take(&mut self.choices);
        let mut noted = Noted { effects: Vec::new(), choices };
        let mut ctx = Ctx::new(node, &self.topology, &self.config, self.now, &mut noted);
        let result = rule(&mut ctx);
        self.rules = ctx.rules();
        (result, noted.effects)
    }
}

impl<P: Protocol> fmt::Debug for Bench<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bench").field("nodes", &self.nodes).finish_non_exhaustive()
    }
}

/// A node of a [`Bench`].
#[derive(Debug)]
pub struct At<'b, P: Protocol> {
    bench: &'b mut Bench<P>,
    node: NodeId,
}

impl<P: Protocol> At<'_, P> {
    /// The application asks.
    pub fn request(self, request: P::Request) -> Vec<Effect<P>> {
        self.input(Input::Request(request))
    }

    /// A message arrives.
    pub fn message(self, from: u32, msg: P::Msg) -> Vec<Effect<P>> {
        self.input(Input::Message { from: NodeId(from), msg })
    }

    /// A timer runs out.
    pub fn timer(self, timer: P::Timer) -> Vec<Effect<P>> {
        self.input(Input::Timer(timer))
    }

    /// The failure detector suspects a peer.
    pub fn suspect(self, peer: u32) -> Vec<Effect<P>> {
        self.input(Input::Suspect(NodeId(peer)))
    }

    /// The failure detector trusts a peer again.
    pub fn restore(self, peer: u32) -> Vec<Effect<P>> {
        self.input(Input::Restore(NodeId(peer)))
    }

    /// Anything happens.
    pub fn input(self, input: InputOf<P>) -> Vec<Effect<P>> {
        let mut state = self.bench.nodes[self.node.index()].clone();
        let ((), effects) = self.bench.step(self.node, |ctx| state.step(input, ctx));
        self.bench.nodes[self.node.index()] = state;
        effects
    }

    /// The node crashes and boots again with what it had saved, if it remembers any.
    pub fn boot(self, saved: Option<P::Stable>) -> Vec<Effect<P>> {
        let (state, effects) = self.bench.step(self.node, |ctx| P::boot(saved, ctx));
        self.bench.nodes[self.node.index()] = state;
        effects
    }

    /// What it asked for when it booted for the first time.
    pub fn booted(self) -> Vec<Effect<P>> {
        self.bench.booted[self.node.index()].clone()
    }

    /// Its state.
    pub fn state(self) -> P {
        self.bench.nodes[self.node.index()].clone()
    }

    /// The numbered rules that ran in the latest step of any node.
    pub fn rules(self) -> Vec<u32> {
        (1..u32::BITS).filter(|rule| self.bench.rules >> rule & 1 == 1).collect()
    }
}

/// Notes effects, and answers choices as told.
struct Noted<P: Protocol> {
    effects: Vec<Effect<P>>,
    choices: std::vec::IntoIter<u32>,
}

impl<P: Protocol> Effects<P> for Noted<P> {
    fn emit(&mut self, effect: Effect<P>) {
        self.effects.push(effect);
    }

    fn choose(&mut self, n: u32) -> u32 {
        let choice = self.choices.next().unwrap_or(0);
        assert!(choice < n, "the rule chooses among {n}, and the test says {choice}");
        choice
    }
}
