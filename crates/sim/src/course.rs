//! The surroundings of a run that follows decisions: messages stay on their links until one of
//! them is decided about, and rules are told the time and the choices that were decided.

use std::collections::BTreeMap;

use conclave_protocol::{Decision, Effect, Effects, NodeId, Protocol, Time};

use crate::environment::Outside;

/// What takes the place of the calendar and of chance.
pub(crate) struct Course<P: Protocol> {
    /// Where each link's messages are. The tree knows nothing of messages: it would be compiled for each kind.
    links: BTreeMap<(NodeId, NodeId), usize>,
    /// The messages on their way, by link, in the order they were sent.
    messages: Vec<Vec<Message<P>>>,
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

/// A message on its way.
#[derive(Clone)]
pub(crate) struct Message<P: Protocol> {
    pub(crate) msg: P::Msg,
    pub(crate) serial: u32,
    pub(crate) owner: u32,
    pub(crate) lamport: u32,
    pub(crate) label: u8,
}

impl<P: Protocol> Default for Course<P> {
    fn default() -> Self {
        Self {
            links: BTreeMap::new(),
            messages: Vec::new(),
            most: 0,
            clock: Time::ZERO,
            shown: BTreeMap::new(),
            choices: Vec::new().into_iter(),
            left: None,
            why_not: None,
        }
    }
}

impl<P: Protocol> Course<P> {
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
    pub(crate) fn link(&mut self, from: NodeId, to: NodeId) -> &mut Vec<Message<P>> {
        let at = *self.links.entry((from, to)).or_insert(self.messages.len());
        if at == self.messages.len() {
            self.messages.push(Vec::new());
        }
        &mut self.messages[at]
    }

    /// How many messages are on their way to nodes that satisfy the condition.
    pub(crate) fn under_way(&self, to: impl Fn(NodeId) -> bool) -> usize {
        let links = self.links.iter().filter(|((_, receiver), _)| to(*receiver));
        links.map(|(_, &at)| self.messages[at].len()).sum()
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

/// The world as the effects of one rule change it, in a step that was decided about.
pub(crate) struct Decided<'a, P: Protocol>(pub(crate) Outside<'a, P>);

impl<P: Protocol> Decided<'_, P> {
    fn course(&mut self) -> &mut Course<P> {
        self.0.environment.course.as_mut().expect("the run follows decisions")
    }

    fn send(&mut self, to: NodeId, msg: P::Msg, copy: bool) {
        if self.course().leaves() {
            self.0.send(to, msg, copy);
        }
    }
}

impl<P: Protocol> Effects<P> for Decided<'_, P> {
    fn emit(&mut self, effect: Effect<P>) {
        match effect {
            Effect::Send { to, msg } => self.send(to, msg, false),
            Effect::Broadcast(msg) => {
                let (me, mut copy) = (self.0.me, false);
                for to in self.0.topology.nodes().filter(|&to| to != me) {
                    self.send(to, msg.clone(), copy);
                    copy = true;
                }
            }
            // The last message that leaves is the last thing that happens.
            _ if self.course().left == Some(0) => {}
            // It runs until it is decided that it has run out, however long that takes.
            Effect::SetTimer { timer, .. } => {
                let timers = &mut self.0.local.timers;
                if timers.iter().all(|(running, _)| *running != timer) {
                    timers.push((timer, 0));
                }
            }
            effect => self.0.emit(effect),
        }
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
