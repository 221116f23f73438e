//! A ring with a list (`election/ring-list`) that makes sure the leader is there: every node adds
//! itself to the announcement, too. If the initiator gets it back without the leader's own id, the
//! leader has died in the meantime, and the election begins anew.
//!
//! A leader that has put itself into the announcement has been alive after all nodes before it in
//! the ring had heard of it. Only the initiator knows whether that happened: every other node follows
//! for the time being, and hears of the next attempt like of the first.
//!
//! The rules have the same numbers in all elections on a ring with lists, and are carried out in
//! `election/support/ring.rs`.
//!
//! # Rules
//!
//! 1. The leader is suspected, or the application calls: unless an election of one's own is on its
//!    way, send `Election` with a list of oneself to the successor.
//! 2. `Election` of another: add oneself, unless one is in the list, and keep the best of the ranks,
//!    attribute first; pass it on. One's own: follow the best, in the term after the highest counter
//!    seen, and send `Coordinator`.
//! 3. `Coordinator`: follow its leader, unless the term is an old one. Add oneself, and pass it on; it
//!    ends at its origin, and at a node that has heard it before.
//! 4. Every hop is acknowledged with `Ack`, and dead successors are skipped, as in `election/ring-list`.
//!
//! The announcement confirms the outcome:
//!
//! 6. `Coordinator` of one's own: if the leader is in its list, the election is over. If not: run
//!    rule 1 again, for the next round.
//!
//! # Cost
//!
//! With L live nodes and without crashes meanwhile: 2L messages that arrive, as without the check,
//! and 2L more each time the leader has died.
//!
//! # Known failures
//!
//! The initiator crashes, and its list goes round for ever (`election/ring-watchdog` takes over); or it
//! crashes after the leader has, and no node notices that the leader is missing. The leader crashes
//! after it has put itself into the announcement: a node that hears of that before the announcement
//! comes follows a dead leader.

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{Case, at};
use conclave_protocol::{Entry, NodeId, Property, Setup, Time, Topology};

use super::support::ring::{Config, Converts, Ring};
use super::{LEADER, ring_list};

/// The algorithm.
pub static PLAIN: Entry<Ring> = Entry::new(
    "election/ring-modified",
    "Ring with confirmation",
    |setup| Ok(Config { confirmation: true, ..Config::new(setup, Converts::Initiator)? }),
)
.summary("everybody signs the announcement; without the leader's own id it does not count")
.source("A usual extension of the ring with a list")
.text(include_str!("ring_modified.rs"))
.model(ring_list::MODEL)
.holds(&[Property::OneLeader])
.fails(&[
    ring_list::SAME_TERM,
    (Property::LeaderKnown, "the initiator crashes, and its list goes round for ever"),
    (
        Property::BestLeads,
        "the leader crashes before it is announced, and then the initiator, so that no node asks \
         again",
    ),
])
.claims(&[
    Check::new(3, &[Property::OneLeader]).crashes(1),
    Check::new(3, LEADER),
    Check::new(2, &[Property::LeaderKnown]).crashes(1).loops(5, 4),
    Check::new(3, &[Property::LeaderKnown]).crashes(1).loops(12, 7),
    Check::new(3, &[Property::BestLeads]).crashes(2).fails(11),
    Check::new(3, &[Property::OneLeaderPerEpoch]).crashes(1).fails(14),
])
.deep(&[Check::new(3, &[Property::OneLeader]).crashes(2)])
.cases(&[Case::new("replay-002", &[], |given| {
    let mut replay = given.planned(Setup::new(Topology::complete(6)), &[(2, 10)]);
    let run = &mut replay.runs[0];
    // Only missing acknowledgements tell of crashes.
    run.detector = false;
    run.crashes = vec![(NodeId(5), Time::ZERO), (NodeId(4), at(17))];
    vec![replay.whole()]
})]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Stamp};

    use super::*;
    use crate::election::Request;
    use crate::election::support::ring::Msg;

    #[test]
    fn an_initiator_calls_again_if_the_announcement_comes_back_without_the_leader() {
        for (there, rules) in [(true, &[3, 4, 6][..]), (false, &[1, 3, 4, 6])] {
            let mut bench = Bench::complete(&PLAIN, 3);
            let epoch = Stamp { time: 1, node: NodeId(2) };
            let coordinator = |origin, ids: &[u32]| {
                let ids = ids.iter().copied().map(NodeId).collect();
                Msg::Coordinator { origin: NodeId(origin), epoch, ids }
            };
            bench.at(0).request(Request::Campaign);
            bench.at(0).message(2, coordinator(1, &[1, 2]));
            let heard: &[u32] = if there { &[0, 1, 2] } else { &[0, 1] };
            bench.at(0).message(2, coordinator(0, heard));
            assert_eq!(bench.at(0).rules(), rules, "the leader is there: {there}");
        }
    }
}
