//! Mutual exclusion: no two sessions hold a lock in modes that conflict.

use std::collections::BTreeMap;

use crate::index::{Grant, Index};
use crate::{Mode, Rule, Time, Verdict};

pub(crate) fn judge(index: &Index<'_>, verdict: &mut Verdict) {
    // The grants of each lock, in the order of their tokens.
    let mut locks: BTreeMap<&str, Vec<(&Grant<'_>, Mode)>> = BTreeMap::new();
    for grant in &index.grants {
        for want in grant.wants {
            locks.entry(&want.lock).or_default().push((grant, want.mode));
        }
    }
    for (lock, grants) in locks {
        let overlaps = overlap(index, lock, &grants, verdict);
        follow(index, lock, &grants, &overlaps, verdict);
    }
}

/// Which of those that are held cannot be held together with one more.
fn in_the_way<'a>(
    held: impl Iterator<Item = &'a (&'a Grant<'a>, Mode)>,
    mode: Mode,
) -> Vec<&'a Grant<'a>> {
    let held: Vec<_> = held.collect();
    let taken: u64 = held.iter().map(|(_, mode)| u64::from(permits(*mode))).sum();
    let conflicting = held.into_iter().filter(|(_, other)| match (mode, other) {
        (Mode::Shared, Mode::Shared) => false,
        (Mode::Permits { take, of }, Mode::Permits { .. }) => {
            taken + u64::from(take) > u64::from(of)
        }
        _ => true,
    });
    conflicting.map(|(grant, _)| *grant).collect()
}

fn permits(mode: Mode) -> u32 {
    match mode {
        Mode::Permits { take, .. } => take,
        Mode::Exclusive | Mode::Shared => 0,
    }
}

fn same(a: &Grant<'_>, b: &Grant<'_>) -> bool {
    a.token == b.token && a.session == b.session
}

/// Looks for beliefs that overlap, and says which pairs of tokens do.
fn overlap(
    index: &Index<'_>,
    lock: &str,
    grants: &[(&Grant<'_>, Mode)],
    verdict: &mut Verdict,
) -> Vec<(u64, u64)> {
    // What ends at a moment ends before anything begins there.
    let mut edges: Vec<(Time, bool, usize)> = Vec::new();
    for (place, (grant, _)) in grants.iter().enumerate() {
        let end = grant.end_of(lock);
        if let Some(why) = grant.left_out(lock) {
            verdict.not_judged(if grant.command { Rule::Beside } else { Rule::Holders }, why);
        }
        if grant.answered < end {
            edges.push((grant.answered, true, place));
            edges.push((end, false, place));
        }
    }
    edges.sort_unstable();
    let (mut held, mut found): (Vec<usize>, Vec<(u64, u64)>) = (Vec::new(), Vec::new());
    for (at, begins, place) in edges {
        if !begins {
            held.retain(|other| *other != place);
            continue;
        }
        let (grant, mode) = grants[place];
        let others = held.iter().map(|other| &grants[*other]);
        let blocking = in_the_way(others.filter(|(other, _)| !same(other, grant)), mode);
        let commands = grant.command && blocking.iter().all(|other| other.command);
        let rule = if commands { Rule::Beside } else { Rule::Holders };
        verdict.judged(if grant.command { Rule::Beside } else { Rule::Holders }, 1);
        if let Some(other) = blocking.first() {
            let until = other.end_of(lock).min(grant.end_of(lock));
            let verb = if commands { "ran" } else { "was believed in" };
            let says = format!(
                "{lock} {verb} twice from {} for {:.1} ms: {} (token {}) and {} (token {})",
                index.ms(at),
                (until - at) as f64 / 1e6,
                other.who,
                other.token,
                grant.who,
                grant.token
            );
            let places = blocking.iter().flat_map(|other| other.shown_by.iter().copied());
            let shown_by = places.chain(grant.shown_by.iter().copied()).collect();
            verdict.violated(rule, says, shown_by);
            found.extend(blocking.iter().map(|other| (other.token, grant.token)));
        }
        held.push(place);
    }
    found
}

/// A grant that its client knew of while an earlier one was in the way had no right to be made, even if the
/// earlier holder did not know of its own yet.
fn follow(
    index: &Index<'_>,
    lock: &str,
    grants: &[(&Grant<'_>, Mode)],
    overlaps: &[(u64, u64)],
    verdict: &mut Verdict,
) {
    // The first answer among all that come later in the order of tokens: what ends before it overlaps with none.
    let mut first_answers = vec![Time::MAX; grants.len() + 1];
    for place in (0..grants.len()).rev() {
        first_answers[place] = first_answers[place + 1].min(grants[place].0.answered);
    }
    let mut held: Vec<(&Grant<'_>, Mode)> = Vec::new();
    for (place, (grant, mode)) in grants.iter().enumerate() {
        held.retain(|(other, _)| other.end_of(lock) > first_answers[place]);
        let others = held
            .iter()
            .filter(|(other, _)| other.end_of(lock) > grant.answered && !same(other, grant));
        let blocking = in_the_way(others, *mode);
        verdict.judged(Rule::Order, 1);
        let told = |other: &Grant<'_>| {
            let pair = (other.token, grant.token);
            overlaps.contains(&pair) || overlaps.contains(&(pair.1, pair.0))
        };
        if let Some(other) = blocking.iter().find(|other| !told(other)) {
            let says = format!(
                "{} knew at {} that it had {lock} (token {}), though nothing had ended the grant to {} (token {}) \
                 before {}",
                grant.who,
                index.ms(grant.answered),
                grant.token,
                other.who,
                other.token,
                index.ms(other.end_of(lock))
            );
            let shown_by = [&other.shown_by[..], &grant.shown_by[..]].concat();
            verdict.violated(Rule::Order, says, shown_by);
        }
        if let Some(why) = grant.left_out(lock) {
            verdict.not_judged(Rule::Order, why);
        }
        held.push((grant, *mode));
    }
}
