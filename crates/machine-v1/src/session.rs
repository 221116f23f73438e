use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::Arrival;
use crate::lock::HoldId;
use crate::{Call, Error, Name, Owner, Reply, RequestId, Time};

/// A client's session: it lives until its deadline, and nothing outlives it.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) name: Name,
    pub(crate) host: Name,
    pub(crate) ttl: Duration,
    pub(crate) priority: i32,
    pub(crate) key: u64,
    pub(crate) opened: Time,
    /// When it ends, by the clock of leases.
    pub(crate) deadline: Time,
    /// What it holds; a hold knows its place here.
    pub(crate) holds: Vec<HoldId>,
    /// Its requests that wait, in the order of their numbers.
    pub(crate) waits: Vec<(RequestId, Arrival)>,
    /// How many locks it waits for, in all its requests.
    pub(crate) pending: usize,
    /// The elections that it leads.
    pub(crate) leads: Vec<Name>,
    pub(crate) replies: Replies,
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

    pub(crate) fn remove_wait(&mut self, request: RequestId) {
        self.waits.retain(|&(other, _)| other != request);
    }
}

/// The answers to a session's last requests, in case it lost them and asks again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Replies {
    /// In the order of the requests' numbers.
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
            (Reply::Done | Reply::Opened { .. } | Reply::Alive { .. }, _) => Self::Done,
        })
    }
}

impl Replies {
    /// What came of `request`, if it is kept.
    pub(crate) fn find(&self, request: RequestId) -> Option<&Outcome> {
        let at = self.kept.binary_search_by_key(&request, |&(request, _)| request).ok()?;
        Some(&self.kept[at].1)
    }

    /// Whether `request` may have been made and forgotten.
    pub(crate) fn has_forgotten(&self, request: RequestId) -> bool {
        request <= self.forgotten
    }

    /// The client has the answers up to `received`.
    pub(crate) fn forget(&mut self, received: RequestId) {
        while self.kept.front().is_some_and(|&(request, _)| request <= received) {
            self.kept.pop_front();
        }
        self.forgotten = self.forgotten.max(received);
    }

    /// Keeps what came of `request`, and of no more than `most` requests.
    pub(crate) fn keep(&mut self, request: RequestId, outcome: Outcome, most: usize) {
        let at = self.kept.binary_search_by_key(&request, |&(request, _)| request);
        match at {
            Ok(at) => self.kept[at].1 = outcome,
            Err(at) => self.kept.insert(at, (request, outcome)),
        }
        while self.kept.len() > most {
            let (oldest, _) = self.kept.pop_front().expect("there are more than none");
            self.forgotten = self.forgotten.max(oldest);
        }
    }
}
