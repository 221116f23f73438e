//! No session and no grant ends while the lease lasts.

use crate::index::{Grant, Index};
use crate::{Event, Rule, Time, Verdict};

/// By which the server says that there is no such session.
const NO_SESSION: [&str; 3] = ["unknown-session", "session-ended", "session-lost"];

/// By which the server says that a session does not have what it releases.
const NOT_HELD: [&str; 4] = ["not-held", "stale-token", "lost", "not-leader"];

pub(crate) fn judge(index: &Index<'_>, verdict: &mut Verdict) {
    for (place, event) in index.events.iter().enumerate() {
        match event {
            Event::Renewed { .. } | Event::Released { .. } => verdict.judged(Rule::Early, 1),
            Event::Unknown { session, code, answered, .. } => {
                no_session(index, *session, code, *answered, place, verdict);
            }
            Event::Refused { session, code, at, .. } if NO_SESSION.contains(&code.as_str()) => {
                no_session(index, *session, code, *at, place, verdict);
            }
            Event::ReleaseRefused { session, code, at, .. }
                if NO_SESSION.contains(&code.as_str()) =>
            {
                no_session(index, *session, code, *at, place, verdict);
            }
            Event::ReleaseRefused { session, token, code, at }
                if NOT_HELD.contains(&code.as_str()) =>
            {
                not_held(index, (*session, *token), code, *at, place, verdict);
            }
            Event::Lost { session, token, why, at } => {
                lost(index, (*session, *token), why, *at, place, verdict);
            }
            _ => {}
        }
    }
}

/// The server says that there is no such session: only after it was closed, or after the client's lease.
fn no_session(
    index: &Index<'_>,
    number: u64,
    code: &str,
    at: Time,
    place: usize,
    verdict: &mut Verdict,
) {
    let session = index.sessions.get(&number);
    let Some((session, lease_end)) = session.and_then(|known| Some((known, known.lease_end?)))
    else {
        verdict.not_judged(Rule::Early, "its client counts its lease itself");
        return;
    };
    verdict.judged(Rule::Early, 1);
    let closing = session.closing.is_some_and(|(closing, _)| closing < at);
    if at < lease_end && !closing {
        let says = format!(
            "session {number} was told `{code}` at {}, though its lease lasts until {}",
            index.ms(at),
            index.ms(lease_end)
        );
        let shown_by = session.renewed_by.into_iter().chain([place]).collect();
        verdict.violated(Rule::Early, says, shown_by);
    }
}

/// The server says that a session does not hold what it was granted.
fn not_held(
    index: &Index<'_>,
    (session, token): (u64, u64),
    code: &str,
    at: Time,
    place: usize,
    verdict: &mut Verdict,
) {
    // An attempt before may have done it, and its answer been lost.
    let attempts = index.releasing.get(&(session, token)).map_or(&[][..], |list| list);
    if attempts.iter().filter(|(sent, _)| *sent < at).count() > 1 {
        verdict.not_judged(Rule::Early, "an earlier release had no answer");
        return;
    }
    let lease_end = index.sessions.get(&session).and_then(|known| known.lease_end);
    let Some(lease_end) = lease_end else {
        verdict.not_judged(Rule::Early, "its client counts its lease itself");
        return;
    };
    let grant = grant_of(index, session, token);
    let Some(forced) = forced_before(grant, at) else {
        verdict.not_judged(Rule::Early, "an operator's force had no answer");
        return;
    };
    verdict.judged(Rule::Early, 1);
    if at < lease_end && !forced {
        let says = format!(
            "session {session} released token {token} and was told `{code}` at {}, though its lease lasts until {} \
             and no operator took it",
            index.ms(at),
            index.ms(lease_end)
        );
        let shown_by = grant.map_or(vec![], |grant| grant.shown_by.clone());
        verdict.violated(Rule::Early, says, [&shown_by[..], &[place]].concat());
    }
}

/// A client that counts its lease itself says that something is lost: only after that lease, or by force.
fn lost(
    index: &Index<'_>,
    (session, token): (u64, u64),
    why: &str,
    at: Time,
    place: usize,
    verdict: &mut Verdict,
) {
    let Some(&(_, until, seen)) = index.believed.get(&(session, token)) else {
        verdict.not_judged(Rule::Early, "its client never looked");
        return;
    };
    if ["closed", "preempted", "abandoned"].contains(&why) {
        verdict.not_judged(Rule::Early, "it was asked for");
        return;
    }
    let grant = grant_of(index, session, token);
    let Some(forced) = forced_before(grant, at) else {
        verdict.not_judged(Rule::Early, "an operator's force had no answer");
        return;
    };
    verdict.judged(Rule::Early, 1);
    if at < until && !forced {
        let says = format!(
            "session {session} lost token {token} at {} ({why}), though its lease lasts until {}",
            index.ms(at),
            index.ms(until)
        );
        let shown_by = grant.map_or(vec![], |grant| grant.shown_by.clone());
        verdict.violated(Rule::Early, says, [&shown_by[..], &[seen, place]].concat());
    }
}

/// Whether an operator had taken some of a grant by then; nothing if that is unknown.
fn forced_before(grant: Option<&Grant<'_>>, at: Time) -> Option<bool> {
    let losses = grant.map_or(&[][..], |grant| &grant.losses);
    let mut before = losses.iter().filter(|loss| loss.at < at).peekable();
    if before.peek().is_none() {
        return Some(false);
    }
    before.any(|loss| loss.certain).then_some(true)
}

fn grant_of<'a>(index: &'a Index<'_>, session: u64, token: u64) -> Option<&'a Grant<'a>> {
    let first = index.grants.partition_point(|grant| grant.token < token);
    let same = index.grants[first..].iter().take_while(|grant| grant.token == token);
    same.into_iter().find(|grant| grant.session == session)
}
