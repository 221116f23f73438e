//! Voting as in `mutex/maekawa`, with votes that can be taken back. Requests have timestamps. A
//! voter that is asked by an older request than the one it has voted for inquires whether that
//! one still needs the vote; a node that knows it will not get all its votes soon yields those
//! it is inquired about. To know that, it has to be told of every vote it is not getting: `Fail`.
//!
//! It is as safe as plain voting: a vote goes to another request only when the node that has it has
//! left or has given it back, and a node inside gives no vote back.
//!
//! It is live because every request in a queue has been told `Fail`, or has yielded, unless it is
//! older than all that the voter knows, and then the vote is being inquired about. Follow the
//! chain "waits for a vote that is held by": as long as no node on it has failed, its requests get
//! younger and younger, so it ends; the node at its end has failed and yields, or has all its votes
//! and will leave. This needs a **second `Fail`**: a request that was the oldest, and so was told
//! nothing, has to be told when a still older one arrives.
//!
//! A voter passes on the highest fencing token that it has heard of with its vote; the entrant
//! takes one more, and leaves that with its voters.
//!
//! # Rules
//!
//! 1. Acquire: tick the clock and send `Request` with its time to every voter, oneself included.
//! 2. Voter, on `Request`: if the vote is free, give it, with `Grant`. Else queue the request by
//!    age. If the request voted for or the head of the queue is older, send `Fail` to the newcomer.
//!    If not, it is the oldest of all: send `Fail` to the former head, if that was older than the
//!    request voted for; and send `Inquire` to the latter, unless that has been done.
//! 3. `Grant`: enter when every voter has granted.
//! 4. `Fail`: note it; yield as in rule 6.
//! 5. `Inquire` while waiting: note it; yield as in rule 6. Inside, `Release` will answer it.
//! 6. If a voter has failed us, or has had its vote back: send `Yield` to every voter that has
//!    inquired.
//! 7. Voter, on `Yield`: put the request back into the queue and vote for the oldest there.
//! 8. Release: send `Release` to every voter; a voter then votes for the oldest in its queue.
//!
//! Where messages overtake each other (`numbered=true`), voters number their votes, and `Grant`,
//! `Inquire` and `Fail` carry the number. An `Inquire` that comes before the `Grant` it is about
//! waits for it, and a `Fail` that comes after a later `Grant` is out of date.
//!
//! # Cost
//!
//! With sets of K voters, a lone entry takes exactly 3(K − 1) messages and two hops. Under
//! contention each request causes at a voter one `Fail`, or at most `Inquire`, `Yield` and a second
//! `Grant`: never more than 6(K − 1) an entry on average, and about 4(K − 1) when every node
//! requests again as soon as it has left.
//!
//! # Known failures
//!
//! Requests are not served in order: one that is slow to reach a voter is overtaken there by
//! younger ones. A crashed voter blocks the nodes whose sets contain it, and no others. A crash
//! inside, or of a node that has votes, blocks all that need them, and so does the loss of a
//! message. Without the second `Fail` some runs get stuck (`mutex/maekawa-sanders-one-fail`), and
//! so they do without numbers where messages overtake each other.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{Case, Fits, QUORUMS};
use conclave_protocol::{
    Charge, Ctx, Entry, Lamport, Model, Never, NodeId, Opt, Property, Protocol, Setup, Stamp, Unfit,
};
use serde::{Deserialize, Serialize};

use super::{LOCK, NO_STAMPS, Notice, Request, SAFE};
use crate::quorum::{self, Quorums};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MaekawaSanders {
    clock: Lamport,
    phase: Phase,
    voter: Voter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Phase {
    Outside,
    Waiting {
        asked: Stamp,
        answers: BTreeMap<NodeId, Answer>,
        /// Voters that want to know whether we still need their vote, and which vote.
        inquiries: BTreeMap<NodeId, u64>,
        highest: u64,
    },
    Inside {
        asked: Stamp,
        token: u64,
    },
}

/// How things stand with a voter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Answer {
    /// It has not said anything.
    None,
    /// We have its vote, the one with this number.
    Granted { number: u64 },
    /// An older request is before ours.
    Failed,
    /// We have given the vote back.
    Yielded,
}

#[derive(Clone, Default, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Voter {
    /// The request that has the vote.
    lock: Option<Stamp>,
    /// Requests that wait for it, the oldest first.
    queue: BTreeSet<Stamp>,
    /// Whether the node that has the vote has been asked to give it back.
    inquired: bool,
    /// How often the vote was given, if votes are numbered.
    votes: u64,
    /// The highest fencing token heard of.
    highest: u64,
}

/// What nodes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// Will you vote for me?
    Request {
        /// The request.
        asked: Stamp,
    },
    /// I vote for you.
    Grant {
        /// The request voted for.
        asked: Stamp,
        /// The number of the vote.
        number: u64,
        /// The highest fencing token the voter knows.
        highest: u64,
    },
    /// An older request is before yours.
    Fail {
        /// The request that has to wait.
        asked: Stamp,
        /// The number of the latest vote.
        number: u64,
    },
    /// An older request has come: do you still need my vote?
    Inquire {
        /// The request that has it.
        asked: Stamp,
        /// The number of the vote.
        number: u64,
    },
    /// No, take it back for now.
    Yield {
        /// The request that had it.
        asked: Stamp,
    },
    /// I have left.
    Release {
        /// The request that is over.
        asked: Stamp,
        /// The fencing token it got.
        token: u64,
    },
}

/// Which nodes vote for which, and which variant of the rules is in force.
#[derive(Clone, Debug)]
pub struct Config {
    quorums: Quorums,
    /// So many votes are enough to enter.
    needed: usize,
    /// So many voters must have failed us before we yield.
    refusals: usize,
    /// Votes are numbered, for links that do not keep order.
    numbered: bool,
    mutation: Option<Mutation>,
}

/// What is wrong in a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutation {
    /// Rule 2 leaves out the `Fail` to the former head.
    OneFail,
}

impl Config {
    /// Every vote of the set is needed, so a single refusal is a reason to yield.
    pub(super) fn unanimous(quorums: Quorums) -> Self {
        let needed = quorums.size();
        Self::any(quorums, needed, 1)
    }

    /// Any `needed` votes of the set will do, and no node yields before `refusals` are refused.
    pub(super) fn any(quorums: Quorums, needed: usize, refusals: usize) -> Self {
        Self { quorums, needed, refusals, numbered: false, mutation: None }
    }

    fn is(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }
}

impl Protocol for MaekawaSanders {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Never;
    type Stable = Never;

    fn start(_: Option<Never>, _: &mut Ctx<Self>) -> Self {
        Self { clock: Lamport::default(), phase: Phase::Outside, voter: Voter::default() }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        let voters = ctx.config.quorums.of(ctx.me);
        match (request, &self.phase) {
            // Rule 1.
            (Request::Acquire, _) => {
                ctx.rule(1);
                let asked = self.clock.tick(ctx.me);
                let answers = voters.iter().map(|voter| (voter, Answer::None)).collect();
                let inquiries = BTreeMap::new();
                self.phase = Phase::Waiting { asked, answers, inquiries, highest: 0 };
                ctx.multicast(voters.iter(), Msg::Request { asked });
            }
            // Rule 8.
            (Request::Release, &Phase::Inside { asked, token }) => {
                ctx.rule(8);
                self.phase = Phase::Outside;
                ctx.multicast(voters.iter(), Msg::Release { asked, token });
            }
            (Request::Release, Phase::Outside | Phase::Waiting { .. }) => {}
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            Msg::Request { asked } => {
                self.clock.observe(asked);
                self.voter.on_request(asked, ctx);
            }
            Msg::Yield { asked } => self.voter.on_yield(asked, ctx),
            Msg::Release { asked, token } => self.voter.on_release(asked, token, ctx),
            Msg::Grant { asked, .. } | Msg::Fail { asked, .. } | Msg::Inquire { asked, .. } => {
                if matches!(&self.phase, Phase::Waiting { asked: mine, .. } if *mine == asked) {
                    self.on_answer(from, msg, ctx);
                }
            }
        }
    }

    fn charge(msg: &Msg, _: NodeId, _: NodeId) -> Charge {
        match msg {
            Msg::Request { .. } | Msg::Yield { .. } | Msg::Release { .. } => Charge::Sender,
            Msg::Grant { .. } | Msg::Fail { .. } | Msg::Inquire { .. } => Charge::Receiver,
        }
    }
}

impl MaekawaSanders {
    /// A voter answers the request that we wait with.
    fn on_answer(&mut self, voter: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        let Phase::Waiting { answers, inquiries, highest: known, .. } = &mut self.phase else {
            return;
        };
        let Some(answer) = answers.get_mut(&voter) else { return };
        match (msg, *answer) {
            // Rule 3.
            (Msg::Grant { number, highest, .. }, _) => {
                ctx.rule(3);
                *answer = Answer::Granted { number };
                *known = highest.max(*known);
            }
            (Msg::Fail { number, .. }, Answer::Granted { number: later }) if number < later => {}
            // Rule 4.
            (Msg::Fail { .. }, _) => {
                ctx.rule(4);
                *answer = Answer::Failed;
            }
            // Rule 5.
            (Msg::Inquire { number, .. }, _) => {
                ctx.rule(5);
                inquiries.insert(voter, number);
            }
            (Msg::Request { .. } | Msg::Yield { .. } | Msg::Release { .. }, _) => {}
        }
        self.enter_if_enough_granted(ctx);
        self.yield_if_refused(ctx);
    }

    fn enter_if_enough_granted(&mut self, ctx: &mut Ctx<Self>) {
        let Phase::Waiting { asked, answers, highest, .. } = &self.phase else { return };
        let granted = answers.values().filter(|a| matches!(a, Answer::Granted { .. })).count();
        if granted >= ctx.config.needed {
            let (asked, token) = (*asked, highest + 1);
            self.phase = Phase::Inside { asked, token };
            ctx.notify(Notice::Acquired { token });
        }
    }

    /// Rule 6.
    fn yield_if_refused(&mut self, ctx: &mut Ctx<Self>) {
        let Phase::Waiting { asked, answers, inquiries, .. } = &mut self.phase else { return };
        let refused = |answer: &&Answer| matches!(answer, Answer::Failed | Answer::Yielded);
        if answers.values().filter(refused).count() < ctx.config.refusals {
            return;
        }
        for (voter, number) in mem::take(inquiries) {
            if answers.get(&voter) == Some(&Answer::Granted { number }) {
                ctx.rule(6);
                answers.insert(voter, Answer::Yielded);
                ctx.send(voter, Msg::Yield { asked: *asked });
            } else if ctx.config.numbered {
                // It has overtaken its grant, and waits for it.
                inquiries.insert(voter, number);
            }
        }
    }
}

impl Voter {
    /// Rule 2.
    fn on_request(&mut self, asked: Stamp, ctx: &mut Ctx<MaekawaSanders>) {
        ctx.rule(2);
        let Some(lock) = self.lock else { return self.vote(asked, ctx) };
        let head = self.queue.first().copied();
        self.queue.insert(asked);
        if lock < asked || head.is_some_and(|head| head < asked) {
            self.fail(asked, ctx);
            return;
        }
        if let Some(head) = head
            && head < lock
            && !ctx.config.is(Mutation::OneFail)
        {
            self.fail(head, ctx);
        }
        if !self.inquired {
            self.inquired = true;
            ctx.send(lock.node, Msg::Inquire { asked: lock, number: self.votes });
        }
    }

    /// Rule 7.
    fn on_yield(&mut self, asked: Stamp, ctx: &mut Ctx<MaekawaSanders>) {
        if self.lock == Some(asked) {
            ctx.rule(7);
            self.queue.insert(asked);
            self.vote_for_oldest(ctx);
        }
    }

    /// Rule 8.
    fn on_release(&mut self, asked: Stamp, token: u64, ctx: &mut Ctx<MaekawaSanders>) {
        ctx.rule(8);
        self.highest = token.max(self.highest);
        if self.lock == Some(asked) {
            self.vote_for_oldest(ctx);
        } else {
            // A node that needed not all of its votes may have entered without this one.
            self.queue.remove(&asked);
        }
    }

    fn vote_for_oldest(&mut self, ctx: &mut Ctx<MaekawaSanders>) {
        self.lock = None;
        self.inquired = false;
        if let Some(oldest) = self.queue.pop_first() {
            self.vote(oldest, ctx);
        }
    }

    fn vote(&mut self, asked: Stamp, ctx: &mut Ctx<MaekawaSanders>) {
        self.lock = Some(asked);
        self.votes += u64::from(ctx.config.numbered);
        let (number, highest) = (self.votes, self.highest);
        ctx.send(asked.node, Msg::Grant { asked, number, highest });
    }

    fn fail(&self, asked: Stamp, ctx: &mut Ctx<MaekawaSanders>) {
        ctx.send(asked.node, Msg::Fail { asked, number: self.votes });
    }
}

/// The deadlock-free algorithm.
pub static PLAIN: Entry<MaekawaSanders> =
    Entry::new("mutex/maekawa-sanders", "Maekawa's voting without deadlock", config)
        .summary("voters take votes back for older requests; every loser is told")
        .source(
            "Sanders. The information structure of distributed mutual exclusion algorithms. ACM \
             TOCS 5(3), 1987",
        )
        .text(include_str!("maekawa_sanders.rs"))
        .model(Model::FIFO)
        .holds(LOCK)
        .fails(&[
            (
                Property::FcfsHappenedBefore,
                "p0's request is slow to reach the shared voter p1; p4 hears of it, asks later, \
                 and gets all its votes first",
            ),
            (
                Property::FcfsTimestamp,
                "when all seven of the smallest plane ask at once, p1 enters first, not p0",
            ),
        ])
        .options(&[quorum::QUORUM, NUMBERED])
        .claims(&[
            Check::new(3, LOCK).requests(2),
            Check::new(3, &[Property::FcfsHappenedBefore]).requests(2).fails(16),
            Check::unchecked(&[Property::FcfsTimestamp], NO_STAMPS),
        ])
        .deep(&[Check::new(4, LOCK)])
        .cases(&[
            Case::new("idle", QUORUMS, |given| given.lone_each(given.quorums(), 0..given.n("N")))
                .fits(&[Fits::LONE]),
            Case::new("contended-bound", QUORUMS, |given| given.every_load(&given.quorums()))
                .fits(&[Fits::AT_MOST]),
        ]);

const NUMBERED: Opt = Opt {
    name: "numbered",
    default: "false",
    help: "number the votes, so that messages may overtake each other",
};

fn config(setup: &Setup) -> Result<Config, Unfit> {
    let numbered = setup.option(NUMBERED.name, false)?;
    Ok(Config { numbered, ..Config::unanimous(quorum::chosen(setup)?) })
}

/// With numbered votes, for links that do not keep order.
pub static NUMBERED_VOTES: Entry<MaekawaSanders> = PLAIN
    .variant("mutex/maekawa-sanders-numbered", "Maekawa's voting without deadlock or order")
    .summary("numbered votes tell which grant an inquiry or a failure is about")
    .model(Model::RELIABLE)
    .options(&[quorum::QUORUM])
    .config(|setup| Ok(Config { numbered: true, ..config(setup)? }))
    .claims(&[
        Check::new(3, LOCK).requests(2),
        Check::new(3, &[Property::FcfsHappenedBefore]).requests(2).fails(15),
        Check::unchecked(&[Property::FcfsTimestamp], NO_STAMPS),
    ])
    .deep(&[Check::new(4, LOCK)]);

/// Without the second `Fail`.
pub static ONE_FAIL: Entry<MaekawaSanders> = PLAIN
    .variant("mutex/maekawa-sanders-one-fail", "Maekawa's voting, one Fail short")
    .summary("who was the oldest is not told when a still older request arrives")
    .mutant(
        "mutex/maekawa-sanders",
        "rule 2 sends no Fail to a former head of the queue, which then keeps votes that it is \
         inquired about",
        Property::NoDeadlock,
    )
    .holds(SAFE)
    .config(|setup| Ok(Config { mutation: Some(Mutation::OneFail), ..config(setup)? }))
    .claims(&[
        Check::new(3, SAFE).requests(2),
        Check::new(4, &[Property::NoDeadlock]).fails(13),
        Check::new(3, &[Property::FcfsHappenedBefore]).requests(2).fails(16),
        Check::unchecked(&[Property::FcfsTimestamp], NO_STAMPS),
    ]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect, Setup, Topology, label};

    use super::*;

    fn request(time: u64, node: u32) -> Stamp {
        Stamp { time, node: NodeId(node) }
    }

    /// What voter p0 sends when these requests reach it one after the other.
    fn answers(requests: &[Stamp]) -> Vec<(u32, &'static str)> {
        let setup = Setup::new(Topology::complete(5)).with("quorum", "majority");
        let mut bench = Bench::new(&PLAIN, &setup);
        let sent = requests
            .iter()
            .flat_map(|&asked| bench.at(0).message(asked.node.0, Msg::Request { asked }));
        sent.map(|effect| match effect {
            Effect::Send { to, msg } => (to.0, label(&msg)),
            other => panic!("a voter only sends: {other:?}"),
        })
        .collect()
    }

    #[test]
    fn a_younger_request_is_told_that_it_has_to_wait() {
        let sent = answers(&[request(1, 1), request(2, 2)]);
        assert_eq!(sent, [(1, "Grant"), (2, "Fail")]);
    }

    #[test]
    fn an_older_request_makes_the_voter_inquire_once_and_its_predecessor_is_told() {
        let sent = answers(&[request(3, 3), request(2, 2), request(1, 1)]);
        assert_eq!(sent, [(3, "Grant"), (3, "Inquire"), (2, "Fail")]);
    }

    #[test]
    fn no_request_is_told_twice() {
        let sent = answers(&[request(2, 2), request(4, 4), request(1, 1)]);
        assert_eq!(sent, [(2, "Grant"), (4, "Fail"), (2, "Inquire")]);
    }

    #[test]
    fn a_request_that_has_failed_yields_the_vote_it_is_inquired_about() {
        let setup = Setup::new(Topology::complete(3)).with("quorum", "majority");
        let mut bench = Bench::new(&PLAIN, &setup);
        // p0 votes for itself, and p1 may vote for it, too.
        bench.at(0).request(Request::Acquire);
        let asked = request(1, 0);
        assert_eq!(bench.at(0).message(1, Msg::Fail { asked, number: 0 }), []);
        // Its own voter inquires for an older request, and has its vote back at once.
        let older = bench.at(0).message(2, Msg::Request { asked: request(0, 2) });
        let grant = Msg::Grant { asked: request(0, 2), number: 0, highest: 0 };
        assert_eq!(older, [Effect::Send { to: NodeId(2), msg: grant }]);
        assert_eq!(bench.at(0).rules(), [2, 5, 6, 7]);
    }
}
