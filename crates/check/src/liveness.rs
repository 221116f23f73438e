//! What is said of endless runs: "every request is granted", "in the end everybody follows a live
//! leader".
//!
//! An endless run of a finite system goes round in a strongly connected part of its graph for ever.
//! It counts only if it is fair: whatever could happen all the time (a message could arrive, a
//! timer run out, somebody inside leave) does happen in the end. Of a strongly connected part that
//! means: each such event happens within it, or is impossible somewhere in it. A run that goes
//! round the whole part then is fair, and every fair run ends up in such a part. So a property fails
//! exactly if there is one within the states that it forbids to stay in.

use std::collections::VecDeque;

use conclave_protocol::{NodeId, Property};
use rustc_hash::FxHashMap;

use crate::CheckError;
use crate::graph::{Edge, Edges, Graph};
use crate::search::Log;
use crate::witness::{Pick, names};
use crate::worker::{FAIR, Shape};

/// A run that ends in a loop.
pub(crate) struct Lasso {
    pub(crate) path: Vec<Pick>,
    /// The step that the loop begins with.
    pub(crate) loop_from: usize,
    pub(crate) why: String,
}

pub(crate) struct Liveness<'a> {
    graph: Graph,
    log: &'a Log,
    n: usize,
}

/// Which states a run may stay in for ever without keeping the property.
#[derive(Clone, Copy)]
enum Bad {
    /// Those where this node waits.
    Waits(usize),
    /// Those where somebody waits and nobody is inside.
    Stuck,
    /// All, if it comes back again and again to one that has not this bit.
    Lacks(u64),
}

impl Bad {
    fn allows(self, label: u64) -> bool {
        match self {
            Self::Waits(node) => label >> node & 1 == 1,
            Self::Stuck => label & 0xffff != 0 && label >> 16 & 0xffff == 0,
            Self::Lacks(_) => true,
        }
    }
}

impl<'a> Liveness<'a> {
    pub(crate) fn new(edges: &Edges, log: &'a Log, shape: &Shape) -> Self {
        Self { graph: Graph::new(edges, log), log, n: shape.n }
    }

    /// A fair run that violates the property, the `place`-th of those said of how runs end.
    pub(crate) fn lasso(&self, property: Property, place: usize) -> Option<Lasso> {
        match property {
            Property::NoStarvation => (0..self.n).find_map(|node| {
                let why = format!("{} asked and never enters", NodeId(node as u32));
                self.round(Bad::Waits(node), why)
            }),
            Property::NoDeadlock => {
                let lasso = self.round(Bad::Stuck, String::new())?;
                Some(lasso)
            }
            _ => self.round(Bad::Lacks(1 << (32 + place)), property.meaning().to_owned()),
        }
    }

    /// Refuses to say anything about endless runs, if there are any, where states stand for others
    /// that differ in the nodes' names: then it cannot be told who is treated fairly.
    pub(crate) fn expect_ends(&self, property: Property) -> Result<(), CheckError> {
        let mut endless = false;
        self.graph.components(
            |_| true,
            |it| {
                let again =
                    |state: u32| self.graph.edges(state).iter().any(|to| to.target == state);
                endless |= it.len() > 1 || again(it[0]);
            },
        );
        if !endless {
            return Ok(());
        }
        Err(CheckError::Contradiction(format!(
            "there are endless runs, in which each node has to be treated fairly, so names matter \
             to {property:?}: check it without --symmetry"
        )))
    }

    fn round(&self, bad: Bad, why: String) -> Option<Lasso> {
        let allowed = |state: u32| bad.allows(self.graph.label(state));
        let mut best: Option<(usize, Vec<u32>)> = None;
        self.graph.components(allowed, |component| {
            let wanted = match bad {
                Bad::Lacks(bit) => component.iter().any(|&it| self.graph.label(it) & bit == 0),
                _ => true,
            };
            if wanted && self.is_fair(component) {
                let nearest = component.iter().map(|&it| self.log.path(it).len()).min();
                let nearest = nearest.unwrap_or(usize::MAX);
                if best.as_ref().is_none_or(|(known, _)| nearest < *known) {
                    best = Some((nearest, component.to_vec()));
                }
            }
        });
        let (_, component) = best?;
        Some(self.go_round(&component, bad, why))
    }

    /// Whether each event that is possible all over the component happens within it; and whether
    /// it can be gone round at all.
    fn is_fair(&self, component: &[u32]) -> bool {
        let inside = Members::new(component);
        let has_edge = component
            .iter()
            .any(|&it| self.graph.edges(it).iter().any(|edge| inside.has(edge.target)));
        has_edge && self.demands(component, &inside).is_some()
    }

    /// For each event that must not be left out: a state where it is impossible, or an edge.
    /// `None` if an event is possible all over the component and leads out of it everywhere.
    fn demands(&self, component: &[u32], inside: &Members) -> Option<Vec<Demand>> {
        let mut possible: FxHashMap<u16, usize> = FxHashMap::default();
        let mut happens: FxHashMap<u16, (u32, usize)> = FxHashMap::default();
        for &state in component {
            let mut here: Vec<u16> = Vec::new();
            for (place, edge) in self.graph.edges(state).iter().enumerate() {
                if edge.flags & FAIR == 0 {
                    continue;
                }
                if !here.contains(&edge.event) {
                    here.push(edge.event);
                }
                if inside.has(edge.target) {
                    happens.entry(edge.event).or_insert((state, place));
                }
            }
            for event in here {
                *possible.entry(event).or_default() += 1;
            }
        }
        let mut demands = Vec::new();
        let mut events: Vec<(u16, usize)> = possible.into_iter().collect();
        events.sort_unstable();
        for (event, states) in events {
            if let Some(&(state, place)) = happens.get(&event) {
                demands.push(Demand { state, edge: Some(place) });
            } else if states < component.len() {
                let impossible = |state: &&u32| {
                    !self.graph.edges(**state).iter().any(|edge| edge.event == event)
                };
                let state = component.iter().find(impossible).copied()?;
                demands.push(Demand { state, edge: None });
            } else {
                return None;
            }
        }
        Some(demands)
    }

    /// The way into the component and round it, past everything that fairness demands.
    fn go_round(&self, component: &[u32], bad: Bad, why: String) -> Lasso {
        let inside = Members::new(component);
        let first = component.iter().copied().min_by_key(|&it| (self.log.path(it).len(), it));
        let first = first.expect("a component has states");
        let mut path: Vec<Pick> = self.log.path(first).into_iter().map(Pick::Print).collect();
        let loop_from = path.len();
        let mut demands = self.demands(component, &inside).expect("the component is fair");
        if let Bad::Lacks(bit) = bad {
            let lacking = component.iter().find(|&&it| self.graph.label(it) & bit == 0);
            demands.extend(lacking.map(|&state| Demand { state, edge: None }));
        }
        let mut here = first;
        for demand in demands {
            here = self.walk(here, demand.state, &inside, &mut path);
            if let Some(place) = demand.edge {
                here = self.step(here, place, &mut path);
            }
        }
        if path.len() == loop_from {
            // Nothing is demanded; any step that stays inside will do.
            let edges = self.graph.edges(here);
            if let Some(place) = edges.iter().position(|edge| inside.has(edge.target)) {
                here = self.step(here, place, &mut path);
            }
        }
        self.walk(here, first, &inside, &mut path);
        let why = match bad {
            Bad::Stuck => {
                let waiting = self.graph.label(first) & 0xffff;
                let who = (0..self.n).filter(|node| waiting >> node & 1 == 1);
                let who = names(who.map(|node| NodeId(node as u32)));
                format!("{who} asked, and for ever nobody is inside")
            }
            Bad::Waits(_) => why,
            Bad::Lacks(_) => format!("never true for good: {why}"),
        };
        Lasso { path, loop_from, why }
    }

    fn step(&self, from: u32, place: usize, path: &mut Vec<Pick>) -> u32 {
        path.push(Pick::Place(place));
        self.graph.edges(from)[place].target
    }

    /// Goes from one state to another by the shortest way within the component.
    fn walk(&self, from: u32, to: u32, inside: &Members, path: &mut Vec<Pick>) -> u32 {
        let mut reached: FxHashMap<u32, (u32, usize)> = FxHashMap::default();
        let mut queue = VecDeque::from([from]);
        while from != to && !reached.contains_key(&to) {
            let here = queue.pop_front().expect("a component is strongly connected");
            for (place, edge) in self.graph.edges(here).iter().enumerate() {
                let Edge { target, .. } = *edge;
                if target != from && inside.has(target) && !reached.contains_key(&target) {
                    reached.insert(target, (here, place));
                    queue.push_back(target);
                }
            }
        }
        let mut places = Vec::new();
        let mut here = to;
        while here != from {
            let (before, place) = reached[&here];
            places.push(Pick::Place(place));
            here = before;
        }
        path.extend(places.into_iter().rev());
        to
    }
}

/// Something that a fair round has to pass.
struct Demand {
    state: u32,
    /// The edge to take there, by its place; none if being there is enough.
    edge: Option<usize>,
}

/// A set of states, for asking.
struct Members(rustc_hash::FxHashSet<u32>);

impl Members {
    fn new(states: &[u32]) -> Self {
        Self(states.iter().copied().collect())
    }

    fn has(&self, state: u32) -> bool {
        self.0.contains(&state)
    }
}
