//! How a case is recognized in a run.

use std::ops::Range;

use super::{About, Ask, Asks, Pace, Run};
use crate::{Info, Links, NodeId, Time};

/// A run that may be an example of a case.
#[derive(Clone, Debug)]
pub struct Seen<'a> {
    /// The algorithm.
    pub info: &'a Info,
    /// The run.
    pub run: &'a Run,
    /// The nodes whose applications ask by default.
    pub clients: Range<u32>,
}

/// Values of parameters that are this case's own.
pub type Values = Vec<(&'static str, u64)>;

/// Which runs are examples of a case, and what of them its figures are about.
#[derive(Clone, Copy, Debug)]
pub struct Fits {
    /// What the figures are about.
    pub about: About,
    /// The case's own parameters, if the run is an example of it.
    pub when: fn(&Seen<'_>) -> Option<Values>,
}

/// Calls for an election, all at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calls {
    /// Who calls; the first of several.
    pub first: NodeId,
    /// How many call.
    pub count: u64,
    /// Whether the node with the highest id has crashed before.
    pub top_is_dead: bool,
}

impl Fits {
    /// One node asks and no other.
    pub const LONE: Self = Self { about: About::Lone, when: |seen| seen.lone().map(none) };
    /// Likewise, on a medium that takes one message at a time.
    pub const SERIAL: Self =
        Self { about: About::Lone, when: |seen| seen.single(Pace::Serial).map(none) };
    /// Likewise, on a medium that multicasts in one transmission.
    pub const MULTICAST: Self =
        Self { about: About::Transmissions, when: |seen| seen.lone().map(none) };
    /// The only one to ask is the node that has the token, or is the coordinator.
    pub const AT_HOLDER: Self = Self {
        about: About::Lone,
        when: |seen| seen.lone().filter(|ask| ask.node == seen.holder()).map(none),
    };
    /// The only one to ask is another node.
    pub const ELSEWHERE: Self = Self {
        about: About::Lone,
        when: |seen| seen.lone().filter(|ask| ask.node != seen.holder()).map(none),
    };
    /// The only one to ask is none of the replicated coordinators.
    pub const CLIENT: Self = Self { about: About::Lone, when: |seen| seen.lone_client().map(none) };
    /// All clients ask once, at the very beginning.
    pub const BURST: Self = Self { about: About::Burst, when: |seen| seen.burst() };
    /// The same on a line.
    pub const BURST_ON_LINE: Self =
        Self { about: About::Burst, when: |seen| seen.burst().filter(|_| seen.is_shaped("line")) };
    /// The same on a star.
    pub const BURST_ON_STAR: Self =
        Self { about: About::Burst, when: |seen| seen.burst().filter(|_| seen.is_shaped("star")) };
    /// Clients ask again and again without a pause.
    pub const SATURATED: Self = Self {
        about: About::Each,
        when: |seen| (seen.is_undisturbed() && seen.is_saturated()).then(Values::new),
    };
    /// Every entry costs the same, whatever the load.
    pub const EACH: Self =
        Self { about: About::Each, when: |seen| seen.is_load().then(Values::new) };
    /// No entry costs more on average, whatever the load.
    pub const AT_MOST: Self =
        Self { about: About::AtMost, when: |seen| seen.is_load().then(Values::new) };

    /// Whether it is about any load, so that a case about a special one goes first.
    pub fn is_general(&self) -> bool {
        matches!(self.about, About::Each | About::AtMost)
    }
}

fn none<T>(_: T) -> Values {
    Values::new()
}

impl Seen<'_> {
    /// What the option `name` is set to, if it is set.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.run.setup.options.get(name).map(String::as_str)
    }

    /// How many nodes there are.
    pub fn n(&self) -> u32 {
        self.run.setup.n()
    }

    /// Who has the token at first, or is the coordinator.
    pub fn holder(&self) -> NodeId {
        NodeId(self.run.setup.option("holder", 0).unwrap_or(0))
    }

    /// Whether no node crashes.
    pub fn is_undisturbed(&self) -> bool {
        self.run.crashes.is_empty()
    }

    fn is_shaped(&self, shape: &str) -> bool {
        self.run.setup.topology.shape() == shape
    }

    /// The requests, if they were planned.
    fn planned(&self) -> &[Ask] {
        match &self.run.asks {
            Asks::Planned(asks) => asks,
            Asks::Again { .. } | Asks::Open { .. } => &[],
        }
    }

    /// The only request of a run with such delays.
    fn single(&self, pace: Pace) -> Option<&Ask> {
        let [ask] = self.planned() else { return None };
        // A token that never rests is where the row has it only at the beginning.
        let moving = self.info.model.links == Links::Ring && ask.at > Time::ZERO;
        (self.is_undisturbed() && self.run.pace == pace && !moving).then_some(ask)
    }

    /// The only request of a run with unit delays.
    pub fn lone(&self) -> Option<&Ask> {
        self.single(Pace::Unit)
    }

    /// The same, of a node that is none of the replicated coordinators.
    pub fn lone_client(&self) -> Option<&Ask> {
        let setup = &self.run.setup;
        let coordinators = setup.option("coordinators", setup.n() / 2).unwrap_or(0);
        self.lone().filter(|ask| ask.node.0 >= coordinators)
    }

    /// Whether all clients ask once at the very beginning, node 0 having the token if there is one.
    pub fn burst(&self) -> Option<Values> {
        let asks = self.planned();
        let mut nodes: Vec<u32> = asks.iter().map(|ask| ask.node.0).collect();
        nodes.sort_unstable();
        let all = asks.len() > 1 && nodes.into_iter().eq(self.clients.clone());
        let alike = asks.iter().all(|ask| ask.at == Time::ZERO && ask.hold.is_none());
        let usual = self.is_undisturbed() && self.run.pace == Pace::Unit;
        (all && alike && usual && self.holder() == NodeId(0)).then(Values::new)
    }

    /// Whether clients ask again as soon as they have left.
    fn is_saturated(&self) -> bool {
        matches!(&self.run.asks, Asks::Again { rounds, think, .. }
            if think.is_zero() && rounds.is_none_or(|rounds| rounds > 1))
    }

    /// Whether this is a load like any other: more than one request, or delays that vary.
    pub fn is_load(&self) -> bool {
        let single = self.single(Pace::Unit).or_else(|| self.single(Pace::Serial));
        self.is_undisturbed() && single.is_none()
    }

    /// Whether `node` asks.
    pub fn asks(&self, node: NodeId) -> bool {
        match &self.run.asks {
            Asks::Planned(asks) => asks.iter().any(|ask| ask.node == node),
            Asks::Again { clients, .. } | Asks::Open { clients } => clients.contains(&node.0),
        }
    }

    /// The calls for an election, if they are made at one moment with unit delays, and no node has
    /// crashed but perhaps the one with the highest id, before.
    pub fn calls(&self) -> Option<Calls> {
        let (asks, top) = (self.planned(), NodeId(self.n() - 1));
        let first = asks.first()?;
        let together = asks.iter().all(|ask| ask.at == first.at);
        let top_is_dead = match self.run.crashes[..] {
            [] => false,
            [(node, at)] if node == top && at < first.at => true,
            _ => return None,
        };
        let alive = !top_is_dead || asks.iter().all(|ask| ask.node != top);
        (self.run.pace == Pace::Unit && together && alive).then_some(Calls {
            first: first.node,
            count: asks.len() as u64,
            top_is_dead,
        })
    }

    /// The only call for an election in which all nodes are up.
    pub fn only_call(&self) -> Option<NodeId> {
        let calls = self.calls().filter(|calls| !calls.top_is_dead && calls.count == 1)?;
        Some(calls.first)
    }
}
