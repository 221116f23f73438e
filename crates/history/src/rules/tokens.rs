//! Tokens rise, and a request has one.

use std::collections::BTreeMap;

use crate::index::Index;
use crate::{Rule, Verdict};

pub(crate) fn judge(index: &Index<'_>, verdict: &mut Verdict) {
    rise(index, verdict);
    once(index, verdict);
}

/// A request that was sent after a grant was answered has a greater token.
fn rise(index: &Index<'_>, verdict: &mut Verdict) {
    let grants = &index.grants;
    let mut by_asking: Vec<usize> = (0..grants.len()).collect();
    let mut by_answer = by_asking.clone();
    by_asking.sort_by_key(|grant| grants[*grant].asked);
    by_answer.sort_by_key(|grant| grants[*grant].answered);
    let (mut answered, mut greatest) = (by_answer.into_iter().peekable(), None::<usize>);
    for later in by_asking {
        let grant = &grants[later];
        while let Some(earlier) =
            answered.next_if(|earlier| grants[*earlier].answered < grant.asked)
        {
            if greatest.is_none_or(|greatest| grants[greatest].token < grants[earlier].token) {
                greatest = Some(earlier);
            }
        }
        verdict.judged(Rule::Tokens, 1);
        let Some(earlier) = greatest.map(|greatest| &grants[greatest]) else { continue };
        if earlier.token >= grant.token {
            let says = format!(
                "{} was granted token {} and knew of it at {}; {} asked at {} and got token {}",
                earlier.who,
                earlier.token,
                index.ms(earlier.answered),
                grant.who,
                index.ms(grant.asked),
                grant.token
            );
            let shown_by = [&earlier.shown_by[..], &grant.shown_by[..]].concat();
            verdict.violated(Rule::Tokens, says, shown_by);
        }
    }
    let mut owners: BTreeMap<u64, usize> = BTreeMap::new();
    for (place, grant) in grants.iter().enumerate() {
        let first = *owners.entry(grant.token).or_insert(place);
        let same = grants[first].session == grant.session && grants[first].wants == grant.wants;
        if !same {
            let says = format!(
                "{} and {} were granted the same token {}",
                grants[first].who, grant.who, grant.token
            );
            let shown_by = [&grants[first].shown_by[..], &grant.shown_by[..]].concat();
            verdict.violated(Rule::Tokens, says, shown_by);
        }
    }
}

/// However often a request is repeated, it is granted once, and is not refused for having been asked before.
fn once(index: &Index<'_>, verdict: &mut Verdict) {
    for ((session, _), request) in &index.requests {
        let asked = request.asked.iter().map(|(_, place)| *place);
        if let Some(&(at, code, place)) =
            request.refused.iter().find(|(_, code, _)| *code == "forgotten")
        {
            let says = format!(
                "session {session} was told at {} that its newest request is forgotten ({code})",
                index.ms(at)
            );
            verdict.violated(Rule::Once, says, asked.clone().chain([place]).collect());
        }
        if request.asked.len() < 2 {
            continue;
        }
        if request.granted.is_empty() && request.refused.is_empty() {
            verdict.not_judged(Rule::Once, "no attempt was answered");
            continue;
        }
        verdict.judged(Rule::Once, 1);
        let mut tokens: Vec<u64> = request.granted.iter().map(|(_, token, _)| *token).collect();
        tokens.sort_unstable();
        tokens.dedup();
        if tokens.len() > 1 {
            let says = format!("one request of session {session} was granted tokens {tokens:?}");
            let granted = request.granted.iter().map(|(.., place)| *place);
            verdict.violated(Rule::Once, says, asked.clone().chain(granted).collect());
        }
        let refusals = ["busy", "already-held"];
        if let Some(&(at, code, place)) =
            request.refused.iter().find(|(_, code, _)| refusals.contains(code))
        {
            let says = format!(
                "session {session} repeated a request under its number and was told `{code}` at {}",
                index.ms(at)
            );
            verdict.violated(Rule::Once, says, asked.chain([place]).collect());
        }
    }
}
