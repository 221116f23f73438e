//! Each node knows its neighbours and no more, and the best node is wanted. A node that calls floods
//! the network; every other node takes the first it heard from for its parent, and so a tree comes
//! about. From the leaves of the tree inwards each reports the best node below it, the source learns
//! the best of all, and the news goes down the tree.
//!
//! A node reports only when all its neighbours have answered: those that found their parent
//! elsewhere at once, its children when they have reported themselves. So when the source is done,
//! every node has been counted. Of several elections at the same time only one gets that far: each
//! bears a number and its source, and a node that takes part in one does not answer a smaller one, but
//! leaves it for a larger one.
//!
//! # Rules
//!
//! 1. Call, while taking part in no election: start one, numbered one more than the highest number
//!    seen. Send `Election` to all neighbours, and wait for each.
//! 2. `Election` of a larger election than any seen: take part in it, and in no other. The sender is
//!    the parent; send `Election` to all other neighbours, and wait for each. If there are none: rule 4.
//! 3. `Election` of the election this node is in: answer with an empty `Ack` at once.
//! 4. `Ack`: do not wait for its sender any longer. If it names a node, the sender is a child, and
//!    what it names counts if it is the best so far, this node included. When all have answered:
//!    send the parent an `Ack` that names the best. The source has no parent: it follows the best
//!    and sends `Leader` to its children.
//! 5. `Leader`: follow the node it names, and send it on to the children.
//! 6. The failure detector suspects a neighbour: do not wait for it. If it is the parent, or the
//!    leader, start an election (rule 1): larger than the one that has lost its way, it takes over
//!    all that are left of it. Likewise if `Leader` names a neighbour that is suspected.
//!
//! # Cost
//!
//! With E links between n nodes and one source exactly 4E − n + 1 messages: 2E − n + 1 `Election`, as
//! many `Ack`, and n − 1 `Leader`. Where a transmission reaches all neighbours, n of them do for
//! all `Election`.
//!
//! # Known failures
//!
//! Crashes are survived as long as the live nodes remain connected, which is not for the algorithm
//! to see: two parts have a leader each. Without a failure detector, a node that waits for a crashed
//! one waits for ever, and so do all others. Links must not come and go during an election.

use std::collections::BTreeSet;

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{About, Case, Experiment, Fits, Further, Given};
use conclave_protocol::{
    Ctx, Detector, Entry, Links, Model, Never, NodeId, NodeSet, Property, Protocol, Rank, Ranks,
    Setup, Stamp, Topology,
};
use serde::{Deserialize, Serialize};

use super::{LEADERS, Notice, Request};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WirelessTree {
    /// The largest election seen: its number and its source.
    election: Stamp,
    /// This node's part in it, until the outcome is known.
    part: Option<Part>,
    leader: Option<NodeId>,
    /// The neighbours that the failure detector suspects.
    suspected: NodeSet,
}

/// A place in the tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Part {
    /// The source has none.
    parent: Option<NodeId>,
    /// The neighbours that have not answered.
    pending: NodeSet,
    children: NodeSet,
    /// The best of this node and all those below it that have reported.
    best: Rank,
}

/// What neighbours send each other; each message names its election by number and source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// Take part.
    Election {
        /// Which election.
        election: Stamp,
    },
    /// I have taken part already, or have heard from all nodes below me.
    Ack {
        /// Which election.
        election: Stamp,
        /// The best node below the sender, if it is a child.
        best: Option<Rank>,
    },
    /// This is the leader.
    Leader {
        /// Which election.
        election: Stamp,
        /// The best node of all.
        best: Rank,
    },
}

/// How good a leader each node is; a node looks only at its own.
#[derive(Clone, Debug)]
pub struct Config {
    ranks: Ranks,
}

impl Protocol for WirelessTree {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Never;
    type Stable = Never;

    fn start(_: Option<Never>, _: &mut Ctx<Self>) -> Self {
        let election = Stamp { time: 0, node: NodeId(0) };
        Self { election, part: None, leader: None, suspected: NodeSet::new() }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            Request::Campaign => {
                // Rule 1.
                if self.part.is_none() {
                    self.call(ctx);
                }
            }
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        // What the dead have left behind leads nowhere.
        if self.suspected.contains(from) {
            return;
        }
        match msg {
            Msg::Election { election } => {
                if election > self.election {
                    // Rule 2.
                    ctx.rule(2);
                    self.take_part(election, Some(from), ctx);
                } else if election == self.election {
                    // Rule 3.
                    ctx.rule(3);
                    ctx.send(from, Msg::Ack { election, best: None });
                }
            }
            // Rule 4.
            Msg::Ack { election, best } => {
                if election == self.election
                    && let Some(part) = &mut self.part
                    && part.pending.remove(from)
                {
                    ctx.rule(4);
                    if let Some(best) = best {
                        part.children.insert(from);
                        part.best = part.best.max(best);
                    }
                    self.report_if_all_have_answered(ctx);
                }
            }
            // Rule 5.
            Msg::Leader { election, best } => {
                if election == self.election {
                    ctx.rule(5);
                    self.conclude(best, ctx);
                }
            }
        }
    }

    /// Rule 6.
    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        if !ctx.topology.linked(ctx.me, peer) {
            return;
        }
        ctx.rule(6);
        self.suspected.insert(peer);
        let parent = self.part.as_ref().and_then(|part| part.parent);
        if [parent, self.leader].contains(&Some(peer)) {
            self.call(ctx);
        } else if let Some(part) = &mut self.part
            && part.pending.remove(peer)
        {
            self.report_if_all_have_answered(ctx);
        }
    }

    fn on_restore(&mut self, peer: NodeId, _: &mut Ctx<Self>) {
        self.suspected.remove(peer);
    }
}

impl WirelessTree {
    /// Rule 1.
    fn call(&mut self, ctx: &mut Ctx<Self>) {
        ctx.rule(1);
        let election = Stamp { time: self.election.time + 1, node: ctx.me };
        self.take_part(election, None, ctx);
    }

    fn take_part(&mut self, election: Stamp, parent: Option<NodeId>, ctx: &mut Ctx<Self>) {
        self.election = election;
        let up = |&peer: &NodeId| Some(peer) != parent && !self.suspected.contains(peer);
        let pending: NodeSet = ctx.neighbors().filter(up).collect();
        ctx.multicast(pending.iter(), Msg::Election { election });
        let best = ctx.config.ranks.of(ctx.me);
        self.part = Some(Part { parent, pending, children: NodeSet::new(), best });
        self.report_if_all_have_answered(ctx);
    }

    /// Rule 4, when the last neighbour has answered.
    fn report_if_all_have_answered(&mut self, ctx: &mut Ctx<Self>) {
        let Some(part) = self.part.as_ref().filter(|part| part.pending.is_empty()) else { return };
        ctx.rule(4);
        let best = part.best;
        match part.parent {
            Some(parent) => {
                ctx.send(parent, Msg::Ack { election: self.election, best: Some(best) });
            }
            None => self.conclude(best, ctx),
        }
    }

    fn conclude(&mut self, best: Rank, ctx: &mut Ctx<Self>) {
        let Some(part) = self.part.take() else { return };
        let leader = best.node;
        self.leader = Some(leader);
        ctx.multicast(part.children.iter(), Msg::Leader { election: self.election, best });
        let epoch = Stamp { time: self.election.time, node: leader };
        ctx.notify(Notice::Elected { leader, epoch: epoch.token() });
        // Rule 6.
        if self.suspected.contains(leader) {
            ctx.rule(6);
            self.call(ctx);
        }
    }
}

const GRAPHS: Further = &[
    &[("n", 2), ("E", 1)],
    &[("n", 5), ("E", 10)],
    &[("n", 9), ("E", 12)],
    &[("n", 30), ("E", 29)],
    &[("n", 40), ("E", 300)],
];
const FROM_ONE: Fits = Fits {
    about: About::Election,
    when: |seen| {
        seen.only_call()?;
        Some(vec![("n", u64::from(seen.n())), ("E", seen.run.setup.topology.links())])
    },
};

/// A line with as many further links as there have to be, and a call from several places.
fn flooded_graphs(given: &Given) -> Vec<Experiment> {
    let (n, links) = (given.n("n"), given.n("E"));
    let pairs = |gap: u32| (0..n.saturating_sub(gap)).map(move |a| (a, a + gap));
    let line_first = (1..n).flat_map(pairs).map(|(a, b)| (NodeId(a), NodeId(b)));
    let links: Vec<_> = line_first.take(links as usize).collect();
    let graph = Topology::graph(n, &links).expect("a line is connected");
    let sources = BTreeSet::from([0, n / 2, n - 1]);
    let flooded = |source| given.until_quiet(Setup::new(graph.clone()), &[(source, 0)]);
    sources.into_iter().map(flooded).collect()
}

/// The algorithm on a network that stays as it is.
pub static PLAIN: Entry<WirelessTree> =
    Entry::new("election/wireless-tree", "Election in a wireless network", |setup| {
        Ok(Config { ranks: setup.ranks()? })
    })
    .summary("flood the network, and gather the best node up the tree that results")
    .source(
        "Vasudevan, Kurose, Towsley. Design and analysis of a leader election algorithm for \
         mobile ad hoc networks. ICNP, 2004",
    )
    .text(include_str!("wireless_tree.rs"))
    .model(Model { links: Links::Graph, detector: Detector::Perfect, ..Model::RELIABLE })
    .holds(LEADERS)
    .claims(&[
        Check::new(3, LEADERS),
        Check::new(3, LEADERS).shape("complete"),
        Check::new(4, LEADERS).shape("line"),
        // A triangle without a corner is connected, and a line without its middle is not.
        Check::new(3, LEADERS).shape("complete").crashes(1).beyond(),
        Check::new(3, &[Property::OneLeader]).shape("line").crashes(1).fails(5),
    ])
    .deep(&[Check::new(4, LEADERS)])
    .cases(&[Case::new("connected-graph", GRAPHS, flooded_graphs)
        .counts(&[
            ("election_messages", "Election"),
            ("ack_messages", "Ack"),
            ("leader_messages", "Leader"),
        ])
        .fits(&[FROM_ONE])]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect};

    use super::*;

    #[test]
    fn a_node_reports_to_its_parent_when_all_other_neighbours_have_answered() {
        let mut bench = Bench::complete(&PLAIN, 3);
        let election = Stamp { time: 1, node: NodeId(0) };
        let send = |to, msg| Effect::Send { to: NodeId(to), msg };
        let joined = bench.at(1).message(0, Msg::Election { election });
        assert_eq!(joined, [send(2, Msg::Election { election })]);
        // Node 2 has found its parent elsewhere, and has its answer, too.
        let refused = send(2, Msg::Ack { election, best: None });
        assert_eq!(bench.at(1).message(2, Msg::Election { election }), [refused]);
        let best = Some(Rank { attribute: 0, node: NodeId(1) });
        let reported = send(0, Msg::Ack { election, best });
        assert_eq!(bench.at(1).message(2, Msg::Ack { election, best: None }), [reported]);
        assert_eq!(bench.at(1).rules(), [4]);
    }

    #[test]
    fn a_larger_election_is_joined_and_a_smaller_one_gets_no_answer() {
        let mut bench = Bench::complete(&PLAIN, 3);
        let election = |node| Msg::Election { election: Stamp { time: 1, node: NodeId(node) } };
        bench.at(0).request(Request::Campaign);
        assert_ne!(bench.at(0).message(2, election(2)), []);
        assert_eq!(bench.at(0).message(1, election(1)), []);
    }
}
