//! A bank whose branches send each other coins, for snapshots to be taken of.
//!
//! Branch i owns one coin at first, and it weighs 4^i: coins that are lost, made or counted twice
//! cannot make up for each other in a sum.

use std::fmt::{self, Display};
use std::time::Duration;

use conclave_protocol::{Ctx, Never, NodeId, Protocol, Setup, Unfit, Whole};
use serde::{Deserialize, Serialize};

use super::app::Application;

/// More branches than this have coins too heavy to be added up.
pub const MOST_BRANCHES: u32 = 31;

/// The state of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Bank {
    /// The coins in its account, added up.
    pub balance: u64,
    /// How many more coins it will send.
    left: u32,
}

/// What never changes.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How many coins each branch sends, if it has any by then.
    pub transfers: u32,
    /// How long from one to the next.
    pub every: Duration,
}

/// What branches send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// A coin of this weight.
    Transfer(u64),
}

/// The timer of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer {
    /// It is time to send a coin.
    Pay,
}

impl Protocol for Bank {
    type Config = Config;
    type Request = Never;
    type Notice = Never;
    type Msg = Msg;
    type Timer = Timer;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        let left = ctx.config.transfers;
        if left > 0 && ctx.neighbors().next().is_some() {
            ctx.set_timer(Timer::Pay, ctx.config.every);
        }
        Self { balance: coin(ctx.me), left }
    }

    fn on_request(&mut self, request: Never, _: &mut Ctx<Self>) {
        match request {}
    }

    fn on_message(&mut self, _: NodeId, Msg::Transfer(coin): Msg, _: &mut Ctx<Self>) {
        self.balance = self.balance.wrapping_add(coin);
    }

    fn on_timer(&mut self, Timer::Pay: Timer, ctx: &mut Ctx<Self>) {
        self.left = self.left.saturating_sub(1);
        let others: Vec<NodeId> = ctx.neighbors().collect();
        if self.balance > 0 && !others.is_empty() {
            // The lightest there is.
            let coin = 1 << (self.balance.trailing_zeros() & !1);
            let to = others[ctx.choose(others.len() as u32) as usize];
            self.balance -= coin;
            ctx.send(to, Msg::Transfer(coin));
        }
        if self.left > 0 {
            ctx.set_timer(Timer::Pay, ctx.config.every);
        }
    }

    const FACTS: bool = true;

    /// Bit 0: accounts and channels hold every coin once.
    fn facts(whole: &Whole<'_, Self>) -> u64 {
        let accounts = whole.nodes.iter().flatten().map(|bank| bank.balance);
        let channels = whole.messages.iter().map(|(_, _, Msg::Transfer(coin))| *coin);
        let there = accounts.chain(channels).fold(0, u64::wrapping_add);
        let branches = (0..whole.nodes.len() as u32).map(NodeId);
        u64::from(there == branches.map(coin).fold(0, u64::wrapping_add))
    }
}

impl Application for Bank {
    const NAME: &'static str = "bank";

    fn constants(setup: &Setup) -> Result<Config, Unfit> {
        if setup.n() > MOST_BRANCHES {
            return Err(Unfit::new(format!(
                "each branch has a coin four times as heavy as the one before, and there is room \
                 for {MOST_BRANCHES}"
            )));
        }
        Ok(Config { transfers: setup.option("transfers", 4)?, every: setup.delay })
    }

    const ADDS_UP: bool = true;

    fn worth(&self) -> u64 {
        self.balance
    }

    fn worth_of(Msg::Transfer(coin): &Msg) -> u64 {
        *coin
    }

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.balance.fmt(f)
    }

    fn show_msg(Msg::Transfer(coin): &Msg, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        coin.fmt(f)
    }
}

/// The coin that a branch owns at first.
fn coin(NodeId(branch): NodeId) -> u64 {
    1_u64.checked_shl(2 * branch).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_coin_and_one_that_is_counted_twice_show() {
        let config = Config { transfers: 0, every: Duration::ZERO };
        let facts = |balances: [u64; 3], messages: &[u64]| {
            let banks = balances.map(|balance| Bank { balance, left: 0 });
            let sent: Vec<Msg> = messages.iter().map(|coin| Msg::Transfer(*coin)).collect();
            Bank::facts(&Whole {
                config: &config,
                nodes: banks.iter().map(Some).collect(),
                messages: sent.iter().map(|msg| (NodeId(0), NodeId(1), msg)).collect(),
            })
        };
        assert_eq!(facts([1, 4, 16], &[]), 1);
        assert_eq!(facts([0, 5, 0], &[16]), 1);
        assert_eq!(facts([0, 5, 0], &[]), 0, "a coin is lost");
        assert_eq!(facts([1, 5, 16], &[]), 0, "a coin is there twice");
    }
}
