//! The one part of the checker that knows what stands at nodes and what messages say, each behind
//! a number. What of that the algorithm defines is behind a number already ([`Numbered`]), so the
//! checker is compiled once for all algorithms.

use std::collections::BTreeSet;
use std::convert::identity;
use std::time::Duration;

use conclave_protocol::{Action, Input, Kind as Value, NodeId, Numbered, Observation, Time};
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

use crate::local::{Envelope, Local, NEXT, Rules};
use crate::space::{Kind, LocalEvent, Spontaneous, Step};
use crate::symmetry::rename;
use crate::{Requests, Timers};

pub(crate) type Interned<T> = IndexSet<T, FxBuildHasher>;

/// What properties and the search have to know of what stands at a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) node: NodeId,
    pub(crate) up: bool,
    pub(crate) waiting: bool,
    pub(crate) inside: bool,
    pub(crate) follows: Option<NodeId>,
    pub(crate) suspects: u32,
    pub(crate) told: u32,
    /// The requests that happened before its own latest, and the bit of that one.
    pub(crate) preceded: u64,
    pub(crate) request: u64,
    pub(crate) clock: Time,
}

/// What stands at nodes, and what becomes of it, by numbers.
pub(crate) struct Nodes {
    numbered: Box<dyn Numbered>,
    rules: Rules,
    locals: Interned<(NodeId, Local)>,
    envelopes: Interned<Envelope>,
    /// What messages carry; the first is nothing.
    carried: Interned<Vec<u64>>,
    wants_clock: bool,
}

impl Nodes {
    pub(crate) fn new(numbered: Box<dyn Numbered>, rules: Rules) -> Self {
        Self {
            numbered,
            rules,
            locals: Interned::default(),
            envelopes: Interned::default(),
            carried: [Vec::new()].into_iter().collect(),
            wants_clock: false,
        }
    }

    fn local(&self, id: u32) -> &(NodeId, Local) {
        &self.locals[id as usize]
    }

    fn add(&mut self, node: NodeId, local: Local) -> u32 {
        number(self.locals.insert_full((node, local)).0)
    }

    /// The node before it boots, if it asks so often.
    pub(crate) fn off(&mut self, node: NodeId, requests: Requests) -> u32 {
        self.add(node, Local::off(requests, &self.rules))
    }

    /// What properties and the search have to know of it.
    pub(crate) fn view(&self, local: u32) -> View {
        let (node, local) = self.local(local);
        let requests = self.rules.requests;
        View {
            node: *node,
            up: local.state.is_some(),
            waiting: local.standing.waiting,
            inside: local.standing.inside,
            follows: local.standing.follows,
            suspects: local.standing.suspects,
            told: local.told,
            preceded: local.preceded,
            request: local.request_bit(*node, requests),
            clock: local.clock,
        }
    }

    /// What the family remembers of it.
    pub(crate) fn words(&self, local: u32) -> &[u64] {
        &self.local(local).1.standing.words
    }

    /// Whether the algorithm has facts to tell.
    pub(crate) fn has_facts(&self) -> bool {
        self.numbered.has_facts()
    }

    /// What is true of a system of these nodes, with these messages on their way.
    pub(crate) fn facts(
        &self,
        locals: &[u32],
        messages: impl Iterator<Item = (NodeId, NodeId, u32)>,
    ) -> u64 {
        let states: Vec<_> = locals.iter().map(|&local| self.local(local).1.state).collect();
        let said = |(from, to, envelope)| (from, to, self.envelopes[envelope as usize].msg);
        let messages: Vec<_> = messages.map(said).collect();
        self.numbered.facts(&states, &messages)
    }

    /// What it may do by itself.
    pub(crate) fn spontaneous(&mut self, local: u32) -> Vec<Spontaneous> {
        let (_, at) = self.local(local).clone();
        let mut can = Vec::new();
        if at.state.is_none() {
            return can;
        }
        for (request, mark) in at.requests(&mut *self.numbered) {
            let kind = if mark == Observation::Left { Kind::Release } else { Kind::Ask };
            let event = LocalEvent::Input(Input::Request(request));
            can.push(Spontaneous { event, kind, after: Duration::ZERO });
        }
        for &(timer, after) in &at.timers {
            let event = LocalEvent::Input(Input::Timer(timer));
            can.push(Spontaneous { event, kind: Kind::Timer, after });
        }
        can
    }

    /// What may come of it.
    pub(crate) fn react(&mut self, local: u32, event: LocalEvent) -> Vec<Step> {
        let (node, at) = self.local(local).clone();
        let (watch, n) = (self.rules.watch, self.rules.topology.len() as usize);
        let (rules, numbered) = (&self.rules, &mut *self.numbered);
        let mut got = None;
        let reactions = match event {
            LocalEvent::Boot { remembers } => at.boot(node, remembers, rules, numbered),
            LocalEvent::Input(input) => {
                let input = input.map(identity, |msg| self.envelopes[msg as usize], identity);
                let brings = match input {
                    Input::Message { msg: envelope, .. } if numbered.is_app(envelope.msg) => {
                        Some(&self.carried[envelope.carried as usize][..])
                    }
                    _ => None,
                };
                if let (Input::Message { from, msg }, Some(brings)) = (input, brings) {
                    got = Some((from, msg.msg, brings.to_vec()));
                }
                at.react(node, input, brings, rules, numbered)
            }
        };
        let mut steps = Vec::new();
        for mut reaction in reactions {
            let traffic = reaction.crossings(node, got.as_ref(), &self.rules, &*self.numbered);
            for ((_, envelope), carried) in reaction.sends.iter_mut().zip(reaction.carried) {
                envelope.carried = number(self.carried.insert_full(carried).0);
            }
            self.wants_clock |=
                reaction.looked && self.rules.timers == Timers::Quiet && !watch.clock;
            let mut costs = vec![0; if watch.owners { n } else { 0 }];
            let mut pending = 0;
            for (_, envelope) in &reaction.sends {
                match envelope.owner {
                    NEXT => pending += 1,
                    owner => costs.get_mut(usize::from(owner)).into_iter().for_each(|it| *it += 1),
                }
            }
            let crashed = reaction.local.crashed(&self.rules);
            let cuts = reaction.saved.into_iter();
            let cuts = cuts.map(|stable| self.add(node, Local { stable, ..crashed.clone() }));
            let cuts = cuts.collect();
            let sends = reaction.sends.into_iter();
            let sends = sends
                .map(|(to, envelope)| (to, number(self.envelopes.insert_full(envelope).0)))
                .collect();
            steps.push(Step {
                local: self.add(node, reaction.local),
                node,
                sends,
                cuts,
                marks: reaction.marks.into(),
                choices: reaction.choices.into(),
                costs: costs.into(),
                pending,
                traffic: traffic.into(),
            });
        }
        steps
    }

    /// The node after a crash. If it will not come back, what it might do then does not matter.
    pub(crate) fn crash(&mut self, local: u32, for_good: bool) -> u32 {
        let (node, at) = self.local(local);
        let (node, mut down) = (*node, at.crashed(&self.rules));
        if for_good {
            let off = Local::off(Requests::AtMost(0), &self.rules);
            down = Local { clock: down.clock, standing: down.standing, ..off };
        }
        self.add(node, down)
    }

    /// The node when so much time has passed.
    pub(crate) fn later(&mut self, local: u32, span: Duration) -> u32 {
        let (node, at) = self.local(local);
        let (node, at) = (*node, at.later(span, self.rules.watch.clock));
        self.add(node, at)
    }

    /// The node when its clock shows this, if it has not shown more.
    pub(crate) fn at_clock(&mut self, local: u32, clock: Time) -> u32 {
        let (node, at) = self.local(local).clone();
        self.add(node, Local { clock: at.clock.max(clock), ..at })
    }

    /// What happens at the node, in words: for what is no message.
    pub(crate) fn deed(&mut self, local: u32, event: LocalEvent) -> String {
        if let LocalEvent::Input(Input::Request(request)) = event {
            let (node, client) = (self.local(local).0, self.local(local).1.client);
            let requests = self.numbered.requests(client);
            let mark = requests.into_iter().find(|(it, _)| *it == request).map(|(_, mark)| mark);
            return match mark {
                Some(Observation::Asked) => format!("{node} asks"),
                Some(Observation::Left) => format!("{node} leaves"),
                Some(Observation::Called) => format!("{node} calls an election"),
                _ => format!("{node} requests {}", self.numbered.label(Value::Request, request)),
            };
        }
        self.what(local, event).to_string()
    }

    /// What happens at the node, as it is written down: for what is no message.
    pub(crate) fn what(&self, local: u32, event: LocalEvent) -> Action {
        let (node, client) = (self.local(local).0, self.local(local).1.client);
        let input = match event {
            LocalEvent::Boot { remembers: true } => return Action::Recover(node),
            LocalEvent::Boot { remembers: false } => return Action::RecoverEmpty(node),
            LocalEvent::Input(input) => input,
        };
        match input {
            Input::Request(request) => {
                let place = self.numbered.place(client, request);
                let request = place.expect("it may ask that") as u32;
                Action::Ask { node, request }
            }
            Input::Timer(timer) => {
                Action::Timer { node, timer: self.numbered.print(Value::Timer, timer) }
            }
            Input::Suspect(peer) => Action::Suspect { node, peer },
            Input::Restore(peer) => Action::Trust { node, peer },
            Input::Join(sponsor) => Action::Join { node, sponsor },
            Input::Leave => Action::Leave(node),
            Input::Message { .. } => unreachable!("a message is on a link"),
        }
    }

    /// What stands at a node, when node `i` is called `names[i]`; `None` if that cannot be said.
    pub(crate) fn rename_local(&mut self, local: u32, names: &[NodeId]) -> Option<u32> {
        let (node, at) = &self.locals[local as usize];
        let node = names[node.index()];
        let image = rename::local(at, names, self.rules.requests, &mut *self.numbered)?;
        Some(self.add(node, image))
    }

    /// What a message says then.
    pub(crate) fn rename_message(&mut self, envelope: u32, names: &[NodeId]) -> Option<u32> {
        let envelope = self.envelopes[envelope as usize];
        let requests = self.rules.requests;
        let image = rename::envelope(envelope, names, requests, &mut *self.numbered)?;
        Some(number(self.envelopes.insert_full(image).0))
    }

    /// What an event that is no message is called then.
    pub(crate) fn rename_event(
        &mut self,
        event: LocalEvent,
        names: &[NodeId],
    ) -> Option<LocalEvent> {
        rename::event(event, names, &mut *self.numbered)
    }

    /// What a message is called.
    pub(crate) fn message(&self, envelope: u32) -> &'static str {
        self.numbered.label(Value::Message, self.envelopes[envelope as usize].msg)
    }

    /// What happens, in words.
    pub(crate) fn event(&self, event: LocalEvent) -> String {
        let LocalEvent::Input(input) = event else { return "at boot".to_owned() };
        match input {
            Input::Request(request) => {
                format!("asked for {}", self.numbered.label(Value::Request, request))
            }
            Input::Message { from, msg } => format!("upon {} from {from}", self.message(msg)),
            Input::Timer(timer) => {
                format!("when {} runs out", self.numbered.print(Value::Timer, timer))
            }
            Input::Suspect(peer) => format!("told to suspect {peer}"),
            Input::Restore(peer) => format!("told to trust {peer}"),
            Input::Join(sponsor) => format!("asked to join through {sponsor}"),
            Input::Leave => "asked to leave".to_owned(),
        }
    }

    /// Whether a rule has looked at a clock that is not kept.
    pub(crate) fn wants_clock(&self) -> bool {
        self.wants_clock
    }

    /// How many different nodes and messages there are.
    pub(crate) fn sizes(&self) -> [usize; 2] {
        [self.locals.len(), self.envelopes.len()]
    }

    /// What kinds of messages, requests and timers there are that `happened` has none of.
    pub(crate) fn unexercised(&self, happened: impl Iterator<Item = LocalEvent>) -> Vec<String> {
        let mut seen: [BTreeSet<&str>; 3] = Default::default();
        for event in happened {
            let (place, kind, number) = match event {
                LocalEvent::Input(Input::Message { msg, .. }) => {
                    (0, Value::Message, self.envelopes[msg as usize].msg)
                }
                LocalEvent::Input(Input::Request(request)) => (1, Value::Request, request),
                LocalEvent::Input(Input::Timer(timer)) => (2, Value::Timer, timer),
                _ => continue,
            };
            seen[place].insert(self.numbered.label(kind, number));
        }
        let kinds = [Value::Message, Value::Request, Value::Timer];
        let all = kinds.map(|kind| self.numbered.labels(kind));
        let kinds = ["message", "request", "timer"];
        let mut unexercised = Vec::new();
        for ((kind, all), seen) in kinds.iter().zip(all).zip(&seen) {
            let missing = all.into_iter().filter(|name| !seen.contains(name));
            unexercised.extend(missing.map(|name| format!("{kind} {name}")));
        }
        unexercised
    }
}

/// What is numbered is far less than global states, which 32 bits number, too.
pub(crate) fn number(index: usize) -> u32 {
    u32::try_from(index).expect("fewer than 2^32 parts")
}
