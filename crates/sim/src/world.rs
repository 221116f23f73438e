use conclave_protocol::{
    Client, Ctx, Entry, Input, Mark, Marked, NodeId, Protocol, Reliable, ReliableConfig, Time,
    Topology, label,
};
use serde::{Deserialize, Serialize};

use crate::environment::{Environment, Local, Outside, Pending, json, skewed};
use crate::workload::Agenda;
use crate::{Action, Class, Event, Faults, Owner, Record, Rng, RunSpec, SpecError, Trace, Tracing};

mod follow;
#[cfg(test)]
mod tests;

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
        finish::<Reliable<P>, C>(config, spec)
    } else {
        finish::<P, C>(config, spec)
    }
}

fn finish<P: Protocol, C: Client<P>>(
    config: P::Config,
    spec: &RunSpec,
) -> Result<Outcome, SpecError> {
    match &spec.decisions {
        Some(decisions) => {
            World::<P, C>::new(config, &spec.left_alone()).follow(decisions, spec.setup.delay)
        }
        None => Ok(World::<P, C>::new(config, spec).finish()),
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
pub struct World<P: Protocol, C> {
    topology: Topology,
    config: P::Config,
    nodes: Vec<Node<P, C>>,
    environment: Environment<P>,
    agenda: Agenda,
    plan: Vec<Action>,
    /// How many of these the run waits for; the rest came by chance.
    planned: usize,
}

/// Faults at random are drawn ahead for this long at most: a quarter of an hour.
const LONGEST: Time = Time::from_nanos(900_000_000_000);

struct Node<P: Protocol, C> {
    /// `None` while the node is down.
    state: Option<P>,
    client: C,
    local: Local<P>,
}

impl<P: Protocol, C: Client<P>> World<P, C> {
    /// A system at the beginning of its run. If decisions are to be followed, [`run()`] does that.
    pub fn new(config: P::Config, spec: &RunSpec) -> Self {
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
        let node = |_| Node { state: None, client: C::default(), local: Local::new(fast()) };
        let mut world = Self {
            config,
            nodes: (0..n).map(node).collect(),
            agenda: Agenda::new(spec.workload.clone(), n, rng.fork(1)),
            plan: plan.iter().map(|happening| happening.action.clone()).collect(),
            planned,
            topology,
            environment: Environment::new(spec),
        };
        for (i, happening) in plan.iter().enumerate() {
            let pending = Pending::Happening(i);
            world.environment.schedule(happening.at, Class::Fault, NodeId(0), NodeId(0), pending);
        }
        for id in world.topology.nodes() {
            let remaining = world.agenda.remaining(id);
            world.environment.open =
                world.environment.open.zip(remaining).map(|(open, more)| open + more);
            world.boot(id, None);
        }
        world.environment.note_served();
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
    pub fn finish(mut self) -> Outcome {
        let end = loop {
            if let Some(end) = self.step() {
                break end;
            }
        };
        self.over(end)
    }

    fn over(self, end: End) -> Outcome {
        let stats = self.stats();
        let Environment { mut trace, now, .. } = self.environment;
        (trace.end, trace.ended) = (end, now);
        Outcome { trace, stats }
    }

    /// Carries out the next event. Returns why there is none, when there is none.
    pub fn step(&mut self) -> Option<End> {
        let environment = &mut self.environment;
        let until = environment.end;
        if until != Time::MAX && environment.next_at().is_some_and(|at| at > until) {
            environment.now = until;
            return Some(if until < environment.until { End::Served } else { End::TimeLimit });
        }
        if environment.stats.events >= environment.events {
            return Some(End::EventLimit);
        }
        let Some((key, id, pending)) = environment.pop() else { return Some(End::Quiet) };
        environment.now = key.at;
        let node = &mut self.nodes[id.index()];
        if let Some(backlog) = &mut node.local.backlog
            && !matches!(pending, Pending::Happening(_))
        {
            backlog.push((key, pending));
            return None;
        }
        match pending {
            Pending::Message { msg, serial, owner, lamport, label } => {
                self.arrive(key.sender(), id, msg, serial, owner, lamport, label);
            }
            Pending::Timer(timer) => {
                let running = node.local.timers.iter().position(|&(_, seq)| seq == key.number());
                if let Some(i) = running {
                    node.local.timers.swap_remove(i);
                    self.run_out(id, timer);
                }
            }
            Pending::Ask => {
                if node.local.ask != Some(key.number()) || node.state.is_none() {
                    return None;
                }
                node.local.ask = None;
                let request = node.client.requests().into_iter().next();
                if let Some(request) = request {
                    let mark = request.mark();
                    node.client.on_request(&request);
                    let due = self.agenda.due(id).filter(|_| mark == Mark::Asked);
                    self.agenda.asked(id, mark);
                    match mark {
                        Mark::Asked => node.local.outstanding = true,
                        // Asked and finished at once, as far as serving goes.
                        Mark::Called | Mark::Other => environment.close(),
                        _ if std::mem::take(&mut node.local.outstanding) => environment.close(),
                        _ => {}
                    }
                    let begun = environment.trace.records.len();
                    self.input(id, Event::Request(mark), Owner::Node(id), Input::Request(request));
                    if let Some(due) = due {
                        self.environment.trace.records.change(begun, |asked| asked.overdue(due));
                    }
                    if self.nodes[id.index()].local.ask.is_none() {
                        self.look_ahead(id);
                    }
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
            Pending::Told(item) => self.happen(self.plan[item].clone()),
            Pending::Happening(item) => {
                if item < self.planned {
                    environment.close();
                }
                let told = self.plan[item].told().map(|told| &mut self.nodes[told.index()].local);
                match told.and_then(|local| local.backlog.as_mut()) {
                    Some(backlog) => backlog.push((key, Pending::Told(item))),
                    None => self.happen(self.plan[item].clone()),
                }
            }
        }
        None
    }

    /// A message reaches its receiver, unless that is down or cut off.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "what a message on its way is made of")]
    fn arrive(
        &mut self,
        from: NodeId,
        id: NodeId,
        msg: P::Msg,
        serial: u32,
        owner: u32,
        lamport: u32,
        label: u8,
    ) {
        let (node, environment) = (&mut self.nodes[id.index()], &mut self.environment);
        if node.state.is_none() || environment.lossy && environment.apart(from, id) {
            self.lose(from, id, serial, label);
            return;
        }
        environment.stats.delivered += 1;
        node.local.lamport = node.local.lamport.max(lamport);
        environment.stats.events += 1;
        let begun = environment.trace.records.len();
        node.local.lamport += 1;
        if environment.tracing >= Tracing::Events {
            let (now, lamport) = (environment.now, node.local.lamport);
            let record = Record::deliver(now, id, lamport, from, serial, label);
            environment.trace.records.push(record);
        }
        self.react(id, owner, begun, Input::Message { from, msg });
    }

    /// A timer of a node runs out.
    fn run_out(&mut self, id: NodeId, timer: P::Timer) {
        let environment = &mut self.environment;
        let label = match environment.tracing {
            Tracing::Off | Tracing::Counts => 0,
            _ => environment.trace.label(label(&timer)),
        };
        self.input(id, Event::Timer { label }, Owner::Node(id), Input::Timer(timer));
    }

    fn happen(&mut self, action: Action) {
        self.environment.lossy |= matches!(action, Action::Partition(_) | Action::Lose { .. });
        match action {
            Action::Crash(id) => self.crash(id),
            Action::Recover(id) => {
                let saved = self.nodes[id.index()].local.stable.clone();
                self.recover(id, saved, Event::Recover);
            }
            Action::RecoverEmpty(id) => self.recover(id, None, Event::RecoverEmpty),
            Action::Reset(id) => {
                self.crash(id);
                self.recover(id, None, Event::RecoverEmpty);
            }
            Action::Pause(id) => {
                let node = &mut self.nodes[id.index()];
                if node.state.is_some() && node.local.backlog.is_none() {
                    node.local.backlog = Some(Box::default());
                    self.note(id, Event::Pause);
                }
            }
            Action::Resume(id) => {
                if let Some(backlog) = self.nodes[id.index()].local.backlog.take() {
                    self.note(id, Event::Resume);
                    for (key, pending) in *backlog {
                        self.environment.reschedule(key, id, pending);
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
                self.environment.groups = Some(of.clone());
                let event = self.environment.trace.partition(of);
                self.note(NodeId(0), event);
            }
            Action::Heal => {
                self.environment.groups = None;
                self.note(NodeId(0), Event::Heal);
            }
            Action::Suspect { node, peer } => {
                self.input(node, Event::Suspect(peer), Owner::Node(node), Input::Suspect(peer));
            }
            Action::Trust { node, peer } => {
                self.input(node, Event::Restore(peer), Owner::Node(node), Input::Restore(peer));
            }
            Action::Lose { label } => self.environment.lose.push(label),
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
        node.local.timers.clear();
        node.local.ask = None;
        node.client = C::default();
        let outstanding = u64::from(std::mem::take(&mut node.local.outstanding));
        let lost = self.agenda.remaining(id).map(|remaining| remaining + outstanding);
        self.environment.open = self.environment.open.zip(lost).map(|(open, lost)| open - lost);
        self.environment.note_served();
        self.note(id, Event::Crash);
        // It pauses no longer, and what waited for it is lost with it.
        let backlog = self.nodes[id.index()].local.backlog.take();
        for (key, pending) in backlog.into_iter().flat_map(|backlog| *backlog) {
            if let Pending::Message { serial, label, .. } = pending {
                self.lose(key.sender(), id, serial, label);
            }
        }
        if let Some(delay) = self.environment.detector {
            for peer in self.topology.nodes().filter(|&peer| peer != id) {
                let at = self.environment.now + delay;
                self.environment.schedule(at, Class::Timer, id, peer, Pending::Suspect(id));
            }
        }
    }

    /// A message does not arrive.
    #[cold]
    fn lose(&mut self, from: NodeId, to: NodeId, serial: u32, label: u8) {
        let environment = &mut self.environment;
        environment.stats.lost += 1;
        if environment.tracing >= Tracing::Events {
            let lamport = self.nodes[from.index()].local.lamport;
            let event = Event::Lose { to, serial, label };
            environment.trace.records.push(Record::new(environment.now, from, lamport, event));
        }
    }

    fn recover(&mut self, id: NodeId, saved: Option<P::Stable>, event: Event) {
        if self.nodes[id.index()].state.is_some() {
            return;
        }
        self.note(id, event);
        self.nodes[id.index()].local.stable.clone_from(&saved);
        let more = self.agenda.remaining(id);
        self.environment.open = self.environment.open.zip(more).map(|(open, more)| open + more);
        self.environment.note_served();
        self.boot(id, saved);
        if let Some(delay) = self.environment.detector {
            let at = self.environment.now + delay;
            for peer in self.topology.nodes().filter(|&peer| peer != id) {
                self.environment.schedule(at, Class::Timer, id, peer, Pending::Restore(id));
                if self.nodes[peer.index()].state.is_none() {
                    self.environment.schedule(at, Class::Timer, peer, id, Pending::Suspect(peer));
                }
            }
        }
    }

    fn boot(&mut self, id: NodeId, saved: Option<P::Stable>) {
        self.apply(id, Owner::Nobody.pack(), |state, ctx| *state = Some(P::boot(saved, ctx)));
        if self.nodes[id.index()].local.ask.is_none() {
            self.look_ahead(id);
        }
    }

    /// Records an event that is not a step of a node.
    fn note(&mut self, id: NodeId, event: Event) {
        let node = &mut self.nodes[id.index()];
        self.environment.record(id, &mut node.local.lamport, event);
    }

    fn input(&mut self, id: NodeId, event: Event, cause: Owner, input: Input<P>) {
        let node = &mut self.nodes[id.index()];
        if node.state.is_none() {
            return;
        }
        let environment = &mut self.environment;
        environment.stats.events += 1;
        let begun = environment.trace.records.len();
        environment.record(id, &mut node.local.lamport, event);
        if environment.tracing == Tracing::Full {
            let note = match &input {
                Input::Request(request) => Some(json(request)),
                Input::Timer(timer) => Some(json(timer)),
                _ => None,
            };
            environment.trace.notes.extend(note.map(|note| (begun, note)));
        }
        self.react(id, cause.pack(), begun, input);
    }

    /// Has a node that is up take the step whose record is number `begun`.
    #[inline(always)]
    fn react(&mut self, id: NodeId, cause: u32, begun: usize, input: Input<P>) {
        self.apply(id, cause, |state, ctx| {
            state.as_mut().expect("the node is up").step(input, ctx);
        });
        if self.environment.tracing == Tracing::Full {
            let state = self.nodes[id.index()].state.as_ref().map(json);
            self.environment.trace.states.extend(state.map(|state| (begun, state)));
        }
    }

    #[inline(always)]
    fn apply(&mut self, id: NodeId, cause: u32, rule: impl FnOnce(&mut Option<P>, &mut Ctx<P>)) {
        if self.environment.course.is_some() {
            return self.apply_decided(id, cause, rule);
        }
        let Node { state, local, .. } = &mut self.nodes[id.index()];
        let now = skewed(self.environment.now, local.skew);
        let (topology, environment) = (&self.topology, &mut self.environment);
        let mut outside = Outside { me: id, cause, topology, environment, local };
        rule(state, &mut Ctx::new(id, topology, &self.config, now, &mut outside));
        if !self.environment.notices.is_empty() {
            self.tell(id);
        }
    }

    /// Tells the application what its node has to say, and asks what it will do now.
    fn tell(&mut self, id: NodeId) {
        let Node { client, local, .. } = &mut self.nodes[id.index()];
        let mut notices = std::mem::take(&mut self.environment.notices);
        for notice in notices.drain(..) {
            match notice.mark() {
                Mark::Entered { .. } => self.environment.stats.entered += 1,
                Mark::Lost if std::mem::take(&mut local.outstanding) => self.environment.close(),
                _ => {}
            }
            client.on_notice(&notice);
        }
        self.environment.notices = notices;
        self.look_ahead(id);
    }

    /// Schedules what the application asks next, instead of whatever it was about to ask.
    fn look_ahead(&mut self, id: NodeId) {
        if self.environment.course.is_some() {
            return;
        }
        let Node { client, local, .. } = &mut self.nodes[id.index()];
        local.ask = None;
        if let Some(request) = client.requests().into_iter().next()
            && let Some(at) = self.agenda.when(id, request.mark(), self.environment.now)
        {
            let seq = self.environment.schedule(at, Class::Application, id, id, Pending::Ask);
            local.ask = Some(seq);
        }
    }
}

impl<P: Protocol, C> std::fmt::Debug for World<P, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("now", &self.environment.now).finish_non_exhaustive()
    }
}
