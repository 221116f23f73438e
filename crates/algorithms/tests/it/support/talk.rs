//! Applications that talk to each other beside the algorithm.

use conclave_algorithms::mutex;
use conclave_protocol::{Charge, Ctx, Effect, Entry, Hosted, NodeId, Protocol};
use conclave_sim::{Outcome, RunSpec, World};
use serde::{Deserialize, Serialize};

/// Application talk that no algorithm sees: when a node asks, it tells all others.
///
/// Its messages carry causality from one request to the next outside the protocol inside.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub(crate) struct Talkative<P: Protocol>(P);

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub(crate) enum Talk<P: Protocol> {
    /// What the algorithm says.
    App(P::Msg),
    /// What the applications say.
    IHaveAsked,
}

impl<P: mutex::Algorithm> Talkative<P> {
    fn inside<R>(ctx: &mut Ctx<Self>, rule: impl FnOnce(&mut Ctx<P>) -> R) -> R {
        let lift = |effect: Effect<P>, ctx: &mut Ctx<Self>| {
            ctx.emit(effect.map(Talk::App, |n| n, |t| t, |s| s));
        };
        let config = ctx.config;
        ctx.nest(config, lift, rule)
    }
}

impl<P: mutex::Algorithm> Protocol for Talkative<P> {
    type Config = P::Config;
    type Request = P::Request;
    type Notice = P::Notice;
    type Msg = Talk<P>;
    type Timer = P::Timer;
    type Stable = P::Stable;

    fn start(saved: Option<P::Stable>, ctx: &mut Ctx<Self>) -> Self {
        Self(Self::inside(ctx, |ctx| P::start(saved, ctx)))
    }

    fn on_request(&mut self, request: P::Request, ctx: &mut Ctx<Self>) {
        Self::inside(ctx, |ctx| self.0.on_request(request, ctx));
        if request == mutex::Request::Acquire {
            ctx.broadcast(Talk::IHaveAsked);
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Talk<P>, ctx: &mut Ctx<Self>) {
        if let Talk::App(msg) = msg {
            Self::inside(ctx, |ctx| self.0.on_message(from, msg, ctx));
        }
    }

    fn on_timer(&mut self, timer: P::Timer, ctx: &mut Ctx<Self>) {
        Self::inside(ctx, |ctx| self.0.on_timer(timer, ctx));
    }

    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        Self::inside(ctx, |ctx| self.0.on_suspect(peer, ctx));
    }

    fn on_restore(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        Self::inside(ctx, |ctx| self.0.on_restore(peer, ctx));
    }

    fn on_join(&mut self, sponsor: NodeId, ctx: &mut Ctx<Self>) {
        Self::inside(ctx, |ctx| self.0.on_join(sponsor, ctx));
    }

    fn on_leave(&mut self, ctx: &mut Ctx<Self>) {
        Self::inside(ctx, |ctx| self.0.on_leave(ctx));
    }

    fn charge(_: &Talk<P>, _: NodeId, _: NodeId) -> Charge {
        Charge::Nobody
    }
}

/// Runs an algorithm whose applications talk.
pub(crate) fn talkative<P: mutex::Algorithm>(entry: &Entry<P>, spec: &RunSpec) -> Outcome {
    let config = (entry.config)(&spec.setup).expect("the algorithm fits the system");
    let host = Hosted::<Talkative<P>, mutex::Client>::new(config, spec.setup.n());
    World::new(Box::new(host), spec).finish()
}
