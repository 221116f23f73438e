//! As in a bakery: who comes in takes a number, one higher than any it sees, and the lowest number is
//! served. The processes share a memory, which here is played by the last node. Two may take the
//! same number; then the lower id goes first.
//!
//! Nobody looks at a number that is still being chosen: so if i has its number when k begins to
//! choose, k sees it and takes a higher one, and if k was choosing, i waits for the result. Hence of
//! two with numbers each knows who is first. No register has two writers, and what a read gives that
//! meets a write does not matter: whoever reads `choosing` or a number in the making reads again
//! until it is settled or would have been right either way. So the registers need only be **safe**.
//!
//! # Rules
//!
//! 1. Acquire: write `choosing[i] := true`; read every `number[x]`; write `number[i]` as one more
//!    than the highest; write `choosing[i] := false`.
//! 2. For each j in order, i among them: read `choosing[j]` until it is false; read `number[j]`
//!    until it is 0 or (`number[j]`, j) is not before (`number[i]`, i).
//! 3. Read `fence`, write it increased by one, and enter with it as the fencing token. (These two
//!    accesses are not part of the original; whoever has come this far is alone.)
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
//! register, which begins and ends, is four. Who has to wait reads again and again, without bound.
//!
//! # Known failures
//!
//! Numbers grow without bound as long as somebody has one. First come, first served counts from the
//! moment a number is taken: who asked earlier and is slow to take it may come second. A crash of a
//! process that has a number, or of the memory, stops everything.
//!
//! `mutex/bakery-no-choosing` has no `choosing`: p0 and p1 both see no number; p1 takes 1, finds
//! that p0 has none, and enters; p0 takes 1 too and, having the lower id, enters as well.

use conclave_protocol::claims::Check;
use conclave_protocol::{
    Charge, Ctx, Entry, Info, Model, Mutant, Never, NodeId, Opt, Property, Protocol,
};
use serde::{Deserialize, Serialize};

use super::shared_memory::{self, Memory, Msg, Register, Registers};
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

/// How registers behave, and which rules are spoilt.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    registers: Registers,
    /// Nobody says or asks who is choosing.
    no_choosing: bool,
}

/// The algorithm as published, with a fencing token.
pub static PLAIN: Entry<Bakery> = Entry {
    info: Info {
        id: "mutex/bakery",
        title: "Bakery",
        summary: "shared memory: take a number, the lowest is served; reads may meet writes",
        source: "Lamport. A new solution of Dijkstra's concurrent programming problem. CACM 17(8), \
                 1974",
        text: include_str!("bakery.rs"),
        model: Model::RELIABLE,
        holds: &[
            Property::Exclusion,
            Property::NoDeadlock,
            Property::NoStarvation,
            Property::FenceOrder,
        ],
        fails: &[(
            Property::FcfsHappenedBefore,
            "p1 asks and is slow to take its number; p0, having read that p1 is choosing, leaves, \
             asks again and takes one that is no higher",
        )],
        options: &[Opt {
            name: "registers",
            default: "safe",
            help: "what a read gives that meets a write: safe, anything; atomic, they do not meet",
        }],
        mutant: None,
        claims: &[
            Check::new(3, LOCK).requests(2),
            Check::new(3, &[Property::FcfsHappenedBefore]).requests(2).fails(69),
        ],
        deep: &[Check::new(4, SAFE)],
        ..Info::EMPTY
    },
    config: |setup| {
        shared_memory::check(setup)?;
        Ok(Config { registers: setup.option("registers", Registers::Safe)?, no_choosing: false })
    },
    clients: shared_memory::clients,
};

/// Nobody says that it is choosing.
pub static NO_CHOOSING: Entry<Bakery> = Entry {
    info: Info {
        id: "mutex/bakery-no-choosing",
        title: "Bakery without choosing",
        summary: "a number can appear after others have found that there is none",
        holds: &[],
        fails: &[(
            Property::Exclusion,
            "p1 takes a number and enters while p0, which has seen none, is taking the same",
        )],
        mutant: Some(Mutant {
            of: "mutex/bakery",
            defect: "nobody says, or waits for, who is choosing a number",
            breaks: Property::Exclusion,
        }),
        claims: &[Check::new(3, &[Property::Exclusion]).fails(38)],
        deep: &[],
        cases: &[],
        ..PLAIN.info
    },
    config: |setup| Ok(Config { no_choosing: true, ..(PLAIN.config)(setup)? }),
    ..PLAIN
};

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
        if ctx.config.no_choosing { Self::LOOKING } else { Self::Choosing }
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
            Self::Taking { number } if ctx.config.no_choosing => {
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
                Some(of) if ctx.config.no_choosing => Self::AwaitingNumber { of, number },
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
            Self::Choosing => write(Register::Choosing(me), 1, ctx),
            Self::Looking { of, .. } | Self::AwaitingNumber { of, .. } => {
                shared_memory::read(Register::Number(of), ctx);
            }
            Self::Taking { number } => write(Register::Number(me), number, ctx),
            Self::Chosen { .. } => write(Register::Choosing(me), 0, ctx),
            Self::AwaitingChoice { of, .. } => shared_memory::read(Register::Choosing(of), ctx),
            Self::ReadingFence => shared_memory::read(Register::Fence, ctx),
            Self::WritingFence { token } => write(Register::Fence, token, ctx),
            Self::Inside => {
                if let Self::WritingFence { token } = *self {
                    ctx.notify(Notice::Acquired { token });
                }
            }
            Self::Leaving { .. } => write(Register::Number(me), 0, ctx),
        }
        *self = next;
    }
}
