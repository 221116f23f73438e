//! The storage form of events.

use conclave_protocol::{Charge, NodeId, Note, Observation, Time, Topology};
use serde::{Deserialize, Serialize};

use crate::Event;

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
    pub(super) kind: Kind,
    label: u8,
}

/// A part of an event, at its place in a record.
trait Slot {
    type Part;
    fn put(record: &mut Record, part: Self::Part);
    fn get(record: &Record) -> Self::Part;
}

/// Declares where a record keeps the parts of each event: a slot has the type of the part it is for.
macro_rules! slots {
    ($($slot:ident: $part:ty, |$record:ident| $get:expr, |$value:ident| $put:expr;)+) => {$(
        struct $slot;

        impl Slot for $slot {
            type Part = $part;

            #[inline(always)]
            fn put($record: &mut Record, $value: $part) {
                $put;
            }

            #[inline(always)]
            fn get($record: &Record) -> $part {
                $get
            }
        }
    )+};
}

slots! {
    Peer: NodeId, |record| NodeId(record.peer), |node| record.peer = node.0;
    Low: u32, |record| record.low, |number| record.low = number;
    Wide: u64,
        |record| u64::from(record.high) << 32 | u64::from(record.low),
        |value| (record.low, record.high) = (value as u32, (value >> 32) as u32);
    Short: u16, |record| record.bytes, |number| record.bytes = number;
    Label: u8, |record| record.label, |label| record.label = label;
    Payer: Owner,
        |record| Owner::unpack(record.high & Owner::NOBODY),
        |owner| record.high |= owner.pack();
    // The lower half of a size, the upper being behind the owner.
    Size: u32,
        |record| record.high >> Owner::BITS << 16 | u32::from(record.bytes),
        |size| {
            record.high |= (size >> 16) << Owner::BITS;
            record.bytes = size as u16;
        };
}

/// Makes of one table what a record says and how it is written: the name of each kind with the slots
/// of its parts, the event that they make up, and other events that are recorded as the same.
macro_rules! kinds {
    ($($(#[$about:meta])* $kind:ident($($part:ident: $slot:ident),*)
        { $($event:tt)+ } $(| { $($same:tt)+ })?)+) => {
        /// What kind of [`Event`] a record holds.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(super) enum Kind {
            $($(#[$about])* $kind,)+
        }

        impl Record {
            pub(crate) fn new(at: Time, node: NodeId, lamport: u32, event: Event) -> Self {
                let blank = |kind| Self {
                    at,
                    node,
                    lamport,
                    peer: 0,
                    low: 0,
                    high: 0,
                    bytes: 0,
                    kind,
                    label: 0,
                };
                match event {
                    $($($event)+ $(| $($same)+)? => {
                        #[allow(unused_mut, reason = "of some kinds there is no more to say")]
                        let mut record = blank(Kind::$kind);
                        $($slot::put(&mut record, $part);)*
                        record
                    })+
                }
            }

            /// What happened.
            pub fn event(&self) -> Event {
                match self.kind {
                    $(Kind::$kind => {
                        $(let $part = $slot::get(self);)*
                        $($event)+
                    })+
                }
            }
        }
    };
}

kinds! {
    Send(to: Peer, serial: Low, label: Label, owner: Payer, bytes: Size) {
        Event::Send { to, serial, label, owner, bytes, copy: false, control: false }
    }
    /// A further copy of a broadcast.
    Copy(to: Peer, serial: Low, label: Label, owner: Payer, bytes: Size) {
        Event::Send { to, serial, label, owner, bytes, copy: true, control: false }
    }
    /// The same of control messages.
    Control(to: Peer, serial: Low, label: Label, owner: Payer, bytes: Size) {
        Event::Send { to, serial, label, owner, bytes, copy: false, control: true }
    }
    ControlCopy(to: Peer, serial: Low, label: Label, owner: Payer, bytes: Size) {
        Event::Send { to, serial, label, owner, bytes, copy: true, control: true }
    }
    Deliver(from: Peer, serial: Low, label: Label) { Event::Deliver { from, serial, label } }
    Lose(to: Peer, serial: Low, label: Label) { Event::Lose { to, serial, label } }
    Timer(label: Label) { Event::Timer { label } }
    Crash() { Event::Crash }
    Recover() { Event::Recover }
    RecoverEmpty() { Event::RecoverEmpty }
    Pause() { Event::Pause }
    Resume() { Event::Resume }
    Partition(groups: Low) { Event::Partition(groups) }
    Heal() { Event::Heal }
    Suspect(peer: Peer) { Event::Suspect(peer) }
    Restore(peer: Peer) { Event::Restore(peer) }
    Join(sponsor: Peer) { Event::Join(sponsor) }
    Leave() { Event::Leave }
    Asked() { Event::Request(Observation::Asked) }
    Left() { Event::Request(Observation::Left) }
    Called() { Event::Request(Observation::Called) } | { Event::Notice(Observation::Called) }
    NoteRequest(kind: Label, number: Short, who: Peer, value: Wide) {
        Event::Request(Observation::Note(Note { kind, number, who, value }))
    }
    OtherRequest() { Event::Request(Observation::Other) }
    /// What an application inside the algorithm does by itself.
    Asks() { Event::Notice(Observation::Asked) }
    Leaves() { Event::Notice(Observation::Left) }
    Entered(token: Wide) { Event::Notice(Observation::Entered { token }) }
        | { Event::Request(Observation::Entered { token }) }
    Lost() { Event::Notice(Observation::Lost) } | { Event::Request(Observation::Lost) }
    Follows(leader: Peer, epoch: Wide) { Event::Notice(Observation::Follows { leader, epoch }) }
        | { Event::Request(Observation::Follows { leader, epoch }) }
    Unled() { Event::Notice(Observation::Unled) } | { Event::Request(Observation::Unled) }
    Suspects(peer: Peer) { Event::Notice(Observation::Suspects(peer)) }
        | { Event::Request(Observation::Suspects(peer)) }
    Trusts(peer: Peer) { Event::Notice(Observation::Trusts(peer)) }
        | { Event::Request(Observation::Trusts(peer)) }
    NoteNotice(kind: Label, number: Short, who: Peer, value: Wide) {
        Event::Notice(Observation::Note(Note { kind, number, who, value }))
    }
    OtherNotice() { Event::Notice(Observation::Other) }
    Facts(facts: Wide) { Event::Facts(facts) }
}

/// Whose entry a message is counted for, once the simulator has resolved its [`Charge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// This node's.
    Node(NodeId),
    /// That of the next node to enter.
    Next,
    /// No entry.
    Nobody,
}

impl Owner {
    /// Packed, an owner takes so many bits: twice as many values as there may be nodes.
    pub(super) const BITS: u32 = Topology::MOST_NODES.ilog2() + 1;
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
        Wide::put(&mut self, late);
        self
    }

    /// Of a request for the critical section: when it came to the application, which may have had
    /// to finish another one first.
    pub fn due(&self) -> Time {
        match self.kind {
            Kind::Asked => Time::from_nanos(self.at.as_nanos() - Wide::get(self)),
            _ => self.at,
        }
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
            if let Event::Send { to, serial, label, owner, bytes, copy, control } = event {
                let (at, node, owner) = (record.at, record.node, owner.pack());
                let direct =
                    Record::send(at, node, 8, to, serial, owner, label, bytes, copy, control);
                assert_eq!(record, direct);
            }
            if let Event::Deliver { from, serial, label } = event {
                assert_eq!(record, Record::deliver(record.at, record.node, 8, from, serial, label));
            }
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
