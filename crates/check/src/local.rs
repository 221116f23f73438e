//! What stands at one node, and what becomes of it in one step.

use std::convert::identity;
use std::time::Duration;

use conclave_protocol::{
    Charge, Family, Input, Kind, NodeId, Numbered, NumberedEffect, Observation, Promise, Property,
    Time, Topology, Traffic, Turn, Watch as Words,
};

use crate::space::Crossing;
use crate::{CheckSpec, Requests, Timers};

/// Everything at one node: the algorithm's state, the application, and what the driver keeps for
/// them. What the algorithm defines has [numbers](Numbered).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Local {
    /// `None` while the node is down.
    pub(crate) state: Option<u32>,
    pub(crate) client: u32,
    /// Running timers, in the order of their names; how long each has to go, where that matters.
    pub(crate) timers: Vec<(u32, Duration)>,
    pub(crate) stable: Option<u32>,
    /// How often the application may still ask.
    pub(crate) left: Requests,
    pub(crate) standing: Standing,
    /// Whom the failure detector has told this node to suspect, one bit each.
    pub(crate) told: u32,
    /// What the clock shows, if anybody looks at it.
    pub(crate) clock: Time,
    /// Requests that happened before now, one bit each, if their order is watched.
    pub(crate) knows: u64,
    /// Those that happened before this node's latest request.
    pub(crate) preceded: u64,
}

/// What properties are said about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Standing {
    /// The application has asked for the critical section and is not inside yet.
    pub(crate) waiting: bool,
    /// It is inside.
    pub(crate) inside: bool,
    /// Whom the node takes for the leader.
    pub(crate) follows: Option<NodeId>,
    /// Whom it says it suspects, one bit each.
    pub(crate) suspects: u32,
    /// What the family remembers of it.
    pub(crate) words: Vec<u64>,
}

/// A message on its way, with what the checker attaches to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Envelope {
    pub(crate) msg: u32,
    /// The requests that happened before it was sent.
    pub(crate) knows: u64,
    /// The node whose entry it is counted for; [`NOBODY`] if for none, or if nothing is counted.
    pub(crate) owner: u8,
    /// What the family has it carry, by a number; 0 if that is nothing.
    pub(crate) carried: u32,
}

/// The owner of messages that are counted for no entry.
pub(crate) const NOBODY: u8 = u8::MAX;
/// The owner of messages that are counted for the next entry.
pub(crate) const NEXT: u8 = u8::MAX - 1;

/// What comes of an event at a node.
#[derive(Clone, Debug)]
pub(crate) struct Reaction {
    pub(crate) local: Local,
    pub(crate) sends: Vec<(NodeId, Envelope)>,
    /// What each of these carries, if the family has messages carry anything.
    pub(crate) carried: Vec<Vec<u64>>,
    /// What it had saved when each of these left, if it may crash in the middle of a step.
    pub(crate) saved: Vec<Option<u32>>,
    /// What the application was told that properties are about.
    pub(crate) marks: Vec<Observation>,
    /// What the rule chose.
    pub(crate) choices: Vec<u32>,
    /// Whether it looked at the clock.
    pub(crate) looked: bool,
}

/// What steps depend on that is the same everywhere.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) topology: Topology,
    /// An application at the beginning.
    pub(crate) client: u32,
    pub(crate) timers: Timers,
    pub(crate) requests: Requests,
    pub(crate) mid_step: bool,
    pub(crate) watch: Watch,
}

/// What has to be kept about the past for the properties that are checked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watch {
    /// Whom each node follows.
    pub(crate) follows: bool,
    /// Whom each node suspects.
    pub(crate) suspects: bool,
    /// Which request happened before which.
    pub(crate) causality: bool,
    /// The highest token granted.
    pub(crate) tokens: bool,
    /// Who led in which epoch.
    pub(crate) epochs: bool,
    /// Whose entry each message is counted for.
    pub(crate) owners: bool,
    /// The time.
    pub(crate) clock: bool,
    /// What the family remembers.
    pub(crate) words: Option<&'static Words>,
    /// What no node can see.
    pub(crate) facts: bool,
    /// What passes on channels.
    pub(crate) traffic: Option<&'static Traffic>,
}

impl Watch {
    pub(crate) fn of(spec: &CheckSpec) -> Self {
        let any = |wanted: &[Property]| spec.properties.iter().any(|it| wanted.contains(it));
        Self {
            follows: any(&[Property::OneLeader, Property::LeaderKnown, Property::BestLeads]),
            suspects: any(&[Property::Completeness, Property::Accuracy]),
            causality: any(&[Property::FcfsHappenedBefore]),
            tokens: any(&[Property::FenceOrder, Property::FcfsTimestamp]),
            epochs: any(&[Property::OneLeaderPerEpoch]),
            owners: spec.count,
            clock: false,
            words: spec.properties.iter().find_map(|it| Family::watch_of(*it)),
            facts: spec.properties.iter().any(|it| Promise::of(*it).facts),
            traffic: spec.properties.iter().find_map(|it| {
                let watch = Family::watch_of(*it).filter(|_| Promise::of(*it).traffic)?;
                watch.traffic.as_ref()
            }),
        }
    }
}

impl Local {
    /// A node that has not booted yet.
    pub(crate) fn off(requests: Requests, rules: &Rules) -> Self {
        Self {
            state: None,
            client: rules.client,
            timers: Vec::new(),
            stable: None,
            left: requests,
            standing: Standing::default(),
            told: 0,
            clock: Time::ZERO,
            knows: 0,
            preceded: 0,
        }
    }

    /// The same node after a crash.
    pub(crate) fn crashed(&self, rules: &Rules) -> Self {
        let standing = self.standing.crashed(rules);
        let (stable, clock) = (self.stable, self.clock);
        Self { stable, clock, standing, ..Self::off(self.left, rules) }
    }

    /// The same node when so much time has passed.
    pub(crate) fn later(&self, span: Duration, clocked: bool) -> Self {
        let mut later = self.clone();
        for (_, left) in &mut later.timers {
            *left = left.saturating_sub(span);
        }
        if clocked {
            later.clock = later.clock + span;
        }
        later
    }

    /// The requests that the application may make, and what each means.
    pub(crate) fn requests(&self, numbered: &mut dyn Numbered) -> Vec<(u32, Observation)> {
        if self.state.is_none() {
            return Vec::new();
        }
        let mut requests = numbered.requests(self.client);
        requests.retain(|&(_, mark)| self.left.any() || !mark.is_ask());
        requests
    }

    /// The bit of this node's latest request, of those whose order is watched.
    pub(crate) fn request_bit(&self, me: NodeId, requests: Requests) -> u64 {
        let (Requests::AtMost(all @ 1..), Requests::AtMost(left)) = (requests, self.left) else {
            return 0;
        };
        let number = me.0 * all + (all - 1 - left.min(all - 1));
        1_u64.checked_shl(number).unwrap_or(0)
    }

    /// What comes of booting, with or without what the node had saved, once for each way in which
    /// the rule may choose.
    pub(crate) fn boot(
        &self,
        me: NodeId,
        remembers: bool,
        rules: &Rules,
        numbered: &mut dyn Numbered,
    ) -> Vec<Reaction> {
        let stable = self.stable.filter(|_| remembers);
        let local = Self { stable, ..self.clone() };
        local.every_way(me, NOBODY, rules, numbered, |numbered, turn, choose| {
            numbered.boot(turn, stable, local.client, choose)
        })
    }

    /// What comes of `input`, once for each way in which the rule may choose. If it is a message of
    /// the application, it `brings` what the family has it carry.
    pub(crate) fn react(
        &self,
        me: NodeId,
        input: Input<u32, Envelope, u32>,
        brings: Option<&[u64]>,
        rules: &Rules,
        numbered: &mut dyn Numbered,
    ) -> Vec<Reaction> {
        let mut local = self.clone();
        let mut cause = me.0 as u8;
        match input {
            Input::Request(request) => {
                let requests = numbered.requests(local.client);
                let mark = requests.into_iter().find(|(it, _)| *it == request);
                local.asked(me, mark.expect("it may ask that").1, rules);
            }
            Input::Message { msg: envelope, .. } => {
                local.knows |= envelope.knows;
                cause = envelope.owner;
            }
            Input::Timer(timer) => local.timers.retain(|(running, _)| *running != timer),
            Input::Suspect(peer) => local.told |= 1 << peer.0,
            Input::Restore(peer) => local.told &= !(1 << peer.0),
            Input::Join(_) | Input::Leave => cause = NOBODY,
        }
        let state = local.state.expect("nothing happens at a node that is down");
        let numbers = input.map(identity, |envelope| envelope.msg, identity);
        let mut reactions =
            local.every_way(me, cause, rules, numbered, |numbered, turn, choose| {
                numbered.react(turn, state, local.client, numbers, choose)
            });
        if let (Some(watch), Some(brings), Input::Message { from, .. }) =
            (rules.watch.words, brings, input)
        {
            for reaction in &mut reactions {
                (watch.arrives)(&mut reaction.local.standing.words, from, brings);
            }
        }
        reactions
    }

    /// What comes of a rule that `run` runs at this node, once for each way in which it may choose.
    fn every_way(
        &self,
        me: NodeId,
        cause: u8,
        rules: &Rules,
        numbered: &mut dyn Numbered,
        run: impl Fn(
            &mut dyn Numbered,
            Turn<'_>,
            &mut dyn FnMut(u32) -> u32,
        ) -> conclave_protocol::Reaction,
    ) -> Vec<Reaction> {
        let turn = Turn { node: me, now: self.clock, topology: &rules.topology, settles: true };
        let mut reactions = Vec::new();
        // Choices go by a script: answers as written, then 0, noting how many there were.
        let mut script: Vec<(u32, u32)> = Vec::new();
        loop {
            let mut at = 0;
            let mut choose = |n: u32| {
                if at == script.len() {
                    script.push((0, n));
                }
                at += 1;
                script[at - 1].0
            };
            let after = run(numbered, turn, &mut choose);
            script.truncate(at);
            let mut reaction = Reaction {
                local: Self { state: Some(after.state), client: after.client, ..self.clone() },
                sends: Vec::new(),
                carried: Vec::new(),
                saved: Vec::new(),
                marks: Vec::new(),
                choices: script.iter().map(|(answer, _)| *answer).collect(),
                looked: after.ran.looked,
            };
            for effect in after.effects {
                reaction.apply(me, cause, effect, rules, numbered);
            }
            while reaction.choices.last() == Some(&0) {
                reaction.choices.pop();
            }
            reactions.push(reaction);
            // The next script, like the next number of an odometer.
            while script.last().is_some_and(|(answer, of)| answer + 1 >= *of) {
                script.pop();
            }
            match script.last_mut() {
                Some((answer, _)) => *answer += 1,
                None => return reactions,
            }
        }
    }

    fn asked(&mut self, me: NodeId, mark: Observation, rules: &Rules) {
        match mark {
            Observation::Asked => {
                self.left = self.left.less_one();
                self.standing.waiting = true;
                if rules.watch.causality {
                    self.preceded = self.knows;
                    self.knows |= self.request_bit(me, rules.requests);
                }
            }
            Observation::Left => {
                self.standing.inside = false;
                self.preceded = 0;
            }
            _ if mark.is_ask() => self.left = self.left.less_one(),
            _ => {}
        }
    }
}

impl Standing {
    /// What is left of it after a crash.
    pub(crate) fn crashed(&self, rules: &Rules) -> Self {
        let forgets = rules.watch.words.is_none_or(|watch| watch.forgets);
        let words = if forgets { Vec::new() } else { self.words.clone() };
        Self { words, ..Self::default() }
    }
}

impl Reaction {
    /// The messages of the application that the step of this node sends and gets, if that is
    /// watched. The one that it `got` has a sender, says something and brings something.
    pub(crate) fn crossings(
        &self,
        me: NodeId,
        got: Option<&(NodeId, u32, Vec<u64>)>,
        rules: &Rules,
        numbered: &dyn Numbered,
    ) -> Vec<Crossing> {
        let mut crossings = Vec::new();
        if rules.watch.traffic.is_none() {
            return crossings;
        }
        if let Some((from, msg, brings)) = got {
            crossings.push(Crossing {
                channel: (*from, me),
                fingerprint: numbered.fingerprint(*msg),
                carried: brings.clone(),
                receiver: Some(self.local.standing.words.clone()),
            });
        }
        for ((to, envelope), carried) in self.sends.iter().zip(&self.carried) {
            if numbered.is_app(envelope.msg) {
                crossings.push(Crossing {
                    channel: (me, *to),
                    fingerprint: numbered.fingerprint(envelope.msg),
                    carried: carried.clone(),
                    receiver: None,
                });
            }
        }
        crossings
    }

    fn apply(
        &mut self,
        me: NodeId,
        cause: u8,
        effect: NumberedEffect,
        rules: &Rules,
        numbered: &dyn Numbered,
    ) {
        match effect {
            NumberedEffect::Send { to, msg } => self.send(me, cause, to, msg, rules, numbered),
            NumberedEffect::Broadcast(msg) => {
                for to in rules.topology.nodes().filter(|&to| to != me) {
                    self.send(me, cause, to, msg, rules, numbered);
                }
            }
            NumberedEffect::Notify(mark) => self.note(me, mark, rules),
            NumberedEffect::SetTimer { timer, after } => {
                let after = if rules.timers == Timers::Quiet { after } else { Duration::ZERO };
                let timers = &mut self.local.timers;
                timers.retain(|(running, _)| *running != timer);
                // In an order that does not depend on when they were set.
                let name = |timer| numbered.print(Kind::Timer, timer);
                let place = timers.partition_point(|(running, _)| name(*running) < name(timer));
                timers.insert(place, (timer, after));
            }
            NumberedEffect::CancelTimer(timer) => {
                self.local.timers.retain(|(it, _)| *it != timer);
            }
            NumberedEffect::Save(stable) => self.local.stable = Some(stable),
        }
    }

    fn send(
        &mut self,
        me: NodeId,
        cause: u8,
        to: NodeId,
        msg: u32,
        rules: &Rules,
        numbered: &dyn Numbered,
    ) {
        let owner = match numbered.charge(msg, me, to) {
            _ if !rules.watch.owners => NOBODY,
            Charge::Sender => me.0 as u8,
            Charge::Receiver => to.0 as u8,
            Charge::Node(node) => node.0 as u8,
            Charge::Cause => cause,
            Charge::NextEntry => NEXT,
            Charge::Nobody => NOBODY,
        };
        self.sends.push((to, Envelope { msg, knows: self.local.knows, owner, carried: 0 }));
        if let Some(watch) = rules.watch.words {
            let app = numbered.is_app(msg);
            let words = &self.local.standing.words;
            self.carried.push(if app { (watch.carries)(words) } else { Vec::new() });
        }
        if rules.mid_step {
            self.saved.push(self.local.stable);
        }
    }

    fn note(&mut self, me: NodeId, mark: Observation, rules: &Rules) {
        let standing = &mut self.local.standing;
        let watch = &rules.watch;
        if let Some(watch) = watch.words {
            (watch.see)(&mut standing.words, me, &mark);
        }
        match mark {
            Observation::Asked => standing.waiting = true,
            Observation::Left => {
                standing.inside = false;
                self.local.preceded = 0;
            }
            Observation::Entered { .. } => {
                standing.waiting = false;
                standing.inside = true;
                self.marks.push(mark);
            }
            Observation::Note(_) => self.marks.push(mark),
            Observation::Lost => {
                standing.waiting = false;
                standing.inside = false;
                self.local.preceded = 0;
            }
            Observation::Follows { leader, .. } => {
                if watch.follows {
                    standing.follows = Some(leader);
                }
                self.marks.push(mark);
            }
            Observation::Unled if watch.follows => standing.follows = None,
            Observation::Suspects(peer) if watch.suspects => standing.suspects |= 1 << peer.0,
            Observation::Trusts(peer) if watch.suspects => standing.suspects &= !(1 << peer.0),
            _ => {}
        }
    }
}
