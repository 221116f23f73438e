//! The surroundings of a run that follows decisions, or is written down as some: messages stay on
//! their links until one of them is decided about, and rules are told the time and the choices that
//! were decided.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use conclave_protocol::{
    Action, Decision, Handle, Message, NodeId, Observation, Outside, Shown, Time, TimerKey,
};
use erased_serde::Serialize;

use crate::environment::{Envelope, Environment, Executor, Pending, skewed};
use crate::{Class, Event, Record, Tracing};

/// What takes the place of the calendar and of chance, or stands beside them.
pub(crate) struct Schedule {
    /// Whether decisions say what happens; if not, the calendar does, and that is written down.
    pub(crate) follows: bool,
    /// Whether the calendar is kept, because the run goes on by it, or does so all the time.
    pub(crate) calendar: bool,
    /// What has happened, as decisions, if that is wanted.
    pub(crate) written: Option<Written>,
    /// The messages on their way, by link, in the order they were sent.
    links: BTreeMap<(NodeId, NodeId), Vec<Underway>>,
    /// Second copies of messages of this step, by chance, that no decision speaks of yet.
    pub(crate) dormant: Vec<Second>,
    /// Words of the failure detector and of the operator in the calendar.
    pub(crate) words: Vec<Word>,
    /// What is left of the plan of faults, in order.
    pub(crate) plan: VecDeque<(Time, u32)>,
    /// A node that has crashed and boots at once, by the plan, and when: the second half is to come.
    pub(crate) unfinished: Option<(NodeId, Time)>,
    /// A node that has crashed while it paused, and when: what waited for it is lost with it.
    pub(crate) interrupted: Option<(NodeId, Time)>,
    /// The most that were to come at any time.
    pub(crate) most: usize,
    /// What clocks show in this step.
    clock: Time,
    /// What they have shown to each node that looked.
    shown: BTreeMap<NodeId, Time>,
    /// The answers that are left in this step.
    choices: std::vec::IntoIter<u32>,
    /// How many more messages leave before the node crashes, if it does in this step.
    left: Option<u32>,
    /// Whether chance says what this step chooses and which of its messages are lost, because nothing
    /// was decided about it.
    by_chance: bool,
    /// The messages of this step that are lost at once.
    lost: Vec<u32>,
    /// How many messages this step has sent.
    sent: u32,
    /// Why what was decided for this step cannot be, as it turned out in the middle of it.
    why_not: Option<String>,
}

/// A message on its way.
#[derive(Clone, Copy)]
pub(crate) struct Underway {
    pub(crate) envelope: Envelope,
    /// When it arrives by the calendar, if there is one, and the number of that event.
    pub(crate) due: (Time, u64),
}

/// A second copy of a message.
#[derive(Clone, Copy)]
pub(crate) struct Second {
    link: (NodeId, NodeId),
    pub(crate) envelope: Envelope,
    due: (Time, u64),
}

/// A word to a node in the calendar.
#[derive(Clone, Copy)]
pub(crate) struct Word {
    pub(crate) at: Time,
    pub(crate) number: u64,
    pub(crate) node: NodeId,
    pub(crate) pending: Pending,
}

/// A run as decisions, as far as it has come.
#[derive(Default)]
pub(crate) struct Written {
    decisions: Vec<Decision>,
    /// The step that is going on, by its place among these.
    current: Option<usize>,
    /// Repetitions by chance in this step.
    repeats: Vec<Decision>,
}

impl Written {
    /// Notes what happens next.
    fn begin(&mut self, decision: Decision) {
        self.end();
        self.current = Some(self.decisions.len());
        self.decisions.push(decision);
    }

    fn end(&mut self) {
        if let Some(current) = self.current.take() {
            let choices = &mut self.decisions[current].choices;
            while choices.last() == Some(&0) {
                choices.pop();
            }
        }
        self.decisions.append(&mut self.repeats);
    }

    fn current(&mut self) -> Option<&mut Decision> {
        self.decisions.get_mut(self.current?)
    }

    /// All of it: how nodes boot comes first, where there is something to say about it.
    pub(crate) fn finish(mut self) -> Vec<Decision> {
        self.end();
        let (mut boots, rest): (Vec<_>, Vec<_>) =
            self.decisions.into_iter().partition(|it| matches!(it.what, Action::Boot(_)));
        boots.retain(|boot| !boot.choices.is_empty() || !boot.lost.is_empty());
        boots.extend(rest);
        boots
    }
}

impl Schedule {
    /// Surroundings in which decisions are followed or not, beside a calendar or not, and what
    /// happens is written down or not.
    pub(crate) fn new(follows: bool, calendar: bool, written: bool) -> Self {
        Self {
            follows,
            calendar,
            written: written.then(Written::default),
            links: BTreeMap::new(),
            dormant: Vec::new(),
            words: Vec::new(),
            plan: VecDeque::new(),
            unfinished: None,
            interrupted: None,
            most: 0,
            clock: Time::ZERO,
            shown: BTreeMap::new(),
            choices: Vec::new().into_iter(),
            left: None,
            by_chance: !follows,
            lost: Vec::new(),
            sent: 0,
            why_not: None,
        }
    }

    /// Has the next step go as decided.
    pub(crate) fn turn(&mut self, decision: &Decision, now: Time) {
        self.by_chance = false;
        self.clock = decision.clock;
        self.choices = decision.choices.clone().into_iter();
        self.left = decision.crash_after;
        self.lost.clone_from(&decision.lost);
        self.sent = 0;
        if !matches!(decision.what, Action::Repeat { .. } | Action::Boot(_)) {
            self.dormant.clear();
        }
        if let Some(written) = &mut self.written {
            written.begin(Decision { at: Some(now), ..decision.clone() });
        }
    }

    /// Has a node boot at the beginning as decided; if nothing was, and the run goes on by its
    /// calendar later, as chance says.
    pub(crate) fn turn_boot(&mut self, id: NodeId, decided: Option<&Decision>) {
        let plain = Action::Boot(id).into();
        self.turn(decided.unwrap_or(&plain), Time::ZERO);
        self.by_chance = decided.is_none() && self.calendar;
    }

    /// No decision is left.
    pub(crate) fn stop_following(&mut self) {
        (self.follows, self.by_chance) = (false, true);
    }

    /// Writes down what happens next by the calendar.
    pub(crate) fn write(&mut self, what: Action, now: Time) {
        self.sent = 0;
        if let Some(written) = &mut self.written {
            written.begin(Decision { at: Some(now), ..what.into() });
        }
    }

    /// Writes down that the request which is being made was due earlier.
    pub(crate) fn write_due(&mut self, due: Time) {
        if let Some(decision) = self.written.as_mut().and_then(Written::current) {
            decision.due = Some(due).filter(|due| Some(*due) < decision.at);
        }
    }

    /// Why the step could not go as decided.
    pub(crate) fn take_objection(&mut self) -> Option<String> {
        self.why_not.take()
    }

    /// The messages on their way from one node to another, in the order they were sent.
    pub(crate) fn link(&mut self, from: NodeId, to: NodeId) -> &mut Vec<Underway> {
        self.links.entry((from, to)).or_default()
    }

    /// Takes the message at this place. Of several copies the one that arrives first is taken: they
    /// are the same otherwise.
    pub(crate) fn take(&mut self, from: NodeId, to: NodeId, place: usize) -> Envelope {
        let link = self.link(from, to);
        let envelope = link[place].envelope;
        let copies = (0..link.len()).filter(|&at| link[at].envelope.serial == envelope.serial);
        let first = copies.min_by_key(|&at| link[at].due).expect("it is one of them");
        link[first].due = link[place].due;
        link.remove(place);
        envelope
    }

    /// The place of a message with this number, if it is on its way.
    fn place(&mut self, from: NodeId, to: NodeId, serial: u32) -> Option<usize> {
        self.link(from, to).iter().position(|it| it.envelope.serial == serial)
    }

    /// How many messages are on their way to nodes that satisfy the condition.
    pub(crate) fn under_way(&self, to: impl Fn(NodeId) -> bool) -> usize {
        let links = self.links.iter().filter(|((_, receiver), _)| to(*receiver));
        links.map(|(_, messages)| messages.len()).sum()
    }

    /// The messages on their way, each with its sender and its receiver.
    pub(crate) fn messages(&self) -> impl Iterator<Item = (NodeId, NodeId, Handle)> {
        let links = self.links.iter();
        links.flat_map(|(&(from, to), all)| {
            all.iter().map(move |it| (from, to, it.envelope.message))
        })
    }

    /// The events of the calendar by which the messages on their way arrive.
    pub(crate) fn arrivals(&self) -> impl Iterator<Item = u64> {
        self.links.values().flatten().map(|it| it.due.1)
    }

    /// A second copy is on its way, too.
    pub(crate) fn wake(&mut self, copy: Second, now: Time) {
        let Second { link: (from, to), envelope, due } = copy;
        let Some(place) = self.place(from, to, envelope.serial) else { return };
        self.link(from, to).insert(place + 1, Underway { envelope, due });
        if let Some(written) = &mut self.written {
            let what = Action::Repeat { from, to, place: place as u32 };
            written.repeats.push(Decision { at: Some(now), ..what.into() });
        }
    }

    /// What clocks have shown to those who looked.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (NodeId, Time)> {
        self.shown.iter().map(|(node, shown)| (*node, *shown))
    }

    /// What the clock of a node shows in this step: never less than before, for rules rely on it.
    /// Where there is a calendar it shows the time of that, unless something else was decided.
    pub(crate) fn clock(&mut self, id: NodeId, present: Time) -> Time {
        let before = self.shown.get(&id).copied().unwrap_or(Time::ZERO);
        if !self.follows || self.calendar && self.clock == Time::ZERO {
            self.clock = present.max(before);
        }
        self.clock.max(before)
    }

    /// The rule has looked at the clock.
    pub(crate) fn looked(&mut self, id: NodeId) {
        if let Some(decision) = self.written.as_mut().and_then(Written::current) {
            decision.clock = self.clock;
        }
        if let Some(shown) = self.shown.insert(id, self.clock)
            && shown > self.clock
        {
            let clock = self.clock;
            self.why_not = Some(format!("its clock would go back from {shown:?} to {clock:?}"));
        }
    }

    /// Whether a further message leaves before the node crashes.
    fn leaves(&mut self) -> bool {
        match &mut self.left {
            None => true,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }
}

impl Environment {
    /// Whether what happens has to be written down here and now.
    #[inline]
    pub(crate) fn writes(&self) -> bool {
        self.schedule.as_ref().is_some_and(|schedule| !schedule.follows)
    }

    /// Writes down what happens next.
    #[cold]
    pub(crate) fn write(&mut self, what: Action) {
        let now = self.now;
        if let Some(schedule) = &mut self.schedule {
            schedule.write(what, now);
        }
    }

    /// Writes down that a message arrives, by the calendar, or would if its receiver could hear it.
    #[cold]
    pub(crate) fn write_arrival(&mut self, from: NodeId, to: NodeId, serial: u32) {
        let now = self.now;
        let Some(schedule) = self.schedule.as_mut().filter(|schedule| !schedule.follows) else {
            return;
        };
        if let Some(place) = schedule.place(from, to, serial) {
            schedule.take(from, to, place);
            schedule.write(Action::Deliver { from, to, place: place as u32 }, now);
        }
    }

    /// Puts a message on its link, unless it is lost at once. Returns how many are on their way.
    #[cold]
    pub(crate) fn send_decided(
        &mut self,
        from: NodeId,
        to: NodeId,
        message: &dyn Message,
        envelope: Envelope,
    ) -> u32 {
        // Chance is asked as in a run by the calendar alone, so that what it says later is the same.
        let by_chance = self.is_lost(from, to, message);
        let apart = self.apart(from, to);
        let mut schedule = self.schedule.take().expect("the run has a schedule");
        let number = schedule.sent;
        schedule.sent += 1;
        let lost =
            if schedule.by_chance { by_chance } else { apart || schedule.lost.contains(&number) };
        let mut copies = 0;
        if lost {
            self.lose_at_once(from, to, envelope);
            if schedule.by_chance
                && !apart
                && let Some(decision) = schedule.written.as_mut().and_then(Written::current)
            {
                decision.lost.push(number);
            }
        } else {
            copies = self.put(&mut schedule, from, to, envelope);
        }
        self.schedule = Some(schedule);
        copies
    }

    fn put(
        &mut self,
        schedule: &mut Schedule,
        from: NodeId,
        to: NodeId,
        envelope: Envelope,
    ) -> u32 {
        if !schedule.calendar {
            schedule.link(from, to).push(Underway { envelope, due: (Time::ZERO, 0) });
            return 1;
        }
        let twice = self.duplication > 0 && self.rng.chance(self.duplication);
        let due = self.dispatch(from, to, envelope);
        schedule.link(from, to).push(Underway { envelope, due });
        if !twice {
            return 1;
        }
        let place = schedule.link(from, to).len() as u32 - 1;
        let due = self.dispatch(from, to, envelope);
        if schedule.follows {
            schedule.dormant.push(Second { link: (from, to), envelope, due });
            return 1;
        }
        schedule.link(from, to).push(Underway { envelope, due });
        if let Some(written) = &mut schedule.written {
            let at = Some(self.now);
            let what = Action::Repeat { from, to, place };
            written.repeats.push(Decision { at, ..what.into() });
        }
        2
    }

    /// Puts another copy of a message right behind it.
    pub(crate) fn repeat(&mut self, from: NodeId, to: NodeId, place: usize) {
        let mut schedule = self.schedule.take().expect("the run has a schedule");
        let it = schedule.link(from, to)[place];
        let mut second = it;
        if schedule.calendar {
            let dormant = &mut schedule.dormant;
            let serial = it.envelope.serial;
            second.due = match dormant.iter().position(|it| it.envelope.serial == serial) {
                Some(place) => dormant.remove(place).due,
                None => {
                    let (at, pending) = (it.due.0.max(self.now), Pending::Message(it.envelope));
                    (at, self.schedule(at, Class::Message, from, to, pending))
                }
            };
        }
        schedule.link(from, to).insert(place + 1, second);
        self.schedule = Some(schedule);
    }

    /// The network loses a message as soon as it is sent.
    pub(crate) fn lose_at_once(&mut self, from: NodeId, to: NodeId, envelope: Envelope) {
        let Envelope { serial, label, lamport, .. } = envelope;
        self.stats.lost += 1;
        if self.tracing >= Tracing::Events {
            let event = Event::Lose { to, serial, label };
            self.trace.records.push(Record::new(self.now, from, lamport, event));
        }
    }
}

/// Carries out the effects of one rule, in a step that was decided about or is written down.
pub(crate) struct Decided<'a>(pub(crate) Executor<'a>);

impl Decided<'_> {
    fn schedule(&mut self) -> &mut Schedule {
        self.0.environment.schedule.as_mut().expect("the run has a schedule")
    }

    fn send_copy(&mut self, to: NodeId, handle: Handle, message: &dyn Message, copy: bool) -> u32 {
        if !self.schedule().leaves() {
            return 0;
        }
        let label = self.0.name(message);
        self.0.send_copy(to, handle, message, label, copy)
    }

    /// Whether the last message has left, which is the last thing that happens.
    fn is_over(&mut self) -> bool {
        self.schedule().left == Some(0)
    }

    /// What the clock of the node shows.
    pub(crate) fn clock(&mut self) -> Time {
        let present = skewed(self.0.environment.now, self.0.local.skew);
        let me = self.0.me;
        self.schedule().clock(me, present)
    }
}

impl Outside for Decided<'_> {
    fn send(&mut self, to: NodeId, handle: Handle, message: &dyn Message) -> u32 {
        self.send_copy(to, handle, message, false)
    }

    fn broadcast(&mut self, handle: Handle, message: &dyn Message) -> u32 {
        let (me, mut copies, mut copy) = (self.0.me, 0, false);
        for to in self.0.topology.nodes().filter(|&to| to != me) {
            copies += self.send_copy(to, handle, message, copy);
            copy = true;
        }
        copies
    }

    fn notify(&mut self, mark: Observation, notice: &dyn Serialize) -> bool {
        !self.is_over() && self.0.notify(mark, notice)
    }

    /// Without a calendar it runs until it is decided that it has run out, however long that takes.
    fn set_timer(&mut self, timer: TimerKey, name: &dyn Shown, after: Duration) {
        if self.is_over() {
            return;
        }
        if self.schedule().calendar {
            return self.0.set_timer(timer, name, after);
        }
        self.0.note_alarm(name, after);
        if self.0.local.timers.iter().all(|(running, _)| *running != timer) {
            self.0.local.timers.push((timer, 0));
        }
    }

    fn cancel_timer(&mut self, timer: TimerKey, name: &dyn Shown) {
        if !self.is_over() {
            self.0.cancel_timer(timer, name);
        }
    }

    fn save(&mut self) -> bool {
        !self.is_over()
    }

    fn choose(&mut self, n: u32) -> u32 {
        let by_chance = if self.schedule().calendar { Some(self.0.choose(n)) } else { None };
        let schedule = self.schedule();
        if schedule.by_chance {
            let answer = by_chance.unwrap_or(0);
            if let Some(decision) = schedule.written.as_mut().and_then(Written::current) {
                decision.choices.push(answer);
            }
            return answer;
        }
        let answer = schedule.choices.next().unwrap_or(0);
        if answer < n {
            return answer;
        }
        schedule.why_not = Some(format!("{answer} is chosen where there are {n} to choose from"));
        0
    }
}
