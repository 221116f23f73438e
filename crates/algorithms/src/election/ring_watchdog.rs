//! A ring with confirmation (`election/ring-modified`) that survives the death of the initiator:
//! whoever has let an election pass expects an outcome, and calls an election itself if there is
//! none. The further from the initiator, the longer it waits, so that the next live node is the
//! first to act and the others hear of it in time.
//!
//! An election whose outcome somebody still waits for is not forgotten: whatever gets lost, with
//! whomever, is done again after a while. That costs nothing as long as nobody dies. A dead leader
//! is not followed for good either, for suspicions are remembered: if the announcement names a node
//! that is known to be dead, its receiver calls an election.
//!
//! # Rules
//!
//! 1. As in `election/ring-modified`, but a list that comes to a node a second time ends there, unless
//!    that is its initiator.
//! 2. On starting an election, or letting one pass as the δ-th after its initiator: wait for W + δ·w
//!    for an outcome, where W is longer than two rounds take and w is two round trips. `Coordinator`
//!    of a later term than one has seen before ends the wait.
//! 3. The wait is over: call an election, with a higher counter than seen before.
//! 4. Remember whom the failure detector suspects. Whoever comes to follow a suspected node calls an
//!    election.
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
use conclave_protocol::{Entry, Info, Property};

use super::ring::{Config, Converts, Ring};
use super::{LEADER, ring_list};

/// The algorithm.
pub static PLAIN: Entry<Ring> = Entry {
    info: Info {
        id: "election/ring-watchdog",
        title: "Ring with watchdogs",
        summary: "the successors of a dead initiator take over, the nearest first",
        source: "A usual extension of the ring with a list",
        text: include_str!("ring_watchdog.rs"),
        model: ring_list::MODEL,
        holds: &[Property::OneLeader, Property::LeaderKnown, Property::BestLeads],
        fails: &[(
            Property::OneLeaderPerEpoch,
            "two elections at once; the best node crashes when one list has it and the other has \
                 not: two leaders in the same term",
        )],
        options: &[],
        mutant: None,
        claims: &[
            Check::new(3, LEADER).crashes(1),
            Check::new(3, LEADER).crashes(2),
            Check::new(4, LEADER).clients(0, 1),
            Check::new(3, &[Property::OneLeaderPerEpoch]).crashes(1).fails(14),
        ],
        deep: &[Check::new(4, LEADER).clients(0, 2)],
        ..Info::EMPTY
    },
    config: |setup| {
        let plain = Config::new(setup, Converts::InitiatorOrNobody)?;
        Ok(Config { confirmation: true, watchdog: true, memory: true, ..plain })
    },
    clients: Entry::<Ring>::everyone,
};
