//! A work that spreads from node to node and comes to an end: who has some of it does it, hands parts
//! of it on, and is passive when nothing of it is left, until a message brings more.
//!
//! However it spreads, it takes exactly as many messages as there was work at first.

use std::fmt;
use std::time::Duration;

use conclave_protocol::family::reports::TERMINATED;
use conclave_protocol::{Ctx, Never, NodeId, Opt, Protocol, Setup, Unfit, Whole};
use serde::{Deserialize, Serialize};

use super::app::Application;
use crate::termination::{self, Work};

/// What can be set.
pub const WORK: Opt =
    Opt { name: "work", default: "8", help: "how many messages the work takes in all" };
/// Likewise.
pub const BUSY: Opt = Opt {
    name: "busy",
    default: "1",
    help: "how many nodes, from the first on, are active at first; or all",
};

/// The state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Diffusing {
    /// Whether it is at work.
    pub active: bool,
    /// How many messages its part of the work will still take.
    left: u32,
}

/// What never changes.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How many messages the work takes in all.
    pub work: u32,
    /// How many nodes, from the first on, are active at first.
    pub busy: u32,
    /// How long a node works before it hands something on, or is done.
    pub every: Duration,
}

/// What nodes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// A part of the work, which will take so many further messages.
    Work(u32),
}

/// The timer of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer {
    /// It has worked for a while.
    Done,
}

impl Protocol for Diffusing {
    type Config = Config;
    type Request = Never;
    type Notice = Never;
    type Msg = Msg;
    type Timer = Timer;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        let Config { work, busy, .. } = *ctx.config;
        let mut diffusing = Self { active: false, left: 0 };
        if ctx.me.0 < busy {
            // As equal as it goes, the first having more.
            let share = work / busy + u32::from(ctx.me.0 < work % busy);
            diffusing.take(share, ctx);
        }
        diffusing
    }

    fn on_request(&mut self, request: Never, _: &mut Ctx<Self>) {
        match request {}
    }

    fn on_message(&mut self, _: NodeId, Msg::Work(part): Msg, ctx: &mut Ctx<Self>) {
        self.take(part, ctx);
    }

    fn on_timer(&mut self, Timer::Done: Timer, ctx: &mut Ctx<Self>) {
        let others: Vec<NodeId> = ctx.neighbors().collect();
        if self.left > 0 && !others.is_empty() {
            let to = others[ctx.choose(others.len() as u32) as usize];
            // The message itself is one.
            self.left -= 1;
            let part = ctx.choose(self.left + 1);
            self.left -= part;
            ctx.send(to, Msg::Work(part));
            // There is little left to do when everything is handed on.
            let every = ctx.config.every;
            ctx.set_timer(Timer::Done, if self.left > 0 { every } else { every / 10 });
        } else {
            self.active = false;
        }
    }
}

impl Diffusing {
    fn take(&mut self, part: u32, ctx: &mut Ctx<Self>) {
        self.left = self.left.saturating_add(part);
        if !self.active {
            self.active = true;
            ctx.set_timer(Timer::Done, ctx.config.every);
        }
    }
}

impl Work for Diffusing {
    fn is_passive(&self) -> bool {
        !self.active
    }
}

impl Application for Diffusing {
    const NAME: &'static str = "diffusing";

    fn constants(setup: &Setup) -> Result<Config, Unfit> {
        let busy: String = setup.option(BUSY.name, BUSY.default.to_owned())?;
        let work = setup.option(WORK.name, 8)?;
        let busy = if busy == "all" { setup.n() } else { setup.option(BUSY.name, 1)? };
        if busy == 0 || busy > setup.n() {
            let n = setup.n();
            return Err(Unfit::new(format!("busy={busy}: of {n} nodes, 1 to {n} may be active")));
        }
        Ok(Config { work, busy, every: setup.delay / 2 })
    }

    fn lasting(_: &Config) -> u64 {
        TERMINATED
    }

    fn stable(whole: &Whole<'_, Self>) -> u64 {
        let messages = whole.messages.iter().map(|(.., msg)| *msg);
        termination::facts(whole.nodes.iter().flatten().copied(), messages)
    }

    fn is_active(&self) -> bool {
        self.active
    }

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.active, self.left) {
            (false, _) => f.write_str("passive"),
            (true, left) => write!(f, "active ({left} to send)"),
        }
    }

    fn show_msg(Msg::Work(part): &Msg, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "work ({part} to send)")
    }
}

#[cfg(test)]
mod tests {
    use conclave_protocol::{Effect, Effects, Time, Topology};

    use super::*;

    /// Chooses the highest there is.
    struct Highest(Vec<Effect<Diffusing>>);

    impl Effects<Diffusing> for Highest {
        fn emit(&mut self, effect: Effect<Diffusing>) {
            self.0.push(effect);
        }

        fn choose(&mut self, n: u32) -> u32 {
            n - 1
        }
    }

    #[test]
    fn who_has_handed_on_everything_is_soon_passive_until_there_is_more() {
        let config = Config { work: 3, busy: 1, every: Duration::ZERO };
        let topology = Topology::complete(3);
        let mut effects = Highest(Vec::new());
        let mut ctx = Ctx::new(NodeId(0), &topology, &config, Time::ZERO, &mut effects);
        let mut node = Diffusing::start(None, &mut ctx);
        assert_eq!(node, Diffusing { active: true, left: 3 });
        node.on_timer(Timer::Done, &mut ctx);
        assert_eq!(node, Diffusing { active: true, left: 0 });
        node.on_timer(Timer::Done, &mut ctx);
        assert!(node.is_passive());
        node.on_message(NodeId(1), Msg::Work(0), &mut ctx);
        assert_eq!(node, Diffusing { active: true, left: 0 });
        let timer = Effect::SetTimer { timer: Timer::Done, after: Duration::ZERO };
        let sent = Effect::Send { to: NodeId(2), msg: Msg::Work(2) };
        assert_eq!(effects.0, [timer.clone(), sent, timer.clone(), timer]);
    }
}
