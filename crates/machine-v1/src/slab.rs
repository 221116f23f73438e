use std::marker::PhantomData;

/// Things in numbered places. Places are used again, so nothing that can be seen from outside may
/// depend on the numbers.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

/// A place in a slab of `T`.
#[derive(Debug)]
pub(crate) struct Id<T>(u32, PhantomData<fn() -> T>);

impl<T> Id<T> {
    /// For tests of what only keeps ids.
    #[cfg(test)]
    pub(crate) fn of_place(place: u32) -> Self {
        Self(place, PhantomData)
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, thing: T) -> Id<T> {
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = Some(thing);
                place
            }
            None => {
                self.places.push(Some(thing));
                u32::try_from(self.places.len() - 1).expect("limits keep slabs below 2^32")
            }
        };
        Id(place, PhantomData)
    }

    pub(crate) fn remove(&mut self, id: Id<T>) -> T {
        self.free.push(id.0);
        self.places[id.0 as usize].take().expect(LIVE)
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

const LIVE: &str = "ids refer to what is there";

impl<T> std::ops::Index<Id<T>> for Slab<T> {
    type Output = T;

    fn index(&self, id: Id<T>) -> &T {
        self.places[id.0 as usize].as_ref().expect(LIVE)
    }
}

impl<T> std::ops::IndexMut<Id<T>> for Slab<T> {
    fn index_mut(&mut self, id: Id<T>) -> &mut T {
        self.places[id.0 as usize].as_mut().expect(LIVE)
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

// Derives would ask the same of `T`.
impl<T> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Id<T> {}

impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Eq for Id<T> {}

impl<T> PartialOrd for Id<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Id<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}
