//! How many messages an entry takes: the fewest and the most, over all runs.
//!
//! Each edge of the graph costs the messages that its step sends and that are counted for the node
//! in question. The cheapest and the dearest way from the beginning to an end are exact bounds. A
//! loop that costs something and can be left makes the dearest way endless.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use conclave_protocol::Observation;

use crate::graph::{Edge, Graph};
use crate::report::Messages;
use crate::space::Space;
use crate::worker::NO_STEP;

/// The bits of a label that count the messages charged to the next entry.
pub(crate) const PENDING_SHIFT: u32 = 40;

/// Counts the messages of the entries of each node in `clients`, all its entries together.
pub(crate) fn messages(graph: &Graph, space: &Space, clients: std::ops::Range<u32>) -> Messages {
    let ends = ends(graph);
    let of_node = clients.map(|node| {
        let cost = |state: u32, edge: &Edge| {
            if edge.step == NO_STEP {
                return 0;
            }
            let step = space.step(edge.step);
            let enters = step.marks.iter().any(|mark| matches!(mark, Observation::Entered { .. }));
            let pending = if enters && u32::from(edge.node) == node {
                (graph.label(state) >> PENDING_SHIFT) as u32
            } else {
                0
            };
            step.costs[node as usize] + pending
        };
        (node, fewest(graph, &ends, cost), most(graph, &ends, cost))
    });
    let of_node = of_node.collect();
    let all = |_, edge: &Edge| match edge.step {
        NO_STEP => 0,
        step => space.step(step).sends.len() as u32,
    };
    Messages { of_node, whole: (fewest(graph, &ends, all), most(graph, &ends, all)) }
}

/// Where runs end: in states without a step, or if there are none, where no other part of the graph
/// can be reached any more.
fn ends(graph: &Graph) -> Vec<bool> {
    let mut ends: Vec<bool> = (0..graph.states()).map(|it| graph.edges(it).is_empty()).collect();
    if ends.iter().any(|end| *end) {
        return ends;
    }
    let mut done = vec![false; ends.len()];
    graph.components(
        |_| true,
        |component| {
            // Components come after those that they lead to.
            for &state in component {
                done[state as usize] = true;
            }
            let members: rustc_hash::FxHashSet<u32> = component.iter().copied().collect();
            let leaves = |state: &u32| {
                graph.edges(*state).iter().any(|edge| !members.contains(&edge.target))
            };
            if !component.iter().any(leaves) {
                for &state in component {
                    ends[state as usize] = true;
                }
            }
        },
    );
    ends
}

/// The cheapest way to an end.
fn fewest(graph: &Graph, ends: &[bool], cost: impl Fn(u32, &Edge) -> u32) -> u32 {
    let mut known = vec![u32::MAX; ends.len()];
    let mut queue = BinaryHeap::from([(Reverse(0), 0_u32)]);
    known[0] = 0;
    while let Some((Reverse(so_far), state)) = queue.pop() {
        if ends[state as usize] {
            return so_far;
        }
        if so_far > known[state as usize] {
            continue;
        }
        for edge in graph.edges(state) {
            let then = so_far + cost(state, edge);
            if then < known[edge.target as usize] {
                known[edge.target as usize] = then;
                queue.push((Reverse(then), edge.target));
            }
        }
    }
    0
}

/// The dearest way to an end; `None` if there is no dearest.
fn most(graph: &Graph, ends: &[bool], cost: impl Fn(u32, &Edge) -> u32) -> Option<u32> {
    /// What is known of the way from a state to an end.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    enum Way {
        None,
        Costs(u32),
        Endless,
    }
    let mut ways = vec![Way::None; ends.len()];
    graph.components(
        |_| true,
        |component| {
            let members: rustc_hash::FxHashSet<u32> = component.iter().copied().collect();
            let (mut best, mut costly) = (Way::None, false);
            for &state in component {
                if ends[state as usize] {
                    best = best.max(Way::Costs(0));
                }
                for edge in graph.edges(state) {
                    let price = cost(state, edge);
                    if members.contains(&edge.target) {
                        costly |= price > 0;
                        continue;
                    }
                    best = best.max(match ways[edge.target as usize] {
                        Way::Costs(rest) => Way::Costs(rest + price),
                        other => other,
                    });
                }
            }
            if costly && best != Way::None {
                best = Way::Endless;
            }
            for &state in component {
                ways[state as usize] = best;
            }
        },
    );
    match ways.first() {
        Some(Way::Costs(most)) => Some(*most),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_through_a_diamond_and_round_a_loop() {
        // 0 → 1 (1) → 3 (0); 0 → 2 (5) → 3 (1); a loop 1 → 4 (0) → 1 (0).
        let graph = Graph::of(&[&[1, 2], &[3, 4], &[3], &[], &[1]]);
        let price = |state: u32, edge: &Edge| match (state, edge.target) {
            (0, 1) | (2, 3) => 1,
            (0, 2) => 5,
            _ => 0,
        };
        let ends = ends(&graph);
        assert_eq!(ends, [false, false, false, true, false]);
        assert_eq!(fewest(&graph, &ends, price), 1);
        assert_eq!(most(&graph, &ends, price), Some(6), "the loop costs nothing");
        let dear = |state: u32, edge: &Edge| price(state, edge) + u32::from(state == 4);
        assert_eq!(most(&graph, &ends, dear), None);
        assert_eq!(fewest(&graph, &ends, dear), 1);
    }

    #[test]
    fn without_ends_the_last_loop_is_the_end() {
        let graph = Graph::of(&[&[1], &[2], &[1]]);
        assert_eq!(ends(&graph), [false, true, true]);
        assert_eq!(most(&graph, &ends(&graph), |state, _| u32::from(state == 0)), Some(1));
    }
}
