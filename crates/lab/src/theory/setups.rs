//! How to set up the case of each row of the theory as runs of the simulator.
//!
//! `T` is one millisecond and everything happens in unit delays unless the row says otherwise.
//! Where a case says "a process", several are tried.

use std::ops::Range;
use std::time::Duration;

use conclave_algorithms::catalogue;
use conclave_protocol::{Info, NodeId, Setup, Time, Topology};
use conclave_sim::{
    Action, Arrivals, Ask, Costs, Delay, Event, Outcome, RunSpec, Spread, Workload,
};

use super::Row;
use super::formula::{Params, whole};

/// `T`, the unit of the theory.
pub const T: Duration = Duration::from_millis(1);

/// `E` where a case does not say how long a process stays inside, in units of `T`.
const STAY: u32 = 50;

/// The moment `t` units after the beginning.
pub fn at(t: u32) -> Time {
    Time::ZERO + T * t
}

/// One way to bring a case about, and what of it counts.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Runs to try, until one is as [`provided`](Self::provided).
    pub specs: Vec<RunSpec>,
    /// What makes a run an example of the case.
    pub provided: Provided,
    /// Which messages and requests the figures are about.
    pub scope: Scope,
    /// Whether nothing but the request itself sets off what leads to the entry, so that the time
    /// to enter is the length of a causal chain.
    pub causal: bool,
}

/// What makes a run an example of a case that involves chance.
#[derive(Clone, Copy, Debug)]
pub enum Provided {
    /// Every run is one.
    Always,
    /// `node` got in at its attempt number `attempts`, having collected `grants` grants in all.
    Attempts {
        /// The requester.
        node: NodeId,
        /// How many coordinators it asks at a time.
        targets: u64,
        /// How often it asked.
        attempts: u64,
        /// How many grants it got.
        grants: u64,
    },
}

/// Which messages and requests of a run the figures are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every message; delays are those of the first to enter.
    Run,
    /// The same on a medium that multicasts in one transmission.
    Transmissions,
    /// One request, by its place in the order of asking.
    Entry(usize),
    /// Each request, all alike.
    EachEntry,
    /// All requests of one node.
    Node(NodeId),
    /// What is sent between the first request and the entry it leads to.
    WhileWaiting,
    /// The mean over all entries, which the figure bounds from above.
    AtMost,
    /// What arrives, but for acknowledgements, until nothing is on its way any more.
    Arrivals,
}

/// A row of the theory that is run, further parameters to run it with, and how.
struct Case {
    id: &'static str,
    scenario: &'static str,
    further: &'static [&'static [(&'static str, u32)]],
    plan: fn(&Given) -> Vec<Experiment>,
}

/// What a row gives for one run: the algorithm and the values of the parameters.
struct Given {
    info: &'static Info,
    params: Params,
}

/// The parameters of a row: those of its instances and some more.
pub fn parameters(row: &Row) -> Vec<Params> {
    let worked_out = row.instances().map(|(params, _)| params);
    let further = find(row).map_or(&[][..], |case| case.further).iter().map(|params| {
        params.iter().map(|&(name, value)| (name.to_owned(), whole(value))).collect()
    });
    let mut all: Vec<Params> = worked_out.chain(further).collect();
    for params in &mut all {
        params.entry("T".into()).or_insert_with(|| whole(1));
        params.entry("E".into()).or_insert_with(|| whole(STAY));
    }
    all
}

/// The ways to set up the case of a row, or why there are none.
pub fn experiments(row: &Row, params: &Params) -> Result<Vec<Experiment>, String> {
    let info = catalogue::find(&row.id).ok_or_else(|| format!("{} does not exist", row.id))?;
    let case = find(row).ok_or_else(|| format!("nobody has said how to run {row}"))?;
    Ok((case.plan)(&Given { info, params: params.clone() }))
}

fn find(row: &Row) -> Option<&'static Case> {
    CASES.iter().find(|case| case.id == row.id && case.scenario == row.scenario)
}

type Further = &'static [&'static [(&'static str, u32)]];

const SIZES: Further =
    &[&[("N", 2)], &[("N", 4)], &[("N", 6)], &[("N", 10)], &[("N", 17)], &[("N", 40)]];
const CROWDS: Further =
    &[&[("M", 2), ("E", 50)], &[("M", 4), ("E", 7)], &[("M", 9), ("E", 3)], &[("M", 30), ("E", 1)]];
const REPLICAS: Further =
    &[&[("n", 1), ("m", 1)], &[("n", 4), ("m", 3)], &[("n", 7), ("m", 4)], &[("n", 9), ("m", 9)]];
const DISTANCES: Further = &[&[("d", 2)], &[("d", 4)], &[("d", 9)], &[("d", 20)]];

const fn case(
    id: &'static str,
    scenario: &'static str,
    further: Further,
    plan: fn(&Given) -> Vec<Experiment>,
) -> Case {
    Case { id, scenario, further, plan }
}

static CASES: &[Case] = &[
    case("mutex/centralized", "idle", SIZES, Given::lone_client_of_one_server),
    case("mutex/centralized", "burst", CROWDS, Given::crowd_at_one_server),
    case("mutex/centralized", "coordinator-is-requester", SIZES, |g| g.lone(g.complete(), 0)),
    case("mutex/centralized-deny", "idle", SIZES, Given::lone_client_of_one_server),
    case("mutex/centralized-deny", "burst", CROWDS, Given::crowd_at_one_server),
    case("mutex/replicated-coordinator", "idle-ask-m", REPLICAS, |g| {
        let setup = g.replicas(1).with("majority", g.n("m")).with("mode", "ask-m");
        g.lone(setup, g.n("n"))
    }),
    case("mutex/replicated-coordinator", "k-attempts-no-partial", ATTEMPTS, Given::attempts),
    case("mutex/replicated-coordinator", "k-attempts-g-partial", PARTIAL_ATTEMPTS, Given::attempts),
    case("mutex/lin-sigma", "idle", REPLICAS, |g| g.lone(g.replicas(1), g.n("n"))),
    case("mutex/lamport", "idle", SIZES, Given::lone_among_equals),
    case("mutex/lamport", "burst", SIZES, Given::everybody),
    case("mutex/lamport-ack-suppression", "idle", SIZES, Given::lone_among_equals),
    case("mutex/lamport-ack-suppression", "burst", SIZES, Given::everybody),
    case("mutex/ricart-agrawala", "idle", SIZES, Given::lone_among_equals),
    case("mutex/ricart-agrawala", "idle-serial-medium", SIZES, |g| {
        let mut lone = g.lone_among_equals();
        for experiment in &mut lone {
            experiment.causal = false;
            experiment.specs[0].delays = Delay::Serial(T).into();
        }
        lone
    }),
    case("mutex/ricart-agrawala", "idle-hardware-multicast", SIZES, |g| {
        g.lone_among_equals().into_iter().map(|e| e.about(Scope::Transmissions)).collect()
    }),
    case("mutex/ricart-agrawala", "burst", SIZES, Given::everybody),
    // Only deferrals are announced; nobody asks again whether it is still in the queue.
    case("mutex/ricart-agrawala-queued", "burst", SIZES, |g| {
        g.burst(g.complete().with("probe", 0))
    }),
    case("mutex/roucairol-carvalho", "first-entry-of-id-i", FIRST_ENTRIES, |g| {
        g.lone(g.complete(), g.n("i"))
    }),
    case("mutex/roucairol-carvalho", "repeat", SIZES, |g| {
        let last = g.n("N") - 1;
        vec![g.planned(g.complete(), &[(last, 0), (last, 200)]).about(Scope::Entry(1))]
    }),
    case("mutex/roucairol-carvalho", "alternate", SIZES, |g| {
        let last = g.n("N") - 1;
        let plan = [(0, 0), (last, 200), (0, 400), (last, 600)];
        let turns = g.planned(g.complete(), &plan);
        vec![turns.clone().about(Scope::Entry(2)), turns.about(Scope::Entry(3))]
    }),
    case("mutex/roucairol-carvalho", "burst", SIZES, Given::everybody),
    case("mutex/ricart-agrawala-token", "non-holder", SIZES, Given::lone_non_holder),
    case("mutex/ricart-agrawala-token", "holder", SIZES, |g| g.lone(g.complete(), 0)),
    case("mutex/suzuki-kasami", "non-holder", SIZES, Given::lone_non_holder),
    case("mutex/suzuki-kasami", "holder", SIZES, |g| g.lone(g.complete(), 0)),
    case("mutex/suzuki-kasami", "burst", SIZES, Given::everybody),
    case("mutex/maekawa", "idle-projective", PLANES, |g| {
        g.lone_each(g.complete().with("quorum", "projective-plane"), 0..g.n("N"))
    }),
    case("mutex/maekawa", "idle-grid", SQUARES, |g| {
        g.lone_each(g.complete().with("quorum", "grid"), 0..g.n("N"))
    }),
    // The Fano plane of the theory counts its points from one.
    case("mutex/maekawa", "handover-third-party-voter", &[], |g| g.handover_of_voters(4)),
    case("mutex/maekawa", "handover-own-voter", &[], |g| g.handover_of_voters(3)),
    case("mutex/maekawa-sanders", "idle", QUORUMS, |g| g.lone_each(g.quorums(), 0..g.n("N"))),
    case("mutex/maekawa-sanders", "contended-bound", QUORUMS, Given::every_load),
    case("mutex/majority-permission", "idle", SIZES, Given::lone_among_equals),
    case("mutex/token-ring", "saturated", SIZES, Given::everybody_always),
    case("mutex/token-ring", "idle-revolutions", REVOLUTIONS, |g| {
        let mut spec = RunSpec::new(g.info, g.ring());
        spec.linger = None;
        // The token goes on at every multiple of T.
        spec.until = at(g.n("N") * g.n("R") - 1);
        vec![Experiment::of(spec)]
    }),
    case("mutex/token-ring", "distance-d", RING_DISTANCES, |g| {
        let [lone] = g.lone(g.ring(), g.n("d")).try_into().expect("one requester");
        vec![Experiment { causal: false, ..lone }.about(Scope::Entry(0))]
    }),
    case("mutex/token-ring", "just-missed", SIZES, |g| {
        let [lone] = g.lone(g.ring(), 0).try_into().expect("one requester");
        vec![Experiment { causal: false, ..lone }.about(Scope::WhileWaiting)]
    }),
    case("mutex/token-ring-on-demand", "non-holder", SIZES, |g| g.lone_each(g.ring(), 1..g.n("N"))),
    case("mutex/raymond-tree", "distance-d", DISTANCES, |g| g.lone_at_distance(g.n("d"))),
    case("mutex/raymond-tree", "chain-ends", SIZES, |g| g.lone_at_distance(g.n("N") - 1)),
    case("mutex/raymond-tree", "star-leaf-to-leaf", STARS, |g| {
        g.lone_each(g.shaped(Topology::star).with("holder", 1), 2..g.n("N"))
    }),
    case("mutex/raymond-tree", "burst-chain", SIZES, |g| g.burst(g.shaped(Topology::line))),
    case("mutex/raymond-tree", "burst-star", SIZES, |g| g.burst(g.shaped(Topology::star))),
    case("mutex/tree-token-fair", "distance-d", DISTANCES, |g| g.lone_at_distance(g.n("d"))),
    case("mutex/naimi-trehel", "first", SIZES, Given::lone_non_holder),
    case("mutex/raymond-k", "idle", UNITS, |g| g.lone_each(g.units(), 0..g.n("N"))),
    case("mutex/raymond-k", "repeated-beside-K-1-holders", REPEATED, Given::beside_holders),
    case("mutex/bakery-message-passing", "idle", SIZES, Given::lone_among_equals),
    case("mutex/physical-clock-order", "idle", SIZES, Given::lone_non_holder),
    case("election/bully", "probing", ABOVE, |g| g.election("probing", g.n("a"))),
    case("election/bully", "known-dead", LIVE_ABOVE, |g| g.election("known-dead", g.n("b") + 1)),
    case("election/wireless-tree", "connected-graph", GRAPHS, Given::flooded_graphs),
    case("election/tree-mattern", "k-initiators", CALLED_TREES, Given::called_trees),
    case("election/chang-roberts", "single-initiator", RING_CALLERS, |g| {
        vec![g.planned(g.ring(), &[(g.n("N") - 1 - g.n("d"), 10)]).whole()]
    }),
    case("election/chang-roberts", "all-start-descending", SIZES, |g| {
        g.all_call(g.ring().with_attributes((0..u64::from(g.n("N"))).rev().collect::<Vec<_>>()))
    }),
    case("election/chang-roberts", "all-start-ascending", SIZES, |g| g.all_call(g.ring())),
    case("election/chang-roberts", "average-all-start", FEW, Given::all_call_in_every_order),
    case("election/ring-list", "I-initiators", INITIATORS, |g| {
        let calls: Vec<_> = (0..g.n("I")).map(|node| (node, 10)).collect();
        let live = Setup::new(Topology::complete(g.n("L")));
        vec![g.planned(live, &calls).whole()]
    }),
    case("election/ring-modified", "replay-002", &[], |g| {
        let mut replay = g.planned(Setup::new(Topology::complete(6)), &[(2, 10)]);
        let spec = &mut replay.specs[0];
        // Only missing acknowledgements tell of crashes.
        spec.detector = None;
        let crash = |node| Action::Crash(NodeId(node));
        let faults = std::mem::take(&mut spec.faults);
        spec.faults = faults.with(Time::ZERO, crash(5)).with(at(17), crash(4));
        vec![replay.whole()]
    }),
    case("election/frederickson-lynch", "simultaneous-start", LOWEST, |g| {
        let lowest = u64::from(g.n("u"));
        let ids = || (0..u64::from(g.n("N"))).map(|i| lowest + i);
        let rising = g.ring().with_attributes(ids().collect::<Vec<_>>());
        let falling = g.ring().with_attributes(ids().rev().collect::<Vec<_>>());
        [rising, falling].into_iter().flat_map(|setup| g.all_call(setup)).collect()
    }),
];

const ATTEMPTS: Further =
    &[&[("m", 2), ("k", 1)], &[("m", 2), ("k", 4)], &[("m", 3), ("k", 2)], &[("m", 4), ("k", 3)]];
const PARTIAL_ATTEMPTS: Further = &[
    &[("m", 2), ("k", 3), ("g", 1)],
    &[("m", 2), ("k", 3), ("g", 2)],
    &[("m", 3), ("k", 2), ("g", 1)],
    &[("m", 3), ("k", 2), ("g", 2)],
];
const FIRST_ENTRIES: Further =
    &[&[("N", 2), ("i", 1)], &[("N", 5), ("i", 3)], &[("N", 20), ("i", 13)]];
const PLANES: Further = &[
    &[("N", 21), ("K", 5)],
    &[("N", 31), ("K", 6)],
    &[("N", 57), ("K", 8)],
    &[("N", 73), ("K", 9)],
];
const SQUARES: Further = &[&[("N", 25), ("s", 5)], &[("N", 36), ("s", 6)], &[("N", 81), ("s", 9)]];
const QUORUMS: Further = &[
    &[("N", 3), ("K", 2)],
    &[("N", 13), ("K", 4)],
    &[("N", 16), ("K", 7)],
    &[("N", 21), ("K", 5)],
];
const REVOLUTIONS: Further =
    &[&[("N", 2), ("R", 1)], &[("N", 7), ("R", 10)], &[("N", 30), ("R", 4)]];
const RING_DISTANCES: Further =
    &[&[("N", 2), ("d", 1)], &[("N", 5), ("d", 3)], &[("N", 20), ("d", 19)]];
const STARS: Further = &[&[("N", 3)], &[("N", 4)], &[("N", 20)]];
const UNITS: Further =
    &[&[("N", 2), ("K", 1)], &[("N", 5), ("K", 4)], &[("N", 9), ("K", 4)], &[("N", 20), ("K", 7)]];
const REPEATED: Further = &[
    &[("N", 5), ("K", 3), ("R", 1)],
    &[("N", 7), ("K", 4), ("R", 5)],
    &[("N", 12), ("K", 5), ("R", 9)],
];
const GRAPHS: Further = &[
    &[("n", 2), ("E", 1)],
    &[("n", 5), ("E", 10)],
    &[("n", 9), ("E", 12)],
    &[("n", 30), ("E", 29)],
    &[("n", 40), ("E", 300)],
];
const CALLED_TREES: Further = &[
    &[("n", 2), ("k", 1)],
    &[("n", 2), ("k", 2)],
    &[("n", 5), ("k", 5)],
    &[("n", 20), ("k", 7)],
    &[("n", 100), ("k", 1)],
];
// With two nodes, one of them dead, there is nobody to tell and the last hop is missing.
const ABOVE: Further =
    &[&[("N", 3), ("a", 1)], &[("N", 5), ("a", 2)], &[("N", 9), ("a", 8)], &[("N", 20), ("a", 11)]];
const LIVE_ABOVE: Further =
    &[&[("N", 2), ("b", 0)], &[("N", 5), ("b", 1)], &[("N", 9), ("b", 7)], &[("N", 20), ("b", 11)]];
const RING_CALLERS: Further = &[
    &[("N", 2), ("d", 0)],
    &[("N", 3), ("d", 1)],
    &[("N", 20), ("d", 7)],
    &[("N", 40), ("d", 39)],
];
const FEW: Further = &[&[("N", 2)], &[("N", 3)], &[("N", 5)]];
const INITIATORS: Further =
    &[&[("L", 2), ("I", 1)], &[("L", 5), ("I", 5)], &[("L", 12), ("I", 4)], &[("L", 40), ("I", 1)]];
const LOWEST: Further = &[
    &[("N", 2), ("u", 1)],
    &[("N", 9), ("u", 2)],
    &[("N", 20), ("u", 5)],
    &[("N", 100), ("u", 1)],
];

impl Experiment {
    fn of(spec: RunSpec) -> Self {
        let specs = vec![spec];
        Self { specs, provided: Provided::Always, scope: Scope::Run, causal: false }
    }

    fn about(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// About all that arrives, however long it takes.
    fn whole(mut self) -> Self {
        for spec in &mut self.specs {
            spec.linger = None;
        }
        self.about(Scope::Arrivals)
    }
}

impl Given {
    /// The value of a parameter; where the row leaves open how many there are, five.
    fn n(&self, name: &str) -> u32 {
        let value = self.params.get(name).and_then(|value| value.to_u64());
        value.map_or(5, |value| value.try_into().expect("parameters are small"))
    }

    fn shaped(&self, shape: fn(u32) -> Topology) -> Setup {
        Setup::new(shape(self.n("N")))
    }

    fn complete(&self) -> Setup {
        self.shaped(Topology::complete)
    }

    fn ring(&self) -> Setup {
        self.shaped(Topology::ring)
    }

    fn units(&self) -> Setup {
        self.complete().with("units", self.n("K"))
    }

    /// The sets of voters that have this size.
    fn quorums(&self) -> Setup {
        let (n, k) = (self.n("N"), self.n("K"));
        let plane = n == k * (k - 1) + 1;
        self.complete().with("quorum", if plane { "projective-plane" } else { "grid" })
    }

    /// `n` coordinators and some clients.
    fn replicas(&self, clients: u32) -> Setup {
        let n = self.n("n");
        Setup::new(Topology::complete(n + clients)).with("coordinators", n)
    }

    /// These nodes ask at these times, and stay inside for `E`.
    fn planned(&self, setup: Setup, asks: &[(u32, u32)]) -> Experiment {
        let mut spec = RunSpec::new(self.info, setup);
        let ask = |&(node, t)| Ask { node: NodeId(node), at: at(t), hold: None };
        spec.workload = Workload {
            arrivals: Arrivals::Plan(asks.iter().map(ask).collect()),
            hold: Spread::exactly(T * self.n("E")),
        };
        Experiment { causal: true, ..Experiment::of(spec) }
    }

    fn lone(&self, setup: Setup, node: u32) -> Vec<Experiment> {
        vec![self.planned(setup, &[(node, 0)])]
    }

    /// The first, the middle and the last of `nodes`, each alone.
    fn lone_each(&self, setup: Setup, nodes: Range<u32>) -> Vec<Experiment> {
        let (first, last) = (nodes.start, nodes.end - 1);
        let tried = std::collections::BTreeSet::from([first, first.midpoint(last), last]);
        tried.into_iter().flat_map(|node| self.lone(setup.clone(), node)).collect()
    }

    fn lone_among_equals(&self) -> Vec<Experiment> {
        self.lone_each(self.complete(), 0..self.n("N"))
    }

    /// Node 0 has the token, or is the server.
    fn lone_non_holder(&self) -> Vec<Experiment> {
        self.lone_each(self.complete(), 1..self.n("N"))
    }

    fn lone_client_of_one_server(&self) -> Vec<Experiment> {
        self.lone_non_holder()
    }

    fn crowd_at_one_server(&self) -> Vec<Experiment> {
        let crowd = self.n("M");
        let asks: Vec<_> = (1..=crowd).map(|node| (node, 0)).collect();
        vec![self.together(Setup::new(Topology::complete(crowd + 1)), &asks)]
    }

    /// On a line with the token at its beginning, and on one with the token at its end.
    fn lone_at_distance(&self, d: u32) -> Vec<Experiment> {
        let line = Setup::new(Topology::line(d + 1));
        let mut lone = self.lone(line.clone().with("holder", 0), d);
        lone.extend(self.lone(line.with("holder", d), 0));
        lone
    }

    /// A request that is not alone may enter on what others send of their own accord.
    fn together(&self, setup: Setup, asks: &[(u32, u32)]) -> Experiment {
        Experiment { causal: false, ..self.planned(setup, asks) }
    }

    fn burst(&self, setup: Setup) -> Vec<Experiment> {
        let asks: Vec<_> = (0..setup.n()).map(|node| (node, 0)).collect();
        vec![self.together(setup, &asks)]
    }

    fn everybody(&self) -> Vec<Experiment> {
        self.burst(self.complete())
    }

    fn closed_loop(&self, setup: Setup, rounds: u32, think: Duration) -> Experiment {
        let mut spec = RunSpec::new(self.info, setup);
        spec.workload = Workload {
            arrivals: Arrivals::Closed {
                clients: 0..self.n("N"),
                rounds: Some(rounds),
                first: Spread::between(Duration::ZERO, think),
                think: Spread::between(Duration::ZERO, think),
            },
            hold: Spread::exactly(T),
        };
        Experiment::of(spec)
    }

    fn everybody_always(&self) -> Vec<Experiment> {
        vec![self.closed_loop(self.ring(), 6, Duration::ZERO).about(Scope::EachEntry)]
    }

    /// From saturation to hardly ever two at once, with delays that vary.
    fn every_load(&self) -> Vec<Experiment> {
        let loads = (0..60_u32).map(|seed| {
            let mut load = self.closed_loop(self.quorums(), 8, T * (seed % 12) * (seed % 5));
            load.specs[0].seed = u64::from(seed);
            if seed % 3 > 0 {
                load.specs[0].delays = Delay::Uniform(T / 20, T).into();
            }
            load.about(Scope::AtMost)
        });
        loads.collect()
    }

    /// Point 1 of the Fano plane is inside, and the given node waits.
    fn handover_of_voters(&self, waiter: u32) -> Vec<Experiment> {
        let fano = Setup::new(Topology::complete(7)).with("quorum", "projective-plane");
        vec![self.together(fano, &[(0, 0), (waiter, 10)])]
    }

    /// `K-1` nodes stay inside while another comes and goes.
    fn beside_holders(&self) -> Vec<Experiment> {
        let (others, rounds) = (self.n("K") - 1, self.n("R"));
        let asks: Vec<_> = (0..others)
            .map(|node| (node, 0))
            .chain((0..rounds).map(|round| (self.n("N") - 1, 10 + 100 * round)))
            .collect();
        let mut beside = self.planned(self.units(), &asks);
        if let Arrivals::Plan(asks) = &mut beside.specs[0].workload.arrivals {
            asks[..others as usize]
                .iter_mut()
                .for_each(|ask| ask.hold = Some(T * 100 * (rounds + 1)));
        }
        vec![beside.about(Scope::Node(NodeId(self.n("N") - 1)))]
    }

    /// A client holds the coordinators for so long that another has to try several times. When it
    /// tries, and whom it asks, is up to chance.
    fn attempts(&self) -> Vec<Experiment> {
        let (m, k) = (self.n("m"), self.n("k"));
        let g = if self.params.contains_key("g") { self.n("g") } else { 0 };
        let n = 2 * m - 1;
        let (holder, node) = (n, n + 1);
        let setup = Setup::new(Topology::complete(n + 2));
        // Grants that fail are those of coordinators that the holder has not asked.
        let targets = if g == 0 { "fixed" } else { "random" };
        let setup = setup.with("coordinators", n).with("majority", m).with("targets", targets);
        let mut attempts = self.together(setup, &[(node, 10)]);
        let spec = attempts.specs.remove(0);
        for seed in 0..4000_u32 {
            let mut spec = spec.clone();
            spec.seed = u64::from(seed);
            if let Arrivals::Plan(asks) = &mut spec.workload.arrivals
                && k > 1
            {
                let hold = Some(T * (8 + 3 * (seed % 10)));
                asks.push(Ask { node: NodeId(holder), at: Time::ZERO, hold });
            }
            attempts.specs.push(spec);
        }
        let (targets, attempted) = (u64::from(m), u64::from(k));
        let node = NodeId(node);
        let grants = u64::from(m + g);
        attempts.provided = Provided::Attempts { node, targets, attempts: attempted, grants };
        vec![attempts.about(Scope::Node(node))]
    }

    /// These nodes ask, and the run lasts until nothing is left to happen.
    fn until_quiet(&self, setup: Setup, asks: &[(u32, u32)]) -> Experiment {
        let mut quiet = self.planned(setup, asks);
        quiet.specs[0].linger = None;
        quiet
    }

    /// A line with as many further links as there have to be, and a call from several places.
    fn flooded_graphs(&self) -> Vec<Experiment> {
        let (n, links) = (self.n("n"), self.n("E"));
        let pairs = |gap: u32| (0..n.saturating_sub(gap)).map(move |a| (a, a + gap));
        let line_first = (1..n).flat_map(pairs).map(|(a, b)| (NodeId(a), NodeId(b)));
        let links: Vec<_> = line_first.take(links as usize).collect();
        let graph = Topology::graph(n, &links).expect("a line is connected");
        let sources = std::collections::BTreeSet::from([0, n / 2, n - 1]);
        let flooded = |source| self.until_quiet(Setup::new(graph.clone()), &[(source, 0)]);
        sources.into_iter().map(flooded).collect()
    }

    /// Trees of several shapes, on which the first or the last nodes call at once.
    fn called_trees(&self) -> Vec<Experiment> {
        let (n, k) = (self.n("n"), self.n("k"));
        let mut called = Vec::new();
        for (name, seed) in [("line", 0), ("star", 0), ("binary", 0), ("tree", 1), ("tree", 2)] {
            let tree = conclave_sim::shape(name, n, seed).expect("there is such a tree");
            for callers in [0..k, n - k..n] {
                let asks: Vec<_> = callers.map(|node| (node, 0)).collect();
                called.push(self.until_quiet(Setup::new(tree.clone()), &asks));
            }
        }
        called
    }

    /// Everybody calls for an election at the same time.
    fn all_call(&self, setup: Setup) -> Vec<Experiment> {
        let calls: Vec<_> = (0..setup.n()).map(|node| (node, 10)).collect();
        vec![self.planned(setup, &calls).whole()]
    }

    /// A run for every order that attributes can have on the ring.
    fn all_call_in_every_order(&self) -> Vec<Experiment> {
        let mut orders = vec![Vec::new()];
        for next in 0..u64::from(self.n("N")) {
            let longer = orders.iter().flat_map(|order: &Vec<u64>| {
                (0..=order.len()).map(move |place| {
                    let (before, after) = order.split_at(place);
                    [before, &[next], after].concat()
                })
            });
            orders = longer.collect();
        }
        let of = |order: Vec<u64>| self.all_call(self.ring().with_attributes(order));
        let specs = orders.into_iter().flat_map(of).flat_map(|each| each.specs).collect();
        let [one] = self.all_call(self.ring()).try_into().expect("one way to call");
        vec![Experiment { specs, ..one }]
    }

    /// The top node is dead, and a node with `above` ids above it calls for an election.
    fn election(&self, mode: &str, above: u32) -> Vec<Experiment> {
        let top = self.n("N") - 1;
        let mut election = self.planned(self.complete().with("mode", mode), &[(top - above, 10)]);
        let faults = &mut election.specs[0].faults;
        *faults = std::mem::take(faults).with(Time::ZERO, Action::Crash(NodeId(top)));
        vec![election]
    }
}

impl Provided {
    /// Whether the run is an example of the case.
    pub fn holds(self, outcome: &Outcome, costs: &Costs) -> bool {
        let Self::Attempts { node, targets, attempts, grants } = self else { return true };
        let (mut asked, mut granted) = (0, 0);
        for record in &outcome.trace.records {
            match record.event() {
                Event::Send { label, .. } if record.node == node => {
                    asked += u64::from(outcome.trace.name(label).starts_with("Req"));
                }
                Event::Deliver { label, .. } if record.node == node => {
                    granted += u64::from(outcome.trace.name(label) == "Grant");
                }
                _ => {}
            }
        }
        let served = costs.entries.iter().all(|entry| entry.left.is_some());
        served && (asked, granted) == (targets * attempts, grants)
    }
}
