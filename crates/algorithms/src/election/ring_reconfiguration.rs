//! A ring that changes. Every node keeps a list of the members; whoever wants to be one asks any of
//! them, which adds it and passes the new view on. Dead members stay in the list and are skipped.
//! The election on it is that of `election/ring-list`, with all that makes it survive crashes and
//! restarts: watchdogs, memory of suspicions, and an inquiry by whoever is new or back.
//!
//! Whenever a node's view changes, it tells its successor; when nothing is on its way any more, every
//! node has told its latest view to the next, so all have the same. Views count how often each node
//! has joined or left, and merge by the later word on each, so two sponsors need not agree on an
//! order. A node that knows only its next r successors gets past r − 1 dead ones in a row.
//!
//! # Rules
//!
//! 1. To join: send `Join` to a member. `Join`: add the newcomer to the view, and run rule 2.
//! 2. The view has changed: send `View` to the successor, the next member by the new view.
//! 3. `View`: merge it with one's own; if that is news, run rule 2. Who has become a member by it
//!    runs rule 5. If the leader has left: call an election.
//! 4. To leave: take oneself out of the view, and run rule 2. The last member stays. A leader that has
//!    left is told of its successor.
//! 5. Boot after a crash: ask, as in `election/ring-inquiry`; the question also brings back the view.
//! 6. The election goes by `election/ring-list`, rules 1 to 4, with the watchdogs and the memory of
//!    `election/ring-watchdog`, rules 2 to 4. Option `successors`: after so many who do not
//!    acknowledge, a message is given up.
//!
//! # Cost
//!
//! A change of the ring of M members takes a `Join` and M + 1 `View`, and the newcomer's inquiry as
//! many messages as there are live members. An election takes 2L messages for each initiator.
//!
//! # Known failures
//!
//! If a node knows r successors and r in a row are dead, its messages get no further, and the ring
//! is cut. With a partition each part elects a leader. A node that has left hears of no later leader.

use conclave_protocol::claims::Check;
use conclave_protocol::{Crashes, Entry, Info, Model, Opt, Property, Setup, Unfit};

use super::ring::{Config, Converts, Ring};
use super::{LEADER, ring_list};

/// The algorithm.
pub static PLAIN: Entry<Ring> = Entry {
    info: Info {
        id: "election/ring-reconfiguration",
        title: "Ring that nodes join and leave",
        summary: "every member knows the ring; views and elections go round it",
        source: "A usual extension of the ring with a list",
        text: include_str!("ring_reconfiguration.rs"),
        model: Model { crashes: Crashes::Recover, ..ring_list::MODEL },
        holds: &[Property::OneLeader, Property::LeaderKnown, Property::BestLeads],
        fails: &[(
            Property::OneLeaderPerEpoch,
            "two elections at once; the best node crashes when one list has it and the other has \
                 not: two leaders in the same term",
        )],
        options: &[
            Opt {
                name: "members",
                default: "all",
                help: "how many nodes are on the ring at first; the others have to join",
            },
            Opt { name: "successors", default: "all", help: "how many successors a node knows" },
        ],
        mutant: None,
        claims: &[
            Check::new(3, LEADER).crashes(1),
            Check::new(3, LEADER).crashes(2),
            Check::new(2, LEADER).crashes(1).recoveries(1),
            Check::new(3, LEADER).crashes(1).recoveries(1).bounded(14),
            Check::new(3, &[Property::OneLeaderPerEpoch]).crashes(1).fails(13),
        ],
        deep: &[Check::new(3, LEADER).crashes(1).recoveries(1).bounded(24)],
        ..Info::EMPTY
    },
    config,
    clients: |config, _| 0..config.members,
};

fn config(setup: &Setup) -> Result<Config, Unfit> {
    let plain = Config::new(setup, Converts::Anybody)?;
    let some = |name: &str| {
        let n = setup.n();
        match setup.options.get(name).map(String::as_str) {
            None | Some("all") => Ok(n),
            Some(_) => match setup.option(name, n)? {
                many if (1..=n).contains(&many) => Ok(many),
                many => Err(Unfit::new(format!("{name}={many}, but it can only be 1 to {n}"))),
            },
        }
    };
    let (members, successors) = (some("members")?, some("successors")?);
    Ok(Config { watchdog: true, memory: true, inquiry: true, members, successors, ..plain })
}
