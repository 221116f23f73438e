//! What is said of endless runs: "every request is granted", "in the end everybody follows a live
//! leader".
//!
//! An endless run of a finite system goes round in a strongly connected part of its graph for ever.
//! It counts only if it is fair: whatever could happen all the time (a message could arrive, a
//! timer run out, a node inside leave) does happen in the end. Of a strongly connected part that
//! means: each such event happens within it, or is impossible somewhere in it. A run that goes
//! round the whole part then is fair, and every fair run ends up in such a part. So a property fails
//! exactly if there is one within the states that it forbids to stay in.

use std::collections::VecDeque;

use conclave_protocol::{Lasting, NodeId, Owed, Promise, Property, Says};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::CheckError;
use crate::graph::{Edge, Edges, Graph};
use crate::search::Log;
use crate::witness::Pick;
use crate::worker::{FAIR, Labelled, SystemShape};

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
    /// Those where something is owed: to this node, or to anybody.
    Owes(Owed, Option<NodeId>),
    /// All, if it comes back again and again to one that has not this bit.
    Lacks(u64),
}

impl Bad {
    fn allows(self, label: u64) -> bool {
        match self {
            Self::Owes(owed, node) => {
                let state = Labelled(label);
                let those = (owed.to)(&state);
                node.map_or(!those.is_empty(), |node| those.has(node))
            }
            Self::Lacks(_) => true,
        }
    }
}

impl<'a> Liveness<'a> {
    pub(crate) fn new(edges: &Edges, log: &'a Log, shape: &SystemShape) -> Self {
        Self { graph: Graph::new(edges, log), log, n: shape.n }
    }

    /// A fair run that violates the property, the `place`-th of those said of how runs end.
    pub(crate) fn lasso(&self, property: Property, place: usize) -> Option<Lasso> {
        match Promise::of(property).says {
            Says::InTheEnd(owed) if owed.each => {
                let mut nodes = (0..self.n as u32).map(NodeId);
                nodes.find_map(|node| self.round(Bad::Owes(owed, Some(node)), property))
            }
            Says::InTheEnd(owed) => self.round(Bad::Owes(owed, None), property),
            Says::Always(_) | Says::AtRest(_) => {
                self.round(Bad::Lacks(1 << (32 + place)), property)
            }
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

    fn round(&self, bad: Bad, property: Property) -> Option<Lasso> {
        let allowed = |state: u32| bad.allows(self.graph.label(state));
        let mut best: Option<(usize, Vec<u32>)> = None;
        self.graph.components(allowed, |component| {
            let wanted = match bad {
                Bad::Lacks(bit) => component.iter().any(|&it| self.graph.label(it) & bit == 0),
                _ => true,
            };
            if wanted && self.is_fair(component) {
                let nearest = component.iter().map(|&it| self.log.depth(it)).min();
                let nearest = nearest.unwrap_or(usize::MAX);
                if best.as_ref().is_none_or(|(known, _)| nearest < *known) {
                    best = Some((nearest, component.to_vec()));
                }
            }
        });
        let (_, component) = best?;
        Some(self.go_round(&component, bad, property))
    }

    /// Whether each event that is possible all over the component happens within it; and whether
    /// it can be gone round at all.
    fn is_fair(&self, component: &[u32]) -> bool {
        let inside = Members::new(component);
        let mut possible: FxHashMap<u16, usize> = FxHashMap::default();
        let mut happens: FxHashSet<u16> = FxHashSet::default();
        let mut has_edge = false;
        for &state in component {
            for edge in self.graph.edges(state).iter().filter(|edge| inside.has(edge.target)) {
                has_edge = true;
                happens.insert(edge.event);
            }
            for event in self.forced(state) {
                *possible.entry(event).or_default() += 1;
            }
        }
        let kept =
            |(event, states): (&u16, &usize)| *states < component.len() || happens.contains(event);
        has_edge && possible.iter().all(kept)
    }

    /// The events that have to happen if they are possible for ever, and are in this state; each
    /// once.
    fn forced(&self, state: u32) -> Vec<u16> {
        let edges = self.graph.edges(state).iter();
        let mut forced: Vec<u16> =
            edges.filter(|edge| edge.flags & FAIR != 0).map(|edge| edge.event).collect();
        forced.sort_unstable();
        forced.dedup();
        forced
    }

    /// The way into the component and round it, by a round that is fair: of the events that are
    /// possible where it begins, each happens on the way or is impossible somewhere.
    fn go_round(&self, component: &[u32], bad: Bad, property: Property) -> Lasso {
        let inside = Members::new(component);
        let first = component.iter().copied().min_by_key(|&it| (self.log.depth(it), it));
        let first = first.expect("a component has states");
        let mut path: Vec<Pick> = self.log.path(first).into_iter().map(Pick::Print).collect();
        let loop_from = path.len();
        let lacks = |state: u32| match bad {
            Bad::Lacks(bit) => self.graph.label(state) & bit == 0,
            _ => true,
        };
        let (mut owed, mut lacking) = (self.forced(first), lacks(first));
        let mut here = first;
        while !owed.is_empty() || !lacking {
            let pays = |edge: &Edge| {
                let forced = self.forced(edge.target);
                owed.iter().any(|event| *event == edge.event || !forced.contains(event))
                    || !lacking && lacks(edge.target)
            };
            let edge = self.walk(here, &inside, pays, &mut path);
            here = edge.target;
            let forced = self.forced(here);
            owed.retain(|event| *event != edge.event && forced.contains(event));
            lacking |= lacks(here);
        }
        if here != first || path.len() == loop_from {
            self.walk(here, &inside, |edge| edge.target == first, &mut path);
        }
        let why = match bad {
            Bad::Owes(owed, Some(node)) => (owed.words)(&[node], Lasting::Round),
            Bad::Owes(owed, None) => {
                let state = Labelled(self.graph.label(first));
                (owed.words)(&(owed.to)(&state).all(), Lasting::Round)
            }
            Bad::Lacks(_) => format!("never true for good: {}", property.meaning()),
        };
        Lasso { path, loop_from, why }
    }

    /// Goes by the shortest way within the component to an edge that is wanted, and along it.
    fn walk(
        &self,
        from: u32,
        inside: &Members,
        wanted: impl Fn(&Edge) -> bool,
        path: &mut Vec<Pick>,
    ) -> Edge {
        let mut reached: FxHashMap<u32, (u32, usize)> = FxHashMap::default();
        let mut queue = VecDeque::from([from]);
        loop {
            let here = queue.pop_front().expect("a component is strongly connected");
            for (place, edge) in self.graph.edges(here).iter().enumerate() {
                if !inside.has(edge.target) {
                    continue;
                }
                if wanted(edge) {
                    let mut places = vec![Pick::Place(place)];
                    let mut back = here;
                    while back != from {
                        let (before, place) = reached[&back];
                        places.push(Pick::Place(place));
                        back = before;
                    }
                    path.extend(places.into_iter().rev());
                    return *edge;
                }
                if edge.target != from && !reached.contains_key(&edge.target) {
                    reached.insert(edge.target, (here, place));
                    queue.push_back(edge.target);
                }
            }
        }
    }
}

/// A set of states, for asking.
struct Members(FxHashSet<u32>);

impl Members {
    fn new(states: &[u32]) -> Self {
        Self(states.iter().copied().collect())
    }

    fn has(&self, state: u32) -> bool {
        self.0.contains(&state)
    }
}
