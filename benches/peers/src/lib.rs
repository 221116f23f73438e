//! Another model checker's view of the same algorithms, for cross-checks and comparisons.
//!
//! The checker is [Stateright](https://docs.rs/stateright). It sees Ricart–Agrawala in several ways:
//! written the way its users write ([`actors`]), packed by hand for speed ([`arrays`], and to the
//! last bit [`packed`]), and, like any algorithm of the catalogue, through
//! [`Protocol`](conclave_protocol::Protocol) ([`adapter`]). Nothing but tests and benchmarks depends
//! on this crate.
//!
//! # What is counted
//!
//! A state is the nodes and the messages on their way; two states are the same if all of these are
//! equal. A step is one event with all it brings about: the application asks or leaves, a message
//! arrives, a timer runs out. [`Counts`] counts as Stateright does: the initial state is generated
//! once and at depth 1, and each step from each distinct state generates one more, whether it leads
//! to a new state or not. So the graph has `generated - 1` transitions, those that change nothing
//! included, and its longest shortest run has `depth - 1` steps. A search never stops at a
//! violation, so that the counts are always of the whole graph.
//!
//! # The reference model
//!
//! [`actors`], [`arrays`], [`packed`] and [`mod@reference`] describe one and the same graph, on which several
//! checkers have been compared: Ricart–Agrawala among N nodes that ask R times each, one FIFO link
//! for each ordered pair.
//!
//! A node keeps its phase (idle, waiting or inside), the number of requests it still has to make,
//! the highest time it has used or seen, the time of its request, whose replies are missing, and
//! whose requests it has put off. Three conventions matter to the counts:
//!
//! - Replies carry no time, unlike those of `mutex/ricart-agrawala`.
//! - A node forgets the time of its request when it leaves, not when it enters: keeping it for ever
//!   gives 2,101 states at N = 3, R = 1, and forgetting it on entry 2,047.
//! - A message leaves its link in the step in which it is handled, and a step whose message changes
//!   nothing else is still a step.
//!
//! Every run makes all its NR requests, 2NR(N − 1) messages and NR exits, whence the depth.
//!
//! | N | R | distinct | generated | depth |
//! |---|---|---:|---:|---:|
//! | 3 | 1 | 2,049 | 5,489 | 19 |
//! | 3 | 2 | 25,674 | 71,373 | 37 |
//! | 4 | 1 | 1,402,298 | 7,398,199 | 33 |

pub mod actors;
pub mod adapter;
pub mod arrays;
pub mod packed;
pub mod reference;

pub use adapter::{IDS, count};

use std::hash::Hash;

use stateright::{Checker, Expectation, Model, Property};

/// What a search has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Different states.
    pub distinct: usize,
    /// States generated, the initial one and repetitions included.
    pub generated: usize,
    /// The depth of the deepest state, that of the initial one being 1. A depth-first search, or
    /// one on several threads, may find states by detours.
    pub depth: usize,
    /// Whether more nodes than allowed can be inside the critical section.
    pub violated: bool,
}

/// The order of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// Breadth first: depths are shortest on one thread.
    Breadth,
    /// Depth first.
    Depth,
}

/// The property whose violation [`explore`] reports.
pub(crate) const EXCLUSION: &str = "at most so many inside";

/// A property that always holds: a search goes on until each of them is violated, so this one
/// makes it go on to the end.
pub(crate) fn never_violated<M: Model>() -> Property<M> {
    Property { expectation: Expectation::Always, name: "go on", condition: |_, _| true }
}

/// Explores every state of `model`.
pub fn explore<M>(model: M, search: Search, threads: usize) -> Counts
where
    M: Model<State: Clone + PartialEq + Hash + Send + Sync + 'static, Action: Clone + PartialEq>,
    M: Send + Sync + 'static,
{
    match search {
        Search::Breadth => breadth_first(model, threads),
        Search::Depth => counts(model.checker().threads(threads).spawn_dfs().join()),
    }
}

/// The half of [`explore`] that the many models of [`adapter`] are compiled with.
pub(crate) fn breadth_first<M>(model: M, threads: usize) -> Counts
where
    M: Model<State: Clone + PartialEq + Hash + Send + Sync + 'static, Action: Clone + PartialEq>,
    M: Send + Sync + 'static,
{
    counts(model.checker().threads(threads).spawn_bfs().join())
}

fn counts<M>(checker: impl Checker<M>) -> Counts
where
    M: Model<State: Clone + PartialEq, Action: Clone + PartialEq>,
{
    Counts {
        distinct: checker.unique_state_count(),
        generated: checker.state_count(),
        depth: checker.max_depth(),
        violated: checker.discovery(EXCLUSION).is_some(),
    }
}
