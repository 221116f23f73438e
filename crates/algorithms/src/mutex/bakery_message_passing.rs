//! The bakery without a common memory: every node keeps its own number and tells it to any node that
//! asks. A node that wants to enter asks all others for their numbers, takes a higher one, and then
//! asks each, first until it is not choosing, then until its number is 0 or comes later.
//!
//! It is safe for the reason the bakery is: of two nodes with numbers each waits for the other to
//! have finished choosing and then knows which of them is first. Reads are numbered, so that an
//! answer cannot be taken for that to another read.
//!
//! # Rules
//!
//! 1. Acquire: start choosing; send `Read` of the number to all.
//! 2. `Value` from j, while choosing: note the number. When all have answered: take a number one
//!    higher than the highest, stop choosing, and send `Read` of choosing to all.
//! 3. `Value` from j, not choosing: send `Read` of the number to j. Choosing: ask again after a
//!    pause.
//! 4. `Value` from j, its number: if it is 0 or (number, j) comes later than the own, be done with j;
//!    otherwise ask again after a pause.
//! 5. The pause is over: send j the same `Read` again.
//! 6. When done with all: enter, with a fencing token higher than any known. Every node that it is
//!    done with either has entered and said so or will enter later.
//! 7. Release: set the number to 0.
//! 8. `Read`, at any time: answer by `Value`, which also says the highest fencing token known.
//!
//! In `mutex/bakery-message-passing-cooperative` the reads of rules 3 and 4 say the reader's number,
//! and the owner answers when the reader can go on, instead of being asked again and again. What is
//! left of the bakery then is asking every other node and waiting for its permission.
//!
//! # Cost
//!
//! A lone entry takes exactly 6(N − 1) messages and 6 hops, leaving none. Every further poll is two
//! messages more, and nothing bounds their number. With cooperation there are no polls: always 6(N
//! − 1).
//!
//! # Known failures
//!
//! A crashed node does not answer, and no node enters any more; a lost message stops the node that
//! waits for it. Without cooperation the number of messages has no bound. First come, first served
//! counts from the moment a number is taken.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{Case, Fits, Given, SIZES};
use conclave_protocol::{
    Charge, Ctx, Entry, Model, Never, NodeId, Opt, Property, Protocol, Setup, Unfit,
};
use serde::{Deserialize, Serialize};

use super::{LIVE, LOCK, Notice, Request, SAFE};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BakeryMessagePassing {
    /// This node's number, or 0.
    number: u64,
    phase: Phase,
    /// How many reads it has sent: the number of the latest.
    reads: u64,
    /// The highest fencing token it has had or heard of.
    fence: u64,
    /// Cooperative: reads that are answered when their sender can go on.
    withheld: Vec<(NodeId, Read)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Phase {
    Outside,
    /// Choosing a number; the nodes whose answers are missing, to which read.
    Doorway {
        missing: BTreeMap<NodeId, u64>,
        highest: u64,
    },
    /// Waiting; the nodes that it is not done with.
    Bakery {
        ahead: BTreeMap<NodeId, Look>,
    },
    Inside,
}

/// What has to be seen of another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Look {
    variable: Variable,
    /// The read under way, if this is not a pause.
    read: Option<u64>,
}

/// What a node can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Variable {
    /// Its number, or 0.
    Number,
    /// 1 while it is choosing, 0 otherwise.
    Choosing,
}

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Read {
    /// What about.
    variable: Variable,
    /// The number of reads that its sender had sent, this one included.
    n: u64,
    /// The sender's number, if the answer is to be withheld until the sender can go on.
    ticket: Option<u64>,
}

/// What nodes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// What is the value of this?
    Read(Read),
    /// It is this.
    Value {
        /// The read it answers.
        n: u64,
        /// The value.
        value: u64,
        /// The highest fencing token known.
        fence: u64,
    },
}

/// The only kind of timer: the pause before a node is asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer {
    /// Ask this node again.
    Poll(NodeId),
}

/// How long the pauses are, and whether owners cooperate.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    poll: Duration,
    cooperative: bool,
}

fn poll(setup: &Setup) -> Result<Duration, Unfit> {
    match setup.option("poll", 1_u32)? {
        0 => Err(Unfit::new("poll=0 would ask without pause; 1 is the least")),
        units => Ok(setup.delay * units),
    }
}

impl Protocol for BakeryMessagePassing {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Timer;
    type Stable = Never;

    fn start(_: Option<Never>, _: &mut Ctx<Self>) -> Self {
        Self { number: 0, phase: Phase::Outside, reads: 0, fence: 0, withheld: Vec::new() }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            // Rule 1.
            Request::Acquire => {
                ctx.rule(1);
                let peers = ctx.peers();
                let read = |peer| (peer, self.read(peer, Variable::Number, ctx));
                let missing = peers.map(read).collect();
                self.phase = Phase::Doorway { missing, highest: 0 };
                self.take_number_if_all_answered(ctx);
            }
            // Rule 7.
            Request::Release => {
                ctx.rule(7);
                self.number = 0;
                self.phase = Phase::Outside;
                self.answer_withheld(ctx);
            }
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            // Rule 8.
            Msg::Read(read) => {
                ctx.rule(8);
                if self.lets_go_on(from, read, ctx) {
                    self.answer(from, read, ctx);
                } else {
                    self.withheld.push((from, read));
                }
            }
            Msg::Value { n, value, fence } => {
                self.fence = self.fence.max(fence);
                match &mut self.phase {
                    // Rule 2.
                    Phase::Doorway { missing, highest } => {
                        if missing.get(&from) == Some(&n) {
                            ctx.rule(2);
                            missing.remove(&from);
                            *highest = value.max(*highest);
                            self.take_number_if_all_answered(ctx);
                        }
                    }
                    Phase::Bakery { ahead } => {
                        if let Some(look) = ahead.get_mut(&from)
                            && look.read == Some(n)
                        {
                            look.read = None;
                            let variable = look.variable;
                            self.on_seen(from, variable, value, ctx);
                        }
                    }
                    Phase::Outside | Phase::Inside => {}
                }
            }
        }
    }

    /// Rule 5.
    fn on_timer(&mut self, Timer::Poll(peer): Timer, ctx: &mut Ctx<Self>) {
        if let Phase::Bakery { ahead } = &self.phase
            && let Some(&Look { variable, read: None }) = ahead.get(&peer)
        {
            ctx.rule(5);
            self.look(peer, variable, ctx);
        }
    }

    fn charge(msg: &Msg, _: NodeId, _: NodeId) -> Charge {
        match msg {
            Msg::Read(_) => Charge::Sender,
            Msg::Value { .. } => Charge::Receiver,
        }
    }
}

impl BakeryMessagePassing {
    /// Rule 2.
    fn take_number_if_all_answered(&mut self, ctx: &mut Ctx<Self>) {
        let Phase::Doorway { missing, highest } = &self.phase else { return };
        if !missing.is_empty() {
            return;
        }
        self.number = highest + 1;
        self.phase = Phase::Bakery { ahead: BTreeMap::new() };
        for peer in ctx.peers() {
            self.look(peer, Variable::Choosing, ctx);
        }
        self.answer_withheld(ctx);
        self.enter_if_done_with_all(ctx);
    }

    /// Rules 3 and 4.
    fn on_seen(&mut self, peer: NodeId, variable: Variable, value: u64, ctx: &mut Ctx<Self>) {
        ctx.rule(match variable {
            Variable::Choosing => 3,
            Variable::Number => 4,
        });
        match variable {
            Variable::Choosing if value == 0 => self.look(peer, Variable::Number, ctx),
            Variable::Number if value == 0 || (value, peer) > (self.number, ctx.me) => {
                if let Phase::Bakery { ahead } = &mut self.phase {
                    ahead.remove(&peer);
                }
                self.enter_if_done_with_all(ctx);
            }
            Variable::Choosing | Variable::Number => {
                ctx.set_timer(Timer::Poll(peer), ctx.config.poll);
            }
        }
    }

    /// Rule 6.
    fn enter_if_done_with_all(&mut self, ctx: &mut Ctx<Self>) {
        if let Phase::Bakery { ahead } = &self.phase
            && ahead.is_empty()
        {
            ctx.rule(6);
            self.phase = Phase::Inside;
            self.fence += 1;
            ctx.notify(Notice::Acquired { token: self.fence });
        }
    }

    fn look(&mut self, peer: NodeId, variable: Variable, ctx: &mut Ctx<Self>) {
        let read = Some(self.read(peer, variable, ctx));
        if let Phase::Bakery { ahead } = &mut self.phase {
            ahead.insert(peer, Look { variable, read });
        }
    }

    fn read(&mut self, peer: NodeId, variable: Variable, ctx: &mut Ctx<Self>) -> u64 {
        self.reads += 1;
        let waiting = matches!(self.phase, Phase::Bakery { .. });
        let ticket = (ctx.config.cooperative && waiting).then_some(self.number);
        ctx.send(peer, Msg::Read(Read { variable, n: self.reads, ticket }));
        self.reads
    }

    /// Whether the answer to this read would let its sender go on, or is wanted in any case.
    fn lets_go_on(&self, from: NodeId, read: Read, ctx: &Ctx<Self>) -> bool {
        let Some(ticket) = read.ticket else { return true };
        match (read.variable, self.value(read.variable)) {
            (_, 0) => true,
            (Variable::Choosing, _) => false,
            (Variable::Number, number) => (number, ctx.me) > (ticket, from),
        }
    }

    fn value(&self, variable: Variable) -> u64 {
        match variable {
            Variable::Number => self.number,
            Variable::Choosing => matches!(self.phase, Phase::Doorway { .. }).into(),
        }
    }

    fn answer(&self, to: NodeId, read: Read, ctx: &mut Ctx<Self>) {
        let value = self.value(read.variable);
        ctx.send(to, Msg::Value { n: read.n, value, fence: self.fence });
    }

    /// Rule 8, for reads that arrived earlier.
    fn answer_withheld(&mut self, ctx: &mut Ctx<Self>) {
        for (from, read) in std::mem::take(&mut self.withheld) {
            if self.lets_go_on(from, read, ctx) {
                ctx.rule(8);
                self.answer(from, read, ctx);
            } else {
                self.withheld.push((from, read));
            }
        }
    }
}

/// Every node asks until it likes the answer.
pub static PLAIN: Entry<BakeryMessagePassing> =
    Entry::new("mutex/bakery-message-passing", "Bakery by messages", |setup| {
        poll(setup).map(|poll| Config { poll, cooperative: false })
    })
    .summary("take a number higher than everybody's, then ask until all others come later")
    .source(
        "Lamport. A new solution of Dijkstra's concurrent programming problem. CACM 17(8), 1974",
    )
    .text(include_str!("bakery_message_passing.rs"))
    .model(Model::RELIABLE)
    .holds(LOCK)
    .fails(&[(
        Property::FcfsHappenedBefore,
        "p1 asks and waits for a slow answer to take its number; p0, having been asked by p1, \
         asks too, takes the same number and has the lower id",
    )])
    .options(&[Opt {
        name: "poll",
        default: "1",
        help: "how long before a node is asked again, in units of T",
    }])
    .claims(&[
        Check::new(2, SAFE).requests(2).timers(6),
        // Polls are numbered, so that there is no end to the states.
        Check::new(2, LIVE).bounded(60),
        Check::new(2, &[Property::FcfsHappenedBefore]).fails(10),
    ])
    .deep(&[Check::new(3, SAFE).timers(0)])
    .cases(&[Case::new("idle", SIZES, Given::lone_among_equals).fits(&[Fits::LONE])]);

/// The owner of a variable answers when the answer lets the reader go on.
pub static COOPERATIVE: Entry<BakeryMessagePassing> = PLAIN
    .variant("mutex/bakery-message-passing-cooperative", "Bakery by messages, cooperative")
    .summary("as the bakery by messages, but answers are withheld until they are welcome")
    .options(&[])
    .config(|setup| poll(setup).map(|poll| Config { poll, cooperative: true }))
    .claims(&[
        Check::new(2, LOCK).requests(2),
        Check::new(2, &[Property::FcfsHappenedBefore]).fails(10),
    ])
    .deep(&[Check::new(3, LOCK)]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect};

    use super::*;

    /// Number 1 is taken by p1, which then asks p0 twice.
    fn asking(entry: &Entry<BakeryMessagePassing>) -> Bench<BakeryMessagePassing> {
        let mut bench = Bench::complete(entry, 2);
        bench.at(1).request(Request::Acquire);
        let value = |n| Msg::Value { n, value: 0, fence: 4 };
        bench.at(1).message(0, value(1));
        bench.at(1).message(0, value(2));
        bench
    }

    #[test]
    fn a_node_enters_when_the_other_is_neither_choosing_nor_ahead() {
        let mut bench = asking(&PLAIN);
        let entered = bench.at(1).message(0, Msg::Value { n: 3, value: 2, fence: 0 });
        assert_eq!(entered, [Effect::Notify(Notice::Acquired { token: 5 })]);
        assert_eq!(bench.at(1).rules(), [4, 6]);
        let mut bench = asking(&PLAIN);
        // Its number is as high and its id lower: it goes first.
        let pause = bench.at(1).message(0, Msg::Value { n: 3, value: 1, fence: 0 });
        assert!(matches!(pause[..], [Effect::SetTimer { timer: Timer::Poll(NodeId(0)), .. }]));
        bench.at(1).timer(Timer::Poll(NodeId(0)));
        assert_eq!(bench.at(1).rules(), [5]);
    }

    #[test]
    fn a_cooperative_node_answers_when_the_reader_can_go_on() {
        let mut bench = asking(&COOPERATIVE);
        let read = Read { variable: Variable::Number, n: 9, ticket: Some(2) };
        assert_eq!(bench.at(1).message(0, Msg::Read(read)), []);
        bench.at(1).message(0, Msg::Value { n: 3, value: 0, fence: 0 });
        let answer = Msg::Value { n: 9, value: 0, fence: 5 };
        let left = bench.at(1).request(Request::Release);
        assert_eq!(left, [Effect::Send { to: NodeId(0), msg: answer }]);
        assert_eq!(bench.at(1).rules(), [7, 8]);
    }
}
