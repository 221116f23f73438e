use std::borrow::Cow;
use std::collections::BTreeMap;

use conclave_protocol::{Family, NodeId, NodeSet, Note, Observation, Ranks, Time, VectorClock};
use serde::{Deserialize, Serialize};

use crate::{End, Leaders, Records, Tracing};

mod record;

use self::record::Kind;
pub use self::record::{Owner, Record};

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
    /// Of messages of an application that something is wrapped around: the
    /// [fingerprint](conclave_protocol::Protocol::fingerprint) of what it says, by serial number, and
    /// 0 of all others; empty if there is no such message.
    pub fingerprints: Vec<u32>,
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

    /// Notes the fingerprint of what a message says.
    pub(crate) fn note_fingerprint(&mut self, serial: u32, fingerprint: u32) {
        let place = serial as usize;
        if self.fingerprints.len() <= place {
            self.fingerprints.resize(place + 1, 0);
        }
        self.fingerprints[place] = fingerprint;
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
