//! A run as processes, their events and the messages between them.

use std::collections::BTreeMap;
use std::ops::Range;

use conclave_protocol::{Family, NodeId, Observation};
use conclave_sim::{Event, Trace};

use crate::diagram::steps::{Step, steps};

/// Which steps of a run are events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Those of the application: control messages do not count, nor do steps that do nothing but
    /// take or send some.
    #[default]
    Application,
    /// All of them.
    Everything,
}

/// A run as processes, their events and the messages between them: all that cuts are about.
///
/// An event is a step of a node: one thing that comes to it (a message, a timer, a request of its
/// application, a crash, the return from it, a word of its failure detector, a join or a leave) with
/// all that it sends and tells because of that. Booting for the first time is no event: it makes the
/// state at the beginning, in which what it sent is on its way. What the network does is no event of
/// a node, nor is a pause. A node's events are numbered from 1.
#[derive(Clone, Debug)]
pub struct Computation {
    /// The events of each node, in order.
    pub events: Vec<Vec<Happening>>,
    /// Whose event came next, in the run that happened.
    pub run: Vec<NodeId>,
    /// What each node told its application when it booted for the first time.
    pub booted: Vec<Vec<Observation>>,
    /// The messages, in the order of sending.
    pub messages: Vec<Sent>,
    /// The snapshots that were recorded, by number.
    pub snapshots: Vec<Recorded>,
}

/// An event of a node.
#[derive(Clone, Debug)]
pub struct Happening {
    /// The records of it in the trace.
    pub records: Range<usize>,
    /// The message that it received, an index into the messages.
    pub received: Option<usize>,
    /// What it told the application.
    pub notices: Vec<Observation>,
    /// What came to the node.
    pub cause: Event,
}

/// A message between two events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The sender.
    pub from: NodeId,
    /// The receiver.
    pub to: NodeId,
    /// The number of the message in the trace.
    pub serial: u32,
    /// Its name, an index into the trace's labels.
    pub label: u8,
    /// The sender's event that sent it; 0 if it did so by booting.
    pub sent: u32,
    /// The receiver's event that received it first, if one did.
    pub received: Option<u32>,
    /// Whether it got lost: then it is in no channel.
    pub lost: bool,
}

/// A snapshot, as far as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its number.
    pub number: u16,
    /// How many events of each node came before it recorded; `None` of those that did not.
    pub cut: Vec<Option<u32>>,
}

impl Recorded {
    /// The cut, if every node has recorded.
    pub fn whole(&self) -> Option<Vec<u32>> {
        self.cut.iter().copied().collect()
    }
}

impl Computation {
    /// That of a recorded run.
    pub fn new(trace: &Trace, scope: Scope) -> Self {
        let nodes = trace.nodes as usize;
        let family = Family::of_id(&trace.algorithm);
        let mut all = Self {
            events: vec![Vec::new(); nodes],
            run: Vec::new(),
            booted: vec![Vec::new(); nodes],
            messages: Vec::new(),
            snapshots: Vec::new(),
        };
        let mut snapshots: BTreeMap<u16, Vec<Option<u32>>> = BTreeMap::new();
        // Where each message is, by serial number; none of control messages that do not count.
        let mut known: BTreeMap<u32, usize> = BTreeMap::new();
        for step in steps(trace) {
            let before = all.events[step.node.index()].len() as u32;
            for note in step.notices.iter().filter_map(|mark| family.recorded(mark)) {
                let cut = snapshots.entry(note).or_insert_with(|| vec![None; nodes]);
                cut[step.node.index()].get_or_insert(before);
            }
            if let Some(Event::Lose { serial, .. }) = step.cause {
                if let Some(&place) = known.get(&serial) {
                    let message = &mut all.messages[place];
                    message.lost |= message.received.is_none();
                }
                continue;
            }
            let number = match step.cause {
                None => 0,
                Some(Event::Pause | Event::Resume | Event::Partition(_) | Event::Heal) => continue,
                Some(_) if scope == Scope::Application && is_control(&step) => continue,
                Some(_) => before + 1,
            };
            let mut received = None;
            if let Some(Event::Deliver { serial, .. }) = step.cause
                && let Some(&place) = known.get(&serial)
            {
                all.messages[place].received.get_or_insert(number);
                all.messages[place].lost = false;
                received = Some(place);
            }
            for sent in step.sends.iter().filter(|sent| scope == Scope::Everything || !sent.control)
            {
                known.insert(sent.serial, all.messages.len());
                all.messages.push(Sent {
                    from: step.node,
                    to: sent.to,
                    serial: sent.serial,
                    label: sent.label,
                    sent: number,
                    received: None,
                    lost: sent.lost,
                });
            }
            let Step { node, records, notices, cause, .. } = step;
            match cause {
                Some(cause) => {
                    all.run.push(node);
                    let event = Happening { records, received, notices, cause };
                    all.events[node.index()].push(event);
                }
                None => all.booted[node.index()].extend(notices),
            }
        }
        let recorded = |(number, cut)| Recorded { number, cut };
        all.snapshots = snapshots.into_iter().map(recorded).collect();
        all
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.events.len()
    }

    /// How many events each node has.
    pub fn lengths(&self) -> Vec<u32> {
        self.events.iter().map(|events| events.len() as u32).collect()
    }

    /// The sender of the message that an event received, and the number of the event that sent it;
    /// `None` if it received none, or one that was there from the beginning.
    pub fn needs(&self, node: usize, number: u32) -> Option<(usize, u32)> {
        let event = self.events[node].get((number as usize).checked_sub(1)?)?;
        let message = &self.messages[event.received?];
        (message.sent > 0).then_some((message.from.index(), message.sent))
    }

    /// The messages that are received inside a cut and sent outside.
    pub fn torn<'a>(&'a self, cut: &'a [u32]) -> impl Iterator<Item = &'a Sent> {
        self.messages.iter().filter(|it| it.breaks(cut))
    }

    fn first_torn(&self, cut: &[u32]) -> Option<&Sent> {
        self.messages.iter().find(|it| it.breaks(cut))
    }

    /// Whether no message is received inside a cut and sent outside.
    pub fn is_consistent(&self, cut: &[u32]) -> bool {
        self.first_torn(cut).is_none()
    }

    /// The messages that a cut finds on their way: sent inside, received outside or never, and not
    /// lost.
    pub fn under_way<'a>(&'a self, cut: &'a [u32]) -> impl Iterator<Item = &'a Sent> {
        self.messages
            .iter()
            .filter(|it| it.sent <= cut[it.from.index()] && !it.is_received_in(cut) && !it.lost)
    }

    /// The largest consistent cut within a cut.
    pub fn largest_within(&self, cut: &[u32]) -> Vec<u32> {
        let mut cut = cut.to_vec();
        while let Some(torn) = self.first_torn(&cut) {
            cut[torn.to.index()] = torn.received.expect("it is received inside") - 1;
        }
        cut
    }

    /// The smallest consistent cut around a cut.
    pub fn smallest_around(&self, cut: &[u32]) -> Vec<u32> {
        let mut cut = cut.to_vec();
        while let Some(torn) = self.first_torn(&cut) {
            cut[torn.from.index()] = torn.sent;
        }
        cut
    }
}

impl Sent {
    fn is_received_in(&self, cut: &[u32]) -> bool {
        self.received.is_some_and(|number| number <= cut[self.to.index()])
    }

    /// Whether it is received inside a cut and sent outside.
    fn breaks(&self, cut: &[u32]) -> bool {
        self.is_received_in(cut) && self.sent > cut[self.from.index()]
    }
}

/// Whether a step is only about control messages, or asks for what only these bring about.
fn is_control(step: &Step) -> bool {
    let cause = match step.cause {
        Some(Event::Deliver { .. }) => step.control,
        Some(Event::Request(Observation::Note(_))) => true,
        _ => false,
    };
    let sends = || step.sends.iter().any(|sent| !sent.control);
    let tells = || step.notices.iter().any(|mark| !matches!(mark, Observation::Note(_)));
    cause && !sends() && !tells()
}
