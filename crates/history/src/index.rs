//! A history, put together: grants and what became of them, leases, and when the server was to be relied upon.

use std::collections::BTreeMap;

use crate::faults::Calm;
use crate::force::{Forces, Loss};
use crate::{DRIFT, Event, Time, Want};

/// What was granted, and how long it can be relied upon.
#[derive(Clone, Debug)]
pub(crate) struct Grant<'a> {
    pub(crate) session: u64,
    /// What it is called in messages.
    pub(crate) who: String,
    pub(crate) token: u64,
    pub(crate) wants: &'a [Want],
    /// Not later than this it was asked for; the request was sent here or after.
    pub(crate) asked: Time,
    /// The grant was known to its client here, and was made before.
    pub(crate) answered: Time,
    /// Before this the server had no reason to end it, but for force: see [`Grant::end_of`].
    end: Time,
    /// What operators took of it, or may have taken.
    pub(crate) losses: Vec<Loss<'a>>,
    /// It was a command's, by its own account.
    pub(crate) command: bool,
    /// The events that show it.
    pub(crate) shown_by: Vec<usize>,
}

impl Grant<'_> {
    /// Before this the server had no reason to end the hold of a lock.
    pub(crate) fn end_of(&self, lock: &str) -> Time {
        let losses = self.losses.iter().filter(|loss| loss.lock == lock);
        losses.map(|loss| loss.at).fold(self.end, Time::min)
    }

    /// Why less is said of the hold of a lock than its client believes.
    pub(crate) fn left_out(&self, lock: &str) -> Option<&'static str> {
        let losses = self.losses.iter().filter(|loss| loss.lock == lock);
        let loss = losses.min_by_key(|loss| loss.at)?;
        match loss.certain {
            _ if loss.at >= self.end || self.end <= self.answered => None,
            false => Some("an operator's force had no answer"),
            true if loss.at <= self.answered => Some("an operator took it before its client knew"),
            true => None,
        }
    }
}

/// What a client knows of its session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Session {
    /// Until when the client may rely upon it; nothing if it counts its lease itself.
    pub(crate) lease_end: Option<Time>,
    /// What the lease was counted from last.
    pub(crate) renewed_by: Option<usize>,
    /// When its client first tried to close it.
    pub(crate) closing: Option<(Time, usize)>,
    /// When the server confirmed that.
    pub(crate) closed: Option<(Time, usize)>,
    /// Some attempt to ask had no answer.
    pub(crate) interrupted: bool,
}

/// A request, with all its repetitions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request<'a> {
    pub(crate) wants: &'a [Want],
    pub(crate) asked: Vec<(Time, usize)>,
    /// The tokens it was granted with.
    pub(crate) granted: Vec<(Time, u64, usize)>,
    pub(crate) refused: Vec<(Time, &'a str, usize)>,
    pub(crate) dropped: Vec<(Time, usize)>,
}

/// All of a history.
pub(crate) struct Index<'a> {
    pub(crate) events: &'a [Event],
    pub(crate) start: Time,
    pub(crate) grants: Vec<Grant<'a>>,
    pub(crate) sessions: BTreeMap<u64, Session>,
    pub(crate) requests: BTreeMap<(u64, u64), Request<'a>>,
    /// Attempts to release, by session and token.
    pub(crate) releasing: BTreeMap<(u64, u64), Vec<(Time, usize)>>,
    pub(crate) released: BTreeMap<(u64, u64), (Time, usize)>,
    /// What a client found of its own belief: the last time, and the end of its lease as known then.
    pub(crate) believed: BTreeMap<(u64, u64), (Time, Time, usize)>,
    /// What operators took by force.
    pub(crate) forces: Forces<'a>,
    calm: Calm,
}

impl<'a> Index<'a> {
    pub(crate) fn new(events: &'a [Event]) -> Self {
        let mut index = Self {
            events,
            start: events.iter().map(Event::at).min().unwrap_or_default(),
            grants: Vec::new(),
            sessions: BTreeMap::new(),
            requests: BTreeMap::new(),
            releasing: BTreeMap::new(),
            released: BTreeMap::new(),
            believed: BTreeMap::new(),
            forces: Forces::new(events),
            calm: Calm::new(events),
        };
        for (place, event) in events.iter().enumerate() {
            index.sort_in(place, event);
        }
        index.count_leases();
        index.collect_grants();
        index
    }

    fn sort_in(&mut self, place: usize, event: &'a Event) {
        match event {
            Event::Closing { session, at } => {
                let first = &mut self.sessions.entry(*session).or_default().closing;
                keep_first(first, *at, place);
            }
            Event::Closed { session, at } => {
                let first = &mut self.sessions.entry(*session).or_default().closed;
                keep_first(first, *at, place);
            }
            Event::Asked { session, request, wants, at } => {
                let request = self.requests.entry((*session, *request)).or_default();
                request.wants = wants;
                request.asked.push((*at, place));
            }
            Event::Granted { session, request, token, at } => {
                let request = self.requests.entry((*session, *request)).or_default();
                request.granted.push((*at, *token, place));
            }
            Event::Refused { session, request, code, at } => {
                let request = self.requests.entry((*session, *request)).or_default();
                request.refused.push((*at, code, place));
            }
            Event::Dropped { session, request, at } => {
                self.sessions.entry(*session).or_default().interrupted = true;
                let request = self.requests.entry((*session, *request)).or_default();
                request.dropped.push((*at, place));
            }
            Event::Believed { session, token, at, until } => {
                let last = self.believed.entry((*session, *token)).or_insert((*at, *until, place));
                if *at > last.0 {
                    *last = (*at, *until, place);
                }
            }
            Event::Releasing { session, token, at } => {
                self.releasing.entry((*session, *token)).or_default().push((*at, place));
            }
            Event::Released { session, token, at } => {
                let first = self.released.entry((*session, *token)).or_insert((*at, place));
                *first = (*first).min((*at, place));
            }
            _ => {}
        }
    }

    /// By the documented rule: a lease counts from when it was asked for, a part of it is left to the difference of
    /// clocks, and what is over stays over.
    fn count_leases(&mut self) {
        let mut renewals: Vec<(Time, Time, u64, usize)> = Vec::new();
        let mut spans: BTreeMap<u64, u64> = BTreeMap::new();
        for (place, event) in self.events.iter().enumerate() {
            match event {
                Event::Opened { session, ttl, sent, .. } => {
                    let certain = ttl - ttl / DRIFT;
                    spans.insert(*session, certain);
                    let session = self.sessions.entry(*session).or_default();
                    session.lease_end = Some(sent + certain);
                    session.renewed_by = Some(place);
                }
                Event::Renewed { session, sent, answered } => {
                    renewals.push((*answered, *sent, *session, place));
                }
                _ => {}
            }
        }
        renewals.sort_unstable();
        for (answered, sent, number, place) in renewals {
            let (Some(session), Some(certain)) =
                (self.sessions.get_mut(&number), spans.get(&number))
            else {
                continue;
            };
            let end = session.lease_end.expect("it was opened");
            if answered < end && sent + certain > end {
                session.lease_end = Some(sent + certain);
                session.renewed_by = Some(place);
            }
        }
    }

    fn collect_grants(&mut self) {
        for (attempts, list) in &mut self.releasing {
            debug_assert!(attempts.1 > 0 && !list.is_empty(), "tokens begin with 1");
            list.sort_unstable();
        }
        let mut grants = Vec::new();
        for ((session, _), request) in &self.requests {
            let Some(&(answered, token, granted)) = request.granted.iter().min() else { continue };
            let Some(&(asked, asking)) = request.asked.iter().min() else { continue };
            let mut shown_by = vec![asking, granted];
            let end = self.end_of(*session, token, &mut shown_by).unwrap_or(answered);
            let losses = self.forces.losses(request.wants, (*session, token), asked);
            shown_by.extend(losses.iter().filter(|loss| loss.at < end).map(|loss| loss.place));
            grants.push(Grant {
                session: *session,
                who: format!("session {session}"),
                token,
                wants: request.wants,
                asked,
                answered,
                end,
                losses,
                command: false,
                shown_by,
            });
        }
        for (place, event) in self.events.iter().enumerate() {
            let Event::Ran { name, session, token, wants, started, begin, last, .. } = event else {
                continue;
            };
            let losses = self.forces.losses(wants, (*session, *token), *started);
            let ends = losses.iter().filter(|loss| loss.at < *last).map(|loss| loss.place);
            let shown_by = [place].into_iter().chain(ends).collect();
            grants.push(Grant {
                session: *session,
                who: format!("the command of {name}"),
                token: *token,
                wants,
                asked: *started,
                answered: *begin,
                end: *last,
                losses,
                command: true,
                shown_by,
            });
        }
        grants.sort_by_key(|grant| (grant.token, grant.answered));
        self.grants = grants;
    }

    /// The first moment at which a grant may end without force and without anything being wrong; nothing if its
    /// client never believed in it.
    fn end_of(&self, session: u64, token: u64, shown_by: &mut Vec<usize>) -> Option<Time> {
        let known = self.sessions.get(&session);
        let lease = known.and_then(|known| Some((known.lease_end?, known.renewed_by?)));
        let believed = self.believed.get(&(session, token)).map(|(at, _, place)| (*at, *place));
        let first = self.releasing.get(&(session, token)).and_then(|list| list.first().copied());
        let closing = known.and_then(|known| known.closing);
        let limit = lease.or(believed)?;
        let ends = [Some(limit), first, closing];
        let (end, place) = ends.into_iter().flatten().min().unwrap_or(limit);
        shown_by.push(place);
        Some(end)
    }

    /// How much time without faults lies between two moments.
    pub(crate) fn calm_between(&self, from: Time, to: Time) -> u64 {
        self.calm.before(to).saturating_sub(self.calm.before(from))
    }

    /// Milliseconds since the history began.
    pub(crate) fn ms(&self, at: Time) -> String {
        format!("{:.1} ms", at.saturating_sub(self.start) as f64 / 1e6)
    }
}

fn keep_first(first: &mut Option<(Time, usize)>, at: Time, place: usize) {
    *first = Some(first.map_or((at, place), |first| first.min((at, place))));
}
