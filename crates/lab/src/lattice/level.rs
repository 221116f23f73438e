//! The cuts of one level, in a table that knows how much memory it takes.

/// The consistent cuts with the same number of events.
#[derive(Debug)]
pub(super) struct Level {
    width: usize,
    /// How many events of each node, cut by cut.
    rows: Vec<u32>,
    /// How many ways lead from the beginning to each cut.
    paths: Vec<u128>,
    /// Whether one of them avoids what is asked about.
    free: Vec<bool>,
    /// From where such a way comes.
    from: Vec<Origin>,
    /// Where a cut is, by its hash; one more than the place, and 0 where there is none.
    slots: Vec<u32>,
}

/// From which cut of the level before, and by an event of which node.
pub(super) type Origin = (u32, u32);

/// There is no more room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Level {
    /// Without any cut, of so many nodes.
    pub(super) fn new(width: usize) -> Self {
        let (rows, paths, free, from) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { width, rows, paths, free, from, slots: vec![0; 16] }
    }

    pub(super) fn len(&self) -> usize {
        self.paths.len()
    }

    pub(super) fn cut(&self, place: usize) -> &[u32] {
        &self.rows[place * self.width..(place + 1) * self.width]
    }

    pub(super) fn cuts(&self) -> impl Iterator<Item = &[u32]> {
        (0..self.len()).map(|place| self.cut(place))
    }

    pub(super) fn paths(&self, place: usize) -> u128 {
        self.paths[place]
    }

    pub(super) fn is_free(&self, place: usize) -> bool {
        self.free[place]
    }

    pub(super) fn set_free(&mut self, place: usize, free: bool) {
        self.free[place] = free;
    }

    /// From where each free cut comes.
    pub(super) fn origins(&self) -> &[Origin] {
        &self.from
    }

    /// How many bytes it takes.
    pub(super) fn bytes(&self) -> u64 {
        Self::bytes_of(self.width, self.paths.capacity(), self.slots.len())
    }

    fn bytes_of(width: usize, cuts: usize, slots: usize) -> u64 {
        (cuts as u64) * (4 * width as u64 + 16 + 1 + 8) + 4 * slots as u64
    }

    /// Forgets all cuts, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.paths.clear();
        self.free.clear();
        self.from.clear();
        self.slots.fill(0);
    }

    /// Adds so many ways to a cut, one of which is free or not, from there. No more than `room`
    /// bytes are taken for that. Returns whether the ways are too many to be counted.
    pub(super) fn add(
        &mut self,
        cut: &[u32],
        paths: u128,
        free: bool,
        from: Origin,
        room: u64,
    ) -> Result<bool, Full> {
        let mut slot = self.slot(cut);
        loop {
            match self.slots[slot] {
                0 => break,
                known => {
                    let place = known as usize - 1;
                    if self.cut(place) == cut {
                        let (sum, over) = self.paths[place].overflowing_add(paths);
                        self.paths[place] = if over { u128::MAX } else { sum };
                        if free && !self.free[place] {
                            (self.free[place], self.from[place]) = (true, from);
                        }
                        return Ok(over);
                    }
                    slot = (slot + 1) & (self.slots.len() - 1);
                }
            }
        }
        if self.paths.len() == self.paths.capacity() {
            self.grow(room)?;
            return self.add(cut, paths, free, from, room);
        }
        self.slots[slot] = self.paths.len() as u32 + 1;
        self.rows.extend_from_slice(cut);
        self.paths.push(paths);
        self.free.push(free);
        self.from.push(from);
        Ok(false)
    }

    /// Makes room for as many cuts again, or for half as many where that is all there is room for.
    fn grow(&mut self, room: u64) -> Result<(), Full> {
        let capacity = self.paths.capacity();
        let fits = |more: &usize| {
            let (cuts, slots) = (capacity + more, slots_for(capacity + more));
            // While it is copied, the largest of the tables is there twice.
            let copied = 4 * (self.width.max(4) * capacity) as u64;
            Self::bytes_of(self.width, cuts, slots) + copied <= room && cuts < u32::MAX as usize
        };
        let more = [capacity.max(8), capacity / 2, capacity / 8];
        let more = more.into_iter().filter(|more| *more > 0).find(fits).ok_or(Full)?;
        let cuts = capacity + more;
        self.paths.reserve_exact(cuts - self.paths.len());
        self.rows.reserve_exact(cuts * self.width - self.rows.len());
        self.free.reserve_exact(cuts - self.free.len());
        self.from.reserve_exact(cuts - self.from.len());
        let slots = slots_for(self.paths.capacity());
        if slots > self.slots.len() {
            self.slots = Vec::new();
            self.slots = vec![0; slots];
            for place in 0..self.len() {
                let mut slot = self.slot(self.cut(place));
                while self.slots[slot] != 0 {
                    slot = (slot + 1) & (self.slots.len() - 1);
                }
                self.slots[slot] = place as u32 + 1;
            }
        }
        Ok(())
    }

    /// Where to begin to look for a cut.
    fn slot(&self, cut: &[u32]) -> usize {
        let mut hash = 0u64;
        for &count in cut {
            hash = (hash.rotate_left(5) ^ u64::from(count)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        // The upper bits are the best mixed.
        (hash >> 32) as usize & (self.slots.len() - 1)
    }
}

/// How many slots keep half of them free.
fn slots_for(cuts: usize) -> usize {
    (2 * cuts).next_power_of_two().max(16)
}
