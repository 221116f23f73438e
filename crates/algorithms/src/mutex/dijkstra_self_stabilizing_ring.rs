//! A ring that mends itself. Each node has a register; node 0 is privileged while its predecessor's
//! register equals its own, every other node while it differs. A privileged node may enter; one that
//! has left or does not want to enter moves: node 0 counts its register up, modulo K, the others copy
//! their predecessor's. From whatever the registers held at first, in the end exactly one privilege
//! goes round for ever.
//!
//! A node here knows its predecessor's register by messages, sent on every change and from time to
//! time besides, so it acts on a copy, and so the ring really has 2N registers: each copy follows
//! the register before it as each register follows its copy. Only node 0 ever makes a new value;
//! everything else is copied along FIFO links. As K exceeds the number of other values about, node
//! 0 in time takes a value found nowhere else, and when that comes back to it, everything in between
//! has been overwritten with it: one privilege is left. For that K must exceed N if the copies start
//! empty, and 2N if they start as anything; the default is 2N + 1. Registers alone, read in
//! place, would do with K = N.
//!
//! From then on there is at most one privileged node, and none while the change that makes the next
//! one is under way, so at most one is inside; and every node has its turn.
//!
//! # Rules
//!
//! 1. Acquire: wait for the privilege; enter at once if privileged.
//! 2. `Register` from the predecessor: copy it. If privileged now: enter if waiting; if not, move.
//! 3. Release: if still privileged, move.
//! 4. To move: change the own register and send it to the successor.
//! 5. Timer: send the register again, whatever has become of the last message. If privileged, as a
//!    node may be from the beginning: enter if waiting; if not, move.
//!
//! # Cost
//!
//! Once settled, the privilege takes one message a step, N a round, whether any node wants it or
//! not; repetitions by the timer come on top. If all nodes always want to enter: one message and one
//! hop an entry. Alone, a request waits for a round at most.
//!
//! # Known failures
//!
//! Before the ring has settled there may be several privileges, and several inside. The registers
//! are small numbers used again and again, and may be wrong at first, so they cannot fence: a grant
//! carries the register, for want of better. A crash stops the ring. Order is by place, not by time.
//! `mutex/dijkstra-self-stabilizing-ring-settled` starts with one privilege, and so excludes from the
//! beginning.

use std::time::Duration;

use conclave_protocol::claims::Check;
use conclave_protocol::{
    Charge, Ctx, Entry, Links, Model, Never, NodeId, Opt, Property, Protocol, Setup, Unfit,
};
use serde::{Deserialize, Serialize};

use super::token_ring::at_least_two;
use super::{LIVE, Notice, Request};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SelfStabilizing {
    register: u32,
    /// The predecessor's register, as far as is known.
    before: Option<u32>,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Phase {
    Outside,
    Waiting,
    Inside,
}

/// The only message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// What the sender's register holds.
    Register(u32),
}

/// The only timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer {
    /// It is time to say again what the register holds.
    Resend,
}

/// How registers count and what they hold at first.
#[derive(Clone, Debug)]
pub struct Config {
    k: u32,
    /// What each register holds at first.
    registers: Vec<u32>,
    /// What each node takes its predecessor's register to be at first, if anything.
    copies: Option<Vec<u32>>,
    resend: Duration,
}

impl Config {
    fn new(setup: &Setup) -> Result<Self, Unfit> {
        at_least_two(setup)?;
        let n = setup.n();
        let k = setup.option("k", 2 * n + 1)?;
        let copies = values(setup, "copies", k)?;
        let others = if copies.is_some() { 2 * n } else { n };
        if k <= others {
            return Err(Unfit::new(format!("k={k}, but it must be more than {others}")));
        }
        let registers = values(setup, "x", k)?.unwrap_or_else(|| vec![0; n as usize]);
        Ok(Self { k, registers, copies, resend: setup.delay * 2 })
    }
}

/// One value below `k` for each node.
fn values(setup: &Setup, name: &str, k: u32) -> Result<Option<Vec<u32>>, Unfit> {
    let Some(text) = setup.optional::<String>(name)? else { return Ok(None) };
    let values: Option<Vec<u32>> = text.split(',').map(|value| value.parse().ok()).collect();
    let n = setup.n();
    let fits = |values: &Vec<u32>| values.len() == n as usize && values.iter().all(|&v| v < k);
    let refusal = || Unfit::new(format!("{name}={text} is not {n} numbers below {k}"));
    values.filter(fits).map(Some).ok_or_else(refusal)
}

impl Protocol for SelfStabilizing {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Timer;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        let register = ctx.config.registers[ctx.me.index()];
        let before = ctx.config.copies.as_ref().map(|copies| copies[ctx.me.index()]);
        let node = Self { register, before, phase: Phase::Outside };
        node.tell(ctx);
        node
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        self.phase = match request {
            // Rule 1.
            Request::Acquire => {
                ctx.rule(1);
                Phase::Waiting
            }
            // Rule 3.
            Request::Release => {
                ctx.rule(3);
                Phase::Outside
            }
        };
        self.enter_or_move_if_privileged(ctx);
    }

    /// Rule 2.
    fn on_message(&mut self, _: NodeId, Msg::Register(value): Msg, ctx: &mut Ctx<Self>) {
        ctx.rule(2);
        self.before = Some(value % ctx.config.k);
        self.enter_or_move_if_privileged(ctx);
    }

    /// Rule 5.
    fn on_timer(&mut self, Timer::Resend: Timer, ctx: &mut Ctx<Self>) {
        ctx.rule(5);
        self.tell(ctx);
        self.enter_or_move_if_privileged(ctx);
    }

    fn charge(_: &Msg, _: NodeId, _: NodeId) -> Charge {
        Charge::NextEntry
    }
}

impl SelfStabilizing {
    /// Whether the node, being `me`, may enter.
    pub fn is_privileged(&self, me: NodeId) -> bool {
        self.before.is_some_and(|before| (before == self.register) == (me == NodeId(0)))
    }

    /// What the register holds.
    pub fn register(&self) -> u32 {
        self.register
    }

    /// What the predecessor's register is taken to hold.
    pub fn before(&self) -> Option<u32> {
        self.before
    }

    fn enter_or_move_if_privileged(&mut self, ctx: &mut Ctx<Self>) {
        if !self.is_privileged(ctx.me) {
            return;
        }
        match (self.phase, self.before) {
            (Phase::Waiting, _) => {
                self.phase = Phase::Inside;
                ctx.notify(Notice::Acquired { token: self.register.into() });
            }
            // Rule 4.
            (Phase::Outside, Some(before)) => {
                ctx.rule(4);
                self.register =
                    if ctx.me == NodeId(0) { (self.register + 1) % ctx.config.k } else { before };
                self.tell(ctx);
            }
            _ => {}
        }
    }

    fn tell(&self, ctx: &mut Ctx<Self>) {
        ctx.send(ctx.successor(), Msg::Register(self.register));
        ctx.set_timer(Timer::Resend, ctx.config.resend);
    }
}

const AGAIN: (Property, &str) = (
    Property::FenceOrder,
    "a grant carries the register, which runs from 0 to K-1 and starts again",
);

const FCFS: (Property, &str) = (
    Property::FcfsHappenedBefore,
    "p3 asks and tells p1, which asks too; the privilege, at p0, comes to p1 first",
);

const VALUES: Opt = Opt { name: "k", default: "2N+1", help: "how many values a register has" };

/// What is true once there is one privilege.
const SETTLED_HOLDS: &[Property] =
    &[Property::Exclusion, Property::NoDeadlock, Property::NoStarvation];

/// Dijkstra's K-state ring, by messages.
pub static PLAIN: Entry<SelfStabilizing> = Entry::new(
    "mutex/dijkstra-self-stabilizing-ring",
    "Dijkstra's self-stabilizing ring",
    Config::new,
)
.summary("whatever the registers hold at first, in the end one privilege goes round")
.source("Dijkstra. Self-stabilizing systems in spite of distributed control. CACM 17(11), 1974")
.text(include_str!("dijkstra_self_stabilizing_ring.rs"))
.model(Model { links: Links::Ring, ..Model::FIFO })
.holds(LIVE)
.fails(&[
    (
        Property::Exclusion,
        "with x=3,1,4,1 several nodes are privileged at first, and enter together",
    ),
    AGAIN,
    FCFS,
])
.options(&[
    VALUES,
    Opt { name: "x", default: "0,0,…", help: "what the registers hold at first" },
    Opt {
        name: "copies",
        default: "nothing",
        help: "what the nodes take their predecessors' registers to hold at first",
    },
])
.claims(&[
    Check::new(3, LIVE).timers(2),
    Check::new(3, LIVE).set(&[("x", "1,2,3")]).timers(1),
    Check::new(4, &[Property::Exclusion]).set(&[("x", "3,1,4,1")]).timers(2).fails(4),
    Check::new(2, &[Property::FenceOrder]).fails(6),
    Check::new(4, &[Property::FcfsHappenedBefore]).timers(0).talking().fails(4),
])
.deep(&[Check::new(3, LIVE).set(&[("x", "1,2,3")]).timers(2)]);

/// The same, started as it will be once it has settled.
pub static SETTLED: Entry<SelfStabilizing> = PLAIN
    .variant(
        "mutex/dijkstra-self-stabilizing-ring-settled",
        "Dijkstra's self-stabilizing ring, settled",
    )
    .summary("one privilege goes round from the beginning, which excludes")
    .holds(SETTLED_HOLDS)
    .fails(&[AGAIN, FCFS])
    .options(&[VALUES])
    .claims(&[
        Check::new(3, SETTLED_HOLDS).timers(2),
        Check::new(3, SETTLED_HOLDS).requests(2).timers(1),
        Check::new(2, &[Property::FenceOrder]).fails(6),
        Check::new(4, &[Property::FcfsHappenedBefore]).timers(0).talking().fails(4),
    ])
    .deep(&[Check::new(3, SETTLED_HOLDS).timers(3)]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect};

    use super::*;

    #[test]
    fn a_privileged_node_enters_if_it_waits_and_moves_if_not() {
        let mut bench = Bench::complete(&PLAIN, 3);
        bench.at(1).request(Request::Acquire);
        let entered = bench.at(1).message(0, Msg::Register(5));
        assert_eq!(entered, [Effect::Notify(Notice::Acquired { token: 0 })]);
        assert_eq!(bench.at(1).rules(), [2]);
        let moved = Effect::Send { to: NodeId(2), msg: Msg::Register(5) };
        assert!(bench.at(1).request(Request::Release).contains(&moved));
        assert_eq!(bench.at(1).rules(), [3, 4]);
    }
}
