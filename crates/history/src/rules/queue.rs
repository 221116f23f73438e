//! First come, first served.

use std::collections::BTreeMap;

use crate::index::{Grant, Index};
use crate::{Event, Rule, Time, Verdict, Want};

/// The lists that show a session waiting for a lock: when each was asked for, when it came, and where it is.
type Seen<'a> = BTreeMap<(u64, &'a str), Vec<(Time, Time, usize)>>;

pub(crate) fn judge(index: &Index<'_>, verdict: &mut Verdict) {
    let mut seen: Seen<'_> = BTreeMap::new();
    for (place, event) in index.events.iter().enumerate() {
        let Event::Looked { sent, answered, locks } = event else { continue };
        for lock in locks.iter().filter(|lock| !lock.lock.starts_with(Want::ELECTION)) {
            for waiter in &lock.waiters {
                let list = seen.entry((waiter.session, &lock.lock)).or_default();
                list.push((*sent, *answered, place));
            }
        }
    }
    for list in seen.values_mut() {
        list.sort_unstable();
    }
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
        let Some(list) = seen.get(&(grant.session, lock)) else { continue };
        // The list was asked for after the request was, so it is this request that it shows.
        let first = list.partition_point(|(sent, ..)| *sent < grant.asked);
        let Some(&(sent, known, place)) = list.get(first) else { continue };
        if sent >= grant.answered {
            continue;
        }
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
