//! The first solution for any number of processes. They share a memory, which here is played by the
//! last node. A process that wants to enter waits until it is its turn, which it takes when it finds
//! that the process whose turn it is does not want to enter; then it says that it is in the second
//! stage, and enters if it finds no other process there.
//!
//! Two processes cannot both be inside: each has said that it is in the second stage before it
//! looked at the other, so the one that looked last has seen the other. They cannot all keep each
//! other out: once the turn belongs to a process that wants to enter, no process takes it any more,
//! and all others leave the second stage and wait.
//!
//! # Rules
//!
//! Each rule is a sequence of accesses to the memory.
//!
//! 1. Acquire: write `want[i] := true`.
//! 2. Read `turn`. If it is not i: write `stage2[i] := false`, read `want[turn]` and, if that is
//!    false, write `turn := i`; repeat this rule.
//! 3. Write `stage2[i] := true`. Read `stage2[j]` of every other j; if one is true, go to rule 2.
//! 4. Read `fence`, write it increased by one, and enter with it as the fencing token. (These two
//!    accesses are not part of the original; a process that has come this far is alone.)
//! 5. Release: write `stage2[i] := false`, then `want[i] := false`.
//!
//! # Cost
//!
//! With N processes, one that is alone and whose turn it is makes N + 2 accesses to the memory
//! before it is inside and two to leave; out of turn it is four more, and the fencing token takes
//! two in any case. An access is two messages here, as the memory is a node. Under contention there
//! is no bound.
//!
//! # Known failures
//!
//! A process whose turn it is can leave and ask again between two looks of another, which then
//! always finds that it wants to enter, and waits for ever. A crash of the memory stops everything,
//! and so does that of a process whose turn it is and that wants to enter.

use conclave_protocol::claims::Check;
use conclave_protocol::{
    BoundedCounter, Charge, Ctx, Entry, Model, Never, NodeId, Property, Protocol,
};
use serde::{Deserialize, Serialize};

use super::support::shared_memory::{self, Memory, Msg, Register, Registers};
use super::{ALIKE, FREE, Notice, Request};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Dijkstra1965 {
    /// The last node.
    Memory(Memory),
    /// Any other, and the access it waits for.
    Process(Step),
}

/// Where a process is: what it is doing to the memory, unless it is inside or outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Step {
    /// Nothing, outside.
    Outside,
    /// `want[i] := true`
    Wanting,
    /// Read `turn`.
    ReadingTurn,
    /// `stage2[i] := false`
    Yielding {
        /// Whose turn it is.
        turn: NodeId,
    },
    /// Read `want[turn]`.
    ReadingWant {
        /// Whose turn it is.
        turn: NodeId,
    },
    /// `turn := i`
    TakingTurn,
    /// `stage2[i] := true`
    Claiming,
    /// Read `stage2[of]`.
    Checking {
        /// Another process.
        of: NodeId,
    },
    /// Read `fence`.
    ReadingFence,
    /// `fence := token`
    WritingFence {
        /// The new fencing token.
        token: u64,
    },
    /// Nothing, inside.
    Inside,
    /// `stage2[i] := false`, on the way out.
    LeavingStage2 {
        /// The application has asked again.
        again: bool,
    },
    /// `want[i] := false`
    Leaving {
        /// The application has asked again.
        again: bool,
    },
}

/// How fencing tokens are counted.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    wrap: BoundedCounter,
}

impl Protocol for Dijkstra1965 {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Never;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        if ctx.me == shared_memory::memory(ctx) {
            Self::Memory(Memory::default())
        } else {
            Self::Process(Step::Outside)
        }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        let Self::Process(step) = self else { return };
        match (request, *step) {
            (Request::Acquire, Step::LeavingStage2 { .. }) => {
                *step = Step::LeavingStage2 { again: true };
            }
            (Request::Acquire, Step::Leaving { .. }) => *step = Step::Leaving { again: true },
            (Request::Acquire, _) => step.go(Step::Wanting, ctx),
            (Request::Release, _) => step.go(Step::LeavingStage2 { again: false }, ctx),
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match self {
            Self::Memory(memory) => memory.on_message(from, msg, ctx),
            Self::Process(step) => {
                if let Some(value) = shared_memory::answer(from, msg, ctx)
                    && let Some(next) = step.after(value, ctx)
                {
                    step.go(next, ctx);
                }
            }
        }
    }

    fn charge(msg: &Msg, _: NodeId, _: NodeId) -> Charge {
        msg.charge()
    }
}

impl Step {
    /// What follows when the memory has answered `value`; nothing if no answer was due.
    fn after(self, value: u64, ctx: &Ctx<Dijkstra1965>) -> Option<Self> {
        let me = ctx.me;
        Some(match self {
            Self::Outside | Self::Inside => return None,
            Self::Wanting | Self::TakingTurn => Self::ReadingTurn,
            Self::ReadingTurn if value == u64::from(me.0) => Self::Claiming,
            Self::ReadingTurn => Self::Yielding { turn: NodeId(value as u32) },
            Self::Yielding { turn } => Self::ReadingWant { turn },
            Self::ReadingWant { .. } if value == 0 => Self::TakingTurn,
            Self::ReadingWant { .. } => Self::ReadingTurn,
            Self::Claiming => Self::check_from(0, ctx),
            Self::Checking { .. } if value != 0 => Self::ReadingTurn,
            Self::Checking { of } => Self::check_from(of.0 + 1, ctx),
            Self::ReadingFence => Self::WritingFence { token: ctx.config.wrap.after(value) },
            Self::WritingFence { .. } => Self::Inside,
            Self::LeavingStage2 { again } => Self::Leaving { again },
            Self::Leaving { again: true } => Self::Wanting,
            Self::Leaving { again: false } => Self::Outside,
        })
    }

    fn check_from(first: u32, ctx: &Ctx<Dijkstra1965>) -> Self {
        let mut rest = (first..shared_memory::processes(ctx).end).map(NodeId);
        match rest.find(|&of| of != ctx.me) {
            Some(of) => Self::Checking { of },
            None => Self::ReadingFence,
        }
    }

    /// Makes this the step and starts on what it does.
    fn go(&mut self, next: Self, ctx: &mut Ctx<Dijkstra1965>) {
        let me = ctx.me;
        let write = |register, value, ctx: &mut Ctx<Dijkstra1965>| {
            shared_memory::write(Registers::Atomic, register, value, ctx);
        };
        match next {
            Self::Outside => {}
            // Rule 1.
            Self::Wanting => {
                ctx.rule(1);
                write(Register::Want(me), 1, ctx);
            }
            // Rule 2.
            Self::ReadingTurn => {
                ctx.rule(2);
                shared_memory::read(Register::Turn, ctx);
            }
            Self::Yielding { .. } => {
                ctx.rule(2);
                write(Register::Stage2(me), 0, ctx);
            }
            Self::ReadingWant { turn } => {
                ctx.rule(2);
                shared_memory::read(Register::Want(turn), ctx);
            }
            Self::TakingTurn => {
                ctx.rule(2);
                write(Register::Turn, me.0.into(), ctx);
            }
            // Rule 3.
            Self::Claiming => {
                ctx.rule(3);
                write(Register::Stage2(me), 1, ctx);
            }
            Self::Checking { of } => {
                ctx.rule(3);
                shared_memory::read(Register::Stage2(of), ctx);
            }
            // Rule 4.
            Self::ReadingFence => {
                ctx.rule(4);
                shared_memory::read(Register::Fence, ctx);
            }
            Self::WritingFence { token } => {
                ctx.rule(4);
                write(Register::Fence, token, ctx);
            }
            Self::Inside => {
                if let Self::WritingFence { token } = *self {
                    ctx.rule(4);
                    ctx.notify(Notice::Acquired { token });
                }
            }
            // Rule 5.
            Self::LeavingStage2 { .. } => {
                ctx.rule(5);
                write(Register::Stage2(me), 0, ctx);
            }
            Self::Leaving { .. } => {
                ctx.rule(5);
                write(Register::Want(me), 0, ctx);
            }
        }
        *self = next;
    }
}

/// The algorithm as published, with a fencing token.
pub static PLAIN: Entry<Dijkstra1965> =
    Entry::new("mutex/dijkstra-1965", "Dijkstra 1965", |setup| {
        shared_memory::check(setup)?;
        Ok(Config { wrap: BoundedCounter::of(setup)? })
    })
    .summary("shared memory: take the turn from who does not want it, then see who else is in")
    .source("Dijkstra. Solution of a problem in concurrent programming control. CACM 8(9), 1965")
    .text(include_str!("dijkstra_1965.rs"))
    .model(Model::RELIABLE)
    .holds(FREE)
    .fails(&[
        (
            Property::NoStarvation,
            "p0 leaves and asks again between any two looks of p1, which always finds that it is \
             p0's turn and that p0 wants to enter",
        ),
        (
            Property::FcfsHappenedBefore,
            "who has just left has the turn, and enters again before those that wait",
        ),
    ])
    .options(&[BoundedCounter::OPTION])
    .clients(shared_memory::clients)
    .claims(&[
        Check::new(3, FREE).requests(2),
        Check::new(4, FREE),
        Check::new(3, &[Property::NoDeadlock]).endless().set(ALIKE),
        Check::new(3, &[Property::NoStarvation]).endless().set(ALIKE).loops(50, 26),
        Check::new(3, &[Property::FcfsHappenedBefore]).requests(2).fails(33),
    ])
    .deep(&[Check::new(4, FREE).requests(2)]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect};

    use super::*;

    #[test]
    fn a_process_takes_the_turn_only_from_one_that_does_not_want_to_enter() {
        let mut bench = Bench::complete(&PLAIN, 3);
        bench.at(1).request(Request::Acquire);
        let access = |msg| [Effect::Send { to: NodeId(2), msg }];
        assert_eq!(bench.at(1).message(2, Msg::Done), access(Msg::Read(Register::Turn)));
        // It is p0's turn, and p0 wants to enter.
        bench.at(1).message(2, Msg::Value(0));
        let wants = access(Msg::Read(Register::Want(NodeId(0))));
        assert_eq!(bench.at(1).message(2, Msg::Done), wants);
        assert_eq!(bench.at(1).message(2, Msg::Value(1)), access(Msg::Read(Register::Turn)));
        // Now it does not.
        bench.at(1).message(2, Msg::Value(0));
        bench.at(1).message(2, Msg::Done);
        let taken = access(Msg::Write { register: Register::Turn, value: 1 });
        assert_eq!(bench.at(1).message(2, Msg::Value(0)), taken);
        assert_eq!(bench.at(1).rules(), [2]);
    }
}
