use std::borrow::Cow;
use std::collections::BTreeMap;

use conclave_protocol::{
    Charge, Family, NodeId, NodeSet, Note, Observation, Ranks, Time, Topology, VectorClock,
};
use serde::{Deserialize, Serialize};

use crate::{End, Leaders, Records, Tracing};

/// One event of a run, in 32 bytes.
///
/// Read it through [`event`](Self::event); the fields are packed differently for each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it happened.
    pub at: Time,
    /// Where.
    pub node: NodeId,
    /// The node's Lamport clock after it.
    pub lamport: u32,
    peer: u32,
    low: u32,
    high: u32,
    /// The lower half of a message's size; the upper is with its owner.
    bytes: u16,
    kind: Kind,
    label: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Send,
    /// A further copy of a broadcast.
    Copy,
    /// The same of control messages.
    Control,
    ControlCopy,
    Deliver,
    Lose,
    Timer,
    Crash,
    Recover,
    RecoverEmpty,
    Pause,
    Resume,
    Partition,
    Heal,
    Suspect,
    Restore,
    Join,
    Leave,
    Asked,
    Entered,
    Left,
    Lost,
    Called,
    Follows,
    Unled,
    Suspects,
    Trusts,
    /// What an application inside the algorithm does by itself.
    Asks,
    Leaves,
    NoteRequest,
    NoteNotice,
    OtherRequest,
    OtherNotice,
    Facts,
}

/// What a [`Record`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message leaves.
    Send {
        /// The receiver.
        to: NodeId,
        /// The number of the message, by which its arrival is recognised.
        serial: u32,
        /// Its name, an index into the trace's labels.
        label: u8,
        /// Whose entry it is counted for.
        owner: Owner,
        /// Its size on the wire, if sizes were measured; at most [`Event::MOST_BYTES`].
        bytes: u32,
        /// Whether it is a further copy of a broadcast, free on a medium that multicasts.
        copy: bool,
        /// Whether it is a control message of what is wrapped around the application, and none of
        /// the application's.
        control: bool,
    },
    /// A message arrives.
    Deliver {
        /// The sender.
        from: NodeId,
        /// The number it was sent under.
        serial: u32,
        /// Its name.
        label: u8,
    },
    /// A message will not arrive: the network lost it or its receiver was down. Recorded at the
    /// sender's node.
    Lose {
        /// The receiver it was meant for.
        to: NodeId,
        /// The number it was sent under.
        serial: u32,
        /// Its name.
        label: u8,
    },
    /// A timer runs out.
    Timer {
        /// Its name.
        label: u8,
    },
    /// A request of the application.
    Request(Observation),
    /// A notice to the application.
    Notice(Observation),
    /// The node stops.
    Crash,
    /// The node boots with what it saved.
    Recover,
    /// The node boots knowing nothing.
    RecoverEmpty,
    /// The node stops working for a while.
    Pause,
    /// The node goes on.
    Resume,
    /// The network falls apart, into groups that the trace has under this number.
    Partition(u32),
    /// The network is whole again.
    Heal,
    /// The failure detector suspects a peer.
    Suspect(NodeId),
    /// The failure detector trusts a peer again.
    Restore(NodeId),
    /// The node asks to join through a sponsor.
    Join(NodeId),
    /// The node asks to leave the group.
    Leave,
    /// What is true of the whole system from now on, a bit each. Recorded at the node whose step
    /// made it so, and no event of that node.
    Facts(u64),
}

impl Event {
    /// The largest size of a message that a record has room for.
    pub const MOST_BYTES: u32 = (1 << (48 - Owner::BITS)) - 1;

    /// Whether it is something done to the system from outside that it may take a while to get
    /// over.
    pub fn disturbs(self) -> bool {
        matches!(
            self,
            Self::Crash
                | Self::Recover
                | Self::RecoverEmpty
                | Self::Pause
                | Self::Resume
                | Self::Partition(_)
                | Self::Heal
                | Self::Suspect(_)
                | Self::Restore(_)
                | Self::Join(_)
                | Self::Leave
        )
    }
}

/// Whose entry a message is counted for, once the simulator has resolved its [`Charge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// This node's.
    Node(NodeId),
    /// That of whoever enters next.
    Next,
    /// Nobody's.
    Nobody,
}

impl Owner {
    /// Packed, an owner takes so many bits: twice as many values as there may be nodes.
    const BITS: u32 = Topology::MOST_NODES.ilog2() + 1;
    const NEXT: u32 = Self::NOBODY - 1;
    const NOBODY: u32 = (1 << Self::BITS) - 1;

    /// The owner of a message that an event owned by `cause` makes `from` send to `to`, both
    /// [packed](Self::pack).
    #[inline]
    pub(crate) fn resolve(charge: Charge, cause: u32, from: NodeId, to: NodeId) -> u32 {
        match charge {
            Charge::Sender => from.0,
            Charge::Receiver => to.0,
            Charge::Node(node) => node.0,
            Charge::Cause => cause,
            Charge::NextEntry => Self::NEXT,
            Charge::Nobody => Self::NOBODY,
        }
    }

    pub(crate) fn pack(self) -> u32 {
        match self {
            Self::Node(node) => node.0,
            Self::Next => Self::NEXT,
            Self::Nobody => Self::NOBODY,
        }
    }

    pub(crate) fn unpack(packed: u32) -> Self {
        match packed {
            Self::NEXT => Self::Next,
            Self::NOBODY => Self::Nobody,
            node => Self::Node(NodeId(node)),
        }
    }
}

impl Record {
    /// Of a message that leaves: as [`new`](Self::new) makes it, without a detour.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "every field of a hot record")]
    pub(crate) fn send(
        at: Time,
        node: NodeId,
        lamport: u32,
        to: NodeId,
        serial: u32,
        owner: u32,
        label: u8,
        bytes: u32,
        copy: bool,
        control: bool,
    ) -> Self {
        let kind = match (copy, control) {
            (false, false) => Kind::Send,
            (true, false) => Kind::Copy,
            (false, true) => Kind::Control,
            (true, true) => Kind::ControlCopy,
        };
        let high = owner | (bytes >> 16) << Owner::BITS;
        let bytes = bytes as u16;
        Self { at, node, lamport, peer: to.0, low: serial, high, bytes, kind, label }
    }

    /// Of a message that arrives: as [`new`](Self::new) makes it, without a detour.
    #[inline(always)]
    pub(crate) fn deliver(
        at: Time,
        node: NodeId,
        lamport: u32,
        from: NodeId,
        serial: u32,
        label: u8,
    ) -> Self {
        let (peer, low, kind) = (from.0, serial, Kind::Deliver);
        Self { at, node, lamport, peer, low, high: 0, bytes: 0, kind, label }
    }

    /// Of a request for the critical section that was due earlier than it could be made.
    pub(crate) fn overdue(mut self, due: Time) -> Self {
        debug_assert_eq!(self.kind, Kind::Asked);
        let late = self.at.max(due) - due;
        let late = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        (self.low, self.high) = (late as u32, (late >> 32) as u32);
        self
    }

    /// Of a request for the critical section: when it came to the application, which may have had
    /// to finish another one first.
    pub fn due(&self) -> Time {
        match self.kind {
            Kind::Asked => Time::from_nanos(self.at.as_nanos() - self.wide()),
            _ => self.at,
        }
    }

    fn wide(&self) -> u64 {
        u64::from(self.high) << 32 | u64::from(self.low)
    }

    pub(crate) fn new(at: Time, node: NodeId, lamport: u32, event: Event) -> Self {
        let blank = Self {
            at,
            node,
            lamport,
            peer: 0,
            low: 0,
            high: 0,
            bytes: 0,
            kind: Kind::Heal,
            label: 0,
        };
        let with = |kind| Self { kind, ..blank };
        let peer = |kind, peer: NodeId| Self { kind, peer: peer.0, ..blank };
        match event {
            Event::Send { to, serial, label, owner, bytes, copy, control } => {
                let owner = owner.pack();
                Self::send(at, node, lamport, to, serial, owner, label, bytes, copy, control)
            }
            Event::Deliver { from, serial, label } => {
                Self::deliver(at, node, lamport, from, serial, label)
            }
            Event::Lose { to, serial, label } => {
                Self { kind: Kind::Lose, peer: to.0, low: serial, label, ..blank }
            }
            Event::Timer { label } => Self { kind: Kind::Timer, label, ..blank },
            Event::Request(mark) => blank.marked(mark, true),
            Event::Notice(mark) => blank.marked(mark, false),
            Event::Crash => with(Kind::Crash),
            Event::Recover => with(Kind::Recover),
            Event::RecoverEmpty => with(Kind::RecoverEmpty),
            Event::Pause => with(Kind::Pause),
            Event::Resume => with(Kind::Resume),
            Event::Partition(number) => Self { kind: Kind::Partition, low: number, ..blank },
            Event::Heal => with(Kind::Heal),
            Event::Suspect(p) => peer(Kind::Suspect, p),
            Event::Restore(p) => peer(Kind::Restore, p),
            Event::Join(p) => peer(Kind::Join, p),
            Event::Leave => with(Kind::Leave),
            Event::Facts(facts) => blank.wide_of(Kind::Facts, facts),
        }
    }

    fn wide_of(self, kind: Kind, value: u64) -> Self {
        Self { kind, low: value as u32, high: (value >> 32) as u32, ..self }
    }

    fn marked(self, mark: Observation, request: bool) -> Self {
        let wide = |kind, value: u64| self.wide_of(kind, value);
        let either = |of_request, of_notice| if request { of_request } else { of_notice };
        match mark {
            Observation::Asked => Self { kind: either(Kind::Asked, Kind::Asks), ..self },
            Observation::Entered { token } => wide(Kind::Entered, token),
            Observation::Left => Self { kind: either(Kind::Left, Kind::Leaves), ..self },
            Observation::Lost => Self { kind: Kind::Lost, ..self },
            Observation::Called => Self { kind: Kind::Called, ..self },
            Observation::Follows { leader, epoch } => {
                Self { peer: leader.0, ..wide(Kind::Follows, epoch) }
            }
            Observation::Unled => Self { kind: Kind::Unled, ..self },
            Observation::Suspects(peer) => Self { kind: Kind::Suspects, peer: peer.0, ..self },
            Observation::Trusts(peer) => Self { kind: Kind::Trusts, peer: peer.0, ..self },
            Observation::Note(Note { kind, number, who, value }) => Self {
                peer: who.0,
                bytes: number,
                label: kind,
                ..wide(either(Kind::NoteRequest, Kind::NoteNotice), value)
            },
            Observation::Other => {
                Self { kind: either(Kind::OtherRequest, Kind::OtherNotice), ..self }
            }
        }
    }

    /// What happened.
    pub fn event(&self) -> Event {
        let (peer, serial, label) = (NodeId(self.peer), self.low, self.label);
        let wide = self.wide();
        let note =
            || Observation::Note(Note { kind: label, number: self.bytes, who: peer, value: wide });
        match self.kind {
            Kind::Send | Kind::Copy | Kind::Control | Kind::ControlCopy => Event::Send {
                to: peer,
                serial,
                label,
                owner: Owner::unpack(self.high & Owner::NOBODY),
                bytes: self.high >> Owner::BITS << 16 | u32::from(self.bytes),
                copy: matches!(self.kind, Kind::Copy | Kind::ControlCopy),
                control: matches!(self.kind, Kind::Control | Kind::ControlCopy),
            },
            Kind::Deliver => Event::Deliver { from: peer, serial, label },
            Kind::Lose => Event::Lose { to: peer, serial, label },
            Kind::Timer => Event::Timer { label },
            Kind::Crash => Event::Crash,
            Kind::Recover => Event::Recover,
            Kind::RecoverEmpty => Event::RecoverEmpty,
            Kind::Pause => Event::Pause,
            Kind::Resume => Event::Resume,
            Kind::Partition => Event::Partition(self.low),
            Kind::Heal => Event::Heal,
            Kind::Suspect => Event::Suspect(peer),
            Kind::Restore => Event::Restore(peer),
            Kind::Join => Event::Join(peer),
            Kind::Leave => Event::Leave,
            Kind::Asked => Event::Request(Observation::Asked),
            Kind::Left => Event::Request(Observation::Left),
            Kind::Called => Event::Request(Observation::Called),
            Kind::Asks => Event::Notice(Observation::Asked),
            Kind::Leaves => Event::Notice(Observation::Left),
            Kind::NoteRequest => Event::Request(note()),
            Kind::NoteNotice => Event::Notice(note()),
            Kind::OtherRequest => Event::Request(Observation::Other),
            Kind::Entered => Event::Notice(Observation::Entered { token: wide }),
            Kind::Lost => Event::Notice(Observation::Lost),
            Kind::Follows => Event::Notice(Observation::Follows { leader: peer, epoch: wide }),
            Kind::Unled => Event::Notice(Observation::Unled),
            Kind::Suspects => Event::Notice(Observation::Suspects(peer)),
            Kind::Trusts => Event::Notice(Observation::Trusts(peer)),
            Kind::OtherNotice => Event::Notice(Observation::Other),
            Kind::Facts => Event::Facts(wide),
        }
    }
}

/// A run, event by event, and how it ended: all that a judge has to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The id of the algorithm.
    pub algorithm: String,
    /// How many nodes took part.
    pub nodes: u32,
    /// How many links there were, each direction counted.
    pub channels: u64,
    /// How good a leader each would be.
    pub ranks: Ranks,
    /// How far what happened was recorded.
    pub tracing: Tracing,
    /// Why it ended.
    pub end: End,
    /// When it ended.
    pub ended: Time,
    /// What happened, in order.
    pub records: Records,
    /// The names of messages and timers.
    pub labels: Vec<Cow<'static, str>>,
    /// The groups of each partition: the number of the group that a node is in, by node.
    pub partitions: Vec<Vec<u32>>,
    /// In traces of mere counts: how many messages of each name were sent, by label.
    pub counts: Vec<u64>,
    /// In traces of mere counts: of each node the last event that says whether it is up and whom
    /// it follows; empty as long as there was none.
    pub latest: Vec<Option<Record>>,
    /// In traces of mere counts: the last event that says whether the network is whole.
    pub network: Option<Record>,
    /// In full traces: what each message said, by serial number, as JSON.
    pub messages: Vec<Box<str>>,
    /// In full traces: what each request, notice and timer was, by record, as JSON.
    pub notes: BTreeMap<usize, Box<str>>,
    /// In full traces: the state of a node after the step that a record began, as JSON.
    pub states: BTreeMap<usize, Box<str>>,
    /// In full traces: what else is known of the step that a record began.
    pub steps: BTreeMap<usize, Step>,
    /// In full traces: the state of each node after it booted for the first time, as JSON, and what
    /// is known of that step.
    pub booted: Vec<(Box<str>, Step)>,
}

/// What is known of a step, beside what it sent and told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The [numbered rules](conclave_protocol::Ctx::rule) that ran, bit n standing for rule n.
    pub rules: u32,
    /// The timers that were set or cancelled, in order.
    pub alarms: Vec<Alarm>,
    /// Whom the node waits for after it.
    pub waits: NodeSet,
}

/// A timer is set or cancelled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Alarm {
    /// It is started, or started again.
    Set {
        /// Its name, as its type prints it for debugging.
        set: String,
        /// How long it runs by the node's own clock, in nanoseconds.
        after: u64,
    },
    /// It is stopped.
    Cancelled {
        /// Its name.
        cancelled: String,
    },
}

impl Trace {
    pub(crate) fn label(&mut self, name: &'static str) -> u8 {
        let known = self.labels.iter().position(|known| known.as_ptr() == name.as_ptr());
        // The same name may live at two addresses.
        let known = known.or_else(|| self.labels.iter().position(|known| known == name));
        known.unwrap_or_else(|| {
            assert!(self.labels.len() < 256, "an algorithm has fewer than 256 kinds of message");
            self.labels.push(Cow::Borrowed(name));
            self.labels.len() - 1
        }) as u8
    }

    /// As [`label`](Self::label), of a name that was read.
    pub(crate) fn intern(&mut self, name: &str) -> Result<u8, String> {
        let known = self.labels.iter().position(|known| known == name);
        let place = known.unwrap_or_else(|| {
            self.labels.push(Cow::Owned(name.to_owned()));
            self.labels.len() - 1
        });
        u8::try_from(place).map_err(|_| "more than 256 names of messages and timers".to_owned())
    }

    /// Counts a message.
    pub(crate) fn count(&mut self, name: &'static str) {
        let label = usize::from(self.label(name));
        if self.counts.len() <= label {
            self.counts.resize(label + 1, 0);
        }
        self.counts[label] += 1;
    }

    /// Notes the groups of a partition; returns the event that tells of it.
    pub(crate) fn partition(&mut self, groups: Vec<u32>) -> Event {
        self.partitions.push(groups);
        Event::Partition(self.partitions.len() as u32 - 1)
    }

    /// Remembers an event that is not recorded, if the end of the run is judged by it.
    pub(crate) fn keep(&mut self, record: Record) {
        match record.kind {
            Kind::Crash | Kind::Recover | Kind::RecoverEmpty | Kind::Follows | Kind::Unled => {
                self.latest.resize(self.nodes as usize, None);
                self.latest[record.node.index()] = Some(record);
            }
            Kind::Partition | Kind::Heal => self.network = Some(record),
            _ => {}
        }
    }

    /// Who is up and takes whom for the leader when the run is over.
    pub fn leaders(&self) -> Leaders {
        Leaders::of(self)
    }

    /// A note in words.
    pub fn words(&self, note: &Note) -> String {
        Family::of_id(&self.algorithm).words(note)
    }

    /// The name behind a label.
    pub fn name(&self, label: u8) -> &str {
        self.labels.get(usize::from(label)).map_or("?", AsRef::as_ref)
    }

    /// The vector clock of each event, the oracle for causality.
    pub fn vector_clocks(&self) -> Vec<VectorClock> {
        let mut clocks = vec![VectorClock::new(self.nodes as usize); self.nodes as usize];
        let mut sent: BTreeMap<u32, VectorClock> = BTreeMap::new();
        self.records
            .iter()
            .map(|record| {
                let clock = &mut clocks[record.node.index()];
                match record.event() {
                    Event::Send { serial, .. } => {
                        clock.tick(record.node);
                        sent.insert(serial, clock.clone());
                    }
                    Event::Deliver { serial, .. } => match sent.get(&serial) {
                        Some(sender) => clock.receive(sender, record.node),
                        None => clock.tick(record.node),
                    },
                    // Not an event of the sender: the network's doing, noted where it began.
                    Event::Lose { .. } => {}
                    // No event of any node.
                    Event::Facts(_) => {}
                    _ => clock.tick(record.node),
                }
                clock.clone()
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_takes_32_bytes_and_gives_back_what_was_put_in() {
        assert_eq!(size_of::<Record>(), 32);
        let big = 0x1234_5678_9abc_def0;
        let note = Note { kind: 3, number: 0xabcd, who: NodeId(9), value: big };
        let events = [
            Event::Send {
                to: NodeId(3),
                serial: 9,
                label: 2,
                owner: Owner::Node(NodeId(7)),
                bytes: 12,
                copy: true,
                control: false,
            },
            Event::Send {
                to: NodeId(3),
                serial: 9,
                label: 2,
                owner: Owner::Next,
                bytes: Event::MOST_BYTES,
                copy: false,
                control: true,
            },
            Event::Send {
                to: NodeId(3),
                serial: 9,
                label: 2,
                owner: Owner::Nobody,
                bytes: 65_536,
                copy: true,
                control: true,
            },
            Event::Send {
                to: NodeId(3),
                serial: 9,
                label: 2,
                owner: Owner::Node(NodeId(Topology::MOST_NODES - 1)),
                bytes: 65_535,
                copy: false,
                control: false,
            },
            Event::Deliver { from: NodeId(1), serial: 4, label: 1 },
            Event::Lose { to: NodeId(1), serial: 4, label: 1 },
            Event::Timer { label: 5 },
            Event::Request(Observation::Asked),
            Event::Request(Observation::Left),
            Event::Request(Observation::Other),
            Event::Notice(Observation::Entered { token: big }),
            Event::Notice(Observation::Lost),
            Event::Notice(Observation::Follows { leader: NodeId(2), epoch: big }),
            Event::Notice(Observation::Unled),
            Event::Notice(Observation::Suspects(NodeId(2))),
            Event::Notice(Observation::Other),
            Event::Notice(Observation::Asked),
            Event::Notice(Observation::Left),
            Event::Request(Observation::Note(note)),
            Event::Notice(Observation::Note(note)),
            Event::Facts(big),
            Event::Crash,
            Event::Partition(7),
            Event::Suspect(NodeId(6)),
            Event::Join(NodeId(6)),
        ];
        for event in events {
            let record = Record::new(Time::from_nanos(5), NodeId(1), 8, event);
            assert_eq!((record.event(), record.lamport), (event, 8));
        }
    }

    #[test]
    fn a_late_request_knows_when_it_was_due() {
        let at = Time::from_nanos(1 << 40);
        let asked = Record::new(at, NodeId(1), 8, Event::Request(Observation::Asked));
        assert_eq!(asked.due(), at);
        let late = asked.overdue(Time::from_nanos(7));
        assert_eq!((late.due(), late.event()), (Time::from_nanos(7), asked.event()));
        assert_eq!(asked.overdue(Time::MAX).due(), at);
    }
}
