//! What is promised of snapshots.
//!
//! A node notes when it records its state, when a channel's content is known and when its part is
//! finished. Which snapshots a node has recorded for goes with each message of the application; so
//! whether a cut is consistent is judged from the messages themselves.

use std::time::Duration;

use super::{About, Family, Fault, Law, NoteKind, Now, PLAIN, Promise, Says, Tempo, Watch};
use crate::{NodeId, Note, Observation, Property};

/// Snapshots.
pub(super) static FAMILY: Family = Family {
    name: "snapshot",
    promises: PROMISES,
    // A snapshot spreads from node to node.
    settles: |nodes| nodes.saturating_mul(4),
    patience,
    notes: NOTES,
    records: Some(RECORDS),
    watch: Some(&WATCH),
    ..PLAIN
};

/// At boot: what the node owns, as far as that adds up.
pub const OWNS: u8 = 0;
/// The application asks for a snapshot.
pub const STARTS: u8 = 1;
/// The node records its state.
pub const RECORDS: u8 = 2;
/// What was on its way from a node is known.
pub const CLOSES: u8 = 3;
/// The node's part is finished; the value is what state and channels hold.
pub const HOLDS: u8 = 4;
/// The node that started a snapshot has all parts; the value is what they hold.
pub const COLLECTS: u8 = 5;

const NOTES: &[NoteKind] = &[
    NoteKind { name: "owns", words: |note| format!("owns {}", note.value) },
    NoteKind { name: "starts", words: |_| "starts a snapshot".to_owned() },
    NoteKind { name: "records", words: |note| format!("RECORDS #{}", note.number) },
    NoteKind {
        name: "closes",
        words: |note| format!("channel from {} done #{}", note.who, note.number),
    },
    NoteKind { name: "holds", words: holds },
    NoteKind { name: "collects", words: collects },
];

fn holds(note: &Note) -> String {
    match note.value {
        0 => format!("part done #{}", note.number),
        value => format!("part done #{}: {value}", note.number),
    }
}

fn collects(note: &Note) -> String {
    match note.value {
        0 => format!("has all parts #{}", note.number),
        value => format!("has all parts #{}: {value}", note.number),
    }
}

const PROMISES: &[Promise] = &[
    Promise {
        about: SNAPSHOTS,
        ..Promise::new(Property::Cut, Says::Always(Law { broken: torn, words: torn_in_words }))
    },
    Promise {
        about: Some((
            |mark| noted(mark, HOLDS).is_some_and(|note| note.value > 0),
            "no part of a snapshot holds anything that adds up",
        )),
        ..Promise::new(Property::Sum, Says::Always(Law { broken: odd, words: odd_in_words }))
    },
    Promise {
        about: SNAPSHOTS,
        ..Promise::new(
            Property::Done,
            Says::AtRest(Law { broken: unfinished, words: unfinished_in_words }),
        )
    },
    Promise {
        about: SNAPSHOTS,
        usual: false,
        ..Promise::new(
            Property::Collected,
            Says::AtRest(Law { broken: scattered, words: scattered_in_words }),
        )
    },
    Promise {
        facts: true,
        about: Some((
            |mark| noted(mark, OWNS).is_some_and(|note| note.value > 0),
            "no node owns anything that adds up",
        )),
        ..Promise::new(
            Property::Conserved,
            Says::Always(Law {
                broken: |now| now.facts().filter(|facts| facts & 1 == 0).map(|_| Fault::default()),
                words: |_, _| "accounts and channels do not hold every coin once".to_owned(),
            }),
        )
    },
];

const SNAPSHOTS: Option<About> =
    Some((|mark| noted(mark, RECORDS).is_some(), "no snapshot is taken"));

fn noted(mark: &Observation, kind: u8) -> Option<&Note> {
    match mark {
        Observation::Note(note) if note.kind == kind => Some(note),
        _ => None,
    }
}

/// Of each node the snapshots that it has recorded for, ascending, and then perhaps a breach. Of
/// the system what all own, and then its [`Snapshot`]s.
static WATCH: Watch = Watch {
    see: |words, _, mark| {
        if let Some(note) = noted(mark, RECORDS)
            && let Err(place) = words.binary_search(&u64::from(note.number))
        {
            words.insert(place, u64::from(note.number));
        }
    },
    see_all: |words, _, mark| {
        let Observation::Note(note) = mark else { return };
        if words.is_empty() {
            words.push(0);
        }
        match note.kind {
            OWNS => words[0] = words[0].wrapping_add(note.value),
            RECORDS => Snapshot::change(words, note.number, |_| {}),
            CLOSES => Snapshot::change(words, note.number, |it| it.closed += 1),
            HOLDS => Snapshot::change(words, note.number, |it| {
                it.parts += 1;
                it.sum = it.sum.wrapping_add(note.value);
            }),
            COLLECTS => Snapshot::change(words, note.number, |it| {
                it.collected += 1;
                it.gathered = it.gathered.wrapping_add(note.value);
            }),
            _ => {}
        }
    },
    carries: |words| words.iter().copied().filter(|word| word & BREACH == 0).collect(),
    arrives: |words, from, carried| {
        let unknown = carried.iter().find(|number| !words.contains(number));
        if let Some(number) = unknown
            && breach(words).is_none()
        {
            words.push(BREACH | u64::from(from.0) << 16 | number);
        }
    },
    forgets: false,
};

/// The mark of a word that says who sent a message outside the cut of which snapshot, and it was
/// received inside.
const BREACH: u64 = 1 << 63;

fn breach(words: &[u64]) -> Option<(NodeId, u64)> {
    let word = words.last().filter(|word| **word & BREACH != 0)?;
    Some((NodeId((word >> 16) as u32), word & 0xffff))
}

/// What is remembered of a snapshot.
#[derive(Clone, Copy)]
struct Snapshot {
    number: u64,
    /// How many nodes have finished their parts.
    parts: u64,
    /// What these hold.
    sum: u64,
    /// Of how many channels the content is known.
    closed: u64,
    /// How often all parts have come together.
    collected: u64,
    /// What these held there.
    gathered: u64,
}

impl Snapshot {
    /// So many words are remembered of each.
    const WORDS: usize = 6;

    fn all(history: &[u64]) -> impl Iterator<Item = Self> {
        let rest = history.get(1..).unwrap_or_default();
        rest.chunks_exact(Self::WORDS).map(|words| Self {
            number: words[0],
            parts: words[1],
            sum: words[2],
            closed: words[3],
            collected: words[4],
            gathered: words[5],
        })
    }

    fn of(history: &[u64], number: u64) -> Self {
        let known = Self::all(history).find(|it| it.number == number);
        let none = Self { number, parts: 0, sum: 0, closed: 0, collected: 0, gathered: 0 };
        known.unwrap_or(none)
    }

    fn change(history: &mut Vec<u64>, number: u16, change: impl FnOnce(&mut Self)) {
        let number = u64::from(number);
        let mut it = Self::of(history, number);
        change(&mut it);
        let words = [it.number, it.parts, it.sum, it.closed, it.collected, it.gathered];
        let size = Self::WORDS;
        let places = history[1..].chunks_exact(size).position(|known| known[0] >= number);
        let place = 1 + size * places.unwrap_or(history.len() / size);
        match history.get(place) {
            Some(known) if *known == number => {
                history[place..place + size].copy_from_slice(&words);
            }
            _ => drop(history.splice(place..place, words)),
        }
    }

    /// What it is called: snapshots are numbered round by round, in each by their initiators.
    fn name(self, now: &dyn Now) -> String {
        let nodes = u64::from(now.nodes());
        let (round, initiator) = (self.number / nodes, NodeId((self.number % nodes) as u32));
        format!("snapshot #{} ({initiator}'s number {})", self.number, round + 1)
    }
}

/// A message was received inside the cut of a snapshot and sent outside.
fn torn(now: &dyn Now) -> Option<Fault> {
    (0..now.nodes()).map(NodeId).find_map(|node| {
        let (from, number) = breach(now.noted(node))?;
        Some(Fault { nodes: [node, from], numbers: [number, 0] })
    })
}

fn torn_in_words(now: &dyn Now, fault: Fault) -> String {
    let ([node, from], [number, _]) = (fault.nodes, fault.numbers);
    let name = Snapshot::of(now.history(), number).name(now);
    format!(
        "{node} received a message before it recorded for {name} that {from} sent after it had \
         recorded"
    )
}

/// The parts of a snapshot do not add up to what there is.
fn odd(now: &dyn Now) -> Option<Fault> {
    let history = now.history();
    let all = u64::from(now.nodes());
    let wrong = |it: &Snapshot| it.parts == all && Some(&it.sum) != history.first();
    let wrong = Snapshot::all(history).find(wrong)?;
    Some(Fault { numbers: [wrong.number, wrong.sum], ..Fault::default() })
}

fn odd_in_words(now: &dyn Now, fault: Fault) -> String {
    let [number, sum] = fault.numbers;
    let name = Snapshot::of(now.history(), number).name(now);
    let total = now.history().first().copied().unwrap_or_default();
    format!("the parts of {name} add up to {sum}, and all there is to {total}")
}

/// A snapshot lacks a part, or not every channel was closed exactly once.
fn unfinished(now: &dyn Now) -> Option<Fault> {
    let all = u64::from(now.nodes());
    let lacks = |it: &Snapshot| it.parts != all || it.closed != now.channels();
    let number = Snapshot::all(now.history()).find(lacks)?.number;
    Some(Fault { numbers: [number, 0], ..Fault::default() })
}

fn unfinished_in_words(now: &dyn Now, fault: Fault) -> String {
    let it = Snapshot::of(now.history(), fault.numbers[0]);
    let (name, nodes, channels) = (it.name(now), now.nodes(), now.channels());
    let Snapshot { parts, closed, .. } = it;
    format!("{name} has {parts} parts of {nodes}, and {closed} markers of {channels} channels")
}

/// A snapshot has not come together where it was started, or not as it was recorded.
fn scattered(now: &dyn Now) -> Option<Fault> {
    let wrong = |it: &Snapshot| it.collected != 1 || it.gathered != it.sum;
    let number = Snapshot::all(now.history()).find(wrong)?.number;
    Some(Fault { numbers: [number, 0], ..Fault::default() })
}

fn scattered_in_words(now: &dyn Now, fault: Fault) -> String {
    let it = Snapshot::of(now.history(), fault.numbers[0]);
    let (name, Snapshot { collected, gathered, sum, .. }) = (it.name(now), it);
    match collected {
        0 => format!("the parts of {name} never come together at its initiator"),
        1 => format!("the parts of {name} hold {sum}, and {gathered} where they come together"),
        times => format!("{name} comes together {times} times at its initiator"),
    }
}

fn patience(tempo: &Tempo) -> Duration {
    tempo.hop.max(tempo.timer).saturating_mul(tempo.nodes.saturating_mul(4) + 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(kind: u8, number: u16, value: u64) -> Observation {
        Observation::Note(Note { kind, number, who: NodeId(0), value })
    }

    #[test]
    fn snapshots_are_kept_in_the_order_of_their_numbers() {
        let mut words = Vec::new();
        let marks = [
            note(OWNS, 0, 1),
            note(OWNS, 0, 4),
            note(RECORDS, 7, 0),
            note(RECORDS, 2, 0),
            note(CLOSES, 7, 0),
            note(HOLDS, 7, 5),
            note(HOLDS, 2, 3),
            note(RECORDS, 4, 0),
            note(COLLECTS, 7, 5),
        ];
        marks.iter().for_each(|mark| (WATCH.see_all)(&mut words, NodeId(1), mark));
        assert_eq!(words, [5, 2, 1, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 7, 1, 5, 1, 1, 5]);
    }

    #[test]
    fn a_message_from_outside_the_cut_breaks_it_unless_the_receiver_has_recorded_too() {
        let (mut sender, mut receiver) = (Vec::new(), Vec::new());
        (WATCH.see)(&mut sender, NodeId(0), &note(RECORDS, 3, 0));
        (WATCH.see)(&mut receiver, NodeId(1), &note(RECORDS, 3, 0));
        (WATCH.arrives)(&mut receiver, NodeId(0), &(WATCH.carries)(&sender));
        assert_eq!((breach(&receiver), &receiver), (None, &vec![3]));
        (WATCH.see)(&mut sender, NodeId(0), &note(RECORDS, 1, 0));
        (WATCH.arrives)(&mut receiver, NodeId(0), &(WATCH.carries)(&sender));
        assert_eq!(breach(&receiver), Some((NodeId(0), 1)));
        assert_eq!((WATCH.carries)(&receiver), [3]);
    }
}
