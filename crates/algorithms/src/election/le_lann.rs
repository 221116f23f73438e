//! Every node that wakes sends its id all the way round the ring, and every other node notes the best
//! that comes by. A node whose own id is back has seen all of them, and knows the leader without being
//! told.
//!
//! A node wakes, at the latest, when the first id comes by, and sends its own ahead of that one.
//! Links keep their order, so when an id is back at its owner, those of all others have come by
//! before it. All see the same ids and the same counters, so all find the same leader in the same
//! term.
//!
//! # Rules
//!
//! 1. The application calls: wake, unless awake: send `Id` with one's own rank to the successor.
//! 2. `Id` of another: wake; note it if it is the best so far; pass it on.
//! 3. `Id` of one's own: follow the best, in the term after the highest counter seen, and sleep.
//!
//! # Cost
//!
//! Exactly N² messages, however many call: each of N ids makes N hops. All know the leader after N
//! hops if all call at once, and N − 1 later at most.
//!
//! # Known failures
//!
//! It survives no crash: an id whose owner is dead goes round for ever on a repaired ring, and on
//! another all that reaches the gap is lost.

use conclave_protocol::claims::Check;
use conclave_protocol::{
    Ctx, Entry, Links, Model, Never, NodeId, Protocol, Rank, Ranks, Setup, Stamp,
};
use serde::{Deserialize, Serialize};

use super::{LEADERS, Notice, Request};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LeLann {
    /// While awake, the best seen so far, oneself included.
    best: Option<Rank>,
    /// The highest counter used or seen.
    counter: u64,
}

/// The only message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// This node takes part.
    Id {
        /// Its rank.
        rank: Rank,
        /// The highest counter it had seen.
        epoch: u64,
    },
}

impl Protocol for LeLann {
    type Config = Ranks;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Never;
    type Stable = Never;

    fn start(_: Option<Never>, _: &mut Ctx<Self>) -> Self {
        Self { best: None, counter: 0 }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            // Rule 1.
            Request::Campaign => {
                ctx.rule(1);
                self.wake(ctx);
            }
        }
    }

    fn on_message(&mut self, _: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        let Msg::Id { rank, epoch } = msg;
        let best = self.wake(ctx).max(rank);
        self.counter = self.counter.max(epoch);
        if rank.node == ctx.me {
            // Rule 3.
            ctx.rule(3);
            self.best = None;
            self.counter += 1;
            let epoch = Stamp { time: self.counter, node: best.node }.token();
            ctx.notify(Notice::Elected { leader: best.node, epoch });
        } else {
            // Rule 2.
            ctx.rule(2);
            self.best = Some(best);
            ctx.send(ctx.successor(), msg);
        }
    }
}

impl LeLann {
    /// Sends one's own id, unless awake; the best seen so far.
    fn wake(&mut self, ctx: &mut Ctx<Self>) -> Rank {
        if let Some(best) = self.best {
            return best;
        }
        let rank = ctx.config.of(ctx.me);
        self.best = Some(rank);
        ctx.send(ctx.successor(), Msg::Id { rank, epoch: self.counter });
        rank
    }
}

/// The algorithm as published.
pub static PLAIN: Entry<LeLann> = Entry::new("election/le-lann", "Le Lann", Setup::ranks)
    .summary("every id goes all the way round, and everybody sees all of them")
    .source("Le Lann. Distributed systems: towards a formal approach. IFIP Congress, 1977")
    .text(include_str!("le_lann.rs"))
    .model(Model { links: Links::Ring, ..Model::FIFO })
    .holds(LEADERS)
    .claims(&[Check::new(3, LEADERS), Check::new(4, LEADERS)])
    .deep(&[Check::new(3, LEADERS).requests(2), Check::new(5, LEADERS)]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect, Topology};

    use super::*;

    #[test]
    fn a_node_sends_its_own_id_ahead_of_the_first_that_comes_by() {
        let mut bench = Bench::new(&PLAIN, &Setup::new(Topology::ring(3)));
        let id = |node| Msg::Id { rank: Rank { attribute: 0, node: NodeId(node) }, epoch: 0 };
        let to_next = |msg| Effect::Send { to: NodeId(2), msg };
        assert_eq!(bench.at(1).message(0, id(0)), [to_next(id(1)), to_next(id(0))]);
        assert_eq!(bench.at(1).message(0, id(2)), [to_next(id(2))]);
        let epoch = Stamp { time: 1, node: NodeId(2) }.token();
        let found = [Effect::Notify(Notice::Elected { leader: NodeId(2), epoch })];
        assert_eq!(bench.at(1).message(0, id(1)), found);
        assert_eq!(bench.at(1).rules(), [3]);
    }
}
