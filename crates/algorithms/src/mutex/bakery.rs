//! As in a bakery, a process that wants to enter takes a number, one higher than any it sees, and the
//! process with the lowest number is served. The processes share a memory, which here is played by
//! the last node. Two may take the same number; then the lower id goes first.
//!
//! A process does not look at a number that is still being chosen: so if i has its number when k
//! begins to choose, k sees it and takes a higher one, and if k was choosing, i waits for the result.
//! Hence of two with numbers each knows which is first. No register has two writers, and what a read
//! gives that meets a write does not matter: a process that reads `choosing` or a number in the
//! making reads again until it is settled or would have been right either way. So the registers need
//! only be **safe**.
//!
//! # Rules
//!
//! 1. Acquire: write `choosing[i] := true`; read every `number[x]`; write `number[i]` as one more
//!    than the highest; write `choosing[i] := false`.
//! 2. For each j in order, i among them: read `choosing[j]` until it is false; read `number[j]`
//!    until it is 0 or (`number[j]`, j) is not before (`number[i]`, i).
//! 3. Read `fence`, write it increased by one, and enter with it as the fencing token. (These two
//!    accesses are not part of the original; a process that has come this far is alone.)
//! 4. Release: write `number[i] := 0`.
//!
//! The option `registers` says what a read gives that meets a write: `safe`, anything; `atomic`,
//! they do not meet.
//!
//! # Cost
//!
//! With N processes, and nothing read twice: N reads to choose a number and 2N to wait, three
//! writes to enter and one to leave. The fencing token takes a read and a write more. As the memory
//! is a node, a read is two messages, and so is a write to an atomic register; one to a safe
//! register, which begins and ends, is four. A process that has to wait reads again and again,
//! without bound.
//!
//! # Known failures
//!
//! Numbers grow without bound as long as some process has one. First come, first served counts from
//! the moment a number is taken: a process that asked earlier and is slow to take its number may come
//! second. A crash of a process that has a number, or of the memory, stops all others.
//!
//! `mutex/bakery-no-choosing` has no `choosing`: p0 and p1 both see no number; p1 takes 1, finds
//! that p0 has none, and enters; p0 takes 1 too and, having the lower id, enters as well.

use conclave_protocol::claims::Check;
use conclave_protocol::{Charge, Ctx, Entry, Model, Never, NodeId, Opt, Property, Protocol};
use serde::{Deserialize, Serialize};

use super::support::shared_memory::{self, Memory, Msg, Register, Registers};
use super::{LOCK, Notice, Request, SAFE};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Bakery {
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
    /// `choosing[i] := true`
    Choosing,
    /// Read `number[of]`, in the doorway.
    Looking {
        /// A process.
        of: NodeId,
        /// The highest number so far.
        highest: u64,
    },
    /// `number[i] := number`
    Taking {
        /// This process's number.
        number: u64,
    },
    /// `choosing[i] := false`
    Chosen {
        /// This process's number.
        number: u64,
    },
    /// Read `choosing[of]` until it is false.
    AwaitingChoice {
        /// A process.
        of: NodeId,
        /// This process's number.
        number: u64,
    },
    /// Read `number[of]` until it is not before this process's.
    AwaitingNumber {
        /// A process.
        of: NodeId,
        /// This process's number.
        number: u64,
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
    /// `number[i] := 0`
    Leaving {
        /// The application has asked again.
        again: bool,
    },
}

/// How registers behave, and what is wrong in a mutant.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    registers: Registers,
    mutation: Option<Mutation>,
}

/// What is wrong in a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutation {
    /// Rules 1 and 2 neither say nor ask which processes are choosing.
    NoChoosing,
}

impl Config {
    fn is(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }
}

impl Protocol for Bakery {
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
            (Request::Acquire, Step::Leaving { .. }) => *step = Step::Leaving { again: true },
            (Request::Acquire, _) => step.go(Step::first(ctx), ctx),
            (Request::Release, _) => step.go(Step::Leaving { again: false }, ctx),
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
    const LOOKING: Self = Self::Looking { of: NodeId(0), highest: 0 };

    fn first(ctx: &Ctx<Bakery>) -> Self {
        if ctx.config.is(Mutation::NoChoosing) { Self::LOOKING } else { Self::Choosing }
    }

    /// What follows when the memory has answered `value`; nothing if no answer was due.
    fn after(self, value: u64, ctx: &Ctx<Bakery>) -> Option<Self> {
        let next = |of: NodeId| Some(NodeId(of.0 + 1)).filter(|of| of.0 + 1 < ctx.n());
        Some(match self {
            Self::Outside | Self::Inside => return None,
            Self::Choosing => Self::LOOKING,
            Self::Looking { of, highest } => {
                let highest = highest.max(value);
                match next(of) {
                    Some(of) => Self::Looking { of, highest },
                    None => Self::Taking { number: highest + 1 },
                }
            }
            Self::Taking { number } if ctx.config.is(Mutation::NoChoosing) => {
                Self::AwaitingNumber { of: NodeId(0), number }
            }
            Self::Taking { number } => Self::Chosen { number },
            Self::Chosen { number } => Self::AwaitingChoice { of: NodeId(0), number },
            Self::AwaitingChoice { .. } if value != 0 => self,
            Self::AwaitingChoice { of, number } => Self::AwaitingNumber { of, number },
            Self::AwaitingNumber { of, number } if value != 0 && (value, of) < (number, ctx.me) => {
                self
            }
            Self::AwaitingNumber { of, number } => match next(of) {
                Some(of) if ctx.config.is(Mutation::NoChoosing) => {
                    Self::AwaitingNumber { of, number }
                }
                Some(of) => Self::AwaitingChoice { of, number },
                None => Self::ReadingFence,
            },
            Self::ReadingFence => Self::WritingFence { token: value + 1 },
            Self::WritingFence { .. } => Self::Inside,
            Self::Leaving { again: true } => Self::first(ctx),
            Self::Leaving { again: false } => Self::Outside,
        })
    }

    /// Makes this the step and starts on what it does.
    fn go(&mut self, next: Self, ctx: &mut Ctx<Bakery>) {
        let (me, registers) = (ctx.me, ctx.config.registers);
        let write = |register, value, ctx: &mut Ctx<Bakery>| {
            shared_memory::write(registers, register, value, ctx);
        };
        match next {
            Self::Outside => {}
            // Rule 1.
            Self::Choosing => {
                ctx.rule(1);
                write(Register::Choosing(me), 1, ctx);
            }
            Self::Looking { of, .. } => {
                ctx.rule(1);
                shared_memory::read(Register::Number(of), ctx);
            }
            Self::Taking { number } => {
                ctx.rule(1);
                write(Register::Number(me), number, ctx);
            }
            Self::Chosen { .. } => {
                ctx.rule(1);
                write(Register::Choosing(me), 0, ctx);
            }
            // Rule 2.
            Self::AwaitingChoice { of, .. } => {
                ctx.rule(2);
                shared_memory::read(Register::Choosing(of), ctx);
            }
            Self::AwaitingNumber { of, .. } => {
                ctx.rule(2);
                shared_memory::read(Register::Number(of), ctx);
            }
            // Rule 3.
            Self::ReadingFence => {
                ctx.rule(3);
                shared_memory::read(Register::Fence, ctx);
            }
            Self::WritingFence { token } => {
                ctx.rule(3);
                write(Register::Fence, token, ctx);
            }
            Self::Inside => {
                if let Self::WritingFence { token } = *self {
                    ctx.rule(3);
                    ctx.notify(Notice::Acquired { token });
                }
            }
            // Rule 4.
            Self::Leaving { .. } => {
                ctx.rule(4);
                write(Register::Number(me), 0, ctx);
            }
        }
        *self = next;
    }
}

/// The algorithm as published, with a fencing token.
pub static PLAIN: Entry<Bakery> = Entry::new("mutex/bakery", "Bakery", |setup| {
    shared_memory::check(setup)?;
    Ok(Config { registers: setup.option("registers", Registers::Safe)?, mutation: None })
})
.summary("shared memory: take a number, the lowest is served; reads may meet writes")
.source("Lamport. A new solution of Dijkstra's concurrent programming problem. CACM 17(8), 1974")
.text(include_str!("bakery.rs"))
.model(Model::RELIABLE)
.holds(LOCK)
.fails(&[(
    Property::FcfsHappenedBefore,
    "p1 asks and is slow to take its number; p0, having read that p1 is choosing, leaves, asks \
     again and takes one that is no higher",
)])
.options(&[Opt {
    name: "registers",
    default: "safe",
    help: "what a read gives that meets a write: safe, anything; atomic, they do not meet",
}])
.clients(shared_memory::clients)
.claims(&[
    Check::new(3, LOCK).requests(2),
    Check::new(3, &[Property::FcfsHappenedBefore]).requests(2).fails(69),
])
.deep(&[Check::new(4, SAFE)]);

/// No process says that it is choosing.
pub static NO_CHOOSING: Entry<Bakery> = PLAIN
    .variant("mutex/bakery-no-choosing", "Bakery without choosing")
    .summary("a number can appear after others have found that there is none")
    .fails(&[(
        Property::Exclusion,
        "p1 takes a number and enters while p0, which has seen none, is taking the same",
    )])
    .mutant(
        "mutex/bakery",
        "no node says that it is choosing a number, or waits for one that is",
        Property::Exclusion,
    )
    .config(|setup| Ok(Config { mutation: Some(Mutation::NoChoosing), ..(PLAIN.config)(setup)? }))
    .claims(&[Check::new(3, &[Property::Exclusion]).fails(38)]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect, Setup, Topology};

    use super::*;

    #[test]
    fn a_process_waits_for_a_lower_number_until_it_is_given_up() {
        let setup = Setup::new(Topology::complete(3)).with("registers", "atomic");
        let mut bench = Bench::new(&PLAIN, &setup);
        bench.at(1).request(Request::Acquire);
        // p0 has number 1, so p1 takes 2, and has stopped choosing.
        for answer in [Msg::Done, Msg::Value(1), Msg::Value(0), Msg::Done, Msg::Done] {
            bench.at(1).message(2, answer);
        }
        let read = |register| [Effect::Send { to: NodeId(2), msg: Msg::Read(register) }];
        let number = Register::Number(NodeId(0));
        assert_eq!(bench.at(1).message(2, Msg::Value(0)), read(number), "p0 is not choosing");
        assert_eq!(bench.at(1).message(2, Msg::Value(1)), read(number), "it has the lower number");
        assert_eq!(bench.at(1).rules(), [2]);
        let next = read(Register::Choosing(NodeId(1)));
        assert_eq!(bench.at(1).message(2, Msg::Value(0)), next);
    }
}
