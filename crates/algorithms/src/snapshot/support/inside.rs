//! An application inside a wrapper.

use std::time::Duration;

use conclave_protocol::family::snapshot::OWNS;
use conclave_protocol::{Ctx, Effect, Input, InputOf, Observable, Observation, Protocol};
use serde::{Deserialize, Serialize};

use crate::snapshot::{Share, Sid};

/// An application inside a wrapper. Which timers run is known to drivers and not to the application,
/// so it is kept here: a snapshot has to have them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Inside<P: Protocol> {
    /// The state of the application.
    pub state: P,
    /// Its running timers, each with how long it was set for, in the order in which they were set.
    pub timers: Vec<(P::Timer, Duration)>,
}

impl<P: Protocol> Inside<P> {
    /// The application boots; `lift` makes the wrapper's effects of its own. What the node owns is
    /// for the wrapper to say.
    pub fn start<W: Protocol>(
        saved: Option<P::Stable>,
        config: &P::Config,
        ctx: &mut Ctx<W>,
        mut lift: impl FnMut(Effect<P>, &mut Ctx<W>),
    ) -> Self {
        let owns = |notice: &P::Notice| match notice.observation() {
            Observation::Note(note) => note.kind == OWNS,
            _ => false,
        };
        let lift = |effect: Effect<P>, ctx: &mut Ctx<W>| match &effect {
            Effect::Notify(notice) if owns(notice) => {}
            _ => lift(effect, ctx),
        };
        let mut timers = Vec::new();
        let state = nested(&mut timers, config, ctx, lift, |ctx| P::start(saved, ctx));
        Self { state, timers }
    }

    /// Something happens to the application.
    pub fn on_input<W: Protocol>(
        &mut self,
        input: InputOf<P>,
        config: &P::Config,
        ctx: &mut Ctx<W>,
        lift: impl FnMut(Effect<P>, &mut Ctx<W>),
    ) {
        let Self { state, timers } = self;
        if let Input::Timer(timer) = &input {
            timers.retain(|(running, _)| running != timer);
        }
        nested(timers, config, ctx, lift, |ctx| state.on_input(input, ctx));
    }

    /// The node's part of a snapshot, as far as it is known when the node records: nothing is known
    /// of channels yet.
    pub fn share(&self, sid: Sid) -> Share<P> {
        let Self { state, timers } = self.clone();
        Share { sid, state, timers, channels: std::collections::BTreeMap::new() }
    }
}

/// Runs a rule of the application, and keeps its running timers in mind.
fn nested<P: Protocol, W: Protocol, T>(
    timers: &mut Vec<(P::Timer, Duration)>,
    config: &P::Config,
    ctx: &mut Ctx<W>,
    mut lift: impl FnMut(Effect<P>, &mut Ctx<W>),
    rule: impl FnOnce(&mut Ctx<P>) -> T,
) -> T {
    let lift = |effect: Effect<P>, ctx: &mut Ctx<W>| {
        match &effect {
            Effect::SetTimer { timer, after } => {
                timers.retain(|(running, _)| running != timer);
                timers.push((*timer, *after));
            }
            Effect::CancelTimer(timer) => timers.retain(|(running, _)| running != timer),
            _ => {}
        }
        lift(effect, ctx);
    };
    ctx.nest(config, lift, rule)
}
