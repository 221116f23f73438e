//! A ring that changes. Every node keeps a list of the members; a node that wants to be one asks any of
//! them, which adds it and passes the new view on. Dead members stay in the list and are skipped.
//! The election on it is that of `election/ring-list`, with all that makes it survive crashes and
//! restarts: watchdogs, memory of suspicions, and an inquiry by a node that is new or back.
//!
//! Whenever a node's view changes, it tells its successor; when nothing is on its way any more, every
//! node has told its latest view to the next, so all have the same. Views count how often each node
//! has joined or left, and merge by the later word on each, so two sponsors need not agree on an
//! order. A node that knows only its next r successors gets past r − 1 dead ones in a row.
//!
//! The rules have the same numbers in all elections on a ring with lists, and are carried out in
//! `election/support/ring.rs`.
//!
//! # Rules
//!
//! The election is that of `election/ring-list`, among the members:
//!
//! 1. The leader is suspected, or the application calls: unless an election of one's own is on its
//!    way, send `Election` with a list of oneself to the successor.
//! 2. `Election` whose list one is not in: add oneself and pass it on. Otherwise the list is
//!    complete: follow its best, in the term after the highest counter seen, and send `Coordinator`.
//! 3. `Coordinator`: follow its leader, unless the term is an old one. Add oneself, and pass it on; it
//!    ends at its origin, and at a node that has heard it before.
//! 4. Every hop is acknowledged with `Ack`, and dead successors are skipped.
//!
//! With the watchdogs and the memory of `election/ring-watchdog`, and the question of
//! `election/ring-inquiry`, which also brings back the view:
//!
//! 7. On starting an election, or letting one pass as the δ-th after its initiator: wait for W + δ·w
//!    for an outcome. `Coordinator` of a later term than one has seen before ends the wait.
//! 8. The wait is over: call an election (rule 1), with a higher counter than seen before.
//! 9. Remember which nodes the failure detector suspects. A node that comes to follow a suspected one
//!    calls an election (rule 1).
//! 10. Boot after a crash, or having become a member: send `Inquiry` to the successor, and wait for
//!     two rounds at most.
//! 11. `Inquiry` of another: add oneself, the leader one follows and one's view; pass it on, unless one
//!     has answered before, for then its origin is dead.
//! 12. `Inquiry` of one's own: follow the leader if all name the same and it has answered itself.
//!     Otherwise, or if the question does not come back: call an election (rule 1).
//! 13. A node that comes to follow a leader worse than itself calls an election (rule 1).
//! 14. To join: send `Join` to a member. `Join`: add the newcomer to the view, and run rule 15.
//! 15. The view has changed: send `View` to the successor, the next member by the new view.
//! 16. `View`: merge it with one's own; if that is news, run rule 15. A node that has become a member
//!     by it runs rule 10. If the leader has left: call an election (rule 1).
//! 17. To leave: take oneself out of the view, and run rule 15. The last member stays. A leader that
//!     has left is told of its successor.
//! 18. Option `successors`: after so many that do not acknowledge, a message is given up.
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
use conclave_protocol::{Crashes, Entry, Model, Opt, Property, Setup, Unfit};

use super::support::ring::{Config, Converts, Ring};
use super::{LEADER, ring_list};

fn config(setup: &Setup) -> Result<Config, Unfit> {
    let plain = Config::new(setup, Converts::AnyNode)?;
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

/// The algorithm.
pub static PLAIN: Entry<Ring> =
    Entry::new("election/ring-reconfiguration", "Ring that nodes join and leave", config)
        .summary("every member knows the ring; views and elections go round it")
        .source("A usual extension of the ring with a list")
        .text(include_str!("ring_reconfiguration.rs"))
        .model(Model { crashes: Crashes::Recover, ..ring_list::MODEL })
        .holds(LEADER)
        .fails(&[ring_list::SAME_TERM])
        .options(&[
            Opt {
                name: "members",
                default: "all",
                help: "how many nodes are on the ring at first; the others have to join",
            },
            Opt { name: "successors", default: "all", help: "how many successors a node knows" },
        ])
        .clients(|config: &Config, _| 0..config.members)
        .claims(&[
            Check::new(3, LEADER).crashes(1),
            Check::new(3, LEADER).crashes(2),
            Check::new(2, LEADER).crashes(1).recoveries(1),
            Check::new(3, LEADER).crashes(1).recoveries(1).bounded(14),
            Check::new(3, &[Property::OneLeaderPerEpoch]).crashes(1).fails(13),
        ])
        .deep(&[Check::new(3, LEADER).crashes(1).recoveries(1).bounded(24)]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect, Input, NodeId, Topology};

    use super::*;
    use crate::election::support::ring::{Msg, View};

    #[test]
    fn a_newcomer_is_let_in_by_its_sponsor_and_asks_who_leads() {
        let setup = Setup::new(Topology::complete(3)).with("members", 2);
        let mut bench = Bench::new(&PLAIN, &setup);
        let asked = bench.at(2).input(Input::Join(NodeId(0)));
        assert_eq!(asked, [Effect::Send { to: NodeId(0), msg: Msg::Join(NodeId(2)) }]);
        let let_in = bench.at(0).message(2, Msg::Join(NodeId(2)));
        assert_eq!(bench.at(0).rules(), [14, 15]);
        let mut view = View::default();
        view.change(NodeId(2));
        let news = Msg::View(view);
        assert!(let_in.contains(&Effect::Send { to: NodeId(1), msg: news.clone() }));
        bench.at(2).message(1, news);
        assert_eq!(bench.at(2).rules(), [4, 10, 15, 16]);
        bench.at(2).input(Input::Leave);
        assert_eq!(bench.at(2).rules(), [15, 17]);
    }
}
