//! The nodes form a tree. A call wakes every node, and from the leaves inwards each reports the best
//! node behind it to the one neighbour from which it has no report. In the end two neighbours
//! report to each other: between them they have heard of all nodes, and they tell the rest.
//!
//! Whatever the order of events, every node sends one report, and each but the last two goes
//! towards the place where those two meet. Both have taken the best of all reports, and the best of
//! all is one node; so there is one leader, and the result passes every link but the one between
//! them. It does not matter who calls, or how many do.
//!
//! Elections are numbered. A node that calls after the outcome of one is known begins the next, and a
//! message of a later election than a node is in takes it along.
//!
//! # Rules
//!
//! 1. Call, or the first message of an election: wake up. Send `Wake` to all neighbours but the one
//!    that woke this node.
//! 2. Awake, with reports (`Up`) from all neighbours but one, which a leaf is at once: send `Up` to
//!    that one, with the best node reported or this one.
//! 3. `Up` from the neighbour to which this node has reported: the better of both reports leads.
//!    Send `Result` to all other neighbours.
//! 4. `Result`: follow the node it names, and send it on to all other neighbours.
//!
//! # Cost
//!
//! Exactly 3n + k − 4 messages for n nodes of which k call: n + k − 2 `Wake`, n `Up`, n − 2
//! `Result`.
//!
//! # Known failures
//!
//! There is one way between two nodes of a tree: if a node crashes, or a message is lost, no node is
//! elected.

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{About, Case, Experiment, Fits, Further, Given};
use conclave_protocol::{
    Channels, Ctx, Entry, Links, Model, Never, NodeId, NodeSet, Property, Protocol, Rank, Ranks,
    Setup, Stamp,
};
use serde::{Deserialize, Serialize};

use super::{LEADERS, Notice, Request};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TreeMattern {
    /// The number of the latest election this node has taken part in.
    round: u64,
    phase: Phase,
    /// The best node that this one has heard of in that election.
    best: Rank,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Phase {
    /// No election is under way as far as this node knows.
    Asleep,
    /// These neighbours, at least two, have not reported.
    Awake { missing: NodeSet },
    /// All have reported but this one, to which this node has.
    Reported { to: NodeId },
}

/// What neighbours send each other; each message names its election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// There is an election.
    Wake {
        /// Which.
        round: u64,
    },
    /// The best of all nodes on this side of the link.
    Up {
        /// Which election.
        round: u64,
        /// The best node.
        best: Rank,
    },
    /// The best of all nodes.
    Result {
        /// Which election.
        round: u64,
        /// The leader.
        best: Rank,
    },
}

/// How good a leader each node is; a node looks only at its own.
#[derive(Clone, Debug)]
pub struct Config {
    ranks: Ranks,
}

impl Protocol for TreeMattern {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Never;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        Self { round: 0, phase: Phase::Asleep, best: ctx.config.ranks.of(ctx.me) }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            Request::Campaign => {
                // Rule 1.
                if self.phase == Phase::Asleep {
                    self.wake(self.round + 1, None, ctx);
                }
            }
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            Msg::Wake { round } => self.wake_if_later(round, from, ctx),
            Msg::Up { round, best } => {
                self.wake_if_later(round, from, ctx);
                if round == self.round {
                    self.on_report(from, best, ctx);
                }
            }
            Msg::Result { round, best } => {
                // Rule 4.
                if round == self.round && matches!(self.phase, Phase::Reported { .. }) {
                    ctx.rule(4);
                    self.best = best;
                    self.conclude(from, ctx);
                }
            }
        }
    }
}

impl TreeMattern {
    fn wake_if_later(&mut self, round: u64, waker: NodeId, ctx: &mut Ctx<Self>) {
        if round > self.round {
            self.wake(round, Some(waker), ctx);
        }
    }

    /// Rule 1.
    fn wake(&mut self, round: u64, waker: Option<NodeId>, ctx: &mut Ctx<Self>) {
        ctx.rule(1);
        self.round = round;
        self.best = ctx.config.ranks.of(ctx.me);
        let others = ctx.neighbors().filter(|&neighbor| Some(neighbor) != waker);
        ctx.multicast(others, Msg::Wake { round });
        self.report_if_one_is_missing(ctx.neighbors().collect(), ctx);
    }

    /// Rule 2.
    fn report_if_one_is_missing(&mut self, missing: NodeSet, ctx: &mut Ctx<Self>) {
        let (last, many) = (missing.first(), missing.len() > 1);
        match last {
            Some(_) if many => self.phase = Phase::Awake { missing },
            Some(to) => {
                ctx.rule(2);
                self.phase = Phase::Reported { to };
                ctx.send(to, Msg::Up { round: self.round, best: self.best });
            }
            // A node that is alone.
            None => self.conclude(ctx.me, ctx),
        }
    }

    fn on_report(&mut self, from: NodeId, best: Rank, ctx: &mut Ctx<Self>) {
        match &mut self.phase {
            // Rule 2.
            Phase::Awake { missing } => {
                ctx.rule(2);
                let mut missing = missing.take();
                missing.remove(from);
                self.best = self.best.max(best);
                self.report_if_one_is_missing(missing, ctx);
            }
            // Rule 3.
            Phase::Reported { to } if *to == from => {
                ctx.rule(3);
                self.best = self.best.max(best);
                self.conclude(from, ctx);
            }
            Phase::Reported { .. } | Phase::Asleep => {}
        }
    }

    /// Follows the best, and tells all neighbours but `informant`.
    fn conclude(&mut self, informant: NodeId, ctx: &mut Ctx<Self>) {
        self.phase = Phase::Asleep;
        let others = ctx.neighbors().filter(|&neighbor| neighbor != informant);
        ctx.multicast(others, Msg::Result { round: self.round, best: self.best });
        let leader = self.best.node;
        let epoch = Stamp { time: self.round, node: leader };
        ctx.notify(Notice::Elected { leader, epoch: epoch.token() });
    }
}

const CALLED_TREES: Further = &[
    &[("n", 2), ("k", 1)],
    &[("n", 2), ("k", 2)],
    &[("n", 5), ("k", 5)],
    &[("n", 20), ("k", 7)],
    &[("n", 100), ("k", 1)],
];
const FROM_SEVERAL: Fits = Fits {
    about: About::Election,
    when: |seen| {
        let calls = seen.calls().filter(|calls| !calls.top_is_dead)?;
        Some(vec![("n", u64::from(seen.n())), ("k", calls.count)])
    },
};

/// Trees of several shapes, on which the first or the last nodes call at once.
fn called_trees(given: &Given) -> Vec<Experiment> {
    let (n, k) = (given.n("n"), given.n("k"));
    let mut called = Vec::new();
    for (name, seed) in [("line", 0), ("star", 0), ("binary", 0), ("tree", 1), ("tree", 2)] {
        let tree = given.drawn(name, n, seed);
        for callers in [0..k, n - k..n] {
            let asks: Vec<_> = callers.map(|node| (node, 0)).collect();
            called.push(given.until_quiet(Setup::new(tree.clone()), &asks));
        }
    }
    called
}

/// The algorithm.
pub static PLAIN: Entry<TreeMattern> =
    Entry::new("election/tree-mattern", "Election on a tree", |setup| {
        Ok(Config { ranks: setup.ranks()? })
    })
    .summary("reports move from the leaves inwards until two neighbours know everything")
    .source("Mattern. Verteilte Basisalgorithmen. Informatik-Fachberichte 226, Springer, 1989")
    .text(include_str!("tree_mattern.rs"))
    .model(Model { links: Links::Tree, ..Model::FIFO })
    .holds(LEADERS)
    .claims(&[
        Check::new(3, LEADERS).requests(2),
        Check::new(4, LEADERS),
        Check::new(4, LEADERS).shape("star"),
        Check::new(3, LEADERS).channels(Channels::Reliable).beyond(),
        Check::new(3, &[Property::LeaderKnown]).crashes(1).fails(3),
        Check::new(3, &[Property::LeaderKnown]).losses(1).fails(8),
    ])
    .deep(&[Check::new(5, LEADERS)])
    .cases(&[Case::new("k-initiators", CALLED_TREES, called_trees)
        .counts(&[("explosion", "Wake"), ("contraction", "Up"), ("expansion", "Result")])
        .fits(&[FROM_SEVERAL])]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect, Topology};

    use super::*;

    #[test]
    fn two_neighbours_that_have_reported_to_each_other_know_the_leader() {
        let mut bench = Bench::new(&PLAIN, &Setup::new(Topology::line(3)));
        let best = |node| Rank { attribute: 0, node: NodeId(node) };
        let up = |node| Msg::Up { round: 1, best: best(node) };
        let send = |to, msg| Effect::Send { to: NodeId(to), msg };
        // A leaf has one neighbour, so that all others have reported at once.
        let woken = bench.at(0).message(1, Msg::Wake { round: 1 });
        assert_eq!(woken, [send(1, up(0))]);
        bench.at(1).request(Request::Campaign);
        assert_eq!(bench.at(1).message(0, up(0)), [send(2, up(1))]);
        let result = Msg::Result { round: 1, best: best(2) };
        let epoch = Stamp { time: 1, node: NodeId(2) }.token();
        let leads = Effect::Notify(Notice::Elected { leader: NodeId(2), epoch });
        assert_eq!(bench.at(1).message(2, up(2)), [send(0, result), leads]);
        assert_eq!(bench.at(1).rules(), [3]);
    }
}
