//! What is promised of mutual exclusion.

use std::time::Duration;

use super::{
    About, Asking, Family, Fault, Lasting, Law, Now, Owed, PLAIN, Promise, Says, Tempo, Those,
};
use crate::{NodeId, Observation, Property, names};

/// Mutual exclusion.
pub(super) static FAMILY: Family = Family {
    name: "mutex",
    promises: PROMISES,
    asking: Asking::All,
    inside: true,
    patience,
    ..PLAIN
};

const PROMISES: &[Promise] = &[
    Promise {
        about: ENTRIES,
        ..Promise::new(
            Property::Exclusion,
            Says::Always(Law { broken: crowd, words: crowd_in_words }),
        )
    },
    Promise::new(
        Property::NoDeadlock,
        Says::InTheEnd(Owed { to: stuck, each: false, words: stuck_in_words }),
    ),
    Promise::new(
        Property::NoStarvation,
        Says::InTheEnd(Owed { to: waiting, each: true, words: starved_in_words }),
    ),
    Promise {
        about: ENTRIES,
        ..Promise::new(
            Property::FcfsHappenedBefore,
            Says::Always(Law { broken: overtaking, words: overtaking_in_words }),
        )
    },
    // The token of an algorithm that promises this is the request's timestamp; the tokens of
    // others say nothing about it.
    Promise { property: Property::FcfsTimestamp, usual: false, ..FENCE },
    FENCE,
];

const FENCE: Promise = Promise {
    about: ENTRIES,
    ..Promise::new(Property::FenceOrder, Says::Always(Law { broken: stale, words: stale_in_words }))
};

const ENTRIES: Option<About> =
    Some((|mark| matches!(mark, Observation::Entered { .. }), "no node ever enters"));

/// More are inside than there are places. Who has crashed does nothing inside any more; fencing
/// keeps its late writes out.
fn crowd(now: &dyn Now) -> Option<Fault> {
    (now.inside().len() > now.places() as usize).then(Fault::default)
}

fn crowd_in_words(now: &dyn Now, _: Fault) -> String {
    format!("{} are inside together", names(now.inside().all()))
}

fn waiting(now: &dyn Now) -> Those<'_> {
    now.waiting()
}

/// The nodes that wait while none is inside.
fn stuck(now: &dyn Now) -> Those<'_> {
    if now.inside().is_empty() { now.waiting() } else { Those::NOBODY }
}

fn stuck_in_words(who: &[NodeId], lasting: Lasting) -> String {
    let wait = if who.len() == 1 { "waits" } else { "wait" };
    let who = names(who.iter().copied());
    match lasting {
        Lasting::ForEver => {
            format!("{who} {wait} for ever: no node is inside and nothing is left to happen")
        }
        Lasting::UntilAsked => format!(
            "{who} {wait} for ever: no node is inside and nothing has to happen, only further \
             requests could"
        ),
        Lasting::Round => format!("{who} asked, and for ever no node is inside"),
        Lasting::Span(span) => format!("{who} {wait}, and for {span:?} no node has been inside"),
    }
}

fn starved_in_words(who: &[NodeId], lasting: Lasting) -> String {
    let who = names(who.iter().copied());
    match lasting {
        Lasting::ForEver | Lasting::UntilAsked => format!("{who} asked and never entered"),
        Lasting::Round => format!("{who} asked and never enters"),
        Lasting::Span(span) => format!("{who} asked and did not enter for {span:?}"),
    }
}

/// A node waits although its request happened before that of a node inside.
fn overtaking(now: &dyn Now) -> Option<Fault> {
    let waiting = now.waiting();
    let mut overtaken = None;
    let second = now.inside().find(|second| {
        overtaken = waiting.find(|first| now.precedes(first, second));
        overtaken.is_some()
    });
    overtaken.zip(second).map(|(a, b)| Fault { nodes: [a, b], ..Fault::default() })
}

fn overtaking_in_words(_: &dyn Now, fault: Fault) -> String {
    let [a, b] = fault.nodes;
    format!("{a}'s request happened before {b}'s, and {b} entered first")
}

/// A grant came with a token no higher than an earlier one.
fn stale(now: &dyn Now) -> Option<Fault> {
    let (node, token, high) = now.stale_grant()?;
    Some(Fault { nodes: [node, node], numbers: [token, high] })
}

fn stale_in_words(_: &dyn Now, fault: Fault) -> String {
    let ([node, _], [token, high]) = (fault.nodes, fault.numbers);
    format!("{node} entered with token {token}, and {high} had been granted before")
}

/// A request has at most everybody else's before it, and perhaps all of them once more by
/// overtaking; with each, a stay inside and several messages to and from everybody in turn.
fn patience(tempo: &Tempo) -> Duration {
    let hops = tempo.hop.saturating_mul(tempo.nodes.saturating_mul(8) + 16);
    tempo.stay.saturating_add(hops).saturating_mul(tempo.nodes.saturating_mul(2))
}
