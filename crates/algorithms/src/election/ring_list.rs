//! A node that misses the leader sends a list with its own id round the ring, and every other node adds
//! its own. A node that finds itself in the list knows that it is complete: the best of the list leads,
//! and a second round tells all nodes.
//!
//! Every live node is in every list, for only the dead are skipped: delays are bounded, so silence
//! for a round trip proves that a successor is dead. So all lists have the same best, whichever nodes
//! call and however many. The initiator's death does no harm: the node behind it finds itself in the
//! list instead. The announcement carries a list, too, of those who have heard it, so that one whose
//! origin is dead ends at its second visit to a node.
//!
//! The rules have the same numbers in all elections on a ring with lists, and are carried out in
//! `election/support/ring.rs`.
//!
//! # Rules
//!
//! 1. The leader is suspected, or the application calls: unless an election of one's own is on its
//!    way, send `Election` with a list of oneself to the successor.
//! 2. `Election` whose list one is not in: add oneself and pass it on. Otherwise the list is
//!    complete: follow its best, in the term after the highest counter seen, and send `Coordinator`.
//!    In `election/ring-list-initiator` only the initiator does that; at any other node the list goes
//!    on as it is.
//! 3. `Coordinator`: follow its leader, unless the term is an old one; pass it on, having added
//!    oneself to those who have heard it. It ends at its origin, and at a node that has heard it before.
//! 4. Every hop is acknowledged with `Ack`. A successor that does not acknowledge within `2T + Tproc`
//!    is dead: send the same to the one after it. The dead are not remembered.
//! 5. Option `suppression`: drop an `Election` if one of a better initiator has passed since the last
//!    outcome, or one's own is on its way and better.
//!
//! # Cost
//!
//! With L live nodes and I initiators: exactly 2L messages that arrive for each initiator, 2LI in
//! all, and 2L hops until the announcement is back, beside the acknowledgements. For each dead node
//! one more is lost in each round, and delays that round by a time-out. A message holds up to L ids.
//!
//! # Known failures
//!
//! The best node crashes after it has put itself into the list: a node that hears of that before the
//! announcement comes follows a dead leader (`election/ring-modified` asks again). If the node that
//! waits for an acknowledgement of a dead successor crashes as well, the list is lost with it. If
//! only the initiator may complete a list, the list of a dead initiator goes round for ever.

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{About, Case, Fits, Further};
use conclave_protocol::{
    Crashes, Detector, Entry, Model, Opt, Property, Setup, Timing, Topology, Unfit,
};

use super::LEADER;
use super::support::ring::{Config, Converts, Ring};

/// The assumptions: crashes show in missing acknowledgements.
pub(super) const MODEL: Model = Model {
    timing: Timing::Synchronous,
    crashes: Crashes::Stop,
    detector: Detector::Perfect,
    ..Model::FIFO
};

/// What no election on a ring with lists promises.
pub(super) const SAME_TERM: (Property, &str) = (
    Property::OneLeaderPerEpoch,
    "two elections at once; the best node crashes when one list has it and the other has not: two \
     leaders in the same term",
);
/// What comes of a list that names a dead node.
const BEST_DEAD: (Property, &str) = (
    Property::BestLeads,
    "the best node crashes after it has put itself into the list, and is followed",
);
/// What fails where any node completes a list, and dead leaders are not remembered.
pub(super) const FAILS: &[(Property, &str)] = &[
    SAME_TERM,
    (
        Property::LeaderKnown,
        "the best node crashes after it has put itself into the list, and is announced when its \
         death is old news",
    ),
    BEST_DEAD,
];

fn config(setup: &Setup, converts: Converts) -> Result<Config, Unfit> {
    let suppression = setup.option("suppression", false)?;
    Ok(Config { suppression, ..Config::new(setup, converts)? })
}

const INITIATORS: Further =
    &[&[("L", 2), ("I", 1)], &[("L", 5), ("I", 5)], &[("L", 12), ("I", 4)], &[("L", 40), ("I", 1)]];
const FROM_SEVERAL: Fits = Fits {
    about: About::Election,
    when: |seen| {
        let calls = seen.calls()?;
        let live = u64::from(seen.n() - u32::from(calls.top_is_dead));
        Some(vec![("L", live), ("I", calls.count)])
    },
};

/// Any node completes a list.
pub static PLAIN: Entry<Ring> =
    Entry::new("election/ring-list", "Ring with a list", |setup| config(setup, Converts::AnyNode))
        .summary("a list goes round the ring, and the best of it leads")
        .source("Le Lann. Distributed systems: towards a formal approach. IFIP Congress, 1977")
        .text(include_str!("ring_list.rs"))
        .model(MODEL)
        .holds(&[Property::OneLeader])
        .fails(FAILS)
        .options(&[Opt {
            name: "suppression",
            default: "false",
            help: "true drops elections where one of a better initiator has passed",
        }])
        .claims(&[
            Check::new(3, &[Property::OneLeader]).crashes(1),
            Check::new(3, LEADER),
            Check::new(2, LEADER).set(&[("suppression", "true")]),
            Check::new(2, &[Property::LeaderKnown, Property::BestLeads]).crashes(1).fails(7),
            Check::new(3, &[Property::LeaderKnown, Property::BestLeads]).crashes(1).fails(33),
            Check::new(3, &[Property::OneLeaderPerEpoch]).crashes(1).fails(13),
        ])
        .deep(&[
            Check::new(3, &[Property::OneLeader]).crashes(2),
            Check::new(3, LEADER).set(&[("suppression", "true")]),
            Check::new(4, LEADER).clients(0, 2),
        ])
        .cases(&[Case::new("I-initiators", INITIATORS, |given| {
            let calls: Vec<_> = (0..given.n("I")).map(|node| (node, 10)).collect();
            let live = Setup::new(Topology::complete(given.n("L")));
            vec![given.planned(live, &calls).whole()]
        })
        .fits(&[FROM_SEVERAL])]);

/// Only the initiator completes a list.
pub static INITIATOR: Entry<Ring> = PLAIN
    .variant("election/ring-list-initiator", "Ring with a list that only its initiator completes")
    .summary("the list of a dead initiator goes round for ever")
    .fails(&[
        SAME_TERM,
        (Property::LeaderKnown, "the initiator crashes, and its list goes round for ever"),
        BEST_DEAD,
    ])
    .config(|setup| config(setup, Converts::Initiator))
    .claims(&[
        Check::new(3, &[Property::OneLeader]).crashes(1),
        Check::new(3, LEADER),
        Check::new(2, &[Property::LeaderKnown]).crashes(1).loops(5, 4),
        Check::new(3, &[Property::LeaderKnown]).crashes(1).loops(12, 7),
        Check::new(3, &[Property::BestLeads]).crashes(2).fails(14),
        Check::new(3, &[Property::OneLeaderPerEpoch]).crashes(1).fails(14),
    ])
    .deep(&[Check::new(3, &[Property::OneLeader]).crashes(2)]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect, NodeId, Rank};

    use super::*;
    use crate::election::Request;
    use crate::election::support::ring::{Msg, Tag, Timer};

    fn list(ids: &[u32], best: u32) -> Msg {
        let best = Rank { attribute: 0, node: NodeId(best) };
        let ids: Vec<NodeId> = ids.iter().copied().map(NodeId).collect();
        Msg::Election { origin: ids[0], epoch: 0, best, ids }
    }

    #[test]
    fn a_node_that_finds_itself_in_a_list_announces_the_best_of_it() {
        let mut bench = Bench::complete(&PLAIN, 3);
        let passed_on = bench.at(1).message(0, list(&[0], 0));
        let ack = Effect::Send { to: NodeId(0), msg: Msg::Ack(Tag::Election(NodeId(0))) };
        assert_eq!(passed_on[0], ack);
        assert_eq!(passed_on[2], Effect::Send { to: NodeId(2), msg: list(&[0, 1], 1) });
        assert_eq!(bench.at(1).rules(), [2, 4]);
        // Its origin is dead, and the list comes round again.
        let announced = bench.at(1).message(2, list(&[0, 1, 2], 2));
        let leader = |effect: &Effect<Ring>| match effect {
            Effect::Send { msg: Msg::Coordinator { epoch, .. }, .. } => Some(epoch.node),
            _ => None,
        };
        assert_eq!(announced.iter().find_map(leader), Some(NodeId(2)));
    }

    #[test]
    fn what_a_dead_successor_does_not_acknowledge_goes_to_the_one_after_it() {
        let mut bench = Bench::complete(&PLAIN, 3);
        bench.at(0).request(Request::Campaign);
        let again = bench.at(0).timer(Timer::Ack(NodeId(1)));
        assert!(again.contains(&Effect::Send { to: NodeId(2), msg: list(&[0], 0) }));
        assert_eq!(bench.at(0).rules(), [4]);
    }
}
