//! What a process is, and what becomes of it when it uses an input.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use conclave_protocol::{Ctx, Effect, Effects, Input, InputOf, NodeId, Protocol, Time};
use serde::{Deserialize, Serialize};

use super::Config;
use crate::snapshot::recovery::fingerprint;

/// An input of the application, with all that its use depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Receipt<P: Protocol> {
    /// What comes in.
    pub input: InputOf<P>,
    /// Of a message: its number among those of its sender to this process. Of a timer: when it was
    /// set, counted in settings; one that has been stopped or set anew since does nothing.
    pub number: u32,
    /// What the application gets if it draws.
    pub draw: u32,
}

/// A process, but for what it waits for: this is what a checkpoint holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Process<P: Protocol> {
    /// The application.
    pub app: P,
    /// How many inputs it has used.
    pub used: u32,
    /// Its running timers.
    pub timers: Vec<Running<P::Timer>>,
    /// How many timers it has set.
    settings: u32,
    /// What it has sent to each process.
    pub sent: BTreeMap<NodeId, Outbox<P::Msg>>,
    /// How many messages of each process it has used.
    pub heard: BTreeMap<NodeId, u32>,
}

/// A running timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Running<T> {
    /// Which.
    pub timer: T,
    /// How long it was set for.
    pub after: Duration,
    /// How many settings there had been, this one included.
    pub number: u32,
}

/// What has been sent to a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Outbox<M> {
    /// How many messages.
    pub count: u32,
    /// The last of them: all that are not known to be recorded.
    pub kept: VecDeque<M>,
}

impl<M> Default for Outbox<M> {
    fn default() -> Self {
        Self { count: 0, kept: VecDeque::new() }
    }
}

impl<M> Outbox<M> {
    /// The messages that are kept, with their numbers.
    pub fn numbered(&self) -> impl Iterator<Item = (u32, &M)> {
        let first = self.count - self.kept.len() as u32 + 1;
        (first..).zip(&self.kept)
    }

    /// Messages up to this number need not be kept.
    pub fn forget(&mut self, number: u32) {
        let gone = self.numbered().take_while(|(it, _)| *it <= number).count();
        self.kept.drain(..gone);
    }
}

/// What an application does that others notice.
pub enum Deed<P: Protocol> {
    /// It sends the message of this number.
    Send(NodeId, u32, P::Msg),
    /// It tells its user something.
    Notify(P::Notice),
    /// It starts or restarts a timer.
    SetTimer(P::Timer, Duration),
    /// It stops a timer.
    CancelTimer(P::Timer),
}

/// Where an application runs, and when; and what decides where it draws.
pub struct Stage<'a, P: Protocol> {
    /// The process.
    pub me: NodeId,
    /// What never changes.
    pub config: &'a Config<P>,
    /// What its clock shows.
    pub now: Time,
    /// If what it draws is not part of an input.
    pub lots: Option<&'a mut dyn FnMut(u32) -> u32>,
    /// Whether it has looked at the clock.
    pub looked: bool,
}

impl<P: Protocol> Process<P> {
    /// A process at the beginning, and what it does then.
    pub fn boot(stage: &mut Stage<'_, P>) -> (Self, Vec<Deed<P>>) {
        let (app, effects) = stage.run(0, |ctx| P::boot(None, ctx));
        let mut process = Self {
            app,
            used: 0,
            timers: Vec::new(),
            settings: 0,
            sent: BTreeMap::new(),
            heard: BTreeMap::new(),
        };
        let deeds = process.take_down(effects, stage);
        (process, deeds)
    }

    /// The application uses an input.
    pub fn use_up(&mut self, receipt: Receipt<P>, stage: &mut Stage<'_, P>) -> Vec<Deed<P>> {
        let Receipt { input, number, draw } = receipt;
        self.used += 1;
        match input {
            Input::Message { from, .. } => {
                self.heard.insert(from, number);
            }
            Input::Timer(timer) => {
                let place =
                    self.timers.iter().position(|it| (it.timer, it.number) == (timer, number));
                let Some(place) = place else { return Vec::new() };
                self.timers.remove(place);
            }
            _ => {}
        }
        let ((), effects) = stage.run(draw, |ctx| self.app.step(input, ctx));
        self.take_down(effects, stage)
    }

    /// Numbers what is sent, and keeps running timers in mind.
    fn take_down(&mut self, effects: Vec<Effect<P>>, stage: &Stage<'_, P>) -> Vec<Deed<P>> {
        let mut deeds = Vec::new();
        for effect in effects {
            match effect {
                Effect::Send { to, msg } => deeds.push(self.send(to, msg)),
                Effect::Broadcast(msg) => {
                    let peers = stage.config.topology.nodes().filter(|peer| *peer != stage.me);
                    deeds.extend(peers.map(|peer| self.send(peer, msg.clone())));
                }
                Effect::Notify(notice) => deeds.push(Deed::Notify(notice)),
                Effect::SetTimer { timer, after } => {
                    self.timers.retain(|it| it.timer != timer);
                    self.settings += 1;
                    self.timers.push(Running { timer, after, number: self.settings });
                    deeds.push(Deed::SetTimer(timer, after));
                }
                Effect::CancelTimer(timer) => {
                    self.timers.retain(|it| it.timer != timer);
                    deeds.push(Deed::CancelTimer(timer));
                }
                // It is restored from its inputs.
                Effect::Save(_) => {}
            }
        }
        deeds
    }

    fn send(&mut self, to: NodeId, msg: P::Msg) -> Deed<P> {
        let outbox = self.sent.entry(to).or_default();
        outbox.count += 1;
        outbox.kept.push_back(msg.clone());
        Deed::Send(to, outbox.count, msg)
    }

    /// What tells its states apart: that of the application, its timers, how much it has used and
    /// sent. What it keeps of that is a matter of what others have recorded.
    pub fn state(&self) -> u64 {
        let sent: Vec<_> = self.sent.iter().map(|(to, outbox)| (to, outbox.count)).collect();
        fingerprint(&(&self.app, &self.timers, self.used, sent, &self.heard))
    }
}

impl<P: Protocol> Stage<'_, P> {
    /// Runs a rule of the application. It sees the processes, and not the recorder.
    fn run<T>(&mut self, draw: u32, rule: impl FnOnce(&mut Ctx<P>) -> T) -> (T, Vec<Effect<P>>) {
        let Config { app, topology, .. } = self.config;
        let lots = self.lots.as_mut().map(|lots| &mut **lots as &mut dyn FnMut(u32) -> u32);
        let mut noted = Noted { effects: Vec::new(), draw, lots };
        let mut ctx = Ctx::new(self.me, topology, app, self.now, &mut noted);
        let result = rule(&mut ctx);
        self.looked |= ctx.looked_at_clock();
        (result, noted.effects)
    }
}

/// Notes effects, and answers choices.
struct Noted<'a, P: Protocol> {
    effects: Vec<Effect<P>>,
    draw: u32,
    lots: Option<&'a mut (dyn FnMut(u32) -> u32 + 'a)>,
}

impl<P: Protocol> Effects<P> for Noted<'_, P> {
    fn emit(&mut self, effect: Effect<P>) {
        self.effects.push(effect);
    }

    fn choose(&mut self, n: u32) -> u32 {
        match &mut self.lots {
            Some(lots) => lots(n),
            None => self.draw % n,
        }
    }
}
