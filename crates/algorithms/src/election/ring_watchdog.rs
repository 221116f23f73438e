//! A ring with confirmation (`election/ring-modified`) that survives the death of the initiator: a
//! node that has let an election pass expects an outcome, and calls an election itself if there is
//! none. The further from the initiator, the longer it waits, so that the next live node is the
//! first to act and the others hear of it in time.
//!
//! An election whose outcome a node still waits for is not forgotten: what is lost with a node that
//! dies is done again after a while. That costs nothing as long as no node dies. A dead leader
//! is not followed for good either, for suspicions are remembered: if the announcement names a node
//! that is known to be dead, its receiver calls an election.
//!
//! The rules have the same numbers in all elections on a ring with lists, and are carried out in
//! `election/support/ring.rs`.
//!
//! # Rules
//!
//! 1. The leader is suspected, or the application calls: unless an election of one's own is on its
//!    way, send `Election` with a list of oneself to the successor.
//! 2. `Election` of another: add oneself and pass it on; a list that one is in ends here. One's own:
//!    follow the best, in the term after the highest counter seen, and send `Coordinator`.
//! 3. `Coordinator`: follow its leader, unless the term is an old one. Add oneself, and pass it on; it
//!    ends at its origin, and at a node that has heard it before.
//! 4. Every hop is acknowledged with `Ack`, and dead successors are skipped, as in `election/ring-list`.
//!
//! As in `election/ring-modified`, the announcement confirms the outcome:
//!
//! 6. `Coordinator` of one's own: if the leader is in its list, the election is over. If not: run
//!    rule 1 again, for the next round.
//! 7. On starting an election, or letting one pass as the δ-th after its initiator: wait for W + δ·w
//!    for an outcome, where W is longer than two rounds take and w is two round trips. `Coordinator`
//!    of a later term than one has seen before ends the wait.
//! 8. The wait is over: call an election (rule 1), with a higher counter than seen before.
//! 9. Remember which nodes the failure detector suspects. A node that comes to follow a suspected one
//!    calls an election (rule 1).
//!
//! # Cost
//!
//! Without failures the same as `election/ring-modified`, 2L messages. If the initiator dies, the
//! next live node after it calls an election W + w later.
//!
//! # Known failures
//!
//! Everything rests on the time-outs: a message that takes longer than T, or is lost, makes a live
//! node pass for dead, and it is missing from the list. With a partition each part elects a leader.

use conclave_protocol::claims::Check;
use conclave_protocol::{Entry, Property};

use super::support::ring::{Config, Converts, Ring};
use super::{LEADER, ring_list};

/// The algorithm.
pub static PLAIN: Entry<Ring> =
    Entry::new("election/ring-watchdog", "Ring with watchdogs", |setup| {
        let plain = Config::new(setup, Converts::InitiatorOrEnds)?;
        Ok(Config { confirmation: true, watchdog: true, memory: true, ..plain })
    })
    .summary("the successors of a dead initiator take over, the nearest first")
    .source("A usual extension of the ring with a list")
    .text(include_str!("ring_watchdog.rs"))
    .model(ring_list::MODEL)
    .holds(LEADER)
    .fails(&[ring_list::SAME_TERM])
    .claims(&[
        Check::new(3, LEADER).crashes(1),
        Check::new(3, LEADER).crashes(2),
        Check::new(4, LEADER).clients(0, 1),
        Check::new(3, &[Property::OneLeaderPerEpoch]).crashes(1).fails(14),
    ])
    .deep(&[Check::new(4, LEADER).clients(0, 2)]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect, NodeId, Rank};

    use super::*;
    use crate::election::support::ring::{Msg, Timer};

    #[test]
    fn a_node_that_lets_an_election_pass_calls_one_if_there_is_no_outcome() {
        let mut bench = Bench::complete(&PLAIN, 3);
        let best = Rank { attribute: 0, node: NodeId(0) };
        let list = Msg::Election { origin: NodeId(0), epoch: 0, best, ids: vec![NodeId(0)] };
        let passed = bench.at(1).message(0, list);
        let watches = |effect: &Effect<Ring>| {
            matches!(effect, Effect::SetTimer { timer: Timer::Watchdog, .. })
        };
        assert!(passed.iter().any(watches));
        assert_eq!(bench.at(1).rules(), [2, 4, 7]);
        bench.at(1).timer(Timer::Watchdog);
        assert_eq!(bench.at(1).rules(), [1, 7, 8]);
    }
}
