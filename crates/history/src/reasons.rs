//! Which reasons a process can have had to end as it did.

use std::collections::{BTreeMap, BTreeSet};

use crate::faults::Faults;
use crate::index::Index;
use crate::{Event, Time, Want};

/// For so long after its last sign of life a session may still hold or wait for something, if its end was not confirmed:
/// generous, at times-to-live of a few seconds.
const LINGER: u64 = 20_000_000_000;

/// The life of a process, and what it wanted.
pub(crate) struct Span<'a> {
    pub(crate) name: &'a str,
    pub(crate) wants: &'a [Want],
    pub(crate) ttl: u64,
    pub(crate) from: Time,
    pub(crate) to: Time,
}

impl Span<'_> {
    fn meets(&self, from: Time, to: Time) -> bool {
        from <= self.to && to >= self.from
    }
}

/// All that can be a reason.
pub(crate) struct Reasons<'a> {
    faults: Faults,
    index: &'a Index<'a>,
    /// Which sessions may have held or waited for a lock: their names or numbers, from when, and until when.
    interest: BTreeMap<&'a str, Vec<(Interest<'a>, Time, Time)>>,
    /// When each list was asked for and came, and where it is; in the order of time.
    looks: Vec<(Time, Time, usize)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Interest<'a> {
    Session(u64),
    Process(&'a str),
}

impl<'a> Reasons<'a> {
    pub(crate) fn new(index: &'a Index<'a>) -> Self {
        let mut reasons = Self {
            faults: Faults::new(index.events),
            index,
            interest: BTreeMap::new(),
            looks: Vec::new(),
        };
        reasons.sessions();
        reasons.processes();
        for (place, event) in index.events.iter().enumerate() {
            if let Event::Looked { sent, answered, .. } = event {
                reasons.looks.push((*sent, *answered, place));
            }
        }
        reasons.looks.sort_unstable();
        reasons
    }

    /// What clients asked for: until the release is confirmed, or their session has ended.
    fn sessions(&mut self) {
        for ((number, _), request) in &self.index.requests {
            let Some(&(asked, _)) = request.asked.iter().min() else { continue };
            let session = self.index.sessions.get(number);
            let token = request.granted.iter().map(|(_, token, _)| *token).next();
            let released = token.and_then(|token| self.index.released.get(&(*number, token)));
            let closed = session.and_then(|session| session.closed);
            // A request that was refused as a whole holds nothing.
            let answered = request.refused.iter().map(|(at, ..)| *at).max();
            let refused = answered.filter(|_| token.is_none() && request.dropped.is_empty());
            let believed = token.and_then(|token| self.index.believed.get(&(*number, token)));
            let lease = session.and_then(|session| session.lease_end);
            let last = lease.into_iter().chain(believed.map(|(_, until, _)| *until)).max();
            let ends = [
                released.map(|(at, _)| *at),
                closed.map(|(at, _)| at),
                refused,
                last.map(|last| last + LINGER),
            ];
            let end = ends.into_iter().flatten().min().unwrap_or(Time::MAX);
            for want in request.wants {
                let list = self.interest.entry(&want.lock).or_default();
                list.push((Interest::Session(*number), asked, end));
            }
        }
    }

    /// What processes wanted: while they ran, and longer if they were killed.
    fn processes(&mut self) {
        let (mut ends, mut struck) = (BTreeMap::new(), BTreeSet::new());
        for event in self.index.events {
            match event {
                Event::Exited { name, at, .. } => drop(ends.insert(name.as_str(), *at)),
                Event::Struck { name, .. } => drop(struck.insert(name.as_str())),
                _ => {}
            }
        }
        for event in self.index.events {
            let Event::Started { name, wants, ttl, at, .. } = event else { continue };
            // A session whose close was not heard lasts as long as its time-to-live.
            let after = if struck.contains(name.as_str()) { 2 * ttl + LINGER } else { 2 * ttl };
            let end = ends.get(name.as_str()).map_or(Time::MAX, |end| end + after);
            for want in wants {
                let list = self.interest.entry(&want.lock).or_default();
                list.push((Interest::Process(name), *at, end));
            }
        }
    }

    /// Whether there was a fault meanwhile.
    pub(crate) fn fault(&self, span: &Span<'_>) -> bool {
        self.faults.within(span.from, span.to)
    }

    /// Whether an operator may have taken something from these sessions meanwhile; of a process that never ran its command
    /// the session is not known.
    pub(crate) fn forced(&self, span: &Span<'_>, sessions: &BTreeSet<u64>) -> bool {
        span.wants.iter().flat_map(|want| self.index.forces.of(&want.lock)).any(|force| {
            let took = |session: &u64| force.took_from(*session).unwrap_or(true);
            force.sent < span.to
                && force.answered_after(span.from)
                && (sessions.is_empty() || sessions.iter().any(took))
        })
    }

    /// Whether another session held or waited for the same, by its own account or by a list.
    pub(crate) fn others(&self, span: &Span<'_>) -> bool {
        span.wants.iter().any(|want| self.asked_for(&want.lock, span) || self.listed(want, span))
    }

    fn asked_for(&self, lock: &str, span: &Span<'_>) -> bool {
        let list = self.interest.get(lock).map_or(&[][..], |list| list);
        list.iter().any(|(interest, from, to)| {
            *interest != Interest::Process(span.name) && span.meets(*from, *to)
        })
    }

    /// The lists during the life of a process, the last before and the first after it.
    fn listed(&self, want: &Want, span: &Span<'_>) -> bool {
        let first = self.looks.partition_point(|(_, answered, _)| *answered < span.from);
        let last = self.looks.partition_point(|(sent, ..)| *sent <= span.to);
        let range = first.saturating_sub(1)..(last + 1).min(self.looks.len());
        self.looks.get(range).unwrap_or_default().iter().any(|(.., place)| {
            let Event::Looked { locks, .. } = &self.index.events[*place] else { return false };
            locks.iter().filter(|view| view.lock == want.lock).any(|view| {
                let holders = view.holders.iter().map(|held| &held.name);
                let waiters = view.waiters.iter().map(|waiter| &waiter.name);
                holders.chain(waiters).any(|name| name != span.name)
            })
        })
    }

    /// Whether a third of a lease passed without the answer to a list, of which there are several a second.
    pub(crate) fn stalled(&self, span: &Span<'_>) -> bool {
        self.looks.windows(2).any(|two| {
            let (before, after) = (two[0].1, two[1].1);
            after.saturating_sub(before) > span.ttl / 3 && span.meets(before, after)
        })
    }
}
