//! One lock: its holders, its queue, and which request may be granted next.
//!
//! The queue is first come, first served: only its first request may be granted, and a newcomer only if the queue is
//! empty. An upgrade comes before all others, since no other could be granted before it anyway.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::ids::Arrival;
use crate::slab::Id;
use crate::{Agent, Mode, Name, RequestId, Time, Token};

pub(crate) type LockId = Id<Lock>;
pub(crate) type HoldId = Id<Hold>;

/// A lock that is held or wanted.
#[derive(Clone, Debug)]
pub(crate) struct Lock {
    pub(crate) name: Name,
    pub(crate) kind: Kind,
    /// How many share it, or how many permits are taken.
    pub(crate) taken: u32,
    /// Whether it is held exclusively.
    pub(crate) exclusive: bool,
    /// The token of the grant that began the present period of holding.
    pub(crate) epoch: Token,
    pub(crate) holders: Holders,
    /// None while no request waits.
    queue: Option<Box<Queue>>,
}

/// What a lock is, while it is held or wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// It is held exclusively or shared.
    ReadWrite,
    /// It has so many permits.
    Permits(u32),
}

impl Kind {
    /// The kind of lock that can be held in this mode.
    pub(crate) fn of(mode: Mode) -> Self {
        match mode {
            Mode::Exclusive | Mode::Shared => Self::ReadWrite,
            Mode::Permits { of, .. } => Self::Permits(of),
        }
    }
}

/// An agent holds a lock.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) agent: Agent,
    pub(crate) lock: LockId,
    pub(crate) mode: Mode,
    /// How often it was taken.
    pub(crate) depth: u32,
    pub(crate) token: Token,
    pub(crate) since: Time,
    /// The request it was granted to.
    pub(crate) request: RequestId,
    /// What kind of request that was.
    pub(crate) by: By,
    /// Where the session lists it.
    pub(crate) listed: u32,
}

/// The kind of request that the present hold was granted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum By {
    Acquire,
    Upgrade,
    Downgrade,
}

/// Who holds a lock, by token. Most locks have one holder.
#[derive(Clone, Debug, Default)]
#[expect(clippy::box_collection, reason = "most locks have one holder, and pay for a pointer only")]
pub(crate) enum Holders {
    #[default]
    None,
    One(Token, HoldId),
    Many(Box<BTreeMap<Token, HoldId>>),
}

impl Holders {
    pub(crate) fn insert(&mut self, token: Token, hold: HoldId) {
        match self {
            Self::None => *self = Self::One(token, hold),
            Self::One(first, one) => {
                *self = Self::Many(Box::new([(*first, *one), (token, hold)].into()));
            }
            Self::Many(holds) => {
                holds.insert(token, hold);
            }
        }
    }

    pub(crate) fn remove(&mut self, token: Token) {
        match self {
            Self::None => {}
            Self::One(..) => *self = Self::None,
            Self::Many(holds) => {
                holds.remove(&token);
                match holds.first_key_value() {
                    None => *self = Self::None,
                    Some((&token, &hold)) if holds.len() == 1 => *self = Self::One(token, hold),
                    Some(_) => {}
                }
            }
        }
    }

    pub(crate) fn get(&self, token: Token) -> Option<HoldId> {
        match self {
            Self::None => None,
            Self::One(only, hold) => (*only == token).then_some(*hold),
            Self::Many(holds) => holds.get(&token).copied(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::None)
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::One(..) => 1,
            Self::Many(holds) => holds.len(),
        }
    }

    /// The holds, in the order of their tokens.
    pub(crate) fn iter(&self) -> impl Iterator<Item = HoldId> {
        let (one, many) = match self {
            Self::None => (None, None),
            Self::One(_, hold) => (Some(*hold), None),
            Self::Many(holds) => (None, Some(holds.values().copied())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

/// Who waits for a lock, the next first.
#[derive(Clone, Debug, Default)]
struct Queue {
    places: BTreeSet<Place>,
    /// How many of them wait for other locks too.
    several: u32,
}

/// A place in the queues of all the locks that a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Upgrades come first.
    pub(crate) class: Class,
    pub(crate) arrival: Arrival,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    Upgrade,
    Ordinary,
}

impl Lock {
    pub(crate) fn new(name: Name, kind: Kind) -> Self {
        Self {
            name,
            kind,
            taken: 0,
            exclusive: false,
            epoch: Token::default(),
            holders: Holders::None,
            queue: None,
        }
    }

    /// Whether it can be held in this mode beside those who hold it.
    pub(crate) fn admits(&self, mode: Mode) -> bool {
        match mode {
            Mode::Exclusive => self.taken == 0,
            Mode::Shared => !self.exclusive,
            Mode::Permits { take, of } => self.taken <= of && take <= of - self.taken,
        }
    }

    /// Whether those who hold it can be in the way of who wants it in this mode.
    pub(crate) fn is_blocked_by_holders(&self, mode: Mode) -> bool {
        match mode {
            Mode::Exclusive | Mode::Permits { .. } => true,
            Mode::Shared => self.exclusive,
        }
    }

    /// It is held in this mode, too.
    pub(crate) fn add(&mut self, hold: HoldId, mode: Mode, token: Token) {
        if self.taken == 0 {
            self.epoch = token;
        }
        self.count(mode, true);
        self.holders.insert(token, hold);
    }

    /// It is no longer held in this mode.
    pub(crate) fn subtract(&mut self, mode: Mode, token: Token) {
        self.count(mode, false);
        self.holders.remove(token);
    }

    fn count(&mut self, mode: Mode, more: bool) {
        let units = match mode {
            Mode::Permits { take, .. } => take,
            Mode::Exclusive | Mode::Shared => 1,
        };
        self.taken = if more { self.taken + units } else { self.taken - units };
        if mode == Mode::Exclusive {
            self.exclusive = more;
        }
    }

    /// The only holder holds it in another mode, by a new grant.
    pub(crate) fn convert(&mut self, hold: HoldId, mode: Mode, token: Token) {
        self.exclusive = mode == Mode::Exclusive;
        self.epoch = token;
        self.holders = Holders::One(token, hold);
    }

    pub(crate) fn is_unused(&self) -> bool {
        self.holders.is_empty() && self.queue.is_none()
    }

    pub(crate) fn enqueue(&mut self, place: Place, several: bool) {
        let queue = self.queue.get_or_insert_default();
        queue.places.insert(place);
        queue.several += u32::from(several);
    }

    pub(crate) fn dequeue(&mut self, place: Place, several: bool) {
        let queue = self.queue.as_mut().expect("who waits is in a queue");
        queue.places.remove(&place);
        queue.several -= u32::from(several);
        if queue.places.is_empty() {
            self.queue = None;
        }
    }

    /// Who is next.
    pub(crate) fn head(&self) -> Option<Place> {
        self.queue.as_ref()?.places.first().copied()
    }

    pub(crate) fn waiters(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.places.len())
    }

    /// Who waits, the next first.
    pub(crate) fn waiting(&self) -> impl DoubleEndedIterator<Item = Place> {
        self.queue.iter().flat_map(|queue| queue.places.iter().copied())
    }

    /// Who is before `place`, the nearest first.
    pub(crate) fn ahead(&self, place: Place) -> impl Iterator<Item = Place> {
        self.queue.iter().flat_map(move |queue| queue.places.range(..place).rev().copied())
    }

    /// Whether a request in the queue waits for other locks, too.
    pub(crate) fn leads_elsewhere(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.several > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(kind: Kind) -> Lock {
        Lock::new("a".into(), kind)
    }

    #[test]
    fn readers_share_and_a_writer_is_alone() {
        let (one, two) = (Id::of_place(0), Id::of_place(1));
        let mut lock = lock(Kind::ReadWrite);
        assert!(lock.admits(Mode::Exclusive) && lock.admits(Mode::Shared));
        lock.add(one, Mode::Shared, Token(4));
        lock.add(two, Mode::Shared, Token(5));
        assert!(lock.admits(Mode::Shared) && !lock.admits(Mode::Exclusive));
        assert_eq!((lock.epoch, lock.holders.len()), (Token(4), 2));
        lock.subtract(Mode::Shared, Token(4));
        lock.convert(two, Mode::Exclusive, Token(6));
        assert!(!lock.admits(Mode::Shared) && lock.epoch == Token(6));
        lock.subtract(Mode::Exclusive, Token(6));
        assert!(lock.is_unused() && lock.admits(Mode::Exclusive));
    }

    #[test]
    fn permits_are_counted() {
        let mut lock = lock(Kind::Permits(5));
        let take = |take| Mode::Permits { take, of: 5 };
        lock.add(Id::of_place(0), take(3), Token(1));
        assert!(lock.admits(take(2)) && !lock.admits(take(3)));
        lock.add(Id::of_place(1), take(2), Token(2));
        assert!(!lock.admits(take(1)));
        lock.subtract(take(3), Token(1));
        assert!(lock.admits(take(3)));
    }

    #[test]
    fn upgrades_come_first_and_the_rest_as_they_came() {
        let mut lock = lock(Kind::ReadWrite);
        let place = |class, n| Place { class, arrival: Arrival(n) };
        let places =
            [place(Class::Ordinary, 1), place(Class::Ordinary, 2), place(Class::Upgrade, 3)];
        for place in places {
            lock.enqueue(place, false);
        }
        assert_eq!(lock.waiting().map(|place| place.arrival.0).collect::<Vec<_>>(), [3, 1, 2]);
        assert_eq!(lock.ahead(places[1]).map(|place| place.arrival.0).collect::<Vec<_>>(), [1, 3]);
        for place in places {
            lock.dequeue(place, false);
        }
        assert!(lock.is_unused());
    }
}
