//! Heartbeats with as few messages as there are nodes: every node tells only the next on the ring
//! that it is alive, and watches only the one before. A node that suspects its predecessor tells all
//! others, and from then on the ring goes round without the suspect. A live node that hears that it
//! is suspected contradicts.
//!
//! A crashed node is watched by the nearest live node after it, or by a node in between that will be
//! found dead first; in the end its time-out passes there. A node that learns something new passes it
//! on to all, so that all live nodes come to know it although the first may crash while telling.
//! Opinions are numbered: the number says how often the node has been suspected wrongly. Of two
//! opinions the higher number counts, and of the same number the suspicion; only the node itself
//! raises its number. So opinions that overtake each other do no harm. The number is also the
//! count of mistakes that lengthens the time-out: as with `fd/heartbeat`, if delays are bounded at
//! all, the mistakes come to an end.
//!
//! # Rules
//!
//! The successor of a node is the next on the ring that it does not suspect, the predecessor the next
//! in the other direction.
//!
//! 1. On booting: send `Hello` to all; they may know more.
//! 2. Every interval: send `Beat` to the successor.
//! 3. `Beat` from the predecessor: start its time-out again. `Beat` from a suspected node: send it
//!    what we know (`Words`), so that it can contradict.
//! 4. The predecessor's time-out passes: suspect it, and send that to all.
//! 5. `Words`: for each opinion on another that outranks our own: take it. For one that suspects us:
//!    raise our number above it. Send what was new to all, and our own new number.
//! 6. `Hello`: send what we know, if anything.
//! 7. There is a new predecessor after any of these: start its time-out. A new successor: send it
//!    `Beat` at once.
//!
//! # Cost
//!
//! N messages an interval while nothing happens, instead of N(N − 1). The price is paid when something
//! does: (N − 1)² messages for a crash, since every node passes it on, about twice as many for a
//! mistake, and N(N − 1) when all boot. A crash is noticed by all one message after its successor's
//! time-out has passed. But k neighbours that crash together are found one after the other, each after
//! a time-out of its own: the last after k of them.
//!
//! # Known failures
//!
//! Suspicions can be wrong at any time, and a wrong one becomes that of all nodes. If delays grow
//! without bound, the mistakes never end. A lost message may be a suspicion or a contradiction that
//! a node then never hears of; so after a partition of the network, its parts never find each other
//! again.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocol::claims::Check;
use conclave_protocol::{
    Charge, Crashes, Ctx, Detecting, Entry, Knob, Model, Never, NodeId, Property, Protocol,
};
use serde::{Deserialize, Serialize};

use super::heartbeat::{self, Config};
use super::{COMPLETE, Notice};

/// The state of a node: its opinion of every node, itself included.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HeartbeatRing {
    /// Those that are not the [first](Opinion::FIRST).
    opinions: BTreeMap<NodeId, Opinion>,
}

/// What is thought of a node. The greater one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Opinion {
    /// How often it has been suspected wrongly.
    number: u32,
    suspected: bool,
}

impl Opinion {
    const FIRST: Self = Self { number: 0, suspected: false };
}

/// The messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// I have just booted.
    Hello,
    /// I am alive.
    Beat,
    /// This is what I think.
    Words(BTreeMap<NodeId, Opinion>),
}

/// The timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer {
    /// Time to say that we are alive.
    Beat,
    /// The predecessor, which is this node, has been silent for too long.
    Overdue(NodeId),
}

impl Protocol for HeartbeatRing {
    type Config = Config;
    type Request = Never;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Timer;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        let node = Self { opinions: BTreeMap::new() };
        // Rule 1.
        ctx.rule(1);
        ctx.broadcast(Msg::Hello);
        ctx.set_timer(Timer::Beat, Duration::ZERO);
        node.watch(node.predecessor(ctx), ctx);
        node
    }

    fn on_request(&mut self, request: Never, _: &mut Ctx<Self>) {
        match request {}
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            // Rule 6.
            Msg::Hello => {
                ctx.rule(6);
                self.tell(from, ctx);
            }
            // Rule 3.
            Msg::Beat if self.opinion(from).suspected => {
                ctx.rule(3);
                self.tell(from, ctx);
            }
            Msg::Beat => {
                if self.predecessor(ctx) == Some(from) {
                    ctx.rule(3);
                    self.watch(Some(from), ctx);
                }
            }
            // Rule 5.
            Msg::Words(words) => {
                ctx.rule(5);
                self.learn(words, ctx);
            }
        }
    }

    fn on_timer(&mut self, timer: Timer, ctx: &mut Ctx<Self>) {
        match timer {
            // Rule 2.
            Timer::Beat => {
                ctx.rule(2);
                if let Some(successor) = self.successor(ctx) {
                    ctx.send(successor, Msg::Beat);
                }
                ctx.set_timer(Timer::Beat, ctx.config.interval);
            }
            // Rule 4.
            Timer::Overdue(peer) => {
                ctx.rule(4);
                let suspicion = Opinion { suspected: true, ..self.opinion(peer) };
                self.learn(BTreeMap::from([(peer, suspicion)]), ctx);
            }
        }
    }

    fn charge(_: &Msg, _: NodeId, _: NodeId) -> Charge {
        Charge::Nobody
    }
}

impl HeartbeatRing {
    fn opinion(&self, of: NodeId) -> Opinion {
        self.opinions.get(&of).copied().unwrap_or(Opinion::FIRST)
    }

    /// What rules 3 and 6 send.
    fn tell(&self, peer: NodeId, ctx: &mut Ctx<Self>) {
        if !self.opinions.is_empty() {
            ctx.send(peer, Msg::Words(self.opinions.clone()));
        }
    }

    /// What rules 4 and 5 do with opinions, and rule 7.
    fn learn(&mut self, words: BTreeMap<NodeId, Opinion>, ctx: &mut Ctx<Self>) {
        let (predecessor, successor) = (self.predecessor(ctx), self.successor(ctx));
        let mut news = BTreeMap::new();
        for (node, mut word) in words {
            let ours = self.opinion(node);
            if word <= ours || node.0 >= ctx.n() {
                continue;
            }
            if node == ctx.me && word.suspected {
                word = Opinion { number: word.number.saturating_add(1), suspected: false };
            }
            self.opinions.insert(node, word);
            news.insert(node, word);
            match (ours.suspected, word.suspected) {
                (false, true) => ctx.notify(Notice::Suspects(node)),
                (true, false) => ctx.notify(Notice::Trusts(node)),
                _ => {}
            }
        }
        if news.is_empty() {
            return;
        }
        ctx.broadcast(Msg::Words(news));
        let now = self.predecessor(ctx);
        // Rule 7.
        if now != predecessor {
            ctx.rule(7);
            if let Some(former) = predecessor {
                ctx.cancel_timer(Timer::Overdue(former));
            }
            self.watch(now, ctx);
        }
        if let Some(now) = self.successor(ctx).filter(|_| self.successor(ctx) != successor) {
            ctx.rule(7);
            ctx.send(now, Msg::Beat);
        }
    }

    fn watch(&self, peer: Option<NodeId>, ctx: &mut Ctx<Self>) {
        let Some(peer) = peer else { return };
        let more = ctx.config.step.saturating_mul(self.opinion(peer).number);
        ctx.set_timer(Timer::Overdue(peer), ctx.config.timeout.saturating_add(more));
    }

    fn successor(&self, ctx: &Ctx<Self>) -> Option<NodeId> {
        self.nearest(ctx, |n, me, k| (me + k) % n)
    }

    fn predecessor(&self, ctx: &Ctx<Self>) -> Option<NodeId> {
        self.nearest(ctx, |n, me, k| (me + n - k) % n)
    }

    /// The first of the others, at distance 1, 2, …, that is not suspected.
    fn nearest(&self, ctx: &Ctx<Self>, at: fn(u32, u32, u32) -> u32) -> Option<NodeId> {
        let (n, me) = (ctx.n(), ctx.me.0);
        (1..n).map(|k| NodeId(at(n, me, k))).find(|&node| !self.opinion(node).suspected)
    }
}

/// Heartbeats round the ring.
pub static PLAIN: Entry<HeartbeatRing> =
    Entry::new("fd/heartbeat-ring", "Heartbeats on a ring", Config::of)
        .summary("everybody watches its predecessor and tells the others")
        .source(
            "Larrea, Arévalo, Fernández. Efficient algorithms to implement unreliable failure \
             detectors in partially synchronous systems. DISC 1999",
        )
        .text(include_str!("heartbeat_ring.rs"))
        .model(Model { crashes: Crashes::Amnesia, ..Model::RELIABLE })
        .holds(COMPLETE)
        .fails(heartbeat::PLAIN.info.fails)
        .options(heartbeat::PLAIN.info.options)
        .claims(&[
            Check::new(2, COMPLETE).crashes(1).amnesias(1).bounded(10),
            Check::new(3, COMPLETE).timely().crashes(2).amnesias(1),
            Check::new(2, &[Property::Accuracy]).fails(1),
        ])
        .deep(&[Check::new(4, COMPLETE).timely().crashes(1).amnesias(1).bounded(28)])
        .detecting(Detecting {
            // A time-out after the last beat, and a message more.
            at_most: Some(|info| Some(1.0 + info.default_number("timeout")? + 1.0)),
            messages: Some(|info, n| Some(1.0 / info.default_number("interval")? / (n - 1.0))),
            knobs: &[Knob::option("timeout", &[2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0])],
        });

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect};

    use super::*;

    #[test]
    fn a_suspicion_is_told_to_all_and_the_ring_goes_round_without_the_suspect() {
        let mut bench = Bench::complete(&PLAIN, 4);
        let word = Opinion { suspected: true, ..Opinion::FIRST };
        let told = bench.at(2).timer(Timer::Overdue(NodeId(1)));
        assert_eq!(told[0], Effect::Notify(Notice::Suspects(NodeId(1))));
        assert_eq!(told[1], Effect::Broadcast(Msg::Words([(NodeId(1), word)].into())));
        let watches = |effect: &Effect<_>| {
            matches!(effect, Effect::SetTimer { timer: Timer::Overdue(NodeId(0)), .. })
        };
        assert!(told.iter().any(watches), "{told:?}");
        assert_eq!(bench.at(2).rules(), [4, 7]);
    }

    #[test]
    fn a_suspect_that_is_alive_contradicts_with_a_higher_number() {
        let mut bench = Bench::complete(&PLAIN, 3);
        let words =
            |number, suspected| Msg::Words([(NodeId(1), Opinion { number, suspected })].into());
        let contradicted = bench.at(1).message(2, words(0, true));
        assert_eq!(contradicted, [Effect::Broadcast(words(1, false))]);
        assert_eq!(bench.at(1).rules(), [5]);
    }
}
