//! Any algorithm of the catalogue behind numbers, as a protocol: what is wrapped around it is compiled
//! once, and not once for each algorithm.

#![expect(clippy::disallowed_types, reason = "all nodes of a run number their values together")]

use std::fmt;
use std::sync::{Arc, Mutex};

use conclave_algorithms::snapshot::{self, Request};
use conclave_protocol::{
    Algorithm, Client, Ctx, Effect, NodeId, Numbered, NumberedEffect, NumberedInput, Observable,
    Observation, Protocol, Reaction, Setup, Turn, Unfit,
};
use serde::{Deserialize, Serialize};

/// A node of any algorithm, with its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Any {
    state: u32,
    client: u32,
}

/// The algorithm, and what the numbers stand for.
#[derive(Clone)]
pub(crate) struct Values(Arc<Mutex<Box<dyn Numbered>>>);

impl Values {
    pub(crate) fn of(algorithm: &dyn Algorithm, setup: &Setup) -> Result<Self, Unfit> {
        let values = Mutex::new(algorithm.numbered(setup)?);
        Ok(Self(Arc::new(values)))
    }

    fn with<T>(&self, f: impl FnOnce(&mut dyn Numbered) -> T) -> T {
        f(&mut **self.0.lock().expect("no rule panics"))
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Values")
    }
}

/// A request by its number, with what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Asks(u32, Observation);

impl Observable for Asks {
    fn observation(&self) -> Observation {
        self.1
    }
}

/// What the application is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Told {
    /// What the algorithm says means this.
    Mark(Observation),
    /// It may ask these things now.
    May(Vec<Asks>),
}

impl Observable for Told {
    fn observation(&self) -> Observation {
        match self {
            Self::Mark(mark) => *mark,
            Self::May(_) => Observation::Other,
        }
    }
}

/// A message by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Message(u32);

/// A timer by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Timer(u32);

impl Protocol for Any {
    type Config = Values;
    type Request = Asks;
    type Notice = Told;
    type Msg = Message;
    type Timer = Timer;
    type Stable = u32;

    fn start(saved: Option<u32>, ctx: &mut Ctx<Self>) -> Self {
        let client = ctx.config.with(|it| it.client());
        let mut node = Self { state: 0, client };
        let turn = Turn { node: ctx.me, now: ctx.now(), topology: ctx.topology, settles: true };
        let (values, choose) = (ctx.config, &mut |n| ctx.choose(n));
        let reaction = values.with(|it| it.boot(turn, saved, client, choose));
        node.become_of(reaction, ctx);
        node
    }

    fn on_request(&mut self, Asks(request, _): Asks, ctx: &mut Ctx<Self>) {
        self.react(NumberedInput::Request(request), ctx);
    }

    fn on_message(&mut self, from: NodeId, Message(msg): Message, ctx: &mut Ctx<Self>) {
        self.react(NumberedInput::Message { from, msg }, ctx);
    }

    fn on_timer(&mut self, Timer(timer): Timer, ctx: &mut Ctx<Self>) {
        self.react(NumberedInput::Timer(timer), ctx);
    }

    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        self.react(NumberedInput::Suspect(peer), ctx);
    }

    fn on_restore(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        self.react(NumberedInput::Restore(peer), ctx);
    }

    fn on_join(&mut self, sponsor: NodeId, ctx: &mut Ctx<Self>) {
        self.react(NumberedInput::Join(sponsor), ctx);
    }

    fn on_leave(&mut self, ctx: &mut Ctx<Self>) {
        self.react(NumberedInput::Leave, ctx);
    }
}

impl Any {
    fn react(&mut self, input: NumberedInput, ctx: &mut Ctx<Self>) {
        let turn = Turn { node: ctx.me, now: ctx.now(), topology: ctx.topology, settles: true };
        let (values, choose) = (ctx.config, &mut |n| ctx.choose(n));
        let reaction = values.with(|it| it.react(turn, self.state, self.client, input, choose));
        self.become_of(reaction, ctx);
    }

    fn become_of(&mut self, reaction: Reaction, ctx: &mut Ctx<Self>) {
        let (values, Reaction { state, client, effects, .. }) = (ctx.config, reaction);
        (self.state, self.client) = (state, client);
        for effect in effects {
            ctx.emit(match effect {
                NumberedEffect::Send { to, msg } => Effect::Send { to, msg: Message(msg) },
                NumberedEffect::Broadcast(msg) => Effect::Broadcast(Message(msg)),
                NumberedEffect::Notify(mark) => Effect::Notify(Told::Mark(mark)),
                NumberedEffect::SetTimer { timer, after } => {
                    Effect::SetTimer { timer: Timer(timer), after }
                }
                NumberedEffect::CancelTimer(timer) => Effect::CancelTimer(Timer(timer)),
                NumberedEffect::Save(stable) => Effect::Save(stable),
            });
        }
        let requests = values.with(|it| it.requests(client)).into_iter();
        ctx.notify(Told::May(requests.map(|(number, mark)| Asks(number, mark)).collect()));
    }
}

/// The application of any algorithm in a snapshot: after its first request it asks for a snapshot.
#[derive(Clone, Default, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Snapper {
    may: Vec<Asks>,
    asked: bool,
    snapped: bool,
}

impl<W> Client<W> for Snapper
where
    W: Protocol<Request = Request<Asks>, Notice = snapshot::Notice<Any>>,
{
    fn requests(&self) -> impl IntoIterator<Item = Request<Asks>> {
        let snapshot = (self.asked && !self.snapped).then_some(Request::Snapshot);
        snapshot.into_iter().chain(self.may.iter().copied().map(Request::App))
    }

    fn on_request(&mut self, request: &Request<Asks>) {
        match request {
            Request::Snapshot => self.snapped = true,
            Request::App(_) => self.asked = true,
        }
    }

    fn on_notice(&mut self, notice: &snapshot::Notice<Any>) {
        if let snapshot::Notice::App(Told::May(requests)) = notice {
            self.may.clone_from(requests);
        }
    }
}
