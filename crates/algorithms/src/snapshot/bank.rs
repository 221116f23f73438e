//! A bank whose branches send each other coins, for snapshots to be taken of.
//!
//! Branch i owns one coin at first, and it weighs 4^i: coins that are lost, made or counted twice
//! cannot make up for each other in a sum. `--set accounts=100,50` has branches begin with so much
//! instead, and `--set pay=1>0:20@1.5` says who pays whom how much, and when in units of T.

use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::Duration;

use conclave_protocol::{Ctx, Never, NodeId, Protocol, Setup, Unfit, Whole};
use serde::{Deserialize, Serialize};

use super::app::Application;

/// More branches than this have coins too heavy to be added up.
pub const MOST_BRANCHES: u32 = 31;
/// So much of all branches of a system adds up to a number that there is.
const MOST_OWNED: u64 = 1 << 40;

/// The state of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Bank {
    /// The coins in its account, added up.
    pub balance: u64,
    /// How often it has sent coins, or wanted to.
    sent: u32,
}

/// What never changes.
#[derive(Clone, Debug)]
pub struct Config {
    /// What each branch owns at first.
    pub accounts: Arc<[u64]>,
    /// What branches pay.
    pub payments: Payments,
}

/// What branches pay.
#[derive(Clone, Debug)]
pub enum Payments {
    /// So many coins each, if it has any by then, to any other.
    Any {
        /// How many.
        transfers: u32,
        /// How long from one to the next.
        every: Duration,
    },
    /// These of each branch, by time.
    Planned(Arc<[Vec<Payment>]>),
}

/// A payment as planned. It is left out if the branch has not so much by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payment {
    /// When.
    pub at: Duration,
    /// To whom.
    pub to: NodeId,
    /// How much.
    pub amount: u64,
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
        let balance = ctx.config.accounts.get(ctx.me.index()).copied().unwrap_or(0);
        let bank = Self { balance, sent: 0 };
        bank.go_on(ctx);
        bank
    }

    fn on_request(&mut self, request: Never, _: &mut Ctx<Self>) {
        match request {}
    }

    fn on_message(&mut self, _: NodeId, Msg::Transfer(coin): Msg, _: &mut Ctx<Self>) {
        self.balance = self.balance.wrapping_add(coin);
    }

    fn on_timer(&mut self, Timer::Pay: Timer, ctx: &mut Ctx<Self>) {
        let others: Vec<NodeId> = ctx.neighbors().collect();
        let payment = match &ctx.config.payments {
            Payments::Any { .. } if self.balance == 0 || others.is_empty() => None,
            Payments::Any { .. } => {
                let to = others[ctx.choose(others.len() as u32) as usize];
                // The lightest there is.
                Some((to, 1 << (self.balance.trailing_zeros() & !1)))
            }
            Payments::Planned(plan) => {
                let planned = plan[ctx.me.index()].get(self.sent as usize);
                planned.map(|it| (it.to, it.amount)).filter(|it| it.1 <= self.balance)
            }
        };
        if let Some((to, amount)) = payment {
            self.balance -= amount;
            ctx.send(to, Msg::Transfer(amount));
        }
        self.sent = self.sent.saturating_add(1);
        self.go_on(ctx);
    }

    const FACTS: bool = true;

    /// Bit 0: accounts and channels hold every coin once.
    fn facts(whole: &Whole<'_, Self>) -> u64 {
        let accounts = whole.nodes.iter().flatten().map(|bank| bank.balance);
        let channels = whole.messages.iter().map(|(_, _, Msg::Transfer(coin))| *coin);
        let there = accounts.chain(channels).fold(0, u64::wrapping_add);
        u64::from(there == whole.config.accounts.iter().copied().fold(0, u64::wrapping_add))
    }
}

impl Bank {
    /// Sets out for the next payment, if there is one.
    fn go_on(&self, ctx: &mut Ctx<Self>) {
        match &ctx.config.payments {
            Payments::Any { transfers, every } => {
                if self.sent < *transfers && ctx.neighbors().next().is_some() {
                    ctx.set_timer(Timer::Pay, *every);
                }
            }
            Payments::Planned(plan) => {
                let own = &plan[ctx.me.index()];
                let after = |place: u32| own.get(place as usize).map(|it| it.at);
                if let Some(next) = after(self.sent) {
                    let before = self.sent.checked_sub(1).and_then(after).unwrap_or_default();
                    ctx.set_timer(Timer::Pay, next.saturating_sub(before));
                }
            }
        }
    }
}

impl Application for Bank {
    const NAME: &'static str = "bank";

    fn constants(setup: &Setup) -> Result<Config, Unfit> {
        let text: String = setup.option("accounts", String::new())?;
        let wrong = |why: String| Unfit::new(format!("accounts={text}: {why}"));
        let accounts = accounts(&text, setup.n()).map_err(wrong)?;
        let text: String = setup.option("pay", String::new())?;
        let payments = match &text[..] {
            "" => Payments::Any { transfers: setup.option("transfers", 4)?, every: setup.delay },
            text => {
                let wrong = |why: String| Unfit::new(format!("pay={text}: {why}"));
                Payments::Planned(plan(text, setup).map_err(wrong)?)
            }
        };
        Ok(Config { accounts, payments })
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

/// What each of `n` branches owns at first: a coin, or as this says for each of them.
fn accounts(text: &str, n: u32) -> Result<Arc<[u64]>, String> {
    if text.is_empty() {
        return match n {
            0..=MOST_BRANCHES => Ok((0..n).map(|branch| 1 << (2 * branch)).collect()),
            _ => Err(format!(
                "each branch has a coin four times as heavy as the one before, and there is room \
                 for {MOST_BRANCHES}; say what each owns, as in accounts=100"
            )),
        };
    }
    let amount = |word: &str| match word.trim().parse() {
        Ok(amount) if amount <= MOST_OWNED => Ok(amount),
        _ => Err(format!("{word:?} is no amount; there are 0 to {MOST_OWNED}")),
    };
    let amounts: Vec<u64> = text.split(',').map(amount).collect::<Result<_, _>>()?;
    match amounts[..] {
        [each] => Ok((0..n).map(|_| each).collect()),
        _ if amounts.len() == n as usize => Ok(amounts.into()),
        _ => Err(format!("there are {} accounts and {n} branches", amounts.len())),
    }
}

/// The payments of each branch, by time.
fn plan(text: &str, setup: &Setup) -> Result<Arc<[Vec<Payment>]>, String> {
    let mut plan = vec![Vec::new(); setup.n() as usize];
    for part in text.split(',') {
        let branch = |word: &str| {
            let branch = word.trim().parse().ok().filter(|branch| *branch < setup.n());
            branch.map(NodeId)
        };
        let read = || {
            let (from, rest) = part.split_once('>')?;
            let (to, rest) = rest.split_once(':')?;
            let (amount, at) = rest.split_once('@')?;
            let at: f64 = at.trim().parse().ok().filter(|at| (0.0..1e6).contains(at))?;
            let (amount, at) = (amount.trim().parse().ok()?, setup.delay.mul_f64(at));
            Some((branch(from)?, Payment { at, to: branch(to)?, amount }))
        };
        let (from, payment) = read().ok_or_else(|| {
            format!("{part:?} is no payment among {} branches, as 1>0:20@1.5 is one", setup.n())
        })?;
        if !setup.topology.linked(from, payment.to) {
            return Err(format!("there is no link from {from} to {}", payment.to));
        }
        plan[from.index()].push(payment);
    }
    for payments in &mut plan {
        payments.sort_by_key(|payment| payment.at);
    }
    Ok(plan.into())
}

#[cfg(test)]
mod tests {
    use conclave_protocol::{Effect, Time, Topology};

    use super::*;

    #[test]
    fn a_lost_coin_and_one_that_is_counted_twice_show() {
        let payments = Payments::Any { transfers: 0, every: Duration::ZERO };
        let config = Config { accounts: accounts("", 3).expect("few"), payments };
        let facts = |balances: [u64; 3], messages: &[u64]| {
            let banks = balances.map(|balance| Bank { balance, sent: 0 });
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

    #[test]
    fn payments_are_made_as_planned_and_a_plan_that_makes_no_sense_is_refused() {
        let setup = Setup::new(Topology::line(3)).with("accounts", 100);
        let config = Bank::constants(&setup.clone().with("pay", "1>0:20@3,1>2:90@1.5"));
        let config = config.expect("it makes sense");
        let mut effects: Vec<Effect<Bank>> = Vec::new();
        let mut ctx = Ctx::new(NodeId(1), &setup.topology, &config, Time::ZERO, &mut effects);
        let mut bank = Bank::start(None, &mut ctx);
        bank.on_timer(Timer::Pay, &mut ctx);
        bank.on_timer(Timer::Pay, &mut ctx);
        assert_eq!(bank, Bank { balance: 10, sent: 2 }, "20 more it has not got");
        let timer =
            |tenths| Effect::SetTimer { timer: Timer::Pay, after: setup.delay * tenths / 10 };
        let paid = Effect::Send { to: NodeId(2), msg: Msg::Transfer(90) };
        assert_eq!(effects, [timer(15), paid, timer(15)]);
        for (option, text, why) in [
            ("pay", "1-0:20", "is no payment"),
            ("pay", "1>3:20@1", "is no payment"),
            ("pay", "1>0:20@-1", "is no payment"),
            ("pay", "0>2:20@1", "there is no link from p0 to p2"),
            ("accounts", "100,100", "there are 2 accounts and 3 branches"),
            ("accounts", "1e3", "is no amount"),
        ] {
            let refusal = Bank::constants(&setup.clone().with(option, text));
            let refusal = refusal.expect_err("it is refused").to_string();
            assert!(refusal.contains(why) && !refusal.contains('\n'), "{refusal}");
        }
    }
}
