//! A ring with a list (`election/ring-list`) on which a node that boots again asks before it calls an
//! election: its question goes round once, and everybody adds whom it follows. If all name the same
//! live leader, and a better one than the newcomer, there is no reason to disturb anybody.
//!
//! A leader that answers is alive, and whoever is named by all leads everywhere. If answers differ
//! an election is under way, or the newcomer has missed one; then its own election settles it. The
//! question brings back the highest counter, and terms go on from there.
//!
//! # Rules
//!
//! 1. Boot after a crash: send `Inquiry` with an empty list to the successor, and wait for two rounds
//!    at most.
//! 2. `Inquiry` of another: add oneself and whom one follows; pass it on, unless one has answered
//!    before, for then its origin is dead.
//! 3. `Inquiry` of one's own: follow the leader if all name the same and it has answered itself. If
//!    it is worse than oneself, if answers differ, or if there are none: call an election, by rule 1
//!    of `election/ring-list`. Likewise if the question does not come back.
//! 4. Whoever hears of a leader worse than itself calls an election.
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
use conclave_protocol::{Crashes, Entry, Info, Model, Property};

use super::ring::{Config, Converts, Ring};
use super::{LEADER, ring_list};

/// The algorithm.
pub static PLAIN: Entry<Ring> = Entry {
    info: Info {
        id: "election/ring-inquiry",
        title: "Ring with an inquiry after a restart",
        summary: "who comes back asks all others who leads before it calls an election",
        source: "A usual extension of the ring with a list",
        text: include_str!("ring_inquiry.rs"),
        model: Model { crashes: Crashes::Recover, ..ring_list::MODEL },
        holds: &[Property::OneLeader],
        fails: ring_list::PLAIN.info.fails,
        options: &[],
        mutant: None,
        claims: &[
            Check::new(3, &[Property::OneLeader]).crashes(1),
            Check::new(2, &[Property::OneLeader]).crashes(1).recoveries(1),
            Check::new(3, &[Property::OneLeader]).crashes(1).recoveries(1).bounded(14),
            Check::new(3, LEADER),
            Check::new(2, &[Property::LeaderKnown, Property::BestLeads]).crashes(1).fails(7),
            Check::new(3, &[Property::OneLeaderPerEpoch]).crashes(1).fails(13),
        ],
        deep: &[Check::new(3, &[Property::OneLeader]).crashes(1).recoveries(1).bounded(24)],
        ..Info::EMPTY
    },
    config: |setup| Ok(Config { inquiry: true, ..Config::new(setup, Converts::Anybody)? }),
    clients: Entry::<Ring>::everyone,
};
