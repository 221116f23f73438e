//! A producer and a consumer that take turns: an item, and only when it has been used up the next
//! one. At most one thing can happen at any time, so each of them knows how the other is, and the
//! global states form a cycle: the item on its way, received, its acknowledgement on its way, received.
//!
//! A computation like this is deterministic: every global state that could have been is one that was,
//! and there is one order only in which its events can have happened. Three processes that exchange
//! messages as they please are not: `--set app=script` with `--set script=p1>q1,r1` has more than one
//! order, and a run passes through few of the states that could have been.
//!
//! # Rules
//!
//! Node 0 produces and node 1 consumes; others look on.
//!
//! 1. Node 0 has its turn, and there is something left to produce: after a while it sends `Item`, and
//!    it is no longer its turn.
//! 2. `Item` at node 1: it has its turn.
//! 3. Node 1 has its turn: it consumes the item, and only then, in a step of its own, sends `Ack`; it is
//!    no longer its turn.
//! 4. `Ack` at node 0: it has its turn again.
//!
//! # Cost
//!
//! Two messages for each item. One round is four events, one after the other: five consistent cuts,
//! and one order.

use std::fmt;
use std::time::Duration;

use conclave_protocol::claims::Check;
use conclave_protocol::theory::Case;
use conclave_protocol::{
    Ctx, Entry, Never, NodeId, Opt, Property, Protocol, Setup, Topology, Unfit, Whole,
};
use serde::{Deserialize, Serialize};

use super::app::{self, App, Application};
use super::consistent_cut;

const PRODUCER: NodeId = NodeId(0);
const CONSUMER: NodeId = NodeId(1);

/// The state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProducerConsumer {
    /// Whether it is this node's turn: to produce, or to consume.
    pub turn: bool,
    /// How many items it has produced, or consumed.
    pub items: u32,
}

/// What never changes.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How many items there are.
    pub rounds: u32,
    /// How long it takes to produce one, or to consume it.
    pub work: Duration,
}

/// What nodes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// Something to consume.
    Item,
    /// It has been consumed.
    Ack,
}

/// The timer of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer {
    /// An item is produced, or consumed.
    Done,
}

impl Protocol for ProducerConsumer {
    type Config = Config;
    type Request = Never;
    type Notice = Never;
    type Msg = Msg;
    type Timer = Timer;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        let mut node = Self { turn: false, items: 0 };
        if ctx.me == PRODUCER {
            node.work(ctx);
        }
        node
    }

    fn on_request(&mut self, request: Never, _: &mut Ctx<Self>) {
        match request {}
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match (msg, ctx.me) {
            // Rule 2.
            (Msg::Item, CONSUMER) if from == PRODUCER => {
                ctx.rule(2);
                self.work(ctx);
            }
            // Rule 4.
            (Msg::Ack, PRODUCER) if from == CONSUMER => {
                ctx.rule(4);
                self.work(ctx);
            }
            _ => {}
        }
    }

    fn on_timer(&mut self, Timer::Done: Timer, ctx: &mut Ctx<Self>) {
        self.turn = false;
        self.items += 1;
        match ctx.me {
            // Rule 1.
            PRODUCER => {
                ctx.rule(1);
                ctx.send(CONSUMER, Msg::Item);
            }
            // Rule 3.
            _ => {
                ctx.rule(3);
                ctx.send(PRODUCER, Msg::Ack);
            }
        }
    }

    const FACTS: bool = true;

    /// Bit 0: one of both has its turn, or one message is on its way that gives it to the other.
    fn facts(whole: &Whole<'_, Self>) -> u64 {
        let turns = whole.nodes.iter().flatten().filter(|node| node.turn).count();
        u64::from(turns + whole.messages.len() == 1)
    }
}

impl ProducerConsumer {
    fn work(&mut self, ctx: &mut Ctx<Self>) {
        self.turn = true;
        if self.items < ctx.config.rounds {
            ctx.set_timer(Timer::Done, ctx.config.work);
        }
    }
}

impl Application for ProducerConsumer {
    const NAME: &'static str = "producer-consumer";

    fn constants(setup: &Setup) -> Result<Config, Unfit> {
        let linked = |from, to| setup.topology.linked(from, to);
        if setup.n() < 2 || !linked(PRODUCER, CONSUMER) || !linked(CONSUMER, PRODUCER) {
            return Err(Unfit::new("app=producer-consumer needs nodes 0 and 1, linked both ways"));
        }
        Ok(Config { rounds: setup.option("rounds", 2)?, work: setup.delay / 2 })
    }

    const ADDS_UP: bool = true;

    fn worth(&self) -> u64 {
        u64::from(self.turn)
    }

    fn worth_of(_: &Msg) -> u64 {
        1
    }

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.turn {
            true => write!(f, "at work after {}", self.items),
            false => write!(f, "waits after {}", self.items),
        }
    }

    fn show_msg(msg: &Msg, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match msg {
            Msg::Item => "item",
            Msg::Ack => "ack",
        })
    }
}

const OPTIONS: &[Opt] = &app::options("producer-consumer");

/// By itself: no snapshot is taken of it.
pub static PLAIN: Entry<App> = consistent_cut::PLAIN
    .variant("snapshot/producer-consumer", "Producer and consumer")
    .summary("a computation in which one thing can happen at a time")
    .source("two processes that take turns; see Hoare. Communicating sequential processes. CACM 21(8), 1978")
    .text(include_str!("producer_consumer.rs"))
    .options(OPTIONS)
    .config(|setup| app::chosen(setup, "producer-consumer"))
    .claims(&[
        Check::new(2, &[Property::Conserved]),
        Check::new(3, &[Property::Conserved]).set(&[("rounds", "3")]),
    ])
    .cases(&[Case::new("one-round", &[], |given| {
        let setup = Setup::new(Topology::complete(2)).with("rounds", 1);
        vec![given.until_quiet(setup, &[])]
    })]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Effect, Time};

    use super::*;

    #[test]
    fn an_item_is_consumed_in_a_step_of_its_own_before_the_next_is_produced() {
        let setup = Setup::new(Topology::line(2)).with("rounds", 1);
        let config = ProducerConsumer::constants(&setup).expect("it makes sense");
        let step = |node: NodeId, rule: &dyn Fn(&mut ProducerConsumer, &mut Ctx<_>)| {
            let mut effects: Vec<Effect<ProducerConsumer>> = Vec::new();
            let mut ctx = Ctx::new(node, &setup.topology, &config, Time::ZERO, &mut effects);
            let mut state = ProducerConsumer { turn: false, items: u32::from(node == PRODUCER) };
            rule(&mut state, &mut ctx);
            (state.turn, effects)
        };
        let done = Effect::SetTimer { timer: Timer::Done, after: config.work };
        let received = step(CONSUMER, &|it, ctx| it.on_message(PRODUCER, Msg::Item, ctx));
        assert_eq!(received, (true, vec![done]));
        let consumed = step(CONSUMER, &|it, ctx| it.on_timer(Timer::Done, ctx));
        assert_eq!(consumed, (false, vec![Effect::Send { to: PRODUCER, msg: Msg::Ack }]));
        let acknowledged = step(PRODUCER, &|it, ctx| it.on_message(CONSUMER, Msg::Ack, ctx));
        assert_eq!(acknowledged, (true, vec![]), "there was one item to produce");
        assert!(ProducerConsumer::constants(&Setup::new(Topology::ring(3))).is_err());
    }
}
