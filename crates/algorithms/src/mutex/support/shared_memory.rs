//! Shared registers, for algorithms that were made for processes with a common memory.
//!
//! The last node plays the memory, the others are the processes. A process reads a register by
//! `Read`, answered by `Value`, and writes it by `Write`, answered by `Done`; it waits for each
//! answer before it goes on, so that every access takes effect in one step of the memory: the
//! register is **atomic**. A **safe** register is weaker. It is written by `Begin` and `End`, each
//! answered, and a read that falls between the two gives any value at all.

use std::ops::Range;
use std::str::FromStr;

use conclave_protocol::{Charge, Ctx, NodeId, Protocol, Setup, Unfit};
use serde::{Deserialize, Serialize};

/// The name of a register. Truth values are 0 and 1; every register is 0 at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Register {
    /// Dijkstra: whether the process wants to enter.
    Want(NodeId),
    /// Dijkstra: whether it has got as far as the second stage.
    Stage2(NodeId),
    /// Dijkstra: whose turn it is.
    Turn,
    /// Bakery: whether the process is about to take a number.
    Choosing(NodeId),
    /// Bakery: its number, or 0.
    Number(NodeId),
    /// The latest fencing token. Only the process that may enter touches it.
    Fence,
}

/// What a process and the memory send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// What is in this register?
    Read(Register),
    /// This is.
    Value(u64),
    /// Put `value` into it, at once.
    Write {
        /// Where.
        register: Register,
        /// What.
        value: u64,
    },
    /// The value is there.
    Done,
    /// Start putting `value` into it.
    Begin {
        /// Where.
        register: Register,
        /// What.
        value: u64,
    },
    /// The register is neither the old value nor the new one.
    Begun(Register),
    /// Finish what was begun.
    End(Register),
}

impl Msg {
    /// Every access counts for the process that makes it.
    pub fn charge(&self) -> Charge {
        match self {
            Self::Read(_) | Self::Write { .. } | Self::Begin { .. } | Self::End(_) => {
                Charge::Sender
            }
            Self::Value(_) | Self::Done | Self::Begun(_) => Charge::Receiver,
        }
    }
}

/// What happens when a read meets a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registers {
    /// They cannot meet.
    Atomic,
    /// The read gives any value.
    Safe,
}

impl FromStr for Registers {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "atomic" => Ok(Self::Atomic),
            "safe" => Ok(Self::Safe),
            _ => Err("registers are atomic or safe"),
        }
    }
}

/// The state of the memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Memory {
    /// Registers that have been written to, ascending, so that equal memories are equal values.
    cells: Vec<Cell>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Cell {
    register: Register,
    value: u64,
    /// While it is being written to, the value to come.
    coming: Option<u64>,
}

impl Memory {
    /// Carries out an access.
    pub fn on_message<P: Protocol<Msg = Msg>>(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<P>) {
        let answer = match msg {
            Msg::Read(register) => Msg::Value(self.read(register, ctx)),
            Msg::Write { register, value } => {
                self.cell(register).value = value;
                Msg::Done
            }
            Msg::Begin { register, value } => {
                self.cell(register).coming = Some(value);
                Msg::Begun(register)
            }
            Msg::End(register) => {
                let cell = self.cell(register);
                cell.value = cell.coming.take().unwrap_or(cell.value);
                Msg::Done
            }
            Msg::Value(_) | Msg::Done | Msg::Begun(_) => return,
        };
        ctx.send(from, answer);
    }

    fn read<P: Protocol>(&self, register: Register, ctx: &mut Ctx<P>) -> u64 {
        let Ok(place) = self.find(register) else { return 0 };
        let Cell { value, coming, .. } = self.cells[place];
        let Some(coming) = coming else { return value };
        // Small numbers, and the two values the register could be thought to have.
        let small = match register {
            Register::Want(_) | Register::Stage2(_) | Register::Choosing(_) => 2,
            Register::Turn | Register::Number(_) | Register::Fence => 2 * ctx.n() + 1,
        };
        match ctx.choose(small + 2) {
            any if any < small => any.into(),
            any if any == small => value,
            _ => coming,
        }
    }

    fn cell(&mut self, register: Register) -> &mut Cell {
        let place = self.find(register).unwrap_or_else(|place| {
            self.cells.insert(place, Cell { register, value: 0, coming: None });
            place
        });
        &mut self.cells[place]
    }

    fn find(&self, register: Register) -> Result<usize, usize> {
        self.cells.binary_search_by_key(&register, |cell| cell.register)
    }
}

/// The node that plays the memory.
pub fn memory<P: Protocol>(ctx: &Ctx<P>) -> NodeId {
    NodeId(ctx.n() - 1)
}

/// The processes: every node but the memory.
pub fn processes<P: Protocol>(ctx: &Ctx<P>) -> Range<u32> {
    0..ctx.n() - 1
}

/// The nodes whose applications ask: all but the memory.
pub fn clients<C>(_: &C, n: u32) -> Range<u32> {
    0..n - 1
}

/// There has to be a process beside the memory.
pub fn check(setup: &Setup) -> Result<(), Unfit> {
    if setup.n() >= 2 {
        return Ok(());
    }
    Err(Unfit::new("the last node is the memory, so there have to be two nodes or more"))
}

/// Reads a register; the answer comes through [`answer`].
pub fn read<P: Protocol<Msg = Msg>>(register: Register, ctx: &mut Ctx<P>) {
    ctx.send(memory(ctx), Msg::Read(register));
}

/// Writes a register; [`answer`] tells when that is done.
pub fn write<P: Protocol<Msg = Msg>>(
    registers: Registers,
    register: Register,
    value: u64,
    ctx: &mut Ctx<P>,
) {
    let msg = match registers {
        Registers::Atomic => Msg::Write { register, value },
        Registers::Safe => Msg::Begin { register, value },
    };
    ctx.send(memory(ctx), msg);
}

/// What a process makes of a message: the value it read, or 0 when a write is done; `None` when
/// the access under way is not finished.
pub fn answer<P: Protocol<Msg = Msg>>(from: NodeId, msg: Msg, ctx: &mut Ctx<P>) -> Option<u64> {
    match msg {
        Msg::Value(value) if from == memory(ctx) => Some(value),
        Msg::Done if from == memory(ctx) => Some(0),
        Msg::Begun(register) if from == memory(ctx) => {
            ctx.send(from, Msg::End(register));
            None
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect};

    use super::*;
    use crate::mutex::bakery;

    /// The answer to the last of these accesses of p0 to the memory, p1.
    fn after(accesses: &[Msg]) -> Msg {
        let mut bench = Bench::complete(&bakery::PLAIN, 2);
        let answers = accesses.iter().flat_map(|&access| bench.at(1).message(0, access));
        match answers.last() {
            Some(Effect::Send { to: NodeId(0), msg }) => msg,
            other => panic!("every access is answered, not by {other:?}"),
        }
    }

    #[test]
    fn a_register_gives_what_was_last_written() {
        let register = Register::Turn;
        assert_eq!(after(&[Msg::Read(register)]), Msg::Value(0));
        let write = Msg::Write { register, value: 7 };
        assert_eq!(after(&[write]), Msg::Done);
        assert_eq!(after(&[write, Msg::Read(register)]), Msg::Value(7));
    }

    #[test]
    fn a_read_amid_a_write_gives_any_value_and_a_later_one_the_new() {
        let register = Register::Fence;
        let begun = [
            Msg::Write { register, value: 7 },
            Msg::Begin { register, value: 8 },
            Msg::Read(register),
        ];
        // On a bench, the first choice is made.
        assert_eq!(after(&begun), Msg::Value(0));
        let [write, begin, read] = begun;
        assert_eq!(after(&[write, begin, Msg::End(register), read]), Msg::Value(8));
    }
}
