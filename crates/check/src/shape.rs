use conclave_protocol::{Promise, Ranks, Says};

use crate::local::Watch;
use crate::{CheckSpec, Timers};

/// What the search has to know of the system beside its parts.
#[derive(Clone, Debug)]
pub(crate) struct SystemShape {
    pub(crate) n: usize,
    /// The links, by sender and then receiver; in a state they come after the nodes.
    pub(crate) links: Vec<(u8, u8)>,
    pub(crate) timers: Timers,
    pub(crate) detector: bool,
    pub(crate) mid_step: bool,
    /// The nodes that may crash.
    pub(crate) mortal: u32,
    /// Whether nodes may be down, or the network apart.
    pub(crate) faulty: bool,
    pub(crate) watch: Watch,
    pub(crate) places: u32,
    pub(crate) ranks: Ranks,
    /// How many links the topology has, each direction counted.
    pub(crate) channels: u64,
    /// Whether orders of events are compared.
    pub(crate) compare: bool,
    /// The properties that are said of states.
    pub(crate) safety: Vec<&'static Promise>,
    /// Those said of how runs end.
    pub(crate) liveness: Vec<&'static Promise>,
}

impl SystemShape {
    pub(crate) fn new(spec: &CheckSpec, watch: Watch) -> Self {
        let n = spec.setup.n() as usize;
        let nodes = 0..n as u8;
        let links = nodes.clone().flat_map(|from| nodes.clone().map(move |to| (from, to)));
        let promises = spec.properties.iter().map(|property| Promise::of(*property));
        let (safety, liveness) = promises.partition(|it| matches!(it.says, Says::Always(_)));
        Self {
            n,
            links: links.filter(|(from, to)| from != to).collect(),
            timers: spec.timers,
            detector: spec.detector,
            mid_step: spec.budgets.mid_step,
            mortal: (0..n as u32).filter(|it| spec.mortal.contains(it)).map(|it| 1 << it).sum(),
            faulty: !spec.budgets.is_spent(),
            watch,
            places: spec.places,
            ranks: Ranks::new(&spec.setup.attributes),
            channels: spec.setup.topology.channels(),
            compare: spec.reduction,
            safety,
            liveness,
        }
    }

    /// How many numbers a state has.
    pub(crate) fn slots(&self) -> usize {
        self.n * self.n + 1
    }

    pub(crate) fn global_slot(&self) -> usize {
        self.n * self.n
    }

    /// The slot of a link.
    pub(crate) fn slot(&self, from: usize, to: usize) -> usize {
        self.n + self.link(from, to)
    }

    pub(crate) fn link(&self, from: usize, to: usize) -> usize {
        from * (self.n - 1) + to - usize::from(to > from)
    }

    /// Whether messages between the two do not get through.
    pub(crate) fn apart(&self, from: usize, to: usize, apart: u32) -> bool {
        (apart >> from ^ apart >> to) & 1 == 1
    }
}
