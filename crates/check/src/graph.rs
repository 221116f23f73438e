//! The stored graph, for what is said of endless runs.

use crate::search::Log;

/// A transition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) target: u32,
    pub(crate) step: u32,
    pub(crate) event: u16,
    pub(crate) node: u8,
    pub(crate) flags: u8,
}

/// Transitions as the search finds them, state by state.
#[derive(Debug, Default)]
pub(crate) struct Edges {
    edges: Vec<Edge>,
    /// The states expanded, each with the number of its edges.
    spans: Vec<(u32, u32)>,
    /// What is known of each state, in the order of the log.
    labels: Vec<u64>,
    /// The same of other threads.
    others: Vec<Self>,
}

impl Edges {
    pub(crate) fn begin(&mut self, state: u32, edges: usize) {
        self.spans.push((state, edges as u32));
    }

    pub(crate) fn push(&mut self, edge: Edge) {
        self.edges.push(edge);
    }

    pub(crate) fn label(&mut self, label: u64) {
        self.labels.push(label);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.edges.len() * size_of::<Edge>() + self.spans.len() * 8 + self.labels.len() * 8
    }

    /// Adds what another thread has found.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.others.push(other);
    }
}

/// The whole graph, by the numbers of states.
pub(crate) struct Graph {
    edges: Vec<Edge>,
    /// Where each state's edges begin, and one more.
    first: Vec<usize>,
    labels: Vec<u64>,
}

impl Graph {
    pub(crate) fn new(found: &Edges, log: &Log) -> Self {
        let threads = found.others.len();
        let states = log.end();
        let (mut labels, mut first) = (vec![0; states], vec![0; states + 1]);
        for (thread, part) in found.others.iter().enumerate() {
            for (i, label) in part.labels.iter().enumerate() {
                labels[i * threads + thread] = *label;
            }
            for &(state, edges) in &part.spans {
                first[state as usize + 1] = edges as usize;
            }
        }
        for state in 0..states {
            first[state + 1] += first[state];
        }
        let blank = Edge { target: 0, step: 0, event: 0, node: 0, flags: 0 };
        let mut edges = vec![blank; first[states]];
        for part in &found.others {
            let mut from = 0;
            for &(state, count) in &part.spans {
                let (count, to) = (count as usize, first[state as usize]);
                edges[to..to + count].copy_from_slice(&part.edges[from..from + count]);
                from += count;
            }
        }
        Self { edges, first, labels }
    }

    pub(crate) fn states(&self) -> u32 {
        self.labels.len() as u32
    }

    pub(crate) fn label(&self, state: u32) -> u64 {
        self.labels[state as usize]
    }

    pub(crate) fn edges(&self, state: u32) -> &[Edge] {
        let state = state as usize;
        &self.edges[self.first[state]..self.first[state + 1]]
    }

    /// Hands each strongly connected component of the allowed states to `visit` (Tarjan, with a
    /// stack of its own, since runs are long).
    pub(crate) fn components(&self, allowed: impl Fn(u32) -> bool, mut visit: impl FnMut(&[u32])) {
        const NEW: u32 = u32::MAX;
        let states = self.labels.len();
        let mut index = vec![NEW; states];
        let mut low = vec![0_u32; states];
        let mut open = vec![false; states];
        let mut stack: Vec<u32> = Vec::new();
        let mut calls: Vec<(u32, usize)> = Vec::new();
        let mut next = 0;
        for root in 0..states as u32 {
            if index[root as usize] != NEW || !allowed(root) {
                continue;
            }
            calls.push((root, 0));
            while let Some((state, edge)) = calls.last_mut() {
                let at = *state as usize;
                if *edge == 0 {
                    (index[at], low[at]) = (next, next);
                    next += 1;
                    stack.push(*state);
                    open[at] = true;
                }
                let edges = self.edges(*state);
                let mut called = None;
                while *edge < edges.len() && called.is_none() {
                    let target = edges[*edge].target;
                    *edge += 1;
                    if !allowed(target) {
                        continue;
                    }
                    if index[target as usize] == NEW {
                        called = Some(target);
                    } else if open[target as usize] {
                        low[at] = low[at].min(index[target as usize]);
                    }
                }
                if let Some(target) = called {
                    calls.push((target, 0));
                    continue;
                }
                if low[at] == index[at] {
                    let begin = stack.iter().rposition(|it| *it as usize == at);
                    let begin = begin.expect("a root is on the stack");
                    for &member in &stack[begin..] {
                        open[member as usize] = false;
                    }
                    visit(&stack[begin..]);
                    stack.truncate(begin);
                }
                let low_here = low[at];
                calls.pop();
                if let Some((caller, _)) = calls.last() {
                    let caller = *caller as usize;
                    low[caller] = low[caller].min(low_here);
                }
            }
        }
    }
}

#[cfg(test)]
impl Graph {
    /// A graph with these edges and nothing else.
    pub(crate) fn of(edges: &[&[u32]]) -> Self {
        let (mut first, mut all) = (vec![0], Vec::new());
        for targets in edges {
            let edge = |&target: &u32| Edge { target, step: 0, event: 0, node: 0, flags: 0 };
            all.extend(targets.iter().map(edge));
            first.push(all.len());
        }
        Self { edges: all, first, labels: vec![0; edges.len()] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_what_can_be_gone_round() {
        let graph = Graph::of(&[&[1], &[2, 3], &[0], &[4], &[3, 5], &[], &[6]]);
        let mut found = Vec::new();
        graph.components(
            |_| true,
            |component| {
                let mut component = component.to_vec();
                component.sort_unstable();
                found.push(component);
            },
        );
        found.sort();
        assert_eq!(found, [vec![0, 1, 2], vec![3, 4], vec![5], vec![6]]);
        let mut without = Vec::new();
        graph.components(|state| state != 2, |component| without.push(component.len()));
        without.sort_unstable();
        assert_eq!(without, [1, 1, 1, 1, 2]);
    }
}
