//! Honest histories pass, and the same with one lie do not.

#![expect(clippy::ptr_arg, reason = "one kind of lie adds an event, and all have the same type")]

use conclave_history::{Event, Rule, judge};

use crate::model::history;

const MS: u64 = 1_000_000;

#[test]
fn honest_histories_pass_and_every_rule_of_locks_is_applied_to_them() {
    let mut judged = [0; Rule::ALL.len()];
    for seed in 0..300 {
        let events = history(seed, 12);
        let verdict = judge(&events);
        let shown = verdict.violations.first().map(|violation| {
            let events = violation.shown_by.iter().map(|place| &events[*place]);
            (violation.rule, &violation.says, events.collect::<Vec<_>>())
        });
        assert!(shown.is_none(), "seed {seed}: {shown:#?}");
        for (sum, rule) in judged.iter_mut().zip(Rule::ALL) {
            *sum += verdict.tallies[&rule].judged;
        }
    }
    let of_locks =
        [Rule::Tokens, Rule::Holders, Rule::Order, Rule::Fifo, Rule::Early, Rule::Durable];
    for (sum, rule) in judged.iter().zip(Rule::ALL) {
        assert!(*sum > 1000 || !of_locks.contains(&rule), "{rule} was applied {sum} times");
    }
}

/// Changes a history by one event, if there is one to change, and says which rule that breaks.
type Lie = fn(&mut Vec<Event>, &mut fastrand::Rng) -> Option<Rule>;

const LIES: [Lie; 5] = [early_grant, forgotten_grant, revived_holder, lower_token, early_end];

#[test]
fn one_lie_is_enough_to_be_found() {
    let mut told = [0; LIES.len()];
    for seed in 0..200 {
        for (count, lie) in told.iter_mut().zip(LIES) {
            let mut events = history(seed, 12);
            let Some(rule) = lie(&mut events, &mut fastrand::Rng::with_seed(seed)) else {
                continue;
            };
            *count += 1;
            let verdict = judge(&events);
            let rules: Vec<Rule> = verdict.violations.iter().map(|found| found.rule).collect();
            assert!(
                rules.contains(&rule),
                "seed {seed}: {rule} is broken, and found was {rules:?}"
            );
        }
    }
    assert!(told.iter().all(|count| *count > 100), "{told:?}");
}

/// Any of the events that can be used.
fn pick<T>(list: Vec<T>, chance: &mut fastrand::Rng) -> Option<T> {
    let place = chance.usize(..list.len().max(1));
    list.into_iter().nth(place)
}

/// The next holder of an exclusive lock is told before the release.
fn early_grant(events: &mut Vec<Event>, chance: &mut fastrand::Rng) -> Option<Rule> {
    let exclusive = exclusive_grants(events);
    let mut pairs: Vec<(usize, u64)> = Vec::new();
    for (lock, token, place, _) in &exclusive {
        let before = exclusive.iter().filter(|other| other.0 == *lock && other.1 < *token);
        let Some((_, _, _, Some(release))) = before.max_by_key(|other| other.1) else { continue };
        pairs.push((*place, *release));
    }
    let (place, release) = pick(pairs, chance)?;
    let Event::Granted { at, .. } = &mut events[place] else { return None };
    if *at < release {
        return None;
    }
    *at = release - 1;
    Some(Rule::Holders)
}

/// The grants of exclusive locks: lock, token, place, and when the release was sent.
fn exclusive_grants(events: &[Event]) -> Vec<(String, u64, usize, Option<u64>)> {
    let mut grants = Vec::new();
    for (place, event) in events.iter().enumerate() {
        let Event::Granted { session, request, token, at } = event else { continue };
        let want = events.iter().find_map(|event| match event {
            Event::Asked { session: s, request: r, wants, .. } if s == session && r == request => {
                Some(&wants[0])
            }
            _ => None,
        });
        let release = events.iter().find_map(|event| match event {
            Event::Releasing { session: s, token: t, at: sent } if s == session && t == token => {
                (*sent > *at + 1).then_some(*sent)
            }
            _ => None,
        });
        let want = want.expect("it was asked for");
        if want.mode == conclave_history::Mode::Exclusive {
            grants.push((want.lock.clone(), *token, place, release));
        }
    }
    grants
}

/// A list leaves out what is held.
fn forgotten_grant(events: &mut Vec<Event>, chance: &mut fastrand::Rng) -> Option<Rule> {
    let mut certain = Vec::new();
    for (place, event) in events.iter().enumerate() {
        let Event::Looked { sent, answered, locks } = event else { continue };
        for (lock, view) in locks.iter().enumerate() {
            for (holder, held) in view.holders.iter().enumerate() {
                let known = events.iter().any(|event| match event {
                    Event::Granted { token, at, .. } => *token == held.token && at < sent,
                    _ => false,
                });
                let later = events.iter().any(|event| match event {
                    Event::Releasing { token, at, .. } => *token == held.token && at > answered,
                    _ => false,
                });
                if known && later {
                    certain.push((place, lock, holder));
                }
            }
        }
    }
    let (place, lock, holder) = pick(certain, chance)?;
    let Event::Looked { locks, .. } = &mut events[place] else { return None };
    locks[lock].holders.remove(holder);
    Some(Rule::Durable)
}

/// A list shows what was released.
fn revived_holder(events: &mut Vec<Event>, chance: &mut fastrand::Rng) -> Option<Rule> {
    let mut over = Vec::new();
    for event in events.iter() {
        if let Event::Released { session, token, at } = event {
            over.push((*session, *token, *at));
        }
    }
    let (session, token, at) = pick(over, chance)?;
    let look = events.iter_mut().find_map(|event| match event {
        Event::Looked { sent, locks, .. } if *sent > at && !locks.is_empty() => Some(locks),
        _ => None,
    })?;
    let name = format!("s{session}");
    look[0].holders.push(conclave_history::Held { session, name, token });
    Some(Rule::Ghost)
}

/// A token is one that another grant had.
fn lower_token(events: &mut Vec<Event>, chance: &mut fastrand::Rng) -> Option<Rule> {
    let tokens = events.iter().enumerate().filter_map(|(place, event)| match event {
        Event::Granted { token, .. } if *token > 1 => Some(place),
        _ => None,
    });
    let place = pick(tokens.collect(), chance)?;
    let Event::Granted { token, .. } = &mut events[place] else { return None };
    *token -= 1;
    Some(Rule::Tokens)
}

/// A session is told that it does not exist, right after it was renewed.
fn early_end(events: &mut Vec<Event>, chance: &mut fastrand::Rng) -> Option<Rule> {
    let renewals = events.iter().filter_map(|event| match event {
        Event::Renewed { session, answered, .. } => Some((*session, *answered)),
        _ => None,
    });
    let (session, at) = pick(renewals.collect(), chance)?;
    let code = "unknown-session".to_owned();
    events.push(Event::Unknown { session, code, sent: at, answered: at + MS });
    Some(Rule::Early)
}
