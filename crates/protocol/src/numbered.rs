//! The values of an algorithm behind numbers, for a driver that looks at many states at once.
//!
//! Equal values have equal numbers, so a driver compares and hashes numbers instead of states.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use crate::{
    Charge, Client, Ctx, Effect, Effects, InputOf, NodeId, NumberedInput, Observable, Observation,
    Protocol, Ran, Turn, Value, Whole, label, labels, renamed,
};

/// What kind of value a number stands for; each kind has numbers of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The state of a node.
    State,
    /// The state of an application.
    Client,
    /// A message.
    Message,
    /// A timer.
    Timer,
    /// A request.
    Request,
    /// What a node saves.
    Stable,
}

/// Something that a rule asks for, as [`Effect`] with numbers for values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NumberedEffect {
    /// Send a message to another node.
    Send {
        /// The receiver.
        to: NodeId,
        /// What it gets.
        msg: u32,
    },
    /// Send a message to every other node.
    Broadcast(u32),
    /// The local application has been told something that means this.
    Notify(Observation),
    /// Start or restart a timer.
    SetTimer {
        /// Which.
        timer: u32,
        /// How long from now.
        after: Duration,
    },
    /// Stop a timer.
    CancelTimer(u32),
    /// Write to stable storage.
    Save(u32),
}

/// What comes of a step.
#[derive(Clone, Debug)]
pub struct Reaction {
    /// The state of the node.
    pub state: u32,
    /// That of its application.
    pub client: u32,
    /// What the rule asked for, in this order.
    pub effects: Vec<NumberedEffect>,
    /// What ran.
    pub ran: Ran,
}

/// An algorithm and its applications, as functions of numbers.
pub trait Numbered: Send {
    /// An application at the beginning.
    fn client(&mut self) -> u32;

    /// The requests that an application may make, in their order, and what each means.
    fn requests(&mut self, client: u32) -> Vec<(u32, Observation)>;

    /// The place of a request among these.
    fn place(&self, client: u32, request: u32) -> Option<usize>;

    /// What comes of booting a node with what it had saved, if it remembers any. Where the rule
    /// leaves something open, `choose` is asked for a number below another.
    fn boot(
        &mut self,
        turn: Turn<'_>,
        saved: Option<u32>,
        client: u32,
        choose: &mut dyn FnMut(u32) -> u32,
    ) -> Reaction;

    /// What comes of `input` at a node in this state; choices as in [`boot`](Self::boot).
    fn react(
        &mut self,
        turn: Turn<'_>,
        state: u32,
        client: u32,
        input: NumberedInput,
        choose: &mut dyn FnMut(u32) -> u32,
    ) -> Reaction;

    /// Whose entry a message is counted for.
    fn charge(&self, msg: u32, from: NodeId, to: NodeId) -> Charge;

    /// Whether a message is one of the application's, and no control message.
    fn is_app(&self, msg: u32) -> bool;

    /// The [fingerprint](Protocol::fingerprint) of what the application says by a message.
    fn fingerprint(&self, msg: u32) -> u32;

    /// Whether there are [facts](Protocol::facts).
    fn has_facts(&self) -> bool;

    /// What is true of a system of nodes in these states, `None` being down, with these messages on
    /// their way, each from the first node to the second.
    fn facts(&self, states: &[Option<u32>], messages: &[(NodeId, NodeId, u32)]) -> u64;

    /// The same value when node `i` is called `names[i]`; `None` if that cannot be said.
    fn renamed(&mut self, kind: Kind, number: u32, names: &[NodeId]) -> Option<u32>;

    /// What a value is [called](label).
    fn label(&self, kind: Kind, number: u32) -> &'static str;

    /// A value as it prints.
    fn print(&self, kind: Kind, number: u32) -> String;

    /// What values of this kind can be [called](labels).
    fn labels(&self, kind: Kind) -> Vec<&'static str>;
}

/// The values of `P` and of its applications `C`.
pub(crate) struct Values<P: Protocol, C> {
    config: P::Config,
    states: Interned<P>,
    clients: Interned<C>,
    messages: Interned<P::Msg>,
    timers: Interned<P::Timer>,
    requests: Interned<P::Request>,
    stables: Interned<P::Stable>,
}

impl<P: Protocol, C: Client<P>> Values<P, C> {
    pub(crate) fn new(config: P::Config) -> Self {
        Self {
            config,
            states: Interned::default(),
            clients: Interned::default(),
            messages: Interned::default(),
            timers: Interned::default(),
            requests: Interned::default(),
            stables: Interned::default(),
        }
    }

    /// Runs the rule for an input; without any, boots the node with what it had saved.
    fn run(
        &mut self,
        turn: Turn<'_>,
        input: Option<(P, InputOf<P>)>,
        saved: Option<P::Stable>,
        mut client: C,
        choose: &mut dyn FnMut(u32) -> u32,
    ) -> Reaction {
        let mut asked = Asked::<P> { effects: Vec::new(), choose };
        let Turn { node, now, topology, .. } = turn;
        let mut ctx = Ctx::new(node, topology, &self.config, now, &mut asked);
        let state = match input {
            Some((mut state, input)) => {
                state.step(input, &mut ctx);
                state
            }
            None => P::boot(saved, &mut ctx),
        };
        let ran = Ran { looked: ctx.looked_at_clock(), rules: ctx.rules() };
        let mut effects = Vec::with_capacity(asked.effects.len());
        for effect in asked.effects {
            effects.push(match effect {
                Effect::Send { to, msg } => {
                    NumberedEffect::Send { to, msg: self.messages.number(msg) }
                }
                Effect::Broadcast(msg) => NumberedEffect::Broadcast(self.messages.number(msg)),
                Effect::Notify(notice) => {
                    client.on_notice(&notice);
                    NumberedEffect::Notify(notice.observation())
                }
                Effect::SetTimer { timer, after } => {
                    NumberedEffect::SetTimer { timer: self.timers.number(timer), after }
                }
                Effect::CancelTimer(timer) => {
                    NumberedEffect::CancelTimer(self.timers.number(timer))
                }
                Effect::Save(stable) => NumberedEffect::Save(self.stables.number(stable)),
            });
        }
        let (state, client) = (self.states.number(state), self.clients.number(client));
        Reaction { state, client, effects, ran }
    }

    fn of(&self, kind: Kind) -> &dyn Numbers {
        match kind {
            Kind::State => &self.states,
            Kind::Client => &self.clients,
            Kind::Message => &self.messages,
            Kind::Timer => &self.timers,
            Kind::Request => &self.requests,
            Kind::Stable => &self.stables,
        }
    }
}

impl<P: Protocol, C: Client<P>> Numbered for Values<P, C> {
    fn client(&mut self) -> u32 {
        self.clients.number(C::default())
    }

    fn requests(&mut self, client: u32) -> Vec<(u32, Observation)> {
        let requests = self.clients.get(client).requests().into_iter();
        requests
            .map(|request| {
                let mark = request.observation();
                (self.requests.number(request), mark)
            })
            .collect()
    }

    fn place(&self, client: u32, request: u32) -> Option<usize> {
        let mut requests = self.clients.get(client).requests().into_iter();
        requests.position(|it| it == *self.requests.get(request))
    }

    fn boot(
        &mut self,
        turn: Turn<'_>,
        saved: Option<u32>,
        client: u32,
        choose: &mut dyn FnMut(u32) -> u32,
    ) -> Reaction {
        let saved = saved.map(|saved| self.stables.get(saved).clone());
        let client = self.clients.get(client).clone();
        self.run(turn, None, saved, client, choose)
    }

    fn react(
        &mut self,
        turn: Turn<'_>,
        state: u32,
        client: u32,
        input: NumberedInput,
        choose: &mut dyn FnMut(u32) -> u32,
    ) -> Reaction {
        let state = self.states.get(state).clone();
        let mut client = self.clients.get(client).clone();
        let input = input.map(
            |request| {
                let request = self.requests.get(request).clone();
                client.on_request(&request);
                request
            },
            |msg| self.messages.get(msg).clone(),
            |timer| *self.timers.get(timer),
        );
        self.run(turn, Some((state, input)), None, client, choose)
    }

    fn charge(&self, msg: u32, from: NodeId, to: NodeId) -> Charge {
        P::charge(self.messages.get(msg), from, to)
    }

    fn is_app(&self, msg: u32) -> bool {
        P::is_app(self.messages.get(msg))
    }

    fn fingerprint(&self, msg: u32) -> u32 {
        P::fingerprint(self.messages.get(msg))
    }

    fn has_facts(&self) -> bool {
        P::FACTS
    }

    fn facts(&self, states: &[Option<u32>], messages: &[(NodeId, NodeId, u32)]) -> u64 {
        let nodes = states.iter().map(|state| state.map(|state| self.states.get(state))).collect();
        let said = |&(from, to, msg): &(_, _, u32)| (from, to, self.messages.get(msg));
        let messages = messages.iter().map(said).collect();
        P::facts(&Whole { config: &self.config, nodes, messages })
    }

    fn renamed(&mut self, kind: Kind, number: u32, names: &[NodeId]) -> Option<u32> {
        match kind {
            Kind::State => self.states.renamed(number, names),
            Kind::Client => self.clients.renamed(number, names),
            Kind::Message => self.messages.renamed(number, names),
            Kind::Timer => self.timers.renamed(number, names),
            Kind::Request => self.requests.renamed(number, names),
            Kind::Stable => self.stables.renamed(number, names),
        }
    }

    fn label(&self, kind: Kind, number: u32) -> &'static str {
        self.of(kind).label(number)
    }

    fn print(&self, kind: Kind, number: u32) -> String {
        format!("{:?}", self.of(kind).value(number))
    }

    fn labels(&self, kind: Kind) -> Vec<&'static str> {
        self.of(kind).labels()
    }
}

/// Notes effects, and leaves choices to another.
struct Asked<'a, P: Protocol> {
    effects: Vec<Effect<P>>,
    choose: &'a mut dyn FnMut(u32) -> u32,
}

impl<P: Protocol> Effects<P> for Asked<'_, P> {
    fn emit(&mut self, effect: Effect<P>) {
        self.effects.push(effect);
    }

    fn choose(&mut self, n: u32) -> u32 {
        (self.choose)(n)
    }
}

/// Values of one type, each with a number.
struct Interned<T> {
    values: Vec<T>,
    /// Where values with each hash are. Their type is not part of it, so that it is compiled once.
    places: BTreeMap<u64, Vec<u32>>,
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Self { values: Vec::new(), places: BTreeMap::new() }
    }
}

impl<T: Value> Interned<T> {
    fn get(&self, number: u32) -> &T {
        &self.values[number as usize]
    }

    fn number(&mut self, value: T) -> u32 {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        let places = self.places.entry(hasher.finish()).or_default();
        let known = places.iter().copied().find(|&at| self.values[at as usize] == value);
        known.unwrap_or_else(|| {
            let number = u32::try_from(self.values.len()).expect("fewer than 2^32 values");
            places.push(number);
            self.values.push(value);
            number
        })
    }

    fn renamed(&mut self, number: u32, names: &[NodeId]) -> Option<u32> {
        let image = renamed(self.get(number), names)?;
        Some(self.number(image))
    }
}

/// What can be said of values by their numbers.
trait Numbers {
    fn label(&self, number: u32) -> &'static str;
    fn value(&self, number: u32) -> &dyn Debug;
    fn labels(&self) -> Vec<&'static str>;
}

impl<T: Value> Numbers for Interned<T> {
    fn label(&self, number: u32) -> &'static str {
        label(self.get(number))
    }

    fn value(&self, number: u32) -> &dyn Debug {
        self.get(number)
    }

    fn labels(&self) -> Vec<&'static str> {
        labels::<T>()
    }
}
