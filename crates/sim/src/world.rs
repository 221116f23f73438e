use std::any::Any;

use conclave_protocol::{
    Action, Algorithm, Decision, Host, HostInput, Input, NodeId, Observation, Outside, Ran,
    Reliable, Time, TimerKey, Topology, Turn,
};
use serde::{Deserialize, Serialize};

use crate::environment::{Envelope, Environment, Executor, Local, Pending, json, skewed};
use crate::schedule::Schedule;
use crate::workload::Agenda;
use crate::{
    Class, Event, Fault, Faults, Owner, Record, Rng, RunSpec, SpecError, Step, Then, Trace, Tracing,
};

mod follow;
mod go_on;
mod happen;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod user;

/// Runs an algorithm as specified.
pub fn run(algorithm: &dyn Algorithm, spec: &RunSpec) -> Result<Outcome, SpecError> {
    Ok(carry_out(algorithm, spec, false)?.0)
}

/// Runs an algorithm as specified, and writes down what was decided, by chance and by the calendar.
///
/// Followed in a run of the same specification, the decisions give the same trace: the same events
/// in the same order at the same times, the same states and choices. A run that follows the first of
/// them and then [continues](Then::Continue) goes on as this one did.
pub fn record(
    algorithm: &dyn Algorithm,
    spec: &RunSpec,
) -> Result<(Outcome, Vec<Decision>), SpecError> {
    carry_out(algorithm, spec, true)
}

fn carry_out(
    algorithm: &dyn Algorithm,
    spec: &RunSpec,
    records: bool,
) -> Result<(Outcome, Vec<Decision>), SpecError> {
    spec.validate(algorithm.info())?;
    let host = algorithm.host(&spec.setup)?;
    if spec.reliable {
        // A round trip, and a little more.
        let resend = spec.delays.typical() * 2 + spec.setup.processing + spec.setup.delay;
        finish(Box::new(Reliable::new(host, spec.setup.n(), resend)), spec, records)
    } else {
        finish(host, spec, records)
    }
}

fn finish(
    host: Box<dyn Host>,
    spec: &RunSpec,
    records: bool,
) -> Result<(Outcome, Vec<Decision>), SpecError> {
    match &spec.decisions {
        None => Ok(World::begin(host, spec, records).end()),
        Some(decisions) if spec.then == Then::Stop => {
            World::begin(host, &spec.left_alone(), records).follow(decisions, spec)
        }
        Some(decisions) => World::begin(host, spec, records).follow(decisions, spec),
    }
}

/// What is left when a run is over.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What happened, as far as it was recorded.
    pub trace: Trace,
    /// Counts.
    pub stats: Stats,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// Nothing was left to do.
    #[default]
    Quiet,
    /// Every request was served, and the time to linger had passed.
    Served,
    /// The time was up.
    TimeLimit,
    /// The number of events was reached.
    EventLimit,
    /// Every decision was carried out, and more could have been taken.
    Decisions,
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
pub struct World {
    topology: Topology,
    host: Box<dyn Host>,
    nodes: Vec<Local>,
    environment: Environment,
    agenda: Agenda,
    plan: Vec<Fault>,
    /// How many of these the run waits for; the rest came by chance.
    planned: usize,
    /// Who acted last.
    actor: NodeId,
    /// Whether the algorithm has facts to be recorded, and those that were recorded last.
    facts: Option<Option<u64>>,
}

/// Faults at random are drawn ahead for this long at most: a quarter of an hour.
const LONGEST: Time = Time::from_nanos(900_000_000_000);

impl World {
    /// A system at the beginning of its run, whose nodes `host` has, all of them down. If decisions
    /// are to be followed, [`run()`] does that.
    pub fn new(host: Box<dyn Host>, spec: &RunSpec) -> Self {
        Self::begin(host, spec, false)
    }

    /// As [`new`](Self::new); what happens is written down as decisions if `records` is set.
    fn begin(host: Box<dyn Host>, spec: &RunSpec, records: bool) -> Self {
        let follows = spec.decisions.is_some();
        let calendar = !follows || spec.then == Then::Continue;
        let schedule =
            (follows || records).then(|| Box::new(Schedule::new(follows, calendar, records)));
        let topology = spec.setup.topology.clone();
        let n = topology.len();
        let rng = Rng::new(spec.seed);
        let mut skews = rng.fork(3);
        let Faults { mut plan, skew, .. } = spec.faults.clone();
        let planned = plan.len();
        plan.extend(spec.faults.draw(n, spec.until.min(LONGEST), &mut rng.fork(4)));
        let mut fast = || match skew {
            0 => 0,
            _ => skews.below(2 * u64::from(skew) + 1) as i32 - skew as i32,
        };
        let mut world = Self {
            host,
            nodes: (0..n).map(|_| Local::new(fast())).collect(),
            agenda: Agenda::new(spec.workload.clone(), n, rng.fork(1)),
            plan: plan.iter().map(|happening| happening.action.clone()).collect(),
            planned,
            topology,
            environment: Environment::new(spec, schedule),
            actor: NodeId(0),
            facts: None,
        };
        for (i, happening) in plan.iter().enumerate() {
            let pending = Pending::Fault(i as u32);
            world.environment.schedule(happening.at, Class::Fault, NodeId(0), NodeId(0), pending);
        }
        if let Some(schedule) =
            world.environment.schedule.as_mut().filter(|schedule| schedule.calendar)
        {
            let items = (0..).zip(&plan).map(|(item, happening)| (happening.at, item));
            schedule.plan.extend(items);
            schedule.plan.make_contiguous().sort_unstable();
        }
        for id in world.topology.nodes() {
            let remaining = world.agenda.remaining(id);
            world.environment.open =
                world.environment.open.zip(remaining).map(|(open, more)| open + more);
            world.decide_boot(id, spec.decisions.as_deref());
            world.boot(id, true, None);
        }
        world.environment.note_served();
        let tells = world.host.facts(&mut std::iter::empty()).is_some();
        world.facts = (tells && spec.tracing >= Tracing::Events).then_some(None);
        world.note_facts();
        world
    }

    /// The application at a node, if that is a `C`.
    pub fn client<C: Any>(&self, id: NodeId) -> Option<&C> {
        self.host.client(id).downcast_ref()
    }

    /// The state of a node, unless it is down, if that is a `P`.
    pub fn state<P: Any>(&self, id: NodeId) -> Option<&P> {
        self.host.inside(id)?.downcast_ref()
    }

    /// The present moment.
    pub fn now(&self) -> Time {
        self.environment.now
    }

    /// Counts so far.
    pub fn stats(&self) -> Stats {
        Stats { pending: self.environment.most_pending(), ..self.environment.stats }
    }

    /// What has happened so far.
    pub fn trace(&self) -> &Trace {
        &self.environment.trace
    }

    /// Runs to the end.
    pub fn finish(self) -> Outcome {
        self.end().0
    }

    /// Runs to the end; also says what was written down.
    fn end(mut self) -> (Outcome, Vec<Decision>) {
        let end = loop {
            if let Some(end) = self.step() {
                break end;
            }
        };
        self.over(end)
    }

    fn over(self, end: End) -> (Outcome, Vec<Decision>) {
        let stats = self.stats();
        let Environment { mut trace, now, schedule, .. } = self.environment;
        (trace.end, trace.ended) = (end, now);
        let written = schedule.and_then(|schedule| schedule.written);
        (Outcome { trace, stats }, written.map_or_else(Vec::new, |written| written.finish()))
    }

    /// Carries out the next event. Returns why there is none, when there is none.
    pub fn step(&mut self) -> Option<End> {
        let end = self.advance();
        if self.facts.is_some() {
            self.note_facts();
        }
        end
    }

    /// Records what is true of the whole system, if that has changed.
    #[cold]
    fn note_facts(&mut self) {
        let Some(recorded) = self.facts else { return };
        let paused = self.topology.nodes().zip(&self.nodes);
        let paused = paused.flat_map(|(id, node)| {
            let backlog = node.backlog.iter().flat_map(|backlog| backlog.iter());
            backlog.filter_map(move |(key, pending)| pending.message(*key, id))
        });
        let facts = self.host.facts(&mut self.environment.messages().chain(paused));
        if let Some(facts) = facts.filter(|facts| recorded != Some(*facts)) {
            let lamport = self.nodes[self.actor.index()].lamport;
            let (now, event) = (self.environment.now, Event::Facts(facts));
            self.environment.trace.records.push(Record::new(now, self.actor, lamport, event));
            self.facts = Some(Some(facts));
        }
    }

    fn advance(&mut self) -> Option<End> {
        let environment = &mut self.environment;
        let until = environment.end;
        if until != Time::MAX && environment.next_at().is_some_and(|at| at > until) {
            environment.now = environment.now.max(until);
            return Some(if until < environment.until { End::Served } else { End::TimeLimit });
        }
        if environment.stats.events >= environment.events {
            return Some(End::EventLimit);
        }
        let Some((key, id, pending)) = environment.pop() else { return Some(End::Quiet) };
        environment.now = key.at;
        let node = &mut self.nodes[id.index()];
        if let Some(backlog) = &mut node.backlog
            && !matches!(pending, Pending::Fault(_))
        {
            backlog.push((key, pending));
            return None;
        }
        match pending {
            Pending::Message(envelope) => self.arrive(key.sender(), id, envelope),
            Pending::Timer => {
                let running = node.timers.iter().position(|&(_, seq)| seq == key.number());
                if let Some(i) = running {
                    let (timer, _) = node.timers.swap_remove(i);
                    self.run_out(id, timer);
                }
            }
            Pending::Ask => {
                if node.ask != Some(key.number()) || !node.up {
                    return None;
                }
                node.ask = None;
                if let Some(mark) = self.host.request(id, 0) {
                    let due = self.agenda.due(id).filter(|_| mark == Observation::Asked);
                    self.request(id, 0, mark, due);
                }
            }
            Pending::Suspect(peer) => {
                // A detector that is told late does not suspect who is back already.
                if !self.nodes[peer.index()].up {
                    self.input(id, Event::Suspect(peer), Owner::Node(id), Input::Suspect(peer));
                }
            }
            Pending::Restore(peer) => {
                if self.nodes[peer.index()].up {
                    self.input(id, Event::Restore(peer), Owner::Node(id), Input::Restore(peer));
                }
            }
            Pending::Told(item) => self.happen(self.plan[item as usize].clone()),
            Pending::Fault(item) => {
                let action = &self.plan[item as usize];
                if (item as usize) < self.planned {
                    environment.close();
                }
                let told = action.told().map(|told| &mut self.nodes[told.index()]);
                match told.and_then(|local| local.backlog.as_mut()) {
                    Some(backlog) => backlog.push((key, Pending::Told(item))),
                    None => self.happen(action.clone()),
                }
            }
        }
        None
    }

    /// The application makes a request, which may have been due earlier.
    fn request(&mut self, id: NodeId, place: usize, mark: Observation, due: Option<Time>) {
        let (node, environment) = (&mut self.nodes[id.index()], &mut self.environment);
        self.agenda.asked(id, mark);
        match mark {
            Observation::Asked => node.outstanding = true,
            // Asked and finished at once, as far as serving goes.
            _ if mark.is_ask() => environment.close(),
            _ if std::mem::take(&mut node.outstanding) => environment.close(),
            _ => {}
        }
        let begun = environment.trace.records.len();
        self.input(id, Event::Request(mark), Owner::Node(id), Input::Request(place));
        if let Some(due) = due {
            self.environment.trace.records.change(begun, |asked| asked.overdue(due));
            if let Some(schedule) = &mut self.environment.schedule {
                schedule.write_due(due);
            }
        }
        if self.nodes[id.index()].ask.is_none() {
            self.look_ahead(id);
        }
    }

    /// A message reaches its receiver, unless that is down or cut off.
    #[inline(always)]
    fn arrive(&mut self, from: NodeId, id: NodeId, envelope: Envelope) {
        let (node, environment) = (&mut self.nodes[id.index()], &mut self.environment);
        let (up, serial) = (node.up, envelope.serial);
        if !if environment.lossy { environment.passes(from, id, up, serial) } else { up } {
            self.lose(from, id, envelope);
            return;
        }
        let Envelope { message, serial, owner, lamport, label } = envelope;
        environment.stats.delivered += 1;
        node.lamport = node.lamport.max(lamport);
        environment.stats.events += 1;
        let begun = environment.trace.records.len();
        node.lamport += 1;
        if environment.tracing >= Tracing::Events {
            let (now, lamport) = (environment.now, node.lamport);
            let record = Record::deliver(now, id, lamport, from, serial, label);
            environment.trace.records.push(record);
        }
        let ran =
            self.apply(id, owner, |host, turn, outside| host.deliver(turn, from, message, outside));
        self.reacted(id, begun, ran);
    }

    /// A timer of a node runs out.
    fn run_out(&mut self, id: NodeId, timer: TimerKey) {
        let environment = &mut self.environment;
        let label = match environment.tracing {
            Tracing::Off | Tracing::Counts => 0,
            _ => environment.trace.label(self.host.timer(id, timer).label()),
        };
        self.input(id, Event::Timer { label }, Owner::Node(id), Input::Timer(timer));
    }

    /// A message does not arrive.
    #[cold]
    fn lose(&mut self, from: NodeId, to: NodeId, envelope: Envelope) {
        let Envelope { message, serial, label, .. } = envelope;
        self.host.lose(message);
        let environment = &mut self.environment;
        environment.stats.lost += 1;
        if environment.tracing >= Tracing::Events {
            let lamport = self.nodes[from.index()].lamport;
            let event = Event::Lose { to, serial, label };
            environment.trace.records.push(Record::new(environment.now, from, lamport, event));
        }
    }

    fn boot(&mut self, id: NodeId, remembers: bool, begun: Option<usize>) {
        self.nodes[id.index()].up = true;
        let ran = self.apply(id, Owner::Nobody.pack(), |host, turn, outside| {
            host.boot(turn, remembers, outside)
        });
        if self.environment.tracing == Tracing::Full {
            self.describe(id, begun, ran.rules);
        }
        if self.nodes[id.index()].ask.is_none() {
            self.look_ahead(id);
        }
    }

    /// Records an event that is not a step of a node.
    fn note(&mut self, id: NodeId, event: Event) {
        let node = &mut self.nodes[id.index()];
        self.environment.record(id, &mut node.lamport, event);
    }

    fn input(&mut self, id: NodeId, event: Event, cause: Owner, input: HostInput) {
        let node = &mut self.nodes[id.index()];
        if !node.up {
            return;
        }
        let environment = &mut self.environment;
        if environment.writes() {
            environment.write(match input {
                Input::Request(request) => Action::Ask { node: id, request: request as u32 },
                Input::Timer(timer) => {
                    Action::Timer { node: id, timer: format!("{:?}", self.host.timer(id, timer)) }
                }
                Input::Suspect(peer) => Action::Suspect { node: id, peer },
                Input::Restore(peer) => Action::Trust { node: id, peer },
                Input::Join(sponsor) => Action::Join { node: id, sponsor },
                Input::Leave => Action::Leave(id),
                Input::Message { .. } => unreachable!("a message arrives elsewhere"),
            });
        }
        environment.stats.events += 1;
        let begun = environment.trace.records.len();
        environment.record(id, &mut node.lamport, event);
        if environment.tracing == Tracing::Full {
            let note = match input {
                Input::Request(place) => self.host.requested(id, place),
                Input::Timer(timer) => Some(self.host.timer(id, timer)),
                _ => None,
            };
            environment.trace.notes.extend(note.map(|note| (begun, json(&*note))));
        }
        let ran =
            self.apply(id, cause.pack(), |host, turn, outside| host.act(turn, input, outside));
        self.reacted(id, begun, ran);
    }

    /// A node has taken the step whose record is number `begun`.
    #[inline(always)]
    fn reacted(&mut self, id: NodeId, begun: usize, ran: Ran) {
        if self.environment.tracing == Tracing::Full {
            self.describe(id, Some(begun), ran.rules);
        }
    }

    /// In a full trace, notes what the node is like after the step that record number `begun` began;
    /// after its first boot if there is none.
    fn describe(&mut self, id: NodeId, begun: Option<usize>, rules: u32) {
        let Some(state) = self.host.state(id).map(|state| json(&*state)) else { return };
        let alarms = std::mem::take(&mut self.environment.alarms);
        let step = Step { rules, alarms, waits: self.host.waits_for(id) };
        let trace = &mut self.environment.trace;
        match begun {
            None => trace.booted.push((state, step)),
            Some(begun) => {
                trace.states.insert(begun, state);
                if step != Step::default() {
                    trace.steps.insert(begun, step);
                }
            }
        }
    }

    #[inline(always)]
    fn apply(
        &mut self,
        id: NodeId,
        cause: u32,
        rule: impl FnOnce(&mut dyn Host, Turn<'_>, &mut dyn Outside) -> Ran,
    ) -> Ran {
        self.actor = id;
        if self.environment.schedule.is_some() {
            return self.apply_decided(id, cause, rule);
        }
        let local = &mut self.nodes[id.index()];
        let now = skewed(self.environment.now, local.skew);
        let (topology, environment) = (&self.topology, &mut self.environment);
        let mut executor = Executor { me: id, cause, topology, environment, local };
        let turn = Turn { node: id, now, topology, settles: true };
        let ran = rule(&mut *self.host, turn, &mut executor);
        if !self.environment.notices.is_empty() {
            self.tell(id);
        }
        ran
    }

    /// Notes what the application has been told, and asks what it will do now.
    fn tell(&mut self, id: NodeId) {
        let local = &mut self.nodes[id.index()];
        let mut notices = std::mem::take(&mut self.environment.notices);
        for mark in notices.drain(..) {
            match mark {
                Observation::Entered { .. } => self.environment.stats.entered += 1,
                Observation::Lost if std::mem::take(&mut local.outstanding) => {
                    self.environment.close();
                }
                _ => {}
            }
        }
        self.environment.notices = notices;
        self.look_ahead(id);
    }

    /// Schedules what the application asks next, instead of whatever it was about to ask.
    fn look_ahead(&mut self, id: NodeId) {
        if self.environment.schedule.as_ref().is_some_and(|schedule| !schedule.calendar) {
            return;
        }
        let local = &mut self.nodes[id.index()];
        local.ask = None;
        if let Some(mark) = self.host.request(id, 0)
            && let Some(at) = self.agenda.when(id, mark, self.environment.now)
        {
            let seq = self.environment.schedule(at, Class::Application, id, id, Pending::Ask);
            local.ask = Some(seq);
        }
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("now", &self.environment.now).finish_non_exhaustive()
    }
}
