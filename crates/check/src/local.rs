//! What stands at one node, and what becomes of it in one step.

use std::time::Duration;

use conclave_protocol::{
    Charge, Client, Ctx, Effect, Effects, Input, Mark, Marked, NodeId, Property, Protocol, Time,
    Topology,
};

use crate::{CheckSpec, Requests, Timers};

/// Everything at one node: the algorithm's state, the application, and what the driver keeps for
/// them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Local<P: Protocol, C> {
    /// `None` while the node is down.
    pub(crate) state: Option<P>,
    pub(crate) client: C,
    /// Running timers, in the order of their names; how long each has to go, where that matters.
    pub(crate) timers: Vec<(P::Timer, Duration)>,
    pub(crate) stable: Option<P::Stable>,
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
}

/// A message on its way, with what the checker attaches to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Envelope<M> {
    pub(crate) msg: M,
    /// The requests that happened before it was sent.
    pub(crate) knows: u64,
    /// Whose entry it is counted for; `u8::MAX` if nobody's, or if nothing is counted.
    pub(crate) owner: u8,
}

/// Nobody's.
pub(crate) const NOBODY: u8 = u8::MAX;
/// That of whoever enters next.
pub(crate) const NEXT: u8 = u8::MAX - 1;

/// Something that happens at a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stimulus<P: Protocol> {
    /// The node boots, with or without what it had saved.
    Boot {
        remembers: bool,
    },
    /// The application makes this request, one of those that it may make.
    Ask(P::Request),
    /// A message arrives.
    Deliver {
        from: NodeId,
        envelope: Envelope<P::Msg>,
    },
    /// A timer runs out.
    Timer(P::Timer),
    /// The failure detector, rightly or not, suspects or trusts.
    Suspect(NodeId),
    Trust(NodeId),
    Join(NodeId),
    Leave,
}

/// What comes of it.
#[derive(Clone, Debug)]
pub(crate) struct Reaction<P: Protocol, C> {
    pub(crate) local: Local<P, C>,
    pub(crate) sends: Vec<(NodeId, Envelope<P::Msg>)>,
    /// What it had saved when each of these left, if it may crash in the middle of a step.
    pub(crate) saved: Vec<Option<P::Stable>>,
    /// What the application was told that properties are about.
    pub(crate) marks: Vec<Mark>,
    /// What the rule chose.
    pub(crate) choices: Vec<u32>,
    /// Whether it looked at the clock.
    pub(crate) looked: bool,
}

/// What steps depend on that is the same everywhere.
#[derive(Debug)]
pub(crate) struct Rules<P: Protocol> {
    pub(crate) topology: Topology,
    pub(crate) config: P::Config,
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
        }
    }
}

impl<P: Protocol, C: Client<P>> Local<P, C> {
    /// A node that has not booted yet.
    pub(crate) fn off(requests: Requests) -> Self {
        Self {
            state: None,
            client: C::default(),
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
    pub(crate) fn crashed(&self) -> Self {
        Self { stable: self.stable.clone(), clock: self.clock, ..Self::off(self.left) }
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

    /// The requests that the application may make, with their places among all it might.
    pub(crate) fn requests(&self) -> Vec<(u32, P::Request)> {
        if self.state.is_none() {
            return Vec::new();
        }
        let limited = |request: &P::Request| {
            matches!(request.mark(), Mark::Asked | Mark::Called | Mark::Other)
        };
        let requests = (0..).zip(self.client.requests());
        requests.filter(|(_, request)| self.left.any() || !limited(request)).collect()
    }

    /// The bit of this node's latest request, of those whose order is watched.
    pub(crate) fn request_bit(&self, me: NodeId, requests: Requests) -> u64 {
        let (Requests::AtMost(all @ 1..), Requests::AtMost(left)) = (requests, self.left) else {
            return 0;
        };
        let number = me.0 * all + (all - 1 - left.min(all - 1));
        1_u64.checked_shl(number).unwrap_or(0)
    }

    /// What comes of `stimulus`, once for each way in which the rule may choose.
    pub(crate) fn react(
        &self,
        me: NodeId,
        stimulus: &Stimulus<P>,
        rules: &Rules<P>,
    ) -> Vec<Reaction<P, C>> {
        let mut reactions = Vec::new();
        let mut script: Vec<(u32, u32)> = Vec::new();
        loop {
            let (reaction, chosen) = self.react_once(me, stimulus, rules, script);
            reactions.push(reaction);
            script = chosen;
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

    fn react_once(
        &self,
        me: NodeId,
        stimulus: &Stimulus<P>,
        rules: &Rules<P>,
        script: Vec<(u32, u32)>,
    ) -> (Reaction<P, C>, Vec<(u32, u32)>) {
        let mut local = self.clone();
        let mut cause = me.0 as u8;
        let input = match stimulus {
            Stimulus::Boot { .. } => {
                cause = NOBODY;
                None
            }
            Stimulus::Ask(request) => {
                local.asked(me, request, rules);
                Some(Input::Request(request.clone()))
            }
            Stimulus::Deliver { from, envelope } => {
                local.knows |= envelope.knows;
                cause = envelope.owner;
                Some(Input::Message { from: *from, msg: envelope.msg.clone() })
            }
            Stimulus::Timer(timer) => {
                local.timers.retain(|(running, _)| running != timer);
                Some(Input::Timer(*timer))
            }
            Stimulus::Suspect(peer) => {
                local.told |= 1 << peer.0;
                Some(Input::Suspect(*peer))
            }
            Stimulus::Trust(peer) => {
                local.told &= !(1 << peer.0);
                Some(Input::Restore(*peer))
            }
            Stimulus::Join(sponsor) => {
                cause = NOBODY;
                Some(Input::Join(*sponsor))
            }
            Stimulus::Leave => {
                cause = NOBODY;
                Some(Input::Leave)
            }
        };
        let mut sink = Sink { effects: Vec::new(), script, at: 0 };
        let mut ctx = Ctx::new(me, &rules.topology, &rules.config, local.clock, &mut sink);
        match (input, stimulus) {
            (Some(input), _) => match &mut local.state {
                Some(state) => state.step(input, &mut ctx),
                None => unreachable!("nothing happens at a node that is down"),
            },
            (None, Stimulus::Boot { remembers }) => {
                let saved = local.stable.take().filter(|_| *remembers);
                local.stable.clone_from(&saved);
                local.state = Some(P::boot(saved, &mut ctx));
            }
            (None, _) => unreachable!("everything but booting is an input"),
        }
        let looked = ctx.looked_at_clock();
        let Sink { effects, mut script, at } = sink;
        script.truncate(at);
        let mut reaction = Reaction {
            local,
            sends: Vec::new(),
            saved: Vec::new(),
            marks: Vec::new(),
            choices: script.iter().map(|(answer, _)| *answer).collect(),
            looked,
        };
        for effect in effects {
            reaction.apply(me, cause, effect, rules);
        }
        while reaction.choices.last() == Some(&0) {
            reaction.choices.pop();
        }
        (reaction, script)
    }

    fn asked(&mut self, me: NodeId, request: &P::Request, rules: &Rules<P>) {
        self.client.on_request(request);
        match request.mark() {
            Mark::Asked => {
                self.left = self.left.less_one();
                self.standing.waiting = true;
                if rules.watch.causality {
                    self.preceded = self.knows;
                    self.knows |= self.request_bit(me, rules.requests);
                }
            }
            Mark::Called | Mark::Other => self.left = self.left.less_one(),
            Mark::Left => {
                self.standing.inside = false;
                self.preceded = 0;
            }
            _ => {}
        }
    }
}

impl<P: Protocol, C: Client<P>> Reaction<P, C> {
    fn apply(&mut self, me: NodeId, cause: u8, effect: Effect<P>, rules: &Rules<P>) {
        match effect {
            Effect::Send { to, msg } => self.send(me, cause, to, msg, rules),
            Effect::Broadcast(msg) => {
                for to in rules.topology.nodes().filter(|&to| to != me) {
                    self.send(me, cause, to, msg.clone(), rules);
                }
            }
            Effect::Notify(notice) => {
                self.local.client.on_notice(&notice);
                self.note(notice.mark(), rules);
            }
            Effect::SetTimer { timer, after } => {
                let after = if rules.timers == Timers::Quiet { after } else { Duration::ZERO };
                let timers = &mut self.local.timers;
                timers.retain(|(running, _)| *running != timer);
                // In an order that does not depend on when they were set.
                let name = format!("{timer:?}");
                let place = timers.partition_point(|(running, _)| format!("{running:?}") < name);
                timers.insert(place, (timer, after));
            }
            Effect::CancelTimer(timer) => self.local.timers.retain(|(it, _)| *it != timer),
            Effect::Save(stable) => self.local.stable = Some(stable),
        }
    }

    fn send(&mut self, me: NodeId, cause: u8, to: NodeId, msg: P::Msg, rules: &Rules<P>) {
        let owner = match P::charge(&msg, me, to) {
            _ if !rules.watch.owners => NOBODY,
            Charge::Sender => me.0 as u8,
            Charge::Receiver => to.0 as u8,
            Charge::Node(node) => node.0 as u8,
            Charge::Cause => cause,
            Charge::NextEntry => NEXT,
            Charge::Nobody => NOBODY,
        };
        self.sends.push((to, Envelope { msg, knows: self.local.knows, owner }));
        if rules.mid_step {
            self.saved.push(self.local.stable.clone());
        }
    }

    fn note(&mut self, mark: Mark, rules: &Rules<P>) {
        let standing = &mut self.local.standing;
        let watch = &rules.watch;
        match mark {
            Mark::Entered { .. } => {
                standing.waiting = false;
                standing.inside = true;
                self.marks.push(mark);
            }
            Mark::Lost => {
                standing.waiting = false;
                standing.inside = false;
                self.local.preceded = 0;
            }
            Mark::Follows { leader, .. } => {
                if watch.follows {
                    standing.follows = Some(leader);
                }
                self.marks.push(mark);
            }
            Mark::Unled if watch.follows => standing.follows = None,
            Mark::Suspects(peer) if watch.suspects => standing.suspects |= 1 << peer.0,
            Mark::Trusts(peer) if watch.suspects => standing.suspects &= !(1 << peer.0),
            _ => {}
        }
    }
}

/// Notes effects, and chooses by a script: answers as written, then 0, noting how many there were
/// to choose from.
struct Sink<P: Protocol> {
    effects: Vec<Effect<P>>,
    script: Vec<(u32, u32)>,
    at: usize,
}

impl<P: Protocol> Effects<P> for Sink<P> {
    fn emit(&mut self, effect: Effect<P>) {
        self.effects.push(effect);
    }

    fn choose(&mut self, n: u32) -> u32 {
        if self.at == self.script.len() {
            self.script.push((0, n));
        }
        let answer = self.script[self.at].0;
        self.at += 1;
        answer
    }
}
