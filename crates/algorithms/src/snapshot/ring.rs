//! Tokens that go round a ring, for snapshots to be taken of it. Each is at a node or on its way; a
//! snapshot that has it nowhere, or twice, is wrong.

use std::fmt;
use std::time::Duration;

use conclave_protocol::family::reports::TOKEN_LOST;
use conclave_protocol::{Ctx, Never, NodeId, Opt, Protocol, Setup, Unfit, Whole};
use serde::{Deserialize, Serialize};

use super::app::Application;

/// What can be set where a token may get lost.
pub const LOSES: Opt = Opt {
    name: "loses",
    default: "1",
    help: "the node that loses the first token which it is to pass on; none if no node does",
};

/// The state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ring {
    /// How many tokens it has.
    pub tokens: u32,
    /// How often it will still pass one on.
    left: u32,
}

/// What never changes.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How many nodes, from the first on, have a token at first.
    pub tokens: u32,
    /// How often each node passes a token on.
    pub rounds: u32,
    /// How long a node keeps a token.
    pub stay: Duration,
    /// The node that loses the first token which it is to pass on, if one does.
    pub loses: Option<NodeId>,
}

/// What nodes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// A token.
    Token,
}

/// The timer of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer {
    /// It is time to pass a token on.
    Pass,
}

impl Protocol for Ring {
    type Config = Config;
    type Request = Never;
    type Notice = Never;
    type Msg = Msg;
    type Timer = Timer;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        let mut ring = Self { tokens: 0, left: ctx.config.rounds };
        if ctx.me.0 < ctx.config.tokens {
            ring.keep(ctx);
        }
        ring
    }

    fn on_request(&mut self, request: Never, _: &mut Ctx<Self>) {
        match request {}
    }

    fn on_message(&mut self, _: NodeId, Msg::Token: Msg, ctx: &mut Ctx<Self>) {
        self.keep(ctx);
    }

    fn on_timer(&mut self, Timer::Pass: Timer, ctx: &mut Ctx<Self>) {
        if self.tokens == 0 || self.left == 0 {
            return;
        }
        let lost = ctx.config.loses == Some(ctx.me) && self.left == ctx.config.rounds;
        self.left -= 1;
        self.tokens -= 1;
        if !lost {
            ctx.send(ctx.successor(), Msg::Token);
        }
        if self.tokens > 0 && self.left > 0 {
            ctx.set_timer(Timer::Pass, ctx.config.stay);
        }
    }

    const FACTS: bool = true;

    /// Bit 0: nodes and channels have as many tokens as there were at first.
    fn facts(whole: &Whole<'_, Self>) -> u64 {
        let kept: u64 = whole.nodes.iter().flatten().map(|ring| u64::from(ring.tokens)).sum();
        u64::from(kept + whole.messages.len() as u64 == u64::from(whole.config.tokens))
    }
}

impl Ring {
    fn keep(&mut self, ctx: &mut Ctx<Self>) {
        self.tokens += 1;
        if self.tokens == 1 && self.left > 0 {
            ctx.set_timer(Timer::Pass, ctx.config.stay);
        }
    }
}

impl Application for Ring {
    const NAME: &'static str = "ring";

    fn constants(setup: &Setup) -> Result<Config, Unfit> {
        let next = |node| setup.topology.linked(node, setup.topology.successor(node));
        if setup.n() < 2 || !setup.topology.nodes().all(next) {
            return Err(Unfit::new("app=ring needs a link from each node to the next"));
        }
        let tokens = setup.option("tokens", 1)?;
        if tokens > setup.n() {
            return Err(Unfit::new(format!(
                "tokens={tokens}: each of {} nodes has one at most at first",
                setup.n()
            )));
        }
        let loses: String = setup.option(LOSES.name, "none".to_owned())?;
        let node = |id: &u32| *id < setup.n();
        let loses = match loses.as_str() {
            "none" => None,
            id => match id.parse().ok().filter(node) {
                Some(id) => Some(NodeId(id)),
                None => return Err(Unfit::new(format!("loses={id}: give a node, or none"))),
            },
        };
        Ok(Config { tokens, rounds: setup.option("rounds", 2)?, stay: setup.delay / 2, loses })
    }

    fn lasting(_: &Config) -> u64 {
        TOKEN_LOST
    }

    fn stable(whole: &Whole<'_, Self>) -> u64 {
        let kept: u32 = whole.nodes.iter().flatten().map(|ring| ring.tokens).sum();
        match kept + (whole.messages.len() as u32) < whole.config.tokens {
            true => TOKEN_LOST,
            false => 0,
        }
    }

    const ADDS_UP: bool = true;

    fn worth(&self) -> u64 {
        u64::from(self.tokens)
    }

    fn worth_of(Msg::Token: &Msg) -> u64 {
        1
    }

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tokens {
            0 => f.write_str("no token"),
            1 => f.write_str("the token"),
            tokens => write!(f, "{tokens} tokens"),
        }
    }

    fn show_msg(Msg::Token: &Msg, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("token")
    }
}

#[cfg(test)]
mod tests {
    use conclave_protocol::{Effect, Time, Topology};

    use super::*;

    #[test]
    fn a_node_passes_on_what_it_has_as_often_as_it_may() {
        let config = Config { tokens: 1, rounds: 1, stay: Duration::ZERO, loses: None };
        let topology = Topology::ring(3);
        let mut effects: Vec<Effect<Ring>> = Vec::new();
        let mut ctx = Ctx::new(NodeId(0), &topology, &config, Time::ZERO, &mut effects);
        let mut ring = Ring::start(None, &mut ctx);
        ring.on_timer(Timer::Pass, &mut ctx);
        ring.on_message(NodeId(2), Msg::Token, &mut ctx);
        assert_eq!(ring, Ring { tokens: 1, left: 0 });
        let sent = Effect::Send { to: NodeId(1), msg: Msg::Token };
        let timer = Effect::SetTimer { timer: Timer::Pass, after: Duration::ZERO };
        assert_eq!(effects, [timer, sent]);
    }
}
