//! What is promised of failure detectors.

use std::time::Duration;

use super::{Asking, Family, Fault, Law, Now, PLAIN, Promise, Says, Tempo};
use crate::{NodeId, Property};

/// Failure detection.
pub(super) static FAMILY: Family =
    Family { name: "fd", promises: PROMISES, asking: Asking::None, patience, ..PLAIN };

const PROMISES: &[Promise] = &[
    Promise {
        // Who is down is suspected for good.
        stays: true,
        ..Promise::new(
            Property::Completeness,
            Says::AtRest(Law { broken: missed, words: missed_in_words }),
        )
    },
    Promise::new(
        Property::Accuracy,
        Says::Always(Law { broken: mistaken, words: mistaken_in_words }),
    ),
];

/// Strong completeness is violated: a live node does not suspect a crashed one.
fn missed(now: &dyn Now) -> Option<Fault> {
    let up = now.up();
    let mut unseen = None;
    let node = up.find(|node| {
        let suspects = now.suspected_by(node);
        let mut peers = (0..now.nodes()).map(NodeId);
        unseen = peers.find(|peer| !up.has(*peer) && !suspects.has(*peer));
        unseen.is_some()
    });
    unseen.zip(node).map(|(peer, node)| Fault { nodes: [peer, node], ..Fault::default() })
}

fn missed_in_words(_: &dyn Now, fault: Fault) -> String {
    let [peer, node] = fault.nodes;
    format!("{peer} is down and {node} does not suspect it")
}

/// Accuracy is violated: a live node suspects another live node.
fn mistaken(now: &dyn Now) -> Option<Fault> {
    let up = now.up();
    let mut wrong = None;
    let node = up.find(|node| {
        wrong = now.suspected_by(node).find(|peer| up.has(peer));
        wrong.is_some()
    });
    node.zip(wrong).map(|(node, peer)| Fault { nodes: [node, peer], ..Fault::default() })
}

fn mistaken_in_words(_: &dyn Now, fault: Fault) -> String {
    let [node, peer] = fault.nodes;
    format!("{node} suspects {peer}, which is up")
}

fn patience(tempo: &Tempo) -> Duration {
    tempo.hop.max(tempo.timer).saturating_mul(20)
}
