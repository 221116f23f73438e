//! A candidate needs the votes of more than half of all nodes, dead or alive, reachable or not, and
//! every node votes once in each epoch. So a part of the network that has no majority elects no
//! leader, and an epoch never has two, however much is late, lost or forgotten.
//!
//! Two majorities share a node, and that node has voted once: it writes its epoch and its vote to
//! stable storage before it answers, and refuses any epoch that is not beyond its own. That is all
//! that safety rests on. Timers only decide when a node stands: a leader is heard of every now
//! and then, and a node that misses it stands, after a random delay, and after a longer one each time
//! that no candidate wins. A leader that misses the majority steps down, because another one may have
//! been elected where it cannot see it.
//!
//! # Rules
//!
//! 1. Call, or nothing heard of the leader for 10T and a random while: stand. Advance the epoch,
//!    vote for this node, write both down, and send `VoteReq` to all.
//! 2. `VoteReq` of a later epoch than this node's: advance to it and follow no leader. If the
//!    candidate is not worse than this node and all nodes it has heard of since it last missed a
//!    leader, write down the vote and send `Vote`. Otherwise send `Refuse`, and stand before long.
//!    `VoteReq` of any other epoch: `Refuse`, unless it repeats one that has this node's vote.
//! 3. `Vote`: with those of a majority of all nodes, lead, and send `Coordinator` to all.
//! 4. `Coordinator`, or `Heartbeat`, which the leader sends every 4T: if its epoch is not behind,
//!    advance to it and follow its sender, and answer a heartbeat with `Alive`. Otherwise send `Refuse`.
//! 5. `Refuse` of a later epoch: advance to it, and follow no leader.
//! 6. No majority within a round trip: wait for a random while, twice as long each time, and stand
//!    again. A follower whose leader is suspected waits likewise, and stands.
//! 7. A leader that hears of a later epoch, or has had no majority's `Alive` for two heartbeats in
//!    a row, steps down.
//!
//! A node that comes back after a crash waits as one that has heard of a leader.
//!
//! # Cost
//!
//! Uncontested: N − 1 `VoteReq`, up to N − 1 `Vote` and N − 1 `Coordinator`, in three hops. To stay
//! in office: N − 1 `Heartbeat` and as many `Alive` every 4T.
//!
//! # Known failures
//!
//! Without a majority no node leads. The best live node need not lead: a majority may elect another
//! one before it has heard of it, and keeps it. A node that forgets its vote votes twice, and then
//! an epoch may have two leaders. A leader that is cut off takes itself for the leader for a while
//! after the next one is elected; only the epoch tells them apart.

use std::time::Duration;

use conclave_protocol::claims::Check;
use conclave_protocol::{
    Channels, Crashes, Ctx, Entry, Model, NodeId, NodeSet, Opt, Property, Protocol, Rank, Ranks,
    Setup, Stamp, Unfit,
};
use serde::{Deserialize, Serialize};

use super::{Notice, Request};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct QuorumEpoch {
    ballot: Ballot,
    role: Role,
    /// How often in a row no candidate has won, as far as it makes a difference.
    failures: u32,
    /// Whom this node has heard of since it last missed a leader.
    heard: NodeSet,
}

/// What survives a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ballot {
    /// The latest epoch seen.
    epoch: u64,
    /// Whom this node has voted for in it.
    voted: Option<NodeId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Role {
    /// No election has been called yet.
    Idle,
    /// There is no leader; before long this node stands.
    Waiting,
    Candidate {
        votes: NodeSet,
    },
    Follower {
        leader: NodeId,
    },
    Leader {
        /// The number of the latest heartbeat.
        beat: u64,
        /// Who has answered it.
        alive: NodeSet,
        /// How many in a row before it were not answered by a majority.
        missed: u32,
    },
}

/// What nodes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// Vote for me.
    VoteReq {
        /// In this epoch.
        epoch: u64,
        /// How good a leader I am.
        rank: Rank,
    },
    /// You have my vote.
    Vote {
        /// In this epoch.
        epoch: u64,
    },
    /// No, or no longer.
    Refuse {
        /// My epoch.
        epoch: u64,
    },
    /// I lead.
    Coordinator {
        /// In this epoch.
        epoch: u64,
    },
    /// I still lead.
    Heartbeat {
        /// In this epoch.
        epoch: u64,
        /// Its number.
        beat: u64,
    },
    /// I still follow you.
    Alive {
        /// In this epoch.
        epoch: u64,
        /// The number of the heartbeat.
        beat: u64,
    },
}

/// What a node waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer {
    /// A sign of a leader, and then a random while.
    Stand,
    /// Votes.
    Votes,
    /// The next heartbeat.
    Beat,
}

/// The time-outs.
#[derive(Clone, Debug)]
pub struct Config {
    ranks: Ranks,
    /// `T`.
    unit: Duration,
    /// How long votes take.
    answer: Duration,
    /// Random delays are up to so many `T`.
    spread: u32,
}

impl Config {
    /// From one heartbeat to the next.
    fn beat(&self) -> Duration {
        self.unit * 4
    }

    /// How long a leader may be silent.
    fn patience(&self) -> Duration {
        self.unit * 10
    }

    /// How long a leader can take itself for one after a majority has turned to another: from when
    /// it asked for votes, or sent the heartbeat that a majority was the last to answer.
    pub fn grace(&self) -> Duration {
        self.answer + self.beat() * (MISSES + 1)
    }
}

/// So many heartbeats in a row may lack a majority before a leader steps down.
const MISSES: u32 = 2;
/// So often random delays are doubled.
const DOUBLINGS: u32 = 4;

impl Protocol for QuorumEpoch {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Timer;
    type Stable = Ballot;

    fn start(saved: Option<Ballot>, ctx: &mut Ctx<Self>) -> Self {
        let ballot = saved.unwrap_or_default();
        let role = match saved {
            Some(_) => {
                ctx.set_timer(Timer::Stand, ctx.config.patience());
                Role::Waiting
            }
            None => {
                ctx.save(ballot);
                Role::Idle
            }
        };
        Self { ballot, role, failures: 0, heard: NodeSet::new() }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            // Rule 1.
            Request::Campaign => {
                if matches!(self.role, Role::Idle | Role::Follower { .. }) {
                    self.stand(ctx);
                }
            }
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        self.heard.insert(from);
        match msg {
            Msg::VoteReq { epoch, rank } => self.on_vote_request(from, epoch, rank, ctx),
            // Rule 3.
            Msg::Vote { epoch } => {
                if let Role::Candidate { votes } = &mut self.role
                    && epoch == self.ballot.epoch
                {
                    ctx.rule(3);
                    votes.insert(from);
                    self.lead_if_majority(ctx);
                }
            }
            // Rule 5.
            Msg::Refuse { epoch } => {
                if self.advance(epoch, None, ctx) {
                    ctx.rule(5);
                    self.wait_and_stand(ctx);
                }
            }
            Msg::Coordinator { epoch } => self.on_leader(from, epoch, ctx),
            Msg::Heartbeat { epoch, beat } => {
                self.on_leader(from, epoch, ctx);
                if epoch == self.ballot.epoch {
                    ctx.send(from, Msg::Alive { epoch, beat });
                }
            }
            // Rule 7 counts them.
            Msg::Alive { epoch, beat: answered } => {
                if let Role::Leader { beat, alive, .. } = &mut self.role
                    && (epoch, answered) == (self.ballot.epoch, *beat)
                {
                    ctx.rule(7);
                    alive.insert(from);
                }
            }
        }
    }

    fn on_timer(&mut self, timer: Timer, ctx: &mut Ctx<Self>) {
        match timer {
            // Rule 1.
            Timer::Stand => {
                self.heard.clear();
                self.stand(ctx);
            }
            // Rule 6.
            Timer::Votes => {
                ctx.rule(6);
                self.failures = DOUBLINGS.min(self.failures + 1);
                self.wait_and_stand(ctx);
            }
            // Rules 4 and 7.
            Timer::Beat => self.beat(ctx),
        }
    }

    /// Rule 6, if it is the leader.
    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        self.heard.remove(peer);
        if self.role == (Role::Follower { leader: peer }) {
            ctx.rule(6);
            self.wait_and_stand(ctx);
        }
    }
}

/// The voter.
impl QuorumEpoch {
    /// Rule 2.
    fn on_vote_request(&mut self, from: NodeId, epoch: u64, rank: Rank, ctx: &mut Ctx<Self>) {
        ctx.rule(2);
        let known = self.heard.iter().filter(|&peer| peer != from).chain([ctx.me]);
        let best = known.map(|peer| ctx.config.ranks.of(peer)).max();
        let willing = best.is_none_or(|best| best <= rank);
        if self.advance(epoch, Some(from).filter(|_| willing), ctx) {
            if willing {
                let patience = ctx.config.patience() + Self::random(1, ctx);
                ctx.set_timer(Timer::Stand, patience);
            } else {
                self.wait_and_stand(ctx);
            }
        }
        let epoch = self.ballot.epoch;
        let ours = self.ballot.voted == Some(from);
        ctx.send(from, if ours { Msg::Vote { epoch } } else { Msg::Refuse { epoch } });
    }

    /// Advances to `epoch`, with a vote or without, unless it is not beyond this node's.
    fn advance(&mut self, epoch: u64, voted: Option<NodeId>, ctx: &mut Ctx<Self>) -> bool {
        if epoch <= self.ballot.epoch {
            return false;
        }
        self.ballot = Ballot { epoch, voted };
        ctx.save(self.ballot);
        self.become_leaderless(ctx);
        true
    }

    /// Rule 4.
    fn on_leader(&mut self, leader: NodeId, epoch: u64, ctx: &mut Ctx<Self>) {
        ctx.rule(4);
        if epoch < self.ballot.epoch {
            ctx.send(leader, Msg::Refuse { epoch: self.ballot.epoch });
            return;
        }
        self.advance(epoch, None, ctx);
        if self.role != (Role::Follower { leader }) {
            self.become_leaderless(ctx);
            self.follow(Role::Follower { leader }, leader, ctx);
        }
        let patience = ctx.config.patience() + Self::random(1, ctx);
        ctx.set_timer(Timer::Stand, patience);
    }

    fn follow(&mut self, role: Role, leader: NodeId, ctx: &mut Ctx<Self>) {
        self.role = role;
        self.failures = 0;
        let epoch = Stamp { time: self.ballot.epoch, node: leader };
        ctx.notify(Notice::Elected { leader, epoch: epoch.token() });
    }

    /// Rule 7, if this node leads.
    fn become_leaderless(&mut self, ctx: &mut Ctx<Self>) {
        if matches!(self.role, Role::Leader { .. }) {
            ctx.rule(7);
        }
        let had_leader = matches!(self.role, Role::Follower { .. } | Role::Leader { .. });
        self.role = Role::Waiting;
        ctx.cancel_timer(Timer::Votes);
        ctx.cancel_timer(Timer::Beat);
        if had_leader {
            ctx.notify(Notice::Deposed);
        }
    }
}

/// The candidate and leader.
impl QuorumEpoch {
    fn wait_and_stand(&mut self, ctx: &mut Ctx<Self>) {
        self.become_leaderless(ctx);
        let pause = ctx.config.answer + Self::random(1 << self.failures, ctx);
        ctx.set_timer(Timer::Stand, pause);
    }

    /// Rule 1.
    fn stand(&mut self, ctx: &mut Ctx<Self>) {
        ctx.rule(1);
        let epoch = self.ballot.epoch + 1;
        self.advance(epoch, Some(ctx.me), ctx);
        self.role = Role::Candidate { votes: [ctx.me].into_iter().collect() };
        ctx.cancel_timer(Timer::Stand);
        ctx.broadcast(Msg::VoteReq { epoch, rank: ctx.config.ranks.of(ctx.me) });
        ctx.set_timer(Timer::Votes, ctx.config.answer);
        self.lead_if_majority(ctx);
    }

    /// Rule 3.
    fn lead_if_majority(&mut self, ctx: &mut Ctx<Self>) {
        let Role::Candidate { votes } = &mut self.role else { return };
        if !is_majority(votes, ctx.n()) {
            return;
        }
        ctx.rule(3);
        let role = Role::Leader { beat: 0, alive: votes.take(), missed: 0 };
        self.follow(role, ctx.me, ctx);
        ctx.cancel_timer(Timer::Votes);
        ctx.broadcast(Msg::Coordinator { epoch: self.ballot.epoch });
        if ctx.n() > 1 {
            ctx.set_timer(Timer::Beat, ctx.config.beat());
        }
    }

    /// Rule 7 looks back, and rule 4 goes on.
    fn beat(&mut self, ctx: &mut Ctx<Self>) {
        let Role::Leader { beat, alive, missed } = &mut self.role else { return };
        *missed = if is_majority(alive, ctx.n()) { 0 } else { *missed + 1 };
        if *missed == MISSES {
            self.wait_and_stand(ctx);
            return;
        }
        ctx.rule(4);
        *beat += 1;
        *alive = [ctx.me].into_iter().collect();
        let beat = *beat;
        ctx.broadcast(Msg::Heartbeat { epoch: self.ballot.epoch, beat });
        ctx.set_timer(Timer::Beat, ctx.config.beat());
    }

    /// A while of up to so many times the spread.
    fn random(times: u32, ctx: &mut Ctx<Self>) -> Duration {
        let chosen = ctx.choose(ctx.config.spread);
        ctx.config.unit * chosen * times
    }
}

/// More than half of all nodes.
fn is_majority(nodes: &NodeSet, n: u32) -> bool {
    nodes.len() * 2 > n as usize
}

/// How far random delays are spread.
pub(crate) const SPREAD: Opt = Opt {
    name: "spread",
    default: "2N + 4",
    help: "random delays are up to so many T, or more after failures; 1 for none",
};

/// The constants for a system of the given make-up.
pub fn config(setup: &Setup) -> Result<Config, Unfit> {
    let spread = setup.option("spread", setup.n().saturating_mul(2).saturating_add(4))?;
    if spread == 0 {
        return Err(Unfit::new("spread=0, but it has to be 1 or more"));
    }
    let answer = setup.delay * 2 + setup.processing;
    Ok(Config { ranks: setup.ranks()?, unit: setup.delay, answer, spread })
}

/// No random delays: where timers run out at any moment, they make no difference.
const NO_SPREAD: &[(&str, &str)] = &[("spread", "1")];

/// The algorithm.
pub static PLAIN: Entry<QuorumEpoch> = Entry::new(
    "election/quorum-epoch",
    "Election by majority",
    config,
)
.summary("a majority of all nodes elects one leader per epoch, whatever goes wrong")
.source("Ongaro, Ousterhout. In search of an understandable consensus algorithm. USENIX ATC, 2014")
.text(include_str!("quorum_epoch.rs"))
.model(Model {
    channels: Channels::Lossy,
    crashes: Crashes::Recover,
    partitions: true,
    ..Model::RELIABLE
})
.holds(&[Property::OneLeader, Property::OneLeaderPerEpoch])
.fails(&[
    (Property::LeaderKnown, "two of three crash, and the third cannot win"),
    (
        Property::BestLeads,
        "p1 stands, and p0, which has heard of no better node, votes for it before p2 does",
    ),
])
.options(&[SPREAD])
.claims(&[
    // Each timer that runs out may be another candidacy, and without end of them there is no
    // end to epochs.
    Check::new(3, &[Property::OneLeaderPerEpoch]).set(NO_SPREAD).timers(0).crashes(1).recoveries(1),
    Check::new(3, &[Property::OneLeaderPerEpoch]).set(NO_SPREAD).timers(0).partitions(1),
    Check::new(3, &[Property::OneLeaderPerEpoch]).set(NO_SPREAD).timers(0).losses(1),
    Check::new(3, &[Property::OneLeaderPerEpoch]).set(NO_SPREAD).timers(0).repeats(1),
    Check::new(3, &[Property::OneLeaderPerEpoch])
        .set(NO_SPREAD)
        .clients(2, 3)
        .timers(1)
        .crashes(1)
        .recoveries(1),
    Check::new(3, &[Property::OneLeaderPerEpoch])
        .set(NO_SPREAD)
        .clients(2, 3)
        .timers(1)
        .partitions(1),
    Check::new(3, &[Property::OneLeaderPerEpoch]).set(NO_SPREAD).clients(2, 3).timers(2),
    Check::new(3, &[Property::OneLeaderPerEpoch])
        .set(NO_SPREAD)
        .timers(2)
        .crashes(1)
        .recoveries(1)
        .partitions(1)
        .losses(1)
        .repeats(1)
        .bounded(7),
    Check::new(4, &[Property::OneLeaderPerEpoch]).set(NO_SPREAD).clients(2, 4).timers(0),
    Check::new(2, &[Property::OneLeader]).set(NO_SPREAD).timers(3).crashes(1).recoveries(1),
    Check::new(3, &[Property::OneLeader]).set(NO_SPREAD).clients(2, 3).timers(1),
    Check::new(3, &[Property::LeaderKnown]).set(NO_SPREAD).timers(0).crashes(2).fails(3),
    Check::new(3, &[Property::BestLeads]).set(NO_SPREAD).timers(0).fails(9),
    // A node that forgets its vote votes again.
    Check::new(3, &[Property::OneLeaderPerEpoch])
        .set(NO_SPREAD)
        .timers(0)
        .crashes(1)
        .amnesias(1)
        .fails(8),
])
.deep(&[
    Check::new(3, &[Property::OneLeaderPerEpoch]).set(NO_SPREAD).timers(1),
    Check::new(3, &[Property::OneLeader]).set(NO_SPREAD).timers(1),
    Check::new(3, &[Property::OneLeaderPerEpoch])
        .set(NO_SPREAD)
        .timers(3)
        .crashes(1)
        .recoveries(1)
        .partitions(1)
        .bounded(10),
]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect};

    use super::*;

    #[test]
    fn a_node_votes_once_in_an_epoch_and_repeats_that_vote() {
        let mut bench = Bench::complete(&PLAIN, 4);
        let request = |node| {
            let rank = Rank { attribute: 0, node: NodeId(node) };
            Msg::VoteReq { epoch: 1, rank }
        };
        let voted = bench.at(0).message(2, request(2));
        let ballot = Ballot { epoch: 1, voted: Some(NodeId(2)) };
        assert_eq!(voted.first(), Some(&Effect::Save(ballot)));
        let vote = Effect::Send { to: NodeId(2), msg: Msg::Vote { epoch: 1 } };
        assert_eq!(voted.last(), Some(&vote));
        let refused = Effect::Send { to: NodeId(3), msg: Msg::Refuse { epoch: 1 } };
        assert_eq!(bench.at(0).message(3, request(3)), [refused]);
        assert_eq!(bench.at(0).message(2, request(2)), [vote]);
    }

    #[test]
    fn a_candidate_leads_with_the_vote_that_makes_a_majority() {
        let mut bench = Bench::complete(&PLAIN, 4);
        bench.at(0).request(Request::Campaign);
        assert_eq!(bench.at(0).message(1, Msg::Vote { epoch: 1 }), []);
        let won = bench.at(0).message(2, Msg::Vote { epoch: 1 });
        assert!(won.contains(&Effect::Broadcast(Msg::Coordinator { epoch: 1 })));
        assert_eq!(bench.at(0).rules(), [3]);
        // Rule 7: two heartbeats in a row without a majority.
        bench.at(0).timer(Timer::Beat);
        bench.at(0).timer(Timer::Beat);
        let stepped_down = bench.at(0).timer(Timer::Beat);
        assert!(stepped_down.contains(&Effect::Notify(Notice::Deposed)));
        assert_eq!(bench.at(0).rules(), [7]);
    }
}
