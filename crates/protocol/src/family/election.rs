//! What is promised of elections.

use std::time::Duration;

use super::{About, Asking, Family, Fault, Law, Now, PLAIN, Promise, Says, Tempo};
use crate::{NodeId, Observation, Property, names};

/// Elections.
pub(super) static FAMILY: Family = Family {
    name: "election",
    promises: PROMISES,
    asking: Asking::One,
    elects: true,
    // An election that travels from node to node takes a few rounds of all of them.
    settles: |nodes| nodes.saturating_mul(8),
    patience,
    ..PLAIN
};

const PROMISES: &[Promise] = &[
    Promise {
        counted: true,
        about: LEADERS,
        ..Promise::new(
            Property::OneLeader,
            Says::AtRest(Law { broken: two_leaders, words: two_leaders_in_words }),
        )
    },
    Promise {
        about: LEADERS,
        ..Promise::new(
            Property::OneLeaderPerEpoch,
            Says::Always(Law { broken: rivals, words: rivals_in_words }),
        )
    },
    Promise {
        counted: true,
        ..Promise::new(
            Property::LeaderKnown,
            Says::AtRest(Law { broken: unknown, words: unknown_in_words }),
        )
    },
    Promise {
        counted: true,
        ..Promise::new(
            Property::BestLeads,
            Says::AtRest(Law { broken: not_the_best, words: not_the_best_in_words }),
        )
    },
];

const LEADERS: Option<About> =
    Some((|mark| matches!(mark, Observation::Follows { .. }), "no node is ever elected"));

fn leads(now: &dyn Now, node: NodeId) -> bool {
    now.leader_of(node) == Some(node)
}

/// Two who are up, and not apart, take themselves for the leader.
fn two_leaders(now: &dyn Now) -> Option<Fault> {
    let up = now.up();
    let mut second = None;
    let first = up.find(|first| {
        second = match leads(now, first) {
            true => up.find(|it| it > first && leads(now, it) && now.together(first, it)),
            false => None,
        };
        second.is_some()
    });
    first.zip(second).map(|(a, b)| Fault { nodes: [a, b], ..Fault::default() })
}

fn two_leaders_in_words(now: &dyn Now, fault: Fault) -> String {
    let [first, _] = fault.nodes;
    let leaders = now.up().those(|it| leads(now, it) && now.together(first, it));
    format!("{} each take themselves for the leader", names(leaders))
}

/// Two lead in one epoch.
fn rivals(now: &dyn Now) -> Option<Fault> {
    let (first, second, epoch) = now.rivals()?;
    Some(Fault { nodes: [first, second], numbers: [epoch, 0] })
}

fn rivals_in_words(_: &dyn Now, fault: Fault) -> String {
    let ([first, second], [epoch, _]) = (fault.nodes, fault.numbers);
    format!("{first} and {second} both lead in epoch {epoch}")
}

fn knows(now: &dyn Now, node: NodeId) -> bool {
    now.leader_of(node).is_some_and(|leader| now.up().has(leader))
}

/// A live node knows no live leader.
fn unknown(now: &dyn Now) -> Option<Fault> {
    let lost = now.up().find(|node| !knows(now, node))?;
    Some(Fault { nodes: [lost, lost], ..Fault::default() })
}

fn unknown_in_words(now: &dyn Now, _: Fault) -> String {
    format!("no live leader is known to {}", names(now.up().those(|node| !knows(now, node))))
}

/// A live node follows another leader than the best live node.
fn not_the_best(now: &dyn Now) -> Option<Fault> {
    let up = now.up();
    let mut best = None;
    let mut leader = None;
    up.find(|node| {
        let follows = now.leader_of(node);
        if follows.is_some() && best.is_none() {
            best = now.best();
        }
        leader = follows.filter(|leader| best != Some(*leader));
        leader.is_some()
    });
    leader.zip(best).map(|(leader, best)| Fault { nodes: [leader, best], ..Fault::default() })
}

fn not_the_best_in_words(_: &dyn Now, fault: Fault) -> String {
    let [leader, best] = fault.nodes;
    format!("{leader} is taken for the leader, and {best} is the best live node")
}

fn patience(tempo: &Tempo) -> Duration {
    tempo.hop.max(tempo.timer).saturating_mul(20)
}
