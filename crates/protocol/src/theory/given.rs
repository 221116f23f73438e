//! How cases that several algorithms have are brought about.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use super::{Ask, Asks, Experiment, Further, Pace, Run, Scope, T};
use crate::{NodeId, Setup, Time, Topology};

/// Numbers of nodes.
pub const SIZES: Further =
    &[&[("N", 2)], &[("N", 4)], &[("N", 6)], &[("N", 10)], &[("N", 17)], &[("N", 40)]];
/// Numbers of clients that ask one server at once, and how long they stay inside.
pub const CROWDS: Further =
    &[&[("M", 2), ("E", 50)], &[("M", 4), ("E", 7)], &[("M", 9), ("E", 3)], &[("M", 30), ("E", 1)]];
/// Numbers of coordinators, and how many of them make a majority.
pub const REPLICAS: Further =
    &[&[("n", 1), ("m", 1)], &[("n", 4), ("m", 3)], &[("n", 7), ("m", 4)], &[("n", 9), ("m", 9)]];
/// Distances from the requester to the token in a tree.
pub const DISTANCES: Further = &[&[("d", 2)], &[("d", 4)], &[("d", 9)], &[("d", 20)]];
/// The same on a ring.
pub const RING_DISTANCES: Further =
    &[&[("N", 2), ("d", 1)], &[("N", 5), ("d", 3)], &[("N", 20), ("d", 19)]];
/// Numbers of nodes, and of voters of each.
pub const QUORUMS: Further = &[
    &[("N", 3), ("K", 2)],
    &[("N", 13), ("K", 4)],
    &[("N", 16), ("K", 7)],
    &[("N", 21), ("K", 5)],
];

/// The moment `t` units after the beginning.
pub fn at(t: u32) -> Time {
    Time::ZERO + T * t
}

/// Draws the topology of this name among so many nodes, from a seed where there is chance in it.
pub type Shapes = fn(&str, u32, u64) -> Topology;

/// What a row gives for one run: the values of its parameters.
#[derive(Clone, Debug)]
pub struct Given {
    values: BTreeMap<String, u32>,
    shapes: Shapes,
}

impl Given {
    /// These values, and who draws topologies.
    pub fn new(values: BTreeMap<String, u32>, shapes: Shapes) -> Self {
        Self { values, shapes }
    }

    /// The value of a parameter; where the row leaves open how many there are, five.
    pub fn n(&self, name: &str) -> u32 {
        self.optional(name).unwrap_or(5)
    }

    /// The value of a parameter that the row may leave out.
    pub fn optional(&self, name: &str) -> Option<u32> {
        self.values.get(name).copied()
    }

    /// A system of `N` nodes with this topology.
    pub fn shaped(&self, shape: fn(u32) -> Topology) -> Setup {
        Setup::new(shape(self.n("N")))
    }

    /// A topology by its name, which may be drawn from a seed.
    pub fn drawn(&self, name: &str, n: u32, seed: u64) -> Topology {
        (self.shapes)(name, n, seed)
    }

    /// `N` nodes, each linked with each.
    pub fn complete(&self) -> Setup {
        self.shaped(Topology::complete)
    }

    /// `N` nodes in a ring.
    pub fn ring(&self) -> Setup {
        self.shaped(Topology::ring)
    }

    /// The sets of `K` voters each.
    pub fn quorums(&self) -> Setup {
        let (n, k) = (self.n("N"), self.n("K"));
        let plane = n == k * (k - 1) + 1;
        self.complete().with("quorum", if plane { "projective-plane" } else { "grid" })
    }

    /// `n` coordinators and some clients.
    pub fn replicas(&self, clients: u32) -> Setup {
        let n = self.n("n");
        Setup::new(Topology::complete(n + clients)).with("coordinators", n)
    }

    /// These nodes ask at these times, and stay inside for `E`.
    pub fn planned(&self, setup: Setup, asks: &[(u32, u32)]) -> Experiment {
        let ask = |&(node, t)| Ask { node: NodeId(node), at: at(t), hold: None };
        let asks = Asks::Planned(asks.iter().map(ask).collect());
        let run = Run::new(setup, asks, Some(T * self.n("E")));
        Experiment { causal: true, ..Experiment::of(run) }
    }

    /// One node asks while no other does.
    pub fn lone(&self, setup: Setup, node: u32) -> Vec<Experiment> {
        vec![self.planned(setup, &[(node, 0)])]
    }

    /// The first, the middle and the last of `nodes`, each alone.
    pub fn lone_each(&self, setup: Setup, nodes: Range<u32>) -> Vec<Experiment> {
        let (first, last) = (nodes.start, nodes.end - 1);
        let tried = BTreeSet::from([first, first.midpoint(last), last]);
        tried.into_iter().flat_map(|node| self.lone(setup.clone(), node)).collect()
    }

    /// The same of all nodes.
    pub fn lone_among_equals(&self) -> Vec<Experiment> {
        self.lone_each(self.complete(), 0..self.n("N"))
    }

    /// The same of all but node 0, which has the token or is the server.
    pub fn lone_non_holder(&self) -> Vec<Experiment> {
        self.lone_each(self.complete(), 1..self.n("N"))
    }

    /// `M` clients ask node 0 at once.
    pub fn crowd_at_one_server(&self) -> Vec<Experiment> {
        let crowd = self.n("M");
        let asks: Vec<_> = (1..=crowd).map(|node| (node, 0)).collect();
        vec![self.together(Setup::new(Topology::complete(crowd + 1)), &asks)]
    }

    /// On a line with the token at its beginning, and on one with the token at its end.
    pub fn lone_at_distance(&self, d: u32) -> Vec<Experiment> {
        let line = Setup::new(Topology::line(d + 1));
        let mut lone = self.lone(line.clone().with("holder", 0), d);
        lone.extend(self.lone(line.with("holder", d), 0));
        lone
    }

    /// A request that is not alone may enter on what others send of their own accord.
    pub fn together(&self, setup: Setup, asks: &[(u32, u32)]) -> Experiment {
        self.planned(setup, asks).not_causal()
    }

    /// All nodes of the system ask at once.
    pub fn burst(&self, setup: Setup) -> Vec<Experiment> {
        let asks: Vec<_> = (0..setup.n()).map(|node| (node, 0)).collect();
        vec![self.together(setup, &asks)]
    }

    /// All of `N` nodes ask at once, each linked with each.
    pub fn all_at_once(&self) -> Vec<Experiment> {
        self.burst(self.complete())
    }

    /// `N` nodes ask so often, each as soon as it has left and thought for up to so long.
    pub fn closed_loop(&self, setup: Setup, rounds: u32, think: Duration) -> Experiment {
        let clients = 0..self.n("N");
        let asks = Asks::Again { clients, rounds: Some(rounds), think };
        Experiment::of(Run::new(setup, asks, Some(T)))
    }

    /// From saturation to hardly ever two at once, with delays that vary.
    pub fn every_load(&self, setup: &Setup) -> Vec<Experiment> {
        let loads = (0..60_u32).map(|seed| {
            let think = T * (seed % 12) * (seed % 5);
            let mut load = self.closed_loop(setup.clone(), 8, think);
            load.runs[0].seed = u64::from(seed);
            if seed % 3 > 0 {
                load.runs[0].pace = Pace::Varying;
            }
            load.about(Scope::AtMost)
        });
        loads.collect()
    }

    /// These nodes ask, and the run lasts until nothing is left to happen.
    pub fn until_quiet(&self, setup: Setup, asks: &[(u32, u32)]) -> Experiment {
        let mut quiet = self.planned(setup, asks);
        quiet.runs[0].served = false;
        quiet
    }

    /// All nodes call for an election at the same time.
    pub fn all_call(&self, setup: Setup) -> Vec<Experiment> {
        let calls: Vec<_> = (0..setup.n()).map(|node| (node, 10)).collect();
        vec![self.planned(setup, &calls).whole()]
    }
}
