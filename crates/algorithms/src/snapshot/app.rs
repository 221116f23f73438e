//! The applications that snapshots are taken of, one of which is chosen by name.

use conclave_protocol::{
    Charge, Ctx, Effect, Never, NodeId, Observable, Observation, Protocol, Whole,
};
use serde::{Deserialize, Serialize};

use super::bank::{self, Bank};
use super::section::{self, Section};
use crate::mutex::ricart_agrawala::{self, RicartAgrawala};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum App {
    /// A branch of a bank.
    Bank(Bank),
    /// A user of a critical section that Ricart–Agrawala guards.
    Section(Section<RicartAgrawala>),
}

/// What never changes.
#[derive(Clone, Copy, Debug)]
pub enum Config {
    /// Of the bank.
    Bank(bank::Config),
    /// Of the critical section.
    Section(section::Config<ricart_agrawala::Config>),
}

/// What nodes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// A coin.
    Transfer(u64),
    /// A message of the lock.
    App(ricart_agrawala::Msg),
}

/// The timers of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer {
    /// It is time to send a coin.
    Pay,
    /// One of the critical section's user.
    App(section::Timer<Never>),
}

/// What a node tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Notice(section::Notice);

impl Observable for Notice {
    fn observation(&self) -> Observation {
        self.0.observation()
    }
}

impl App {
    /// What the node owns, as far as that adds up.
    pub fn worth(&self) -> u64 {
        match self {
            Self::Bank(bank) => bank.balance,
            Self::Section(_) => 0,
        }
    }

    /// What a message is worth.
    pub fn worth_of(msg: &Msg) -> u64 {
        match msg {
            Msg::Transfer(coin) => *coin,
            Msg::App(_) => 0,
        }
    }
}

impl Protocol for App {
    type Config = Config;
    type Request = Never;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Timer;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        match ctx.config {
            Config::Bank(config) => {
                Self::Bank(ctx.nest(config, of_bank, |ctx| Bank::start(None, ctx)))
            }
            Config::Section(config) => {
                Self::Section(ctx.nest(config, of_section, |ctx| Section::start(None, ctx)))
            }
        }
    }

    fn on_request(&mut self, request: Never, _: &mut Ctx<Self>) {
        match request {}
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match (self, ctx.config, msg) {
            (Self::Bank(bank), Config::Bank(config), Msg::Transfer(coin)) => {
                let msg = bank::Msg::Transfer(coin);
                ctx.nest(config, of_bank, |ctx| bank.on_message(from, msg, ctx));
            }
            (Self::Section(section), Config::Section(config), Msg::App(msg)) => {
                ctx.nest(config, of_section, |ctx| section.on_message(from, msg, ctx));
            }
            _ => {}
        }
    }

    fn on_timer(&mut self, timer: Timer, ctx: &mut Ctx<Self>) {
        match (self, ctx.config, timer) {
            (Self::Bank(bank), Config::Bank(config), Timer::Pay) => {
                ctx.nest(config, of_bank, |ctx| bank.on_timer(bank::Timer::Pay, ctx));
            }
            (Self::Section(section), Config::Section(config), Timer::App(timer)) => {
                ctx.nest(config, of_section, |ctx| section.on_timer(timer, ctx));
            }
            _ => {}
        }
    }

    fn charge(msg: &Msg, from: NodeId, to: NodeId) -> Charge {
        match msg {
            Msg::Transfer(_) => Charge::Nobody,
            Msg::App(msg) => RicartAgrawala::charge(msg, from, to),
        }
    }

    const FACTS: bool = true;

    /// Those of the bank; in a critical section nothing can get lost.
    fn facts(whole: &Whole<'_, Self>) -> u64 {
        let Config::Bank(config) = whole.config else { return 1 };
        let bank = |app: &Option<&Self>| match app {
            Some(Self::Bank(bank)) => Some(*bank),
            _ => None,
        };
        let banks: Vec<Option<Bank>> = whole.nodes.iter().map(bank).collect();
        let sent = |&(from, to, msg): &(NodeId, NodeId, &Msg)| match msg {
            Msg::Transfer(coin) => Some((from, to, bank::Msg::Transfer(*coin))),
            Msg::App(_) => None,
        };
        let sent: Vec<_> = whole.messages.iter().filter_map(sent).collect();
        Bank::facts(&Whole {
            config,
            nodes: banks.iter().map(Option::as_ref).collect(),
            messages: sent.iter().map(|(from, to, msg)| (*from, *to, msg)).collect(),
        })
    }
}

fn of_bank(effect: Effect<Bank>, ctx: &mut Ctx<App>) {
    let transfer = |bank::Msg::Transfer(coin)| Msg::Transfer(coin);
    let pay = |bank::Timer::Pay| Timer::Pay;
    ctx.emit(effect.map(transfer, |never| match never {}, pay, |never| never));
}

fn of_section(effect: Effect<Section<RicartAgrawala>>, ctx: &mut Ctx<App>) {
    ctx.emit(effect.map(Msg::App, Notice, Timer::App, |never| never));
}
