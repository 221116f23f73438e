//! The surroundings of a run that follows decisions: messages stay on their links until one of
//! them is decided about, and rules are told the time and the choices that were decided.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocol::{Decision, Handle, Mark, Message, NodeId, Outside, Time, TimerKey};
use erased_serde::Serialize;

use crate::environment::{Envelope, Executor};

/// What takes the place of the calendar and of chance.
pub(crate) struct Course {
    /// The messages on their way, by link, in the order they were sent.
    links: BTreeMap<(NodeId, NodeId), Vec<Envelope>>,
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
    /// Why what was decided for this step cannot be, as it turned out in the middle of it.
    why_not: Option<String>,
}

impl Default for Course {
    fn default() -> Self {
        Self {
            links: BTreeMap::new(),
            most: 0,
            clock: Time::ZERO,
            shown: BTreeMap::new(),
            choices: Vec::new().into_iter(),
            left: None,
            why_not: None,
        }
    }
}

impl Course {
    /// Has the next step go as decided.
    pub(crate) fn turn(&mut self, decision: &Decision) {
        self.clock = decision.clock;
        self.choices = decision.choices.clone().into_iter();
        self.left = decision.crash_after;
    }

    /// Why the step could not go as decided.
    pub(crate) fn take_objection(&mut self) -> Option<String> {
        self.why_not.take()
    }

    /// The messages on their way from one node to another, in the order they were sent.
    pub(crate) fn link(&mut self, from: NodeId, to: NodeId) -> &mut Vec<Envelope> {
        self.links.entry((from, to)).or_default()
    }

    /// How many messages are on their way to nodes that satisfy the condition.
    pub(crate) fn under_way(&self, to: impl Fn(NodeId) -> bool) -> usize {
        let links = self.links.iter().filter(|((_, receiver), _)| to(*receiver));
        links.map(|(_, messages)| messages.len()).sum()
    }

    /// The messages on their way, each with its sender and its receiver.
    pub(crate) fn messages(&self) -> impl Iterator<Item = (NodeId, NodeId, Handle)> {
        let links = self.links.iter();
        links.flat_map(|(&(from, to), all)| all.iter().map(move |it| (from, to, it.message)))
    }

    /// What the clock of a node shows in this step: never less than before, for rules rely on it.
    pub(crate) fn clock(&self, id: NodeId) -> Time {
        self.shown.get(&id).map_or(self.clock, |&shown| shown.max(self.clock))
    }

    /// The rule has looked at the clock.
    pub(crate) fn looked(&mut self, id: NodeId) {
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

/// Carries out the effects of one rule, in a step that was decided about.
pub(crate) struct Decided<'a>(pub(crate) Executor<'a>);

impl Decided<'_> {
    fn course(&mut self) -> &mut Course {
        self.0.environment.course.as_mut().expect("the run follows decisions")
    }

    fn send_copy(&mut self, to: NodeId, handle: Handle, message: &dyn Message, copy: bool) -> u32 {
        if !self.course().leaves() {
            return 0;
        }
        let label = self.0.name(message);
        self.0.send_copy(to, handle, message, label, copy)
    }

    /// Whether the last message has left, which is the last thing that happens.
    fn is_over(&mut self) -> bool {
        self.course().left == Some(0)
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

    fn notify(&mut self, mark: Mark, notice: &dyn Serialize) -> bool {
        !self.is_over() && self.0.notify(mark, notice)
    }

    /// It runs until it is decided that it has run out, however long that takes.
    fn set_timer(&mut self, timer: TimerKey, _: Duration) {
        if !self.is_over() && self.0.local.timers.iter().all(|(running, _)| *running != timer) {
            self.0.local.timers.push((timer, 0));
        }
    }

    fn cancel_timer(&mut self, timer: TimerKey) {
        if !self.is_over() {
            self.0.cancel_timer(timer);
        }
    }

    fn save(&mut self) -> bool {
        !self.is_over()
    }

    fn choose(&mut self, n: u32) -> u32 {
        let course = self.course();
        let answer = course.choices.next().unwrap_or(0);
        if answer < n {
            return answer;
        }
        course.why_not = Some(format!("{answer} is chosen where there are {n} to choose from"));
        0
    }
}
