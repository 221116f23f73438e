use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::Arrival;
use crate::lock::HoldId;
use crate::{Call, Error, KeyDigest, Name, Owner, Reply, RequestId, Time};

/// A client's session: it lives until its deadline, and nothing outlives it.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) name: Name,
    pub(crate) host: Name,
    pub(crate) ttl: Duration,
    pub(crate) priority: i32,
    pub(crate) key: KeyDigest,
    pub(crate) opened_by: Name,
    pub(crate) address: Name,
    pub(crate) opened: Time,
    /// When it ends.
    pub(crate) deadline: Time,
    /// What it holds; a hold knows its place here.
    pub(crate) holds: Vec<HoldId>,
    /// Its requests that wait, in the order of their numbers.
    pub(crate) waits: Vec<(RequestId, Arrival)>,
    /// How many locks it waits for, in all its requests.
    pub(crate) pending: usize,
    /// The elections that it leads.
    pub(crate) leads: Vec<Name>,
    /// The elections in which an operator deposed it, and until when it may not stand there again.
    pub(crate) barred: Vec<(Name, Time)>,
    /// The answers to requests that the client numbered.
    pub(crate) replies: Replies,
    /// The answers to those that came without a number. They are kept apart: their numbers are far
    /// above all others, which would be taken for forgotten.
    pub(crate) allotted: Replies,
    /// The number for the next of them.
    pub(crate) next_allotted: RequestId,
}

impl Session {
    /// What a request waits for, if it does.
    pub(crate) fn wait_of(&self, request: RequestId) -> Option<Arrival> {
        let at = self.waits.binary_search_by_key(&request, |&(request, _)| request).ok()?;
        Some(self.waits[at].1)
    }

    pub(crate) fn add_wait(&mut self, request: RequestId, arrival: Arrival) {
        let at = self.waits.partition_point(|&(other, _)| other < request);
        self.waits.insert(at, (request, arrival));
    }

    /// Where the answer to a request is kept.
    pub(crate) fn replies_to(&self, request: RequestId) -> &Replies {
        if request.is_allotted() { &self.allotted } else { &self.replies }
    }

    pub(crate) fn replies_to_mut(&mut self, request: RequestId) -> &mut Replies {
        if request.is_allotted() { &mut self.allotted } else { &mut self.replies }
    }

    pub(crate) fn remove_wait(&mut self, request: RequestId) {
        self.waits.retain(|&(other, _)| other != request);
    }
}

/// The answers to a session's last requests, in case it lost them and asks again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Replies {
    /// In the order in which they were stored, which is not that of the numbers: a request that waits
    /// is answered after many that came later.
    pub(crate) kept: VecDeque<(RequestId, Outcome)>,
    /// What came of requests up to this one is kept only if it is above.
    pub(crate) forgotten: RequestId,
}

/// What came of a request. What a grant is worth is looked up when it is asked for again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    Done,
    Granted,
    /// The lock was held already, and is once more.
    Nested {
        lock: Name,
        owner: Owner,
    },
    Released {
        left: u32,
    },
    Elected,
    Failed(Box<Error>),
}

impl Outcome {
    /// What is to be remembered of a call that was answered so; nothing while it waits.
    pub(crate) fn of(call: &Call, reply: &Result<Reply, Error>) -> Option<Self> {
        let reply = match reply {
            Err(error) => return Some(Self::Failed(Box::new(error.clone()))),
            Ok(reply) => reply,
        };
        Some(match (reply, call) {
            (Reply::Waiting, _) => return None,
            (Reply::Granted { depth: 2.., .. }, Call::Acquire(acquire)) => {
                Self::Nested { lock: acquire.wants[0].lock.clone(), owner: acquire.owner }
            }
            (Reply::Granted { .. }, _) => Self::Granted,
            (Reply::Released { left }, _) => Self::Released { left: *left },
            (Reply::Elected { .. }, _) => Self::Elected,
            (
                Reply::Done | Reply::Opened { .. } | Reply::Alive { .. } | Reply::Expelled { .. },
                _,
            ) => Self::Done,
        })
    }
}

impl Replies {
    /// What came of `request`, if it is kept.
    pub(crate) fn find(&self, request: RequestId) -> Option<&Outcome> {
        self.kept.iter().find(|&&(kept, _)| kept == request).map(|(_, outcome)| outcome)
    }

    /// Whether `request` may have been made and forgotten.
    pub(crate) fn has_forgotten(&self, request: RequestId) -> bool {
        request <= self.forgotten
    }

    /// The client has the answers up to `received`.
    pub(crate) fn forget(&mut self, received: RequestId) {
        self.kept.retain(|&(request, _)| request > received);
        self.forgotten = self.forgotten.max(received);
    }

    /// Keeps what came of `request`, and of no more than `most` requests. What was stored first is
    /// dropped first, so what has just been stored is never the one.
    pub(crate) fn keep(&mut self, request: RequestId, outcome: Outcome, most: usize, drop: First) {
        match self.kept.iter_mut().find(|(kept, _)| *kept == request) {
            Some((_, kept)) => *kept = outcome,
            None => self.kept.push_back((request, outcome)),
        }
        while self.kept.len() > most {
            let numbers = self.kept.iter().map(|&(request, _)| request).enumerate();
            let first = match drop {
                First::Stored => Some(0),
                First::Numbered => numbers.min_by_key(|&(_, request)| request).map(|(at, _)| at),
            };
            let dropped = first.and_then(|first| self.kept.remove(first));
            self.forgotten = self.forgotten.max(dropped.expect("there are more than none").0);
        }
    }
}

/// Which of the answers that are kept makes room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// The one that was stored first.
    Stored,
    /// That to the request with the lowest number, which is wrong: it may be the one just stored.
    Numbered,
}

/// How many sessions come from where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origins {
    tokens: BTreeMap<Name, usize>,
    addresses: BTreeMap<Name, usize>,
}

impl Origins {
    pub(crate) fn of_token(&self, token: &str) -> usize {
        self.tokens.get(token).copied().unwrap_or_default()
    }

    pub(crate) fn of_address(&self, address: &str) -> usize {
        self.addresses.get(address).copied().unwrap_or_default()
    }

    pub(crate) fn add(&mut self, session: &Session) {
        for (all, name) in self.both(session) {
            *all.entry(name.clone()).or_default() += 1;
        }
    }

    pub(crate) fn remove(&mut self, session: &Session) {
        for (all, name) in self.both(session) {
            let count = all.get_mut(name).expect("it was counted");
            *count -= 1;
            if *count == 0 {
                all.remove(name);
            }
        }
    }

    fn both<'a>(
        &mut self,
        session: &'a Session,
    ) -> impl Iterator<Item = (&mut BTreeMap<Name, usize>, &'a Name)> {
        let Self { tokens, addresses } = self;
        let both = [(tokens, &session.opened_by), (addresses, &session.address)];
        both.into_iter().filter(|(_, name)| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_answers_make_room_and_are_known_to_be_forgotten() {
        let mut replies = Replies::default();
        for n in [2, 3, 4, 1] {
            replies.keep(RequestId(n), Outcome::Released { left: n as u32 }, 3, First::Stored);
        }
        assert_eq!(replies.find(RequestId(2)), None);
        assert!(replies.has_forgotten(RequestId(2)) && !replies.has_forgotten(RequestId(3)));
        assert_eq!(replies.find(RequestId(1)), Some(&Outcome::Released { left: 1 }));
        replies.forget(RequestId(3));
        assert_eq!((replies.find(RequestId(1)), replies.find(RequestId(3))), (None, None));
        assert!(replies.find(RequestId(4)).is_some() && replies.has_forgotten(RequestId(3)));
    }

    #[test]
    fn a_late_answer_outlives_as_many_later_ones_as_any_other() {
        let mut replies = Replies::default();
        for n in (2..100).chain([1]).chain(100..131) {
            replies.keep(RequestId(n), Outcome::Done, 32, First::Stored);
        }
        assert_eq!(replies.find(RequestId(1)), Some(&Outcome::Done));
        replies.keep(RequestId(131), Outcome::Done, 32, First::Stored);
        assert_eq!(replies.find(RequestId(1)), None);
    }
}
