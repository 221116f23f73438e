//! The one part of the checker that knows the algorithm: what stands at nodes and what messages
//! say, each behind a number. Everything else is compiled once for all algorithms.

use std::collections::BTreeSet;
use std::time::Duration;

use conclave_protocol::{Client, Mark, Marked, NodeId, Protocol, Time, What, label, labels};
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

use crate::local::{Envelope, Local, NEXT, Rules, Stimulus};
use crate::space::{Happening, Kind, Spontaneous, Step};
use crate::symmetry::rename;
use crate::{Requests, Timers};

pub(crate) type Interned<T> = IndexSet<T, FxBuildHasher>;

/// What stands at nodes, and what becomes of it, by numbers.
pub(crate) trait Nodes: Send {
    /// The node before it boots, if it asks so often.
    fn off(&mut self, node: NodeId, requests: Requests) -> u32;

    /// What properties and the search have to know of it.
    fn view(&self, local: u32) -> View;

    /// What it may do by itself.
    fn spontaneous(&mut self, local: u32) -> Vec<Spontaneous>;

    /// Something that is told to a node.
    fn word(&mut self, word: Word) -> Happening;

    /// What may come of it.
    fn react(&mut self, local: u32, happening: Happening) -> Vec<Step>;

    /// The node after a crash. If it will not come back, what it might do then does not matter.
    fn crash(&mut self, local: u32, for_good: bool) -> u32;

    /// The node when so much time has passed.
    fn later(&mut self, local: u32, span: Duration) -> u32;

    /// What happens at the node, as it is written down: for what is no message.
    fn what(&self, local: u32, happening: Happening) -> What;

    /// What stands at a node, when node `i` is called `names[i]`; `None` if that cannot be said.
    fn rename_local(&mut self, local: u32, names: &[NodeId]) -> Option<u32>;

    /// What a message says then.
    fn rename_message(&mut self, envelope: u32, names: &[NodeId]) -> Option<u32>;

    /// What is said then of something that happens and is no message.
    fn rename_happening(&mut self, happening: Happening, names: &[NodeId]) -> Option<Happening>;

    /// What a message is called.
    fn message(&self, envelope: u32) -> &'static str;

    /// What happens, in words.
    fn event(&self, happening: Happening) -> String;

    /// Whether a rule has looked at a clock that is not kept.
    fn wants_clock(&self) -> bool;

    /// How many different nodes and messages there are.
    fn sizes(&self) -> [usize; 2];

    /// What kinds of messages, requests and timers there are that `happened` has none of.
    fn unexercised(&self, happened: &mut dyn Iterator<Item = Happening>) -> Vec<String>;
}

/// Something that a node is told, and that is neither a message nor its own doing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Word {
    Boot { remembers: bool },
    Suspect(NodeId),
    Trust(NodeId),
    Join(NodeId),
    Leave,
}

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

/// The nodes of an algorithm `P` with applications `C`.
pub(crate) struct Known<P: Protocol, C> {
    rules: Rules<P>,
    locals: Interned<(NodeId, Local<P, C>)>,
    envelopes: Interned<Envelope<P::Msg>>,
    happenings: Interned<Stimulus<P>>,
    wants_clock: bool,
}

impl<P: Protocol, C: Client<P>> Known<P, C> {
    pub(crate) fn new(rules: Rules<P>) -> Self {
        Self {
            rules,
            locals: Interned::default(),
            envelopes: Interned::default(),
            happenings: Interned::default(),
            wants_clock: false,
        }
    }

    fn local(&self, id: u32) -> &(NodeId, Local<P, C>) {
        &self.locals[id as usize]
    }

    fn add(&mut self, node: NodeId, local: Local<P, C>) -> u32 {
        number(self.locals.insert_full((node, local)).0)
    }

    fn add_happening(&mut self, stimulus: Stimulus<P>) -> Happening {
        Happening::Other(number(self.happenings.insert_full(stimulus).0))
    }

    fn stimulus(&self, happening: Happening) -> Stimulus<P> {
        match happening {
            Happening::Deliver { from, envelope } => Stimulus::Deliver {
                from: NodeId(u32::from(from)),
                envelope: self.envelopes[envelope as usize].clone(),
            },
            Happening::Other(number) => self.happenings[number as usize].clone(),
        }
    }
}

impl<P: Protocol, C: Client<P>> Nodes for Known<P, C> {
    fn off(&mut self, node: NodeId, requests: Requests) -> u32 {
        self.add(node, Local::off(requests))
    }

    fn view(&self, local: u32) -> View {
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

    fn spontaneous(&mut self, local: u32) -> Vec<Spontaneous> {
        let (_, at) = self.local(local).clone();
        let mut can = Vec::new();
        if at.state.is_none() {
            return can;
        }
        for (_, request) in at.requests() {
            let kind = if request.mark() == Mark::Left { Kind::Release } else { Kind::Ask };
            let happening = self.add_happening(Stimulus::Ask(request));
            can.push(Spontaneous { happening, kind, after: Duration::ZERO });
        }
        for (timer, after) in &at.timers {
            let happening = self.add_happening(Stimulus::Timer(*timer));
            can.push(Spontaneous { happening, kind: Kind::Timer, after: *after });
        }
        can
    }

    fn word(&mut self, word: Word) -> Happening {
        self.add_happening(match word {
            Word::Boot { remembers } => Stimulus::Boot { remembers },
            Word::Suspect(peer) => Stimulus::Suspect(peer),
            Word::Trust(peer) => Stimulus::Trust(peer),
            Word::Join(sponsor) => Stimulus::Join(sponsor),
            Word::Leave => Stimulus::Leave,
        })
    }

    fn react(&mut self, local: u32, happening: Happening) -> Vec<Step> {
        let stimulus = self.stimulus(happening);
        let (node, at) = self.local(local).clone();
        let (watch, n) = (self.rules.watch, self.rules.topology.len() as usize);
        let mut steps = Vec::new();
        for reaction in at.react(node, &stimulus, &self.rules) {
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
            let crashed = reaction.local.crashed();
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
            });
        }
        steps
    }

    fn crash(&mut self, local: u32, for_good: bool) -> u32 {
        let (node, at) = self.local(local);
        let (node, mut down) = (*node, at.crashed());
        if for_good {
            down = Local { clock: down.clock, ..Local::off(Requests::AtMost(0)) };
        }
        self.add(node, down)
    }

    fn later(&mut self, local: u32, span: Duration) -> u32 {
        let (node, at) = self.local(local);
        let (node, at) = (*node, at.later(span, self.rules.watch.clock));
        self.add(node, at)
    }

    fn what(&self, local: u32, happening: Happening) -> What {
        let (node, at) = self.local(local);
        let node = *node;
        match self.stimulus(happening) {
            Stimulus::Boot { remembers: true } => What::Recover(node),
            Stimulus::Boot { remembers: false } => What::RecoverEmpty(node),
            Stimulus::Ask(request) => {
                let mut all = at.client.requests().into_iter();
                let request = all.position(|it| it == request).expect("it may ask that") as u32;
                What::Ask { node, request }
            }
            Stimulus::Timer(timer) => What::Timer { node, timer: format!("{timer:?}") },
            Stimulus::Suspect(peer) => What::Suspect { node, peer },
            Stimulus::Trust(peer) => What::Trust { node, peer },
            Stimulus::Join(sponsor) => What::Join { node, sponsor },
            Stimulus::Leave => What::Leave(node),
            Stimulus::Deliver { .. } => unreachable!("a message is on a link"),
        }
    }

    fn rename_local(&mut self, local: u32, names: &[NodeId]) -> Option<u32> {
        let (node, at) = self.local(local);
        let node = names[node.index()];
        let image = rename::local(at, names, self.rules.requests)?;
        Some(self.add(node, image))
    }

    fn rename_message(&mut self, envelope: u32, names: &[NodeId]) -> Option<u32> {
        let envelope = &self.envelopes[envelope as usize];
        let image = rename::envelope(envelope, names, self.rules.requests)?;
        Some(number(self.envelopes.insert_full(image).0))
    }

    fn rename_happening(&mut self, happening: Happening, names: &[NodeId]) -> Option<Happening> {
        let image = rename::stimulus(&self.stimulus(happening), names)?;
        Some(self.add_happening(image))
    }

    fn message(&self, envelope: u32) -> &'static str {
        label(&self.envelopes[envelope as usize].msg)
    }

    fn event(&self, happening: Happening) -> String {
        match self.stimulus(happening) {
            Stimulus::Boot { .. } => "at boot".to_owned(),
            Stimulus::Ask(request) => format!("asked for {}", label(&request)),
            Stimulus::Deliver { from, envelope } => {
                format!("upon {} from {from}", label(&envelope.msg))
            }
            Stimulus::Timer(timer) => format!("when {timer:?} runs out"),
            Stimulus::Suspect(peer) => format!("told to suspect {peer}"),
            Stimulus::Trust(peer) => format!("told to trust {peer}"),
            Stimulus::Join(sponsor) => format!("asked to join through {sponsor}"),
            Stimulus::Leave => "asked to leave".to_owned(),
        }
    }

    fn wants_clock(&self) -> bool {
        self.wants_clock
    }

    fn sizes(&self) -> [usize; 2] {
        [self.locals.len(), self.envelopes.len()]
    }

    fn unexercised(&self, happened: &mut dyn Iterator<Item = Happening>) -> Vec<String> {
        let mut seen: [BTreeSet<&str>; 3] = Default::default();
        for happening in happened {
            match self.stimulus(happening) {
                Stimulus::Deliver { envelope, .. } => seen[0].insert(label(&envelope.msg)),
                Stimulus::Ask(request) => seen[1].insert(label(&request)),
                Stimulus::Timer(timer) => seen[2].insert(label(&timer)),
                _ => false,
            };
        }
        let all = [labels::<P::Msg>(), labels::<P::Request>(), labels::<P::Timer>()];
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
