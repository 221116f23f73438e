//! A ring with a list (`election/ring-list`) on which a node that boots again asks before it calls an
//! election: its question goes round once, and every other node adds which leader it follows. If all
//! name the same live leader, and a better one than the newcomer, there is no reason for an election.
//!
//! A leader that answers is alive, and one that all name leads everywhere. If answers differ
//! an election is under way, or the newcomer has missed one; then its own election settles it. The
//! question brings back the highest counter, and terms go on from there.
//!
//! The rules have the same numbers in all elections on a ring with lists, and are carried out in
//! `election/support/ring.rs`.
//!
//! # Rules
//!
//! The election itself is that of `election/ring-list`:
//!
//! 1. The leader is suspected, or the application calls: unless an election of one's own is on its
//!    way, send `Election` with a list of oneself to the successor.
//! 2. `Election` whose list one is not in: add oneself and pass it on. Otherwise the list is
//!    complete: follow its best, in the term after the highest counter seen, and send `Coordinator`.
//! 3. `Coordinator`: follow its leader, unless the term is an old one. Add oneself, and pass it on; it
//!    ends at its origin, and at a node that has heard it before.
//! 4. Every hop is acknowledged with `Ack`, and dead successors are skipped.
//!
//! What a node that comes back does before:
//!
//! 10. Boot after a crash: send `Inquiry` with an empty list to the successor, and wait for two rounds
//!     at most.
//! 11. `Inquiry` of another: add oneself and the leader one follows; pass it on, unless one has
//!     answered before, for then its origin is dead.
//! 12. `Inquiry` of one's own: follow the leader if all name the same and it has answered itself. If
//!     answers differ, or if there are none: call an election (rule 1). Likewise if the question does
//!     not come back.
//! 13. A node that comes to follow a leader worse than itself calls an election (rule 1).
//!
//! # Cost
//!
//! The question takes L messages, L being the live nodes, beside the acknowledgements. A lower node
//! that comes back causes no election, a better one causes exactly one: 2L more.
//!
//! # Known failures
//!
//! Those of `election/ring-list`.

use conclave_protocol::claims::Check;
use conclave_protocol::{Crashes, Entry, Model, Property};

use super::support::ring::{Config, Converts, Ring};
use super::{LEADER, ring_list};

/// The algorithm.
pub static PLAIN: Entry<Ring> =
    Entry::new("election/ring-inquiry", "Ring with an inquiry after a restart", |setup| {
        Ok(Config { inquiry: true, ..Config::new(setup, Converts::AnyNode)? })
    })
    .summary("who comes back asks all others who leads before it calls an election")
    .source("A usual extension of the ring with a list")
    .text(include_str!("ring_inquiry.rs"))
    .model(Model { crashes: Crashes::Recover, ..ring_list::MODEL })
    .holds(&[Property::OneLeader])
    .fails(ring_list::FAILS)
    .claims(&[
        Check::new(3, &[Property::OneLeader]).crashes(1),
        Check::new(2, &[Property::OneLeader]).crashes(1).recoveries(1),
        Check::new(3, &[Property::OneLeader]).crashes(1).recoveries(1).bounded(14),
        Check::new(3, LEADER),
        Check::new(2, &[Property::LeaderKnown, Property::BestLeads]).crashes(1).fails(7),
        Check::new(3, &[Property::OneLeaderPerEpoch]).crashes(1).fails(13),
    ])
    .deep(&[Check::new(3, &[Property::OneLeader]).crashes(1).recoveries(1).bounded(24)]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect, NodeId, Stamp};

    use super::*;
    use crate::election::support::ring::{Msg, Saved, View};

    #[test]
    fn a_node_that_comes_back_follows_the_leader_that_all_name() {
        let leader = Stamp { time: 1, node: NodeId(2) };
        for (other, rules) in [(Some(leader), &[4, 12][..]), (None, &[1, 4, 12])] {
            let mut bench = Bench::complete(&PLAIN, 3);
            let saved = bench.at(0).booted().into_iter().find_map(|effect| match effect {
                Effect::Save(saved) => Some(saved),
                _ => None,
            });
            let saved: Option<Saved> = saved;
            bench.at(0).boot(saved);
            assert_eq!(bench.at(0).rules(), [10]);
            let answers = vec![(NodeId(1), other), (NodeId(2), Some(leader))];
            let view = View::default();
            let back = Msg::Inquiry { origin: NodeId(0), epoch: 1, answers, view };
            bench.at(0).message(2, back);
            assert_eq!(bench.at(0).rules(), rules, "node 1 follows {other:?}");
        }
    }
}
