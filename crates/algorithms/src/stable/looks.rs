//! Looking again and again: the machine of every entry of this family.

use std::fmt;
use std::time::Duration;

use conclave_protocol::{Charge, Ctx, Effect, Input, InputOf, NodeId, NodeSet, Protocol, Whole};
use serde::{Deserialize, Serialize};

use super::{Notice, Outcome, Request};
use crate::snapshot::chandy_lamport::{self, ChandyLamport};
use crate::snapshot::support::Wrapper;
use crate::snapshot::{self, GlobalState};

/// The state of a node, around an application.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Looks<P: Protocol> {
    /// The application, and the snapshots that are taken of it.
    pub snapshots: ChandyLamport<P>,
    /// Whether it looks.
    looking: bool,
    /// What it has reported.
    reported: u64,
}

/// The timers of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer<T> {
    /// It is time to look again.
    Again,
    /// One of the application.
    App(T),
}

/// What never changes.
pub struct Config<P: Protocol> {
    /// The constants of the snapshots.
    pub snapshots: chandy_lamport::Config<P>,
    /// What can be found, a bit for each thing …
    pub sought: u64,
    /// … and what of it is so.
    pub so: fn(&Whole<'_, P>) -> u64,
    /// Whether a node goes on by itself.
    pub active: fn(&P) -> bool,
    /// How long from one snapshot to the next.
    pub pause: Duration,
}

impl<P: Protocol> Clone for Config<P> {
    fn clone(&self) -> Self {
        Self { snapshots: self.snapshots.clone(), ..*self }
    }
}

impl<P: Protocol> fmt::Debug for Config<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("snapshots", &self.snapshots).finish_non_exhaustive()
    }
}

impl<P: Protocol> Protocol for Looks<P> {
    type Config = Config<P>;
    type Request = Request<P::Request>;
    type Notice = Notice<P::Notice>;
    type Msg = chandy_lamport::Msg<P>;
    type Timer = Timer<P::Timer>;
    type Stable = P::Stable;

    fn start(saved: Option<P::Stable>, ctx: &mut Ctx<Self>) -> Self {
        let (snapshots, _) = inside(ctx, |ctx| ChandyLamport::start(saved, ctx));
        Self { snapshots, looking: false, reported: 0 }
    }

    fn on_request(&mut self, request: Self::Request, ctx: &mut Ctx<Self>) {
        match request {
            // Rule 1.
            Request::Look if !self.looking => {
                ctx.rule(1);
                self.looking = true;
                self.take(ctx);
            }
            Request::Look => {}
            Request::App(request) => {
                self.go_on(Input::Request(snapshot::Request::App(request)), ctx);
            }
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Self::Msg, ctx: &mut Ctx<Self>) {
        self.go_on(Input::Message { from, msg }, ctx);
    }

    fn on_timer(&mut self, timer: Self::Timer, ctx: &mut Ctx<Self>) {
        match timer {
            Timer::Again if self.looking => self.take(ctx),
            Timer::Again => {}
            Timer::App(timer) => self.go_on(Input::Timer(timer), ctx),
        }
    }

    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        self.go_on(Input::Suspect(peer), ctx);
    }

    fn on_restore(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        self.go_on(Input::Restore(peer), ctx);
    }

    fn on_join(&mut self, sponsor: NodeId, ctx: &mut Ctx<Self>) {
        self.go_on(Input::Join(sponsor), ctx);
    }

    fn on_leave(&mut self, ctx: &mut Ctx<Self>) {
        self.go_on(Input::Leave, ctx);
    }

    fn waits_for(&self, me: NodeId, config: &Config<P>) -> NodeSet {
        self.snapshots.waits_for(me, &config.snapshots)
    }

    fn charge(msg: &Self::Msg, from: NodeId, to: NodeId) -> Charge {
        ChandyLamport::<P>::charge(msg, from, to)
    }

    fn is_app(msg: &Self::Msg) -> bool {
        ChandyLamport::<P>::is_app(msg)
    }

    const FACTS: bool = true;

    /// What is so on the states that there are and on what is on its way, whatever snapshots show.
    fn facts(whole: &Whole<'_, Self>) -> u64 {
        let carried = whole.messages.iter().filter_map(|&(from, to, msg)| {
            Some((from, to, <ChandyLamport<P> as Wrapper>::carried(msg)?))
        });
        let nodes = whole.nodes.iter().map(|node| node.map(|node| node.snapshots.app()));
        let config = whole.config;
        config.sought
            & (config.so)(&Whole {
                config: &config.snapshots.app,
                nodes: nodes.collect(),
                messages: carried.collect(),
            })
    }
}

impl<P: Protocol> Looks<P> {
    fn take(&mut self, ctx: &mut Ctx<Self>) {
        self.go_on(Input::Request(snapshot::Request::Snapshot), ctx);
    }

    /// Something happens to the application or to the snapshots of it; perhaps one is there then.
    fn go_on(&mut self, input: InputOf<ChandyLamport<P>>, ctx: &mut Ctx<Self>) {
        let snapshots = &mut self.snapshots;
        let ((), collected) = inside(ctx, |ctx| snapshots.on_input(input, ctx));
        if let Some(state) = collected.filter(|_| self.looking) {
            self.evaluate(&state, ctx);
        }
    }

    fn evaluate(&mut self, state: &GlobalState<P>, ctx: &mut Ctx<Self>) {
        // Rule 2.
        ctx.rule(2);
        let Config { sought, so, active, pause, .. } = *ctx.config;
        let shown = sought & so(&whole(state, ctx.config, ctx.n()));
        let active = state.shares.values().any(|share| active(&share.state));
        ctx.notify(Notice::Sees(state.sid, Outcome::of(shown, active)));
        let new = shown & !self.reported;
        if new != 0 {
            self.reported |= new;
            ctx.notify(Notice::Reports(new));
        }
        // Rule 3.
        ctx.rule(3);
        if self.reported != sought && !is_over(state) {
            ctx.set_timer(Timer::Again, pause);
        } else {
            self.looking = false;
            ctx.notify(Notice::Rests);
        }
    }
}

/// What was recorded, as if it were the whole system as it is.
fn whole<'a, P: Protocol>(
    state: &'a GlobalState<P>,
    config: &'a Config<P>,
    n: u32,
) -> Whole<'a, P> {
    let channels = state.shares.iter().flat_map(|(to, share)| {
        let from = share.channels.iter();
        from.flat_map(|(from, messages)| messages.iter().map(|msg| (*from, *to, msg)))
    });
    let share = |node| state.shares.get(&node).map(|share| &share.state);
    Whole {
        config: &config.snapshots.app,
        nodes: (0..n).map(NodeId).map(share).collect(),
        messages: channels.collect(),
    }
}

/// Whether nothing can happen any more: no timer runs, and nothing is on its way.
fn is_over<P: Protocol>(state: &GlobalState<P>) -> bool {
    let still = |share: &snapshot::Share<P>| {
        share.timers.is_empty() && share.channels.values().all(Vec::is_empty)
    };
    state.shares.values().all(still)
}

/// Runs a rule of the snapshots. What one of them collects is kept back, and returned.
fn inside<P: Protocol, T>(
    ctx: &mut Ctx<Looks<P>>,
    rule: impl FnOnce(&mut Ctx<ChandyLamport<P>>) -> T,
) -> (T, Option<Box<GlobalState<P>>>) {
    let config = ctx.config;
    let mut collected = None;
    let lift = |effect: Effect<ChandyLamport<P>>, ctx: &mut Ctx<Looks<P>>| match effect {
        Effect::Notify(notice) => match notice {
            snapshot::Notice::Collected(state, _) => collected = Some(state),
            snapshot::Notice::Recorded(sid) => ctx.notify(Notice::Recorded(sid)),
            snapshot::Notice::App(notice) => ctx.notify(Notice::App(notice)),
            _ => {}
        },
        Effect::Send { to, msg } => ctx.send(to, msg),
        Effect::Broadcast(msg) => ctx.broadcast(msg),
        Effect::SetTimer { timer, after } => ctx.set_timer(Timer::App(timer), after),
        Effect::CancelTimer(timer) => ctx.cancel_timer(Timer::App(timer)),
        Effect::Save(stable) => ctx.save(stable),
    };
    let result = ctx.nest(&config.snapshots, lift, rule);
    (result, collected)
}
