//! How each state was reached.

/// Where each state was first reached from, and half its fingerprint.
///
/// A state's number tells which thread found it: that is its remainder by the number of threads.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) threads: Vec<Vec<Reached>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Reached {
    pub(crate) parent: u32,
    pub(crate) print: u32,
}

impl Log {
    fn get(&self, state: u32) -> Reached {
        let threads = self.threads.len();
        self.threads[state as usize % threads][state as usize / threads]
    }

    /// The halves of the fingerprints along the way from the beginning to `state`.
    pub(crate) fn path(&self, mut state: u32) -> Vec<u32> {
        let mut path = Vec::new();
        while state != 0 {
            let reached = self.get(state);
            path.push(reached.print);
            state = reached.parent;
        }
        path.reverse();
        path
    }

    /// How many steps the way from the beginning to `state` has.
    pub(crate) fn depth(&self, mut state: u32) -> usize {
        let mut depth = 0;
        while state != 0 {
            state = self.get(state).parent;
            depth += 1;
        }
        depth
    }

    /// A number above those of all states.
    pub(crate) fn end(&self) -> usize {
        let threads = self.threads.len();
        let last = |(t, it): (usize, &Vec<Reached>)| match it.len() {
            0 => 0,
            len => (len - 1) * threads + t + 1,
        };
        self.threads.iter().enumerate().map(last).max().unwrap_or(0)
    }
}
