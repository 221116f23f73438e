use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocol::{
    Channels, Client, Ctx, Effect, Effects, Entry, Input, Mark, Marked, NodeId, Protocol, Reliable,
    ReliableConfig, Time, Topology, label,
};
use serde::Serialize;

use crate::delay::Medium;
use crate::workload::Agenda;
use crate::{
    Action, Calendar, Event, Faults, Key, Owner, Record, Rng, RunSpec, SpecError, Trace, Tracing,
};

/// Runs an algorithm of the catalogue as specified.
pub fn run<P, C>(entry: &Entry<P>, spec: &RunSpec) -> Result<Outcome, SpecError>
where
    P: Protocol,
    C: Client<P> + Client<Reliable<P>>,
{
    spec.validate(&entry.info)?;
    let config = (entry.config)(&spec.setup)?;
    if spec.reliable {
        // A round trip, and a little more.
        let resend = spec.delays.typical() * 2 + spec.setup.processing + spec.setup.delay;
        let config = ReliableConfig { resend, app: config };
        Ok(World::<Reliable<P>, C>::new(config, spec).finish())
    } else {
        Ok(World::<P, C>::new(config, spec).finish())
    }
}

/// What is left when a run is over.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What happened, unless tracing was off.
    pub trace: Trace,
    /// Counts.
    pub stats: Stats,
    /// Why it ended.
    pub end: End,
    /// When it ended.
    pub at: Time,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// Nothing was left to do.
    Quiet,
    /// Every request was served, and the time to linger had passed.
    Served,
    /// The time was up.
    TimeLimit,
    /// The number of events was reached.
    EventLimit,
}

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Steps taken by nodes.
    pub events: u64,
    /// Messages sent, each copy of a broadcast counted.
    pub sent: u64,
    /// Messages that reached their receiver.
    pub delivered: u64,
    /// Messages that did not.
    pub lost: u64,
    /// Entries into the critical section.
    pub entered: u64,
    /// The most events that were pending at once.
    pub pending: usize,
}

/// A system of nodes, in the middle of a run.
pub struct World<P: Protocol, C> {
    topology: Topology,
    config: P::Config,
    nodes: Vec<Node<P, C>>,
    core: Core<P>,
    agenda: Agenda,
    plan: Vec<Action>,
    /// Reused from step to step.
    notices: Vec<P::Notice>,
}

struct Node<P: Protocol, C> {
    /// `None` while the node is down.
    state: Option<P>,
    client: C,
    /// The event by which the application makes its next request.
    ask: Option<u64>,
    stable: Option<P::Stable>,
    /// Running timers, each with the event that ends it.
    timers: Vec<(P::Timer, u64)>,
    lamport: u32,
    /// Whether it has asked for the critical section and not left it.
    outstanding: bool,
    /// Its clock is fast by so many parts in a million.
    skew: i32,
    /// What waits for a paused node.
    backlog: Option<Vec<(Key, Pending<P>)>>,
}

/// Everything that is not at a node.
struct Core<P: Protocol> {
    now: Time,
    seq: u64,
    serial: u32,
    queue: Calendar<(NodeId, Pending<P>)>,
    rng: Rng,
    medium: Medium,
    links: LinkOrder,
    /// Whether acknowledgements travel back along links that lead one way.
    two_way: bool,
    loss: u32,
    duplication: u32,
    /// Labels of messages to lose.
    lose: Vec<String>,
    /// The group of each node, while the network is apart.
    groups: Option<Vec<u32>>,
    tracing: Tracing,
    trace: Trace,
    stats: Stats,
    detector: Option<Duration>,
    linger: Option<Duration>,
    /// Requests not yet made or served at nodes that are up, and faults to come; `None` if there
    /// is no end to them.
    open: Option<u64>,
    /// Since when there have been none.
    served: Option<Time>,
    until: Time,
    events: u64,
}

/// Something that will happen at a node.
enum Pending<P: Protocol> {
    Message {
        from: NodeId,
        msg: P::Msg,
        serial: u32,
        owner: u32,
        lamport: u32,
    },
    Timer(P::Timer),
    Ask,
    Suspect(NodeId),
    Restore(NodeId),
    /// An item of the plan; at node 0, for want of a better place.
    Happening(usize),
}

/// Classes of events of the same instant, in the order in which they happen.
mod class {
    pub(super) const FAULT: u32 = 0;
    pub(super) const MESSAGE: u32 = 1 << 28;
    pub(super) const APPLICATION: u32 = 2 << 28;
    pub(super) const TIMER: u32 = 3 << 28;
}

impl<P: Protocol, C: Client<P>> World<P, C> {
    /// A system at the beginning of its run.
    pub fn new(config: P::Config, spec: &RunSpec) -> Self {
        let topology = spec.setup.topology.clone();
        let n = topology.len();
        let rng = Rng::new(spec.seed);
        let mut skews = rng.fork(3);
        let Faults { plan, loss, duplication, skew } = spec.faults.clone();
        let node = |_| Node {
            state: None,
            client: C::default(),
            ask: None,
            stable: None,
            timers: Vec::new(),
            lamport: 0,
            outstanding: false,
            skew: if skew == 0 {
                0
            } else {
                skews.below(2 * u64::from(skew) + 1) as i32 - skew as i32
            },
            backlog: None,
        };
        let fifo = spec.channels == Channels::Fifo && !spec.delays.keeps_order();
        let mut world = Self {
            config,
            nodes: (0..n).map(node).collect(),
            agenda: Agenda::new(spec.workload.clone(), n, rng.fork(1)),
            plan: plan.iter().map(|happening| happening.action.clone()).collect(),
            notices: Vec::new(),
            topology,
            core: Core {
                now: Time::ZERO,
                seq: 0,
                serial: 0,
                queue: Calendar::new(spec.delays.typical()),
                rng: rng.fork(2),
                medium: Medium::new(spec.delays.clone()),
                links: LinkOrder::new(fifo, n),
                two_way: spec.reliable,
                loss,
                duplication,
                lose: Vec::new(),
                groups: None,
                tracing: spec.tracing,
                trace: Trace { nodes: n, ..Trace::default() },
                stats: Stats::default(),
                detector: spec.detector,
                linger: spec.linger,
                open: Some(plan.len() as u64),
                served: None,
                until: spec.until,
                events: spec.events,
            },
        };
        for (i, happening) in plan.iter().enumerate() {
            let pending = Pending::Happening(i);
            world.core.schedule(happening.at, class::FAULT, NodeId(0), pending);
        }
        for id in world.topology.nodes() {
            let remaining = world.agenda.remaining(id);
            world.core.open = world.core.open.zip(remaining).map(|(open, more)| open + more);
            world.boot(id, None);
        }
        world.core.note_served();
        world
    }

    /// The applications.
    pub fn clients(&self) -> impl Iterator<Item = &C> {
        self.nodes.iter().map(|node| &node.client)
    }

    /// The state of a node, unless it is down.
    pub fn state(&self, id: NodeId) -> Option<&P> {
        self.nodes[id.index()].state.as_ref()
    }

    /// The present moment.
    pub fn now(&self) -> Time {
        self.core.now
    }

    /// Counts so far.
    pub fn stats(&self) -> Stats {
        self.core.stats
    }

    /// What has happened so far.
    pub fn trace(&self) -> &Trace {
        &self.core.trace
    }

    /// Runs to the end.
    pub fn finish(mut self) -> Outcome {
        let end = loop {
            if let Some(end) = self.step() {
                break end;
            }
        };
        let Core { trace, stats, now, .. } = self.core;
        Outcome { trace, stats, end, at: now }
    }

    /// Carries out the next event. Returns why there is none, when there is none.
    pub fn step(&mut self) -> Option<End> {
        let core = &mut self.core;
        core.stats.pending = core.stats.pending.max(core.queue.len());
        let until = core.end();
        if until != Time::MAX && core.queue.next_at().is_some_and(|at| at > until) {
            core.now = until;
            return Some(if until < core.until { End::Served } else { End::TimeLimit });
        }
        if core.stats.events >= core.events {
            return Some(End::EventLimit);
        }
        let Some((key, (id, pending))) = core.queue.pop() else { return Some(End::Quiet) };
        core.now = key.at;
        if let Pending::Happening(item) = pending {
            core.close();
            self.happen(item);
            return None;
        }
        let node = &mut self.nodes[id.index()];
        if let Some(backlog) = &mut node.backlog {
            backlog.push((key, pending));
            return None;
        }
        match pending {
            Pending::Message { from, msg, serial, owner, lamport } => {
                if node.state.is_none() || core.apart(from, id) {
                    core.stats.lost += 1;
                    if core.tracing != Tracing::Off {
                        let label = core.trace.label(label(&msg));
                        let lamport = self.nodes[from.index()].lamport;
                        let event = Event::Lose { to: id, serial, label };
                        core.trace.records.push(Record::new(core.now, from, lamport, event));
                    }
                    return None;
                }
                core.stats.delivered += 1;
                node.lamport = node.lamport.max(lamport);
                let label =
                    if core.tracing == Tracing::Off { 0 } else { core.trace.label(label(&msg)) };
                let event = Event::Deliver { from, serial, label };
                self.input(id, event, Owner::unpack(owner), Input::Message { from, msg });
            }
            Pending::Timer(timer) => {
                let running = node.timers.iter().position(|&(_, seq)| seq == key.seq);
                if let Some(i) = running {
                    node.timers.swap_remove(i);
                    let label = if core.tracing == Tracing::Off {
                        0
                    } else {
                        core.trace.label(label(&timer))
                    };
                    self.input(id, Event::Timer { label }, Owner::Node(id), Input::Timer(timer));
                }
            }
            Pending::Ask => {
                if node.ask != Some(key.seq) || node.state.is_none() {
                    return None;
                }
                node.ask = None;
                let request = node.client.requests().into_iter().next();
                if let Some(request) = request {
                    let mark = request.mark();
                    node.client.on_request(&request);
                    self.agenda.asked(id, mark);
                    match mark {
                        Mark::Asked => node.outstanding = true,
                        // Asked and finished at once, as far as serving goes.
                        Mark::Called | Mark::Other => core.close(),
                        _ if std::mem::take(&mut node.outstanding) => core.close(),
                        _ => {}
                    }
                    self.input(id, Event::Request(mark), Owner::Node(id), Input::Request(request));
                }
            }
            Pending::Suspect(peer) => {
                // A detector that is told late does not suspect who is back already.
                if self.nodes[peer.index()].state.is_none() {
                    self.input(id, Event::Suspect(peer), Owner::Node(id), Input::Suspect(peer));
                }
            }
            Pending::Restore(peer) => {
                if self.nodes[peer.index()].state.is_some() {
                    self.input(id, Event::Restore(peer), Owner::Node(id), Input::Restore(peer));
                }
            }
            Pending::Happening(_) => unreachable!("handled above"),
        }
        None
    }

    fn happen(&mut self, item: usize) {
        match self.plan[item].clone() {
            Action::Crash(id) => self.crash(id),
            Action::Recover(id) => {
                let saved = self.nodes[id.index()].stable.clone();
                self.recover(id, saved, Event::Recover);
            }
            Action::RecoverEmpty(id) => self.recover(id, None, Event::RecoverEmpty),
            Action::Reset(id) => {
                self.crash(id);
                self.recover(id, None, Event::RecoverEmpty);
            }
            Action::Pause(id) => {
                let node = &mut self.nodes[id.index()];
                if node.backlog.is_none() {
                    node.backlog = Some(Vec::new());
                    self.note(id, Event::Pause);
                }
            }
            Action::Resume(id) => {
                if let Some(backlog) = self.nodes[id.index()].backlog.take() {
                    self.note(id, Event::Resume);
                    for (key, pending) in backlog {
                        // The number stays: it is how timers and requests are recognised.
                        let key = Key { at: self.core.now, ..key };
                        self.core.queue.push(key, (id, pending));
                    }
                }
            }
            Action::Partition(groups) => {
                // A node that is in no group is alone: its number is like no group's.
                let n = self.topology.len();
                let mut of: Vec<u32> = (0..n).map(|node| groups.len() as u32 + node).collect();
                for (group, members) in (0..).zip(&groups) {
                    for member in members {
                        of[member.index()] = group;
                    }
                }
                self.core.groups = Some(of);
                self.note(NodeId(0), Event::Partition);
            }
            Action::Heal => {
                self.core.groups = None;
                self.note(NodeId(0), Event::Heal);
            }
            Action::Suspect { node, peer } => {
                self.input(node, Event::Suspect(peer), Owner::Node(node), Input::Suspect(peer));
            }
            Action::Trust { node, peer } => {
                self.input(node, Event::Restore(peer), Owner::Node(node), Input::Restore(peer));
            }
            Action::Lose { label } => self.core.lose.push(label),
            Action::Join { node, sponsor } => {
                self.input(node, Event::Join(sponsor), Owner::Nobody, Input::Join(sponsor));
            }
            Action::Leave(node) => {
                self.input(node, Event::Leave, Owner::Nobody, Input::Leave);
            }
        }
    }

    fn crash(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.index()];
        if node.state.take().is_none() {
            return;
        }
        node.timers.clear();
        node.ask = None;
        node.client = C::default();
        let outstanding = u64::from(std::mem::take(&mut node.outstanding));
        let lost = self.agenda.remaining(id).map(|remaining| remaining + outstanding);
        self.core.open = self.core.open.zip(lost).map(|(open, lost)| open - lost);
        self.core.note_served();
        // What waited for it is lost with it.
        if let Some(backlog) = &mut self.nodes[id.index()].backlog {
            backlog.clear();
        }
        self.note(id, Event::Crash);
        if let Some(delay) = self.core.detector {
            for peer in self.topology.nodes().filter(|&peer| peer != id) {
                let at = self.core.now + delay;
                self.core.schedule(at, class::TIMER, peer, Pending::Suspect(id));
            }
        }
    }

    fn recover(&mut self, id: NodeId, saved: Option<P::Stable>, event: Event) {
        if self.nodes[id.index()].state.is_some() {
            return;
        }
        self.note(id, event);
        let more = self.agenda.remaining(id);
        self.core.open = self.core.open.zip(more).map(|(open, more)| open + more);
        self.core.note_served();
        self.boot(id, saved);
        if let Some(delay) = self.core.detector {
            let at = self.core.now + delay;
            for peer in self.topology.nodes().filter(|&peer| peer != id) {
                self.core.schedule(at, class::TIMER, peer, Pending::Restore(id));
                if self.nodes[peer.index()].state.is_none() {
                    self.core.schedule(at, class::TIMER, id, Pending::Suspect(peer));
                }
            }
        }
    }

    fn boot(&mut self, id: NodeId, saved: Option<P::Stable>) {
        self.apply(id, Owner::Nobody, |state, ctx| *state = Some(P::boot(saved, ctx)));
    }

    /// Records an event that is not a step of a node.
    fn note(&mut self, id: NodeId, event: Event) {
        let node = &mut self.nodes[id.index()];
        self.core.record(id, &mut node.lamport, event);
    }

    fn input(&mut self, id: NodeId, event: Event, cause: Owner, input: Input<P>) {
        let node = &mut self.nodes[id.index()];
        if node.state.is_none() {
            return;
        }
        let core = &mut self.core;
        core.stats.events += 1;
        let begun = core.trace.records.len();
        core.record(id, &mut node.lamport, event);
        if core.tracing == Tracing::Full {
            let note = match &input {
                Input::Request(request) => Some(json(request)),
                Input::Timer(timer) => Some(json(timer)),
                _ => None,
            };
            core.trace.notes.extend(note.map(|note| (begun, note)));
        }
        self.apply(id, cause, |state, ctx| {
            state.as_mut().expect("the node is up").step(input, ctx);
        });
        if self.core.tracing == Tracing::Full {
            let state = self.nodes[id.index()].state.as_ref().map(json);
            self.core.trace.states.extend(state.map(|state| (begun, state)));
        }
    }

    fn apply(&mut self, id: NodeId, cause: Owner, rule: impl FnOnce(&mut Option<P>, &mut Ctx<P>)) {
        let Node { state, client, ask, stable, timers, lamport, skew, outstanding, .. } =
            &mut self.nodes[id.index()];
        let mut outside = Outside {
            me: id,
            cause,
            topology: &self.topology,
            core: &mut self.core,
            notices: &mut self.notices,
            stable,
            timers,
            lamport,
            skew: *skew,
        };
        let now = skewed(outside.core.now, *skew);
        rule(state, &mut Ctx::new(id, &self.topology, &self.config, now, &mut outside));
        for notice in self.notices.drain(..) {
            match notice.mark() {
                Mark::Entered { .. } => self.core.stats.entered += 1,
                Mark::Lost if std::mem::take(outstanding) => self.core.close(),
                _ => {}
            }
            client.on_notice(&notice);
            // Whatever it was about to do, it now knows more.
            *ask = None;
        }
        if ask.is_none()
            && let Some(request) = client.requests().into_iter().next()
            && let Some(at) = self.agenda.when(id, request.mark(), self.core.now)
        {
            *ask = Some(self.core.schedule(at, class::APPLICATION + id.0, id, Pending::Ask));
        }
    }
}

impl<P: Protocol> Core<P> {
    /// Returns the number by which the event is recognised when its time comes.
    fn schedule(&mut self, at: Time, rank: u32, id: NodeId, pending: Pending<P>) -> u64 {
        self.seq += 1;
        self.queue.push(Key { at, rank, seq: self.seq }, (id, pending));
        self.seq
    }

    #[inline]
    fn record(&mut self, id: NodeId, lamport: &mut u32, event: Event) {
        *lamport += 1;
        if self.tracing != Tracing::Off {
            self.trace.records.push(Record::new(self.now, id, *lamport, event));
        }
    }

    /// A request is done with.
    fn close(&mut self) {
        self.open = self.open.map(|open| open - 1);
        self.note_served();
    }

    fn note_served(&mut self) {
        self.served = (self.open == Some(0)).then_some(self.now);
    }

    /// When the run is over, as things stand.
    fn end(&self) -> Time {
        match (self.served, self.linger) {
            (Some(served), Some(linger)) => self.until.min(served + linger),
            _ => self.until,
        }
    }

    fn apart(&self, a: NodeId, b: NodeId) -> bool {
        self.groups.as_ref().is_some_and(|groups| groups[a.index()] != groups[b.index()])
    }
}

/// The world as the effects of one rule change it.
struct Outside<'a, P: Protocol> {
    me: NodeId,
    cause: Owner,
    topology: &'a Topology,
    core: &'a mut Core<P>,
    notices: &'a mut Vec<P::Notice>,
    stable: &'a mut Option<P::Stable>,
    timers: &'a mut Vec<(P::Timer, u64)>,
    lamport: &'a mut u32,
    skew: i32,
}

impl<P: Protocol> Effects<P> for Outside<'_, P> {
    fn emit(&mut self, effect: Effect<P>) {
        match effect {
            Effect::Send { to, msg } => self.send(to, msg, false),
            Effect::Broadcast(msg) => {
                let mut copy = false;
                for to in (0..self.topology.len()).map(NodeId) {
                    if to != self.me {
                        self.send(to, msg.clone(), copy);
                        copy = true;
                    }
                }
            }
            Effect::Notify(notice) => {
                let core = &mut *self.core;
                if core.tracing == Tracing::Full {
                    core.trace.notes.insert(core.trace.records.len(), json(&notice));
                }
                core.record(self.me, self.lamport, Event::Notice(notice.mark()));
                self.notices.push(notice);
            }
            Effect::SetTimer { timer, after } => {
                let at = self.core.now + unskewed(after, self.skew);
                let seq = self.core.schedule(at, class::TIMER, self.me, Pending::Timer(timer));
                match self.timers.iter_mut().find(|(running, _)| *running == timer) {
                    Some(running) => running.1 = seq,
                    None => self.timers.push((timer, seq)),
                }
            }
            Effect::CancelTimer(timer) => self.timers.retain(|(running, _)| *running != timer),
            Effect::Save(stable) => *self.stable = Some(stable),
        }
    }

    fn choose(&mut self, n: u32) -> u32 {
        self.core.rng.below(u64::from(n)) as u32
    }
}

impl<P: Protocol> Outside<'_, P> {
    fn send(&mut self, to: NodeId, msg: P::Msg, copy: bool) {
        let core = &mut *self.core;
        if !self.topology.is_complete() {
            let (me, topology) = (self.me, self.topology);
            let linked = topology.linked(me, to) || core.two_way && topology.linked(to, me);
            assert!(linked, "{me} has no link to {to} in a {topology}");
        }
        core.stats.sent += 1;
        let serial = core.serial;
        core.serial = core.serial.wrapping_add(1);
        *self.lamport += 1;
        let (lamport, mut owner) = (*self.lamport, 0);
        let mut name = None;
        if core.tracing != Tracing::Off {
            let charge = P::charge(&msg, self.me, to);
            let resolved = Owner::resolve(charge, self.cause, self.me, to);
            owner = resolved.pack();
            let label = core.trace.label(label(&msg));
            name = Some(label);
            let bytes = match core.tracing {
                Tracing::Sizes | Tracing::Full => size(&msg),
                _ => 0,
            };
            let event = Event::Send { to, serial, label, owner: resolved, bytes, copy };
            core.trace.records.push(Record::new(core.now, self.me, lamport, event));
            if core.tracing == Tracing::Full {
                core.trace.messages.push(json(&msg));
            }
        }
        if core.apart(self.me, to) || core.rng.chance(core.loss) || core.loses(&msg) {
            core.stats.lost += 1;
            if let Some(label) = name {
                let event = Event::Lose { to, serial, label };
                core.trace.records.push(Record::new(core.now, self.me, lamport, event));
            }
            return;
        }
        let twice = core.rng.chance(core.duplication).then(|| msg.clone());
        for msg in [Some(msg), twice].into_iter().flatten() {
            let at = core.medium.arrival(self.me, to, core.now, &mut core.rng);
            let at = core.links.arrival(self.me, to, at);
            let pending = Pending::Message { from: self.me, msg, serial, owner, lamport };
            core.schedule(at, class::MESSAGE + self.me.0, to, pending);
        }
    }
}

impl<P: Protocol> Core<P> {
    /// Whether the plan says to lose this message; if so, only this one.
    fn loses(&mut self, msg: &P::Msg) -> bool {
        if self.lose.is_empty() {
            return false;
        }
        let name = label(msg);
        let planned = self.lose.iter().position(|lost| lost == name);
        planned.map(|i| self.lose.remove(i)).is_some()
    }
}

/// When the last message on each link arrives, where order has to be kept.
enum LinkOrder {
    /// No order, or one that the delays keep by themselves.
    Free,
    /// Few nodes: every pair.
    Dense { n: usize, last: Vec<Time> },
    /// Many nodes, of which each uses few links.
    Sparse(BTreeMap<(NodeId, NodeId), Time>),
}

impl LinkOrder {
    fn new(fifo: bool, n: u32) -> Self {
        match (fifo, n as usize) {
            (false, _) => Self::Free,
            (true, n @ ..=1024) => Self::Dense { n, last: vec![Time::ZERO; n * n] },
            (true, _) => Self::Sparse(BTreeMap::new()),
        }
    }

    /// The arrival of a message that would come at `at` if nothing were before it.
    #[inline]
    fn arrival(&mut self, from: NodeId, to: NodeId, at: Time) -> Time {
        let last = match self {
            Self::Free => return at,
            Self::Dense { n, last } => &mut last[from.index() * *n + to.index()],
            Self::Sparse(last) => last.entry((from, to)).or_insert(Time::ZERO),
        };
        *last = at.max(*last);
        *last
    }
}

fn skewed(now: Time, skew: i32) -> Time {
    if skew == 0 {
        return now;
    }
    let rate = (1_000_000 + i64::from(skew)) as u128;
    Time::from_nanos((u128::from(now.as_nanos()) * rate / 1_000_000) as u64)
}

/// How long `after` by a skewed clock really takes.
fn unskewed(after: Duration, skew: i32) -> Duration {
    if skew == 0 {
        return after;
    }
    let rate = (1_000_000 + i64::from(skew)) as u128;
    Duration::from_nanos((after.as_nanos() * 1_000_000 / rate) as u64)
}

fn size(msg: &impl Serialize) -> u16 {
    let size = postcard::experimental::serialized_size(msg).expect("messages can be serialised");
    u16::try_from(size).unwrap_or(u16::MAX)
}

fn json(value: &impl Serialize) -> Box<str> {
    serde_json::to_string(value).expect("plain data can be serialised").into_boxed_str()
}

impl<P: Protocol, C> std::fmt::Debug for World<P, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("now", &self.core.now).finish_non_exhaustive()
    }
}
