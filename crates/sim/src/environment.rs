//! What surrounds the nodes of a run: the network, the calendar, the trace, and how the effects of
//! a rule reach them.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocol::{
    Channels, Handle, Message, NodeId, Observation, Outside, Ranks, Shown, Time, TimerKey, Topology,
};
use erased_serde::Serialize;

use crate::delay::Medium;
use crate::schedule::Schedule;
use crate::{
    Alarm, Calendar, Class, Event, Key, Owner, Record, Rng, RunSpec, Stats, Trace, Tracing,
};

/// Everything that is not at a node.
pub(crate) struct Environment {
    pub(crate) now: Time,
    seq: u64,
    serial: u32,
    queue: Calendar<Pending>,
    /// In a run that follows decisions or is written down as some: what there is instead of the
    /// calendar and of chance, or beside them.
    pub(crate) schedule: Option<Box<Schedule>>,
    pub(crate) rng: Rng,
    medium: Medium,
    /// Whether messages of one link have to be kept in order, which delays alone do not.
    ordered: bool,
    links: LinkOrder,
    /// Whether acknowledgements travel back along links that lead one way.
    two_way: bool,
    loss: u32,
    pub(crate) duplication: u32,
    /// Labels of messages to lose.
    pub(crate) lose: Vec<String>,
    /// Whether any of this can be so, or the run has a schedule: saves asking for each message.
    pub(crate) lossy: bool,
    /// The group of each node, while the network is apart.
    pub(crate) groups: Option<Vec<u32>>,
    pub(crate) tracing: Tracing,
    pub(crate) trace: Trace,
    pub(crate) stats: Stats,
    pub(crate) detector: Option<Duration>,
    linger: Option<Duration>,
    /// Requests not yet made or served at nodes that are up, and faults to come; `None` if there
    /// is no end to them.
    pub(crate) open: Option<u64>,
    /// When the run is over, as things stand.
    pub(crate) end: Time,
    pub(crate) until: Time,
    pub(crate) events: u64,
    /// What the application of the acting node has been told; reused from step to step.
    pub(crate) notices: Vec<Observation>,
    /// The timers that the acting node has set and cancelled, in a full trace.
    pub(crate) alarms: Vec<Alarm>,
}

/// Something that will happen at a node.
#[derive(Clone, Copy)]
pub(crate) enum Pending {
    Message(Envelope),
    Timer,
    Ask,
    Suspect(NodeId),
    Restore(NodeId),
    /// An item of the plan that is an event of this node, put off while it paused.
    Told(u32),
    /// An item of the plan; at node 0, for want of a better place.
    Fault(u32),
}

impl Pending {
    /// If it is a message that arrives: its sender, its receiver and the message.
    pub(crate) fn message(&self, key: Key, to: NodeId) -> Option<(NodeId, NodeId, Handle)> {
        match self {
            Self::Message(envelope) => Some((key.sender(), to, envelope.message)),
            _ => None,
        }
    }
}

/// A message on its way, with what the trace says about it.
#[derive(Clone, Copy)]
pub(crate) struct Envelope {
    pub(crate) message: Handle,
    pub(crate) serial: u32,
    pub(crate) owner: u32,
    pub(crate) lamport: u32,
    pub(crate) label: u8,
}

impl Environment {
    pub(crate) fn new(spec: &RunSpec, schedule: Option<Box<Schedule>>) -> Self {
        let n = spec.setup.n();
        let ranks = Ranks::new(&spec.setup.attributes);
        let fifo = spec.channels == Channels::Fifo && !spec.delays.keeps_order();
        Self {
            now: Time::ZERO,
            seq: 0,
            serial: 0,
            queue: Calendar::new(spec.delays.typical()),
            rng: Rng::new(spec.seed).fork(2),
            medium: Medium::new(spec.delays.clone()),
            ordered: fifo,
            links: LinkOrder::new(if fifo { n } else { 0 }),
            two_way: spec.reliable,
            loss: spec.faults.loss,
            duplication: spec.faults.duplication,
            lose: Vec::new(),
            lossy: spec.faults.loss > 0 || schedule.is_some(),
            schedule,
            groups: None,
            tracing: spec.tracing,
            trace: Trace {
                algorithm: spec.algorithm.clone(),
                nodes: n,
                channels: spec.setup.topology.channels(),
                ranks,
                tracing: spec.tracing,
                ..Trace::default()
            },
            stats: Stats::default(),
            detector: spec.detector,
            linger: spec.linger,
            open: Some(spec.faults.plan.len() as u64),
            end: spec.until,
            until: spec.until,
            events: spec.events,
            notices: Vec::new(),
            alarms: Vec::new(),
        }
    }

    /// Has something happen at `id`, because of `by`. Returns the number by which the event is
    /// recognised when its time comes.
    #[inline(always)]
    pub(crate) fn schedule(
        &mut self,
        at: Time,
        class: Class,
        by: NodeId,
        id: NodeId,
        pending: Pending,
    ) -> u64 {
        self.seq += 1;
        self.queue.push(Key::new(at, class, by, self.seq), id, pending);
        self.seq
    }

    /// Has an event happen now that was put off.
    pub(crate) fn reschedule(&mut self, key: Key, id: NodeId, pending: Pending) {
        // The number stays: it is how timers and requests are recognised.
        self.queue.push(key.postponed(self.now), id, pending);
    }

    /// Takes the next event.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<(Key, NodeId, Pending)> {
        self.queue.pop()
    }

    /// The messages on their way, each with its sender and its receiver.
    pub(crate) fn messages(&self) -> impl Iterator<Item = (NodeId, NodeId, Handle)> {
        // Where decisions are followed, links have them, and the calendar has more than is left.
        let schedule = self.schedule.as_ref().filter(|schedule| schedule.follows);
        let calendar = schedule.is_none().then_some(&self.queue);
        let scheduled = calendar.into_iter().flat_map(Calendar::iter);
        let scheduled = scheduled.filter_map(|(key, to, pending)| pending.message(key, to));
        scheduled.chain(schedule.into_iter().flat_map(|schedule| schedule.messages()))
    }

    /// When the next event happens.
    pub(crate) fn next_at(&mut self) -> Option<Time> {
        self.queue.next_at()
    }

    /// The most events that were to come at any time.
    pub(crate) fn most_pending(&self) -> usize {
        let alone = self.schedule.as_ref().filter(|schedule| !schedule.calendar);
        alone.map_or_else(|| self.queue.most(), |schedule| schedule.most)
    }

    #[inline]
    pub(crate) fn record(&mut self, id: NodeId, lamport: &mut u32, event: Event) {
        *lamport += 1;
        let record = Record::new(self.now, id, *lamport, event);
        if self.tracing >= Tracing::Events {
            self.trace.records.push(record);
        } else {
            self.trace.keep(record);
        }
    }

    /// A request is done with.
    pub(crate) fn close(&mut self) {
        self.open = self.open.map(|open| open - 1);
        self.note_served();
    }

    /// Finds out when the run is over, as things stand.
    pub(crate) fn note_served(&mut self) {
        self.end = match (self.open, self.linger) {
            (Some(0), Some(linger)) => self.until.min(self.now + linger),
            _ => self.until,
        };
    }

    pub(crate) fn apart(&self, a: NodeId, b: NodeId) -> bool {
        self.groups.as_ref().is_some_and(|groups| groups[a.index()] != groups[b.index()])
    }
}

/// What is at a node beside what its host keeps.
pub(crate) struct Local {
    pub(crate) up: bool,
    /// Running timers, each with the event that ends it.
    pub(crate) timers: Vec<(TimerKey, u64)>,
    /// The event by which the application makes its next request.
    pub(crate) ask: Option<u64>,
    pub(crate) lamport: u32,
    /// Its clock is fast by so many parts in a million.
    pub(crate) skew: i32,
    /// Whether it has asked for the critical section and not left it.
    pub(crate) outstanding: bool,
    /// What waits for a paused node.
    pub(crate) backlog: Option<Backlog>,
}

/// Events put off, with their keys.
pub(crate) type Backlog = Box<Vec<(Key, Pending)>>;

impl Local {
    pub(crate) fn new(skew: i32) -> Self {
        Self {
            up: false,
            timers: Vec::new(),
            ask: None,
            lamport: 0,
            skew,
            outstanding: false,
            backlog: None,
        }
    }
}

/// Carries out the effects of one rule.
pub(crate) struct Executor<'a> {
    pub(crate) me: NodeId,
    /// Whose entry the event belongs to that the rule answers, [packed](Owner::pack).
    pub(crate) cause: u32,
    pub(crate) topology: &'a Topology,
    pub(crate) environment: &'a mut Environment,
    pub(crate) local: &'a mut Local,
}

impl Outside for Executor<'_> {
    fn send(&mut self, to: NodeId, handle: Handle, message: &dyn Message) -> u32 {
        let label = self.name(message);
        self.send_copy(to, handle, message, label, false)
    }

    fn broadcast(&mut self, handle: Handle, message: &dyn Message) -> u32 {
        if self.topology.len() == 1 {
            return 0;
        }
        let (label, mut copies, mut copy) = (self.name(message), 0, false);
        for to in (0..self.topology.len()).map(NodeId) {
            if to != self.me {
                copies += self.send_copy(to, handle, message, label, copy);
                copy = true;
            }
        }
        copies
    }

    fn notify(&mut self, mark: Observation, notice: &dyn Serialize) -> bool {
        let environment = &mut *self.environment;
        if environment.tracing == Tracing::Full {
            environment.trace.notes.insert(environment.trace.records.len(), json(notice));
        }
        environment.record(self.me, &mut self.local.lamport, Event::Notice(mark));
        environment.notices.push(mark);
        true
    }

    fn set_timer(&mut self, timer: TimerKey, name: &dyn Shown, after: Duration) {
        self.note_alarm(name, after);
        let at = self.environment.now + unskewed(after, self.local.skew);
        let (class, pending) = (Class::Timer, Pending::Timer);
        let seq = self.environment.schedule(at, class, self.me, self.me, pending);
        match self.local.timers.iter_mut().find(|(running, _)| *running == timer) {
            Some(running) => running.1 = seq,
            None => self.local.timers.push((timer, seq)),
        }
    }

    fn cancel_timer(&mut self, timer: TimerKey, name: &dyn Shown) {
        if self.environment.tracing == Tracing::Full {
            self.environment.alarms.push(Alarm::Cancelled { cancelled: format!("{name:?}") });
        }
        self.local.timers.retain(|(running, _)| *running != timer);
    }

    fn save(&mut self) -> bool {
        true
    }

    fn choose(&mut self, n: u32) -> u32 {
        self.environment.rng.below(u64::from(n)) as u32
    }
}

impl Executor<'_> {
    /// Notes that a timer is set, if that is recorded.
    pub(crate) fn note_alarm(&mut self, name: &dyn Shown, after: Duration) {
        if self.environment.tracing == Tracing::Full {
            let after = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
            self.environment.alarms.push(Alarm::Set { set: format!("{name:?}"), after });
        }
    }

    /// The label of a message in the trace, if it is recorded.
    #[inline(always)]
    pub(crate) fn name(&mut self, message: &dyn Message) -> u8 {
        match self.environment.tracing {
            Tracing::Off | Tracing::Counts => 0,
            _ => self.environment.trace.label(message.label()),
        }
    }

    /// Sends a message to one node. Returns how many are on their way.
    #[inline(always)]
    pub(crate) fn send_copy(
        &mut self,
        to: NodeId,
        handle: Handle,
        message: &dyn Message,
        label: u8,
        copy: bool,
    ) -> u32 {
        if !self.topology.is_complete() {
            self.check_link(to);
        }
        let environment = &mut *self.environment;
        environment.stats.sent += 1;
        let serial = environment.serial;
        environment.serial = environment.serial.wrapping_add(1);
        self.local.lamport += 1;
        let (lamport, mut owner) = (self.local.lamport, 0);
        match environment.tracing {
            Tracing::Off => {}
            Tracing::Counts => environment.trace.count(message.label()),
            tracing => {
                let charge = message.charge(self.me, to);
                owner = Owner::resolve(charge, self.cause, self.me, to);
                let bytes = match tracing {
                    Tracing::Sizes | Tracing::Full => size(message.contents()),
                    _ => 0,
                };
                let (now, control) = (environment.now, !message.is_app());
                environment.trace.records.push(Record::send(
                    now, self.me, lamport, to, serial, owner, label, bytes, copy, control,
                ));
                let fingerprint = message.fingerprint();
                if fingerprint != 0 {
                    environment.trace.note_fingerprint(serial, fingerprint);
                }
                if tracing == Tracing::Full {
                    environment.trace.messages.push(json(message.contents()));
                }
            }
        }
        // Made twice, so that the usual one is written to its place in the calendar from registers: a
        // processor that reads as a whole what it has just written in parts has to wait.
        let envelope = || Envelope { message: handle, serial, owner, lamport, label };
        if environment.lossy || environment.duplication > 0 {
            return environment.send_at_risk(self.me, to, message, envelope());
        }
        environment.dispatch(self.me, to, envelope());
        1
    }

    #[inline(never)]
    fn check_link(&self, to: NodeId) {
        let (me, topology) = (self.me, self.topology);
        let two_way = self.environment.two_way && topology.linked(to, me);
        assert!(topology.linked(me, to) || two_way, "{me} has no link to {to} in a {topology}");
    }
}

impl Environment {
    /// Sends a message that may get lost or be repeated, or of which decisions say what becomes of it.
    /// Returns how many are on their way.
    #[cold]
    #[inline(never)]
    fn send_at_risk(
        &mut self,
        from: NodeId,
        to: NodeId,
        message: &dyn Message,
        envelope: Envelope,
    ) -> u32 {
        if self.schedule.is_some() {
            return self.send_decided(from, to, message, envelope);
        }
        if self.lossy && self.is_lost(from, to, message) {
            self.lose_at_once(from, to, envelope);
            return 0;
        }
        let mut copies = 1;
        if self.duplication > 0 && self.rng.chance(self.duplication) {
            self.dispatch(from, to, envelope);
            copies += 1;
        }
        self.dispatch(from, to, envelope);
        copies
    }

    /// Puts a message on its way. Returns when it arrives, and the number of that event.
    #[inline(always)]
    pub(crate) fn dispatch(&mut self, from: NodeId, to: NodeId, envelope: Envelope) -> (Time, u64) {
        let at = self.medium.arrival(from, to, self.now, &mut self.rng);
        let at = if self.ordered { self.links.arrival(from, to, at) } else { at };
        (at, self.schedule(at, Class::Message, from, to, Pending::Message(envelope)))
    }

    /// Whether a message that arrives can be heard; in a run that is written down, notes that it
    /// does.
    pub(crate) fn passes(&mut self, from: NodeId, to: NodeId, up: bool, serial: u32) -> bool {
        if self.schedule.is_some() {
            self.write_arrival(from, to, serial);
        }
        up && !self.apart(from, to)
    }

    /// Empties the calendar but for the events that `keep` keeps, as it returns them.
    pub(crate) fn sift(
        &mut self,
        typical: Duration,
        mut keep: impl FnMut(Key, NodeId, &Pending) -> Option<Key>,
    ) {
        let mut old = std::mem::replace(&mut self.queue, Calendar::new(typical));
        while let Some((key, id, pending)) = old.pop() {
            if let Some(key) = keep(key, id, &pending) {
                self.queue.push(key, id, pending);
            }
        }
    }

    /// Whether the network loses this message: by partition, by chance, or by plan.
    pub(crate) fn is_lost(&mut self, from: NodeId, to: NodeId, message: &dyn Message) -> bool {
        self.apart(from, to) || self.rng.chance(self.loss) || self.loses(message.label())
    }

    /// Whether the plan says to lose this message; if so, only this one.
    fn loses(&mut self, name: &str) -> bool {
        let planned = self.lose.iter().position(|lost| lost == name);
        planned.map(|i| self.lose.remove(i)).is_some()
    }
}

/// When the last message on each link arrives, where order has to be kept.
enum LinkOrder {
    /// Few nodes: every pair.
    Dense { n: usize, last: Vec<Time> },
    /// Many nodes, of which each uses few links.
    Sparse(BTreeMap<(NodeId, NodeId), Time>),
}

impl LinkOrder {
    fn new(n: u32) -> Self {
        match n as usize {
            n @ ..=1024 => Self::Dense { n, last: vec![Time::ZERO; n * n] },
            _ => Self::Sparse(BTreeMap::new()),
        }
    }

    /// The arrival of a message that would come at `at` if nothing were before it.
    #[inline]
    fn arrival(&mut self, from: NodeId, to: NodeId, at: Time) -> Time {
        let last = match self {
            Self::Dense { n, last } => &mut last[from.index() * *n + to.index()],
            Self::Sparse(last) => last.entry((from, to)).or_insert(Time::ZERO),
        };
        *last = at.max(*last);
        *last
    }
}

pub(crate) fn skewed(now: Time, skew: i32) -> Time {
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

fn size(msg: &dyn Serialize) -> u32 {
    let size = postcard::experimental::serialized_size(&msg).expect("messages can be serialised");
    u32::try_from(size).unwrap_or(u32::MAX).min(Event::MOST_BYTES)
}

pub(crate) fn json(value: &dyn Serialize) -> Box<str> {
    serde_json::to_string(&value).expect("plain data can be serialised").into_boxed_str()
}
