//! The stored graph, for what is said of endless runs.

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
        self.edges.capacity() * size_of::<Edge>()
            + self.spans.capacity() * 8
            + self.labels.capacity() * 8
    }

    /// Adds what another thread has found.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.others.push(other);
    }
}
