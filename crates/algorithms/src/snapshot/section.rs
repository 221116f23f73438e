//! An application that enters a critical section and leaves it by itself, so many times, for
//! snapshots to be taken of the lock and its users.

use std::time::Duration;

use conclave_protocol::{
    Charge, Ctx, Effect, Never, NodeId, NodeSet, Observable, Observation, Protocol, Setup, Unfit,
};
use serde::{Deserialize, Serialize};

use super::app::Application;
use crate::mutex::ricart_agrawala::{self, RicartAgrawala};
use crate::mutex::{self, Request};

/// The state of a node: that of the lock, and of its user.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Section<L: Protocol> {
    /// The lock.
    pub lock: L,
    /// How often the user will still enter.
    left: u32,
}

/// What never changes.
#[derive(Clone, Copy, Debug)]
pub struct Config<C> {
    /// The constants of the lock.
    pub lock: C,
    /// How often each user enters.
    pub rounds: u32,
    /// How long it stays outside.
    pub pause: Duration,
    /// How long it stays inside.
    pub stay: Duration,
}

/// What a node tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Notice {
    /// The user wants to enter.
    Asks,
    /// The user leaves.
    Leaves,
    /// The lock says this.
    App(mutex::Notice),
}

/// The timers of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer<T> {
    /// The user wants to enter.
    Want,
    /// The user has been inside long enough.
    Leave,
    /// One of the lock.
    App(T),
}

impl Observable for Notice {
    fn observation(&self) -> Observation {
        match self {
            Self::Asks => Observation::Asked,
            Self::Leaves => Observation::Left,
            Self::App(notice) => notice.observation(),
        }
    }
}

impl<L: mutex::Algorithm> Protocol for Section<L> {
    type Config = Config<L::Config>;
    type Request = Never;
    type Notice = Notice;
    type Msg = L::Msg;
    type Timer = Timer<L::Timer>;
    type Stable = L::Stable;

    fn start(saved: Option<L::Stable>, ctx: &mut Ctx<Self>) -> Self {
        let left = ctx.config.rounds;
        if left > 0 {
            ctx.set_timer(Timer::Want, ctx.config.pause);
        }
        Self { lock: inside(ctx, |ctx| L::start(saved, ctx)), left }
    }

    fn on_request(&mut self, request: Never, _: &mut Ctx<Self>) {
        match request {}
    }

    fn on_message(&mut self, from: NodeId, msg: L::Msg, ctx: &mut Ctx<Self>) {
        inside(ctx, |ctx| self.lock.on_message(from, msg, ctx));
    }

    fn on_timer(&mut self, timer: Self::Timer, ctx: &mut Ctx<Self>) {
        match timer {
            Timer::Want => {
                self.left = self.left.saturating_sub(1);
                ctx.notify(Notice::Asks);
                inside(ctx, |ctx| self.lock.on_request(Request::Acquire, ctx));
            }
            Timer::Leave => {
                ctx.notify(Notice::Leaves);
                inside(ctx, |ctx| self.lock.on_request(Request::Release, ctx));
                if self.left > 0 {
                    ctx.set_timer(Timer::Want, ctx.config.pause);
                }
            }
            Timer::App(timer) => inside(ctx, |ctx| self.lock.on_timer(timer, ctx)),
        }
    }

    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        inside(ctx, |ctx| self.lock.on_suspect(peer, ctx));
    }

    fn on_restore(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        inside(ctx, |ctx| self.lock.on_restore(peer, ctx));
    }

    fn on_join(&mut self, sponsor: NodeId, ctx: &mut Ctx<Self>) {
        inside(ctx, |ctx| self.lock.on_join(sponsor, ctx));
    }

    fn on_leave(&mut self, ctx: &mut Ctx<Self>) {
        inside(ctx, |ctx| self.lock.on_leave(ctx));
    }

    fn waits_for(&self, me: NodeId, config: &Self::Config) -> NodeSet {
        self.lock.waits_for(me, &config.lock)
    }

    fn charge(msg: &L::Msg, from: NodeId, to: NodeId) -> Charge {
        L::charge(msg, from, to)
    }

    fn is_app(msg: &L::Msg) -> bool {
        L::is_app(msg)
    }
}

impl Application for Section<RicartAgrawala> {
    const NAME: &'static str = "section";

    fn constants(setup: &Setup) -> Result<Self::Config, Unfit> {
        if !setup.topology.is_complete() {
            return Err(Unfit::new("app=section needs links between all nodes"));
        }
        let (rounds, pause, stay) = (setup.option("rounds", 2)?, setup.delay, setup.delay / 2);
        Ok(Config { lock: (ricart_agrawala::PLAIN.config)(setup)?, rounds, pause, stay })
    }
}

/// Runs a rule of the lock. Its user stays inside for a while when it is granted.
fn inside<L: mutex::Algorithm, T>(
    ctx: &mut Ctx<Section<L>>,
    rule: impl FnOnce(&mut Ctx<L>) -> T,
) -> T {
    let config = ctx.config;
    let lift = |effect: Effect<L>, ctx: &mut Ctx<Section<L>>| {
        let notice = match &effect {
            Effect::Notify(notice) => Some(*notice),
            _ => None,
        };
        ctx.emit(effect.map(|msg| msg, Notice::App, Timer::App, |stable| stable));
        match notice {
            Some(mutex::Notice::Acquired { .. }) => ctx.set_timer(Timer::Leave, config.stay),
            Some(mutex::Notice::Revoked) => ctx.cancel_timer(Timer::Leave),
            _ => {}
        }
    };
    ctx.nest(&config.lock, lift, rule)
}
