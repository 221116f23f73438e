//! First come, first served.

use std::collections::{BTreeMap, BTreeSet};

use crate::index::{Grant, Index};
use crate::{Event, Rule, Time, Verdict, Want};

/// A list of who waits for what: when it was asked for, when it came, and where it is in the history.
type List = (Time, Time, usize);

/// What is known of waits.
#[derive(Default)]
struct Seen<'a> {
    /// All lists.
    lists: Vec<List>,
    /// Those that show a session waiting for a lock.
    waiting: BTreeMap<(u64, &'a str), Vec<List>>,
    /// When a session asked for a lock in vain: its client gave up, and the server may have heard of that later.
    in_vain: BTreeMap<(u64, &'a str), Time>,
}

impl<'a> Seen<'a> {
    fn new(index: &Index<'a>) -> Self {
        let mut seen = Self::default();
        let locks = |wants: &'a [Want]| wants.iter().map(|want| want.lock.as_str());
        let granted: BTreeSet<(u64, Time)> =
            index.grants.iter().map(|grant| (grant.session, grant.asked)).collect();
        let mut asked = BTreeSet::new();
        for (place, event) in index.events.iter().enumerate() {
            match event {
                Event::Looked { sent, answered, locks } => {
                    let list = (*sent, *answered, place);
                    seen.lists.push(list);
                    for lock in locks {
                        for waiter in &lock.waiters {
                            let waiting = seen.waiting.entry((waiter.session, &lock.lock));
                            waiting.or_default().push(list);
                        }
                    }
                }
                // Repetitions have the number of the first.
                Event::Asked { session, request, wants, at }
                    if asked.insert((*session, *request))
                        && !granted.contains(&(*session, *at)) =>
                {
                    for lock in locks(wants) {
                        let first = seen.in_vain.entry((*session, lock)).or_insert(*at);
                        *first = (*first).min(*at);
                    }
                }
                _ => {}
            }
        }
        seen.lists.sort_unstable();
        seen.waiting.values_mut().for_each(|lists| lists.sort_unstable());
        seen
    }

    /// The first list that shows the request of a grant waiting for a lock.
    fn first(&self, grant: &Grant<'_>, lock: &str) -> Result<Option<List>, &'static str> {
        let Some(waiting) = self.waiting.get(&(grant.session, lock)) else { return Ok(None) };
        let after = |from: Time| &waiting[waiting.partition_point(|(sent, ..)| *sent < from)..];
        let shown =
            |lists: &[List]| lists.first().filter(|(sent, ..)| *sent < grant.answered).copied();
        let Some(first) = shown(after(grant.asked)) else { return Ok(None) };
        // The list was asked for after the request was. It shows this request, unless an earlier one may be there still.
        if self.in_vain.get(&(grant.session, lock)).is_none_or(|earlier| *earlier >= grant.asked) {
            return Ok(Some(first));
        }
        // The earlier one is gone at the latest when a list does not show the session.
        let from = self.lists.partition_point(|(sent, ..)| *sent < grant.asked);
        let absent = self.lists[from..].iter().find(|list| waiting.binary_search(list).is_err());
        match absent.and_then(|(sent, ..)| shown(after(*sent))) {
            Some(list) => Ok(Some(list)),
            None => Err("an earlier request of the session may be the one that was seen to wait"),
        }
    }
}

pub(crate) fn judge(index: &Index<'_>, verdict: &mut Verdict) {
    let seen = Seen::new(index);
    let mut locks: BTreeMap<&str, Vec<&Grant<'_>>> = BTreeMap::new();
    for grant in &index.grants {
        for want in grant.wants.iter().filter(|want| !want.lock.starts_with(Want::ELECTION)) {
            locks.entry(&want.lock).or_default().push(grant);
        }
    }
    for (lock, grants) in locks {
        judge_one(index, lock, &grants, &seen, verdict);
    }
}

fn judge_one(
    index: &Index<'_>,
    lock: &str,
    grants: &[&Grant<'_>],
    seen: &Seen<'_>,
    verdict: &mut Verdict,
) {
    // Who was known to wait, since when.
    let mut waits: Vec<(Time, &Grant<'_>, usize)> = Vec::new();
    for grant in grants {
        let (_, known, place) = match seen.first(grant, lock) {
            Ok(Some(list)) => list,
            Ok(None) => continue,
            Err(why) => {
                verdict.not_judged(Rule::Fifo, why);
                continue;
            }
        };
        // A wait that was interrupted may have begun anew at the end of the queue.
        let interrupted = |session| index.sessions.get(session).is_some_and(|s| s.interrupted);
        if interrupted(&grant.session) {
            verdict.not_judged(Rule::Fifo, "the wait was interrupted");
            continue;
        }
        waits.push((known, grant, place));
    }
    waits.sort_by_key(|(known, ..)| *known);
    let mut later: Vec<&Grant<'_>> = grants.to_vec();
    later.sort_by_key(|grant| grant.asked);
    let (mut waits, mut last) = (waits.into_iter().peekable(), None::<(Time, &Grant<'_>, usize)>);
    for grant in later {
        while let Some(wait) = waits.next_if(|(known, ..)| *known < grant.asked) {
            if last.is_none_or(|(_, last, _)| last.token < wait.1.token) {
                last = Some(wait);
            }
        }
        let Some((known, first, place)) = last else { continue };
        verdict.judged(Rule::Fifo, 1);
        if first.token > grant.token {
            let says = format!(
                "{} waited for {lock} by {}, {} asked for it at {}, and was served first: token {} before {}",
                first.who,
                index.ms(known),
                grant.who,
                index.ms(grant.asked),
                grant.token,
                first.token
            );
            let shown_by = [&first.shown_by[..], &grant.shown_by[..], &[place]].concat();
            verdict.violated(Rule::Fifo, says, shown_by);
        }
    }
}
