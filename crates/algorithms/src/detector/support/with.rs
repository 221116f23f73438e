//! A protocol that is told of crashes by a failure detector of the catalogue: both run on the same
//! nodes, side by side, and what the detector says calls the protocol's rules for suspicion and
//! trust.

use conclave_protocol::{Charge, Ctx, Effect, Never, NodeId, Protocol};
use serde::{Deserialize, Serialize};

use crate::detector::{Algorithm, Notice};

/// The state of a node: that of its detector, and that of the protocol that wants to know.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct With<D: Protocol, P: Protocol> {
    /// The detector.
    pub detector: D,
    /// The protocol that it serves.
    pub app: P,
}

/// The constants of both.
#[derive(Clone, Debug)]
pub struct Config<D, C> {
    /// Those of the detector.
    pub detector: D,
    /// Those of the protocol that it serves.
    pub app: C,
}

/// The messages of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg<D, M> {
    /// One of the detector.
    Detector(D),
    /// One of the protocol that it serves.
    App(M),
}

/// The timers of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer<D, T> {
    /// One of the detector.
    Detector(D),
    /// One of the protocol that it serves.
    App(T),
}

impl<D: Algorithm + Protocol<Stable = Never>, P: Protocol> Protocol for With<D, P> {
    type Config = Config<D::Config, P::Config>;
    type Request = P::Request;
    type Notice = P::Notice;
    type Msg = Msg<D::Msg, P::Msg>;
    type Timer = Timer<D::Timer, P::Timer>;
    type Stable = P::Stable;

    fn start(saved: Option<P::Stable>, ctx: &mut Ctx<Self>) -> Self {
        let mut app = inside(ctx, |ctx| P::start(saved, ctx));
        let detector = watching(&mut app, ctx, |ctx| D::start(None, ctx));
        Self { detector, app }
    }

    fn on_request(&mut self, request: P::Request, ctx: &mut Ctx<Self>) {
        inside(ctx, |ctx| self.app.on_request(request, ctx));
    }

    fn on_message(&mut self, from: NodeId, msg: Self::Msg, ctx: &mut Ctx<Self>) {
        match msg {
            Msg::Detector(msg) => {
                watching(&mut self.app, ctx, |ctx| self.detector.on_message(from, msg, ctx));
            }
            Msg::App(msg) => inside(ctx, |ctx| self.app.on_message(from, msg, ctx)),
        }
    }

    fn on_timer(&mut self, timer: Self::Timer, ctx: &mut Ctx<Self>) {
        match timer {
            Timer::Detector(timer) => {
                watching(&mut self.app, ctx, |ctx| self.detector.on_timer(timer, ctx));
            }
            Timer::App(timer) => inside(ctx, |ctx| self.app.on_timer(timer, ctx)),
        }
    }

    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        inside(ctx, |ctx| self.app.on_suspect(peer, ctx));
    }

    fn on_restore(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        inside(ctx, |ctx| self.app.on_restore(peer, ctx));
    }

    fn on_join(&mut self, sponsor: NodeId, ctx: &mut Ctx<Self>) {
        inside(ctx, |ctx| self.app.on_join(sponsor, ctx));
    }

    fn on_leave(&mut self, ctx: &mut Ctx<Self>) {
        inside(ctx, |ctx| self.app.on_leave(ctx));
    }

    fn charge(msg: &Self::Msg, from: NodeId, to: NodeId) -> Charge {
        match msg {
            Msg::Detector(msg) => D::charge(msg, from, to),
            Msg::App(msg) => P::charge(msg, from, to),
        }
    }

    fn is_app(msg: &Self::Msg) -> bool {
        match msg {
            Msg::Detector(_) => false,
            Msg::App(msg) => P::is_app(msg),
        }
    }
}

/// Runs a rule of the protocol.
fn inside<D, P, T>(ctx: &mut Ctx<With<D, P>>, rule: impl FnOnce(&mut Ctx<P>) -> T) -> T
where
    D: Algorithm + Protocol<Stable = Never>,
    P: Protocol,
{
    let config = ctx.config;
    let lift = |effect: Effect<P>, ctx: &mut Ctx<With<D, P>>| {
        ctx.emit(effect.map(Msg::App, |notice| notice, Timer::App, |stable| stable));
    };
    ctx.nest(&config.app, lift, rule)
}

/// Runs a rule of the detector, and those of the protocol for what it says.
fn watching<D, P, T>(
    app: &mut P,
    ctx: &mut Ctx<With<D, P>>,
    rule: impl FnOnce(&mut Ctx<D>) -> T,
) -> T
where
    D: Algorithm + Protocol<Stable = Never>,
    P: Protocol,
{
    let config = ctx.config;
    let lift = |effect: Effect<D>, ctx: &mut Ctx<With<D, P>>| {
        let effect = match effect {
            Effect::Notify(Notice::Suspects(peer)) => {
                return inside(ctx, |ctx| app.on_suspect(peer, ctx));
            }
            Effect::Notify(Notice::Trusts(peer)) => {
                return inside(ctx, |ctx| app.on_restore(peer, ctx));
            }
            Effect::Send { to, msg } => Effect::Send { to, msg: Msg::Detector(msg) },
            Effect::Broadcast(msg) => Effect::Broadcast(Msg::Detector(msg)),
            Effect::SetTimer { timer, after } => {
                Effect::SetTimer { timer: Timer::Detector(timer), after }
            }
            Effect::CancelTimer(timer) => Effect::CancelTimer(Timer::Detector(timer)),
            Effect::Save(never) => match never {},
        };
        ctx.emit(effect);
    };
    ctx.nest(&config.detector, lift, rule)
}
