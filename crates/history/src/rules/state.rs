//! What a list of all locks must show, and what it must not.

use std::collections::{BTreeMap, BTreeSet};

use crate::index::{Grant, Index};
use crate::{Event, LockView, Rule, Time, Verdict};

/// How much longer than its time-to-live, and twice that, a dead session may stay: for stalls of a busy machine,
/// which the server does not count.
const SLACK: u64 = 10_000_000_000;

pub(crate) fn judge(index: &Index<'_>, verdict: &mut Verdict) {
    let mut looks: Vec<(Time, Time, usize, &[LockView])> = Vec::new();
    for (place, event) in index.events.iter().enumerate() {
        if let Event::Looked { sent, answered, locks } = event {
            looks.push((*sent, *answered, place, locks));
        }
    }
    looks.sort_by_key(|(sent, answered, ..)| (*sent, *answered));
    durable(index, &looks, verdict);
    let ended = Ended::new(index);
    for look in &looks {
        ghosts(index, look, verdict);
        ended.judge(index, look, verdict);
    }
}

type Look<'a> = (Time, Time, usize, &'a [LockView]);

/// What was known to be granted when the list was asked for, and was believed in when it came, is in it.
fn durable(index: &Index<'_>, looks: &[Look<'_>], verdict: &mut Verdict) {
    let mut by_answer: Vec<&Grant<'_>> = index.grants.iter().collect();
    by_answer.sort_by_key(|grant| grant.answered);
    let (mut coming, mut held) = (by_answer.into_iter().peekable(), Vec::<&Grant<'_>>::new());
    let mut told = BTreeSet::new();
    for (sent, answered, place, locks) in looks {
        held.extend(std::iter::from_fn(|| coming.next_if(|grant| grant.answered < *sent)));
        held.retain(|grant| grant.wants.iter().any(|want| grant.end_of(&want.lock) > *sent));
        let listed: BTreeSet<(&str, u64, u64)> = locks
            .iter()
            .flat_map(|lock| {
                let holders = lock.holders.iter();
                holders.map(|held| (lock.lock.as_str(), held.session, held.token))
            })
            .collect();
        for grant in &held {
            for want in grant.wants.iter().filter(|want| grant.end_of(&want.lock) > *answered) {
                verdict.judged(Rule::Durable, 1);
                let key = (want.lock.as_str(), grant.session, grant.token);
                // What is missing from one list is missing from the next ones, too.
                if !listed.contains(&key) && told.insert(key) {
                    let says = format!(
                        "{} has {} with token {} from {} until {} at least, but the list of {} does not show it",
                        grant.who,
                        want.lock,
                        grant.token,
                        index.ms(grant.answered),
                        index.ms(grant.end_of(&want.lock)),
                        index.ms(*sent)
                    );
                    let shown_by = [&grant.shown_by[..], &[*place]].concat();
                    verdict.violated(Rule::Durable, says, shown_by);
                }
            }
        }
    }
}

/// What was released, or whose session was closed, and confirmed before the list was asked for, is not in it.
fn ghosts(index: &Index<'_>, (sent, _, place, locks): &Look<'_>, verdict: &mut Verdict) {
    for lock in *locks {
        for held in &lock.holders {
            verdict.judged(Rule::Ghost, 1);
            let released = index.released.get(&(held.session, held.token)).copied();
            let closed = index.sessions.get(&held.session).and_then(|session| session.closed);
            let over = released.or(closed).filter(|(at, _)| at < sent);
            if let Some((at, shown)) = over {
                let says = format!(
                    "session {} gave back token {} of {} and was told so at {}, but the list of {} shows it as the holder",
                    held.session,
                    held.token,
                    lock.lock,
                    index.ms(at),
                    index.ms(*sent)
                );
                verdict.violated(Rule::Ghost, says, vec![shown, *place]);
            }
        }
    }
}

/// Clients that are gone, and waits whose client has hung up.
struct Ended<'a> {
    silent: BTreeMap<&'a str, (Time, u64, usize)>,
    /// By session and lock: since when nothing asks for it any more.
    hung_up: BTreeMap<(u64, &'a str), (Time, usize)>,
}

impl<'a> Ended<'a> {
    fn new(index: &Index<'a>) -> Self {
        let mut silent = BTreeMap::new();
        for (place, event) in index.events.iter().enumerate() {
            if let Event::Silent { name, ttl, at } = event {
                silent.insert(name.as_str(), (*at, *ttl, place));
            }
        }
        let mut hung_up = BTreeMap::new();
        let mut busy = BTreeSet::new();
        for ((session, _), request) in &index.requests {
            let answered = !request.granted.is_empty() || !request.refused.is_empty();
            let dropped = request.dropped.iter().max();
            let over = !answered && request.dropped.len() == request.asked.len();
            for want in request.wants {
                let key = (*session, want.lock.as_str());
                match dropped {
                    Some(&(at, place)) if over => {
                        let last = hung_up.entry(key).or_insert((at, place));
                        *last = (*last).max((at, place));
                    }
                    // Another request of the session for the same may be the one that a list shows.
                    _ => {
                        busy.insert(key);
                    }
                }
            }
        }
        hung_up.retain(|key, _| !busy.contains(key));
        Self { silent, hung_up }
    }

    fn judge(&self, index: &Index<'_>, (sent, _, place, locks): &Look<'_>, verdict: &mut Verdict) {
        for lock in *locks {
            let holders = lock.holders.iter().map(|held| (held.session, &held.name, "holds"));
            let waiters = lock.waiters.iter().map(|wait| (wait.session, &wait.name, "waits for"));
            for (session, name, verb) in holders.chain(waiters) {
                if let Some(&(at, ttl, shown)) = self.silent.get(name.as_str()) {
                    verdict.judged(Rule::Late, 1);
                    let calm = index.calm_between(at, *sent);
                    if calm > 2 * ttl + SLACK {
                        let says = format!(
                            "{name} is gone since {}, and {:.1} s without faults later, at a time-to-live of {:.1} s, \
                             it still {verb} {}",
                            index.ms(at),
                            calm as f64 / 1e9,
                            ttl as f64 / 1e9,
                            lock.lock
                        );
                        verdict.violated(Rule::Late, says, vec![shown, *place]);
                    }
                }
                let wait = self.hung_up.get(&(session, lock.lock.as_str()));
                if let Some(&(at, shown)) = wait.filter(|_| verb == "waits for") {
                    verdict.judged(Rule::Late, 1);
                    let calm = index.calm_between(at, *sent);
                    if calm > SLACK {
                        let says = format!(
                            "session {session} hung up at {}, and {:.1} s without faults later it still waits for {}",
                            index.ms(at),
                            calm as f64 / 1e9,
                            lock.lock
                        );
                        verdict.violated(Rule::Late, says, vec![shown, *place]);
                    }
                }
            }
        }
    }
}
