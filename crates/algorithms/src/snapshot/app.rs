//! The applications that snapshots are taken of, one of which is chosen by name.
//!
//! What is wrapped around an application is generic in it; the catalogue has it around [`App`], which
//! is any of them, so that each wrapper is compiled once. A further application is a file with a
//! type that is an [`Application`], a line in the list below, and lines for its options.

use std::fmt;

use conclave_protocol::{
    Charge, Ctx, Effect, Input, InputOf, Never, NodeId, Observable, Observation, Opt, Protocol,
    Setup, Unfit, Whole,
};
use serde::{Deserialize, Serialize};

use super::bank::Bank;
use super::ring::Ring;
use super::section::Section;
use crate::mutex::ricart_agrawala::RicartAgrawala;

applications! {
    Bank: Bank, "BankApp";
    Ring: Ring, "RingApp";
    Section: Section<RicartAgrawala>, "SectionApp";
}

/// What can be set: the application, and whatever one of them has to be told.
pub const OPTIONS: &[Opt] = &[
    Opt { name: "app", default: "bank", help: "what goes on: bank, ring or section" },
    Opt { name: "transfers", default: "4", help: "how many coins each branch of the bank sends" },
    Opt { name: "rounds", default: "2", help: "how often each node passes a token on, or enters" },
    Opt { name: "tokens", default: "1", help: "how many tokens go round the ring" },
];

/// A program that goes on by itself, for snapshots to be taken of it.
pub trait Application: Protocol<Request = Never, Stable = Never> {
    /// As typed after `--set app=`.
    const NAME: &'static str;

    /// Its constants in such a system, or why it cannot run there.
    fn constants(setup: &Setup) -> Result<Self::Config, Unfit>;

    /// Whether what nodes and channels hold adds up to the same at all times; then bit 0 of its
    /// [facts](Protocol::facts) says that it does.
    const ADDS_UP: bool = false;

    /// What a node owns, if that adds up.
    fn worth(&self) -> u64 {
        0
    }

    /// What a message is worth.
    fn worth_of(_: &Self::Msg) -> u64 {
        0
    }

    /// The state of a node, as a recorded global state shows it.
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }

    /// A message on its way, likewise.
    fn show_msg(msg: &Self::Msg, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(msg, f)
    }
}

/// The constants of the application that was chosen, or of the one of this name if none was.
pub fn chosen(setup: &Setup, default: &str) -> Result<Config, Unfit> {
    let name: String = setup.option("app", default.to_owned())?;
    let unknown = || {
        let (last, others) = NAMES.split_last().expect("there are some");
        Unfit::new(format!("app={name}, and there are {} and {last}", others.join(", ")))
    };
    Config::named(&name, setup).unwrap_or_else(|| Err(unknown()))
}
